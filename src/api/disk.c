#include "api/disk.h"

#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool with_shadow;
static struct disk_options with_sizes; /* 0: as they are else */

void api_disk_use_shadow(bool use)
{
    with_shadow = use;
}

void api_disk_use_sizes(const struct disk_options *o)
{
    with_sizes = o ? *o : (struct disk_options){0};
}

int api_disk_path(const struct tram_cluster *c, uint32_t host, char *out, size_t bytes,
                  struct err *e)
{
    return cluster_path(c->conf, c->file, CLUSTER_PATH_DATA, c->conf->host[host].name, out, bytes,
                        e);
}

struct disk_shape api_disk_shape(const struct tram_cluster *c, uint32_t host)
{
    struct disk_shape s = {.sizes = cluster_shape(c->conf),
                           .groups = c->conf->groups,
                           .hosts = c->conf->hosts,
                           .clients = c->sizes.clients};
    memcpy(s.cluster, c->conf->id, sizeof(s.cluster));
    snprintf(s.host, sizeof(s.host), "%s", c->conf->host[host].name);
    return s;
}

/* ---- lives ---- */

static uint32_t host_lives(void *ctx, uint32_t host)
{
    const struct api_disk *d = ctx;
    return disk_host_life(d->disk, host);
}

static uint32_t place_lives(void *ctx, uint32_t place)
{
    const struct api_disk *d = ctx;
    return disk_place_life(d->disk, place);
}

static uint32_t place_before(void *ctx, uint32_t place)
{
    const struct api_disk *d = ctx;
    return d->place_before ? d->place_before[place] : disk_place_life(d->disk, place);
}

static bool note_host(void *ctx, uint32_t host, uint32_t lives)
{
    struct api_disk *d = ctx;
    if (lives > disk_host_life(d->disk, host))
        d->host_due[host] = disk_host_note(d->disk, host, lives);
    return disk_done(d->disk) >= d->host_due[host];
}

static bool note_place(void *ctx, uint32_t place, uint32_t lives)
{
    struct api_disk *d = ctx;
    if (lives > disk_place_life(d->disk, place))
        d->place_due[place] = disk_place_note(d->disk, place, lives);
    return disk_done(d->disk) >= d->place_due[place];
}

/* Of how many groups it knows nothing that counts. */
static uint32_t groups_beyond(const struct tram_cluster *c, const struct disk *d)
{
    uint32_t beyond = 0;
    for (uint32_t g = 0; g < c->conf->groups; g++)
        beyond += disk_found(d, g)->state == DISK_BEYOND;
    return beyond;
}

/* ---- directories ---- */

static int open_block(const struct tram_cluster *c, uint32_t host, void (*over)(void *ctx),
                      void *ctx, struct block **out, char *dir, size_t bytes, struct err *e)
{
    int rc = api_disk_path(c, host, dir, bytes, e);
    if (rc != 0)
        return rc;
    struct block_file_options o = {
        .dir = dir, .over = over, .ctx = ctx, .apart = c->conf->wait == CLUSTER_WAIT_SPIN};
    return with_shadow ? block_shadow_open(&o, out, e) : block_file_open(&o, out, e);
}

/* Its parents, too: DATA is made with the first host. */
static int make_directory(const char *path, struct err *e)
{
    char part[1024];
    for (const char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        int n = at ? (int)(at - path) : (int)strlen(path);
        snprintf(part, sizeof(part), "%.*s", n, path);
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return err_sys(e, "make directory %s", part);
        if (at == NULL)
            return 0;
    }
}

int api_disk_format(const struct tram_cluster *c, uint32_t host, uint32_t life, struct err *e)
{
    char dir[1024];
    struct block *b = NULL;
    struct disk_shape shape = api_disk_shape(c, host);
    int rc = api_disk_path(c, host, dir, sizeof(dir), e);
    if (rc == 0)
        rc = make_directory(dir, e);
    if (rc == 0)
        rc = open_block(c, host, NULL, NULL, &b, dir, sizeof(dir), e);
    if (rc == 0)
        rc = disk_format(b, &shape, life, e);
    block_close(b);
    return rc;
}

static int no_directory(const struct tram_cluster *c, uint32_t host, const char *dir, struct err *e)
{
    const char *name = c->conf->host[host].name;
    return err_set(e, ERR_NOTFOUND,
                   "host %s has nothing in %s: if it has never run, make that with `tram format "
                   "--config %s %s`; if its disk was lost, with `tram format --rejoin`",
                   name, dir, c->file, name);
}

int api_disk_open(const struct tram_cluster *c, uint32_t host, void (*over)(void *ctx), void *ctx,
                  struct api_disk *d, struct err *e)
{
    char dir[1024] = "";
    struct stat there;
    *d = (struct api_disk){.place_due = calloc(c->sizes.clients + 1, sizeof(uint64_t)),
                           .host_due = calloc(c->conf->hosts + 1, sizeof(uint64_t))};
    if (d->place_due == NULL || d->host_due == NULL)
        return err_set(e, ERR_NOMEM, "host %s: no memory", c->conf->host[host].name);
    int rc = api_disk_path(c, host, dir, sizeof(dir), e);
    if (rc == 0 && stat(dir, &there) < 0 && errno == ENOENT)
        return no_directory(c, host, dir, e);
    if (rc == 0)
        rc = open_block(c, host, over, ctx, &d->block, dir, sizeof(dir), e);
    if (rc != 0)
        return rc;
    struct disk_options o = with_sizes;
    o.block = d->block;
    o.shape = api_disk_shape(c, host);
    if (o.bytes == 0)
        o.bytes = c->conf->disk_bytes;
    rc = disk_open(&o, &d->disk, e);
    if (rc == ERR_NOTFOUND)
        return no_directory(c, host, dir, e);
    if (rc != 0) {
        struct err why = *e;
        return err_set(e, rc, "host %s, %s: %s", c->conf->host[host].name, dir, why.text);
    }
    uint32_t beyond = groups_beyond(c, d->disk);
    d->lives = (struct mem_lives){.ctx = d,
                                  .life = disk_life(d->disk),
                                  .rejoined = beyond == c->conf->groups,
                                  .forgets = beyond > 0,
                                  .host = host_lives,
                                  .place = place_lives,
                                  .place_before = place_before,
                                  .note_host = note_host,
                                  .note_place = note_place};
    return 0;
}

int api_disk_opened(struct api_disk *d, uint32_t places, struct err *e)
{
    uint32_t *before = calloc(places + 1, sizeof(*before));
    if (before == NULL)
        return err_set(e, ERR_NOMEM, "lives of %u places: no memory", places);
    for (uint32_t i = 0; i < places; i++)
        before[i] = disk_place_life(d->disk, i);
    d->place_before = before;
    return 0;
}

void api_disk_stop(struct api_disk *d)
{
    block_close(d->block);
    d->block = NULL;
}

void api_disk_close(struct api_disk *d)
{
    api_disk_stop(d);
    if (d->disk)
        disk_close(d->disk);
    free(d->place_due);
    free(d->host_due);
    free(d->place_before);
    *d = (struct api_disk){0};
}
