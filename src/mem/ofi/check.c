/* What a provider claims is tried before a host trusts it: two endpoints of this process, connected
 * through its own address.
 *
 *  - A write that completes as delivered is in memory. (tcp's ordinary completion says only that it is in
 *    a socket, and fi_write ignores the flag.)
 *  - A read behind a write sees it.
 *  - A key is dead when its registration is closed: a write with it fails, and changes nothing. (verbs
 *    keeps registrations in a cache that answers for closed ones, unless it was turned off in time.)
 *
 * Takes well under a millisecond on tcp. */
#include "base/clock.h"
#include "mem/ofi/impl.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 512, ROUNDS = 8 };

#define CHECK_NS (2000 * MS)

struct check {
    struct net *net;
    struct fid_ep *near, *far; /* ours, and the accepted one */
    uint64_t token;            /* in the connect request: others may dial meanwhile */
    uint64_t *target, *source;
    struct fid_mr *target_mr, *source_mr;
    struct fi_context2 context;
    uint64_t until_ns;
    bool near_up, far_up;
};

static int endpoint_open(struct check *c, struct fi_info *info, struct fid_ep **ep)
{
    struct net *n = c->net;

    int rc = fi_endpoint(n->domain, info, ep, NULL);
    if (rc == 0)
        rc = fi_ep_bind(*ep, &n->eq->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(*ep, &n->cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
    return rc ? rc : fi_enable(*ep);
}

static int dial(struct check *c)
{
    struct fi_info *info = ofi_library.dupinfo(c->net->info);

    if (!info)
        return -FI_ENOMEM;
    info->dest_addr = info->src_addr;
    info->dest_addrlen = info->src_addrlen;
    info->src_addr = NULL;
    info->src_addrlen = 0;
    int rc = endpoint_open(c, info, &c->near);
    if (rc == 0)
        rc = fi_connect(c->near, info->dest_addr, &c->token, sizeof c->token);
    ofi_library.freeinfo(info);
    return rc;
}

static int request(struct check *c, struct fi_info *info, const void *data, size_t bytes)
{
    bool ours = bytes >= sizeof c->token && memcmp(data, &c->token, sizeof c->token) == 0;
    int rc = 0;

    if (!ours || c->far) {
        fi_reject(c->net->pep, info->handle, NULL, 0); /* it will try again */
    } else {
        rc = endpoint_open(c, info, &c->far);
        if (rc == 0)
            rc = fi_accept(c->far, NULL, 0);
    }
    ofi_library.freeinfo(info);
    return rc;
}

static int connect_both(struct check *c)
{
    struct {
        struct fi_eq_cm_entry entry;
        unsigned char data[512];
    } cm;
    struct fi_cq_msg_entry done;
    uint32_t event;
    int rc = dial(c);

    while (rc == 0 && !(c->near_up && c->far_up)) {
        ssize_t n = fi_eq_read(c->net->eq, &event, &cm, sizeof cm, 0);
        if (n == -FI_EAVAIL) {
            struct fi_eq_err_entry e = {0};
            fi_eq_readerr(c->net->eq, &e, 0);
            if (e.fid == &c->near->fid)
                rc = -e.err;
        } else if (n >= (ssize_t)sizeof cm.entry && event == FI_CONNREQ) {
            rc = request(c, cm.entry.info, cm.entry.data, (size_t)n - sizeof cm.entry);
        } else if (n >= (ssize_t)sizeof cm.entry && event == FI_CONNECTED) {
            c->near_up |= cm.entry.fid == &c->near->fid;
            c->far_up |= c->far && cm.entry.fid == &c->far->fid;
        }
        fi_cq_read(c->net->cq, &done, 1);
        if (clock_now_ns() > c->until_ns)
            rc = -FI_ETIMEDOUT;
    }
    return rc;
}

/* Posts one write or read of all words and waits for its end: 0, or the error. */
static int run(struct check *c, bool write, uint64_t key)
{
    void *desc = c->source_mr ? fi_mr_desc(c->source_mr) : NULL;
    struct iovec iov = {.iov_base = c->source, .iov_len = WORDS * 8};
    struct fi_rma_iov to = {
        .addr = net_address(c->net, c->target, c->target), .len = WORDS * 8, .key = key};
    struct fi_msg_rma m = {.msg_iov = &iov,
                           .desc = &desc,
                           .iov_count = 1,
                           .rma_iov = &to,
                           .rma_iov_count = 1,
                           .context = &c->context};
    struct fi_cq_msg_entry done;
    ssize_t n;

    int rc = (int)(write ? fi_writemsg(c->near, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                         : fi_readmsg(c->near, &m, FI_COMPLETION));
    if (rc)
        return rc;
    while ((n = fi_cq_read(c->net->cq, &done, 1)) == -FI_EAGAIN)
        if (clock_now_ns() > c->until_ns)
            return -FI_ETIMEDOUT;
    if (n != -FI_EAVAIL)
        return n == 1 ? 0 : (int)n;
    struct fi_cq_err_entry e = {0};
    fi_cq_readerr(c->net->cq, &e, 0);
    return e.err ? -e.err : -FI_EIO;
}

static void fill(uint64_t *words, uint64_t with)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = with + (uint64_t)i;
}

static bool holds(const uint64_t *words, uint64_t what)
{
    for (int i = 0; i < WORDS; i++)
        if (((const volatile uint64_t *)words)[i] != what + (uint64_t)i)
            return false;
    return true;
}

static const char *check_order(struct check *c)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        fill(c->source, round << 32);
        if (run(c, true, fi_mr_key(c->target_mr)) != 0)
            return "a write to memory that is open fails";
        if (!holds(c->target, round << 32))
            return "a write that was delivered is not in memory";
        memset(c->source, 0, WORDS * 8);
        if (run(c, false, fi_mr_key(c->target_mr)) != 0 || !holds(c->source, round << 32))
            return "a read does not see what was written before it";
    }
    return NULL;
}

static const char *check_closed(struct check *c)
{
    uint64_t key = fi_mr_key(c->target_mr);

    fi_close(&c->target_mr->fid);
    c->target_mr = NULL;
    fill(c->target, 1);
    fill(c->source, UINT64_C(7) << 40);
    int rc = run(c, true, key);
    if (rc == 0 || !holds(c->target, 1))
        return "a key still opens memory whose registration was closed (on verbs: set "
               "FI_MR_CACHE_MAX_COUNT=0 and FI_MR_CACHE_MONITOR=disabled in the environment)";
    return NULL;
}

static void check_free(struct check *c)
{
    if (c->near)
        fi_close(&c->near->fid);
    if (c->far)
        fi_close(&c->far->fid);
    if (c->target_mr)
        fi_close(&c->target_mr->fid);
    if (c->source_mr)
        fi_close(&c->source_mr->fid);
    free(c->target);
    free(c->source);
}

/* Nothing of it must be left in the queues for those who come later. */
static void queues_drain(struct net *n)
{
    struct {
        struct fi_eq_cm_entry entry;
        unsigned char data[512];
    } cm;
    struct fi_cq_msg_entry done;
    struct fi_cq_err_entry failed = {0};
    struct fi_eq_err_entry event_failed = {0};
    uint32_t event;
    ssize_t got;

    while ((got = fi_cq_read(n->cq, &done, 1)) != -FI_EAGAIN)
        if (got < 0 && fi_cq_readerr(n->cq, &failed, 0) < 0)
            break;
    while ((got = fi_eq_read(n->eq, &event, &cm, sizeof cm, 0)) != -FI_EAGAIN) {
        if (got < 0 && fi_eq_readerr(n->eq, &event_failed, 0) < 0)
            break;
        if (got > 0 && event == FI_CONNREQ) {
            fi_reject(n->pep, cm.entry.info->handle, NULL, 0);
            ofi_library.freeinfo(cm.entry.info);
        }
    }
}

int net_self_check(struct net *n, struct err *e)
{
    struct check c = {.net = n, .until_ns = clock_now_ns() + CHECK_NS};
    const char *provider = n->info->fabric_attr->prov_name, *wrong = NULL;
    int rc = -FI_ENOMEM;

    randombytes_buf(&c.token, sizeof c.token);
    c.target = aligned_alloc(MEM_PAGE_BYTES, WORDS * 8);
    c.source = aligned_alloc(MEM_PAGE_BYTES, WORDS * 8);
    if (c.target && c.source) {
        c.target_mr = net_register(n, c.target, WORDS * 8, FI_REMOTE_READ | FI_REMOTE_WRITE);
        c.source_mr = n->local ? net_register(n, c.source, WORDS * 8, FI_READ | FI_WRITE) : NULL;
        if (c.target_mr && (c.source_mr || !n->local))
            rc = connect_both(&c);
    }
    if (rc == 0)
        wrong = check_order(&c);
    if (rc == 0 && !wrong)
        wrong = check_closed(&c);
    check_free(&c);
    queues_drain(n);
    if (rc)
        return err_set(e, ERR_SYSTEM,
                       "provider %s: this host cannot connect to its own address: %s", provider,
                       ofi_library.strerror(-rc));
    return wrong ? err_set(e, ERR_REFUSED, "provider %s is not to be trusted: %s", provider, wrong)
                 : 0;
}
