/* Opening and closing a keeper: its options and their limits, its lanes, its log. */
#include "group/keeper_impl.h"

#include "lane/names.h"

#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES_MIN = 64 << 10, LOG_PAYLOADS = 16 };
#define START_NS_DEFAULT (200 * UINT64_C(1000000))

/* ---- options ---- */

static int options_check(const struct keeper_options *o, struct err *e)
{
    if (o->hosts == 0 || o->hosts > GROUP_HOSTS_MAX || o->me >= o->hosts)
        return err_set(e, ERR_INVALID, "group: host %u of %u; there are 1 to %d", o->me, o->hosts,
                       GROUP_HOSTS_MAX);
    if (o->cells == 0 || o->cells > GROUP_CELLS_MAX || o->layout.cells != o->cells)
        return err_set(e, ERR_INVALID, "group: %u cells; there are 1 to %d", o->cells,
                       GROUP_CELLS_MAX);
    if (o->keepers_count == 0 || o->keepers_count > GROUP_KEEPERS_MAX)
        return err_set(e, ERR_INVALID, "group: %u keepers; there are 1 to %d", o->keepers_count,
                       GROUP_KEEPERS_MAX);
    uint64_t keepers = 0;
    for (uint32_t i = 0; i < o->keepers_count; i++) {
        if (o->keepers[i] >= o->hosts || in_set(keepers, o->keepers[i]))
            return err_set(e, ERR_INVALID,
                           "group: keeper %u is host %u; keepers are distinct hosts", i,
                           o->keepers[i]);
        keepers |= set_of(o->keepers[i]);
    }
    return 0;
}

static void options_settle(struct keeper *k, const struct keeper_options *o)
{
    k->opt = *o;
    k->opt.start_ns = o->start_ns ? o->start_ns : START_NS_DEFAULT;
    k->opt.heartbeat_ns = o->heartbeat_ns ? o->heartbeat_ns : 15 * UINT64_C(1000000);
    k->opt.suspect_ns = o->suspect_ns ? o->suspect_ns : 60 * UINT64_C(1000000);
    k->view_bytes_max = view_bytes_max(o->hosts, o->cells);
    k->report_bytes_max = report_bytes_max(o->hosts, o->cells);
}

/* ---- lanes ---- */

struct lanes {
    struct mem_lane_spec spec[4 * GROUP_HOSTS_MAX];
    struct mem_lane *lane[4 * GROUP_HOSTS_MAX];
    uint32_t count;
};

static void lane_add(struct lanes *l, uint32_t owner, uint32_t writer, enum lane_kind kind,
                     uint32_t bytes_max)
{
    struct mem_lane_spec *s = &l->spec[l->count++];
    *s = lane_spec(region_number(REGION_MEMBER, 0), owner, writer, kind, 0);
    s->ctl_words = NOTICE_WORDS;
    s->ring_bytes = notice_ring_bytes(bytes_max);
    s->common = 1;
}

/* In the order in which notices_open takes them. */
static void lanes_list(const struct keeper *k, struct lanes *l)
{
    const uint32_t me = k->opt.me;
    for (uint32_t h = 0; h < k->opt.hosts; h++)
        if (h != me) {
            lane_add(l, h, me, LANE_REPORT, k->report_bytes_max);
            lane_add(l, h, me, LANE_VIEW, k->view_bytes_max);
            lane_add(l, me, h, LANE_REPORT, k->report_bytes_max);
            lane_add(l, me, h, LANE_VIEW, k->view_bytes_max);
        }
}

static int notices_open(struct keeper *k, struct lanes *l, struct err *e)
{
    struct mem_lane *report_out[GROUP_HOSTS_MAX], *view_out[GROUP_HOSTS_MAX];
    struct mem *mem = k->opt.mem;
    uint32_t at = 0, others = 0;
    for (uint32_t h = 0; h < k->opt.hosts; h++)
        if (h != k->opt.me) {
            report_out[others] = l->lane[at++];
            view_out[others++] = l->lane[at++];
            k->host[h].reader = (struct notice_reader){.mem = mem, .lane = l->lane[at++]};
            k->view_in[h] = (struct notice_reader){.mem = mem, .lane = l->lane[at++]};
        }
    int rc = notice_writer_open(&k->report_out, mem, report_out, others, k->report_bytes_max, e);
    if (rc == 0)
        rc = notice_writer_open(&k->view_out, mem, view_out, others, k->view_bytes_max, e);
    return rc;
}

static int lanes_open(struct keeper *k, struct err *e)
{
    struct lanes *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for its lanes");
    lanes_list(k, l);
    int rc = mem_lanes_open(k->opt.mem, l->spec, l->count, l->lane, e);
    if (rc == 0)
        rc = notices_open(k, l, e);
    free(l);
    return rc;
}

/* ---- memory, the log ---- */

static int buffers_open(struct keeper *k, struct err *e)
{
    const struct keeper_options *o = &k->opt;
    uint32_t most =
        k->view_bytes_max > k->report_bytes_max ? k->view_bytes_max : k->report_bytes_max;
    k->bytes = malloc(most);
    if (!k->bytes)
        return err_set(e, ERR_NOMEM, "group: no memory for %u bytes of a view", most);
    k->first.count = o->keepers_count;
    memcpy(k->first.host, o->keepers, o->keepers_count * sizeof(*o->keepers));
    k->opt.keepers = NULL;
    if (o->kept) {
        k->kept = malloc(o->cells);
        if (k->kept == NULL)
            return err_set(e, ERR_NOMEM, "group: no memory for %u cells", o->cells);
        memcpy(k->kept, o->kept, o->cells);
    }
    int rc = view_open(o->hosts, o->cells, &k->view, e);
    return rc == 0 ? view_open(o->hosts, o->cells, &k->told, e) : rc;
}

/* What only keepers need, and any host may come to be one. */
static int more_buffers_open(struct keeper *k, struct err *e)
{
    const struct keeper_options *o = &k->opt;
    struct view_machine *m = &k->machine;
    k->host = calloc(o->hosts, sizeof(*k->host));
    k->cell_report = calloc((size_t)o->hosts * o->cells, sizeof(*k->cell_report));
    k->reach = calloc((size_t)o->hosts * o->cells, sizeof(*k->reach));
    m->save = malloc(k->view_bytes_max);
    m->load = malloc(k->view_bytes_max);
    m->bytes_max = k->view_bytes_max;
    m->keeper = k;
    if (!k->host || !k->cell_report || !k->reach || !m->save || !m->load)
        return err_set(e, ERR_NOMEM, "group: no memory for reports of %u hosts", o->hosts);
    int rc = view_open(o->hosts, o->cells, &m->applied, e);
    if (rc == 0)
        rc = view_open(o->hosts, o->cells, &m->coming, e);
    return rc == 0 ? view_open(o->hosts, o->cells, &k->next, e) : rc;
}

uint32_t keeper_log_bytes(uint32_t hosts, uint32_t cells)
{
    uint32_t log_bytes = LOG_BYTES_MIN;
    while (log_bytes < LOG_PAYLOADS * view_bytes_max(hosts, cells))
        log_bytes *= 2;
    return log_bytes;
}

int keeper_open(const struct keeper_options *o, struct keeper **out, struct err *e)
{
    int rc = options_check(o, e);
    if (rc != 0)
        return rc;
    struct keeper *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for a keeper");
    options_settle(k, o);
    rc = buffers_open(k, e);
    if (rc == 0)
        rc = more_buffers_open(k, e);
    if (rc == 0)
        rc = lanes_open(k, e);
    if (rc == 0)
        rc = keeper_log_open(k, e);
    if (rc != 0) {
        keeper_close(k);
        return rc;
    }
    k->in = (struct decide_input){.now = k->machine.applied,
                                  .layout = &k->opt.layout,
                                  .view_majority = o->view_majority,
                                  .first = o->keepers_stay ? NULL : &k->first,
                                  .keepers_least = o->disk || !o->mem->remote ? KEEPERS_LEAST : 1,
                                  .kept = k->kept,
                                  .stateless = k->kept && o->stateless};
    *out = k;
    return 0;
}

void keeper_close(struct keeper *k)
{
    if (k == NULL)
        return;
    log_close(k->log);
    for (uint32_t i = 0; i < LOGS_OVER_MAX; i++)
        log_close(k->over[i]);
    notice_writer_close(&k->report_out);
    notice_writer_close(&k->view_out);
    view_close(k->machine.applied);
    view_close(k->machine.coming);
    view_close(k->next);
    view_close(k->view);
    view_close(k->told);
    free(k->machine.save);
    free(k->machine.load);
    free(k->host);
    free(k->cell_report);
    free(k->reach);
    free(k->kept);
    free(k->bytes);
    free(k);
}
