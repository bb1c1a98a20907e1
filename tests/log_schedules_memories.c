#include "log_schedules_memories.h"

#include "log_schedules_impl.h"

static struct group *serving_with(uint32_t replicas, uint32_t memories, bool all_vote)
{
    struct group *g = serving(&(struct group_options){
        .replicas = replicas, .memories = memories, .all_vote = all_vote, .clients = 2, .seed = 1});
    GROUP_WAIT(g, group_stats(g, 0).attached == replicas + memories, GROUP_ELECT_NS);
    return g;
}

static void wait_attached(struct group *g, uint32_t count)
{
    GROUP_WAIT(g, group_leader(g) < g->n && group_stats(g, group_leader(g)).attached == count,
               6 * GROUP_ELECT_NS);
}

static void memory_returns(struct group *g, uint32_t memory)
{
    group_memory_crash(g, memory, false);
    group_run(g, 5 * US);
    group_memory_start(g, memory);
    GROUP_SETUP(g, sim_promised(g->sim, g->memory_nodes[memory], GROUP_REGION) == MEM_CLOSED);
}

/* 0 decides v on the first two memories, and is the only one who knows. It ends, and so does the first memory, which comes back
 * with nothing. The second has v: 1 finds it with the third, and takes the first one back. */
const char *leader_and_a_memory_end(void)
{
    struct group *g = serving_with(2, 3, false);
    uint32_t count = g->history_count;
    group_cut(g, 0, 1, true);
    group_cut(g, 0, g->memory_nodes[2], true);
    group_cut(g, client_node(g, 0), 1, true);
    group_hold(g, 1, true);
    group_send(g, 0, BYTES);
    GROUP_WAIT(g, g->replica[0].counter.state.count == count + 1, GROUP_ELECT_NS);
    GROUP_SETUP(g, g->replica[1].counter.state.count == count);
    group_crash(g, 0, false);
    memory_returns(g, 0);
    group_hold(g, 1, false);
    group_cut(g, client_node(g, 0), 1, false);
    GROUP_WAIT(g, g->replica[1].counter.state.count == count + 1, 6 * GROUP_ELECT_NS);
    heal_all(g);
    group_start(g, 0);
    wait_attached(g, 5);
    return heals(g, 1, 6);
}

/* Any one of two replicas and a memory may end, and what it had with it; the others go on, and take it back. */
const char *each_of_two_and_one_ends_once(void)
{
    struct group *g = serving_with(2, 1, true);
    for (uint32_t i = 0; i < 3 && !group_failed(g); i++) {
        if (i < 2)
            group_crash(g, i, false);
        else
            group_memory_crash(g, 0, false);
        GROUP_WAIT(g, group_leader(g) < g->n, 6 * GROUP_ELECT_NS);
        uint32_t count = g->history_count;
        group_send(g, 0, BYTES);
        GROUP_WAIT(g, g->history_count == count + 1, 6 * GROUP_ELECT_NS);
        if (i < 2)
            group_start(g, i);
        else
            group_memory_start(g, 0);
        wait_attached(g, 3);
    }
    return heals(g, 1, 6);
}

/* The leader reaches the other replica and no memory. Where memories alone vote that decides nothing. */
const char *memories_are_out_of_reach(void)
{
    struct group *g = serving_with(2, 3, false);
    uint32_t count = g->history_count;
    for (uint32_t i = 0; i < 3; i++)
        group_cut(g, 0, g->memory_nodes[i], true);
    group_hold(g, 1, true);
    group_send(g, 0, BYTES);
    group_run(g, 20 * US);
    GROUP_MUST(g, "a quorum of voters decides", g->history_count == count);
    return heals(g, 1, 6);
}

/* 1 is slow and hears nothing of 0 directly; what is decided meanwhile is in the memories alone. Two of them lose what they had,
 * one after the other, and are taken back. Then the third ends, and 0: 1 finds all it lacks. */
const char *memories_return_in_turn(void)
{
    struct group *g = serving_with(2, 3, false);
    group_cut(g, 0, 1, true);
    group_cut(g, client_node(g, 0), 1, true);
    g->replica[1].stalled = true;
    traffic(g, 0, 5, BYTES);
    uint32_t count = g->history_count;
    for (uint32_t i = 0; i < 2; i++) {
        memory_returns(g, i);
        GROUP_WAIT(g, !log_memory_is_closed(&g->memory[i]), 6 * GROUP_ELECT_NS);
        wait_attached(g, 4);
    }
    GROUP_SETUP(g, group_leader(g) == 0 && g->replica[1].counter.state.count < count);
    group_memory_crash(g, 2, false);
    group_crash(g, 0, false);
    g->replica[1].stalled = false;
    GROUP_WAIT(g, g->replica[1].counter.state.count == count, 6 * GROUP_ELECT_NS);
    heal_all(g);
    group_start(g, 0);
    group_memory_start(g, 2);
    wait_attached(g, 5);
    return heals(g, 1, 6);
}

/* The leader's connections to all memories break when these have everything, and a ring is almost full. Its runs there go on, and there
 * is nothing to send: that they have it is asked all the same, or there would be no room for more. */
const char *memories_go_on_with_nothing_to_send(void)
{
    struct group *g = serving(&(struct group_options){
        .replicas = 2, .memories = 3, .clients = 2, .seed = 1, .links = true});
    wait_attached(g, 5);
    const uint64_t room_end = g->opt.log_bytes - 2 * entry_size(GROUP_PAYLOAD_MAX);
    while (!group_failed(g) && group_stats(g, 0).written + entry_size(BYTES) <= room_end)
        traffic(g, 0, 1, BYTES);
    const uint64_t end = group_stats(g, 0).written;
    group_run(g, 2 * GROUP_HEARTBEAT_NS);
    for (uint32_t i = 0; i < 3; i++)
        sim_break(g->sim, 0, g->memory_nodes[i]);
    group_run(g, 2 * GROUP_LOST_NS); /* by then it knows */
    wait_attached(g, 5);
    GROUP_SETUP(g, group_leader(g) == 0 && group_stats(g, 0).written == end);
    return heals(g, 1, 1);
}
