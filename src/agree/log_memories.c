/* What a replica has to do with members that are only memory: what it shows and reads there, and how a leader takes one
 * back that has lost what it had.
 *
 * A memory says which life it is in, once in each (agree/memory.h), and nothing else. With each heartbeat every replica
 * writes its row there and reads the others': two replicas whose link is cut hear each other through a memory that both
 * reach, and that it answers is its sign of life. All of this is for the oracle; no promise rests on it but one: a life
 * that was read there is one that has been. */
#include "agree/log_impl.h"
#include "agree/memory_keep.h"

#include <stdlib.h>

/* ---- opening ---- */

static struct mem_lane_spec row_spec(const struct log *l, uint32_t owner, uint32_t writer)
{
    const uint32_t *node = l->opt.nodes;
    struct mem_lane_spec spec = lane_spec(l->opt.region, node[owner], node[writer], LANE_ROW, 0);
    spec.ctl_words = ROW_WORDS;
    return spec;
}

int memories_open(struct log *l, struct err *e)
{
    l->memory = calloc(l->all - l->n, sizeof(*l->memory));
    if (l->memory == NULL)
        return err_set(e, ERR_NOMEM, "log: no memory for %u memories", l->all - l->n);
    int rc = 0;
    for (uint32_t q = l->n; rc == 0 && q < l->all; q++) {
        struct memory_view *v = &l->memory[q - l->n];
        struct mem_lane_spec specs[LOG_REPLICAS_MAX + 3];
        struct mem_lane *lanes[LOG_REPLICAS_MAX + 3] = {NULL};
        for (uint32_t w = 0; w < l->n; w++)
            specs[w] = row_spec(l, q, w);
        specs[l->n] = row_spec(l, q, q);
        specs[l->n + 1] = row_spec(l, l->me, q);
        specs[l->n + 2] = memory_log_spec(&l->opt, l->opt.nodes[q], l->opt.nodes[q]);
        rc = mem_lanes_open(l->mem, specs, l->n + (log_kept(l) ? 3 : 1), lanes, e);
        for (uint32_t w = 0; rc == 0 && w < l->n; w++)
            v->in[w] = lanes[w];
        if (rc != 0)
            break;
        v->out = lanes[l->me];
        v->own = lanes[l->n];
        v->told = lanes[l->n + 1];
        l->lane[q][l->n] = lanes[l->n + 2];
        mem_flow_open(l->mem, &v->flow, l->opt.nodes[q], l->opt.region, 0);
    }
    return rc;
}

void memories_close(struct log *l)
{
    free(l->memory);
}

/* ---- rows ---- */

void memories_tell(struct log *l)
{
    for (uint32_t q = l->n; q < l->all; q++) {
        struct memory_view *v = &l->memory[q - l->n];
        if (v->flow.status == MEM_LOST)
            mem_flow_open(l->mem, &v->flow, l->opt.nodes[q], l->opt.region, 0);
        mem_set(l->mem, &v->flow, v->out, 0, l->rows->row, ROW_WORDS);
    }
}

/* All answers of one memory are there, or it is known that they will not come. */
static void settle(struct log *l, struct memory_view *v)
{
    bool whole = true;
    for (uint32_t w = 0; w < l->n; w++) {
        if (v->op[w].status == MEM_PENDING)
            return;
        whole = whole && v->op[w].status == MEM_DONE;
    }
    v->asked = false;
    if (!whole)
        return;
    memcpy(v->row, v->read, sizeof(v->row));
    v->answers++;
}

void memories_ask(struct log *l)
{
    for (uint32_t q = l->n; q < l->all; q++) {
        struct memory_view *v = &l->memory[q - l->n];
        if (v->asked)
            settle(l, v);
        if (v->asked)
            continue;
        v->asked = true;
        for (uint32_t w = 0; w < l->n; w++)
            mem_read_ctl(l->mem, &v->op[w], w == l->me ? v->own : v->in[w], 0, ROW_WORDS,
                         v->read[w]);
    }
}

/* Is what a memory has of a replica's row later than what we have? */
static bool is_later(const uint64_t *row, uint64_t life, uint64_t beat)
{
    return row[ROW_LIFE] > life || (row[ROW_LIFE] == life && row[ROW_BEAT] > beat);
}

/* Whatever moves is a sign of life, and the latest row counts. */
static void view_through(const struct log *l, uint32_t rank, struct oracle_view *view)
{
    uint64_t life = table_get(l->rows, rank, ROW_LIFE), beat = view->beat;
    for (uint32_t q = l->n; q < l->all; q++) {
        const uint64_t *row = l->memory[q - l->n].row[rank];
        view->beat += row[ROW_BEAT];
        if (!is_later(row, life, beat))
            continue;
        life = row[ROW_LIFE];
        beat = row[ROW_BEAT];
        view->ballot = row[ROW_BALLOT];
        view->backs = row[ROW_BACKS];
        view->busy = row[ROW_BUSY] != 0;
    }
}

void memories_view(struct log *l, struct oracle_view *view)
{
    for (uint32_t r = 0; r < l->n; r++)
        if (r != l->me)
            view_through(l, r, &view[r]);
    for (uint32_t q = l->n; q < l->all; q++) {
        struct memory_view *v = &l->memory[q - l->n];
        if (v->asked)
            settle(l, v);
        view[q] = (struct oracle_view){.beat = v->answers};
    }
}

uint64_t memories_promise(const struct log *l, const struct oracle_view *view, uint64_t promised)
{
    for (uint32_t r = 0; r < l->n; r++)
        if (r != l->me && !view[r].dead && !oracle_silent(&l->oracle, r, l->now_ns) &&
            view[r].ballot % l->n == r)
            promised = max_u64(promised, view[r].ballot);
    return promised;
}

uint64_t memories_ballot(const struct log *l)
{
    uint64_t highest = 0;
    for (uint32_t q = l->n; q < l->all; q++)
        for (uint32_t r = 0; r < l->n; r++)
            if (r != l->me)
                highest = max_u64(highest, l->memory[q - l->n].row[r][ROW_BALLOT]);
    return highest;
}

uint64_t member_life(const struct log *l, uint32_t rank)
{
    return is_memory(l, rank) ? l->memory[rank - l->n].row[l->me][ROW_LIFE]
                              : table_get(l->rows, rank, ROW_LIFE);
}

/* ---- coming back ---- */

/* Where logs are kept most come back with what their disk has, and open themselves. */
static bool is_blank(const struct log *l, uint32_t rank)
{
    return l->memory[rank - l->n].row[l->me][ROW_FLAGS] & ROW_JOINING;
}

/* First its return is committed, on a quorum that cannot include it, and applied here; then it is opened, in the life that
 * was named, and is a late follower. A later leader that counts with a promise of its earlier life finds the JOIN. */
bool memory_take_back(struct log *l, uint32_t rank)
{
    const uint64_t life = member_life(l, rank);
    if (life == 0 || !log_leading(l) || (log_kept(l) && !is_blank(l, rank)))
        return false;
    if (l->joined[rank] + 1 == life || PLANTED(grant_early)) {
        mem_grant(l->mem, &l->peer[rank].op, l->opt.nodes[rank], l->opt.region, (uint32_t)life - 1,
                  l->ballot);
        return true;
    }
    if (l->serving && l->state == UNIT_LEADER && l->join_asked[rank] != life) {
        struct entry_join j = {.rank = rank, .life = (uint32_t)life - 1};
        if (lead_propose(l, ENTRY_JOIN, &j, sizeof(j)))
            l->join_asked[rank] = (uint32_t)life;
    }
    return false;
}

/* ---- where our lane begins there ---- */

/* As far back as our own lane surely goes; where the ring has moved on since, as far as any replica with a state has
 * applied that could still be written to, and whoever a state was sent to. */
uint64_t memory_start(const struct log *l)
{
    uint64_t start = l->applied, own = keep_stands_to(l);
    if (PLANTED(memory_from_applied))
        return start;
    if (own + l->opt.log_bytes >= l->tail + l->put_max)
        start = own;
    for (uint32_t q = 0; q < l->n; q++) {
        uint64_t hold = l->peer[q].hold;
        uint64_t applied = table_get(l->rows, q, ROW_APPLIED);
        if (hold >= l->base)
            start = min_u64(start, hold);
        if (q != l->me && row_has_state(l, q) && applied >= l->base &&
            applied + l->opt.log_bytes >= l->tail + l->put_max)
            start = min_u64(start, applied);
    }
    bool has_base = l->base + l->opt.log_bytes >= l->tail + l->put_max;
    return has_base ? min_u64(start, l->base) : start;
}

bool memory_begins_beyond(const struct log *l, uint64_t pos)
{
    for (uint32_t q = l->n; q < l->all && !PLANTED(memory_from_applied); q++)
        if (l->peer[q].phase == PEER_LIVE && l->peer[q].start > pos)
            return true;
    return false;
}

/* A memory's lane may begin beyond what it is to have: for a replica that was not written to when it began. */
uint64_t memory_meets_at(const struct log *l, uint32_t rank, uint64_t from)
{
    return is_memory(l, rank) ? max_u64(from, l->peer[rank].head[l->me][LOG_START]) : from;
}

void memory_reach_back(struct log *l, uint32_t rank, uint64_t from)
{
    struct peer *p = &l->peer[rank];
    struct mem_lane *lane = l->lane[rank][l->me];
    if (!is_memory(l, rank) || from >= p->start)
        return;
    for (uint64_t pos = from, end; pos < p->start; pos = end) {
        end = lead_copy(l, NULL, pos, p->start);
        if (end == pos)
            return;
        mem_put(l->mem, &p->flow, lane, pos, l->batch, (uint32_t)(end - pos));
    }
    mem_set1(l->mem, &p->flow, lane, LOG_START, from);
    p->start = from;
}
