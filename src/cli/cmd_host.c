/* tram host: one host in the foreground, with a journal as its state machine; tram memory: one that is only memory. */
#include "api/api.h"
#include "base/hash.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/http.h"
#include "cli/log_lines.h"
#include "cli/member_host.h"
#include "cli/running.h"
#include "cli/tail_ring.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct host_args {
    struct running_args running;
    const char *name;
    const char *trace;
    uint32_t rate; /* under protocol group */
    unsigned log;  /* enum log_form */
    bool quiet;
    bool memory; /* tram memory */
};

/* ---- the journal ---- */

/* The state of a group's replica. */
struct journal_group {
    uint64_t count; /* of messages delivered */
    uint64_t hash;  /* of their bodies, in order */
};

struct journal {
    struct journal_group group[CLUSTER_GROUPS_MAX];
    struct tail_ring *tail;
};

static uint32_t journal_deliver(void *ctx, const struct tram_delivery *d, void *reply,
                                uint32_t reply_max)
{
    struct journal *j = ctx;
    struct journal_group *g = &j->group[d->group];

    g->count++;
    g->hash = hash_bytes(g->hash, d->body, d->bytes);
    if (j->tail) /* there is none yet for what comes from the disk */
        tail_ring_write(j->tail, d);
    if (reply_max < sizeof d->number)
        return 0;
    memcpy(reply, &d->number, sizeof d->number);
    return sizeof d->number;
}

static int journal_save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    struct journal *j = ctx;

    *bytes = sizeof j->group[group];
    *data = malloc(*bytes);
    if (*data == NULL)
        return -1;
    memcpy(*data, &j->group[group], *bytes);
    return 0;
}

static int journal_load(void *ctx, uint32_t group, const void *data, size_t bytes)
{
    struct journal *j = ctx;

    if (bytes != sizeof j->group[group])
        return -1;
    memcpy(&j->group[group], data, bytes);
    return 0;
}

/* ---- running ---- */

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};

    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

/* For ps and top: all hosts are the same program. */
static void name_process(const char *host)
{
    char name[16]; /* the kernel keeps no more */

    snprintf(name, sizeof name, "tram-%s", host);
    prctl(PR_SET_NAME, name);
}

static int complain(const struct host_args *a, const char *text)
{
    log_line_complain(a->log, a->memory ? "memory" : "host", a->name, text);
    return CMD_FAILED;
}

static int serve(const struct host_args *a, struct tram_host *h)
{
    struct tram_error e = {""};
    struct tram_replica_stats s;
    uint32_t replicas = 0;

    while (tram_host_replica(h, replicas, &s) == 0)
        replicas++;
    /* The first step writes the page, by which others see that this host is there. */
    if (tram_host_step(h, &e) < 0)
        return complain(a, e.text);
    if (!a->quiet && a->memory)
        printf("%s is up as memory, as process %d\n", a->name, (int)getpid());
    else if (!a->quiet)
        printf("%s is up with %u replica%s, as process %d\n", a->name, replicas,
               replicas == 1 ? "" : "s", (int)getpid());
    fflush(stdout);
    while (!asked_to_stop) {
        int rc = tram_host_step(h, &e);
        if (rc < 0) {
            complain(a, e.text);
            return rc == TRAM_DATA_LOST ? CMD_LOST : CMD_FAILED;
        }
    }
    return CMD_DONE;
}

static int run(const struct host_args *a, const struct tram_cluster *c, struct journal *j)
{
    char dir[RUNNING_DIR_BYTES];
    struct tram_error error = {""};
    struct err e = {""};
    struct tram_host *h;
    struct tram_host_options o = {
        .name = a->name,
        .machine = {.deliver = journal_deliver, .save = journal_save, .load = journal_load},
        .ctx = j,
        .trace_dir = a->trace,
    };

    int code = running_directory(c, "host", dir);
    if (code != CMD_DONE)
        return code;
    catch_signals();
    name_process(a->name);
    int rc = tram_host_open(c, &o, &h, &error);
    if (rc < 0)
        return complain(a, error.text);
    if (a->memory) {
        code = serve(a, h);
    } else if (tail_ring_create(dir, a->name, &j->tail, &e) < 0) {
        code = complain(a, e.text);
    } else {
        code = serve(a, h);
        tail_ring_close(j->tail);
        tail_ring_remove(dir, a->name);
    }
    tram_host_close(h);
    return code;
}

static int run_member(const struct host_args *a, const struct tram_cluster *c)
{
    const struct member_host member = {.name = a->name,
                                       .trace = a->trace,
                                       .rate = a->rate,
                                       .log = a->log,
                                       .quiet = a->quiet,
                                       .stop = &asked_to_stop};

    catch_signals();
    name_process(a->name);
    return member_host_run(&member, c);
}

static bool is_memory(const struct tram_cluster *c, const char *host)
{
    return c->conf->host[cluster_host(c->conf, host)].memory;
}

static int refuse_role(const struct host_args *a)
{
    if (a->memory)
        fprintf(stderr, "tram memory: host '%s' has no role: memory in %s; run `tram host %s`\n",
                a->name, running_file(&a->running), a->name);
    else
        fprintf(stderr, "tram host: host '%s' has role: memory in %s; run `tram memory %s`\n",
                a->name, running_file(&a->running), a->name);
    return CMD_USAGE;
}

static int start(const struct host_args *a)
{
    struct tram_cluster *c;

    const char *command = a->memory ? "memory" : "host";
    int code = running_load(&a->running, command, &c);
    if (code != CMD_DONE)
        return code;
    const struct tram_log log =
        log_lines(a->log, a->quiet ? TRAM_LOG_WARNING : TRAM_LOG_INFO, a->name);
    tram_cluster_log(c, &log);
    struct journal *j = calloc(1, sizeof(*j));
    if (tram_cluster_host(c, a->name) < 0) {
        fprintf(stderr, "tram %s: there is no host '%s' in %s; %s\n", command, a->name,
                running_file(&a->running), cluster_hosts_near(c->conf, a->name).s);
        code = CMD_USAGE;
    } else if (is_memory(c, a->name) != a->memory) {
        code = refuse_role(a);
    } else if (c->conf->protocol == CLUSTER_GROUP) {
        struct http *http = http_open_host(c, a->name);
        code = run_member(a, c);
        http_close(http);
    } else if (a->rate > 0) {
        code = args_bad("host", "--rate", "it is for protocol: group; `tram send` sends to groups");
    } else {
        struct http *http = http_open_host(c, a->name);
        code = j ? run(a, c, j) : complain(a, "no memory");
        http_close(http);
    }
    free(j);
    tram_cluster_free(c);
    return code;
}

int cmd_host(int argc, char **argv)
{
    struct host_args a = {0};
    const struct args_word words[] = {{"NAME", &a.name, "which host of the cluster file?"}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--trace", "DIR", "write what is delivered there, for `tram check`", .text = &a.trace,
         .needs = "a directory"},
        {"--rate", "N",
         "under protocol group: send so many messages a second to each cell it is in, 1 to 100000",
         .number32 = &a.rate, .min = 1, .max = 100000},
        {"--log", "FORM", "how log lines are written to standard error: text (default) or json",
         .choice = &a.log, .choices = log_forms, .needs = "the forms are"},
        {"--quiet", NULL, "do not say that it is up, who leads and who connects", .flag = &a.quiet},
        {0},
    };
    const struct args_command command = {
        .name = "host",
        .usage = "NAME [OPTIONS]",
        .about =
            "Runs one host of the cluster file in the foreground, as a service manager would, "
            "until SIGINT or SIGTERM. Its replicas keep a journal: a count and a hash of all "
            "that was delivered; the reply to a message is the number of its delivery. `tram "
            "tail` shows "
            "what it delivers. Under protocol group it is a member that counts and hashes what "
            "each of its cells delivers, which `tram view` shows.",
        .options = options,
        .words = words,
        .too_many = "a second host; a process is one",
        .more = "Exit code: 0 stopped, 1 it could not start or go on, 2 wrong usage, 3 a group is "
                "lost.",
    };

    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}

int cmd_memory(int argc, char **argv)
{
    struct host_args a = {.memory = true};
    const struct args_word words[] = {{"NAME", &a.name, "which host of the cluster file?"}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--log", "FORM", "how log lines are written to standard error: text (default) or json",
         .choice = &a.log, .choices = log_forms, .needs = "the forms are"},
        {"--quiet", NULL, "do not say that it is up, and who connects", .flag = &a.quiet},
        {0},
    };
    const struct args_command command = {
        .name = "memory",
        .usage = "NAME [OPTIONS]",
        .about = "Runs a host with role: memory in the foreground, as a service manager would, "
                 "until SIGINT or SIGTERM. It holds memory that groups agree in and votes with it, "
                 "and runs no replica and no state machine.",
        .options = options,
        .words = words,
        .too_many = "a second host; a process is one",
        .more = "Exit code: 0 stopped, 1 it could not start or go on, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}
