/* Views: when to give one up, the STATE that this is said with, and who vouches for it. */
#include "agree/bft_core.h"

#include "base/minmax.h"
#include "base/planted.h"

enum {
    TIMEOUT_DOUBLINGS = 10,
    CENSOR_TIMES = 4, /* time-outs that a message may wait though others are decided */
};

/* ---- our STATE ---- */

static uint32_t pack_locks(const struct bft_core *c, struct bft_state *st)
{
    uint32_t count = 0;
    for (uint64_t slot = c->stable.slot; slot < c->stable.slot + BFT_SLOTS; slot++) {
        const struct bft_lock *l = bft_automaton_lock(&c->said, slot);
        if (l)
            st->lock[count++] = *l;
    }
    return count;
}

static uint32_t pack_state(struct bft_core *c)
{
    struct bft_state *st = (void *)c->scratch;
    bool leads = c->said.view == c->view && c->said.next != BFT_NO_SLOT;
    *st = (struct bft_state){.head = {.kind = BFT_STATE, .view = c->view},
                             .stable = c->stable,
                             .next = leads ? c->said.next : BFT_NO_SLOT,
                             .names = leads ? c->said.names : 0,
                             .marks = c->stable.slot ? c->quorum : 0};
    st->locks = pack_locks(c, st);
    unsigned char *at = (unsigned char *)(st->lock + st->locks);
    memcpy(at, c->said.name, st->names * sizeof(struct digest));
    at += st->names * sizeof(struct digest);
    memcpy(at, c->stable_mark, st->marks * sizeof(struct bft_mark));
    at += st->marks * sizeof(struct bft_mark);
    st->head.count = (uint32_t)(at - (unsigned char *)st->lock);
    return (uint32_t)(at - c->scratch);
}

static int say_state(struct bft_core *c)
{
    if (!bft_say(c, pack_state(c), true))
        return 0;
    c->state_due = false;
    c->state_place = c->said_place;
    return 1;
}

/* Others forget what we said before, and can hear us however far we go on, once this is vouched for. */
static bool state_is_overdue(const struct bft_core *c)
{
    return c->state_place <= c->vouched_place &&
           (c->said_place - c->vouched_place >= max_u64(1, c->opt.half / 2) ||
            c->said.stable < c->stable.slot);
}

/* ---- vouching ---- */

static void sign_vouch(struct bft_core *c, uint32_t sender, const struct bft_standing *s)
{
    if (c->votes && c->opt.calls->sign(c->opt.ctx,
                                       &(struct bft_frame){.kind = BFT_FRAME_VOUCH,
                                                           .rank = sender,
                                                           .key = s->key,
                                                           .name = s->digest},
                                       NULL, 0))
        c->count.vouched++;
}

static void standing_put(struct bft_standing *s, uint64_t key, struct digest digest,
                         const struct bft_state *st, uint32_t bytes)
{
    s->there = true;
    s->key = key;
    s->digest = digest;
    s->bytes = bytes;
    s->marked = 0;
    memcpy(s->state, st, bytes);
}

void bft_view_heard_state(struct bft_core *c, uint32_t sender, uint64_t key, struct digest digest,
                          const struct bft_state *st, uint32_t bytes)
{
    struct bft_peer *p = &c->peer[sender];
    standing_put(&p->newest, key, digest, st, bytes);
    sign_vouch(c, sender, &p->newest);
}

/* Those that count: of the lives that the members are in. */
uint32_t bft_standing_marks(const struct bft_core *c, const struct bft_standing *s,
                            struct bft_mark *out)
{
    uint32_t count = 0;
    for (uint32_t r = 0; s->there && r < c->opt.scope.members && count < c->quorum; r++)
        if ((s->marked & 1U << r) && (s->mark[r].life >= c->life[r] || PLANTED(bft_join_old_state)))
            out[count++] = s->mark[r];
    return count;
}

static bool add_mark(struct bft_standing *s, const struct bft_frame *f)
{
    uint32_t r = f->mark.rank;
    if (!s->there || s->key != f->key || !digest_equal(s->digest, f->name))
        return false;
    s->marked |= 1U << r;
    s->mark[r] = f->mark;
    return true;
}

static void promote(struct bft_core *c, uint32_t rank)
{
    struct bft_peer *p = &c->peer[rank];
    struct bft_standing was = p->vouched;
    p->vouched = p->newest;
    p->newest = was;
    p->newest.there = false;
    if (rank == c->opt.rank) {
        c->vouched_place = p->vouched.key & ((UINT64_C(1) << NEB_LIFE_SHIFT) - 1);
        c->opt.calls->vouched(c->opt.ctx, p->vouched.key);
    }
}

void bft_view_vouch(struct bft_core *c, const struct bft_frame *f)
{
    struct bft_mark marks[BFT_QUORUM_MAX];
    if (f->rank >= c->opt.scope.members)
        return;
    struct bft_peer *p = &c->peer[f->rank];
    add_mark(&p->vouched, f);
    if (add_mark(&p->newest, f) && bft_standing_marks(c, &p->newest, marks) >= c->quorum)
        promote(c, f->rank);
}

uint32_t bft_vouched_pack(const struct bft_core *c, uint32_t rank, void *out)
{
    struct bft_vouched *v = out;
    const struct bft_standing *s = &c->peer[rank].vouched;
    *v = (struct bft_vouched){.rank = rank, .bytes = s->bytes, .key = s->key, .marks = c->quorum};
    if (bft_standing_marks(c, s, v->mark) < c->quorum)
        return 0;
    memcpy(v->mark + v->marks, s->state, s->bytes);
    return bft_vouched_bytes(v);
}

/* f+1 vouch that this is all it has said: what came before need not be heard. */
void bft_view_jump(struct bft_core *c, const struct bft_vouched *v)
{
    struct bft_peer *p = &c->peer[v->rank];
    const struct bft_state *st = bft_vouched_state(v);
    if (p->vouched.there && p->vouched.key >= v->key)
        return;
    standing_put(&p->vouched, v->key, digest_of(st, v->bytes), st, v->bytes);
    for (uint32_t i = 0; i < v->marks; i++) {
        p->vouched.marked |= 1U << v->mark[i].rank;
        p->vouched.mark[v->mark[i].rank] = v->mark[i];
    }
    if (!p->newest.there || p->newest.key <= v->key)
        p->newest.there = false;
    bft_core_catch_up(c, v->rank);
}

void bft_core_catch_up(struct bft_core *c, uint32_t sender)
{
    struct bft_peer *p = &c->peer[sender];
    if (!p->vouched.there || p->vouched.key <= p->heard || p->automaton.fault)
        return; /* nothing to jump over */
    p->heard = p->vouched.key;
    bft_automaton_jump(&p->automaton, p->vouched.state);
    c->count.jumps++;
    c->opt.calls->jump(c->opt.ctx, sender, p->vouched.key);
}

/* ---- which view ---- */

void bft_view_enter(struct bft_core *c, uint64_t view)
{
    CHECK(view >= c->view);
    c->view = view;
    c->state_due = true;
    c->filled = false;
    c->deadline = 0;
    c->complaint_at = 0;
    c->censored_at = 0;
    c->reached_at = 0;
    c->count.views++;
    c->opt.calls->entered(c->opt.ctx, view);
}

static uint64_t view_of(const struct bft_core *c, uint32_t rank)
{
    return rank == c->opt.rank ? c->view : c->peer[rank].automaton.view;
}

/* f+1 members are there, or further. */
static uint64_t view_of_quorum(const struct bft_core *c)
{
    uint64_t best = 0;
    for (uint32_t r = 0; r < c->opt.scope.members; r++) {
        uint32_t count = 0;
        for (uint32_t q = 0; q < c->opt.scope.members; q++)
            count += view_of(c, q) >= view_of(c, r);
        if (count >= c->quorum)
            best = max_u64(best, view_of(c, r));
    }
    return best;
}

static bool work_is_left(const struct bft_core *c)
{
    for (uint64_t slot = c->applied; slot < c->stable.slot + BFT_SLOTS; slot++) {
        const struct bft_slot *s = bft_slot_find(c, slot);
        if (s && (s->proposed_1 > 0 || s->due_1 > 0 || bft_automaton_lock(&c->said, slot)))
            return true;
    }
    for (uint32_t p = 0; p < c->opt.scope.members; p++)
        if (c->peer[p].joins && p != c->opt.rank)
            return true;
    return c->opt.calls->pending(c->opt.ctx);
}

/* Somebody has given up on our view, and may be right: who is kept from hearing the others cannot decide, though they do. If it lies we lose a
 * view for a time-out, and time-outs grow. */
static bool somebody_complains(const struct bft_core *c)
{
    for (uint32_t p = 0; p < c->opt.scope.members; p++)
        if (p != c->opt.rank && c->peer[p].automaton.fault == NULL && view_of(c, p) > c->view)
            return true;
    return false;
}

/* To the next view, wherever others are: a liar would choose one that it leads. */
static void give_up(struct bft_core *c)
{
    uint64_t most = c->opt.view_ns << TIMEOUT_DOUBLINGS;
    if (!PLANTED(bft_timeout_fixed))
        c->timeout = min_u64(2 * c->timeout, most);
    bft_view_enter(c, c->view + 1);
}

/* Something was applied. Time-outs shrink once for each checkpoint, or they would be too short again at once. */
void bft_view_progress(struct bft_core *c)
{
    c->deadline = 0;
    if (c->applied / BFT_CHECKPOINT_SLOTS > c->halved_at) {
        c->halved_at = c->applied / BFT_CHECKPOINT_SLOTS;
        c->timeout = max_u64(c->opt.view_ns, c->timeout / 2);
    }
}

static void keep_time(struct bft_core *c, uint64_t now_ns)
{
    bool reached = view_of_quorum(c) >= c->view;
    if (!reached || !work_is_left(c))
        c->deadline = 0;
    else if (c->deadline == 0)
        c->deadline = now_ns + c->timeout;
    /* Who is ahead of f+1 others waits for them: if a liar could lead it on, they would never come to where it is. */
    if ((!reached && !PLANTED(bft_led_on)) || !somebody_complains(c))
        c->complaint_at = 0;
    else if (c->complaint_at == 0)
        c->complaint_at = now_ns + c->timeout;
    /* The leader has its time from when f+1 are here. */
    uint64_t since = c->opt.calls->since(c->opt.ctx);
    c->reached_at = !reached ? 0 : c->reached_at ? c->reached_at : now_ns;
    c->censored_at = reached && since && !PLANTED(bft_censored)
                         ? max_u64(since, c->reached_at) + CENSOR_TIMES * c->timeout
                         : 0;
}

/* Nothing is decided, somebody else has given up, or the leader orders what it likes. */
static bool is_time_up(const struct bft_core *c, uint64_t now_ns)
{
    return (c->deadline && now_ns >= c->deadline) ||
           (c->complaint_at && now_ns >= c->complaint_at) ||
           (c->censored_at && now_ns >= c->censored_at);
}

int bft_view_step(struct bft_core *c, uint64_t now_ns)
{
    if (!c->votes)
        return 0;
    uint32_t leader = (uint32_t)(c->view % c->opt.scope.members);
    uint64_t quorum_at = view_of_quorum(c);
    if (quorum_at > c->view)
        bft_view_enter(c, quorum_at);
    else if (c->peer[leader].automaton.fault && c->said.view == c->view && !c->state_due)
        bft_view_enter(c, c->view + 1);
    keep_time(c, now_ns);
    if (is_time_up(c, now_ns))
        give_up(c);
    if (state_is_overdue(c))
        c->state_due = true;
    return c->state_due ? say_state(c) : 0;
}

/* ---- saying it again ---- */

void bft_view_beat(struct bft_core *c)
{
    for (uint32_t p = 0; p < c->opt.scope.members; p++) {
        const struct bft_peer *q = &c->peer[p];
        const struct bft_standing *s = q->newest.there ? &q->newest : &q->vouched;
        if (s->there && (s->marked & 1U << c->opt.rank))
            c->opt.calls->tell(c->opt.ctx, BFT_ALL,
                               &(struct bft_frame){.kind = BFT_FRAME_VOUCH,
                                                   .rank = p,
                                                   .key = s->key,
                                                   .name = s->digest,
                                                   .mark = s->mark[c->opt.rank]},
                               NULL, 0);
        else if (q->newest.there)
            sign_vouch(c, p, &q->newest); /* there was no room for it */
    }
}
