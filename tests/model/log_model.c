/* Runs the model (model.h).
 *
 *     log_model                       the cases of `make test`: TAP, some seconds
 *     log_model --large               the cases of `make model`: minutes, with progress on stderr
 *     log_model NAME=VALUE... RULE... one search, for instance
 *         log_model order=ACAB claim_by_commit reread_run continue_by_zero
 *
 * Without claim_by_commit and reread_run the rules are those before their repair. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    REPAIRED = 1u << rule_claim_by_commit | 1u << rule_reread_run,
    STATES_MAX = 200 * 1000 * 1000,
};

static const struct {
    const char *name, *text;
} rules[] = {
#define MODEL_RULE_ROW(name, text) {#name, text},
    MODEL_RULES(MODEL_RULE_ROW)
#undef MODEL_RULE_ROW
};

/* A search and what must come of it. */
struct test_case {
    const char *bounds; /* as on the command line */
    uint32_t rules;
    bool found;
};

static struct model defaults(void)
{
    return (struct model){.ballots = 4,
                          .length = 4,
                          .first = 2,
                          .batch = LENGTH_MAX,
                          .messages = 2,
                          .stops = 1,
                          .tells = 1,
                          .states_max = STATES_MAX};
}

static bool set_rule(struct model *m, const char *name)
{
    for (unsigned r = 0; r < RULES; r++)
        if (strcmp(rules[r].name, name) == 0) {
            m->rules |= 1u << r;
            return true;
        }
    return false;
}

static bool set_order(struct model *m, const char *order)
{
    size_t count = strlen(order);
    if (count < 1 || count > BALLOTS_MAX || order[0] != 'A' || strspn(order, "ABC") != count)
        return false;
    memcpy(m->order + 1, order, count);
    m->ballots = (uint8_t)count;
    return true;
}

/* The options of a search that are small numbers. */
static uint8_t *number(struct model *m, const char *name, unsigned long *most)
{
    const struct {
        const char *name;
        uint8_t *at;
        unsigned long most;
    } numbers[] = {
        {"ballots", &m->ballots, BALLOTS_MAX},
        {"length", &m->length, LENGTH_MAX},
        {"first", &m->first, MESSAGES},
        {"proposals", &m->proposals, MESSAGES},
        {"messages", &m->messages, MESSAGES},
        {"thirds", &m->thirds, BALLOTS_MAX},
        {"tells", &m->tells, BALLOTS_MAX},
        {"stops", &m->stops, BALLOTS_MAX},
        {"suspensions", &m->suspensions, 7},
        {"row_lag", &m->row_lag, LENGTH_MAX},
        {"torn", &m->torn, 1},
        {"heads_down", &m->heads_down, 1},
        {"cuts", &m->cuts, BALLOTS_MAX},
        {"batch", &m->batch, LENGTH_MAX},
        {"late", &m->late, 1},
        {"to_the_end", &m->to_the_end, 1},
    };
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(numbers[i].name, name) == 0) {
            *most = numbers[i].most;
            return numbers[i].at;
        }
    return NULL;
}

/* One NAME=VALUE, or the name of a rule. */
static bool set_option(struct model *m, const char *option)
{
    char name[64];
    const char *value = strchr(option, '=');
    if (value == NULL)
        return set_rule(m, option);
    snprintf(name, sizeof(name), "%.*s", (int)(value - option), option);
    if (strcmp(name, "order") == 0)
        return set_order(m, value + 1);
    unsigned long most = 0, n = strtoul(value + 1, NULL, 10);
    uint8_t *at = number(m, name, &most);
    if (at == NULL || n > most)
        return false;
    *at = (uint8_t)n;
    return true;
}

static void set_options(struct model *m, const char *options)
{
    char copy[256], *rest = copy;
    snprintf(copy, sizeof(copy), "%s", options);
    for (char *option; (option = strsep(&rest, " ")) != NULL;)
        if (*option && !set_option(m, option)) {
            fprintf(stderr,
                    "log_model: '%s' is no bound (NAME=NUMBER), order (order=ACAB) or rule\n",
                    option);
            exit(2);
        }
}

static void tell(const char *line)
{
    printf("#   %s\n", line);
}

static void tell_nothing(const char *line)
{
    (void)line;
}

static struct verdict run(const struct model *m, void (*how)(const char *))
{
    clock_t began = clock();
    struct verdict v = search(m, how);
    printf("# %s: %llu states, %llu steps, %.1f s\n",
           v.wrong      ? v.wrong
           : v.complete ? "nothing found in all schedules within the bounds"
                        : "given up",
           (unsigned long long)v.states, (unsigned long long)v.steps,
           (double)(clock() - began) / CLOCKS_PER_SEC);
    fflush(stdout);
    return v;
}

/* ---- the cases ---- */

#define WITH(name) (REPAIRED | 1u << rule_##name)

static const struct test_case small[] = {
    /* A run that was half continued vouched for what was never decided; either repair alone is not enough. */
    {"order=ACAB", 0, true},
    {"order=ACAB", 1u << rule_reread_run, true},
    {"order=ACAB tells=0 suspensions=1", 1u << rule_claim_by_commit, true},
    {"order=ACAB", REPAIRED, false},
    {"order=ABA suspensions=1 to_the_end=1", REPAIRED, false},
    /* Continue and renew. */
    {"order=ACAB tells=0", WITH(retract), true},
    {"order=ABAC tells=0 cuts=1", WITH(continue_by_zero), true},
    {"order=ACAB tells=0", WITH(continue_run_first), true},
    {"order=ACAB tells=0", WITH(continue_keeps_guard), true},
    {"order=ACAB tells=0", WITH(continue_keeps_start), true},
    {"order=ACAB tells=0", WITH(continue_unlike), true},
    {"order=ABAC tells=0 cuts=1 batch=1", WITH(guard_below_kept), true},
    {"order=ACAB tells=0 first=1", WITH(renew_run_stays), true},
    {"order=ACAB tells=0 first=1", WITH(renew_run_first), true},
    {"order=ABAB tells=0 first=1", WITH(no_restamp), true},
    {"order=ABAB tells=0 first=1", WITH(kept_not_rewritten), true},
    /* Recovering. */
    {"order=AB first=1 suspensions=1", WITH(read_before_raise), true},
    {"order=AB first=1", WITH(own_not_raised), true},
    {"order=ACAB tells=0", WITH(old_runs_sure), true},
    {"order=ABC first=1", WITH(lowest_ballot), true},
    /* Counting, telling, applying. */
    {"order=AB to_the_end=1 batch=1 thirds=1", WITH(commit_beyond), true},
    {"order=AB first=1", WITH(quorum_of_one), true},
    {"order=AB first=1 suspensions=1", WITH(stale_counts), true},
    {"order=AB first=1", WITH(apply_to_guard), true},
};

static const struct test_case large[] = {
    {"order=ABAC tells=0 suspensions=1 torn=1", WITH(entries_unchecked), true},
    {"order=ABAA cuts=1 stops=2", REPAIRED, false},
    {"order=ABAB cuts=1 stops=2", REPAIRED, false},
    {"order=ABAC cuts=1 stops=2", REPAIRED, false},
    {"order=ABBA", REPAIRED, false},
    {"order=ABBB", REPAIRED, false},
    {"order=ABBC", REPAIRED, false},
    {"order=ABCA", REPAIRED, false},
    {"order=ABCB", REPAIRED, false},
    {"order=ABCC", REPAIRED, false},
    {"order=ACAA cuts=1 stops=2", REPAIRED, false},
    {"order=ACAB cuts=1 stops=2", REPAIRED, false},
    {"order=ACAC cuts=1 stops=2", REPAIRED, false},
    {"order=ACBA", REPAIRED, false},
    {"order=ACBB", REPAIRED, false},
    {"order=ACBC", REPAIRED, false},
    {"order=ACCA", REPAIRED, false},
    {"order=ACCB", REPAIRED, false},
    {"order=ACCC", REPAIRED, false},
    {"order=ACAB late=1", REPAIRED, false},
    {"order=ACAB torn=1", REPAIRED, false},
    {"order=ACAB row_lag=1", REPAIRED, false},
    {"order=ACAB proposals=1 length=5", REPAIRED, false},
    {"order=ACAB thirds=1", REPAIRED, false},
    {"order=ACA suspensions=2 stops=2", REPAIRED, false},
    {"order=ABC suspensions=2 stops=2", REPAIRED, false},
    {"order=ABAC suspensions=1", REPAIRED, false},
    {"order=ACAB suspensions=1", REPAIRED, false},
    {"order=ACAB suspensions=1 heads_down=1", REPAIRED, false},
};

static void say_rules(uint32_t mask)
{
    if ((mask & REPAIRED) != REPAIRED)
        printf("_before_the_repair");
    for (unsigned r = 0; r < RULES; r++)
        if (mask >> r & 1 && ((mask & REPAIRED) != REPAIRED || !(REPAIRED >> r & 1)))
            printf("_%s", rules[r].name);
    if (mask == REPAIRED)
        printf("_repaired");
}

static bool run_case(const struct test_case *c, unsigned number, bool progress)
{
    struct model m = defaults();
    set_options(&m, c->bounds);
    m.rules = c->rules;
    m.progress = progress;
    struct verdict v = run(&m, c->rules == 0 ? tell : tell_nothing);
    bool good = c->found ? v.wrong != NULL : v.complete;
    printf("%s %u - log_model__%s", good ? "ok" : "not ok", number, c->found ? "finds" : "clears");
    say_rules(c->rules);
    printf(" (%s)\n", c->bounds);
    fflush(stdout);
    return good;
}

static int run_cases(const struct test_case *cases, unsigned count, bool progress)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < count; i++)
        failed += !run_case(&cases[i], i + 1, progress);
    printf("1..%u\n", count);
    return failed > 0;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return run_cases(small, sizeof(small) / sizeof(small[0]), false);
    if (strcmp(argv[1], "--large") == 0)
        return run_cases(large, sizeof(large) / sizeof(large[0]), true);
    struct model m = defaults();
    for (int i = 1; i < argc; i++)
        set_options(&m, argv[i]);
    m.progress = true;
    return run(&m, tell).wrong != NULL;
}
