/* Members of a group some of whom lie: correct ones, and correct code on operations that lie. */
#include "sim/bft_run_impl.h"

#include <string.h>

/* ---- what correct members see ---- */

static void watch_heard(void *ctx, uint32_t sender, uint64_t key, struct digest d)
{
    struct member *m = ctx;
    sim_note(m->run->fleet.sim, hash_mix(hash_mix(key, sender), d.word[0] ^ m->rank));
    m->heard[sender] = key;
    bft_check_heard(&m->run->bft_check, m->rank, sender, key, d);
}

static void watch_certified(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    struct member *m = ctx;
    TRACE(m, "r%u certifies %016llx for slot %llu in view %llu", m->rank,
          (unsigned long long)name.word[0], (unsigned long long)slot, (unsigned long long)view);
}

static void watch_locked(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    struct member *m = ctx;
    TRACE(m, "r%u locks %016llx for slot %llu in view %llu", m->rank,
          (unsigned long long)name.word[0], (unsigned long long)slot, (unsigned long long)view);
    bft_check_certified(&m->run->bft_check, m->rank, view, slot, name);
}

static void watch_decided(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    struct member *m = ctx;
    TRACE(m, "r%u decides %016llx for slot %llu in view %lld", m->rank,
          (unsigned long long)name.word[0], (unsigned long long)slot, (long long)view);
    sim_note(m->run->fleet.sim, hash_mix(slot, name.word[0] ^ m->rank));
    bft_check_decided(&m->run->bft_check, m->rank, view, slot, name);
}

static void watch_entered(void *ctx, uint64_t view)
{
    struct member *m = ctx;
    TRACE(m, "r%u enters view %llu", m->rank, (unsigned long long)view);
    m->run->check.result->bft.views++;
}

static void watch_jumped(void *ctx, uint32_t sender, uint64_t key)
{
    struct member *m = ctx;
    TRACE(m, "r%u jumps behind broadcast %llx of r%u", m->rank, (unsigned long long)key, sender);
    m->run->check.result->bft.jumps++;
}

static void watch_votes(void *ctx, uint64_t slot)
{
    struct member *m = ctx;
    TRACE(m, "r%u votes again, from slot %llu on", m->rank, (unsigned long long)slot);
    m->run->check.result->bft.rejoins++;
}

static void watch_stable(void *ctx, const struct bft_checkpoint *c)
{
    struct member *m = ctx;
    TRACE(m, "r%u has a stable checkpoint of slot %llu", m->rank, (unsigned long long)c->slot);
    bft_check_stable(&m->run->bft_check, m->rank, c);
}

static void watch_convicted(void *ctx, uint32_t rank, const struct neb_cell *a,
                            const struct neb_cell *b, const char *line)
{
    struct member *m = ctx;
    TRACE(m, "r%u convicts r%u%s: %s", m->rank, rank, a && b ? " by two cells" : "",
          line ? line : "");
    bft_check_convicted(&m->run->bft_check, m->rank, rank, line);
}

static void watch_opened(void *ctx, uint64_t epoch)
{
    struct member *m = ctx;
    struct bft_figures *f = &m->run->check.result->bft;
    TRACE(m, "r%u begins epoch %llu", m->rank, (unsigned long long)epoch);
    f->epochs = epoch > f->epochs ? epoch : f->epochs;
}

static void watch_frozen(void *ctx, uint64_t epoch, const char *why)
{
    struct member *m = ctx;
    TRACE(m, "r%u freezes epoch %llu: %s", m->rank, (unsigned long long)epoch, why);
}

static void watch_cut(void *ctx, uint64_t epoch, uint64_t batch)
{
    struct member *m = ctx;
    struct bft_figures *f = &m->run->check.result->bft;
    TRACE(m, "r%u ends epoch %llu behind batch %llu", m->rank, (unsigned long long)epoch,
          (unsigned long long)batch);
    if (epoch == f->cut_epochs + 1) {
        f->cut_epochs = epoch;
        f->batches += batch;
    }
}

static const struct bft_watch watch = {
    .opened = watch_opened,
    .frozen = watch_frozen,
    .cut = watch_cut,
    .heard = watch_heard,
    .certified = watch_certified,
    .locked = watch_locked,
    .decided = watch_decided,
    .entered = watch_entered,
    .jumped = watch_jumped,
    .votes = watch_votes,
    .stable = watch_stable,
    .convicted = watch_convicted,
};

/* ---- members ---- */

static struct member *member_at(const struct unit *u)
{
    return u->of;
}

static uint64_t clock_of(const struct member *m, uint64_t now_ns)
{
    return m->hostile ? hostile_clock_ns(m->hostile, now_ns) : now_ns;
}

static void turn(const struct member *m, uint32_t twin)
{
    if (m->hostile)
        hostile_turn(m->hostile, twin);
}

static int host_post(struct unit *u, uint64_t now_ns)
{
    struct member *m = member_at(u);
    uint64_t now = clock_of(m, now_ns);
    int work = 0;
    for (uint32_t t = 0; t < m->parts; t++) {
        turn(m, t);
        work += unit_post(&m->part[t].unit, now);
        bft_machine_post(&m->part[t]);
    }
    return work + bft_plan_post(m, now);
}

static int host_settle(struct unit *u, uint64_t now_ns)
{
    struct member *m = member_at(u);
    uint64_t now = clock_of(m, now_ns);
    int work = 0;
    for (uint32_t t = 0; t < m->parts; t++) {
        turn(m, t);
        work += signer_poll(m->part[t].signer);
        work += unit_settle(&m->part[t].unit, now);
    }
    work += bft_plan_settle(m);
    if (m->hostile)
        hostile_step(m->hostile);
    else
        u->broken = m->part[0].unit.broken;
    u->leads = m->parts > 0 && m->part[0].unit.leads;
    return work;
}

static uint64_t host_next_ns(const struct unit *u)
{
    const struct member *m = member_at(u);
    return m->parts > 0 ? unit_next_ns(&m->part[0].unit) : UINT64_MAX;
}

static void host_status(const struct unit *u, struct unit_status *s)
{
    const struct member *m = member_at(u);
    *s = (struct unit_status){.leader = UINT32_MAX};
    if (m->parts > 0)
        *s = unit_status(&m->part[0].unit);
}

static const char *host_check(const struct unit *u)
{
    const struct member *m = member_at(u);
    return m->hostile ? NULL : unit_check(&m->part[0].unit);
}

static void close_parts(struct member *m)
{
    for (uint32_t t = 0; t < m->parts; t++) {
        turn(m, t);
        unit_close(&m->part[t].unit);
        signer_close(m->part[t].signer);
        bft_machine_close(&m->part[t]);
        m->part[t].bft = NULL;
    }
    m->parts = 0;
}

static void host_close(struct unit *u)
{
    struct member *m = member_at(u);
    close_parts(m);
    bft_plan_close(m);
    if (m->hostile)
        hostile_end(m->hostile);
    bft_check_forgets(&m->run->bft_check, m->rank);
    memset(m->heard, 0, sizeof(m->heard));
}

static const struct unit_ops host_ops = {
    .post = host_post,
    .settle = host_settle,
    .next_ns = host_next_ns,
    .status = host_status,
    .check = host_check,
    .close = host_close,
};

static int open_part(struct member *m, uint32_t t, struct err *e)
{
    struct run *r = m->run;
    struct part *p = &m->part[t];
    struct bft_options o = r->bft_opt;
    turn(m, t);
    int rc = bft_machine_open(p, m, e);
    if (rc != 0)
        return rc;
    p->signer = sim_signer_open(r->key_seed, m->rank, 4);
    if (m->hostile && r->strategy == HOSTILE_invent)
        sim_signer_believe(p->signer);
    if (r->liars > 0)
        sim_signer_watch(p->signer, bft_plan_learns, r);
    o.mem = m->at->host->mem;
    o.rank = m->rank;
    o.life = o.mem->life;
    o.signer = p->signer;
    o.machine = &bft_machine;
    o.ctx = p;
    o.watch = m->hostile ? NULL : &watch;
    o.watch_ctx = m;
    rc = bft_open(&o, &p->bft, e);
    if (rc == 0) {
        p->unit = bft_unit(p->bft);
    } else {
        signer_close(p->signer);
        bft_machine_close(p);
    }
    return rc;
}

/* What is taken at open is all there is, in each life alike. */
static void check_memory(struct member *m)
{
    struct bft_stats s;
    bft_stats(m->part[0].bft, &s);
    if (m->bytes != 0 && s.bytes != m->bytes)
        bft_check_violated(&m->run->bft_check, "bounded memory", 0,
                           "member %u has %llu bytes, and had %llu", m->rank,
                           (unsigned long long)s.bytes, (unsigned long long)m->bytes);
    m->bytes = s.bytes;
}

int bft_member_open(struct fleet_member *at, uint64_t seed, struct err *e)
{
    struct run *r = at->host->fleet->ctx;
    struct member *m = &r->member[at->rank];
    uint32_t parts = m->hostile ? hostile_twins(m->hostile) : 1;
    m->at = at;
    m->parts = 0;
    if (m->hostile)
        hostile_begin(m->hostile, at->host->mem);
    at->unit = (struct unit){.ops = &host_ops, .of = m, .region = REGION};
    if (m->hostile && bft_plan_is_made(r))
        return bft_plan_open(m, seed, e);
    for (uint32_t t = 0; t < parts; t++) {
        int rc = open_part(m, t, e);
        if (rc != 0) {
            close_parts(m);
            at->unit.of = NULL;
            return rc;
        }
        m->parts++;
    }
    check_memory(m);
    return 0;
}

void bft_member_stepped(struct fleet_member *at)
{
    struct run *r = at->host->fleet->ctx;
    struct member *m = &r->member[at->rank];
    if (!m->hostile)
        check_memory(m);
}

/* Down, or without a vote: it is one of f. */
bool bft_member_is_bad(const struct run *r, uint32_t rank)
{
    const struct member *m = &r->member[rank];
    struct bft_stats s;
    if (m->hostile || m->parts == 0)
        return true;
    bft_stats(m->part[0].bft, &s);
    return !s.votes;
}
