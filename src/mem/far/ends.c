/* Lanes that end: by their owner, by their writer, over links that end too. */
#include "mem/far/impl.h"

/* Nothing comes to it any more, whoever has ended it: its memory goes with the last lane in it. */
static void lane_over(struct far *o, struct lane *l)
{
    struct chunk *c = l->chunk, **at = &o->chunks;

    l->state = LANE_OVER;
    l->claimed = false;
    l->writer_link = 0;
    l->chunk = NULL;
    if (!c || --c->lanes > 0)
        return;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    far_chunk_free(o, c);
}

static bool send_end(struct link *l, const struct mem_lane_spec *spec)
{
    return link_send(l, FAR_END, &(struct far_end){.spec = *spec}, 1);
}

static void say_end(struct link *l, const struct mem_lane_spec *spec)
{
    if (!send_end(l, spec))
        link_fault(l, TAKES_NOTHING);
}

/* An own lane. Hosts may read it, and its writer may have it. */
static void end_owned(struct far *o, struct lane *l)
{
    uint32_t writer = l->pub.spec.writer;
    struct peer *p = writer == o->mem.self ? NULL : peer_at(o, writer);
    bool has = p && p->link && p->link->id == l->writer_link;

    l->pub.ctl = NULL;
    l->pub.ring = NULL;
    l->pub.life = 0;
    for (struct link *k = o->links; k; k = k->next)
        if (k->state == LINK_UP && (k->peer->node == writer ? has || l->owed : k->peer->host))
            say_end(k, &l->pub.spec);
    l->owed = false;
    if (has)
        l->state = LANE_ENDED;
    else
        lane_over(o, l);
}

static void end_written(struct far *o, struct lane *l)
{
    struct peer *p = peer_at(o, l->pub.spec.owner);

    l->link_id = 0;
    l->birth = p ? p->birth : 0;
    l->state = l->owner_ended ? LANE_OVER : LANE_ENDED;
    if (p && p->link)
        say_end(p->link, &l->pub.spec);
}

/* One handle less shows our copy. */
static void hide_copy(struct far *o, struct lane *l)
{
    const struct mem_lane_spec name = far_copy_name(&l->pub.spec);
    struct lane *copy = far_lane_find(o, &name);

    CHECK(l->shows);
    l->shows = false;
    if (l != copy) {
        l->pub.ctl = NULL;
        l->pub.ring = NULL;
        end_written(o, l);
    }
    if (--copy->shown > 0)
        return;
    copy->pub.ctl = NULL;
    copy->pub.ring = NULL;
    lane_over(o, copy);
}

void far_lanes_end(struct mem *m, struct mem_lane *const *lanes, uint32_t count)
{
    struct far *o = far_of(m);

    m->lanes_moved++;
    for (uint32_t i = 0; i < count; i++) {
        struct lane *l = (struct lane *)lanes[i];
        CHECK(l->state == LANE_OPEN);
        if (l->pub.spec.common && l->pub.spec.writer == m->self) {
            hide_copy(o, l);
        } else if (l->pub.spec.owner == m->self) {
            end_owned(o, l);
        } else if (l->pub.spec.writer == m->self) {
            end_written(o, l);
        } else {
            l->link_id = 0;
            l->state = LANE_OVER;
        }
    }
}

void far_region_lanes_end(struct far *o, uint32_t region)
{
    for (uint32_t i = 0; i < o->lanes; i++) {
        struct mem_lane *l = &o->lane[i]->pub;
        bool hidden = l->spec.common && l->spec.writer == o->mem.self && !o->lane[i]->shows;
        if (o->lane[i]->state == LANE_OPEN && l->spec.owner == o->mem.self &&
            l->spec.region == region && !hidden)
            far_lanes_end(&o->mem, &l, 1);
    }
}

/* Their wish for a lane that they do not want any more. */
static void want_drop(struct link *l, const struct mem_lane_spec *spec)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < l->pendings; i++)
        if (!far_same_lane(&l->pending[i].spec, spec))
            l->pending[left++] = l->pending[i];
    l->pendings = left;
}

/* The writer of a lane of ours has ended it. */
static bool writer_ended(struct link *l, const struct mem_lane_spec *spec)
{
    struct far *o = l->node;
    struct lane *lane = far_lane_find(o, spec);

    want_drop(l, spec);
    if (lane && lane->state == LANE_OPEN) {
        lane->writer_link = 0;
        lane->owed = true;
        return true;
    }
    if (lane && lane->state == LANE_ENDED) {
        lane_over(o, lane);
        return true;
    }
    return send_end(l, spec);
}

/* The owner of a lane that we write or read has ended it. */
static void owner_ended(struct link *l, const struct mem_lane_spec *spec)
{
    struct lane *lane = far_lane_find(l->node, spec);

    if (!lane)
        return;
    lane->link_id = 0;
    if (lane->pub.spec.writer != l->node->mem.self)
        return;
    if (lane->state == LANE_ENDED)
        lane->state = LANE_OVER;
    else
        lane->owner_ended = lane->state == LANE_OPEN;
}

bool far_lanes_ended(struct link *l, const struct far_end *end, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct mem_lane_spec *spec = &end[i].spec;
        if (spec->owner == l->peer->node)
            owner_ended(l, spec);
        else if (spec->owner != l->node->mem.self || spec->writer != l->peer->node ||
                 !writer_ended(l, spec))
            return false;
    }
    return true;
}

bool far_lanes_end_again(struct link *l)
{
    struct far *o = l->node;

    for (uint32_t i = 0; i < o->lanes; i++) {
        struct lane *lane = o->lane[i];
        if (lane->state != LANE_ENDED || lane->pub.spec.owner != l->peer->node)
            continue;
        if (lane->birth != l->birth)
            lane->state = LANE_OVER; /* who had it is no more */
        else if (!send_end(l, &lane->pub.spec))
            return false;
    }
    return true;
}

/* Nothing comes over it any more, and what was said on it is to be said again. */
void far_lanes_link_ended(struct link *l)
{
    struct far *o = l->node;

    for (uint32_t i = 0; i < o->lanes; i++) {
        struct lane *lane = o->lane[i];
        if (lane->pub.spec.owner == l->peer->node)
            lane->owner_ended = false;
        if (lane->pub.spec.owner != o->mem.self || lane->pub.spec.writer != l->peer->node)
            continue;
        lane->writer_link = 0;
        lane->owed = false;
        if (lane->state == LANE_ENDED)
            lane_over(o, lane);
    }
}
