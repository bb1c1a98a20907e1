/* tram plan: which tree suits the messages, and why. */
#include "base/clock.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/plan_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    double load_weight, hops_weight;
} objectives[] = {{1, 0}, {0, 1}, {1, 1}};
static const char *const objective_names[] = {"throughput", "latency", "balanced", NULL};

enum {
    BUSIEST_SHOWN = 3,
    SETS_SHOWN = 3,
    MEMBERS_SHOWN = 6, /* of a set */
    STEP_TREES = 64,   /* between two looks at the clock */
};

struct plan_args {
    const char *file, *trace;
    unsigned objective;
    uint64_t seed, seconds;
    bool json;
};

/* A tree and all that is known of it. */
struct rated {
    const char *title;
    uint16_t parent[OVERLAY_GROUPS_MAX];
    struct plan_report report;
    struct plan_load load[OVERLAY_GROUPS_MAX];
};

enum { PROPOSED = OVERLAY_SHAPE_COUNT, TREES };

struct outcome {
    const struct plan_args *args;
    const struct plan_input *in;
    struct plan *plan;
    struct overlay *overlay;  /* of the proposed tree */
    struct rated tree[TREES]; /* by shape, then the proposed one */
};

static double share(uint64_t part, uint64_t whole)
{
    return (double)part / (double)whole;
}

/* ---- text ---- */

/* In preorder each group comes after its parent, one level deeper. */
static void print_tree(const struct outcome *o)
{
    const struct rated *t = &o->tree[PROPOSED];

    for (int i = 0; i < OVERLAY_SHAPE_COUNT; i++)
        if (memcmp(t->parent, o->tree[i].parent, o->in->groups * sizeof t->parent[0]) == 0) {
            printf("Proposed tree, which is %s:\n\n", o->tree[i].title);
            goto drawn;
        }
    printf("Proposed tree:\n\n");
drawn:
    for (uint32_t i = 0; i < o->in->groups; i++) {
        uint16_t g = o->overlay->at[i];
        printf("  %*s%s\n", 2 * overlay_depth(o->overlay, g), "", o->in->name[g]);
    }
}

static void print_table(const struct outcome *o)
{
    uint64_t total = plan_weight(o->plan);

    printf("\n  %-9s %10s %7s %12s %10s %8s  %s\n", "tree", "max load", "", "mean load",
           "mean hops", "genuine", "busiest");
    for (int i = TREES; i-- > 0;) {
        const struct plan_report *r = &o->tree[i].report;
        printf("  %-9s %10llu %6.1f%% %12.1f %10.2f %7.1f%%  %s\n", o->tree[i].title,
               (unsigned long long)r->max_load, 100 * share(r->max_load, total),
               share(r->work, o->in->groups), share(r->hops, total), 100 * share(r->genuine, total),
               o->in->name[r->busiest]);
    }
    printf(
        "\nLoad: messages that a group orders or relays, and the share of all messages. Genuine:\n"
        "messages handled by nobody but their destinations. In any tree the busiest group has a\n"
        "load of at least %llu (%.1f%%), the messages that are for one group.\n",
        (unsigned long long)plan_load_min(o->plan), 100 * share(plan_load_min(o->plan), total));
}

static bool visits(const struct outcome *o, uint32_t set, uint16_t g)
{
    struct dst_set dst = o->in->set[set].dst;

    return overlay_above(o->overlay, overlay_lca(o->overlay, dst), g) &&
           overlay_reaches(o->overlay, g, dst);
}

static void print_set(const struct outcome *o, uint32_t set, uint16_t g)
{
    struct dst_set dst = o->in->set[set].dst;

    printf("    %10llu to {", (unsigned long long)o->in->set[set].weight);
    for (uint32_t i = 0; i < dst.count && i < MEMBERS_SHOWN; i++)
        printf("%s%s", i ? " " : "", o->in->name[dst.group[i]]);
    if (dst.count > MEMBERS_SHOWN)
        printf(" ... %u in all", dst.count);
    printf("}%s\n", dst_has(dst, g) ? "" : ", relayed");
}

/* The heaviest sets that visit g, heaviest first, by picking the next one each time: only a few. */
static void print_why(const struct outcome *o, uint16_t g)
{
    uint32_t shown[SETS_SHOWN], count = 0;

    while (count < SETS_SHOWN) {
        uint32_t heaviest = UINT32_MAX;
        for (uint32_t i = 0; i < o->in->set_count; i++) {
            bool known = false;
            for (uint32_t j = 0; j < count; j++)
                known = known || shown[j] == i;
            bool heavier =
                heaviest == UINT32_MAX || o->in->set[i].weight > o->in->set[heaviest].weight;
            if (!known && heavier && visits(o, i, g))
                heaviest = i;
        }
        if (heaviest == UINT32_MAX)
            return;
        print_set(o, heaviest, g);
        shown[count++] = heaviest;
    }
}

static void print_busiest(const struct outcome *o)
{
    const struct plan_load *load = o->tree[PROPOSED].load;
    bool shown[OVERLAY_GROUPS_MAX] = {0};

    printf("\nBusiest groups of the proposed tree, and the most frequent messages there:\n\n");
    for (uint32_t n = 0; n < BUSIEST_SHOWN && n < o->in->groups; n++) {
        uint32_t g = 0;
        for (uint32_t i = 0; i < o->in->groups; i++)
            if (shown[g] || (!shown[i] && load[i].load > load[g].load))
                g = i;
        shown[g] = true;
        if (load[g].load == 0)
            return;
        printf("  %s: load %llu: %llu for itself, %llu only relayed; first to order %llu of them\n",
               o->in->name[g], (unsigned long long)load[g].load,
               (unsigned long long)load[g].delivers,
               (unsigned long long)(load[g].load - load[g].delivers),
               (unsigned long long)load[g].orders);
        print_why(o, (uint16_t)g);
    }
}

static void print_groups(const struct outcome *o)
{
    printf("\nFor the cluster file, with the replicas of each group:\n\ngroups:\n");
    for (uint32_t g = 0; g < o->in->groups; g++) {
        uint16_t parent = overlay_parent(o->overlay, (uint16_t)g);
        printf("  - {name: %s, ", o->in->name[g]);
        if (parent != OVERLAY_NONE)
            printf("parent: %s, ", o->in->name[parent]);
        printf("replicas: [...]}\n");
    }
}

static void print_text(const struct outcome *o)
{
    printf("%u groups, %u destination sets, %llu messages; objective: %s. ", o->in->groups,
           o->in->set_count, (unsigned long long)plan_weight(o->plan),
           objective_names[o->args->objective]);
    if (plan_exact(o->plan))
        printf("The best of all trees.\n\n");
    else
        printf(
            "The best of %llu trees\nthat were tried (seed %llu); there may be a better one.\n\n",
            (unsigned long long)plan_rated(o->plan), (unsigned long long)o->args->seed);
    print_tree(o);
    print_table(o);
    print_busiest(o);
    print_groups(o);
}

/* ---- JSON ---- */

/* Names have no character that needs an escape: neither the lines nor the traces let one pass. */
static void print_json(const struct outcome *o)
{
    uint64_t total = plan_weight(o->plan);

    printf("{" CMD_JSON_VERSION
           ",\"groups\":%u,\"sets\":%u,\"messages\":%llu,\"objective\":\"%s\",\"seed\":%llu,"
           "\"exact\":%s,\"trees_rated\":%llu,\"max_load_least\":%llu,\"tree\":[",
           o->in->groups, o->in->set_count, (unsigned long long)total,
           objective_names[o->args->objective], (unsigned long long)o->args->seed,
           plan_exact(o->plan) ? "true" : "false", (unsigned long long)plan_rated(o->plan),
           (unsigned long long)plan_load_min(o->plan));
    for (uint32_t g = 0; g < o->in->groups; g++) {
        const struct plan_load *l = &o->tree[PROPOSED].load[g];
        uint16_t parent = overlay_parent(o->overlay, (uint16_t)g);
        printf("%s{\"group\":\"%s\",\"parent\":", g ? "," : "", o->in->name[g]);
        if (parent == OVERLAY_NONE)
            printf("null");
        else
            printf("\"%s\"", o->in->name[parent]);
        printf(",\"load\":%llu,\"delivers\":%llu,\"relays\":%llu,\"orders\":%llu}",
               (unsigned long long)l->load, (unsigned long long)l->delivers,
               (unsigned long long)(l->load - l->delivers), (unsigned long long)l->orders);
    }
    printf("],\"compared\":[");
    for (int i = TREES; i-- > 0;) {
        const struct plan_report *r = &o->tree[i].report;
        printf("{\"tree\":\"%s\",\"max_load\":%llu,\"busiest\":\"%s\",\"mean_load\":%.3f,"
               "\"mean_hops\":%.4f,\"genuine_share\":%.4f}%s",
               o->tree[i].title, (unsigned long long)r->max_load, o->in->name[r->busiest],
               share(r->work, o->in->groups), share(r->hops, total), share(r->genuine, total),
               i ? "," : "");
    }
    printf("]}\n");
}

/* ---- the run ---- */

static int read_input(const struct plan_args *a, struct plan_input *in, struct err *e)
{
    int rc = 0;

    if (a->trace != NULL)
        rc = plan_input_trace(in, a->trace, e);
    if (rc == 0 && (a->trace == NULL || a->file != NULL)) {
        bool standard = a->file == NULL || strcmp(a->file, "-") == 0;
        FILE *f = standard ? stdin : fopen(a->file, "r");
        if (f == NULL)
            return err_sys(e, "%s: open", a->file);
        rc = plan_input_lines(in, f, standard ? "(standard input)" : a->file, e);
        if (!standard)
            fclose(f);
    }
    return rc < 0 ? rc : plan_input_finish(in, e);
}

static void search(struct plan *p, uint64_t seconds)
{
    uint64_t until = clock_now_ns() + seconds * UINT64_C(1000000000);

    while (plan_step(p, STEP_TREES) && (seconds == 0 || clock_now_ns() < until)) {
    }
}

static int propose(struct outcome *o, struct err *e)
{
    struct plan_options options = {
        .groups = o->in->groups,
        .set = o->in->set,
        .set_count = o->in->set_count,
        .load_weight = objectives[o->args->objective].load_weight,
        .hops_weight = objectives[o->args->objective].hops_weight,
        .seed = o->args->seed,
        .restarts = o->args->seconds ? UINT32_MAX : 0,
    };

    int rc = plan_open(&o->plan, &options, e);
    if (rc < 0)
        return rc;
    search(o->plan, o->args->seconds);
    for (int i = 0; i < TREES; i++) {
        struct rated *t = &o->tree[i];
        t->title = i == PROPOSED ? "proposed" : overlay_shape_name((enum overlay_shape)i);
        if (i == PROPOSED)
            memcpy(t->parent, plan_best(o->plan), o->in->groups * sizeof t->parent[0]);
        else
            overlay_shape_fill((enum overlay_shape)i, o->in->groups, t->parent);
        plan_rate(o->plan, t->parent, &t->report, t->load);
    }
    return overlay_open(&o->overlay, o->tree[PROPOSED].parent, o->in->groups, e);
}

static int run(const struct plan_args *a)
{
    struct plan_input in = {0};
    struct err e = {{0}};
    struct outcome *o = calloc(1, sizeof *o);

    CHECK(o != NULL);
    *o = (struct outcome){.args = a, .in = &in};
    int rc = read_input(a, &in, &e);
    if (rc == 0)
        rc = propose(o, &e);
    if (rc < 0)
        fprintf(stderr, "tram plan: %s\n", e.text);
    else if (a->json)
        print_json(o);
    else
        print_text(o);
    if (o->overlay != NULL)
        overlay_close(o->overlay);
    plan_close(o->plan);
    plan_input_fini(&in);
    free(o);
    return rc < 0 ? CMD_FAILED : CMD_DONE;
}

int cmd_plan(int argc, char **argv)
{
    struct plan_args a = {.seed = 1};
    const struct args_word words[] = {{"FILE", &a.file, NULL}, {0}};
    const struct args_option options[] = {
        {"--trace", "DIR", "count the sets of the messages in a directory of traces",
         .text = &a.trace, .needs = "a directory"},
        {"--objective", "NAME",
         "throughput: the busiest group shall have the least load (default)\n"
         "latency: messages shall have the fewest hops\n"
         "balanced: both, each measured by the least that is possible",
         .choice = &a.objective, .choices = objective_names, .needs = "the objectives are"},
        {"--seed", "S", "of the search, which is used beyond 7 groups (default 1)",
         .number = &a.seed, .max = UINT64_MAX},
        {"--seconds", "S", "search for that long, instead of a fixed number of trees",
         .number = &a.seconds, .min = 1, .max = 86400},
        {"--json", NULL, "one JSON object instead of text", .flag = &a.json},
        {0},
    };
    const struct args_command command = {
        .name = "plan",
        .usage = "[FILE|-] [OPTIONS]",
        .about = "Proposes the overlay tree with the least expected work for messages to given "
                 "sets of groups. FILE (- or none: standard input) has a line `weight group group "
                 "...` for each set: how many messages, and the names or numbers of the groups "
                 "they go to; # begins a comment.",
        .options = options,
        .words = words,
        .too_many = "only one file is read",
        .more = "Exit code: 0 a tree was proposed, 1 the input has a mistake, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? run(&a) : code;
}
