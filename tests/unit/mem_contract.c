/* The contract of mem.h, the same cases on every backend: the simulator, without connections, with those of libfabric's
 * two providers and with those of our own sockets, shared memory, libfabric in both of its ways to judge a mark, and
 * sockets, encrypted and not. All nodes are in this thread. What only one backend has is
 * in its own file. */
#include "../far_fixture.h"
#include "../mem_race.h"
#include "mem/shm/shm.h"
#include "mem/sim/sim.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "../holds.h"

enum {
    HOSTS = 3,
    CLIENT = HOSTS,
    REGION = 7,
    OTHER_REGION = 8,
    KIND = 1,
    WORDS = 16,
    RING = 65536
};
enum backend {
    SIM,
    SIM_TOLD,
    SIM_READ_BACK,
    SIM_JUDGED,
    SIM_SHARED,
    SHM,
    OFI_TOLD,
    OFI_READ_BACK,
    TCP,
    TCP_CLEAR
};

static const char *const host_names[] = {"h0", "h1", "h2"};

/* ---- a cluster on a backend ---- */

struct node {
    struct mem *mem; /* NULL: not there */
    enum mem_birth birth;
    struct mem_lane *lane[HOSTS][HOSTS]; /* [owner][writer] of REGION */
    struct mem_lane *other[HOSTS][HOSTS];
};

static struct {
    enum backend backend;
    struct sim *sim;
    struct far_fixture far;
    char shm_dir[64];
    struct rng rng;
    struct node node[HOSTS];
} rig;

static bool simulated(void)
{
    return rig.backend <= SIM_SHARED;
}

static struct mem_lane_spec spec(uint32_t owner, uint32_t writer, uint32_t region)
{
    return (struct mem_lane_spec){.owner = owner,
                                  .writer = writer,
                                  .region = region,
                                  .kind = KIND,
                                  .ctl_words = WORDS,
                                  .ring_bytes = RING};
}

static struct mem *node_mem(uint32_t i)
{
    struct err e = {""};
    struct mem *m = NULL;
    int rc = 0;

    if (simulated()) {
        m = sim_node_start(rig.sim, i);
    } else if (rig.backend == SHM) {
        struct shm_node hosts[HOSTS];
        for (uint32_t h = 0; h < HOSTS; h++)
            hosts[h] = (struct shm_node){.name = host_names[h], .node = h, .role = SHM_HOST};
        struct shm_options o = {.dir = rig.shm_dir,
                                .cluster = "test",
                                .self = hosts[i],
                                .hosts = hosts,
                                .hosts_count = HOSTS};
        rc = shm_open_node(&o, &m, &e);
    } else {
        rc = far_fixture_open(&rig.far, i, &m, &e);
    }
    if (rc != 0)
        fail_msg("open node %u: %s", i, e.text);
    return m;
}

/* Time goes by: what is under way gets a chance to come about, some of it. */
static void step(void)
{
    if (simulated() && !sim_step(rig.sim))
        sim_pass(rig.sim, sim_now(rig.sim) + 100);
    for (int i = 0; i < HOSTS; i++)
        if (rig.node[i].mem)
            mem_poll(rig.node[i].mem);
}

static bool connected(uint32_t from, uint32_t to)
{
    struct node *n = &rig.node[from];

    if (from == to)
        return true;
    if (simulated())
        return sim_connected(rig.sim, from, to);
    bool up = rig.backend == SHM ? shm_connected(n->mem, to) : far_connected(n->mem, to);
    return up && n->lane[from][to]->ctl;
}

static void connect_all(void)
{
    uint64_t until = clock_now_ns() + 10000000000u;
    bool all = false;

    while (!all && clock_now_ns() < until) {
        all = true;
        step();
        for (uint32_t i = 0; i < HOSTS; i++)
            for (uint32_t k = 0; k < HOSTS; k++)
                if (rig.node[i].mem && rig.node[k].mem)
                    all = all && connected(i, k);
        if (!all && !simulated())
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    assert_true(all);
}

static void node_open(uint32_t i)
{
    struct node *n = &rig.node[i];
    struct mem_lane_spec specs[HOSTS * HOSTS];
    enum mem_birth other;
    struct err e = {""};

    n->mem = node_mem(i);
    assert_int_equal(mem_region_open(n->mem, REGION, &n->birth, &e), 0);
    assert_int_equal(mem_region_open(n->mem, OTHER_REGION, &other, &e), 0);
    for (uint32_t k = 0; k < HOSTS * HOSTS; k++)
        specs[k] = spec(k / HOSTS, k % HOSTS, REGION);
    assert_int_equal(mem_lanes_open(n->mem, specs, HOSTS * HOSTS, &n->lane[0][0], &e), 0);
    for (uint32_t k = 0; k < HOSTS * HOSTS; k++)
        specs[k].region = OTHER_REGION;
    assert_int_equal(mem_lanes_open(n->mem, specs, HOSTS * HOSTS, &n->other[0][0], &e), 0);
}

/* Ends a node's life, as a crash that costs its memory where that is possible. */
static void node_end(uint32_t i)
{
    if (simulated())
        sim_node_crash(rig.sim, i, false);
    else
        mem_close(rig.node[i].mem);
    rig.node[i].mem = NULL;
}

static void rig_begin(enum backend b)
{
    struct sim_options o = {
        .seed = 1,
        .nodes_max = HOSTS + 1,
        .clients_from = CLIENT,
        .delay_ns_min = 200,
        .delay_ns_max = 2000,
        .tear_per_million = 300000,
        .lost_after_ns = 100000,
        .owner_answers = b != SIM_SHARED,
        .shared = b == SIM_SHARED,
        .links = {.on = b == SIM_TOLD || b == SIM_READ_BACK || b == SIM_JUDGED,
                  .passive = b == SIM_READ_BACK,
                  .judged = b == SIM_JUDGED,
                  .frame_bytes = 256,
                  .late_per_million = 10000,
                  .late_ns_max = 20000},
    };
    struct err e = {""};

    memset(&rig, 0, sizeof rig);
    rig.backend = b;
    rng_init(&rig.rng, 1);
    if (simulated()) {
        rig.sim = sim_open(&o, &e);
        assert_non_null(rig.sim);
    } else if (b == SHM) {
        snprintf(rig.shm_dir, sizeof rig.shm_dir, "/tmp/tram-contract-XXXXXX");
        assert_non_null(mkdtemp(rig.shm_dir));
    } else {
        far_fixture_begin(&rig.far);
        rig.far.read_back = b == OFI_READ_BACK;
        rig.far.carrier = b == TCP         ? FAR_FIXTURE_TCP
                          : b == TCP_CLEAR ? FAR_FIXTURE_CLEAR
                                           : FAR_FIXTURE_OFI;
    }
}

static void rig_open(uint32_t nodes)
{
    for (uint32_t i = 0; i < nodes; i++)
        node_open(i);
    connect_all();
}

static void rig_end(void)
{
    for (int i = 0; i < HOSTS; i++)
        if (rig.node[i].mem && !simulated())
            mem_close(rig.node[i].mem);
    if (simulated())
        sim_close(rig.sim);
    else if (rig.backend == SHM)
        rmdir(rig.shm_dir);
    else
        far_fixture_end(&rig.far);
}

static uint64_t patience(void)
{
    return clock_now_ns() + 20000000000u; /* only a hang reaches it */
}

static enum mem_status finish(struct mem_op *op)
{
    for (uint64_t until = patience(); op->status == MEM_PENDING && clock_now_ns() < until;)
        step();
    return op->status;
}

static enum mem_status raise_by(uint32_t node, uint32_t owner, uint64_t ballot, uint64_t *value)
{
    struct mem_op op;

    mem_raise(rig.node[node].mem, &op, owner, REGION, ballot);
    finish(&op);
    if (value)
        *value = op.value;
    return op.status;
}

/* Until the flow has what was marked, or has failed. */
static enum mem_status settle(struct mem_flow *f)
{
    for (uint64_t until = patience();
         f->status == MEM_DONE && f->done != f->marked && clock_now_ns() < until;)
        step();
    return f->done == f->marked || f->status != MEM_DONE ? f->status : MEM_PENDING;
}

static void steps(int n)
{
    for (int i = 0; i < n; i++)
        step();
}

/* ---- cases ---- */

static void the_owner_sees_what_a_writer_puts(void)
{
    unsigned char data[96], back[96];
    struct mem_flow f;
    struct mem_op op;

    rig_open(HOSTS);
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i + 1);
    struct mem_lane *theirs = rig.node[0].lane[1][0], *own = rig.node[1].lane[1][0];
    assert_null(theirs->ctl); /* not ours */
    mem_flow_open(rig.node[0].mem, &f, 1, REGION, 0);
    assert_int_equal(f.status, MEM_DONE);
    uint64_t pos = 5ul * RING - 40; /* wraps, in a late lap */
    mem_put(rig.node[0].mem, &f, theirs, pos, data, sizeof data);
    memset(back, 0xee, sizeof back);
    mem_set1(rig.node[0].mem, &f, theirs, 2, pos + sizeof data);
    mem_mark(rig.node[0].mem, &f, 1);
    assert_int_equal(f.done, 0);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(own, 2), pos + sizeof data);
    assert_memory_equal(own->ring + pos % RING, data, 40);
    assert_memory_equal(own->ring, data + 40, sizeof data - 40);
    mem_take(rig.node[1].mem, own, pos, back, sizeof back);
    assert_memory_equal(back, data, sizeof data);
    /* The owner reads it, the writer, and a third. */
    for (int i = 0; i < HOSTS; i++) {
        memset(back, 0, sizeof back);
        mem_read_ring(rig.node[i].mem, &op, rig.node[i].lane[1][0], pos, back, sizeof back);
        assert_int_equal(finish(&op), MEM_DONE);
        assert_memory_equal(back, data, sizeof data);
    }
}

/* Two lanes of two regions, written in turn: at every instant the later write is not ahead. */
static void writes_land_in_order(void)
{
    struct mem_flow fa, fb;
    uint64_t k = 0;

    rig_open(2);
    struct mem_lane *a = rig.node[0].lane[0][1], *b = rig.node[0].other[0][1];
    mem_flow_open(rig.node[1].mem, &fa, 0, REGION, 0);
    mem_flow_open(rig.node[1].mem, &fb, 0, OTHER_REGION, 0);
    uint64_t until = patience();
    while ((k < 2000 || mem_word(b, 1) < k) && clock_now_ns() < until) {
        if (k < 2000) {
            uint64_t words[] = {++k, k};
            mem_set(rig.node[1].mem, &fa, rig.node[1].lane[0][1], 0, words, 2);
            mem_set(rig.node[1].mem, &fb, rig.node[1].other[0][1], 0, words, 2);
        }
        step();
        uint64_t a_least = mem_word(a, 0) < mem_word(a, 1) ? mem_word(a, 0) : mem_word(a, 1);
        uint64_t b_most = mem_word(b, 0) > mem_word(b, 1) ? mem_word(b, 0) : mem_word(b, 1);
        assert_true(b_most <= a_least);
    }
    assert_int_equal(mem_word(b, 1), k);
}

/* Entries of all sizes and a guard behind each: what the guard covers is there in full. */
static void a_guard_follows_its_data(void)
{
    static uint64_t data[RING / 8];
    struct mem_flow f;
    uint64_t pos = 0, seen = 0;
    enum { ENTRIES = 400, LAG = 4 };
    uint64_t at[ENTRIES + 1], words[ENTRIES + 1];

    rig_open(2);
    struct mem_lane *own = rig.node[0].lane[0][1], *out = rig.node[1].lane[0][1];
    mem_flow_open(rig.node[1].mem, &f, 0, REGION, 0);
    uint64_t until = patience();
    for (uint64_t entry = 1; seen < ENTRIES && clock_now_ns() < until;) {
        if (entry <= ENTRIES && entry <= seen + LAG) {
            words[entry] =
                rng_range(&rig.rng, 1, rng_below(&rig.rng, 4) ? 20 : RING / 8 / (LAG + 1));
            at[entry] = pos;
            for (uint64_t i = 0; i < words[entry]; i++)
                data[i] = (entry << 16) + i;
            mem_put(rig.node[1].mem, &f, out, pos, data, (uint32_t)words[entry] * 8);
            memset(data, 0xee, words[entry] * 8); /* they were taken */
            mem_set1(rig.node[1].mem, &f, out, 0, entry);
            pos += words[entry] * 8;
            entry++;
        }
        step();
        for (; seen < mem_word(own, 0); seen++)
            for (uint64_t i = 0; i < words[seen + 1]; i++) {
                uint64_t word;
                memcpy(&word, own->ring + (at[seen + 1] + 8 * i) % RING, 8);
                assert_int_equal(word, ((seen + 1) << 16) + i);
            }
    }
    assert_int_equal(seen, ENTRIES);
    assert_int_equal(f.status, MEM_DONE);
}

/* A tag is done only when what was written before its mark is in memory, and `done` changes in poll. */
static void done_means_landed(void)
{
    struct mem_flow f;

    rig_open(2);
    mem_flow_open(rig.node[1].mem, &f, 0, REGION, 0);
    for (uint64_t tag = 1; tag <= 1000; tag++) {
        uint64_t before = f.done;
        mem_set1(rig.node[1].mem, &f, rig.node[1].lane[0][1], 0, tag);
        if (tag % 3)
            mem_mark(rig.node[1].mem, &f, tag);
        assert_int_equal(f.done, before);
        for (uint64_t n = rng_below(&rig.rng, 4); n > 0; n--)
            step();
        assert_true(f.done <= mem_word(rig.node[0].lane[0][1], 0));
    }
    assert_int_equal(settle(&f), MEM_DONE);
    /* Also for what is there already, and for nothing at all. */
    steps(100);
    mem_mark(rig.node[1].mem, &f, 2000);
    assert_int_equal(settle(&f), MEM_DONE);
    mem_mark(rig.node[1].mem, &f, 2001);
    mem_mark(rig.node[1].mem, &f, 2002);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(f.done, 2002);
    mem_set1(rig.node[1].mem, &f, rig.node[1].lane[0][1], 0, 7);
    mem_bell(rig.node[1].mem, 0); /* it is on its way when it is marked */
    mem_mark(rig.node[1].mem, &f, 2003);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(rig.node[0].lane[0][1], 0), 7);
}

static void marks_of_many_flows_settle(void)
{
    struct mem_flow f[2 * HOSTS], idle;

    rig_open(HOSTS);
    mem_flow_open(rig.node[0].mem, &idle, 1, REGION, 0);
    for (uint32_t i = 0; i < 2 * HOSTS; i++) {
        uint32_t owner = i % HOSTS, region = i < HOSTS ? REGION : OTHER_REGION;
        struct mem_lane *l = i < HOSTS ? rig.node[0].lane[owner][0] : rig.node[0].other[owner][0];
        mem_flow_open(rig.node[0].mem, &f[i], owner, region, 0);
        for (unsigned k = 1; k <= 3; k++) {
            mem_set1(rig.node[0].mem, &f[i], l, 0, k);
            mem_mark(rig.node[0].mem, &f[i], k);
        }
    }
    for (uint32_t i = 0; i < 2 * HOSTS; i++) {
        assert_int_equal(settle(&f[i]), MEM_DONE);
        assert_int_equal(f[i].done, 3);
    }
    assert_int_equal(idle.done, 0);
}

static void a_raise_only_rises(void)
{
    struct mem_op op;
    uint64_t value;

    rig_open(2);
    assert_int_equal(mem_promised(rig.node[1].mem, REGION), 0);
    assert_int_equal(raise_by(0, 1, 5, &value), MEM_DONE);
    assert_int_equal(value, 5);
    assert_int_equal(raise_by(0, 1, 5, &value), MEM_DONE); /* again is no harm */
    assert_int_equal(mem_promised(rig.node[1].mem, REGION), 5);
    assert_int_equal(raise_by(0, 1, 4, &value), MEM_DENIED);
    assert_int_equal(value, 5);
    assert_int_equal(raise_by(1, 1, 6, NULL), MEM_DONE); /* its own */
    assert_int_equal(raise_by(0, 1, 5, &value), MEM_DENIED);
    assert_int_equal(value, 6);
    for (int i = 0; i < 2; i++) {
        mem_peek(rig.node[i].mem, &op, 1, REGION);
        assert_int_equal(finish(&op), MEM_DONE);
        assert_int_equal(op.value, 6);
    }
    /* Nobody has touched the other region. */
    assert_int_equal(mem_promised(rig.node[1].mem, OTHER_REGION), 0);
}

static void a_raise_takes_the_permission_away(void)
{
    struct mem_flow f;

    rig_open(HOSTS);
    struct mem *m = rig.node[0].mem;
    struct mem_lane *lane = rig.node[0].lane[1][0];
    assert_int_equal(raise_by(0, 1, 5, NULL), MEM_DONE);
    mem_flow_open(m, &f, 1, REGION, 5);
    mem_set1(m, &f, lane, 0, 1);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(f.done, 1);

    assert_int_equal(raise_by(2, 1, 6, NULL), MEM_DONE);
    mem_set1(m, &f, lane, 0, 2);
    mem_mark(m, &f, 2);
    assert_int_equal(settle(&f), MEM_DENIED);
    assert_int_equal(f.done, 1);
    /* Failed for good: nothing is written any more. */
    mem_set1(m, &f, lane, 0, 3);
    mem_mark(m, &f, 3);
    steps(100);
    assert_int_equal(f.status, MEM_DENIED);
    assert_int_equal(f.done, 1);
    assert_int_not_equal(mem_word(rig.node[1].lane[1][0], 0), 3);
    /* With a promise of its own it goes on. */
    assert_int_equal(raise_by(0, 1, 8, NULL), MEM_DONE);
    mem_flow_open(m, &f, 1, REGION, 8);
    mem_set1(m, &f, lane, 0, 4);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(rig.node[1].lane[1][0], 0), 4);
    /* A flow without a ballot needs none. */
    mem_flow_open(m, &f, 1, REGION, 0);
    mem_set1(m, &f, lane, 0, 5);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
}

/* The own memory promises like any other. */
static void the_own_memory_denies_too(void)
{
    struct mem_flow f;

    rig_open(2);
    struct mem *m = rig.node[0].mem;
    assert_int_equal(raise_by(0, 0, 3, NULL), MEM_DONE);
    mem_flow_open(m, &f, 0, REGION, 3);
    mem_set1(m, &f, rig.node[0].lane[0][0], 1, 9);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(rig.node[0].lane[0][0], 1), 9);
    assert_int_equal(raise_by(1, 0, 4, NULL), MEM_DONE);
    mem_set1(m, &f, rig.node[0].lane[0][0], 1, 10);
    mem_mark(m, &f, 2);
    assert_int_equal(settle(&f), MEM_DENIED);
    assert_int_equal(f.done, 1);
}

static void race_step(void)
{
    steps(simulated() ? 4 : 1); /* of which each is only one event */
}

static void a_done_write_is_seen_after_a_raise(void)
{
    static uint64_t ring[RING / 8];
    int some = 0, not_all = 0;

    rig_open(HOSTS);
    for (uint64_t i = 0; i < 300; i++) {
        uint32_t by = rng_below(&rig.rng, 4) ? 2 : 0; /* another, or the owner itself */
        struct race r = {.writer = rig.node[1].mem,
                         .candidate = rig.node[by].mem,
                         .out = rig.node[1].lane[0][1],
                         .seen = rig.node[by].lane[0][1],
                         .ballot = 2 * i + 1,
                         .rng = &rig.rng,
                         .step = race_step,
                         .ring = ring,
                         .until_ns = patience()};
        assert_int_equal(raise_by(1, 0, r.ballot, NULL), MEM_DONE);
        HOLDS(race_run(&r));
        some += r.done > 0;
        not_all += r.done < RACE_ENTRIES;
    }
    assert_true(some > 50 && not_all > 50);
}

static void a_reopened_flow_forgets_what_it_was(void)
{
    struct mem_flow f;

    rig_open(2);
    struct mem *m = rig.node[0].mem;
    memset(&f, 0xa5, sizeof f);
    mem_flow_open(m, &f, 1, REGION, 0);
    assert_int_equal(f.status, MEM_DONE);
    mem_mark(m, &f, 9);
    mem_flow_open(m, &f, 1, REGION, 0); /* while the mark is pending */
    steps(100);
    assert_int_equal(f.done, 0);
    mem_mark(m, &f, 1);
    mem_flow_close(m, &f);
    steps(100);
    assert_int_equal(f.done, 0);
    mem_flow_open(m, &f, 1, REGION, 0);
    mem_mark(m, &f, 4);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(f.done, 4);
}

static void who_is_not_there_is_lost(void)
{
    struct mem_flow f;
    struct mem_op op;

    rig_open(2);
    struct mem *m = rig.node[0].mem;
    mem_flow_open(m, &f, 2, REGION, 0);
    mem_set1(m, &f, rig.node[0].lane[2][0], 0, 1);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_LOST);
    assert_int_equal(raise_by(0, 2, 1, NULL), MEM_LOST);
    mem_peek(m, &op, 2, REGION);
    assert_int_equal(finish(&op), MEM_LOST);
    uint64_t word = 7;
    mem_read_ctl(m, &op, rig.node[0].lane[2][1], 0, 1, &word);
    assert_int_equal(finish(&op), MEM_LOST);
    assert_false(mem_dead(m, 2));
    /* A lane at a live owner whose writer has never come is as it was born. */
    mem_read_ctl(m, &op, rig.node[0].lane[1][2], 0, 1, &word);
    assert_int_equal(finish(&op), MEM_DONE);
    assert_int_equal(word, 0);
}

static void lanes_opened_later_connect_too(void)
{
    struct mem_lane *writer_side[2], *owner_side[2], *again[2];
    struct mem_lane_spec specs[2] = {spec(1, 0, REGION), spec(1, 0, REGION)};
    struct mem_flow f;
    struct err e;

    rig_open(2);
    specs[0].kind = 50;
    specs[1].kind = 51;
    specs[1].ring_bytes = 0;
    assert_int_equal(mem_lanes_open(rig.node[0].mem, specs, 2, writer_side, &e), 0);
    steps(100);
    assert_int_equal(mem_lanes_open(rig.node[1].mem, specs, 2, owner_side, &e), 0);
    /* What is written before the owner has it may be lost, and is then written again. */
    uint64_t until = patience();
    f.status = MEM_LOST;
    while ((f.status != MEM_DONE || f.done != 1) && clock_now_ns() < until) {
        if (f.status != MEM_DONE) {
            mem_flow_open(rig.node[0].mem, &f, 1, REGION, 0);
            mem_set1(rig.node[0].mem, &f, writer_side[1], 3, 77);
            mem_mark(rig.node[0].mem, &f, 1);
        }
        step();
    }
    assert_int_equal(f.done, 1);
    steps(2);
    assert_non_null(owner_side[1]->ctl);
    assert_null(owner_side[1]->ring);
    assert_int_equal(mem_word(owner_side[1], 3), 77);
    assert_int_equal(mem_word(owner_side[0], 0), 0);
    assert_int_equal(mem_lanes_open(rig.node[1].mem, specs, 2, again, &e), 0);
    assert_ptr_equal(again[0], owner_side[0]);
}

static void expect_lane_error(struct mem_lane_spec s, int code, const char *says)
{
    struct mem_lane *out;
    struct err e = {""};

    assert_int_equal(mem_lanes_open(rig.node[0].mem, &s, 1, &out, &e), code);
    if (!strstr(e.text, says))
        fail_msg("\"%s\" does not say \"%s\"", e.text, says);
}

static void a_wrong_lane_is_refused_with_what_would_be_right(void)
{
    struct mem_lane_spec s = spec(0, 1, REGION);

    rig_open(1);
    s.kind = 60;
    s.ctl_words = 0;
    expect_lane_error(s, ERR_INVALID, "at least 1");
    s.ctl_words = 1;
    s.ring_bytes = 5000;
    expect_lane_error(s, ERR_INVALID, "power of two of at least 4096");
    s.ring_bytes = 2048;
    expect_lane_error(s, ERR_INVALID, "power of two of at least 4096");
    s = spec(0, 1, REGION);
    s.ctl_words++;
    expect_lane_error(s, ERR_INVALID, "16");
}

/* A flow, a raise and a read that are under way when the owner loses its memory end LOST, and so does
 * what is tried before the next life is there. That life promises nothing until it is let in. */
static void nothing_spans_two_memories(void)
{
    struct mem_flow f;
    struct mem_op op;
    uint64_t value;

    if (rig.backend == SHM)
        return; /* a memory lives on with its peers: tests/proc/shm_survival */
    rig_open(HOSTS);
    struct mem *m = rig.node[0].mem;
    assert_int_equal(rig.node[1].birth, MEM_BIRTH_NEW);
    assert_int_equal(raise_by(0, 1, 5, NULL), MEM_DONE);
    mem_flow_open(m, &f, 1, REGION, 5);
    mem_set1(m, &f, rig.node[0].lane[1][0], 0, 1);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    node_end(1);
    mem_set1(m, &f, rig.node[0].lane[1][0], 0, 2);
    mem_mark(m, &f, 2);
    mem_raise(m, &op, 1, REGION, 9);
    assert_int_equal(settle(&f), MEM_LOST);
    assert_int_equal(f.done, 1);
    assert_int_equal(finish(&op), MEM_LOST);

    node_open(1);
    connect_all();
    assert_int_equal(rig.node[1].mem->life, 1);
    assert_int_equal(rig.node[1].birth, MEM_BIRTH_LOST);
    assert_int_equal(mem_word(rig.node[1].lane[1][0], 0), 0); /* born again */
    assert_int_equal(f.status, MEM_LOST);
    assert_true(mem_promised(rig.node[1].mem, REGION) == MEM_CLOSED);
    assert_int_equal(raise_by(0, 1, 9, &value), MEM_DENIED);
    assert_true(value == MEM_CLOSED);
    mem_region_grant(rig.node[1].mem, REGION, 7);
    assert_int_equal(mem_promised(rig.node[1].mem, REGION), 7);
    assert_int_equal(raise_by(0, 1, 6, &value), MEM_DENIED);
    assert_int_equal(value, 7);
    assert_int_equal(raise_by(0, 1, 9, NULL), MEM_DONE);
    mem_flow_open(m, &f, 1, REGION, 9);
    mem_set1(m, &f, rig.node[0].lane[1][0], 0, 3);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(rig.node[1].lane[1][0], 0), 3);
}

static enum mem_status grant_by(uint32_t node, uint32_t owner, uint32_t life, uint64_t ballot,
                                uint64_t *value)
{
    struct mem_op op;

    mem_grant(rig.node[node].mem, &op, owner, REGION, life, ballot);
    finish(&op);
    *value = op.value;
    return op.status;
}

/* Who runs nothing is let in by another: in the life that is named, once, and only what is closed. */
static void a_grant_opens_what_was_lost_in_its_life(void)
{
    struct mem_flow f;
    uint64_t value;

    rig_open(HOSTS);
    assert_int_equal(grant_by(0, 1, 0, 3, &value), MEM_DENIED);
    assert_int_equal(value, 0);
    if (rig.backend == SHM)
        return; /* a memory lives on with its peers */
    node_end(1);
    assert_int_equal(grant_by(0, 1, 0, 3, &value), MEM_LOST);
    node_open(1);
    connect_all();
    assert_true(mem_promised(rig.node[1].mem, REGION) == MEM_CLOSED);
    assert_int_equal(grant_by(0, 1, 0, 3, &value), MEM_DENIED); /* that life is over */
    assert_true(value == MEM_CLOSED);
    assert_true(mem_promised(rig.node[1].mem, REGION) == MEM_CLOSED);
    assert_int_equal(grant_by(0, 1, 1, 3, &value), MEM_DONE);
    assert_int_equal(mem_promised(rig.node[1].mem, REGION), 3);
    assert_int_equal(grant_by(2, 1, 1, 5, &value), MEM_DENIED);
    assert_int_equal(value, 3);
    assert_int_equal(raise_by(2, 1, 5, NULL), MEM_DONE);
    mem_flow_open(rig.node[2].mem, &f, 1, REGION, 5);
    mem_set1(rig.node[2].mem, &f, rig.node[2].lane[1][2], 0, 7);
    mem_mark(rig.node[2].mem, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(rig.node[1].lane[1][2], 0), 7);
}

/* What a writer left in a lane is there for its next life to read. */
static void a_lane_survives_its_writer(void)
{
    uint64_t words[2] = {0}, data[] = {11, 12, 13};
    struct mem_flow f;
    struct mem_op op;

    rig_open(HOSTS);
    mem_flow_open(rig.node[1].mem, &f, 0, REGION, 0);
    mem_put(rig.node[1].mem, &f, rig.node[1].lane[0][1], 64, data, sizeof data);
    mem_set(rig.node[1].mem, &f, rig.node[1].lane[0][1], 1, (uint64_t[]){5, 6}, 2);
    mem_mark(rig.node[1].mem, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    node_end(1);
    steps(100);
    assert_int_equal(mem_word(rig.node[0].lane[0][1], 2), 6);
    node_open(1);
    connect_all();
    mem_read_ctl(rig.node[1].mem, &op, rig.node[1].lane[0][1], 1, 2, words);
    assert_int_equal(finish(&op), MEM_DONE);
    assert_int_equal(words[0], 5);
    assert_int_equal(words[1], 6);
    memset(data, 0, sizeof data);
    mem_read_ring(rig.node[1].mem, &op, rig.node[1].lane[0][1], 64, data, sizeof data);
    assert_int_equal(finish(&op), MEM_DONE);
    assert_int_equal(data[2], 13);
}

/* ---- ends ---- */

enum { END_KIND = 50 };

static struct mem_lane_spec end_spec(uint32_t owner, uint32_t writer, uint32_t ring_bytes)
{
    struct mem_lane_spec s = spec(owner, writer, REGION);

    s.kind = END_KIND;
    s.ring_bytes = ring_bytes;
    return s;
}

/* Opens it as soon as that is known to be possible; NULL: it never was. */
static struct mem_lane *open_lane(uint32_t node, const struct mem_lane_spec *s)
{
    struct mem_lane *l = NULL;
    struct err e = {""};
    int rc = ERR_EXISTS;

    for (uint64_t until = patience(); rc == ERR_EXISTS && clock_now_ns() < until; step())
        rc = mem_lanes_open(rig.node[node].mem, s, 1, &l, &e);
    if (rc != 0)
        fail_msg("open again: %s", e.text);
    return l;
}

static void expect_not_yet(uint32_t node, struct mem_lane_spec s)
{
    struct mem_lane *l;
    struct err e = {""};

    steps(200);
    assert_int_equal(mem_lanes_open(rig.node[node].mem, &s, 1, &l, &e), ERR_EXISTS);
}

/* Writes until it is done, for the owner may only come to have the lane. */
static void write_until_done(uint32_t writer, struct mem_lane *l, uint64_t value)
{
    struct mem *m = rig.node[writer].mem;
    struct mem_flow f = {.status = MEM_LOST};
    uint64_t data[] = {value, value + 1, value + 2};

    for (uint64_t until = patience(); f.done != 1 && clock_now_ns() < until;) {
        if (f.status != MEM_DONE) {
            mem_flow_open(m, &f, l->spec.owner, l->spec.region, 0);
            mem_put(m, &f, l, 4096, data, sizeof data);
            mem_set1(m, &f, l, 3, value);
            mem_mark(m, &f, 1);
        }
        step();
    }
    assert_int_equal(f.done, 1);
    mem_flow_close(m, &f);
}

static void wait_until_there(struct mem_lane *l)
{
    for (uint64_t until = patience(); !l->ctl && clock_now_ns() < until;)
        step();
    assert_non_null(l->ctl);
}

static void end_lane(uint32_t node, struct mem_lane *l)
{
    uint32_t moved = rig.node[node].mem->lanes_moved;

    mem_lanes_end(rig.node[node].mem, &l, 1);
    assert_int_not_equal(rig.node[node].mem->lanes_moved, moved);
}

static void expect_blank(const struct mem_lane *l)
{
    for (uint32_t w = 0; w < WORDS; w++)
        assert_int_equal(mem_word(l, w), 0);
}

/* The name of a lane is opened again after both have ended it, whoever was first, with another ring. */
static void a_lane_that_both_have_ended_is_born_again(void)
{
    rig_open(2);
    for (uint32_t turn = 0; turn < 6; turn++) {
        uint32_t first = turn % 2, second = 1 - first;
        struct mem_lane_spec s = end_spec(1, 0, RING >> turn / 2);
        struct mem_lane *l[] = {open_lane(0, &s), open_lane(1, &s)};
        write_until_done(0, l[0], 70 + turn);
        wait_until_there(l[1]);
        assert_int_equal(mem_word(l[1], 3), 70 + turn);
        assert_int_equal(l[1]->ring[4096], 70 + turn);

        end_lane(first, l[first]);
        expect_not_yet(first, s);
        if (first == 0) { /* the owner goes on reading */
            assert_int_equal(mem_word(l[1], 3), 70 + turn);
            assert_int_equal(l[1]->ring[4096], 70 + turn);
        }
        end_lane(second, l[second]);
        s.ring_bytes = RING * 2;
        l[second] = open_lane(second, &s);
        l[first] = open_lane(first, &s);
        if (l[1]->ctl)
            expect_blank(l[1]);
        write_until_done(0, l[0], 80 + turn);
        wait_until_there(l[1]);
        assert_int_equal(mem_word(l[1], 3), 80 + turn);
        assert_int_equal(mem_word(l[1], 4), 0);
        end_lane(0, l[0]);
        end_lane(1, l[1]);
    }
}

/* What is under way when a lane is ended does not come to the next one of its name, nor to any other. */
static void what_was_written_before_an_end_is_not_seen_after_it(void)
{
    static uint64_t data[RING / 8 / 4];
    struct mem_lane_spec s = end_spec(1, 0, RING);

    rig_open(2);
    memset(data, 0xee, sizeof data);
    for (int turn = 0; turn < 20; turn++) {
        struct mem_lane *l[] = {open_lane(0, &s), open_lane(1, &s)};
        struct mem_flow f;
        write_until_done(0, l[0], 1);
        mem_flow_open(rig.node[0].mem, &f, 1, REGION, 0);
        for (uint64_t k = 0; k < 8; k++) {
            mem_put(rig.node[0].mem, &f, l[0], k * sizeof data, data, sizeof data);
            mem_set(rig.node[0].mem, &f, l[0], 0, data, WORDS);
        }
        steps((int)rng_below(&rig.rng, 4));
        end_lane(0, l[0]);
        end_lane(1, l[1]);
        l[1] = open_lane(1, &s);
        l[0] = open_lane(0, &s);
        write_until_done(0, l[0], 5);
        wait_until_there(l[1]);
        for (int k = 0; k < 50; k++) {
            step();
            for (uint32_t w = 0; w < WORDS; w++)
                assert_int_equal(mem_word(l[1], w), w == 3 ? 5 : 0);
        }
        assert_int_equal(settle(&f), MEM_DONE); /* a flow has nothing to do with it */
        mem_flow_close(rig.node[0].mem, &f);
        end_lane(0, l[0]);
        end_lane(1, l[1]);
    }
}

/* Other lanes of the same nodes, opened together with the one that is ended, go on as they were. */
static void an_end_leaves_other_lanes_alone(void)
{
    enum { LANES = 4 };
    struct mem_lane_spec s[LANES];
    struct mem_lane *out[LANES], *in[LANES], *again[2];
    struct err e = {""};

    rig_open(2);
    for (uint32_t i = 0; i < LANES; i++) {
        s[i] = end_spec(1, 0, RING);
        s[i].kind += i;
    }
    assert_int_equal(mem_lanes_open(rig.node[0].mem, s, LANES, out, &e), 0);
    assert_int_equal(mem_lanes_open(rig.node[1].mem, s, LANES, in, &e), 0);
    for (uint32_t i = 0; i < LANES; i++)
        write_until_done(0, out[i], 100 * i + 1);
    mem_lanes_end(rig.node[0].mem, out + 1, 2);
    mem_lanes_end(rig.node[1].mem, in + 1, 2);
    for (uint32_t i = 0; i < 2; i++) {
        again[0] = open_lane(0, &s[1 + i]);
        again[1] = open_lane(1, &s[1 + i]);
        write_until_done(0, again[0], 1000 + i);
    }
    for (uint32_t i = 0; i < LANES; i += LANES - 1) {
        assert_int_equal(mem_word(in[i], 3), 100 * i + 1);
        assert_int_equal(in[i]->ring[4096], (100 * i + 1) % 256);
        write_until_done(0, out[i], 100 * i + 7);
        assert_int_equal(mem_word(in[i], 3), 100 * i + 7);
    }
}

/* Its owner has not ended a lane: it reads there what it read, though the writer has lanes of the same sizes since. */
static void an_owner_reads_on_what_its_writer_has_ended(void)
{
    struct mem_lane_spec s = end_spec(1, 0, RING);

    rig_open(2);
    struct mem_lane *ended[] = {open_lane(0, &s), open_lane(1, &s)};
    write_until_done(0, ended[0], 60);
    wait_until_there(ended[1]);
    end_lane(0, ended[0]);
    for (uint32_t i = 1; i <= 4; i++) {
        steps(20);
        s.kind++;
        struct mem_lane *l[] = {open_lane(0, &s), open_lane(1, &s)};
        write_until_done(0, l[0], 60 + i);
        assert_int_equal(mem_word(ended[1], 3), 60);
        assert_int_equal(ended[1]->ring[4096], 60);
    }
    end_lane(1, ended[1]);
}

/* Who neither owns nor writes it and has not ended it in time reads nothing that was not in it. */
static void a_third_reads_nothing_of_an_ended_lane(void)
{
    struct mem_lane_spec s = end_spec(1, 0, RING);
    enum mem_status status = MEM_DONE;
    struct mem_op op;
    uint64_t word = 0;

    rig_open(HOSTS);
    struct mem_lane *l[] = {open_lane(0, &s), open_lane(1, &s), open_lane(2, &s)};
    write_until_done(0, l[0], 33);
    for (uint64_t until = patience(); word != 33 && clock_now_ns() < until;) {
        mem_read_ctl(rig.node[2].mem, &op, l[2], 3, 1, &word);
        finish(&op);
        step();
    }
    assert_int_equal(word, 33);
    end_lane(0, l[0]);
    end_lane(1, l[1]);
    for (uint64_t until = patience(); status == MEM_DONE && clock_now_ns() < until;) {
        steps(10);
        mem_read_ctl(rig.node[2].mem, &op, l[2], 3, 1, &word);
        status = finish(&op);
        assert_int_equal(word, 33);
    }
    assert_int_equal(status, MEM_LOST);
    end_lane(2, l[2]);
    struct mem_lane *again[] = {open_lane(0, &s), open_lane(1, &s), open_lane(2, &s)};
    write_until_done(0, again[0], 34);
    for (uint64_t until = patience(); word != 34 && clock_now_ns() < until;) {
        mem_read_ctl(rig.node[2].mem, &op, again[2], 3, 1, &word);
        finish(&op);
        step();
    }
    assert_int_equal(word, 34);
}

/* A lane that both have ended stays ended when its writer comes back; the others are there as ever. */
static void an_ended_lane_does_not_come_back_with_its_writer(void)
{
    struct mem_lane_spec s = end_spec(0, 1, RING);
    struct mem_flow f;

    rig_open(HOSTS);
    struct mem_lane *l[] = {open_lane(0, &s), open_lane(1, &s)};
    write_until_done(1, l[1], 9);
    mem_flow_open(rig.node[1].mem, &f, 0, REGION, 0);
    mem_set1(rig.node[1].mem, &f, l[1], 6, 66);
    mem_set1(rig.node[1].mem, &f, rig.node[1].lane[0][1], 1, 5);
    mem_mark(rig.node[1].mem, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    end_lane(1, l[1]);
    end_lane(0, l[0]);
    steps(500);
    node_end(1);
    steps(100);
    node_open(1);
    connect_all();
    l[0] = open_lane(0, &s);
    l[1] = open_lane(1, &s);
    write_until_done(1, l[1], 8);
    wait_until_there(l[0]);
    assert_int_equal(mem_word(l[0], 3), 8);
    assert_int_equal(mem_word(l[0], 6), 0);
    assert_int_equal(mem_word(rig.node[0].lane[0][1], 1), 5);
}

/* Nothing counts any more in a region that was ended, and its number is not opened again. */
static void a_region_ends_for_good(void)
{
    struct mem_flow f;
    enum mem_birth birth;
    struct err e = {""};
    uint64_t value;

    rig_open(2);
    struct mem *m = rig.node[0].mem;
    struct mem_lane *lane = rig.node[0].lane[1][0];
    assert_int_equal(raise_by(0, 1, 5, NULL), MEM_DONE);
    mem_flow_open(m, &f, 1, REGION, 5);
    mem_set1(m, &f, lane, 0, 1);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);

    mem_region_end(rig.node[1].mem, REGION);
    assert_true(mem_promised(rig.node[1].mem, REGION) == MEM_CLOSED);
    assert_null(rig.node[1].lane[1][0]->ctl);
    assert_int_equal(mem_region_open(rig.node[1].mem, REGION, &birth, &e), ERR_EXISTS);
    assert_int_equal(raise_by(0, 1, 9, &value), MEM_DENIED);
    assert_true(value == MEM_CLOSED);
    mem_set1(m, &f, lane, 0, 2);
    mem_mark(m, &f, 2);
    assert_int_not_equal(settle(&f), MEM_DONE);
    assert_int_equal(f.done, 1);
    assert_int_equal(mem_region_open(rig.node[1].mem, REGION, &birth, &e), ERR_EXISTS);
    /* The other region is what it was. */
    mem_flow_open(m, &f, 1, OTHER_REGION, 0);
    mem_set1(m, &f, rig.node[0].other[1][0], 0, 3);
    mem_mark(m, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    assert_int_equal(mem_word(rig.node[1].other[1][0], 0), 3);
}

/* ---- kept bytes, dropped nodes ---- */

/* Puts bytes into the ring of somebody else, and returns when they are there. */
static void fill_ring(uint32_t writer, struct mem_lane *l, const void *data, uint32_t bytes)
{
    struct mem_flow f;

    mem_flow_open(rig.node[writer].mem, &f, l->spec.owner, l->spec.region, 0);
    mem_put(rig.node[writer].mem, &f, l, 0, data, bytes);
    mem_mark(rig.node[writer].mem, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    mem_flow_close(rig.node[writer].mem, &f);
}

/* Bytes are sent on from where they have landed, more at once than goes into one operation, over the ring's end and
 * among others: they land in order, and when that is done their place is free. */
static void kept_bytes_land_as_others_do(void)
{
    enum { ROOM = 1 << 20, WORDS_SENT = 75 << 10, BYTES = 8 * WORDS_SENT };
    static uint64_t data[WORDS_SENT];
    struct mem_lane_spec to = end_spec(1, 0, ROOM), from = end_spec(0, 1, ROOM);
    struct mem_flow f;

    rig_open(2);
    struct mem *m = rig.node[0].mem;
    struct mem_lane *out = open_lane(0, &to), *in = open_lane(1, &to);
    struct mem_lane *source = open_lane(1, &from), *own = open_lane(0, &from);
    write_until_done(0, out, 1);
    write_until_done(1, source, 1); /* both are there */
    wait_until_there(own);
    wait_until_there(in);
    mem_flow_open(m, &f, 1, REGION, 0);
    for (uint64_t turn = 1; turn <= 6; turn++) {
        for (uint64_t i = 0; i < WORDS_SENT; i++)
            data[i] = turn << 32 | i;
        fill_ring(1, source, data, BYTES);
        uint64_t pos = turn * BYTES;
        mem_put(m, &f, out, pos, &data[0], 8);
        mem_put_kept(m, &f, out, pos + 8, own->ring + 8, BYTES - 16);
        mem_put(m, &f, out, pos + BYTES - 8, &data[WORDS_SENT - 1], 8);
        mem_set1(m, &f, out, 2, turn);
        mem_mark(m, &f, turn);
        assert_int_equal(settle(&f), MEM_DONE);
        assert_int_equal(mem_word(in, 2), turn);
        memset(data, 0xee, sizeof data);
        fill_ring(1, source, data, BYTES);
        for (uint64_t i = 0; i < WORDS_SENT; i++) {
            uint64_t word;
            memcpy(&word, in->ring + (pos + 8 * i) % ROOM, 8);
            assert_true(word == (turn << 32 | i));
        }
    }
}

/* A node that was given up is there again, as after any break; where there are no connections nothing happens. */
static void a_dropped_node_is_connected_again(void)
{
    bool links = rig.backend != SIM && rig.backend != SIM_SHARED && rig.backend != SHM;
    struct mem_flow f;

    rig_open(2);
    mem_flow_open(rig.node[0].mem, &f, 1, REGION, 0);
    mem_set1(rig.node[0].mem, &f, rig.node[0].lane[1][0], 0, 1);
    mem_mark(rig.node[0].mem, &f, 1);
    assert_int_equal(settle(&f), MEM_DONE);
    mem_drop(rig.node[0].mem, 1);
    for (uint64_t until = patience(); links && f.status == MEM_DONE && clock_now_ns() < until;)
        step();
    assert_int_equal(f.status, links ? MEM_LOST : MEM_DONE);
    connect_all();
    write_until_done(0, rig.node[0].lane[1][0], 2);
    assert_int_equal(mem_word(rig.node[1].lane[1][0], 3), 2);
    assert_int_equal(mem_word(rig.node[1].lane[1][0], 0), 1);
}

/* ---- common lanes ---- */

static struct mem_lane_spec common_spec(uint32_t owner, uint32_t writer)
{
    struct mem_lane_spec s = end_spec(owner, writer, RING);

    s.common = 1;
    return s;
}

static struct mem_lane *common[HOSTS]; /* of node 0, by owner */

static void open_common(void)
{
    struct mem_lane_spec s[HOSTS];
    struct err e = {""};

    for (uint32_t q = 0; q < HOSTS; q++)
        s[q] = common_spec(q, 0);
    if (mem_lanes_open(rig.node[0].mem, s, HOSTS, common, &e) != 0)
        fail_msg("%s", e.text);
}

/* Stores it in the copy, and sends it to all who are there until it is done. */
static void publish(uint64_t value, uint64_t pos, bool kept)
{
    struct mem *m = rig.node[0].mem;
    unsigned char *ring = common[0]->ring + pos % RING;

    memcpy(ring, &value, 8);
    memcpy(ring + 8, &(uint64_t){~value}, 8);
    mem_store(common[0], 3, value);
    for (uint32_t q = 0; q < HOSTS; q++) {
        struct mem_flow f = {.status = MEM_LOST};
        for (uint64_t until = patience(); rig.node[q].mem && f.done != 1 && clock_now_ns() < until;
             step()) {
            if (f.status == MEM_DONE)
                continue;
            mem_flow_open(m, &f, q, REGION, 0);
            (kept ? mem_put_kept : mem_put)(m, &f, common[q], pos, ring, 16);
            mem_set1(m, &f, common[q], 3, value);
            mem_mark(m, &f, 1);
        }
        assert_true(!rig.node[q].mem || f.done == 1);
        mem_flow_close(m, &f);
    }
}

static void expect_published(const struct mem_lane *l, uint64_t value, uint64_t pos)
{
    /* It may still be on its way to the owner, where writing needs nobody. */
    for (uint64_t until = clock_now_ns() + 5000000000u; !l->ctl && clock_now_ns() < until;)
        step();
    assert_non_null(l->ctl);
    assert_int_equal(mem_word(l, 3), value);
    assert_memory_equal(l->ring + pos % RING, &value, 8);
    assert_memory_equal(l->ring + pos % RING + 8, &(uint64_t){~value}, 8);
}

/* One copy, and all owners see what is in it, when it was sent to them at the latest. */
static void a_common_lane_has_one_content_for_all_owners(void)
{
    struct mem_lane *in[HOSTS];

    rig_open(HOSTS);
    open_common();
    for (uint32_t q = 1; q < HOSTS; q++) {
        struct mem_lane_spec s = common_spec(q, 0);
        in[q] = open_lane(q, &s);
        assert_ptr_equal(common[q]->ctl, common[0]->ctl);
        assert_ptr_equal(common[q]->ring, common[0]->ring);
    }
    assert_non_null(common[0]->ctl);
    expect_blank(common[0]);
    for (uint64_t k = 1; k <= 20; k++) {
        publish(k, 48 * k, k % 2);
        for (uint32_t q = 1; q < HOSTS; q++) {
            expect_published(in[q], k, 48 * k);
            assert_int_equal(in[q]->life, 0);
        }
    }
}

/* Its writer comes back: the copy is blank, and each owner sees the old content until it asks for the new one. */
static void an_owner_decides_when_a_common_lane_is_the_next_lifes(void)
{
    struct mem_lane *in[HOSTS];

    rig_open(HOSTS);
    open_common();
    for (uint32_t q = 1; q < HOSTS; q++) {
        struct mem_lane_spec s = common_spec(q, 0);
        in[q] = open_lane(q, &s);
    }
    publish(5, 96, true);
    for (uint32_t q = 1; q < HOSTS; q++)
        assert_false(mem_lane_next(rig.node[q].mem, in[q]));
    for (uint32_t life = 1; life <= 2; life++) {
        node_end(0);
        steps(100);
        node_open(0);
        open_common();
        for (uint32_t w = 0; w < WORDS; w++)
            assert_int_equal(mem_word(common[1], w), 0);
        mem_store(common[0], 3, 70 + life);
        steps(500);
        for (uint32_t q = 1; q < HOSTS; q++) {
            expect_published(in[q], life == 1 ? 5 : 9, 96);
            assert_int_equal(in[q]->life, life - 1);
        }
        for (uint32_t q = 1; q < HOSTS; q++) {
            uint32_t moved = rig.node[q].mem->lanes_moved;
            for (uint64_t until = patience();
                 !mem_lane_next(rig.node[q].mem, in[q]) && clock_now_ns() < until;)
                step();
            assert_int_not_equal(rig.node[q].mem->lanes_moved, moved);
            assert_int_equal(in[q]->life, life);
            assert_int_equal(mem_word(in[q], 4), 0);
            assert_true(mem_word(in[q], 3) == 0 || mem_word(in[q], 3) == 70 + life);
        }
        publish(9, 96, false);
        for (uint32_t q = 1; q < HOSTS; q++)
            expect_published(in[q], 9, 96);
    }
}

/* A common lane ends as others do, for each owner; the next of its name is blank. */
static void a_common_lane_is_born_again(void)
{
    rig_open(HOSTS);
    for (uint64_t turn = 1; turn <= 4; turn++) {
        struct mem_lane_spec s[] = {common_spec(0, 0), common_spec(1, 0), common_spec(2, 0)};
        struct mem_lane *in[] = {NULL, open_lane(1, &s[1]), open_lane(2, &s[2])};
        for (uint32_t q = 0; q < HOSTS; q++)
            common[q] = open_lane(0, &s[q]);
        expect_blank(common[0]);
        publish(turn, 96, true);
        for (uint32_t q = 1; q < HOSTS; q++) {
            expect_published(in[q], turn, 96);
            assert_int_equal(mem_word(in[q], 4), 0);
        }
        mem_store(common[0], 4, 44);
        if (turn % 2)
            mem_lanes_end(rig.node[0].mem, common, HOSTS);
        end_lane(1, in[1]);
        if (turn % 2 == 0)
            for (uint32_t q = 0; q < HOSTS; q++)
                end_lane(0, common[q]);
        steps(100);
        expect_published(in[2], turn, 96);
        end_lane(2, in[2]);
    }
}

/* A sleeper is woken by what it is to see. */
static void a_sleeper_is_woken(void)
{
    struct mem_flow f;

    if (simulated())
        return; /* nobody sleeps there */
    rig_open(2);
    for (uint64_t until = clock_now_ns() + 20000000; clock_now_ns() < until;)
        step(); /* nothing more comes of the start */
    uint64_t begin = clock_now_ns();
    mem_doze(rig.node[0].mem);
    mem_sleep(rig.node[0].mem, begin + 2000000);
    mem_flow_open(rig.node[1].mem, &f, 0, REGION, 0);
    begin = clock_now_ns();
    mem_doze(rig.node[0].mem);
    mem_set1(rig.node[1].mem, &f, rig.node[1].lane[0][1], 0, 42);
    mem_bell(rig.node[1].mem, 0);
    mem_sleep(rig.node[0].mem, begin + 5000000000u);
    for (uint64_t until = patience();
         mem_word(rig.node[0].lane[0][1], 0) != 42 && clock_now_ns() < until;)
        step();
    assert_int_equal(mem_word(rig.node[0].lane[0][1], 0), 42);
    assert_true(clock_now_ns() < begin + 300000000u);
    mem_bell(rig.node[1].mem, 2); /* nobody there */
    mem_doze(rig.node[0].mem);
    mem_rouse(rig.node[0].mem);
}

/* ---- a client ---- */

static struct mem *client_mem(void)
{
    struct err e = {""};
    struct mem *m = NULL;
    int rc = ERR_EXISTS;

    if (simulated())
        return sim_node_start(rig.sim, CLIENT);
    /* Its predecessor may not be known to have gone yet. */
    for (uint64_t until = patience(); rc == ERR_EXISTS && clock_now_ns() < until;) {
        if (rig.backend == SHM) {
            struct shm_node hosts[] = {{.name = "h0", .node = 0, .role = SHM_HOST}};
            struct shm_options o = {
                .dir = rig.shm_dir,
                .cluster = "test",
                .self = {.name = "c0", .node = CLIENT, .role = SHM_CLIENT},
                .hosts = hosts,
                .hosts_count = 1,
            };
            rc = shm_open_node(&o, &m, &e);
        } else {
            rc = far_fixture_open(&rig.far, CLIENT, &m, &e);
        }
    }
    return rc == 0 ? m : NULL;
}

/* A client writes the words until it is told that it has been seen, or for ever if that is never said. */
static void client_writes(struct mem *m, const uint64_t *words, bool (*seen)(void *), void *ctx)
{
    struct mem_lane_spec s = spec(0, CLIENT, REGION);
    struct mem_flow f = {.status = MEM_LOST};
    struct mem_lane *out;
    enum mem_birth birth;

    if (mem_region_open(m, REGION, &birth, NULL) != 0 || mem_lanes_open(m, &s, 1, &out, NULL) != 0)
        abort();
    while (!seen(ctx)) {
        mem_poll(m);
        if (f.status != MEM_DONE)
            mem_flow_open(m, &f, 0, REGION, 0);
        if (f.status == MEM_DONE && f.marked == f.done) {
            mem_set(m, &f, out, 0, words, WORDS);
            mem_mark(m, &f, f.marked + 1);
        }
    }
}

static bool shows(const struct mem_lane *in, uint64_t first)
{
    return in->ctl && mem_word(in, 0) == first;
}

struct sighting {
    const struct mem_lane *in;
    uint64_t first;
    uint64_t until_ns;
};

static bool seen_here(void *ctx)
{
    const struct sighting *s = ctx;

    step();
    return shows(s->in, s->first) || clock_now_ns() > s->until_ns;
}

/* The other end of the pipe is closed when it was seen. */
static bool seen_there(void *ctx)
{
    char byte;

    return read(*(int *)ctx, &byte, 1) == 0;
}

/* One life of the client, from beginning to end. What a host has of it in another process is told by a pipe. */
static void client_lives(const struct mem_lane *in, const uint64_t *words)
{
    struct sighting s = {.in = in, .first = words[0], .until_ns = patience()};
    int told[2], status;

    if (simulated()) {
        client_writes(client_mem(), words, seen_here, &s);
        return;
    }
    assert_int_equal(pipe2(told, O_NONBLOCK | O_CLOEXEC), 0);
    pid_t kid = fork();
    if (kid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(told[1]);
        struct mem *m = client_mem();
        if (m == NULL)
            _exit(1);
        client_writes(m, words, seen_there, &told[0]);
        _exit(0); /* without a word, as if it were killed */
    }
    close(told[0]);
    while (!shows(in, words[0]) && clock_now_ns() < s.until_ns)
        step();
    bool shown = shows(in, words[0]);
    uint32_t life = in->life;
    close(told[1]);
    for (pid_t gone = 0; gone == 0; gone = waitpid(kid, &status, WNOHANG))
        steps(1);
    assert_int_equal(status, 0);
    assert_true(shown);
    assert_int_equal(in->life, life);
}

/* Whatever a client writes, the life of its lane is the one that the memory knows; the next one in its place finds
 * the lane as it was born, and its owner is told that it is another. */
static void a_client_does_not_choose_its_life(void)
{
    uint64_t words[WORDS];
    struct mem_lane_spec s = spec(0, CLIENT, REGION);
    struct mem_lane *in;
    const char *provider = getenv("TRAM_TEST_PROVIDER");

    /* A client has to be a process of its own, and verbs do not work in a forked one. */
    if (provider && strcmp(provider, "verbs") == 0 && !simulated()) {
        print_message("# not tried over verbs: a client is forked\n");
        return;
    }
    node_open(0);
    assert_int_equal(mem_lanes_open(rig.node[0].mem, &s, 1, &in, NULL), 0);
    memset(words, 0xff, sizeof words);
    client_lives(in, words);
    uint32_t first = in->life, moved = rig.node[0].mem->lanes_moved;
    assert_int_equal(first, 0);
    if (simulated())
        sim_node_crash(rig.sim, CLIENT, true);
    memset(words, 0, sizeof words);
    words[0] = 5;
    client_lives(in, words);
    assert_int_equal(in->life, first + 1);
    assert_int_not_equal(rig.node[0].mem->lanes_moved, moved);
    for (uint32_t w = 1; in->ctl && w < WORDS; w++)
        assert_int_equal(mem_word(in, w), 0);
}

/* ---- all of them on all backends ---- */

#define CASES(X)                                                                                   \
    X(the_owner_sees_what_a_writer_puts)                                                           \
    X(writes_land_in_order)                                                                        \
    X(a_guard_follows_its_data)                                                                    \
    X(done_means_landed)                                                                           \
    X(marks_of_many_flows_settle)                                                                  \
    X(a_raise_only_rises)                                                                          \
    X(a_raise_takes_the_permission_away)                                                           \
    X(the_own_memory_denies_too)                                                                   \
    X(a_done_write_is_seen_after_a_raise)                                                          \
    X(a_reopened_flow_forgets_what_it_was)                                                         \
    X(who_is_not_there_is_lost)                                                                    \
    X(a_grant_opens_what_was_lost_in_its_life)                                                     \
    X(lanes_opened_later_connect_too)                                                              \
    X(a_wrong_lane_is_refused_with_what_would_be_right)                                            \
    X(nothing_spans_two_memories)                                                                  \
    X(a_lane_survives_its_writer)                                                                  \
    X(a_lane_that_both_have_ended_is_born_again)                                                   \
    X(what_was_written_before_an_end_is_not_seen_after_it)                                         \
    X(an_end_leaves_other_lanes_alone)                                                             \
    X(an_owner_reads_on_what_its_writer_has_ended)                                                 \
    X(a_third_reads_nothing_of_an_ended_lane)                                                      \
    X(an_ended_lane_does_not_come_back_with_its_writer)                                            \
    X(a_region_ends_for_good)                                                                      \
    X(kept_bytes_land_as_others_do)                                                                \
    X(a_dropped_node_is_connected_again)                                                           \
    X(a_common_lane_has_one_content_for_all_owners)                                                \
    X(an_owner_decides_when_a_common_lane_is_the_next_lifes)                                       \
    X(a_common_lane_is_born_again)                                                                 \
    X(a_sleeper_is_woken)                                                                          \
    X(a_client_does_not_choose_its_life)

#define RUN_ON(backend, name)                                                                      \
    static void backend##__##name(void **state)                                                    \
    {                                                                                              \
        (void)state;                                                                               \
        name();                                                                                    \
    }
#define RUN_(name)                                                                                 \
    RUN_ON(sim, name)                                                                              \
    RUN_ON(sim_told, name)                                                                         \
    RUN_ON(sim_read_back, name)                                                                    \
    RUN_ON(sim_judged, name)                                                                       \
    RUN_ON(sim_shared, name)                                                                       \
    RUN_ON(shm, name)                                                                              \
    RUN_ON(ofi_told, name)                                                                         \
    RUN_ON(ofi_read_back, name)                                                                    \
    RUN_ON(tcp, name)                                                                              \
    RUN_ON(tcp_clear, name)
CASES(RUN_)

#define BACKEND(backend, kind)                                                                     \
    static int backend##_setup(void **state)                                                       \
    {                                                                                              \
        (void)state;                                                                               \
        rig_begin(kind);                                                                           \
        return 0;                                                                                  \
    }
BACKEND(sim, SIM)
BACKEND(sim_told, SIM_TOLD)
BACKEND(sim_read_back, SIM_READ_BACK)
BACKEND(sim_judged, SIM_JUDGED)
BACKEND(sim_shared, SIM_SHARED)
BACKEND(shm, SHM)
BACKEND(ofi_told, OFI_TOLD)
BACKEND(ofi_read_back, OFI_READ_BACK)
BACKEND(tcp, TCP)
BACKEND(tcp_clear, TCP_CLEAR)

static int teardown(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
#define ROW(backend, name)                                                                         \
    cmocka_unit_test_setup_teardown(backend##__##name, backend##_setup, teardown),
#define ROWS(name)                                                                                 \
    ROW(sim, name)                                                                                 \
    ROW(sim_told, name)                                                                            \
    ROW(sim_read_back, name)                                                                       \
    ROW(sim_judged, name)                                                                          \
    ROW(sim_shared, name)                                                                          \
    ROW(shm, name)                                                                                 \
    ROW(ofi_told, name)                                                                            \
    ROW(ofi_read_back, name)                                                                       \
    ROW(tcp, name)                                                                                 \
    ROW(tcp_clear, name)
    const struct CMUnitTest cases[] = {CASES(ROWS)};
    return cmocka_run_group_tests(cases, NULL, NULL);
}
