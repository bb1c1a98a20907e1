/* Logs on disk as they are written: records are collected, go out as batches, and segments follow each other. */
#include "group/versions.h"

#include "base/crc32c.h"
#include "base/minmax.h"
#include "group/versions_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- appending ---- */

static struct version_log *log_of(const struct versions *v, uint32_t log)
{
    CHECK(log < v->logs && v->log[log].payload_max > 0);
    return &v->log[log];
}

static uint64_t record_bytes(uint32_t payload)
{
    return sizeof(struct version) + versions_padded(payload);
}

bool versions_has_room(const struct versions *v, uint32_t log, uint32_t bytes)
{
    const struct version_log *l = log_of(v, log);
    return v->failure[0] == '\0' && bytes <= l->payload_max &&
           l->used + record_bytes(bytes) <= l->half_bytes;
}

bool versions_has_bytes(const struct versions *v, uint32_t log, uint64_t bytes)
{
    const struct version_log *l = log_of(v, log);
    return v->failure[0] == '\0' && l->used + bytes <= l->half_bytes;
}

static uint32_t record_crc(const struct version *r, const void *payload)
{
    return crc32c(crc32c(0, r, offsetof(struct version, crc)), payload, r->bytes);
}

bool versions_record_good(const struct version *r)
{
    return r->crc == record_crc(r, r + 1);
}

bool versions_append(struct versions *v, uint32_t log, const struct version *r, const void *payload)
{
    struct version_log *l = log_of(v, log);
    if (!versions_has_room(v, log, r->bytes))
        return false;
    unsigned char *at = l->half[l->filling] + l->used;
    struct version *to = (struct version *)(void *)at;
    *to = *r;
    to->spare = 0;
    to->crc = record_crc(to, payload);
    if (r->bytes > 0)
        memcpy(to + 1, payload, r->bytes);
    memset((unsigned char *)(to + 1) + r->bytes, 0, versions_padded(r->bytes) - r->bytes);
    l->used += (uint32_t)record_bytes(r->bytes);
    l->records++;
    l->place++;
    l->total++;
    v->records++;
    if (r->type == VERSION_CHECKPOINT)
        l->checkpoint = r->version;
    if (r->type == VERSION_MSG)
        l->time = r->time;
    if (r->type != VERSION_CUT && r->type != VERSION_CHECKPOINT && r->type != VERSION_STATE)
        l->reach = max_u64(l->reach, r->version + 1);
    return true;
}

bool versions_cut(struct versions *v, uint32_t log, uint64_t version, uint64_t time)
{
    struct version_log *l = log_of(v, log);
    const struct version cut = {.type = VERSION_CUT, .version = version, .time = time};
    if (!versions_append(v, log, &cut, ""))
        return false;
    l->reach = version;
    l->sure = min_u64(l->sure, version);
    l->time = time;
    return true;
}

void versions_reach(struct versions *v, uint32_t log, uint64_t version)
{
    struct version_log *l = log_of(v, log);
    l->reach = max_u64(l->reach, version);
}

uint64_t versions_reached(const struct versions *v, uint32_t log)
{
    const struct version_log *l = log_of(v, log);
    if (l->records == 0 && !l->writing)
        return l->reach; /* numbers without a message need nothing on the disk */
    return l->reach_done;
}

uint64_t versions_end(const struct versions *v, uint32_t log)
{
    return log_of(v, log)->reach;
}

bool versions_settle(struct versions *v, uint32_t log)
{
    const struct version_log *l = log_of(v, log);
    if (v->failure[0])
        return true;
    if (l->place_done == l->place && l->reach_done < l->reach)
        versions_cut(v, log, l->reach, l->time);
    return l->place_done == l->place && l->reach_done == l->reach;
}

void versions_set_sure(struct versions *v, uint32_t log, uint64_t version)
{
    log_of(v, log)->sure = version;
}

uint64_t versions_sure(const struct versions *v, uint32_t log)
{
    return log_of(v, log)->sure;
}

uint64_t versions_place(const struct versions *v, uint32_t log)
{
    return log_of(v, log)->place;
}

uint64_t versions_done(const struct versions *v, uint32_t log)
{
    return log_of(v, log)->place_done;
}

const struct versions_found *versions_found(const struct versions *v, uint32_t log)
{
    return &log_of(v, log)->found;
}

/* ---- batches ---- */

static void fail(struct versions *v, const char *what)
{
    if (v->failure[0] == '\0')
        snprintf(v->failure, sizeof(v->failure), "%s", what);
}

static uint64_t batch_bytes(const struct version_log *l)
{
    return versions_blocks(l->used);
}

/* The batch goes into the next segment, which is there. */
static void turn_over(struct versions *v, struct version_log *l, struct block_step *step)
{
    uint32_t log = (uint32_t)(l - v->log);
    CHECK(l->firsts == (l->index == 0 ? 0 : l->index - l->oldest + 1));
    l->index++;
    l->oldest = l->oldest ? l->oldest : l->index;
    l->bytes = l->next_bytes;
    l->next = NEXT_NONE;
    l->at = BLOCK_BYTES;
    versions_name(l->name, log, l->index);
    versions_note_first(l, l->reach_written);
    *l->head = (struct versions_segment){.magic = VERSIONS_SEGMENT_MAGIC,
                                         .format = VERSIONS_FORMAT,
                                         .host = v->owner.host,
                                         .log = log,
                                         .index = l->index,
                                         .batch = l->number,
                                         .version = l->reach_written,
                                         .time = l->time_written};
    memcpy(l->head->cluster, v->owner.cluster, sizeof(l->head->cluster));
    l->head->chain = l->chain;
    versions_segment_seal(l->head);
    *step = (struct block_step){
        .act = BLOCK_WRITE, .name = l->name, .data = l->head, .at = 0, .bytes = BLOCK_BYTES};
}

/* Head and zeros, so that it can be written. */
static void seal(struct versions *v, struct version_log *l)
{
    struct versions_batch *b = (struct versions_batch *)(void *)l->half[l->filling];
    *b = (struct versions_batch){.magic = VERSIONS_BATCH_MAGIC,
                                 .bytes = (uint32_t)batch_bytes(l),
                                 .number = l->number++,
                                 .reach = l->reach,
                                 .time = l->time,
                                 .checkpoint = l->checkpoint,
                                 .sure = l->sure,
                                 .total = l->total,
                                 .used = l->used - (uint32_t)sizeof(*b),
                                 .records = l->records,
                                 .flags = l->sign ? VERSIONS_SIGNED : 0,
                                 .chain = l->chain};
    memset(l->half[l->filling] + l->used, 0, b->bytes - l->used);
    l->chain = versions_chain(b);
    if (l->sign)
        v->signer.sign(v->signer.ctx, (uint32_t)(l - v->log), &l->chain, b->signature);
    versions_batch_seal(b);
}

/* Closes what is collected, and says where it goes. Returns how many steps that takes; 0: it has to wait for a segment. */
static uint32_t write_out(struct versions *v, struct version_log *l, struct block_step *step)
{
    uint64_t bytes = batch_bytes(l);
    uint32_t steps = 0;
    if (l->index == 0 || l->at + bytes > l->bytes) {
        if (l->next != NEXT_READY)
            return 0;
        turn_over(v, l, &step[steps++]);
    }
    seal(v, l);
    step[steps++] = (struct block_step){.act = BLOCK_WRITE,
                                        .name = l->name,
                                        .data = l->half[l->filling],
                                        .at = l->at,
                                        .bytes = bytes};
    l->at += bytes;
    l->filling = 1 - l->filling;
    l->used = sizeof(struct versions_batch);
    l->records = 0;
    l->writing = true;
    l->reach_written = l->reach;
    l->place_written = l->place;
    l->time_written = l->time;
    if (PLANTED(group_persisted_early)) {
        l->reach_done = l->reach_written;
        l->place_done = l->place_written;
    }
    v->batches++;
    v->bytes += bytes;
    return steps;
}

static int begin_batches(struct versions *v)
{
    struct block_step step[BLOCK_STEPS_MAX];
    uint32_t steps = 0, from = v->turn;
    for (uint32_t i = 0; i < v->logs && steps + 2 <= BLOCK_STEPS_MAX; i++) {
        struct version_log *l = &v->log[(from + i) % v->logs];
        if (l->records == 0)
            continue;
        uint32_t more = write_out(v, l, &step[steps]);
        if (more == 0)
            block_hurry(v->block, true);
        steps += more;
        v->turn = (from + i + 1) % v->logs;
    }
    if (steps == 0)
        return 0;
    v->writing = true;
    block_begin(v->block, BLOCK_JOURNAL, step, steps);
    return 1;
}

static void batches_over(struct versions *v)
{
    v->writing = false;
    for (uint32_t i = 0; i < v->logs; i++) {
        struct version_log *l = &v->log[i];
        if (!l->writing)
            continue;
        l->writing = false;
        l->reach_done = l->reach_written;
        l->place_done = l->place_written;
    }
}

static int end_batches(struct versions *v)
{
    if (!v->writing)
        return 0;
    enum block_status s = block_poll(v->block, BLOCK_JOURNAL);
    if (s == BLOCK_FAILED)
        fail(v, block_failure(v->block));
    if (s != BLOCK_DONE)
        return 0;
    batches_over(v);
    return 1;
}

/* ---- segments that come and go ---- */

uint64_t versions_segment_bytes(const struct versions *v, uint32_t index)
{
    uint64_t bytes = v->first_bytes;
    for (uint32_t i = 1; i < index && bytes < v->segment_bytes; i++)
        bytes *= 2;
    return min_u64(bytes, v->segment_bytes);
}

/* Made before it is needed: when the last one is half full, or there is none and something to write. */
static bool needs_segment(const struct version_log *l)
{
    if (l->payload_max == 0 || l->next != NEXT_NONE)
        return false;
    return l->index == 0 ? l->records > 0 : l->at >= l->bytes / 2;
}

/* It waits for a segment, and cannot collect for long. */
static bool is_stuck(const struct version_log *l)
{
    return l->records > 0 && !l->writing && l->next != NEXT_READY &&
           (l->index == 0 || l->at + batch_bytes(l) > l->bytes);
}

static bool may_drop(const struct version_log *l)
{
    return l->payload_max > 0 && l->firsts > 1 && l->oldest < l->drop_before;
}

static void begin_bulk(struct versions *v, uint32_t log, enum versions_bulk what,
                       const struct block_step *step, uint32_t steps)
{
    v->bulk = what;
    v->bulk_log = log;
    block_begin(v->block, BLOCK_BULK, step, steps);
}

/* Room is reserved, and no zeros are written: all of it is written once. */
static bool make_segment(struct versions *v, uint32_t log)
{
    struct version_log *l = &v->log[log];
    if (!needs_segment(l) || (v->no_room_ns && v->now_ns < v->no_room_ns + v->retry_ns))
        return false;
    l->next = NEXT_MAKING;
    l->next_bytes = versions_segment_bytes(v, l->index + 1);
    versions_name(l->bulk_name, log, l->index + 1);
    block_hurry(v->block, is_stuck(l));
    const struct block_step steps[] = {
        {.act = BLOCK_CREATE, .name = l->bulk_name, .bytes = BLOCK_BYTES},
        {.act = BLOCK_GROW, .name = l->bulk_name, .bytes = l->next_bytes},
    };
    begin_bulk(v, log, VERSIONS_BULK_MAKE, steps, 2);
    return true;
}

static bool drop_segment(struct versions *v, uint32_t log)
{
    struct version_log *l = &v->log[log];
    if (!may_drop(l))
        return false;
    versions_name(l->bulk_name, log, l->oldest++);
    l->firsts--;
    memmove(l->first, l->first + 1, l->firsts * sizeof(*l->first));
    l->found.first = l->first[0];
    const struct block_step gone = {.act = BLOCK_REMOVE, .name = l->bulk_name};
    begin_bulk(v, log, VERSIONS_BULK_REMOVE, &gone, 1);
    return true;
}

static int begin_bulk_task(struct versions *v)
{
    for (uint32_t i = 0; i < v->logs; i++)
        if (make_segment(v, i))
            return 1;
    for (uint32_t i = 0; i < v->logs; i++)
        if (drop_segment(v, i))
            return 1;
    return 0;
}

static int end_bulk_task(struct versions *v)
{
    struct version_log *l = &v->log[v->bulk_log];
    enum block_status s = block_poll(v->block, BLOCK_BULK);
    if (s == BLOCK_BUSY)
        return 0;
    if (s == BLOCK_FAILED) {
        fail(v, block_failure(v->block));
        return 0;
    }
    if (v->bulk == VERSIONS_BULK_MAKE) {
        l->next = s == BLOCK_DONE ? NEXT_READY : NEXT_NONE;
        v->no_room_ns = s == BLOCK_DONE ? 0 : max_u64(v->now_ns, 1);
    }
    v->bulk = VERSIONS_BULK_NONE;
    return 1;
}

/* The disk is full, and what was collected has no place. */
static void look_for_room(struct versions *v)
{
    for (uint32_t i = 0; v->no_room_ns && i < v->logs; i++)
        if (may_drop(&v->log[i]))
            return;
    for (uint32_t i = 0; v->no_room_ns && i < v->logs; i++) {
        const struct version_log *l = &v->log[i];
        char name[BLOCK_NAME_BYTES], text[VERSIONS_TEXT_BYTES];
        if (l->payload_max == 0 || !is_stuck(l))
            continue;
        versions_name(name, i, l->index + 1);
        snprintf(text, sizeof(text), "the disk is full: no room for %s, of %llu bytes", name,
                 (unsigned long long)versions_segment_bytes(v, l->index + 1));
        fail(v, text);
    }
}

/* ---- a round ---- */

int versions_round(struct versions *v, uint64_t now_ns)
{
    v->now_ns = now_ns;
    if (v->failure[0])
        return 0;
    int work = end_batches(v);
    if (v->bulk != VERSIONS_BULK_NONE)
        work += end_bulk_task(v);
    if (v->failure[0] == '\0' && v->bulk == VERSIONS_BULK_NONE)
        work += begin_bulk_task(v);
    if (v->failure[0] == '\0' && !v->writing)
        work += begin_batches(v);
    look_for_room(v);
    return work;
}

uint64_t versions_next_ns(const struct versions *v)
{
    bool waits = false;
    for (uint32_t i = 0; v->no_room_ns && i < v->logs; i++)
        waits |= needs_segment(&v->log[i]);
    return waits && v->failure[0] == '\0' ? v->no_room_ns + v->retry_ns : UINT64_MAX;
}

uint32_t versions_segment(const struct versions *v, uint32_t log)
{
    const struct version_log *l = log_of(v, log);
    return l->index ? l->index : 1;
}

uint32_t versions_segment_of(const struct versions *v, uint32_t log, uint64_t version)
{
    const struct version_log *l = log_of(v, log);
    uint32_t i = versions_segment(v, log);
    while (i > l->oldest && l->firsts > 0 && l->first[i - l->oldest] > version)
        i--;
    return i;
}

uint32_t versions_oldest(const struct versions *v, uint32_t log)
{
    const struct version_log *l = log_of(v, log);
    return l->oldest ? l->oldest : 1;
}

uint64_t versions_bytes(const struct versions *v, uint32_t log, uint32_t from)
{
    const struct version_log *l = log_of(v, log);
    uint64_t bytes = l->index >= from ? l->at : 0;
    for (uint32_t i = (uint32_t)max_u64(from, l->oldest); i < l->index; i++)
        bytes += versions_segment_bytes(v, i);
    return bytes;
}

void versions_drop(struct versions *v, uint32_t log, uint32_t before)
{
    struct version_log *l = log_of(v, log);
    l->drop_before = (uint32_t)max_u64(l->drop_before, before);
}

const char *versions_failure(const struct versions *v)
{
    return v->failure[0] ? v->failure : NULL;
}

void versions_status(const struct versions *v, struct versions_status *s)
{
    *s = (struct versions_status){.batches = v->batches,
                                  .bytes = v->bytes,
                                  .records = v->records,
                                  .writing = v->writing,
                                  .no_room = v->no_room_ns != 0};
    for (uint32_t i = 0; i < v->logs; i++)
        if (v->log[i].records > 0)
            s->waiting_bytes += v->log[i].used;
}
