/* tram restore: the directories of a new cluster, whose groups begin with the states of a backup. */
#include "api/api.h"
#include "api/disk.h"
#include "base/minmax.h"
#include "cli/backup_dir.h"
#include "cli/cmd.h"
#include "cli/running.h"
#include "mcast/replica.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct restore_args {
    struct running_args running;
    const char *dir;
    const char *name[CLUSTER_HOSTS_MAX];
    struct args_list hosts; /* none: those of this machine */
};

/* States on their way to a host's directory. */
struct giver {
    const struct backup_dir *dir;
    const uint32_t *from; /* by group: its place in the backup */
    struct backup_reader reader;
    unsigned char head[REPLICA_INITIAL_BYTES];
    uint32_t head_at;
};

static int complain(const char *text)
{
    fprintf(stderr, "tram restore: %s\n", text);
    return CMD_FAILED;
}

/* ---- states ---- */

static int giver_open(void *ctx, uint32_t group, struct err *e)
{
    struct giver *v = ctx;
    const struct backup_group *g = &v->dir->group[v->from[group]];

    replica_initial(v->head, g->delivered, g->bytes);
    v->head_at = 0;
    return backup_reader_open(&v->reader, v->dir, g, e);
}

static int giver_next(void *ctx, void *out, uint32_t room)
{
    struct giver *v = ctx;
    uint32_t left = REPLICA_INITIAL_BYTES - v->head_at;

    if (left == 0)
        return backup_reader_next(&v->reader, out, room);
    uint32_t n = (uint32_t)min_u64(left, room);
    memcpy(out, v->head + v->head_at, n);
    v->head_at += n;
    return (int)n;
}

static void giver_close(void *ctx)
{
    struct giver *v = ctx;

    if (v->reader.err.text[0] != '\0')
        complain(v->reader.err.text);
    backup_reader_close(&v->reader);
}

/* ---- do they fit? ---- */

/* from[g] is where the cluster's group g is in the backup: by name. */
static int match_groups(const struct cluster *c, const struct backup_dir *d, uint32_t *from)
{
    for (uint32_t g = 0; g < c->groups; g++) {
        from[g] = UINT32_MAX;
        for (uint32_t i = 0; i < d->groups; i++)
            if (strcmp(d->group[i].name, c->group[g].name) == 0)
                from[g] = i;
        if (from[g] == UINT32_MAX) {
            fprintf(stderr,
                    "tram restore: group %s is not in the backup, which is of cluster '%s'\n",
                    c->group[g].name, d->cluster);
            return CMD_FAILED;
        }
    }
    if (c->groups == d->groups)
        return CMD_DONE;
    fprintf(stderr,
            "tram restore: the backup has %u groups and the cluster file %u: they must be "
            "the same\n",
            d->groups, c->groups);
    return CMD_FAILED;
}

static int check_file(const struct restore_args *a, const struct cluster *c,
                      const struct backup_dir *d)
{
    const char *file = running_file(&a->running);

    if (!c->durable) {
        fprintf(stderr,
                "tram restore: %s is not durable; `tram init --durable` writes a file for "
                "one that is\n",
                file);
        return CMD_FAILED;
    }
    if (memcmp(c->id, d->cluster_id, sizeof c->id) == 0) {
        fprintf(stderr,
                "tram restore: %s has the id of the cluster that the backup is of; a new "
                "cluster has its own: `tram init --durable` draws one\n",
                file);
        return CMD_FAILED;
    }
    if (memcmp(c->restored, d->id, sizeof c->restored) != 0) {
        fprintf(stderr,
                "tram restore: %s must say that it begins with this backup, on every machine, so "
                "that no host begins otherwise. Write into it:\nrestored: %s\n",
                file, cluster_id_text(d->id).s);
        return CMD_FAILED;
    }
    return CMD_DONE;
}

static int check_backup(struct backup_dir *d)
{
    struct err e = {""};
    int code = CMD_DONE;

    for (uint32_t g = 0; g < d->groups; g++)
        if (backup_dir_check(d, &d->group[g], &e) < 0)
            code = complain(e.text);
    return code;
}

/* ---- hosts ---- */

static bool is_wanted(const struct restore_args *a, const struct tram_cluster *c, uint32_t host)
{
    for (int i = 0; i < a->hosts.count; i++)
        if (strcmp(a->hosts.item[i], c->conf->host[host].name) == 0)
            return true;
    return a->hosts.count == 0 && running_is_here(c, host);
}

static int check_hosts(const struct restore_args *a, const struct tram_cluster *c)
{
    struct err e = {""};
    uint32_t wanted = 0;

    for (int i = 0; i < a->hosts.count; i++)
        if (cluster_host(c->conf, a->hosts.item[i]) < 0) {
            fprintf(stderr, "tram restore: there is no host '%s' in %s; %s\n", a->hosts.item[i],
                    running_file(&a->running), cluster_hosts_near(c->conf, a->hosts.item[i]).s);
            return CMD_USAGE;
        }
    for (uint32_t h = 0; h < c->conf->hosts; h++) {
        if (!is_wanted(a, c, h))
            continue;
        wanted++;
        int rc = api_disk_whose(c, h, &e);
        if (rc != ERR_NOTFOUND) {
            fprintf(stderr, "tram restore: %s: %s\n", c->conf->host[h].name,
                    rc == 0 ? "its directory is there already, and is not touched" : e.text);
            return CMD_FAILED;
        }
    }
    return wanted > 0 ? CMD_DONE
                      : complain("no host of the file has an address of this machine; name it with "
                                 "--host");
}

static int restore_hosts(const struct restore_args *a, const struct tram_cluster *c,
                         const struct backup_dir *d, const uint32_t *from)
{
    struct giver v = {.dir = d, .from = from};
    struct api_disk_source s = {giver_open, giver_next, giver_close, &v};
    char dir[1024];
    struct err e = {""};

    for (uint32_t h = 0; h < c->conf->hosts; h++) {
        if (!is_wanted(a, c, h))
            continue;
        if (api_disk_restore(c, h, &s, &e) < 0 || api_disk_path(c, h, dir, sizeof dir, &e) < 0) {
            fprintf(stderr, "tram restore: %s: %s\n", c->conf->host[h].name, e.text);
            return CMD_FAILED;
        }
        printf("made %s for host %s, which begins with backup %s\n", dir, c->conf->host[h].name,
               cluster_id_text(d->id).s);
    }
    return CMD_DONE;
}

/* ---- all of it ---- */

static int restore(const struct restore_args *a)
{
    uint32_t from[CLUSTER_GROUPS_MAX];
    struct tram_cluster *c;
    struct err e = {""};
    int code = running_load(&a->running, "restore", &c);

    if (code != CMD_DONE)
        return code;
    struct backup_dir *d = calloc(1, sizeof *d);
    if (d == NULL || backup_dir_read(a->dir, d, &e) < 0)
        code = complain(d == NULL ? "no memory" : e.text);
    if (code == CMD_DONE)
        code = match_groups(c->conf, d, from);
    if (code == CMD_DONE)
        code = check_file(a, c->conf, d);
    if (code == CMD_DONE)
        code = check_hosts(a, c);
    if (code == CMD_DONE)
        code = check_backup(d);
    if (code == CMD_DONE)
        code = restore_hosts(a, c, d, from);
    free(d);
    tram_cluster_free(c);
    return code;
}

int cmd_restore(int argc, char **argv)
{
    struct restore_args a = {.hosts = {.max = CLUSTER_HOSTS_MAX}};
    const struct args_word words[] = {{"DIR", &a.dir, "say where the backup is"}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--host", "HOST", "make the directory of this host alone; may be repeated",
         .list = &a.hosts, .needs = "a host"},
        {0},
    };
    const struct args_command command = {
        .name = "restore",
        .usage = "DIR [OPTIONS]",
        .about =
            "Makes the directories of a new durable cluster, whose groups begin with what they "
            "had in the backup in DIR: of all hosts of the cluster file that have an address "
            "of this machine. The file has groups of the same names and an id of its own; "
            "hosts, replicas, protocol and sizes may be others. What is there is never "
            "touched.",
        .options = options,
        .words = words,
        .too_many = "one backup",
        .more = "Exit code: 0 made, 1 not made, 2 wrong usage.",
    };

    a.hosts.item = a.name;
    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? restore(&a) : code;
}
