/* The contract of mem.h on shared memory, with all nodes in one thread; and bad use. Kills, stops
 * and races between processes are in tests/proc/shm_*.c; strangers on the socket in mem_shm_take.c. */
#include "../shm_raw.h"
#include "../skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

static struct node nodes[HOSTS];

static void open_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        nodes[i] = host_open(i);
    assert_true(all_connected(nodes, count));
}

static void close_all_nodes(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        shm_close_node(nodes[i].mem);
    memset(nodes, 0, sizeof nodes);
}

static void shm__the_owner_sees_what_a_writer_puts(void **state)
{
    struct mem_flow f;
    unsigned char data[96], back[96];
    struct mem_op op;

    (void)state;
    open_all(2);
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    struct mem_lane *theirs = nodes[0].lane[1][0], *own = nodes[1].lane[1][0];
    assert_null(theirs->ctl); /* not ours */
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0);
    assert_int_equal(f.status, MEM_DONE);

    uint64_t pos = 5ul * RING - 40; /* wraps, in a late lap */
    mem_put(nodes[0].mem, &f, theirs, pos, data, sizeof data);
    mem_set1(nodes[0].mem, &f, theirs, 2, pos + sizeof data);
    mem_mark(nodes[0].mem, &f, 1);
    assert_int_equal(f.done, 0);
    assert_true(mem_poll(nodes[0].mem) >= 1); /* what arrives from others counts too */
    assert_int_equal(f.done, 1);

    assert_true(mem_word(own, 2) == pos + sizeof data);
    assert_memory_equal(own->ring + pos % RING, data, 40);
    assert_memory_equal(own->ring, data + 40, sizeof data - 40);
    mem_read_ring(nodes[1].mem, &op, own, pos, back, sizeof back);
    assert_int_equal(op.status, MEM_DONE);
    assert_memory_equal(back, data, sizeof data);
    /* A third node reads the same, and so does the writer. */
    mem_read_ring(nodes[0].mem, &op, theirs, pos, back, sizeof back);
    assert_int_equal(op.status, MEM_DONE);
    assert_memory_equal(back, data, sizeof data);
    close_all_nodes(2);
}

static void shm__one_poll_settles_all_marks(void **state)
{
    struct mem_flow f[HOSTS], idle;

    (void)state;
    open_all(3);
    mem_flow_open(nodes[0].mem, &idle, 1, REGION, 0);
    for (unsigned i = 0; i < HOSTS; i++) {
        mem_flow_open(nodes[0].mem, &f[i], i, REGION, 0);
        for (unsigned k = 1; k <= 3; k++) {
            mem_set1(nodes[0].mem, &f[i], nodes[0].lane[i][0], 0, k);
            mem_mark(nodes[0].mem, &f[i], k);
        }
    }
    /* On a busy machine what the helper does for who connects comes late, and counts too. */
    assert_true(mem_poll(nodes[0].mem) >= HOSTS);
    for (unsigned i = 0; i < HOSTS; i++)
        assert_int_equal(f[i].done, 3);
    assert_int_equal(idle.done, 0);
    uint64_t until = clock_now_ns() + 10000000000u;
    while (mem_poll(nodes[0].mem) != 0)
        assert_true(clock_now_ns() < until);
    close_all_nodes(3);
}

static void shm__a_raise_takes_the_permission_away(void **state)
{
    struct mem_flow f;
    struct mem_op op;
    uint64_t value;

    (void)state;
    open_all(2);
    assert_int_equal(raise_to(nodes[0].mem, 1, 5, &value), MEM_DONE);
    assert_int_equal(value, 5);
    assert_int_equal(raise_to(nodes[0].mem, 1, 5, &value), MEM_DONE); /* again is no harm */
    assert_int_equal(mem_promised(nodes[1].mem, REGION), 5);
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 5);
    mem_set1(nodes[0].mem, &f, nodes[0].lane[1][0], 0, 1);
    mem_mark(nodes[0].mem, &f, 1);
    mem_poll(nodes[0].mem);
    assert_int_equal(f.done, 1);

    mem_set1(nodes[0].mem, &f, nodes[0].lane[1][0], 0, 2);
    mem_mark(nodes[0].mem, &f, 2);
    assert_int_equal(raise_to(nodes[1].mem, 1, 6, NULL), MEM_DONE);
    mem_poll(nodes[0].mem);
    assert_int_equal(f.status, MEM_DENIED);
    assert_int_equal(f.done, 1);

    /* Failed for good: nothing is written any more, not even with the promise back in reach. */
    mem_set1(nodes[0].mem, &f, nodes[0].lane[1][0], 0, 3);
    mem_mark(nodes[0].mem, &f, 3);
    mem_poll(nodes[0].mem);
    assert_int_equal(f.done, 1);
    assert_int_not_equal(mem_word(nodes[1].lane[1][0], 0), 3);

    assert_int_equal(raise_to(nodes[0].mem, 1, 4, &value), MEM_DENIED);
    assert_int_equal(value, 6);
    mem_peek(nodes[0].mem, &op, 1, REGION);
    assert_int_equal(op.status, MEM_DONE);
    assert_int_equal(op.value, 6);
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 6);
    mem_set1(nodes[0].mem, &f, nodes[0].lane[1][0], 0, 4);
    mem_mark(nodes[0].mem, &f, 1);
    mem_poll(nodes[0].mem);
    assert_int_equal(f.done, 1);
    close_all_nodes(2);
}

static void shm__a_reopened_flow_forgets_what_it_was(void **state)
{
    struct mem_flow f;

    (void)state;
    open_all(2);
    memset(&f, 0xa5, sizeof f);
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0);
    mem_mark(nodes[0].mem, &f, 9);
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0); /* while the mark is pending */
    mem_poll(nodes[0].mem); /* there may be news of connections, but not of that mark */
    assert_int_equal(f.done, 0);
    mem_mark(nodes[0].mem, &f, 1);
    mem_flow_close(nodes[0].mem, &f);
    mem_poll(nodes[0].mem);
    assert_int_equal(f.done, 0);
    close_all_nodes(2);
}

static void shm__who_is_not_there_is_lost_or_blank(void **state)
{
    struct mem_flow f;
    uint64_t value = 7;
    unsigned char back[64];
    struct mem_op op;

    (void)state;
    open_all(2);
    mem_flow_open(nodes[0].mem, &f, 2, REGION, 0);
    assert_int_equal(f.status, MEM_LOST);
    assert_int_equal(raise_to(nodes[0].mem, 2, 1, NULL), MEM_LOST);
    mem_peek(nodes[0].mem, &op, 2, REGION);
    assert_int_equal(op.status, MEM_LOST);
    assert_int_equal(read_word(&nodes[0], 2, 0, 0, &value), MEM_DONE); /* what we wrote there */
    assert_int_equal(read_word(&nodes[0], 2, 1, 0, &value), MEM_LOST);
    /* A lane at a live owner whose writer has never come is as it was born. */
    value = 7;
    assert_int_equal(read_word(&nodes[0], 1, 2, 0, &value), MEM_DONE);
    assert_int_equal(value, 0);
    memset(back, 7, sizeof back);
    mem_read_ring(nodes[0].mem, &op, nodes[0].lane[1][2], RING - 8, back, sizeof back);
    assert_int_equal(op.status, MEM_DONE);
    assert_int_equal(back[0] | back[63], 0);
    assert_null(nodes[1].lane[1][2]->ctl);
    assert_false(mem_dead(nodes[0].mem, 2));
    close_all_nodes(2);
}

static void shm__lanes_opened_later_connect_too(void **state)
{
    struct mem_lane *writer_side[2], *owner_side[2];
    struct mem_lane_spec specs[2] = {fixture_spec(1, 0), fixture_spec(1, 0)};
    struct mem_flow f;
    struct err e;

    (void)state;
    open_all(2);
    specs[0].kind = 50;
    specs[1].kind = 51;
    specs[1].ring_bytes = 0;
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0);
    assert_int_equal(mem_lanes_open(nodes[0].mem, specs, 2, writer_side, &e), 0);
    mem_set1(nodes[0].mem, &f, writer_side[1], 3, 77);
    mem_mark(nodes[0].mem, &f, 1);
    /* Done only when the owner has the memory: until then it could not survive us. */
    uint64_t until = clock_now_ns() + 5000000000u;
    while (!f.done && clock_now_ns() < until)
        mem_poll(nodes[0].mem);
    assert_int_equal(f.done, 1);
    assert_int_equal(mem_lanes_open(nodes[1].mem, specs, 2, owner_side, &e), 0);
    /* Not always in one poll: it passes by what the helper is at work on. */
    while (!owner_side[1]->ctl && clock_now_ns() < until)
        mem_poll(nodes[1].mem);
    assert_non_null(owner_side[1]->ctl);
    assert_null(owner_side[1]->ring);
    assert_int_equal(mem_word(owner_side[1], 3), 77);
    assert_int_equal(mem_word(owner_side[0], 0), 0);
    /* The same again gives the same handles. */
    struct mem_lane *again[2];
    assert_int_equal(mem_lanes_open(nodes[1].mem, specs, 2, again, &e), 0);
    assert_ptr_equal(again[0], owner_side[0]);
    close_all_nodes(2);
}

static struct shm_options client_options(void)
{
    struct shm_options o = fixture_options(0);

    o.self = (struct shm_node){.name = "c0", .node = CLIENT, .role = SHM_CLIENT};
    return o;
}

static void shm__clients_have_lanes_but_no_promises(void **state)
{
    struct shm_options o = client_options();
    struct mem_lane_spec specs[2] = {fixture_spec(0, CLIENT), fixture_spec(CLIENT, 0)};
    struct mem_lane *client_lane[2], *host_lane[2];
    struct mem *client;
    struct mem_flow f, back;
    enum mem_birth birth;
    struct err e;

    (void)state;
    open_all(2);
    assert_int_equal(shm_open_node(&o, &client, &e), 0);
    assert_int_equal(mem_region_open(client, REGION, &birth, &e), 0);
    assert_int_equal(mem_lanes_open(client, specs, 2, client_lane, &e), 0);
    assert_int_equal(mem_lanes_open(nodes[0].mem, specs, 2, host_lane, &e), 0);
    uint64_t until = clock_now_ns() + 5000000000u;
    while (!(client_lane[1]->ctl && host_lane[0]->ctl && shm_connected(client, 0) &&
             shm_connected(nodes[0].mem, CLIENT)) &&
           clock_now_ns() < until) {
        mem_poll(client);
        mem_poll(nodes[0].mem);
    }
    assert_true(clock_now_ns() < until);

    mem_flow_open(client, &f, 0, REGION, 0);
    mem_set1(client, &f, client_lane[0], 0, 5);
    mem_mark(client, &f, 1);
    mem_poll(client);
    assert_int_equal(f.done, 1);
    assert_int_equal(mem_word(host_lane[0], 0), 5);
    mem_flow_open(nodes[0].mem, &back, CLIENT, REGION, 0);
    mem_set1(nodes[0].mem, &back, host_lane[1], 0, 6);
    mem_mark(nodes[0].mem, &back, 1);
    mem_poll(nodes[0].mem);
    assert_int_equal(back.done, 1);
    assert_int_equal(mem_word(client_lane[1], 0), 6);

    assert_int_equal(raise_to(client, 0, 5, NULL), MEM_LOST);
    assert_int_equal(raise_to(nodes[0].mem, CLIENT, 5, NULL), MEM_LOST);
    mem_flow_open(client, &f, 0, REGION, 5);
    assert_int_equal(f.status, MEM_LOST);
    shm_close_node(client);
    until = clock_now_ns() + 5000000000u;
    while (!mem_dead(nodes[0].mem, CLIENT) && clock_now_ns() < until)
        mem_poll(nodes[0].mem);
    assert_true(mem_dead(nodes[0].mem, CLIENT));
    close_all_nodes(2);
}

/* A client writes a lane that the host has not opened: the host is told of it, once, and when it opens it, it
 * is connected. The next process in the client's place is offered again if its lane is still not open. */
static void shm__a_clients_lane_is_offered_to_its_owner(void **state)
{
    struct shm_options o = client_options();
    struct mem_lane_spec spec = fixture_spec(0, CLIENT), told;
    struct mem_lane *lane;
    struct err e;

    (void)state;
    open_all(1);
    for (int life = 0; life < 3; life++) {
        struct mem *client;
        assert_int_equal(shm_open_node(&o, &client, &e), 0);
        spec.kind = 40;
        assert_int_equal(mem_lanes_open(client, &spec, 1, &lane, &e), 0);
        uint64_t until = clock_now_ns() + 5000000000u;
        while (!nodes[0].mem->offered && clock_now_ns() < until)
            mem_poll(nodes[0].mem);
        assert_true(mem_offer(nodes[0].mem, &told));
        assert_memory_equal(&told, &spec, sizeof spec);
        assert_false(mem_offer(nodes[0].mem, &told));
        if (life == 2) {
            assert_int_equal(mem_lanes_open(nodes[0].mem, &spec, 1, &lane, &e), 0);
            assert_non_null(lane->ctl);
        }
        shm_close_node(client);
        while (!mem_dead(nodes[0].mem, CLIENT) && clock_now_ns() < until)
            mem_poll(nodes[0].mem);
    }
    /* It has let go of what the client wrote. */
    uint64_t until = clock_now_ns() + 5000000000u;
    while (lane->ctl && clock_now_ns() < until)
        mem_poll(nodes[0].mem);
    assert_null(lane->ctl);
    close_all_nodes(1);
}

static unsigned lines_of(const char *path)
{
    FILE *f = fopen(path, "r");
    unsigned lines = 0;

    for (int c; (c = getc(f)) != EOF;)
        lines += c == '\n';
    fclose(f);
    return lines;
}

/* 2,048 regions and 20,000 lanes, opened a few at a time: all are found again by number, one region more is
 * refused, and neither descriptors nor mappings grow with them. */
static void shm__many_regions_and_lanes_take_few_mappings(void **state)
{
    enum { MANY = 2047, LANES = 10 };
    struct mem_lane_spec specs[LANES];
    struct mem_lane *theirs[LANES], *ours[LANES];
    enum mem_birth birth;
    struct mem_flow f;
    struct err e = {""};

    (void)state;
    open_all(2);
    unsigned before = lines_of("/proc/self/maps");
    for (uint32_t r = 1; r <= MANY; r++) {
        uint32_t region = r % 2 ? r : r | 1u << 30;
        assert_int_equal(mem_region_open(nodes[1].mem, REGION + region, &birth, &e), 0);
        for (uint32_t i = 0; i < LANES; i++) {
            specs[i] = fixture_spec(1, 0);
            specs[i].region = REGION + region;
            specs[i].kind = i;
            specs[i].ring_bytes = i == 0 ? 4096 : 0;
        }
        assert_int_equal(mem_lanes_open(nodes[0].mem, specs, LANES, theirs, &e), 0);
        assert_int_equal(mem_lanes_open(nodes[1].mem, specs, LANES, ours, &e), 0);
    }
    assert_true(lines_of("/proc/self/maps") < before + 40);
    assert_int_equal(mem_region_open(nodes[1].mem, 5000, &birth, &e), ERR_TOOBIG);
    assert_non_null(strstr(e.text, "2048 regions, the maximum"));

    mem_flow_open(nodes[0].mem, &f, 1, specs[0].region, 0);
    mem_set1(nodes[0].mem, &f, theirs[3], 0, 77);
    mem_mark(nodes[0].mem, &f, 1);
    uint64_t until = clock_now_ns() + 10000000000u;
    while (!(f.done && ours[3]->ctl) && clock_now_ns() < until) {
        mem_poll(nodes[0].mem);
        mem_poll(nodes[1].mem);
    }
    assert_int_equal(f.done, 1);
    assert_int_equal(mem_word(ours[3], 0), 77);
    assert_int_equal(raise_to(nodes[0].mem, 1, 3, NULL), MEM_DONE);
    struct mem_op op;
    mem_raise(nodes[0].mem, &op, 1, specs[0].region, 9);
    assert_int_equal(finish(nodes[0].mem, &op), MEM_DONE);
    assert_int_equal(mem_promised(nodes[1].mem, specs[0].region), 9);
    assert_int_equal(mem_promised(nodes[1].mem, REGION), 3);
    close_all_nodes(2);
}

/* ---- ended lanes ---- */

static struct mem_lane_spec large_spec(uint32_t kind, uint32_t ring_bytes)
{
    struct mem_lane_spec s = fixture_spec(1, 0);

    s.kind = kind;
    s.ring_bytes = ring_bytes;
    return s;
}

/* As soon as it is known that everybody has ended the last one. */
static struct mem_lane *open_again(struct node *n, const struct mem_lane_spec *s)
{
    uint64_t until = clock_now_ns() + 10000000000u;
    struct mem_lane *l = NULL;
    struct err e = {""};

    while (mem_lanes_open(n->mem, s, 1, &l, &e) == ERR_EXISTS && clock_now_ns() < until)
        for (unsigned i = 0; i < HOSTS; i++)
            if (nodes[i].mem)
                mem_poll(nodes[i].mem);
    assert_non_null(l);
    return l;
}

/* One life of a lane from node 0 to node 1: nothing is in it, then something, and then it is ended. */
static void lane_comes_and_goes(const struct mem_lane_spec *s, uint64_t value)
{
    uint64_t until = clock_now_ns() + 10000000000u;
    struct mem_lane *out = open_again(&nodes[0], s), *in = open_again(&nodes[1], s);
    struct mem_flow f;

    while (!in->ctl && clock_now_ns() < until)
        mem_poll(nodes[1].mem);
    assert_int_equal(mem_word(in, 3), 0);
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0);
    mem_put(nodes[0].mem, &f, out, s->ring_bytes - 8, &value, 8);
    mem_set1(nodes[0].mem, &f, out, 3, value);
    mem_mark(nodes[0].mem, &f, 1);
    while (f.done != 1 && clock_now_ns() < until)
        for (unsigned i = 0; i < 2; i++)
            mem_poll(nodes[i].mem);
    assert_int_equal(f.done, 1);
    assert_true(mem_word(in, 3) == value);
    assert_memory_equal(in->ring + s->ring_bytes - 8, &value, 8);
    mem_lanes_end(nodes[0].mem, &out, 1);
    mem_lanes_end(nodes[1].mem, &in, 1);
}

/* An owner that has not polled since the writer came, and whose helper has told that it is there, ends that one. */
static void shm__an_end_counts_for_what_was_not_adopted(void **state)
{
    struct mem_lane_spec s = large_spec(80, 1 << 20);
    struct mem_flow f;

    (void)state;
    open_all(2);
    struct mem_lane *in = open_again(&nodes[1], &s), *out = open_again(&nodes[0], &s);
    uint64_t until = clock_now_ns() + 10000000000u;
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0);
    mem_set1(nodes[0].mem, &f, out, 3, 33);
    mem_mark(nodes[0].mem, &f, 1);
    while (f.done != 1 && clock_now_ns() < until)
        mem_poll(nodes[0].mem);
    assert_int_equal(f.done, 1);
    assert_null(in->ctl);
    mem_lanes_end(nodes[1].mem, &in, 1);
    struct err e;
    assert_int_equal(mem_lanes_open(nodes[1].mem, &s, 1, &in, &e), ERR_EXISTS);
    mem_lanes_end(nodes[0].mem, &out, 1);
    lane_comes_and_goes(&s, 44);
    close_all_nodes(2);
}

/* More than a segment holds, in turn and under three names: the bytes are used again. */
static void shm__ended_lanes_leave_their_bytes_to_the_next(void **state)
{
    (void)state;
    open_all(3);
    unsigned before = 0;
    for (uint32_t i = 0; i < 200; i++) {
        struct mem_lane_spec s = large_spec(80 + i % 3, 1 << 20);
        lane_comes_and_goes(&s, 1000 + i);
        if (i == 3)
            before = open_descriptors();
    }
    assert_int_equal(open_descriptors(), before);
    close_all_nodes(3);
}

/* Bytes of one segment serve a lane that is told of in a later one; who comes then finds it there, too. */
static void shm__bytes_of_an_earlier_segment_are_used_again(void **state)
{
    struct mem_lane_spec first = large_spec(80, 32 << 20), second = large_spec(81, 32 << 20);
    struct mem_lane *stays[2], *in[2];
    struct mem_flow f;
    uint64_t word = 0;

    (void)state;
    open_all(2);
    lane_comes_and_goes(&first, 1);
    struct mem_lane *blocks =
        open_again(&nodes[0], &first); /* a second one does not fit beside it */
    in[0] = open_again(&nodes[1], &first);
    stays[0] = open_again(&nodes[0], &second);
    stays[1] = open_again(&nodes[1], &second);
    assert_true(all_connected(nodes, 2));
    unsigned before = open_descriptors();
    mem_lanes_end(nodes[0].mem, &blocks, 1);
    mem_lanes_end(nodes[1].mem, &in[0], 1);
    lane_comes_and_goes(&first, 2);
    stays[0] = open_again(&nodes[0], &first);
    stays[1] = open_again(&nodes[1], &first);
    assert_int_equal(open_descriptors(), before);

    nodes[2] = host_open(2);
    assert_true(all_connected(nodes, 3));
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0);
    mem_set1(nodes[0].mem, &f, stays[0], 5, 55);
    mem_mark(nodes[0].mem, &f, 1);
    mem_poll(nodes[0].mem);
    assert_int_equal(mem_word(stays[1], 5), 55);
    in[1] = open_again(&nodes[2], &first);
    struct mem_op op;
    mem_read_ctl(nodes[2].mem, &op, in[1], 5, 1, &word);
    assert_int_equal(finish(nodes[2].mem, &op), MEM_DONE);
    assert_int_equal(word, 55);
    close_all_nodes(3);
}

/* As long as one that lives has not let go the bytes stay as they are, whoever else has. */
static void shm__bytes_wait_for_everybody(void **state)
{
    struct mem_lane_spec s = large_spec(80, 1 << 20), other = large_spec(81, 1 << 20);
    uint64_t word = 0;
    struct mem_flow f;
    struct mem_op op;

    (void)state;
    open_all(3);
    struct mem_lane *out = open_again(&nodes[0], &s), *in = open_again(&nodes[1], &s);
    struct mem_lane *third = open_again(&nodes[2], &s);
    assert_true(all_connected(nodes, 3));
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 0);
    mem_set1(nodes[0].mem, &f, out, 3, 33);
    mem_mark(nodes[0].mem, &f, 1);
    mem_poll(nodes[0].mem);
    assert_int_equal(f.done, 1);
    mem_read_ctl(nodes[2].mem, &op, third, 3, 1, &word);
    assert_int_equal(finish(nodes[2].mem, &op), MEM_DONE);
    assert_int_equal(word, 33);
    mem_lanes_end(nodes[0].mem, &out, 1);
    mem_lanes_end(nodes[1].mem, &in, 1);
    for (int i = 0; i < 100; i++) { /* the third does not poll */
        mem_poll(nodes[0].mem);
        mem_poll(nodes[1].mem);
        nap(100000);
    }
    out = open_again(&nodes[0], &other);
    mem_set1(nodes[0].mem, &f, out, 3, 44);
    struct mem_lane *again = NULL;
    struct err e;
    assert_int_equal(mem_lanes_open(nodes[0].mem, &s, 1, &again, &e), ERR_EXISTS);
    mem_read_ctl(nodes[2].mem, &op, third, 3, 1, &word);
    assert_int_equal(word, 33);
    mem_lanes_end(nodes[2].mem, &third, 1);
    assert_non_null(open_again(&nodes[0], &s));
    close_all_nodes(3);
}

static void expect_lane_error(struct mem *m, struct mem_lane_spec spec, int code, const char *says)
{
    struct mem_lane *out;
    struct err e = {""};

    assert_int_equal(mem_lanes_open(m, &spec, 1, &out, &e), code);
    if (!strstr(e.text, says))
        fail_msg("\"%s\" does not say \"%s\"", e.text, says);
}

static void shm__a_wrong_lane_is_refused_with_what_would_be_right(void **state)
{
    struct mem_lane_spec s = fixture_spec(0, 1);

    (void)state;
    nodes[0] = host_open(0);
    struct mem *m = nodes[0].mem;
    s.kind = 60;
    s.ctl_words = 0;
    expect_lane_error(m, s, ERR_INVALID, "at least 1");
    s.ctl_words = 1;
    s.ring_bytes = 5000;
    expect_lane_error(m, s, ERR_INVALID, "power of two of at least 4096");
    s.ring_bytes = 2048;
    expect_lane_error(m, s, ERR_INVALID, "power of two of at least 4096");
    s.ring_bytes = 0;
    s.writer = SHM_NODES_MAX;
    expect_lane_error(m, s, ERR_INVALID, "below 4224");
    s.owner = CLIENT;
    s.writer = CLIENT + 1;
    expect_lane_error(m, s, ERR_NOTFOUND, "neither node is a host");
    s = fixture_spec(0, 1);
    s.ctl_words++;
    expect_lane_error(m, s, ERR_INVALID, "it is open with");

    enum mem_birth birth;
    struct err e;
    assert_int_equal(mem_region_open(m, REGION, &birth, &e), ERR_EXISTS);
    close_all_nodes(1);
}

static void shm__sizes_that_differ_never_connect_and_are_told_on_both_sides(void **state)
{
    struct mem_lane_spec mine = fixture_spec(1, 0), theirs = fixture_spec(1, 0);
    struct mem_lane *writer_side, *owner_side;
    char said[4096];
    struct err e;

    (void)state;
    open_all(2);
    mine.kind = theirs.kind = 70;
    theirs.ring_bytes = 2 * RING;
    struct stderr_capture h = stderr_capture_begin();
    assert_int_equal(mem_lanes_open(nodes[1].mem, &mine, 1, &owner_side, &e), 0);
    assert_int_equal(mem_lanes_open(nodes[0].mem, &theirs, 1, &writer_side, &e), 0);
    for (int i = 0; i < 200; i++) {
        mem_poll(nodes[0].mem);
        mem_poll(nodes[1].mem);
        nap(1000000);
    }
    stderr_capture_end(&h, said, sizeof said);
    assert_null(owner_side->ctl);
    const char *first = strstr(said, "ring of 65536 bytes");
    assert_non_null(first);
    assert_non_null(strstr(first, "131072"));
    const char *second = strstr(first + 1, "ring of 65536 bytes");
    assert_non_null(second); /* the owner's line and the writer's */
    assert_null(strstr(second + 1, "ring of 65536 bytes"));
    close_all_nodes(2);
}

static void shm__a_second_owner_is_refused_by_name_and_process(void **state)
{
    struct shm_options o = fixture_options(0);
    struct mem *second;
    char pid[32];
    struct err e;

    (void)state;
    nodes[0] = host_open(0);
    assert_int_equal(shm_open_node(&o, &second, &e), ERR_EXISTS);
    snprintf(pid, sizeof pid, "process %d", (int)getpid());
    assert_non_null(strstr(e.text, "h0"));
    assert_non_null(strstr(e.text, pid));
    /* And the first has come to no harm. */
    nodes[1] = host_open(1);
    assert_true(all_connected(nodes, 2));
    close_all_nodes(2);
}

static int die_open(void *arg)
{
    (void)arg;
    host_open(0);
    return 0; /* without closing: as good as killed */
}

static void shm__a_stale_socket_is_replaced(void **state)
{
    char path[256];
    int status;

    (void)state;
    waitpid(spawn(die_open, NULL), &status, 0);
    assert_int_equal(status, 0);
    fixture_path(path, sizeof path, "h0.sock");
    assert_int_equal(access(path, F_OK), 0);
    nodes[0] = host_open(0);
    assert_int_equal(nodes[0].mem->life, 1);
    assert_int_equal(nodes[0].birth, MEM_BIRTH_LOST); /* nobody had its memory */
    assert_true(mem_promised(nodes[0].mem, REGION) == MEM_CLOSED);
    assert_int_equal(raise_to(nodes[0].mem, 0, 3, NULL), MEM_DENIED);
    mem_region_grant(nodes[0].mem, REGION, 2);
    assert_int_equal(mem_promised(nodes[0].mem, REGION), 2);
    assert_int_equal(raise_to(nodes[0].mem, 0, 3, NULL), MEM_DONE);
    mem_region_grant(nodes[0].mem, REGION, 2); /* opens, never lowers */
    assert_int_equal(mem_promised(nodes[0].mem, REGION), 3);
    nodes[1] = host_open(1);
    assert_true(all_connected(nodes, 2));
    close_all_nodes(2);
}

/* A node that leaves in order when it has just opened, as one does that cannot go on, loses nothing: either
 * a peer has all of its memory, or that life did not count. */
static void shm__who_leaves_at_once_comes_back_whole(void **state)
{
    enum { TIMES = 40 };
    (void)state;
    nodes[0] = host_open(0);
    for (unsigned i = 0; i < TIMES; i++) {
        nodes[1] = host_open(1);
        assert_true(nodes[1].mem->life <= i);
        assert_int_not_equal(nodes[1].birth, MEM_BIRTH_LOST);
        shm_close_node(nodes[1].mem);
    }
    shm_close_node(nodes[0].mem);
}

/* A life that lost its memory and ended before it opened a region leaves a memory that knows nothing of the region. What was promised in the
 * one before is forgotten all the same. */
static void shm__lost_before_the_region_was_opened_is_lost(void **state)
{
    struct shm_options o = fixture_options(1);
    struct err e = {""};

    (void)state;
    open_all(2);
    assert_int_equal(raise_to(nodes[0].mem, 1, 5, NULL), MEM_DONE);
    shm_close_node(nodes[1].mem);
    o.forget = true;
    nodes[1] = (struct node){0};
    assert_int_equal(shm_open_node(&o, &nodes[1].mem, &e), 0);
    shm_close_node(nodes[1].mem); /* and its peer has what there was of it */
    nodes[1] = host_open(1);
    assert_int_equal(nodes[1].birth, MEM_BIRTH_LOST);
    assert_true(mem_promised(nodes[1].mem, REGION) == MEM_CLOSED);
    assert_true(all_connected(nodes, 2));
    close_all_nodes(2);
}

/* A host whose disk is gone wants nothing of its memory, though others have all of it: it promised things that it does not know
 * of. What was under way to that memory never counts. */
static void shm__a_memory_may_be_given_up(void **state)
{
    struct shm_options o = fixture_options(1);
    struct mem_flow f;
    struct err e = {""};

    (void)state;
    open_all(2);
    assert_int_equal(raise_to(nodes[0].mem, 1, 5, NULL), MEM_DONE);
    mem_flow_open(nodes[0].mem, &f, 1, REGION, 5);
    shm_close_node(nodes[1].mem);
    o.forget = true;
    nodes[1] = (struct node){0};
    assert_int_equal(fixture_open(&nodes[1], &o, &e), 0);
    assert_int_equal(nodes[1].birth, MEM_BIRTH_LOST);
    assert_true(mem_promised(nodes[1].mem, REGION) == MEM_CLOSED);
    mem_mark(nodes[0].mem, &f, 1);
    mem_poll(nodes[0].mem);
    assert_int_equal(f.status, MEM_LOST);
    assert_true(all_connected(nodes, 2));
    assert_int_equal(raise_to(nodes[0].mem, 1, 6, NULL), MEM_DENIED);
    close_all_nodes(2);
}

static void expect_open_error(const struct shm_options *o, int code, const char *says)
{
    struct mem *m;
    struct err e = {""};

    assert_int_equal(shm_open_node(o, &m, &e), code);
    if (!strstr(e.text, says))
        fail_msg("\"%s\" does not say \"%s\"", e.text, says);
}

static void shm__wrong_options_are_refused(void **state)
{
    struct shm_node hosts[2] = {fixture_hosts[0], fixture_hosts[1]};
    struct shm_options o = fixture_options(0);
    char longer[100];

    (void)state;
    o.hosts = hosts;
    o.hosts_count = 0;
    expect_open_error(&o, ERR_INVALID, "0 hosts");
    o.hosts_count = 2;
    o.cluster = "../x";
    expect_open_error(&o, ERR_INVALID, "../x");
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    o.cluster = longer;
    expect_open_error(&o, ERR_TOOBIG, "longer than 63");
    o.cluster = "test";
    hosts[1].node = 0;
    expect_open_error(&o, ERR_INVALID, "must agree");
    hosts[1].node = SHM_HOSTS_MAX;
    expect_open_error(&o, ERR_INVALID, "below 128");
    hosts[1] = fixture_hosts[0];
    expect_open_error(&o, ERR_INVALID, "must differ");
    hosts[1] = fixture_hosts[1];
    o.self.role = SHM_CLIENT;
    expect_open_error(&o, ERR_INVALID, "in the list of hosts");
    o.self = (struct shm_node){.name = "", .node = 0, .role = SHM_HOST};
    expect_open_error(&o, ERR_INVALID, "no name");
    o.self = fixture_hosts[0];
    o.dir = "/nowhere/at/all";
    expect_open_error(&o, ERR_SYSTEM, "/nowhere/at/all");
}

static void shm__a_directory_open_to_others_is_refused(void **state)
{
    struct shm_options o = fixture_options(0);
    char path[256];

    (void)state;
    fixture_path(path, sizeof path, "");
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(path, 0755), 0);
    expect_open_error(&o, ERR_REFUSED, "mode 755");
}

static void shm__a_damaged_lock_file_is_named(void **state)
{
    struct shm_options o = fixture_options(0);
    char path[256];

    (void)state;
    fixture_path(path, sizeof path, "");
    assert_int_equal(mkdir(path, 0700), 0);
    fixture_path(path, sizeof path, "h0.lock");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "hello", 5), 5);
    close(fd);
    expect_open_error(&o, ERR_CORRUPT, "h0.lock");
    unlink(path);
    nodes[0] = host_open(0);
    close_all_nodes(1);
}

/* Who opens it would wait for a writer for ever. */
static void shm__a_fifo_as_a_lock_file_holds_nobody_up(void **state)
{
    char path[256];

    (void)state;
    open_all(2);
    fixture_path(path, sizeof path, "h0.lock");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    close_all_nodes(2);
    unlink(path);
}

/* More memory than the machine has: refused before anything is taken. */
static void shm__no_space_is_an_error_that_says_how_much(void **state)
{
    enum { MANY = 64 };
    struct mem_lane_spec specs[MANY];
    struct mem_lane *out[MANY];
    struct err e;

    (void)state;
    if ((uint64_t)sysconf(_SC_PHYS_PAGES) * 4096u > 100ull << 30)
        SKIP("this machine has that much memory");
    open_all(2);
    for (unsigned i = 0; i < MANY; i++) {
        specs[i] = fixture_spec(1, 0);
        specs[i].kind = 100 + i;
        specs[i].ring_bytes = 1u << 31; /* 128 GB together */
    }
    assert_int_equal(mem_lanes_open(nodes[0].mem, specs, MANY, out, &e), ERR_NOMEM);
    assert_non_null(strstr(e.text, "lanes of h0"));
    assert_non_null(strstr(e.text, "1374389"));
    assert_non_null(strstr(e.text, "bytes of shared memory wanted, the machine has"));
    /* Nothing is left behind: the same lanes, smaller, can be opened. */
    for (unsigned i = 0; i < MANY; i++)
        specs[i].ring_bytes = 4096;
    assert_int_equal(mem_lanes_open(nodes[0].mem, specs, MANY, out, &e), 0);
    close_all_nodes(2);
}

struct limited {
    int resource;
    rlim_t most;
    struct err e;
};

/* Opens a host, and then ever more lanes to ever more clients, until that is refused. */
static int open_limited(void *arg)
{
    struct limited *l = arg;
    struct rlimit limit = {.rlim_cur = l->most, .rlim_max = l->most};
    struct mem_lane_spec spec = fixture_spec(CLIENT, 0);
    struct mem_lane *out;

    setrlimit(l->resource, &limit);
    struct node n = host_open(0);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < 500; i++) {
        spec.owner = CLIENT + i;
        rc = mem_lanes_open(n.mem, &spec, 1, &out, &l->e);
    }
    /* It is as it was before, and can be used. */
    struct mem_flow f;
    mem_flow_open(n.mem, &f, 0, REGION, 0);
    mem_set1(n.mem, &f, n.lane[0][0], 0, 1);
    mem_mark(n.mem, &f, 1);
    mem_poll(n.mem);
    if (rc == 0 || f.done != 1)
        return 1;
    shm_close_node(n.mem);
    return 0;
}

static void expect_limit(int resource, rlim_t most, const char *says)
{
    struct limited *l = shared_page(sizeof *l);
    int status;

    l->resource = resource;
    l->most = most;
    waitpid(spawn(open_limited, l), &status, 0);
    assert_int_equal(status, 0);
    if (!strstr(l->e.text, says))
        fail_msg("\"%s\" does not say \"%s\"", l->e.text, says);
    munmap(l, sizeof *l);
}

/* Each limit of the process that many clients can meet is named in the error, and the host goes on. */
static void shm__a_limit_of_the_process_is_an_error_that_names_it(void **state)
{
    (void)state;
    expect_limit(RLIMIT_NOFILE, 60, "ulimit -n");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they take all addresses */
    expect_limit(RLIMIT_AS, 1u << 30, "ulimit -v");
#endif
}

/* Memory in files of at most so many bytes: what fits is opened, and what does not is refused. */
static void shm__a_limit_of_file_sizes_is_an_error_that_names_it(void **state)
{
    struct rlimit before, limit;
    struct mem_lane_spec spec = fixture_spec(0, 0);
    struct mem_lane *out;
    struct err e = {""};

    (void)state;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &limit);
    nodes[0] = host_open(0);
    spec.kind = 80;
    spec.ring_bytes = 1 << 20;
    assert_int_equal(mem_lanes_open(nodes[0].mem, &spec, 1, &out, &e), ERR_NOMEM);
    assert_non_null(strstr(e.text, "ulimit -f"));
    spec.ring_bytes = 1 << 19;
    for (int i = 0; i < 8; i++) { /* a segment for each */
        spec.kind++;
        assert_int_equal(mem_lanes_open(nodes[0].mem, &spec, 1, &out, &e), 0);
        assert_non_null(out->ring);
    }
    setrlimit(RLIMIT_FSIZE, &before);
    close_all_nodes(1);
}

static void shm__a_bell_wakes_and_a_dead_line_ends_a_sleep(void **state)
{
    (void)state;
    open_all(2);
    uint64_t begin = clock_now_ns();
    int tries = 0;
    do { /* what still arrives from the other's start may wake it early */
        begin = clock_now_ns();
        shm_doze(nodes[0].mem);
        shm_sleep(nodes[0].mem, begin + 20000000);
    } while (clock_now_ns() < begin + 20000000 && ++tries < 100);
    assert_true(tries < 100);
    /* Rung between doze and sleep: it does not sleep at all. */
    begin = clock_now_ns();
    shm_doze(nodes[0].mem);
    mem_bell(nodes[1].mem, 0);
    shm_sleep(nodes[0].mem, begin + 5000000000u);
    assert_true(clock_now_ns() < begin + 2000000000u);
    /* Without a doze there is nothing to sleep on. */
    shm_doze(nodes[0].mem);
    shm_rouse(nodes[0].mem);
    shm_sleep(nodes[0].mem, clock_now_ns() + 5000000000u);
    assert_true(clock_now_ns() < begin + 2000000000u);
    mem_bell(nodes[1].mem, 2); /* nobody there */
    close_all_nodes(2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest cases[] = {
        CASE(shm__the_owner_sees_what_a_writer_puts),
        CASE(shm__one_poll_settles_all_marks),
        CASE(shm__a_raise_takes_the_permission_away),
        CASE(shm__a_reopened_flow_forgets_what_it_was),
        CASE(shm__who_is_not_there_is_lost_or_blank),
        CASE(shm__lanes_opened_later_connect_too),
        CASE(shm__clients_have_lanes_but_no_promises),
        CASE(shm__a_clients_lane_is_offered_to_its_owner),
        CASE(shm__many_regions_and_lanes_take_few_mappings),
        CASE(shm__an_end_counts_for_what_was_not_adopted),
        CASE(shm__ended_lanes_leave_their_bytes_to_the_next),
        CASE(shm__bytes_of_an_earlier_segment_are_used_again),
        CASE(shm__bytes_wait_for_everybody),
        CASE(shm__a_wrong_lane_is_refused_with_what_would_be_right),
        CASE(shm__sizes_that_differ_never_connect_and_are_told_on_both_sides),
        CASE(shm__a_second_owner_is_refused_by_name_and_process),
        CASE(shm__a_stale_socket_is_replaced),
        CASE(shm__who_leaves_at_once_comes_back_whole),
        CASE(shm__lost_before_the_region_was_opened_is_lost),
        CASE(shm__a_memory_may_be_given_up),
        CASE(shm__wrong_options_are_refused),
        CASE(shm__a_directory_open_to_others_is_refused),
        CASE(shm__a_damaged_lock_file_is_named),
        CASE(shm__a_fifo_as_a_lock_file_holds_nobody_up),
        CASE(shm__no_space_is_an_error_that_says_how_much),
        CASE(shm__a_limit_of_the_process_is_an_error_that_names_it),
        CASE(shm__a_limit_of_file_sizes_is_an_error_that_names_it),
        CASE(shm__a_bell_wakes_and_a_dead_line_ends_a_sleep),
    };
    return run_with_skips(cases);
}
