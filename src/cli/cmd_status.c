/* tram status: groups, leaders, replicas and rates, once. */
#include "api/api.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/member_view.h"
#include "cli/status_view.h"

#include <stdio.h>

enum { SAMPLE_MS = 200 };

struct status_args {
    struct running_args running;
    uint64_t wait_s;
    bool json;
};

static int show_groups(const struct status_args *a, struct running *r, bool well)
{
    struct status_view v = {0};

    if (!status_view_open(&v, r)) {
        fprintf(stderr, "tram status: no memory\n");
        status_view_close(&v);
        return CMD_FAILED;
    }
    running_sample(r);
    status_view_update(&v);
    running_pause(SAMPLE_MS);
    running_sample(r);
    bool led = running_hosts_alive(r) > 0 && running_until(r, running_all_led, RUNNING_CHANGE_MS);
    status_view_update(&v);
    if (a->json)
        status_view_json(&v, stdout);
    else
        status_view_print(&v, stdout, 0);
    status_view_close(&v);
    /* They may all have ended since who waited has seen them take part. */
    return well && led ? CMD_DONE : CMD_FAILED;
}

static int show(const void *args, struct running *r)
{
    const struct status_args *a = args;
    bool well = a->wait_s == 0 || running_until(r, running_all_attached, a->wait_s * 1000);

    if (running_hosts_alive(r) == 0 && !a->json)
        return running_nobody(r, "status");
    if (r->cluster->conf->protocol == CLUSTER_GROUP)
        return member_view_show(r, a->json) && well ? CMD_DONE : CMD_FAILED;
    return show_groups(a, r, well);
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
    return code == ARGS_GO ? running_look(&a.running, "status", show, &a) : code;
}
