/* Who is connected: dialing, accepting, silence, and what is said about it. */
#include "base/say.h"
#include "mem/ofi/impl.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_A_TURN = 16, PULSES_A_SILENCE = 6 };

#define STRANGER_NS (1000 * MS) /* between two lines about strangers */
#define STEADY_NS (1000 * MS)   /* how long a link has to be up to count */

struct peer *ofi_peer_add(struct ofi *o, uint32_t node, const char *name)
{
    struct peer *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->node = node;
    p->host = node < o->hosts_count;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->dial_wait_ns = DIAL_NS_MIN;
    o->peers[node] = p;
    return p;
}

/* The same is said once in a row, however often it is tried. */
void ofi_peer_say(struct ofi *o, struct peer *p, bool warn, const char *fmt, ...)
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
        p->lookup = lookup_start(p->address_name, p->port);
}

void ofi_peer_link_ended(struct link *l, bool by_other, const char *why)
{
    struct ofi *o = l->node;
    struct peer *p = l->peer;
    bool was_up = p && p->link == l;

    if (!p)
        return;
    if (p->dialing == l)
        p->dialing = NULL;
    p->asked = false; /* who looks does not ask twice */
    if (p->host && o->host)
        ofi_roll_link_ended(l);
    if (was_up) {
        p->link = NULL;
        ofi_lanes_link_ended(l);
        /* Its kernel, or itself, has closed: most likely it is dead. One that we gave up may just be
         * out of reach. */
        p->gone = by_other;
        /* One that ends as soon as it is made is as good as none. */
        if (o->now_ns - l->up_ns > STEADY_NS) {
            p->dial_wait_ns = DIAL_NS_MIN;
            p->said[0] = 0;
        }
        if (!p->left && !o->leaving)
            ofi_peer_say(o, p, p->host, "the connection has ended: %s", why);
        if (!p->host)
            ofi_place_freed(l, by_other || p->left);
    } else if (l->state != LINK_REFUSED) {
        ofi_peer_say(o, p, false, "no connection: %s", why);
        if (l->dialed && !o->leaving)
            look_up_again(p);
    }
    p->dial_ns = o->now_ns + p->dial_wait_ns;
    p->dial_wait_ns = p->dial_wait_ns * 2 < DIAL_NS_MAX ? p->dial_wait_ns * 2 : DIAL_NS_MAX;
}

/* ---- dialing ---- */

static void take_address(struct ofi *o, struct peer *p)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    const char *why;

    if (!p->lookup || !lookup_take(p->lookup, &address, &bytes, &why))
        return;
    p->lookup = NULL;
    if (bytes == 0) {
        ofi_peer_say(o, p, true, "its address is not known: %s", why);
        return;
    }
    p->address = address;
    p->address_bytes = bytes;
}

static void dial(struct ofi *o, struct peer *p)
{
    take_address(o, p);
    if (p->address_bytes == 0) {
        p->dial_wait_ns = DIAL_NS_MAX;
        p->dial_ns = o->now_ns + p->dial_wait_ns;
        look_up_again(p);
        return;
    }
    struct fi_info *info = ofi_library.dupinfo(o->net.info);

    p->dial_ns = o->now_ns + p->dial_wait_ns;
    if (!info)
        return;
    free(info->src_addr);
    info->src_addr = NULL;
    info->src_addrlen = 0;
    free(info->dest_addr);
    info->dest_addr = malloc(p->address_bytes);
    if (info->dest_addr)
        memcpy(info->dest_addr, &p->address, p->address_bytes);
    info->dest_addrlen = p->address_bytes;
    info->addr_format = p->address.ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    struct link *l =
        info->dest_addr ? link_new(o, p, info, ofi_lanes_stage_bytes(o, p->node)) : NULL;
    if (!l) {
        char hint[128];
        ofi_peer_say(o, p, true, "no memory for a connection%s",
                     ofi_limit_hint(o, hint, sizeof hint));
        return;
    }
    l->dialed = true;
    p->dialing = l;
    ofi_hello_make(&o->auth, o->mem.self, p->node, o->mem.life, &l->hello);
    int rc = fi_connect(l->ep, &p->address, &l->hello, sizeof l->hello);
    if (rc)
        link_close(l, true, ofi_library.strerror(-rc));
}

/* Of two hosts the one with the higher number dials; clients dial those hosts that they need. */
static bool ours_to_dial(const struct ofi *o, const struct peer *p)
{
    if (!p->host || p->node == o->mem.self)
        return false;
    if (o->looks)
        return p->asked;
    if (!o->host) /* one host after the other is asked for a place */
        return o->mem.self == OFI_ANY ? p->node == o->giver : p->wanted;
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
static void say_stranger(struct ofi *o, const struct fi_info *info, const struct ofi_hello *h,
                         enum ofi_reason reason)
{
    char from[INET6_ADDRSTRLEN], speaks[48] = "";

    if (o->stranger_ns && o->now_ns - o->stranger_ns < STRANGER_NS)
        return;
    show_address(info->dest_addr, from, sizeof from);
    if (reason == OFI_REASON_VERSION)
        snprintf(speaks, sizeof speaks, " %u, we speak %u", h->version, OFI_VERSION);
    if (say_once(&o->strangers, &o->say, SAY_WARN, "%s: a connection from %s was refused: %s%s",
                 o->name, from, ofi_reason_text(reason), speaks))
        o->stranger_ns = o->now_ns ? o->now_ns : 1;
}

static void reject(struct ofi *o, struct fi_info *info, enum ofi_reason reason)
{
    struct ofi_refusal r = {.magic = OFI_MAGIC, .version = OFI_VERSION, .reason = (uint16_t)reason};

    fi_reject(o->net.pep, info->handle, &r, sizeof r);
    ofi_library.freeinfo(info);
}

/* The peer that a hello is from; NULL: a client without a place. False: nobody. */
static bool hello_peer(struct ofi *o, const struct ofi_hello *h, struct peer **p)
{
    char name[32];

    *p = NULL;
    if (h->from == OFI_ANY)
        return true;
    if (h->from >= o->hosts_count + o->clients)
        return false;
    *p = peer_at(o, h->from);
    if (!*p) {
        snprintf(name, sizeof name, "client-%u", h->from - o->hosts_count);
        *p = ofi_peer_add(o, h->from, name);
    }
    return *p != NULL;
}

static void connect_request(struct ofi *o, struct fi_info *info, const void *data, size_t bytes)
{
    struct ofi_hello hello;
    struct peer *p = NULL;

    enum ofi_reason reason = ofi_hello_check(&o->auth, data, bytes, o->mem.self, &hello);
    if (reason == OFI_WELCOME && !hello_peer(o, &hello, &p))
        reason = OFI_REASON_NODE;
    if (reason != OFI_WELCOME) {
        say_stranger(o, info, &hello, reason);
        reject(o, info, reason);
        return;
    }
    /* Who has the key may still be too many; it will try again. */
    if (o->links_pending >= LINK_PENDING || o->leaving) {
        reject(o, info, o->leaving ? OFI_REASON_LEAVING : OFI_REASON_FULL);
        return;
    }
    struct link *l =
        link_new(o, p, info, p ? ofi_lanes_stage_bytes(o, p->node) : (uint64_t)STAGE_BYTES_MIN);
    if (!l) {
        char hint[128];
        say_warn(&o->say, "%s: no memory for a connection%s", o->name,
                 ofi_limit_hint(o, hint, sizeof hint));
        return;
    }
    l->state = LINK_ACCEPTING;
    l->hello = hello;
    int rc = fi_accept(l->ep, NULL, 0);
    if (rc)
        link_close(l, true, ofi_library.strerror(-rc));
}

/* ---- events ---- */

static struct link *link_of(struct ofi *o, const struct fid *f)
{
    /* By comparing: the event may be about an endpoint that we have closed since. */
    for (struct link *l = o->links; l; l = l->next)
        if (&l->ep->fid == f)
            return l;
    return NULL;
}

static void event_failed(struct ofi *o)
{
    struct fi_eq_err_entry e = {0};
    struct ofi_refusal r;

    if (fi_eq_readerr(o->net.eq, &e, 0) < 0)
        return;
    struct link *l = link_of(o, e.fid);
    if (!l)
        return;
    if (l->peer && e.err_data && e.err_data_size >= sizeof r) {
        memcpy(&r, e.err_data, sizeof r);
        if (r.magic == OFI_MAGIC) {
            o->refused = true;
            ofi_peer_say(o, l->peer, true, "it refuses us: %s",
                         ofi_reason_text((enum ofi_reason)r.reason));
            l->peer->dial_wait_ns = DIAL_NS_MAX;
            l->state = LINK_REFUSED;
        }
    }
    link_close(l, true, ofi_library.strerror(e.err));
}

static bool event_next(struct ofi *o)
{
    struct {
        struct fi_eq_cm_entry entry;
        unsigned char data[512];
    } cm;
    uint32_t event;

    ssize_t n = fi_eq_read(o->net.eq, &event, &cm, sizeof cm, 0);
    if (n == -FI_EAVAIL) {
        event_failed(o);
        return true;
    }
    if (n < (ssize_t)sizeof cm.entry)
        return false;
    if (event == FI_CONNREQ) {
        connect_request(o, cm.entry.info, cm.entry.data, (size_t)n - sizeof cm.entry);
        return true;
    }
    struct link *l = link_of(o, cm.entry.fid);
    if (!l)
        return true;
    if (event == FI_CONNECTED) {
        bool accepted = l->state == LINK_ACCEPTING;
        if (accepted || l->state == LINK_DIALING) /* else its first message came before this */
            l->state = LINK_PROVING;
        if (accepted && !link_prove(l))
            link_close(l, false, "no memory");
    } else if (event == FI_SHUTDOWN) {
        link_close(l, true, "it ended the connection");
    }
    return true;
}

/* ---- chores ---- */

static void link_look_after(struct ofi *o, struct link *l)
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
             !link_send(l, OFI_PULSE, NULL, 1))
        link_fault(l, -FI_EAGAIN);
}

void ofi_events_take(struct ofi *o)
{
    for (int i = 0; i < EVENTS_A_TURN && event_next(o); i++)
        ;
}

/* Who was away for long, stopped or starved, has heard from nobody; that says nothing of the others. */
static void forgive_absence(struct ofi *o)
{
    uint64_t away = o->looked_ns ? o->now_ns - o->looked_ns : 0;

    o->looked_ns = o->now_ns;
    for (struct link *l = o->links; away > o->silent_ns / 2 && l; l = l->next)
        l->heard_ns += away;
}

void ofi_peers_look_after(struct ofi *o)
{
    o->chores_ns = o->now_ns + (o->links_pending > 0 ? CHORES_NS : MS);
    forgive_absence(o);
    ofi_events_take(o);
    for (struct link *l = o->links, *next; l; l = next) {
        next = l->next;
        link_look_after(o, l);
    }
    if (o->host)
        ofi_roll_look_after(o);
    for (uint32_t h = 0; h < o->hosts_count; h++) {
        struct peer *p = o->peers[h];
        if (!p->link && !p->dialing && o->now_ns >= p->dial_ns && ours_to_dial(o, p) &&
            !o->failure[0] && !o->leaving)
            dial(o, p);
    }
}
