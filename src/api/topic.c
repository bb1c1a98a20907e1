/* Topics: subgroups by name, whose deliveries go to those who have subscribed (include/tram/topic.h). */
#include "api/topic.h"

#include "api/group_impl.h"

#include <stdlib.h>

_Static_assert((int)TRAM_TOPICS_MAX == (int)GROUP_TOPICS_MAX, "one limit, in two headers");

struct tram_topic {
    struct tram_group *of;
    uint32_t cell;
    struct topic_where where;
    struct tram_topic_options opt;
    /* Of a topic with history: */
    bool begun;                 /* `place` is where it is; */
    struct history_place place; /* of the next sample that it is due */
    uint64_t lost;
};

enum { REPLAY_BYTES = 1 << 20 }; /* that a subscriber is told in a round, at least */

/* Where the topic is; negative: it cannot be opened like that. */
static int find(const struct tram_group *g, const char *name, const struct tram_topic_options *o,
                struct topic_where *out, struct err *e)
{
    const struct topic_wish w = {.name = name,
                                 .role = o->role,
                                 .qos = o->qos,
                                 .from = o->from,
                                 .listens = o->on_samples != NULL};
    int rc = topic_find(g->cluster->conf, &w, out, e);
    if (rc < 0)
        return rc;
    if (o->from != TRAM_FROM_NOW && out->subgroup->history == 0)
        return err_set(e, ERR_INVALID,
                       "topic %s: a member begins with what is new, and what was before it reads "
                       "from its disk (tram_versions_read)",
                       name);
    if (!in_set(out->subgroup->hosts, g->index))
        return err_set(e, ERR_REFUSED, "topic %s: host %s is not among its hosts", name,
                       g->host_name[g->index]);
    if (o->role & TRAM_PUBLISH && !in_set(out->subgroup->senders, g->index))
        return err_set(e, ERR_REFUSED, "topic %s: host %s is not among its senders", name,
                       g->host_name[g->index]);
    return 0;
}

int tram_topic_open(struct tram_group *g, const char *name, const struct tram_topic_options *o,
                    struct tram_topic **out, struct tram_error *error)
{
    struct err e = {""};
    struct topic_where where;
    int rc = find(g, name, o, &where, &e);
    if (rc < 0)
        return api_error(error, rc, &e);
    uint32_t at = 0;
    while (at < GROUP_TOPICS_MAX && g->topic[at] != NULL)
        at++;
    struct tram_topic *t = at < GROUP_TOPICS_MAX ? calloc(1, sizeof(*t)) : NULL;
    if (t == NULL)
        return api_error(
            error,
            err_set(&e, ERR_NOMEM, "topic %s: a group has at most %d open", name, GROUP_TOPICS_MAX),
            &e);
    *t = (struct tram_topic){.of = g, .cell = where.cell, .where = where, .opt = *o};
    g->topic[at] = t;
    g->topics = at == g->topics ? at + 1 : g->topics;
    *out = t;
    return TRAM_OK;
}

void tram_topic_close(struct tram_topic *t)
{
    if (t == NULL)
        return;
    struct tram_group *g = t->of;
    for (uint32_t i = 0; i < g->topics; i++)
        if (g->topic[i] == t)
            g->topic[i] = NULL;
    while (g->topics > 0 && g->topic[g->topics - 1] == NULL)
        g->topics--;
    free(t);
}

void group_topics_close(struct tram_group *g)
{
    while (g->topics > 0)
        tram_topic_close(g->topic[g->topics - 1]);
}

/* ---- samples ---- */

/* Those of the batch that are this topic's. */
static void tell(const struct tram_topic *t, uint64_t vid, const struct tram_item *item,
                 uint32_t count)
{
    struct tram_item mine[MEMBER_ITEMS_MAX];
    uint32_t n = 0;
    if (t->where.ahead == 0) {
        t->opt.on_samples(t->opt.ctx, vid, item, count);
        return;
    }
    CHECK(count <= MEMBER_ITEMS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        mine[n] = item[i];
        n += topic_take(&t->where, &mine[n]);
    }
    if (n > 0)
        t->opt.on_samples(t->opt.ctx, vid, mine, n);
}

/* A callback may open and close topics, its own too: nothing of one is looked at after its call. Who is behind in the history gets these from
 * there. */
void group_topics_deliver(struct tram_group *g, uint32_t cell, uint64_t vid,
                          const struct tram_item *item, uint32_t count)
{
    struct history *h = g->cell[cell].history;
    uint64_t sequence = h ? history_next(h) : 0;
    if (h)
        history_add(h, vid, item, count);
    for (uint32_t i = 0; i < g->topics; i++) {
        struct tram_topic *t = g->topic[i];
        if (t == NULL || t->cell != cell || !(t->opt.role & TRAM_SUBSCRIBE) ||
            (h && (!t->begun || t->place.sequence != sequence)))
            continue;
        t->place = (struct history_place){.sequence = sequence + count};
        tell(t, vid, item, count);
    }
}

void group_topics_born(struct tram_group *g, uint32_t cell)
{
    history_born(g->cell[cell].history);
    for (uint32_t i = 0; i < g->topics; i++)
        if (g->topic[i] && g->topic[i]->cell == cell)
            g->topic[i]->begun = false;
}

/* Where it begins; or goes on, having missed what is not there any more. */
static void find_place(struct tram_topic *t, const struct history *h)
{
    uint64_t first = history_first(h), next = history_next(h);
    if (!t->begun)
        t->place = (struct history_place){
            .sequence = t->opt.from == TRAM_FROM_NOW ? next
                        : t->opt.from == TRAM_FROM_START
                            ? first
                            : history_from(h, stamp_vid(t->opt.at), stamp_count(t->opt.at))};
    else if (t->place.sequence < first)
        t->lost += first - t->place.sequence;
    t->begun = true;
}

/* More than can be delivered meanwhile, so that nothing goes before it was told. */
static uint64_t replay_bytes(const struct tram_group *g, uint32_t cell)
{
    uint64_t twice = UINT64_C(2) * g->options[cell].ring_bytes;
    return twice > REPLAY_BYTES ? twice : REPLAY_BYTES;
}

static int replay(struct tram_group *g, uint32_t at)
{
    struct tram_topic *t = g->topic[at];
    const struct history *h = g->cell[t->cell].history;
    uint64_t left = replay_bytes(g, t->cell), view = 0;
    int told = 0;
    find_place(t, h);
    while (g->topic[at] == t && left > 0) {
        struct tram_item item[HISTORY_BATCH];
        uint32_t count = history_read(h, &t->place, left, &view, item);
        uint64_t bytes = 0;
        if (count == 0)
            break;
        for (uint32_t i = 0; i < count; i++)
            bytes += sizeof(item[i]) + item[i].bytes;
        left -= bytes < left ? bytes : left;
        told += (int)count;
        tell(t, view, item, count);
    }
    return told;
}

int group_topics_replay(struct tram_group *g)
{
    int told = 0;
    for (uint32_t i = 0; i < g->topics; i++) {
        const struct tram_topic *t = g->topic[i];
        const struct history *h = t ? g->cell[t->cell].history : NULL;
        if (h && t->opt.role & TRAM_SUBSCRIBE && history_is_valid(h) &&
            (!t->begun || t->place.sequence != history_next(h)))
            told += replay(g, i);
    }
    return told;
}

uint64_t tram_topic_lost(const struct tram_topic *t)
{
    return t->lost;
}

/* ---- what clients are fed of the past: as in struct member_machine ---- */

_Static_assert(sizeof(struct member_past) == sizeof(struct history_place),
               "a place in a history is one in the past");

bool group_past(void *ctx, uint32_t cell, struct member_past *at, uint64_t *vid,
                struct member_item *out)
{
    const struct tram_group *g = ctx;
    const struct history *h = g->cell[cell].history;
    struct history_place place = {at->number, at->hint[0], at->hint[1]};
    struct tram_item item;
    if (h == NULL || !history_is_valid(h) || !history_read_one(h, &place, vid, &item))
        return false;
    *at = (struct member_past){place.sequence, {place.position, place.fill}};
    *out = (struct member_item){
        .data = item.data, .bytes = item.bytes, .sender = item.sender, .number = item.number};
    return true;
}

uint64_t group_past_from(void *ctx, uint32_t cell, uint64_t version)
{
    const struct tram_group *g = ctx;
    return history_from(g->cell[cell].history, stamp_vid(version), stamp_count(version));
}

/* ---- publishing ---- */

static int not_to_publish(const struct tram_topic *t, struct tram_error *error)
{
    struct err e = {""};
    return api_error(
        error,
        err_set(&e, ERR_REFUSED, "topic %s was not opened to publish",
                t->where.ahead ? (const char *)t->where.name + 1 : t->where.subgroup->name),
        &e);
}

int tram_publish(struct tram_topic *t, const void *data, uint32_t bytes, struct tram_error *error)
{
    struct err e = {""};
    if (!(t->opt.role & TRAM_PUBLISH))
        return not_to_publish(t, error);
    if (t->where.ahead == 0)
        return tram_group_send(t->of, t->cell, data, bytes, error);
    uint64_t all = (uint64_t)bytes + t->where.ahead;
    bool fits = all <= tram_group_message_max(t->of, t->cell);
    void *room = fits ? tram_publish_reserve(t, bytes) : NULL;
    if (room == NULL)
        return api_error(
            error, group_not_sent(t->of, t->cell, fits ? ERR_AGAIN : ERR_TOOBIG, bytes, &e), &e);
    memcpy(room, data, bytes);
    tram_publish_commit(t, room, bytes);
    return TRAM_OK;
}

void *tram_publish_reserve(struct tram_topic *t, uint32_t bytes)
{
    uint32_t ahead = t->where.ahead;
    if (!(t->opt.role & TRAM_PUBLISH) || bytes > UINT32_MAX - ahead)
        return NULL;
    unsigned char *room = tram_reserve(t->of, t->cell, bytes + ahead);
    if (room)
        memcpy(room, t->where.name, ahead);
    return room ? room + ahead : NULL;
}

void tram_publish_commit(struct tram_topic *t, void *room, uint32_t bytes)
{
    tram_commit(t->of, t->cell, (unsigned char *)room - t->where.ahead, bytes + t->where.ahead);
}

void tram_publish_release(struct tram_topic *t, void *room)
{
    tram_release(t->of, t->cell, (unsigned char *)room - t->where.ahead);
}
