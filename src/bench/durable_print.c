/* The figures of durable clusters, for people and for programs. */
#include "bench/durable.h"

static double us(double ns)
{
    return ns / 1e3;
}

static double quantile(const struct hist *h, double q)
{
    return (double)hist_quantile(h, q);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static double gap_median(const struct bench_durable_gaps *g)
{
    return g->kills ? g->ns[g->kills / 2] : 0;
}

/* A heartbeat is not waited for: 1 ms, one flush for the promise, one for the new leader's first entry. */
static double gap_aim(const struct bench_durable *d)
{
    return 1e6 + 2 * quantile(&d->floor, 0.5);
}

/* Of what the disks take and of what memories do, whichever is less. */
static double load_part(const struct bench_durable *d, const struct bench_durable_load *l)
{
    double memory = ratio(l->rate, l->memory_rate);
    double disk = ratio(l->journal, bench_durable_stream(d));
    return memory > disk ? memory : disk;
}

static void print_hist(FILE *f, const char *name, const struct hist *h)
{
    fprintf(f, "%-34s p50 %6.1f   p99 %8.1f   max %9.1f us\n", name, us(quantile(h, 0.5)),
            us(quantile(h, 0.99)), us((double)hist_max(h)));
}

static void print_load(FILE *f, const struct bench_args *a, const struct bench_durable *d,
                       const struct bench_durable_load *l)
{
    fprintf(f,
            "saturated, %5u bytes: %8.0f messages/s, %6.1f MB/s; journal %6.1f MB/s, %.0f KiB a "
            "flush\n",
            l->payload, l->rate, l->rate * l->payload / 1e6, l->journal / 1e6, l->batch / 1024);
    fprintf(f, "  without disks %8.0f: %.2f of it; %.2f of what a disk takes\n", l->memory_rate,
            ratio(l->rate, l->memory_rate), ratio(l->journal, bench_durable_stream(d)));
    fprintf(f, "  %2u groups     %8.0f: %.2f of one\n", a->groups, l->many_rate,
            ratio(l->many_rate, l->rate));
}

void bench_durable_print(const struct bench_args *a, const struct bench_durable *d, FILE *f)
{
    fprintf(f, "%s, durable, groups of %u replicas, %u hosts as processes, %u clients, in %s\n",
            mcast_protocol_name(a->protocol), a->replicas, a->hosts, a->clients, d->dir);
    print_hist(f, "floor: 4 KiB on all disks", &d->floor);
    print_hist(f, "floor: 1 MiB on all disks", &d->stream);
    fprintf(f, "%-34s %.0f MB/s for each\n", "", bench_durable_stream(d) / 1e6);
    print_hist(f, "message done, one at a time", &d->latency);
    fprintf(f, "%-34s %.2f\n", "  in floors", d->ratio[BENCH_TURNS / 2]);
    if (d->gaps.kills > 0)
        fprintf(
            f, "%-34s p50 %6.2f ms of %u; 1 ms and two floors are %.2f ms, without disks %.2f ms\n",
            "leader killed: the longest message", gap_median(&d->gaps) / 1e6, d->gaps.kills,
            gap_aim(d) / 1e6, gap_median(&d->memory_gaps) / 1e6);
    for (uint32_t i = 0; i < DURABLE_LOADS; i++)
        print_load(f, a, d, &d->load[i]);
}

static void json_hist(FILE *f, const char *name, const struct hist *h)
{
    fprintf(f, "\"%s\":{\"count\":%llu,\"p50\":%llu,\"p99\":%llu,\"p999\":%llu,\"max\":%llu},",
            name, (unsigned long long)hist_count(h), (unsigned long long)hist_quantile(h, 0.5),
            (unsigned long long)hist_quantile(h, 0.99), (unsigned long long)hist_quantile(h, 0.999),
            (unsigned long long)hist_max(h));
}

static void json_load(FILE *f, const struct bench_durable *d, const struct bench_durable_load *l)
{
    fprintf(f,
            "{\"payload\":%u,\"messages_per_second\":%.0f,\"journal_bytes_per_second\":%.0f,"
            "\"bytes_per_flush\":%.0f,\"memory_messages_per_second\":%.0f,"
            "\"groups_messages_per_second\":%.0f,\"of_memory\":%.3f,\"of_floor\":%.3f,"
            "\"of_less\":%.3f,\"groups_of_one\":%.3f}",
            l->payload, l->rate, l->journal, l->batch, l->memory_rate, l->many_rate,
            ratio(l->rate, l->memory_rate), ratio(l->journal, bench_durable_stream(d)),
            load_part(d, l), ratio(l->many_rate, l->rate));
}

void bench_durable_json(const struct bench_args *a, const struct bench_durable *d, FILE *f)
{
    fprintf(f,
            "{\"protocol\":\"%s\",\"transport\":\"shm\",\"durable\":true,\"replicas\":%u,"
            "\"payload\":%u,\"groups\":%u,\"clients\":%u,\"hosts\":%u,\"on_disk\":%s,",
            mcast_protocol_name(a->protocol), a->replicas, a->payload, a->groups, a->clients,
            a->hosts, d->in_memory ? "false" : "true");
    json_hist(f, "floor_ns", &d->floor);
    json_hist(f, "floor_stream_ns", &d->stream);
    fprintf(f, "\"floor_bytes_per_second\":%.0f,", bench_durable_stream(d));
    json_hist(f, "latency_ns", &d->latency);
    fprintf(f, "\"latency_in_floors\":%.2f,\"gaps_ns\":[", d->ratio[BENCH_TURNS / 2]);
    for (uint32_t i = 0; i < d->gaps.kills; i++)
        fprintf(f, "%s%.0f", i ? "," : "", d->gaps.ns[i]);
    fprintf(
        f, "],\"gap_p50_ns\":%.0f,\"gap_in_aims\":%.2f,\"memory_gap_p50_ns\":%.0f,\"saturated\":[",
        gap_median(&d->gaps), ratio(gap_median(&d->gaps), gap_aim(d)), gap_median(&d->memory_gaps));
    for (uint32_t i = 0; i < DURABLE_LOADS; i++) {
        fputs(i ? "," : "", f);
        json_load(f, d, &d->load[i]);
    }
    fprintf(f, "]}\n");
}
