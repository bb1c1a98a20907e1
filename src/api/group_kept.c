#include "api/group_kept.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_US = 200 };

int group_kept_path(const struct tram_cluster *c, uint32_t host, char *out, size_t bytes,
                    struct err *e)
{
    static const char suffix[] = ".versions";
    int rc = api_disk_path(c, host, out, bytes, e);
    size_t at = rc == 0 ? strlen(out) : 0;
    if (rc == 0 && at + sizeof(suffix) > bytes)
        return err_set(e, ERR_TOOBIG, "%s%s: the path is too long", out, suffix);
    if (rc == 0)
        memcpy(out + at, suffix, sizeof(suffix));
    return rc;
}

static void on_line(void *ctx, const char *line)
{
    const struct group_kept *k = ctx;
    say_warn(&k->say, "%s: %s", k->who, line);
}

static int open_versions(struct block *block, const struct tram_cluster *c, uint32_t host,
                         const struct cell_options *cell, uint32_t cells, struct group_kept *k,
                         struct err *e)
{
    struct versions_log_options log[VERSIONS_LOGS_MAX] = {{0}};
    struct versions_options o = {.block = block,
                                 .owner = {.host = host},
                                 .log = log,
                                 .logs = cells + 1,
                                 .signer = {.sign = group_sign, .ctx = &k->signing},
                                 .say = on_line,
                                 .ctx = k};
    log[VERSIONS_VIEWS] = member_views_log_options();
    for (uint32_t i = 0; i < cells; i++)
        log[versions_of_cell(i)] = member_log_options(&cell[i]);
    memcpy(o.owner.cluster, c->conf->id, sizeof(o.owner.cluster));
    return versions_open(&o, &k->versions, e);
}

int group_kept_open(const struct tram_cluster *c, uint32_t host, const struct cell_options *cell,
                    uint32_t cells, void (*over)(void *ctx), void *ctx, struct say say,
                    struct group_kept *k, struct err *e)
{
    char dir[1024];
    *k = (struct group_kept){.say = say};
    if (!cluster_keeps(c->conf))
        return 0;
    snprintf(k->who, sizeof(k->who), "%s", c->conf->host[host].name);
    int rc = group_kept_path(c, host, dir, sizeof(dir), e);
    if (rc == 0)
        rc = api_disk_block(c, dir, over, ctx, &k->block, e);
    if (rc == 0)
        rc = group_signing_open(c, host, &k->signing, e);
    if (rc == 0)
        rc = open_versions(k->block, c, host, cell, cells, k, e);
    if (rc != 0)
        group_kept_close(k);
    return rc;
}

int group_kept_open_on(struct block *block, const struct tram_cluster *c, uint32_t host,
                       const struct cell_options *cell, uint32_t cells, struct say say,
                       struct group_kept *k, struct err *e)
{
    *k = (struct group_kept){.say = say};
    snprintf(k->who, sizeof(k->who), "%s", c->conf->host[host].name);
    int rc = group_signing_open(c, host, &k->signing, e);
    return rc == 0 ? open_versions(block, c, host, cell, cells, k, e) : rc;
}

/* A torn tail was never told to anybody, and is no loss. */
static void say_found(const struct say *say, const char *me, const struct api_disk *d)
{
    const enum disk_state state = disk_found(d->disk, 0)->state;
    const uint64_t torn = disk_torn(d->disk);
    if (torn)
        say_event(say, SAY_EVENT_TORN,
                  "%s: the last write before it ended, batch %llu, was torn, and is cut", me,
                  (unsigned long long)torn);
    if (d->lives.rejoined)
        say_event(say, SAY_EVENT_DISK_LOST,
                  "%s: its disk was lost, and the views that it had come from other keepers", me);
    else if (state == DISK_BELOW || state == DISK_BEYOND)
        say_event(say, SAY_EVENT_DAMAGED,
                  "%s: what its disk has of the views is damaged: it comes from other keepers", me);
}

int group_kept_disk(const struct tram_cluster *c, uint32_t host, void (*over)(void *ctx), void *ctx,
                    const struct say *say, struct api_disk *d, struct err *e)
{
    if (!cluster_has_disks(c->conf))
        return 0;
    int rc = api_disk_open(c, host, over, ctx, d, e);
    if (rc == 0)
        say_found(say, c->conf->host[host].name, d);
    return rc;
}

void group_kept_flush(struct group_kept *k, uint64_t ns)
{
    struct versions_status s;
    if (k->versions == NULL)
        return;
    for (uint64_t until = clock_now_ns() + ns; versions_failure(k->versions) == NULL;) {
        uint64_t now = clock_now_ns();
        versions_round(k->versions, now);
        versions_status(k->versions, &s);
        if ((s.waiting_bytes == 0 && !s.writing) || now > until)
            return;
        usleep(WAIT_US);
    }
}

void group_kept_close(struct group_kept *k)
{
    block_close(k->block);
    versions_close(k->versions);
    k->block = NULL;
    k->versions = NULL;
    group_signing_close(&k->signing);
}
