#include "group/client_impl.h"

#include <stdlib.h>
#include <string.h>

/* A client's subscriptions: see relay.h. */

/* ---- sessions ---- */

void client_feed_tell(struct group_client *c, struct link *l)
{
    if (l->fed == NULL)
        return;
    mem_set1(c->mem, &l->out.flow, l->fed, FED_TAKEN, l->feed_at);
    mem_set1(c->mem, &l->out.flow, l->fed, FED_SESSION, client_session_of(c, l));
    l->feed_told = l->feed_at;
}

void client_feed_lost(struct group_client *c, uint32_t host)
{
    struct link *l = &c->link[host];
    for (uint32_t i = 0; l->live > 0 && i < c->opt.cells; i++) {
        struct client_sub *s = &c->sub[i];
        if (!s->live || s->host != host)
            continue;
        s->live = false;
        s->moved = true;
        l->live--;
    }
}

/* What it has is not wanted again; before it has anything, what was asked for is. */
static struct subscription from_of(const struct client_sub *s)
{
    if (s->next.history)
        return (struct subscription){.from = FROM_PLACE, .at = s->next};
    bool now = !s->wanted || s->version == CLIENT_FROM_NOW;
    return (struct subscription){.from = now ? FROM_NOW : FROM_VERSION, .at.number = s->version};
}

void client_feed_ask(struct group_client *c)
{
    for (uint32_t i = 0; i < c->opt.cells; i++) {
        struct client_sub *s = &c->sub[i];
        const struct client_request r = {
            .cell = i, .kind = REQUEST_SUBSCRIBE, .reply_max = sizeof(struct subscribed)};
        if (s->wanted && !s->live && !s->asked)
            s->asked = client_start_own(c, &r, sizeof(struct subscription));
    }
}

void client_feed_from(const struct group_client *c, const struct pending *p, unsigned char *to)
{
    const struct subscription from = from_of(&c->sub[p->head.cell]);
    memcpy(to, &from, p->bytes);
}

void client_feed_begins(struct group_client *c, uint32_t cell, uint32_t host, const void *data,
                        uint32_t bytes)
{
    struct client_sub *s = &c->sub[cell];
    struct link *l = &c->link[host];
    s->asked = false;
    if (!s->wanted || s->live)
        return;
    s->live = true;
    s->host = host;
    l->live++;
    l->beat_ns = c->now_ns;
    struct subscribed from;
    if (s->next.history || bytes != sizeof(from) || c->opt.cell[cell].raw)
        return;
    memcpy(&from, data, sizeof(from));
    s->next = from.next;
    s->now = from.now;
}

/* ---- samples ---- */

/* Has it come before? Else how many are lost in front of it. */
static bool is_new(struct client_sub *s, const struct sample *m, uint64_t *lost)
{
    struct sample_place *next = &s->next;
    if (next->history == m->place.history && m->place.number < next->number)
        return false;
    *lost = next->history == m->place.history ? m->place.number - next->number
            : next->history == 0              ? 0
                                              : CLIENT_LOST_SOME;
    *next = (struct sample_place){m->place.history, m->place.number + 1};
    return true;
}

/* Likewise, of a raw cell: what a member has lost for this client is known, and what came between two members is not. */
static bool is_new_raw(struct client_sub *s, const struct sample *m, uint64_t *lost)
{
    struct sample_place *last = &s->last[m->sender];
    if (m->place.history < last->history ||
        (m->place.history == last->history && m->place.number <= last->number))
        return false;
    *lost = s->moved ? CLIENT_LOST_SOME : m->lost;
    s->moved = false;
    *last = m->place;
    return true;
}

static void take_sample(struct group_client *c, uint32_t host, const struct sample *m,
                        const void *data, uint32_t bytes)
{
    uint64_t lost = 0;
    if (m->cell >= c->opt.cells || m->sender >= c->opt.hosts)
        return;
    struct client_sub *s = &c->sub[m->cell];
    if (!s->wanted || !s->live || s->host != host ||
        !(c->opt.cell[m->cell].raw ? is_new_raw : is_new)(s, m, &lost))
        return;
    const bool old = !c->opt.cell[m->cell].raw && m->place.number < s->now;
    const struct member_item item = {.data = data,
                                     .bytes = bytes,
                                     .sender = m->sender,
                                     .number = m->at,
                                     .kind = old ? CLIENT_PAST : 0,
                                     .client = m->client};
    c->done++;
    c->opt.calls->samples(c->opt.ctx, m->cell, m->vid, &item, 1, lost);
}

/* The answer to the subscription, with which this sample begins, is not here yet: they come on lanes of their own. */
static bool is_early(const struct group_client *c, uint32_t host, const struct sample *m)
{
    const struct client_sub *s = m->cell < c->opt.cells ? &c->sub[m->cell] : NULL;
    return s && s->wanted && s->asked && !s->live && c->way[c->opt.cells + m->cell].host == host;
}

static bool take_next(struct group_client *c, uint32_t host, uint64_t guard)
{
    struct link *l = &c->link[host];
    struct frame f;
    struct sample m;
    const uint32_t ring = c->replied.ring_bytes;
    frame_read(&f, l->feed->ring, ring, l->feed_at);
    if (!frame_fits(&f, l->feed_at, l->requests.life, c->replied.bytes_max, guard) ||
        f.bytes < sizeof(m))
        return false;
    const unsigned char *data = frame_payload(l->feed->ring, ring, l->feed_at, f.bytes, c->over);
    memcpy(&m, data, sizeof(m));
    if (is_early(c, host, &m))
        return false;
    take_sample(c, host, &m, data + sizeof(m), f.bytes - (uint32_t)sizeof(m));
    l->feed_at += frame_size(f.bytes);
    l->dirty = true;
    return l->hello != 0;
}

void client_feed_take(struct group_client *c, uint32_t host)
{
    struct link *l = &c->link[host];
    if (l->feed->ctl == NULL)
        return;
    uint64_t beat = mem_word(l->feed, FEED_BEAT);
    if (beat != l->beat)
        l->beat_ns = c->now_ns;
    l->beat = beat;
    if (mem_word(l->feed, FEED_SESSION) != client_session_of(c, l))
        return;
    uint64_t guard = mem_word(l->feed, FEED_GUARD);
    while (l->feed_at < guard && take_next(c, host, guard))
        ;
}

/* ---- subscribing ---- */

void client_subscribe(struct group_client *c, uint32_t cell, uint64_t version)
{
    struct client_sub *s = &c->sub[cell];
    s->version = version;
    c->subs += !s->wanted;
    s->wanted = true;
}

void client_unsubscribe(struct group_client *c, uint32_t cell)
{
    struct client_sub *s = &c->sub[cell];
    if (!s->wanted)
        return;
    c->subs--;
    if (s->live) {
        const struct client_request r = {.cell = cell, .kind = REQUEST_UNSUBSCRIBE};
        c->link[s->host].live--;
        client_start_own(c, &r, 0); /* who is fed has nothing else under way */
    }
    struct sample_place *last = s->last;
    *s = (struct client_sub){.asked = s->asked, .last = last};
    for (uint32_t i = 0; last && i < c->opt.hosts; i++)
        last[i] = (struct sample_place){0};
}

uint32_t client_feeder(const struct group_client *c, uint32_t cell)
{
    return c->sub[cell].live ? c->sub[cell].host : c->opt.hosts;
}

/* ---- opening ---- */

int client_subs_open(struct group_client *c)
{
    c->sub = calloc(c->opt.cells, sizeof(*c->sub));
    for (uint32_t i = 0; c->sub && i < c->opt.cells; i++) {
        if (!c->opt.cell[i].raw)
            continue;
        c->sub[i].last = calloc(c->opt.hosts, sizeof(*c->sub[i].last));
        if (c->sub[i].last == NULL)
            return ERR_NOMEM;
    }
    return c->sub ? 0 : ERR_NOMEM;
}

void client_subs_close(struct group_client *c)
{
    for (uint32_t i = 0; c->sub && i < c->opt.cells; i++)
        free(c->sub[i].last);
    free(c->sub);
}

int client_feed_open(struct group_client *c, uint32_t host, struct err *e)
{
    struct link *l = &c->link[host];
    const uint32_t ring = c->requests.ring_bytes;
    const struct mem_lane_spec spec[2] = {client_lane(host, c->mem->self, LANE_FEED, ring),
                                          client_lane(host, c->mem->self, LANE_FED, ring)};
    struct mem_lane *lane[2];
    l->feed_wanted = false;
    int rc = mem_lanes_open(c->mem, spec, 2, lane, e);
    if (rc != 0)
        return rc;
    l->feed = lane[0];
    l->fed = lane[1];
    if (l->hello)
        client_feed_tell(c, l);
    return 0;
}
