/* A disk on a simulated one, stepped by hand: for tests of one thing at a time. */
#ifndef TESTS_DISK_FIXTURE_H
#define TESTS_DISK_FIXTURE_H

#include "disk/block_sim.h"
#include "disk/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
    FIX_GROUPS = 3,
    FIX_HOSTS = 3,
    FIX_PLACES = 8,
    FIX_SEGMENT_BYTES = 65536,
    FIX_SEGMENTS = 6,
    FIX_ROUNDS_MAX = 20000,
};

struct disk_fix {
    struct disk_sim *sim;
    uint64_t now;
    struct block *block;
    struct disk *d;
    struct disk_options o;
    struct disk_says says[FIX_GROUPS];
};

static inline void fix_init(struct disk_fix *f, uint64_t bytes_max)
{
    struct disk_sim_options s = {.seed = 1, .bytes_max = bytes_max};

    memset(f, 0, sizeof *f);
    f->sim = disk_sim_open(&s);
    f->o = (struct disk_options){
        .shape = {.host = "h1", .groups = FIX_GROUPS, .hosts = FIX_HOSTS, .clients = FIX_PLACES},
        .bytes = (uint64_t)FIX_SEGMENTS * FIX_SEGMENT_BYTES,
        .segment_bytes = FIX_SEGMENT_BYTES,
        .batch_bytes = 16384,
        .buffer_bytes = 65536};
}

static inline int fix_format(struct disk_fix *f, uint32_t life)
{
    f->block = disk_sim_block(f->sim, &f->now);
    int rc = disk_format(f->block, &f->o.shape, life, NULL);
    block_close(f->block);
    return rc;
}

static inline int fix_try_open(struct disk_fix *f, struct err *e)
{
    f->o.block = f->block = disk_sim_block(f->sim, &f->now);
    int rc = disk_open(&f->o, &f->d, e);
    if (rc < 0) {
        disk_sim_die(f->sim);
        f->d = NULL;
    }
    return rc;
}

static inline void fix_open(struct disk_fix *f)
{
    struct err e = {""};

    if (fix_try_open(f, &e) < 0)
        fail_msg("%s", e.text);
}

static inline void fix_die(struct disk_fix *f)
{
    disk_sim_die(f->sim);
    disk_close(f->d);
    f->d = NULL;
}

static inline void fix_fini(struct disk_fix *f)
{
    if (f->d)
        fix_die(f);
    disk_sim_close(f->sim);
}

static inline void fix_round(struct disk_fix *f)
{
    disk_round(f->d, f->now += 100000);
}

static inline void fix_rounds(struct disk_fix *f, uint32_t n)
{
    while (n-- > 0)
        fix_round(f);
}

static inline void fix_until(struct disk_fix *f, uint64_t batch)
{
    for (uint32_t i = 0; disk_done(f->d) < batch; i++) {
        assert_true(i < FIX_ROUNDS_MAX);
        fix_round(f);
    }
}

/* Appends entries of so many bytes at the end of the chain; 0: there is no room, else the batch. */
static inline uint64_t fix_append(struct disk_fix *f, uint32_t group, uint64_t from, uint32_t bytes)
{
    unsigned char *at = disk_reserve(f->d, bytes);
    struct disk_says *s = &f->says[group];

    if (!at)
        return 0;
    memset(at, (int)(from & 255), bytes);
    s->end = from + bytes;
    struct disk_record r = {.kind = DISK_ENTRIES,
                            .group = group,
                            .from = from,
                            .to = from + bytes,
                            .ballot = s->pledge,
                            .says = *s,
                            .bytes = at};
    uint64_t batch = disk_batch(f->d);
    disk_append(f->d, &r);
    return batch;
}

static inline uint64_t fix_pledge(struct disk_fix *f, uint32_t group)
{
    f->says[group].pledge++;
    struct disk_record r = {.kind = DISK_PLEDGE,
                            .group = group,
                            .ballot = f->says[group].pledge,
                            .says = f->says[group]};
    uint64_t batch = disk_batch(f->d);
    disk_append(f->d, &r);
    return batch;
}

static inline uint64_t fix_reset(struct disk_fix *f, uint32_t group, uint64_t pos)
{
    struct disk_says *s = &f->says[group];

    assert_non_null(disk_reserve(f->d, 0));
    s->end = s->commit = s->applied = pos;
    struct disk_record r = {.kind = DISK_RESET, .group = group, .from = pos, .to = pos, .says = *s};
    uint64_t batch = disk_batch(f->d);
    disk_append(f->d, &r);
    return batch;
}

/* A snapshot of so many bytes, each the low byte of the position; returns when it is durable. */
static inline void fix_snap(struct disk_fix *f, uint32_t group, uint64_t pos, uint32_t bytes)
{
    unsigned char piece[5000];

    memset(piece, (int)(pos & 255), sizeof piece);
    assert_true(disk_snap_open(f->d, group, pos));
    for (uint32_t at = 0, i = 0; at < bytes; i++) {
        uint32_t n = bytes - at < sizeof piece ? bytes - at : (uint32_t)sizeof piece;
        at += disk_snap_put(f->d, piece, n);
        fix_round(f);
        assert_true(i < FIX_ROUNDS_MAX);
    }
    disk_snap_end(f->d, true);
    for (uint32_t i = 0; disk_snap_busy(f->d); i++) {
        fix_round(f);
        assert_true(i < FIX_ROUNDS_MAX);
    }
}

/* Flips a bit of the batch with that number, in its header. */
static inline void fix_flip_batch(struct disk_fix *f, uint64_t number, const unsigned char *journal)
{
    static _Alignas(8) unsigned char image[FIX_SEGMENT_BYTES];
    struct scan_batch b;
    char name[BLOCK_NAME_BYTES];
    uint64_t where;

    for (uint32_t i = 1; i <= 4; i++) {
        snprintf(name, sizeof name, SEGMENT_PREFIX "%05u", i);
        if (disk_sim_platter(f->sim, name, 0, image, sizeof image) == 0 &&
            scan_find(image, sizeof image, 0, journal, FIX_GROUPS, number, number, &b, &where)) {
            assert_true(disk_sim_flip(f->sim, name, where + 30));
            return;
        }
    }
    fail_msg("there is no batch %d", (int)number);
}

static inline void fix_journal_id(struct disk_fix *f, unsigned char *id)
{
    static _Alignas(8) unsigned char host[SLOTS * SLOT_BYTES];
    bool later;

    assert_int_equal(disk_sim_platter(f->sim, HOST_NAME, 0, host, sizeof host), 0);
    const struct slot *s = scan_host(host, &later);
    assert_non_null(s);
    memcpy(id, s->journal, DISK_ID_BYTES);
}

#endif
