/* What a comparison says: its values, as tables, in words, and all of it in Markdown. */
#include "bench/compare.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const struct compare_cell *cell_at(const struct compare *c, const struct compare_figure *f,
                                          uint32_t series, uint32_t x)
{
    CHECK(series < f->count && x < f->xs);
    return &c->cell[f->series[series].cell[x]];
}

double compare_value(const struct compare *c, const struct compare_figure *f, uint32_t series,
                     uint32_t x, enum compare_metric metric)
{
    const struct compare_cell *cell = cell_at(c, f, series, x);
    double rate = cell->median.rate[cell->best];
    if (cell->turns == 0)
        return NAN;
    if (metric == COMPARE_LATENCY)
        return cell->median.latency_ns;
    if (rate <= 0 || metric == COMPARE_RATE)
        return rate > 0 ? rate : NAN;
    return rate / compare_value(c, f, (uint32_t)f->series[series].reference, x, COMPARE_RATE);
}

uint32_t compare_clients(const struct compare *c, const struct compare_figure *f, uint32_t series,
                         uint32_t x)
{
    const struct compare_cell *cell = cell_at(c, f, series, x);
    return cell->turns > 0 && cell->args.loads > 0 ? cell->args.load[cell->best] : 0;
}

static bool better(enum compare_metric metric, double a, double b)
{
    return metric == COMPARE_LATENCY ? a < b : a > b;
}

int compare_best(const struct compare *c, const struct compare_figure *f, uint32_t x,
                 enum compare_metric metric)
{
    int best = -1;
    double most = NAN;
    for (uint32_t s = 0; s < f->count; s++) {
        double value = compare_value(c, f, s, x, metric);
        if (!f->series[s].tree || isnan(value) || (best >= 0 && !better(metric, value, most)))
            continue;
        best = (int)s;
        most = value;
    }
    return best;
}

uint32_t compare_metrics(const struct compare_figure *f)
{
    return f->rates ? COMPARE_NORMAL + 1 : COMPARE_LATENCY + 1;
}

const char *compare_metric_name(enum compare_metric metric)
{
    static const char *const names[] = {
        [COMPARE_LATENCY] = "latency of one client alone, median, \u00b5s",
        [COMPARE_RATE] = "throughput, saturated, thousand messages/s (clients)",
        [COMPARE_NORMAL] = "throughput of the tree, where that of genuine is 1"};
    return names[metric];
}

double compare_shown(enum compare_metric metric, double value)
{
    return metric == COMPARE_NORMAL ? value : value / 1000; /* ns in us, messages in thousands */
}

void compare_number(char word[COMPARE_WORD_BYTES], double v)
{
    if (isnan(v))
        snprintf(word, COMPARE_WORD_BYTES, "-");
    else
        snprintf(word, COMPARE_WORD_BYTES, "%.*f",
                 v >= 100   ? 0
                 : v >= 10  ? 1
                 : v >= 0.1 ? 2
                            : 4,
                 v);
}

void compare_table(const struct compare *c, const struct compare_figure *f,
                   enum compare_metric metric, struct compare_table *t)
{
    t->rows = f->xs + 1;
    t->columns = 1;
    snprintf(t->word[0][0], COMPARE_WORD_BYTES, "%s", f->x_name);
    for (uint32_t x = 0; x < f->xs; x++)
        snprintf(t->word[x + 1][0], COMPARE_WORD_BYTES, "%u", f->x[x]);
    for (uint32_t s = 0; s < f->count; s++) {
        if (metric == COMPARE_NORMAL && f->series[s].reference == (int)s)
            continue;
        uint32_t column = t->columns++;
        snprintf(t->word[0][column], COMPARE_WORD_BYTES, "%s", f->series[s].name);
        for (uint32_t x = 0; x < f->xs; x++) {
            char *word = t->word[x + 1][column];
            compare_number(word, compare_shown(metric, compare_value(c, f, s, x, metric)));
            size_t used = strlen(word);
            uint32_t clients = compare_clients(c, f, s, x);
            if (metric == COMPARE_RATE && clients > 0)
                snprintf(word + used, COMPARE_WORD_BYTES - used, " (%u)", clients);
        }
    }
    if (!f->ranked)
        return;
    uint32_t column = t->columns++;
    snprintf(t->word[0][column], COMPARE_WORD_BYTES, "best tree");
    for (uint32_t x = 0; x < f->xs; x++) {
        int best = compare_best(c, f, x, metric);
        snprintf(t->word[x + 1][column], COMPARE_WORD_BYTES, "%s",
                 best < 0 ? "-" : f->series[best].name);
    }
}

/* ---- in words ---- */

static void append(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
}

/* Where the best tree is ahead of the genuine protocol. */
static void finding_ahead(const struct compare *c, const struct compare_figure *f,
                          enum compare_metric metric, char *text, size_t bytes)
{
    uint32_t ahead = 0, known = 0;
    append(text, bytes, "the best tree has %s than genuine at",
           metric == COMPARE_LATENCY ? "lower latency" : "higher throughput");
    for (uint32_t x = 0; x < f->xs; x++) {
        int best = compare_best(c, f, x, metric);
        if (best < 0)
            continue;
        double tree = compare_value(c, f, (uint32_t)best, x, metric);
        double other = compare_value(c, f, (uint32_t)f->series[best].reference, x, metric);
        known += isnan(other) ? 0 : 1;
        if (!isnan(other) && better(metric, tree, other))
            append(text, bytes, "%s %u", ahead++ ? "," : "", f->x[x]);
    }
    append(text, bytes, "%s %s", ahead ? "" : " no number of", f->x_name);
    if (known == 0)
        text[0] = '\0';
}

/* What saturates: the work on entries of logs, how many a message takes and how long each of them does. */
static void finding_work(const struct compare *c, const struct compare_figure *f, char *text,
                         size_t bytes)
{
    uint32_t last = f->xs - 1;
    int tree = compare_best(c, f, last, COMPARE_RATE);
    if (tree < 0)
        return;
    const int pair[] = {tree, f->series[tree].reference};
    append(text, bytes, "work on log entries bounds both: at %u %s", f->x[last], f->x_name);
    for (int i = 0; i < 2; i++) {
        const struct compare_cell *cell = cell_at(c, f, (uint32_t)pair[i], last);
        double entries = cell->median.entries, rate = cell->median.rate[cell->best];
        if (cell->turns == 0 || entries <= 0 || rate <= 0) {
            text[0] = '\0';
            return;
        }
        append(text, bytes, "%s a message of %s is %.1f entries, at %.0f ns each", i ? "," : "",
               f->series[pair[i]].name, entries, 1e9 / (rate * entries));
    }
}

static void finding_growth(const struct compare *c, const struct compare_figure *f, char *text,
                           size_t bytes)
{
    uint32_t last = f->xs - 1, known = 0;
    append(text, bytes, "latency with %u %s is that with %u times", f->x[last], f->x_name, f->x[0]);
    for (uint32_t s = 0; s < f->count; s++) {
        double growth = compare_value(c, f, s, last, COMPARE_LATENCY) /
                        compare_value(c, f, s, 0, COMPARE_LATENCY);
        if (!isnan(growth))
            append(text, bytes, "%s %.2f (%s)", known++ ? "," : "", growth, f->series[s].name);
    }
    if (known == 0)
        text[0] = '\0';
}

void compare_finding(const struct compare *c, const struct compare_figure *f,
                     enum compare_metric metric, char *text, size_t bytes)
{
    text[0] = '\0';
    if (f->ranked && metric == COMPARE_NORMAL)
        finding_work(c, f, text, bytes);
    else if (f->ranked)
        finding_ahead(c, f, metric, text, bytes);
    else if (!f->ranked && metric == COMPARE_LATENCY)
        finding_growth(c, f, text, bytes);
}

/* ---- as text ---- */

static int column_width(const struct compare_table *t, uint32_t column)
{
    size_t width = 0;
    for (uint32_t row = 0; row < t->rows; row++) {
        size_t bytes = strlen(t->word[row][column]);
        width = bytes > width ? bytes : width;
    }
    return (int)width;
}

static void print_table(const struct compare_table *t, FILE *out)
{
    static const char dashes[] = "-----------------------------------------";
    _Static_assert(sizeof(dashes) > COMPARE_WORD_BYTES, "as many as the widest column has");
    for (uint32_t row = 0; row < t->rows; row++) {
        for (uint32_t column = 0; column < t->columns; column++)
            fprintf(out, "| %*s ", column_width(t, column), t->word[row][column]);
        fputs("|\n", out);
        if (row > 0)
            continue;
        for (uint32_t column = 0; column < t->columns; column++)
            fprintf(out, "|%.*s:", column_width(t, column) + 1, dashes);
        fputs("|\n", out);
    }
}

static void print_figure(const struct compare *c, const struct compare_figure *f, FILE *out)
{
    struct compare_table table;
    char text[512];
    fprintf(out, "\n### Figure %u: %s\n", f->number, f->title);
    if (f->remark)
        fprintf(out, "\n%s.\n", f->remark);
    for (uint32_t m = 0; m < compare_metrics(f); m++) {
        fprintf(out, "\nFigure %u, %s:\n\n", f->number, compare_metric_name(m));
        compare_table(c, f, m, &table);
        print_table(&table, out);
    }
    fputs("\n", out);
    for (uint32_t i = 0; i < COMPARE_NOTES_MAX && f->paper[i]; i++)
        fprintf(out, "- The paper says: %s.\n", f->paper[i]);
    for (uint32_t m = 0; m < compare_metrics(f); m++) {
        compare_finding(c, f, m, text, sizeof(text));
        if (text[0])
            fprintf(out, "- Here: %s.\n", text);
    }
}

void compare_print(const struct compare *c, FILE *out)
{
    fprintf(out, "Tree and genuine multicast compared, %s.\n\n", c->origin);
    for (uint32_t i = 0; i < c->facts; i++)
        fprintf(out, "- %s: %s\n", c->fact[i].name, c->fact[i].value);
    fprintf(out, "- repeat it: `%s`\n", c->command);
    for (uint32_t i = 0; i < c->figures; i++)
        print_figure(c, &c->figure[i], out);
    for (uint32_t i = 0, said = 0; i < c->cells; i++)
        if (c->cell[i].error[0])
            fprintf(out, "%s- %s: %s (after %u of %u turns)\n", said++ ? "" : "\nNot measured:\n\n",
                    c->cell[i].name, c->cell[i].error, c->cell[i].turns, c->turns);
}
