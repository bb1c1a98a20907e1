/* What a quorum of disks costs without a protocol. */
#include "base/clock.h"
#include "bench/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 32 << 20, NAME_BYTES = 320 };

struct floor_writer {
    struct floor *of;
    pthread_t thread;
    char name[NAME_BYTES];
    int fd;
    unsigned char *block;
    uint64_t at;
    uint64_t took_ns; /* the last write and its flush */
    int failure;      /* errno of the first that failed */
};

/* All writers and the thread that measures meet twice for every write: before it and after it. What is not atomic changes only while
 * the writers wait for the former. */
struct floor {
    pthread_barrier_t before, after;
    bool over;
    uint32_t bytes;
    uint32_t writers; /* that have a thread */
    struct floor_writer writer[LOG_REPLICAS_MAX];
};

static int put(struct floor_writer *w, uint32_t bytes)
{
    if (w->at + bytes > FILE_BYTES)
        w->at = 0;
    ssize_t n = pwrite(w->fd, w->block, bytes, (off_t)w->at);
    w->at += bytes;
    if (n != (ssize_t)bytes) {
        errno = n < 0 ? errno : EIO;
        return -1;
    }
    return 0;
}

static void *write_on(void *ctx)
{
    struct floor_writer *w = ctx;
    for (;;) {
        pthread_barrier_wait(&w->of->before);
        if (w->of->over)
            return NULL;
        uint64_t start = clock_now_ns();
        if ((put(w, w->of->bytes) != 0 || fdatasync(w->fd) != 0) && w->failure == 0)
            w->failure = errno;
        w->took_ns = clock_now_ns() - start;
        pthread_barrier_wait(&w->of->after);
    }
}

/* Filled once, as the segments of a journal are: a flush has no metadata then. */
static int fill(struct floor_writer *w)
{
    memset(w->block, 0, FLOOR_STREAM_BYTES);
    for (uint32_t at = 0; at < FILE_BYTES; at += FLOOR_STREAM_BYTES)
        if (put(w, FLOOR_STREAM_BYTES) != 0)
            return -1;
    memset(w->block, 0x5a, FLOOR_STREAM_BYTES);
    return fsync(w->fd);
}

/* Not every file system has O_DIRECT. */
static int writer_open(struct floor_writer *w, const char *dir, uint32_t number, struct err *e)
{
    const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
    snprintf(w->name, sizeof(w->name), "%s/floor.%u", dir, number + 1);
    w->block = aligned_alloc(FLOOR_BLOCK_BYTES, FLOOR_STREAM_BYTES);
    if (w->block == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    w->fd = open(w->name, flags | O_DIRECT, 0600);
    if (w->fd < 0 && errno == EINVAL)
        w->fd = open(w->name, flags, 0600);
    return w->fd >= 0 && fill(w) == 0 ? 0 : err_sys(e, "write %s", w->name);
}

static void writer_close(struct floor_writer *w)
{
    if (w->fd >= 0) {
        close(w->fd);
        unlink(w->name);
    }
    free(w->block);
}

int floor_open(const char *dir, uint32_t writers, struct floor **out, struct err *e)
{
    struct floor *f = calloc(1, sizeof(*f));
    int rc = f ? 0 : err_set(e, ERR_NOMEM, "out of memory");
    if (f == NULL)
        return rc;
    pthread_barrier_init(&f->before, NULL, writers + 1);
    pthread_barrier_init(&f->after, NULL, writers + 1);
    for (uint32_t i = 0; i < LOG_REPLICAS_MAX; i++)
        f->writer[i].fd = -1;
    for (uint32_t i = 0; i < writers && rc == 0; i++) {
        f->writer[i].of = f;
        rc = writer_open(&f->writer[i], dir, i, e);
    }
    for (uint32_t i = 0; i < writers && rc == 0; i++) {
        CHECK(pthread_create(&f->writer[i].thread, NULL, write_on, &f->writer[i]) == 0);
        f->writers++;
    }
    if (rc == 0)
        *out = f;
    else
        floor_close(f);
    return rc;
}

void floor_close(struct floor *f)
{
    if (f == NULL)
        return;
    f->over = true;
    if (f->writers > 0)
        pthread_barrier_wait(&f->before);
    for (uint32_t i = 0; i < f->writers; i++)
        pthread_join(f->writer[i].thread, NULL);
    for (uint32_t i = 0; i < LOG_REPLICAS_MAX; i++)
        writer_close(&f->writer[i]);
    pthread_barrier_destroy(&f->before);
    pthread_barrier_destroy(&f->after);
    free(f);
}

int floor_measure(struct floor *f, uint32_t bytes, uint64_t for_ns, struct hist *h, struct err *e)
{
    uint64_t end = clock_now_ns() + for_ns;
    f->bytes = bytes;
    do {
        uint64_t took = 0;
        pthread_barrier_wait(&f->before);
        pthread_barrier_wait(&f->after);
        for (uint32_t i = 0; i < f->writers; i++) {
            const struct floor_writer *w = &f->writer[i];
            took = w->took_ns > took ? w->took_ns : took;
            if (w->failure != 0) {
                errno = w->failure;
                return err_sys(e, "write %s", w->name);
            }
        }
        hist_add(h, took);
    } while (clock_now_ns() < end);
    return 0;
}
