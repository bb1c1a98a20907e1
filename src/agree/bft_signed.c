/* What clients have signed: taken from their lanes or from another member, kept until it is decided, and shown to a leader that has not
 * got it. A leader orders these alone. */
#include "agree/bft_impl.h"

#include "agree/source.h"
#include "base/minmax.h"
#include "lane/names.h"

#include <stdlib.h>

/* ---- opening ---- */

static bool open_source(struct bft *b, struct bft_source *s)
{
    bool good = true;
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        good = (s->kept[i].entries = bft_memory_open(b, b->stretch_bytes)) && good;
    return good;
}

int bft_signed_open(struct bft *b, struct err *e)
{
    int rc = 0;
    b->stretch_bytes = bft_stretch_bytes(b->opt.batch_bytes, b->opt.payload_max);
    b->proof = bft_memory_open(b, PROOFS_MAX * sizeof(*b->proof));
    b->told = bft_memory_open(b, sizeof(struct bft_stretch) + b->stretch_bytes);
    bool good = b->proof != NULL && b->told != NULL;
    for (uint32_t i = 0; i < b->opt.sources; i++)
        good = open_source(b, &b->source[i]) && good;
    if (!good)
        return err_set(e, ERR_NOMEM, "group: no memory for what %u clients sign", b->opt.sources);
    for (uint32_t i = 0; rc == 0 && i < b->opt.sources; i++) {
        struct mem_lane_spec spec =
            lane_spec(b->opt.region, b->nodes[b->opt.rank], b->opt.source_nodes[i], LANE_SIGNED, i);
        spec.ctl_words = SIGNED_WORDS;
        spec.ring_bytes = BFT_STRETCHES * sizeof(struct bft_signed_cell);
        rc = mem_lanes_open(b->opt.mem, &spec, 1, &b->source[i].proofs, e);
    }
    return rc;
}

void bft_signed_close(struct bft *b)
{
    for (uint32_t i = 0; b->source && i < b->opt.sources; i++)
        for (uint32_t k = 0; k < KEPT_MAX; k++)
            free(b->source[i].kept[k].entries);
    free(b->proof);
    free(b->told);
}

/* ---- which of them count ---- */

/* Nothing comes of it any more. */
static bool is_over(const struct bft_source *s, const struct bft_stretch *st)
{
    return st->life < s->life || (st->life == s->life && st->end <= s->taken);
}

/* It has the message that stands there in the stream. */
static bool follows(const struct bft_kept *k, uint64_t pos, uint16_t life)
{
    if (k->state != KEPT_GOOD)
        return false;
    return k->stretch.life == life ? bft_stretch_has(&k->stretch, k->entries, pos)
                                   : k->stretch.life > life && k->stretch.from == stream_start();
}

const struct bft_kept *bft_signed_next(const struct bft_source *s, uint64_t pos, uint16_t life)
{
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        if (follows(&s->kept[i], pos, life))
            return &s->kept[i];
    return NULL;
}

static bool same(const struct bft_stretch *a, const struct bft_stretch *b)
{
    return a->from == b->from && a->end == b->end && a->source == b->source && a->life == b->life;
}

static bool is_kept(const struct bft_source *s, const struct bft_stretch *st, struct digest d)
{
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        if (s->kept[i].state != KEPT_FREE && same(&s->kept[i].stretch, st) &&
            digest_equal(s->kept[i].digest, d))
            return true;
    return false;
}

/* For one that begins there: one that is free, or whose turn comes later. */
static struct bft_kept *room_for(struct bft_source *s, const struct bft_stretch *st)
{
    struct bft_kept *last = NULL;
    for (uint32_t i = 0; i < KEPT_MAX; i++) {
        struct bft_kept *k = &s->kept[i];
        if (k->state == KEPT_GOOD && is_over(s, &k->stretch))
            k->state = KEPT_FREE;
        if (k->state == KEPT_FREE)
            return k;
        if (k->state == KEPT_GOOD && (last == NULL || k->stretch.from > last->stretch.from))
            last = k;
    }
    return last && last->stretch.from > st->from ? last : NULL;
}

/* ---- from the client's own lane ---- */

/* Its messages, from the ring, as they will stand in a batch. False: they are not all there, or not so. */
static bool copy_messages(struct bft *b, const struct bft_source *s, const struct bft_stretch *st,
                          struct bft_kept *k)
{
    uint64_t pos = st->from;
    uint32_t at = 0;
    struct frame f;
    while (pos < st->end) {
        if (!bft_feed_frame(b, s, pos, (uint16_t)st->life, &f, b->other->payload) ||
            at + entry_size(f.bytes) > b->stretch_bytes)
            return false;
        struct entry *e = (void *)(k->entries + at);
        *e = (struct entry){.bytes = f.bytes,
                            .source = (uint16_t)st->source,
                            .life = (uint16_t)st->life,
                            .srcpos = pos};
        memset(e->payload, 0, padded(f.bytes));
        memcpy(e->payload, b->other->payload, f.bytes);
        at += (uint32_t)entry_size(f.bytes);
        pos += frame_size(f.bytes);
    }
    k->bytes = at;
    return pos == st->end;
}

static void begin_check(struct bft *b, struct bft_kept *k)
{
    k->state = KEPT_CHECKED;
    k->job = (struct sign_job){
        .check = true, .text = bft_stretch_text(&b->core.opt.scope, &k->stretch, k->digest)};
    memcpy(k->job.signature, k->stretch.signature, SIGN_BYTES);
    signer_submit(b->opt.signer, &k->job);
}

/* True: it could not be kept now, and may be later. */
static bool take_cell(struct bft *b, uint32_t source, const struct bft_signed_cell *c)
{
    struct bft_source *s = &b->source[source];
    struct bft_stretch st = c->stretch;
    struct digest d;
    if (st.source != source || st.life != bft_feed_life(s) || st.from >= st.end ||
        st.end - st.from > b->opt.source_bytes || is_over(s, &st))
        return false;
    /* What is before was decided without it, and may not be in the ring any more. */
    if (st.life == s->life && st.from < s->taken) {
        st.from = s->taken;
        st.before = s->chain;
    }
    struct bft_kept *k = room_for(s, &st);
    if (k == NULL)
        return true;
    k->state = KEPT_FREE;
    if (!copy_messages(b, s, &st, k) || bft_stretch_fits(&st, k->entries, k->bytes, &d) == 0)
        return false;
    if (is_kept(s, &st, d))
        return false;
    k->stretch = st;
    k->digest = d;
    k->since_ns = k->told_ns = 0;
    begin_check(b, k);
    return false;
}

static int take_cells(struct bft *b, uint32_t i)
{
    struct bft_source *s = &b->source[i];
    if (s->proofs->ctl == NULL || s->in->ctl == NULL)
        return 0;
    uint64_t count = mem_word(s->proofs, SIGNED_COUNT), again = mem_word(s->proofs, SIGNED_AGAIN);
    uint64_t guard = mem_word(s->in, SOURCE_GUARD);
    if (count == s->seen_count && again == s->seen_again && guard == s->seen_guard &&
        (!s->skipped || s->taken == s->seen_taken))
        return 0;
    s->seen_count = count;
    s->seen_again = again;
    s->seen_guard = guard;
    s->seen_taken = s->taken;
    s->skipped = false;
    for (uint64_t n = count - min_u64(count, BFT_STRETCHES) + 1; n <= count; n++) {
        struct bft_signed_cell c;
        mem_take(b->opt.mem, s->proofs, n % BFT_STRETCHES * sizeof(c), &c, sizeof(c));
        if (c.number == n)
            s->skipped = take_cell(b, i, &c) || s->skipped;
    }
    return 1;
}

static int end_checks(struct bft_source *s)
{
    int work = 0;
    for (uint32_t i = 0; i < KEPT_MAX; i++) {
        struct bft_kept *k = &s->kept[i];
        if (k->state != KEPT_CHECKED || k->job.state == SIGN_UNDER_WAY)
            continue;
        k->state = k->job.state == SIGN_GOOD ? KEPT_GOOD : KEPT_BAD;
        work++;
    }
    return work;
}

static void note_time(const struct bft *b, const struct bft_source *s, struct bft_kept *k)
{
    if (!follows(k, s->taken, s->life))
        k->since_ns = 0;
    else if (k->since_ns == 0)
        k->since_ns = b->now_ns;
}

int bft_signed_step(struct bft *b)
{
    int work = 0;
    for (uint32_t i = 0; i < b->opt.sources; i++) {
        struct bft_source *s = &b->source[i];
        work += take_cells(b, i);
        work += end_checks(s);
        for (uint32_t k = 0; k < KEPT_MAX; k++)
            note_time(b, s, &s->kept[k]);
    }
    return work;
}

/* ---- in batches ---- */

static struct bft_proof *proof_of(struct bft *b, const struct bft_stretch *st, struct digest d)
{
    for (uint32_t i = 0; i < PROOFS_MAX; i++) {
        struct bft_proof *p = &b->proof[i];
        if (p->job.state != SIGN_IDLE && same(&p->stretch, st) && digest_equal(p->digest, d) &&
            memcmp(p->stretch.signature, st->signature, SIGN_BYTES) == 0)
            return p;
    }
    return NULL;
}

static void begin_proof(struct bft *b, const struct bft_stretch *st, struct digest d)
{
    struct bft_proof *p = &b->proof[b->proofs % PROOFS_MAX];
    if (p->job.state == SIGN_UNDER_WAY)
        return; /* later */
    b->proofs++;
    p->stretch = *st;
    p->digest = d;
    p->job = (struct sign_job){.check = true, .text = bft_stretch_text(&b->core.opt.scope, st, d)};
    memcpy(p->job.signature, st->signature, SIGN_BYTES);
    signer_submit(b->opt.signer, &p->job);
}

int bft_signed_valid(struct bft *b, const struct bft_stretch *st, struct digest d)
{
    const struct bft_source *s = &b->source[st->source];
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        if (s->kept[i].state == KEPT_GOOD && same(&s->kept[i].stretch, st) &&
            digest_equal(s->kept[i].digest, d))
            return 1;
    const struct bft_proof *p = proof_of(b, st, d);
    if (p == NULL)
        begin_proof(b, st, d);
    if (p == NULL || p->job.state == SIGN_UNDER_WAY)
        return 0;
    return p->job.state == SIGN_GOOD ? 1 : -1;
}

/* ---- who has to order them ---- */

static uint32_t leader_of(const struct bft *b)
{
    return bft_epoch_is_open(b) ? b->epoch->leader : (uint32_t)(b->core.view % b->opt.members);
}

static bool leads(const struct bft *b)
{
    return leader_of(b) == b->opt.rank;
}

/* Whoever leads knows of it. */
static bool is_due(const struct bft *b, const struct bft_kept *k)
{
    return k->since_ns != 0 && (k->told_ns != 0 || leads(b));
}

uint64_t bft_signed_waits(const struct bft *b)
{
    uint64_t since = 0;
    for (uint32_t i = 0; i < b->opt.sources; i++)
        for (uint32_t k = 0; k < KEPT_MAX; k++) {
            const struct bft_kept *o = &b->source[i].kept[k];
            if (is_due(b, o) && (since == 0 || o->since_ns < since))
                since = o->since_ns;
        }
    return since;
}

/* In a fast epoch its leader orders them, and the slow path has only to end it. */
bool bft_signed_pending(void *ctx)
{
    const struct bft *b = ctx;
    return bft_epoch_is_open(b) ? !bft_epoch_is_fast(b) : bft_signed_waits(b) != 0;
}

uint64_t bft_signed_since(void *ctx)
{
    const struct bft *b = ctx;
    return bft_epoch_is_open(b) ? 0 : bft_signed_waits(b);
}

/* Whoever leads now has had no time yet. */
void bft_signed_entered(struct bft *b)
{
    for (uint32_t i = 0; i < b->opt.sources; i++)
        for (uint32_t k = 0; k < KEPT_MAX; k++)
            b->source[i].kept[k].since_ns = b->source[i].kept[k].told_ns = 0;
}

static void tell_leader(struct bft *b, struct bft_kept *k)
{
    const struct bft_frame f = {.kind = BFT_FRAME_SIGNED};
    memcpy(b->told, &k->stretch, sizeof(k->stretch));
    memcpy(b->told + sizeof(k->stretch), k->entries, k->bytes);
    bft_tell(b, leader_of(b), &f, b->told, (uint32_t)sizeof(k->stretch) + k->bytes);
    k->told_ns = b->now_ns;
}

/* A client may have written to us alone. What waits for longer than it takes to be ordered is shown to who leads, before it is blamed. */
void bft_signed_beat(struct bft *b)
{
    for (uint32_t i = 0; i < b->opt.sources; i++)
        for (uint32_t n = 0; n < KEPT_MAX; n++) {
            struct bft_kept *k = &b->source[i].kept[n];
            uint64_t last = max_u64(k->since_ns, k->told_ns);
            uint64_t wait = k->told_ns ? PATIENCE_BEATS * b->opt.beat_ns : b->opt.beat_ns;
            if (k->state == KEPT_BAD)
                k->state = KEPT_FREE;
            if (b->core.votes && !leads(b) && k->since_ns != 0 && b->now_ns - last >= wait)
                tell_leader(b, k);
        }
}

/* ---- from another member ---- */

static const struct bft_stretch *stretch_in(const struct bft *b, const struct bft_frame *f,
                                            uint32_t bytes, uint32_t *entries)
{
    const struct bft_stretch *st = (const void *)f->data;
    if (bytes <= sizeof(*st) || bytes - sizeof(*st) > b->stretch_bytes ||
        st->source >= b->opt.sources || st->life >= STREAM_LIVES_MAX)
        return NULL;
    *entries = bytes - (uint32_t)sizeof(*st);
    return is_over(&b->source[st->source], st) ? NULL : st;
}

uint32_t bft_signed_job(const struct bft *b, const struct bft_frame *f, uint32_t bytes,
                        struct sign_job *job)
{
    uint32_t entries;
    struct digest d;
    const struct bft_stretch *st = stretch_in(b, f, bytes, &entries);
    if (st == NULL || bft_stretch_fits(st, st + 1, entries, &d) != entries ||
        is_kept(&b->source[st->source], st, d))
        return 0;
    *job = (struct sign_job){.check = true, .text = bft_stretch_text(&b->core.opt.scope, st, d)};
    memcpy(job->signature, st->signature, SIGN_BYTES);
    return 1;
}

void bft_signed_take(struct bft *b, const struct bft_frame *f, uint32_t bytes)
{
    uint32_t entries;
    const struct bft_stretch *st = stretch_in(b, f, bytes, &entries);
    struct bft_source *s = st ? &b->source[st->source] : NULL;
    struct digest d;
    if (s == NULL || bft_stretch_fits(st, st + 1, entries, &d) == 0 || is_kept(s, st, d))
        return;
    struct bft_kept *k = room_for(s, st);
    if (k == NULL)
        return;
    k->state = KEPT_GOOD;
    k->stretch = *st;
    k->digest = d;
    k->bytes = entries;
    k->since_ns = k->told_ns = 0;
    memcpy(k->entries, st + 1, entries);
}
