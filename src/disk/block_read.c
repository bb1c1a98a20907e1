/* By the kernel's own asynchronous I/O, which is asynchronous for O_DIRECT: no further thread, which would need a core. Where it cannot
 * be had, or a read came back short or failed, it is read again, and waited for: that has the exact error. */
#include "disk/block_read_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void reader_init(struct reader *r, struct work_dir *d)
{
    *r = (struct reader){0};
    work_init(&r->work, d, NULL, 0);
}

static bool has_context(struct reader *r)
{
    if (!r->tried)
        r->works = syscall(SYS_io_setup, BLOCK_AHEAD_MAX, &r->context) == 0;
    r->tried = true;
    return r->works;
}

static struct read_ahead *free_slot(struct reader *r)
{
    for (uint32_t i = 0; i < BLOCK_AHEAD_MAX; i++)
        if (!r->ahead[i].used)
            return &r->ahead[i];
    return NULL;
}

void reader_ahead(struct reader *r, const char *name, uint64_t at, void *into, uint64_t bytes)
{
    struct read_ahead *a = free_slot(r);
    int fd = a && has_context(r) ? work_fd(&r->work, name) : -1;

    if (fd < 0)
        return;
    *a = (struct read_ahead){.at = at, .bytes = bytes, .into = into};
    snprintf(a->name, sizeof a->name, "%s", name);
    a->control = (struct iocb){.aio_data = (uintptr_t)a,
                               .aio_lio_opcode = IOCB_CMD_PREAD,
                               .aio_fildes = (uint32_t)fd,
                               .aio_buf = (uintptr_t)into,
                               .aio_nbytes = bytes,
                               .aio_offset = (int64_t)at};
    struct iocb *list[] = {&a->control};
    a->used = syscall(SYS_io_submit, r->context, 1, list) == 1;
}

/* Takes note of one that is over, or of more. */
static void reap(struct reader *r)
{
    struct io_event events[BLOCK_AHEAD_MAX];
    long n = syscall(SYS_io_getevents, r->context, 1L, (long)BLOCK_AHEAD_MAX, events, NULL);

    CHECK(n > 0 || errno == EINTR);
    for (long i = 0; i < n; i++) {
        struct read_ahead *a = (struct read_ahead *)(uintptr_t)events[i].data;
        a->over = true;
        a->result = events[i].res;
    }
}

static void await(struct reader *r, const struct read_ahead *a)
{
    while (!a->over)
        reap(r);
}

static struct read_ahead *find_slot(struct reader *r, const char *name, uint64_t at, void *into,
                                    uint64_t bytes)
{
    for (uint32_t i = 0; i < BLOCK_AHEAD_MAX; i++) {
        struct read_ahead *a = &r->ahead[i];
        if (a->used && a->at == at && a->into == into && a->bytes == bytes &&
            strcmp(a->name, name) == 0)
            return a;
    }
    return NULL;
}

int reader_read(struct reader *r, const char *name, uint64_t at, void *into, uint64_t bytes,
                struct err *e)
{
    struct read_ahead *a = find_slot(r, name, at, into, bytes);

    if (a) {
        await(r, a);
        a->used = false;
        if (a->result >= 0 && (uint64_t)a->result == bytes)
            return 0;
    }
    return work_read(&r->work, name, at, into, bytes, e);
}

void reader_ahead_end(struct reader *r)
{
    for (uint32_t i = 0; i < BLOCK_AHEAD_MAX; i++)
        if (r->ahead[i].used) {
            await(r, &r->ahead[i]);
            r->ahead[i].used = false;
        }
}

void reader_fini(struct reader *r)
{
    reader_ahead_end(r);
    if (r->works)
        syscall(SYS_io_destroy, r->context);
    work_fini(&r->work);
}
