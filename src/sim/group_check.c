#include "sim/group_check.h"

#include "base/grow.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

enum { FIRST = 64, RECORD_HEAD = 16 };

void group_check_violated(struct group_check *c, const char *property, uint64_t pos,
                          const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    run_violated(c->result, property, pos, fmt, ap);
    va_end(ap);
}

/* Grows an array of things, new ones zero, so that index i exists. */
static void *reach(void *array, uint64_t *max, size_t size, uint64_t i)
{
    if (i < *max)
        return array;
    uint64_t more = *max ? *max : FIRST;
    while (more <= i)
        more *= 2;
    unsigned char *grown = grow("a checker", array, size, more);
    memset(grown + *max * size, 0, (more - *max) * size);
    *max = more;
    return grown;
}

void group_check_fini(struct group_check *c)
{
    for (uint64_t i = 0; i < c->views_max; i++)
        view_close(c->view[i]);
    for (uint64_t i = 0; i < c->streams; i++) {
        grow_free(c->stream[i]->sent);
        grow_free(c->stream[i]->back);
        free(c->stream[i]);
    }
    for (uint64_t i = 0; i < c->histories; i++) {
        grow_free(c->history[i]->delivery);
        grow_free(c->history[i]->end);
        free(c->history[i]);
    }
    group_clients_fini(&c->clients);
    grow_free(c->view);
    grow_free(c->stream);
    grow_free(c->history);
}

/* ---- sending ---- */

struct group_stream *group_check_stream(const struct group_check *c, uint32_t host, uint32_t cell,
                                        uint64_t life)
{
    for (uint64_t i = c->streams; i > 0; i--) {
        struct group_stream *s = c->stream[i - 1];
        if (s->host == host && s->cell == cell && s->life == life)
            return s;
    }
    return NULL;
}

static struct group_stream *stream_new(struct group_check *c, uint32_t host, uint32_t cell)
{
    struct group_stream *s = calloc(1, sizeof(*s));
    CHECK(s != NULL);
    *s = (struct group_stream){.host = host, .cell = cell, .life = c->host[host].life};
    c->stream = reach(c->stream, &c->streams_max, sizeof(struct group_stream *), c->streams);
    c->stream[c->streams++] = s;
    return s;
}

struct group_lease group_check_reserve(struct group_check *c, uint32_t host, uint32_t cell)
{
    struct group_host *h = &c->host[host];
    const struct view *v = h->view;
    if (v == NULL || !in_set(v->cell[cell].senders, host))
        group_check_violated(c, "integrity", 0, "h%u gets room in cell %u and is no sender", host,
                             cell);
    if (h->cell[cell].stream == NULL)
        h->cell[cell].stream = stream_new(c, host, cell);
    struct group_stream *s = h->cell[cell].stream;
    s->sent = reach(s->sent, &s->max, sizeof(*s->sent), s->count);
    s->sent[s->count] =
        (struct group_sent){.vid = v ? v->vid : 0, .born = v ? v->cell[cell].born : 0};
    return (struct group_lease){s, s->count++};
}

void group_check_fill(const struct group_check *c, struct group_lease l, unsigned char *out,
                      uint32_t bytes)
{
    const struct group_stream *s = l.stream;
    const struct group_sent *m = &s->sent[l.index];
    uint64_t h = hash_mix(hash_mix(hash_mix(c->seed, s->host << 8 | s->cell), s->life), l.index);
    for (uint32_t i = 0; i < bytes; i += 8) {
        h = hash_mix(h, i);
        /* But for the first word, which is its own, every other one could be the head of a record of this view or the next. */
        uint64_t head = i % RECORD_HEAD == 0 ? stamp(m->vid + (h >> 8 & 1), h >> 9 & 31)
                                             : (h >> 8 & 3) << 32 | (h >> 12 & 255);
        uint64_t word = i == 0 || h & 1 ? h : head;
        memcpy(out + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

void group_check_commit(struct group_lease l, uint32_t bytes)
{
    struct group_sent *m = &l.stream->sent[l.index];
    CHECK(m->state == SENT_OPEN);
    m->state = SENT_READY;
    m->bytes = bytes;
}

void group_check_release(struct group_lease l)
{
    struct group_sent *m = &l.stream->sent[l.index];
    CHECK(m->state == SENT_OPEN);
    m->state = SENT_VOID;
}

/* The next message that is due of the stream; its count: there is none. */
static uint64_t next_of(struct group_stream *s)
{
    while (s->next < s->count && s->sent[s->next].state >= SENT_VOID)
        s->next++;
    return s->next;
}

bool group_check_is_message(const struct group_check *c, struct group_stream *s, uint64_t index,
                            const void *data, uint32_t bytes)
{
    unsigned char expected[GROUP_CHECK_BYTES_MAX];
    const struct group_sent *m = &s->sent[index];
    if (m->state == SENT_OPEN || m->state == SENT_VOID || m->bytes != bytes ||
        bytes > sizeof(expected))
        return false;
    group_check_fill(c, (struct group_lease){s, index}, expected, bytes);
    return memcmp(expected, data, bytes) == 0;
}

/* Neither delivered nor returned, of a stream, if there is one. */
static uint64_t outstanding(const struct group_stream *s)
{
    uint64_t sum = 0;
    for (uint64_t i = s ? s->next : 0; s && i < s->count; i++)
        sum += s->sent[i].state == SENT_READY || s->sent[i].state == SENT_OPEN;
    return sum;
}

uint64_t group_check_outstanding(const struct group_check *c, uint32_t host)
{
    uint64_t sum = 0;
    for (uint32_t cell = 0; cell < c->cells; cell++)
        sum += outstanding(c->host[host].cell[cell].stream);
    return sum;
}

/* ---- histories ---- */

static struct group_history *history_of(const struct group_check *c, uint32_t cell, uint64_t born)
{
    for (uint64_t i = c->histories; i > 0; i--)
        if (c->history[i - 1]->cell == cell && c->history[i - 1]->born == born)
            return c->history[i - 1];
    return NULL;
}

/* Without a state nothing goes from a view to the next: each begins anew. */
static uint64_t first_vid(const struct group_check *c, const struct view *v, uint32_t cell)
{
    return c->stateless ? v->vid : v->cell[cell].born;
}

static struct group_history *history_at(struct group_check *c, const struct view *v, uint32_t cell)
{
    struct group_history *h = history_of(c, cell, first_vid(c, v, cell));
    if (h != NULL)
        return h;
    h = calloc(1, sizeof(*h));
    CHECK(h != NULL);
    *h = (struct group_history){.cell = cell, .born = first_vid(c, v, cell)};
    c->history = reach(c->history, &c->histories_max, sizeof(struct group_history *), c->histories);
    c->history[c->histories++] = h;
    return h;
}

const struct group_history *group_check_history(const struct group_check *c, const struct view *v,
                                                uint32_t cell)
{
    return history_of(c, cell, first_vid(c, v, cell));
}

/* Deliveries up to the end of that view, plus 1; 0: not known. */
static uint64_t end_of(const struct group_history *y, uint64_t vid)
{
    return vid < y->end_max ? y->end[vid] : 0;
}

/* ---- views ---- */

static uint32_t survivors(const struct view *before, const struct view *now)
{
    uint32_t n = 0;
    for (uint64_t rest = before->members; rest; rest = set_rest(rest)) {
        uint32_t q = set_first(rest);
        n += now->life[q] == before->life[q] || in_set(now->leavers, q);
    }
    return n;
}

static void count_view(struct group_figures *f, const struct view *before, const struct view *now)
{
    f->views++;
    for (uint64_t rest = now->members; rest; rest = set_rest(rest))
        f->joins += now->life[set_first(rest)] != before->life[set_first(rest)];
    f->leaves += set_count(now->leavers);
    for (uint32_t k = 0; k < now->cells; k++)
        f->vacant += now->cell[k].state == CELL_VACANT && before->cell[k].state != CELL_VACANT;
}

/* Somebody is the first to begin the view. */
static void check_new_view(struct group_check *c, const struct view *now)
{
    struct err e = {""};
    const struct view *before =
        now->vid < c->views_max && now->vid > 0 ? c->view[now->vid - 1] : NULL;
    const char *broken = view_check(now);
    if (broken)
        group_check_violated(c, "view rule", now->vid, "view %llu: %s", (ull)now->vid, broken);
    CHECK(view_open(now->hosts, now->cells, &c->view[now->vid], &e) == 0);
    view_copy(c->view[now->vid], now);
    c->vid_last = now->vid > c->vid_last ? now->vid : c->vid_last;
    if (before == NULL)
        return;
    count_view(&c->result->group, before, now);
    /* Who comes back with its disk counts, too. */
    uint32_t stay = c->kept ? set_count(before->members & (now->members | now->leavers))
                            : survivors(before, now);
    if (c->view_majority && before->vid > 0 && stay <= set_count(before->members) / 2)
        group_check_violated(c, "primary chain", now->vid,
                             "view %llu has %u of the %u members of the one before", (ull)now->vid,
                             survivors(before, now), set_count(before->members));
}

static void check_agreement(struct group_check *c, uint32_t host, const struct view *now)
{
    struct err e = {""};
    c->view = reach(c->view, &c->views_max, sizeof(struct view *), now->vid);
    if (c->view[0] == NULL)
        CHECK(view_open(now->hosts, now->cells, &c->view[0], &e) == 0);
    if (c->view[now->vid] == NULL)
        check_new_view(c, now);
    else if (!view_equal(c->view[now->vid], now))
        group_check_violated(c, "view agreement", now->vid,
                             "h%u begins another view %llu than others did", host, (ull)now->vid);
}

static void check_membership(struct group_check *c, uint32_t host, const struct view *before,
                             const struct view *now)
{
    const struct group_host *h = &c->host[host];
    if (now->vid <= h->vid)
        group_check_violated(c, "view agreement", now->vid, "h%u begins view %llu after %llu", host,
                             (ull)now->vid, (ull)h->vid);
    if (!in_set(now->members, host) || now->life[host] == 0)
        group_check_violated(c, "view agreement", now->vid, "h%u begins view %llu without it", host,
                             (ull)now->vid);
    if ((before == NULL) != (h->view == NULL) || (before && before->vid != h->view->vid))
        group_check_violated(c, "view agreement", now->vid,
                             "h%u says it was in view %llu and was in %llu", host,
                             (ull)(before ? before->vid : 0), (ull)(h->view ? h->view->vid : 0));
    if (before && (now->vid != before->vid + 1 || now->life[host] != h->life))
        group_check_violated(c, "view agreement", now->vid,
                             "h%u goes from view %llu to %llu, life %llx to %llx", host,
                             (ull)before->vid, (ull)now->vid, (ull)h->life, (ull)now->life[host]);
    if (before == NULL && now->life[host] <= h->life)
        group_check_violated(c, "view agreement", now->vid, "h%u is let in again in life %llx",
                             host, (ull)now->life[host]);
}

/* The cell, written behind, went on from disks in a later view than the host is in, who does not know that yet: what it delivers is lost. */
static bool is_left_behind(const struct group_check *c, uint32_t host, uint32_t cell)
{
    const struct view *v = c->host[host].view;
    uint64_t lost = c->lost_vid[cell];
    return v->vid < lost && c->view[lost]->cell[cell].born == v->cell[cell].born;
}

/* The host has delivered all of its view: the same as everybody else who did, and nobody ever more. */
static void check_ended(struct group_check *c, uint32_t host, uint32_t cell)
{
    const struct group_host *h = &c->host[host];
    const struct view *v = h->view;
    if (!in_set(v->cell[cell].members, host) || !h->cell[cell].has || group_check_is_raw(c, cell) ||
        is_left_behind(c, host, cell))
        return;
    struct group_history *y = history_at(c, v, cell);
    uint64_t at = h->cell[cell].state->count, end = end_of(y, v->vid);
    if (end != 0 && end != at + 1)
        group_check_violated(c, "same sequence", at,
                             "h%u ends view %llu of cell %u with %llu deliveries, others with %llu",
                             host, (ull)v->vid, cell, (ull)at, (ull)end - 1);
    if (at < y->count && y->delivery[at].vid <= v->vid)
        group_check_violated(c, "uniform", at,
                             "h%u ends view %llu of cell %u with %llu deliveries, but somebody had "
                             "delivered more in it",
                             host, (ull)v->vid, cell, (ull)at);
    y->end = reach(y->end, &y->end_max, sizeof(*y->end), v->vid);
    y->end[v->vid] = at + 1;
}

/* A sender that is still there may send it again. */
static void lose_delivered(struct group_check *c, uint32_t cell, const struct group_delivery *d)
{
    const struct view *v = c->view[d->vid];
    struct group_stream *s = group_check_stream(c, d->sender, cell, v->life[d->sender]);
    uint64_t i = s ? s->count : 0;
    while (i > 0 && s->sent[i - 1].state != SENT_DELIVERED)
        i--;
    if (i == 0)
        return;
    s->sent[i - 1].state = SENT_LOST;
    s->next = i - 1 < s->next ? i - 1 : s->next;
}

/* A cell that is written behind goes on from disks: what none of them has is lost. */
static void lose_tail(struct group_check *c, uint32_t cell, const struct view *now)
{
    struct group_history *y = history_at(c, now, cell);
    uint64_t count = y->count;
    while (count > 0 &&
           stamp(y->delivery[count - 1].vid, y->delivery[count - 1].number) >= now->cell[cell].cut)
        count--;
    c->result->group.lost_behind += y->count - count;
    for (uint64_t i = y->count; i > count; i--)
        lose_delivered(c, cell, &y->delivery[i - 1]);
    y->count = count;
    for (uint64_t i = 0; i < y->end_max; i++)
        y->end[i] = y->end[i] > count + 1 ? count + 1 : y->end[i];
}

/* What it has to begin with in the cell. */
static void begin_cell(struct group_check *c, uint32_t host, uint32_t cell, const struct view *now)
{
    CHECK(host < GROUP_CHECK_HOSTS_MAX && cell < GROUP_CHECK_CELLS_MAX);
    struct group_host *h = &c->host[host];
    const struct view_cell *v = &now->cell[cell];
    bool had = h->cell[cell].has,
         none = (c->stateless && !c->tables) || group_check_is_raw(c, cell);
    if (group_check_is_raw(c, cell))
        group_check_raw_begin(c, host, cell, now);
    h->cell[cell].number = 0;
    memset(h->cell[cell].seen, 0, sizeof(h->cell[cell].seen));
    /* One whose state came while the view ended has it, though it could not report that in time. */
    h->cell[cell].has = in_set(v->members, host) && (had || none || in_set(v->stateful, host));
    if (c->stateless)
        *h->cell[cell].state = (struct counter_machine_state){0};
    h->cell[cell].behind &= in_set(v->members | v->learners, host);
    bool restores = h->cell[cell].has && v->born < now->vid && !had && !none;
    h->cell[cell].restoring = restores && c->kept >> cell & 1;
    h->cell[cell].has &= !h->cell[cell].restoring;
    if (h->cell[cell].restoring && !(c->durable >> cell & 1) && c->lost_vid[cell] < now->vid) {
        c->lost_vid[cell] = now->vid;
        lose_tail(c, cell, now);
    }
    if (restores && !h->cell[cell].restoring)
        group_check_violated(c, "joiner's state", now->vid,
                             "view %llu says that h%u has the state of cell %u, and it has not",
                             (ull)now->vid, host, cell);
}

/* What was returned is the last that the host had outstanding, in order, and all of it if it has delivered what was before. */
static void check_back(struct group_check *c, uint32_t host, uint32_t cell)
{
    unsigned char expected[GROUP_CHECK_BYTES_MAX];
    struct group_stream *s = c->host[host].cell[cell].stream;
    uint64_t left = s ? s->backs : 0;
    if (left == 0)
        return;
    s->backs = 0;
    uint64_t least = group_check_is_raw(c, cell) ? 0 : s->next;
    for (uint64_t i = s->count; i > least && left > 0; i--) {
        struct group_sent *m = &s->sent[i - 1];
        bool taken = m->state == SENT_DELIVERED && group_check_is_raw(c, cell); /* by some */
        bool maybe = m->state == SENT_LOST; /* it may have gone on to the next view, too */
        if (m->state != SENT_READY && !taken && !maybe)
            continue;
        group_check_fill(c, (struct group_lease){s, i - 1}, expected, m->bytes);
        if (hash_bytes(0, expected, m->bytes) != s->back[left - 1]) {
            if (maybe)
                continue;
            break;
        }
        m->state = SENT_RETURNED;
        left--;
    }
    if (left > 0 || (c->host[host].cell[cell].has && outstanding(s) > 0))
        group_check_violated(c, "returned", c->host[host].vid,
                             "h%u gets back other messages in cell %u than it has outstanding",
                             host, cell);
}

/* What a cell had been sent may be lost with its state. */
static void lose_sent(struct group_stream *s)
{
    for (uint64_t i = s ? s->next : 0; s && i < s->count; i++)
        if (s->sent[i].state == SENT_READY)
            s->sent[i].state = SENT_LOST;
}

void group_check_view(struct group_check *c, uint32_t host, const struct view *before,
                      const struct view *now)
{
    struct group_host *h = &c->host[host];
    for (uint32_t k = 0; k < c->cells; k++)
        check_back(c, host, k);
    check_agreement(c, host, now);
    check_membership(c, host, before, now);
    for (uint32_t k = 0; k < c->cells && h->view; k++)
        check_ended(c, host, k);
    if (h->view == NULL)
        for (uint32_t k = 0; k < c->cells; k++)
            h->cell[k].stream = NULL;
    for (uint32_t k = 0; k < c->cells; k++) {
        bool behind = c->kept >> k & 1 && !(c->durable >> k & 1);
        if (now->cell[k].state == CELL_VACANT || (behind && now->cell[k].last == now->vid))
            lose_sent(h->cell[k].stream);
        begin_cell(c, host, k, now);
    }
    h->view = c->view[now->vid];
    h->vid = now->vid;
    h->life = now->life[host];
}

/* All open ones are void. */
static void void_open(struct group_stream *s)
{
    for (uint64_t i = s->next; i < s->count; i++)
        if (s->sent[i].state == SENT_OPEN)
            s->sent[i].state = SENT_VOID;
}

void group_check_out(struct group_check *c, uint32_t host, bool left)
{
    struct group_host *h = &c->host[host];
    if (h->view == NULL)
        return;
    for (uint32_t k = 0; k < c->cells; k++) {
        check_back(c, host, k);
        if (left)
            check_ended(c, host, k);
        if (left && h->cell[k].has && outstanding(h->cell[k].stream) > 0)
            group_check_violated(
                c, "returned", h->vid,
                "h%u has left, with %llu messages to cell %u neither delivered nor returned", host,
                (ull)outstanding(h->cell[k].stream), k);
        if (h->cell[k].stream)
            void_open(h->cell[k].stream);
        h->cell[k].has = h->cell[k].behind = false;
        *h->cell[k].state = (struct counter_machine_state){UINT64_MAX / 2, h->life};
    }
    h->view = NULL;
    for (uint32_t k = 0; k < c->cells; k++)
        h->cell[k].stream = NULL;
}

void group_check_died(struct group_check *c, uint32_t host)
{
    group_check_out(c, host, false);
    group_clients_died(c, host);
    for (uint32_t k = 0; k < c->cells; k++)
        memset(c->host[host].cell[k].column, 0, sizeof(c->host[host].cell[k].column));
}

/* ---- deliveries ---- */

/* Which message of the stream is due, if it is this one that is delivered. Messages without bytes are all alike: one that is surely under
 * way comes before one that may be lost. */
static uint64_t due_of(struct group_check *c, struct group_stream *s, uint32_t cell,
                       const struct view *v, const struct member_item *m)
{
    uint64_t due = next_of(s);
    while (due < s->count && s->sent[due].state >= SENT_LOST)
        due++;
    if (due < s->count && group_check_is_message(c, s, due, m->data, m->bytes))
        return due;
    due = next_of(s);
    while (due < s->count && (s->sent[due].state >= SENT_VOID ||
                              (s->sent[due].state == SENT_LOST &&
                               (s->sent[due].born != v->cell[cell].born ||
                                !group_check_is_message(c, s, due, m->data, m->bytes)))))
        due++;
    return due;
}

/* The first message of the stream that it could be; its count: it was never sent. */
static uint64_t sent_as(const struct group_check *c, struct group_stream *s,
                        const struct member_item *m)
{
    uint64_t i = 0;
    while (i < s->count && !group_check_is_message(c, s, i, m->data, m->bytes))
        i++;
    return i;
}

/* The message of a sender is the next one that is due, and is as it was sent. */
static void check_sent(struct group_check *c, uint32_t host, uint32_t cell, const struct view *v,
                       const struct member_item *m)
{
    struct group_stream *s = group_check_stream(c, m->sender, cell, v->life[m->sender]);
    uint64_t due = s ? due_of(c, s, cell, v, m) : 0;
    if (s && due < s->count && group_check_is_message(c, s, due, m->data, m->bytes)) {
        s->sent[due].state = SENT_DELIVERED;
        return;
    }
    uint64_t i = s && m->bytes > 0 ? sent_as(c, s, m) : 0;
    if (s && m->bytes > 0 && i < s->count) {
        const char *property = s->sent[i].state == SENT_DELIVERED  ? "delivered once"
                               : s->sent[i].state == SENT_RETURNED ? "returned"
                                                                   : "sender FIFO";
        group_check_violated(c, property, v->vid,
                             "h%u delivers message %llu of h%u in cell %u, due is %llu", host,
                             (ull)i, m->sender, cell, (ull)due);
        return;
    }
    group_check_violated(c, "integrity", v->vid,
                         "h%u delivers %u bytes of h%u in cell %u that were never sent (due is "
                         "message %llu)",
                         host, m->bytes, m->sender, cell, (ull)due);
}

/* Others have delivered a message like that. */
static bool is_delivered(const struct group_check *c, struct group_stream *s,
                         const struct member_item *m)
{
    for (uint64_t i = 0; i < s->count; i++)
        if (s->sent[i].state == SENT_DELIVERED &&
            group_check_is_message(c, s, i, m->data, m->bytes))
            return true;
    return false;
}

/* Its own messages others may have delivered already, before they lost them. Short ones may be alike: which it is does not matter then. */
static void check_left_behind(struct group_check *c, uint32_t host, uint32_t cell,
                              const struct view *v, const struct member_item *m)
{
    struct group_stream *s = group_check_stream(c, host, cell, v->life[host]);
    if (m->sender != host || m->client)
        return;
    uint64_t due = s ? due_of(c, s, cell, v, m) : 0;
    bool is_due = s && due < s->count && group_check_is_message(c, s, due, m->data, m->bytes);
    if (is_due || s == NULL || !is_delivered(c, s, m))
        check_sent(c, host, cell, v, m);
}

/* Where the message stands: its sender, and its number in the rounds. */
static void check_place(struct group_check *c, uint32_t host, uint32_t cell, uint64_t vid,
                        const struct member_item *m)
{
    struct group_host *h = &c->host[host];
    const struct view_cell *v = &h->view->cell[cell];
    uint32_t senders = set_count(v->senders);
    if (vid != h->view->vid)
        group_check_violated(c, "same view", vid, "h%u delivers in view %llu and is in %llu", host,
                             (ull)vid, (ull)h->view->vid);
    if (!in_set(v->members, host) || !in_set(v->senders, m->sender))
        group_check_violated(c, "integrity", vid,
                             "h%u delivers of h%u in cell %u, and one is no member", host,
                             m->sender, cell);
    else if (m->number % senders != set_rank(v->senders, m->sender) ||
             m->number < h->cell[cell].number)
        group_check_violated(c, "order is rounds", vid,
                             "h%u delivers number %llu of h%u in cell %u of %u senders, after %llu",
                             host, (ull)m->number, m->sender, cell, senders,
                             (ull)h->cell[cell].number - 1);
    if (!h->cell[cell].has)
        group_check_violated(c, "joiner's state", vid, "h%u delivers in cell %u without its state",
                             host, cell);
    h->cell[cell].number = m->number + 1;
}

/* The history goes on with it. */
static void check_new(struct group_check *c, uint32_t host, struct group_history *y,
                      const struct group_delivery *d, const struct member_item *m)
{
    const struct view *v =
        c->host[host].cell[y->cell].restoring ? c->view[d->vid] : c->host[host].view;
    if (end_of(y, d->vid) != 0)
        group_check_violated(c, "uniform", y->count,
                             "h%u delivers in cell %u beyond the end of view %llu", host, y->cell,
                             (ull)d->vid);
    if (y->count > 0 && y->delivery[y->count - 1].vid > d->vid)
        group_check_violated(
            c, "uniform", y->count,
            "h%u delivers in view %llu of cell %u what others have not, who are in "
            "a later one",
            host, (ull)d->vid, y->cell);
    if (m->client)
        group_clients_deliver(c, host, y->cell, v->cell[y->cell].born, true, m);
    else
        check_sent(c, host, y->cell, v, m);
    y->delivery = reach(y->delivery, &y->max, sizeof(*d), y->count);
    y->delivery[y->count++] = *d;
}

/* Who is behind delivers what others have, in this view or an earlier one. */
static void check_behind(struct group_check *c, uint32_t host, uint32_t cell, uint64_t vid)
{
    const struct group_host *h = &c->host[host];
    const struct group_history *y = history_at(c, h->view, cell);
    if (vid > h->view->vid)
        group_check_violated(c, "same view", vid, "h%u delivers in view %llu and is in %llu", host,
                             (ull)vid, (ull)h->view->vid);
    if (h->cell[cell].state->count >= y->count && !h->cell[cell].restoring &&
        !is_left_behind(c, host, cell))
        group_check_violated(c, "joiner's state", vid,
                             "h%u is behind in cell %u, and delivers what nobody has", host, cell);
}

void group_check_deliver(struct group_check *c, uint32_t host, uint32_t cell, uint64_t vid,
                         const struct member_item *m)
{
    const struct group_host *h = &c->host[host];
    if (cell >= c->cells || h->view == NULL) {
        group_check_violated(c, "same view", vid, "h%u delivers in cell %u and is in no view", host,
                             cell);
        return;
    }
    if (group_check_is_raw(c, cell)) {
        group_check_raw_deliver(c, host, cell, vid, m);
        return;
    }
    if (h->cell[cell].behind)
        check_behind(c, host, cell, vid);
    else
        check_place(c, host, cell, vid, m);
    struct group_history *y = history_at(c, h->view, cell);
    struct counter_machine_state *s = h->cell[cell].state;
    s->hash = hash_bytes(hash_mix(hash_mix(s->hash, vid), m->number), m->data, m->bytes);
    const struct group_delivery d = {vid, m->number, s->hash, m->sender};
    uint64_t k = s->count++;
    if (is_left_behind(c, host, cell))
        check_left_behind(c, host, cell, h->cell[cell].restoring ? c->view[vid] : h->view, m);
    else if (k > y->count)
        group_check_violated(c, "same sequence", k, "h%u skipped messages of cell %u", host, cell);
    else if (k == y->count)
        check_new(c, host, y, &d, m);
    else if (y->delivery[k].vid != vid || y->delivery[k].number != d.number ||
             y->delivery[k].sender != d.sender || y->delivery[k].hash != d.hash)
        group_check_violated(
            c, "same sequence", k,
            "h%u delivers number %llu of h%u in view %llu of cell %u, others "
            "number %llu of h%u in view %llu%s",
            host, (ull)d.number, d.sender, (ull)vid, cell, (ull)y->delivery[k].number,
            y->delivery[k].sender, (ull)y->delivery[k].vid,
            y->delivery[k].number == d.number ? ", with other bytes or states" : "");
}

uint64_t group_check_in_place(const struct member_item *m, uint32_t count)
{
    uint64_t h = count;
    for (uint32_t i = 0; i < count; i++)
        h = hash_bytes(hash_mix(h, m[i].number), m[i].data, m[i].bytes);
    return h;
}

void group_check_returned(struct group_check *c, uint32_t host, uint32_t cell, const void *data,
                          uint32_t bytes)
{
    struct group_stream *s = c->host[host].cell[cell].stream;
    c->result->group.returned++;
    if (s == NULL) {
        group_check_violated(c, "returned", c->host[host].vid,
                             "h%u gets back %u bytes in cell %u, and has sent nothing", host, bytes,
                             cell);
        return;
    }
    s->back = reach(s->back, &s->backs_max, sizeof(*s->back), s->backs);
    s->back[s->backs++] = hash_bytes(0, data, bytes);
}

/* ---- states ---- */

void group_check_born(struct group_check *c, uint32_t host, uint32_t cell)
{
    *c->host[host].cell[cell].state = (struct counter_machine_state){0};
    c->host[host].cell[cell].behind = c->host[host].cell[cell].restoring;
}

/* It has no less than all of the views before its own. */
static void check_whole(struct group_check *c, uint32_t host, uint32_t cell)
{
    const struct view *v = c->host[host].view;
    const struct counter_machine_state *s = c->host[host].cell[cell].state;
    const struct group_history *y = history_at(c, v, cell);
    if (!is_left_behind(c, host, cell) &&
        (s->count + 1 < end_of(y, v->vid - 1) ||
         (s->count < y->count && y->delivery[s->count].vid < v->vid)))
        group_check_violated(c, "joiner's state", s->count,
                             "h%u has a state of cell %u of before view %llu", host, cell,
                             (ull)v->vid);
}

void group_check_has(struct group_check *c, uint32_t host, uint32_t cell)
{
    struct group_host *h = &c->host[host];
    h->cell[cell].has |= c->tables;
    if (!h->cell[cell].behind)
        return;
    h->cell[cell].behind = h->cell[cell].restoring = false;
    h->cell[cell].has = true;
    h->cell[cell].number = 0;
    check_whole(c, host, cell);
}

void group_check_loaded(struct group_check *c, uint32_t host, uint32_t cell, bool good, bool behind)
{
    struct group_host *h = &c->host[host];
    const struct view *v = h->view;
    const struct counter_machine_state *s = h->cell[cell].state;
    if (!good)
        group_check_violated(c, "joiner's state", 0,
                             "h%u got other bytes as the state of cell %u than were saved", host,
                             cell);
    if (v == NULL || c->stateless || group_check_is_raw(c, cell) ||
        !in_set(v->cell[cell].members | v->cell[cell].learners, host) || h->cell[cell].has) {
        group_check_violated(c, "joiner's state", 0,
                             "h%u loads a state of cell %u and is in no need of one", host, cell);
        return;
    }
    const struct group_history *y = history_at(c, v, cell);
    bool lost = is_left_behind(c, host, cell);
    if (!lost &&
        (s->count > y->count || (s->count > 0 && y->delivery[s->count - 1].hash != s->hash)))
        group_check_violated(c, "joiner's state", s->count,
                             "h%u loads a state of cell %u with %llu deliveries that never was",
                             host, cell, (ull)s->count);
    else if (!behind)
        check_whole(c, host, cell);
    h->cell[cell].has = !behind;
    h->cell[cell].behind = behind;
}

bool group_check_has_all(const struct group_check *c, uint32_t host, uint32_t cell)
{
    const struct group_host *h = &c->host[host];
    if (!h->cell[cell].has)
        return false;
    if (group_check_is_raw(c, cell))
        return group_check_raw_has_all(c, host, cell);
    const struct group_history *y = group_check_history(c, h->view, cell);
    return h->cell[cell].state->count == (y ? y->count : 0);
}

/* ---- columns ---- */

void group_check_column_set(struct group_check *c, uint32_t host, uint32_t cell, uint32_t column,
                            uint64_t value)
{
    c->host[host].cell[cell].column[column] = value;
}

void group_check_column(struct group_check *c, uint32_t host, uint32_t cell, uint32_t column,
                        uint32_t of, uint64_t value)
{
    struct group_host *h = &c->host[host];
    uint64_t *seen = &h->cell[cell].seen[of][column];
    if (h->view == NULL)
        return;
    if (!in_set(h->view->cell[cell].members, of)) {
        if (value != 0)
            group_check_violated(c, "columns", h->vid,
                                 "h%u sees a column of h%u, who is not in "
                                 "cell %u",
                                 host, of, cell);
        return;
    }
    const struct group_host *o = &c->host[of];
    bool same = o->view && o->life == h->view->life[of];
    if (value < *seen || (same && value > o->cell[cell].column[column]))
        group_check_violated(c, "columns", h->vid,
                             "h%u sees %llu in column %u of h%u in cell %u, after %llu; set is "
                             "%llu",
                             host, (ull)value, column, of, cell, (ull)*seen,
                             (ull)o->cell[cell].column[column]);
    *seen = value;
}
