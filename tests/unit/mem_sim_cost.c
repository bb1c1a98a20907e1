#include "mem/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OWNER, WRITER, OTHER, NODES, RING = MEM_PAGE_BYTES };
enum { WAY = 1000, POST = 100, STORE = 7, ACK = 400, RAISE = 5000 };

static struct sim_options costs(uint64_t byte_ps)
{
    return (struct sim_options){
        .seed = 1,
        .nodes_max = NODES,
        .delay_ns_min = WAY,
        .delay_ns_max = WAY,
        .lost_after_ns = 1000000,
        .costs = {.on = true,
                  .post_ns = POST,
                  .store_ns = STORE,
                  .copy_ps = 500,
                  .byte_ps = byte_ps,
                  .ack_ns = ACK,
                  .raise_ns = RAISE},
    };
}

/* A writer's end of a lane of OWNER's, and the owner's. */
struct end {
    struct mem *mem;
    struct mem_lane *lane, *own;
    struct mem_flow flow;
};

struct fixture {
    struct sim *w;
    struct mem *owner;
    struct end end[NODES]; /* by writer */
};

static void open_all(struct fixture *f, const struct sim_options *o)
{
    struct err e = {""};
    enum mem_birth birth;
    f->w = sim_open(o, &e);
    assert_non_null(f->w);
    f->owner = sim_node_start(f->w, OWNER);
    assert_int_equal(mem_region_open(f->owner, 0, &birth, &e), 0);
    for (uint32_t n = 0; n < NODES; n++) {
        struct mem_lane_spec s = {
            .owner = OWNER, .writer = n, .ctl_words = 4, .ring_bytes = RING, .kind = 1};
        struct end *d = &f->end[n];
        d->mem = n == OWNER ? f->owner : sim_node_start(f->w, n);
        assert_int_equal(mem_lanes_open(f->owner, &s, 1, &d->own, &e), 0);
        assert_int_equal(mem_lanes_open(d->mem, &s, 1, &d->lane, &e), 0);
        mem_flow_open(d->mem, &d->flow, OWNER, 0, 0);
    }
}

static void set(struct end *d, uint32_t word)
{
    mem_set1(d->mem, &d->flow, d->lane, word, 1);
}

/* When the word is there. */
static uint64_t lands_ns(struct fixture *f, const struct end *d, uint32_t word)
{
    while (mem_word(d->own, word) == 0)
        assert_true(sim_step(f->w));
    return sim_now(f->w);
}

static uint64_t done_ns(struct fixture *f, struct end *d)
{
    while (d->flow.done != d->flow.marked) {
        assert_true(sim_step(f->w));
        mem_poll(d->mem);
    }
    return sim_now(f->w);
}

static void sim_cost__writes_leave_one_after_the_other(void **state)
{
    (void)state;
    struct fixture f;
    struct sim_options o = costs(0);
    open_all(&f, &o);
    struct end *d = &f.end[WRITER];
    sim_work(f.w, WRITER, 50);
    for (uint32_t i = 0; i < 4; i++)
        set(d, i);
    assert_int_equal(sim_busy_ns(f.w, WRITER), 50 + 4 * POST);
    assert_int_equal(sim_busy_ns(f.w, OWNER), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(lands_ns(&f, d, i), 50 + (i + 1) * POST + WAY);
    sim_close(f.w);
}

static void sim_cost__writer_hears_after_the_ack(void **state)
{
    (void)state;
    struct fixture f;
    struct sim_options o = costs(0);
    open_all(&f, &o);
    struct end *d = &f.end[WRITER];
    set(d, 0);
    mem_mark(d->mem, &d->flow, 1);
    assert_int_equal(done_ns(&f, d), POST + WAY + ACK);
    sim_close(f.w);
}

/* One sender's writes wait for each other at its own end of the link, those of two at the end of their
 * common owner. */
static void sim_cost__bytes_take_both_ends_of_the_link(void **state)
{
    (void)state;
    enum { BYTES = 1024, TAKES = 2 * BYTES };
    unsigned char bytes[BYTES];
    struct fixture f;
    struct sim_options o = costs(2000);
    memset(bytes, 1, sizeof(bytes));
    open_all(&f, &o);
    struct end *d = &f.end[WRITER];
    for (uint32_t i = 0; i < 2; i++)
        mem_put(d->mem, &d->flow, d->lane, i * BYTES, bytes, BYTES);
    set(d, 0);
    assert_int_equal(lands_ns(&f, d, 0), POST + 2 * TAKES + 8 * 2 + WAY);

    uint64_t start = sim_now(f.w);
    for (uint32_t n = WRITER; n <= OTHER; n++) {
        struct end *to = &f.end[n];
        mem_put(to->mem, &to->flow, to->lane, 0, bytes, BYTES);
        set(to, 1);
    }
    lands_ns(&f, &f.end[WRITER], 1);
    assert_int_equal(lands_ns(&f, &f.end[OTHER], 1) - start, POST + WAY + 2 * (TAKES + 8 * 2));
    sim_close(f.w);
}

static void sim_cost__writes_within_a_place_are_there_at_once(void **state)
{
    (void)state;
    uint64_t words[16] = {1};
    struct fixture f;
    struct sim_options o = costs(2000);
    open_all(&f, &o);
    sim_place(f.w, OTHER, OWNER);
    for (uint32_t n = OWNER; n < NODES; n += OTHER) {
        struct end *d = &f.end[n];
        uint64_t before = sim_busy_ns(f.w, OWNER);
        mem_put(d->mem, &d->flow, d->lane, 0, words, sizeof(words));
        set(d, 0);
        mem_mark(d->mem, &d->flow, 1);
        assert_int_equal(mem_word(d->own, 0), 1);
        assert_memory_equal(d->own->ring, words, sizeof(words));
        mem_poll(d->mem);
        assert_int_equal(d->flow.done, 1);
        assert_int_equal(sim_busy_ns(f.w, OWNER) - before, 2 * STORE + sizeof(words) / 2 + 4);
    }
    assert_int_equal(sim_now(f.w), 0);
    sim_close(f.w);
}

static void sim_cost__raise_takes_its_time(void **state)
{
    (void)state;
    struct fixture f;
    struct sim_options o = costs(0);
    struct mem_op op;
    open_all(&f, &o);
    mem_raise(f.end[WRITER].mem, &op, OWNER, 0, 3);
    while (op.status == MEM_PENDING) {
        assert_true(sim_step(f.w));
        mem_poll(f.end[WRITER].mem);
    }
    assert_int_equal(op.status, MEM_DONE);
    assert_int_equal(sim_now(f.w), POST + WAY + RAISE + WAY);
    sim_close(f.w);
}

static void sim_cost__refuses_what_it_cannot_price(void **state)
{
    (void)state;
    struct err e = {""};
    struct sim_options o = costs(0);
    o.tear_per_million = 1;
    assert_null(sim_open(&o, &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_cost__writes_leave_one_after_the_other),
        cmocka_unit_test(sim_cost__writer_hears_after_the_ack),
        cmocka_unit_test(sim_cost__bytes_take_both_ends_of_the_link),
        cmocka_unit_test(sim_cost__writes_within_a_place_are_there_at_once),
        cmocka_unit_test(sim_cost__raise_takes_its_time),
        cmocka_unit_test(sim_cost__refuses_what_it_cannot_price),
    };
    return cmocka_run_group_tests_name("sim_cost", tests, NULL, NULL);
}
