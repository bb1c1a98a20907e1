#include "agree/memory.h"

#include "agree/lanes.h"
#include "agree/memory_keep.h"

struct mem_lane_spec memory_log_spec(const struct log_options *o, uint32_t memory, uint32_t writer)
{
    struct mem_lane_spec spec = lane_spec(o->region, memory, writer, LANE_LOG, 0);
    spec.ctl_words = LOG_WORDS;
    spec.ring_bytes = o->log_bytes;
    return spec;
}

static int lanes_open(struct log_memory *m, const struct log_options *o, struct mem_lane **own,
                      struct err *e)
{
    struct mem_lane_spec specs[2 * LOG_REPLICAS_MAX + 1];
    struct mem_lane *lanes[2 * LOG_REPLICAS_MAX + 1];
    const uint32_t self = m->mem->self;
    uint32_t count = 0;
    for (uint32_t w = 0; w < o->replicas; w++) {
        specs[count++] = memory_log_spec(o, self, o->nodes[w]);
        specs[count] = lane_spec(o->region, self, o->nodes[w], LANE_ROW, 0);
        specs[count++].ctl_words = ROW_WORDS;
    }
    specs[count] = lane_spec(o->region, self, self, LANE_ROW, 0);
    specs[count++].ctl_words = ROW_WORDS;
    int rc = mem_lanes_open(m->mem, specs, count, lanes, e);
    if (rc == 0)
        *own = lanes[count - 1];
    return rc;
}

int log_memory_open(struct log_memory *m, const struct log_options *options, struct err *e)
{
    struct log_options o = *options;
    *m = (struct log_memory){.mem = o.mem, .region = o.region};
    if (o.replicas == 0 || o.replicas > LOG_REPLICAS_MAX)
        return err_set(e, ERR_INVALID, "log: %u replicas; a group has 1 to %d", o.replicas,
                       LOG_REPLICAS_MAX);
    enum mem_birth birth;
    struct mem_lane *own;
    int rc = log_sizes_settle(&o, e);
    if (rc == 0)
        rc = mem_region_open(m->mem, m->region, &birth, e);
    if (rc == 0)
        rc = lanes_open(m, &o, &own, e);
    if (rc == 0 && o.disk)
        rc = memory_keep_open(m, &o, &m->keep, e);
    if (rc != 0 || o.disk)
        return rc;
    mem_flow_open(m->mem, &m->flow, m->mem->self, m->region, 0);
    mem_set1(m->mem, &m->flow, own, ROW_LIFE, m->mem->life + 1);
    return 0;
}

bool log_memory_is_closed(const struct log_memory *m)
{
    return mem_promised(m->mem, m->region) == MEM_CLOSED;
}

int log_memory_step(struct log_memory *m, uint64_t now_ns)
{
    if (m->keep)
        return memory_keep_step(m->keep, now_ns);
    if (m->mem->anew && log_memory_is_closed(m))
        mem_region_grant(m->mem, m->region, 0);
    return 0;
}

void log_memory_close(struct log_memory *m)
{
    if (m->keep == NULL)
        mem_flow_close(m->mem, &m->flow);
    memory_keep_close(m->keep);
    m->keep = NULL;
}

bool log_memory_lacks(const struct log_memory *m)
{
    return m->keep && memory_keep_lacks(m->keep);
}

/* ---- as a unit ---- */

enum {
    LOOK_EVERY_NS = 50000000
}; /* it has nothing to do, but for whoever shows that it is there */

static int unit_of_post(struct unit *u, uint64_t now_ns)
{
    struct log_memory *m = u->of;
    m->now_ns = now_ns;
    return 0;
}

static int unit_of_settle(struct unit *u, uint64_t now_ns)
{
    return log_memory_step(u->of, now_ns);
}

static uint64_t unit_of_next_ns(const struct unit *u)
{
    const struct log_memory *m = u->of;
    return m->keep ? memory_keep_next_ns(m->keep) : m->now_ns + LOOK_EVERY_NS;
}

static void unit_of_status(const struct unit *u, struct unit_status *s)
{
    const struct log_memory *m = u->of;
    *s = (struct unit_status){.role = log_memory_is_closed(m) ? UNIT_JOINING : UNIT_FOLLOWER,
                              .leader = UINT32_MAX,
                              .promised = mem_promised(m->mem, m->region)};
    if (m->keep)
        memory_keep_status(m->keep, s);
}

static void unit_of_close(struct unit *u)
{
    log_memory_close(u->of);
}

struct unit log_memory_unit(struct log_memory *m)
{
    static const struct unit_ops ops = {.post = unit_of_post,
                                        .settle = unit_of_settle,
                                        .next_ns = unit_of_next_ns,
                                        .status = unit_of_status,
                                        .close = unit_of_close};
    return (struct unit){.ops = &ops, .of = m, .region = m->region};
}
