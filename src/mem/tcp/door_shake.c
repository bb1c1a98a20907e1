/* From a connection to a proof of who is at its other end. */
#include "mem/tcp/door_impl.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STRANGERS_WAITING = 32, /* of whom somebody is to be told */
    HELLO_HEAD = 6,         /* the head of a record, and the kind of message */
    HELLO_BYTES_MAX = 4096, /* of the first record; ours have some hundred */
    USER_TIMEOUT_MS = 20000,
};

/* ---- pending connections ---- */

static void unlist(struct door *d, struct pending *p)
{
    *(p->prev ? &p->prev->next : &d->first) = p->next;
    *(p->next ? &p->next->prev : &d->last) = p->prev;
    d->accepted -= !p->dialed;
    p->next = d->over;
    d->over = p;
}

/* It is over; whatever still refers to it in this turn sees that. */
void door_pending_end(struct door *d, struct pending *p)
{
    if (p->watch.fd >= 0) {
        /* Not by closing it alone: a child of this process may have it too, and its events would come to nobody. */
        epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, p->watch.fd, NULL);
        shutdown(p->watch.fd, SHUT_RDWR);
        close(p->watch.fd);
    }
    p->watch.fd = -1;
    tls_end_free(p->end);
    p->end = NULL;
    unlist(d, p);
}

/* `refused`: somebody is there, and one of us does not want the other. */
void door_pending_fail(struct door *d, struct pending *p, bool refused, const char *why)
{
    struct arrival *a = NULL;

    if (p->dialed)
        a = door_arrival(DOOR_NOT, p, why);
    else if (atomic_load_explicit(&d->strangers, memory_order_relaxed) < STRANGERS_WAITING)
        a = door_arrival(DOOR_STRANGER, p, why);
    if (a) {
        a->refused = refused;
        a->by_other = p->end && tls_told(p->end);
        if (a->kind == DOOR_STRANGER)
            atomic_fetch_add_explicit(&d->strangers, 1, memory_order_relaxed);
        door_hand_over(d, a);
    }
    door_pending_end(d, p);
}

void door_free_over(struct door *d)
{
    while (d->over) {
        struct pending *p = d->over;
        d->over = p->next;
        free(p);
    }
}

struct pending *door_pending_new(struct door *d, int fd, bool dialed)
{
    struct pending *p = calloc(1, sizeof *p);
    int on = 1, timeout = USER_TIMEOUT_MS;

    if (!p)
        return NULL;
    p->watch = (struct watch){.kind = WATCH_PENDING, .fd = fd};
    p->dialed = dialed;
    p->until_ns = clock_now_ns() + DOOR_HANDSHAKE_NS;
    p->end = dialed ? tls_end_new(d->tls, false) : NULL;
    if (dialed && !p->end) {
        free(p);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    p->prev = d->last;
    *(p->prev ? &p->prev->next : &d->first) = p;
    d->last = p;
    d->accepted += !dialed;
    return p;
}

/* ---- shaking hands ---- */

/* Sends what the handshake has to say. False: later, or never, as errno says. */
static bool flush(struct pending *p)
{
    size_t bytes;

    for (const unsigned char *out; out = tls_out(p->end, &bytes), bytes > 0;) {
        ssize_t n = send(p->watch.fd, out, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return false;
        tls_out_drop(p->end, (size_t)n);
    }
    return true;
}

/* The other side has proven who it is: is it one to be here? NULL: yes. */
static const char *unwelcome(struct door *d, const struct pending *p, struct tls_peer who)
{
    struct sockaddr_storage here, there;

    if (!tls_knows(d->tls, &who)) /* that has changed since the handshake began */
        return "its key is not in the cluster file any more";
    if (p->dialed && (!who.host || who.index != p->host))
        return "who listens there has the key of another";
    if (tls_end_clear(p->end) && (!door_ends_of(p->watch.fd, &here, &there) ||
                                  !door_on_loopback(&here) || !door_on_loopback(&there)))
        return "clear text is for the loopback alone";
    if (!p->dialed && !who.host && (uint64_t)p->watch.fd + d->reserved >= d->descriptors) {
        door_count(d, COUNT_NO_ROOM);
        return "no descriptor is left for clients (ulimit -n)";
    }
    return NULL;
}

static void met(struct door *d, struct pending *p)
{
    struct tls_peer who = tls_end_peer(p->end);
    const char *why = unwelcome(d, p, who);
    struct arrival *a = why ? NULL : door_arrival(DOOR_CAME, p, NULL);

    if (!a) {
        door_pending_fail(d, p, true, why ? why : "no memory");
        return;
    }
    door_count(d, COUNT_MET);
    epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, p->watch.fd, NULL);
    a->fd = p->watch.fd;
    a->end = p->end;
    a->who = who;
    p->watch.fd = -1;
    p->end = NULL;
    door_hand_over(d, a);
    door_pending_end(d, p);
}

void door_shake(struct door *d, struct pending *p)
{
    enum tls_step step = tls_handshake(p->end);
    bool sent = flush(p);

    if (step == TLS_FAILED) {
        door_count(d, COUNT_STRANGERS);
        door_pending_fail(d, p, true, tls_why(p->end));
    } else if (!sent && errno != EAGAIN && errno != EWOULDBLOCK) {
        door_pending_fail(d, p, false, strerror(errno));
    } else if (step == TLS_READY && sent) {
        met(d, p);
    } else if (sent == p->sends) { /* else it is waited for what is to be waited for */
        p->sends = !sent;
        if (!door_watch(d, &p->watch, EPOLL_CTL_MOD, EPOLLIN | (sent ? 0 : (uint32_t)EPOLLOUT)))
            door_pending_fail(d, p, false, strerror(errno));
    }
}

void door_connected(struct door *d, struct pending *p)
{
    struct sockaddr_storage here, there;
    int error = 0;
    socklen_t bytes = sizeof error;

    if (getsockopt(p->watch.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
        error = errno;
    if (error == 0 && !door_ends_of(p->watch.fd, &here, &there))
        error = errno;
    if (error == 0 && door_is_itself(&here, &there))
        error = ECONNREFUSED;
    if (error) {
        door_pending_fail(d, p, false, strerror(error));
        return;
    }
    p->connecting = false;
    p->sends = true; /* that is what it was waited for */
    door_shake(d, p);
}

void door_heard(struct door *d, struct pending *p)
{
    size_t room;
    unsigned char *to = tls_in(p->end, &room);
    ssize_t n = recv(p->watch.fd, to, room, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        door_shake(d, p);
        return;
    }
    if (n <= 0) {
        door_pending_fail(d, p, false, n < 0 ? strerror(errno) : "it ended the connection");
        return;
    }
    tls_in_add(p->end, (size_t)n);
    door_shake(d, p);
}

/* ---- the first record ---- */

/* Waits until there are so many bytes, or it ends. False: that was waited for already, so it has ended. */
static bool wait_for_bytes(struct pending *p, int bytes)
{
    if (p->lowest == bytes)
        return false;
    p->lowest = bytes;
    return setsockopt(p->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0;
}

/* So many bytes are needed to go on, by those that are there; 0: they are no beginning of a ClientHello. */
static int hello_bytes(const unsigned char *head, size_t known)
{
    if (head[0] != 0x16 || (known > 1 && head[1] != 0x03))
        return 0;
    if (known < HELLO_HEAD)
        return HELLO_HEAD;
    int bytes = 5 + (head[3] << 8 | head[4]);
    return head[5] == 1 && bytes > HELLO_HEAD && bytes <= HELLO_BYTES_MAX ? bytes : 0;
}

/* Somebody who was accepted says something. Until the whole ClientHello is there, nothing is spent on it but a
 * descriptor: most strangers do not come that far. */
void door_greeted(struct door *d, struct pending *p)
{
    unsigned char head[HELLO_HEAD];
    int there = 0, one = 1;
    ssize_t n = recv(p->watch.fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        door_pending_fail(d, p, false, n < 0 ? strerror(errno) : "it ended the connection");
        return;
    }
    int bytes = hello_bytes(head, (size_t)n);
    if (bytes == 0) {
        door_count(d, COUNT_STRANGERS);
        door_pending_fail(d, p, true, "what came is no beginning of TLS");
        return;
    }
    if (ioctl(p->watch.fd, FIONREAD, &there) < 0 || there < bytes) {
        if (!wait_for_bytes(p, bytes))
            door_pending_fail(d, p, false, "it ended the connection");
        return;
    }
    p->end = tls_end_new(d->tls, true);
    if (!p->end || setsockopt(p->watch.fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one) < 0)
        door_pending_fail(d, p, false, "no memory");
    else
        door_heard(d, p);
}

void door_late_ones(struct door *d, uint64_t now)
{
    for (struct pending *p = d->first, *next; p; p = next) {
        next = p->next;
        if (now < p->until_ns)
            continue;
        door_count(d, COUNT_LATE);
        door_pending_fail(d, p, false,
                          p->connecting ? "no answer"
                          : p->dialed   ? "it did not shake hands in time"
                                        : "it did not prove who it is in time");
    }
}
