/* Checkpoints, which end the past; and members that are back, which begin with one. */
#include "agree/bft_core.h"

#include "base/planted.h"

/* ---- claims ---- */

static bool same(const struct bft_checkpoint *a, const struct bft_checkpoint *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static const struct bft_claim *claim_of(const struct bft_core *c, uint32_t rank,
                                        const struct bft_checkpoint *at)
{
    for (uint32_t i = 0; i < BFT_CLAIMS; i++) {
        const struct bft_claim *k = &c->peer[rank].claim[i];
        if (k->there && same(&k->at, at))
            return k;
    }
    return NULL;
}

static uint32_t marks_of(const struct bft_core *c, const struct bft_checkpoint *at,
                         struct bft_mark *marks)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < c->opt.scope.members && count < c->quorum; r++) {
        const struct bft_claim *k = claim_of(c, r, at);
        if (k)
            marks[count++] = k->mark;
    }
    return count;
}

static const struct bft_checkpoint *own_of(const struct bft_core *c, uint64_t slot)
{
    for (uint32_t i = 0; i < BFT_CLAIMS; i++)
        if (c->own[i].slot == slot)
            return &c->own[i];
    return NULL;
}

static void set_stable(struct bft_core *c, const struct bft_checkpoint *at,
                       const struct bft_mark *marks)
{
    c->stable = *at;
    memcpy(c->stable_mark, marks, c->quorum * sizeof(*marks));
    c->count.checkpoints++;
    c->opt.calls->stable(c->opt.ctx, at);
}

/* f+1 have signed it. What is applied here is the same; what is further on can be loaded. */
static void judge(struct bft_core *c, const struct bft_checkpoint *at)
{
    struct bft_mark marks[BFT_QUORUM_MAX];
    if (at->slot <= c->stable.slot || marks_of(c, at, marks) < c->quorum)
        return;
    const struct bft_checkpoint *own = own_of(c, at->slot);
    if (own && same(own, at))
        set_stable(c, at, marks);
    else if (own)
        c->broken = "its state is not what f+1 members have signed";
    else if (at->slot > c->ahead.slot) {
        c->ahead = *at;
        memcpy(c->ahead_mark, marks, sizeof(marks));
    }
}

void bft_checkpoint_claim(struct bft_core *c, const struct bft_frame *f)
{
    const struct bft_checkpoint at = *(const struct bft_checkpoint *)(const void *)f->data;
    struct bft_peer *p = &c->peer[f->mark.rank];
    if (claim_of(c, f->mark.rank, &at) || at.slot <= c->stable.slot)
        return;
    p->claim[p->claims++ % BFT_CLAIMS] =
        (struct bft_claim){.at = at, .mark = f->mark, .there = true};
    judge(c, &at);
}

/* ---- our own ---- */

static void sign_own(struct bft_core *c, const struct bft_checkpoint *at)
{
    c->opt.calls->sign(c->opt.ctx, &(struct bft_frame){.kind = BFT_FRAME_CHECKPOINT}, at,
                       sizeof(*at));
}

void bft_core_saved(struct bft_core *c, uint64_t slot, struct digest state)
{
    CHECK(c->saving && slot == c->applied);
    struct bft_checkpoint at = {.slot = slot, .chain = c->chain, .state = state};
    memcpy(at.life, c->life, sizeof(c->life));
    c->saving = false;
    c->own[c->owns++ % BFT_CLAIMS] = at;
    sign_own(c, &at);
    for (uint32_t r = 0; r < c->opt.scope.members; r++)
        for (uint32_t i = 0; i < BFT_CLAIMS; i++)
            if (c->peer[r].claim[i].there && c->peer[r].claim[i].at.slot == slot)
                judge(c, &c->peer[r].claim[i].at);
}

static void tell(struct bft_core *c, const struct bft_checkpoint *at, const struct bft_mark *m)
{
    /* Who has said a STATE with this checkpoint, or a later one, needs it no more. */
    for (uint32_t p = 0; p < c->opt.scope.members; p++)
        if (p != c->opt.rank && c->peer[p].automaton.stable < at->slot)
            c->opt.calls->tell(c->opt.ctx, p,
                               &(struct bft_frame){.kind = BFT_FRAME_CHECKPOINT, .mark = *m}, at,
                               sizeof(*at));
}

void bft_checkpoint_beat(struct bft_core *c)
{
    for (uint32_t i = 0; c->stable.slot > 0 && i < c->quorum; i++)
        tell(c, &c->stable, &c->stable_mark[i]);
    for (uint32_t i = 0; c->votes && i < BFT_CLAIMS; i++) {
        const struct bft_checkpoint *at = &c->own[i];
        const struct bft_claim *k = claim_of(c, c->opt.rank, at);
        if (at->slot <= c->stable.slot)
            continue;
        if (k)
            tell(c, at, &k->mark);
        else
            sign_own(c, at);
    }
}

/* ---- members that are back ---- */

/* Nothing of the life before counts any more. */
void bft_core_joined(struct bft_core *c, uint32_t rank, uint32_t life)
{
    struct bft_peer *p = &c->peer[rank];
    c->life[rank] = life;
    c->count.joins++;
    if (p->joins && p->join.life <= life)
        p->joins = false;
    if (rank == c->opt.rank) {
        if (life > c->opt.life)
            c->broken = "a later life of it is in the group";
        return;
    }
    const char *fault = p->automaton.fault;
    bft_automaton_init(&p->automaton, rank, life);
    p->automaton.fault = fault;
    p->heard = neb_key(life, 0);
    p->newest.there = false;
    p->vouched.there = p->vouched.there && PLANTED(bft_join_old_state);
    c->opt.calls->life(c->opt.ctx, rank, life);
}

/* A member that is back signs nothing before a state in which it is. */
static void vote_again(struct bft_core *c)
{
    if (c->votes || c->life[c->opt.rank] != c->opt.life)
        return;
    c->votes = true;
    c->opt.calls->votes(c->opt.ctx, c->applied);
    bft_view_enter(c, c->view);
}

void bft_core_loaded(struct bft_core *c, const struct bft_checkpoint *at,
                     const struct bft_mark *marks)
{
    CHECK(at->slot > c->applied && !c->saving);
    c->applied = at->slot;
    c->chain = at->chain;
    c->save_due = false;
    c->own[c->owns++ % BFT_CLAIMS] = *at;
    set_stable(c, at, marks);
    for (uint32_t r = 0; r < c->opt.scope.members; r++)
        if (at->life[r] > c->life[r])
            bft_core_joined(c, r, at->life[r]);
    vote_again(c);
    bft_view_progress(c);
}
