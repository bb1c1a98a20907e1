/* tram init: writes a cluster file to begin with. */
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/conf.h"
#include "mcast/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: tram init [FILE] [OPTIONS]\n"
    "\n"
    "Writes a commented cluster file for this machine (cluster.yaml if no FILE is named, standard\n"
    "output if it is `-`). Hosts are called h1, h2, ..., groups g1, g2, ...; the leaders spread "
    "over\n"
    "the hosts.\n"
    "\n"
    "  --groups N        groups, 1 to 1024 (default 8)\n"
    "  --replicas R      replicas of each group, 1 to 9 (default 3)\n"
    "  --hosts H         host processes, R to 128 (default 3, or R if that is more)\n"
    "  --tree SHAPE      breadth: all groups below the first (default)\n"
    "                    base: one group below the root, and two below each other group\n"
    "                    depth: a chain\n"
    "  --transport T     shm (default), tcp, verbs\n"
    "  --protocol P      tree (default), genuine\n"
    "  --name NAME       of the cluster (default: FILE without folder and .yaml)\n"
    "  --force           replace FILE if it exists\n"
    "\n"
    "Exit code: 0 written, 1 not written, 2 wrong usage.\n";

struct init_args {
    const char *file;
    struct cluster_plan plan;
    enum overlay_shape shape;
    bool force;
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
        fprintf(stderr, "tram init: %s: %s\n", a->file, strerror(errno));
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

/* Loads what was written as any other command will: it prints the warnings with their lines. */
static int read_back(const struct init_args *a)
{
    const struct cluster_plan *p = &a->plan;
    struct cluster *c;

    int code = conf_load_or_complain(a->file, &c);
    if (code != CMD_DONE)
        return CMD_FAILED;
    printf("wrote %s: cluster '%s', %u group%s of %u replica%s on %u host%s, tree '%s', transport"
           " %s, protocol %s\n",
           a->file, c->name, p->groups, p->groups > 1 ? "s" : "", p->replicas,
           p->replicas > 1 ? "s" : "", p->hosts, p->hosts > 1 ? "s" : "",
           overlay_shape_name(a->shape), cluster_transport_name(p->transport),
           cluster_protocol_name(p->protocol));
    cluster_free(c);
    return CMD_DONE;
}

static int init(struct init_args *a)
{
    uint16_t parent[CLUSTER_GROUPS_MAX];
    char name[CLUSTER_NAME_BYTES];
    bool to_stdout = strcmp(a->file, "-") == 0;
    struct err e = {0};
    struct cluster *c;

    if (a->plan.name == NULL) {
        cluster_name_from_file(to_stdout ? "cluster.yaml" : a->file, name);
        a->plan.name = name;
    }
    overlay_shape_fill(a->shape, a->plan.groups, parent);
    a->plan.parent = parent;
    int rc = cluster_make(&a->plan, &c, &e);
    if (rc < 0) {
        fprintf(stderr, "tram init: %s\n", e.text);
        return rc == ERR_INVALID ? CMD_USAGE : CMD_FAILED;
    }
    int code = to_stdout ? write_to_stream(stdout, "standard output", c) : write_to_file(a, c);
    cluster_free(c);
    return code == CMD_DONE && !to_stdout ? read_back(a) : code;
}

/* ---- arguments ---- */

static int take_number(const char *option, const char *value, uint64_t most, uint32_t *out)
{
    uint64_t v = 0;

    int code = args_number("init", option, value, 1, most, &v);
    *out = (uint32_t)v;
    return code;
}

/* An option that has a value. */
static int take_option(struct init_args *a, const char *option, const char *value)
{
    struct cluster_plan *p = &a->plan;
    struct err e = {0};

    if (strcmp(option, "--groups") == 0)
        return take_number(option, value, CLUSTER_GROUPS_MAX, &p->groups);
    if (strcmp(option, "--replicas") == 0)
        return take_number(option, value, CLUSTER_REPLICAS_MAX, &p->replicas);
    if (strcmp(option, "--hosts") == 0)
        return take_number(option, value, CLUSTER_HOSTS_MAX, &p->hosts);
    if (strcmp(option, "--tree") == 0) {
        int shape = overlay_shape_find(value ? value : "", &e);
        if (shape < 0)
            return args_bad("init", option, e.text);
        a->shape = (enum overlay_shape)shape;
        return CMD_DONE;
    }
    if (strcmp(option, "--transport") == 0)
        return cluster_transport_named(value ? value : "", &p->transport)
                   ? CMD_DONE
                   : args_bad("init", option, "it needs one of shm, tcp, verbs");
    if (strcmp(option, "--protocol") == 0)
        return cluster_protocol_named(value ? value : "", &p->protocol)
                   ? CMD_DONE
                   : args_bad("init", option, "it needs one of tree, genuine");
    if (strcmp(option, "--name") == 0) {
        p->name = value;
        return value ? CMD_DONE : args_bad("init", option, "it needs a name");
    }
    return args_unknown("init", option);
}

int cmd_init(int argc, char **argv)
{
    struct init_args a = {.shape = OVERLAY_breadth, .plan = {.groups = 8, .replicas = 3}};

    for (int i = 1; i < argc; i++) {
        if (args_is_help(argv[i])) {
            fputs(usage, stdout);
            return CMD_DONE;
        }
        if (strcmp(argv[i], "--force") == 0) {
            a.force = true;
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            int code = take_option(&a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            if (code != CMD_DONE)
                return code;
            i++;
        } else if (a.file != NULL) {
            return args_bad("init", argv[i], "a second file; it writes one");
        } else {
            a.file = argv[i];
        }
    }
    if (a.file == NULL)
        a.file = "cluster.yaml";
    if (a.plan.hosts == 0)
        a.plan.hosts = a.plan.replicas > 3 ? a.plan.replicas : 3;
    return init(&a);
}
