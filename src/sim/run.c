#include "sim/run.h"

#include "base/hash.h"
#include "base/planted.h"
#include "sim/hang.h"

enum {
    LOOK_EVERY = 256, /* events between two looks at whether all is delivered */
    HANGS_ONE_IN = 8, /* runs that have a phase of it */
    LINKS_STREAM = 7,
    STATE_STREAM = 8,
    ORIGIN_STREAM = 9,
    JUDGED_STREAM = 14,
    DISK_STREAM = 15,
    VOTES_STREAM = 16,
    FRAME_BYTES_MAX = 16384,
    CRAMPED_ONE_IN = 6, /* runs with disks that have little room */
    SEGMENTS_MORE = 3,
};

void run_violated(struct run_result *r, const char *property, uint64_t pos, const char *fmt,
                  va_list ap)
{
    if (r->property != NULL)
        return;
    r->property = property;
    r->position = pos;
    vsnprintf(r->text, sizeof(r->text), fmt, ap);
}

static enum sim_flaw flaw_planted(void)
{
    return PLANTED(tcp_unjudged)      ? SIM_UNJUDGED
           : PLANTED(tcp_done_early)  ? SIM_DONE_EARLY
           : PLANTED(tcp_raise_early) ? SIM_RAISE_EARLY
           : PLANTED(tcp_revives)     ? SIM_DENIED_REVIVES
           : PLANTED(tcp_old_lands)   ? SIM_OLD_LANDS
           : PLANTED(tcp_mistaken)    ? SIM_ANSWER_MISTAKEN
                                      : SIM_SOUND;
}

/* Does the owner judge? If nothing is said about memory: in half of the runs that have connections. All else that is
 * drawn for these is the same either way. */
static void draw_judged(const struct run_options *opt, struct sim_links *l)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(opt->seed, JUDGED_STREAM));
    l->judged = rng_below(g, 2);
    if (opt->memory != RUN_MEMORY_DRAWN)
        l->judged = opt->memory == RUN_MEMORY_TCP;
    if (!l->judged)
        return;
    l->passive = l->untold = false;
    /* Rings are small here, and so are the frames of long puts, mostly. */
    l->frame_bytes = rng_below(g, 3) ? 8 * (uint32_t)rng_range(g, 1, 64) : FRAME_BYTES_MAX;
    l->flaw = flaw_planted();
}

/* Connections are drawn from a stream of their own: the other draws of a seed are the same without them. */
static void draw_links(const struct run_options *opt, struct sim_options *so)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(opt->seed, LINKS_STREAM));
    so->links.on = rng_below(g, 2);
    if (opt->memory != RUN_MEMORY_DRAWN)
        so->links.on = opt->memory != RUN_MEMORY_SHM;
    if (!so->links.on)
        return;
    so->links.untold = PLANTED(raise_untold);
    so->links.passive = rng_below(g, 3) == 0;
    so->links.late_per_million = rng_below(g, 2) ? (uint32_t)rng_below(g, 100000) : 0;
    so->links.late_ns_max = rng_below(g, so->lost_after_ns);
    so->links.queue_max = rng_below(g, 3) ? (uint32_t)rng_range(g, 8, 100) : 0;
    draw_judged(opt, &so->links);
}

enum run_memory run_memory_of(const struct sim_options *so)
{
    if (!so->links.on)
        return RUN_MEMORY_SHM;
    return so->links.judged ? RUN_MEMORY_TCP : RUN_MEMORY_OFI;
}

/* In the test build streams begin shortly before one of the places where a position that is cut short, split or
 * signed would show, and pass it. */
static void draw_origin(const struct run_options *opt)
{
#if TRAM_PLANTED
    static const uint64_t ends[] = {0, UINT64_C(1) << 16, UINT64_C(1) << 32, UINT64_C(1) << 48,
                                    UINT64_C(1) << 63};
    struct rng own, *g = &own;
    rng_init(g, hash_mix(opt->seed, ORIGIN_STREAM));
    uint64_t end = ends[rng_below(g, sizeof(ends) / sizeof(*ends))];
    stream_origin = end ? end - 8 * rng_range(g, 1, 1000) : 0;
#else
    (void)opt;
#endif
}

void run_draw_memory(const struct run_options *opt, struct fleet *f, struct sim_options *so)
{
    struct rng *g = &f->rng;
    draw_origin(opt);
    uint64_t delay = rng_range(g, 200, 3000);
    *so = (struct sim_options){
        .delay_ns_min = delay / 4 + 1,
        .delay_ns_max = delay,
        .check_at_issue = PLANTED(no_fence),
    };
    so->seed = rng_u64(g);
    so->delay_ns_spike = rng_range(g, 10 * RUN_US, 400 * RUN_US);
    so->spike_per_million = rng_below(g, 2) ? (uint32_t)rng_below(g, 3000) : 0;
    so->tear_per_million = (uint32_t)rng_below(g, 300000);
    so->lost_after_ns = rng_range(g, 60 * RUN_US, 300 * RUN_US);
    so->owner_answers = rng_below(g, 2);
    draw_links(opt, so);
    aim_draw(&f->aim, opt->seed, opt->aim);
    so->read_gap_ns_max = f->aim.read_gap_ns_max;
}

void run_draw_votes(const struct run_options *opt, struct mcast_group *group)
{
    static const uint32_t layouts[][3] = {{2, 3}, {3, 3}, {2, 5}, {2, 1}, {2, 3}};
    struct rng own, *g = &own;
    if (opt->votes == RUN_VOTES_REPLICAS)
        return;
    rng_init(g, hash_mix(opt->seed, VOTES_STREAM));
    uint64_t pick = rng_below(g, 6);
    enum run_votes votes = pick < 3 ? RUN_VOTES_MEMORIES : RUN_VOTES_ALL;
    votes = opt->votes == RUN_VOTES_DRAWN ? votes : opt->votes;
    group->all_vote = votes == RUN_VOTES_ALL;
    const uint32_t *layout = layouts[group->all_vote ? 3 + pick % 2 : pick % 3];
    if (group->replicas == 0)
        group->replicas = layout[0];
    group->memories = layout[1];
    /* An odd number of those who vote. */
    group->memories += group->all_vote && (group->replicas + group->memories) % 2 == 0;
}

void run_draw_disks(const struct run_options *opt, struct fleet *f)
{
    struct rng own, *g = &own;
    f->durable = opt->durable;
    rng_init(g, hash_mix(opt->seed, DISK_STREAM));
    f->disk_options = (struct disk_sim_options){.seed = rng_u64(g)};
    f->disk_options.flush_ns_min = rng_range(g, 200, 5 * RUN_US);
    f->disk_options.flush_ns_max = f->disk_options.flush_ns_min + rng_below(g, 30 * RUN_US);
    if (opt->durable && rng_below(g, CRAMPED_ONE_IN) == 0)
        f->cramped = true;
    f->segments_more = (uint32_t)rng_below(g, SEGMENTS_MORE);
}

void run_draw_state(const struct run_options *opt, struct run_state *s)
{
    struct rng own, *g = &own;
    rng_init(g, hash_mix(opt->seed, STATE_STREAM));
    *s = (struct run_state){0};
    uint64_t speed = rng_below(g, 4);
    if (speed != 0) { /* now and then as slow as a machine may be */
        bool slow = speed == 3;
        s->costs.open_ns = rng_below(g, slow ? RUN_HEARTBEAT_NS : 3 * RUN_US);
        s->costs.piece_ns = rng_below(g, slow ? RUN_HEARTBEAT_NS / 4 : RUN_US);
        s->costs.kib_ns = rng_below(g, slow ? 2 * RUN_US : RUN_US / 2);
    }
    s->unsized = rng_below(g, 3) == 0;
    s->large = rng_below(g, 8) == 0;
    s->backlog_rings = rng_below(g, 3) == 0 ? rng_range(g, 1, 3) : 0;
    s->returns = rng_below(g, 8) == 0;
    if (s->returns && rng_below(g, 2))
        s->stall_ns = rng_range(g, 50 * RUN_US, 300 * RUN_US);
}

void run_calm_memory(struct fleet *f, struct sim_options *so)
{
    f->aim = (struct aim){0};
    so->read_gap_ns_max = 0;
    so->spike_per_million = 0;
    so->links.late_per_million = 0;
    so->links.queue_max = 0;
}

void run_draw_times(struct rng *g, uint64_t *suspect_ns, uint64_t *stagger_ns, uint64_t *detach_ns)
{
    *suspect_ns = rng_range(g, 40 * RUN_US, 150 * RUN_US);
    *stagger_ns = rng_range(g, 5 * RUN_US, 40 * RUN_US);
    *detach_ns = rng_range(g, 50 * RUN_US, 300 * RUN_US);
}

/* Everything outstanding must be delivered. */
static void liveness(struct fleet *f, struct run_result *r, const struct run_calls *c)
{
    uint64_t end = sim_now(f->sim) + c->liveness_ns;
    bool delivered = false;
    for (uint64_t i = 0; r->property == NULL && sim_step(f->sim); i++) {
        if (i % LOOK_EVERY == 0 && (delivered = c->all_delivered(c->ctx)))
            break;
        if (sim_now(f->sim) > end)
            break;
    }
    if (r->property == NULL && !delivered)
        c->stuck(c->ctx);
    else if (r->property == NULL && c->settled)
        c->settled(c->ctx);
}

static void phases(struct fleet *f, struct run_result *r, const struct run_calls *c)
{
    while (r->property == NULL && sim_now(f->sim) < c->safety_end_ns && sim_step(f->sim))
        ;
    chaos_end(&f->chaos, fleet_spare);
    fleet_calm(f);
    if (c->calm)
        c->calm(c->ctx);
    liveness(f, r, c);
    f->returns = false; /* a leader that hangs is deposed */
    if (r->property == NULL && c->hang && rng_below(&f->rng, HANGS_ONE_IN) == 0 &&
        hang_phase(f, r, c->hang, c->ctx))
        liveness(f, r, c);
}

void run_fleet(struct fleet *f, struct run_result *r, const struct run_calls *c)
{
    chaos_draw(&f->chaos);
    chaos_begin(&f->chaos);
    aim_begin(&f->aim);
    phases(f, r, c);
    r->time_ns = sim_now(f->sim);
    r->hash = sim_hash(f->sim);
    r->events = sim_events(f->sim);
    r->faults = f->chaos.faults;
    r->power_cuts = f->chaos.power_cuts;
    r->disks_lost = f->chaos.disks_lost;
    r->sectors_flipped = f->chaos.sectors_flipped;
    r->disks_filled = f->chaos.disks_filled;
    r->full_journals = f->full_journals;
    for (uint32_t h = 0; f->durable && h < f->hosts; h++)
        r->writes_failed += disk_sim_failures(f->node[h].platters);
    r->aimed = f->aim.figures;
    r->replicas = f->group[0].replicas;
    r->memories = f->group[0].memories;
    fleet_close(f);
    for (uint32_t h = 0; h < f->hosts; h++)
        for (uint32_t i = 0; i < f->node[h].members; i++) {
            r->terms += f->node[h].member[i].terms;
            r->snapshots += f->node[h].member[i].snapshots;
        }
    fleet_free(f);
}
