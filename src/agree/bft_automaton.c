#include "agree/bft_automaton.h"

#include "base/planted.h"

void bft_automaton_init(struct bft_automaton *a, uint32_t rank, uint32_t life)
{
    *a = (struct bft_automaton){.rank = rank, .life = life};
    a->next = rank == 0 && life == 0 ? 0 : BFT_NO_SLOT;
}

static bool departs(struct bft_automaton *a, const char *fault)
{
    a->fault = fault;
    return false;
}

const struct bft_lock *bft_automaton_lock(const struct bft_automaton *a, uint64_t slot)
{
    const struct bft_lock *l = &a->lock[slot % BFT_SLOTS];
    return a->locked[slot % BFT_SLOTS] && l->slot == slot && slot >= a->stable ? l : NULL;
}

static void put_lock(struct bft_automaton *a, const struct bft_lock *l)
{
    a->lock[l->slot % BFT_SLOTS] = *l;
    a->locked[l->slot % BFT_SLOTS] = true;
}

/* ---- its next broadcast ---- */

static bool hear_propose(struct bft_automaton *a, const struct bft_scope *s,
                         const struct bft_propose *p)
{
    if (p->head.view != a->view || a->view % s->members != a->rank)
        return departs(a, "it proposes in a view that it does not lead");
    if (a->next == BFT_NO_SLOT || p->slot != a->next)
        return departs(a, "it proposes for another slot than its next");
    if (a->names > 0 && !digest_equal(p->name, a->name[0]))
        return departs(a, "it proposes another value than its NEW-VIEW allows");
    if (a->names > 0) {
        a->names--;
        memmove(a->name, a->name + 1, a->names * sizeof(a->name[0]));
    }
    a->next++;
    return true;
}

static bool hear_commit(struct bft_automaton *a, const struct bft_commit *c)
{
    const struct bft_lock *l = bft_automaton_lock(a, c->slot);
    bool late = c->head.view < a->view && !PLANTED(bft_late_commit);
    if (late || c->head.view > a->view)
        return departs(a, "it commits in another view than it is in");
    if (c->slot < a->stable || c->slot - a->stable >= BFT_SLOTS)
        return departs(a, "it commits to a slot outside of its window");
    if (l && l->view >= c->head.view)
        return departs(a, "it commits twice in a view");
    put_lock(a, &(struct bft_lock){.slot = c->slot, .view = c->head.view, .name = c->name});
    return true;
}

static bool same_lock(const struct bft_lock *a, const struct bft_lock *b)
{
    return a->slot == b->slot && a->view == b->view && digest_equal(a->name, b->name);
}

/* The locks of the STATE, and those heard, are the same beyond its checkpoint. */
static bool locks_agree(const struct bft_automaton *a, const struct bft_state *st)
{
    uint32_t i = 0;
    for (uint64_t slot = st->stable.slot; slot < st->stable.slot + BFT_SLOTS; slot++) {
        const struct bft_lock *heard = bft_automaton_lock(a, slot);
        bool said = i < st->locks && st->lock[i].slot == slot;
        if (said != (heard != NULL) || (said && !same_lock(heard, &st->lock[i])))
            return false;
        i += said;
    }
    return true;
}

/* What it says that it proposes next follows from what it was heard to say; in a new view it has no NEW-VIEW yet. */
static bool next_agrees(const struct bft_automaton *a, const struct bft_state *st)
{
    if (PLANTED(bft_jump_blank))
        return true;
    if (st->head.view != a->view)
        return st->next == BFT_NO_SLOT;
    return st->next == a->next && st->names == a->names &&
           memcmp(bft_state_names(st), a->name, a->names * sizeof(a->name[0])) == 0;
}

static bool hear_state(struct bft_automaton *a, const struct bft_state *st)
{
    if (st->head.view < a->view)
        return departs(a, "it goes back to an earlier view");
    if (st->stable.slot < a->stable)
        return departs(a, "it goes back behind its checkpoint");
    if (!PLANTED(bft_vouch_blind) && !locks_agree(a, st))
        return departs(a, "its STATE hides what it has committed to");
    if (!PLANTED(bft_vouch_blind) && !next_agrees(a, st))
        return departs(a, "its STATE hides what it has proposed");
    if (st->head.view > a->view) {
        a->next = BFT_NO_SLOT;
        a->names = 0;
    }
    a->view = st->head.view;
    a->stable = st->stable.slot;
    return true;
}

static bool hear_new_view(struct bft_automaton *a, const struct bft_scope *s,
                          const struct bft_new_view *n)
{
    struct bft_new_view_plan plan;
    if (n->head.view != a->view || a->view == 0 || a->view % s->members != a->rank ||
        a->next != BFT_NO_SLOT)
        return departs(a, "it begins a view that is not its to begin");
    const char *fault = bft_new_view_check(s, n, &plan);
    if (fault)
        return departs(a, fault);
    a->next = plan.base;
    a->names = plan.names;
    memcpy(a->name, plan.name, plan.names * sizeof(a->name[0]));
    return true;
}

bool bft_automaton_hear(struct bft_automaton *a, const struct bft_scope *s, const void *body)
{
    const struct bft_head *h = body;
    if (a->fault)
        return false;
    switch (h->kind) {
    case BFT_PROPOSE:
        return hear_propose(a, s, body);
    case BFT_COMMIT:
        return hear_commit(a, body);
    case BFT_STATE:
        return hear_state(a, body);
    default:
        return hear_new_view(a, s, body);
    }
}

/* ---- from a STATE ---- */

void bft_automaton_jump(struct bft_automaton *a, const struct bft_state *st)
{
    uint32_t rank = a->rank, life = a->life;
    const char *fault = a->fault;
    bft_automaton_init(a, rank, life);
    a->fault = fault;
    a->view = st->head.view;
    a->stable = st->stable.slot;
    for (uint32_t i = 0; i < st->locks; i++)
        put_lock(a, &st->lock[i]);
    if (PLANTED(bft_jump_blank)) {
        a->next = a->view == 0 ? a->next : BFT_NO_SLOT;
        return;
    }
    a->next = st->next;
    a->names = st->names;
    memcpy(a->name, bft_state_names(st), st->names * sizeof(a->name[0]));
}

/* ---- what follows from a NEW-VIEW ---- */

static uint64_t base_of(const struct bft_scope *s, const struct bft_new_view *n)
{
    const struct bft_vouched *v = (const void *)n->states;
    uint64_t base = 0;
    for (uint32_t i = 0; i <= s->faulty; i++, v = bft_vouched_next(v))
        if (bft_vouched_state(v)->stable.slot > base)
            base = bft_vouched_state(v)->stable.slot;
    return base;
}

/* Of each slot from the base on the lock of the highest view; what nobody has locked is nothing. */
static void highest_locks(const struct bft_state *st, struct bft_new_view_plan *p, uint64_t *view_1)
{
    for (uint32_t i = 0; i < st->locks; i++) {
        const struct bft_lock *l = &st->lock[i];
        if (l->slot < p->base)
            continue;
        uint32_t at = (uint32_t)(l->slot - p->base);
        if (l->view + 1 <= view_1[at])
            continue;
        view_1[at] = l->view + 1;
        p->name[at] = l->name;
        if (at + 1 > p->names)
            p->names = at + 1;
    }
}

/* The lives that the STATEs themselves know of. */
static void known_lives(const struct bft_scope *s, const struct bft_new_view *n,
                        const struct bft_new_view_plan *p, uint32_t *life)
{
    const struct bft_vouched *v = (const void *)n->states;
    for (uint32_t i = 0; i <= s->faulty; i++, v = bft_vouched_next(v))
        for (uint32_t q = 0; q < s->members; q++)
            if (bft_vouched_state(v)->stable.life[q] > life[q])
                life[q] = bft_vouched_state(v)->stable.life[q];
    for (uint32_t i = 0; i < p->names; i++) {
        const uint64_t *w = p->name[i].word;
        if (bft_name_is_join(p->name[i]) && w[1] < s->members && w[2] > life[w[1]])
            life[w[1]] = (uint32_t)w[2];
    }
}

static bool of_life(const struct bft_vouched *v, const uint32_t *life)
{
    bool good = v->key >> NEB_LIFE_SHIFT >= life[v->rank];
    for (uint32_t i = 0; i < v->marks; i++)
        good = good && v->mark[i].life >= life[v->mark[i].rank];
    return good || PLANTED(bft_join_old_state);
}

const char *bft_new_view_check(const struct bft_scope *s, const struct bft_new_view *n,
                               struct bft_new_view_plan *p)
{
    uint32_t seen = 0, life[BFT_MEMBERS_MAX] = {0};
    uint64_t view_1[BFT_SLOTS] = {0};
    const struct bft_vouched *v = (const void *)n->states;
    *p = (struct bft_new_view_plan){.base = base_of(s, n)};
    for (uint32_t i = 0; i <= s->faulty; i++, v = bft_vouched_next(v)) {
        if (bft_vouched_state(v)->head.view != n->head.view)
            return "its NEW-VIEW uses a STATE of another view";
        if (seen & 1U << v->rank)
            return "its NEW-VIEW uses two STATEs of one member";
        seen |= 1U << v->rank;
        highest_locks(bft_vouched_state(v), p, view_1);
    }
    known_lives(s, n, p, life);
    v = (const void *)n->states;
    for (uint32_t i = 0; i <= s->faulty; i++, v = bft_vouched_next(v))
        if (!of_life(v, life))
            return "its NEW-VIEW uses what was said in a life before a JOIN";
    return NULL;
}
