/* tram sub: prints the samples of a topic as they come. */
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/running.h"
#include "cli/when.h"
#include "tram/topic.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

struct sub_args {
    struct running_args running;
    const char *topic, *when;
    uint64_t count;
    enum tram_from from;
    uint64_t at; /* of from */
};

struct subscriber {
    uint64_t left; /* samples until the end */
    bool failed;
};

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static void on_samples(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    struct subscriber *s = ctx;
    (void)view;
    for (uint32_t i = 0; i < count && s->left > 0; i++, s->left--) {
        fwrite(item[i].data, 1, item[i].bytes, stdout);
        s->failed |= putchar('\n') == EOF;
    }
}

static void on_lost(void *ctx, uint64_t count)
{
    (void)ctx;
    if (count == TRAM_LOST_SOME)
        fprintf(stderr, "tram sub: another member feeds this now; some samples may be lost\n");
    else
        fprintf(stderr, "tram sub: %llu samples lost\n", (unsigned long long)count);
}

static int complain(const char *text)
{
    fprintf(stderr, "tram sub: %s\n", text);
    return CMD_FAILED;
}

static int run(const struct sub_args *a, struct tram_group_client *client)
{
    struct subscriber s = {.left = a->count ? a->count : UINT64_MAX};
    struct tram_client_topic *topic;
    struct tram_error e = {""};
    struct sigaction act = {.sa_handler = on_signal};
    const struct tram_client_topic_options o = {.role = TRAM_SUBSCRIBE,
                                                .from = a->from,
                                                .at = a->at,
                                                .on_samples = on_samples,
                                                .on_lost = on_lost,
                                                .ctx = &s};
    if (tram_client_topic_open(client, a->topic, &o, &topic, &e) < 0)
        return complain(e.text);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    bool fed = false;
    while (!asked_to_stop && s.left > 0 && !s.failed) {
        if (tram_group_client_wait(client, 200 * MS, &e) < 0)
            return complain(e.text);
        if (!fed && tram_client_topic_fed(topic))
            fprintf(stderr, "tram sub: subscribed to %s\n", a->topic);
        fed |= tram_client_topic_fed(topic);
        s.failed |= fflush(stdout) != 0;
    }
    return s.failed ? complain("cannot write") : CMD_DONE;
}

static bool read_from(struct sub_args *a)
{
    const char *text = a->when;
    a->from = TRAM_FROM_NOW;
    if (text == NULL || strcmp(text, "now") == 0)
        return true;
    a->from = TRAM_FROM_START;
    if (strcmp(text, "start") == 0)
        return true;
    a->from = TRAM_FROM_VERSION;
    if (when_version(text, &a->at))
        return true;
    a->from = TRAM_FROM_TIME;
    return when_time(text, &a->at);
}

static int start(struct sub_args *a)
{
    struct tram_cluster *cluster = NULL;
    struct tram_group_client *client = NULL;
    struct tram_error e = {""};
    if (!read_from(a))
        return args_bad("sub", "--from",
                        "start, now, a version like 7.120, or a time like 2026-11-18 20:57:19");
    int code = running_load(&a->running, "sub", &cluster);
    if (code == CMD_DONE && tram_group_client_open(cluster, NULL, &client, &e) < 0)
        code = complain(e.text);
    if (code == CMD_DONE)
        code = run(a, client);
    tram_group_client_close(client);
    tram_cluster_free(cluster);
    return code;
}

int cmd_sub(int argc, char **argv)
{
    struct sub_args a = {.when = NULL};
    const struct args_word words[] = {
        {"TOPIC", &a.topic, "which topic? `tram topics` names them"},
        {0},
    };
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--from", "WHEN",
         "start: all that is kept first; now: what comes from now on (default); a version, or a "
         "time: what is kept from there on",
         .text = &a.when, .needs = "start, now, a version or a time"},
        {"--count", "N", "end after so many samples", .number = &a.count, .min = 1,
         .max = UINT64_MAX},
        {0},
    };
    const struct args_command command = {
        .name = "sub",
        .usage = "TOPIC [OPTIONS]",
        .about =
            "Prints the samples of the topic, a line each, from outside of the group. It holds "
            "up nobody: what it does not take in time is lost to it, the oldest first, and how "
            "much that was is said on standard error.",
        .options = options,
        .words = words,
        .too_many = "one topic at a time",
        .more = "Exit code: 0 after --count samples or a signal, 1 it cannot go on, 2 wrong usage.",
    };
    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}
