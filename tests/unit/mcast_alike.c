/* Replies of replicas of which some may lie: what faulty + 1 rings hold alike is taken, in order, and nothing else. */
#include "lane/names.h"
#include "mcast/alike.h"
#include "mem/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { REPLICAS = 3, CLIENT = REPLICAS, REGION = 2, RING = 4096, GUARD = 0, LIFE = 1, WORDS = 2 };

static const struct stream_shape shape = {
    .ring_bytes = RING, .bytes_max = 64, .guard = GUARD, .life = LIFE};

static struct world {
    struct sim *sim;
    struct mem *client, *replica[REPLICAS];
    struct stream stream[REPLICAS];
    struct stream_out out[REPLICAS];
    struct alike alike;
} w;

static struct mem_lane_spec spec_of(uint32_t q)
{
    struct mem_lane_spec s = lane_spec(REGION, CLIENT, q, LANE_REPLY, 0);
    s.ctl_words = WORDS;
    s.ring_bytes = RING;
    return s;
}

static void open_replica(uint32_t q)
{
    struct err e = {""};
    enum mem_birth birth;
    const struct mem_lane_spec s = spec_of(q);
    w.replica[q] = sim_node_start(w.sim, q);
    assert_int_equal(mem_region_open(w.replica[q], REGION, &birth, &e), 0);
    assert_int_equal(mem_lanes_open(w.replica[q], &s, 1, &w.out[q].lane, &e), 0);
    w.stream[q].shape = &shape;
    w.stream[q].ring = test_malloc(stream_ring_bytes(&shape));
    stream_begin(&w.stream[q], 0);
    stream_reopen(w.replica[q], &w.stream[q], &w.out[q]);
}

static void open_world(void)
{
    struct err e = {""};
    enum mem_birth birth;
    struct mem_lane_spec specs[REPLICAS];
    struct mem_lane *lanes[REPLICAS];
    const struct sim_options o = {.seed = 1,
                                  .nodes_max = REPLICAS + 1,
                                  .delay_ns_min = 1,
                                  .delay_ns_max = 10,
                                  .lost_after_ns = 1000};
    w = (struct world){.sim = sim_open(&o, &e)};
    w.client = sim_node_start(w.sim, CLIENT);
    assert_int_equal(mem_region_open(w.client, REGION, &birth, &e), 0);
    for (uint32_t q = 0; q < REPLICAS; q++)
        specs[q] = spec_of(q);
    assert_int_equal(mem_lanes_open(w.client, specs, REPLICAS, lanes, &e), 0);
    for (uint32_t q = 0; q < REPLICAS; q++)
        open_replica(q);
    assert_true(alike_open(
        &w.alike,
        &(struct alike_options){
            .mem = w.client, .lanes = lanes, .replicas = REPLICAS, .faulty = 1, .shape = shape}));
}

static void close_world(void)
{
    alike_close(&w.alike);
    for (uint32_t q = 0; q < REPLICAS; q++)
        test_free(w.stream[q].ring);
    sim_close(w.sim);
}

static void say(uint32_t q, const char *text)
{
    memcpy(stream_reserve(&w.stream[q]), text, strlen(text));
    stream_commit(&w.stream[q], (uint32_t)strlen(text));
    stream_push(w.replica[q], &w.stream[q], &w.out[q]);
    for (uint32_t i = 0; i < 50; i++) {
        sim_step(w.sim);
        mem_poll(w.client);
        for (uint32_t p = 0; p < REPLICAS; p++)
            mem_poll(w.replica[p]);
    }
}

static void assert_next(const char *text)
{
    uint32_t bytes = 0;
    const char *got = alike_next(&w.alike, &bytes);
    if (text == NULL) {
        assert_null(got);
        return;
    }
    assert_non_null(got);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(got, text, bytes);
}

static void alike__one_replica_is_not_believed(void **state)
{
    (void)state;
    open_world();
    say(0, "yes");
    assert_next(NULL);
    say(1, "no!");
    assert_next(NULL);
    say(2, "yes");
    assert_next("yes");
    assert_next(NULL);
    close_world();
}

static void alike__the_same_bytes_and_as_many(void **state)
{
    (void)state;
    open_world();
    say(0, "yes");
    say(1, "ye");
    assert_next(NULL);
    say(2, "yes");
    assert_next("yes");
    close_world();
}

/* Whoever lied once may be right the next time; who is late brings nothing that was taken before. */
static void alike__each_position_counts_for_itself(void **state)
{
    (void)state;
    open_world();
    say(0, "one");
    say(1, "one");
    say(0, "two");
    assert_next("one");
    assert_next(NULL);
    say(2, "ten");
    say(2, "two");
    assert_next("two");
    say(1, "two");
    assert_next(NULL);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike__one_replica_is_not_believed),
        cmocka_unit_test(alike__the_same_bytes_and_as_many),
        cmocka_unit_test(alike__each_position_counts_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
