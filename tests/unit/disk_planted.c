/* The disk with known mistakes compiled in: the model finds each of them, and nothing without them. */
#include "../disk_model.h"
#include "base/planted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEEDS_MAX = 1000 };

/* The first seed that finds something; 0: none does. */
static uint64_t hunt(enum planted bug, const char **found)
{
    struct disk_model_tally t = {0};
    uint64_t seed = 0;

    planted_bug = bug;
    for (*found = NULL; *found == NULL && seed < SEEDS_MAX;) {
        struct disk_model_options o = {.seed = ++seed, .full = seed % 5 == 0};
        *found = disk_model_run(&o, &t);
    }
    planted_bug = PLANTED_none;
    return *found ? seed : 0;
}

static void finds(enum planted bug, const char *name)
{
    const char *found;
    uint64_t seed = hunt(bug, &found);

    if (seed == 0)
        fail_msg("%s is not found within %d seeds", name, SEEDS_MAX);
    print_message("# %s, within %d seeds: %s\n", name, (int)seed, found);
}

#define FINDS(bug)                                                                                 \
    static void planted__finds_##bug(void **state)                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        finds(PLANTED_##bug, #bug);                                                                \
    }

FINDS(disk_done_early)
FINDS(disk_retried)
FINDS(disk_tail_no_crc)
FINDS(disk_damage_is_tail)
FINDS(disk_snap_unnamed)
FINDS(disk_life_early)
FINDS(disk_no_table)
FINDS(disk_old_counts)
FINDS(disk_snap_ahead)
FINDS(disk_told_early)
FINDS(disk_places_forgotten)

static void planted__finds_nothing_without(void **state)
{
    (void)state;
    const char *found;

    assert_int_equal(hunt(PLANTED_none, &found), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted__finds_nothing_without),
        cmocka_unit_test(planted__finds_disk_done_early),
        cmocka_unit_test(planted__finds_disk_retried),
        cmocka_unit_test(planted__finds_disk_tail_no_crc),
        cmocka_unit_test(planted__finds_disk_damage_is_tail),
        cmocka_unit_test(planted__finds_disk_snap_unnamed),
        cmocka_unit_test(planted__finds_disk_life_early),
        cmocka_unit_test(planted__finds_disk_no_table),
        cmocka_unit_test(planted__finds_disk_old_counts),
        cmocka_unit_test(planted__finds_disk_snap_ahead),
        cmocka_unit_test(planted__finds_disk_told_early),
        cmocka_unit_test(planted__finds_disk_places_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
