/* Logs of versions on a simulated disk: what is durable is there after the loss of power, and nothing else counts. */
#include "base/crc32c.h"
#include "disk/block_sim.h"
#include "group/versions_impl.h"
#include "group/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    LOGS = 3,
    PAYLOAD = 600,
    BUFFER = 8192,
    SEGMENT = 64 << 10,
    STEP_NS = 20000,
    RECORDS_MAX = 40000,
    SEEDS = 120,
    LIVES = 6,
    ROUNDS = 150,
};

/* What was appended to one log, cuts too, and how much of that is durable. */
struct want {
    struct version record[RECORDS_MAX];
    bool cut[RECORDS_MAX]; /* it does not count any more */
    uint32_t count, durable;
    uint64_t vid, number, time;
};

struct fix {
    struct disk_sim *sim;
    struct block *block;
    struct versions *v;
    struct rng rng;
    uint64_t now;
    struct versions_log_options log[LOGS];
    struct versions_options o;
    struct want *want[LOGS];
    char said[300];
};

static void payload_of(const struct version *r, unsigned char *out)
{
    for (uint32_t i = 0; i < r->bytes; i++)
        out[i] = (unsigned char)(r->seq + i * 7 + r->version);
}

static void say(void *ctx, const char *line)
{
    struct fix *f = ctx;
    snprintf(f->said, sizeof(f->said), "%s", line);
}

static void init(struct fix *f, uint64_t seed, uint64_t bytes_max)
{
    memset(f, 0, sizeof(*f));
    f->sim = disk_sim_open(&(struct disk_sim_options){.seed = seed, .bytes_max = bytes_max});
    rng_init(&f->rng, seed);
    for (uint32_t i = 0; i < LOGS; i++) {
        f->log[i] = (struct versions_log_options){.payload_max = PAYLOAD, .buffer_bytes = BUFFER};
        f->want[i] = calloc(1, sizeof(*f->want[i]));
        f->want[i]->vid = 1;
    }
    f->o = (struct versions_options){.owner = {.cluster = "a cluster", .host = 2},
                                     .log = f->log,
                                     .logs = LOGS,
                                     .segment_bytes = SEGMENT,
                                     .retry_ns = 10 * STEP_NS,
                                     .say = say,
                                     .ctx = f};
}

static int try_open(struct fix *f, struct err *e)
{
    f->o.block = f->block = disk_sim_block(f->sim, &f->now);
    int rc = versions_open(&f->o, &f->v, e);
    if (rc != 0) {
        disk_sim_die(f->sim);
        f->v = NULL;
    }
    return rc;
}

static void open_all(struct fix *f)
{
    struct err e = {""};
    if (try_open(f, &e) != 0)
        fail_msg("%s", e.text);
}

static void die(struct fix *f)
{
    disk_sim_die(f->sim);
    versions_close(f->v);
    f->v = NULL;
}

static void fini(struct fix *f)
{
    if (f->v)
        die(f);
    for (uint32_t i = 0; i < LOGS; i++)
        free(f->want[i]);
    disk_sim_close(f->sim);
}

static void step(struct fix *f)
{
    versions_round(f->v, f->now += STEP_NS);
}

static void until_done(struct fix *f, uint32_t log)
{
    for (int i = 0; versions_done(f->v, log) < versions_place(f->v, log); i++) {
        assert_true(i < 2000);
        assert_null(versions_failure(f->v));
        step(f);
    }
}

/* ---- appending, and what is to be there ---- */

static bool append(struct fix *f, uint32_t log, uint32_t bytes)
{
    struct want *w = f->want[log];
    unsigned char data[PAYLOAD];
    struct version r = {.bytes = bytes,
                        .type = VERSION_MSG,
                        .version = stamp(w->vid, w->number),
                        .time = w->time + 1 + rng_below(&f->rng, 3),
                        .sender = log,
                        .seq = w->count};
    payload_of(&r, data);
    if (!versions_append(f->v, log, &r, data))
        return false;
    assert_true(w->count < RECORDS_MAX);
    w->record[w->count++] = r;
    w->time = r.time;
    w->number += 1 + rng_below(&f->rng, 2);
    versions_reach(f->v, log, stamp(w->vid, w->number));
    return true;
}

static void apply_cuts(struct want *w)
{
    memset(w->cut, 0, sizeof(w->cut));
    for (uint32_t i = 0; i < w->count; i++)
        for (uint32_t k = i; w->record[i].type == VERSION_CUT && k > 0; k--)
            w->cut[k - 1] |= w->record[k - 1].version >= w->record[i].version;
}

/* The view ends at some number, of which perhaps not all before is durable; the next one begins. */
static void cut(struct fix *f, uint32_t log)
{
    struct want *w = f->want[log];
    uint32_t back = (uint32_t)rng_below(&f->rng, 20), keep = w->count;
    struct version c = {.type = VERSION_CUT, .version = stamp(w->vid, w->number)};
    for (; back > 0 && keep > 0 && stamp_vid(w->record[keep - 1].version) == w->vid; back--)
        c.version = w->record[--keep].version;
    c.time = w->time;
    if (!versions_cut(f->v, log, c.version, c.time))
        return;
    w->record[w->count++] = c;
    w->vid++;
    w->number = 0;
}

struct compare {
    struct want *w;
    uint32_t at;
};

static int compare_record(void *ctx, const struct version *r, const void *payload)
{
    struct compare *c = ctx;
    unsigned char data[PAYLOAD];
    while (c->at < c->w->count && (c->w->cut[c->at] || c->w->record[c->at].type == VERSION_CUT))
        c->at++;
    assert_true(c->at < c->w->count);
    const struct version *want = &c->w->record[c->at++];
    assert_int_equal(r->version, want->version);
    assert_int_equal(r->time, want->time);
    assert_int_equal(r->seq, want->seq);
    assert_int_equal(r->bytes, want->bytes);
    payload_of(want, data);
    assert_memory_equal(data, payload, r->bytes);
    return 0;
}

/* All that counts is read, from that record on. */
static void read_from(struct fix *f, uint32_t log, uint32_t first)
{
    struct want *w = f->want[log];
    struct compare c = {.w = w, .at = first};
    struct err e = {""};
    uint64_t version = first < w->count ? w->record[first].version : 0;
    int rc = versions_read(f->block, &f->o.owner, log, version, 0, compare_record, &c, &e);
    if (rc)
        fail_msg("%s", e.text);
    while (c.at < w->count && (w->cut[c.at] || w->record[c.at].type == VERSION_CUT))
        c.at++;
    assert_int_equal(c.at, w->count);
}

static uint32_t first_there(const struct fix *f, uint32_t log)
{
    const struct want *w = f->want[log];
    uint32_t i = 0;
    while (i < w->count && w->record[i].version < versions_found(f->v, log)->first)
        i++;
    return i;
}

/* A prefix of what was appended is there, with all that was durable; the log goes on from it. */
static void compare(struct fix *f, uint32_t log)
{
    struct want *w = f->want[log];
    const struct versions_found *found = versions_found(f->v, log);
    assert_true(found->records >= w->durable && found->records <= w->count);
    w->count = w->durable = (uint32_t)found->records;
    apply_cuts(w);
    read_from(f, log, first_there(f, log));
    if (found->reach) {
        w->vid = stamp_vid(found->reach);
        w->number = stamp_count(found->reach);
    }
    w->time = found->time;
    for (uint32_t i = 0; i < w->count; i++)
        assert_true(w->cut[i] || w->record[i].type == VERSION_CUT ||
                    w->record[i].version < found->reach);
    assert_true(versions_reached(f->v, log) == found->reach);
}

static void note_durable(struct fix *f, uint32_t log)
{
    struct want *w = f->want[log];
    uint64_t reach = versions_reached(f->v, log);
    uint32_t done = w->count - (uint32_t)(versions_place(f->v, log) - versions_done(f->v, log));
    for (uint32_t i = w->durable; i < done; i++)
        assert_true(w->record[i].type == VERSION_CUT || w->record[i].version < reach ||
                    stamp_vid(w->record[i].version) <= stamp_vid(reach));
    w->durable = done;
}

static void live(struct fix *f)
{
    uint64_t drop_in = rng_below(&f->rng, 3) ? 0 : 40;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        for (uint32_t log = 0; log < LOGS; log++) {
            for (uint64_t n = rng_below(&f->rng, 6); n > 0; n--)
                append(f, log, (uint32_t)rng_below(&f->rng, PAYLOAD + 1));
            note_durable(f, log);
            if (log > 0 && rng_below(&f->rng, 60) == 0)
                cut(f, log);
            if (drop_in && rng_below(&f->rng, drop_in) == 0 && f->want[log]->durable > 30)
                versions_drop(f->v, log, versions_segment(f->v, log));
        }
        step(f);
        assert_null(versions_failure(f->v));
    }
    for (uint32_t log = 0; log < LOGS; log++)
        note_durable(f, log);
}

static void versions__that_are_durable_are_there_after_the_loss_of_power(void **state)
{
    (void)state;
    uint64_t records = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct fix f;
        init(&f, seed, 0);
        for (int life = 0; life < LIVES; life++) {
            open_all(&f);
            for (uint32_t log = 0; log < LOGS; log++)
                compare(&f, log);
            live(&f);
            die(&f);
            if (rng_below(&f.rng, 3))
                disk_sim_power_cut(f.sim);
        }
        for (uint32_t log = 0; log < LOGS; log++)
            records += f.want[log]->durable;
        fini(&f);
    }
    assert_true(records > SEEDS * LOGS * 100);
}

static void versions__are_read_from_any_of_them_on(void **state)
{
    (void)state;
    struct fix f;
    init(&f, 7, 0);
    open_all(&f);
    live(&f);
    for (uint32_t log = 0; log < LOGS; log++)
        until_done(&f, log);
    die(&f);
    open_all(&f);
    uint32_t from = first_there(&f, 1);
    f.want[1]->durable = 0;
    compare(&f, 1);
    for (uint32_t i = from; i < f.want[1]->count; i += 13)
        if (!f.want[1]->cut[i] && f.want[1]->record[i].type == VERSION_MSG)
            read_from(&f, 1, i);
    fini(&f);
}

static int count_it(void *ctx, const struct version *v, const void *payload)
{
    (void)payload;
    ++((uint32_t *)ctx)[stamp_vid(v->version)];
    return 0;
}

/* As of a cell that goes on from disks: each in a batch of its own. */
static void versions__a_cut_takes_back_what_is_several_views_before(void **state)
{
    (void)state;
    struct fix f;
    struct err e = {""};
    uint32_t seen[16] = {0};
    init(&f, 5, 0);
    open_all(&f);
    for (uint64_t vid = 1; vid <= 9; vid++) {
        const struct version v = {.type = VERSION_MSG, .version = stamp(vid, 0), .time = vid};
        assert_true(versions_append(f.v, 1, &v, NULL));
        until_done(&f, 1);
    }
    assert_true(versions_cut(f.v, 1, stamp(3, 0), 2));
    until_done(&f, 1);
    const struct version after = {.type = VERSION_MSG, .version = stamp(12, 0), .time = 12};
    assert_true(versions_append(f.v, 1, &after, NULL));
    until_done(&f, 1);
    assert_int_equal(versions_read(f.block, &f.o.owner, 1, 0, 0, count_it, seen, &e), 0);
    for (uint32_t vid = 0; vid < 16; vid++)
        assert_int_equal(seen[vid], vid == 1 || vid == 2 || vid == 12);
    fini(&f);
}

/* A state that comes first is in pieces that raise nothing, and goes over several segments: who wants everything gets it from its first piece on. */
static void versions__of_a_state_are_read_from_its_first_piece_on(void **state)
{
    (void)state;
    struct fix f;
    struct err e = {""};
    uint32_t seen[16] = {0}, pieces = 0;
    unsigned char data[PAYLOAD] = {0};
    init(&f, 6, 0);
    open_all(&f);
    while (versions_segment(f.v, 1) < 4) {
        const struct version v = {.type = VERSION_STATE,
                                  .bytes = PAYLOAD,
                                  .version = stamp(3, 7),
                                  .time = 1,
                                  .seq = pieces++};
        assert_true(versions_append(f.v, 1, &v, data));
        until_done(&f, 1);
    }
    assert_int_equal(versions_read(f.block, &f.o.owner, 1, 0, 0, count_it, seen, &e), 0);
    assert_int_equal(seen[3], pieces);
    fini(&f);
}

/* ---- damage ---- */

static void fill(struct fix *f, uint32_t batches)
{
    open_all(f);
    for (uint32_t i = 0; i < batches; i++) {
        assert_true(append(f, 1, 100));
        until_done(f, 1);
    }
}

static void versions__damage_before_good_ones_is_told_with_file_and_offset(void **state)
{
    (void)state;
    struct fix f;
    struct err e = {""};
    init(&f, 3, 0);
    fill(&f, 5);
    die(&f);
    assert_true(disk_sim_flip(f.sim, "cell.0.00001", 3 * BLOCK_BYTES + 200));
    assert_int_equal(try_open(&f, &e), ERR_CORRUPT);
    assert_string_equal(e.text,
                        "cell.0.00001 is damaged at offset 12288, and good versions follow");
    fini(&f);
}

static void versions__a_bad_tail_is_cut_and_told(void **state)
{
    (void)state;
    struct fix f;
    init(&f, 3, 0);
    fill(&f, 5);
    die(&f);
    assert_true(disk_sim_flip(f.sim, "cell.0.00001", 5 * BLOCK_BYTES + 200));
    open_all(&f);
    assert_non_null(strstr(f.said, "cell.0.00001: a batch of at least 4096 bytes at offset 20480"));
    f.want[1]->durable = 4;
    compare(&f, 1);
    assert_int_equal(f.want[1]->count, 4);
    assert_true(append(&f, 1, 10)); /* it goes on in that place */
    until_done(&f, 1);
    die(&f);
    open_all(&f);
    compare(&f, 1);
    assert_int_equal(f.want[1]->count, 5);
    fini(&f);
}

/* A file's head and its first batch are one order: the power may be lost with the batch on the platters, and not the head. */
static void versions__of_a_file_whose_head_was_cut_short_are_written_anew(void **state)
{
    (void)state;
    struct fix f;
    init(&f, 3, 0);
    fill(&f, 1);
    die(&f);
    assert_true(disk_sim_flip(f.sim, "cell.0.00001", 16));
    f.want[1]->durable = 0; /* nobody was told of what an order that was cut short has */
    open_all(&f);
    compare(&f, 1);
    assert_int_equal(f.want[1]->count, 0);
    assert_true(append(&f, 1, 10));
    until_done(&f, 1);
    die(&f);
    open_all(&f);
    compare(&f, 1);
    assert_int_equal(f.want[1]->count, 1);
    fini(&f);
}

static void versions__a_bad_head_before_two_good_ones_is_damage(void **state)
{
    (void)state;
    struct fix f;
    struct err e = {""};
    init(&f, 3, 0);
    fill(&f, 2);
    die(&f);
    assert_true(disk_sim_flip(f.sim, "cell.0.00001", 16));
    assert_int_equal(try_open(&f, &e), ERR_CORRUPT);
    assert_string_equal(e.text, "cell.0.00001 is damaged at offset 0, and good versions follow");
    fini(&f);
}

static void versions__of_another_cluster_or_host_are_refused(void **state)
{
    (void)state;
    struct fix f;
    struct err e = {""};
    init(&f, 3, 0);
    fill(&f, 2);
    die(&f);
    f.o.owner.host = 1;
    assert_int_equal(try_open(&f, &e), ERR_REFUSED);
    assert_string_equal(e.text, "cell.0.00001 is of host 2, and this is host 1");
    f.o.owner = (struct versions_owner){.cluster = "another", .host = 2};
    assert_int_equal(try_open(&f, &e), ERR_REFUSED);
    assert_string_equal(e.text, "cell.0.00001 is of another cluster");
    fini(&f);
}

static void versions__a_missing_segment_is_damage(void **state)
{
    (void)state;
    struct fix f;
    struct err e = {""};
    init(&f, 3, 0);
    fill(&f, 60);
    struct block_step gone = {.act = BLOCK_REMOVE, .name = "cell.0.00002"};
    for (int i = 0; i < 50; i++)
        step(&f);
    block_begin(f.block, BLOCK_BULK, &gone, 1);
    while (block_poll(f.block, BLOCK_BULK) == BLOCK_BUSY)
        f.now += STEP_NS;
    die(&f);
    assert_int_equal(try_open(&f, &e), ERR_CORRUPT);
    assert_string_equal(e.text, "cell.0.00002 is not there, and later segments are");
    fini(&f);
}

/* ---- a full disk, and one that fails ---- */

static void versions__a_full_disk_ends_it_when_the_last_segment_is(void **state)
{
    (void)state;
    struct fix f;
    init(&f, 3, 2 * SEGMENT);
    open_all(&f);
    for (int i = 0; versions_failure(f.v) == NULL; i++) {
        assert_true(i < 3000);
        append(&f, 1, PAYLOAD);
        note_durable(&f, 1);
        step(&f);
    }
    assert_string_equal(versions_failure(f.v),
                        "the disk is full: no room for cell.0.00003, of 65536 bytes");
    assert_true(f.want[1]->durable > 100);
    die(&f);
    disk_sim_limit(f.sim, 0);
    open_all(&f);
    compare(&f, 1);
    append(&f, 1, 5);
    until_done(&f, 1);
    fini(&f);
}

static void versions__a_failed_flush_ends_it(void **state)
{
    (void)state;
    struct fix f;
    init(&f, 3, 0);
    fill(&f, 2);
    disk_sim_fail(f.sim);
    append(&f, 1, 9);
    for (int i = 0; i < 200; i++)
        step(&f);
    assert_string_equal(versions_failure(f.v), "flush cell.0.00001: Input/output error");
    assert_int_equal(versions_done(f.v, 1), 2);
    assert_false(append(&f, 1, 9));
    die(&f);
    open_all(&f);
    f.want[1]->durable = 2;
    compare(&f, 1);
    fini(&f);
}

/* ---- numbers without messages ---- */

static void versions__numbers_without_a_message_need_no_disk(void **state)
{
    (void)state;
    struct fix f;
    init(&f, 3, 0);
    open_all(&f);
    versions_reach(f.v, 1, stamp(1, 40));
    assert_true(versions_reached(f.v, 1) == stamp(1, 40));
    f.want[1]->number = 40;
    append(&f, 1, 8);
    uint64_t reach = stamp(1, f.want[1]->number);
    assert_true(versions_reached(f.v, 1) < stamp(1, 41)); /* the message is not there yet */
    until_done(&f, 1);
    assert_true(versions_reached(f.v, 1) == reach);
    struct versions_status s;
    versions_status(f.v, &s);
    assert_int_equal(s.batches, 1);
    assert_int_equal(s.records, 1);
    fini(&f);
}

/* ---- what is signed ---- */

/* What a host tells of its log is to be so after the loss of power, too. */
static void versions__that_are_settled_reach_as_far_after_the_loss_of_power(void **state)
{
    (void)state;
    struct fix f;
    init(&f, 5, 0);
    open_all(&f);
    assert_true(versions_settle(f.v, 1));
    append(&f, 1, 100);
    assert_false(versions_settle(f.v, 1));
    until_done(&f, 1);
    versions_reach(f.v, 1, stamp(9, 0)); /* numbers without a message */
    assert_true(versions_reached(f.v, 1) == stamp(9, 0));
    assert_false(versions_settle(f.v, 1));
    until_done(&f, 1);
    assert_true(versions_settle(f.v, 1));
    die(&f);
    disk_sim_power_cut(f.sim);
    open_all(&f);
    assert_true(versions_found(f.v, 1)->reach == stamp(9, 0));
    fini(&f);
}

static void sign(void *ctx, uint32_t log, const struct digest *all, unsigned char *signature)
{
    ++*(uint32_t *)ctx;
    memset(signature, (int)log, VERSIONS_SIGNATURE_BYTES);
    memcpy(signature, all, sizeof(*all));
}

static bool is_signed(void *ctx, uint32_t log, const struct digest *all,
                      const unsigned char *signature)
{
    ++*(uint32_t *)ctx;
    return memcmp(signature, all, sizeof(*all)) == 0 &&
           signature[VERSIONS_SIGNATURE_BYTES - 1] == log;
}

static void be_signed(struct fix *f, uint32_t *signatures)
{
    f->log[1].sign = true;
    f->o.signer = (struct versions_signer){.sign = sign, .ctx = signatures};
}

static struct versions_verified verified(struct fix *f, uint32_t log, int want)
{
    struct versions_verified v;
    struct err e = {""};
    uint32_t checked = 0;
    block_wait(f->block, BLOCK_JOURNAL);
    assert_int_equal(versions_verify(f->block, &f->o.owner, log, is_signed, &checked, &v, &e),
                     want);
    assert_int_equal(checked, v.with_signature + (want != 0));
    return v;
}

static void versions__are_signed_at_each_sync(void **state)
{
    (void)state;
    struct fix f;
    uint32_t signatures = 0;
    init(&f, 3, 0);
    fill(&f, 5);
    die(&f);
    be_signed(&f, &signatures);
    fill(&f, 5);
    assert_int_equal(signatures, 5);
    struct versions_verified v = verified(&f, 1, 0);
    assert_int_equal(v.with_signature, 5);
    assert_int_equal(v.batches, 10);
    assert_int_equal(v.unsigned_since, 0);
    assert_true(v.signed_from > v.first && v.signed_from < v.reach);
    die(&f);
    open_all(&f);
    compare(&f, 1);
    assert_int_equal(f.want[1]->count, 10);
    fini(&f);
}

static void versions__that_are_not_signed_any_more_are_counted(void **state)
{
    (void)state;
    struct fix f;
    uint32_t signatures = 0;
    init(&f, 3, 0);
    be_signed(&f, &signatures);
    fill(&f, 3);
    die(&f);
    f.log[1].sign = false;
    fill(&f, 2);
    struct versions_verified v = verified(&f, 1, 0);
    assert_int_equal(v.with_signature, 3);
    assert_int_equal(v.unsigned_since, 2);
    fini(&f);
}

/* Changes a byte of the message in the second batch, and puts right all that anybody can who has no key. */
static void forge(struct fix *f)
{
    static const char name[] = "cell.0.00001";
    _Alignas(BLOCK_BYTES) static unsigned char page[BLOCK_BYTES];
    const struct block_step write = {.act = BLOCK_WRITE,
                                     .name = name,
                                     .data = page,
                                     .at = 2 * BLOCK_BYTES,
                                     .bytes = BLOCK_BYTES};
    struct versions_batch *b = (void *)page;
    assert_int_equal(block_read(f->block, name, 2 * BLOCK_BYTES, page, BLOCK_BYTES, NULL), 0);
    struct version *r = (void *)(b + 1);
    ((unsigned char *)(r + 1))[7] ^= 1;
    r->crc = crc32c(crc32c(0, r, offsetof(struct version, crc)), r + 1, r->bytes);
    versions_batch_seal(b);
    block_begin(f->block, BLOCK_JOURNAL, &write, 1);
    while (block_poll(f->block, BLOCK_JOURNAL) == BLOCK_BUSY)
        f->now += STEP_NS;
}

static void versions__that_are_signed_cannot_be_forged(void **state)
{
    (void)state;
    struct fix f;
    uint32_t signatures = 0;
    init(&f, 3, 0);
    be_signed(&f, &signatures);
    fill(&f, 2);
    verified(&f, 1, 0);
    forge(&f);
    verified(&f, 1, ERR_CORRUPT);
    fini(&f);

    init(&f, 3, 0);
    fill(&f, 2);
    forge(&f); /* the last one, as nobody can tell */
    verified(&f, 1, 0);
    fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions__that_are_durable_are_there_after_the_loss_of_power),
        cmocka_unit_test(versions__are_read_from_any_of_them_on),
        cmocka_unit_test(versions__a_cut_takes_back_what_is_several_views_before),
        cmocka_unit_test(versions__of_a_state_are_read_from_its_first_piece_on),
        cmocka_unit_test(versions__damage_before_good_ones_is_told_with_file_and_offset),
        cmocka_unit_test(versions__a_bad_tail_is_cut_and_told),
        cmocka_unit_test(versions__of_a_file_whose_head_was_cut_short_are_written_anew),
        cmocka_unit_test(versions__a_bad_head_before_two_good_ones_is_damage),
        cmocka_unit_test(versions__of_another_cluster_or_host_are_refused),
        cmocka_unit_test(versions__a_missing_segment_is_damage),
        cmocka_unit_test(versions__a_full_disk_ends_it_when_the_last_segment_is),
        cmocka_unit_test(versions__a_failed_flush_ends_it),
        cmocka_unit_test(versions__numbers_without_a_message_need_no_disk),
        cmocka_unit_test(versions__that_are_settled_reach_as_far_after_the_loss_of_power),
        cmocka_unit_test(versions__are_signed_at_each_sync),
        cmocka_unit_test(versions__that_are_not_signed_any_more_are_counted),
        cmocka_unit_test(versions__that_are_signed_cannot_be_forged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
