/* From one generation of keepers to the next.
 *
 * A view that names other keepers is the last that counts in their log (keeper.c, machine_apply), and the state with which the next log begins. Two
 * keepers of one generation that begin with different views would still agree: applying a view of before changes nothing, so a state may be ahead of its
 * log, and who learns a later view first begins with that.
 *
 * What a keeper must not do is to begin a log a second time, having lost what it promised in it. Named is a keeper with the life that it was last seen
 * in: before that it never had this log. In a later one it may have: then it is believed only if it has a disk, whole, which has
 * nothing of that generation; else it comes back as any replica does that lost its memory. On a disk the log before counts until the new one has a
 * snapshot there (agree/log_replace.c), so after a loss of all power one of the two is found, and the earlier one tells the view that ended it. */
#include "base/planted.h"
#include "group/keeper_impl.h"

#include "lane/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool rank_in(const struct view_keepers *of, uint32_t host, uint32_t *rank)
{
    for (*rank = 0; *rank < of->count; ++*rank)
        if (of->host[*rank] == host)
            return true;
    return false;
}

/* ---- opening a log ---- */

static struct log_options options_of(const struct keeper *k, uint32_t rank, bool fresh)
{
    uint32_t log_bytes = keeper_log_bytes(k->opt.hosts, k->opt.cells);
    return (struct log_options){
        .mem = k->opt.mem,
        .region = region_number(REGION_VIEW_LOG, k->of.generation),
        .nodes = k->of.host,
        .replicas = k->of.count,
        .rank = rank,
        .source_bytes = log_bytes,
        .log_bytes = log_bytes,
        .payload_max = k->view_bytes_max,
        .budget = k->opt.budget,
        .heartbeat_ns = k->opt.heartbeat_ns,
        .suspect_ns = k->opt.suspect_ns,
        .stagger_ns = k->opt.stagger_ns,
        .detach_ns = k->opt.detach_ns,
        .seed = k->opt.seed,
        .base = (uint64_t)k->of.generation << GENERATION_BITS,
        .fresh = fresh,
        .disk = k->opt.disk,
        .machine = &view_machine,
        .ctx = (void *)(uintptr_t)&k->machine,
    };
}

enum { SAVED_HEAD_MAX = 256 }; /* the log's part of a snapshot */

/* Of the view that the disk has a snapshot of; 0 bytes: it has none that can be read. */
struct saved {
    unsigned char *bytes;
    uint32_t count, room;
};

static int saved_take(void *ctx, const void *piece, uint32_t bytes)
{
    struct saved *s = ctx;
    if (bytes > s->room - s->count)
        return -1;
    memcpy(s->bytes + s->count, piece, bytes);
    s->count += bytes;
    return 0;
}

static bool saved_view(struct keeper *k, struct err *e)
{
    struct saved s = {.room = SAVED_HEAD_MAX + k->view_bytes_max};
    struct err why = {""};
    s.bytes = malloc(s.room);
    if (s.bytes == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for a view") == 0;
    bool read = disk_snap_read(k->opt.disk, 0, saved_take, &s, &why) == 0;
    uint32_t head = read ? log_saved_head(s.bytes, s.count) : 0;
    bool is_one = head > 0 && view_decode(s.bytes + head, s.count - head, k->told);
    free(s.bytes);
    return is_one;
}

/* Which generation the disk has, and whose it is. */
static void look_at_disk(struct keeper *k, struct err *e)
{
    const struct disk_found *f = disk_found(k->opt.disk, 0);
    uint64_t reach = f->snap > f->says.end ? f->snap : f->says.end;
    log_past_found(k->opt.disk, 0, &k->past);
    k->had = f->state == DISK_BEYOND ? 0 : (uint32_t)(reach >> GENERATION_BITS);
    if (f->snap == 0 || f->state == DISK_BEYOND || !saved_view(k, e)) {
        /* Who the keepers of that generation are will be told: then it is one that comes back. */
        k->of.generation = k->had ? k->had - 1 : 0;
        k->of.count = k->had ? 0 : k->of.count;
        return;
    }
    view_copy(k->view, k->told);
    if (k->told->keepers.generation == k->had && k->had > 0)
        k->of = k->told->keepers;
    else if (k->had > 0) /* the log is over, and the view says who comes then */
        k->of = (struct view_keepers){.generation = k->had};
}

int keeper_log_open(struct keeper *k, struct err *e)
{
    uint32_t rank;
    int rc = 0;
    k->of = k->first;
    if (k->opt.disk)
        look_at_disk(k, e);
    if (rank_in(&k->of, k->opt.me, &rank)) {
        struct log_options o = options_of(k, rank, false);
        rc = log_open(&o, &k->log, e);
        if (rc == 0 && o.disk)
            rc = log_restore(k->log, e);
    }
    if (k->machine.applied->vid > k->view->vid)
        view_copy(k->view, k->machine.applied);
    k->report_out.audience = keeper_set(k, k->view);
    return rc;
}

/* ---- the next generation ---- */

enum { KEEPER_WHY_MAX = 400 }; /* of why a log did not open */

/* No earlier life of this host's has carried on this log, or its disk would have some of it. */
static bool is_fresh(const struct keeper *k, uint32_t rank)
{
    uint64_t process = (uint64_t)k->opt.mem->life + 1;
    bool whole = k->opt.disk && !k->past.beyond && k->had < k->of.generation;
    return k->of.life[rank] >> 16 == process || whole || PLANTED(group_keeper_forgets);
}

static void next_open(struct keeper *k)
{
    struct err e = {""};
    uint32_t rank = k->opens - 1;
    bool fresh = is_fresh(k, rank);
    struct log_options o = options_of(k, rank, fresh);
    k->opens = 0;
    view_copy(k->machine.applied, k->view);
    if (log_open(&o, &k->log, &e) != 0) {
        snprintf(k->failure, sizeof(k->failure), "it cannot be a keeper: %.*s", KEEPER_WHY_MAX,
                 e.text);
        return;
    }
    if (o.disk)
        log_begin(k->log, &k->past, !fresh);
    keeper_lead_applied(k);
}

static struct log **free_place(struct keeper *k)
{
    for (uint32_t i = 0; i < LOGS_OVER_MAX; i++)
        if (k->over[i] == NULL)
            return &k->over[i];
    return NULL;
}

static void leave(struct keeper *k, struct log **place)
{
    if (k->opt.disk)
        log_past(k->log, &k->past);
    log_leave(k->log);
    *place = k->log;
    k->log = NULL;
    k->epoch = 0;
    k->waits[0] = '\0';
    k->relieved = k->view->vid;
}

/* Everybody tells of a view that names others, whether it keeps or not: who was a keeper may know of it alone, and who comes back hears of the keepers that there
 * are now, whoever it knew before. */
int keeper_move(struct keeper *k)
{
    struct log **place = free_place(k);
    uint32_t rank;
    if (k->view->keepers.generation <= k->of.generation || place == NULL || k->opens ||
        k->failure[0] || (PLANTED(group_keepers_go_on) && k->log))
        return 0;
    if (k->log)
        leave(k, place);
    keeper_tell(k);
    k->of = k->view->keepers;
    k->opens = rank_in(&k->of, k->opt.me, &rank) ? rank + 1 : 0;
    return 1;
}

bool keeper_renews(const struct keeper *k)
{
    bool over = false;
    for (uint32_t i = 0; i < LOGS_OVER_MAX; i++)
        over |= k->over[i] && log_is_quiet(k->over[i]);
    return k->opens > 0 || over;
}

void keeper_renew_open(struct keeper *k)
{
    for (uint32_t i = 0; i < LOGS_OVER_MAX; i++)
        if (k->over[i] && log_is_quiet(k->over[i])) {
            log_end_close(k->over[i]);
            k->over[i] = NULL;
        }
    if (k->opens > 0)
        next_open(k);
}

uint32_t keeper_generation(const struct keeper *k)
{
    return k->of.generation;
}

bool keeper_carries(const struct keeper *k)
{
    struct unit_status s = {.behind = true};
    if (k->log)
        log_status(k->log, &s);
    return s.role != UNIT_JOINING && !s.behind;
}

bool keeper_is_relieved(const struct keeper *k)
{
    const struct view_keepers *now = keeper_list(k, k->view);
    uint32_t know = 0;
    if (k->relieved == 0)
        return true;
    for (uint32_t i = 0; i < now->count; i++)
        know += now->host[i] == k->opt.me || k->heard[now->host[i]] >= k->relieved;
    return know > now->count / 2;
}
