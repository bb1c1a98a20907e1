/* What liars say: mostly what everybody will believe. */
#include "bft_world.h"

#include "base/rng.h"
#include "sim/sim_signer.h"

enum { TRIES = 8, VIEWS = 6 };

static uint64_t below(uint64_t n)
{
    return rng_below(bw.rng, n);
}

static unsigned char scratch[WORLD_BODY];

/* ---- saying what others still believe ---- */

static bool is_believed(const struct world_member *z, const void *body, uint32_t bytes)
{
    struct bft_automaton a = z->phantom;
    return bft_body_fault(&bw.scope, body, bytes) == NULL &&
           bft_automaton_hear(&a, &bw.scope, body);
}

static bool try_say(struct world_member *z, uint32_t bytes)
{
    if (bytes == 0 || (!is_believed(z, scratch, bytes) && (bw.careful || below(400) > 0)))
        return false;
    if (world_say(z->rank, scratch, bytes))
        return false;
    if (is_believed(z, scratch, bytes))
        bft_automaton_hear(&z->phantom, &bw.scope, scratch);
    bw.figures->lies++;
    return true;
}

/* ---- bodies ---- */

static uint32_t make_propose(uint64_t view, uint64_t slot, struct digest name, uint64_t message)
{
    struct bft_propose *p = (void *)scratch;
    *p = (struct bft_propose){.head = {.kind = BFT_PROPOSE, .view = view}, .slot = slot};
    p->name = name;
    if (bft_name_has_bytes(name)) {
        p->head.count = world_batch(message, 0, p->value);
        p->name = bft_name_of(p->value, p->head.count);
    }
    return (uint32_t)sizeof(*p) + p->head.count;
}

static struct digest name_of(uint64_t message)
{
    unsigned char batch[WORLD_BATCH];
    return bft_name_of(batch, world_batch(message, 0, batch));
}

static uint32_t make_commit(const struct cert *c)
{
    struct bft_commit *m = (void *)scratch;
    uint32_t marks = bft_certificate_marks(&bw.scope), count = 0;
    *m = (struct bft_commit){.head = {.kind = BFT_COMMIT, .count = marks, .view = c->view},
                             .slot = c->slot,
                             .name = c->name};
    for (uint32_t r = 0; r < bw.scope.members && count < marks; r++)
        if (c->bits & 1U << r)
            m->mark[count++] = c->mark[r];
    return count == marks ? (uint32_t)(sizeof(*m) + marks * sizeof(m->mark[0])) : 0;
}

static uint32_t finish_state(struct bft_state *st, const struct bft_automaton *a)
{
    bool same = st->head.view == a->view;
    st->next = same ? a->next : BFT_NO_SLOT;
    st->names = same ? a->names : 0;
    struct digest *names = (void *)(st->lock + st->locks);
    memcpy(names, a->name, st->names * sizeof(*names));
    st->head.count = (uint32_t)((unsigned char *)(names + st->names) - (unsigned char *)st->lock);
    return (uint32_t)sizeof(*st) + st->head.count;
}

/* With the locks it has, some, or none. Its checkpoint is the first: those of others' are signed with states. */
static uint32_t make_state(const struct world_member *z, uint64_t view, uint64_t keep)
{
    struct bft_state *st = (void *)scratch;
    *st = (struct bft_state){.head = {.kind = BFT_STATE, .view = view}};
    for (uint64_t slot = 0; slot < BFT_SLOTS; slot++) {
        const struct bft_lock *l = bft_automaton_lock(&z->phantom, slot);
        if (l && below(100) < keep)
            st->lock[st->locks++] = *l;
    }
    return finish_state(st, &z->phantom);
}

static uint32_t add_vouched(unsigned char *at, uint32_t rank, uint32_t life, uint64_t place)
{
    const struct said *s = &bw.log[rank][life]->said[place - 1];
    struct bft_vouched *v = (void *)at;
    *v = (struct bft_vouched){
        .rank = rank, .bytes = s->bytes, .key = neb_key(life, place), .marks = bw.scope.faulty + 1};
    for (uint32_t r = 0, count = 0; r < bw.scope.members && count < v->marks; r++)
        if (s->vouched & 1U << r)
            v->mark[count++] = s->vouch[r];
    memcpy(v->mark + v->marks, s->body, s->bytes);
    return bft_vouched_bytes(v);
}

/* A STATE of a member for the view that f+1 vouch for; 0: none. */
static uint64_t find_state(uint32_t rank, uint32_t life, uint64_t view)
{
    const struct said_log *l = bw.log[rank][life];
    uint64_t found = 0;
    for (uint64_t place = 1; l && place <= l->count; place++) {
        const struct bft_head *h = (const void *)l->said[place - 1].body;
        if (h->kind == BFT_STATE && h->view == view && world_vouched(&l->said[place - 1]) &&
            (found == 0 || below(2)))
            found = place;
    }
    return found;
}

static uint32_t make_new_view(uint64_t view)
{
    struct bft_new_view *n = (void *)scratch;
    unsigned char *at = n->states;
    uint32_t from = (uint32_t)below(bw.scope.members), count = 0;
    for (uint32_t i = 0; i < bw.scope.members && count <= bw.scope.faulty; i++) {
        uint32_t r = (from + i) % bw.scope.members, life = bw.member[r].life;
        uint64_t place = find_state(r, life, view);
        if (place == 0)
            continue;
        at += add_vouched(at, r, life, place);
        count++;
    }
    n->head =
        (struct bft_head){.kind = BFT_NEW_VIEW, .count = (uint32_t)(at - n->states), .view = view};
    return count == bw.scope.faulty + 1 ? (uint32_t)(at - scratch) : 0;
}

/* ---- one lie ---- */

static uint32_t draw_propose(const struct world_member *z)
{
    const struct bft_automaton *a = &z->phantom;
    uint64_t slot = below(4) ? a->next : below(5), message = 1 + below(6);
    if (a->names > 0 && below(8)) {
        for (message = 1; message < bw.messages; message++)
            if (digest_equal(name_of(message), a->name[0]))
                break;
        return make_propose(a->view, slot, a->name[0], message);
    }
    return make_propose(a->view, slot, below(8) ? name_of(1) : bft_name_nothing(), message);
}

static uint32_t draw_commit(void)
{
    return bw.certs ? make_commit(&bw.cert[below(bw.certs)]) : 0;
}

static uint32_t draw_state(const struct world_member *z)
{
    uint64_t view = below(2) ? z->phantom.view + below(2) : below(4);
    return make_state(z, view, below(3) ? 100 : 60);
}

static uint32_t draw_new_view(const struct world_member *z)
{
    uint64_t view = z->rank + bw.scope.members * below(VIEWS / bw.scope.members + 1);
    return make_new_view(view);
}

static uint32_t draw_body(const struct world_member *z)
{
    uint64_t what = below(100);
    if (what < 35)
        return draw_propose(z);
    if (what < 65)
        return draw_commit();
    return what < 85 ? draw_state(z) : draw_new_view(z);
}

/* Its signatures are there for who makes certificates; members are told of them as frames by whoever is asked. */
static void tell_certify(const struct world_member *z, const struct cert *c)
{
    const struct bft_frame f = {.kind = BFT_FRAME_CERTIFY,
                                .key = c->view,
                                .number = c->slot,
                                .name = c->name,
                                .mark = c->mark[z->rank]};
    for (uint32_t p = 0; p < bw.scope.members; p++) {
        struct world_member *m = &bw.member[p];
        if (!m->lies && !m->down && below(4) && bft_core_wants(&m->core, z->rank, &f, 0) &&
            !(m->skips_certify && m->core.view == 0))
            bft_core_frame(&m->core, z->rank, &f, 0);
    }
}

static void certify(const struct world_member *z, const struct cert *c)
{
    world_certify(z->rank, c->view, c->slot, c->name);
    tell_certify(z, c);
}

static void vouch(const struct world_member *z, uint32_t rank, uint64_t place)
{
    const struct said *s = &bw.log[rank][bw.member[rank].life]->said[place - 1];
    uint32_t life = bw.member[rank].life;
    if (((const struct bft_head *)(const void *)s->body)->kind != BFT_STATE)
        return;
    world_vouch(z->rank, rank, life, place);
    const struct bft_frame f = {.kind = BFT_FRAME_VOUCH,
                                .rank = rank,
                                .key = neb_key(life, place),
                                .name = s->digest,
                                .mark = s->vouch[z->rank]};
    for (uint32_t p = 0; p < bw.scope.members; p++) {
        struct world_member *m = &bw.member[p];
        if (!m->lies && !m->down && bft_core_wants(&m->core, z->rank, &f, 0))
            bft_core_frame(&m->core, z->rank, &f, 0);
    }
}

static void vouch_any(const struct world_member *z)
{
    uint32_t rank = (uint32_t)below(bw.scope.members);
    uint32_t count = bw.log[rank][bw.member[rank].life]->count;
    if (count > 0)
        vouch(z, rank, 1 + below(count));
}

/* Says again what was said before a STATE of its own that is vouched for, as who has jumped there would believe it. */
static void rejump(struct world_member *z)
{
    for (uint64_t view = 0; view < VIEWS; view++) {
        uint64_t place = find_state(z->rank, z->life, view);
        if (place == 0 || below(2))
            continue;
        bft_automaton_jump(&z->phantom,
                           (const void *)bw.log[z->rank][z->life]->said[place - 1].body);
    }
}

static void say_any(struct world_member *z)
{
    for (uint32_t i = 0; i < TRIES; i++)
        if (try_say(z, draw_body(z)))
            return;
}

/* ---- what they aim at ---- */

static const struct cert *first_certificate(uint64_t view)
{
    for (uint32_t i = 0; i < bw.certs; i++)
        if (bw.cert[i].view == view &&
            (uint32_t)__builtin_popcount(bw.cert[i].bits) >= bft_certificate_marks(&bw.scope))
            return &bw.cert[i];
    return NULL;
}

/* Liars sign whatever helps. */
static void help(const struct world_member *z)
{
    for (uint32_t i = 0; i < bw.certs; i++)
        certify(z, &bw.cert[i]);
    for (uint32_t r = 0; r < bw.scope.members; r++)
        for (uint64_t k = 1; k <= bw.log[r][bw.member[r].life]->count; k++)
            vouch(z, r, k);
}

static void propose_and_certify(struct world_member *z, uint64_t slot, uint64_t message)
{
    world_say(z->rank, scratch, make_propose(0, slot, name_of(message), message));
    certify(z, world_cert(0, slot, name_of(message)));
    z->stage++;
}

static bool certified(uint64_t slot, uint64_t message)
{
    return (uint32_t)__builtin_popcount(world_cert(0, slot, name_of(message))->bits) >
           bw.scope.faulty;
}

static void aim_jump(struct world_member *z)
{
    struct bft_state *st = (void *)scratch;
    const struct said_log *l = bw.log[z->rank][0];
    if (z->stage == 0)
        propose_and_certify(z, 0, 1);
    else if (z->stage == 1 && certified(0, 1)) {
        world_say(z->rank, scratch, make_commit(world_cert(0, 0, name_of(1))));
        z->stage = 2;
    } else if (z->stage == 2) {
        *st = (struct bft_state){.head = {.kind = BFT_STATE}, .locks = 1};
        st->lock[0] = (struct bft_lock){.name = name_of(1)};
        world_say(z->rank, scratch, finish_state(st, &(struct bft_automaton){.next = 1}));
        z->stage = 3;
    } else if (z->stage == 3 && world_vouched(&l->said[2]))
        propose_and_certify(z, 0, 2);
}

static void aim_below(struct world_member *z, bool late)
{
    const struct cert *c = first_certificate(0);
    if (z->stage == (late ? 0 : 1)) {
        world_say(z->rank, scratch, make_state(z, 1, 0));
        z->stage++;
    } else if (z->stage == (late ? 1 : 0) && c) {
        world_say(z->rank, scratch, make_commit(c));
        z->stage++;
    } else if (z->stage == 2 && z->rank == 1) {
        uint32_t bytes = make_new_view(1);
        if (bytes && world_say(z->rank, scratch, bytes) == NULL)
            z->stage++;
    }
}

/* Asks for the JOIN of a life that nobody is in. */
static void aim_domain(const struct world_member *z)
{
    for (uint32_t r = 0; r < bw.scope.members; r++) {
        struct bft_frame f = {.kind = BFT_FRAME_JOIN, .mark = bw.join[r]};
        f.mark.life++;
        if (bw.join[r].life > 0)
            world_send(z->rank, &f, NULL, 0);
    }
}

/* Has locked what nobody but itself has certified, and gives it to who asks. */
static void aim_cert(struct world_member *z)
{
    unsigned char batch[WORLD_BATCH];
    uint64_t slot = z->stage ? below(3) : 0;
    struct digest name = name_of(7);
    struct cert c = {.slot = slot, .name = name};
    const struct sign_text t = bft_certify_text(&bw.scope, z->rank, 0, 0, slot, name);
    c.bits = 1U << z->rank;
    c.mark[z->rank] = (struct bft_mark){.rank = z->rank};
    sim_sign(bw.seed, &t, c.mark[z->rank].signature);
    const struct bft_frame f = {.kind = BFT_FRAME_VALUE, .number = slot, .name = name};
    uint32_t bytes = world_batch(7, 0, batch);
    uint32_t said = make_commit(&c);
    if (said && z->stage == 0 && below(3) == 0) {
        world_say(z->rank, scratch, said);
        z->stage = 1;
    } else if (below(3) == 0)
        try_say(z, said);
    world_send(z->rank, &f, batch, bytes);
}

void world_liar_step(struct world_member *z)
{
    uint64_t what = below(100);
    if (bw.shape.aim != BFT_AIM_NONE)
        help(z);
    if (bw.shape.aim == BFT_AIM_JUMP)
        aim_jump(z);
    else if (bw.shape.aim == BFT_AIM_LATE || bw.shape.aim == BFT_AIM_BLIND)
        aim_below(z, bw.shape.aim == BFT_AIM_LATE);
    else if (bw.shape.aim == BFT_AIM_DOMAIN)
        aim_domain(z);
    else if (bw.shape.aim == BFT_AIM_CERT)
        aim_cert(z);
    else if (what < 30 && bw.certs > 0)
        certify(z, &bw.cert[below(bw.certs)]);
    else if (what < 38)
        vouch_any(z);
    else if (what < 42 && !bw.careful)
        rejump(z);
    else
        say_any(z);
}
