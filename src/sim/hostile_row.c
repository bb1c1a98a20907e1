/* What the memory of one who lies shows to whom. Others read its own lanes where they are, and see what it likes. */
#include "sim/hostile_impl.h"

#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { SWITCH_PER_THOUSAND = 15 }; /* reads after which a reader is shown the other twin */

uint32_t hostile_rank(const struct hostiles *all, uint32_t node)
{
    for (uint32_t p = 0; p < all->opt.members; p++)
        if (all->nodes[p] == node)
            return p;
    return UINT32_MAX;
}

uint32_t hostile_other(const struct hostiles *all, uint32_t node)
{
    uint32_t rank = hostile_rank(all, node), client = node - all->opt.clients_from;
    if (rank == UINT32_MAX && node >= all->opt.clients_from && client < all->opt.clients)
        return HOSTILE_MEMBERS_MAX + client;
    return rank;
}

struct row *hostile_row(struct hostile *h, const struct mem_lane_spec *s)
{
    for (uint32_t i = 0; i < h->rows; i++)
        if (h->row[i].spec.region == s->region && h->row[i].spec.kind == s->kind)
            return &h->row[i];
    CHECK(h->rows < HOSTILE_ROWS_MAX);
    struct row *r = &h->row[h->rows++];
    *r = (struct row){.spec = *s};
    return r;
}

void hostile_row_write(struct hostile *h, struct row *r, uint64_t at, const void *data,
                       uint32_t bytes, uint64_t late_ns)
{
    if (r->writes == r->writes_max) {
        r->writes_max = r->writes_max ? 2 * r->writes_max : 64;
        r->write = realloc(r->write, r->writes_max * sizeof(*r->write));
        CHECK(r->write != NULL);
    }
    struct row_write *w = &r->write[r->writes++];
    *w = (struct row_write){.when_ns = sim_now(h->all->opt.sim) + late_ns,
                            .at = at,
                            .bytes = bytes,
                            .twin = h->twin,
                            .data = malloc(bytes)};
    CHECK(w->data != NULL);
    memcpy(w->data, data, bytes);
    h->all->figures.lies += h->twin; /* what the other has not said, or not so */
}

void hostile_rows_free(struct hostile *h)
{
    for (uint32_t i = 0; i < h->rows; i++) {
        for (uint32_t k = 0; k < h->row[i].writes; k++)
            free(h->row[i].write[k].data);
        for (uint32_t p = 0; p < HOSTILE_MEMBERS_MAX; p++)
            free(h->row[i].shown[p].ring);
        free(h->row[i].write);
    }
    h->rows = 0;
}

/* Brings what the reader sees up to now, or to what is late. */
static void advance(struct hostile *h, const struct row *r, struct row_shown *s)
{
    uint64_t now = sim_now(h->all->opt.sim);
    for (; s->upto < r->writes; s->upto++) {
        const struct row_write *w = &r->write[s->upto];
        if (w->when_ns + s->late_ns > now) {
            h->all->figures.lies++;
            break;
        }
        if (w->twin == s->twin)
            ring_write(s->ring, r->spec.ring_bytes, w->at, w->data, w->bytes);
    }
}

static void begin_shown(const struct row *r, struct row_shown *s, uint32_t twin)
{
    if (s->ring == NULL)
        s->ring = malloc(r->spec.ring_bytes);
    CHECK(s->ring != NULL);
    memset(s->ring, 0, r->spec.ring_bytes);
    s->upto = 0;
    s->twin = twin;
}

static uint32_t side_of(const struct hostile *h, uint32_t reader)
{
    return hostile_twins(h) > 1 ? h->all->side >> reader & 1 : 0;
}

void hostile_shows(struct hostile *h, uint32_t reader, const struct mem_lane_spec *spec,
                   uint64_t at, void *words, uint32_t bytes)
{
    struct row *r = hostile_row(h, spec);
    struct row_shown *s = &r->shown[reader];
    uint32_t twin = side_of(h, reader);
    if (hostile_twins(h) > 1 && hostile_draw(h, SWITCH_PER_THOUSAND))
        twin = !twin;
    if (s->ring == NULL || s->twin != twin)
        begin_shown(r, s, twin);
    if (h->strategy != HOSTILE_stale)
        s->late_ns = 0;
    else if (hostile_draw(h, 20))
        s->late_ns = rng_below(&h->all->rng, h->late_ns);
    advance(h, r, s);
    ring_read(s->ring, r->spec.ring_bytes, at, words, bytes);
}
