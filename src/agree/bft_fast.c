#include "agree/bft_fast.h"

#include "base/minmax.h"
#include "base/planted.h"

void bft_fast_begin(struct bft_fast *f, uint32_t members, uint32_t rank, uint64_t epoch,
                    struct digest start, uint32_t ahead)
{
    CHECK(ahead <= BFT_FAST_AHEAD && rank < members && members <= BFT_MEMBERS_MAX);
    *f = (struct bft_fast){.members = members,
                           .rank = rank,
                           .epoch = epoch,
                           .start = start,
                           .ahead = ahead ? ahead : BFT_FAST_AHEAD};
}

static bool is_kept(const struct bft_fast *f, uint64_t batch)
{
    return batch <= f->batches && f->batches - batch < BFT_FAST_KEPT;
}

struct digest bft_fast_chain(const struct bft_fast *f, uint64_t batch)
{
    CHECK(is_kept(f, batch));
    return batch == 0 ? f->start : f->chain[batch % BFT_FAST_KEPT];
}

void bft_fast_freeze(struct bft_fast *f, const char *why)
{
    if (f->frozen == NULL)
        f->frozen = why;
}

static bool says_nothing(const struct bft_fast *f)
{
    return f->frozen != NULL && !PLANTED(bft_freeze_leaks);
}

/* ---- our own ---- */

bool bft_fast_may_take(const struct bft_fast *f)
{
    return !says_nothing(f) && f->batches < f->decided + f->ahead;
}

static void compare(struct bft_fast *f, uint32_t rank, enum bft_fast_kind kind, uint64_t batch,
                    struct digest chain)
{
    uint64_t *upto = &f->said[rank].upto[kind];
    if (!digest_equal(chain, bft_fast_chain(f, batch)))
        bft_fast_freeze(f, "a member is on another chain");
    else
        *upto = max_u64(*upto, batch);
}

/* What others have said already of the batch that we have now. */
static void compare_early(struct bft_fast *f, uint64_t batch)
{
    uint32_t at = (uint32_t)(batch % BFT_FAST_TOLD);
    for (uint32_t r = 0; r < f->members; r++)
        for (uint32_t k = 0; k < BFT_FAST_KINDS; k++)
            if (f->said[r].early[k][at] == batch)
                compare(f, r, (enum bft_fast_kind)k, batch, f->said[r].chain[k][at]);
}

static void say(struct bft_fast *f, enum bft_fast_kind kind, uint64_t batch)
{
    f->said[f->rank].upto[kind] = batch;
}

uint64_t bft_fast_take(struct bft_fast *f, struct digest batch)
{
    CHECK(bft_fast_may_take(f));
    uint64_t next = f->batches + 1;
    struct digest before = bft_fast_chain(f, f->batches);
    f->batch[next % BFT_FAST_KEPT] = batch;
    f->chain[next % BFT_FAST_KEPT] = digest_chain(before, batch);
    f->batches = next;
    say(f, BFT_FAST_ECHO, next);
    compare_early(f, next);
    return next;
}

/* ---- others' ---- */

/* What is further ahead than a correct member can be is nothing. */
void bft_fast_hear(struct bft_fast *f, uint32_t rank, enum bft_fast_kind kind, uint64_t batch,
                   struct digest chain)
{
    struct bft_fast_said *s = &f->said[rank];
    uint32_t at = (uint32_t)(batch % BFT_FAST_TOLD);
    CHECK(rank < f->members && rank != f->rank);
    if (is_kept(f, batch)) {
        compare(f, rank, kind, batch, chain);
    } else if (batch > f->batches && batch - f->batches <= BFT_FAST_TOLD) {
        s->early[kind][at] = batch;
        s->chain[kind][at] = chain;
    }
}

static uint64_t said_by_all(const struct bft_fast *f, enum bft_fast_kind kind)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < f->members; r++)
        least = min_u64(least, f->said[r].upto[kind]);
    return least;
}

uint64_t bft_fast_ready(struct bft_fast *f)
{
    if (says_nothing(f) || f->ready >= said_by_all(f, BFT_FAST_ECHO))
        return 0;
    say(f, BFT_FAST_READY, ++f->ready);
    return f->ready;
}

uint64_t bft_fast_decide(struct bft_fast *f)
{
    enum bft_fast_kind by = PLANTED(bft_cut_one_round) ? BFT_FAST_ECHO : BFT_FAST_READY;
    f->decided = max_u64(f->decided, said_by_all(f, by));
    return f->decided;
}

/* ---- the end ---- */

uint64_t bft_fast_statement(const struct bft_fast *f, struct bft_statement *s)
{
    CHECK(f->frozen != NULL);
    uint32_t count = (uint32_t)min_u64(f->ready, 2 * f->ahead);
    uint64_t first = f->ready - count + 1;
    *s = (struct bft_statement){
        .epoch = f->epoch, .ready = f->ready, .count = count, .base = bft_fast_chain(f, first - 1)};
    s->mark.rank = f->rank;
    for (uint32_t i = 0; i < count; i++)
        s->batch[i] = f->batch[(first + i) % BFT_FAST_KEPT];
    return bft_statement_bytes(count);
}
