/* The file in which a host counts its lives, and those of the clients' places that it gives.
 *
 *     STATE/HOST.life     0      text for people: "lives 3 pid 4711"
 *                         4096   struct life_page, from here on
 *
 * It must outlive the process and the machine's restart: a host that came back as if it were new would
 * promise what its earlier life has promised to others. Locked by the host's process for life. Counts
 * of places are written without waiting for the disk; after a restart of the machine, which loses what
 * was not there yet, all of them are taken to be PLACE_STEP further. */
#include "mem/ofi_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE_AT = 4096,
    BOOT_BYTES = 40,
    PLACE_STEP = 64, /* lives of a place between two visits to the disk */
};

struct life_page {
    char boot[BOOT_BYTES];
    uint32_t place[]; /* lives of each */
};

static size_t page_bytes(uint32_t places)
{
    return sizeof(struct life_page) + places * sizeof(uint32_t);
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

int ofi_state_directory(const char *cluster, char *out, size_t bytes, struct err *e)
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
    if (boot[0] && memcmp(boot, f->page->boot, sizeof boot) == 0)
        return;
    for (uint32_t i = 0; i < f->places; i++)
        if (f->page->place[i] > 0)
            f->page->place[i] = (f->page->place[i] / PLACE_STEP + 2) * PLACE_STEP;
    memcpy(f->page->boot, boot, sizeof boot);
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
    if (read != 2 && text[0] != 0)
        return err_set(e, ERR_CORRUPT,
                       "%s: expected \"lives N pid N\"; how often the host lived is not known. If "
                       "no host of the cluster runs anywhere, remove the file",
                       f->path);
    *lives = count;
    return lives_write(f, count + 1) ? 0 : err_sys(e, "write %s", f->path);
}

int life_open(struct life_file *f, const char *dir, const char *host, uint32_t places,
              uint32_t *lives, struct err *e)
{
    f->fd = -1;
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
    places_settle(f);
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool safe = fsync(f->fd) == 0 && dir_fd >= 0 && fsync(dir_fd) == 0;
    rc = safe ? 0 : err_sys(e, "write %s to the disk", f->path);
    if (dir_fd >= 0)
        close(dir_fd);
    return rc;
}

uint32_t life_place(const struct life_file *f, uint32_t place)
{
    return f->page->place[place];
}

uint32_t life_place_next(struct life_file *f, uint32_t place)
{
    uint32_t life = f->page->place[place]++;

    /* Rarely, and it takes a while: what is on the disk is never PLACE_STEP behind. */
    if (life % PLACE_STEP == 0)
        fdatasync(f->fd);
    return life;
}

void life_set(struct life_file *f, uint32_t lives)
{
    if (lives_write(f, lives))
        fdatasync(f->fd);
}

void life_take_back(struct life_file *f, uint32_t lives)
{
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
