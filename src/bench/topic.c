#include "bench/topic.h"

#include "api/secret.h"
#include "base/clock.h"
#include "bench/transport.h"
#include "tram/topic.h"

#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    AT_ONCE = 64, /* samples between two rounds */
    PATH_BYTES = 256,
    UNORDERED = 0,
    ATOMIC = 1,
    MEASURED = 2, /* topics; the others are idle */
    PARTS = 2,    /* of a turn, for each topic: latency, rate */
};

#define SECOND UINT64_C(1000000000)
#define GIVE_UP_NS (10 * SECOND)

enum phase { PHASE_SERVE, PHASE_STOP };

/* What a subscriber has got. Its process writes, on lines of its own. */
struct topic_reader {
    _Alignas(128) _Atomic uint64_t count[MEASURED];
    _Alignas(128) _Atomic uint64_t wrong; /* samples that were not the next, or not whole */
    _Atomic uint64_t cpu_ns;              /* that its process has taken, */
    _Atomic uint64_t cpu_asked;           /* as of this question of the publisher's */
    _Atomic bool ready;
    struct hist way; /* of samples that are timed; the publisher's while none is under way */
    char error[TRAM_ERROR_BYTES];
};

struct topic_shared {
    _Alignas(128) _Atomic int phase;
    _Atomic uint64_t cpu_question;
    struct topic_reader reader[TOPIC_SUBSCRIBERS];
};

struct topic_sample {
    uint64_t number;  /* from 0, of the topic */
    uint64_t sent_ns; /* 0: it is not timed */
    uint64_t sum;     /* of the words behind it */
};

_Static_assert(sizeof(struct topic_sample) == TOPIC_SIZE_LEAST, "the least that a sample has");

struct topic_bench {
    const struct topic_args *args;
    char dir[PATH_BYTES], file[PATH_BYTES + 16];
    struct tram_cluster *cluster;
    struct tram_group *group;
    struct tram_topic *topic[MEASURED];
    struct topic_shared *shared;
    pid_t pid[TOPIC_SUBSCRIBERS];
    uint64_t published[MEASURED];
    unsigned char *sample;
};

static const char *const topic_names[MEASURED] = {"unordered", "atomic"};

/* ---- the cluster ---- */

static int write_hosts(FILE *f, const struct topic_args *a, struct err *e)
{
    uint32_t next = (uint32_t)getpid() * 31;
    int rc = 0;
    fputs("hosts:\n", f);
    for (uint32_t h = 1; rc == 0 && h <= TOPIC_HOSTS; h++) {
        uint16_t port = 0;
        fprintf(f, "  - {name: h%u", h);
        if (a->transport != BENCH_SHM) {
            rc = bench_port(a->address, &next, &port, e);
            fprintf(f, ", address: \"%s:%u\"", a->address, port);
        }
        fputs("}\n", f);
    }
    return rc;
}

/* Who is put out while another process has the core would end the measurement: nobody is. */
static int write_file(const struct topic_bench *b, FILE *f, struct err *e)
{
    const struct topic_args *a = b->args;
    char name[64];
    nodes_name(name, sizeof(name));
    fprintf(f, "name: %s\nprotocol: group\ntransport: %s\nstart_ms: 50\nsuspect_ms: 10000\n", name,
            bench_transport_names[a->transport]);
    if (a->transport == BENCH_TCP)
        fprintf(f, "encrypt: %s\n", a->clear ? "false" : "true");
    int rc = write_hosts(f, a, e);
    fprintf(f,
            "subgroups:\n"
            "  - {name: unordered, mode: raw, senders: [h1], members_min: %d}\n"
            "  - {name: atomic, senders: [h1], members_min: %d}\n",
            TOPIC_HOSTS, TOPIC_HOSTS);
    for (int i = MEASURED; i < TOPIC_IDLE; i++)
        fprintf(f, "  - {name: idle%d, mode: %s, ring_bytes: 64k}\n", i, i % 2 ? "raw" : "memory");
    return rc;
}

/* Keys for what runs over a network, and the file with them. */
static int add_keys(const struct topic_bench *b, struct err *e)
{
    struct cluster *c = NULL;
    int rc = cluster_load_lax(b->file, &c, e);
    if (rc == 0)
        rc = api_keys_make(c, b->file, e);
    FILE *f = rc >= 0 ? fopen(b->file, "we") : NULL;
    if (f) {
        rc = cluster_write(f, c, e);
        rc = fclose(f) == 0 || rc != 0 ? rc : err_sys(e, "write %s", b->file);
    }
    cluster_free(c);
    return rc < 0 ? rc : 0;
}

static int cluster_open(struct topic_bench *b, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    struct tram_error error = {""};
    snprintf(b->dir, sizeof(b->dir), "%.200s/tram-bench-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (mkdtemp(b->dir) == NULL) {
        int rc = err_sys(e, "make %s", b->dir);
        b->dir[0] = '\0';
        return rc;
    }
    snprintf(b->file, sizeof(b->file), "%s/topic.yaml", b->dir);
    FILE *f = fopen(b->file, "we");
    int rc = f ? write_file(b, f, e) : err_sys(e, "make %s", b->file);
    if (f && fclose(f) != 0 && rc == 0)
        rc = err_sys(e, "write %s", b->file);
    if (rc == 0 && b->args->transport == BENCH_TCP && !b->args->clear)
        rc = add_keys(b, e);
    if (rc == 0 && tram_cluster_load(b->file, &b->cluster, &error) != TRAM_OK)
        rc = err_set(e, ERR_INVALID, "%s", error.text);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void cluster_close(struct topic_bench *b)
{
    tram_cluster_free(b->cluster);
    if (b->dir[0])
        nftw(b->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- samples ---- */

static uint64_t sum_words(const unsigned char *data, uint32_t bytes)
{
    uint64_t sum = 0, word;
    for (uint32_t at = sizeof(struct topic_sample); at + 8 <= bytes; at += 8) {
        memcpy(&word, data + at, 8);
        sum += word;
    }
    return sum;
}

static bool publish(struct topic_bench *b, uint32_t topic, uint64_t sent_ns)
{
    const struct topic_args *a = b->args;
    unsigned char *room = tram_publish_reserve(b->topic[topic], a->size);
    if (room == NULL)
        return false;
    uint64_t number = b->published[topic]++;
    const struct topic_sample head = {
        .number = number, .sent_ns = sent_ns, .sum = sum_words(b->sample, a->size)};
    memcpy(b->sample, &head, sizeof(head));
    memcpy(room, b->sample, a->size);
    tram_publish_commit(b->topic[topic], room, a->size);
    return true;
}

/* ---- a subscriber ---- */

struct subscription {
    struct topic_reader *reader;
    uint32_t topic;
    uint64_t next;
};

static void on_samples(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct subscription *s = ctx;
    uint64_t wrong = 0;
    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        struct topic_sample head;
        memcpy(&head, item[i].data, sizeof(head));
        wrong += head.number != s->next++ || head.sum != sum_words(item[i].data, item[i].bytes);
        if (head.sent_ns)
            hist_add(&s->reader->way, clock_now_ns() - head.sent_ns);
    }
    if (wrong)
        atomic_fetch_add(&s->reader->wrong, wrong);
    atomic_store_explicit(&s->reader->count[s->topic], s->next, memory_order_release);
}

static void on_nothing(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    (void)ctx, (void)view, (void)item, (void)count;
}

static int open_group(struct topic_bench *b, uint32_t host, struct err *e)
{
    struct tram_error error = {""};
    char name[16];
    snprintf(name, sizeof(name), "h%u", host + 1);
    const struct tram_group_options o = {.host = name};
    if (tram_group_open(b->cluster, &o, &b->group, &error) != TRAM_OK)
        return err_set(e, ERR_SYSTEM, "%s", error.text);
    for (int i = MEASURED; i < TOPIC_IDLE; i++) {
        char topic[16];
        struct tram_topic *t;
        const struct tram_topic_options idle = {.role = TRAM_PUBLISH | TRAM_SUBSCRIBE,
                                                .on_samples = on_nothing};
        snprintf(topic, sizeof(topic), "idle%d", i);
        if (tram_topic_open(b->group, topic, &idle, &t, &error) != TRAM_OK)
            return err_set(e, ERR_SYSTEM, "%s", error.text);
    }
    return 0;
}

static bool all_there(const struct topic_bench *b)
{
    const struct tram_view *v = tram_group_view(b->group);
    return v && v->adequate && v->members == (UINT64_C(1) << TOPIC_HOSTS) - 1;
}

static uint64_t cpu_ns(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * SECOND +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static int subscribe(struct topic_bench *b, uint32_t host, struct subscription s[MEASURED],
                     struct err *e)
{
    struct tram_error error = {""};
    int rc = open_group(b, host, e);
    for (uint32_t i = 0; rc == 0 && i < MEASURED; i++) {
        s[i] = (struct subscription){.reader = &b->shared->reader[host - 1], .topic = i};
        const struct tram_topic_options o = {
            .role = TRAM_SUBSCRIBE, .on_samples = on_samples, .ctx = &s[i]};
        if (tram_topic_open(b->group, topic_names[i], &o, &b->topic[i], &error) != TRAM_OK)
            rc = err_set(e, ERR_SYSTEM, "%s", error.text);
    }
    return rc;
}

/* Steps until it is over; tells what the processor had to do when it is asked. */
static int serve(struct topic_bench *b, struct topic_reader *r, struct err *e)
{
    struct tram_error error = {""};
    while (atomic_load_explicit(&b->shared->phase, memory_order_relaxed) != PHASE_STOP) {
        if (tram_group_step(b->group, &error) < 0)
            return err_set(e, ERR_SYSTEM, "%s", error.text);
        uint64_t question = atomic_load_explicit(&b->shared->cpu_question, memory_order_relaxed);
        if (question != atomic_load_explicit(&r->cpu_asked, memory_order_relaxed)) {
            atomic_store(&r->cpu_ns, cpu_ns());
            atomic_store(&r->cpu_asked, question);
        }
        if (!atomic_load_explicit(&r->ready, memory_order_relaxed) && all_there(b))
            atomic_store(&r->ready, true);
    }
    return 0;
}

static void be_subscriber(struct topic_bench *b, uint32_t host)
{
    struct subscription s[MEASURED];
    struct topic_reader *r = &b->shared->reader[host - 1];
    struct err e = {""};
    int rc = subscribe(b, host, s, &e);
    if (rc == 0)
        rc = serve(b, r, &e);
    if (rc != 0)
        snprintf(r->error, sizeof(r->error), "%s", e.text);
    tram_group_close(b->group);
    _exit(rc == 0 ? 0 : 1);
}

static int start_subscribers(struct topic_bench *b, struct err *e)
{
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++) {
        fflush(NULL);
        pid_t parent = getpid(), pid = fork();
        if (pid < 0)
            return err_sys(e, "start a process");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                be_subscriber(b, i + 1);
            _exit(1);
        }
        b->pid[i] = pid;
    }
    return 0;
}

static int subscriber_ended(struct topic_bench *b, struct err *e)
{
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        if (waitpid(b->pid[i], NULL, WNOHANG) == b->pid[i]) {
            b->pid[i] = 0;
            return err_set(e, ERR_SYSTEM, "a subscriber has ended: %s", b->shared->reader[i].error);
        }
    return 0;
}

/* ---- the publisher ---- */

static int step(struct topic_bench *b, struct err *e)
{
    struct tram_error error = {""};
    return tram_group_step(b->group, &error) < 0 ? err_set(e, ERR_SYSTEM, "%s", error.text) : 0;
}

/* Steps until it holds. */
static int await(struct topic_bench *b, bool (*holds)(const struct topic_bench *), const char *what,
                 struct err *e)
{
    int rc = 0;
    for (uint64_t end = clock_now_ns() + GIVE_UP_NS; rc == 0 && !holds(b);) {
        rc = step(b, e);
        if (rc == 0 && clock_now_ns() > end) {
            rc = subscriber_ended(b, e);
            rc = rc ? rc : err_set(e, ERR_TIMEOUT, "%s within 10 s", what);
        }
    }
    return rc;
}

static bool all_ready(const struct topic_bench *b)
{
    bool all = all_there(b);
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        all &= atomic_load_explicit(&b->shared->reader[i].ready, memory_order_relaxed);
    return all;
}

static bool all_got(const struct topic_bench *b)
{
    bool all = true;
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        for (uint32_t t = 0; t < MEASURED; t++)
            all &= atomic_load_explicit(&b->shared->reader[i].count[t], memory_order_acquire) ==
                   b->published[t];
    return all;
}

static int drain(struct topic_bench *b, struct err *e)
{
    return await(b, all_got, "the subscribers did not get all samples", e);
}

static int measure_way(struct topic_bench *b, uint32_t topic, uint64_t ns, struct topic_case *c,
                       struct err *e)
{
    struct hist h;
    int rc = 0;
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        hist_init(&b->shared->reader[i].way);
    for (uint64_t end = clock_now_ns() + ns; rc == 0 && clock_now_ns() < end;) {
        if (publish(b, topic, clock_now_ns()))
            rc = drain(b, e);
        else
            rc = step(b, e);
    }
    hist_init(&h);
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        hist_merge(&h, &b->shared->reader[i].way);
    c->p50 = (double)hist_quantile(&h, 0.5);
    c->p99 = (double)hist_quantile(&h, 0.99);
    return rc;
}

static uint64_t least_count(const struct topic_bench *b, uint32_t topic)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++) {
        uint64_t n = atomic_load(&b->shared->reader[i].count[topic]);
        least = n < least ? n : least;
    }
    return least;
}

static int publish_for(struct topic_bench *b, uint32_t topic, uint64_t ns, struct err *e)
{
    int rc = 0;
    for (uint64_t end = clock_now_ns() + ns; rc == 0 && clock_now_ns() < end;) {
        for (uint32_t i = 0; i < AT_ONCE && publish(b, topic, 0); i++)
            ;
        rc = step(b, e);
    }
    return rc;
}

static int measure_rate(struct topic_bench *b, uint32_t topic, uint64_t ns, struct topic_case *c,
                        struct err *e)
{
    int rc = publish_for(b, topic, ns / 8, e); /* everybody is awake */
    uint64_t start = clock_now_ns(), first = least_count(b, topic);
    if (rc == 0)
        rc = publish_for(b, topic, ns, e);
    c->rate = (double)(least_count(b, topic) - first) * 1e9 / (double)(clock_now_ns() - start);
    return rc ? rc : drain(b, e);
}

static bool all_told(const struct topic_bench *b)
{
    bool all = true;
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        all &=
            atomic_load(&b->shared->reader[i].cpu_asked) == atomic_load(&b->shared->cpu_question);
    return all;
}

static int cpu_of_all(struct topic_bench *b, uint64_t cpu[TOPIC_HOSTS], struct err *e)
{
    atomic_fetch_add(&b->shared->cpu_question, 1);
    int rc = await(b, all_told, "the subscribers did not tell their times", e);
    cpu[0] = cpu_ns();
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        cpu[i + 1] = atomic_load(&b->shared->reader[i].cpu_ns);
    return rc;
}

static int measure_idle(struct topic_bench *b, uint64_t ns, struct topic_figures *f, struct err *e)
{
    uint64_t before[TOPIC_HOSTS], after[TOPIC_HOSTS], rest = clock_now_ns() + ns / 8;
    int rc = 0;
    while (rc == 0 && clock_now_ns() < rest) /* until all have fallen asleep */
        rc = step(b, e);
    rc = rc ? rc : cpu_of_all(b, before, e);
    uint64_t start = clock_now_ns();
    while (rc == 0 && clock_now_ns() - start < ns)
        rc = step(b, e);
    double took = (double)(clock_now_ns() - start);
    rc = rc ? rc : cpu_of_all(b, after, e);
    for (uint32_t h = 0; rc == 0 && h < TOPIC_HOSTS; h++) {
        f->idle_each[h] = (double)(after[h] - before[h]) / took;
        f->idle += f->idle_each[h];
    }
    return rc;
}

/* ---- the whole ---- */

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double median(const double *turn)
{
    double v[TOPIC_TURNS];
    memcpy(v, turn, sizeof(v));
    qsort(v, TOPIC_TURNS, sizeof(v[0]), by_value);
    return v[TOPIC_TURNS / 2];
}

static void conclude(const struct topic_case turn[MEASURED][TOPIC_TURNS], struct topic_figures *f)
{
    double rate[MEASURED][TOPIC_TURNS], p50[TOPIC_TURNS], p99[TOPIC_TURNS], ratio[TOPIC_TURNS];
    for (uint32_t t = 0; t < MEASURED; t++) {
        struct topic_case *c = t == ATOMIC ? &f->atomic : &f->unordered;
        for (uint32_t i = 0; i < TOPIC_TURNS; i++) {
            rate[t][i] = turn[t][i].rate;
            p50[i] = turn[t][i].p50;
            p99[i] = turn[t][i].p99;
        }
        *c = (struct topic_case){.rate = median(rate[t]), .p50 = median(p50), .p99 = median(p99)};
    }
    for (uint32_t i = 0; i < TOPIC_TURNS; i++)
        ratio[i] = rate[UNORDERED][i] > 0 ? rate[ATOMIC][i] / rate[UNORDERED][i] : 0;
    f->ratio = median(ratio);
}

static int measure(struct topic_bench *b, struct topic_figures *f, struct err *e)
{
    static struct topic_case turn[MEASURED][TOPIC_TURNS];
    uint64_t part = b->args->seconds * SECOND / (TOPIC_TURNS * MEASURED);
    int rc = await(b, all_ready, "the processes did not find together", e);
    for (uint32_t i = 0; rc == 0 && i < TOPIC_TURNS; i++)
        for (uint32_t t = 0; rc == 0 && t < MEASURED; t++) {
            rc = measure_way(b, t, part, &turn[t][i], e);
            rc = rc ? rc : measure_rate(b, t, part, &turn[t][i], e);
        }
    rc = rc ? rc : measure_idle(b, b->args->seconds * SECOND, f, e);
    for (uint32_t i = 0; rc == 0 && i < TOPIC_SUBSCRIBERS; i++)
        if (atomic_load(&b->shared->reader[i].wrong))
            rc = err_set(e, ERR_CORRUPT, "a subscriber got samples that were not the next");
    if (rc == 0)
        conclude((const struct topic_case(*)[TOPIC_TURNS])turn, f);
    return rc;
}

static int open_publisher(struct topic_bench *b, struct err *e)
{
    const struct tram_topic_options o = {.role = TRAM_PUBLISH};
    struct tram_error error = {""};
    int rc = open_group(b, 0, e);
    for (uint32_t i = 0; rc == 0 && i < MEASURED; i++)
        if (tram_topic_open(b->group, topic_names[i], &o, &b->topic[i], &error) != TRAM_OK)
            rc = err_set(e, ERR_SYSTEM, "%s", error.text);
    return rc;
}

static void stop_all(struct topic_bench *b)
{
    atomic_store(&b->shared->phase, PHASE_STOP);
    tram_group_close(b->group);
    for (uint32_t i = 0; i < TOPIC_SUBSCRIBERS; i++)
        if (b->pid[i] > 0)
            waitpid(b->pid[i], NULL, 0);
}

int bench_topic(const struct topic_args *a, struct topic_figures *f, struct err *e)
{
    struct topic_bench b = {.args = a, .sample = malloc(a->size)};
    *f = (struct topic_figures){.idle = 0};
    b.shared =
        mmap(NULL, sizeof(*b.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.sample == NULL || b.shared == MAP_FAILED) {
        free(b.sample);
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    memset(b.sample, 0x5a, a->size);
    int rc = cluster_open(&b, e);
    rc = rc ? rc : start_subscribers(&b, e);
    rc = rc ? rc : open_publisher(&b, e);
    rc = rc ? rc : measure(&b, f, e);
    stop_all(&b);
    cluster_close(&b);
    munmap(b.shared, sizeof(*b.shared));
    free(b.sample);
    return rc;
}

/* ---- telling ---- */

/* What is asked of the topics on this machine; 0: nothing. */
static double rate_bar(const struct topic_args *a)
{
    bool usual = a->size == 64;
    return !usual ? 0 : a->transport == BENCH_SHM ? 2e6 : a->transport == BENCH_TCP ? 505e3 : 0;
}

static void print_bar(double bar, const char *unit, bool reached, FILE *f)
{
    if (bar > 0)
        fprintf(f, "  (bar %g%s: %s)", bar, unit, reached ? "reached" : "missed");
    fputc('\n', f);
}

static void print_case(const struct topic_args *a, const char *name, const struct topic_case *c,
                       double way_bar, FILE *f)
{
    double bar = rate_bar(a);
    fprintf(f, "%-10s %9.4f million samples/s", name, c->rate / 1e6);
    print_bar(bar / 1e6, " million", c->rate >= bar, f);
    fprintf(f, "%-10s one way, one at a time: p50 %.1f us, p99 %.1f us", "", c->p50 / 1e3,
            c->p99 / 1e3);
    print_bar(a->transport == BENCH_SHM && a->size == 64 ? way_bar / 1e3 : 0, " us",
              c->p50 <= way_bar, f);
}

void bench_topic_print(const struct topic_args *a, const struct topic_figures *p, FILE *f)
{
    fprintf(f,
            "a publisher and %d subscribers, a process each, %s%s, samples of %u bytes; medians of "
            "%d turns\n",
            TOPIC_SUBSCRIBERS, bench_transport_names[a->transport],
            a->clear ? " in clear text" : "", a->size, TOPIC_TURNS);
    print_case(a, "unordered", &p->unordered, 32e3, f);
    print_case(a, "atomic", &p->atomic, 64e3, f);
    fprintf(f, "atomic / unordered %.2f", p->ratio);
    print_bar(0.85, "", p->ratio >= 0.85, f);
    fprintf(f, "%d topics, nothing published: %.2f %% of a core", TOPIC_IDLE, p->idle * 100);
    print_bar(2, " %", p->idle <= 0.02, f);
}

static void json_case(const char *name, const struct topic_case *c, FILE *f)
{
    fprintf(f, "\"%s\":{\"samples_per_second\":%.0f,\"way_p50_ns\":%.0f,\"way_p99_ns\":%.0f},",
            name, c->rate, c->p50, c->p99);
}

void bench_topic_json(const struct topic_args *a, const struct topic_figures *p, FILE *f)
{
    fprintf(f,
            "{\"protocol\":\"group\",\"topic\":true,\"transport\":\"%s\",\"encrypted\":%s,"
            "\"subscribers\":%d,\"size\":%u,\"turns\":%d,",
            bench_transport_names[a->transport],
            a->transport == BENCH_TCP && !a->clear ? "true" : "false", TOPIC_SUBSCRIBERS, a->size,
            TOPIC_TURNS);
    json_case("unordered", &p->unordered, f);
    json_case("atomic", &p->atomic, f);
    fprintf(f, "\"atomic_of_unordered\":%.3f,\"idle_topics\":%d,\"idle_cores\":[", p->ratio,
            TOPIC_IDLE);
    for (uint32_t h = 0; h < TOPIC_HOSTS; h++)
        fprintf(f, "%s%.5f", h ? "," : "", p->idle_each[h]);
    fputs("]}\n", f);
}
