/* A host: replicas of the groups that the cluster file gives it, in one loop. */
#include "api/api.h"

#include "agree/memory.h"
#include "api/backup.h"
#include "api/disk.h"
#include "api/loop.h"
#include "api/machine.h"
#include "api/watch.h"
#include "base/clock.h"
#include "base/lines.h"
#include "base/minmax.h"
#include "mcast/replica.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_EVERY_NS = 2000000, /* how often the page is filled while there is work, */
    PAGE_IDLE_NS = 50000000, /* and while there is none: it costs more than the heartbeats */
    WATCH_EVERY_NS = 10000000,
};

/* A replica of one group on this host. */
struct member {
    struct api_machine machine; /* first: the ctx of the calls below */
    struct tram_host *host;
    uint16_t group;
    uint32_t rank;
    struct replica *replica;
    struct trace_writer *trace;
    bool trace_began; /* it says where this life began */
    bool loads;       /* a state is on its way into the machine: */
    uint32_t saves;   /* that the replica has open */
    struct backup backup;
    uint64_t load_bytes, loaded; /* so many of so many bytes, which may be STATE_UNKNOWN */
};

struct tram_host {
    const struct tram_cluster *cluster;
    uint32_t index;
    struct tram_machine machine;
    void *ctx;
    struct tram_log log;
    struct say say;
    struct api_disk disk; /* of a durable cluster */
    struct api_loop run;
    struct member *member;
    uint32_t members;
    struct log_memory *memory; /* of a host that is only memory */
    uint32_t memories;
    struct watch *watch;
    uint64_t watch_ns; /* when it last looked */
    struct api_page *page;
    uint64_t page_ns; /* when it was last filled */
    bool page_old;    /* there was work since */
    bool backs_up;    /* a replica may have something to do for a backup */
};

/* ---- the machine ---- */

/* Of the state that is being loaded; until all of it is there no more than 99. */
static uint32_t restored_percent(const struct member *p)
{
    if (!p->loads)
        return TRAM_NOT_RESTORING;
    if (p->load_bytes == STATE_UNKNOWN || p->load_bytes == 0)
        return 0;
    return (uint32_t)min_u64(99, p->loaded * 100 / p->load_bytes);
}

/* What is on the disk is loaded before the host takes part in anything: until then nobody else fills the page. */
static void show_restoring(struct tram_host *h)
{
    struct tram_disk_stats s;
    if (h->page == NULL || h->watch != NULL || tram_host_disk(h, &s) != TRAM_OK)
        return;
    uint64_t now_ns = clock_now_ns();
    if (now_ns - h->page_ns < PAGE_IDLE_NS)
        return;
    h->page_ns = now_ns;
    api_page_show_disk(h->page, &s);
}

static uint32_t on_deliver(void *ctx, const struct delivery *d, void *reply, uint32_t reply_max)
{
    struct member *p = ctx;
    struct tram_host *h = p->host;
    if (p->trace) {
        struct trace_replica who = {p->group, h->index, h->run.mem->life};
        struct trace_id id = {.seq = d->seq, .client = d->client, .life = d->life};
        if (!p->trace_began) /* a later life, in a cluster that began anew */
            trace_start(p->trace, who, d->number);
        p->trace_began = true;
        trace_deliver(p->trace, who, d->number, id, (struct trace_dst){d->dst.group, d->dst.count});
    }
    /* This host may have been away while the client came, or is yet to meet it. */
    if (h->disk.disk && d->life >= disk_place_life(h->disk.disk, d->client)) {
        if (api_disk_is_open(&h->disk))
            api_mem_saw_client(h->cluster, h->run.mem, d->client, d->life);
        api_disk_saw_client(&h->disk, d->client, d->life);
    }
    return api_deliver(&p->machine, d, reply, reply_max);
}

/* Of a machine that saves in pieces one save is open at a time, the replica's or a backup. The other kind is copied at once. */
static bool may_save(const struct member *p)
{
    return p->machine.calls.save_open == NULL || (p->saves == 0 && !backup_saves(&p->backup));
}

static void on_backup(void *ctx, const unsigned char *id, uint64_t delivered)
{
    struct member *p = ctx;
    if (p->host->disk.disk == NULL)
        return;
    backup_begin(&p->backup, id, delivered, may_save(p));
    p->host->backs_up = true;
}

static bool on_save_ready(void *ctx)
{
    return may_save(ctx);
}

static void *on_save_open(void *ctx, uint64_t *bytes)
{
    struct member *p = ctx;
    void *save = api_save_open(&p->machine, bytes);
    p->saves += save != NULL;
    return save;
}

static void on_save_close(void *ctx, void *save)
{
    struct member *p = ctx;
    p->saves--;
    api_save_close(&p->machine, save);
}

static int on_load_open(void *ctx, uint64_t bytes)
{
    struct member *p = ctx;
    backup_give_up(&p->backup, p->host->disk.disk);
    p->loads = true;
    p->load_bytes = bytes;
    p->loaded = 0;
    return api_load_open(&p->machine, bytes);
}

static int on_load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct member *p = ctx;
    p->loaded += bytes;
    show_restoring(p->host);
    return api_load_next(&p->machine, data, bytes);
}

static int on_load_close(void *ctx, bool whole)
{
    struct member *p = ctx;
    struct tram_host *h = p->host;
    p->loads = false;
    int rc = api_load_close(&p->machine, whole);
    if (p->replica == NULL) /* from the disk: the next delivery says where it begins */
        p->trace_began = false;
    else if (p->trace && whole) {
        struct trace_replica who = {p->group, h->index, h->run.mem->life};
        trace_start(p->trace, who, replica_delivered(p->replica));
        p->trace_began = true;
    }
    return rc;
}

static const struct state_ops state_calls = {
    .save_ready = on_save_ready,
    .save_open = on_save_open,
    .save_next = api_save_next,
    .save_close = on_save_close,
    .load_open = on_load_open,
    .load_next = on_load_next,
    .load_close = on_load_close,
};

static const struct mcast_machine machine_calls = {
    .deliver = on_deliver, .backup = on_backup, .state = &state_calls};

/* ---- opening ---- */

/* Before it is open: what is kept is delivered again. */
static int member_trace(struct member *p, const char *trace_dir, struct err *e)
{
    const struct tram_host *h = p->host;
    char name[2 * CLUSTER_NAME_BYTES + 8];
    snprintf(name, sizeof(name), "%s-%s", p->machine.group_name,
             h->cluster->conf->host[h->index].name);
    int rc = api_trace(h->cluster, trace_dir, name, &h->say, &p->trace, e);
    p->trace_began = h->run.mem->life == 0;
    if (rc == 0 && p->trace_began)
        trace_start(p->trace, (struct trace_replica){p->group, h->index, 0}, 0);
    return rc;
}

static void say_damage(const struct tram_host *h, uint32_t g)
{
    const struct tram_cluster *c = h->cluster;
    const struct disk_found *f = disk_found(h->disk.disk, g);
    if (f->state == DISK_BELOW || f->state == DISK_BEYOND)
        say_event_about(
            &h->say, SAY_EVENT_DAMAGED, &(struct say_about){.groups = c->conf->group[g].name},
            "%s: what its disk has of group %s is damaged: it lacks %s, and fetches what "
            "the others have%s",
            c->conf->host[h->index].name, c->conf->group[g].name, disk_gap_text(f).s,
            f->state == DISK_BEYOND ? "; until then it does not vote" : "");
}

static int member_open(struct tram_host *h, uint16_t group, uint32_t rank, const char *trace_dir,
                       struct err *e)
{
    const struct tram_cluster *c = h->cluster;
    struct member *p = &h->member[h->members];
    *p = (struct member){
        .machine = {.calls = h->machine,
                    .ctx = h->ctx,
                    .group = group,
                    .group_name = c->conf->group[group].name,
                    .say = h->say},
        .host = h,
        .group = group,
        .rank = rank,
    };
    struct replica_options o = api_replica_options(c, group, rank);
    o.mem = h->run.mem;
    o.disk = h->disk.disk;
    o.budget = &h->run.host.budget;
    p->machine.heartbeat_ns = o.heartbeat_ns;
    backup_init(&p->backup, &p->machine);
    o.seed = clock_now_ns() + group;
    o.machine = &machine_calls;
    o.ctx = p;
    h->members++;
    bool whole = o.disk && disk_found(o.disk, group)->state == DISK_WHOLE;
    int rc = trace_dir ? member_trace(p, trace_dir, e) : 0;
    if (rc == 0)
        rc = replica_open(&o, &p->replica, e);
    if (rc != 0)
        return rc;
    if (whole) /* unless its snapshot has turned out not to be */
        say_damage(h, group);
    host_add(&h->run.host, replica_unit(p->replica));
    return 0;
}

/* What the group has at a host that is only memory of it. */
static int memory_open(struct tram_host *h, uint16_t group, struct err *e)
{
    struct log_memory *m = &h->memory[h->memories];
    struct replica_options o = api_replica_options(h->cluster, group, 0);
    o.mem = h->run.mem;
    o.disk = h->disk.disk;
    int rc = replica_memory_open(&o, m, e);
    if (rc != 0)
        return rc;
    h->memories++;
    host_add(&h->run.host, log_memory_unit(m));
    return 0;
}

static int memories_open(struct tram_host *h, struct err *e)
{
    const struct tram_cluster *c = h->cluster;
    int rc = 0;
    h->memory = calloc(c->conf->groups, sizeof(*h->memory));
    if (h->memory == NULL)
        return err_set(e, ERR_NOMEM, "host %s: no memory", c->conf->host[h->index].name);
    for (uint32_t g = 0; rc == 0 && g < c->conf->groups; g++)
        for (uint32_t i = 0; rc == 0 && i < c->group[g].memories; i++)
            if (c->group[g].memory[i] == h->index)
                rc = memory_open(h, (uint16_t)g, e);
    return rc;
}

static uint32_t replicas_of(const struct tram_cluster *c, uint32_t host)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < c->conf->groups; g++)
        for (uint32_t q = 0; q < c->group[g].replicas; q++)
            n += c->group[g].nodes[q] == host;
    return n;
}

/* From the disk's threads. Before the host has a loop nobody sleeps. */
static void on_disk_over(void *ctx)
{
    struct tram_host *h = ctx;
    api_loop_wake(&h->run);
}

/* A torn tail was never told to anybody, and is no loss. */
static void say_found(const struct tram_host *h)
{
    const struct tram_cluster *c = h->cluster;
    const char *me = c->conf->host[h->index].name;
    uint64_t torn = disk_torn(h->disk.disk);
    if (torn)
        say_event(&h->say, SAY_EVENT_TORN,
                  "%s: the last write before it ended, batch %llu, was torn, and is cut", me,
                  (unsigned long long)torn);
    if (h->disk.lives.rejoined) {
        say_event(&h->say, SAY_EVENT_DISK_LOST,
                  "%s: its disk was lost, and what it had comes from the others", me);
        return;
    }
    for (uint32_t g = 0; g < c->conf->groups; g++)
        say_damage(h, g);
}

static int open_disk(struct tram_host *h, struct err *e)
{
    int rc = api_disk_open(h->cluster, h->index, on_disk_over, h, &h->disk, e);
    if (rc == 0)
        say_found(h);
    return rc;
}

static struct api_page_shape page_shape(const struct tram_host *h)
{
    const struct tram_cluster *c = h->cluster;
    return (struct api_page_shape){.dir = h->run.home.dir,
                                   .host = c->conf->host[h->index].name,
                                   .life = h->run.mem->life,
                                   .replicas = replicas_of(c, h->index),
                                   .hosts = c->conf->hosts};
}

static int open_page(struct tram_host *h, struct err *e)
{
    struct api_page_shape shape = page_shape(h);
    h->page = api_page_open(&shape, e);
    return h->page ? 0 : ERR_SYSTEM;
}

static int open_all(struct tram_host *h, const char *trace_dir, struct err *e)
{
    const struct tram_cluster *c = h->cluster;
    struct api_loop_options loop = {.cluster = c,
                                    .index = h->index,
                                    .wait = c->conf->wait,
                                    .traces = trace_dir ? replicas_of(c, h->index) : 0,
                                    .say = &h->say};
    int rc = api_loop_check(&loop, e);
    if (rc == 0 && c->conf->durable)
        rc = open_disk(h, e);
    loop.disk = h->disk.disk;
    loop.lives = h->disk.disk ? &h->disk.lives : NULL;
    if (rc == 0)
        rc = api_loop_open(&h->run, &loop, e);
    if (rc != 0)
        return rc;
    h->member = calloc(c->conf->groups, sizeof(*h->member));
    if (h->member == NULL)
        return err_set(e, ERR_NOMEM, "host %s: no memory", c->conf->host[h->index].name);
    rc = open_page(h, e);
    if (rc != 0)
        return rc;
    for (uint32_t g = 0; g < c->conf->groups; g++)
        for (uint32_t q = 0; q < c->group[g].replicas; q++)
            if (c->group[g].nodes[q] == h->index) {
                rc = member_open(h, (uint16_t)g, q, trace_dir, e);
                if (rc != 0)
                    return rc;
            }
    rc = memories_open(h, e);
    if (rc != 0)
        return rc;
    if (h->disk.disk) {
        disk_forget(h->disk.disk);
        rc = api_disk_opened(&h->disk, c->sizes.clients, e);
        if (rc != 0)
            return rc;
    }
    rc = api_mem_limits(c, h->run.mem, e);
    if (rc != 0)
        return rc;
    api_mem_show(c, h->run.mem, h->page, api_page_bytes(h->members, c->conf->hosts));
    h->watch = watch_open(&(struct watch_options){.cluster = c,
                                                  .host = h->index,
                                                  .mem = h->run.mem,
                                                  .disk = h->disk.disk,
                                                  .loop = &h->run.host,
                                                  .replicas = h->members,
                                                  .say = h->say});
    if (h->watch == NULL)
        return err_set(e, ERR_NOMEM, "host %s: no memory", c->conf->host[h->index].name);
    return 0;
}

int tram_host_open(const struct tram_cluster *c, const struct tram_host_options *o,
                   struct tram_host **out, struct tram_error *error)
{
    struct err e = {""};
    int index = o->name ? cluster_host(c->conf, o->name) : -1;
    if (index < 0)
        return api_error(error,
                         err_set(&e, ERR_NOTFOUND, "there is no host '%s' in cluster %s; %s",
                                 o->name ? o->name : "", c->conf->name,
                                 cluster_hosts_near(c->conf, o->name ? o->name : "").s),
                         &e);
    int rc = api_refuse_group(c, "replicas", &e);
    if (rc != 0)
        return api_error(error, rc, &e);
    const char *mistake = api_machine_mistake(&o->machine);
    if (mistake)
        return api_error(error, err_set(&e, ERR_INVALID, "host %s: %s", o->name, mistake), &e);
    struct tram_host *h = lines_alloc(sizeof(*h));
    if (h == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    h->cluster = c;
    h->index = (uint32_t)index;
    api_loop_init(&h->run);
    h->machine = o->machine;
    h->ctx = o->ctx;
    h->log = o->log;
    h->say = api_say(c, &h->log);
    rc = open_all(h, o->trace_dir, &e);
    if (rc != 0) {
        tram_host_close(h);
        return api_error(error, rc, &e);
    }
    *out = h;
    return TRAM_OK;
}

void tram_host_close(struct tram_host *h)
{
    if (h == NULL)
        return;
    atomic_store(&h->run.looping, false);
    api_disk_stop(&h->disk);
    for (uint32_t i = 0; i < h->members; i++) {
        trace_close(h->member[i].trace, NULL);
        replica_close(h->member[i].replica);
        backup_fini(&h->member[i].backup);
        api_machine_fini(&h->member[i].machine);
    }
    for (uint32_t i = 0; i < h->memories; i++)
        log_memory_close(&h->memory[i]);
    if (h->run.mem) {
        api_mem_show(h->cluster, h->run.mem, NULL, 0);
        struct api_page_shape shape = page_shape(h);
        api_page_close(h->page, &shape);
    }
    api_loop_close(&h->run);
    watch_close(h->watch);
    api_disk_close(&h->disk);
    free(h->member);
    free(h->memory);
    free(h);
}

/* ---- running ---- */

/* Without a log there is nobody to look for. People read the lines, so now and then is enough. */
static void watch(struct tram_host *h)
{
    if (h->say.line == NULL || h->run.host.round_ns - h->watch_ns < WATCH_EVERY_NS)
        return;
    h->watch_ns = h->run.host.round_ns;
    for (uint32_t i = 0; i < h->members; i++)
        watch_look(h->watch, i, h->member[i].group, &h->run.host.unit[i]);
    watch_say(h->watch);
}

/* Now and then; false: not yet. */
static bool page_fill(struct tram_host *h, uint64_t now_ns)
{
    if (now_ns - h->page_ns < (h->page_old ? PAGE_EVERY_NS : PAGE_IDLE_NS))
        return false;
    h->page_ns = now_ns;
    h->page_old = false;
    for (uint32_t i = 0; i < h->members; i++) {
        struct tram_replica_stats s;
        tram_host_replica(h, i, &s);
        api_page_show(h->page, i, &s);
        const struct backup *b = &h->member[i].backup;
        struct api_page_backup shown = {
            .phase = b->phase, .bytes = b->bytes, .delivered = b->delivered};
        memcpy(shown.id, b->id, sizeof(shown.id));
        api_page_show_backup(h->page, i, &shown);
    }
    struct tram_disk_stats disk;
    if (tram_host_disk(h, &disk) == TRAM_OK) {
        api_page_show_disk(h->page, &disk);
        for (uint32_t o = 0; o < h->cluster->conf->hosts; o++)
            api_page_show_life(h->page, o, disk_host_life(h->disk.disk, o));
    }
    struct tcp_counts door;
    if (api_mem_counts(h->cluster, h->run.mem, &door))
        api_page_show_door(h->page, &door);
    api_page_shown(h->page, now_ns);
    return true;
}

static int step_backups(struct tram_host *h)
{
    int work = 0;
    if (!h->backs_up)
        return 0;
    h->backs_up = false;
    for (uint32_t i = 0; i < h->members; i++) {
        struct member *p = &h->member[i];
        if (backup_goes_on(&p->backup))
            work += backup_step(&p->backup, h->disk.disk, p->group);
        h->backs_up |= backup_goes_on(&p->backup);
    }
    return work;
}

static int after_round(struct tram_host *h, int work, struct tram_error *error)
{
    struct err e = {""};
    work += step_backups(h);
    h->page_old |= work > 0;
    if (h->disk.disk && disk_failure(h->disk.disk))
        return api_error(error,
                         err_set(&e, ERR_SYSTEM,
                                 "host %s: %s; what was not written is lost here, "
                                 "and the others go on",
                                 h->cluster->conf->host[h->index].name, disk_failure(h->disk.disk)),
                         &e);
    /* There may be a thousand replicas, and nothing is wrong with them nearly always. */
    if (!page_fill(h, h->run.host.round_ns))
        return work;
    watch(h);
    const char *cut_off = api_mem_failure(h->cluster, h->run.mem);
    if (cut_off)
        return api_error(
            error,
            err_set(&e, ERR_REFUSED, "host %s: %s", h->cluster->conf->host[h->index].name, cut_off),
            &e);
    for (uint32_t i = 0; i < h->members; i++) {
        if (h->member[i].machine.failure)
            return api_error(error,
                             err_set(&e, ERR_CORRUPT, "group %s at host %s: %s",
                                     h->cluster->conf->group[h->member[i].group].name,
                                     h->cluster->conf->host[h->index].name,
                                     h->member[i].machine.failure),
                             &e);
        const struct unit *u = &h->run.host.unit[i];
        if (u->broken)
            return api_error(error,
                             err_set(&e, unit_status(u).lost ? ERR_DATA_LOST : ERR_CORRUPT,
                                     "group %s at host %s: %s",
                                     h->cluster->conf->group[h->member[i].group].name,
                                     h->cluster->conf->host[h->index].name, u->broken),
                             &e);
    }
    return work;
}

int tram_host_step(struct tram_host *h, struct tram_error *error)
{
    return after_round(h, api_loop_step(&h->run), error);
}

int tram_host_poll(struct tram_host *h, struct tram_error *error)
{
    return after_round(h, api_loop_poll(&h->run), error);
}

int tram_host_fd(struct tram_host *h, struct tram_error *error)
{
    struct err e = {""};
    int rc = api_loop_fd(&h->run, &e);
    return rc >= 0 ? rc : api_error(error, rc, &e);
}

void tram_host_wake(struct tram_host *h)
{
    api_loop_wake(&h->run);
}

/* Of what has lasted at all at least 1. */
static uint32_t to_ms(uint64_t ns)
{
    uint64_t ms = (ns + 999999) / 1000000;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

void api_replica_stats(const struct unit *u, uint16_t group, uint32_t rank,
                       struct tram_replica_stats *out)
{
    struct unit_status s = unit_status(u);
    *out = (struct tram_replica_stats){
        .group = group,
        .rank = rank,
        .role = (enum tram_role)s.role,
        .leader = s.leader,
        .ballot = s.promised,
        .applied = s.applied,
        .commit = s.committed,
        .tail = s.written,
        .attached = s.attached,
        .behind = s.behind,
        .delivered = s.delivered,
        .terms = s.count.terms,
        .muted = s.muted_now,
        .kept = s.kept,
        .unkept = s.unkept,
        .lacks = s.lacks,
        .stands = s.stands,
        .restored_percent = TRAM_NOT_RESTORING,
    };
    for (uint32_t q = 0; q < TRAM_REPLICAS_MAX; q++)
        out->detached_ms[q] = to_ms(s.detached_ns[q]);
    for (uint32_t i = 0; i < TRAM_WAITS; i++)
        out->waits[i] = s.count.waits[i];
}

int tram_host_replica(const struct tram_host *h, uint32_t n, struct tram_replica_stats *out)
{
    if (n >= h->members)
        return TRAM_NOTFOUND;
    const struct member *p = &h->member[n];
    api_replica_stats(&h->run.host.unit[n], p->group, p->rank, out);
    out->restored_percent = restored_percent(p);
    if (h->disk.disk && out->lacks) {
        const struct disk_found *f = disk_found(h->disk.disk, p->group);
        out->lacks_from = f->gap_from;
        out->lacks_to = f->gap_to;
    }
    return TRAM_OK;
}

/* What its groups lack, and what is being done about it, is told before the disk's own slowness. */
static void disk_state(const struct tram_host *h, struct tram_disk_stats *out)
{
    uint32_t least = TRAM_NOT_RESTORING;
    bool lacks = false, stands = false;
    for (uint32_t i = 0; i < h->members; i++) {
        least = (uint32_t)min_u64(least, restored_percent(&h->member[i]));
        if (i == h->run.host.units)
            break; /* it is being opened, and no unit yet */
        struct unit_status s = unit_status(&h->run.host.unit[i]);
        lacks |= s.lacks;
        stands |= s.stands;
    }
    if (lacks && h->disk.lives.rejoined && !stands && least == TRAM_NOT_RESTORING)
        least = 0;
    enum tram_disk_state groups = least != TRAM_NOT_RESTORING ? TRAM_DISK_RESTORING
                                  : lacks                     ? TRAM_DISK_DAMAGED
                                                              : TRAM_DISK_OK;
    out->restored_percent = groups == TRAM_DISK_RESTORING ? least : 0;
    out->state = out->state > groups ? out->state : groups;
}

int tram_host_disk(const struct tram_host *h, struct tram_disk_stats *out)
{
    if (h->disk.disk == NULL)
        return TRAM_NOTFOUND;
    api_disk_stats(h->disk.disk, out);
    disk_state(h, out);
    return TRAM_OK;
}

const char *tram_disk_state_text(enum tram_disk_state s)
{
    static const char *const text[] = {"ok", "slow", "restoring", "damaged", "no room", "full"};
    return (unsigned)s < sizeof(text) / sizeof(text[0]) ? text[s] : "unknown";
}
