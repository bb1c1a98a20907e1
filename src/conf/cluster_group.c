/* What a cluster file has under protocol group: subgroups, who keeps views, and when the first view begins. */
#include "base/minmax.h"
#include "conf/take.h"
#include "conf/value.h"

#include <string.h>

enum subgroup_key {
    SUB_NAME,
    SUB_SHARDS,
    SUB_MODE,
    SUB_MEMBERS_MIN,
    SUB_MEMBERS_MAX,
    SUB_HOSTS,
    SUB_SENDERS,
    SUB_OVERLAP,
    SUB_RING_BYTES,
    SUB_MESSAGE_MAX,
    SUB_HISTORY,
    SUB_LARGE_MAX,
    SUB_LARGE_WINDOW,
    SUB_RDMC,
    SUB_SLOTS,
    SUB_RETAIN,
    SUB_SIGN,
    SUB_KEYS
};

static const char *const subgroup_keys[] = {
    "name",         "shards",  "mode",       "members_min", "members_max", "hosts",
    "senders",      "overlap", "ring_bytes", "message_max", "history",     "large_max",
    "large_window", "rdmc",    "slots",      "retain",      "sign",        NULL};

_Static_assert(sizeof subgroup_keys / sizeof subgroup_keys[0] == SUB_KEYS + 1,
               "every key of a subgroup has a name");

/* A topic is a subgroup of one shard, with a word for what is promised. */
enum topic_key {
    TOPIC_NAME,
    TOPIC_QOS,
    TOPIC_HOSTS,
    TOPIC_SENDERS,
    TOPIC_MEMBERS_MIN,
    TOPIC_RING_BYTES,
    TOPIC_MESSAGE_MAX,
    TOPIC_HISTORY,
    TOPIC_SLOTS,
    TOPIC_RETAIN,
    TOPIC_SIGN,
    TOPIC_KEYS
};

static const char *const topic_keys[] = {"name",        "qos",        "hosts",       "senders",
                                         "members_min", "ring_bytes", "message_max", "history",
                                         "slots",       "retain",     "sign",        NULL};

enum topic_qos { QOS_UNORDERED, QOS_ATOMIC, QOS_VOLATILE, QOS_LOGGED };

static const char *const qos_names[] = {"unordered", "atomic", "volatile", "logged", NULL};

static const char topic_like[] = "{name: t1, qos: atomic}";

static const char subgroup_like[] = "{name: s1, members_min: 2}";

/* ---- questions ---- */

int cluster_subgroup(const struct cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->subgroups; i++)
        if (strcmp(c->subgroup[i].name, name) == 0)
            return (int)i;
    return CLUSTER_NONE;
}

static const char *subgroup_name(const void *of, uint32_t i)
{
    return ((const struct cluster *)of)->subgroup[i].name;
}

struct nearest_text cluster_subgroups_near(const struct cluster *c, const char *name)
{
    return nearest_text(name, (struct nearest_names){subgroup_name, c, c->subgroups}, 4);
}

uint32_t cluster_cells(const struct cluster *c)
{
    uint32_t cells = 0;

    for (uint32_t i = 0; i < c->subgroups; i++)
        cells += c->subgroup[i].shards;
    return cells;
}

uint32_t cluster_cell_subgroup(const struct cluster *c, uint32_t cell, uint32_t *shard)
{
    uint32_t i = 0;

    for (; i + 1 < c->subgroups && cell >= c->subgroup[i].shards; i++)
        cell -= c->subgroup[i].shards;
    *shard = cell;
    return i;
}

struct cluster_cell_name cluster_cell_name(const struct cluster *c, uint32_t cell)
{
    struct cluster_cell_name out;
    uint32_t shard;
    const struct cluster_subgroup *s = &c->subgroup[cluster_cell_subgroup(c, cell, &shard)];

    if (s->shards == 1)
        snprintf(out.s, sizeof out.s, "%s", s->name);
    else
        snprintf(out.s, sizeof out.s, "%s/%u", s->name, shard);
    return out;
}

int cluster_cell(const struct cluster *c, const char *name)
{
    const uint32_t cells = cluster_cells(c);

    for (uint32_t i = 0; i < cells; i++)
        if (strcmp(cluster_cell_name(c, i).s, name) == 0)
            return (int)i;
    return CLUSTER_NONE;
}

bool setting_applies(const struct cluster *c, enum setting s)
{
    if (s == SETTING_disk_bytes)
        return c->durable;
    return c->protocol != CLUSTER_GROUP || s == SETTING_clients || s == SETTING_snap_bytes ||
           s == SETTING_heartbeat_ms || s == SETTING_suspect_ms || s == SETTING_detach_ms;
}

uint32_t keepers_standard(uint32_t hosts)
{
    return hosts >= 9 ? 5 : hosts >= 3 ? 3 : 1;
}

/* ---- sets of hosts ---- */

/* A list of hosts, each once, as a set; and in their order, if that is asked for. */
static int take_hosts_of(struct reader *r, const struct node *n, const char *what, uint64_t *set,
                         uint8_t *order, uint32_t most)
{
    uint32_t at = n->first;

    *set = 0;
    if (n->kind != NODE_LIST || n->count == 0)
        return doc_bad(r->d, n->line, r->e, "%s must be a list of hosts like [%s], not %s", what,
                       r->c->host[0].name,
                       n->kind == NODE_LIST ? "an empty one" : doc_what(r->d, n).s);
    for (uint32_t i = 0; i < n->count; i++) {
        const struct node *item = doc_node(r->d, at);
        const char *name = NULL;
        int rc = take_text(r, item, what, "a list of names of hosts", &name);
        if (rc < 0)
            return rc;
        int host = cluster_host(r->c, name);
        if (host == CLUSTER_NONE)
            return doc_bad(r->d, item->line, r->e, "%s names '%s', which is no host; %s", what,
                           doc_shown(name).s, cluster_hosts_near(r->c, name).s);
        if (*set >> host & 1)
            return doc_bad(r->d, item->line, r->e, "%s names host '%s' twice; name each once", what,
                           name);
        if (i == most)
            return doc_bad(r->d, item->line, r->e, "%s names too many hosts; at most %u", what,
                           most);
        *set |= UINT64_C(1) << host;
        if (order != NULL)
            order[i] = (uint8_t)host;
        at = item->next;
    }
    return 0;
}

static uint32_t count_of(uint64_t set)
{
    return (uint32_t)__builtin_popcountll(set);
}

static uint64_t all_hosts(const struct cluster *c)
{
    return c->hosts == 64 ? UINT64_MAX : (UINT64_C(1) << c->hosts) - 1;
}

/* ---- a subgroup ---- */

static int take_senders(struct reader *r, const struct node *n, struct cluster_subgroup *s)
{
    char what[CLUSTER_NAME_BYTES + 32];

    s->senders = CLUSTER_ALL;
    if (n == NULL || (n->kind == NODE_TEXT && strcmp(doc_text(r->d, n), "all") == 0))
        return 0;
    if (n->kind != NODE_LIST)
        return doc_bad(r->d, n->line, r->e,
                       "senders must be `all` or a list of hosts like [%s], not %s",
                       r->c->host[0].name, doc_what(r->d, n).s);
    snprintf(what, sizeof what, "senders of subgroup '%s'", s->name);
    int rc = take_hosts_of(r, n, what, &s->senders, NULL, CLUSTER_MEMBERS_MAX);
    uint64_t outside = s->senders & ~s->hosts;
    if (rc < 0 || outside == 0)
        return rc;
    return doc_bad(r->d, n->line, r->e,
                   "host '%s' sends in subgroup '%s' and may not be in it; add it to its hosts, or"
                   " leave it out of its senders",
                   r->c->host[__builtin_ctzll(outside)].name, s->name);
}

static int take_rings(struct reader *r, const struct node *const *value, struct cluster_subgroup *s)
{
    const struct node *ring = value[SUB_RING_BYTES], *message = value[SUB_MESSAGE_MAX];

    s->ring_bytes = RING_BYTES_DEFAULT;
    int rc = take_bytes(r, ring, "ring_bytes", RING_BYTES_LEAST, RING_BYTES_MOST, &s->ring_bytes);
    if (rc < 0)
        return rc;
    uint64_t power = value_power_from(s->ring_bytes);
    if (power != s->ring_bytes)
        return doc_bad(
            r->d, ring->line, r->e, "ring_bytes must be a power of two; %s is none, %s and %s are",
            doc_what(r->d, ring).s, value_size_shown(power / 2).s, value_size_shown(power).s);
    s->message_max = s->ring_bytes / RING_MESSAGES;
    rc = take_bytes(r, message, "message_max", 1, RING_BYTES_MOST / RING_MESSAGES, &s->message_max);
    if (rc < 0 || s->message_max <= s->ring_bytes / RING_MESSAGES)
        return rc;
    return doc_bad(r->d, message->line, r->e,
                   "message_max (%s) is more than an eighth of ring_bytes (%s); set it to %s or"
                   " less, or ring_bytes to %s or more",
                   value_size_shown(s->message_max).s, value_size_shown(s->ring_bytes).s,
                   value_size_shown(s->ring_bytes / RING_MESSAGES).s,
                   value_size_shown(value_power_from((uint64_t)s->message_max * RING_MESSAGES)).s);
}

/* A multiple of the largest message, since what is written over is whole ones. */
static int take_history(struct reader *r, const struct node *n, struct cluster_subgroup *s)
{
    int rc = take_bytes(r, n, "history", HISTORY_BYTES_LEAST, HISTORY_BYTES_MOST, &s->history);
    if (rc < 0 || n == NULL)
        return rc;
    if (s->mode != CLUSTER_MODE_MEMORY)
        return doc_bad(r->d, n->line, r->e,
                       "history is for mode: memory, in which all members have the same; leave it"
                       " out, or change the mode");
    uint64_t power = value_power_from(s->history);
    if (power != s->history)
        return doc_bad(
            r->d, n->line, r->e, "history must be a power of two; %s is none, %s and %s are",
            doc_what(r->d, n).s, value_size_shown(power / 2).s, value_size_shown(power).s);
    if (s->history / HISTORY_MESSAGES >= s->message_max)
        return 0;
    return doc_bad(
        r->d, n->line, r->e,
        "history (%s) has no room for %d messages of message_max (%s); set it to %s or"
        " more, or message_max to %s or less",
        value_size_shown(s->history).s, HISTORY_MESSAGES, value_size_shown(s->message_max).s,
        value_size_shown(value_power_from((uint64_t)s->message_max * HISTORY_MESSAGES)).s,
        value_size_shown(s->history / HISTORY_MESSAGES).s);
}

/* Are there hosts for what it wants? */
static int check_members(struct reader *r, const struct node *const *value,
                         const struct cluster_subgroup *s)
{
    const struct node *least = value[SUB_MEMBERS_MIN], *most = value[SUB_MEMBERS_MAX];
    const struct node *shards = value[SUB_SHARDS];
    uint32_t hosts = count_of(s->hosts);
    uint64_t needed = (uint64_t)s->members_min * (s->overlap ? 1 : s->shards);

    if (s->members_max != 0 && s->members_max < s->members_min)
        return doc_bad(r->d, most->line, r->e,
                       "members_max (%u) is less than members_min (%u); set it to %u or more, or"
                       " leave it out",
                       s->members_max, s->members_min, s->members_min);
    if (needed <= hosts)
        return 0;
    return doc_bad(r->d,
                   least    ? least->line
                   : shards ? shards->line
                            : s->line,
                   r->e,
                   "subgroup '%s' needs %llu hosts, %u for each of %u shard%s, and has %u; name"
                   " more hosts, %s",
                   s->name, (unsigned long long)needed, s->members_min, s->shards,
                   s->shards > 1 ? "s" : "", hosts,
                   s->shards > 1 ? "make the shards fewer, or write overlap: true"
                                 : "or make members_min smaller");
}

static int check_cells(struct reader *r, const struct node *n)
{
    uint32_t cells = cluster_cells(r->c);

    if (cells <= CLUSTER_CELLS_MAX)
        return 0;
    return doc_bad(r->d, n->line, r->e,
                   "the subgroups up to here have %u shards; a cluster has at most %d", cells,
                   CLUSTER_CELLS_MAX);
}

static int take_subgroup_name(struct reader *r, const struct node *n, const struct node *name,
                              struct cluster_subgroup *s)
{
    if (name == NULL)
        return doc_bad(r->d, n->line, r->e, "a subgroup without a name; add one like `name: s1`");
    int rc = take_name(r, name, "subgroup name", s->name);
    int old = rc == 0 ? cluster_subgroup(r->c, s->name) : CLUSTER_NONE;
    if (old != CLUSTER_NONE)
        return doc_bad(r->d, name->line, r->e,
                       "subgroup '%s' a second time, the first is in line %u; give each subgroup a"
                       " name of its own",
                       s->name, r->c->subgroup[old].line);
    return rc;
}

/* Topics that the file does not name: each shard has all hosts that may be in it, since anybody may want any of them. */
static int take_slots(struct reader *r, const struct node *const *value, struct cluster_subgroup *s)
{
    int rc = take_bool(r, value[SUB_SLOTS], "slots", &s->slots);
    if (rc < 0 || !s->slots)
        return rc;
    if (value[SUB_MEMBERS_MAX] != NULL || (value[SUB_OVERLAP] != NULL && !s->overlap))
        return doc_bad(
            r->d, value[SUB_MEMBERS_MAX] ? value[SUB_MEMBERS_MAX]->line : value[SUB_OVERLAP]->line,
            r->e,
            "subgroup '%s' has slots: true, and all of its hosts are in all of its"
            " shards; leave out members_max and overlap",
            s->name);
    s->overlap = true;
    return 0;
}

/* What is said of a subgroup, by its keys; without `mode` it has the one that is given. */
static int take_values(struct reader *r, const struct node *n,
                       const struct node *const value[SUB_KEYS], unsigned mode)
{
    struct cluster *c = r->c;
    struct cluster_subgroup *s = &c->subgroup[c->subgroups];
    char what[CLUSTER_NAME_BYTES + 32];

    int rc = take_subgroup_name(r, n, value[SUB_NAME], s);
    if (rc < 0)
        return rc;
    s->line = n->line;
    s->shards = s->members_min = 1;
    s->hosts = all_hosts(c);
    snprintf(what, sizeof what, "hosts of subgroup '%s'", s->name);
    rc = take_count(r, value[SUB_SHARDS], s->slots ? "slots" : "shards", 1, CLUSTER_CELLS_MAX,
                    &s->shards);
    rc = rc < 0 ? rc : take_word(r, value[SUB_MODE], "mode", cluster_mode_names, &mode);
    s->mode = (enum cluster_mode)mode;
    rc = rc < 0 ? rc
                : take_count(r, value[SUB_MEMBERS_MIN], "members_min", 1, CLUSTER_MEMBERS_MAX,
                             &s->members_min);
    rc = rc < 0 ? rc
                : take_count(r, value[SUB_MEMBERS_MAX], "members_max", 1, CLUSTER_MEMBERS_MAX,
                             &s->members_max);
    if (rc == 0 && value[SUB_HOSTS] != NULL)
        rc = take_hosts_of(r, value[SUB_HOSTS], what, &s->hosts, NULL, CLUSTER_MEMBERS_MAX);
    rc = rc < 0 ? rc : take_senders(r, value[SUB_SENDERS], s);
    rc = rc < 0 ? rc : take_bool(r, value[SUB_OVERLAP], "overlap", &s->overlap);
    rc = rc < 0 ? rc : take_slots(r, value, s);
    rc = rc < 0 ? rc : take_rings(r, value, s);
    rc = rc < 0 ? rc : take_history(r, value[SUB_HISTORY], s);
    rc =
        rc < 0 ? rc : retain_read(r, &(struct retain_nodes){value[SUB_RETAIN], value[SUB_SIGN]}, s);
    rc = rc < 0 ? rc
                : large_read(r,
                             &(struct large_nodes){value[SUB_LARGE_MAX], value[SUB_LARGE_WINDOW],
                                                   value[SUB_RDMC]},
                             s);
    rc = rc < 0 ? rc : check_members(r, value, s);
    if (rc < 0)
        return rc;
    c->subgroups++;
    return check_cells(r, n);
}

static int check_subgroup(struct reader *r, const struct node *n, const char *like)
{
    if (r->c->subgroups == CLUSTER_CELLS_MAX)
        return doc_bad(r->d, n->line, r->e, "too many subgroups; a cluster has at most %d",
                       CLUSTER_CELLS_MAX);
    if (n->kind != NODE_MAP)
        return doc_bad(r->d, n->line, r->e, "%s must be written like %s, not as %s",
                       like == topic_like ? "a topic" : "a subgroup", like, doc_what(r->d, n).s);
    return 0;
}

static int take_subgroup(struct reader *r, const struct node *n)
{
    const struct node *value[SUB_KEYS] = {NULL};

    int rc = check_subgroup(r, n, subgroup_like);
    rc = rc < 0 ? rc : take_keys(r, n, "a subgroup", subgroup_keys, value);
    return rc < 0 ? rc : take_values(r, n, value, CLUSTER_MODE_MEMORY);
}

static int take_topic(struct reader *r, const struct node *n)
{
    static const enum cluster_mode modes[] = {[QOS_UNORDERED] = CLUSTER_MODE_RAW,
                                              [QOS_ATOMIC] = CLUSTER_MODE_MEMORY,
                                              [QOS_VOLATILE] = CLUSTER_MODE_MEMORY,
                                              [QOS_LOGGED] = CLUSTER_MODE_LOGGED};
    const struct node *t[TOPIC_KEYS] = {NULL};
    unsigned qos = QOS_ATOMIC;

    int rc = check_subgroup(r, n, topic_like);
    rc = rc < 0 ? rc : take_keys(r, n, "a topic", topic_keys, t);
    rc = rc < 0 ? rc : take_word(r, t[TOPIC_QOS], "qos", qos_names, &qos);
    if (rc < 0)
        return rc;
    if (qos == QOS_VOLATILE && t[TOPIC_HISTORY] == NULL)
        return doc_bad(r->d, t[TOPIC_QOS]->line, r->e,
                       "qos: volatile keeps the last samples, and nothing says how many; add"
                       " history, like `history: 1 MiB`");
    if (qos != QOS_VOLATILE && t[TOPIC_HISTORY] != NULL)
        return doc_bad(r->d, t[TOPIC_HISTORY]->line, r->e,
                       "history is for qos: volatile, and this is qos: %s; leave it out, or change"
                       " the qos",
                       qos_names[qos]);
    const struct node *const value[SUB_KEYS] = {[SUB_NAME] = t[TOPIC_NAME],
                                                [SUB_HOSTS] = t[TOPIC_HOSTS],
                                                [SUB_SENDERS] = t[TOPIC_SENDERS],
                                                [SUB_MEMBERS_MIN] = t[TOPIC_MEMBERS_MIN],
                                                [SUB_RING_BYTES] = t[TOPIC_RING_BYTES],
                                                [SUB_MESSAGE_MAX] = t[TOPIC_MESSAGE_MAX],
                                                [SUB_HISTORY] = t[TOPIC_HISTORY],
                                                [SUB_SHARDS] = t[TOPIC_SLOTS],
                                                [SUB_RETAIN] = t[TOPIC_RETAIN],
                                                [SUB_SIGN] = t[TOPIC_SIGN]};
    struct cluster_subgroup *s = &r->c->subgroup[r->c->subgroups];
    s->slots = s->overlap = t[TOPIC_SLOTS] != NULL;
    return take_values(r, n, value, modes[qos]);
}

static int take_each(struct reader *r, const struct node *list,
                     int (*take)(struct reader *, const struct node *))
{
    int rc = 0;
    uint32_t at = list->first;

    for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
        const struct node *n = doc_node(r->d, at);
        rc = take(r, n);
        at = n->next;
    }
    return rc;
}

/* Either may be missing, but not both. */
static int take_subgroups(struct reader *r, const struct node *root, const struct group_nodes *g)
{
    int rc = 0;

    if (g->subgroups != NULL || g->topics == NULL) {
        rc = take_list(r, root, g->subgroups, "subgroups", subgroup_like);
        rc = rc < 0 ? rc : take_each(r, g->subgroups, take_subgroup);
    }
    if (rc == 0 && g->topics != NULL) {
        rc = take_list(r, root, g->topics, "topics", topic_like);
        rc = rc < 0 ? rc : take_each(r, g->topics, take_topic);
    }
    return rc;
}

/* ---- the whole ---- */

static int take_keepers(struct reader *r, const struct node *n)
{
    struct cluster *c = r->c;
    uint64_t set = 0;

    c->keepers = keepers_standard(c->hosts);
    for (uint32_t i = 0; i < c->keepers; i++)
        c->keeper[i] = (uint8_t)i;
    if (n == NULL)
        return 0;
    int rc = take_hosts_of(r, n, "keepers", &set, c->keeper, CLUSTER_KEEPERS_MAX);
    if (rc < 0)
        return rc;
    c->keepers = n->count;
    if (n->count % 2 == 1)
        return 0;
    return doc_bad(r->d, n->line, r->e,
                   "keepers names %u hosts, of which no more may fail than of %u; name an odd"
                   " number of them, %u or %u",
                   n->count, n->count - 1, n->count - 1, n->count + 1);
}

static void warn_of_idle_hosts(struct reader *r)
{
    struct cluster *c = r->c;
    uint64_t used = 0;

    for (uint32_t i = 0; i < c->subgroups; i++)
        used |= c->subgroup[i].hosts;
    for (uint32_t i = 0; i < c->keepers; i++)
        used |= UINT64_C(1) << c->keeper[i];
    for (uint32_t h = 0; h < c->hosts; h++)
        if (!(used >> h & 1))
            cluster_warn(c, r->d, c->host[h].line,
                         "host '%s' is in no subgroup and no keeper; name it in one, or leave it"
                         " out",
                         c->host[h].name);
}

bool cluster_keeps(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->subgroups; i++)
        if (cluster_subgroup_keeps(&c->subgroup[i]))
            return true;
    return false;
}

bool cluster_has_disks(const struct cluster *c)
{
    return c->durable || cluster_keeps(c);
}

/* Subgroups whose messages are kept, and what is needed for that. */
static int check_kept(struct reader *r, const struct group_nodes *g)
{
    struct cluster *c = r->c;
    const struct node *idle = g->id ? g->id : g->data_dir;

    for (uint32_t i = 0; i < c->subgroups; i++) {
        const struct cluster_subgroup *s = &c->subgroup[i];
        if (cluster_subgroup_keeps(s) && g->id == NULL)
            return doc_bad(r->d, s->line, r->e,
                           "subgroup '%s' has mode: %s, and there is no id, by which disks know"
                           " their cluster: add `id:` and 32 hexadecimal digits that no other"
                           " cluster has; `tram init --protocol group --mode %s` writes a file"
                           " with one",
                           s->name, cluster_mode_names[s->mode], cluster_mode_names[s->mode]);
        if (s->mode != CLUSTER_MODE_DURABLE)
            continue;
        if (g->view_majority != NULL && !c->view_majority)
            return doc_bad(r->d, g->view_majority->line, r->e,
                           "view_majority: false, and subgroup '%s' has mode: durable, which a"
                           " minority must not go on with; leave it out",
                           s->name);
        c->view_majority = true;
    }
    if (idle == NULL || cluster_keeps(c))
        return 0;
    return doc_bad(r->d, idle->line, r->e,
                   "%s is for what is kept, and no subgroup has mode: logged or mode: durable;"
                   " leave it out, or give one of them",
                   g->id ? "id" : "data_dir");
}

/* Keys of the other protocols, on which nothing would depend though the file relies on them. */
static int check_foreign(struct reader *r, const struct group_nodes *g)
{
    if (r->c->durable)
        return doc_bad(r->d, g->durable->line, r->e,
                       "durable: true is for protocol: tree and genuine; under protocol: group each"
                       " subgroup says so, with mode: logged or mode: durable");
    if (g->groups != NULL)
        return doc_bad(r->d, g->groups->line, r->e,
                       "groups are for protocol: tree and genuine; under protocol: group there are"
                       " subgroups, with lines like `- %s`",
                       subgroup_like);
    for (enum setting s = 0; s < SETTING_COUNT; s++)
        if (g->settings[s] != NULL && !setting_applies(r->c, s))
            return doc_bad(r->d, g->settings[s]->line, r->e,
                           "%s is for protocol: tree and genuine; leave it out (subgroups have"
                           " ring_bytes and message_max)",
                           setting_info[s].key);
    return 0;
}

static int refuse_ours(struct reader *r, const struct group_nodes *g)
{
    const struct {
        const struct node *n;
        const char *what;
    } ours[] = {{g->subgroups, "subgroups"}, {g->topics, "topics"},
                {g->keepers, "keepers"},     {g->view_majority, "view_majority"},
                {g->start_ms, "start_ms"},   {g->block_bytes, "block_bytes"}};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (ours[i].n != NULL)
            return doc_bad(r->d, ours[i].n->line, r->e,
                           "%s is for protocol: group, and this is protocol: %s; leave it out, or"
                           " change the protocol",
                           ours[i].what, cluster_protocol_names[r->c->protocol]);
    return 0;
}

int group_read(struct reader *r, const struct node *root, const struct group_nodes *g)
{
    struct cluster *c = r->c;

    if (c->protocol != CLUSTER_GROUP)
        return refuse_ours(r, g);
    int rc = check_foreign(r, g);
    if (rc < 0)
        return rc;
    if (c->hosts > CLUSTER_MEMBERS_MAX)
        return doc_bad(r->d, c->host[CLUSTER_MEMBERS_MAX].line, r->e,
                       "too many hosts; under protocol: group there are at most %d",
                       CLUSTER_MEMBERS_MAX);
    c->view_majority = c->transport != CLUSTER_SHM;
    c->start_ms = START_MS_DEFAULT;
    rc = take_bool(r, g->view_majority, "view_majority", &c->view_majority);
    rc = rc < 0 ? rc : take_count(r, g->start_ms, "start_ms", 0, START_MS_MAX, &c->start_ms);
    rc = rc < 0 ? rc : large_read_blocks(r, g->block_bytes);
    rc = rc < 0 ? rc : take_keepers(r, g->keepers);
    rc = rc < 0 ? rc : take_subgroups(r, root, g);
    rc = rc < 0 ? rc : check_kept(r, g);
    if (rc == 0)
        warn_of_idle_hosts(r);
    return rc;
}
