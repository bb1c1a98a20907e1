#include "bench/model_bench.h"

#include <stdlib.h>
#include <string.h>

enum {
    SETS = 1024,
    LATENCY_MESSAGES = 400,
    CHANGES = 3,
    CHANGE_CLIENTS = 100,
    CLIENTS_A_GROUP = 8,      /* of RamCast's figure */
    CLIENT_BYTES = 512 << 10, /* at once, of all clients: more do not saturate more */
};

/* What a change of permissions takes where it means connecting queue pairs anew, which TRAM sec. 8.7
 * calls very slow and does not put a number to: the order of its fail-overs. */
#define RECONNECT_NS 10e6

/* ---- costs ---- */

static int cost_given(struct bench_model *b, char *word, struct err *e)
{
    char *equals = strchr(word, '='), *end;
    if (equals == NULL)
        return err_set(e, ERR_INVALID, "'%s' is no NAME=VALUE", word);
    *equals = '\0';
    int which = model_cost_find(word, e);
    if (which < 0)
        return which;
    double value = strtod(equals + 1, &end);
    if (end == equals + 1 || *end != '\0' || !(value >= 0 && value <= 1e12))
        return err_set(e, ERR_INVALID, "%s needs a number from 0 to 1e12", word);
    *model_cost(&b->costs, (uint32_t)which) = value;
    b->origin[which] = COST_GIVEN;
    return 0;
}

int bench_model_costs(struct bench_model *b, const char *list, struct err *e)
{
    char *copy = strdup(list), *rest = copy, *word;
    int rc = copy ? 0 : err_set(e, ERR_NOMEM, "out of memory");
    while (rc == 0 && (word = strsep(&rest, ",")) != NULL)
        if (strcmp(word, "stored") == 0)
            b->stored = true;
        else
            rc = cost_given(b, word, e);
    free(copy);
    return rc;
}

/* A case that is run to see what it takes. */
struct run {
    enum mcast_protocol protocol;
    uint32_t groups, dst, replicas, payload, clients;
};

/* Where every replica has its own processor, what it works on stays in its cache; where one processor has
 * all of them it does not. So costs are measured with few of them and few messages, and with many. */
static const struct run alone[] = {
    {MCAST_TREE, 1, 1, 1, 64, 16}, {MCAST_TREE, 1, 1, 3, 64, 2},    {MCAST_TREE, 1, 1, 3, 4096, 1},
    {MCAST_TREE, 2, 2, 3, 64, 2},  {MCAST_GENUINE, 2, 2, 1, 64, 2}, {MCAST_GENUINE, 2, 2, 3, 64, 1},
};
static const struct run together[] = {
    {MCAST_TREE, 8, 1, 1, 64, 16},   {MCAST_TREE, 8, 1, 3, 64, 8},
    {MCAST_TREE, 8, 8, 3, 64, 8},    {MCAST_TREE, 8, 8, 3, 4096, 4},
    {MCAST_GENUINE, 8, 2, 1, 64, 8}, {MCAST_GENUINE, 8, 2, 3, 64, 8},
    {MCAST_GENUINE, 8, 8, 3, 64, 8},
};

enum { RUNS_MAX = 8, PART_NS = 50000000, CHECK_TURNS = 3, CHECK_PART_NS = 200000000 };

static int measure_costs(struct bench_model *b, enum model_layout layout, struct model_costs *costs,
                         FILE *progress, struct err *e)
{
    const struct run *run = layout == MODEL_SHARED ? together : alone;
    uint32_t runs = layout == MODEL_SHARED ? sizeof(together) / sizeof(together[0])
                                           : sizeof(alone) / sizeof(alone[0]);
    static struct model_work work[RUNS_MAX][BENCH_PARTS];
    CHECK(runs <= RUNS_MAX);
    if (progress)
        fprintf(progress, "measuring what things cost here, for some seconds\n");
    for (uint32_t i = 0; i < runs; i++) {
        struct bench_args a = {
            .mcast = true,
            .protocol = run[i].protocol,
            .layout = BENCH_SINGLE,
            .replicas = run[i].replicas,
            .payload = run[i].payload,
            .groups = run[i].groups,
            .dst = run[i].dst,
            .clients = run[i].clients,
            .hosts = run[i].replicas,
            .shape = OVERLAY_breadth,
            .part_ns = PART_NS,
        };
        int rc = bench_tree_work(&a, work[i], e);
        if (rc != 0)
            return rc;
    }
    const struct model_work *all = &work[0][0];
    b->parts = runs * BENCH_PARTS;
    b->parts_near = 0;
    model_fit(costs, all, b->parts);
    for (uint32_t i = 0; i < b->parts; i++) {
        double ratio = model_work_ns(costs, &all[i]) / all[i].cpu_ns;
        b->parts_near += ratio < 1.25 && ratio > 1 / 1.25;
    }
    return 0;
}

static bool all_cpu_given(const struct bench_model *b)
{
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        if (model_cost_is_cpu(i) && b->origin[i] != COST_GIVEN)
            return false;
    return true;
}

int bench_model_settle(struct bench_model *b, const struct model_preset *preset, FILE *progress,
                       struct err *e)
{
    struct model_costs network = preset->costs, cpu = model_costs_stored;
    b->preset = preset;
    if (!b->stored && !all_cpu_given(b) && !(b->measured && b->measured_for == preset->layout)) {
        int rc = measure_costs(b, preset->layout, &cpu, progress, e);
        if (rc != 0)
            return rc;
        b->measured = true;
        b->measured_for = preset->layout;
    } else if (b->measured) {
        cpu = b->costs;
    }
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++) {
        bool is_cpu = model_cost_is_cpu(i);
        if (b->origin[i] == COST_GIVEN)
            continue;
        *model_cost(&b->costs, i) = *model_cost(is_cpu ? &cpu : &network, i);
        b->origin[i] = !is_cpu ? COST_OF_PRESET : b->measured ? COST_MEASURED : COST_STORED;
    }
    /* Where there is no network, writing to another processor is storing. */
    if (preset->layout == MODEL_SHARED && b->origin[MODEL_COST_post_ns] != COST_GIVEN)
        b->costs.post_ns = b->costs.store_ns;
    return 0;
}

/* Costs [from, until), as many as a fact has room for. */
static void add_cost_fact(const struct bench_model *b, struct compare *c, const char *name,
                          uint32_t from, uint32_t until)
{
    struct model_costs costs = b->costs;
    char list[sizeof(c->fact->value)] = "";
    for (uint32_t i = from; i < until; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s %.4g", used ? ", " : "",
                 model_cost_name(i), *model_cost(&costs, i));
    }
    compare_add_fact(c, name, "%s", list);
}

void bench_model_facts(const struct bench_model *b, struct compare *c)
{
    compare_add_fact(c, "network", "%s", b->preset->text);
    add_cost_fact(b, c, "network costs", 0, MODEL_COST_store_ns);
    add_cost_fact(b, c, "processor costs", MODEL_COST_store_ns, MODEL_COST_entry_ns);
    add_cost_fact(b, c, "and", MODEL_COST_entry_ns, MODEL_COST_COUNT);
    compare_add_fact(c, "each point",
                     "median of %d messages one at a time; saturated by %u clients (fewer of large "
                     "messages), each with as many under way as bring most",
                     LATENCY_MESSAGES, c->cell[0].args.load[c->cell[0].args.loads - 1]);
}

void bench_model_print(const struct bench_model *b, FILE *out)
{
    static const char *const origins[] = {[COST_OF_PRESET] = "preset",
                                          [COST_STORED] = "stored",
                                          [COST_MEASURED] = "measured",
                                          [COST_GIVEN] = "given"};
    struct model_costs costs = b->costs;
    fprintf(out, "\n### What things cost (preset %s: %s)\n\n", b->preset->name, b->preset->text);
    fprintf(out, "| cost | value | from | what |\n|---|---:|---|---|\n");
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        fprintf(out, "| %s | %.1f | %s | %s |\n", model_cost_name(i), *model_cost(&costs, i),
                origins[b->origin[i]], model_cost_text(i));
    if (b->measured)
        fprintf(
            out,
            "\nWhat was measured is fitted to the CPU time of %u parts of runs, and gives that of "
            "%u of them within a quarter.\n",
            b->parts, b->parts_near);
    fprintf(out, "\nThe same again: `--preset %s --seed %llu --cost ", b->preset->name,
            (unsigned long long)b->seed);
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        fprintf(out, "%s%s=%.17g", i ? "," : "", model_cost_name(i), *model_cost(&costs, i));
    fprintf(out, "`\n");
}

/* ---- a model of a case ---- */

struct subject {
    struct overlay *overlay;
    uint16_t *sets;
    struct model *model;
};

static void subject_close(struct subject *s)
{
    model_close(s->model);
    overlay_close(s->overlay);
    free(s->sets);
}

static int subject_open(struct subject *s, const struct bench_model *b, const struct bench_args *a,
                        uint32_t clients, struct err *e)
{
    uint16_t parent[OVERLAY_GROUPS_MAX];
    *s = (struct subject){0};
    overlay_shape_fill(a->shape, a->groups, parent);
    int rc = overlay_open(&s->overlay, parent, a->groups, e);
    if (rc != 0)
        return rc;
    s->sets = calloc((size_t)SETS * a->dst, sizeof(*s->sets));
    rc = s->sets ? bench_sets(a, s->overlay, s->sets, SETS, e)
                 : err_set(e, ERR_NOMEM, "out of memory");
    struct model_options mo = {
        .protocol = a->protocol,
        .overlay = s->overlay,
        .replicas = a->replicas,
        .hosts = a->hosts,
        .clients = clients,
        .payload = a->payload,
        .sets = s->sets,
        .dst = a->dst,
        .sets_count = SETS,
        .layout = b->preset->layout,
        .costs = b->costs,
        .seed = b->seed,
    };
    if (rc == 0)
        rc = model_open(&mo, &s->model, e);
    if (rc != 0)
        subject_close(s);
    return rc;
}

/* Latency into the histogram, and the rate with so many clients; none: 0. */
static int measure(const struct bench_model *b, const struct bench_args *a, uint32_t clients,
                   struct hist *latency, double *rate, struct err *e)
{
    struct subject s;
    int rc = subject_open(&s, b, a, clients > 0 ? clients : 1, e);
    *rate = 0;
    if (rc != 0)
        return rc;
    rc = model_latency(s.model, LATENCY_MESSAGES, latency, e);
    if (rc == 0 && clients > 0)
        rc = model_saturate(s.model, clients, rate, e);
    subject_close(&s);
    return rc;
}

/* Large messages need large rings at every replica and few clients to fill links. */
static uint32_t clients_for(const struct bench_args *a)
{
    uint32_t load = a->load[a->loads - 1], enough = CLIENT_BYTES / (a->payload + 1);
    enough = enough > CLIENTS_A_GROUP ? enough : CLIENTS_A_GROUP;
    return load < enough ? load : enough;
}

int bench_model_point(void *ctx, const struct bench_args *a, struct bench_point *p, struct err *e)
{
    const struct bench_model *b = ctx;
    struct hist *latency = malloc(sizeof(*latency));
    double rate;
    memset(p, 0, sizeof(*p));
    if (latency == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    hist_init(latency);
    int rc = measure(b, a, a->loads > 0 ? clients_for(a) : 0, latency, &rate, e);
    p->latency_ns = (double)hist_quantile(latency, 0.5);
    p->latency_p99_ns = (double)hist_quantile(latency, 0.99);
    if (a->loads > 0)
        p->rate[a->loads - 1] = rate;
    free(latency);
    return rc;
}

int bench_model_figures(const struct bench_model *b, const struct bench_args *a,
                        struct bench_figures *f, struct err *e)
{
    double rate;
    int rc = measure(b, a, a->clients, &f->latency, &rate, e);
    f->messages = (uint64_t)rate;
    f->seconds = 1;
    return rc;
}

/* ---- table 1 ---- */

static void print_delays(FILE *out, const char *name, const struct model_delays *d,
                         const char *paper)
{
    fprintf(out, "| %s | %llu | %.0f | %.0f | %.0f | %.0f | %s |\n", name,
            (unsigned long long)d->count, d->mean / 1e3, d->deviation / 1e3, d->least / 1e3,
            d->most / 1e3, paper);
}

static int changes(const struct bench_model *b, const struct bench_args *a, FILE *out,
                   struct err *e)
{
    static const char *const paper[] = {"22544, 17424, 4420, 50730", "39344, 9397, 29879, 48806",
                                        "28151, 7038, 21925, 41777", "28251, 13430, 4420, 50730"};
    struct subject s;
    struct model_delays d;
    int rc = subject_open(&s, b, a, CHANGE_CLIENTS, e);
    if (rc != 0)
        return rc;
    fprintf(out, "A raise takes %.0f us.\n\n", b->costs.raise_ns / 1e3);
    fprintf(out, "| change | delayed | average | st. dev. | min | max | the paper's four |\n"
                 "|---|---:|---:|---:|---:|---:|---|\n");
    for (int i = 0; rc == 0 && i < CHANGES; i++) {
        char name[16];
        rc = model_change(s.model, CHANGE_CLIENTS, &d, e);
        snprintf(name, sizeof(name), "#%d", i + 1);
        if (rc == 0)
            print_delays(out, name, &d, paper[i]);
    }
    if (rc == 0) {
        double usual = d.usual;
        model_changes(s.model, &d);
        print_delays(out, "total", &d, paper[CHANGES]);
        fprintf(out, "\nThe slowest message before: %.0f us.\n\n", usual / 1e3);
    }
    subject_close(&s);
    return rc;
}

int bench_model_table1(const struct bench_model *b, const struct bench_args *args, FILE *out,
                       struct err *e)
{
    struct bench_args a = *args;
    struct bench_model reconnect = *b;
    a.protocol = MCAST_TREE;
    a.shape = OVERLAY_breadth;
    a.groups = a.dst = 8;
    a.replicas = 3;
    a.adjacent = false;
    fprintf(
        out,
        "## Table 1: messages delayed by a change of all leaders, us\n\n"
        "All %u groups change their leader at once, three times, while %d clients send to all of "
        "them; breadth, %u replicas, %u-byte messages. The paper: 3 orders of magnitude above the "
        "usual latency, because queue pairs are connected anew.\n\n",
        a.groups, CHANGE_CLIENTS, a.replicas, a.payload);
    int rc = changes(b, &a, out, e);
    reconnect.costs.raise_ns = RECONNECT_NS;
    if (rc == 0 && b->preset->layout == MODEL_SPREAD && b->costs.raise_ns < RECONNECT_NS)
        rc = changes(&reconnect, &a, out, e);
    return rc;
}

/* ---- figure 5 of the RamCast paper ---- */

int bench_model_ramcast(const struct bench_model *b, const struct bench_args *args, FILE *out,
                        struct err *e)
{
    static const struct {
        uint32_t groups;
        const char *rate, *latency;
    } paper[] = {{1, "0.233", "8"}, {2, "0.145", "46"}, {4, "0.080", "78"}, {8, "0.040", "150"}};
    struct bench_args a = *args;
    a.protocol = MCAST_GENUINE;
    a.shape = OVERLAY_breadth;
    a.adjacent = false;
    a.loads = 1;
    fprintf(out,
            "## Figure 5 of the RamCast paper: messages to one group, and to all\n\n"
            "Genuine, %u replicas, %u-byte messages, preset %s. The paper: throughput of "
            "single-group messages grows linearly with the groups and their latency, about 7 us, "
            "does not change; to all groups as in the table.\n\n"
            "| groups | to one: million/s | latency us | to all: million/s | latency us | p99 us | "
            "the paper, to all: million/s | p95 us |\n"
            "|---:|---:|---:|---:|---:|---:|---:|---:|\n",
            a.replicas, a.payload, b->preset->name);
    struct bench_model ctx = *b;
    for (size_t i = 0; i < sizeof(paper) / sizeof(paper[0]) && paper[i].groups <= args->groups;
         i++) {
        struct bench_point one, all;
        a.groups = paper[i].groups;
        a.load[0] = CLIENTS_A_GROUP * a.groups;
        a.dst = 1;
        int rc = bench_model_point(&ctx, &a, &one, e);
        a.dst = a.groups;
        if (rc == 0)
            rc = bench_model_point(&ctx, &a, &all, e);
        if (rc != 0)
            return rc;
        fprintf(out, "| %u | %.2f | %.2f | %.2f | %.2f | %.2f | %s | %s |\n", a.groups,
                one.rate[0] / 1e6, one.latency_ns / 1e3, all.rate[0] / 1e6, all.latency_ns / 1e3,
                all.latency_p99_ns / 1e3, paper[i].rate, paper[i].latency);
        fflush(out);
    }
    fprintf(out, "\n");
    return 0;
}

/* ---- against the real thing ---- */

static bool close_enough(double a, double b)
{
    return a <= 2 * b && b <= 2 * a;
}

static bool print_check(FILE *out, const char *what, const char *unit, double real, double model,
                        double scale)
{
    bool near = close_enough(real, model);
    fprintf(out, "| %s | %s | %.2f | %.2f | %.2f | %s |\n", what, unit, real / scale, model / scale,
            model / real, near ? "yes" : "no");
    return near;
}

/* The best of some turns: whatever disturbs makes it slower. */
static int measure_real(const struct bench_args *a, struct bench_point *best, struct err *e)
{
    for (int turn = 0; turn < CHECK_TURNS; turn++) {
        struct bench_point p;
        int rc = bench_tree_point(a, &p, e);
        if (rc != 0)
            return rc;
        if (turn == 0)
            *best = p;
        best->line_ns = p.line_ns < best->line_ns ? p.line_ns : best->line_ns;
        best->latency_ns = p.latency_ns < best->latency_ns ? p.latency_ns : best->latency_ns;
        best->rate[0] = p.rate[0] > best->rate[0] ? p.rate[0] : best->rate[0];
    }
    return 0;
}

int bench_model_check(const struct bench_model *b, FILE *out, struct err *e)
{
    static const struct run cases[] = {
        {MCAST_TREE, 4, 1, 3, 64, 8},    {MCAST_TREE, 4, 4, 3, 64, 8},
        {MCAST_TREE, 8, 1, 3, 64, 8},    {MCAST_TREE, 8, 8, 3, 64, 8},
        {MCAST_TREE, 8, 8, 3, 4096, 8},  {MCAST_GENUINE, 8, 1, 3, 64, 8},
        {MCAST_GENUINE, 8, 2, 3, 64, 8}, {MCAST_GENUINE, 8, 8, 3, 64, 8},
    };
    const uint32_t count = sizeof(cases) / sizeof(cases[0]);
    struct bench_model shm = *b;
    uint32_t near = 0;
    int rc = bench_model_settle(&shm, model_preset_named("shm"), stderr, e);
    if (rc != 0)
        return rc;
    fprintf(
        out,
        "\n## The model against this machine\n\n"
        "Two threads, one polls all hosts and one is the clients, measured on shared memory, best "
        "of %d turns; and the model of the same (preset shm). The way of a write in the model is "
        "half the round trip of a cache line in the same run. Anything else that runs on the two "
        "cores lowers the measured rates, and not those of the model.\n\n"
        "| case | | measured | model | ratio | within 2 |\n|---|---|---:|---:|---:|---|\n",
        CHECK_TURNS);
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        const struct run *c = &cases[i];
        struct bench_point real, model;
        char what[80];
        const struct bench_args a = {
            .mcast = true,
            .layout = BENCH_THREADS,
            .protocol = c->protocol,
            .shape = OVERLAY_breadth,
            .groups = c->groups,
            .dst = c->dst,
            .replicas = c->replicas,
            .hosts = c->replicas,
            .payload = c->payload,
            .load = {c->clients},
            .loads = 1,
            .part_ns = CHECK_PART_NS,
        };
        rc = measure_real(&a, &real, e);
        if (shm.origin[MODEL_COST_write_ns] != COST_GIVEN)
            shm.costs.write_ns = real.line_ns / 2;
        if (rc == 0)
            rc = bench_model_point(&shm, &a, &model, e);
        if (rc != 0)
            break;
        snprintf(what, sizeof(what), "%s, %u groups of %u, %u bytes to %u",
                 mcast_protocol_name(c->protocol), c->groups, c->replicas, c->payload, c->dst);
        near += print_check(out, what, "latency us", real.latency_ns, model.latency_ns, 1e3);
        near += print_check(out, what, "million/s", real.rate[0], model.rate[0], 1e6);
        fflush(out);
    }
    if (rc == 0)
        fprintf(out, "\n%u of %u within a factor of 2.\n", near, 2 * count);
    return rc;
}
