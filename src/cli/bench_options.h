/* What `tram bench` is asked for, whether it goes together, and one case's figures as text or JSON. */
#ifndef CLI_BENCH_OPTIONS_H
#define CLI_BENCH_OPTIONS_H

#include "bench/group.h"
#include "bench/model_bench.h"
#include "cli/args.h"

enum { BENCH_SECONDS = 2 }; /* of each measurement, if nothing else is said */

/* What the command line asks for. */
struct bench_options {
    struct bench_args bench;
    bool protocol_given, compare, quick;
    const char *report;
    const char *single; /* an option given that --compare has no use for, or NULL */
    bool groups_given, check_model;
    struct bench_model model;
    const char *simulated; /* an option given that needs it, or NULL */
    const char *real;      /* an option given that it has no use for, or NULL */
    bool own_presets;      /* each paper's figures with its own */
    const char *network;   /* an option given that needs tcp or verbs, or NULL */
    bool layout_given, dst_given;
    bool durable;
    const char *dir;        /* where it keeps its data; NULL: it chooses */
    const char *serve_file; /* we are a host of the cluster in this file; or NULL */
    bool is_group;
    struct group_args group;
    const char *sizes;         /* of messages, or NULL */
    const char *stage_item[4]; /* without batches */
    struct args_list stages;
    unsigned senders, active, mode;
    bool topic;
    unsigned votes; /* who votes in a log with memories, plus 1; 0: there are none */
    bool of_group;  /* an option was given that goes with it alone */
};

/* In virtual time, or over sockets and RDMA. */
bool bench_simulated(const struct bench_options *);
bool bench_networked(const struct bench_args *);

/* Under protocol group, and else: refuses, with a line on standard error, what does not go together, and fills in what was not
 * said. CMD_DONE or the code to end with. */
int bench_options_check_group(struct bench_options *);
int bench_options_check(struct bench_options *);

extern const char *const bench_layout_names[];

void bench_print(const struct bench_options *, const struct bench_figures *);
void bench_print_json(const struct bench_options *, const struct bench_figures *);
/* Of a case in a model. */
void bench_print_json_model(const struct bench_options *, const struct bench_figures *);

#endif
