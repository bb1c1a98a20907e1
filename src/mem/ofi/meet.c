/* Connecting and accepting, and proving who one is. */
#include "mem/ofi/impl.h"

#include "base/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_A_TURN = 16 };

/* ---- dialing ---- */

static struct fi_info *info_to(const struct ofi *o, const struct peer *p)
{
    struct fi_info *info = ofi_library.dupinfo(o->net.info);

    if (!info)
        return NULL;
    free(info->src_addr);
    info->src_addr = NULL;
    info->src_addrlen = 0;
    free(info->dest_addr);
    info->dest_addr = malloc(p->address_bytes);
    if (!info->dest_addr) {
        ofi_library.freeinfo(info);
        return NULL;
    }
    memcpy(info->dest_addr, &p->address, p->address_bytes);
    info->dest_addrlen = p->address_bytes;
    info->addr_format = p->address.ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    return info;
}

void ofi_dial(struct far *f, struct peer *p)
{
    struct ofi *o = ofi_of(f);
    struct fi_info *info = info_to(o, p);
    struct ofi_link *l = info ? ofi_link_new(o, p, info, far_lanes_stage_bytes(f, p->node)) : NULL;

    if (!l) {
        char hint[128];
        far_peer_say(f, p, true, "no memory for a connection%s",
                     ofi_limit_hint(o, hint, sizeof hint));
        return;
    }
    l->link.dialed = true;
    p->dialing = &l->link;
    ofi_hello_make(&o->auth, f->mem.self, p->node, f->mem.life, &l->hello);
    int rc = fi_connect(l->ep, &p->address, &l->hello, sizeof l->hello);
    if (rc)
        link_close(&l->link, true, ofi_library.strerror(-rc));
}

/* ---- accepting ---- */

static void say_stranger(struct ofi *o, const struct fi_info *info, const struct ofi_hello *h,
                         enum far_reason reason)
{
    char why[128], speaks[48] = "";

    if (reason == FAR_REASON_VERSION)
        snprintf(speaks, sizeof speaks, " %u, we speak %u", h->version, OFI_VERSION);
    snprintf(why, sizeof why, "%s%s", far_reason_text(reason), speaks);
    far_stranger_say(&o->far, info->dest_addr, why);
}

static void reject(struct ofi *o, struct fi_info *info, enum far_reason reason)
{
    struct ofi_refusal r = {.magic = OFI_MAGIC, .version = OFI_VERSION, .reason = (uint16_t)reason};

    fi_reject(o->net.pep, info->handle, &r, sizeof r);
    ofi_library.freeinfo(info);
}

/* The peer that a hello is from; NULL: a client without a place. False: nobody. */
static bool hello_peer(struct ofi *o, const struct ofi_hello *h, struct peer **p)
{
    *p = h->from == FAR_ANY ? NULL : far_peer_get(&o->far, h->from);
    return h->from == FAR_ANY || *p != NULL;
}

static void connect_request(struct ofi *o, struct fi_info *info, const void *data, size_t bytes)
{
    struct ofi_hello hello;
    struct peer *p = NULL;

    enum far_reason reason = ofi_hello_check(&o->auth, data, bytes, o->far.mem.self, &hello);
    if (reason == FAR_WELCOME && !hello_peer(o, &hello, &p))
        reason = FAR_REASON_NODE;
    if (reason != FAR_WELCOME) {
        say_stranger(o, info, &hello, reason);
        reject(o, info, reason);
        return;
    }
    /* Who has the key may still be too many; it will try again. */
    if (o->far.links_pending >= LINK_PENDING || o->far.leaving) {
        reject(o, info, o->far.leaving ? FAR_REASON_LEAVING : FAR_REASON_FULL);
        return;
    }
    struct ofi_link *l = ofi_link_new(
        o, p, info, p ? far_lanes_stage_bytes(&o->far, p->node) : (uint64_t)STAGE_BYTES_MIN);
    if (!l) {
        char hint[128];
        say_warn(&o->far.say, "%s: no memory for a connection%s", o->far.name,
                 ofi_limit_hint(o, hint, sizeof hint));
        return;
    }
    l->link.state = LINK_ACCEPTING;
    l->hello = hello;
    int rc = fi_accept(l->ep, NULL, 0);
    if (rc)
        link_close(&l->link, true, ofi_library.strerror(-rc));
}

/* ---- proving ---- */

/* The accepting side begins. */
static bool prove(struct ofi_link *l)
{
    struct ofi *o = ofi_node(l);

    ofi_prove_make(&o->auth, &l->hello, o->far.mem.life, o->far.birth, &l->prove);
    return link_send(&l->link, OFI_PROVE, &l->prove.head + 1, 1);
}

static bool on_prove(struct ofi_link *l, const struct ofi_prove *p)
{
    struct ofi *o = ofi_node(l);
    struct ofi_proven proven;

    if (l->link.state == LINK_DIALING)
        l->link.state = LINK_PROVING; /* that we are connected is still in the event queue */
    if (!l->link.dialed || l->link.state != LINK_PROVING)
        return false;
    if (!ofi_prove_check(&o->auth, &l->hello, p)) {
        far_peer_say(&o->far, l->link.peer, true,
                     "who listens there does not have the cluster's key");
        return false;
    }
    ofi_proven_make(&o->auth, &l->hello, p, o->far.birth, &proven);
    return link_send(&l->link, OFI_PROVEN, &proven.head + 1, 1) &&
           far_link_proven(&l->link, p->life, p->birth);
}

static bool on_proven(struct ofi_link *l, const struct ofi_proven *p)
{
    if (l->link.dialed || l->link.state != LINK_PROVING ||
        !ofi_proven_check(&ofi_node(l)->auth, &l->hello, &l->prove, p))
        return false;
    return far_link_proven(&l->link, l->hello.life, p->birth);
}

bool ofi_message_take(struct link *link, const struct far_head *h)
{
    struct ofi_link *l = ofi_link(link);
    const void *whole = h;

    switch (h->kind) {
    case OFI_PROVE:
        return on_prove(l, whole);
    case OFI_PROVEN:
        return on_proven(l, whole);
    case OFI_PROMISED:
        return link->state == LINK_UP && ofi_promised_take(l, far_items(h), h->count);
    default:
        return false;
    }
}

/* ---- events ---- */

static struct ofi_link *link_of(struct ofi *o, const struct fid *f)
{
    /* By comparing: the event may be about an endpoint that we have closed since. */
    for (struct link *l = o->far.links; l; l = l->next)
        if (&ofi_link(l)->ep->fid == f)
            return ofi_link(l);
    return NULL;
}

static void event_failed(struct ofi *o)
{
    struct fi_eq_err_entry e = {0};
    struct ofi_refusal r;

    if (fi_eq_readerr(o->net.eq, &e, 0) < 0)
        return;
    struct ofi_link *l = link_of(o, e.fid);
    if (!l)
        return;
    struct peer *p = l->link.peer;
    if (p && e.err_data && e.err_data_size >= sizeof r) {
        memcpy(&r, e.err_data, sizeof r);
        if (r.magic == OFI_MAGIC) {
            o->far.refused = true;
            far_peer_say(&o->far, p, true, "it refuses us: %s",
                         far_reason_text((enum far_reason)r.reason));
            p->dial_wait_ns = DIAL_NS_MAX;
            l->link.state = LINK_REFUSED;
        }
    }
    link_close(&l->link, true, ofi_library.strerror(e.err));
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
    struct ofi_link *l = link_of(o, cm.entry.fid);
    if (!l)
        return true;
    if (event == FI_CONNECTED) {
        bool accepted = l->link.state == LINK_ACCEPTING;
        if (accepted || l->link.state == LINK_DIALING) /* else its first message came before this */
            l->link.state = LINK_PROVING;
        if (accepted && !prove(l))
            link_close(&l->link, false, "no memory");
    } else if (event == FI_SHUTDOWN) {
        link_close(&l->link, true, "it ended the connection");
    }
    return true;
}

void ofi_events_take(struct far *f)
{
    for (int i = 0; i < EVENTS_A_TURN && event_next(ofi_of(f)); i++)
        ;
}
