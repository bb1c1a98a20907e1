/* The rules that hold inside a log: each is broken by hand once, and named. That no run breaks them the simulator and
 * all schedules see, after every post and settle. */
#include "../log_fixture.h"
#include "agree/log_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* With the field as given, log_check says so; as it was, it says nothing. */
#define BREAKS(l, field, value, text)                                                              \
    do {                                                                                           \
        __typeof__((l)->field) was_ = (l)->field;                                                  \
        assert_null(log_check(l));                                                                 \
        (l)->field = (value);                                                                      \
        const char *broken_ = log_check(l);                                                        \
        assert_non_null(broken_);                                                                  \
        assert_string_equal(broken_, text);                                                        \
        (l)->field = was_;                                                                         \
        assert_null(log_check(l));                                                                 \
    } while (0)

/* A group of three that is led and has a few messages behind it. */
static struct group *led(struct log **leader, struct log **follower)
{
    struct group *g =
        group_open(&(struct group_options){.replicas = 3, .seed = 5, .snap_pad = 50000});
    GROUP_WAIT(g, group_leader(g) < 3, GROUP_ELECT_NS);
    for (int i = 0; i < 5; i++)
        group_send(g, 0, 40);
    GROUP_WAIT(g, group_delivered(g), GROUP_ELECT_NS);
    group_run(g, 100 * US);
    assert_false(group_failed(g));
    *leader = g->replica[group_leader(g)].log;
    *follower = g->replica[(group_leader(g) + 1) % 3].log;
    return g;
}

static void log_check__names_what_is_wrong_with_a_follower(void **state)
{
    (void)state;
    struct log *leader, *l;
    struct group *g = led(&leader, &l);
    uint32_t other = (l->me + 1) % 3;
    BREAKS(l, ballot, 3 + l->me, "it has a ballot if and only if it leads or tries to");
    BREAKS(l, state, UNIT_JOINING, "it joins if and only if its memory promises nothing");
    BREAKS(l, behind, true, "its row says whether it has a state and promises");
    BREAKS(l, applied, l->applied - 8, "its row says no more applied than is");
    BREAKS(l, peer[other].phase, PEER_LIVE, "only a leader writes to others");
    BREAKS(l, peer[other].phase, PEER_READY,
           "who neither leads nor tries to has no business with others");
    BREAKS(l, peer[other].hold, 0, "only a leader holds the log for others, or detaches them");
    BREAKS(l, snap_to, other, "only a leader sends a state");
    BREAKS(l, taking.on, true, "who takes a state has none");
    BREAKS(l, rec.step, REC_SUFFIX, "only a candidate recovers");
    BREAKS(l, dirty_count, l->dirty_count + 1, "each source that is to be told is listed once");
    assert_null(group_close(g));
}

static void log_check__names_what_is_wrong_with_a_leader(void **state)
{
    (void)state;
    struct log *l, *follower;
    struct group *g = led(&l, &follower);
    uint32_t other = (l->me + 1) % 3;
    const struct peer *p = &l->peer[other];
    BREAKS(l, ballot, l->ballot + 1, "its ballot is one of its own");
    BREAKS(l, behind, true, "who has no state neither leads nor tries to");
    BREAKS(l, commit, l->tail + 8, "commit <= tail <= tail_max");
    BREAKS(l, tail_max, l->tail - 8, "commit <= tail <= tail_max");
    BREAKS(l, applied, l->tail + 8, "applied <= tail");
    BREAKS(l, base, l->applied + 8, "its own lane holds what it has to apply next");
    BREAKS(l, start_end, l->tail + 8, "a leader has committed its start marker");
    BREAKS(l, commit, l->tail - 8, "at rest, all that is written is committed and applied");
    BREAKS(l, peer[other].flow.ballot, l->ballot - 3, "a leader writes under its own ballot");
    BREAKS(l, peer[other].next, l->tail + 8,
           "start <= next <= tail of each replica that is written to");
    BREAKS(l, peer[other].flow.done, p->flow.marked + 8,
           "done <= marked <= next of each replica that is written to");
    BREAKS(l, peer[other].commit_sent, l->tail + 8,
           "a replica is told of no commit beyond what it is known to hold");
    BREAKS(l, comparing, other, "the replica whose lane is compared is the one that is said to be");
    BREAKS(l, peer[l->me].phase, PEER_DOWN, "a leader writes to its own lane");
    BREAKS(l, source[0].taken, l->source[0].cursor + 8,
           "a source is read from where it was taken, or beyond");
    assert_null(group_close(g));
}

static void log_check__names_a_log_without_room(void **state)
{
    (void)state;
    struct log *l, *follower;
    struct group *g = led(&l, &follower);
    uint64_t tail = l->tail + l->opt.log_bytes;
    assert_null(log_check(l));
    l->commit = l->tail = l->tail_max = tail;
    l->at_rest = false;
    assert_string_equal(log_check(l), "no position is used again before it is applied here");
    l->applied = tail;
    assert_string_equal(log_check(l),
                        "no position is used again before all who are written to have applied it");
    group_close(g);
}

static void log_check__names_a_transfer_that_is_too_far(void **state)
{
    (void)state;
    struct log *l, *follower;
    struct group *g = led(&l, &follower);
    uint32_t rank = follower->me;
    group_crash(g, rank, false);
    group_start(g, rank);
    GROUP_WAIT(g, l->snap_to < l->n && l->sending.step == SEND_STATE && l->sending.sent > 0,
               GROUP_ELECT_NS);
    assert_false(group_failed(g));
    BREAKS(l, sending.sent, l->sending.taken + l->opt.snap_bytes + 8,
           "taken <= sent <= taken + ring of a state that is sent");
    BREAKS(l, sending.next, l->sending.next + 8, "the backlog of a state ends at what is applied");
    assert_null(group_close(g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_check__names_what_is_wrong_with_a_follower),
        cmocka_unit_test(log_check__names_what_is_wrong_with_a_leader),
        cmocka_unit_test(log_check__names_a_log_without_room),
        cmocka_unit_test(log_check__names_a_transfer_that_is_too_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
