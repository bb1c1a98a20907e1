#include "group/impl.h"

/* Raw cells: a message is delivered where it is, when it is there. Streams, views and trims are as in other cells, without nulls and
 * without rounds. What one member has delivered beyond the trim, and others have not, comes again as the first messages of the next view, and
 * is passed over by who had it. A cell that a single host may be in has one order anyway, and is not treated in this way. */

static void take_large(struct cell *c, struct batch *b, struct source_stream *s,
                       const struct record *r, uint32_t bytes)
{
    if (s->taken < s->skip)
        large_passed(c, r, bytes, s->host);
    else if (!large_item(c, b, r, bytes, s->pos, s->host, s->taken))
        s->torn = true;
}

static int take_source(struct cell *c, struct source_stream *s, uint64_t limit, uint64_t *bytes)
{
    uint64_t from = s->taken;
    struct batch b;
    b.count = b.kinds = 0;
    b.bytes = 0;
    while (s->taken < limit && b.count < MEMBER_ITEMS_MAX &&
           *bytes + b.bytes < c->opt.deliver_bytes) {
        uint32_t size;
        const struct record *r = cell_record(c, s, s->taken, &size);
        if (r) {
            if (r->flags & RECORD_LARGE)
                take_large(c, &b, s, r, size);
            else if (s->taken >= s->skip)
                cell_item(&b, r, size, s->host, s->taken, 0);
            s->pos += record_size(size);
        }
        s->taken++;
    }
    cell_upcall(c, &b);
    *bytes += b.bytes;
    return s->taken > from;
}

int raw_deliver(struct cell *c)
{
    int work = 0;
    for (uint32_t i = 0; i < c->senders; i++) {
        struct source_stream *s = &c->source[i];
        uint64_t bytes = 0, from = s->taken;
        while (take_source(c, s, s->count, &bytes))
            ;
        if (s->taken == from)
            continue;
        table_set(c->taken, c->rank[s->host], stamp(c->of->view->vid, s->taken));
        c->push = true;
        work++;
    }
    return work;
}

bool raw_finish(struct cell *c)
{
    const struct view_cell *next = &c->of->next->cell[c->number];
    bool all = true;
    for (uint32_t i = 0; i < c->senders; i++) {
        uint64_t bytes = 0;
        take_source(c, &c->source[i], next->trim[i], &bytes);
        all &= c->source[i].taken >= next->trim[i];
    }
    return all;
}

bool raw_all_delivered(const struct cell *c, uint64_t *below)
{
    uint64_t vid = c->of->view->vid;
    uint32_t me = c->rank[c->of->opt.me];
    *below = UINT64_MAX;
    for (uint64_t rest = c->members; rest; rest = set_rest(rest)) {
        uint32_t host = set_first(rest);
        uint64_t word = in_set(c->unready, host) ? 0 : table_get(c->taken, c->rank[host], me);
        if (stamp_vid(word) != vid)
            return false;
        *below = min_u64(*below, stamp_count(word));
    }
    return true;
}

void raw_ahead(const struct cell *c, const struct view *before, const struct view *now,
               uint64_t ahead[GROUP_HOSTS_MAX])
{
    const struct view_cell *vc = &now->cell[c->number];
    for (uint32_t i = 0; i < c->senders; i++) {
        const struct source_stream *s = &c->source[i];
        bool goes_on = in_set(vc->senders, s->host) && before->life[s->host] == now->life[s->host];
        uint64_t delivered = max_u64(s->taken, s->skip);
        if (goes_on && delivered > vc->trim[i])
            ahead[s->host] = delivered - vc->trim[i];
    }
}

void raw_begin(struct cell *c, uint64_t vid, const uint64_t ahead[GROUP_HOSTS_MAX])
{
    for (uint64_t rest = c->hosts; rest; rest = set_rest(rest))
        table_set(c->taken, c->rank[set_first(rest)], stamp(vid, 0));
    for (uint32_t i = 0; i < c->senders; i++)
        c->source[i].skip = PLANTED(group_raw_again) ? 0 : ahead[c->source[i].host];
}
