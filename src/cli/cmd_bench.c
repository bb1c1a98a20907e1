/* tram bench: how fast the protocols are on this machine, beside what the machine itself can do.
 *
 * The command line and what is run for it; bench_check.c has what goes together, bench_print.c the output of one case. The
 * measurements are in bench/log.c and bench/mcast.c, the comparison of many in bench/compare.c, and all that in virtual time in
 * bench/model_bench.c. */
#include "agree/log.h"
#include "bench/durable.h"
#include "bench/log_votes.h"
#include "bench/topic.h"
#include "bench/wire.h"
#include "cli/bench_options.h"
#include "cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAYLOAD_LIMIT = 65536, GROUPS_LIMIT = 64 };
enum { GROUP_SECONDS = 30 };
enum { TURNS = 5, QUICK_TURNS = 3 };

static const char *const preset_names[] = {"fdr", "cx4", "shm", NULL};

static const char *const protocol_names[] = {"log", "tree", "genuine", "group", NULL};

enum { PROTOCOL_GROUP = 3 };

static const char *const sender_names[] = {"all", "half", "one", NULL};
static const char *const active_names[] = {"1", "all", NULL};
static const char *const votes_names[] = {"memories", "all", NULL};
static const char *const mode_names[] = {"memory", "raw", "logged", "durable", NULL};

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

/* The figures that are no part of a comparison: of the model, or against it. */
static int model_figures(const struct bench_options *o, struct err *e)
{
    struct bench_model m = o->model;
    int rc = 0;
    if (o->compare) {
        bench_model_print(&m, stdout);
        fprintf(stderr, "table 1: all leaders change at once\n");
        rc = bench_model_table1(&m, &o->bench, stdout, e);
        if (rc == 0 && o->own_presets)
            rc = bench_model_settle(&m, model_preset_named("cx4"), stderr, e);
        fprintf(stderr, "figure 5 of the RamCast paper\n");
        if (rc == 0)
            rc = bench_model_ramcast(&m, &o->bench, stdout, e);
    }
    return rc == 0 && o->check_model ? bench_model_check(&m, stdout, e) : rc;
}

static void compare_origin(const struct bench_options *o, struct compare *c)
{
    if (!bench_simulated(o)) {
        snprintf(c->origin, sizeof(c->origin), "measured on shared memory");
        compare_facts_here(c);
        return;
    }
    snprintf(c->origin, sizeof(c->origin), "in a model, preset %s", o->model.preset->name);
    compare_facts_machine(c);
    bench_model_facts(&o->model, c);
}

/* What was measured until then is worth having: errors and ^C only leave out the rest. */
static int compare(struct bench_options *o, int argc, char **argv)
{
    /* In a model a second turn gives the same. */
    struct compare_options co = {.args = o->bench,
                                 .turns = bench_simulated(o) ? 1
                                          : o->quick         ? QUICK_TURNS
                                                             : TURNS,
                                 .quick = o->quick};
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
    write_command(&c, argc, argv);
    compare_origin(o, &c);
    sigaction(SIGINT, &on, NULL);
    uint32_t missing = compare_run(&c, bench_simulated(o) ? bench_model_point : measure_on_shm,
                                   &o->model, stderr, &interrupted);
    if (o->bench.json)
        compare_json(&c, stdout);
    else
        compare_print(&c, stdout);
    if (bench_simulated(o) && !o->bench.json && !interrupted)
        rc = model_figures(o, &e);
    if (rc == 0 && o->report)
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

static int measure_one(const struct bench_options *o)
{
    const struct bench_args *a = &o->bench;
    struct err e = {""};
    struct bench_figures *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        fprintf(stderr, "tram bench: out of memory\n");
        return CMD_FAILED;
    }
    hist_init(&f->line);
    hist_init(&f->latency);
    int rc = bench_simulated(o) ? bench_model_figures(&o->model, a, f, &e)
             : a->mcast         ? bench_tree(a, f, &e)
                                : bench_log(a, f, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else if (a->json && bench_simulated(o))
        bench_print_json_model(o, f);
    else if (a->json)
        bench_print_json(o, f);
    else
        bench_print(o, f);
    free(f);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

static int measure_group(const struct bench_options *o, int argc, char **argv)
{
    struct group_point point[GROUP_SIZES_MAX] = {{0}};
    struct compare c = {.figures = 0};
    struct err e = {""};
    int rc = o->report ? compare_report_dir(o->report, &e) : 0;

    if (rc == 0)
        rc = bench_group(&o->group, point, o->bench.json ? NULL : stderr, &e);
    if (rc == 0 && o->bench.json)
        bench_group_json(&o->group, point, stdout);
    else if (rc == 0)
        bench_group_print(&o->group, point, stdout);
    write_command(&c, argc, argv);
    if (rc == 0 && o->report)
        rc = bench_group_report(&o->group, point, c.command, o->report, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else if (o->report)
        fprintf(stderr, "wrote %s/index.html and %s/group.json\n", o->report, o->report);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

static int measure_topic(const struct bench_options *o)
{
    const struct topic_args a = {.transport = o->bench.transport,
                                 .address = o->bench.address,
                                 .clear = o->bench.clear,
                                 .size = o->bench.payload,
                                 .seconds = o->bench.seconds ? o->bench.seconds : BENCH_SECONDS};
    struct topic_figures f;
    struct err e = {""};
    int rc = bench_topic(&a, &f, &e);

    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else
        (o->bench.json ? bench_topic_json : bench_topic_print)(&a, &f, stdout);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

/* Cases of `group` beside each other, and which bars they reach. */
static int compare_group(const struct bench_options *o, int argc, char **argv)
{
    struct compare c = {.figures = 0};
    struct err e = {""};
    struct group_figure *f = calloc(GROUP_FIGURES, sizeof(*f));
    int rc = f ? 0 : err_set(&e, ERR_NOMEM, "out of memory");
    uint32_t seconds = o->bench.seconds ? o->bench.seconds : o->quick ? 1 : GROUP_SECONDS;
    if (rc == 0 && o->report)
        rc = compare_report_dir(o->report, &e);
    if (rc == 0) {
        group_figures_open(f);
        rc = group_figures_run(f, o->quick ? 1 : GROUP_TURNS, seconds,
                               o->bench.json ? NULL : stderr, &e);
    }
    write_command(&c, argc, argv);
    if (rc == 0)
        (o->bench.json ? group_figures_json : group_figures_print)(f, stdout);
    if (rc == 0 && o->report)
        rc = group_figures_report(f, c.command, o->report, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else if (o->report)
        fprintf(stderr, "wrote %s/index.html and %s/group.json\n", o->report, o->report);
    free(f);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

/* Members that are only memory, beside as many replicas as vote. */
static int measure_votes(const struct bench_options *o)
{
    struct votes_figures f = {0};
    struct err e = {""};
    int rc = bench_votes(&o->bench, &f, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else
        (o->bench.json ? bench_votes_json : bench_votes_print)(&o->bench, &f, stdout);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

static int measure_durable(const struct bench_options *o)
{
    const struct bench_args *a = &o->bench;
    struct err e = {""};
    struct bench_durable *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        fprintf(stderr, "tram bench: out of memory\n");
        return CMD_FAILED;
    }
    int rc = bench_durable(a, o->dir, d, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: %s\n", e.text);
    else if (a->json)
        bench_durable_json(a, d, stdout);
    else
        bench_durable_print(a, d, stdout);
    if (rc == 0 && d->in_memory)
        fprintf(stderr, "tram bench: %s was in memory, not on a disk: name another with --dir\n",
                d->dir);
    free(d);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

/* Over a network, if no case is named: one group, and eight with one and with all of them as destinations. */
static int measure_network(const struct bench_options *o)
{
    static const struct {
        uint32_t groups, dst;
    } cases[] = {{1, 1}, {8, 1}, {8, 8}};
    int code = CMD_DONE;
    for (unsigned layout = BENCH_THREADS; layout <= BENCH_PROCS; layout++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct bench_options one = *o;
            if (o->layout_given && o->bench.layout != (enum bench_layout)layout)
                continue;
            one.bench.layout = (enum bench_layout)layout;
            one.bench.groups = cases[i].groups;
            one.bench.dst = cases[i].dst;
            int rc = measure_one(&one);
            code = rc == CMD_DONE ? code : rc;
            if (!o->bench.json)
                putchar('\n');
            fflush(stdout);
        }
    return code;
}

static int serve(const struct bench_options *o)
{
    const struct bench_args *a = &o->bench;
    struct err e = {""};
    int rc = o->serve_file   ? bench_durable_serve(o->serve_file, a->serve_host, &e)
             : a->serve_wire ? wire_serve(a, &e)
                             : bench_tree_serve(a, &e);
    if (rc != 0)
        fprintf(stderr, "tram bench: host %u: %s\n", a->serve_host + 1, e.text);
    return rc == 0 ? CMD_DONE : CMD_FAILED;
}

static int simulate(struct bench_options *o, int argc, char **argv)
{
    struct err e = {""};
    o->own_presets = o->model.preset == NULL;
    if (o->own_presets)
        o->model.preset = model_preset_named("fdr");
    bool only_check = o->check_model && !o->compare;
    int rc = only_check ? model_figures(o, &e)
                        : bench_model_settle(&o->model, o->model.preset, stderr, &e);
    if (rc != 0) {
        fprintf(stderr, "tram bench: %s\n", e.text);
        return CMD_FAILED;
    }
    return only_check ? CMD_DONE : o->compare ? compare(o, argc, argv) : measure_one(o);
}

int cmd_bench(int argc, char **argv)
{
    struct bench_options o = {
        .bench = {.payload = 64, .groups = 8, .dst = 1, .address = "127.0.0.1"},
        .model.seed = 1,
        .group = {.members = 3, .subgroups = 1}};
    struct bench_args *a = &o.bench;
    unsigned protocol = 0, shape = OVERLAY_breadth, layout = BENCH_THREADS;
    unsigned transport = 0, preset = 0, votes = 0;
    const char *costs = NULL;
    o.stages = (struct args_list){.item = o.stage_item, .max = 4};
    bool tree_given = false, preset_given = false, seed_given = false, address_given = false;
    bool log_given = false, seconds_given = false, votes_given = false;
    const struct args_option options[] = {
        {"--protocol", "NAME",
         "log: one replicated log; tree: multicast to groups in a tree; genuine: multicast among "
         "the destinations alone; group: members that send to each other (default log, and tree if "
         "--groups is given)",
         .choice = &protocol, .choices = protocol_names, .needs = "the protocols are",
         .given = &o.protocol_given},
        {"--replicas", "R", "of a group, 1 to 9 (default 3)", .number32 = &a->replicas, .min = 1,
         .max = LOG_REPLICAS_MAX},
        {"--payload", "BYTES", "of a message, 0 to 65536 (default 64)", .number32 = &a->payload,
         .max = PAYLOAD_LIMIT},
        {"--seconds", "S",
         "length of each of the two measurements (default 2); with --compare of all of them "
         "together (default 120)",
         .number32 = &a->seconds, .min = 1, .max = 3600, .given = &seconds_given},
        {"--log-bytes", "B",
         "size of a log ring, a power of two (default: log 1048576, tree 262144)",
         .number32 = &a->log_bytes, .min = 1 << 16, .max = 1 << 30, .given = &log_given},
        {"--json", NULL, "one JSON object instead of text", .flag = &a->json},
        {.help = "The log with members that are only memory, beside the log of as many replicas "
                 "as vote; medians of five turns:"},
        {"--votes", "WHO", "memories alone, or all", .choice = &votes, .choices = votes_names,
         .needs = "those who vote are", .given = &votes_given},
        {"--memories", "M", "1 to 9 (default 3, and 1 if all vote; of 2 replicas)",
         .number32 = &a->memories, .min = 1, .max = LOG_MEMORIES_MAX},
        {.help = "For multicast:"},
        {"--groups", "G", "1 to 64 (default 8)", .number32 = &a->groups, .min = 1,
         .max = GROUPS_LIMIT, .given = &o.groups_given},
        {"--tree", "SHAPE", "base, breadth or depth (default breadth)", .choice = &shape,
         .choices = overlay_shape_names, .needs = "the trees are", .given = &tree_given},
        {"--dst", "K", "destinations of a message, drawn at random; all if K is G (default 1)",
         .number32 = &a->dst, .min = 1, .max = GROUPS_LIMIT, .given = &o.dst_given},
        {"--adjacent", NULL, "destinations are neighbours in the tree instead",
         .flag = &a->adjacent},
        {"--clients", "C", "that saturate it, 1 to 64 (default 8; of a model 32)",
         .number32 = &a->clients, .min = 1, .max = BENCH_CLIENTS_MAX},
        {"--hosts", "H", "1 to 16, at least as many as replicas (default as many, at least 3)",
         .number32 = &a->hosts, .min = 1, .max = BENCH_HOSTS_MAX},
        {"--layout", "NAME",
         "threads: one polls all hosts, another is all clients (default); procs: every host is a "
         "process; single: one thread is everything, and its CPU time is measured, which shows the "
         "work whatever else the machine does",
         .choice = &layout, .choices = bench_layout_names, .needs = "the layouts are",
         .given = &o.layout_given},
        {.help = "Tree and genuine side by side, as in figures 5 to 8 of the TRAM paper:"},
        {"--compare", NULL,
         "base, breadth, depth and genuine, over 1 to G destinations at random and adjacent, "
         "messages of 64 to 65536 bytes, 1 to 5 replicas; tables on standard output. --clients is "
         "the most that are tried. Takes a few minutes. With --protocol group: batches, nulls, "
         "subgroups and members, as in the figures of the Spindle paper, and the bars they reach",
         .flag = &o.compare},
        {"--quick", NULL, "about half of the points, in less than a minute", .flag = &o.quick},
        {"--report", "DIR", "also writes DIR/index.html, with plots, and DIR/compare.json",
         .text = &o.report, .needs = "a directory"},
        {.help = "Elsewhere than on shared memory:"},
        {"--transport", "NAME",
         "shm: shared memory (default); tcp: over sockets, beside bare round trips between two "
         "processes and a bare chain client, leader, follower, leader, client; verbs: over "
         "libfabric, beside bare fi_writes; both on this machine: 1 group and 8, to 1 and 8 of "
         "them, in either layout, or "
         "with --protocol, --groups or --dst that one case; sim: a model, in which the protocols "
         "run "
         "with what everything costs. Of it: the comparison, table 1 of the TRAM paper and figure "
         "5 "
         "of the RamCast paper; with --protocol or --groups that one case",
         .choice = &transport, .choices = bench_transport_names, .needs = "the transports are"},
        {"--address", "A", "of this machine, for tcp and verbs (default 127.0.0.1)",
         .text = &a->address, .needs = "an address", .given = &address_given},
        {"--clear", NULL, "tcp: not encrypted; else as clusters are", .flag = &a->clear},
        {.help = "Members of a group (--protocol group), beside a bare ring with as many readers, "
                 "a copy "
                 "that is read as often, and the log; medians of five turns:"},
        {"--members", "N", "1 to 16 (default 3)", .number32 = &o.group.members, .min = 1,
         .max = GROUP_MEMBERS_MAX, .given = &o.of_group},
        {"--senders", "WHO", "all (default), half or one of them send", .choice = &o.senders,
         .choices = sender_names, .needs = "it needs one of", .given = &o.of_group},
        {"--size", "LIST",
         "bytes of messages, up to 8 sizes like 1,128,1k,10k (default: --payload)",
         .text = &o.sizes, .needs = "sizes", .given = &o.of_group},
        {"--subgroups", "K", "of all members, 1 to 64 (default 1)", .number32 = &o.group.subgroups,
         .min = 1, .max = 64, .given = &o.of_group},
        {"--active", "N", "1 (default) or all of them are sent to", .choice = &o.active,
         .choices = active_names, .needs = "it needs one of", .given = &o.of_group},
        {"--mode", "M", "memory (default), raw, logged or durable (on disks, in --dir)",
         .choice = &o.mode, .choices = mode_names, .needs = "it needs one of",
         .given = &o.of_group},
        {"--delay-us", "D", "one sender waits so long after each message", .min = 1, .max = 1000000,
         .number32 = &o.group.delay_us, .given = &o.of_group},
        {"--one-sends", NULL, "all that --senders says may send, and the first alone does",
         .flag = &o.group.one_sends, .given = &o.of_group},
        {"--touch", NULL, "senders write every byte, and members read it", .flag = &o.group.touch,
         .given = &o.of_group},
        {"--no-batch", "STAGE", "no batches in send, receive, deliver or ack; may be given again",
         .list = &o.stages, .needs = "a stage", .given = &o.of_group},
        {"--no-nulls", NULL, "who has nothing to send holds up the others",
         .flag = &o.group.no_nulls, .given = &o.of_group},
        {"--bare", NULL, "nothing beside it", .flag = &o.group.bare, .given = &o.of_group},
        {"--topic", NULL,
         "instead: a publisher and two subscribers, a process each, over an unordered and an "
         "atomic "
         "topic beside idle ones; the way of one sample at a time, as many as go, and what idle "
         "topics take of a core",
         .flag = &o.topic},
        {.help = "In virtual time, on a cluster that is not there:"},
        {"--preset", "NAME",
         "the network: fdr (TRAM's cluster), cx4 (RamCast's), shm (two cores of this machine); "
         "default: each paper's own",
         .choice = &preset, .choices = preset_names, .needs = "the presets are",
         .given = &preset_given},
        {"--cost", "LIST",
         "NAME=VALUE,... instead of what the preset has or is measured here; `stored`: processor "
         "costs that were measured once, so that figures are the same again",
         .text = &costs, .needs = "NAME=VALUE, or several with commas between them"},
        {"--seed", "S", "of what is drawn (default 1)", .number = &o.model.seed, .max = UINT64_MAX,
         .given = &seed_given},
        {"--check-model", NULL,
         "the model of shared memory beside shared memory itself; alone, or with --compare",
         .flag = &o.check_model},
        {.help = "On disk:"},
        {"--durable", NULL,
         "a durable cluster, its hosts as processes, beside what the disk can do (4 KiB and 1 MiB "
         "on all replicas' disks at once) and beside the same cluster without disks: one message "
         "at a time; leaders killed; saturated, with one group and with G",
         .flag = &o.durable},
        {"--dir", "DIR",
         "where the data is, while it runs (default: TMPDIR or the current directory)",
         .text = &o.dir, .needs = "a directory"},
        /* How bench/mcast.c and bench/durable_cluster.c start us as a host. */
        {"--serve-file", "FILE", NULL, .text = &o.serve_file, .needs = "a file"},
        {"--serve-cluster", "NAME", NULL, .text = &a->serve, .needs = "a name"},
        {"--serve-host", "N", NULL, .number32 = &a->serve_host, .max = BENCH_HOSTS_MAX - 1},
        {"--serve-dir", "DIR", NULL, .text = &a->serve_dir, .needs = "a directory"},
        {"--serve-wire", NULL, NULL, .flag = &a->serve_wire},
        {0},
    };
    const struct args_command command = {
        .name = "bench",
        .usage = "[OPTIONS]\n       tram bench --compare [--quick] [--report DIR] [OPTIONS]\n"
                 "       tram bench --transport tcp|verbs [--address A] [OPTIONS]\n"
                 "       tram bench --transport sim [--preset NAME] [--check-model] [OPTIONS]",
        .about = "Measures on shared memory, in one run: the round trip of a cache line between "
                 "two cores, the latency of single messages, and the saturated throughput.",
        .options = options,
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    o.is_group = o.protocol_given && protocol == PROTOCOL_GROUP;
    a->mcast = o.protocol_given ? protocol > 0 && !o.is_group : o.groups_given;
    a->protocol = protocol == 2 ? MCAST_GENUINE : MCAST_TREE;
    a->shape = (enum overlay_shape)shape;
    a->layout = (enum bench_layout)layout;
    o.single = o.protocol_given ? "--protocol"
               : tree_given     ? "--tree"
               : o.dst_given    ? "--dst"
               : a->adjacent    ? "--adjacent"
                                : NULL;
    a->transport = (enum bench_transport)transport;
    o.network = address_given && !a->serve ? "--address" : NULL;
    o.simulated = preset_given    ? "--preset"
                  : costs         ? "--cost"
                  : seed_given    ? "--seed"
                  : o.check_model ? "--check-model"
                                  : NULL;
    o.real = o.layout_given  ? "--layout"
             : log_given     ? "--log-bytes"
             : seconds_given ? "--seconds"
                             : NULL;
    o.votes = votes_given ? votes + 1 : 0;
    if (preset_given)
        o.model.preset = model_preset_named(preset_names[preset]);
    struct err e = {""};
    if (costs && bench_model_costs(&o.model, costs, &e) != 0)
        return args_bad("bench", "--cost", e.text);
    code = bench_options_check_group(&o);
    if (code == CMD_DONE && !o.is_group)
        code = bench_options_check(&o);
    if (code != CMD_DONE)
        return code;
    if (o.topic)
        return measure_topic(&o);
    if (o.is_group)
        return o.compare ? compare_group(&o, argc, argv) : measure_group(&o, argc, argv);
    if (a->serve || a->serve_wire || o.serve_file)
        return serve(&o);
    if (o.votes)
        return measure_votes(&o);
    if (o.durable)
        return measure_durable(&o);
    if (bench_simulated(&o))
        return simulate(&o, argc, argv);
    if (bench_networked(a) && !o.groups_given && !o.single)
        return measure_network(&o);
    return o.compare ? compare(&o, argc, argv) : measure_one(&o);
}
