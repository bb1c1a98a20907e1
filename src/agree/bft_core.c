#include "agree/bft_core.h"

#include "base/minmax.h"
#include "lane/frame.h"

#include <stdlib.h>

/* ---- opening ---- */

static uint32_t standing_bytes(void)
{
    return (uint32_t)(sizeof(struct bft_state) +
                      BFT_SLOTS * (sizeof(struct bft_lock) + sizeof(struct digest)) +
                      BFT_QUORUM_MAX * sizeof(struct bft_mark));
}

static void *memory_open(struct bft_core *c, uint64_t bytes)
{
    c->bytes += bytes;
    return calloc(1, bytes);
}

static bool open_memory(struct bft_core *c)
{
    bool good = true;
    for (uint32_t i = 0; i < BFT_SLOTS; i++)
        for (uint32_t v = 0; v < BFT_VALUES; v++)
            good = (c->slot[i].value[v].data = memory_open(c, padded(c->opt.batch_bytes))) && good;
    for (uint32_t p = 0; p < c->opt.scope.members; p++) {
        good = (c->peer[p].newest.state = memory_open(c, standing_bytes())) && good;
        good = (c->peer[p].vouched.state = memory_open(c, standing_bytes())) && good;
    }
    c->body_bytes = bft_body_bytes_max(&c->opt.scope, c->opt.batch_bytes);
    return (c->scratch = memory_open(c, c->body_bytes)) && good;
}

int bft_core_open(struct bft_core *c, const struct bft_core_options *o, struct err *e)
{
    *c = (struct bft_core){.opt = *o, .bytes = sizeof(*c)};
    c->quorum = o->scope.faulty + 1;
    c->votes = o->life == 0;
    c->timeout = o->view_ns;
    for (uint32_t p = 0; p < o->scope.members; p++)
        bft_automaton_init(&c->peer[p].automaton, p, 0);
    bft_automaton_init(&c->said, o->rank, o->life);
    bft_automaton_init(&c->peer[o->rank].automaton, o->rank, o->life);
    for (uint64_t s = 0; s < BFT_SLOTS; s++)
        c->slot[s].slot = s;
    return open_memory(c) ? 0 : err_set(e, ERR_NOMEM, "group: no memory for a log among liars");
}

void bft_core_close(struct bft_core *c)
{
    for (uint32_t i = 0; i < BFT_SLOTS; i++)
        for (uint32_t v = 0; v < BFT_VALUES; v++)
            free(c->slot[i].value[v].data);
    for (uint32_t p = 0; p < c->opt.scope.members; p++) {
        free(c->peer[p].newest.state);
        free(c->peer[p].vouched.state);
    }
    free(c->scratch);
}

/* ---- speaking ---- */

enum { KEPT_FOR_STATES = 2 }; /* broadcasts of the half window */

bool bft_say(struct bft_core *c, uint32_t bytes, bool last)
{
    uint64_t under_way = c->said_place - c->vouched_place;
    if (!last && under_way + KEPT_FOR_STATES >= c->opt.half)
        return false;
    if (c->opt.calls->say(c->opt.ctx, c->scratch, bytes) != 0)
        return false;
    c->said_place++;
    CHECK(bft_automaton_hear(&c->said, &c->opt.scope, c->scratch));
    return true;
}

/* ---- hearing ---- */

void bft_core_depart(struct bft_core *c, uint32_t sender, const char *why)
{
    CHECK(sender != c->opt.rank);
    c->peer[sender].automaton.fault = why;
    c->opt.calls->departed(c->opt.ctx, sender, why);
}

void bft_core_hear(struct bft_core *c, uint32_t sender, uint64_t key, struct digest digest,
                   const void *body, uint32_t bytes)
{
    struct bft_automaton *a = &c->peer[sender].automaton;
    const struct bft_head *h = body;
    bool bound = a->names > 0;
    if (a->fault)
        return;
    c->peer[sender].heard = key;
    if (!bft_automaton_hear(a, &c->opt.scope, body)) {
        bft_core_depart(c, sender, a->fault);
        return;
    }
    if (h->kind == BFT_PROPOSE)
        bft_slots_propose(c, body, bound);
    else if (h->kind == BFT_COMMIT)
        bft_slots_commit(c, body);
    else if (h->kind == BFT_STATE)
        bft_view_heard_state(c, sender, key, digest, body, bytes);
    else if (h->view > c->view) /* f+1 are there */
        bft_view_enter(c, h->view);
}

/* ---- frames ---- */

static bool wants_certify(const struct bft_core *c, const struct bft_frame *f)
{
    const struct bft_slot *s = bft_slot_find(c, f->number);
    uint32_t r = f->mark.rank;
    return s && f->number >= c->stable.slot && f->key + 1 > s->certify[r].view_1 &&
           f->key != UINT64_MAX && f->mark.life >= c->life[r];
}

static bool lacks_mark(const struct bft_core *c, const struct bft_standing *s,
                       const struct bft_frame *f)
{
    return s->there && s->key == f->key && digest_equal(s->digest, f->name) &&
           !(s->marked & 1U << f->mark.rank) && f->mark.life >= c->life[f->mark.rank];
}

static bool wants_vouch(const struct bft_core *c, const struct bft_frame *f)
{
    if (f->rank >= c->opt.scope.members)
        return false;
    const struct bft_peer *p = &c->peer[f->rank];
    return lacks_mark(c, &p->newest, f) || lacks_mark(c, &p->vouched, f);
}

static bool wants_claim(const struct bft_core *c, const struct bft_frame *f)
{
    const struct bft_checkpoint *at = (const void *)f->data;
    const struct bft_peer *p = &c->peer[f->mark.rank];
    if (at->slot <= c->stable.slot || at->slot <= c->ahead.slot)
        return false;
    for (uint32_t i = 0; i < BFT_CLAIMS; i++)
        if (p->claim[i].there && memcmp(&p->claim[i].at, at, sizeof(*at)) == 0)
            return false;
    return true;
}

static bool wants_join(const struct bft_core *c, const struct bft_frame *f)
{
    const struct bft_peer *p = &c->peer[f->mark.rank];
    return f->mark.life > c->life[f->mark.rank] && f->mark.life <= UINT16_MAX &&
           (!p->joins || f->mark.life > p->join.life);
}

static bool wants_jump(const struct bft_core *c, const struct bft_vouched *v, uint32_t bytes)
{
    if (bft_vouched_fault(&c->opt.scope, v, bytes) != NULL || v->rank == c->opt.rank ||
        v->key >> NEB_LIFE_SHIFT != c->life[v->rank])
        return false;
    for (uint32_t i = 0; i < v->marks; i++)
        if (v->mark[i].life < c->life[v->mark[i].rank])
            return false;
    return !c->peer[v->rank].vouched.there || v->key > c->peer[v->rank].vouched.key;
}

/* What only who is lapped needs is looked at by whoever holds the core: see bft_store.c. */
bool bft_core_wants(const struct bft_core *c, uint32_t from, const struct bft_frame *f,
                    uint32_t bytes)
{
    if (f->mark.rank >= c->opt.scope.members)
        return false;
    switch (f->kind) {
    case BFT_FRAME_CERTIFY:
        return f->mark.rank == from && wants_certify(c, f);
    case BFT_FRAME_VOUCH:
        return f->mark.rank == from && wants_vouch(c, f);
    case BFT_FRAME_CHECKPOINT:
        return bytes == sizeof(struct bft_checkpoint) && wants_claim(c, f);
    case BFT_FRAME_JOIN:
        return wants_join(c, f);
    case BFT_FRAME_VOUCHED:
        return wants_jump(c, (const void *)f->data, bytes);
    default:
        return f->kind == BFT_FRAME_VALUE || f->kind == BFT_FRAME_DECIDED ||
               f->kind == BFT_FRAME_BEAT || f->kind == BFT_FRAME_ASK_VALUE ||
               f->kind == BFT_FRAME_ASK_VOUCHED;
    }
}

static void take_value(struct bft_core *c, const struct bft_frame *f, uint32_t bytes)
{
    struct bft_slot *s = bft_slot_of(c, f->number);
    if (s == NULL || bytes == 0 || bytes > c->opt.batch_bytes || !bft_batch_fits(f->data, bytes))
        return;
    struct digest name = bft_name_of(f->data, bytes);
    if (bft_value_wanted(c, s, name))
        bft_value_put(c, s, name, f->data, bytes);
}

static void give_value(struct bft_core *c, uint32_t to, const struct bft_frame *f)
{
    const struct bft_slot *s = bft_slot_find(c, f->number);
    const struct bft_value *v = s ? bft_value_of(s, f->name) : NULL;
    if (v)
        c->opt.calls->tell(
            c->opt.ctx, to,
            &(struct bft_frame){.kind = BFT_FRAME_VALUE, .number = f->number, .name = f->name},
            v->data, v->bytes);
}

static void give_vouched(struct bft_core *c, uint32_t to, const struct bft_frame *f)
{
    if (f->rank >= c->opt.scope.members || !c->peer[f->rank].vouched.there ||
        c->peer[f->rank].vouched.key < f->key)
        return;
    uint32_t bytes = bft_vouched_pack(c, f->rank, c->scratch);
    if (bytes > 0)
        c->opt.calls->tell(c->opt.ctx, to, &(struct bft_frame){.kind = BFT_FRAME_VOUCHED},
                           c->scratch, bytes);
}

static void take_join(struct bft_core *c, const struct bft_mark *m)
{
    if (m->life > c->life[m->rank]) {
        c->peer[m->rank].join = *m;
        c->peer[m->rank].joins = true;
        c->peer[m->rank].joined_view_1 = 0;
    }
}

void bft_core_frame(struct bft_core *c, uint32_t from, const struct bft_frame *f, uint32_t bytes)
{
    switch (f->kind) {
    case BFT_FRAME_CERTIFY:
        bft_slots_certify(c, f);
        break;
    case BFT_FRAME_VOUCH:
        bft_view_vouch(c, f);
        break;
    case BFT_FRAME_CHECKPOINT:
        bft_checkpoint_claim(c, f);
        break;
    case BFT_FRAME_JOIN:
        take_join(c, &f->mark);
        break;
    case BFT_FRAME_VOUCHED:
        bft_view_jump(c, (const void *)f->data);
        break;
    case BFT_FRAME_VALUE:
        take_value(c, f, bytes);
        break;
    case BFT_FRAME_DECIDED:
        bft_slots_claim(c, from, f);
        break;
    case BFT_FRAME_BEAT:
        c->peer[from].applied = f->number;
        break;
    case BFT_FRAME_ASK_VALUE:
        give_value(c, from, f);
        break;
    case BFT_FRAME_ASK_VOUCHED:
        give_vouched(c, from, f);
        break;
    default:
        break;
    }
}

/* ---- stepping ---- */

static void tell_joins(struct bft_core *c)
{
    for (uint32_t p = 0; p < c->opt.scope.members; p++)
        if (c->peer[p].joins)
            c->opt.calls->tell(c->opt.ctx, BFT_ALL,
                               &(struct bft_frame){.kind = BFT_FRAME_JOIN, .mark = c->peer[p].join},
                               NULL, 0);
    if (!c->votes && !c->peer[c->opt.rank].joins)
        c->opt.calls->sign(c->opt.ctx, &(struct bft_frame){.kind = BFT_FRAME_JOIN}, NULL, 0);
}

static void beat(struct bft_core *c)
{
    c->opt.calls->tell(
        c->opt.ctx, BFT_ALL,
        &(struct bft_frame){.kind = BFT_FRAME_BEAT, .key = c->view, .number = c->applied}, NULL, 0);
    tell_joins(c);
    bft_slots_beat(c);
    bft_view_beat(c);
    bft_checkpoint_beat(c);
}

int bft_core_step(struct bft_core *c, uint64_t now_ns)
{
    int work = 0;
    if (c->broken)
        return 0;
    if (now_ns >= c->beat_at) {
        c->beat_at = now_ns + c->opt.beat_ns;
        beat(c);
    }
    work += bft_slots_step(c);
    work += bft_view_step(c, now_ns);
    if (bft_may_speak(c))
        work += bft_lead_step(c);
    return work;
}

uint64_t bft_core_next_ns(const struct bft_core *c)
{
    uint64_t next = c->beat_at;
    next = c->deadline ? min_u64(next, c->deadline) : next;
    next = c->censored_at ? min_u64(next, c->censored_at) : next;
    return c->complaint_at ? min_u64(next, c->complaint_at) : next;
}
