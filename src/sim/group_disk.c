/* The disks of a group's hosts: what befalls them, and whether what they are said to have is on their platters. */
#include "base/grow.h"
#include "base/hash.h"
#include "base/minmax.h"
#include "sim/group_impl.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

enum {
    DISK_STREAM = 25, /* of the seed */
    DISKS_ONE_IN = 3, /* runs */
    SEGMENT_BYTES = 128 << 10,
    CRAMPED_SEGMENTS = 3, /* that a full disk has room for, of each cell */
    SKEW_MS = 20,
};

/* ---- what is drawn ---- */

static void draw_modes(struct group_run *r, struct rng *g)
{
    for (uint32_t k = 0; k < r->check.cells; k++) {
        uint64_t mode =
            rng_below(g, group_is_durable(r) && k == 0 ? 3 : 4) + (group_is_durable(r) && k == 0);
        if (mode == 0 || (r->cell[k].mode == CELL_RAW && !(group_is_durable(r) && k == 0)))
            continue;
        r->check.raw &= ~(UINT32_C(1) << k);
        r->cell[k].mode = mode == 1 ? CELL_LOGGED : CELL_DURABLE;
        r->cell[k].large_max = 0;
        r->disks = true;
        r->check.kept |= UINT32_C(1) << k;
        r->check.durable |= mode == 1 ? 0 : UINT32_C(1) << k;
    }
}

/* As little as can be: a state is written as soon as a second segment has begun. */
static void draw_retention(struct group_run *r, struct rng *g)
{
    for (uint32_t k = 0; k < r->check.cells; k++)
        if (r->check.kept >> k & 1 && rng_below(g, 2))
            r->cell[k].retain = 1;
}

/* A disk may be lost if what was delivered is on another one at least. */
static void draw_losable(struct group_run *r)
{
    r->disk_losable = group_is_durable(r) && r->member_opt.keepers_count > 2;
    for (uint32_t k = 0; k < r->check.cells; k++)
        r->disk_losable &= !(r->check.kept >> k & 1) || r->cell[k].layout.members_min > 1;
}

void group_disk_draw(struct group_run *r)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(r->opt->seed, DISK_STREAM));
    if (rng_below(g, DISKS_ONE_IN) && !group_is_durable(r))
        return;
    draw_modes(r, g);
    draw_losable(r);
    if (!r->disks)
        return;
    r->check.result->group.disks = 1;
    r->member_opt.view_majority = r->check.view_majority = true;
    r->disk_options.flush_ns_min = rng_range(g, 500, 5 * RUN_US);
    r->disk_options.flush_ns_max = r->disk_options.flush_ns_min + rng_below(g, 20 * RUN_US);
    r->disk_cramped = rng_below(g, 4) == 0;
    r->disk_slow_in = rng_below(g, 2) ? 0 : rng_range(g, 500, 4000);
    r->disk_fail_in = rng_below(g, 2) ? 0 : rng_range(g, 2000, 20000);
    rng_init(&r->disk_rng, rng_u64(g));
    draw_retention(r, g);
}

/* ---- lives ---- */

static uint64_t room_of(const struct group_run *r)
{
    uint64_t logs = 0;
    for (uint32_t k = 0; k < r->check.cells; k++)
        logs += r->cell[k].mode == CELL_LOGGED || r->cell[k].mode == CELL_DURABLE;
    return r->disk_cramped ? logs * CRAMPED_SEGMENTS * SEGMENT_BYTES : 0;
}

static void make_platters(struct group_node *n)
{
    struct disk_sim_options o = n->run->disk_options;
    o.seed = hash_mix(n->run->opt->seed, n->host);
    o.bytes_max = room_of(n->run);
    n->disk.platters = disk_sim_open(&o);
    CHECK(n->disk.platters != NULL);
    n->disk.wall_ns = hash_mix(o.seed, 1) % (SKEW_MS * UINT64_C(1000000));
}

/* Of logs that do not grow for ever segments are as small as may be. */
static uint64_t segment_bytes(const struct group_run *r, const struct versions_log_options *log)
{
    uint64_t largest = log[VERSIONS_VIEWS].buffer_bytes;
    bool retains = false;
    for (uint32_t k = 0; k < r->check.cells; k++) {
        retains |= r->cell[k].retain > 0;
        largest = max_u64(largest, log[versions_of_cell(k)].buffer_bytes);
    }
    uint64_t blocks = (largest + BLOCK_BYTES - 1) / BLOCK_BYTES;
    return retains ? 4 * blocks * BLOCK_BYTES : SEGMENT_BYTES;
}

static int open_versions(struct group_node *n, struct err *e)
{
    const struct group_run *r = n->run;
    struct versions_log_options log[GROUP_CHECK_CELLS_MAX + 1] = {member_views_log_options()};
    for (uint32_t k = 0; k < r->check.cells; k++)
        log[versions_of_cell(k)] = member_log_options(&r->cell[k]);
    if (r->fleet.sim) /* else the run is over */
        n->disk.now_ns = sim_now(r->fleet.sim);
    n->disk.block = disk_sim_block(n->disk.platters, &n->disk.now_ns);
    int rc =
        versions_open(&(struct versions_options){.block = n->disk.block,
                                                 .owner = {.cluster = "simulated", .host = n->host},
                                                 .log = log,
                                                 .logs = r->check.cells + 1,
                                                 .segment_bytes = segment_bytes(r, log),
                                                 .retry_ns = 100 * RUN_US},
                      &n->disk.versions, e);
    if (rc) {
        disk_sim_die(n->disk.platters);
        n->disk.versions = NULL;
    }
    return rc;
}

int group_disk_open(struct group_node *n, struct err *e)
{
    if (!n->run->disks)
        return 0;
    if (n->disk.platters == NULL)
        make_platters(n);
    uint64_t failures = disk_sim_failures(n->disk.platters);
    int rc = open_versions(n, e);
    if (rc && disk_sim_failures(n->disk.platters) > failures) /* that was to come, and is over */
        rc = open_versions(n, e);
    if (rc == 0)
        group_disk_look(n);
    return rc;
}

void group_disk_died(struct group_node *n)
{
    struct group_run *r = n->run;
    if (n->disk.versions == NULL)
        return;
    r->check.result->group.disk_batches += n->disk.batches;
    n->disk.batches = 0;
    disk_sim_die(n->disk.platters);
    versions_close(n->disk.versions);
    n->disk.versions = NULL;
    if (group_is_durable(r) || rng_below(&r->disk_rng, 4)) {
        disk_sim_power_cut(n->disk.platters);
        r->check.result->group.power_cuts++;
    }
    if (r->disk_cramped) /* somebody has made room */
        disk_sim_limit(n->disk.platters, 0);
}

/* ---- what befalls them ---- */

static bool is_drawn(struct group_run *r, uint64_t one_in)
{
    return one_in && !r->fleet.chaos.calm && rng_below(&r->disk_rng, one_in) == 0;
}

void group_disk_step(struct group_node *n)
{
    struct group_run *r = n->run;
    struct versions_status s;
    if (n->disk.versions == NULL)
        return;
    n->disk.now_ns = sim_now(r->fleet.sim);
    versions_status(n->disk.versions, &s);
    n->disk.batches = s.batches;
    const char *why = member_leaves_why(n->member);
    if (why && !n->disk.told) {
        chaos_trace(&r->fleet.chaos, "h%u leaves: %s", n->host, why);
        r->check.result->group.disks_failed++;
    }
    n->disk.told = why != NULL;
    if (is_drawn(r, r->disk_slow_in))
        disk_sim_slow(n->disk.platters,
                      n->disk.slow ? 0 : rng_range(&r->disk_rng, 20, 300) * RUN_US);
    if (is_drawn(r, r->disk_fail_in) && group_may_leave(n)) {
        chaos_trace(&r->fleet.chaos, "h%u's disk fails", n->host);
        disk_sim_fail(n->disk.platters);
    }
}

void group_disk_calm(struct group_run *r)
{
    for (uint32_t q = 0; q < r->fleet.hosts; q++)
        if (r->node[q].disk.platters) {
            disk_sim_slow(r->node[q].disk.platters, 0);
            disk_sim_limit(r->node[q].disk.platters, 0);
        }
}

/* ---- what members are told ---- */

static bool is_kept(const struct group_run *r, uint32_t cell)
{
    return r->cell[cell].mode == CELL_LOGGED || r->cell[cell].mode == CELL_DURABLE;
}

void group_disk_persisted(struct group_node *n, uint32_t cell, uint64_t version)
{
    n->disk.kept[cell].told = version;
    if (version > n->disk.highest[cell])
        n->disk.highest[cell] = version;
}

/* It is out of those cells, or begins anew: nobody counts on what its disk has. */
void group_disk_out(struct group_node *n, uint32_t cells)
{
    for (uint32_t k = 0; k < n->run->check.cells; k++)
        if (cells >> k & 1)
            n->disk.kept[k] = (struct group_kept){.told = 0};
}

/* Durable delivered: it is on the disks of all members of the view, unless that has ended and a trim says so. */
static void check_all_have(struct group_node *n, uint32_t cell, uint64_t vid, uint64_t number)
{
    struct group_run *r = n->run;
    const struct view *v = member_view(n->member);
    if (v == NULL || v->vid != vid || member_wedged(n->member))
        return;
    for (uint64_t rest = v->cell[cell].members; rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        if (r->node[host].disk.highest[cell] <= stamp(vid, number))
            group_check_violated(
                &r->check, "durable", vid,
                "h%u delivers number %llu of cell %u, and h%u has not told that it "
                "is on its disk",
                n->host, (ull)number, cell, host);
    }
}

void group_disk_deliver(struct group_node *n, uint32_t cell, uint64_t vid, uint64_t number)
{
    struct group_kept *k = &n->disk.kept[cell];
    const struct group_host *h = &n->run->check.host[n->host];
    if (!is_kept(n->run, cell) || h->view == NULL)
        return;
    if (n->run->check.durable >> cell & 1)
        check_all_have(n, cell, vid, number);
    if (k->history == NULL && !h->cell[cell].behind) {
        k->history = group_check_history(&n->run->check, h->view, cell);
        k->first = h->cell[cell].state->count;
    }
}

/* ---- looking ---- */

struct seen {
    uint64_t *version;
    uint32_t count, room;
    uint64_t time;
    bool falls;
};

static int see(void *ctx, const struct version *v, const void *payload)
{
    struct seen *s = ctx;
    (void)payload;
    if (v->type != VERSION_MSG)
        return 0;
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->version = grow("versions that are seen", s->version, sizeof(*s->version), s->room);
    }
    s->falls |= s->count > 0 && s->version[s->count - 1] >= v->version;
    s->version[s->count++] = v->version;
    return 0;
}

static bool has(const struct seen *s, uint64_t version)
{
    uint32_t from = 0, to = s->count;
    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (s->version[middle] < version)
            from = middle + 1;
        else
            to = middle;
    }
    return from < s->count && s->version[from] == version;
}

static bool is_delivered(const struct group_history *y, uint64_t from, uint64_t version)
{
    uint64_t to = y->count;
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if (stamp(y->delivery[middle].vid, y->delivery[middle].number) < version)
            from = middle + 1;
        else
            to = middle;
    }
    return from < y->count && stamp(y->delivery[from].vid, y->delivery[from].number) == version;
}

/* Of views that have ended here in order the log has what was delivered in them, and no more. */
static void compare_ended(struct group_node *n, uint32_t cell, const struct seen *s)
{
    const struct group_kept *k = &n->disk.kept[cell];
    bool lost = n->run->check.lost_vid[cell] > stamp_vid(k->told); /* in part, since it was there */
    if (k->history == NULL || k->first >= k->history->count || lost)
        return;
    const struct group_delivery *first = &k->history->delivery[k->first];
    for (uint32_t i = 0; i < s->count; i++)
        if (s->version[i] >= stamp(first->vid, first->number) &&
            stamp_vid(s->version[i]) < stamp_vid(k->told) &&
            !is_delivered(k->history, k->first, s->version[i]))
            group_check_violated(
                &n->run->check, "log", stamp_vid(s->version[i]),
                "number %llu of cell %u is in the log of h%u, and was never delivered",
                (ull)stamp_count(s->version[i]), cell, n->host);
}

/* Of what was delivered anywhere, all that this host had told to be on its disk is there. */
static void compare(struct group_node *n, uint32_t cell, const struct seen *s)
{
    const struct group_kept *k = &n->disk.kept[cell];
    struct group_check *c = &n->run->check;
    if (s->falls)
        group_check_violated(c, "log", 0, "versions fall in the log of cell %u of h%u", cell,
                             n->host);
    /* What came before a state that is in the log may be gone. */
    uint64_t first = n->run->cell[cell].retain == 0 ? 0 : s->count ? s->version[0] : UINT64_MAX;
    for (uint64_t i = k->first; k->history && i < k->history->count; i++) {
        const struct group_delivery *d = &k->history->delivery[i];
        if (stamp(d->vid, d->number) >= k->told)
            break;
        if (stamp(d->vid, d->number) >= first && !has(s, stamp(d->vid, d->number)))
            group_check_violated(c, "log", d->vid,
                                 "number %llu of cell %u is not on the disk of h%u, which told so",
                                 (ull)d->number, cell, n->host);
    }
}

void group_disk_look(struct group_node *n)
{
    const struct versions_owner owner = {.cluster = "simulated", .host = n->host};
    for (uint32_t k = 0; k < n->run->check.cells; k++) {
        struct seen s = {0};
        struct err e = {""};
        if (!is_kept(n->run, k))
            continue;
        int rc = versions_read(n->disk.block, &owner, versions_of_cell(k), 0, 0, see, &s, &e);
        if (rc == 0) {
            compare(n, k, &s);
            compare_ended(n, k, &s);
        } else {
            group_check_violated(&n->run->check, "log", 0, "h%u: %s", n->host, e.text);
        }
        grow_free(s.version);
    }
    group_disk_out(n, UINT32_MAX);
}

bool group_disk_may_be_lost(const struct fleet_node *n)
{
    const struct group_run *r = n->fleet->ctx;
    for (uint32_t q = 0; q < r->fleet.hosts; q++)
        if (!fleet_disk_well(&r->fleet.node[q]))
            return false;
    return r->disk_losable;
}

void group_disk_lost(struct fleet_node *f)
{
    struct group_run *r = f->fleet->ctx;
    struct group_node *n = &r->node[f->node];
    r->disk_losable = false;
    disk_sim_wipe(n->disk.platters);
    group_disk_out(n, UINT32_MAX);
}

void group_disk_fini(struct group_run *r)
{
    for (uint32_t q = 0; q < r->fleet.hosts; q++) {
        struct group_node *n = &r->node[q];
        struct err e = {""};
        if (n->disk.platters == NULL)
            continue;
        disk_sim_power_cut(n->disk.platters);
        if (group_disk_open(n, &e) != 0)
            group_check_violated(&r->check, "log", 0, "h%u: %s", q, e.text);
        else
            disk_sim_die(n->disk.platters);
        versions_close(n->disk.versions);
        disk_sim_close(n->disk.platters);
    }
}
