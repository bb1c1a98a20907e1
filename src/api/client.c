#include "api/api.h"

#include "base/clock.h"
#include "check/trace.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPIN_NS = 50000,        /* how long a waiting client spins before it sleeps */
    ROUNDS_PER_YIELD = 64,  /* how often it lets others have the core meanwhile */
    SLEEP_NS_MAX = 5000000, /* and how long it sleeps at most before it looks after its rings */
};

/* A call that waits for its replies. */
struct call {
    uint64_t ticket;
    bool done;
    const uint16_t *groups; /* ascending */
    uint32_t count;
    unsigned char *replies;
    uint32_t reply_max;
    uint32_t *lengths;
};

struct tram_client {
    const struct tram_cluster *cluster;
    struct tram_client_options opt;
    struct mem *mem;
    struct caster *caster;
    uint32_t place;
    struct trace_writer *trace;
    struct say say;                /* to opt.log, or the cluster's */
    struct call *call;             /* the one under way, if any */
    uint64_t finished;             /* messages */
    const struct api_world *world; /* NULL: shared memory */
    void *world_ctx;
};

static uint64_t now_ns(const struct tram_client *c)
{
    return c->world ? c->world->now_ns(c->world_ctx) : clock_now_ns();
}

static struct trace_id trace_id_of(const struct tram_client *c, uint64_t seq)
{
    return (struct trace_id){.seq = seq, .client = c->place, .life = (uint16_t)c->mem->incarnation};
}

static void on_reply(void *ctx, uint64_t seq, uint16_t group, uint32_t status, const void *body,
                     uint32_t bytes)
{
    struct tram_client *c = ctx;
    struct call *call = c->call;
    (void)status;
    if (call && call->ticket == seq && call->replies) {
        uint32_t i = 0;
        while (i < call->count && call->groups[i] != group)
            i++;
        if (i < call->count) {
            uint32_t n = bytes < call->reply_max ? bytes : call->reply_max;
            memcpy(call->replies + (size_t)i * call->reply_max, body, n);
            if (call->lengths)
                call->lengths[i] = n;
        }
    }
    if (c->opt.reply)
        c->opt.reply(c->opt.ctx, seq, group, body, bytes);
}

static void on_done(void *ctx, uint64_t seq, bool refused)
{
    struct tram_client *c = ctx;
    (void)refused; /* cannot be: destinations are checked before they are cast */
    c->finished++;
    if (c->trace)
        trace_done(c->trace, trace_id_of(c, seq));
    if (c->world)
        c->world->done(c->world_ctx, seq);
    if (c->call && c->call->ticket == seq)
        c->call->done = true;
    if (c->opt.done)
        c->opt.done(c->opt.ctx, seq);
}

static int caster_make(struct tram_client *c, struct err *e)
{
    struct caster_options o = {
        .mem = c->mem,
        .protocol = c->cluster->protocol,
        .overlay = c->cluster->overlay,
        .groups = c->cluster->group,
        .sizes = c->cluster->sizes,
        .slot = c->place,
        .reply = on_reply,
        .done = on_done,
        .ctx = c,
    };
    return caster_open(&o, &c->caster, e);
}

static int open_all(struct tram_client *c, struct err *e)
{
    int rc = api_join_client(c->cluster, &c->say, &c->mem, e);
    if (rc != 0)
        return rc;
    c->place = c->mem->self - c->cluster->sizes.client_node;
    rc = caster_make(c, e);
    if (rc != 0 || c->opt.trace_dir == NULL)
        return rc;
    char name[48];
    snprintf(name, sizeof(name), "client-%u-%u", c->place, c->mem->incarnation);
    return api_trace(c->cluster, c->opt.trace_dir, name, &c->say, &c->trace, e);
}

int tram_client_open(const struct tram_cluster *cluster, const struct tram_client_options *o,
                     struct tram_client **out, struct tram_error *error)
{
    struct err e = {""};
    struct tram_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    c->cluster = cluster;
    if (o)
        c->opt = *o;
    c->say = api_say(cluster, &c->opt.log);
    int rc = open_all(c, &e);
    if (rc != 0) {
        tram_client_close(c);
        return api_error(error, rc, &e);
    }
    *out = c;
    return TRAM_OK;
}

int api_client_open(const struct tram_cluster *cluster, const struct tram_client_options *o,
                    const struct api_world *world, void *ctx, struct mem *mem, uint32_t place,
                    struct tram_client **out, struct err *e)
{
    struct tram_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory");
    *c = (struct tram_client){
        .cluster = cluster, .mem = mem, .place = place, .world = world, .world_ctx = ctx};
    if (o)
        c->opt = *o;
    int rc = caster_make(c, e);
    /* All at once: in a simulated memory what is on its way to a region that is not there yet holds up
     * what comes after it. */
    for (uint32_t g = 0; rc == 0 && g < cluster->conf->groups; g++)
        rc = caster_group_open(c->caster, (uint16_t)g, e);
    if (rc != 0)
        api_client_end(c);
    else
        *out = c;
    return rc;
}

void api_client_end(struct tram_client *c)
{
    caster_close(c->caster);
    trace_close(c->trace, NULL);
    free(c);
}

uint64_t api_client_finished(const struct tram_client *c)
{
    return c->finished;
}

void tram_client_close(struct tram_client *c)
{
    if (c == NULL)
        return;
    if (c->world) {
        c->world->close(c->world_ctx);
        return;
    }
    struct mem *mem = c->mem;
    api_client_end(c);
    if (mem)
        mem_close(mem);
}

uint32_t tram_client_place(const struct tram_client *c)
{
    return c->place;
}

uint32_t tram_client_life(const struct tram_client *c)
{
    return c->mem->incarnation;
}

/* Rings to the groups that a message needs, made when first used. */
static int reach(struct tram_client *c, struct dst_set dst, struct err *e)
{
    int rc = caster_group_open(c->caster, overlay_lca(c->cluster->overlay, dst), e);
    for (uint32_t i = 0; rc == 0 && i < dst.count; i++)
        rc = caster_group_open(c->caster, dst.group[i], e);
    return rc;
}

static int cast(struct tram_client *c, struct dst_set dst, const void *body, uint32_t bytes,
                uint64_t *ticket, struct err *e)
{
    int rc = caster_cast(c->caster, dst, body, bytes, ticket);
    if (rc == ERR_NOTFOUND) {
        rc = reach(c, dst, e);
        if (rc == 0)
            rc = caster_cast(c->caster, dst, body, bytes, ticket);
    }
    if (rc == ERR_TOOBIG)
        err_set(e, rc, "a message of %u bytes; the cluster file allows %u", bytes,
                c->cluster->sizes.body_max);
    /* What is in our rings has not been sent before the next flush. */
    if (rc == 0 && c->trace)
        trace_cast(c->trace, trace_id_of(c, *ticket), (struct trace_dst){dst.group, dst.count});
    if (rc == 0 && c->world)
        c->world->cast(c->world_ctx, *ticket, dst);
    return rc;
}

int tram_cast(struct tram_client *c, const uint16_t *groups, uint32_t count, const void *body,
              uint32_t bytes, uint64_t *ticket, struct tram_error *error)
{
    struct err e = {""};
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst;
    uint64_t seq;
    if (count > DST_GROUPS_MAX)
        return api_error(
            error, err_set(&e, ERR_INVALID, "%u destinations; at most %d", count, DST_GROUPS_MAX),
            &e);
    if (count > 0)
        memcpy(list, groups, count * sizeof(*groups));
    int rc = dst_normalise(list, count, c->cluster->conf->groups, &dst, &e);
    if (rc == 0)
        rc = cast(c, dst, body, bytes, ticket ? ticket : &seq, &e);
    return api_error(error, rc, &e);
}

void tram_client_flush(struct tram_client *c)
{
    caster_flush(c->caster);
}

int tram_client_poll(struct tram_client *c)
{
    caster_flush(c->caster);
    mem_poll(c->mem);
    return caster_poll(c->caster, now_ns(c));
}

static int wait_in_world(struct tram_client *c, uint64_t timeout_ns, struct err *e)
{
    uint64_t before = c->finished, now = now_ns(c);
    uint64_t until = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    tram_client_poll(c);
    int rc = c->finished != before ? 0 : c->world->wait(c->world_ctx, until, e);
    return rc < 0 ? rc : (int)(c->finished - before);
}

/* Spins, then sleeps. */
static int wait_here(struct tram_client *c, uint64_t timeout_ns)
{
    uint64_t start = clock_now_ns(), now = start;
    for (uint32_t rounds = 1;; rounds++) {
        int done = tram_client_poll(c);
        if (done > 0)
            return done;
        now = clock_now_ns();
        if (now - start >= timeout_ns)
            return 0;
        if (now - start < SPIN_NS) {
            if (rounds % ROUNDS_PER_YIELD == 0)
                sched_yield();
            continue;
        }
        mem_doze(c->mem);
        done = tram_client_poll(c);
        if (done > 0) {
            mem_rouse(c->mem);
            return done;
        }
        uint64_t left = timeout_ns - (now - start);
        mem_sleep(c->mem, now + (left < SLEEP_NS_MAX ? left : SLEEP_NS_MAX));
    }
}

static int wait_for(struct tram_client *c, uint64_t timeout_ns, struct err *e)
{
    return c->world ? wait_in_world(c, timeout_ns, e) : wait_here(c, timeout_ns);
}

int tram_client_wait(struct tram_client *c, uint64_t timeout_ns)
{
    struct err e = {""};
    return api_error(NULL, wait_for(c, timeout_ns, &e), &e);
}

bool tram_client_done(const struct tram_client *c, uint64_t ticket)
{
    return caster_is_done(c->caster, ticket);
}

uint32_t tram_client_outstanding(const struct tram_client *c)
{
    return caster_outstanding(c->caster);
}

uint32_t tram_client_window(const struct tram_client *c)
{
    return caster_window(c->caster);
}

int tram_call(struct tram_client *c, const uint16_t *groups, uint32_t count, const void *body,
              uint32_t bytes, void *replies, uint32_t reply_max, uint32_t *lengths,
              uint64_t timeout_ns, struct tram_error *error)
{
    struct err e = {""};
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst;
    if (count > DST_GROUPS_MAX || c->call)
        return api_error(error,
                         err_set(&e, ERR_INVALID, "%s",
                                 c->call ? "a call within a call" : "too many destinations"),
                         &e);
    if (count > 0)
        memcpy(list, groups, count * sizeof(*groups));
    int rc = dst_normalise(list, count, c->cluster->conf->groups, &dst, &e);
    uint64_t deadline = now_ns(c) + timeout_ns;
    struct call call = {.groups = list,
                        .count = rc == 0 ? dst.count : 0,
                        .replies = replies,
                        .reply_max = reply_max,
                        .lengths = lengths};
    while (rc == 0 || rc == ERR_AGAIN) {
        rc = cast(c, dst, body, bytes, &call.ticket, &e);
        if (rc != ERR_AGAIN)
            break;
        if (now_ns(c) >= deadline)
            rc = ERR_TIMEOUT;
        else if ((rc = wait_for(c, 1000000, &e)) >= 0)
            rc = ERR_AGAIN;
    }
    c->call = &call;
    while (rc >= 0 && !call.done) {
        uint64_t now = now_ns(c);
        if (now >= deadline)
            rc = err_set(&e, ERR_TIMEOUT, "no answer from all of %u groups in %llu ms", dst.count,
                         (unsigned long long)(timeout_ns / 1000000));
        else
            rc = wait_for(c, deadline - now, &e);
    }
    c->call = NULL;
    return api_error(error, rc < 0 ? rc : 0, &e);
}
