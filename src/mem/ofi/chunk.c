/* Memory that the provider reaches: registered once for all who read, and once more for each link that writes. */
#include "mem/ofi/impl.h"

#include <stdlib.h>

int ofi_chunk_add(struct far *f, struct chunk *c, struct err *e)
{
    struct ofi *o = ofi_of(f);
    char hint[128];

    /* What is put and kept is sent from here. */
    c->carried = net_register(&o->net, c->at, c->bytes, FI_REMOTE_READ | FI_WRITE);
    if (c->carried)
        return 0;
    return err_set(e, ERR_NOMEM, "lanes of %s: register %zu bytes%s", f->name, c->bytes,
                   ofi_limit_hint(o, hint, sizeof hint));
}

static void key_drop(struct ofi_link *l, const struct chunk *c)
{
    for (uint32_t i = 0; i < l->keys_count; i++)
        if (l->keys[i].chunk == c) {
            fi_close(&l->keys[i].mr->fid);
            l->keys[i] = l->keys[--l->keys_count];
            return;
        }
}

void ofi_chunk_drop(struct far *f, struct chunk *c)
{
    struct ofi *o = ofi_of(f);
    struct fid_mr *mr = c->carried;

    for (struct link *k = f->links, *next; k; k = next) {
        next = k->next;
        key_drop(ofi_link(k), c);
        /* Something may still be sent from here: whoever ends lanes waits for that. */
        if (o->kept_in == c && ofi_link(k)->mark_tail < ofi_link(k)->kept_mark)
            link_close(k, false, "a lane was ended from which it is sent to");
    }
    if (o->kept_in == c)
        o->kept_in = NULL;
    if (mr)
        fi_close(&mr->fid);
}

const struct chunk *ofi_chunk_of(struct ofi *o, const void *data, uint32_t bytes)
{
    const unsigned char *from = data;

    for (const struct chunk *c = o->kept_in ? o->kept_in : o->far.chunks; c; c = c->next)
        if (from >= c->at && from + bytes <= c->at + c->bytes)
            return o->kept_in = c;
    for (const struct chunk *c = o->far.chunks; c; c = c->next)
        if (from >= c->at && from + bytes <= c->at + c->bytes)
            return o->kept_in = c;
    return NULL;
}

/* The key under which the other side of the link may write the chunk. */
static bool link_key(struct ofi_link *l, struct chunk *c, uint64_t *key)
{
    for (uint32_t i = 0; i < l->keys_count; i++)
        if (l->keys[i].chunk == c) {
            *key = fi_mr_key(l->keys[i].mr);
            return true;
        }
    if (l->keys_count == l->keys_room) {
        uint32_t room = l->keys_room ? 2 * l->keys_room : 8;
        struct link_key *more = realloc(l->keys, room * sizeof(*more));
        if (!more)
            return false;
        l->keys = more;
        l->keys_room = room;
    }
    struct fid_mr *mr =
        net_register(&ofi_node(l)->net, c->at, c->bytes, FI_REMOTE_READ | FI_REMOTE_WRITE);
    if (!mr)
        return false;
    l->keys[l->keys_count++] = (struct link_key){.chunk = c, .mr = mr};
    *key = fi_mr_key(mr);
    return true;
}

bool ofi_grant(struct link *link, struct lane *lane, bool writes, struct far_at *at)
{
    struct ofi_link *l = ofi_link(link);
    const struct net *n = &ofi_node(l)->net;

    at->key = fi_mr_key((struct fid_mr *)lane->chunk->carried);
    if ((writes && !link_key(l, lane->chunk, &at->key)) || !ofi_subscribe(l, lane->pub.spec.region))
        return false;
    at->ctl = net_address(n, lane->chunk->at, lane->pub.ctl);
    at->ring = lane->pub.ring ? net_address(n, lane->chunk->at, lane->pub.ring) : 0;
    return true;
}
