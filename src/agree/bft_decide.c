/* What f+1 have locked is decided, and what is decided is applied in order; and each beat says again what somebody seems to lack. */
#include "agree/bft_core.h"

#include "base/minmax.h"

/* ---- deciding ---- */

/* What a member has COMMITted to; of its former lives nothing is left once a JOIN is applied. */
static const struct bft_lock *commit_of(const struct bft_core *c, uint32_t rank, uint64_t slot)
{
    const struct bft_automaton *a = &c->peer[rank].automaton;
    const struct bft_lock *l = &a->lock[slot % BFT_SLOTS];
    if (!a->locked[slot % BFT_SLOTS] || l->slot != slot || bft_is_own_join(l->name, rank, a->life))
        return NULL;
    return l;
}

static uint32_t count_commits(const struct bft_core *c, const struct bft_lock *as)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < c->opt.scope.members; r++) {
        const struct bft_lock *l = commit_of(c, r, as->slot);
        count += l && l->view == as->view && digest_equal(l->name, as->name);
    }
    return count;
}

static bool committed(const struct bft_core *c, struct bft_slot *s, uint64_t *view)
{
    for (uint32_t r = 0; r < c->opt.scope.members; r++) {
        const struct bft_lock *l = commit_of(c, r, s->slot);
        if (l && count_commits(c, l) >= c->quorum) {
            s->name = l->name;
            *view = l->view;
            return true;
        }
    }
    return false;
}

/* f+1 say so: one of them is correct. */
static bool claimed(const struct bft_core *c, struct bft_slot *s)
{
    for (uint32_t r = 0; r < c->opt.scope.members; r++) {
        uint32_t count = 0;
        for (uint32_t q = 0; s->claims[r] && q < c->opt.scope.members; q++)
            count += s->claims[q] && digest_equal(s->claim[q], s->claim[r]);
        if (count >= c->quorum) {
            s->name = s->claim[r];
            return true;
        }
    }
    return false;
}

static bool decide(struct bft_core *c, struct bft_slot *s)
{
    uint64_t view = UINT64_MAX;
    if (s->decided)
        return true;
    if (!committed(c, s, &view)) {
        if (!claimed(c, s))
            return false;
        c->count.taken_over++;
    }
    s->decided = true;
    c->opt.calls->decided(c->opt.ctx, view, s->slot, s->name);
    return true;
}

/* ---- applying ---- */

static void applied(struct bft_core *c, const struct bft_slot *s)
{
    const uint64_t *w = s->name.word;
    bool join = bft_name_is_join(s->name) && w[1] < c->opt.scope.members;
    c->chain = digest_chain(c->chain, s->name);
    c->applied++;
    if (join && w[2] > c->life[w[1]])
        bft_core_joined(c, (uint32_t)w[1], (uint32_t)w[2]);
    c->save_due =
        c->opt.calls->save_now(c->opt.ctx, join || c->applied % BFT_CHECKPOINT_SLOTS == 0);
    bft_view_progress(c);
}

static bool apply(struct bft_core *c, const struct bft_slot *s)
{
    const struct bft_value *v = bft_value_of(s, s->name);
    if (!bft_value_there(s, s->name) ||
        !c->opt.calls->apply(c->opt.ctx, s->slot, v ? v->data : NULL, v ? v->bytes : 0))
        return false;
    applied(c, s);
    return true;
}

int bft_decide_step(struct bft_core *c)
{
    int work = 0;
    while (!c->saving) {
        if (c->save_due) {
            if (!c->opt.calls->save(c->opt.ctx, c->applied))
                break;
            c->saving = true;
            c->save_due = false;
            break;
        }
        struct bft_slot *s = bft_slot_of(c, c->applied);
        if (s == NULL || !decide(c, s) || !apply(c, s))
            break;
        work++;
    }
    return work;
}

/* ---- saying it again ---- */

/* Whoever has committed needs no certificate any more. */
static bool has_locked(const struct bft_core *c, uint32_t rank, uint64_t slot, uint64_t view)
{
    const struct bft_lock *l = bft_automaton_lock(&c->peer[rank].automaton, slot);
    return l && l->view >= view;
}

static void tell_certify(struct bft_core *c, const struct bft_slot *s)
{
    const struct bft_certify *v = &s->certify[c->opt.rank];
    const struct bft_frame f = {.kind = BFT_FRAME_CERTIFY,
                                .key = v->view_1 - 1,
                                .number = s->slot,
                                .name = v->name,
                                .mark = v->mark};
    if (v->view_1 != c->view + 1 || v->view_1 != s->certified_1)
        return;
    for (uint32_t p = 0; p < c->opt.scope.members; p++)
        if (p != c->opt.rank && !has_locked(c, p, s->slot, c->view))
            c->opt.calls->tell(c->opt.ctx, p, &f, NULL, 0);
}

static void ask(struct bft_core *c, const struct bft_slot *s, bool needed_now, struct digest name)
{
    if (needed_now && !bft_value_there(s, name))
        c->opt.calls->tell(
            c->opt.ctx, BFT_ALL,
            &(struct bft_frame){.kind = BFT_FRAME_ASK_VALUE, .number = s->slot, .name = name}, NULL,
            0);
}

/* Who is behind is told what was decided. */
static void tell_decided(struct bft_core *c, uint32_t to)
{
    uint64_t from = c->peer[to].applied;
    for (uint64_t slot = from; slot < min_u64(c->applied, from + BFT_CHECKPOINT_SLOTS); slot++) {
        const struct bft_slot *s = bft_slot_find(c, slot);
        if (s && s->decided)
            c->opt.calls->tell(
                c->opt.ctx, to,
                &(struct bft_frame){.kind = BFT_FRAME_DECIDED, .number = slot, .name = s->name},
                NULL, 0);
    }
}

void bft_slots_beat(struct bft_core *c)
{
    for (uint64_t slot = c->stable.slot; slot < c->stable.slot + BFT_SLOTS; slot++) {
        const struct bft_slot *s = bft_slot_find(c, slot);
        if (s == NULL)
            continue;
        tell_certify(c, s);
        ask(c, s, s->decided, s->name);
        ask(c, s, s->due_1 > c->view, s->due);
        ask(c, s, s->wanted, s->want);
    }
    for (uint32_t p = 0; p < c->opt.scope.members; p++)
        if (p != c->opt.rank)
            tell_decided(c, p);
}
