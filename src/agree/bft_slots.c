/* One slot after the other: who has heard a proposal certifies it, and who has a certificate locks it. What follows is in bft_decide.c. */
#include "agree/bft_core.h"

/* ---- slots ---- */

static void slot_begin(struct bft_slot *s, uint64_t slot)
{
    struct bft_value kept[BFT_VALUES];
    memcpy(kept, s->value, sizeof(kept));
    *s = (struct bft_slot){.slot = slot};
    for (uint32_t i = 0; i < BFT_VALUES; i++)
        s->value[i].data = kept[i].data;
}

struct bft_slot *bft_slot_of(struct bft_core *c, uint64_t slot)
{
    struct bft_slot *s = &c->slot[slot % BFT_SLOTS];
    if (slot < c->stable.slot || slot - c->stable.slot >= BFT_SLOTS)
        return NULL;
    if (s->slot != slot)
        slot_begin(s, slot);
    return s;
}

const struct bft_slot *bft_slot_find(const struct bft_core *c, uint64_t slot)
{
    const struct bft_slot *s = &c->slot[slot % BFT_SLOTS];
    return s->slot == slot ? s : NULL;
}

/* What was said for it last, by the sender itself. */
static const struct bft_lock *own_lock(const struct bft_core *c, uint64_t slot)
{
    return bft_automaton_lock(&c->said, slot);
}

/* ---- values ---- */

const struct bft_value *bft_value_of(const struct bft_slot *s, struct digest name)
{
    for (uint32_t i = 0; i < BFT_VALUES; i++)
        if (s->value[i].bytes > 0 && digest_equal(s->value[i].name, name))
            return &s->value[i];
    return NULL;
}

bool bft_value_there(const struct bft_slot *s, struct digest name)
{
    return !bft_name_has_bytes(name) || bft_value_of(s, name) != NULL;
}

/* Names that are locked, decided or on the way there. */
static bool needed(const struct bft_core *c, const struct bft_slot *s, struct digest name)
{
    const struct bft_lock *l = own_lock(c, s->slot);
    return (l && digest_equal(l->name, name)) || (s->decided && digest_equal(s->name, name)) ||
           (s->due_1 > c->view && digest_equal(s->due, name)) ||
           (s->proposed_1 > 0 && digest_equal(s->proposed, name)) ||
           (s->wanted && digest_equal(s->want, name));
}

bool bft_value_wanted(const struct bft_core *c, const struct bft_slot *s, struct digest name)
{
    return needed(c, s, name) && !bft_value_there(s, name);
}

void bft_value_put(struct bft_core *c, struct bft_slot *s, struct digest name, const void *data,
                   uint32_t bytes)
{
    if (bft_value_of(s, name) || bytes == 0)
        return;
    for (uint32_t i = 0; i < BFT_VALUES; i++) {
        struct bft_value *v = &s->value[i];
        if (v->bytes > 0 && needed(c, s, v->name))
            continue;
        v->name = name;
        v->bytes = bytes;
        memcpy(v->data, data, bytes);
        return;
    }
}

/* ---- what is heard ---- */

void bft_slots_propose(struct bft_core *c, const struct bft_propose *p, bool bound)
{
    struct bft_slot *s = bft_slot_of(c, p->slot);
    if (s == NULL || p->head.view + 1 <= s->proposed_1)
        return;
    s->proposed_1 = p->head.view + 1;
    s->proposed = p->name;
    s->bound = bound;
    s->asked_for = p->head.count > 0;
    if (bft_name_has_bytes(p->name))
        bft_value_put(c, s, p->name, p->value, p->head.count);
}

static void certificate(struct bft_core *c, struct bft_slot *s, uint64_t view, struct digest name,
                        const struct bft_mark *marks)
{
    const struct bft_lock *l = own_lock(c, s->slot);
    if (s->due_1 > view || (l && l->view >= view))
        return;
    s->due_1 = view + 1;
    s->due = name;
    memcpy(s->due_mark, marks, bft_certificate_marks(&c->opt.scope) * sizeof(*marks));
}

void bft_slots_commit(struct bft_core *c, const struct bft_commit *m)
{
    struct bft_slot *s = bft_slot_of(c, m->slot);
    if (s)
        certificate(c, s, m->head.view, m->name, m->mark);
}

/* As many signatures of one name as make a certificate? */
static void count_certify(struct bft_core *c, struct bft_slot *s, uint64_t view_1,
                          struct digest name)
{
    struct bft_mark marks[BFT_QUORUM_MAX];
    uint32_t count = 0, needed_marks = bft_certificate_marks(&c->opt.scope);
    for (uint32_t r = 0; r < c->opt.scope.members && count < needed_marks; r++) {
        const struct bft_certify *v = &s->certify[r];
        if (v->view_1 == view_1 && digest_equal(v->name, name))
            marks[count++] = v->mark;
    }
    if (count == needed_marks)
        certificate(c, s, view_1 - 1, name, marks);
}

void bft_slots_certify(struct bft_core *c, const struct bft_frame *f)
{
    struct bft_slot *s = bft_slot_of(c, f->number);
    uint32_t r = f->mark.rank;
    if (s == NULL || f->key + 1 <= s->certify[r].view_1)
        return;
    s->certify[r] = (struct bft_certify){.view_1 = f->key + 1, .name = f->name, .mark = f->mark};
    count_certify(c, s, f->key + 1, f->name);
}

void bft_slots_claim(struct bft_core *c, uint32_t from, const struct bft_frame *f)
{
    struct bft_slot *s = bft_slot_of(c, f->number);
    if (s == NULL || s->claims[from])
        return;
    s->claims[from] = true;
    s->claim[from] = f->name;
}

/* ---- certifying ---- */

bool bft_is_own_join(struct digest name, uint32_t rank, uint32_t life)
{
    return bft_name_is_join(name) && name.word[1] == rank && name.word[2] > life;
}

static bool join_fits(const struct bft_core *c, struct digest name)
{
    uint32_t rank = (uint32_t)name.word[1];
    return name.word[2] > c->life[rank];
}

/* A value that a NEW-VIEW names has been found valid before. */
static bool finds_valid(struct bft_core *c, const struct bft_slot *s)
{
    const struct bft_value *of = bft_value_of(s, s->proposed);
    if (!s->bound && bft_is_last(c, s->slot) &&
        c->opt.calls->reserves(c->opt.ctx, of ? of->data : NULL, of ? of->bytes : 0))
        return false;
    if (bft_name_is_join(s->proposed))
        return !bft_is_own_join(s->proposed, c->opt.rank, c->opt.life) &&
               (s->bound || (s->asked_for && join_fits(c, s->proposed)));
    const struct bft_value *v = bft_value_of(s, s->proposed);
    if (s->bound || bft_name_is_nothing(s->proposed))
        return bft_value_there(s, s->proposed);
    return v && c->opt.calls->valid(c->opt.ctx, v->data, v->bytes) > 0;
}

static int certify(struct bft_core *c, struct bft_slot *s)
{
    const struct bft_frame f = {
        .kind = BFT_FRAME_CERTIFY, .key = c->view, .number = s->slot, .name = s->proposed};
    if (s->proposed_1 != c->view + 1 || s->certified_1 > c->view || !finds_valid(c, s) ||
        !c->opt.calls->sign(c->opt.ctx, &f, NULL, 0))
        return 0;
    s->certified_1 = c->view + 1;
    c->count.certified++;
    c->opt.calls->certified(c->opt.ctx, c->view, s->slot, s->proposed);
    return 1;
}

/* ---- locking ---- */

/* Within the window that the others know of, from our last STATE. */
static bool locks(const struct bft_core *c, const struct bft_slot *s)
{
    const struct bft_lock *l = own_lock(c, s->slot);
    return s->due_1 == c->view + 1 && s->slot - c->said.stable < BFT_SLOTS &&
           (l == NULL || l->view < c->view) && bft_value_there(s, s->due) &&
           !bft_is_own_join(s->due, c->opt.rank, c->opt.life);
}

/* The lock is the COMMIT: both are there from the moment it is said. */
static int lock(struct bft_core *c, struct bft_slot *s)
{
    struct bft_commit *m = (void *)c->scratch;
    uint32_t marks = bft_certificate_marks(&c->opt.scope);
    if (!locks(c, s))
        return 0;
    *m = (struct bft_commit){.head = {.kind = BFT_COMMIT, .count = marks, .view = c->view},
                             .slot = s->slot,
                             .name = s->due};
    memcpy(m->mark, s->due_mark, marks * sizeof(m->mark[0]));
    if (!bft_say(c, (uint32_t)(sizeof(*m) + marks * sizeof(m->mark[0])), false))
        return 0;
    c->count.committed++;
    c->opt.calls->locked(c->opt.ctx, c->view, s->slot, s->due);
    return 1;
}

int bft_slots_step(struct bft_core *c)
{
    int work = 0;
    uint64_t end = c->stable.slot + BFT_SLOTS;
    for (uint64_t slot = c->stable.slot; c->votes && slot < end; slot++) {
        struct bft_slot *s = &c->slot[slot % BFT_SLOTS];
        if (s->slot != slot || !bft_may_speak(c))
            continue;
        work += certify(c, s);
        work += lock(c, s);
    }
    return c->votes ? work + bft_decide_step(c) : work;
}
