#include "mem/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int secret_make(const char *path, const char *text, size_t bytes, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 && errno == EEXIST)
        return err_set(e, ERR_EXISTS, "%s exists; a key is not replaced", path);
    if (fd < 0)
        return err_sys(e, "make %s", path);
    /* Whatever the umask is. */
    bool ok = fchmod(fd, 0600) == 0 && write(fd, text, bytes) == (ssize_t)bytes && fsync(fd) == 0;
    int rc = ok ? 0 : err_sys(e, "write %s", path);
    close(fd);
    if (rc < 0)
        unlink(path);
    return rc;
}

static int check_file(int fd, const char *path, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "look at %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%s: a key is a plain file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(e, ERR_REFUSED, "%s: it belongs to uid %u; a key is ours (uid %u) or root's",
                       path, st.st_uid, geteuid());
    if (st.st_mode & 077)
        return err_set(e, ERR_REFUSED,
                       "%s: others may use it (mode %03o); a key is for its owner alone: chmod 600",
                       path, st.st_mode & 0777);
    return 0;
}

static long read_all(int fd, const char *path, char *text, size_t room, struct err *e)
{
    size_t got = 0;

    while (got < room) {
        ssize_t n = read(fd, text + got, room - got);
        if (n < 0)
            return err_sys(e, "read %s", path);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (long)got;
}

long secret_read(const char *path, const char *missing, char *text, size_t room, struct err *e)
{
    /* Neither waits for the writer of a pipe, nor takes a terminal. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOTFOUND, "%s: there is no such file; %s", path, missing);
    if (fd < 0)
        return err_sys(e, "open %s", path);
    long rc = check_file(fd, path, e);
    if (rc == 0)
        rc = read_all(fd, path, text, room, e);
    close(fd);
    return rc;
}
