/* Who is connected: dialing, accepting, silence, and what is said about it. */
#include "base/say.h"
#include "mem/far/impl.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PULSES_A_SILENCE = 6 };

#define STRANGER_NS (1000 * MS) /* between two lines about strangers */
#define STEADY_NS (1000 * MS)   /* how long a link has to be up to count */

struct peer *far_peer_add(struct far *o, uint32_t node, const char *name)
{
    struct peer *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->node = node;
    p->host = node < o->hosts_count;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->dial_wait_ns = DIAL_NS_MIN;
    if (o->lives)
        p->lives = p->host ? o->lives->host(o->lives->ctx, node)
                           : o->lives->place(o->lives->ctx, node - o->hosts_count);
    o->peers[node] = p;
    return p;
}

/* The same is said once in a row, however often it is tried. */
void far_peer_say(struct far *o, struct peer *p, bool warn, const char *fmt, ...)
{
    char text[sizeof p->said];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    /* That one host refuses us says more than that another is not there. */
    if (warn || !o->refused)
        snprintf(o->trouble, sizeof o->trouble, "%s (%s): %s", p->name, p->where, text);
    if (strcmp(text, p->said) == 0)
        return;
    memcpy(p->said, text, sizeof text);
    (warn ? say_warn : say_info)(&o->say, "%s: %s%s%s%s: %s", o->name, p->name,
                                 p->where[0] ? " (" : "", p->where, p->where[0] ? ")" : "", text);
}

/* ---- ends ---- */

/* A name may mean another address by now. In a thread of its own: the next attempt goes by what it has found. */
static void look_up_again(struct peer *p)
{
    if (p->address_name && !p->lookup)
        p->lookup = lookup_start(p->address_name, p->port, ++p->lookups);
}

static void dial_later(struct far *o, struct peer *p)
{
    p->dial_ns = o->now_ns + p->dial_wait_ns;
    p->dial_wait_ns = p->dial_wait_ns * 2 < DIAL_NS_MAX ? p->dial_wait_ns * 2 : DIAL_NS_MAX;
}

void far_peer_link_ended(struct link *l, bool by_other, const char *why)
{
    struct far *o = l->node;
    struct peer *p = l->peer;
    bool was_up = p && p->link == l;

    if (!p)
        return;
    if (p->dialing == l)
        p->dialing = NULL;
    p->asked = false; /* who looks does not ask twice */
    if (p->host && o->host)
        far_roll_link_ended(l);
    if (was_up) {
        p->link = NULL;
        far_lanes_link_ended(l);
        /* Its kernel, or itself, has closed: most likely it is dead. One that we gave up may just be
         * out of reach. */
        p->gone = by_other;
        /* One that ends as soon as it is made is as good as none. */
        if (o->now_ns - l->up_ns > STEADY_NS) {
            p->dial_wait_ns = DIAL_NS_MIN;
            p->said[0] = 0;
        }
        if (!p->left && !o->leaving)
            far_peer_say(o, p, p->host, "the connection has ended: %s", why);
        if (!p->host)
            far_place_freed(l, by_other || p->left);
    } else if (l->state != LINK_REFUSED) {
        if (l->held_back)
            far_place_freed(l, true);
        far_peer_say(o, p, false, "no connection: %s", why);
        if (l->dialed && !o->leaving)
            look_up_again(p);
    }
    dial_later(o, p);
}

/* Nobody is there who would be a link; `why` NULL: that was said. */
void far_peer_dial_failed(struct far *o, struct peer *p, const char *why)
{
    p->dials = false;
    p->asked = false;
    if (why)
        far_peer_say(o, p, false, "no connection: %s", why);
    look_up_again(p);
    dial_later(o, p);
}

/* ---- dialing ---- */

static void take_address(struct far *o, struct peer *p)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    const char *why;

    if (!p->lookup || !lookup_take(p->lookup, &address, &bytes, &why))
        return;
    p->lookup = NULL;
    if (bytes == 0) {
        far_peer_say(o, p, true, "its address is not known: %s", why);
        return;
    }
    p->address = address;
    p->address_bytes = bytes;
}

static void dial(struct far *o, struct peer *p)
{
    take_address(o, p);
    if (p->address_bytes == 0) {
        p->dial_wait_ns = DIAL_NS_MAX;
        p->dial_ns = o->now_ns + p->dial_wait_ns;
        look_up_again(p);
        return;
    }
    p->dial_ns = o->now_ns + p->dial_wait_ns;
    o->carrier->dial(o, p);
}

/* Of two hosts the one with the higher number dials; clients dial those hosts that they need. */
static bool ours_to_dial(const struct far *o, const struct peer *p)
{
    if (!p->host || p->node == o->mem.self)
        return false;
    if (o->looks)
        return p->asked;
    if (!o->host) /* one host after the other is asked for a place */
        return o->mem.self == FAR_ANY ? p->node == o->giver : p->wanted;
    return p->node < o->mem.self;
}

/* ---- accepting ---- */

/* Without the port: it is another one each time that somebody tries. */
static void show_address(const struct sockaddr *a, char *out, size_t bytes)
{
    const void *ip =
        a == NULL                  ? NULL
        : a->sa_family == AF_INET  ? &((const struct sockaddr_in *)(const void *)a)->sin_addr
        : a->sa_family == AF_INET6 ? &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
                                   : (const void *)NULL;
    if (ip == NULL || inet_ntop(a->sa_family, ip, out, (socklen_t)bytes) == NULL)
        snprintf(out, bytes, "an unknown address");
}

/* Once for each address and reason, and not more often than strangers may come from new ones. */
void far_stranger_say(struct far *o, const struct sockaddr *a, const char *why)
{
    char from[INET6_ADDRSTRLEN];

    if (o->stranger_ns && o->now_ns - o->stranger_ns < STRANGER_NS)
        return;
    show_address(a, from, sizeof from);
    if (say_event_once(&o->strangers, &o->say, SAY_EVENT_REFUSED,
                       "%s: a connection from %s was refused: %s", o->name, from, why))
        o->stranger_ns = o->now_ns ? o->now_ns : 1;
}

/* The peer of that number, known or not. NULL: there can be none. */
struct peer *far_peer_get(struct far *o, uint32_t node)
{
    char name[32];

    if (node >= o->hosts_count + o->clients || peer_at(o, node))
        return node >= o->hosts_count + o->clients ? NULL : peer_at(o, node);
    snprintf(name, sizeof name, "client-%u", node - o->hosts_count);
    return far_peer_add(o, node, name);
}

/* ---- chores ---- */

static void link_look_after(struct far *o, struct link *l)
{
    uint64_t silent = l->peer && !l->peer->host ? CLIENT_SILENT_NS : o->silent_ns;

    if (l->state != LINK_UP) {
        if (o->now_ns - l->since_ns > HANDSHAKE_NS)
            link_close(l, false, "no answer");
        return;
    }
    if (o->now_ns > l->heard_ns + silent)
        link_close(l, false, "it has fallen silent");
    else if (o->now_ns > l->told_ns + o->silent_ns / PULSES_A_SILENCE &&
             !link_send(l, FAR_PULSE, NULL, 1))
        link_fault(l, TAKES_NOTHING);
}

/* Who was away for long, stopped or starved, has heard from nobody; that says nothing of the others. */
static void forgive_absence(struct far *o)
{
    uint64_t away = o->looked_ns ? o->now_ns - o->looked_ns : 0;

    o->looked_ns = o->now_ns;
    for (struct link *l = o->links; away > o->silent_ns / 2 && l; l = l->next)
        l->heard_ns += away;
}

void far_peers_look_after(struct far *o)
{
    o->chores_ns = o->now_ns + (o->links_pending > 0 ? CHORES_NS : MS);
    forgive_absence(o);
    o->carrier->events(o);
    for (struct link *l = o->links, *next; l; l = next) {
        next = l->next;
        link_look_after(o, l);
    }
    if (o->host)
        far_roll_look_after(o);
    for (uint32_t h = 0; h < o->hosts_count; h++) {
        struct peer *p = o->peers[h];
        if (!p->link && !p->dialing && !p->dials && o->now_ns >= p->dial_ns && ours_to_dial(o, p) &&
            !o->failure[0] && !o->leaving)
            dial(o, p);
    }
}
