#include "api/api.h"

#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int inner, outer;
} codes[] = {
    {ERR_INVALID, TRAM_INVALID}, {ERR_NOMEM, TRAM_NOMEM},         {ERR_SYSTEM, TRAM_SYSTEM},
    {ERR_EXISTS, TRAM_EXISTS},   {ERR_NOTFOUND, TRAM_NOTFOUND},   {ERR_TOOBIG, TRAM_TOOBIG},
    {ERR_AGAIN, TRAM_AGAIN},     {ERR_REFUSED, TRAM_REFUSED},     {ERR_TIMEOUT, TRAM_TIMEOUT},
    {ERR_CORRUPT, TRAM_BROKEN},  {ERR_DATA_LOST, TRAM_DATA_LOST}, {ERR_VIOLATED, TRAM_VIOLATED},
    {ERR_LOST, TRAM_LOST},
};

int api_error(struct tram_error *out, int code, const struct err *e)
{
    if (code >= 0)
        return code;
    if (out)
        snprintf(out->text, sizeof(out->text), "%s", e && e->text[0] ? e->text : err_name(code));
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].inner == code)
            return codes[i].outer;
    return TRAM_SYSTEM;
}

const char *tram_version(void)
{
    return TRAM_VERSION;
}

const char *tram_code_text(int code)
{
    if (code == TRAM_BROKEN)
        return "a replica saw what cannot be";
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].outer == code)
            return err_name(codes[i].inner);
    return code >= 0 ? "done" : "unknown";
}

/* The tree, the places of replicas and the sizes, from the file's data. */
static int settle(struct tram_cluster *c, struct err *e)
{
    const struct cluster *f = c->conf;
    uint16_t parent[CLUSTER_GROUPS_MAX];
    if (f->protocol == CLUSTER_GROUP) {
        c->sizes = (struct mcast_sizes){.clients = f->clients, .client_node = f->hosts};
        return 0;
    }
    c->protocol = f->protocol == CLUSTER_GENUINE ? MCAST_GENUINE : MCAST_TREE;
    for (uint32_t g = 0; g < f->groups; g++) {
        parent[g] =
            f->group[g].parent == CLUSTER_NONE ? OVERLAY_NONE : (uint16_t)f->group[g].parent;
        c->group[g].replicas = f->group[g].replicas;
        for (uint32_t q = 0; q < f->group[g].replicas; q++)
            c->group[g].nodes[q] = f->group[g].replica[q];
        c->group[g].memories = f->group[g].memories;
        c->group[g].all_vote = f->group[g].all_vote;
        for (uint32_t i = 0; i < f->group[g].memories; i++)
            c->group[g].memory[i] = f->group[g].memory[i];
    }
    c->sizes = (struct mcast_sizes){
        .clients = f->clients,
        .client_node = f->hosts,
        .body_max = f->payload_max ? f->payload_max : 8, /* 0 would mean the default */
        .reply_max = f->reply_max,
        .reply_bytes = f->reply_bytes,
        .source_bytes = f->source_bytes,
        .edge_bytes = f->edge_bytes,
        .log_bytes = f->log_bytes,
        .batch_bytes = f->batch_bytes,
        .window_bytes = f->window_bytes,
        .snap_bytes = f->snap_bytes,
    };
    /* Without a tree the file need not have one: parents may form anything, and are not used. */
    if (c->protocol == MCAST_GENUINE)
        overlay_shape_fill(OVERLAY_breadth, f->groups, parent);
    int rc = mcast_sizes_settle(&c->sizes, e);
    return rc ? rc : overlay_open(&c->overlay, parent, f->groups, e);
}

int api_refuse_group(const struct tram_cluster *c, const char *what, struct err *e)
{
    if (c->conf->protocol != CLUSTER_GROUP)
        return 0;
    return err_set(
        e, ERR_INVALID,
        "cluster %s has protocol: group, which has no %s; tram_group_open (tram/group.h) "
        "makes a member of it",
        c->conf->name, what);
}

/* Takes over what was read. */
static int finish(int rc, struct cluster *conf, const char *file, struct tram_cluster **out,
                  struct err *e, struct tram_error *error)
{
    struct tram_cluster *c = rc == 0 ? calloc(1, sizeof(*c)) : NULL;
    if (c == NULL) {
        cluster_free(conf);
        return api_error(error, rc ? rc : ERR_NOMEM, e);
    }
    c->conf = conf;
    snprintf(c->file, sizeof(c->file), "%s", file);
    rc = cluster_key_path(conf, file, c->key_path, sizeof(c->key_path), e);
    if (rc == 0)
        rc = settle(c, e);
    if (rc != 0) {
        tram_cluster_free(c);
        return api_error(error, rc, e);
    }
    *out = c;
    return TRAM_OK;
}

int tram_cluster_load(const char *path, struct tram_cluster **out, struct tram_error *error)
{
    struct err e = {""};
    struct cluster *conf = NULL;
    int rc = cluster_load(path, &conf, &e);
    return finish(rc, conf, path, out, &e, error);
}

int tram_cluster_parse(const char *text, const char *name, struct tram_cluster **out,
                       struct tram_error *error)
{
    struct err e = {""};
    struct cluster *conf = NULL;
    const char *file = name ? name : "cluster";
    int rc = cluster_parse(text, strlen(text), file, &conf, &e);
    if (rc == 0)
        rc = cluster_read_any(conf, file, &e);
    return finish(rc, conf, file, out, &e, error);
}

void tram_cluster_free(struct tram_cluster *c)
{
    if (c == NULL)
        return;
    overlay_close(c->overlay);
    cluster_free(c->conf);
    free(c);
}

int tram_cluster_rename(struct tram_cluster *c, const char *name, struct tram_error *error)
{
    struct err e = {""};
    size_t n = strlen(name);
    if (n == 0 || n >= sizeof(c->conf->name) ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz"
                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "0123456789-_.") != n)
        return api_error(error,
                         err_set(&e, ERR_INVALID,
                                 "cluster name '%s': 1 to %zu letters, digits, '-', '_' or '.'",
                                 name, sizeof(c->conf->name) - 1),
                         &e);
    memcpy(c->conf->name, name, n + 1);
    return TRAM_OK;
}

uint32_t tram_cluster_groups(const struct tram_cluster *c)
{
    return c->conf->groups;
}

uint32_t tram_cluster_hosts(const struct tram_cluster *c)
{
    return c->conf->hosts;
}

const char *tram_cluster_group_name(const struct tram_cluster *c, uint32_t group)
{
    return group < c->conf->groups ? c->conf->group[group].name : NULL;
}

const char *tram_cluster_host_name(const struct tram_cluster *c, uint32_t host)
{
    return host < c->conf->hosts ? c->conf->host[host].name : NULL;
}

int tram_cluster_group(const struct tram_cluster *c, const char *name)
{
    int g = cluster_group(c->conf, name);
    return g < 0 ? TRAM_NOTFOUND : g;
}

int tram_cluster_host(const struct tram_cluster *c, const char *name)
{
    int h = cluster_host(c->conf, name);
    return h < 0 ? TRAM_NOTFOUND : h;
}

struct replica_options api_replica_options(const struct tram_cluster *c, uint16_t group,
                                           uint32_t rank)
{
    return (struct replica_options){
        .protocol = c->protocol,
        .overlay = c->overlay,
        .groups = c->group,
        .group = group,
        .rank = rank,
        .sizes = c->sizes,
        .heartbeat_ns = c->conf->heartbeat_ms * UINT64_C(1000000),
        .suspect_ns = c->conf->suspect_ms * UINT64_C(1000000),
        .detach_ns = c->conf->detach_ms * UINT64_C(1000000),
    };
}

int api_trace(const struct tram_cluster *c, const char *dir, const char *name,
              const struct say *say, struct trace_writer **out, struct err *e)
{
    const char *groups[CLUSTER_GROUPS_MAX], *hosts[CLUSTER_HOSTS_MAX];
    for (uint32_t g = 0; g < c->conf->groups; g++)
        groups[g] = c->conf->group[g].name;
    for (uint32_t h = 0; h < c->conf->hosts; h++)
        hosts[h] = c->conf->host[h].name;
    struct trace_options o = {
        .dir = dir,
        .name = name,
        .groups = groups,
        .group_count = c->conf->groups,
        .hosts = hosts,
        .host_count = c->conf->hosts,
        .say = *say,
    };
    return trace_open(out, &o, e);
}

uint32_t tram_cluster_reply_max(const struct tram_cluster *c)
{
    return c->sizes.reply_max;
}

void tram_cluster_log(struct tram_cluster *c, const struct tram_log *log)
{
    c->log = *log;
}

static void log_line(void *ctx, enum say_level level, const char *line)
{
    const struct tram_log *log = ctx;
    log->line(log->ctx, (enum tram_log_level)level, line);
}

static void stderr_line(void *ctx, enum tram_log_level level, const char *line)
{
    const struct say out = say_stderr(SAY_INFO);
    (void)ctx;
    out.line(out.ctx, (enum say_level)level, line);
}

struct tram_log api_log_stderr(enum tram_log_level least)
{
    return (struct tram_log){.line = stderr_line, .least = least};
}

_Static_assert((int)TRAM_LOG_INFO == (int)SAY_INFO && (int)TRAM_LOG_WARNING == (int)SAY_WARN &&
                   (int)TRAM_LOG_ERROR == (int)SAY_ERROR,
               "one is cast to the other");

struct say api_say(const struct tram_cluster *c, struct tram_log *log)
{
    if (log->line == NULL)
        *log = c->log;
    return (struct say){
        .line = log->line ? log_line : NULL, .ctx = log, .least = (enum say_level)log->least};
}
