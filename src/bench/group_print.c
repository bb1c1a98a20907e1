/* What `tram bench --protocol group` found: as text, JSON and a page with plots. */
#include "bench/compare.h"
#include "bench/group.h"

#include <stdlib.h>
#include <string.h>

static const char *const sender_names[] = {"all", "half", "one"};

static const struct {
    uint32_t bit;
    const char *name;
} stages[] = {{BATCH_SEND, "send"},
              {BATCH_RECEIVE, "receive"},
              {BATCH_DELIVER, "deliver"},
              {BATCH_ACK, "ack"}};

static const char *mode_name(enum cell_mode mode)
{
    static const char *const names[] = {[CELL_MEMORY] = "memory",
                                        [CELL_RAW] = "raw",
                                        [CELL_LOGGED] = "logged",
                                        [CELL_DURABLE] = "durable"};
    return names[mode];
}

static void print_disk(const struct group_point *p, FILE *f)
{
    if (p->disk_rate == 0)
        return;
    fprintf(f,
            "  %-42s %9.0f a second of %.1f KiB; bare writes and flushes of the same %.0f: %.2f of "
            "it\n",
            "batches on a member's disk", p->disk_rate, p->disk_batch / 1024, p->disk_floor,
            p->of_disk);
}

static void print_case(const struct group_args *a, FILE *f)
{
    fprintf(f, "%u members, %s, %s, %s; senders: %s; %u subgroup%s%s; mode %s", a->members,
            bench_transport_names[a->transport],
            a->procs ? "a process each" : "one in a thread and the others in a second",
            a->touch ? "every byte written and read" : "messages made in place",
            sender_names[a->senders], a->subgroups, a->subgroups > 1 ? "s" : "",
            a->subgroups == 1 ? ""
            : a->active_all   ? ", all active"
                              : ", one active",
            mode_name(a->mode));
    if (a->delay_us)
        fprintf(f, "; one sender waits %u us after each message", a->delay_us);
    if (a->no_nulls)
        fputs("; no nulls", f);
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        if (a->unbatched & stages[i].bit)
            fprintf(f, "; no batches in %s", stages[i].name);
}

static void print_beside(const char *what, double rate, double ratio, FILE *f)
{
    if (rate > 0)
        fprintf(f, "  %-42s %9.4f million/s; the group does %.2f of it\n", what, rate / 1e6, ratio);
}

void bench_group_print(const struct group_args *a, const struct group_point *p, FILE *f)
{
    char readers[64];
    print_case(a, f);
    fprintf(f, "\nmedians of %d turns\n", GROUP_TURNS);
    snprintf(readers, sizeof(readers), "a bare ring with %u readers", a->members);
    for (uint32_t i = 0; i < a->sizes; i++, p++) {
        fprintf(f, "%u bytes:\n", p->size);
        fprintf(f, "  %-42s %9.4f million/s, %.3f GB/s\n", "delivered by each member",
                p->rate / 1e6, p->rate * p->size / 1e9);
        fprintf(f, "  %-42s p50 %.1f us, p99 %.1f us", "own delivery, one at a time", p->p50 / 1e3,
                p->p99 / 1e3);
        if (p->line_ns > 0)
            fprintf(f, "; p50 is %.2f round trips of a cache line", p->in_lines);
        fprintf(f,
                "\n  %-42s %.1f published, %.1f delivered; %.3f writes and %.3f nulls a message\n",
                "in a batch", p->publish_batch, p->deliver_batch, p->writes, p->nulls);
        print_disk(p, f);
        print_beside(readers, p->ring, p->of_ring, f);
        snprintf(readers, sizeof(readers), "a copy, read %u times, in one thread", a->members);
        print_beside(readers, p->copy, p->of_copy, f);
        snprintf(readers, sizeof(readers), "a bare ring with %u readers", a->members);
        print_beside("the replicated log, one client", p->log, p->of_log, f);
    }
}

void bench_group_json(const struct group_args *a, const struct group_point *p, FILE *f)
{
    fprintf(f,
            "{\"protocol\":\"group\",\"transport\":\"%s\",\"layout\":\"%s\",\"members\":%u,"
            "\"senders\":\"%s\",\"subgroups\":%u,\"active\":\"%s\",\"mode\":\"%s\",\"delay_us\":%u,"
            "\"touch\":%s,\"nulls\":%s,\"unbatched\":[",
            bench_transport_names[a->transport], a->procs ? "procs" : "threads", a->members,
            sender_names[a->senders], a->subgroups, a->active_all ? "all" : "1", mode_name(a->mode),
            a->delay_us, a->touch ? "true" : "false", a->no_nulls ? "false" : "true");
    const char *between = "";
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        if (a->unbatched & stages[i].bit) {
            fprintf(f, "%s\"%s\"", between, stages[i].name);
            between = ",";
        }
    fprintf(f, "],\"turns\":%d,\"points\":[", GROUP_TURNS);
    for (uint32_t i = 0; i < a->sizes; i++, p++)
        fprintf(f,
                "%s{\"size\":%u,\"messages_per_second\":%.0f,\"gigabytes_per_second\":%.4f,"
                "\"own_delivery_p50_ns\":%.0f,\"own_delivery_p99_ns\":%.0f,"
                "\"line_round_trip_ns\":%.0f,\"p50_in_round_trips\":%.3f,"
                "\"messages_per_publish\":%.2f,\"messages_per_upcall\":%.2f,"
                "\"writes_per_message\":%.4f,\"nulls_per_message\":%.4f,"
                "\"ring_per_second\":%.0f,\"of_ring\":%.3f,\"copy_per_second\":%.0f,"
                "\"of_copy\":%.3f,\"log_per_second\":%.0f,\"of_log\":%.3f,"
                "\"disk_batch_bytes\":%.0f,\"disk_batches_per_second\":%.0f,"
                "\"disk_floor_per_second\":%.0f,\"of_disk\":%.3f}",
                i ? "," : "", p->size, p->rate, p->rate * p->size / 1e9, p->p50, p->p99, p->line_ns,
                p->in_lines, p->publish_batch, p->deliver_batch, p->writes, p->nulls, p->ring,
                p->of_ring, p->copy, p->of_copy, p->log, p->of_log, p->disk_batch, p->disk_rate,
                p->disk_floor, p->of_disk);
    fputs("]}\n", f);
}

/* ---- the page ---- */

static void set_series(struct compare *c, uint32_t at, const char *name, uint32_t sizes)
{
    struct compare_series *s = &c->figure[0].series[at];
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->colour = (uint8_t)(at % 4);
    s->dashed = at > 0;
    s->reference = (int)at;
    for (uint32_t x = 0; x < sizes; x++)
        s->cell[x] = (int)(at * GROUP_SIZES_MAX + x);
}

static void set_cell(struct compare *c, uint32_t series, uint32_t x, double rate, double latency)
{
    struct compare_cell *cell = &c->cell[series * GROUP_SIZES_MAX + x];
    cell->turns = rate > 0 || latency > 0;
    cell->median.rate[0] = rate;
    cell->median.latency_ns = latency;
}

/* The figure of a comparison, so that its plots can be drawn. */
static void make_figure(struct compare *c, const struct group_args *a, const struct group_point *p)
{
    struct compare_figure *f = &c->figure[0];
    static const char *const names[] = {"group", "bare ring", "log", "copy"};
    f->number = 1;
    f->x_name = "bytes of a message";
    f->rates = f->log_scale = true;
    f->xs = a->sizes;
    f->count = a->bare || a->procs || a->transport != BENCH_SHM ? 1 : 4;
    for (uint32_t s = 0; s < f->count; s++)
        set_series(c, s, names[s], a->sizes);
    for (uint32_t x = 0; x < a->sizes; x++) {
        f->x[x] = p[x].size;
        set_cell(c, 0, x, p[x].rate, p[x].p50);
        set_cell(c, 1, x, p[x].ring, 0);
        set_cell(c, 2, x, p[x].log, 0);
        set_cell(c, 3, x, p[x].copy, 0);
    }
}

static void write_page(FILE *out, const struct group_args *a, const struct group_point *p,
                       struct compare *c, const char *command)
{
    compare_page_begin(out, "Members of a group");
    fputs("<p>", out);
    print_case(a, out);
    fputs("</p>\n<div class=\"panels\"><figure><figcaption>messages a second</figcaption>\n", out);
    compare_plot(out, c, &c->figure[0], COMPARE_RATE);
    c->figure[0].count = 1;
    fputs("</figure><figure><figcaption>own delivery, one at a time, p50</figcaption>\n", out);
    compare_plot(out, c, &c->figure[0], COMPARE_LATENCY);
    fputs("</figure></div>\n<pre>", out);
    bench_group_print(a, p, out);
    fputs("</pre>\n<p>Made by <code>", out);
    compare_html(out, command);
    fputs("</code>.</p>\n</body>\n</html>\n", out);
}

struct files {
    const struct group_args *args;
    const struct group_point *point;
    struct compare *compare;
    const char *command;
};

static void page_body(const void *ctx, FILE *out)
{
    const struct files *r = ctx;
    write_page(out, r->args, r->point, r->compare, r->command);
}

static void json_body(const void *ctx, FILE *out)
{
    const struct files *r = ctx;
    bench_group_json(r->args, r->point, out);
}

int bench_group_report(const struct group_args *a, const struct group_point *p, const char *command,
                       const char *dir, struct err *e)
{
    int rc = compare_report_dir(dir, e);
    struct compare *c = rc == 0 ? calloc(1, sizeof(*c)) : NULL;
    struct compare_cell *cells = c ? calloc((size_t)4 * GROUP_SIZES_MAX, sizeof(*cells)) : NULL;
    if (cells == NULL) {
        free(c);
        return rc != 0 ? rc : err_set(e, ERR_NOMEM, "out of memory");
    }
    c->cell = cells;
    c->cells = 4 * GROUP_SIZES_MAX;
    make_figure(c, a, p);
    struct files r = {a, p, c, command};
    rc = compare_file(dir, "index.html", page_body, &r, e);
    if (rc == 0)
        rc = compare_file(dir, "group.json", json_body, &r, e);
    free(cells);
    free(c);
    return rc;
}
