/* Views: sets of hosts, stamps, views as bytes and back, damaged bytes, the rules of a view. */
#include "group/view.h"

#include "../guarded.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct view *view_of(uint32_t hosts, uint32_t cells)
{
    struct err e = {""};
    struct view *v = NULL;
    if (view_open(hosts, cells, &v, &e) != 0)
        fail_msg("%s", e.text);
    return v;
}

static uint64_t subset(struct rng *r, uint64_t set)
{
    return set & rng_u64(r);
}

static uint64_t nonempty_subset(struct rng *r, uint64_t set)
{
    uint64_t some = subset(r, set);
    return some ? some : set_of(set_first(set));
}

static void draw_living(struct rng *r, const struct view *v, struct view_cell *c)
{
    c->state = CELL_LIVES;
    c->born = rng_range(r, 1, v->vid);
    c->members = nonempty_subset(r, v->members);
    c->senders = subset(r, c->members);
    c->stateful = c->born == v->vid ? c->members : nonempty_subset(r, c->members);
    c->cut = stamp(rng_below(r, v->vid + 1), rng_below(r, 1000));
}

static void draw_cell(struct rng *r, const struct view *v, struct view_cell *c)
{
    *c = (struct view_cell){.state = (enum view_cell_state)rng_below(r, 3)};
    if (v->members && (v->adequate || c->state == CELL_LIVES)) {
        draw_living(r, v, c);
    } else if (v->vid > 1 && c->state == CELL_VACANT) {
        c->born = rng_range(r, 1, v->vid - 1);
        c->members_last = nonempty_subset(r, set_all(v->hosts));
        c->cut = stamp(rng_below(r, v->vid), rng_below(r, 1000));
        c->last = rng_below(r, v->vid);
    } else {
        c->state = CELL_UNBORN;
    }
    bool begins = c->state == CELL_UNBORN || c->born == v->vid;
    c->trims = begins ? 0 : (uint32_t)rng_range(r, 0, v->hosts);
    for (uint32_t i = 0; i < c->trims; i++)
        c->trim[i] = stamp_count(rng_u64(r));
}

/* A view that keeps the rules. */
static void draw_keepers(struct rng *r, struct view *v)
{
    struct view_keepers *k = &v->keepers;
    if (rng_below(r, 2))
        return;
    k->generation =
        (uint32_t)rng_range(r, 1, v->vid < GENERATIONS_MAX ? v->vid : GENERATIONS_MAX - 1);
    k->count =
        (uint32_t)rng_range(r, 1, v->hosts < GROUP_KEEPERS_MAX ? v->hosts : GROUP_KEEPERS_MAX);
    uint32_t first = (uint32_t)rng_below(r, v->hosts);
    for (uint32_t i = 0; i < k->count; i++) {
        k->host[i] = (first + i) % v->hosts;
        k->life[i] = rng_below(r, UINT64_C(1) << 48);
    }
}

static struct view *view_draw(struct rng *r)
{
    struct view *v = view_of((uint32_t)rng_range(r, 1, rng_below(r, 4) ? 5 : GROUP_HOSTS_MAX),
                             (uint32_t)rng_below(r, 5));
    v->vid = rng_below(r, 8) ? rng_range(r, 1, rng_below(r, 2) ? 4 : VIEWS_MAX) : 0;
    if (v->vid == 0)
        return v;
    v->members = subset(r, set_all(v->hosts));
    v->adequate = v->members && rng_below(r, 2);
    for (uint32_t h = 0; h < GROUP_HOSTS_MAX && h < v->hosts; h++) {
        bool member = in_set(v->members, h);
        v->life[h] = member ? rng_range(r, 1, UINT64_MAX - 1) : 0;
        v->seen[h] = member ? rng_range(r, v->life[h], UINT64_MAX) : rng_below(r, 3);
        v->leavers |= !member && v->seen[h] && rng_below(r, 2) ? set_of(h) : 0;
    }
    for (uint32_t c = 0; c < v->cells; c++)
        draw_cell(r, v, &v->cell[c]);
    draw_keepers(r, v);
    assert_null(view_check(v));
    return v;
}

/* ---- the tests ---- */

static void set__counts_ranks_and_walks(void **state)
{
    (void)state;
    uint64_t set = set_of(0) | set_of(5) | set_of(63), walked = 0;
    uint32_t steps = 0;
    for (uint64_t rest = set; rest; rest = set_rest(rest), steps++)
        walked |= set_of(set_first(rest));
    assert_int_equal(steps, 3);
    assert_true(walked == set);
    assert_int_equal(set_count(set), 3);
    assert_int_equal(set_rank(set, 0), 0);
    assert_int_equal(set_rank(set, 5), 1);
    assert_int_equal(set_rank(set, 63), 2);
    assert_true(in_set(set, 63) && !in_set(set, 62) && !in_set(set, 64) && !in_set(set, 69));
    assert_true(set_all(64) == UINT64_MAX && set_all(3) == 7);
}

static void stamp__rises_over_views(void **state)
{
    (void)state;
    uint64_t last = stamp(VIEWS_MAX, STAMP_COUNT_MAX);
    assert_true(stamp_vid(last) == VIEWS_MAX && stamp_count(last) == STAMP_COUNT_MAX);
    assert_true(stamp(7, 0) > stamp(6, STAMP_COUNT_MAX));
}

static void view__of_nobody_keeps_the_rules(void **state)
{
    (void)state;
    struct view *v = view_of(GROUP_HOSTS_MAX, GROUP_CELLS_MAX);
    assert_null(view_check(v));
    assert_int_equal(v->vid, 0);
    assert_int_equal(v->cell[GROUP_CELLS_MAX - 1].state, CELL_UNBORN);
    view_close(v);
    view_close(NULL);
}

static void view__comes_back_from_its_bytes(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 11);
    for (int i = 0; i < 3000; i++) {
        struct view *v = view_draw(&r), *back = view_of(v->hosts, v->cells);
        uint32_t most = view_bytes_max(v->hosts, v->cells);
        unsigned char *bytes = malloc(most), *again = malloc(most);
        memset(back, 0xee, sizeof(*back) + v->cells * sizeof(back->cell[0]));
        back->hosts = v->hosts;
        back->cells = v->cells;
        uint32_t n = view_encode(v, bytes);
        assert_true(n <= most && n % 8 == 0 && most % 8 == 0);
        assert_true(view_decode(bytes, n, back));
        assert_true(view_equal(v, back));
        assert_int_equal(view_encode(back, again), n);
        assert_memory_equal(bytes, again, n);
        free(bytes);
        free(again);
        view_close(v);
        view_close(back);
    }
}

/* A view of the most hosts and cells, with nothing left out, takes what is said to be the most. */
static void view__bytes_max_is_reached(void **state)
{
    (void)state;
    struct view *v = view_of(GROUP_HOSTS_MAX, 3);
    v->vid = 2;
    v->members = UINT64_MAX;
    v->keepers = (struct view_keepers){.generation = 1, .count = GROUP_KEEPERS_MAX};
    for (uint32_t i = 0; i < GROUP_KEEPERS_MAX; i++)
        v->keepers.host[i] = i;
    for (uint32_t h = 0; h < v->hosts; h++)
        v->life[h] = v->seen[h] = 1;
    for (uint32_t c = 0; c < v->cells; c++)
        v->cell[c] = (struct view_cell){
            .state = CELL_LIVES, .born = 1, .members = 1, .stateful = 1, .trims = GROUP_HOSTS_MAX};
    unsigned char *bytes = malloc(view_bytes_max(v->hosts, v->cells));
    assert_null(view_check(v));
    assert_int_equal(view_encode(v, bytes), view_bytes_max(v->hosts, v->cells));
    free(bytes);
    view_close(v);
}

static void damage(struct rng *r, unsigned char *bytes, uint32_t *n, uint32_t most)
{
    uint64_t word, words = *n / 8;
    switch (rng_below(r, 4)) {
    case 0:
        *n = (uint32_t)rng_below(r, most + 1);
        break;
    case 1:
        bytes[rng_below(r, *n)] ^= (unsigned char)(1 << rng_below(r, 8));
        break;
    case 2:
        word = rng_u64(r) >> rng_below(r, 64);
        memcpy(bytes + 8 * rng_below(r, words), &word, 8);
        break;
    default:
        memcpy(bytes + 8 * rng_below(r, words), bytes + 8 * rng_below(r, words), 8);
    }
}

/* Whatever stands in the bytes: no view that breaks a rule, and none of which there are two encodings. */
static void view__damaged_bytes_are_refused_or_a_view(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 12);
    uint32_t refused = 0;
    for (int i = 0; i < 20000; i++) {
        struct view *v = view_draw(&r), *back = view_of(v->hosts, v->cells);
        uint32_t most = view_bytes_max(v->hosts, v->cells);
        unsigned char *bytes = calloc(1, most), *again = malloc(most);
        uint32_t n = view_encode(v, bytes);
        for (uint64_t k = rng_range(&r, 1, 3); k > 0 && n >= 8; k--)
            damage(&r, bytes, &n, most);
        const unsigned char *exact = guarded(bytes, n);
        if (view_decode(exact, n, back)) {
            assert_null(view_check(back));
            assert_int_equal(view_encode(back, again), n);
            assert_memory_equal(again, exact, n);
        } else {
            refused++;
        }
        free(bytes);
        free(again);
        view_close(v);
        view_close(back);
    }
    assert_true(refused > 5000);
}

static void view__of_other_sizes_is_refused(void **state)
{
    (void)state;
    struct view *v = view_of(3, 2), *hosts = view_of(4, 2), *cells = view_of(3, 1);
    unsigned char bytes[1024];
    uint32_t n = view_encode(v, bytes);
    assert_true(view_decode(bytes, n, v));
    assert_false(view_decode(bytes, n, hosts));
    assert_false(view_decode(bytes, n, cells));
    assert_false(view_decode(bytes, n - 8, v));
    assert_false(view_decode(bytes, n + 8, v));
    assert_false(view_decode(bytes, 0, v));
    view_close(v);
    view_close(hosts);
    view_close(cells);
}

/* Three hosts, of which 0 and 1 are members, and 2 has left; a cell that lives, one that is vacant, one that is unborn. */
static struct view *sample(void)
{
    struct view *v = view_of(3, 3);
    v->vid = 5;
    v->members = 3;
    v->leavers = 4;
    v->life[0] = v->seen[0] = 65536;
    v->life[1] = v->seen[1] = 65537;
    v->seen[2] = 65536;
    v->keepers =
        (struct view_keepers){.generation = 2, .count = 2, .host = {1, 2}, .life = {65536, 0}};
    v->cell[0] = (struct view_cell){
        .state = CELL_LIVES, .born = 2, .members = 3, .senders = 2, .stateful = 1, .trims = 2};
    v->cell[1] = (struct view_cell){.state = CELL_VACANT, .born = 1, .members_last = 4, .trims = 1};
    assert_null(view_check(v));
    return v;
}

#define BREAKS(change)                                                                             \
    do {                                                                                           \
        struct view *v = sample();                                                                 \
        struct view_cell *lives = &v->cell[0], *vacant = &v->cell[1], *unborn = &v->cell[2];       \
        (void)lives, (void)vacant, (void)unborn;                                                   \
        change;                                                                                    \
        if (view_check(v) == NULL)                                                                 \
            fail_msg("nobody minds: %s", #change);                                                 \
        view_close(v);                                                                             \
    } while (0)

static void view__each_rule_is_checked(void **state)
{
    (void)state;
    BREAKS(v->vid = VIEWS_MAX + 1);
    BREAKS(v->members |= 8);
    BREAKS(v->leavers |= 8);
    BREAKS(v->leavers |= 1);
    BREAKS(v->life[0] = 0);
    BREAKS(v->life[2] = 1);
    BREAKS(v->life[1] = 65538);
    BREAKS(v->seen[2] = 0);
    BREAKS(v->adequate = true);
    BREAKS(v->keepers.generation = 0);
    BREAKS(v->keepers.generation = 6);
    BREAKS(v->keepers.count = 0);
    BREAKS(v->keepers.count = GROUP_KEEPERS_MAX + 1);
    BREAKS(v->keepers.host[0] = 3);
    BREAKS(v->keepers.host[0] = 2);
    BREAKS(lives->trims = 4);
    BREAKS(lives->trim[1] = UINT64_C(1) << STAMP_COUNT_BITS);
    BREAKS(lives->born = 0);
    BREAKS(lives->born = 6);
    BREAKS(lives->born = 5); /* and not all have its state */
    BREAKS((lives->born = 5, lives->stateful = 3));
    BREAKS(lives->members |= 4);
    BREAKS((lives->members = 1, lives->senders = 3));
    BREAKS((lives->members = 1, lives->senders = 1, lives->stateful = 3));
    BREAKS(lives->stateful = 0);
    BREAKS(lives->learners = 1);
    BREAKS(lives->learners = 4);
    BREAKS((lives->members = lives->stateful = lives->senders = 2, lives->trims = 0,
            lives->born = 5, lives->learners = 1));
    BREAKS(lives->members_last = 1);
    BREAKS(lives->state = (enum view_cell_state)3);
    BREAKS(vacant->members = 1);
    BREAKS(vacant->senders = 1);
    BREAKS(vacant->stateful = 1);
    BREAKS(vacant->learners = 1);
    BREAKS(vacant->born = 0);
    BREAKS(vacant->born = 5);
    BREAKS(lives->cut = stamp(6, 0));
    BREAKS(lives->last = 6);
    BREAKS(vacant->cut = stamp(5, 0));
    BREAKS(vacant->last = 5);
    BREAKS(unborn->cut = 1);
    BREAKS(vacant->members_last = 0);
    BREAKS(vacant->members_last |= 8);
    BREAKS(vacant->state = (enum view_cell_state)3);
    BREAKS(unborn->born = 1);
    BREAKS(unborn->members_last = 1);
    BREAKS(unborn->trims = 1);
    BREAKS(v->vid = 0);
}

#define DIFFERS(change)                                                                            \
    do {                                                                                           \
        struct view *v = sample(), *other = sample();                                              \
        assert_true(view_equal(v, other));                                                         \
        change;                                                                                    \
        if (view_equal(v, other))                                                                  \
            fail_msg("nobody sees: %s", #change);                                                  \
        view_copy(other, v);                                                                       \
        assert_true(view_equal(v, other));                                                         \
        view_close(v);                                                                             \
        view_close(other);                                                                         \
    } while (0)

static void view__equality_sees_every_part(void **state)
{
    (void)state;
    DIFFERS(v->vid++);
    DIFFERS(v->adequate = true);
    DIFFERS(v->members = 1);
    DIFFERS(v->leavers = 0);
    DIFFERS(v->keepers.generation++);
    DIFFERS(v->keepers.count = 1);
    DIFFERS(v->keepers.host[1] = 0);
    DIFFERS(v->keepers.life[1] = 1);
    DIFFERS(v->life[1]++);
    DIFFERS(v->seen[2]++);
    DIFFERS(v->cell[0].state = CELL_VACANT);
    DIFFERS(v->cell[0].born++);
    DIFFERS(v->cell[0].members = 1);
    DIFFERS(v->cell[0].senders = 1);
    DIFFERS(v->cell[0].stateful = 2);
    DIFFERS(v->cell[0].learners = 4);
    DIFFERS(v->cell[1].members_last = 1);
    DIFFERS(v->cell[1].trims = 2);
    DIFFERS(v->cell[0].trim[1] = 9);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set__counts_ranks_and_walks),
        cmocka_unit_test(stamp__rises_over_views),
        cmocka_unit_test(view__of_nobody_keeps_the_rules),
        cmocka_unit_test(view__comes_back_from_its_bytes),
        cmocka_unit_test(view__bytes_max_is_reached),
        cmocka_unit_test(view__damaged_bytes_are_refused_or_a_view),
        cmocka_unit_test(view__of_other_sizes_is_refused),
        cmocka_unit_test(view__each_rule_is_checked),
        cmocka_unit_test(view__equality_sees_every_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
