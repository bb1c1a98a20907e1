/* Fast epochs end where everything that was decided in them is kept: members that run agree/bft_fast.h among liars freeze at any time, and
 * whichever usable statements a proposer takes, the CUT is behind all that correct members have decided, or still decide. The rule is
 * compared with a second one, written down as the page has it. After ../shared/models/byz_cut.py. */
#include "../planted_fixture.h"
#include "agree/bft_fast.h"
#include "base/rng.h"

#include <stdlib.h>

enum {
    AHEAD = 2, /* BFT_FAST_AHEAD, so that little is enough */
    TOLD = 2 * AHEAD,
    CHAIN_MAX = 64,
    SAID_MAX = 2 * CHAIN_MAX,
    EPOCH = 3,
};

/* What a member has said, in order. */
struct saying {
    enum bft_fast_kind kind;
    uint64_t batch;
    struct digest chain;
};

struct member {
    bool lies;
    struct bft_fast fast;
    uint64_t value[CHAIN_MAX +
                   1]; /* the leader's batches, as it is shown them; of a liar, as it states them */
    struct saying said[SAID_MAX];
    uint32_t says;
    uint32_t heard[BFT_MEMBERS_MAX]; /* sayings of each */
    struct bft_statement *statement;
};

static struct world {
    struct rng rng;
    struct bft_scope scope;
    struct bft_cut_options options;
    uint64_t length; /* of the leader's chain */
    struct member member[BFT_MEMBERS_MAX];
    uint64_t decided, usable; /* figures */
} w;

static bool draw(uint64_t of_thousand)
{
    return rng_below(&w.rng, 1000) < of_thousand;
}

static struct digest batch_digest(uint64_t value)
{
    return (struct digest){{value, 1, 2, 3}};
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- members ---- */

static void open_world(uint32_t members)
{
    w.scope = (struct bft_scope){.members = members, .faulty = members / 2};
    w.options =
        (struct bft_cut_options){.scope = &w.scope, .epoch = EPOCH, .start = {{7}}, .ahead = AHEAD};
    for (uint32_t i = 0; i < members; i++) {
        struct member *m = &w.member[i];
        free(m->statement);
        *m = (struct member){.statement = calloc(1, bft_statement_bytes(TOLD))};
        assert_non_null(m->statement);
        bft_fast_begin(&m->fast, members, i, EPOCH, w.options.start, AHEAD);
        for (uint64_t b = 1; b <= CHAIN_MAX; b++)
            m->value[b] = b;
    }
}

static void close_world(void)
{
    for (uint32_t i = 0; i < BFT_MEMBERS_MAX; i++) {
        free(w.member[i].statement);
        w.member[i].statement = NULL;
    }
}

/* From that batch on it is another chain. */
static void fork_chain(struct member *m, uint64_t from, uint64_t mark)
{
    for (uint64_t b = from < 1 ? 1 : from; b <= CHAIN_MAX; b++)
        m->value[b] = mark + b;
}

static void add(struct member *m, enum bft_fast_kind kind, uint64_t batch)
{
    assert_true(m->says < SAID_MAX);
    m->said[m->says++] = (struct saying){kind, batch, bft_fast_chain(&m->fast, batch)};
}

static void take(struct member *m)
{
    if (m->fast.batches < w.length && bft_fast_may_take(&m->fast))
        add(m, BFT_FAST_ECHO, bft_fast_take(&m->fast, batch_digest(m->value[m->fast.batches + 1])));
}

static void be_ready(struct member *m)
{
    uint64_t b = bft_fast_ready(&m->fast);
    if (b > 0)
        add(m, BFT_FAST_READY, b);
}

/* The next thing that another has said; liars say to each what it would like to hear. */
static void hear(struct member *m, uint32_t from)
{
    const struct member *o = &w.member[from];
    if (from == m->fast.rank)
        return;
    if (o->lies) {
        for (uint32_t k = 0; m->fast.batches > 0 && k < BFT_FAST_KINDS; k++)
            bft_fast_hear(&m->fast, from, (enum bft_fast_kind)k, m->fast.batches,
                          bft_fast_chain(&m->fast, m->fast.batches));
    } else if (m->heard[from] < o->says) {
        const struct saying *s = &o->said[m->heard[from]++];
        bft_fast_hear(&m->fast, from, s->kind, s->batch, s->chain);
    }
    bft_fast_decide(&m->fast);
}

static void step(struct member *m)
{
    switch (rng_below(&w.rng, 3)) {
    case 0:
        take(m);
        break;
    case 1:
        be_ready(m);
        break;
    default:
        hear(m, (uint32_t)rng_below(&w.rng, w.scope.members));
        break;
    }
    if (draw(8))
        bft_fast_freeze(&m->fast, "somebody panics");
}

/* ---- statements ---- */

/* Of a chain as a liar makes it up, with that many batches. */
static void state_values(struct member *m, uint32_t rank, uint64_t ready)
{
    struct bft_statement *s = m->statement;
    uint32_t count = (uint32_t)least(ready, TOLD);
    *s = (struct bft_statement){
        .epoch = EPOCH, .ready = ready, .count = count, .base = w.options.start};
    s->mark.rank = rank;
    for (uint64_t b = 1; b <= ready; b++) {
        if (b + count <= ready)
            s->base = digest_chain(s->base, batch_digest(m->value[b]));
        else
            s->batch[b - (ready - count) - 1] = batch_digest(m->value[b]);
    }
}

static uint64_t furthest_ready(void)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < w.scope.members; i++)
        if (!w.member[i].lies && w.member[i].fast.ready > most)
            most = w.member[i].fast.ready;
    return most;
}

/* Just beyond the windows of the others, mostly, on another chain. */
static void lie(struct member *m, uint32_t rank)
{
    static const uint64_t beyond[] = {0,    1,        AHEAD,        AHEAD + 1,
                                      TOLD, TOLD + 1, TOLD + AHEAD, 3 * TOLD};
    uint64_t most = furthest_ready(), ready = rng_below(&w.rng, most + TOLD + 4);
    if (draw(500))
        ready = most + beyond[rng_below(&w.rng, 8)];
    if (draw(700))
        fork_chain(m, most > 6 ? most - rng_below(&w.rng, 7) : 1, 1000);
    state_values(m, rank, least(ready, CHAIN_MAX));
}

/* ---- the rule once more ---- */

static uint64_t first_told(const struct bft_statement *s)
{
    return s->ready - s->count + 1;
}

static struct digest told(const struct bft_statement *s, uint64_t batch)
{
    struct digest d = s->base;
    for (uint64_t b = first_told(s); b <= batch; b++)
        d = digest_chain(d, s->batch[b - first_told(s)]);
    return d;
}

static bool tells(const struct bft_statement *s, uint64_t batch)
{
    return batch >= first_told(s) && batch <= s->ready;
}

static bool differ(const struct bft_statement *a, const struct bft_statement *b)
{
    if (a->ready > b->ready + AHEAD || b->ready > a->ready + AHEAD)
        return true;
    for (uint64_t k = 1; k <= CHAIN_MAX; k++)
        if (tells(a, k) && tells(b, k) && !digest_equal(told(a, k), told(b, k)))
            return true;
    return false;
}

/* Every way to pair them. */
static uint32_t pairs(const struct bft_statement *const *s, uint32_t count, uint32_t used)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++) {
            if (used >> i & 1 || used >> j & 1 || !differ(s[i], s[j]))
                continue;
            uint32_t n = 1 + pairs(s, count, used | 1U << i | 1U << j);
            best = n > best ? n : best;
        }
    return best;
}

static bool by_the_page(const struct bft_statement *const *s, uint32_t count, struct bft_cut *cut)
{
    *cut = (struct bft_cut){.chain = w.options.start};
    if (count < w.scope.faulty + 1 + pairs(s, count, 0))
        return false;
    for (uint64_t b = CHAIN_MAX; b > 0; b--)
        for (uint32_t i = 0; i < count; i++) {
            uint32_t lack = 0;
            for (uint32_t j = 0; tells(s[i], b) && j < count; j++)
                lack += !tells(s[j], b) || !digest_equal(told(s[j], b), told(s[i], b));
            if (tells(s[i], b) && lack <= w.scope.faulty) {
                *cut = (struct bft_cut){.batch = b, .chain = told(s[i], b)};
                return true;
            }
        }
    return true;
}

/* ---- what must hold ---- */

/* The CUT's chain at an earlier batch, if one of these tells of it. */
static bool chain_of_cut(const struct bft_statement *const *s, uint32_t count,
                         const struct bft_cut *cut, uint64_t batch, struct digest *d)
{
    for (uint32_t i = 0; i < count; i++)
        if (tells(s[i], cut->batch) && digest_equal(told(s[i], cut->batch), cut->chain) &&
            batch + 1 >= first_told(s[i])) {
            *d = told(s[i], batch);
            return true;
        }
    return false;
}

static const char *check_decided(const struct bft_statement *const *s, uint32_t count,
                                 const struct bft_cut *cut)
{
    for (uint32_t i = 0; i < w.scope.members; i++) {
        const struct member *m = &w.member[i];
        struct digest d;
        if (m->lies || m->fast.decided == 0)
            continue;
        if (cut->batch < m->fast.decided)
            return "a decision is lost";
        if (chain_of_cut(s, count, cut, m->fast.decided, &d) &&
            !digest_equal(d, bft_fast_chain(&m->fast, m->fast.decided)))
            return "a decision is lost";
    }
    return NULL;
}

static const char *check_set(uint32_t set)
{
    const struct bft_statement *s[BFT_MEMBERS_MAX] = {NULL};
    struct bft_cut cut, page;
    uint32_t count = 0, liars = 0;
    for (uint32_t i = 0; i < w.scope.members; i++)
        if (set >> i & 1) {
            s[count++] = w.member[i].statement;
            liars += w.member[i].lies;
        }
    const char *unusable = bft_cut(&w.options, s, count, &cut);
    if (liars == 0 && count > w.scope.faulty && unusable)
        return "statements of correct members are not usable";
    if (planted_bug == PLANTED_none && by_the_page(s, count, &page) != (unusable == NULL))
        return "another set is usable than the page says";
    if (unusable)
        return NULL;
    w.usable++;
    if (planted_bug == PLANTED_none &&
        (page.batch != cut.batch || !digest_equal(page.chain, cut.chain)))
        return "another CUT than the page says";
    return check_decided(s, count, &cut);
}

/* What was said before all froze may still decide. */
static void hear_the_rest(void)
{
    for (uint32_t i = 0; i < w.scope.members; i++)
        for (uint32_t q = 0; !w.member[i].lies && q < w.scope.members; q++)
            for (uint32_t k = 0; k < SAID_MAX; k++)
                hear(&w.member[i], q);
    for (uint32_t i = 0; i < w.scope.members; i++)
        w.decided += !w.member[i].lies && w.member[i].fast.decided > 0;
}

static const char *end_epoch(void)
{
    for (uint32_t i = 0; i < w.scope.members; i++) {
        struct member *m = &w.member[i];
        if (!m->lies) {
            bft_fast_freeze(&m->fast, "the end");
            uint64_t bytes = bft_fast_statement(&m->fast, m->statement);
            if (bft_statement_fault(&w.options, m->statement, bytes))
                return "a correct statement is refused";
        }
    }
    for (uint32_t i = 0; i < w.scope.members; i++)
        if (w.member[i].lies)
            lie(&w.member[i], i);
    if (PLANTED(bft_freeze_leaks))
        for (uint32_t k = 0; k < 200; k++)
            step(&w.member[rng_below(&w.rng, w.scope.members)]);
    hear_the_rest();
    for (uint32_t set = 1; set < 1U << w.scope.members; set++) {
        const char *wrong = check_set(set);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static void draw_liars(void)
{
    for (uint32_t lying = 0; lying < w.scope.faulty;) {
        struct member *m = &w.member[rng_below(&w.rng, w.scope.members)];
        lying += !m->lies;
        m->lies = true;
    }
}

static uint32_t members;

static const char *one_run(uint64_t seed)
{
    rng_init(&w.rng, seed);
    open_world(members);
    draw_liars();
    w.length = rng_below(&w.rng, 11) + AHEAD;
    if (draw(300)) /* the leader lies, too */
        for (uint32_t i = 0, from = (uint32_t)rng_below(&w.rng, w.length + 1); i < members; i++)
            if (draw(400))
                fork_chain(&w.member[i], from, 500);
    for (uint64_t steps = rng_below(&w.rng, 60 + w.length * 8 * members * members); steps > 0;
         steps--) {
        struct member *m = &w.member[rng_below(&w.rng, members)];
        if (!m->lies)
            step(m);
    }
    return end_epoch();
}

/* ---- tests ---- */

static uint64_t seeds(void)
{
    const char *s = getenv("TRAM_BFT_SEEDS");
    return s ? strtoull(s, NULL, 10) : 1500;
}

static void cut__keeps_all_that_was_decided_whichever_statements_it_uses(void **state)
{
    (void)state;
    for (members = 3; members <= 7; members += 2) {
        w.decided = w.usable = 0;
        for (uint64_t seed = 1; seed <= seeds() / (members == 7 ? 6 : 1); seed++) {
            const char *wrong = one_run(seed);
            if (wrong)
                fail_msg("%u members, seed %d: %s", members, (int)seed, wrong);
        }
        printf("# %u members: %llu have decided, %llu usable sets\n", members,
               (unsigned long long)w.decided, (unsigned long long)w.usable);
        assert_true(w.decided > 100);
    }
    close_world();
}

static void cut__planted_mistakes_show(void **state)
{
    (void)state;
    members = 3;
    finds_in_some(PLANTED_bft_cut_no_margin, one_run, 2000, "a decision is lost");
    finds_in_some(PLANTED_bft_cut_far, one_run, 2000, "a decision is lost");
    finds_in_some(PLANTED_bft_cut_one_round, one_run, 400,
                  "a decision is lost|statements of correct members are not usable");
    finds_in_some(PLANTED_bft_freeze_leaks, one_run, 400,
                  "a decision is lost|statements of correct members are not usable");
    members = 5;
    finds_in_some(PLANTED_bft_cut_no_margin, one_run, 2000, "a decision is lost");
    close_world();
}

static void go_on(uint32_t rounds)
{
    for (uint32_t k = 0; k < rounds; k++)
        for (uint32_t i = 0; i < w.scope.members; i++) {
            struct member *m = &w.member[i];
            for (uint32_t q = 0; !m->lies && q < w.scope.members; q++)
                hear(m, q);
            if (!m->lies) {
                take(m);
                be_ready(m);
            }
        }
}

/* Schedule 2: one alone has seen READY of all, and is slow; all freeze, and a liar claims another chain. */
static void cut__what_one_alone_has_decided_is_kept(void **state)
{
    (void)state;
    open_world(3);
    w.member[2].lies = true;
    w.length = 3;
    struct member *first = &w.member[0], *second = &w.member[1];
    take(first);
    take(second);
    for (uint32_t i = 0; i < 2; i++) {
        hear(&w.member[i], 1 - i);
        hear(&w.member[i], 2);
        be_ready(&w.member[i]);
    }
    hear(first, 1);
    assert_int_equal(first->fast.decided, 1);
    assert_int_equal(second->fast.decided, 0);
    bft_fast_freeze(&first->fast, "test");
    bft_fast_freeze(&second->fast, "test");
    bft_fast_statement(&first->fast, first->statement);
    bft_fast_statement(&second->fast, second->statement);
    fork_chain(&w.member[2], 1, 1000);
    state_values(&w.member[2], 2, 3);
    for (uint32_t set = 1; set < 8; set++)
        assert_null(check_set(set));
    close_world();
}

/* Schedule 5: what the leader writes when a member has frozen is not taken. */
static void fast__takes_nothing_when_frozen(void **state)
{
    (void)state;
    open_world(3);
    w.length = 10;
    take(&w.member[0]);
    assert_true(bft_fast_may_take(&w.member[0].fast));
    bft_fast_freeze(&w.member[0].fast, "the first reason");
    bft_fast_freeze(&w.member[0].fast, "another");
    assert_false(bft_fast_may_take(&w.member[0].fast));
    assert_int_equal(bft_fast_ready(&w.member[0].fast), 0);
    assert_string_equal(w.member[0].fast.frozen, "the first reason");
    close_world();
}

/* Nobody goes on further than the window allows while one member says nothing. */
static void fast__one_silent_member_stops_all(void **state)
{
    (void)state;
    open_world(3);
    w.length = CHAIN_MAX;
    go_on(5);
    uint64_t decided = w.member[0].fast.decided;
    assert_true(decided > 0);
    for (uint32_t k = 0; k < 20; k++)
        for (uint32_t i = 0; i < 2; i++) {
            hear(&w.member[i], 1 - i);
            take(&w.member[i]);
            be_ready(&w.member[i]);
        }
    assert_true(w.member[0].fast.batches <= w.member[0].fast.decided + AHEAD);
    assert_true(w.member[0].fast.decided <= decided + AHEAD);
    assert_null(w.member[0].fast.frozen);
    close_world();
}

static void statement__that_leaves_something_out_is_refused(void **state)
{
    (void)state;
    open_world(3);
    struct member *m = &w.member[0];
    struct bft_statement *s = m->statement;
    uint64_t bytes = bft_statement_bytes(TOLD);
    state_values(m, 0, 7);
    assert_null(bft_statement_fault(&w.options, s, bytes));
    assert_non_null(bft_statement_fault(&w.options, s, bytes - 8));
    s->count--;
    assert_non_null(bft_statement_fault(&w.options, s, bytes - sizeof(struct digest)));
    state_values(m, 0, TOLD);
    s->base.word[0]++;
    assert_non_null(bft_statement_fault(&w.options, s, bytes));
    state_values(m, 3, 7);
    assert_non_null(bft_statement_fault(&w.options, s, bytes));
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut__keeps_all_that_was_decided_whichever_statements_it_uses),
        cmocka_unit_test(cut__planted_mistakes_show),
        cmocka_unit_test(cut__what_one_alone_has_decided_is_kept),
        cmocka_unit_test(fast__takes_nothing_when_frozen),
        cmocka_unit_test(fast__one_silent_member_stops_all),
        cmocka_unit_test(statement__that_leaves_something_out_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
