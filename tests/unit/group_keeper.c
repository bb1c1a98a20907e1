/* Keepers on simulated memory: views begin, go on and are told alike, whoever of the hosts is silent, joins, leaves or crashes.
 *
 * Members are stand-ins: they beat, claim who is silent, wedge when a view is closed, report, and take what view comes. Every scenario runs on
 * memory that outlives its process, as shared memory does, and over connections. */
#include "group/keeper_impl.h"

#include "../planted_fixture.h"
#include "../sim_time.h"
#include "lane/names.h"

#include <stdlib.h>

enum { HOSTS_MAX = 5, CELLS = 2, VIEWS = 64 };
#define US UINT64_C(1000)
#define TICK_NS UINT64_C(500)
#define HEARTBEAT_NS (10 * US)
#define SUSPECT_NS (60 * US)
#define START_NS (1000 * US)
#define LONG_NS (20000 * US) /* by then it happens or never does */

struct host {
    struct mem *mem; /* NULL: it is down */
    struct table *top;
    struct keeper *keeper;
    struct view *view; /* that it has begun; vid 0: none */
    struct cell_report cell[CELLS];
    uint64_t life, beat_ns, lives;
    uint64_t beat[HOSTS_MAX], heard_ns[HOSTS_MAX];
    uint64_t reports; /* that it made */
    bool held;        /* it is not stepped */
    bool mute;        /* it does not report */
    bool hushed;      /* claims nobody */
    bool deaf;        /* takes no view, and its claims stay */
    bool leaves;
    bool put_out;
};

static struct {
    struct sim *sim;
    uint32_t hosts, keepers;
    bool links, view_majority, keepers_stay;
    struct host host[HOSTS_MAX];
    struct view *view[VIEWS]; /* by vid, as it was first told */
    uint64_t views;           /* highest vid */
    const char *violated;
    struct cell_layout layout[CELLS];
    uint32_t keeper[HOSTS_MAX];
} w;

static const uint32_t nodes[HOSTS_MAX] = {0, 1, 2, 3, 4};
static const enum table_kind kinds[TOP_WORDS] = {
    [TOP_LIFE] = TABLE_RISES,  [TOP_BEAT] = TABLE_RISES,   [TOP_VIEW] = TABLE_RISES,
    [TOP_CLOSE] = TABLE_RISES, [TOP_LEAVES] = TABLE_RISES, [TOP_WANTS] = TABLE_RISES,
};

static void violated(const char *property)
{
    w.violated = w.violated ? w.violated : property;
}

/* ---- a host ---- */

static struct keeper_options options_of(uint32_t h)
{
    return (struct keeper_options){
        .mem = w.host[h].mem,
        .hosts = w.hosts,
        .me = h,
        .keepers = w.keeper,
        .keepers_count = w.keepers,
        .keepers_stay = w.keepers_stay,
        .layout = {.cell = w.layout, .cells = CELLS},
        .view_majority = w.view_majority,
        .cells = CELLS,
        .top = w.host[h].top,
        .heartbeat_ns = HEARTBEAT_NS,
        .suspect_ns = SUSPECT_NS,
        .stagger_ns = 10 * US,
        .detach_ns = 100 * US,
        .start_ns = START_NS,
        .seed = 7 + h,
    };
}

static void host_start(uint32_t h)
{
    struct host *p = &w.host[h];
    struct err e = {""};
    enum mem_birth birth;
    uint64_t lives = p->lives;
    *p = (struct host){.mem = sim_node_start(w.sim, h), .lives = lives + 1};
    p->life = (uint64_t)(p->mem->life + 1) << 16;
    uint32_t region = region_number(REGION_MEMBER, 0);
    struct table_spec spec = {.kind = kinds,
                              .nodes = nodes,
                              .words = TOP_WORDS,
                              .ranks = w.hosts,
                              .me = h,
                              .region = region,
                              .lane = LANE_ROW,
                              .common = true};
    if (mem_region_open(p->mem, region, &birth, &e) || table_open(p->mem, &spec, &p->top, &e))
        fail_msg("%s", e.text);
    struct keeper_options o = options_of(h);
    if (keeper_open(&o, &p->keeper, &e) || view_open(w.hosts, CELLS, &p->view, &e))
        fail_msg("%s", e.text);
    table_set(p->top, TOP_LIFE, p->life);
    table_push(p->top);
}

static void host_free(struct host *p)
{
    keeper_close(p->keeper);
    table_close(p->top);
    view_close(p->view);
    p->keeper = NULL;
    p->top = NULL;
    p->view = NULL;
    p->mem = NULL;
}

static void host_crash(uint32_t h)
{
    host_free(&w.host[h]);
    sim_node_crash(w.sim, h, !w.links);
}

/* ---- its member ---- */

static void note_view(const struct view *v)
{
    struct err e = {""};
    if (v->vid == 0 || v->vid >= VIEWS)
        return;
    if (w.view[v->vid] == NULL) {
        assert_int_equal(view_open(w.hosts, CELLS, &w.view[v->vid], &e), 0);
        view_copy(w.view[v->vid], v);
        w.views = v->vid > w.views ? v->vid : w.views;
    } else if (!view_equal(w.view[v->vid], v)) {
        violated("agreement");
    }
}

static void hear(struct host *p, uint32_t me, uint64_t now)
{
    uint64_t claims = 0;
    for (uint32_t h = 0; h < w.hosts; h++) {
        uint64_t beat = table_get(p->top, h, TOP_BEAT);
        if (beat != p->beat[h] || !in_set(p->view->members, h))
            p->heard_ns[h] = now;
        p->beat[h] = beat;
        if (h != me && now - p->heard_ns[h] > SUSPECT_NS && !p->hushed)
            claims |= set_of(h);
    }
    if (claims != table_get(p->top, me, TOP_CLAIMS))
        table_set(p->top, TOP_CLAIMS, claims);
}

static void report(struct host *p, uint32_t me)
{
    const struct view *v = p->view;
    for (uint32_t c = 0; c < CELLS; c++) {
        bool in = in_set(v->cell[c].members, me);
        p->cell[c].has_state = in;
        p->cell[c].senders = in ? set_count(v->cell[c].senders) : 0;
        for (uint32_t i = 0; i < p->cell[c].senders; i++)
            p->cell[c].held[i] = 100 * v->vid + 10 * i + me;
    }
    keeper_report(p->keeper, &(struct report){.vid = v->vid, .life = p->life, .cell = p->cell});
    p->reports++;
}

/* Once for each view: `reports` says for which it was. */
static void wedge(struct host *p, uint32_t me)
{
    bool closed = false;
    for (uint32_t i = 0; i < w.keepers; i++)
        closed |= p->view->vid && table_get(p->top, w.keeper[i], TOP_CLOSE) >= p->view->vid;
    if (closed && !p->mute && p->cell[0].held[GROUP_HOSTS_MAX - 1] != p->view->vid) {
        p->cell[0].held[GROUP_HOSTS_MAX - 1] = p->view->vid;
        report(p, me);
    }
}

static void take_view(struct host *p, uint32_t me)
{
    const struct view *v = keeper_view(p->keeper);
    note_view(v);
    if (v->vid <= p->view->vid || p->deaf)
        return;
    if (v->life[me] == p->life) {
        view_copy(p->view, v);
        table_set(p->top, TOP_VIEW, v->vid);
    } else if (v->seen[me] >= p->life) {
        p->put_out = !p->leaves;
        p->view->vid = p->view->members = 0;
        p->life++;
        if (p->leaves)
            table_set(p->top, TOP_LEAVES, p->life);
        table_push(p->top); /* before LIFE */
        table_set(p->top, TOP_LIFE, p->life);
    }
}

static void host_step(uint32_t h)
{
    struct host *p = &w.host[h];
    uint64_t now = sim_now(w.sim);
    if (now >= p->beat_ns) {
        p->beat_ns = now + HEARTBEAT_NS;
        table_set(p->top, TOP_BEAT, table_get(p->top, h, TOP_BEAT) + 1);
    }
    keeper_post(p->keeper, now);
    table_push(p->top);
    mem_poll(p->mem);
    for (uint32_t q = 0; q < w.hosts; q++)
        table_next(p->top, q);
    keeper_settle(p->keeper, now);
    keeper_renew_open(p->keeper);
    take_view(p, h);
    if (!p->deaf)
        hear(p, h, now);
    wedge(p, h);
    const char *broken = keeper_check(p->keeper);
    if (broken == NULL)
        broken = keeper_broken(p->keeper);
    if (broken && !w.violated) {
        print_message("# host %u: %s\n", h, broken);
        violated(broken);
    }
}

/* ---- the world ---- */

static void world_open(uint32_t hosts, uint32_t keepers, bool links)
{
    struct err e = {""};
    memset(&w, 0, sizeof(w));
    w.hosts = hosts;
    w.keepers = keepers;
    w.links = links;
    for (uint32_t c = 0; c < CELLS; c++)
        w.layout[c] = (struct cell_layout){
            .hosts = UINT64_MAX, .members_min = 1, .senders = UINT64_MAX, .subgroup = c};
    for (uint32_t i = 0; i < keepers; i++)
        w.keeper[i] = i;
    struct sim_options so = {.seed = 5,
                             .nodes_max = hosts,
                             .delay_ns_min = 200,
                             .delay_ns_max = 1600,
                             .tear_per_million = 200000,
                             .lost_after_ns = 100 * US,
                             .links = {.on = links, .judged = links}};
    w.sim = sim_open(&so, &e);
    assert_non_null(w.sim);
}

static const char *world_close(void)
{
    for (uint32_t h = 0; h < w.hosts; h++)
        host_free(&w.host[h]);
    for (uint32_t v = 0; v < VIEWS; v++)
        view_close(w.view[v]);
    sim_close(w.sim);
    return w.violated;
}

static void tick(void)
{
    for (uint32_t h = 0; h < w.hosts; h++)
        if (w.host[h].mem && !w.host[h].held)
            host_step(h);
    sim_time_pass(w.sim, TICK_NS);
}

static void run(uint64_t ns)
{
    for (uint64_t end = sim_now(w.sim) + ns; sim_now(w.sim) < end;)
        tick();
}

#define WAIT(cond)                                                                                 \
    do {                                                                                           \
        uint64_t end_ = sim_now(w.sim) + LONG_NS;                                                  \
        while (!w.violated && !(cond)) {                                                           \
            if (sim_now(w.sim) >= end_) {                                                          \
                print_message("# line %d: not in time: %s\n", __LINE__, #cond);                    \
                violated("liveness");                                                              \
            }                                                                                      \
            tick();                                                                                \
        }                                                                                          \
    } while (0)

#define MUST(property, cond)                                                                       \
    do {                                                                                           \
        if (!w.violated && !(cond)) {                                                              \
            print_message("# line %d: does not hold: %s\n", __LINE__, #cond);                      \
            violated(property);                                                                    \
        }                                                                                          \
    } while (0)

static void start_all(void)
{
    for (uint32_t h = 0; h < w.hosts; h++)
        host_start(h);
}

/* Everybody who is up and not held is in the same view, which has these members and no others. */
static bool all_in(uint64_t members)
{
    uint64_t vid = 0;
    for (uint32_t h = 0; h < w.hosts; h++) {
        const struct host *p = &w.host[h];
        if (p->mem == NULL || p->held || !in_set(members, h))
            continue;
        if (p->view->members != members || (vid && p->view->vid != vid))
            return false;
        vid = p->view->vid;
    }
    return vid > 0;
}

static uint32_t leader(void)
{
    for (uint32_t i = 0; i < w.keepers; i++)
        if (w.host[i].mem && !w.host[i].held && w.host[i].keeper->epoch)
            return i;
    return w.hosts;
}

/* ---- scenarios ---- */

static const char *begins(bool links)
{
    world_open(5, 3, links);
    start_all();
    WAIT(all_in(0x1f));
    MUST("start", w.views == 1 && sim_now(w.sim) < START_NS + LONG_NS);
    for (uint32_t h = 0; h < w.hosts; h++)
        MUST("told", view_equal(keeper_view(w.host[h].keeper), w.view[1]));
    run(1000 * US);
    MUST("quiet", w.views == 1);
    return world_close();
}

/* Two of five never come: the others wait for them for a while, and not for ever. */
static const char *begins_with_who_is_there(bool links)
{
    world_open(5, 3, links);
    host_start(0);
    host_start(4);
    run(2000 * US);
    MUST("majority", w.views == 0); /* one keeper alone decides nothing */
    host_start(1);
    run(START_NS * 3 / 4);
    host_start(2);
    uint64_t from = sim_now(w.sim);
    WAIT(w.views == 1);
    MUST("start", sim_now(w.sim) - from >= START_NS);
    WAIT(all_in(0x17));
    return world_close();
}

static const char *waits_until_the_layout_is_adequate(bool links)
{
    world_open(3, 1, links);
    w.layout[1].members_min = 3;
    host_start(0);
    host_start(1);
    run(2000 * US);
    MUST("layout", w.views == 0);
    MUST("waits", keeper_waits(w.host[0].keeper) &&
                      strstr(keeper_waits(w.host[0].keeper), "cell 1") &&
                      strstr(keeper_waits(w.host[0].keeper), "2 hosts are there"));
    host_start(2);
    WAIT(all_in(0x07));
    MUST("adequate", w.view[1]->adequate);
    return world_close();
}

static const char *puts_out_who_is_silent(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    w.host[3].held = true;
    sim_node_pause(w.sim, 3, true);
    uint64_t from = sim_now(w.sim);
    WAIT(all_in(0x07));
    /* It was claimed after suspect_ns, and the reports of all others are enough then. */
    MUST("in time", sim_now(w.sim) - from < 2 * SUSPECT_NS);
    MUST("trim", w.view[2]->cell[0].trims == 4 && w.view[2]->cell[0].trim[1] == 110);
    w.host[3].held = false;
    sim_node_pause(w.sim, 3, false);
    WAIT(all_in(0x0f));
    MUST("put out", w.host[3].put_out && w.host[3].view->life[3] == (1 << 16 | 1));
    MUST("state", !in_set(w.host[0].view->cell[0].stateful, 3));
    return world_close();
}

/* It runs, and says nothing of the view. */
static const char *puts_out_who_does_not_report(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    w.host[3].mute = true;
    uint64_t from = sim_now(w.sim);
    table_set(w.host[2].top, TOP_WANTS, 1);
    WAIT(w.views == 2);
    MUST("waits", sim_now(w.sim) - from >= SUSPECT_NS);
    MUST("put out", w.view[2]->members == 0x07);
    return world_close();
}

static const char *new_life_comes_in(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    host_crash(3);
    WAIT(all_in(0x07));
    host_start(3);
    WAIT(all_in(0x0f));
    MUST("life", w.host[0].view->life[3] == 2 << 16 && w.host[0].view->seen[3] == 2 << 16);
    /* At once: nobody saw that it was away. */
    host_crash(3);
    host_start(3);
    WAIT(all_in(0x0f) && w.host[0].view->life[3] == 3 << 16);
    return world_close();
}

static const char *joiners_come_together(bool links)
{
    world_open(5, 1, links);
    host_start(0);
    WAIT(all_in(0x01));
    host_start(1);
    run(START_NS / 20);
    host_start(2);
    run(START_NS / 20);
    host_start(3);
    WAIT(all_in(0x0f));
    MUST("together", w.views == 2);
    return world_close();
}

static const char *leaves_in_order(bool links)
{
    world_open(3, 3, links);
    start_all();
    WAIT(all_in(0x07));
    w.host[1].leaves = true;
    table_set(w.host[1].top, TOP_LEAVES, w.host[1].life);
    WAIT(all_in(0x05));
    MUST("leaver", w.view[2]->leavers == 0x02 && w.view[2]->seen[1] == 1 << 16);
    MUST("trim", w.view[2]->cell[0].trim[2] == 120);
    run(2000 * US);
    MUST("gone", w.views == 2 && w.host[1].life == (1 << 16 | 1)); /* it is not let in again */
    return world_close();
}

/* Where the leader's log is. */
static uint64_t applied(void)
{
    struct unit_status s = {.applied = 0};
    if (leader() < w.hosts)
        log_status(keeper_log(w.host[leader()].keeper), &s);
    return s.applied;
}

static uint32_t view_bytes(uint64_t vid)
{
    unsigned char bytes[4096];
    return w.view[vid] ? view_encode(w.view[vid], bytes) : 0;
}

/* Each request for a layout brings one view, which is proposed once. */
static const char *lays_out_once_for_each_request(bool links)
{
    world_open(3, 3, links);
    start_all();
    WAIT(all_in(0x07));
    table_set(w.host[2].top, TOP_WANTS, 1);
    WAIT(w.views == 2);
    WAIT(all_in(0x07));
    run(1000 * US);
    MUST("once", w.views == 2);
    uint64_t before = applied();
    table_set(w.host[2].top, TOP_WANTS, 2);
    WAIT(w.views == 3);
    run(1000 * US);
    MUST("once", w.views == 3);
    MUST("proposed once", applied() - before == entry_size(view_bytes(3)));
    return world_close();
}

/* The leader has closed the view, and dies before it decides on the next. */
static const char *leader_dies_after_close(bool links)
{
    world_open(5, 3, links);
    start_all();
    WAIT(all_in(0x1f));
    uint32_t l = leader();
    table_set(w.host[4].top, TOP_WANTS, 1);
    w.host[4].mute = true; /* so that there is a while between the two */
    WAIT(w.host[l].keeper->closed_ns != 0 && w.host[3].reports == 1);
    run(5 * US);
    MUST("setup", w.views == 1);
    w.host[4].mute = false;
    for (uint32_t h = 0; h < 3; h++)
        w.host[h].keeper->proposed = 2; /* as if it had led before, and proposed what was lost */
    host_crash(l);
    WAIT(all_in(0x1f & ~set_of(l)));
    host_start(l);
    WAIT(all_in(0x1f));
    return world_close();
}

/* The leader dies when it has proposed the next view: it comes or another one does, and nobody has both. */
static const char *leader_dies_after_proposing(bool links)
{
    for (uint32_t i = 0; i < 12 && !w.violated; i++) {
        world_open(5, 3, links);
        start_all();
        WAIT(all_in(0x1f));
        uint32_t l = leader();
        table_set(w.host[4].top, TOP_WANTS, 1);
        WAIT(w.host[l].keeper->proposed == 2);
        sim_time_pass(w.sim, i * 200);
        host_crash(l);
        WAIT(all_in(0x1f & ~set_of(l)));
        host_start(l);
        WAIT(all_in(0x1f));
        if (world_close())
            return w.violated;
    }
    return NULL;
}

static const char *view_majority_waits(bool links)
{
    world_open(5, 5, links);
    w.view_majority = true;
    start_all();
    WAIT(all_in(0x1f));
    /* 2, 3 and 4 run, so that the log goes on, and do not report. */
    for (uint32_t h = 2; h < 5; h++)
        w.host[h].mute = true;
    table_set(w.host[0].top, TOP_WANTS, 1);
    run(3000 * US);
    MUST("majority", w.views == 1);
    MUST("waits", strstr(keeper_waits(w.host[leader()].keeper), "majority"));
    w.host[2].mute = false;
    WAIT(w.views == 2);
    MUST("put out", w.view[2]->members == 0x07);
    return world_close();
}

static const char *vacant_cell_is_reset(bool links)
{
    world_open(4, 3, links);
    w.layout[1].hosts = 0x08;
    start_all();
    WAIT(all_in(0x0f));
    host_crash(3);
    WAIT(all_in(0x07));
    MUST("vacant", w.view[2]->cell[1].state == CELL_VACANT && !w.view[2]->adequate);
    host_start(3);
    WAIT(all_in(0x0f));
    uint32_t l = leader();
    MUST("vacant", w.view[w.views]->cell[1].state == CELL_VACANT);
    MUST("waits", strstr(keeper_waits(w.host[l].keeper), "vacant"));
    MUST("reset", !keeper_reset_cell(w.host[l].keeper, 0));
    MUST("reset", !keeper_reset_cell(w.host[3].keeper, 1));
    MUST("reset", keeper_reset_cell(w.host[l].keeper, 1));
    uint64_t vid = w.views;
    WAIT(w.views == vid + 1);
    MUST("born", w.view[w.views]->cell[1].state == CELL_LIVES &&
                     w.view[w.views]->cell[1].born == vid + 1 && w.view[w.views]->adequate);
    run(1000 * US);
    MUST("once", w.views == vid + 1);
    return world_close();
}

/* A keeper was away for many views: it comes back with the last one, whatever the log has left. */
static const char *keeper_comes_back(bool links)
{
    world_open(4, 3, links);
    w.keepers_stay = true;
    start_all();
    WAIT(all_in(0x0f));
    uint32_t away = (leader() + 1) % 3;
    host_crash(away);
    uint64_t rest = 0x0f & ~set_of(away);
    WAIT(all_in(rest));
    for (uint64_t i = 1; i <= 30; i++) {
        uint64_t vid = w.views;
        table_set(w.host[3].top, TOP_WANTS, i);
        WAIT(w.views == vid + 1 && all_in(rest));
    }
    host_start(away);
    WAIT(all_in(0x0f));
    WAIT(w.host[away].keeper->machine.applied->vid == w.views);
    return world_close();
}

/* A request that comes when the next view is proposed already is not forgotten. */
static const char *lays_out_again(bool links)
{
    world_open(3, 3, links);
    start_all();
    WAIT(all_in(0x07));
    uint32_t l = leader();
    table_set(w.host[l].top, TOP_WANTS, 1);
    WAIT(w.host[l].keeper->proposed == 2);
    table_set(w.host[l].top, TOP_WANTS, 2);
    MUST("setup", w.host[l].keeper->machine.applied->vid == 1);
    WAIT(w.views == 3);
    run(1000 * US);
    MUST("once", w.views == 3);
    return world_close();
}

/* What a member claims counts in the view that it has begun. */
static const char *old_claims_do_not_count(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    w.host[3].deaf = true; /* it reports on this view, and does not come further */
    table_set(w.host[2].top, TOP_WANTS, 1);
    WAIT(w.view[2]);
    table_set(w.host[3].top, TOP_CLAIMS, set_of(0));
    run(500 * US);
    MUST("claims", w.views == 2 && w.view[2]->members == 0x0f);
    w.host[3].deaf = false;
    WAIT(all_in(0x0f));
    return world_close();
}

/* Half a report is none, even if the rest of the one before would fit. */
static const char *half_a_report(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    table_set(w.host[2].top, TOP_WANTS, 1);
    WAIT(w.views == 2 && all_in(0x0f));
    struct host *p = &w.host[3];
    p->mute = true;
    report(p, 3);
    struct notice_writer *out = &p->keeper->report_out;
    notice_end(out, report_encode(&(struct report){2, p->life, p->cell}, 1, notice_begin(out)));
    table_set(w.host[2].top, TOP_WANTS, 2);
    WAIT(w.views == 3);
    MUST("put out", w.view[3]->members == 0x07);
    return world_close();
}

/* A host that only one keeper reaches hears that keeper's next life. */
static const char *new_life_of_a_keeper_is_heard(bool links)
{
    world_open(4, 3, links);
    start_all();
    for (uint32_t h = 0; h < w.hosts; h++)
        w.host[h].hushed = true;
    WAIT(all_in(0x0f));
    sim_cut(w.sim, 1, 3, true);
    sim_cut(w.sim, 2, 3, true);
    host_crash(0);
    run(100 * US);
    host_start(0);
    WAIT(keeper_view(w.host[3].keeper)->life[0] == 2 << 16);
    return world_close();
}

/* Nobody claims anybody: the leader itself sees that a member is dead, and waits for no report of it. */
static const char *sees_deaths(bool links)
{
    world_open(4, 3, links);
    start_all();
    for (uint32_t h = 0; h < w.hosts; h++)
        w.host[h].hushed = true;
    WAIT(all_in(0x0f));
    host_crash(3);
    WAIT(mem_dead(w.host[leader()].mem, 3));
    uint64_t from = sim_now(w.sim);
    WAIT(all_in(0x07));
    MUST("at once", sim_now(w.sim) - from < SUSPECT_NS / 2);
    return world_close();
}

/* The same for a member that shows another life than it was let in with. */
static const char *sees_lives(bool links)
{
    world_open(5, 3, links); /* one is away, so that who joins waits for it */
    for (uint32_t h = 0; h < 4; h++) {
        host_start(h);
        w.host[h].hushed = true;
    }
    WAIT(all_in(0x0f));
    uint64_t from = sim_now(w.sim);
    w.host[3].view->vid = 0;
    table_set(w.host[3].top, TOP_LIFE, ++w.host[3].life);
    WAIT(w.views == 2);
    MUST("at once", sim_now(w.sim) - from < SUSPECT_NS / 2);
    WAIT(all_in(0x0f));
    MUST("life", w.host[0].view->life[3] == (1 << 16 | 1));
    return world_close();
}

/* It came, and stopped before it was let in. */
static const char *who_stops_is_not_let_in(bool links)
{
    world_open(5, 3, links);
    for (uint32_t h = 0; h < 3; h++)
        host_start(h);
    WAIT(all_in(0x07));
    host_start(3);
    WAIT(w.host[leader()].keeper->there == 0x08);
    MUST("setup", w.views == 1);
    w.host[3].held = true;
    sim_node_pause(w.sim, 3, true);
    run(2000 * US);
    MUST("joins", w.views == 1);
    w.host[3].held = false;
    sim_node_pause(w.sim, 3, false);
    WAIT(all_in(0x0f));
    return world_close();
}

/* A host that no keeper reaches is put out, and hears of it when it is reached. */
static const char *cut_off_host_hears_later(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    for (uint32_t h = 0; h < 3; h++) {
        sim_cut(w.sim, h, 3, true);
        sim_cut(w.sim, 3, h, true);
    }
    WAIT(all_in(0x07));
    run(1000 * US);
    MUST("cut off", w.host[3].view->vid == 1);
    sim_calm(w.sim);
    WAIT(all_in(0x0f));
    MUST("put out", w.host[3].put_out);
    return world_close();
}

/* The two keepers lose each other when a view is proposed: it is lost, or not. Whoever leads then decides again. */
static const char *proposal_is_lost(bool links)
{
    world_open(3, 2, links);
    start_all();
    WAIT(all_in(0x07));
    uint32_t l = leader();
    uint64_t epoch = w.host[l].keeper->epoch;
    table_set(w.host[2].top, TOP_WANTS, 1);
    WAIT(w.host[l].keeper->proposed == 2);
    sim_cut(w.sim, 0, 1, true);
    sim_cut(w.sim, 1, 0, true);
    for (uint32_t h = 0; h < w.hosts; h++)
        w.host[h].hushed = true;
    run(500 * US);
    MUST("majority", w.views == 1);
    sim_calm(w.sim);
    WAIT(all_in(0x07) && w.views >= 2);
    MUST("setup", leader() < w.hosts && w.host[leader()].keeper->epoch != epoch);
    return world_close();
}

/* A leader that lost its place and has it again gives everybody time to report again. */
static const char *leads_again(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    uint32_t l = leader();
    for (uint32_t h = 0; h < w.hosts; h++)
        w.host[h].hushed = w.host[h].mute = true;
    table_set(w.host[3].top, TOP_WANTS, 1);
    WAIT(w.host[l].keeper->closed_ns);
    w.host[l].held = true;
    WAIT(leader() < w.hosts);
    w.host[leader()].held = true;
    w.host[l].held = w.host[l].mute = false;
    WAIT(leader() == l && w.host[l].reports == 1);
    run(10 * US);
    MUST("waits", w.views == 1);
    w.host[3].mute = false;
    WAIT(w.views == 2);
    MUST("all", w.view[2]->members == (set_of(l) | set_of(3)));
    return world_close();
}

/* The leader says when it wants to be stepped, beyond what its log wants. */
static const char *says_when(bool links)
{
    world_open(5, 1, links);
    for (uint32_t h = 0; h < 3; h++)
        host_start(h);
    WAIT(all_in(0x07));
    struct keeper *k = w.host[0].keeper;
    run(500 * US);
    uint64_t now = sim_now(w.sim) + HEARTBEAT_NS;
    keeper_settle(k, now);
    MUST("sleeps", keeper_lead_next_ns(k) == UINT64_MAX);
    keeper_settle(k, now + 1); /* it has just looked, and does not look again */
    MUST("looks", keeper_lead_next_ns(k) == k->look_ns && k->look_ns < now + HEARTBEAT_NS / 32);
    host_start(3);
    WAIT(k->there == 0x08);
    MUST("joins", keeper_lead_next_ns(k) <= k->there_ns + START_NS / 10);
    WAIT(all_in(0x0f));
    w.host[2].mute = true;
    table_set(w.host[1].top, TOP_WANTS, 1);
    WAIT(k->closed_ns && w.host[3].reports == 1);
    run(5 * US);
    MUST("closed", keeper_lead_next_ns(k) <= k->closed_ns + SUSPECT_NS);
    return world_close();
}

/* What follows on a view that the log does not have. */
static const char *view_after_next(bool links)
{
    world_open(3, 3, links);
    start_all();
    WAIT(all_in(0x07));
    struct keeper *k = w.host[leader()].keeper;
    unsigned char bytes[4096];
    view_copy(k->next, w.view[1]);
    k->next->vid = 3;
    bool noted = !w.violated && log_note(keeper_log(k), bytes, view_encode(k->next, bytes));
    MUST("setup", noted);
    run(500 * US);
    MUST("order", w.views == 1);
    return world_close();
}

/* Somebody proposes a second view of the same number. */
static const char *second_view_of_a_number(bool links)
{
    world_open(3, 3, links);
    start_all();
    WAIT(all_in(0x07));
    struct keeper *k = w.host[leader()].keeper;
    unsigned char bytes[4096];
    view_copy(k->next, w.view[1]);
    k->next->cell[0].senders = 0;
    bool noted = !w.violated && log_note(keeper_log(k), bytes, view_encode(k->next, bytes));
    MUST("setup", noted);
    run(500 * US);
    for (uint32_t i = 0; i < w.keepers; i++)
        MUST("agreement", view_equal(w.host[i].keeper->machine.applied, w.view[1]));
    return world_close();
}

static const char *not_a_view_in_the_log(bool links)
{
    world_open(1, 1, links);
    start_all();
    WAIT(all_in(0x01));
    MUST("setup", log_note(keeper_log(w.host[0].keeper), "no view", 8));
    run(100 * US);
    const char *broken = keeper_broken(w.host[0].keeper);
    MUST("stops", broken && strstr(broken, "no view"));
    if (w.violated && strstr(w.violated, "no view"))
        w.violated = NULL; /* as it should */
    return world_close();
}

/* Nothing but heartbeats when nothing happens. */
static const char *sleeps(bool links)
{
    world_open(4, 3, links);
    start_all();
    WAIT(all_in(0x0f));
    run(2000 * US);
    for (uint32_t h = 0; h < w.hosts; h++) {
        struct keeper *k = w.host[h].keeper;
        host_step(h);
        MUST("idle", keeper_settle(k, sim_now(w.sim) + HEARTBEAT_NS) == 0);
        MUST("sleeps", keeper_next_ns(k) >= log_next_ns(w.host[0].keeper->log) ||
                           keeper_next_ns(k) > sim_now(w.sim));
    }
    MUST("sleeps", keeper_next_ns(w.host[3].keeper) == UINT64_MAX);
    return world_close();
}

#define ON_BOTH(scenario)                                                                          \
    static void keeper__##scenario(void **state)                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        const char *at = scenario(false);                                                          \
        if (at == NULL)                                                                            \
            at = scenario(true);                                                                   \
        if (at)                                                                                    \
            fail_msg("%s", at);                                                                    \
    }
ON_BOTH(begins)
ON_BOTH(begins_with_who_is_there)
ON_BOTH(waits_until_the_layout_is_adequate)
ON_BOTH(puts_out_who_is_silent)
ON_BOTH(puts_out_who_does_not_report)
ON_BOTH(new_life_comes_in)
ON_BOTH(joiners_come_together)
ON_BOTH(leaves_in_order)
ON_BOTH(lays_out_once_for_each_request)
ON_BOTH(leader_dies_after_close)
ON_BOTH(leader_dies_after_proposing)
ON_BOTH(view_majority_waits)
ON_BOTH(vacant_cell_is_reset)
ON_BOTH(keeper_comes_back)
ON_BOTH(lays_out_again)
ON_BOTH(old_claims_do_not_count)
ON_BOTH(half_a_report)
ON_BOTH(new_life_of_a_keeper_is_heard)
ON_BOTH(sees_lives)
ON_BOTH(who_stops_is_not_let_in)
ON_BOTH(cut_off_host_hears_later)
ON_BOTH(proposal_is_lost)
ON_BOTH(says_when)
ON_BOTH(view_after_next)
ON_BOTH(not_a_view_in_the_log)
ON_BOTH(sleeps)

static void keeper__sees_deaths(void **state)
{
    (void)state;
    assert_null(sees_deaths(false)); /* over connections nobody knows at once */
}

static int load(struct view_machine *m, const unsigned char *bytes, uint32_t n, bool whole)
{
    const struct state_ops *o = view_machine.state;
    int rc = o->load_open(m, n);
    for (uint32_t at = 0; rc == 0 && at < n; at += 8)
        rc = o->load_next(m, bytes + at, 8);
    return rc == 0 ? o->load_close(m, whole) : rc;
}

/* The state of the view log: one that breaks off changes nothing, one that is no view is refused. */
static void keeper__saves_and_loads_its_view(void **state)
{
    (void)state;
    static unsigned char bytes[4096];
    world_open(3, 1, false);
    start_all();
    WAIT(all_in(0x07));
    struct view_machine *m = &w.host[0].keeper->machine;
    const struct state_ops *o = view_machine.state;
    uint64_t size;
    uint32_t n = 0;
    void *save = o->save_open(m, &size);
    for (int more; (more = o->save_next(m, save, bytes + n, 24)) > 0; n += (uint32_t)more)
        assert_true(more <= 24);
    o->save_close(m, save);
    assert_true(n == size && n == view_bytes(1));
    m->applied->vid = 0;
    assert_int_equal(load(m, bytes, n - 8, false), 0);
    assert_int_equal(m->applied->vid, 0);
    assert_true(load(m, bytes, n - 8, true) < 0);
    assert_true(load(m, bytes, m->bytes_max + 8, true) < 0);
    assert_int_equal(load(m, bytes, n, true), 0);
    assert_true(view_equal(m->applied, w.view[1]));
    assert_null(world_close());
}

static void keeper__leads_again(void **state)
{
    (void)state;
    assert_null(leads_again(false)); /* the memory of who is held promises */
}

static void keeper__second_view_of_a_number_does_not_count(void **state)
{
    (void)state;
    assert_null(second_view_of_a_number(false));
    FINDS(group_view_twice, second_view_of_a_number(false), "agreement");
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeper__begins),
        cmocka_unit_test(keeper__begins_with_who_is_there),
        cmocka_unit_test(keeper__waits_until_the_layout_is_adequate),
        cmocka_unit_test(keeper__puts_out_who_is_silent),
        cmocka_unit_test(keeper__puts_out_who_does_not_report),
        cmocka_unit_test(keeper__new_life_comes_in),
        cmocka_unit_test(keeper__joiners_come_together),
        cmocka_unit_test(keeper__leaves_in_order),
        cmocka_unit_test(keeper__lays_out_once_for_each_request),
        cmocka_unit_test(keeper__leader_dies_after_close),
        cmocka_unit_test(keeper__leader_dies_after_proposing),
        cmocka_unit_test(keeper__view_majority_waits),
        cmocka_unit_test(keeper__vacant_cell_is_reset),
        cmocka_unit_test(keeper__keeper_comes_back),
        cmocka_unit_test(keeper__lays_out_again),
        cmocka_unit_test(keeper__old_claims_do_not_count),
        cmocka_unit_test(keeper__half_a_report),
        cmocka_unit_test(keeper__new_life_of_a_keeper_is_heard),
        cmocka_unit_test(keeper__saves_and_loads_its_view),
        cmocka_unit_test(keeper__sees_lives),
        cmocka_unit_test(keeper__who_stops_is_not_let_in),
        cmocka_unit_test(keeper__cut_off_host_hears_later),
        cmocka_unit_test(keeper__proposal_is_lost),
        cmocka_unit_test(keeper__leads_again),
        cmocka_unit_test(keeper__says_when),
        cmocka_unit_test(keeper__view_after_next),
        cmocka_unit_test(keeper__sees_deaths),
        cmocka_unit_test(keeper__not_a_view_in_the_log),
        cmocka_unit_test(keeper__sleeps),
        cmocka_unit_test(keeper__second_view_of_a_number_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
