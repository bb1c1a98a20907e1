/* The leader of the keepers: sees why a view has to end, closes it, and decides on the next when it has the reports. */
#include "group/keeper_impl.h"
#include "group/restart.h"

#include "base/minmax.h"
#include "base/planted.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOKS_PER_HEARTBEAT = 64, /* at rows, while nobody reports */
    JOINS_PER_START = 10,     /* who joins waits so much less for others than the first do */
    TURNS_MAX = 5,            /* who is put out again and again waits up to 2^5 suspect_ns, */
    CALM_SUSPECTS = 32,       /* and begins anew if it was not for that long */
};

static void waits_for(struct keeper *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void waits_for(struct keeper *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(k->waits, sizeof(k->waits), fmt, ap);
    va_end(ap);
}

/* ---- what rows say ---- */

static uint64_t life_of(const struct keeper *k, uint32_t host)
{
    return table_get(k->opt.top, host, TOP_LIFE);
}

/* The word first, then the life: of another one it is not. */
static uint64_t row_of(const struct keeper *k, uint32_t host, enum top_word word, uint64_t life)
{
    uint64_t value = table_get(k->opt.top, host, word);
    return life_of(k, host) == life ? value : 0;
}

static bool is_dead(const struct keeper *k, uint32_t host)
{
    return host != k->opt.me && mem_dead(k->opt.mem, host);
}

/* How long a host that was put out waits until it is let in again: not at all, unless that happens by turns, as where two do not hear each
 * other and everybody else hears both. Each turn costs everybody two views. */
static uint64_t turn_wait_ns(const struct keeper *k, const struct keeper_host *h)
{
    return h->turns ? k->opt.suspect_ns << h->turns : 0;
}

static void turn_look(const struct keeper *k, struct keeper_host *h, uint64_t life)
{
    bool same = h->life_ns && life >> 16 == h->beat_life >> 16;
    uint64_t calm_ns = CALM_SUSPECTS * k->opt.suspect_ns + turn_wait_ns(k, h);
    bool soon = same && k->now_ns - h->life_ns < calm_ns;
    h->turns = soon ? (uint32_t)min_u64(h->turns + 1, TURNS_MAX) : 0;
    h->life_ns = k->now_ns;
}

/* What an old process has left in a row does not move. */
static void beat_look(struct keeper *k, uint32_t host)
{
    struct keeper_host *h = &k->host[host];
    uint64_t beat = table_get(k->opt.top, host, TOP_BEAT), life = life_of(k, host);
    if (life != h->beat_life) {
        turn_look(k, h, life);
        h->beat_ns = 0;
    } else if (beat != h->beat)
        h->beat_ns = k->now_ns;
    h->beat = beat;
    h->beat_life = life;
}

static bool is_there(const struct keeper *k, uint32_t host)
{
    const struct keeper_host *h = &k->host[host];
    if (host == k->opt.me)
        return true;
    return !is_dead(k, host) && h->beat_ns && k->now_ns - h->beat_ns < k->opt.suspect_ns;
}

/* Whom a member of the applied view does not hear; what it said in an earlier view is of no matter. */
static uint64_t claims_of(const struct keeper *k, uint32_t host)
{
    const struct view *now = k->machine.applied;
    uint64_t claims = table_get(k->opt.top, host, TOP_CLAIMS);
    bool begun = row_of(k, host, TOP_VIEW, now->life[host]) == now->vid;
    return begun ? claims & now->members & ~set_of(host) : 0;
}

/* The life in which the host is there and wants to be in a view; 0: none. Who has left says so before it shows its next life: the life first,
 * then the word. */
static uint64_t wants_in(const struct keeper *k, uint32_t host)
{
    uint64_t life = life_of(k, host);
    bool leaves = table_get(k->opt.top, host, TOP_LEAVES) == life;
    const struct keeper_host *h = &k->host[host];
    bool waits = k->now_ns - h->life_ns < turn_wait_ns(k, h);
    if (k->opt.kept && h->found.life != life) /* first it tells what its disk has */
        return 0;
    return is_there(k, host) && !leaves && !waits ? life : 0;
}

/* Is what it has said of its disk so still? */
static bool has_told_found(const struct keeper *k, uint32_t host)
{
    const struct view *now = k->machine.applied;
    const struct found_report *f = &k->host[host].found;
    if (f->life == 0 || f->life != k->in.life[host])
        return false;
    return f->life != now->life[host] || f->vid == now->vid;
}

static void host_look(struct keeper *k, uint32_t host)
{
    const struct view *now = k->machine.applied;
    struct keeper_host *h = &k->host[host];
    bool member = in_set(now->members, host);
    beat_look(k, host);
    k->in.report[host] = h->report.vid ? &h->report : NULL;
    k->in.life[host] = wants_in(k, host);
    k->in.reach[host] = has_told_found(k, host) ? h->found.reach : NULL;
    k->in.made[host] = h->found.made;
    k->in.claims[host] = member ? claims_of(k, host) : 0;
    k->in.leaves[host] = member ? row_of(k, host, TOP_LEAVES, now->life[host]) : 0;
    h->wants =
        min_u64(h->wants, table_get(k->opt.top, host, TOP_WANTS)); /* a new life begins at 0 */
}

static void hosts_look(struct keeper *k)
{
    uint64_t there = 0;
    for (uint32_t h = 0; h < k->opt.hosts; h++) {
        host_look(k, h);
        there |= k->in.life[h] > k->machine.applied->seen[h] ? set_of(h) : 0;
    }
    if (there & ~k->there)
        k->there_ns = k->now_ns;
    k->there = there;
}

/* ---- closing ---- */

/* Has the view to end because of this member? */
static bool ends_view(const struct keeper *k, uint32_t host)
{
    const struct view *now = k->machine.applied;
    return is_dead(k, host) || life_of(k, host) > now->life[host] || k->in.claims[host] ||
           k->in.leaves[host] == now->life[host] ||
           row_of(k, host, TOP_WANTS, now->life[host]) > k->host[host].wants;
}

/* For how long those who join wait for others. */
static uint64_t joins_wait_ns(const struct keeper *k)
{
    const struct view *now = k->machine.applied;
    if ((k->there | now->members) == set_all(k->opt.hosts))
        return 0;
    return now->members ? k->opt.start_ns / JOINS_PER_START : k->opt.start_ns;
}

static bool joins_are_due(const struct keeper *k)
{
    return k->there && k->now_ns - k->there_ns >= joins_wait_ns(k);
}

static bool has_resets(const struct keeper *k)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < GROUP_CELLS_MAX / 64; i++)
        any |= k->in.reset[i];
    return any != 0;
}

/* A cell is vacant that disks of the members have, and all have said what is on theirs. */
static bool can_restart(const struct keeper *k)
{
    const struct view *now = k->machine.applied;
    bool can = false;
    if (k->opt.kept == NULL)
        return false;
    for (uint64_t rest = now->members; rest; rest = set_rest(rest))
        if (k->in.reach[set_first(rest)] == NULL)
            return false;
    for (uint32_t c = 0; c < now->cells && !can; c++) {
        struct view_cell next = {.state = CELL_VACANT};
        can = now->cell[c].state == CELL_VACANT && restart_cell(&k->in, 0, now->members, c, &next);
    }
    return can;
}

/* When the view was decided its leader did not know that they were there. */
static bool move_is_due(struct keeper *k)
{
    if (!keepers_could_move(&k->in)) {
        k->move_ns = 0;
        return false;
    }
    k->move_ns = k->move_ns ? k->move_ns : k->now_ns;
    return k->now_ns - k->move_ns >= k->opt.suspect_ns;
}

static bool must_close(struct keeper *k)
{
    if (move_is_due(k))
        return true;
    if (decide_reported(&k->in) || joins_are_due(k) || has_resets(k) || can_restart(k))
        return true;
    for (uint64_t rest = k->machine.applied->members; rest; rest = set_rest(rest))
        if (ends_view(k, set_first(rest)))
            return true;
    return false;
}

/* Members stop when they see it, and report. */
static void close_view(struct keeper *k)
{
    uint64_t vid = k->machine.applied->vid;
    k->closed_ns = k->now_ns;
    if (table_get(k->opt.top, k->opt.me, TOP_CLOSE) < vid)
        table_set(k->opt.top, TOP_CLOSE, vid);
}

/* ---- deciding ---- */

/* Members who have not reported and may yet. Who is claimed by all who have was silent for long enough already. */
static uint64_t missing(const struct keeper *k, uint64_t reported)
{
    const struct view *now = k->machine.applied;
    uint64_t absent = reported ? UINT64_MAX : 0;
    for (uint64_t rest = reported; rest; rest = set_rest(rest))
        absent &= k->in.claims[set_first(rest)];
    uint64_t out = now->members & ~reported & ~absent;
    for (uint64_t rest = out; rest; rest = set_rest(rest)) {
        uint32_t h = set_first(rest);
        if (is_dead(k, h) || life_of(k, h) > now->life[h])
            out &= ~set_of(h);
    }
    return out;
}

/* " 1, 3 and 4" */
static const char *hosts_text(uint64_t hosts, char *text, size_t bytes)
{
    text[0] = '\0';
    for (uint64_t rest = hosts; rest; rest = set_rest(rest)) {
        size_t at = strlen(text);
        snprintf(text + at, bytes - at, "%s%u",
                 rest == hosts    ? " "
                 : set_rest(rest) ? ", "
                                  : " and ",
                 set_first(rest));
    }
    return text;
}

/* For whom it waits to go on from disks; false: for nobody. */
static bool say_restart(struct keeper *k)
{
    uint64_t reported = decide_reported(&k->in);
    struct restart_lacks l = restart_lacks(&k->in, reported);
    char text[96];
    hosts_text(l.hosts, text, sizeof(text));
    const unsigned long long vid = (unsigned long long)k->machine.applied->vid;
    if (l.what == LACKS_MEMBERS)
        waits_for(k, "%u more of the members of view %llu have to be back, of hosts%s", l.count,
                  vid, text);
    else if (l.what == LACKS_CELL)
        waits_for(k, "cell %u goes on from a disk of view %llu: of hosts%s another has to be back",
                  l.cell, vid, text);
    else if (l.what == LACKS_PAST)
        waits_for(k, "host%s has a log of a later view than the keepers, whose last is %llu", text,
                  vid);
    return l.what == LACKS_MEMBERS || l.what == LACKS_CELL || l.what == LACKS_PAST;
}

static void say_undecided(struct keeper *k, const char *why)
{
    uint32_t lacks, cell = layout_lacks(&k->opt.layout, k->next, &lacks);
    if (k->machine.applied->vid == 0 && cell < GROUP_CELLS_MAX)
        waits_for(k, "cell %u of the first view needs %u members, and %u hosts are there", cell,
                  lacks, set_count(k->there));
    else if (k->machine.applied->vid == 0 || !say_restart(k))
        waits_for(k, "%s", why);
}

static int propose(struct keeper *k)
{
    const char *why = decide(&k->in, k->next);
    if (why) {
        say_undecided(k, why);
        return 0;
    }
    if (!log_note(k->log, k->bytes, view_encode(k->next, k->bytes)))
        return 0;
    k->proposed = k->next->vid;
    for (uint32_t h = 0; h < k->opt.hosts; h++)
        k->host[h].wants_next = table_get(k->opt.top, h, TOP_WANTS);
    waits_for(k, "a majority of keepers has to take view %llu", (unsigned long long)k->proposed);
    return 1;
}

/* Where there is nobody to report: the first view, and one that all have left. */
static int begin_group(struct keeper *k)
{
    if (joins_are_due(k))
        return propose(k);
    waits_for(k, "%u of %u hosts are there", set_count(k->there), k->opt.hosts);
    return 0;
}

/* A view that goes on from disks is better with all that are on their way. */
static bool waits_for_disks(struct keeper *k, uint64_t reported)
{
    if (k->opt.kept == NULL || decide_ends(&k->in, reported))
        return false;
    bool all = (k->there | reported) == set_all(k->opt.hosts);
    if (k->there == 0 || all || k->now_ns - k->there_ns >= k->opt.start_ns)
        return false;
    waits_for(k, "%u of %u hosts are back", set_count(k->there | reported), k->opt.hosts);
    return true;
}

static int end_view(struct keeper *k)
{
    uint64_t reported = decide_reported(&k->in), out = missing(k, reported);
    if (out == 0 || k->now_ns - k->closed_ns >= k->opt.suspect_ns)
        return waits_for_disks(k, reported) ? 0 : propose(k);
    if (set_count(out) == 1)
        waits_for(k, "host %u has not reported on view %llu", set_first(out),
                  (unsigned long long)k->machine.applied->vid);
    else
        waits_for(k, "%u members have not reported on view %llu, host %u is one", set_count(out),
                  (unsigned long long)k->machine.applied->vid, set_first(out));
    return 0;
}

/* What an open view lacks. */
static void say_open(struct keeper *k)
{
    uint32_t lacks, cell = layout_lacks(&k->opt.layout, k->machine.applied, &lacks);
    k->waits[0] = '\0';
    if (cell < GROUP_CELLS_MAX && k->machine.applied->cell[cell].state == CELL_VACANT)
        waits_for(k, "cell %u is vacant: nobody who is left has its state", cell);
    else if (cell < GROUP_CELLS_MAX)
        waits_for(k, "cell %u lacks %u member%s", cell, lacks, lacks == 1 ? "" : "s");
}

static int lead(struct keeper *k)
{
    const struct view *now = k->machine.applied;
    hosts_look(k);
    if (k->proposed == now->vid + 1)
        return 0;
    if (now->members == 0)
        return begin_group(k);
    if (k->closed_ns == 0 && must_close(k)) {
        close_view(k);
        return 1 + end_view(k);
    }
    if (k->closed_ns)
        return end_view(k);
    say_open(k);
    return 0;
}

/* ---- who leads ---- */

static void lead_begin(struct keeper *k, uint64_t epoch)
{
    k->epoch = epoch;
    k->proposed = k->closed_ns = k->there = k->move_ns = 0;
    k->there_ns = k->now_ns;
    for (uint32_t h = 0; h < k->opt.hosts; h++)
        k->host[h].beat_life = k->host[h].beat_ns = 0;
}

static void lead_end(struct keeper *k, const struct unit_status *s)
{
    k->epoch = 0;
    for (uint32_t i = 0; i < GROUP_CELLS_MAX / 64; i++)
        k->in.reset[i] = 0;
    k->waits[0] = '\0';
    if (s->role == UNIT_JOINING)
        waits_for(k, "the other keepers have to take this one back, which lost its memory");
    else if (s->leader == UINT32_MAX)
        waits_for(k, "the keepers have no leader; a majority of them has to be there");
}

void keeper_lead_applied(struct keeper *k)
{
    const struct view *now = k->machine.applied;
    bool ours = k->epoch && k->proposed == now->vid;
    for (uint32_t h = 0; h < k->opt.hosts; h++)
        k->host[h].wants = ours ? k->host[h].wants_next : table_get(k->opt.top, h, TOP_WANTS);
    for (uint32_t c = 0; c < now->cells; c++)
        if (now->cell[c].state != CELL_VACANT)
            k->in.reset[c / 64] &= ~(UINT64_C(1) << (c % 64));
    k->closed_ns = k->move_ns = 0;
    k->there = 0;
    k->look_ns = 0;
}

int keeper_lead(struct keeper *k)
{
    struct unit_status s;
    k->looked = k->now_ns >= k->look_ns;
    if (!k->looked)
        return 0;
    k->look_ns = k->now_ns + k->opt.heartbeat_ns / LOOKS_PER_HEARTBEAT;
    log_status(k->log, &s);
    bool is_over = k->machine.applied->keepers.generation > k->of.generation;
    if (s.role != UNIT_LEADER || s.broken || (is_over && !PLANTED(group_keepers_go_on))) {
        lead_end(k, &s);
        return 0;
    }
    if (s.epoch != k->epoch)
        lead_begin(k, s.epoch);
    return lead(k);
}

uint64_t keeper_lead_next_ns(const struct keeper *k)
{
    uint64_t next = UINT64_MAX, due = k->closed_ns + k->opt.suspect_ns;
    if (k->epoch == 0)
        return next;
    if (!k->looked)
        next = k->look_ns;
    if (k->closed_ns && due > k->now_ns)
        next = min_u64(next, due);
    due = k->there_ns + k->opt.start_ns;
    if (k->closed_ns && k->opt.kept && k->there && due > k->now_ns)
        next = min_u64(next, due);
    due = k->move_ns + k->opt.suspect_ns;
    if (k->move_ns && k->closed_ns == 0 && due > k->now_ns)
        next = min_u64(next, due);
    due = k->there_ns + joins_wait_ns(k);
    if (k->closed_ns == 0 && k->there && due > k->now_ns)
        next = min_u64(next, due);
    return next;
}

const struct view *keeper_proposal(const struct keeper *k)
{
    return k->epoch && k->proposed == k->machine.applied->vid + 1 ? k->next : NULL;
}

bool keeper_reset_cell(struct keeper *k, uint32_t cell)
{
    if (k->log == NULL || k->epoch == 0 || cell >= k->opt.cells ||
        k->machine.applied->cell[cell].state != CELL_VACANT)
        return false;
    k->in.reset[cell / 64] |= UINT64_C(1) << (cell % 64);
    k->look_ns = 0;
    return true;
}
