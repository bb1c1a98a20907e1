#include "conf/cluster_impl.h"

#include <string.h>

/* Field by field: padding and the bytes behind a name's end are not part of the cluster. */

static bool same_keys(const struct cluster_keys *a, const struct cluster_keys *b)
{
    return a->count == b->count && memcmp(a->key, b->key, a->count * sizeof a->key[0]) == 0;
}

static bool same_identity(const struct cluster *a, const struct cluster *b)
{
    if (strcmp(a->key, b->key) != 0 || a->encrypt != b->encrypt ||
        strcmp(a->keys_dir, b->keys_dir) != 0 || strcmp(a->any_file, b->any_file) != 0 ||
        strcmp(a->tls_ca, b->tls_ca) != 0 || strcmp(a->tls_cert, b->tls_cert) != 0 ||
        strcmp(a->tls_key, b->tls_key) != 0 || a->client_keys != b->client_keys)
        return false;
    for (uint32_t i = 0; i < a->client_keys; i++)
        if (strcmp(a->client_key[i].name, b->client_key[i].name) != 0 ||
            !same_keys(&a->client_key[i].keys, &b->client_key[i].keys))
            return false;
    return true;
}

static bool same_host(const struct cluster_host *a, const struct cluster_host *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->address, b->address) == 0 &&
           a->port == b->port && a->memory == b->memory && same_keys(&a->keys, &b->keys) &&
           strcmp(a->http, b->http) == 0 && a->http_port == b->http_port;
}

static bool same_group(const struct cluster_group *a, const struct cluster_group *b)
{
    return strcmp(a->name, b->name) == 0 && a->parent == b->parent && a->replicas == b->replicas &&
           memcmp(a->replica, b->replica, a->replicas) == 0 && a->memories == b->memories &&
           memcmp(a->memory, b->memory, a->memories) == 0 && a->all_vote == b->all_vote;
}

static bool same_subgroup(const struct cluster_subgroup *a, const struct cluster_subgroup *b)
{
    return strcmp(a->name, b->name) == 0 && a->mode == b->mode && a->shards == b->shards &&
           a->members_min == b->members_min && a->members_max == b->members_max &&
           a->hosts == b->hosts && a->senders == b->senders && a->overlap == b->overlap &&
           a->ring_bytes == b->ring_bytes && a->message_max == b->message_max &&
           a->history == b->history && a->slots == b->slots && a->retain == b->retain &&
           a->sign == b->sign && a->large_max == b->large_max &&
           a->large_window == b->large_window && a->rdmc == b->rdmc;
}

static bool same_views(const struct cluster *a, const struct cluster *b)
{
    if (a->subgroups != b->subgroups || a->keepers != b->keepers ||
        memcmp(a->keeper, b->keeper, a->keepers) != 0 || a->view_majority != b->view_majority ||
        a->start_ms != b->start_ms || a->block_bytes != b->block_bytes)
        return false;
    for (uint32_t i = 0; i < a->subgroups; i++)
        if (!same_subgroup(&a->subgroup[i], &b->subgroup[i]))
            return false;
    return true;
}

bool cluster_equal(const struct cluster *a, const struct cluster *b)
{
    if (strcmp(a->name, b->name) != 0 || a->transport != b->transport ||
        a->protocol != b->protocol || a->wait != b->wait || a->durable != b->durable ||
        memcmp(a->id, b->id, sizeof a->id) != 0 ||
        memcmp(a->restored, b->restored, sizeof a->restored) != 0 ||
        strcmp(a->data_dir, b->data_dir) != 0 || a->huge_pages != b->huge_pages ||
        strcmp(a->runtime_dir, b->runtime_dir) != 0 || a->hosts != b->hosts ||
        a->groups != b->groups || !same_identity(a, b) || !same_views(a, b))
        return false;
    for (enum setting s = 0; s < SETTING_COUNT; s++)
        if (setting_get(a, s) != setting_get(b, s))
            return false;
    for (uint32_t i = 0; i < a->hosts; i++)
        if (!same_host(&a->host[i], &b->host[i]))
            return false;
    for (uint32_t i = 0; i < a->groups; i++)
        if (!same_group(&a->group[i], &b->group[i]))
            return false;
    return true;
}
