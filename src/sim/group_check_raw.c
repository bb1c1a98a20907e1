/* Raw cells: what a host delivers of a sender is what that sent, in its order, each once, and nothing is left out from when on both are
 * members. What a trim cuts off may have been delivered by some, even by its sender, and is returned nevertheless. */
#include "sim/group_check.h"

typedef unsigned long long ull;

enum { UNIQUE_BYTES = 8 }; /* shorter messages may be like others */

static const struct view *view_before(const struct group_check *c, const struct view *now)
{
    return now->vid > 1 && now->vid <= c->views_max ? c->view[now->vid - 1] : NULL;
}

/* Of its own it knows what is neither delivered nor returned. */
static uint64_t first_left(const struct group_stream *s)
{
    uint64_t i = 0;
    while (s && i < s->count && s->sent[i].state != SENT_READY && s->sent[i].state != SENT_OPEN)
        i++;
    return i;
}

void group_check_raw_begin(struct group_check *c, uint32_t host, uint32_t cell,
                           const struct view *now)
{
    struct group_host *h = &c->host[host];
    const struct view *was = h->view, *before = view_before(c, now);
    for (uint64_t rest = now->cell[cell].senders; rest; rest = set_rest(rest)) {
        uint32_t s = set_first(rest);
        struct group_taken *t = &h->cell[cell].from[s];
        bool both = was && h->cell[cell].has && in_set(was->cell[cell].senders, s) &&
                    was->life[s] == now->life[s];
        t->number = 0;
        if (both)
            continue;
        /* It has all of a sender that comes with this view, and of others from some message on. */
        t->known = s == host || (before && before->life[s] != now->life[s]);
        t->next = s == host ? first_left(h->cell[cell].stream) : 0;
    }
}

/* The message that the sender's stream has next for the host. */
static uint64_t due_of(const struct group_check *c, struct group_stream *s,
                       const struct group_taken *t, const struct member_item *m)
{
    uint64_t due = t->next;
    while (due < s->count && (s->sent[due].state == SENT_VOID ||
                              (s->sent[due].state == SENT_RETURNED &&
                               !(m && group_check_is_message(c, s, due, m->data, m->bytes)))))
        due++;
    return due;
}

/* Which message of the stream it is; its count: none. */
static uint64_t find(const struct group_check *c, struct group_stream *s,
                     const struct member_item *m)
{
    uint64_t i = 0;
    while (i < s->count && !group_check_is_message(c, s, i, m->data, m->bytes))
        i++;
    return i;
}

static void check_next(struct group_check *c, uint32_t host, struct group_stream *s,
                       struct group_taken *t, const struct member_item *m)
{
    uint64_t due = t->known ? due_of(c, s, t, m) : find(c, s, m);
    if (due < s->count && group_check_is_message(c, s, due, m->data, m->bytes)) {
        t->known |= m->bytes >= UNIQUE_BYTES;
        t->next = due + 1;
        if (host == m->sender && s->sent[due].state == SENT_READY)
            s->sent[due].state = SENT_DELIVERED;
        return;
    }
    uint64_t is = find(c, s, m);
    group_check_violated(c,
                         is == s->count ? "integrity"
                         : is < t->next ? "delivered once"
                                        : "sender FIFO",
                         c->host[host].vid,
                         "h%u delivers message %llu of h%u (%u bytes) in raw cell %u, due is %llu",
                         host, (ull)is, m->sender, m->bytes, s->cell, (ull)due);
}

void group_check_raw_deliver(struct group_check *c, uint32_t host, uint32_t cell, uint64_t vid,
                             const struct member_item *m)
{
    struct group_host *h = &c->host[host];
    const struct view_cell *v = &h->view->cell[cell];
    if (vid != h->view->vid) {
        group_check_violated(c, "same view", vid, "h%u delivers in view %llu and is in %llu", host,
                             (ull)vid, (ull)h->view->vid);
        return;
    }
    if (!in_set(v->members, host) || !in_set(v->senders, m->sender)) {
        group_check_violated(c, "integrity", vid,
                             "h%u delivers of h%u in raw cell %u, and one is no member", host,
                             m->sender, cell);
        return;
    }
    struct group_stream *s = group_check_stream(c, m->sender, cell, h->view->life[m->sender]);
    struct group_taken *t = &h->cell[cell].from[m->sender];
    if (m->client) {
        group_clients_deliver(c, host, cell, v->born, true, m);
        return;
    }
    if (s == NULL || m->number < t->number) {
        group_check_violated(c, s ? "sender FIFO" : "integrity", vid,
                             "h%u delivers index %llu of h%u in raw cell %u, after %llu", host,
                             (ull)m->number, m->sender, cell, (ull)t->number - 1);
        return;
    }
    t->number = m->number + 1;
    check_next(c, host, s, t, m);
    c->result->group.raw++;
}

bool group_check_raw_has_all(const struct group_check *c, uint32_t host, uint32_t cell)
{
    const struct group_host *h = &c->host[host];
    if (!h->view->adequate) /* nobody publishes */
        return true;
    for (uint64_t rest = h->view->cell[cell].senders; rest; rest = set_rest(rest)) {
        uint32_t sender = set_first(rest);
        struct group_stream *s = group_check_stream(c, sender, cell, h->view->life[sender]);
        const struct group_taken *t = &h->cell[cell].from[sender];
        if (s && t->known && due_of(c, s, t, NULL) < s->count)
            return false;
    }
    return true;
}
