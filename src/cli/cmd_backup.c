/* tram backup: the states of all groups at one point of the order, copied into a directory.
 *
 * The point is a message to all groups. Each replica that delivers it keeps the state of its machine as it is then; by the order of
 * atomic multicast what the groups have delivered before it goes together, whichever replica of a group is taken. */
#include "api/api.h"
#include "api/backup.h"
#include "api/disk.h"
#include "base/clock.h"
#include "cli/backup_dir.h"
#include "cli/cmd.h"
#include "cli/running.h"
#include "conf/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_MS = 20,
    HERE_MS =
        2000, /* for which a replica of this machine is waited for that another one has gone before */
    TRIES = 3, /* a replica whose state is being saved already lets it be */
};

struct backup_args {
    struct running_args running;
    const char *dir;
    uint64_t timeout_s;
    bool verify;
    bool quiet;
};

struct maker {
    const struct backup_args *args;
    const struct tram_cluster *cluster;
    struct tram_client *client;
    struct running now;
    struct backup_dir dir;
    int taken[CLUSTER_GROUPS_MAX]; /* rank of the replica whose file is taken */
    uint64_t until_ns;
    uint64_t whole_ns; /* since when every group has one that is whole, somewhere */
};

static int complain(const char *text)
{
    fprintf(stderr, "tram backup: %s\n", text);
    return CMD_FAILED;
}

/* ---- is it whole? ---- */

static bool is_this(const struct maker *m, uint32_t g, uint32_t q)
{
    const struct running *r = &m->now;

    return r->host[running_host_of(r, g, q)].state == RUNNING_UP &&
           memcmp(running_backup(r, g, q)->id, m->dir.id, sizeof m->dir.id) == 0;
}

/* The rank of a replica that has it, on this machine if there is one; -1: none has. */
static int find_whole(const struct maker *m, uint32_t g, bool *here)
{
    int found = -1;

    *here = false;
    for (uint32_t q = 0; q < running_replicas(&m->now, g) && !*here; q++)
        if (is_this(m, g, q) && running_backup(&m->now, g, q)->phase == BACKUP_WHOLE) {
            found = (int)q;
            *here = !m->now.host[running_host_of(&m->now, g, q)].elsewhere;
        }
    return found;
}

/* No replica will have it any more: it has failed at all that are up, and at one of them at least. */
static bool has_failed(const struct maker *m, uint32_t g)
{
    bool any = false;

    for (uint32_t q = 0; q < running_replicas(&m->now, g); q++) {
        if (m->now.host[running_host_of(&m->now, g, q)].state != RUNNING_UP)
            continue;
        if (!is_this(m, g, q) || running_backup(&m->now, g, q)->phase != BACKUP_FAILED)
            return false;
        any = true;
    }
    return any;
}

static bool group_is_here(const struct maker *m, uint32_t g)
{
    for (uint32_t q = 0; q < running_replicas(&m->now, g); q++) {
        const struct running_host *h = &m->now.host[running_host_of(&m->now, g, q)];
        if (h->state == RUNNING_UP && !h->elsewhere)
            return true;
    }
    return false;
}

static void progress(const struct maker *m, uint32_t whole)
{
    uint64_t bytes = 0;

    if (m->args->quiet || !isatty(2))
        return;
    for (uint32_t g = 0; g < m->dir.groups; g++) {
        uint64_t most = 0;
        for (uint32_t q = 0; q < running_replicas(&m->now, g); q++)
            if (is_this(m, g, q) && running_backup(&m->now, g, q)->bytes > most)
                most = running_backup(&m->now, g, q)->bytes;
        bytes += most;
    }
    fprintf(stderr, "\r%u of %u groups, %s  ", whole, m->dir.groups, value_size_about(bytes).s);
}

enum outcome { NOT_YET, ALL_WHOLE, ONE_FAILED };

static enum outcome look(struct maker *m)
{
    uint32_t whole = 0, wanted_here = 0;

    running_sample(&m->now);
    for (uint32_t g = 0; g < m->dir.groups; g++) {
        bool here;
        m->taken[g] = find_whole(m, g, &here);
        whole += m->taken[g] >= 0;
        wanted_here += !here && group_is_here(m, g);
        if (m->taken[g] < 0 && has_failed(m, g))
            return ONE_FAILED;
    }
    progress(m, whole);
    if (whole < m->dir.groups)
        return NOT_YET;
    if (m->whole_ns == 0)
        m->whole_ns = clock_now_ns();
    bool waited = clock_now_ns() - m->whole_ns > HERE_MS * UINT64_C(1000000);
    return wanted_here == 0 || waited ? ALL_WHOLE : NOT_YET;
}

/* ---- asking for it ---- */

static void pause_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

static int cast(struct maker *m)
{
    struct err e = {""};
    struct tram_error error = {""};
    uint64_t ticket, now = clock_now_ns();

    if (getrandom(m->dir.id, sizeof m->dir.id, 0) != (ssize_t)sizeof m->dir.id)
        return complain("no random numbers");
    if (api_cast_backup(m->client, m->dir.id, &ticket, &e) < 0)
        return complain(e.text);
    m->whole_ns = 0;
    if (tram_await(m->client, ticket, NULL, m->until_ns > now ? m->until_ns - now : 0, &error) < 0)
        return complain(error.text);
    return CMD_DONE;
}

static void name_missing(const struct maker *m)
{
    fprintf(stderr, "tram backup: not finished in time:");
    for (uint32_t g = 0; g < m->dir.groups; g++)
        if (m->taken[g] < 0)
            fprintf(stderr, " %s", m->dir.group[g].name);
    fprintf(stderr, "; --timeout gives it longer\n");
}

static int make(struct maker *m)
{
    for (int tries = 0; tries < TRIES; tries++) {
        enum outcome o;
        int code = cast(m);
        if (code != CMD_DONE)
            return code;
        while ((o = look(m)) == NOT_YET && clock_now_ns() < m->until_ns)
            pause_ms(LOOK_MS);
        if (!m->args->quiet && isatty(2))
            fputc('\n', stderr);
        if (o == ALL_WHOLE)
            return CMD_DONE;
        if (o == NOT_YET) {
            name_missing(m);
            return CMD_FAILED;
        }
    }
    return complain("the replicas of a group could not write it, all of them: their logs say why "
                    "(a disk that is full, a state that is just being saved)");
}

/* ---- copying it ---- */

static int copy_group(struct maker *m, uint32_t g, bool *elsewhere)
{
    struct backup_group *group = &m->dir.group[g];
    uint32_t rank = (uint32_t)m->taken[g], host = running_host_of(&m->now, g, rank);
    char path[1024];
    struct err e = {""};

    group->delivered = running_backup(&m->now, g, rank)->delivered;
    if (api_disk_path(m->cluster, host, path, sizeof path - 32, &e) < 0)
        return complain(e.text);
    size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/backup.%u", g);
    *elsewhere = m->now.host[host].elsewhere;
    if (*elsewhere) {
        printf("copy %s:%s to %s/%s.state\n", m->cluster->conf->host[host].name, path, m->dir.path,
               group->name);
        return CMD_DONE;
    }
    return backup_dir_copy(&m->dir, group, path, &e) < 0 ? complain(e.text) : CMD_DONE;
}

static int copy(struct maker *m)
{
    uint64_t bytes = 0, delivered = 0;
    uint32_t missing = 0;
    struct err e = {""};

    for (uint32_t g = 0; g < m->dir.groups; g++) {
        bool elsewhere;
        int code = copy_group(m, g, &elsewhere);
        if (code != CMD_DONE)
            return code;
        missing += elsewhere;
        bytes += m->dir.group[g].bytes;
        delivered += m->dir.group[g].delivered;
    }
    if (backup_dir_write(&m->dir, &e) < 0)
        return complain(e.text);
    if (missing > 0) {
        printf("backup %s is not complete yet: copy these %u files, then `tram backup --verify "
               "%s`\n",
               cluster_id_text(m->dir.id).s, missing, m->dir.path);
        return CMD_PART;
    }
    if (!m->args->quiet)
        printf("backup %s is in %s: %u groups, %s, after %llu deliveries\n",
               cluster_id_text(m->dir.id).s, m->dir.path, m->dir.groups, value_size_about(bytes).s,
               (unsigned long long)delivered);
    return CMD_DONE;
}

/* ---- all of it ---- */

static void describe(struct maker *m)
{
    const struct cluster *c = m->cluster->conf;

    m->dir.path = m->args->dir;
    snprintf(m->dir.cluster, sizeof m->dir.cluster, "%s", c->name);
    memcpy(m->dir.cluster_id, c->id, sizeof m->dir.cluster_id);
    snprintf(m->dir.protocol, sizeof m->dir.protocol, "%s", cluster_protocol_names[c->protocol]);
    m->dir.groups = c->groups;
    for (uint32_t g = 0; g < c->groups; g++) {
        m->dir.group[g].number = g;
        snprintf(m->dir.group[g].name, sizeof m->dir.group[g].name, "%s", c->group[g].name);
    }
}

static int make_and_copy(struct maker *m)
{
    struct err e = {""};
    struct tram_error error = {""};

    if (running_hosts_alive(&m->now) == 0) {
        fprintf(stderr, "tram backup: no host of cluster '%s' %s\n", m->cluster->conf->name,
                running_not(m->cluster).s);
        return CMD_FAILED;
    }
    if (tram_client_open(m->cluster, NULL, &m->client, &error) < 0)
        return complain(error.text);
    int code = backup_dir_make(m->dir.path, &e) < 0 ? complain(e.text) : CMD_DONE;
    if (code == CMD_DONE) {
        code = make(m);
        if (code != CMD_DONE)
            rmdir(m->dir.path);
        else
            code = copy(m);
    }
    tram_client_close(m->client);
    return code;
}

static int backup(const struct backup_args *a)
{
    struct tram_cluster *c;
    struct maker *m;
    int code = running_load(&a->running, "backup", &c);

    if (code != CMD_DONE)
        return code;
    m = calloc(1, sizeof *m);
    if (m == NULL || !c->conf->durable) {
        code = complain(m == NULL ? "no memory"
                                  : "the cluster is not durable: its hosts have no disks to keep "
                                    "a backup on");
    } else {
        m->args = a;
        m->cluster = c;
        m->until_ns = clock_now_ns() + a->timeout_s * UINT64_C(1000000000);
        describe(m);
        code = running_open(&m->now, c, "backup");
        if (code == CMD_DONE)
            code = make_and_copy(m);
        running_close(&m->now);
    }
    free(m);
    tram_cluster_free(c);
    return code;
}

static int verify(const struct backup_args *a)
{
    struct backup_dir *d = calloc(1, sizeof *d);
    struct err e = {""};
    uint32_t missing = 0, bad = 0;

    if (d == NULL || backup_dir_read(a->dir, d, &e) < 0) {
        free(d);
        return complain(e.text[0] ? e.text : "no memory");
    }
    for (uint32_t g = 0; g < d->groups; g++) {
        int rc = backup_dir_check(d, &d->group[g], &e);
        missing += rc == ERR_NOTFOUND;
        bad += rc < 0 && rc != ERR_NOTFOUND;
        if (rc < 0)
            complain(e.text);
    }
    if (!a->quiet)
        printf("backup %s of cluster '%s' (%s), %u groups: %s\n", cluster_id_text(d->id).s,
               d->cluster, d->protocol, d->groups,
               bad > 0       ? "DAMAGED"
               : missing > 0 ? "not complete"
                             : "whole");
    free(d);
    return bad > 0 ? CMD_FAILED : missing > 0 ? CMD_PART : CMD_DONE;
}

int cmd_backup(int argc, char **argv)
{
    struct backup_args a = {.timeout_s = 60};
    const struct args_word words[] = {{"DIR", &a.dir, "say where the backup goes"}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--timeout", "S", "how long it may take in seconds (default 60)", .number = &a.timeout_s,
         .min = 1, .max = 86400},
        {"--verify", NULL, "check the backup in DIR, and make none", .flag = &a.verify},
        {"--quiet", NULL, "say nothing if all is well", .flag = &a.quiet},
        {0},
    };
    const struct args_command command = {
        .name = "backup",
        .usage = "DIR [OPTIONS]",
        .about = "Makes a backup of a durable cluster while it runs: the states of all groups at "
                 "one point of the order, so that a message to several groups is in all of them "
                 "or in none. DIR is made, and must not be there. `tram restore` makes a new "
                 "cluster of it.",
        .options = options,
        .words = words,
        .too_many = "one directory",
        .more = "Exit code: 0 made, or whole; 1 not made, or damaged; 2 wrong usage; 3 not "
                "complete: files of other machines are yet to be copied, as it says.",
    };
    int code = args_read(&command, argc, argv);

    if (code != ARGS_GO)
        return code;
    return a.verify ? verify(&a) : backup(&a);
}
