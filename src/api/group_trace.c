/* The trace of a member: what it sends, the views it is in, and what it delivers (trace/trace.h). */
#include "api/group_impl.h"

#include "base/crc32c.h"
#include "trace/trace.h"

_Static_assert((int)CLUSTER_CELLS_MAX <= 256,
               "the number of a cell has eight bits in that of a message");

static struct trace_member me_in(const struct tram_group *g, uint64_t vid)
{
    return (struct trace_member){.host = g->index, .inc = g->run.mem->life, .vid = vid};
}

/* A message is known by its place in the stream of its sender, which is a multiple of 16, and by the cell, whose stream it is. The
 * sender counts lives from 1, so that a name with a dot and digits is not taken for one with a life. */
static struct trace_id id_of(const struct tram_group *g, uint32_t cell, uint32_t sender,
                             uint32_t life, const void *data, uint32_t bytes)
{
    return (struct trace_id){.client = sender,
                             .life = life + 1,
                             .seq = member_place(g->member, cell, sender, data) << 4 | cell,
                             .sum = crc32c(0, data, bytes)};
}

int group_trace_open(struct tram_group *g, const char *dir, struct err *e)
{
    const struct cluster *f = g->cluster->conf;
    struct cluster_cell_name text[CLUSTER_CELLS_MAX];
    const char *cells[CLUSTER_CELLS_MAX];
    for (uint32_t i = 0; i < g->cells; i++) {
        text[i] = cluster_cell_name(f, i);
        cells[i] = text[i].s;
    }
    struct trace_options o = {.dir = dir,
                              .name = g->host_name[g->index],
                              .groups = cells,
                              .group_count = g->cells,
                              .hosts = g->host_name,
                              .host_count = f->hosts,
                              .clients = g->host_name,
                              .client_count = f->hosts,
                              .say = g->say};
    return trace_open(&g->trace, &o, e);
}

void group_trace_close(struct tram_group *g)
{
    trace_close(g->trace, NULL);
}

static bool is_raw(const struct tram_group *g, uint32_t cell)
{
    return g->options[cell].mode == CELL_RAW;
}

/* It delivers all of the view that begins: having its state, or no other than what it is sent of clients. */
static bool starts(const struct tram_group *g, const struct view *now, uint32_t cell)
{
    bool has_state = g->machine.save || g->machine.save_open;
    return member_has_state(g->member, cell) ||
           (!has_state && in_set(now->cell[cell].members, g->index));
}

void group_trace_view(struct tram_group *g, const struct view *now)
{
    uint32_t hosts[GROUP_HOSTS_MAX], count = 0;
    for (uint32_t i = 0; i < g->cells; i++)
        g->cell[i].learns &= now && !starts(g, now, i);
    if (now == NULL) {
        trace_out(g->trace, me_in(g, g->seen[g->at].view.number));
        return;
    }
    for (uint64_t rest = now->members; rest; rest = set_rest(rest))
        hosts[count++] = set_first(rest);
    trace_view(g->trace, me_in(g, now->vid), hosts, count);
    for (uint32_t i = 0; i < g->cells; i++)
        if (!is_raw(g, i) && starts(g, now, i))
            trace_cell_start(g->trace, me_in(g, now->vid), i, 0);
}

/* What a learner is sent behind its state is part of that: it delivers from the view on in which it is a member. */
void group_trace_loaded(struct tram_group *g, uint32_t cell)
{
    g->cell[cell].learns = member_is_behind(g->member, cell);
    if (g->cell[cell].learns)
        return;
    trace_cell_start(g->trace, me_in(g, member_view(g->member)->vid), cell,
                     member_delivers_from(g->member, cell));
}

void group_trace_deliver(struct tram_group *g, uint32_t cell, const struct member_item *item,
                         uint32_t count)
{
    const struct view *v = member_view(g->member);
    struct trace_member me = me_in(g, v->vid);
    if (g->cell[cell].learns)
        group_trace_loaded(g, cell);
    if (g->cell[cell].learns)
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (item[i].client) /* as calls: they are not in traces */
            continue;
        uint32_t life = (uint32_t)(v->life[item[i].sender] >> 16) - 1;
        struct trace_id id = id_of(g, cell, item[i].sender, life, item[i].data, item[i].bytes);
        if (is_raw(g, cell))
            trace_raw_deliver(g->trace, me, cell, id);
        else
            trace_cell_deliver(g->trace, me, cell, item[i].number, id);
    }
}

void group_trace_commit(struct tram_group *g, uint32_t cell, void *room, uint32_t bytes)
{
    const uint16_t dst = (uint16_t)cell;
    CHECK(cell < g->cells);
    trace_cast(g->trace, id_of(g, cell, g->index, g->run.mem->life, room, bytes),
               (struct trace_dst){.group = &dst, .count = 1});
    member_commit(g->member, cell, room, bytes);
}
