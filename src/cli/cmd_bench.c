/* tram bench: how fast the protocols are on this machine, beside what the machine itself can do.
 *
 * Options and output; the measurements are in bench_log.c and bench_tree.c, the comparison of many in
 * bench_compare.c. */
#include "agree/entry.h"
#include "agree/log.h"
#include "cli/args.h"
#include "cli/bench_compare.h"
#include "cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOAD_LIMIT = 65536, GROUPS_LIMIT = 64 };

enum { SECONDS = 2, COMPARE_SECONDS = 120, QUICK_SECONDS = 15, TURNS = 5, QUICK_TURNS = 3 };

/* What the command line asks for. */
struct options {
    struct bench_args bench;
    bool compare, quick;
    const char *report;
    const char *single; /* an option given that --compare has no use for, or NULL */
};

static const char *const layout_names[] = {
    [BENCH_THREADS] = "threads", [BENCH_PROCS] = "procs", [BENCH_SINGLE] = "single", NULL};

static const char *const protocol_names[] = {"log", "tree", "genuine", NULL};

/* ---- printing ---- */

static void print_json_hist(const char *name, const struct hist *h)
{
    printf("\"%s\":{\"count\":%llu,\"p50\":%llu,\"p99\":%llu,\"p999\":%llu,\"max\":%llu}", name,
           (unsigned long long)hist_count(h), (unsigned long long)hist_quantile(h, 0.5),
           (unsigned long long)hist_quantile(h, 0.99), (unsigned long long)hist_quantile(h, 0.999),
           (unsigned long long)hist_max(h));
}

static void print_hist(const char *name, const struct hist *h)
{
    printf("%-34s p50 %6llu   p99 %6llu   p99.9 %7llu   max %9llu ns\n", name,
           (unsigned long long)hist_quantile(h, 0.5), (unsigned long long)hist_quantile(h, 0.99),
           (unsigned long long)hist_quantile(h, 0.999), (unsigned long long)hist_max(h));
}

static const char *protocol_name(const struct bench_args *a)
{
    return a->mcast ? mcast_protocol_name(a->protocol) : "log";
}

static void print_json(const struct bench_args *a, const struct bench_figures *f)
{
    printf("{\"protocol\":\"%s\",\"transport\":\"shm\",\"replicas\":%u,\"payload\":%u,",
           protocol_name(a), a->replicas, a->payload);
    if (a->mcast)
        printf("\"groups\":%u,\"tree\":\"%s\",\"destinations\":%u,\"adjacent\":%s,\"clients\":%u,"
               "\"hosts\":%u,\"layout\":\"%s\",",
               a->groups, overlay_shape_name(a->shape), a->dst, a->adjacent ? "true" : "false",
               a->clients, a->hosts, layout_names[a->layout]);
    print_json_hist("line_round_trip_ns", &f->line);
    putchar(',');
    print_json_hist("latency_ns", &f->latency);
    printf(",\"latency_in_round_trips\":%.2f,\"messages\":%llu,\"seconds\":%.3f,"
           "\"messages_per_second\":%.0f",
           f->ratio[BENCH_TURNS / 2], (unsigned long long)f->messages, f->seconds,
           (double)f->messages / f->seconds);
    /* In processes of their own the hosts' counts are out of reach. */
    if (a->layout != BENCH_PROCS)
        printf(",\"messages_per_batch\":%.1f", f->batch);
    printf("}\n");
}

static void print(const struct bench_args *a, const struct bench_figures *f)
{
    double rate = (double)f->messages / f->seconds;
    if (a->mcast)
        printf("%u groups of %u replicas, %s%s, %u hosts %s, %u-byte messages to %u%s %s\n",
               a->groups, a->replicas,
               a->protocol == MCAST_TREE ? overlay_shape_name(a->shape) : "genuine",
               a->protocol == MCAST_TREE ? " tree" : "", a->hosts,
               a->layout == BENCH_PROCS ? "as processes" : "in one thread", a->payload, a->dst,
               a->adjacent ? " adjacent" : "", a->dst == 1 ? "group" : "groups");
    else
        printf("replicated log, %u replicas, %u-byte messages, shared memory, 2 threads\n",
               a->replicas, a->payload);
    if (hist_count(&f->line) > 0)
        print_hist("cache line round trip", &f->line);
    print_hist(a->mcast ? "message done, one at a time" : "message committed, one at a time",
               &f->latency);
    if (hist_count(&f->line) > 0)
        printf("%-34s %.2f\n", "  in cache line round trips", f->ratio[BENCH_TURNS / 2]);
    printf("%-34s %.*f million messages/s", "saturated", rate < 1e5 ? 4 : 2, rate / 1e6);
    if (a->mcast)
        printf(", %u clients", a->clients);
    if (f->batch > 0)
        printf(", %.1f in a batch", f->batch);
    putchar('\n');
}

/* ---- arguments ---- */

static int check(struct options *o)
{
    struct bench_args *a = &o->bench;
    if (a->log_bytes & (a->log_bytes - 1))
        return args_bad("bench", "--log-bytes", "needs a power of two");
    if (o->compare && o->single)
        return args_bad("bench", o->single, "--compare measures them all");
    if (!o->compare && (o->quick || o->report))
        return args_bad("bench", o->quick ? "--quick" : "--report", "goes with --compare");
    if (o->report && o->report[0] == '\0')
        return args_bad("bench", "--report", "it needs a directory");
    if (a->seconds == 0)
        a->seconds = !o->compare ? SECONDS : o->quick ? QUICK_SECONDS : COMPARE_SECONDS;
    if (!a->mcast && !o->compare)
        return CMD_DONE;
    if (a->hosts == 0)
        a->hosts = a->replicas > 3 ? a->replicas : 3;
    if (a->hosts < a->replicas)
        return args_bad("bench", "--hosts", "each replica of a group needs a host of its own");
    if (a->dst > a->groups)
        return args_bad("bench", "--dst", "there are not that many groups");
    return CMD_DONE;
}

/* ---- the comparison ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static int measure_on_shm(void *ctx, const struct bench_args *point, struct bench_point *out,
                          struct err *e)
{
    (void)ctx;
    return bench_tree_point(point, out, e);
}

static void write_command(struct compare *c, int argc, char **argv)
{
    size_t used = (size_t)snprintf(c->command, sizeof(c->command), "tram");
    for (int i = 0; i < argc && used < sizeof(c->command); i++)
        used += (size_t)snprintf(c->command + used, sizeof(c->command) - used, " %s", argv[i]);
}

/* What was measured until then is worth having: errors and ^C only leave out the rest. */
static int compare(const struct options *o, int argc, char **argv)
{
    struct compare_options co = {
        .args = o->bench, .turns = o->quick ? QUICK_TURNS : TURNS, .quick = o->quick};
    struct sigaction on = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct compare c;
    struct err e = {""};
    int rc = o->report ? compare_report_dir(o->report, &e) : 0;
    if (rc == 0)
        rc = compare_open(&c, &co, &e);
    if (rc != 0) {
        fprintf(stderr, "tram bench: %s\n", e.text);
        return CMD_FAILED;
    }
    snprintf(c.origin, sizeof(c.origin), "measured on shared memory");
    write_command(&c, argc, argv);
    compare_facts_here(&c);
    sigaction(SIGINT, &on, NULL);
    uint32_t missing = compare_run(&c, measure_on_shm, NULL, stderr, &interrupted);
    if (o->bench.json)
        compare_json(&c, stdout);
    else
        compare_print(&c, stdout);
    if (o->report)
        rc = compare_report(&c, o->report, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else if (o->report)
        fprintf(stderr, "wrote %s/index.html and %s/compare.json\n", o->report, o->report);
    if (missing > 0)
        fprintf(stderr, "tram bench: %u of %u points have no value\n", missing, c.cells);
    compare_close(&c);
    return rc == 0 && missing == 0 && !interrupted ? CMD_DONE : CMD_FAILED;
}

/* ---- one case ---- */

static int measure_one(const struct bench_args *a)
{
    struct err e = {""};
    struct bench_figures *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        fprintf(stderr, "tram bench: out of memory\n");
        return CMD_FAILED;
    }
    hist_init(&f->line);
    hist_init(&f->latency);
    int rc = a->mcast ? bench_tree(a, f, &e) : bench_log(a, f, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else if (a->json)
        print_json(a, f);
    else
        print(a, f);
    free(f);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

static int serve(const struct bench_args *a)
{
    struct err e = {""};
    int rc = bench_tree_serve(a, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: host %u: %s\n", a->serve_host + 1, e.text);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

int cmd_bench(int argc, char **argv)
{
    struct options o = {
        .bench = {.replicas = 3, .payload = 64, .groups = 8, .dst = 1, .clients = 8}};
    struct bench_args *a = &o.bench;
    unsigned protocol = 0, shape = OVERLAY_breadth, layout = BENCH_THREADS;
    bool protocol_given = false, groups_given = false, tree_given = false, dst_given = false;
    const struct args_option options[] = {
        {"--protocol", "NAME",
         "log: one replicated log; tree: multicast to groups in a tree; genuine: multicast among "
         "the destinations alone (default log, and tree if --groups is given)",
         .choice = &protocol, .choices = protocol_names, .needs = "the protocols are",
         .given = &protocol_given},
        {"--replicas", "R", "of a group, 1 to 9 (default 3)", .number32 = &a->replicas, .min = 1,
         .max = LOG_REPLICAS_MAX},
        {"--payload", "BYTES", "of a message, 0 to 65536 (default 64)", .number32 = &a->payload,
         .max = PAYLOAD_LIMIT},
        {"--seconds", "S",
         "length of each of the two measurements (default 2); with --compare of all of them "
         "together (default 120)",
         .number32 = &a->seconds, .min = 1, .max = 3600},
        {"--log-bytes", "B",
         "size of a log ring, a power of two (default: log 1048576, tree 262144)",
         .number32 = &a->log_bytes, .min = 1 << 16, .max = 1 << 30},
        {"--json", NULL, "one JSON object instead of text", .flag = &a->json},
        {.help = "For multicast:"},
        {"--groups", "G", "1 to 64 (default 8)", .number32 = &a->groups, .min = 1,
         .max = GROUPS_LIMIT, .given = &groups_given},
        {"--tree", "SHAPE", "base, breadth or depth (default breadth)", .choice = &shape,
         .choices = overlay_shape_names, .needs = "the trees are", .given = &tree_given},
        {"--dst", "K", "destinations of a message, drawn at random; all if K is G (default 1)",
         .number32 = &a->dst, .min = 1, .max = GROUPS_LIMIT, .given = &dst_given},
        {"--adjacent", NULL, "destinations are neighbours in the tree instead",
         .flag = &a->adjacent},
        {"--clients", "C", "that saturate it, 1 to 64 (default 8)", .number32 = &a->clients,
         .min = 1, .max = BENCH_CLIENTS_MAX},
        {"--hosts", "H", "1 to 16, at least as many as replicas (default as many, at least 3)",
         .number32 = &a->hosts, .min = 1, .max = BENCH_HOSTS_MAX},
        {"--layout", "NAME",
         "threads: one polls all hosts, another is all clients (default); procs: every host is a "
         "process; single: one thread is everything, and its CPU time is measured, which shows the "
         "work whatever else the machine does",
         .choice = &layout, .choices = layout_names, .needs = "the layouts are"},
        {.help = "Tree and genuine side by side, as in figures 5 to 8 of the TRAM paper:"},
        {"--compare", NULL,
         "base, breadth, depth and genuine, over 1 to G destinations at random and adjacent, "
         "messages of 64 to 65536 bytes, 1 to 5 replicas; tables on standard output. --clients is "
         "the most that are tried. Takes a few minutes.",
         .flag = &o.compare},
        {"--quick", NULL, "about half of the points, in less than a minute", .flag = &o.quick},
        {"--report", "DIR", "also writes DIR/index.html, with plots, and DIR/compare.json",
         .text = &o.report, .needs = "a directory"},
        /* How bench_tree.c starts us as a host. */
        {"--serve-cluster", "NAME", NULL, .text = &a->serve, .needs = "a name"},
        {"--serve-host", "N", NULL, .number32 = &a->serve_host, .max = BENCH_HOSTS_MAX - 1},
        {0},
    };
    const struct args_command command = {
        .name = "bench",
        .usage = "[OPTIONS]\n       tram bench --compare [--quick] [--report DIR] [OPTIONS]",
        .about = "Measures on shared memory, in one run: the round trip of a cache line between "
                 "two cores, the latency of single messages, and the saturated throughput.",
        .options = options,
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    a->mcast = protocol_given ? protocol > 0 : groups_given;
    a->protocol = protocol == 2 ? MCAST_GENUINE : MCAST_TREE;
    a->shape = (enum overlay_shape)shape;
    a->layout = (enum bench_layout)layout;
    o.single = protocol_given ? "--protocol"
               : tree_given   ? "--tree"
               : dst_given    ? "--dst"
               : a->adjacent  ? "--adjacent"
                              : NULL;
    code = check(&o);
    if (code != CMD_DONE)
        return code;
    if (a->serve)
        return serve(a);
    return o.compare ? compare(&o, argc, argv) : measure_one(a);
}
