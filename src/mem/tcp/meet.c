/* Who comes: connections that the door hands over, and the hellos on them. TLS has proven whose key it is; the hello
 * says which process of that it is. */
#include "mem/tcp/impl.h"

#include "base/say.h"

#include <stdlib.h>
#include <string.h>

static bool send_hello(struct tcp_link *l, uint32_t to)
{
    const struct tcp *t = tcp_node(l);
    const struct tcp_hello h = {.magic = TCP_MAGIC,
                                .version = TCP_VERSION,
                                .from = t->far.mem.self,
                                .to = to,
                                .life = t->far.mem.life,
                                .birth = t->far.birth,
                                .cluster = t->cluster};

    return tcp_frame_add(l, (struct tcp_frame){.kind = TCP_HELLO, .words = sizeof h / 8}, &h);
}

void tcp_dial(struct far *f, struct peer *p)
{
    p->dials = door_dial(tcp_of(f)->door, p->node, &p->address, p->address_bytes);
}

/* ---- hellos ---- */

/* Is it somebody whom the key allows it to be? */
static enum far_reason hello_check(const struct tcp_link *l, const struct tcp_hello *h,
                                   size_t bytes)
{
    const struct far *o = l->link.node;

    if (bytes < offsetof(struct tcp_hello, unused) || h->magic != TCP_MAGIC)
        return FAR_REASON_MALFORMED;
    if (h->version != TCP_VERSION)
        return FAR_REASON_VERSION;
    if (bytes != sizeof *h)
        return FAR_REASON_MALFORMED;
    if (h->cluster != tcp_node(l)->cluster)
        return FAR_REASON_CLUSTER;
    if (l->link.dialed)
        return h->from == l->link.peer->node ? FAR_WELCOME : FAR_REASON_NODE;
    bool allowed = l->who.host ? h->from == l->who.index
                               : h->from == FAR_ANY || (h->from >= o->hosts_count &&
                                                        h->from < o->hosts_count + o->clients);
    return allowed && h->to == o->mem.self && h->from != o->mem.self ? FAR_WELCOME
                                                                     : FAR_REASON_NODE;
}

static const char *refuse(struct tcp_link *l, enum far_reason reason)
{
    struct far_refuse r = {.reason = reason};
    struct far *o = l->link.node;

    far_stranger_say(o, (const struct sockaddr *)&l->address, far_reason_text(reason));
    l->helloed = true;
    l->link.state = LINK_REFUSED;
    if (!tcp_send(&l->link, FAR_REFUSE, &r.head + 1, 1))
        return TAKES_NOTHING;
    return NULL;
}

const char *tcp_on_hello(struct tcp_link *l, const struct tcp_hello *h, size_t bytes)
{
    struct far *o = l->link.node;

    if (l->helloed || l->link.state != LINK_PROVING)
        return "it said hello twice";
    enum far_reason reason = hello_check(l, h, bytes);
    if (l->link.dialed && o->leaving) {
        l->link.state = LINK_REFUSED; /* we have no use for it any more, which is nobody's fault */
        return NULL;
    }
    if (reason == FAR_WELCOME && o->leaving)
        reason = FAR_REASON_LEAVING;
    if (reason == FAR_WELCOME && !l->link.dialed && h->from != FAR_ANY) {
        l->link.peer = far_peer_get(o, h->from);
        if (!l->link.peer)
            return "there is no memory for it";
        tcp_room(&l->link, far_lanes_stage_bytes(o, h->from));
    }
    if (reason != FAR_WELCOME)
        return refuse(l, reason);
    l->helloed = true;
    l->link.proven = true;
    if (!l->link.dialed && !send_hello(l, h->from))
        return TAKES_NOTHING;
    return far_link_proven(&l->link, h->life, h->birth) ? NULL : "it cannot be met";
}

/* ---- arrivals ---- */

/* Makes room for one more among those that have not said all yet who they are: who has waited longest has to try again.
 * They have keys; so this is no stranger, and not worth more care. */
static void make_way(struct far *o)
{
    struct link *oldest = NULL;

    if (o->links_pending < LINK_PENDING)
        return;
    for (struct link *l = o->links; l; l = l->next)
        if (l->state != LINK_UP && !l->dialed)
            oldest = l; /* the newest are first */
    if (oldest)
        link_close(oldest, false, "too many connections were begun at once");
}

static void came(struct tcp *t, struct arrival *a)
{
    struct far *o = &t->far;
    struct peer *p = a->dialed ? peer_at(o, a->host) : NULL;

    if (p)
        p->dials = false;
    /* Whom we do not want any more; it will try again. */
    bool unwanted = p && (p->link || o->leaving ||
                          (o->mem.self == FAR_ANY && !o->looks && p->node != o->giver));
    if (unwanted || o->failure[0])
        return;
    make_way(o);
    struct tcp_link *l = tcp_link_new(t, a);
    if (!l) {
        say_warn(&o->say, "%s: no memory for a connection", o->name);
        return;
    }
    far_link_begin(o, &l->link, p);
    l->link.dialed = a->dialed;
    l->link.state = LINK_PROVING;
    if (p) {
        p->dialing = &l->link;
        tcp_room(&l->link, far_lanes_stage_bytes(o, p->node));
        l->link.proven = true; /* it has the key of that host */
    }
    bool ok = (!p || send_hello(l, p->node)) && tcp_drain(l);
    if (!ok && l->link.state != LINK_CLOSED)
        link_fault(&l->link, l->link.fault ? l->link.fault : TAKES_NOTHING);
}

static void did_not_come(struct far *o, const struct arrival *a)
{
    struct peer *p = peer_at(o, a->host);

    if (a->refused) {
        o->refused = true;
        far_peer_say(o, p, true, "%s%s", a->by_other ? "it refuses us: " : "", a->why);
        p->dial_wait_ns = DIAL_NS_MAX;
    }
    far_peer_dial_failed(o, p, a->refused ? NULL : a->why);
}

/* Who is connected with a key that is not known any more has to come again with another. */
static void keys_changed(struct tcp *t, struct arrival *a)
{
    if (!a->tls) {
        say_warn(&t->far.say, "%s: keys stay as they were: %s", t->far.name, a->why);
        return;
    }
    /* For who replaces a key, and must know where it has arrived: not only if he asked to hear everything. */
    say_warn(&t->far.say, "%s: the cluster file was read again for its keys", t->far.name);
    tls_drop(t->tls);
    t->tls = a->tls;
    a->tls = NULL;
    for (struct link *l = t->far.links; l; l = l->next)
        if (!tls_knows(t->tls, &tcp_link(l)->who)) {
            t->retired++;
            link_fault(l, "its key is not in the cluster file any more");
        }
}

void tcp_arrivals_take(struct far *o)
{
    struct tcp *t = tcp_of(o);

    for (struct arrival *a; (a = door_take(t->door)) != NULL; arrival_free(a))
        switch (a->kind) {
        case DOOR_CAME:
            came(t, a);
            break;
        case DOOR_NOT:
            did_not_come(o, a);
            break;
        case DOOR_STRANGER:
            far_stranger_say(o, (const struct sockaddr *)&a->address, a->why);
            break;
        case DOOR_KEYS:
            keys_changed(t, a);
            break;
        }
}
