/* Links: the stage, what leaves it, and what comes. */
#include "mem/tcp/impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- beginning and end ---- */

static bool watch(const struct tcp_link *l, int how, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = (void *)(uintptr_t)l};

    return epoll_ctl(tcp_node(l)->epoll_fd, how, l->fd, &e) == 0;
}

struct tcp_link *tcp_link_new(struct tcp *t, struct arrival *a)
{
    struct tcp_link *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->link.node = &t->far;
    l->fd = a->fd;
    l->end = a->end;
    l->who = a->who;
    l->address = a->address;
    l->clear = tls_end_clear(a->end);
    l->out_flow_free = UINT32_MAX;
    l->stage_most = 2 * (size_t)STAGE_BYTES_MIN;
    l->stage_room = STAGE_FIRST;
    l->stage = malloc(l->stage_room);
    l->in = malloc(IN_BYTES);
    if (!l->stage || !l->in || !watch(l, EPOLL_CTL_ADD, EPOLLIN)) {
        free(l->stage);
        free(l->in);
        free(l);
        return NULL;
    }
    a->fd = -1;
    a->end = NULL;
    return l;
}

void tcp_stop(struct link *link)
{
    struct tcp_link *l = tcp_link(link);

    /* A last word, if there is room for it: why it was refused, or that we leave. */
    if (!link->fault || link->state == LINK_REFUSED)
        tcp_push(l);
    /* A child of this process may have the socket too, between its fork and its exec at least: closing it alone would
     * neither end the connection nor keep what comes over it from us. */
    epoll_ctl(tcp_node(l)->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
    shutdown(l->fd, SHUT_RDWR);
    close(l->fd);
    l->fd = -1;
}

void tcp_freed(struct link *link)
{
    struct tcp_link *l = tcp_link(link);

    tls_end_free(l->end);
    free(l->stage);
    free(l->in);
    free(l->out_flow);
    free(l->in_flow);
    free(l->answer);
    free(l->ask);
    free(l);
}

bool tcp_room(struct link *link, uint64_t bytes)
{
    struct tcp_link *l = tcp_link(link);

    /* Small writes have a head and a guard each. */
    if (2 * bytes > l->stage_most)
        l->stage_most = 2 * bytes;
    return true;
}

bool tcp_sent(const struct link *link)
{
    const struct tcp_link *l = tcp_link(link);
    size_t bytes = 0;

    if (!l->clear)
        tls_out(l->end, &bytes);
    return l->stage_tail == l->stage_head && bytes == 0;
}

/* ---- the stage ---- */

static bool stage_grow(struct tcp_link *l, size_t used, size_t bytes)
{
    size_t room = 2 * l->stage_room;

    while (room < used + bytes)
        room *= 2;
    unsigned char *more = malloc(room);
    if (!more)
        return false;
    memcpy(more, l->stage + l->stage_tail, used);
    free(l->stage);
    l->stage = more;
    l->stage_room = room;
    return true;
}

/* Makes room for so many bytes at its head. */
static bool stage_make_room(struct tcp_link *l, size_t bytes)
{
    size_t used = l->stage_head - l->stage_tail;
    /* Moving is to cost no more than what was sent since it was last done. */
    bool crowded = l->stage_tail < used && l->stage_room < l->stage_most;

    if (used + bytes > l->stage_room || crowded) {
        if (!stage_grow(l, used, bytes))
            return false;
    } else {
        memmove(l->stage, l->stage + l->stage_tail, used);
    }
    l->stage_head = used;
    l->stage_tail = 0;
    return true;
}

/* What is written to the other side's memory, and may be lost for want of room without ending the link. */
static bool is_write(const struct tcp_frame *f)
{
    return f->kind == TCP_OPEN || f->kind == TCP_PUT || f->kind == TCP_SET || f->kind == TCP_MARK;
}

/* Where a frame with so many words may be written. NULL: there is no room. */
static void *stage_take(struct tcp_link *l, struct tcp_frame f)
{
    size_t bytes = tcp_frame_bytes(&f), used = l->stage_head - l->stage_tail;

    if (used + bytes > l->stage_most + (is_write(&f) ? 0 : STAGE_RESERVE))
        return NULL;
    if (l->stage_head + bytes > l->stage_room && !stage_make_room(l, bytes))
        return NULL;
    unsigned char *at = l->stage + l->stage_head;
    memcpy(at, &f, sizeof f);
    l->stage_head += bytes;
    link_dirty(&l->link);
    return at + sizeof f;
}

bool tcp_frame_add(struct tcp_link *l, struct tcp_frame f, const void *words)
{
    void *at = stage_take(l, f);

    if (at && f.words > 0)
        memcpy(at, words, 8ul * f.words);
    return at != NULL;
}

bool tcp_send(struct link *link, uint32_t kind, const void *items, uint32_t count)
{
    uint32_t bytes = far_message_bytes((enum far_kind)kind, count);
    struct far_head head = {.kind = (uint16_t)kind, .count = (uint16_t)count, .bytes = bytes};
    unsigned char *at = stage_take(
        tcp_link(link), (struct tcp_frame){.kind = TCP_MESSAGE, .words = (uint16_t)(bytes / 8)});

    if (!at)
        return false;
    memcpy(at, &head, sizeof head);
    if (bytes > sizeof head)
        memcpy(at + sizeof head, items, bytes - sizeof head);
    link->told_ns = link->node->now_ns;
    return true;
}

/* ---- sending ---- */

/* Of bytes so many have left; 0: none go now. */
static size_t socket_send(struct tcp_link *l, const void *bytes, size_t count)
{
    ssize_t n = send(l->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n >= 0)
        return (size_t)n;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        l->blocked = watch(l, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
        if (!l->blocked)
            l->link.fault = "it cannot be waited for";
    } else if (errno != EINTR) {
        l->blocked = true; /* for good. What has come before is still read: it may say why */
    }
    return 0;
}

static void push_clear(struct tcp_link *l)
{
    while (l->stage_tail < l->stage_head && !l->blocked && !l->link.fault)
        l->stage_tail += socket_send(l, l->stage + l->stage_tail, l->stage_head - l->stage_tail);
}

static void push_encrypted(struct tcp_link *l)
{
    while (!l->blocked && !l->link.fault) {
        size_t bytes;
        l->stage_tail += tls_write(l->end, l->stage + l->stage_tail, l->stage_head - l->stage_tail);
        const unsigned char *out = tls_out(l->end, &bytes);
        if (bytes == 0)
            break;
        tls_out_drop(l->end, socket_send(l, out, bytes));
    }
}

void tcp_push(struct tcp_link *l)
{
    if (l->clear)
        push_clear(l);
    else
        push_encrypted(l);
    if (l->stage_tail == l->stage_head)
        l->stage_head = l->stage_tail = 0;
    l->link.told_ns = l->link.node->now_ns;
}

int tcp_post(struct link *link)
{
    struct tcp_link *l = tcp_link(link);

    if (!l->blocked)
        tcp_push(l);
    return 0;
}

/* ---- receiving ---- */

static void malformed(struct tcp_link *l, const char *why)
{
    l->link.fault = why;
    if (strcmp(why, TAKES_NOTHING) == 0)
        return;
    tcp_node(l)->malformed++;
    /* A client that is broken, or hostile, is not waited for: others may have its place, or it could take them all. */
    if (l->link.state == LINK_UP && !l->link.peer->host)
        l->link.ended = true;
}

/* Takes all frames that are whole. False: the link is to be closed. */
static bool frames_take(struct tcp_link *l)
{
    size_t at = 0;

    while (l->in_bytes - at >= sizeof(struct tcp_frame)) {
        struct tcp_frame f;
        const char *why = "it sent a frame that is too long";
        memcpy(&f, l->in + at, sizeof f);
        size_t bytes = tcp_frame_bytes(&f);
        if (f.words <= TCP_FRAME_WORDS) {
            if (l->in_bytes - at < bytes)
                break;
            why = tcp_frame_take(l, &f, (const uint64_t *)(const void *)(l->in + at + sizeof f));
        }
        if (l->link.state == LINK_CLOSED)
            return true;
        if (why) {
            malformed(l, why);
            break;
        }
        at += bytes;
    }
    l->in_bytes -= at;
    if (at > 0 && l->in_bytes > 0)
        memmove(l->in, l->in + at, l->in_bytes);
    return l->link.fault == NULL;
}

static bool ended(struct tcp_link *l, ssize_t n)
{
    if (n > 0)
        return false;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return true;
    l->link.ended = true;
    l->link.fault = n == 0 || errno == ECONNRESET ? "it ended the connection" : strerror(errno);
    return true;
}

static bool receive_clear(struct tcp_link *l)
{
    ssize_t n = recv(l->fd, l->in + l->in_bytes, IN_BYTES - l->in_bytes, MSG_DONTWAIT);

    if (ended(l, n))
        return l->link.fault == NULL;
    l->in_bytes += (size_t)n;
    return frames_take(l);
}

/* Takes what TLS has, as far as it is whole. */
static bool decrypt(struct tcp_link *l)
{
    for (;;) {
        long n = tls_read(l->end, l->in + l->in_bytes, IN_BYTES - l->in_bytes);
        if (n < 0) {
            l->link.fault = tls_why(l->end);
            return false;
        }
        if (n == 0)
            return true;
        l->in_bytes += (size_t)n;
        if (!frames_take(l) || l->link.state == LINK_CLOSED)
            return l->link.fault == NULL;
    }
}

static bool receive_encrypted(struct tcp_link *l)
{
    size_t room;
    unsigned char *to = tls_in(l->end, &room);
    ssize_t n = recv(l->fd, to, room, MSG_DONTWAIT);

    if (ended(l, n))
        return l->link.fault == NULL;
    tls_in_add(l->end, (size_t)n);
    return decrypt(l);
}

bool tcp_drain(struct tcp_link *l)
{
    return decrypt(l) && (l->link.state == LINK_CLOSED || tcp_answer_all(l));
}

void tcp_unblock(struct tcp_link *l)
{
    if (l->blocked && watch(l, EPOLL_CTL_MOD, EPOLLIN)) {
        l->blocked = false;
        link_dirty(&l->link);
    }
}

bool tcp_receive(struct tcp_link *l)
{
    l->link.heard_ns = l->link.node->now_ns;
    if (!(l->clear ? receive_clear(l) : receive_encrypted(l)))
        return false;
    return l->link.state == LINK_CLOSED || tcp_answer_all(l);
}
