/* The last member of a group leaves, though those before it ended as soon as it had come: on shared memory dead keepers count for what
 * they had mapped. */
#include "api/api.h"
#include "base/clock.h"
#include "tram/group.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3, WITHIN_S = 20, CATCH_UP_US = 2000 };
#define HELD_NS UINT64_C(1500000000)

static const char file[] = "protocol: group\n"
                           "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                           "start_ms: 20\n"
                           "suspect_ms: 5000\n"
                           "subgroups: [{name: a}, {name: b}, {name: c}]\n";

static struct tram_cluster *cluster;
static struct tram_group *group[HOSTS];
static uint64_t members[HOSTS];
static uint32_t parts,
    parts_last; /* that were opened; behind that many nobody hears of more for a while; 0: never */
static _Atomic uint64_t held_ns;

/* What hosts tell each other of memory comes by this, in the helpers' threads. */
ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    if (held_ns && clock_now_ns() < held_ns) {
        usleep(CATCH_UP_US);
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_recvmsg, fd, m, flags);
}

/* Each part of a memory that is opened takes room first. */
int fallocate(int fd, int mode, off_t from, off_t bytes)
{
    if (parts_last)
        usleep(CATCH_UP_US); /* the others have the ones before */
    if (++parts == parts_last)
        held_ns = clock_now_ns() + HELD_NS;
    return (int)syscall(SYS_fallocate, fd, mode, from, bytes);
}

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    (void)ctx, (void)cell, (void)view, (void)item, (void)count;
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    (void)before;
    *(uint64_t *)ctx = now ? now->members : 0;
}

static void come(uint32_t i)
{
    struct tram_error e = {""};
    const struct tram_group_options o = {.host = tram_cluster_host_name(cluster, i),
                                         .machine = {.deliver = on_deliver, .view = on_view},
                                         .ctx = &members[i]};
    if (tram_group_open(cluster, &o, &group[i], &e) != TRAM_OK)
        fail_msg("%s", e.text);
}

/* Polls all until the view of host i is that one; 0: it has left. */
static void until(uint32_t i, uint64_t want)
{
    uint64_t end = clock_now_ns() + WITHIN_S * UINT64_C(1000000000);
    while (members[i] != want || (want == 0 && !tram_group_has_left(group[i]))) {
        if (clock_now_ns() > end)
            fail_msg("h%u is in %#llx, and wanted is %#llx", i + 1, (unsigned long long)members[i],
                     (unsigned long long)want);
        for (uint32_t h = 0; h < HOSTS; h++)
            if (group[h])
                tram_group_poll(group[h], NULL);
    }
}

static void leave(uint32_t i)
{
    tram_group_leave(group[i]);
    until(i, 0);
    tram_group_close(group[i]);
    group[i] = NULL;
}

static void group__the_last_leaves_though_the_others_ended_when_it_came(void **state)
{
    struct tram_error e = {""};
    char name[32];
    (void)state;
    snprintf(name, sizeof(name), "last-%d", (int)getpid());
    if (tram_cluster_parse(file, name, &cluster, &e) != TRAM_OK)
        fail_msg("%s", e.text);
    come(0);
    uint32_t of_one = parts;
    come(1);
    until(0, 3);
    until(1, 3);
    parts_last = parts + of_one;
    come(2);
    assert_true(held_ns > 0);
    until(2, 7);
    leave(0);
    leave(1);
    leave(2);
    tram_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group__the_last_leaves_though_the_others_ended_when_it_came),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
