#include "mem/shm/impl.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RINGS_WAIT_POLLS = 8 };

/* Sleeping and waking (Dekker again): the sleeper stores 1 in its bell, fences and looks for work
 * once more; the waker writes the work, fences and looks at the bell. One of the two sees the
 * other. futex sees to the rest: it sleeps only while the word is still 1. */

static void ring_fenced(struct bell *b)
{
    if (atomic_load_explicit(&b->word, memory_order_relaxed) == 0)
        return;
    if (atomic_exchange(&b->word, 0) == 1)
        syscall(SYS_futex, &b->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void bell_ring(struct bell *b)
{
    full_fence();
    ring_fenced(b);
}

static bool peer_sleeps(const struct peer *p)
{
    return p->bell    ? atomic_load_explicit(&p->bell->word, memory_order_relaxed) != 0
           : p->voice ? atomic_load_explicit(&p->voice->asleep, memory_order_relaxed) != 0
                      : false;
}

void peer_ring(struct shm *s, struct peer *p)
{
    if (p->bell) {
        ring_fenced(p->bell);
    } else if (p->voice && peer_sleeps(p)) {
        _Atomic uint32_t *word = &s->self->voice->ring[p->node];
        atomic_fetch_add(word, 1);
        syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

void shm_bell(struct mem *m, uint32_t node)
{
    struct shm *s = shm_of(m);
    struct peer *p = peer_of(s, node);

    if (!p || !(p->bell || p->voice))
        return;
    full_fence();
    peer_ring(s, p);
}

/* Hosts are heard first: others may be many. */
static void speaker_add(struct shm *s, struct peer *p)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < s->speakers; i++) {
        if (s->speaker[i] == p)
            return;
        at += s->speaker[i]->role == SHM_HOST;
    }
    if (p->role == SHM_CLIENT)
        at = s->speakers;
    if (at == SHM_SPEAKERS_MAX)
        return;
    if (s->speakers < SHM_SPEAKERS_MAX)
        s->speakers++;
    for (uint32_t i = s->speakers - 1; i > at; i--)
        s->speaker[i] = s->speaker[i - 1];
    s->speaker[at] = p;
}

void voice_hear(struct shm *s, struct peer *p, struct voice *v)
{
    if (p->voice)
        munmap(p->voice, sizeof *p->voice);
    p->voice = v;
    p->heard = atomic_load(&v->ring[s->mem.self]);
    speaker_add(s, p);
}

/* Who rings after this wakes us; who has written before it is seen by the look that comes before the sleep. */
static void voices_note(struct shm *s)
{
    for (uint32_t i = 0; i < s->speakers; i++)
        s->speaker[i]->heard =
            atomic_load_explicit(&s->speaker[i]->voice->ring[s->mem.self], memory_order_relaxed);
    atomic_store(&s->self->voice->asleep, 1);
}

static void say_awake(struct shm *s)
{
    atomic_store(&s->self->bell->word, 0);
    if (s->self->voice)
        atomic_store(&s->self->voice->asleep, 0);
}

void shm_bell_later(struct mem *m, uint32_t node)
{
    struct shm *s = shm_of(m);
    struct peer *p = peer_of(s, node);

    if (!p || p->ring_later)
        return;
    /* A client need not poll again soon. */
    if (s->self->role == SHM_CLIENT || s->rings == SHM_RINGS_MAX) {
        shm_bell(m, node);
        return;
    }
    p->ring_later = true;
    s->ring[s->rings++] = p;
}

/* Without a fence a bell may be seen silent though its owner is about to sleep and has not seen the work. By the next poll it is seen to
 * sleep, and after some polls there is a fence all the same. Who sleeps itself rings before (rings_flush). */
bool rings_due(struct shm *s)
{
    if (++s->rings_waited == RINGS_WAIT_POLLS)
        return true;
    for (uint32_t i = 0; i < s->rings; i++)
        if (peer_sleeps(s->ring[i]))
            return true;
    return false;
}

void rings_do(struct shm *s)
{
    for (uint32_t i = 0; i < s->rings; i++) {
        s->ring[i]->ring_later = false;
        peer_ring(s, s->ring[i]);
    }
    s->rings = s->rings_waited = 0;
}

void shm_doze(struct mem *m)
{
    struct shm *s = shm_of(m);

    atomic_store(&s->self->bell->word, 1);
    if (s->self->voice)
        voices_note(s);
    full_fence();
}

void shm_rouse(struct mem *m)
{
    say_awake(shm_of(m));
}

/* The word of a host's life that is ours to watch; hosts have one each, clients share its own. */
static const _Atomic uint32_t *watched_word(const struct shm *s, const struct peer *p)
{
    uint32_t slot = s->self->role == SHM_HOST ? s->mem.self : p->node;

    return p->life ? &p->life->slot[slot].word : NULL;
}

bool life_runs(const struct shm *s, const struct peer *p)
{
    const _Atomic uint32_t *word = watched_word(s, p);

    return word && atomic_load_explicit(&p->life->started, memory_order_acquire) &&
           (atomic_load_explicit(word, memory_order_seq_cst) & FUTEX_TID_MASK);
}

bool life_over(const struct shm *s, const struct peer *p)
{
    const _Atomic uint32_t *word = watched_word(s, p);

    /* The kernel clears the owner when it dies, glibc when it leaves in order. */
    if (word && atomic_load_explicit(&p->life->started, memory_order_acquire) &&
        !(atomic_load_explicit(word, memory_order_relaxed) & FUTEX_TID_MASK))
        return true;
    return atomic_load_explicit(&p->lives_over, memory_order_acquire) > p->life_number;
}

/* Holds a robust mutex per host, from the first poll on and by the thread that polls. */
void alive_lock(struct shm *s)
{
    struct life *life = s->self->life;
    pthread_mutexattr_t attr;

    s->alive_locked = true;
    if (!life)
        return;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    bool known = true;
    for (uint32_t i = 0; i < s->hosts_count; i++) {
        union life_slot *slot = &life->slot[s->hosts[i]->node];
        pthread_mutex_init(&slot->mutex, &attr);
        pthread_mutex_lock(&slot->mutex);
        /* The kernel wakes waiters of a dead owner only if this bit says there are any; glibc
         * sets it only when it waits itself, and our waiters are read-only. */
        uint32_t word = atomic_fetch_or(&slot->word, FUTEX_WAITERS);
        known = known && (word & FUTEX_TID_MASK) == tid;
    }
    pthread_mutexattr_destroy(&attr);
    /* With a C library that keeps its word elsewhere, the pidfd alone tells of our death. */
    if (known)
        atomic_store_explicit(&life->started, 1, memory_order_release);
}

/* True if the mutexes are free now: only the thread that locked them can do that. */
bool alive_unlock(struct shm *s)
{
    bool all = true;

    if (!s->alive_locked || !s->self->life)
        return true;
    for (uint32_t i = 0; i < s->hosts_count; i++)
        if (pthread_mutex_unlock(&s->self->life->slot[s->hosts[i]->node].mutex) != 0)
            all = false;
    return all;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

static void add_waiter(struct futex_waitv *v, const _Atomic uint32_t *word, uint32_t expected)
{
    *v = (struct futex_waitv){
        .val = expected, .uaddr = (uint64_t)(uintptr_t)word, .flags = FUTEX_32};
}

/* The bell and the lives of all connected hosts, as far as they fit. False: do not sleep, somebody
 * has died whose end was not told yet. */
bool waiters_collect(struct shm *s, struct shm_waiters *w)
{
    w->count = 0;
    w->no_waitv = s->waitv_missing;
    add_waiter(&w->v[w->count++], &s->self->bell->word, 1);
    for (uint32_t i = 0; i < s->speakers; i++)
        add_waiter(&w->v[w->count++], &s->speaker[i]->voice->ring[s->mem.self],
                   s->speaker[i]->heard);
    for (uint32_t i = 0; i < s->hosts_count && w->count < FUTEX_WAITV_MAX; i++) {
        struct peer *p = s->hosts[i];
        const _Atomic uint32_t *word = watched_word(s, p);
        /* Before its mutexes are held its words say nothing; its pidfd does. */
        if (p == s->self || !word || !atomic_load_explicit(&p->life->started, memory_order_acquire))
            continue;
        uint32_t value = atomic_load_explicit(word, memory_order_relaxed);
        if (!(value & FUTEX_TID_MASK)) {
            if (!p->over_told && life_over(s, p)) {
                p->over_told = true;
                return false;
            }
        } else if (s->self->role == SHM_HOST) {
            add_waiter(&w->v[w->count++], word, value);
        }
    }
    return true;
}

void waiters_sleep(struct shm_waiters *w, struct bell *bell, const struct timespec *until)
{
    if (atomic_load_explicit(&bell->word, memory_order_acquire) != 1)
        return;
    if (!w->no_waitv && syscall(SYS_futex_waitv, w->v, w->count, 0, until, CLOCK_MONOTONIC) < 0)
        w->no_waitv = errno == ENOSYS;
    /* Without futex_waitv deaths come from the helper, which rings our bell. */
    if (w->no_waitv)
        syscall(SYS_futex, &bell->word, FUTEX_WAIT_BITSET, 1, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

void rings_flush(struct shm *s)
{
    if (s->rings) {
        full_fence();
        rings_do(s);
    }
}

void shm_sleep(struct mem *m, uint64_t until_ns)
{
    struct shm *s = shm_of(m);
    struct timespec until = timespec_of(until_ns);
    struct shm_waiters w;

    rings_flush(s);
    if (waiters_collect(s, &w)) {
        waiters_sleep(&w, s->self->bell, &until);
        s->waitv_missing = w.no_waitv;
    }
    say_awake(s);
}

void shm_wake(struct mem *m)
{
    bell_ring(shm_of(m)->self->bell);
}
