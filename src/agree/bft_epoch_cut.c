/* How a fast epoch ends: statements of those that have frozen, and the CUT that follows from them (bft_cut.h). */
#include "agree/bft_impl.h"

#include "base/minmax.h"

/* ---- statements ---- */

static bool same_statement(const struct bft_statement *s, const struct bft_statement *t)
{
    return s->count == t->count && memcmp(s, t, bft_statement_bytes(s->count)) == 0;
}

struct bft_cut_options bft_epoch_cut_options(const struct bft *b)
{
    return (struct bft_cut_options){.scope = &b->core.opt.scope,
                                    .epoch = b->epoch->number,
                                    .start = b->epoch->fast.start,
                                    .ahead = bft_epoch_ahead(b)};
}

void bft_epoch_state(struct bft *b)
{
    struct epoch *e = b->epoch;
    struct stated *s = &e->stated[b->opt.rank][0];
    if (e->signing || s->job.state == SIGN_UNDER_WAY)
        return;
    e->signing = true;
    bft_fast_statement(&e->fast, s->of);
    s->of->mark.life = b->opt.life;
    s->number = e->number;
    s->job = (struct sign_job){.text = bft_statement_text(&b->core.opt.scope, s->of)};
    signer_submit(b->opt.signer, &s->job);
}

int bft_epoch_end_jobs(struct bft *b)
{
    struct epoch *e = b->epoch;
    int work = 0;
    for (uint32_t p = 0; p < b->opt.members; p++)
        for (uint32_t i = 0; i < STATED_MAX; i++) {
            struct stated *s = &e->stated[p][i];
            if (s->there || s->number != e->number || s->job.state == SIGN_UNDER_WAY ||
                s->job.state == SIGN_IDLE)
                continue;
            work++;
            if (s->job.state != SIGN_GOOD) {
                s->number = 0;
                continue;
            }
            s->there = true;
            if (p == b->opt.rank)
                memcpy(s->of->mark.signature, s->job.signature, SIGN_BYTES);
            else
                bft_epoch_freeze(b, "another member has");
        }
    return work;
}

bool bft_epoch_is_stated(struct bft *b, const struct bft_statement *st)
{
    struct epoch *e = b->epoch;
    struct stated *room = NULL;
    for (uint32_t i = 0; i < STATED_MAX; i++) {
        struct stated *s = &e->stated[st->mark.rank][i];
        if (s->number == e->number && same_statement(s->of, st))
            return s->there;
        if (s->job.state != SIGN_UNDER_WAY && (s->number != e->number || i > 0))
            room = room ? room : s;
    }
    if (room == NULL || st->mark.rank == b->opt.rank || st->mark.life != e->life[st->mark.rank])
        return false; /* one that came back since knows nothing of the epoch */
    memcpy(room->of, st, bft_statement_bytes(st->count));
    room->there = false;
    room->number = e->number;
    room->job =
        (struct sign_job){.check = true, .text = bft_statement_text(&b->core.opt.scope, st)};
    memcpy(room->job.signature, st->mark.signature, SIGN_BYTES);
    signer_submit(b->opt.signer, &room->job);
    return false;
}

/* ---- CUT ---- */

/* What is applied here is before every CUT, on its chain; beyond what was taken a CUT is being applied, and it was compared before. */
static bool is_ours(const struct epoch *e, struct digest chain)
{
    return e->applied > e->fast.batches ||
           digest_equal(chain, bft_fast_chain(&e->fast, e->applied));
}

/* What of these a CUT is, and the digests of its batches from what is applied here on. False: it is none. */
static bool plan_cut(struct bft *b, const struct bft_statement *const *s, uint32_t count,
                     struct cut_plan *p)
{
    struct epoch *e = b->epoch;
    const struct bft_cut_options o = bft_epoch_cut_options(b);
    struct digest chain[BFT_FAST_TOLD + 1];
    if (bft_cut(&o, s, count, &p->cut) != NULL || p->cut.batch < e->applied)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t first = s[i]->ready - s[i]->count + 1;
        if (p->cut.batch < first || p->cut.batch > s[i]->ready || e->applied + 1 < first)
            continue;
        bft_statement_chain(s[i], chain);
        if (!digest_equal(chain[p->cut.batch - first + 1], p->cut.chain) ||
            !is_ours(e, chain[e->applied + 1 - first]))
            continue;
        for (uint64_t n = e->applied + 1; n <= p->cut.batch; n++)
            p->digest[n - e->applied - 1] = s[i]->batch[n - first];
        p->from = e->applied + 1;
        return true;
    }
    p->from = e->applied + 1;
    return p->cut.batch == e->applied;
}

/* It was found valid when we said ECHO for it. */
static bool was_taken(const struct bft *b, uint64_t number, struct digest digest)
{
    const struct bft_fast *f = &b->epoch->fast;
    return number <= f->batches && digest_equal(f->batch[number % BFT_FAST_KEPT], digest);
}

bool bft_epoch_has_batches(struct bft *b, const struct cut_plan *p, bool certifies)
{
    bool all = true;
    for (uint64_t n = max_u64(p->from, b->epoch->applied + 1); n <= p->cut.batch; n++) {
        const struct content *c = bft_epoch_content(b, n);
        struct digest d = p->digest[n - p->from];
        if (!bft_epoch_has(b, n, d)) {
            b->epoch->want = *p;
            b->epoch->wants = true;
            all = false;
        } else if (certifies && !was_taken(b, n, d) && bft_feed_valid(b, c->data, c->bytes) <= 0) {
            all = false;
        }
    }
    return all;
}

static uint32_t put_cut(struct bft *b, const struct bft_statement *const *s, uint32_t count,
                        const struct cut_plan *p, void *out, uint32_t room)
{
    struct entry *e = out;
    struct bft_cut_entry *c = (void *)e->payload;
    unsigned char *at = (void *)(c + 1);
    uint64_t bytes = sizeof(*e) + sizeof(*c);
    for (uint32_t i = 0; i < count; i++)
        bytes += bft_statement_bytes(s[i]->count);
    if (bytes > room)
        return 0;
    *e = (struct entry){
        .bytes = (uint32_t)(bytes - sizeof(*e)), .source = SOURCE_LOG, .srcpos = BFT_ENTRY_CUT};
    *c = (struct bft_cut_entry){
        .epoch = b->epoch->number, .batch = p->cut.batch, .chain = p->cut.chain, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        memcpy(at, s[i], bft_statement_bytes(s[i]->count));
        at += bft_statement_bytes(s[i]->count);
    }
    return (uint32_t)bytes;
}

static const struct bft_statement *stated_by(const struct bft *b, uint32_t rank)
{
    for (uint32_t i = 0; i < STATED_MAX; i++)
        if (b->epoch->stated[rank][i].there)
            return b->epoch->stated[rank][i].of;
    return NULL;
}

/* Of any of the statements that are there: the more the better, since a correct one may be needed to have the batches. */
uint32_t bft_epoch_fill_cut(struct bft *b, void *out, uint32_t room)
{
    struct cut_plan plan;
    for (uint32_t want = b->opt.members; want > b->core.opt.scope.faulty; want--)
        for (uint32_t set = 1; set < 1U << b->opt.members; set++) {
            const struct bft_statement *s[BFT_MEMBERS_MAX];
            uint32_t count = 0;
            for (uint32_t p = 0; p < b->opt.members; p++)
                if ((set >> p & 1) && stated_by(b, p))
                    s[count++] = stated_by(b, p);
            if (count == want && (uint32_t)__builtin_popcount(set) == want &&
                plan_cut(b, s, count, &plan) && bft_epoch_has_batches(b, &plan, true))
                return put_cut(b, s, count, &plan, out, room);
        }
    return 0;
}

/* The statements of a CUT that somebody has proposed. False: that is none. */
static uint32_t read_cut(struct bft *b, const struct bft_cut_entry *c, uint32_t bytes,
                         const struct bft_statement **s)
{
    const struct bft_cut_options o = bft_epoch_cut_options(b);
    const unsigned char *at = (const void *)(c + 1), *end = (const unsigned char *)c + bytes;
    uint32_t seen = 0;
    if (bytes < sizeof(*c) || c->count == 0 || c->count > b->opt.members)
        return 0;
    for (uint32_t i = 0; i < c->count; i++) {
        s[i] = (const void *)at;
        if ((uint64_t)(end - at) < sizeof(*s[i]) || s[i]->count > BFT_FAST_TOLD ||
            (uint64_t)(end - at) < bft_statement_bytes(s[i]->count) ||
            bft_statement_fault(&o, s[i], bft_statement_bytes(s[i]->count)) ||
            seen >> s[i]->mark.rank & 1)
            return 0;
        seen |= 1U << s[i]->mark.rank;
        at += bft_statement_bytes(s[i]->count);
    }
    return at == end ? c->count : 0;
}

bool bft_epoch_plan(struct bft *b, const struct bft_cut_entry *c, uint32_t bytes,
                    struct cut_plan *p)
{
    const struct bft_statement *s[BFT_MEMBERS_MAX];
    uint32_t count = c->epoch == b->epoch->number ? read_cut(b, c, bytes, s) : 0;
    return count > 0 && plan_cut(b, s, count, p) && p->cut.batch == c->batch &&
           digest_equal(p->cut.chain, c->chain);
}

bool bft_epoch_all_stated(struct bft *b, const struct bft_cut_entry *c, uint32_t bytes)
{
    const struct bft_statement *s[BFT_MEMBERS_MAX];
    uint32_t count = read_cut(b, c, bytes, s), good = 0;
    for (uint32_t i = 0; i < count; i++)
        good += bft_epoch_is_stated(b, s[i]);
    return count > 0 && good == count;
}
