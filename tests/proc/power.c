/* A durable cluster under load loses power, all of it or some of its hosts, again and again: at any moment, in recovery too, with
 * a random part of what was not flushed gone and sectors torn. Disks are lost, one at a time, and damaged. Nothing that was answered
 * is lost, nothing delivered twice, and delivery number n of a group is the same message in every life of every replica. And hosts are
 * stopped in any order and started in any order: everything is there.
 *
 *      power tree|genuine [cuts=N] [stops=N] [seed=S] [transport=shm|tcp] [runtime=kept] [bug=NAME]      prints TAP
 *
 * The seed decides what is done, not how the processes run meanwhile. */
#include "power.h"

#include "base/clock.h"
#include "plant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHECK_EVERY = 100,  /* cuts; all of it is read every time */
    KILLED_OPENING = 6, /* one of so many hosts that start */
};

#define PROGRESS_NS (10000 * MS)
#define OPENING_NS (15 * MS)

/* ---- drawing ---- */

enum harm { HARM_NONE, HARM_DAMAGE, HARM_LOSS };

/* A loss of power, as drawn. */
struct cut {
    uint32_t hosts; /* that are killed */
    uint32_t
        off; /* of these: whose disks lose what was not flushed; the others' processes are killed, no more */
    bool early;      /* does not wait until the cluster serves again */
    uint64_t run_ns; /* before it */
    enum harm harm;  /* to the disk of one more */
    uint32_t victim;
};

struct tally {
    uint32_t all, one, two, early, damaged, lost;
    struct hist back; /* started to serving clients again */
    uint64_t started_ns;
    uint64_t wait_ns, cut_ns; /* where the time goes: until it serves, and down */
};

static bool one_in(struct rng *rng, uint32_t n)
{
    return rng_below(rng, n) == 0;
}

static uint32_t draw_hosts(struct rng *rng)
{
    uint32_t one = UINT32_C(1) << rng_below(rng, POWER_HOSTS);
    switch (rng_below(rng, 10)) {
    case 0:
    case 1:
        return one;
    case 2:
        return POWER_ALL & ~one;
    default:
        return POWER_ALL;
    }
}

/* Often at once, seldom long. */
static uint64_t draw_pause(struct rng *rng)
{
    uint64_t most = one_in(rng, 10) ? 150 * MS : one_in(rng, 2) ? 20 * MS : 0;
    return most ? rng_below(rng, most) : 0;
}

static struct cut draw_cut(struct power *t)
{
    struct rng *rng = &t->rng;
    struct cut c = {.hosts = draw_hosts(rng)};
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        c.off |= (uint32_t)!one_in(rng, 8) << h;
    c.off &= c.hosts;
    c.early = one_in(rng, 4);
    c.run_ns = rng_below(rng, c.early ? 60 * MS : 30 * MS);
    c.victim = (uint32_t)rng_below(rng, POWER_HOSTS);
    uint64_t harm = rng_below(rng, 16);
    if (harm < 3 && c.hosts >> c.victim & 1)
        c.harm = harm == 0 ? HARM_LOSS : HARM_DAMAGE;
    return c;
}

/* ---- a loss of power ---- */

/* One in some is killed while it opens, and begins again: what memory it has by then is not that of a life that took part. */
static bool start_host(struct power *t, uint32_t host)
{
    power_start_host(t, host);
    if (!one_in(&t->rng, KILLED_OPENING))
        return true;
    if (!power_run_for(t, rng_below(&t->rng, OPENING_NS)))
        return false;
    power_kill_hosts(t, UINT32_C(1) << host);
    if (one_in(&t->rng, 2) && !power_cut(t, host))
        return false;
    power_start_host(t, host);
    return true;
}

/* Starts hosts in any order, with any pause between. */
static bool start_hosts(struct power *t, uint32_t hosts)
{
    uint32_t order[POWER_HOSTS] = {0, 1, 2};
    for (uint32_t i = POWER_HOSTS - 1; i > 0; i--) {
        uint32_t k = (uint32_t)rng_below(&t->rng, i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (uint32_t i = 0; i < POWER_HOSTS; i++)
        if (hosts >> order[i] & 1) {
            if (!start_host(t, order[i]) || !power_run_for(t, draw_pause(&t->rng)))
                return false;
        }
    return true;
}

/* With all of them down it can be seen whether each has everything. */
static bool others_are_whole(struct power *t, uint32_t victim)
{
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        if (h != victim && !power_is_whole(t, h))
            return false;
    return true;
}

/* One disk at a time: f is 1. */
static bool do_harm(struct power *t, const struct cut *c, struct tally *n)
{
    bool all = c->hosts == POWER_ALL;
    if (all && !t->sound)
        t->sound = others_are_whole(t, POWER_HOSTS);
    if (c->harm == HARM_NONE || !(t->sound || (all && others_are_whole(t, c->victim))))
        return true;
    n->damaged += c->harm == HARM_DAMAGE;
    n->lost += c->harm == HARM_LOSS;
    return c->harm == HARM_LOSS ? power_lose(t, c->victim) : power_damage(t, c->victim);
}

static bool wait_for_moment(struct power *t, const struct cut *c, struct tally *n)
{
    uint64_t started = clock_now_ns();
    /* Where others live on, they have to have everything. */
    bool needs_all = c->harm != HARM_NONE && c->hosts != POWER_ALL;
    if (!c->early || needs_all) {
        if (!power_wait_served(t) || (needs_all && !power_wait_well(t)))
            return false;
        hist_add(&n->back, clock_now_ns() - n->started_ns);
    }
    n->wait_ns += clock_now_ns() - started;
    return power_run_for(t, c->run_ns);
}

/* Among what the hosts say: who looks for a cause needs to know both. */
static void note_cut(const struct power *t, const struct cut *c)
{
    FILE *f = fopen(t->log, "ae");
    if (f == NULL)
        return;
    fprintf(f, "# hosts %x lose power, disks of %x%s", c->hosts, c->off, c->early ? ", early" : "");
    if (c->harm != HARM_NONE)
        fprintf(f, "; the disk of h%u may be %s", c->victim + 1,
                c->harm == HARM_LOSS ? "lost" : "damaged");
    fprintf(f, "; starts so far %u %u %u\n", t->starts[0], t->starts[1], t->starts[2]);
    fclose(f);
}

static bool cut_once(struct power *t, struct tally *n)
{
    struct cut c = draw_cut(t);
    bool all = c.hosts == POWER_ALL;
    if (!wait_for_moment(t, &c, n))
        return false;
    note_cut(t, &c);
    uint64_t down = clock_now_ns();
    power_kill_hosts(t, c.hosts);
    if (all)
        power_kill_clients(t);
    for (uint32_t h = 0; h < POWER_HOSTS; h++)
        if (c.off >> h & 1 && !power_cut(t, h))
            return false;
    if ((all && !power_reboot(t)) || !do_harm(t, &c, n))
        return false;
    n->all += all;
    n->one += (c.hosts & (c.hosts - 1)) == 0;
    n->two += !all && (c.hosts & (c.hosts - 1)) != 0;
    n->early += c.early;
    n->cut_ns += clock_now_ns() - down;
    if (one_in(&t->rng, 2))
        power_start_clients(t);
    power_mark(t);
    n->started_ns = clock_now_ns();
    bool good = start_hosts(t, c.hosts);
    power_start_clients(t);
    return good;
}

static bool loses_power(struct power *t, uint32_t cuts, struct tally *n)
{
    uint64_t began = clock_now_ns(), said = began;
    uint32_t checked = 0;
    power_mark(t);
    n->started_ns = began;
    if (!start_hosts(t, POWER_ALL))
        return false;
    power_start_clients(t);
    for (uint32_t i = 0; i < cuts; i++) {
        if (!cut_once(t, n)) {
            printf("# at cut %u of seed %" PRIu64 "\n", i + 1, t->opt.seed);
            return false;
        }
        uint64_t now = clock_now_ns();
        if (now - said > PROGRESS_NS) {
            printf("# %u of %u cuts, %.1f s\n", i + 1, cuts, (double)(now - began) / 1e9);
            fflush(stdout);
            said = now;
        }
        if (i + 1 - checked < CHECK_EVERY || i + 1 == cuts)
            continue;
        checked = i + 1;
        power_kill_hosts(t, POWER_ALL);
        power_kill_clients(t);
        if (!power_reboot(t) || !power_check_traces(t, false) || !start_hosts(t, POWER_ALL))
            return false;
        power_start_clients(t);
    }
    return power_come_to_rest(t) && power_stop_hosts(t);
}

static void print_tally(const struct tally *n, uint32_t cuts)
{
    printf("# cut off: all %u, one %u, two %u; before they served again %u; a disk damaged %u, "
           "lost %u\n",
           n->all, n->one, n->two, n->early, n->damaged, n->lost);
    if (hist_count(&n->back) > 0)
        printf("# started and serving again: median %.0f, p90 %.0f, max %.0f ms (%llu)\n",
               (double)hist_quantile(&n->back, 0.5) / 1e6,
               (double)hist_quantile(&n->back, 0.9) / 1e6, (double)hist_max(&n->back) / 1e6,
               (unsigned long long)hist_count(&n->back));
    printf("# of each cut: %.0f ms until it served, %.0f ms off\n",
           (double)n->wait_ns / 1e6 / (cuts + !cuts), (double)n->cut_ns / 1e6 / (cuts + !cuts));
}

static bool cuts_case(struct power *t)
{
    struct tally n = {0};
    hist_init(&n.back);
    bool good = loses_power(t, t->opt.cuts, &n);
    print_tally(&n, t->opt.cuts);
    printf("# %u clients had to come again: from before all hosts were there, or a disk was lost\n",
           t->refused);
    return good;
}

/* ---- stops ---- */

struct sums {
    uint64_t count[POWER_GROUPS], hash[POWER_GROUPS];
};

static struct sums sums_of(const struct power *t)
{
    struct sums s;
    for (uint32_t g = 0; g < POWER_GROUPS; g++) {
        s.count[g] = atomic_load(&t->board->host[0].group[g].count);
        s.hash[g] = atomic_load(&t->board->host[0].group[g].hash);
    }
    return s;
}

/* All of them, or a few, one after the other. */
static bool stop_some(struct power *t, uint32_t hosts)
{
    uint32_t first = (uint32_t)rng_below(&t->rng, POWER_HOSTS);
    bool back = one_in(&t->rng, 2);
    for (uint32_t i = 0; i < POWER_HOSTS; i++) {
        uint32_t h = (first + (back ? POWER_HOSTS - i : i)) % POWER_HOSTS;
        if (!(hosts >> h & 1))
            continue;
        if (!power_stop_host(t, h) || !power_run_for(t, draw_pause(&t->rng)))
            return false;
    }
    return true;
}

/* At rest, so that it can be seen that everything is there afterwards, before anybody asks. */
static bool stops_at_rest(struct power *t)
{
    if (!power_come_to_rest(t))
        return false;
    struct sums before = sums_of(t);
    if (!stop_some(t, POWER_ALL) || !start_hosts(t, POWER_ALL) || !power_wait_quiet(t))
        return false;
    struct sums after = sums_of(t);
    if (memcmp(&before, &after, sizeof(before)) == 0)
        return true;
    printf("# states are not what they were\n");
    return false;
}

/* Under load; with all hosts gone clients are, too. */
static bool stops_under_load(struct power *t)
{
    uint32_t hosts = draw_hosts(&t->rng);
    if (!power_wait_served(t) || !power_wait_well(t))
        return false;
    if (hosts == POWER_ALL)
        power_kill_clients(t);
    power_mark(t);
    return stop_some(t, hosts) && start_hosts(t, hosts);
}

static bool stops_case(struct power *t)
{
    power_mark(t);
    if (!start_hosts(t, POWER_ALL))
        return false;
    power_start_clients(t);
    for (uint32_t i = 0; i < t->opt.stops; i++) {
        bool rest = i % 2 == 0;
        if (!(rest ? stops_at_rest(t) : stops_under_load(t))) {
            printf("# at stop %u\n", i + 1);
            return false;
        }
        if (rest)
            power_mark(t);
        power_start_clients(t);
    }
    return power_come_to_rest(t) && power_stop_hosts(t);
}

/* ---- the program ---- */

static bool run_case(const struct power_options *o, const char *name, bool (*body)(struct power *),
                     uint32_t times, uint32_t number)
{
    struct power t = {.opt = *o};
    uint64_t began = clock_now_ns();
    rng_init(&t.rng, o->seed);
    bool good = power_open(&t) && body(&t) && power_check_traces(&t, true);
    good = power_close(&t, good);
    printf("# %.1f s\n%s %u - power__%s (%s, %s, %u times, seed %" PRIu64 ")\n",
           (double)(clock_now_ns() - began) / 1e9, good ? "ok" : "not ok", number, name,
           cluster_protocol_name(o->protocol), cluster_transport_name(o->transport), times,
           o->seed);
    fflush(stdout);
    return good;
}

static bool read_protocol(const char *word, enum cluster_protocol *out)
{
    for (unsigned i = 0; cluster_protocol_names[i]; i++)
        if (strcmp(cluster_protocol_names[i], word) == 0) {
            *out = (enum cluster_protocol)i;
            return true;
        }
    return false;
}

static bool read_option(const char *word, struct power_options *o)
{
    if (strncmp(word, "cuts=", 5) == 0)
        o->cuts = (uint32_t)atoi(word + 5);
    else if (strncmp(word, "stops=", 6) == 0)
        o->stops = (uint32_t)atoi(word + 6);
    else if (strncmp(word, "seed=", 5) == 0)
        o->seed = strtoull(word + 5, NULL, 10);
    else if (strcmp(word, "transport=tcp") == 0)
        o->transport = CLUSTER_TCP;
    else if (strcmp(word, "runtime=kept") == 0)
        o->keep_runtime = true;
    else if (strncmp(word, "bug=", 4) == 0)
        return o->planted = true, plant(word + 4);
    else
        return strcmp(word, "transport=shm") == 0;
    return true;
}

int main(int argc, char **argv)
{
    struct power_options o = {.seed = clock_now_ns() % 1000000, .cuts = 50, .stops = 6};
    bool good = argc > 1 && read_protocol(argv[1], &o.protocol);
    for (int i = 2; i < argc && good; i++)
        good = read_option(argv[i], &o);
    if (!good) {
        printf("Bail out! usage: power tree|genuine [cuts=N] [stops=N] [seed=S] "
               "[transport=shm|tcp] [runtime=kept] [bug=NAME]\n");
        return 1;
    }
    uint32_t cases = 0;
    if (o.cuts > 0)
        good &= run_case(&o, "nothing_answered_is_lost_with_the_power", cuts_case, o.cuts, ++cases);
    if (o.stops > 0)
        good &= run_case(&o, "what_was_stopped_in_any_order_is_there_again", stops_case, o.stops,
                         ++cases);
    printf("1..%u\n", cases);
    return good ? 0 : 1;
}
