#include "mem/home.h"
#include "mem/shm/impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The cluster's directory holds, per node,
 *     NAME.sock   where it listens
 *     NAME.lock   locked by the node's process for life; a page:
 *                 0     text for people: "lives 3 pid 4711"
 *                 2048  count of losses of its memory, 8 bytes; all peers read it
 *                 2056  what it is, 8 bytes: its enum shm_role plus one
 *                 2064  of a client: 8 bytes for each host whose lives a disk keeps: how many lives of this place it knows of
 *                       from this file. A host that knows as many from elsewhere has met another process in that life
 * The directory itself is locked (flock) around joining and leaving, never for long.
 *
 * The last host to leave in order removes all of it, whoever else is there. Only hosts hold memory that counts, so
 * with the last of them the cluster is over. Clients that live on cannot reach the next cluster of that
 * name, which has another directory; they see that theirs is gone, and say so. A client, or a host that could not open,
 * leaves the files of hosts that have lived: after kills these keep a host from voting as if it were new. */

enum { LISTEN_BACKLOG = 1024 };

int directory_lock(struct shm *s, struct err *e)
{
    return home_lock(s->dir, s->dir_fd, e);
}

void directory_unlock(struct shm *s)
{
    home_unlock(s->dir_fd);
}

int shm_directory_of(const char *dir, const char *cluster, char *out, size_t bytes, struct err *e)
{
    if (!dir)
        dir = getenv("XDG_RUNTIME_DIR");
    if (!dir || !*dir)
        dir = "/dev/shm";
    int length = snprintf(out, bytes, "%s/tramway-%u-%s", dir, geteuid(), cluster);
    /* sun_path has 108 bytes; the socket is reached through the descriptor of the directory, so
     * only our own buffer limits the path. */
    if (length >= (int)bytes)
        return err_set(e, ERR_TOOBIG, "runtime directory %s: its name is longer than %zu bytes",
                       dir, bytes - 1);
    return 0;
}

const char *shm_directory(struct mem *m)
{
    return shm_of(m)->dir;
}

/* Opens the directory, makes it if it is not there, and locks it. */
int directory_open(struct shm *s, const char *dir, struct err *e)
{
    int named = shm_directory_of(dir, s->cluster, s->dir, sizeof s->dir, e);

    return named != 0 ? named : home_open(s->dir, &s->dir_fd, e);
}

bool directory_try_lock(struct shm *s)
{
    return flock(s->dir_fd, LOCK_EX | LOCK_NB) == 0;
}

static void lock_name(char *out, size_t room, const char *name)
{
    snprintf(out, room, "%s.lock", name);
}

static int lock_open(struct shm *s, const char *file)
{
    /* One that is a FIFO by now keeps nobody waiting. */
    return openat(s->dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static int node_lock_open(struct shm *s, const char *name)
{
    char file[SHM_NAME_BYTES + 8];

    lock_name(file, sizeof file, name);
    return lock_open(s, file);
}

/* Open-file-description locks: unlike flock they can be asked about without being taken. */
static bool is_locked(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

bool node_alive(struct shm *s, const char *name)
{
    int fd = node_lock_open(s, name);

    if (fd < 0)
        return false;
    bool locked = is_locked(fd);
    close(fd);
    return locked;
}

static uint32_t lives_read(int fd)
{
    char text[128] = "";
    unsigned lives = 0;

    return pread(fd, text, sizeof text - 1, 0) > 0 && sscanf(text, "lives %u", &lives) == 1 ? lives
                                                                                            : 0;
}

uint32_t node_lives(struct shm *s, const char *name)
{
    int fd = node_lock_open(s, name);

    if (fd < 0)
        return 0;
    uint32_t lives = lives_read(fd);
    close(fd);
    return lives;
}

static bool lives_write(int fd, uint32_t lives)
{
    char text[64];

    /* Fixed width: never shorter than what it replaces, so a crash leaves one or the other. */
    snprintf(text, sizeof text, "lives %10u pid %10d\n", lives, (int)getpid());
    return pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text);
}

/* ---- of clients, for hosts whose lives a disk keeps ---- */

_Static_assert(SHM_LOCK_NOTED_AT + SHM_HOSTS_MAX * sizeof(uint64_t) <= SHM_LOCK_BYTES, "fits");

static off_t noted_at(const struct shm *s)
{
    return SHM_LOCK_NOTED_AT + (off_t)(s->mem.self * sizeof(uint64_t));
}

struct lock_seen lock_look(struct shm *s, const char *name)
{
    char file[SHM_NAME_BYTES + 8];
    struct lock_seen seen = {0};

    lock_name(file, sizeof file, name);
    int fd = lock_open(s, file);
    if (fd < 0)
        return seen;
    seen.lives = lives_read(fd);
    if (pread(fd, &seen.noted, sizeof seen.noted, noted_at(s)) != sizeof seen.noted)
        seen.noted = 0;
    close(fd);
    return seen;
}

void lock_note(struct shm *s, const char *name, uint32_t lives)
{
    char file[SHM_NAME_BYTES + 8];
    const uint64_t noted = lives;

    lock_name(file, sizeof file, name);
    int fd = openat(s->dir_fd, file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (pwrite(fd, &noted, sizeof noted, noted_at(s)) < 0) {
        /* Then a later life of ours does not know its client, which has to be opened again. */
    }
    close(fd);
}

int lock_renew(struct shm *s, const char *name, uint32_t lives, struct err *e)
{
    const uint64_t role = SHM_CLIENT + UINT64_C(1);
    char file[SHM_NAME_BYTES + 8], next[SHM_NAME_BYTES + 16];

    lock_name(file, sizeof file, name);
    snprintf(next, sizeof next, "%s.next.lock", name);
    int fd = openat(s->dir_fd, next, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && pwrite(fd, &role, sizeof role, SHM_LOCK_ROLE_AT) == sizeof role &&
              lives_write(fd, lives) && renameat(s->dir_fd, next, s->dir_fd, file) == 0;
    int rc = ok ? 0 : err_sys(e, "write %s/%s", s->dir, file);
    if (!ok)
        unlinkat(s->dir_fd, next, 0);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- our own ---- */

/* Locks the node's file and counts its lives. The directory is locked. */
int node_lock(struct shm *s, struct err *e)
{
    char file[SHM_NAME_BYTES + 8], text[128] = "";
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    unsigned lives = 0;
    int pid = 0;

    lock_name(file, sizeof file, s->self->name);
    s->lock_fd = openat(s->dir_fd, file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return err_sys(e, "open %s/%s", s->dir, file);
    ssize_t got = pread(s->lock_fd, text, sizeof text - 1, 0);
    if (got < 0)
        return err_sys(e, "read %s/%s", s->dir, file);
    int read = sscanf(text, "lives %u pid %d", &lives, &pid);
    if (fcntl(s->lock_fd, F_OFD_SETLK, &l) < 0) {
        if (errno == EAGAIN || errno == EACCES)
            return err_set(e, ERR_EXISTS, "%s %s of cluster %s is already running, as process %d",
                           s->self->role == SHM_HOST ? "host" : "client", s->self->name, s->cluster,
                           pid);
        return err_sys(e, "lock %s/%s", s->dir, file);
    }
    /* A file made by a process that died before it wrote its line is empty or all zero. */
    if (read != 2 && text[0] != 0)
        return err_set(e, ERR_CORRUPT,
                       "%s/%s: expected \"lives N pid N\"; if no process of the cluster runs, "
                       "remove the directory",
                       s->dir, file);
    if (s->lives && lives > s->lives->life)
        return err_set(
            e, ERR_REFUSED,
            "%s/%s tells of %u lives of host %s, and its disk of %u: the disk is older than "
            "what the host has had. Put the right one back, or give it up with `tram format "
            "--rejoin %s`; if all this is of an earlier cluster, and no process of it runs, "
            "remove the directory",
            s->dir, file, lives, s->self->name, s->lives->life, s->self->name);
    if (s->lives)
        lives = s->lives->life;
    int rc = posix_fallocate(s->lock_fd, 0, SHM_LOCK_BYTES);
    if (rc) {
        errno = rc;
        return err_sys(e, "extend %s/%s to %d bytes", s->dir, file, SHM_LOCK_BYTES);
    }
    const uint64_t role = s->self->role + UINT64_C(1);
    s->losses = s->mem.hostile ? lives : losses_read(s->lock_fd); /* each life loses it */
    if (pwrite(s->lock_fd, &role, sizeof role, SHM_LOCK_ROLE_AT) != sizeof role)
        return err_sys(e, "write %s/%s", s->dir, file);
    s->mem.life = lives;
    s->lived = true;
    if (!lives_write(s->lock_fd, lives + 1))
        return err_sys(e, "write %s/%s", s->dir, file);
    return 0;
}

int losses_open(struct shm *s, const char *name)
{
    char file[SHM_NAME_BYTES + 8];

    lock_name(file, sizeof file, name);
    int fd = lock_open(s, file);
    if (fd >= 0 && losses_read(fd) == SHM_LOSSES_UNKNOWN) {
        close(fd); /* its owner is yet to fill it */
        return -1;
    }
    return fd;
}

uint64_t losses_read(int fd)
{
    uint64_t losses;

    return pread(fd, &losses, sizeof losses, SHM_LOCK_LOSSES_AT) == sizeof losses
               ? losses
               : SHM_LOSSES_UNKNOWN;
}

int losses_count(struct shm *s, struct err *e)
{
    const uint64_t losses = s->losses + 1;

    if (pwrite(s->lock_fd, &losses, sizeof losses, SHM_LOCK_LOSSES_AT) != sizeof losses)
        return err_sys(e, "write %s/%s.lock", s->dir, s->self->name);
    s->losses = losses;
    return 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

/* What the lock files say, but ours if we have let go of it. */
struct files_seen {
    bool host_alive, client_alive;
    bool host_lived; /* there is the file of a host that has lived, dead or alive */
};

static void see_file(struct shm *s, const char *file, struct files_seen *seen)
{
    uint64_t role = 0;
    int fd = lock_open(s, file);

    if (fd < 0)
        return;
    if (pread(fd, &role, sizeof role, SHM_LOCK_ROLE_AT) != sizeof role)
        role = 0;
    /* Who has not said what it is could be a host. */
    bool host = role != SHM_CLIENT + UINT64_C(1), locked = is_locked(fd);
    seen->host_alive |= host && locked;
    seen->client_alive |= !host && locked;
    seen->host_lived |= host && lives_read(fd) > 0;
    close(fd);
}

static struct files_seen see_files(struct shm *s, DIR *d)
{
    struct files_seen seen = {false};

    /* Nearly always a host is alive, and there may be thousands of files. */
    for (uint32_t i = 0; i < s->hosts_count && !seen.host_alive; i++)
        if (s->hosts[i] != s->self && node_alive(s, s->hosts[i]->name))
            seen.host_alive = true;
    rewinddir(d);
    for (struct dirent *f; !seen.host_alive && (f = readdir(d));)
        if (ends_with(f->d_name, ".lock"))
            see_file(s, f->d_name, &seen);
    return seen;
}

static bool is_over(const struct shm *s, const struct files_seen *seen)
{
    if (seen->host_alive)
        return false;
    if (s->self->role == SHM_HOST && s->opened)
        return true;
    return !seen->client_alive && !seen->host_lived;
}

/* The files of hosts go last: who is killed in between leaves no client that takes the next life 0 of a
 * host for the one it knew. */
static void remove_files(struct shm *s, DIR *d, bool of_hosts)
{
    rewinddir(d);
    for (struct dirent *f; (f = readdir(d));) {
        char name[sizeof f->d_name];
        bool lock = ends_with(f->d_name, ".lock");
        if (!lock && !ends_with(f->d_name, ".sock") && !ends_with(f->d_name, ".page"))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strlen(f->d_name) - 5, f->d_name);
        bool host = false;
        for (uint32_t i = 0; i < s->hosts_count; i++)
            host |= strcmp(s->hosts[i]->name, name) == 0;
        if (host == of_hosts)
            unlinkat(s->dir_fd, f->d_name, 0);
    }
}

/* Everything goes if the cluster is over. The directory is locked. */
static void directory_clear(struct shm *s)
{
    /* By its path it might be another one by now: the next cluster's. */
    int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct files_seen seen = see_files(s, d);
    if (is_over(s, &seen)) {
        remove_files(s, d, false);
        remove_files(s, d, true);
        rmdir(s->dir); /* stays if somebody has put other things into it */
    }
    closedir(d);
}

static bool is_removed(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

bool cluster_is_over(const struct shm *s)
{
    return is_removed(s->lock_fd);
}

void directory_leave(struct shm *s)
{
    char file[SHM_NAME_BYTES + 8];

    if (s->dir_fd < 0)
        return;
    bool locked = s->mem.hostile || directory_lock(s, NULL) == 0;
    /* What has our names in there may be somebody's who came after the end. */
    bool ours = s->lock_fd >= 0 && !is_removed(s->lock_fd);
    snprintf(file, sizeof file, "%s.sock", s->self->name);
    if (s->joined && ours)
        unlinkat(s->dir_fd, file, 0);
    /* A life that could not open, and whose memory nobody knows, was none: else the next one would have
     * to be taken back for having lost what never counted. One that is on a disk stays there. */
    if (s->lived && !s->given && !s->lives)
        lives_write(s->lock_fd, s->mem.life);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    if (locked && ours && !s->mem.hostile)
        directory_clear(s);
    close(s->dir_fd);
}

/* Of another node that may lie: by a descriptor of what is there, which is opened without leaving the file system. */
static int peer_socket(struct shm *s, struct sockaddr_un *a, const char *name)
{
    char file[SHM_NAME_BYTES + 8];

    snprintf(file, sizeof file, "%s.sock", name);
    int fd = trust_file(trust_dir(s, name), file, O_PATH);
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d", fd);
    return fd;
}

static void socket_address(struct shm *s, struct sockaddr_un *a, const char *name)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    /* Through the open directory: short, whatever the path, and never another directory. */
    snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/%s.sock", s->dir_fd, name);
}

/* Binds the node's socket. The node's lock is ours, so a socket that is there is a dead one's. */
int listen_open(struct shm *s, struct err *e)
{
    struct sockaddr_un a;
    char file[SHM_NAME_BYTES + 8];

    snprintf(file, sizeof file, "%s.sock", s->self->name);
    if (unlinkat(s->dir_fd, file, 0) < 0 && errno != ENOENT)
        return err_sys(e, "remove the stale socket %s/%s", s->dir, file);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, "socket for %s", s->self->name);
    socket_address(s, &a, s->self->name);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        (s->mem.hostile && fchmodat(s->dir_fd, file, 0666, 0) < 0) ||
        listen(fd, LISTEN_BACKLOG) < 0) {
        int rc = err_sys(e, "listen on %s/%s", s->dir, file);
        close(fd);
        return rc;
    }
    return fd;
}

/* A connected socket, or -1 if the node does not listen. */
int peer_connect(struct shm *s, const char *name)
{
    struct sockaddr_un a;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int there = -1;

    if (fd < 0)
        return -1;
    if (s->mem.hostile)
        there = peer_socket(s, &a, name);
    else
        socket_address(s, &a, name);
    bool connected =
        (!s->mem.hostile || there >= 0) && connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (there >= 0)
        close(there);
    if (connected)
        return fd;
    close(fd);
    return -1;
}
