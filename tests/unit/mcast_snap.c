/* Snapshots from one replica to another: saved and loaded in pieces of every size, padded to 8 bytes as
 * the log's transfer is. */
#include "mcast/snap.h"

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
    bool state_open, loaded;
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

static uint64_t state_save_open(void *ctx)
{
    struct replica *r = ctx;
    r->saves_open++;
    return r->state_bytes;
}

static void state_save_read(void *ctx, uint64_t offset, void *out, uint32_t bytes)
{
    struct replica *r = ctx;
    assert_true(bytes > 0 && offset + bytes <= r->state_bytes);
    memcpy(out, r->state + offset, bytes);
}

static void state_save_close(void *ctx)
{
    struct replica *r = ctx;
    r->saves_open--;
}

static void state_load_open(void *ctx, uint64_t bytes)
{
    struct replica *r = ctx;
    r->state_open = true;
    r->state_bytes = bytes;
    r->state_at = 0;
}

static void state_load_write(void *ctx, const void *data, uint32_t bytes)
{
    struct replica *r = ctx;
    assert_true(r->state_open && r->state_at + bytes <= r->state_bytes);
    memcpy(r->state + r->state_at, data, bytes);
    r->state_at += bytes;
}

static void state_load_close(void *ctx)
{
    struct replica *r = ctx;
    assert_true(r->state_open && r->state_at == r->state_bytes);
    r->loaded = true;
}

static const struct mcast_machine machine = {
    .save_open = state_save_open,
    .save_read = state_save_read,
    .save_close = state_save_close,
    .load_open = state_load_open,
    .load_write = state_load_write,
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

/* Moves up to `until` bytes of a snapshot in pieces of that size; returns how many there are. */
static uint64_t move(struct replica *from, struct replica *to, uint32_t piece, uint64_t until)
{
    unsigned char bytes[256];
    uint64_t total = (snap_save_open(&from->snap) + 7) & ~UINT64_C(7);
    snap_load_open(&to->snap, total);
    for (uint64_t at = 0; at < total && at < until; at += piece) {
        uint32_t n = total - at < piece ? (uint32_t)(total - at) : piece;
        memset(bytes, 0xee, sizeof(bytes));
        snap_save_read(&from->snap, at, bytes, n);
        assert_int_equal(bytes[n], 0xee);
        snap_load_write(&to->snap, bytes, n);
    }
    snap_save_close(&from->snap);
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
                assert_true(total >= 16 + sizes[p] + sizes[s] && total % 8 == 0);
                snap_load_close(&to->snap);
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
        to->state_open = false;
        to->parts_loaded = 0;
        move(from, to, 13, UINT64_MAX);
        snap_load_close(&to->snap);
        assert_int_equal(to->parts_loaded, 1);
        assert_moved(from, to);
        to->state_open = false;
    }
    replica_close(from);
    replica_close(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snap__arrives_whatever_the_pieces),
        cmocka_unit_test(snap__begins_anew_after_a_transfer_that_broke_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
