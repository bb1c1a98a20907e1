/* For tests of the memories that go over a network: a cluster of hosts and clients on one machine, with a state directory
 * and ports of its own: on 127.0.0.1 over tcp, or as TRAM_TEST_ADDRESS and TRAM_TEST_PROVIDER say. */
#ifndef TESTS_FAR_FIXTURE_H
#define TESTS_FAR_FIXTURE_H

#include "base/clock.h"
#include "mem/ofi/ofi.h"
#include "mem/tcp/tcp.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FAR_FIXTURE_HOSTS = 3, FAR_FIXTURE_CLIENTS = 8, FAR_FIXTURE_PORTS = 400 };

enum far_fixture_carrier { FAR_FIXTURE_OFI, FAR_FIXTURE_TCP, FAR_FIXTURE_CLEAR };

struct far_fixture {
    enum far_fixture_carrier carrier;
    char state[64];
    uint16_t port[FAR_FIXTURE_HOSTS];
    unsigned char key[OFI_KEY_BYTES];
    bool read_back;
};

/* The first of some ports that are this process's while it lives, for a name that it has says so to all others. They are
 * below the range from which the kernel takes ports for connections: nobody gets one by chance. */
static inline unsigned far_fixture_block(void)
{
    static unsigned first;

    for (unsigned port = 10000; first == 0; port += FAR_FIXTURE_PORTS) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (port + FAR_FIXTURE_PORTS > 20000)
            abort();
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tram test ports %u", port);
        if (bind(fd, (struct sockaddr *)&name, sizeof name) == 0)
            first = port;
        else
            close(fd);
    }
    return first;
}

static inline uint16_t far_fixture_port(void)
{
    static unsigned next;

    for (;; next++) {
        uint16_t port = (uint16_t)(far_fixture_block() + next % FAR_FIXTURE_PORTS);
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
        close(fd);
        if (ok) {
            next++;
            return port;
        }
    }
}

static inline void far_fixture_begin(struct far_fixture *f)
{
    *f = (struct far_fixture){.key = "a key for tests, 32 bytes long.."};
    snprintf(f->state, sizeof f->state, "/tmp/tram-far-XXXXXX");
    if (!mkdtemp(f->state))
        abort();
    for (int i = 0; i < FAR_FIXTURE_HOSTS; i++)
        f->port[i] = far_fixture_port();
}

/* Removes the files of all hosts' lives. */
static inline void far_fixture_forget(struct far_fixture *f)
{
    DIR *d = opendir(f->state);

    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static inline void far_fixture_end(struct far_fixture *f)
{
    far_fixture_forget(f);
    rmdir(f->state);
}

static inline const char *far_fixture_env(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value ? value : otherwise;
}

/* What ofi_open_node wants; `hosts` is filled and must stay. */
static inline struct ofi_options far_fixture_options(const struct far_fixture *f, uint32_t self,
                                                     struct far_host hosts[FAR_FIXTURE_HOSTS])
{
    static const char *const names[] = {"h0", "h1", "h2"};

    /* Clear text is for the loopback alone. */
    const char *address = f->carrier == FAR_FIXTURE_CLEAR
                              ? "127.0.0.1"
                              : far_fixture_env("TRAM_TEST_ADDRESS", "127.0.0.1");

    for (int i = 0; i < FAR_FIXTURE_HOSTS; i++)
        hosts[i] = (struct far_host){.name = names[i], .address = address, .port = f->port[i]};
    return (struct ofi_options){.provider = far_fixture_env("TRAM_TEST_PROVIDER", "tcp"),
                                .key = f->key,
                                .read_back = f->read_back,
                                .far = {.cluster = "test",
                                        .hosts = hosts,
                                        .hosts_count = FAR_FIXTURE_HOSTS,
                                        .clients = FAR_FIXTURE_CLIENTS,
                                        .self = self,
                                        .state = f->state,
                                        .linger_ns = 5000000,
                                        .silent_ns = 30000000000u,
                                        .say = say_stderr(SAY_WARN)}};
}

/* The key of a host, or of the clients, who share one. It is what the key that all share on libfabric makes it. */
static inline void far_fixture_secret(const unsigned char *key, uint32_t node,
                                      unsigned char secret[TLS_KEY_BYTES],
                                      unsigned char public_key[TLS_KEY_BYTES])
{
    unsigned char both[crypto_sign_SECRETKEYBYTES];

    memcpy(secret, key, TLS_KEY_BYTES);
    secret[0] = (unsigned char)(node < FAR_FIXTURE_HOSTS ? node : FAR_FIXTURE_HOSTS);
    crypto_sign_seed_keypair(public_key, both, secret);
}

/* Who has the secret of a node that `key` makes, and knows the fixture's nodes. */
static inline struct tls *far_fixture_tls(const struct far_fixture *f, uint32_t self,
                                          const unsigned char *key)
{
    static const char *const names[] = {"h0", "h1", "h2", "client"};
    struct tls_identity who[FAR_FIXTURE_HOSTS + 1];
    unsigned char secret[TLS_KEY_BYTES], public_key[TLS_KEY_BYTES];
    struct err e = {""};
    struct tls *t = NULL;

    if (sodium_init() < 0)
        abort();
    for (uint32_t i = 0; i <= FAR_FIXTURE_HOSTS; i++) {
        who[i] = (struct tls_identity){.name = names[i], .keys = 1};
        far_fixture_secret(f->key, i, secret, who[i].key[0]);
    }
    far_fixture_secret(key, self, secret, public_key);
    struct tls_options o = {.secret = secret,
                            .hosts = who,
                            .hosts_count = FAR_FIXTURE_HOSTS,
                            .clients = &who[FAR_FIXTURE_HOSTS],
                            .clients_count = 1,
                            .clear = f->carrier == FAR_FIXTURE_CLEAR};
    if (tls_open(&o, &t, &e) < 0)
        abort();
    return t;
}

/* Opens a node on whatever carries the fixture's bytes; with another key than the fixture's it is a stranger. */
static inline int far_fixture_open_node(const struct far_fixture *f, const struct ofi_options *o,
                                        struct mem **out, struct err *e)
{
    if (f->carrier == FAR_FIXTURE_OFI)
        return ofi_open_node(o, out, e);
    struct tcp_options t = {.far = o->far, .tls = far_fixture_tls(f, o->far.self, o->key)};
    int rc = tcp_open_node(&t, out, e);
    tls_drop(t.tls);
    return rc;
}

static inline int far_fixture_open(const struct far_fixture *f, uint32_t self, struct mem **out,
                                   struct err *e)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(f, self, hosts);

    return far_fixture_open_node(f, &o, out, e);
}

#endif
