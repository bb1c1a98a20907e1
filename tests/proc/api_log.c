/* The log of a host (struct tram_log) tells what an operator asks about: who leads, who took over from whom, who
 * was detached and came back, who has ended, and that a callback was slow. Three hosts in threads, on shared memory. */
#include "base/clock.h"
#include "tram.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS = 3, BODY = 8192, SAID_BYTES = 1 << 16 };

#define SAID_WITHIN_NS UINT64_C(30000000000)
#define SLOW_NS UINT64_C(400000000) /* more than half of suspect_ms */

/* A long suspect_ms, so that a busy machine changes no leaders. */
static const char text[] = "name: api-log\n"
                           "suspect_ms: 600\n"
                           "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                           "groups: [{name: g1, replicas: [h1, h2, h3]}]\n";

struct member {
    const char *name;
    pthread_t thread;
    _Atomic bool hold, held, stop;
    _Atomic bool leads;
};

static struct member member[HOSTS] = {{.name = "h1"}, {.name = "h2"}, {.name = "h3"}};
static struct tram_cluster *cluster;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char said[SAID_BYTES];
static unsigned cases, failures;

static void note(void *ctx, enum tram_log_level level, const char *line)
{
    static const char *const names[] = {"info", "warning", "error"};
    (void)ctx;
    pthread_mutex_lock(&lock);
    size_t used = strlen(said);
    snprintf(said + used, sizeof(said) - used, "%s: %s\n", names[level], line);
    pthread_mutex_unlock(&lock);
}

static bool has_said(const char *what)
{
    pthread_mutex_lock(&lock);
    bool found = strstr(said, what) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The line comes within a time that only a broken host takes. */
static void expect(const char *name, const char *what)
{
    uint64_t until = clock_now_ns() + SAID_WITHIN_NS;
    while (!has_said(what) && clock_now_ns() < until)
        usleep(2000);
    bool good = has_said(what);
    printf("%sok %u - api_log__%s\n", good ? "" : "not ", ++cases, name);
    if (good)
        return;
    failures++;
    printf("# no '%s' in:\n", what);
    pthread_mutex_lock(&lock);
    for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n"))
        printf("# %s\n", line);
    pthread_mutex_unlock(&lock);
}

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    (void)ctx;
    (void)reply;
    (void)reply_max;
    uint64_t until = clock_thread_ns() + SLOW_NS;
    while (d->bytes == 4 && clock_thread_ns() < until)
        ;
    return 0;
}

static void *run_host(void *arg)
{
    struct member *m = arg;
    struct tram_host *host;
    struct tram_error e = {""};
    struct tram_host_options o = {.name = m->name, .machine = {.deliver = deliver}};
    if (tram_host_open(cluster, &o, &host, &e) != TRAM_OK) {
        fprintf(stderr, "%s: %s\n", m->name, e.text);
        exit(1);
    }
    while (!m->stop) {
        struct tram_replica_stats s;
        while (m->hold && !m->stop) {
            m->held = true;
            usleep(1000);
        }
        m->held = false;
        if (tram_host_step(host, &e) < 0) {
            fprintf(stderr, "%s: %s\n", m->name, e.text);
            exit(1);
        }
        tram_host_replica(host, 0, &s);
        m->leads = s.role == TRAM_LEADER;
    }
    tram_host_close(host);
    return NULL;
}

static struct member *leader(void)
{
    for (uint64_t until = clock_now_ns() + SAID_WITHIN_NS; clock_now_ns() < until; usleep(1000))
        for (int i = 0; i < HOSTS; i++)
            if (member[i].leads && !member[i].hold && !member[i].stop)
                return &member[i];
    fprintf(stderr, "nobody leads\n");
    exit(1);
}

static void hold(struct member *m, bool on)
{
    m->hold = on;
    while (m->held != on)
        usleep(1000);
}

static void cast(struct tram_client *c, uint32_t messages, uint32_t bytes)
{
    static const uint16_t g1 = 0;
    static char body[BODY];
    struct tram_error e = {""};
    for (uint32_t i = 0; i < messages; i++)
        if (tram_call(c, &g1, 1, body, bytes, NULL, 0, NULL, SAID_WITHIN_NS, &e) != TRAM_OK) {
            fprintf(stderr, "call: %s\n", e.text);
            exit(1);
        }
}

static const char *words(char *out, const char *fmt, const char *a)
{
    snprintf(out, 128, fmt, a);
    return out;
}

int main(void)
{
    char dir[] = "/tmp/tram-api-log-XXXXXX", line[128];
    struct tram_error e = {""};
    struct tram_client *client;
    const struct tram_log log = {.line = note};
    if (mkdtemp(dir) == NULL || setenv("XDG_RUNTIME_DIR", dir, 1) != 0)
        return 1;
    if (tram_cluster_parse(text, NULL, &cluster, &e) != TRAM_OK)
        return 1;
    tram_cluster_log(cluster, &log);
    for (int i = 0; i < HOSTS; i++)
        pthread_create(&member[i].thread, NULL, run_host, &member[i]);
    struct member *first = leader();
    expect("who_leads_first", "leads g1");
    if (tram_client_open(cluster, NULL, &client, &e) != TRAM_OK)
        return 1;

    /* A follower that hangs while the log goes round is detached, and comes back. */
    first = leader();
    struct member *slow = first == &member[0] ? &member[1] : &member[0];
    hold(slow, true);
    cast(client, 80, BODY);
    expect("a_detach",
           words(line, ": %s does not take what is written, and is detached in g1", slow->name));
    hold(slow, false);
    expect("a_return", words(line, ": %s is attached again in g1", slow->name));

    first = leader();
    hold(first, true);
    cast(client, 1, BODY);
    leader();
    expect("a_take_over", words(line, ": takes over g1 from %s", first->name));
    usleep(700000);
    hold(first, false);
    expect("a_thread_that_was_held_up",
           words(line, "warning: %s: its thread did not poll for ", first->name));

    cast(client, 1, 4);
    expect("a_slow_callback", " ms: a callback of the state machine is slow");

    first = leader();
    struct member *last = first == &member[0] ? &member[1] : &member[0];
    last->stop = true;
    pthread_join(last->thread, NULL);
    expect("an_end", words(line, ": the process of %s has ended", last->name));

    tram_client_close(client);
    for (int i = 0; i < HOSTS; i++) {
        member[i].stop = true;
        if (&member[i] != last)
            pthread_join(member[i].thread, NULL);
    }
    tram_cluster_free(cluster);
    rmdir(dir);
    printf("1..%u\n", cases);
    return failures > 0;
}
