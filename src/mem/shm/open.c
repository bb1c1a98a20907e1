#include "base/clock.h"
#include "base/lines.h"
#include "base/say.h"
#include "mem/shm/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_NS 2000000000u

enum { NOT_LISTENING = -1 };

static int check_name(const char *what, const char *name, struct err *e)
{
    if (!name || !*name)
        return err_set(e, ERR_INVALID, "the %s has no name", what);
    if (strlen(name) >= SHM_NAME_BYTES)
        return err_set(e, ERR_TOOBIG, "%s name %.80s: longer than %d bytes", what, name,
                       SHM_NAME_BYTES - 1);
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              *c == '_' || *c == '-' || (*c == '.' && c != name)))
            return err_set(
                e, ERR_INVALID,
                "%s name \"%s\": letters, digits, '-', '_' and, not first, '.' may be in "
                "it",
                what, name);
    return 0;
}

static int check_hostile(const struct shm_options *o, struct err *e)
{
    bool listed = o->self.role == SHM_HOST;

    if (o->lives || o->forget || o->enough)
        return err_set(e, ERR_INVALID, "cluster %s: where nodes may lie no disk keeps lives",
                       o->cluster);
    if (o->clients_known_count > SHM_KNOWN_MAX - SHM_HOSTS_MAX)
        return err_set(e, ERR_INVALID, "cluster %s: %u clients are known; at most %d are possible",
                       o->cluster, o->clients_known_count, SHM_KNOWN_MAX - SHM_HOSTS_MAX);
    for (uint32_t i = 0; i < o->clients_known_count; i++) {
        const struct shm_node *n = &o->clients_known[i];
        int rc = check_name("client", n->name, e);
        if (rc < 0)
            return rc;
        if (n->node < SHM_HOSTS_MAX || n->node >= SHM_NODES_MAX)
            return err_set(e, ERR_INVALID, "client %s has number %u; clients' are %u to %u",
                           n->name, n->node, SHM_HOSTS_MAX, SHM_NODES_MAX - 1);
        for (uint32_t k = 0; k < i; k++)
            if (o->clients_known[k].node == n->node || !strcmp(o->clients_known[k].name, n->name))
                return err_set(e, ERR_INVALID,
                               "clients %s (%u) and %s (%u): names and numbers "
                               "must differ",
                               o->clients_known[k].name, o->clients_known[k].node, n->name,
                               n->node);
        listed = listed || (n->node == o->self.node && !strcmp(n->name, o->self.name));
    }
    return listed ? 0
                  : err_set(e, ERR_INVALID, "client %s is not among those that are known",
                            o->self.name);
}

static int check_options(const struct shm_options *o, struct err *e)
{
    int rc = check_name("cluster", o->cluster, e);

    if (rc == 0)
        rc = check_name("node", o->self.name, e);
    if (rc < 0)
        return rc;
    if (o->self.node >= SHM_NODES_MAX)
        return err_set(e, ERR_INVALID, "node %s has number %u; numbers are below %u", o->self.name,
                       o->self.node, SHM_NODES_MAX);
    if (o->hosts_count == 0 || o->hosts_count > SHM_HOSTS_MAX)
        return err_set(e, ERR_INVALID, "cluster %s has %u hosts; 1 to %u are possible", o->cluster,
                       o->hosts_count, SHM_HOSTS_MAX);
    bool listed = false;
    for (uint32_t i = 0; i < o->hosts_count; i++) {
        const struct shm_node *h = &o->hosts[i];
        rc = check_name("host", h->name, e);
        if (rc < 0)
            return rc;
        if (h->node >= SHM_HOSTS_MAX)
            return err_set(e, ERR_INVALID, "host %s has number %u; hosts' numbers are below %u",
                           h->name, h->node, SHM_HOSTS_MAX);
        bool same_number = h->node == o->self.node, same_name = !strcmp(h->name, o->self.name);
        if (same_number != same_name)
            return err_set(e, ERR_INVALID,
                           "host %s is number %u, node %s is number %u: name and "
                           "number must agree",
                           h->name, h->node, o->self.name, o->self.node);
        listed = listed || same_number;
        for (uint32_t k = 0; k < i; k++)
            if (o->hosts[k].node == h->node || !strcmp(o->hosts[k].name, h->name))
                return err_set(e, ERR_INVALID,
                               "hosts %s (%u) and %s (%u): names and numbers must "
                               "differ",
                               o->hosts[k].name, o->hosts[k].node, h->name, h->node);
    }
    rc = o->hostile ? check_hostile(o, e) : 0;
    if (rc < 0)
        return rc;
    if (listed != (o->self.role == SHM_HOST))
        return err_set(e, ERR_INVALID, "node %s is a %s, but it is %s the list of hosts",
                       o->self.name, o->self.role == SHM_HOST ? "host" : "client",
                       listed ? "in" : "not in");
    return 0;
}

struct peer *peer_add(struct shm *s, uint32_t node, const char *name, enum shm_role role)
{
    struct peer *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->node = node;
    p->role = role;
    memcpy(p->name, name, strlen(name) + 1);
    p->pidfd = -1;
    p->grant_fd = -1;
    p->lock_fd = p->losses_fd = -1;
    p->out.client = p;
    p->trust.dir_fd = -1;
    atomic_store_explicit(&s->peers[node], p, memory_order_release);
    return p;
}

struct peer *peer_expect(struct shm *s, uint32_t node)
{
    struct peer *p = peer_of(s, node);

    if (p)
        return p;
    pthread_mutex_lock(&s->lock);
    p = peer_of(s, node); /* it may have come just now */
    if (!p)
        p = peer_add(s, node, "", SHM_CLIENT);
    pthread_mutex_unlock(&s->lock);
    return p;
}

/* Where nodes may lie, all are known from the start. */
static void trust_note(struct shm *s, const struct shm_options *o)
{
    s->mem.hostile = o->hostile;
    for (uint32_t i = 0; o->hostile && i < o->hosts_count; i++) {
        s->hosts[i]->trust.uid = o->hosts[i].uid;
        s->known[s->known_count++] = s->hosts[i];
    }
    for (uint32_t i = 0; o->hostile && i < o->clients_known_count; i++) {
        const struct shm_node *n = &o->clients_known[i];
        struct peer *p = peer_of(s, n->node);
        if (!p)
            p = peer_add(s, n->node, n->name, SHM_CLIENT);
        CHECK(p != NULL); /* a few bytes */
        p->trust.uid = n->uid;
        s->known[s->known_count++] = p;
    }
}

static struct shm *shm_new(const struct shm_options *o)
{
    struct shm *s = lines_alloc(sizeof *s);
    pthread_condattr_t attr;

    if (!s)
        return NULL;
    s->mem.ops = &shm_ops;
    s->mem.shared = true;
    s->mem.self = o->self.node;
    s->say = o->say;
    s->forget = o->forget;
    memcpy(s->cluster, o->cluster, strlen(o->cluster) + 1);
    s->dir_fd = s->lock_fd = s->past_grant_fd = -1;
    s->inbox_tail = &s->inbox;
    s->offers_tail = &s->offers;
    s->held_tail = &s->held;
    s->lives = o->self.role == SHM_HOST ? o->lives : NULL;
    s->client_node = o->client_node;
    s->clients = o->clients;
    s->lives_max = o->lives_max ? o->lives_max : UINT32_MAX;
    s->past_parts_tail = &s->past_parts;
    s->answer_timeout_ns = o->answer_timeout_ns ? o->answer_timeout_ns : ANSWER_TIMEOUT_NS;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    for (uint32_t i = 0; i < o->hosts_count; i++) {
        s->hosts[i] = peer_add(s, o->hosts[i].node, o->hosts[i].name, SHM_HOST);
        if (!s->hosts[i])
            return s;
        s->hosts_count++;
    }
    s->self = peer_of(s, o->self.node);
    if (!s->self)
        s->self = peer_add(s, o->self.node, o->self.name, o->self.role);
    if (s->self)
        trust_note(s, o);
    return s;
}

static int seal_size(int fd, int more, const char *what, struct err *e)
{
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | more) < 0)
        return err_sys(e, "%s: seal", what);
    return 0;
}

/* Zeroed, for nobody else, and freed as what is mapped. */
static void *memory_own(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static void own_item_add(struct shm *s, enum item_kind kind, int fd)
{
    pthread_mutex_lock(&s->lock);
    s->own[s->own_count++] = (struct own_item){.kind = kind, .fd = fd};
    s->own_news = true;
    pthread_mutex_unlock(&s->lock);
}

/* Where nodes may lie: the voice is shown, and the bell is for ourselves alone. */
static int make_voice(struct shm *s, struct err *e)
{
    int fd;
    struct voice *v = memory_new(s, "voice", sizeof *v, &fd, e);

    if (!v)
        return ERR_NOMEM;
    v->magic = SHM_VOICE_MAGIC;
    s->self->voice = v;
    s->self->bell = memory_own(sizeof *s->self->bell);
    own_item_add(s, ITEM_BELL, fd);
    if (!s->self->bell)
        return err_set(e, ERR_NOMEM, "bell: no memory");
    if (fcntl(fd, F_ADD_SEALS, segment_seals) < 0)
        return err_sys(e, "voice: seal");
    if (madvise(v, sizeof *v, MADV_POPULATE_READ) == 0)
        return 0;
    return err_sys(e, "this kernel does not say which pages are there (MADV_POPULATE_READ, Linux "
                      "5.14), without which a host cannot be kept from lying hosts");
}

/* The small memories that are new in every life. */
static int make_bell_and_life(struct shm *s, struct err *e)
{
    int fd;

    if (s->mem.hostile)
        return make_voice(s, e);
    struct bell *b = memory_new(s, "bell", sizeof *b, &fd, e);

    if (!b)
        return ERR_NOMEM;
    b->magic = SHM_BELL_MAGIC;
    s->self->bell = b;
    own_item_add(s, ITEM_BELL, fd);
    int rc = seal_size(fd, F_SEAL_SEAL, "bell", e);
    if (rc < 0 || s->self->role != SHM_HOST)
        return rc;
    struct life *l = memory_new(s, "life", sizeof *l, &fd, e);
    if (!l)
        return ERR_NOMEM;
    l->magic = SHM_LIFE_MAGIC;
    s->self->life = l;
    own_item_add(s, ITEM_LIFE, fd);
    return seal_size(fd, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL, "life", e);
}

static int make_grant(struct shm *s, struct err *e)
{
    int fd = -1;
    struct grant *g =
        s->mem.hostile ? memory_own(sizeof *g) : memory_new(s, "grant", sizeof *g, &fd, e);

    if (!g)
        return s->mem.hostile ? err_set(e, ERR_NOMEM, "grant: no memory") : ERR_NOMEM;
    g->magic = SHM_GRANT_MAGIC;
    g->node = s->mem.self;
    g->losses = s->losses;
    pthread_mutex_lock(&s->lock);
    s->grant = g;
    pthread_mutex_unlock(&s->lock);
    if (s->mem.hostile)
        return 0;
    int rc = seal_size(fd, F_SEAL_SEAL, "grant", e);
    own_item_add(s, ITEM_GRANT, fd); /* sealed before anybody gets it */
    return rc;
}

/* Waits until `done` says so or the time is over. The lock is held. */
static void wait_for(struct shm *s, bool (*done)(struct shm *), uint64_t until_ns)
{
    while (!done(s) && clock_now_ns() < until_ns) {
        /* Short turns: the death of a peer does not signal. */
        uint64_t turn = clock_now_ns() + 2000000u;
        struct timespec t = {.tv_sec = (time_t)(turn / 1000000000u),
                             .tv_nsec = (long)(turn % 1000000000u)};
        pthread_cond_timedwait(&s->changed, &s->lock, &t);
    }
}

static bool all_answered(struct shm *s)
{
    for (uint32_t i = 0; i < s->hosts_count; i++) {
        struct peer *p = s->hosts[i];
        if (p != s->self && !p->answered && node_alive(s, p->name))
            return false;
    }
    return true;
}

static bool all_mapped(struct shm *s)
{
    for (uint32_t i = 0; i < s->hosts_count; i++) {
        struct peer *p = s->hosts[i];
        if (p != s->self && p->answered && atomic_load(&p->acked) < outlet_version(s, &s->out) &&
            node_alive(s, p->name))
            return false;
    }
    return true;
}

static uint32_t broken_of(const struct peer *w)
{
    return w->held_count ? w->held[0]->broken : 0;
}

/* Is everything here that may have counted in our memory? What is not is named. */
static bool memory_whole(struct shm *s, struct grant *g)
{
    for (uint32_t i = 0; i < s->hosts_count; i++) {
        struct peer *w = s->hosts[i];
        uint64_t gen = atomic_load(&g->gen[w->node]);
        uint64_t have = w == s->self ? s->past_version : w->held_version;
        bool skipped = w != s->self && content_missing(g, w->node, broken_of(w));
        if (have < gen || skipped) {
            say_warn(&s->say, "%s: memory written by %s is gone, so the own memory counts as lost",
                     s->self->name, w->name);
            return false;
        }
    }
    return true;
}

/* What we carry over is whole for every host that had counted on no more than that. Tells those
 * whose grant memory is at hand, so that they take our new segments although `broken`. A version says only
 * how far the life before went: if it was broken itself, what it had lost is not in it. */
static void tell_carried(struct shm *s)
{
    for (uint32_t i = 0; i < s->hosts_count; i++) {
        struct peer *q = s->hosts[i];
        if (q == s->self || !q->grant_seen || s->self->role != SHM_HOST)
            continue;
        uint64_t gen = atomic_load(&q->grant_seen->gen[s->mem.self]);
        if (gen && gen <= s->past_version &&
            !content_missing(q->grant_seen, s->mem.self, s->past_broken))
            atomic_store(&q->grant_seen->carried[s->mem.self], s->mem.life + 1);
    }
}

/* Finds out what became of the memory of the life before, and takes or replaces it. */
static int recover(struct shm *s, struct err *e)
{
    uint64_t until_ns = clock_now_ns() + s->answer_timeout_ns;
    struct grant *g = NULL;
    int rc;

    pthread_mutex_lock(&s->lock);
    wait_for(s, all_answered, until_ns);
    s->past_closed = true; /* what comes later comes too late */
    if (s->past_unmapped) {
        /* It is there: it must not count as lost, to which the count of losses would bind us. */
        pthread_mutex_unlock(&s->lock);
        return err_set(e, ERR_NOMEM,
                       "open node %s: no memory to map what its last life and the other nodes have "
                       "(see ulimit -v, ulimit -n and vm.max_map_count)",
                       s->self->name);
    }
    if (s->past_grant_fd >= 0 && s->past_losses == s->losses)
        g = memory_map(s->past_grant_fd, sizeof *g, PROT_READ | PROT_WRITE,
                       F_SEAL_SHRINK | F_SEAL_GROW);
    bool own_whole = g && s->past_version >= atomic_load(&g->gen[s->mem.self]);
    s->kept = g && !s->forget && memory_whole(s, g);
    if (s->kept)
        s->grant = g; /* from here on the helper refuses what would make it less than whole */
    s->broken = own_whole ? s->past_broken : s->mem.life + 1;
    s->self->broken =
        s->broken; /* what we read of our own at others is no more whole than what they read */
    pthread_mutex_unlock(&s->lock);

    rc = 0;
    if (s->kept) {
        for (uint32_t i = 0; i < SHM_REGION_SLOTS; i++)
            s->regions += atomic_load(&g->region[i].key) != 0;
        own_item_add(s, ITEM_GRANT, s->past_grant_fd);
        s->past_grant_fd = -1;
    } else {
        if (g)
            munmap(g, sizeof *g);
        /* First of all: nothing may complete any more on the memory that we give up. */
        rc = losses_count(s, e);
        rc = rc < 0 ? rc : make_grant(s, e);
    }
    if (rc == 0 && s->broken)
        tell_carried(s);
    if (rc == 0)
        rc = carry_lanes(s, e);
    if (rc < 0)
        return rc;

    pthread_mutex_lock(&s->lock);
    s->grant_ready = true;
    helper_wake(s);
    wait_for(s, all_mapped, until_ns + s->answer_timeout_ns);
    pthread_mutex_unlock(&s->lock);
    own_version_counts(s);
    return 0;
}

static void free_past(struct shm *s)
{
    past_drop(s);
    if (s->past_grant_fd >= 0)
        close(s->past_grant_fd);
    s->past_grant_fd = -1;
}

/* Have enough hosts been there at once, since the directory was made, to know of the lives of all places? Goes with the directory. */
static bool is_settled(struct shm *s, const struct shm_options *o)
{
    static const char settled[] = "settled.page";
    bool running[SHM_HOSTS_MAX] = {false};

    if (!o->enough || faccessat(s->dir_fd, settled, F_OK, 0) == 0)
        return true;
    for (uint32_t i = 0; i < s->hosts_count; i++)
        running[s->hosts[i]->node] = node_alive(s, s->hosts[i]->name);
    if (!o->enough(o->enough_ctx, running))
        return false;
    int fd = openat(s->dir_fd, settled, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int join(struct shm *s, const struct shm_options *o, struct err *e)
{
    int rc = s->mem.hostile ? trust_open(s, o, e) : directory_open(s, o->dir, e);

    if (rc < 0)
        return rc;
    if (!is_settled(s, o)) {
        directory_unlock(s);
        return err_set(e, ERR_AGAIN,
                       "since cluster %s was started, no majority of the hosts of each group has "
                       "been running yet: start the others",
                       s->cluster);
    }
    rc = node_lock(s, e);
    if (rc == 0 && s->lives)
        rc = lives_open(s, e);
    /* Nobody calls a client. */
    bool host = s->self->role == SHM_HOST;
    int listen_fd = rc < 0 ? rc : host ? listen_open(s, e) : NOT_LISTENING;
    directory_unlock(s);
    if (rc < 0 || (host && listen_fd < 0))
        return rc < 0 ? rc : listen_fd;
    s->joined = true;
    s->self->version = outlet_version(s, &s->out);
    atomic_store(&s->self->acked, s->self->version);
    rc = make_bell_and_life(s, e);
    bool blank = s->mem.life == 0 || s->mem.hostile;
    if (rc == 0 && host && blank)
        rc = make_grant(s, e);
    /* A client promises nothing, and what it wrote in an earlier life is nobody's business. */
    s->grant_ready = !host || blank;
    if (rc < 0) {
        if (host)
            close(listen_fd);
        return rc;
    }
    rc = helper_start(s, listen_fd, e);
    if (rc == 0 && host && !blank)
        rc = recover(s, e);
    free_past(s);
    s->self->grant = s->grant;
    return rc;
}

int shm_open_node(const struct shm_options *o, struct mem **out, struct err *e)
{
    int rc = check_options(o, e);

    if (rc < 0)
        return rc;
    struct shm *s = shm_new(o);
    if (!s || !s->self) {
        if (s)
            shm_close_node(&s->mem);
        return err_set(e, ERR_NOMEM, "open node %s: no memory", o->self.name);
    }
    rc = join(s, o, e);
    if (rc < 0) {
        shm_close_node(&s->mem);
        return rc;
    }
    s->opened = true;
    *out = &s->mem;
    return 0;
}

const char *shm_failure(struct mem *m)
{
    struct shm *s = shm_of(m);

    if (atomic_load_explicit(&s->over, memory_order_acquire))
        return "all hosts of the cluster have been stopped since this client was opened, or it "
               "came "
               "before them after a loss of power and has a place that was used already; what was "
               "under way is not answered any more: when the hosts have been started again, open a "
               "new client";
    uint32_t lives = atomic_load_explicit(&s->outlived, memory_order_acquire);
    if (lives == 0)
        return NULL;
    snprintf(
        s->failure, sizeof s->failure,
        "other hosts know of life %u of this host, which is in life %u: its disk is an older one. "
        "Put the right one back, or give it up with `tram format --rejoin %.63s`",
        lives - 1, s->mem.life, s->self->name);
    return s->failure;
}

static void peer_free(struct peer *p)
{
    while (p->segments) {
        struct segment *g = p->segments;
        p->segments = g->next;
        segment_free(g);
    }
    outlet_free(&p->out);
    lettings_free(p);
    left_free(p, true);
    free(p->agreements);
    if (p->pidfd >= 0)
        close(p->pidfd);
    if (p->grant_fd >= 0)
        close(p->grant_fd);
    if (p->grant)
        munmap(p->grant, sizeof *p->grant);
    if (p->bell)
        munmap(p->bell, sizeof *p->bell);
    if (p->life)
        munmap(p->life, sizeof *p->life);
    if (p->voice)
        munmap(p->voice, sizeof *p->voice);
    if (p->lock_fd >= 0)
        close(p->lock_fd);
    free(p);
}

static bool handed_over(struct shm *s)
{
    for (uint32_t i = 0; i < s->hosts_count; i++) {
        struct peer *p = s->hosts[i];
        if (p != s->self && p->connections && atomic_load(&p->acked) < outlet_version(s, &s->out) &&
            node_alive(s, p->name))
            return false;
    }
    return true;
}

/* Who knows that we were here is to have all that our memory is, for our next life: half of it would
 * count as lost. Nobody lacks anything but of a node that leaves when it has just opened. */
static void hand_over(struct shm *s)
{
    if (!s->helper_runs || s->self->role != SHM_HOST || s->mem.hostile)
        return;
    pthread_mutex_lock(&s->lock);
    s->withheld = !s->given;
    if (s->given)
        wait_for(s, handed_over, clock_now_ns() + s->answer_timeout_ns);
    pthread_mutex_unlock(&s->lock);
}

void shm_close_node(struct mem *m)
{
    struct shm *s = shm_of(m);

    shm_loop_close(s);
    hand_over(s);
    helper_stop(s);
    if (s->self && s->self->life && !alive_unlock(s))
        s->self->life = NULL; /* another thread's list of mutexes leads through it: let it be */
    directory_leave(s);
    helper_free(s);  /* after the lock is free: who sees the connection end sees that we left */
    s->lives = NULL; /* what waits for a disk does not any more */
    shm_adopt(s);    /* what is in the inbox becomes ours to free */
    free_past(s);
    ends_free(s);
    lanes_free(s);
    outlet_free(&s->out);
    for (uint32_t i = 0; i < s->own_count; i++)
        close(s->own[i].fd);
    if (s->grant && s->self->grant != s->grant)
        munmap(s->grant, sizeof *s->grant);
    trust_close(s);
    for (uint32_t i = 0; i < SHM_NODES_MAX; i++)
        if (peer_of(s, i))
            peer_free(peer_of(s, i));
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
