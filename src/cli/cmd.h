/* The commands of `tram`, one file each: cmd_NAME.c. A command gets its own name as argv[0] and
 * returns the exit code of the program. To add one: declare it here, add its row in main.c. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

/* Exit codes that scripts may rely on. */
enum {
    CMD_DONE = 0,
    CMD_FAILED = 1, /* it ran, and found or met a failure */
    CMD_USAGE = 2,  /* it was asked for something that does not exist */
    CMD_PART = 3,   /* backup: files of other machines are yet to be copied */
    CMD_LOST = 3, /* host: a group lost the memory of its majority; starting again would hide it */
};

/* The first key of what commands print as JSON, for scripts. It rises when a key goes away or means something else; keys are
 * added without that (docs/stability.md). Of `bench` the figures are for people, and have none. */
#define CMD_JSON_VERSION "\"version\": 1"

/* The program as it was called, "build/tram": for commands that a person is told to type next. */
extern const char *cmd_program;

int cmd_backup(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_disk(int argc, char **argv);
int cmd_log(int argc, char **argv);
int cmd_format(int argc, char **argv);
int cmd_host(int argc, char **argv);
int cmd_memory(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_pub(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_send(int argc, char **argv);
int cmd_send_file(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_sub(int argc, char **argv);
int cmd_tail(int argc, char **argv);
int cmd_http(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_topics(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_view(int argc, char **argv);

#endif
