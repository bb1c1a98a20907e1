/* Notices: told once to all, again after losses and to new lives, read whole or not at all. */
#include "group/notice.h"

#include "../sim_time.h"
#include "lane/names.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 3, REGION = 9, BYTES_MAX = 2040, RETRY_NS = 10000 };

static struct {
    struct sim *sim;
    struct mem *mem[NODES];
    struct notice_writer writer;        /* of node 0 */
    struct notice_reader reader[NODES]; /* of the others */
    unsigned char got[BYTES_MAX];
} rig;

static struct mem_lane_spec spec_to(uint32_t owner)
{
    struct mem_lane_spec s = lane_spec(REGION, owner, 0, LANE_VIEW, 0);
    s.ctl_words = NOTICE_WORDS;
    s.ring_bytes = notice_ring_bytes(BYTES_MAX);
    s.common = 1;
    return s;
}

static void node_start(uint32_t n)
{
    struct err e = {""};
    enum mem_birth birth;
    rig.mem[n] = sim_node_start(rig.sim, n);
    assert_int_equal(mem_region_open(rig.mem[n], REGION, &birth, &e), 0);
}

static void writer_open(void)
{
    struct err e = {""};
    struct mem_lane_spec specs[] = {spec_to(1), spec_to(2)};
    struct mem_lane *lanes[2];
    node_start(0);
    assert_int_equal(mem_lanes_open(rig.mem[0], specs, 2, lanes, &e), 0);
    assert_int_equal(notice_writer_open(&rig.writer, rig.mem[0], lanes, 2, BYTES_MAX, &e), 0);
}

static void reader_open(uint32_t n)
{
    struct err e = {""};
    struct mem_lane_spec spec = spec_to(n);
    node_start(n);
    rig.reader[n] = (struct notice_reader){.mem = rig.mem[n]};
    assert_int_equal(mem_lanes_open(rig.mem[n], &spec, 1, &rig.reader[n].lane, &e), 0);
}

static int open_rig(bool links)
{
    struct err e = {""};
    memset(&rig, 0, sizeof(rig));
    struct sim_options so = {.seed = 3,
                             .nodes_max = NODES,
                             .delay_ns_min = 100,
                             .delay_ns_max = 900,
                             .tear_per_million = 500000,
                             .lost_after_ns = 20000,
                             .links = {.on = links, .judged = links}};
    rig.sim = sim_open(&so, &e);
    assert_non_null(rig.sim);
    writer_open();
    reader_open(1);
    reader_open(2);
    return 0;
}

static int open_plain(void **state)
{
    (void)state;
    return open_rig(false);
}

static int open_links(void **state)
{
    (void)state;
    return open_rig(true);
}

static int close_rig(void **state)
{
    (void)state;
    notice_writer_close(&rig.writer);
    sim_close(rig.sim);
    return 0;
}

static void step(uint64_t ns)
{
    for (uint64_t end = sim_now(rig.sim) + ns; sim_now(rig.sim) < end;) {
        if (rig.mem[0])
            notice_post(&rig.writer, sim_now(rig.sim), RETRY_NS);
        for (uint32_t n = 0; n < NODES; n++)
            if (rig.mem[n])
                mem_poll(rig.mem[n]);
        sim_time_pass(rig.sim, 100);
    }
}

static void say(uint64_t word, uint32_t words)
{
    unsigned char *to = notice_begin(&rig.writer);
    for (uint32_t i = 0; i < words; i++)
        memcpy(to + 8 * (size_t)i, &word, 8);
    notice_end(&rig.writer, 8 * words);
}

/* What the node reads now: the word that its notice is made of, so many times; 0: nothing. */
static uint64_t reads(uint32_t n, uint32_t words)
{
    uint64_t word;
    uint32_t bytes = notice_read(&rig.reader[n], rig.got, BYTES_MAX);
    if (bytes == 0)
        return 0;
    assert_int_equal(bytes, 8 * words);
    for (uint32_t i = 0; i < words; i++)
        assert_memory_equal(rig.got, rig.got + 8 * (size_t)i, 8);
    memcpy(&word, rig.got, 8);
    return word;
}

static void notice__all_hear_the_last_one_once(void **state)
{
    (void)state;
    step(20000); /* connections are made */
    assert_int_equal(reads(1, 1), 0);
    say(5, 255);
    step(5000);
    assert_int_equal(reads(1, 255), 5);
    assert_int_equal(reads(1, 255), 0);
    say(6, 3);
    step(5000);
    say(7, 200);
    step(5000);
    assert_int_equal(reads(1, 200), 7);
    assert_int_equal(reads(2, 200), 7);
    assert_int_equal(reads(2, 200), 0);
}

/* The second lands while the first is there to be read: a reader has one of them. */
static void notice__is_whole_whenever_it_is_read(void **state)
{
    (void)state;
    uint64_t last = 0;
    step(20000);
    for (uint64_t i = 1; i <= 201; i++) {
        if (i <= 200)
            say(i, 1 + (uint32_t)(i * 37 % 250));
        step(i <= 200 ? 300 : 1000000);
        uint32_t bytes = notice_read(&rig.reader[1], rig.got, BYTES_MAX);
        uint64_t word;
        if (bytes == 0)
            continue;
        memcpy(&word, rig.got, 8);
        assert_true(word > last && bytes == 8 * (1 + word * 37 % 250));
        for (uint32_t k = 0; k < bytes; k += 8)
            assert_memory_equal(rig.got, rig.got + k, 8);
        last = word;
    }
    assert_int_equal(last, 200);
}

/* It went out, and the way broke before it was there. */
static void notice__comes_again_after_a_loss(void **state)
{
    (void)state;
    step(20000);
    sim_cut(rig.sim, 0, 2, true);
    say(8, 10);
    step(60000);
    assert_int_equal(reads(1, 10), 8);
    assert_int_equal(reads(2, 10), 0);
    sim_cut(rig.sim, 0, 2, false);
    step(60000);
    assert_int_equal(reads(2, 10), 8);
    assert_true(rig.writer.retry_ns == UINT64_MAX);
}

static void notice__a_host_that_comes_hears_it(void **state)
{
    (void)state;
    step(20000);
    sim_node_crash(rig.sim, 2, false);
    rig.mem[2] = NULL;
    step(60000);
    say(9, 4);
    step(100000);
    assert_int_equal(reads(1, 4), 9);
    reader_open(2);
    step(100000);
    assert_int_equal(reads(2, 4), 9);
}

static void notice__a_new_life_of_the_writer_is_heard(void **state)
{
    (void)state;
    step(20000);
    say(3, 4);
    step(5000);
    assert_int_equal(reads(1, 4), 3);
    notice_writer_close(&rig.writer);
    sim_node_crash(rig.sim, 0, false);
    rig.mem[0] = NULL;
    step(60000);
    writer_open();
    step(60000);
    say(4, 4);
    for (int i = 0; i < 10; i++) {
        step(20000);
        notice_next(&rig.reader[1]);
    }
    assert_int_equal(reads(1, 4), 4); /* the first of its life, as the one before was */
}

static void notice__what_no_host_writes_is_not_read(void **state)
{
    (void)state;
    static _Atomic uint64_t ctl[NOTICE_WORDS];
    static unsigned char ring[2 * 2048] __attribute__((aligned(8)));
    struct mem_lane lane = {.spec = spec_to(1), .ctl = ctl, .ring = ring};
    struct notice_reader r = {.lane = &lane};
    const uint64_t sizes[] = {0, 7, BYTES_MAX + 8, UINT64_MAX, UINT64_C(1) << 32};
    lane.spec.ring_bytes = sizeof(ring);
    for (uint64_t i = 0; i < sizeof(sizes) / 8; i++) {
        memcpy(ring + (i + 1) % 2 * 2048, &sizes[i], 8);
        atomic_store(&ctl[NOTICE_COUNT], i + 1);
        assert_int_equal(notice_read(&r, rig.got, BYTES_MAX), 0);
    }
}

/* ---- two threads on one memory ---- */

static void bell(struct mem *m, uint32_t node)
{
    (void)m;
    (void)node;
}

static const struct mem_ops bell_only = {.bell = bell};
static struct mem shared_mem = {.ops = &bell_only, .shared = true};
static struct mem_lane shared_lane;
static atomic_bool done;

static void *write_many(void *ctx)
{
    struct notice_writer *writer = ctx;
    for (uint64_t i = 1; i <= 100000; i++) {
        unsigned char *to = notice_begin(writer);
        for (uint32_t k = 0; k < BYTES_MAX; k += 8)
            memcpy(to + k, &i, 8);
        notice_end(writer, BYTES_MAX);
        notice_post(writer, i, RETRY_NS);
    }
    atomic_store(&done, true);
    return NULL;
}

static void notice__is_whole_in_shared_memory(void **state)
{
    (void)state;
    static _Atomic uint64_t ctl[NOTICE_WORDS];
    struct mem_lane *lane = &shared_lane;
    struct notice_writer writer;
    struct notice_reader r = {.lane = lane};
    struct err e = {""};
    pthread_t thread;
    static unsigned char got[BYTES_MAX];
    uint64_t last = 0, word = 0;
    lane->spec = spec_to(1);
    lane->ctl = ctl;
    lane->ring = aligned_alloc(64, lane->spec.ring_bytes);
    assert_int_equal(notice_writer_open(&writer, &shared_mem, &lane, 1, BYTES_MAX, &e), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_many, &writer), 0);
    for (bool end = false; !end;) {
        end = atomic_load(&done);
        if (notice_read(&r, got, BYTES_MAX) == 0)
            continue;
        memcpy(&word, got, 8);
        assert_true(word > last);
        last = word;
        for (uint32_t k = 0; k < BYTES_MAX; k += 8)
            assert_memory_equal(got, got + k, 8);
    }
    assert_int_equal(last, 100000);
    pthread_join(thread, NULL);
    notice_writer_close(&writer);
    free(lane->ring);
}

#define ON_BOTH(test)                                                                              \
    cmocka_unit_test_setup_teardown(test, open_plain, close_rig),                                  \
        cmocka_unit_test_setup_teardown(test, open_links, close_rig)

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        ON_BOTH(notice__all_hear_the_last_one_once),
        ON_BOTH(notice__is_whole_whenever_it_is_read),
        ON_BOTH(notice__comes_again_after_a_loss),
        ON_BOTH(notice__a_host_that_comes_hears_it),
        ON_BOTH(notice__a_new_life_of_the_writer_is_heard),
        cmocka_unit_test(notice__what_no_host_writes_is_not_read),
        cmocka_unit_test(notice__is_whole_in_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
