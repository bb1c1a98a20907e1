/* A telemetry bus: one process measures, two others listen, by topics.
 *
 *     telemetry CLUSTER_FILE [READINGS]
 *
 * h1 publishes readings as fast as they are taken, to an unordered topic. h2 and h3 each raise an alarm at every thousandth
 * reading, to an atomic topic: all three must see the same alarms in the same order. h1 also says now and then which limits hold, on a
 * volatile topic, to which the others subscribe when all readings are over: they get all that was said. A host is a process. */
#include "tram/topic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 3, ALARM_EVERY = 1000, LIMIT_EVERY = 10000 };

struct reading {
    uint64_t number;
    double value[7];
};

struct station {
    uint32_t host;
    uint64_t readings;                 /* that there are going to be */
    uint64_t read, limits;             /* published, or what came of them */
    uint64_t alarms, hash, alarms_out; /* that came, and that it has raised */
};

static void die(const char *what, const struct tram_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e->text);
    exit(1);
}

/* Readings and limits are numbered, and read where the publisher wrote them. Limits come late, and all the same from the first on. */
static void on_numbered(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    uint64_t *next = ctx;
    for (uint32_t i = 0; view > 0 && i < count; i++)
        if (*(const uint64_t *)item[i].data != (*next)++)
            die("samples", &(struct tram_error){"one is missing"});
}

static void on_alarms(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct station *s = ctx;
    for (uint32_t i = 0; view > 0 && i < count; i++) {
        s->hash = s->hash * 31 + *(const uint64_t *)item[i].data; /* the order matters */
        s->alarms++;
    }
}

/* As many as there is room for now. */
static void measure(struct tram_topic *readings, struct tram_topic *limits, struct station *s)
{
    for (struct reading *r; s->read < s->readings; tram_publish_commit(readings, r, sizeof(*r))) {
        if ((r = tram_publish_reserve(readings, sizeof(*r))) == NULL)
            break;
        *r = (struct reading){.number = s->read++, .value = {20.5}};
    }
    if (s->limits < s->read / LIMIT_EVERY)
        s->limits += tram_publish(limits, &s->limits, sizeof(s->limits), NULL) == TRAM_OK;
}

static void raise_alarms(struct tram_topic *t, struct station *s)
{
    uint64_t alarm = s->alarms_out * ALARM_EVERY * HOSTS + s->host; /* which, by whom */
    if (s->alarms_out < s->read / ALARM_EVERY) /* else, and if it cannot be now, later */
        s->alarms_out += tram_publish(t, &alarm, sizeof(alarm), NULL) == TRAM_OK;
}

static struct tram_topic *join(struct tram_group *g, const char *name, struct tram_topic_options o)
{
    struct tram_error e = {""};
    struct tram_topic *t; /* of the quality that the cluster file says */
    if (tram_topic_open(g, name, &o, &t, &e) != TRAM_OK)
        die(name, &e);
    return t;
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
    struct tram_topic_options takes = {.role = host ? TRAM_SUBSCRIBE : TRAM_PUBLISH};
    takes.on_samples = on_numbered;
    takes.ctx = &s.read;
    struct tram_topic *r = join(g, "readings", takes), *l = NULL;
    takes.from = TRAM_FROM_START;
    takes.ctx = &s.limits;
    struct tram_topic_options both = {.role = TRAM_PUBLISH | TRAM_SUBSCRIBE, .ctx = &s};
    both.on_samples = on_alarms;
    struct tram_topic *a = join(g, "alarms", both);
    uint32_t cell = (uint32_t)tram_group_cell(g, "alarms", 0);
    uint64_t alarms = readings / ALARM_EVERY * (HOSTS - 1);
    bool begun = false;
    while (tram_column_min(g, cell, 0) < alarms + 1) {
        if (tram_group_step(g, &e) < 0)
            die(o.host, &e);
        const struct tram_view *v = tram_group_view(g);
        begun |= v && v->members == (1U << HOSTS) - 1;
        if (host > 0)
            raise_alarms(a, &s);
        if (l == NULL && (host == 0 || s.read == readings))
            l = join(g, "limits", takes);
        if (host == 0 && begun)
            measure(r, l, &s);
        if (s.read == readings && s.alarms == alarms && s.limits == readings / LIMIT_EVERY)
            tram_column_set(g, cell, 0, alarms + 1);
    }
    tram_group_close(g);
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
    if (tram_cluster_load(argc > 1 ? argv[1] : "telemetry.yaml", &c, &e) != 0)
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
    for (uint32_t h = 0; good && h < HOSTS; h++) {
        good = read(results[0], &s[h], sizeof(s[h])) == sizeof(s[h]) && s[h].hash == s[0].hash;
        printf("h%u: %" PRIu64 " readings, %" PRIu64 " alarms\n", s[h].host + 1, s[h].read,
               s[h].alarms);
    }
    printf("alarms are %s\n", good ? "equal everywhere" : "DIFFERENT");
    tram_cluster_free(c);
    return good ? 0 : 1;
}
