#include "group/schedule.h"

#include "base/err.h"
#include "base/minmax.h"

#include <stdbool.h>
#include <string.h>

static const struct rdmc_move nothing = {RDMC_NONE, RDMC_NONE, RDMC_NONE, RDMC_NONE};

static uint32_t log2_floor(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

static uint32_t log2_ceil(uint32_t n)
{
    return n > 1 ? log2_floor(n - 1) + 1 : 0;
}

/* ---- sequential, chain, tree ---- */

static struct rdmc_move sequential_next(uint32_t n, uint32_t k, uint32_t rank, uint64_t step)
{
    struct rdmc_move m = nothing;
    uint64_t to = step / k + 1;
    uint32_t block = (uint32_t)(step % k);
    if (to >= n)
        return m;
    if (rank == 0) {
        m.to = (uint32_t)to;
        m.sends = block;
    } else if (rank == to) {
        m.from = 0;
        m.takes = block;
    }
    return m;
}

static struct rdmc_move chain_next(uint32_t n, uint32_t k, uint32_t rank, uint64_t step)
{
    struct rdmc_move m = nothing;
    if (rank + 1 < n && step >= rank && step - rank < k) {
        m.to = rank + 1;
        m.sends = (uint32_t)(step - rank);
    }
    if (rank > 0 && step + 1 >= rank && step + 1 - rank < k) {
        m.from = rank - 1;
        m.takes = (uint32_t)(step + 1 - rank);
    }
    return m;
}

static struct rdmc_move tree_next(uint32_t n, uint32_t k, uint32_t rank, uint64_t step)
{
    struct rdmc_move m = nothing;
    if (step / k >= log2_ceil(n))
        return m;
    uint32_t have = 1U << step / k, block = (uint32_t)(step % k); /* ranks that have all */
    if (rank < have && rank + have < n) {
        m.to = rank + have;
        m.sends = block;
    } else if (rank >= have && rank < 2 * have) {
        m.from = rank - have;
        m.takes = block;
    }
    return m;
}

/* ---- pipeline ----
 *
 * Members are the vertices of a cube of l dimensions, l = floor(log2 n). In step j all send along dimension j mod l. Block j leaves rank 0 in
 * step j, and twice as many have it after each step, so that all have it after l steps; other blocks follow in the same way, a
 * step later each, and no vertex has to send two of them at once.
 *
 * If n is no power of two the members that are left share vertices with ranks 1, 2, ...: rank v + 2^l - 1 that of rank v. Of such a pair
 * one sends and the other takes what the cube says; who takes also sends to the other a block that it lacks. Who is which follows from
 * what each of them has, and that from all steps before. */

struct cube {
    uint32_t dimensions, vertices, members, blocks;
};

static struct cube cube_of(uint32_t n, uint32_t k)
{
    uint32_t l = log2_floor(n);
    return (struct cube){.dimensions = l, .vertices = 1U << l, .members = n, .blocks = k};
}

static uint32_t across(const struct cube *c, uint32_t vertex, uint64_t step)
{
    return vertex ^ 1U << step % c->dimensions;
}

/* The block that the vertex sends in the step. What would go back to rank 0 is not sent. */
static uint32_t vertex_sends(const struct cube *c, uint32_t vertex, uint64_t step)
{
    const uint32_t l = c->dimensions, by = (uint32_t)(step % l);
    if (vertex == 0)
        return (uint32_t)min_u64(step, c->blocks - 1);
    uint32_t turned = (vertex >> by | vertex << (l - by)) & (c->vertices - 1);
    uint64_t ahead = step + (uint32_t)__builtin_ctz(turned);
    if (turned == 1 || ahead < l)
        return RDMC_NONE;
    return (uint32_t)min_u64(ahead - l, c->blocks - 1);
}

static uint32_t vertex_takes(const struct cube *c, uint32_t vertex, uint64_t step)
{
    return vertex == 0 ? RDMC_NONE : vertex_sends(c, across(c, vertex, step), step);
}

enum { SET_WORDS = RDMC_BLOCKS_MAX / 64 };

/* One vertex before some step: which blocks each of its members has. */
struct vertex {
    uint32_t number;
    uint32_t member[2], members;
    uint64_t has[2][SET_WORDS];
    uint32_t only[2]; /* blocks that the other has not */
};

/* What its members do in a step, as indices of them. */
struct roles {
    uint32_t sender, taker;
    uint32_t out, in;       /* blocks between vertices */
    uint32_t across, again; /* within: from the taker to the sender; from the sender to the taker */
};

static bool has(const struct vertex *v, uint32_t member, uint32_t block)
{
    return v->has[member][block / 64] >> block % 64 & 1;
}

static void add(struct vertex *v, uint32_t member, uint32_t block)
{
    CHECK(!has(v, member, block));
    v->has[member][block / 64] |= UINT64_C(1) << block % 64;
    if (has(v, 1 - member, block))
        v->only[1 - member]--;
    else
        v->only[member]++;
}

/* The lowest block that the one has and the other lacks. */
static uint32_t lowest_only(const struct vertex *v, uint32_t member)
{
    for (uint32_t w = 0; v->only[member] > 0 && w < SET_WORDS; w++) {
        uint64_t only = v->has[member][w] & ~v->has[1 - member][w];
        if (only)
            return 64 * w + (uint32_t)__builtin_ctzll(only);
    }
    return RDMC_NONE;
}

/* The better, the higher: it has what is to be sent, the other lacks what comes, and has much that it lacks. */
static uint64_t worth_as_sender(const struct vertex *v, uint32_t member, const struct roles *r)
{
    bool can = r->out == RDMC_NONE || has(v, member, r->out);
    bool gains = r->in != RDMC_NONE && !has(v, 1 - member, r->in);
    return (uint64_t)can << 33 | (uint64_t)gains << 32 | v->only[1 - member];
}

static struct roles roles_in(const struct cube *c, const struct vertex *v, uint64_t step)
{
    struct roles r = {.out = vertex_sends(c, v->number, step),
                      .in = vertex_takes(c, v->number, step),
                      .across = RDMC_NONE,
                      .again = RDMC_NONE};
    if (v->members == 2) {
        r.sender = worth_as_sender(v, 1, &r) > worth_as_sender(v, 0, &r);
        r.taker = 1 - r.sender;
        r.across = lowest_only(v, r.taker);
        if (r.out == RDMC_NONE && r.in == RDMC_NONE)
            r.again = lowest_only(v, r.sender);
    }
    if (r.in != RDMC_NONE && has(v, r.taker, r.in))
        r.in = RDMC_NONE;
    return r;
}

static void vertex_step(struct vertex *v, const struct roles *r)
{
    if (r->in != RDMC_NONE)
        add(v, r->taker, r->in);
    if (r->across != RDMC_NONE)
        add(v, r->sender, r->across);
    if (r->again != RDMC_NONE)
        add(v, r->taker, r->again);
}

/* The vertex as it is before the step. Rank 0 has everything. */
static void vertex_at(const struct cube *c, uint32_t number, uint64_t step, struct vertex *v)
{
    uint32_t second = number + c->vertices - 1;
    bool pair = number > 0 && second < c->members;
    memset(v, 0, sizeof(*v));
    v->number = number;
    v->member[0] = number;
    v->member[1] = pair ? second : RDMC_NONE;
    v->members = 1 + pair;
    if (number == 0)
        memset(v->has[0], 0xff, sizeof(v->has[0]));
    for (uint64_t at = 0; number > 0 && at < step; at++) {
        struct roles r = roles_in(c, v, at);
        vertex_step(v, &r);
    }
}

/* Of what goes between vertices, this member's part. Both sides are looked at: what the taker has already is not sent. */
static void between(const struct cube *c, const struct vertex *v, const struct roles *r,
                    uint32_t member, uint64_t step, struct rdmc_move *m)
{
    struct vertex other;
    bool sends = r->out != RDMC_NONE && member == r->sender && across(c, v->number, step) != 0;
    bool takes = r->in != RDMC_NONE && member == r->taker;
    if (!sends && !takes)
        return;
    vertex_at(c, across(c, v->number, step), step, &other);
    struct roles o = roles_in(c, &other, step);
    if (sends && o.in != RDMC_NONE) {
        m->to = other.member[o.taker];
        m->sends = r->out;
    }
    if (takes) {
        m->from = other.member[o.sender];
        m->takes = r->in;
    }
}

/* Of what goes within a pair. */
static void within(const struct vertex *v, const struct roles *r, uint32_t member,
                   struct rdmc_move *m)
{
    uint32_t sends = member == r->taker ? r->across : r->again;
    uint32_t takes = member == r->taker ? r->again : r->across;
    if (sends != RDMC_NONE) {
        m->to = v->member[1 - member];
        m->sends = sends;
    }
    if (takes != RDMC_NONE) {
        m->from = v->member[1 - member];
        m->takes = takes;
    }
}

static uint64_t pipeline_steps(uint32_t n, uint32_t k)
{
    return n == 1 ? 0 : log2_ceil(n) + (uint64_t)k - 1 + ((n & (n - 1)) != 0);
}

static struct rdmc_move pipeline_next(uint32_t n, uint32_t k, uint32_t rank, uint64_t step)
{
    struct rdmc_move m = nothing;
    struct vertex v;
    if (step >= pipeline_steps(n, k))
        return m;
    struct cube c = cube_of(n, k);
    uint32_t member = rank >= c.vertices;
    vertex_at(&c, member ? rank - c.vertices + 1 : rank, step, &v);
    struct roles r = roles_in(&c, &v, step);
    between(&c, &v, &r, member, step, &m);
    if (v.members == 2)
        within(&v, &r, member, &m);
    return m;
}

/* ---- racks ----
 *
 * The lowest rank of each rack is its head. Even steps are those of a pipeline over the heads, odd ones those of a pipeline in each rack,
 * which begins so late that its head has each block when it is to send it. */

static bool is_head(const uint8_t *rack, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (rack[i] == rack[rank])
            return false;
    return true;
}

/* Ranks of one of the pipelines, in order; the place of `rank` among them, or RDMC_NONE. */
struct rank_list {
    uint32_t rank[RDMC_MEMBERS_MAX], count, place;
};

static struct rank_list pick(const struct rdmc_plan *p, uint32_t rank, bool heads)
{
    struct rank_list l = {.place = RDMC_NONE};
    for (uint32_t i = 0; i < p->members; i++) {
        if (heads ? !is_head(p->rack, i) : p->rack[i] != p->rack[rank])
            continue;
        if (i == rank)
            l.place = l.count;
        l.rank[l.count++] = i;
    }
    return l;
}

/* Steps after which the heads have a block, counted from that in which it leaves rank 0. */
static uint64_t heads_behind(uint32_t heads, uint32_t k)
{
    return heads == 1 ? 0 : pipeline_steps(heads, k) - k + 1;
}

static uint64_t racks_steps(const struct rdmc_plan *p)
{
    uint32_t heads = pick(p, 0, true).count;
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->members; i++)
        most = max_u64(most, pipeline_steps(pick(p, i, false).count, p->blocks));
    uint64_t inside = most > 0 ? 2 * (most + heads_behind(heads, p->blocks)) : 0;
    return max_u64(inside, heads > 1 ? 2 * pipeline_steps(heads, p->blocks) - 1 : 0);
}

static struct rdmc_move racks_next(const struct rdmc_plan *p, uint32_t rank, uint64_t step)
{
    bool outside = step % 2 == 0;
    uint64_t at = step / 2, behind = heads_behind(pick(p, rank, true).count, p->blocks);
    struct rank_list l = pick(p, rank, outside);
    if (l.place == RDMC_NONE || (!outside && at < behind))
        return nothing;
    struct rdmc_move m = pipeline_next(l.count, p->blocks, l.place, outside ? at : at - behind);
    m.to = m.to == RDMC_NONE ? RDMC_NONE : l.rank[m.to];
    m.from = m.from == RDMC_NONE ? RDMC_NONE : l.rank[m.from];
    return m;
}

/* ---- */

static void check(const struct rdmc_plan *p)
{
    CHECK(p->members >= 1 && p->members <= RDMC_MEMBERS_MAX);
    CHECK(p->blocks >= 1 && p->blocks <= RDMC_BLOCKS_MAX);
    CHECK(p->schedule != RDMC_RACKS || p->rack);
}

uint64_t rdmc_steps(const struct rdmc_plan *p)
{
    uint32_t n = p->members, k = p->blocks;
    check(p);
    switch (p->schedule) {
    case RDMC_AUTO:
        break;
    case RDMC_SEQUENTIAL:
        return (uint64_t)(n - 1) * k;
    case RDMC_CHAIN:
        return n > 1 ? (uint64_t)n - 2 + k : 0;
    case RDMC_TREE:
        return (uint64_t)log2_ceil(n) * k;
    case RDMC_PIPELINE:
        return pipeline_steps(n, k);
    case RDMC_RACKS:
        return racks_steps(p);
    }
    CHECK(!"a schedule");
    return 0;
}

struct rdmc_move rdmc_next(const struct rdmc_plan *p, uint32_t rank, uint64_t step)
{
    uint32_t n = p->members, k = p->blocks;
    check(p);
    CHECK(rank < n);
    switch (p->schedule) {
    case RDMC_AUTO:
        break;
    case RDMC_SEQUENTIAL:
        return sequential_next(n, k, rank, step);
    case RDMC_CHAIN:
        return chain_next(n, k, rank, step);
    case RDMC_TREE:
        return tree_next(n, k, rank, step);
    case RDMC_PIPELINE:
        return pipeline_next(n, k, rank, step);
    case RDMC_RACKS:
        return racks_next(p, rank, step);
    }
    CHECK(!"a schedule");
    return nothing;
}
