/* Logs on disk as they are opened: where each goes on. */
#include "base/grow.h"
#include "base/minmax.h"
#include "base/pages.h"
#include "group/versions_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

#define SEGMENT_BYTES (UINT64_C(64) << 20)
#define BUFFER_BYTES (UINT64_C(1) << 20)
#define RETRY_NS UINT64_C(1000000000)

enum { BATCHES_A_SEGMENT = 4 }; /* at least: what is collected at once is not to be larger */

/* ---- options and memory ---- */

static int log_open(struct version_log *l, const struct versions_log_options *o, struct err *e)
{
    uint64_t least = versions_blocks(sizeof(struct versions_batch) + sizeof(struct version) +
                                     versions_padded(o->payload_max));
    l->payload_max = o->payload_max;
    l->sign = o->sign;
    if (o->payload_max == 0)
        return 0;
    l->half_bytes =
        (uint32_t)versions_blocks(max_u64(o->buffer_bytes ? o->buffer_bytes : BUFFER_BYTES, least));
    for (int i = 0; i < VERSIONS_HALVES; i++)
        l->half[i] = pages_alloc(l->half_bytes);
    l->head = pages_alloc(BLOCK_BYTES);
    if (!l->half[0] || !l->half[1] || !l->head)
        return err_set(e, ERR_NOMEM, "versions: no memory for two buffers of %u bytes",
                       l->half_bytes);
    memset(l->head, 0, BLOCK_BYTES);
    l->used = sizeof(struct versions_batch);
    l->number = 1;
    return 0;
}

static int memory_open(struct versions *v, const struct versions_options *o, struct err *e)
{
    uint64_t largest = 0;
    int rc = 0;
    if (o->logs == 0 || o->logs > VERSIONS_LOGS_MAX)
        return err_set(e, ERR_INVALID, "versions: %u logs; there may be 1 to %d", o->logs,
                       VERSIONS_LOGS_MAX);
    v->log = calloc(o->logs, sizeof(*v->log));
    if (v->log == NULL)
        return err_set(e, ERR_NOMEM, "versions: no memory for %u logs", o->logs);
    v->logs = o->logs;
    for (uint32_t i = 0; i < o->logs && rc == 0; i++) {
        rc = log_open(&v->log[i], &o->log[i], e);
        largest = max_u64(largest, v->log[i].half_bytes);
    }
    v->segment_bytes =
        o->segment_bytes ? o->segment_bytes : max_u64(SEGMENT_BYTES, BATCHES_A_SEGMENT * largest);
    v->first_bytes = min_u64(VERSIONS_FIRST_BYTES, v->segment_bytes);
    while (v->first_bytes < BATCHES_A_SEGMENT * largest && v->first_bytes < v->segment_bytes)
        v->first_bytes *= 2;
    if (rc == 0 &&
        (v->segment_bytes % BLOCK_BYTES || v->segment_bytes < BATCHES_A_SEGMENT * largest))
        rc = err_set(e, ERR_INVALID,
                     "versions: segment_bytes is %llu: a multiple of %d, and at least %llu",
                     (ull)v->segment_bytes, BLOCK_BYTES, (ull)(BATCHES_A_SEGMENT * largest));
    return rc;
}

/* ---- where a log goes on ---- */

void versions_note_first(struct version_log *l, uint64_t version)
{
    l->first = grow("segments of a log", l->first, sizeof(*l->first), l->firsts + 1u);
    l->first[l->firsts++] = version;
}

/* What stands behind the last good batch. */
static void take_batch(struct version_log *l, const struct versions_batch *b)
{
    l->reach = l->reach_written = l->reach_done = b->reach;
    l->time = l->time_written = b->time;
    l->checkpoint = b->checkpoint;
    l->sure = b->sure;
    l->total = b->total;
    l->number = b->number + 1;
    l->chain = versions_chain(b);
}

/* The last file that has begun for sure: its head is good and a batch behind it. That of the last one may not be. */
static int find_start(struct versions_cursor *c, struct err *e)
{
    struct versions_segment head;
    int rc = 0;
    for (uint32_t f = c->files; f > 0 && rc == 0; f--) {
        c->at_file = f - 1;
        c->at = c->number = 0;
        if (!versions_cursor_head(c, f - 1, &head, &rc, e) || rc)
            continue;
        struct versions_cursor probe = *c;
        probe.files = f; /* it alone */
        const struct versions_batch *b = versions_cursor_next(&probe, &rc, e);
        c->memory = probe.memory;
        c->memory_bytes = probe.memory_bytes;
        if (b || rc == ERR_CORRUPT) { /* damage is told of when all of it is read */
            rc = rc == ERR_CORRUPT ? 0 : rc;
            return rc;
        }
    }
    return rc;
}

static int note_firsts(struct versions_cursor *c, struct version_log *l, struct err *e)
{
    struct versions_segment head;
    int rc = 0;
    for (uint32_t f = 0; f < c->files && c->file[f].index <= l->index && rc == 0; f++) {
        if (!versions_cursor_head(c, f, &head, &rc, e) && rc == 0)
            rc = err_set(e, ERR_CORRUPT, "the head of segment %u of log %u is damaged",
                         c->file[f].index, c->file[f].log);
        if (rc == 0)
            versions_note_first(l, head.version);
    }
    return rc;
}

/* The bytes behind the end that are not zero: what was cut short, for people. */
static uint64_t torn_bytes(struct versions *v, const struct version_log *l)
{
    unsigned char *page = (unsigned char *)l->head; /* free, and of that size */
    uint64_t bytes = 0;
    for (uint64_t at = l->at; at < l->bytes; at += BLOCK_BYTES) {
        if (block_read(v->block, l->name, at, page, BLOCK_BYTES, NULL) != 0)
            break;
        bool zero = true;
        for (uint32_t i = 0; i < BLOCK_BYTES && zero; i++)
            zero = page[i] == 0;
        if (zero)
            break;
        bytes += BLOCK_BYTES;
    }
    memset(page, 0, BLOCK_BYTES);
    return bytes;
}

static void tell_torn(struct versions *v, const struct version_log *l)
{
    char line[VERSIONS_TEXT_BYTES];
    uint64_t bytes = l->index ? torn_bytes(v, l) : 0;
    if (bytes == 0 || v->say == NULL)
        return;
    snprintf(
        line, sizeof(line),
        "%s: a batch of at least %llu bytes at offset %llu was cut short, and is written over: "
        "nobody has counted on it",
        l->name, (ull)bytes, (ull)l->at);
    v->say(v->ctx, line);
}

/* The file behind the last one that has begun, if it is there: made, or begun with a batch that was cut short. */
static void take_next(struct version_log *l, const struct versions_cursor *c, uint32_t file)
{
    if (file >= c->files)
        return;
    l->next_bytes = c->file[file].bytes;
    if (l->next_bytes >= BATCHES_A_SEGMENT * (uint64_t)l->half_bytes)
        l->next = NEXT_READY;
}

static int log_resume(struct versions *v, uint32_t log, struct versions_cursor *c, struct err *e)
{
    struct version_log *l = &v->log[log];
    const struct versions_batch *b;
    int rc = find_start(c, e);
    bool any = false;
    c->at = c->number = 0;
    while (rc == 0 && (b = versions_cursor_next(c, &rc, e)) != NULL) {
        take_batch(l, b);
        any = true;
    }
    if (rc != 0)
        return rc;
    const struct versions_file *f = &c->file[c->at_file];
    if (!any && c->file[0].index > 1)
        return err_set(e, ERR_CORRUPT, "log %u has nothing good in its first segment, number %u",
                       log, c->file[0].index);
    take_next(l, c, any ? c->at_file + 1 : 0);
    if (!any)
        return 0;
    l->oldest = c->file[0].index;
    l->index = f->index;
    l->at = c->at;
    l->bytes = f->bytes;
    versions_name(l->name, log, l->index);
    rc = note_firsts(c, l, e);
    if (rc != 0)
        return rc;
    tell_torn(v, l);
    l->found = (struct versions_found){.records = l->total,
                                       .first = l->first[0],
                                       .reach = l->reach,
                                       .time = l->time,
                                       .checkpoint = l->checkpoint,
                                       .sure = l->sure};
    return 0;
}

static int logs_resume(struct versions *v, struct err *e)
{
    struct versions_files all;
    int rc = versions_list(v->block, UINT32_MAX, &all, e);
    for (uint32_t at = 0, next; at < all.count && rc == 0; at = next) {
        uint32_t log = all.file[at].log;
        for (next = at; next < all.count && all.file[next].log == log;)
            next++;
        if (log >= v->logs || v->log[log].payload_max == 0)
            continue;
        struct versions_cursor c = {
            .block = v->block, .owner = &v->owner, .file = &all.file[at], .files = next - at};
        rc = log_resume(v, log, &c, e);
        versions_cursor_end(&c);
    }
    grow_free(all.file);
    return rc;
}

/* What a process that died has left may be in a cache only. */
static int flush(struct versions *v, struct err *e)
{
    block_begin(v->block, BLOCK_JOURNAL, NULL, 0);
    if (block_wait(v->block, BLOCK_JOURNAL) == BLOCK_DONE)
        return 0;
    return err_set(e, ERR_SYSTEM, "%s", block_failure(v->block));
}

int versions_open(const struct versions_options *o, struct versions **out, struct err *e)
{
    struct versions *v = calloc(1, sizeof(*v));
    if (v == NULL)
        return err_set(e, ERR_NOMEM, "versions: no memory");
    v->block = o->block;
    v->owner = o->owner;
    v->signer = o->signer;
    v->say = o->say;
    v->ctx = o->ctx;
    v->retry_ns = o->retry_ns ? o->retry_ns : RETRY_NS;
    int rc = memory_open(v, o, e);
    if (rc == 0)
        rc = flush(v, e);
    if (rc == 0)
        rc = logs_resume(v, e);
    if (rc) {
        versions_close(v);
        return rc;
    }
    *out = v;
    return 0;
}

void versions_close(struct versions *v)
{
    if (v == NULL)
        return;
    for (uint32_t i = 0; v->log && i < v->logs; i++) {
        free(v->log[i].half[0]);
        free(v->log[i].half[1]);
        free(v->log[i].head);
        grow_free(v->log[i].first);
    }
    free(v->log);
    free(v);
}
