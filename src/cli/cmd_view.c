/* tram view: who is a member of a group, which cells they form, and what is waited for. */
#include "api/api.h"
#include "api/group_page.h"
#include "base/clock.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/member_view.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WATCH_MS = 500, LOOK_MS = 20 };

#define RESET_NS UINT64_C(10000000000) /* how long a reset may take */

struct view_args {
    struct running_args running;
    const char *reset;
    uint64_t wait_s;
    bool json, watch;
};

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

/* ---- watching ---- */

static void watch(const struct view_args *a, struct running *r)
{
    struct sigaction act = {.sa_handler = on_signal};
    bool terminal = isatty(STDOUT_FILENO) && !a->json;

    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    while (!asked_to_stop) {
        if (terminal)
            fputs("\033[H\033[2J", stdout);
        if (a->json)
            member_view_json(r, stdout);
        else
            member_view_print(r, stdout);
        fflush(stdout);
        running_pause(WATCH_MS);
        running_sample(r);
    }
}

/* ---- a vacant cell ---- */

static const struct group_page_record *newest(const struct running *r)
{
    int best = running_newest(r);

    return best < 0 ? NULL : running_member(r, (uint32_t)best);
}

/* The host that leads the keepers; -1: nobody does. */
static int leads(const struct running *r)
{
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m != NULL && r->host[h].state == RUNNING_UP && m->leads)
            return (int)h;
    }
    return -1;
}

/* Leaves the cell's number where the host that leads the keepers looks for it. */
static int ask(const struct running *r, uint32_t host, uint32_t cell)
{
    char path[RUNNING_DIR_BYTES + CLUSTER_NAME_BYTES + 16], made[sizeof path + 8], text[16];
    int n = snprintf(text, sizeof text, "%u\n", cell);

    snprintf(path, sizeof path, "%s/%s.reset", r->dir, r->cluster->conf->host[host].name);
    snprintf(made, sizeof made, "%s.new", path);
    int fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool well = fd >= 0 && write(fd, text, (size_t)n) == n;
    if (fd >= 0)
        well = close(fd) == 0 && well;
    if (well && rename(made, path) == 0)
        return CMD_DONE;
    fprintf(stderr, "tram view: %s: %s\n", path, strerror(errno));
    unlink(made);
    return CMD_FAILED;
}

static int reset(const struct view_args *a, struct running *r)
{
    const struct cluster *c = r->cluster->conf;
    int cell = cluster_cell(c, a->reset), lead = leads(r);
    const struct group_page_record *v = newest(r);

    if (cell == CLUSTER_NONE) {
        fprintf(stderr, "tram view: there is no cell '%s'; `tram view` names them all\n", a->reset);
        return CMD_USAGE;
    }
    if (v == NULL || lead < 0) {
        fprintf(stderr, "tram view: %s; nothing can be reset before\n",
                v == NULL ? "there is no view" : "nobody leads the keepers");
        return CMD_FAILED;
    }
    if (v->cell[cell].state != CELL_VACANT) {
        fprintf(stderr, "tram view: cell %s is not vacant: %s, and nothing of it is reset\n",
                a->reset,
                v->cell[cell].state == CELL_LIVES ? "members have its state" : "it is new");
        return CMD_FAILED;
    }
    if (r->host[lead].elsewhere) {
        fprintf(stderr,
                "tram view: host %s leads the keepers, on another machine; run `tram view --reset"
                " %s` there\n",
                c->host[lead].name, a->reset);
        return CMD_FAILED;
    }
    if (ask(r, (uint32_t)lead, (uint32_t)cell) != CMD_DONE)
        return CMD_FAILED;
    for (uint64_t until = clock_now_ns() + RESET_NS; clock_now_ns() < until;) {
        running_pause(LOOK_MS);
        running_sample(r);
        v = newest(r);
        if (v != NULL && v->cell[cell].state != CELL_VACANT) {
            printf("cell %s begins anew in view %llu\n", a->reset, (unsigned long long)v->vid);
            return CMD_DONE;
        }
    }
    fprintf(stderr, "tram view: cell %s is still vacant after 10 s\n", a->reset);
    return CMD_FAILED;
}

/* ---- the whole ---- */

static int view(const void *args, struct running *r)
{
    const struct view_args *a = args;
    const struct cluster *c = r->cluster->conf;

    if (c->protocol != CLUSTER_GROUP) {
        fprintf(stderr,
                "tram view: cluster '%s' has protocol: %s, which has no views; `tram status` shows"
                " its groups\n",
                c->name, cluster_protocol_name(c->protocol));
        return CMD_USAGE;
    }
    bool well = a->wait_s == 0 || running_until(r, running_all_attached, a->wait_s * 1000);
    if (running_hosts_alive(r) == 0 && !a->json && !a->watch)
        return running_nobody(r, "view");
    if (a->reset != NULL)
        return reset(a, r);
    if (a->watch) {
        watch(a, r);
        return CMD_DONE;
    }
    return member_view_show(r, a->json) && well ? CMD_DONE : CMD_FAILED;
}

int cmd_view(int argc, char **argv)
{
    struct view_args a = {0};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--json", NULL, "print one JSON object", .flag = &a.json},
        {"--watch", NULL, "show it again twice a second, until ^C", .flag = &a.watch},
        {"--wait", "SECONDS",
         "wait until all hosts are in one view that is adequate, 1 to 3600; exit code 1 if they "
         "are "
         "not by then",
         .number = &a.wait_s, .min = 1, .max = 3600},
        {"--reset", "CELL", "a vacant cell begins anew, empty: the state that it had is given up",
         .text = &a.reset, .needs = "a cell, as `tram view` names it"},
        {0},
    };
    const struct args_command command = {
        .name = "view",
        .usage = "[OPTIONS]",
        .about =
            "Shows the view that the members of a group are in: its number, who is in it since "
            "when and in which life, who is not and why, the members, senders and state of "
            "each cell, who keeps views and leads the keepers, and what is waited for.",
        .options = options,
        .more = "Exit code: 0 all hosts that run are in one view that is adequate, or the cell was "
                "reset; 1 not; 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? running_look(&a.running, "view", view, &a) : code;
}
