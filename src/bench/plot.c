/* A figure of a comparison as SVG, coloured by the style sheet of the page it stands in. */
#include "bench/compare.h"

#include <math.h>

enum {
    PLOT_WIDTH = 480,
    PLOT_LEFT = 64,
    PLOT_RIGHT = PLOT_WIDTH - 12,
    PLOT_TOP = 12,
    PLOT_BOTTOM = 240,
    LEGEND_TOP = PLOT_BOTTOM + 58,
    LEGEND_STEP = 18,
    LEGEND_LEFT = 12,
    TICKS_MAX = 24, /* of a scale of 1, 2, 5, ... before it is thinned */
    TICKS_SHOWN = 8,
};

/* A y axis: from low to high, with a line at each tick. */
struct scale {
    bool log;
    double low, high;
    double tick[TICKS_MAX];
    uint32_t ticks;
};

/* The n-th of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ..., where 1 is the 0th. */
static double round_number(int n)
{
    static const double digit[] = {1, 2, 5};
    int decade = (n >= 0 ? n : n - 2) / 3;
    return digit[n - 3 * decade] * pow(10, decade);
}

/* The largest n whose round number is not above the value. */
static int round_below(double value)
{
    int n = 3 * (int)floor(log10(value)) - 1;
    while (round_number(n + 1) <= value * (1 + 1e-9))
        n++;
    return n;
}

static void scale_linear(struct scale *s, double most)
{
    int n = round_below(most / TICKS_SHOWN);
    while (most / round_number(n) > TICKS_SHOWN - 1)
        n++;
    double step = round_number(n);
    s->low = 0;
    s->high = step * ceil(most / step - 1e-9);
    for (; s->ticks * step < s->high + step / 2 && s->ticks < TICKS_MAX; s->ticks++)
        s->tick[s->ticks] = s->ticks * step;
}

static void scale_log(struct scale *s, double least, double most)
{
    int from = round_below(least), to = round_below(most);
    if (round_number(to) < most * (1 - 1e-9))
        to++;
    if (to == from)
        to++;
    s->log = true;
    s->low = round_number(from);
    s->high = round_number(to);
    bool thin = to - from + 1 > TICKS_SHOWN; /* powers of ten alone */
    for (int n = from; n <= to && s->ticks < TICKS_MAX; n++)
        if (!thin || n % 3 == 0)
            s->tick[s->ticks++] = round_number(n);
}

static struct scale scale_of(const struct compare *c, const struct compare_figure *f,
                             enum compare_metric metric)
{
    struct scale s = {0};
    double least = INFINITY, most = metric == COMPARE_NORMAL ? 1 : 0;
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t x = 0; x < f->xs; x++) {
            double v = compare_shown(metric, compare_value(c, f, i, x, metric));
            if (isnan(v) || v <= 0)
                continue;
            least = v < least ? v : least;
            most = v > most ? v : most;
        }
    if (f->log_scale && metric != COMPARE_NORMAL && isfinite(least))
        scale_log(&s, least, most);
    else
        scale_linear(&s, most > 0 ? most : 1);
    return s;
}

static double y_of(const struct scale *s, double v)
{
    double part =
        s->log ? log(v / s->low) / log(s->high / s->low) : (v - s->low) / (s->high - s->low);
    return PLOT_BOTTOM - part * (PLOT_BOTTOM - PLOT_TOP);
}

/* The places of an x axis are equally far apart, whatever their numbers. */
static double x_of(const struct compare_figure *f, uint32_t x)
{
    return PLOT_LEFT + (x + 0.5) * (PLOT_RIGHT - PLOT_LEFT) / f->xs;
}

/* Each colour has a shape too, for those who see no colours. */
static void plot_marker(FILE *out, const struct compare_series *s, double x, double y)
{
    const char *hollow = s->dashed ? " h" : "";
    switch (s->colour) {
    case 0:
        fprintf(out, "<circle class=\"c0%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", hollow, x, y);
        break;
    case 1:
        fprintf(out, "<rect class=\"c1%s\" x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\"", hollow,
                x - 3.5, y - 3.5);
        break;
    case 2:
        fprintf(out, "<path class=\"c2%s\" d=\"M%.1f %.1fl4.5 8h-9z\"", hollow, x, y - 5);
        break;
    default:
        fprintf(out, "<path class=\"c3%s\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"", hollow, x, y - 5);
    }
}

static void plot_axes(FILE *out, const struct compare_figure *f, enum compare_metric metric,
                      const struct scale *s)
{
    for (uint32_t i = 0; i < s->ticks; i++) {
        double y = y_of(s, s->tick[i]);
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", PLOT_LEFT, y, PLOT_RIGHT);
        fprintf(out, "<text class=\"end\" x=\"%d\" y=\"%.1f\">%.10g</text>\n", PLOT_LEFT - 6, y + 4,
                s->tick[i]);
    }
    if (metric == COMPARE_NORMAL)
        fprintf(out, "<path class=\"one\" d=\"M%d %.1fH%d\"><title>genuine</title></path>\n",
                PLOT_LEFT, y_of(s, 1), PLOT_RIGHT);
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", PLOT_LEFT, PLOT_TOP, PLOT_BOTTOM,
            PLOT_RIGHT);
    for (uint32_t x = 0; x < f->xs; x++)
        fprintf(out, "<text class=\"mid\" x=\"%.1f\" y=\"%d\">%u</text>", x_of(f, x),
                PLOT_BOTTOM + 17, f->x[x]);
    fprintf(out, "\n<text class=\"mid\" x=\"%d\" y=\"%d\">%s</text>\n",
            (PLOT_LEFT + PLOT_RIGHT) / 2, PLOT_BOTTOM + 36, f->x_name);
    static const char *const y_names[] = {"latency, \u00b5s", "thousand messages/s",
                                          "throughput / genuine"};
    fprintf(out, "<text class=\"mid\" transform=\"translate(13 %d) rotate(-90)\">%s%s</text>\n",
            (PLOT_TOP + PLOT_BOTTOM) / 2, f->y_name ? f->y_name : y_names[metric],
            s->log ? " (log scale)" : "");
}

static void plot_series(FILE *out, const struct compare *c, const struct compare_figure *f,
                        uint32_t i, enum compare_metric metric, const struct scale *s)
{
    const struct compare_series *series = &f->series[i];
    bool broken = true; /* a line begins, or begins again after a point that is missing */
    fprintf(out, "<path class=\"c%u line%s\" d=\"", series->colour,
            series->dashed ? " dashed" : "");
    for (uint32_t x = 0; x < f->xs; x++) {
        double v = compare_shown(metric, compare_value(c, f, i, x, metric));
        if (!isnan(v))
            fprintf(out, "%s%.1f %.1f", broken ? "M" : "L", x_of(f, x), y_of(s, v));
        broken = isnan(v);
    }
    fputs("\"/>\n", out);
    for (uint32_t x = 0; x < f->xs; x++) {
        char word[COMPARE_WORD_BYTES];
        double v = compare_shown(metric, compare_value(c, f, i, x, metric));
        if (isnan(v))
            continue;
        compare_number(word, v);
        plot_marker(out, series, x_of(f, x), y_of(s, v));
        fprintf(out, "><title>%s, %s %u: %s</title></%s>", series->name, f->x_name, f->x[x], word,
                series->colour == 0   ? "circle"
                : series->colour == 1 ? "rect"
                                      : "path");
    }
    fputc('\n', out);
}

/* Names are short where there are few, and need a third of the width where there are many. */
static uint32_t legend_columns(uint32_t shown)
{
    return shown <= 4 ? 4 : 3;
}

static void plot_legend(FILE *out, const struct compare_series *s, uint32_t place, uint32_t columns)
{
    uint32_t x = LEGEND_LEFT + place % columns * (PLOT_RIGHT - LEGEND_LEFT) / columns;
    uint32_t y = LEGEND_TOP + place / columns * LEGEND_STEP;
    fprintf(out, "<path class=\"c%u line%s\" d=\"M%u %uh26\"/>", s->colour,
            s->dashed ? " dashed" : "", x, y);
    plot_marker(out, s, x + 13, y);
    fprintf(out, "/><text x=\"%u\" y=\"%u\">%s</text>\n", x + 31, y + 4, s->name);
}

static bool is_shown(const struct compare_figure *f, uint32_t series, enum compare_metric metric)
{
    return metric != COMPARE_NORMAL || f->series[series].reference != (int)series;
}

void compare_plot(FILE *out, const struct compare *c, const struct compare_figure *f,
                  enum compare_metric metric)
{
    struct scale s = scale_of(c, f, metric);
    uint32_t shown = 0;
    for (uint32_t i = 0; i < f->count; i++)
        shown += is_shown(f, i, metric);
    uint32_t columns = legend_columns(shown), lines = (shown + columns - 1) / columns;
    fprintf(out,
            "<svg viewBox=\"0 0 %d %u\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\" "
            "aria-label=\"figure %u, ",
            PLOT_WIDTH, LEGEND_TOP + lines * LEGEND_STEP, f->number);
    compare_html(out, compare_metric_name(metric));
    fputs("\">\n", out);
    plot_axes(out, f, metric, &s);
    for (uint32_t i = 0, place = 0; i < f->count; i++)
        if (is_shown(f, i, metric)) {
            plot_series(out, c, f, i, metric, &s);
            plot_legend(out, &f->series[i], place++, columns);
        }
    fputs("</svg>\n", out);
}
