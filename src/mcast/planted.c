#include "mcast/planted.h"

#include "mcast/order_impl.h"
#include "mcast/protocol.h"

#if TRAM_PLANTED
uint32_t planted_forward_all(uint32_t *want, uint32_t edges)
{
    for (uint32_t i = 0; i < edges; i++)
        want[i] = i;
    return edges;
}

void planted_tell_all(struct replica *r, struct dst_set dst, const struct stamp_note *note,
                      void (*tell)(struct replica *, uint16_t group, const void *, uint32_t bytes))
{
    for (uint16_t other = 0; other < r->opt.overlay->n; other++)
        if (!dst_has(dst, other))
            tell(r, other, note, sizeof(*note));
}

void planted_slot_stale(struct item *m)
{
    m->own = m->missing = m->relayed = m->away = 0;
}
#endif
