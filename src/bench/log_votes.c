#include "bench/log_votes.h"

#include <stdlib.h>

/* What one turn shows of one of the two. */
struct turn {
    double p50_ns, rate;
};

static int measure(const struct bench_args *a, struct turn *t, struct err *e)
{
    struct bench_figures *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    hist_init(&f->line);
    hist_init(&f->latency);
    int rc = bench_log(a, f, e);
    if (rc == 0)
        *t = (struct turn){.p50_ns = (double)hist_quantile(&f->latency, 0.5),
                           .rate = (double)f->messages / f->seconds};
    free(f);
    return rc;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of)
{
    qsort(of, VOTES_TURNS, sizeof(*of), ascending);
    return of[VOTES_TURNS / 2];
}

int bench_votes(const struct bench_args *a, struct votes_figures *f, struct err *e)
{
    double p50[VOTES_TURNS], plain_p50[VOTES_TURNS], p50_ratio[VOTES_TURNS];
    double rate[VOTES_TURNS], plain_rate[VOTES_TURNS], rate_ratio[VOTES_TURNS];
    struct bench_args plain = *a;
    plain.memories = 0;
    plain.replicas = f->voters = a->memories + (a->all_vote ? a->replicas : 0);
    for (int i = 0; i < VOTES_TURNS; i++) {
        struct turn with = {0}, without = {0};
        int rc = measure(&plain, &without, e);
        if (rc == 0)
            rc = measure(a, &with, e);
        if (rc != 0)
            return rc;
        p50[i] = with.p50_ns;
        plain_p50[i] = without.p50_ns;
        p50_ratio[i] = with.p50_ns / without.p50_ns;
        rate[i] = with.rate;
        plain_rate[i] = without.rate;
        rate_ratio[i] = with.rate / without.rate;
    }
    f->p50_ns = median(p50);
    f->plain_p50_ns = median(plain_p50);
    f->p50_ratio = median(p50_ratio);
    f->rate = median(rate);
    f->plain_rate = median(plain_rate);
    f->rate_ratio = median(rate_ratio);
    return 0;
}

void bench_votes_print(const struct bench_args *a, const struct votes_figures *f, FILE *out)
{
    fprintf(out,
            "replicated log, %u replicas and %u memories, %s, %u-byte messages, shared memory, 2 "
            "threads; medians of %d turns\n",
            a->replicas, a->memories, a->all_vote ? "all vote" : "memories vote", a->payload,
            VOTES_TURNS);
    fprintf(out, "%-34s p50 %6.0f ns   saturated %.2f million messages/s\n",
            "with memories, one at a time", f->p50_ns, f->rate / 1e6);
    fprintf(out, "%u%-33s p50 %6.0f ns   saturated %.2f million messages/s\n", f->voters,
            " replicas, one at a time", f->plain_p50_ns, f->plain_rate / 1e6);
    fprintf(out, "%-34s     %6.2f      %21.2f\n", "  with memories in these", f->p50_ratio,
            f->rate_ratio);
}

void bench_votes_json(const struct bench_args *a, const struct votes_figures *f, FILE *out)
{
    fprintf(out,
            "{\"protocol\":\"log\",\"replicas\":%u,\"memories\":%u,\"votes\":\"%s\",\"payload\":%u,"
            "\"voters\":%u,\"turns\":%d,\"p50_ns\":%.0f,\"plain_p50_ns\":%.0f,\"p50_ratio\":%.3f,"
            "\"messages_per_second\":%.0f,\"plain_messages_per_second\":%.0f,"
            "\"rate_ratio\":%.3f}\n",
            a->replicas, a->memories, a->all_vote ? "all" : "memories", a->payload, f->voters,
            VOTES_TURNS, f->p50_ns, f->plain_p50_ns, f->p50_ratio, f->rate, f->plain_rate,
            f->rate_ratio);
}
