#include "bench/durable.h"
#include "bench/topic.h"
#include "cli/bench_options.h"
#include "cli/cmd.h"
#include "conf/value.h"

#include <stdio.h>
#include <string.h>

enum { CLIENTS = 8, SIM_CLIENTS = 32 };
enum { REPLICAS = 3, REPLICAS_BESIDE_MEMORIES = 2, MEMORIES = 3 };
enum { VOTES_MEMORIES = 1, VOTES_ALL };
enum { COMPARE_SECONDS = 120, QUICK_SECONDS = 15 };

static const char *const stage_names[] = {"send", "receive", "deliver", "ack", NULL};

bool bench_simulated(const struct bench_options *o)
{
    return o->bench.transport == BENCH_SIM;
}

bool bench_networked(const struct bench_args *a)
{
    return a->transport == BENCH_TCP || a->transport == BENCH_VERBS;
}

static int check_transport(struct bench_options *o)
{
    struct bench_args *a = &o->bench;
    if (o->network && !bench_networked(a))
        return args_bad("bench", o->network, "goes with --transport tcp or verbs");
    if (!bench_simulated(o) && o->simulated)
        return args_bad("bench", o->simulated, "goes with --transport sim");
    if (a->clear && a->transport != BENCH_TCP)
        return args_bad("bench", "--clear", "goes with --transport tcp");
    if (bench_networked(a) && (o->compare || a->layout == BENCH_SINGLE))
        return args_bad("bench", o->compare ? "--compare" : "--layout",
                        o->compare ? "goes with --transport shm or sim"
                                   : "over a network hosts and clients need a thread each");
    if (bench_networked(a) && o->protocol_given && !a->mcast)
        return args_bad("bench", "--transport", "over a network there are tree and genuine");
    a->mcast |= bench_networked(a);
    if (!bench_simulated(o))
        return CMD_DONE;
    if (o->real)
        return args_bad("bench", o->real, "--transport sim has no use for it");
    if (o->protocol_given && !a->mcast)
        return args_bad("bench", "--transport", "sim has the protocols tree and genuine");
    bool one = o->protocol_given || o->groups_given || o->single;
    if (o->check_model && one && !o->compare)
        return args_bad("bench", "--check-model", "goes alone or with --compare");
    o->compare |= !one && !o->check_model;
    a->mcast = true;
    return CMD_DONE;
}

/* "64,1k,10k": sizes as in a cluster file. */
static int read_sizes(struct bench_options *o)
{
    struct group_args *g = &o->group;
    char text[128], *rest = text;

    g->size[0] = o->bench.payload;
    g->sizes = 1;
    if (o->sizes == NULL)
        return CMD_DONE;
    snprintf(text, sizeof text, "%s", o->sizes);
    g->sizes = 0;
    for (char *word; (word = strsep(&rest, ",")) != NULL; g->sizes++) {
        uint64_t size;
        if (g->sizes == GROUP_SIZES_MAX || !value_size(word, &size) || size < 1 ||
            size > GROUP_SIZE_MAX)
            return args_bad("bench", "--size",
                            "it needs 1 to 8 sizes from 1 to 16M with commas between them, like"
                            " 64,1k,10k");
        g->size[g->sizes] = (uint32_t)size;
    }
    return CMD_DONE;
}

static int read_stages(struct bench_options *o)
{
    for (int i = 0; i < o->stages.count; i++) {
        unsigned at = 0;
        while (stage_names[at] && strcmp(stage_names[at], o->stages.item[i]) != 0)
            at++;
        if (stage_names[at] == NULL)
            return args_bad("bench", "--no-batch", "the stages are send, receive, deliver, ack");
        o->group.unbatched |= 1u << at; /* as BATCH_SEND, BATCH_RECEIVE, ... */
    }
    return CMD_DONE;
}

int bench_options_check_group(struct bench_options *o)
{
    const struct bench_args *a = &o->bench;
    struct group_args *g = &o->group;

    if (o->topic && (!o->is_group || o->of_group || o->compare || o->layout_given))
        return args_bad("bench", "--topic",
                        "goes with --protocol group, and besides with --transport, --address,"
                        " --clear, --payload, --seconds and --json alone");
    if (o->topic && (a->payload < TOPIC_SIZE_LEAST || a->payload > TOPIC_SIZE_MOST))
        return args_bad("bench", "--payload", "24 to 16384 with --topic");
    if (!o->is_group)
        return o->of_group ? args_bad("bench", "--protocol",
                                      "--members, --senders, --size, --subgroups, --active, --mode,"
                                      " --delay-us, --one-sends, --touch, --no-batch, --no-nulls "
                                      "and --bare go with"
                                      " --protocol group")
                           : CMD_DONE;
    if (o->durable || o->groups_given || a->transport == BENCH_SIM || a->layout == BENCH_SINGLE)
        return args_bad("bench", "--protocol",
                        "group has no use for --durable, --groups, --transport sim and"
                        " --layout single");
    if (o->compare && o->of_group)
        return args_bad("bench", "--compare",
                        "the cases of --protocol group are laid down: it goes with --seconds,"
                        " --report and --json alone");
    static const enum cell_mode modes[] = {CELL_MEMORY, CELL_RAW, CELL_LOGGED, CELL_DURABLE};
    g->transport = a->transport;
    g->address = a->address;
    g->clear = a->clear;
    g->procs = o->layout_given ? a->layout == BENCH_PROCS : a->transport != BENCH_SHM;
    g->senders = (enum group_senders)o->senders;
    g->active_all = o->active == 1;
    g->mode = modes[o->mode];
    g->dir = o->dir;
    g->seconds = a->seconds ? a->seconds : BENCH_SECONDS;
    int rc = read_sizes(o);
    return rc == CMD_DONE ? read_stages(o) : rc;
}

static int check_durable(const struct bench_options *o)
{
    const struct bench_args *a = &o->bench;
    if (o->dir && !o->durable && !(o->of_group && o->mode >= 2))
        return args_bad("bench", "--dir", "goes with --durable, and with --mode logged or durable");
    if (!o->durable)
        return CMD_DONE;
    if (a->transport != BENCH_SHM)
        return args_bad("bench", "--durable", "goes with --transport shm");
    if (o->protocol_given && !a->mcast)
        return args_bad("bench", "--durable", "goes with the protocols tree and genuine");
    if (o->compare || o->layout_given || o->dst_given)
        return args_bad("bench",
                        o->compare        ? "--compare"
                        : o->layout_given ? "--layout"
                                          : "--dst",
                        "--durable has no use for it");
    if (a->payload > DURABLE_PAYLOAD_MAX)
        return args_bad("bench", "--payload", "at most 16384 with --durable");
    return CMD_DONE;
}

static int check_votes(struct bench_options *o)
{
    struct bench_args *a = &o->bench;
    if (a->replicas == 0)
        a->replicas = o->votes ? REPLICAS_BESIDE_MEMORIES : REPLICAS;
    if (!o->votes)
        return a->memories > 0 ? args_bad("bench", "--memories", "goes with --votes") : CMD_DONE;
    if (a->mcast || o->is_group || o->compare || o->durable || a->transport != BENCH_SHM)
        return args_bad("bench", "--votes", "goes with --protocol log on shared memory");
    a->all_vote = o->votes == VOTES_ALL;
    if (a->memories == 0)
        a->memories = a->all_vote ? 1 : MEMORIES;
    if (a->memories + (a->all_vote ? a->replicas : 0) > LOG_REPLICAS_MAX)
        return args_bad("bench", "--memories", "so many replicas as would vote are too many");
    return CMD_DONE;
}

int bench_options_check(struct bench_options *o)
{
    struct bench_args *a = &o->bench;
    if (a->log_bytes & (a->log_bytes - 1))
        return args_bad("bench", "--log-bytes", "needs a power of two");
    int rc = check_votes(o);
    if (rc == CMD_DONE)
        rc = check_durable(o);
    if (rc == CMD_DONE)
        rc = check_transport(o);
    if (rc != CMD_DONE)
        return rc;
    a->mcast |= o->durable;
    if (o->compare && o->single)
        return args_bad("bench", o->single, "--compare measures them all");
    if (!o->compare && (o->quick || o->report))
        return args_bad("bench", o->quick ? "--quick" : "--report", "goes with --compare");
    if (o->report && o->report[0] == '\0')
        return args_bad("bench", "--report", "it needs a directory");
    if (a->clients == 0)
        a->clients = bench_simulated(o) ? SIM_CLIENTS : CLIENTS;
    if (a->seconds == 0)
        a->seconds = !o->compare ? BENCH_SECONDS : o->quick ? QUICK_SECONDS : COMPARE_SECONDS;
    if (!a->mcast && !o->compare)
        return CMD_DONE;
    if (a->hosts == 0)
        a->hosts = a->replicas > 3 ? a->replicas : 3;
    if (a->hosts < a->replicas)
        return args_bad("bench", "--hosts", "each replica of a group needs a host of its own");
    if (a->dst > a->groups)
        return args_bad("bench", "--dst", "there are not that many groups");
    return CMD_DONE;
}
