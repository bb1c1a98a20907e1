#include "group/relay_impl.h"

#include <stdlib.h>

/* Samples for clients that have subscribed: see relay.h. What is delivered goes into the stream of each of them while that has room, and else into
 * its backlog, from which the oldest goes when that is full: so nobody waits for a client. Of cells of which the machine keeps what was delivered
 * the client reads on there instead, until it has all. */

/* A piece of a backlog has its length before it, padded. */
enum { PIECE_HEAD = 8 };

static bool is_subscribed(const struct subscriber *f, uint32_t cell)
{
    return f->cells[cell / 64] >> cell % 64 & 1;
}

static void set_bit(uint64_t *bits, uint32_t cell, bool on)
{
    bits[cell / 64] &= ~(UINT64_C(1) << cell % 64);
    bits[cell / 64] |= (uint64_t)on << cell % 64;
}

static bool is_behind(const struct subscriber *f, uint32_t cell)
{
    return f->behind[cell / 64] >> cell % 64 & 1;
}

static void fall_behind(struct subscriber *f, uint32_t cell, uint64_t number)
{
    set_bit(f->behind, cell, true);
    f->past[cell] = (struct member_past){.number = number};
}

static uint64_t piece_size(uint32_t bytes)
{
    return PIECE_HEAD + padded(sizeof(struct sample) + bytes);
}

static uint64_t ring_bytes(const struct member *m)
{
    return m->relays->fed.ring_bytes;
}

/* ---- telling ---- */

static void tell_feed(struct member *m, struct relay_client *k)
{
    struct subscriber *f = &k->feed;
    struct stream_out *o = &f->out;
    if (!stream_reopen(m->mem, &f->stream, o))
        return;
    mem_set1(m->mem, &o->flow, o->lane, FEED_GUARD, stream_start());
    mem_set1(m->mem, &o->flow, o->lane, FEED_SESSION,
             k->session ? client_session(k->life, k->session) : 0);
}

/* Into the stream, where there is room. */
static void add(struct subscriber *f, struct sample *s, const void *data, uint32_t bytes)
{
    s->lost = f->dropped[s->cell];
    f->dropped[s->cell] = 0;
    unsigned char *to = stream_reserve(&f->stream);
    memcpy(to, s, sizeof(*s));
    memcpy(to + sizeof(*s), data, bytes);
    stream_commit(&f->stream, (uint32_t)sizeof(*s) + bytes);
}

static bool has_room(const struct subscriber *f, uint32_t bytes)
{
    return stream_room(&f->stream, frame_size((uint32_t)sizeof(struct sample) + bytes));
}

/* ---- the backlog ---- */

/* The oldest piece: its bytes, and what it is. */
static uint32_t oldest(const struct member *m, const struct subscriber *f, struct sample *s)
{
    uint64_t bytes;
    ring_read(f->backlog, ring_bytes(m), f->tail, &bytes, PIECE_HEAD);
    ring_read(f->backlog, ring_bytes(m), f->tail + PIECE_HEAD, s, sizeof(*s));
    return (uint32_t)bytes;
}

static void keep(struct member *m, struct subscriber *f, const struct sample *s, const void *data,
                 uint32_t bytes)
{
    const uint64_t ring = ring_bytes(m), length = bytes;
    while (f->head + piece_size(bytes) > f->tail + ring) {
        struct sample old;
        f->tail += piece_size(oldest(m, f, &old));
        f->dropped[old.cell]++;
        m->count.unfed++;
    }
    ring_write(f->backlog, ring, f->head, &length, PIECE_HEAD);
    ring_write(f->backlog, ring, f->head + PIECE_HEAD, s, sizeof(*s));
    ring_write(f->backlog, ring, f->head + PIECE_HEAD + sizeof(*s), data, bytes);
    f->head += piece_size(bytes);
}

static void send_backlog(struct member *m, struct subscriber *f)
{
    struct sample s;
    while (f->tail < f->head) {
        uint32_t bytes = oldest(m, f, &s);
        if (!has_room(f, bytes))
            return;
        ring_read(f->backlog, ring_bytes(m), f->tail + PIECE_HEAD + sizeof(s), m->relays->frame,
                  bytes);
        f->tail += piece_size(bytes);
        add(f, &s, m->relays->frame, bytes);
    }
}

/* ---- feeding ---- */

static void feed(struct member *m, struct relay_client *k, struct sample *s, const void *data,
                 uint32_t bytes)
{
    struct subscriber *f = &k->feed;
    if (is_behind(f, s->cell))
        return;
    if (sizeof(*s) + bytes > m->relays->fed.bytes_max) {
        f->dropped[s->cell]++; /* more than a client can be fed */
        m->count.unfed++;
    } else if (f->head == f->tail && has_room(f, bytes)) {
        add(f, s, data, bytes);
    } else if (m->cell[s->cell].opt.past) {
        fall_behind(f, s->cell, s->place.number);
    } else {
        keep(m, f, s, data, bytes);
    }
    k->dirty = m->relays->dirty = true;
}

static struct sample_place place_of(const struct cell *c, const struct member_item *t)
{
    const struct member *m = c->of;
    if (c->opt.mode != CELL_RAW)
        return (struct sample_place){m->view->cell[c->number].born, c->samples};
    const unsigned char *data = t->data;
    data -= t->client ? sizeof(struct relay_head) : 0;
    return (struct sample_place){m->view->life[t->sender],
                                 member_place(m, c->number, t->sender, data)};
}

void feed_items(struct cell *c, uint64_t vid, const struct member_item *t, uint32_t count)
{
    struct member *m = c->of;
    struct relays *y = m->relays;
    for (uint32_t i = 0; c->subscribers && i < count; i++, c->samples++) {
        struct sample s = {.place = place_of(c, &t[i]),
                           .vid = vid,
                           .at = t[i].number,
                           .cell = c->number,
                           .sender = t[i].sender,
                           .client = t[i].client};
        for (uint32_t k = 0; k < y->opens; k++)
            if (is_subscribed(&y->client[y->open[k]].feed, c->number))
                feed(m, &y->client[y->open[k]], &s, t[i].data, t[i].bytes);
    }
    c->samples += c->subscribers ? 0 : count;
}

/* The next sample of the past, if there is room for it; false: it has all, or there is none. */
static bool send_past(struct member *m, struct subscriber *f, uint32_t cell)
{
    const struct member_machine *machine = m->opt.machine;
    struct member_past at = f->past[cell];
    struct member_item t;
    struct sample s = {.place = {m->view->cell[cell].born, 0}, .cell = cell};
    if (!machine->past(m->opt.ctx, cell, &at, &s.vid, &t)) {
        set_bit(f->behind, cell, false);
        return false;
    }
    s.place.number = at.number - 1;
    s.at = t.number;
    s.sender = t.sender;
    s.client = t.client;
    bool fits = sizeof(s) + t.bytes <= m->relays->fed.bytes_max;
    if (fits && !has_room(f, t.bytes))
        return false;
    if (fits)
        add(f, &s, t.data, t.bytes);
    else
        m->count.unfed++;
    f->past[cell] = at;
    return true;
}

static void send_pasts(struct member *m, struct subscriber *f)
{
    for (uint32_t i = 0; i < m->opt.cells; i += 64)
        for (uint64_t rest = f->behind[i / 64]; rest && f->head == f->tail; rest = set_rest(rest))
            while (send_past(m, f, i + set_first(rest)))
                ;
}

void feed_settle(struct member *m, struct relay_client *k)
{
    struct subscriber *f = &k->feed;
    uint64_t session = client_session(k->life, k->session);
    if (k->session == 0 || f->in->ctl == NULL)
        return;
    uint64_t taken = mem_word(f->in, FED_TAKEN);
    if (mem_word(f->in, FED_SESSION) == session && taken > f->stream.taken &&
        taken <=
            f->stream.tail) /* else it is not said of this session, or lies, and is fed nothing */
        f->stream.taken = taken;
    send_backlog(m, f);
    send_pasts(m, f);
    if (f->out.sent == f->stream.tail || f->out.flow.status != MEM_DONE)
        return;
    f->out.begun = true;
    stream_push(m->mem, &f->stream, &f->out);
    mem_bell_later(m->mem, k->in->spec.writer);
}

void feed_look(struct member *m, struct relay_client *k)
{
    struct subscriber *f = &k->feed;
    if (!f->any)
        return;
    if (f->out.flow.status != MEM_DONE)
        tell_feed(m, k);
    f->beat++;
    mem_set1(m->mem, &f->out.flow, f->out.lane, FEED_BEAT, f->beat);
}

/* ---- subscribing ---- */

void feed_session(struct member *m, struct relay_client *k)
{
    struct subscriber *f = &k->feed;
    if (f->in == NULL)
        return;
    for (uint32_t i = 0; f->any && i < m->opt.cells; i++)
        feed_unsubscribe(m, k, i);
    memset(f->dropped, 0, sizeof(f->dropped));
    memset(f->behind, 0, sizeof(f->behind));
    f->any = false;
    f->head = f->tail = 0;
    stream_begin(&f->stream, k->session);
    tell_feed(m, k);
}

/* Number of the sample with which it begins. */
static uint64_t number_from(const struct cell *c, const struct subscription *s)
{
    const struct member *m = c->of;
    if (!c->opt.past || s->from == FROM_NOW)
        return c->samples;
    if (s->from == FROM_PLACE && s->at.history == m->view->cell[c->number].born)
        return min_u64(s->at.number, c->samples);
    return m->opt.machine->past_from(m->opt.ctx, c->number,
                                     s->from == FROM_VERSION ? s->at.number : 0);
}

bool feed_subscribe(struct member *m, struct relay_client *k, uint32_t cell,
                    const struct subscription *want, struct subscribed *s)
{
    struct subscriber *f = &k->feed;
    struct cell *c = &m->cell[cell];
    if (f->in == NULL)
        return false;
    if (!is_subscribed(f, cell)) {
        set_bit(f->cells, cell, true);
        c->subscribers++;
    }
    f->any = true;
    *s = (struct subscribed){.next = {m->view->cell[cell].born, number_from(c, want)},
                             .now = c->samples};
    set_bit(f->behind, cell, false);
    if (s->next.number < c->samples)
        fall_behind(f, cell, s->next.number);
    return true;
}

void feed_unsubscribe(struct member *m, struct relay_client *k, uint32_t cell)
{
    struct subscriber *f = &k->feed;
    if (!is_subscribed(f, cell))
        return;
    set_bit(f->cells, cell, false);
    set_bit(f->behind, cell, false);
    m->cell[cell].subscribers--;
}

/* ---- opening ---- */

int feeds_open(struct member *m)
{
    struct relays *y = m->relays;
    y->fed = request_shape(y->requests.ring_bytes);
    y->fed.guard = FEED_GUARD;
    y->feeds =
        calloc(m->opt.clients, stream_ring_bytes(&y->fed)); /* touched when somebody subscribes */
    y->backlogs = calloc(m->opt.clients, y->fed.ring_bytes);
    y->pasts = calloc((size_t)m->opt.clients * m->opt.cells, sizeof(*y->pasts));
    return y->feeds && y->backlogs && y->pasts ? 0 : ERR_NOMEM;
}

void feeds_close(struct member *m)
{
    free(m->relays->feeds);
    free(m->relays->backlogs);
    free(m->relays->pasts);
}

int feed_client_open(struct member *m, struct relay_client *k, const struct mem_lane_spec *offer,
                     struct err *e)
{
    struct subscriber *f = &k->feed;
    uint32_t ring = m->relays->fed.ring_bytes;
    const struct mem_lane_spec spec[2] = {client_lane(m->opt.me, offer->writer, LANE_FED, ring),
                                          client_lane(m->opt.me, offer->writer, LANE_FEED, ring)};
    struct mem_lane *lane[2];
    uint32_t place = offer->writer - m->opt.client_node;
    if (f->in)
        return 0;
    int rc = mem_lanes_open(m->mem, spec, 2, lane, e);
    if (rc != 0)
        return rc;
    f->stream = (struct stream){.shape = &m->relays->fed,
                                .ring = m->relays->feeds +
                                        (size_t)place * stream_ring_bytes(&m->relays->fed)};
    f->backlog = m->relays->backlogs + (size_t)place * ring;
    f->past = m->relays->pasts + (size_t)place * m->opt.cells;
    f->in = lane[0];
    f->out.lane = lane[1];
    stream_begin(&f->stream, k->session);
    tell_feed(m, k);
    return 0;
}
