/* What the files of the door share. Private to them.
 *
 * door.c is the thread, and what passes between it and who polls; door_begin.c accepts and dials; door_shake.c is
 * everything between that and a proof; door_address.c compares addresses. */
#ifndef MEM_TCP_DOOR_IMPL_H
#define MEM_TCP_DOOR_IMPL_H

#include "mem/far/impl.h"
#include "mem/tcp/door.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LISTENERS_MAX = 8 };

/* What a descriptor of the thread's epoll is. */
enum watch_kind { WATCH_WAKE, WATCH_LISTENER, WATCH_PENDING };

struct watch {
    enum watch_kind kind;
    int fd;
};

/* A connection that is being made. */
struct pending {
    struct watch watch; /* first; its fd is -1 when it is over */
    struct pending *next, *prev;
    bool dialed, connecting, sends;
    uint32_t host;
    int lowest; /* so many bytes are waited for, until the first record is whole */
    uint64_t until_ns;
    struct sockaddr_storage address;
    struct tls_end *end; /* accepted: NULL until there is something for it */
};

struct dial {
    struct dial *next;
    uint32_t host;
    struct sockaddr_storage address;
    socklen_t bytes;
};

enum count {
    COUNT_ACCEPTED,
    COUNT_MET,
    COUNT_STRANGERS,
    COUNT_LATE,
    COUNT_CROWDED,
    COUNT_NO_ROOM,
    COUNTS
};

struct door {
    struct tls *tls; /* of the thread */
    const struct tcp_keys *keys;
    void *keys_ctx;
    int wake_fd; /* of who takes */
    uint32_t reserved;
    uint64_t descriptors;
    pthread_t thread;
    bool running;
    atomic_bool ends;
    int epoll_fd;
    struct watch wake;
    struct watch listener[LISTENERS_MAX];
    int listeners;
    uint64_t rest_until_ns; /* listeners are out of epoll; 0: they are not */
    uint64_t keys_ns;
    struct pending *first, *last; /* the oldest first */
    struct pending *over;         /* to be freed after the turn */
    uint32_t accepted;            /* pending ones that were accepted */

    /* Between the threads: lists that one side pushes to and the other takes whole. */
    _Atomic(struct dial *) dials;
    _Atomic(struct arrival *) arrivals;
    atomic_int strangers;
    _Atomic uint64_t counts[COUNTS];

    struct arrival *taken; /* of who takes: the oldest first */
};

static inline void door_count(struct door *d, enum count what)
{
    atomic_fetch_add_explicit(&d->counts[what], 1, memory_order_relaxed);
}

/* door.c */
void door_hand_over(struct door *, struct arrival *);
struct arrival *door_arrival(enum door_kind, const struct pending *, const char *why); /* or NULL */
bool door_watch(struct door *, struct watch *, int how, uint32_t events);

/* door_address.c */
bool door_same_place(const struct sockaddr_storage *, const struct sockaddr_storage *);
bool door_ends_of(int fd, struct sockaddr_storage *here, struct sockaddr_storage *there);
bool door_is_itself(const struct sockaddr_storage *here, const struct sockaddr_storage *there);

/* door_begin.c */
void door_accept(struct door *, const struct watch *);
void door_listen_again(struct door *, bool on);
void door_dial_all(struct door *);

/* door_shake.c */
struct pending *door_pending_new(struct door *, int fd, bool dialed);
void door_pending_end(struct door *, struct pending *);
void door_pending_fail(struct door *, struct pending *, bool refused, const char *why);
void door_free_over(struct door *);
void door_connected(struct door *, struct pending *); /* or not */
void door_greeted(struct door *, struct pending *);
void door_heard(struct door *, struct pending *);
void door_shake(struct door *, struct pending *);
void door_late_ones(struct door *, uint64_t now);

#endif
