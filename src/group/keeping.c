/* What a cell puts on the disk: its versions. In a *durable* cell a message is appended when it is received in order, and delivered when it is on the disks of all
 * members: PERSISTED takes the place of RECEIVED. In a *logged* one it is appended when it is delivered, and nobody waits for that.
 *
 * So the log of a durable cell may have more than the view delivered. What it has beyond the trim is cut there when the view ends: trims of such a
 * cell are the least of what several disks have in order, and so prefixes of the order. A member that does not see the end of its view (its process
 * ended, or it was put out) cuts what it had not delivered when it has a state again.
 *
 * A message has a time: its sender's clock as of when it was published, or one more than the last one's if that is more. All compute the same from the
 * same order. The clock stands before the message in the ring. */
#include "group/impl.h"
#include "group/versions.h"

#include <stdlib.h>

/* In the ring before each message of a cell that is kept. */
struct kept_head {
    uint64_t clock, spare;
};
_Static_assert(sizeof(struct kept_head) == KEPT_HEAD_BYTES, "what is reserved for one");

struct keeping {
    struct versions *versions;
    uint32_t log;
    bool durable;
    bool begun;      /* this host has the state in this view, and appends */
    uint64_t number; /* numbers below are appended, */
    uint32_t turn;   /* of which the next is this sender's */
    uint64_t index;  /* message */
    struct source_stream source[GROUP_HOSTS_MAX]; /* where that one stands in the streams */
    uint64_t time, delivered_time;                /* of the last message appended, and delivered */
    uint64_t persisted;                           /* as told */
    uint64_t wedged; /* numbers below were received when the view ended */
    bool marked;     /* the log says how far it has that view */
    bool cut;        /* what was not delivered in this view is cut already */
};

/* ---- clocks ---- */

void kept_stamp(struct cell *c, struct record *r)
{
    struct member *m = c->of;
    m->clock = max_u64(m->clock, m->settled_ns + m->wall_ns);
    *(struct kept_head *)(void *)(r + 1) = (struct kept_head){.clock = m->clock};
}

/* A sender's clock that is far ahead of all others would take theirs along for ever: it is its own, as far as a member may lie. */
static uint64_t time_after(uint64_t last, uint64_t clock)
{
    return max_u64(last + 1, clock);
}

static uint64_t clock_of(const void *data)
{
    struct kept_head h;
    memcpy(&h, (const unsigned char *)data - sizeof(h), sizeof(h));
    return h.clock;
}

/* ---- appending ---- */

/* What the machine gets of it. */
static const void *message_of(const struct member_item *t, uint32_t *bytes)
{
    uint32_t head = t->kind & RECORD_CALL    ? (uint32_t)sizeof(struct call_head)
                    : t->kind & RECORD_RELAY ? (uint32_t)sizeof(struct relay_head)
                                             : 0;
    head = head <= t->bytes ? head : t->bytes;
    *bytes = t->bytes - head;
    return (const unsigned char *)t->data + head;
}

/* Of a client's message the log has whose it is. */
static void name_client(struct version *v, const struct member_item *t)
{
    struct relay_head h;
    if (!(t->kind & RECORD_RELAY) || t->bytes < sizeof(h))
        return;
    memcpy(&h, t->data, sizeof(h));
    v->client = h.client + 1;
    v->life = h.life;
    v->seq = h.number;
}

static bool append(struct cell *c, const struct member_item *t, uint64_t place)
{
    struct keeping *k = c->keep;
    struct version v = {.type = VERSION_MSG,
                        .version = stamp(c->of->view->vid, t->number),
                        .time = time_after(k->time, clock_of(t->data)),
                        .sender = t->sender,
                        .life = c->of->view->life[t->sender],
                        .seq = place};
    const void *message = message_of(t, &v.bytes);
    name_client(&v, t);
    if (!versions_append(k->versions, k->log, &v, message))
        return versions_failure(k->versions) != NULL;
    k->time = v.time;
    c->of->clock = max_u64(c->of->clock, v.time);
    return true;
}

/* The cursor of a sender, up to where its stream is here. */
static struct source_stream *cursor(struct cell *c, uint32_t turn)
{
    struct keeping *k = c->keep;
    const struct source_stream *s = &c->source[turn];
    struct source_stream *to = &k->source[turn];
    if (!to->started && s->started)
        *to = *s;
    if (!to->torn) {
        to->end = s->end;
        to->ring = s->ring;
    }
    return to;
}

/* The next number; false: there is no room for it. */
static bool append_number(struct cell *c)
{
    struct keeping *k = c->keep;
    struct source_stream *s = cursor(c, k->turn);
    uint32_t bytes;
    const struct record *r = s->started && !s->torn ? cell_record(c, s, k->index, &bytes) : NULL;
    if (r && k->number >= c->skip_to) {
        const struct member_item t = {.data = (const unsigned char *)(r + 1) + c->ahead,
                                      .bytes = bytes > c->ahead ? bytes - c->ahead : 0,
                                      .sender = s->host,
                                      .number = k->number,
                                      .kind = r->flags & RECORD_KINDS};
        if (!append(c, &t, s->pos))
            return false;
    }
    if (r)
        s->pos += record_size(bytes);
    k->number++;
    k->index += ++k->turn == c->senders;
    k->turn = k->turn == c->senders ? 0 : k->turn;
    return true;
}

static int append_received(struct cell *c, uint64_t limit)
{
    struct keeping *k = c->keep;
    uint64_t from = k->number;
    while (k->number < limit && append_number(c))
        ;
    if (k->number > from)
        versions_reach(k->versions, k->log, stamp(c->of->view->vid, k->number));
    return k->number > from;
}

/* What is on the disk was delivered in later views than there are: by a group that this one has not come from. It is not for us to give up. */
static void give_up(struct member *m)
{
    if (m->why_left)
        return;
    m->why_left =
        "its disk has messages that were delivered in later views than this one, when all "
        "members were another time up; to begin anew, move the versions of all hosts away";
    member_leave(m);
}

/* What an earlier process, or this one in an earlier life, had appended and not delivered. */
static bool cut_rest(struct cell *c)
{
    struct keeping *k = c->keep;
    uint64_t sure = versions_sure(k->versions, k->log);
    uint64_t end = stamp(c->of->view->vid, c->skip_to);
    if (sure > end) {
        give_up(c->of);
        return false;
    }
    if (versions_end(k->versions, k->log) <= sure)
        return true;
    return versions_cut(k->versions, k->log, sure, k->time) || versions_failure(k->versions);
}

static bool begin_appending(struct cell *c)
{
    struct keeping *k = c->keep;
    k->begun = k->begun || ((restore_saves(c) || cut_rest(c)) && restore_written(c));
    return k->begun;
}

/* Numbers below this one are on this disk, in order. */
static uint64_t reached(const struct cell *c)
{
    uint64_t word = versions_reached(c->keep->versions, c->keep->log);
    return stamp_vid(word) == c->of->view->vid ? stamp_count(word) : 0;
}

static int tell_persisted(struct cell *c)
{
    struct keeping *k = c->keep;
    uint64_t count = min_u64(reached(c), k->number);
    if (count <= k->persisted)
        return 0;
    k->persisted = count;
    cell_set(c, CELL_PERSISTED, stamp(c->of->view->vid, count));
    if (c->of->opt.machine->persisted)
        c->of->opt.machine->persisted(c->of->opt.ctx, c->number, stamp(c->of->view->vid, count));
    return 1;
}

int kept_settle(struct cell *c)
{
    struct keeping *k = c->keep;
    if (!c->has_state || !begin_appending(c))
        return 0;
    int work = k->durable ? append_received(c, c->received) : 0;
    return work + tell_persisted(c) + restore_retain(c);
}

/* ---- delivering ---- */

uint64_t kept_persisted(const struct cell *c)
{
    return c->keep->persisted;
}

bool kept_takes(struct cell *c)
{
    const struct keeping *k = c->keep;
    if (!c->has_state || versions_failure(k->versions))
        return true; /* what is passed over; and who leaves hears the view out */
    return !restore_reads(c) && begin_appending(c) &&
           (k->durable || versions_has_bytes(k->versions, k->log, kept_bytes(&c->opt)));
}

void kept_delivered(struct cell *c, const struct batch *b)
{
    struct keeping *k = c->keep;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct member_item *t = &b->item[i];
        k->delivered_time = time_after(k->delivered_time, clock_of(t->data));
        if (!k->durable && !append(c, t, 0))
            CHECK(!"room for what is delivered");
    }
}

void kept_delivered_to(struct cell *c)
{
    struct keeping *k = c->keep;
    uint64_t version = stamp(c->of->view->vid, c->number_at);
    if (!k->begun)
        return;
    versions_set_sure(k->versions, k->log, version);
    if (k->durable)
        return;
    k->number = c->number_at;
    versions_reach(k->versions, k->log, version);
}

uint64_t kept_time(const struct cell *c)
{
    return c->keep->delivered_time;
}

void kept_learnt(struct cell *c, uint64_t time)
{
    c->keep->time = c->keep->delivered_time = time;
}

/* ---- from view to view ---- */

void kept_wedge(struct cell *c)
{
    uint64_t all = c->senders ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < c->senders; i++)
        all = min_u64(all, c->source[i].count * c->senders + i);
    c->keep->wedged = all;
}

/* Numbers without a message need nothing on the disk, but what is reported counts from there: a cut behind all that there is says it. */
static bool is_marked(struct cell *c)
{
    struct keeping *k = c->keep;
    if (!k->marked)
        k->marked = versions_cut(k->versions, k->log, stamp(c->of->view->vid, k->wedged), k->time);
    return k->marked || versions_failure(k->versions);
}

bool kept_flushed(struct cell *c)
{
    struct keeping *k = c->keep;
    if (!k->durable || !c->in || !k->begun || versions_failure(k->versions))
        return true;
    append_received(c, k->wedged);
    return k->number >= k->wedged && is_marked(c) && reached(c) >= k->wedged;
}

void kept_report(const struct cell *c, struct cell_report *r)
{
    const struct keeping *k = c->keep;
    if (restore_reads(c)) { /* nobody has delivered anything in this view */
        r->has_state = true;
        memset(r->held, 0, c->senders * sizeof(r->held[0]));
        return;
    }
    if (!k->durable || !c->in || PLANTED(group_held_unflushed))
        return;
    uint64_t below = k->begun ? min_u64(reached(c), k->number) : 0;
    for (uint32_t i = 0; i < c->senders; i++)
        r->held[i] = below > i ? (below - i + c->senders - 1) / c->senders : 0;
}

bool kept_finish(struct cell *c, uint64_t limit)
{
    struct keeping *k = c->keep;
    if (k->cut || !k->begun || PLANTED(group_tail_uncut) || versions_failure(k->versions))
        return true;
    uint64_t end = stamp(c->of->view->vid, limit);
    if (versions_end(k->versions, k->log) > end)
        k->cut = versions_cut(k->versions, k->log, end, k->delivered_time);
    else
        k->cut = true;
    if (!k->cut)
        return false;
    k->time = k->delivered_time;
    versions_set_sure(k->versions, k->log, end);
    return true;
}

void kept_restored(struct cell *c, uint64_t time)
{
    struct keeping *k = c->keep;
    k->time = k->delivered_time = time;
    k->begun = true;
}

void kept_begin(struct cell *c, uint64_t vid, bool had)
{
    struct keeping *k = c->keep;
    k->number = k->index = k->persisted = k->wedged = 0;
    k->turn = 0;
    k->begun = k->begun && had;
    k->cut = k->marked = false;
    memset(k->source, 0, sizeof(k->source));
    cell_set(c, CELL_PERSISTED, stamp(vid, 0));
}

/* ---- opening ---- */

uint32_t kept_bytes(const struct cell_options *o)
{
    uint64_t deliver = o->deliver_bytes ? o->deliver_bytes : o->ring_bytes / 4;
    uint64_t record =
        sizeof(struct version) + 16 + (o->message_max ? o->message_max : o->ring_bytes / 8);
    return (uint32_t)(deliver + record + MEMBER_ITEMS_MAX * (sizeof(struct version) + 8));
}

struct versions_log_options member_log_options(const struct cell_options *o)
{
    if (o->mode != CELL_LOGGED && o->mode != CELL_DURABLE)
        return (struct versions_log_options){.payload_max = 0};
    uint64_t ring = o->ring_bytes ? o->ring_bytes : CELL_RING_BYTES;
    struct cell_options with = *o;
    with.ring_bytes = (uint32_t)ring;
    uint64_t bytes = max_u64(2 * (uint64_t)kept_bytes(&with), ring);
    return (struct versions_log_options){.payload_max =
                                             o->message_max ? o->message_max : (uint32_t)ring / 8,
                                         .buffer_bytes = (uint32_t)bytes,
                                         .sign = o->sign};
}

int kept_open(struct cell *c, struct err *e)
{
    const struct member_options *o = &c->of->opt;
    if (c->opt.mode != CELL_LOGGED && c->opt.mode != CELL_DURABLE)
        return 0;
    if (o->versions == NULL)
        return err_set(e, ERR_INVALID, "group: cell %u is logged or durable, and there is no disk",
                       c->number);
    if (c->opt.mode == CELL_DURABLE && !o->view_majority)
        return err_set(e, ERR_INVALID, "group: cell %u is durable, which needs view_majority",
                       c->number);
    c->keep = calloc(1, sizeof(*c->keep));
    if (c->keep == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for the log of cell %u", c->number);
    c->keep->versions = o->versions;
    c->keep->log = versions_of_cell(c->number);
    c->keep->durable = c->opt.mode == CELL_DURABLE;
    c->keep->time = c->keep->delivered_time =
        versions_found(o->versions, versions_of_cell(c->number))->time;
    c->ahead = KEPT_HEAD_BYTES;
    c->opt.message_max += KEPT_HEAD_BYTES;
    return 0;
}

void kept_close(struct cell *c)
{
    free(c->keep);
}
