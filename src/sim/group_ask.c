/* What the hosts of a simulated group ask each other, and whether the answers are right.
 *
 * A reply says which state it was made of: how many deliveries, and their hash. Of a call all replies are of the place in the order at which the
 * caller's message stands, one of each member of that view, and it is complete when the last of them has come or is known not to. Of a query the
 * state is one of the cell's history, and has what was asked for. */
#include "base/hash.h"
#include "sim/group_impl.h"

#include <string.h>

typedef unsigned long long ull;

/* A reply. */
struct told {
    uint64_t host, cell, question; /* question: hash of what was asked */
    uint64_t count, hash;          /* of the state */
};

enum { QUESTION_MAX = 200 };

static void violated(struct group_node *n, const char *what, uint64_t ticket, uint32_t of)
{
    group_check_violated(&n->run->check, "calls", ticket, "h%u, ticket %llu, answer of h%u: %s",
                         n->host, (ull)ticket, of, what);
}

static struct group_asked *asked_of(struct group_node *n, uint64_t ticket)
{
    for (uint32_t i = 0; i < GROUP_ASKED_MAX; i++)
        if (n->asked[i].ticket == ticket && ticket)
            return &n->asked[i];
    return NULL;
}

static struct group_asked *free_one(struct group_node *n)
{
    for (uint32_t i = 0; i < GROUP_ASKED_MAX; i++)
        if (n->asked[i].ticket == 0)
            return &n->asked[i];
    return NULL;
}

uint32_t group_ask_open(const struct group_node *n)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < GROUP_ASKED_MAX; i++)
        open += n->asked[i].ticket != 0;
    return open;
}

void group_ask_died(struct group_node *n)
{
    memset(n->asked, 0, sizeof(n->asked));
}

/* ---- replying ---- */

static uint32_t tell(const struct group_node *n, uint32_t cell, const void *data, uint32_t bytes,
                     void *out, uint32_t room)
{
    const struct counter_machine_state *s = n->run->check.host[n->host].cell[cell].state;
    const struct told t = {n->host, cell, hash_bytes(0, data, bytes), s->count, s->hash};
    memcpy(out, &t, sizeof(t) < room ? sizeof(t) : room);
    return sizeof(t);
}

uint32_t group_ask_call(struct group_node *n, uint32_t cell, const struct member_item *m,
                        void *reply, uint32_t room)
{
    return tell(n, cell, m->data, m->bytes, reply, room);
}

int group_ask_query(struct group_node *n, uint32_t cell, uint32_t from, const void *data,
                    uint32_t bytes, void *reply, uint32_t room)
{
    const struct group_host *h = &n->run->check.host[n->host];
    if (h->view == NULL || !in_set(h->view->members, from))
        group_check_violated(&n->run->check, "calls", 0, "h%u is asked by h%u, who is no member",
                             n->host, from);
    uint64_t vid = 0;
    if (bytes >= sizeof(vid))
        memcpy(&vid, data, sizeof(vid));
    if (h->view && vid > h->view->vid)
        group_check_violated(&n->run->check, "calls", vid,
                             "h%u is in view %llu, and answers what h%u asks in view %llu", n->host,
                             (ull)h->view->vid, from, (ull)vid);
    return (int)tell(n, cell, data, bytes, reply, room);
}

/* ---- asking ---- */

static bool ask_call(struct group_node *n, struct group_asked *a, uint32_t cell)
{
    unsigned char data[GROUP_CHECK_BYTES_MAX];
    struct group_check *c = &n->run->check;
    uint32_t bytes = (uint32_t)rng_below(&n->run->fleet.rng, QUESTION_MAX);
    if (n->quota == 0 || !in_set(c->host[n->host].view->cell[cell].senders, n->host))
        return false;
    a->lease = group_check_reserve(c, n->host, cell);
    group_check_fill(c, a->lease, data, bytes);
    int rc = member_call(n->member, cell, data, bytes, a->reply_max, &a->ticket);
    if (rc != 0) {
        group_check_release(a->lease);
        if (rc != ERR_AGAIN && rc != ERR_TOOBIG &&
            (rc != ERR_INVALID || !group_check_is_raw(c, cell)))
            violated(n, "a call is refused", 0, n->host);
        return false;
    }
    group_check_commit(a->lease, bytes);
    a->call = true;
    a->bytes = bytes;
    a->question = hash_bytes(0, data, bytes);
    n->quota--;
    return true;
}

static bool ask_query(struct group_node *n, struct group_asked *a, uint32_t cell)
{
    unsigned char data[QUESTION_MAX];
    struct rng *g = &n->run->fleet.rng;
    const struct group_check *c = &n->run->check;
    const struct group_host *h = &c->host[n->host];
    uint32_t bytes = (uint32_t)rng_below(g, QUESTION_MAX);
    uint32_t to = rng_below(g, 3) ? (uint32_t)rng_below(g, c->hosts) : MEMBER_ANY;
    for (uint32_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)rng_u64(g);
    if (bytes >= sizeof(h->vid)) /* so that who is asked can be seen not to be in an earlier view */
        memcpy(data, &h->vid, sizeof(h->vid));
    bool own = h->cell[cell].has && !h->cell[cell].behind && !group_check_is_raw(c, cell) &&
               rng_below(g, 2);
    /* The member's word for what is in the own state: that may have come whole, with no delivery behind it. */
    uint64_t version = own ? member_version(n->member, cell) : 0;
    int rc = member_query(n->member, cell, to, version, data, bytes, a->reply_max, &a->ticket);
    if (rc != 0 && rc != ERR_AGAIN && rc != ERR_REFUSED)
        violated(n, "a query is refused", 0, n->host);
    a->count = version ? h->cell[cell].state->count : 0;
    a->question = hash_bytes(0, data, bytes);
    a->to = to;
    return rc == 0;
}

void group_ask_some(struct group_node *n)
{
    struct rng *g = &n->run->fleet.rng;
    struct group_asked *a = free_one(n);
    uint32_t cell = (uint32_t)rng_below(g, n->run->check.cells);
    if (a == NULL || n->run->check.host[n->host].view == NULL)
        return;
    *a = (struct group_asked){.cell = cell, .vid = n->run->check.host[n->host].view->vid};
    a->reply_max = rng_below(g, 8) ? sizeof(struct told) + (uint32_t)rng_below(g, 100)
                                   : (uint32_t)rng_below(g, sizeof(struct told));
    bool call = rng_below(g, 2);
    if (!(call ? ask_call(n, a, cell) : ask_query(n, a, cell))) {
        a->ticket = 0;
        return;
    }
    n->run->check.result->group.asked++;
    chaos_trace(&n->run->fleet.chaos, "h%u %s, ticket %llu, cell %u", n->host,
                call ? "calls" : "queries", (ull)a->ticket, cell);
}

/* ---- answers ---- */

/* The history that the asker's view has, where the state stood. */
static const char *wrong_state(const struct group_node *n, const struct group_asked *a,
                               const struct told *t)
{
    const struct group_check *c = &n->run->check;
    const struct view *v = member_view(n->member);
    if (group_check_is_raw(c, a->cell) || c->stateless || v == NULL)
        return NULL;
    if (a->vid < c->lost_vid[a->cell]) /* it may be of what is lost since */
        return NULL;
    const struct group_history *y = group_check_history(c, v, a->cell);
    uint64_t have = y ? y->count : 0;
    if (t->count > have)
        return "it is of a state that nobody has";
    if (t->count && y->delivery[t->count - 1].hash != t->hash)
        return "it is of another state than the cell had there";
    if (t->count < a->count)
        return "it is older than what was asked for";
    if (a->call && (t->count == 0 || y->delivery[t->count - 1].sender != n->host))
        return "it is not of the place of the call";
    return NULL;
}

static const char *wrong_reply(struct group_node *n, struct group_asked *a,
                               const struct member_answer *r)
{
    struct told t;
    if (r->bytes != sizeof(t))
        return "it has another length";
    memcpy(&t, r->data, sizeof(t));
    if (t.host != r->host || t.cell != a->cell || t.question != a->question)
        return "it is the answer to another question";
    if (a->call && a->place && a->place != t.count)
        return "it is of another place than that of others";
    a->place = t.count;
    return wrong_state(n, a, &t);
}

/* Why there may be no reply. */
static const char *wrong_status(struct group_node *n, const struct group_asked *a,
                                const struct member_answer *r)
{
    const struct group_check *c = &n->run->check;
    const struct view *v = member_view(n->member), *newest = keeper_view(member_keeper(n->member));
    /* Who has passed over its own call learns in which view from its own answer, which may come last. */
    uint64_t at = !a->call ? a->vid : a->delivered ? a->delivered : v ? v->vid - 1 : 0;
    const struct view *then = c->view[at];
    bool out = v == NULL || newest->life[n->host] != v->life[n->host];
    switch (r->status) {
    case ERR_TOOBIG:
        return a->reply_max < sizeof(struct told) ? NULL : "there was room for it";
    case ERR_LOST:
        return out || v->life[r->host] != then->life[r->host] ? NULL : "it is not lost";
    case ERR_AGAIN:
        return (c->stateless && !c->tables) || group_check_is_raw(c, a->cell) ? "it needs no state"
                                                                              : NULL;
    case ERR_REFUSED:
        return a->call && r->host != n->host ? "it refuses a call" : NULL;
    default:
        return "its status is none that it could have";
    }
}

static void returned(struct group_node *n, const struct group_asked *a)
{
    unsigned char data[GROUP_CHECK_BYTES_MAX];
    group_check_fill(&n->run->check, a->lease, data, a->bytes);
    group_load_void(n, a->cell);
    group_check_returned(&n->run->check, n->host, a->cell, data, a->bytes);
}

/* All members of the view in which it was delivered have answered, and nobody else. */
static void check_whole(struct group_node *n, const struct group_asked *a, uint64_t ticket)
{
    const struct group_check *c = &n->run->check;
    uint64_t due = a->call || a->to == MEMBER_ANY ? 0 : set_of(a->to);
    if (a->lost || a->to == MEMBER_ANY)
        due = a->answered;
    else if (a->call && a->delivered)
        due = c->view[a->delivered]->cell[a->cell].members;
    if (a->answered != due || due == 0)
        violated(n, "it is complete, and somebody's answer is missing", ticket,
                 due & ~a->answered ? set_first(due & ~a->answered) : n->host);
}

void group_ask_delivered(struct group_node *n, uint32_t cell, const struct member_item *m,
                         uint64_t vid)
{
    uint64_t hash = hash_bytes(0, m->data, m->bytes);
    for (uint32_t i = 0; i < GROUP_ASKED_MAX; i++) {
        struct group_asked *a = &n->asked[i];
        if (a->ticket && a->call && a->cell == cell && !a->delivered && a->question == hash) {
            a->delivered = vid;
            return;
        }
    }
}

void group_ask_answered(struct group_node *n, uint64_t ticket, const struct member_answer *r)
{
    struct group_asked *a = asked_of(n, ticket);
    if (a == NULL) {
        violated(n, "nothing was asked, or it was complete", ticket, r ? r->host : n->host);
        return;
    }
    if (r == NULL) {
        check_whole(n, a, ticket);
        a->ticket = 0;
        n->run->check.result->group.answered++;
        return;
    }
    chaos_trace(&n->run->fleet.chaos, "h%u has an answer of h%u, ticket %llu, status %d", n->host,
                r->host, (ull)ticket, r->status);
    const char *wrong = in_set(a->answered, r->host) ? "it is the second one"
                        : r->status == 0             ? wrong_reply(n, a, r)
                                                     : wrong_status(n, a, r);
    if (wrong)
        violated(n, wrong, ticket, r->host);
    a->answered |= set_of(r->host);
    if (r->host == n->host && r->status == ERR_AGAIN) /* it passed over its own call */
        a->delivered = stamp_vid(r->version);
    a->lost |= r->host == n->host && (r->status == ERR_LOST || r->status == ERR_REFUSED);
    if (a->call && r->host == n->host && r->status == ERR_REFUSED)
        returned(n, a);
}
