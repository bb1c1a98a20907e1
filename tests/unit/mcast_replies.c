/* A group's replies at two replicas, to clients that are nothing but memory here. */
#include "mcast/replies.h"

#include "agree/entry.h"
#include "lane/names.h"
#include "mem/sim/sim.h"
#include "mem/wrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    REPLICAS = 2,
    CLIENTS = 3,
    REGION = 5,
    RING = 4096,
    REPLY_MAX = 40,
    WAY_NS = 400,
    LOST_NS = 10000,
};

struct client {
    struct mem *mem;
    struct mem_lane *lane[REPLICAS];
    uint64_t next; /* position of the next reply */
};

struct world {
    struct sim *sim;
    struct mem *mem[REPLICAS];
    struct replies *replies[REPLICAS];
    struct client client[CLIENTS];
};

static void client_start(struct world *w, uint32_t i)
{
    struct client *c = &w->client[i];
    enum mem_birth birth;
    c->mem = sim_node_start(w->sim, REPLICAS + i);
    assert_int_equal(mem_region_open(c->mem, REGION, &birth, NULL), 0);
    for (uint32_t q = 0; q < REPLICAS; q++) {
        struct mem_lane_spec spec = {
            .owner = REPLICAS + i,
            .writer = q,
            .region = REGION,
            .kind = LANE_REPLY,
            .ctl_words = REPLY_WORDS,
            .ring_bytes = RING,
        };
        assert_int_equal(mem_lanes_open(c->mem, &spec, 1, &c->lane[q], NULL), 0);
    }
    c->next = stream_start();
}

static struct world *world_open(void)
{
    struct world *w = calloc(1, sizeof(*w));
    struct sim_options o = {
        .seed = 1,
        .nodes_max = REPLICAS + CLIENTS,
        .delay_ns_min = WAY_NS,
        .delay_ns_max = WAY_NS,
        .lost_after_ns = LOST_NS,
    };
    assert_non_null(w);
    w->sim = sim_open(&o, NULL);
    assert_non_null(w->sim);
    for (uint32_t i = 0; i < CLIENTS; i++)
        client_start(w, i);
    for (uint32_t q = 0; q < REPLICAS; q++) {
        w->mem[q] = sim_node_start(w->sim, q);
        struct replies_options ro = {
            .mem = w->mem[q],
            .region = REGION,
            .clients = CLIENTS,
            .client_node = REPLICAS,
            .reply_max = REPLY_MAX,
            .ring_bytes = RING,
        };
        assert_int_equal(replies_open(&ro, &w->replies[q], NULL), 0);
        for (uint32_t i = 0; i < CLIENTS; i++)
            assert_int_equal(replies_client_open(w->replies[q], i, NULL), 0);
    }
    return w;
}

static void world_close(struct world *w)
{
    for (uint32_t q = 0; q < REPLICAS; q++)
        replies_close(w->replies[q]);
    sim_close(w->sim);
    free(w);
}

static void nothing(void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
}

static void pass(struct world *w, uint64_t ns)
{
    uint64_t end = sim_now(w->sim) + ns;
    sim_at(w->sim, end, nothing, NULL, 0);
    while (sim_now(w->sim) < end && sim_step(w->sim))
        ;
    for (uint32_t q = 0; q < REPLICAS; q++)
        mem_poll(w->mem[q]);
}

/* Every replica replies to the message, in as many bytes as its number says. */
static void add(struct world *w, uint32_t client, uint16_t life, uint64_t seq)
{
    for (uint32_t q = 0; q < REPLICAS; q++) {
        struct reply *r = replies_begin(w->replies[q], client, life);
        *r = (struct reply){.seq = seq, .bytes = (uint32_t)(seq % (REPLY_MAX + 1))};
        memset(r->body, (int)(seq & 0xff), r->bytes);
        replies_end(w->replies[q], client, r);
    }
}

/* The client takes all that replica q has written to it; returns how many, which must be those from
 * `seq` on. */
static uint32_t take(struct world *w, uint32_t client, uint32_t q, uint64_t seq)
{
    struct client *c = &w->client[client];
    uint64_t guard = mem_word(c->lane[q], REPLY_GUARD);
    uint32_t count = 0;
    if (mem_word(c->lane[q], REPLY_LIFE) != c->mem->life)
        return 0;
    while (c->next < guard) {
        uint64_t copy[RING / 8];
        ring_read(c->lane[q]->ring, RING, c->next, copy, sizeof(copy));
        const struct frame *f = (const void *)copy;
        const struct reply *r = (const void *)f->payload;
        assert_int_equal(f->pos, c->next);
        assert_int_equal(f->life, c->mem->life);
        assert_int_equal(f->bytes, sizeof(*r) + r->bytes);
        assert_int_equal(r->seq, seq + count);
        for (uint32_t i = 0; i < r->bytes; i++)
            assert_int_equal(r->body[i], r->seq & 0xff);
        c->next += frame_size(f->bytes);
        count++;
    }
    return count;
}

static void replies__arrive_in_order_over_many_laps(void **state)
{
    (void)state;
    struct world *w = world_open();
    for (uint64_t seq = 0; seq < 1000; seq += 5) {
        for (uint64_t i = 0; i < 5; i++)
            add(w, seq / 5 % CLIENTS, 0, seq + i);
        assert_int_equal(replies_flush(w->replies[0]), 1);
        assert_int_equal(replies_flush(w->replies[0]), 0);
        pass(w, 2 * WAY_NS);
        assert_int_equal(take(w, seq / 5 % CLIENTS, 0, seq), 5);
    }
    world_close(w);
}

/* Nobody writes to a client but who leads. Who begins to writes what it has, and the client goes on
 * where it was. */
static void replies__are_written_again_by_the_next_leader(void **state)
{
    (void)state;
    struct world *w = world_open();
    add(w, 1, 0, 0);
    add(w, 1, 0, 1);
    replies_flush(w->replies[0]);
    pass(w, 2 * WAY_NS);
    assert_int_equal(take(w, 1, 1, 0), 0);
    assert_int_equal(take(w, 1, 0, 0), 2);
    add(w, 1, 0, 2); /* and replica 0 is gone before it has written that */
    replies_rewind(w->replies[1]);
    assert_int_equal(replies_flush(w->replies[1]), 1);
    pass(w, 2 * WAY_NS);
    assert_int_equal(take(w, 1, 1, 2), 1);
    world_close(w);
}

/* On a way that broke after everything was written: only the step can notice. */
static void replies__lost_on_their_way_are_written_again(void **state)
{
    (void)state;
    struct world *w = world_open();
    sim_cut(w->sim, 0, REPLICAS + 2, true);
    add(w, 2, 0, 0);
    assert_int_equal(replies_flush(w->replies[0]), 1);
    pass(w, 2 * LOST_NS);
    sim_cut(w->sim, 0, REPLICAS + 2, false);
    pass(w, 2 * LOST_NS);
    assert_int_equal(take(w, 2, 0, 0), 0);
    replies_step(w->replies[0]);
    assert_int_equal(replies_flush(w->replies[0]), 1);
    pass(w, 2 * WAY_NS);
    assert_int_equal(take(w, 2, 0, 0), 1);
    world_close(w);
}

/* A process gets no reply that was meant for its predecessor, nor one that comes too late. */
static void replies__of_a_life_that_is_over_go_nowhere(void **state)
{
    (void)state;
    struct world *w = world_open();
    add(w, 0, 0, 0);
    add(w, 0, 0, 1);
    sim_node_crash(w->sim, REPLICAS, true);
    pass(w, 2 * LOST_NS);
    client_start(w, 0);
    assert_int_equal(w->client[0].mem->life, 1);
    add(w, 0, 1, 70);
    add(w, 0, 0, 2);
    add(w, 0, 1, 71);
    replies_flush(w->replies[0]);
    for (uint32_t i = 0; i < 3; i++) {
        pass(w, LOST_NS);
        replies_step(w->replies[0]);
        replies_flush(w->replies[0]);
    }
    pass(w, 2 * WAY_NS);
    assert_int_equal(take(w, 0, 0, 70), 2);
    world_close(w);
}

/* Who has only a snapshot writes the same bytes as who has seen it all; what it had before is gone. */
static void replies__are_in_snapshots(void **state)
{
    (void)state;
    struct world *w = world_open();
    unsigned char *saved = malloc(2 * RING);
    assert_non_null(saved);
    add(w, 1, 0, 0); /* that replica 1 has and replica 0 has not got */
    assert_true(replies_load(w->replies[0], saved, 0));
    for (uint64_t seq = 0; seq < 100; seq++) {
        struct reply *r = replies_begin(w->replies[0], 2, 0);
        *r = (struct reply){.seq = seq, .bytes = (uint32_t)(seq % (REPLY_MAX + 1))};
        memset(r->body, (int)seq, r->bytes);
        replies_end(w->replies[0], 2, r);
    }
    uint64_t bytes = replies_save_bytes(w->replies[0]);
    assert_int_equal(bytes, 16 + RING); /* not more than a client could still want */
    assert_int_equal(replies_save(w->replies[0], saved), bytes);
    assert_true(replies_load(w->replies[1], saved, bytes));
    replies_rewind(w->replies[0]);
    replies_rewind(w->replies[1]);
    assert_int_equal(replies_flush(w->replies[0]), 1);
    assert_int_equal(replies_flush(w->replies[1]), 1);
    pass(w, 4 * WAY_NS);
    struct mem_lane **lane = w->client[2].lane;
    assert_int_equal(mem_word(lane[1], REPLY_GUARD), mem_word(lane[0], REPLY_GUARD));
    assert_memory_equal(lane[0]->ring, lane[1]->ring, RING);
    assert_int_equal(mem_word(w->client[1].lane[1], REPLY_GUARD), 0);

    assert_false(replies_load(w->replies[1], saved, bytes - 8));
    uint64_t slot = CLIENTS;
    memcpy(saved, &slot, 8);
    assert_false(replies_load(w->replies[1], saved, bytes));
    free(saved);
    world_close(w);
}

/* Replies to a client that has not come here: kept, and written when it comes. Few of them take few
 * bytes in a snapshot, however large the ring is. */
static void replies__wait_for_their_client(void **state)
{
    (void)state;
    struct world *w = world_open();
    struct replies *r = NULL;
    struct replies_options ro = {
        .mem = w->mem[0],
        .region = REGION,
        .clients = CLIENTS,
        .client_node = REPLICAS,
        .reply_max = REPLY_MAX,
        .ring_bytes = RING,
    };
    assert_int_equal(replies_open(&ro, &r, NULL), 0);
    for (uint64_t seq = 0; seq < 3; seq++) {
        struct reply *one = replies_begin(r, 1, 0);
        *one = (struct reply){.seq = seq, .bytes = 0};
        replies_end(r, 1, one);
    }
    assert_int_equal(replies_save_bytes(r), 16 + 3 * frame_size(sizeof(struct reply)));
    assert_int_equal(replies_flush(r), 0);
    replies_step(r);
    assert_int_equal(replies_flush(r), 0);
    pass(w, 2 * WAY_NS);
    assert_int_equal(mem_word(w->client[1].lane[0], REPLY_GUARD), 0);

    assert_int_equal(replies_client_open(r, 1, NULL), 0);
    assert_int_equal(replies_flush(r), 1);
    pass(w, 2 * WAY_NS);
    assert_int_equal(take(w, 1, 0, 0), 3);
    replies_close(r);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies__arrive_in_order_over_many_laps),
        cmocka_unit_test(replies__are_written_again_by_the_next_leader),
        cmocka_unit_test(replies__lost_on_their_way_are_written_again),
        cmocka_unit_test(replies__of_a_life_that_is_over_go_nowhere),
        cmocka_unit_test(replies__are_in_snapshots),
        cmocka_unit_test(replies__wait_for_their_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
