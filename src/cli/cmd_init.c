/* tram init: writes a cluster file to begin with. */
#include "api/secret.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/conf.h"
#include "conf/value.h"
#include "mcast/overlay.h"
#include "mem/ofi/ofi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    MEMORY_AIM =
        1 << 30, /* with more groups than fit at the default sizes, smaller ones are written */
    PAYLOAD_LEAST = 1 << 10,
    RING_LEAST = 16 << 10,
};

struct init_args {
    const char *file;
    struct cluster_plan plan;
    enum overlay_shape shape;
    bool force;
    bool durable;
    bool of_votes;
    bool of_groups, of_group; /* an option was given that is for groups, or for protocol group */
};

/* ---- writing ---- */

static int write_to_stream(FILE *f, const char *path, const struct cluster *c)
{
    struct err e = {0};

    if (cluster_write(f, c, &e) == 0)
        return CMD_DONE;
    fprintf(stderr, "tram init: %s: %s\n", path, e.text);
    return CMD_FAILED;
}

static int write_to_file(const struct init_args *a, const struct cluster *c)
{
    int fd = open(a->file, O_WRONLY | O_CREAT | O_CLOEXEC | (a->force ? O_TRUNC : O_EXCL), 0666);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (f == NULL && errno == EEXIST) {
        fprintf(stderr, "tram init: %s exists; name another file, or replace it with --force\n",
                a->file);
        return CMD_FAILED;
    }
    if (f == NULL) {
        fprintf(stderr, "tram init: %s: %s%s\n", a->file, strerror(errno),
                errno == ENOENT ? "; make the directory first" : "");
        if (fd >= 0)
            close(fd);
        return CMD_FAILED;
    }
    int code = write_to_stream(f, a->file, c);
    if (fclose(f) != 0 && code == CMD_DONE) {
        fprintf(stderr, "tram init: %s: %s\n", a->file, strerror(errno));
        code = CMD_FAILED;
    }
    if (code != CMD_DONE && !a->force)
        unlink(a->file); /* half a file would be in the way of the next try */
    return code;
}

/* Sizes at which many groups do not take more memory than a machine has: every ring is there from the
 * start, however idle its group is. They are written into the file, where they can be changed. */
static void choose_sizes(struct cluster *c)
{
    while (c->protocol == CLUSTER_GROUP && cluster_memory(c) > MEMORY_AIM &&
           c->subgroup[0].ring_bytes > RING_LEAST)
        for (uint32_t i = 0; i < c->subgroups; i++) {
            c->subgroup[i].ring_bytes /= 2;
            c->subgroup[i].message_max /= 2;
        }
    if (c->protocol == CLUSTER_GROUP)
        return;
    while (cluster_memory(c) > MEMORY_AIM && c->payload_max > PAYLOAD_LEAST) {
        c->payload_max /= 2;
        c->log_bytes /= 2;
        c->batch_bytes /= 2;
        c->window_bytes /= 2;
        c->snap_bytes /= 2;
        c->source_bytes /= 2;
        c->edge_bytes /= 2;
    }
    if (c->batch_bytes < 4 << 10)
        c->batch_bytes = 4 << 10; /* the least that the file may have */
}

/* ---- keys ---- */

/* Written into the file, so that who reads it knows that there is one to copy. */
static void name_key(const struct init_args *a, struct cluster *c)
{
    struct err e = {0};
    char path[CLUSTER_DIR_BYTES];

    if (c->transport != CLUSTER_VERBS || cluster_key_path(c, a->file, path, sizeof path, &e) < 0)
        return;
    const char *slash = strrchr(path, '/');
    snprintf(c->key, sizeof c->key, "%s", slash != NULL ? slash + 1 : path);
}

/* Under verbs machines prove to each other that they have the same key. One that is there is kept: other machines may
 * have it. */
static int make_shared_key(const struct init_args *a, const struct cluster *c)
{
    struct err e = {0};
    char path[512];

    int rc = cluster_key_path(c, a->file, path, sizeof path, &e);
    if (rc == 0)
        rc = ofi_key_make(path, &e);
    if (rc < 0 && rc != ERR_EXISTS) {
        fprintf(stderr, "tram init: %s\n", e.text);
        return CMD_FAILED;
    }
    printf(
        "%s the cluster's key, %s: every machine of the cluster needs a copy that only its owner "
        "can read\n",
        rc == 0 ? "made" : "kept", path);
    return CMD_DONE;
}

/* Under tcp everybody has a key: all secret ones are made here, and go to their machines from here. */
static int make_keys(const struct init_args *a, struct cluster *c)
{
    struct err e = {0};
    char dir[512];

    int made = api_keys_make(c, a->file, &e);
    int rc = cluster_path(c, a->file, CLUSTER_PATH_KEYS_DIR, NULL, dir, sizeof dir, &e);
    if (made < 0 || rc < 0) {
        fprintf(stderr, "tram init: %s\n", e.text);
        return CMD_FAILED;
    }
    printf(
        "%s the secret keys of %u host%s and of client '%s' in %s: a machine needs %s and only the"
        " keys of what runs there, like %s/%s.key for host %s and %s/%s.key for clients\n",
        made > 0 ? "made" : "kept", c->hosts, c->hosts > 1 ? "s" : "", c->client_key[0].name, dir,
        a->file, dir, c->host[0].name, c->host[0].name, dir, c->client_key[0].name);
    return CMD_DONE;
}

/* What there has to be before the file is written, which names the public keys. */
static int make_key(const struct init_args *a, struct cluster *c)
{
    if (c->transport == CLUSTER_SHM)
        return CMD_DONE;
    if (!a->force && access(a->file, F_OK) == 0)
        return CMD_DONE; /* it is not going to be written, and writing says so */
    name_key(a, c);
    return c->transport == CLUSTER_TCP ? make_keys(a, c) : make_shared_key(a, c);
}

/* ---- the whole ---- */

/* Loads what was written as any other command will: it prints the warnings with their lines. */
static int read_back(const struct init_args *a)
{
    const struct cluster_plan *p = &a->plan;
    char memories[32] = "";
    struct cluster *c;

    if (p->memories > 0)
        snprintf(memories, sizeof(memories), " and %u memor%s", p->memories,
                 p->memories > 1 ? "ies" : "y");
    int code = conf_load_or_complain(a->file, &c);
    if (code != CMD_DONE)
        return CMD_FAILED;
    if (c->protocol == CLUSTER_GROUP)
        printf("wrote %s: cluster '%s', %u subgroup%s of %u shard%s on %u host%s, transport %s,"
               " protocol group\n",
               a->file, c->name, p->subgroups, p->subgroups > 1 ? "s" : "", p->shards,
               p->shards > 1 ? "s" : "", p->hosts, p->hosts > 1 ? "s" : "",
               cluster_transport_name(p->transport));
    else
        printf("wrote %s: cluster '%s', %u group%s of %u replica%s%s on %u host%s, tree '%s', "
               "transport %s, protocol %s\n",
               a->file, c->name, p->groups, p->groups > 1 ? "s" : "", p->replicas,
               p->replicas > 1 ? "s" : "", memories, p->hosts, p->hosts > 1 ? "s" : "",
               overlay_shape_name(a->shape), cluster_transport_name(p->transport),
               cluster_protocol_name(p->protocol));
    printf(
        "it takes %s of memory%s, for messages of up to %s\n",
        value_size_about(cluster_memory(c)).s,
        c->transport == CLUSTER_SHM ? "" : " on all machines together",
        value_size_shown(c->protocol == CLUSTER_GROUP ? c->subgroup[0].message_max : c->payload_max)
            .s);
    cluster_free(c);
    return CMD_DONE;
}

static int init(struct init_args *a)
{
    uint16_t parent[CLUSTER_GROUPS_MAX];
    char name[CLUSTER_NAME_BYTES];
    bool to_stdout = strcmp(a->file, "-") == 0;
    const struct cluster_plan *p = &a->plan;
    struct err e = {0};
    struct cluster *c;

    if (a->plan.name == NULL) {
        cluster_name_from_file(to_stdout ? "cluster.yaml" : a->file, name);
        a->plan.name = name;
    }
    unsigned char id[CLUSTER_ID_BYTES];
    bool kept = p->mode == CLUSTER_MODE_LOGGED || p->mode == CLUSTER_MODE_DURABLE;
    if ((a->durable || kept) && getrandom(id, sizeof id, 0) != sizeof id) {
        fprintf(stderr, "tram init: no source of random numbers: %s\n", strerror(errno));
        return CMD_FAILED;
    }
    a->plan.id = a->durable || kept ? id : NULL;
    overlay_shape_fill(a->shape, a->plan.groups, parent);
    a->plan.parent = parent;
    int rc = cluster_make(&a->plan, &c, &e);
    if (rc < 0) {
        fprintf(stderr, "tram init: %s\n", e.text);
        return rc == ERR_INVALID ? CMD_USAGE : CMD_FAILED;
    }
    choose_sizes(c);
    int code = to_stdout ? CMD_DONE : make_key(a, c);
    if (code == CMD_DONE)
        code = to_stdout ? write_to_stream(stdout, "standard output", c) : write_to_file(a, c);
    if (code == CMD_DONE && to_stdout && c->transport == CLUSTER_TCP)
        fprintf(stderr,
                "tram init: the file has no keys yet; `tram key new FILE --all` makes them\n");
    cluster_free(c);
    return code == CMD_DONE && !to_stdout ? read_back(a) : code;
}

int cmd_init(int argc, char **argv)
{
    struct init_args a = {.plan = {.groups = 8, .replicas = 3, .subgroups = 1, .shards = 1}};
    struct cluster_plan *p = &a.plan;
    unsigned mode = CLUSTER_MODE_MEMORY;
    unsigned votes = 0;
    static const char *const votes_names[] = {"memories", "all", NULL};
    unsigned shape = OVERLAY_breadth, transport = p->transport, protocol = p->protocol;
    const struct args_word words[] = {{"FILE", &a.file, NULL}, {0}};
    const struct args_option options[] = {
        {"--groups", "N", "groups, 1 to 1024 (default 8)", .number32 = &p->groups, .min = 1,
         .max = CLUSTER_GROUPS_MAX, .given = &a.of_groups},
        {"--replicas", "R", "replicas of each group, 1 to 9 (default 3)", .number32 = &p->replicas,
         .min = 1, .max = CLUSTER_REPLICAS_MAX, .given = &a.of_groups},
        {"--hosts", "H",
         "host processes, R to 128 (default 3, or R if that is more); under protocol group S to 64",
         .number32 = &p->hosts, .min = 1, .max = CLUSTER_HOSTS_MAX},
        {"--memories", "N",
         "hosts m1, m2, ... that are only memory of all groups, 1 to 9 (default none)",
         .number32 = &p->memories, .min = 1, .max = CLUSTER_MEMORIES_MAX, .given = &a.of_groups},
        {"--votes", "WHO",
         "with --memories: memories (default), they alone vote; all, the replicas as well",
         .choice = &votes, .choices = votes_names, .needs = "it needs one of",
         .given = &a.of_votes},
        {"--tree", "SHAPE",
         "breadth: all groups below the first (default)\n"
         "base: one group below the root, and two below each other group\n"
         "depth: a chain",
         .choice = &shape, .choices = overlay_shape_names, .needs = "the trees are"},
        {"--transport", "T", "shm (default), tcp, verbs", .choice = &transport,
         .choices = cluster_transport_names, .needs = "it needs one of"},
        {"--subgroups", "K", "under protocol group: subgroups, 1 to 256 (default 1)",
         .number32 = &p->subgroups, .min = 1, .max = CLUSTER_CELLS_MAX, .given = &a.of_group},
        {"--shards", "S", "and shards of each, of which no two share a host (default 1)",
         .number32 = &p->shards, .min = 1, .max = CLUSTER_CELLS_MAX, .given = &a.of_group},
        {"--mode", "M", "and their mode: memory (default), raw, logged, durable (docs/groups.md)",
         .choice = &mode, .choices = cluster_mode_names, .needs = "it needs one of",
         .given = &a.of_group},
        {"--protocol", "P", "tree (default), genuine, group", .choice = &protocol,
         .choices = cluster_protocol_names, .needs = "it needs one of"},
        {"--name", "NAME", "of the cluster (default: FILE without folder and .yaml)",
         .text = &p->name, .needs = "a name"},
        {"--durable", NULL,
         "what is answered is on the disks of a majority, and survives power cuts",
         .flag = &a.durable},
        {"--force", NULL, "replace FILE if it exists", .flag = &a.force},
        {0},
    };
    const struct args_command command = {
        .name = "init",
        .usage = "[FILE] [OPTIONS]",
        .about =
            "Writes a commented cluster file for this machine (cluster.yaml if no FILE is "
            "named, standard output if it is `-`). Hosts are called h1, h2, ..., groups g1, "
            "g2, ...; the leaders spread over the hosts. With more groups than fit into 1 GiB at "
            "the default sizes it writes smaller ones. Under protocol group there are subgroups "
            "s1, "
            "s2, ... instead, and all hosts may be in each.",
        .options = options,
        .words = words,
        .too_many = "a second file; it writes one",
        .more = "Exit code: 0 written, 1 not written, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    a.shape = (enum overlay_shape)shape;
    p->transport = (enum cluster_transport)transport;
    p->protocol = (enum cluster_protocol)protocol;
    p->mode = (enum cluster_mode)mode;
    if (a.file == NULL)
        a.file = "cluster.yaml";
    if (a.of_groups && p->protocol == CLUSTER_GROUP)
        return args_bad("init", "--protocol",
                        "under group there are no groups and replicas, but --subgroups and"
                        " --shards");
    if (a.of_group && p->protocol != CLUSTER_GROUP)
        return args_bad("init", "--subgroups", "it is for --protocol group, as --shards is");
    uint32_t hosts_least = p->protocol == CLUSTER_GROUP ? p->shards : p->replicas;
    if (a.of_votes && p->memories == 0)
        return args_bad("init", "--votes", "it is for groups with --memories");
    p->all_vote = votes == 1;
    if (p->hosts == 0) /* memories are there to spare hosts */
        p->hosts = hosts_least > 3 || p->memories > 0 ? hosts_least : 3;
    return init(&a);
}
