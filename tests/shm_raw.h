/* For tests that speak the shared-memory backend's wire by hand: strangers, fools and intruders. */
#ifndef TESTS_SHM_RAW_H
#define TESTS_SHM_RAW_H

#include "shm_fixture.h"
#include "stderr_capture.h"

#include "mem/shm/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* A socket connected to a host of the fixture's cluster, or -1. */
static inline int raw_connect(const char *socket_file)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    must(fd >= 0, "socket");
    fixture_path(a.sun_path, sizeof a.sun_path, socket_file);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline struct shm_message raw_hello(uint32_t node, const char *name, enum shm_role role)
{
    struct shm_message m;

    memset(&m, 0, sizeof m);
    m.magic = SHM_WIRE_MAGIC;
    m.version = SHM_WIRE_VERSION;
    m.type = SHM_HELLO;
    m.node = node;
    m.role = role;
    snprintf(m.cluster, sizeof m.cluster, "test");
    snprintf(m.name, sizeof m.name, "%s", name);
    return m;
}

/* The node has had so many lives, as far as the files of the cluster say. */
static inline void raw_lives(const char *name, uint32_t lives)
{
    char file[64], path[256];

    snprintf(file, sizeof file, "%s.lock", name);
    fixture_path(path, sizeof path, file);
    FILE *f = fopen(path, "w");
    must(f != NULL, "lock file");
    fprintf(f, "lives %10u pid %10d\n", lives, (int)getpid());
    fclose(f);
}

/* Sends bytes with up to two descriptors; false if the other side has closed. */
static inline bool raw_send(int fd, const void *data, size_t bytes, const int *fds, int count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count) {
        memset(&control, 0, sizeof control);
        h.msg_control = &control;
        h.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
    }
    return sendmsg(fd, &h, MSG_NOSIGNAL) >= 0;
}

/* Takes one message within two seconds; its descriptor, if any, in *got. False: closed. */
static inline bool raw_receive(int fd, struct shm_message *m, int *got)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {.iov_base = m, .iov_len = sizeof *m};
    struct msghdr h = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control.bytes};
    struct pollfd p = {.fd = fd, .events = POLLIN};

    *got = -1;
    must(poll(&p, 1, 2000) == 1, "an answer within two seconds");
    if (recvmsg(fd, &h, MSG_CMSG_CLOEXEC) != sizeof *m)
        return false;
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(got, CMSG_DATA(c), sizeof *got);
    return true;
}

/* Reads until the other side closes; true if it has refused, with its text. */
static inline bool raw_refused(int fd, char *text, size_t room)
{
    struct shm_message m;
    int got;
    bool refused = false;

    while (raw_receive(fd, &m, &got)) {
        if (got >= 0)
            close(got);
        if (m.type == SHM_REFUSE) {
            refused = true;
            snprintf(text, room, "%.*s", (int)sizeof m.text - 1, m.text);
        }
    }
    close(fd);
    return refused;
}

/* Each of these must fail in the kernel. Returns a text for the first that does not. */
static inline const char *raw_try_to_write(int fd, size_t bytes)
{
    char byte = 1, path[64];

    if (mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
        return "writable mapping";
    if (errno != EPERM)
        return "writable mapping: errno";
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return "read-only mapping refused";
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0)
        return "mprotect";
    if (madvise(at, bytes, MADV_REMOVE) == 0)
        return "MADV_REMOVE";
    if (write(fd, &byte, 1) >= 0 || pwrite(fd, &byte, 1, 0) >= 0)
        return "write";
    if (ftruncate(fd, 0) == 0 || ftruncate(fd, (off_t)bytes * 2) == 0)
        return "ftruncate";
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0)
        return "punch hole";
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0)
        return "more seals";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR);
    if (again >= 0) {
        if (mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED)
            return "writable mapping of a reopened descriptor";
        if (pwrite(again, &byte, 1, 0) >= 0)
            return "write to a reopened descriptor";
    }
    if (open(path, O_RDWR | O_TRUNC) >= 0) {
        struct stat st;
        if (fstat(fd, &st) < 0 || (size_t)st.st_size != bytes)
            return "truncating open";
    }
    return NULL;
}

#endif
