/* Members that lie, on the broadcast: whatever their strategy, correct members agree, and each strategy finds what it is for. */
#include "../neb_world.h"
#include "../planted_fixture.h"
#include "base/err.h"

enum { SEEDS = 25 };

static const enum hostile_strategy of_broadcast[] = {
    HOSTILE_equivocate, HOSTILE_silent, HOSTILE_stale, HOSTILE_garbage, HOSTILE_forge,
    HOSTILE_rewrite,    HOSTILE_replay, HOSTILE_lap,   HOSTILE_mixed,
};

static const struct neb_shape shapes[] = {
    {.members = 3, .window = 2},
    {.members = 3, .window = 4},
    {.members = 5, .window = 3},
};

static void run_all(enum hostile_strategy s, struct neb_figures *f)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct neb_shape shape = shapes[i];
        shape.strategy = s;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            const char *violated = neb_world_run(&shape, seed, f);
            if (violated)
                fail_msg("%s, shape %u, seed %d: %s", hostile_name(s), (unsigned)i, (int)seed,
                         violated);
        }
    }
}

static void hostile__no_strategy_breaks_the_broadcast(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(of_broadcast) / sizeof(of_broadcast[0]); i++) {
        enum hostile_strategy s = of_broadcast[i];
        struct neb_figures f = {0};
        run_all(s, &f);
        printf("# %s: %llu delivered, %llu lapped, %llu convicted, %llu lies\n", hostile_name(s),
               (unsigned long long)f.delivered, (unsigned long long)f.lapped,
               (unsigned long long)f.convicted, (unsigned long long)f.cells);
        assert_true(f.delivered > SEEDS && f.cells > 0);
        assert_true(s != HOSTILE_equivocate || f.convicted > 0);
        assert_true(s != HOSTILE_lap || f.lapped > 0);
    }
}

static struct neb_shape planted_shape;

static const char *one_run(uint64_t seed)
{
    struct neb_figures f = {0};
    return neb_world_run(&planted_shape, seed, &f);
}

static void hostile__each_strategy_finds_what_it_is_for(void **state)
{
    static const struct {
        enum planted bug;
        enum hostile_strategy by;
        const char *as;
    } bugs[] = {
        {PLANTED_neb_own_sig, HOSTILE_equivocate, "agreement"},
        {PLANTED_neb_read_first, HOSTILE_equivocate, "agreement"},
        {PLANTED_neb_no_lap, HOSTILE_equivocate, "agreement|liveness"},
        {PLANTED_neb_waits_torn, HOSTILE_garbage, "liveness"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++) {
        planted_shape = shapes[0];
        planted_shape.strategy = bugs[i].by;
        finds_in_some(bugs[i].bug, one_run, 300, bugs[i].as);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile__no_strategy_breaks_the_broadcast),
        cmocka_unit_test(hostile__each_strategy_finds_what_it_is_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
