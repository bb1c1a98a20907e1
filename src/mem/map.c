#include "mem/map.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

void *map_mirror(int fd, uint64_t offset, size_t bytes, int prot)
{
    if (bytes == 0 || bytes > SIZE_MAX / 2) {
        errno = EINVAL;
        return NULL;
    }
    /* Reserve both halves first: the fixed mappings below then replace only what is ours. */
    unsigned char *at = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    for (int half = 0; half < 2; half++) {
        void *want = at + (size_t)half * bytes;
        if (mmap(want, bytes, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED) {
            int saved = errno;
            munmap(at, 2 * bytes);
            errno = saved;
            return NULL;
        }
    }
    return at;
}

void map_unmirror(void *at, size_t bytes)
{
    if (at)
        munmap(at, 2 * bytes);
}

void *map_ring_alloc(size_t bytes)
{
    int fd = memfd_create("tramway-ring", MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *at = NULL;
    if (ftruncate(fd, (off_t)bytes) == 0)
        at = map_mirror(fd, 0, bytes, PROT_READ | PROT_WRITE);
    int saved = errno;
    close(fd); /* the mappings keep the memory */
    errno = saved;
    return at;
}

void map_ring_free(void *at, size_t bytes)
{
    map_unmirror(at, bytes);
}
