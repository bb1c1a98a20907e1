/* For tests of the libfabric backend: a cluster of hosts and clients on one machine, with a state directory
 * and ports of its own: on 127.0.0.1 over tcp, or as TRAM_TEST_ADDRESS and TRAM_TEST_PROVIDER say. */
#ifndef TESTS_OFI_FIXTURE_H
#define TESTS_OFI_FIXTURE_H

#include "base/clock.h"
#include "mem/ofi/ofi.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OFI_FIXTURE_HOSTS = 3, OFI_FIXTURE_CLIENTS = 8 };

struct ofi_fixture {
    char state[64];
    uint16_t port[OFI_FIXTURE_HOSTS];
    unsigned char key[OFI_KEY_BYTES];
    bool read_back;
};

/* Below the range from which the kernel takes ports for connections: nobody gets it by chance. */
static inline uint16_t ofi_fixture_port(void)
{
    static unsigned next;
    unsigned first = 20000 + (unsigned)getpid() * 31 % 12000;

    for (;; next++) {
        uint16_t port = (uint16_t)(20000 + (first - 20000 + next) % 12000);
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

static inline void ofi_fixture_begin(struct ofi_fixture *f)
{
    *f = (struct ofi_fixture){.key = "a key for tests, 32 bytes long.."};
    snprintf(f->state, sizeof f->state, "/tmp/tram-ofi-XXXXXX");
    if (!mkdtemp(f->state))
        abort();
    for (int i = 0; i < OFI_FIXTURE_HOSTS; i++)
        f->port[i] = ofi_fixture_port();
}

/* Removes the files of all hosts' lives. */
static inline void ofi_fixture_forget(struct ofi_fixture *f)
{
    DIR *d = opendir(f->state);

    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static inline void ofi_fixture_end(struct ofi_fixture *f)
{
    ofi_fixture_forget(f);
    rmdir(f->state);
}

static inline const char *ofi_fixture_env(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value ? value : otherwise;
}

/* What ofi_open_node wants; `hosts` is filled and must stay. */
static inline struct ofi_options ofi_fixture_options(const struct ofi_fixture *f, uint32_t self,
                                                     struct far_host hosts[OFI_FIXTURE_HOSTS])
{
    static const char *const names[] = {"h0", "h1", "h2"};

    for (int i = 0; i < OFI_FIXTURE_HOSTS; i++)
        hosts[i] = (struct far_host){names[i], ofi_fixture_env("TRAM_TEST_ADDRESS", "127.0.0.1"),
                                     f->port[i]};
    return (struct ofi_options){.provider = ofi_fixture_env("TRAM_TEST_PROVIDER", "tcp"),
                                .key = f->key,
                                .read_back = f->read_back,
                                .far = {.cluster = "test",
                                        .hosts = hosts,
                                        .hosts_count = OFI_FIXTURE_HOSTS,
                                        .clients = OFI_FIXTURE_CLIENTS,
                                        .self = self,
                                        .state = f->state,
                                        .linger_ns = 5000000,
                                        .silent_ns = 30000000000u,
                                        .say = say_stderr(SAY_WARN)}};
}

static inline int ofi_fixture_open(const struct ofi_fixture *f, uint32_t self, struct mem **out,
                                   struct err *e)
{
    struct far_host hosts[OFI_FIXTURE_HOSTS];
    struct ofi_options o = ofi_fixture_options(f, self, hosts);

    return ofi_open_node(&o, out, e);
}

#endif
