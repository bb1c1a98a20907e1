/* A flight recorder: each host of recorder.yaml says every so often what it measures, in a logged cell that outlives all of them.
 *
 *     recorder recorder.yaml HOST            be that host, and record, until ^C
 *     recorder recorder.yaml HOST SECONDS    what was recorded in the last so many seconds, also when nobody runs
 */
#include <tram/group.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- recording ---- */

struct recorder {
    int cell;
    bool in; /* in a view: it may send */
};

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    (void)before;
    ((struct recorder *)ctx)->in = now != NULL;
}

static int record(const struct tram_cluster *c, const char *host)
{
    struct recorder r = {0};
    struct tram_error e = {0};
    struct tram_group *g;
    const struct tram_group_options o = {.host = host, .machine = {.view = on_view}, .ctx = &r};
    if (tram_group_open(c, &o, &g, &e) != TRAM_OK) {
        fprintf(stderr, "recorder: %s\n", e.text);
        return 1;
    }
    r.cell = tram_group_cell(g, "flight", 0);
    int rc = 0;
    for (uint64_t next = 0; !stopped && rc >= 0; rc = tram_group_step(g, &e)) {
        char text[64];
        if (!r.in || now_ns() < next)
            continue;
        next = now_ns() + 10000000;
        int bytes = snprintf(text, sizeof(text), "%s flies at %d m", host, 9000 + rand() % 100);
        tram_group_send(g, (uint32_t)r.cell, text, (uint32_t)bytes, NULL); /* full: the next one */
    }
    if (rc < 0)
        fprintf(stderr, "recorder: %s\n", e.text);
    tram_group_close(g);
    return rc < 0;
}

/* ---- reading back ---- */

static int print(void *ctx, const struct tram_version *v)
{
    (void)ctx;
    printf("%llu.%09llu  %.*s\n", (unsigned long long)(v->time_ns / 1000000000),
           (unsigned long long)(v->time_ns % 1000000000), (int)v->bytes, (const char *)v->data);
    return 0;
}

static int read_back(const struct tram_cluster *c, const char *host, uint64_t seconds)
{
    struct tram_error e = {0};
    uint64_t from = now_ns() - seconds * 1000000000;
    if (tram_versions_read(c, host, "flight", 0, from, print, NULL, &e) == TRAM_OK)
        return 0;
    fprintf(stderr, "recorder: %s\n", e.text);
    return 1;
}

int main(int argc, char **argv)
{
    struct tram_cluster *c;
    struct tram_error e = {0};
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: recorder FILE HOST [SECONDS]\n");
        return 2;
    }
    if (tram_cluster_load(argv[1], &c, &e) != TRAM_OK) {
        fprintf(stderr, "recorder: %s\n", e.text);
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    int code = argc == 4 ? read_back(c, argv[2], strtoull(argv[3], NULL, 10)) : record(c, argv[2]);
    tram_cluster_free(c);
    return code;
}
