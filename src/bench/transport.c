#include "bench/transport.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PORT_FIRST = 20000, /* below those from which the kernel takes ports for connections */
    PORTS = 12000,
    PATH_BYTES = 192,
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

int bench_port(const char *address, uint32_t *next, uint16_t *port, struct err *e)
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
    const char *tmp = getenv("TMPDIR");
    uint32_t next = (uint32_t)getpid() * 31;

    int n = snprintf(g->dir, sizeof(g->dir), "%s/tram-bench-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (n >= (int)sizeof(g->dir))
        return err_set(e, ERR_TOOBIG, "TMPDIR: its path is too long");
    if (mkdtemp(g->dir) == NULL)
        return err_sys(e, "make %s", g->dir);
    g->made = true;
    int rc = ofi_key_make(in_dir(g, "key", path), e);
    for (uint32_t h = 0; rc == 0 && h < g->hosts; h++)
        rc = bench_port(address, &next, &g->far[h].port, e);
    if (rc == 0)
        rc = bench_port(address, &next, &g->wire_port, e);
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

    *g = (struct bench_nodes){.transport = a->transport,
                              .clear = a->clear,
                              .hosts = a->hosts,
                              .clients = BENCH_CLIENTS_MAX};
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

/* Each node has a key of its own, which follows from that of the run. */
static void secret_of(const struct bench_nodes *g, const char *name,
                      unsigned char secret[TLS_KEY_BYTES], unsigned char public_key[TLS_KEY_BYTES])
{
    unsigned char both[crypto_sign_SECRETKEYBYTES];
    crypto_generichash(secret, TLS_KEY_BYTES, (const unsigned char *)name, strlen(name), g->key,
                       sizeof(g->key));
    crypto_sign_seed_keypair(public_key, both, secret);
    sodium_memzero(both, sizeof(both));
}

int nodes_tls(const struct bench_nodes *g, uint32_t self, struct tls **out, struct err *e)
{
    struct tls_identity who[BENCH_HOSTS_MAX + 1];
    unsigned char secret[TLS_KEY_BYTES], public_key[TLS_KEY_BYTES];
    uint32_t mine = self < g->hosts ? self : g->hosts;
    if (sodium_init() < 0)
        return err_set(e, ERR_SYSTEM, "no source of random numbers");
    for (uint32_t h = 0; h <= g->hosts; h++) {
        who[h] = (struct tls_identity){.name = h < g->hosts ? g->names[h] : "client", .keys = 1};
        secret_of(g, who[h].name, secret, who[h].key[0]);
    }
    secret_of(g, who[mine].name, secret, public_key);
    struct tls_options o = {.secret = secret,
                            .hosts = who,
                            .hosts_count = g->hosts,
                            .clients = &who[g->hosts],
                            .clients_count = 1,
                            .clear = g->clear};
    int rc = tls_open(&o, out, e);
    tls_key_wipe(secret);
    return rc;
}

static int tcp_node_open(const struct bench_nodes *g, const struct far_options *far,
                         struct mem **out, struct err *e)
{
    struct tcp_options o = {.far = *far};
    int rc = nodes_tls(g, far->self, &o.tls, e);
    if (rc == 0)
        rc = tcp_open_node(&o, out, e);
    tls_drop(o.tls);
    return rc;
}

static int far_node_open(struct bench_nodes *g, uint32_t self, struct mem **out, struct err *e)
{
    struct far_options far = {.cluster = g->cluster,
                              .hosts = g->far,
                              .hosts_count = g->hosts,
                              .clients = g->clients,
                              .self = self,
                              .state = g->dir,
                              .linger_ns = LINGER_NS,
                              .say = say_stderr(SAY_WARN)};
    if (g->transport == BENCH_TCP)
        return tcp_node_open(g, &far, out, e);
    struct ofi_options o = {
        .far = far, .provider = bench_transport_names[g->transport], .key = g->key};
    return ofi_open_node(&o, out, e);
}

int nodes_host(struct bench_nodes *g, uint32_t host, struct mem **out, struct err *e)
{
    return networked(g) ? far_node_open(g, host, out, e) : shm_node_open(g, g->shm[host], out, e);
}

int nodes_client(struct bench_nodes *g, uint32_t place, struct mem **out, struct err *e)
{
    char name[16];
    snprintf(name, sizeof(name), "c%u", place + 1);
    struct shm_node self = {.name = name, .node = g->hosts + place, .role = SHM_CLIENT};
    return networked(g) ? far_node_open(g, g->hosts + place, out, e)
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
