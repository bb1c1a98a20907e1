#include "mem/life.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MET_AT = 2048,
    PAGE_AT = 4096,
    BOOT_BYTES = 40,
    PLACE_STEP = 64, /* lives of a place between two visits to the disk */
};

#define PAGE_MAGIC UINT64_C(0x32656c69666d6172) /* another layout has another */

struct life_page {
    char boot[BOOT_BYTES];
    uint64_t magic;
    uint64_t hosts_tag;
    uint64_t made_ms;
    uint32_t self; /* in the list of hosts of that tag */
    uint32_t unused;
    struct roll_entry roll[ROLL_HOSTS_MAX];
    struct life_place place[];
};
_Static_assert(MET_AT + ROLL_HOSTS_MAX * sizeof(struct life_met) <= PAGE_AT,
               "fits before the page");

static size_t page_bytes(uint32_t places)
{
    return sizeof(struct life_page) + places * sizeof(struct life_place);
}

/* mkdir -p, closed to others from where it is ours. */
static int make_directory(const char *dir, struct err *e)
{
    char path[512];

    if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
        return err_set(e, ERR_TOOBIG, "state directory %.80s...: longer than %zu bytes", dir,
                       sizeof path - 1);
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = 0;
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return err_sys(e, "make the state directory %s", path);
        if (!slash)
            return 0;
        *slash = '/';
    }
}

int life_directory(const char *cluster, char *out, size_t bytes, struct err *e)
{
    const char *base = getenv("XDG_STATE_HOME"), *more = "";

    if (!base || base[0] != '/') {
        base = getenv("HOME");
        more = "/.local/state";
    }
    if (!base || base[0] != '/')
        return err_set(e, ERR_NOTFOUND,
                       "no directory for the state of cluster %s: set runtime_dir in the cluster "
                       "file, or XDG_STATE_HOME, or HOME",
                       cluster);
    if (snprintf(out, bytes, "%s%s/tramway-%s", base, more, cluster) >= (int)bytes)
        return err_set(e, ERR_TOOBIG, "state directory in %.80s...: longer than %zu bytes", base,
                       bytes - 1);
    return 0;
}

static void boot_read(char boot[BOOT_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(boot, 0, BOOT_BYTES);
    if (fd < 0)
        return;
    if (read(fd, boot, BOOT_BYTES - 1) < 0)
        memset(boot, 0, BOOT_BYTES);
    close(fd);
}

/* After a restart of the machine the counts of places may be older than what was given out. */
static void places_settle(struct life_file *f)
{
    char boot[BOOT_BYTES];

    boot_read(boot);
    f->rebooted = !boot[0] || memcmp(boot, f->page->boot, sizeof boot) != 0;
    for (uint32_t i = 0; f->rebooted && !f->told && i < f->places; i++)
        if (f->page->place[i].life > 0)
            f->page->place[i].life = (f->page->place[i].life / PLACE_STEP + 2) * PLACE_STEP;
    memcpy(f->page->boot, boot, sizeof boot);
}

/* A page of another layout, or none yet: begins with nothing. */
static void page_settle(struct life_file *f, const struct life_options *o)
{
    struct life_page *p = f->page;

    if (p->magic != PAGE_MAGIC) {
        memset(p, 0, page_bytes(f->places));
        p->made_ms = clock_wall_ms();
        p->hosts_tag = o->hosts_tag;
        p->self = o->self;
        p->magic = PAGE_MAGIC;
        f->renewed = true;
    }
    /* Of other hosts than those nothing is known; of ourselves it is. */
    if (p->hosts_tag != o->hosts_tag || p->self != o->self) {
        struct roll_entry own =
            p->self < ROLL_HOSTS_MAX ? p->roll[p->self] : (struct roll_entry){0};
        memset(p->roll, 0, sizeof p->roll);
        p->roll[o->self] = own;
        p->hosts_tag = o->hosts_tag;
        p->self = o->self;
    }
    f->before = p->roll[o->self];
}

/* Fixed width: a crash leaves one or the other. */
static bool lives_write(const struct life_file *f, uint32_t lives)
{
    char text[64];
    int len = snprintf(text, sizeof text, "lives %10u pid %10d\n", lives, (int)getpid());

    return pwrite(f->fd, text, (size_t)len, 0) == len;
}

static int lock_and_count(struct life_file *f, const char *host, uint32_t *lives, struct err *e)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char text[64] = "";
    unsigned count = 0;
    int pid = 0;

    ssize_t got = pread(f->fd, text, sizeof text - 1, 0);
    if (got < 0)
        return err_sys(e, "read %s", f->path);
    int read = sscanf(text, "lives %u pid %d", &count, &pid);
    if (fcntl(f->fd, F_OFD_SETLK, &l) < 0) {
        if (errno == EAGAIN || errno == EACCES)
            return err_set(e, ERR_EXISTS, "host %s is already running, as process %d (%s)", host,
                           pid, f->path);
        return err_sys(e, "lock %s", f->path);
    }
    if (read != 2 && text[0] != 0 && !f->told)
        return err_set(e, ERR_CORRUPT,
                       "%s: expected \"lives N pid N\"; how often the host lived is not known. If "
                       "no host of the cluster runs anywhere, remove the file",
                       f->path);
    f->said = count;
    if (!f->told)
        *lives = count;
    return lives_write(f, *lives + 1) ? 0 : err_sys(e, "write %s", f->path);
}

/* The directory's entry of the file, too. */
static bool directory_sync(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool safe = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return safe;
}

int life_open(struct life_file *f, const struct life_options *o, uint32_t *lives, struct err *e)
{
    const char *dir = o->dir, *host = o->host;
    uint32_t places = o->places;

    f->fd = -1;
    f->told = o->told;
    int rc = make_directory(dir, e);
    if (rc < 0)
        return rc;
    if (snprintf(f->path, sizeof f->path, "%s/%s.life", dir, host) >= (int)sizeof f->path)
        return err_set(e, ERR_TOOBIG, "%.80s.../%s.life: longer than %zu bytes", dir, host,
                       sizeof f->path - 1);
    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->fd < 0)
        return err_sys(e, "open %s", f->path);
    rc = lock_and_count(f, host, lives, e);
    if (rc < 0)
        return rc;
    int full = posix_fallocate(f->fd, 0, (off_t)(PAGE_AT + page_bytes(places)));
    if (full) {
        errno = full;
        return err_sys(e, "extend %s", f->path);
    }
    void *at = mmap(NULL, page_bytes(places), PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, PAGE_AT);
    if (at == MAP_FAILED)
        return err_sys(e, "map %s", f->path);
    f->page = at;
    f->places = places;
    f->self = o->self;
    f->made = *lives == 0;
    page_settle(f, o);
    places_settle(f);
    bool safe = life_sync(f) && directory_sync(dir);
    return safe ? 0 : err_sys(e, "write %s to the disk", f->path);
}

struct roll_entry *life_roll(const struct life_file *f)
{
    return f->page->roll;
}

uint64_t life_made_ms(const struct life_file *f)
{
    return f->page->made_ms;
}

struct life_place *life_place(const struct life_file *f, uint32_t place)
{
    return &f->page->place[place];
}

struct life_met life_met(const struct life_file *f, uint32_t host)
{
    struct life_met met;
    ssize_t bytes = pread(f->fd, &met, sizeof met, (off_t)(MET_AT + host * sizeof met));

    return bytes == (ssize_t)sizeof met ? met : (struct life_met){0};
}

void life_met_note(struct life_file *f, uint32_t host, struct life_met met)
{
    if (pwrite(f->fd, &met, sizeof met, (off_t)(MET_AT + host * sizeof met)) < 0) {
        /* Then it is not known who it was, as after a restart of the machine. */
    }
}

uint32_t life_place_next(struct life_file *f, uint32_t place, uint64_t birth)
{
    struct life_place *p = &f->page->place[place];
    uint32_t life = p->life++;

    p->birth = birth;
    /* Rarely, and it takes a while: what is on the disk is never PLACE_STEP behind. */
    if (life % PLACE_STEP == 0 && !f->told)
        life_sync(f);
    return life;
}

bool life_sync(struct life_file *f)
{
    return fsync(f->fd) == 0;
}

void life_set(struct life_file *f, uint32_t lives)
{
    if (lives_write(f, lives))
        fdatasync(f->fd);
}

void life_take_back(struct life_file *f, uint32_t lives)
{
    f->page->roll[f->self] = f->before;
    if (lives > 0)
        life_set(f, lives);
    life_close(f, lives == 0);
}

void life_close(struct life_file *f, bool forget)
{
    if (f->page)
        munmap(f->page, page_bytes(f->places));
    if (f->fd >= 0 && forget)
        unlink(f->path);
    if (f->fd >= 0)
        close(f->fd);
    f->page = NULL;
    f->fd = -1;
}
