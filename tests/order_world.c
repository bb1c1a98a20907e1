#include "order_world.h"

#include "base/grow.h"
#include "base/planted.h"
#include "base/rng.h"
#include "mcast/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TWINS = 2 };

/* A message, as its client cast it. */
struct cast {
    unsigned char *payload;
    uint32_t bytes;
    struct message_id id;
    uint64_t final;      /* as the first group to deliver it had it */
    uint32_t delivered;  /* by so many groups */
    uint32_t taken;      /* from its client or by relay, by so many */
    bool must_delivered; /* its client lives to this day */
};

/* One thing that stands in a queue. */
struct thing {
    struct stamp_note t; /* of a group; a message if the stamp is 0 */
    uint32_t cast;
};

struct queue {
    struct thing *thing;
    uint32_t from, end, max;
};

struct group {
    struct order *order[TWINS];
    struct queue *queue; /* by source: clients, then groups */
    uint16_t *life;      /* by client: the last that something was taken of */
    uint8_t *got;        /* by cast: 1 taken, 2 delivered */
    uint64_t last_final; /* of the last delivery */
};

struct client {
    uint16_t life;
    uint64_t seq;
};

struct world {
    struct world_options opt;
    struct world_seen *seen;
    struct rng rng;
    struct group *group;
    struct client *client;
    struct cast *cast;
    uint32_t casts;
    uint32_t sources;
    unsigned char *saved;
    uint64_t saved_max;
    const char *violated;
};

static void violated(struct world *w, const char *property, uint32_t group, uint32_t cast)
{
    if (w->violated == NULL)
        printf("# violation of '%s': seed %llu, group %u, message %u\n", property,
               (unsigned long long)w->opt.seed, group, cast);
    w->violated = w->violated ? w->violated : property;
}

/* ---- queues ---- */

static void push(struct queue *q, const struct thing *t)
{
    if (q->end == q->max) {
        q->max = q->max ? 2 * q->max : 8;
        q->thing = grow("things said", q->thing, sizeof(*q->thing), q->max);
    }
    q->thing[q->end++] = *t;
}

static void tell(struct world *w, uint16_t from, uint16_t to, const struct thing *t)
{
    push(&w->group[to].queue[w->opt.clients + from], t);
}

static struct dst_set destinations(const struct cast *c, uint16_t *list)
{
    const struct message *m = (const void *)c->payload;
    return dst_read(m->rest, m->count, list);
}

/* ---- what a replica does with its order (mcast/genuine.c), for both twins ---- */

static void tell_others(struct world *w, uint16_t g, const struct thing *t)
{
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst = destinations(&w->cast[t->cast], list);
    for (uint32_t i = 0; i < dst.count; i++)
        if (dst.group[i] != g)
            tell(w, g, dst.group[i], t);
}

/* The final stamp, both of them; 0 if it is not known. */
static uint64_t complete(struct world *w, uint16_t g, uint32_t cast)
{
    const struct cast *c = &w->cast[cast];
    uint64_t stamp[TWINS];
    for (uint32_t k = 0; k < TWINS; k++) {
        const void *payload = NULL;
        uint32_t bytes = 0;
        stamp[k] = order_complete(w->group[g].order[k], c->id, &payload, &bytes);
        if (stamp[k] != 0 && (bytes != c->bytes || memcmp(payload, c->payload, bytes) != 0))
            violated(w, "payload", g, cast);
    }
    if (stamp[0] != stamp[1])
        violated(w, "twins", g, cast);
    return stamp[0];
}

static void tell_final(struct world *w, uint16_t g, uint32_t cast)
{
    struct thing t = {.t = {.id = w->cast[cast].id}, .cast = cast};
    t.t.stamp = complete(w, g, cast);
    t.t.id.mark = STAMP_NOTE_FINAL;
    if (t.t.stamp == 0 || order_home((const void *)w->cast[cast].payload) != g)
        return;
    w->seen->homes++;
    tell_others(w, g, &t);
}

static void tell_stamp(struct world *w, uint16_t g, uint32_t cast, uint64_t stamp)
{
    struct thing t = {.t = {.stamp = stamp, .id = w->cast[cast].id}, .cast = cast};
    uint16_t home = order_home((const void *)w->cast[cast].payload);
    if (home == ORDER_NO_HOME)
        tell_others(w, g, &t);
    else if (home == g)
        tell_final(w, g, cast);
    else
        tell(w, g, home, &t);
}

static uint32_t cast_of(const struct world *w, const void *payload)
{
    struct message_id id = message_id(payload);
    for (uint32_t i = w->casts; i-- > 0;)
        if (w->cast[i].id.client == id.client && w->cast[i].id.life == id.life &&
            w->cast[i].id.seq == id.seq)
            return i;
    return w->casts;
}

/* Everybody delivers in the order of one number per message: then nobody contradicts anybody. */
static void deliver(struct world *w, uint16_t g, const void *payload, uint32_t bytes)
{
    struct group *p = &w->group[g];
    uint32_t cast = cast_of(w, payload);
    uint16_t list[DST_GROUPS_MAX];
    if (cast == w->casts) {
        violated(w, "integrity", g, cast);
        return;
    }
    struct cast *c = &w->cast[cast];
    if (bytes != c->bytes || memcmp(payload, c->payload, bytes) != 0 ||
        !dst_has(destinations(c, list), g))
        violated(w, "integrity", g, cast);
    if (p->got[cast] != 1)
        violated(w, p->got[cast] ? "no duplicate" : "integrity", g, cast);
    p->got[cast] = 2;
    uint64_t final = complete(w, g, cast);
    if (c->delivered++ == 0)
        c->final = final;
    if (final == 0 || final != c->final)
        violated(w, "one final stamp", g, cast);
    if (final <= p->last_final)
        violated(w, "order", g, cast);
    p->last_final = final;
    w->seen->delivered++;
}

static void deliver_ready(struct world *w, uint16_t g)
{
    struct group *p = &w->group[g];
    while (w->violated == NULL) {
        uint32_t bytes[TWINS] = {0};
        const unsigned char *payload[TWINS];
        for (uint32_t k = 0; k < TWINS; k++)
            payload[k] = order_first(p->order[k], &bytes[k]);
        if (!payload[0] != !payload[1] || bytes[0] != bytes[1] ||
            (payload[0] && memcmp(payload[0], payload[1], bytes[0]) != 0))
            violated(w, "twins", g, 0);
        if (payload[0] == NULL || w->violated)
            break;
        deliver(w, g, payload[0], bytes[0]);
        for (uint32_t k = 0; k < TWINS; k++)
            order_drop(p->order[k]);
    }
    for (uint32_t k = 0; k < TWINS && w->violated == NULL; k++)
        if (!PLANTED_ANY && order_check(p->order[k]) != NULL)
            violated(w, order_check(p->order[k]), g, 0);
}

static void stamped(struct world *w, uint16_t g, uint32_t cast, const uint64_t stamp[TWINS])
{
    if (stamp[0] != stamp[1])
        violated(w, "twins", g, cast);
    if (stamp[0] != 0) {
        if (w->group[g].got[cast] != 0)
            violated(w, "no duplicate", g, cast);
        w->group[g].got[cast] = 1;
        w->cast[cast].taken++;
        tell_stamp(w, g, cast, stamp[0]);
    }
    deliver_ready(w, g);
}

static void take_client(struct world *w, uint16_t g, const struct thing *t)
{
    struct group *p = &w->group[g];
    const struct cast *c = &w->cast[t->cast];
    uint64_t stamp[TWINS];
    p->life[c->id.client] = c->id.life;
    for (uint32_t k = 0; k < TWINS; k++) {
        order_life(p->order[k], c->id.client, c->id.life);
        stamp[k] = order_message(p->order[k], c->payload, c->bytes);
    }
    if (stamp[0] == 0)
        w->seen->copies_marked++;
    if (stamp[0] == 0 && p->got[t->cast] == 0)
        violated(w, "taken", g, t->cast);
    stamped(w, g, t->cast, stamp);
}

static void take_relay(struct world *w, uint16_t g, const struct thing *t)
{
    struct group *p = &w->group[g];
    const struct cast *c = &w->cast[t->cast];
    bool over = p->life[c->id.client] > c->id.life;
    uint64_t stamp[TWINS];
    for (uint32_t k = 0; k < TWINS; k++)
        stamp[k] = order_relayed(p->order[k], c->payload, c->bytes, over);
    w->seen->relays_taken += stamp[0] != 0;
    w->seen->relays_over += stamp[0] != 0 && over;
    w->seen->relays_late += stamp[0] == 0;
    stamped(w, g, t->cast, stamp);
}

static void take_group(struct world *w, uint16_t g, uint16_t from, const struct thing *t)
{
    struct group *p = &w->group[g];
    if (t->t.stamp == 0) {
        take_relay(w, g, t);
        return;
    }
    struct message_id id = t->t.id;
    bool final = id.mark == STAMP_NOTE_FINAL;
    id.mark = 0;
    enum order_news news[TWINS];
    for (uint32_t k = 0; k < TWINS; k++)
        news[k] = final ? order_final(p->order[k], id, t->t.stamp)
                        : order_stamp(p->order[k], from, id, t->t.stamp);
    if (news[0] != news[1])
        violated(w, "twins", g, t->cast);
    if (news[0] == ORDER_BAD)
        violated(w, "nobody says anything twice", g, t->cast);
    if (news[0] != ORDER_COMPLETE)
        return;
    if (!final)
        tell_final(w, g, t->cast);
    deliver_ready(w, g);
}

/* ---- relaying ---- */

static void relay(struct world *w, uint16_t g, uint32_t cast)
{
    struct group *p = &w->group[g];
    const struct cast *c = &w->cast[cast];
    uint16_t missing[TWINS][DST_GROUPS_MAX];
    uint32_t count[TWINS] = {0}, bytes;
    const void *payload[TWINS];
    for (uint32_t k = 0; k < TWINS; k++)
        payload[k] = order_waiting(p->order[k], c->id, &bytes, missing[k], &count[k]);
    if (!payload[0] != !payload[1] || count[0] != count[1] ||
        memcmp(missing[0], missing[1], count[0] * sizeof(missing[0][0])) != 0)
        violated(w, "twins", g, cast);
    if (payload[0] == NULL)
        return;
    struct thing own = {.t = {.stamp = order_own(p->order[0], c->id), .id = c->id}, .cast = cast};
    struct thing body = {.t = {.id = c->id}, .cast = cast};
    for (uint32_t i = 0; i < count[0]; i++) {
        if (order_home((const void *)c->payload) == g)
            tell(w, g, missing[0][i], &own);
        tell(w, g, missing[0][i], &body);
        w->seen->relays++;
    }
    for (uint32_t k = 0; k < TWINS; k++)
        order_set_relayed(p->order[k], c->id);
}

struct waiting {
    struct message_id *id;
    uint32_t count, max;
};

static bool note_waiting(void *ctx, struct message_id id, uint32_t seen)
{
    struct waiting *list = ctx;
    (void)seen;
    if (list->count == list->max) {
        list->max = list->max ? 2 * list->max : 64;
        list->id = grow("messages that wait", list->id, sizeof(id), list->max);
    }
    list->id[list->count++] = id;
    return false;
}

/* Relays one in `of` of those that wait in a group. */
static void relay_some(struct world *w, uint16_t g, uint64_t of)
{
    struct waiting list = {0}, other = {0};
    order_watch(w->group[g].order[0], note_waiting, &list);
    order_watch(w->group[g].order[1], note_waiting, &other);
    if (list.count != other.count ||
        (list.count > 0 && memcmp(list.id, other.id, list.count * sizeof(*list.id)) != 0))
        violated(w, "twins", g, 0);
    for (uint32_t i = 0; i < list.count; i++) {
        struct message m = {
            .seq = list.id[i].seq, .client = list.id[i].client, .life = list.id[i].life};
        if (rng_below(&w->rng, of) == 0)
            relay(w, g, cast_of(w, &m));
    }
    free(list.id);
    free(other.id);
}

/* ---- clients ---- */

static uint32_t draw_destinations(struct world *w, uint16_t *list)
{
    uint32_t most = w->opt.dst_max ? w->opt.dst_max : w->opt.groups;
    uint32_t want = (uint32_t)rng_range(&w->rng, 2, most), count = 0;
    /* Two groups have more to do than the others, so that clocks are apart. */
    if (rng_below(&w->rng, 3) == 0) {
        list[0] = 0;
        list[1] = 1;
        return 2;
    }
    for (uint32_t g = 0; g < w->opt.groups && count < want; g++)
        if (rng_below(&w->rng, w->opt.groups - g) < want - count)
            list[count++] = (uint16_t)g;
    return count;
}

static void cast_one(struct world *w)
{
    uint32_t who = (uint32_t)rng_below(&w->rng, w->opt.clients);
    struct client *c = &w->client[who];
    uint16_t list[DST_GROUPS_MAX];
    uint32_t count = draw_destinations(w, list);
    uint32_t body = (uint32_t)rng_below(&w->rng, w->opt.body_max + 1);
    struct cast *m = &w->cast[w->casts];
    m->bytes = message_bytes(count, body);
    m->payload = grow("a message", NULL, 1, m->bytes);
    struct message *head = (void *)m->payload;
    *head =
        (struct message){.seq = c->seq++, .client = who, .life = c->life, .count = (uint16_t)count};
    dst_write(head->rest, (struct dst_set){list, count});
    for (uint32_t i = 0; i < body; i++)
        m->payload[m->bytes - body + i] = (unsigned char)(w->casts * 7 + i);
    m->id = message_id(head);
    m->must_delivered = true;
    for (uint32_t i = 0; i < count; i++)
        push(&w->group[list[i]].queue[who], &(struct thing){.cast = w->casts});
    w->casts++;
}

/* What a group has not taken may never have got there. Another process comes in the client's place. */
static void client_dies(struct world *w)
{
    uint32_t who = (uint32_t)rng_below(&w->rng, w->opt.clients);
    for (uint32_t g = 0; g < w->opt.groups; g++) {
        struct queue *q = &w->group[g].queue[who];
        q->end -= (uint32_t)rng_below(&w->rng, q->end - q->from + 1);
    }
    for (uint32_t i = 0; i < w->casts; i++)
        w->cast[i].must_delivered &= w->cast[i].id.client != who;
    w->client[who].life++;
    w->client[who].seq = 0;
}

/* ---- snapshots ---- */

static void save_and_load(struct world *w, uint16_t g)
{
    struct group *p = &w->group[g];
    uint32_t from = (uint32_t)rng_below(&w->rng, TWINS);
    uint64_t most = order_save_bytes(p->order[from]);
    if (most > w->saved_max) {
        w->saved_max = 2 * most;
        w->saved = grow("a snapshot", w->saved, 1, w->saved_max);
    }
    uint64_t bytes = order_save(p->order[from], w->saved);
    if (bytes > most)
        violated(w, "save_bytes is the most", g, 0);
    /* Into one that knows nothing, or in place of all that it knows. */
    if (rng_below(&w->rng, 2)) {
        struct order_options o = {.group = g, .groups = w->opt.groups, .clients = w->opt.clients};
        order_close(p->order[1]);
        CHECK(order_open(&o, &p->order[1], NULL) == 0);
    }
    if (!order_load(p->order[1], w->saved, bytes))
        violated(w, "what was saved can be loaded", g, 0);
    w->seen->saves++;
}

/* ---- the whole ---- */

/* Lets a group take one thing from somebody; false if there is none. */
static bool step(struct world *w, uint16_t g)
{
    struct group *p = &w->group[g];
    uint32_t at = (uint32_t)rng_below(&w->rng, w->sources);
    for (uint32_t i = 0; i < w->sources; i++, at = (at + 1) % w->sources) {
        struct queue *q = &p->queue[at];
        if (q->from == q->end)
            continue;
        struct thing t = q->thing[q->from++];
        if (q->from == q->end)
            q->from = q->end = 0;
        if (at < w->opt.clients)
            take_client(w, g, &t);
        else
            take_group(w, g, (uint16_t)(at - w->opt.clients), &t);
        uint32_t pending = order_pending(p->order[0]);
        if (pending != order_pending(p->order[1]))
            violated(w, "twins", g, t.cast);
        w->seen->pending_max = pending > w->seen->pending_max ? pending : w->seen->pending_max;
        return true;
    }
    return false;
}

/* Somebody takes something, whoever can; false if nobody has anything to take. */
static bool step_any(struct world *w, uint32_t first)
{
    uint32_t n = w->opt.groups - first, at = (uint32_t)rng_below(&w->rng, n);
    for (uint32_t i = 0; i < n; i++)
        if (step(w, (uint16_t)(first + (at + i) % n)))
            return true;
    return false;
}

static void play(struct world *w)
{
    const struct world_options *o = &w->opt;
    uint32_t first = o->late ? 1 : 0;
    /* Often clients are faster than everybody can follow, often not. */
    uint64_t cast_every = rng_range(&w->rng, 2, 4 * (o->dst_max ? o->dst_max : o->groups));
    while (w->violated == NULL) {
        if (w->casts < o->casts && rng_below(&w->rng, cast_every) == 0)
            cast_one(w);
        if (o->deaths && rng_below(&w->rng, 100) == 0)
            client_dies(w);
        uint16_t g = (uint16_t)rng_below(&w->rng, o->groups);
        if (o->suspicious && rng_below(&w->rng, 20) == 0)
            relay_some(w, g, 4);
        if (o->save_every && rng_below(&w->rng, o->save_every) == 0)
            save_and_load(w, g);
        if (!step_any(w, first) && w->casts == o->casts) {
            if (first == 0)
                break;
            first = 0;
        }
    }
    /* Nobody has anything to take: what still waits was not got by all. */
    for (bool more = true; more && w->violated == NULL;) {
        for (uint16_t g = 0; g < o->groups; g++)
            relay_some(w, g, 1);
        for (more = false; w->violated == NULL && step_any(w, 0);)
            more = true;
    }
}

static void check_end(struct world *w)
{
    uint16_t list[DST_GROUPS_MAX];
    for (uint32_t i = 0; i < w->casts; i++) {
        const struct cast *c = &w->cast[i];
        uint32_t want = destinations(c, list).count;
        if (c->delivered != want && (c->taken > 0 || c->must_delivered))
            violated(w, "all are delivered", list[0], i);
        w->seen->lost += c->taken == 0;
    }
    for (uint16_t g = 0; g < w->opt.groups; g++)
        if (order_pending(w->group[g].order[0]) != 0)
            violated(w, "nothing is left over", g, 0);
}

const char *world_run(const struct world_options *options, struct world_seen *seen)
{
    struct world w = {.opt = *options, .seen = seen};
    const struct world_options *o = &w.opt;
    *seen = (struct world_seen){0};
    rng_init(&w.rng, o->seed);
    w.sources = o->clients + o->groups;
    w.group = calloc(o->groups, sizeof(*w.group));
    w.client = calloc(o->clients, sizeof(*w.client));
    w.cast = calloc(o->casts, sizeof(*w.cast));
    CHECK(w.group && w.client && w.cast);
    for (uint32_t g = 0; g < o->groups; g++) {
        struct order_options oo = {
            .group = (uint16_t)g, .groups = o->groups, .clients = o->clients};
        struct group *p = &w.group[g];
        p->queue = calloc(w.sources, sizeof(*p->queue));
        p->life = calloc(o->clients, sizeof(*p->life));
        p->got = calloc(o->casts, sizeof(*p->got));
        CHECK(p->queue && p->life && p->got);
        for (uint32_t k = 0; k < TWINS; k++)
            CHECK(order_open(&oo, &p->order[k], NULL) == 0);
    }
    play(&w);
    if (w.violated == NULL)
        check_end(&w);
    for (uint32_t g = 0; g < o->groups; g++) {
        struct group *p = &w.group[g];
        for (uint32_t k = 0; k < TWINS; k++)
            order_close(p->order[k]);
        for (uint32_t s = 0; s < w.sources; s++)
            free(p->queue[s].thing);
        free(p->queue);
        free(p->life);
        free(p->got);
    }
    for (uint32_t i = 0; i < w.casts; i++)
        free(w.cast[i].payload);
    free(w.cast);
    free(w.client);
    free(w.group);
    free(w.saved);
    return w.violated;
}
