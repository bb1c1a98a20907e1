/* The core of a log among liars: correct members decide the same, slot by slot, and go on deciding, whatever liars say; and each planted
 * mistake shows. */
#include "../bft_world.h"
#include "../planted_fixture.h"

#include <stdlib.h>

enum { SHAPES = 11 };

static const struct bft_shape shapes[SHAPES] = {
    {.members = 3},
    {.members = 5},
    {.members = 3, .restarts = true},
    {.members = 5, .restarts = true},
    {.members = 3, .aim = BFT_AIM_JUMP},
    {.members = 3, .aim = BFT_AIM_LATE},
    {.members = 3, .aim = BFT_AIM_BLIND},
    {.members = 5, .restarts = true, .aim = BFT_AIM_DOMAIN},
    {.members = 5, .aim = BFT_AIM_LATE},
    {.members = 3, .hurry = 60},
    {.members = 3, .aim = BFT_AIM_CERT, .hurry = 2},
};

/* More by TRAM_BFT_SEEDS, for campaigns. */
static uint64_t seeds(void)
{
    const char *s = getenv("TRAM_BFT_SEEDS");
    return s ? strtoull(s, NULL, 10) : 40;
}

static void core__correct_members_agree_and_go_on(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SHAPES; i++) {
        struct bft_figures f = {0};
        for (uint64_t seed = 1; seed <= seeds(); seed++) {
            const char *violated = bft_world_run(&shapes[i], seed, &f);
            if (violated)
                fail_msg("shape %u, seed %d: %s (%s)", (unsigned)i, (int)seed, violated, bw.why);
        }
        printf("# shape %u: %llu decided, %llu jumps, %llu JOINs, %llu views, %llu NEW-VIEWs, %llu "
               "checkpoints, %llu loads, %llu believed of f+1, %llu departed, %llu lies\n",
               (unsigned)i, (unsigned long long)f.decided, (unsigned long long)f.jumps,
               (unsigned long long)f.joins, (unsigned long long)f.views,
               (unsigned long long)f.new_views, (unsigned long long)f.checkpoints,
               (unsigned long long)f.loads, (unsigned long long)f.taken_over,
               (unsigned long long)f.departed, (unsigned long long)f.lies);
        assert_true(f.decided > 0);
    }
}

static const struct bft_shape *shape;

static const char *one_run(uint64_t seed)
{
    struct bft_figures f = {0};
    return bft_world_run(shape, seed, &f);
}

/* In which shape each shows best. */
static void core__planted_mistakes_show(void **state)
{
    static const struct {
        enum planted bug;
        uint32_t shape, seeds;
        const char *as;
    } bugs[] = {
        {PLANTED_bft_cert_f, 10, 60, "agreement|certificate above a decision"},
        {PLANTED_bft_jump_blank, 4, 40, "two certificates|a correct member is not listened to"},
        {PLANTED_bft_late_commit, 5, 60, "certificate above a decision|agreement"},
        {PLANTED_bft_vouch_blind, 6, 60, "certificate above a decision|agreement"},
        {PLANTED_bft_sig_no_domain, 7, 20, "broken|liveness"},
        {PLANTED_bft_timeout_fixed, 9, 4, "liveness"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++) {
        shape = &shapes[bugs[i].shape];
        finds_in_some(bugs[i].bug, one_run, bugs[i].seeds, bugs[i].as);
    }
}

static void core__a_promise_of_a_life_before_a_join_is_void(void **state)
{
    (void)state;
    assert_null(bft_world_forgotten_promise());
    FINDS(bft_join_old_state, bft_world_forgotten_promise(),
          "certificate above a decision|agreement");
}

/* They meet in a view, though a liar would lead on whoever is ahead (seed 2267 of the simulator, strategy late). */
static void core__who_is_ahead_waits_for_the_others(void **state)
{
    (void)state;
    assert_null(bft_world_one_ahead());
    FINDS(bft_led_on, bft_world_one_ahead(), "liveness");
}

/* Lengths that liars write: none leads out of what was received. */
static void wire__a_length_that_wraps_is_refused(void **state)
{
    const struct bft_scope scope = {.members = 3, .faulty = 1};
    uint32_t bytes =
        sizeof(struct bft_new_view) + sizeof(struct bft_vouched) + 2 * sizeof(struct bft_mark);
    struct bft_new_view *n = calloc(1, bytes);
    struct bft_vouched *v = (void *)n->states;
    (void)state;
    n->head = (struct bft_head){.kind = BFT_NEW_VIEW, .count = bytes - (uint32_t)sizeof(*n)};
    *v = (struct bft_vouched){.marks = 2, .bytes = UINT32_MAX - 7};
    v->mark[1].rank = 1;
    assert_non_null(bft_body_fault(&scope, n, bytes));
    v->bytes = UINT32_MAX - 7 - (uint32_t)sizeof(*v) - 2 * (uint32_t)sizeof(struct bft_mark) + 8;
    assert_non_null(bft_body_fault(&scope, n, bytes));
    assert_non_null(bft_body_fault(&scope, n, sizeof(struct bft_head) - 8));
    free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wire__a_length_that_wraps_is_refused),
        cmocka_unit_test(core__correct_members_agree_and_go_on),
        cmocka_unit_test(core__planted_mistakes_show),
        cmocka_unit_test(core__a_promise_of_a_life_before_a_join_is_void),
        cmocka_unit_test(core__who_is_ahead_waits_for_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
