#include "bft_world.h"

#include "base/minmax.h"
#include "base/rng.h"
#include "sim/sim_signer.h"

#include <stdio.h>
#include <stdlib.h>

enum { VIEW_STEPS = 3000, HALF = 8 };

struct bft_world bw;
static struct rng rng; /* bw.rng */

bool world_works(uint32_t p)
{
    return !bw.member[p].lies && !bw.member[p].down;
}

void world_violated(const char *what, const char *why)
{
    if (bw.violated)
        return;
    bw.violated = what;
    snprintf(bw.why, sizeof(bw.why), "%s", why);
}

/* ---- all that was said and signed ---- */

static const char *check_body(const void *body, uint32_t bytes)
{
    struct sign_job jobs[BFT_SIGNATURES_MAX];
    const char *fault = bft_body_fault(&bw.scope, body, bytes);
    uint32_t count = fault ? 0 : bft_body_signatures(&bw.scope, body, jobs);
    for (uint32_t i = 0; i < count; i++) {
        unsigned char right[SIGN_BYTES];
        sim_sign(bw.seed, &jobs[i].text, right);
        if (memcmp(right, jobs[i].signature, SIGN_BYTES) != 0)
            return "a signature that is not";
    }
    return fault;
}

const char *world_say(uint32_t rank, const void *body, uint32_t bytes)
{
    struct said_log *l = bw.log[rank][bw.member[rank].life];
    CHECK(bytes <= WORLD_BODY);
    if (l->count == WORLD_SAID)
        return "full";
    struct said *s = &l->said[l->count++];
    *s = (struct said){.bytes = bytes, .digest = digest_of(body, bytes)};
    s->body = malloc(bytes);
    CHECK(s->body != NULL);
    memcpy(s->body, body, bytes);
    s->fault = check_body(body, bytes);
    return NULL;
}

struct cert *world_cert(uint64_t view, uint64_t slot, struct digest name)
{
    for (uint32_t i = 0; i < bw.certs; i++) {
        struct cert *c = &bw.cert[i];
        if (c->view == view && c->slot == slot && digest_equal(c->name, name))
            return c;
    }
    if (bw.certs == WORLD_CERTS)
        return &bw.cert[WORLD_CERTS - 1];
    bw.cert[bw.certs] = (struct cert){.view = view, .slot = slot, .name = name};
    return &bw.cert[bw.certs++];
}

static bool is_certificate(const struct cert *c)
{
    return (uint32_t)__builtin_popcount(c->bits) >= bw.scope.faulty + 1;
}

/* One value has a certificate in a view and slot, and above a decision no other. */
static void check_certificate(const struct cert *c)
{
    if (!is_certificate(c))
        return;
    for (uint32_t i = 0; i < bw.certs; i++) {
        const struct cert *d = &bw.cert[i];
        if (d != c && d->slot == c->slot && d->view == c->view && is_certificate(d))
            world_violated("two certificates", "of one view and slot");
    }
    if (c->slot < WORLD_SLOTS && bw.is_decided[c->slot] && c->view > bw.decided_view[c->slot] &&
        !digest_equal(bw.decided[c->slot], c->name))
        world_violated("certificate above a decision", "for another value");
}

static void sign(struct bft_mark *m, const struct sign_text *t)
{
    m->rank = t->signer;
    m->life = t->life;
    sim_sign(bw.seed, t, m->signature);
}

void world_certify(uint32_t rank, uint64_t view, uint64_t slot, struct digest name)
{
    struct cert *c = world_cert(view, slot, name);
    const struct sign_text t =
        bft_certify_text(&bw.scope, rank, bw.member[rank].life, view, slot, name);
    if (c->bits & 1U << rank)
        return;
    c->bits |= 1U << rank;
    sign(&c->mark[rank], &t);
    check_certificate(c);
}

void world_vouch(uint32_t rank, uint32_t sender, uint32_t life, uint64_t place)
{
    struct said *s = &bw.log[sender][life]->said[place - 1];
    const struct sign_text t = bft_vouch_text(&bw.scope, rank, bw.member[rank].life, sender,
                                              neb_key(life, place), s->digest);
    s->vouched |= 1U << rank;
    sign(&s->vouch[rank], &t);
}

bool world_vouched(const struct said *s)
{
    return (uint32_t)__builtin_popcount(s->vouched) >= bw.scope.faulty + 1;
}

uint32_t world_batch(uint64_t message, uint32_t by, void *out)
{
    struct entry *e = out;
    *e = (struct entry){.bytes = 0, .source = 1, .life = (uint16_t)by, .srcpos = message};
    return (uint32_t)entry_size(0);
}

/* ---- frames ---- */

static bool frame_is_signed(const struct bft_frame *f, uint32_t bytes)
{
    struct sign_text t;
    struct sign_job jobs[BFT_SIGNATURES_MAX];
    unsigned char right[SIGN_BYTES];
    uint32_t count = 0;
    if (bft_frame_text(&bw.scope, f, &t)) {
        sim_sign(bw.seed, &t, right);
        return memcmp(right, f->mark.signature, SIGN_BYTES) == 0;
    }
    if (f->kind == BFT_FRAME_VOUCHED &&
        bft_vouched_fault(&bw.scope, (const void *)f->data, bytes) == NULL)
        count = bft_vouched_signatures(&bw.scope, (const void *)f->data, jobs);
    for (uint32_t i = 0; i < count; i++) {
        sim_sign(bw.seed, &jobs[i].text, right);
        if (memcmp(right, jobs[i].signature, SIGN_BYTES) != 0)
            return false;
    }
    return true;
}

static void fly(uint32_t from, uint32_t to, const struct bft_frame *f, const void *data,
                uint32_t bytes)
{
    struct world_member *m = &bw.member[to];
    CHECK(sizeof(*f) + bytes <= sizeof(m->queue->data));
    if (!world_works(to) || m->deaf)
        return;
    if (m->flying == WORLD_QUEUE) /* one of them is lost */
        m->queue[rng_below(&rng, WORLD_QUEUE)] = m->queue[--m->flying];
    struct flying *q = &m->queue[m->flying++];
    q->from = from;
    q->bytes = bytes;
    memcpy(q->data, f, sizeof(*f));
    if (bytes)
        memcpy(q->data + sizeof(*f), data, bytes);
}

static void tell(void *ctx, uint32_t to, const struct bft_frame *f, const void *data,
                 uint32_t bytes)
{
    const struct world_member *m = ctx;
    for (uint32_t p = 0; p < bw.scope.members; p++)
        if (p != m->rank && (to == BFT_ALL || to == p))
            fly(m->rank, p, f, data, bytes);
}

void world_send(uint32_t from, const struct bft_frame *f, const void *data, uint32_t bytes)
{
    tell(&bw.member[from], BFT_ALL, f, data, bytes);
}

void world_one_frame(struct world_member *m)
{
    if (m->flying == 0)
        return;
    uint32_t i = (uint32_t)rng_below(&rng, m->flying);
    struct flying q = m->queue[i];
    m->queue[i] = m->queue[--m->flying];
    if (m->skips_certify && q.frame.kind == BFT_FRAME_CERTIFY && m->core.view == 0)
        return;
    if (bft_core_wants(&m->core, q.from, &q.frame, q.bytes) && frame_is_signed(&q.frame, q.bytes))
        bft_core_frame(&m->core, q.from, &q.frame, q.bytes);
}

/* ---- what a correct member asks of us ---- */

static int say(void *ctx, const void *body, uint32_t bytes)
{
    const struct world_member *m = ctx;
    return world_say(m->rank, body, bytes) ? ERR_AGAIN : 0;
}

static void note_signed(const struct world_member *m, const struct bft_frame *f)
{
    if (f->kind == BFT_FRAME_CERTIFY)
        world_certify(m->rank, f->key, f->number, f->name);
    if (f->kind == BFT_FRAME_JOIN)
        bw.join[m->rank] = f->mark;
    if (f->kind == BFT_FRAME_VOUCH)
        world_vouch(m->rank, f->rank, (uint32_t)(f->key >> NEB_LIFE_SHIFT),
                    f->key & 0xffffffffffff);
}

static bool sign_frame(void *ctx, const struct bft_frame *f, const void *data, uint32_t bytes)
{
    struct world_member *m = ctx;
    struct flying q = {.frame = *f};
    struct sign_text t;
    q.frame.mark.rank = m->rank;
    q.frame.mark.life = m->life;
    if (bytes)
        memcpy(q.data + sizeof(*f), data, bytes);
    CHECK(bft_frame_text(&bw.scope, &q.frame, &t));
    sign(&q.frame.mark, &t);
    note_signed(m, &q.frame);
    tell(m, BFT_ALL, &q.frame, data, bytes);
    if (rng_below(&rng, 3) == 0) {
        fly(m->rank, m->rank, &q.frame, data, bytes); /* its signature takes time */
        return true;
    }
    bft_core_frame(&m->core, m->rank, &q.frame, bytes);
    return true;
}

static int valid(void *ctx, const void *batch, uint32_t bytes)
{
    const struct entry *e = batch;
    (void)ctx;
    return bytes == entry_size(0) && e->srcpos <= bw.messages;
}

static bool reserves(void *ctx, const void *batch, uint32_t bytes)
{
    (void)ctx, (void)batch, (void)bytes;
    return false;
}

static uint32_t fill(void *ctx, void *batch, uint32_t room, bool anew, bool last)
{
    (void)last;
    struct world_member *m = ctx;
    CHECK(room >= entry_size(0));
    if (anew)
        m->filled = m->taken;
    return m->filled < bw.messages ? world_batch(++m->filled, m->rank, batch) : 0;
}

static bool pending(void *ctx)
{
    const struct world_member *m = ctx;
    return m->taken < bw.messages;
}

static uint64_t since(void *ctx)
{
    (void)ctx;
    return 0;
}

static bool apply(void *ctx, uint64_t slot, const void *batch, uint32_t bytes)
{
    struct world_member *m = ctx;
    const struct entry *e = batch;
    (void)slot;
    if (bytes && e->srcpos == m->taken + 1)
        m->taken++;
    return true;
}

static bool save_now(void *ctx, bool usual)
{
    (void)ctx;
    return usual;
}

static bool save(void *ctx, uint64_t slot)
{
    struct world_member *m = ctx;
    m->saving = true;
    m->save_slot = slot;
    return true;
}

static void life(void *ctx, uint32_t rank, uint32_t lf)
{
    struct world_member *m = ctx;
    m->life_of[rank] = lf;
    m->heard[rank] = 0;
}

static void jump(void *ctx, uint32_t rank, uint64_t key)
{
    struct world_member *m = ctx;
    m->heard[rank] = max_u64(m->heard[rank], key & 0xffffffffffff);
    bw.figures->jumps++;
}

static void vouched(void *ctx, uint64_t key)
{
    (void)ctx, (void)key;
}

static void departed(void *ctx, uint32_t rank, const char *why)
{
    (void)ctx;
    bw.figures->departed++;
    if (!bw.member[rank].lies)
        world_violated("a correct member is not listened to", why);
}

static void certified(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    (void)ctx, (void)view, (void)slot, (void)name;
}

static void locked(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    (void)ctx, (void)view, (void)slot, (void)name;
}

static void decided(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    (void)ctx;
    bw.figures->decided++;
    CHECK(slot < WORLD_SLOTS);
    if (bw.is_decided[slot] && !digest_equal(bw.decided[slot], name))
        world_violated("agreement", "two values are decided for a slot");
    if (!bw.is_decided[slot] || view < bw.decided_view[slot])
        bw.decided_view[slot] = view;
    bw.is_decided[slot] = true;
    bw.decided[slot] = name;
    for (uint32_t i = 0; i < bw.certs; i++)
        check_certificate(&bw.cert[i]);
}

static void entered(void *ctx, uint64_t view)
{
    (void)ctx, (void)view;
    bw.figures->views++;
}

static void stable(void *ctx, const struct bft_checkpoint *at)
{
    (void)ctx, (void)at;
    bw.figures->checkpoints++;
}

static void votes(void *ctx, uint64_t slot)
{
    (void)ctx, (void)slot;
}

static const struct bft_core_calls calls = {.say = say,
                                            .sign = sign_frame,
                                            .tell = tell,
                                            .valid = valid,
                                            .fill = fill,
                                            .reserves = reserves,
                                            .pending = pending,
                                            .since = since,
                                            .apply = apply,
                                            .save_now = save_now,
                                            .save = save,
                                            .life = life,
                                            .jump = jump,
                                            .vouched = vouched,
                                            .departed = departed,
                                            .certified = certified,
                                            .locked = locked,
                                            .decided = decided,
                                            .entered = entered,
                                            .stable = stable,
                                            .votes = votes};

/* ---- what a correct member does ---- */

/* A victim is kept from what others have committed to in view 0. */
static bool is_kept_from(const struct world_member *m, const struct said *s)
{
    const struct bft_head *h = (const void *)s->body;
    return m->skips_certify && m->core.view == 0 && h->kind == BFT_COMMIT;
}

static bool is_hidden(const struct world_member *m, uint32_t sender)
{
    if (!bw.member[sender].lies)
        return false;
    if (bw.shape.aim == BFT_AIM_JUMP)
        return (bw.victims & 1U << m->rank) && m->heard[sender] < 3;
    return bw.shape.aim == BFT_AIM_NONE && (bw.hidden[m->rank] & 1U << m->heard[sender] % 32) &&
           rng_below(&rng, 100) < 97;
}

void world_hear_one(struct world_member *m, uint32_t sender)
{
    const struct said_log *l = bw.log[sender][m->life_of[sender]];
    if (l == NULL || m->heard[sender] >= l->count || is_hidden(m, sender))
        return;
    const struct said *s = &l->said[m->heard[sender]];
    if (is_kept_from(m, s) || m->core.peer[sender].automaton.fault)
        return;
    m->heard[sender]++;
    if (s->fault)
        bft_core_depart(&m->core, sender, s->fault);
    else
        bft_core_hear(&m->core, sender, neb_key(m->life_of[sender], m->heard[sender]), s->digest,
                      s->body, s->bytes);
}

static struct digest state_digest(uint64_t slot, uint64_t taken)
{
    const uint64_t words[2] = {slot, taken};
    return digest_of(words, sizeof(words));
}

void world_end_save(struct world_member *m)
{
    if (!m->saving)
        return;
    m->saving = false;
    CHECK(m->save_slot < WORLD_SLOTS);
    if (bw.has_state[m->save_slot] && bw.state[m->save_slot] != m->taken)
        world_violated("states differ", "of one checkpoint");
    bw.has_state[m->save_slot] = true;
    bw.state[m->save_slot] = m->taken;
    bft_core_saved(&m->core, m->save_slot, state_digest(m->save_slot, m->taken));
}

void world_load(struct world_member *m)
{
    uint64_t slot = m->core.ahead.slot;
    if (slot <= m->core.applied || m->saving)
        return;
    if (slot >= WORLD_SLOTS || !bw.has_state[slot] ||
        !digest_equal(m->core.ahead.state, state_digest(slot, bw.state[slot]))) {
        world_violated("a checkpoint that nobody correct has", "");
        return;
    }
    m->taken = m->filled = bw.state[slot];
    bw.figures->loads++;
    bft_core_loaded(&m->core, &m->core.ahead, m->core.ahead_mark);
}

static void ask_vouched(struct world_member *m, uint32_t sender)
{
    const struct bft_frame f = {.kind = BFT_FRAME_ASK_VOUCHED,
                                .rank = sender,
                                .key = neb_key(m->life_of[sender], m->heard[sender] + 1)};
    tell(m, BFT_ALL, &f, NULL, 0);
}

void world_member_step(struct world_member *m)
{
    uint64_t what = rng_below(&rng, 100);
    uint32_t sender = (uint32_t)rng_below(&rng, bw.scope.members);
    if (what < 40)
        world_one_frame(m);
    else if (what < 75)
        world_hear_one(m, sender);
    else if (what < 95)
        bft_core_step(&m->core, bw.now_ns);
    else if (what < 97)
        world_end_save(m);
    else if (what < 99)
        world_load(m);
    else if (sender != m->rank && (bw.member[sender].lies || rng_below(&rng, 6) == 0))
        ask_vouched(m, sender);
    if (m->core.broken)
        world_violated("broken", m->core.broken);
}

/* ---- the world ---- */

static void open_core(struct world_member *m)
{
    struct err e = {""};
    const struct bft_core_options o = {.scope = bw.scope,
                                       .rank = m->rank,
                                       .life = m->life,
                                       .batch_bytes = WORLD_BATCH,
                                       .half = HALF,
                                       .beat_ns = WORLD_BEAT_STEPS * WORLD_STEP_NS,
                                       .view_ns = VIEW_STEPS * WORLD_STEP_NS /
                                                  (bw.shape.hurry ? bw.shape.hurry : 1),
                                       .calls = &calls,
                                       .ctx = m};
    CHECK(bft_core_open(&m->core, &o, &e) == 0);
    memset(m->life_of, 0, sizeof(m->life_of));
    m->life_of[m->rank] = m->life;
    memset(m->heard, 0, sizeof(m->heard));
    m->taken = m->filled = 0;
    m->flying = 0;
    m->saving = false;
}

static void open_log(uint32_t rank, uint32_t lf)
{
    bw.log[rank][lf] = calloc(1, sizeof(struct said_log));
    CHECK(bw.log[rank][lf] != NULL);
}

void world_open_member(uint32_t rank, bool lies)
{
    struct world_member *m = &bw.member[rank];
    *m = (struct world_member){.rank = rank, .lies = lies};
    m->queue = calloc(WORLD_QUEUE, sizeof(*m->queue));
    CHECK(m->queue != NULL);
    open_log(rank, 0);
    bft_automaton_init(&m->phantom, rank, 0);
    if (!lies)
        open_core(m);
}

void world_restart(struct world_member *m)
{
    bft_core_close(&m->core);
    m->life++;
    open_log(m->rank, m->life);
    open_core(m);
}

static void close_logs(uint32_t rank)
{
    for (uint32_t lf = 0; lf < WORLD_LIVES; lf++) {
        struct said_log *l = bw.log[rank][lf];
        for (uint32_t i = 0; l && i < l->count; i++)
            free(l->said[i].body);
        free(l);
    }
}

void world_close(void)
{
    for (uint32_t p = 0; p < bw.scope.members; p++) {
        struct world_member *m = &bw.member[p];
        if (!m->lies) {
            const struct bft_core_counts *c = &m->core.count;
            bw.figures->joins += c->joins;
            bw.figures->new_views += c->new_views;
            bw.figures->taken_over += c->taken_over;
            bft_core_close(&m->core);
        }
        free(m->queue);
        close_logs(p);
    }
}

struct rng *world_rng(void)
{
    return &rng;
}
