#include "disk/block_file.h"

#include "disk/block_read_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORT_BYTES = 16 << 10 };

#define BULK_BYTES_PER_S ((uint64_t)256 << 20)

/* What a file is called while it is made, by lane: no name that a caller may use. */
static const char *const temps[BLOCK_LANES] = {".journal.new", ".bulk.new"};

/* The owner writes steps and count, sets BUSY and posts; the thread does the order and sets what became of it; the owner sees that
 * and sets FREE. A post while it is not BUSY ends the thread. */
struct file_lane {
    struct block_file *of;
    pthread_t thread;
    sem_t go, over;    /* the latter also counts orders that nobody waited for */
    atomic_int status; /* enum block_status */
    uint32_t count;
    struct block_step steps[BLOCK_STEPS_MAX];
    struct work work;
    bool near;       /* to its owner, in short orders */
    int core;        /* that it is bound to; -1: to none */
    cpu_set_t cores; /* all that it may run on */
};

enum { FINE, SAYING, SAID };

struct block_file {
    struct block block;
    struct work_dir dir;
    struct file_lane lanes[BLOCK_LANES];
    uint32_t running;     /* lanes that have a thread */
    struct reader reader; /* of the owner */
    void (*over)(void *ctx);
    void *ctx;
    atomic_int failed; /* SAID: the text is there */
    struct err failure;
};

static struct block_file *file_of(struct block *b)
{
    return (struct block_file *)b;
}

/* ---- lanes ---- */

static bool has_failed(struct block_file *f)
{
    return atomic_load_explicit(&f->failed, memory_order_acquire) == SAID;
}

/* Of two lanes that fail at the same time one says why, and the other waits until it has. */
static void say_failure(struct block_file *f, const struct err *why)
{
    int fine = FINE;

    if (!atomic_compare_exchange_strong(&f->failed, &fine, SAYING)) {
        while (!has_failed(f))
            sched_yield();
        return;
    }
    f->failure = *why;
    atomic_store_explicit(&f->failed, SAID, memory_order_release); /* pairs with has_failed */
}

static void *lane_main(void *of)
{
    struct file_lane *l = of;

    for (;;) {
        while (sem_wait(&l->go) != 0)
            ;
        if (atomic_load_explicit(&l->status, memory_order_relaxed) != BLOCK_BUSY)
            return NULL;
        enum block_status status = work_do(&l->work, l->steps, l->count);
        if (status == BLOCK_FAILED)
            say_failure(l->of, &l->work.err);
        atomic_store_explicit(&l->status, status, memory_order_release); /* pairs with file_poll */
        sem_post(&l->over);
        if (l->of->over)
            l->of->over(l->of->ctx);
    }
}

static uint64_t bytes_of(const struct file_lane *l)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < l->count; i++)
        bytes += l->steps[i].bytes;
    return bytes;
}

/* -1: to none. */
static void bind_to(struct file_lane *l, int core)
{
    cpu_set_t one;

    if (core == l->core)
        return;
    CPU_ZERO(&one);
    if (core >= 0)
        CPU_SET((size_t)core, &one);
    if (pthread_setaffinity_np(l->thread, sizeof one, core < 0 ? &l->cores : &one) == 0)
        l->core = core;
}

/* A short order is waited for, by an owner that sleeps meanwhile: on its core the thread begins, and wakes the owner, without an
 * interrupt between cores, which takes longer than all the rest of a wake-up, on virtual machines many times longer. It stays bound
 * to that core until the owner is on another one: binding it takes longer than waking it. A long order has work of its own. */
static void choose_core(struct file_lane *l)
{
    bind_to(l, bytes_of(l) > SHORT_BYTES ? -1 : sched_getcpu());
}

static void file_begin(struct block *b, enum block_lane lane, const struct block_step *steps,
                       uint32_t count)
{
    struct block_file *f = file_of(b);
    struct file_lane *l = &f->lanes[lane];

    if (has_failed(f))
        return;
    CHECK(atomic_load_explicit(&l->status, memory_order_relaxed) == BLOCK_FREE);
    for (uint32_t i = 0; i < count; i++)
        l->steps[i] = steps[i];
    l->count = count;
    while (sem_trywait(&l->over) == 0)
        ; /* of the orders before */
    if (l->near)
        choose_core(l);
    atomic_store_explicit(&l->status, BLOCK_BUSY, memory_order_relaxed);
    sem_post(&l->go);
}

static enum block_status file_poll(struct block *b, enum block_lane lane)
{
    struct block_file *f = file_of(b);
    struct file_lane *l = &f->lanes[lane];

    if (has_failed(f))
        return BLOCK_FAILED;
    int status = atomic_load_explicit(&l->status, memory_order_acquire);
    if (status == BLOCK_DONE || status == BLOCK_NO_ROOM)
        atomic_store_explicit(&l->status, BLOCK_FREE, memory_order_relaxed);
    return (enum block_status)status;
}

/* It may return too early, for an order before; then it is called again. */
static void file_wait(struct block *b, enum block_lane lane)
{
    while (sem_wait(&file_of(b)->lanes[lane].over) != 0)
        ;
}

static const char *file_failure(struct block *b)
{
    return has_failed(file_of(b)) ? file_of(b)->failure.text : "";
}

static void file_hurry(struct block *b, bool hurry)
{
    atomic_store_explicit(&file_of(b)->dir.hurry, hurry, memory_order_relaxed);
}

/* ---- reading ---- */

struct listing {
    void (*fn)(void *ctx, const char *name, uint64_t bytes);
    void *ctx;
};

static int list_one(void *ctx, const char *name, uint64_t bytes)
{
    const struct listing *l = ctx;

    l->fn(l->ctx, name, bytes);
    return 0;
}

static int file_list(struct block *b, void (*fn)(void *ctx, const char *name, uint64_t bytes),
                     void *ctx, struct err *e)
{
    struct listing l = {fn, ctx};

    return work_each(&file_of(b)->dir, list_one, &l, e);
}

static int file_read(struct block *b, const char *name, uint64_t at, void *into, uint64_t bytes,
                     struct err *e)
{
    return reader_read(&file_of(b)->reader, name, at, into, bytes, e);
}

static void file_ahead(struct block *b, const char *name, uint64_t at, void *into, uint64_t bytes)
{
    reader_ahead(&file_of(b)->reader, name, at, into, bytes);
}

static void file_ahead_end(struct block *b)
{
    reader_ahead_end(&file_of(b)->reader);
}

/* ---- open and close ---- */

static void stop(struct block_file *f)
{
    atomic_store_explicit(&f->dir.hurry, true, memory_order_relaxed);
    for (uint32_t i = 0; i < f->running; i++) {
        sem_post(&f->lanes[i].go);
        pthread_join(f->lanes[i].thread, NULL);
        sem_destroy(&f->lanes[i].go);
        sem_destroy(&f->lanes[i].over);
        work_fini(&f->lanes[i].work);
    }
}

static void file_close(struct block *b)
{
    struct block_file *f = file_of(b);

    stop(f);
    reader_fini(&f->reader);
    shadow_close(f->dir.shadow);
    if (f->dir.fd >= 0)
        close(f->dir.fd); /* and unlocks it */
    free(f->dir.path);
    free(f);
}

static const struct block_ops file_ops = {
    .begin = file_begin,
    .poll = file_poll,
    .list = file_list,
    .read = file_read,
    .ahead = file_ahead,
    .ahead_end = file_ahead_end,
    .failure = file_failure,
    .wait = file_wait,
    .hurry = file_hurry,
    .close = file_close,
};

static int start_lane(struct block_file *f, int lane, uint64_t bytes_per_s, bool near,
                      struct err *e)
{
    struct file_lane *l = &f->lanes[lane];
    sigset_t all, before;

    l->of = f;
    l->core = -1;
    l->near = near && pthread_getaffinity_np(pthread_self(), sizeof l->cores, &l->cores) == 0;
    sem_init(&l->go, 0, 0);
    sem_init(&l->over, 0, 0);
    work_init(&l->work, &f->dir, temps[lane], bytes_per_s);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* they are for the owner */
    errno = pthread_create(&l->thread, NULL, lane_main, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errno != 0) {
        sem_destroy(&l->go);
        sem_destroy(&l->over);
        return err_sys(e, "start a thread that writes to %s", f->dir.path);
    }
    f->running++;
    return 0;
}

static int start(struct block_file *f, const struct block_file_options *o, bool shadow,
                 struct err *e)
{
    uint64_t bulk = o->bulk_bytes_per_s ? o->bulk_bytes_per_s : BULK_BYTES_PER_S;

    f->dir.path = strdup(o->dir);
    if (!f->dir.path)
        return err_set(e, ERR_NOMEM, "open %s", o->dir);
    f->dir.fd = block_lock(o->dir, e);
    if (f->dir.fd < 0)
        return f->dir.fd;
    for (int i = 0; i < BLOCK_LANES; i++)
        unlinkat(f->dir.fd, temps[i], 0); /* what a process that died was making */
    int rc = shadow ? shadow_open(o->dir, f->dir.fd, &f->dir.shadow, e) : 0;
    reader_init(&f->reader, &f->dir);
    if (rc == 0)
        rc = start_lane(f, BLOCK_JOURNAL, 0, !o->apart, e);
    return rc == 0 ? start_lane(f, BLOCK_BULK, bulk, false, e) : rc;
}

static int open_dir(const struct block_file_options *o, bool shadow, struct block **out,
                    struct err *e)
{
    struct block_file *f = calloc(1, sizeof *f);

    if (!f)
        return err_set(e, ERR_NOMEM, "open %s", o->dir);
    f->block.ops = &file_ops;
    f->dir.fd = -1;
    f->over = o->over;
    f->ctx = o->ctx;
    int rc = start(f, o, shadow, e);
    if (rc < 0)
        file_close(&f->block);
    else
        *out = &f->block;
    return rc;
}

int block_file_open(const struct block_file_options *o, struct block **out, struct err *e)
{
    return open_dir(o, false, out, e);
}

int block_shadow_open(const struct block_file_options *o, struct block **out, struct err *e)
{
    return open_dir(o, true, out, e);
}
