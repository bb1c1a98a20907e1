/* TRAM: a group in an overlay tree.
 *
 * A client writes a message to all replicas of the lowest common ancestor of its destinations. That
 * group's log orders it among the messages from above. What is applied there is delivered, if the
 * group is a destination, and handed to every child that has one in its reach (TRAM sec. 5 with one
 * ring per parent replica in place of one that changes hands).
 *
 * Nothing flows upwards but credits. A child that takes nothing stops its parent when the stream's
 * ring is full: the parent's log then fills up, and its clients are held back. */
#include "mcast/planted.h"
#include "mcast/protocol.h"

#include <stdlib.h>

/* A message that was decided, taken apart. */
struct tree {
    const struct entry *ready; /* what the rest is about: it is applied next; or NULL */
    struct message_view v;
    bool well_formed; /* false for what no correct client sends */
    bool belongs;     /* it is ours to deliver or to hand on */
    bool for_us;      /* this group is a destination */
    uint32_t *want;   /* the edges it goes to */
    uint32_t wants;

    uint64_t parsed;     /* messages so far */
    uint64_t *wanted_by; /* by edge: number of the last message that was to go there */
};

static void tree_streams(const struct replica_options *o, struct protocol_streams *s)
{
    const uint16_t *children = overlay_children(o->overlay, o->group, &s->outs);
    s->ring_bytes = o->sizes.edge_bytes;
    memcpy(s->out, children, s->outs * sizeof(*children));
    uint16_t parent = overlay_parent(o->overlay, o->group);
    if (parent != OVERLAY_NONE)
        s->in[s->ins++] = parent;
}

static int tree_open(struct replica *r, struct err *e)
{
    struct tree *t = r->own = calloc(1, sizeof(*t));
    if (t) {
        t->want = calloc(r->edges + 1, sizeof(*t->want));
        t->wanted_by = calloc(r->edges + 1, sizeof(*t->wanted_by));
    }
    if (t == NULL || t->want == NULL || t->wanted_by == NULL)
        return err_set(e, ERR_NOMEM, "tree: no memory for %u children", r->edges);
    return 0;
}

static void tree_close(struct replica *r)
{
    struct tree *t = r->own;
    if (t == NULL)
        return;
    free(t->want);
    free(t->wanted_by);
    free(t);
}

/* The parent's stream is the only source behind the clients. */
static bool from_parent(const struct replica *r, const struct entry *e)
{
    return e->source == r->opt.sizes.clients;
}

static bool well_formed(const struct replica *r, const struct entry *e, struct message_view *v)
{
    if (!message_read(e->payload, e->bytes, r->opt.sizes.clients, r->opt.overlay->n, v))
        return false;
    /* Of what comes from above, the group above has made sure. */
    return from_parent(r, e) || replica_from_client(e, v);
}

/* Which edges the message takes, each once however many destinations are behind it. */
static void find_edges(struct replica *r, struct tree *t)
{
    t->parsed++;
    t->wants = 0;
    t->for_us = false;
    for (uint32_t i = 0; i < t->v.dst.count; i++) {
        uint16_t d = t->v.dst.group[i];
        if (d == r->opt.group) {
            t->for_us = true;
            continue;
        }
        int at = r->edges > 0 ? overlay_edge(r->opt.overlay, r->opt.group, d) : -1;
        if (at < 0 || t->wanted_by[at] == t->parsed)
            continue;
        t->wanted_by[at] = t->parsed;
        t->want[t->wants++] = (uint32_t)at;
    }
}

static void parse(struct replica *r, struct tree *t, const struct entry *e)
{
    t->belongs = false;
    t->well_formed = well_formed(r, e, &t->v);
    if (!t->well_formed)
        return;
    find_edges(r, t);
    /* A client's message belongs here only if this is the lowest group above all its destinations. */
    t->belongs = from_parent(r, e) ? t->for_us || t->wants > 0
                                   : overlay_lca(r->opt.overlay, t->v.dst) == r->opt.group;
    if (PLANTED(forward_all))
        t->wants = planted_forward_all(t->want, r->edges);
}

/* The streams to the children must have room before the message is applied. */
static bool tree_ready(void *replica, const struct entry *e)
{
    struct replica *r = replica;
    struct tree *t = r->own;
    t->ready = NULL;
    parse(r, t, e);
    for (uint32_t i = 0; t->belongs && i < t->wants; i++)
        if (!source_room(r->edge[t->want[i]].source, frame_size(e->bytes)))
            return false;
    t->ready = e;
    return true;
}

static void tree_apply(void *replica, const struct entry *e)
{
    struct replica *r = replica;
    struct tree *t = r->own;
    if (t->ready != e)
        parse(r, t, e);
    t->ready = NULL;
    if (!t->well_formed)
        return;
    for (uint32_t i = 0; t->belongs && i < t->wants; i++) {
        /* What no longer fits was taken before this was applied for the first time. */
        if (log_replaying(r->log))
            source_make_room(r->edge[t->want[i]].source, frame_size(e->bytes));
        CHECK(replica_send(r, t->want[i], e->payload, e->bytes) == 0);
    }
    if (!t->belongs)
        replica_refuse(r, &t->v);
    else if (t->for_us)
        replica_deliver(r, &t->v);
}

/* The lca forwards it to the others. */
static struct dst_set tree_route(const struct overlay *o, struct dst_set dst, uint16_t *one)
{
    *one = overlay_lca(o, dst);
    return (struct dst_set){one, 1};
}

const struct protocol protocol_tree = {
    .route = tree_route,
    .streams = tree_streams,
    .open = tree_open,
    .close = tree_close,
    .ready = tree_ready,
    .apply = tree_apply,
};
