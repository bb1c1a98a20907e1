/* The sending end of a stream, and what a reader sees of it, over simulated memory. */
#include "lane/stream.h"

#include "base/rng.h"
#include "mem/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    WRITER,
    READER,
    NODES,
    REGION = 3,
    KIND = 1,
    RING = 4096,
    BYTES_MAX = 1000,
    GUARD = 0,
    LIFE = 1,
    WORDS,
    LOST_NS = 100000,
};

static const struct stream_shape shape = {
    .ring_bytes = RING, .bytes_max = BYTES_MAX, .guard = GUARD, .life = LIFE};

struct world {
    struct sim *sim;
    struct mem *writer, *reader;
    struct stream stream;
    struct stream_out out;
    struct mem_lane *in;
    uint64_t next; /* of the reader */
    uint64_t frames;
    struct rng rng;
};

static const struct mem_lane_spec spec = {.owner = READER,
                                          .writer = WRITER,
                                          .region = REGION,
                                          .kind = KIND,
                                          .ctl_words = WORDS,
                                          .ring_bytes = RING};

static struct world *world_open(uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    struct sim_options o = {.seed = seed,
                            .nodes_max = NODES,
                            .delay_ns_min = 100,
                            .delay_ns_max = 900,
                            .tear_per_million = 500000,
                            .lost_after_ns = LOST_NS};
    enum mem_birth birth;
    assert_non_null(w);
    w->sim = sim_open(&o, NULL);
    w->writer = sim_node_start(w->sim, WRITER);
    w->reader = sim_node_start(w->sim, READER);
    assert_int_equal(mem_region_open(w->reader, REGION, &birth, NULL), 0);
    assert_int_equal(mem_lanes_open(w->reader, &spec, 1, &w->in, NULL), 0);
    assert_int_equal(mem_lanes_open(w->writer, &spec, 1, &w->out.lane, NULL), 0);
    w->stream.shape = &shape;
    w->stream.ring = malloc(stream_ring_bytes(&shape));
    stream_begin(&w->stream, 0);
    assert_true(stream_reopen(w->writer, &w->stream, &w->out));
    w->next = stream_start();
    rng_init(&w->rng, seed);
    return w;
}

static void world_close(struct world *w)
{
    sim_close(w->sim);
    free(w->stream.ring);
    free(w);
}

/* Every frame says of itself where it stands and in which life. */
static void add(struct world *w, uint32_t bytes)
{
    uint64_t pos = w->stream.tail;
    unsigned char *payload = stream_reserve(&w->stream);
    memset(payload, (int)(pos / 8 + w->stream.life), bytes);
    stream_commit(&w->stream, bytes);
}

/* Takes all that is there; whatever fits must be what was added. */
static void take(struct world *w, uint32_t life)
{
    static unsigned char over[BYTES_MAX];
    uint64_t guard = stream_guard(&shape, w->in, life);
    while (w->next < guard) {
        struct frame f;
        frame_read(&f, w->in->ring, RING, w->next);
        if (!frame_fits(&f, w->next, life, BYTES_MAX, guard))
            return;
        const unsigned char *at = frame_payload(w->in->ring, RING, w->next, f.bytes, over);
        for (uint32_t i = 0; i < f.bytes; i++)
            assert_int_equal(at[i], (unsigned char)(w->next / 8 + life));
        w->next += frame_size(f.bytes);
        w->frames++;
    }
}

static void settle(struct world *w, uint32_t life)
{
    while (sim_step(w->sim))
        take(w, life);
    mem_poll(w->writer);
    mem_poll(w->reader);
    take(w, life);
}

/* Frames of all sizes, over many ends of the ring, torn on their way: the reader finds each once, whole. */
static void stream__arrives_whole_and_in_order(void **state)
{
    (void)state;
    struct world *w = world_open(1);
    uint64_t added = 0;
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t bytes = (uint32_t)rng_below(&w->rng, BYTES_MAX + 1);
        while (stream_room(&w->stream, frame_size(bytes))) {
            add(w, bytes);
            added++;
            bytes = (uint32_t)rng_below(&w->rng, BYTES_MAX + 1);
        }
        assert_true(stream_push(w->writer, &w->stream, &w->out));
        settle(w, 0);
        w->stream.taken = w->next;
    }
    assert_int_equal(w->next, w->stream.tail);
    assert_int_equal(w->frames, added);
    assert_true(w->stream.tail > 100 * RING);
    world_close(w);
}

/* There is room for what was taken, and not for a byte more. */
static void stream__has_room_for_what_was_taken(void **state)
{
    (void)state;
    struct world *w = world_open(2);
    while (stream_room(&w->stream, frame_size(100)))
        add(w, 100);
    uint64_t left = stream_start() + RING - w->stream.tail;
    assert_true(left < frame_size(100));
    assert_true(stream_room(&w->stream, left));
    assert_false(stream_room(&w->stream, left + 8));
    w->stream.taken += 64;
    assert_true(stream_room(&w->stream, left + 64));
    assert_false(stream_room(&w->stream, left + 72));
    w->stream.taken = w->stream.tail + 800; /* another holder of the stream is further on */
    assert_true(stream_room(&w->stream, RING));
    assert_false(stream_room(&w->stream, RING + 8));
    assert_int_equal(stream_floor(&w->stream), w->stream.tail);
    world_close(w);
}

/* A way broke with frames on it: after it is opened again the reader gets what it lacks. */
static void stream__goes_on_after_a_loss(void **state)
{
    (void)state;
    struct world *w = world_open(3);
    for (uint32_t round = 0; round < 50; round++) {
        add(w, (uint32_t)rng_below(&w->rng, BYTES_MAX + 1));
        stream_push(w->writer, &w->stream, &w->out);
        if (round % 5 == 0) {
            sim_cut(w->sim, WRITER, READER, true);
            add(w, 8);
            stream_push(w->writer, &w->stream, &w->out);
            mem_mark(w->writer, &w->out.flow, round + 1);
            settle(w, 0);
            assert_int_equal(w->out.flow.status, MEM_LOST);
            assert_false(w->next == w->stream.tail);
            sim_cut(w->sim, WRITER, READER, false);
            assert_true(stream_reopen(w->writer, &w->stream, &w->out));
            stream_push(w->writer, &w->stream, &w->out);
        }
        settle(w, 0);
        assert_int_equal(w->next, w->stream.tail);
        w->stream.taken = w->next;
    }
    world_close(w);
}

/* Nobody says what was taken: what is written again is what the ring holds, and no more. */
static void stream__may_overwrite(void **state)
{
    (void)state;
    struct world *w = world_open(4);
    for (uint32_t i = 0; i < 100; i++)
        add(w, 200);
    assert_int_equal(stream_floor(&w->stream), w->stream.tail - RING);
    stream_rewind(&w->stream, &w->out);
    stream_push(w->writer, &w->stream, &w->out);
    w->next = w->stream.tail - RING / frame_size(200) * frame_size(200);
    settle(w, 0);
    assert_int_equal(w->next, w->stream.tail);
    assert_int_equal(w->frames, RING / frame_size(200));
    world_close(w);
}

/* In a new life a reader of that life never takes a frame of the old one, at no moment of the change. */
static void stream__begins_anew_in_a_new_life(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world *w = world_open(seed);
        for (uint32_t i = 0; i < 3; i++)
            add(w, 40);
        stream_push(w->writer, &w->stream, &w->out);
        settle(w, 0);
        assert_int_equal(w->frames, 3);
        stream_begin(&w->stream, 1);
        stream_rewind(&w->stream, &w->out);
        w->next = stream_start();
        w->frames = 0;
        add(w, 40);
        stream_push(w->writer, &w->stream, &w->out);
        while (sim_step(w->sim)) {
            if (mem_word(w->in, LIFE) == 1)
                assert_true(mem_word(w->in, GUARD) <= w->stream.tail);
            take(w, 1);
        }
        settle(w, 1);
        assert_int_equal(w->frames, 1);
        world_close(w);
    }
}

/* Whatever is no frame of this place, life and size is refused. */
static void frame__is_refused_unless_it_fits(void **state)
{
    (void)state;
    struct frame f = {.pos = 64, .bytes = 24, .life = 2};
    assert_true(frame_fits(&f, 64, 2, 24, 64 + frame_size(24)));
    assert_false(frame_fits(&f, 72, 2, 24, 72 + frame_size(24)));
    assert_false(frame_fits(&f, 64, 1, 24, 64 + frame_size(24)));
    assert_false(frame_fits(&f, 64, 2, 23, 64 + frame_size(24)));
    assert_false(frame_fits(&f, 64, 2, 24, 64 + frame_size(24) - 8));
    f.bytes = UINT32_MAX;
    assert_false(frame_fits(&f, 64, 2, UINT32_MAX, 64 + RING));
}

/* What a snapshot carries is what another holder goes on from. */
static void stream__is_saved_and_loaded(void **state)
{
    (void)state;
    struct world *a = world_open(5), *b = world_open(6);
    static unsigned char saved[RING];
    for (uint32_t i = 0; i < 40; i++) {
        add(a, 333);
        a->stream.taken = a->stream.tail - min_u64(a->stream.tail, 2000);
    }
    uint64_t floor = stream_floor(&a->stream);
    stream_save(&a->stream, saved);
    stream_load(&b->stream, floor, a->stream.tail, saved);
    assert_int_equal(stream_floor(&b->stream), floor);
    stream_rewind(&b->stream, &b->out);
    add(b, 333);
    stream_push(b->writer, &b->stream, &b->out);
    b->next = b->stream.tail - 5 * frame_size(333);
    settle(b, 0);
    assert_int_equal(b->next, b->stream.tail);
    assert_int_equal(b->frames, 5);
    world_close(a);
    world_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__arrives_whole_and_in_order),
        cmocka_unit_test(stream__has_room_for_what_was_taken),
        cmocka_unit_test(stream__goes_on_after_a_loss),
        cmocka_unit_test(stream__may_overwrite),
        cmocka_unit_test(stream__begins_anew_in_a_new_life),
        cmocka_unit_test(frame__is_refused_unless_it_fits),
        cmocka_unit_test(stream__is_saved_and_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
