#include "sim/state_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

/* Two groups on three hosts, and what happens in them as a test tells it. */
struct scene {
    struct cluster *conf;
    struct state_compare *w;
    uint64_t now_ns;
};

static void scene_open(struct scene *s)
{
    struct err e = {""};
    struct cluster_plan plan = {.groups = 2, .replicas = 3, .hosts = 3};
    *s = (struct scene){0};
    assert_int_equal(cluster_make(&plan, &s->conf, &e), 0);
    s->w = state_compare_open(s->conf, 1);
    for (uint32_t g = 0; g < 2; g++)
        for (uint32_t h = 0; h < 3; h++)
            state_compare_start(s->w, (struct state_compare_who){g, h, 0}, 0, 0);
}

static void scene_close(struct scene *s)
{
    state_compare_close(s->w);
    cluster_free(s->conf);
}

static const uint16_t both[] = {0, 1};

static void cast(struct scene *s, uint64_t seq)
{
    state_compare_cast(s->w, 0, 0, seq, (struct dst_set){both, 2}, s->now_ns += 1000);
}

static void deliver(struct scene *s, uint16_t group, uint32_t host, uint64_t number, uint64_t seq,
                    const char *reply)
{
    struct delivery d = {.group = group, .seq = seq, .number = number, .dst = {both, 2}};
    state_compare_deliver(s->w, (struct state_compare_who){group, host, 0}, &d, reply,
                          (uint32_t)strlen(reply), s->now_ns += 1000);
}

static void deliver_all(struct scene *s, uint64_t number, uint64_t seq)
{
    for (uint16_t g = 0; g < 2; g++)
        for (uint32_t h = 0; h < 3; h++)
            deliver(s, g, h, number, seq, "same");
}

static void state(struct scene *s, uint16_t group, uint32_t host, uint64_t count, const char *bytes)
{
    state_compare_state(s->w, (struct state_compare_who){group, host, 0}, count, false, bytes,
                        strlen(bytes), s->now_ns += 1000);
}

static bool good(struct scene *s, bool quiesced)
{
    struct tram_sim_finding f;
    return state_compare_verify(s->w, quiesced, s->now_ns, &f);
}

static struct tram_sim_finding finding(struct scene *s, const char *property)
{
    struct tram_sim_finding f;
    assert_false(state_compare_verify(s->w, true, s->now_ns, &f));
    assert_string_equal(f.property, property);
    return f;
}

static void state_compare__what_is_right_is_right(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    assert_true(good(&s, true));
    for (uint64_t i = 0; i < 100; i++) {
        cast(&s, i);
        deliver_all(&s, i, i);
        for (uint32_t h = 0; h < 3; h++)
            state(&s, 0, h, i + 1, "state");
        state_compare_done(s.w, 0, 0, i, s.now_ns);
    }
    assert_true(good(&s, true));
    assert_int_equal(state_compare_delivered(s.w, 1), 100);
    scene_close(&s);
}

static void state_compare__knows_who_is_halfway(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    cast(&s, 0);
    cast(&s, 1);
    assert_int_equal(state_compare_halfway(s.w), 0);
    deliver(&s, 0, 0, 0, 0, "");
    deliver(&s, 0, 1, 0, 0, "");
    deliver(&s, 0, 0, 1, 1, "");
    assert_int_equal(state_compare_halfway(s.w), 2);
    deliver(&s, 1, 2, 0, 0, "");
    assert_int_equal(state_compare_halfway(s.w), 1);
    deliver(&s, 1, 2, 1, 1, "");
    assert_int_equal(state_compare_halfway(s.w), 0);
    assert_int_equal(state_compare_delivered(s.w, 0), 2);
    scene_close(&s);
}

static void state_compare__tells_the_earliest_difference_of_a_group(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    for (uint64_t i = 0; i < 4; i++) {
        cast(&s, i);
        deliver(&s, 0, 0, i, i, "abcd");
        state(&s, 0, 0, i + 1, "state");
    }
    deliver(&s, 0, 1, 3, 3, "abXd");
    struct tram_sim_finding f = finding(&s, "replies");
    assert_int_equal(f.number, 3);
    assert_non_null(strstr(f.text, "group g1: the replies of h1 and h2 to message c0:3"));
    assert_non_null(strstr(f.text, "byte 2 of 4 is 63 and 58"));
    state(&s, 0, 2, 2, "longer state"); /* after message 1 */
    f = finding(&s, "states");
    assert_int_equal(f.number, 1);
    assert_int_equal(f.host[1], 2);
    assert_non_null(strstr(f.text, "5 bytes and 12"));
    deliver(&s, 0, 2, 1, 1, "abcde"); /* the reply comes before the state */
    f = finding(&s, "replies");
    assert_int_equal(f.number, 1);
    deliver(&s, 0, 2, 2, 2, "abcde"); /* later: no news */
    assert_int_equal(finding(&s, "replies").number, 1);
    scene_close(&s);
}

/* More than is kept as bytes is still compared. */
static void state_compare__compares_what_it_does_not_keep(void **unused)
{
    (void)unused;
    struct scene s;
    static char big[STATE_COMPARE_KEPT_BYTES / 2 + 1];
    scene_open(&s);
    for (uint64_t i = 0; i < 3; i++) {
        cast(&s, i);
        deliver(&s, 0, 0, i, i, "");
        state_compare_state(s.w, (struct state_compare_who){0, 0, 0}, i + 1, false, big,
                            sizeof(big), 0);
        state_compare_state(s.w, (struct state_compare_who){0, 1, 0}, i + 1, false, big,
                            sizeof(big), 0);
    }
    assert_true(good(&s, false));
    big[sizeof(big) - 1] = 1;
    state_compare_state(s.w, (struct state_compare_who){0, 2, 0}, 3, false, big, sizeof(big), 0);
    struct tram_sim_finding f = finding(&s, "states");
    assert_int_equal(f.number, 2);
    assert_non_null(strstr(f.text, "that differ"));
    scene_close(&s);
}

/* Each property of atomic multicast, broken once. */

static void state_compare__integrity(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    deliver_all(&s, 0, 0);
    assert_non_null(strstr(finding(&s, "integrity").text, "never cast"));
    scene_close(&s);
}

static void state_compare__validity(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    cast(&s, 0);
    assert_true(good(&s, false));
    finding(&s, "validity"); /* not delivered in the end */
    state_compare_client_gone(s.w, 0, 0, false);
    finding(&s, "validity");
    state_compare_client_gone(s.w, 0, 0, true); /* excused */
    assert_true(good(&s, true));
    state_compare_done(s.w, 0, 0, 0, s.now_ns);
    assert_false(good(&s, false));
    finding(&s, "validity");
    scene_close(&s);
}

static void state_compare__agreement(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    cast(&s, 0);
    for (uint32_t h = 0; h < 3; h++)
        deliver(&s, 0, h, 0, 0, "");
    deliver(&s, 1, 0, 0, 0, "");
    deliver(&s, 1, 1, 0, 0, "");
    assert_true(good(&s, false));
    assert_non_null(strstr(finding(&s, "agreement").text, "h3 of g2"));
    state_compare_down(s.w, 1, 2, true);
    assert_true(good(&s, true));
    state_compare_down(s.w, 1, 2, false); /* back, and still without it */
    finding(&s, "agreement");
    deliver(&s, 1, 2, 0, 0, "");
    assert_true(good(&s, true));
    scene_close(&s);
}

static void state_compare__prefix_order(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    cast(&s, 0);
    cast(&s, 1);
    deliver(&s, 0, 0, 0, 0, "reply to 0");
    deliver(&s, 0, 1, 0, 1, "reply to 1"); /* another message: no difference of replies */
    finding(&s, "prefix order");
    scene_close(&s);

    scene_open(&s);
    cast(&s, 0);
    cast(&s, 1);
    for (uint32_t h = 0; h < 3; h++)
        for (uint64_t i = 0; i < 2; i++) {
            deliver(&s, 0, h, i, i, "");
            deliver(&s, 1, h, i, 1 - i, "");
        }
    finding(&s, "prefix order");
    scene_close(&s);
}

static void state_compare__numbers(void **unused)
{
    (void)unused;
    struct scene s;
    scene_open(&s);
    cast(&s, 0);
    cast(&s, 1);
    deliver(&s, 0, 0, 0, 0, "");
    deliver(&s, 0, 0, 2, 1, "");
    finding(&s, "numbers");
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_compare__what_is_right_is_right),
        cmocka_unit_test(state_compare__knows_who_is_halfway),
        cmocka_unit_test(state_compare__tells_the_earliest_difference_of_a_group),
        cmocka_unit_test(state_compare__compares_what_it_does_not_keep),
        cmocka_unit_test(state_compare__integrity),
        cmocka_unit_test(state_compare__validity),
        cmocka_unit_test(state_compare__agreement),
        cmocka_unit_test(state_compare__prefix_order),
        cmocka_unit_test(state_compare__numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
