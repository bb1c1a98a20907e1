#include "agree/bft_cut.h"

#include "base/minmax.h"
#include "base/planted.h"

/* ---- statements ---- */

static uint32_t told_max(const struct bft_cut_options *o)
{
    return o->ahead ? 2 * o->ahead : BFT_FAST_TOLD;
}

const char *bft_statement_fault(const struct bft_cut_options *o, const struct bft_statement *s,
                                uint64_t bytes)
{
    if (bytes < sizeof(*s) || s->count > told_max(o) || bytes != bft_statement_bytes(s->count))
        return "a statement of another length than it says";
    if (s->epoch != o->epoch || s->mark.rank >= o->scope->members)
        return "a statement of another epoch, or of nobody";
    if (s->count != min_u64(s->ready, told_max(o)))
        return "a statement that leaves batches out";
    if (s->count == s->ready && !digest_equal(s->base, o->start))
        return "a statement that begins elsewhere than its epoch";
    return NULL;
}

struct sign_text bft_statement_text(const struct bft_scope *sc, const struct bft_statement *s)
{
    const struct digest last =
        digest_chain(s->base, digest_of(s->batch, s->count * sizeof(s->batch[0])));
    return (struct sign_text){.tag = SIGN_TAG,
                              .cluster = sc->cluster,
                              .group = sc->group,
                              .role = SIGN_STATEMENT,
                              .signer = s->mark.rank,
                              .life = s->mark.life,
                              .number = s->epoch,
                              .more = s->ready,
                              .digest = last};
}

void bft_statement_chain(const struct bft_statement *s, struct digest *out)
{
    out[0] = s->base;
    for (uint32_t i = 0; i < s->count; i++)
        out[i + 1] = digest_chain(out[i], s->batch[i]);
}

/* ---- the rule ---- */

struct claim {
    uint64_t first, last; /* batches that it tells of */
    struct digest chain[BFT_FAST_TOLD + 1];
};

struct claims {
    struct claim of[BFT_MEMBERS_MAX];
    uint32_t count;
    uint32_t conflicts[BFT_MEMBERS_MAX]; /* bits */
};

/* NULL: it does not tell of that batch. */
static const struct digest *chain_at(const struct claim *c, uint64_t batch)
{
    return batch >= c->first && batch <= c->last ? &c->chain[batch - c->first + 1] : NULL;
}

static bool in_conflict(const struct claim *a, const struct claim *b, uint32_t ahead)
{
    uint64_t apart = a->last > b->last ? a->last - b->last : b->last - a->last;
    if (apart > ahead && !PLANTED(bft_cut_far))
        return true;
    for (uint64_t k = max_u64(a->first, b->first); k <= min_u64(a->last, b->last); k++)
        if (!digest_equal(*chain_at(a, k), *chain_at(b, k)))
            return true;
    return false;
}

/* Pairs in the largest matching among these. */
static uint32_t matching(const struct claims *c, uint32_t among)
{
    if (among == 0)
        return 0;
    uint32_t first = (uint32_t)__builtin_ctz(among), rest = among & (among - 1);
    uint32_t best = matching(c, rest);
    for (uint32_t with = c->conflicts[first] & rest; with; with &= with - 1)
        best = (uint32_t)max_u64(best, 1 + matching(c, rest & ~(with & -with)));
    return best;
}

static uint32_t claimants(const struct claims *c, uint64_t batch, struct digest chain)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct digest *d = chain_at(&c->of[i], batch);
        n += d != NULL && digest_equal(*d, chain);
    }
    return n;
}

/* The furthest batch of a claim that at most f of them lack. */
static uint64_t furthest(const struct claims *c, const struct claim *of, uint32_t faulty)
{
    for (uint64_t b = of->last; b >= of->first && b > 0; b--)
        if (c->count - claimants(c, b, *chain_at(of, b)) <= faulty)
            return b;
    return 0;
}

static void take(struct claims *c, const struct bft_statement *s)
{
    struct claim *k = &c->of[c->count++];
    k->first = s->ready - s->count + 1;
    k->last = s->ready;
    bft_statement_chain(s, k->chain);
}

static const char *choose(const struct claims *c, const struct bft_cut_options *o,
                          struct bft_cut *cut)
{
    *cut = (struct bft_cut){.chain = o->start};
    for (uint32_t i = 0; i < c->count; i++) {
        uint64_t b = furthest(c, &c->of[i], o->scope->faulty);
        const struct digest *chain = b ? chain_at(&c->of[i], b) : NULL;
        if (b > 0 && b == cut->batch && !digest_equal(*chain, cut->chain))
            return "two chains are possible";
        if (b > cut->batch)
            *cut = (struct bft_cut){.batch = b, .chain = *chain};
    }
    return NULL;
}

const char *bft_cut(const struct bft_cut_options *o, const struct bft_statement *const *s,
                    uint32_t count, struct bft_cut *cut)
{
    struct claims c = {.count = 0};
    uint32_t seen = 0, ahead = o->ahead ? o->ahead : BFT_FAST_AHEAD;
    for (uint32_t i = 0; i < count; i++) {
        if (seen & 1U << s[i]->mark.rank)
            return "two statements of one member";
        seen |= 1U << s[i]->mark.rank;
        take(&c, s[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (i != j && in_conflict(&c.of[i], &c.of[j], ahead))
                c.conflicts[i] |= 1U << j;
    uint32_t margin = PLANTED(bft_cut_no_margin) ? 0 : matching(&c, (1U << count) - 1);
    if (count < o->scope->faulty + 1 + margin)
        return "too few statements for as many that conflict";
    return choose(&c, o, cut);
}
