/* Opening and closing a log: its options and their limits, its buffers, its lanes. */
#include "agree/log_impl.h"

#include "base/lines.h"

#include <stdlib.h>

enum {
    LOG_BYTES_MAX = 1 << 30,
    SNAP_BYTES_DEFAULT = 64 << 10,
    BACKLOG_RING_DEFAULT = 256 << 20,
    SOURCES_MAX =
        SOURCE_LOG - 1, /* the last number but one: a source that there is not has a number too */
    LOOKS_PER_HEARTBEAT = 16, /* at what changes rarely and nobody waits for */
};

/* ---- options ---- */

static int bad_option(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "log: %s", what);
}

static bool ring_size_ok(uint32_t bytes)
{
    return bytes >= MEM_PAGE_BYTES && bytes <= LOG_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

/* Who the replicas are, and how many sources there may be. */
static int members_check(const struct log_options *o, struct err *e)
{
    if (o->replicas == 0 || o->replicas > LOG_REPLICAS_MAX)
        return err_set(e, ERR_INVALID, "log: %u replicas; a group has 1 to %d", o->replicas,
                       LOG_REPLICAS_MAX);
    if (o->rank >= o->replicas)
        return err_set(e, ERR_INVALID, "log: rank %u of %u replicas; ranks are 0 to %u", o->rank,
                       o->replicas, o->replicas - 1);
    for (uint32_t q = 1; q < o->replicas; q++)
        for (uint32_t p = 0; p < q; p++)
            if (o->nodes[p] == o->nodes[q])
                return err_set(
                    e, ERR_INVALID,
                    "log: replicas %u and %u are both on node %u; one of a group on each", p, q,
                    o->nodes[q]);
    if (o->memories > LOG_MEMORIES_MAX)
        return err_set(e, ERR_INVALID, "log: %u memories; a group has 0 to %d", o->memories,
                       LOG_MEMORIES_MAX);
    for (uint32_t i = 0; i < o->memories; i++)
        for (uint32_t q = 0; q < o->replicas + i; q++)
            if (o->memory_nodes[i] ==
                (q < o->replicas ? o->nodes[q] : o->memory_nodes[q - o->replicas]))
                return err_set(e, ERR_INVALID,
                               "log: node %u is a memory, and has another part of the group; one "
                               "part on each",
                               o->memory_nodes[i]);
    if ((uint64_t)o->sources + o->streams > SOURCES_MAX)
        return err_set(e, ERR_INVALID, "log: %u sources and %u streams; at most %d together",
                       o->sources, o->streams, SOURCES_MAX);
    if (o->nodes[o->rank] != o->mem->self)
        return err_set(e, ERR_INVALID, "log: replica %u is on node %u, this is node %u", o->rank,
                       o->nodes[o->rank], o->mem->self);
    return 0;
}

static int streams_check(const struct log_options *o, struct err *e)
{
    for (uint32_t i = 0; i < o->streams; i++) {
        uint32_t ring_bytes = o->stream[i].ring_bytes;
        if (o->stream[i].writers > LOG_REPLICAS_MAX)
            return err_set(e, ERR_INVALID, "log: stream %u has %u writers; at most %d", i,
                           o->stream[i].writers, LOG_REPLICAS_MAX);
        if (ring_bytes != 0 && !ring_size_ok(ring_bytes))
            return bad_option(e, "ring sizes are powers of two from 4096 to 2^30");
    }
    return 0;
}

int log_sizes_settle(struct log_options *o, struct err *e)
{
    o->log_bytes = o->log_bytes ? o->log_bytes : LOG_RING_DEFAULT;
    o->source_bytes = o->source_bytes ? o->source_bytes : SOURCE_BYTES_DEFAULT;
    o->snap_bytes = o->snap_bytes ? o->snap_bytes : SNAP_BYTES_DEFAULT;
    o->backlog_bytes = o->backlog_bytes ? o->backlog_bytes : BACKLOG_RING_DEFAULT;
    if (!ring_size_ok(o->log_bytes) || !ring_size_ok(o->source_bytes) ||
        !ring_size_ok(o->snap_bytes))
        return bad_option(e, "ring sizes are powers of two from 4096 to 2^30");
    if (o->payload_max == 0)
        o->payload_max = (uint32_t)min_u64(o->log_bytes / 16, o->source_bytes / 4);
    o->batch_bytes = o->batch_bytes ? o->batch_bytes : o->log_bytes / 16;
    o->window_bytes = o->window_bytes ? o->window_bytes : o->log_bytes / 2;
    if (entry_size(o->payload_max) > o->log_bytes / 4 || o->batch_bytes > o->log_bytes / 4)
        return bad_option(e, "payload_max and batch_bytes are at most a quarter of log_bytes");
    if (frame_size(o->payload_max) > o->source_bytes)
        return bad_option(e, "a source's ring is smaller than its largest message");
    if (o->window_bytes > o->log_bytes / 2)
        return bad_option(e, "window_bytes is at most half of log_bytes");
    if (o->window_bytes < entry_size(o->payload_max))
        return bad_option(e, "window_bytes is smaller than the largest message");
    return 0;
}

static int times_settle(struct log_options *o, struct err *e)
{
    o->heartbeat_ns = o->heartbeat_ns ? o->heartbeat_ns : 15 * UINT64_C(1000000);
    o->suspect_ns = o->suspect_ns ? o->suspect_ns : 60 * UINT64_C(1000000);
    o->stagger_ns = o->stagger_ns ? o->stagger_ns : 200 * UINT64_C(1000);
    o->detach_ns = o->detach_ns ? o->detach_ns : 50 * UINT64_C(1000000);
    if (o->suspect_ns < 2 * o->heartbeat_ns)
        return bad_option(e, "suspect_ns is at least two heartbeats");
    return 0;
}

static int options_settle(struct log_options *o, struct err *e)
{
    int rc = members_check(o, e);
    if (rc == 0)
        rc = log_sizes_settle(o, e);
    if (rc == 0)
        rc = streams_check(o, e);
    return rc == 0 ? times_settle(o, e) : rc;
}

/* ---- lanes ---- */

/* The lanes to be opened, and where their handles belong. */
struct lane_list {
    struct mem_lane_spec *spec;
    struct mem_lane ***where;
    struct mem_lane **lane;
    uint32_t count;
};

static void lane_add(struct lane_list *list, struct mem_lane **where, struct mem_lane_spec spec,
                     uint32_t ctl_words, uint32_t ring_bytes)
{
    spec.ctl_words = ctl_words;
    spec.ring_bytes = ring_bytes;
    list->spec[list->count] = spec;
    list->where[list->count++] = where;
}

/* Every lane that this replica owns, writes or reads. */
static void lanes_list(struct log *l, struct lane_list *list)
{
    const struct log_options *o = &l->opt;
    const uint32_t region = o->region, self = o->nodes[l->me], *node = o->nodes;
    for (uint32_t q = 0; q < l->all; q++)
        for (uint32_t w = 0; w < l->n; w++)
            lane_add(list, &l->lane[q][w], lane_spec(region, node[q], node[w], LANE_LOG, 0),
                     LOG_WORDS, o->log_bytes);
    for (uint32_t q = 0; q < l->n; q++) {
        if (q == l->me)
            continue;
        lane_add(list, &l->snap_in[q], lane_spec(region, self, node[q], LANE_SNAP, 0), SNAP_WORDS,
                 o->snap_bytes);
        lane_add(list, &l->snap_out[q], lane_spec(region, node[q], self, LANE_SNAP, 0), SNAP_WORDS,
                 o->snap_bytes);
    }
    for (uint32_t k = 0; k < l->opens; k++)
        for (uint32_t i = 0, s = l->open[k]; i < l->source[s].writers; i++) {
            struct source_writer *writer = &l->source[s].writer[i];
            lane_add(list, &writer->in, lane_spec(region, self, writer->node, LANE_SOURCE, s),
                     SOURCE_WORDS, l->source[s].ring_mask + 1);
            lane_add(list, &writer->ack, lane_spec(writer->region, writer->node, self, LANE_ACK, s),
                     ACK_WORDS, 0);
        }
}

/* Opens them as one call to the memory. */
static int lanes_open(struct log *l, struct err *e)
{
    size_t most = (size_t)l->all * l->n + 2 * l->n;
    for (uint32_t k = 0; k < l->opens; k++)
        most += 2 * l->source[l->open[k]].writers;
    struct lane_list list = {.spec = calloc(most, sizeof(*list.spec)),
                             .where = calloc(most, sizeof(*list.where)),
                             .lane = calloc(most, sizeof(*list.lane))};
    int rc = ERR_OK;
    if (!list.spec || !list.where || !list.lane) {
        rc = err_set(e, ERR_NOMEM, "log: no memory for %zu lanes", most);
        goto out;
    }
    lanes_list(l, &list);
    rc = mem_lanes_open(l->mem, list.spec, list.count, list.lane, e);
    for (uint32_t i = 0; rc == 0 && i < list.count; i++)
        *list.where[i] = list.lane[i];
out:
    free(list.spec);
    free(list.where);
    free(list.lane);
    return rc;
}

static int rows_open(struct log *l, struct err *e)
{
    static const enum table_kind kind[ROW_WORDS] = {
        [ROW_LIFE] = TABLE_RISES,
        [ROW_BEAT] = TABLE_RISES,
    };
    struct table_spec spec = {.kind = kind,
                              .nodes = l->opt.nodes,
                              .words = ROW_WORDS,
                              .ranks = l->n,
                              .me = l->me,
                              .region = l->opt.region,
                              .lane = LANE_ROW};
    return table_open(l->mem, &spec, &l->rows, e);
}

static void flows_begin(struct log *l)
{
    for (uint32_t k = 0; k < l->opens; k++)
        for (uint32_t i = 0; i < l->source[l->open[k]].writers; i++) {
            struct source_writer *writer = &l->source[l->open[k]].writer[i];
            mem_flow_open(l->mem, &writer->flow, writer->node, writer->region, 0);
        }
}

/* ---- opening ---- */

static void numbers_init(struct log *l, const struct log_options *o)
{
    l->opt = *o;
    l->opt.nodes = NULL; /* the caller's; buffers_open copies them, and those of memories behind */
    l->opt.memory_nodes = NULL;
    l->mem = o->mem;
    l->keep.disk = o->disk;
    l->n = o->replicas;
    l->me = o->rank;
    l->all = l->n + o->memories;
    l->voters = o->memories > 0 && !o->all_vote ? l->n : 0;
    l->quorum = (l->all - l->voters) / 2 + 1;
    l->mask = o->log_bytes - 1;
    l->entry_max = entry_size(o->payload_max);
    l->put_max = max_u64(o->batch_bytes & ~7u, l->entry_max);
    l->snap_to = l->follow = l->n;
    l->comparing = l->all;
    l->snap_head_bytes = snap_head_size(o);
    l->budget = o->budget ? o->budget : &l->own_budget;
    l->away_ns = l->budget->away_ns;
    l->look_every_ns = o->heartbeat_ns / LOOKS_PER_HEARTBEAT;
    l->applied = l->ballot_seen = o->base;
    l->sources = o->sources + o->streams;
    l->writers = o->sources;
    for (uint32_t i = 0; i < o->streams; i++)
        l->writers += o->stream[i].writers;
    for (uint32_t q = 0; q < l->all; q++)
        l->peer[q].hold = UINT64_MAX;
    oracle_init(&l->oracle, l->n, l->me, o->suspect_ns, o->stagger_ns, o->seed + l->me);
    if (has_memories(l))
        oracle_memories(&l->oracle, l->all, l->voters);
    l->oracle.remote = l->mem->remote && !o->duels;
    l->oracle.kept = log_kept(l);
    l->oracle.unmet = l->mem->remote;
}

static int buffers_open(struct log *l, const struct log_options *o, struct err *e)
{
    uint32_t *nodes = calloc(l->all, sizeof(*nodes));
    l->opt.nodes = nodes;
    l->source = calloc(l->sources + 1, sizeof(*l->source));
    l->writer = calloc(l->writers + 1, sizeof(*l->writer));
    l->link = calloc(l->writers + 1, sizeof(*l->link));
    l->dirty = calloc(l->sources + 1, sizeof(*l->dirty));
    l->open = calloc(l->sources + 1, sizeof(*l->open));
    l->chain = malloc(l->opt.log_bytes);
    l->side = malloc(l->opt.log_bytes);
    l->batch = malloc(l->put_max);
    if (!nodes || !l->source || !l->writer || !l->link || !l->dirty || !l->open || !l->chain ||
        !l->side || !l->batch)
        return err_set(e, ERR_NOMEM, "log: no memory for %u bytes of log", l->opt.log_bytes);
    memcpy(nodes, o->nodes, l->n * sizeof(*nodes));
    if (has_memories(l))
        memcpy(nodes + l->n, o->memory_nodes, o->memories * sizeof(*nodes));
    /* Page faults are taken now and not with the first messages. Of the chain and the side a take-over
     * touches what is not yet applied everywhere, most often a few pages; all of them would have to be
     * given back, at the cost of who waits for the core, when this process is killed. */
    memset(l->batch, 0xff, l->put_max);
    for (uint32_t i = 0; stream_start() != 0 && i < l->sources; i++)
        l->source[i].taken = stream_start();
    return 0;
}

/* A second life has no state of its own, whatever became of its memory: the machine's state was in the process. With
 * its memory it still votes; without, it must not. */
void log_state_begin(struct log *l, enum mem_birth birth)
{
    l->state = UNIT_FOLLOWER;
    if (l->opt.fresh && mem_promised(l->mem, l->opt.region) == MEM_CLOSED) {
        mem_region_grant(l->mem, l->opt.region, 0);
        birth = MEM_BIRTH_NEW;
    }
    l->behind = birth != MEM_BIRTH_NEW;
    /* A life that ended before the group took it back leaves a closed region behind. */
    if (mem_promised(l->mem, l->opt.region) == MEM_CLOSED) {
        if (PLANTED(amnesia_votes))
            mem_region_grant(l->mem, l->opt.region, 0);
        else
            l->state = UNIT_JOINING;
    }
    table_set(l->rows, ROW_LIFE, l->mem->life + 1);
    table_set(l->rows, ROW_FLAGS,
              (l->behind ? ROW_BEHIND : 0) | (l->state == UNIT_JOINING ? ROW_JOINING : 0));
    table_set(l->rows, ROW_APPLIED, l->applied);
}

int log_open(const struct log_options *options, struct log **out, struct err *e)
{
    struct log_options o = *options;
    int rc = options_settle(&o, e);
    if (rc != 0)
        return rc;
    enum mem_birth birth;
    rc = mem_region_open(o.mem, o.region, &birth, e);
    if (rc != 0)
        return rc;
    struct log *l = lines_alloc(sizeof(*l));
    if (l == NULL)
        return err_set(e, ERR_NOMEM, "log: no memory");
    numbers_init(l, &o);
    rc = buffers_open(l, &o, e);
    if (rc == 0) {
        sources_init(l);
        rc = lanes_open(l, e);
    }
    if (rc == 0)
        rc = rows_open(l, e);
    if (rc == 0 && has_memories(l))
        rc = memories_open(l, e);
    if (rc != 0) {
        log_close(l);
        return rc;
    }
    l->opt.source_nodes = NULL;
    l->opt.stream = NULL;
    flows_begin(l);
    if (!log_kept(l))
        log_state_begin(l, birth);
    *out = l;
    return 0;
}

int log_source_open(struct log *l, uint32_t source, uint32_t node, struct err *e)
{
    const struct log_options *o = &l->opt;
    if (source >= o->sources)
        return err_set(e, ERR_INVALID, "log: source %u of %u", source, o->sources);
    struct log_source *s = &l->source[source];
    if (s->writers > 0)
        return s->writer->node == node ? 0
                                       : err_set(e, ERR_EXISTS, "log: source %u is node %u, not %u",
                                                 source, s->writer->node, node);
    struct source_writer *writer = &l->writer[source];
    *writer = (struct source_writer){.node = node, .region = o->region};
    struct mem_lane_spec specs[] = {
        lane_spec(o->region, l->mem->self, node, LANE_SOURCE, source),
        lane_spec(o->region, node, l->mem->self, LANE_ACK, source),
    };
    struct mem_lane *lanes[2];
    specs[0].ctl_words = SOURCE_WORDS;
    specs[0].ring_bytes = o->source_bytes;
    specs[1].ctl_words = ACK_WORDS;
    int rc = mem_lanes_open(l->mem, specs, 2, lanes, e);
    if (rc != 0)
        return rc;
    writer->in = lanes[0];
    writer->ack = lanes[1];
    mem_flow_open(l->mem, &writer->flow, node, o->region, 0);
    log_source_add(
        l, source,
        (struct log_source){.writer = writer, .writers = 1, .taken = s->taken, .life = s->life});
    return 0;
}

void log_close(struct log *l)
{
    if (l == NULL)
        return;
    keep_close(l);
    table_close(l->rows);
    memories_close(l);
    free(l->source);
    free(l->writer);
    free(l->link);
    free(l->dirty);
    free(l->open);
    free(l->chain);
    free(l->side);
    free(l->batch);
    if (l->sending.save)
        l->opt.machine->state->save_close(l->opt.ctx, l->sending.save);
    backlog_clear(&l->sending.backlog);
    free(l->sending.ring);
    free(l->sending.stage);
    free(l->taking.room);
    uint32_t *nodes;
    memcpy(&nodes, &l->opt.nodes, sizeof(nodes));
    free(nodes);
    free(l);
}
