/* Simulated connections over which the owner judges: what is particular to them, and that each of their planted bugs
 * breaks a promise of mem.h. */
#include "../mem_race.h"
#include "mem/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    OWNER,
    WRITER,
    CANDIDATE,
    NODES,
    RING = MEM_PAGE_BYTES,
    FRAME = 64,
    SEEDS = 200,
};

static struct {
    struct sim *w;
    struct sim_options opt;
    struct mem *node[NODES];
    struct mem_lane *own, *out,
        *seen; /* the same lane: its owner's, its writer's, the candidate's */
    struct rng rng;
} rig;

static const struct mem_lane_spec spec = {
    .owner = OWNER, .writer = WRITER, .region = 0, .kind = 7, .ctl_words = 2, .ring_bytes = RING};

static struct mem_lane *lane_open(struct mem *m)
{
    struct mem_lane *l;

    assert_int_equal(mem_lanes_open(m, &spec, 1, &l, NULL), 0);
    return l;
}

static void nothing(void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
}

/* Time goes by, and nobody polls. */
static void pass(uint64_t ns)
{
    uint64_t end = sim_now(rig.w) + ns;

    sim_at(rig.w, end, nothing, NULL, 0);
    while (sim_now(rig.w) < end)
        assert_true(sim_step(rig.w));
}

/* All poll, and the next thing happens. */
static void step(void)
{
    for (int i = 0; i < NODES; i++)
        mem_poll(rig.node[i]);
    if (!sim_step(rig.w))
        sim_pass(rig.w, sim_now(rig.w) + 100);
}

static void steps(int n)
{
    for (int i = 0; i < n; i++)
        step();
}

static void connect_all(void)
{
    bool all = false;

    for (int n = 0; n < 10000 && !all; n++) {
        step();
        all = true;
        for (uint32_t a = 0; a < NODES; a++)
            for (uint32_t b = 0; b < NODES; b++)
                all = all && (a == b || sim_connected(rig.w, a, b));
    }
    assert_true(all);
}

static void begin(uint64_t seed, enum sim_flaw flaw)
{
    enum mem_birth birth;

    rig.opt = (struct sim_options){
        .seed = seed,
        .nodes_max = NODES,
        .delay_ns_min = 200,
        .delay_ns_max = 2000,
        .tear_per_million = 1000000, /* of which nothing is seen here */
        .lost_after_ns = 100000,
        .links = {.on = true, .judged = true, .frame_bytes = FRAME, .flaw = flaw},
    };
    rig.w = sim_open(&rig.opt, NULL);
    assert_non_null(rig.w);
    rng_init(&rig.rng, seed);
    for (uint32_t i = 0; i < NODES; i++) {
        rig.node[i] = sim_node_start(rig.w, i);
        assert_int_equal(mem_region_open(rig.node[i], 0, &birth, NULL), 0);
    }
    rig.own = lane_open(rig.node[OWNER]);
    rig.out = lane_open(rig.node[WRITER]);
    rig.seen = lane_open(rig.node[CANDIDATE]);
    connect_all();
}

static void end(void)
{
    sim_close(rig.w);
}

static enum mem_status finish(struct mem_op *op)
{
    while (op->status == MEM_PENDING)
        step();
    return op->status;
}

static enum mem_status raise_by(uint32_t node, uint64_t ballot)
{
    struct mem_op op;

    mem_raise(rig.node[node], &op, OWNER, 0, ballot);
    return finish(&op);
}

static enum mem_status settle(struct mem_flow *f)
{
    while (f->status == MEM_DONE && f->done != f->marked)
        step();
    return f->status;
}

/* Writes are there when their owner has polled, and neither before nor in part; their writer hears of it later. */
static void sim_stream__nothing_lands_before_its_owner_polls(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct mem_flow f;

        begin(seed, SIM_SOUND);
        mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
        mem_set(rig.node[WRITER], &f, rig.out, 0, (uint64_t[]){5, 5}, 2);
        mem_mark(rig.node[WRITER], &f, 1);
        mem_flush(rig.node[WRITER]);
        pass(rig.opt.lost_after_ns / 2);
        mem_poll(rig.node[WRITER]);
        assert_int_equal(mem_word(rig.own, 0), 0);
        assert_int_equal(f.done, 0);
        while (mem_word(rig.own, 0) == 0)
            mem_poll(rig.node[OWNER]);
        assert_int_equal(mem_word(rig.own, 1), 5);
        mem_poll(rig.node[WRITER]);
        assert_int_equal(f.done, 0); /* the answer has not come yet */
        assert_int_equal(settle(&f), MEM_DONE);
        end();
    }
}

/* What was issued and has not been sent waits for a poll, now and then all of it. */
static void sim_stream__writes_leave_with_a_poll_at_the_latest(void **state)
{
    (void)state;
    uint64_t waited = 0, left = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct mem_flow f;

        begin(seed, SIM_SOUND);
        mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
        mem_set1(rig.node[WRITER], &f, rig.out, 0, 5);
        pass(rig.opt.lost_after_ns / 2);
        for (int i = 0; i < 20; i++)
            mem_poll(rig.node[OWNER]);
        waited += mem_word(rig.own, 0) == 0;
        left += mem_word(rig.own, 0) == 5;
        mem_mark(rig.node[WRITER], &f, 1);
        assert_int_equal(settle(&f), MEM_DONE);
        end();
    }
    assert_true(waited > SEEDS / 2 && left > SEEDS / 10 && waited + left == SEEDS);
}

/* Many marks that are taken in one poll have one answer. */
static void sim_stream__an_owner_answers_once_a_poll(void **state)
{
    (void)state;
    enum { MARKS = 20 };
    uint64_t answers = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct mem_flow f;

        begin(seed, SIM_SOUND);
        mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
        for (uint64_t k = 1; k <= MARKS; k++) {
            mem_set1(rig.node[WRITER], &f, rig.out, 0, k);
            mem_mark(rig.node[WRITER], &f, k);
        }
        mem_flush(rig.node[WRITER]);
        pass(rig.opt.lost_after_ns / 4);
        for (uint64_t before = 0; f.done < MARKS; before = f.done) {
            step();
            answers += f.done > before;
            assert_true(f.done <= mem_word(rig.own, 0));
        }
        end();
    }
    assert_true(answers < 2 * SEEDS);
}

/* A long put is several frames: each lands as a whole, and a connection that breaks leaves the first ones. */
static void sim_stream__a_break_leaves_whole_frames_from_the_first_on(void **state)
{
    (void)state;
    enum { FRAMES = 8, WORDS = FRAMES * FRAME / 8 };
    uint64_t none = 0, all = 0, part = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t data[WORDS], frames = 0;
        struct mem_flow f;

        begin(seed, SIM_SOUND);
        memset(rig.own->ring, 0, RING);
        for (uint64_t i = 0; i < WORDS; i++)
            data[i] = i + 1;
        mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
        mem_put(rig.node[WRITER], &f, rig.out, RING - 2 * FRAME, data, sizeof data);
        mem_mark(rig.node[WRITER], &f, 1);
        mem_flush(rig.node[WRITER]);
        pass(rng_below(&rig.rng, 3000));
        sim_break(rig.w, WRITER, OWNER);
        while (f.status ==
               MEM_DONE) { /* its owner has not polled, so all that lands does so after that */
            assert_true(sim_step(rig.w));
            mem_poll(rig.node[WRITER]);
        }
        connect_all();
        for (uint64_t i = 0; i < WORDS; i++) {
            uint64_t word;
            memcpy(&word, rig.own->ring + (RING - 2 * FRAME + 8 * i) % RING, 8);
            bool here = word == i + 1;
            assert_true(here || word == 0);
            if (i % (FRAME / 8) == 0 && here)
                frames = i / (FRAME / 8) + 1;
            assert_int_equal(here, i / (FRAME / 8) < frames);
        }
        none += frames == 0;
        all += frames == FRAMES;
        part += frames > 0 && frames < FRAMES;
        assert_int_equal(f.status, MEM_LOST);
        assert_int_equal(f.done, 0);
        end();
    }
    assert_true(none > 10 && all > 10 && part > 5);
}

/* A write under a ballot that is not promised does not land; once that has been found its flow goes on never more, though
 * the ballot be promised later. Returns false if it does. */
static bool denied_for_good(uint64_t seed, enum sim_flaw flaw)
{
    struct mem_flow f;
    struct mem_op op;

    begin(seed, flaw);
    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 5);
    mem_set1(rig.node[WRITER], &f, rig.out, 0, 1); /* before its raise: not what one does */
    mem_raise(rig.node[WRITER], &op, OWNER, 0, 5);
    mem_set1(rig.node[WRITER], &f, rig.out, 1, 2);
    mem_mark(rig.node[WRITER], &f, 1);
    assert_int_equal(finish(&op), MEM_DONE);
    settle(&f);
    steps(100);
    bool good = f.status == MEM_DENIED && f.done == 0 && mem_word(rig.own, 0) == 0 &&
                mem_word(rig.own, 1) == 0;
    if (flaw == SIM_SOUND) { /* and another flow is good */
        mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 5);
        mem_set1(rig.node[WRITER], &f, rig.out, 0, 3);
        mem_mark(rig.node[WRITER], &f, 1);
        assert_int_equal(settle(&f), MEM_DONE);
        assert_int_equal(mem_word(rig.own, 0), 3);
    }
    end();
    return good;
}

static void sim_stream__who_was_denied_stays_denied(void **state)
{
    (void)state;
    uint64_t revived = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_true(denied_for_good(seed, SIM_SOUND));
        revived += !denied_for_good(seed, SIM_DENIED_REVIVES);
    }
    assert_true(revived > SEEDS / 2);
}

static bool race_holds(uint64_t seed, enum sim_flaw flaw)
{
    static uint64_t ring[RING / 8];

    begin(seed, flaw);
    struct race r = {.writer = rig.node[WRITER],
                     .candidate = rig.node[CANDIDATE],
                     .out = rig.out,
                     .seen = rig.seen,
                     .ballot = 1,
                     .rng = &rig.rng,
                     .step = step,
                     .ring = ring,
                     .until_ns = clock_now_ns() + 20000000000u};
    assert_int_equal(raise_by(WRITER, 1), MEM_DONE);
    const char *broken = race_run(&r);
    end();
    return broken == NULL;
}

/* Whoever raises sees, when that is answered, all that was or will be reported done; three of the planted bugs are
 * that he does not. */
static void sim_stream__a_raise_is_in_force_when_it_is_answered(void **state)
{
    (void)state;
    static const enum sim_flaw flaws[] = {SIM_UNJUDGED, SIM_DONE_EARLY, SIM_RAISE_EARLY};

    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        assert_true(race_holds(seed, SIM_SOUND));
    for (size_t i = 0; i < sizeof flaws / sizeof *flaws; i++) {
        uint64_t broken = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            broken += !race_holds(seed, flaws[i]);
        assert_true(broken > 5);
    }
}

/* A read is answered behind what the same node wrote before it. */
static void sim_stream__a_read_sees_what_its_asker_wrote_before(void **state)
{
    (void)state;
    begin(1, SIM_SOUND);
    struct mem_flow f;

    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
    for (uint64_t k = 1; k <= 500; k++) {
        struct mem_op op;
        uint64_t words[2];
        mem_set(rig.node[WRITER], &f, rig.out, 0, (uint64_t[]){k, k}, 2);
        mem_read_ctl(rig.node[WRITER], &op, rig.out, 0, 2, words);
        assert_int_equal(finish(&op), MEM_DONE);
        assert_int_equal(words[0], k);
        assert_int_equal(words[1], k);
    }
    end();
}

/* Of a connection that has broken nothing comes behind the first frame of the next one. False: it does. */
static bool old_is_gone(uint64_t seed, enum sim_flaw flaw)
{
    struct mem_flow f;

    begin(seed, flaw);
    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
    for (uint64_t k = 1; k <= 10; k++)
        mem_set1(rig.node[WRITER], &f, rig.out, 0, k);
    mem_flush(rig.node[WRITER]);
    pass(rng_below(&rig.rng, 2000));
    sim_break(rig.w, WRITER, OWNER);
    while (f.status == MEM_DONE || sim_connected(rig.w, OWNER, WRITER)) {
        assert_true(sim_step(rig.w)); /* its owner polls again when it knows */
        mem_poll(rig.node[WRITER]);
    }
    connect_all();
    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
    mem_set1(rig.node[WRITER], &f, rig.out, 0, 77);
    mem_mark(rig.node[WRITER], &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    steps(200);
    bool gone = mem_word(rig.own, 0) == 77;
    end();
    return gone;
}

static void sim_stream__an_old_connection_is_over_with_the_new(void **state)
{
    (void)state;
    uint64_t broken = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_true(old_is_gone(seed, SIM_SOUND));
        broken += !old_is_gone(seed, SIM_OLD_LANDS);
    }
    assert_true(broken > SEEDS / 10);
}

/* An answer to a flow that was closed is for nobody. False: the flow in its place took it. */
static bool answer_is_its_own(uint64_t seed, enum sim_flaw flaw)
{
    struct mem_flow f;

    begin(seed, flaw);
    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
    mem_set1(rig.node[WRITER], &f, rig.out, 0, 1);
    mem_mark(rig.node[WRITER], &f, 9);
    mem_flush(rig.node[WRITER]);
    mem_flow_close(rig.node[WRITER], &f);
    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
    steps(200);
    bool good = f.done == 0 && f.status == MEM_DONE;
    end();
    return good;
}

static void sim_stream__an_answer_is_for_the_flow_that_asked(void **state)
{
    (void)state;
    uint64_t mistaken = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        assert_true(answer_is_its_own(seed, SIM_SOUND));
        mistaken += !answer_is_its_own(seed, SIM_ANSWER_MISTAKEN);
    }
    assert_true(mistaken > SEEDS / 2);
}

/* An owner that takes nothing: what waits for it is bounded, and then the connection ends, for all. */
static void sim_stream__who_takes_nothing_is_lost(void **state)
{
    (void)state;
    begin(1, SIM_SOUND);
    end();
    struct sim_options o = rig.opt;
    o.links.queue_max = 20;
    struct mem_flow f, idle;
    struct mem_op op;
    enum mem_birth birth;

    rig.w = sim_open(&o, NULL);
    for (uint32_t i = 0; i < NODES; i++) {
        rig.node[i] = sim_node_start(rig.w, i);
        assert_int_equal(mem_region_open(rig.node[i], 0, &birth, NULL), 0);
    }
    rig.own = lane_open(rig.node[OWNER]);
    rig.out = lane_open(rig.node[WRITER]);
    connect_all();
    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
    mem_flow_open(rig.node[WRITER], &idle, OWNER, 0, 0);
    mem_raise(rig.node[WRITER], &op, OWNER, 0, 4);
    sim_node_pause(rig.w, OWNER, true);
    uint64_t wrote = 0;
    while (f.status == MEM_DONE) {
        mem_set1(rig.node[WRITER], &f, rig.out, 0, ++wrote);
        mem_flush(rig.node[WRITER]);
        pass(o.lost_after_ns / 50);
    }
    assert_int_equal(f.status, MEM_LOST);
    assert_true(wrote >= o.links.queue_max && sim_now(rig.w) < 100 * o.lost_after_ns);
    assert_int_equal(mem_word(rig.own, 0), 0);
    while (idle.status == MEM_DONE || op.status == MEM_PENDING) {
        pass(1000);
        mem_poll(rig.node[WRITER]);
    }
    assert_int_equal(idle.status, MEM_LOST);
    assert_int_equal(op.status, MEM_LOST);
    sim_node_pause(rig.w, OWNER, false);
    connect_all();
    mem_flow_open(rig.node[WRITER], &f, OWNER, 0, 0);
    mem_set1(rig.node[WRITER], &f, rig.out, 0, 99);
    mem_mark(rig.node[WRITER], &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(rig.own, 0), 99);
    end();
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(sim_stream__nothing_lands_before_its_owner_polls),
        cmocka_unit_test(sim_stream__writes_leave_with_a_poll_at_the_latest),
        cmocka_unit_test(sim_stream__an_owner_answers_once_a_poll),
        cmocka_unit_test(sim_stream__a_break_leaves_whole_frames_from_the_first_on),
        cmocka_unit_test(sim_stream__who_was_denied_stays_denied),
        cmocka_unit_test(sim_stream__a_raise_is_in_force_when_it_is_answered),
        cmocka_unit_test(sim_stream__a_read_sees_what_its_asker_wrote_before),
        cmocka_unit_test(sim_stream__an_old_connection_is_over_with_the_new),
        cmocka_unit_test(sim_stream__an_answer_is_for_the_flow_that_asked),
        cmocka_unit_test(sim_stream__who_takes_nothing_is_lost),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
