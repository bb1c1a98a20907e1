#include "mem/shm/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    ROOM_HOST = 64 << 20, /* of the first segment; the next ones have twice as much each */
    ROOM_CLIENT = 4 << 20,
};

const int segment_seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t number_in(const char *path, const char *format)
{
    FILE *f = fopen(path, "re");
    char line[128];
    size_t n = 0;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, format, &n) == 1)
            break;
    if (f)
        fclose(f);
    return n;
}

/* memfds are charged page by page, and asking for more than there is wakes the out-of-memory killer
 * instead of failing. Looking it up takes as long as a small part, so it is not done for each. */
static int check_memory(struct shm *s, const char *what, size_t bytes, struct err *e)
{
    if (bytes > s->memory_sure) {
        size_t kib = number_in("/proc/meminfo", "MemAvailable: %zu kB");
        if (!kib)
            return 0; /* it does not say */
        if (bytes > kib * 1024)
            return err_set(e, ERR_NOMEM,
                           "%s: %zu bytes of shared memory wanted, the machine has %zu", what,
                           bytes, kib * 1024);
        s->memory_sure = kib * 1024 / 16 > bytes ? kib * 1024 / 16 : bytes;
    }
    s->memory_sure -= bytes;
    return 0;
}

/* Beyond this size of a file the kernel sends a signal that ends the process. */
static size_t file_limit(void)
{
    struct rlimit l;

    return getrlimit(RLIMIT_FSIZE, &l) < 0 || l.rlim_cur == RLIM_INFINITY ? SIZE_MAX : l.rlim_cur;
}

static int memfd_of(const char *what, size_t bytes, struct err *e)
{
    char name[128];

    if (bytes > file_limit())
        return err_set(e, ERR_NOMEM,
                       "%s: %zu bytes of shared memory wanted, the process may have %zu in a file "
                       "(see ulimit -f)",
                       what, bytes, file_limit());
    snprintf(name, sizeof name, "tramway-%s", what);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return err_set(e, ERR_SYSTEM,
                       "%s: no descriptor left for shared memory: %s; raise ulimit -n", what,
                       strerror(errno));
    if (fd < 0)
        return err_sys(e, "%s: create shared memory", what);
    if (ftruncate(fd, (off_t)bytes) == 0)
        return fd;
    int rc = err_sys(e, "%s: %zu bytes of shared memory", what, bytes);
    close(fd);
    return rc;
}

/* Pages for this range, so that no later store can fault for want of one. */
static int fill(struct shm *s, const char *what, int fd, size_t from, size_t end, struct err *e)
{
    int rc = check_memory(s, what, end - from, e);

    if (rc < 0)
        return rc;
    do
        rc = fallocate(fd, 0, (off_t)from, (off_t)(end - from));
    while (rc < 0 && errno == EINTR);
    return rc == 0 ? 0 : err_sys(e, "%s: %zu bytes of shared memory wanted", what, end - from);
}

const char *map_failure(void)
{
    if (errno != ENOMEM)
        return strerror(errno);
    /* The kernel has one code for all of this; the number of mappings is the limit that is met. */
    size_t most = number_in("/proc/sys/vm/max_map_count", "%zu"), maps = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    for (int c; f && (c = getc(f)) != EOF;)
        maps += c == '\n';
    if (f)
        fclose(f);
    return most && maps + 16 >= most
               ? "the process has as many mappings as vm.max_map_count allows; raise it with sysctl"
               : "no address space (see ulimit -v)";
}

static void *map_whole(const char *what, int fd, size_t bytes, struct err *e)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at != MAP_FAILED)
        return at;
    err_set(e, ERR_NOMEM, "%s: map %zu bytes: %s", what, bytes, map_failure());
    return NULL;
}

void *memory_new(struct shm *s, const char *what, size_t bytes, int *fd_out, struct err *e)
{
    bytes = round_up(bytes, MEM_PAGE_BYTES);
    int fd = memfd_of(what, bytes, e);
    if (fd < 0)
        return NULL;
    void *at = fill(s, what, fd, 0, bytes, e) < 0 ? NULL : map_whole(what, fd, bytes, e);
    if (!at)
        close(fd);
    else
        *fd_out = fd;
    return at;
}

/* Is it memory with these seals? Asked before anything else is done with a descriptor that somebody sent: of what is not memory any other
 * call may hang. Pages of hugetlb files could be missing later. */
static bool is_sealed(int fd, int seals)
{
    int has = fcntl(fd, F_GET_SEALS);
    struct statfs fs;

    return has >= 0 && (has & seals) == seals && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

void *memory_map(int fd, size_t bytes, int prot, int seals)
{
    struct stat st;

    bytes = round_up(bytes, MEM_PAGE_BYTES);
    /* Without F_SEAL_SHRINK the sender could cut the file and have us killed by SIGBUS. */
    if (!is_sealed(fd, seals) || fstat(fd, &st) < 0 || (size_t)st.st_size != bytes) {
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
    if (g->fd >= 0)
        close(g->fd);
    free(g);
}

void outlet_free(struct outlet *o)
{
    while (o->segments) {
        struct segment *g = o->segments;
        o->segments = g->next;
        segment_free(g);
    }
}

/* In place from the start, for nobody wants page faults in the first lap. Kernels that do not know the
 * advice give them. */
static void populate(unsigned char *base, size_t from, size_t end, int advice)
{
    from = from / MEM_PAGE_BYTES * MEM_PAGE_BYTES;
    madvise(base + from, round_up(end, MEM_PAGE_BYTES) - from, advice);
}

/* All pages are there from now on: seals let nobody take one away. False: they cannot be had. */
static bool pages_sure(unsigned char *base, size_t from, size_t end)
{
    from = from / MEM_PAGE_BYTES * MEM_PAGE_BYTES;
    if (madvise(base + from, round_up(end, MEM_PAGE_BYTES) - from, MADV_POPULATE_READ) == 0)
        return true;
    errno = errno == ENOMEM ? ENOMEM : EINVAL;
    return false;
}

void *memory_map_sure(int fd, size_t bytes)
{
    unsigned char *at = memory_map(fd, bytes, PROT_READ, segment_seals);

    if (!at || pages_sure(at, 0, bytes))
        return at;
    int saved = errno;
    munmap(at, round_up(bytes, MEM_PAGE_BYTES));
    errno = saved;
    return NULL;
}

/* ---- own ---- */

struct outlet *outlet_of(struct shm *s, struct peer *owner)
{
    return s->self->role == SHM_HOST && owner->role == SHM_CLIENT ? &owner->out : &s->out;
}

uint64_t outlet_version(const struct shm *s, const struct outlet *o)
{
    return version_of(s->mem.life, o->parts);
}

/* A new segment of the outlet, in which a part of so many bytes fits. Nobody knows of it yet. */
static struct segment *segment_new(struct shm *s, const struct outlet *o, const char *what,
                                   size_t part_bytes, struct err *e)
{
    size_t first = o == &s->out && s->self->role == SHM_HOST ? ROOM_HOST : ROOM_CLIENT;
    size_t least = round_up(sizeof(struct segment_head) + part_bytes, MEM_PAGE_BYTES);
    size_t bytes = first << o->count, limit = file_limit();

    if (bytes > limit)
        bytes = limit / MEM_PAGE_BYTES * MEM_PAGE_BYTES;
    if (bytes < least)
        bytes = least;
    if (o->count == SHM_SEGMENTS_MAX) {
        err_set(e, ERR_TOOBIG, "%s: more than %d segments", what, SHM_SEGMENTS_MAX);
        return NULL;
    }
    struct segment *g = calloc(1, sizeof *g);
    if (!g) {
        err_set(e, ERR_NOMEM, "%s: no memory", what);
        return NULL;
    }
    *g = (struct segment){.life = s->mem.life,
                          .index = o->count,
                          .broken = s->broken,
                          .first = o->parts,
                          .bytes = bytes,
                          .used = sizeof(struct segment_head),
                          .fd = memfd_of(what, bytes, e)};
    if (g->fd < 0 || fill(s, what, g->fd, 0, MEM_PAGE_BYTES, e) < 0 ||
        !(g->at = map_whole(what, g->fd, bytes, e)))
        goto fail;
    *(struct segment_head *)g->at = (struct segment_head){
        .magic = SHM_SEGMENT_MAGIC,
        .bytes = bytes,
        .node = s->mem.self,
        .life = g->life,
        .index = g->index,
        .first = g->first,
        .broken = g->broken,
    };
    /* From here on the kernel lets nobody else write, by whatever way: see tests/proc. */
    if (fcntl(g->fd, F_ADD_SEALS, segment_seals) < 0) {
        err_sys(e, "%s: seal", what);
        goto fail;
    }
    return g;
fail:
    segment_free(g);
    return NULL;
}

/* Does the entry need bytes of the part itself? */
static bool needs_bytes(const struct segment_lane *d, struct room *const *room)
{
    return d->spec.ctl_words > 0 && !*room;
}

/* Fills in the directory for lanes from offset `at` on and returns where they end. */
static size_t lay_out(struct part *p, struct room *const *rooms, size_t at)
{
    at += sizeof(struct part_head) + round_up(p->lanes * sizeof *p->dir, SHM_LANE_ALIGN);
    for (uint32_t i = 0; i < p->lanes; i++)
        if (needs_bytes(&p->dir[i], &rooms[i])) {
            p->dir[i].ctl_at = at;
            at = round_up(at + p->dir[i].spec.ctl_words * 8ul, SHM_LANE_ALIGN);
        }
    for (uint32_t i = 0; i < p->lanes; i++)
        if (needs_bytes(&p->dir[i], &rooms[i])) {
            p->dir[i].ring_at = p->dir[i].spec.ring_bytes ? at : 0;
            at += p->dir[i].spec.ring_bytes;
        }
    return at;
}

/* Takes bytes of ended lanes for those of the part that they fit. */
static void take_rooms(struct shm *s, const struct outlet *o, const struct part *p,
                       struct room **rooms)
{
    for (uint32_t i = 0; i < p->lanes; i++)
        rooms[i] = p->dir[i].spec.ctl_words ? room_take(s, o, &p->dir[i].spec) : NULL;
}

static void give_back_rooms(struct shm *s, const struct part *p, struct room **rooms)
{
    for (uint32_t i = 0; rooms && i < p->lanes; i++)
        if (rooms[i]) {
            rooms[i]->next = s->rooms;
            s->rooms = rooms[i];
        }
    free(rooms);
}

/* Says of each entry which segment's bytes it has. Those that were another lane's are blank from here on. */
static void point_entries(struct part *p, const struct segment *g, struct room **rooms)
{
    for (uint32_t i = 0; i < p->lanes; i++) {
        struct segment_lane *d = &p->dir[i];
        d->segment = rooms[i] ? rooms[i]->segment : g->index;
        d->base = rooms[i] ? rooms[i]->base : g->at;
        if (!rooms[i])
            continue;
        d->ctl_at = rooms[i]->ctl_at;
        d->ring_at = rooms[i]->ring_at;
        memset(d->base + d->ctl_at, 0, d->spec.ctl_words * 8ul);
        free(rooms[i]);
    }
    free(rooms);
}

/* Copies what the life before had in the lanes. Its process is dead: nothing changes under us. */
static void copy_past(const struct shm *s, const struct segment *g, const struct part *p)
{
    const struct segment_lane *to = p->dir;

    for (const struct part *past = s->past_parts; past; past = past->next)
        for (uint32_t i = 0; i < past->lanes; i++) {
            const struct segment_lane *from = &past->dir[i];
            const uint64_t *words = (const uint64_t *)(from->base + from->ctl_at);
            uint64_t used = 0;
            if (!entry_carried(from))
                continue;
            for (uint32_t k = 0; k < to->spec.ctl_words; k++)
                used |= words[k];
            memcpy(g->at + to->ctl_at, words, to->spec.ctl_words * 8ul);
            /* Without a word that speaks of it nothing in a ring counts, and most lanes are of those who
             * never led. */
            if (used && to->spec.ring_bytes)
                memcpy(g->at + to->ring_at, from->base + from->ring_at, to->spec.ring_bytes);
            to++;
        }
}

/* Everything is in place: from here on it is handed out. */
static void publish(struct shm *s, struct outlet *o, struct segment *g, size_t used)
{
    pthread_mutex_lock(&s->lock);
    if (o->segments != g) {
        g->next = o->segments;
        o->segments = g;
        o->count++;
    }
    g->used = used;
    g->parts++;
    o->parts++;
    if (o == &s->out) {
        s->own_news = true;
    } else if (!o->client->out_news) {
        o->client->out_news = true;
        o->client->next_news = s->news;
        s->news = o->client;
    }
    pthread_mutex_unlock(&s->lock);
    if (o == &s->out) {
        s->self->version = outlet_version(s, o);
        atomic_store_explicit(&s->self->acked, s->self->version, memory_order_release);
    }
    helper_wake(s);
}

struct part *part_new(struct shm *s, struct outlet *o, const struct mem_lane_spec *specs,
                      uint32_t count, bool carry, struct err *e)
{
    char what[96];
    snprintf(what, sizeof what, "lanes of %s", s->self->name);
    struct part *p = calloc(1, sizeof *p + count * sizeof *p->dir);
    struct room **rooms = calloc(count + 1ul, sizeof(struct room *));
    struct segment *g = o->segments, *fresh = NULL;
    if (!p || !rooms) {
        free(p);
        free(rooms);
        err_set(e, ERR_NOMEM, "%s: no memory for %u lanes", what, count);
        return NULL;
    }
    p->lanes = count;
    p->number = o->parts;
    for (uint32_t i = 0; i < count; i++)
        p->dir[i].spec = specs[i];
    take_rooms(s, o, p, rooms);
    size_t bytes = lay_out(p, rooms, 0);
    if (count > SHM_LANES_MAX || o->parts == SHM_PARTS_MAX) {
        err_set(e, ERR_TOOBIG, "%s: %u lanes in one go, %u goes before; at most %d and %d", what,
                count, o->parts, SHM_LANES_MAX, SHM_PARTS_MAX);
        goto fail;
    }
    if (!g || bytes > g->bytes - g->used) {
        g = fresh = segment_new(s, o, what, bytes, e);
        if (!g)
            goto fail;
    }
    size_t end = lay_out(p, rooms, g->used);
    /* The page in which this part begins is there: the part before ends in it. */
    size_t from = round_up(g->used, MEM_PAGE_BYTES), pages_end = round_up(end, MEM_PAGE_BYTES);
    if (pages_end > from && fill(s, what, g->fd, from, pages_end, e) < 0)
        goto fail;
    populate(g->at, g->used, end, MADV_POPULATE_WRITE);
    point_entries(p, g, rooms);
    *(struct part_head *)(g->at + g->used) = (struct part_head){.bytes = bytes, .lanes = count};
    p->shown = (struct segment_lane *)(g->at + g->used + sizeof(struct part_head));
    memcpy(p->shown, p->dir, count * sizeof *p->dir);
    p->segment = g;
    if (carry)
        copy_past(s, g, p);
    publish(s, o, g, end);
    return p;
fail:
    give_back_rooms(s, p, rooms);
    segment_free(fresh);
    free(p);
    return NULL;
}

/* ---- others' ---- */

struct segment *segment_map(int fd, uint32_t writer, uint64_t bytes_max)
{
    struct segment_head head;

    if (!is_sealed(fd, segment_seals) || pread(fd, &head, sizeof head, 0) != sizeof head ||
        head.magic != SHM_SEGMENT_MAGIC || head.node != writer || head.index >= SHM_SEGMENTS_MAX ||
        head.first >= SHM_PARTS_MAX || head.bytes % MEM_PAGE_BYTES || head.bytes > bytes_max) {
        errno = EINVAL;
        return NULL;
    }
    struct segment *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    *g = (struct segment){.life = head.life,
                          .index = head.index,
                          .broken = head.broken,
                          .first = head.first,
                          .bytes = head.bytes,
                          .used = sizeof head,
                          .fd = -1};
    g->at = memory_map(fd, g->bytes, PROT_READ, segment_seals);
    if (g->at)
        return g;
    int saved = errno;
    free(g);
    errno = saved;
    return NULL;
}

/* Is this an entry that a correct writer could have made, with bytes before `end` of that segment? */
static bool entry_sane(const struct segment_lane *l, uint64_t end)
{
    const uint64_t begin = sizeof(struct segment_head), ctl_bytes = l->spec.ctl_words * 8ul;
    uint32_t ring = l->spec.ring_bytes;

    if (l->ctl_at % 8 || l->ctl_at < begin || l->ctl_at > end || ctl_bytes > end - l->ctl_at)
        return false;
    return !ring || (ring >= MEM_PAGE_BYTES && !(ring & (ring - 1)) && l->ring_at % 8 == 0 &&
                     l->ring_at >= begin && l->ring_at <= end && ring <= end - l->ring_at);
}

/* Judges the directory of a part of g that ends at `end`, and notes where its entries' bytes are mapped. */
static bool directory_take(struct part *p, const struct segment *g, struct segment *const *before,
                           uint32_t writer, uint64_t end)
{
    for (uint32_t i = 0; i < p->lanes; i++) {
        struct segment_lane *l = &p->dir[i];
        bool earlier = l->segment != g->index;
        if (l->spec.writer != writer || l->segment > g->index || (earlier && !before))
            return false;
        const struct segment *in = earlier ? before[l->segment] : g;
        l->base = in->at;
        if (l->spec.ctl_words == 0 ? l->spec.ring_bytes != 0
                                   : !entry_sane(l, earlier ? in->used : end))
            return false;
    }
    return true;
}

struct part *part_next(struct segment *g, struct segment *const *before, uint32_t writer,
                       uint32_t owner, bool sure)
{
    struct part_head head;
    uint64_t room = g->bytes - g->used, at = g->used + sizeof head;

    errno = EINVAL;
    if (room < sizeof head || (sure && !pages_sure(g->at, g->used, g->used + sizeof head)))
        return NULL;
    memcpy(&head, g->at + g->used, sizeof head);
    atomic_signal_fence(memory_order_seq_cst); /* what is judged is the copy */
    if (head.bytes > room || head.bytes < sizeof head || head.bytes % SHM_LANE_ALIGN ||
        head.lanes > SHM_LANES_MAX ||
        head.lanes * sizeof(struct segment_lane) > head.bytes - sizeof head ||
        (sure && !pages_sure(g->at, g->used, g->used + head.bytes)))
        return NULL;
    struct part *p = calloc(1, sizeof *p + head.lanes * sizeof *p->dir);
    if (!p)
        return NULL;
    p->segment = g;
    p->number = g->first + g->parts;
    p->lanes = head.lanes;
    memcpy(p->dir, g->at + at, head.lanes * sizeof *p->dir);
    atomic_signal_fence(memory_order_seq_cst);
    if (!directory_take(p, g, before, writer, g->used + head.bytes)) {
        free(p);
        errno = EINVAL;
        return NULL;
    }
    for (uint32_t i = 0; i < p->lanes; i++)
        if (p->dir[i].spec.owner == owner && p->dir[i].spec.ring_bytes)
            populate(p->dir[i].base, p->dir[i].ring_at,
                     p->dir[i].ring_at + p->dir[i].spec.ring_bytes, MADV_POPULATE_READ);
    g->used += head.bytes;
    g->parts++;
    return p;
}
