#include "sim/log_check.h"

#include "base/err.h"
#include "base/hash.h"
#include "mem/wrap.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FORGED_BALLOT (UINT64_C(1) << 40)

void check_init(struct log_check *c, struct run_result *r, uint64_t seed)
{
    *c = (struct log_check){.result = r, .seed = seed};
    for (uint32_t s = 0; s < CHECK_SOURCES_MAX; s++)
        c->source_end[s] = c->source_sent[s] = stream_start();
}

void check_fini(struct log_check *c)
{
    free(c->decided);
    free(c->history);
}

void check_violated(struct log_check *c, const char *property, uint64_t pos, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    run_violated(c->result, property, pos, fmt, ap);
    va_end(ap);
}

/* Grows an array of words, new ones zero, so that index i exists. */
static void grow(uint64_t **array, uint64_t *max, uint64_t i)
{
    if (i < *max)
        return;
    uint64_t more = *max ? *max : 4096;
    while (more <= i)
        more *= 2;
    *array = realloc(*array, more * sizeof(**array));
    CHECK(*array != NULL);
    memset(*array + *max, 0, (more - *max) * sizeof(**array));
    *max = more;
}

void check_fill(uint64_t seed, uint32_t source, uint64_t pos, unsigned char *out, uint32_t bytes)
{
    uint64_t h = hash_mix(hash_mix(seed, source), pos);
    for (uint32_t i = 0; i < bytes; i += 8) {
        h = hash_mix(h, i);
        /* Every other word could be taken for the position, or ballot, of an entry near by. */
        uint64_t word = h & 1 ? h : (pos + ((h >> 8) & 0x3f) * 8);
        memcpy(out + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

void check_forge(uint32_t source, uint64_t guess, unsigned char *out, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i += sizeof(struct entry)) {
        struct entry forged = {.pos = guess + sizeof(struct entry) + i,
                               .ballot = FORGED_BALLOT,
                               .source = (uint16_t)source,
                               .srcpos = guess + i};
        uint32_t rest = bytes - i;
        memcpy(out + i, &forged, rest < sizeof(forged) ? rest : sizeof(forged));
    }
}

/* The payload is what the source sent at that position: the one or the other. */
static bool as_sent(const struct log_check *c, const struct entry *e)
{
    unsigned char expected[CHECK_PAYLOAD_MAX];
    CHECK(e->bytes <= sizeof(expected));
    check_fill(c->seed, e->source, e->srcpos, expected, e->bytes);
    if (memcmp(expected, e->payload, e->bytes) == 0)
        return true;
    uint64_t first = 0;
    memcpy(&first, e->payload, e->bytes < 8 ? e->bytes : 8);
    check_forge(e->source, first - sizeof(*e), expected, e->bytes);
    return memcmp(expected, e->payload, e->bytes) == 0;
}

/* The value of an entry: everything but its ballot. Never 0. */
static uint64_t entry_hash(const struct entry *e)
{
    uint64_t h = hash_mix(hash_mix(e->pos, e->source), e->srcpos);
    h = hash_bytes(hash_mix(h, e->bytes), e->payload, e->bytes);
    return h | 1;
}

void check_entry(struct log_check *c, uint32_t rank, const struct entry *e)
{
    grow(&c->decided, &c->decided_max, e->pos / 8);
    uint64_t h = entry_hash(e);
    uint64_t *known = &c->decided[e->pos / 8];
    if (*known == 0)
        *known = h;
    else if (*known != h)
        check_violated(c, "agreement", e->pos,
                       "replica %u applied another entry (source %u, source position %llu, %u "
                       "bytes, ballot %llu) than was decided there",
                       rank, e->source, (unsigned long long)e->srcpos, e->bytes,
                       (unsigned long long)e->ballot);
}

/* Integrity of a message that extends the history. */
static void check_new(struct log_check *c, uint32_t rank, const struct entry *e)
{
    if (e->source < CHECK_SOURCES_MAX && c->lies[e->source])
        return;
    if (e->source >= CHECK_SOURCES_MAX ||
        e->srcpos + frame_size(e->bytes) > c->source_sent[e->source]) {
        check_violated(c, "integrity", e->pos, "replica %u applied a message nobody sent", rank);
        return;
    }
    if (e->srcpos != c->source_end[e->source]) {
        check_violated(c, e->srcpos < c->source_end[e->source] ? "no duplicate" : "no gap", e->pos,
                       "replica %u applied source %u at %llu after %llu", rank, e->source,
                       (unsigned long long)e->srcpos, (unsigned long long)c->source_end[e->source]);
        return;
    }
    if (!as_sent(c, e))
        check_violated(c, "integrity", e->pos, "replica %u applied other bytes than were sent",
                       rank);
    c->source_end[e->source] = e->srcpos + frame_size(e->bytes);
}

void check_apply(struct counter_machine_state *s, const struct entry *e)
{
    s->hash = hash_mix(s->hash, entry_hash(e));
    s->count++;
}

void check_message(struct log_check *c, uint32_t rank, struct counter_machine_state *s,
                   const struct entry *e)
{
    uint64_t k = s->count;
    check_apply(s, e);
    if (k < c->history_count) {
        if (c->history[k] != s->hash)
            check_violated(c, "state equality", e->pos,
                           "replica %u differs from the others after message %llu", rank,
                           (unsigned long long)k);
        return;
    }
    if (k > c->history_count) {
        check_violated(c, "state equality", e->pos, "replica %u skipped messages", rank);
        return;
    }
    check_new(c, rank, e);
    grow(&c->history, &c->history_max, k);
    c->history[c->history_count++] = s->hash;
}

void check_loaded(struct log_check *c, uint32_t rank, const struct counter_machine_state *s)
{
    if (s->count > c->history_count || (s->count > 0 && c->history[s->count - 1] != s->hash))
        check_violated(c, "state equality", 0,
                       "replica %u loaded a state of %llu messages that never was", rank,
                       (unsigned long long)s->count);
}

void check_ack(struct log_check *c, uint32_t source, uint64_t pos)
{
    if (pos > c->source_end[source])
        check_violated(c, "acknowledged means applied", 0,
                       "source %u was told %llu, applied is %llu", source, (unsigned long long)pos,
                       (unsigned long long)c->source_end[source]);
}

void check_landing(struct log_check *c, uint32_t rank, uint64_t ballot)
{
    if (ballot < c->counted[rank])
        check_violated(c, "one writer", 0,
                       "at replica %u a write under ballot %llu counted after one under %llu", rank,
                       (unsigned long long)ballot, (unsigned long long)c->counted[rank]);
    else
        c->counted[rank] = ballot;
}

void check_lane(struct log_check *c, uint32_t rank, const unsigned char *ring, uint64_t ring_bytes,
                uint64_t from, uint64_t commit, uint64_t guard)
{
    if (commit > guard) {
        check_violated(c, "commit within match", commit,
                       "replica %u was told commit %llu and holds %llu", rank,
                       (unsigned long long)commit, (unsigned long long)guard);
        return;
    }
    for (uint64_t pos = from; pos < commit;) {
        _Alignas(struct entry) unsigned char copy[sizeof(struct entry) + CHECK_PAYLOAD_MAX];
        const struct entry *e = (const void *)copy;
        ring_read(ring, ring_bytes, pos, copy, sizeof(*e));
        if (e->bytes <= CHECK_PAYLOAD_MAX)
            ring_read(ring, ring_bytes, pos, copy, entry_size(e->bytes));
        uint64_t known = pos / 8 < c->decided_max ? c->decided[pos / 8] : 0;
        if (e->pos != pos || e->bytes > CHECK_PAYLOAD_MAX ||
            (known != 0 && known != entry_hash(e))) {
            check_violated(c, "committed equals decided", pos,
                           "replica %u holds another entry below its commit", rank);
            return;
        }
        pos += entry_size(e->bytes);
    }
}
