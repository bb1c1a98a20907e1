/* `tram bench --protocol group --compare`: what batches, nulls and subgroups do, as the Spindle paper's figures show it, and whether the bars of
 * this implementation are reached. Cases are pairs or rows that are measured by turns; a ratio is the median of those within a turn. */
#include "bench/compare.h"
#include "bench/group.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 64 };
enum { ALL_STAGES = BATCH_SEND | BATCH_RECEIVE | BATCH_DELIVER | BATCH_ACK };

static struct group_case *add(struct group_figure *f, const char *series, uint32_t x,
                              const struct group_case *of, double bar)
{
    struct group_case *c = &f->cases[f->count++];
    *c = (struct group_case){.series = series, .x = x, .of = of, .bar = bar};
    c->args = (struct group_args){.members = 3,
                                  .subgroups = 1,
                                  .transport = BENCH_SHM,
                                  .address = "127.0.0.1",
                                  .size = {SMALL},
                                  .sizes = 1,
                                  .bare = true};
    return c;
}

static void batches(struct group_figure *f)
{
    static const struct {
        const char *name;
        uint32_t off;
    } stages[] = {{"without send", BATCH_SEND},
                  {"without receive", BATCH_RECEIVE},
                  {"without deliver", BATCH_DELIVER},
                  {"without ack", BATCH_ACK},
                  {"without all", ALL_STAGES}};
    f->title = "Batches: three processes over tcp, all send";
    f->x_name = "bytes of a message";
    f->remark = "All stages with batches are to do 4 times what none do.";
    for (uint32_t size = SMALL; size <= 1024; size *= 16) {
        struct group_case *base = NULL;
        for (int i = (int)(sizeof(stages) / sizeof(stages[0])) - 1; i >= -1; i--) {
            bool all = i == sizeof(stages) / sizeof(stages[0]) - 1;
            struct group_case *c = add(f, i < 0 ? "all batches" : stages[i].name, size, base,
                                       i < 0 && size == SMALL ? 4 : 0);
            c->args.transport = BENCH_TCP;
            c->args.procs = true;
            c->args.size[0] = size;
            c->args.unbatched = i < 0 ? 0 : stages[i].off;
            base = all ? c : base;
        }
    }
}

static void nulls(struct group_figure *f)
{
    f->title = "Nulls: three members on shared memory, 64 bytes";
    f->x_name = "case";
    f->remark = "1: one sends, and others might: of one sender that is the only one. 2: all send: "
                "of no nulls. "
                "3: all send, one of them every 100 \u00b5s: of no delay.";
    struct group_case *c = add(f, "without", 1, NULL, 0);
    c->args.senders = GROUP_ONE_SENDS;
    add(f, "with", 1, c, 0.8)->args.one_sends = true;
    c = add(f, "without", 2, NULL, 0);
    c->args.no_nulls = true;
    add(f, "with", 2, c, 0.9);
    c = add(f, "without", 3, NULL, 0);
    add(f, "with", 3, c, 0.8)->args.delay_us = 100;
}

static void subgroups(struct group_figure *f)
{
    static const uint32_t counts[] = {2, 10, 50};
    f->title = "Subgroups: three members on shared memory, one sender, 64 bytes";
    f->x_name = "subgroups";
    f->remark = "Of one subgroup.";
    struct group_case *one = add(f, "one active", 1, NULL, 0);
    one->args.senders = GROUP_ONE_SENDS;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t all = 0; all < 2; all++) {
            double bar = (counts[i] == 50 && !all) || (counts[i] == 10 && all) ? 0.7 : 0;
            struct group_case *c = add(f, all ? "all active" : "one active", counts[i], one, bar);
            c->args.senders = GROUP_ONE_SENDS;
            c->args.subgroups = counts[i];
            c->args.active_all = all;
        }
}

static void members(struct group_figure *f)
{
    static const char *const names[] = {"all send", "half send", "one sends"};
    f->title = "Members: on shared memory, in two threads, 64 bytes";
    f->x_name = "members";
    f->remark = "Each message is delivered by all of them: a thread has more to do.";
    for (uint32_t n = 2; n <= 8; n *= 2)
        for (int who = GROUP_ALL_SEND; who <= GROUP_ONE_SENDS; who++) {
            struct group_case *c = add(f, names[who], n, NULL, 0);
            c->args.members = n;
            c->args.senders = (enum group_senders)who;
        }
}

void group_figures_open(struct group_figure figure[GROUP_FIGURES])
{
    memset(figure, 0, GROUP_FIGURES * sizeof(figure[0]));
    batches(&figure[0]);
    nulls(&figure[1]);
    subgroups(&figure[2]);
    members(&figure[3]);
}

/* ---- measuring ---- */

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double median_of(const double *turn, uint32_t turns)
{
    double v[GROUP_TURNS];
    memcpy(v, turn, turns * sizeof(v[0]));
    qsort(v, turns, sizeof(v[0]), by_value);
    return v[turns / 2];
}

static void conclude(struct group_case *c, uint32_t turns)
{
    double ratio[GROUP_TURNS] = {0};
    c->rate = median_of(c->turn, turns);
    for (uint32_t t = 0; c->of && t < turns; t++)
        ratio[t] = c->of->turn[t] > 0 ? c->turn[t] / c->of->turn[t] : 0;
    c->ratio = c->of ? median_of(ratio, turns) : 0;
}

static int run_figure(struct group_figure *f, uint32_t turns, uint64_t ns, struct err *e)
{
    int rc = 0;
    for (f->turns = 0; rc == 0 && f->turns < turns; f->turns++)
        for (uint32_t i = 0; rc == 0 && i < f->count; i++) {
            struct group_case *c = &f->cases[i];
            rc = bench_group_rate(&c->args, c->args.size[0], ns, &c->turn[f->turns], e);
        }
    for (uint32_t i = 0; rc == 0 && i < f->count; i++)
        conclude(&f->cases[i], turns);
    return rc;
}

int group_figures_run(struct group_figure figure[GROUP_FIGURES], uint32_t turns, uint32_t seconds,
                      FILE *progress, struct err *e)
{
    int rc = 0;
    uint32_t cases = 0;
    CHECK(turns > 0 && turns <= GROUP_TURNS);
    for (uint32_t i = 0; i < GROUP_FIGURES; i++)
        cases += figure[i].count;
    for (uint32_t i = 0; rc == 0 && i < GROUP_FIGURES; i++) {
        if (progress)
            fprintf(progress, "%s\n", figure[i].title);
        rc = run_figure(&figure[i], turns, seconds * UINT64_C(1000000000) / (cases * turns), e);
    }
    return rc;
}

/* ---- telling ---- */

static void print_figure(const struct group_figure *f, FILE *out)
{
    fprintf(out, "%s; medians of %u turns\n", f->title, f->turns);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct group_case *c = &f->cases[i];
        fprintf(out, "  %-18s %s %-5u %9.4f million/s", c->series, f->x_name, c->x, c->rate / 1e6);
        if (c->of)
            fprintf(out, "; %.2f of \"%s\"", c->ratio, c->of->series);
        if (c->bar > 0)
            fprintf(out, ", bar %.1f: %s", c->bar, c->ratio >= c->bar ? "reached" : "missed");
        fputc('\n', out);
    }
    fprintf(out, "  %s\n", f->remark);
}

void group_figures_print(const struct group_figure figure[GROUP_FIGURES], FILE *out)
{
    for (uint32_t i = 0; i < GROUP_FIGURES; i++)
        print_figure(&figure[i], out);
}

static void json_case(const struct group_case *c, uint32_t turns, FILE *out)
{
    fprintf(out, "{\"series\":\"%s\",\"x\":%u,\"messages_per_second\":%.0f", c->series, c->x,
            c->rate);
    if (c->of)
        fprintf(out, ",\"ratio\":%.3f,\"of\":\"%s\"", c->ratio, c->of->series);
    if (c->bar > 0)
        fprintf(out, ",\"bar\":%.2f,\"reached\":%s", c->bar, c->ratio >= c->bar ? "true" : "false");
    fputs(",\"turns\":[", out);
    for (uint32_t t = 0; t < turns; t++)
        fprintf(out, "%s%.0f", t ? "," : "", c->turn[t]);
    fputs("]}", out);
}

void group_figures_json(const struct group_figure figure[GROUP_FIGURES], FILE *out)
{
    fputs("{\"protocol\":\"group\",\"figures\":[", out);
    for (uint32_t f = 0; f < GROUP_FIGURES; f++) {
        fprintf(out, "%s{\"title\":\"%s\",\"x\":\"%s\",\"cases\":[", f ? "," : "", figure[f].title,
                figure[f].x_name);
        for (uint32_t i = 0; i < figure[f].count; i++) {
            fputs(i ? "," : "", out);
            json_case(&figure[f].cases[i], figure[f].turns, out);
        }
        fputs("]}", out);
    }
    fputs("]}\n", out);
}

/* ---- the page ---- */

static uint32_t place_of(struct compare_figure *p, uint32_t x)
{
    uint32_t at = 0;
    while (at < p->xs && p->x[at] != x)
        at++;
    if (at == p->xs)
        p->x[p->xs++] = x;
    return at;
}

static struct compare_series *series_of(struct compare_figure *p, const char *name)
{
    uint32_t at = 0;
    while (at < p->count && strcmp(p->series[at].name, name) != 0)
        at++;
    struct compare_series *s = &p->series[at];
    if (at < p->count)
        return s;
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->colour = (uint8_t)(at % 4);
    s->dashed = at > 3;
    s->reference = (int)at;
    for (uint32_t x = 0; x < COMPARE_X_MAX; x++)
        s->cell[x] = GROUP_CASES_MAX; /* nothing there */
    p->count++;
    return s;
}

/* As a figure of a comparison, so that it can be drawn. */
static void plot_figure(FILE *out, struct compare *c, const struct group_figure *f, uint32_t number)
{
    struct compare_figure *p = &c->figure[0];
    *p = (struct compare_figure){
        .number = number, .x_name = f->x_name, .rates = true, .log_scale = true};
    memset(c->cell, 0, (GROUP_CASES_MAX + 1) * sizeof(*c->cell));
    for (uint32_t i = 0; i < f->count; i++) {
        series_of(p, f->cases[i].series)->cell[place_of(p, f->cases[i].x)] = (int)i;
        c->cell[i].turns = f->turns;
        c->cell[i].median.rate[0] = f->cases[i].rate;
    }
    compare_plot(out, c, p, COMPARE_RATE);
}

static void write_page(FILE *out, struct compare *c, const struct group_figure *figure,
                       const char *command)
{
    compare_page_begin(out, "Members of a group");
    for (uint32_t i = 0; i < GROUP_FIGURES; i++) {
        fputs("<figure><figcaption>", out);
        compare_html(out, figure[i].title);
        fputs("</figcaption>\n", out);
        plot_figure(out, c, &figure[i], i + 1);
        fputs("</figure>\n<pre>", out);
        print_figure(&figure[i], out);
        fputs("</pre>\n", out);
    }
    fputs("<p>Made by <code>", out);
    compare_html(out, command);
    fputs("</code>.</p>\n</body>\n</html>\n", out);
}

struct files {
    struct compare *compare;
    const struct group_figure *figure;
    const char *command;
};

static void page_body(const void *ctx, FILE *out)
{
    const struct files *r = ctx;
    write_page(out, r->compare, r->figure, r->command);
}

static void json_body(const void *ctx, FILE *out)
{
    const struct files *r = ctx;
    group_figures_json(r->figure, out);
}

int group_figures_report(const struct group_figure figure[GROUP_FIGURES], const char *command,
                         const char *dir, struct err *e)
{
    struct compare *c = calloc(1, sizeof(*c));
    struct compare_cell *cells = calloc(GROUP_CASES_MAX + 1, sizeof(*cells));
    struct files r = {c, figure, command};
    int rc = c && cells ? compare_report_dir(dir, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        c->cell = cells;
        c->cells = GROUP_CASES_MAX + 1;
        rc = compare_file(dir, "index.html", page_body, &r, e);
    }
    if (rc == 0)
        rc = compare_file(dir, "group.json", json_body, &r, e);
    free(cells);
    free(c);
    return rc;
}
