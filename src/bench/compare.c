#include "bench/compare.h"

#include "base/clock.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
    CELLS_MAX = COMPARE_FIGURES_MAX * COMPARE_SERIES_MAX * COMPARE_X_MAX,
    SIMPLE_GROUPS = 3, /* of figure 8: a root and its two children */
    PART_NS_MIN = 1000000,
    TELL_EVERY_S = 5, /* where no terminal shows the progress */
};

/* ---- what is measured ---- */

static bool same_case(const struct bench_args *a, const struct bench_args *b)
{
    return a->protocol == b->protocol && a->shape == b->shape && a->adjacent == b->adjacent &&
           a->groups == b->groups && a->replicas == b->replicas && a->payload == b->payload &&
           a->dst == b->dst && a->hosts == b->hosts;
}

/* The cell of this case, a new one if no figure has had it. */
static int cell_of(struct compare *c, struct bench_args a, const char *name)
{
    /* What makes no difference is the same case: one group or all of them are neighbours in any tree, and
     * genuine knows no tree. */
    if (a.dst == 1 || a.dst == a.groups)
        a.adjacent = false;
    if (a.protocol == MCAST_GENUINE && !a.adjacent)
        a.shape = OVERLAY_base;
    if (a.hosts < a.replicas)
        a.hosts = a.replicas;
    uint32_t i = 0;
    while (i < c->cells && !same_case(&c->cell[i].args, &a))
        i++;
    if (i == c->cells) {
        c->cell[i].args = a;
        snprintf(c->cell[i].name, sizeof(c->cell[i].name), "%s", name);
        c->cells++;
    }
    return (int)i;
}

/* What a series measures at each place of the x axis. */
struct line {
    enum mcast_protocol protocol;
    enum overlay_shape shape;
    uint32_t dst; /* 0: as x says */
    uint8_t colour;
    int reference;
    const char *name;
};

enum axis { BY_DESTINATIONS, BY_PAYLOAD, BY_REPLICAS };

/* Cells are made place by place, so that what is compared is measured one after the other. */
static void figure_fill(struct compare *c, struct compare_figure *f, struct bench_args a,
                        enum axis axis, const struct line *line, uint32_t lines)
{
    static const char *const x_names[] = {"destinations", "bytes", "replicas"};
    f->x_name = x_names[axis];
    f->count = lines;
    for (uint32_t s = 0; s < lines; s++) {
        struct compare_series *series = &f->series[s];
        snprintf(series->name, sizeof(series->name), "%s", line[s].name);
        series->tree = line[s].protocol == MCAST_TREE;
        series->dashed = !series->tree;
        series->colour = line[s].colour;
        series->reference = line[s].reference;
    }
    for (uint32_t x = 0; x < f->xs; x++)
        for (uint32_t s = 0; s < lines; s++) {
            char name[sizeof(c->cell->name)];
            uint32_t *varied[] = {&a.dst, &a.payload, &a.replicas};
            a.protocol = line[s].protocol;
            a.shape = line[s].shape;
            a.dst = line[s].dst ? line[s].dst : a.dst;
            *varied[axis] = f->x[x];
            snprintf(name, sizeof(name), "figure %u: %s, %s: %u", f->number, line[s].name,
                     f->x_name, f->x[x]);
            f->series[s].cell[x] = cell_of(c, a, name);
        }
}

/* 1, 2, 3, ... or, to be quick or where that is too much, 1, 2, 4, 8 ...; always with the last one. */
static void x_up_to(struct compare_figure *f, uint32_t last, bool quick)
{
    bool all = !quick && last <= COMPARE_X_MAX;
    f->xs = 0;
    for (uint32_t x = 1; x < last; x = all ? x + 1 : 2 * x)
        f->x[f->xs++] = x;
    f->x[f->xs++] = last;
}

static struct compare_figure *figure_add(struct compare *c, uint32_t number, const char *format,
                                         ...) __attribute__((format(printf, 3, 4)));

static struct compare_figure *figure_add(struct compare *c, uint32_t number, const char *format,
                                         ...)
{
    struct compare_figure *f = &c->figure[c->figures++];
    va_list args;
    va_start(args, format);
    vsnprintf(f->title, sizeof(f->title), format, args);
    va_end(args);
    f->number = number;
    return f;
}

static void note(struct compare_figure *f, const char *text)
{
    uint32_t i = 0;
    while (f->paper[i])
        i++;
    CHECK(i + 1 < COMPARE_NOTES_MAX);
    f->paper[i] = text;
}

static const struct line trees_and_genuine[] = {
    {MCAST_TREE, OVERLAY_base, 0, 0, 3, "base"},
    {MCAST_TREE, OVERLAY_breadth, 0, 1, 3, "breadth"},
    {MCAST_TREE, OVERLAY_depth, 0, 2, 3, "depth"},
    {MCAST_GENUINE, OVERLAY_base, 0, 3, 3, "genuine"},
};

static void figure_5(struct compare *c, const struct bench_args *a, bool quick)
{
    struct compare_figure *f =
        figure_add(c, 5, "random destinations; %u groups of %u replicas, %u-byte messages",
                   a->groups, a->replicas, a->payload);
    f->rates = f->ranked = true;
    x_up_to(f, a->groups, quick);
    figure_fill(c, f, *a, BY_DESTINATIONS, trees_and_genuine, 4);
    note(f, "breadth orders in almost constant time, whatever the number of destinations, one "
            "destination being faster; base and depth take longer, for their further hops");
    note(f, "depth has the highest throughput, closely followed by base");
    note(f, "the genuine protocol (RamCast) is ahead with few destinations; with the right tree "
            "latency is lower for more than two, and throughput higher for more than three");
}

/* The genuine protocol is given the same sets as the tree it is compared with: which groups are
 * neighbours depends on the tree, and so does how much the sets have in common. */
static void figure_6(struct compare *c, const struct bench_args *a, bool quick)
{
    static const struct line lines[] = {
        {MCAST_TREE, OVERLAY_base, 0, 0, 3, "base"},
        {MCAST_TREE, OVERLAY_breadth, 0, 1, 4, "breadth"},
        {MCAST_TREE, OVERLAY_depth, 0, 2, 5, "depth"},
        {MCAST_GENUINE, OVERLAY_base, 0, 0, 3, "genuine (base)"},
        {MCAST_GENUINE, OVERLAY_breadth, 0, 1, 4, "genuine (breadth)"},
        {MCAST_GENUINE, OVERLAY_depth, 0, 2, 5, "genuine (depth)"},
    };
    struct compare_figure *f =
        figure_add(c, 6, "adjacent groups of the tree; %u groups of %u replicas, %u-byte messages",
                   a->groups, a->replicas, a->payload);
    struct bench_args adjacent = *a;
    adjacent.adjacent = true;
    f->rates = f->ranked = true;
    x_up_to(f, a->groups, quick);
    figure_fill(c, f, adjacent, BY_DESTINATIONS, lines, 6);
    f->remark = "Genuine (base) has the destination sets of base, and so on; one group, and all "
                "groups, are as in figure 5";
    note(f, "the trees do better than with random destinations, for only destinations take part");
    note(f, "throughput of depth is always above that of the genuine protocol");
}

static void figure_7(struct compare *c, const struct bench_args *a, bool quick)
{
    struct compare_figure *f = figure_add(c, 7, "size of messages to all %u groups of %u replicas",
                                          a->groups, a->replicas);
    struct bench_args all = *a;
    all.dst = a->groups;
    f->rates = f->ranked = f->log_scale = true;
    for (uint32_t bytes = 64; bytes <= 65536; bytes *= 4)
        if (!quick || (bytes != 256 && bytes != 4096))
            f->x[f->xs++] = bytes;
    figure_fill(c, f, all, BY_PAYLOAD, trees_and_genuine, 4);
    note(f, "shown are breadth for latency and depth for throughput");
    note(f,
         "the tree is ahead with small messages; the gap narrows as they grow, and around 16 KiB "
         "both are alike");
}

static void figure_8(struct compare *c, const struct bench_args *a, bool quick)
{
    static const struct line lines[] = {
        {MCAST_TREE, OVERLAY_breadth, 1, 0, 3, "tree to 1"},
        {MCAST_TREE, OVERLAY_breadth, 2, 1, 4, "tree to 2"},
        {MCAST_TREE, OVERLAY_breadth, 3, 2, 5, "tree to 3"},
        {MCAST_GENUINE, OVERLAY_breadth, 1, 0, 3, "genuine to 1"},
        {MCAST_GENUINE, OVERLAY_breadth, 2, 1, 4, "genuine to 2"},
        {MCAST_GENUINE, OVERLAY_breadth, 3, 2, 5, "genuine to 3"},
    };
    struct compare_figure *f =
        figure_add(c, 8, "replicas of %d groups, a root and its two children; %u-byte messages",
                   SIMPLE_GROUPS, a->payload);
    struct bench_args simple = *a;
    simple.groups = SIMPLE_GROUPS;
    simple.loads = 0;
    for (uint32_t r = 1; r <= 5; r += quick ? 2 : 1)
        f->x[f->xs++] = r;
    figure_fill(c, f, simple, BY_REPLICAS, lines, 6);
    f->remark = "To 1, 2, 3: of so many random destinations";
    note(f, "latency is almost constant, whatever the number of replicas and of destinations");
}

/* The time is shared out evenly: a part for latency and one for each number of clients, and a quarter
 * of a part before each of these. */
static uint64_t part_ns(const struct compare *c, uint32_t seconds)
{
    double parts = 0;
    for (uint32_t i = 0; i < c->cells; i++)
        parts += 1 + 1.25 * c->cell[i].args.loads;
    double ns = seconds * 1e9 / (parts * c->turns);
    return ns > PART_NS_MIN ? (uint64_t)ns : PART_NS_MIN;
}

int compare_open(struct compare *c, const struct compare_options *o, struct err *e)
{
    struct bench_args a = o->args;
    CHECK(o->turns >= 1 && o->turns <= COMPARE_TURNS_MAX);
    memset(c, 0, sizeof(*c));
    c->cell = calloc(CELLS_MAX, sizeof(*c->cell));
    if (c->cell == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    c->turns = o->turns;
    a.mcast = true;
    a.loads = 0;
    for (uint32_t clients = 1; clients < 4 && clients < a.clients; clients *= 2)
        a.load[a.loads++] = clients;
    a.load[a.loads++] = a.clients;
    figure_5(c, &a, o->quick);
    figure_6(c, &a, o->quick);
    figure_7(c, &a, o->quick);
    figure_8(c, &a, o->quick);
    uint64_t part = part_ns(c, a.seconds);
    for (uint32_t i = 0; i < c->cells; i++)
        c->cell[i].args.part_ns = part;
    return 0;
}

void compare_close(struct compare *c)
{
    free(c->cell);
}

/* ---- what has to be known to read it ---- */

void compare_add_fact(struct compare *c, const char *name, const char *format, ...)
{
    if (c->facts == COMPARE_FACTS_MAX)
        return;
    struct compare_fact *f = &c->fact[c->facts++];
    va_list args;
    va_start(args, format);
    vsnprintf(f->value, sizeof(f->value), format, args);
    va_end(args);
    snprintf(f->name, sizeof(f->name), "%s", name);
}

static void fact_processor(struct compare *c)
{
    char line[256] = "", *colon = NULL;
    FILE *in = fopen("/proc/cpuinfo", "r");
    while (in && !colon && fgets(line, sizeof(line), in))
        if (strncmp(line, "model name", 10) == 0)
            colon = strchr(line, ':');
    if (in)
        fclose(in);
    cpu_set_t cores;
    int ours = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 0;
    line[strcspn(line, "\n")] = '\0';
    compare_add_fact(c, "processor", "%s, %d cores for this process",
                     colon ? colon + 1 + strspn(colon + 1, " ") : "unknown", ours);
}

static void fact_points(struct compare *c)
{
    const struct bench_args *a = &c->cell[0].args;
    char loads[64] = "";
    for (uint32_t i = 0; i < a->loads; i++) {
        size_t used = strlen(loads);
        snprintf(loads + used, sizeof(loads) - used, "%s%u", i ? ", " : "", a->load[i]);
    }
    compare_add_fact(c, "each point",
                     "median of %u turns; a turn is %.0f ms for latency and for each "
                     "number of clients (%s; the best counts)",
                     c->turns, (double)a->part_ns / 1e6, loads);
}

void compare_facts_machine(struct compare *c)
{
    struct utsname system;
    double load = 0;
    time_t now = (time_t)clock_utc_s();
    struct tm date;
    char day[32] = "";
    if (gmtime_r(&now, &date))
        strftime(day, sizeof(day), "%Y-%m-%d %H:%M UTC", &date);
    fact_processor(c);
    if (uname(&system) == 0)
        compare_add_fact(c, "system", "%s %s %s", system.sysname, system.release, system.machine);
    compare_add_fact(c, "versions", "tramway %s, compiler %s", TRAM_VERSION, __VERSION__);
    compare_add_fact(c, "begun", "%s", day);
    if (getloadavg(&load, 1) == 1)
        compare_add_fact(c, "load before", "%.2f processes wanted a core", load);
}

void compare_facts_here(struct compare *c)
{
    static const char *const layouts[] = {
        [BENCH_THREADS] = "threads: one polls all hosts, another is all clients",
        [BENCH_PROCS] = "procs: every host is a process",
        [BENCH_SINGLE] = "single: one thread is everything, times are its CPU time"};
    compare_facts_machine(c);
    compare_add_fact(c, "layout", "%s", layouts[c->cell[0].args.layout]);
    fact_points(c);
}

/* ---- running ---- */

static int by_size(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static double median(double *value, uint32_t count)
{
    qsort(value, count, sizeof(*value), by_size);
    return count == 0 ? 0 : (value[(count - 1) / 2] + value[count / 2]) / 2;
}

/* Of the number that stands at this offset in a point. */
static double median_at(const struct compare_cell *cell, size_t offset)
{
    double value[COMPARE_TURNS_MAX];
    for (uint32_t i = 0; i < cell->turns; i++)
        memcpy(&value[i], (const char *)&cell->turn[i] + offset, sizeof(*value));
    return median(value, cell->turns);
}

static void cell_settle(struct compare_cell *cell)
{
    struct bench_point *m = &cell->median;
    m->line_ns = median_at(cell, offsetof(struct bench_point, line_ns));
    m->latency_ns = median_at(cell, offsetof(struct bench_point, latency_ns));
    m->latency_p99_ns = median_at(cell, offsetof(struct bench_point, latency_p99_ns));
    m->entries = median_at(cell, offsetof(struct bench_point, entries));
    for (uint32_t i = 0; i < cell->args.loads; i++) {
        m->rate[i] = median_at(cell, offsetof(struct bench_point, rate) + i * sizeof(double));
        if (m->rate[i] > m->rate[cell->best])
            cell->best = i;
    }
}

struct progress {
    FILE *out;
    bool terminal;
    uint64_t start_ns, told_ns;
    uint32_t done, all;
};

/* On a terminal one line that changes, elsewhere a line now and then. */
static void progress_tell(struct progress *p, const struct compare_cell *cell, uint32_t turn,
                          uint32_t turns)
{
    uint64_t now = clock_now_ns();
    if (p->out == NULL ||
        (!p->terminal && p->done && now - p->told_ns < TELL_EVERY_S * UINT64_C(1000000000)))
        return;
    p->told_ns = now;
    fprintf(p->out, "%s%u of %u: turn %u of %u, %s", p->terminal ? "\r" : "", p->done + 1, p->all,
            turn + 1, turns, cell->name);
    if (p->done > 0) {
        double left_s = (double)(now - p->start_ns) / 1e9 / p->done * (p->all - p->done);
        fprintf(p->out, "; %.0f s left", left_s);
    }
    fputs(p->terminal ? "\033[K" : "\n", p->out);
    fflush(p->out);
}

static void fact_line(struct compare *c)
{
    double line[CELLS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->cells; i++)
        if (c->cell[i].median.line_ns > 0)
            line[count++] = c->cell[i].median.line_ns;
    if (count > 0)
        compare_add_fact(c, "cache line round trip",
                         "%.0f ns in the median of all points, %.0f to %.0f", median(line, count),
                         line[0], line[count - 1]);
}

uint32_t compare_run(struct compare *c, compare_measure *measure, void *ctx, FILE *progress,
                     const volatile sig_atomic_t *stop)
{
    struct progress p = {.out = progress,
                         .terminal = progress && isatty(fileno(progress)),
                         .start_ns = clock_now_ns(),
                         .all = c->turns * c->cells};
    uint32_t missing = 0;
    for (uint32_t turn = 0; turn < c->turns; turn++)
        for (uint32_t i = 0; i < c->cells && !(stop && *stop); i++) {
            struct compare_cell *cell = &c->cell[i];
            struct err e = {""};
            progress_tell(&p, cell, turn, c->turns);
            p.done++;
            if (cell->error[0])
                continue;
            if (measure(ctx, &cell->args, &cell->turn[cell->turns], &e) == 0)
                cell->turns++;
            else
                snprintf(cell->error, sizeof(cell->error), "%s", e.text);
        }
    if (p.terminal)
        fputs("\r\033[K", p.out);
    for (uint32_t i = 0; i < c->cells; i++) {
        cell_settle(&c->cell[i]);
        missing += c->cell[i].turns == 0;
    }
    fact_line(c);
    if (p.done < p.all)
        compare_add_fact(c, "incomplete", "ended early, after %u of %u turns of all points", p.done,
                         p.all);
    return missing;
}
