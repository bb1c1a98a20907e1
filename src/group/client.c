#include "group/client_impl.h"

#include <stdlib.h>

/* The client's end of relay.h. */

enum { RETRY_MS = 250, ASK_MAX_DEFAULT = 16000, RESTS_A_RETRY = 16 };

/* What has to do with a subscription has a way, a place and numbers of its own: it waits for no message. */
static bool is_own(const struct group_client *c, uint32_t way)
{
    return way >= c->opt.cells;
}

static uint32_t reply_room(uint32_t reply_max)
{
    return (uint32_t)frame_size((uint32_t)sizeof(struct client_reply) + reply_max);
}

/* ---- sessions ---- */

uint64_t client_session_of(const struct group_client *c, const struct link *l)
{
    return client_session(c->mem->life, l->requests.life);
}

/* TAKEN of the lane is about the session behind it; FOR comes last. */
static void tell_session(struct group_client *c, struct link *l)
{
    struct stream_out *o = &l->out;
    if (!stream_reopen(c->mem, &l->requests, o))
        return;
    mem_set1(c->mem, &o->flow, o->lane, REQUEST_GUARD, stream_start());
    mem_set1(c->mem, &o->flow, o->lane, REQUEST_TAKEN, l->at);
    mem_set1(c->mem, &o->flow, o->lane, REQUEST_SESSION, client_session_of(c, l));
    client_feed_tell(c, l);
    mem_set1(c->mem, &o->flow, o->lane, REQUEST_FOR, l->hello);
    o->begun = true;
    l->dirty = true;
}

static void begin_session(struct group_client *c, struct link *l, uint64_t hello)
{
    c->sessions = c->sessions == STREAM_LIVES_MAX ? 1 : c->sessions + 1;
    stream_begin(&l->requests, c->sessions);
    l->hello = hello;
    l->at = l->told = l->feed_at = l->feed_told = stream_start();
    l->open = l->sent = 0;
    l->moved_ns = c->now_ns;
    c->count.sessions++;
    tell_session(c, l);
}

static void send_own_again(struct pending *p)
{
    p->host = NOWHERE;
    p->again = true;
}

/* Nothing of it is known to have arrived. */
static void forget_sent(struct group_client *c, uint32_t host)
{
    for (uint32_t i = 0; i < c->opt.cells; i++)
        if (c->way[i].host == host)
            window_unsend(&c->window, i);
    for (uint32_t i = 0; c->owns > 0 && i < c->opt.cells; i++)
        if (c->own[i].ticket && c->own[i].host == host)
            send_own_again(&c->own[i]);
}

static uint64_t hosts_of(const struct group_client *c, uint32_t way)
{
    uint32_t cells = c->opt.cells;
    return way < cells ? c->opt.cell[way].hosts : c->opt.cell[way - cells].readers;
}

/* The host that the cell is taken to next, from the one where it was. */
static uint32_t next_host(const struct group_client *c, uint32_t way, uint32_t from)
{
    uint64_t hosts = hosts_of(c, way);
    uint32_t count = set_count(hosts);
    uint32_t rank = from == NOWHERE ? (c->opt.place + way) % count : 0;
    if (from != NOWHERE)
        rank = (set_rank(hosts, from) + 1) % count;
    while (rank-- > 0)
        hosts = set_rest(hosts);
    return set_first(hosts);
}

static void go_to(struct group_client *c, uint32_t way, uint32_t host)
{
    struct client_way *w = &c->way[way];
    struct link *l = &c->link[host];
    w->host = host;
    w->visit++;
    l->wanted |= l->in == NULL;
    l->feed_wanted |= way >= c->opt.cells && l->feed == NULL;
    l->moved_ns = c->now_ns;
}

/* The cell goes on elsewhere. */
static void move_on(struct group_client *c, uint32_t way)
{
    struct client_way *w = &c->way[way];
    if (is_own(c, way))
        send_own_again(&c->own[way - c->opt.cells]);
    else
        window_unsend(&c->window, way);
    if (++w->tried % set_count(hosts_of(c, way)) == 0)
        w->rest_ns = c->now_ns + c->opt.retry_ns / RESTS_A_RETRY;
    go_to(c, way, next_host(c, way, w->host));
}

/* The member is gone, or brings nothing: all of its cells go on elsewhere. The next session is another. */
static void give_up(struct group_client *c, uint32_t host)
{
    struct link *l = &c->link[host];
    l->hello = 0;
    l->moved_ns = c->now_ns;
    forget_sent(c, host);
    client_feed_lost(c, host);
    for (uint32_t i = 0; i < 2 * c->opt.cells; i++)
        if (c->way[i].host == host && c->way[i].waits && c->now_ns >= c->way[i].rest_ns)
            move_on(c, i);
}

static bool is_waited_for(const struct group_client *c, uint32_t host)
{
    for (uint32_t i = 0; i < 2 * c->opt.cells; i++)
        if (c->way[i].host == host && c->way[i].waits && c->now_ns >= c->way[i].rest_ns)
            return true;
    return false;
}

/* ---- replies ---- */

static void finish(struct group_client *c, struct pending *p, const struct client_reply_item *r)
{
    uint64_t ticket = p->ticket;
    c->way[p->way].waits--;
    if (is_own(c, p->way)) {
        p->ticket = 0;
        c->owns--;
        return;
    }
    window_remove(&c->window, p);
    c->done++;
    c->opt.calls->done(c->opt.ctx, ticket, r);
}

/* What the reply is to; NULL: nothing that is still pending. */
static struct pending *asked_for(struct group_client *c, const struct client_reply *r)
{
    struct pending *p = NULL;
    if (r->number & OWN_NUMBER)
        p = r->cell < c->opt.cells ? &c->own[r->cell] : NULL;
    else
        p = window_find(&c->window, r->number);
    return p && p->ticket == r->number && p->head.cell == r->cell ? p : NULL;
}

static void take_reply(struct group_client *c, uint32_t host, const struct client_reply *r,
                       const void *data, uint32_t bytes)
{
    struct pending *p = asked_for(c, r);
    if (p == NULL)
        return;
    if (r->status == ERR_REFUSED) {
        if (p->host == host && r->visit == c->way[p->way].visit)
            move_on(c, p->way);
        return;
    }
    c->way[p->way].tried = 0;
    if (p->head.kind == REQUEST_SUBSCRIBE)
        client_feed_begins(c, r->cell, host, data, bytes);
    finish(c, p,
           &(struct client_reply_item){.status = r->status,
                                       .host = host,
                                       .version = r->version,
                                       .data = data,
                                       .bytes = bytes});
}

/* What a member writes is looked at as if it could be anything. */
static bool take_next(struct group_client *c, uint32_t host, uint64_t guard)
{
    struct link *l = &c->link[host];
    struct frame f;
    struct client_reply r;
    frame_read(&f, l->in->ring, c->replied.ring_bytes, l->at);
    if (!frame_fits(&f, l->at, l->requests.life, c->replied.bytes_max, guard) ||
        f.bytes < sizeof(r))
        return false;
    const unsigned char *data =
        frame_payload(l->in->ring, c->replied.ring_bytes, l->at, f.bytes, c->over);
    memcpy(&r, data, sizeof(r));
    l->at += frame_size(f.bytes);
    l->moved_ns = c->now_ns;
    l->open -= (uint32_t)min_u64(l->open, reply_room(r.reply_max));
    l->sent -= l->sent > 0;
    take_reply(c, host, &r, data + sizeof(r), f.bytes - (uint32_t)sizeof(r));
    return l->hello != 0;
}

static bool is_in_session(const struct group_client *c, const struct link *l)
{
    return mem_word(l->in, RELAYED_SESSION) == client_session_of(c, l);
}

static void take_replies(struct group_client *c, uint32_t host)
{
    struct link *l = &c->link[host];
    if (!is_in_session(c, l))
        return;
    uint64_t guard = mem_word(l->in, RELAYED_GUARD), from = l->at;
    while (l->at < guard && take_next(c, host, guard))
        ;
    l->dirty |= l->at != from;
    if (l->hello == 0)
        return;
    uint64_t taken = mem_word(l->in, RELAYED_TAKEN);
    if (taken <= l->requests.tail)
        l->requests.taken = max_u64(l->requests.taken, taken);
}

static void settle_link(struct group_client *c, uint32_t host)
{
    struct link *l = &c->link[host];
    bool waited = is_waited_for(c, host);
    if (l->in == NULL || l->in->ctl == NULL) {
        if (waited && (mem_dead(c->mem, host) || c->now_ns - l->moved_ns > c->opt.retry_ns))
            give_up(c, host);
        return;
    }
    uint64_t hello = mem_word(l->in, RELAYED_HELLO);
    if (l->hello && hello == l->hello)
        take_replies(c, host);
    if (l->hello && l->feed)
        client_feed_take(c, host);
    bool silent = l->live && c->now_ns - l->beat_ns > c->opt.retry_ns;
    if (!waited && !l->live)
        return;
    if (silent || mem_dead(c->mem, host) || (l->hello && hello == 0) ||
        (waited && c->now_ns - l->moved_ns > c->opt.retry_ns)) {
        give_up(c, host);
    } else if (hello && hello != l->hello) {
        forget_sent(c, host);
        client_feed_lost(c, host);
        begin_session(c, l, hello);
    } else if (l->hello && l->out.flow.status != MEM_DONE) {
        tell_session(c, l);
    }
}

/* ---- requests ---- */

/* False: nothing more of its cell can be sent now. */
static bool send_one(struct group_client *c, struct pending *p)
{
    struct link *l = &c->link[c->way[p->way].host];
    uint32_t size = (uint32_t)sizeof(p->head) + p->bytes, room = reply_room(p->head.reply_max);
    if (c->now_ns < c->way[p->way].rest_ns || l->hello == 0 ||
        l->open + room > c->replied.ring_bytes || !stream_room(&l->requests, frame_size(size)))
        return false;
    unsigned char *to = stream_reserve(&l->requests);
    p->head.visit = c->way[p->way].visit;
    memcpy(to, &p->head, sizeof(p->head));
    if (is_own(c, p->way))
        client_feed_from(c, p, to + sizeof(p->head));
    else
        window_data(&c->window, p, to + sizeof(p->head));
    stream_commit(&l->requests, size);
    l->moved_ns = l->sent ? l->moved_ns : c->now_ns;
    l->open += room;
    l->sent++;
    l->dirty = true;
    c->count.sent++;
    c->count.again += p->again;
    if (is_own(c, p->way))
        p->host = c->way[p->way].host;
    else
        window_sent(&c->window, p, c->way[p->way].host);
    return true;
}

/* In order, for each cell. */
static void send_some(struct group_client *c)
{
    struct client_window *w = &c->window;
    for (uint32_t i = 0; c->owns > 0 && i < c->opt.cells; i++)
        if (c->own[i].ticket && c->own[i].host == NOWHERE)
            send_one(c, &c->own[i]);
    for (uint32_t i = 0; w->unsent > 0 && i < c->opt.cells; i++) {
        const struct window_list *l = &w->list[(c->turn + i) % c->opt.cells];
        while (l->unsent != NO_SLOT && send_one(c, &w->pending[l->unsent]))
            ;
    }
    c->turn = (c->turn + 1) % c->opt.cells;
}

static void push(struct group_client *c, uint32_t host)
{
    struct link *l = &c->link[host];
    struct stream_out *o = &l->out;
    l->dirty = false;
    if (l->hello == 0 || o->flow.status != MEM_DONE)
        return;
    stream_push(c->mem, &l->requests, o);
    if (l->told != l->at)
        mem_set1(c->mem, &o->flow, o->lane, REQUEST_TAKEN, l->at);
    l->told = l->at;
    if (l->feed_told != l->feed_at)
        mem_set1(c->mem, &o->flow, l->fed, FED_TAKEN, l->feed_at);
    l->feed_told = l->feed_at;
    mem_bell_later(c->mem, host);
}

/* What this thread did not hear while it was away is nobody's silence. */
static void excuse(struct group_client *c, uint64_t now_ns)
{
    uint64_t away = now_ns - c->now_ns;
    c->now_ns = now_ns;
    for (uint32_t h = 0; away > c->opt.retry_ns / 2 && h < c->opt.hosts; h++) {
        c->link[h].moved_ns += away;
        c->link[h].beat_ns += away;
    }
}

int client_settle(struct group_client *c, uint64_t now_ns)
{
    excuse(c, now_ns);
    c->done = 0;
    if (c->subs)
        client_feed_ask(c);
    for (uint32_t h = 0; h < c->opt.hosts; h++)
        settle_link(c, h);
    send_some(c);
    for (uint32_t h = 0; h < c->opt.hosts; h++)
        if (c->link[h].dirty)
            push(c, h);
    return c->done;
}

/* ---- asking ---- */

static void start(struct group_client *c, uint32_t way)
{
    struct client_way *w = &c->way[way];
    if (w->host == NOWHERE)
        go_to(c, way, next_host(c, way, NOWHERE));
    else if (w->waits == 0 && c->link[w->host].sent == 0)
        c->link[w->host].moved_ns = c->now_ns;
    w->waits++;
}

static int start_message(struct group_client *c, const struct client_request *r, const void *data,
                         uint32_t bytes, uint64_t *ticket)
{
    struct pending *p = window_add(&c->window, r->cell, r, data, bytes);
    if (p == NULL)
        return ERR_AGAIN;
    *ticket = p->ticket;
    start(c, p->way);
    return 0;
}

bool client_start_own(struct group_client *c, const struct client_request *r, uint32_t bytes)
{
    struct pending *p = &c->own[r->cell];
    if (p->ticket)
        return false;
    *p = (struct pending){.ticket = OWN_NUMBER | ++c->own_number,
                          .head = *r,
                          .way = c->opt.cells + r->cell,
                          .bytes = bytes,
                          .host = NOWHERE};
    p->head.number = p->ticket;
    c->owns++;
    start(c, p->way);
    return true;
}

/* Some cells are for messages that are smaller than the head of one. */
static bool fits(const struct group_client *c, uint32_t cell, uint32_t bytes)
{
    return bytes <= client_message_max(c, cell) &&
           bytes + sizeof(struct relay_head) <= c->opt.cell[cell].message_max;
}

int client_send(struct group_client *c, uint32_t cell, const void *data, uint32_t bytes,
                uint64_t *ticket)
{
    if (!fits(c, cell, bytes))
        return ERR_TOOBIG;
    return start_message(c, &(struct client_request){.cell = cell, .kind = REQUEST_SEND}, data,
                         bytes, ticket);
}

int client_call(struct group_client *c, uint32_t cell, const void *data, uint32_t bytes,
                uint32_t reply_max, uint64_t *ticket)
{
    if (c->opt.cell[cell].raw)
        return ERR_INVALID;
    if (!fits(c, cell, bytes) || reply_max > client_ask_max(c))
        return ERR_TOOBIG;
    return start_message(
        c, &(struct client_request){.cell = cell, .kind = REQUEST_CALL, .reply_max = reply_max},
        data, bytes, ticket);
}

int client_query(struct group_client *c, uint32_t cell, uint64_t version, const void *data,
                 uint32_t bytes, uint32_t reply_max, uint64_t *ticket)
{
    const struct client_request r = {
        .version = version, .cell = cell, .kind = REQUEST_QUERY, .reply_max = reply_max};
    if (bytes > client_frame_max(c->requests.ring_bytes) - sizeof(r) ||
        reply_max > client_ask_max(c))
        return ERR_TOOBIG;
    return start_message(c, &r, data, bytes, ticket);
}

/* ---- looking ---- */

uint32_t client_outstanding(const struct group_client *c)
{
    return c->window.count;
}

uint32_t client_message_max(const struct group_client *c, uint32_t cell)
{
    const uint32_t head = sizeof(struct relay_head), max = c->opt.cell[cell].message_max;
    uint32_t most = c->requests.bytes_max - (uint32_t)sizeof(struct client_request);
    return (uint32_t)min_u64(most, max > head ? max - head : 0);
}

uint32_t client_ask_max(const struct group_client *c)
{
    return (uint32_t)min_u64(c->opt.ask_max, c->replied.bytes_max - sizeof(struct client_reply));
}

uint32_t client_host(const struct group_client *c, uint32_t cell)
{
    uint32_t host = c->way[cell].host;
    return host != NOWHERE && c->link[host].hello && c->way[cell].tried == 0 ? host : c->opt.hosts;
}

uint32_t client_tried(const struct group_client *c, uint32_t cell)
{
    return c->way[cell].tried;
}

uint32_t client_waits(const struct group_client *c, uint32_t cell)
{
    return c->way[cell].waits;
}

void client_counts(const struct group_client *c, struct client_counts *out)
{
    *out = c->count;
}

/* ---- opening ---- */

uint32_t client_wants_link(const struct group_client *c)
{
    uint32_t host = 0;
    while (host < c->opt.hosts && !c->link[host].wanted && !c->link[host].feed_wanted)
        host++;
    return host;
}

static int request_open(struct group_client *c, uint32_t host, struct err *e)
{
    struct link *l = &c->link[host];
    uint32_t ring = c->requests.ring_bytes;
    const struct mem_lane_spec spec[2] = {client_lane(host, c->mem->self, LANE_RELAYED, ring),
                                          client_lane(host, c->mem->self, LANE_REQUEST, ring)};
    struct mem_lane *lane[2];
    l->wanted = false;
    l->requests = (struct stream){.shape = &c->requests};
    l->requests.ring = calloc(1, stream_ring_bytes(&c->requests));
    if (l->requests.ring == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory for a ring of %u bytes", ring);
    int rc = mem_lanes_open(c->mem, spec, 2, lane, e);
    if (rc != 0) {
        free(l->requests.ring);
        l->requests.ring = NULL;
        return rc;
    }
    l->in = lane[0];
    l->out.lane = lane[1];
    stream_begin(&l->requests, 0);
    stream_reopen(c->mem, &l->requests, &l->out);
    return 0;
}

int client_link_open(struct group_client *c, uint32_t host, struct err *e)
{
    struct link *l = &c->link[host];
    int rc = l->wanted ? request_open(c, host, e) : 0;
    return rc == 0 && l->feed_wanted ? client_feed_open(c, host, e) : rc;
}

int client_open(const struct client_options *o, struct group_client **out, struct err *e)
{
    uint32_t ring = o->client_bytes ? o->client_bytes : CLIENT_BYTES_DEFAULT;
    enum mem_birth birth;
    int rc = mem_region_open(o->mem, region_number(REGION_MEMBER, 0), &birth, e);
    if (rc != 0)
        return rc;
    struct group_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "client: no memory");
    c->opt = *o;
    c->mem = o->mem;
    c->opt.retry_ns = o->retry_ns ? o->retry_ns : RETRY_MS * UINT64_C(1000000);
    c->opt.ask_max = o->ask_max ? o->ask_max : ASK_MAX_DEFAULT;
    c->requests = request_shape(ring);
    c->replied = relayed_shape(ring);
    c->way = calloc(2 * (size_t)o->cells, sizeof(*c->way));
    c->own = calloc(o->cells, sizeof(*c->own));
    c->over = calloc(1, c->replied.bytes_max);
    for (uint32_t i = 0; c->way && i < 2 * o->cells; i++)
        c->way[i].host = NOWHERE;
    if (!c->way || !c->own || !c->over || window_open(&c->window, o->cells, 2 * ring) != 0 ||
        client_subs_open(c) != 0) {
        client_close(c);
        return err_set(e, ERR_NOMEM, "client: no memory");
    }
    *out = c;
    return 0;
}

void client_close(struct group_client *c)
{
    if (c == NULL)
        return;
    for (uint32_t h = 0; h < c->opt.hosts; h++)
        free(c->link[h].requests.ring);
    client_subs_close(c);
    free(c->way);
    free(c->own);
    window_close(&c->window);
    free(c->over);
    free(c);
}
