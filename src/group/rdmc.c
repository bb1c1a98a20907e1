#include "base/crc32c.h"
#include "group/impl.h"

#include <stdlib.h>

/* Bodies over a network: blocks, who gets which from whom, and what is believed of those that come. See large.h.
 *
 * Each member sends its part of a schedule in the schedule's order: a block when it is here and there is a slot for it in the other's
 * ring. Nobody waits for anybody's step. Blocks are put one after the other, in chunks, and no more is put than keeps what is behind it,
 * such as signs of life, from being late: the window grows while marks are done within an eighth of `suspect_ns`, and shrinks when they take
 * longer than a quarter. */

enum block_word {
    BLOCK_GUARD, /* stamp: so many blocks are there */
    BLOCK_TAKEN, /* stamp: so many of the blocks that the owner writes to us were taken */
    BLOCK_WORDS,
};

enum {
    CHUNK_BYTES = 64 << 10,
    WINDOW_LEAST = 128 << 10,
    WINDOW_MOST = 4 << 20,
    WINDOW_FIRST = 512 << 10,
    BLOCKS_A_ROUND = 8, /* that are taken */
};

#define PROGRESS_NS UINT64_C(1000000000)

/* ---- bodies and their schedules ---- */

void rdmc_cut(const struct member *m, struct body *b, uint32_t bytes)
{
    uint64_t most = m->opt.block_bytes - BLOCK_HEAD_BYTES;
    uint64_t size = ((uint64_t)bytes + BLOCKS_LEAST - 1) / BLOCKS_LEAST;
    size = (max_u64(size, 1) + 63) & ~UINT64_C(63);
    b->bytes = bytes;
    b->size = (uint32_t)min_u64(size, most);
    b->blocks = bytes ? (uint32_t)(((uint64_t)bytes + b->size - 1) / b->size) : 1;
}

static uint32_t block_bytes(const struct body *b, uint32_t number)
{
    return (uint32_t)min_u64(b->size, b->bytes - (uint64_t)number * b->size);
}

static uint64_t padded8(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static bool has_block(const struct body *b, uint32_t number)
{
    return b->here == b->blocks || b->has[number / 64] >> number % 64 & 1;
}

/* Ranks are members of the cell from the sender on. */
static uint32_t host_of_rank(const struct cell *c, uint32_t sender, uint32_t rank)
{
    uint32_t n = set_count(c->members), at = (set_rank(c->members, sender) + rank) % n;
    uint64_t rest = c->members;
    while (at-- > 0)
        rest = set_rest(rest);
    return set_first(rest);
}

static uint32_t rank_of_host(const struct cell *c, uint32_t sender, uint32_t host)
{
    uint32_t n = set_count(c->members);
    return (set_rank(c->members, host) + n - set_rank(c->members, sender)) % n;
}

static enum rdmc_schedule schedule_of(const struct cell *c, uint32_t n)
{
    if (c->opt.rdmc != RDMC_AUTO)
        return c->opt.rdmc;
    return n < 3 ? RDMC_SEQUENTIAL : n == 3 ? RDMC_CHAIN : RDMC_PIPELINE;
}

/* What this member is to send next of the body, in the order of the schedule. */
static bool look_up(const struct cell *c, uint32_t sender, struct body *b)
{
    uint8_t rack[GROUP_HOSTS_MAX];
    uint32_t n = set_count(c->members), me = rank_of_host(c, sender, c->of->opt.me);
    for (uint32_t r = 0; r < n; r++)
        rack[r] = c->of->opt.rack[host_of_rank(c, sender, r)];
    const struct rdmc_plan plan = {
        .schedule = schedule_of(c, n), .members = n, .blocks = b->blocks, .rack = rack};
    b->steps = rdmc_steps(&plan);
    while (b->next == RDMC_NONE && b->step < b->steps) {
        struct rdmc_move move = rdmc_next(&plan, me, b->step++);
        b->to = move.to;
        b->next = move.sends;
    }
    return b->next != RDMC_NONE;
}

/* Queues what is to be sent of the body and is here, as far as there are slots for it. */
static int queue_body(struct cell *c, uint32_t sender, struct body *b)
{
    struct rdmc *r = c->of->rdmc;
    int work = 0;
    while (b->sends && (b->sends = look_up(c, sender, b)) && has_block(b, b->next)) {
        struct block_peer *p = &r->peer[host_of_rank(c, sender, b->to)];
        if (p->queued == p->freed + BLOCK_SLOTS)
            break;
        p->queue[p->queued % BLOCK_SLOTS].turn = r->turns++;
        p->queue[p->queued % BLOCK_SLOTS].id = b->id;
        p->queue[p->queued % BLOCK_SLOTS].cell = c->number;
        p->queue[p->queued % BLOCK_SLOTS].sender = sender;
        p->queue[p->queued % BLOCK_SLOTS].number = b->next;
        p->queued++;
        b->next = RDMC_NONE;
        work++;
    }
    return work;
}

static void begin_body(struct cell *c, uint32_t sender, struct body *b, uint64_t now_ns)
{
    c->bodies->busy |= set_of(sender);
    b->sends = true;
    b->told = false;
    b->step = b->steps = 0;
    b->next = RDMC_NONE;
    b->told_ns = now_ns;
}

/* An own body goes when its record has its place in the order. */
static void start_own(struct cell *c, uint64_t now_ns)
{
    uint32_t me = c->of->opt.me;
    for (uint32_t i = 0; i < c->bodies->window; i++) {
        struct body *b = body_at(c->bodies, me, i);
        if (b->state != BODY_READY || b->pos >= c->own.end || c->index == c->senders)
            continue;
        b->state = BODY_WHOLE;
        b->here = b->blocks;
        begin_body(c, me, b, now_ns);
    }
}

static uint64_t bytes_done(const struct body *b, bool own)
{
    if (own)
        return b->sends && b->steps ? b->bytes * b->step / b->steps : b->bytes;
    return min_u64((uint64_t)b->here * b->size, b->bytes);
}

/* True: it is still under way. */
static bool tell_progress(struct cell *c, uint32_t sender, struct body *b, uint64_t now_ns)
{
    const struct member_machine *machine = c->of->opt.machine;
    bool own = sender == c->of->opt.me, comes = own ? b->sends : b->state == BODY_COMES;
    if (comes ? now_ns - b->told_ns >= PROGRESS_NS : b->told) {
        b->told_ns = now_ns;
        b->told = comes;
        if (machine->progress)
            machine->progress(c->of->opt.ctx, &(struct large_progress){.cell = c->number,
                                                                       .sender = sender,
                                                                       .bytes = bytes_done(b, own),
                                                                       .of = b->bytes});
    }
    return comes || b->sends;
}

static int queue_cell(struct cell *c, uint64_t now_ns)
{
    int work = 0;
    start_own(c, now_ns);
    for (uint64_t rest = c->bodies->busy; rest; rest = set_rest(rest)) {
        uint32_t sender = set_first(rest);
        bool busy = false;
        for (uint32_t k = 0; k < c->bodies->window; k++) {
            struct body *b = body_at(c->bodies, sender, k);
            if (b->state == BODY_NONE)
                continue;
            work += queue_body(c, sender, b);
            busy |= tell_progress(c, sender, b, now_ns);
        }
        c->bodies->busy &= busy ? UINT64_MAX : ~set_of(sender);
    }
    return work;
}

/* ---- putting ---- */

static uint64_t bytes_on_their_way(const struct member *m)
{
    uint64_t sum = 0;
    for (uint64_t rest = m->view->members; rest; rest = set_rest(rest)) {
        const struct mem_flow *f = &m->rdmc->peer[set_first(rest)].flow;
        sum += f->status == MEM_DONE ? f->marked - f->done : 0;
    }
    return sum;
}

/* The host whose block was queued first, of those that can be written to; the hosts' count: none. */
static uint32_t first_in_turn(const struct member *m)
{
    uint64_t least = UINT64_MAX;
    uint32_t first = m->opt.hosts;
    for (uint64_t rest = m->view->members; rest; rest = set_rest(rest)) {
        const struct block_peer *p = &m->rdmc->peer[set_first(rest)];
        if (p->put == p->queued || p->flow.status != MEM_DONE ||
            p->queue[p->put % BLOCK_SLOTS].turn >= least)
            continue;
        least = p->queue[p->put % BLOCK_SLOTS].turn;
        first = set_first(rest);
    }
    return first;
}

/* GUARD is of this view before the first of its blocks lands where the last view's were. */
static void put_head(struct member *m, struct block_peer *p, const struct block_head *h)
{
    if (p->put == 0)
        mem_set1(m->mem, &p->flow, p->out, BLOCK_GUARD, stamp(m->view->vid, 0));
    mem_put(m->mem, &p->flow, p->out, p->put % BLOCK_SLOTS * m->rdmc->block_bytes, h, sizeof(*h));
}

/* The next chunk of the block that is next for the host. */
static void put_chunk(struct member *m, struct block_peer *p)
{
    const uint32_t slot = (uint32_t)(p->put % BLOCK_SLOTS), number = p->queue[slot].number;
    const struct large *l = m->cell[p->queue[slot].cell].bodies;
    const uint32_t sender = p->queue[slot].sender;
    const struct body *b = body_at(l, sender, p->queue[slot].id);
    if (b->id != p->queue[slot]
                     .id) { /* all have it, and it was taken there before the connection was lost */
        p->offset = 0;
        p->put++;
        return;
    }
    const uint32_t bytes = block_bytes(b, number);
    if (p->offset == 0)
        put_head(m, p,
                 &(struct block_head){.vid = m->view->vid,
                                      .id = b->id,
                                      .cell = p->queue[slot].cell,
                                      .sender = sender,
                                      .number = number,
                                      .bytes = bytes,
                                      .total = b->bytes});
    uint64_t chunk = min_u64(padded8(bytes) - p->offset, CHUNK_BYTES);
    if (chunk > 0)
        mem_put(m->mem, &p->flow, p->out,
                slot * (uint64_t)m->rdmc->block_bytes + BLOCK_HEAD_BYTES + p->offset,
                body_memory(l, sender, b->id) + (uint64_t)number * b->size + p->offset,
                (uint32_t)chunk);
    p->offset += chunk;
    p->bytes += chunk + (chunk == p->offset ? BLOCK_HEAD_BYTES : 0);
    if (p->offset >= bytes) {
        p->offset = 0;
        p->put++;
        m->count.blocks++;
        mem_set1(m->mem, &p->flow, p->out, BLOCK_GUARD, stamp(m->view->vid, p->put));
    }
    mem_mark(m->mem, &p->flow, p->bytes);
}

/* How long bytes are on their way is seen by one mark at a time. */
static void adapt_window(struct member *m, uint64_t now_ns, bool full)
{
    struct rdmc *r = m->rdmc;
    if (r->probe == 0)
        return;
    const struct mem_flow *f = &r->peer[r->probe - 1].flow;
    if (f->status == MEM_DONE && f->done < r->probe_tag)
        return;
    uint64_t took = now_ns - r->probe_ns;
    if (took > m->opt.suspect_ns / 4 || f->status != MEM_DONE)
        r->window_bytes = max_u64(r->window_bytes / 2, WINDOW_LEAST);
    else if (took < m->opt.suspect_ns / 8 && full)
        r->window_bytes = min_u64(r->window_bytes + r->window_bytes / 4, WINDOW_MOST);
    r->probe = 0;
}

static int put_some(struct member *m, uint64_t now_ns)
{
    struct rdmc *r = m->rdmc;
    uint32_t host = first_in_turn(m);
    int work = 0;
    adapt_window(m, now_ns, host < m->opt.hosts);
    for (uint64_t on_way = bytes_on_their_way(m); host < m->opt.hosts && on_way < r->window_bytes;
         work++) {
        struct block_peer *p = &r->peer[host];
        uint64_t before = p->bytes;
        put_chunk(m, p);
        on_way += p->bytes - before;
        if (r->probe == 0) {
            r->probe = host + 1;
            r->probe_tag = p->bytes;
            r->probe_ns = now_ns;
        }
        host = first_in_turn(m);
    }
    return work;
}

/* ---- the other hosts ---- */

/* A connection that was lost has taken along what was not taken there: it is put again. */
static void reopen(struct member *m, uint32_t host)
{
    struct block_peer *p = &m->rdmc->peer[host];
    if (p->flow.status == MEM_DONE)
        return;
    mem_flow_open(m->mem, &p->flow, host, region_number(REGION_MEMBER, 0), 0);
    p->put = p->freed;
    p->offset = p->bytes = 0;
    p->tell = true;
}

static void distrust(struct member *m, uint32_t host)
{
    m->rdmc->peer[host].torn = true;
    m->count.torn += !in_set(m->torn, host);
    m->torn |= set_of(host);
}

/* How many of our blocks the host has taken; also of those that were to be put again. */
static void look_freed(struct member *m, uint32_t host)
{
    struct block_peer *p = &m->rdmc->peer[host];
    uint64_t word = mem_word(p->in, BLOCK_TAKEN);
    if (stamp_vid(word) != m->view->vid || stamp_count(word) <= p->freed)
        return;
    if (stamp_count(word) > p->queued) {
        distrust(m, host);
        return;
    }
    p->freed = stamp_count(word);
    if (p->put < p->freed) {
        p->put = p->freed;
        p->offset = 0;
    }
}

static void tell_taken(struct member *m, struct block_peer *p)
{
    if (!p->tell || p->flow.status != MEM_DONE)
        return;
    mem_set1(m->mem, &p->flow, p->out, BLOCK_TAKEN, stamp(m->view->vid, p->taken));
    p->tell = p->flow.status != MEM_DONE;
}

int rdmc_post(struct member *m, uint64_t now_ns)
{
    int work = 0;
    if (m->phase != MEMBER_OPEN)
        return 0;
    for (uint64_t rest = m->view->members & ~set_of(m->opt.me); rest; rest = set_rest(rest)) {
        struct block_peer *p = &m->rdmc->peer[set_first(rest)];
        reopen(m, set_first(rest));
        if (p->in->ctl && !p->torn)
            look_freed(m, set_first(rest));
        tell_taken(m, p);
    }
    for (uint32_t i = 0; i < m->opt.cells; i++)
        if (m->cell[i].in && m->cell[i].bodies)
            work += queue_cell(&m->cell[i], now_ns);
    return work + put_some(m, now_ns);
}

/* ---- taking ---- */

/* The body that the block is of, if a member could have sent it; NULL: none. */
static struct body *body_of(struct member *m, const struct block_head *h)
{
    struct cell *c = h->cell < m->opt.cells ? &m->cell[h->cell] : NULL;
    if (c == NULL || !c->in || c->bodies == NULL || h->sender >= m->opt.hosts ||
        h->sender == m->opt.me || c->bodies->memory[h->sender] == NULL ||
        !in_set(m->view->cell[h->cell].senders, h->sender) || h->id < c->bodies->window ||
        h->total > c->opt.large_max)
        return NULL;
    struct body *b = body_at(c->bodies, h->sender, h->id);
    if (h->id > b->id && (b->id == 0 || b->over || b->state != BODY_WHOLE)) {
        uint64_t pos = b->pos;
        *b = (struct body){.state = BODY_COMES, .id = h->id, .pos = pos};
        rdmc_cut(m, b, (uint32_t)h->total);
    }
    bool fits = b->id == h->id && b->bytes == h->total && h->number < b->blocks &&
                h->bytes == block_bytes(b, h->number);
    return fits ? b : NULL;
}

static void complete(struct member *m, const struct block_head *h, struct body *b)
{
    const struct large *l = m->cell[h->cell].bodies;
    b->state = BODY_WHOLE;
    b->checksum = crc32c(0, body_memory(l, h->sender, h->id), b->bytes);
}

/* A block of a body that is whole already says nothing new. Copies from a ring that its writer may begin anew meanwhile; false: it has. */
static bool take_block(struct member *m, uint32_t host, uint64_t now_ns)
{
    const struct mem_lane *in = m->rdmc->peer[host].in;
    const unsigned char *at =
        in->ring + m->rdmc->peer[host].taken % BLOCK_SLOTS * m->rdmc->block_bytes;
    struct block_head h;
    memcpy(&h, at, sizeof(h));
    if (h.vid != m->view->vid && !PLANTED(group_old_block))
        return false;
    struct body *b = body_of(m, &h);
    if (b == NULL) {
        distrust(m, host);
        return false;
    }
    if (has_block(b, h.number))
        return true;
    const struct large *l = m->cell[h.cell].bodies;
    memcpy(body_memory(l, h.sender, h.id) + (uint64_t)h.number * b->size, at + BLOCK_HEAD_BYTES,
           h.bytes);
    atomic_thread_fence(memory_order_acquire);
    if (stamp_vid(mem_word(in, BLOCK_GUARD)) != m->view->vid && !PLANTED(group_old_block))
        return false;
    if (b->here == 0)
        begin_body(&m->cell[h.cell], h.sender, b, now_ns);
    b->has[h.number / 64] |= UINT64_C(1) << h.number % 64;
    if (++b->here == b->blocks)
        complete(m, &h, b);
    return true;
}

static int take_blocks(struct member *m, uint32_t host, uint64_t now_ns)
{
    struct block_peer *p = &m->rdmc->peer[host];
    int work = 0;
    if (p->torn)
        distrust(m, host);
    if (p->torn || p->in->ctl == NULL)
        return 0;
    uint64_t guard = mem_word(p->in, BLOCK_GUARD), count = stamp_count(guard);
    if ((stamp_vid(guard) != m->view->vid && !PLANTED(group_old_block)) || count <= p->taken)
        return 0;
    if (count - p->taken > BLOCK_SLOTS) {
        distrust(m, host);
        return 0;
    }
    while (p->taken < count && work < BLOCKS_A_ROUND && take_block(m, host, now_ns)) {
        p->taken++;
        p->tell = true;
        work++;
    }
    return work;
}

int rdmc_settle(struct member *m, uint64_t now_ns)
{
    int work = 0;
    if (m->phase != MEMBER_OPEN)
        return 0;
    for (uint64_t rest = m->view->members & ~set_of(m->opt.me); rest; rest = set_rest(rest))
        work += take_blocks(m, set_first(rest), now_ns);
    return work;
}

/* ---- from view to view ---- */

void rdmc_begin(struct member *m)
{
    struct rdmc *r = m->rdmc;
    r->probe = 0;
    for (uint32_t h = 0; h < m->opt.hosts; h++) {
        struct block_peer *p = &r->peer[h];
        if (h != m->opt.me && !in_set(m->view->members, h) && p->flow.status == MEM_DONE) {
            mem_flow_close(m->mem, &p->flow);
            p->flow.status = MEM_LOST;
        }
        p->torn = p->tell = false;
        p->taken = p->queued = p->put = p->freed = p->offset = 0;
    }
}

/* ---- opening ---- */

static int lanes_open(struct member *m, struct err *e)
{
    struct mem_lane_spec spec[2 * GROUP_HOSTS_MAX];
    struct mem_lane *lane[2 * GROUP_HOSTS_MAX];
    uint32_t count = 0, region = region_number(REGION_MEMBER, 0);
    for (uint32_t h = 0; h < m->opt.hosts; h++)
        for (uint32_t way = 0; h != m->opt.me && way < 2; way++) {
            spec[count] =
                lane_spec(region, way ? h : m->opt.me, way ? m->opt.me : h, LANE_BLOCK, 0);
            spec[count].ctl_words = BLOCK_WORDS;
            spec[count++].ring_bytes =
                (uint32_t)max_u64(BLOCK_SLOTS * (uint64_t)m->opt.block_bytes, MEM_PAGE_BYTES);
        }
    int rc = mem_lanes_open(m->mem, spec, count, lane, e);
    count = 0;
    for (uint32_t h = 0; rc == 0 && h < m->opt.hosts; h++) {
        if (h == m->opt.me)
            continue;
        m->rdmc->peer[h].in = lane[count++];
        m->rdmc->peer[h].out = lane[count++];
        m->rdmc->peer[h].flow.status = MEM_LOST;
    }
    return rc;
}

int rdmc_open(struct member *m, struct err *e)
{
    bool large = false;
    for (uint32_t i = 0; i < m->opt.cells; i++)
        large |= m->cell_options[i].large_max > 0;
    if (!large || m->mem->shared || m->opt.hosts == 1)
        return 0;
    m->rdmc = calloc(1, sizeof(*m->rdmc));
    if (m->rdmc)
        m->rdmc->peer = calloc(m->opt.hosts, sizeof(*m->rdmc->peer));
    if (m->rdmc == NULL || m->rdmc->peer == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for large messages");
    m->rdmc->block_bytes = m->opt.block_bytes;
    m->rdmc->window_bytes = WINDOW_FIRST;
    return lanes_open(m, e);
}

void rdmc_close(struct member *m)
{
    if (m->rdmc)
        free(m->rdmc->peer);
    free(m->rdmc);
}
