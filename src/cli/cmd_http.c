/* tram http: what `tram status` shows, for browsers and Prometheus, until it is stopped. */
#include "api/api.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/http.h"
#include "cli/running.h"
#include "conf/value.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { PORT = 9464 };

struct http_args {
    struct running_args running;
    const char *host;
    const char *listen;
};

/* The address to listen at: what was asked for, else the host's of the file, else the usual one. */
static int address_of(const struct http_args *a, const struct tram_cluster *c,
                      struct http_options *o, char *name, size_t bytes)
{
    const struct cluster_host *h = o->host < 0 ? NULL : &c->conf->host[o->host];

    *o = (struct http_options){.address = "127.0.0.1", .port = PORT, .host = o->host};
    if (a->listen) {
        const char *wrong = value_address(a->listen, name, bytes, &o->port);
        if (wrong != NULL) {
            char text[256];
            snprintf(text, sizeof text, "'%s' %s; write it like 127.0.0.1:%d", a->listen, wrong,
                     PORT);
            return args_bad("http", "--listen", text);
        }
        o->address = name;
    } else if (h && h->http_port != 0) {
        o->address = h->http;
        o->port = h->http_port;
    }
    return CMD_DONE;
}

static void wait_for_signal(void)
{
    sigset_t ends;
    int number;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    sigwait(&ends, &number);
}

static int serve(const struct http_args *a, const struct tram_cluster *c)
{
    struct http_options o = {.host = a->host ? tram_cluster_host(c, a->host) : -1};
    char name[CLUSTER_ADDRESS_BYTES];
    struct err e = {""};

    if (a->host && o.host < 0) {
        fprintf(stderr, "tram http: there is no host '%s' in %s; %s\n", a->host,
                running_file(&a->running), cluster_hosts_near(c->conf, a->host).s);
        return CMD_USAGE;
    }
    int code = address_of(a, c, &o, name, sizeof name);
    if (code != CMD_DONE)
        return code;
    struct http *h = http_open(c, &o, &e);
    if (h == NULL) {
        fprintf(stderr, "tram http: %s\n", e.text);
        return CMD_FAILED;
    }
    bool six = strchr(o.address, ':') != NULL;
    printf("http://%s%s%s:%u/\n", six ? "[" : "", o.address, six ? "]" : "", o.port);
    fflush(stdout);
    wait_for_signal();
    http_close(h);
    return CMD_DONE;
}

int cmd_http(int argc, char **argv)
{
    struct http_args a = {0};
    struct tram_cluster *c;
    const struct args_word words[] = {{"HOST", &a.host, NULL}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--listen", "ADDRESS", "HOST:PORT (default: the host's `http`, else 127.0.0.1:9464)",
         .text = &a.listen, .needs = "an address"},
        {0},
    };
    const struct args_command command = {
        .name = "http",
        .usage = "[HOST] [OPTIONS]",
        .about =
            "Serves what `tram status` shows over HTTP until SIGINT or SIGTERM: / is a page for "
            "browsers, /metrics is for Prometheus, /health answers 200 or 503, /status.json is "
            "`tram status --json`, /history.json what changed in the last hour. With HOST, "
            "/health is that host's. `tram host` does the same by itself for a host with `http` "
            "in the cluster file; this is for hosts that are programs of your own, and for "
            "machines without one. Nothing can be changed through it.",
        .options = options,
        .words = words,
        .too_many = "a second host",
        .more = "Exit code: 0 stopped, 1 it could not listen, 2 wrong usage.",
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    code = running_load(&a.running, "http", &c);
    if (code != CMD_DONE)
        return code;
    code = serve(&a, c);
    tram_cluster_free(c);
    return code;
}
