#include "agree/bft_stretch.h"

#include "base/minmax.h"

#include <stddef.h>

uint32_t bft_stretch_bytes(uint32_t batch_bytes, uint32_t payload_max)
{
    uint32_t overhead = (uint32_t)bft_stretch_room(0);
    uint64_t half = batch_bytes / 2 > overhead ? batch_bytes / 2 - overhead : 0;
    return (uint32_t)max_u64(half, entry_size(payload_max));
}

/* The second half of an entry's header, and its payload: what is before is the log's. */
struct digest bft_message_digest(const struct entry *e)
{
    const size_t own = offsetof(struct entry, bytes);
    return digest_of((const char *)e + own, sizeof(*e) - own + e->bytes);
}

struct sign_text bft_stretch_text(const struct bft_scope *s, const struct bft_stretch *st,
                                  struct digest d)
{
    return (struct sign_text){.tag = SIGN_TAG,
                              .cluster = s->cluster,
                              .group = s->group,
                              .role = SIGN_STRETCH,
                              .signer = bft_client_signer(st->source),
                              .life = st->life,
                              .number = st->end,
                              .digest = d};
}

uint32_t bft_stretch_put(const struct bft_stretch *st, void *out)
{
    struct entry *e = out;
    *e = (struct entry){.bytes = sizeof(*st), .source = SOURCE_LOG, .srcpos = BFT_ENTRY_SIGNED};
    memcpy(e->payload, st, sizeof(*st));
    return (uint32_t)entry_size(sizeof(*st));
}

const struct bft_stretch *bft_stretch_of(const struct entry *e)
{
    return e->source == SOURCE_LOG && e->srcpos == BFT_ENTRY_SIGNED &&
                   e->bytes == sizeof(struct bft_stretch)
               ? (const void *)e->payload
               : NULL;
}

uint32_t bft_stretch_fits(const struct bft_stretch *st, const void *entries, uint32_t bytes,
                          struct digest *d)
{
    uint64_t pos = st->from;
    uint32_t at = 0;
    *d = st->before;
    while (pos < st->end) {
        const struct entry *e = (const void *)((const char *)entries + at);
        if (bytes - at < sizeof(*e) || bytes - at < entry_size(e->bytes) ||
            e->source != st->source || e->life != st->life || e->srcpos != pos)
            return 0;
        *d = bft_stretch_chain(*d, e);
        at += (uint32_t)entry_size(e->bytes);
        pos += frame_size(e->bytes);
    }
    return pos == st->end ? at : 0;
}

bool bft_stretch_has(const struct bft_stretch *st, const void *entries, uint64_t pos)
{
    const struct entry *e = entries;
    uint64_t at = st->from;
    while (at < st->end && at < pos) {
        at += frame_size(e->bytes);
        e = (const void *)((const char *)e + entry_size(e->bytes));
    }
    return at == pos && at < st->end;
}
