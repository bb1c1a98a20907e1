#include "mem/ofi/raw.h"

#include "base/clock.h"
#include "mem/ofi/impl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { UNDER_WAY = 64, LOOKS = 1024 };

#define OPEN_NS (5000 * MS)
#define AWAIT_NS (5000 * MS)
#define DIAL_AGAIN_NS MS

/* Where the other side writes: in the connect request, and in its answer. */
struct there {
    uint64_t key, address;
};

struct ofi_raw {
    struct net net;
    struct fid_ep *ep;
    uint64_t *target;
    uint64_t *source; /* UNDER_WAY times bytes */
    struct fid_mr *target_mr, *source_mr;
    struct there there;
    uint32_t bytes;
    uint64_t posted, completed; /* of writes that complete */
    struct fi_context2 context[UNDER_WAY];
};

static int endpoint_open(struct ofi_raw *r, struct fi_info *info)
{
    int rc = fi_endpoint(r->net.domain, info, &r->ep, NULL);
    if (rc == 0)
        rc = fi_ep_bind(r->ep, &r->net.eq->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(r->ep, &r->net.cq->fid, FI_TRANSMIT | FI_RECV);
    return rc ? rc : fi_enable(r->ep);
}

static void endpoint_close(struct ofi_raw *r)
{
    if (r->ep)
        fi_close(&r->ep->fid);
    r->ep = NULL;
}

static int dial(struct ofi_raw *r, const struct there *here)
{
    int rc = endpoint_open(r, r->net.info);

    return rc ? rc : fi_connect(r->ep, r->net.info->dest_addr, here, sizeof *here);
}

static int accept_from(struct ofi_raw *r, struct fi_info *info, const struct there *here)
{
    int rc = r->ep ? -FI_EBUSY : endpoint_open(r, info);

    if (rc == 0)
        rc = fi_accept(r->ep, here, sizeof *here);
    ofi_library.freeinfo(info);
    return rc;
}

/* One event, if there is one. 1: connected; -FI_ECONNREFUSED: nobody listens yet. */
static int event_take(struct ofi_raw *r, const struct there *here)
{
    struct {
        struct fi_eq_cm_entry entry;
        unsigned char data[512];
    } cm;
    struct fi_eq_err_entry failed = {0};
    uint32_t event;
    ssize_t n = fi_eq_read(r->net.eq, &event, &cm, sizeof cm, 0);

    if (n == -FI_EAVAIL)
        return fi_eq_readerr(r->net.eq, &failed, 0) < 0 ? -FI_EIO : -failed.err;
    if (n < (ssize_t)sizeof cm.entry)
        return 0;
    /* Who listens has it with the request, who dials with the answer. */
    if ((size_t)n >= sizeof cm.entry + sizeof r->there)
        memcpy(&r->there, cm.entry.data, sizeof r->there);
    if (event == FI_CONNREQ)
        return accept_from(r, cm.entry.info, here);
    return event == FI_CONNECTED ? 1 : event == FI_SHUTDOWN ? -FI_ESHUTDOWN : 0;
}

static int connect_to(struct ofi_raw *r, const struct ofi_raw_options *o)
{
    const struct there here = {.key = fi_mr_key(r->target_mr),
                               .address = net_address(&r->net, r->target, r->target)};
    uint64_t now = clock_now_ns(), until = now + OPEN_NS, again = now;
    struct fi_cq_msg_entry done;

    for (; now < until; now = clock_now_ns()) {
        int rc = !o->listens && !r->ep && now >= again ? dial(r, &here) : event_take(r, &here);
        if (rc > 0)
            return 0;
        if (rc < 0 && o->listens)
            return rc;
        if (rc < 0) {
            endpoint_close(r);
            again = now + DIAL_AGAIN_NS;
        }
        fi_cq_read(r->net.cq, &done, 1);
    }
    return -FI_ETIMEDOUT;
}

static int memory_open(struct ofi_raw *r)
{
    size_t source = (size_t)r->bytes * UNDER_WAY;

    r->target = calloc(1, r->bytes);
    r->source = calloc(1, source);
    if (!r->target || !r->source)
        return -FI_ENOMEM;
    r->target_mr = net_register(&r->net, r->target, r->bytes, FI_REMOTE_WRITE);
    if (r->net.local)
        r->source_mr = net_register(&r->net, r->source, source, FI_WRITE);
    return r->target_mr && (r->source_mr || !r->net.local) ? 0 : -FI_ENOMEM;
}

int ofi_raw_open(const struct ofi_raw_options *o, struct ofi_raw **out, struct err *e)
{
    struct far_host host = {.name = "raw", .address = o->address, .port = o->port};
    struct ofi_options net = {
        .provider = o->provider,
        .far = {.hosts = &host, .hosts_count = 1, .self = o->listens ? 0 : FAR_ANY}};

    CHECK(o->bytes >= 8 && o->bytes % 8 == 0);
    int rc = ofi_library_load(e);
    if (rc < 0)
        return rc;
    struct ofi_raw *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_NOMEM, "%s: no memory", o->provider);
    r->bytes = o->bytes;
    rc = net_open(&r->net, &net, e);
    if (rc == 0 && o->listens)
        rc = net_listen(&r->net, &net.far, e);
    if (rc == 0) {
        int failed = memory_open(r);
        if (failed == 0)
            failed = connect_to(r, o);
        if (failed)
            rc = err_set(e, failed == -FI_ETIMEDOUT ? ERR_TIMEOUT : ERR_SYSTEM,
                         "%s on %.100s:%u: %s", o->provider, o->address, o->port,
                         ofi_library.strerror(-failed));
    }
    if (rc < 0)
        ofi_raw_close(r);
    else
        *out = r;
    return rc;
}

void ofi_raw_close(struct ofi_raw *r)
{
    if (!r)
        return;
    endpoint_close(r);
    if (r->target_mr)
        fi_close(&r->target_mr->fid);
    if (r->source_mr)
        fi_close(&r->source_mr->fid);
    net_close(&r->net);
    free(r->target);
    free(r->source);
    free(r);
}

/* Lets the provider work. False: an operation has failed. */
static bool turn(struct ofi_raw *r)
{
    struct fi_cq_msg_entry done[UNDER_WAY];
    ssize_t n = fi_cq_read(r->net.cq, done, UNDER_WAY);

    if (n > 0)
        r->completed += (uint64_t)n;
    return n > 0 || n == -FI_EAGAIN;
}

bool ofi_raw_write(struct ofi_raw *r, uint64_t value)
{
    bool inject = r->bytes <= r->net.inject_bytes;
    void *desc = r->source_mr ? fi_mr_desc(r->source_mr) : NULL;

    while (r->posted - r->completed == UNDER_WAY)
        if (!turn(r))
            return false;
    uint64_t *from = r->source + r->posted % UNDER_WAY * (r->bytes / 8);
    from[r->bytes / 8 - 1] = value;
    for (;;) {
        ssize_t rc = inject
                         ? fi_inject_write(r->ep, from, r->bytes, 0, r->there.address, r->there.key)
                         : fi_write(r->ep, from, r->bytes, desc, 0, r->there.address, r->there.key,
                                    &r->context[r->posted % UNDER_WAY]);
        if (rc == 0)
            break;
        if (rc != -FI_EAGAIN || !turn(r))
            return false;
    }
    r->posted += !inject;
    return true;
}

bool ofi_raw_settle(struct ofi_raw *r)
{
    while (r->completed < r->posted)
        if (!turn(r))
            return false;
    return true;
}

bool ofi_raw_await(struct ofi_raw *r, uint64_t value)
{
    const _Atomic uint64_t *last = (const _Atomic uint64_t *)(r->target + r->bytes / 8 - 1);
    uint64_t until = 0;

    for (uint32_t looks = 1; atomic_load_explicit(last, memory_order_acquire) != value; looks++) {
        if (!turn(r))
            return false;
        if (looks % LOOKS == 0) {
            sched_yield(); /* the other side may have no other core */
            uint64_t now = clock_now_ns();
            until = until ? until : now + AWAIT_NS;
            if (now > until)
                return false;
        }
    }
    return true;
}
