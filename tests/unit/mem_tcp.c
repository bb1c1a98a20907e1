/* What the TCP transport has beyond the contract (mem_contract.c) and beyond what all networks share (mem_far*.c): frames,
 * answers, room, and peers that have a key and do what no node does. All nodes are in this thread. */
#include "mem/tcp/impl.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../far_nodes.h"

enum { OTHER_REGION = 8, CLIENT = FAR_FIXTURE_HOSTS, LARGE = 2 << 20 };

static struct tcp_link *link_to(struct mem *m, uint32_t node)
{
    const struct peer *p = peer_at(far_of(m), node);

    assert_non_null(p);
    assert_non_null(p->link);
    return tcp_link(p->link);
}

static struct mem_lane_spec spec_of(uint32_t owner, uint32_t writer, uint32_t where, uint32_t ring)
{
    return (struct mem_lane_spec){.owner = owner,
                                  .writer = writer,
                                  .region = where,
                                  .kind = 1,
                                  .ctl_words = WORDS,
                                  .ring_bytes = ring};
}

static struct mem_lane *large_lane(struct mem *m, uint32_t owner, uint32_t writer)
{
    struct mem_lane_spec s = spec_of(owner, writer, REGION, LARGE);

    s.kind = 2;
    return lane_open(m, &s);
}

static void fill(unsigned char *data, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}

static void wait_done(const struct mem_flow *f, uint64_t tag)
{
    WAIT_FOR(f->done >= tag || f->status != MEM_DONE);
    assert_int_equal(f->status, MEM_DONE);
}

static void wait_op(const struct mem_op *op, enum mem_status status)
{
    WAIT_FOR(op->status != MEM_PENDING);
    assert_int_equal(op->status, status);
}

/* ---- sizes ---- */

/* It goes over the ring's end, too. */
static void tcp__a_put_larger_than_a_frame_lands_whole(void **state)
{
    static unsigned char data[LARGE];
    const uint64_t pos = LARGE / 2 + 8;
    struct mem_flow f;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    struct mem_lane *own = large_lane(a, 0, 1), *out = large_lane(b, 0, 1);
    wait_connected(a, b);
    fill(data, sizeof data, 1);
    mem_flow_open(b, &f, 0, REGION, 0);
    mem_put(b, &f, out, pos, data, sizeof data);
    mem_mark(b, &f, 1);
    wait_done(&f, 1);
    assert_memory_equal(own->ring + pos, data, LARGE - pos);
    assert_memory_equal(own->ring, data + LARGE - pos, pos);
}

/* More than is asked for at a time, several of them, one of which nobody waits for to end in vain. */
static void tcp__reads_larger_than_the_window_come_whole(void **state)
{
    static unsigned char got[2][LARGE];
    uint64_t words[WORDS] = {0};
    struct mem_op op[2], ctl;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    struct mem_lane *own = large_lane(a, 0, 1), *out = large_lane(b, 0, 1);
    wait_connected(a, b);
    fill(own->ring, LARGE, 2);
    atomic_store(&own->ctl[3], 99);
    mem_read_ring(b, &op[0], out, 0, got[0], LARGE);
    mem_read_ring(b, &op[1], out, LARGE - 4096, got[1], LARGE);
    mem_read_ctl(b, &ctl, out, 0, WORDS, words);
    const struct tcp_link *l = link_to(b, 0);
    while (op[0].status == MEM_PENDING || op[1].status == MEM_PENDING) {
        assert_true(l->ask_sent - l->ask_tail <= READS_WINDOW);
        poll_all();
    }
    wait_op(&op[0], MEM_DONE);
    wait_op(&op[1], MEM_DONE);
    wait_op(&ctl, MEM_DONE);
    assert_memory_equal(got[0], own->ring, LARGE);
    assert_memory_equal(got[1], own->ring + LARGE - 4096, 4096);
    assert_memory_equal(got[1] + 4096, own->ring, LARGE - 4096);
    assert_int_equal(words[3], 99);
}

/* The owner ends a lane while it is read: the read is LOST as a whole, and what was asked for behind it is not. */
static void tcp__a_read_of_a_lane_that_ends_is_lost(void **state)
{
    static unsigned char got[LARGE];
    uint64_t word = 0;
    struct mem_op op, other;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    struct mem_lane *own = large_lane(a, 0, 1), *out = large_lane(b, 0, 1);
    struct mem_lane *stays = lane_of(a, 0, 1), *stays_out = lane_of(b, 0, 1);
    wait_connected(a, b);
    atomic_store(&stays->ctl[0], 5);
    mem_read_ring(b, &op, out, 0, got, LARGE);
    mem_read_ctl(b, &other, stays_out, 0, 1, &word);
    mem_flush(b);
    WAIT_FOR(link_to(b, 0)->ask_tail > 0);
    mem_lanes_end(a, &own, 1);
    wait_op(&op, MEM_LOST);
    wait_op(&other, MEM_DONE);
    assert_int_equal(word, 5);
}

/* ---- room ---- */

/* Floods a node that does not poll. */
static int flood(struct mem *m, struct mem_flow *f, struct mem_lane *out)
{
    static unsigned char junk[RING];
    int rounds = 0;

    for (; f->status == MEM_DONE && rounds < 100000; rounds++) {
        mem_put(m, f, out, 0, junk, sizeof junk);
        mem_flush(m);
    }
    return rounds;
}

/* The same to the last byte. */
static void flood_all(struct mem *m, uint32_t to, struct mem_lane *out)
{
    struct mem_flow f;

    for (int i = 0; i < 2; i++) {
        mem_flow_open(m, &f, to, REGION, 0);
        flood(m, &f, out);
        for (int lost = 0; lost < 2; lost += f.status != MEM_DONE) {
            mem_flow_open(m, &f, to, REGION, 0);
            mem_put(m, &f, out, 0, "12345678", 8);
        }
    }
}

/* A peer that takes nothing for more than its rings have room for: the flow is LOST, its connection is not, and what is
 * kept for it is bounded by the rings. */
static void tcp__who_takes_nothing_costs_a_bounded_memory(void **state)
{
    struct mem_flow f;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    lane_of(a, 0, 1);
    struct mem_lane *out = lane_of(b, 0, 1);
    wait_connected(a, b);
    const struct tcp_link *l = link_to(b, 0);
    for (int i = 0; i < 5; i++) {
        mem_flow_open(b, &f, 0, REGION, 0);
        flood(b, &f, out);
        assert_int_equal(f.status, MEM_LOST);
        assert_ptr_equal(link_to(b, 0), l);
        assert_true(l->stage_most <= 4 * STAGE_BYTES_MIN);
        assert_true(l->stage_head - l->stage_tail <= l->stage_most);
        assert_true(l->stage_room <= 4 * l->stage_most);
    }
    WAIT_FOR(tcp_sent(&l->link));
    assert_ptr_equal(link_to(b, 0), l);
}

/* A node whose writes fill all the room there is for the other side still answers it: the other side's flows, reads and
 * raises have nothing to do with them. */
static void tcp__a_flood_leaves_room_for_answers(void **state)
{
    struct mem_flow back;
    struct mem_op read, raise;
    uint64_t word = 0;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    region(b);
    struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(b, 0, 1);
    struct mem_lane *reverse = lane_of(a, 1, 0);
    lane_of(b, 1, 0);
    wait_connected(a, b);
    const struct tcp_link *l = link_to(a, 1);
    mem_flow_open(b, &back, 0, REGION, 0);
    mem_set1(b, &back, out, 0, 42);
    mem_mark(b, &back, 1);
    mem_read_ctl(b, &read, out, 0, 1, &word);
    mem_raise(b, &raise, 0, REGION, 3);
    mem_flush(b);
    flood_all(a, 1, reverse);
    uint64_t until = clock_now_ns() + 10000000000u;
    while (mem_word(own, 0) != 42 && clock_now_ns() < until)
        mem_poll(a);
    mem_poll(a);
    assert_ptr_equal(link_to(a, 1), l);
    wait_done(&back, 1);
    wait_op(&read, MEM_DONE);
    wait_op(&raise, MEM_DONE);
    assert_int_equal(word, 42);
    assert_ptr_equal(link_to(a, 1), l);
}

/* A client comes when the lanes that are written to it are open: there is room for what they hold from the start. */
static void tcp__a_client_that_comes_late_has_room_for_its_rings(void **state)
{
    static unsigned char data[LARGE];
    struct mem_flow f;

    (void)state;
    struct mem *a = open_node(0);
    region(a);
    struct mem_lane *out = large_lane(a, CLIENT, 0);
    struct mem *c = open_client(CLIENT);
    region(c);
    struct mem_lane *own = large_lane(c, CLIENT, 0);
    wait_connected(a, c);
    WAIT_FOR(own->ring != NULL);
    fill(data, sizeof data, 3);
    mem_flow_open(a, &f, CLIENT, REGION, 0);
    mem_put(a, &f, out, 0, data, sizeof data);
    mem_mark(a, &f, 1);
    wait_done(&f, 1);
    assert_memory_equal(own->ring, data, sizeof data);
}

/* ---- flows ---- */

/* A flow that was denied stays so, though the owner promises its ballot later, before the writer has heard: else there
 * would be a hole in what has landed. */
static void tcp__denied_is_for_good(void **state)
{
    struct mem_flow f;
    struct mem_op op;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(b, 0, 1);
    wait_connected(a, b);
    mem_raise(a, &op, 0, REGION, 4);
    wait_op(&op, MEM_DONE);
    mem_flow_open(b, &f, 0, REGION, 5);
    mem_set1(b, &f, out, 0, 1);
    mem_put(b, &f, out, 0, "12345678", 8);
    mem_flush(b);
    const struct tcp_link *l = link_to(a, 1);
    while (l->in_flows == 0 || l->in_flow[0].status == MEM_DONE)
        mem_poll(a);
    assert_int_equal(l->in_flow[0].status, MEM_DENIED);
    mem_raise(a, &op, 0, REGION, 5);
    wait_op(&op, MEM_DONE);
    /* As one that has not heard. */
    const uint64_t words[] = {2, 3};
    tcp_frame_add(link_to(b, 0), (struct tcp_frame){.kind = TCP_SET, .words = 2}, words);
    tcp_frame_add(link_to(b, 0), (struct tcp_frame){.kind = TCP_PUT, .words = 2}, words);
    tcp_frame_add(link_to(b, 0), (struct tcp_frame){.kind = TCP_MARK, .words = 1}, words);
    WAIT_FOR(f.status != MEM_DONE);
    assert_int_equal(f.status, MEM_DENIED);
    assert_int_equal(f.done, 0);
    poll_for(20);
    for (uint32_t i = 0; i < WORDS; i++)
        assert_int_equal(mem_word(own, i), 0);
    for (uint32_t i = 0; i < RING; i++)
        assert_int_equal(own->ring[i], 0);
    /* Another flow under that ballot is none of this. */
    mem_flow_open(b, &f, 0, REGION, 5);
    mem_set1(b, &f, out, 0, 7);
    mem_mark(b, &f, 1);
    wait_done(&f, 1);
    assert_int_equal(mem_word(own, 0), 7);
}

/* A flow into a region that its owner has not opened. */
static void tcp__a_flow_to_no_region_is_lost(void **state)
{
    struct mem_flow f;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    wait_connected(a, b);
    mem_flow_open(b, &f, 0, REGION, 5);
    mem_mark(b, &f, 1);
    WAIT_FOR(f.status != MEM_DONE);
    assert_int_equal(f.status, MEM_LOST);
    assert_true(far_connected(a, 1));
}

/* An answer to a flow that was closed is not one to the flow that has its number now. */
static void tcp__answers_are_of_the_flow_that_was_marked(void **state)
{
    struct mem_flow f;

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    lane_of(a, 0, 1);
    struct mem_lane *out = lane_of(b, 0, 1);
    wait_connected(a, b);
    mem_flow_open(b, &f, 0, REGION, 0);
    uint32_t number = flow_impl(&f)->index;
    mem_set1(b, &f, out, 0, 1);
    mem_mark(b, &f, 3);
    mem_flush(b);
    const struct tcp_link *l = link_to(a, 1);
    while (l->in_flows <= number || l->in_flow[number].tag != 3)
        mem_poll(a); /* it answers, and b does not hear yet */
    mem_flow_close(b, &f);
    mem_flow_open(b, &f, 0, REGION, 0);
    assert_int_equal(flow_impl(&f)->index, number);
    mem_mark(b, &f, 9);
    for (uint64_t until = clock_now_ns() + 50000000; clock_now_ns() < until;)
        mem_poll(b);
    assert_int_equal(f.status, MEM_DONE);
    assert_int_equal(f.done, 0);
    wait_done(&f, 9);
}

static uint32_t answers_in_stage(const struct tcp_link *l)
{
    uint32_t found = 0;

    for (size_t at = l->stage_tail; at < l->stage_head;) {
        struct tcp_frame f;
        memcpy(&f, l->stage + at, sizeof f);
        found += f.kind == TCP_ANSWER;
        at += tcp_frame_bytes(&f);
    }
    return found;
}

/* However many marks have come: one answer for each flow, with the last of them. */
static void tcp__answers_once_for_each_flow(void **state)
{
    struct mem_flow f[3];

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    lane_of(a, 0, 1);
    lane_of(b, 0, 1);
    wait_connected(a, b);
    poll_for(20);
    for (int i = 0; i < 3; i++)
        mem_flow_open(b, &f[i], 0, REGION, 0);
    for (uint64_t tag = 1; tag <= 100; tag++)
        for (int i = 0; i < 3; i++)
            mem_mark(b, &f[i], tag);
    mem_flush(b);
    struct tcp_link *l = link_to(a, 1);
    assert_true(tcp_sent(&l->link));
    while (l->stage_head == l->stage_tail) /* until it has come, which is one record and one recv */
        assert_true(tcp_receive(l));
    assert_int_equal(answers_in_stage(l), 3);
    for (int i = 0; i < 3; i++) {
        wait_done(&f[i], 100);
        assert_int_equal(f[i].done, 100);
    }
}

/* ---- processes that fork ---- */

/* A child that was forked has all sockets of its parent. The end of a connection is one for the other side all the same,
 * and nothing of it comes to the parent any more. */
static void tcp__a_child_keeps_no_connection(void **state)
{
    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    wait_connected(a, b);
    pid_t kid = fork();
    if (kid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    uint64_t id = link_to(b, 0)->link.id;
    quiet_begin();
    mem_drop(a, 1);
    WAIT_FOR(!peer_at(far_of(b), 0)->link || link_to(b, 0)->link.id != id);
    wait_connected(a, b);
    poll_for(50);
    kill(kid, SIGKILL);
    waitpid(kid, NULL, 0);
    poll_for(20);
    assert_true(far_connected(a, 1));
    quiet_end();
}

/* ---- peers that have a key, and do what no node does ---- */

/* Lanes of the host that is written to, by number. */
enum { OF_ONE, OF_TWO, OF_ONE_THERE, OF_CLIENT, TO_ONE, LANES };

/* Frames that end the connection of who sends them, the last of them at the latest. Flow 0 is open, to REGION. */
struct wrong {
    const char *why;
    struct tcp_frame frame[2];
    uint64_t words[2];
};

#define NOT_ITS_LANE "it wrote to a lane that it does not have"
#define BEYOND_RING "it wrote beyond the end of a ring"
#define BEYOND_WORDS "it wrote beyond the control words of a lane"
#define NO_FLOW "it opened a flow that it cannot have"
#define NO_MARK "it marked a flow that is none"
#define NOT_ASKED "it answered what was not asked"
#define MAY_NOT_READ "it read a lane that it may not read"
#define READ_BEYOND "it read beyond the end of a lane"
#define UNKNOWN "it sent a frame of an unknown kind"

static const struct wrong by_host[] = {
    {NO_FLOW, {{.kind = TCP_OPEN, .words = 2, .flow = 5, .lane = REGION}}, {0, 1}},
    {NO_FLOW, {{.kind = TCP_OPEN, .words = 1, .flow = 1, .lane = REGION}}, {0, 1}},
    {NO_FLOW, {{.kind = TCP_OPEN, .words = 2, .flow = TCP_FLOWS_MAX}}, {0, 1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .lane = OF_TWO}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .lane = OF_CLIENT}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .lane = TO_ONE}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .lane = LANES}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .lane = UINT32_MAX}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .lane = OF_ONE_THERE}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .flow = 9, .lane = OF_ONE}}, {1}},
    {BEYOND_RING, {{.kind = TCP_PUT, .words = 1, .lane = OF_ONE, .at = 4}}, {1}},
    {BEYOND_RING, {{.kind = TCP_PUT, .words = 1, .lane = OF_ONE, .at = RING}}, {1}},
    {BEYOND_RING, {{.kind = TCP_PUT, .words = 2, .lane = OF_ONE, .at = RING - 8}}, {1}},
    {BEYOND_RING, {{.kind = TCP_PUT, .words = 1, .lane = OF_ONE, .at = UINT32_MAX - 7}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_SET, .words = 1, .lane = OF_TWO}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_SET, .words = 1, .lane = TO_ONE}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_SET, .words = 1, .lane = OF_ONE_THERE}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_SET, .words = 1, .flow = 9, .lane = OF_ONE}}, {1}},
    {BEYOND_WORDS, {{.kind = TCP_SET, .words = 1, .lane = OF_ONE, .at = WORDS}}, {1}},
    {BEYOND_WORDS, {{.kind = TCP_SET, .words = 2, .lane = OF_ONE, .at = WORDS - 1}}, {1}},
    {BEYOND_WORDS, {{.kind = TCP_SET, .words = 1, .lane = OF_ONE, .at = UINT32_MAX}}, {1}},
    {NO_MARK, {{.kind = TCP_MARK, .words = 1, .flow = 9}}, {1}},
    {NO_MARK, {{.kind = TCP_MARK}}, {1}},
    {NO_MARK, {{.kind = TCP_MARK, .words = 1}, {.kind = TCP_MARK, .words = 1}}, {5, 4}},
    {NOT_ASKED, {{.kind = TCP_ANSWER, .words = 2, .flow = 77, .at = MEM_DONE}}, {1, 1}},
    {NOT_ASKED, {{.kind = TCP_ANSWER, .words = 1, .at = MEM_DONE}}, {1, 1}},
    {NOT_ASKED, {{.kind = TCP_DATA, .words = 1, .at = MEM_DONE}}, {1}},
    {NOT_ASKED, {{.kind = TCP_DATA, .at = MEM_LOST}}, {0}},
    {MAY_NOT_READ, {{.kind = TCP_READ_CTL, .words = 1, .lane = OF_ONE}}, {0}},
    {MAY_NOT_READ, {{.kind = TCP_READ_CTL, .words = 0, .lane = OF_ONE}}, {0}},
    {MAY_NOT_READ, {{.kind = TCP_READ_RING, .words = 1, .lane = OF_ONE}}, {READ_WORDS + 1}},
    {MAY_NOT_READ, {{.kind = TCP_READ_CTL, .words = 1, .lane = LANES}}, {1}},
    {MAY_NOT_READ, {{.kind = TCP_READ_CTL, .words = 1, .lane = TO_ONE}}, {1}},
    {READ_BEYOND, {{.kind = TCP_READ_CTL, .words = 1, .lane = OF_ONE, .at = WORDS}}, {1}},
    {READ_BEYOND, {{.kind = TCP_READ_CTL, .words = 1, .lane = OF_TWO}}, {WORDS + 1}},
    {READ_BEYOND, {{.kind = TCP_READ_RING, .words = 1, .lane = OF_ONE, .at = RING}}, {1}},
    {READ_BEYOND, {{.kind = TCP_READ_RING, .words = 1, .lane = OF_ONE, .at = RING - 8}}, {2}},
    {READ_BEYOND, {{.kind = TCP_READ_RING, .words = 1, .lane = OF_ONE, .at = 4}}, {1}},
    {"it asked for a promise", {{.kind = TCP_PEEK, .words = 1, .lane = REGION}}, {1}},
    {"it said hello twice", {{.kind = TCP_HELLO, .words = 2}}, {1}},
    {"it sent a message that is none", {{.kind = TCP_MESSAGE, .words = 1}}, {0}},
    {"it sent what no one of us sends",
     {{.kind = TCP_MESSAGE, .words = 1}},
     {8ul << 32 | 1 << 16 | FAR_LOOK}},
    {"it sent a frame that is too long", {{.kind = TCP_PUT, .words = TCP_FRAME_WORDS + 1}}, {1}},
    {UNKNOWN, {{.kind = TCP_KINDS}}, {0}},
    {UNKNOWN, {{.kind = 0}, {.kind = 255}}, {0}},
};

static const struct wrong by_client[] = {
    {NO_FLOW, {{.kind = TCP_OPEN, .words = 2, .flow = 1, .lane = REGION}}, {5, 1}},
    {NOT_ITS_LANE, {{.kind = TCP_PUT, .words = 1, .lane = OF_ONE}}, {1}},
    {NOT_ITS_LANE, {{.kind = TCP_SET, .words = 1, .lane = OF_TWO}}, {1}},
    {MAY_NOT_READ, {{.kind = TCP_READ_CTL, .words = 1, .lane = OF_ONE}}, {1}},
    {MAY_NOT_READ, {{.kind = TCP_READ_RING, .words = 1, .lane = OF_TWO}}, {1}},
    {"it asked for a promise", {{.kind = TCP_PEEK, .lane = REGION}}, {1}},
};

static struct {
    struct mem *host, *one, *two, *client;
    struct mem_lane *lane[LANES];
} stage;

/* A host that three others write to. */
static void stage_open(void)
{
    const struct mem_lane_spec specs[LANES] = {
        [OF_ONE] = spec_of(0, 1, REGION, RING),
        [OF_TWO] = spec_of(0, 2, REGION, RING),
        [OF_ONE_THERE] = spec_of(0, 1, OTHER_REGION, RING),
        [OF_CLIENT] = spec_of(0, CLIENT, REGION, RING),
        [TO_ONE] = spec_of(1, 0, REGION, RING),
    };
    enum mem_birth birth;
    struct err e = {""};

    stage.host = open_node(0);
    region(stage.host);
    assert_int_equal(mem_region_open(stage.host, OTHER_REGION, &birth, &e), 0);
    assert_int_equal(mem_lanes_open(stage.host, specs, LANES, stage.lane, &e), 0);
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(((struct lane *)stage.lane[i])->id, i);
    stage.one = open_node(1);
    lane_open(stage.one, &specs[OF_ONE]);
    lane_open(stage.one, &specs[OF_ONE_THERE]);
    region(stage.one);
    lane_open(stage.one, &specs[TO_ONE]);
    stage.two = open_node(2);
    lane_open(stage.two, &specs[OF_TWO]);
    stage.client = open_client(CLIENT);
    lane_open(stage.client, &specs[OF_CLIENT]);
    wait_connected(stage.host, stage.one);
    wait_connected(stage.host, stage.two);
    wait_connected(stage.host, stage.client);
    WAIT_FOR(stage.lane[OF_CLIENT]->ring);
    for (uint32_t i = 0; i < LANES; i++)
        if (stage.lane[i]->ring)
            memset(stage.lane[i]->ring, 0x5a, RING);
}

static void expect_unharmed(void)
{
    for (uint32_t i = 0; i < LANES; i++) {
        for (uint32_t k = 0; stage.lane[i]->ring && k < RING; k++)
            assert_int_equal(stage.lane[i]->ring[k], 0x5a);
        for (uint32_t k = 0; stage.lane[i]->ctl && k < WORDS; k++)
            assert_int_equal(mem_word(stage.lane[i], k), 0);
    }
}

/* Sends them over a link of m's own, which is in the midst of everything. */
static void send_wrong(struct mem *m, const struct wrong *w)
{
    static uint64_t words[TCP_FRAME_WORDS + 1];
    const uint64_t open[] = {0, 1};

    tcp_frame_add(link_to(m, 0), (struct tcp_frame){.kind = TCP_OPEN, .words = 2, .lane = REGION},
                  open);
    memcpy(words, w->words, sizeof w->words);
    tcp_frame_add(link_to(m, 0), w->frame[0], words);
    if (w->frame[1].kind)
        tcp_frame_add(link_to(m, 0), w->frame[1], w->words + 1);
    mem_flush(m);
}

static void expect_wrong(struct mem *m, const struct wrong *w)
{
    const struct far *o = far_of(stage.host);
    uint64_t id = link_to(stage.host, m->self)->link.id, two = link_to(stage.host, 2)->link.id;
    uint64_t before = tcp_counts(stage.host).malformed;

    send_wrong(m, w);
    while (peer_at(o, m->self)->link && link_to(stage.host, m->self)->link.id == id)
        mem_poll(stage.host);
    expect_says(o->trouble, w->why);
    assert_int_equal(tcp_counts(stage.host).malformed, before + 1);
    assert_int_equal(link_to(stage.host, 2)->link.id, two);
    expect_unharmed();
    WAIT_FOR(!peer_at(far_of(m), 0)->link || !far_connected(m, 0) ||
             !far_connected(stage.host, m->self));
    peer_at(far_of(m), 0)->dial_wait_ns = DIAL_NS_MIN;
    peer_at(far_of(m), 0)->dial_ns = 0;
    wait_connected(stage.host, m);
}

static void tcp__a_host_that_sends_nonsense_ends_its_own_connection_alone(void **state)
{
    (void)state;
    quiet_begin();
    stage_open();
    for (size_t i = 0; i < sizeof by_host / sizeof by_host[0]; i++)
        expect_wrong(stage.one, &by_host[i]);
    quiet_end();
}

static void tcp__a_client_that_sends_nonsense_ends_its_own_connection_alone(void **state)
{
    (void)state;
    quiet_begin();
    stage_open();
    for (size_t i = 0; i < sizeof by_client / sizeof by_client[0]; i++)
        expect_wrong(stage.client, &by_client[i]);
    quiet_end();
}

/* Who is asked answers with something else than was asked for: the op is LOST, and nothing is where it should not be. */
static void answer_wrongly(struct tcp_frame wrong)
{
    static uint64_t words[TCP_FRAME_WORDS];
    uint64_t out[WORDS + 1];
    struct mem_op op;

    memset(out, 0x11, sizeof out);
    memset(words, 0x22, sizeof words);
    mem_read_ctl(stage.host, &op, stage.lane[TO_ONE], 0, WORDS, out);
    tcp_frame_add(link_to(stage.one, 0), wrong, words);
    mem_flush(stage.one);
    while (op.status == MEM_PENDING)
        mem_poll(stage.host);
    assert_int_equal(op.status, MEM_LOST);
    for (uint32_t i = 0; i <= WORDS; i++)
        assert_int_equal(out[i], 0x1111111111111111u);
    peer_at(far_of(stage.one), 0)->dial_wait_ns = DIAL_NS_MIN;
    wait_connected(stage.host, stage.one);
}

static void tcp__a_wrong_answer_is_none(void **state)
{
    (void)state;
    quiet_begin();
    stage_open();
    answer_wrongly((struct tcp_frame){.kind = TCP_DATA, .words = WORDS + 1, .at = MEM_DONE});
    answer_wrongly((struct tcp_frame){.kind = TCP_DATA, .words = WORDS - 1, .at = MEM_DONE});
    answer_wrongly((struct tcp_frame){.kind = TCP_DATA, .words = 1, .at = MEM_LOST});
    answer_wrongly((struct tcp_frame){.kind = TCP_DATA, .words = WORDS, .at = MEM_PENDING});
    answer_wrongly((struct tcp_frame){.kind = TCP_DATA, .words = WORDS, .at = 77});
    quiet_end();
}

/* A second answer to what was answered. */
static void tcp__an_answer_comes_once(void **state)
{
    static uint64_t words[WORDS];
    uint64_t out[WORDS];
    struct mem_op op;

    (void)state;
    quiet_begin();
    stage_open();
    uint64_t id = link_to(stage.host, 1)->link.id;
    do { /* until what is remembered of them begins anew */
        mem_read_ctl(stage.host, &op, stage.lane[TO_ONE], 0, WORDS, out);
        wait_op(&op, MEM_DONE);
    } while (link_to(stage.host, 1)->ask_tail % link_to(stage.host, 1)->ask_room != 0);
    memset(out, 0x11, sizeof out);
    tcp_frame_add(link_to(stage.one, 0),
                  (struct tcp_frame){.kind = TCP_DATA, .words = WORDS, .at = MEM_DONE}, words);
    mem_flush(stage.one);
    while (peer_at(far_of(stage.host), 1)->link && link_to(stage.host, 1)->link.id == id)
        mem_poll(stage.host);
    assert_int_equal(tcp_counts(stage.host).malformed, 1);
    for (uint32_t i = 0; i < WORDS; i++)
        assert_int_equal(out[i], 0x1111111111111111u);
    quiet_end();
}

/* An owner that says that more is done than was marked, or less than it said before. */
static void lie_about_marks(uint64_t first, uint64_t then)
{
    struct mem_flow f;

    mem_flow_open(stage.host, &f, 1, REGION, 0);
    mem_mark(stage.host, &f, 5);
    uint64_t words[] = {flow_impl(&f)->gen, first};
    struct tcp_frame a = {
        .kind = TCP_ANSWER, .words = 2, .flow = flow_impl(&f)->index, .at = MEM_DONE};
    tcp_frame_add(link_to(stage.one, 0), a, words);
    words[1] = then;
    tcp_frame_add(link_to(stage.one, 0), a, words);
    mem_flush(stage.one);
    while (f.status == MEM_DONE)
        mem_poll(stage.host);
    assert_int_equal(f.status, MEM_LOST);
    assert_true(f.done <= 5);
    peer_at(far_of(stage.one), 0)->dial_wait_ns = DIAL_NS_MIN;
    wait_connected(stage.host, stage.one);
}

static void tcp__an_owner_cannot_do_more_than_was_marked(void **state)
{
    (void)state;
    quiet_begin();
    stage_open();
    lie_about_marks(6, 6);
    lie_about_marks(5, 4);
    quiet_end();
}

/* Reads that are never taken: who asks for more than there is room for is not served for ever. */
static void tcp__who_reads_and_takes_nothing_is_given_up(void **state)
{
    const uint64_t words = READ_WORDS;
    struct tcp_frame read = {.kind = TCP_READ_RING, .words = 1, .lane = OF_ONE};

    (void)state;
    quiet_begin();
    stage_open();
    const struct tcp_link *l = link_to(stage.host, 1);
    size_t most = 0;
    while (peer_at(far_of(stage.host), 1)->link == &l->link) {
        tcp_frame_add(link_to(stage.one, 0), read, &words);
        tcp_push(link_to(stage.one, 0)); /* and does not receive */
        mem_poll(stage.host);
        if (peer_at(far_of(stage.host), 1)->link == &l->link && l->stage_room > most)
            most = l->stage_room;
    }
    assert_true(most <= 4 * l->stage_most);
    quiet_end();
    wait_connected(stage.host, stage.one);
    expect_unharmed();
}

/* A host tells of another beginning of the cluster over a connection that is up: it is refused, and whoever else comes is
 * not. */
static void tcp__a_host_that_is_refused_later_counts_once(void **state)
{
    struct roll_item items[ROLL_HOSTS_MAX];

    (void)state;
    quiet_begin();
    stage_open();
    struct far *o = far_of(stage.host), *one = far_of(stage.one);
    struct link *l = &link_to(stage.host, 1)->link;
    assert_int_equal(o->links_pending, 0);
    roll_tell(&one->roll, items);
    link_refuse(l, FAR_REASON_OTHER, l->life);
    link_close(l, false, "for the test");
    assert_int_equal(o->links_pending, 0);
    wait_connected(stage.host, stage.one);
    assert_int_equal(o->links_pending, 0);
    quiet_end();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, tcp_setup, nodes_teardown)
    const struct CMUnitTest cases[] = {
        CASE(tcp__a_put_larger_than_a_frame_lands_whole),
        CASE(tcp__reads_larger_than_the_window_come_whole),
        CASE(tcp__a_read_of_a_lane_that_ends_is_lost),
        CASE(tcp__who_takes_nothing_costs_a_bounded_memory),
        CASE(tcp__a_flood_leaves_room_for_answers),
        CASE(tcp__a_client_that_comes_late_has_room_for_its_rings),
        CASE(tcp__denied_is_for_good),
        CASE(tcp__a_flow_to_no_region_is_lost),
        CASE(tcp__answers_are_of_the_flow_that_was_marked),
        CASE(tcp__answers_once_for_each_flow),
        CASE(tcp__a_child_keeps_no_connection),
        CASE(tcp__a_host_that_sends_nonsense_ends_its_own_connection_alone),
        CASE(tcp__a_client_that_sends_nonsense_ends_its_own_connection_alone),
        CASE(tcp__a_wrong_answer_is_none),
        CASE(tcp__an_answer_comes_once),
        CASE(tcp__an_owner_cannot_do_more_than_was_marked),
        CASE(tcp__who_reads_and_takes_nothing_is_given_up),
        CASE(tcp__a_host_that_is_refused_later_counts_once),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
