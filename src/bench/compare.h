/* `tram bench --compare`: the figures 5 to 8 of the TRAM paper (sec. 8), measured in one run.
 *
 * A comparison is a list of cells, each a case to measure, and figures that show them: a figure has
 * a series for each protocol or tree, and a series one cell for each place on the x axis. A cell
 * may stand in several figures and is measured once. Where a point comes from is the business of
 * the function that compare_run is given (shared memory, a model); printing and the report only
 * read what it left here. Caller's memory, one thread. */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "bench/bench.h"

#include <signal.h>
#include <stdio.h>

enum {
    COMPARE_TURNS_MAX = 15,
    COMPARE_X_MAX = 8,
    COMPARE_SERIES_MAX = 6,
    COMPARE_FIGURES_MAX = 4,
    COMPARE_NOTES_MAX = 6,
    COMPARE_FACTS_MAX = 16,
    COMPARE_WORD_BYTES = 40,
};

struct compare_cell {
    struct bench_args args; /* the case, ready for `measure` */
    char name[80]; /* "figure 5: depth, 3 destinations"; of the first figure that shows it */
    struct bench_point turn[COMPARE_TURNS_MAX];
    uint32_t turns;            /* that were measured */
    struct bench_point median; /* over the turns, of every number by itself */
    uint32_t best;             /* of args.load: with which the median rate is highest */
    char error
        [ERR_TEXT_BYTES]; /* why a turn could not be measured, and further ones were left out */
};

struct compare_series {
    char name[COMPARE_WORD_BYTES];
    bool tree;      /* competes for the best tree of the figure */
    bool dashed;    /* in plots */
    uint8_t colour; /* in plots, 0 to 3 */
    int reference;  /* the series to which its throughput is normalised; itself: none */
    int cell[COMPARE_X_MAX];
};

struct compare_figure {
    uint32_t number; /* in the paper */
    char title[96];
    const char *remark; /* that helps to read it, or NULL */
    const char *x_name; /* "destinations" */
    const char *y_name; /* NULL: what is measured, and in which unit */
    uint32_t x[COMPARE_X_MAX], xs;
    struct compare_series series[COMPARE_SERIES_MAX];
    uint32_t count;                       /* of series */
    bool rates;                           /* throughput too, not only latency */
    bool ranked;                          /* the trees are compared with each other */
    bool log_scale;                       /* of the y axes of latency and throughput */
    const char *paper[COMPARE_NOTES_MAX]; /* what the paper says in words; up to the first NULL */
};

/* What has to be known to read the figures: the machine, its layout, versions. */
struct compare_fact {
    char name[32];
    char value[160];
};

struct compare {
    struct compare_figure figure[COMPARE_FIGURES_MAX];
    uint32_t figures;
    struct compare_cell *cell;
    uint32_t cells;
    uint32_t turns;    /* wanted of every cell */
    char origin[64];   /* where the points come from: "measured on shared memory" */
    char command[256]; /* that repeats it */
    struct compare_fact fact[COMPARE_FACTS_MAX];
    uint32_t facts;
};

struct compare_options {
    /* Groups, replicas, payload, hosts, layout, log_bytes of the cases that do not vary them; the most
     * clients; `seconds` to measure in all, shared out among all turns. */
    struct bench_args args;
    uint32_t turns; /* each point is the median of so many */
    bool quick;     /* about half of the points */
};

/* Measures one turn of one point. 0, or an error with its text. */
typedef int compare_measure(void *ctx, const struct bench_args *point, struct bench_point *,
                            struct err *);

/* Lays out figures and cells, nothing is measured. */
int compare_open(struct compare *, const struct compare_options *, struct err *);
void compare_close(struct compare *);

/* Adds a fact; beyond COMPARE_FACTS_MAX none. */
void compare_add_fact(struct compare *, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The processor, kernel, versions and so on of where we run; with that, how points are measured there. */
void compare_facts_machine(struct compare *);
void compare_facts_here(struct compare *);

/* Measures all cells, once in every turn, so that a bad minute of the machine is one turn of many
 * points and not all turns of one. A cell that fails is left out from then on. What is measured
 * goes to `progress` as it changes (NULL: nobody is told). *stop ends it early (NULL: never). Returns
 * how many cells have no value. */
uint32_t compare_run(struct compare *, compare_measure *, void *ctx, FILE *progress,
                     const volatile sig_atomic_t *stop);

/* ---- reading it (tables.c) ---- */

enum compare_metric {
    COMPARE_LATENCY, /* ns */
    COMPARE_RATE,    /* messages a second, with the number of clients that gives most */
    COMPARE_NORMAL,  /* the rate by that of the reference */
};

/* NAN if it was not measured. */
double compare_value(const struct compare *, const struct compare_figure *, uint32_t series,
                     uint32_t x, enum compare_metric);

/* The clients that saturate it; 0 if it was not measured. */
uint32_t compare_clients(const struct compare *, const struct compare_figure *, uint32_t series,
                         uint32_t x);

/* The tree that does best at this place, or -1. */
int compare_best(const struct compare *, const struct compare_figure *, uint32_t x,
                 enum compare_metric);

/* A figure's values as words in rows and columns, the heads first: for who prints them. */
struct compare_table {
    uint32_t rows, columns;
    char word[COMPARE_X_MAX + 1][COMPARE_SERIES_MAX + 2][COMPARE_WORD_BYTES];
};

void compare_table(const struct compare *, const struct compare_figure *, enum compare_metric,
                   struct compare_table *);

/* What a metric is called, with its unit; in which unit values are shown, and how. */
const char *compare_metric_name(enum compare_metric);
double compare_shown(enum compare_metric, double value);
void compare_number(char word[COMPARE_WORD_BYTES], double shown);

/* How many metrics a figure shows: 1 or all. */
uint32_t compare_metrics(const struct compare_figure *);

/* What the figures say in words, to be put beside the paper's; may be empty. */
void compare_finding(const struct compare *, const struct compare_figure *, enum compare_metric,
                     char *text, size_t bytes);

/* Tables in Markdown. */
void compare_print(const struct compare *, FILE *);

/* Everything, every turn of every cell, as one JSON object (json.c). */
void compare_json(const struct compare *, FILE *);

/* ---- the report (report.c, plot.c) ---- */

/* Makes the directory of a report, if need be. Called before the run, so that one who may not write there
 * hears of it at once. */
int compare_report_dir(const char *dir, struct err *);

/* Writes index.html and compare.json into the directory. */
int compare_report(const struct compare *, const char *dir, struct err *);

/* One file there, with what body writes. */
int compare_file(const char *dir, const char *name, void (*body)(const void *ctx, FILE *),
                 const void *ctx, struct err *);

/* Its parts: the page up to its heading; text escaped, good within an attribute too; one plot. */
void compare_page_begin(FILE *, const char *title);
void compare_html(FILE *, const char *text);
void compare_plot(FILE *, const struct compare *, const struct compare_figure *,
                  enum compare_metric);

#endif
