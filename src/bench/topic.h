/* `tram bench --protocol group --topic`: one publisher and two subscribers, a process each, with the public API and a cluster file as
 * users have them.
 *
 * In turns, over an unordered and an atomic topic: one sample at a time, from publishing to the call of a subscriber, and as many as go.
 * Beside these two there are idle ones, and at the end all are: what the processor has to do then is measured too. */
#ifndef BENCH_TOPIC_H
#define BENCH_TOPIC_H

#include "bench/bench.h"

#include <stdio.h>

enum {
    TOPIC_SUBSCRIBERS = 2,
    TOPIC_HOSTS = TOPIC_SUBSCRIBERS + 1,
    TOPIC_IDLE = 10, /* that are open and have no samples, while nothing is published */
    TOPIC_TURNS = 5,
    TOPIC_SIZE_LEAST = 24,
    TOPIC_SIZE_MOST = 16 << 10,
};

struct topic_args {
    enum bench_transport transport; /* shm, tcp or verbs */
    const char *address;
    bool clear;
    uint32_t size;    /* bytes of a sample */
    uint32_t seconds; /* of each of the two parts, over all turns and both topics */
};

/* Medians over the turns. */
struct topic_case {
    double rate;     /* samples a second that each subscriber got, the slower one */
    double p50, p99; /* ns one way, one sample at a time; of both subscribers */
};

struct topic_figures {
    struct topic_case unordered, atomic;
    double ratio; /* of the rates, within a turn */
    double idle;  /* part of a core that all three processes take */
    double idle_each[TOPIC_HOSTS];
};

int bench_topic(const struct topic_args *, struct topic_figures *, struct err *);
void bench_topic_print(const struct topic_args *, const struct topic_figures *, FILE *);
void bench_topic_json(const struct topic_args *, const struct topic_figures *, FILE *);

#endif
