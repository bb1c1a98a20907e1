#include "group_schedules.h"

#include "group/client.h"
#include "group/keeper_impl.h"
#include "group_fixture.h"

#include <stdio.h>

enum { VIEW_US = 3000, HEALED_US = 8000 };

static uint64_t all_of(const struct views *v)
{
    return (UINT64_C(1) << v->opt.hosts) - 1;
}

/* Everybody in the set who may sends so many. */
static void send_all(struct views *v, uint64_t hosts, uint32_t count, uint32_t bytes)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t rest = hosts; rest; rest = set_rest(rest))
            if (views_vid(v, set_first(rest)))
                views_send(v, set_first(rest), 0, bytes);
}

/* The leader of the keepers dies so many ticks after a member: before or after it closed, decided, told. The rest go on alike. */
const char *schedule_leader_dies_after(uint32_t ticks, bool shared)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 5, .keepers = 3, .shared = shared});
    send_all(v, all_of(v), 3, 100);
    views_run(v, 2);
    views_kill(v, 4, true);
    for (uint32_t i = 0; i < ticks; i++) {
        if (i % 3 == 0)
            send_all(v, 0xf, 1, 60);
        views_tick(v);
    }
    uint32_t leader = 0;
    for (uint32_t q = 0; q < 3; q++) {
        struct unit_status s = unit_status(&v->host[q].unit);
        leader = s.role == UNIT_LEADER ? q : leader;
    }
    views_kill(v, leader, true);
    views_until_settled(v, 0xf & ~set_of(leader), HEALED_US);
    return views_close(v);
}

static uint32_t leader_of(const struct views *v)
{
    for (uint32_t q = 0; q < v->opt.keepers; q++)
        if (v->host[q].unit.of && unit_status(&v->host[q].unit).role == UNIT_LEADER)
            return q;
    return 0;
}

/* Seven members. One dies whose last messages some have and some have not. Two of the others do not hear each other; the leader of the
 * keepers, some way into the next view, reaches only one of those two, and dies. Nobody has acted on a trim that others do not find. */
const char *schedule_trim_at_one(uint64_t step)
{
    struct views *v = views_open(&(struct views_options){.hosts = 7, .keepers = 5});
    send_all(v, all_of(v), 3, 80);
    views_run(v, 20);
    for (uint32_t q = 2; q < 5; q++) /* some do not get the last of host 6 */
        sim_cut(v->sim, 6, q, true);
    for (uint32_t i = 0; i < 3; i++) {
        send_all(v, all_of(v), 1, 60);
        views_tick(v);
    }
    views_kill(v, 6, true);
    uint32_t leader = leader_of(v), one = (leader + 1) % 5, other = (leader + 2) % 5;
    views_cut(v, one, other, true);
    for (uint64_t i = 0; i < step; i++)
        views_tick(v);
    leader = leader_of(v);
    for (uint32_t q = 0; q < 6; q++)
        if (q != leader && q != one)
            views_cut(v, leader, q, true);
    for (uint32_t i = 0; i < 40; i++)
        views_tick(v);
    if (leader != one)
        views_kill(v, leader, false);
    views_run(v, 300);
    for (uint32_t a = 0; a < 7; a++)
        for (uint32_t b = 0; b < a; b++)
            views_cut(v, a, b, false);
    uint64_t left = 0x3f;
    if (leader != one)
        left &= ~set_of(leader);
    views_until_settled(v, left, 2 * HEALED_US);
    return views_close(v);
}

/* A member stands still while two views pass without it. When it wakes it has delivered a prefix, is out, and comes again. */
const char *schedule_wakes_two_views_later(bool shared)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 5, .keepers = 3, .shared = shared});
    send_all(v, all_of(v), 4, 200);
    views_run(v, 1);
    views_hold(v, 4);
    views_until_settled(v, 0xf, VIEW_US);
    views_kill(v, 3, true);
    views_until_settled(v, 0x7, VIEW_US);
    for (uint32_t i = 0; i < 40; i++) { /* rings wrap */
        send_all(v, 0x7, 1, 500);
        views_run(v, 20);
    }
    views_release(v, 4);
    views_until_settled(v, 0x17, HEALED_US);
    return views_close(v);
}

/* Ticks until the host is in a view with that member. */
static void until_with(struct views *v, uint32_t host, uint32_t member)
{
    for (uint32_t i = 0; i < 2 * VIEW_US && v->result.property == NULL; i++) {
        const struct view *now = member_view(v->host[host].member);
        if (now && in_set(now->members, member))
            return;
        views_tick(v);
    }
    views_violated(v, "liveness", "there is no view with the member");
}

/* One who comes back has not yet found the lane of a sender's new life when that sender has died and lives again: it will never read what
 * the sender sent in the view. Nobody has delivered that. */
const char *schedule_sender_never_found(void)
{
    const uint32_t sender = 3, late = 4;
    struct views *v = views_open(&(struct views_options){
        .hosts = 5,
        .keepers = 3,
        .shared = true,
        .layout = {{.hosts = 0x1f, .members_min = 1, .senders = 1 << 3, .overlap = true}}});
    views_hold(v, late);
    views_until_settled(v, 0xf, VIEW_US);
    views_kill(v, sender, true);
    views_until_settled(v, 0x7, VIEW_US);
    views_start(v, sender);
    views_until_settled(v, 0xf, VIEW_US);
    send_all(v, set_of(sender), 1, 100); /* it may write from then on */
    views_until_settled(v, 0xf, VIEW_US);
    views_release(v, late);
    for (uint32_t i = 0; i < 2 * VIEW_US && !member_wedged(v->host[0].member); i++)
        views_tick(v);
    views_hold(v, late);
    until_with(v, 0, late);
    until_with(v, 1, late);
    until_with(v, sender, late);
    views_hold(v, 1); /* it has all lanes, and has delivered nothing */
    if (!views_send(v, sender, 0, 100))
        views_violated(v, "liveness", "a sender that goes on cannot send");
    views_run(v, 5);
    views_kill(v, sender, true);
    views_start(v, sender);
    views_release(v, 1);
    views_release(v, late);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* Messages that are published when the others have wedged already are the first of the next view. */
const char *schedule_publish_into_wedge(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 4, .keepers = 3});
    views_hold(v, 3);
    member_relayout(v->host[1].member);
    for (uint32_t i = 0; i < 200 && !member_wedged(v->host[0].member); i++)
        views_tick(v);
    views_release(v, 3);
    for (uint32_t i = 0; i < 5; i++)
        views_send(v, 3, 0, 50 * i);
    for (uint32_t i = 0; i < 3; i++) /* it has not heard of the close */
        views_step(v, 3);
    views_until_settled(v, all_of(v), VIEW_US);
    return views_close(v);
}

/* A request for another layout that the leader of the keepers takes for one that was heeded, as one does that has just begun to lead, is
 * said again until there is a view. */
const char *schedule_layout_request_lost(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 4, .keepers = 3});
    const uint64_t before = views_vid(v, 1);
    member_relayout(v->host[1].member);
    for (uint32_t i = 0; i < 50; i++) {
        for (uint32_t h = 0; h < 3; h++)
            member_keeper(v->host[h].member)->host[1].wants = 1;
        views_tick(v);
    }
    bool lost = views_vid(v, 1) == before;
    views_run(v, VIEW_US);
    bool heeded = views_vid(v, 1) == before + 1;
    const char *wrong = views_close(v);
    if (wrong)
        return wrong;
    if (!lost)
        return "the request was not lost";
    return heeded ? NULL : "a request for a layout brought no view, or several";
}

/* Two do not hear each other, and everybody else hears both: one of them goes, and comes when it can be heard. */
const char *schedule_mutual_claims(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 4, .keepers = 3, .links = true});
    send_all(v, all_of(v), 2, 100);
    views_cut(v, 2, 3, true);
    views_run(v, 4000);
    if (v->check.vid_last > 24) /* by turns one of them is put out, and let in: ever more seldom */
        views_violated(v, "turns", "two who do not hear each other cost everybody many views");
    uint32_t least = 4;
    for (uint64_t vid = 1; vid <= v->check.vid_last; vid++) {
        uint32_t members = v->check.view[vid] ? set_count(v->check.view[vid]->members) : 4;
        least = members < least ? members : least;
    }
    if (least != 3)
        views_violated(v, "fewest go", "of two who do not hear each other one has to go, no more");
    views_cut(v, 2, 3, false);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* All rings are full and a member stands still: it is removed, and everything that was sent is delivered. */
const char *schedule_rings_full_member_stopped(bool shared)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 4, .keepers = 3, .shared = shared});
    views_hold(v, 3);
    for (uint32_t i = 0; i < 30; i++) {
        send_all(v, 0x7, 1, 400);
        views_tick(v);
    }
    if (views_send(v, 0, 0, 400))
        views_violated(v, "window", "a ring that nobody frees takes more than it holds");
    views_until_settled(v, 0x7, VIEW_US);
    send_all(v, 0x7, 8, 400);
    views_until_settled(v, 0x7, VIEW_US);
    views_release(v, 3);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* Room is reserved and kept for long: the messages of others are delivered meanwhile, and the later ones of its sender behind it. */
const char *schedule_lease_is_open_long(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 3, .keepers = 3});
    struct group_lease lease = group_check_reserve(&v->check, 0, 0);
    unsigned char *room = member_reserve(v->host[0].member, 0, 100);
    views_send(v, 0, 0, 10);
    send_all(v, 0x6, 5, 80);
    views_run(v, 1000);
    if (views_delivered(v, 1, 0) != 10)
        views_violated(v, "a lease delays nobody else", "the messages of others wait for it");
    if (v->result.property == NULL) {
        group_check_fill(&v->check, lease, room, 100);
        group_check_commit(lease, 100);
        member_commit(v->host[0].member, 0, room, 100);
    }
    views_until_settled(v, all_of(v), VIEW_US);
    return views_close(v);
}

/* A lease of so many bytes that is released or committed. */
struct lease {
    struct group_lease known;
    unsigned char *room;
    uint32_t bytes;
};

static bool lease(struct views *v, uint32_t bytes, struct lease *out)
{
    *out = (struct lease){.bytes = bytes, .room = member_reserve(v->host[0].member, 0, bytes)};
    if (out->room)
        out->known = group_check_reserve(&v->check, 0, 0);
    return out->room != NULL;
}

static void let_go(struct views *v, const struct lease *l)
{
    group_check_release(l->known);
    member_release(v->host[0].member, 0, l->room);
}

static void give(struct views *v, const struct lease *l, uint32_t bytes)
{
    group_check_fill(&v->check, l->known, l->room, bytes);
    group_check_commit(l->known, bytes);
    member_commit(v->host[0].member, 0, l->room, bytes);
}

/* Room for several rings is reserved and released while nothing is sent, one after the other or several at a time, in either order, with a message
 * between them now and then: all of it is free again, and messages keep their order. */
const char *schedule_leases_are_released(uint32_t at_once, uint32_t message_every)
{
    struct views *v = views_open(&(struct views_options){.hosts = 3, .keepers = 3});
    for (uint32_t i = 0; i < 400 && v->result.property == NULL; i++) {
        struct lease l[4];
        uint32_t n = 0;
        if (lease(v, 20 + 37 * i % 200,
                  &l[0])) /* also where the ring ends, before one that is as large */
            let_go(v, &l[0]);
        while (n < at_once && lease(v, 20 + 37 * (i + n) % 200, &l[n]))
            n++;
        if (n < at_once && message_every == 0)
            views_violated(v, "what is released is free", "there is no room, and nothing is sent");
        for (uint32_t k = 0; k < n; k++) {
            const struct lease *one = &l[i % 2 ? k : n - 1 - k];
            if (message_every && (i + k) % message_every == 0)
                give(v, one, one->bytes - i % 3 * 10);
            else
                let_go(v, one);
        }
        if (message_every)
            views_run(v, 30);
    }
    send_all(v, 0x7, 3, 400);
    views_until_settled(v, all_of(v), VIEW_US);
    if (v->result.property == NULL && views_vid(v, 0) != 1)
        views_violated(v, "what is sent is whole", "a member was put out for what it sent");
    return views_close(v);
}

/* One sends and the others give nulls, while rings wrap and views change. */
const char *schedule_nulls_over_wrap_and_view(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 3, .keepers = 3});
    for (uint32_t i = 0; i < 60; i++) {
        for (uint32_t k = 0; k < 3; k++) /* a batch, which one null does not answer */
            views_send(v, i % 20 < 15 ? 1 : 2, 0, 30 + i);
        if (i % 10 == 9)
            member_relayout(v->host[i % 3].member);
        views_run(v, 5);
    }
    views_until_settled(v, all_of(v), VIEW_US);
    for (uint32_t k = 0; k < 6; k++)
        views_send(v, 1, 0, 30);
    views_until_settled(v, all_of(v), VIEW_US);
    return views_close(v);
}

/* Nothing of one host reaches another, and everything the other way: they do not stay in one view, and are again when it heals. */
const char *schedule_one_way_cut(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 4, .keepers = 3});
    send_all(v, all_of(v), 2, 100);
    sim_cut(v->sim, 3, 1, true);
    views_run(v, 2000);
    sim_cut(v->sim, 3, 1, false);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* A connection breaks in the middle of a batch and is there again: what was under way is sent again, whether or not it looked as if a
 * process had ended, and all are in one view. */
const char *schedule_link_breaks_and_heals(uint64_t seed)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 3, .keepers = 3, .links = true, .seed = seed});
    for (uint32_t i = 0; i < 6; i++) {
        send_all(v, all_of(v), 5, 150);
        views_step(v, i % 2);
        views_step(v, 2);
        sim_break(v->sim, i % 2, 2); /* what the two have sent each other is under way */
        views_run(v, 300);
    }
    views_until_settled(v, all_of(v), VIEW_US);
    return views_close(v);
}

/* A member's process is there again before the old one was removed: it is another member, with another life. */
const char *schedule_restart_before_removal(bool keep_memory)
{
    struct views *v = views_open(&(struct views_options){.hosts = 4, .keepers = 3});
    send_all(v, all_of(v), 5, 120);
    views_run(v, 2);
    views_kill(v, 3, keep_memory);
    views_start(v, 3);
    views_tick(v);
    send_all(v, 0x7, 3, 120);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* Somebody joins under load, and who sends it the state, of that many bytes, dies so many ticks later. */
const char *schedule_donor_dies_after(uint32_t ticks, uint32_t state)
{
    struct views *v = views_open(&(struct views_options){.hosts = 5, .keepers = 3, .pad = state});
    views_kill(v, 4, true);
    views_until_settled(v, 0xf, VIEW_US);
    views_start(v, 4);
    for (uint32_t i = 0; i < 2000 && views_vid(v, 4) == 0; i++)
        views_tick(v);
    for (uint32_t i = 0; i < ticks; i++) {
        send_all(v, 0xf, 1, 90);
        views_tick(v);
    }
    views_kill(v, 0, true); /* the lowest rank with the state */
    views_until_settled(v, 0x1e, HEALED_US);
    return views_close(v);
}

/* A state of many rings is sent to somebody who joins. */
enum { LARGE_STATE = 400 * VIEWS_RING, WINDOW_US = 60 };

static bool is_learning(const struct views *v, uint32_t host)
{
    const struct view *w = member_view(v->host[0].member);
    return w && in_set(w->cell[0].learners, host);
}

/* All send as fast as they can while it is on its way, and nobody waits for who is sent it. In the end that one is a member like the others. */
const char *schedule_learner_is_not_waited_for(bool shared)
{
    struct views *v = views_open(&(struct views_options){.hosts = 4,
                                                         .keepers = 3,
                                                         .shared = shared,
                                                         .pad = LARGE_STATE,
                                                         .backlog = 2 * LARGE_STATE});
    views_kill(v, 3, true);
    views_until_settled(v, 0x7, VIEW_US);
    views_start(v, 3);
    uint32_t windows = 0;
    for (; windows < 1000 && v->result.property == NULL; windows++) {
        uint64_t before = views_delivered(v, 1, 0);
        bool learning = is_learning(v, 3);
        for (uint32_t i = 0; i < WINDOW_US; i++) {
            send_all(v, 0x7, 1, 200);
            views_run(v, 1);
        }
        if (views_delivered(v, 1, 0) == before)
            views_violated(v, "nobody waits for a learner", "no message was delivered for long");
        if (learning && !is_learning(v, 3) && member_has_state(v->host[3].member, 0))
            break;
    }
    if (windows < 5 || windows == 1000)
        views_violated(v, "learns", "it did not learn its state, or the state is small");
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* It stands still so long after it began to learn, until the backlog is full and it is put out. */
const char *schedule_learner_stands_still(uint32_t us)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 4, .keepers = 3, .pad = 8 * VIEWS_RING});
    views_kill(v, 3, true);
    views_until_settled(v, 0x7, VIEW_US);
    views_start(v, 3);
    for (uint32_t i = 0; i < 4000 && !is_learning(v, 3); i++)
        views_tick(v);
    views_run(v, us);
    views_hold(v, 3);
    for (uint32_t i = 0; i < 300; i++) {
        send_all(v, 0x7, 1, 300);
        views_run(v, 1);
    }
    views_release(v, 3);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* One leaves and another crashes at once. */
const char *schedule_leave_and_crash(uint32_t ticks)
{
    struct views *v = views_open(&(struct views_options){.hosts = 5, .keepers = 3});
    send_all(v, all_of(v), 4, 70);
    member_leave(v->host[3].member);
    for (uint32_t i = 0; i < ticks; i++)
        views_tick(v);
    views_kill(v, 4, true);
    views_until_settled(v, 0x7, HEALED_US);
    views_run(v, 200);
    if (!member_left(v->host[3].member) && v->result.property == NULL)
        views_violated(v, "leaves", "who wanted to leave has not");
    return views_close(v);
}

/* Most keepers stand still: nobody is removed meanwhile, and all goes on when they do. */
const char *schedule_keepers_stopped(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 5, .keepers = 3, .links = true});
    uint64_t vid = views_vid(v, 3);
    send_all(v, all_of(v), 2, 100);
    views_hold(v, 0);
    views_hold(v, 1);
    views_run(v, 3000);
    if (views_vid(v, 3) > vid)
        views_violated(v, "keepers decide", "there is a new view without most keepers");
    views_release(v, 0);
    views_release(v, 1);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* All who have a cell's state die: it is vacant, and never empty by itself; given up, it begins anew. */
const char *schedule_cell_without_survivors(void)
{
    struct views *v = views_open(&(struct views_options){
        .hosts = 5,
        .keepers = 3,
        .cells = 2,
        .layout = {{0},
                   {.hosts = 0x18, .members_min = 1, .senders = UINT64_MAX, .overlap = true}}});
    views_send(v, 3, 1, 100);
    views_until_settled(v, all_of(v), VIEW_US);
    views_kill(v, 3, true);
    views_kill(v, 4, true);
    views_run(v, 1500);
    views_start(v, 3);
    views_run(v, 3000);
    const struct view *w = member_view(v->host[0].member);
    if (v->result.property == NULL && (w == NULL || w->cell[1].state != CELL_VACANT))
        views_violated(v, "never empty by itself", "a cell whose state is gone lives");
    for (uint32_t q = 0; q < 3; q++)
        keeper_reset_cell(member_keeper(v->host[q].member), 1);
    views_until_settled(v, 0xf, HEALED_US);
    return views_close(v);
}

/* A cell has fewer members than it must: nobody publishes, and what was sent meanwhile is delivered when it has. */
const char *schedule_inadequate_heals(void)
{
    struct views *v = views_open(&(struct views_options){
        .hosts = 4,
        .keepers = 3,
        .layout = {{.hosts = 0xf, .members_min = 4, .senders = UINT64_MAX, .overlap = true}}});
    views_kill(v, 3, true);
    views_run(v, 1500);
    uint64_t before = views_delivered(v, 0, 0);
    send_all(v, 0x7, 2, 100);
    views_run(v, 500);
    if (views_delivered(v, 0, 0) != before)
        views_violated(v, "inadequate", "there is a delivery in a view that is not adequate");
    views_start(v, 3);
    views_until_settled(v, all_of(v), HEALED_US);
    return views_close(v);
}

/* What is left of old messages in a ring looks like records of this view and the next, with the indices that are due: nobody takes them for
 * some, whatever comes to stand before them. */
const char *schedule_forged_bytes(uint64_t seed)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 3, .keepers = 3, .shared = seed & 1});
    v->check.seed = seed; /* of what messages are */
    for (uint32_t view = 0; view < 6; view++) {
        for (uint32_t i = 0; i < 10; i++) { /* more than a ring holds, of this view */
            send_all(v, all_of(v), 1, 464 + 16 * (uint32_t)(seed % 3));
            views_run(v, 8);
        }
        for (uint32_t i = 0; i < 20; i++) { /* nulls of the others stand where the old bytes are */
            views_send(v, view % 3, 0, 16);
            views_run(v, 8);
        }
        member_relayout(v->host[0].member);
        views_run(v, 40);
    }
    views_until_settled(v, all_of(v), VIEW_US);
    return views_close(v);
}

/* One cell is busy all the time: the other's message is delivered soon. */
const char *schedule_two_cells_are_fair(void)
{
    struct views *v = views_open(&(struct views_options){.hosts = 3, .keepers = 3, .cells = 2});
    for (uint32_t i = 0; i < 400 && v->result.property == NULL; i++) {
        send_all(v, all_of(v), 2, 300);
        if (i == 200)
            views_send(v, 1, 1, 40);
        views_tick(v);
        if (i == 240 && views_delivered(v, 2, 1) != 1)
            views_violated(v, "cells take turns", "20 us are not enough for the idle cell");
    }
    views_until_settled(v, all_of(v), VIEW_US);
    return views_close(v);
}

/* A client's messages are taken by a member that is cut off from the others so many ticks later, and put out. The client goes to another one,
 * and sends again what it does not know to be delivered; the one that was put out comes back and takes more. Each is delivered once. */
const char *schedule_relay_is_put_out(uint32_t ticks, bool shared)
{
    struct views *v = views_open(
        &(struct views_options){.hosts = 4, .keepers = 3, .shared = shared, .clients = 2});
    views_client_open(v, 1);
    for (uint32_t i = 0; i < 6; i++) {
        views_client_send(v, 1, 100 + i);
        views_run(v, 4);
    }
    for (uint32_t i = 0; i < 6; i++)
        views_client_send(v, 1, 60);
    for (uint32_t i = 0; i < ticks; i++)
        views_tick(v);
    views_hold(v, 1);
    views_until_settled(v, 0xd, VIEW_US);
    for (uint32_t i = 0; i < 6; i++)
        views_client_send(v, 1, 40);
    views_run(v, 10);
    views_release(v, 1);
    views_until_settled(v, all_of(v), HEALED_US);
    views_run(v, 1000);
    if (v->client[1].done != 18)
        views_violated(v, "clients", "not all that a client sent is done");
    if (views_delivered(v, 0, 0) != 18)
        views_violated(v, "once per client request", "more or less is delivered than was sent");
    return views_close(v);
}

/* The one host at which a client may send is down, and the client has as many messages of that size under way as it can. What it subscribes to then
 * comes all the same. */
const char *schedule_full_client_subscribes(uint32_t bytes)
{
    struct views *v = views_open(
        &(struct views_options){.hosts = 3, .keepers = 3, .clients = 1, .client_hosts = 4});
    views_kill(v, 2, false);
    views_until_settled(v, 3, VIEW_US);
    views_client_open(v, 0);
    views_client_fill(v, 0, bytes);
    client_subscribe(v->client[0].client, 0, CLIENT_FROM_NOW);
    views_run(v, 1000);
    views_send(v, 0, 0, 40);
    views_run(v, 1000);
    if (v->client[0].fed != 1)
        views_violated(v, "clients",
                       "who waits for one cell gets nothing of what it subscribed to");
    return views_close(v);
}

/* Five members, and a body of twelve blocks on its way from host 0 to all of them in a pipeline, with another behind it. One of them dies at some step, the
 * sender or one that passes blocks on; or it stands still until the others have gone on, so that what it sends comes late. Everybody who goes on delivers the
 * same: the body whole, or not at all. */
const char *schedule_relay_dies_in_body(uint32_t host, uint32_t ticks, bool stands_still)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 5, .keepers = 3, .block_bytes = 512});
    uint64_t rest = all_of(v) & ~set_of(host);
    send_all(v, all_of(v), 1, 40);
    views_send(v, 0, 0, GROUP_CHECK_BYTES_MAX);
    views_send(v, 0, 0, GROUP_CHECK_BYTES_MAX / 2);
    send_all(v, all_of(v), 1, 60);
    for (uint32_t i = 0; i < ticks; i++)
        views_tick(v);
    if (stands_still)
        views_hold(v, host);
    else
        views_kill(v, host, true);
    views_until_settled(v, rest, HEALED_US);
    if (stands_still) {
        views_send(v, set_first(rest), 0, GROUP_CHECK_BYTES_MAX);
        views_release(v, host);
        views_until_settled(v, all_of(v), HEALED_US);
    }
    return views_close(v);
}
