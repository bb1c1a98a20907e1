/* Replicas that are left behind, hang, or come back without memory, and the states that bring them up to date. */
#include "log_schedules.h"

#include "log_schedules_impl.h"

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
