#include "bench_points.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Genuine is ahead with one destination, the trees with more; breadth is the fastest tree, depth has the
 * highest throughput. */
double points_latency_ns(const struct bench_args *a)
{
    static const double shape[] = {
        [OVERLAY_base] = 40, [OVERLAY_breadth] = 20, [OVERLAY_depth] = 60};
    double per_group = a->protocol == MCAST_TREE ? 311 : 1500;
    double start = a->protocol == MCAST_TREE ? 2113 : 601;
    return start + per_group * a->dst + shape[a->shape] + (a->adjacent ? -15 : 0) +
           3.0 * a->replicas + a->payload / 8.0 + a->groups / 10.0;
}

/* Two clients are best, one does nearly as much. */
double points_rate(const struct bench_args *a, uint32_t load)
{
    static const double shape[] = {
        [OVERLAY_base] = 1.7, [OVERLAY_breadth] = 1.3, [OVERLAY_depth] = 1.9};
    double factor = a->load[load] == 2 ? 1 : a->load[load] == 1 ? 0.93 : 0.71;
    double base = a->protocol == MCAST_TREE ? 800000 * shape[a->shape] : 2000000.0 / a->dst;
    return factor * base / (1 + a->payload / 640.0) + (a->adjacent ? 1234 : 0);
}

int points_measure(void *ctx, const struct bench_args *a, struct bench_point *out, struct err *e)
{
    static const double noise[] = {1, 9, 1, 0.1, 1};
    struct points *p = ctx;
    if (p->calls == 0)
        p->first = *a;
    uint32_t call = p->calls++;
    p->stop = p->stop_after > 0 && p->calls >= p->stop_after;
    if (p->fail_bytes && a->payload == p->fail_bytes && call >= p->fail_from)
        return err_set(e, ERR_NOMEM, "no memory for <%u> \"bytes\" & more", a->payload);
    double off = noise[call % 5];
    *out = (struct bench_point){.line_ns = 140,
                                .latency_ns = off * points_latency_ns(a),
                                .latency_p99_ns = off * 2 * points_latency_ns(a)};
    for (uint32_t i = 0; i < a->loads; i++)
        out->rate[i] = points_rate(a, i) / off;
    return 0;
}

void points_open(struct compare *c, uint32_t groups, uint32_t clients, bool quick)
{
    struct err e = {""};
    struct compare_options o = {.args = {.replicas = 3,
                                         .payload = 64,
                                         .seconds = 10,
                                         .groups = groups,
                                         .dst = 1,
                                         .clients = clients,
                                         .hosts = 3},
                                .turns = 5,
                                .quick = quick};
    if (compare_open(c, &o, &e) != 0)
        fail_msg("%s", e.text);
    snprintf(c->origin, sizeof(c->origin), "made up");
    snprintf(c->command, sizeof(c->command), "tram bench --compare --report <a&b>");
}
