#include "group/impl.h"

/* Rules that hold after every post and settle. */

/* What is ready has the stamps that it will be published with. */
static const char *check_ready(const struct cell *c)
{
    const struct own_stream *o = &c->own;
    uint64_t index = o->issued;
    for (uint64_t pos = o->end; own_ready(o) && pos < o->ready;) {
        const struct record *r = (const void *)(o->ring[o->at] + (pos & (c->opt.ring_bytes - 1)));
        pos += r->flags & RECORD_SKIP ? r->bytes : record_size(r->bytes);
        if (!(r->flags & RECORD_SKIP) &&
            ((r->flags & RECORD_OPEN) || r->stamp != stamp(o->vid, index++)))
            return "a message that is ready has not the stamp that follows";
    }
    return own_ready(o) && index != o->issued + own_ready(o)
               ? "other messages are ready than were counted"
               : NULL;
}

static const char *check_stream(const struct cell *c)
{
    const struct own_stream *o = &c->own;
    if (!(o->tail <= o->end && o->start <= o->end && o->end <= o->head))
        return "the positions of an own stream are out of order";
    if (own_ready(o) && !(o->end < o->ready && o->ready <= o->head))
        return "what is ready of an own stream is not between what was published and what was "
               "reserved";
    if (o->head - o->tail > c->opt.ring_bytes)
        return "an own stream is longer than its ring";
    return check_ready(c);
}

static const char *check_order(const struct cell *c)
{
    const struct member *m = c->of;
    if (c->senders && c->number_at != c->round_at * c->senders + c->turn_at)
        return "the next number is not that of its round and turn";
    if (m->phase == MEMBER_OPEN && c->has_state && c->number_at > c->stable)
        return "more was delivered than is stable";
    for (uint32_t i = 0; i < c->senders; i++)
        if (c->received > c->source[i].count * c->senders + i)
            return "RECEIVED is beyond what is held";
    return NULL;
}

static const char *check_row(const struct cell *c)
{
    uint64_t vid = c->of->view->vid, me = c->of->opt.me;
    uint64_t delivered = cell_word(c, (uint32_t)me, CELL_DELIVERED);
    bool says = c->found || !stable_by_presence(c);
    uint64_t received = stamp_vid(cell_word(c, (uint32_t)me, CELL_RECEIVED));
    if ((says && received != vid) || stamp_vid(delivered) != vid)
        return "the row of a cell is not of the view";
    if (stamp_count(delivered) > c->number_at)
        return "DELIVERED is beyond what was delivered";
    return NULL;
}

const char *cell_check(const struct cell *c)
{
    if (!c->mine || !c->in)
        return NULL;
    const char *why = check_stream(c);
    if (why == NULL)
        why = check_order(c);
    return why ? why : check_row(c);
}

const char *member_check(const struct member *m)
{
    if (m->broken)
        return NULL;
    const char *why = keeper_check(m->keeper);
    for (uint32_t i = 0; why == NULL && is_in_view(m) && i < m->opt.cells; i++)
        why = cell_check(&m->cell[i]);
    return why;
}
