/* Broadcast that nobody can use to say two things: correct members deliver the same of everybody, and all of who is correct, whatever
 * liars write into their rows; and each planted mistake shows. */
#include "../neb_world.h"
#include "../planted_fixture.h"
#include "agree/bft_neb.h"
#include "base/err.h"

enum { SEEDS = 100, SHAPES = 6 };

static const struct neb_shape shapes[SHAPES] = {
    {.members = 3, .window = 2},
    {.members = 3, .window = 3},
    {.members = 5, .window = 3},
    {.members = 3, .window = 2, .memories = 3},
    {.members = 5, .window = 3, .memories = 3},
    {.members = 3, .window = 4, .memories = 3, .links = true},
};

static void neb__correct_members_agree_and_go_on(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SHAPES; i++) {
        struct neb_figures f = {0};
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            const char *violated = neb_world_run(&shapes[i], seed, &f);
            if (violated)
                fail_msg("shape %u, seed %d: %s", (unsigned)i, (int)seed, violated);
        }
        printf("# shape %u: %llu delivered, %llu lapped, %llu convicted, %llu cells of liars\n",
               (unsigned)i, (unsigned long long)f.delivered, (unsigned long long)f.lapped,
               (unsigned long long)f.convicted, (unsigned long long)f.cells);
        assert_true(f.delivered > SEEDS && f.lapped > 0 && f.convicted > 0);
    }
}

static const struct neb_shape *shape;

static const char *one_run(uint64_t seed)
{
    struct neb_figures f = {0};
    return neb_world_run(shape, seed, &f);
}

/* In which shape each shows best. */
static void neb__planted_mistakes_show(void **state)
{
    static const struct {
        enum planted bug;
        uint32_t shape;
        const char *as;
    } bugs[] = {
        {PLANTED_neb_own_sig, 0, "agreement"},
        {PLANTED_neb_read_first, 0, "agreement"},
        {PLANTED_neb_no_lap, 0, "agreement|liveness"},
        {PLANTED_neb_hides_two, 3, "agreement"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++) {
        shape = &shapes[bugs[i].shape];
        finds_in_some(bugs[i].bug, one_run, 700, bugs[i].as);
    }
}

static void neb__a_torn_cell_is_neither_none_nor_waited_for(void **state)
{
    (void)state;
    assert_null(neb_world_torn(true));
    assert_null(neb_world_torn(false));
    FINDS(neb_skips_torn, neb_world_torn(true), "agreement");
    FINDS(neb_waits_torn, neb_world_torn(false), "liveness");
}

/* Schedule 6. */
static void neb__what_is_rewritten_between_two_readers_convicts(void **state)
{
    (void)state;
    assert_null(neb_world_rewritten());
    FINDS(neb_own_sig, neb_world_rewritten(), "agreement");
}

/* Schedule 7. */
static void neb__a_reader_that_was_lapped_delivers_nothing(void **state)
{
    (void)state;
    assert_null(neb_world_lapped());
    FINDS(neb_no_lap, neb_world_lapped(), "agreement");
}

static void neb__what_cannot_be_opened_is_refused_with_what_can(void **state)
{
    struct err e = {""};
    struct neb *n;
    const struct neb_options wrong[] = {
        {.members = 3, .rank = 3, .window = 8},
        {.members = NEB_MEMBERS_MAX + 1, .window = 8},
        {.members = 3, .window = 1},
        {.members = 3, .window = NEB_WINDOW_MAX + 1},
        {.members = 3, .window = 8, .memories = (const uint32_t[]){4, 5}, .memory_count = 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(neb_open(&wrong[i], &n, &e), ERR_INVALID);
        assert_non_null(strstr(e.text, "possible"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neb__correct_members_agree_and_go_on),
        cmocka_unit_test(neb__planted_mistakes_show),
        cmocka_unit_test(neb__a_torn_cell_is_neither_none_nor_waited_for),
        cmocka_unit_test(neb__what_is_rewritten_between_two_readers_convicts),
        cmocka_unit_test(neb__a_reader_that_was_lapped_delivers_nothing),
        cmocka_unit_test(neb__what_cannot_be_opened_is_refused_with_what_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
