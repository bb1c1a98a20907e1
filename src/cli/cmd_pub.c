/* tram pub: publishes a text, or the lines of standard input, to a topic. */
#include "base/clock.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/running.h"
#include "tram/topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

struct pub_args {
    struct running_args running;
    const char *topic, *text;
    uint64_t timeout_ms;
};

struct publisher {
    const struct pub_args *args;
    struct tram_group_client *client;
    struct tram_client_topic *topic;
    uint64_t moved_ns; /* when something was last delivered */
    uint64_t failed;
};

static void on_done(void *ctx, uint64_t ticket, const struct tram_answer *a)
{
    struct publisher *p = ctx;
    (void)ticket;
    p->moved_ns = clock_now_ns();
    p->failed += a->status != TRAM_OK;
}

static int complain(const char *text)
{
    fprintf(stderr, "tram pub: %s\n", text);
    return CMD_FAILED;
}

/* Something is to be delivered, and nothing was for as long as it may take. */
static int wait_some(struct publisher *p, const char *why)
{
    struct tram_error e = {""};
    if (tram_group_client_wait(p->client, 100 * MS, &e) < 0)
        return complain(e.text);
    if (clock_now_ns() - p->moved_ns < p->args->timeout_ms * MS)
        return CMD_DONE;
    return complain(why[0] ? why : "not everything was delivered in time; it may be later");
}

static int publish(struct publisher *p, const char *text, size_t bytes)
{
    struct tram_error e = {""};
    int code = CMD_DONE;
    if (bytes > UINT32_MAX)
        return complain("that is too long");
    for (;;) {
        int rc = tram_client_publish(p->topic, text, (uint32_t)bytes, NULL, &e);
        if (rc == TRAM_OK)
            return CMD_DONE;
        if (rc != TRAM_AGAIN)
            return complain(e.text);
        if ((code = wait_some(p, e.text)) != CMD_DONE)
            return code;
    }
}

static int publish_lines(struct publisher *p)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int code = CMD_DONE;
    while (code == CMD_DONE && (n = getline(&line, &room, stdin)) >= 0) {
        size_t bytes = (size_t)n;
        bytes -= bytes > 0 && line[bytes - 1] == '\n';
        code = publish(p, line, bytes);
        tram_group_client_poll(p->client, NULL);
    }
    free(line);
    return code;
}

static int run(struct publisher *p, struct tram_cluster *cluster)
{
    struct tram_error e = {""};
    const struct tram_group_client_options o = {.done = on_done, .ctx = p};
    const struct tram_client_topic_options topic = {.role = TRAM_PUBLISH};
    if (tram_group_client_open(cluster, &o, &p->client, &e) < 0 ||
        tram_client_topic_open(p->client, p->args->topic, &topic, &p->topic, &e) < 0)
        return complain(e.text);
    p->moved_ns = clock_now_ns();
    bool lines = p->args->text == NULL || strcmp(p->args->text, "-") == 0;
    int code = lines ? publish_lines(p) : publish(p, p->args->text, strlen(p->args->text));
    int cell = tram_group_client_cell(p->client, p->args->topic, 0);
    while (code == CMD_DONE && tram_group_client_outstanding(p->client) > 0) {
        const char *waits = tram_group_client_waits(p->client, (uint32_t)cell);
        code = wait_some(p, waits ? waits : "");
    }
    return code == CMD_DONE && p->failed ? complain("not everything could be delivered") : code;
}

static int start(const struct pub_args *a)
{
    struct publisher p = {.args = a};
    struct tram_cluster *cluster = NULL;
    int code = running_load(&a->running, "pub", &cluster);
    if (code == CMD_DONE)
        code = run(&p, cluster);
    tram_group_client_close(p.client);
    tram_cluster_free(cluster);
    return code;
}

int cmd_pub(int argc, char **argv)
{
    struct pub_args a = {.timeout_ms = 5000};
    const struct args_word words[] = {
        {"TOPIC", &a.topic, "to which topic? `tram topics` names them"},
        {"TEXT", &a.text, NULL},
        {0},
    };
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--timeout", "MS",
         "give up when nothing is delivered for so long, 1 to 3600000 (default 5000)",
         .number = &a.timeout_ms, .min = 1, .max = 3600000},
        {0},
    };
    const struct args_command command = {
        .name = "pub",
        .usage = "TOPIC [TEXT|-] [OPTIONS]",
        .about =
            "Publishes the text to the topic, from outside of the group, and waits until it is "
            "delivered. Without a TEXT, or with -, each line of standard input is a sample.",
        .options = options,
        .words = words,
        .too_many = "a second text; quote one that has blanks",
        .dashes = true,
        .more = "Exit code: 0 all delivered, 1 not all in time, 2 wrong usage.",
    };
    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}
