#include "cli/bench_options.h"
#include "mcast/mcast.h"

#include <stdio.h>
#include <string.h>

const char *const bench_layout_names[] = {
    [BENCH_THREADS] = "threads", [BENCH_PROCS] = "procs", [BENCH_SINGLE] = "single", NULL};

const char *const bench_transport_names[] = {
    [BENCH_SHM] = "shm", [BENCH_SIM] = "sim", [BENCH_TCP] = "tcp", [BENCH_VERBS] = "verbs", NULL};

static void print_json_hist(const char *name, const struct hist *h)
{
    printf("\"%s\":{\"count\":%llu,\"p50\":%llu,\"p99\":%llu,\"p999\":%llu,\"max\":%llu}", name,
           (unsigned long long)hist_count(h), (unsigned long long)hist_quantile(h, 0.5),
           (unsigned long long)hist_quantile(h, 0.99), (unsigned long long)hist_quantile(h, 0.999),
           (unsigned long long)hist_max(h));
}

static void print_hist(const char *name, const struct hist *h)
{
    printf("%-34s p50 %6llu   p99 %6llu   p99.9 %7llu   max %9llu ns\n", name,
           (unsigned long long)hist_quantile(h, 0.5), (unsigned long long)hist_quantile(h, 0.99),
           (unsigned long long)hist_quantile(h, 0.999), (unsigned long long)hist_max(h));
}

static const char *protocol_name(const struct bench_args *a)
{
    return a->mcast ? mcast_protocol_name(a->protocol) : "log";
}

static void print_json_case(const struct bench_options *o)
{
    const struct bench_args *a = &o->bench;
    printf("{\"protocol\":\"%s\",\"transport\":\"%s\",\"replicas\":%u,\"payload\":%u,",
           protocol_name(a), bench_transport_names[a->transport], a->replicas, a->payload);
    if (a->mcast)
        printf("\"groups\":%u,\"tree\":\"%s\",\"destinations\":%u,\"adjacent\":%s,\"clients\":%u,",
               a->groups, overlay_shape_name(a->shape), a->dst, a->adjacent ? "true" : "false",
               a->clients);
}

void bench_print_json_model(const struct bench_options *o, const struct bench_figures *f)
{
    struct model_costs costs = o->model.costs;
    print_json_case(o);
    printf("\"preset\":\"%s\",\"seed\":%llu,\"costs\":{", o->model.preset->name,
           (unsigned long long)o->model.seed);
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        printf("%s\"%s\":%.17g", i ? "," : "", model_cost_name(i), *model_cost(&costs, i));
    printf("},");
    print_json_hist("latency_ns", &f->latency);
    printf(",\"messages_per_second\":%.0f}\n", (double)f->messages / f->seconds);
}

void bench_print_json(const struct bench_options *o, const struct bench_figures *f)
{
    const struct bench_args *a = &o->bench;
    print_json_case(o);
    if (a->mcast)
        printf("\"hosts\":%u,\"layout\":\"%s\",", a->hosts, bench_layout_names[a->layout]);
    print_json_hist(a->transport == BENCH_TCP ? "raw_round_trip_ns"
                    : bench_networked(a)      ? "write_round_trip_ns"
                                              : "line_round_trip_ns",
                    &f->line);
    putchar(',');
    if (bench_networked(a))
        printf("\"writes_per_second\":%.0f,", f->wire_per_second);
    if (hist_count(&f->chain) > 0) {
        printf("\"encrypted\":%s,", a->clear ? "false" : "true");
        print_json_hist("chain_ns", &f->chain);
        printf(",\"latency_in_chains\":%.2f,", f->chain_ratio[BENCH_TURNS / 2]);
    }
    print_json_hist("latency_ns", &f->latency);
    printf(",\"latency_in_round_trips\":%.2f,\"messages\":%llu,\"seconds\":%.3f,"
           "\"messages_per_second\":%.0f",
           f->ratio[BENCH_TURNS / 2], (unsigned long long)f->messages, f->seconds,
           (double)f->messages / f->seconds);
    /* In processes of their own the hosts' counts are out of reach. */
    if (a->layout != BENCH_PROCS)
        printf(",\"messages_per_batch\":%.1f", f->batch);
    printf("}\n");
}

static void print_where(const struct bench_options *o)
{
    const struct bench_args *a = &o->bench;
    if (bench_simulated(o))
        printf("a model, preset %s", o->model.preset->name);
    else
        printf("%s%s%s%u hosts %s", bench_networked(a) ? bench_transport_names[a->transport] : "",
               a->clear ? " in clear text" : "", bench_networked(a) ? ", " : "", a->hosts,
               a->layout == BENCH_PROCS ? "as processes" : "in one thread");
}

static const char *line_name(const struct bench_args *a)
{
    return a->transport == BENCH_TCP ? "raw TCP round trip"
           : bench_networked(a)      ? "fi_write round trip"
                                     : "cache line round trip";
}

void bench_print(const struct bench_options *o, const struct bench_figures *f)
{
    const struct bench_args *a = &o->bench;
    double rate = (double)f->messages / f->seconds;
    if (a->mcast) {
        printf("%u group%s of %u replicas, %s%s, ", a->groups, a->groups > 1 ? "s" : "",
               a->replicas, a->protocol == MCAST_TREE ? overlay_shape_name(a->shape) : "genuine",
               a->protocol == MCAST_TREE ? " tree" : "");
        print_where(o);
        printf(", %u-byte messages to %u%s %s\n", a->payload, a->dst,
               a->adjacent ? " adjacent" : "", a->dst == 1 ? "group" : "groups");
    } else {
        printf("replicated log, %u replicas, %u-byte messages, shared memory, 2 threads\n",
               a->replicas, a->payload);
    }
    if (hist_count(&f->line) > 0)
        print_hist(line_name(a), &f->line);
    if (hist_count(&f->chain) > 0)
        print_hist("bare chain of the same layout", &f->chain);
    print_hist(a->mcast ? "message done, one at a time" : "message committed, one at a time",
               &f->latency);
    if (hist_count(&f->line) > 0)
        printf("  in %ss %*s %.2f\n", line_name(a), (int)(28 - strlen(line_name(a))), "",
               f->ratio[BENCH_TURNS / 2]);
    if (hist_count(&f->chain) > 0)
        printf("%-34s %.2f\n", "  in bare chains", f->chain_ratio[BENCH_TURNS / 2]);
    if (bench_networked(a))
        printf("%-34s %.*f million a second\n",
               a->transport == BENCH_TCP ? "sends in a row" : "fi_write in a row",
               f->wire_per_second < 1e5 ? 4 : 2, f->wire_per_second / 1e6);
    printf("%-34s %.*f million messages/s", "saturated", rate < 1e5 ? 4 : 2, rate / 1e6);
    if (a->mcast)
        printf(", %u clients", a->clients);
    if (f->batch > 0)
        printf(", %.1f in a batch", f->batch);
    putchar('\n');
    if (bench_simulated(o))
        bench_model_print(&o->model, stdout);
}
