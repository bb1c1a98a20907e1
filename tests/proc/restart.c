/* A durable group with a large state: all its hosts are killed, with a snapshot and a part of the journal behind it on their disks, and
 * are started again. What was answered must be there, and the group must serve soon.
 *
 *      restart FILE DATA MEGABYTES JOURNAL_MEGABYTES LIMIT_MS
 *
 * prints TAP. FILE is a durable cluster of three hosts, whose directories in DATA are made; its first group gets the state. Prints how
 * long each host took to read what it has, and when the first call was answered. */
#include "../../examples/chunked.h"
#include "base/clock.h"
#include "tram.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 3, BODY_BYTES = 8 << 10, BOARD_FD = 40 };

#define MS UINT64_C(1000000)
#define PATIENCE_NS (120000 * MS)

/* What hosts show the test. */
struct board {
    _Atomic uint64_t opened_ns[HOSTS]; /* how long opening took */
    _Atomic uint64_t loaded[HOSTS];    /* bytes of state that were loaded, */
    _Atomic uint64_t loads[HOSTS];     /* and how often one was begun */
    _Atomic uint64_t count[HOSTS];     /* of messages, as of the last delivery */
    _Atomic uint64_t kept[HOSTS];      /* the position up to which the disk has all */
};

/* ---- a host ---- */

struct machine {
    struct chunked state; /* a count of messages first */
    struct board *board;
    uint32_t host;
};

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t max)
{
    struct machine *m = ctx;
    uint64_t count;
    memcpy(&count, chunked_read(&m->state, 0), sizeof(count));
    count++;
    memcpy(chunked_write(&m->state, 0), &count, sizeof(count));
    atomic_store(&m->board->count[m->host], count);
    memcpy(chunked_write(&m->state, (count % chunks_of(m->state.bytes)) * CHUNK_BYTES + 8), d->body,
           8);
    memcpy(reply, &count, sizeof(count) < max ? sizeof(count) : max);
    return sizeof(count) < max ? sizeof(count) : max;
}

static void *save_open(void *ctx, uint32_t group, uint64_t *bytes)
{
    struct machine *m = ctx;
    (void)group;
    return chunked_save_open(&m->state, bytes);
}

static int save_next(void *ctx, uint32_t group, void *save, void *out, uint32_t room)
{
    (void)ctx;
    (void)group;
    return chunked_save_next(save, out, room);
}

static void save_close(void *ctx, uint32_t group, void *save)
{
    (void)ctx;
    (void)group;
    chunked_save_close(save);
}

static int load_open(void *ctx, uint32_t group, uint64_t bytes)
{
    struct machine *m = ctx;
    (void)group;
    atomic_fetch_add(&m->board->loads[m->host], 1);
    return chunked_load_open(&m->state, bytes);
}

static int load_next(void *ctx, uint32_t group, const void *data, uint32_t bytes)
{
    struct machine *m = ctx;
    (void)group;
    atomic_fetch_add(&m->board->loaded[m->host], bytes);
    return chunked_load_next(&m->state, data, bytes);
}

static int load_close(void *ctx, uint32_t group, bool whole)
{
    struct machine *m = ctx;
    (void)group;
    return chunked_load_close(&m->state, whole);
}

/* What every host begins with, if its disk has nothing. */
static bool fill(struct chunked *s, uint64_t bytes)
{
    if (!chunked_resize(s, bytes))
        return false;
    for (uint64_t at = 0; at < bytes; at += CHUNK_BYTES) {
        unsigned char *to = chunked_write(s, at);
        if (to == NULL)
            return false;
        memset(to, (int)(at / CHUNK_BYTES % 251), CHUNK_BYTES);
    }
    memset(chunked_write(s, 0), 0, 8);
    return true;
}

/* In a first life it begins with a state of so many bytes. */
static int host_main(const char *file, uint32_t rank, uint64_t bytes)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct machine m = {
        .host = rank,
        .board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0)};
    struct tram_cluster *cluster;
    struct tram_host *host;
    struct tram_error error = {""};
    if (m.board == MAP_FAILED || (bytes > 0 && !fill(&m.state, bytes)))
        return 3;
    struct tram_host_options o = {.machine = {.deliver = deliver,
                                              .save_open = save_open,
                                              .save_next = save_next,
                                              .save_close = save_close,
                                              .load_open = load_open,
                                              .load_next = load_next,
                                              .load_close = load_close},
                                  .ctx = &m};
    int rc = tram_cluster_load(file, &cluster, &error);
    if (rc == 0) {
        uint64_t start = clock_now_ns();
        o.name = tram_cluster_host_name(cluster, rank);
        rc = tram_host_open(cluster, &o, &host, &error);
        atomic_store(&m.board->opened_ns[rank], clock_now_ns() - start);
    }
    while (rc >= 0) {
        struct tram_replica_stats stats;
        rc = tram_host_step(host, &error);
        tram_host_replica(host, 0, &stats);
        atomic_store(&m.board->kept[rank], stats.kept);
    }
    printf("# host %u: %s\n", rank, error.text);
    return 3;
}

/* ---- the test ---- */

struct test {
    const char *file, *data, *megabytes;
    char self[256];
    struct board *board;
    pid_t pid[HOSTS];
    struct tram_cluster *cluster;
    struct tram_client *client;
    uint64_t done;
    uint32_t tests, failed;
};

static void verdict(struct test *t, bool good, const char *what)
{
    printf("%sok %u - %s\n", good ? "" : "not ", ++t->tests, what);
    fflush(stdout);
    t->failed += !good;
}

static void start_hosts(struct test *t, const char *megabytes)
{
    char number[16];
    fflush(stdout);
    for (uint32_t h = 0; h < HOSTS; h++) {
        snprintf(number, sizeof(number), "%u", h);
        t->pid[h] = fork();
        if (t->pid[h] == 0) {
            execl(t->self, t->self, "host", t->file, megabytes, number, (char *)NULL);
            _exit(4);
        }
    }
}

static void kill_hosts(struct test *t)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        kill(t->pid[h], SIGKILL);
    for (uint32_t h = 0; h < HOSTS; h++)
        waitpid(t->pid[h], NULL, 0);
}

/* What the next lives do is not what these did. */
static void clear_board(struct test *t)
{
    for (uint32_t h = 0; h < HOSTS; h++) {
        atomic_store(&t->board->opened_ns[h], 0);
        atomic_store(&t->board->loaded[h], 0);
        atomic_store(&t->board->loads[h], 0);
        atomic_store(&t->board->count[h], 0);
        atomic_store(&t->board->kept[h], 0);
    }
}

static void on_done(void *ctx, uint64_t ticket)
{
    struct test *t = ctx;
    (void)ticket;
    t->done++;
}

/* One call, and what it was answered; 0: it was not. */
static uint64_t call(struct test *t)
{
    const uint16_t group = 0;
    const uint64_t body = 1;
    uint64_t count = 0;
    struct tram_error error = {""};
    int rc = tram_call(t->client, &group, 1, &body, sizeof(body), &count, sizeof(count), NULL,
                       PATIENCE_NS, &error);
    if (rc != 0)
        printf("# %s\n", error.text);
    return rc == 0 ? count : 0;
}

static bool all_have_delivered(const struct test *t, uint64_t count)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        if (atomic_load(&t->board->count[h]) < count)
            return false;
    return true;
}

static bool all_have_kept(const struct test *t)
{
    uint64_t first = atomic_load(&t->board->kept[0]);
    for (uint32_t h = 1; h < HOSTS; h++)
        if (atomic_load(&t->board->kept[h]) != first)
            return false;
    return true;
}

/* Until no host is behind, nor its disk: one that had no processor for long, and was sent a state meanwhile, goes on with that at once
 * and has it on its disk only later. Returns what the last call was answered; 0: one is still behind. */
static uint64_t draw_level(struct test *t)
{
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    while (clock_now_ns() < until) {
        uint64_t count = call(t);
        for (uint32_t i = 0; i < 100 && count > 0; i++) {
            if (all_have_delivered(t, count) && all_have_kept(t))
                return count;
            usleep(10000);
        }
        if (count == 0)
            return 0;
    }
    return 0;
}

static uint64_t sum(const _Atomic uint64_t *of)
{
    uint64_t n = 0;
    for (uint32_t h = 0; h < HOSTS; h++)
        n += atomic_load(&of[h]);
    return n;
}

/* Each has loaded its own state and delivered so many messages: who could not go on with the log was sent a state, and loaded that, too. */
static bool nobody_was_sent_a_state(const struct test *t, uint64_t count)
{
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    while (!all_have_delivered(t, count) && sum(t->board->loads) <= HOSTS && clock_now_ns() < until)
        usleep(1000);
    for (uint32_t h = 0; h < HOSTS; h++)
        printf("# host %u: opened in %.2f s, %llu MB of state loaded\n", h + 1,
               (double)atomic_load(&t->board->opened_ns[h]) / 1e9,
               (unsigned long long)atomic_load(&t->board->loaded[h]) >> 20);
    return all_have_delivered(t, count) && sum(t->board->loads) == HOSTS;
}

static bool open_client(struct test *t)
{
    const struct tram_client_options o = {.done = on_done, .ctx = t};
    struct tram_error error = {""};
    uint64_t until = clock_now_ns() + PATIENCE_NS;
    int rc;
    while ((rc = tram_client_open(t->cluster, &o, &t->client, &error)) != 0 &&
           clock_now_ns() < until)
        usleep(1000);
    if (rc != 0)
        printf("# %s\n", error.text);
    return rc == 0;
}

/* The file, of those that are whole; false: there is none. */
static bool find_snapshot(const struct test *t, uint32_t host, char *file, size_t bytes)
{
    char path[512];
    bool found = false;
    const struct dirent *entry;
    snprintf(path, sizeof(path), "%s/%s", t->data, tram_cluster_host_name(t->cluster, host));
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, "snap.", 5) == 0 && strstr(entry->d_name, ".tmp") == NULL) {
            snprintf(file, bytes, "%s/%s", path, entry->d_name);
            found = true;
        }
    if (dir)
        closedir(dir);
    return found;
}

/* In the middle of it: much of the state is with the machine by then. */
static bool damage_snapshot(const struct test *t, uint32_t host)
{
    char file[1024];
    unsigned char byte;
    int fd = find_snapshot(t, host, file, sizeof(file)) ? open(file, O_RDWR) : -1;
    off_t at = fd >= 0 ? lseek(fd, 0, SEEK_END) / 2 : 0;
    bool good = fd >= 0 && pread(fd, &byte, 1, at) == 1;
    byte ^= 1;
    good = good && pwrite(fd, &byte, 1, at) == 1;
    if (fd >= 0)
        close(fd);
    return good;
}

static bool all_have_snapshots(const struct test *t)
{
    char file[1024];
    for (uint32_t h = 0; h < HOSTS; h++)
        if (!find_snapshot(t, h, file, sizeof(file)))
            return false;
    return true;
}

/* As many messages as there is room for, until so many bytes more are delivered; 0: until all have a snapshot. */
static bool load(struct test *t, uint64_t bytes)
{
    static unsigned char body[BODY_BYTES];
    const uint16_t group = 0;
    uint64_t until = clock_now_ns() + PATIENCE_NS, first = t->done, ticket;
    for (uint32_t round = 0;; round++) {
        while (tram_cast(t->client, &group, 1, body, sizeof(body), &ticket, NULL) == 0)
            ;
        tram_client_wait(t->client, MS);
        if (bytes ? (t->done - first) * BODY_BYTES >= bytes
                  : round % 64 == 0 && all_have_snapshots(t))
            break;
        if (clock_now_ns() > until)
            return false;
    }
    while (tram_client_outstanding(t->client) > 0 && clock_now_ns() < until)
        tram_client_wait(t->client, MS);
    return tram_client_outstanding(t->client) == 0;
}

/* The first host finds out while it loads it, and is sent a state. */
static bool with_damage(struct test *t, uint64_t count)
{
    clear_board(t);
    if (!damage_snapshot(t, 0))
        return false;
    start_hosts(t, "0");
    bool good = open_client(t) && call(t) == count + 1 && draw_level(t) > count;
    tram_client_close(t->client);
    return good && atomic_load(&t->board->loads[0]) > 1;
}

static int run(struct test *t, uint64_t journal_bytes, uint64_t limit_ns)
{
    struct tram_error error = {""};
    if (tram_cluster_load(t->file, &t->cluster, &error) != 0) {
        printf("Bail out! %s\n", error.text);
        return 1;
    }
    start_hosts(t, t->megabytes);
    verdict(t, open_client(t) && load(t, 0), "restart__every_host_has_saved_its_state");
    verdict(t, load(t, journal_bytes), "restart__there_is_a_journal_behind_it");
    uint64_t count = draw_level(t);
    kill_hosts(t);
    tram_client_close(t->client);
    clear_board(t);
    uint64_t start = clock_now_ns();
    start_hosts(t, "0");
    uint64_t again = open_client(t) ? call(t) : 0;
    uint64_t took = clock_now_ns() - start;
    printf("# serves after %.2f s; %llu messages\n", (double)took / 1e9, (unsigned long long)count);
    verdict(t, count > 0 && again == count + 1, "restart__what_was_answered_is_there");
    verdict(t, took <= limit_ns, "restart__it_serves_soon");
    verdict(t, nobody_was_sent_a_state(t, again), "restart__nobody_is_sent_a_state");
    tram_client_close(t->client);
    kill_hosts(t);
    verdict(t, with_damage(t, again), "restart__a_damaged_snapshot_is_replaced");
    kill_hosts(t);
    tram_cluster_free(t->cluster);
    printf("1..%u\n", t->tests);
    return t->failed > 0;
}

static uint64_t megabytes(const char *text)
{
    return strtoull(text, NULL, 10) << 20;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "host") == 0)
        return host_main(argv[2], (uint32_t)strtoul(argv[4], NULL, 10), megabytes(argv[3]));
    if (argc != 6) {
        fprintf(stderr, "usage: restart FILE DATA MEGABYTES JOURNAL_MEGABYTES LIMIT_MS\n");
        return 2;
    }
    struct test *t = calloc(1, sizeof(*t));
    int fd = memfd_create("board", 0);
    if (t == NULL || fd < 0 || ftruncate(fd, sizeof(struct board)) != 0 || dup2(fd, BOARD_FD) < 0)
        return 1;
    t->file = argv[1];
    t->data = argv[2];
    t->megabytes = argv[3];
    t->board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, BOARD_FD, 0);
    ssize_t n = readlink("/proc/self/exe", t->self, sizeof(t->self) - 1);
    if (t->board == MAP_FAILED || n <= 0)
        return 1;
    int rc = run(t, megabytes(argv[4]), strtoull(argv[5], NULL, 10) * MS);
    free(t);
    return rc;
}
