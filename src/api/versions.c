/* Versions read back from a host's disk, whether it runs or not (include/tram/group.h). */
#include "api/group_kept.h"
#include "disk/block_file.h"
#include "tram/group.h"

#include <string.h>

int group_kept_look(const struct tram_cluster *c, uint32_t host, struct block **out, struct err *e)
{
    char dir[1024];
    int rc = group_kept_path(c, host, dir, sizeof(dir), e);
    return rc == 0 ? block_look_open(dir, out, e) : rc;
}

struct versions_owner group_kept_owner(const struct tram_cluster *c, uint32_t host)
{
    struct versions_owner o = {.host = host};
    memcpy(o.cluster, c->conf->id, sizeof(o.cluster));
    return o;
}

struct reading {
    int (*fn)(void *ctx, const struct tram_version *);
    void *ctx;
    uint64_t time;
};

static int on_version(void *ctx, const struct version *v, const void *payload)
{
    const struct reading *r = ctx;
    if (v->type != VERSION_MSG)
        return 0;
    const struct tram_version out = {.version = v->version,
                                     .time_ns = v->time,
                                     .sender = v->sender,
                                     .bytes = v->bytes,
                                     .data = payload};
    return r->fn(r->ctx, &out);
}

static int wrong(const struct tram_cluster *c, const char *host, const char *cell, struct err *e)
{
    int at = c->conf->protocol == CLUSTER_GROUP ? cluster_cell(c->conf, cell) : CLUSTER_NONE;
    uint32_t shard;
    if (cluster_host(c->conf, host) == CLUSTER_NONE)
        return err_set(e, ERR_NOTFOUND, "there is no host '%s' in cluster %s; %s", host,
                       c->conf->name, cluster_hosts_near(c->conf, host).s);
    if (at == CLUSTER_NONE)
        return err_set(e, ERR_NOTFOUND, "there is no cell '%s' in cluster %s", cell, c->conf->name);
    const struct cluster_subgroup *s =
        &c->conf->subgroup[cluster_cell_subgroup(c->conf, (uint32_t)at, &shard)];
    if (!cluster_subgroup_keeps(s))
        return err_set(e, ERR_INVALID, "cell %s has mode: %s, and nothing of it is kept", cell,
                       cluster_mode_names[s->mode]);
    return at;
}

int tram_versions_read(const struct tram_cluster *c, const char *host, const char *cell,
                       uint64_t version, uint64_t time_ns,
                       int (*fn)(void *ctx, const struct tram_version *), void *ctx,
                       struct tram_error *error)
{
    struct err e = {""};
    struct block *block = NULL;
    struct reading r = {.fn = fn, .ctx = ctx};
    int at = wrong(c, host ? host : "", cell ? cell : "", &e);
    if (at < 0)
        return api_error(error, at, &e);
    uint32_t number = (uint32_t)cluster_host(c->conf, host);
    const struct versions_owner owner = group_kept_owner(c, number);
    int rc = group_kept_look(c, number, &block, &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    rc = versions_read(block, &owner, versions_of_cell((uint32_t)at), version, time_ns, on_version,
                       &r, &e);
    block_close(block);
    return rc < 0 && e.text[0] ? api_error(error, rc, &e) : rc;
}
