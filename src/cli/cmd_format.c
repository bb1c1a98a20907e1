/* tram format: makes the directories in which the hosts of a durable cluster keep what they have. */
#include "api/api.h"
#include "api/disk.h"
#include "cli/cmd.h"
#include "cli/running.h"

#include <stdio.h>

struct format_args {
    struct running_args running;
    const char *host; /* NULL: all */
    bool all;
    bool rejoin;
    uint32_t life;
};

static int format_host(const struct format_args *a, const struct tram_cluster *c, uint32_t host)
{
    char dir[1024];
    struct err e = {""};
    int rc = api_disk_path(c, host, dir, sizeof(dir), &e);
    if (rc == 0)
        rc = api_disk_format(c, host, a->rejoin ? a->life : 0, &e);
    if (rc < 0) {
        fprintf(stderr, "tram format: %s, %s: %s\n", c->conf->host[host].name, dir, e.text);
        return CMD_FAILED;
    }
    printf("made %s for host %s\n", dir, c->conf->host[host].name);
    return CMD_DONE;
}

static int format(const struct format_args *a)
{
    struct tram_cluster *c;
    int code = running_load(&a->running, "format", &c);
    if (code != CMD_DONE)
        return code;
    int one = a->host ? cluster_host(c->conf, a->host) : CLUSTER_NONE;
    if (!c->conf->durable) {
        fprintf(stderr, "tram format: %s is not durable: its hosts keep nothing\n",
                running_file(&a->running));
        code = CMD_FAILED;
    } else if (a->host && one < 0) {
        fprintf(stderr, "tram format: there is no host '%s' in %s; %s\n", a->host,
                running_file(&a->running), cluster_hosts_near(c->conf, a->host).s);
        code = CMD_USAGE;
    } else if (one >= 0) {
        code = format_host(a, c, (uint32_t)one);
    } else {
        for (uint32_t h = 0; h < c->conf->hosts && code == CMD_DONE; h++)
            code = format_host(a, c, h);
    }
    tram_cluster_free(c);
    return code;
}

int cmd_format(int argc, char **argv)
{
    struct format_args a = {0};
    const struct args_word words[] = {{"HOST", &a.host, NULL}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--rejoin", NULL, "its disk was lost: the others have what it had", .flag = &a.rejoin},
        {"--life", "N", "with --rejoin: a life that it has not had", .number32 = &a.life, .min = 1,
         .max = UINT32_MAX - 1},
        {0},
    };
    const struct args_command command = {
        .name = "format",
        .usage = "[HOST] [OPTIONS]",
        .about =
            "Makes the directories in which hosts of a durable cluster keep what they have: that "
            "of HOST, or of all. What is there stays.",
        .options = options,
        .words = words,
        .too_many = "a second host",
        .more = "Exit code: 0 made, 1 not made, 2 wrong usage.",
    };
    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? format(&a) : code;
}
