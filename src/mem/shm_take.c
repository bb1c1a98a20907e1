#include "mem/shm_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define NO_MEMORY_WAIT_NS 500000000u

/* All of this runs in the helper with the lock held. A peer is trusted to be one of us once its
 * uid and cluster are right, but not to be sane: sizes, seals and numbers are checked. */

static void refuse(struct helper *h, struct connection *c, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void refuse(struct helper *h, struct connection *c, const char *fmt, ...)
{
    struct shm_message m = message_of(h->s, SHM_REFUSE);
    va_list args;

    va_start(args, fmt);
    vsnprintf(m.text, sizeof m.text, fmt, args);
    va_end(args);
    helper_warn(h, "refused a connection to %s: %s", h->s->self->name, m.text);
    connection_send(h, c, &m, -1);
    c->doomed = true;
}

static void malformed(struct helper *h, struct connection *c, const char *what)
{
    helper_warn(h, "%s: malformed message from %s (%s); connection closed", h->s->self->name,
                c->peer ? c->peer->name : "an unknown process", what);
    c->doomed = true;
}

/* Memory that somebody shares cannot be taken over for want of our own. What is left out comes again with
 * the next connection, and that not at once: there may be room by then. */
static void no_memory(struct helper *h, struct connection *c)
{
    helper_warn(h, "%s: no memory to map what other nodes share (see ulimit -v); trying again",
                h->s->self->name);
    if (!h->s->past_closed)
        h->s->past_unmapped = true;
    if (c->end_by_ns == UINT64_MAX)
        c->end_by_ns = h->now_ns + NO_MEMORY_WAIT_NS;
}

/* What is wrong with memory that could not be mapped. */
static void not_mapped(struct helper *h, struct connection *c, const char *what)
{
    if (errno == ENOMEM)
        no_memory(h, c);
    else
        malformed(h, c, what);
}

/* Hands the poller what came, in the spare item. */
static void deliver(struct helper *h, struct item item)
{
    struct shm *s = h->s;
    struct item *i = h->spare;

    h->spare = NULL;
    *i = item;
    i->next = NULL;
    i->losses_now = item.peer->losses_map;
    *s->inbox_tail = i;
    s->inbox_tail = &i->next;
    atomic_fetch_add_explicit(&s->inbox_count, 1, memory_order_release);
    h->ring = true;
}

static bool terminated(const char *text, size_t room)
{
    return memchr(text, 0, room) != NULL;
}

/* The peer that this hello comes from; NULL and refused if it may not be that. */
static struct peer *identify(struct helper *h, struct connection *c, const struct shm_message *m)
{
    struct shm *s = h->s;
    struct ucred who = {0};
    socklen_t room = sizeof who;

    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &room) < 0 || who.uid != geteuid()) {
        refuse(h, c, "process %d has uid %u, this cluster belongs to uid %u", who.pid, who.uid,
               geteuid());
        return NULL;
    }
    if (m->version != SHM_WIRE_VERSION) {
        refuse(h, c, "process %d speaks version %u, %s speaks version %u", who.pid, m->version,
               s->self->name, SHM_WIRE_VERSION);
        return NULL;
    }
    if (!terminated(m->cluster, sizeof m->cluster) || !terminated(m->name, sizeof m->name)) {
        malformed(h, c, "hello without end of name");
        return NULL;
    }
    if (strcmp(m->cluster, s->cluster) != 0) {
        refuse(h, c, "process %d belongs to cluster %s, %s to cluster %s", who.pid, m->cluster,
               s->self->name, s->cluster);
        return NULL;
    }
    if (m->node >= SHM_NODES_MAX || m->node == s->mem.self || m->role > SHM_CLIENT) {
        refuse(h, c, "process %d says it is node %u (%s); that cannot be, %s is node %u", who.pid,
               m->node, m->name, s->self->name, s->mem.self);
        return NULL;
    }
    struct peer *p = peer_of(s, m->node);
    if (!p && m->role == SHM_CLIENT && s->self->role == SHM_HOST)
        p = peer_add(s, m->node, m->name, SHM_CLIENT);
    if (!p || p->role != m->role || strcmp(p->name, m->name) != 0) {
        refuse(h, c, "process %d says it is node %u, %s %s; %s knows %s as node %u", who.pid,
               m->node, m->role == SHM_HOST ? "host" : "client", m->name, s->self->name,
               p ? p->name : "nobody", m->node);
        return NULL;
    }
    if (c->target && c->target != p) {
        refuse(h, c, "called %s, got %s", c->target->name, p->name);
        return NULL;
    }
    if (m->incarnation + 1 < p->incarnation) {
        refuse(h, c,
               "node %s comes with life %u after life %u; was its directory removed while "
               "the cluster ran?",
               p->name, m->incarnation, p->incarnation - 1);
        return NULL;
    }
    if (p->connections >= SHM_CONNECTIONS_OF_PEER_MAX) {
        refuse(h, c, "node %s has %u connections already", p->name, p->connections);
        return NULL;
    }
    return p;
}

/* A descriptor that becomes readable when the process at the other end dies. */
static int peer_pidfd(int socket)
{
    int fd = -1;
    struct ucred who;
    socklen_t room = sizeof fd;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &room) == 0)
        return fd;
    room = sizeof who;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &room) < 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, who.pid, 0);
}

static void begin_life(struct connection *c, struct peer *p, uint32_t incarnation)
{
    if (p->incarnation == incarnation + 1)
        return;
    p->incarnation = incarnation + 1;
    p->answered = false;
    if (atomic_load(&p->lives_over) < incarnation)
        atomic_store(&p->lives_over, incarnation);
    if (p->pidfd >= 0)
        close(p->pidfd);
    p->pidfd = peer_pidfd(c->fd);
}

/* The answer to a hello: everything we have that the other may need. */
static void send_answer(struct helper *h, struct connection *c)
{
    send_own(h, c);
    /* What the other had in an earlier life, and for a host the memory of all hosts, dead or
     * alive: a host that restarts may be asked for any of it. */
    if (c->peer->role == SHM_CLIENT)
        send_held(h, c, c->peer->node);
    else if (h->s->self->role == SHM_HOST)
        for (uint32_t i = 0; i < h->s->hosts_count; i++)
            send_held(h, c, h->s->hosts[i]->node);
    else
        send_held(h, c, c->peer->node);
    struct shm_message m = message_of(h->s, SHM_ANSWERED);
    connection_send(h, c, &m, -1);
}

static void take_hello(struct helper *h, struct connection *c, const struct shm_message *m)
{
    struct peer *p = identify(h, c, m);

    if (!p)
        return;
    begin_life(c, p, m->incarnation);
    if (!p->losses_map)
        p->losses_map = losses_map(h->s, p->name);
    p->connections++;
    c->peer = p;
    c->end_by_ns = UINT64_MAX;
    c->incarnation = m->incarnation;
    c->direct = version_of(m->incarnation, 0);
    send_answer(h, c);
}

static int keep_fd(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void take_bell(struct helper *h, struct connection *c, int fd)
{
    struct bell *b = memory_map(fd, sizeof *b, PROT_READ | PROT_WRITE, F_SEAL_SHRINK | F_SEAL_GROW);

    if (!b) {
        not_mapped(h, c, "bell");
        return;
    }
    if (b->magic != SHM_BELL_MAGIC) {
        munmap(b, sizeof *b);
        malformed(h, c, "bell");
        return;
    }
    deliver(h, (struct item){.kind = ITEM_BELL, .peer = c->peer, .at = b});
}

static void take_life(struct helper *h, struct connection *c, int fd)
{
    struct life *l = memory_map(fd, sizeof *l, PROT_READ, F_SEAL_SHRINK | F_SEAL_GROW);

    if (!l) {
        not_mapped(h, c, "life");
        return;
    }
    if (l->magic != SHM_LIFE_MAGIC || c->peer->role != SHM_HOST) {
        munmap(l, sizeof *l);
        malformed(h, c, "life");
        return;
    }
    deliver(h, (struct item){
                   .kind = ITEM_LIFE, .peer = c->peer, .incarnation = c->incarnation, .at = l});
}

/* Own grant memory of the life before: the one that was lost least recently counts. */
static void take_past_grant(struct shm *s, const struct grant *g, int fd)
{
    if (s->grant_ready || s->past_closed || (s->past_grant_fd >= 0 && s->past_losses >= g->losses))
        return;
    if (s->past_grant_fd >= 0)
        close(s->past_grant_fd);
    s->past_grant_fd = keep_fd(fd);
    s->past_losses = g->losses;
}

static void take_grant(struct helper *h, struct connection *c, uint32_t node, int fd)
{
    struct shm *s = h->s;
    struct peer *w = peer_of(s, node);

    if (!w || w->role != SHM_HOST || c->peer->role != SHM_HOST || s->self->role != SHM_HOST) {
        malformed(h, c, "grant of or for a client");
        return;
    }
    struct grant *g =
        memory_map(fd, sizeof *g, PROT_READ | PROT_WRITE, F_SEAL_SHRINK | F_SEAL_GROW);
    if (!g) {
        not_mapped(h, c, "grant");
        return;
    }
    if (g->magic != SHM_GRANT_MAGIC || g->node != node) {
        munmap(g, sizeof *g);
        malformed(h, c, "grant");
        return;
    }
    bool older = w->grant_fd >= 0 && w->grant_losses >= g->losses;
    if (w == s->self)
        take_past_grant(s, g, fd);
    if (w == s->self || older) {
        munmap(g, sizeof *g);
        return;
    }
    if (w->grant_fd >= 0)
        close(w->grant_fd);
    w->grant_fd = keep_fd(fd);
    w->grant_losses = g->losses;
    w->grant_seen = g;
    atomic_store(&w->acked, 0); /* new memory, so a new count; 0 already if it is the first */
    if (!w->losses_map)
        w->losses_map = losses_map(s, w->name);
    deliver(h, (struct item){.kind = ITEM_GRANT, .peer = w, .at = g});
}

/* A segment of our own from a life before. */
static void take_past_segment(struct shm *s, struct segment *g)
{
    uint64_t version = version_of(g->incarnation, g->index + 1);

    if (s->grant_ready || s->past_closed || g->incarnation >= s->mem.incarnation ||
        version <= s->past_version ||
        (version_life(version) == version_life(s->past_version)
             ? g->index != (uint32_t)s->past_version
             : g->index != 0)) {
        segment_free(g);
        return;
    }
    if (version_life(version) > version_life(s->past_version))
        while (s->past) {
            struct segment *old = s->past;
            s->past = old->next;
            segment_free(old);
        }
    g->next = s->past;
    s->past = g;
    s->past_version = version;
    s->past_broken = g->broken;
}

static bool relies_on_lost(struct shm *s, struct peer *w, uint32_t broken)
{
    return s->grant_ready && w->role == SHM_HOST && content_missing(s->grant, w->node, broken);
}

static void drop_held(struct peer *w)
{
    for (uint32_t i = 0; i < w->held_count; i++)
        close(w->held[i].fd);
    w->held_count = 0;
}

static bool hold(struct peer *w, const struct segment *g, int fd)
{
    if (w->held_count == w->held_room) {
        uint32_t room = w->held_room ? 2 * w->held_room : 4;
        struct held *more = realloc(w->held, room * sizeof *more);
        if (!more)
            return false;
        w->held = more;
        w->held_room = room;
    }
    int kept = keep_fd(fd);
    if (kept < 0)
        return false;
    w->held[w->held_count++] = (struct held){
        .incarnation = g->incarnation, .index = g->index, .broken = g->broken, .fd = kept};
    w->held_version = version_of(g->incarnation, g->index + 1);
    return true;
}

static void take_segment(struct helper *h, struct connection *c, const struct shm_message *m,
                         int fd)
{
    struct shm *s = h->s;
    struct peer *w = peer_of(s, m->node);

    if (!w || (w != s->self && w != c->peer && w->role != SHM_HOST) ||
        m->index >= SHM_SEGMENTS_MAX) {
        malformed(h, c, "segment of an unknown node");
        return;
    }
    uint64_t version = version_of(m->incarnation, m->index + 1);
    bool known = w != s->self && version <= w->held_version;
    bool next = version_life(version) == version_life(w->held_version)
                    ? m->index == (uint32_t)w->held_version
                    : m->index == 0;
    if (w == s->self || (!known && next)) {
        struct segment *g = segment_map(fd, m->node, s->mem.self);
        if (!g) {
            not_mapped(h, c, "segment");
            return;
        }
        if (g->incarnation != m->incarnation || g->index != m->index) {
            segment_free(g);
            malformed(h, c, "segment");
            return;
        }
        if (w == s->self) {
            take_past_segment(s, g);
            return;
        }
        if (relies_on_lost(s, w, g->broken)) {
            helper_warn(h,
                        "%s came back without memory that it had written and that counts at %s; "
                        "its new memory is not taken until %s is restarted",
                        w->name, s->self->name, s->self->name);
            segment_free(g);
            return;
        }
        if (version_life(version) > version_life(w->held_version))
            drop_held(w);
        if (!hold(w, g, fd)) {
            segment_free(g);
            no_memory(h, c);
            return;
        }
        deliver(h, (struct item){.kind = ITEM_SEGMENT, .peer = w, .segment = g});
    }
    if (c->peer == w && m->incarnation == c->incarnation && version <= w->held_version &&
        version > c->direct)
        c->direct = version;
}

static void take_item(struct helper *h, struct connection *c, const struct shm_message *m, int fd)
{
    if (m->kind <= ITEM_LIFE && m->node != c->peer->node) {
        malformed(h, c, "bell or life of another node");
        return;
    }
    switch (m->kind) {
    case ITEM_BELL:
        take_bell(h, c, fd);
        break;
    case ITEM_LIFE:
        take_life(h, c, fd);
        break;
    case ITEM_GRANT:
        take_grant(h, c, m->node, fd);
        break;
    case ITEM_SEGMENT:
        take_segment(h, c, m, fd);
        break;
    default:
        malformed(h, c, "kind of item");
    }
}

static void take_ack(struct helper *h, struct connection *c, const struct shm_message *m)
{
    struct shm *s = h->s;
    uint64_t version = version_of(m->incarnation, m->index);
    uint64_t sent = 0;

    for (uint32_t i = 0; i < s->own_count; i++)
        sent += s->own[i].kind == ITEM_SEGMENT;
    if (m->incarnation != s->mem.incarnation || m->index > sent) {
        malformed(h, c, "acknowledgement of what was never sent");
        return;
    }
    if (c->incarnation + 1 == c->peer->incarnation && version > atomic_load(&c->peer->acked))
        atomic_store_explicit(&c->peer->acked, version, memory_order_release);
    h->ring = true; /* a mark may be waiting for it */
}

static void take_sizes(struct helper *h, struct connection *c, const struct shm_message *m)
{
    helper_warn(h,
                "lane (owner %u, writer %u, region %u, kind %u): %u words and a ring of %u bytes "
                "at %s, %u words and %u bytes at its writer %s; it stays unconnected",
                m->mine.owner, m->mine.writer, m->mine.region, m->mine.kind, m->mine.ctl_words,
                m->mine.ring_bytes, c->peer->name, m->theirs.ctl_words, m->theirs.ring_bytes,
                h->s->self->name);
}

static void take_known(struct helper *h, struct connection *c, const struct shm_message *m,
                       const int *fds, int fds_count)
{
    if (m->version != SHM_WIRE_VERSION || (m->type == SHM_ITEM) != (fds_count == 1)) {
        malformed(h, c, "descriptors where none belong, or none where one does");
        return;
    }
    if (!h->spare && !(h->spare = malloc(sizeof *h->spare))) {
        no_memory(h, c);
        return;
    }
    switch (m->type) {
    case SHM_ITEM:
        take_item(h, c, m, fds[0]);
        break;
    case SHM_ANSWERED:
        c->peer->answered = true;
        break;
    case SHM_READY:
        deliver(h,
                (struct item){.kind = ITEM_READY, .peer = c->peer, .incarnation = c->incarnation});
        break;
    case SHM_ACK:
        take_ack(h, c, m);
        break;
    case SHM_FETCH:
        if (c->peer->role != SHM_HOST || h->s->self->role != SHM_HOST)
            malformed(h, c, "fetch between others than hosts");
        else
            send_held(h, c, m->node);
        break;
    case SHM_SIZES:
        take_sizes(h, c, m);
        break;
    default:
        malformed(h, c, "type");
    }
}

void take_message(struct helper *h, struct connection *c, const void *data, size_t bytes,
                  const int *fds, int fds_count)
{
    struct shm_message m;

    if (bytes != sizeof m) {
        malformed(h, c, "size");
    } else {
        memcpy(&m, data, sizeof m);
        m.text[sizeof m.text - 1] = 0;
        if (m.magic != SHM_WIRE_MAGIC)
            malformed(h, c, "not ours");
        else if (m.type == SHM_REFUSE) {
            helper_warn(h, "%s was refused by %s: %s", h->s->self->name,
                        c->target ? c->target->name : "a caller", m.text);
            c->doomed = true;
        } else if ((m.type == SHM_HELLO) == (c->peer != NULL))
            malformed(h, c, c->peer ? "second hello" : "no hello");
        else if (m.type == SHM_HELLO && fds_count == 0)
            take_hello(h, c, &m);
        else
            take_known(h, c, &m, fds, fds_count);
    }
    pthread_cond_broadcast(&h->s->changed);
}

void take_acks(struct helper *h)
{
    struct shm *s = h->s;

    if (!s->grant_ready)
        return;
    for (uint32_t i = 0; i < h->count; i++) {
        struct connection *c = h->connections[i];
        if (!c->peer || c->doomed || c->direct <= c->ack_sent)
            continue;
        uint32_t segments = (uint32_t)c->direct;
        if (c->peer->role == SHM_HOST && segments) {
            /* Before the writer hears that its writes count here, whoever raises or reads here
             * can see which memory they are in. Pairs with gens_adopted. */
            _Atomic uint64_t *gen = &s->grant->gen[c->peer->node];
            if (atomic_load(gen) < c->direct) {
                atomic_store(gen, c->direct);
                atomic_fetch_add(&s->grant->gen_changes, 1);
            }
        }
        struct shm_message m = message_of(s, SHM_ACK);
        m.incarnation = c->incarnation;
        m.index = segments;
        connection_send(h, c, &m, -1);
        c->ack_sent = c->direct;
    }
}

static void send_item(struct helper *h, struct connection *c, uint32_t node, enum item_kind kind,
                      const struct held *held, int fd)
{
    struct shm_message m = message_of(h->s, SHM_ITEM);

    m.node = node;
    m.kind = kind;
    if (held) {
        m.incarnation = held->incarnation;
        m.index = held->index;
    }
    connection_send(h, c, &m, fd);
}

void send_held(struct helper *h, struct connection *c, uint32_t node)
{
    struct peer *w = peer_of(h->s, node);

    if (!w || w == h->s->self)
        return;
    if (w->grant_fd >= 0 && c->peer->role == SHM_HOST)
        send_item(h, c, node, ITEM_GRANT, NULL, w->grant_fd);
    for (uint32_t i = 0; i < w->held_count; i++)
        send_item(h, c, node, ITEM_SEGMENT, &w->held[i], w->held[i].fd);
}
