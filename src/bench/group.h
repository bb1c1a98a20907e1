/* `tram bench --protocol group`: members of a group, in one run with what the machine itself can do.
 *
 * One member, a sender, is the thread that measures. The others are polled by a second thread, each on its core, or are
 * processes. Beside it, in turns: a bare ring of one writer and as many readers in the same two threads, a copy that is read as
 * often by one thread, and the replicated log with as many replicas. All figures are medians over the turns. */
#ifndef BENCH_GROUP_H
#define BENCH_GROUP_H

#include "bench/bench.h"
#include "group/member.h"

#include <stdio.h>

enum {
    GROUP_SIZES_MAX = 8,
    GROUP_TURNS = 5,
    GROUP_MEMBERS_MAX = BENCH_HOSTS_MAX,
    GROUP_SIZE_MAX = 16 << 20,
};

enum group_senders { GROUP_ALL_SEND, GROUP_HALF_SEND, GROUP_ONE_SENDS };

struct group_args {
    enum bench_transport transport; /* shm, tcp or verbs */
    const char *address;
    bool clear;
    bool procs; /* the others are processes */
    uint32_t members;
    enum group_senders senders;
    uint32_t size[GROUP_SIZES_MAX], sizes; /* bytes of messages */
    uint32_t subgroups;                    /* each of all members */
    bool active_all;                       /* all of them are sent to; else the first alone */
    enum cell_mode mode;
    uint32_t delay_us; /* one sender waits so long between two messages; 0: none does */
    bool one_sends;    /* all may that are senders, the first alone does */
    bool touch;        /* senders write every byte, and members read it */
    bool no_nulls;
    uint32_t unbatched; /* BATCH_* that are off */
    uint32_t seconds;   /* of each part, over all turns */
    bool bare;          /* the group alone: nothing beside it */
    const char *dir;    /* of what is kept on disks; NULL: as bench_disk_dir chooses */
};

/* Of one size. Medians; what was not measured is 0. */
struct group_point {
    uint32_t size;
    double rate;                         /* messages a second, delivered by each member */
    double p50, p99;                     /* ns from sending to the own delivery, one at a time */
    double line_ns;                      /* round trip of a cache line; shm */
    double publish_batch, deliver_batch; /* messages in one, saturated */
    double writes;          /* pushes of rings and rows by all members, for each message */
    double nulls;           /* for each message */
    double ring, copy, log; /* messages a second, of what is beside it */
    double of_ring, of_copy, of_log, in_lines; /* ratios: medians of those within a turn */
    /* What is kept: bytes of a batch and batches a second, of the measuring member; and of the same batches without a protocol. */
    double disk_batch, disk_rate, disk_floor, of_disk;
};

static inline bool group_keeps(const struct group_args *a)
{
    return a->mode == CELL_LOGGED || a->mode == CELL_DURABLE;
}

int bench_group(const struct group_args *, struct group_point point[GROUP_SIZES_MAX],
                FILE *progress, struct err *);

void bench_group_print(const struct group_args *, const struct group_point *, FILE *);
void bench_group_json(const struct group_args *, const struct group_point *, FILE *);

/* Writes index.html, with plots, and group.json into the directory. */
int bench_group_report(const struct group_args *, const struct group_point *, const char *command,
                       const char *dir, struct err *);

/* Saturated, once, for so long: messages a second. */
int bench_group_rate(const struct group_args *, uint32_t size, uint64_t ns, double *rate,
                     struct err *);

/* ---- the figures of the Spindle paper, and the bars that are set for this machine (group_figures.c) ---- */

enum { GROUP_CASES_MAX = 16, GROUP_FIGURES = 4 };

/* Cases that are measured in turns, so that what the machine does in a minute is in all of them. */
struct group_case {
    const char *series; /* in the plot; the place on its x axis: */
    uint32_t x;
    struct group_args args;
    const struct group_case *of; /* what it is compared with; NULL: nothing */
    double bar;                  /* at least this part of that; 0: none is set */
    double rate, ratio;          /* medians; the ratio is of those within a turn */
    double turn[GROUP_TURNS];
};

struct group_figure {
    const char *title, *x_name, *remark;
    struct group_case cases[GROUP_CASES_MAX];
    uint32_t count;
    uint32_t turns; /* that were measured */
};

/* The figures, with nothing measured. */
void group_figures_open(struct group_figure figure[GROUP_FIGURES]);
/* Each case in so many turns, at most GROUP_TURNS; `seconds` for all of them together, besides what it takes to begin. */
int group_figures_run(struct group_figure figure[GROUP_FIGURES], uint32_t turns, uint32_t seconds,
                      FILE *progress, struct err *);
void group_figures_print(const struct group_figure figure[GROUP_FIGURES], FILE *);
void group_figures_json(const struct group_figure figure[GROUP_FIGURES], FILE *);
/* Writes index.html, with plots, and group.json into the directory. */
int group_figures_report(const struct group_figure figure[GROUP_FIGURES], const char *command,
                         const char *dir, struct err *);

/* What the machine does without a protocol (group_floor.c): a ring of one writer and so many readers, of which the first is
 * the writer's own thread and the others are the rig's second; and a copy that one thread reads as often. Messages a second. */
struct group_floor;
int group_floor_open(uint32_t readers, uint32_t size, bool touch, struct group_floor **,
                     struct err *);
void group_floor_close(struct group_floor *);
/* One round of the second thread's readers. */
void group_floor_round(struct group_floor *);
double group_floor_ring(struct group_floor *, uint64_t ns);
double group_floor_copy(struct group_floor *, uint64_t ns);

/* Sums the words of a message: all, or the first alone. Not optimised away. */
static inline uint64_t group_read(const unsigned char *data, uint32_t bytes, bool touch)
{
    uint64_t sum = 0, word = 0;
    uint32_t whole = touch ? bytes / 8 * 8 : bytes < 8 ? 0 : 8;
    for (uint32_t i = 0; i < whole; i += 8) {
        __builtin_memcpy(&word, data + i, 8);
        sum += word;
    }
    return whole == 0 && bytes > 0 ? data[0] : sum;
}

/* Writes a message: all of it from `from`, or the first word alone. */
static inline void group_write(unsigned char *data, const unsigned char *from, uint32_t bytes,
                               bool touch)
{
    __builtin_memcpy(data, from, touch || bytes < 8 ? bytes : 8);
}

#endif
