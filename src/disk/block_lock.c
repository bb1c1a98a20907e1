#include "disk/block_work_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A line of /proc/locks: "1: FLOCK  ADVISORY  WRITE 4711 fe:00:131073 0 EOF". */
static int locker_in(const char *line, const struct stat *st)
{
    unsigned major_id, minor_id;
    unsigned long inode;
    int pid;

    if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major_id, &minor_id, &inode) == 4 &&
        makedev(major_id, minor_id) == st->st_dev && inode == st->st_ino)
        return pid;
    return 0;
}

/* Who has the lock of the directory, or 0: not everywhere it can be seen. */
static int locker_of(int fd)
{
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    struct stat st;
    int pid = 0;

    if (!locks)
        return 0;
    while (fstat(fd, &st) == 0 && pid == 0 && fgets(line, sizeof line, locks) != NULL)
        pid = locker_in(line, &st);
    fclose(locks);
    return pid;
}

int block_lock(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int rc = errno == EWOULDBLOCK ? ERR_EXISTS : err_sys(e, "lock %s", path);
    int pid = rc == ERR_EXISTS ? locker_of(fd) : 0;
    if (rc == ERR_EXISTS && pid > 0)
        err_set(e, rc, "%s: process %d has it", path, pid);
    else if (rc == ERR_EXISTS)
        err_set(e, rc, "%s: another process has it", path);
    close(fd);
    return rc;
}
