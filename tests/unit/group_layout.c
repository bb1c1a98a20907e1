/* Layouts: who goes into which cell, by the file and by a user's callback. */
#include "group/layout.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS = 8, CELLS = 3 };
#define ALL UINT64_MAX

static struct {
    struct cell_layout cell[CELLS];
    struct layout_options opt;
    struct view *before, *next;
} rig;

static int open_rig(void **state)
{
    (void)state;
    struct err e = {""};
    memset(&rig, 0, sizeof(rig));
    for (uint32_t c = 0; c < CELLS; c++)
        rig.cell[c] = (struct cell_layout){.hosts = ALL, .members_min = 1, .senders = ALL};
    rig.opt = (struct layout_options){.cell = rig.cell, .cells = CELLS};
    return view_open(HOSTS, CELLS, &rig.before, &e) || view_open(HOSTS, CELLS, &rig.next, &e);
}

static int close_rig(void **state)
{
    (void)state;
    view_close(rig.before);
    view_close(rig.next);
    return 0;
}

/* As who decides does it: the next view has these members, of whom those who stay keep what they have. */
static void lay_out(uint64_t members)
{
    struct view *b = rig.before, *n = rig.next;
    view_copy(n, b);
    n->vid++;
    n->members = members;
    n->leavers = 0;
    for (uint32_t h = 0; h < HOSTS; h++) {
        n->life[h] = !in_set(members, h) ? 0 : b->life[h] ? b->life[h] : b->seen[h] + 1;
        n->seen[h] = n->life[h] ? n->life[h] : b->seen[h];
    }
    for (uint32_t c = 0; c < CELLS; c++) {
        n->cell[c].stateful &= members;
        n->cell[c].members = n->cell[c].senders = 0;
        if (n->cell[c].state == CELL_LIVES && n->cell[c].stateful == 0) {
            n->cell[c].state = CELL_VACANT;
            n->cell[c].members_last = b->cell[c].members;
        }
    }
    layout_fill(&rig.opt, b, n);
    if (view_check(n))
        fail_msg("%s", view_check(n));
}

static void go_on(void)
{
    view_copy(rig.before, rig.next);
}

/* The next view, which is the one before from then on. */
static void view_with(uint64_t members)
{
    lay_out(members);
    go_on();
}

#define MEMBERS(c) ((unsigned)rig.next->cell[c].members)

/* Two shards of one subgroup, and one of another. */
static void two_shards(uint32_t least, uint32_t most)
{
    for (uint32_t c = 0; c < 2; c++) {
        rig.cell[c].members_min = least;
        rig.cell[c].members_max = most;
    }
    rig.cell[2].subgroup = 1;
}

static uint64_t lowest_two(uint64_t set)
{
    return set_of(set_first(set)) | set_of(set_first(set_rest(set)));
}

static void overlap_all(void)
{
    for (uint32_t c = 0; c < CELLS; c++)
        rig.cell[c].overlap = true;
}

/* ---- the default ---- */

static void layout__everybody_is_in_every_subgroup(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < CELLS; c++)
        rig.cell[c].subgroup = c;
    lay_out(0x0b);
    for (uint32_t c = 0; c < CELLS; c++) {
        assert_int_equal(MEMBERS(c), 0x0b);
        assert_true(rig.next->cell[c].senders == 0x0b && rig.next->cell[c].stateful == 0x0b);
        assert_true(rig.next->cell[c].state == CELL_LIVES && rig.next->cell[c].born == 1);
    }
    assert_true(rig.next->adequate);
}

static void layout__fills_by_rank_the_cell_with_the_fewest(void **state)
{
    (void)state;
    two_shards(1, 0);
    lay_out(0x1f);
    assert_int_equal(MEMBERS(0), 0x15);
    assert_int_equal(MEMBERS(1), 0x0a);
    assert_int_equal(MEMBERS(2), 0x1f);
}

static void layout__shards_overlap_if_they_may(void **state)
{
    (void)state;
    overlap_all();
    lay_out(0x07);
    for (uint32_t c = 0; c < CELLS; c++)
        assert_int_equal(MEMBERS(c), 0x07);
}

static void layout__members_max_and_hosts_bind(void **state)
{
    (void)state;
    two_shards(1, 2);
    rig.cell[2].hosts = 0x30;
    lay_out(0xff);
    assert_int_equal(MEMBERS(0), 0x05);
    assert_int_equal(MEMBERS(1), 0x0a);
    assert_int_equal(MEMBERS(2), 0x30);
}

static void layout__senders_are_those_of_the_file(void **state)
{
    (void)state;
    overlap_all();
    rig.cell[1].senders = 0x06;
    lay_out(0x0b);
    assert_true(rig.next->cell[0].senders == 0x0b && rig.next->cell[1].senders == 0x02);
}

/* Who is there stays, though by rank another would be there; who has come again in another life is new. */
static void layout__keeps_who_is_there(void **state)
{
    (void)state;
    two_shards(1, 2);
    view_with(0xf0);
    assert_int_equal(MEMBERS(0), 0x50);
    assert_int_equal(MEMBERS(1), 0xa0);
    view_with(0xff);
    assert_int_equal(MEMBERS(0), 0x50);
    assert_int_equal(MEMBERS(1), 0xa0);
    view_with(0xdf);
    assert_int_equal(MEMBERS(0), 0x50);
    assert_int_equal(MEMBERS(1), 0x81);
    assert_true(rig.next->cell[1].stateful == 0x80);
    rig.before->life[4] = 0; /* lay_out lets it in as somebody else */
    lay_out(0xff);
    assert_int_equal(MEMBERS(0), 0x42);
    assert_true(rig.next->cell[0].stateful == 0x40 && rig.next->cell[0].born == 1);
}

static void layout__a_cell_that_lacks_members_comes_first(void **state)
{
    (void)state;
    two_shards(2, 0);
    view_with(0x0f); /* 0 and 2, 1 and 3 */
    view_with(0x0c);
    assert_false(rig.next->adequate);
    rig.before->cell[1] = (struct view_cell){.state = CELL_UNBORN};
    lay_out(0x1c);
    assert_int_equal(MEMBERS(0), 0x0c); /* it lives; the other one waits for its first members */
    assert_int_equal(rig.next->cell[1].state, CELL_UNBORN);
    lay_out(0x7c);
    assert_int_equal(MEMBERS(0), 0x4c);
    assert_int_equal(MEMBERS(1), 0x30);
}

/* Two shards of two and more: one loses all but one, and the other has more than it needs. */
static void layout__a_cell_that_lacks_members_takes_them_from_its_siblings(void **state)
{
    (void)state;
    two_shards(2, 0);
    view_with(0x3f);
    assert_int_equal(MEMBERS(0) & MEMBERS(1), 0);
    uint64_t mine = MEMBERS(0), others = MEMBERS(1);
    assert_true(set_count(mine) == 3 && set_count(others) == 3);
    lay_out(set_of(set_first(mine)) | others);
    assert_true(rig.next->adequate);
    assert_true(set_count(rig.next->cell[0].members) == 2 &&
                set_count(rig.next->cell[1].members) == 2);
    assert_true(rig.next->cell[0].members & set_of(set_first(mine)));
    assert_true(rig.next->cell[1].stateful != 0);
    /* With two there is none to spare, and nobody moves. */
    lay_out(set_of(set_first(mine)) | lowest_two(others));
    assert_false(rig.next->adequate);
    assert_int_equal(MEMBERS(1), lowest_two(others));
}

/* One cell was vacant, its hosts went elsewhere, and it is reset. */
static void layout__a_cell_that_was_reset_gets_members(void **state)
{
    (void)state;
    two_shards(1, 0);
    view_with(0x03);
    view_with(0x01);
    view_with(0x03);
    assert_true(rig.next->cell[1].state == CELL_VACANT && MEMBERS(0) == 0x03);
    rig.before->cell[1].state = CELL_UNBORN;
    rig.before->cell[1].members_last = 0;
    view_with(0x03);
    assert_int_equal(MEMBERS(0), 0x01);
    assert_int_equal(MEMBERS(1), 0x02);
    assert_true(rig.next->adequate && rig.next->cell[1].state == CELL_LIVES);
}

static void layout__an_unborn_cell_waits_for_members_min(void **state)
{
    (void)state;
    uint32_t missing = 0;
    two_shards(3, 3);
    view_with(0x1f);
    assert_int_equal(rig.next->cell[0].state, CELL_LIVES);
    assert_int_equal(rig.next->cell[1].state, CELL_UNBORN);
    assert_int_equal(MEMBERS(1), 0);
    assert_false(rig.next->adequate);
    assert_int_equal(layout_lacks(&rig.opt, rig.next, &missing), 1);
    assert_int_equal(missing, 3);
    lay_out(0x3f);
    assert_int_equal(rig.next->cell[1].state, CELL_LIVES);
    assert_int_equal(rig.next->cell[1].born, 2);
    assert_true(rig.next->cell[1].stateful == rig.next->cell[1].members);
    assert_true(rig.next->adequate);
    assert_int_equal(layout_lacks(&rig.opt, rig.next, &missing), GROUP_CELLS_MAX);
    assert_int_equal(missing, 0);
}

static void layout__below_members_min_a_cell_lives_on_inadequate(void **state)
{
    (void)state;
    uint32_t missing = 0;
    two_shards(2, 2);
    view_with(0x0f);
    view_with(0x07); /* 0 and 2 in the first, 1 in the second */
    assert_int_equal(rig.next->cell[1].state, CELL_LIVES);
    assert_int_equal(MEMBERS(1), 0x02);
    assert_false(rig.next->adequate);
    assert_int_equal(layout_lacks(&rig.opt, rig.next, &missing), 1);
    assert_int_equal(missing, 1);
}

static void layout__a_vacant_cell_stays_so(void **state)
{
    (void)state;
    two_shards(1, 0);
    view_with(0x03);
    view_with(0x01); /* the second cell had host 1 alone */
    assert_int_equal(rig.next->cell[1].state, CELL_VACANT);
    lay_out(0xff);
    assert_int_equal(rig.next->cell[1].state, CELL_VACANT);
    assert_int_equal(MEMBERS(1), 0);
    assert_true(rig.next->cell[1].members_last == 0x02);
    assert_int_equal(MEMBERS(0), 0xff);
    assert_false(rig.next->adequate);
}

/* The file has others than the one who has the state: it is kept until somebody else has it. */
static void layout__keeps_one_who_has_the_state(void **state)
{
    (void)state;
    two_shards(1, 1);
    view_with(0x03);
    rig.cell[0].hosts = 0x0c;
    lay_out(0x0f);
    assert_int_equal(MEMBERS(0), 0x01);
    rig.cell[0].members_max = 2;
    lay_out(0x0f);
    assert_int_equal(MEMBERS(0), 0x05);
    assert_true(rig.next->cell[0].stateful == 0x01);
}

/* ---- a user's callback ---- */

static struct {
    uint64_t members[CELLS], senders[CELLS];
    uint64_t vid_before, members_next;
} wish;

static void wished(void *ctx, const struct view *before, struct view *next)
{
    assert_ptr_equal(ctx, &wish);
    wish.vid_before = before->vid;
    wish.members_next = next->members;
    for (uint32_t c = 0; c < CELLS; c++) {
        next->cell[c].members = wish.members[c];
        next->cell[c].senders = wish.senders[c];
    }
}

static void use_callback(void)
{
    memset(&wish, 0, sizeof(wish));
    rig.opt.fill = wished;
    rig.opt.ctx = &wish;
}

static void layout__a_callback_lays_out(void **state)
{
    (void)state;
    use_callback();
    overlap_all();
    for (uint32_t c = 0; c < CELLS; c++) {
        wish.members[c] = 0x07 & ~set_of(c);
        wish.senders[c] = set_of((c + 1) % 3);
    }
    lay_out(0x07);
    assert_true(wish.vid_before == 0 && wish.members_next == 0x07);
    for (uint32_t c = 0; c < CELLS; c++) {
        assert_true(rig.next->cell[c].members == wish.members[c]);
        assert_true(rig.next->cell[c].senders == wish.senders[c]);
    }
    assert_true(rig.next->adequate);
}

static void layout__a_callback_is_put_right(void **state)
{
    (void)state;
    two_shards(1, 2);
    view_with(0x0f); /* 0 and 2, 1 and 3; all in the third */
    use_callback();
    rig.cell[2].hosts = 0x17;
    wish.members[0] = 0x70; /* nobody who has the state */
    wish.members[1] = 0xff; /* whoever is in the first, too, and more than two */
    wish.members[2] = ALL;  /* who is not there, and who may not be there */
    wish.senders[0] = wish.senders[1] = wish.senders[2] = ALL;
    lay_out(0x5f);
    assert_int_equal(MEMBERS(0), 0x11);
    assert_int_equal(MEMBERS(1), 0x06);
    assert_int_equal(MEMBERS(2), 0x17);
    for (uint32_t c = 0; c < CELLS; c++)
        assert_true(rig.next->cell[c].senders == rig.next->cell[c].members);
    assert_true(rig.next->cell[0].stateful == 0x01 && rig.next->cell[1].stateful == 0x02);
}

/* One shard is to get the only one who has the state of the other: there it stays. */
static void layout__a_callback_does_not_take_the_last_who_knows(void **state)
{
    (void)state;
    two_shards(1, 0);
    view_with(0x03);
    use_callback();
    wish.members[0] = 0x03;
    wish.members[1] = 0x04;
    wish.members[2] = 0x07;
    lay_out(0x07);
    assert_int_equal(MEMBERS(0), 0x01);
    assert_int_equal(MEMBERS(1), 0x06);
}

static void layout__a_callback_does_not_fill_what_is_vacant(void **state)
{
    (void)state;
    two_shards(1, 0);
    view_with(0x03);
    view_with(0x01);
    use_callback();
    wish.members[0] = wish.members[2] = 0x01;
    wish.members[1] = wish.senders[1] = 0x02;
    lay_out(0x03);
    assert_int_equal(rig.next->cell[1].state, CELL_VACANT);
    assert_int_equal(MEMBERS(1), 0);
}

/* ---- whatever comes and goes ---- */

static uint64_t outside(uint32_t c)
{
    return rig.next->cell[c].members & ~rig.cell[c].hosts;
}

static void draw_cells(struct rng *r)
{
    for (uint32_t c = 0; c < CELLS; c++)
        rig.cell[c] = (struct cell_layout){.hosts = rng_below(r, 2) ? ALL : rng_u64(r),
                                           .members_min = (uint32_t)rng_below(r, 4),
                                           .members_max = (uint32_t)rng_below(r, 5),
                                           .senders = rng_below(r, 2) ? ALL : rng_u64(r),
                                           .subgroup = (uint32_t)rng_below(r, 2),
                                           .overlap = rng_below(r, 2)};
}

static void draw_wish(struct rng *r)
{
    use_callback();
    for (uint32_t c = 0; c < CELLS; c++) {
        wish.members[c] = rng_u64(r);
        wish.senders[c] = rng_u64(r);
    }
    rig.opt.fill = rng_below(r, 2) ? wished : NULL;
}

static void must_hold(void)
{
    const struct view *n = rig.next;
    for (uint32_t c = 0; c < CELLS; c++) {
        const struct cell_layout *l = &rig.cell[c];
        uint32_t count = set_count(n->cell[c].members);
        assert_true(set_count(outside(c)) <= 1 && (outside(c) & ~n->cell[c].stateful) == 0);
        assert_true(l->members_max == 0 || count <= l->members_max);
        assert_true(!n->adequate || count >= l->members_min);
        for (uint32_t d = 0; d < c; d++)
            if (rig.cell[d].subgroup == l->subgroup && !l->overlap && !rig.cell[d].overlap)
                assert_true((n->cell[c].members & n->cell[d].members) == 0);
    }
}

/* Over many views with anybody in them the rules hold, and no state is lost while one who has it is there. */
static void layout__rules_hold_over_random_views(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 5);
    struct view *nobody = rig.before, *kept;
    struct err e = {""};
    assert_int_equal(view_open(HOSTS, CELLS, &kept, &e), 0);
    view_copy(kept, nobody);
    for (int i = 0; i < 400; i++) {
        draw_cells(&r);
        view_copy(rig.before, kept);
        for (int k = 0; k < 20; k++) {
            draw_wish(&r);
            lay_out(rng_u64(&r) & set_all(HOSTS));
            must_hold();
            go_on();
        }
    }
    view_close(kept);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        WITH_RIG(layout__everybody_is_in_every_subgroup),
        WITH_RIG(layout__fills_by_rank_the_cell_with_the_fewest),
        WITH_RIG(layout__shards_overlap_if_they_may),
        WITH_RIG(layout__members_max_and_hosts_bind),
        WITH_RIG(layout__senders_are_those_of_the_file),
        WITH_RIG(layout__keeps_who_is_there),
        WITH_RIG(layout__a_cell_that_lacks_members_comes_first),
        WITH_RIG(layout__a_cell_that_lacks_members_takes_them_from_its_siblings),
        WITH_RIG(layout__a_cell_that_was_reset_gets_members),
        WITH_RIG(layout__an_unborn_cell_waits_for_members_min),
        WITH_RIG(layout__below_members_min_a_cell_lives_on_inadequate),
        WITH_RIG(layout__a_vacant_cell_stays_so),
        WITH_RIG(layout__keeps_one_who_has_the_state),
        WITH_RIG(layout__a_callback_lays_out),
        WITH_RIG(layout__a_callback_is_put_right),
        WITH_RIG(layout__a_callback_does_not_take_the_last_who_knows),
        WITH_RIG(layout__a_callback_does_not_fill_what_is_vacant),
        WITH_RIG(layout__rules_hold_over_random_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
