/* Joining the cluster's memory, whatever it is made of. Only this file knows which backends there are. */
#include "api/api.h"

#include "api/keys.h"
#include "base/clock.h"
#include "base/say.h"
#include "mem/home.h"
#include "mem/ofi/ofi.h"
#include "mem/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    PLACES_IN_ORDER =
        4, /* tried first, so that the few who come one after the other have low ones */
};

int api_directory(const struct tram_cluster *c, char *out, size_t bytes, struct err *e)
{
    return shm_directory_of(c->conf->runtime_dir[0] ? c->conf->runtime_dir : NULL, c->conf->name,
                            out, bytes, e);
}

/* ---- shared memory ---- */

/* What a client has had decided is on the disks of a majority of a group's hosts: of any majority one knows of it. Members all meet it. */
static bool majorities_run(void *ctx, const bool running[SHM_HOSTS_MAX])
{
    const struct tram_cluster *c = ctx;
    if (c->conf->protocol == CLUSTER_GROUP) {
        uint32_t up = 0;
        for (uint32_t h = 0; h < c->conf->hosts; h++)
            up += running[h];
        return up > c->conf->hosts / 2;
    }
    for (uint32_t g = 0; g < c->conf->groups; g++) {
        uint32_t up = 0;
        for (uint32_t q = 0; q < c->group[g].replicas; q++)
            up += running[c->group[g].nodes[q]];
        if (up <= c->group[g].replicas / 2)
            return false;
    }
    return true;
}

static int shm_join(const struct tram_cluster *c, struct shm_node self,
                    const struct mem_lives *lives, const struct say *say, struct mem **out,
                    struct err *e)
{
    struct shm_node hosts[CLUSTER_HOSTS_MAX];
    for (uint32_t h = 0; h < c->conf->hosts; h++)
        hosts[h] = (struct shm_node){.name = c->conf->host[h].name, .node = h, .role = SHM_HOST};
    struct shm_options o = {
        .dir = c->conf->runtime_dir[0] ? c->conf->runtime_dir : NULL,
        .cluster = c->conf->name,
        .self = self,
        .hosts = hosts,
        .hosts_count = c->conf->hosts,
        .lives = lives,
        .client_node = c->sizes.client_node,
        .clients = c->sizes.clients,
        .lives_max = CASTER_LIVES_MAX,
        .forget = lives && lives->forgets,
        .enough = cluster_has_disks(c->conf) && self.role == SHM_CLIENT ? majorities_run : NULL,
        .enough_ctx = (void *)(uintptr_t)c,
        .say = *say,
    };
    return shm_open_node(&o, out, e);
}

#define HOST_WAIT_NS UINT64_C(5000000000)
#define HOST_TURN_NS 5000000

/* As ERR_EXISTS, for a place that has had as many processes as it can have. */
enum { PLACE_USED_UP = 1 };

static int shm_join_at(const struct tram_cluster *c, uint32_t place, const struct say *say,
                       struct mem **out, struct err *e)
{
    char name[32];
    snprintf(name, sizeof(name), "client-%u", place);
    struct shm_node self = {.name = name, .node = c->sizes.client_node + place, .role = SHM_CLIENT};
    int rc = shm_join(c, self, NULL, say, out, e);
    if (rc == 0 && (*out)->life >= CASTER_LIVES_MAX) {
        say_warn(say, "place %u for clients of cluster %s has had %u processes, and is passed over",
                 place, c->conf->name, (*out)->life);
        mem_close(*out); /* no stream could begin there any more */
        *out = NULL;
        return PLACE_USED_UP;
    }
    return rc;
}

static int all_taken(const struct tram_cluster *c, uint32_t used_up, struct err *e)
{
    const uint32_t places = c->sizes.clients;
    if (used_up == 0)
        return err_set(e, ERR_EXISTS, "all %u places for clients of cluster %s are taken", places,
                       c->conf->name);
    return err_set(
        e, ERR_EXISTS,
        "of the %u places for clients of cluster %s, %u have had %u processes and take no "
        "more, and the others are taken; raise `clients` in the cluster file, or stop "
        "everything and start anew",
        places, c->conf->name, used_up, CASTER_LIVES_MAX);
}

/* A place that no live process has: one of the first few, or the next free one from anywhere on, so that
 * thousands who come together do not all try the same. */
static int shm_join_any(const struct tram_cluster *c, const struct say *say, struct mem **out,
                        struct err *e)
{
    const uint32_t places = c->sizes.clients;
    uint32_t first = places < PLACES_IN_ORDER ? places : PLACES_IN_ORDER;
    uint64_t from = clock_now_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    uint32_t used_up = 0;
    int rc = ERR_EXISTS;
    for (uint32_t i = 0; rc == ERR_EXISTS && i < first; i++) {
        rc = shm_join_at(c, i, say, out, e);
        rc = rc == PLACE_USED_UP ? ERR_EXISTS : rc;
    }
    for (uint32_t i = 0; rc == ERR_EXISTS && i < places; i++) {
        rc = shm_join_at(c, (uint32_t)((from + i) % places), say, out, e);
        used_up += rc == PLACE_USED_UP;
        rc = rc == PLACE_USED_UP ? ERR_EXISTS : rc;
    }
    return rc == ERR_EXISTS ? all_taken(c, used_up, e) : rc;
}

/* In a durable cluster a client has its life from a host, and waits for one as it does over a network. */
static int shm_join_client(const struct tram_cluster *c, const struct say *say, struct mem **out,
                           struct err *e)
{
    const struct timespec turn = {.tv_nsec = HOST_TURN_NS};
    uint64_t until_ns = clock_now_ns() + HOST_WAIT_NS;
    int rc = shm_join_any(c, say, out, e);
    while (rc == ERR_AGAIN && cluster_has_disks(c->conf) && clock_now_ns() < until_ns) {
        nanosleep(&turn, NULL);
        rc = shm_join_any(c, say, out, e);
    }
    return rc == ERR_AGAIN && cluster_has_disks(c->conf) ? ERR_TIMEOUT : rc;
}

/* ---- a network ---- */

static int verbs_join(const struct tram_cluster *c, const struct far_options *far, struct mem **out,
                      struct err *e)
{
    unsigned char key[OFI_KEY_BYTES];
    int rc = ofi_key_read(c->key_path, key, e);
    if (rc != 0)
        return rc;
    struct ofi_options o = {
        .far = *far, .provider = cluster_transport_names[c->conf->transport], .key = key};
    rc = ofi_open_node(&o, out, e);
    explicit_bzero(key, sizeof(key));
    return rc;
}

static int tcp_join(const struct tram_cluster *c, const struct far_options *far, struct mem **out,
                    struct err *e)
{
    struct tcp_options o = {.far = *far};
    int rc = api_keys_open(c->conf, c->file, far->self == FAR_ANY ? CLUSTER_NONE : (int)far->self,
                           &o, e);
    if (rc == 0)
        rc = tcp_open_node(&o, out, e);
    api_keys_drop(&o);
    return rc;
}

static int far_join_node(const struct tram_cluster *c, uint32_t self, const char *state,
                         const struct mem_lives *lives, bool looks, const struct say *say,
                         struct mem **out, struct err *e)
{
    struct far_host hosts[CLUSTER_HOSTS_MAX];
    for (uint32_t h = 0; h < c->conf->hosts; h++)
        hosts[h] = (struct far_host){.name = c->conf->host[h].name,
                                     .address = c->conf->host[h].address,
                                     .port = c->conf->host[h].port,
                                     .spare = c->conf->host[h].memory};
    struct cluster_fact facts[CLUSTER_FACTS_MAX];
    struct far_fact same[FAR_FACTS_MAX];
    uint32_t count = cluster_facts(c->conf, facts);
    _Static_assert((int)FAR_FACTS_MAX >= (int)CLUSTER_FACTS_MAX, "all of them fit");
    for (uint32_t i = 0; i < count; i++) {
        memset(&same[i], 0, sizeof(same[i]));
        snprintf(same[i].key, sizeof(same[i].key), "%s", facts[i].key);
        snprintf(same[i].value, sizeof(same[i].value), "%s", facts[i].value);
    }
    struct far_options o = {
        .cluster = c->conf->name,
        .hosts = hosts,
        .hosts_count = c->conf->hosts,
        .clients = c->sizes.clients,
        .lives_max = CASTER_LIVES_MAX,
        .facts = same,
        .facts_count = count,
        .self = self,
        .state = state,
        .lives = lives,
        .looks = looks,
        .huge_pages = c->conf->huge_pages,
        .say = *say,
    };
    return c->conf->transport == CLUSTER_TCP ? tcp_join(c, &o, out, e) : verbs_join(c, &o, out, e);
}

/* Locks the host's file: by that others on this machine see that it is there. */
static int home_claim(struct api_home *h, const char *host, struct err *e)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(h->lock, sizeof(h->lock), "%s.lock", host);
    h->lock_fd = openat(h->dir_fd, h->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (h->lock_fd < 0)
        return err_sys(e, "open %s/%s", h->dir, h->lock);
    if (fcntl(h->lock_fd, F_OFD_SETLK, &l) == 0) {
        /* What a process that was killed has left shows a host that is not there yet. */
        char page[sizeof(h->lock)];
        snprintf(page, sizeof(page), "%s.page", host);
        unlinkat(h->dir_fd, page, 0);
        return 0;
    }
    close(h->lock_fd);
    h->lock_fd = -1;
    if (errno == EAGAIN || errno == EACCES)
        return err_set(e, ERR_EXISTS, "host %s is already running (%s/%s is locked)", host, h->dir,
                       h->lock);
    return err_sys(e, "lock %s/%s", h->dir, h->lock);
}

static int far_join_host(const struct tram_cluster *c, uint32_t host, struct api_home *h,
                         const struct mem_lives *lives, const struct say *say, struct mem **out,
                         struct err *e)
{
    char data[512];
    int rc = home_open(h->dir, &h->dir_fd, e);
    if (rc == 0)
        rc = home_claim(h, c->conf->host[host].name, e);
    if (h->dir_fd >= 0)
        home_unlock(h->dir_fd);
    if (rc == 0 && lives)
        rc = cluster_path(c->conf, c->file, CLUSTER_PATH_DATA, NULL, data, sizeof(data), e);
    if (rc != 0)
        return rc;
    /* Lives are counted where the user wants all files, or where they outlive the machine's restart. */
    const char *state = lives ? data : c->conf->runtime_dir[0] ? h->dir : NULL;
    return far_join_node(c, host, state, lives, false, say, out, e);
}

/* ---- either ---- */

int api_join_host(const struct tram_cluster *c, uint32_t host, struct api_home *h,
                  const struct mem_lives *lives, const struct say *say, struct mem **out,
                  struct err *e)
{
    int rc = api_directory(c, h->dir, sizeof(h->dir), e);
    if (rc != 0)
        return rc;
    if (c->conf->transport != CLUSTER_SHM)
        return far_join_host(c, host, h, lives, say, out, e);
    return shm_join(
        c, (struct shm_node){.name = c->conf->host[host].name, .node = host, .role = SHM_HOST},
        lives, say, out, e);
}

void api_home_close(struct api_home *h)
{
    if (h->dir_fd < 0)
        return;
    flock(h->dir_fd, LOCK_EX);
    if (h->lock_fd >= 0) {
        unlinkat(h->dir_fd, h->lock, 0);
        close(h->lock_fd);
        rmdir(h->dir); /* stays if somebody else is there */
    }
    close(h->dir_fd);
}

int api_join_client(const struct tram_cluster *c, const struct say *say, struct mem **out,
                    struct err *e)
{
    return c->conf->transport == CLUSTER_SHM
               ? shm_join_client(c, say, out, e)
               : far_join_node(c, FAR_ANY, NULL, NULL, false, say, out, e);
}

void api_mem_saw_client(const struct tram_cluster *c, struct mem *m, uint32_t place, uint32_t life)
{
    if (c->conf->transport == CLUSTER_SHM)
        shm_saw_client(m, place, life);
}

int api_mem_limits(const struct tram_cluster *c, struct mem *m, struct err *e)
{
    return c->conf->transport == CLUSTER_SHM ? 0 : far_limits_check(m, e);
}

void api_mem_show(const struct tram_cluster *c, struct mem *m, const void *page, size_t bytes)
{
    if (c->conf->transport != CLUSTER_SHM)
        far_show(m, page, bytes);
}

bool api_mem_counts(const struct tram_cluster *c, struct mem *m, struct tcp_counts *out)
{
    if (c->conf->transport != CLUSTER_TCP)
        return false;
    *out = tcp_counts(m);
    return true;
}

int api_look_open(const struct tram_cluster *c, const struct say *say, struct mem **out,
                  struct err *e)
{
    return far_join_node(c, FAR_ANY, NULL, NULL, true, say, out, e);
}

const char *api_mem_failure(const struct tram_cluster *c, struct mem *m)
{
    return c->conf->transport == CLUSTER_SHM ? shm_failure(m) : far_failure(m);
}
