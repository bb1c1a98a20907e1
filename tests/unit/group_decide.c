/* The next view: each rule of how it follows from the applied one, from reports and from rows; and planted mistakes in them. */
#include "group/decide.h"

#include "../planted_fixture.h"

enum { HOSTS = 6, CELLS = 2, HELD = 10 };
#define LIFE(n) ((uint64_t)(n) << 16)
#define HOSTS_ALL set_all(HOSTS)

static struct {
    struct cell_layout cell[CELLS];
    struct layout_options layout;
    struct view *now, *next;
    struct report report[HOSTS];
    struct cell_report told[HOSTS][CELLS];
    struct decide_input in;
    const char *why;
} rig;

/* View 4 of all six hosts: 0 to 3 are in the first cell, 2 to 5 in the second; all send; all have the state. */
static int open_rig(void **state)
{
    (void)state;
    struct err e = {""};
    memset(&rig, 0, sizeof(rig));
    if (view_open(HOSTS, CELLS, &rig.now, &e) || view_open(HOSTS, CELLS, &rig.next, &e))
        return -1;
    for (uint32_t c = 0; c < CELLS; c++) {
        uint64_t members = c == 0 ? 0x0f : 0x3c;
        rig.cell[c] = (struct cell_layout){
            .hosts = members, .members_min = 1, .senders = UINT64_MAX, .subgroup = c};
        rig.now->cell[c] = (struct view_cell){.state = CELL_LIVES,
                                              .born = 1 + c,
                                              .members = members,
                                              .senders = members,
                                              .stateful = members};
    }
    rig.layout = (struct layout_options){.cell = rig.cell, .cells = CELLS};
    rig.now->vid = 4;
    rig.now->adequate = true;
    rig.now->members = HOSTS_ALL;
    for (uint32_t h = 0; h < HOSTS; h++)
        rig.now->life[h] = rig.now->seen[h] = LIFE(1 + h);
    rig.in = (struct decide_input){.now = rig.now, .layout = &rig.layout};
    return view_check(rig.now) != NULL;
}

static int close_rig(void **state)
{
    (void)state;
    view_close(rig.now);
    view_close(rig.next);
    return 0;
}

/* Host h holds 10 messages of each sender. */
static void reports(uint32_t h)
{
    rig.report[h] =
        (struct report){.vid = rig.now->vid, .life = rig.now->life[h], .cell = rig.told[h]};
    rig.in.report[h] = &rig.report[h];
    rig.in.life[h] = rig.now->life[h];
    for (uint32_t c = 0; c < CELLS; c++) {
        bool in = in_set(rig.now->cell[c].members, h);
        rig.told[h][c].has_state = in_set(rig.now->cell[c].stateful, h);
        rig.told[h][c].senders = in ? set_count(rig.now->cell[c].senders) : 0;
        for (uint32_t i = 0; i < rig.told[h][c].senders; i++)
            rig.told[h][c].held[i] = HELD;
    }
}

static void report_all(void)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        reports(h);
}

static void leave(uint32_t h)
{
    rig.in.leaves[h] = rig.now->life[h];
}

static const struct view *decided(void)
{
    rig.why = decide(&rig.in, rig.next);
    if (rig.why)
        fail_msg("%s", rig.why);
    assert_null(view_check(rig.next));
    return rig.next;
}

static void not_decided(const char *part)
{
    const char *why = decide(&rig.in, rig.next);
    assert_non_null(why);
    assert_non_null(strstr(why, part));
}

/* ---- members ---- */

static void decide__all_who_report_go_on(void **state)
{
    (void)state;
    report_all();
    const struct view *n = decided();
    assert_true(n->vid == 5 && n->members == HOSTS_ALL && n->leavers == 0 && n->adequate);
    for (uint32_t h = 0; h < HOSTS; h++)
        assert_true(n->life[h] == LIFE(1 + h) && n->seen[h] == LIFE(1 + h));
    for (uint32_t c = 0; c < CELLS; c++) {
        assert_true(n->cell[c].state == CELL_LIVES && n->cell[c].born == 1 + c);
        assert_true(n->cell[c].members == rig.now->cell[c].members);
        assert_true(n->cell[c].stateful == rig.now->cell[c].stateful);
        assert_int_equal(n->cell[c].trims, 4);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(n->cell[c].trim[i], HELD);
    }
}

static void decide__who_has_not_reported_is_out(void **state)
{
    (void)state;
    report_all();
    rig.in.report[2] = NULL;
    rig.report[3].vid = 3;            /* of the view before */
    rig.report[4].life = LIFE(5) - 1; /* in another life */
    rig.told[5][1].senders = 3;       /* of a cell that is not so */
    assert_true(decide_reported(&rig.in) == 0x03);
    const struct view *n = decided();
    assert_true(n->members == 0x03);
    assert_true(n->seen[5] == LIFE(6) && n->life[5] == 0);
}

static void decide__a_count_that_cannot_be_is_no_report(void **state)
{
    (void)state;
    report_all();
    rig.told[0][0].held[3] = UINT64_C(1) << STAMP_COUNT_BITS;
    assert_true(decide_reported(&rig.in) == (HOSTS_ALL & ~set_of(0)));
    rig.told[0][0].held[3]--;
    assert_true(decide_reported(&rig.in) == HOSTS_ALL);
    rig.told[0][1].senders = 9; /* nobody looks at cells that it is not in */
    assert_true(decide_reported(&rig.in) == HOSTS_ALL);
}

static void decide__nobody_reported_nothing_is_decided(void **state)
{
    (void)state;
    rig.in.life[0] = LIFE(9);
    not_decided("reported");
}

static void decide__the_first_view_needs_nobody_before_it(void **state)
{
    (void)state;
    struct view *now = rig.now;
    *now = (struct view){.hosts = HOSTS, .cells = CELLS};
    for (uint32_t c = 0; c < CELLS; c++)
        now->cell[c] = (struct view_cell){.state = CELL_UNBORN};
    rig.in.life[0] = LIFE(1);
    rig.in.life[1] = LIFE(2);
    rig.in.view_majority = true;
    not_decided("lacks members");
    rig.in.life[5] = LIFE(1);
    const struct view *n = decided();
    assert_true(n->vid == 1 && n->members == 0x23 && n->life[1] == LIFE(2) && n->adequate);
    assert_true(n->cell[0].born == 1 && n->cell[0].members == 0x03 && n->cell[0].trims == 0);
    assert_true(n->cell[1].members == 0x20 && n->cell[1].stateful == 0x20);
}

static void decide__after_a_view_of_nobody_joiners_begin(void **state)
{
    (void)state;
    report_all();
    for (uint32_t h = 0; h < HOSTS; h++)
        leave(h);
    view_copy(rig.now, decided());
    assert_true(rig.now->members == 0 && rig.now->leavers == HOSTS_ALL);
    rig.in.view_majority = true;
    rig.in.life[3] = LIFE(4) + 1;
    const struct view *n = decided();
    assert_true(n->vid == 6 && n->members == set_of(3) && n->leavers == 0);
    assert_true(n->cell[0].state == CELL_VACANT && n->cell[0].trims == 0);
}

static void decide__view_majority_is_more_than_half(void **state)
{
    (void)state;
    rig.in.view_majority = true;
    for (uint32_t h = 0; h < 3; h++)
        reports(h);
    not_decided("majority");
    reports(3);
    leave(3); /* it ends the view with the others, so it counts */
    assert_true(decided()->members == 0x07);
    rig.in.view_majority = false;
    rig.in.report[1] = rig.in.report[2] = rig.in.report[3] = NULL;
    assert_true(decided()->members == 0x01);
}

static void decide__views_are_so_many(void **state)
{
    (void)state;
    rig.now->vid = VIEWS_MAX;
    report_all();
    not_decided("too many");
}

/* ---- claims ---- */

static uint64_t put_out(void)
{
    return HOSTS_ALL & ~decided()->members;
}

static void decide__mutual_claims_put_out_the_higher_rank(void **state)
{
    (void)state;
    report_all();
    rig.in.claims[1] = set_of(4);
    rig.in.claims[4] = set_of(1);
    assert_true(put_out() == set_of(4));
}

static void decide__a_claim_puts_out_the_claimed(void **state)
{
    (void)state;
    report_all();
    rig.in.claims[4] = set_of(1);
    assert_true(put_out() == set_of(1));
}

static void decide__the_fewest_go(void **state)
{
    (void)state;
    report_all();
    /* 2 hears nobody, and everybody hears it. */
    rig.in.claims[2] = HOSTS_ALL & ~set_of(2);
    assert_true(put_out() == set_of(2));
    /* Two pairs that have 0 in common. */
    rig.in.claims[2] = 0;
    rig.in.claims[0] = set_of(4) | set_of(5);
    rig.in.claims[4] = rig.in.claims[5] = set_of(0);
    assert_true(put_out() == set_of(0));
}

static void decide__claims_of_who_is_out_or_leaves_do_not_count(void **state)
{
    (void)state;
    report_all();
    rig.in.report[0] = NULL;
    rig.in.claims[0] = HOSTS_ALL;
    rig.in.claims[1] = set_of(0) | set_of(1) | set_of(7);
    rig.in.claims[2] = set_of(5);
    rig.in.claims[5] = set_of(2) | set_of(3);
    leave(5);
    const struct view *n = decided();
    assert_true(n->members == (HOSTS_ALL & ~set_of(0) & ~set_of(5)) && n->leavers == set_of(5));
    /* Nor does one go because it cannot be with one who leaves. */
    rig.in.claims[2] = 0;
    leave(1);
    rig.in.claims[1] = set_of(4);
    rig.in.claims[4] = set_of(1);
    n = decided();
    assert_true(n->members == 0x1c && n->leavers == 0x22);
}

/* What the other holds less of does not cut the view short: it is out. */
static void decide__who_is_put_out_does_not_trim(void **state)
{
    (void)state;
    report_all();
    rig.in.claims[1] = set_of(3);
    rig.told[3][0].held[0] = 2;
    rig.told[2][0].held[0] = 7;
    assert_int_equal(decided()->cell[0].trim[0], 7);
}

/* ---- joining and leaving ---- */

static void decide__a_new_life_is_let_in_once(void **state)
{
    (void)state;
    report_all();
    rig.in.report[3] = NULL; /* a new process has its place */
    rig.in.life[3] = LIFE(7);
    const struct view *n = decided();
    assert_true(n->life[3] == LIFE(7) && n->seen[3] == LIFE(7) && n->members == HOSTS_ALL);
    assert_true(n->cell[0].members == 0x0f && n->cell[0].stateful == 0x07);
}

static void decide__who_leaves_is_told_apart(void **state)
{
    (void)state;
    report_all();
    leave(1);
    rig.in.leaves[2] = LIFE(3) - 1; /* an earlier life did */
    const struct view *n = decided();
    assert_true(n->leavers == set_of(1) && n->members == (HOSTS_ALL & ~set_of(1)));
    assert_true(n->seen[1] == LIFE(2) && n->cell[0].members == 0x0d);
}

/* Its next life does not come in with the view that it leaves in. */
static void decide__a_leaver_is_not_a_joiner(void **state)
{
    (void)state;
    report_all();
    leave(1);
    rig.in.life[1] = LIFE(2) + 1;
    assert_true(!in_set(decided()->members, 1));
}

/* ---- cells ---- */

static void decide__a_cell_without_state_is_vacant(void **state)
{
    (void)state;
    rig.now->cell[1].stateful = 0x1c; /* 5 had come into it, and has no state yet */
    report_all();
    leave(2);
    rig.in.report[3] = rig.in.report[4] = NULL;
    const struct view *n = decided();
    assert_int_equal(n->cell[1].state, CELL_VACANT);
    assert_true(n->cell[1].members_last == 0x3c && n->cell[1].members == 0);
    assert_int_equal(n->cell[1].trims, 4);
    assert_int_equal(n->cell[0].state, CELL_LIVES);
    assert_false(n->adequate);
    view_copy(rig.now, n);
    report_all();
    n = decided();
    assert_true(n->cell[1].state == CELL_VACANT && n->cell[1].members_last == 0x3c);
    assert_int_equal(n->cell[1].trims, 0);
}

static void decide__nobody_of_a_cell_reported_it_has_no_trim(void **state)
{
    (void)state;
    reports(0);
    const struct view *n = decided();
    assert_true(n->cell[1].state == CELL_VACANT && n->cell[1].trims == 0);
    assert_int_equal(n->cell[0].trims, 4);
}

static void decide__a_vacant_cell_is_reset(void **state)
{
    (void)state;
    reports(0);
    reports(1);
    view_copy(rig.now, decided());
    rig.in.life[3] = LIFE(4) + 1;
    rig.in.reset[0] = 1; /* the first cell lives: nothing to reset */
    reports(0);
    reports(1);
    const struct view *n = decided();
    assert_int_equal(n->cell[1].state, CELL_VACANT);
    rig.in.reset[0] = 2;
    n = decided();
    assert_true(n->cell[1].state == CELL_LIVES && n->cell[1].born == 6);
    assert_true(n->cell[1].members == set_of(3) && n->cell[1].members_last == 0);
    assert_true(n->cell[0].born == 1);
}

/* ---- what each planted mistake breaks ---- */

/* A view ends where all hold everything who end it: those who leave, have no state, or go to another cell, too. */
static const char *trims_are_held_by_all(void)
{
    report_all();
    leave(3);
    rig.told[0][0].held[0] = 7;
    rig.told[1][0].held[1] = 6;
    rig.told[1][0].has_state = false;
    rig.told[3][0].held[2] = 5;
    const struct view *n = decided();
    const uint64_t want[] = {7, 6, 5, HELD};
    return memcmp(n->cell[0].trim, want, sizeof(want)) ? "trim" : NULL;
}

static const char *who_leaves_together_ends_alike(void)
{
    report_all();
    for (uint32_t h = 0; h < 4; h++)
        leave(h);
    rig.told[2][0].held[3] = 4;
    const struct view *n = decided();
    return n->cell[0].trims != 4 || n->cell[0].trim[3] != 4 ? "trim" : NULL;
}

/* Host 3 is put out, alive; its row still has the life that was let in, and later one above it. */
static const char *lives_come_in_once(void)
{
    report_all();
    rig.in.report[3] = NULL;
    if (in_set(decided()->members, 3))
        return "integrity";
    view_copy(rig.now, rig.next);
    report_all();
    rig.in.life[3] = LIFE(4);
    if (in_set(decided()->members, 3))
        return "integrity";
    rig.in.life[3] = LIFE(4) + 1;
    return in_set(decided()->members, 3) ? NULL : "liveness";
}

static const char *state_is_with_who_has_it(void)
{
    report_all();
    rig.told[0][0].has_state = rig.told[2][0].has_state = false;
    const struct view *n = decided();
    if (n->cell[0].members != 0x0f)
        return "members";
    return n->cell[0].stateful != 0x0a ? "state" : NULL;
}

/* Host 3 has come to the first cell without its state, which is large or not. */
static const struct view *comes_without_state(bool large)
{
    rig.now->cell[0].stateful = 0x07;
    report_all();
    rig.told[0][0].large = large;
    return decided();
}

static void decide__who_lacks_a_large_state_learns_it(void **state)
{
    (void)state;
    const struct view *n = comes_without_state(false);
    assert_true(n->cell[0].members == 0x0f && n->cell[0].learners == 0);
    n = comes_without_state(true);
    assert_true(n->cell[0].members == 0x07 && n->cell[0].learners == 0x08);
    assert_true(n->cell[0].senders == 0x07 && n->cell[1].learners == 0);
    rig.told[1][0].learnt = 4; /* it has it, nearly */
    n = comes_without_state(true);
    assert_true(n->cell[0].members == 0x0f && n->cell[0].stateful == 0x07);
    rig.told[1][0].learnt = 0;
    rig.cell[0].members_min = 4; /* the cell needs it */
    n = comes_without_state(true);
    assert_true(n->cell[0].members == 0x0f && n->cell[0].learners == 0);
}

static void decide__a_learner_does_not_count(void **state)
{
    (void)state;
    rig.now->cell[0] = (struct view_cell){.state = CELL_LIVES,
                                          .born = 1,
                                          .members = 0x07,
                                          .senders = 0x07,
                                          .stateful = 0x07,
                                          .learners = 0x08};
    report_all();
    rig.told[0][0].large = true;
    rig.told[3][0] = (struct cell_report){.has_state = true}; /* whatever it says */
    const struct view *n = decided();
    assert_true(n->cell[0].members == 0x07 && n->cell[0].learners == 0x08);
    assert_true(n->cell[0].trims == 3 && n->cell[0].trim[2] == HELD);
    rig.in.report[0] = rig.in.report[1] = rig.in.report[2] = NULL;
    n = decided(); /* those who have it are gone: a learner has nothing */
    assert_true(n->cell[0].state == CELL_VACANT && n->cell[0].learners == 0);
}

/* A fresh rig each time. */
static const char *afresh(const char *(*scenario)(void))
{
    close_rig(NULL);
    assert_int_equal(open_rig(NULL), 0);
    return scenario();
}

static void decide__trims_are_held_by_all(void **state)
{
    (void)state;
    assert_null(afresh(trims_are_held_by_all));
    FINDS(group_trim_max, afresh(trims_are_held_by_all), "trim");
}

static void decide__who_leaves_together_ends_alike(void **state)
{
    (void)state;
    assert_null(afresh(who_leaves_together_ends_alike));
    FINDS(group_leave_untrimmed, afresh(who_leaves_together_ends_alike), "trim");
}

static void decide__lives_come_in_once(void **state)
{
    (void)state;
    assert_null(afresh(lives_come_in_once));
    FINDS(group_life_twice, afresh(lives_come_in_once), "integrity");
}

static void decide__state_is_with_who_has_it(void **state)
{
    (void)state;
    assert_null(afresh(state_is_with_who_has_it));
    FINDS(group_stateless_stay, afresh(state_is_with_who_has_it), "state");
}

/* Who had the state of a cell that is written behind lost its power; it is back with less than a member holds which was about to have the state. Nobody
 * delivers more of the view than is on that disk, where the cell goes on. */
static void decide__a_view_ends_where_a_disk_goes_on(void **state)
{
    (void)state;
    static const unsigned char kept[CELLS] = {KEPT_SOME, KEPT_SOME};
    static const uint64_t reach[CELLS] = {0x40000000000 + 3 * 4 + 2, 0};
    static const uint64_t none[CELLS] = {0, 0};
    report_all();
    rig.now->cell[0].stateful = 1;
    rig.in.kept = kept;
    rig.in.report[0] = NULL;
    rig.in.life[0] = LIFE(1) + 1;
    for (uint32_t h = 0; h < HOSTS; h++)
        rig.in.reach[h] = h == 0 ? reach : none;
    for (uint32_t h = 1; h < 4; h++)
        rig.told[h][0].has_state = false;
    const struct view *n = decided();
    assert_true(n->cell[0].state == CELL_LIVES && n->cell[0].stateful == 1);
    assert_true(n->cell[0].trim[0] == 4 && n->cell[0].trim[1] == 4);
    assert_true(n->cell[0].trim[2] == 3 && n->cell[0].trim[3] == 3);
}

/* ---- keepers ---- */

static const struct view_keepers first = {.count = 3, .host = {0, 1, 2}};

static uint64_t kept_by(const struct view *n)
{
    return keepers_set(keepers_of(n, &first));
}

static void decide__keepers_that_are_there_stay(void **state)
{
    (void)state;
    report_all();
    rig.in.first = &first;
    assert_true(kept_by(decided()) == 7 && rig.next->keepers.generation == 0);
    rig.in.report[5] = NULL; /* none of them */
    assert_true(kept_by(decided()) == 7);
    report_all();
    rig.in.report[1] = NULL; /* it is out, and there */
    assert_true(kept_by(decided()) == 7);
}

static void decide__a_keeper_that_is_gone_makes_room(void **state)
{
    (void)state;
    report_all();
    rig.in.first = &first;
    rig.in.report[1] = NULL;
    rig.in.life[1] = 0;
    rig.in.life[3] = 0; /* has reported, and nobody knows whether it is there */
    const struct view_keepers *k = &decided()->keepers;
    assert_true(k->generation == 1 && keepers_set(k) == 0x15);
    assert_true(k->host[0] == 0 && k->host[1] == 2 && k->host[2] == 4);
    assert_true(k->life[0] == LIFE(1) && k->life[2] == LIFE(5));
    leave(0);
    rig.in.life[0] = 0; /* it does not want to be in */
    assert_true(kept_by(decided()) == 0x34);
    rig.in.first = NULL; /* they stay for ever */
    assert_true(decided()->keepers.generation == 0);
}

static void decide__keepers_stay_if_most_of_the_new_ones_are_not_known_to_be_there(void **state)
{
    (void)state;
    report_all();
    rig.in.first = &first;
    rig.in.report[1] = NULL;
    for (uint32_t h = 1; h < 5; h++)
        rig.in.life[h] = 0;
    rig.in.life[5] = 0;
    assert_true(kept_by(decided()) == 7);
    assert_false(keepers_could_move(&rig.in));
}

static void decide__few_members_have_fewer_keepers(void **state)
{
    (void)state;
    static const struct view_keepers five = {.count = 5, .host = {0, 1, 2, 3, 4}};
    report_all();
    rig.in.first = &five;
    for (uint32_t h = 2; h < 4; h++) {
        rig.in.report[h] = NULL;
        rig.in.life[h] = 0;
    }
    assert_true(keepers_set(&decided()->keepers) == 0x13); /* of four three */
    for (uint32_t h = 4; h < 6; h++) {
        rig.in.report[h] = NULL;
        rig.in.life[h] = 0;
    }
    assert_true(keepers_set(&decided()->keepers) == 1); /* of two one, */
    rig.in.keepers_least = 3;
    assert_true(keepers_set(&decided()->keepers) == 7); /* or three, of whom one is gone */
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        WITH_RIG(decide__all_who_report_go_on),
        WITH_RIG(decide__who_has_not_reported_is_out),
        WITH_RIG(decide__a_count_that_cannot_be_is_no_report),
        WITH_RIG(decide__nobody_reported_nothing_is_decided),
        WITH_RIG(decide__the_first_view_needs_nobody_before_it),
        WITH_RIG(decide__after_a_view_of_nobody_joiners_begin),
        WITH_RIG(decide__view_majority_is_more_than_half),
        WITH_RIG(decide__views_are_so_many),
        WITH_RIG(decide__mutual_claims_put_out_the_higher_rank),
        WITH_RIG(decide__a_claim_puts_out_the_claimed),
        WITH_RIG(decide__the_fewest_go),
        WITH_RIG(decide__claims_of_who_is_out_or_leaves_do_not_count),
        WITH_RIG(decide__who_is_put_out_does_not_trim),
        WITH_RIG(decide__a_new_life_is_let_in_once),
        WITH_RIG(decide__who_leaves_is_told_apart),
        WITH_RIG(decide__a_leaver_is_not_a_joiner),
        WITH_RIG(decide__a_cell_without_state_is_vacant),
        WITH_RIG(decide__nobody_of_a_cell_reported_it_has_no_trim),
        WITH_RIG(decide__a_vacant_cell_is_reset),
        WITH_RIG(decide__trims_are_held_by_all),
        WITH_RIG(decide__who_leaves_together_ends_alike),
        WITH_RIG(decide__lives_come_in_once),
        WITH_RIG(decide__state_is_with_who_has_it),
        WITH_RIG(decide__who_lacks_a_large_state_learns_it),
        WITH_RIG(decide__a_learner_does_not_count),
        WITH_RIG(decide__a_view_ends_where_a_disk_goes_on),
        WITH_RIG(decide__keepers_that_are_there_stay),
        WITH_RIG(decide__a_keeper_that_is_gone_makes_room),
        WITH_RIG(decide__keepers_stay_if_most_of_the_new_ones_are_not_known_to_be_there),
        WITH_RIG(decide__few_members_have_fewer_keepers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
