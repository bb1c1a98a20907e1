#include "sim/participation.h"

#include "lane/names.h"
#include "mcast/message.h"

/* A message as a writer names it, and the groups that have to do with the write. */
struct part {
    struct message_id id;
    uint16_t group;
    int from; /* group; -1: a client, or the group's own leader */
};

static bool concerns(const struct participation *c, uint16_t group, uint8_t dst_mask)
{
    if (c->protocol == MCAST_GENUINE)
        return dst_mask >> group & 1;
    uint16_t list[TREE_GROUPS_MAX];
    uint32_t count = 0;
    for (uint16_t g = 0; g < TREE_GROUPS_MAX; g++)
        if (dst_mask >> g & 1)
            list[count++] = g;
    struct dst_set dst = {list, count};
    return overlay_above(c->overlay, overlay_lca(c->overlay, dst), group) &&
           overlay_reaches(c->overlay, group, dst);
}

static void look(const struct participation *c, const struct part *p)
{
    uint32_t sender = mcast_sender(p->id.client, p->id.life);
    if (p->id.client >= TREE_CLIENTS_MAX || p->id.life >= TREE_LIVES_MAX ||
        p->id.seq >= c->check->casts[sender])
        return; /* what nobody cast is for others to find when it is delivered */
    uint8_t mask = c->check->cast[sender][p->id.seq].dst_mask;
    uint16_t stranger = p->group;
    bool fits = concerns(c, p->group, mask);
    if (fits && p->from >= 0) {
        stranger = (uint16_t)p->from;
        fits = concerns(c, stranger, mask);
    }
    if (!fits)
        mcast_check_violated(c->check, "participation", p->id.seq,
                             "group %u takes part in %u:%llu, which goes to %#x", stranger,
                             p->id.client, (unsigned long long)p->id.seq, mask);
}

/* What the payload of a frame or entry from this source is about. */
static void look_payload(const struct participation *c, uint16_t group, uint32_t source,
                         const unsigned char *payload, uint32_t bytes)
{
    struct part p = {.group = group, .from = -1};
    struct stamp_note t = {0};
    struct message m;
    if (source == SOURCE_LOG) {
        if (bytes != sizeof(p.id))
            return;
        memcpy(&p.id, payload, sizeof(p.id));
        look(c, &p);
        return;
    }
    if (c->protocol == MCAST_GENUINE && source >= c->clients) {
        p.from = (int)(source - c->clients);
        memcpy(&t, payload, bytes < sizeof(t) ? bytes : sizeof(t));
        if (t.stamp != 0) {
            p.id = t.id;
            look(c, &p);
            return;
        }
        payload += sizeof(t.stamp);
        bytes -= (uint32_t)sizeof(t.stamp);
    }
    if (bytes < sizeof(m))
        return;
    memcpy(&m, payload, sizeof(m));
    p.id = message_id(&m);
    look(c, &p);
}

void participation_put(void *participation, const struct mem_lane_spec *spec, uint64_t pos,
                       const void *data, uint32_t bytes)
{
    struct participation *c = participation;
    if (lane_kind(spec) != LANE_SOURCE)
        return;
    CHECK(spec->writer < PART_NODES_MAX);
    struct part_cut *cut = &c->cut[spec->writer];
    /* What goes over the end of a ring comes in two puts, one right after the other; if there is still
     * somebody to write to. */
    if (memcmp(&cut->of, spec, sizeof(*spec)) != 0 || pos != cut->end)
        cut->bytes = 0;
    CHECK(cut->bytes + bytes <= sizeof(c->put));
    memcpy(c->put, cut->frame, cut->bytes);
    memcpy(c->put + cut->bytes, data, bytes);
    const unsigned char *at = c->put, *end = at + cut->bytes + bytes;
    while (at < end) {
        const struct frame *f = (const void *)at;
        if ((size_t)(end - at) < sizeof(*f) || frame_size(f->bytes) > (uint64_t)(end - at))
            break;
        look_payload(c, (uint16_t)spec->region, lane_index(spec), f->payload, f->bytes);
        at += frame_size(f->bytes);
    }
    cut->of = *spec;
    cut->end = pos + bytes;
    /* What is longer than any frame is no beginning of one: clients lie. */
    cut->bytes = (size_t)(end - at) <= sizeof(cut->frame) ? (uint32_t)(end - at) : 0;
    memcpy(cut->frame, at, cut->bytes);
}

void participation_entry(const struct participation *c, uint16_t group, const struct entry *e)
{
    if (e->source != SOURCE_LOG || e->srcpos == ENTRY_NOTE)
        look_payload(c, group, e->source, e->payload, e->bytes);
}
