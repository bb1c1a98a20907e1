/* tram format: makes the directories in which the hosts of a durable cluster keep what they have.
 *
 * A directory is made on purpose. One that is empty because its disk was lost must not pass for a new one: the host would
 * promise and accept again what it had promised and accepted otherwise. So whatever can be known of a host's lives is asked
 * for first. */
#include "api/api.h"
#include "api/disk.h"
#include "cli/cmd.h"
#include "cli/known_lives.h"
#include "conf/value.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

struct format_args {
    struct running_args running;
    struct args_list hosts; /* none: those of this machine */
    bool rejoin;
    uint32_t life; /* 0: not given */
};

static const char *host_name(const struct tram_cluster *c, uint32_t host)
{
    return c->conf->host[host].name;
}

static int complain(const struct tram_cluster *c, uint32_t host, const char *text)
{
    fprintf(stderr, "tram format: %s: %s\n", host_name(c, host), text);
    return CMD_FAILED;
}

/* The journal grows to its size later, and a host whose disk is full then keeps nothing. */
static void warn_of_room(const struct tram_cluster *c, const char *dir)
{
    struct statvfs fs;
    uint64_t room;

    if (!c->conf->durable || statvfs(dir, &fs) != 0)
        return;
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room < c->conf->disk_bytes)
        fprintf(stderr,
                "tram format: warning: %s has room for %s, and a host's journal takes up to %s "
                "(disk_bytes), snapshots not counted\n",
                dir, value_size_about(room).s, value_size_about(c->conf->disk_bytes).s);
}

static int make(const struct tram_cluster *c, uint32_t host, uint32_t life)
{
    char dir[1024];
    struct err e = {""};
    int rc = api_disk_format(c, host, life, &e);

    if (rc == 0)
        rc = api_disk_path(c, host, dir, sizeof dir, &e);
    if (rc == ERR_CORRUPT) {
        fprintf(stderr,
                "tram format: %s: %s. Nothing is changed; move the directory away, then `tram "
                "format --rejoin %s` makes a new one\n",
                host_name(c, host), e.text, host_name(c, host));
        return CMD_FAILED;
    }
    if (rc < 0)
        return complain(c, host, e.text);
    warn_of_room(c, dir);
    if (life > 0)
        printf("made %s for host %s, which rejoins in life %u\n", dir, host_name(c, host), life);
    else
        printf("made %s for host %s\n", dir, host_name(c, host));
    return CMD_DONE;
}

/* ---- new hosts ---- */

/* Not if anybody knows that it has lived. */
static int make_new(const struct format_args *a, const struct running *r, uint32_t host)
{
    struct known_lives k;
    struct err e = {""};

    if (api_disk_whose(r->cluster, host, &e) == ERR_NOTFOUND) {
        known_lives_of(r, host, &k);
        if (k.lives > 0) {
            fprintf(stderr,
                    "tram format: %s: the other hosts know that it has lived before (%u times): "
                    "if its disk was lost, `tram format --rejoin %s -c %s`\n",
                    host_name(r->cluster, host), k.lives, host_name(r->cluster, host),
                    running_file(&a->running));
            return CMD_FAILED;
        }
    }
    return make(r->cluster, host, 0);
}

/* Those of this machine: all of them, or none. */
static int make_all(const struct running *r)
{
    const struct tram_cluster *c = r->cluster;
    uint32_t here = 0, there = 0;
    int missing = CLUSTER_NONE, code = CMD_DONE;
    struct err e = {""};

    for (uint32_t h = 0; h < c->conf->hosts; h++) {
        if (r->host[h].elsewhere)
            continue;
        here++;
        if (api_disk_whose(c, h, &e) != ERR_NOTFOUND)
            there++;
        else if (missing == CLUSTER_NONE)
            missing = (int)h;
    }
    if (here == 0) {
        fprintf(stderr,
                "tram format: no host of cluster '%s' has an address of this machine; name "
                "the hosts\n",
                c->conf->name);
        return CMD_FAILED;
    }
    if (there > 0 && there < here) {
        fprintf(stderr,
                "tram format: %s has no directory, and other hosts of this machine have: `tram "
                "format %s` if it is new, `tram format --rejoin %s` if its disk was lost\n",
                host_name(c, (uint32_t)missing), host_name(c, (uint32_t)missing),
                host_name(c, (uint32_t)missing));
        return CMD_FAILED;
    }
    for (uint32_t h = 0; h < c->conf->hosts && code == CMD_DONE; h++)
        if (!r->host[h].elsewhere)
            code = make(c, h, 0);
    return code;
}

/* ---- hosts that come back ---- */

static int rejoin_life(const struct format_args *a, const struct running *r, uint32_t host,
                       uint32_t *life)
{
    const char *name = host_name(r->cluster, host);
    struct known_lives k;

    known_lives_of(r, host, &k);
    if (a->life > 0 && a->life < k.lives) {
        fprintf(stderr,
                "tram format: %s: --life %u: it has lived %u times already; at least %u, or "
                "nothing\n",
                name, a->life, k.lives, k.lives);
        return CMD_FAILED;
    }
    if (a->life == 0 && k.unheard[0] != '\0') {
        fprintf(stderr, "tram format: %s: how often it has lived cannot be known for sure: %s. ",
                name, k.unheard);
        if (k.heard > 0)
            fprintf(stderr, "The others know of %u lives. ", k.lives);
        fprintf(stderr, "Start these hosts first, or give --life N with an N that is higher than "
                        "any life it has had\n");
        return CMD_FAILED;
    }
    if (k.short_of[0] != '\0') {
        fprintf(stderr,
                "tram format: %s: %s: of these groups no majority is known to have what it had, "
                "without %s itself (have it, of)%s\n",
                a->life ? "warning" : name, k.short_of, name,
                a->life ? "" : ". Bring the others back first, or give --life N all the same");
        if (a->life == 0)
            return CMD_FAILED;
    }
    *life = a->life ? a->life : k.lives ? k.lives : 1;
    return CMD_DONE;
}

static int rejoin(const struct format_args *a, const struct running *r, uint32_t host)
{
    char dir[1024] = "";
    struct err e = {""};
    uint32_t life;
    int rc = api_disk_whose(r->cluster, host, &e);

    if (rc == 0 && api_disk_path(r->cluster, host, dir, sizeof dir, &e) == 0) {
        fprintf(stderr,
                "tram format: %s: %s has what it keeps, and is not touched; to give that up, move "
                "the directory away first\n",
                host_name(r->cluster, host), dir);
        return CMD_FAILED;
    }
    if (rc != ERR_NOTFOUND) {
        fprintf(stderr, "tram format: %s: %s. Nothing is changed; %s\n",
                host_name(r->cluster, host), e.text,
                rc == ERR_EXISTS ? "it is running" : "move the directory away first");
        return CMD_FAILED;
    }
    int code = rejoin_life(a, r, host, &life);
    return code == CMD_DONE ? make(r->cluster, host, life) : code;
}

/* ---- all of it ---- */

static int format_named(const struct format_args *a, const struct running *r)
{
    const struct tram_cluster *c = r->cluster;
    int code = CMD_DONE;

    for (int i = 0; i < a->hosts.count; i++)
        if (cluster_host(c->conf, a->hosts.item[i]) < 0) {
            fprintf(stderr, "tram format: there is no host '%s' in %s; %s\n", a->hosts.item[i],
                    running_file(&a->running), cluster_hosts_near(c->conf, a->hosts.item[i]).s);
            return CMD_USAGE;
        }
    for (int i = 0; i < a->hosts.count && code == CMD_DONE; i++) {
        uint32_t host = (uint32_t)cluster_host(c->conf, a->hosts.item[i]);
        code = a->rejoin ? rejoin(a, r, host) : make_new(a, r, host);
    }
    return code;
}

static int format(const struct format_args *a)
{
    struct tram_cluster *c;
    struct running r = {0};

    int code = running_load(&a->running, "format", &c);
    if (code != CMD_DONE)
        return code;
    if (!cluster_has_disks(c->conf)) {
        fprintf(stderr,
                "tram format: %s is not durable: its hosts keep nothing. `tram init %s` writes a "
                "file for one that is\n",
                running_file(&a->running),
                c->conf->protocol == CLUSTER_GROUP ? "--protocol group --mode durable"
                                                   : "--durable");
        tram_cluster_free(c);
        return CMD_FAILED;
    }
    code = running_open(&r, c, "format");
    if (code == CMD_DONE)
        code = a->hosts.count > 0 ? format_named(a, &r) : make_all(&r);
    running_close(&r);
    tram_cluster_free(c);
    return code;
}

int cmd_format(int argc, char **argv)
{
    const char *names[CLUSTER_HOSTS_MAX];
    struct format_args a = {.hosts = {.item = names, .max = CLUSTER_HOSTS_MAX}};
    const struct args_word words[] = {{0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--rejoin", NULL, "its disk was lost, and the others have what it had", .flag = &a.rejoin},
        {"--life", "N", "with --rejoin: a life that it has not had, if the others cannot be asked",
         .number32 = &a.life, .min = 1, .max = UINT32_MAX - 1},
        {0},
    };
    const struct args_command command = {
        .name = "format",
        .usage = "[HOST]... [OPTIONS]",
        .about =
            "Makes the directories in which hosts of a durable cluster keep what they have: those "
            "of the hosts named, or of all that have an address of this machine. Once, when the "
            "cluster is set up; what is there is never touched. A host whose disk was lost is no "
            "new one: --rejoin makes its directory in a life that it has not had, and it gets its "
            "data from the others.",
        .options = options,
        .words = words,
        .rest = &a.hosts,
        .too_many = "more hosts than a cluster can have",
        .more = "Exit code: 0 made, 1 not made, 2 wrong usage.",
    };
    int code = args_read(&command, argc, argv);

    if (code != ARGS_GO)
        return code;
    if (a.rejoin && a.hosts.count == 0)
        return args_bad("format", "--rejoin", "which host?");
    if (a.life > 0 && !a.rejoin)
        return args_bad("format", "--life", "it is for --rejoin");
    if (a.life > 0 && a.hosts.count > 1)
        return args_bad("format", "--life", "it is for one host");
    return format(&a);
}
