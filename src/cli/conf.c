#include "cli/conf.h"

#include "cli/cmd.h"
#include "conf/value.h"

static void print_warnings(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->warnings && i < CLUSTER_WARNINGS_MAX; i++)
        fprintf(stderr, "%s\n", c->warning[i]);
    if (c->warnings > CLUSTER_WARNINGS_MAX)
        fprintf(stderr, "and %u more warnings\n", c->warnings - CLUSTER_WARNINGS_MAX);
}

int conf_load_or_complain(const char *path, struct cluster **out)
{
    struct err e = {0};

    int rc = cluster_load(path, out, &e);
    if (rc < 0) {
        fprintf(stderr, "%s\n", e.text);
        return rc == ERR_NOTFOUND ? CMD_USAGE : CMD_FAILED;
    }
    print_warnings(*out);
    return CMD_DONE;
}

static void say_group(const char *path, const struct cluster *c)
{
    printf("%s: correct; cluster '%s': %u subgroup%s with %u cell%s on %u host%s, %u keeper%s,"
           " transport %s, protocol group; it takes %s of memory%s\n",
           path, c->name, c->subgroups, c->subgroups > 1 ? "s" : "", cluster_cells(c),
           cluster_cells(c) > 1 ? "s" : "", c->hosts, c->hosts > 1 ? "s" : "", c->keepers,
           c->keepers > 1 ? "s" : "", cluster_transport_name(c->transport),
           value_size_about(cluster_memory(c)).s,
           c->transport == CLUSTER_SHM ? "" : " on all machines together");
}

int conf_check_only(const char *path)
{
    struct cluster *c;
    uint32_t replicas = 0;

    int code = conf_load_or_complain(path, &c);
    if (code != CMD_DONE)
        return code;
    if (c->protocol == CLUSTER_GROUP) {
        say_group(path, c);
        cluster_free(c);
        return CMD_DONE;
    }
    for (uint32_t i = 0; i < c->groups; i++)
        replicas += c->group[i].replicas;
    printf("%s: correct; cluster '%s': %u groups with %u replicas on %u hosts, transport %s,"
           " protocol %s; it takes %s of memory%s, and each client up to %s\n",
           path, c->name, c->groups, replicas, c->hosts, cluster_transport_name(c->transport),
           cluster_protocol_name(c->protocol), value_size_about(cluster_memory(c)).s,
           c->transport == CLUSTER_SHM ? "" : " on all machines together",
           value_size_about(cluster_memory_client(c)).s);
    cluster_free(c);
    return CMD_DONE;
}
