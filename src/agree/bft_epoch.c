/* Fast epochs of a log among liars, between two of its slots: OPEN begins one, CUT ends it (bft_fast.h, bft_cut.h).
 *
 * In an epoch its leader gives its batches to all as frames; ECHO and READY are frames as well, and nothing is signed. A member
 * that has frozen signs its STATEMENT; whoever leads the slow path proposes a CUT as soon as statements give one whose batches it has, and
 * who certifies that has them too, so they are there for everybody. No slot but the CUT has an effect meanwhile, and no checkpoint is
 * made, so what a checkpoint holds does not depend on how far an epoch was. */
#include "agree/bft_impl.h"

#include "base/minmax.h"
#include "base/planted.h"

#include <stdlib.h>

enum {
    BATCHES_AT_ONCE = 4, /* of the leader, in a round */
    BACKOFF_DOUBLINGS = 10,
    CENSOR_TIMES = 4,
    DRAIN_BEATS = 8,
    FORGIVEN = 4,        /* epochs after which clients are believed again */
    FAST_BATCH_PART = 2, /* a batch has this part of batch_bytes: many are under way */
};

#define BACKOFF_DEFAULT_NS (10 * UINT64_C(1000000))

/* ---- opening ---- */

static uint32_t ahead_of(const struct bft_options *o)
{
    return o->fast_ahead ? o->fast_ahead : BFT_FAST_AHEAD;
}

uint32_t bft_epoch_ahead(const struct bft *b)
{
    return ahead_of(&b->opt);
}

static uint64_t statement_bytes(const struct bft *b)
{
    return bft_statement_bytes(2 * bft_epoch_ahead(b));
}

uint32_t bft_fast_batch_bytes(const struct bft_options *o)
{
    return (uint32_t)(sizeof(struct entry) + sizeof(struct bft_cut_entry) +
                      o->members * bft_statement_bytes(2 * ahead_of(o)));
}

static bool open_statements(struct bft *b)
{
    bool good = true;
    for (uint32_t p = 0; p < b->opt.members; p++)
        for (uint32_t i = 0; i < STATED_MAX; i++)
            good = (b->epoch->stated[p][i].of = bft_memory_open(b, statement_bytes(b))) && good;
    return good;
}

bool bft_epoch_open(struct bft *b)
{
    if (!b->opt.fast)
        return true;
    b->opt.fast_backoff_ns = b->opt.fast_backoff_ns ? b->opt.fast_backoff_ns : BACKOFF_DEFAULT_NS;
    b->epoch = bft_memory_open(b, sizeof(*b->epoch));
    if (b->epoch == NULL || !open_statements(b))
        return false;
    b->epoch->backoff_ns = b->opt.fast_backoff_ns;
    bool good = true;
    for (uint32_t i = 0; i < BFT_FAST_KEPT; i++)
        good = (b->epoch->content[i].data = bft_memory_open(b, b->opt.batch_bytes)) && good;
    return good;
}

void bft_epoch_close(struct bft *b)
{
    struct epoch *e = b->epoch;
    if (e == NULL)
        return;
    for (uint32_t p = 0; p < b->opt.members; p++)
        for (uint32_t i = 0; i < STATED_MAX; i++)
            free(e->stated[p][i].of);
    for (uint32_t i = 0; i < BFT_FAST_KEPT; i++)
        free(e->content[i].data);
    free(e);
}

bool bft_epoch_is_open(const struct bft *b)
{
    return b->epoch && b->epoch->open;
}

bool bft_epoch_is_fast(const struct bft *b)
{
    return bft_epoch_is_open(b) && b->epoch->fast.frozen == NULL;
}

static void forget_statements(struct bft *b)
{
    for (uint32_t p = 0; p < b->opt.members; p++)
        for (uint32_t i = 0; i < STATED_MAX; i++) {
            struct stated *s = &b->epoch->stated[p][i];
            s->there = false; /* a job that is under way ends, and counts for nothing */
            s->number = 0;
        }
}

static void begin(struct bft *b, uint64_t number, uint32_t leader)
{
    struct epoch *e = b->epoch;
    e->open = true;
    e->number = number;
    e->leader = leader;
    e->applied = 0;
    e->moved_ns = e->began_ns = b->now_ns;
    e->signing = e->has_cut = e->wants = e->proposed = false;
    e->drain_ns = 0;
    forget_statements(b);
    memcpy(e->life, b->core.life, sizeof(e->life));
    for (uint32_t i = 0; i < BFT_FAST_KEPT; i++)
        e->content[i].number = 0;
    for (uint32_t i = 0; i < b->opt.sources; i++) {
        b->source[i].cursor = b->source[i].taken;
        b->source[i].cursor_life = b->source[i].life;
        b->source[i].signed_only = b->source[i].signed_only && number % FORGIVEN != 0;
    }
    WATCH(b, opened, number);
    bft_fast_begin(&e->fast, b->opt.members, b->opt.rank, number, b->core.chain,
                   bft_epoch_ahead(b));
}

void bft_epoch_end(struct bft *b, uint64_t number)
{
    struct epoch *e = b->epoch;
    if (e == NULL)
        return;
    if (e->open && b->now_ns - e->began_ns > 10 * e->backoff_ns)
        e->backoff_ns = b->opt.fast_backoff_ns;
    else if (e->open)
        e->backoff_ns = min_u64(2 * e->backoff_ns, b->opt.fast_backoff_ns << BACKOFF_DOUBLINGS);
    e->open = false;
    b->anew = true;
    e->number = number;
    e->reopen_ns = b->now_ns + e->backoff_ns;
}

uint64_t bft_epoch_number(const struct bft *b)
{
    return b->epoch ? b->epoch->number : 0;
}

/* ---- freezing ---- */

void bft_epoch_freeze(struct bft *b, const char *why)
{
    struct epoch *e = b->epoch;
    if (e->fast.frozen)
        return;
    b->panics++;
    bft_fast_freeze(&e->fast, why);
    WATCH(b, frozen, e->number, why);
}

/* A client may have written to us alone: what it sends is taken with a signature from here on. */
static void suspect_clients(struct bft *b)
{
    struct epoch *e = b->epoch;
    for (uint64_t n = e->fast.decided + 1; n <= e->fast.batches; n++) {
        const struct content *c = &e->content[n % BFT_FAST_KEPT];
        for (uint32_t at = 0; at < c->bytes;) {
            const struct entry *of = (const void *)(c->data + at);
            if (of->source < b->opt.sources)
                b->source[of->source].signed_only = true;
            at += (uint32_t)entry_size(of->bytes);
        }
    }
}

/* Something is not decided that all know of, or that was shown to the leader. */
static bool is_stuck(struct bft *b)
{
    struct epoch *e = b->epoch;
    uint64_t since = bft_signed_waits(b);
    bool waits = e->fast.batches > e->fast.decided || since != 0;
    if (!waits)
        e->moved_ns = b->now_ns;
    return b->now_ns - e->moved_ns >= b->opt.view_ns ||
           (since != 0 && b->now_ns - max_u64(since, e->began_ns) >= CENSOR_TIMES * b->opt.view_ns);
}

static void watch(struct bft *b)
{
    for (uint32_t p = 0; p < b->opt.members; p++)
        if (b->core.peer[p].joins)
            bft_epoch_freeze(b, "a member has lost its memory");
        else if (b->core.peer[p].automaton.fault)
            bft_epoch_freeze(b, "a member is not listened to");
    if (is_stuck(b)) {
        suspect_clients(b);
        bft_epoch_freeze(b, "nothing was decided for a time-out");
    }
}

/* ---- batches ---- */

struct content *bft_epoch_content(struct bft *b, uint64_t number)
{
    return &b->epoch->content[number % BFT_FAST_KEPT];
}

bool bft_epoch_has(struct bft *b, uint64_t number, struct digest digest)
{
    const struct content *c = bft_epoch_content(b, number);
    return c->number == number && digest_equal(c->digest, digest);
}

static void put_content(struct bft *b, uint64_t number, struct digest digest, const void *data,
                        uint32_t bytes)
{
    struct content *c = bft_epoch_content(b, number);
    c->number = number;
    c->digest = digest;
    c->bytes = bytes;
    memcpy(c->data, data, bytes);
}

static void tell(struct bft *b, uint32_t to, uint32_t kind, uint64_t number, struct digest chain,
                 const void *data, uint32_t bytes)
{
    bft_tell(
        b, to,
        &(struct bft_frame){.kind = kind, .key = b->epoch->number, .number = number, .name = chain},
        data, bytes);
}

static void take(struct bft *b, const void *data, uint32_t bytes)
{
    struct epoch *e = b->epoch;
    struct digest digest = bft_name_of(data, bytes);
    uint64_t number = bft_fast_take(&e->fast, digest);
    put_content(b, number, digest, data, bytes);
    tell(b, BFT_ALL, BFT_FRAME_ECHO, number, bft_fast_chain(&e->fast, number), NULL, 0);
}

static int lead(struct bft *b)
{
    struct epoch *e = b->epoch;
    int work = 0;
    if (e->leader != b->opt.rank)
        return 0;
    for (; work < BATCHES_AT_ONCE && bft_fast_may_take(&e->fast); work++) {
        uint32_t bytes = bft_feed_fill_fast(b, b->scratch, b->opt.batch_bytes / FAST_BATCH_PART);
        if (bytes == 0)
            break;
        tell(b, BFT_ALL, BFT_FRAME_BATCH, e->fast.batches + 1, (struct digest){{0}}, b->scratch,
             bytes);
        take(b, b->scratch, bytes);
    }
    return work;
}

/* The next one of the leader, in our copy, when it is valid. */
static int follow(struct bft *b)
{
    struct epoch *e = b->epoch;
    uint64_t next = e->fast.batches + 1;
    const struct content *c = bft_epoch_content(b, next);
    if (e->leader == b->opt.rank || c->number != next || !bft_fast_may_take(&e->fast) ||
        bft_feed_valid(b, c->data, c->bytes) <= 0)
        return 0;
    take(b, c->data, c->bytes);
    return 1;
}

static int be_ready(struct bft *b)
{
    struct epoch *e = b->epoch;
    uint64_t number, last = 0;
    while ((number = bft_fast_ready(&e->fast)) != 0)
        last = number;
    if (last)
        tell(b, BFT_ALL, BFT_FRAME_READY, last, bft_fast_chain(&e->fast, last), NULL, 0);
    return last != 0;
}

/* What is decided is applied, each batch whole. False: the machine takes no more now. */
static bool apply_to(struct bft *b, uint64_t upto)
{
    struct epoch *e = b->epoch;
    while (e->applied < upto) {
        uint64_t next = e->applied + 1;
        const struct content *c = bft_epoch_content(b, next);
        CHECK(bft_epoch_has(b, next,
                            e->has_cut ? e->plan.digest[next - e->plan.from]
                                       : e->fast.batch[next % BFT_FAST_KEPT]));
        if (!bft_feed_apply_batch(b, c->data, c->bytes))
            return false;
        e->applied++;
        e->moved_ns = b->now_ns;
    }
    return true;
}

/* ---- in the slow path ---- */

static bool all_are_close(const struct bft *b)
{
    for (uint32_t p = 0; p < b->opt.members; p++) {
        if (b->core.peer[p].automaton.fault || b->core.peer[p].joins)
            return false;
        if (p != b->opt.rank &&
            (b->core.peer[p].applied != b->core.applied ||
             b->now_ns - b->epoch->beat_ns[p] > 2 * PATIENCE_BEATS * b->opt.beat_ns))
            return false;
    }
    return true;
}

/* It is time for one. Nothing else is proposed for a while, so that all come to be where we are. */
bool bft_epoch_drains(struct bft *b)
{
    struct epoch *e = b->epoch;
    if (e == NULL || e->open || b->now_ns < e->reopen_ns)
        return false;
    if (e->drain_ns == 0)
        e->drain_ns = b->now_ns;
    if (b->now_ns - e->drain_ns < DRAIN_BEATS * b->opt.beat_ns)
        return true;
    e->drain_ns = 0;
    e->reopen_ns = b->now_ns + e->backoff_ns;
    return false;
}

static uint32_t fill_open(struct bft *b, void *out)
{
    struct entry *e = out;
    struct bft_open_entry *o = (void *)e->payload;
    if (b->core.applied != b->core.said.next || !all_are_close(b))
        return 0;
    *e = (struct entry){.bytes = sizeof(*o), .source = SOURCE_LOG, .srcpos = BFT_ENTRY_OPEN};
    *o = (struct bft_open_entry){.epoch = b->epoch->number + 1, .leader = b->opt.rank};
    return (uint32_t)entry_size(sizeof(*o));
}

uint32_t bft_epoch_fill(struct bft *b, void *out, uint32_t room, bool anew)
{
    struct epoch *e = b->epoch;
    if (!e->open)
        return fill_open(b, out);
    e->proposed = e->proposed && !anew;
    uint32_t bytes = e->fast.frozen && !e->proposed ? bft_epoch_fill_cut(b, out, room) : 0;
    e->proposed = e->proposed || bytes > 0;
    return bytes;
}

bool bft_epoch_reserves(void *ctx, const void *batch, uint32_t bytes)
{
    const struct bft *b = ctx;
    const struct entry *e = batch;
    if (b->epoch == NULL)
        return false;
    return bytes < sizeof(*e) || e->source != SOURCE_LOG || e->srcpos != BFT_ENTRY_CUT;
}

int bft_epoch_valid(struct bft *b, const struct entry *e)
{
    struct epoch *ep = b->epoch;
    const struct bft_open_entry *o = (const void *)e->payload;
    const struct bft_cut_entry *c = (const void *)e->payload;
    struct cut_plan plan;
    if (ep == NULL || e->source != SOURCE_LOG)
        return 0;
    if (e->srcpos == BFT_ENTRY_OPEN)
        return e->bytes == sizeof(*o) && !ep->open && o->epoch == ep->number + 1 &&
               o->leader < b->opt.members;
    if (e->srcpos != BFT_ENTRY_CUT || !ep->open || !bft_epoch_plan(b, c, e->bytes, &plan) ||
        !bft_epoch_all_stated(b, c, e->bytes))
        return 0;
    return bft_epoch_has_batches(b, &plan, true);
}

/* The first entry of a batch that is decided. 1: it is none of ours; 0: not now; -1: that was all of the batch. */
int bft_epoch_apply(struct bft *b, const struct entry *e)
{
    struct epoch *ep = b->epoch;
    const struct bft_open_entry *o = (const void *)e->payload;
    const struct bft_cut_entry *c = (const void *)e->payload;
    if (ep == NULL)
        return 1;
    bool ours = e->source == SOURCE_LOG;
    if (ours && e->srcpos == BFT_ENTRY_OPEN && e->bytes == sizeof(*o)) {
        if (!ep->open && o->epoch == ep->number + 1 && o->leader < b->opt.members)
            begin(b, o->epoch, o->leader);
        return -1;
    }
    if (!ep->open)
        return ours && e->srcpos == BFT_ENTRY_CUT ? -1 : 1;
    if (!ours || e->srcpos != BFT_ENTRY_CUT || e->bytes < sizeof(*c) || c->epoch != ep->number)
        return -1; /* of the other mode: nothing */
    if (!ep->has_cut) {
        bft_epoch_freeze(b, "it was cut");
        if (!bft_epoch_plan(b, c, e->bytes, &ep->plan))
            return 0; /* what is before it was lost here: a state is loaded */
        ep->has_cut = true;
    }
    if (!bft_epoch_has_batches(b, &ep->plan, false) || !apply_to(b, ep->plan.cut.batch))
        return 0;
    WATCH(b, cut, ep->number, ep->plan.cut.batch);
    bft_epoch_end(b, ep->number);
    return -1;
}

/* ---- frames ---- */

static void take_batch(struct bft *b, uint32_t from, const struct bft_frame *f, uint32_t bytes)
{
    struct epoch *e = b->epoch;
    struct digest d;
    if (bytes == 0 || bytes > b->opt.batch_bytes || !bft_batch_fits(f->data, bytes))
        return;
    d = bft_name_of(f->data, bytes);
    uint64_t next = e->fast.batches + 1, n = f->number;
    bool wanted = e->wants && n >= e->want.from && n <= e->want.cut.batch &&
                  digest_equal(e->want.digest[n - e->want.from], d);
    bool soon = from == e->leader && e->fast.frozen == NULL && n >= next &&
                n < next + bft_epoch_ahead(b) && bft_epoch_content(b, n)->number != n;
    if (wanted || soon)
        put_content(b, n, d, f->data, bytes);
}

static void give_batch(struct bft *b, uint32_t to, const struct bft_frame *f)
{
    const struct content *c = bft_epoch_content(b, f->number);
    struct digest none = {{0}};
    if (c->number == f->number && f->number > 0 &&
        (digest_equal(c->digest, f->name) ||
         (digest_equal(f->name, none) && b->epoch->leader == b->opt.rank)))
        tell(b, to, BFT_FRAME_BATCH, f->number, c->digest, c->data, c->bytes);
}

static void take_statement(struct bft *b, uint32_t from, const struct bft_frame *f, uint32_t bytes)
{
    const struct bft_statement *s = (const void *)f->data;
    const struct bft_cut_options o = bft_epoch_cut_options(b);
    if (bytes >= sizeof(*s) && bft_statement_fault(&o, s, bytes) == NULL && s->mark.rank == from)
        bft_epoch_is_stated(b, s);
}

void bft_epoch_frame(struct bft *b, uint32_t from, const struct bft_frame *f, uint32_t bytes)
{
    struct epoch *e = b->epoch;
    if (e == NULL || !e->open || f->key != e->number)
        return;
    switch (f->kind) {
    case BFT_FRAME_BATCH:
        take_batch(b, from, f, bytes);
        break;
    case BFT_FRAME_ECHO:
        bft_fast_hear(&e->fast, from, BFT_FAST_ECHO, f->number, f->name);
        break;
    case BFT_FRAME_READY:
        bft_fast_hear(&e->fast, from, BFT_FAST_READY, f->number, f->name);
        break;
    case BFT_FRAME_STATEMENT:
        take_statement(b, from, f, bytes);
        break;
    default:
        give_batch(b, from, f);
        break;
    }
}

void bft_epoch_heard_beat(struct bft *b, uint32_t from)
{
    if (b->epoch)
        b->epoch->beat_ns[from] = b->now_ns;
}

/* ---- rounds ---- */

int bft_epoch_step(struct bft *b)
{
    struct epoch *e = b->epoch;
    int work = 0;
    if (e == NULL || !e->open || !b->core.votes)
        return 0;
    if (e->fast.frozen == NULL)
        watch(b);
    if (e->fast.frozen == NULL || PLANTED(bft_freeze_leaks)) {
        work += lead(b);
        while (follow(b))
            work++;
        work += be_ready(b);
    }
    uint64_t decided = bft_fast_decide(&e->fast);
    if (decided > e->applied && !e->has_cut) {
        work++;
        apply_to(b, decided);
    }
    if (e->fast.frozen)
        bft_epoch_state(b);
    return work + bft_epoch_end_jobs(b);
}

static void say_again(struct bft *b)
{
    const struct bft_fast *f = &b->epoch->fast;
    for (uint64_t n = f->decided + 1; n <= f->batches; n++)
        tell(b, BFT_ALL, BFT_FRAME_ECHO, n, bft_fast_chain(f, n), NULL, 0);
    if (f->ready > 0)
        tell(b, BFT_ALL, BFT_FRAME_READY, f->ready, bft_fast_chain(f, f->ready), NULL, 0);
    tell(b, b->epoch->leader, BFT_FRAME_ASK_BATCH, f->batches + 1, (struct digest){{0}}, NULL, 0);
}

void bft_epoch_beat(struct bft *b)
{
    struct epoch *e = b->epoch;
    if (!bft_epoch_is_open(b) || !b->core.votes)
        return;
    if (b->now_ns - e->moved_ns > b->opt.beat_ns)
        say_again(b);
    const struct stated *s = &e->stated[b->opt.rank][0];
    if (s->there)
        tell(b, BFT_ALL, BFT_FRAME_STATEMENT, 0, (struct digest){{0}}, s->of,
             (uint32_t)bft_statement_bytes(s->of->count));
    for (uint64_t n = e->want.from; e->wants && n <= e->want.cut.batch; n++)
        if (!bft_epoch_has(b, n, e->want.digest[n - e->want.from]))
            tell(b, BFT_ALL, BFT_FRAME_ASK_BATCH, n, e->want.digest[n - e->want.from], NULL, 0);
}
