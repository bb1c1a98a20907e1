/* Virtual synchrony of histories: what is right passes, and each way to break a right one is found as what it is. */
#include "check/load.h"
#include "check/vsync.h"
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct vsync *v;
static uint32_t line;

static struct amcast_place place(void)
{
    return (struct amcast_place){0, ++line};
}

static struct vsync_life who(const char *name, uint32_t inc)
{
    return (struct vsync_life){vsync_member(v, name, strlen(name)), inc};
}

static uint32_t cell(const char *name)
{
    return vsync_cell(v, name, strlen(name));
}

/* Members are letters: "abc". */
static void begins(const char *name, uint64_t vid, const char *members)
{
    uint32_t list[8], n = 0;
    for (; *members; members++)
        list[n++] = vsync_member(v, members, 1);
    vsync_view(v, who(name, 0), vid, list, n, place());
}

static void starts(const char *name, uint64_t vid, uint64_t n)
{
    vsync_start(v, who(name, 0), cell("x"), vid, n, place());
}

static void delivers(const char *name, uint64_t vid, uint64_t n, const char *id)
{
    vsync_deliver(v, who(name, 0), cell("x"), vid, n, vsync_message(v, id, strlen(id)), place());
}

static void casts(const char *id)
{
    vsync_cast(v, vsync_message(v, id, strlen(id)), cell("x"));
}

static int set_up(void **state)
{
    (void)state;
    v = vsync_open();
    line = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    vsync_close(v);
    return 0;
}

static void expect_only(enum vsync_property p, bool majority)
{
    struct vsync_summary s;
    bool ok = vsync_verify(v, majority);
    vsync_summarise(v, &s);
    for (unsigned i = 0; i < VSYNC_PROPERTIES; i++)
        if ((s.violations[i] > 0) != (i == p))
            fail_msg("%s: %llu violations", vsync_property_names[i],
                     (unsigned long long)s.violations[i]);
    assert_int_equal(ok, p == VSYNC_PROPERTIES);
}

/* a, b and c in view 1; c dies in it; a and b go on. All cast before. */
static void a_run(void)
{
    for (const char *p = "abc"; *p; p++) {
        const char name[2] = {*p, 0};
        begins(name, 1, "abc");
        starts(name, 1, 0);
        delivers(name, 1, 0, "a:1");
        delivers(name, 1, 2, "c:1");
    }
    casts("a:1");
    casts("a:2");
    casts("a:3");
    casts("c:1");
    casts("b:1");
    for (const char *p = "ab"; *p; p++) {
        const char name[2] = {*p, 0};
        delivers(name, 1, 3, "a:2");
        begins(name, 2, "ab");
        starts(name, 2, 0);
    }
}

static void check__what_is_right_passes(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 0, "a:3");
    delivers("b", 2, 0, "a:3");
    delivers("a", 2, 1, "b:1");
    expect_only(VSYNC_PROPERTIES, true);
}

static void check__one_view_has_one_content(void **state)
{
    (void)state;
    a_run();
    begins("a", 3, "ab");
    begins("b", 3, "abc");
    expect_only(VSYNC_VIEWS, false);
}

static void check__who_begins_a_view_is_in_it(void **state)
{
    (void)state;
    a_run();
    begins("a", 3, "b");
    expect_only(VSYNC_VIEWS, false);
}

static void check__views_rise(void **state)
{
    (void)state;
    a_run();
    begins("a", 2, "ab");
    expect_only(VSYNC_VIEWS, false);
}

static void check__a_minority_does_not_go_on(void **state)
{
    (void)state;
    a_run();
    begins("a", 3, "a");
    expect_only(VSYNC_CHAIN, true);
}

static void check__a_delivery_is_in_the_view_of_its_member(void **state)
{
    (void)state;
    a_run();
    delivers("a", 1, 4, "a:3");
    expect_only(VSYNC_INTEGRITY, false);
}

static void check__a_message_is_delivered_in_one_view(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 1, "c:1");
    struct vsync_summary s;
    assert_false(vsync_verify(v, false));
    vsync_summarise(v, &s);
    assert_int_not_equal(s.violations[VSYNC_INTEGRITY], 0);
}

static void check__a_message_was_cast(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 0, "a:9");
    expect_only(VSYNC_INTEGRITY, false);
}

static void check__its_sender_is_a_member(void **state)
{
    (void)state;
    a_run();
    casts("c:2");
    delivers("a", 2, 0, "c:2");
    expect_only(VSYNC_INTEGRITY, false);
}

static void check__who_has_not_started_delivers_nothing(void **state)
{
    (void)state;
    a_run();
    begins("c", 2, "ab");
    (void)tear_down(state);
    (void)set_up(state);
    begins("a", 1, "a");
    casts("a:1");
    delivers("a", 1, 0, "a:1");
    expect_only(VSYNC_INTEGRITY, false);
}

static void check__a_number_is_one_message(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 0, "a:3");
    delivers("b", 2, 0, "b:1");
    expect_only(VSYNC_SEQUENCE, false);
}

static void check__numbers_rise(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 1, "a:3");
    delivers("a", 2, 0, "b:1");
    expect_only(VSYNC_SEQUENCE, false);
}

static void check__nothing_is_left_out(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 0, "a:3");
    delivers("a", 2, 1, "b:1");
    delivers("b", 2, 1, "b:1");
    expect_only(VSYNC_SEQUENCE, false);
}

static void check__what_the_dead_delivered_all_deliver_who_go_on(void **state)
{
    (void)state;
    begins("a", 1, "ac");
    begins("c", 1, "ac");
    starts("a", 1, 0);
    starts("c", 1, 0);
    casts("c:1");
    delivers("c", 1, 0, "c:1");
    begins("a", 2, "a");
    starts("a", 2, 0);
    expect_only(VSYNC_UNIFORM, false);
}

static void check__who_joins_delivers_from_its_state_on(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 0, "a:3");
    delivers("b", 2, 0, "a:3");
    for (const char *p = "abd"; *p; p++) {
        const char name[2] = {*p, 0};
        begins(name, 3, "abd");
    }
    casts("b:2");
    starts("a", 3, 0);
    starts("b", 3, 0);
    delivers("a", 3, 0, "b:1");
    delivers("b", 3, 0, "b:1");
    delivers("a", 3, 2, "b:2");
    delivers("b", 3, 2, "b:2");
    starts("d", 3, 1);
    delivers("d", 3, 2, "b:2");
    expect_only(VSYNC_PROPERTIES, false);
}

static void check__a_sender_is_heard_in_its_order(void **state)
{
    (void)state;
    a_run();
    casts("b:2");
    delivers("a", 2, 0, "b:2");
    delivers("a", 2, 1, "b:1");
    expect_only(VSYNC_FIFO, false);
}

/* What the writer writes the reader reads, and the checker judges. */
static void check__traces_are_written_read_and_judged(void **state)
{
    (void)state;
    static const char *const hosts[] = {"h0", "h1"}, *const cells[] = {"orders", "prices"};
    static const uint32_t both[] = {0, 1};
    const uint16_t first = 0, second = 1;
    const struct trace_id raw_id = {.client = 0, .life = 2, .seq = 18, .sum = 5};
    char dir[] = "/tmp/tram-vsync-XXXXXX", path[64];
    struct err e = {""};
    assert_non_null(mkdtemp(dir));
    for (uint32_t h = 0; h < 2; h++) {
        struct trace_writer *w;
        struct trace_options o = {.dir = dir,
                                  .name = hosts[h],
                                  .groups = cells,
                                  .group_count = 2,
                                  .hosts = hosts,
                                  .host_count = 2,
                                  .clients = hosts,
                                  .client_count = 2};
        struct trace_member m = {.host = h, .vid = 7};
        assert_int_equal(trace_open(&w, &o, &e), 0);
        trace_view(w, m, both, 2);
        trace_cell_start(w, m, 0, 0);
        if (h == 0)
            trace_cast(w, (struct trace_id){.client = 0, .seq = 17}, (struct trace_dst){&first, 1});
        if (h == 0)
            trace_cast(w, raw_id, (struct trace_dst){&second, 1});
        trace_cell_deliver(w, m, 0, 4 + h, (struct trace_id){.client = 0, .seq = 17});
        trace_raw_deliver(w, m, 1, raw_id);
        trace_out(w, m);
        assert_int_equal(trace_close(w, &e), 0);
    }
    struct amcast *a = amcast_open();
    struct load_report report = {0};
    assert_int_equal(load_views(a, v, dir, NULL, NULL, &report, &e), 0);
    assert_int_equal(report.views, 10);
    struct vsync_summary s;
    assert_false(vsync_verify(v, false)); /* the two have other numbers for it */
    vsync_summarise(v, &s);
    assert_int_not_equal(s.violations[VSYNC_SEQUENCE], 0);
    assert_int_equal(s.violations[VSYNC_VIEWS] + s.violations[VSYNC_INTEGRITY], 0);
    assert_int_equal(s.deliveries, 4);
    assert_int_equal(load_dir(a, dir, NULL, NULL, &report, &e), ERR_INVALID);
    amcast_close(a);
    for (uint32_t h = 0; h < 2; h++) {
        snprintf(path, sizeof(path), "%s/%s.jsonl", dir, hosts[h]);
        unlink(path);
    }
    rmdir(dir);
}

/* ---- raw cells, and who is out ---- */

static void raw(const char *name, uint64_t vid, const char *in, const char *id)
{
    vsync_deliver_raw(v, who(name, 0), cell(in), vid, vsync_message(v, id, strlen(id)), place());
}

/* In a raw cell each has its own order of senders, and one may be ahead of the view in which others deliver. */
static void check__a_raw_cell_has_the_order_of_each_sender(void **state)
{
    (void)state;
    a_run();
    raw("a", 2, "x", "a:7");
    raw("a", 2, "x", "b:7");
    raw("b", 2, "x", "b:7");
    begins("b", 3, "ab");
    raw("b", 3, "x", "a:7");
    raw("b", 3, "x", "a:9");
    casts("a:7");
    casts("a:9");
    casts("b:7");
    expect_only(VSYNC_PROPERTIES, false);
}

static void check__a_raw_message_comes_once(void **state)
{
    (void)state;
    a_run();
    casts("a:7");
    raw("a", 2, "x", "a:7");
    raw("a", 2, "x", "a:7");
    expect_only(VSYNC_FIFO, false);
}

static void check__a_raw_message_is_not_left_out(void **state)
{
    (void)state;
    a_run();
    casts("a:7");
    casts("a:8");
    casts("a:9");
    raw("a", 2, "x", "a:7");
    raw("a", 2, "x", "a:9");
    expect_only(VSYNC_FIFO, false);
}

/* Left out by all of them. */
static void check__a_message_is_not_left_out(void **state)
{
    (void)state;
    a_run();
    casts("a:4");
    casts("a:5");
    delivers("a", 2, 0, "a:3");
    delivers("b", 2, 0, "a:3");
    delivers("a", 2, 2, "a:5");
    expect_only(VSYNC_FIFO, false);
}

/* It was put out in between, and what it had under way is lost. */
static void check__between_views_a_message_may_be_lost(void **state)
{
    (void)state;
    a_run();
    casts("a:4");
    casts("a:5");
    delivers("a", 2, 0, "a:3");
    delivers("b", 2, 0, "a:3");
    begins("b", 3, "ab");
    starts("b", 3, 0);
    delivers("b", 3, 0, "a:5");
    expect_only(VSYNC_PROPERTIES, false);
}

static void check__a_raw_message_was_cast_to_the_cell(void **state)
{
    (void)state;
    a_run();
    casts("a:7");
    raw("a", 2, "y", "a:7");
    expect_only(VSYNC_INTEGRITY, false);
}

static void check__a_raw_delivery_is_in_the_view_of_its_member(void **state)
{
    (void)state;
    a_run();
    casts("a:7");
    raw("a", 1, "x", "a:7");
    expect_only(VSYNC_INTEGRITY, false);
}

/* Who was put out of view 2 and is let into view 3 at once lacks what it did not hear of. */
static void check__who_was_out_does_not_go_on(void **state)
{
    (void)state;
    a_run();
    delivers("a", 2, 0, "a:3");
    begins("a", 3, "ab");
    starts("a", 3, 0);
    vsync_out(v, who("b", 0));
    begins("b", 3, "ab");
    starts("b", 3, 0);
    expect_only(VSYNC_PROPERTIES, false);
}

static void check__who_is_out_delivers_nothing(void **state)
{
    (void)state;
    a_run();
    vsync_out(v, who("b", 0));
    delivers("b", 2, 0, "a:3");
    expect_only(VSYNC_INTEGRITY, false);
}

/* The same number of its sender, and another checksum. */
static void check__another_content_is_another_message(void **state)
{
    (void)state;
    a_run();
    casts("a:3.1");
    delivers("a", 2, 0, "a:3.1");
    delivers("b", 2, 0, "a:3.2");
    struct vsync_summary s;
    assert_false(vsync_verify(v, false));
    vsync_summarise(v, &s);
    assert_int_not_equal(s.violations[VSYNC_SEQUENCE], 0);
}

static void check__a_checksum_is_not_part_of_the_number(void **state)
{
    (void)state;
    a_run();
    casts("a:3.9");
    casts("a:4.1");
    delivers("a", 2, 0, "a:4.1");
    delivers("a", 2, 2, "a:3.9");
    expect_only(VSYNC_FIFO, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(check__what_is_right_passes),
        T(check__one_view_has_one_content),
        T(check__who_begins_a_view_is_in_it),
        T(check__views_rise),
        T(check__a_minority_does_not_go_on),
        T(check__a_delivery_is_in_the_view_of_its_member),
        T(check__a_message_is_delivered_in_one_view),
        T(check__a_message_was_cast),
        T(check__its_sender_is_a_member),
        T(check__who_has_not_started_delivers_nothing),
        T(check__a_number_is_one_message),
        T(check__numbers_rise),
        T(check__nothing_is_left_out),
        T(check__what_the_dead_delivered_all_deliver_who_go_on),
        T(check__who_joins_delivers_from_its_state_on),
        T(check__a_sender_is_heard_in_its_order),
        T(check__traces_are_written_read_and_judged),
        T(check__a_raw_cell_has_the_order_of_each_sender),
        T(check__a_raw_message_comes_once),
        T(check__a_raw_message_was_cast_to_the_cell),
        T(check__a_raw_message_is_not_left_out),
        T(check__a_message_is_not_left_out),
        T(check__between_views_a_message_may_be_lost),
        T(check__a_raw_delivery_is_in_the_view_of_its_member),
        T(check__who_was_out_does_not_go_on),
        T(check__who_is_out_delivers_nothing),
        T(check__another_content_is_another_message),
        T(check__a_checksum_is_not_part_of_the_number),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
