/* A telemetry bus: one process measures, two others listen, by topics.
 *
 *     telemetry CLUSTER_FILE [READINGS]
 *
 * h1 publishes readings as fast as they are taken, to an unordered topic. h2 and h3 each raise an alarm at every thousandth
 * reading, to an atomic topic: all three must see the same alarms in the same order. Each host is a process. */
#include "tram/topic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 3, ALARM_EVERY = 1000 };

struct reading {
    uint64_t number;
    double value[7];
};

struct station {
    uint32_t host;
    uint64_t readings;               /* that there are going to be */
    uint64_t read, alarms, hash;     /* what came */
    uint64_t alarms_due, alarms_out; /* to raise, and raised */
    double begun_s, ended_s;
};

static void die(const char *what, const struct tram_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e->text);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_readings(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct station *s = ctx;
    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        const struct reading *r = item[i].data; /* read where the publisher wrote it */
        if (r->number != s->read++)
            die("readings", &(struct tram_error){"one is missing"});
    }
    s->alarms_due = s->read / ALARM_EVERY;
    s->begun_s = s->begun_s == 0 ? now_s() : s->begun_s;
    s->ended_s = s->read == s->readings ? now_s() : 0;
}

static void on_alarms(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct station *s = ctx;
    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        s->hash = s->hash * 31 + *(const uint64_t *)item[i].data; /* the order matters */
        s->alarms++;
    }
}

/* As many as there is room for now. */
static void measure(struct tram_topic *t, struct station *s)
{
    for (struct reading *r; s->read < s->readings; tram_publish_commit(t, r, sizeof(*r))) {
        if ((r = tram_publish_reserve(t, sizeof(*r))) == NULL)
            return;
        *r = (struct reading){.number = s->read++, .value = {20.5}};
    }
}

static void raise_alarms(struct tram_topic *t, struct station *s)
{
    uint64_t alarm = s->alarms_out * ALARM_EVERY * HOSTS + s->host; /* which, by whom */
    if (s->alarms_out < s->alarms_due && tram_publish(t, &alarm, sizeof(alarm), NULL) == TRAM_OK)
        s->alarms_out++; /* else not now */
}

/* A process. Column 0 of the alarms says how many of them each host has seen, so that nobody ends early. */
static void run(const struct tram_cluster *c, uint32_t host, uint64_t readings, int results)
{
    struct tram_error e = {""};
    struct station s = {.host = host, .readings = readings};
    struct tram_group_options o = {.host = tram_cluster_host_name(c, host)};
    struct tram_group *g;
    if (tram_group_open(c, &o, &g, &e) != TRAM_OK)
        die(o.host, &e);
    unsigned role = host == 0 ? TRAM_PUBLISH : TRAM_SUBSCRIBE;
    struct tram_topic_options readings_of = {role, 0, on_readings, &s};
    struct tram_topic_options alarms_of = {TRAM_PUBLISH | TRAM_SUBSCRIBE, 0, on_alarms, &s};
    struct tram_topic *r, *a; /* of the quality that the cluster file says */
    if (tram_topic_open(g, "readings", &readings_of, &r, &e) != TRAM_OK ||
        tram_topic_open(g, "alarms", &alarms_of, &a, &e) != TRAM_OK)
        die(o.host, &e);
    uint32_t cell = (uint32_t)tram_group_cell(g, "alarms", 0);
    uint64_t alarms = readings / ALARM_EVERY * (HOSTS - 1);
    bool begun = false;
    while (tram_column_min(g, cell, 0) < alarms + 1) {
        if (tram_group_step(g, &e) < 0)
            die(o.host, &e);
        const struct tram_view *v = tram_group_view(g);
        begun |= v && v->members == (1U << HOSTS) - 1;
        if (host == 0 && begun)
            measure(r, &s);
        raise_alarms(a, &s);
        if (s.read == readings && s.alarms == alarms)
            tram_column_set(g, cell, 0, alarms + 1);
    }
    tram_group_close(g); /* and its topics */
    exit(write(results, &s, sizeof(s)) == sizeof(s) ? 0 : 1);
}

int main(int argc, char **argv)
{
    struct tram_error e = {""};
    struct tram_cluster *c;
    uint64_t readings = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    struct station s[HOSTS];
    char name[24];
    int results[2], status;
    bool good = true;
    if (tram_cluster_load(argc > 1 ? argv[1] : "telemetry.yaml", &c, &e) != TRAM_OK)
        die("cluster", &e);
    snprintf(name, sizeof(name), "telemetry-%d", (int)getpid());
    tram_cluster_rename(c, name, &e); /* two runs at once do not meet */
    if (pipe(results) != 0)
        return 1;
    for (uint32_t h = 0; h < HOSTS; h++)
        if (fork() == 0)
            run(c, h, readings, results[1]);
    while (wait(&status) > 0)
        good &= status == 0;
    for (uint32_t h = 0; good && h < HOSTS; h++)
        good = read(results[0], &s[h], sizeof(s[h])) == sizeof(s[h]) && s[h].hash == s[0].hash;
    for (uint32_t h = 0; good && h < HOSTS; h++)
        if (s[h].host > 0)
            printf("h%u: %" PRIu64 " readings, %.0f a second; %" PRIu64 " alarms\n", s[h].host + 1,
                   s[h].read, (double)s[h].read / (s[h].ended_s - s[h].begun_s), s[h].alarms);
    printf("alarms are %s\n", good ? "equal everywhere" : "DIFFERENT");
    tram_cluster_free(c);
    return good ? 0 : 1;
}
