#include "api/disk.h"

#include "agree/entry.h"
#include "api/api.h"
#include "base/minmax.h"
#include "group/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Of a group with views the keepers' log is all that is kept there. */
static uint32_t groups_of(const struct tram_cluster *c)
{
    return c->conf->protocol == CLUSTER_GROUP ? 1 : c->conf->groups;
}

struct disk_shape api_disk_shape(const struct tram_cluster *c, uint32_t host)
{
    struct disk_shape s = {.sizes = cluster_shape(c->conf),
                           .groups = groups_of(c),
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
    for (uint32_t g = 0; g < groups_of(c); g++)
        beyond += disk_found(d, g)->state == DISK_BEYOND;
    return beyond;
}

/* ---- what logs know of clients ---- */

struct places_seen {
    struct api_disk *disk;
    uint32_t places;
};

/* Entries that were accepted, and perhaps not applied: this host may never have met the client. */
static void see_record(void *ctx, const struct disk_record *r)
{
    const struct places_seen *seen = ctx;
    struct disk *d = seen->disk->disk;
    if (r->kind != DISK_ENTRIES && r->kind != DISK_COPY)
        return;
    for (uint64_t at = 0, bytes = r->to - r->from; bytes - at >= sizeof(struct entry);) {
        const struct entry *e = (const struct entry *)(const void *)(r->bytes + at);
        if (e->bytes > bytes - at - sizeof(*e))
            return; /* no log; who reads it as one says so */
        if (e->source < seen->places && e->life < UINT16_MAX &&
            e->life >= disk_place_life(d, e->source))
            note_place(seen->disk, e->source, e->life + UINT32_C(1));
        at += entry_size(e->bytes);
    }
}

static void see_places(const struct tram_cluster *c, struct api_disk *d)
{
    struct places_seen seen = {.disk = d, .places = c->sizes.clients};
    for (uint32_t g = 0; g < c->conf->groups; g++)
        disk_replay(d->disk, g, see_record, &seen);
}

/* ---- directories ---- */

static int open_files(const struct tram_cluster *c, const char *dir, void (*over)(void *ctx),
                      void *ctx, struct block **out, struct err *e)
{
    struct block_file_options o = {
        .dir = dir, .over = over, .ctx = ctx, .apart = c->conf->wait == CLUSTER_WAIT_SPIN};
    return with_shadow ? block_shadow_open(&o, out, e) : block_file_open(&o, out, e);
}

static int open_block(const struct tram_cluster *c, uint32_t host, void (*over)(void *ctx),
                      void *ctx, struct block **out, char *dir, size_t bytes, struct err *e)
{
    int rc = api_disk_path(c, host, dir, bytes, e);
    return rc == 0 ? open_files(c, dir, over, ctx, out, e) : rc;
}

/* Its name is durable, too: or all that was kept in it might be gone with it. */
static int flush_parent(const char *path, struct err *e)
{
    char parent[1024];
    const char *end = strrchr(path, '/');
    int n = end == NULL ? 0 : end == path ? 1 : (int)(end - path);
    snprintf(parent, sizeof(parent), "%.*s", n ? n : 1, n ? path : ".");
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : err_sys(e, "flush %s", parent);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Its parents, too: DATA is made with the first host. */
static int make_directory(const char *path, struct err *e)
{
    char part[1024];
    int rc = 0;
    for (const char *at = strchr(path + 1, '/'); rc == 0; at = strchr(at + 1, '/')) {
        int n = at ? (int)(at - path) : (int)strlen(path);
        snprintf(part, sizeof(part), "%.*s", n, path);
        if (mkdir(part, 0700) == 0)
            rc = flush_parent(part, e);
        else if (errno != EEXIST)
            rc = err_sys(e, "make directory %s", part);
        if (at == NULL)
            break;
    }
    return rc;
}

int api_disk_block(const struct tram_cluster *c, const char *dir, void (*over)(void *ctx),
                   void *ctx, struct block **out, struct err *e)
{
    int rc = make_directory(dir, e);
    return rc == 0 ? open_files(c, dir, over, ctx, out, e) : rc;
}

/* What a format that was killed has left, and what file systems put there, is nothing. */
static bool is_nothing(const char *name)
{
    static const char tmp[] = ".tmp";
    size_t n = strlen(name);
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "lost+found") == 0 ||
           (n > sizeof(tmp) && strcmp(name + n - (sizeof(tmp) - 1), tmp) == 0);
}

/* ERR_NOTFOUND: the directory is not there, or is empty. 0: it has something, of which *name is one. */
static int look_into(const char *dir, char *name, size_t bytes, struct err *e)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;
    int rc = ERR_NOTFOUND;
    if (d == NULL)
        return errno == ENOENT ? err_set(e, ERR_NOTFOUND, "there is no %s", dir)
                               : err_sys(e, "open %s", dir);
    while (rc != 0 && (entry = readdir(d)) != NULL)
        if (!is_nothing(entry->d_name)) {
            snprintf(name, bytes, "%s", entry->d_name);
            rc = 0;
        }
    closedir(d);
    return rc == 0 ? 0 : err_set(e, rc, "%s is empty", dir);
}

int api_disk_whose(const struct tram_cluster *c, uint32_t host, struct err *e)
{
    char dir[1024], name[256] = "";
    struct block *b = NULL;
    struct disk_shape shape = api_disk_shape(c, host);
    int rc = api_disk_path(c, host, dir, sizeof(dir), e);
    if (rc == 0)
        rc = look_into(dir, name, sizeof(name), e);
    if (rc == 0)
        rc = open_block(c, host, NULL, NULL, &b, dir, sizeof(dir), e);
    if (rc == 0)
        rc = disk_whose(b, &shape, e);
    if (b && rc == ERR_NOTFOUND)
        rc = err_set(e, ERR_INVALID, "%s is not empty, and no directory of a host: it has %s", dir,
                     name);
    block_close(b);
    return rc;
}

static int write_initial(const struct tram_cluster *c, uint32_t host, struct block *b,
                         const struct api_disk_source *from, struct err *e)
{
    struct disk_shape shape = api_disk_shape(c, host);
    int rc = 0;
    for (uint32_t g = 0; g < c->conf->groups && rc == 0; g++) {
        bool here = false;
        for (uint32_t q = 0; q < c->group[g].replicas; q++)
            here |= c->group[g].nodes[q] == host;
        if (!here)
            continue;
        rc = from->open(from->ctx, g, e);
        if (rc != 0)
            break;
        rc = disk_initial_write(b, &shape, g, from->next, from->ctx, e);
        from->close(from->ctx);
    }
    if (rc != 0)
        disk_initial_drop(b, &shape);
    return rc;
}

/* from: NULL: groups begin with nothing. */
static int make_host(const struct tram_cluster *c, uint32_t host, uint32_t life,
                     const struct api_disk_source *from, struct err *e)
{
    char dir[1024] = "";
    struct block *b = NULL;
    struct disk_shape shape = api_disk_shape(c, host);
    int rc = api_disk_path(c, host, dir, sizeof(dir), e);
    if (rc == 0)
        rc = api_disk_whose(c, host, e);
    if (rc == 0)
        return err_set(e, ERR_EXISTS, "%s is there already, with what host %s keeps", dir,
                       c->conf->host[host].name);
    if (rc != ERR_NOTFOUND)
        return rc;
    rc = make_directory(dir, e);
    if (rc == 0)
        rc = open_block(c, host, NULL, NULL, &b, dir, sizeof(dir), e);
    if (rc == 0 && from)
        rc = write_initial(c, host, b, from, e);
    if (rc == 0)
        rc = disk_format(b, &shape, life, e);
    block_close(b);
    return rc;
}

int api_disk_format(const struct tram_cluster *c, uint32_t host, uint32_t life, struct err *e)
{
    if (life == 0 && !cluster_id_is_none(c->conf->restored))
        return err_set(e, ERR_INVALID,
                       "the cluster begins with a backup (restored: %s): `tram restore` makes its "
                       "directories",
                       cluster_id_text(c->conf->restored).s);
    return make_host(c, host, life, NULL, e);
}

int api_disk_restore(const struct tram_cluster *c, uint32_t host,
                     const struct api_disk_source *from, struct err *e)
{
    return make_host(c, host, 0, from, e);
}

int tram_host_format(const struct tram_cluster *c, const char *name, struct tram_error *error)
{
    struct err e = {""};
    int host = name ? cluster_host(c->conf, name) : -1;
    int rc = 0;
    if (host < 0)
        rc = err_set(&e, ERR_NOTFOUND, "there is no host '%s' in cluster %s; %s", name ? name : "",
                     c->conf->name, cluster_hosts_near(c->conf, name ? name : "").s);
    else if (!cluster_has_disks(c->conf))
        rc = err_set(&e, ERR_INVALID, "cluster %s is not durable: host %s keeps nothing",
                     c->conf->name, name);
    else
        rc = api_disk_format(c, (uint32_t)host, 0, &e);
    return rc == 0 ? TRAM_OK : api_error(error, rc, &e);
}

int api_disk_look_open(const struct tram_cluster *c, uint32_t host, struct block **b,
                       struct disk **d, struct err *e)
{
    char dir[1024];
    struct disk_shape has, wants = api_disk_shape(c, host);
    *b = NULL;
    int rc = open_block(c, host, NULL, NULL, b, dir, sizeof(dir), e);
    if (rc == 0)
        rc = disk_whose(*b, &wants, e);
    if (rc == 0)
        rc = disk_look_open(*b, &has, d, e);
    if (rc != 0) {
        block_close(*b);
        *b = NULL;
    }
    return rc;
}

static int no_directory(const struct tram_cluster *c, uint32_t host, const char *dir, struct err *e)
{
    const char *name = c->conf->host[host].name;
    return err_set(
        e, ERR_NOTFOUND,
        "host %s has nothing in %s: if it has never run, `tram format %s -c %s` makes it; "
        "if its disk was lost, `tram format --rejoin %s -c %s`",
        name, dir, name, c->file, name, c->file);
}

#define BATCH_BYTES (UINT64_C(4) << 20) /* as a disk has it that is told nothing */
#define SEGMENT_BYTES_MIN (UINT64_C(16) << 20)
#define SEGMENT_BYTES_MAX (UINT64_C(64) << 20)

/* A batch may have to take all of a log's ring (log_restore), and what else it has besides; and a segment two of them. */
static void fit_batches(struct disk_options *o, uint64_t log_bytes, uint64_t segment)
{
    if (o->batch_bytes == 0 && log_bytes > BATCH_BYTES / 2)
        o->batch_bytes = log_bytes + BATCH_BYTES;
    if (o->segment_bytes == 0)
        o->segment_bytes = max_u64(segment, 2 * o->batch_bytes);
}

/* Some segments are spare, and a state is saved when half of the others are in use. What is left must be more than the next segment, or
 * nothing is kept before that state is there: a small journal has smaller ones. */
static void fit_log(struct disk_options *o, uint64_t log_bytes)
{
    const uint64_t segments = 16;
    uint64_t segment = SEGMENT_BYTES_MAX;
    while (segments * segment > o->bytes && segment > SEGMENT_BYTES_MIN)
        segment /= 2;
    fit_batches(o, log_bytes, segment);
}

/* Views are few and small, and there is a new state of them often. */
static void fit_views(struct disk_options *o, const struct cluster *f)
{
    const uint64_t segments = 8;
    fit_batches(o, keeper_log_bytes(f->hosts, cluster_cells(f)), SEGMENT_BYTES_MIN);
    if (o->bytes == 0)
        o->bytes = segments * o->segment_bytes;
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
    if (c->conf->protocol == CLUSTER_GROUP)
        fit_views(&o, c->conf);
    else if (o.bytes == 0)
        o.bytes = c->conf->disk_bytes;
    if (c->conf->protocol != CLUSTER_GROUP)
        fit_log(&o, c->sizes.log_bytes);
    rc = disk_open(&o, &d->disk, e);
    if (rc == ERR_NOTFOUND)
        return no_directory(c, host, dir, e);
    if (rc != 0) {
        struct err why = *e;
        return err_set(e, rc, "host %s, %s: %s", c->conf->host[host].name, dir, why.text);
    }
    see_places(c, d);
    uint32_t beyond = groups_beyond(c, d->disk);
    d->lives = (struct mem_lives){.ctx = d,
                                  .life = disk_life(d->disk),
                                  .rejoined = beyond == groups_of(c),
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

static enum tram_disk_state state_of(enum disk_health health)
{
    static const enum tram_disk_state states[] = {[DISK_OK] = TRAM_DISK_OK,
                                                  [DISK_SLOW] = TRAM_DISK_SLOW,
                                                  [DISK_FULL] = TRAM_DISK_FULL,
                                                  [DISK_NO_ROOM] = TRAM_DISK_NO_ROOM};
    return states[health];
}

void api_disk_stats(const struct disk *d, struct tram_disk_stats *out)
{
    struct disk_status s;

    disk_status(d, &s);
    *out = (struct tram_disk_stats){
        .state = state_of(s.health),
        .journal_bytes = s.journal_bytes,
        .journal_bytes_max = s.journal_bytes_max,
        .flush_p50_ns = s.flush_p50_ns,
        .flush_p99_ns = s.flush_p99_ns,
        .waiting_bytes = s.waiting_bytes,
        .writes = s.batches,
        .written_bytes = s.bytes,
    };
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
