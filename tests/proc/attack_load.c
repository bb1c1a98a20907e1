/* The legitimate client of tcp_attack: calls all the time, and measures how long each call takes.
 *
 *     attack_load FILE TRACE_DIR PAUSE_US
 *
 * Each line of its input ends a phase and names the next; the end of the input ends the last one. Of each phase a line
 * is printed:
 *
 *     NAME calls 2912 p50 181 p99 712 max 1204 failed 0
 *
 * in microseconds. A call that is not answered in time is awaited, so every message is acknowledged once; the exit code
 * says whether all were. */
#include "tram.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES_MAX = 1 << 20, BODY_BYTES = 64 };

#define CALL_NS UINT64_C(10000000000)

struct phase {
    char name[64];
    uint32_t *us;
    uint32_t calls, failed;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void report(struct phase *p)
{
    uint32_t n = p->calls < SAMPLES_MAX ? p->calls : SAMPLES_MAX;

    qsort(p->us, n, sizeof *p->us, by_size);
    if (n > 0)
        printf("%s calls %u p50 %u p99 %u max %u failed %u\n", p->name, p->calls, p->us[n / 2],
               p->us[n - 1 - n / 100], p->us[n - 1], p->failed);
    fflush(stdout);
    p->calls = p->failed = 0;
}

/* The next phase, if there is one by now. False: the input has ended. */
static bool next_phase(struct phase *p)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char name[sizeof p->name] = "";
    size_t used = 0;

    if (poll(&in, 1, 0) <= 0)
        return true;
    while (used + 1 < sizeof name && read(STDIN_FILENO, name + used, 1) == 1 && name[used] != '\n')
        used++;
    report(p);
    if (used == 0)
        return false;
    name[used] = 0;
    memcpy(p->name, name, sizeof name);
    return true;
}

static void call(struct tram_client *c, struct phase *p, uint64_t number)
{
    static const uint16_t groups[] = {0, 1};
    struct tram_error e = {""};
    char body[BODY_BYTES];

    snprintf(body, sizeof body, "legitimate message %llu", (unsigned long long)number);
    uint64_t begin = now_ns();
    int rc = tram_call(c, groups, 1 + (uint32_t)(number % 2), body, sizeof body, NULL, 0, NULL,
                       CALL_NS, &e);
    if (rc == TRAM_TIMEOUT)
        rc = tram_await(c, tram_client_last(c), NULL, CALL_NS, &e);
    uint64_t us = (now_ns() - begin) / 1000;
    if (rc < 0) {
        fprintf(stderr, "call %llu: %s: %s\n", (unsigned long long)number, tram_code_text(rc),
                e.text);
        p->failed++;
        usleep(100000);
    }
    if (p->calls < SAMPLES_MAX)
        p->us[p->calls] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    p->calls++;
}

int main(int argc, char **argv)
{
    struct phase p = {.name = "start", .us = calloc(SAMPLES_MAX, sizeof *p.us)};
    struct tram_cluster *cluster = NULL;
    struct tram_client *client = NULL;
    struct tram_error e = {""};
    uint32_t failed = 0;
    uint64_t number = 0;

    if (argc != 4 || !p.us)
        return 2;
    struct tram_client_options o = {.trace_dir = argv[2]};
    useconds_t pause = (useconds_t)strtoul(argv[3], NULL, 10);
    if (tram_cluster_load(argv[1], &cluster, &e) < 0 ||
        tram_client_open(cluster, &o, &client, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    while (next_phase(&p)) {
        uint32_t before = p.failed;
        call(client, &p, number++);
        failed += p.failed - before;
        usleep(pause);
    }
    tram_client_close(client);
    tram_cluster_free(cluster);
    free(p.us);
    printf("all calls %llu failed %u\n", (unsigned long long)number, failed);
    return failed > 0;
}
