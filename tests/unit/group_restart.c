/* Going on from disks: hosts that deliver a durable cell, lose power one by one and all at once, lose a disk, and come back in any order. The next view
 * is always what decide() says; what is modelled is the rest, as weakly as it may be. Whatever was delivered once is delivered by everybody, at the
 * same place; and planted mistakes are found. */
#include "group/decide.h"
#include "group/restart.h"

#include "../planted_fixture.h"
#include "base/rng.h"

enum { HOSTS_MAX = 5, MESSAGES = 512, VIEWS = 256, STEPS = 1500 };

struct item {
    uint64_t version, message;
};

struct log {
    struct item item[MESSAGES];
    uint32_t count;
    uint64_t reach;
};

struct host {
    bool up, begun, wedged, copied;
    uint64_t life, made,
        vid; /* made: life in which its disk was new; vid: of the view that it has begun */
    struct log disk, memory;
    uint32_t delivered;
    uint64_t persisted[HOSTS_MAX]; /* of others, as it knows: counts in its view */
    struct report report;
    struct cell_report told;
};

static struct world {
    struct rng r;
    uint32_t hosts, messages, all;
    struct host host[HOSTS_MAX];
    struct view *view[VIEWS];
    uint64_t vid, sent[VIEWS][MESSAGES];
    uint32_t sents[VIEWS];
    uint64_t order[MESSAGES];
    struct decide_input in;
    struct cell_layout cell;
    struct layout_options layout;
    unsigned char kept[1];
    bool disk_lost;
    const char *found;
    uint32_t restarts, deliveries;
} w;

static struct view *last(void)
{
    return w.view[w.vid];
}

static void open_world(uint64_t seed)
{
    struct err e = {""};
    for (uint32_t i = 0; i < VIEWS; i++)
        view_close(w.view[i]);
    memset(&w, 0, sizeof(w));
    rng_init(&w.r, seed);
    w.hosts = (uint32_t)rng_range(&w.r, 3, HOSTS_MAX);
    w.cell = (struct cell_layout){
        .hosts = set_all(w.hosts), .members_min = 2, .senders = UINT64_MAX, .overlap = true};
    w.layout = (struct layout_options){.cell = &w.cell, .cells = 1};
    assert_int_equal(view_open(w.hosts, 1, &w.view[0], &e), 0);
    w.kept[0] = KEPT_ALL;
    for (uint32_t h = 0; h < w.hosts; h++)
        w.host[h] = (struct host){.up = true, .life = 1 << 16, .made = 1 << 16};
}

/* ---- what a host delivers ---- */

static void deliver(struct host *h, uint32_t upto)
{
    for (; h->delivered < upto && w.found == NULL; h->delivered++) {
        uint64_t message = h->memory.item[h->delivered].message;
        if (h->delivered < w.all && w.order[h->delivered] != message)
            w.found = "order";
        if (h->delivered >= w.all)
            w.order[w.all++] = message;
        w.deliveries++;
    }
}

static uint64_t count_in(const struct host *h, const struct log *l)
{
    return stamp_vid(l->reach) == h->vid ? stamp_count(l->reach) : 0;
}

static void cut(struct log *l, uint64_t version)
{
    while (l->count && l->item[l->count - 1].version >= version)
        l->count--;
}

static void begin(struct host *h, uint32_t me, uint64_t vid)
{
    const struct view_cell *c = &w.view[vid]->cell[0];
    h->vid = vid;
    h->begun = true;
    h->wedged = false;
    memset(h->persisted, 0, sizeof(h->persisted));
    if (h->copied) {
        h->memory.reach = stamp(vid, 0);
        return;
    }
    h->delivered = 0;
    h->copied = in_set(c->stateful, me);
    if (!h->copied)
        return;
    if (c->born == vid)
        h->disk = (struct log){.count = 0};
    cut(&h->disk, c->cut);
    h->disk.reach = stamp(vid, 0);
    h->memory = h->disk;
    deliver(h, h->memory.count);
}

static void out(struct host *h)
{
    h->begun = h->wedged = h->copied = false;
    h->vid = 0;
    h->delivered = 0;
}

/* ---- the steps of a host ---- */

static void receive(struct host *h)
{
    uint64_t k = stamp_count(h->memory.reach);
    if (h->wedged || !h->copied || k >= w.sents[h->vid] || h->memory.count == MESSAGES)
        return;
    h->memory.item[h->memory.count++] = (struct item){stamp(h->vid, k), w.sent[h->vid][k]};
    h->memory.reach++;
}

static void send_one(const struct host *h)
{
    if (h->wedged || w.messages == MESSAGES || h->vid != w.vid || !w.view[w.vid]->adequate)
        return;
    w.sent[h->vid][w.sents[h->vid]++] = ++w.messages;
}

static void hear(struct host *h, uint32_t from)
{
    const struct host *o = &w.host[from];
    if (o->begun && o->copied && o->vid == h->vid && o->life == w.view[h->vid]->life[from])
        h->persisted[from] = count_in(o, &o->disk);
}

static void deliver_stable(struct host *h, uint32_t me)
{
    uint64_t least = count_in(h, &h->disk);
    if (h->wedged || !h->copied)
        return;
    for (uint64_t rest = w.view[h->vid]->cell[0].members & ~set_of(me); rest; rest = set_rest(rest))
        if (h->persisted[set_first(rest)] < least)
            least = h->persisted[set_first(rest)];
    uint32_t before = 0;
    while (before < h->memory.count && stamp_vid(h->memory.item[before].version) < h->vid)
        before++;
    deliver(h, before + (uint32_t)least);
}

static void copy_from(struct host *h, const struct host *o)
{
    if (h->copied || h->wedged || !o->begun || !o->copied || o->wedged || o->vid != h->vid)
        return;
    h->memory = o->memory;
    h->memory.count = o->delivered;
    uint64_t of_view = 0;
    for (uint32_t i = 0; i < h->memory.count; i++)
        of_view += stamp_vid(h->memory.item[i].version) == h->vid;
    h->memory.reach = stamp(h->vid, of_view);
    h->disk = h->memory;
    h->delivered = h->memory.count;
    h->copied = true;
}

/* What is here goes to disk, and then the keepers hear how much that is. */
static void wedge(struct host *h, uint32_t me)
{
    const struct view_cell *c = &w.view[h->vid]->cell[0];
    if (h->wedged)
        return;
    h->wedged = true;
    if (h->copied)
        h->disk = h->memory;
    uint64_t count = h->copied ? count_in(h, &h->disk) : 0;
    h->told = (struct cell_report){.has_state = h->copied, .senders = set_count(c->senders)};
    if (!in_set(c->members, me))
        h->told.senders = 0;
    for (uint32_t i = 0; i < h->told.senders; i++)
        h->told.held[i] = count > i ? (count - i - 1) / h->told.senders + 1 : 0;
    h->report = (struct report){.vid = h->vid, .life = h->life, .cell = &h->told};
}

/* The next view has come. */
static void learn(struct host *h, uint32_t me)
{
    uint64_t vid = h->begun && h->wedged ? h->vid + 1 : w.vid;
    if (vid > w.vid || (h->begun && !h->wedged && h->vid == w.vid))
        return;
    const struct view *v = w.view[vid];
    if (v->vid == 0 || (!h->begun && v->life[me] != h->life)) {
        h->life += v->seen[me] >= h->life; /* let in, put out, and never knew */
        return;
    }
    if (h->begun && (!h->wedged || v->life[me] != h->life)) {
        out(h);
        h->life++;
        return;
    }
    if (h->begun && h->copied) {
        uint64_t end = 0;
        for (uint32_t i = 0; i < v->cell[0].trims; i++)
            if (v->cell[0].trim[i] && (v->cell[0].trim[i] - 1) * v->cell[0].trims + i + 1 > end)
                end = (v->cell[0].trim[i] - 1) * v->cell[0].trims + i + 1;
        cut(&h->memory, stamp(h->vid, end));
        h->disk = h->memory;
        deliver(h, h->memory.count);
    }
    begin(h, me, vid);
}

static void crash(struct host *h)
{
    out(h);
    h->up = false;
}

static void lose_power(void)
{
    for (uint32_t i = 0; i < w.hosts; i++)
        crash(&w.host[i]);
    if (w.disk_lost || rng_below(&w.r, 3))
        return;
    w.disk_lost = true;
    struct host *h = &w.host[rng_below(&w.r, w.hosts)];
    h->disk = (struct log){.count = 0};
    h->made = ((h->life >> 16) + 1) << 16;
}

/* ---- keepers ---- */

static uint64_t reaches[HOSTS_MAX][1];

static void decide_next(bool hurried)
{
    struct view *now = last(), *next;
    struct err e = {""};
    if (w.vid + 1 == VIEWS)
        return;
    w.in = (struct decide_input){
        .now = now, .layout = &w.layout, .view_majority = true, .kept = w.kept};
    bool changes = false;
    for (uint32_t i = 0; i < w.hosts; i++) {
        struct host *h = &w.host[i];
        if (!h->up || (hurried && rng_below(&w.r, 7) == 0)) {
            changes |= in_set(now->members, i);
            continue;
        }
        bool in = h->begun && h->vid == now->vid;
        changes |= !in || h->wedged;
        w.in.life[i] = h->life;
        if (in && h->wedged)
            w.in.report[i] = &h->report;
        reaches[i][0] = h->disk.reach;
        if (!h->begun)
            w.in.reach[i] = reaches[i];
        w.in.made[i] = h->made;
    }
    if (!changes)
        return;
    assert_int_equal(view_open(w.hosts, 1, &next, &e), 0);
    bool ends = now->vid == 0 || decide_ends(&w.in, decide_reported(&w.in));
    const char *why = decide(&w.in, next);
    if (why || (!ends && next->cell[0].state == CELL_VACANT)) {
        view_close(next);
        return;
    }
    w.restarts += !ends;
    w.view[++w.vid] = next;
}

static void step(void)
{
    uint32_t i = (uint32_t)rng_below(&w.r, w.hosts);
    struct host *h = &w.host[i];
    if (rng_below(&w.r, 250) == 0) {
        lose_power();
        return;
    }
    if (!h->up) {
        if (rng_below(&w.r, 3) == 0) {
            h->up = true;
            h->life = ((h->life >> 16) + 1) << 16;
        }
        return;
    }
    uint64_t what = rng_below(&w.r, 100);
    if (what < 1)
        crash(h);
    else if (what < 8)
        decide_next(true);
    else if (what < 30)
        learn(h, i);
    if (!h->up || !h->begun)
        return;
    if (what >= 30 && what < 45)
        send_one(h);
    else if (what < 60)
        receive(h);
    else if (what < 68 && h->copied && !h->wedged)
        h->disk = h->memory;
    else if (what < 80)
        hear(h, (uint32_t)rng_below(&w.r, w.hosts));
    else if (what < 90)
        deliver_stable(h, i);
    else if (what < 94)
        copy_from(h, &w.host[rng_below(&w.r, w.hosts)]);
    else if (what < 96)
        wedge(h, i);
}

/* Everybody is back, and a message more comes behind all that there was. */
static void end_well(void)
{
    for (uint32_t round = 0; round < 60 && w.found == NULL; round++) {
        bool open = true;
        for (uint32_t i = 0; i < w.hosts; i++) {
            struct host *h = &w.host[i];
            if (!h->up)
                h->life = ((h->life >> 16) + 1) << 16;
            h->up = true;
            learn(h, i);
            open &= h->begun && !h->wedged && h->vid == w.vid;
            if (h->begun && h->vid == w.vid &&
                (round < 20 || w.view[w.vid]->members != set_all(w.hosts)))
                wedge(h, i);
        }
        if (!open) {
            decide_next(false);
            continue;
        }
        for (uint32_t i = 0; i < w.hosts; i++)
            for (uint32_t k = 0; k < w.hosts; k++)
                copy_from(&w.host[i], &w.host[k]);
        send_one(&w.host[0]);
        for (uint32_t k = 0; k < 2 * w.hosts; k++) {
            struct host *h = &w.host[k % w.hosts];
            for (uint32_t m = 0; m < MESSAGES; m++)
                receive(h);
            h->disk = h->copied ? h->memory : h->disk;
        }
        for (uint32_t i = 0; i < w.hosts; i++) {
            for (uint32_t k = 0; k < w.hosts; k++)
                hear(&w.host[i], k);
            deliver_stable(&w.host[i], i);
        }
    }
}

static const char *run(uint64_t seed)
{
    open_world(seed);
    for (uint32_t i = 0; i < STEPS && w.found == NULL; i++)
        step();
    end_well();
    for (uint32_t i = 0; i < w.hosts && w.found == NULL; i++)
        if (w.host[i].delivered < w.all)
            w.found = "lost";
    return w.found;
}

static void restart__nothing_that_was_delivered_is_lost(void **state)
{
    uint32_t restarts = 0, deliveries = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        const char *found = run(seed);
        if (found)
            fail_msg("seed %llu: %s", (unsigned long long)seed, found);
        restarts += w.restarts;
        deliveries += w.deliveries;
    }
    printf("# %u restarts, %u deliveries\n", restarts, deliveries);
    assert_true(restarts > 3000 && deliveries > 10000);
}

static void finds(enum planted bug, const char *name)
{
    const char *found = NULL;
    uint64_t seed = 0;
    planted_bug = bug;
    for (; seed < 3000 && found == NULL; seed++)
        found = run(seed);
    planted_bug = PLANTED_none;
    if (found == NULL)
        fail_msg("nothing finds %s", name);
    printf("# %s: '%s' in seed %llu\n", name, found, (unsigned long long)seed - 1);
}

static void restart__planted_mistakes_are_found(void **state)
{
    (void)state;
    finds(PLANTED_group_restart_commit, "group_restart_commit");
    finds(PLANTED_group_restart_older, "group_restart_older");
    finds(PLANTED_group_restart_old_log, "group_restart_old_log");
}

/* ---- logs that are written behind ---- */

static uint64_t behind_reach[3][1];

/* View 11 of three hosts and a cell that is vacant: born in view 1, it went on from disks in view 9, with the first seven messages of view 4; host 1 was in it last. */
static struct view *open_behind(void)
{
    struct view *now;
    struct err e = {""};
    memset(&w.in, 0, sizeof(w.in));
    assert_int_equal(view_open(3, 1, &now, &e), 0);
    now->vid = 11;
    now->cell[0] = (struct view_cell){
        .state = CELL_VACANT, .born = 1, .last = 9, .cut = stamp(4, 7), .members_last = set_of(1)};
    w.kept[0] = KEPT_SOME;
    w.in.now = now;
    w.in.kept = w.kept;
    return now;
}

static void is_back(uint32_t host, uint64_t reach)
{
    behind_reach[host][0] = reach;
    w.in.reach[host] = behind_reach[host];
    w.in.life[host] = 2 << 16;
}

/* Host 0 was sent a state in view 5, and host 2 has messages of view 8: both have what the cell went on without. */
static void restart__a_log_with_more_than_the_cell_went_on_with_does_not_count(void **state)
{
    (void)state;
    struct view *now = open_behind();
    is_back(0, stamp(5, 0));
    is_back(1, stamp(4, 7));
    is_back(2, stamp(8, 37));
    struct restart_from from = restart_from(&w.in, 0, 0);
    assert_int_equal(from.hosts, set_of(1));
    assert_int_equal(from.cut, stamp(4, 7));
    is_back(2, stamp(9, 0)); /* it came in since */
    from = restart_from(&w.in, 0, 0);
    assert_int_equal(from.hosts, set_of(2));
    assert_int_equal(from.cut, stamp(9, 0));
    view_close(now);
}

/* Then it waits for one that does. */
static void restart__a_cell_is_not_new_because_no_log_counts(void **state)
{
    (void)state;
    struct view *now = open_behind();
    struct view_cell next = {.state = CELL_VACANT};
    now->cell[0].members_last = set_of(0) | set_of(2);
    is_back(0, stamp(5, 0));
    is_back(2, stamp(8, 37));
    assert_false(restart_cell(&w.in, 0, set_all(3), 0, &next));
    assert_int_equal(next.state, CELL_VACANT);
    is_back(1, stamp(4, 2));
    assert_true(restart_cell(&w.in, 0, set_all(3), 0, &next));
    assert_int_equal(next.state, CELL_LIVES);
    assert_int_equal(next.stateful, set_of(1));
    view_close(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart__a_log_with_more_than_the_cell_went_on_with_does_not_count),
        cmocka_unit_test(restart__a_cell_is_not_new_because_no_log_counts),
        cmocka_unit_test(restart__nothing_that_was_delivered_is_lost),
        cmocka_unit_test(restart__planted_mistakes_are_found),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
