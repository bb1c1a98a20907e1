#include "mem/home.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 5000, TRIES = 100 };

int home_lock(const char *dir, int fd, struct err *e)
{
    struct timespec ms = {.tv_nsec = 1000000};

    for (int i = 0; i < LOCK_WAIT_MS; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_sys(e, "lock %s", dir);
        nanosleep(&ms, NULL);
    }
    return err_set(e, ERR_TIMEOUT, "lock %s: another process has held it for %d ms", dir,
                   LOCK_WAIT_MS);
}

void home_unlock(int fd)
{
    flock(fd, LOCK_UN);
}

int home_open(const char *dir, int *fd, struct err *e)
{
    for (int tries = 0; tries < TRIES; tries++) {
        struct stat here, there;

        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
            return err_sys(e, "make directory %s, where runtime_dir or XDG_RUNTIME_DIR says", dir);
        *fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (*fd < 0 && errno == ENOENT)
            continue; /* the last one out has just removed it */
        if (*fd < 0)
            return err_sys(e, "open directory %s", dir);
        if (fstat(*fd, &here) < 0)
            return err_sys(e, "look at directory %s", dir);
        if (here.st_uid != geteuid() || (here.st_mode & 077))
            return err_set(e, ERR_REFUSED,
                           "directory %s: owned by uid %u with mode %o; it must be ours (uid %u) "
                           "and closed to others (mode 700)",
                           dir, here.st_uid, here.st_mode & 0777, geteuid());
        int rc = home_lock(dir, *fd, e);
        if (rc < 0)
            return rc;
        if (stat(dir, &there) == 0 && there.st_dev == here.st_dev && there.st_ino == here.st_ino)
            return 0;
        close(*fd); /* removed while we waited */
        *fd = -1;
    }
    return err_set(e, ERR_AGAIN, "directory %s comes and goes", dir);
}
