/* What all links have, whatever carries their bytes. */
#include "mem/far/impl.h"

#include <stdlib.h>

void far_link_begin(struct far *o, struct link *l, struct peer *p)
{
    l->node = o;
    l->peer = p;
    l->id = ++o->link_ids;
    l->since_ns = l->heard_ns = l->told_ns = o->now_ns;
    l->next = o->links;
    if (l->next)
        l->next->prev = l;
    o->links = l;
    o->links_pending++;
}

const char *link_name(const struct link *l)
{
    return l->peer ? l->peer->name : "a client";
}

static void unlist(struct link *l)
{
    struct far *o = l->node;

    if (l->prev)
        l->prev->next = l->next;
    else
        o->links = l->next;
    if (l->next)
        l->next->prev = l->prev;
    for (struct link **at = &o->dirty; *at; at = &(*at)->dirty_next)
        if (*at == l) {
            *at = l->dirty_next;
            if (o->dirty_last == &l->dirty_next)
                o->dirty_last = at;
            break;
        }
}

void link_close(struct link *l, bool by_other, const char *why)
{
    struct far *o = l->node;

    if (l->state == LINK_CLOSED)
        return;
    o->carrier->stop(l);
    unlist(l);
    if (l->state != LINK_UP)
        o->links_pending--;
    far_flows_fail(o, l, NULL, NULL, MEM_LOST);
    while (l->ops)
        far_op_finish(l, l->ops, MEM_LOST);
    far_peer_link_ended(l, by_other, why);
    l->state = LINK_CLOSED;
    if (o->carrier->stopped)
        o->carrier->stopped(l);
    l->next = o->grave;
    o->grave = l;
}

void far_links_free(struct far *o)
{
    while (o->grave) {
        struct link *l = o->grave;
        o->grave = l->next;
        free(l->pending);
        o->carrier->freed(l);
    }
}

void link_dirty(struct link *l)
{
    if (l->dirty)
        return;
    /* Who was written to first is sent to first: writers begin with whom others wait for. */
    l->dirty = true;
    l->dirty_next = NULL;
    *l->node->dirty_last = l;
    l->node->dirty_last = &l->dirty_next;
}

void link_fault(struct link *l, const char *why)
{
    l->fault = why;
    link_dirty(l);
}
