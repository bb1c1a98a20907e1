#include "base/hash.h"
#include "conf/cluster_impl.h"

#include <inttypes.h>
#include <string.h>

static uint32_t add(struct cluster_fact *out, uint32_t n, const char *key, const char *value)
{
    if (n == CLUSTER_FACTS_MAX)
        return n;
    memset(&out[n], 0, sizeof out[n]);
    for (size_t i = 0; key[i] != '\0' && i < sizeof out[n].key - 1; i++)
        out[n].key[i] = key[i];
    for (size_t i = 0; value[i] != '\0' && i < sizeof out[n].value - 1; i++)
        out[n].value[i] = value[i];
    return n + 1;
}

/* "3 (h1, h2, ...)", as far as there is room. */
static uint32_t add_hosts(const struct cluster *c, struct cluster_fact *out, uint32_t n)
{
    char text[CLUSTER_FACT_BYTES * 2];
    int used = snprintf(text, sizeof text, "%u: ", c->hosts);

    for (uint32_t i = 0; i < c->hosts && used < CLUSTER_FACT_BYTES; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", i ? " " : "",
                         c->host[i].name);
    return add(out, n, "hosts", text);
}

static void group_text(const struct cluster *c, const struct cluster_group *g, char *text,
                       size_t bytes)
{
    int used = snprintf(text, bytes, "%s:", g->name);

    if (g->parent != CLUSTER_NONE)
        used += snprintf(text + used, bytes - (size_t)used, " below %s,", c->group[g->parent].name);
    for (uint32_t r = 0; r < g->replicas; r++)
        used += snprintf(text + used, bytes - (size_t)used, " %s", c->host[g->replica[r]].name);
    for (uint32_t m = 0; m < g->memories; m++)
        used += snprintf(text + used, bytes - (size_t)used, "%s %s",
                         m             ? ""
                         : g->all_vote ? ", all vote with"
                                       : ", votes of",
                         c->host[g->memory[m]].name);
}

enum { GROUP_TEXT_BYTES = (CLUSTER_REPLICAS_MAX + CLUSTER_MEMORIES_MAX + 4) * CLUSTER_NAME_BYTES };

static void subgroup_text(const struct cluster_subgroup *s, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s: %u %s of %u-%u, %" PRIx64 " %" PRIx64 " %u, %u %u %u, %u %u %u%s",
             s->name, s->shards, cluster_mode_names[s->mode], s->members_min, s->members_max,
             s->hosts, s->senders, s->overlap, s->ring_bytes, s->message_max, s->history,
             s->large_max, s->large_window, s->rdmc, s->slots ? " slots" : "");
}

static uint64_t sum_of_all(const struct cluster *c)
{
    char text[GROUP_TEXT_BYTES];
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->hosts; i++)
        sum = hash_bytes(sum, c->host[i].name, strlen(c->host[i].name) + 1);
    for (uint32_t i = 0; i < c->groups; i++) {
        group_text(c, &c->group[i], text, sizeof text);
        sum = hash_bytes(sum, text, strlen(text) + 1);
    }
    for (uint32_t i = 0; i < c->subgroups; i++) {
        subgroup_text(&c->subgroup[i], text, sizeof text);
        sum = hash_bytes(sum, text, strlen(text) + 1);
    }
    return sum;
}

/* Those for which there is room one by one, and a sum of all. */
static uint32_t add_groups(const struct cluster *c, struct cluster_fact *out, uint32_t n)
{
    char text[GROUP_TEXT_BYTES], key[CLUSTER_KEY_BYTES];

    for (uint32_t i = 0; i < c->groups; i++) {
        group_text(c, &c->group[i], text, sizeof text);
        snprintf(key, sizeof key, "group %u", i + 1);
        if (n < CLUSTER_FACTS_MAX - 1)
            n = add(out, n, key, text);
    }
    snprintf(text, sizeof text, "%u, and %016" PRIx64 " as sum of all", c->groups, sum_of_all(c));
    return add(out, n, "groups", text);
}

static uint32_t add_subgroups(const struct cluster *c, struct cluster_fact *out, uint32_t n)
{
    char text[GROUP_TEXT_BYTES], key[CLUSTER_KEY_BYTES];
    int used = 0;

    for (uint32_t i = 0; i < c->keepers && used < CLUSTER_FACT_BYTES; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", i ? " " : "",
                         c->host[c->keeper[i]].name);
    n = add(out, n, "keepers", text);
    n = add(out, n, "view_majority", c->view_majority ? "true" : "false");
    snprintf(text, sizeof text, "%u", c->block_bytes);
    n = add(out, n, "block_bytes", text);
    for (uint32_t i = 0; i < c->subgroups; i++) {
        subgroup_text(&c->subgroup[i], text, sizeof text);
        snprintf(key, sizeof key, "subgroup %u", i + 1);
        if (n < CLUSTER_FACTS_MAX - 1)
            n = add(out, n, key, text);
    }
    snprintf(text, sizeof text, "%u, and %016" PRIx64 " as sum of all", c->subgroups,
             sum_of_all(c));
    return add(out, n, "subgroups", text);
}

uint32_t cluster_facts(const struct cluster *c, struct cluster_fact out[CLUSTER_FACTS_MAX])
{
    char text[32];
    uint32_t n = add(out, 0, "transport", cluster_transport_names[c->transport]);

    n = add(out, n, "protocol", cluster_protocol_names[c->protocol]);
    for (enum setting s = 0; s < SETTING_COUNT; s++) {
        if (c->protocol == CLUSTER_GROUP && !setting_applies(c, s))
            continue;
        snprintf(text, sizeof text, "%u", setting_get(c, s));
        n = add(out, n, setting_info[s].key, text);
    }
    n = add(out, n, "durable", c->durable ? cluster_id_text(c->id).s : "false");
    if (!cluster_id_is_none(c->restored))
        n = add(out, n, "restored", cluster_id_text(c->restored).s);
    n = add(out, n, "encrypt", c->encrypt ? "true" : "false");
    n = add(out, n, "tls", c->tls_ca[0] != '\0' ? "by an authority" : "by keys");
    n = add_hosts(c, out, n);
    return c->protocol == CLUSTER_GROUP ? add_subgroups(c, out, n) : add_groups(c, out, n);
}

/* Not what a host may do otherwise from one day to the next: how long it waits, what its journal may take. */
static bool shapes_files(enum setting s)
{
    return s != SETTING_heartbeat_ms && s != SETTING_suspect_ms && s != SETTING_detach_ms &&
           s != SETTING_disk_bytes;
}

uint64_t cluster_shape(const struct cluster *c)
{
    uint64_t sum = hash_mix(sum_of_all(c), c->protocol);

    for (enum setting s = 0; s < SETTING_COUNT; s++)
        if (shapes_files(s))
            sum = hash_mix(sum, setting_get(c, s));
    for (uint32_t i = 0; c->protocol == CLUSTER_GROUP && i < c->keepers; i++)
        sum = hash_mix(sum, c->keeper[i]);
    if (!cluster_id_is_none(c->restored))
        sum = hash_bytes(sum, c->restored, sizeof c->restored);
    return sum;
}

bool cluster_id_is_none(const unsigned char id[CLUSTER_ID_BYTES])
{
    static const unsigned char none[CLUSTER_ID_BYTES];

    return memcmp(id, none, sizeof none) == 0;
}

struct cluster_id_text cluster_id_text(const unsigned char id[CLUSTER_ID_BYTES])
{
    struct cluster_id_text out;

    for (size_t i = 0; i < CLUSTER_ID_BYTES; i++)
        snprintf(out.s + 2 * i, 3, "%02x", id[i]);
    return out;
}
