/* Take-overs: which replica may lead, and what a deposed leader may still write. */
#include "log_schedules.h"

#include "log_schedules_impl.h"

#include <string.h>

/* ---- 1: a stale suffix at a follower that promises late ---- */

/* The leader has written v' at one follower only (with 3 replicas: at itself only) and is gone;
 * another is elected without that follower and decides v in the same place; then the follower
 * promises: it must come to apply v like everybody else, and v' later or never. */
const char *late_follower(uint32_t n)
{
    struct group *g = serving_of(n, 2);
    uint32_t late = n == 3 ? 0 : n - 1;
    client_reaches_only(g, 0, 0);
    for (uint32_t q = 1; q < n; q++)
        group_cut(g, 0, q, q != late);
    group_send(g, 0, BYTES);
    group_run(g, 5 * US);
    GROUP_SETUP(g, guard_at(g, late, 0) > commit_at(g, late, 0));
    GROUP_SETUP(g, guard_at(g, 1, 0) == commit_at(g, 1, 0));

    group_cut_off(g, 0, true);
    group_cut_off(g, late, true);
    if (late != 0)
        group_crash(g, 0, true);
    GROUP_WAIT(g, group_leader(g) < n && group_leader(g) != 0 && group_leader(g) != late,
               GROUP_ELECT_NS);
    uint32_t target = g->history_count + 1;
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, g->history_count >= target, GROUP_ELECT_NS);

    group_cut_off(g, late, false);
    if (late != 0)
        group_cut_off(g, 0, true);
    client_reaches_all(g, 0);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* The same where the leader that left v' at one follower comes back and leads again, having missed
 * v: the follower then holds v' in the very lane that is going on, and must not keep it. */
const char *late_follower_of_the_same_leader(uint32_t n)
{
    struct group *g = serving_of(n, 2);
    uint32_t late = n - 1;
    client_reaches_only(g, 0, 0);
    for (uint32_t q = 1; q < late; q++)
        group_cut(g, 0, q, true);
    group_send(g, 0, BYTES);
    group_run(g, 5 * US);
    GROUP_SETUP(g, guard_at(g, late, 0) > commit_at(g, late, 0));

    group_cut_off(g, 0, true);
    group_cut_off(g, late, true);
    GROUP_WAIT(g, group_leader(g) == 1, GROUP_ELECT_NS);
    uint32_t target = g->history_count + 1;
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, g->history_count >= target, GROUP_ELECT_NS);

    group_cut_off(g, 0, false);
    group_cut_off(g, late, true);
    client_reaches_only(g, 0, n); /* v' is not sent again yet */
    take_over(g, 0);
    release_all(g);
    GROUP_WAIT(g, group_leader(g) == 0, GROUP_ELECT_NS);
    GROUP_SETUP(g, guard_at(g, late, 0) > commit_at(g, late, 0));

    heal_all(g);
    group_run(g, 50 * US);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 2: the first entry after a take-over ---- */

/* The leader decides and applies a message that its client had sent to nobody else, and dies before
 * anyone is told; the next leader, and everyone, must apply it, once, before what comes after. */
const char *decided_and_untold(uint32_t n)
{
    struct group *g = serving_of(n, 2);
    client_reaches_only(g, 0, 0);
    group_send(g, 0, BYTES);
    post_once(g, 0);
    GROUP_SETUP(g,
                g->replica[0].counter.state.count == 2 && g->replica[1].counter.state.count == 1);
    GROUP_SETUP(g, commit_at(g, 1, 0) < guard_at(g, 1, 0));
    group_crash(g, 0, false);
    group_cut_off(g, 0, true);
    GROUP_WAIT(g, group_leader(g) < n, GROUP_ELECT_NS);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    for (uint32_t q = 1; q < n; q++)
        GROUP_MUST(g, "no loss", g->replica[q].counter.state.count == 3);
    return group_close(g);
}

/* ---- 3, for one group: a take-over that fails half-way ---- */

/* A candidate has found what the dead leader left and begun to rewrite it when another deposes it:
 * it must still apply all of that when the other has decided it. */
const char *failed_take_over(uint32_t n)
{
    struct group *g = serving_of(n, 1);
    group_send(g, 0, BYTES);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, 0);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_crash(g, 0, false);
    group_cut_off(g, 0, true);
    take_over(g, 1);
    GROUP_SETUP(g, group_stats(g, 1).role == UNIT_SYNC &&
                       group_stats(g, 1).written > group_stats(g, 1).committed);
    take_over(g, 2);
    release_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "no loss", g->replica[1].counter.state.count == 3);
    return group_close(g);
}

/* ---- 4: several candidates ---- */

/* The old leader writes to a candidate that nobody else has answered yet: either the write does not
 * count, or the candidate finds it. */
const char *old_leader_writes_a_candidate(void)
{
    struct group *g = serving(&(struct group_options){
        .replicas = 3, .clients = 2, .seed = 1, .owner_answers = true, .duels = true});
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 2, true);
    group_hold(g, 0, true); /* these two answer no request, but what is written to them lands */
    group_hold(g, 2, true);
    group_lie(g, 1, 0, true);
    group_post(g, 1);
    GROUP_SETUP(g, group_stats(g, 1).role == UNIT_CANDIDATE);
    settle_for(g, 1, US);

    group_send(g, 0, BYTES);
    post_once(g, 0);
    GROUP_SETUP(g, group_stats(g, 0).written > commit_at(g, 2, 0));

    group_cut_off(g, 0, true);
    group_hold(g, 2, false);
    GROUP_WAIT(g, group_leader(g) == 1, 4 * GROUP_ELECT_NS);
    uint32_t target = g->history_count + 1;
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, g->history_count >= target, GROUP_ELECT_NS);
    group_lie(g, 1, 0, false);
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* Three candidates at once under traffic, over and over: one at most gets through, the others fail
 * and then grant, and at no replica does a write count after one of a higher ballot. */
const char *three_candidates(uint64_t seed)
{
    struct group *g =
        serving(&(struct group_options){.replicas = 5, .clients = 2, .seed = seed, .rough = true});
    uint64_t candidacies = 0;
    for (uint32_t round = 0; round < 10 && !group_failed(g); round++) {
        for (uint32_t asker = 1; asker <= 3; asker++)
            for (uint32_t about = 0; about <= 3; about++)
                group_lie(g, asker, about, about != asker);
        group_send(g, 0, BYTES);
        group_send(g, 1, BYTES);
        group_run(g, 20 * US);
        for (uint32_t asker = 1; asker <= 3; asker++)
            for (uint32_t about = 0; about <= 3; about++)
                group_lie(g, asker, about, false);
        GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    }
    for (uint32_t q = 1; q <= 3; q++)
        candidacies += group_stats(g, q).count.candidacies;
    GROUP_SETUP(g, candidacies >= 20);
    return group_close(g);
}

/* ---- 5: a bare majority is left ---- */

/* f replicas, the leader among them, crash at some moment between two rounds, and their memory with
 * them: those that are left must elect one of them in time and go on. */
const char *bare_majority(uint32_t n, uint64_t offset_ns)
{
    struct group *g = serving_of(n, 1);
    group_send(g, 0, BYTES);
    group_tick(g);
    group_pass(g, offset_ns);
    for (uint32_t q = 0; q < (n - 1) / 2; q++)
        group_crash(g, q, false);
    GROUP_WAIT(g, group_leader(g) < n, GROUP_ELECT_NS);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    return group_close(g);
}

/* The answer to the only candidate's request is lost, while the replica that gave it waits for the
 * candidate: the candidate must ask again. */
const char *lost_answer(void)
{
    struct group *g = serving_of(3, 1);
    group_crash(g, 0, false);
    group_lie(g, 1, 0, true); /* it is the first to know */
    GROUP_WAIT(g, group_stats(g, 1).role == UNIT_CANDIDATE, GROUP_ELECT_NS);
    group_cut(g, 2, 1, true);
    GROUP_SETUP(g, sim_promised(g->sim, 2, GROUP_REGION) == group_stats(g, 1).epoch);
    group_run(g, GROUP_LOST_NS + 20 * US);
    group_cut(g, 2, 1, false);
    GROUP_WAIT(g, group_leader(g) < 3, GROUP_ELECT_NS);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 6: a duel ---- */

static uint32_t count_leaders(const struct group *g)
{
    uint32_t count = 0;
    for (uint32_t q = 0; q < g->n; q++)
        count += group_stats(g, q).epoch != 0;
    return count;
}

/* Two replicas are told in turn that the other is dead, and sometimes both at once, and depose each
 * other for ten thousand rounds under traffic; then they are told the truth: exactly one leads, and
 * all is delivered. */
const char *duel(uint64_t seed)
{
    enum { ROUNDS = 10000, TURN = 40 };
    struct group *g =
        serving(&(struct group_options){.replicas = 3, .clients = 2, .seed = seed, .rough = true});
    for (uint32_t round = 0; round < ROUNDS && !group_failed(g); round++) {
        if (round % TURN == 0) {
            uint32_t turn = round / TURN;
            group_lie(g, 0, 1, turn % 5 != 0);
            group_lie(g, 1, 0, turn % 5 == 0 || turn % 5 > 2);
        }
        for (uint32_t c = 0; c < 2; c++)
            if (round % 50 == 25 * c && g->client[c].sent_count < g->client[c].done_count + 8)
                group_send(g, c, BYTES);
        group_tick(g);
    }
    GROUP_SETUP(g, group_stats(g, 0).count.terms > 20 && group_stats(g, 1).count.terms > 20);
    group_lie(g, 0, 1, false);
    group_lie(g, 1, 0, false);
    GROUP_WAIT(g, group_leader(g) < 3 && group_delivered(g), 4 * GROUP_ELECT_NS);
    group_run(g, GROUP_ELECT_NS);
    GROUP_MUST(g, "one leader", count_leaders(g) == 1 && group_leader(g) < 3);
    return group_close(g);
}

/* A leader that has been deposed, and does not know, writes one more entry into its own memory; its
 * successor decides something else in that place on the other two and dies; whoever comes next must
 * find what was decided, not what the deposed one wrote. */
const char *deposed_leader_writes_on(uint64_t seed)
{
    struct group *g = serving(&(struct group_options){.replicas = 3, .clients = 1, .seed = seed});
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    group_send(g, 0, BYTES);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_lie(g, 1, 0, true);
    group_post(g, 1);
    group_pass(g, GROUP_WAY_NS + 50);
    uint64_t ballot = group_stats(g, 1).epoch;
    GROUP_SETUP(g, ballot != 0 && sim_promised(g->sim, 0, GROUP_REGION) == ballot);
    group_post(g, 0);
    settle_for(g, 0, US);

    settle_for(g, 1, 10 * US);
    GROUP_SETUP(g, group_stats(g, 1).role == UNIT_SYNC);
    post_once(g, 1);
    GROUP_SETUP(g, group_stats(g, 1).role == UNIT_LEADER && group_stats(g, 1).epoch == ballot);
    GROUP_SETUP(g, group_stats(g, 1).applied > group_stats(g, 2).applied);
    GROUP_SETUP(g, commit_at(g, 2, 1) < guard_at(g, 2, 1));
    group_cut_off(g, 1, true);
    group_crash(g, 1, false);

    group_cut(g, 0, 2, false);
    client_reaches_all(g, 0);
    release_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 7: a leader that sleeps while the log goes round ---- */

/* The leader stops with an entry on a quorum and nobody told; another leads while the log is lapped
 * twice; then the first wakes: it must not disturb, and must catch up. */
const char *sleeping_leader(uint32_t n)
{
    struct group *g =
        serving(&(struct group_options){.replicas = n, .clients = 1, .seed = 1, .snap_pad = 6000});
    group_send(g, 0, BYTES);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, 0);
    group_pass(g, 4 * GROUP_WAY_NS);
    group_hold(g, 0, true);
    uint64_t from = group_stats(g, 0).written;
    GROUP_WAIT(g, group_leader(g) == 1, GROUP_ELECT_NS);
    traffic(g, 0, 60, 200);
    GROUP_SETUP(g, group_stats(g, 1).applied > from + 2 * g->opt.log_bytes);
    group_hold(g, 0, false);
    traffic(g, 0, 10, 200);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "one leader", count_leaders(g) == 1);
    return group_close(g);
}

/* ---- 9: forged guards ---- */

/* Payloads that contain what an entry would look like in that very place, in this lap of the log
 * and in the next: nobody may take it for one, also not across a change of leaders. */
const char *forged_entries(void)
{
    enum { FORGED_BYTES = 200, FORGED_AT = 48 /* where an entry begins one lap later */ };
    struct group *g = serving_of(3, 1);
    const uint64_t size = entry_size(FORGED_BYTES), lap = g->opt.log_bytes;
    const uint64_t entries = (lap + size - 1) / size;
    uint32_t crashed = 0;
    GROUP_SETUP(g, entries * size - lap == sizeof(struct entry) + FORGED_AT);
    for (uint32_t i = 0; i < 90 && !group_failed(g); i++) {
        uint32_t leader = group_leader(g);
        GROUP_SETUP(g, leader < 3);
        if (group_failed(g))
            break;
        struct unit_status s = group_stats(g, leader);
        const struct group_client *c = &g->client[0];
        uint64_t srcpos =
            c->sent[c->sent_count - 1].pos + frame_size(c->sent[c->sent_count - 1].bytes);
        _Alignas(8) unsigned char payload[FORGED_BYTES];
        for (uint32_t at = 0; at < FORGED_BYTES; at += 8) {
            uint64_t word = s.written + sizeof(struct entry) + at + (i & 1 ? lap : 0);
            memcpy(payload + at, &word, 8);
        }
        struct entry forged = {
            .pos = s.written + entries * size,
            .ballot = s.epoch,
            .bytes = 8,
            .source = 0,
            .srcpos = srcpos + entries * frame_size(FORGED_BYTES),
        };
        memcpy(payload + FORGED_AT, &forged, sizeof(forged));
        group_send_bytes(g, 0, payload, FORGED_BYTES);
        GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
        if (i == 50) {
            crashed = leader;
            group_crash(g, crashed, true);
        }
        GROUP_WAIT(g, group_leader(g) < 3, GROUP_ELECT_NS);
        if (i == 60)
            group_start(g, crashed);
    }
    GROUP_SETUP(g, group_stats(g, group_leader(g)).applied > 4 * lap);
    return group_close(g);
}

/* ---- 20: one message, then silence ---- */

/* A single message and nothing after it: all replicas must apply it within a few ways, not with the
 * next message. */
const char *single_message(uint32_t n)
{
    struct group *g = serving_of(n, 1);
    group_run(g, 500 * US);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 20 * GROUP_WAY_NS);
    return group_close(g);
}

/* ---- what else the papers leave open ---- */

/* The leader takes a message, cannot write it, is deposed, and another entry is decided in that
 * place; when it leads again it must take the message again. */
const char *message_taken_in_vain(void)
{
    struct group *g = serving_of(3, 2);
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    group_send(g, 0, BYTES);
    post_once(g, 0);
    GROUP_SETUP(g, group_stats(g, 0).written > group_stats(g, 0).committed);
    group_cut_off(g, 0, true);
    take_over(g, 1);
    group_send(g, 1, BYTES + 64);
    GROUP_WAIT(g, g->history_count == 2, GROUP_ELECT_NS);
    group_run(g, 5 * US);
    group_cut_off(g, 0, false);
    client_reaches_only(g, 0, 0);
    take_over(g, 0);
    release_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    GROUP_SETUP(g, group_leader(g) == 0);
    return group_close(g);
}

/* A candidate has the promises of the leader's memory and its own, and has read both; the
 * leader, which does not know, writes itself and the third: its own copy must not count. */
const char *deposed_leader_counts_itself(void)
{
    struct group *g = serving_of(3, 2);
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 1, 2, true);
    group_lie(g, 1, 0, true);
    group_post(g, 1);
    settle_for(g, 1, 10 * US);
    GROUP_SETUP(g, group_stats(g, 1).role == UNIT_SYNC);
    GROUP_SETUP(g, sim_promised(g->sim, 2, GROUP_REGION) == group_stats(g, 0).epoch);

    group_send(g, 0, BYTES);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, 0);
    group_pass(g, 2 * GROUP_WAY_NS + 100);
    group_settle(g, 0);
    group_post(g, 0); /* would tell of the commit */
    group_pass(g, GROUP_WAY_NS + 100);
    GROUP_SETUP(g, guard_at(g, 2, 0) > group_stats(g, 2).applied);
    group_settle(g, 2);

    group_hold(g, 0, true);
    group_hold(g, 1, false);
    group_cut(g, 1, 2, false);
    GROUP_WAIT(g, group_stats(g, 1).role == UNIT_LEADER, GROUP_ELECT_NS);
    group_lie(g, 1, 0, false);
    return heals(g, 1, 2);
}

/* A follower has applied what a leader decided, and the leader, deposed before it could apply
 * it itself, comes back and begins to rewrite that follower's copy; it dies in the middle of that,
 * and its memory with it: the copy must still be found. */
const char *decided_copy_rewritten(void)
{
    struct group *g = serving_of(3, 1);
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 1, 2, true);
    group_send(g, 0, BYTES);
    group_pass(g, 2 * GROUP_WAY_NS);
    group_post(g, 0);
    group_pass(g, 2 * GROUP_WAY_NS + 100);
    group_settle(g, 0);
    group_post(g, 0); /* tells of the commit */
    group_lie(g, 1, 0, true);
    group_post(g, 1); /* deposes it at its own memory, and gets no further */
    group_pass(g, GROUP_WAY_NS + 100);
    group_settle(g, 2);
    group_settle(g, 0);
    group_lie(g, 1, 0, false);
    GROUP_SETUP(g,
                g->replica[2].counter.state.count == 2 && g->replica[0].counter.state.count == 1);
    GROUP_SETUP(g, group_stats(g, 0).role == UNIT_FOLLOWER);

    take_over(g, 0);
    settle_for(g, 0, 4 * US);
    GROUP_SETUP(g, mem_word(group_lane(g, 2, 0), LOG_RUN) == group_stats(g, 0).epoch);
    client_reaches_only(g, 0, g->n);
    group_cut_off(g, 0, true);
    group_crash(g, 0, false);

    group_cut(g, 1, 2, false);
    take_over(g, 1);
    release_all(g);
    GROUP_WAIT(g, g->replica[1].counter.state.count == 2 && g->replica[2].counter.state.count == 2,
               GROUP_ELECT_NS);
    return group_close(g);
}

/* A candidate's requests and reads are on their way to a replica that answers only for a
 * moment, and the old leader's write lands there right after: if what was read came before the
 * promise, the write must not count. */
const char *write_between_read_and_promise(uint64_t seed)
{
    struct group *g = serving(&(struct group_options){
        .replicas = 3, .clients = 2, .seed = seed, .owner_answers = true, .duels = true});
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_hold(g, 0, true);
    group_hold(g, 2, true);
    group_lie(g, 1, 0, true);
    group_post(g, 1);
    settle_for(g, 1, 2 * GROUP_WAY_NS);
    group_hold(g, 2, false);
    group_pass(g, US + seed % 8 * US / 2);
    group_hold(g, 2, true);

    group_send(g, 0, BYTES);
    post_once(g, 0);
    post_once(g, 0); /* to the one that it would not have waited for */
    group_cut_off(g, 0, true);
    group_hold(g, 2, false);
    GROUP_WAIT(g, group_leader(g) == 1, 4 * GROUP_ELECT_NS);
    group_send(g, 1, BYTES);
    group_run(g, 20 * US);
    group_lie(g, 1, 0, false);
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* FW1: a leader's write is held up on its way to a follower until another has been elected with
 * that follower: it lands then, and must not count. */
const char *write_held_up(void)
{
    struct group *g = serving(&(struct group_options){
        .replicas = 3, .clients = 2, .seed = 1, .owner_answers = true, .duels = true});
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    group_hold(g, 0, true);
    group_send(g, 0, BYTES);
    post_once(g, 0);
    GROUP_SETUP(g, group_stats(g, 0).written > group_stats(g, 0).committed);
    group_lie(g, 1, 0, true);
    GROUP_WAIT(g, group_leader(g) == 1, GROUP_ELECT_NS);
    group_cut(g, 0, 2, false);
    group_pass(g, 2 * GROUP_WAY_NS);
    settle_for(g, 0, 2 * US);
    group_lie(g, 1, 0, false);
    return heals(g, 1, 2);
}

/* A follower that was cut off comes back while much is committed that it lacks, more than it
 * can be sent at once: it must never be told of a commit beyond what it has. */
const char *catching_up_in_steps(uint64_t seed)
{
    struct group *g = serving(&(struct group_options){.replicas = 3, .clients = 1, .seed = seed});
    group_cut_off(g, 2, true);
    group_hold(g, 2, true);
    traffic(g, 0, 13, 200);
    group_run(g, 2 * GROUP_LOST_NS);
    GROUP_SETUP(g, group_stats(g, 0).attached == 2);
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    GROUP_SETUP(g, group_stats(g, 2).count.snapshots_loaded == 0);
    return group_close(g);
}

/* A leader that everybody hears and that hears nobody, neither answers nor rows: it can decide
 * nothing, and must let one of the others do it. */
const char *deaf_leader(uint32_t n)
{
    struct group *g = serving_of(n, 1);
    for (uint32_t q = 1; q < n; q++)
        group_cut(g, q, 0, true);
    uint32_t target = g->history_count + 1;
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, g->history_count >= target, 4 * GROUP_ELECT_NS);
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* The same over a network: the others are told, and do not wait any longer than for one who is silent. */
const char *deaf_leader_resigns(uint32_t n)
{
    struct group *g =
        serving(&(struct group_options){.replicas = n, .seed = 1, .owner_answers = true});
    for (uint32_t q = 1; q < n; q++)
        group_cut(g, q, 0, true);
    uint32_t target = g->history_count + 1;
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, g->history_count >= target, GROUP_SUSPECT_NS + 4 * GROUP_HEARTBEAT_NS);
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* Over a network, a follower and the leader are cut off from each other, and neither from anybody else: the
 * leader has its quorum and stays, so that all goes on at once, however long it takes. */
const char *one_link_cut(uint32_t n, uint32_t other, bool to, bool from)
{
    struct group *g =
        serving(&(struct group_options){.replicas = n, .seed = 1, .owner_answers = true});
    group_cut(g, 0, other, to);
    group_cut(g, other, 0, from);
    for (int i = 0; i < 20; i++) {
        uint32_t target = g->history_count + 1;
        group_send(g, 0, BYTES);
        GROUP_WAIT(g, g->history_count >= target, 2 * GROUP_HEARTBEAT_NS);
        group_run(g, GROUP_SUSPECT_NS / 2);
    }
    for (uint32_t q = 0; q < n; q++)
        GROUP_MUST(g, "stable leader", group_stats(g, q).count.candidacies == (q == 0));
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "stable leader", group_leader(g) == 0);
    return group_close(g);
}

/* A leader whose writes reach nobody: it decides nothing, and what it has written alone may be
 * replaced. */
const char *leader_alone(uint32_t n)
{
    struct group *g = serving_of(n, 2);
    uint32_t f = (n - 1) / 2;
    client_reaches_only(g, 0, 0);
    for (uint32_t q = f; q < n; q++)
        group_cut(g, 0, q, true); /* f copies at most, one too few */
    hold_others(g, 0);
    group_send(g, 0, BYTES);
    group_run(g, 10 * US);
    GROUP_SETUP(g, group_stats(g, 0).written > commit_at(g, n - 1, 0));
    for (uint32_t q = 0; q < f; q++) {
        group_cut_off(g, q, true);
        group_hold(g, q, true);
    }
    for (uint32_t q = f; q < n; q++)
        group_hold(g, q, false);
    GROUP_WAIT(g, group_stats(g, f).role == UNIT_LEADER, GROUP_ELECT_NS);
    group_send(g, 1, BYTES);
    group_run(g, 20 * US);
    heal_all(g);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}
