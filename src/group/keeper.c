#include "group/keeper_impl.h"

#include "base/minmax.h"
#include "base/planted.h"

#include <string.h>

enum { LOOKS_PER_HEARTBEAT = 16 }; /* for new lives of lanes */

/* ---- the machine of the view log ---- */

/* One that was decided. Whoever proposed it, it counts if it follows the last: so there is one view of each number. */
static void machine_apply(void *ctx, const struct entry *e)
{
    struct view_machine *m = ctx;
    if (!view_decode(e->payload, e->bytes, m->coming)) {
        log_stop(m->keeper->log, "the view log has what is no view");
        return;
    }
    bool again = PLANTED(group_view_twice) && m->coming->vid == m->applied->vid;
    if (m->coming->vid != m->applied->vid + 1 && !again)
        return;
    /* Behind a view that names other keepers nothing counts here. */
    if (m->applied->keepers.generation > m->keeper->of.generation && !PLANTED(group_keepers_go_on))
        return;
    view_copy(m->applied, m->coming);
    keeper_lead_applied(m->keeper);
}

static void *machine_save_open(void *ctx, uint64_t *bytes)
{
    struct view_machine *m = ctx;
    m->save_bytes = view_encode(m->applied, m->save);
    m->save_at = 0;
    *bytes = m->save_bytes;
    return m;
}

static int machine_save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct view_machine *m = ctx;
    (void)save;
    uint32_t bytes = (uint32_t)min_u64(room, m->save_bytes - m->save_at);
    memcpy(out, m->save + m->save_at, bytes);
    m->save_at += bytes;
    return (int)bytes;
}

static void machine_save_close(void *ctx, void *save)
{
    (void)ctx;
    (void)save;
}

static int machine_load_open(void *ctx, uint64_t bytes)
{
    struct view_machine *m = ctx;
    m->load_at = 0;
    return bytes <= m->bytes_max ? 0 : ERR_CORRUPT;
}

static int machine_load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct view_machine *m = ctx;
    if (bytes > m->bytes_max - m->load_at)
        return ERR_CORRUPT;
    memcpy(m->load + m->load_at, data, bytes);
    m->load_at += bytes;
    return 0;
}

static int machine_load_close(void *ctx, bool whole)
{
    struct view_machine *m = ctx;
    if (!whole)
        return 0;
    if (!view_decode(m->load, m->load_at, m->coming))
        return ERR_CORRUPT;
    view_copy(m->applied, m->coming);
    keeper_lead_applied(m->keeper);
    return 0;
}

static const struct state_ops machine_state = {
    .save_open = machine_save_open,
    .save_next = machine_save_next,
    .save_close = machine_save_close,
    .load_open = machine_load_open,
    .load_next = machine_load_next,
    .load_close = machine_load_close,
};

const struct log_machine view_machine = {.apply = machine_apply, .state = &machine_state};

/* ---- views ---- */

static int view_learn(struct keeper *k, const struct view *v)
{
    if (v->vid <= k->view->vid)
        return 0;
    view_copy(k->view, v);
    k->report_out.audience = keeper_set(k, v);
    return 1;
}

static int views_take(struct keeper *k)
{
    int work = k->log ? view_learn(k, k->machine.applied) : 0;
    for (uint32_t h = 0; h < k->opt.hosts; h++) {
        struct notice_reader *in = &k->view_in[h];
        uint32_t bytes = in->lane ? notice_read(in, k->bytes, k->view_bytes_max) : 0;
        if (bytes == 0 || !view_decode(k->bytes, bytes, k->told))
            continue;
        k->heard[h] = k->told->vid;
        work += view_learn(k, k->told);
    }
    return work;
}

void keeper_tell(struct keeper *k)
{
    k->view_told = k->view->vid;
    if (k->view->vid > 0)
        notice_end(&k->view_out, view_encode(k->view, notice_begin(&k->view_out)));
}

static int view_tell(struct keeper *k)
{
    if (k->view->vid == k->view_told)
        return 0;
    keeper_tell(k);
    return 1;
}

/* ---- reports ---- */

static bool report_take(struct keeper *k, uint32_t host, const unsigned char *in, uint32_t bytes)
{
    struct report *r = &k->host[host].report;
    struct cell_report *cell = &k->cell_report[(size_t)host * k->opt.cells];
    struct found_report *found = &k->host[host].found;
    if (!report_decode(in, bytes, k->opt.hosts, k->opt.cells, r, cell))
        r->vid = 0;
    /* What was found is kept beside it. */
    found_decode(in, bytes, k->opt.cells, found, &k->reach[(size_t)host * k->opt.cells]);
    k->look_ns = 0; /* somebody waits for it */
    return true;
}

static int reports_take(struct keeper *k)
{
    int work = 0;
    for (uint32_t h = 0; h < k->opt.hosts; h++) {
        struct notice_reader *in = &k->host[h].reader;
        uint32_t bytes = in->lane ? notice_read(in, k->bytes, k->report_bytes_max) : 0;
        work += bytes && report_take(k, h, k->bytes, bytes);
    }
    return work;
}

void keeper_report(struct keeper *k, const struct report *r)
{
    unsigned char *to = notice_begin(&k->report_out);
    uint32_t bytes = report_encode(r, k->opt.cells, to);
    notice_end(&k->report_out, bytes);
    report_take(k, k->opt.me, to, bytes);
}

void keeper_found(struct keeper *k, const struct found_report *f)
{
    unsigned char *to = notice_begin(&k->report_out);
    uint32_t bytes = found_encode(f, k->opt.cells, to);
    notice_end(&k->report_out, bytes);
    report_take(k, k->opt.me, to, bytes);
}

/* ---- a round ---- */

/* Lanes of hosts that have come again. */
static void lanes_renew(struct keeper *k)
{
    if (k->now_ns < k->next_ns)
        return;
    k->next_ns = k->now_ns + k->opt.heartbeat_ns / LOOKS_PER_HEARTBEAT;
    for (uint32_t h = 0; h < k->opt.hosts; h++)
        if (h != k->opt.me) {
            notice_next(&k->view_in[h]);
            notice_next(&k->host[h].reader);
        }
}

int keeper_post(struct keeper *k, uint64_t now_ns)
{
    k->now_ns = now_ns;
    int work = notice_post(&k->report_out, now_ns, k->opt.heartbeat_ns) +
               notice_post(&k->view_out, now_ns, k->opt.heartbeat_ns);
    if (k->log == NULL)
        return work;
    work += log_post(k->log, now_ns);
    return work + view_learn(k, k->machine.applied); /* one that is restored applies there, too */
}

int keeper_settle(struct keeper *k, uint64_t now_ns)
{
    k->now_ns = now_ns;
    int work = k->log ? log_settle(k->log, now_ns) : 0;
    lanes_renew(k);
    work += views_take(k) + keeper_move(k);
    if (k->log)
        work += view_tell(k) + reports_take(k) + keeper_lead(k);
    return work;
}

void keeper_look(struct keeper *k, uint64_t now_ns)
{
    k->look_ns = k->next_ns = 0;
    if (k->log && k->opt.mem->remote)
        log_beat_by(k->log, now_ns + k->opt.heartbeat_ns / BEAT_EARLY);
}

uint64_t keeper_next_ns(const struct keeper *k)
{
    uint64_t next = min_u64(k->report_out.retry_ns, k->view_out.retry_ns);
    if (k->log == NULL)
        return next;
    return min_u64(min_u64(next, log_next_ns(k->log)), keeper_lead_next_ns(k));
}

/* ---- looking ---- */

const struct view *keeper_view(const struct keeper *k)
{
    bool early = PLANTED(group_trim_uncommitted) && k->epoch && k->proposed == k->view->vid + 1;
    return early ? k->next : k->view;
}

struct log *keeper_log(const struct keeper *k)
{
    return k->log;
}

const struct view_keepers *keeper_list(const struct keeper *k, const struct view *v)
{
    return keepers_of(v, &k->first);
}

uint64_t keeper_set(const struct keeper *k, const struct view *v)
{
    return keepers_set(keepers_of(v, &k->first));
}

const char *keeper_broken(const struct keeper *k)
{
    if (k->failure[0])
        return k->failure;
    return k->log ? log_broken(k->log) : NULL;
}

const char *keeper_waits(const struct keeper *k)
{
    return k->waits[0] ? k->waits : NULL;
}

const char *keeper_check(const struct keeper *k)
{
    const char *broken = view_check(k->view);
    if (broken || k->log == NULL)
        return broken;
    if ((broken = view_check(k->machine.applied)) || (broken = log_check(k->log)))
        return broken;
    if (k->machine.applied->vid > k->view->vid)
        return "a keeper does not know of the view that its log has decided";
    if (table_get(k->opt.top, k->opt.me, TOP_CLOSE) > k->view->vid)
        return "a keeper has closed a view that there is not";
    if (k->closed_ns && table_get(k->opt.top, k->opt.me, TOP_CLOSE) < k->machine.applied->vid)
        return "a leader waits for reports on a view that is open";
    return NULL;
}
