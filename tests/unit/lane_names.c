#include "lane/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const enum region_class classes[] = {REGION_GROUP, REGION_CELL, REGION_VIEW_LOG,
                                            REGION_MEMBER, REGION_EDGE};

/* The first and the last number of each class are of that class, and no other's. */
static void names__a_number_tells_its_class_and_index(void **state)
{
    (void)state;
    for (int c = 0; c < 5; c++) {
        uint32_t last = (c < 4 ? (uint32_t)classes[c + 1] - 1 : UINT32_MAX) - (uint32_t)classes[c];
        uint32_t some[] = {0, 1, 1023, last - 1, last};
        for (int i = 0; i < 5; i++) {
            uint32_t n = region_number(classes[c], some[i]);
            assert_int_equal(region_class(n), classes[c]);
            assert_int_equal(region_index(n), some[i]);
        }
    }
}

/* What nodes of earlier versions call a group, an edge and a client's lane. */
static void names__the_numbers_are_what_they_were(void **state)
{
    (void)state;
    assert_int_equal(region_number(REGION_GROUP, 7), 7);
    assert_int_equal(region_number(REGION_EDGE, 7), 7u | 1u << 30);
    assert_int_equal(lane_spec(0, 0, 0, LANE_SOURCE, 12).kind, 4 | 12 << 8);
    assert_int_equal(lane_spec(0, 0, 0, LANE_REPLY, 0).kind, 8);
}

static void names__a_lane_tells_its_kind_and_index(void **state)
{
    const enum lane_kind kinds[] = {LANE_LOG,  LANE_ROW,   LANE_SNAP, LANE_SOURCE,
                                    LANE_ACK,  LANE_REPLY, LANE_SEND, LANE_REPORT,
                                    LANE_VIEW, LANE_STATE, LANE_ASK,  LANE_ANSWER};
    const uint32_t some[] = {0, 1, 255, 256, 4095, (1 << 24) - 1};

    (void)state;
    for (int n = 0; n < 12; n++)
        for (int i = 0; i < 6; i++) {
            struct mem_lane_spec s = lane_spec(3, 1, 2, kinds[n], some[i]);
            assert_int_equal(lane_kind(&s), kinds[n]);
            assert_int_equal(lane_index(&s), some[i]);
            assert_true(s.region == 3 && s.owner == 1 && s.writer == 2);
        }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(names__a_number_tells_its_class_and_index),
        cmocka_unit_test(names__the_numbers_are_what_they_were),
        cmocka_unit_test(names__a_lane_tells_its_kind_and_index),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
