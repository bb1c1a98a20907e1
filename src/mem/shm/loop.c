/* Waiting for a bell or a death with a descriptor: for callers with their own event loop. Futexes have no
 * descriptors, so a thread waits in the kernel in the poller's stead and writes an eventfd. It is started when a
 * descriptor is asked for, and waits for nothing but the next order while the poller is awake.
 *
 * The poller orders (arm) after it has announced its sleep in its bell, as before shm_sleep, with the words that it
 * would sleep on; so the bell is not missed whenever the thread begins to wait. An order that is over
 * (disarm) is told from the next by its number: a thread that is late writes nothing. */
#include "mem/shm/impl.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

struct shm_loop {
    struct bell *bell;
    pthread_t thread;
    int event_fd;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t ordered;
    bool armed, waits, stop;
    uint64_t order;
    struct shm_waiters waiters;
};

static void *loop_main(void *arg)
{
    struct shm_loop *l = arg;
    const uint64_t one = 1;

    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (!l->armed) {
            pthread_cond_wait(&l->ordered, &l->lock);
            continue;
        }
        struct shm_waiters w = l->waiters;
        uint64_t order = l->order;
        l->waits = true;
        pthread_mutex_unlock(&l->lock);
        waiters_sleep(&w, l->bell, NULL);
        pthread_mutex_lock(&l->lock);
        l->waits = false;
        if (!l->armed || l->order != order)
            continue;
        l->armed = false;
        if (write(l->event_fd, &one, sizeof one) < 0) {
            /* The counter is full, so it is readable anyway. */
        }
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int shm_loop_open(struct mem *m, int epoll_fd, struct err *e)
{
    struct shm *s = shm_of(m);
    struct shm_loop *l = calloc(1, sizeof *l);

    if (!l)
        return err_set(e, ERR_NOMEM, "%s: no memory for a waiting thread", s->self->name);
    l->bell = s->self->bell;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->ordered, NULL);
    l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (l->event_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, l->event_fd, &event) < 0) {
        int rc = err_sys(e, "%s: a descriptor to wait on", s->self->name);
        if (l->event_fd >= 0)
            close(l->event_fd);
        free(l);
        return rc;
    }
    errno = pthread_create(&l->thread, NULL, loop_main, l);
    if (errno) {
        int rc = err_sys(e, "%s: start a waiting thread", s->self->name);
        close(l->event_fd);
        free(l);
        return rc;
    }
    s->loop = l;
    return 0;
}

/* The poller is awake: gets the thread out of its wait, with the lock held. */
static void call_back(struct shm_loop *l)
{
    l->armed = false;
    atomic_store(&l->bell->word, 0);
    if (l->waits)
        syscall(SYS_futex, &l->bell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool shm_loop_arm(struct mem *m, uint64_t *until_ns)
{
    struct shm *s = shm_of(m);
    struct shm_loop *l = s->loop;
    struct shm_waiters w;

    (void)until_ns;
    rings_flush(s);
    if (!waiters_collect(s, &w)) {
        shm_rouse(m);
        return false;
    }
    pthread_mutex_lock(&l->lock);
    l->waiters = w;
    l->order++;
    l->armed = true;
    pthread_cond_signal(&l->ordered);
    pthread_mutex_unlock(&l->lock);
    return true;
}

void shm_loop_disarm(struct mem *m)
{
    struct shm_loop *l = shm_of(m)->loop;
    uint64_t drained;

    pthread_mutex_lock(&l->lock);
    call_back(l);
    pthread_mutex_unlock(&l->lock);
    shm_rouse(m);
    if (read(l->event_fd, &drained, sizeof drained) < 0) {
        /* It was not the bell that woke the caller. */
    }
}

void shm_loop_close(struct shm *s)
{
    struct shm_loop *l = s->loop;

    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    call_back(l);
    pthread_cond_signal(&l->ordered);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->ordered);
    pthread_mutex_destroy(&l->lock);
    close(l->event_fd);
    free(l);
    s->loop = NULL;
}
