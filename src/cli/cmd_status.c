/* tram status: groups, leaders, replicas and rates, once. */
#include "api/api.h"
#include "base/clock.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/member_view.h"
#include "cli/status_view.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SAMPLE_MS = 200, LOOK_MS = 20 };

struct status_args {
    struct running_args running;
    uint64_t wait_s;
    bool json;
};

static void pause_ms(uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

/* Whether all replicas took part before the time was over. */
static bool wait_all(struct running *r, uint64_t seconds)
{
    uint64_t until = r->now_ns + seconds * UINT64_C(1000000000);

    while (!running_all_attached(r) && r->now_ns < until) {
        pause_ms(LOOK_MS);
        running_sample(r);
    }
    return running_all_attached(r);
}

static int show(const struct status_args *a, struct running *r)
{
    struct status_view v = {0};
    bool well = a->wait_s == 0 || wait_all(r, a->wait_s);

    if (running_hosts_alive(r) == 0 && !a->json) {
        fprintf(stderr, "tram status: no host of cluster '%s' %s\n", r->cluster->conf->name,
                running_not(r->cluster).s);
        return CMD_FAILED;
    }
    if (r->cluster->conf->protocol == CLUSTER_GROUP) {
        if (a->json)
            member_view_json(r, stdout);
        else
            member_view_print(r, stdout);
        return well && running_all_in_view(r) ? CMD_DONE : CMD_FAILED;
    }
    if (!status_view_open(&v, r)) {
        fprintf(stderr, "tram status: no memory\n");
        status_view_close(&v);
        return CMD_FAILED;
    }
    running_sample(r);
    status_view_update(&v);
    pause_ms(SAMPLE_MS);
    running_sample(r);
    status_view_update(&v);
    if (a->json)
        status_view_json(&v, stdout);
    else
        status_view_print(&v, stdout, 0);
    status_view_close(&v);
    /* Who has waited has seen all take part: that a leader changes while this is shown is no reason to fail. */
    return (a->wait_s ? well : running_all_led(r)) ? CMD_DONE : CMD_FAILED;
}

static int start(const struct status_args *a)
{
    struct tram_cluster *c;
    struct running r = {0};

    int code = running_load(&a->running, "status", &c);
    if (code != CMD_DONE)
        return code;
    code = running_open(&r, c, "status");
    if (code == CMD_DONE)
        code = show(a, &r);
    running_close(&r);
    tram_cluster_free(c);
    return code;
}

int cmd_status(int argc, char **argv)
{
    struct status_args a = {0};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--json", NULL, "print one JSON object", .flag = &a.json},
        {"--wait", "SECONDS",
         "wait until all replicas of all groups take part, 1 to 3600; exit code 1 if they do not "
         "by then",
         .number = &a.wait_s, .min = 1, .max = 3600},
        {0},
    };
    const struct args_command command = {
        .name = "status",
        .usage = "[OPTIONS]",
        .about = "Shows for each group who leads it, under which ballot, how far its log was "
                 "applied and decided, how many of its replicas take part, how much it delivered, "
                 "and how much it delivers a second (over 200 ms); and which replicas are in "
                 "trouble: down, silent (stopped or hung), starting, joining, behind (waits for a "
                 "snapshot), detached (held up its group, or out of reach), late (200 ms or more). "
                 "Under "
                 "protocol group it shows what tram view shows.",
        .options = options,
        .more = "Exit code: 0 every group has a leader (or, under protocol group, all hosts that "
                "run are "
                "in one view that is adequate), 1 not, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}
