/* ThreadSanitizer knows memory by its address, and nodes in one process have each their own mapping of
 * the same memory: it would see no two of them meet. Included by a test whose row in meson.build
 * says 'same_maps', this gives all who map the same piece of a file the same address. The
 * writer of a memory is the first to map it, so what the others get is writable too. */
#ifndef TESTS_TSAN_MAPS_H
#define TESTS_TSAN_MAPS_H

#if defined(__SANITIZE_THREAD__)

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* What the linker makes of mmap (--wrap): ours, and the real one. With 64-bit file offsets it is called
 * mmap64. */
void *__real_mmap64(void *, size_t, int, int, int, off_t);
void *__wrap_mmap64(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
int __wrap_munmap(void *, size_t);

struct same_map {
    dev_t dev;
    ino_t ino;
    uint64_t offset;
    size_t bytes;
    void *at;
    unsigned users;
};

enum { SAME_MAPS_MAX = 1024 };

static struct same_map same_maps[SAME_MAPS_MAX];
static pthread_mutex_t same_maps_lock = PTHREAD_MUTEX_INITIALIZER;

/* The lock is held. */
static struct same_map *same_map_find(const struct stat *st, uint64_t offset, size_t bytes)
{
    struct same_map *unused = NULL;

    for (unsigned i = 0; i < SAME_MAPS_MAX; i++) {
        struct same_map *m = &same_maps[i];
        if (m->users == 0)
            unused = unused ? unused : m;
        else if (m->dev == st->st_dev && m->ino == st->st_ino && m->offset == offset &&
                 m->bytes == bytes)
            return m;
    }
    if (!unused)
        abort();
    *unused = (struct same_map){st->st_dev, st->st_ino, offset, bytes, NULL, 0};
    return unused;
}

/* True if the mapping is one of ours; *last: and nobody uses it any more. */
static bool same_map_leave(void *at, bool *last)
{
    bool found = false;

    pthread_mutex_lock(&same_maps_lock);
    for (unsigned i = 0; i < SAME_MAPS_MAX && !found; i++) {
        struct same_map *m = &same_maps[i];
        if (m->users == 0 || m->at != at)
            continue;
        *last = --m->users == 0;
        found = true;
    }
    pthread_mutex_unlock(&same_maps_lock);
    return found;
}

void *__wrap_mmap64(void *want, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    struct stat st;

    /* Only what has no name: a mapping of a lock file would keep its lock. */
    if (flags != MAP_SHARED || fd < 0 || fstat(fd, &st) != 0 || st.st_nlink != 0)
        return __real_mmap64(want, bytes, prot, flags, fd, offset);
    pthread_mutex_lock(&same_maps_lock);
    struct same_map *m = same_map_find(&st, (uint64_t)offset, bytes);
    if (m->users == 0)
        m->at = __real_mmap64(want, bytes, prot, flags, fd, offset);
    m->users += m->at != MAP_FAILED;
    void *at = m->at;
    pthread_mutex_unlock(&same_maps_lock);
    return at;
}

int __wrap_munmap(void *at, size_t bytes)
{
    bool last = true;

    if (same_map_leave(at, &last) && !last)
        return 0;
    return __real_munmap(at, bytes);
}

#endif
#endif
