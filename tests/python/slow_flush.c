/* Before the system's fdatasync (LD_PRELOAD): while the file that SLOW_FLUSH names is there, each takes 150 ms more. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int fd)
{
    const char *slow = getenv("SLOW_FLUSH");
    if (slow && access(slow, F_OK) == 0)
        usleep(150000);
    return (int)syscall(SYS_fdatasync, fd);
}
