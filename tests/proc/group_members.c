/* Members of a group as processes: they come, get the state, send, are killed with SIGKILL, stopped and continued, come back
 * and leave, one after the other, and in the end have the same state. What they delivered is compared.
 *
 *      group_members [shm|tcp]     prints TAP
 */
#include "group_rig.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 3 };

static uint32_t tests;

static bool verdict(bool good, const char *what)
{
    printf("%sok %u - group_members__%s\n", good ? "" : "not ", ++tests, what);
    fflush(stdout);
    return good;
}

/* Stops it until the others have gone on without it. */
static bool stopped(struct grig *t, uint32_t h, uint32_t other)
{
    uint32_t vid = grig_vid(t, other);
    uint64_t put_out = t->board[h].put_out, until = clock_now_ns() + GRIG_PATIENCE;
    grig_stop(t, h);
    while (grig_vid(t, other) == vid && clock_now_ns() < until)
        grig_sleep(GRIG_MS);
    grig_continue(t, h);
    return grig_vid(t, other) != vid && grig_well(t) && t->board[h].put_out == put_out + 1;
}

static bool run(struct grig *t)
{
    grig_start(t, 0);
    grig_start(t, 1);
    bool good = verdict(grig_well(t), "two_come");
    if (good)
        grig_start(t, 2);
    good = good && verdict(grig_well(t), "a_third_comes_and_gets_the_state");
    if (good)
        grig_kill(t, 1);
    good = good && verdict(grig_well(t), "goes_on_without_one_that_is_killed");
    if (good)
        grig_start(t, 1);
    good = good && verdict(grig_well(t), "a_killed_one_comes_back");
    if (good)
        grig_kill(t, 0);
    good = good && verdict(grig_well(t), "goes_on_without_the_first_keeper");
    if (good)
        grig_start(t, 0);
    good = good && verdict(grig_well(t), "the_first_keeper_comes_back");
    good = good && verdict(stopped(t, 2, 0), "a_stopped_one_is_put_out_and_let_in_again");
    good = good && verdict(grig_leave(t, 1) && grig_well(t), "one_leaves");
    if (good)
        grig_start(t, 1);
    good = good && verdict(grig_well(t), "who_left_comes_again");
    good = good && verdict(grig_settled(t), "all_have_the_same_state");
    good = good &&
           verdict(grig_leave(t, 2) && grig_leave(t, 1) && grig_leave(t, 0), "all_leave_in_turn");
    return verdict(grig_check(t), "what_was_delivered_agrees") && good;
}

int main(int argc, char **argv)
{
    static struct grig t = {.hosts = HOSTS};
    t.transport = argc > 1 && strcmp(argv[1], "tcp") == 0 ? CLUSTER_TCP : CLUSTER_SHM;
    t.say = getenv("RIG_SAY") != NULL;
    if (!grig_open(&t)) {
        printf("Bail out! no cluster\n");
        return 1;
    }
    bool good = run(&t);
    grig_close(&t);
    printf("1..%u\n", tests);
    return good ? 0 : 1;
}
