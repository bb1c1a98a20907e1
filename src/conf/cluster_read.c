#include "conf/take.h"
#include "conf/value.h"

#include <string.h>

/* Where the keys of a map stand in these lists is where take_keys puts their values. The settings
 * follow the top keys named here. */
enum top_key {
    TOP_VERSION,
    TOP_NAME,
    TOP_TRANSPORT,
    TOP_PROTOCOL,
    TOP_WAIT,
    TOP_DURABLE,
    TOP_ID,
    TOP_RESTORED,
    TOP_DATA_DIR,
    TOP_HUGE_PAGES,
    TOP_RUNTIME_DIR,
    TOP_KEY,
    TOP_ENCRYPT,
    TOP_KEYS_DIR,
    TOP_TLS,
    TOP_HOSTS,
    TOP_CLIENT_KEYS,
    TOP_GROUPS,
    TOP_SUBGROUPS,
    TOP_TOPICS,
    TOP_KEEPERS,
    TOP_VIEW_MAJORITY,
    TOP_START_MS,
    TOP_BLOCK_BYTES,
    TOP_SETTINGS,
    TOP_COUNT = TOP_SETTINGS + SETTING_COUNT
};
enum host_key { HOST_NAME, HOST_ADDRESS, HOST_KEY, HOST_ROLE, HOST_RACK, HOST_HTTP, HOST_KEYS };
enum group_key {
    GROUP_NAME,
    GROUP_PARENT,
    GROUP_REPLICAS,
    GROUP_MEMORIES,
    GROUP_VOTES,
    GROUP_KEYS
};

#define SETTING_KEY_(key, kind, least, most, value, help) #key,
static const char *const top_keys[] = {"version",
                                       "name",
                                       "transport",
                                       "protocol",
                                       "wait",
                                       "durable",
                                       "id",
                                       "restored",
                                       "data_dir",
                                       "huge_pages",
                                       "runtime_dir",
                                       "key",
                                       "encrypt",
                                       "keys_dir",
                                       "tls",
                                       "hosts",
                                       "client_keys",
                                       "groups",
                                       "subgroups",
                                       "topics",
                                       "keepers",
                                       "view_majority",
                                       "start_ms",
                                       "block_bytes",
                                       SETTING_LIST(SETTING_KEY_) NULL};
static const char *const host_keys[] = {"name", "address", "key", "role", "rack", "http", NULL};
static const char *const group_keys[] = {"name", "parent", "replicas", "memories", "votes", NULL};
static const char *const role_names[] = {"host", "memory", NULL};

_Static_assert(sizeof top_keys / sizeof top_keys[0] == TOP_COUNT + 1, "every top key has a name");
_Static_assert((int)CLUSTER_NAME_BYTES > (int)NAME_CHARS_MAX, "a name fits with its 0");
_Static_assert(CLUSTER_HOSTS_MAX <= UINT8_MAX + 1, "replicas are host numbers in bytes");

/* ---- plain values ---- */

/* Looked at before all else: what else is in the file of a later version, nobody here can judge. */
static int take_version(struct reader *r, const struct node *n)
{
    uint64_t version = 0;

    if (n == NULL)
        return 0;
    if (n->kind != NODE_TEXT || !value_number(doc_text(r->d, n), &version) || version == 0)
        return doc_bad(r->d, n->line, r->e, "version must be a whole number, like %d, not %s",
                       CLUSTER_VERSION, doc_what(r->d, n).s);
    if (version > CLUSTER_VERSION)
        return doc_bad(r->d, n->line, r->e,
                       "the file is of version %s, and this program knows up to %d; it takes a "
                       "later one",
                       doc_shown(doc_text(r->d, n)).s, CLUSTER_VERSION);
    return 0;
}

static int take_huge_pages(struct reader *r, const struct node *n)
{
    int rc = take_bool(r, n, "huge_pages", &r->c->huge_pages);

    if (rc < 0 || !r->c->huge_pages || r->c->transport != CLUSTER_SHM)
        return rc;
    return doc_bad(r->d, n->line, r->e,
                   "huge_pages: true is for transport: tcp and verbs; leave the line out");
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_id(struct reader *r, const struct node *n, const char *what,
                   unsigned char id[CLUSTER_ID_BYTES])
{
    const char *text = NULL;
    unsigned any = 0;

    int rc = take_text(r, n, what, "32 hexadecimal digits", &text);
    if (rc < 0)
        return rc;
    bool good = strlen(text) == 2 * CLUSTER_ID_BYTES;
    for (size_t i = 0; good && i < CLUSTER_ID_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        good = high >= 0 && low >= 0;
        id[i] = (unsigned char)(high << 4 | low);
        any |= id[i];
    }
    if (good && any != 0)
        return 0;
    return doc_bad(r->d, n->line, r->e,
                   "%s '%s' is none; an id is 32 hexadecimal digits (0-9, a-f), not all 0, as"
                   " %s it",
                   what, doc_shown(text).s,
                   id == r->c->id ? "`tram init --durable` writes" : "`tram restore` tells");
}

static int take_home(struct reader *r, const struct node *const *value)
{
    int rc = take_id(r, value[TOP_ID], "id", r->c->id);
    if (rc == 0 && value[TOP_DATA_DIR] != NULL)
        rc = take_path(r, value[TOP_DATA_DIR], "data_dir", "the path of a directory",
                       r->c->data_dir);
    return rc;
}

/* Without durable nobody would look at the rest, and who wrote it relies on it. */
static int take_durable(struct reader *r, const struct node *const *value, bool of_group)
{
    static const struct {
        unsigned at;
        const char *what;
    } only[] = {{TOP_ID, "id"},
                {TOP_RESTORED, "restored"},
                {TOP_DATA_DIR, "data_dir"},
                {TOP_SETTINGS + SETTING_disk_bytes, "disk_bytes"}};
    struct cluster *c = r->c;

    int rc = take_bool(r, value[TOP_DURABLE], "durable", &c->durable);
    if (rc == 0 && of_group && value[TOP_ID] != NULL)
        return take_home(r, value); /* whether it is of use the subgroups tell */
    for (size_t i = 0; rc == 0 && !c->durable && i < sizeof only / sizeof only[0]; i++)
        if (value[only[i].at] != NULL && !(of_group && only[i].at == TOP_DATA_DIR))
            return doc_bad(r->d, value[only[i].at]->line, r->e,
                           "%s is for durable: true; leave it out, or add that", only[i].what);
    if (rc < 0 || !c->durable)
        return rc;
    if (value[TOP_ID] == NULL)
        return doc_bad(r->d, value[TOP_DURABLE]->line, r->e,
                       "durable: true needs an id, by which disks know their cluster: `id:` and 32"
                       " hexadecimal digits that no other cluster has; `tram init --durable` writes"
                       " a file with one");
    rc = take_home(r, value);
    if (rc == 0 && value[TOP_RESTORED] != NULL)
        rc = take_id(r, value[TOP_RESTORED], "restored", c->restored);
    return rc;
}

static int take_runtime_dir(struct reader *r, const struct node *n)
{
    if (n == NULL)
        return 0;
    int rc = take_path(r, n, "runtime_dir", "an absolute path", r->c->runtime_dir);
    if (rc == 0 && r->c->runtime_dir[0] != '/')
        return doc_bad(r->d, n->line, r->e,
                       "runtime_dir '%s' is relative; write an absolute path like /run/tram",
                       doc_shown(r->c->runtime_dir).s);
    return rc;
}

static int take_key(struct reader *r, const struct node *n)
{
    return n == NULL ? 0 : take_path(r, n, "key", "the path of a file", r->c->key);
}

/* ---- numbers ---- */

static int take_setting(struct reader *r, const struct node *n, enum setting s)
{
    const struct setting_info *i = &setting_info[s];
    bool size = i->kind != SETTING_NUMBER;
    uint64_t value = 0;

    if (n == NULL)
        return 0;
    bool read = n->kind == NODE_TEXT && (size ? value_size(doc_text(r->d, n), &value)
                                              : value_number(doc_text(r->d, n), &value));
    if (!read || value < i->least || value > i->most) {
        if (size)
            return doc_bad(r->d, n->line, r->e,
                           "%s must be a size from %s to %s, like 65536, 64k, 64 KiB or 1 MiB,"
                           " not %s",
                           i->key, value_size_shown(i->least).s, value_size_shown(i->most).s,
                           doc_what(r->d, n).s);
        return doc_bad(r->d, n->line, r->e, "%s must be a whole number from %u to %u, not %s",
                       i->key, i->least, i->most, doc_what(r->d, n).s);
    }
    uint64_t power = value_power_from(value);
    if (i->kind == SETTING_POWER && power != value)
        return doc_bad(r->d, n->line, r->e, "%s must be a power of two; %s is none, %s and %s are",
                       i->key, doc_what(r->d, n).s, value_size_shown(power / 2).s,
                       value_size_shown(power).s);
    *setting_at(r->c, s) = (uint32_t)value;
    return 0;
}

/* The ring must hold so many largest messages. The line is that of the value in the file; if both
 * are there, that of the ring. */
static int check_room(struct reader *r, enum setting ring, uint32_t messages,
                      const struct node *const *given)
{
    uint64_t needed = value_power_from((uint64_t)r->c->payload_max * messages);
    uint32_t have = setting_get(r->c, ring);
    const struct node *at = given[TOP_SETTINGS + ring] ? given[TOP_SETTINGS + ring]
                                                       : given[TOP_SETTINGS + SETTING_payload_max];
    const char *key = setting_info[ring].key;

    if (needed <= have)
        return 0;
    return doc_bad(r->d, at->line, r->e,
                   "%s (%s) must hold %u messages of payload_max (%s); set %s to %s or"
                   " more, or payload_max to %s or less",
                   key, value_size_shown(have).s, messages, value_size_shown(r->c->payload_max).s,
                   key, value_size_shown(needed).s, value_size_shown(have / messages).s);
}

/* What is not right is what is given: the defaults follow the rest. */
static int check_log_parts(struct reader *r, const struct node *const *given)
{
    const struct cluster *c = r->c;
    const struct node *batch = given[TOP_SETTINGS + SETTING_batch_bytes];
    const struct node *window = given[TOP_SETTINGS + SETTING_window_bytes];
    const struct node *replies = given[TOP_SETTINGS + SETTING_reply_bytes];
    uint64_t window_least = (uint64_t)c->payload_max + MESSAGE_ROOM;

    if (batch && c->batch_bytes > c->log_bytes / 4)
        return doc_bad(r->d, batch->line, r->e,
                       "batch_bytes (%s) is more than a quarter of log_bytes (%s); set it to %s or"
                       " less",
                       value_size_shown(c->batch_bytes).s, value_size_shown(c->log_bytes).s,
                       value_size_shown(c->log_bytes / 4).s);
    if (window && c->window_bytes > c->log_bytes / 2)
        return doc_bad(
            r->d, window->line, r->e,
            "window_bytes (%s) is more than half of log_bytes (%s); set it to %s or less",
            value_size_shown(c->window_bytes).s, value_size_shown(c->log_bytes).s,
            value_size_shown(c->log_bytes / 2).s);
    if (window && c->window_bytes < window_least)
        return doc_bad(r->d, window->line, r->e,
                       "window_bytes (%s) must hold a message of payload_max (%s) and %s; set it to"
                       " %s or more",
                       value_size_shown(c->window_bytes).s, value_size_shown(c->payload_max).s,
                       value_size_shown(MESSAGE_ROOM).s, value_size_shown(window_least).s);
    if (replies && c->reply_bytes < REPLY_ROOM(c))
        return doc_bad(r->d, replies->line, r->e,
                       "reply_bytes (%s) must hold a reply of reply_max (%s); set it to %s or more",
                       value_size_shown(c->reply_bytes).s, value_size_shown(c->reply_max).s,
                       value_size_shown(value_power_from(REPLY_ROOM(c))).s);
    return 0;
}

static int take_settings(struct reader *r, const struct node *const *given)
{
    struct cluster *c = r->c;
    int rc = 0;

    for (enum setting s = 0; rc == 0 && s < SETTING_COUNT; s++)
        rc = take_setting(r, given[TOP_SETTINGS + s], s);
    if (rc < 0)
        return rc;
    for (enum setting s = 0; s < SETTING_COUNT; s++)
        if (given[TOP_SETTINGS + s] == NULL)
            *setting_at(c, s) = setting_standard(c, s);
    rc = check_room(r, SETTING_log_bytes, LOG_MESSAGES, given);
    if (rc == 0)
        rc = check_room(r, SETTING_source_bytes, SOURCE_MESSAGES, given);
    if (rc == 0)
        rc = check_room(r, SETTING_edge_bytes, SOURCE_MESSAGES, given);
    if (rc == 0)
        rc = check_log_parts(r, given);
    if (rc < 0)
        return rc;
    if (c->suspect_ms < 2 * c->heartbeat_ms) {
        const struct node *at = given[TOP_SETTINGS + SETTING_suspect_ms];
        at = at ? at : given[TOP_SETTINGS + SETTING_heartbeat_ms];
        return doc_bad(r->d, at->line, r->e,
                       "suspect_ms (%u) must be at least twice heartbeat_ms (%u), or a healthy"
                       " leader is suspected; set it to %u or more",
                       c->suspect_ms, c->heartbeat_ms, 2 * c->heartbeat_ms);
    }
    return 0;
}

/* ---- hosts ---- */

static int take_address(struct reader *r, const struct node *n, struct cluster_host *h)
{
    const char *text = NULL;

    if (n == NULL) {
        if (r->c->transport == CLUSTER_SHM)
            return 0; /* hosts of one machine find each other by name */
        return doc_bad(r->d, h->line, r->e,
                       "host '%s' has no address, which transport %s needs; add one like"
                       " `address: 127.0.0.1:%d`",
                       h->name, cluster_transport_names[r->c->transport], PORT_DEFAULT);
    }
    int rc = take_text(r, n, "address", "HOST:PORT, or \"[IPV6]:PORT\" in quotes", &text);
    if (rc < 0)
        return rc;
    const char *wrong = value_address(text, h->address, sizeof h->address, &h->port);
    if (wrong != NULL)
        return doc_bad(r->d, n->line, r->e,
                       "address '%s' %s; write it like 127.0.0.1:%d, node1:%d or \"[::1]:%d\"",
                       doc_shown(text).s, wrong, PORT_DEFAULT, PORT_DEFAULT, PORT_DEFAULT);
    for (const struct cluster_host *o = r->c->host; o < h; o++)
        if (o->port == h->port && strcmp(o->address, h->address) == 0)
            return doc_bad(r->d, n->line, r->e,
                           "address '%s' is that of host '%s' (line %u) already; give each host a"
                           " port of its own",
                           doc_shown(text).s, o->name, o->line);
    return 0;
}

/* A port alone is one of the loopback: who wants to be seen from elsewhere says so. */
static int take_http(struct reader *r, const struct node *n, struct cluster_host *h)
{
    const char *text = NULL;
    uint64_t port = 0;

    int rc = take_text(r, n, "http", "HOST:PORT, or a port of 127.0.0.1", &text);
    if (rc < 0 || text == NULL)
        return rc;
    bool alone = value_number(text, &port) && port >= 1 && port <= UINT16_MAX;
    const char *wrong = alone ? NULL : value_address(text, h->http, sizeof h->http, &h->http_port);
    if (wrong != NULL)
        return doc_bad(r->d, n->line, r->e,
                       "http '%s' %s; write it like %d, which is 127.0.0.1:%d, or 0.0.0.0:%d",
                       doc_shown(text).s, wrong, HTTP_DEFAULT, HTTP_DEFAULT, HTTP_DEFAULT);
    if (alone) {
        snprintf(h->http, sizeof h->http, "127.0.0.1");
        h->http_port = (uint16_t)port;
    }
    for (const struct cluster_host *o = r->c->host; o < h; o++)
        if (o->http_port == h->http_port && strcmp(o->http, h->http) == 0)
            return doc_bad(r->d, n->line, r->e,
                           "http '%s' is that of host '%s' (line %u) already; give each host a"
                           " port of its own",
                           doc_shown(text).s, o->name, o->line);
    return 0;
}

static int take_role(struct reader *r, const struct node *n, struct cluster_host *h)
{
    unsigned role = 0;

    int rc = take_word(r, n, "role", role_names, &role);
    h->memory = role == 1;
    if (rc == 0 && h->memory && r->c->protocol == CLUSTER_GROUP)
        return doc_bad(r->d, n->line, r->e,
                       "host '%s' has role: memory, which is for groups that agree on logs; under "
                       "protocol: group every host is a member, leave the role out",
                       h->name);
    return rc;
}

static int take_host(struct reader *r, const struct node *n)
{
    const struct node *value[HOST_KEYS] = {NULL};
    struct cluster *c = r->c;
    struct cluster_host *h = &c->host[c->hosts];

    if (c->hosts == CLUSTER_HOSTS_MAX)
        return doc_bad(r->d, n->line, r->e, "too many hosts; a cluster has at most %d",
                       CLUSTER_HOSTS_MAX);
    if (n->kind != NODE_MAP)
        return doc_bad(r->d, n->line, r->e,
                       "a host must be written like {name: h1, address: 127.0.0.1:%d}, not as %s",
                       PORT_DEFAULT, doc_what(r->d, n).s);
    int rc = take_keys(r, n, "a host", host_keys, value);
    if (rc < 0)
        return rc;
    if (value[HOST_NAME] == NULL)
        return doc_bad(r->d, n->line, r->e, "a host without a name; add one like `name: h1`");
    rc = take_name(r, value[HOST_NAME], "host name", h->name);
    if (rc < 0)
        return rc;
    int old = cluster_host(c, h->name);
    if (old != CLUSTER_NONE)
        return doc_bad(r->d, value[HOST_NAME]->line, r->e,
                       "host '%s' a second time, the first is in line %u; give each host a name of"
                       " its own",
                       h->name, c->host[old].line);
    h->line = n->line;
    rc = take_role(r, value[HOST_ROLE], h);
    if (rc == 0)
        rc = take_address(r, value[HOST_ADDRESS], h);
    if (rc == 0)
        rc = identity_read_host(r, value[HOST_KEY], h);
    if (rc == 0)
        rc = large_read_rack(r, value[HOST_RACK], h);
    if (rc == 0 && value[HOST_HTTP] != NULL)
        rc = take_http(r, value[HOST_HTTP], h);
    if (rc == 0)
        c->hosts++;
    return rc;
}

/* ---- groups ---- */

static int take_replica(struct reader *r, const struct node *n, struct cluster_group *g)
{
    const char *name = NULL;

    if (g->replicas == CLUSTER_REPLICAS_MAX)
        return doc_bad(r->d, n->line, r->e, "group '%s' has too many replicas; at most %d", g->name,
                       CLUSTER_REPLICAS_MAX);
    int rc = take_text(r, n, "a replica", "the name of a host", &name);
    if (rc < 0)
        return rc;
    int host = cluster_host(r->c, name);
    if (host == CLUSTER_NONE)
        return doc_bad(r->d, n->line, r->e,
                       "group '%s' has a replica on '%s', which is no host; %s", g->name,
                       doc_shown(name).s, cluster_hosts_near(r->c, name).s);
    for (uint32_t i = 0; i < g->replicas; i++)
        if (g->replica[i] == host)
            return doc_bad(r->d, n->line, r->e,
                           "group '%s' has two replicas on host '%s', which would fail together;"
                           " name each host once",
                           g->name, name);
    if (r->c->host[host].memory)
        return doc_bad(
            r->d, n->line, r->e,
            "group '%s' has a replica on '%s', which has role: memory (line %u) and runs "
            "none; name it in `memories`, or leave its role out",
            g->name, name, r->c->host[host].line);
    g->replica[g->replicas++] = (uint8_t)host;
    return 0;
}

static int take_replicas(struct reader *r, const struct node *n, struct cluster_group *g,
                         bool has_memories)
{
    if (n == NULL)
        return doc_bad(r->d, g->line, r->e,
                       "group '%s' has no replicas; add them like `replicas: [%s]`", g->name,
                       r->c->host[0].name);
    if (n->kind != NODE_LIST)
        return doc_bad(r->d, n->line, r->e, "replicas must be a list of hosts like [%s], not %s",
                       r->c->host[0].name, doc_what(r->d, n).s);
    if (n->count == 0)
        return doc_bad(r->d, n->line, r->e,
                       "group '%s' has no replicas; name at least one host, better three", g->name);
    uint32_t at = n->first;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct node *replica = doc_node(r->d, at);
        int rc = take_replica(r, replica, g);
        if (rc < 0)
            return rc;
        at = replica->next;
    }
    if (g->replicas % 2 == 0 && !has_memories)
        cluster_warn(r->c, r->d, n->line,
                     "group '%s' has %u replicas, which survive the crash of %u as %u would; an odd"
                     " number is cheaper",
                     g->name, g->replicas, (g->replicas - 1) / 2, g->replicas - 1);
    return 0;
}

static int take_group(struct reader *r, const struct node *n, const struct node **parent)
{
    const struct node *value[GROUP_KEYS] = {NULL};
    struct cluster *c = r->c;
    struct cluster_group *g = &c->group[c->groups];

    if (c->groups == CLUSTER_GROUPS_MAX)
        return doc_bad(r->d, n->line, r->e, "too many groups; a cluster has at most %d",
                       CLUSTER_GROUPS_MAX);
    if (n->kind != NODE_MAP)
        return doc_bad(r->d, n->line, r->e,
                       "a group must be written like {name: g1, replicas: [%s]}, not as %s",
                       c->host[0].name, doc_what(r->d, n).s);
    int rc = take_keys(r, n, "a group", group_keys, value);
    if (rc < 0)
        return rc;
    if (value[GROUP_NAME] == NULL)
        return doc_bad(r->d, n->line, r->e, "a group without a name; add one like `name: g1`");
    rc = take_name(r, value[GROUP_NAME], "group name", g->name);
    if (rc < 0)
        return rc;
    int old = cluster_group(c, g->name);
    if (old != CLUSTER_NONE)
        return doc_bad(r->d, value[GROUP_NAME]->line, r->e,
                       "group '%s' a second time, the first is in line %u; give each group a name"
                       " of its own",
                       g->name, c->group[old].line);
    g->line = n->line;
    g->parent = CLUSTER_NONE;
    *parent = value[GROUP_PARENT];
    rc = take_replicas(r, value[GROUP_REPLICAS], g, value[GROUP_MEMORIES] != NULL);
    rc = rc < 0 ? rc : memories_read(r, value[GROUP_MEMORIES], value[GROUP_VOTES], g);
    if (rc == 0)
        c->groups++;
    return rc;
}

/* After all groups are read: a parent may stand below its children. */
static int take_parent(struct reader *r, const struct node *n, struct cluster_group *g)
{
    const char *name = NULL;

    int rc = take_text(r, n, "parent", "the name of a group (the root leaves the key out)", &name);
    if (rc < 0)
        return rc;
    int parent = cluster_group(r->c, name);
    if (parent == CLUSTER_NONE)
        return doc_bad(r->d, n->line, r->e,
                       "the parent of group '%s' is '%s', which is no group; %s. The root leaves"
                       " the key out",
                       g->name, doc_shown(name).s, cluster_groups_near(r->c, name).s);
    g->parent = parent;
    g->parent_line = n->line;
    return 0;
}

/* ---- the file ---- */

int take_list(struct reader *r, const struct node *root, const struct node *n, const char *key,
              const char *like)
{
    if (n == NULL)
        return doc_bad(r->d, root->line, r->e, "the file has no `%s`; add a list of %s like `- %s`",
                       key, key, like);
    if (n->kind != NODE_LIST)
        return doc_bad(r->d, n->line, r->e, "%s must be a list of lines like `- %s`, not %s", key,
                       like, doc_what(r->d, n).s);
    if (n->count == 0)
        return doc_bad(r->d, n->line, r->e, "the list of %s is empty; add lines like `- %s`", key,
                       like);
    return 0;
}

static int take_hosts(struct reader *r, const struct node *list)
{
    uint32_t at = list->first;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
        const struct node *n = doc_node(r->d, at);
        rc = take_host(r, n);
        at = n->next;
    }
    return rc;
}

static int take_groups(struct reader *r, const struct node *list)
{
    const struct node *parent[CLUSTER_GROUPS_MAX + 1] = {NULL}; /* one more is refused */
    uint32_t at = list->first;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
        const struct node *n = doc_node(r->d, at);
        rc = take_group(r, n, &parent[i]);
        at = n->next;
    }
    for (uint32_t i = 0; rc == 0 && i < r->c->groups; i++)
        if (parent[i] != NULL)
            rc = take_parent(r, parent[i], &r->c->group[i]);
    return rc < 0 ? rc : cluster_check_tree(r->c, r->d, r->e);
}

static void warn_of_idle_hosts(struct reader *r)
{
    bool used[CLUSTER_HOSTS_MAX] = {false};

    for (uint32_t g = 0; g < r->c->groups; g++)
        for (uint32_t i = 0; i < r->c->group[g].replicas; i++)
            used[r->c->group[g].replica[i]] = true;
    for (uint32_t g = 0; g < r->c->groups; g++)
        for (uint32_t i = 0; i < r->c->group[g].memories; i++)
            used[r->c->group[g].memory[i]] = true;
    for (uint32_t h = 0; h < r->c->hosts; h++)
        if (!used[h])
            cluster_warn(r->c, r->d, r->c->host[h].line,
                         r->c->host[h].memory
                             ? "host '%s' is memory of no group; name it in the `memories` of one, "
                               "or leave it out"
                             : "host '%s' carries no replica; name it in a group, or leave it out",
                         r->c->host[h].name);
}

/* What the hosts carry: groups, or under protocol group subgroups. */
static int take_content(struct reader *r, const struct node *root, const struct node *const *value)
{
    const struct group_nodes group = {
        .protocol = value[TOP_PROTOCOL],
        .durable = value[TOP_DURABLE],
        .id = value[TOP_ID],
        .data_dir = value[TOP_DATA_DIR],
        .groups = value[TOP_GROUPS],
        .subgroups = value[TOP_SUBGROUPS],
        .topics = value[TOP_TOPICS],
        .keepers = value[TOP_KEEPERS],
        .view_majority = value[TOP_VIEW_MAJORITY],
        .start_ms = value[TOP_START_MS],
        .block_bytes = value[TOP_BLOCK_BYTES],
        .settings = &value[TOP_SETTINGS],
    };

    int rc = group_read(r, root, &group);
    if (rc < 0 || r->c->protocol == CLUSTER_GROUP)
        return rc;
    rc = take_list(r, root, value[TOP_GROUPS], "groups", "{name: g1, replicas: [h1, h2, h3]}");
    rc = rc < 0 ? rc : take_groups(r, value[TOP_GROUPS]);
    if (rc == 0)
        warn_of_idle_hosts(r);
    return rc;
}

static int take_file(struct reader *r, const char *file)
{
    const struct node *value[TOP_COUNT] = {NULL};
    struct cluster *c = r->c;
    unsigned transport = CLUSTER_SHM, protocol = CLUSTER_TREE, wait = CLUSTER_WAIT_AUTO;

    if (r->d->nodes == 0 || (r->d->node->kind == NODE_TEXT && *doc_text(r->d, r->d->node) == '\0'))
        return doc_bad(r->d, 1, r->e,
                       "the file is empty; it needs hosts and groups, `tram init` writes one");
    const struct node *root = doc_node(r->d, 0);
    if (root->kind != NODE_MAP)
        return doc_bad(r->d, root->line, r->e,
                       "this is no cluster file but %s; it needs lines like `hosts:` and"
                       " `groups:`, `tram init` writes one",
                       doc_what(r->d, root).s);
    int rc = take_version(r, doc_value(r->d, root, "version"));
    rc = rc < 0 ? rc : take_keys(r, root, "the file", top_keys, value);
    if (rc == 0 && value[TOP_NAME] != NULL)
        rc = take_name(r, value[TOP_NAME], "name", c->name);
    else
        cluster_name_from_file(file, c->name);
    rc = rc < 0
             ? rc
             : take_word(r, value[TOP_TRANSPORT], "transport", cluster_transport_names, &transport);
    rc = rc < 0 ? rc
                : take_word(r, value[TOP_PROTOCOL], "protocol", cluster_protocol_names, &protocol);
    rc = rc < 0 ? rc : take_word(r, value[TOP_WAIT], "wait", wait_names, &wait);
    rc = rc < 0 ? rc : take_durable(r, value, protocol == CLUSTER_GROUP);
    rc = rc < 0 ? rc : take_runtime_dir(r, value[TOP_RUNTIME_DIR]);
    rc = rc < 0 ? rc : take_key(r, value[TOP_KEY]);
    struct identity_nodes who = {
        .key = value[TOP_KEY],
        .clients = identity_take_any(r, &value[TOP_SETTINGS + SETTING_clients]),
        .client_keys = value[TOP_CLIENT_KEYS],
        .keys_dir = value[TOP_KEYS_DIR],
        .tls = value[TOP_TLS],
        .encrypt = value[TOP_ENCRYPT],
    };
    rc = rc < 0 ? rc : take_settings(r, value);
    c->transport = (enum cluster_transport)transport;
    c->protocol = (enum cluster_protocol)protocol;
    c->wait = (enum cluster_wait)wait;
    rc = rc < 0 ? rc : take_huge_pages(r, value[TOP_HUGE_PAGES]);
    rc = rc < 0 ? rc : identity_read(r, &who);
    if (rc == 0)
        rc = take_list(r, root, value[TOP_HOSTS], "hosts", "{name: h1, address: 127.0.0.1:7101}");
    rc = rc < 0 ? rc : take_hosts(r, value[TOP_HOSTS]);
    rc = rc < 0 ? rc : identity_read_clients(r, &who);
    rc = rc < 0 ? rc : identity_check(r, &who);
    return rc < 0 ? rc : take_content(r, root, value);
}

int cluster_read(struct cluster *c, const struct doc *d, const char *file, bool lax, struct err *e)
{
    struct reader r = {.d = d, .c = c, .e = e, .lax = lax};

    return take_file(&r, file);
}
