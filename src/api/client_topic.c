/* Topics of programs that are no members (include/tram/topic.h).
 *
 * What members keep of a topic with history they feed before what is new (group/relay.h). What is on disks a client reads itself, where a host's disk is on
 * its machine: from where it wants to begin up to the first sample that it is fed, and again where samples are missing. The two are put together by
 * their versions, which are the same in both. */
#include "api/group_client.h"
#include "api/group_kept.h"
#include "api/topic.h"
#include "base/clock.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)

enum {
    DISK_LATE_MS = 2000, /* how long a disk may be behind what is delivered */
    READ_EVERY_MS = 5,   /* how often it is read meanwhile, */
    READ_PART = 4,       /* but not for more than such a part of the time */
    HELD_BYTES = 1 << 20,
};

/* A sample that waits for those before it, which are on a disk. */
struct held {
    uint64_t version;
    uint32_t bytes, sender, client, pad;
};

struct tram_client_topic {
    struct tram_group_client *of;
    struct topic_where where;
    struct tram_client_topic_options opt;
    struct tram_client_topic *next; /* of the same cell */
    unsigned char *with_name;       /* a sample to be sent, behind the name */

    /* Of one that is on disks, and begins in the past: */
    bool reads;       /* it does */
    bool begun;       /* it was read once, */
    bool joined;      /* and nothing is between that and what is fed; else that waits: */
    uint64_t version; /* of the next sample, at least */
    unsigned char *held;
    uint32_t held_bytes;
    uint64_t until;             /* version of the first that waits */
    uint64_t read_ns, pause_ns; /* when it is read next, and how long that is */
    uint64_t moved_ns;          /* when it last brought something */
};

static uint32_t cell_of(const struct tram_client_topic *t)
{
    return t->where.cell;
}

/* Is it open still? Its callbacks may close it. */
static bool is_open(const struct tram_group_client *c, uint32_t cell,
                    const struct tram_client_topic *t)
{
    const struct tram_client_topic *o = c->topic[cell];
    while (o && o != t)
        o = o->next;
    return o != NULL;
}

static void tell_lost(const struct tram_client_topic *t, uint64_t count)
{
    if (count && t->opt.on_lost)
        t->opt.on_lost(t->opt.ctx, count);
}

/* ---- from disks ---- */

struct reading {
    struct tram_group_client *of;
    struct tram_client_topic *topic;
    uint32_t cell;
};

/* Nonzero: the topic was closed meanwhile. */
static int on_version(void *ctx, const struct tram_version *v)
{
    const struct reading *r = ctx;
    struct tram_client_topic *t = r->topic;
    struct tram_item item = {
        .data = v->data, .bytes = v->bytes, .sender = v->sender, .number = stamp_count(v->version)};
    t->version = v->version + 1;
    if (!topic_take(&t->where, &item))
        return 0;
    t->opt.on_samples(t->opt.ctx, stamp_vid(v->version), &item, 1);
    return !is_open(r->of, r->cell, t);
}

/* All that some disk of this machine has from where it is. Negative: none can be read. */
static int read_disks(struct tram_client_topic *t)
{
    const struct tram_cluster *c = t->of->cluster;
    const struct cluster_cell_name cell = cluster_cell_name(c->conf, cell_of(t));
    struct reading r = {.of = t->of, .topic = t, .cell = cell_of(t)};
    uint64_t time = t->version > 0 || t->opt.from != TRAM_FROM_TIME ? 0 : t->opt.at;
    int found = ERR_NOTFOUND;
    for (uint32_t h = 0; h < c->conf->hosts; h++) {
        if (!in_set(t->where.subgroup->hosts, h))
            continue;
        int rc = tram_versions_read(c, c->conf->host[h].name, cell.s, t->version, time, on_version,
                                    &r, NULL);
        if (rc > 0)
            return rc;
        found = rc == 0 ? 0 : found;
    }
    return found;
}

/* What waited comes now. False: the topic was closed. */
static bool join(struct tram_client_topic *t)
{
    struct tram_group_client *c = t->of;
    const uint32_t cell = cell_of(t);
    unsigned char *held = t->held;
    const uint32_t bytes = t->held_bytes;
    struct held h;
    bool open = true;
    t->held = NULL;
    t->held_bytes = 0;
    t->joined = true;
    for (uint32_t at = 0; open && at < bytes; at += (uint32_t)sizeof(h) + ((h.bytes + 7) & ~7u)) {
        memcpy(&h, held + at, sizeof(h));
        struct tram_item item = {.data = held + at + sizeof(h),
                                 .bytes = h.bytes,
                                 .sender = h.sender,
                                 .number = stamp_count(h.version),
                                 .client = h.client};
        if (h.version < t->version)
            continue;
        t->version = h.version + 1;
        if (topic_take(&t->where, &item)) {
            t->opt.on_samples(t->opt.ctx, stamp_vid(h.version), &item, 1);
            open = is_open(c, cell, t);
        }
    }
    free(held);
    return open;
}

static bool is_late(const struct tram_client_topic *t, uint64_t now_ns)
{
    return t->begun && now_ns - t->moved_ns > DISK_LATE_MS * MS;
}

/* It has what is before those that wait, or no disk will have it. False: the topic was closed. */
static bool read_on(struct tram_client_topic *t, uint64_t now_ns)
{
    const uint64_t before = t->version;
    int rc = read_disks(t);
    if (rc > 0)
        return false;
    const uint64_t end = clock_now_ns(), least = (end - now_ns) * READ_PART;
    const bool moved = t->version > before || !t->begun;
    t->begun = true;
    t->pause_ns = moved || t->pause_ns == 0 ? READ_EVERY_MS * MS : 2 * t->pause_ns;
    t->pause_ns = t->pause_ns > least ? t->pause_ns : least;
    t->read_ns = end + t->pause_ns;
    t->moved_ns = moved ? end : t->moved_ns;
    if (t->held_bytes == 0)
        return true;
    const bool late = is_late(t, end);
    if (t->version <= t->until && !late)
        return true;
    if (t->version <= t->until)
        tell_lost(t, TRAM_LOST_SOME);
    return is_open(t->of, cell_of(t), t) && join(t);
}

bool client_topics_read(struct tram_group_client *c, uint64_t now_ns)
{
    bool waits = false;
    for (uint32_t i = 0; i < c->cells; i++)
        for (struct tram_client_topic *t = c->topic[i], *next; t; t = next) {
            next = t->next;
            /* If none waits: what was delivered before is on the disk soon. */
            bool due = t->reads && !t->joined && (t->held_bytes > 0 || !is_late(t, now_ns));
            waits |= due;
            if (due && now_ns >= t->read_ns && tram_client_topic_fed(t) && !read_on(t, now_ns))
                return true; /* it was closed, perhaps others too */
        }
    return waits;
}

/* ---- what is fed ---- */

/* With more than there is room for it begins anew: a disk has that, too. */
static void hold(struct tram_client_topic *t, uint64_t version, const struct tram_item *m)
{
    const struct held h = {
        .version = version, .bytes = m->bytes, .sender = m->sender, .client = m->client};
    const uint32_t size = (uint32_t)sizeof(h) + ((m->bytes + 7) & ~7u);
    t->held = t->held ? t->held : malloc(HELD_BYTES);
    if (t->held_bytes + size > HELD_BYTES)
        t->held_bytes = 0;
    if (t->held == NULL)
        return;
    if (t->held_bytes == 0) {
        t->until = version;
        t->moved_ns = clock_now_ns();
        t->read_ns = t->pause_ns = 0;
    }
    memcpy(t->held + t->held_bytes, &h, sizeof(h));
    memcpy(t->held + t->held_bytes + sizeof(h), m->data, m->bytes);
    t->held_bytes += size;
}

/* Versions of a raw cell do not rise, and nothing of it is kept. */
static bool is_old(const struct tram_client_topic *t, uint64_t version, bool past)
{
    return t->where.subgroup->mode != CLUSTER_MODE_RAW &&
           (version < t->version || (past && t->opt.from == TRAM_FROM_NOW && t->version == 0));
}

static void take(struct tram_client_topic *t, uint64_t vid, struct tram_item m, bool past,
                 uint64_t lost)
{
    const uint64_t version = stamp(vid, m.number);
    struct tram_group_client *c = t->of;
    const uint32_t cell = cell_of(t);
    if (is_old(t, version, past))
        return;
    t->joined &= lost == 0;
    t->held_bytes = lost ? 0 : t->held_bytes; /* a disk has what is missing, and those */
    if (t->reads && !t->joined) {
        hold(t, version, &m);
        return;
    }
    tell_lost(t, lost);
    if (!is_open(c, cell, t))
        return;
    t->version = version + 1;
    if (topic_take(&t->where, &m))
        t->opt.on_samples(t->opt.ctx, vid, &m, 1);
}

void client_topic_samples(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *in,
                          uint32_t count, uint64_t lost)
{
    struct tram_group_client *c = ctx;
    for (uint32_t i = 0; i < count; i++, lost = 0)
        for (struct tram_client_topic *t = c->topic[cell], *next; t; t = next) {
            const struct tram_item item = {.data = in[i].data,
                                           .bytes = in[i].bytes,
                                           .sender = in[i].sender,
                                           .number = in[i].number,
                                           .client = in[i].client};
            next = t->next;
            if (t->opt.role & TRAM_SUBSCRIBE)
                take(t, vid, item, in[i].kind == CLIENT_PAST, lost);
            if (next && !is_open(c, cell, next))
                break;
        }
}

/* ---- opening ---- */

static bool is_same(const struct tram_client_topic *t, const struct topic_where *w)
{
    return t->where.ahead == w->ahead && memcmp(t->where.name, w->name, w->ahead) == 0;
}

static bool has_disk_here(const struct tram_group_client *c, const struct cluster_subgroup *s)
{
    struct err e = {""};
    bool found = false;
    for (uint32_t h = 0; h < c->cluster->conf->hosts && !found; h++) {
        struct block *b = NULL;
        found = in_set(s->hosts, h) && group_kept_look(c->cluster, h, &b, &e) == 0;
        if (found)
            block_close(b);
    }
    return found;
}

static int find(const struct tram_group_client *c, const char *name,
                const struct tram_client_topic_options *o, struct topic_where *out, struct err *e)
{
    const struct topic_wish w = {.name = name,
                                 .role = o->role,
                                 .qos = o->qos,
                                 .from = o->from,
                                 .listens = o->on_samples != NULL};
    int rc = topic_find(c->cluster->conf, &w, out, e);
    if (rc < 0)
        return rc;
    for (const struct tram_client_topic *t = c->topic[out->cell]; t; t = t->next)
        if (is_same(t, out))
            return err_set(e, ERR_INVALID, "topic %s: it is open already", name);
    if (o->from == TRAM_FROM_TIME && o->at > clock_wall_ms() * MS)
        return err_set(e, ERR_INVALID, "topic %s: the time to begin with has not come yet", name);
    if (o->from == TRAM_FROM_NOW || !cluster_subgroup_keeps(out->subgroup) ||
        has_disk_here(c, out->subgroup))
        return 0;
    return err_set(e, ERR_NOTFOUND,
                   "topic %s: what it was before now is on its hosts' disks, and none of them is "
                   "on this machine; there, `tram log` prints it",
                   name);
}

static bool somebody_listens(const struct tram_client_topic *t)
{
    for (; t; t = t->next)
        if (t->opt.role & TRAM_SUBSCRIBE)
            return true;
    return false;
}

/* A cell that is fed already begins anew if this topic wants more of it; others know what they have had. */
static void subscribe(struct tram_client_topic *t)
{
    struct tram_group_client *c = t->of;
    bool past = t->opt.from != TRAM_FROM_NOW && !t->reads, fed = somebody_listens(t->next);
    if (fed && !past)
        return;
    if (fed)
        client_unsubscribe(c->client, cell_of(t));
    client_subscribe(c->client, cell_of(t),
                     !past                            ? CLIENT_FROM_NOW
                     : t->opt.from == TRAM_FROM_START ? 0
                                                      : t->opt.at);
}

int tram_client_topic_open(struct tram_group_client *c, const char *name,
                           const struct tram_client_topic_options *o,
                           struct tram_client_topic **out, struct tram_error *error)
{
    struct err e = {""};
    struct topic_where where;
    int rc = find(c, name, o, &where, &e);
    if (rc < 0)
        return api_error(error, rc, &e);
    uint32_t most = where.ahead ? tram_group_client_message_max(c, where.cell) : 0;
    struct tram_client_topic *t = calloc(1, sizeof(*t) + most);
    if (t == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    *t = (struct tram_client_topic){
        .of = c, .where = where, .opt = *o, .next = c->topic[where.cell]};
    t->with_name = (unsigned char *)(t + 1);
    t->reads = o->role & TRAM_SUBSCRIBE && o->from != TRAM_FROM_NOW &&
               cluster_subgroup_keeps(where.subgroup);
    t->version = o->from == TRAM_FROM_VERSION ? o->at : 0;
    c->topic[where.cell] = t;
    c->reads += t->reads;
    if (o->role & TRAM_SUBSCRIBE)
        subscribe(t);
    *out = t;
    return TRAM_OK;
}

void tram_client_topic_close(struct tram_client_topic *t)
{
    if (t == NULL)
        return;
    struct tram_group_client *c = t->of;
    uint32_t cell = cell_of(t);
    struct tram_client_topic **at = &c->topic[cell];
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    c->reads -= t->reads;
    if (t->opt.role & TRAM_SUBSCRIBE && c->client && !somebody_listens(c->topic[cell]))
        client_unsubscribe(c->client, cell);
    free(t->held);
    free(t);
}

void client_topics_close(struct tram_group_client *c)
{
    for (uint32_t i = 0; c->topic && i < c->cells; i++)
        while (c->topic[i])
            tram_client_topic_close(c->topic[i]);
}

/* ---- publishing ---- */

static const char *name_of(const struct tram_client_topic *t)
{
    return t->where.ahead ? (const char *)t->where.name + 1 : t->where.subgroup->name;
}

int tram_client_publish(struct tram_client_topic *t, const void *data, uint32_t bytes,
                        uint64_t *ticket, struct tram_error *error)
{
    struct err e = {""};
    const uint32_t ahead = t->where.ahead;
    uint64_t most = tram_group_client_message_max(t->of, cell_of(t));
    if (!(t->opt.role & TRAM_PUBLISH))
        return api_error(
            error, err_set(&e, ERR_REFUSED, "topic %s was not opened to publish", name_of(t)), &e);
    if (ahead == 0)
        return tram_group_client_send(t->of, cell_of(t), data, bytes, ticket, error);
    if ((uint64_t)bytes + ahead > most)
        return api_error(error,
                         err_set(&e, ERR_TOOBIG, "topic %s: %u bytes; a client sends at most %llu",
                                 name_of(t), bytes,
                                 (unsigned long long)(most > ahead ? most - ahead : 0)),
                         &e);
    memcpy(t->with_name, t->where.name, ahead);
    memcpy(t->with_name + ahead, data, bytes);
    return tram_group_client_send(t->of, cell_of(t), t->with_name, bytes + ahead, ticket, error);
}

bool tram_client_topic_fed(const struct tram_client_topic *t)
{
    return client_feeder(t->of->client, cell_of(t)) < t->of->cluster->conf->hosts;
}
