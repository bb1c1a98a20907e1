/* Bits that flip, and what the model knows is lost by that. */
#include "disk_model_impl.h"

#include "base/crc32c.h"

static bool is_item(const struct record *r, const struct batch_item *i)
{
    unsigned char bytes[RECORD_BYTES_MAX];

    if (i->group != r->r.group || i->kind != r->r.kind || i->from != r->r.from || i->to != r->r.to)
        return false;
    model_fill(r->seed, r->r.from, bytes, i->bytes);
    return crc32c(0, bytes, i->bytes) == i->crc;
}

static void lose_batch(struct world *w, uint64_t number, const struct batch_item *item)
{
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t i = 0; i < w->groups[g].count; i++) {
            struct record *r = &w->groups[g].records[i];
            if (r->batch == number && (!item || is_item(r, item)))
                r->lost = true;
        }
}

/* Which part of the batch is hit: of its bytes [at]. */
static void hit(struct world *w, const struct scan_batch *b, uint64_t at)
{
    const struct batch_header *h = b->header;

    if (at < sizeof *h ||
        (at >= h->directory && at < h->directory + h->items * sizeof(struct batch_item))) {
        lose_batch(w, h->number, NULL);
        return;
    }
    for (uint32_t i = 0; i < h->items; i++)
        if (at >= b->items[i].at && at < b->items[i].at + b->items[i].bytes)
            lose_batch(w, h->number, &b->items[i]);
}

/* One bit of a batch that is durable and has a successor: damage, and no torn tail. */
void model_flip_journal(struct world *w)
{
    static _Alignas(8) unsigned char image[SEGMENT_BYTES];
    unsigned char id[DISK_ID_BYTES];
    static _Alignas(8) unsigned char host[SLOTS * SLOT_BYTES];
    struct scan_batch b;
    char name[BLOCK_NAME_BYTES];
    bool later;

    if (disk_sim_platter(w->sim, HOST_NAME, 0, host, sizeof host) < 0)
        return;
    const struct slot *slot = scan_host(host, &later);
    if (!slot)
        return;
    memcpy(id, slot->journal, sizeof id);
    snprintf(name, sizeof name, SEGMENT_PREFIX "%05u", (unsigned)rng_below(&w->rng, SEGMENTS) + 1);
    if (disk_sim_platter(w->sim, name, 0, image, sizeof image) < 0)
        return;
    uint64_t at = rng_below(&w->rng, SEGMENT_BYTES), where;
    for (uint64_t from = 0;
         scan_find(image, sizeof image, from, id, GROUPS, 1, w->done - 1, &b, &where) &&
         where <= at;
         from = where + b.header->bytes)
        if (at < where + b.header->bytes) {
            hit(w, &b, at - where);
            disk_sim_flip(w->sim, name, at);
            w->tally->flips++;
            return;
        }
}

void model_flip_snap(struct world *w)
{
    uint32_t g = (uint32_t)rng_below(&w->rng, GROUPS);
    char name[BLOCK_NAME_BYTES];

    snprintf(name, sizeof name, SNAP_PREFIX "%u.%llu", g, (ull)w->groups[g].snap);
    if (w->groups[g].snap == 0 || !disk_sim_flip(w->sim, name, rng_below(&w->rng, 64)))
        return;
    w->groups[g].snap_flipped = w->groups[g].snap;
    w->tally->flips++;
}

void model_flip_host(struct world *w)
{
    disk_sim_flip(w->sim, HOST_NAME, rng_below(&w->rng, SLOTS * SLOT_BYTES));
    w->tally->flips++;
}
