/* Schedules 1 to 11, 20 and 21: one group of the tree takes over, recovers and decides, and its child gets it all. */
#include "tree_schedules.h"

#include "mcast/message.h"
#include "mcast/protocol.h"
#include "tree_schedules_impl.h"

#include <string.h>

/* ---- 1: a stale suffix at a follower that promises late ---- */

/* The root's leader has written v' at one follower only (with 3 replicas: at itself only) and is gone;
 * another is elected without that follower, decides v in the same place and hands it down; then the
 * follower promises: it must come to deliver v like everybody else, and v' later or never. Or, with
 * the same leader: the one that left v' comes back and leads again, having missed v, so that the
 * follower holds v' in the very lane that is going on. Guards the resynchronisation of who comes
 * late. */
const char *tree_late_follower(uint32_t n, bool same_leader)
{
    struct forest *f = grown_of(n, 2);
    uint32_t late = n == 3 ? 0 : n - 1;
    client_reaches_only(f, 0, 0);
    for (uint32_t q = 1; q < n; q++)
        cut_inside(f, AT_ROOT, 0, q, q != late);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    forest_run(f, 5 * US);
    FOREST_SETUP(f, guard_at(f, AT_ROOT, late, 0) > commit_at(f, AT_ROOT, late, 0));
    FOREST_SETUP(f, guard_at(f, AT_ROOT, 1, 0) == commit_at(f, AT_ROOT, 1, 0));

    forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);
    forest_cut_off(f, forest_node(f, AT_ROOT, late), true);
    if (late != 0 && !same_leader)
        forest_crash(f, AT_ROOT, 0, true);
    FOREST_WAIT(f, another_leads(f, n, late), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY));
    FOREST_WAIT(f, delivered_in(f, AT_ROOT) == 2 && delivered_in(f, AT_A) == 2, FOREST_LONG_NS);

    if (same_leader) {
        forest_cut_off(f, forest_node(f, AT_ROOT, 0), false);
        forest_cut_off(f, forest_node(f, AT_ROOT, late), true);
        client_reaches_only(f, 0, n); /* v' is not written again yet */
        take_over(f, AT_ROOT, 0);
        forest_hold(f, AT_ROOT, false);
        FOREST_WAIT(f, forest_leader(f, AT_ROOT) == 0, FOREST_LONG_NS);
        FOREST_SETUP(f, guard_at(f, AT_ROOT, late, 0) > commit_at(f, AT_ROOT, late, 0));
        heal_all(f);
        forest_run(f, 50 * US);
    } else {
        forest_cut_off(f, forest_node(f, AT_ROOT, late), false);
    }
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY));
    FOREST_WAIT(f, delivered_in(f, AT_A) >= 3, FOREST_LONG_NS);
    return all_delivered(f);
}

/* ---- 2: the first entry after a take-over ---- */

/* The root's leader decides and delivers a message that its client had sent to nobody else, and dies,
 * and its memory with it, before anyone is told and before anything has gone down; the next leader
 * must deliver it, once, before what comes after, and hand it down. */
const char *tree_decided_and_untold(uint32_t n)
{
    struct forest *f = grown_of(n, 2);
    client_reaches_only(f, 0, 0);
    cut_down(f, AT_A, 0, true);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    post_once(f, AT_ROOT, 0);
    FOREST_SETUP(f, f->replica[AT_ROOT][0].counter.state.count == 2 &&
                        f->replica[AT_ROOT][1].counter.state.count == 1);
    FOREST_SETUP(f, commit_at(f, AT_ROOT, 1, 0) < guard_at(f, AT_ROOT, 1, 0));
    forest_crash(f, AT_ROOT, 0, false);
    forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);
    FOREST_WAIT(f, forest_leader(f, AT_ROOT) < n, FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY));
    FOREST_WAIT(f, forest_even(f) && delivered_in(f, AT_A) == 3, FOREST_LONG_NS);
    for (uint32_t q = 1; q < n; q++)
        FOREST_MUST(f, f->replica[AT_ROOT][q].counter.state.count == 3);
    return all_delivered(f);
}

/* ---- 3: a take-over that fails half-way ---- */

/* The root's leader decides some messages and dies before it has handed them down. A candidate finds and
 * begins to decide them again, and is deposed; the next one decides them, delivers them and dies before
 * it has handed them down; then the first candidate leads. The child must get all of them, each
 * once: what a leader hands on begins where the child is, not where an attempt of its own ended. */
const char *tree_failed_take_over(uint32_t messages)
{
    struct forest *f = grown_of(5, 1);
    cut_all_down(f, AT_A, true);
    for (uint32_t i = 0; i < messages; i++)
        FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    post_once(f, AT_ROOT, 0);
    FOREST_SETUP(f, f->replica[AT_ROOT][0].counter.state.count == 1 + messages);
    FOREST_SETUP(f, f->replica[AT_ROOT][1].counter.state.count == 1);
    forest_crash(f, AT_ROOT, 0, false);
    forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);

    take_over(f, AT_ROOT, 1);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 1).written > forest_stats(f, AT_ROOT, 1).committed);
    settle_for(f, AT_ROOT, 1, 4 * FOREST_WAY_NS);
    take_over(f, AT_ROOT, 2);
    f->replica[AT_ROOT][1].held = false; /* it hears that it is deposed */
    FOREST_WAIT(f,
                forest_stats(f, AT_ROOT, 2).role == UNIT_LEADER &&
                    f->replica[AT_ROOT][2].counter.state.count == 1 + messages &&
                    f->replica[AT_ROOT][1].counter.state.count == 1 + messages,
                FOREST_LONG_NS);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 1).role == UNIT_FOLLOWER);
    FOREST_SETUP(f, delivered_in(f, AT_A) == 1);
    forest_crash(f, AT_ROOT, 2, true);
    forest_cut_off(f, forest_node(f, AT_ROOT, 2), true);

    take_over(f, AT_ROOT, 1);
    for (uint32_t q = 0; q < 5; q++)
        cut_down(f, AT_A, q, q == 0 || q == 2);
    forest_hold(f, AT_ROOT, false);
    FOREST_WAIT(f, delivered_in(f, AT_A) == 1 + messages, FOREST_LONG_NS);
    FOREST_WAIT(f, forest_leader(f, AT_ROOT) == 1, FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    FOREST_WAIT(f, delivered_in(f, AT_A) == 2 + messages, FOREST_LONG_NS);
    return all_delivered(f);
}

/* ---- 4: several candidates ---- */

/* The old leader writes to a candidate that nobody else has answered yet: either the write does not
 * count, or the candidate finds it. Guards that a candidate's own memory promises before it is read. */
const char *tree_old_leader_writes_a_candidate(void)
{
    struct forest *f = grown(&(struct forest_options){
        .groups = 2, .clients = 2, .seed = 1, .owner_answers = true, .duels = true});
    client_reaches_only(f, 0, 0);
    cut_inside(f, AT_ROOT, 0, 2, true);
    forest_stop(f, AT_ROOT, 0,
                true); /* these two answer no request, but what is written to them lands */
    forest_stop(f, AT_ROOT, 2, true);
    forest_lie(f, AT_ROOT, 1, 0, true);
    forest_post(f, AT_ROOT, 1);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 1).role == UNIT_CANDIDATE);
    settle_for(f, AT_ROOT, 1, US);

    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    post_once(f, AT_ROOT, 0);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 0).written > commit_at(f, AT_ROOT, 2, 0));
    forest_run(f, 5 * US); /* the child would take what was handed down */

    forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);
    forest_stop(f, AT_ROOT, 2, false);
    FOREST_WAIT(f, forest_leader(f, AT_ROOT) == 1, FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY));
    FOREST_WAIT(f, f->replica[AT_ROOT][1].counter.state.count >= 2, FOREST_LONG_NS);
    forest_lie(f, AT_ROOT, 1, 0, false);
    forest_stop(f, AT_ROOT, 0, false);
    return all_delivered(f);
}

static void three_lies(struct forest *f, uint16_t group, bool says_dead)
{
    for (uint32_t asker = 1; asker <= 3; asker++)
        for (uint32_t about = 0; about <= 3; about++)
            forest_lie(f, group, asker, about, says_dead && about != asker);
}

/* Three candidates at once in parent and child, under traffic, over and over: one at most gets through,
 * the others fail and then grant. In no log does a write count after one of a higher ballot. */
const char *tree_three_candidates(uint64_t seed)
{
    struct forest *f = grown(&(struct forest_options){
        .groups = 2, .replicas = 5, .clients = 2, .seed = seed, .rough = true});
    uint64_t candidacies[2] = {0};
    for (uint32_t round = 0; round < 10 && !forest_failed(f); round++) {
        for (uint16_t g = 0; g < 2; g++)
            three_lies(f, g, true);
        for (uint32_t i = 0; i < 40; i++) {
            if (i % 10 == 0)
                forest_cast(f, i / 10 % 2, i < 20 ? ROOT | A : A, BODY);
            forest_tick(f);
        }
        for (uint16_t g = 0; g < 2; g++)
            three_lies(f, g, false);
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    }
    for (uint16_t g = 0; g < 2; g++)
        for (uint32_t q = 1; q <= 3; q++)
            candidacies[g] += forest_stats(f, g, q).count.candidacies;
    FOREST_SETUP(f, candidacies[0] >= 20 && candidacies[1] >= 20);
    return all_delivered(f);
}

/* ---- 5: a bare majority is left ---- */

/* In parent and child f replicas, the leaders among them, crash at some moment between two rounds, and
 * their memory with them: those that are left must elect, within the time that a healthy majority
 * takes, and deliver what was under way. */
const char *tree_bare_majority(uint32_t n, uint64_t offset_ns)
{
    struct forest *f = grown_of(n, 1);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    forest_tick(f);
    forest_pass(f, offset_ns);
    for (uint16_t g = 0; g < 2; g++)
        for (uint32_t q = 0; q < (n - 1) / 2; q++)
            forest_crash(f, g, q, false);
    FOREST_WAIT(f, forest_led(f), 1000 * US);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    FOREST_WAIT(f, forest_delivered(f) && delivered_in(f, AT_A) == 3, 1000 * US);
    return all_delivered(f);
}

/* The answer to the root's only candidate is lost, while the replica that gave it waits for the
 * candidate: the candidate must ask again. */
const char *tree_lost_answer(void)
{
    struct forest *f = grown_of(3, 1);
    forest_crash(f, AT_ROOT, 0, false);
    FOREST_WAIT(f, forest_stats(f, AT_ROOT, 1).role == UNIT_CANDIDATE, FOREST_LONG_NS);
    cut_inside(f, AT_ROOT, 2, 1, true);
    FOREST_SETUP(f, sim_promised(f->sim, forest_node(f, AT_ROOT, 2), AT_ROOT) ==
                        forest_stats(f, AT_ROOT, 1).epoch);
    forest_run(f, FOREST_LOST_NS + 20 * US);
    cut_inside(f, AT_ROOT, 2, 1, false);
    FOREST_WAIT(f, forest_led(f), 1000 * US);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    FOREST_WAIT(f, forest_delivered(f), 1000 * US);
    return all_delivered(f);
}

/* ---- 6: a duel ---- */

/* Two replicas of the parent and two of the child are told in turn that the other is dead, and sometimes
 * both at once, and depose each other for ten thousand rounds under traffic; then they are told the
 * truth: each group has exactly one leader, and all is delivered. */
const char *tree_duel(uint64_t seed)
{
    enum { ROUNDS = 10000, TURN = 80 };
    struct forest *f =
        grown(&(struct forest_options){.groups = 2, .clients = 2, .seed = seed, .rough = true});
    for (uint32_t round = 0; round < ROUNDS && !forest_failed(f); round++) {
        for (uint16_t g = 0; g < 2 && round % TURN == 0; g++) {
            uint32_t turn = round / TURN + 2 * g;
            forest_lie(f, g, 0, 1, turn % 5 < 2 || turn % 5 == 4);
            forest_lie(f, g, 1, 0, turn % 5 >= 2);
        }
        for (uint32_t c = 0; c < 2; c++)
            if (round % 50 == 25 * c)
                forest_cast(f, c, round % 100 < 50 ? ROOT | A : A, BODY);
        forest_tick(f);
    }
    for (uint16_t g = 0; g < 2; g++) {
        /* The third, which hears the truth, ends it if it comes to lead. */
        FOREST_SETUP(f, forest_stats(f, g, 2).count.terms > 0 ||
                            (forest_stats(f, g, 0).count.terms > 20 &&
                             forest_stats(f, g, 1).count.terms > 20));
        forest_lie(f, g, 0, 1, false);
        forest_lie(f, g, 1, 0, false);
    }
    FOREST_WAIT(f, forest_led(f) && forest_delivered(f), FOREST_LONG_NS);
    forest_run(f, 1000 * US);
    for (uint16_t g = 0; g < 2; g++) {
        uint32_t leaders = 0;
        for (uint32_t q = 0; q < 3; q++)
            leaders += forest_stats(f, g, q).epoch != 0;
        FOREST_MUST(f, leaders == 1);
    }
    return all_delivered(f);
}

/* ---- 7: a leader that sleeps while log and rings go round ---- */

/* The root's leader stops with an entry on a quorum and nobody told, nothing handed down, no reply; another
 * leads while the log is lapped twice and the child's ring many times; then the first wakes and does
 * what it was about to do: its old frames must not reach the child, which takes each message once.
 * All frames are of one size that divides the ring, so that what stands in a place of it from the
 * lap before begins just where the next one will. */
const char *tree_sleeping_leader(uint32_t n)
{
    enum { FRAME = 256, ONE = FRAME - 16 - 16 - 8 };
    struct forest *f =
        forest_open(&(struct forest_options){.groups = 2, .replicas = n, .clients = 2, .seed = 1});
    FOREST_WAIT(f, forest_leader(f, AT_ROOT) == 0 && forest_leader(f, AT_A) == 0, FOREST_LONG_NS);
    FOREST_SETUP(f, frame_size(message_bytes(2, ONE)) == FRAME);
    traffic(f, 0, ROOT | A, 4, ONE);
    forest_run(f, 2 * FOREST_HEARTBEAT_NS);

    client_reaches_only(f, 0, 0);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, ONE));
    forest_pass(f, 2 * FOREST_WAY_NS);
    forest_post(f, AT_ROOT, 0);
    forest_pass(f, 4 * FOREST_WAY_NS); /* the answers are there */
    f->replica[AT_ROOT][0].held = true;
    uint64_t from = forest_stats(f, AT_ROOT, 0).written;
    FOREST_SETUP(f, guard_at(f, AT_ROOT, 1, 0) == from && commit_at(f, AT_ROOT, 1, 0) < from);
    FOREST_WAIT(f, forest_stats(f, AT_ROOT, 1).role == UNIT_LEADER, FOREST_LONG_NS);
    client_reaches_only(f, 0, 0); /* still */
    traffic(f, 1, ROOT | A, 150, ONE);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 1).applied > from + 2 * f->sizes.log_bytes);
    FOREST_SETUP(f, delivered_in(f, AT_A) * FRAME > 2 * f->sizes.edge_bytes);

    f->replica[AT_ROOT][0].held = false;
    forest_tick(f);
    traffic(f, 1, ROOT | A, 40, ONE);
    FOREST_MUST(f, delivered_in(f, AT_A) == delivered_in(f, AT_ROOT));
    return all_delivered(f);
}

/* ---- 8: a write that has landed in part ---- */

/* The root's leader dies, or only stops, while what it writes to the child lands in pieces; its successor
 * writes the same again; the child looks all the time. It must never take what is there in part. */
const char *tree_torn_stream(uint64_t seed)
{
    struct forest *f = forest_open(
        &(struct forest_options){.groups = 2, .clients = 2, .seed = seed, .rough = true});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    for (uint32_t i = 0; i < 12 && !forest_failed(f); i++) {
        uint32_t leader = forest_leader(f, AT_ROOT) % 3;
        forest_cast(f, 0, ROOT | A, FOREST_BODY_MAX);
        forest_cast(f, 1, A, FOREST_BODY_MAX);
        forest_run(f, (3 + (seed + i) % 8) * FOREST_TICK_NS);
        if (i % 2)
            forest_crash(f, AT_ROOT, leader, i % 4 == 1);
        else
            f->replica[AT_ROOT][leader].held = true;
        for (uint32_t k = 0; k < 100; k++) {
            forest_pass(f, 50);
            for (uint32_t q = 0; q < 3; q++) {
                forest_post(f, AT_A, q);
                forest_settle(f, AT_A, q);
            }
        }
        FOREST_WAIT(f, forest_leader(f, AT_ROOT) < 3, FOREST_LONG_NS);
        forest_hold(f, AT_ROOT, false);
        forest_start_all(f);
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    }
    return all_delivered(f);
}

/* ---- 9: forged guards ---- */

/* Bodies that contain what a frame with a message would look like, at the very place of the child's
 * ring where the next lap will have one: nobody may take it for one, also not across a change of
 * leaders above. */
const char *tree_forged_frames(void)
{
    enum { ONE = 224, FRAME = 16 + 16 + 8 + ONE, PER_LAP = 16, FORGED_AT = 88 };
    struct forest *f = forest_open(&(struct forest_options){.groups = 2, .seed = 1});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    /* Frame i + PER_LAP begins in the body of frame i. */
    FOREST_SETUP(f, frame_size(message_bytes(2, ONE)) == FRAME);
    FOREST_SETUP(f, PER_LAP * FRAME - f->sizes.edge_bytes == 16 + 16 + 8 + FORGED_AT);
    for (uint32_t i = 0; i < 90 && !forest_failed(f); i++) {
        _Alignas(8) unsigned char body[ONE] = {0};
        struct {
            struct frame frame;
            struct message m;
            uint16_t dst[4];
            uint64_t body;
        } forged = {
            .frame = {.pos = (i + PER_LAP) * (uint64_t)FRAME, .bytes = message_bytes(2, 8)},
            .m = {.seq = i + 400, .client = 0, .count = 2},
            .dst = {0, 1},
        };
        memcpy(body + FORGED_AT, &forged, sizeof(forged));
        FOREST_WAIT(f, forest_cast_bytes(f, 0, ROOT | A, body, ONE), FOREST_LONG_NS);
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
        FOREST_SETUP(f,
                     i < 60 || mem_word(forest_edge_lane(f, AT_A, 0, forest_leader(f, AT_ROOT) % 3),
                                        SOURCE_GUARD) == (i + 1) * (uint64_t)FRAME);
        if (i == 50)
            forest_crash(f, AT_ROOT, forest_leader(f, AT_ROOT) % 3, true);
        FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
        if (i == 60)
            forest_start_all(f);
    }
    return all_delivered(f);
}

/* ---- 10: every follower holds another prefix ---- */

/* The rank that has begun to rewrite what it found; the number of replicas if nobody has. */
static uint32_t rewriting(const struct forest *f, uint16_t group)
{
    uint32_t q = 0;
    while (q < f->opt.replicas && forest_stats(f, group, q).role < UNIT_SYNC)
        q++;
    return q;
}

/* Four messages in flight at the root: the first has reached all followers but rank 4, the second all
 * but 3 and 4, the others rank 1 alone; the leader never heard of any, and is gone. Any three of the
 * four that are left must bring back, and hand down, all that was on a quorum: the first two; and what
 * rank 1 alone holds if it takes part. If crash_after is not negative, the new leader dies so many
 * ticks after it began to rewrite, and the same must hold for the rest, together with the one that
 * was left out before. */
const char *tree_prefixes(uint32_t left_out, int crash_after)
{
    const uint32_t n = TREE_PREFIXES_OF, on_a_quorum = 2;
    struct forest *f = grown_of(n, 1);
    client_reaches_only(f, 0, 0);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t q = 2; q < n; q++)
            if (i + q >= 4)
                cut_inside(f, AT_ROOT, 0, q, true);
        FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY + 8 * i));
        forest_pass(f, 2 * FOREST_WAY_NS);
        forest_post(f, AT_ROOT, 0);
        forest_pass(f, 2 * FOREST_WAY_NS);
    }
    for (uint32_t q = 1; q < n - 1; q++)
        FOREST_SETUP(f, guard_at(f, AT_ROOT, q, 0) > guard_at(f, AT_ROOT, q + 1, 0));
    forest_crash(f, AT_ROOT, 0, false);
    forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);
    client_reaches_only(f, 0, n); /* nothing is sent a second time */
    forest_cut_off(f, forest_node(f, AT_ROOT, left_out), true);
    if (crash_after >= 0) {
        uint32_t first = n;
        FOREST_WAIT(f, (first = rewriting(f, AT_ROOT)) < n, FOREST_LONG_NS);
        for (int i = 0; i < crash_after; i++)
            forest_tick(f);
        forest_crash(f, AT_ROOT, first, false);
        forest_cut_off(f, forest_node(f, AT_ROOT, left_out), false);
        forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);
        forest_cut_off(f, forest_node(f, AT_ROOT, first), true);
        client_reaches_only(f, 0, n);
    }
    FOREST_WAIT(f, forest_leader(f, AT_ROOT) < n, FOREST_LONG_NS);
    forest_run(f, 20 * US);
    uint32_t back = delivered_in(f, AT_ROOT) - 1;
    FOREST_MUST(f, back >= on_a_quorum);
    FOREST_MUST(f, left_out == 1 || crash_after >= 0 || back == 4);
    FOREST_WAIT(f, delivered_in(f, AT_A) == 1 + back, FOREST_LONG_NS);
    for (uint32_t q = 1; q < n; q++)
        if (f->replica[AT_ROOT][q].tree)
            forest_cut_off(f, forest_node(f, AT_ROOT, q), false);
    FOREST_WAIT(f, delivered_in(f, AT_A) == 5 && forest_delivered(f), FOREST_LONG_NS);
    return all_delivered(f);
}

/* ---- 11: an entry that comes back from the dead (the effective filter) ---- */

/* m stands undecided behind another entry at the root's first leader alone; the second leader decides m
 * earlier; the first leads again and finds its old m behind the decided one: m must be delivered
 * once, the second copy count for nothing at every replica, and the stream to the child have m once. */
const char *tree_message_decided_twice(void)
{
    struct forest *f = grown_of(3, 2);
    hold_others(f, AT_ROOT, 0);
    client_reaches_only(f, 1, 0);
    cut_inside(f, AT_ROOT, 0, 1, true);
    cut_inside(f, AT_ROOT, 0, 2, true);
    uint64_t place = forest_stats(f, AT_ROOT, 0).written;
    /* As large as what the second leader will put there: its start marker, and m. */
    const uint32_t m_bytes = message_bytes(2, BODY);
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY + (uint32_t)entry_size(0)));
    post_once(f, AT_ROOT, 0);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    post_once(f, AT_ROOT, 0);
    uint64_t again = place + entry_size(0) + entry_size(m_bytes);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 0).written == again + entry_size(m_bytes));

    forest_cut_off(f, forest_node(f, AT_ROOT, 0), true);
    take_over(f, AT_ROOT, 1);
    f->replica[AT_ROOT][1].held = false;
    FOREST_WAIT(f, delivered_in(f, AT_ROOT) == 2 && delivered_in(f, AT_A) == 2, FOREST_LONG_NS);
    forest_run(f, 5 * US);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 1).applied == again);

    forest_cut_off(f, forest_node(f, AT_ROOT, 1), true);
    forest_cut_off(f, forest_node(f, AT_ROOT, 0), false);
    sim_cut(f->sim, forest_node(f, AT_ROOT, 0), forest_node(f, AT_ROOT, 1), true);
    sim_cut(f->sim, forest_node(f, AT_ROOT, 1), forest_node(f, AT_ROOT, 0), true);
    take_over(f, AT_ROOT, 0);
    forest_run(f, 5 * US);
    const struct mem_lane *own = forest_log_lane(f, AT_ROOT, 0, 0);
    const struct entry *e = (const void *)(own->ring + again % f->sizes.log_bytes);
    FOREST_SETUP(f, e->pos == again && e->source == 0);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 0).applied > again);
    heal_all(f);
    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, delivered_in(f, AT_ROOT) == 4 && delivered_in(f, AT_A) == 4);
    for (uint32_t q = 0; q < 3; q++)
        FOREST_MUST(
            f, log_source_taken(f->replica[AT_A][q].tree->log, f->sizes.clients) ==
                   mem_word(forest_edge_lane(f, AT_A, q, forest_leader(f, AT_ROOT)), SOURCE_GUARD));
    return all_delivered(f);
}

/* ---- 20: one message, then silence ---- */

/* One message, then silence, its client not even looking: within a few heartbeats every replica of every
 * destination has it. */
const char *tree_single_message(uint8_t mask, bool deep)
{
    struct forest *f = forest_open(
        &(struct forest_options){.groups = 4, .parent = deep ? chain : NULL, .seed = mask});
    FOREST_WAIT(f, forest_led(f), FOREST_LONG_NS);
    FOREST_SETUP(f, forest_cast(f, 0, mask, 64));
    f->client[0].held = true;
    const struct cast *k = &f->check.cast[forest_sender(f, 0)][0];
    FOREST_WAIT(f, k->delivered == mask && forest_even(f), 6 * FOREST_HEARTBEAT_NS);
    f->client[0].held = false;
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    return forest_close(f);
}

/* ---- 21: the leader's own copy ---- */

/* A candidate for the root has the promises of the leader's memory and its own, and has read both; the
 * leader, which does not know, writes itself and the third: its own copy must not count, nor be
 * handed down. (The same with threads, and without the fence: tests/proc/shm_race.c.) */
const char *tree_deposed_leader_counts_itself(void)
{
    struct forest *f = grown_of(3, 2);
    hold_others(f, AT_ROOT, 0);
    client_reaches_only(f, 0, 0);
    cut_inside(f, AT_ROOT, 1, 2, true);
    forest_lie(f, AT_ROOT, 1, 0, true);
    forest_post(f, AT_ROOT, 1);
    settle_for(f, AT_ROOT, 1, 10 * US);
    FOREST_SETUP(f, forest_stats(f, AT_ROOT, 1).role == UNIT_SYNC);
    FOREST_SETUP(f, sim_promised(f->sim, forest_node(f, AT_ROOT, 2), AT_ROOT) ==
                        forest_stats(f, AT_ROOT, 0).epoch);

    FOREST_SETUP(f, forest_cast(f, 0, ROOT | A, BODY));
    forest_pass(f, 2 * FOREST_WAY_NS);
    forest_post(f, AT_ROOT, 0);
    forest_pass(f, 2 * FOREST_WAY_NS + 100);
    forest_settle(f, AT_ROOT, 0);
    forest_post(f, AT_ROOT, 0); /* would tell of the commit */
    forest_pass(f, FOREST_WAY_NS + 100);
    FOREST_SETUP(f, guard_at(f, AT_ROOT, 2, 0) > forest_stats(f, AT_ROOT, 2).applied);
    forest_settle(f, AT_ROOT, 2);
    forest_run(f, 5 * US); /* the child would take what was handed down */

    f->replica[AT_ROOT][0].held = true;
    f->replica[AT_ROOT][1].held = false;
    cut_inside(f, AT_ROOT, 1, 2, false);
    FOREST_WAIT(f, forest_stats(f, AT_ROOT, 1).role == UNIT_LEADER, FOREST_LONG_NS);
    forest_lie(f, AT_ROOT, 1, 0, false);
    heal_all(f);
    FOREST_SETUP(f, forest_cast(f, 1, ROOT | A, BODY));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    return all_delivered(f);
}
