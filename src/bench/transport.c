#include "bench/transport.h"

#include "base/clock.h"
#include "mem/ofi/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TRIPS = 400,        /* of a turn: hosts are not polled meanwhile, and must not be missed */
    WRITES = 4000,      /* likewise, in a row */
    PORT_FIRST = 20000, /* below those from which the kernel takes ports for connections */
    PORTS = 12000,
    PATH_BYTES = 96,
};

#define LINGER_NS 1000000 /* all hosts leave together, one after the other */

static bool networked(const struct bench_nodes *g)
{
    return g->transport != BENCH_SHM;
}

/* ---- the directory of a network ---- */

static const char *in_dir(const struct bench_nodes *g, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", g->dir, name);
    return path;
}

/* A port that nobody listens on. */
static int port_find(const char *address, uint32_t *next, uint16_t *port, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;

    for (uint32_t tries = 0; tries < PORTS; tries++) {
        char service[8];
        snprintf(service, sizeof(service), "%u", PORT_FIRST + (*next)++ % PORTS);
        int rc = getaddrinfo(address, service, &hints, &found);
        if (rc != 0)
            return err_set(e, ERR_INVALID, "address %.100s: %s", address, gai_strerror(rc));
        int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool ok = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;
        bool taken = fd >= 0 && !ok && errno == EADDRINUSE;
        if (!ok && !taken)
            rc = err_sys(e, "address %.100s", address);
        if (fd >= 0)
            close(fd);
        freeaddrinfo(found);
        if (rc != 0)
            return rc;
        if (ok) {
            *port = (uint16_t)strtoul(service, NULL, 10);
            return 0;
        }
    }
    return err_set(e, ERR_EXISTS, "address %.100s: no port is free", address);
}

/* Key and ports, for the hosts that are processes too. */
static int dir_make(struct bench_nodes *g, const char *address, struct err *e)
{
    char path[PATH_BYTES];
    uint32_t next = (uint32_t)getpid() * 31;

    snprintf(g->dir, sizeof(g->dir), "/tmp/tram-bench-XXXXXX");
    if (mkdtemp(g->dir) == NULL)
        return err_sys(e, "make %s", g->dir);
    g->made = true;
    int rc = ofi_key_make(in_dir(g, "key", path), e);
    for (uint32_t h = 0; rc == 0 && h < g->hosts; h++)
        rc = port_find(address, &next, &g->far[h].port, e);
    if (rc == 0)
        rc = port_find(address, &next, &g->wire_port, e);
    if (rc != 0)
        return rc;
    FILE *f = fopen(in_dir(g, "ports", path), "we");
    for (uint32_t h = 0; f && h < g->hosts; h++)
        fprintf(f, "%u\n", g->far[h].port);
    if (f)
        fprintf(f, "%u\n", g->wire_port);
    return f && fclose(f) == 0 ? 0 : err_sys(e, "write %s", path);
}

static int dir_read(struct bench_nodes *g, struct err *e)
{
    char path[PATH_BYTES];
    unsigned port = 0;
    FILE *f = fopen(in_dir(g, "ports", path), "re");

    for (uint32_t h = 0; f && h <= g->hosts; h++) {
        if (fscanf(f, "%u", &port) != 1)
            port = 0;
        *(h < g->hosts ? &g->far[h].port : &g->wire_port) = (uint16_t)port;
    }
    if (f)
        fclose(f);
    return port > 0 ? 0 : err_set(e, ERR_NOTFOUND, "%s: not what it should be", path);
}

void nodes_name(char *out, size_t bytes)
{
    uint32_t chance = 0;

    if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
        chance = (uint32_t)clock_now_ns();
    snprintf(out, bytes, "bench-%d-%08x", (int)getpid(), chance);
}

int nodes_open(struct bench_nodes *g, const struct bench_args *a, struct err *e)
{
    char path[PATH_BYTES];

    *g = (struct bench_nodes){
        .transport = a->transport, .hosts = a->hosts, .clients = BENCH_CLIENTS_MAX};
    if (a->serve)
        snprintf(g->cluster, sizeof(g->cluster), "%s", a->serve);
    else
        nodes_name(g->cluster, sizeof(g->cluster));
    for (uint32_t h = 0; h < g->hosts; h++) {
        snprintf(g->names[h], sizeof(g->names[h]), "h%u", h + 1);
        g->shm[h] = (struct shm_node){.name = g->names[h], .node = h, .role = SHM_HOST};
        g->far[h] = (struct far_host){.name = g->names[h], .address = a->address};
    }
    if (!networked(g))
        return 0;
    if (a->serve_dir)
        snprintf(g->dir, sizeof(g->dir), "%s", a->serve_dir);
    int rc = a->serve_dir ? dir_read(g, e) : dir_make(g, a->address, e);
    return rc == 0 ? ofi_key_read(in_dir(g, "key", path), g->key, e) : rc;
}

void nodes_close(struct bench_nodes *g)
{
    char path[PATH_BYTES], name[24];

    if (!g->made)
        return;
    for (uint32_t h = 0; h < g->hosts; h++) {
        snprintf(name, sizeof(name), "%s.life", g->names[h]);
        unlink(in_dir(g, name, path));
    }
    unlink(in_dir(g, "key", path));
    unlink(in_dir(g, "ports", path));
    rmdir(g->dir);
    g->made = false;
}

/* ---- nodes ---- */

static int shm_node_open(struct bench_nodes *g, struct shm_node self, struct mem **out,
                         struct err *e)
{
    struct shm_options o = {.cluster = g->cluster,
                            .hosts = g->shm,
                            .hosts_count = g->hosts,
                            .self = self,
                            .say = say_stderr(SAY_WARN)};
    return shm_open_node(&o, out, e);
}

static int ofi_node_open(struct bench_nodes *g, uint32_t self, struct mem **out, struct err *e)
{
    struct ofi_options o = {
        .far = {.cluster = g->cluster,
                .hosts = g->far,
                .hosts_count = g->hosts,
                .clients = g->clients,
                .self = self,
                .state = g->dir,
                .linger_ns = LINGER_NS,
                .say = say_stderr(SAY_WARN)},
        .provider = bench_transport_names[g->transport],
        .key = g->key,
    };
    return ofi_open_node(&o, out, e);
}

int nodes_host(struct bench_nodes *g, uint32_t host, struct mem **out, struct err *e)
{
    return networked(g) ? ofi_node_open(g, host, out, e) : shm_node_open(g, g->shm[host], out, e);
}

int nodes_client(struct bench_nodes *g, uint32_t place, struct mem **out, struct err *e)
{
    char name[16];
    snprintf(name, sizeof(name), "c%u", place + 1);
    struct shm_node self = {.name = name, .node = g->hosts + place, .role = SHM_CLIENT};
    return networked(g) ? ofi_node_open(g, g->hosts + place, out, e)
                        : shm_node_open(g, self, out, e);
}

/* ---- processes ---- */

int child_start(struct bench_child *c, const char *const argv[], int core, struct err *e)
{
    enum { WORDS_MAX = 32 };
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return err_sys(e, "start a process");
    pid_t pid = fork();
    if (pid == 0) {
        char *args[WORDS_MAX] = {NULL};
        for (int i = 0; i < WORDS_MAX - 1 && argv[i]; i++)
            memcpy(&args[i], &argv[i], sizeof(args[i]));
        if (core >= 0) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET((size_t)core, &set);
            sched_setaffinity(0, sizeof(set), &set);
        }
        dup2(pipes[0], STDIN_FILENO);
        execv("/proc/self/exe", args);
        _exit(127);
    }
    close(pipes[0]);
    if (pid < 0) {
        close(pipes[1]);
        return err_sys(e, "start a process");
    }
    *c = (struct bench_child){.pid = pid, .stop = pipes[1]};
    return 0;
}

void child_stop(struct bench_child *c)
{
    if (c->pid <= 0)
        return;
    close(c->stop);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
}

/* ---- the wire ---- */

static int raw_open(const struct bench_nodes *g, const struct bench_args *a, bool listens,
                    struct ofi_raw **out, struct err *e)
{
    struct ofi_raw_options o = {
        .provider = bench_transport_names[g->transport],
        .address = a->address,
        .port = g->wire_port,
        .listens = listens,
        .bytes = a->payload < 8 ? 8 : (a->payload + 7) & ~7u,
    };
    return ofi_raw_open(&o, out, e);
}

int wire_open(struct bench_wire *w, const struct bench_nodes *g, const struct bench_args *a,
              int core, struct err *e)
{
    char payload[16], hosts[16];
    snprintf(payload, sizeof(payload), "%u", a->payload);
    snprintf(hosts, sizeof(hosts), "%u", a->hosts);
    const char *const argv[] = {"tram",
                                "bench",
                                "--serve-wire",
                                "--transport",
                                bench_transport_names[g->transport],
                                "--address",
                                a->address,
                                "--serve-dir",
                                g->dir,
                                "--hosts",
                                hosts,
                                "--payload",
                                payload,
                                NULL};
    *w = (struct bench_wire){0};
    int rc = child_start(&w->child, argv, core, e);
    return rc == 0 ? raw_open(g, a, true, &w->raw, e) : rc;
}

void wire_close(struct bench_wire *w)
{
    child_stop(&w->child);
    ofi_raw_close(w->raw);
    w->raw = NULL;
}

static bool trip(struct bench_wire *w)
{
    return ofi_raw_write(w->raw, ++w->value) && ofi_raw_await(w->raw, w->value);
}

bool wire_measure(struct bench_wire *w, struct hist *trips)
{
    char go = 1;
    if (write(w->child.stop, &go, 1) != 1 || !trip(w)) /* the first one wakes the other side */
        return false;
    for (int i = 0; i < TRIPS; i++) {
        uint64_t start = clock_now_ns();
        if (!trip(w))
            return false;
        hist_add(trips, clock_now_ns() - start);
    }
    uint64_t start = clock_now_ns();
    for (int i = 0; i < WRITES; i++)
        if (!ofi_raw_write(w->raw, ++w->value))
            return false;
    if (!ofi_raw_await(w->raw, w->value))
        return false;
    w->writes += WRITES;
    w->writes_ns += clock_now_ns() - start;
    return true;
}

int wire_serve(const struct bench_args *a, struct err *e)
{
    struct bench_nodes g;
    struct ofi_raw *raw = NULL;
    uint64_t value = 0;
    char go;

    int rc = nodes_open(&g, a, e);
    if (rc == 0)
        rc = raw_open(&g, a, false, &raw, e);
    while (rc == 0 && read(STDIN_FILENO, &go, 1) == 1) {
        bool ok = true;
        for (int i = 0; ok && i <= TRIPS; i++)
            ok = ofi_raw_await(raw, ++value) && ofi_raw_write(raw, value);
        value += WRITES;
        ok = ok && ofi_raw_await(raw, value) && ofi_raw_write(raw, value) && ofi_raw_settle(raw);
        if (!ok)
            rc = err_set(e, ERR_TIMEOUT, "the other side of the wire is gone");
    }
    ofi_raw_close(raw);
    return rc;
}
