#include "log_schedules.h"

#include "log_schedules_impl.h"

#include <string.h>

/* ---- 1: a stale suffix at a follower that promises late (T1) ---- */

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

/* ---- 2: the first entry after a take-over (T2) ---- */

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

/* ---- 3, for one group: a take-over that fails half-way (T3) ---- */

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

/* ---- 4: several candidates (T4) ---- */

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

/* ---- 5: a bare majority is left (T5, T6) ---- */

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

/* ---- 6: a duel (T7) ---- */

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

/* ---- 7: a leader that sleeps while the log goes round (T12) ---- */

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

/* ---- 9: forged guards (T12) ---- */

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

/* ---- 10: every follower holds another prefix ---- */

enum { ON_A_QUORUM = 2 /* of the four messages in flight */ };

/* Four messages in flight: the first has reached all followers but rank 4, the second all but 3 and
 * 4, the others rank 1 alone; the leader never heard of any, and is gone. */
static struct group *different_prefixes(void)
{
    struct group *g = serving_of(PREFIXES_OF, 1);
    client_reaches_only(g, 0, 0);
    for (uint32_t i = 0; i < 4; i++) {
        group_cut(g, 0, 4, true);
        if (i >= 1)
            group_cut(g, 0, 3, true);
        if (i >= 2)
            group_cut(g, 0, 2, true);
        group_send(g, 0, BYTES + 8 * i);
        group_pass(g, 2 * GROUP_WAY_NS);
        group_post(g, 0);
        group_pass(g, 2 * GROUP_WAY_NS);
    }
    GROUP_SETUP(g, guard_at(g, 1, 0) > guard_at(g, 2, 0) && guard_at(g, 2, 0) > guard_at(g, 3, 0));
    GROUP_SETUP(g,
                guard_at(g, 3, 0) > guard_at(g, 4, 0) && guard_at(g, 4, 0) == commit_at(g, 4, 0));
    group_crash(g, 0, false);
    group_cut_off(g, 0, true);
    return g;
}

/* Any three of the four that are left must bring back all that was on a quorum: the first two
 * messages; and what rank 1 alone holds if it takes part. If crash_after is not negative, the new
 * leader dies so many ticks after it began to rewrite, and the same must hold for the rest,
 * together with the one that was left out before. */
const char *prefixes_recovered(uint32_t left_out, int crash_after)
{
    struct group *g = different_prefixes();
    client_reaches_only(g, 0, g->n); /* nothing is sent a second time */
    group_cut_off(g, left_out, true);
    if (crash_after >= 0) {
        uint32_t first = left_out == 1 ? 2 : 1;
        group_lie(g, first, 0, true); /* it knows before the others */
        GROUP_WAIT(g, group_stats(g, first).role >= UNIT_SYNC, GROUP_ELECT_NS);
        for (int i = 0; i < crash_after; i++)
            group_tick(g);
        group_crash(g, first, false);
        group_cut_off(g, first, true);
        for (uint32_t q = 1; q < g->n; q++)
            if (q != first)
                for (uint32_t p = 1; p < g->n; p++)
                    group_cut(g, q, p, p == first);
    }
    GROUP_WAIT(g, group_leader(g) < g->n, 4 * GROUP_ELECT_NS);
    group_run(g, 20 * US);
    uint32_t back = g->history_count - 1;
    GROUP_MUST(g, "no loss", back >= ON_A_QUORUM);
    GROUP_MUST(g, "no loss", left_out == 1 || crash_after >= 0 || back == 4);
    for (uint32_t q = 1; q < g->n; q++)
        for (uint32_t p = 1; p < g->n; p++)
            if (g->replica[p].log && g->replica[q].log)
                group_cut(g, q, p, false);
    for (uint32_t q = 1; q < g->n; q++) {
        group_cut(g, client_node(g, 0), q, g->replica[q].log == NULL);
        group_cut(g, q, client_node(g, 0), g->replica[q].log == NULL);
    }
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* x stands at rank 0 alone under ballot 1; a second leader leaves another entry in that place at
 * itself alone; the first comes back, finds x, puts it on a quorum and decides it; then the second
 * comes back and meets x at rank 2: it must rank x above its own entry although x is older. */
const char *old_entry_decided_late(void)
{
    struct group *g = serving_of(3, 1);
    client_reaches_only(g, 0, 0);
    hold_others(g, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    uint64_t place = group_stats(g, 0).written;
    group_send(g, 0, BYTES);
    post_once(g, 0);
    GROUP_SETUP(g, group_stats(g, 0).written > place && group_stats(g, 0).committed == place);
    client_reaches_only(g, 0, g->n);

    group_cut_off(g, 0, true);
    take_over(g, 1);
    group_cut(g, 1, 2, true);
    group_run(g, 2 * US);
    GROUP_SETUP(g, guard_at(g, 1, 1) > place);
    const struct mem_lane *there = group_lane(g, 2, 1);
    GROUP_SETUP(g, mem_word(there, LOG_RUN) == 0 || guard_at(g, 2, 1) <= place);

    group_cut_off(g, 1, true);
    group_cut(g, 0, 2, false);
    group_cut(g, 2, 0, false);
    take_over(g, 0);
    settle_for(g, 0, 4 * US);
    post_once(g, 0);
    GROUP_SETUP(g, g->replica[0].counter.state.count == 2);
    GROUP_SETUP(g, commit_at(g, 2, 0) <= place && guard_at(g, 2, 0) > place);
    group_cut_off(g, 0, true);
    group_crash(g, 0, false);

    group_cut(g, 1, 2, false);
    group_cut(g, 2, 1, false);
    take_over(g, 1);
    release_all(g);
    group_cut_off(g, client_node(g, 0), false);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 11: an entry that comes back from the dead ---- */

/* m stands undecided behind two other entries at the first leader alone; the second leader decides
 * m earlier; the first leads again and finds its old m behind the decided one: m must be applied
 * once, and the second copy count for nothing at every replica. */
const char *message_decided_twice(void)
{
    struct group *g = serving_of(3, 2);
    hold_others(g, 0);
    client_reaches_only(g, 1, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 2, true);
    uint64_t place = group_stats(g, 0).written;
    /* The sizes are those of what the second leader will put there: its start marker, and m. */
    group_send(g, 1, 0);
    post_once(g, 0);
    group_send(g, 1, BYTES);
    post_once(g, 0);
    group_send(g, 0, BYTES);
    post_once(g, 0);
    uint64_t again = place + entry_size(0) + entry_size(BYTES);
    uint64_t srcpos = g->client[0].sent[1].pos;
    GROUP_SETUP(g, group_stats(g, 0).written == again + entry_size(BYTES));

    group_cut_off(g, 0, true);
    take_over(g, 1);
    GROUP_WAIT(g, g->client[0].done_count == 2, GROUP_ELECT_NS);
    group_run(g, 5 * US);
    GROUP_SETUP(g, group_stats(g, 1).applied == again);

    group_cut_off(g, 1, true);
    group_cut(g, 0, 2, false);
    group_cut(g, 2, 0, false);
    take_over(g, 0);
    group_run(g, 5 * US);
    const struct mem_lane *own = group_lane(g, 0, 0);
    const struct entry *e = (const void *)(own->ring + again % g->opt.log_bytes);
    GROUP_SETUP(g, e->pos == again && e->source == 0 && e->srcpos == srcpos);
    GROUP_SETUP(g, group_stats(g, 0).applied > again);
    heal_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    for (uint32_t q = 0; q < 3; q++)
        GROUP_MUST(g, "no duplicate",
                   g->replica[q].counter.state.count == 5 && g->replica[q].noops >= 2);
    return group_close(g);
}

/* ---- 12: a run that begins beyond the commit that it tells of ---- */

/* m1 stands on a quorum and m2 on two of five; the leader knows that m1 is decided and tells nobody. One
 * of the two comes back without state, gets a snapshot with m1 from the same leader, and the run in its
 * memory, m2 included, is continued from behind m1. m2 is decided, and again nobody is told. Of the next
 * quorum only that one has m2, in a run that begins beyond every commit that anybody tells of:
 * m2 must not be lost. */
const char *run_begins_beyond_commit(void)
{
    struct group *g = serving_of(5, 1);
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 4, true);
    uint64_t place = group_stats(g, 0).written;
    uint64_t after = place + entry_size(BYTES); /* m1 */
    for (int i = 0; i < 2; i++) {
        group_send(g, 0, BYTES);
        group_pass(g, 2 * GROUP_WAY_NS);
        group_post(g, 0);
        group_pass(g, 2 * GROUP_WAY_NS);
        group_cut(g, 0, 3, true);
    }
    client_reaches_only(g, 0, g->n);
    settle_for(g, 0, 4 * GROUP_WAY_NS);
    GROUP_SETUP(g, group_stats(g, 0).applied == after && group_stats(g, 0).written > after);
    GROUP_SETUP(g, guard_at(g, 2, 0) > after && guard_at(g, 3, 0) == after);
    GROUP_SETUP(g, commit_at(g, 2, 0) <= place && commit_at(g, 3, 0) <= place);

    group_cut_off(g, 0, true);
    GROUP_WAIT(g, group_stats(g, 0).role == UNIT_FOLLOWER, 4 * GROUP_ELECT_NS);
    group_pass(g, 2 * GROUP_LOST_NS);
    group_crash(g, 2, true);
    group_start(g, 2);
    for (uint32_t q = 2; q <= 4; q += 2) {
        group_cut(g, 0, q, false);
        group_cut(g, q, 0, false);
    }
    take_over(g, 0);
    group_hold(g, 0, true);
    group_hold(g, 2, false);
    for (int i = 0; i < 100 && group_stats(g, 0).applied <= after; i++) {
        group_tick(g);
        post_once(g, 0);
    }
    GROUP_SETUP(g, group_stats(g, 0).applied > after);
    GROUP_SETUP(g,
                mem_word(group_lane(g, 2, 0), LOG_START) == after && commit_at(g, 2, 0) <= place);
    group_cut_off(g, 0, true);
    group_crash(g, 0, false);

    group_cut_off(g, 4, true);
    release_all(g);
    group_run(g, 2 * GROUP_ELECT_NS);
    for (uint32_t q = 1; q < 4; q++) {
        group_cut(g, 4, q, false);
        group_cut(g, q, 4, false);
    }
    GROUP_WAIT(g, group_even(g), 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "no loss", g->history_count == 3);
    return group_close(g);
}

/* ---- 12b: a run that is continued half-way ---- */

/* 1 leads and stalls with [x, y, z] on its way to 0 and 2. 2 leads, decides [START, m] on {0, 2} in the place of x and y,
 * and applies that; 0 is not told. The stale batch lands. 1 leads again; in its lane at 2 z is right, so it
 * continues that run, and ends after the first `stores` of its stores. 0 and 2 are left: 0 must apply what 2 did, and
 * not x and y from its own copy of the run that was never told it holds anything decided. */
static const char *half_continued(uint32_t stores, uint64_t seed, bool *landed)
{
    struct group *g = serving(&(struct group_options){.replicas = 3, .clients = 2, .seed = seed});
    take_over(g, 1);
    release_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    hold_others(g, 1);
    client_reaches_only(g, 1, 1);
    client_reaches_only(g, 0, 2);
    group_cut(g, 1, 0, true);
    group_cut(g, 1, 2, true);
    uint64_t place = group_stats(g, 1).written;
    group_send(g, 1, 0);
    post_once(g, 1);
    group_send(g, 1, BYTES);
    post_once(g, 1);
    group_send(g, 1, BYTES);
    post_once(g, 1);
    uint64_t decided = place + entry_size(0) + entry_size(BYTES);
    GROUP_SETUP(g, group_stats(g, 1).written == decided + entry_size(BYTES));
    client_reaches_only(g, 1, g->n);
    group_hold(g, 1, true);

    take_over(g, 2);
    group_send(g, 0, BYTES);
    for (int i = 0; i < 100 && group_stats(g, 2).applied < decided; i++)
        post_once(g, 2);
    GROUP_SETUP(g, group_stats(g, 2).applied == decided && commit_at(g, 0, 2) < decided);
    client_reaches_only(g, 0, g->n);
    group_hold(g, 2, true);
    group_cut(g, 1, 0, false);
    group_cut(g, 1, 2, false);
    group_pass(g, 5 * US);
    *landed = guard_at(g, 0, 1) > decided && guard_at(g, 2, 1) > decided;
    if (!*landed)
        return group_close(g);

    uint64_t old_run = mem_word(group_lane(g, 2, 1), LOG_RUN);
    group_cut(g, 1, 0, true); /* it leads with 2 alone */
    group_cut(g, 0, 1, true);
    group_hold(g, 1, false);
    step_until(g, 1, UNIT_CANDIDATE);
    group_pass(g, GROUP_WAY_NS + 100);
    group_settle(g, 2); /* it sees that it is deposed: its row says what it has applied */
    GROUP_SETUP(g, group_stats(g, 2).role == UNIT_FOLLOWER);
    step_until(g, 1, UNIT_SYNC);
    const struct mem_lane *lane = group_lane(g, 2, 1);
    for (int i = 0; i < 1000 && mem_word(lane, LOG_START) != decided; i++) {
        GROUP_SETUP(g, mem_word(lane, LOG_RUN) == old_run);
        if (i % 10 == 0)
            group_settle(g, 1);
        sim_step(g->sim);
    }
    GROUP_SETUP(g, mem_word(lane, LOG_START) == decided);
    for (uint32_t i = 1; i < stores; i++)
        sim_step(g->sim);
    group_cut_off(g, 1, true);
    group_crash(g, 1, false);

    take_over(g, 0);
    heal_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* What a deposed leader has on its way may land or not: takes a world in which it does. */
const char *half_continued_run(uint32_t stores)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        bool landed = false;
        const char *violated = half_continued(stores, seed, &landed);
        if (landed || violated)
            return violated;
    }
    return "setup";
}

/* 1 leads, and [x, y] is on its way from it. 2 leads and decides START in the place of x, on {0, 2}; then the stale batch
 * lands at 0. 1 leads again with 2, finds START, and continues its own lane with START, y. Before that lands, 0
 * raises at 1, and reads the head of that lane while it lands: what it tells of must not be taken for the run before,
 * in whose place 0 holds x. */
const char *run_continued_while_read(uint64_t seed)
{
    struct group *g = serving(
        &(struct group_options){.replicas = 3, .clients = 2, .seed = seed, .read_gap_ns = 3 * US});
    take_over(g, 1);
    release_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    hold_others(g, 1);
    client_reaches_only(g, 1, 1);
    client_reaches_only(g, 0, g->n);
    group_cut(g, 1, 0, true);
    group_cut(g, 1, 2, true);
    uint64_t place = group_stats(g, 1).written;
    for (int i = 0; i < 2; i++) {
        group_send(g, 1, 0);
        post_once(g, 1);
    }
    client_reaches_only(g, 1, g->n);
    group_hold(g, 1, true);

    take_over(g, 2);
    for (int i = 0; i < 20 && group_stats(g, 2).applied <= place; i++)
        post_once(g, 2);
    group_cut(g, 1, 0, false);
    group_pass(g, 5 * US);
    bool come_about = group_stats(g, 2).applied == place + entry_size(0) &&
                      commit_at(g, 0, 2) <= place && guard_at(g, 0, 1) > place + entry_size(0);
    group_hold(g, 2, true);
    group_cut(g, 0, 2, true);
    group_cut(g, 2, 0, true);
    group_cut(g, 1, 2, false);
    if (come_about) {
        group_cut(g, 1, 0, true); /* it leads with 2, */
        group_hold(g, 1, false);
        step_until(g, 1, UNIT_SYNC);
        for (int i = 0; i < 1000 && guard_at(g, 1, 1) != place; i++)
            sim_step(g->sim);
        group_cut(g, 1, 1, true); /* and its stores to its own lane wait behind that of GUARD */
        GROUP_SETUP(g, mem_word(group_lane(g, 1, 1), LOG_RUN) != group_stats(g, 1).epoch);
        group_hold(g, 1, true);
        group_cut(g, 1, 0, false);
        group_hold(g, 0, false);
        step_until(g, 0, UNIT_CANDIDATE);
        settle_for(g, 0, seed % 50 * 100);
        group_cut(g, 1, 1, false);
        settle_for(g, 0, 20 * US);
    }
    heal_all(g);
    group_cut(g, 1, 1, false);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* 1 leads with 0, reaches 2 late, and stops while it reads there; [x, y] is on its way from it to 0. 2 leads, decides START
 * in the place of x, on {0, 2}, and applies it. The stale batch lands; 1 goes on, sees in the row of 2 what that has
 * applied, and begins a run there, in the ballot that was deposed. 2 ends. 0 must not take that run, which begins behind
 * START, for the one that decided START, for of that run it holds x. */
const char *run_renewed_by_a_deposed_leader(uint64_t seed)
{
    struct group *g = serving(&(struct group_options){.replicas = 3, .clients = 2, .seed = seed});
    group_cut(g, 1, 2, true);
    group_cut(g, 2, 1, true);
    take_over(g, 1);
    group_hold(g, 0, false);
    GROUP_WAIT(g, group_leader(g) == 1 && group_stats(g, 0).applied == group_stats(g, 1).applied,
               GROUP_ELECT_NS);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    group_hold(g, 0, true);
    client_reaches_only(g, 1, 1);
    group_cut(g, 1, 0, true);
    uint64_t place = group_stats(g, 1).written, ballot = group_stats(g, 1).epoch;
    for (int i = 0; i < 2; i++) {
        group_send(g, 1, 0);
        post_once(g, 1);
    }
    client_reaches_only(g, 1, g->n);
    group_cut(g, 1, 2, false);
    group_cut(g, 2, 1, false);
    for (int i = 0; i < 2000 && sim_promised(g->sim, 2, GROUP_REGION) != ballot; i++)
        settle_for(g, 1, 100);
    settle_for(g, 1, 100 * (seed % 40));
    group_hold(g, 1, true);
    group_pass(g, 2 * US); /* what it asked for is there when it goes on */

    group_cut(g, 2, 1, true);
    take_over(g, 2);
    for (int i = 0; i < 20 && group_stats(g, 2).applied <= place; i++)
        post_once(g, 2);
    group_cut(g, 1, 0, false);
    group_pass(g, 5 * US);
    group_cut(g, 2, 0, true);
    group_pass(g, GROUP_HEARTBEAT_NS);
    group_post(g, 2); /* its row, and a commit that does not get to 0 */
    group_pass(g, GROUP_WAY_NS + 100);
    group_cut(g, 2, 1, false); /* the row is there at once, the raise that waits a little later */
    group_pass(g, 200);
    group_hold(g, 2, true);
    settle_for(g, 1, 5 * US);
    group_cut_off(g, 1, true);
    group_hold(g, 1, true);
    group_crash(g, 2, true);
    group_pass(g, 2 * GROUP_LOST_NS);
    group_cut(g, 2, 0, false);
    take_over(g, 0);
    group_start(g, 2);
    heal_all(g);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 13: known to be decided, and forgotten by who knew ---- */

/* m stands on a quorum. Only its leader knows that it is decided, and one other, by snapshot. The leader is
 * gone; the other begins to lead, notes in its own memory that m is decided and need not be kept there,
 * and loses its state. The other three hold m, and that they need not wait for anybody: they must bring
 * it back and go on. */
const char *decided_and_forgotten(void)
{
    struct group *g = serving_of(5, 1);
    hold_others(g, 0);
    client_reaches_only(g, 0, 0);
    group_cut(g, 0, 1, true);
    group_cut(g, 0, 4, true); /* it has no m in its memory */
    group_crash(g, 4, true);
    uint64_t place = group_stats(g, 0).written;
    group_send(g, 0, BYTES);
    post_once(g, 0);
    client_reaches_only(g, 0, g->n);
    GROUP_SETUP(g, group_stats(g, 0).applied > place);
    GROUP_SETUP(g, guard_at(g, 2, 0) > place && commit_at(g, 2, 0) <= place);

    /* Nobody else hears of anything while the one gets its snapshot. */
    for (uint32_t q = 1; q < 4; q++)
        group_cut(g, 0, q, true);
    group_pass(g, 2 * GROUP_LOST_NS);
    group_cut(g, 0, 4, false);
    group_start(g, 4);
    GROUP_WAIT(g, !group_stats(g, 4).behind, GROUP_ELECT_NS);
    group_cut_off(g, 0, true);
    group_crash(g, 0, false);
    for (uint32_t q = 1; q < 4; q++) {
        GROUP_SETUP(g, group_stats(g, q).applied == place && commit_at(g, q, 0) <= place);
        group_hold(g, q, true);
    }
    take_over(g, 4);
    GROUP_SETUP(g, group_stats(g, 4).applied > place && commit_at(g, 4, 4) > place);
    group_crash(g, 4, true);
    group_start(g, 4);
    release_all(g);
    /* Two of the three at a time, together with the one that has forgotten, cannot do it. */
    for (uint32_t left_out = 3; left_out <= 3; left_out -= 2) {
        for (uint32_t q = 1; q <= 4; q++) {
            group_cut(g, left_out, q, q != left_out);
            group_cut(g, q, left_out, q != left_out);
        }
        group_run(g, 2 * GROUP_ELECT_NS);
        for (uint32_t q = 1; q <= 4; q++) {
            group_cut(g, left_out, q, false);
            group_cut(g, q, left_out, false);
        }
    }
    GROUP_WAIT(g, group_even(g), 8 * GROUP_ELECT_NS);
    GROUP_MUST(g, "no loss", g->history_count == 2);
    return group_close(g);
}

/* ---- 17: left behind, and back by snapshot ---- */

/* A follower stops for longer than the log is: the others go on without it, and when it wakes it
 * gets a snapshot in the middle of traffic, and then follows. Until it is given up nothing that it
 * has still to read is overwritten. */
const char *left_behind(uint32_t n)
{
    struct group *g =
        serving(&(struct group_options){.replicas = n, .clients = 2, .seed = 1, .snap_pad = 6000});
    uint32_t slow = n - 1;
    group_hold(g, slow, true);
    traffic(g, 0, 60, 200);
    GROUP_MUST(g, "detached", group_stats(g, 0).count.shed >= 1);
    group_hold(g, slow, false);
    for (uint32_t i = 0;
         i < 300 && !group_failed(g) && group_stats(g, slow).count.snapshots_loaded == 0; i++) {
        traffic(g, i & 1, 1, 100);
        group_run(g, 2 * US);
    }
    GROUP_MUST(g, "snapshot", group_stats(g, slow).count.snapshots_loaded >= 1);
    traffic(g, 1, 20, 200);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 17b: a minority that hangs ---- */

/* Closed-loop traffic, one message every pause_ns; returns the time that messages took beyond what they take in a
 * healthy group. */
static uint64_t traffic_held_up(struct group *g, uint32_t count, uint64_t pause_ns)
{
    uint64_t held_up = 0;
    for (uint32_t i = 0; i < count && !group_failed(g); i++) {
        uint64_t start = group_now(g);
        traffic(g, 0, 1, 100);
        uint64_t took = group_now(g) - start;
        held_up += took > GROUP_HEARTBEAT_NS ? took : 0;
        group_run(g, pause_ns);
    }
    return held_up;
}

/* Some followers hang for as long as the log goes round many times, and their memory takes what is written to it.
 * They hold up the others once, for detach_ns at most, are detached once, stay so while they hang, and are back
 * when they go on. */
const char *hung_minority(uint32_t n, uint32_t hung, uint64_t pause_ns, bool owner_answers)
{
    struct group *g = serving(&(struct group_options){
        .replicas = n, .clients = 1, .seed = 1, .owner_answers = owner_answers});
    for (uint32_t q = n - hung; q < n; q++)
        group_hold(g, q, true);
    uint64_t held_up = traffic_held_up(g, 100, pause_ns);
    GROUP_MUST(g, "a hang costs once", held_up <= GROUP_DETACH_NS + GROUP_HEARTBEAT_NS);
    GROUP_MUST(g, "a hang costs once", group_stats(g, 0).count.shed <= hung);
    GROUP_MUST(g, "detached", group_stats(g, 0).attached == n - hung);
    for (uint32_t q = n - hung; q < n; q++)
        GROUP_MUST(g, "detached", group_stats(g, 0).detached_ns[q] != 0);

    for (uint32_t q = n - hung; q < n; q++)
        group_hold(g, q, false);
    GROUP_WAIT(g, group_stats(g, 0).attached == n, GROUP_ELECT_NS);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    for (uint32_t q = n - hung; q < n; q++)
        GROUP_MUST(g, "attached", group_stats(g, 0).detached_ns[q] == 0);
    return group_close(g);
}

/* The same with a follower that runs, and whose machine takes nothing. A heartbeat alone is no reason to wait for it
 * again, a snapshot is; but not often. */
const char *stalled_follower(uint32_t n, uint32_t messages, uint64_t pause_ns)
{
    struct group *g = serving_of(n, 1);
    g->replica[n - 1].stalled = true;
    uint64_t begun = group_now(g), held_up = traffic_held_up(g, messages, pause_ns);
    GROUP_MUST(g, "a hang costs little", held_up <= (group_now(g) - begun) / 8);
    GROUP_MUST(g, "a hang costs once",
               group_stats(g, 0).count.shed <= 1 + group_stats(g, n - 1).count.snapshots_loaded);
    g->replica[n - 1].stalled = false;
    GROUP_WAIT(g, group_stats(g, 0).attached == n, 100 * GROUP_DETACH_NS);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    return group_close(g);
}

/* A replica hangs while it takes a snapshot, for which the log is held: that too costs once. */
const char *hung_loading(uint32_t n, uint64_t pause_ns)
{
    struct group *g =
        serving(&(struct group_options){.replicas = n, .clients = 1, .seed = 1, .snap_pad = 20000});
    uint32_t slow = n - 1;
    group_hold(g, slow, true);
    traffic(g, 0, 40, 200);
    group_hold(g, slow, false);
    GROUP_WAIT(g, group_stats(g, slow).behind, GROUP_ELECT_NS);
    group_run(g, 3 * US);
    GROUP_SETUP(g, group_stats(g, slow).behind);
    group_hold(g, slow, true);
    uint64_t held_up = traffic_held_up(g, 100, pause_ns);
    GROUP_MUST(g, "a hang costs once", held_up <= GROUP_DETACH_NS + GROUP_HEARTBEAT_NS);
    group_hold(g, slow, false);
    GROUP_WAIT(g, group_stats(g, 0).attached == n, 2 * GROUP_ELECT_NS);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 17c: large states ---- */

/* A replica comes back to a state of 150 rings, under closed-loop traffic that goes round the log several times
 * meanwhile. The state is saved once, nobody waits, and the replica is there again. */
const char *large_state(uint32_t n, bool keep_memory)
{
    struct group *g = serving(
        &(struct group_options){.replicas = n, .clients = 1, .seed = 1, .snap_pad = 600000});
    uint32_t back = n - 1;
    group_crash(g, back, keep_memory);
    traffic_held_up(g, 30, 0);
    group_start(g, back);
    uint64_t held_up = 0;
    uint32_t messages = 0;
    for (; messages < 3000 && !group_failed(g) && group_stats(g, 0).count.snapshots_sent == 0;
         messages += 5)
        held_up += traffic_held_up(g, 5, 0);
    GROUP_MUST(g, "back under load", group_stats(g, back).count.snapshots_loaded == 1);
    GROUP_MUST(g, "the log has gone on", messages >= 60);
    GROUP_MUST(g, "saved once", group_stats(g, 0).count.saves == 1);
    GROUP_MUST(g, "nobody waits", held_up <= GROUP_DETACH_NS);
    GROUP_WAIT(g, group_stats(g, 0).attached == n, GROUP_ELECT_NS);
    traffic(g, 0, 20, 100);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    GROUP_MUST(g, "its leader stays", group_leader(g) == 0 && group_stats(g, 0).count.terms == 1);
    return group_close(g);
}

/* The connection between a leader and a replica that is loading is lost and comes back: the transfer goes on where
 * it was. */
const char *interrupted_transfer(bool keep_memory)
{
    struct group *g = serving(
        &(struct group_options){.replicas = 3, .clients = 1, .seed = 1, .snap_pad = 400000});
    group_crash(g, 2, keep_memory);
    traffic(g, 0, 5, 100);
    group_start(g, 2);
    GROUP_WAIT(g, group_stats(g, 0).count.saves == 1, GROUP_ELECT_NS);
    group_run(g, 20 * US);
    GROUP_SETUP(g, group_stats(g, 2).behind);
    group_cut(g, 0, 2, true);
    group_run(g, GROUP_LOST_NS + 5 * GROUP_HEARTBEAT_NS);
    group_cut(g, 0, 2, false);
    traffic(g, 0, 5, 100);
    GROUP_WAIT(g, group_delivered(g), 3 * GROUP_ELECT_NS);
    GROUP_MUST(g, "saved once", group_stats(g, 0).count.saves == 1);
    GROUP_MUST(g, "loaded once", group_stats(g, 2).count.snapshots_loaded == 1);
    return group_close(g);
}

/* The leader dies when a replica has its state whole, and not the entries behind it. The next leader has them in its
 * log: the replica keeps what it has. */
const char *leader_dies_behind_a_state(bool keep_memory)
{
    struct group *g =
        serving(&(struct group_options){.replicas = 3, .clients = 1, .seed = 1, .snap_pad = 20000});
    group_crash(g, 2, keep_memory);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    group_start(g, 2);
    GROUP_WAIT(g, group_stats(g, 0).count.saves == 1, GROUP_ELECT_NS);
    g->replica[2].stalled = true;
    traffic(g, 0, 8, 100);
    GROUP_WAIT(g, group_stats(g, 2).count.snapshots_loaded == 1, GROUP_ELECT_NS);
    GROUP_SETUP(g, group_stats(g, 2).behind);
    group_crash(g, 0, true);
    GROUP_WAIT(g, group_leader(g) == 1, GROUP_ELECT_NS);
    g->replica[2].stalled = false;
    traffic(g, 0, 5, 100);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "loaded once", group_stats(g, 2).count.snapshots_loaded == 1);
    return group_close(g);
}

/* The backlog may hold no more than a log ring or two: the sources are slowed until the replica is there, and the
 * transfer is not given up. */
const char *small_backlog(uint32_t rings)
{
    struct group *g = serving(&(struct group_options){
        .replicas = 3, .clients = 1, .seed = 1, .snap_pad = 100000, .backlog_rings = rings});
    group_crash(g, 2, true);
    traffic(g, 0, 30, 200);
    group_start(g, 2);
    uint32_t sent = 0;
    for (; sent < 2000 && !group_failed(g) && group_stats(g, 0).count.snapshots_sent == 0;
         sent += 10)
        traffic(g, 0, 10, 200);
    GROUP_MUST(g, "back under load", group_stats(g, 2).count.snapshots_loaded == 1);
    GROUP_MUST(g, "saved once", group_stats(g, 0).count.saves == 1);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    return group_close(g);
}

/* The same with a leader that hangs. Its successor finds its memory in order, and must not wait for it either. */
const char *hung_leader(uint32_t n, uint64_t pause_ns)
{
    struct group *g = serving_of(n, 1);
    group_hold(g, 0, true);
    GROUP_WAIT(g, group_leader(g) > 0 && group_leader(g) < n, GROUP_ELECT_NS);
    traffic(g, 0, 1, 200);
    uint32_t leader = group_leader(g);
    uint64_t held_up = traffic_held_up(g, 100, pause_ns);
    GROUP_MUST(g, "a hang costs once", held_up <= GROUP_DETACH_NS + GROUP_HEARTBEAT_NS);
    GROUP_MUST(g, "detached", group_stats(g, leader).count.shed == 1);
    GROUP_MUST(g, "detached", group_stats(g, leader).attached == n - 1);
    group_hold(g, 0, false);
    GROUP_WAIT(g, group_stats(g, leader).attached == n, GROUP_ELECT_NS);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    return group_close(g);
}

/* The same for a follower that dies, with or without its memory, and comes back as a new life in
 * the middle of traffic: rows and writes of the old life do no harm, and it votes again in the end.
 * */
const char *new_life(bool keep_memory, bool owner_answers)
{
    struct group *g = serving(&(struct group_options){
        .replicas = 3, .clients = 2, .seed = 1, .snap_pad = 6000, .owner_answers = owner_answers});
    group_cut(g, 2, 0, true); /* its last rows stay on their way, and arrive in its next life */
    group_run(g, 15 * US);
    group_crash(g, 2, keep_memory);
    traffic(g, 0, 30, 200);
    group_start(g, 2);
    group_cut(g, 2, 0, false);
    traffic(g, 1, 20, 100);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    GROUP_MUST(g, "snapshot", group_stats(g, 2).count.snapshots_loaded >= 1);
    group_crash(g, 0, false);
    GROUP_WAIT(g, group_leader(g) < 3, GROUP_ELECT_NS);
    traffic(g, 0, 5, 100);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* The words of a row land in any order: the leader sees a new life with the flags of the one before, which had its
 * memory, and sends it a state from before its return. Then it must send another, though nobody sends anything. */
const char *torn_row_of_a_new_life(void)
{
    struct group *g = serving_of(3, 1);
    struct mem_lane_spec spec = lane_spec(GROUP_REGION, 0, 2, LANE_ROW, 0);
    group_crash(g, 2, false);
    group_start(g, 2);
    group_post(g, 2);
    group_pass(g, 2 * GROUP_WAY_NS);
    const struct mem_lane *row = sim_lane(g->sim, &spec);
    GROUP_SETUP(g, mem_word(row, ROW_FLAGS) == (ROW_BEHIND | ROW_JOINING));
    atomic_store(&row->ctl[ROW_FLAGS], ROW_BEHIND);
    group_hold(g, 2, true);
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    GROUP_SETUP(g, group_stats(g, 0).count.saves == 1);
    group_hold(g, 2, false);
    GROUP_WAIT(g, group_stats(g, 2).count.snapshots_loaded == 1, GROUP_ELECT_NS);
    group_hold(g, 0, true); /* it does not see that this transfer has ended */
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    group_hold(g, 0, false);
    GROUP_WAIT(g, group_even(g), 8 * GROUP_DETACH_NS);
    GROUP_MUST(g, "joins", sim_promised(g->sim, 2, GROUP_REGION) != MEM_CLOSED);
    return group_close(g);
}

/* ---- 18: amnesia ---- */

/* A replica promises the second leader, which decides v with it, and restarts with nothing; the
 * first leader, which knows of none of that, asks it for permission again: it must not get it. */
const char *amnesia(void)
{
    struct group *g = serving_of(3, 2);
    group_cut_off(g, 0, true);
    take_over(g, 1);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, g->history_count == 2, GROUP_ELECT_NS);
    group_cut_off(g, 1, true);
    group_hold(g, 1, true);
    group_crash(g, 2, false);
    group_start(g, 2);

    group_cut(g, 0, 2, false);
    group_cut(g, 2, 0, false);
    group_cut(g, client_node(g, 0), 0, false);
    group_hold(g, 0, false);
    GROUP_SETUP(g, group_stats(g, 0).role == UNIT_LEADER);
    uint64_t commit = group_stats(g, 0).committed;
    group_send(g, 0, BYTES);
    group_run(g, 5 * GROUP_LOST_NS);
    GROUP_SETUP(g, group_stats(g, 0).written > commit);
    GROUP_MUST(g, "no vote from amnesia", group_stats(g, 0).committed == commit);
    GROUP_MUST(g, "no vote from amnesia", sim_promised(g->sim, 2, GROUP_REGION) == MEM_CLOSED);

    heal_all(g);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, group_delivered(g), 4 * GROUP_ELECT_NS);
    GROUP_MUST(g, "joins", sim_promised(g->sim, 2, GROUP_REGION) != MEM_CLOSED);
    return group_close(g);
}

/* ---- 19: a leader that has only a snapshot ---- */

/* The log has gone round, and a replica that came back with nothing but a snapshot takes over: what
 * it takes from the clients must go on exactly where the old leader was. */
const char *leader_from_snapshot(void)
{
    struct group *g = serving(&(struct group_options){.replicas = 3, .clients = 2, .seed = 1});
    traffic(g, 0, 40, 200);
    traffic(g, 1, 7, 100);
    group_crash(g, 2, false);
    traffic(g, 1, 5, 100);
    group_start(g, 2);
    GROUP_WAIT(g, group_delivered(g) && group_stats(g, 2).count.snapshots_loaded == 1,
               2 * GROUP_ELECT_NS);
    GROUP_WAIT(g, group_stats(g, 2).applied == group_stats(g, 0).applied, GROUP_ELECT_NS);
    if (group_failed(g))
        return group_close(g);
    uint64_t taken[2];
    for (uint32_t c = 0; c < 2; c++)
        taken[c] = log_source_taken(g->replica[0].log, c);
    group_crash(g, 0, true);
    take_over(g, 2);
    GROUP_WAIT(g, group_stats(g, 2).role == UNIT_LEADER, GROUP_ELECT_NS);
    for (uint32_t c = 0; c < 2; c++)
        GROUP_MUST(g, "derived state equality", log_source_taken(g->replica[2].log, c) == taken[c]);
    traffic(g, 0, 4, 200);
    traffic(g, 1, 4, 200);
    release_all(g);
    group_start(g, 0);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* ---- 20: one message, then silence (T10) ---- */

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

/* ---- not in the list, but among the papers' gaps ---- */

/* T8: the leader takes a message, cannot write it, is deposed, and another entry is decided in that
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

/* T15: a candidate has the promises of the leader's memory and its own, and has read both; the
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
    heal_all(g);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* P2: a follower has applied what a leader decided, and the leader, deposed before it could apply
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

/* T14: a candidate's requests and reads are on their way to a replica that answers only for a
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
    heal_all(g);
    group_send(g, 1, BYTES);
    GROUP_WAIT(g, group_delivered(g), 2 * GROUP_ELECT_NS);
    return group_close(g);
}

/* F4: a follower that was cut off comes back while much is committed that it lacks, more than it
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

/* F3: a leader whose writes reach nobody: it decides nothing, and what it has written alone may be
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
