/* What a leader does: begins its view with the STATEs of f+1 members, and proposes. */
#include "agree/bft_core.h"

#include "base/planted.h"

/* ---- NEW-VIEW ---- */

static bool is_usable(const struct bft_core *c, uint32_t rank)
{
    const struct bft_standing *s = &c->peer[rank].vouched;
    struct bft_mark marks[BFT_QUORUM_MAX];
    return s->there && s->state->head.view == c->view &&
           (s->key >> NEB_LIFE_SHIFT >= c->life[rank] || PLANTED(bft_join_old_state)) &&
           bft_standing_marks(c, s, marks) >= c->quorum;
}

static uint32_t pack_new_view(const struct bft_core *c, uint32_t set)
{
    struct bft_new_view *n = (void *)c->scratch;
    unsigned char *at = n->states;
    for (uint32_t r = 0; r < c->opt.scope.members; r++)
        if (set & 1U << r)
            at += bft_vouched_pack(c, r, at);
    n->head = (struct bft_head){
        .kind = BFT_NEW_VIEW, .count = (uint32_t)(at - n->states), .view = c->view};
    return (uint32_t)(at - c->scratch);
}

/* What it would have to propose is here, or asked for from now on. */
static bool has_values(struct bft_core *c, const struct bft_new_view_plan *p)
{
    bool all = p->base + p->names <= c->stable.slot + BFT_SLOTS;
    for (uint32_t i = 0; all && i < p->names; i++) {
        struct bft_slot *s = bft_slot_of(c, p->base + i);
        if (s == NULL || bft_value_there(s, p->name[i]))
            continue;
        s->want = p->name[i];
        s->wanted = true;
        all = false;
    }
    return all;
}

/* With any f+1 that may be used, so that one of them whose locks nobody has the values of stops nothing. */
static int begin_view(struct bft_core *c)
{
    uint32_t usable = 0;
    struct bft_new_view_plan plan;
    for (uint32_t r = 0; r < c->opt.scope.members; r++)
        usable |= (uint32_t)is_usable(c, r) << r;
    for (uint32_t set = 1; set < 1U << c->opt.scope.members; set++) {
        if ((set & usable) != set || (uint32_t)__builtin_popcount(set) != c->quorum)
            continue;
        uint32_t bytes = pack_new_view(c, set);
        if (bft_new_view_check(&c->opt.scope, (void *)c->scratch, &plan) != NULL ||
            !has_values(c, &plan) || !bft_say(c, bytes, true))
            continue;
        c->count.new_views++;
        return 1;
    }
    return 0;
}

/* ---- proposing ---- */

static bool joins(const struct bft_core *c, struct digest *name, const struct bft_mark **mark)
{
    for (uint32_t r = 0; r < c->opt.scope.members; r++) {
        const struct bft_peer *p = &c->peer[r];
        if (!p->joins || r == c->opt.rank || p->joined_view_1 == c->view + 1)
            continue;
        *name = bft_name_join(r, p->join.life);
        *mark = &p->join;
        return true;
    }
    return false;
}

/* What the NEW-VIEW names: 1 there, 0 not there (any more, if its slot is behind the checkpoint). */
static int named(struct bft_core *c, struct bft_propose *p)
{
    const struct bft_slot *s = bft_slot_find(c, p->slot);
    const struct bft_value *v = s ? bft_value_of(s, c->said.name[0]) : NULL;
    p->name = c->said.name[0];
    if (v) {
        p->head.count = v->bytes;
        memcpy(p->value, v->data, v->bytes);
    }
    return v != NULL || !bft_name_has_bytes(p->name);
}

/* A member that is back waits for the next checkpoint, and a NEW-VIEW's JOIN for the signature. */
static int chosen(struct bft_core *c, struct bft_propose *p)
{
    const struct bft_mark *mark;
    bool last = bft_is_last(c, p->slot) && c->opt.calls->reserves(c->opt.ctx, NULL, 0);
    p->name = bft_name_nothing();
    if (!last && joins(c, &p->name, &mark)) {
        p->head.count = SIGN_BYTES;
        memcpy(p->value, mark->signature, SIGN_BYTES);
        return 1;
    }
    p->head.count = c->opt.calls->fill(c->opt.ctx, p->value, c->opt.batch_bytes, !c->filled, last);
    c->filled = true;
    if (p->head.count > 0)
        p->name = bft_name_of(p->value, p->head.count);
    return p->head.count > 0;
}

static int propose(struct bft_core *c)
{
    struct bft_propose *p = (void *)c->scratch;
    *p = (struct bft_propose){.head = {.kind = BFT_PROPOSE, .view = c->view}, .slot = c->said.next};
    if (!(c->said.names > 0 ? named(c, p) : chosen(c, p)))
        return 0;
    if (!bft_say(c, (uint32_t)sizeof(*p) + p->head.count, false)) {
        c->filled = false; /* it is filled again */
        return 0;
    }
    if (bft_name_is_join(p->name))
        c->peer[p->name.word[1]].joined_view_1 = c->view + 1;
    c->count.proposed++;
    return 1;
}

static bool may_propose(const struct bft_core *c)
{
    uint64_t next = c->said.next;
    return next != BFT_NO_SLOT && next < c->stable.slot + BFT_SLOTS &&
           next < c->applied + BFT_SLOTS_UNDER_WAY &&
           c->said_place - c->vouched_place + 2 < c->opt.half;
}

int bft_lead_step(struct bft_core *c)
{
    int work = 0;
    if (c->view % c->opt.scope.members != c->opt.rank)
        return 0;
    if (c->said.next == BFT_NO_SLOT)
        work += c->view > 0 ? begin_view(c) : 0;
    while (may_propose(c) && propose(c))
        work++;
    return work;
}
