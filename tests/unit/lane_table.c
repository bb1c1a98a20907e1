/* Tables of shared state: setting, pushing, losses, reducers, predicates; on simulated memory and on shared memory. */
#include "lane/table.h"

#include "mem/shm/shm.h"
#include "mem/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 3, REGION = 4, LANE = 9, SETS_MAX = 64 };
enum { LIFE, A, B, C, D, WORDS };

static const enum table_kind kinds[WORDS] = {[LIFE] = TABLE_RISES};
static const uint32_t nodes[RANKS] = {0, 1, 2};

/* ---- a rig on either memory ---- */

static struct {
    struct sim *sim; /* NULL: shared memory, in dir */
    char dir[64];
    struct mem *mem[RANKS];
    struct table *table[RANKS];
    /* What was written since the last look, as the simulator saw it. */
    struct {
        uint32_t from, word, count;
    } set[SETS_MAX];
    uint32_t sets;
} rig;

static void called(void *ctx, uint32_t node, const struct sim_call *call)
{
    (void)ctx;
    if (call->kind != SIM_CALL_SET)
        return;
    assert_true(rig.sets < SETS_MAX);
    rig.set[rig.sets].from = node;
    rig.set[rig.sets].word = call->word;
    rig.set[rig.sets++].count = call->count;
}

static void rank_open(uint32_t r)
{
    static const struct shm_node hosts[RANKS] = {
        {.name = "h0", .node = 0, .role = SHM_HOST},
        {.name = "h1", .node = 1, .role = SHM_HOST},
        {.name = "h2", .node = 2, .role = SHM_HOST},
    };
    struct err e = {""};
    enum mem_birth birth;
    struct shm_options o = {
        .dir = rig.dir, .cluster = "table", .self = hosts[r], .hosts = hosts, .hosts_count = RANKS};
    if (rig.sim)
        rig.mem[r] = sim_node_start(rig.sim, r);
    else if (shm_open_node(&o, &rig.mem[r], &e) != 0)
        fail_msg("%s", e.text);
    struct table_spec spec = {.kind = kinds,
                              .nodes = nodes,
                              .words = WORDS,
                              .ranks = RANKS,
                              .me = r,
                              .region = REGION,
                              .lane = LANE};
    assert_int_equal(mem_region_open(rig.mem[r], REGION, &birth, &e), 0);
    if (table_open(rig.mem[r], &spec, &rig.table[r], &e) != 0)
        fail_msg("%s", e.text);
}

/* Lets everything land. */
static void settle(void)
{
    for (int i = 0; i < 50; i++) {
        for (int k = 0; rig.sim && k < 20 && sim_step(rig.sim); k++)
            ;
        for (uint32_t r = 0; r < RANKS; r++)
            if (rig.mem[r])
                mem_poll(rig.mem[r]);
    }
}

static bool all_reached(void)
{
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t q = 0; q < RANKS; q++)
            if (q != r && (!table_reaches(rig.table[r], q) || rig.table[r]->in[q]->ctl == NULL))
                return false;
    return true;
}

/* Nobody was there when the first of them opened: their pushes find the others in time. */
static int open_all(void)
{
    for (uint32_t r = 0; r < RANKS; r++)
        rank_open(r);
    settle();
    for (int i = 0; i < 10000 && !all_reached(); i++) {
        for (uint32_t r = 0; r < RANKS; r++)
            table_push(rig.table[r]);
        settle();
        usleep(1000);
    }
    assert_true(all_reached());
    rig.sets = 0;
    return 0;
}

static int open_sim(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof(rig));
    struct sim_options so = {.seed = 3,
                             .nodes_max = RANKS,
                             .delay_ns_min = 100,
                             .delay_ns_max = 900,
                             .lost_after_ns = 5000};
    rig.sim = sim_open(&so, NULL);
    assert_non_null(rig.sim);
    sim_on_call(rig.sim, called, NULL);
    return open_all();
}

static int open_shm(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof(rig));
    snprintf(rig.dir, sizeof(rig.dir), "/dev/shm/tram-test-XXXXXX");
    assert_non_null(mkdtemp(rig.dir));
    return open_all();
}

static int close_all(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++) {
        table_close(rig.table[r]);
        if (!rig.sim)
            mem_close(rig.mem[r]);
    }
    if (rig.sim) {
        sim_close(rig.sim);
        return 0;
    }
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", rig.dir);
    return system(command) == 0 ? 0 : 1;
}

/* ---- what holds on both ---- */

static void table__a_pushed_word_is_seen_by_all(void **state)
{
    (void)state;
    table_set(rig.table[0], A, 7);
    assert_int_equal(table_get(rig.table[0], 0, A), 7); /* by who set it, at once */
    settle();
    assert_int_equal(table_get(rig.table[1], 0, A), 0);
    table_push(rig.table[0]);
    settle();
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(table_get(rig.table[r], 0, A), 7);
    assert_int_equal(table_get(rig.table[1], 1, A), 0);
}

static void table__one_is_told_one_word(void **state)
{
    (void)state;
    table_set(rig.table[0], A, 7);
    table_set(rig.table[0], B, 8);
    table_tell(rig.table[0], 1, A);
    settle();
    assert_int_equal(table_get(rig.table[1], 0, A), 7);
    assert_int_equal(table_get(rig.table[1], 0, B), 0);
    assert_int_equal(table_get(rig.table[2], 0, A), 0);
    table_push(rig.table[0]); /* the rest, and that one to the others */
    settle();
    assert_int_equal(table_get(rig.table[1], 0, B), 8);
    assert_int_equal(table_get(rig.table[2], 0, A), 7);
}

static void table__reduces_the_rows_of_a_mask(void **state)
{
    (void)state;
    static const uint64_t values[RANKS] = {5, 3, 9};
    for (uint32_t r = 0; r < RANKS; r++) {
        table_set(rig.table[r], C, values[r]);
        table_push(rig.table[r]);
    }
    settle();
    const struct table *t = rig.table[1];
    assert_int_equal(table_min(t, C, TABLE_ALL), 3);
    assert_int_equal(table_max(t, C, TABLE_ALL), 9);
    assert_int_equal(table_min(t, C, 1 << 0 | 1 << 2), 5);
    assert_int_equal(table_max(t, C, 1 << 0 | 1 << 1), 5);
    assert_int_equal(table_count(t, C, TABLE_ALL, 1), 3);
    assert_int_equal(table_count(t, C, TABLE_ALL, 8), 1);
    assert_int_equal(table_count(t, C, 1 << 0 | 1 << 1, 8), 0);
    assert_true(table_min(t, C, 0) == UINT64_MAX);
    assert_int_equal(table_max(t, C, 0), 0);
}

static bool others_have_a(const struct table *t, void *ctx)
{
    (void)ctx;
    return table_min(t, A, 1 << 1 | 1 << 2) > 0;
}

static void count_in_b(struct table *t, void *ctx)
{
    ++*(int *)ctx;
    table_set(t, B, table_get(t, 0, B) + 1);
}

static void everybody_sets_a(uint64_t value)
{
    for (uint32_t r = 1; r < RANKS; r++) {
        table_set(rig.table[r], A, value);
        table_push(rig.table[r]);
    }
    settle();
}

static void table__predicates_act_once_each_and_at_the_edge(void **state)
{
    (void)state;
    int acts[3] = {0};
    struct table *t = rig.table[0];
    for (int i = 0; i < 3; i++)
        assert_int_equal(table_when(t, (struct table_predicate){.when = (enum table_when)i,
                                                                .test = others_have_a,
                                                                .act = count_in_b,
                                                                .ctx = &acts[i]}),
                         0);
    assert_int_equal(table_step(t), 0);
    everybody_sets_a(1);
    assert_int_equal(table_step(t), 3);
    assert_int_equal(table_step(t), 1); /* that of each step alone */
    everybody_sets_a(0);
    assert_int_equal(table_step(t), 0);
    everybody_sets_a(2);
    assert_int_equal(table_step(t), 2); /* and the edge again */
    assert_int_equal(acts[TABLE_ONCE], 1);
    assert_int_equal(acts[TABLE_EACH], 3);
    assert_int_equal(acts[TABLE_EDGE], 2);
    table_push(t);
    settle();
    assert_int_equal(table_get(rig.table[2], 0, B), 6); /* what the acts have set */
}

static void table__takes_so_many_predicates(void **state)
{
    (void)state;
    struct table_predicate p = {.when = TABLE_EACH, .test = others_have_a, .act = count_in_b};
    for (int i = 0; i < TABLE_PREDICATES_MAX; i++)
        assert_int_equal(table_when(rig.table[0], p), 0);
    assert_int_equal(table_when(rig.table[0], p), ERR_TOOBIG);
}

/* ---- what only the simulator shows ---- */

static void table__pushes_the_stretches_that_were_set(void **state)
{
    (void)state;
    struct table *t = rig.table[0];
    table_push(t);
    assert_int_equal(rig.sets, 0);
    table_set(t, A, 1);
    table_set(t, B, 2);
    table_set(t, D, 3);
    table_push(t);
    assert_int_equal(rig.sets, 4); /* two stretches to two others */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(rig.set[i].word, i % 2 ? D : A);
        assert_int_equal(rig.set[i].count, i % 2 ? 1 : 2);
    }
    table_push(t);
    assert_int_equal(rig.sets, 4); /* nothing is left */
    table_push_row(t);
    assert_int_equal(rig.sets, 6);
    assert_int_equal(rig.set[5].word, 0);
    assert_int_equal(rig.set[5].count, WORDS);
}

static void table__the_whole_row_goes_out_after_a_loss(void **state)
{
    (void)state;
    struct table *t = rig.table[0];
    table_set(t, A, 1);
    table_set(t, C, 2);
    table_push(t);
    settle();
    table_close(rig.table[1]);
    rig.table[1] = NULL;
    rig.mem[1] = NULL;
    sim_node_crash(rig.sim, 1, false);
    settle();
    rank_open(1);
    for (int i = 0; i < 100 && table_reaches(t, 1); i++) {
        table_tell(t, 1, A);
        settle();
    }
    assert_false(table_reaches(t, 1));
    assert_int_equal(table_losses(t, 1), 0);
    table_tell(t, 1, A); /* opens the way again, and tells that word alone */
    settle();
    assert_int_equal(table_losses(t, 1), 1);
    assert_int_equal(table_get(rig.table[1], 0, A), 1);
    assert_int_equal(table_get(rig.table[1], 0, C), 0);
    table_set(t, B, 3);
    table_push(t);
    settle();
    assert_int_equal(table_get(rig.table[1], 0, B), 3);
    assert_int_equal(table_get(rig.table[1], 0, C), 2); /* though it was not set since */
}

/* CHECK ends the process: a child's. */
static void table__a_word_that_rises_does_not_fall(void **state)
{
    (void)state;
    struct table *t = rig.table[0];
    table_set(t, LIFE, 2);
    table_set(t, LIFE, 2);
    table_set(t, A, 2);
    table_set(t, A, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) != NULL)
            table_set(t, LIFE, 1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#define ON_BOTH(f)                                                                                 \
    {#f "_on_sim", f, open_sim, close_all, NULL},                                                  \
    {                                                                                              \
#f "_on_shm", f, open_shm, close_all, NULL                                                 \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(table__a_pushed_word_is_seen_by_all),
        ON_BOTH(table__one_is_told_one_word),
        ON_BOTH(table__reduces_the_rows_of_a_mask),
        ON_BOTH(table__predicates_act_once_each_and_at_the_edge),
        ON_BOTH(table__takes_so_many_predicates),
        cmocka_unit_test_setup_teardown(table__pushes_the_stretches_that_were_set, open_sim,
                                        close_all),
        cmocka_unit_test_setup_teardown(table__the_whole_row_goes_out_after_a_loss, open_sim,
                                        close_all),
        cmocka_unit_test_setup_teardown(table__a_word_that_rises_does_not_fall, open_sim,
                                        close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
