/* The libfabric objects of a node. What a provider must be able to do is asked for here and checked;
 * what it only claims to do, in check.c. */
#include "base/clock.h"
#include "mem/ofi/impl.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { CQ_ENTRIES = 8192 };

static struct fi_info *hints_for(const char *provider)
{
    struct fi_info *h = ofi_library.dupinfo(NULL);

    if (!h)
        return NULL;
    h->ep_attr->type = FI_EP_MSG;
    h->caps = FI_MSG | FI_RMA;
    h->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    h->domain_attr->threading = FI_THREAD_DOMAIN;
    /* Writes behind writes, and reads behind writes: contract 1, and marks that are read back. */
    h->tx_attr->msg_order = FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAW;
    h->fabric_attr->prov_name = strdup(provider);
    if (!h->fabric_attr->prov_name) {
        ofi_library.freeinfo(h);
        return NULL;
    }
    return h;
}

/* verbs keeps registrations that were closed, and their keys alive, in a cache (seen: a write with a
 * closed key landed). It can be turned off only before the library is first used; check.c finds
 * out whether that was in time. */
static void cache_off(const char *provider)
{
    if (strcmp(provider, "verbs") != 0)
        return;
    setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
    setenv("FI_MR_CACHE_MONITOR", "disabled", 0);
}

static int failed(struct err *e, const char *what, const char *on, int rc)
{
    int code = rc == -FI_EADDRINUSE ? ERR_EXISTS : rc == -FI_ENOMEM ? ERR_NOMEM : ERR_SYSTEM;

    return err_set(e, code, "%s: %s: %s", on, what, ofi_library.strerror(-rc));
}

static int check_info(const struct fi_info *i, const char *where, struct err *e)
{
    const uint64_t order = FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAW;
    const char *lacks = NULL;

    if ((i->tx_attr->msg_order & order) != order)
        lacks = "writes and reads in order";
    else if (i->ep_attr->max_order_waw_size < PIECE_BYTES_MAX)
        lacks = "large writes in order";
    else if (i->ep_attr->max_order_raw_size < sizeof(uint64_t))
        lacks = "reads behind writes";
    else if (i->ep_attr->max_msg_size < PIECE_BYTES_MAX)
        lacks = "writes of 256 KiB";
    else if (i->mode & ~(FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA))
        lacks = "a mode of use that we know";
    if (lacks)
        return err_set(e, ERR_REFUSED, "%s: provider %s has no %s", where,
                       i->fabric_attr->prov_name, lacks);
    return 0;
}

static int open_queues(struct net *n, const char *where, struct err *e)
{
    struct fi_cq_attr cq = {.size = CQ_ENTRIES, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};

    int rc = ofi_library.fabric(n->info->fabric_attr, &n->fabric, NULL);
    if (rc)
        return failed(e, "open the fabric", where, rc);
    rc = fi_domain(n->fabric, n->info, &n->domain, NULL);
    if (rc)
        return failed(e, "open the domain", where, rc);
    rc = fi_cq_open(n->domain, &cq, &n->cq, NULL);
    if (rc)
        return failed(e, "open a completion queue", where, rc);
    rc = fi_eq_open(n->fabric, &eq, &n->eq, NULL);
    if (rc)
        return failed(e, "open an event queue", where, rc);
    n->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (n->wake_fd < 0)
        return err_sys(e, "%s: a descriptor to be woken by", where);
    rc = fi_control(&n->cq->fid, FI_GETWAIT, &n->cq_fd);
    if (rc == 0)
        rc = fi_control(&n->eq->fid, FI_GETWAIT, &n->eq_fd);
    return rc ? failed(e, "get the descriptors to wait on", where, rc) : 0;
}

int net_open(struct net *n, const struct ofi_options *o, struct err *e)
{
    bool host = o->far.self < o->far.hosts_count;
    const struct far_host *h = &o->far.hosts[host ? o->far.self : 0];
    char port[8], where[160];

    snprintf(port, sizeof port, "%u", h->port);
    snprintf(where, sizeof where, "%s %.100s:%s", o->provider, h->address, port);
    cache_off(o->provider);
    struct fi_info *hints = hints_for(o->provider);
    if (!hints)
        return err_set(e, ERR_NOMEM, "%s: no memory", where);
    int rc = ofi_library.getinfo(FI_VERSION(1, 17), h->address, port, host ? FI_SOURCE : 0, hints,
                                 &n->info);
    /* A client may go by any host whose address is known. */
    for (uint32_t i = 1; rc != 0 && !host && i < o->far.hosts_count; i++) {
        snprintf(port, sizeof port, "%u", o->far.hosts[i].port);
        rc = ofi_library.getinfo(FI_VERSION(1, 17), o->far.hosts[i].address, port, 0, hints,
                                 &n->info);
    }
    ofi_library.freeinfo(hints);
    if (rc == -FI_ENODATA)
        return err_set(e, ERR_NOTFOUND,
                       host ? "%s: the provider is not there, or this machine does not have the "
                              "address; fi_info -p %s shows what there is"
                            : "%s: the provider is not there, or knows no way to the address; "
                              "fi_info -p %s shows what there is",
                       where, o->provider);
    if (rc)
        return failed(e, "look for the provider", where, rc);
    rc = check_info(n->info, where, e);
    if (rc == 0)
        rc = open_queues(n, where, e);
    if (rc)
        return rc;
    n->local = n->info->domain_attr->mr_mode & FI_MR_LOCAL;
    n->virtual = n->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    n->given_keys = n->info->domain_attr->mr_mode & FI_MR_PROV_KEY;
    n->inject_bytes = n->info->tx_attr->inject_size;
    n->iovs = n->info->tx_attr->rma_iov_limit;
    n->message_max = n->info->ep_attr->max_msg_size;
    n->data_wakes = strcmp(o->provider, "tcp") == 0;
    return 0;
}

int net_listen(struct net *n, const struct far_options *o, struct err *e)
{
    const struct far_host *h = &o->hosts[o->self];
    char where[160];

    snprintf(where, sizeof where, "host %s at %.100s:%u", h->name, h->address, h->port);
    int rc = fi_passive_ep(n->fabric, n->info, &n->pep, NULL);
    if (rc == 0)
        rc = fi_pep_bind(n->pep, &n->eq->fid, 0);
    if (rc == 0)
        rc = fi_listen(n->pep);
    return rc ? failed(e, "listen", where, rc) : 0;
}

static void close_fid(struct fid *f)
{
    if (f)
        fi_close(f);
}

void net_close(struct net *n)
{
    close_fid(n->pep ? &n->pep->fid : NULL);
    close_fid(n->cq ? &n->cq->fid : NULL);
    close_fid(n->eq ? &n->eq->fid : NULL);
    close_fid(n->domain ? &n->domain->fid : NULL);
    close_fid(n->fabric ? &n->fabric->fid : NULL);
    if (n->info)
        ofi_library.freeinfo(n->info);
    if (n->wake_fd > 0)
        close(n->wake_fd);
    memset(n, 0, sizeof *n);
}

struct fid_mr *net_register(struct net *n, const void *at, size_t bytes, uint64_t access)
{
    struct fid_mr *mr = NULL;
    uint64_t key = 0;

    /* Where we choose, nobody guesses: a key opens a memory to whoever is connected. */
    if (!n->given_keys)
        randombytes_buf(&key, sizeof key);
    return fi_mr_reg(n->domain, at, bytes, access, 0, key, 0, &mr, NULL) == 0 ? mr : NULL;
}

uint64_t net_address(const struct net *n, const void *base, const void *at)
{
    return n->virtual ? (uint64_t)(uintptr_t)at
                      : (uint64_t)((const unsigned char *)at - (const unsigned char *)base);
}

bool net_arm(struct net *n)
{
    struct fid *wait_for[] = {&n->eq->fid, &n->cq->fid};

    /* On tcp, data lands inside fi_trywait of the completion queue, and nothing tells; its descriptor is
     * right without. That of the event queue stays readable after an event until it is called. */
    return fi_trywait(n->fabric, wait_for, n->data_wakes ? 1 : 2) == 0;
}

bool net_wait(struct net *n, uint64_t until_ns)
{
    struct pollfd p[] = {{.fd = n->cq_fd, .events = POLLIN},
                         {.fd = n->eq_fd, .events = POLLIN},
                         {.fd = n->wake_fd, .events = POLLIN}};
    uint64_t drained;
    uint64_t now = until_ns ? clock_now_ns() : 0;
    uint64_t left = until_ns > now ? until_ns - now : 0;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000000u),
                         .tv_nsec = (long)(left % 1000000000u)};

    int ready = ppoll(p, until_ns ? 3 : 2, &t, NULL);
    if (ready > 0 && p[2].revents && read(n->wake_fd, &drained, sizeof drained) < 0) {
        /* Somebody else was faster; it is read by nobody but us. */
    }
    return ready > 0;
}

void net_wake(struct net *n)
{
    far_wake_fd(n->wake_fd);
}

int net_loop_open(const struct net *n, int epoll_fd, struct err *e)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, n->cq_fd, &event) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, n->eq_fd, &event) < 0)
        return err_sys(e, "wait for the descriptors of the fabric");
    return 0;
}
