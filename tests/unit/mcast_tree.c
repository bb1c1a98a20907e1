/* What the tree has to do as any protocol, and what no correct client sends. The schedules of faults are in
 * mcast_tree_schedules.c. */
#include "../mcast_schedules.h"
#include "../tree_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../holds.h"

static void tree__bodies_and_replies_of_all_sizes(void **state)
{
    (void)state;
    HOLDS(all_sizes(MCAST_TREE));
}

static void tree__as_much_is_under_way_as_replies_fit(void **state)
{
    (void)state;
    HOLDS(as_many_as_replies_fit(MCAST_TREE));
}

static void tree__a_second_life_voids_what_the_first_left(void **state)
{
    (void)state;
    HOLDS(second_life(MCAST_TREE));
}

static void tree__bad_destinations_are_delivered_nowhere(void **state)
{
    (void)state;
    HOLDS(bad_list(MCAST_TREE, 1, 2, (const uint16_t[]){0, 2})); /* the lca is above */
    HOLDS(bad_list(MCAST_TREE, 0, 2, (const uint16_t[]){2, 3})); /* the lca is below */
    HOLDS(bad_list(MCAST_TREE, 2, 1, (const uint16_t[]){0}));    /* not below at all */
    HOLDS(bad_list(MCAST_TREE, 0, 2, (const uint16_t[]){0, 4})); /* there is no such group */
    HOLDS(bad_list(MCAST_TREE, 0, 1, (const uint16_t[]){UINT16_MAX}));
    HOLDS(bad_list(MCAST_TREE, 0, 2, (const uint16_t[]){2, 0}));    /* not in order */
    HOLDS(bad_list(MCAST_TREE, 0, 3, (const uint16_t[]){0, 1, 1})); /* twice */
    HOLDS(bad_list(MCAST_TREE, 0, 0, (const uint16_t[]){0}));       /* none */
    HOLDS(bad_list(MCAST_TREE, 0, 1025, (const uint16_t[8]){0}));   /* more than there can be */
    HOLDS(bad_list(MCAST_TREE, 0, UINT16_MAX, (const uint16_t[8]){0}));
    HOLDS(bad_list(MCAST_TREE, 0, 1000, (const uint16_t[8]){0, 1})); /* than it has bytes for */
}

static void tree__truncated_messages_are_delivered_nowhere(void **state)
{
    (void)state;
    struct forest_raw r = forest_raw(1, 0, (const uint16_t[]){0, 1}, 2);
    for (uint32_t bytes = 0; bytes < 24; bytes += 5)
        HOLDS(bad_message(MCAST_TREE, 0, &r, bytes));
    HOLDS(bad_message(MCAST_TREE, 0, &r, sizeof(struct message)));
    HOLDS(bad_message(MCAST_TREE, 0, &r, sizeof(struct message) + 7));
}

static void tree__another_clients_name_is_not_taken(void **state)
{
    (void)state;
    HOLDS(false_name(MCAST_TREE, 0, 0));
    HOLDS(false_name(MCAST_TREE, 15, 0)); /* the next that the other will cast */
    struct forest_raw r = forest_raw(7, 0, (const uint16_t[]){0, 1}, 2);
    HOLDS(bad_message(MCAST_TREE, 0, &r, sizeof(r))); /* a place that there is not */
}

static void tree__another_clients_message_is_not_refused(void **state)
{
    (void)state;
    HOLDS(false_name_meanwhile(MCAST_TREE));
}

/* A life that is yet to come would void the answers to the present one. */
static void tree__another_clients_life_is_not_ended(void **state)
{
    (void)state;
    HOLDS(false_name(MCAST_TREE, 0, 3));
}

/* The same in one's own place: it would void the answers to the processes that come after. */
static void tree__a_false_life_does_not_spoil_the_place(void **state)
{
    (void)state;
    struct forest_raw r = forest_raw(1, 3, (const uint16_t[]){0, 1}, 2);
    r.m.count = 3; /* and a list that is refused: 0, 1, 0 */
    HOLDS(bad_message(MCAST_TREE, 0, &r, sizeof(r)));
    r = forest_raw(1, 3, (const uint16_t[]){1, 2}, 2); /* refused by the root: it is not the lca */
    HOLDS(bad_message(MCAST_TREE, 0, &r, sizeof(r)));
}

static void tree__leaders_that_are_cut_off_go_through_followers(void **state)
{
    (void)state;
    HOLDS(leaders_cut_off(MCAST_TREE, true, true));
    HOLDS(leaders_cut_off(MCAST_TREE, true, false));
    HOLDS(leaders_cut_off(MCAST_TREE, false, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree__bodies_and_replies_of_all_sizes),
        cmocka_unit_test(tree__as_much_is_under_way_as_replies_fit),
        cmocka_unit_test(tree__a_second_life_voids_what_the_first_left),
        cmocka_unit_test(tree__leaders_that_are_cut_off_go_through_followers),
        cmocka_unit_test(tree__bad_destinations_are_delivered_nowhere),
        cmocka_unit_test(tree__truncated_messages_are_delivered_nowhere),
        cmocka_unit_test(tree__another_clients_name_is_not_taken),
        cmocka_unit_test(tree__another_clients_message_is_not_refused),
        cmocka_unit_test(tree__another_clients_life_is_not_ended),
        cmocka_unit_test(tree__a_false_life_does_not_spoil_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
