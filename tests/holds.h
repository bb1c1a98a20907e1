/* For tests of schedules, which return the property that they found violated, or NULL. cmocka.h comes
 * before it; planted_fixture.h is for the other way round. */
#ifndef TESTS_HOLDS_H
#define TESTS_HOLDS_H

#define HOLDS(schedule)                                                                            \
    do {                                                                                           \
        const char *violated_ = (schedule);                                                        \
        if (violated_ != NULL)                                                                     \
            fail_msg("%s: %s", #schedule, violated_);                                              \
    } while (0)

#endif
