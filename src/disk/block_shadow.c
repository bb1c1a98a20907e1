#include "disk/block_shadow_impl.h"

#include "base/minmax.h"
#include "base/rng.h"
#include "disk/block_file.h"
#include "disk/block_work_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 512,
    PATH_BYTES = 32,
    FLUSH_NS = 100000,
    MILLION = 1000000,
    PIECE_BYTES = 1 << 18,
};

static const char folder[] = "shadow", index_name[] = "shadow/index";

/* What would undo one step. Files are known by inode, for a later step may have renamed them. Beside it are, by its slot,
 * shadow/old.N: what was there before a write, and shadow/lost.N: the file whose name was taken away. */
struct undo {
    atomic_uint live;   /* set last, cleared first */
    uint32_t act;       /* enum block_act */
    uint64_t number;    /* they are undone from the highest down */
    uint64_t inode;     /* of the file that was written, made, renamed */
    uint64_t at, bytes; /* what was written; how long it was */
    bool lost;          /* there is a lost.N */
    char name[BLOCK_NAME_BYTES], to[BLOCK_NAME_BYTES];
};

struct shadow {
    int dir_fd;
    struct undo *undos; /* SLOTS of them, mapped: they stay when the process is killed */
    uint64_t last;      /* number that was given */
    pthread_mutex_t lock;
    unsigned char *piece;
};

struct slot_path {
    char text[PATH_BYTES];
};

static struct slot_path path_of(const char *kind, uint32_t slot)
{
    struct slot_path p;

    snprintf(p.text, sizeof p.text, "%s/%s.%u", folder, kind, slot);
    return p;
}

/* ---- open and close ---- */

static struct undo *map_index(int dir_fd, int flags)
{
    size_t bytes = SLOTS * sizeof(struct undo);
    int fd = openat(dir_fd, index_name, flags | O_RDWR | O_CLOEXEC, 0600);
    void *at = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)bytes) == 0)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static int set_up(struct shadow *s, int dir_fd)
{
    s->dir_fd = dir_fd;
    s->piece = aligned_alloc(BLOCK_BYTES, PIECE_BYTES);
    if (mkdirat(dir_fd, folder, 0700) != 0 && errno != EEXIST)
        return -1;
    s->undos = map_index(dir_fd, O_CREAT);
    if (!s->undos || !s->piece)
        return -1;
    for (int i = 0; i < SLOTS; i++)
        s->last = max_u64(s->last, s->undos[i].number);
    return 0;
}

void shadow_close(struct shadow *s)
{
    if (!s)
        return;
    if (s->undos)
        munmap(s->undos, SLOTS * sizeof *s->undos);
    pthread_mutex_destroy(&s->lock);
    free(s->piece);
    free(s);
}

int shadow_open(const char *dir, int dir_fd, struct shadow **out, struct err *e)
{
    struct shadow *s = calloc(1, sizeof *s);

    if (!s)
        return err_set(e, ERR_NOMEM, "open %s", dir);
    pthread_mutex_init(&s->lock, NULL);
    if (set_up(s, dir_fd) != 0) {
        int rc = err_sys(e, "make %s/%s", dir, index_name);
        shadow_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- notes ---- */

static uint32_t slot_of(const struct shadow *s, const struct undo *u)
{
    return (uint32_t)(u - s->undos);
}

static bool is_live(struct undo *u)
{
    return atomic_load_explicit(&u->live, memory_order_acquire) != 0;
}

static void forget(struct shadow *s, struct undo *u)
{
    atomic_store_explicit(&u->live, 0, memory_order_release);
    if (u->lost)
        unlinkat(s->dir_fd, path_of("lost", slot_of(s, u)).text, 0);
}

/* A system may flush by itself what it likes. */
static struct undo *forget_oldest(struct shadow *s)
{
    struct undo *oldest = &s->undos[0];

    for (int i = 1; i < SLOTS; i++)
        if (s->undos[i].number < oldest->number)
            oldest = &s->undos[i];
    forget(s, oldest);
    return oldest;
}

/* One that is not live, and not yet filled in. The lock is held. */
static struct undo *take(struct shadow *s, enum block_act act, uint64_t inode)
{
    struct undo *u = NULL;

    for (int i = 0; i < SLOTS && !u; i++)
        if (!is_live(&s->undos[i]))
            u = &s->undos[i];
    if (!u)
        u = forget_oldest(s);
    memset(u, 0, sizeof *u);
    u->act = act;
    u->inode = inode;
    u->number = ++s->last;
    return u;
}

/* From now on it counts, though the process is killed. */
static void note(struct undo *u)
{
    atomic_store_explicit(&u->live, 1, memory_order_release);
}

static uint64_t inode_of(int dir_fd, const char *name)
{
    struct stat st;

    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_ino : 0;
}

static uint64_t inode_of_fd(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* A second name for the file that is about to lose the one it has. */
static int keep_lost(struct shadow *s, struct undo *u, const char *name)
{
    struct slot_path p = path_of("lost", slot_of(s, u));

    unlinkat(s->dir_fd, p.text, 0);
    u->lost = linkat(s->dir_fd, name, s->dir_fd, p.text, 0) == 0;
    return u->lost || errno == ENOENT ? 0 : -1;
}

/* ---- before steps ---- */

static bool is_name(const struct undo *u)
{
    return u->act != BLOCK_WRITE && u->act != BLOCK_GROW;
}

static void forget_writes(struct shadow *s, uint64_t inode)
{
    for (int i = 0; i < SLOTS; i++)
        if (is_live(&s->undos[i]) && !is_name(&s->undos[i]) && s->undos[i].inode == inode)
            forget(s, &s->undos[i]);
}

static int copy_old(struct shadow *s, int from, int to, uint64_t at, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        uint64_t piece = min_u64(bytes - done, PIECE_BYTES);
        ssize_t n = pread(from, s->piece, piece, (off_t)(at + done));
        if (n <= 0 || pwrite(to, s->piece, (size_t)n, (off_t)done) != n)
            return -1;
        done += (uint64_t)n;
    }
    return 0;
}

static int note_write(struct shadow *s, int fd, uint64_t at, uint64_t bytes)
{
    struct undo *u = take(s, BLOCK_WRITE, inode_of_fd(fd));
    struct slot_path p = path_of("old", slot_of(s, u));
    int old = openat(s->dir_fd, p.text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = old < 0 ? -1 : copy_old(s, fd, old, at, bytes);

    if (old >= 0)
        close(old);
    u->at = at;
    u->bytes = bytes;
    if (rc == 0)
        note(u);
    return rc;
}

static int note_name(struct shadow *s, enum block_act act, uint64_t inode, const char *name,
                     const char *to)
{
    struct undo *u = take(s, act, inode);

    snprintf(u->name, sizeof u->name, "%s", name);
    snprintf(u->to, sizeof u->to, "%s", to);
    int rc = keep_lost(s, u, act == BLOCK_RENAME ? to : name);
    if (rc == 0)
        note(u);
    return rc;
}

int shadow_write(struct shadow *s, int fd, uint64_t at, uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    int rc = note_write(s, fd, at, bytes);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int shadow_grow(struct shadow *s, int fd, uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    struct undo *u = take(s, BLOCK_GROW, inode_of_fd(fd));
    u->bytes = bytes;
    note(u);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* A file that is gone may have had the inode, and have left writes that were never flushed. */
int shadow_create(struct shadow *s, int fd, const char *name)
{
    uint64_t inode = inode_of_fd(fd);

    pthread_mutex_lock(&s->lock);
    forget_writes(s, inode);
    int rc = note_name(s, BLOCK_CREATE, inode, name, "");
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int shadow_rename(struct shadow *s, const char *name, const char *to)
{
    pthread_mutex_lock(&s->lock);
    int rc = note_name(s, BLOCK_RENAME, inode_of(s->dir_fd, name), name, to);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int shadow_remove(struct shadow *s, const char *name)
{
    pthread_mutex_lock(&s->lock);
    int rc = note_name(s, BLOCK_REMOVE, inode_of(s->dir_fd, name), name, "");
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- flushes ---- */

void shadow_wait(void)
{
    nanosleep(&(struct timespec){.tv_nsec = FLUSH_NS}, NULL);
}

void shadow_flush_file(struct shadow *s, int fd)
{
    pthread_mutex_lock(&s->lock);
    forget_writes(s, inode_of_fd(fd));
    pthread_mutex_unlock(&s->lock);
}

void shadow_flush_names(struct shadow *s)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SLOTS; i++)
        if (is_live(&s->undos[i]) && is_name(&s->undos[i]))
            forget(s, &s->undos[i]);
    pthread_mutex_unlock(&s->lock);
}

void shadow_flush_all(struct shadow *s)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < SLOTS; i++)
        if (is_live(&s->undos[i]))
            forget(s, &s->undos[i]);
    pthread_mutex_unlock(&s->lock);
}

/* ---- the loss of power ---- */

struct cut {
    struct shadow *shadow;
    struct work_dir dir;
    struct rng rng;
    uint32_t sectors_ppm,
        names_ppm;               /* the chance of each that it is undone; a length is as a name */
    uint64_t inode;              /* looked for, */
    char name[BLOCK_NAME_BYTES]; /* found */
};

/* All, nothing, or any share between. */
static uint32_t draw_ppm(struct rng *r)
{
    uint64_t kind = rng_below(r, 4);
    uint64_t share = rng_below(r, MILLION + 1);

    return kind == 0 ? 0 : kind == 1 ? MILLION : (uint32_t)share;
}

static int look_at(void *ctx, const char *name, uint64_t bytes)
{
    struct cut *c = ctx;

    (void)bytes;
    if (inode_of(c->dir.fd, name) == c->inode)
        snprintf(c->name, sizeof c->name, "%s", name);
    return 0;
}

/* What the file is called now; NULL: it has no name any more. */
static const char *name_now(struct cut *c, uint64_t inode)
{
    c->inode = inode;
    c->name[0] = '\0';
    work_each(&c->dir, look_at, c, NULL);
    return c->name[0] ? c->name : NULL;
}

static int bring_back(struct cut *c, const struct undo *u, int old, int file)
{
    unsigned char sector[BLOCK_SECTOR_BYTES];

    for (uint64_t i = 0; i < u->bytes; i += sizeof sector) {
        if (!rng_chance_ppm(&c->rng, c->sectors_ppm))
            continue;
        if (pread(old, sector, sizeof sector, (off_t)i) != sizeof sector ||
            pwrite(file, sector, sizeof sector, (off_t)(u->at + i)) != sizeof sector)
            return -1;
    }
    return 0;
}

static int undo_write(struct cut *c, const struct undo *u)
{
    const char *name = name_now(c, u->inode);

    if (!name)
        return 0;
    int file = openat(c->dir.fd, name, O_RDWR | O_CLOEXEC);
    int old = openat(c->dir.fd, path_of("old", slot_of(c->shadow, u)).text, O_RDONLY | O_CLOEXEC);
    int rc = file >= 0 && old >= 0 ? bring_back(c, u, old, file) : -1;
    if (file >= 0)
        close(file);
    if (old >= 0)
        close(old);
    return rc;
}

/* What was written beyond goes with it. */
static int undo_grow(struct cut *c, const struct undo *u)
{
    const char *name = name_now(c, u->inode);
    int fd = name ? openat(c->dir.fd, name, O_RDWR | O_CLOEXEC) : -1;
    int rc = fd < 0 || ftruncate(fd, (off_t)u->bytes) == 0 ? 0 : -1;

    if (fd >= 0)
        close(fd);
    return rc;
}

/* A name that a later step, which stays, has given to another file is that one's. */
static int undo_name(struct cut *c, const struct undo *u)
{
    int fd = c->dir.fd;
    const char *lost = u->act == BLOCK_RENAME ? u->to : u->name;
    int rc = 0;

    if (u->act == BLOCK_CREATE && inode_of(fd, u->name) == u->inode)
        rc = unlinkat(fd, u->name, 0);
    if (u->act == BLOCK_RENAME && inode_of(fd, u->to) == u->inode)
        rc = inode_of(fd, u->name) == 0 ? renameat(fd, u->to, fd, u->name) : unlinkat(fd, u->to, 0);
    if (rc == 0 && u->lost && inode_of(fd, lost) == 0)
        rc = renameat(fd, path_of("lost", slot_of(c->shadow, u)).text, fd, lost);
    return rc;
}

static int undo_some(struct cut *c, const struct undo *u)
{
    if (u->act == BLOCK_WRITE)
        return undo_write(c, u);
    if (!rng_chance_ppm(&c->rng, c->names_ppm))
        return 0;
    return u->act == BLOCK_GROW ? undo_grow(c, u) : undo_name(c, u);
}

static struct undo *newest(struct shadow *s)
{
    struct undo *found = NULL;

    for (int i = 0; i < SLOTS; i++)
        if (is_live(&s->undos[i]) && (!found || s->undos[i].number > found->number))
            found = &s->undos[i];
    return found;
}

static int remove_folder(int dir_fd)
{
    int fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (!dir)
        return -1;
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(fd, entry->d_name, 0);
    closedir(dir);
    return unlinkat(dir_fd, folder, AT_REMOVEDIR);
}

static int cut_all(struct cut *c)
{
    struct undo *u;

    while ((u = newest(c->shadow)) != NULL) {
        if (undo_some(c, u) != 0)
            return -1;
        forget(c->shadow, u);
    }
    return remove_folder(c->dir.fd);
}

int block_shadow_cut(const char *dir, uint64_t seed, struct err *e)
{
    struct shadow s = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct cut c = {.shadow = &s};
    int fd = block_lock(dir, e);
    int rc = 0;

    if (fd < 0)
        return fd;
    c.dir.fd = fd;
    s.dir_fd = fd;
    s.undos = map_index(fd, 0);
    rng_init(&c.rng, seed);
    c.sectors_ppm = draw_ppm(&c.rng);
    c.names_ppm = draw_ppm(&c.rng);
    /* Without an index nothing was ever written here. */
    if ((s.undos && cut_all(&c) != 0) || (!s.undos && errno != ENOENT))
        rc = err_sys(e, "cut off %s", dir);
    if (s.undos)
        munmap(s.undos, SLOTS * sizeof *s.undos);
    close(fd);
    return rc;
}
