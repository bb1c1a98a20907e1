#include "mem/far/wire.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers travel as the machine has them");

const char *far_reason_text(enum far_reason r)
{
    static const char *const text[] = {[FAR_WELCOME] = "welcome",
#define FAR_REASON_TEXT_(name, words) [FAR_REASON_##name] = (words),
                                       FAR_REASON_LIST(FAR_REASON_TEXT_)
#undef FAR_REASON_TEXT_
    };

    return (unsigned)r < FAR_REASONS ? text[r] : "for a reason that we do not know";
}

/* ---- messages ---- */

/* What a message has: a body, or items of one size. */
static const struct {
    uint16_t body; /* besides the head, where count is 1 */
    uint16_t item;
} shapes[FAR_KINDS] = {
    [FAR_REFUSE] = {.body = sizeof(struct far_refuse) - sizeof(struct far_head)},
    [FAR_PLACE_WANT] = {.body = sizeof(struct far_place) - sizeof(struct far_head)},
    [FAR_PLACE] = {.body = sizeof(struct far_place) - sizeof(struct far_head)},
    [FAR_WANT] = {.item = sizeof(struct far_want)},
    [FAR_AT] = {.item = sizeof(struct far_at)},
    [FAR_RAISE] = {.item = sizeof(struct far_raise)},
    [FAR_GRANT] = {.item = sizeof(struct far_raise)},
    [FAR_RAISED] = {.item = sizeof(struct far_raise)},
    [FAR_NEWS] = {.item = sizeof(struct far_news)},
    [FAR_PAGE] = {.item = sizeof(uint64_t)},
    [FAR_FACTS] = {.item = sizeof(struct far_fact)},
    [FAR_ROLL] = {.item = sizeof(struct roll_item)},
    [FAR_END] = {.item = sizeof(struct far_end)},
    [FAR_FIRST] = {.item = sizeof(uint64_t)},
    [FAR_GIVEN] = {.item = sizeof(struct far_given)},
};

uint32_t far_message_bytes(enum far_kind kind, uint32_t count)
{
    return (uint32_t)sizeof(struct far_head) + shapes[kind].body + count * shapes[kind].item;
}

const struct far_head *far_message(const void *data, size_t bytes)
{
    const struct far_head *h = data;

    if (bytes < sizeof *h || bytes > FAR_MESSAGE_MAX || h->bytes != bytes)
        return NULL;
    if (h->kind == 0 || h->kind >= FAR_KINDS || h->count == 0)
        return NULL;
    if (h->count != 1 && shapes[h->kind].item == 0)
        return NULL;
    return far_message_bytes((enum far_kind)h->kind, h->count) == bytes ? h : NULL;
}
