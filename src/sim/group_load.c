/* What the hosts of a simulated group do: they send, leave, come again, want other layouts, and set columns. */
#include "sim/group_impl.h"

#include <string.h>

enum {
    LAST_MESSAGES = 2, /* of each host, when the faults have stopped */
    RESET_IN = 100,    /* a vacant cell is given up in one of so many steps of the leader */
    RETURN_US = 200,
    HELD_STEPS = 60,
    HELD_LONG = 400,
};

static struct rng *rng_of(const struct group_node *n)
{
    return &n->run->fleet.rng;
}

/* One in so many times; 0: never. */
static bool is_drawn(const struct group_node *n, uint64_t one_in)
{
    return one_in != 0 && rng_below(rng_of(n), one_in) == 0;
}

static const struct view *view_of(const struct group_node *n)
{
    return n->run->check.host[n->host].view;
}

static bool is_sender(const struct group_node *n, uint32_t cell)
{
    const struct view *v = view_of(n);
    return v && in_set(v->cell[cell].senders, n->host);
}

/* ---- sending ---- */

static uint32_t draw_bytes(const struct group_node *n, uint32_t cell)
{
    const struct cell_options *c = &n->run->cell[cell];
    uint32_t max = c->message_max;
    if (c->large_max > 0 && rng_below(rng_of(n), 3) == 0)
        return (uint32_t)rng_range(rng_of(n), max + 1, c->large_max);
    uint64_t how = rng_below(rng_of(n), 4);
    return (uint32_t)(how == 0   ? rng_below(rng_of(n), max < 16 ? max + 1 : 17)
                      : how == 1 ? max
                                 : rng_below(rng_of(n), max + 1));
}

static void trace(const struct group_node *n, const char *what, struct group_lease lease,
                  uint32_t bytes)
{
    chaos_trace(&n->run->fleet.chaos, "h%u %s message %llu of cell %u, %u bytes", n->host, what,
                (unsigned long long)lease.index, lease.stream->cell, bytes);
}

void group_load_void(struct group_node *n, uint32_t cell)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n->rooms; i++)
        if (n->room[i].cell == cell)
            group_check_release(n->room[i].lease);
        else
            n->room[kept++] = n->room[i];
    n->rooms = kept;
}

static void commit(struct group_node *n, const struct group_room *m, uint32_t bytes)
{
    group_check_fill(&n->run->check, m->lease, m->room, bytes);
    group_check_commit(m->lease, bytes);
    trace(n, "commits", m->lease, bytes);
    member_commit(n->member, m->cell, m->room, bytes);
}

/* False: there is no room now. */
static bool send_in_place(struct group_node *n, uint32_t cell)
{
    struct group_room m = {.cell = cell, .bytes = draw_bytes(n, cell)};
    m.room = member_reserve(n->member, cell, m.bytes);
    if (m.room == NULL)
        return false;
    m.lease = group_check_reserve(&n->run->check, n->host, cell);
    memset(m.room, 0xee, m.bytes);
    uint64_t held = is_drawn(n, 10) ? HELD_LONG : HELD_STEPS;
    m.due = n->steps + rng_range(rng_of(n), 1, held);
    if (n->rooms < GROUP_LEASES_MAX && is_drawn(n, 3) && !n->run->fleet.chaos.calm)
        n->room[n->rooms++] = m, trace(n, "reserves", m.lease, m.bytes);
    else
        commit(n, &m, (uint32_t)rng_range(rng_of(n), 0, m.bytes));
    return true;
}

static bool send_copy(struct group_node *n, uint32_t cell)
{
    unsigned char data[GROUP_CHECK_BYTES_MAX];
    uint32_t bytes = draw_bytes(n, cell);
    struct group_lease lease = group_check_reserve(&n->run->check, n->host, cell);
    group_check_fill(&n->run->check, lease, data, bytes);
    int rc = member_send(n->member, cell, data, bytes);
    if (rc == 0)
        group_check_commit(lease, bytes), trace(n, "sends", lease, bytes);
    else
        group_check_release(lease);
    if (rc != 0 && rc != ERR_AGAIN)
        group_check_violated(&n->run->check, "sends", 0, "h%u: member_send says %d", n->host, rc);
    return rc == 0;
}

static bool send_one(struct group_node *n, uint32_t cell)
{
    if (n->quota == 0)
        return false;
    bool sent;
    if (!is_sender(n, cell)) /* or it is a violation */
        sent = is_drawn(n, 8) && send_in_place(n, cell);
    else
        sent = is_drawn(n, 3) ? send_copy(n, cell) : send_in_place(n, cell);
    n->quota -= sent;
    return sent;
}

static void send_some(struct group_node *n)
{
    uint64_t burst = rng_range(rng_of(n), 1, n->run->burst);
    uint32_t cell = (uint32_t)rng_below(rng_of(n), n->run->check.cells);
    while (burst-- > 0 && send_one(n, cell))
        ;
}

void group_load_delivered(struct group_node *n, uint32_t cell)
{
    if (is_drawn(n, n->run->nested_in))
        send_one(n, is_drawn(n, 2) ? cell : (uint32_t)rng_below(rng_of(n), n->run->check.cells));
}

/* Rooms whose time has come. */
static void end_rooms(struct group_node *n)
{
    for (uint32_t i = 0; i < n->rooms;) {
        struct group_room m = n->room[i];
        if (m.due > n->steps && !n->run->fleet.chaos.calm) {
            i++;
            continue;
        }
        n->room[i] = n->room[--n->rooms];
        if (is_drawn(n, 4)) {
            group_check_release(m.lease);
            trace(n, "releases", m.lease, 0);
            member_release(n->member, m.cell, m.room);
        } else {
            commit(n, &m, (uint32_t)rng_range(rng_of(n), 0, m.bytes));
        }
    }
}

/* ---- coming and going ---- */

static void return_event(void *ctx, uint64_t arg)
{
    struct group_node *n = ctx;
    struct fleet *f = &n->run->fleet;
    n->returns = false;
    if (f->chaos.calm || arg != f->chaos.life[n->host] || f->node[n->host].mem == NULL ||
        n->member == NULL || !member_left(n->member) || f->node[n->host].stopped)
        return;
    chaos_crash(&f->chaos, n->host, !f->chaos.links, rng_range(&f->rng, 1, 60) * RUN_US);
}

static void come_and_go(struct group_node *n)
{
    struct fleet *f = &n->run->fleet;
    if (f->chaos.calm)
        return;
    if (member_left(n->member) && !n->returns) {
        n->returns = true;
        sim_at(f->sim, sim_now(f->sim) + rng_range(&f->rng, 1, RETURN_US * RUN_US), return_event, n,
               f->chaos.life[n->host]);
    }
    if (is_drawn(n, n->run->leave_in) && group_may_leave(n)) {
        chaos_trace(&f->chaos, "h%u wants to leave", n->host);
        member_leave(n->member);
    }
    if (is_drawn(n, n->run->layout_in) && view_of(n)) {
        chaos_trace(&f->chaos, "h%u wants another layout", n->host);
        member_relayout(n->member);
    }
}

/* One that is on disks is not, unless somebody who was in it last has left. */
static bool may_give_up(const struct group_node *n, const struct view *v, uint32_t cell)
{
    const struct group_run *r = n->run;
    if (!(r->check.kept >> cell & 1))
        return true;
    for (uint64_t rest = v->cell[cell].members_last; rest; rest = set_rest(rest))
        if (r->node[set_first(rest)].member && member_left(r->node[set_first(rest)].member))
            return true;
    return false;
}

/* A cell that nobody has the state of is given up by a person, sooner or later. */
static void reset_vacant(struct group_node *n)
{
    struct keeper *k = member_keeper(n->member);
    const struct view *v = keeper_view(k);
    for (uint32_t cell = 0; v && v->vid > 0 && cell < v->cells; cell++)
        if (v->cell[cell].state == CELL_VACANT && may_give_up(n, v, cell) &&
            is_drawn(n, RESET_IN) && keeper_reset_cell(k, cell))
            chaos_trace(&n->run->fleet.chaos, "cell %u is given up", cell);
}

/* ---- columns ---- */

static void columns(struct group_node *n)
{
    struct group_check *c = &n->run->check;
    uint32_t cell = (uint32_t)rng_below(rng_of(n), c->cells);
    uint32_t column = (uint32_t)rng_below(rng_of(n), MEMBER_COLUMNS);
    uint32_t of = (uint32_t)rng_below(rng_of(n), c->hosts);
    const struct view *v = view_of(n);
    if (v == NULL || !in_set(v->cell[cell].members, n->host))
        return;
    uint64_t value = c->host[n->host].cell[cell].column[column] + rng_below(rng_of(n), 3);
    group_check_column_set(c, n->host, cell, column, value);
    member_column_set(n->member, cell, column, value);
    uint64_t seen = member_column(n->member, cell, column, of);
    group_check_column(c, n->host, cell, column, of, seen);
    if (in_set(v->cell[cell].members, of) && member_column_min(n->member, cell, column) > seen)
        group_check_violated(c, "columns", v->vid,
                             "h%u: the least of column %u is more than h%u has", n->host, column,
                             of);
}

/* ---- */

void group_load_step(struct group_node *n)
{
    n->steps++;
    end_rooms(n);
    if (rng_chance_ppm(rng_of(n), (uint32_t)n->send_ppm))
        send_some(n);
    if (is_drawn(n, n->run->column_in))
        columns(n);
    if (is_drawn(n, n->run->ask_in))
        group_ask_some(n);
    come_and_go(n);
    reset_vacant(n);
}

void group_load_calm(struct group_node *n)
{
    struct fleet *f = &n->run->fleet;
    if (n->member && member_left(n->member) && !f->node[n->host].stopped && is_drawn(n, 2))
        chaos_crash(&f->chaos, n->host, !f->chaos.links, 1);
    n->quota = LAST_MESSAGES;
    n->send_ppm = 100000;
}

bool group_load_done(const struct group_node *n)
{
    bool sends = false;
    for (uint32_t k = 0; k < n->run->check.cells; k++)
        sends |= is_sender(n, k);
    return (n->quota == 0 || !sends) && group_ask_open(n) == 0 &&
           group_check_outstanding(&n->run->check, n->host) == 0;
}
