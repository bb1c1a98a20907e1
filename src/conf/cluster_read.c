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
    TOP_FAULT_MODEL,
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

#define SETTING_KEY_(key, kind, least, most, value, help) #key,
static const char *const top_keys[] = {"version",       "name",
                                       "transport",     "protocol",
                                       "wait",          "fault_model",
                                       "durable",       "id",
                                       "restored",      "data_dir",
                                       "huge_pages",    "runtime_dir",
                                       "key",           "encrypt",
                                       "keys_dir",      "tls",
                                       "hosts",         "client_keys",
                                       "groups",        "subgroups",
                                       "topics",        "keepers",
                                       "view_majority", "start_ms",
                                       "block_bytes",   SETTING_LIST(SETTING_KEY_) NULL};

_Static_assert(sizeof top_keys / sizeof top_keys[0] == TOP_COUNT + 1, "every top key has a name");
_Static_assert((int)CLUSTER_NAME_BYTES > (int)NAME_CHARS_MAX, "a name fits with its 0");

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

/* Before the other keys, too: of such a file each would look like a mistake. */
static int take_fault_model(struct reader *r, const struct node *n)
{
    static const char *const models[] = {"crash", "byzantine", NULL};
    unsigned model = 0;

    int rc = take_word(r, n, "fault_model", models, &model);
    if (rc < 0 || model == 0)
        return rc;
    return doc_bad(
        r->d, n->line, r->e,
        "fault_model: byzantine is not there yet: replicas that lie are survived in the"
        " simulator alone (`tram sim --protocol bft`); leave the line out, or write crash");
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

/* ---- the file ---- */

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
    return rc < 0 ? rc : groups_read(r, value[TOP_GROUPS]);
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
    rc = rc < 0 ? rc : take_fault_model(r, doc_value(r->d, root, "fault_model"));
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
    rc = rc < 0 ? rc : settings_read(r, &value[TOP_SETTINGS]);
    c->transport = (enum cluster_transport)transport;
    c->protocol = (enum cluster_protocol)protocol;
    c->wait = (enum cluster_wait)wait;
    rc = rc < 0 ? rc : take_huge_pages(r, value[TOP_HUGE_PAGES]);
    rc = rc < 0 ? rc : identity_read(r, &who);
    if (rc == 0)
        rc = take_list(r, root, value[TOP_HOSTS], "hosts", "{name: h1, address: 127.0.0.1:7101}");
    rc = rc < 0 ? rc : hosts_read(r, value[TOP_HOSTS]);
    rc = rc < 0 ? rc : identity_read_clients(r, &who);
    rc = rc < 0 ? rc : identity_check(r, &who);
    return rc < 0 ? rc : take_content(r, root, value);
}

int cluster_read(struct cluster *c, const struct doc *d, const char *file, bool lax, struct err *e)
{
    struct reader r = {.d = d, .c = c, .e = e, .lax = lax};

    return take_file(&r, file);
}
