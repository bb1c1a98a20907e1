/* The numbers of a cluster file, and how they have to fit each other. `given` has their nodes by enum setting; NULL where the file has
 * none. */
#include "conf/take.h"
#include "conf/value.h"

static int take_setting(struct reader *r, const struct node *n, enum setting s)
{
    const struct setting_info *i = &setting_info[s];
    bool size = i->kind != SETTING_NUMBER;
    uint64_t value = 0;

    if (n == NULL)
        return 0;
    bool read = n->kind == NODE_TEXT && (size ? value_size(doc_text(r->d, n), &value)
                                              : value_number(doc_text(r->d, n), &value));
    if (!read || value < i->least || value > i->most) {
        if (size)
            return doc_bad(r->d, n->line, r->e,
                           "%s must be a size from %s to %s, like 65536, 64k, 64 KiB or 1 MiB,"
                           " not %s",
                           i->key, value_size_shown(i->least).s, value_size_shown(i->most).s,
                           doc_what(r->d, n).s);
        return doc_bad(r->d, n->line, r->e, "%s must be a whole number from %u to %u, not %s",
                       i->key, i->least, i->most, doc_what(r->d, n).s);
    }
    uint64_t power = value_power_from(value);
    if (i->kind == SETTING_POWER && power != value)
        return doc_bad(r->d, n->line, r->e, "%s must be a power of two; %s is none, %s and %s are",
                       i->key, doc_what(r->d, n).s, value_size_shown(power / 2).s,
                       value_size_shown(power).s);
    *setting_at(r->c, s) = (uint32_t)value;
    return 0;
}

/* The ring must hold so many largest messages. The line is that of the value in the file; if both
 * are there, that of the ring. */
static int check_room(struct reader *r, enum setting ring, uint32_t messages,
                      const struct node *const *given)
{
    uint64_t needed = value_power_from((uint64_t)r->c->payload_max * messages);
    uint32_t have = setting_get(r->c, ring);
    const struct node *at = given[ring] ? given[ring] : given[SETTING_payload_max];
    const char *key = setting_info[ring].key;

    if (needed <= have)
        return 0;
    return doc_bad(r->d, at->line, r->e,
                   "%s (%s) must hold %u messages of payload_max (%s); set %s to %s or"
                   " more, or payload_max to %s or less",
                   key, value_size_shown(have).s, messages, value_size_shown(r->c->payload_max).s,
                   key, value_size_shown(needed).s, value_size_shown(have / messages).s);
}

/* What is not right is what is given: the defaults follow the rest. */
static int check_log_parts(struct reader *r, const struct node *const *given)
{
    const struct cluster *c = r->c;
    const struct node *batch = given[SETTING_batch_bytes];
    const struct node *window = given[SETTING_window_bytes];
    const struct node *replies = given[SETTING_reply_bytes];
    uint64_t window_least = (uint64_t)c->payload_max + MESSAGE_ROOM;

    if (batch && c->batch_bytes > c->log_bytes / 4)
        return doc_bad(r->d, batch->line, r->e,
                       "batch_bytes (%s) is more than a quarter of log_bytes (%s); set it to %s or"
                       " less",
                       value_size_shown(c->batch_bytes).s, value_size_shown(c->log_bytes).s,
                       value_size_shown(c->log_bytes / 4).s);
    if (window && c->window_bytes > c->log_bytes / 2)
        return doc_bad(
            r->d, window->line, r->e,
            "window_bytes (%s) is more than half of log_bytes (%s); set it to %s or less",
            value_size_shown(c->window_bytes).s, value_size_shown(c->log_bytes).s,
            value_size_shown(c->log_bytes / 2).s);
    if (window && c->window_bytes < window_least)
        return doc_bad(r->d, window->line, r->e,
                       "window_bytes (%s) must hold a message of payload_max (%s) and %s; set it to"
                       " %s or more",
                       value_size_shown(c->window_bytes).s, value_size_shown(c->payload_max).s,
                       value_size_shown(MESSAGE_ROOM).s, value_size_shown(window_least).s);
    if (replies && c->reply_bytes < REPLY_ROOM(c))
        return doc_bad(r->d, replies->line, r->e,
                       "reply_bytes (%s) must hold a reply of reply_max (%s); set it to %s or more",
                       value_size_shown(c->reply_bytes).s, value_size_shown(c->reply_max).s,
                       value_size_shown(value_power_from(REPLY_ROOM(c))).s);
    return 0;
}

int settings_read(struct reader *r, const struct node *const *given)
{
    struct cluster *c = r->c;
    int rc = 0;

    for (enum setting s = 0; rc == 0 && s < SETTING_COUNT; s++)
        rc = take_setting(r, given[s], s);
    if (rc < 0)
        return rc;
    for (enum setting s = 0; s < SETTING_COUNT; s++)
        if (given[s] == NULL)
            *setting_at(c, s) = setting_standard(c, s);
    rc = check_room(r, SETTING_log_bytes, LOG_MESSAGES, given);
    if (rc == 0)
        rc = check_room(r, SETTING_source_bytes, SOURCE_MESSAGES, given);
    if (rc == 0)
        rc = check_room(r, SETTING_edge_bytes, SOURCE_MESSAGES, given);
    if (rc == 0)
        rc = check_log_parts(r, given);
    if (rc < 0)
        return rc;
    if (c->suspect_ms < 2 * c->heartbeat_ms) {
        const struct node *at = given[SETTING_suspect_ms];
        at = at ? at : given[SETTING_heartbeat_ms];
        return doc_bad(r->d, at->line, r->e,
                       "suspect_ms (%u) must be at least twice heartbeat_ms (%u), or a healthy"
                       " leader is suspected; set it to %u or more",
                       c->suspect_ms, c->heartbeat_ms, 2 * c->heartbeat_ms);
    }
    return 0;
}
