/* A replicated cache in shards: hosts that serve it, and a client that puts and gets.
 *
 *     cache CLUSTER_FILE serve HOST
 *     cache CLUSTER_FILE put KEY VALUE [KEY VALUE ...]
 *     cache CLUSTER_FILE get KEY [KEY ...]
 *
 * Each shard is at as many hosts as the cluster file says, and a key in the shard that its hash names. When a host dies one that is to spare
 * takes its place and gets the shard as it is; clients go on with another host, and notice nothing. Two keys that fall to one slot drive each other
 * out, at all hosts of the shard alike, since all put the same in the same order. */
#include "tram/group.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 2, SLOTS = 4096, TEXT = 60 };

struct entry {
    char key[TEXT], value[TEXT];
};

struct shard {
    struct entry slot[SLOTS];
};

static struct shard *cell[SHARDS]; /* cells are shards: there is one subgroup */
static volatile sig_atomic_t over;

static uint32_t hash_of(const char *key)
{
    uint32_t h = 2166136261U;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619U;
    return h;
}

static struct entry *slot_of(uint32_t shard, const char *key)
{
    return &cell[shard]->slot[hash_of(key) / SHARDS % SLOTS];
}

static int fail(const char *what, const struct tram_error *e)
{
    fprintf(stderr, "cache: %s: %s\n", what, e->text);
    return 1;
}

/* ---- a host: what others send is looked at before it is believed ---- */

static void put(void *ctx, uint32_t shard, uint64_t view, const struct tram_item *item, uint32_t n)
{
    (void)ctx, (void)view;
    for (uint32_t i = 0; i < n; i++) {
        const struct entry *e = item[i].data;
        if (item[i].bytes == sizeof(*e) && e->key[TEXT - 1] == '\0' && e->value[TEXT - 1] == '\0')
            *slot_of(shard, e->key) = *e;
    }
}

static int get(void *ctx, uint32_t shard, uint32_t from, const void *key, uint32_t bytes,
               void *reply, uint32_t room)
{
    char text[TEXT] = "";
    (void)ctx, (void)from;
    memcpy(text, key, bytes < TEXT ? bytes : TEXT - 1);
    const struct entry *e = slot_of(shard, text);
    if (e->key[0] == '\0' || strcmp(e->key, text) != 0)
        return TRAM_NOTFOUND;
    return snprintf(reply, room, "%s", e->value);
}

static int save(void *ctx, uint32_t shard, void **data, size_t *bytes)
{
    (void)ctx;
    *data = malloc(*bytes = sizeof(struct shard));
    return *data && memcpy(*data, cell[shard], *bytes) ? TRAM_OK : TRAM_NOMEM;
}

static int load(void *ctx, uint32_t shard, const void *data, size_t bytes)
{
    (void)ctx;
    return bytes == sizeof(struct shard) && memcpy(cell[shard], data, bytes) ? TRAM_OK
                                                                             : TRAM_INVALID;
}

static void on_signal(int number)
{
    (void)number;
    over = 1;
}

static int serve(const struct tram_cluster *c, const char *host)
{
    const struct tram_group_options o = {
        .host = host, .machine = {.deliver = put, .query = get, .save = save, .load = load}};
    struct tram_error e = {""};
    struct tram_group *g;
    for (int i = 0; i < SHARDS; i++)
        if ((cell[i] = calloc(1, sizeof(*cell[i]))) == NULL)
            return 1;
    signal(SIGTERM, on_signal);
    if (tram_group_open(c, &o, &g, &e) != TRAM_OK)
        return fail(host, &e);
    int rc = 0;
    while (!over && rc >= 0)
        rc = tram_group_step(g, &e);
    tram_group_close(g);
    return rc < 0 ? fail(host, &e) : 0;
}

/* ---- a client ---- */

static void done(void *ctx, uint64_t ticket, const struct tram_answer *a)
{
    (void)ticket;
    if (a->status == TRAM_OK && a->bytes > 0)
        printf("%.*s\n", (int)a->bytes, (const char *)a->data);
    *(int *)ctx |= a->status != TRAM_OK; /* TRAM_NOTFOUND: the key is not there */
}

static int ask(struct tram_group_client *client, const char *key, const char *value)
{
    struct tram_error e = {""};
    struct entry entry = {.key = ""};
    uint32_t shard = hash_of(key) % SHARDS;
    uint64_t ticket;
    snprintf(entry.key, TEXT, "%s", key);
    snprintf(entry.value, TEXT, "%s", value ? value : "");
    int rc = value ? tram_group_client_send(client, shard, &entry, sizeof(entry), &ticket, &e)
                   : tram_group_client_query(client, shard, 0, entry.key, TEXT, TEXT, &ticket, &e);
    while (rc >= 0 && tram_group_client_outstanding(client) > 0)
        rc = tram_group_client_wait(client, UINT64_C(1000000000), &e);
    return rc < 0 ? fail(key, &e) : 0;
}

int main(int argc, char **argv)
{
    struct tram_error e = {""};
    struct tram_cluster *c;
    struct tram_group_client *client;
    const char *what = argc > 3 ? argv[2] : "";
    int missing = 0, each = strcmp(what, "put") == 0 ? 2 : 1;
    const struct tram_group_client_options o = {.done = done, .ctx = &missing};
    if (argc < 4 || tram_cluster_load(argv[1], &c, &e) != TRAM_OK)
        return fail(argc < 4 ? "usage: cache CLUSTER_FILE serve|put|get ..." : argv[1], &e);
    if (strcmp(what, "serve") == 0)
        return serve(c, argv[3]);
    if (tram_group_client_open(c, &o, &client, &e) != TRAM_OK)
        return fail("client", &e);
    for (int i = 3; i + each <= argc && missing == 0; i += each)
        missing |= ask(client, argv[i], each == 2 ? argv[i + 1] : NULL);
    tram_group_client_close(client);
    return missing;
}
