/* A comparison as one JSON object. */
#include "base/json.h"
#include "bench/compare.h"

#include <math.h>

static void json_number(FILE *out, double v)
{
    if (isnan(v))
        fputs("null", out);
    else
        fprintf(out, "%.10g", v);
}

static void json_point(FILE *out, const struct compare_cell *cell, const struct bench_point *p)
{
    fprintf(out, "{\"latency_p50_ns\":%.10g,\"latency_p99_ns\":%.10g,\"line_round_trip_ns\":%.10g,",
            p->latency_ns, p->latency_p99_ns, p->line_ns);
    if (p->entries > 0)
        fprintf(out, "\"entries_per_message\":%.10g,", p->entries);
    fputs("\"messages_per_second\":{", out);
    for (uint32_t i = 0; i < cell->args.loads; i++)
        fprintf(out, "%s\"%u\":%.10g", i ? "," : "", cell->args.load[i], p->rate[i]);
    fputs("}}", out);
}

static void json_cell(FILE *out, const struct compare_cell *cell)
{
    const struct bench_args *a = &cell->args;
    fputs("{\"name\":", out);
    json_string(out, cell->name);
    fprintf(out, ",\"protocol\":\"%s\",\"tree\":\"%s\",\"groups\":%u,\"replicas\":%u,\"hosts\":%u,",
            mcast_protocol_name(a->protocol), overlay_shape_name(a->shape), a->groups, a->replicas,
            a->hosts);
    fprintf(out, "\"payload\":%u,\"destinations\":%u,\"adjacent\":%s,\"part_ns\":%llu,", a->payload,
            a->dst, a->adjacent ? "true" : "false", (unsigned long long)a->part_ns);
    if (cell->error[0]) {
        fputs("\"error\":", out);
        json_string(out, cell->error);
        fputs(",", out);
    }
    if (cell->turns > 0 && a->loads > 0)
        fprintf(out, "\"clients\":%u,", a->load[cell->best]);
    fputs("\"turns\":[", out);
    for (uint32_t i = 0; i < cell->turns; i++) {
        fputs(i ? "," : "", out);
        json_point(out, cell, &cell->turn[i]);
    }
    fputs("],\"median\":", out);
    if (cell->turns > 0)
        json_point(out, cell, &cell->median);
    else
        fputs("null", out);
    fputs("}", out);
}

static void json_series(FILE *out, const struct compare *c, const struct compare_figure *f,
                        uint32_t s)
{
    static const char *const names[] = {"latency_p50_ns", "messages_per_second", "normalised"};
    fputs("{\"name\":", out);
    json_string(out, f->series[s].name);
    fputs(",\"cells\":[", out);
    for (uint32_t x = 0; x < f->xs; x++)
        fprintf(out, "%s%d", x ? "," : "", f->series[s].cell[x]);
    for (uint32_t m = 0; m < compare_metrics(f); m++) {
        fprintf(out, "],\"%s\":[", names[m]);
        for (uint32_t x = 0; x < f->xs; x++) {
            fputs(x ? "," : "", out);
            json_number(out, compare_value(c, f, s, x, m));
        }
    }
    fputs("]}", out);
}

static void json_figure(FILE *out, const struct compare *c, const struct compare_figure *f)
{
    fprintf(out, "{\"figure\":%u,\"title\":", f->number);
    json_string(out, f->title);
    fputs(",\"x_name\":", out);
    json_string(out, f->x_name);
    fputs(",\"x\":[", out);
    for (uint32_t x = 0; x < f->xs; x++)
        fprintf(out, "%s%u", x ? "," : "", f->x[x]);
    fputs("],\"paper_says\":[", out);
    for (uint32_t i = 0; i < COMPARE_NOTES_MAX && f->paper[i]; i++) {
        fputs(i ? "," : "", out);
        json_string(out, f->paper[i]);
    }
    fputs("],\"series\":[\n", out);
    for (uint32_t s = 0; s < f->count; s++) {
        fputs(s ? ",\n" : "", out);
        json_series(out, c, f, s);
    }
    fputs("]}", out);
}

void compare_json(const struct compare *c, FILE *out)
{
    fputs("{\"origin\":", out);
    json_string(out, c->origin);
    fputs(",\"command\":", out);
    json_string(out, c->command);
    fprintf(out, ",\"turns\":%u,\"facts\":{", c->turns);
    for (uint32_t i = 0; i < c->facts; i++) {
        fputs(i ? ",\n" : "\n", out);
        json_string(out, c->fact[i].name);
        fputs(":", out);
        json_string(out, c->fact[i].value);
    }
    fputs("},\n\"figures\":[\n", out);
    for (uint32_t i = 0; i < c->figures; i++) {
        fputs(i ? ",\n" : "", out);
        json_figure(out, c, &c->figure[i]);
    }
    fputs("],\n\"cells\":[\n", out);
    for (uint32_t i = 0; i < c->cells; i++) {
        fputs(i ? ",\n" : "", out);
        json_cell(out, &c->cell[i]);
    }
    fputs("]}\n", out);
}
