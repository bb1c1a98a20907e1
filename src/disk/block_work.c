#include "disk/block_work_impl.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PIECE_BYTES =
        1 << 18,       /* most that is written at once where the pace is limited, and of zeros */
    NAP_NS = 10000000, /* after it is seen whether there is a hurry */
    SECOND_NS = 1000000000,
};

static _Alignas(BLOCK_BYTES) unsigned char zeros[PIECE_BYTES];

static enum block_status failed(struct work *w, const char *call, const char *name)
{
    err_sys(&w->err, "%s %s/%s", call, w->dir->path, name);
    return BLOCK_FAILED;
}

/* ---- descriptors ---- */

/* Not every file system has O_DIRECT. */
static int open_file(const struct work_dir *d, const char *name, int flags)
{
    int fd = openat(d->fd, name, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_DIRECT, 0600);

    if (fd < 0 && errno == EINVAL)
        fd = openat(d->fd, name, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd;
}

/* Some say so only when they are written to. */
static bool leave_direct(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_DIRECT) && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static void close_files(struct work *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        close(w->files[i].fd);
    w->count = w->oldest = 0;
}

/* Names that the other lane has changed since may stand for other files. */
static void look_again(struct work *w)
{
    uint64_t changes = atomic_load_explicit(&w->dir->changes, memory_order_acquire);

    if (changes != w->changes)
        close_files(w);
    w->changes = changes;
}

static int flush_file(struct work *w, struct work_file *f)
{
    if (f->dirty && w->dir->shadow)
        shadow_flush_file(w->dir->shadow, f->fd);
    else if (f->dirty && fdatasync(f->fd) != 0)
        return -1;
    f->dirty = false;
    return 0;
}

static enum block_status flush_files(struct work *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (flush_file(w, &w->files[i]) != 0)
            return failed(w, "flush", w->files[i].name);
    return BLOCK_DONE;
}

/* Makes place for another descriptor. What was there is flushed first: the kernel tells errors to those who were there. */
static struct work_file *free_file(struct work *w)
{
    if (w->count < WORK_FILES)
        return &w->files[w->count++];
    struct work_file *f = &w->files[w->oldest];
    if (flush_file(w, f) != 0) {
        failed(w, "flush", f->name);
        return NULL;
    }
    w->oldest = (w->oldest + 1) % WORK_FILES;
    close(f->fd);
    return f;
}

static struct work_file *keep_file(struct work *w, const char *name, int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        failed(w, "look at", name);
        return NULL;
    }
    struct work_file *f = free_file(w);
    if (f) {
        *f = (struct work_file){.fd = fd, .bytes = (uint64_t)st.st_size};
        snprintf(f->name, sizeof f->name, "%s", name);
    }
    return f;
}

/* NULL: w->err says why. */
static struct work_file *find_file(struct work *w, const char *name)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (strcmp(w->files[i].name, name) == 0)
            return &w->files[i];
    int fd = open_file(w->dir, name, 0);
    if (fd < 0) {
        failed(w, "open", name);
        return NULL;
    }
    struct work_file *f = keep_file(w, name, fd);
    if (!f)
        close(fd);
    return f;
}

/* ---- writing ---- */

static void pace(struct work *w, uint64_t bytes)
{
    if (w->bytes_per_s == 0)
        return;
    uint64_t now = clock_now_ns();
    while (now < w->free_ns && !atomic_load_explicit(&w->dir->hurry, memory_order_relaxed)) {
        nanosleep(&(struct timespec){.tv_nsec = (long)min_u64(w->free_ns - now, NAP_NS)}, NULL);
        now = clock_now_ns();
    }
    w->free_ns = now + bytes * SECOND_NS / w->bytes_per_s;
}

/* One write, of which the file system may do less than it was asked. Returns how much, or -1 with errno. */
static ssize_t put_some(int fd, const unsigned char *data, uint64_t at, uint64_t bytes)
{
    ssize_t n;

    do
        n = pwrite(fd, data, bytes, (off_t)at);
    while (n < 0 && (errno == EINTR || (errno == EINVAL && leave_direct(fd))));
    if (n == 0) {
        errno = EIO;
        return -1;
    }
    return n;
}

static int put(struct work *w, int fd, const unsigned char *data, uint64_t at, uint64_t bytes)
{
    while (bytes > 0) {
        uint64_t piece = w->bytes_per_s ? min_u64(bytes, PIECE_BYTES) : bytes;
        pace(w, piece);
        ssize_t n = put_some(fd, data, at, piece);
        if (n < 0)
            return -1;
        data += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

static int put_zeros(struct work *w, int fd, uint64_t at, uint64_t end)
{
    for (; at < end; at += min_u64(end - at, PIECE_BYTES))
        if (put(w, fd, zeros, at, min_u64(end - at, PIECE_BYTES)) != 0)
            return -1;
    return 0;
}

static enum block_status do_write(struct work *w, const struct block_step *s)
{
    struct work_file *f = find_file(w, s->name);

    if (!f)
        return BLOCK_FAILED;
    if (s->at > f->bytes || s->bytes > f->bytes - s->at) {
        err_set(&w->err, ERR_CORRUPT, "write %s/%s at %llu: it ends at %llu", w->dir->path, s->name,
                (unsigned long long)s->at, (unsigned long long)f->bytes);
        return BLOCK_FAILED;
    }
    f->dirty = true;
    if ((w->dir->shadow && shadow_write(w->dir->shadow, f->fd, s->at, s->bytes) != 0) ||
        put(w, f->fd, s->data, s->at, s->bytes) != 0) {
        err_sys(&w->err, "write %s/%s at %llu", w->dir->path, s->name, (unsigned long long)s->at);
        return BLOCK_FAILED;
    }
    return BLOCK_DONE;
}

/* ---- names ---- */

/* Zeros that are written once, so that no later flush has metadata. The room is asked for first, so that a full disk says
 * so at once, and the file is in one piece; not every file system can. */
static int fill(struct work *w, int fd, uint64_t bytes)
{
    if (bytes > 0 && fallocate(fd, 0, 0, (off_t)bytes) != 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS)
        return -1;
    if (put_zeros(w, fd, 0, bytes) != 0)
        return -1;
    return w->dir->shadow ? 0 : fsync(fd);
}

static bool is_no_room(int why)
{
    return why == ENOSPC || why == EDQUOT;
}

/* What is added is reserved, and reads as zeros: it is to be written once, so nothing is gained by writing zeros first. */
static int lengthen(struct work *w, const struct work_file *f, uint64_t bytes)
{
    if (w->dir->shadow && shadow_grow(w->dir->shadow, f->fd, f->bytes) != 0)
        return -1;
    if (fallocate(f->fd, 0, (off_t)f->bytes, (off_t)(bytes - f->bytes)) == 0)
        return 0;
    return errno == EOPNOTSUPP || errno == ENOSYS ? put_zeros(w, f->fd, f->bytes, bytes) : -1;
}

/* The other lane may know the file as it was. */
static enum block_status do_grow(struct work *w, const struct block_step *s)
{
    struct work_file *f = find_file(w, s->name);

    if (!f)
        return BLOCK_FAILED;
    if (s->bytes <= f->bytes)
        return BLOCK_DONE;
    f->dirty = true;
    if (lengthen(w, f, s->bytes) != 0) {
        int why = errno;
        if (is_no_room(why) && ftruncate(f->fd, (off_t)f->bytes) == 0)
            return BLOCK_NO_ROOM;
        errno = why;
        return failed(w, "lengthen", s->name);
    }
    f->bytes = s->bytes;
    atomic_fetch_add_explicit(&w->dir->changes, 1,
                              memory_order_release); /* pairs with look_again */
    return BLOCK_DONE;
}

/* It gets its name when all of it is on the disk: a half-made file has another one, and is never taken for it. */
static enum block_status do_create(struct work *w, const struct block_step *s)
{
    const struct work_dir *d = w->dir;
    int fd = open_file(d, w->temp, O_CREAT | O_TRUNC);
    bool ok = fd >= 0 && fill(w, fd, s->bytes) == 0 &&
              (!d->shadow || shadow_create(d->shadow, fd, s->name) == 0) &&
              renameat(d->fd, w->temp, d->fd, s->name) == 0;
    int why = errno;

    if (fd >= 0)
        close(fd);
    if (ok)
        return BLOCK_DONE;
    unlinkat(d->fd, w->temp, 0);
    if (is_no_room(why))
        return BLOCK_NO_ROOM;
    errno = why;
    return failed(w, "make", s->name);
}

static enum block_status do_rename(struct work *w, const struct block_step *s)
{
    const struct work_dir *d = w->dir;

    if ((d->shadow && shadow_rename(d->shadow, s->name, s->to) != 0) ||
        renameat(d->fd, s->name, d->fd, s->to) != 0)
        return failed(w, "rename", s->name);
    return BLOCK_DONE;
}

static enum block_status do_remove(struct work *w, const struct block_step *s)
{
    const struct work_dir *d = w->dir;

    if ((d->shadow && shadow_remove(d->shadow, s->name) != 0) ||
        (unlinkat(d->fd, s->name, 0) != 0 && errno != ENOENT))
        return failed(w, "remove", s->name);
    return BLOCK_DONE;
}

/* The descriptors are of names as they were: they are flushed and closed, here now, in the other lane before its next order. */
static enum block_status do_name(struct work *w, const struct block_step *s)
{
    enum block_status status = flush_files(w);

    close_files(w);
    w->names_dirty = true;
    if (status == BLOCK_DONE)
        status = s->act == BLOCK_CREATE   ? do_create(w, s)
                 : s->act == BLOCK_RENAME ? do_rename(w, s)
                                          : do_remove(w, s);
    atomic_fetch_add_explicit(&w->dir->changes, 1,
                              memory_order_release); /* pairs with look_again */
    return status;
}

static enum block_status flush_names(struct work *w)
{
    if (w->names_dirty && w->dir->shadow)
        shadow_flush_names(w->dir->shadow);
    else if (w->names_dirty && fsync(w->dir->fd) != 0)
        return failed(w, "flush", "");
    w->names_dirty = false;
    return BLOCK_DONE;
}

/* ---- orders ---- */

static int flush_one(void *ctx, const char *name, uint64_t bytes)
{
    struct work *w = ctx;
    int fd = open_file(w->dir, name, 0);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : -1;

    (void)bytes;
    if (rc != 0 && !(fd < 0 && errno == ENOENT)) /* the other lane may have removed it */
        failed(w, "flush", name);
    else
        rc = 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static enum block_status flush_all(struct work *w)
{
    w->names_dirty = true;
    if (w->dir->shadow)
        shadow_flush_all(w->dir->shadow);
    else if (work_each(w->dir, flush_one, w, &w->err) != 0)
        return BLOCK_FAILED;
    return flush_names(w);
}

static enum block_status flush(struct work *w)
{
    enum block_status status = flush_files(w);

    return status == BLOCK_DONE ? flush_names(w) : status;
}

static enum block_status do_step(struct work *w, const struct block_step *s)
{
    if (s->act == BLOCK_WRITE)
        return do_write(w, s);
    return s->act == BLOCK_GROW ? do_grow(w, s) : do_name(w, s);
}

enum block_status work_do(struct work *w, const struct block_step *steps, uint32_t count)
{
    enum block_status status = BLOCK_DONE;

    look_again(w);
    for (uint32_t i = 0; i < count && status == BLOCK_DONE; i++)
        status = do_step(w, &steps[i]);
    if (status == BLOCK_FAILED)
        return status;
    if (w->dir->shadow)
        shadow_wait();
    enum block_status flushed = count > 0 ? flush(w) : flush_all(w);
    return flushed == BLOCK_DONE ? status : flushed;
}

/* ---- reading ---- */

int work_each(const struct work_dir *d, int (*fn)(void *ctx, const char *name, uint64_t bytes),
              void *ctx, struct err *e)
{
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    struct stat st;
    int rc = 0;

    if (!dir) {
        rc = err_sys(e, "list %s", d->path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (rc == 0 && (errno = 0, entry = readdir(dir)) != NULL)
        if (block_name_fits(entry->d_name) &&
            fstatat(d->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            rc = fn(ctx, entry->d_name, (uint64_t)st.st_size);
    if (rc == 0 && errno != 0)
        rc = err_sys(e, "list %s", d->path);
    closedir(dir);
    return rc;
}

static int read_failed(const struct work *w, const char *name, uint64_t at, struct err *e)
{
    int rc = err_sys(e, "read %s/%s at %llu", w->dir->path, name, (unsigned long long)at);

    return errno == EIO ? ERR_CORRUPT : rc;
}

int work_fd(struct work *w, const char *name)
{
    look_again(w);
    const struct work_file *f = find_file(w, name);

    return f ? f->fd : -1;
}

int work_read(struct work *w, const char *name, uint64_t at, void *into, uint64_t bytes,
              struct err *e)
{
    unsigned char *to = into;

    look_again(w);
    const struct work_file *f = find_file(w, name);
    if (!f)
        return err_set(e, errno == ENOENT ? ERR_NOTFOUND : ERR_SYSTEM, "%s", w->err.text);
    while (bytes > 0) {
        ssize_t n = pread(f->fd, to, bytes, (off_t)at);
        if (n < 0 && (errno == EINTR || (errno == EINVAL && leave_direct(f->fd))))
            continue;
        if (n < 0)
            return read_failed(w, name, at, e);
        if (n == 0)
            return err_set(e, ERR_CORRUPT, "read %s/%s: it ends at %llu", w->dir->path, name,
                           (unsigned long long)at);
        to += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

void work_init(struct work *w, struct work_dir *d, const char *temp, uint64_t bytes_per_s)
{
    *w = (struct work){.dir = d, .temp = temp, .bytes_per_s = bytes_per_s};
}

void work_fini(struct work *w)
{
    close_files(w);
}
