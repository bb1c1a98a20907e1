#include "api/kept.h"

#include <stdlib.h>
#include <string.h>

void kept_drop(struct kept_table *t, struct kept *k)
{
    for (uint32_t i = 0; i < k->count; i++)
        free(k->reply[i].body);
    free(k->reply);
    free(k->groups);
    *k = (struct kept){.groups = NULL};
    t->used--;
}

void kept_fini(struct kept_table *t)
{
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        if (t->entry[i].groups)
            kept_drop(t, &t->entry[i]);
}

struct kept *kept_by_ticket(struct kept_table *t, uint64_t ticket)
{
    for (uint32_t i = 0; t->used > 0 && i < KEPT_MAX; i++)
        if (t->entry[i].groups && t->entry[i].ticket == ticket)
            return &t->entry[i];
    return NULL;
}

struct kept *kept_by_number(struct kept_table *t, uint64_t number)
{
    for (uint32_t i = 0; t->used > 0 && i < KEPT_MAX; i++)
        if (t->entry[i].groups && t->entry[i].number == number)
            return &t->entry[i];
    return NULL;
}

/* A free entry, or the oldest that is done. */
static struct kept *find_room(struct kept_table *t)
{
    struct kept *oldest = NULL;
    for (uint32_t i = 0; i < KEPT_MAX; i++) {
        struct kept *k = &t->entry[i];
        if (k->groups == NULL)
            return k;
        if (k->done && (oldest == NULL || k->ticket < oldest->ticket))
            oldest = k;
    }
    if (oldest)
        kept_drop(t, oldest);
    return oldest;
}

int kept_add(struct kept_table *t, struct dst_set dst, struct kept **out)
{
    struct kept *k = find_room(t);
    if (k == NULL)
        return ERR_AGAIN;
    uint16_t *groups = malloc(dst.count * sizeof(*groups));
    struct kept_reply *reply = calloc(dst.count, sizeof(*reply));
    if (groups == NULL || reply == NULL) {
        free(groups);
        free(reply);
        return ERR_NOMEM;
    }
    memcpy(groups, dst.group, dst.count * sizeof(*groups));
    *k = (struct kept){.groups = groups, .count = dst.count, .reply = reply};
    t->used++;
    *out = k;
    return 0;
}

void kept_reply(struct kept *k, uint16_t group, const void *body, uint32_t bytes, uint32_t have)
{
    uint32_t i = 0;
    while (i < k->count && k->groups[i] != group)
        i++;
    if (i == k->count || k->reply[i].here)
        return;
    k->reply[i] =
        (struct kept_reply){.body = malloc(have + 1), .bytes = bytes, .have = have, .here = true};
    if (k->reply[i].body && have > 0)
        memcpy(k->reply[i].body, body, have);
}

int kept_copy(const struct kept *k, void *room, uint32_t reply_max, uint32_t *lengths)
{
    int rc = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        const struct kept_reply *r = &k->reply[i];
        uint32_t n = r->have < reply_max ? r->have : reply_max;
        if (lengths)
            lengths[i] = r->bytes;
        if (room == NULL || !r->here)
            continue;
        if (r->body == NULL)
            return ERR_NOMEM;
        memcpy((unsigned char *)room + (size_t)i * reply_max, r->body, n);
        rc = r->bytes > n ? ERR_TOOBIG : rc;
    }
    return rc;
}
