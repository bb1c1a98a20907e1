/* tram send: multicasts a message, or the lines of standard input. */
#include "api/api.h"
#include "base/clock.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/running.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MS = 1000000,
    IDLE_MS = 200,       /* how long to wait for a line while nothing is under way */
    SLOTS_MAX = 256,     /* messages under way */
    CHUNK_BYTES = 65536, /* of standard input read at once */
};

struct send_args {
    struct running_args running;
    const char *groups;
    const char *message;
    const char *trace;
    uint64_t timeout_ms;
    bool quiet;
};

/* A message under way. */
struct slot {
    uint64_t ticket;
    uint64_t until_ns;
    bool done;
    uint64_t *number;   /* by place of the group among the destinations; */
    unsigned char *got; /* whether it has replied: 1, and 2 if with a number */
};

/* Messages are numbered from 0; those from `printed` to `cast` are under way, message n in slot n %
 * slots. */
struct sender {
    const struct send_args *args;
    struct tram_cluster *cluster;
    struct tram_client *client;
    uint16_t group[CLUSTER_GROUPS_MAX]; /* ascending */
    uint32_t groups;
    struct slot slot[SLOTS_MAX];
    uint32_t slots;
    uint64_t cast, printed;

    /* Standard input: bytes from `begin` to `end` are not cast yet. */
    char *text;
    size_t begin, end, room;
    bool over;
};

/* ---- replies ---- */

static struct slot *slot_of(struct sender *s, uint64_t ticket)
{
    for (uint64_t n = s->printed; n < s->cast; n++)
        if (s->slot[n % s->slots].ticket == ticket)
            return &s->slot[n % s->slots];
    return NULL;
}

static void on_reply(void *ctx, uint64_t ticket, uint32_t group, const void *body, uint32_t bytes)
{
    struct sender *s = ctx;
    struct slot *m = slot_of(s, ticket);

    for (uint32_t i = 0; m && i < s->groups; i++)
        if (s->group[i] == group) {
            m->got[i] = 1;
            if (bytes == sizeof m->number[i]) {
                memcpy(&m->number[i], body, bytes);
                m->got[i] = 2;
            }
        }
}

static void on_done(void *ctx, uint64_t ticket)
{
    struct slot *m = slot_of(ctx, ticket);

    if (m)
        m->done = true;
}

static void print_slot(const struct sender *s, const struct slot *m)
{
    for (uint32_t i = 0; i < s->groups; i++) {
        printf("%s%s", i ? " " : "", tram_cluster_group_name(s->cluster, s->group[i]));
        if (m->got[i] == 2)
            printf(":%llu", (unsigned long long)m->number[i]);
    }
    putchar('\n');
}

/* In the order in which they were cast. */
static void print_done(struct sender *s)
{
    uint64_t before = s->printed;

    while (s->printed < s->cast && s->slot[s->printed % s->slots].done) {
        if (!s->args->quiet)
            print_slot(s, &s->slot[s->printed % s->slots]);
        s->printed++;
    }
    if (before < s->printed)
        fflush(stdout);
}

/* ---- sending ---- */

static int complain(const struct sender *s, const char *text)
{
    if (s->args->message)
        fprintf(stderr, "tram send: %s\n", text);
    else
        fprintf(stderr, "tram send: line %llu: %s\n", (unsigned long long)s->cast + 1, text);
    return CMD_FAILED;
}

static int late(const struct sender *s)
{
    const struct slot *m = &s->slot[s->printed % s->slots];
    const char *between = " ";

    fprintf(stderr, "tram send: ");
    if (!s->args->message)
        fprintf(stderr, "line %llu: ", (unsigned long long)s->printed + 1);
    fprintf(stderr, "not delivered within %llu ms by", (unsigned long long)s->args->timeout_ms);
    for (uint32_t i = 0; i < s->groups; i++)
        if (!m->got[i]) {
            fprintf(stderr, "%s%s", between, tram_cluster_group_name(s->cluster, s->group[i]));
            between = ", ";
        }
    fprintf(stderr, "; it may still be. `tram status` shows the groups\n");
    return CMD_FAILED;
}

/* TRAM_OK, TRAM_AGAIN, or another error after a message. */
static int cast(struct sender *s, const char *body, size_t bytes)
{
    struct slot *m = &s->slot[s->cast % s->slots];
    struct tram_error e = {""};

    if (s->cast - s->printed == s->slots)
        return TRAM_AGAIN;
    int rc = tram_cast(s->client, s->group, s->groups, body, (uint32_t)bytes, &m->ticket, &e);
    if (rc == TRAM_AGAIN)
        return rc;
    if (rc < 0) {
        complain(s, e.text);
        return rc;
    }
    m->until_ns = clock_now_ns() + s->args->timeout_ms * MS;
    m->done = false;
    memset(m->got, 0, s->groups);
    s->cast++;
    return TRAM_OK;
}

/* What was cast is not answered any more. */
static int unserved(const struct sender *s)
{
    struct tram_error e = {""};

    tram_await(s->client, s->slot[s->printed % s->slots].ticket, NULL, MS, &e);
    fprintf(stderr, "tram send: ");
    if (!s->args->message)
        fprintf(stderr, "line %llu: ", (unsigned long long)s->printed + 1);
    fprintf(stderr, "%s\n", e.text);
    return CMD_FAILED;
}

/* Looks for replies, for at most that time. */
static int collect(struct sender *s, uint64_t wait_ns)
{
    int rc = wait_ns && s->printed < s->cast ? tram_client_wait(s->client, wait_ns)
                                             : tram_client_poll(s->client);
    print_done(s);
    if (rc < 0 && s->printed < s->cast)
        return unserved(s);
    if (s->printed < s->cast && clock_now_ns() > s->slot[s->printed % s->slots].until_ns)
        return late(s);
    return CMD_DONE;
}

static int send_message(struct sender *s)
{
    int code = CMD_DONE;
    int rc = TRAM_AGAIN;

    while (code == CMD_DONE && (rc = cast(s, s->args->message, strlen(s->args->message))) != 0) {
        if (rc != TRAM_AGAIN)
            return CMD_FAILED;
        code = collect(s, MS);
    }
    while (code == CMD_DONE && s->printed < s->cast)
        code = collect(s, MS);
    return code;
}

/* ---- lines ---- */

/* Casts what lines there are, as many as may be under way. */
static int cast_lines(struct sender *s, bool *full)
{
    *full = false;
    while (s->begin < s->end) {
        char *from = s->text + s->begin;
        size_t left = s->end - s->begin;
        char *nl = memchr(from, '\n', left);
        if (nl == NULL && !s->over)
            return CMD_DONE;
        size_t bytes = nl ? (size_t)(nl - from) : left;
        int rc = cast(s, from, bytes);
        *full = rc == TRAM_AGAIN;
        if (rc < 0)
            return *full ? CMD_DONE : CMD_FAILED;
        s->begin += bytes + (nl != NULL);
    }
    return CMD_DONE;
}

/* Reads more, if there is more within that time. */
static int read_text(struct sender *s, int wait_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    if (poll(&p, 1, wait_ms) <= 0)
        return CMD_DONE;
    memmove(s->text, s->text + s->begin, s->end - s->begin);
    s->end -= s->begin;
    s->begin = 0;
    if (s->end == s->room)
        return complain(s, "longer than the cluster file's payload_max");
    ssize_t got = read(STDIN_FILENO, s->text + s->end, s->room - s->end);
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
        fprintf(stderr, "tram send: standard input: %m\n");
        return CMD_FAILED;
    }
    s->end += got > 0 ? (size_t)got : 0;
    s->over = got == 0;
    return CMD_DONE;
}

static int send_lines(struct sender *s)
{
    int code = CMD_DONE;

    s->room = s->cluster->conf->payload_max + CHUNK_BYTES;
    s->text = malloc(s->room);
    if (s->text == NULL)
        return complain(s, "no memory");
    while (code == CMD_DONE && !(s->over && s->begin == s->end && s->printed == s->cast)) {
        bool full;
        code = cast_lines(s, &full);
        bool idle = s->printed == s->cast;
        if (code == CMD_DONE && !full && !s->over)
            code = read_text(s, idle ? IDLE_MS : 0);
        if (code == CMD_DONE)
            code = collect(s, full || s->over || !idle ? MS : 0);
    }
    free(s->text);
    return code;
}

/* ---- the command ---- */

static int parse_groups(struct sender *s)
{
    const char *list = s->args->groups;
    bool wanted[CLUSTER_GROUPS_MAX] = {false};

    for (const char *p = list; p != NULL;) {
        char name[CLUSTER_NAME_BYTES];
        const char *comma = strchr(p, ',');
        size_t n = comma ? (size_t)(comma - p) : strlen(p);
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        int g = n < sizeof name ? tram_cluster_group(s->cluster, name) : TRAM_NOTFOUND;
        if (g < 0) {
            fprintf(stderr, "tram send: there is no group '%.*s' in %s; %s\n", (int)n, p,
                    running_file(&s->args->running), cluster_groups_near(s->cluster->conf, name).s);
            return CMD_USAGE;
        }
        wanted[g] = true;
        p = comma ? comma + 1 : NULL;
    }
    for (uint32_t g = 0; g < tram_cluster_groups(s->cluster); g++)
        if (wanted[g])
            s->group[s->groups++] = (uint16_t)g;
    return CMD_DONE;
}

/* Joining a cluster that does not run would only make its directory. The hosts of a network may run
 * anywhere. */
static int check_running(const struct sender *s)
{
    struct running now = {0};

    if (s->cluster->conf->transport != CLUSTER_SHM)
        return CMD_DONE;
    int code = running_open(&now, s->cluster, "send");
    if (code == CMD_DONE && running_hosts_alive(&now) == 0) {
        fprintf(stderr, "tram send: no host of cluster '%s' %s\n", s->cluster->conf->name,
                running_not(s->cluster).s);
        code = CMD_FAILED;
    }
    running_close(&now);
    return code;
}

static int slots_make(struct sender *s)
{
    uint32_t window = tram_client_window(s->client);

    s->slots = window < SLOTS_MAX ? window : SLOTS_MAX;
    for (uint32_t i = 0; i < s->slots; i++) {
        s->slot[i].number = calloc(s->groups, sizeof(uint64_t));
        s->slot[i].got = calloc(s->groups, 1);
        if (s->slot[i].number == NULL || s->slot[i].got == NULL)
            return complain(s, "no memory");
    }
    return CMD_DONE;
}

static int run(struct sender *s)
{
    struct tram_error e = {""};
    struct tram_client_options o = {
        .trace_dir = s->args->trace, .reply = on_reply, .done = on_done, .ctx = s};

    int code = parse_groups(s);
    if (code == CMD_DONE)
        code = check_running(s);
    if (code != CMD_DONE)
        return code;
    if (tram_client_open(s->cluster, &o, &s->client, &e) < 0) {
        fprintf(stderr, "tram send: %s\n", e.text);
        return CMD_FAILED;
    }
    code = slots_make(s);
    if (code == CMD_DONE)
        code = s->args->message ? send_message(s) : send_lines(s);
    tram_client_close(s->client);
    for (uint32_t i = 0; i < s->slots; i++) {
        free(s->slot[i].number);
        free(s->slot[i].got);
    }
    return code;
}

static int start(const struct send_args *a)
{
    struct sender *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        fprintf(stderr, "tram send: no memory\n");
        return CMD_FAILED;
    }
    s->args = a;
    int code = running_load(&a->running, "send", &s->cluster);
    if (code == CMD_DONE)
        code = run(s);
    tram_cluster_free(s->cluster);
    free(s);
    return code;
}

int cmd_send(int argc, char **argv)
{
    struct send_args a = {.timeout_ms = 5000};
    const struct args_word words[] = {
        {"GROUP", &a.groups, "to which groups? Separate several by commas"},
        {"MESSAGE", &a.message, NULL},
        {0},
    };
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--timeout", "MS", "give up when a message takes longer, 1 to 3600000 (default 5000)",
         .number = &a.timeout_ms, .min = 1, .max = 3600000},
        {"--trace", "DIR", "write what is sent there, for `tram check`", .text = &a.trace,
         .needs = "a directory"},
        {"--quiet", NULL, "print errors only", .flag = &a.quiet},
        {0},
    };
    const struct args_command command = {
        .name = "send",
        .usage = "GROUP[,GROUP...] [MESSAGE] [OPTIONS]",
        .about =
            "Multicasts the message to the groups and waits until all have delivered it. Without a "
            "MESSAGE each line of standard input is one. For every message a line is printed: for "
            "each group, which delivery of that group it was, counted from 0, as in `g1:17 g3:4`.",
        .options = options,
        .words = words,
        .too_many = "a second message; quote one that has blanks",
        .dashes = true,
        .more = "Exit code: 0 all delivered, 1 not all in time, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}
