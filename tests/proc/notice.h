/* For tests that harm clusters of real processes: a state that hashes what is delivered, and what a host shows of its replicas to the
 * test, in memory that both map. */
#ifndef TESTS_PROC_NOTICE_H
#define TESTS_PROC_NOTICE_H

#include "base/hash.h"
#include "tram.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one group. */
struct hashed {
    uint64_t count, hash;
};

static inline void hashed_take(struct hashed *s, const struct tram_delivery *d)
{
    s->count++;
    s->hash = hash_mix(s->hash, hash_mix(d->client, d->life) ^ d->seq);
    s->hash = hash_bytes(s->hash, d->body, d->bytes);
}

static inline int hashed_save(const struct hashed *s, void **data, size_t *bytes)
{
    *bytes = sizeof(*s);
    *data = malloc(*bytes);
    if (*data == NULL)
        return -1;
    memcpy(*data, s, *bytes);
    return 0;
}

static inline int hashed_load(struct hashed *s, const void *data, size_t bytes)
{
    if (bytes != sizeof(*s))
        return -1;
    memcpy(s, data, bytes);
    return 0;
}

/* Of one replica. */
struct notice {
    _Atomic uint64_t role;
    _Atomic uint64_t attached;
    _Atomic uint64_t behind;
    _Atomic uint64_t terms;
    _Atomic uint64_t count; /* messages in its state */
    _Atomic uint64_t hash;  /* of all of them, in order */
    _Atomic uint64_t ballot, applied, commit, tail;
};

/* The role last: who sees it sees the rest. */
static inline void notice_show(struct notice *n, const struct tram_replica_stats *s,
                               const struct hashed *state)
{
    atomic_store(&n->attached, s->attached);
    atomic_store(&n->behind, s->behind);
    atomic_store(&n->terms, s->terms);
    atomic_store(&n->hash, state->hash);
    atomic_store(&n->count, state->count);
    atomic_store(&n->ballot, s->ballot);
    atomic_store(&n->applied, s->applied);
    atomic_store(&n->commit, s->commit);
    atomic_store(&n->tail, s->tail);
    atomic_store(&n->role, s->role);
}

static inline void notice_print(const struct notice *n, uint32_t group, uint32_t host, bool up)
{
    static const char *const roles[] = {"joining", "follower", "candidate", "sync", "leader"};
    printf("# g%u h%u%s: %s, ballot %llu, applied %llu, commit %llu, tail %llu, attached "
           "%llu, %llu messages%s\n",
           group + 1, host + 1, up ? "" : " (down)", roles[atomic_load(&n->role) % 5],
           (unsigned long long)atomic_load(&n->ballot),
           (unsigned long long)atomic_load(&n->applied),
           (unsigned long long)atomic_load(&n->commit), (unsigned long long)atomic_load(&n->tail),
           (unsigned long long)atomic_load(&n->attached),
           (unsigned long long)atomic_load(&n->count), atomic_load(&n->behind) ? ", behind" : "");
}

#endif
