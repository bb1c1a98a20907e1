#include "mcast/message.h"

bool message_read(const void *payload, uint32_t bytes, uint32_t clients, uint32_t groups,
                  struct message_view *v)
{
    const struct message *m = payload;
    if (bytes < sizeof(*m) || m->count == 0 || m->count > DST_GROUPS_MAX || m->client >= clients ||
        m->kind >= MESSAGE_KINDS || message_bytes(m->count, 0) > bytes)
        return false;
    /* As dst_read, with the padding: a copy of so few bytes must not cost a call. */
    for (uint32_t i = 0; i < dst_bytes(m->count); i += 8)
        memcpy((unsigned char *)v->list + i, m->rest + i, 8);
    v->m = m;
    v->dst = (struct dst_set){v->list, m->count};
    v->body = m->rest + dst_bytes(m->count);
    v->bytes = bytes - message_bytes(m->count, 0);
    return dst_check(v->dst, groups, NULL) == 0;
}
