/* A client, in whatever world it lives (api/api.h): casting, replies, calls that wait. */
#include "api/api.h"

#include "api/kept.h"
#include "base/hash.h"
#include "base/lines.h"
#include "mcast/message.h"

#include <stdlib.h>
#include <string.h>

enum { AGAIN_NS = 1000000 }; /* how long a call waits for room to cast before it tries again */

#define NOT_HERE UINT32_MAX

/* A call that waits for its replies. */
struct call {
    uint64_t ticket;
    const uint16_t *groups; /* ascending */
    uint32_t count;
    unsigned char *replies; /* as much of each as there is room for; NULL: not wanted */
    uint32_t reply_max;
    bool cut;                        /* one of them did not fit */
    uint32_t length[DST_GROUPS_MAX]; /* of each, whole; NOT_HERE: it has not come */
};

struct tram_client {
    const struct tram_cluster *cluster;
    struct tram_client_options opt;
    struct mem *mem;
    struct caster *caster;
    uint32_t place;
    struct call *call; /* the one under way, if any */
    struct kept_table kept;
    uint64_t last;     /* ticket of the last message cast */
    uint64_t finished; /* messages */
    const struct api_world *world;
    void *world_ctx;
};

static uint64_t now_ns(const struct tram_client *c)
{
    return c->world->now_ns(c->world_ctx);
}

static void call_begin(struct call *call, const uint16_t *groups, uint32_t count, void *replies,
                       uint32_t reply_max)
{
    call->groups = groups;
    call->count = count;
    call->replies = replies;
    call->reply_max = reply_max;
    call->cut = false;
    for (uint32_t i = 0; i < count; i++)
        call->length[i] = NOT_HERE;
}

static void call_reply(struct call *call, uint16_t group, const void *body, uint32_t bytes)
{
    uint32_t i = 0;
    while (i < call->count && call->groups[i] != group)
        i++;
    if (i == call->count)
        return;
    call->length[i] = bytes;
    if (call->replies == NULL)
        return;
    uint32_t n = bytes < call->reply_max ? bytes : call->reply_max;
    memcpy(call->replies + (size_t)i * call->reply_max, body, n);
    call->cut |= n < bytes;
}

static void on_reply(void *ctx, uint64_t seq, uint16_t group, uint32_t status, const void *body,
                     uint32_t bytes)
{
    struct tram_client *c = ctx;
    struct call *call = c->call;
    (void)status;
    if (call && call->ticket == seq)
        call_reply(call, group, body, bytes);
    struct kept *k = c->kept.used > 0 ? kept_by_ticket(&c->kept, seq) : NULL;
    if (k)
        kept_reply(k, group, body, bytes, bytes);
    if (c->opt.reply)
        c->opt.reply(c->opt.ctx, seq, group, body, bytes);
}

static void on_done(void *ctx, uint64_t seq, bool refused)
{
    struct tram_client *c = ctx;
    (void)refused; /* cannot be: destinations are checked before they are cast */
    c->finished++;
    c->world->done(c->world_ctx, seq);
    struct kept *k = c->kept.used > 0 ? kept_by_ticket(&c->kept, seq) : NULL;
    if (k)
        k->done = true;
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
        .place = c->place,
        .reply = on_reply,
        .done = on_done,
        .ctx = c,
    };
    return caster_open(&o, &c->caster, e);
}

int api_client_open(const struct tram_cluster *cluster, const struct tram_client_options *o,
                    const struct api_world *world, void *ctx, struct mem *mem, uint32_t place,
                    struct tram_client **out, struct err *e)
{
    struct tram_client *c = lines_alloc(sizeof(*c));
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory");
    *c = (struct tram_client){
        .cluster = cluster, .mem = mem, .place = place, .world = world, .world_ctx = ctx};
    if (o)
        c->opt = *o;
    int rc = caster_make(c, e);
    for (uint32_t g = 0; world->opens_all && rc == 0 && g < cluster->conf->groups; g++)
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
    kept_fini(&c->kept);
    free(c);
}

uint64_t api_client_finished(const struct tram_client *c)
{
    return c->finished;
}

void tram_client_close(struct tram_client *c)
{
    if (c)
        c->world->close(c->world_ctx);
}

uint32_t tram_client_place(const struct tram_client *c)
{
    return c->place;
}

uint32_t tram_client_life(const struct tram_client *c)
{
    return c->mem->life;
}

int api_client_served(const struct tram_client *c, struct err *e)
{
    const char *failure = c->world->failure(c->world_ctx);
    return failure ? err_set(e, ERR_REFUSED, "%s", failure) : 0;
}

static int cast(struct tram_client *c, struct dst_set dst, const void *body, uint32_t bytes,
                uint64_t *ticket, struct err *e)
{
    int served = api_client_served(c, e);
    if (served != 0)
        return served;
    int rc = caster_cast(c->caster, dst, body, bytes, ticket);
    if (rc == ERR_NOTFOUND) {
        rc = caster_groups_open(c->caster, dst, e);
        if (rc == 0)
            rc = caster_cast(c->caster, dst, body, bytes, ticket);
    }
    if (rc == ERR_TOOBIG)
        err_set(e, rc, "a message of %u bytes; the cluster file allows %u", bytes,
                c->cluster->sizes.body_max);
    if (rc == 0) {
        c->world->cast(c->world_ctx, *ticket, dst);
        c->last = *ticket;
    }
    return rc;
}

int api_cast_backup(struct tram_client *c, const unsigned char *id, uint64_t *ticket, struct err *e)
{
    uint16_t all[DST_GROUPS_MAX];
    struct dst_set dst = {all, c->cluster->conf->groups};
    for (uint32_t g = 0; g < dst.count; g++)
        all[g] = (uint16_t)g;
    int rc = api_client_served(c, e);
    if (rc == 0)
        rc = caster_groups_open(c->caster, dst, e);
    if (rc == 0)
        rc = caster_cast_backup(c->caster, dst, id, ticket);
    if (rc == ERR_TOOBIG)
        err_set(e, rc, "a backup takes %d bytes, and payload_max of the cluster file is %u",
                MESSAGE_BACKUP_BYTES, c->cluster->sizes.body_max);
    if (rc == ERR_AGAIN)
        err_set(e, rc, "too many messages are under way");
    return rc;
}

/* The groups of a message in order; list is room for them, and what dst points to. */
static int destinations(const struct tram_client *c, const uint16_t *groups, uint32_t count,
                        uint16_t list[DST_GROUPS_MAX], struct dst_set *dst, struct err *e)
{
    if (count > DST_GROUPS_MAX)
        return err_set(e, ERR_INVALID, "%u destinations; at most %d", count, DST_GROUPS_MAX);
    if (count > 0)
        memcpy(list, groups, count * sizeof(*groups));
    return dst_normalise(list, count, c->cluster->conf->groups, dst, e);
}

int tram_cast(struct tram_client *c, const uint16_t *groups, uint32_t count, const void *body,
              uint32_t bytes, uint64_t *ticket, struct tram_error *error)
{
    struct err e = {""};
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst;
    uint64_t seq;
    int rc = destinations(c, groups, count, list, &dst, &e);
    if (rc == 0)
        rc = cast(c, dst, body, bytes, ticket ? ticket : &seq, &e);
    return api_error(error, rc, &e);
}

/* A message with that number was cast before: is it this one? */
static int cast_again(const struct kept *k, struct dst_set dst, uint64_t hash, uint64_t *ticket,
                      struct err *e)
{
    bool same = k->count == dst.count && k->hash == hash &&
                memcmp(k->groups, dst.group, dst.count * sizeof(*k->groups)) == 0;
    if (!same)
        return err_set(e, ERR_INVALID,
                       "request %llu was another message; a retry has the same groups and body",
                       (unsigned long long)k->number);
    *ticket = k->ticket;
    return 0;
}

static int cast_numbered(struct tram_client *c, struct dst_set dst, const struct tram_request *r,
                         uint64_t *ticket, struct err *e)
{
    uint64_t hash = hash_bytes(0, r->body, r->bytes);
    struct kept *k = kept_by_number(&c->kept, r->number);
    if (k)
        return cast_again(k, dst, hash, ticket, e);
    if (r->number <= c->kept.number_max)
        return err_set(e, ERR_NOTFOUND,
                       "request %llu is not among the last %d, and may have been cast; a new "
                       "request has a number above %llu",
                       (unsigned long long)r->number, KEPT_MAX,
                       (unsigned long long)c->kept.number_max);
    int rc = kept_add(&c->kept, dst, &k);
    if (rc == ERR_AGAIN)
        return err_set(e, rc, "%d requests with a number are under way", KEPT_MAX);
    if (rc != 0)
        return err_set(e, rc, "no memory for a request");
    rc = cast(c, dst, r->body, r->bytes, ticket, e);
    if (rc != 0) {
        kept_drop(&c->kept, k);
        return rc;
    }
    k->number = c->kept.number_max = r->number;
    k->ticket = *ticket;
    k->hash = hash;
    return 0;
}

int tram_cast_request(struct tram_client *c, const struct tram_request *r, uint64_t *ticket,
                      struct tram_error *error)
{
    struct err e = {""};
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst;
    uint64_t seq;
    int rc = destinations(c, r->groups, r->count, list, &dst, &e);
    ticket = ticket ? ticket : &seq;
    if (rc == 0)
        rc = r->number ? cast_numbered(c, dst, r, ticket, &e)
                       : cast(c, dst, r->body, r->bytes, ticket, &e);
    return api_error(error, rc, &e);
}

uint64_t tram_client_last(const struct tram_client *c)
{
    return c->last;
}

void tram_client_flush(struct tram_client *c)
{
    caster_flush(c->caster);
}

int api_client_poll(struct tram_client *c)
{
    caster_flush(c->caster);
    mem_poll(c->mem);
    return caster_poll(c->caster, now_ns(c));
}

int tram_client_poll(struct tram_client *c)
{
    int done = c->world->poll(c->world_ctx);
    return done != 0 ? done : api_error(NULL, api_client_served(c, NULL), NULL);
}

int tram_client_fd(struct tram_client *c, struct tram_error *error)
{
    struct err e = {""};
    int fd = c->world->fd(c->world_ctx, &e);
    return fd >= 0 ? fd : api_error(error, fd, &e);
}

void tram_client_wake(struct tram_client *c)
{
    c->world->wake(c->world_ctx);
}

static uint64_t deadline_of(const struct tram_client *c, uint64_t timeout_ns)
{
    uint64_t now = now_ns(c);
    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

int tram_client_wait(struct tram_client *c, uint64_t timeout_ns)
{
    struct err e = {""};
    return api_error(NULL, c->world->wait(c->world_ctx, deadline_of(c, timeout_ns), &e), &e);
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

/* Waits until the message is done: 0, or ERR_TIMEOUT after the deadline. */
static int wait_done(struct tram_client *c, uint64_t ticket, uint64_t deadline, struct err *e)
{
    int rc = 0;
    while (rc >= 0 && !caster_is_done(c->caster, ticket)) {
        if (now_ns(c) >= deadline)
            return err_set(e, ERR_TIMEOUT,
                           "not all groups have answered in time (`tram status` shows which of "
                           "their hosts run); the message may still be delivered, tram_await(%llu) "
                           "waits for it again",
                           (unsigned long long)ticket);
        rc = c->world->wait(c->world_ctx, deadline, e);
    }
    return rc < 0 ? rc : 0;
}

/* Casts as soon as there is room for one more under way. Nothing was cast unless it returns 0. */
static int cast_in_time(struct tram_client *c, struct dst_set dst, const void *body, uint32_t bytes,
                        uint64_t deadline, uint64_t *ticket, struct err *e)
{
    for (;;) {
        int rc = cast(c, dst, body, bytes, ticket, e);
        if (rc != ERR_AGAIN)
            return rc;
        if (now_ns(c) >= deadline)
            return err_set(e, rc, "too many messages under way; this one was not cast");
        rc = c->world->wait(c->world_ctx, deadline_of(c, AGAIN_NS), e);
        if (rc < 0)
            return rc;
    }
}

static int too_big(const struct tram_client *c, uint32_t room, struct err *e)
{
    return err_set(e, ERR_TOOBIG,
                   "a reply is longer than the %u bytes that there is room for (the cluster file "
                   "allows %u); the message was delivered",
                   room, c->cluster->sizes.reply_max);
}

/* The call has timed out: what has come so far, and what will, is kept for tram_await. */
static void call_keep(struct tram_client *c, const struct call *call)
{
    struct kept *k;
    if (kept_add(&c->kept, (struct dst_set){call->groups, call->count}, &k) != 0)
        return; /* it can be waited for all the same, without its replies */
    k->ticket = call->ticket;
    for (uint32_t i = 0; i < call->count; i++) {
        uint32_t bytes = call->length[i];
        if (bytes == NOT_HERE)
            continue;
        uint32_t have = call->replies == NULL     ? 0
                        : bytes < call->reply_max ? bytes
                                                  : call->reply_max;
        kept_reply(k, call->groups[i], call->replies + (size_t)i * call->reply_max, bytes, have);
    }
}

int tram_call(struct tram_client *c, const uint16_t *groups, uint32_t count, const void *body,
              uint32_t bytes, void *replies, uint32_t reply_max, uint32_t *lengths,
              uint64_t timeout_ns, struct tram_error *error)
{
    struct err e = {""};
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst;
    if (c->call)
        return api_error(error, err_set(&e, ERR_INVALID, "a call within a call"), &e);
    int rc = destinations(c, groups, count, list, &dst, &e);
    uint64_t deadline = deadline_of(c, timeout_ns);
    struct call call;
    if (rc == 0)
        rc = cast_in_time(c, dst, body, bytes, deadline, &call.ticket, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    call_begin(&call, list, dst.count, replies, reply_max);
    c->call = &call;
    rc = wait_done(c, call.ticket, deadline, &e);
    c->call = NULL;
    if (lengths)
        for (uint32_t i = 0; i < dst.count; i++)
            lengths[i] = call.length[i] == NOT_HERE ? 0 : call.length[i];
    if (rc == ERR_TIMEOUT)
        call_keep(c, &call);
    else if (rc == 0 && call.cut)
        rc = too_big(c, reply_max, &e);
    return api_error(error, rc, &e);
}

int tram_await(struct tram_client *c, uint64_t ticket, const struct tram_replies *replies,
               uint64_t timeout_ns, struct tram_error *error)
{
    static const struct tram_replies none = {.max = 0};
    const struct tram_replies *r = replies ? replies : &none;
    struct err e = {""};
    struct kept *k = kept_by_ticket(&c->kept, ticket);
    if (c->call)
        return api_error(error, err_set(&e, ERR_INVALID, "a call within a call"), &e);
    if (k == NULL && (r->room || r->lengths))
        return api_error(error,
                         err_set(&e, ERR_NOTFOUND,
                                 "the replies to ticket %llu are not kept: those of requests with "
                                 "a number and of calls that timed out are, the last %d",
                                 (unsigned long long)ticket, KEPT_MAX),
                         &e);
    int rc = wait_done(c, ticket, deadline_of(c, timeout_ns), &e);
    /* It cannot have been dropped meanwhile but by a callback that cast many others. */
    k = kept_by_ticket(&c->kept, ticket);
    if (rc != 0 || k == NULL)
        return api_error(error, rc, &e);
    rc = kept_copy(k, r->room, r->max, r->lengths);
    if (rc == ERR_TOOBIG)
        too_big(c, r->max, &e);
    else if (rc == 0 && k->number == 0)
        kept_drop(&c->kept, k);
    return api_error(error, rc, &e);
}
