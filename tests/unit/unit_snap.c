/* Snapshots from one replica to another: saved and loaded in pieces of every size. */
#include "unit/snap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PART_MAX = 100, STATE_MAX = 100 };

/* A protocol and a machine, and what each of them was told. */
struct replica {
    struct snap snap;
    unsigned char part[PART_MAX], state[STATE_MAX];
    uint64_t part_bytes, state_bytes;
    uint64_t state_at; /* loaded so far */
    uint32_t parts_loaded, saves_open;
    uint64_t expected; /* what a load was told of its size */
    bool state_open, loaded, unsized, fails;
};

static uint64_t part_bytes(void *ctx)
{
    const struct replica *r = ctx;
    return r->part_bytes + 3; /* not always as much as it says */
}

static uint64_t part_save(void *ctx, unsigned char *out)
{
    struct replica *r = ctx;
    memcpy(out, r->part, r->part_bytes);
    return r->part_bytes;
}

static bool part_load(void *ctx, const unsigned char *in, uint64_t bytes)
{
    struct replica *r = ctx;
    assert_true(bytes <= PART_MAX);
    assert_false(r->state_open);
    memcpy(r->part, in, bytes);
    r->part_bytes = bytes;
    r->parts_loaded++;
    return true;
}

static void *state_save_open(void *ctx, uint64_t *bytes)
{
    struct replica *r = ctx;
    r->saves_open++;
    r->state_at = 0;
    if (!r->unsized)
        *bytes = r->state_bytes;
    return r;
}

static int state_save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct replica *r = ctx;
    uint64_t left = r->state_bytes - r->state_at, n = left < room ? left : room;
    assert_true(save == r && room > 0);
    memcpy(out, r->state + r->state_at, n);
    r->state_at += n;
    return (int)n;
}

static void state_save_close(void *ctx, void *save)
{
    struct replica *r = ctx;
    assert_true(save == r);
    r->saves_open--;
}

static int state_load_open(void *ctx, uint64_t bytes)
{
    struct replica *r = ctx;
    assert_false(r->state_open);
    r->state_open = true;
    r->expected = bytes;
    r->state_at = 0;
    return r->fails ? -1 : 0;
}

static int state_load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct replica *r = ctx;
    assert_true(r->state_open && r->state_at + bytes <= STATE_MAX);
    memcpy(r->state + r->state_at, data, bytes);
    r->state_at += bytes;
    return 0;
}

static int state_load_close(void *ctx, bool whole)
{
    struct replica *r = ctx;
    assert_true(r->state_open);
    r->state_open = false;
    r->state_bytes = r->state_at;
    r->loaded = whole;
    return 0;
}

static const struct state_ops machine = {
    .save_open = state_save_open,
    .save_next = state_save_next,
    .save_close = state_save_close,
    .load_open = state_load_open,
    .load_next = state_load_next,
    .load_close = state_load_close,
};

static struct replica *replica_open(uint64_t part, uint64_t state_bytes)
{
    struct replica *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    struct snap_options o = {
        .machine = &machine,
        .machine_ctx = r,
        .bytes = part_bytes,
        .save = part_save,
        .load = part_load,
        .ctx = r,
    };
    snap_open(&r->snap, &o);
    r->part_bytes = part;
    r->state_bytes = state_bytes;
    for (uint32_t i = 0; i < PART_MAX; i++)
        r->part[i] = (unsigned char)(1 + i);
    for (uint32_t i = 0; i < STATE_MAX; i++)
        r->state[i] = (unsigned char)(101 + i);
    return r;
}

static void replica_close(struct replica *r)
{
    snap_close(&r->snap);
    free(r);
}

/* Moves up to `until` bytes of a snapshot in pieces of that size; returns how many it said there are. */
static uint64_t move(struct replica *from, struct replica *to, uint32_t piece, uint64_t until)
{
    unsigned char bytes[256];
    uint64_t total = 0, at = 0;
    void *save = snap_ops.save_open(&from->snap, &total);
    assert_non_null(save);
    snap_ops.load_open(&to->snap, 0);
    for (int n = 1; at < until && n > 0; at += (uint64_t)n) {
        memset(bytes, 0xee, sizeof(bytes));
        n = snap_ops.save_next(&from->snap, save, bytes, piece);
        assert_true(n >= 0 && (uint32_t)n <= piece);
        assert_int_equal(bytes[n], 0xee);
        if (n > 0)
            assert_int_equal(snap_ops.load_next(&to->snap, bytes, (uint32_t)n), 0);
    }
    snap_ops.save_close(&from->snap, save);
    return total;
}

static void assert_moved(const struct replica *from, const struct replica *to)
{
    assert_int_equal(to->part_bytes, from->part_bytes);
    assert_memory_equal(to->part, from->part, from->part_bytes);
    assert_int_equal(to->state_bytes, from->state_bytes);
    assert_memory_equal(to->state, from->state, from->state_bytes);
    assert_int_equal(from->saves_open, 0);
}

static void snap__arrives_whatever_the_pieces(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 7, 8, 9, 100};
    for (uint32_t p = 0; p < 6; p++)
        for (uint32_t s = 0; s < 6; s++)
            for (uint32_t piece = 1; piece < 250; piece = piece * 2 + (piece & 8)) {
                struct replica *from = replica_open(sizes[p], sizes[s]);
                struct replica *to = replica_open(0, 0);
                memset(to->part, 0, sizeof(to->part));
                memset(to->state, 0, sizeof(to->state));
                uint64_t total = move(from, to, piece, UINT64_MAX);
                assert_int_equal(total, 16 + sizes[p] + sizes[s]);
                assert_int_equal(snap_ops.load_close(&to->snap, true), 0);
                assert_int_equal(to->expected, sizes[s]);
                assert_true(to->loaded && to->parts_loaded == 1);
                assert_moved(from, to);
                replica_close(from);
                replica_close(to);
            }
}

/* A transfer that breaks off anywhere leaves nothing behind that the next one could trip over. */
static void snap__begins_anew_after_a_transfer_that_broke_off(void **state)
{
    (void)state;
    struct replica *from = replica_open(40, 60), *to = replica_open(0, 0);
    for (uint64_t until = 0; until < 16 + 40 + 60; until++) {
        move(from, to, 1, until);
        assert_int_equal(snap_ops.load_close(&to->snap, false), 0);
        assert_false(to->state_open);
        to->parts_loaded = 0;
        move(from, to, 13, UINT64_MAX);
        assert_int_equal(snap_ops.load_close(&to->snap, true), 0);
        assert_int_equal(to->parts_loaded, 1);
        assert_moved(from, to);
    }
    replica_close(from);
    replica_close(to);
}

/* The size need not be known when a save begins. */
static void snap__moves_a_state_of_unknown_size(void **state)
{
    (void)state;
    struct replica *from = replica_open(9, 77), *to = replica_open(0, 0);
    from->unsized = true;
    assert_true(move(from, to, 10, UINT64_MAX) == STATE_UNKNOWN);
    assert_true(to->expected == STATE_UNKNOWN);
    assert_int_equal(snap_ops.load_close(&to->snap, true), 0);
    assert_moved(from, to);
    replica_close(from);
    replica_close(to);
}

/* What cannot be a snapshot, and a machine that cannot load, are errors and no aborts. */
static void snap__says_that_it_cannot_load(void **state)
{
    (void)state;
    struct replica *to = replica_open(0, 0);
    unsigned char words[16];
    memset(words, 0xff, sizeof(words));
    snap_ops.load_open(&to->snap, 0);
    assert_int_equal(snap_ops.load_next(&to->snap, words, sizeof(words)), -1);
    assert_int_equal(snap_ops.load_close(&to->snap, false), 0);
    snap_ops.load_open(&to->snap, 0);
    assert_int_equal(snap_ops.load_close(&to->snap, true), -1);
    memset(words, 0, sizeof(words));
    to->fails = true;
    snap_ops.load_open(&to->snap, 0);
    assert_int_equal(snap_ops.load_next(&to->snap, words, sizeof(words)), -1);
    snap_ops.load_close(&to->snap, false);
    replica_close(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snap__arrives_whatever_the_pieces),
        cmocka_unit_test(snap__begins_anew_after_a_transfer_that_broke_off),
        cmocka_unit_test(snap__moves_a_state_of_unknown_size),
        cmocka_unit_test(snap__says_that_it_cannot_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
