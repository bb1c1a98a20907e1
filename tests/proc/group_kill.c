/* Five members of a group under load, as processes, which are killed, stopped, cut off, leave and come back, as is drawn. What
 * all of them delivered is compared in the end: see group_compare.c. How long it took from a kill to the first delivery in
 * the next view is printed.
 *
 *      group_kill [FAULTS [shm|tcp|net [BUG]]]     the test, with 20 faults by default: prints TAP
 *
 * net: over tcp, with a network namespace for each member, so that they can be cut off. BUG: a planted one, in the build that has them.
 */
#include "group_rig.h"

#include "base/clock.h"
#include "lan.h"
#include "plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 5, KEEPERS = 3 };

static struct lan lan;
static struct grig t = {.hosts = HOSTS};
static struct hist after_kill, after_stop, after_cut, cut_pause, healed, back;

static bool enter(uint32_t host)
{
    return lan_enter(&lan, host);
}

/* ---- faults: each leaves all of them there, and well ---- */

static uint32_t other_than(uint32_t h)
{
    return (h + 1 + (uint32_t)rng_below(&t.rng, HOSTS - 1)) % HOSTS;
}

/* The view that most are in, as one who is not `h` sees it. */
static uint32_t view_without(uint32_t h)
{
    return grig_vid(&t, (h + 1) % HOSTS);
}

static bool come_back(uint32_t h)
{
    uint64_t since = clock_now_ns();
    grig_start(&t, h);
    bool good = grig_well(&t);
    hist_add(&back, clock_now_ns() - since);
    return good;
}

static bool fault_kill(uint32_t h)
{
    uint32_t vid = view_without(h);
    uint64_t since = clock_now_ns();
    grig_kill(&t, h);
    bool good = grig_well(&t);
    grig_gaps(&t, since, vid, &after_kill);
    return good && come_back(h);
}

/* The next life comes before the others have gone on without the last. */
static bool fault_restart(uint32_t h)
{
    grig_kill(&t, h);
    return come_back(h);
}

/* A second one while the view changes; not two keepers, whose majority has to live. */
static bool fault_two(uint32_t h)
{
    uint32_t other = other_than(h);
    if (h < KEEPERS && other < KEEPERS)
        other = KEEPERS;
    grig_kill(&t, h);
    grig_sleep(rng_below(&t.rng, 6 * GRIG_MS));
    grig_kill(&t, other);
    if (!grig_well(&t))
        return false;
    grig_start(&t, h);
    return come_back(other);
}

/* It is killed again on its way in, and another one is while it comes. */
static bool fault_on_the_way(uint32_t h)
{
    uint32_t other = other_than(h);
    if (h < KEEPERS && other < KEEPERS)
        other = KEEPERS;
    grig_kill(&t, h);
    grig_start(&t, h);
    grig_sleep(rng_below(&t.rng, 60 * GRIG_MS));
    grig_kill(&t, h);
    if (rng_below(&t.rng, 2) == 0) {
        grig_start(&t, h);
        grig_sleep(rng_below(&t.rng, 60 * GRIG_MS));
        grig_kill(&t, other);
        return come_back(other);
    }
    return grig_well(&t) && come_back(h);
}

static bool fault_stop(uint32_t h)
{
    uint32_t vid = view_without(h);
    uint64_t since = clock_now_ns();
    grig_stop(&t, h);
    grig_sleep(50 * GRIG_MS + rng_below(&t.rng, 200 * GRIG_MS));
    grig_continue(&t, h);
    bool good = grig_well(&t);
    grig_gaps(&t, since, vid, &after_stop);
    return good;
}

static bool fault_leave(uint32_t h)
{
    return grig_leave(&t, h) && grig_well(&t) && come_back(h);
}

/* Cut off from all others, or from one of them. */
static bool fault_cut(uint32_t h)
{
    uint32_t to[LAN_NODES_MAX] = {0}, vid = view_without(h), other = other_than(h);
    uint64_t since = clock_now_ns();
    bool pair = rng_below(&t.rng, 3) == 0;
    for (uint32_t n = 0; n < HOSTS; n++)
        if (n != h && (!pair || n == other)) {
            to[n] |= 1u << h;
            to[h] |= 1u << n;
        }
    if (!lan_cut(&lan, to)) {
        printf("# the network: %s\n", lan.why);
        return false;
    }
    grig_pause_begin(&t);
    grig_sleep(100 * GRIG_MS + rng_below(&t.rng, 300 * GRIG_MS));
    bool good = lan_heal(&lan);
    uint64_t heal = clock_now_ns();
    good = good && grig_well(&t);
    if (pair)
        return good;
    grig_gaps(&t, since, vid, &after_cut);
    grig_pauses(&t, h, &cut_pause);
    hist_add(&healed, clock_now_ns() - heal);
    return good;
}

static const struct fault {
    const char *name;
    bool (*run)(uint32_t host);
    uint32_t weight;
    bool net; /* needs namespaces */
} faults[] = {
    {"kill", fault_kill, 5, false},    {"restart", fault_restart, 2, false},
    {"kill two", fault_two, 2, false}, {"kill on the way in", fault_on_the_way, 2, false},
    {"stop", fault_stop, 3, false},    {"leave", fault_leave, 3, false},
    {"cut", fault_cut, 5, true},
};

static const struct fault *draw(bool net)
{
    uint64_t sum = 0, at;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sum += net || !faults[i].net ? faults[i].weight : 0;
    at = rng_below(&t.rng, sum);
    for (size_t i = 0;; i++) {
        uint64_t weight = net || !faults[i].net ? faults[i].weight : 0;
        if (at < weight)
            return &faults[i];
        at -= weight;
    }
}

/* ---- the test ---- */

static bool campaign(uint32_t times, bool net)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        grig_start(&t, h);
    if (!grig_well(&t))
        return false;
    for (uint32_t i = 0; i < times; i++) {
        const struct fault *f = draw(net);
        uint32_t h = (uint32_t)rng_below(&t.rng, HOSTS);
        if (t.say)
            printf("# %u: %s, h%u, view %u\n", i, f->name, h + 1, view_without(h));
        if (!f->run(h)) {
            printf("# fault %u failed: %s, h%u\n", i, f->name, h + 1);
            return false;
        }
        grig_sleep(rng_below(&t.rng, 20 * GRIG_MS));
    }
    printf("# %u faults, %u processes, %u views\n", times, t.lives, grig_vid(&t, 0));
    return grig_settled(&t);
}

static void print_hist(const char *what, struct hist *h)
{
    if (hist_count(h) > 0)
        printf("# %s: p50 %.1f ms, p90 %.1f ms, most %.1f ms, of %llu\n", what,
               (double)hist_quantile(h, 0.5) / 1e6, (double)hist_quantile(h, 0.9) / 1e6,
               (double)hist_max(h) / 1e6, (unsigned long long)hist_count(h));
}

static bool open_net(void)
{
    if (!lan_open(&lan, HOSTS)) {
        printf("1..0 # SKIP no hosts of their own on this machine: %s\n", lan.why);
        return false;
    }
    for (uint32_t h = 0; h < HOSTS; h++)
        t.address[h] = lan.address[h];
    t.enter = enter;
    return true;
}

int main(int argc, char **argv)
{
    uint32_t times = argc > 1 ? (uint32_t)atoi(argv[1]) : 20;
    const char *way = argc > 2 ? argv[2] : "shm";
    bool net = strcmp(way, "net") == 0;
    t.transport = strcmp(way, "shm") == 0 ? CLUSTER_SHM : CLUSTER_TCP;
    t.say = getenv("RIG_SAY") != NULL;
    hist_init(&after_kill);
    hist_init(&after_stop);
    hist_init(&after_cut);
    hist_init(&cut_pause);
    hist_init(&healed);
    hist_init(&back);
    if (argc > 3 && !plant(argv[3])) {
        printf("Bail out! there is no planted bug %s in this build\n", argv[3]);
        return 1;
    }
    if (net && !open_net())
        return 0;
    if (!grig_open(&t)) {
        printf("Bail out! no cluster\n");
        return 1;
    }
    bool well = campaign(times, net);
    print_hist("from a kill to the first delivery in the next view", &after_kill);
    print_hist("from a stop to that (suspect_ms is 60)", &after_stop);
    print_hist("from a cut to that (likewise)", &after_cut);
    print_hist("the longest that the others delivered nothing, till it was back", &cut_pause);
    print_hist("from the end of a cut until all are back", &healed);
    print_hist("started, let in, and with all states", &back);
    printf("%sok 1 - group_kill__%s_all_go_on\n", well ? "" : "not ", way);
    grig_kill_all(&t);
    bool same = grig_check(&t);
    printf("%sok 2 - group_kill__%s_what_was_delivered_agrees\n", same ? "" : "not ", way);
    bool judged = grig_check_traces(&t);
    printf("%sok 3 - group_kill__%s_its_traces_pass_the_check\n1..3\n", judged ? "" : "not ", way);
    grig_close(&t);
    if (net)
        lan_close(&lan);
    return well && same && judged ? 0 : 1;
}
