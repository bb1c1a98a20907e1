#include "base/minmax.h"
#include "disk/disk_impl.h"

/* A group that was found DISK_BEYOND begins anew with a state from others: it counts again when that is durable. */
static void take_snap(struct group_view *v, uint64_t pos)
{
    v->snap = pos;
    if (v->beyond && v->reset && pos >= v->reset_at)
        v->beyond = v->reset = false;
}

/* The first since then: what follows it is there again. */
static void take_reset(struct group_view *v, uint64_t pos)
{
    if (!v->beyond)
        return;
    v->reset_at = v->reset ? min_u64(v->reset_at, pos) : pos;
    v->reset = true;
}

static void take_state(struct group_view *v, const struct batch_item *i)
{
    v->beyond = i->damage != 0;
    v->reset = i->damage == ITEM_RESET;
    v->reset_at = v->reset ? i->to : 0;
    v->snap = i->from;
}

void view_take(struct group_view *v, const struct batch_item *i)
{
    v->says = i->says;
    v->records = i->records;
    v->chain = i->chain;
    if (i->kind == ITEM_STATE)
        take_state(v, i);
    else if (i->kind == DISK_SNAP)
        take_snap(v, i->from);
    else if (i->kind == DISK_RESET)
        take_reset(v, i->from);
}

struct batch_item view_state(const struct group_view *v, uint32_t group)
{
    return (struct batch_item){
        .group = group,
        .kind = ITEM_STATE,
        .damage = !v->beyond ? 0
                  : v->reset ? ITEM_RESET
                             : ITEM_BEYOND,
        .records = v->records,
        .chain = v->chain,
        .from = v->snap,
        .to = v->reset ? v->reset_at : 0,
        .says = v->says,
    };
}
