/* tram tail: follows what a group delivers, at one host. */
#include "api/api.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/running.h"
#include "cli/tail_ring.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_NS = 5000000, CURRENT_EVERY = 100 /* looks without anything new */ };

struct tail_args {
    struct running_args running;
    const char *group;
    const char *host;
    bool all;
    uint64_t count; /* 0: without end */
};

struct tail {
    const struct tail_args *args;
    const struct tram_cluster *cluster;
    char dir[RUNNING_DIR_BYTES];
    const char *host;
    uint32_t group;
    struct tail_ring *ring;
    uint64_t at;     /* in the ring */
    uint64_t next;   /* number of the next delivery, */
    bool next_known; /* if one was seen */
    uint64_t printed;
};

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

/* ---- printing ---- */

static void print_record(const struct tail *t, const struct tail_record *r)
{
    printf("%s %" PRIu64 "  %u.%u:%" PRIu64 "  ", t->args->group, r->number, r->client, r->life,
           r->seq);
    for (uint32_t i = 0; i < r->dst_count; i++) {
        const char *name = tram_cluster_group_name(t->cluster, r->dst[i]);
        printf("%s%s", i ? "," : "", name ? name : "?");
    }
    printf("  %u  ", r->bytes);
    /* What a terminal would take as a command is not given to it. */
    for (uint32_t i = 0; i < r->here; i++)
        if (isprint(r->body[i]) || r->body[i] >= 0x80)
            putchar(r->body[i]);
        else
            printf("\\x%02x", r->body[i]);
    printf("%s\n", r->here < r->bytes ? "..." : "");
}

static void take(struct tail *t, const struct tail_record *r)
{
    if (r->group != t->group)
        return;
    /* A host that was killed may deliver again what its successor process had not on record. */
    if (t->next_known && r->number < t->next)
        return;
    if (t->next_known && r->number > t->next) {
        fflush(stdout);
        fprintf(stderr, "tram tail: %" PRIu64 " deliveries of %s were not seen\n",
                r->number - t->next, t->args->group);
    }
    t->next = r->number + 1;
    t->next_known = true;
    print_record(t, r);
    t->printed++;
}

/* ---- following ---- */

static bool is_over(const struct tail *t)
{
    return asked_to_stop || (t->args->count && t->printed >= t->args->count);
}

static void pause_a_little(void)
{
    struct timespec p = {.tv_nsec = LOOK_NS};

    nanosleep(&p, NULL);
}

/* Prints what there is. Returns false if there was nothing. */
static bool drain(struct tail *t)
{
    struct tail_record r;
    bool some = false;

    while (!is_over(t)) {
        enum tail_got got = tail_ring_read(t->ring, &t->at, &r);
        if (got == TAIL_NOTHING)
            break;
        some = true;
        if (got == TAIL_RECORD) {
            take(t, &r);
        } else {
            fflush(stdout);
            fprintf(stderr, "tram tail: lapped: %s delivers faster than this can be printed\n",
                    t->host);
        }
    }
    if (some)
        fflush(stdout);
    return some;
}

/* The host was stopped in order: waits until it is there again. */
static void wait_for_next(struct tail *t)
{
    struct tail_ring *next = NULL;

    fprintf(stderr, "tram tail: %s was stopped; waiting for it\n", t->host);
    while (!is_over(t) && tail_ring_open(t->dir, t->host, &next, NULL) != 0)
        pause_a_little();
    if (next == NULL)
        return;
    tail_ring_close(t->ring);
    t->ring = next;
    t->at = 0;
    t->next_known = false; /* a cluster that was started anew counts anew */
}

static void follow(struct tail *t)
{
    uint32_t quiet = 0;

    while (!is_over(t)) {
        if (drain(t)) {
            quiet = 0;
            continue;
        }
        if (++quiet % CURRENT_EVERY == 0 && !tail_ring_is_current(t->ring, t->dir, t->host))
            wait_for_next(t);
        pause_a_little();
    }
}

/* ---- the command ---- */

/* What it delivers is in a file of its machine. */
static bool can_be_followed(const struct tail *t, const struct running *r, uint32_t rank)
{
    const struct running_host *h = &r->host[running_host_of(r, t->group, rank)];

    return h->state == RUNNING_UP && !h->asked;
}

static int choose_host(struct tail *t, const struct running *r)
{
    uint32_t n = running_replicas(r, t->group);
    int leader = running_leader(r, t->group);

    if (leader >= 0 && !can_be_followed(t, r, (uint32_t)leader))
        leader = -1;

    if (t->args->host) {
        for (uint32_t q = 0; q < n; q++) {
            const char *name = tram_cluster_host_name(t->cluster, running_host_of(r, t->group, q));
            if (strcmp(name, t->args->host) == 0)
                t->host = name;
        }
        if (t->host)
            return CMD_DONE;
        fprintf(stderr, "tram tail: --host %s: %s has no replica there; it has them at",
                t->args->host, t->args->group);
        for (uint32_t q = 0; q < n; q++)
            fprintf(stderr, " %s",
                    tram_cluster_host_name(t->cluster, running_host_of(r, t->group, q)));
        fputc('\n', stderr);
        return CMD_USAGE;
    }
    for (uint32_t q = 0; q < n && leader < 0; q++)
        if (can_be_followed(t, r, q))
            leader = (int)q;
    if (leader < 0) {
        fprintf(stderr, "tram tail: no host of group %s %s\n", t->args->group,
                running_not(t->cluster).s);
        return CMD_FAILED;
    }
    t->host = tram_cluster_host_name(t->cluster, running_host_of(r, t->group, (uint32_t)leader));
    return CMD_DONE;
}

static int find_host(struct tail *t)
{
    struct running r = {0};

    int code = running_open(&r, t->cluster, "tail");
    if (code == CMD_DONE) {
        memcpy(t->dir, r.dir, sizeof t->dir);
        code = choose_host(t, &r);
    }
    running_close(&r);
    return code;
}

static int run(struct tail *t)
{
    struct sigaction s = {.sa_handler = on_signal};
    struct err e = {""};

    int g = tram_cluster_group(t->cluster, t->args->group);
    if (g < 0) {
        fprintf(stderr, "tram tail: there is no group '%s' in %s; %s\n", t->args->group,
                running_file(&t->args->running),
                cluster_groups_near(t->cluster->conf, t->args->group).s);
        return CMD_USAGE;
    }
    t->group = (uint32_t)g;
    int code = find_host(t);
    if (code != CMD_DONE)
        return code;
    int rc = tail_ring_open(t->dir, t->host, &t->ring, &e);
    if (rc < 0) {
        if (rc == ERR_NOTFOUND)
            fprintf(
                stderr,
                "tram tail: host %s is not running, or is a program of your own; this shows what"
                " hosts deliver that `tram up` or `tram host` has started\n",
                t->host);
        else
            fprintf(stderr, "tram tail: %s\n", e.text);
        return CMD_FAILED;
    }
    sigaction(SIGINT, &s, NULL);
    sigaction(SIGTERM, &s, NULL);
    t->at = t->args->all ? tail_ring_oldest(t->ring) : tail_ring_newest(t->ring);
    follow(t);
    tail_ring_close(t->ring);
    return CMD_DONE;
}

static int start(const struct tail_args *a)
{
    struct tail t = {.args = a};
    struct tram_cluster *c;

    int code = running_load(&a->running, "tail", &c);
    if (code != CMD_DONE)
        return code;
    t.cluster = c;
    code = run(&t);
    tram_cluster_free(c);
    return code;
}

int cmd_tail(int argc, char **argv)
{
    struct tail_args a = {0};
    const struct args_word words[] = {{"GROUP", &a.group, "which group?"}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--host", "H", "watch there (default: at the leader, or the first host that is up)",
         .text = &a.host, .needs = "a host"},
        {"--all", NULL, "begin with the oldest that the host still knows, not with the next",
         .flag = &a.all},
        {"--count", "N", "end after N deliveries", .number = &a.count, .min = 1, .max = UINT64_MAX},
        {0},
    };
    const struct args_command command = {
        .name = "tail",
        .usage = "GROUP [OPTIONS]",
        .about = "Prints what the group delivers, as it does, at one of its hosts: the number of "
                 "the delivery, the client and its number for the message, all groups that the "
                 "message is for, its bytes and the first 200 of them. ^C ends it.",
        .options = options,
        .words = words,
        .too_many = "a second group; it follows one",
        .more = "A host keeps the last MiB of its deliveries, of all groups. When it was faster "
                "than this command could print, what is missing is said on standard error.\n\nExit "
                "code: 0 ended by ^C or --count, 1 the host does not run, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}
