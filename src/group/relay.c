#include "group/relay_impl.h"

#include <stdlib.h>

/* A member's part of what clients want: see relay.h. */

enum { REQUESTS_A_ROUND = 64, LOOKS_A_HEARTBEAT = 4, PART_WORDS = 2, ENTRY_WORDS = 3 };

static struct relay_client *client_of(struct member *m, uint32_t place)
{
    return &m->relays->client[place];
}

/* The longest reply. */
static uint32_t reply_max_of(const struct member *m)
{
    uint32_t most = m->relays->replied.bytes_max - (uint32_t)sizeof(struct client_reply);
    return (uint32_t)min_u64(most, member_ask_max(m));
}

/* ---- telling ---- */

static void set_dirty(struct member *m, struct relay_client *k)
{
    k->dirty = m->relays->dirty = true;
}

static uint32_t node_of(const struct relay_client *k)
{
    return k->in->spec.writer;
}

/* Everything that the lane says besides replies, and these from the start: in a new session, or after a loss. GUARD and TAKEN are of the session once that
 * is there, and HELLO comes last. */
static void tell_session(struct member *m, struct relay_client *k)
{
    struct stream_out *o = &k->out;
    if (!stream_reopen(m->mem, &k->replies, o))
        return;
    mem_set1(m->mem, &o->flow, o->lane, RELAYED_GUARD, stream_start());
    mem_set1(m->mem, &o->flow, o->lane, RELAYED_TAKEN, k->at);
    mem_set1(m->mem, &o->flow, o->lane, RELAYED_SESSION,
             k->session ? client_session(k->life, k->session) : 0);
    mem_set1(m->mem, &o->flow, o->lane, RELAYED_HELLO, m->relays->hello);
    set_dirty(m, k);
}

static void tell_hello(struct member *m)
{
    struct relays *y = m->relays;
    uint64_t process = m->life >> 16;
    y->hello = is_in_view(m) ? process << 32 | (y->voids & UINT32_MAX) : 0;
    for (uint32_t i = 0; i < y->opens; i++) {
        struct relay_client *k = client_of(m, y->open[i]);
        k->session = 0;
        feed_session(m, k);
        set_dirty(m, k);
        if (k->out.flow.status == MEM_DONE)
            mem_set1(m->mem, &k->out.flow, k->out.lane, RELAYED_HELLO, y->hello);
    }
}

static void push(struct member *m, struct relay_client *k)
{
    struct stream_out *o = &k->out;
    k->dirty = false;
    if (o->flow.status == MEM_DONE && k->session) {
        stream_push(m->mem, &k->replies, o);
        mem_set1(m->mem, &o->flow, o->lane, RELAYED_TAKEN, k->at);
    }
    mem_bell_later(m->mem, node_of(k));
}

/* Replies of a session are in room that the client keeps for them; what it has no room for it has not waited for. */
static void reply(struct member *m, struct relay_client *k, const struct client_reply *r,
                  const void *data, uint32_t bytes)
{
    uint32_t size = (uint32_t)sizeof(*r) + bytes;
    if (k->session == 0 || !stream_room(&k->replies, frame_size(size)))
        return;
    unsigned char *to = stream_reserve(&k->replies);
    memcpy(to, r, sizeof(*r));
    if (bytes)
        memcpy(to + sizeof(*r), data, bytes);
    stream_commit(&k->replies, size);
    set_dirty(m, k);
}

/* ---- what was delivered ---- */

static bool is_new(const struct relay_entry *e, const struct relay_head *h)
{
    uint64_t life = (uint64_t)h->life + 1;
    return e->life < life || (e->life == life && h->number > e->number);
}

/* The head of a record; false: no member writes that, and nobody has anything of it. */
static bool head_of(const struct member *m, const void *data, uint32_t bytes, struct relay_head *h)
{
    if (m->relays == NULL || bytes < sizeof(*h))
        return false;
    memcpy(h, data, sizeof(*h));
    h->reply_max = (uint32_t)min_u64(h->reply_max, reply_max_of(m));
    return h->client < m->opt.clients;
}

static void reply_delivered(struct cell *c, const struct relay_head *h, uint64_t number, int status,
                            uint32_t bytes)
{
    struct member *m = c->of;
    struct relay_client *k = client_of(m, h->client);
    if (k->in == NULL || k->life != h->life)
        return;
    struct client_reply r = {.number = h->number,
                             .version = stamp(m->view->vid, number + 1),
                             .cell = c->number,
                             .kind = h->call ? REQUEST_CALL : REQUEST_SEND,
                             .status = bytes > h->reply_max ? ERR_TOOBIG : status,
                             .reply_max = h->reply_max};
    reply(m, k, &r, m->relays->reply, bytes > h->reply_max ? 0 : bytes);
}

/* What is delivered in one call of the machine. */
struct plain {
    struct member_item item[MEMBER_ITEMS_MAX];
    uint32_t count;
};

void cell_deliver_plain(struct cell *c, uint64_t vid, const struct member_item *t, uint32_t count)
{
    c->of->opt.machine->deliver(c->of->opt.ctx, c->number, vid, t, count);
    if (c->of->relays)
        feed_items(c, vid, t, count);
}

static void flush(struct cell *c, uint64_t vid, struct plain *p)
{
    if (p->count > 0)
        cell_deliver_plain(c, vid, p->item, p->count);
    p->count = 0;
}

static uint32_t call(struct cell *c, uint64_t vid, const struct member_item *t,
                     const struct relay_head *h)
{
    const struct member_machine *machine = c->of->opt.machine;
    if (machine->call)
        return machine->call(c->of->opt.ctx, c->number, vid, t, c->of->relays->reply, h->reply_max);
    machine->deliver(c->of->opt.ctx, c->number, vid, t, 1);
    return 0;
}

/* Once for each number of a client. Who has published it tells the client, also if it was delivered before: of a call the reply is gone then. */
static void deliver_relayed(struct cell *c, uint64_t vid, const struct member_item *t, bool fed,
                            struct plain *p)
{
    struct member *m = c->of;
    struct relay_head h;
    if (!head_of(m, t->data, t->bytes, &h))
        return;
    struct relay_entry *e = &c->relayed[h.client];
    bool fresh = is_new(e, &h) || PLANTED(group_relay_twice);
    uint32_t bytes = 0;
    if (is_new(e, &h))
        *e = (struct relay_entry){.number = h.number, .life = (uint64_t)h.life + 1};
    const struct member_item item = {.data = (const unsigned char *)t->data + sizeof(h),
                                     .bytes = t->bytes - (uint32_t)sizeof(h),
                                     .sender = t->sender,
                                     .number = t->number,
                                     .client = h.client + 1};
    if (fresh && h.call) {
        flush(c, vid, p);
        bytes = call(c, vid, &item, &h);
        feed_items(c, vid, &item, 1);
    } else if (fresh) {
        p->item[p->count++] = item;
    }
    if (t->sender == m->opt.me && !fed)
        reply_delivered(c, &h, t->number, !fresh && h.call ? ERR_LOST : 0, bytes);
}

void cell_deliver(struct cell *c, uint64_t vid, const struct member_item *t, uint32_t count,
                  bool fed)
{
    struct plain p;
    p.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (t[i].kind & RECORD_CALL) {
            flush(c, vid, &p);
            asks_deliver(c, vid, &t[i], fed);
        } else if (t[i].kind & RECORD_RELAY) {
            deliver_relayed(c, vid, &t[i], fed, &p);
        } else {
            p.item[p.count++] = t[i];
        }
    }
    flush(c, vid, &p);
}

/* ---- taking requests ---- */

static bool works_for(const struct member *m, const struct client_request *r)
{
    const struct cell *c = &m->cell[r->cell];
    return c->in && c->index < c->senders && member_has_state(m, r->cell);
}

static void answer(struct member *m, struct relay_client *k, const struct client_request *r,
                   int status)
{
    reply(m, k,
          &(struct client_reply){.number = r->number,
                                 .cell = r->cell,
                                 .kind = r->kind,
                                 .status = status,
                                 .reply_max = r->reply_max,
                                 .visit = r->visit},
          NULL, 0);
}

/* It, and everything later of the visit: or a message could overtake one that was turned away. */
static void turn_away(struct member *m, struct relay_client *k, const struct client_request *r)
{
    k->refused[r->cell] = r->visit;
    answer(m, k, r, ERR_REFUSED);
}

/* False: not now. */
static bool publish(struct member *m, struct relay_client *k, const struct client_request *r,
                    const void *data, uint32_t bytes)
{
    struct cell *c = &m->cell[r->cell];
    struct relay_head h = {.number = r->number,
                           .client = k->place,
                           .life = k->life,
                           .reply_max = r->reply_max,
                           .call = r->kind == REQUEST_CALL};
    if (m->phase != MEMBER_OPEN)
        return false;
    if (k->refused[r->cell] == r->visit || !works_for(m, r)) {
        turn_away(m, k, r);
    } else if (h.call && c->opt.mode == CELL_RAW) {
        answer(m, k, r, ERR_INVALID);
    } else if (!is_new(&c->relayed[k->place], &h) && !PLANTED(group_relay_twice)) {
        answer(m, k, r, h.call ? ERR_LOST : 0);
    } else if (bytes + sizeof(h) + c->ahead > c->opt.message_max) {
        answer(m, k, r, ERR_TOOBIG);
    } else {
        unsigned char *room = own_reserve(c, bytes + (uint32_t)sizeof(h));
        if (room == NULL)
            return false;
        memcpy(room, &h, sizeof(h));
        memcpy(room + sizeof(h), data, bytes);
        own_commit_kind(c, room, bytes + (uint32_t)sizeof(h), RECORD_RELAY);
        m->count.relayed++;
    }
    return true;
}

/* A query is answered from what is here, once that is as far as it wants. */
static bool query(struct member *m, struct relay_client *k, const struct client_request *r,
                  const void *data, uint32_t bytes)
{
    const struct member_machine *machine = m->opt.machine;
    uint64_t version = member_version(m, r->cell);
    int64_t have = ERR_NOTFOUND;
    if (version == 0) {
        answer(m, k, r, ERR_REFUSED);
        return true;
    }
    if (version < r->version)
        return false;
    if (machine->query)
        have = machine->query(m->opt.ctx, r->cell, MEMBER_ANY, data, bytes, m->relays->reply,
                              r->reply_max);
    struct client_reply a = {.number = r->number,
                             .version = version,
                             .cell = r->cell,
                             .kind = REQUEST_QUERY,
                             .reply_max = r->reply_max};
    a.status = have > r->reply_max ? ERR_TOOBIG : have < 0 ? (int32_t)have : 0;
    reply(m, k, &a, m->relays->reply, a.status == 0 ? (uint32_t)have : 0);
    return true;
}

/* It is fed by who has all that was delivered. */
static bool subscribe(struct member *m, struct relay_client *k, const struct client_request *r,
                      const void *data, uint32_t bytes)
{
    struct subscription want = {.from = FROM_NOW};
    struct client_reply a = {.number = r->number,
                             .cell = r->cell,
                             .kind = r->kind,
                             .reply_max = r->reply_max,
                             .visit = r->visit};
    struct subscribed s = {0};
    if (m->phase != MEMBER_OPEN)
        return false;
    memcpy(&want, data, bytes == sizeof(want) ? bytes : 0);
    if (!member_has_state(m, r->cell))
        a.status = ERR_REFUSED;
    else if (r->kind == REQUEST_UNSUBSCRIBE)
        feed_unsubscribe(m, k, r->cell);
    else if (!feed_subscribe(m, k, r->cell, &want, &s))
        return false;
    bool fits = sizeof(s) <= r->reply_max;
    reply(m, k, &a, &s, fits ? sizeof(s) : 0);
    return true;
}

/* Is it one that a client writes? */
static bool is_request(const struct member *m, const struct client_request *r)
{
    return r->cell < m->opt.cells && r->reply_max <= reply_max_of(m) && r->visit > 0 &&
           r->kind >= REQUEST_SEND && r->kind <= REQUEST_UNSUBSCRIBE;
}

static bool serve(struct member *m, struct relay_client *k, const struct client_request *r,
                  uint32_t bytes)
{
    const unsigned char *data = m->relays->frame + sizeof(*r);
    uint64_t room = frame_size((uint32_t)sizeof(struct client_reply) + r->reply_max);
    if (!stream_room(&k->replies, room))
        return false;
    if (r->kind == REQUEST_QUERY)
        return query(m, k, r, data, bytes);
    if (r->kind == REQUEST_SUBSCRIBE || r->kind == REQUEST_UNSUBSCRIBE)
        return subscribe(m, k, r, data, bytes);
    return publish(m, k, r, data, bytes);
}

static bool tear(struct relay_client *k)
{
    k->torn = true;
    return false;
}

/* The next request; false: there is none that can be taken now. It is copied before it is looked at: its writer may change it. */
static bool take(struct member *m, struct relay_client *k, uint64_t guard)
{
    struct relays *y = m->relays;
    struct frame f;
    struct client_request r;
    frame_read(&f, k->in->ring, y->requests.ring_bytes, k->at);
    if (!frame_fits(&f, k->at, k->session, y->requests.bytes_max, guard) || f.bytes < sizeof(r))
        return tear(k);
    ring_read(k->in->ring, y->requests.ring_bytes, k->at + sizeof(f), y->frame, f.bytes);
    memcpy(&r, y->frame, sizeof(r));
    if (!is_request(m, &r))
        return tear(k);
    if (!serve(m, k, &r, f.bytes - (uint32_t)sizeof(r)))
        return false;
    k->at += frame_size(f.bytes);
    set_dirty(m, k);
    return true;
}

static void begin_session(struct member *m, struct relay_client *k, uint16_t session)
{
    k->session = session;
    k->torn = false;
    k->at = stream_start();
    memset(k->refused, 0, sizeof(k->refused));
    stream_begin(&k->replies, session);
    tell_session(m, k);
    feed_session(m, k);
}

/* The session that the client is in with this member; 0: none. */
static uint16_t session_of(const struct member *m, const struct relay_client *k)
{
    if (mem_word(k->in, REQUEST_FOR) != m->relays->hello)
        return 0;
    uint64_t word = mem_word(k->in, REQUEST_SESSION);
    return word == client_session(k->life, (uint16_t)word) ? (uint16_t)word : 0;
}

/* How far the client has taken its replies: if it is still in the session behind that, it is said of that. */
static void look_taken(struct member *m, struct relay_client *k)
{
    uint64_t taken = mem_word(k->in, REQUEST_TAKEN);
    if (session_of(m, k) != k->session || taken <= k->replies.taken)
        return;
    if (taken > k->replies.tail)
        tear(k);
    else
        k->replies.taken = taken;
}

static int settle_client(struct member *m, struct relay_client *k)
{
    int taken = 0;
    if (k->in->ctl == NULL)
        return 0;
    if (k->life != k->in->life) {
        k->life = k->in->life;
        k->session = 0;
        stream_begin(&k->replies, 0);
        tell_session(m, k);
        feed_session(m, k);
    }
    uint16_t session = session_of(m, k);
    if (session == 0)
        return 0;
    if (session != k->session)
        begin_session(m, k, session);
    look_taken(m, k);
    uint64_t guard = mem_word(k->in, REQUEST_GUARD);
    if (guard > k->at + m->relays->requests.ring_bytes)
        tear(k);
    while (!k->torn && k->at < guard && taken < REQUESTS_A_ROUND && take(m, k, guard))
        taken++;
    return taken;
}

/* After a loss everything goes out again, now and then. */
static void look_after(struct member *m)
{
    struct relays *y = m->relays;
    if (m->settled_ns < y->look_ns)
        return;
    y->look_ns = m->settled_ns + m->opt.heartbeat_ns / LOOKS_A_HEARTBEAT;
    for (uint32_t i = 0; i < y->opens; i++) {
        struct relay_client *k = client_of(m, y->open[i]);
        if (k->out.flow.status != MEM_DONE)
            tell_session(m, k);
        if (k->feed.in)
            feed_look(m, k);
    }
}

int relays_settle(struct member *m)
{
    struct relays *y = m->relays;
    int work = 0;
    if (y == NULL)
        return 0;
    for (uint32_t i = 0; y->hello && i < y->opens; i++) {
        work += settle_client(m, client_of(m, y->open[i]));
        if (client_of(m, y->open[i])->feed.any)
            feed_settle(m, client_of(m, y->open[i]));
    }
    return work;
}

void relays_post(struct member *m)
{
    struct relays *y = m->relays;
    if (y == NULL)
        return;
    look_after(m);
    for (uint32_t i = 0; y->dirty && i < y->opens; i++) {
        struct relay_client *k = client_of(m, y->open[i]);
        if (k->dirty)
            push(m, k);
    }
    y->dirty = false;
}

/* ---- from view to view ---- */

void relays_begin(struct member *m)
{
    if (m->relays == NULL)
        return;
    for (uint32_t i = 0; i < m->opt.cells; i++) {
        struct cell *c = &m->cell[i];
        if (!c->in || !c->relayed_begin || !c->has_state)
            continue;
        memcpy(c->relayed_begin, c->relayed, m->opt.clients * sizeof(*c->relayed));
        c->samples_begin = c->samples;
    }
    if (m->relays->hello == 0)
        tell_hello(m);
}

void relays_end(struct member *m)
{
    if (m->relays == NULL)
        return;
    m->relays->voids++;
    tell_hello(m);
}

void relays_born(struct cell *c)
{
    if (c->relayed &&
        c->opt.mode != CELL_RAW) /* there each member has its own, which goes with its process */
        memset(c->relayed, 0, c->of->opt.clients * sizeof(*c->relayed));
    c->samples = 0;
}

/* A retry is in the log as often as it was published. */
bool relays_restore(struct cell *c, const struct version *v)
{
    if (v->client == 0 || c->relayed == NULL || v->client > c->of->opt.clients)
        return true;
    struct relay_entry *e = &c->relayed[v->client - 1];
    const struct relay_head h = {.number = v->seq, .life = (uint32_t)v->life};
    if (!is_new(e, &h))
        return false;
    *e = (struct relay_entry){.number = h.number, .life = (uint64_t)h.life + 1};
    return true;
}

void relays_restored(struct cell *c)
{
    if (c->relayed && c->relayed_begin)
        memcpy(c->relayed_begin, c->relayed, c->of->opt.clients * sizeof(*c->relayed));
}

bool relays_returned(struct cell *c, const struct record *r)
{
    if (!(r->flags & RECORD_RELAY))
        return false;
    if (c->of->relays) {
        c->of->relays->voids++;
        tell_hello(c->of);
    }
    return true;
}

/* ---- part of the state ---- */

static uint64_t part_bytes(void *ctx)
{
    const struct cell *c = ctx;
    return 8 * (PART_WORDS + ENTRY_WORDS * (uint64_t)c->of->opt.clients);
}

/* Who has no other state gets this one as it was when the view began, and delivers all of the view. */
static uint64_t part_save(void *ctx, unsigned char *out)
{
    const struct cell *c = ctx;
    const struct relay_entry *e = c->relayed_begin ? c->relayed_begin : c->relayed;
    uint64_t words[PART_WORDS] = {0, c->relayed_begin ? c->samples_begin : c->samples};
    unsigned char *at = out + sizeof(words);
    for (uint64_t i = 0; i < c->of->opt.clients; i++) {
        if (e[i].life == 0)
            continue;
        const uint64_t entry[ENTRY_WORDS] = {i, e[i].number, e[i].life};
        memcpy(at, entry, sizeof(entry));
        at += sizeof(entry);
        words[0]++;
    }
    memcpy(out, words, sizeof(words));
    return (uint64_t)(at - out);
}

static bool part_load(void *ctx, const unsigned char *in, uint64_t bytes)
{
    struct cell *c = ctx;
    uint64_t words[PART_WORDS], entry[ENTRY_WORDS];
    if (bytes < sizeof(words))
        return false;
    memcpy(words, in, sizeof(words));
    if (words[0] > c->of->opt.clients || bytes != sizeof(words) + words[0] * sizeof(entry))
        return false;
    relays_born(c);
    c->samples = c->samples_begin = words[1];
    for (uint64_t i = 0; i < words[0]; i++) {
        memcpy(entry, in + sizeof(words) + i * sizeof(entry), sizeof(entry));
        if (entry[0] >= c->of->opt.clients)
            return false;
        c->relayed[entry[0]] = (struct relay_entry){.number = entry[1], .life = entry[2]};
    }
    if (c->relayed_begin)
        memcpy(c->relayed_begin, c->relayed, c->of->opt.clients * sizeof(*c->relayed));
    return true;
}

/* Of a machine that has none. */
static void *none_save_open(void *ctx, uint64_t *bytes)
{
    *bytes = 0;
    return ctx;
}

static int none_save_next(void *ctx, void *save, void *out, uint32_t room)
{
    (void)ctx, (void)save, (void)out, (void)room;
    return 0;
}

static void none_save_close(void *ctx, void *save)
{
    (void)ctx, (void)save;
}

static int none_load_open(void *ctx, uint64_t bytes)
{
    (void)ctx;
    return bytes == 0 ? 0 : ERR_CORRUPT;
}

static int none_load_next(void *ctx, const void *data, uint32_t bytes)
{
    (void)ctx, (void)data;
    return bytes == 0 ? 0 : ERR_CORRUPT;
}

static int none_load_close(void *ctx, bool whole)
{
    (void)ctx, (void)whole;
    return 0;
}

static const struct state_ops no_state = {
    .save_open = none_save_open,
    .save_next = none_save_next,
    .save_close = none_save_close,
    .load_open = none_load_open,
    .load_next = none_load_next,
    .load_close = none_load_close,
};

/* ---- opening ---- */

static int cell_relays_open(struct member *m, struct cell *c)
{
    const struct member_machine *machine = m->opt.machine;
    bool has_state = machine->state != NULL;
    if (!c->mine)
        return 0;
    c->relayed = calloc(m->opt.clients, sizeof(*c->relayed));
    if (!has_state)
        c->relayed_begin = calloc(m->opt.clients, sizeof(*c->relayed));
    void *ctx =
        has_state && machine->state_ctx ? machine->state_ctx(m->opt.ctx, c->number) : m->opt.ctx;
    snap_open(&c->snap, &(struct snap_options){.machine = has_state ? machine->state : &no_state,
                                               .machine_ctx = has_state ? ctx : c,
                                               .bytes = part_bytes,
                                               .save = part_save,
                                               .load = part_load,
                                               .ctx = c});
    return c->relayed && (has_state || c->relayed_begin) ? 0 : ERR_NOMEM;
}

int relays_open(struct member *m, struct err *e)
{
    uint32_t ring = m->opt.client_bytes ? m->opt.client_bytes : CLIENT_BYTES_DEFAULT;
    m->state = m->opt.machine->state;
    if (m->opt.clients == 0)
        return 0;
    if (ring < MEM_PAGE_BYTES || (ring & (ring - 1)))
        return err_set(e, ERR_INVALID,
                       "group: rings of clients are to be a power of two, of at least 4 KiB");
    struct relays *y = m->relays = calloc(1, sizeof(*y));
    if (y == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for clients");
    y->of = m;
    y->requests = request_shape(ring);
    y->replied = relayed_shape(ring);
    y->client = calloc(m->opt.clients, sizeof(*y->client));
    y->open = calloc(m->opt.clients, sizeof(*y->open));
    y->frame = calloc(1, y->requests.bytes_max);
    y->reply = calloc(1, member_ask_max(m));
    y->rings =
        calloc(m->opt.clients, stream_ring_bytes(&y->replied)); /* touched when somebody comes */
    int rc = feeds_open(m);
    rc = rc == 0 && y->client && y->open && y->rings && y->frame && y->reply ? 0 : ERR_NOMEM;
    for (uint32_t i = 0; rc == 0 && i < m->opt.cells; i++)
        rc = cell_relays_open(m, &m->cell[i]);
    m->state = &snap_ops;
    return rc ? err_set(e, rc, "group: no memory for %u clients", m->opt.clients) : 0;
}

void relays_close(struct member *m)
{
    struct relays *y = m->relays;
    for (uint32_t i = 0; m->cell && i < m->opt.cells; i++) {
        free(m->cell[i].relayed);
        free(m->cell[i].relayed_begin);
        snap_close(&m->cell[i].snap);
    }
    if (y == NULL)
        return;
    free(y->client);
    free(y->open);
    free(y->rings);
    feeds_close(m);
    free(y->frame);
    free(y->reply);
    free(y);
}

int relays_client_open(struct member *m, const struct mem_lane_spec *offer, struct err *e)
{
    struct relays *y = m->relays;
    uint32_t place = offer->writer - m->opt.client_node;
    if (y == NULL || place >= m->opt.clients ||
        (lane_kind(offer) != LANE_REQUEST && lane_kind(offer) != LANE_FED))
        return err_set(e, ERR_NOTFOUND, "it offers a lane that no client of a group has");
    struct relay_client *k = client_of(m, place);
    if (lane_kind(offer) == LANE_FED)
        return feed_client_open(m, k, offer, e);
    if (k->in)
        return 0;
    uint32_t ring = y->requests.ring_bytes;
    const struct mem_lane_spec spec[2] = {
        client_lane(m->opt.me, offer->writer, LANE_REQUEST, ring),
        client_lane(m->opt.me, offer->writer, LANE_RELAYED, ring)};
    struct mem_lane *lane[2];
    if (offer->ring_bytes != ring)
        return err_set(e, ERR_INVALID, "its ring is of %u bytes, and ours of %u", offer->ring_bytes,
                       ring);
    int rc = mem_lanes_open(m->mem, spec, 2, lane, e);
    if (rc != 0)
        return rc;
    k->replies = (struct stream){.shape = &y->replied,
                                 .ring = y->rings + (size_t)place * stream_ring_bytes(&y->replied)};
    k->place = place;
    k->in = lane[0];
    k->out.lane = lane[1];
    k->life = lane[0]->life;
    stream_begin(&k->replies, 0);
    y->open[y->opens++] = place;
    tell_session(m, k);
    return 0;
}
