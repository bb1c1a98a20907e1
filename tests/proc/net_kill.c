/* The hosts of a cluster over tcp, each in a network namespace of its own, and two clients in others: leading
 * hosts are killed and come back, links are cut one way and both ways and heal, hosts and clients are stopped
 * until the sockets to them are full, and links are narrow, slow and lossy. Nothing is lost, nothing twice, one
 * order; and while hosts are dead or links between them cut, everything goes on, after the time that it takes to
 * notice.
 *
 *      net_kill tree|genuine [NAME=TIMES]...     the test, short or with what is named alone: prints TAP
 *
 * The names: kills, cuts, long (cuts), narrow, slow (links), full (sockets).
 */
#include "base/clock.h"
#include "lan.h"
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CLIENT = RIG_HOSTS, /* node of the test itself, */
    OTHER,              /* and of the other client */
    NODES,
    HOSTS_MASK = (1 << RIG_HOSTS) - 1,
    ALL_MASK = (1 << NODES) - 1,
    CUTS_SHORT = 4, /* of a short run */
    LOOKS = 25,     /* at the sockets to a stopped host */
};

#define SUSPECT_NS                                                                                 \
    (60 * MS) /* the default of suspect_ms: a link that is cut shows by silence alone */
#define CUT_NS (5 * SUSPECT_NS) /* long enough for whatever comes of it */
#define LONG_CUT_NS (4000 * MS) /* longer than a connection lives that says nothing */
#define STOP_NS (500 * MS)
#define SHAPE_NS (1000 * MS)

static struct lan lan;

static bool enter(void *ctx, uint32_t n)
{
    (void)ctx;
    return lan_enter(&lan, n < RIG_HOSTS ? n : OTHER);
}

static bool works(bool done)
{
    if (!done)
        printf("# the network: %s\n", lan.why);
    return done;
}

/* ---- cutting ---- */

/* Ways that are cut, for a host and another one. */
enum cut_kind {
    CUT_FROM_HOSTS, /* the host from all others; clients still reach it */
    CUT_PAIR,       /* the two from each other */
    CUT_DUMB,       /* what the host sends to anybody */
    CUT_PAIR_TO,    /* what it sends to the other */
    CUT_OFF,        /* the host from everybody */
    CUT_PAIR_FROM,  /* what the other sends to it */
    CUT_DEAF,       /* what anybody sends to the host */
    CUT_KINDS,
};

static const char *const cut_names[] = {
    [CUT_FROM_HOSTS] = "a host from all others",
    [CUT_PAIR] = "two hosts from each other",
    [CUT_DUMB] = "what a host sends",
    [CUT_PAIR_TO] = "what a host sends to another",
    [CUT_OFF] = "a host from everybody",
    [CUT_PAIR_FROM] = "what another host sends to it",
    [CUT_DEAF] = "what is sent to a host",
};

static bool cut(enum cut_kind kind, uint32_t host, uint32_t other)
{
    uint32_t to[LAN_NODES_MAX] = {0};
    uint32_t far = kind == CUT_FROM_HOSTS ? HOSTS_MASK : ALL_MASK;
    bool pair = kind == CUT_PAIR || kind == CUT_PAIR_TO || kind == CUT_PAIR_FROM;
    if (kind != CUT_DEAF && kind != CUT_PAIR_FROM)
        to[host] = pair ? 1u << other : far;
    for (uint32_t n = 0; n < NODES && kind != CUT_DUMB && kind != CUT_PAIR_TO; n++)
        if (pair ? n == other : far >> n & 1)
            to[n] |= 1u << host;
    return works(lan_cut(&lan, to));
}

/* ---- sockets ---- */

/* What /proc/net/tcp of its namespace says of the connections of a process. */
struct sockets {
    uint64_t waiting; /* bytes that wait, in those to the node that was asked for */
    uint32_t
        repeated; /* connections in which something sent was not acknowledged in time, and is sent again */
};

static struct sockets sockets_of(pid_t pid, uint32_t to)
{
    struct sockets s = {0};
    unsigned a, b, c, d, remote, waiting, repeats;
    char path[64], line[256];
    sscanf(lan.address[to], "%u.%u.%u.%u", &a, &b, &c, &d);
    snprintf(path, sizeof(path), "/proc/%d/net/tcp", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, " %*u: %*x:%*x %x:%*x %*x %x:%*x %*x:%*x %x", &remote, &waiting,
                   &repeats) != 3)
            continue;
        s.waiting += remote == (d << 24 | c << 16 | b << 8 | a) ? waiting : 0;
        s.repeated += repeats > 0;
    }
    if (f)
        fclose(f);
    return s;
}

/* Bytes that wait, at all other hosts, in sockets to this one. */
static uint64_t waiting_for(const struct rig *t, uint32_t host)
{
    uint64_t sum = 0;
    for (uint32_t h = 0; h < RIG_HOSTS; h++)
        sum += h == host ? 0 : sockets_of(t->pid[h], host).waiting;
    return sum;
}

/* After a cut the kernel tries again ever more seldom, for as long again as the cut has lasted. Before the next
 * one everything is to be as it was before the first: the one who leads then may be the one who was cut off. */
static bool connections_are_well(const struct rig *t)
{
    uint32_t repeated = sockets_of(getpid(), CLIENT).repeated;
    for (uint32_t h = 0; h < RIG_HOSTS; h++)
        repeated += sockets_of(t->pid[h], CLIENT).repeated;
    return repeated == 0;
}

static bool healed(struct rig *t)
{
    uint64_t since = clock_now_ns();
    if (!works(lan_heal(&lan)) || !rig_wait_well(t))
        return false;
    hist_add(&t->back, clock_now_ns() - since);
    while (!connections_are_well(t) && clock_now_ns() - since < PATIENCE)
        rig_run_for(t, 5 * MS);
    return rig_wait_well(t);
}

/* Cuts and heals. Every group must answer while it lasts. */
static bool cut_for(struct rig *t, enum cut_kind kind, uint64_t ns)
{
    uint32_t host = rig_leading_host(t, (uint32_t)rng_below(&t->rng, RIG_HOSTS));
    uint32_t other = (host + 1 + (uint32_t)rng_below(&t->rng, RIG_HOSTS - 1)) % RIG_HOSTS;
    rig_fault_begins(t);
    t->lasts = true;
    if (!cut(kind, host, other))
        return false;
    rig_run_for(t, ns);
    t->lasts = false;
    bool over = rig_fault_is_over(t, SUSPECT_NS);
    printf("# cut: %s (h%u, h%u): %.1f ms\n", cut_names[kind], host + 1, other + 1,
           (double)t->group_gap_ns / 1e6);
    return over && healed(t);
}

static bool cut_links(struct rig *t, uint32_t cuts)
{
    /* A short run shows some kinds for one protocol, and the others for the other. */
    uint32_t first = t->opt.protocol == CLUSTER_GENUINE ? CUTS_SHORT - 1 : 0;
    for (uint32_t i = 0; i < cuts; i++) {
        rig_run_for(t, 10 * MS + rng_below(&t->rng, 10 * MS));
        if (!cut_for(t, (first + i) % CUT_KINDS, CUT_NS))
            return false;
    }
    return true;
}

/* Connections that say nothing for seconds are given up, and made again. Clients need the leader of a group, so
 * for them a cut is over when it heals. */
static bool cut_for_long(struct rig *t, uint32_t cuts)
{
    for (uint32_t i = 0; i < cuts; i++) {
        uint32_t to[LAN_NODES_MAX] = {0}, host = rig_leading_host(t, i);
        if (!cut_for(t, i % 2 ? CUT_PAIR : CUT_OFF, LONG_CUT_NS))
            return false;
        to[CLIENT] = 1u << host;
        to[host] = i % 2 ? 0 : 1u << CLIENT;
        if (!works(lan_cut(&lan, to)))
            return false;
        rig_fault_begins(t);
        rig_run_for(t, CUT_NS);
        if (!healed(t) || !rig_fault_is_over(t, 0))
            return false;
    }
    return true;
}

/* ---- stopping ---- */

/* Buffers that a cluster under load fills in milliseconds. */
static bool small_buffers(void)
{
    static const char value[] = "4096 8192 16384";
    bool good = true;
    for (uint32_t n = 0; n < NODES; n++)
        good = good && works(lan_sysctl(&lan, n, "net/ipv4/tcp_rmem", value) &&
                             lan_sysctl(&lan, n, "net/ipv4/tcp_wmem", value));
    return good;
}

static bool stop_host(struct rig *t, uint32_t host)
{
    rig_fault_begins(t);
    kill(t->pid[host], SIGSTOP);
    /* The most of it: a connection to who takes nothing is given up when it has to be told of a promise. */
    uint64_t bytes = 0;
    for (int i = 0; i < LOOKS; i++) {
        rig_run_for(t, STOP_NS / LOOKS);
        uint64_t now = waiting_for(t, host);
        bytes = now > bytes ? now : bytes;
    }
    bool over = rig_fault_is_over(t, SUSPECT_NS);
    kill(t->pid[host], SIGCONT);
    uint64_t continued = clock_now_ns();
    printf("# %llu bytes waited in sockets to h%u\n", (unsigned long long)bytes, host + 1);
    if (bytes == 0)
        printf("# so its socket was not full\n");
    if (!over || bytes == 0 || !rig_wait_well(t))
        return false;
    hist_add(&t->back, clock_now_ns() - continued);
    return true;
}

/* The other client casts as fast as it can, and then takes no answers. */
static bool stop_client(struct rig *t)
{
    rig_start_other(t);
    if (!rig_other_done(t, 500))
        return false;
    rig_fault_begins(t);
    kill(t->other, SIGSTOP);
    rig_run_for(t, STOP_NS);
    bool over = rig_fault_is_over(t, 0);
    kill(t->other, SIGCONT);
    return over && rig_other_done(t, atomic_load(&t->board->client.done) + 500) &&
           rig_other_ends(t);
}

static bool fill_sockets(struct rig *t, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        if (!stop_host(t, rig_leading_host(t, i)) || !stop_client(t))
            return false;
    return true;
}

/* ---- slow and lossy ---- */

static bool shape(const char *qdisc)
{
    bool good = true;
    for (uint32_t n = 0; n < NODES; n++)
        good = good && works(lan_shape(&lan, n, qdisc));
    return good;
}

/* Every group answers meanwhile, and all is well again when it is over. */
static bool shape_for(struct rig *t, const char *qdisc)
{
    uint64_t before = t->done;
    rig_fault_begins(t);
    if (!shape(qdisc))
        return false;
    rig_run_for(t, SHAPE_NS);
    bool over = rig_fault_is_over(t, 0);
    printf("# %s: %llu messages\n", qdisc, (unsigned long long)(t->done - before));
    uint64_t since = clock_now_ns();
    if (!over || !shape(NULL) || !rig_wait_well(t))
        return false;
    hist_add(&t->back, clock_now_ns() - since);
    return true;
}

/* A queue that overflows drops, and a full one delays. */
static bool narrow_links(struct rig *t, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        if (!shape_for(t, "tbf rate 10mbit burst 4kb limit 24kb"))
            return false;
    return true;
}

static bool slow_links(struct rig *t, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        if (!shape_for(t, "netem delay 2ms 1ms loss 1%") ||
            !shape_for(t, "netem delay 20ms loss 0.2% reorder 5%"))
            return false;
    return true;
}

static const char *no_netem(void)
{
    static char why[LAN_WHY_BYTES + 32];
    if (lan_shape(&lan, CLIENT, "netem delay 1ms") && lan_shape(&lan, CLIENT, NULL))
        return NULL;
    snprintf(why, sizeof(why), "no netem on this machine (%s)", lan.why);
    return why;
}

static const char *no_tbf(void)
{
    static char why[LAN_WHY_BYTES + 32];
    if (lan_shape(&lan, CLIENT, "tbf rate 1gbit burst 64kb limit 1mb") &&
        lan_shape(&lan, CLIENT, NULL))
        return NULL;
    snprintf(why, sizeof(why), "no tbf on this machine (%s)", lan.why);
    return why;
}

/* ---- main ---- */

static struct named {
    const char *name;
    struct rig_campaign campaign;
    const char *(*cannot)(void); /* why it cannot be shown on this machine; NULL: it can */
} all[] = {
    {.name = "kills",
     .campaign = {.name = "leading hosts are killed and come back",
                  .run = rig_kill_hosts,
                  .times = 2,
                  .back = "killed host started, back and up to date"}},
    {.name = "cuts",
     .campaign = {.name = "links are cut and heal",
                  .run = cut_links,
                  .times = CUTS_SHORT,
                  .back = "links whole again, and all up to date"}},
    {.name = "long",
     .campaign = {.name =
                      "links are cut for so long that connections end, and clients from leaders",
                  .run = cut_for_long,
                  .times = 1,
                  .back = "links whole again, and all up to date"}},
    {.name = "narrow",
     .campaign = {.name = "links are narrow",
                  .run = narrow_links,
                  .times = 1,
                  .back = "links wide again, and all up to date"},
     .cannot = no_tbf},
    {.name = "slow",
     .campaign = {.name = "links delay and drop",
                  .run = slow_links,
                  .times = 1,
                  .back = "links good again, and all up to date"},
     .cannot = no_netem},
    {.name = "full",
     .campaign = {.name = "hosts and clients take nothing until sockets are full",
                  .prepare = small_buffers, /* for good: this is the last */
                  .run = fill_sockets,
                  .times = 1,
                  .back = "continued host up to date"}},
};
enum { COUNT = sizeof(all) / sizeof(all[0]) };

/* Those that are named, as often as is said; false: there is none of that name. */
static bool choose(int count, char **named)
{
    uint32_t times[COUNT] = {0};
    for (int i = 0; i < count; i++) {
        size_t len = strcspn(named[i], "=");
        uint32_t at = 0;
        while (at < COUNT &&
               (strlen(all[at].name) != len || memcmp(all[at].name, named[i], len) != 0))
            at++;
        if (at == COUNT || named[i][len] == 0)
            return false;
        times[at] = (uint32_t)strtoul(named[i] + len + 1, NULL, 10);
    }
    for (uint32_t i = 0; count > 0 && i < COUNT; i++)
        all[i].campaign.times = times[i];
    return true;
}

static int run(enum cluster_protocol protocol)
{
    struct rig_campaign chosen[COUNT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        if (all[i].campaign.times > 0) {
            chosen[count] = all[i].campaign;
            chosen[count++].skip = all[i].cannot ? all[i].cannot() : NULL;
        }
    struct rig_options o = {.protocol = protocol, .transport = CLUSTER_TCP, .enter = enter};
    for (uint32_t h = 0; h < RIG_HOSTS; h++)
        o.address[h] = lan.address[h];
    char test[32];
    snprintf(test, sizeof(test), "%s_net", cluster_protocol_name(protocol));
    return rig_campaigns(test, chosen, count, &o);
}

int main(int argc, char **argv)
{
    int code;
    if (rig_process(argc, argv, &code))
        return code;
    enum cluster_protocol protocol;
    if (argc < 2 || !rig_protocol(argv[1], &protocol) || !choose(argc - 2, argv + 2)) {
        printf(
            "Bail out! usage: net_kill tree|genuine [kills|cuts|long|narrow|slow|full=TIMES]...\n");
        return 1;
    }
    if (!lan_open(&lan, NODES) || !lan_enter(&lan, CLIENT)) {
        printf("1..0 # SKIP no hosts of their own on this machine: %s\n", lan.why);
        return 0;
    }
    code = run(protocol);
    lan_close(&lan);
    return code;
}
