/* tram top: what `tram status` shows, live. */
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/status_view.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { EVERY_MS = 1000, FIRST_MS = 200, LINES_BESIDE_GROUPS = 5 };

struct top_args {
    struct running_args running;
    uint64_t count; /* 0: without end */
};

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static uint32_t groups_that_fit(void)
{
    struct winsize w;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_row == 0)
        return 0;
    return w.ws_row > LINES_BESIDE_GROUPS ? w.ws_row - LINES_BESIDE_GROUPS : 1;
}

/* Waits; true if q was typed meanwhile, or a signal came. */
static bool wait_or_quit(bool keys, int ms)
{
    struct pollfd p = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;

    if (poll(&p, 1, ms) > 0 && read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q'))
        return true;
    return asked_to_stop;
}

static void watch(const struct top_args *a, struct running *r, struct status_view *v, bool keys)
{
    bool terminal = isatty(STDOUT_FILENO);

    running_sample(r);
    status_view_update(v);
    bool quit = wait_or_quit(keys, FIRST_MS);
    for (uint64_t n = 1; !quit; n++) {
        running_sample(r);
        status_view_update(v);
        if (terminal)
            fputs("\033[H\033[2J", stdout);
        status_view_print(v, stdout, terminal ? groups_that_fit() : 0);
        if (terminal)
            fputs("q ends it\n", stdout);
        if (fflush(stdout) != 0 || n == a->count)
            return;
        quit = wait_or_quit(keys, EVERY_MS);
    }
}

/* Keys come one by one and are not shown, as long as it runs. */
static void watch_with_keys(const struct top_args *a, struct running *r, struct status_view *v)
{
    struct termios before, now;
    bool keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;

    if (keys) {
        now = before;
        now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
    watch(a, r, v, keys);
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static int run(const struct top_args *a, const struct tram_cluster *c)
{
    struct running r = {0};
    struct status_view v = {0};
    struct sigaction s = {.sa_handler = on_signal};

    int code = running_open(&r, c, "top");
    if (code != CMD_DONE)
        return code;
    sigaction(SIGINT, &s, NULL);
    sigaction(SIGTERM, &s, NULL);
    if (status_view_open(&v, &r)) {
        watch_with_keys(a, &r, &v);
    } else {
        fprintf(stderr, "tram top: no memory\n");
        code = CMD_FAILED;
    }
    status_view_close(&v);
    running_close(&r);
    return code;
}

int cmd_top(int argc, char **argv)
{
    struct top_args a = {0};
    struct tram_cluster *c;
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--count", "N", "end after N times; on a terminal or not (default: without end)",
         .number = &a.count, .min = 1, .max = UINT32_MAX},
        {0},
    };
    const struct args_command command = {
        .name = "top",
        .usage = "[OPTIONS]",
        .about = "Shows every second what `tram status` shows. q or ^C ends it.",
        .options = options,
        .more = "Exit code: 0 shown, 1 not, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    code = running_load(&a.running, "top", &c);
    if (code != CMD_DONE)
        return code;
    code = run(&a, c);
    tram_cluster_free(c);
    return code;
}
