/* What is done to the disks of hosts while they are down. */
#include "power.h"

#include "api/api.h"
#include "api/disk.h"
#include "disk/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_MAX_BYTES = 1024,
    NEAR = 400, /* batches before the last: what is older does not count any more, most of it */
    NEXT = 3,   /* likewise, and close to what was under way when the power went */
    FLIPS_MAX = 8,
};

static bool failed(const char *what, uint32_t host, const struct err *e)
{
    printf("# %s of host %u: %s\n", what, host + 1, e->text);
    return false;
}

bool power_format(struct power *t, uint32_t host, uint32_t life)
{
    struct err e = {""};
    return api_disk_format(t->cluster, host, life, &e) == 0 || failed("format", host, &e);
}

bool power_cut(struct power *t, uint32_t host)
{
    char dir[PATH_MAX_BYTES];
    struct err e = {""};
    int rc = api_disk_path(t->cluster, host, dir, sizeof(dir), &e);
    if (rc == 0)
        rc = block_shadow_cut(dir, rng_u64(&t->rng), &e);
    return rc == 0 || failed("cut", host, &e);
}

static bool remove_dir(const char *dir)
{
    char command[PATH_MAX_BYTES + 16];
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command) == 0;
}

bool power_reboot(struct power *t)
{
    char dir[PATH_MAX_BYTES];
    struct err e = {""};
    if (t->opt.keep_runtime)
        return true;
    int rc = api_directory(t->cluster, dir, sizeof(dir), &e);
    return rc == 0 ? remove_dir(dir) : failed("runtime directory", 0, &e);
}

bool power_lose(struct power *t, uint32_t host)
{
    char dir[PATH_MAX_BYTES];
    struct err e = {""};
    int rc = api_disk_path(t->cluster, host, dir, sizeof(dir), &e);
    if (rc != 0 || !remove_dir(dir))
        return failed("removal", host, &e);
    t->sound = false;
    memset(t->stays, 0, sizeof(t->stays));
    return power_format(t, host, t->starts[host] + 1);
}

/* Reads what the directory has; false: it cannot be read. */
static bool look(struct power *t, uint32_t host, void (*at)(const struct disk *, void *ctx),
                 void *ctx)
{
    char dir[PATH_MAX_BYTES];
    struct block_file_options o = {.dir = dir};
    struct block *b = NULL;
    struct disk *d;
    struct disk_shape shape;
    struct err e = {""};
    bool good = api_disk_path(t->cluster, host, dir, sizeof(dir), &e) == 0 &&
                block_file_open(&o, &b, &e) == 0 && disk_look_open(b, &shape, &d, &e) == 0;
    if (good) {
        disk_snaps_check(d);
        at(d, ctx);
    } else {
        failed("look", host, &e);
    }
    block_close(b);
    if (good)
        disk_close(d);
    return good;
}

static void are_whole(const struct disk *d, void *ctx)
{
    bool *whole = ctx;
    for (uint32_t g = 0; g < POWER_GROUPS; g++) {
        enum disk_state state = disk_found(d, g)->state;
        *whole &= state == DISK_WHOLE || state == DISK_NEW;
    }
}

bool power_is_whole(struct power *t, uint32_t host)
{
    bool whole = true;
    return look(t, host, are_whole, &whole) && whole;
}

/* ---- damage ---- */

/* A batch that was found in a segment. */
struct spot {
    uint32_t segment;
    uint64_t at, bytes, number;
};

struct spots {
    struct spot *spot;
    uint32_t count, room;
    uint64_t last; /* number of the last batch of all */
};

struct path {
    char text[PATH_MAX_BYTES + 32];
};

static struct path segment_path(const char *dir, uint32_t segment)
{
    struct path p;
    snprintf(p.text, sizeof(p.text), "%s/" SEGMENT_PREFIX "%05u", dir, segment);
    return p;
}

static unsigned char *read_whole(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return NULL;
    *bytes = (size_t)st.st_size;
    unsigned char *data = aligned_alloc(BLOCK_BYTES, (*bytes + BLOCK_BYTES) & ~(size_t)4095);
    if (data && read(fd, data, *bytes) != st.st_size) {
        free(data);
        data = NULL;
    }
    close(fd);
    return data;
}

static void add_spot(struct spots *s, uint32_t segment, uint64_t at, const struct batch_header *h)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->spot = realloc(s->spot, s->room * sizeof(*s->spot));
        CHECK(s->spot != NULL);
    }
    s->spot[s->count++] =
        (struct spot){.segment = segment, .at = at, .bytes = h->bytes, .number = h->number};
    s->last = h->number > s->last ? h->number : s->last;
}

static void look_for_batches(struct spots *s, const char *dir, uint32_t segment,
                             const unsigned char *journal)
{
    struct scan_batch b;
    size_t bytes = 0;
    unsigned char *data = read_whole(segment_path(dir, segment).text, &bytes);
    for (uint64_t at = 0; data && at < bytes;) {
        bool is_one = scan_batch(data + at, bytes - at, journal, POWER_GROUPS, &b);
        if (is_one)
            add_spot(s, segment, at, b.header);
        at += is_one ? b.header->bytes : BLOCK_BYTES;
    }
    free(data);
}

static bool find_batches(struct spots *s, const char *dir)
{
    char path[PATH_MAX_BYTES + 8];
    const struct dirent *entry;
    bool later;
    size_t bytes = 0;
    uint32_t number;
    snprintf(path, sizeof(path), "%s/%s", dir, HOST_NAME);
    unsigned char *host = read_whole(path, &bytes);
    const struct slot *slot = host ? scan_host(host, &later) : NULL;
    DIR *d = opendir(dir);
    while (slot && d && (entry = readdir(d)) != NULL)
        if (scan_segment_name(entry->d_name, &number))
            look_for_batches(s, dir, number, slot->journal);
    if (d)
        closedir(d);
    free(host);
    return slot != NULL;
}

static bool flip(struct rng *rng, const char *path, uint64_t from, uint64_t bytes)
{
    unsigned char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool good = fd >= 0;
    for (uint64_t n = rng_range(rng, 1, FLIPS_MAX); good && n > 0; n--) {
        off_t at = (off_t)(from + rng_below(rng, bytes));
        good = pread(fd, &byte, 1, at) == 1;
        byte ^= (unsigned char)(1 << rng_below(rng, 8));
        good = good && pwrite(fd, &byte, 1, at) == 1;
    }
    if (fd >= 0)
        close(fd);
    return good;
}

/* What was written last would look as if it was torn, and a tail that is torn may go: that is not covered. */
static const struct spot *draw_spot(struct spots *s, struct rng *rng)
{
    uint32_t stay = 0;
    uint64_t near = rng_below(rng, 4) == 0 ? NEXT : NEAR;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->spot[i].number < s->last && s->spot[i].number + near > s->last)
            s->spot[stay++] = s->spot[i];
    return stay ? &s->spot[rng_below(rng, stay)] : NULL;
}

static bool damage_journal(struct rng *rng, const char *dir)
{
    struct spots s = {0};
    bool good = find_batches(&s, dir);
    const struct spot *p = good ? draw_spot(&s, rng) : NULL;
    if (p != NULL)
        good = flip(rng, segment_path(dir, p->segment).text, p->at, p->bytes);
    free(s.spot);
    return good;
}

/* One of the two. */
static bool damage_slot(struct rng *rng, const char *dir)
{
    struct path p;
    snprintf(p.text, sizeof(p.text), "%s/" HOST_NAME, dir);
    return flip(rng, p.text, rng_below(rng, SLOTS) * SLOT_BYTES, SLOT_BYTES);
}

/* Any that is there; there may be none. */
static bool damage_snapshot(struct rng *rng, const char *dir)
{
    const struct dirent *entry;
    struct path p = {""};
    uint32_t group, seen = 0;
    uint64_t pos;
    struct stat st;
    DIR *d = opendir(dir);
    while (d && (entry = readdir(d)) != NULL)
        if (scan_snap_name(entry->d_name, &group, &pos) && rng_below(rng, ++seen) == 0)
            snprintf(p.text, sizeof(p.text), "%s/" SNAP_PREFIX "%u.%llu", dir, group,
                     (unsigned long long)pos);
    if (d)
        closedir(d);
    return seen == 0 || (stat(p.text, &st) == 0 && flip(rng, p.text, 0, (uint64_t)st.st_size));
}

bool power_damage(struct power *t, uint32_t host)
{
    char dir[PATH_MAX_BYTES];
    struct err e = {""};
    uint64_t what = rng_below(&t->rng, 8);
    bool good = api_disk_path(t->cluster, host, dir, sizeof(dir), &e) == 0;
    t->sound = false;
    if (good)
        good = what == 0   ? damage_slot(&t->rng, dir)
               : what == 1 ? damage_snapshot(&t->rng, dir)
                           : damage_journal(&t->rng, dir);
    return good || failed("damage", host, &e);
}
