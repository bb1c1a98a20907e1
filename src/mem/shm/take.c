#include "mem/shm/wire.h"

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

/* A host whose disk is older than what ours knows of it. */
static void refuse_old_disk(struct helper *h, struct connection *c, const struct peer *p,
                            uint32_t life)
{
    struct shm_message m = message_of(h->s, SHM_REFUSE);

    m.kind = SHM_REFUSE_LIFE;
    m.index = p->known - 1;
    snprintf(
        m.text, sizeof m.text,
        "host %s comes in life %u after life %u; its disk is older than what it has had, and must "
        "not be used",
        p->name, life, p->known - 1);
    helper_warn(h, "refused a connection to %s: %s", h->s->self->name, m.text);
    connection_send(h, c, &m, -1);
    c->doomed = true;
}

static void take_refusal(struct helper *h, struct connection *c, const struct shm_message *m)
{
    struct shm *s = h->s;

    helper_warn(h, "%s was refused by %s: %s", s->self->name,
                c->target ? c->target->name : "a caller", m->text);
    c->doomed = true;
    /* Of those whom we have called it is known who they are. */
    if (m->kind == SHM_REFUSE_LIFE && s->lives && c->target && m->index > s->mem.life) {
        atomic_store(&s->outlived, m->index + 1);
        h->ring = true;
    }
}

static void malformed(struct helper *h, struct connection *c, const char *what)
{
    helper_warn(h, "%s: malformed message from %s (%s); connection closed", h->s->self->name,
                c->peer ? c->peer->name : "an unknown process", what);
    c->doomed = true;
}

/* What somebody shares cannot be taken over for want of memory or of descriptors. What is left out comes
 * again with the next connection, and that not at once: there may be room by then. */
static void no_room(struct helper *h, struct connection *c, const char *why)
{
    helper_warn(h, "%s: cannot take over what other nodes share: %s; trying again",
                h->s->self->name, why);
    if (!h->s->past_closed)
        h->s->past_unmapped = true;
    if (c->end_by_ns == UINT64_MAX) {
        c->end_by_ns = h->now_ns + NO_MEMORY_WAIT_NS;
        h->ending++;
    }
}

/* What is wrong with memory that could not be mapped. */
static void not_mapped(struct helper *h, struct connection *c, const char *what)
{
    if (errno == ENOMEM)
        no_room(h, c, map_failure());
    else
        malformed(h, c, what);
}

/* Puts it in the inbox. */
static void hand_over(struct helper *h, struct item *i)
{
    struct shm *s = h->s;

    i->next = NULL;
    i->losses_fd = i->peer->lock_fd;
    *s->inbox_tail = i;
    s->inbox_tail = &i->next;
    atomic_fetch_add_explicit(&s->inbox_count, 1, memory_order_release);
    h->ring = true;
}

/* Hands the poller what came, in the spare item. */
static void deliver(struct helper *h, struct item item)
{
    struct item *i = h->spare;

    h->spare = NULL;
    *i = item;
    hand_over(h, i);
}

static bool have_spare(struct helper *h)
{
    return h->spare || (h->spare = malloc(sizeof *h->spare));
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

    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &room) < 0 ||
        (!s->mem.hostile && who.uid != geteuid())) {
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
    /* It may have come between our look and our call. */
    if (s->self->role == SHM_CLIENT && cluster_is_over(s)) {
        refuse(h, c, "client %s belongs to a cluster that is over", s->self->name);
        return NULL;
    }
    if (s->lives && m->role == SHM_CLIENT && !lives_is_place(s, m->node, m->name)) {
        refuse(h, c, "process %d says it is node %u, client %s; that is no place for clients",
               who.pid, m->node, m->name);
        return NULL;
    }
    struct peer *p = peer_of(s, m->node);
    if (s->mem.hostile && p != c->from) {
        refuse(h, c, "process %d with uid %u, which is %s, says it is node %u, %s", who.pid,
               who.uid, c->from->name, m->node, m->name);
        return NULL;
    }
    if (!p && m->role == SHM_CLIENT && s->self->role == SHM_HOST)
        p = peer_add(s, m->node, m->name, SHM_CLIENT);
    if (p && p->role == SHM_CLIENT && !p->name[0])
        memcpy(p->name, m->name, sizeof p->name);
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
    if (p->role == SHM_HOST && m->life + 1 < p->known) {
        refuse_old_disk(h, c, p, m->life);
        return NULL;
    }
    if (m->life + 1 < p->lives) {
        refuse(h, c,
               "node %s comes with life %u after life %u; was its directory removed while "
               "the cluster ran?",
               p->name, m->life, p->lives - 1);
        return NULL;
    }
    /* Which life it is in is counted where it has its lock; it cannot claim another one. */
    if (p->role == SHM_CLIENT && !s->mem.hostile && m->life + 1 != node_lives(s, p->name)) {
        refuse(h, c, "process %d says that it is client %s in life %u; its lock file says %u lives",
               who.pid, p->name, m->life, node_lives(s, p->name));
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

static void begin_life(struct helper *h, struct connection *c, struct peer *p, uint32_t life)
{
    if (p->lives == life + 1)
        return;
    p->lives = life + 1;
    p->answered = false;
    if (atomic_load(&p->lives_over) < life)
        atomic_store(&p->lives_over, life);
    if (p->role == SHM_CLIENT) {
        /* The end of its connection tells enough, and there may be thousands. What we write to it stays,
         * but the new process has not mapped it. */
        atomic_store(&p->acked, 0);
        if (!h->s->mem.hostile)
            return;
    }
    watch_end(h, p, peer_pidfd(c->fd));
}

/* The answer to a hello: everything we have that the other may need. */
static void send_answer(struct helper *h, struct connection *c)
{
    send_own(h, c);
    /* A host gets the memory of all hosts, dead or alive, its own of an earlier life too: one that
     * restarts may be asked for any of it. */
    if (c->peer->role == SHM_HOST && h->s->self->role == SHM_HOST && !h->s->mem.hostile)
        for (uint32_t i = 0; i < h->s->hosts_count; i++)
            send_held(h, c, h->s->hosts[i]->node);
    struct shm_message m = message_of(h->s, SHM_ANSWERED);
    connection_send(h, c, &m, -1);
}

static void take_hello(struct helper *h, struct connection *c, const struct shm_message *m)
{
    struct peer *p = identify(h, c, m);

    if (!p)
        return;
    begin_life(h, c, p, m->life);
    if (p->lock_fd < 0 && p->role == SHM_HOST && !h->s->mem.hostile)
        p->lock_fd = losses_open(h->s, p->name);
    p->connection[p->connections++] = c;
    c->peer = p;
    if (c->end_by_ns != UINT64_MAX)
        h->ending--;
    c->end_by_ns = UINT64_MAX;
    c->life = m->life;
    c->direct = version_of(m->life, 0);
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

static void take_voice(struct helper *h, struct connection *c, int fd)
{
    struct voice *v = memory_map_sure(fd, sizeof *v);

    if (!v) {
        not_mapped(h, c, "voice");
        return;
    }
    if (v->magic != SHM_VOICE_MAGIC) {
        munmap(v, sizeof *v);
        malformed(h, c, "voice");
        return;
    }
    deliver(h, (struct item){.kind = ITEM_BELL, .peer = c->peer, .at = v});
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
    deliver(h, (struct item){.kind = ITEM_LIFE, .peer = c->peer, .life = c->life, .at = l});
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
    if (w->lock_fd < 0)
        w->lock_fd = losses_open(s, w->name);
    deliver(h, (struct item){.kind = ITEM_GRANT, .peer = w, .at = g});
}

/* ---- segments and their parts ----
 *
 * A segment comes with the number of parts that the outlet has so far; more parts of it are told of later.
 * Whatever way they come, the parts of a life are taken one after the other and each once. */

void past_drop(struct shm *s)
{
    while (s->past_parts) {
        struct part *p = s->past_parts;
        s->past_parts = p->next;
        free(p);
    }
    s->past_parts_tail = &s->past_parts;
    for (uint32_t i = 0; i < s->past_count; i++)
        segment_free(s->past[i]);
    s->past_count = 0;
}

/* The grant is there once it is decided that our memory is whole, before anything is acknowledged: what is
 * taken in between would be acknowledged, and then count as all there was. */
static bool relies_on_lost(struct shm *s, struct peer *w, uint32_t broken)
{
    return s->grant && w->role == SHM_HOST && content_missing(s->grant, w->node, broken);
}

/* The poller has the mapping and frees it; what is given up here is that we can hand it on. */
static void drop_held(struct peer *w)
{
    for (uint32_t i = 0; i < w->held_count; i++) {
        if (w->held[i]->fd >= 0)
            close(w->held[i]->fd);
        w->held[i]->fd = -1;
    }
    w->held_count = 0;
}

static void take_part(struct helper *h, struct peer *w, struct part *p)
{
    struct shm *s = h->s;
    const uint64_t version = version_of(p->segment->life, p->number + 1);

    if (w == s->self) {
        *s->past_parts_tail = p;
        s->past_parts_tail = &p->next;
        s->past_version = version;
        s->past_broken = p->segment->broken;
    } else {
        w->held_version = version;
        p->item = (struct item){.kind = ITEM_SEGMENT, .peer = w, .part = p};
        hand_over(h, &p->item);
    }
}

void take_gone(struct helper *h, struct peer *p)
{
    if (!have_spare(h))
        return; /* it stays until somebody takes the place */
    drop_held(p);
    deliver(h, (struct item){.kind = ITEM_GONE, .peer = p, .life = p->lives - 1});
}

/* Of a node that may lie no more than it needs: every lane and part takes memory of ours. */
static bool part_bounded(const struct shm *s, struct peer *w, const struct part *p)
{
    if (!s->mem.hostile)
        return true;
    if (p->number == 0)
        w->trust.lanes = 0;
    w->trust.lanes += p->lanes;
    errno = EINVAL;
    return w->trust.lanes <= TRUST_LANES_MAX && p->number < TRUST_PARTS_MAX;
}

/* How large a segment of it may be. */
static uint64_t bytes_left(const struct shm *s, const struct peer *w, uint32_t index)
{
    const uint64_t most = w->role == SHM_HOST ? TRUST_HOST_BYTES_MAX : TRUST_CLIENT_BYTES_MAX;

    if (!s->mem.hostile)
        return UINT64_MAX;
    return index == 0 ? most : most - w->trust.bytes;
}

static void bytes_taken(struct peer *w, const struct segment *g)
{
    w->trust.bytes = (g->index == 0 ? 0 : w->trust.bytes) + g->bytes;
}

/* Takes the parts of a segment up to that number of the outlet. False: they are not there. */
static bool take_parts(struct helper *h, struct peer *w, struct segment *g, uint32_t upto)
{
    while (g->first + g->parts < upto) {
        struct segment **before = w == h->s->self ? h->s->past : w->held;
        struct part *p = part_next(g, before, w->node, h->s->mem.self, h->s->mem.hostile);
        if (!p || !part_bounded(h->s, w, p)) {
            free(p);
            return false;
        }
        take_part(h, w, p);
    }
    return true;
}

/* Has this segment, or the next parts of it, been expected? What came before must be here, and a life
 * begins with its first. */
static bool fits_behind(uint64_t have, const struct segment *g, uint32_t count)
{
    return version_life(have) == version_life(version_of(g->life, 0))
               ? g->index == count && g->first == (uint32_t)have
               : g->index == 0 && g->first == 0;
}

/* A new segment of ours from a life before, or of a peer. */
static bool take_new_segment(struct helper *h, struct connection *c, struct peer *w,
                             struct segment *g, int fd)
{
    struct shm *s = h->s;

    if (w == s->self) {
        if (!fits_behind(s->past_version, g, s->past_count))
            return false;
        if (g->index == 0)
            past_drop(s);
        s->past[s->past_count++] = g;
        return true;
    }
    if (!fits_behind(w->held_version, g, w->held_count))
        return false;
    if (relies_on_lost(s, w, g->broken)) {
        helper_warn(h,
                    "%s came back without memory that it had written and that counts at %s; "
                    "its new memory is not taken until %s is restarted",
                    w->name, s->self->name, s->self->name);
        return false;
    }
    /* Only hosts hand on memory, and only that of hosts. */
    if (w->role == SHM_HOST && s->self->role == SHM_HOST) {
        g->fd = keep_fd(fd);
        if (g->fd < 0) {
            no_room(h, c, "no descriptor left (see ulimit -n)");
            return false;
        }
    }
    if (g->index == 0)
        drop_held(w);
    w->held[w->held_count++] = g;
    return true;
}

/* The segments of the same life that were taken before it; NULL: they were not. */
static struct segment **before_of(struct shm *s, struct peer *w, const struct segment *g)
{
    uint64_t have = w == s->self ? s->past_version : w->held_version;
    uint32_t count = w == s->self ? s->past_count : w->held_count;
    bool follows = version_life(have) == version_life(version_of(g->life, 0)) && g->index == count;

    return !follows ? NULL : w == s->self ? s->past : w->held;
}

/* Maps the segment and takes its first part. False if it cannot be or is not to be taken. */
static bool begin_segment(struct helper *h, struct connection *c, struct peer *w,
                          const struct shm_message *m, int fd)
{
    struct segment *g = segment_map(fd, m->node, bytes_left(h->s, w, m->index));

    if (!g) {
        not_mapped(h, c, "segment");
        return false;
    }
    struct part *first = NULL;
    errno = EINVAL;
    if (g->life == m->life && g->index == m->index && m->parts > g->first)
        first = part_next(g, before_of(h->s, w, g), w->node, h->s->mem.self, h->s->mem.hostile);
    if (first && !part_bounded(h->s, w, first)) {
        free(first);
        first = NULL;
    }
    if (!first)
        not_mapped(h, c, "segment");
    if (!first || !take_new_segment(h, c, w, g, fd)) {
        free(first);
        segment_free(g);
        return false;
    }
    bytes_taken(w, g);
    take_part(h, w, first);
    return true;
}

static bool segment_known(const struct shm *s, const struct peer *w, const struct shm_message *m)
{
    uint64_t have = w == s->self ? s->past_version : w->held_version;
    uint32_t count = w == s->self ? s->past_count : w->held_count;

    return version_life(have) > version_life(version_of(m->life, 0)) ||
           (version_life(have) == version_life(version_of(m->life, 0)) && m->index < count);
}

/* A segment (with its descriptor) or more parts of one that we have (fd -1). */
static void take_segment(struct helper *h, struct connection *c, const struct shm_message *m,
                         int fd)
{
    struct shm *s = h->s;
    struct peer *w = peer_of(s, m->node);

    if (!w || (w != s->self && w != c->peer && w->role != SHM_HOST) ||
        m->index >= SHM_SEGMENTS_MAX || m->parts > SHM_PARTS_MAX) {
        malformed(h, c, "segment of an unknown node");
        return;
    }
    if (w->role == SHM_CLIENT && w != s->self && (w != c->peer || m->life != c->life)) {
        malformed(h, c, "segment of another life");
        return;
    }
    if (s->mem.hostile && m->life != c->life) {
        malformed(h, c, "segment of another life");
        return;
    }
    if (w == s->self && (s->grant_ready || s->past_closed || m->life >= s->mem.life))
        return;
    /* Parts of what we do not have: it was refused. */
    if (!segment_known(s, w, m) && (fd < 0 || !begin_segment(h, c, w, m, fd)))
        return;
    struct segment **list = w == s->self ? s->past : w->held;
    uint64_t have = w == s->self ? s->past_version : w->held_version;
    bool same_life = version_life(have) == version_life(version_of(m->life, 0));
    if (same_life && !take_parts(h, w, list[m->index], m->parts)) {
        not_mapped(h, c, "part of a segment");
        return;
    }
    uint64_t version = version_of(m->life, m->parts);
    if (c->peer == w && m->life == c->life && version <= w->held_version && version > c->direct)
        c->direct = version;
}

static void take_item(struct helper *h, struct connection *c, const struct shm_message *m, int fd)
{
    if (m->kind <= ITEM_LIFE && m->node != c->peer->node) {
        malformed(h, c, "bell or life of another node");
        return;
    }
    if (h->s->mem.hostile &&
        (m->node != c->peer->node || m->kind == ITEM_LIFE || m->kind == ITEM_GRANT)) {
        malformed(h, c, "memory that it does not write");
        return;
    }
    switch (m->kind) {
    case ITEM_BELL:
        if (h->s->mem.hostile)
            take_voice(h, c, fd);
        else
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
    uint64_t version = version_of(m->life, m->parts);

    if (m->life != s->mem.life || m->parts > c->parts_sent) {
        malformed(h, c, "acknowledgement of what was never sent");
        return;
    }
    if (c->life + 1 == c->peer->lives && version > atomic_load(&c->peer->acked)) {
        atomic_store_explicit(&c->peer->acked, version, memory_order_release);
        if (c->peer->role == SHM_CLIENT)
            deliver(h, (struct item){.kind = ITEM_MAPPED, .peer = c->peer});
    }
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
    if (!have_spare(h)) {
        no_room(h, c, "no memory");
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
        deliver(h, (struct item){.kind = ITEM_READY, .peer = c->peer, .life = c->life});
        break;
    case SHM_PARTS:
        if (h->s->mem.hostile && m->node != c->peer->node)
            malformed(h, c, "parts of another node");
        else
            take_segment(h, c, m, -1);
        break;
    case SHM_ACK:
        take_ack(h, c, m);
        break;
    case SHM_FETCH:
        if (c->peer->role != SHM_HOST || h->s->self->role != SHM_HOST || h->s->mem.hostile)
            malformed(h, c, "fetch between others than hosts");
        else
            send_held(h, c, m->node);
        break;
    case SHM_SIZES:
        take_sizes(h, c, m);
        break;
    case SHM_ENDED:
        if (m->life == h->s->mem.life)
            deliver(h, (struct item){.kind = ITEM_ENDED, .peer = c->peer, .number = m->parts});
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
        else if (m.type == SHM_REFUSE)
            take_refusal(h, c, &m);
        else if ((m.type == SHM_HELLO) == (c->peer != NULL))
            malformed(h, c, c->peer ? "second hello" : "no hello");
        else if (m.type == SHM_HELLO && fds_count == 0)
            take_hello(h, c, &m);
        else
            take_known(h, c, &m, fds, fds_count);
    }
    pthread_cond_broadcast(&h->s->changed);
}

void expel(struct helper *h, struct peer *p, uint32_t life, const char *why)
{
    for (uint32_t i = 0; i < p->connections; i++)
        if (p->connection[i]->life == life)
            refuse(h, p->connection[i], "%s", why);
}

void send_ack(struct helper *h, struct connection *c)
{
    struct shm *s = h->s;

    if (!s->grant_ready || !c->peer || c->doomed || c->direct <= c->ack_sent)
        return;
    uint32_t parts = (uint32_t)c->direct;
    if (c->peer->role == SHM_HOST && s->self->role == SHM_HOST && parts) {
        /* Before the writer hears that its writes count here, whoever raises or reads here
         * can see which memory they are in. Pairs with gens_adopted. */
        _Atomic uint64_t *gen = &s->grant->gen[c->peer->node];
        if (atomic_load(gen) < c->direct) {
            atomic_store(gen, c->direct);
            atomic_fetch_add(&s->grant->gen_changes, 1);
        }
    }
    struct shm_message m = message_of(s, SHM_ACK);
    m.life = c->life;
    m.parts = parts;
    connection_send(h, c, &m, -1);
    c->ack_sent = c->direct;
}

void send_held(struct helper *h, struct connection *c, uint32_t node)
{
    struct peer *w = peer_of(h->s, node);

    if (!w || w == h->s->self || c->peer->role != SHM_HOST)
        return;
    struct shm_message m = message_of(h->s, SHM_ITEM);
    m.node = node;
    if (w->grant_fd >= 0) {
        m.kind = ITEM_GRANT;
        connection_send(h, c, &m, w->grant_fd);
    }
    for (uint32_t i = 0; i < w->held_count; i++) {
        const struct segment *g = w->held[i];
        m.kind = ITEM_SEGMENT;
        m.life = g->life;
        m.index = g->index;
        m.parts = g->first + g->parts;
        connection_send(h, c, &m, g->fd);
    }
}
