#include "base/crc32c.h"
#include "group/impl.h"

#include <stdlib.h>

/* Large messages at one member: their places, and the records that stand for them. See large.h. */

static bool is_in_place(const struct large *l, uint32_t host, const void *at)
{
    const unsigned char *from = l->memory[host];
    return from && (const unsigned char *)at >= from &&
           (const unsigned char *)at < from + l->window * l->stride;
}

/* ---- own bodies ---- */

static bool is_free(struct cell *c, struct body *b)
{
    if (b->noted && own_has_readers(c))
        return false;
    b->noted = false;
    if (b->state == BODY_WHOLE && b->pos < c->own.tail)
        b->state = BODY_NONE;
    return b->state == BODY_NONE;
}

/* The first place that is free, so that as little memory as possible is ever touched; the window: none is. */
static uint32_t free_place(struct cell *c)
{
    uint32_t at = 0;
    while (at < c->bodies->window && !is_free(c, body_at(c->bodies, c->of->opt.me, at)))
        at++;
    return at;
}

void *large_reserve(struct cell *c, uint32_t bytes)
{
    struct large *l = c->bodies;
    uint32_t me = c->of->opt.me;
    if (l == NULL || bytes > c->opt.large_max || l->memory[me] == NULL)
        return NULL;
    own_free(c);
    uint32_t at = free_place(c);
    void *record = at < l->window ? own_reserve(c, sizeof(struct large_head)) : NULL;
    if (record == NULL)
        return NULL;
    *body_at(l, me, at) = (struct body){.state = BODY_OPEN,
                                        .bytes = bytes,
                                        .id = ++l->ids * l->window + at,
                                        .pos = own_position(c, record)};
    return body_memory(l, me, at);
}

/* The open body that the room is of. */
static struct body *open_body(const struct cell *c, const void *room)
{
    const struct large *l = c->bodies;
    uint32_t me = c->of->opt.me;
    if (l == NULL || !is_in_place(l, me, room))
        return NULL;
    uint64_t offset = (uint64_t)((const unsigned char *)room - l->memory[me]);
    struct body *b = body_at(l, me, offset / l->stride);
    CHECK(offset % l->stride == 0 && b->state == BODY_OPEN);
    return b;
}

bool large_commit(struct cell *c, void *room, uint32_t bytes)
{
    struct body *b = open_body(c, room);
    if (b == NULL)
        return false;
    CHECK(bytes <= b->bytes);
    b->state = c->bodies->shared || c->alone ? BODY_WHOLE : BODY_READY;
    b->checksum = b->state == BODY_READY ? crc32c(0, room, bytes) : 0;
    rdmc_cut(c->of, b, bytes);
    struct large_head *h = own_room(c, b->pos);
    *h = (struct large_head){.id = b->id, .bytes = bytes, .checksum = b->checksum};
    own_commit_kind(c, h, sizeof(*h), RECORD_LARGE);
    c->of->count.large_sent++;
    return true;
}

bool large_release(struct cell *c, void *room)
{
    struct body *b = open_body(c, room);
    if (b == NULL)
        return false;
    b->state = BODY_NONE;
    own_release(c, own_room(c, b->pos));
    return true;
}

const void *large_own(const struct cell *c, const struct record *r, uint32_t *bytes)
{
    const struct large_head *h = (const void *)(r + 1);
    *bytes = (uint32_t)h->bytes;
    return body_memory(c->bodies, c->of->opt.me, h->id);
}

void large_void(struct cell *c)
{
    for (uint32_t i = 0; c->bodies && i < c->bodies->window; i++)
        body_at(c->bodies, c->of->opt.me, i)->state = BODY_NONE;
}

void large_note_readers(struct cell *c)
{
    for (uint32_t i = 0; c->bodies && i < c->bodies->window; i++) {
        struct body *b = body_at(c->bodies, c->of->opt.me, i);
        b->noted |= b->state != BODY_NONE;
    }
}

/* ---- others' bodies ---- */

bool large_is_there(const struct cell *c, uint32_t host)
{
    struct large *l = c->bodies;
    if (l == NULL || !l->shared || !in_set(l->senders, host))
        return true;
    struct mem_lane *lane = l->lane[host];
    uint32_t life = life_process(c->of->view->life[host]);
    if (lane->life != life)
        mem_lane_next(c->of->mem, lane);
    l->memory[host] = lane->ctl && lane->life == life ? lane->ring : NULL;
    return l->memory[host] != NULL;
}

/* What the record says, if a member could have written it. */
static bool read_head(const struct cell *c, uint32_t sender, const struct record *r, uint32_t bytes,
                      struct large_head *h)
{
    if (c->bodies == NULL || bytes != sizeof(*h) || c->bodies->memory[sender] == NULL)
        return false;
    memcpy(h, r + 1, sizeof(*h));
    return h->bytes <= c->opt.large_max;
}

/* All blocks are here, and are what the sender sent. `wrong`: they are not, and never will be. */
static bool is_whole(const struct cell *c, uint32_t sender, const struct large_head *h, bool *wrong)
{
    const struct body *b = body_at(c->bodies, sender, h->id);
    if (PLANTED(group_part_held))
        return true;
    *wrong = b->id > h->id || (b->id == h->id && b->bytes != h->bytes);
    if (*wrong || b->id != h->id || b->state != BODY_WHOLE)
        return false;
    *wrong = b->checksum != h->checksum;
    return !*wrong;
}

uint64_t large_count(struct cell *c, struct source_stream *s, uint64_t limit)
{
    const uint64_t mask = c->opt.ring_bytes - 1, vid = c->of->view->vid;
    if (c->bodies->shared)
        return limit;
    while (s->walk < s->end) {
        const struct record *r = (const void *)(c->from[s->ring][s->host]->ring + (s->walk & mask));
        uint64_t room = min_u64(s->end - s->walk, mask + 1 - (s->walk & mask));
        uint64_t size = r->flags & RECORD_SKIP ? r->bytes : record_size(r->bytes);
        bool skip = r->flags & RECORD_SKIP, wrong = false;
        struct large_head h;
        if (size == 0 || size % sizeof(*r) || size > room ||
            (!skip && stamp_vid(r->stamp) != vid)) {
            s->torn = true;
            return s->count;
        }
        if (!skip && stamp_count(r->stamp) >= limit)
            break;
        if (!skip && r->flags & RECORD_LARGE) {
            wrong = !read_head(c, s->host, r, r->bytes, &h);
            if (wrong || !is_whole(c, s->host, &h, &wrong)) {
                s->torn = wrong;
                return wrong ? s->count : stamp_count(r->stamp);
            }
        }
        s->walk += size;
    }
    return limit;
}

bool large_item(struct cell *c, struct batch *b, const struct record *r, uint32_t bytes,
                uint64_t pos, uint32_t sender, uint64_t number)
{
    struct large_head h;
    bool others = sender != c->of->opt.me, wrong;
    if (!read_head(c, sender, r, bytes, &h))
        return false;
    if (others && !c->bodies->shared && !is_whole(c, sender, &h, &wrong))
        return false;
    struct body *body = body_at(c->bodies, sender, h.id);
    body->pos = others ? pos : body->pos;
    body->over = true;
    b->item[b->count++] = (struct member_item){.data = body_memory(c->bodies, sender, h.id),
                                               .bytes = (uint32_t)h.bytes,
                                               .sender = sender,
                                               .number = number};
    b->bytes += record_size((uint32_t)h.bytes);
    c->of->count.large_delivered++;
    return true;
}

void large_passed(struct cell *c, const struct record *r, uint32_t bytes, uint32_t sender)
{
    struct large_head h;
    if (read_head(c, sender, r, bytes, &h))
        body_at(c->bodies, sender, h.id)->over = true;
}

bool large_place(const struct cell *c, uint32_t sender, const void *data, uint64_t *pos)
{
    const struct large *l = c->bodies;
    if (l == NULL || !is_in_place(l, sender, data))
        return false;
    *pos =
        body_at(l, sender, (uint64_t)((const unsigned char *)data - l->memory[sender]) / l->stride)
            ->pos;
    return true;
}

/* ---- from view to view ---- */

void large_begin(struct cell *c)
{
    struct large *l = c->bodies;
    uint32_t me = c->of->opt.me;
    if (l)
        l->busy = 0;
    for (uint32_t host = 0; l && host < c->of->opt.hosts; host++)
        for (uint32_t i = 0; i < l->window; i++) {
            struct body *b = body_at(l, host, i);
            b->sends = b->told = false;
            if (host != me)
                b->state = BODY_NONE, b->id = 0;
            else if (!l->shared && b->state == BODY_WHOLE && b->pos >= c->own.start)
                b->state = BODY_READY;
        }
}

/* ---- opening ---- */

static int lanes_open(struct cell *c, struct err *e)
{
    struct large *l = c->bodies;
    uint32_t me = c->of->opt.me, count = 0, at = 0;
    struct mem_lane_spec spec[2 * GROUP_HOSTS_MAX];
    struct mem_lane *lane[2 * GROUP_HOSTS_MAX];
    for (uint64_t rest = c->hosts & ~set_of(me); rest; rest = set_rest(rest))
        for (uint32_t way = 0; way < 2; way++) {
            uint32_t other = set_first(rest);
            if (!in_set(l->senders, way ? me : other))
                continue;
            spec[count] = lane_spec(c->region, way ? other : me, way ? me : other, LANE_BODY, 0);
            spec[count].ctl_words = 1;
            spec[count].ring_bytes = MEM_PAGE_BYTES;
            while (spec[count].ring_bytes < l->window * l->stride)
                spec[count].ring_bytes *= 2;
            spec[count++].common = 1;
        }
    int rc = count ? mem_lanes_open(c->of->mem, spec, count, lane, e) : 0;
    for (; rc == 0 && at < count; at++) {
        l->lane[spec[at].writer] = lane[at];
        if (spec[at].writer == me)
            l->memory[me] = lane[at]->ring;
    }
    return rc;
}

/* Pages that no body has been in are not there. */
static int memory_open(struct cell *c, struct err *e)
{
    struct large *l = c->bodies;
    for (uint64_t rest = l->senders; rest; rest = set_rest(rest)) {
        l->memory[set_first(rest)] = calloc(l->window, l->stride);
        if (l->memory[set_first(rest)] == NULL)
            return err_set(e, ERR_NOMEM, "group: no memory for the large messages of cell %u",
                           c->number);
    }
    return 0;
}

int large_open(struct cell *c, struct err *e)
{
    const struct member_options *o = &c->of->opt;
    uint64_t senders = c->opt.layout.senders && !o->layout ? c->opt.layout.senders : UINT64_MAX;
    if (c->opt.large_max == 0)
        return 0;
    struct large *l = calloc(1, sizeof(*l));
    c->bodies = l;
    if (l == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for cell %u", c->number);
    l->window = c->opt.large_window;
    l->stride = ((uint64_t)c->opt.large_max + 63) & ~UINT64_C(63);
    l->senders = c->hosts & senders;
    l->shared = c->of->mem->shared && !c->alone;
    l->body = calloc((size_t)o->hosts * l->window, sizeof(*l->body));
    l->memory = calloc(o->hosts, sizeof(*l->memory));
    l->lane = calloc(o->hosts, sizeof(struct mem_lane *));
    if (!l->body || !l->memory || !l->lane)
        return err_set(e, ERR_NOMEM, "group: no memory for the large messages of cell %u",
                       c->number);
    return l->shared ? lanes_open(c, e) : memory_open(c, e);
}

void large_close(struct cell *c)
{
    struct large *l = c->bodies;
    if (l == NULL)
        return;
    for (uint32_t h = 0; l->memory && !l->shared && h < c->of->opt.hosts; h++)
        free(l->memory[h]);
    free(l->body);
    free(l->memory);
    free(l->lane);
    free(l);
    c->bodies = NULL;
}
