#include "sim/hostile_impl.h"

#include "agree/bft_stretch.h"
#include "lane/names.h"
#include "mem/wrap.h"
#include "sim/known.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define US UINT64_C(1000)

enum {
    RATE_MIN = 20, /* lies in a thousand writes */
    RATE_MAX = 500,
    LATE_US_MAX = 200,
    STRETCH_US_MIN = 20,
    STRETCH_US_MAX = 400,
    WAY_IN = 200, /* steps */
    WAY_US_MAX = 60,
    FAST_MAX = 30, /* times as fast as others' is the clock of one who panics */
};

static const char *const names[] = {
#define NAME_(name, text) #name,
    HOSTILE_LIST(NAME_)
#undef NAME_
};
static const char *const texts[] = {
#define TEXT_(name, text) text,
    HOSTILE_LIST(TEXT_)
#undef TEXT_
};

const char *hostile_name(enum hostile_strategy s)
{
    return names[s];
}

const char *hostile_text(enum hostile_strategy s)
{
    return texts[s];
}

static struct hostile *hostile_at(const struct mem *m)
{
    return (struct hostile *)((char *)(uintptr_t)m->ops - offsetof(struct hostile, table));
}

/* ---- what becomes of a write ---- */

void hostile_spoil(struct hostile *h, void *data, uint32_t bytes)
{
    struct rng *g = &h->all->rng;
    uint64_t *word = data, count = bytes / 8;
    if (count == 0)
        return;
    uint64_t *one = &word[rng_below(g, count)], *other = &word[rng_below(g, count)];
    switch (rng_below(g, 6)) {
    case 0: /* a bit */
        *one ^= UINT64_C(1) << rng_below(g, 64);
        break;
    case 1: /* the next, or the one before */
        *one += rng_below(g, 2) ? 1 : UINT64_MAX;
        break;
    case 2: /* the half of it */
        memset((char *)data + count / 2 * 8, (int)rng_below(g, 256), count / 2 * 8);
        break;
    case 3: /* a word of another place */
        *one = *other;
        break;
    case 4:
        *one = UINT64_MAX - rng_below(g, 2);
        break;
    default:
        for (uint64_t i = 0; i < count; i++)
            word[i] = rng_u64(g);
        break;
    }
}

static struct mem_flow *own_flow(struct hostile *h, uint32_t owner)
{
    struct mem_flow *f = &h->flow[hostile_other(h->all, owner)];
    if (f->owner != owner || f->status != MEM_DONE)
        h->ops->flow_open(h->mem, f, owner, h->all->opt.region, 0);
    return f;
}

static void write_own(struct hostile *h, const struct hostile_write *w)
{
    struct mem_flow *f = own_flow(h, w->lane->spec.owner);
    if (w->words)
        h->ops->set(h->mem, f, w->lane, (uint32_t)w->at, (const uint64_t *)(const void *)w->data,
                    w->bytes / 8);
    else
        h->ops->put(h->mem, f, w->lane, w->at, w->data, w->bytes);
}

static struct hostile_write copy_of(const struct hostile_write *w)
{
    struct hostile_write c = *w;
    c.data = malloc(w->bytes);
    CHECK(c.data != NULL);
    memcpy(c.data, w->data, w->bytes);
    return c;
}

static void later(struct hostile *h, const struct hostile_write *w, uint64_t ns)
{
    if (h->laters == HOSTILE_LATER_MAX)
        return; /* then never */
    struct hostile_write *l = &h->later[h->laters++];
    *l = copy_of(w);
    l->due_ns = sim_now(h->all->opt.sim) + ns;
}

static void remember(struct hostile *h, const struct hostile_write *w)
{
    struct hostile_write *p = &h->past[h->pasts++ % HOSTILE_PAST_MAX];
    free(p->data);
    *p = copy_of(w);
}

static const struct hostile_write *past_like(struct hostile *h, const struct hostile_write *w)
{
    uint64_t count = h->pasts < HOSTILE_PAST_MAX ? h->pasts : HOSTILE_PAST_MAX;
    for (uint64_t i = rng_below(&h->all->rng, count + 1), k = 0; k < count; k++, i++) {
        const struct hostile_write *p = &h->past[i % count];
        if (p->words == w->words && p->bytes == w->bytes &&
            lane_kind(&p->lane->spec) == lane_kind(&w->lane->spec))
            return p;
    }
    return NULL;
}

/* It is about this reader and this kind of thing. */
static bool about(const struct hostile *h, const struct mem_lane_spec *s)
{
    uint32_t other = hostile_other(h->all, s->owner);
    return other < HOSTILE_OTHERS_MAX && h->peers >> other & 1 && h->kinds >> lane_kind(s) & 1;
}

/* Who writes what is no frame is not read any more, and can do no more harm: mostly its head stays. */
static uint32_t head_of(struct hostile *h, const struct hostile_write *w)
{
    bool frame = lane_kind(&w->lane->spec) == LANE_TALK && !w->words;
    return frame && w->bytes > sizeof(struct frame) && !hostile_draw(h, 30) ? sizeof(struct frame)
                                                                            : 0;
}

static void spoilt(struct hostile *h, const struct hostile_write *w)
{
    struct hostile_write c = copy_of(w);
    uint32_t head = head_of(h, w);
    hostile_spoil(h, c.data + head, c.bytes - head);
    h->all->figures.lies++;
    write_own(h, &c);
    free(c.data);
}

static void replayed(struct hostile *h, const struct hostile_write *w)
{
    const struct hostile_write *p = past_like(h, w);
    if (p == NULL)
        return;
    struct hostile_write c = copy_of(w);
    uint32_t head = head_of(h, w);
    memcpy(c.data + head, p->data + head, c.bytes - head);
    h->all->figures.lies++;
    write_own(h, &c);
    free(c.data);
}

static void huge(struct hostile *h, const struct hostile_write *w)
{
    uint64_t words[8];
    struct hostile_write c = *w;
    c.bytes = c.bytes < sizeof(words) ? c.bytes : sizeof(words);
    memcpy(words, w->data, c.bytes);
    words[rng_below(&h->all->rng, c.bytes / 8)] =
        rng_below(&h->all->rng, 2) ? UINT64_MAX - 1 - rng_below(&h->all->rng, 3)
                                   : rng_u64(&h->all->rng) >> rng_below(&h->all->rng, 64);
    c.data = (unsigned char *)words;
    h->all->figures.lies++;
    write_own(h, &c);
}

/* A client is told that more was taken, or another reply. */
static void told_wrongly(struct hostile *h, const struct hostile_write *w)
{
    struct hostile_write c = copy_of(w);
    if (lane_kind(&w->lane->spec) == LANE_REPLY && !w->words && c.bytes >= 8)
        c.data[c.bytes - 8] ^= 1; /* the reply itself, at the end */
    else if (w->words)
        *(uint64_t *)(void *)c.data += 8 * rng_below(&h->all->rng, 20);
    h->all->figures.lies++;
    write_own(h, &c);
    free(c.data);
}

/* Frames stay frames, with bodies and values in them that are none: nobody finds these. */
static void withheld(struct hostile *h, const struct hostile_write *w)
{
    struct hostile_write c = copy_of(w);
    struct known_frame f = {0};
    bool found = false;
    while (lane_kind(&w->lane->spec) == LANE_TALK && !w->words &&
           known_frame_next(c.data, c.bytes, &f))
        if ((f.frame->kind == BFT_FRAME_BODY || f.frame->kind == BFT_FRAME_VALUE) && f.bytes > 0) {
            memset((void *)(uintptr_t)f.frame->data, 0, f.bytes);
            found = true;
        }
    if (found) {
        h->all->figures.lies++;
        write_own(h, &c);
    }
    free(c.data);
}

/* True: nothing is written now. */
static bool is_dropped(struct hostile *h, const struct hostile_write *w)
{
    uint32_t peer = hostile_rank(h->all, w->lane->spec.owner);
    if (hostile_twins(h) > 1 && peer < HOSTILE_MEMBERS_MAX)
        return (h->all->side >> peer & 1) != h->twin;
    bool here = about(h, &w->lane->spec);
    if (h->strategy == HOSTILE_stale && here) {
        later(h, w, rng_below(&h->all->rng, h->late_ns));
        return true;
    }
    return h->strategy == HOSTILE_silent && here;
}

/* A write into somebody's memory: what else is written before or after it. */
static void write_lies(struct hostile *h, const struct hostile_write *w)
{
    if (h->strategy == HOSTILE_replay)
        remember(h, w);
    if (!about(h, &w->lane->spec) || !hostile_draw(h, h->rate))
        return;
    switch (h->strategy) {
    case HOSTILE_garbage:
        spoilt(h, w);
        if (hostile_draw(h, 500)) /* and right a little later */
            later(h, w, rng_below(&h->all->rng, 20 * US));
        break;
    case HOSTILE_rewrite:
        later(h, w, rng_below(&h->all->rng, 5 * US));
        spoilt(h, w);
        break;
    case HOSTILE_replay:
        replayed(h, w);
        break;
    case HOSTILE_huge:
        if (w->words)
            huge(h, w);
        break;
    case HOSTILE_withhold:
        withheld(h, w);
        break;
    case HOSTILE_invent:
        if (hostile_other(h->all, w->lane->spec.owner) >= HOSTILE_MEMBERS_MAX)
            told_wrongly(h, w);
        break;
    default:
        break;
    }
}

static void row_lies(struct hostile *h, struct row *r, uint64_t at, const void *data,
                     uint32_t bytes)
{
    unsigned char copy[HOSTILE_PAST_BYTES];
    hostile_row_write(h, r, at, data, bytes, 0);
    if (lane_kind(&r->spec) == LANE_NEB && bytes == sizeof(struct neb_cell))
        hostile_cell_lies(h, r, at, data);
    if (bytes > sizeof(copy) || !hostile_draw(h, h->rate))
        return;
    memcpy(copy, data, bytes);
    if (h->strategy == HOSTILE_garbage || h->strategy == HOSTILE_rewrite) {
        hostile_spoil(h, copy, bytes);
        hostile_row_write(h, r, at, copy, bytes, 0);
        h->all->figures.lies++;
        if (hostile_draw(h, 500))
            hostile_row_write(h, r, at, data, bytes, rng_below(&h->all->rng, 20 * US));
    }
}

/* ---- operations ---- */

static void lie_put(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint64_t pos,
                    const void *data, uint32_t bytes)
{
    struct hostile *h = hostile_at(m);
    struct hostile_write w = {
        .lane = l, .at = pos, .bytes = bytes, .data = (unsigned char *)(uintptr_t)data};
    if (l->spec.owner == m->self && l->spec.writer == m->self) {
        bool silent = h->strategy == HOSTILE_silent && about(h, &l->spec);
        h->all->figures.lies += silent;
        if (!silent)
            row_lies(h, hostile_row(h, &l->spec), pos, data, bytes);
        h->ops->put(m, f, l, pos, data, bytes);
        return;
    }
    if (is_dropped(h, &w)) {
        h->all->figures.lies++;
        return;
    }
    h->ops->put(m, f, l, pos, data, bytes);
    write_lies(h, &w);
}

static void lie_set(struct mem *m, struct mem_flow *f, struct mem_lane *l, uint32_t word,
                    const uint64_t *values, uint32_t count)
{
    struct hostile *h = hostile_at(m);
    struct hostile_write w = {.lane = l,
                              .words = true,
                              .at = word,
                              .bytes = count * 8,
                              .data = (unsigned char *)(uintptr_t)values};
    if (l->spec.owner != m->self && is_dropped(h, &w)) {
        h->all->figures.lies++;
        return;
    }
    h->ops->set(m, f, l, word, values, count);
    if (l->spec.owner != m->self)
        write_lies(h, &w);
}

/* What clients have signed, of those whom it leaves out: from themselves, or shown to it by others. */
static bool is_censored(const struct hostile *h, const struct mem_lane_spec *s, const void *bytes,
                        uint32_t count)
{
    const struct bft_frame *f = bytes;
    if (h->strategy != HOSTILE_censor)
        return false;
    if (lane_kind(s) == LANE_SIGNED)
        return h->clients >> lane_index(s) & 1;
    return lane_kind(s) == LANE_TALK && count > sizeof(*f) && f->kind == BFT_FRAME_SIGNED &&
           h->clients >> ((const struct bft_stretch *)(const void *)f->data)->source & 1;
}

/* What it finds in its own memory is what it likes to find there. */
static void lie_take(struct mem *m, const struct mem_lane *l, uint64_t pos, void *to,
                     uint32_t bytes)
{
    struct hostile *h = hostile_at(m);
    h->ops->take(m, l, pos, to, bytes);
    if (is_censored(h, &l->spec, to, bytes)) {
        memset(to, 0, bytes);
        h->all->figures.lies++;
    }
    if (h->strategy == HOSTILE_invent && lane_kind(&l->spec) == LANE_SOURCE &&
        bytes > sizeof(struct frame) && hostile_draw(h, h->rate)) {
        hostile_spoil(h, to, bytes);
        h->all->figures.lies++;
    }
}

/* The second twin finds the region as the first one did. */
static int lie_region_open(struct mem *m, uint32_t region, enum mem_birth *birth, struct err *e)
{
    struct hostile *h = hostile_at(m);
    for (uint32_t i = 0; i < h->regions; i++)
        if (h->region[i].region == region) {
            *birth = h->region[i].birth;
            return 0;
        }
    int rc = h->ops->region_open(m, region, birth, e);
    if (rc == 0 && h->regions < HOSTILE_ROWS_MAX) {
        h->region[h->regions].region = region;
        h->region[h->regions++].birth = *birth;
    }
    return rc;
}

/* ---- what others see ---- */

static struct hostile *hostile_node(const struct hostiles *all, uint32_t node)
{
    uint32_t rank = hostile_rank(all, node);
    return rank < HOSTILE_MEMBERS_MAX ? all->of[rank] : NULL;
}

static void on_read(void *ctx, uint32_t reader, const struct mem_lane_spec *s, uint64_t at,
                    void *words, uint32_t bytes)
{
    struct hostiles *all = ctx;
    struct hostile *h = hostile_node(all, s->owner);
    uint32_t rank = hostile_rank(all, reader);
    if (h == NULL || h->mem == NULL || reader == s->owner || rank >= HOSTILE_MEMBERS_MAX)
        return;
    if (s->writer == s->owner)
        hostile_shows(h, rank, s, at, words, bytes);
    if (h->strategy == HOSTILE_garbage && hostile_draw(h, h->rate / 4)) {
        hostile_spoil(h, words, bytes);
        all->figures.lies++;
    }
}

void hostile_swap(struct hostile *h, uint32_t rank, const void *from, const void *to,
                  uint32_t bytes)
{
    if (bytes > HOSTILE_PAST_BYTES)
        return;
    h->swap.rank = rank;
    h->swap.bytes = bytes;
    memcpy(h->swap.from, from, bytes);
    memcpy(h->swap.to, to, bytes);
}

/* It has been taken: who looks again finds something else. */
static void swap(struct hostile *h, const struct mem_lane_spec *s, uint64_t pos, uint32_t bytes)
{
    unsigned char now[HOSTILE_PAST_BYTES];
    if (h->swap.bytes == 0 || bytes < h->swap.bytes || lane_kind(s) != LANE_TALK ||
        hostile_rank(h->all, s->owner) != h->swap.rank)
        return;
    const struct mem_lane *l = sim_lane(h->all->opt.sim, s);
    uint64_t at = pos + bytes - h->swap.bytes;
    ring_read(l->ring, s->ring_bytes, at, now, h->swap.bytes);
    if (memcmp(now, h->swap.from, h->swap.bytes) != 0)
        return;
    ring_write(l->ring, s->ring_bytes, at, h->swap.to, h->swap.bytes);
    h->all->figures.lies++;
}

/* Somebody has looked at what one who lies wrote: it may be something else now. */
static void on_take(void *ctx, const struct mem_lane_spec *s, uint64_t pos, uint32_t bytes)
{
    struct hostiles *all = ctx;
    struct hostile *h = hostile_node(all, s->writer);
    if (h == NULL || h->mem == NULL || h->strategy != HOSTILE_rewrite)
        return;
    swap(h, s, pos, bytes);
    if (h->swap.bytes > 0 || !hostile_draw(h, h->rate / 2))
        return;
    const struct mem_lane *l = sim_lane(all->opt.sim, s);
    uint64_t at = (pos + rng_below(&all->rng, bytes / 8 + 1) * 8) & (s->ring_bytes - 1);
    hostile_spoil(h, l->ring + at, 8);
    all->figures.lies++;
}

/* ---- opening ---- */

static void draw_lies(struct hostile *h)
{
    struct hostiles *all = h->all;
    struct rng *g = &all->rng;
    uint64_t now = sim_now(all->opt.sim);
    h->strategy = all->opt.strategy;
    if (h->strategy == HOSTILE_mixed)
        do
            h->strategy = (enum hostile_strategy)rng_below(g, HOSTILE_mixed);
        while (h->strategy == HOSTILE_equivocate);
    h->rate = (uint32_t)rng_range(g, RATE_MIN, RATE_MAX);
    h->peers = rng_below(g, 3) ? (uint32_t)rng_u64(g) : UINT32_MAX;
    h->kinds = rng_below(g, 2) ? (uint32_t)rng_u64(g) : UINT32_MAX;
    h->clients = (uint32_t)rng_u64(g);
    h->late_ns = rng_range(g, 1, LATE_US_MAX) * US;
    h->clock_ppm = h->strategy == HOSTILE_panic ? rng_range(g, 2, FAST_MAX) * 1000000 : 1000000;
    h->until_ns = now + rng_range(g, STRETCH_US_MIN, STRETCH_US_MAX) * US;
}

static void open_one(struct hostiles *all, uint32_t rank)
{
    struct hostile *h = calloc(1, sizeof(*h));
    CHECK(h != NULL);
    h->all = all;
    h->rank = rank;
    all->of[rank] = h;
    draw_lies(h);
}

static void draw_sides(struct hostiles *all)
{
    all->side = (uint32_t)rng_u64(&all->rng);
}

struct hostiles *hostiles_open(const struct hostiles_options *o)
{
    struct hostiles *all = calloc(1, sizeof(*all));
    CHECK(all != NULL && o->members <= HOSTILE_MEMBERS_MAX);
    all->opt = *o;
    memcpy(all->nodes, o->nodes, o->members * sizeof(*o->nodes));
    rng_init(&all->rng, o->seed);
    draw_sides(all);
    for (uint32_t p = 0; p < o->members; p++)
        if (o->lies[p])
            open_one(all, p);
    sim_on_read(o->sim, on_read, all);
    sim_on_take(o->sim, on_take, all);
    return all;
}

void hostiles_close(struct hostiles *all)
{
    for (uint32_t p = 0; p < all->opt.members; p++) {
        if (all->of[p] == NULL)
            continue;
        hostile_end(all->of[p]);
        free(all->of[p]);
    }
    free(all);
}

void hostiles_calm(struct hostiles *all)
{
    all->calm = true;
}

struct hostile_figures hostiles_figures(const struct hostiles *all)
{
    return all->figures;
}

struct hostile *hostile_of(const struct hostiles *all, uint32_t rank)
{
    return all->of[rank];
}

void hostile_begin(struct hostile *h, struct mem *m)
{
    h->mem = m;
    h->ops = m->ops;
    h->table = *m->ops;
    h->table.put = lie_put;
    h->table.set = lie_set;
    h->table.take = lie_take;
    h->table.region_open = lie_region_open;
    m->ops = &h->table;
    h->regions = 0;
    h->twin = 0;
    memset(h->flow, 0, sizeof(h->flow));
    h->clock_ns = h->clock_at_ns = sim_now(h->all->opt.sim);
    for (uint32_t p = 0; p < HOSTILE_OTHERS_MAX; p++)
        h->flow[p].owner = UINT32_MAX;
}

static void forget(struct hostile_write *w)
{
    free(w->data);
    *w = (struct hostile_write){0};
}

void hostile_end(struct hostile *h)
{
    if (h->mem)
        h->mem->ops = h->ops;
    h->mem = NULL;
    hostile_rows_free(h);
    for (uint32_t i = 0; i < h->laters; i++)
        forget(&h->later[i]);
    for (uint32_t i = 0; i < HOSTILE_PAST_MAX; i++)
        forget(&h->past[i]);
    h->laters = 0;
    h->pasts = 0;
}

/* ---- steps ---- */

uint32_t hostile_twins(const struct hostile *h)
{
    return h->all->opt.strategy == HOSTILE_equivocate ? HOSTILE_TWINS : 1;
}

void hostile_turn(struct hostile *h, uint32_t twin)
{
    h->twin = twin;
}

uint64_t hostile_clock_ns(struct hostile *h, uint64_t now_ns)
{
    h->clock_ns += (now_ns - h->clock_at_ns) * h->clock_ppm / 1000000;
    h->clock_at_ns = now_ns;
    return h->clock_ns;
}

static void write_later(struct hostile *h)
{
    uint64_t now = sim_now(h->all->opt.sim);
    uint32_t left = 0;
    for (uint32_t i = 0; i < h->laters; i++) {
        struct hostile_write *w = &h->later[i];
        if (w->due_ns <= now) {
            write_own(h, w);
            forget(w);
        } else
            h->later[left++] = *w;
    }
    h->laters = left;
}

/* What one member writes to another is late for a while. */
static void hold_up_way(struct hostiles *all)
{
    struct rng *g = &all->rng;
    uint64_t now = sim_now(all->opt.sim);
    if (all->calm || now < all->way_until_ns || rng_below(g, WAY_IN))
        return;
    if (all->way_until_ns)
        sim_slow(all->opt.sim, all->way_from, all->way_to, 0);
    all->way_from = all->nodes[rng_below(g, all->opt.members)];
    all->way_to = all->nodes[rng_below(g, all->opt.members)];
    all->way_until_ns = now + rng_below(g, WAY_US_MAX * US);
    if (all->way_from != all->way_to)
        sim_slow(all->opt.sim, all->way_from, all->way_to, rng_below(g, WAY_US_MAX * US));
}

void hostile_step(struct hostile *h)
{
    if (h->mem == NULL)
        return;
    hold_up_way(h->all);
    if (sim_now(h->all->opt.sim) >= h->until_ns)
        draw_lies(h);
    if (hostile_draw(h, 5))
        draw_sides(h->all);
    write_later(h);
}
