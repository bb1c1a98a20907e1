/* A durable cluster under load whose disks are in trouble while it runs: a flush that hangs for seconds, at each host in turn; a disk
 * that is full under whoever leads; a disk that is lost, with the places it gave to clients. The groups go on, and when the trouble is over
 * every host has everything again. Nothing is delivered twice or lost, as the traces show.
 *
 *      disk_trouble      prints TAP
 *
 * The hosts are this program, so their calls to the system come by here. */
#include "power.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HANG_NS (2500 * MS)
#define NOTICED_NS (1000 * MS) /* into the hang: whoever waits for that disk has found out by now */

/* In memory that all map. */
struct trouble {
    atomic_int hangs; /* the host whose flushes do, plus one; 0: none */
    atomic_int full;  /* likewise, for whose new files there is no room */
    atomic_int hung;  /* flushes that did */
};

static struct trouble *trouble;

static bool is_mine(const atomic_int *of)
{
    return trouble && power_self < POWER_HOSTS && (uint32_t)atomic_load(of) == power_self + 1;
}

int fdatasync(int fd)
{
    if (is_mine(&trouble->hangs))
        atomic_fetch_add(&trouble->hung, 1);
    while (is_mine(&trouble->hangs))
        usleep(1000);
    return (int)syscall(SYS_fdatasync, fd);
}

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    if (is_mine(&trouble->full)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

/* ---- cases ---- */

static bool starts(struct power *t)
{
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        power_start_host(t, h);
    power_start_clients(t);
    power_mark(t);
    return power_wait_served(t) && power_wait_well(t);
}

static bool ends(struct power *t)
{
    return power_come_to_rest(t) && power_stop_hosts(t);
}

static bool is_served_again(struct power *t)
{
    power_mark(t);
    return power_wait_served(t);
}

static bool flush_hangs(struct power *t, uint32_t host)
{
    uint64_t began = clock_now_ns();
    atomic_store(&trouble->hung, 0);
    atomic_store(&trouble->hangs, (int)host + 1);
    bool good = power_run_for(t, NOTICED_NS) && is_served_again(t) && is_served_again(t);
    uint64_t took = clock_now_ns() - began;
    if (good && took < HANG_NS)
        good = power_run_for(t, HANG_NS - took) && is_served_again(t);
    if (good && atomic_load(&trouble->hung) == 0) {
        printf("# no flush of host %u came by\n", host + 1);
        good = false;
    }
    atomic_store(&trouble->hangs, 0);
    return good && is_served_again(t) && power_wait_well(t);
}

static bool hangs_case(struct power *t)
{
    if (!starts(t))
        return false;
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        if (!flush_hangs(t, h))
            return false;
    return ends(t);
}

static bool leads(const struct power *t, uint32_t host)
{
    for (uint32_t g = 0; g < POWER_GROUPS; g++)
        if (atomic_load(&t->board->host[host].group[g].role) == TRAM_LEADER)
            return true;
    return false;
}

/* It leads something until it can keep nothing more; then others do, and what was not answered is. */
static bool full_case(struct power *t)
{
    if (!starts(t))
        return false;
    uint32_t host = 0;
    while (host + 1 < POWER_HOSTS && !leads(t, host))
        host++;
    atomic_store(&trouble->full, (int)host + 1);
    uint64_t give_up = clock_now_ns() + POWER_PATIENCE;
    bool good = true;
    while (good && leads(t, host)) {
        good = is_served_again(t);
        if (clock_now_ns() > give_up) {
            printf("# host %u leads on with a disk that is full\n", host + 1);
            good = false;
        }
    }
    for (int i = 0; good && i < 3; i++)
        good = is_served_again(t) && power_run_for(t, 100 * MS);
    if (good && leads(t, host)) {
        printf("# host %u leads again, and keeps nothing\n", host + 1);
        good = false;
    }
    atomic_store(&trouble->full, 0);
    return good && ends(t);
}

/* What it was sent is on its disk. */
static bool wait_whole(struct power *t, uint32_t host)
{
    for (uint64_t give_up = clock_now_ns() + POWER_PATIENCE; clock_now_ns() < give_up;) {
        if (!power_wait_well(t) || !power_run_for(t, 100 * MS) || !power_stop_host(t, host))
            return false;
        bool whole = power_is_whole(t, host);
        power_start_host(t, host);
        if (whole)
            return power_wait_well(t);
    }
    printf("# host %u never has everything on its disk\n", host + 1);
    return false;
}

/* Each client has its place from one of them. */
static bool lost_case(struct power *t)
{
    if (!starts(t))
        return false;
    for (uint32_t h = 0; h < POWER_HOSTS; h++) {
        power_kill_hosts(t, UINT32_C(1) << h);
        if (!power_lose(t, h))
            return false;
        power_start_host(t, h);
        if (!is_served_again(t) || !wait_whole(t, h) || !is_served_again(t))
            return false;
    }
    printf("# %u clients had to come again\n", t->refused);
    if (t->refused >= POWER_CLIENTS)
        return ends(t);
    printf("# clients were served with a place that nobody remembers\n");
    return false;
}

/* ---- the program ---- */

struct trouble_case {
    const char *name;
    bool (*body)(struct power *);
    enum cluster_transport transport;
};

static bool run_case(const struct trouble_case *c, uint32_t number)
{
    struct power t = {.opt = {.transport = c->transport, .plain = true}};
    uint64_t began = clock_now_ns();
    rng_init(&t.rng, began);
    memset(trouble, 0, sizeof(*trouble));
    bool good = power_open(&t) && c->body(&t) && power_check_traces(&t, true);
    good = power_close(&t, good);
    printf("# %.1f s\n%s %u - disk_trouble__%s\n", (double)(clock_now_ns() - began) / 1e9,
           good ? "ok" : "not ok", number, c->name);
    fflush(stdout);
    return good;
}

int main(void)
{
    static const struct trouble_case cases[] = {
        {"groups_go_on_while_a_flush_hangs", hangs_case, CLUSTER_SHM},
        {"a_full_disk_leads_no_more", full_case, CLUSTER_SHM},
        {"clients_of_a_lost_disk_come_again", lost_case, CLUSTER_TCP},
    };
    uint32_t count = sizeof(cases) / sizeof(cases[0]);
    bool good = true;
    trouble =
        mmap(NULL, sizeof(*trouble), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trouble == MAP_FAILED)
        return 1;
    for (uint32_t i = 0; i < count; i++)
        good &= run_case(&cases[i], i + 1);
    printf("1..%u\n", count);
    return good ? 0 : 1;
}
