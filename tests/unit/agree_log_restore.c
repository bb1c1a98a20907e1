/* Coming back from a disk: what the next leader finds in the own lane of a replica that has lost its memory. */
#include "../disk_fixture.h"
#include "../sim_time.h"
#include "agree/lanes.h"
#include "agree/log.h"
#include "sim/counter_machine.h"

enum { REGION = 7, REPLICAS = 3, LOG_BYTES = 4096, BALLOT = 4 };

/* One replica of three, of which the others are not there. */
struct alone {
    struct counter_machine counter; /* first: the machine's ctx */
    struct disk_fix disk;
    struct sim *sim;
    struct mem *mem;
    struct log *log;
    uint32_t nodes[REPLICAS];
    uint64_t applied; /* entries */
};

static void apply(void *ctx, const struct entry *e)
{
    struct alone *a = ctx;
    (void)e;
    a->applied++;
}

static bool ready(void *ctx, const struct entry *e)
{
    (void)ctx;
    (void)e;
    return true;
}

static void observe(void *ctx, const struct entry *e, bool effective)
{
    (void)ctx;
    (void)e;
    (void)effective;
}

static const struct log_machine machine = {
    .apply = apply, .ready = ready, .observe = observe, .state = &counter_machine_ops};

/* Its memory is lost: this is its second life. Or it has a memory in which nothing was ever promised. */
static void memory_open(struct alone *a, bool lost)
{
    struct sim_options so = {.seed = 1, .nodes_max = REPLICAS, .lost_after_ns = 1000000};
    struct err e = {""};
    enum mem_birth birth;

    memset(a, 0, sizeof *a);
    for (uint32_t q = 0; q < REPLICAS; q++)
        a->nodes[q] = q;
    a->sim = sim_open(&so, &e);
    assert_non_null(a->sim);
    a->mem = sim_node_start(a->sim, 0);
    if (lost) {
        assert_int_equal(mem_region_open(a->mem, REGION, &birth, &e), 0);
        sim_node_crash(a->sim, 0, false);
        a->mem = sim_node_start(a->sim, 0);
    }
    fix_init(&a->disk, 0);
    fix_format(&a->disk, 0);
    fix_open(&a->disk);
}

static void alone_open(struct alone *a)
{
    memory_open(a, true);
}

static void alone_close(struct alone *a)
{
    log_close(a->log);
    fix_fini(&a->disk);
    sim_close(a->sim);
}

/* One entry without payload, in a batch of its own; returns that. */
static uint64_t keep_entry(struct alone *a, uint64_t n, uint64_t commit)
{
    uint64_t size = entry_size(0), pos = n * size;
    struct entry *at = disk_reserve(a->disk.d, (uint32_t)size);
    assert_non_null(at);
    *at = (struct entry){.pos = pos, .ballot = BALLOT, .source = SOURCE_LOG, .srcpos = ENTRY_START};
    struct disk_record r = {.kind = DISK_ENTRIES,
                            .from = pos,
                            .to = pos + size,
                            .ballot = BALLOT,
                            .says = {.pledge = BALLOT,
                                     .end = pos + size,
                                     .ballot = BALLOT,
                                     .commit = commit * size,
                                     .commit_ballot = BALLOT,
                                     .applied = commit * size},
                            .bytes = (unsigned char *)at};
    uint64_t batch = disk_batch(a->disk.d);
    disk_append(a->disk.d, &r);
    fix_until(&a->disk, batch);
    return batch;
}

static int restore_log(struct alone *a, struct err *e)
{
    struct log_options o = {.mem = a->mem,
                            .region = REGION,
                            .nodes = a->nodes,
                            .replicas = REPLICAS,
                            .log_bytes = LOG_BYTES,
                            .source_bytes = 4096,
                            .payload_max = 256,
                            .snap_bytes = 4096,
                            .disk = a->disk.d,
                            .machine = &machine,
                            .ctx = a};

    assert_int_equal(log_open(&o, &a->log, e), 0);
    return log_restore(a->log, e);
}

/* Until what was restored is in memory. */
static void restore(struct alone *a)
{
    struct err e = {""};

    assert_int_equal(restore_log(a, &e), 0);
    for (int i = 0; i < 10; i++) {
        mem_poll(a->mem);
        log_settle(a->log, sim_now(a->sim));
        log_post(a->log, sim_now(a->sim));
        sim_time_pass(a->sim, 1000);
    }
}

static uint64_t own_word(struct alone *a, uint32_t word)
{
    struct mem_lane_spec spec = lane_spec(REGION, 0, 0, LANE_LOG, 0);
    struct mem_lane *lane;
    struct err e = {""};

    spec.ctl_words = LOG_WORDS;
    spec.ring_bytes = LOG_BYTES;
    assert_int_equal(mem_lanes_open(a->mem, &spec, 1, &lane, &e), 0);
    return mem_word(lane, word);
}

static void restore__a_whole_disk_is_in_the_own_lane(void **state)
{
    (void)state;
    struct alone a;
    uint64_t size = entry_size(0);

    alone_open(&a);
    for (uint64_t n = 0; n < 6; n++)
        keep_entry(&a, n, n);
    fix_die(&a.disk);
    fix_open(&a.disk);
    restore(&a);
    assert_int_equal(own_word(&a, LOG_START), 0);
    assert_int_equal(own_word(&a, LOG_GUARD), 6 * size);
    assert_int_equal(own_word(&a, LOG_COMMIT), 5 * size);
    assert_int_equal(own_word(&a, LOG_RUN), BALLOT);
    assert_int_equal(mem_promised(a.mem, REGION), BALLOT);
    alone_close(&a);
}

/* A bit was flipped below the commit. The replica needs a state from others, but votes: whatever it accepted behind that is there
 * for the next leader, and so is what it knows of the commit. */
static void restore__what_is_behind_a_gap_is_in_the_own_lane(void **state)
{
    (void)state;
    struct alone a;
    unsigned char journal[DISK_ID_BYTES];
    uint64_t size = entry_size(0), damaged = 0;

    alone_open(&a);
    for (uint64_t n = 0; n < 6; n++) {
        uint64_t batch = keep_entry(&a, n, n);
        damaged = n == 2 ? batch : damaged;
    }
    fix_die(&a.disk);
    disk_sim_power_cut(a.disk.sim);
    fix_journal_id(&a.disk, journal);
    fix_flip_batch(&a.disk, damaged, journal);
    fix_open(&a.disk);
    assert_int_equal(disk_found(a.disk.d, 0)->state, DISK_BELOW);
    restore(&a);
    assert_int_equal(a.applied, 0);
    assert_int_equal(own_word(&a, LOG_START), 3 * size);
    assert_int_equal(own_word(&a, LOG_GUARD), 6 * size);
    assert_int_equal(own_word(&a, LOG_COMMIT), 5 * size);
    assert_int_equal(own_word(&a, LOG_RUN), BALLOT);
    assert_int_equal(mem_promised(a.mem, REGION), BALLOT);
    alone_close(&a);
}

/* That a snapshot is damaged shows when it is loaded: then it is as if it had been known. */
static void restore__a_snapshot_is_damaged_when_it_is_loaded(void **state)
{
    (void)state;
    struct alone a;
    struct unit_status status;
    uint64_t size = entry_size(0);
    char name[BLOCK_NAME_BYTES];

    alone_open(&a);
    for (uint64_t n = 3; n < 6; n++)
        keep_entry(&a, n, n);
    fix_snap(&a.disk, 0, 4 * size, 1000);
    fix_die(&a.disk);
    snprintf(name, sizeof name, SNAP_PREFIX "0.%u", (unsigned)(4 * size));
    assert_true(disk_sim_flip(a.disk.sim, name, 500));
    fix_open(&a.disk);
    assert_int_equal(disk_found(a.disk.d, 0)->state, DISK_WHOLE);
    restore(&a);
    assert_int_equal(disk_found(a.disk.d, 0)->state, DISK_BELOW);
    assert_int_equal(a.applied, 0);
    log_status(a.log, &status);
    assert_true(status.behind);
    assert_int_equal(own_word(&a, LOG_START), 3 * size);
    assert_int_equal(own_word(&a, LOG_GUARD), 6 * size);
    assert_int_equal(own_word(&a, LOG_COMMIT), 5 * size);
    assert_int_equal(mem_promised(a.mem, REGION), BALLOT);
    alone_close(&a);
}

/* A memory that is said to be kept, and is not that of the life before, has none of what was accepted: no vote is given with it. */
static void restore__a_memory_that_promises_less_is_refused(void **state)
{
    (void)state;
    struct alone a;
    struct err e = {""};

    memory_open(&a, false);
    for (uint64_t n = 0; n < 6; n++)
        keep_entry(&a, n, n);
    fix_die(&a.disk);
    fix_open(&a.disk);
    assert_int_equal(restore_log(&a, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "promises 0, and the disk 4"));
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restore__a_whole_disk_is_in_the_own_lane),
        cmocka_unit_test(restore__what_is_behind_a_gap_is_in_the_own_lane),
        cmocka_unit_test(restore__a_snapshot_is_damaged_when_it_is_loaded),
        cmocka_unit_test(restore__a_memory_that_promises_less_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
