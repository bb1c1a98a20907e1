/* Keepers that move: others take the place of those who are gone. */
#include "group_fixture.h"
#include "group_schedules.h"

enum {
    VIEW_US = 3000,
    HEALED_US = 20000,
};

static uint64_t all_of(const struct views *v)
{
    return (UINT64_C(1) << v->opt.hosts) - 1;
}

static void send_some(struct views *v, uint64_t hosts)
{
    for (uint64_t rest = hosts; rest; rest = set_rest(rest))
        views_send(v, set_first(rest), 0, 40);
    views_run(v, 5);
}

/* Who decides on the view after the one that the host is in. */
static uint64_t keepers_at(const struct views *v, uint32_t host)
{
    struct keeper *k = member_keeper(v->host[host].member);
    return keeper_set(k, keeper_view(k));
}

static uint32_t leader_of(const struct views *v)
{
    for (uint32_t q = 0; q < v->opt.hosts; q++) {
        struct unit_status s = {.role = UNIT_FOLLOWER};
        struct log *l = v->host[q].member ? keeper_log(member_keeper(v->host[q].member)) : NULL;
        if (l)
            log_status(l, &s);
        if (s.role == UNIT_LEADER)
            return q;
    }
    return 0;
}

static void kill_in_turn(struct views *v, uint32_t first, uint32_t count, bool keep_memory)
{
    uint64_t rest = all_of(v) & ~((UINT64_C(1) << first) - 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t q = first + i;
        send_some(v, rest);
        views_kill(v, q, keep_memory);
        rest &= ~set_of(q);
        views_until_settled(v, rest, VIEW_US);
        views_run(v, 300); /* those who have taken its place have a leader */
    }
}

/* The first keepers fail, all of them, one after another; then they come back, and those who have taken their place fail. */
const char *schedule_keepers_fail_in_turn(bool shared, bool links)
{
    struct views *v = views_open(
        &(struct views_options){.hosts = 6, .keepers = 3, .shared = shared, .links = links});
    kill_in_turn(v, 0, 3, !links);
    if (v->result.property == NULL && keepers_at(v, 3) != 0x38)
        views_violated(v, "keepers", "those who are left do not keep");
    for (uint32_t q = 0; q < 3; q++)
        views_start(v, q);
    views_until_settled(v, all_of(v), HEALED_US);
    send_some(v, all_of(v));
    for (uint32_t q = 3; q < 6; q++) {
        views_kill(v, q, !links);
        views_until_settled(v, all_of(v) & ~((UINT64_C(2) << q) - 8), VIEW_US);
        views_run(v, 300);
    }
    if (v->result.property == NULL && keepers_at(v, 0) != 7)
        views_violated(v, "keepers", "who came back does not keep");
    return views_close(v);
}

/* A keeper is gone, and so many ticks later, while another takes its place, the one that leads; or the keeper leaves. */
const char *schedule_leader_dies_in_move(uint32_t ticks, bool links, bool leaves)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 7, .keepers = leaves ? 3 : 5, .links = links});
    uint32_t leader = leader_of(v), gone = leader == 2 ? 1 : 2;
    send_some(v, all_of(v));
    if (leaves)
        member_leave(v->host[gone].member);
    else
        views_kill(v, gone, !links);
    for (uint32_t i = 0; i < ticks; i++)
        views_tick(v);
    views_kill(v, leader, !links);
    views_until_settled(v, all_of(v) & ~set_of(gone) & ~set_of(leader), HEALED_US);
    if (leaves && v->result.property == NULL) {
        views_run(v, VIEW_US);
        if (!member_left(v->host[gone].member))
            views_violated(v, "liveness", "a keeper that others have relieved may not go");
    }
    return views_close(v);
}

/* A host that knows the keepers of the file alone comes back when these are all gone; then one of them does. */
const char *schedule_host_knows_first_keepers(bool shared, bool links)
{
    struct views *v = views_open(
        &(struct views_options){.hosts = 7, .keepers = 3, .shared = shared, .links = links});
    views_kill(v, 6, !links);
    views_until_settled(v, 0x3f, VIEW_US);
    uint64_t rest = 0x3f;
    for (uint32_t q = 0; q < 3; q++) {
        views_kill(v, q, !links);
        rest &= ~set_of(q);
        views_until_settled(v, rest, VIEW_US);
        views_run(v, 300);
    }
    views_start(v, 6);
    views_until_settled(v, 0x78, HEALED_US);
    views_start(v, 0);
    views_until_settled(v, 0x79, HEALED_US);
    send_some(v, 0x79);
    views_until_settled(v, 0x79, VIEW_US);
    return views_close(v);
}

/* The leader of the keepers stands still while others take its place and that of another one; it wakes, and decides nothing any more. */
const char *schedule_leader_wakes_after_move(bool shared, bool links)
{
    struct views *v = views_open(
        &(struct views_options){.hosts = 6, .keepers = 3, .shared = shared, .links = links});
    uint32_t leader = leader_of(v);
    views_hold(v, leader);
    uint64_t rest = all_of(v) & ~set_of(leader);
    views_until_settled(v, rest, HEALED_US);
    views_run(v, 300);
    uint32_t other = (leader + 1) % 3;
    views_kill(v, other, !links);
    rest &= ~set_of(other);
    views_until_settled(v, rest, HEALED_US);
    send_some(v, rest);
    views_release(v, leader);
    views_until_settled(v, rest | set_of(leader), HEALED_US);
    views_start(v, other);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* Who keeps alone leaves; the one that takes its place is another one, and goes on deciding. */
const char *schedule_only_keeper_leaves(bool links)
{
    struct views *v = views_open(&(struct views_options){.hosts = 3, .keepers = 1, .links = links});
    member_leave(v->host[0].member);
    views_until_settled(v, 6, VIEW_US);
    for (uint32_t i = 0; i < VIEW_US && !member_left(v->host[0].member); i++)
        views_tick(v);
    if (!member_left(v->host[0].member))
        views_violated(v, "liveness", "the only keeper cannot leave");
    views_run(v, 100);
    views_kill(v, 0, false);
    views_kill(v, 2, !links);
    views_until_settled(v, 2, HEALED_US);
    views_start(v, 0);
    views_start(v, 2);
    views_until_settled(v, 7, HEALED_US);
    return views_close(v);
}

/* ---- with disks ---- */

static struct views *durable_open(uint32_t hosts, uint32_t keepers)
{
    return views_open(&(struct views_options){
        .hosts = hosts, .keepers = keepers, .majority = true, .durable = true});
}

static void start_all(struct views *v, uint64_t hosts)
{
    for (uint64_t rest = hosts; rest; rest = set_rest(rest))
        if (v->host[set_first(rest)].unit.of == NULL)
            views_start(v, set_first(rest));
}

/* The power of all is cut so many ticks after messages were sent, while a view ends, or while they go on; it comes back at two of three, and later at the
 * third. What was delivered is there. */
const char *schedule_power_cut_after(uint32_t ticks, uint32_t away, bool ends)
{
    struct views *v = durable_open(3, 3);
    send_some(v, all_of(v));
    views_run(v, 300);
    send_some(v, all_of(v));
    if (ends)
        member_relayout(v->host[1].member);
    for (uint32_t i = 0; i < ticks; i++)
        views_tick(v);
    views_power_cut(v, all_of(v));
    start_all(v, all_of(v) & ~set_of(away));
    views_until_settled(v, all_of(v) & ~set_of(away), HEALED_US);
    start_all(v, all_of(v));
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* And once more while they come back, so many ticks later. */
const char *schedule_power_cut_in_restart(uint32_t ticks)
{
    struct views *v = durable_open(3, 3);
    send_some(v, all_of(v));
    views_run(v, 400);
    send_some(v, all_of(v));
    for (uint32_t again = 0; again < 3; again++) {
        views_power_cut(v, all_of(v));
        start_all(v, all_of(v) & ~(again == 1 ? set_of(2) : 0));
        for (uint32_t i = 0; i < ticks; i++)
            views_tick(v);
    }
    views_power_cut(v, 4);
    start_all(v, all_of(v));
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* A keeper loses its power, and all of them so many ticks later, while another takes its place or has done; all come back but the first. */
const char *schedule_power_cut_in_move(uint32_t ticks)
{
    struct views *v = durable_open(5, 3);
    send_some(v, all_of(v));
    views_run(v, 300);
    views_power_cut(v, 2);
    for (uint32_t i = 0; i < ticks; i++)
        views_tick(v);
    views_power_cut(v, all_of(v));
    start_all(v, all_of(v) & ~UINT64_C(2));
    views_until_settled(v, all_of(v) & ~UINT64_C(2), HEALED_US);
    send_some(v, all_of(v) & ~UINT64_C(2));
    views_until_settled(v, all_of(v) & ~UINT64_C(2), VIEW_US);
    start_all(v, all_of(v));
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* The disk of one has no room for more: it leaves, and says why; the others go on, and what it delivered they have, too. */
const char *schedule_disk_is_full(void)
{
    struct views *v = durable_open(3, 3);
    struct member *full = v->host[2].member;
    disk_sim_limit(v->host[2].platters[1], 1);
    for (uint32_t i = 0; i < 3000 && v->result.property == NULL && !member_left(full); i++) {
        for (uint32_t q = 0; q < 3; q++)
            if (views_vid(v, q))
                views_send(v, q, 0, 400);
        views_run(v, 20);
    }
    if (v->result.property == NULL && (!member_left(full) || member_leaves_why(full) == NULL))
        views_violated(v, "disk", "a member goes on that can keep nothing more");
    views_until_settled(v, 3, HEALED_US);
    views_power_cut(v, 7);
    disk_sim_limit(v->host[2].platters[1], 0);
    start_all(v, 7);
    views_until_settled(v, 7, HEALED_US);
    return views_close(v);
}
