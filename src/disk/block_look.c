/* Files of a directory that may be another process's: they are listed and read, and nothing else. */
#include "disk/block_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct look {
    struct block block; /* first */
    int fd;
};

static struct look *look_of(struct block *b)
{
    return (struct look *)b;
}

static void look_begin(struct block *b, enum block_lane lane, const struct block_step *s,
                       uint32_t count)
{
    (void)b, (void)lane, (void)s, (void)count;
    CHECK(!"an order, where one only looks");
}

static enum block_status look_poll(struct block *b, enum block_lane lane)
{
    (void)b, (void)lane;
    return BLOCK_FREE;
}

static int look_list(struct block *b, void (*fn)(void *ctx, const char *name, uint64_t bytes),
                     void *ctx, struct err *e)
{
    int fd = openat(look_of(b)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    struct stat s;
    if (d == NULL) {
        if (fd >= 0)
            close(fd);
        return err_sys(e, "list a directory");
    }
    while ((entry = readdir(d)) != NULL)
        if (block_name_fits(entry->d_name) &&
            fstatat(look_of(b)->fd, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(s.st_mode))
            fn(ctx, entry->d_name, (uint64_t)s.st_size);
    closedir(d);
    return 0;
}

static int look_read(struct block *b, const char *name, uint64_t at, void *into, uint64_t bytes,
                     struct err *e)
{
    unsigned char *p = into;
    int fd = openat(look_of(b)->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOTFOUND, "there is no %s", name)
                               : err_sys(e, "open %s", name);
    ssize_t n = 1;
    for (uint64_t done = 0; done < bytes && n > 0; done += (uint64_t)n)
        n = pread(fd, p + done, bytes - done, (off_t)(at + done));
    int rc = n > 0                   ? 0
             : n < 0 && errno == EIO ? err_set(e, ERR_CORRUPT, "%s cannot be read at %llu", name,
                                               (unsigned long long)at)
             : n < 0                 ? err_sys(e, "read %s", name)
                                     : err_set(e, ERR_CORRUPT, "%s is shorter than it was", name);
    close(fd);
    return bytes == 0 ? 0 : rc;
}

static const char *look_failure(struct block *b)
{
    (void)b;
    return "nothing is written here";
}

static void look_close(struct block *b)
{
    close(look_of(b)->fd);
    free(b);
}

int block_look_open(const char *dir, struct block **out, struct err *e)
{
    static const struct block_ops ops = {.begin = look_begin,
                                         .poll = look_poll,
                                         .list = look_list,
                                         .read = look_read,
                                         .failure = look_failure,
                                         .close = look_close};
    struct look *l = malloc(sizeof(*l));
    if (l == NULL)
        return err_set(e, ERR_NOMEM, "no memory to look into %s", dir);
    *l = (struct look){.block = {.ops = &ops}, .fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (l->fd < 0) {
        int rc = errno == ENOENT ? err_set(e, ERR_NOTFOUND, "there is no %s", dir)
                                 : err_sys(e, "open %s", dir);
        free(l);
        return rc;
    }
    *out = &l->block;
    return 0;
}
