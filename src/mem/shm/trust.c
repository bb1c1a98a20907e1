#include "base/clock.h"
#include "base/say.h"
#include "mem/shm/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MESSAGE_NS 5000000u /* 200 a second, */
#define BURST_NS (8192 * UINT64_C(5000000))
#define SHUT_OUT_NS UINT64_C(1000000000)
#define LINE_NS UINT64_C(1000000000)
#define LINES_BURST_NS (32 * LINE_NS)

enum {
    HOME_BYTES = 256,
    PAST_FILES_MAX = 4096, /* of a node, that are removed with an earlier beginning */
};

static const char beginning_file[] = "beginning";

int shm_home_of(const char *dir, const char *cluster, char *out, size_t bytes, struct err *e)
{
    if (!dir || !*dir)
        dir = "/dev/shm"; /* XDG_RUNTIME_DIR is one user's */
    if (snprintf(out, bytes, "%s/tramway-all-%s", dir, cluster) >= (int)bytes)
        return err_set(e, ERR_TOOBIG, "runtime directory %s: its name is longer than %zu bytes",
                       dir, bytes - 1);
    return 0;
}

uint64_t shm_beginning(struct mem *m)
{
    return shm_of(m)->beginning;
}

/* ---- files ---- */

/* As open, of what is below the directory on its own file system, through no link. */
static int open_below(int dir_fd, const char *file, int flags)
{
    struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};

    return (int)syscall(SYS_openat2, dir_fd, file, &how, sizeof how);
}

int trust_file(int dir_fd, const char *file, int flags)
{
    /* Without waiting: it may be a FIFO, or have a lease. */
    return dir_fd < 0 ? -1 : open_below(dir_fd, file, flags & O_PATH ? flags : flags | O_NONBLOCK);
}

int trust_dir(const struct shm *s, const char *name)
{
    for (uint32_t i = 0; i < s->known_count; i++)
        if (strcmp(s->known[i]->name, name) == 0)
            return s->known[i] == s->self ? s->dir_fd : s->known[i]->trust.dir_fd;
    return -1;
}

/* It is that uid's, and nobody else can change what is in it. */
static int check_owner(int fd, const char *what, uint32_t uid, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "look at %s", what);
    if (st.st_uid == uid && S_ISDIR(st.st_mode) && !(st.st_mode & 022))
        return 0;
    return err_set(
        e, ERR_REFUSED,
        "%s: owned by uid %u with mode %o; it must be a directory of uid %u that nobody "
        "else can write to. Where replicas may lie root makes the directories: start the "
        "cluster with `tram up` as root",
        what, st.st_uid, st.st_mode & 07777, uid);
}

static int open_home(const char *home, struct err *e)
{
    int fd = open(home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOTFOUND,
                       "there is no directory %s: where replicas may lie root makes it, with one "
                       "for each host and client; start the cluster with `tram up` as root",
                       home);
    if (fd < 0)
        return err_sys(e, "open directory %s", home);
    int rc = check_owner(fd, home, 0, e);
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

static int read_beginning(struct shm *s, const char *home, int home_fd, struct err *e)
{
    char text[32] = "";
    int used = 0, fd = trust_file(home_fd, beginning_file, O_RDONLY);

    ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (fd >= 0)
        close(fd);
    if (got > 0 && sscanf(text, "%16" SCNx64 "%n", &s->beginning, &used) == 1 && used == 16)
        return 0;
    return err_set(e, ERR_CORRUPT, "%s/%s: 16 hexadecimal digits expected", home, beginning_file);
}

/* ---- opening ---- */

static int check_kernel(struct err *e)
{
    bool reads = open_below(AT_FDCWD, "..", O_PATH) < 0 && errno == ENOSYS;
    bool waits = syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS;

    if (!reads && !waits)
        return 0;
    return err_set(e, ERR_REFUSED,
                   "this kernel has no %s, without which a host cannot be kept from lying hosts; "
                   "Linux 5.16 or later is needed",
                   reads ? "openat2" : "futex_waitv");
}

static int check_uids(const struct shm *s, struct err *e)
{
    for (uint32_t i = 0; i < s->known_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (s->known[i]->trust.uid == s->known[k]->trust.uid)
                return err_set(e, ERR_INVALID,
                               "%s and %s have the same uid, %u: the kernel keeps processes of one "
                               "uid from nothing that they do to each other; give each its own",
                               s->known[k]->name, s->known[i]->name, s->known[i]->trust.uid);
    if (s->self->trust.uid == geteuid())
        return 0;
    return err_set(e, ERR_REFUSED, "%s belongs to uid %u, and this process has uid %u",
                   s->self->name, s->self->trust.uid, geteuid());
}

static int open_directories(struct shm *s, int home_fd, struct err *e)
{
    for (uint32_t i = 0; i < s->known_count; i++) {
        struct peer *p = s->known[i];
        struct err ignored = {""};
        if (p->role == SHM_CLIENT && p != s->self && s->self->role == SHM_CLIENT)
            continue;
        int fd = open_below(home_fd, p->name, O_PATH | O_DIRECTORY);
        if (fd >= 0 && p != s->self && check_owner(fd, p->name, p->trust.uid, &ignored) < 0) {
            close(fd); /* it cannot be reached, but may call */
            fd = -1;
        }
        if (p != s->self)
            p->trust.dir_fd = fd;
        else if (fd >= 0)
            close(fd);
    }
    s->dir_fd = open_below(home_fd, s->self->name, O_RDONLY | O_DIRECTORY);
    return s->dir_fd < 0 ? err_sys(e, "open directory %s", s->dir)
                         : check_owner(s->dir_fd, s->dir, s->self->trust.uid, e);
}

int trust_open(struct shm *s, const struct shm_options *o, struct err *e)
{
    char home[HOME_BYTES];
    int rc = shm_home_of(o->dir, o->cluster, home, sizeof home, e);

    if (rc == 0)
        rc = check_kernel(e);
    if (rc == 0)
        rc = check_uids(s, e);
    if (rc < 0)
        return rc;
    if (snprintf(s->dir, sizeof s->dir, "%s/%s", home, s->self->name) >= (int)sizeof s->dir)
        return err_set(e, ERR_TOOBIG, "directory %s/%s: its name is longer than %zu bytes", home,
                       s->self->name, sizeof s->dir - 1);
    /* Others have other uids, and root may do what it likes. This is for descriptors: those in /proc are root's now. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return err_sys(e, "keep other processes from this one's memory");
    int home_fd = open_home(home, e);
    if (home_fd < 0)
        return home_fd;
    rc = read_beginning(s, home, home_fd, e);
    if (rc == 0)
        rc = open_directories(s, home_fd, e);
    close(home_fd);
    return rc;
}

void trust_close(struct shm *s)
{
    for (uint32_t i = 0; i < s->known_count; i++)
        if (s->known[i]->trust.dir_fd >= 0)
            close(s->known[i]->trust.dir_fd);
}

/* ---- connections ---- */

bool trust_speaks(struct shm *s, uint64_t now_ns)
{
    uint64_t from = s->said.paid_ns > now_ns ? s->said.paid_ns : now_ns;

    if (from + LINE_NS > now_ns + LINES_BURST_NS)
        return false;
    s->said.paid_ns = from + LINE_NS;
    return true;
}

static bool pay(struct peer *p, uint64_t now_ns, uint32_t cost)
{
    uint64_t from = p->trust.paid_ns > now_ns ? p->trust.paid_ns : now_ns;

    p->trust.paid_ns = from + cost * (uint64_t)MESSAGE_NS;
    if (p->trust.paid_ns <= now_ns + BURST_NS)
        return true;
    p->trust.shut_until_ns = now_ns + SHUT_OUT_NS;
    return false;
}

bool trust_pays(struct helper *h, struct connection *c, uint32_t cost)
{
    if (pay(c->from, h->now_ns, cost))
        return true;
    helper_warn(h, "%s sends %s more than a correct node does; it is shut out for a second",
                c->from->name, h->s->self->name);
    return false;
}

struct peer *trust_caller(struct helper *h, int fd, struct peer *target)
{
    const struct shm *s = h->s;
    struct ucred who = {0};
    socklen_t room = sizeof who;
    struct peer *p = NULL;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &room) < 0)
        return NULL;
    for (uint32_t i = 0; i < s->known_count && !p; i++)
        if (s->known[i] != s->self && s->known[i]->trust.uid == who.uid)
            p = s->known[i];
    if (!p || (target && p != target)) {
        helper_warn(h, "%s: refused a connection %s uid %u, which is that of no node%s%s",
                    s->self->name, target ? "to a process of" : "from", who.uid,
                    target ? " called " : "", target ? target->name : "");
        return NULL;
    }
    if (p->trust.shut_out || h->now_ns < p->trust.shut_until_ns ||
        p->trust.links >= SHM_CONNECTIONS_OF_PEER_MAX)
        return NULL;
    return pay(p, h->now_ns, TRUST_CONNECTION) ? p : NULL;
}

bool trust_takes(struct helper *h, struct connection *c, const int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        if (fcntl(fds[i], F_GET_SEALS) >= 0)
            continue;
        c->from->trust.shut_out = true;
        helper_warn(h,
                    "%s sent %s a descriptor of something that is not memory; it is shut out until "
                    "%s is restarted",
                    c->from->name, h->s->self->name, h->s->self->name);
        return false;
    }
    return true;
}

/* ---- a new beginning ---- */

/* Does a process hold the node's lock? Nobody else but root can open it: who can might lock it and keep its node from starting. */
static bool is_running(int home_fd, const char *name)
{
    char file[SHM_NAME_BYTES + 8];
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    snprintf(file, sizeof file, "%s.lock", name);
    int dir = open_below(home_fd, name, O_PATH | O_DIRECTORY);
    int fd = trust_file(dir, file, O_RDONLY);
    bool locked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    return locked;
}

/* What is in the directory of a node, but for what it has hidden deeper. */
static void clear_node(int home_fd, const char *name)
{
    int fd = open_below(home_fd, name, O_RDONLY | O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *f;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (int i = 0; i < PAST_FILES_MAX && (f = readdir(d)) != NULL; i++)
        unlinkat(fd, f->d_name, 0);
    closedir(d);
}

/* The last beginning goes: what a node has left there that cannot be removed stays aside under another name. */
static void remove_past(const char *past)
{
    int fd = open(past, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *f;

    while (d && (f = readdir(d)) != NULL) {
        if (f->d_name[0] == '.')
            continue;
        if (unlinkat(fd, f->d_name, 0) == 0)
            continue;
        clear_node(fd, f->d_name);
        unlinkat(fd, f->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    rmdir(past);
}

static int make_node(int home_fd, const char *home, const struct shm_node *n, struct err *e)
{
    if (mkdirat(home_fd, n->name, 0711) < 0 || fchmodat(home_fd, n->name, 0711, 0) < 0 ||
        fchownat(home_fd, n->name, n->uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "make directory %s/%s for uid %u", home, n->name, n->uid);
    return 0;
}

static int write_beginning(int home_fd, const char *home, uint64_t drawn, struct err *e)
{
    char text[32];
    int fd = openat(home_fd, beginning_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    snprintf(text, sizeof text, "%016" PRIx64 "\n", drawn);
    ssize_t length = (ssize_t)strlen(text);
    bool good = fd >= 0 && write(fd, text, (size_t)length) == length && fchmod(fd, 0644) == 0;
    int rc = good ? 0 : err_sys(e, "write %s/%s", home, beginning_file);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int make_home(const struct shm_options *o, const char *home, uint64_t drawn, struct err *e)
{
    if (mkdir(home, 0755) < 0)
        return err_sys(e, "make directory %s, where runtime_dir says", home);
    int fd = open(home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 || fchmod(fd, 0755) < 0 ? err_sys(e, "open directory %s", home) : 0;
    for (uint32_t i = 0; rc == 0 && i < o->hosts_count; i++)
        rc = make_node(fd, home, &o->hosts[i], e);
    for (uint32_t i = 0; rc == 0 && i < o->clients_known_count; i++)
        rc = make_node(fd, home, &o->clients_known[i], e);
    /* Last: without it nobody begins. */
    if (rc == 0)
        rc = write_beginning(fd, home, drawn, e);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Puts aside what is there. */
static int end_past(const struct shm_options *o, const char *home, uint64_t drawn, struct err *e)
{
    char past[HOME_BYTES + 32];
    int fd = open_home(home, e);

    if (fd == ERR_NOTFOUND)
        return 0;
    if (fd < 0)
        return fd;
    const char *runs = NULL;
    for (uint32_t i = 0; i < o->hosts_count && !runs; i++)
        if (is_running(fd, o->hosts[i].name))
            runs = o->hosts[i].name;
    close(fd);
    if (runs)
        return err_set(
            e, ERR_EXISTS,
            "a process of host %s runs, or holds its lock; stop it first: a new beginning "
            "forgets everything",
            runs);
    snprintf(past, sizeof past, "%s.past-%016" PRIx64, home, drawn);
    if (rename(home, past) < 0)
        return err_sys(e, "put directory %s aside", home);
    remove_past(past);
    return 0;
}

int shm_prepare(const struct shm_options *o, struct err *e)
{
    char home[HOME_BYTES];
    uint64_t drawn;
    int rc = shm_home_of(o->dir, o->cluster, home, sizeof home, e);

    if (rc < 0)
        return rc;
    if (geteuid() != 0)
        return err_set(e, ERR_REFUSED,
                       "the directories of hosts that may lie are made by root, for their uids");
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        return err_sys(e, "draw the number of a beginning");
    rc = end_past(o, home, drawn, e);
    return rc < 0 ? rc : make_home(o, home, drawn, e);
}
