/* tram sim: many seeds of a protocol in the simulator, on all cores. */
#include "base/clock.h"
#include "base/nearest.h"
#include "base/planted.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "sim/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if TRAM_PLANTED
#define PROGRAM "tram-planted"
#define BUG_HELP "switch a planted bug on; --bug list names them"
#else
#define PROGRAM "tram"
#define BUG_HELP NULL
#endif

typedef void run_fn(const struct run_options *, struct run_result *);

static const struct protocol {
    const char *name;
    run_fn *run;
} protocols[] = {{"log", run_log},
                 {"tree", run_tree},
                 {"genuine", run_genuine},
                 {"group", run_group},
                 {"bft", run_bft}};
static const char *const protocol_names[] = {"log", "tree", "genuine", "group", "bft", NULL};
static const char *const memory_names[] = {"drawn", "shm", "ofi", "tcp",
                                           NULL}; /* as enum run_memory */

static const char *const votes_names[] = {"replicas", "memories", "all", "drawn",
                                          NULL}; /* as enum run_votes */
static const char *const strategy_names[] = {
#define STRATEGY_NAME(name, text) #name,
    HOSTILE_LIST(STRATEGY_NAME)
#undef STRATEGY_NAME
        "drawn",
    NULL};
static const char *const aim_names[] = {"drawn", "on", "off", NULL}; /* as enum aim_when */

enum { BUGS_ON_MAX = 1 };

struct sim_args {
    const struct protocol *protocol;
    uint64_t seeds, first, seed;
    bool one, keep_going, quiet;
    uint32_t replicas, jobs;
    enum run_memory memory;
    enum aim_when aim;
    bool durable;
    enum run_votes votes;
    enum hostile_strategy strategy;
    const char *bug;
};

/* Totals of one worker, as it reports them. */
struct tally {
    uint64_t seeds, events, faults, terms, messages, snapshots, over_ofi, over_tcp;
    struct aim_figures aimed;
    uint64_t failures;
    uint64_t failed_seed; /* the first */
    struct run_result failed;
    uint64_t power_cuts, disks_lost, sectors_flipped, writes_failed, disks_filled, full_journals;
    struct group_figures group;
    struct bft_tally {
        uint64_t runs, failures;
        struct bft_figures sum;
    } bft[HOSTILE_STRATEGIES];
};

static void add_group(struct group_figures *sum, const struct group_figures *g)
{
    sum->views += g->views;
    sum->joins += g->joins;
    sum->leaves += g->leaves;
    sum->put_out += g->put_out;
    sum->trimmed += g->trimmed;
    sum->restamped += g->restamped;
    sum->asked += g->asked;
    sum->answered += g->answered;
    sum->client_sent += g->client_sent;
    sum->client_done += g->client_done;
    sum->client_again += g->client_again;
    sum->client_fed += g->client_fed;
    sum->client_lost += g->client_lost;
    sum->returned += g->returned;
    sum->vacant += g->vacant;
    sum->states += g->states;
    sum->learnt += g->learnt;
    sum->raw += g->raw;
    sum->stateless += g->stateless;
    sum->nulls += g->nulls;
    sum->deliveries += g->deliveries;
    sum->large += g->large;
    sum->blocks += g->blocks;
    sum->skipped += g->skipped;
    sum->shared += g->shared;
    sum->disks += g->disks;
    sum->disk_batches += g->disk_batches;
    sum->checkpoints += g->checkpoints;
    sum->power_cuts += g->power_cuts;
    sum->disks_failed += g->disks_failed;
}

static void add_bft(struct bft_figures *sum, const struct bft_figures *f)
{
    sum->liars += f->liars;
    sum->lies += f->lies;
    sum->decisions += f->decisions;
    sum->views += f->views;
    sum->convicted += f->convicted;
    sum->jumps += f->jumps;
    sum->rejoins += f->rejoins;
    sum->epochs += f->epochs;
    sum->batches += f->batches;
}

static void add_figures(struct aim_figures *sum, const struct aim_figures *f)
{
    for (int i = 0; i < AIM_STEPS; i++)
        sum->strikes[i] += f->strikes[i];
    for (int i = 0; i < AIM_CALLS_MAX; i++)
        sum->at[i] += f->at[i];
}

static void tally_add(struct tally *t, uint64_t seed, const struct run_result *r)
{
    t->seeds++;
    t->events += r->events;
    t->faults += r->faults;
    t->terms += r->terms;
    t->messages += r->messages;
    t->snapshots += r->snapshots;
    t->power_cuts += r->power_cuts;
    t->disks_lost += r->disks_lost;
    t->sectors_flipped += r->sectors_flipped;
    t->writes_failed += r->writes_failed;
    t->disks_filled += r->disks_filled;
    t->full_journals += r->full_journals;
    t->over_ofi += r->memory == RUN_MEMORY_OFI;
    t->over_tcp += r->memory == RUN_MEMORY_TCP;
    add_figures(&t->aimed, &r->aimed);
    add_group(&t->group, &r->group);
    struct bft_tally *b = &t->bft[r->bft.strategy];
    b->runs++;
    b->failures += r->property != NULL;
    add_bft(&b->sum, &r->bft);
    if (r->property != NULL && t->failures++ == 0) {
        t->failed_seed = seed;
        t->failed = *r;
    }
}

static void print_failure(const struct sim_args *a, uint64_t seed, const struct run_result *r)
{
    printf("VIOLATION of '%s' in seed %llu (%u replicas), position %llu, at %.3f us: %s\n",
           r->property, (unsigned long long)seed, r->replicas, (unsigned long long)r->position,
           (double)r->time_ns / 1000, r->text);
    printf("replay with: %s sim --protocol %s --seed %llu", PROGRAM, a->protocol->name,
           (unsigned long long)seed);
    if (a->replicas)
        printf(" --replicas %u", a->replicas);
    if (a->memory != RUN_MEMORY_DRAWN)
        printf(" --memory %s", memory_names[a->memory]);
    if (a->aim != AIM_DRAWN)
        printf(" --aim %s", aim_names[a->aim]);
    if (a->durable)
        printf(" --durable");
    if (a->votes)
        printf(" --votes %s", votes_names[a->votes]);
    if (a->strategy != HOSTILE_STRATEGIES)
        printf(" --strategy %s", strategy_names[a->strategy]);
    if (a->bug)
        printf(" --bug %s", a->bug);
    printf("\n");
}

static int run_one(const struct sim_args *a)
{
    struct run_options o = {.seed = a->seed,
                            .replicas = a->replicas,
                            .memory = a->memory,
                            .aim = a->aim,
                            .durable = a->durable,
                            .votes = a->votes,
                            .strategy = a->strategy,
                            .trace = a->quiet ? NULL : stdout};
    struct run_result r;
    a->protocol->run(&o, &r);
    printf("seed %llu: %s memory, %u replicas, %llu events, %llu messages, %llu leaders, %llu "
           "faults, hash "
           "%016llx\n",
           (unsigned long long)a->seed, memory_names[r.memory], r.replicas,
           (unsigned long long)r.events, (unsigned long long)r.messages,
           (unsigned long long)r.terms, (unsigned long long)r.faults, (unsigned long long)r.hash);
    if (r.property == NULL)
        return CMD_DONE;
    print_failure(a, a->seed, &r);
    return CMD_FAILED;
}

/* ---- workers ---- */

/* Seeds first + index, first + index + jobs, ...: reports after each stretch of about 50 ms. */
static void worker(const struct sim_args *a, uint32_t index, int out)
{
    struct tally t = {0};
    uint64_t reported = clock_now_ns();
    for (uint64_t i = index; i < a->seeds; i += a->jobs) {
        struct run_options o = {.seed = a->first + i,
                                .replicas = a->replicas,
                                .memory = a->memory,
                                .aim = a->aim,
                                .durable = a->durable,
                                .votes = a->votes,
                                .strategy = a->strategy};
        struct run_result r;
        a->protocol->run(&o, &r);
        tally_add(&t, o.seed, &r);
        uint64_t now = clock_now_ns();
        if (now - reported > 50000000 || r.property != NULL || i + a->jobs >= a->seeds) {
            if (write(out, &t, sizeof(t)) != (ssize_t)sizeof(t))
                _exit(0); /* nobody wants to know any more */
            reported = now;
            uint64_t failures = t.failures;
            t = (struct tally){0};
            if (failures && !a->keep_going)
                _exit(0);
        }
    }
    _exit(0);
}

static void progress(const struct sim_args *a, const struct tally *sum, uint64_t start_ns)
{
    double s = (double)(clock_now_ns() - start_ns) / 1e9;
    fprintf(stderr,
            "\r%llu of %llu seeds, %.1f million events, %.2f million events/s, %llu leaders, %llu "
            "faults, %llu violations ",
            (unsigned long long)sum->seeds, (unsigned long long)a->seeds, (double)sum->events / 1e6,
            s > 0 ? (double)sum->events / 1e6 / s : 0, (unsigned long long)sum->terms,
            (unsigned long long)sum->faults, (unsigned long long)sum->failures);
}

static void merge(struct tally *sum, const struct tally *t)
{
    sum->seeds += t->seeds;
    sum->events += t->events;
    sum->faults += t->faults;
    sum->terms += t->terms;
    sum->messages += t->messages;
    sum->snapshots += t->snapshots;
    sum->over_ofi += t->over_ofi;
    sum->over_tcp += t->over_tcp;
    sum->power_cuts += t->power_cuts;
    sum->disks_lost += t->disks_lost;
    sum->sectors_flipped += t->sectors_flipped;
    sum->writes_failed += t->writes_failed;
    sum->disks_filled += t->disks_filled;
    sum->full_journals += t->full_journals;
    add_figures(&sum->aimed, &t->aimed);
    add_group(&sum->group, &t->group);
    for (int i = 0; i < HOSTILE_STRATEGIES; i++) {
        sum->bft[i].runs += t->bft[i].runs;
        sum->bft[i].failures += t->bft[i].failures;
        add_bft(&sum->bft[i].sum, &t->bft[i].sum);
    }
    /* The lowest seed is reported, so that the answer does not depend on timing alone. */
    if (t->failures > 0 && (sum->failures == 0 || t->failed_seed < sum->failed_seed)) {
        sum->failed_seed = t->failed_seed;
        sum->failed = t->failed;
    }
    sum->failures += t->failures;
}

static void print_aimed(const struct aim_figures *f)
{
    printf("aimed at");
    for (int i = 0; i < AIM_STEPS; i++)
        printf("%s %s %llu", i ? "," : "", aim_step_name(i), (unsigned long long)f->strikes[i]);
    printf("; after 1, 2, ... operations:");
    for (int i = 0; i < AIM_CALLS_MAX; i++)
        printf(" %llu", (unsigned long long)f->at[i]);
    printf("\n");
}

static void print_group(const struct group_figures *g)
{
    printf("%llu views, %llu joins, %llu leaves, %llu put out alive, %llu trimmed, %llu restamped, "
           "%llu returned, %llu cells vacant, %llu states sent, %llu learnt, %llu nulls, %llu "
           "deliveries, "
           "%llu large, %llu blocks, %llu raw, %llu asked, %llu answered, %llu of clients, %llu "
           "sent again, %llu fed to them, %llu lost, %llu runs on "
           "shared lanes, %llu without states, "
           "%llu runs that cannot end\n",
           (unsigned long long)g->views, (unsigned long long)g->joins,
           (unsigned long long)g->leaves, (unsigned long long)g->put_out,
           (unsigned long long)g->trimmed, (unsigned long long)g->restamped,
           (unsigned long long)g->returned, (unsigned long long)g->vacant,
           (unsigned long long)g->states, (unsigned long long)g->learnt,
           (unsigned long long)g->nulls, (unsigned long long)g->deliveries,
           (unsigned long long)g->large, (unsigned long long)g->blocks, (unsigned long long)g->raw,
           (unsigned long long)g->asked, (unsigned long long)g->answered,
           (unsigned long long)g->client_sent, (unsigned long long)g->client_again,
           (unsigned long long)g->client_fed, (unsigned long long)g->client_lost,
           (unsigned long long)g->shared, (unsigned long long)g->stateless,
           (unsigned long long)g->skipped);
    if (g->disks)
        printf("%llu runs with disks: %llu batches written, %llu power cuts, %llu left for their "
               "disk, %llu checkpoints\n",
               (unsigned long long)g->disks, (unsigned long long)g->disk_batches,
               (unsigned long long)g->power_cuts, (unsigned long long)g->disks_failed,
               (unsigned long long)g->checkpoints);
}

static void print_bft(const struct bft_tally *of)
{
    printf("%-11s %7s %7s %9s %9s %7s %9s %7s %8s %7s %8s %10s\n", "strategy", "seeds", "liars",
           "lies", "decisions", "views", "convicted", "jumps", "rejoins", "epochs", "batches",
           "violations");
    for (int i = 0; i < HOSTILE_STRATEGIES; i++) {
        const struct bft_figures *f = &of[i].sum;
        if (of[i].runs == 0)
            continue;
        printf("%-11s %7llu %7llu %9llu %9llu %7llu %9llu %7llu %8llu %7llu %8llu %10llu\n",
               strategy_names[i], (unsigned long long)of[i].runs, (unsigned long long)f->liars,
               (unsigned long long)f->lies, (unsigned long long)f->decisions,
               (unsigned long long)f->views, (unsigned long long)f->convicted,
               (unsigned long long)f->jumps, (unsigned long long)f->rejoins,
               (unsigned long long)f->epochs, (unsigned long long)f->batches,
               (unsigned long long)of[i].failures);
    }
}

static int run_many(const struct sim_args *a)
{
    int fds[2];
    if (pipe(fds) != 0) {
        perror("tram sim: pipe");
        return CMD_FAILED;
    }
    uint64_t start = clock_now_ns();
    signal(SIGPIPE, SIG_IGN);
    fflush(stdout);
    for (uint32_t j = 0; j < a->jobs; j++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("tram sim: fork");
            return CMD_FAILED;
        }
        if (pid == 0) {
            close(fds[0]);
            worker(a, j, fds[1]);
        }
    }
    close(fds[1]);
    struct tally sum = {0}, t;
    bool show = !a->quiet && isatty(2);
    uint64_t shown = 0;
    while (read(fds[0], &t, sizeof(t)) == (ssize_t)sizeof(t)) {
        merge(&sum, &t);
        if (sum.failures > 0 && !a->keep_going)
            break;          /* the others are told by the closed pipe */
        if (t.failures > 0) /* one of them: a worker reports each at once */
            print_failure(a, t.failed_seed, &t.failed);
        if (show && clock_now_ns() - shown > 200000000) {
            progress(a, &sum, start);
            shown = clock_now_ns();
        }
    }
    close(fds[0]);
    bool died = false;
    for (uint32_t j = 0; j < a->jobs; j++) {
        int status = 0;
        if (wait(&status) > 0)
            died |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    if (show)
        fputc('\n', stderr);
    double s = (double)(clock_now_ns() - start) / 1e9;
    printf(
        "%llu seeds in %.1f s: %.1f million events (%.2f million/s on each of %u), %llu messages, "
        "%llu leader changes, %llu faults, %llu snapshots, %llu on ofi memory, %llu on tcp memory, "
        "%llu violations\n",
        (unsigned long long)sum.seeds, s, (double)sum.events / 1e6,
        (double)sum.events / 1e6 / s / a->jobs, a->jobs, (unsigned long long)sum.messages,
        (unsigned long long)sum.terms, (unsigned long long)sum.faults,
        (unsigned long long)sum.snapshots, (unsigned long long)sum.over_ofi,
        (unsigned long long)sum.over_tcp, (unsigned long long)sum.failures);
    if (a->durable)
        printf(
            "%llu times a host lost power, %llu disks were exchanged, %llu sectors were flipped, "
            "%llu writes failed, %llu disks had no room, %llu journals were full\n",
            (unsigned long long)sum.power_cuts, (unsigned long long)sum.disks_lost,
            (unsigned long long)sum.sectors_flipped, (unsigned long long)sum.writes_failed,
            (unsigned long long)sum.disks_filled, (unsigned long long)sum.full_journals);
    if (a->protocol->run == run_group)
        print_group(&sum.group);
    if (a->protocol->run == run_bft)
        print_bft(sum.bft);
    else if (a->aim != AIM_NEVER)
        print_aimed(&sum.aimed);
    if (sum.failures > 0 && !a->keep_going)
        print_failure(a, sum.failed_seed, &sum.failed);
    if (died)
        printf("a worker died: run the seeds it had with --jobs 1\n");
    return sum.failures > 0 || died || (sum.seeds < a->seeds && sum.failures == 0) ? CMD_FAILED
                                                                                   : CMD_DONE;
}

/* ---- arguments ---- */

#if TRAM_PLANTED
static const struct {
    const char *name, *protocol, *text;
} bugs[] = {
#define BUG_ROW(name, protocol, text) [PLANTED_##name] = {#name, #protocol, text},
    PLANTED_LIST(BUG_ROW)
#undef BUG_ROW
};

static const char *bug_name(const void *of, uint32_t i)
{
    (void)of;
    return bugs[i + 1].name; /* the first is none */
}

static int plant(const char *name)
{
    for (unsigned i = 1; i < PLANTED_COUNT; i++)
        if (strcmp(name, bugs[i].name) == 0) {
            planted_bug = i;
            return CMD_DONE;
        }
    bool list = strcmp(name, "list") == 0;
    const char *near =
        nearest_name(name, (struct nearest_names){bug_name, NULL, PLANTED_COUNT - 1});
    if (!list)
        fprintf(stderr, "tram sim: there is no planted bug '%s'; %s%sthese are:\n", name,
                near ? near : "", near ? " is near; " : "");
    for (unsigned i = 1; i < PLANTED_COUNT; i++)
        fprintf(list ? stdout : stderr, "%-18s %-8s %s\n", bugs[i].name, bugs[i].protocol,
                bugs[i].text);
    exit(list ? CMD_DONE : CMD_USAGE);
}
#else
static int plant(const char *name)
{
    (void)name;
    return args_bad("sim", "--bug", "only the test program tram-planted has planted bugs");
}
#endif

int cmd_sim(int argc, char **argv)
{
    struct sim_args a = {.seeds = 1000, .first = 1};
    unsigned protocol = 0, memory = RUN_MEMORY_DRAWN, aim = AIM_DRAWN, votes = RUN_VOTES_REPLICAS,
             strategy = HOSTILE_STRATEGIES;
    const char *names[BUGS_ON_MAX];
    struct args_list bugs_on = {.item = names, .max = BUGS_ON_MAX};
    const struct args_option options[] = {
        {"--protocol", "NAME",
         "log: one replicated log; tree: groups in an overlay tree; genuine: destinations only; "
         "group: hosts with views and cells; bft: a log some of whose members lie (default log)",
         .choice = &protocol, .choices = protocol_names, .needs = "the protocols are"},
        {"--seeds", "N", "run N seeds, from --first on (default 1000)", .number = &a.seeds,
         .min = 1, .max = UINT64_C(1) << 40},
        {"--first", "S", "the first seed (default 1)", .number = &a.first, .max = UINT64_MAX},
        {"--seed", "S", "run one seed and print what happens; see --quiet", .number = &a.seed,
         .max = UINT64_MAX, .given = &a.one},
        {"--replicas", "R", "replicas of a group, 1 to 9 (default: drawn from the seed)",
         .number32 = &a.replicas, .min = 1, .max = 9},
        {"--memory", "KIND",
         "shm: memory that is always there; ofi: over connections that break, gone with its "
         "process; tcp: likewise, and its owner judges what lands; drawn: from the seed, shm for "
         "half, ofi and tcp for a quarter each (default drawn)",
         .choice = &memory, .choices = memory_names, .needs = "the kinds of memory are"},
        {"--aim", "WHEN",
         "on: besides the faults that are drawn over time, some are aimed at the middle of steps; "
         "off: none are; drawn: from the seed, half of each (default drawn)",
         .choice = &aim, .choices = aim_names, .needs = "that is"},
        {"--durable", NULL, "hosts have disks, and lose power: one, some or all of them",
         .flag = &a.durable},
        {"--votes", "WHO",
         "memories: groups have members that are only memory, and these vote; all: they and the "
         "replicas vote; drawn: the one or the other, from the seed; replicas: there are no such "
         "members (default replicas)",
         .choice = &votes, .choices = votes_names, .needs = "those who vote are"},
        {"--strategy", "NAME",
         "how members lie, with --protocol bft; none: nobody does (default drawn from the seed); "
         "tram-sim(1) says what each is",
         .choice = &strategy, .choices = strategy_names, .needs = "the strategies are"},
        {"--jobs", "J", "processes to use (default: one per core)", .number32 = &a.jobs, .min = 1,
         .max = 1024},
        {"--keep-going", NULL, "do not stop at the first violation", .flag = &a.keep_going},
        {"--quiet", NULL, "no progress line; with --seed: no trace, only the verdict",
         .flag = &a.quiet},
        {"--bug", "NAME", BUG_HELP, .list = &bugs_on, .needs = "a name; `--bug list`"},
        {0},
    };
    const struct args_command command = {
        .name = "sim",
        .usage = "[OPTIONS]",
        .about = "Runs a protocol in virtual time under faults drawn from seeds, and checks every "
                 "property on every run. The same seed gives the same run, to the byte.",
        .options = options,
        .more = "Exit code: 0 no violation, 1 a property was violated, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    a.protocol = &protocols[protocol];
    a.memory = (enum run_memory)memory;
    a.aim = (enum aim_when)aim;
    a.votes = (enum run_votes)votes;
    a.strategy = (enum hostile_strategy)strategy;
    if (a.strategy != HOSTILE_STRATEGIES && a.protocol->run != run_bft)
        return args_bad("sim", "--strategy", "members lie with --protocol bft alone");
    if (a.protocol->run == run_bft && (a.durable || (a.replicas && a.replicas % 2 == 0)))
        return args_bad("sim", "--protocol", "bft has 3, 5, 7 or 9 replicas, without --durable");
    if (a.votes && (a.protocol->run == run_group || a.protocol->run == run_bft))
        return args_bad("sim", "--votes", "the logs of log, tree and genuine have memories");
    for (int i = 0; i < bugs_on.count; i++) {
        a.bug = bugs_on.item[i];
        code = plant(a.bug);
        if (code != CMD_DONE)
            return code;
    }
    if (a.one)
        return run_one(&a);
    if (a.jobs == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        a.jobs = cores > 0 ? (uint32_t)cores : 1;
    }
    if (a.jobs > a.seeds)
        a.jobs = (uint32_t)a.seeds;
    return run_many(&a);
}
