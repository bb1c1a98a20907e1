#include "mem/shm_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Bytes the machine can still give, or SIZE_MAX if it does not say. memfds are charged page by
 * page, and asking for more than there is wakes the out-of-memory killer instead of failing. */
static size_t memory_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    size_t kib = 0;

    if (!f)
        return SIZE_MAX;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    fclose(f);
    return kib ? kib * 1024 : SIZE_MAX;
}

/* A memfd of this size with all its pages, so that no later store can fault for want of one. */
static int memfd_filled(const char *what, size_t bytes, struct err *e)
{
    size_t available = memory_available();

    if (bytes > available)
        return err_set(e, ERR_NOMEM, "%s: %zu bytes of shared memory wanted, the machine has %zu",
                       what, bytes, available);
    char name[128];
    snprintf(name, sizeof name, "tramway-%s", what);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return err_sys(e, "%s: create shared memory", what);
    int rc;
    do
        rc = fallocate(fd, 0, 0, (off_t)bytes);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return fd;
    int code = errno == EFBIG ? err_set(e, ERR_NOMEM,
                                        "%s: %zu bytes of shared memory wanted, the process may "
                                        "have less (see ulimit -f)",
                                        what, bytes)
                              : err_sys(e, "%s: %zu bytes of shared memory wanted", what, bytes);
    close(fd);
    return code;
}

void *memory_new(const char *what, size_t bytes, int *fd_out, struct err *e)
{
    bytes = round_up(bytes, MEM_PAGE_BYTES);
    int fd = memfd_filled(what, bytes, e);
    if (fd < 0)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        err_sys(e, "%s: map %zu bytes", what, bytes);
        close(fd);
        return NULL;
    }
    *fd_out = fd;
    return at;
}

void *memory_map(int fd, size_t bytes, int prot, int seals)
{
    struct stat st;
    int has = fcntl(fd, F_GET_SEALS);

    bytes = round_up(bytes, MEM_PAGE_BYTES);
    /* Without F_SEAL_SHRINK the sender could cut the file and have us killed by SIGBUS. */
    if (has < 0 || (has & seals) != seals || fstat(fd, &st) < 0 || (size_t)st.st_size != bytes) {
        errno = EINVAL;
        return NULL;
    }
    void *at = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

void segment_free(struct segment *g)
{
    if (!g)
        return;
    if (g->at)
        munmap(g->at, g->bytes);
    free(g->dir);
    free(g);
}

static struct segment *segment_alloc(uint32_t lanes)
{
    struct segment *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->lanes = lanes;
    g->dir = calloc(lanes ? lanes : 1, sizeof *g->dir);
    if (!g->dir) {
        segment_free(g);
        errno = ENOMEM;
        return NULL;
    }
    return g;
}

/* In place from the start, for nobody wants page faults in the first lap. Kernels that do not know the
 * advice give them. */
static void populate(struct segment *g, const struct segment_lane *l, bool writable)
{
    madvise(g->at + l->ring_at, l->spec.ring_bytes,
            writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/* How far into their pages the control words of a segment begin, as far as there is room to spare. A
 * host looks at the first words of dozens of segments in every round; were they all at the same
 * place of a page, they would all compete for the same few lines of the first-level cache. */
static size_t colour_of(uint32_t node, uint32_t index, size_t ctl_bytes)
{
    size_t spare = round_up(ctl_bytes, MEM_PAGE_BYTES) - ctl_bytes;

    return (node * 5 + index * 3) % (spare / SHM_LANE_ALIGN + 1) * SHM_LANE_ALIGN;
}

/* Fills in the directory and returns the size of the whole. */
static size_t lay_out(struct segment *g, uint32_t node, const struct mem_lane_spec *specs)
{
    size_t at = sizeof(struct segment_head) + g->lanes * sizeof(struct segment_lane);
    size_t ctl_bytes = 0;

    for (uint32_t i = 0; i < g->lanes; i++)
        ctl_bytes += round_up(specs[i].ctl_words * 8ul, SHM_LANE_ALIGN);
    at = round_up(at, MEM_PAGE_BYTES) + colour_of(node, g->index, ctl_bytes);
    for (uint32_t i = 0; i < g->lanes; i++) {
        g->dir[i].spec = specs[i];
        g->dir[i].ctl_at = at;
        at = round_up(at + specs[i].ctl_words * 8ul, SHM_LANE_ALIGN);
    }
    at = round_up(at, MEM_PAGE_BYTES);
    for (uint32_t i = 0; i < g->lanes; i++) {
        g->dir[i].ring_at = specs[i].ring_bytes ? at : 0;
        at += specs[i].ring_bytes;
    }
    return at;
}

static bool same_spec(const struct mem_lane_spec *a, const struct mem_lane_spec *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Copies what the life before had in this lane. Its process is dead: nothing changes under us. */
static void copy_past(const struct segment *past, struct segment *g, uint32_t lane)
{
    const struct segment_lane *to = &g->dir[lane];

    for (; past; past = past->next)
        for (uint32_t i = 0; i < past->lanes; i++) {
            const struct segment_lane *from = &past->dir[i];
            if (!same_spec(&from->spec, &to->spec))
                continue;
            memcpy(g->at + to->ctl_at, past->at + from->ctl_at, to->spec.ctl_words * 8ul);
            if (to->spec.ring_bytes)
                memcpy(g->at + to->ring_at, past->at + from->ring_at, to->spec.ring_bytes);
            return;
        }
}

struct segment *segment_new(struct shm *s, const struct mem_lane_spec *specs, uint32_t count,
                            uint32_t broken, int *fd_out, struct err *e)
{
    char what[96];
    snprintf(what, sizeof what, "lanes of %s", s->self->name);
    struct segment *g = segment_alloc(count);
    if (!g) {
        err_set(e, ERR_NOMEM, "%s: no memory for %u lanes", what, count);
        return NULL;
    }
    g->incarnation = s->mem.incarnation;
    g->index = (uint32_t)s->version;
    g->broken = broken;
    g->bytes = lay_out(g, s->mem.self, specs);
    int fd = -1;
    g->at = memory_new(what, g->bytes, &fd, e);
    if (!g->at)
        goto fail;
    for (uint32_t i = 0; i < count; i++) {
        if (specs[i].ring_bytes)
            populate(g, &g->dir[i], true);
    }
    *(struct segment_head *)g->at = (struct segment_head){
        .magic = SHM_SEGMENT_MAGIC,
        .bytes = g->bytes,
        .node = s->mem.self,
        .incarnation = g->incarnation,
        .index = g->index,
        .lanes = count,
        .broken = broken,
    };
    memcpy(g->at + sizeof(struct segment_head), g->dir, count * sizeof *g->dir);
    for (uint32_t i = 0; i < count; i++)
        copy_past(s->past, g, i);
    /* From here on the kernel lets nobody else write, by whatever way: see tests/proc. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
        0) {
        err_sys(e, "%s: seal", what);
        goto fail;
    }
    *fd_out = fd;
    return g;
fail:
    if (fd >= 0)
        close(fd);
    segment_free(g);
    return NULL;
}

/* Is this a directory that a correct writer could have made? */
static bool directory_sane(const struct segment *g, uint32_t writer)
{
    for (uint32_t i = 0; i < g->lanes; i++) {
        const struct segment_lane *l = &g->dir[i];
        uint64_t ctl_bytes = l->spec.ctl_words * 8ul;
        uint32_t ring = l->spec.ring_bytes;

        if (l->spec.writer != writer || l->spec.ctl_words == 0)
            return false;
        if (l->ctl_at % 8 || l->ctl_at > g->bytes || ctl_bytes > g->bytes - l->ctl_at)
            return false;
        if (!ring)
            continue;
        if (ring < MEM_PAGE_BYTES || (ring & (ring - 1)) || l->ring_at % MEM_PAGE_BYTES ||
            l->ring_at > g->bytes || ring > g->bytes - l->ring_at)
            return false;
    }
    return true;
}

static bool head_sane(const struct segment_head *head, int fd, uint32_t writer)
{
    struct stat st;

    return head->magic == SHM_SEGMENT_MAGIC && head->node == writer &&
           head->lanes <= SHM_LANES_MAX && head->index < SHM_SEGMENTS_MAX && fstat(fd, &st) == 0 &&
           head->bytes == (uint64_t)st.st_size && head->bytes % MEM_PAGE_BYTES == 0 &&
           sizeof *head + head->lanes * sizeof(struct segment_lane) <= head->bytes;
}

struct segment *segment_map(int fd, uint32_t writer, uint32_t owner)
{
    struct segment_head head;
    const int seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

    if (pread(fd, &head, sizeof head, 0) != sizeof head || !head_sane(&head, fd, writer)) {
        errno = EINVAL;
        return NULL;
    }
    struct segment *g = segment_alloc(head.lanes);
    if (!g)
        return NULL;
    g->incarnation = head.incarnation;
    g->index = head.index;
    g->broken = head.broken;
    g->bytes = head.bytes;
    g->at = memory_map(fd, g->bytes, PROT_READ, seals);
    if (!g->at)
        goto fail;
    memcpy(g->dir, g->at + sizeof head, head.lanes * sizeof *g->dir);
    if (!directory_sane(g, writer)) {
        errno = EINVAL;
        goto fail;
    }
    for (uint32_t i = 0; i < g->lanes; i++) {
        const struct segment_lane *l = &g->dir[i];
        if (l->spec.owner == owner && l->spec.ring_bytes)
            populate(g, l, false);
    }
    return g;
fail:;
    int saved = errno;
    segment_free(g);
    errno = saved;
    return NULL;
}

int own_add(struct shm *s, enum item_kind kind, uint32_t index, uint32_t broken, int fd)
{
    if (s->own_count == s->own_room) {
        uint32_t room = s->own_room ? 2 * s->own_room : 16;
        struct own_item *more = realloc(s->own, room * sizeof *more);
        if (!more)
            return ERR_NOMEM;
        s->own = more;
        s->own_room = room;
    }
    s->own[s->own_count++] =
        (struct own_item){.kind = kind, .index = index, .broken = broken, .fd = fd};
    return 0;
}

int segment_publish(struct shm *s, struct segment *g, int fd, struct err *e)
{
    pthread_mutex_lock(&s->lock);
    int rc = own_add(s, ITEM_SEGMENT, g->index, g->broken, fd);
    pthread_mutex_unlock(&s->lock);
    if (rc < 0)
        return err_set(e, rc, "lanes of %s: no memory", s->self->name);
    g->next = s->segments;
    s->segments = g;
    s->version = version_of(s->mem.incarnation, g->index + 1);
    atomic_store_explicit(&s->self->acked, s->version, memory_order_release);
    s->self->version = s->version;
    helper_wake(s);
    return 0;
}
