/* tram: picks the command by its name. */
#include "base/nearest.h"
#include "cli/cmd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line */
};

const char *cmd_program = "tram";

static int help(int argc, char **argv);

static const struct command commands[] = {
    {"demo", cmd_demo, "see 8 groups order messages while a host is killed"},
    {"init", cmd_init, "write a cluster file to begin with"},
    {"key", cmd_key, "make and change the keys of hosts and clients"},
    {"format", cmd_format, "make the directories in which a durable cluster keeps what it has"},
    {"up", cmd_up, "start all hosts of a cluster file on this machine, and look after them"},
    {"host", cmd_host, "run one host in the foreground"},
    {"memory", cmd_memory, "run a host that is only memory in the foreground"},
    {"send", cmd_send, "multicast a message, or the lines of standard input"},
    {"send-file", cmd_send_file, "send a file to all members of a cell"},
    {"tail", cmd_tail, "watch what a group delivers"},
    {"status", cmd_status, "show groups, leaders, replicas and rates"},
    {"top", cmd_top, "the same, live"},
    {"http", cmd_http, "the same as a page for browsers, and figures for Prometheus"},
    {"view", cmd_view, "show the members of a group, their cells and what they wait for"},
    {"pub", cmd_pub, "publish to a topic of a group, from outside of it"},
    {"sub", cmd_sub, "print the samples of a topic as they come"},
    {"topics", cmd_topics, "list the topics of a group"},
    {"plan", cmd_plan, "propose the tree with the least expected work"},
    {"check", cmd_check, "check recorded traces against the properties of atomic multicast"},
    {"backup", cmd_backup, "copy what a durable cluster has at one point of the order"},
    {"restore", cmd_restore, "make a new cluster that begins with a backup"},
    {"log", cmd_log, "print what a group's cell has kept on disk, by version or time"},
    {"disk", cmd_disk, "check what a host keeps on its disk, or print it"},
    {"bench", cmd_bench, "measure latency and throughput on this machine"},
    {"sim", cmd_sim, "run a protocol in the simulator under drawn faults, and check it"},
    {"help", help, "show this list, or the help of a command"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const char *command_name(const void *of, uint32_t i)
{
    return ((const struct command *)of)[i].name;
}

static void print_usage(FILE *to)
{
    fprintf(to, "usage: tram COMMAND [OPTIONS]\n\n");
    for (unsigned i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n`tram COMMAND --help` tells the options of a command, `tram --version` the"
                " version.\n");
}

static int no_such_command(const char *name)
{
    struct nearest_names names = {command_name, commands, COMMANDS};

    fprintf(stderr, "tram: there is no command '%s'; %s. `tram --help` explains them\n", name,
            nearest_text(name, names, COMMANDS).s);
    return CMD_USAGE;
}

static const struct command *find(const char *name)
{
    for (unsigned i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int help(int argc, char **argv)
{
    const struct command *of = argc > 1 ? find(argv[1]) : NULL;
    char option[] = "--help";
    char *words[] = {argc > 1 ? argv[1] : NULL, option, NULL};

    if (argc > 1 && of == NULL && argv[1][0] != '-')
        return no_such_command(argv[1]);
    if (of != NULL && of->run != help)
        return of->run(2, words);
    print_usage(stdout);
    return CMD_DONE;
}

/* Whoever reads a file of what was printed is to know that it is not all: on a full disk nothing else tells. A reader who has left, and
 * a stream that was closed before, want nothing. */
static int end_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno == EPIPE || errno == EBADF)
        return code;
    fprintf(stderr, "tram: not all that was printed could be written: %s\n",
            strerror(errno ? errno : EIO));
    return code == CMD_DONE ? CMD_FAILED : code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return CMD_USAGE;
    }
    /* A limit on file sizes (ulimit -f), which holds for shared memory too, is to be an error with a text. */
    signal(SIGXFSZ, SIG_IGN);
    /* A host has descriptors for every client, and we do nothing (select) that would not bear many. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    cmd_program = argv[0];
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0) {
        printf("tram %s\n", TRAM_VERSION);
        return end_output(CMD_DONE);
    }
    const struct command *c = find(name);
    return c != NULL ? end_output(c->run(argc - 1, argv + 1)) : no_such_command(name);
}
