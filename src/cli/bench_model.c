#include "cli/bench_model.h"

#include <stdlib.h>
#include <string.h>

enum {
    SETS = 1024,
    LATENCY_MESSAGES = 400,
    CHANGES = 3,
    CHANGE_CLIENTS = 100,
    RAMCAST_GROUPS_MAX = 8,
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

enum { RUNS_MAX = 8, PART_NS = 50000000 };

static int measure_costs(enum model_layout layout, struct model_costs *costs, FILE *progress,
                         struct err *e)
{
    const struct run *run = layout == MODEL_SHARED ? together : alone;
    uint32_t runs = layout == MODEL_SHARED ? sizeof(together) / sizeof(together[0])
                                           : sizeof(alone) / sizeof(alone[0]);
    static struct model_work work[RUNS_MAX][BENCH_PARTS];
    CHECK(runs <= RUNS_MAX);
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
        fprintf(progress, "\rmeasuring what things cost here: run %u of %u", i + 1, runs);
        fflush(progress);
        int rc = bench_tree_work(&a, work[i], e);
        if (rc != 0)
            return rc;
    }
    fprintf(progress, "\n");
    model_fit(costs, &work[0][0], runs * BENCH_PARTS);
    return 0;
}

int bench_model_settle(struct bench_model *b, FILE *progress, struct err *e)
{
    struct model_costs network = b->preset->costs, cpu = model_costs_stored;
    bool measured = false;
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++) {
        if (b->origin[i] == COST_GIVEN)
            continue;
        if (!model_cost_is_cpu(i)) {
            *model_cost(&b->costs, i) = *model_cost(&network, i);
            b->origin[i] = COST_OF_PRESET;
            continue;
        }
        if (!b->stored && !measured) {
            int rc = measure_costs(b->preset->layout, &cpu, progress, e);
            if (rc != 0)
                return rc;
            measured = true;
        }
        *model_cost(&b->costs, i) = *model_cost(&cpu, i);
        b->origin[i] = b->stored ? COST_STORED : COST_MEASURED;
    }
    /* Where there is no network, writing to another processor is storing. */
    if (b->preset->layout == MODEL_SHARED && b->origin[MODEL_COST_post_ns] != COST_GIVEN)
        b->costs.post_ns = b->costs.store_ns;
    return 0;
}

void bench_model_print(const struct bench_model *b, FILE *out)
{
    static const char *const origins[] = {[COST_OF_PRESET] = "preset",
                                          [COST_STORED] = "stored",
                                          [COST_MEASURED] = "measured",
                                          [COST_GIVEN] = "given"};
    struct model_costs costs = b->costs;
    fprintf(out, "### What things cost (preset %s: %s)\n\n", b->preset->name, b->preset->text);
    fprintf(out, "| cost | value | from | what |\n|---|---:|---|---|\n");
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        fprintf(out, "| %s | %.1f | %s | %s |\n", model_cost_name(i), *model_cost(&costs, i),
                origins[b->origin[i]], model_cost_text(i));
    fprintf(out, "\nThe same again: `--preset %s --seed %llu --cost ", b->preset->name,
            (unsigned long long)b->seed);
    for (uint32_t i = 0; i < MODEL_COST_COUNT; i++)
        fprintf(out, "%s%s=%.17g", i ? "," : "", model_cost_name(i), *model_cost(&costs, i));
    fprintf(out, "`\n\n");
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

int bench_model_point(void *ctx, const struct bench_args *a, struct bench_point *p, struct err *e)
{
    const struct bench_model *b = ctx;
    struct subject s;
    struct hist *latency = malloc(sizeof(*latency));
    uint32_t load = a->loads > 0 ? a->load[a->loads - 1] : 1;
    memset(p, 0, sizeof(*p));
    int rc = latency ? subject_open(&s, b, a, load, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (rc != 0) {
        free(latency);
        return rc;
    }
    hist_init(latency);
    rc = model_latency(s.model, LATENCY_MESSAGES, latency, e);
    p->latency_ns = (double)hist_quantile(latency, 0.5);
    p->latency_p99_ns = (double)hist_quantile(latency, 0.99);
    if (rc == 0 && a->loads > 0)
        rc = model_saturate(s.model, load, &p->rate[a->loads - 1], e);
    subject_close(&s);
    free(latency);
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
    a.replicas = 3;
    a.adjacent = false;
    a.load[0] = a.clients;
    a.loads = 1;
    fprintf(
        out,
        "## Figure 5 of the RamCast paper: messages to one group, and to all\n\n"
        "Genuine, %u replicas, %u-byte messages, preset %s. The paper: throughput of "
        "single-group messages grows linearly with the groups and their latency, about 7 us, "
        "does not change; to all groups as in the table.\n\n"
        "| groups | to one: million/s | latency us | to all: million/s | latency us | the paper, "
        "to all: million/s | p95 us |\n"
        "|---:|---:|---:|---:|---:|---:|---:|\n",
        a.replicas, a.payload, b->preset->name);
    for (size_t i = 0; i < sizeof(paper) / sizeof(paper[0]); i++) {
        struct bench_point one, all;
        struct bench_model ctx = *b;
        a.groups = paper[i].groups;
        a.dst = 1;
        int rc = bench_model_point(&ctx, &a, &one, e);
        a.dst = a.groups;
        if (rc == 0)
            rc = bench_model_point(&ctx, &a, &all, e);
        if (rc != 0)
            return rc;
        fprintf(out, "| %u | %.2f | %.2f | %.2f | %.2f | %s | %s |\n", a.groups, one.rate[0] / 1e6,
                one.latency_ns / 1e3, all.rate[0] / 1e6, all.latency_ns / 1e3, paper[i].rate,
                paper[i].latency);
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

static void print_check(FILE *out, const char *what, const char *unit, double real, double model,
                        double scale, uint32_t *far)
{
    *far += !close_enough(real, model);
    fprintf(out, "| %s | %s | %.2f | %.2f | %.2f | %s |\n", what, unit, real / scale, model / scale,
            model / real, close_enough(real, model) ? "yes" : "no");
}

int bench_model_check(const struct bench_model *b, const struct bench_args *args, FILE *out,
                      uint32_t *far, struct err *e)
{
    static const struct run cases[] = {
        {MCAST_TREE, 4, 1, 3, 64, 8},    {MCAST_TREE, 4, 4, 3, 64, 8},
        {MCAST_TREE, 8, 1, 3, 64, 8},    {MCAST_TREE, 8, 8, 3, 64, 8},
        {MCAST_TREE, 8, 8, 3, 4096, 8},  {MCAST_GENUINE, 8, 1, 3, 64, 8},
        {MCAST_GENUINE, 8, 2, 3, 64, 8}, {MCAST_GENUINE, 8, 8, 3, 64, 8},
    };
    struct bench_model shm = *b;
    shm.preset = model_preset_named("shm");
    int rc = bench_model_settle(&shm, stderr, e);
    *far = 0;
    if (rc != 0)
        return rc;
    fprintf(
        out,
        "## The model against this machine\n\n"
        "Two threads, one polls all hosts and one is the clients, measured on shared memory; and "
        "the model of the same (preset shm). The way of a write in the model is half the round "
        "trip of a cache line in the same run.\n\n"
        "| case | | measured | model | ratio | within 2 |\n|---|---|---:|---:|---:|---|\n");
    for (size_t i = 0; rc == 0 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct run *c = &cases[i];
        struct bench_args a = *args;
        struct bench_point real, model;
        char what[80];
        a.mcast = true;
        a.layout = BENCH_THREADS;
        a.protocol = c->protocol;
        a.shape = OVERLAY_breadth;
        a.adjacent = false;
        a.groups = c->groups;
        a.dst = c->dst;
        a.replicas = c->replicas;
        a.hosts = c->replicas;
        a.payload = c->payload;
        a.load[0] = c->clients;
        a.loads = 1;
        a.part_ns = PART_NS * UINT64_C(6);
        rc = bench_tree_point(&a, &real, e);
        if (rc != 0)
            break;
        if (shm.origin[MODEL_COST_write_ns] != COST_GIVEN)
            shm.costs.write_ns = real.line_ns / 2;
        rc = bench_model_point(&shm, &a, &model, e);
        if (rc != 0)
            break;
        snprintf(what, sizeof(what), "%s, %u x %u to %u, %u bytes",
                 mcast_protocol_name(c->protocol), c->groups, c->replicas, c->dst, c->payload);
        print_check(out, what, "latency us", real.latency_ns, model.latency_ns, 1e3, far);
        print_check(out, what, "million/s", real.rate[0], model.rate[0], 1e6, far);
        fflush(out);
    }
    if (rc == 0)
        fprintf(out, "\n%s\n\n",
                *far ? "Not all within a factor of 2." : "All within a factor of 2.");
    return rc;
}
