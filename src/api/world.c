/* The world of clients on shared memory or a network: real time, real threads, files. A client that waits spins for a
 * moment and then sleeps; one with an event loop of its own has a descriptor instead. */
#include "api/api.h"

#include "base/clock.h"
#include "host/event.h"
#include "trace/trace.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SPIN_NS = 50000,        /* how long a waiting client spins before it sleeps */
    ROUNDS_PER_YIELD = 64,  /* how often it lets others have the core meanwhile */
    SLEEP_NS_MAX = 5000000, /* and how long it sleeps at most before it looks after its rings */
    IDLE_NS = 500000000,    /* the same with nothing under way, in an event loop */
};

/* What a client has of the real world; ctx of the functions below. */
struct real {
    const struct tram_cluster *cluster;
    struct tram_client *client;
    struct mem *mem;
    struct trace_writer *trace;
    struct event event;
    struct tram_log log; /* as given with the client's options */
    struct say say;
    _Atomic bool woken; /* since the last wait */
};

static uint64_t real_now_ns(void *ctx)
{
    (void)ctx;
    return clock_now_ns();
}

static const char *real_failure(void *ctx)
{
    const struct real *r = ctx;
    return api_mem_failure(r->cluster, r->mem);
}

/* Polls; if nothing is done, the descriptor tells when to poll again. */
static int poll_armed(struct real *r)
{
    event_begin(&r->event);
    int done = api_client_poll(r->client);
    if (done > 0)
        return done;
    mem_doze(r->mem);
    done = api_client_poll(r->client);
    if (done > 0) {
        mem_rouse(r->mem);
        return done;
    }
    /* What is not armed now is readable at once. */
    uint64_t rest = tram_client_outstanding(r->client) > 0 ? SLEEP_NS_MAX : IDLE_NS;
    if (!event_arm(&r->event, clock_now_ns() + rest))
        event_wake(&r->event);
    return 0;
}

static int real_poll(void *ctx)
{
    struct real *r = ctx;
    return r->event.fd >= 0 ? poll_armed(r) : api_client_poll(r->client);
}

/* Spins, then sleeps. */
static int real_wait(void *ctx, uint64_t until_ns, struct err *e)
{
    struct real *r = ctx;
    uint64_t start = clock_now_ns();
    /* The hosts' disks take longer, and their threads need the core. */
    uint64_t spin_ns = r->cluster->conf->durable ? 0 : SPIN_NS;
    if (r->event.fd >= 0)
        event_begin(&r->event);
    for (uint32_t rounds = 1;; rounds++) {
        int done = api_client_poll(r->client);
        if (done == 0)
            done = api_client_served(r->client, e);
        if (done != 0)
            return done;
        uint64_t now = clock_now_ns();
        if (now >= until_ns)
            return 0;
        if (now - start < spin_ns) {
            if (rounds % ROUNDS_PER_YIELD == 0)
                sched_yield();
            continue;
        }
        mem_doze(r->mem);
        done = api_client_poll(r->client);
        if (done > 0 || atomic_exchange(&r->woken, false)) {
            mem_rouse(r->mem);
            return done;
        }
        uint64_t left = until_ns - now;
        mem_sleep(r->mem, now + (left < SLEEP_NS_MAX ? left : SLEEP_NS_MAX));
    }
}

static int real_fd(void *ctx, struct err *e)
{
    struct real *r = ctx;
    int rc = r->event.fd >= 0 ? 0 : event_open(&r->event, r->mem, e);
    return rc == 0 ? r->event.fd : rc;
}

static void real_wake(void *ctx)
{
    struct real *r = ctx;
    atomic_store(&r->woken, true);
    if (r->event.fd >= 0)
        event_wake(&r->event);
    else
        mem_wake(r->mem);
}

static struct trace_id trace_id_of(const struct real *r, uint64_t seq)
{
    return (struct trace_id){
        .seq = seq, .client = tram_client_place(r->client), .life = (uint16_t)r->mem->life};
}

/* What is in our rings has not been sent before the next flush. */
static void real_cast(void *ctx, uint64_t seq, struct dst_set dst)
{
    struct real *r = ctx;
    if (r->trace)
        trace_cast(r->trace, trace_id_of(r, seq), (struct trace_dst){dst.group, dst.count});
}

static void real_done(void *ctx, uint64_t seq)
{
    struct real *r = ctx;
    if (r->trace)
        trace_done(r->trace, trace_id_of(r, seq));
}

static void real_close(void *ctx)
{
    struct real *r = ctx;
    if (r->client)
        api_client_end(r->client);
    trace_close(r->trace, NULL);
    if (r->mem)
        mem_close(r->mem);
    event_close(&r->event);
    free(r);
}

static const struct api_world real_world = {
    .now_ns = real_now_ns,
    .failure = real_failure,
    .poll = real_poll,
    .wait = real_wait,
    .fd = real_fd,
    .wake = real_wake,
    .cast = real_cast,
    .done = real_done,
    .close = real_close,
};

static int open_all(struct real *r, const struct tram_client_options *o, struct err *e)
{
    int rc = api_join_client(r->cluster, &r->say, &r->mem, e);
    if (rc != 0)
        return rc;
    uint32_t place = r->mem->self - r->cluster->sizes.client_node;
    rc = api_client_open(r->cluster, o, &real_world, r, r->mem, place, &r->client, e);
    if (rc != 0 || o == NULL || o->trace_dir == NULL)
        return rc;
    char name[48];
    snprintf(name, sizeof(name), "client-%u-%u", place, r->mem->life);
    return api_trace(r->cluster, o->trace_dir, name, &r->say, &r->trace, e);
}

int tram_client_open(const struct tram_cluster *cluster, const struct tram_client_options *o,
                     struct tram_client **out, struct tram_error *error)
{
    struct err e = {""};
    int rc = api_refuse_group(cluster, "clients", &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    struct real *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    r->cluster = cluster;
    r->event = (struct event)EVENT_CLOSED;
    if (o)
        r->log = o->log;
    r->say = api_say(cluster, &r->log);
    rc = open_all(r, o, &e);
    if (rc != 0) {
        real_close(r);
        return api_error(error, rc, &e);
    }
    *out = r->client;
    return TRAM_OK;
}
