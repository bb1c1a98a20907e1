/* tram topics: the topics of a cluster file, and who may do what there. */
#include "api/api.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/running.h"

#include <stdio.h>

enum { HOSTS_WIDTH = 24 };

static const char *service_of(const struct cluster_subgroup *s)
{
    static const char *const names[] = {[CLUSTER_MODE_MEMORY] = "atomic",
                                        [CLUSTER_MODE_RAW] = "unordered",
                                        [CLUSTER_MODE_LOGGED] = "logged",
                                        [CLUSTER_MODE_DURABLE] = "durable"};
    return s->history > 0 ? "volatile" : names[s->mode];
}

static void print_hosts(const struct cluster *c, uint64_t hosts, int width)
{
    int wide = 0;
    for (uint32_t h = 0; h < c->hosts; h++)
        if (hosts >> h & 1)
            wide += printf("%s%s", wide ? "," : "", c->host[h].name);
    if (wide == 0)
        wide = printf("-");
    printf("%*s", width > wide ? width - wide : 0, "");
}

static int print(const struct cluster *c)
{
    printf("%-20s %-10s %-*s %s\n", "TOPIC", "SERVICE", HOSTS_WIDTH, "SUBSCRIBERS", "PUBLISHERS");
    for (uint32_t i = 0; i < c->subgroups; i++) {
        const struct cluster_subgroup *s = &c->subgroup[i];
        if (s->shards > 1 && !s->slots) /* no topic */
            continue;
        printf("%-20s %-10s ", s->slots ? "any other name" : s->name, service_of(s));
        print_hosts(c, s->hosts, HOSTS_WIDTH);
        printf(" ");
        print_hosts(c, s->hosts & s->senders, 0);
        printf("\n");
    }
    return fflush(stdout) == 0 ? CMD_DONE : CMD_FAILED;
}

static int start(const struct running_args *a)
{
    struct tram_cluster *cluster = NULL;
    int code = running_load(a, "topics", &cluster);
    if (code == CMD_DONE && cluster->conf->protocol != CLUSTER_GROUP) {
        fprintf(stderr, "tram topics: cluster %s has protocol: %s; topics are of protocol: group\n",
                cluster->conf->name, cluster_protocol_name(cluster->conf->protocol));
        code = CMD_FAILED;
    }
    if (code == CMD_DONE)
        code = print(cluster->conf);
    tram_cluster_free(cluster);
    return code;
}

int cmd_topics(int argc, char **argv)
{
    struct running_args a = {0};
    const struct args_option options[] = {RUNNING_OPTIONS(a), {0}};
    const struct args_command command = {
        .name = "topics",
        .usage = "[OPTIONS]",
        .about =
            "Prints the topics of the cluster file: the subgroups of one shard, their quality of "
            "service, and which hosts may subscribe and publish as members. Clients may do both. "
            "Where the file has slots, a topic of any other name is there once it is used.",
        .options = options,
        .too_many = "no further word is known",
        .more = "Exit code: 0, or 1 if the cluster has none, 2 wrong usage.",
    };
    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&a) : code;
}
