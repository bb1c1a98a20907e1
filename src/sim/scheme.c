#include "sim/scheme.h"

#include "agree/bft_automaton.h"
#include "sim/sim_signer.h"

#include <stdlib.h>
#include <string.h>

enum {
    BODY_MAX = 32 << 10,
    BATCH_MAX = 2048,
    SAID_MAX = NEB_WINDOW_MAX,
    THINKS_PER_1000 = 300, /* rounds; if it floods those whom it aims at they hear nothing */
    AGAIN_PER_1000 = 50,   /* things that it has signed before, of those that it thinks of */
    AGAIN_NS = 40000,      /* what it has said it says to all again */
    FALSE_PER_1000 = 3,    /* of what nobody would take, so much is said all the same */
    HELD_UP_NS_MAX = 150000,
    LONG_NS_MIN = 100000,
    LONG_NS_MAX = 1500000,
    VIEWS_AHEAD = 3,
};

struct said {
    uint64_t key;
    struct digest digest;
    uint32_t bytes;
    void *body;
    uint64_t told_ns;
    uint32_t to; /* bits of who gets the body */
};

struct scheme {
    struct scheme_options opt;
    struct bft_scope scope;
    struct rng rng;
    struct bft_automaton seen; /* how those see it whom it aims at */
    struct said said[SAID_MAX];
    uint64_t places; /* broadcasts so far */
    uint64_t now_ns;
    uint32_t burst; /* STATEs that it says, so that somebody is lapped */
    bool scripted;  /* it goes for one thing first, step by step */
    uint32_t stage;
    uint64_t alone_slot; /* of a value that it alone has certified */
    struct digest alone_name, other_name;
    uint32_t victim; /* who is shown the other one */
    uint32_t alone_bytes;
    _Alignas(8) unsigned char alone[BATCH_MAX];
    _Alignas(8) unsigned char body[BODY_MAX];
};

static bool chance(struct scheme *s, uint64_t of_thousand)
{
    return rng_below(&s->rng, 1000) < of_thousand;
}

static bool plans(const struct scheme *s, enum hostile_strategy st)
{
    return s->opt.strategy == st;
}

/* ---- what it says ---- */

static void tell(struct scheme *s, uint32_t ranks, const struct bft_frame *f, const void *data,
                 uint32_t bytes)
{
    for (uint32_t p = 0; p < s->scope.members; p++)
        if (p != s->opt.rank && ranks >> p & 1)
            s->opt.calls->talk(s->opt.ctx, p, f, data, bytes);
}

static void tell_body(struct scheme *s, struct said *w)
{
    const struct bft_frame f = {.kind = BFT_FRAME_BODY, .rank = s->opt.rank, .key = w->key};
    tell(s, w->to, &f, w->body, w->bytes);
    w->told_ns = s->now_ns;
}

static uint32_t draw_ranks(struct scheme *s)
{
    if (!plans(s, HOSTILE_withhold) && rng_below(&s->rng, 8))
        return UINT32_MAX;
    return rng_below(&s->rng, 2) ? 1U << rng_below(&s->rng, s->scope.members)
                                 : (uint32_t)rng_u64(&s->rng);
}

/* Broadcasts it, if those who see it as it wants would take it, and now and then though they would not. */
static bool say(struct scheme *s, const void *body, uint32_t bytes)
{
    struct bft_automaton after = s->seen;
    bool taken = bft_body_fault(&s->scope, body, bytes) == NULL &&
                 bft_automaton_hear(&after, &s->scope, body);
    bool all_the_same = s->scripted || chance(s, plans(s, HOSTILE_duplicate) ? 50 : FALSE_PER_1000);
    const struct digest d = digest_of(body, bytes);
    if ((!taken && !all_the_same) || s->opt.calls->say(s->opt.ctx, body, bytes, d) != 0)
        return false;
    struct said *w = &s->said[++s->places % SAID_MAX];
    free(w->body);
    *w = (struct said){.key = neb_key(s->opt.life, s->places),
                       .digest = d,
                       .bytes = bytes,
                       .body = malloc(bytes),
                       .to = draw_ranks(s)};
    CHECK(w->body != NULL);
    memcpy(w->body, body, bytes);
    known_take_body(s->opt.known, s->opt.rank, w->key, body, bytes);
    if (taken)
        s->seen = after;
    tell_body(s, w);
    return true;
}

/* ---- what it signs ---- */

static struct bft_mark sign(struct scheme *s, const struct sign_text *t)
{
    struct bft_mark m = {.rank = t->signer, .life = t->life};
    sim_sign(s->opt.key_seed, t, m.signature);
    known_sign(s->opt.known, t, m.signature);
    return m;
}

static void certify(struct scheme *s, uint64_t view, uint64_t slot, struct digest name)
{
    const struct sign_text t =
        bft_certify_text(&s->scope, s->opt.rank, s->opt.life, view, slot, name);
    const struct bft_frame f = {.kind = BFT_FRAME_CERTIFY,
                                .rank = s->opt.rank,
                                .key = view,
                                .number = slot,
                                .name = name,
                                .mark = sign(s, &t)};
    tell(s, draw_ranks(s), &f, NULL, 0);
}

static bool is_certify(const struct known_thing *t, const void *of)
{
    const struct scheme *s = of;
    return t->role == bft_certify_text(&s->scope, 0, 0, 0, 0, t->digest).role;
}

static bool is_unsigned(const struct known_thing *t, const void *of)
{
    const struct scheme *s = of;
    return is_certify(t, s) && !(t->ranks >> s->opt.rank & 1);
}

/* Everything that anybody certifies; and of something else, if it is out for that. */
static bool plot_certify(struct scheme *s)
{
    bool again = chance(s, AGAIN_PER_1000);
    const struct known_thing *t =
        known_thing(s->opt.known, &s->rng, again ? is_certify : is_unsigned, s);
    if (t == NULL)
        return false;
    struct digest name = t->digest;
    if (plans(s, HOSTILE_duplicate) && chance(s, 300))
        name.word[0]++;
    certify(s, t->number, t->more, name);
    return true;
}

static bool is_state(const struct known_body *b, const void *of)
{
    (void)of;
    return ((const struct bft_head *)b->data)->kind == BFT_STATE;
}

static bool plot_vouch(struct scheme *s)
{
    const struct known_body *b = known_body(s->opt.known, &s->rng, is_state, s);
    if (b == NULL)
        return false;
    const struct sign_text t =
        bft_vouch_text(&s->scope, s->opt.rank, s->opt.life, b->rank, b->key, b->digest);
    if (known_is_signed(s->opt.known, &t) && !chance(s, AGAIN_PER_1000))
        return false;
    const struct bft_frame f = {.kind = BFT_FRAME_VOUCH,
                                .rank = b->rank,
                                .key = b->key,
                                .name = b->digest,
                                .mark = sign(s, &t)};
    tell(s, draw_ranks(s), &f, NULL, 0);
    return true;
}

static bool plot_checkpoint(struct scheme *s)
{
    const struct known_body *b = known_body(s->opt.known, &s->rng, is_state, s);
    if (b == NULL)
        return false;
    const struct bft_checkpoint *c = &((const struct bft_state *)b->data)->stable;
    const struct sign_text t = bft_checkpoint_text(&s->scope, s->opt.rank, s->opt.life, c);
    const struct bft_frame f = {
        .kind = BFT_FRAME_CHECKPOINT, .rank = s->opt.rank, .mark = sign(s, &t)};
    tell(s, draw_ranks(s), &f, c, sizeof(*c));
    return true;
}

/* ---- PROPOSE ---- */

static bool plot_propose(struct scheme *s)
{
    struct bft_propose *p = (void *)s->body;
    uint32_t bytes = 0;
    *p = (struct bft_propose){.head = {.kind = BFT_PROPOSE, .view = s->seen.view},
                              .slot = s->seen.next,
                              .name = bft_name_nothing()};
    if (s->seen.view % s->scope.members != s->opt.rank || s->seen.next == BFT_NO_SLOT)
        return false;
    bool free_choice = s->seen.names == 0 || chance(s, 20);
    if (!free_choice)
        p->name = s->seen.name[0];
    if (free_choice && chance(s, 850)) {
        bytes = s->opt.calls->batch(s->opt.ctx, &s->rng, p->value, BATCH_MAX);
        if (bytes > 0)
            p->name = bft_name_of(p->value, bytes);
    } else if (bft_name_has_bytes(p->name)) {
        /* It was proposed before, by somebody: the same bytes. */
        for (uint32_t i = 0; i < KNOWN_BODIES_MAX && bytes == 0; i++) {
            const struct bft_propose *o = s->opt.known->body[i].data;
            if (o && o->head.kind == BFT_PROPOSE && digest_equal(o->name, p->name)) {
                bytes = o->head.count;
                memcpy(p->value, o->value, padded(bytes));
            }
        }
    } else if (bft_name_is_join(p->name)) {
        return false;
    }
    p->head.count = bytes;
    if (bft_name_has_bytes(p->name) && bytes == 0)
        return false;
    if (!say(s, p, (uint32_t)(sizeof(*p) + padded(bytes))))
        return false;
    certify(s, p->head.view, p->slot, p->name);
    return true;
}

/* ---- COMMIT ---- */

/* Signatures of others that are of something else, or of nobody. */
static void forge_marks(struct scheme *s, const struct known_thing *t, struct bft_mark *m)
{
    for (uint32_t i = 0; i < bft_certificate_marks(&s->scope); i++) {
        uint32_t rank = plans(s, HOSTILE_duplicate) && chance(s, 500)
                            ? s->opt.rank
                            : (s->opt.rank + i) % s->scope.members;
        struct sign_text x = bft_certify_text(&s->scope, rank, 0, t->number, t->more, t->digest);
        m[i] = (struct bft_mark){.rank = rank};
        if (rank != s->opt.rank)
            hostile_elsewhere(&s->rng, s->opt.rank, &x);
        sim_sign(s->opt.key_seed, &x, m[i].signature);
    }
}

static bool commits(const struct known_thing *t, const void *of)
{
    const struct scheme *s = of;
    struct bft_mark m[BFT_QUORUM_MAX];
    bool any_role = plans(s, HOSTILE_forge);
    return (any_role || is_certify(t, s)) && known_marks(t, bft_certificate_marks(&s->scope), m);
}

/* With a certificate, wherever it is from; or with one that is none. */
static bool plot_commit(struct scheme *s)
{
    struct bft_commit *c = (void *)s->body;
    uint32_t count = bft_certificate_marks(&s->scope);
    const struct known_thing *t = known_thing(s->opt.known, &s->rng, commits, s);
    if (t == NULL)
        return false;
    struct known_thing of = *t;
    *c = (struct bft_commit){.head = {.kind = BFT_COMMIT, .count = count}};
    known_marks(t, count, c->mark);
    bool forged = (plans(s, HOSTILE_forge) || plans(s, HOSTILE_duplicate)) && chance(s, 30);
    if (forged) {
        of.digest.word[0] ^= 1;
        forge_marks(s, &of, c->mark);
    }
    c->head.view = of.number;
    c->slot = of.more;
    c->name = of.digest;
    bool said = say(s, c, (uint32_t)(sizeof(*c) + count * sizeof(c->mark[0])));
    if (said && plans(s, HOSTILE_forge))
        for (uint32_t i = 0; i < count; i++)
            tell(s, UINT32_MAX,
                 &(struct bft_frame){.kind = BFT_FRAME_CERTIFY,
                                     .rank = c->mark[i].rank,
                                     .key = c->head.view,
                                     .number = c->slot,
                                     .name = c->name,
                                     .mark = c->mark[i]},
                 NULL, 0);
    return said;
}

/* ---- STATE ---- */

/* The furthest checkpoint that somebody has shown to be stable. */
static const struct bft_state *stable_of(const struct scheme *s)
{
    const struct bft_state *best = NULL;
    for (uint32_t i = 0; i < KNOWN_BODIES_MAX; i++) {
        const struct bft_state *st = s->opt.known->body[i].data;
        if (st && st->head.kind == BFT_STATE && (!best || st->stable.slot > best->stable.slot))
            best = st;
    }
    return best;
}

static uint32_t put_locks(struct scheme *s, struct bft_state *st, uint64_t hides)
{
    uint32_t count = 0;
    for (uint64_t slot = st->stable.slot; slot < st->stable.slot + BFT_SLOTS; slot++) {
        const struct bft_lock *l = bft_automaton_lock(&s->seen, slot);
        if (l && !chance(s, hides))
            st->lock[count++] = *l;
    }
    return count;
}

/* Of a thousand locks it hides so many. */
static bool say_state(struct scheme *s, uint64_t view, uint64_t hides)
{
    struct bft_state *st = (void *)s->body;
    const struct bft_state *from = stable_of(s);
    bool same = view == s->seen.view;
    *st = (struct bft_state){.head = {.kind = BFT_STATE, .view = view},
                             .next = same ? s->seen.next : BFT_NO_SLOT};
    if (from && from->stable.slot >= s->seen.stable) {
        st->stable = from->stable;
        st->marks = from->marks;
    }
    st->locks = put_locks(s, st, hides);
    st->names = same && st->next != BFT_NO_SLOT ? s->seen.names : 0;
    memcpy((void *)(uintptr_t)bft_state_names(st), s->seen.name, st->names * sizeof(struct digest));
    if (st->marks)
        memcpy((void *)(uintptr_t)bft_state_marks(st), bft_state_marks(from),
               st->marks * sizeof(struct bft_mark));
    const unsigned char *end = (const void *)(bft_state_marks(st) + st->marks);
    st->head.count = (uint32_t)(end - s->body - (ptrdiff_t)sizeof(*st));
    if (!say(s, st, (uint32_t)(end - s->body)))
        return false;
    plot_vouch(s);
    return true;
}

/* Into a view that it leads, soon, or the next; or where it is. */
static bool plot_state(struct scheme *s)
{
    uint64_t view = s->seen.view;
    if (chance(s, plans(s, HOSTILE_panic) ? 700 : 250))
        view += rng_range(&s->rng, 1, VIEWS_AHEAD);
    return say_state(s, view, plans(s, HOSTILE_state) ? 500 : 2);
}

/* ---- NEW-VIEW ---- */

static bool is_state_thing(const struct known_thing *t, const void *of)
{
    const struct scheme *s = of;
    struct bft_mark m[BFT_QUORUM_MAX];
    return t->role == bft_vouch_text(&s->scope, 0, 0, 0, 0, t->digest).role &&
           known_marks(t, s->scope.faulty + 1, m);
}

static const struct known_body *body_of(const struct scheme *s, const struct known_thing *t)
{
    for (uint32_t i = 0; i < KNOWN_BODIES_MAX; i++) {
        const struct known_body *b = &s->opt.known->body[i];
        if (b->data && b->rank == t->more && b->key == t->number &&
            digest_equal(b->digest, t->digest))
            return b;
    }
    return NULL;
}

/* f+1 STATEs of the view that are vouched for, of different members, whichever come first. */
static bool plot_new_view(struct scheme *s)
{
    struct bft_new_view *n = (void *)s->body;
    unsigned char *at = n->states;
    uint32_t seen = 0, count = 0;
    if (s->seen.view == 0 || s->seen.view % s->scope.members != s->opt.rank ||
        s->seen.next != BFT_NO_SLOT)
        return false;
    for (uint32_t i = 0; i < 40 && count <= s->scope.faulty; i++) {
        const struct known_thing *t = known_thing(s->opt.known, &s->rng, is_state_thing, s);
        const struct known_body *b = t ? body_of(s, t) : NULL;
        const struct bft_head *h = b ? b->data : NULL;
        if (!h || h->kind != BFT_STATE || h->view != s->seen.view || seen & 1U << b->rank)
            continue;
        struct bft_vouched *v = (void *)at;
        *v = (struct bft_vouched){
            .rank = b->rank, .bytes = b->bytes, .key = b->key, .marks = s->scope.faulty + 1};
        known_marks(t, v->marks, v->mark);
        memcpy((void *)(uintptr_t)bft_vouched_state(v), b->data, b->bytes);
        at += bft_vouched_bytes(v);
        seen |= 1U << b->rank;
        count++;
    }
    n->head = (struct bft_head){
        .kind = BFT_NEW_VIEW, .count = (uint32_t)(at - n->states), .view = s->seen.view};
    return count > s->scope.faulty && say(s, n, (uint32_t)(at - s->body));
}

/* ---- plans ---- */

/* Who jumps behind its last STATE that was vouched for: that is how it wants to be seen now. */
static bool plot_rejump(struct scheme *s)
{
    const struct bft_state *best = NULL;
    uint64_t key = 0;
    for (uint32_t i = 0; i < KNOWN_THINGS_MAX; i++) {
        const struct known_thing *t = &s->opt.known->thing[i];
        const struct known_body *b =
            t->ranks && is_state_thing(t, s) && t->more == s->opt.rank ? body_of(s, t) : NULL;
        if (b && b->key >= key && b->key >> NEB_LIFE_SHIFT == s->opt.life) {
            key = b->key;
            best = b->data;
        }
    }
    if (best && !s->seen.fault)
        bft_automaton_jump(&s->seen, best);
    return false;
}

/* Holds somebody up, and says so much meanwhile that it has to jump. */
static void plot_lap(struct scheme *s)
{
    uint32_t victim =
        (s->opt.rank + (uint32_t)rng_range(&s->rng, 1, s->scope.members - 1)) % s->scope.members;
    s->opt.calls->delay(s->opt.ctx, victim, rng_below(&s->rng, HELD_UP_NS_MAX));
    s->burst = s->opt.window + 2;
}

static bool plot_beat(struct scheme *s)
{
    const struct bft_frame f = {
        .kind = BFT_FRAME_BEAT,
        .key = plans(s, HOSTILE_huge) ? UINT64_MAX - rng_below(&s->rng, 3) : s->seen.view,
        .number = plans(s, HOSTILE_huge) ? rng_u64(&s->rng) : s->seen.stable,
        .rank = chance(s, 100) ? (uint32_t)rng_u64(&s->rng) : 0};
    tell(s, UINT32_MAX, &f, NULL, 0);
    return true;
}

/* ---- scripts: the shortest ways to what must not happen ---- */

static uint32_t draw_victim(struct scheme *s)
{
    uint32_t victim;
    do
        victim = (uint32_t)rng_below(&s->rng, s->scope.members);
    while (victim == s->opt.rank || victim == 0);
    return victim;
}

static bool is_first(const struct known_thing *t, const void *of)
{
    return is_certify(t, of) && t->number == 0 && (t->ranks & 1);
}

/* So many of the others that those who are left decide with who lies stand still between PROPOSE and COMMIT, until their time is up. */
static bool hold_up_some(struct scheme *s)
{
    if (known_thing(s->opt.known, &s->rng, is_first, s) == NULL)
        return false;
    for (uint32_t i = 0; i < s->scope.faulty; i++)
        s->opt.calls->delay(s->opt.ctx, draw_victim(s),
                            rng_range(&s->rng, LONG_NS_MIN, LONG_NS_MAX));
    return true;
}

/* As the first leader it has something decided by some, and then proposes again, to those who missed that and jumped. */
static bool script_jump(struct scheme *s)
{
    if (s->opt.rank != 0)
        return false;
    switch (s->stage) {
    case 0:
        s->opt.calls->delay(s->opt.ctx, draw_victim(s),
                            rng_range(&s->rng, LONG_NS_MIN, LONG_NS_MAX));
        s->stage++;
        return true;
    case 1:
        s->stage += plot_propose(s);
        return true;
    case 2:
        plot_certify(s);
        plot_commit(s);
        s->stage += bft_automaton_lock(&s->seen, 0) != NULL;
        return true;
    case 3:
        s->burst = s->opt.window + 2;
        s->stage++;
        return true;
    case 4:
        plot_vouch(s);
        plot_rejump(s);
        s->stage += s->seen.next == 0;
        return s->seen.next == 0 || !chance(s, 20);
    default:
        plot_propose(s);
        plot_certify(s);
        return !chance(s, 20);
    }
}

/* Promises the view that it leads next and commits in the first one, or the other way round with a STATE that hides it; and
 * begins its view with that and the STATE of somebody who has missed it, too. */
static bool script_below(struct scheme *s, bool late)
{
    if (s->opt.rank == 0)
        return false;
    plot_certify(s);
    plot_vouch(s);
    switch (s->stage) {
    case 0:
        s->stage += hold_up_some(s);
        return true;
    case 1:
        s->stage += late ? say_state(s, s->opt.rank, 0) : plot_commit(s);
        return true;
    case 2:
        s->stage += late ? plot_commit(s) : say_state(s, s->opt.rank, 1000);
        return true;
    default:
        s->stage += plot_new_view(s);
        return s->stage < 4 && !chance(s, 5);
    }
}

/* Where nobody has anything yet. */
static uint64_t next_slot(struct scheme *s)
{
    uint64_t slot = 0;
    for (uint32_t i = 0; i < KNOWN_THINGS_MAX; i++) {
        const struct known_thing *t = &s->opt.known->thing[i];
        if (t->ranks && is_certify(t, s) && t->more >= slot)
            slot = t->more + 1;
    }
    return slot + rng_below(&s->rng, 3);
}

static bool say_alone(struct scheme *s)
{
    struct bft_commit *c = (void *)s->body;
    uint32_t count = bft_certificate_marks(&s->scope);
    s->alone_bytes = s->opt.calls->batch(s->opt.ctx, &s->rng, s->alone, BATCH_MAX);
    if (s->alone_bytes == 0)
        return false;
    s->alone_slot = next_slot(s);
    s->alone_name = bft_name_of(s->alone, s->alone_bytes);
    *c = (struct bft_commit){.head = {.kind = BFT_COMMIT, .count = count, .view = s->seen.view},
                             .slot = s->alone_slot,
                             .name = s->alone_name};
    const struct sign_text t = bft_certify_text(&s->scope, s->opt.rank, s->opt.life, s->seen.view,
                                                s->alone_slot, s->alone_name);
    for (uint32_t i = 0; i < count; i++)
        c->mark[i] = sign(s, &t);
    return say(s, c, (uint32_t)(sizeof(*c) + count * sizeof(c->mark[0])));
}

/* A certificate of nobody but itself, for what nobody has proposed; whoever believes it gets the value, too. */
static bool script_alone(struct scheme *s)
{
    if (s->stage == 0)
        s->stage += say_alone(s);
    if (s->stage == 0 || !chance(s, 100))
        return true;
    const struct bft_frame f = {
        .kind = BFT_FRAME_VALUE, .number = s->alone_slot, .name = s->alone_name};
    tell(s, UINT32_MAX, &f, s->alone, s->alone_bytes);
    return !chance(s, 50);
}

/* Somebody's request to JOIN, as one of its next life. */
static bool script_domain(struct scheme *s)
{
    for (uint32_t i = 0; i < KNOWN_THINGS_MAX; i++) {
        const struct known_thing *t = &s->opt.known->thing[i];
        for (uint32_t p = 0; t->ranks && p < s->scope.members; p++) {
            struct bft_frame f = {.kind = BFT_FRAME_JOIN, .rank = p, .mark = t->mark[p]};
            if (!(t->ranks >> p & 1) || t->number != 0 || t->more != 0 || !chance(s, 100))
                continue;
            f.mark.life += (uint32_t)rng_below(&s->rng, 3);
            tell(s, UINT32_MAX, &f, NULL, 0);
        }
    }
    return false;
}

static uint32_t put_propose(void *out, const void *batch, uint32_t bytes)
{
    struct bft_propose *p = out;
    *p = (struct bft_propose){.head = {.kind = BFT_PROPOSE, .count = bytes},
                              .name = bft_name_of(batch, bytes)};
    memcpy(p->value, batch, bytes);
    return (uint32_t)(sizeof(*p) + bytes);
}

static void certify_to(struct scheme *s, uint32_t ranks, struct digest name)
{
    const struct sign_text t = bft_certify_text(&s->scope, s->opt.rank, s->opt.life, 0, 0, name);
    const struct bft_frame f = {
        .kind = BFT_FRAME_CERTIFY, .rank = s->opt.rank, .name = name, .mark = sign(s, &t)};
    tell(s, ranks, &f, NULL, 0);
}

/* As the first leader it proposes; where one of them has just taken that it puts other bytes, and certifies to each what it may
 * have read. */
static bool script_swap(struct scheme *s)
{
    _Alignas(8) unsigned char other[BATCH_MAX], body[sizeof(struct bft_propose) + BATCH_MAX];
    if (s->opt.rank != 0 || s->opt.life != 0)
        return false;
    if (s->stage == 0) {
        uint32_t bytes = s->opt.calls->orders(s->opt.ctx, s->alone, other);
        if (bytes == 0)
            return !chance(s, 5);
        s->alone_bytes = put_propose(s->body, s->alone, bytes);
        put_propose(body, other, bytes);
        s->victim = draw_victim(s);
        s->opt.calls->swap(s->opt.ctx, s->victim, s->body, body, s->alone_bytes);
        s->alone_name = bft_name_of(s->alone, bytes);
        s->other_name = bft_name_of(other, bytes);
        s->stage += say(s, s->body, s->alone_bytes);
        return true;
    }
    certify_to(s, ~(1U << s->victim), s->alone_name);
    certify_to(s, 1U << s->victim, s->other_name);
    return !chance(s, 20);
}

/* False: from here on anything goes. */
static bool script(struct scheme *s)
{
    switch (s->opt.strategy) {
    case HOSTILE_jump:
        return script_jump(s);
    case HOSTILE_late:
        return script_below(s, true);
    case HOSTILE_state:
        return script_below(s, false);
    case HOSTILE_duplicate:
        return script_alone(s);
    case HOSTILE_rewrite:
        return script_swap(s);
    default:
        return false;
    }
}

/* ---- rounds of thought ---- */

typedef bool plot(struct scheme *);

static const struct {
    plot *plot;
    uint32_t weight;
    enum hostile_strategy more; /* for whom it is so much more, */
    uint32_t times;
} plots[] = {
    {plot_propose, 30, HOSTILE_jump, 3},   {plot_certify, 20, HOSTILE_duplicate, 3},
    {plot_commit, 20, HOSTILE_late, 4},    {plot_state, 5, HOSTILE_panic, 5},
    {plot_state, 1, HOSTILE_state, 10},    {plot_state, 1, HOSTILE_late, 5},
    {plot_vouch, 15, HOSTILE_state, 2},    {plot_new_view, 20, HOSTILE_state, 2},
    {plot_checkpoint, 5, HOSTILE_none, 1}, {plot_beat, 5, HOSTILE_huge, 5},
    {plot_rejump, 1, HOSTILE_jump, 10},    {script_domain, 1, HOSTILE_forge, 10},
};

enum { PLOTS = sizeof(plots) / sizeof(plots[0]) };

static uint32_t weight_of(const struct scheme *s, uint32_t i)
{
    return plots[i].weight * (plans(s, plots[i].more) ? plots[i].times : 1);
}

static void think(struct scheme *s)
{
    uint32_t sum = 0, i = 0;
    for (uint32_t k = 0; k < PLOTS; k++)
        sum += weight_of(s, k);
    uint64_t pick = rng_below(&s->rng, sum);
    while (pick >= weight_of(s, i))
        pick -= weight_of(s, i++);
    plots[i].plot(s);
}

static void say_again(struct scheme *s)
{
    for (uint32_t i = 0; i < SAID_MAX; i++) {
        struct said *w = &s->said[i];
        if (w->body && s->now_ns - w->told_ns > AGAIN_NS && rng_below(&s->rng, 20) == 0)
            tell_body(s, w);
    }
}

/* ---- rounds ---- */

struct scheme *scheme_open(const struct scheme_options *o)
{
    struct scheme *s = calloc(1, sizeof(*s));
    CHECK(s != NULL);
    s->opt = *o;
    s->scope = o->scope;
    rng_init(&s->rng, o->seed);
    bft_automaton_init(&s->seen, o->rank, o->life);
    s->scripted = chance(s, 600);
    return s;
}

void scheme_close(struct scheme *s)
{
    for (uint32_t i = 0; i < SAID_MAX; i++)
        free(s->said[i].body);
    free(s);
}

void scheme_step(struct scheme *s, uint64_t now_ns)
{
    s->now_ns = now_ns;
    if (s->burst > 0 && say_state(s, s->seen.view, 0))
        s->burst--;
    if (s->burst == 0 && s->scripted)
        s->scripted = script(s);
    if (s->burst == 0 && !s->scripted && chance(s, THINKS_PER_1000))
        think(s);
    if (plans(s, HOSTILE_jump) && s->burst == 0 && chance(s, 5))
        plot_lap(s);
    say_again(s);
}
