#include "disk/block_sim.h"

#include "base/grow.h"
#include "base/minmax.h"
#include "disk/block_sim_impl.h"

#include <stdio.h>
#include <string.h>

enum {
    MILLION = 1000000, /* a chance is so many in a million */
    FLUSH_NS_MIN = 50000,
    FLUSH_NS_MAX = 200000,
    TEXT_BYTES = 160,
};

struct lane {
    bool busy;
    uint64_t over_ns;
    uint32_t count;
    struct block_step steps[BLOCK_STEPS_MAX];
};

struct disk_sim {
    struct block block; /* what a process has of it */
    struct disk_sim_options o;
    struct rng rng;
    uint64_t slow_ns; /* 0: it is not */
    uint32_t fails;   /* the so-manieth order that ends does; 0: none */
    uint64_t failures;

    struct sim_dir dir;

    const uint64_t *now_ns; /* of the process that has the disk; NULL: nobody has it */
    struct lane lanes[BLOCK_LANES];
    bool failed;
    char failure[TEXT_BYTES];
};

static struct disk_sim *sim_of(struct block *b)
{
    return (struct disk_sim *)b;
}

/* All, nothing, or any share between. */
static uint32_t draw_ppm(struct disk_sim *d)
{
    uint64_t kind = rng_below(&d->rng, 4);
    uint64_t share = rng_below(&d->rng, MILLION + 1);

    return kind == 0 ? 0 : kind == 1 ? MILLION : (uint32_t)share;
}

uint64_t disk_sim_bytes(const struct disk_sim *d)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < d->dir.cache.count; i++)
        sum += d->dir.cache.entries[i].file->bytes;
    return sum;
}

/* ---- orders ---- */

static bool has_room(const struct disk_sim *d, uint64_t bytes)
{
    /* A cut may bring back more than there is room for. */
    return bytes == 0 || d->o.bytes_max == 0 || disk_sim_bytes(d) + bytes <= d->o.bytes_max;
}

static uint64_t room_for(const struct block_step *s, const struct sim_file *f)
{
    CHECK(s->act != BLOCK_GROW || s->bytes >= f->bytes);
    if (s->act == BLOCK_GROW)
        return s->bytes - f->bytes;
    return s->act == BLOCK_CREATE ? s->bytes : 0;
}

/* The step that is no write, in the cache. */
static bool do_names(struct disk_sim *d, const struct block_step *s)
{
    struct sim_file *f = sim_dir_find(&d->dir, s->name);

    CHECK(f != NULL || s->act == BLOCK_CREATE || s->act == BLOCK_REMOVE);
    if (!has_room(d, room_for(s, f)))
        return false;
    if (s->act == BLOCK_CREATE)
        f = sim_dir_make(&d->dir, s->bytes);
    if (s->act == BLOCK_GROW)
        sim_file_grow(f, s->bytes);
    else if (f)
        sim_dir_change(&d->dir, s, f);
    return true;
}

static struct sim_file *written(const struct disk_sim *d, const struct block_step *s)
{
    struct sim_file *f = sim_dir_find(&d->dir, s->name);

    CHECK(f != NULL && s->at <= f->bytes && s->bytes <= f->bytes - s->at);
    return f;
}

static enum block_status do_steps(struct disk_sim *d, const struct lane *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct block_step *s = &l->steps[i];
        if (s->act != BLOCK_WRITE) {
            if (!do_names(d, s))
                return BLOCK_NO_ROOM;
            if (s->act == BLOCK_GROW)
                sim_file_flush(sim_dir_find(&d->dir, s->name));
            continue;
        }
        struct sim_file *f = written(d, s);
        sim_file_flush(f);
        sim_file_put(f, s->at, s->data, s->bytes);
    }
    return BLOCK_DONE;
}

static bool changes_names(const struct lane *l)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (l->steps[i].act != BLOCK_WRITE && l->steps[i].act != BLOCK_GROW)
            return true;
    return false;
}

static void flush_all(struct disk_sim *d)
{
    for (uint32_t i = 0; i < d->dir.file_count; i++)
        sim_file_flush(d->dir.files[i]);
    sim_dir_flush(&d->dir);
}

static enum block_status complete(struct disk_sim *d, struct lane *l)
{
    enum block_status status = do_steps(d, l);

    if (l->count == 0)
        flush_all(d);
    else if (changes_names(l))
        sim_dir_flush(&d->dir);
    l->busy = false;
    return status;
}

/* A process dies: the steps up to a drawn one are in the cache, and the first sectors of that one. Often it is nothing, or all. */
static void leave_half_done(struct disk_sim *d, struct lane *l)
{
    uint64_t kind = rng_below(&d->rng, 4);
    uint64_t steps = rng_below(&d->rng, l->count + 1u);

    l->busy = false;
    if (kind == 0)
        return;
    if (kind == 1)
        steps = l->count;
    for (uint32_t i = 0; i < l->count && i <= steps; i++) {
        const struct block_step *s = &l->steps[i];
        uint64_t sectors = s->act == BLOCK_WRITE ? s->bytes / BLOCK_SECTOR_BYTES : 0;
        uint64_t part = rng_below(&d->rng, sectors + 1);
        if (s->act == BLOCK_WRITE)
            sim_file_cache(written(d, s), s->at, s->data,
                           i < steps ? s->bytes : part * BLOCK_SECTOR_BYTES);
        else if (i < steps && !do_names(d, s))
            break;
    }
}

/* Any of its steps are done, and of a write any sectors are on the platters: those that could not be written the system drops. */
static void leave_any(struct disk_sim *d, struct lane *l)
{
    uint32_t ppm = draw_ppm(d);

    for (uint32_t i = 0; i < l->count; i++) {
        const struct block_step *s = &l->steps[i];
        struct sim_file *f = sim_dir_find(&d->dir, s->name);
        if (s->act == BLOCK_WRITE) {
            if (f)
                sim_file_lose(f, &d->rng, ppm);
            if (!f || s->at > f->bytes || s->bytes > f->bytes - s->at)
                continue; /* what was to be made before it was not */
            sim_file_scatter(f, &d->rng, ppm, s->at, s->data, s->bytes);
        } else if (rng_chance_ppm(&d->rng, ppm) && (f || s->act == BLOCK_CREATE)) {
            do_names(d, s);
        }
    }
    l->busy = false;
}

static enum block_status fail(struct disk_sim *d, struct lane *l)
{
    snprintf(d->failure, sizeof d->failure, "flush %s: Input/output error",
             l->count > 0 ? l->steps[0].name : "all");
    d->failed = true;
    d->failures++;
    leave_any(d, l);
    for (int i = 0; i < BLOCK_LANES; i++)
        if (d->lanes[i].busy)
            leave_half_done(d, &d->lanes[i]);
    return BLOCK_FAILED;
}

static enum block_status finish(struct disk_sim *d, struct lane *l)
{
    return d->fails > 0 && --d->fails == 0 ? fail(d, l) : complete(d, l);
}

/* ---- what a process sees ---- */

static bool same_name(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool touches(const struct lane *l, const char *name)
{
    for (uint32_t i = 0; l->busy && i < l->count; i++)
        if (same_name(l->steps[i].name, name) ||
            (l->steps[i].act == BLOCK_RENAME && same_name(l->steps[i].to, name)))
            return true;
    return false;
}

static void check_apart(const struct disk_sim *d, const struct block_step *s)
{
    for (int i = 0; i < BLOCK_LANES; i++) {
        CHECK(!touches(&d->lanes[i], s->name));
        CHECK(s->act != BLOCK_RENAME || !touches(&d->lanes[i], s->to));
    }
}

static uint64_t draw_flush_ns(struct disk_sim *d)
{
    uint64_t ns = rng_range(&d->rng, d->o.flush_ns_min, d->o.flush_ns_max);

    return d->slow_ns ? d->slow_ns : ns;
}

static void sim_begin(struct block *b, enum block_lane lane, const struct block_step *steps,
                      uint32_t count)
{
    struct disk_sim *d = sim_of(b);
    struct lane *l = &d->lanes[lane];

    CHECK(d->now_ns != NULL && !l->busy);
    if (d->failed)
        return;
    for (uint32_t i = 0; i < count; i++) {
        check_apart(d, &steps[i]);
        l->steps[i] = steps[i];
    }
    l->count = count;
    l->over_ns = *d->now_ns + draw_flush_ns(d);
    l->busy = true;
}

static enum block_status sim_poll(struct block *b, enum block_lane lane)
{
    struct disk_sim *d = sim_of(b);
    struct lane *l = &d->lanes[lane];

    CHECK(d->now_ns != NULL);
    if (d->failed)
        return BLOCK_FAILED;
    if (!l->busy)
        return BLOCK_FREE;
    return *d->now_ns < l->over_ns ? BLOCK_BUSY : finish(d, l);
}

/* Time stands still for who waits. */
static void sim_wait(struct block *b, enum block_lane lane)
{
    struct disk_sim *d = sim_of(b);

    d->lanes[lane].over_ns = *d->now_ns;
}

static int sim_list(struct block *b, void (*fn)(void *ctx, const char *name, uint64_t bytes),
                    void *ctx, struct err *e)
{
    const struct sim_names *n = &sim_of(b)->dir.cache;

    (void)e;
    for (uint32_t i = 0; i < n->count; i++)
        fn(ctx, n->entries[i].name, n->entries[i].file->bytes);
    return 0;
}

static int check_range(const char *name, uint64_t end, uint64_t at, uint64_t bytes, struct err *e)
{
    if (at > end || bytes > end - at)
        return err_set(e, ERR_CORRUPT, "read %s at %llu: it ends at %llu", name,
                       (unsigned long long)at, (unsigned long long)end);
    return 0;
}

static int sim_read(struct block *b, const char *name, uint64_t at, void *into, uint64_t bytes,
                    struct err *e)
{
    const struct disk_sim *d = sim_of(b);
    const struct sim_file *f = sim_dir_find(&d->dir, name);

    for (int i = 0; i < BLOCK_LANES; i++)
        CHECK(!touches(&d->lanes[i], name));
    if (!f)
        return err_set(e, ERR_NOTFOUND, "read %s: there is no such file", name);
    int rc = check_range(name, f->bytes, at, bytes, e);
    if (rc < 0)
        return rc;
    sim_file_read(f, at, into, bytes);
    return 0;
}

static const char *sim_failure(struct block *b)
{
    return sim_of(b)->failure;
}

/* The lane whose order ends first, if that is by then. */
static struct lane *first_over(struct disk_sim *d, uint64_t until_ns)
{
    struct lane *first = NULL;

    for (int i = 0; i < BLOCK_LANES; i++) {
        struct lane *l = &d->lanes[i];
        if (l->busy && l->over_ns <= until_ns && (!first || l->over_ns < first->over_ns))
            first = l;
    }
    return first;
}

static void release(struct disk_sim *d, uint64_t until_ns)
{
    struct lane *l;

    CHECK(d->now_ns != NULL);
    while ((l = first_over(d, until_ns)) != NULL)
        finish(d, l);
    for (int i = 0; i < BLOCK_LANES; i++)
        if (d->lanes[i].busy)
            leave_half_done(d, &d->lanes[i]);
    d->now_ns = NULL;
    d->failed = false;
}

static void sim_close(struct block *b)
{
    release(sim_of(b), UINT64_MAX);
}

static const struct block_ops sim_ops = {
    .begin = sim_begin,
    .poll = sim_poll,
    .list = sim_list,
    .read = sim_read,
    .failure = sim_failure,
    .wait = sim_wait,
    .close = sim_close,
};

struct block *disk_sim_block(struct disk_sim *d, const uint64_t *now_ns)
{
    CHECK(d->now_ns == NULL && now_ns != NULL);
    d->now_ns = now_ns;
    return &d->block;
}

void disk_sim_die(struct disk_sim *d)
{
    release(d, *d->now_ns);
}

uint64_t disk_sim_next_ns(const struct disk_sim *d)
{
    uint64_t next = UINT64_MAX;

    for (int i = 0; i < BLOCK_LANES; i++)
        if (d->lanes[i].busy)
            next = min_u64(next, d->lanes[i].over_ns);
    return next;
}

/* ---- what happens to the disk ---- */

struct disk_sim *disk_sim_open(const struct disk_sim_options *o)
{
    struct disk_sim *d = grow("a simulated disk", NULL, sizeof *d, 1);

    *d = (struct disk_sim){.block = {&sim_ops}, .o = *o};
    if (o->flush_ns_min == 0 && o->flush_ns_max == 0) {
        d->o.flush_ns_min = FLUSH_NS_MIN;
        d->o.flush_ns_max = FLUSH_NS_MAX;
    }
    CHECK(d->o.flush_ns_min <= d->o.flush_ns_max);
    rng_init(&d->rng, o->seed);
    return d;
}

void disk_sim_wipe(struct disk_sim *d)
{
    CHECK(d->now_ns == NULL);
    sim_dir_wipe(&d->dir);
    d->fails = 0;
    d->slow_ns = 0;
    d->o.bytes_max = 0;
}

void disk_sim_close(struct disk_sim *d)
{
    if (!d)
        return;
    sim_dir_fini(&d->dir);
    grow_free(d);
}

void disk_sim_power_cut(struct disk_sim *d)
{
    uint32_t ppm = draw_ppm(d);

    CHECK(d->now_ns == NULL);
    for (uint32_t i = 0; i < d->dir.file_count; i++)
        sim_file_lose(d->dir.files[i], &d->rng, ppm);
    sim_dir_lose(&d->dir, &d->rng, draw_ppm(d));
}

void disk_sim_slow(struct disk_sim *d, uint64_t flush_ns)
{
    d->slow_ns = flush_ns;
}

void disk_sim_limit(struct disk_sim *d, uint64_t bytes_max)
{
    d->o.bytes_max = bytes_max;
}

void disk_sim_fail(struct disk_sim *d)
{
    disk_sim_fail_later(d, 1);
}

void disk_sim_fail_later(struct disk_sim *d, uint32_t orders)
{
    d->fails = orders;
}

uint64_t disk_sim_failures(const struct disk_sim *d)
{
    return d->failures;
}

/* ---- the platters ---- */

int disk_sim_platter(struct disk_sim *d, const char *name, uint64_t at, void *into, uint64_t bytes)
{
    const struct sim_file *f = sim_dir_find_kept(&d->dir, name);
    int rc = f ? check_range(name, f->kept_bytes, at, bytes, NULL) : ERR_NOTFOUND;

    if (rc == 0)
        sim_file_get(f, at, into, bytes);
    return rc;
}

void disk_sim_platter_list(const struct disk_sim *d,
                           void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx)
{
    for (uint32_t i = 0; i < d->dir.platter.count; i++)
        fn(ctx, d->dir.platter.entries[i].name, d->dir.platter.entries[i].file->kept_bytes);
}

static void flip(struct disk_sim *d, struct sim_file *f, uint64_t at)
{
    sim_file_block(f, at)[at % BLOCK_BYTES] ^= (unsigned char)(1u << rng_below(&d->rng, 8));
}

bool disk_sim_flip(struct disk_sim *d, const char *name, uint64_t at)
{
    struct sim_file *f = sim_dir_find_kept(&d->dir, name);

    if (!f || at >= f->kept_bytes)
        return false;
    flip(d, f, at);
    return true;
}

/* Blocks of the file that were ever written; *nth counts down over them, and the flip is where it ends. */
static bool flip_nth(struct disk_sim *d, struct sim_file *f, uint64_t *nth)
{
    for (uint64_t i = 0; i < f->kept_bytes / BLOCK_BYTES; i++)
        if (f->blocks[i] && (*nth)-- == 0) {
            flip(d, f, i * BLOCK_BYTES + rng_below(&d->rng, BLOCK_BYTES));
            return true;
        }
    return false;
}

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

bool disk_sim_flip_any(struct disk_sim *d, const char *prefix)
{
    const struct sim_names *n = &d->dir.platter;
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < n->count; i++)
        if (begins(n->entries[i].name, prefix))
            blocks += sim_file_written(n->entries[i].file);
    if (blocks == 0)
        return false;
    uint64_t nth = rng_below(&d->rng, blocks);
    for (uint32_t i = 0; i < n->count; i++)
        if (begins(n->entries[i].name, prefix) && flip_nth(d, n->entries[i].file, &nth))
            return true;
    return false;
}
