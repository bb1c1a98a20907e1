#include "log_schedules_lanes.h"

#include "log_schedules_impl.h"

#include <string.h>

static struct group *one_client(uint32_t replicas, uint64_t seed)
{
    return serving(&(struct group_options){.replicas = replicas, .clients = 1, .seed = seed});
}

static uint64_t word_at(const struct group *g, uint32_t owner, uint32_t writer, uint32_t word)
{
    return mem_word(group_lane(g, owner, writer), word);
}

/* The followers have applied more than their leader. One of them begins a new life and gets the state of the leader,
 * which dies; the other goes by the row of the life before, and begins a run at what that had applied. There is nothing
 * before it in the lane: the new life needs another state. */
const char *run_begins_beyond_a_state(uint64_t seed)
{
    struct group *g = one_client(3, seed);
    g->replica[0].stalled = true;
    for (int i = 0; i < 3; i++)
        group_send(g, 0, 40);
    GROUP_WAIT(g, g->replica[1].counter.state.count == 4 && g->replica[2].counter.state.count == 4,
               GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    uint64_t before = group_stats(g, 2).applied;

    group_cut(g, 2, 1, true);
    group_crash(g, 2, true);
    group_start(g, 2);
    g->replica[2].stalled = true;
    GROUP_WAIT(g, group_stats(g, 2).count.snapshots_loaded == 1 && !group_stats(g, 2).behind,
               GROUP_ELECT_NS);
    GROUP_SETUP(g, group_stats(g, 2).applied < before);
    group_hold(g, 2, true);
    group_run(g, 2 * GROUP_LOST_NS); /* its rows are lost, in some worlds */
    group_crash(g, 0, false);
    group_cut(g, 2, 1, false);
    GROUP_WAIT(g, group_leader(g) == 1, 2 * GROUP_ELECT_NS);
    group_run(g, 5 * US);
    GROUP_SETUP(g, word_at(g, 2, 1, LOG_RUN) == group_stats(g, 1).epoch);
    GROUP_SETUP(g, word_at(g, 2, 1, LOG_COMMIT) > group_stats(g, 2).applied);

    g->replica[2].stalled = false;
    group_hold(g, 2, false);
    group_send(g, 0, 40);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    GROUP_MUST(g, "no loss", g->replica[2].counter.state.count == 5);
    return group_close(g);
}

/* A leader goes on with the memory of a replica that has no state, while the third is cut off: nobody else applies what it
 * decides. It may fill the log and not go round it: when it dies, the third finds in that memory all that it lacks. */
const char *only_one_has_applied(uint64_t seed)
{
    struct group *g = one_client(3, seed);
    group_cut_off(g, 1, true);
    group_hold(g, 1, true);
    group_lie(g, 0, 2, true); /* so that it is sent no state */
    group_crash(g, 2, true);
    group_start(g, 2);
    group_post(g, 2);
    group_hold(g, 2, true);
    group_run(g, 2 * GROUP_LOST_NS);
    for (int i = 0; i < 24; i++) {
        group_send(g, 0, 200);
        group_run(g, 20 * US);
    }
    group_run(g, 4 * GROUP_DETACH_NS);
    GROUP_SETUP(g, group_stats(g, 0).role == UNIT_LEADER);
    GROUP_SETUP(g, group_stats(g, 0).applied > group_stats(g, 1).applied + g->opt.log_bytes / 2);

    group_crash(g, 0, false);
    for (uint32_t q = 1; q < g->n; q++) {
        group_cut_off(g, q, false);
        group_hold(g, q, false);
    }
    GROUP_WAIT(g, group_delivered(g), 8 * GROUP_ELECT_NS);
    return group_close(g);
}

/* A message whose payload has, from `at` to its end, what an entry of so many bytes at `pos` looks like. */
static void send_forged(struct group *g, uint64_t pos, uint64_t at, uint32_t bytes)
{
    const struct group_client *c = &g->client[0];
    _Alignas(8) unsigned char payload[GROUP_PAYLOAD_MAX] = {0};
    struct entry forged = {.pos = pos,
                           .ballot = group_stats(g, 0).epoch,
                           .bytes = bytes,
                           .source = 0,
                           .srcpos = c->sent[1].pos};
    GROUP_SETUP(g, at + entry_size(bytes) <= sizeof(payload));
    if (group_failed(g))
        return;
    memcpy(payload + at, &forged, sizeof(forged));
    group_send_bytes(g, 0, payload, (uint32_t)(at + entry_size(bytes)));
}

/* The replica finds everything that a quorum of memories has, while all others stand still. */
static void run_alone(struct group *g, uint32_t rank, bool (*until)(const struct group *, uint32_t))
{
    uint64_t end = group_now(g) + 2 * GROUP_ELECT_NS;
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, q != rank);
    while (!group_failed(g) && !until(g, rank) && group_now(g) < end)
        group_tick(g);
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, rank, q, false);
}

static bool has_recovered(const struct group *g, uint32_t rank)
{
    return group_stats(g, rank).role >= UNIT_SYNC || group_stats(g, rank).behind;
}

/* Until the leader has written so far, in spite of what it would hear. */
static void write_deaf(struct group *g, uint32_t rank, uint64_t end)
{
    for (int i = 0; i < 20 && group_stats(g, rank).written < end; i++) {
        group_pass(g, 2 * GROUP_WAY_NS);
        group_post(g, rank);
    }
    group_pass(g, 2 * GROUP_WAY_NS);
}

/* Replica 1 is cut off while the log goes nearly round. Leader 0, deposed at all memories but that of 4, writes on
 * there, until its bytes replace what 1 lacks first, and look like an entry in that place. Candidate 3 has left an
 * entry of another length at 2, which hides what 0 wrote on. When both have died, 1 must not take the bytes at 4 for what
 * was decided. */
const char *decided_entry_overrun(uint64_t seed)
{
    enum { FILL = 100, FIRST = 40 };
    struct group *g = one_client(5, seed);
    const uint64_t lacks = group_stats(g, 1).applied, over = lacks + g->opt.log_bytes;
    group_cut_off(g, 1, true);
    group_hold(g, 1, true);
    group_send(g, 0, FIRST);
    group_run(g, 2 * GROUP_LOST_NS);
    group_cut(g, 2, 0, true); /* it is attached anew, beyond that */
    group_send(g, 0, FILL);
    group_run(g, 2 * GROUP_LOST_NS);
    group_cut(g, 2, 0, false);
    GROUP_WAIT(g, group_stats(g, 0).attached == 4, GROUP_ELECT_NS);
    while (!group_failed(g) && group_stats(g, 0).written + 8 * entry_size(FILL) < over) {
        group_send(g, 0, FILL);
        group_run(g, 5 * US);
    }
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    GROUP_SETUP(g, group_leader(g) == 0 && group_delivered(g));
    GROUP_SETUP(g, word_at(g, 2, 0, LOG_START) > lacks && word_at(g, 4, 0, LOG_START) <= lacks);

    uint64_t tail = group_stats(g, 0).written, commit = tail, end = over + entry_size(FIRST);
    for (uint32_t q = 0; q < g->n; q++)
        group_hold(g, q, q != 3);
    group_cut(g, 3, 4, true);
    run_alone(g, 3, has_recovered);
    group_cut(g, 3, 0, true);
    group_run(g, 4 * US);
    GROUP_SETUP(g, word_at(g, 2, 3, LOG_GUARD) > commit && group_stats(g, 3).committed == commit);
    group_crash(g, 3, false);

    for (; tail + sizeof(struct entry) + GROUP_PAYLOAD_MAX < end; tail += entry_size(FILL))
        group_send(g, 0, FILL);
    send_forged(g, lacks, over - tail - sizeof(struct entry), FIRST);
    write_deaf(g, 0, end);
    GROUP_SETUP(g, word_at(g, 4, 0, LOG_GUARD) == end && word_at(g, 4, 0, LOG_COMMIT) == commit);
    group_crash(g, 0, false);

    group_cut_off(g, 1, false);
    group_hold(g, 1, false);
    run_alone(g, 1, has_recovered);
    GROUP_SETUP(g, has_recovered(g, 1));
    group_run(g, 10 * US);
    group_hold(g, 2, false);
    group_hold(g, 4, false);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* Ticks, with nobody else to reckon with, until the replica has found what there is under a ballot of its own. */
static void take_over_from(struct group *g, uint32_t rank, uint64_t ballot)
{
    hold_all_but(g, rank);
    for (int i = 0; i < 1000 && !group_failed(g); i++) {
        struct unit_status s = group_stats(g, rank);
        for (uint32_t q = 0; q < g->n; q++)
            group_lie(g, rank, q, q != rank && s.epoch <= ballot);
        if (s.epoch > ballot && s.role >= UNIT_SYNC)
            break;
        group_tick(g);
    }
}

static void heal_and_end_lies(struct group *g)
{
    for (uint32_t a = 0; a < g->n; a++)
        for (uint32_t b = 0; b < g->n; b++)
            group_lie(g, a, b, false);
    heal_all(g);
}

/* v is at 0, 3 and 4, and 0 knows; u at 0 and 3. */
static void decide_v_and_write_u(struct group *g)
{
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    for (uint32_t q = 1; q < g->n; q++)
        group_cut(g, g->n, q, true);
    hold_all_but(g, g->n);
    group_send(g, 0, 40);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, 0);
    group_pass(g, GROUP_WAY_NS + 50);
    group_cut(g, 0, 4, true);
    group_send(g, 0, 200);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, 0);
    settle_for(g, 0, 4 * GROUP_WAY_NS);
}

/* Leader 0 has decided v, told nobody, and written u behind it at 3 alone. Candidate 4 finds v and puts a start in the
 * place of u, in its own memory. Candidate 1 has begun to read what is at 3 when 0 leads again and rewrites it: v as it was,
 * and the start of 4 over u. What 1 reads is no log: it must not conclude that there was nothing. */
const char *lane_rewritten_while_read(uint64_t seed)
{
    struct group *g = one_client(5, 1);
    decide_v_and_write_u(g);
    uint64_t first = group_stats(g, 0).epoch, commit = group_stats(g, 0).committed;
    GROUP_SETUP(g, g->replica[0].counter.state.count == 2);
    GROUP_SETUP(g, word_at(g, 3, 0, LOG_GUARD) > commit && word_at(g, 3, 0, LOG_COMMIT) < commit);
    GROUP_SETUP(g, word_at(g, 4, 0, LOG_GUARD) == commit);

    cut_both_ways(g, 4, 0, true);
    cut_both_ways(g, 4, 3, true);
    take_over_from(g, 4, first);
    group_pass(g, US);
    GROUP_SETUP(g, word_at(g, 4, 4, LOG_GUARD) > commit);
    cut_both_ways(g, 4, 1, true);

    hold_all_but(g, 1);
    for (uint32_t q = 0; q < g->n; q++)
        group_lie(g, 1, q, q != 1);
    for (int i = 0; i < 1000 && group_stats(g, 1).role != UNIT_CANDIDATE; i++) {
        group_post(g, 1);
        group_pass(g, 100);
    }
    settle_for(g, 1, 2000 + seed * 100);
    group_cut(g, 1, 3, true);
    uint64_t second = group_stats(g, 1).epoch;
    group_settle(g, 0); /* its own memory tells it, before it could tell anybody of v */
    GROUP_SETUP(g, group_stats(g, 0).role == UNIT_FOLLOWER);

    cut_both_ways(g, 0, 2, true);
    cut_both_ways(g, 0, 4, false);
    take_over_from(g, 0, second);
    group_cut(g, 0, 4, true);
    group_run(g, 3 * US);
    group_crash(g, 0, false);

    group_cut(g, 1, 3, false);
    hold_all_but(g, 1);
    for (int i = 0; i < 20 && group_stats(g, 1).role == UNIT_CANDIDATE; i++)
        group_tick(g);
    group_crash(g, 3, false);
    heal_and_end_lies(g);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}
