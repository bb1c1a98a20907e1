/* The machine of a member in the public simulator: the user's, with a checker of deliveries and states beside it. */
#include "sim/tram_sim_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct cell_compare_who who(const struct world_member *w, uint32_t cell)
{
    return (struct cell_compare_who){w->at->host->node, cell, tram_sim_now(w->sim)};
}

bool world_has_state(const struct tram_sim *s)
{
    return s->opt.group_machine.save || s->opt.group_machine.save_open;
}

static void show_state(struct world_member *w, uint32_t cell)
{
    void *data;
    size_t bytes;
    if (!world_has_state(w->sim) || w->sim->opt.replies_only)
        return;
    if (api_save_whole(&w->cell[cell].machine, &data, &bytes))
        cell_compare_state(w->sim->cells, who(w, cell), data, bytes);
    free(data);
}

/* Is the state compared after the message? */
static bool is_shown(const struct world_member *w, uint32_t cell)
{
    uint64_t count = cell_compare_count(w->sim->cells, who(w, cell));
    return count > 0 && count % w->sim->opt.compare_every == 0;
}

static void note_delivery(struct world_member *w, uint32_t cell, uint64_t view,
                          const struct tram_item *m, const void *reply, uint32_t reply_bytes)
{
    struct tram_sim *s = w->sim;
    chaos_trace(
        &s->fleet.chaos, "%s delivers %u bytes of %s in cell %u, view %" PRIu64 ", number %" PRIu64,
        w->at->host->name, m->bytes, s->cluster.conf->host[m->sender].name, cell, view, m->number);
    cell_compare_deliver(s->cells, who(w, cell), view, m, reply, reply_bytes);
    s->news++;
}

/* The machine is told before the view is; and where a disk is read, in the middle of one. */
static void note_born(struct world_member *w, uint32_t cell)
{
    if (!w->cell[cell].born)
        return;
    w->cell[cell].born = false;
    cell_compare_born(w->sim->cells, who(w, cell));
    show_state(w, cell);
}

/* One at a time where states are compared after each, so that the very message is found; a batch is of any size anyway. */
static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                       uint32_t count)
{
    struct world_member *w = ctx;
    const struct tram_group_machine *m = &w->sim->opt.group_machine;
    note_born(w, cell);
    for (uint32_t i = 0; i < count; i++) {
        if (m->deliver)
            m->deliver(w->ctx, cell, view, &item[i], 1);
        note_delivery(w, cell, view, &item[i], NULL, 0);
        if (is_shown(w, cell))
            show_state(w, cell);
    }
}

static uint32_t on_call(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                        void *reply, uint32_t room)
{
    struct world_member *w = ctx;
    const struct tram_group_machine *m = &w->sim->opt.group_machine;
    uint32_t bytes = 0;
    note_born(w, cell);
    if (m->call)
        bytes = m->call(w->ctx, cell, view, item, reply, room);
    else if (m->deliver)
        m->deliver(w->ctx, cell, view, item, 1);
    bool whole = bytes <= room && room > 0; /* who asks for less room, or for none, gets less */
    note_delivery(w, cell, view, item, whole ? reply : NULL, whole ? bytes : 0);
    if (is_shown(w, cell))
        show_state(w, cell);
    return bytes;
}

static int on_query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                    void *reply, uint32_t room)
{
    const struct world_member *w = ctx;
    return w->sim->opt.group_machine.query(w->ctx, cell, from, data, bytes, reply, room);
}

static void on_answered(void *ctx, uint64_t ticket, const struct tram_answer *a)
{
    const struct world_member *w = ctx;
    w->sim->news++;
    if (w->sim->opt.group_machine.answered)
        w->sim->opt.group_machine.answered(w->ctx, ticket, a);
}

static void on_progress(void *ctx, uint32_t cell, uint32_t sender, uint64_t bytes, uint64_t of)
{
    const struct world_member *w = ctx;
    if (w->sim->opt.group_machine.progress)
        w->sim->opt.group_machine.progress(w->ctx, cell, sender, bytes, of);
}

static void note_view(struct world_member *w, bool goes_on)
{
    const struct member *m = api_group_member(w->group);
    for (uint32_t k = 0; k < cluster_cells(w->sim->cluster.conf); k++) {
        cell_compare_view(w->sim->cells, who(w, k), member_view(m), goes_on,
                          member_has_state(m, k));
        note_born(w, k);
    }
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    struct world_member *w = ctx;
    struct tram_sim *s = w->sim;
    const char *name = w->at->host->name;
    s->news++;
    if (now)
        chaos_trace(&s->fleet.chaos, "%s begins view %" PRIu64 " with %u of %u hosts", name,
                    now->number, set_count(now->members), now->hosts);
    else
        chaos_trace(&s->fleet.chaos, "%s is out", name);
    if (now)
        note_view(w, before != NULL);
    else
        cell_compare_out(s->cells, w->at->host->node);
    if (s->opt.group_machine.view)
        s->opt.group_machine.view(w->ctx, before, now);
}

static void on_returned(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    const struct world_member *w = ctx;
    w->sim->news++;
    if (w->sim->opt.group_machine.returned)
        w->sim->opt.group_machine.returned(w->ctx, cell, data, bytes);
}

static void on_born(void *ctx, uint32_t cell)
{
    struct world_member *w = ctx;
    if (w->sim->opt.group_machine.born)
        w->sim->opt.group_machine.born(w->ctx, cell);
    w->cell[cell].born = true;
}

static void on_persisted(void *ctx, uint32_t cell, uint64_t version)
{
    const struct world_member *w = ctx;
    if (w->sim->opt.group_machine.persisted)
        w->sim->opt.group_machine.persisted(w->ctx, cell, version);
}

/* ---- states: before the user's bytes it is said where in the cell's sequence they are ---- */

struct save {
    struct cell_compare_place place;
    uint32_t at; /* of the place */
    void *of;    /* the user's */
};

static void spend(struct world_member *w, uint64_t bytes)
{
    const struct tram_sim_options *o = &w->sim->opt;
    w->spent_ns += o->state_call_ns + o->state_kib_ns * bytes / 1024;
}

static void *on_save_open(void *ctx, uint32_t cell, uint64_t *bytes)
{
    struct world_member *w = ctx;
    struct save *s = calloc(1, sizeof(*s));
    CHECK(s != NULL);
    spend(w, 0);
    s->place = cell_compare_place(w->sim->cells, who(w, cell));
    s->of = api_save_open(&w->cell[cell].machine, bytes);
    if (s->of == NULL) {
        free(s);
        return NULL;
    }
    if (*bytes != TRAM_BYTES_UNKNOWN)
        *bytes += sizeof(s->place);
    return s;
}

static int on_save_next(void *ctx, uint32_t cell, void *save, void *out, uint32_t room)
{
    struct world_member *w = ctx;
    struct save *s = save;
    if (s->at < sizeof(s->place)) {
        uint32_t left = (uint32_t)sizeof(s->place) - s->at, n = left < room ? left : room;
        memcpy(out, (const unsigned char *)&s->place + s->at, n);
        s->at += n;
        return (int)n;
    }
    int got = api_save_next(&w->cell[cell].machine, s->of, out, room);
    spend(w, got > 0 ? (uint64_t)got : 0);
    return got;
}

static void on_save_close(void *ctx, uint32_t cell, void *save)
{
    struct world_member *w = ctx;
    struct save *s = save;
    api_save_close(&w->cell[cell].machine, s->of);
    free(s);
}

static int on_load_open(void *ctx, uint32_t cell, uint64_t bytes)
{
    struct world_member *w = ctx;
    struct world_cell *c = &w->cell[cell];
    c->place_bytes = 0;
    bool known = bytes != TRAM_BYTES_UNKNOWN && bytes >= sizeof(c->place);
    return api_load_open(&c->machine, known ? bytes - sizeof(c->place) : TRAM_BYTES_UNKNOWN);
}

static int on_load_next(void *ctx, uint32_t cell, const void *data, uint32_t bytes)
{
    struct world_member *w = ctx;
    struct world_cell *c = &w->cell[cell];
    uint32_t left = (uint32_t)sizeof(c->place) - c->place_bytes, n = left < bytes ? left : bytes;
    memcpy((unsigned char *)&c->place + c->place_bytes, data, n);
    c->place_bytes += n;
    spend(w, bytes);
    return n == bytes ? 0 : api_load_next(&c->machine, (const unsigned char *)data + n, bytes - n);
}

static int on_load_close(void *ctx, uint32_t cell, bool whole)
{
    struct world_member *w = ctx;
    struct world_cell *c = &w->cell[cell];
    spend(w, 0);
    int rc = api_load_close(&c->machine, whole);
    if (!whole || rc < 0 || c->place_bytes < sizeof(c->place))
        return rc;
    chaos_trace(&w->sim->fleet.chaos, "%s has loaded the state of cell %u: %" PRIu64 " messages",
                w->at->host->name, cell, c->place.count);
    cell_compare_loaded(w->sim->cells, who(w, cell), c->place);
    show_state(w, cell);
    w->sim->news++;
    return rc;
}

struct tram_group_machine world_group_machine(const struct tram_sim *s)
{
    struct tram_group_machine m = {.deliver = on_deliver,
                                   .call = on_call,
                                   .query = s->opt.group_machine.query ? on_query : NULL,
                                   .answered = on_answered,
                                   .progress = on_progress,
                                   .view = on_view,
                                   .returned = on_returned,
                                   .born = on_born,
                                   .persisted = on_persisted};
    if (!world_has_state(s))
        return m;
    m.save_open = on_save_open;
    m.save_next = on_save_next;
    m.save_close = on_save_close;
    m.load_open = on_load_open;
    m.load_next = on_load_next;
    m.load_close = on_load_close;
    return m;
}

void world_group_layout(void *ctx, const struct tram_view *before, struct tram_layout *next)
{
    const struct world_member *w = ctx;
    w->sim->opt.layout(w->ctx, before, next);
}
