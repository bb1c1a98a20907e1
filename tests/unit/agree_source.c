/* The sending end of a source, against replicas that are nothing but memory here. */
#include "agree/source.h"

#include "agree/lanes.h"
#include "agree/log.h"
#include "mem/sim/sim.h"
#include "mem/wrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    N = 3,
    CLIENT = N,
    REGION = 7,
    SOURCE = 2,
    RING = 4096,
    PAYLOAD_MAX = 1000,
    WAY_NS = 400,
    LOST_NS = 100000,
    RETRY_NS = 50000,
};

struct replica {
    struct mem *mem;
    struct mem_lane *in;  /* the source's ring, ours */
    struct mem_lane *ack; /* what we tell the source */
    struct mem_flow flow;
};

struct world {
    struct sim *sim;
    struct replica replica[N];
    struct mem *mem; /* of the client */
    struct source *source;
};

static const uint32_t nodes[N] = {0, 1, 2};

static void replica_start(struct world *w, uint32_t q)
{
    struct replica *r = &w->replica[q];
    enum mem_birth birth;
    struct mem_lane_spec in = lane_spec(REGION, q, CLIENT, LANE_SOURCE, SOURCE);
    struct mem_lane_spec ack = lane_spec(REGION, CLIENT, q, LANE_ACK, SOURCE);
    in.ctl_words = SOURCE_WORDS;
    in.ring_bytes = RING;
    ack.ctl_words = ACK_WORDS;
    r->mem = sim_node_start(w->sim, q);
    assert_int_equal(mem_region_open(r->mem, REGION, &birth, NULL), 0);
    assert_int_equal(mem_lanes_open(r->mem, &in, 1, &r->in, NULL), 0);
    assert_int_equal(mem_lanes_open(r->mem, &ack, 1, &r->ack, NULL), 0);
    mem_flow_open(r->mem, &r->flow, CLIENT, REGION, 0);
}

static struct source_options usual(struct mem *mem)
{
    return (struct source_options){
        .mem = mem,
        .region = REGION,
        .nodes = nodes,
        .replicas = N,
        .number = SOURCE,
        .source_bytes = RING,
        .payload_max = PAYLOAD_MAX,
        .retry_ns = RETRY_NS,
    };
}

static struct world *world_open_with(uint64_t retry_ns, uint32_t faulty)
{
    struct world *w = calloc(1, sizeof(*w));
    struct sim_options o = {
        .seed = 1,
        .nodes_max = N + 1,
        .delay_ns_min = WAY_NS,
        .delay_ns_max = WAY_NS,
        .lost_after_ns = LOST_NS,
    };
    assert_non_null(w);
    w->sim = sim_open(&o, NULL);
    assert_non_null(w->sim);
    for (uint32_t q = 0; q < N; q++)
        replica_start(w, q);
    w->mem = sim_node_start(w->sim, CLIENT);
    struct source_options f = usual(w->mem);
    f.retry_ns = retry_ns;
    f.faulty = faulty;
    assert_int_equal(source_open(&f, &w->source, NULL), 0);
    return w;
}

static struct world *world_open_retry(uint64_t retry_ns)
{
    return world_open_with(retry_ns, 0);
}

static struct world *world_open(void)
{
    return world_open_retry(RETRY_NS);
}

static void world_close(struct world *w)
{
    source_close(w->source);
    sim_close(w->sim);
    free(w);
}

static void nothing(void *ctx, uint64_t arg)
{
    (void)ctx;
    (void)arg;
}

/* Time passes; the client polls and steps now and then. */
static void run(struct world *w, uint64_t ns)
{
    for (uint64_t end = sim_now(w->sim) + ns; sim_now(w->sim) < end;) {
        uint64_t until = sim_now(w->sim) + WAY_NS;
        sim_at(w->sim, until, nothing, NULL, 0);
        while (sim_now(w->sim) < until)
            assert_true(sim_step(w->sim));
        mem_poll(w->mem);
        source_step(w->source, sim_now(w->sim));
    }
}

static void rung(void *ctx, uint32_t node)
{
    *(uint32_t *)ctx = node;
}

/* Whom a flush wakes: it is taken for the leader. */
static uint32_t leader(struct world *w)
{
    uint32_t node = UINT32_MAX;
    run(w, 2 * WAY_NS);
    sim_on_bell(w->sim, rung, &node);
    source_flush(w->source);
    run(w, 2 * WAY_NS);
    sim_on_bell(w->sim, NULL, NULL);
    return node;
}

/* Replica q says that the stream is taken up to pos, as leader of this ballot. */
static void ack_life(struct world *w, uint32_t q, uint64_t pos, uint64_t ballot, uint64_t life)
{
    struct replica *r = &w->replica[q];
    uint64_t words[ACK_WORDS] = {[ACK_TAKEN] = pos, [ACK_BALLOT] = ballot, [ACK_LIFE] = life};
    mem_set(r->mem, &r->flow, r->ack, ACK_TAKEN, words, ACK_WORDS);
}

static void ack(struct world *w, uint32_t q, uint64_t pos, uint64_t ballot)
{
    ack_life(w, q, pos, ballot, 0);
}

static uint64_t send(struct world *w, uint32_t bytes, unsigned char fill)
{
    unsigned char payload[PAYLOAD_MAX];
    uint64_t end = 0;
    memset(payload, fill, sizeof(payload));
    assert_int_equal(source_send(w->source, payload, bytes, &end), 0);
    return end;
}

/* A copy, in one piece; good until the next call. */
static const struct frame *frame_at(const struct world *w, uint32_t q, uint64_t pos)
{
    static uint64_t copy[(sizeof(struct frame) + PAYLOAD_MAX) / 8 + 1];
    ring_read(w->replica[q].in->ring, RING, pos, copy, sizeof(copy));
    return (const void *)copy;
}

static uint64_t guard(const struct world *w, uint32_t q)
{
    return mem_word(w->replica[q].in, SOURCE_GUARD);
}

/* Options that cannot work: refused, and told what would. */
static void source__refuses_bad_options(void **state)
{
    (void)state;
    struct world *w = world_open();
    struct source *f = NULL;
    struct err e = {""};
    struct source_options o = usual(w->mem);
    o.replicas = 0;
    assert_int_equal(source_open(&o, &f, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "1 to 9"));
    o.replicas = LOG_REPLICAS_MAX + 1;
    assert_int_equal(source_open(&o, &f, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "10 replicas"));
    o = usual(w->mem);
    o.payload_max = RING;
    assert_int_equal(source_open(&o, &f, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "do not fit a ring of 4096"));
    o = usual(w->mem);
    o.source_bytes = 3 * MEM_PAGE_BYTES;
    assert_int_equal(source_open(&o, &f, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "power"));
    assert_null(f);
    world_close(w);
}

/* Messages of every length up to the largest: at every replica they stand one behind the other as
 * sent, padded with zeros. */
static void source__writes_the_stream_to_all_replicas(void **state)
{
    (void)state;
    struct world *w = world_open();
    uint64_t pos = 0, start = 0;
    for (uint32_t bytes = 0; bytes <= PAYLOAD_MAX; bytes += bytes < 24 ? 1 : 61) {
        if (pos + frame_size(bytes) - start > RING) {
            ack(w, 0, pos, 1);
            run(w, 4 * WAY_NS);
            start = pos;
        }
        uint64_t end = send(w, bytes, (unsigned char)bytes);
        assert_int_equal(end, pos + frame_size(bytes));
        source_flush(w->source);
        run(w, 2 * WAY_NS);
        for (uint32_t q = 0; q < N; q++) {
            const struct frame *f = frame_at(w, q, pos);
            assert_int_equal(guard(w, q), end);
            assert_int_equal(f->pos, pos);
            assert_int_equal(f->bytes, bytes);
            assert_int_equal(f->life, 0);
            for (uint32_t i = 0; i < padded(bytes); i++)
                assert_int_equal(f->payload[i], i < bytes ? bytes & 0xff : 0);
        }
        pos = end;
    }
    assert_true(pos > 2 * RING);
    world_close(w);
}

/* Nothing leaves before the flush, and then all of it together. */
static void source__sends_a_batch_with_the_flush(void **state)
{
    (void)state;
    struct world *w = world_open();
    for (int i = 0; i < 3; i++)
        send(w, 8, 1);
    sim_at(w->sim, 10 * WAY_NS, nothing, NULL, 0);
    while (sim_step(w->sim))
        ;
    assert_int_equal(guard(w, 0), 0);
    source_flush(w->source);
    while (sim_step(w->sim))
        ;
    assert_int_equal(guard(w, 0), 3 * frame_size(8));
    world_close(w);
}

/* A message over the maximum: refused for good, and the stream goes on without it. */
static void source__oversized_message_is_too_big(void **state)
{
    (void)state;
    struct world *w = world_open();
    unsigned char payload[PAYLOAD_MAX + 1] = {0};
    uint64_t end = 77;
    assert_int_equal(source_send(w->source, payload, PAYLOAD_MAX + 1, &end), ERR_TOOBIG);
    assert_int_equal(end, 77);
    assert_int_equal(send(w, PAYLOAD_MAX, 1), frame_size(PAYLOAD_MAX));
    world_close(w);
}

/* A ring full of what was not taken: no room until the group says that more was taken, and what is
 * not taken is never overwritten. */
static void source__full_ring_says_again(void **state)
{
    (void)state;
    struct world *w = world_open();
    unsigned char payload[PAYLOAD_MAX] = {0};
    uint64_t end = 0, next;
    uint32_t sent = 0;
    while (source_send(w->source, payload, 240, &next) == 0) {
        end = next;
        sent++;
    }
    assert_int_equal(sent, RING / frame_size(240));
    assert_int_equal(end, RING);
    assert_int_equal(source_send(w->source, payload, 0, &next), ERR_AGAIN);
    source_flush(w->source);
    run(w, 2 * WAY_NS);
    assert_int_equal(frame_at(w, 1, 0)->pos, 0);

    ack(w, 1, frame_size(240), 1);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_send(w->source, payload, 240, &next), 0);
    assert_int_equal(source_send(w->source, payload, 0, &next), ERR_AGAIN);
    source_flush(w->source);
    run(w, 2 * WAY_NS);
    assert_int_equal(frame_at(w, 1, 0)->pos, RING);
    assert_int_equal(frame_at(w, 1, frame_size(240))->pos, frame_size(240));
    world_close(w);
}

/* Several replicas report at different times, a deposed one late: taken is the highest, and never
 * goes back. */
static void source__taken_only_rises(void **state)
{
    (void)state;
    struct world *w = world_open();
    uint64_t one = send(w, 40, 1), two = send(w, 40, 2);
    source_flush(w->source);
    assert_int_equal(source_taken(w->source), 0);
    ack(w, 2, two, 5);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), two);
    ack(w, 0, one, 3);
    ack(w, 2, one, 5);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), two);
    world_close(w);
}

/* One of three may lie: what one says was taken is not, what two say is; and who claims to lead is not believed. */
static void source__among_liars_believes_one_more_than_may_lie(void **state)
{
    (void)state;
    struct world *w = world_open_with(RETRY_NS, 1);
    uint64_t one = send(w, 40, 1), two = send(w, 40, 2);
    source_flush(w->source);
    ack(w, 2, UINT64_MAX, 5);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), 0);
    ack(w, 0, one, 0);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), one);
    ack_life(w, 1, two, 0, 1);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), one);
    ack(w, 1, two, 0);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), two);
    assert_int_equal(leader(w), 0);
    world_close(w);
}

/* Another holder of the same stream was faster, and the group has taken more than was added here: it
 * counts as far as was added, and for what is added later at once. */
static void source__taken_is_at_most_what_was_added(void **state)
{
    (void)state;
    struct world *w = world_open();
    uint64_t one = send(w, 40, 1), two = one + frame_size(16);
    source_flush(w->source);
    ack(w, 0, two, 1);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), one);
    assert_int_equal(send(w, 16, 2), two);
    assert_int_equal(source_taken(w->source), two);
    send(w, 16, 3);
    assert_int_equal(source_taken(w->source), two);
    world_close(w);
}

/* The leader is who reports under the highest ballot; a late word of an older one changes nothing. */
static void source__follows_the_highest_ballot(void **state)
{
    (void)state;
    struct world *w = world_open();
    uint64_t one = send(w, 40, 1);
    send(w, 40, 2);
    source_flush(w->source);
    ack(w, 1, one, 4);
    assert_int_equal(leader(w), 1);
    ack(w, 2, one, 8);
    assert_int_equal(leader(w), 2);
    ack(w, 0, one, 6);
    assert_int_equal(leader(w), 2);
    world_close(w);
}

/* A replica that loses its memory and comes back: it gets everything that was not taken, byte for
 * byte. */
static void source__writes_again_to_who_lost_it(void **state)
{
    (void)state;
    struct world *w = world_open_retry(UINT64_MAX);
    uint64_t one = send(w, 40, 1);
    uint64_t two = send(w, 48, 2);
    source_flush(w->source);
    ack(w, 0, one, 1);
    run(w, 2 * WAY_NS);
    sim_node_crash(w->sim, 1, false);
    run(w, 2 * LOST_NS);
    uint64_t three = send(w, 56, 3);
    source_flush(w->source);
    replica_start(w, 1);
    memset(w->replica[1].in->ring, 0xee, RING); /* new memory may look like the old one by chance */
    run(w, 2 * LOST_NS);
    assert_int_equal(guard(w, 1), three);
    for (uint32_t q = 0; q < N; q++) {
        assert_int_equal(frame_at(w, q, one)->pos, one);
        assert_int_equal(frame_at(w, q, one)->payload[47], 2);
        assert_int_equal(frame_at(w, q, two)->pos, two);
        assert_int_equal(frame_at(w, q, two)->payload[55], 3);
    }
    world_close(w);
}

/* Nothing is taken for long: what is outstanding is written once more, and what was taken is not.
 * */
static void source__writes_again_without_progress(void **state)
{
    (void)state;
    struct world *w = world_open();
    uint64_t one = send(w, 40, 1);
    send(w, 40, 2);
    source_flush(w->source);
    ack(w, 0, one, 1);
    run(w, 2 * WAY_NS);
    for (uint32_t q = 0; q < N; q++)
        memset(w->replica[q].in->ring, 0xee, RING);
    run(w, RETRY_NS / 2);
    assert_int_equal(frame_at(w, 2, one)->payload[0], 0xee);
    run(w, RETRY_NS);
    for (uint32_t q = 0; q < N; q++) {
        assert_int_equal(frame_at(w, q, one)->pos, one);
        assert_int_equal(frame_at(w, q, one)->payload[0], 2);
        assert_int_equal(frame_at(w, q, 0)->payload[0], 0xee);
    }
    world_close(w);
}

/* A client that is cut off from one replica for long: the others get the stream, and that one when
 * the way is back. */
static void source__survives_a_cut(void **state)
{
    (void)state;
    struct world *w = world_open_retry(UINT64_MAX);
    sim_cut(w->sim, CLIENT, 2, true);
    uint64_t end = send(w, 40, 1);
    source_flush(w->source);
    run(w, 3 * LOST_NS);
    assert_int_equal(guard(w, 0), end);
    assert_int_equal(guard(w, 2), 0);
    sim_cut(w->sim, CLIENT, 2, false);
    run(w, 2 * LOST_NS);
    assert_int_equal(guard(w, 2), end);
    assert_int_equal(frame_at(w, 2, 0)->payload[39], 1);
    world_close(w);
}

/* A place is reserved first and filled later: the same frame as by sending, and none where there is no
 * room or never will be. */
static void source__reserves_a_place(void **state)
{
    (void)state;
    struct world *w = world_open();
    uint64_t end = 0;
    assert_null(source_reserve(w->source, PAYLOAD_MAX + 1, &end));
    assert_true(source_room(w->source, PAYLOAD_MAX));
    void *at = source_reserve(w->source, 13, &end);
    assert_non_null(at);
    memset(at, 7, 13);
    assert_int_equal(end, frame_size(13));
    assert_int_equal(source_end(w->source), end);
    source_flush(w->source);
    run(w, 2 * WAY_NS);
    const struct frame *f = frame_at(w, 1, 0);
    assert_int_equal(f->bytes, 13);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(f->payload[i], i < 13 ? 7 : 0);
    while (source_room(w->source, 240))
        assert_non_null(source_reserve(w->source, 240, &end));
    assert_null(source_reserve(w->source, 240, &end));
    world_close(w);
}

/* A source's next life: its stream begins anew, every frame says whose it is, and what a group says of an
 * earlier life says nothing of this one. */
static void source__new_life_is_not_told_of_the_old_one(void **state)
{
    (void)state;
    struct world *w = world_open();
    source_close(w->source);
    struct source_options o = usual(w->mem);
    o.life = 3;
    assert_int_equal(source_open(&o, &w->source, NULL), 0);
    uint64_t one = send(w, 40, 9);
    assert_int_equal(one, frame_size(40));
    source_flush(w->source);
    run(w, 2 * WAY_NS);
    assert_int_equal(guard(w, 0), one);
    assert_int_equal(frame_at(w, 0, 0)->pos, 0);
    assert_int_equal(frame_at(w, 0, 0)->life, 3);
    ack_life(w, 0, one, 1, 2);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), 0);
    assert_int_equal(leader(w), 0);
    ack_life(w, 1, one, 2, 3);
    run(w, 2 * WAY_NS);
    assert_int_equal(source_taken(w->source), one);
    assert_int_equal(leader(w), 1);
    world_close(w);
}

/* The next message of a stream is the one behind what was taken, or the first of a later life. */
static void source__streams_begin_anew_in_a_later_life(void **state)
{
    (void)state;
    const uint64_t far = (UINT64_C(1) << 48) + 8;
    assert_true(stream_next(2, far, 2, far));
    assert_false(stream_next(2, far, 2, far + 8));
    assert_false(stream_next(2, far, 2, 0));
    assert_false(stream_next(2, far, 1, far));
    assert_false(stream_next(2, far, 1, 0));
    assert_true(stream_next(2, far, 3, 0));
    assert_true(stream_next(2, far, 7, 0));
    assert_false(stream_next(2, far, 3, far));
}

/* What is outstanding goes into a snapshot and comes out again at another holder, which sends it as the first
 * would have; what is no snapshot of a stream is refused, and changes nothing. */
static void source__is_saved_and_loaded(void **state)
{
    (void)state;
    struct world *w = world_open();
    uint64_t one = send(w, 1000, 1), two = send(w, 40, 2);
    source_flush(w->source);
    ack(w, 0, one, 1);
    run(w, 2 * WAY_NS);
    uint64_t bytes = source_save_bytes(w->source);
    assert_int_equal(bytes, 16 + two - one);
    unsigned char *saved = calloc(1, bytes);
    assert_non_null(saved);
    source_save(w->source, saved);

    struct source_options o = usual(w->mem);
    source_close(w->source);
    assert_int_equal(source_open(&o, &w->source, NULL), 0);
    assert_false(source_load(w->source, saved, 8));
    assert_false(source_load(w->source, saved, bytes - 8));
    assert_int_equal(source_end(w->source), 0);
    assert_true(source_load(w->source, saved, bytes));
    assert_int_equal(source_end(w->source), two);
    assert_int_equal(source_taken(w->source), one);
    for (uint32_t q = 0; q < N; q++)
        memset(w->replica[q].in->ring, 0xee, RING);
    source_rewind(w->source);
    source_flush(w->source);
    run(w, 2 * WAY_NS);
    for (uint32_t q = 0; q < N; q++) {
        assert_int_equal(frame_at(w, q, one)->pos, one);
        assert_int_equal(frame_at(w, q, one)->payload[39], 2);
        assert_int_equal(frame_at(w, q, 0)->payload[0], 0xee);
    }
    free(saved);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source__refuses_bad_options),
        cmocka_unit_test(source__writes_the_stream_to_all_replicas),
        cmocka_unit_test(source__sends_a_batch_with_the_flush),
        cmocka_unit_test(source__oversized_message_is_too_big),
        cmocka_unit_test(source__full_ring_says_again),
        cmocka_unit_test(source__taken_only_rises),
        cmocka_unit_test(source__among_liars_believes_one_more_than_may_lie),
        cmocka_unit_test(source__taken_is_at_most_what_was_added),
        cmocka_unit_test(source__follows_the_highest_ballot),
        cmocka_unit_test(source__writes_again_to_who_lost_it),
        cmocka_unit_test(source__writes_again_without_progress),
        cmocka_unit_test(source__survives_a_cut),
        cmocka_unit_test(source__reserves_a_place),
        cmocka_unit_test(source__new_life_is_not_told_of_the_old_one),
        cmocka_unit_test(source__streams_begin_anew_in_a_later_life),
        cmocka_unit_test(source__is_saved_and_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
