#include "mcast/mcast.h"

#include "agree/source.h"
#include "mcast/message.h"

enum {
    CLIENTS_DEFAULT = 64,
    CLIENTS_MAX = 4096,
    BODY_MAX_DEFAULT = 4 << 10,
    BODY_MAX_LIMIT = 1 << 20,
    REPLY_MAX_DEFAULT = 64,
    REPLY_MAX_LIMIT = 1 << 20,
    REPLY_BYTES_DEFAULT = 16 << 10,
    LOG_BYTES_DEFAULT = 256 << 10,
};

static const char *const names[] = {[MCAST_TREE] = "tree", [MCAST_GENUINE] = "genuine"};

const char *mcast_protocol_name(enum mcast_protocol p)
{
    return names[p];
}

static uint32_t power_of_two_above(uint64_t bytes)
{
    uint32_t p = MEM_PAGE_BYTES;
    while (p < bytes && p < 1u << 30)
        p *= 2;
    return p;
}

int mcast_sizes_settle(struct mcast_sizes *s, struct err *e)
{
    s->clients = s->clients ? s->clients : CLIENTS_DEFAULT;
    s->body_max = s->body_max ? s->body_max : BODY_MAX_DEFAULT;
    s->reply_max = s->reply_max ? s->reply_max : REPLY_MAX_DEFAULT;
    if (s->clients > CLIENTS_MAX)
        return err_set(e, ERR_INVALID, "%u clients; at most %d", s->clients, CLIENTS_MAX);
    if (s->body_max > BODY_MAX_LIMIT)
        return err_set(e, ERR_INVALID, "messages of %u bytes; at most %d", s->body_max,
                       BODY_MAX_LIMIT);
    if (s->reply_max > REPLY_MAX_LIMIT)
        return err_set(e, ERR_INVALID, "replies of %u bytes; at most %d", s->reply_max,
                       REPLY_MAX_LIMIT);
    uint64_t frame = frame_size(message_bytes(DST_GROUPS_MAX, s->body_max));
    if (s->source_bytes == 0)
        s->source_bytes =
            power_of_two_above(frame > SOURCE_BYTES_DEFAULT / 4 ? 4 * frame : SOURCE_BYTES_DEFAULT);
    if (s->edge_bytes == 0)
        s->edge_bytes = s->source_bytes;
    if (s->log_bytes == 0)
        s->log_bytes =
            power_of_two_above(16 * frame > LOG_BYTES_DEFAULT ? 16 * frame : LOG_BYTES_DEFAULT);
    uint64_t reply = frame_size((uint32_t)sizeof(struct reply) + s->reply_max);
    if (s->reply_bytes == 0)
        s->reply_bytes =
            power_of_two_above(16 * reply > REPLY_BYTES_DEFAULT ? 16 * reply : REPLY_BYTES_DEFAULT);
    if (reply > s->reply_bytes)
        return err_set(e, ERR_INVALID, "a reply of %u bytes does not fit a ring of %u",
                       s->reply_max, s->reply_bytes);
    return 0;
}

uint32_t mcast_window(const struct mcast_sizes *s)
{
    return s->reply_bytes / (uint32_t)frame_size((uint32_t)sizeof(struct reply) + s->reply_max);
}
