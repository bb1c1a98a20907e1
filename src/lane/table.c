#include "lane/table.h"

#include "base/lines.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static int lanes_open(struct table *t, struct err *e)
{
    const struct table_spec *s = &t->spec;
    uint32_t count = 0, self = s->nodes[s->me];
    struct mem_lane_spec *specs = calloc(2 * (size_t)s->ranks, sizeof(*specs));
    struct mem_lane **lanes = calloc(2 * (size_t)s->ranks, sizeof(struct mem_lane *));
    int rc = specs && lanes ? ERR_OK : err_set(e, ERR_NOMEM, "table: no memory for its lanes");
    for (uint32_t r = 0; rc == 0 && r < s->ranks; r++) {
        if (r == s->me)
            continue;
        specs[count] = (struct mem_lane_spec){.owner = self,
                                              .writer = s->nodes[r],
                                              .region = s->region,
                                              .kind = s->lane,
                                              .ctl_words = s->words,
                                              .common = s->common};
        specs[count + 1] = specs[count];
        specs[count + 1].owner = s->nodes[r];
        specs[count + 1].writer = self;
        count += 2;
    }
    if (rc == 0)
        rc = mem_lanes_open(t->mem, specs, count, lanes, e);
    for (uint32_t r = 0, i = 0; rc == 0 && r < s->ranks; r++)
        if (r != s->me) {
            t->in[r] = lanes[i++];
            t->peer[r].out = lanes[i++];
        }
    free(specs);
    free(lanes);
    return rc;
}

static int buffers_open(struct table *t, const struct table_spec *s, struct err *e)
{
    uint32_t *nodes = calloc(s->ranks, sizeof(*nodes));
    t->spec.nodes = nodes;
    t->spec.kind = NULL;
    t->peer = calloc(s->ranks, sizeof(*t->peer));
    if (!nodes || !t->peer)
        return err_set(e, ERR_NOMEM, "table: no memory for %u rows", s->ranks);
    memcpy(nodes, s->nodes, s->ranks * sizeof(*nodes));
    for (uint32_t i = 0; s->kind && i < s->words; i++)
        t->rises |= (uint64_t)(s->kind[i] == TABLE_RISES) << i;
    t->own.ctl = (_Atomic uint64_t *)(void *)t->row;
    t->in[s->me] = &t->own;
    return 0;
}

int table_open(struct mem *mem, const struct table_spec *s, struct table **out, struct err *e)
{
    CHECK(s->words > 0 && s->words <= TABLE_WORDS_MAX && s->me < s->ranks &&
          s->nodes[s->me] == mem->self);
    struct table *t = lines_alloc(sizeof(*t) + s->ranks * sizeof(struct mem_lane *));
    if (t == NULL)
        return err_set(e, ERR_NOMEM, "table: no memory for %u rows", s->ranks);
    t->mem = mem;
    t->spec = *s;
    t->to = TABLE_ALL;
    int rc = buffers_open(t, s, e);
    if (rc == 0)
        rc = lanes_open(t, e);
    if (rc != 0) {
        table_close(t);
        return rc;
    }
    for (uint32_t r = 0; r < s->ranks; r++)
        mem_flow_open(mem, &t->peer[r].flow, s->nodes[r], s->region, 0);
    *out = t;
    return 0;
}

void table_close(struct table *t)
{
    if (t == NULL)
        return;
    uint32_t *nodes;
    memcpy(&nodes, &t->spec.nodes, sizeof(nodes));
    free(nodes);
    free(t->peer);
    free(t);
}

void table_end_close(struct table *t)
{
    for (uint32_t r = 0; r < t->spec.ranks; r++) {
        struct mem_lane *lanes[] = {t->in[r], t->peer[r].out};
        mem_flow_close(t->mem, &t->peer[r].flow);
        if (r != t->spec.me)
            mem_lanes_end(t->mem, lanes, 2);
    }
    table_close(t);
}

/* ---- pushing ---- */

static void reopen_if_lost(struct table *t, uint32_t rank)
{
    struct table_peer *p = &t->peer[rank];
    if (p->flow.status != MEM_LOST)
        return;
    p->losses++;
    p->whole = true;
    mem_flow_open(t->mem, &p->flow, t->spec.nodes[rank], t->spec.region, 0);
}

static void write_words(struct table *t, uint32_t rank, uint32_t first, uint32_t count)
{
    struct table_peer *p = &t->peer[rank];
    mem_set(t->mem, &p->flow, p->out, first, &t->row[first], count);
}

static void write_row(struct table *t, uint32_t rank)
{
    write_words(t, rank, 0, t->spec.words);
    t->peer[rank].whole = false;
}

static void write_dirty(struct table *t, uint32_t rank)
{
    for (uint32_t first = 0, end; first < t->spec.words; first = end + 1) {
        for (end = first; end < t->spec.words && t->dirty >> end & 1; end++)
            ;
        if (end > first)
            write_words(t, rank, first, end - first);
    }
}

static bool is_among(const struct table *t, uint64_t ranks, uint32_t rank)
{
    return rank < t->spec.ranks && (ranks == TABLE_ALL || (rank < 64 && ranks >> rank & 1));
}

/* What was set goes into the copy that all others' rows are made of, or are. */
static void store_dirty(struct table *t)
{
    const struct mem_lane *copy = t->spec.ranks > 1 ? t->peer[t->spec.me == 0].out : NULL;
    for (uint64_t rest = copy ? t->dirty : 0; rest; rest &= rest - 1) {
        uint32_t word = (uint32_t)__builtin_ctzll(rest);
        mem_store(copy, word, t->row[word]);
    }
}

static void push(struct table *t, bool all)
{
    if (t->spec.common)
        store_dirty(t);
    bool sends = !(t->spec.common && t->mem->shared);
    for (uint32_t r = 0; sends && r < t->spec.ranks; r++) {
        if (r == t->spec.me || !is_among(t, t->to, r))
            continue;
        reopen_if_lost(t, r);
        if (all || t->peer[r].whole)
            write_row(t, r);
        else
            write_dirty(t, r);
    }
    t->dirty = 0;
}

void table_send_to(struct table *t, uint64_t ranks)
{
    for (uint32_t r = 0; r < t->spec.ranks; r++)
        t->peer[r].whole |= is_among(t, ranks, r) && !is_among(t, t->to, r);
    t->to = ranks;
}

bool table_next(struct table *t, uint32_t rank)
{
    return rank != t->spec.me && mem_lane_next(t->mem, t->in[rank]);
}

void table_push(struct table *t)
{
    push(t, false);
}

void table_push_row(struct table *t)
{
    push(t, true);
}

void table_tell(struct table *t, uint32_t rank, uint32_t word)
{
    table_tell_words(t, rank, word, 1);
}

void table_tell_words(struct table *t, uint32_t rank, uint32_t first, uint32_t count)
{
    if (t->spec.common)
        store_dirty(t);
    reopen_if_lost(t, rank);
    write_words(t, rank, first, count);
}

void table_mark(struct table *t)
{
    for (uint32_t r = 0; r < t->spec.ranks; r++)
        mem_mark(t->mem, &t->peer[r].flow, ++t->marks);
}

/* ---- reducers ---- */

uint64_t table_min(const struct table *t, uint32_t word, uint64_t ranks)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < t->spec.ranks; r++)
        if (is_among(t, ranks, r) && table_get(t, r, word) < least)
            least = table_get(t, r, word);
    return least;
}

uint64_t table_max(const struct table *t, uint32_t word, uint64_t ranks)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < t->spec.ranks; r++)
        if (is_among(t, ranks, r) && table_get(t, r, word) > most)
            most = table_get(t, r, word);
    return most;
}

uint32_t table_count(const struct table *t, uint32_t word, uint64_t ranks, uint64_t bits)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < t->spec.ranks; r++)
        count += is_among(t, ranks, r) && (table_get(t, r, word) & bits) != 0;
    return count;
}

/* ---- predicates ---- */

int table_when(struct table *t, struct table_predicate p)
{
    if (t->predicates == TABLE_PREDICATES_MAX)
        return ERR_TOOBIG;
    p.was = false;
    t->predicate[t->predicates++] = p;
    return 0;
}

/* True if it is to be removed. */
static bool predicate_step(struct table *t, struct table_predicate *p, int *acted)
{
    bool now = p->test(t, p->ctx), acts = now && !(p->when == TABLE_EDGE && p->was);
    p->was = now;
    if (!acts)
        return false;
    p->act(t, p->ctx);
    ++*acted;
    return p->when == TABLE_ONCE;
}

int table_step(struct table *t)
{
    int acted = 0;
    uint32_t kept = 0, count = t->predicates;
    for (uint32_t i = 0; i < t->predicates; i++) {
        struct table_predicate p = t->predicate[i];
        /* One that an act has added is tested in the next step. */
        bool gone = i < count && predicate_step(t, &p, &acted);
        if (!gone)
            t->predicate[kept++] = p;
    }
    t->predicates = kept;
    return acted;
}
