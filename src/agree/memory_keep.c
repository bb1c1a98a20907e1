#include "agree/memory_keep.h"

#include "agree/memory_keep_impl.h"

#include <stdlib.h>

/* ---- what is durable ---- */

static bool is_covered(const struct memory_keep *k)
{
    return !k->blank && (k->gap == 0 || disk_snap(k->disk, k->group) >= k->gap);
}

static void tell_one(struct memory_keep *k, uint32_t rank)
{
    const uint64_t life = k->mem->life + 1;
    uint64_t words[ROW_WORDS] = {0};
    words[ROW_LIFE] = life;
    words[ROW_PLEDGED] = k->pledged;
    if (is_covered(k)) {
        words[ROW_KEPT_BALLOT] = k->kept_run;
        words[ROW_KEPT] = k->kept;
    }
    words[ROW_DISK_CHECK] =
        row_disk_check(life, words[ROW_KEPT_BALLOT], words[ROW_KEPT], k->pledged);
    if (k->flow[rank].status == MEM_LOST)
        mem_flow_open(k->mem, &k->flow[rank], k->node[rank], k->region, 0);
    mem_set(k->mem, &k->flow[rank], k->out[rank], 0, words, ROW_WORDS);
}

/* A leader waits for it, or a candidate. */
static void tell_leader(struct memory_keep *k)
{
    uint64_t promised = promise(k);
    if (!is_promise(promised))
        return;
    tell_one(k, (uint32_t)(promised % k->n));
    mem_bell(k->mem, k->node[promised % k->n]);
}

void memory_tell_all(struct memory_keep *k)
{
    uint64_t words[] = {k->mem->life + 1, 0, k->blank ? ROW_JOINING : 0};
    _Static_assert(ROW_LIFE == 0 && ROW_FLAGS == 2, "the first words of a row");
    mem_set(k->mem, &k->row_flow, k->row, 0, words, 3);
    for (uint32_t q = 0; q < k->n; q++)
        tell_one(k, q);
}

static int settle(struct memory_keep *k)
{
    bool before = is_covered(k);
    struct keep_wait w;
    int over = 0;
    for (; keep_wait_over(&k->waits, disk_done(k->disk), &w); over++) {
        if (w.run != 0) {
            k->kept_run = w.run;
            k->kept = w.copied;
        }
        k->pledged = max_u64(k->pledged, w.pledge);
    }
    if (k->gap != 0 && is_covered(k))
        k->gap = 0;
    if (over > 0 || before != is_covered(k))
        tell_leader(k);
    return over;
}

/* ---- the whole ---- */

static int lanes_open(struct memory_keep *k, const struct log_options *o, struct err *e)
{
    struct mem_lane_spec specs[2 * LOG_REPLICAS_MAX + 2];
    struct mem_lane *lanes[2 * LOG_REPLICAS_MAX + 2];
    const uint32_t self = k->mem->self, n = k->n;
    for (uint32_t w = 0; w < n; w++) {
        specs[w] = memory_log_spec(o, self, o->nodes[w]);
        specs[n + w] = lane_spec(o->region, o->nodes[w], self, LANE_ROW, 0);
        specs[n + w].ctl_words = ROW_WORDS;
    }
    specs[2 * n] = memory_log_spec(o, self, self);
    specs[2 * n + 1] = lane_spec(o->region, self, self, LANE_ROW, 0);
    specs[2 * n + 1].ctl_words = ROW_WORDS;
    int rc = mem_lanes_open(k->mem, specs, 2 * n + 2, lanes, e);
    for (uint32_t w = 0; rc == 0 && w < n; w++) {
        k->lane[w] = lanes[w];
        k->out[w] = lanes[n + w];
        k->node[w] = o->nodes[w];
        mem_flow_open(k->mem, &k->flow[w], o->nodes[w], o->region, 0);
    }
    if (rc != 0)
        return rc;
    k->lane[n] = lanes[2 * n];
    k->row = lanes[2 * n + 1];
    mem_flow_open(k->mem, &k->row_flow, self, o->region, 0);
    return 0;
}

int memory_keep_open(struct log_memory *m, const struct log_options *o, struct memory_keep **out,
                     struct err *e)
{
    struct memory_keep *k = calloc(1, sizeof(*k));
    if (k == NULL || (k->scratch = malloc(o->log_bytes)) == NULL) {
        free(k);
        return err_set(e, ERR_NOMEM, "log: no memory for %u bytes of log", o->log_bytes);
    }
    k->mem = m->mem;
    k->disk = o->disk;
    k->region = o->region;
    k->group = o->disk_group;
    k->n = o->replicas;
    k->payload_max = o->payload_max;
    k->log_bytes = o->log_bytes;
    k->put_max = max_u64(o->batch_bytes & ~7u, entry_size(o->payload_max));
    k->heartbeat_ns = o->heartbeat_ns;
    int rc = lanes_open(k, o, e);
    rc = rc == 0 ? memory_restore(k, e) : rc;
    if (rc != 0) {
        memory_keep_close(k);
        return rc;
    }
    memory_tell_all(k);
    *out = k;
    return 0;
}

void memory_keep_close(struct memory_keep *k)
{
    if (k == NULL)
        return;
    for (uint32_t q = 0; k->row && q < k->n; q++)
        mem_flow_close(k->mem, &k->flow[q]);
    if (k->row)
        mem_flow_close(k->mem, &k->row_flow);
    if (k->is_filling)
        mem_flow_close(k->mem, &k->filling);
    chain_free(&k->chain);
    free(k->scratch);
    free(k);
}

int memory_keep_step(struct memory_keep *k, uint64_t now_ns)
{
    int work = k->is_filling ? memory_filled(k) : 0;
    work += settle(k) + memory_follow(k);
    if (now_ns < k->tell_ns)
        return work;
    k->tell_ns = now_ns + k->heartbeat_ns;
    memory_tell_all(k);
    return work;
}

uint64_t memory_keep_next_ns(const struct memory_keep *k)
{
    return k->tell_ns;
}

void memory_keep_status(const struct memory_keep *k, struct unit_status *s)
{
    s->kept = k->waits.count == 0 ? k->chain.end : k->kept;
    s->unkept = k->waits.count == 0 || k->copied < k->kept ? 0 : k->copied - k->kept;
    s->lacks = memory_keep_lacks(k);
}

bool memory_keep_lacks(const struct memory_keep *k)
{
    return !is_covered(k) || (k->hurt && k->kept_run == 0);
}
