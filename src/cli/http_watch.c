#include "cli/http_watch.h"

#include "api/api.h"
#include "api/group_page.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/member_view.h"
#include "cli/status_view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVENTS_KEPT = 512,
    EVENT_BYTES = 160,
    POINTS = 720, /* an hour, */
    POINT_S = 5,  /* each of so many seconds */
};

#define HOUR_MS UINT64_C(3600000)
#define FRESH_NS UINT64_C(100000000)

struct event {
    uint64_t at_ms;
    const char *code; /* docs/operating.md, "Watching", has all of them */
    char text[EVENT_BYTES];
    const char *group; /* that was not served, or NULL: all of a view; */
    uint64_t gap_ms;   /* for so long; 0: this is about something else */
};

struct seen_group {
    int leader;          /* rank; -1: nobody */
    uint64_t without_ns; /* since when nobody was seen to lead; 0: somebody does */
};

/* Of the newest view: that it serves nobody. */
struct seen_view {
    bool served; /* ever */
    uint64_t without_ns;
};

struct seen_host {
    enum running_state state;
    enum tram_disk_state disk;
    uint64_t vid;
};

struct http_watch {
    struct running now;
    struct status_view view; /* not under protocol group */
    struct seen_group *group;
    struct seen_host *host;
    struct seen_view members;
    bool looked; /* at least once: what differs from then on is an event */
    struct event event[EVENTS_KEPT];
    uint32_t events;                        /* in all; the last EVENTS_KEPT are there */
    uint64_t delivered, point_ms, point_at; /* where the next point begins */
    uint32_t points;
    double point[POINTS]; /* messages a second */
};

static bool of_members(const struct http_watch *w)
{
    return w->now.cluster->conf->protocol == CLUSTER_GROUP;
}

struct http_watch *http_watch_open(const struct tram_cluster *c, struct err *e)
{
    struct http_watch *w = calloc(1, sizeof(*w));

    if (w == NULL || running_open(&w->now, c, "http") != 0) {
        free(w);
        err_set(e, ERR_NOMEM, "the hosts cannot be looked at");
        return NULL;
    }
    w->group = calloc(c->conf->groups + 1, sizeof(*w->group));
    w->host = calloc(c->conf->hosts, sizeof(*w->host));
    if (w->group == NULL || w->host == NULL || !status_view_open(&w->view, &w->now)) {
        err_set(e, ERR_NOMEM, "no memory");
        http_watch_close(w);
        return NULL;
    }
    for (uint32_t g = 0; g < c->conf->groups; g++)
        w->group[g].leader = -1;
    return w;
}

void http_watch_close(struct http_watch *w)
{
    if (w == NULL)
        return;
    status_view_close(&w->view);
    running_close(&w->now);
    free(w->group);
    free(w->host);
    free(w);
}

/* ---- what changes ---- */

static struct event *tell(struct http_watch *w, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* NULL: it is not told, for it is how the first look found things. */
static struct event *tell(struct http_watch *w, const char *code, const char *fmt, ...)
{
    struct event *e = &w->event[w->events % EVENTS_KEPT];
    va_list ap;

    if (!w->looked)
        return NULL;
    w->events++;
    *e = (struct event){.at_ms = clock_wall_ms(), .code = code};
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return e;
}

static const char *host_name(const struct http_watch *w, uint32_t h)
{
    return tram_cluster_host_name(w->now.cluster, h);
}

static const char *leader_name(const struct http_watch *w, uint32_t g, int rank)
{
    return rank < 0 ? "nobody" : host_name(w, running_host_of(&w->now, g, (uint32_t)rank));
}

static void look_at_group(struct http_watch *w, uint32_t g)
{
    struct seen_group *seen = &w->group[g];
    const char *name = tram_cluster_group_name(w->now.cluster, g);
    int leader = running_leader(&w->now, g);

    if (leader < 0) {
        if (seen->without_ns == 0) {
            seen->without_ns = w->now.now_ns;
            tell(w, "leader-none", "%s: nobody leads, %s did", name,
                 leader_name(w, g, seen->leader));
        }
        return;
    }
    char without[48] = "";
    uint64_t gap_ms = seen->without_ns ? (w->now.now_ns - seen->without_ns) / 1000000 : 0;
    struct event *told = NULL;
    if (gap_ms > 0)
        snprintf(without, sizeof without, "; nobody was seen to for %" PRIu64 " ms", gap_ms);
    if (seen->without_ns != 0 || seen->leader != leader)
        told = tell(w, "leader", "%s: %s leads, %s did%s", name, leader_name(w, g, leader),
                    leader_name(w, g, seen->leader), without);
    if (told && seen->leader >= 0) { /* before the first leader there was nothing to miss */
        told->group = name;
        told->gap_ms = gap_ms;
    }
    *seen = (struct seen_group){.leader = leader};
}

static void look_at_host(struct http_watch *w, uint32_t h)
{
    const struct running_host *host = &w->now.host[h];
    const struct group_page_record *m = of_members(w) ? running_member(&w->now, h) : NULL;
    struct seen_host *seen = &w->host[h];

    if (host->state != seen->state)
        tell(w, host->state == RUNNING_UP ? "host-up" : "host-away", "%s: %s, was %s",
             host_name(w, h), running_state_name(host->state), running_state_name(seen->state));
    if (host->durable && host->disk.state != seen->disk)
        tell(w, "disk", "%s: disk %s, was %s", host_name(w, h),
             tram_disk_state_text(host->disk.state), tram_disk_state_text(seen->disk));
    if (m && host->state == RUNNING_UP && m->vid != seen->vid)
        tell(w, "view", "%s: in view %" PRIu64, host_name(w, h), m->vid);
    *seen = (struct seen_host){
        .state = host->state, .disk = host->disk.state, .vid = m ? m->vid : seen->vid};
}

/* Does anybody who is up have a view in which members can send? */
static bool view_serves(const struct running *r)
{
    for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m && r->host[h].state == RUNNING_UP && m->in_view && m->adequate && !m->wedged)
            return true;
    }
    return false;
}

static void look_at_view(struct http_watch *w)
{
    struct seen_view *seen = &w->members;

    if (!view_serves(&w->now)) {
        if (seen->without_ns == 0 && seen->served) {
            seen->without_ns = w->now.now_ns;
            tell(w, "view-none", "no view is served");
        }
        return;
    }
    if (seen->without_ns != 0) {
        uint64_t gap_ms = (w->now.now_ns - seen->without_ns) / 1000000;
        struct event *told =
            tell(w, "view-serves", "a view is served again; none was seen to be for %" PRIu64 " ms",
                 gap_ms);
        if (told)
            told->gap_ms = gap_ms;
    }
    *seen = (struct seen_view){.served = true};
}

/* By all replicas that have come furthest, or by all members. */
static uint64_t delivered_by_all(const struct http_watch *w)
{
    uint64_t sum = 0;

    for (uint32_t g = 0; !of_members(w) && g < tram_cluster_groups(w->now.cluster); g++)
        sum += w->view.before[g];
    for (uint32_t h = 0; of_members(w) && h < tram_cluster_hosts(w->now.cluster); h++) {
        const struct group_page_record *m = running_member(&w->now, h);
        sum += m ? m->delivered : 0;
    }
    return sum;
}

static void note_rate(struct http_watch *w)
{
    uint64_t ms = clock_wall_ms(), sum = delivered_by_all(w);

    if (w->point_ms == 0) {
        w->point_ms = ms;
        w->delivered = sum;
    }
    if (ms < w->point_ms + POINT_S * 1000)
        return;
    /* Who comes back counts from 0 again. */
    w->point[w->points++ % POINTS] =
        sum > w->delivered ? (double)(sum - w->delivered) * 1000 / (double)(ms - w->point_ms) : 0;
    w->point_ms = ms;
    w->delivered = sum;
}

void http_watch_sample(struct http_watch *w)
{
    if (w->looked && clock_now_ns() < w->now.now_ns + FRESH_NS)
        return;
    running_sample(&w->now);
    if (!of_members(w))
        status_view_update(&w->view);
    for (uint32_t h = 0; h < tram_cluster_hosts(w->now.cluster); h++)
        look_at_host(w, h);
    for (uint32_t g = 0; !of_members(w) && g < tram_cluster_groups(w->now.cluster); g++)
        look_at_group(w, g);
    if (of_members(w))
        look_at_view(w);
    note_rate(w);
    w->looked = true;
}

/* ---- as text ---- */

void http_watch_status(struct http_watch *w, FILE *f)
{
    if (of_members(w))
        member_view_json(&w->now, f);
    else
        status_view_json(&w->view, f);
}

void http_watch_history(const struct http_watch *w, FILE *f)
{
    uint32_t from = w->points > POINTS ? w->points - POINTS : 0;
    uint32_t first = w->events > EVENTS_KEPT ? w->events - EVENTS_KEPT : 0;
    uint64_t ms = clock_wall_ms();
    const char *between = "";

    fprintf(f,
            "{\"cluster\": \"%s\", \"protocol\": \"%s\", \"now_ms\": %" PRIu64
            ", \"point_s\": %d, \"last_ms\": %" PRIu64 ", \"rate\": [",
            w->now.cluster->conf->name, cluster_protocol_name(w->now.cluster->conf->protocol), ms,
            POINT_S, w->point_ms);
    for (uint32_t i = from; i < w->points; i++)
        fprintf(f, "%s%.1f", i > from ? ", " : "", w->point[i % POINTS]);
    fputs("],\n \"events\": [", f);
    for (uint32_t i = first; i < w->events; i++) {
        const struct event *e = &w->event[i % EVENTS_KEPT];
        if (e->at_ms + HOUR_MS < ms)
            continue;
        fprintf(f, "%s\n  {\"ms\": %" PRIu64 ", \"code\": \"%s\", \"text\": ", between, e->at_ms,
                e->code);
        json_string(f, e->text);
        if (e->gap_ms > 0)
            fprintf(f, ", \"gap_ms\": %" PRIu64, e->gap_ms);
        if (e->gap_ms > 0 && e->group)
            fprintf(f, ", \"group\": \"%s\"", e->group);
        fputc('}', f);
        between = ",";
    }
    fputs("]}\n", f);
}

static bool host_healthy(const struct http_watch *w, uint32_t h, FILE *f)
{
    const struct running *r = &w->now;
    bool well = r->host[h].state == RUNNING_UP;

    if (!well)
        fprintf(f, "%s is %s\n", host_name(w, h), running_state_name(r->host[h].state));
    if (r->host[h].durable && r->host[h].disk.state != TRAM_DISK_OK &&
        r->host[h].disk.state != TRAM_DISK_SLOW) {
        fprintf(f, "the disk of %s is %s\n", host_name(w, h),
                tram_disk_state_text(r->host[h].disk.state));
        well = false;
    }
    const struct group_page_record *m = of_members(w) ? running_member(r, h) : NULL;
    if (m && (!m->in_view || !m->adequate || m->broken[0])) {
        fprintf(f, "%s %s%s\n", host_name(w, h),
                m->broken[0] ? m->broken
                : m->in_view ? "is in a view that is not adequate: "
                             : "is in no view: ",
                m->broken[0] ? "" : m->waits);
        well = false;
    }
    return well;
}

static bool carries(const struct running *r, uint32_t g, int host)
{
    for (uint32_t q = 0; q < running_replicas(r, g); q++)
        if (running_host_of(r, g, q) == (uint32_t)host)
            return true;
    return false;
}

bool http_watch_health(struct http_watch *w, int host, FILE *f)
{
    const struct running *r = &w->now;
    bool well = true;

    for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++)
        if (host < 0 || (uint32_t)host == h)
            well &= host_healthy(w, h, f);
    for (uint32_t g = 0; !of_members(w) && g < tram_cluster_groups(r->cluster); g++)
        if ((host < 0 || carries(r, g, host)) && running_leader(r, g) < 0) {
            fprintf(f, "nobody leads %s\n", tram_cluster_group_name(r->cluster, g));
            well = false;
        }
    if (well)
        fputs("well\n", f);
    return well;
}

/* ---- Prometheus ---- */

static void metric(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP tramway_%s %s\n# TYPE tramway_%s %s\n", name, help, name, type);
}

/* A metric with a line for each host: its value is that expression, if the condition holds. */
#define EACH_HOST(name, type, help, condition, value)                                              \
    do {                                                                                           \
        metric(f, name, type, help);                                                               \
        for (uint32_t h = 0; h < hosts; h++) {                                                     \
            const struct running_host *host = &r->host[h];                                         \
            if (condition)                                                                         \
                fprintf(f, "tramway_" name "{host=\"%s\"} %.9g\n", host_name(w, h),                \
                        (double)(value));                                                          \
        }                                                                                          \
    } while (0)

static void host_metrics(const struct http_watch *w, FILE *f)
{
    const struct running *r = &w->now;
    uint32_t hosts = tram_cluster_hosts(r->cluster);

    EACH_HOST("host_up", "gauge", "Whether the host runs and shows itself.", true,
              host->state == RUNNING_UP);
    EACH_HOST("host_life", "gauge", "Processes that were this host before.",
              host->state != RUNNING_DOWN, host->life);
}

static void disk_metrics(const struct http_watch *w, FILE *f)
{
    const struct running *r = &w->now;
    uint32_t hosts = tram_cluster_hosts(r->cluster);

    EACH_HOST("disk_state", "gauge", "0 ok, 1 slow, 2 restoring, 3 damaged, 4 no room, 5 full.",
              host->durable, host->disk.state);
    EACH_HOST("disk_journal_bytes", "gauge", "What the journal holds.", host->durable,
              host->disk.journal_bytes);
    EACH_HOST("disk_journal_bytes_max", "gauge", "What the journal can hold.", host->durable,
              host->disk.journal_bytes_max);
    EACH_HOST("disk_flush_p50_seconds", "gauge",
              "Median of the time until a write is durable, in this life.", host->durable,
              (double)host->disk.flush_p50_ns / 1e9);
    EACH_HOST("disk_flush_p99_seconds", "gauge", "The same, of 99 in 100.", host->durable,
              (double)host->disk.flush_p99_ns / 1e9);
    EACH_HOST("disk_waiting_bytes", "gauge", "Collected and not yet written.", host->durable,
              host->disk.waiting_bytes);
    EACH_HOST("disk_writes_total", "counter", "Batches written in this life.", host->durable,
              host->disk.writes);
    EACH_HOST("disk_written_bytes_total", "counter", "Bytes written in this life.", host->durable,
              host->disk.written_bytes);
}

static void connection_metrics(const struct http_watch *w, FILE *f)
{
    const struct running *r = &w->now;

    metric(f, "connections_total", "counter", "Connections over TCP, by what became of them.");
    for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++) {
#define DOOR_(field)                                                                               \
    fprintf(f, "tramway_connections_total{host=\"%s\",outcome=\"" #field "\"} %" PRIu64 "\n",      \
            host_name(w, h), r->host[h].door.field);
        TCP_COUNTS_LIST(DOOR_)
#undef DOOR_
    }
}

#define EACH_REPLICA(name, type, help, condition, value)                                           \
    do {                                                                                           \
        metric(f, name, type, help);                                                               \
        for (uint32_t g = 0; g < groups; g++) {                                                    \
            int leader = running_leader(r, g);                                                     \
            for (uint32_t q = 0; q < running_replicas(r, g); q++) {                                \
                const struct tram_replica_stats *s = running_replica(r, g, q);                     \
                uint32_t h = running_host_of(r, g, q);                                             \
                bool up = r->host[h].state == RUNNING_UP, leads = leader == (int)q;                \
                (void)leads, (void)s;                                                              \
                if (up && (condition))                                                             \
                    fprintf(f, "tramway_" name "{group=\"%s\",host=\"%s\"} %.17g\n",               \
                            tram_cluster_group_name(r->cluster, g), host_name(w, h),               \
                            (double)(value));                                                      \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static uint64_t lag_of(const struct running *r, uint32_t g, int leader,
                       const struct tram_replica_stats *s)
{
    uint64_t first = running_replica(r, g, (uint32_t)leader)->applied;

    return first > s->applied ? first - s->applied : 0;
}

static void wait_metrics(const struct http_watch *w, FILE *f)
{
    const struct running *r = &w->now;

    metric(f, "decided_seconds", "histogram",
           "Time until what a leader wrote was decided, a batch each; 0 if in the same round.");
    for (uint32_t g = 0; g < tram_cluster_groups(r->cluster); g++)
        for (uint32_t q = 0; q < running_replicas(r, g); q++) {
            const struct tram_replica_stats *s = running_replica(r, g, q);
            const char *group = tram_cluster_group_name(r->cluster, g),
                       *host = host_name(w, running_host_of(r, g, q));
            if (r->host[running_host_of(r, g, q)].state != RUNNING_UP)
                continue;
            uint64_t count = 0;
            double sum = 0;
            for (uint32_t i = 0; i < TRAM_WAITS; i++) {
                double below = 1.024e-6 * (double)(UINT64_C(1) << 2 * i);
                count += s->waits[i];
                /* The middle of what it counts: the exact sum is not known. */
                sum += (double)s->waits[i] * (i == 0 ? 0 : below * 0.625);
                char le[24] = "+Inf";
                if (i + 1 < TRAM_WAITS)
                    snprintf(le, sizeof le, "%.9g", below);
                fprintf(f,
                        "tramway_decided_seconds_bucket{group=\"%s\",host=\"%s\",le=\"%s\"} "
                        "%" PRIu64 "\n",
                        group, host, le, count);
            }
            fprintf(f,
                    "tramway_decided_seconds_sum{group=\"%s\",host=\"%s\"} %.9g\n"
                    "tramway_decided_seconds_count{group=\"%s\",host=\"%s\"} %" PRIu64 "\n",
                    group, host, sum, group, host, count);
        }
}

static void group_metrics(const struct http_watch *w, FILE *f)
{
    const struct running *r = &w->now;
    uint32_t groups = tram_cluster_groups(r->cluster);

    metric(f, "group_led", "gauge", "Whether a host that runs leads the group.");
    for (uint32_t g = 0; g < groups; g++)
        fprintf(f, "tramway_group_led{group=\"%s\"} %d\n", tram_cluster_group_name(r->cluster, g),
                running_leader(r, g) >= 0);
    EACH_REPLICA("replica_leads", "gauge", "Whether this replica leads the group.", true, leads);
    EACH_REPLICA("replica_terms_total", "counter",
                 "Times that this replica began to lead, in this life of its host.", true,
                 s->terms);
    EACH_REPLICA("replica_delivered_total", "counter",
                 "Messages in the replica's state, those of snapshots included.", true,
                 s->delivered);
    EACH_REPLICA("replica_lag_bytes", "gauge",
                 "Of the log, between what the leader has applied and what this replica has.",
                 leader >= 0, lag_of(r, g, leader, s));
    EACH_REPLICA("replica_undecided_bytes", "gauge", "Written by the leader and not decided.",
                 leads, s->tail - s->commit);
    EACH_REPLICA("replica_behind", "gauge", "Whether it waits for a snapshot.", true, s->behind);
    EACH_REPLICA("replica_detached_seconds", "gauge",
                 "For how long it has not taken what the leader writes.", leader >= 0,
                 (double)running_replica(r, g, (uint32_t)leader)->detached_ms[q] / 1e3);
    EACH_REPLICA("replica_unkept_bytes", "gauge", "Accepted, and not yet on its disk.",
                 r->cluster->conf->durable, s->unkept);
    EACH_REPLICA("replica_stands", "gauge",
                 "Whether the group stands since too many disks lack what it had.",
                 r->cluster->conf->durable, s->stands);
    EACH_REPLICA("clients_muted", "gauge",
                 "Clients that are not read any more, for having written nonsense.", leads,
                 s->muted);
    wait_metrics(w, f);
}

#define EACH_MEMBER(name, type, help, value)                                                       \
    do {                                                                                           \
        metric(f, name, type, help);                                                               \
        for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++) {                            \
            const struct group_page_record *m = running_member(r, h);                              \
            if (m && r->host[h].state == RUNNING_UP)                                               \
                fprintf(f, "tramway_" name "{host=\"%s\"} %" PRIu64 "\n", host_name(w, h),         \
                        (uint64_t)(value));                                                        \
        }                                                                                          \
    } while (0)

static void member_metrics(const struct http_watch *w, FILE *f)
{
    const struct running *r = &w->now;

    EACH_MEMBER("member_view", "gauge", "Number of the view that the member is in, or was last.",
                m->vid);
    EACH_MEMBER("member_in_view", "gauge", "Whether it is in one.", m->in_view != 0);
    EACH_MEMBER("member_view_adequate", "gauge", "Whether its view has enough members to send.",
                m->adequate != 0);
    EACH_MEMBER("member_views_total", "counter", "Views that it has been in, in this life.",
                m->views);
    EACH_MEMBER("member_put_out_total", "counter", "Times it was put out while it lived.",
                m->put_out);
    EACH_MEMBER("member_sent_total", "counter", "Messages that it has sent.", m->sent);
    EACH_MEMBER("member_delivered_total", "counter", "Messages that it has delivered.",
                m->delivered);
    EACH_MEMBER("member_delivered_bytes_total", "counter", "Bytes of these.", m->delivered_bytes);
    EACH_MEMBER("member_returned_total", "counter",
                "Messages that came back, since it is no sender there any more.", m->returned);
    EACH_MEMBER("member_states_sent_total", "counter", "States sent to members that came.",
                m->states_sent);
    EACH_MEMBER("member_states_loaded_total", "counter", "States got from others.",
                m->states_loaded);
    EACH_MEMBER("member_keeper_leads", "gauge", "Whether it leads the log of views.", m->leads);
}

/* Under protocol group a cluster file does not say at one place whether it is durable. */
static bool have_disks(const struct running *r)
{
    bool have = r->cluster->conf->durable;

    for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++)
        have |= r->host[h].durable;
    return have;
}

void http_watch_metrics(struct http_watch *w, FILE *f)
{
    host_metrics(w, f);
    if (have_disks(&w->now))
        disk_metrics(w, f);
    if (w->now.cluster->conf->transport == CLUSTER_TCP)
        connection_metrics(w, f);
    if (of_members(w))
        member_metrics(w, f);
    else
        group_metrics(w, f);
}
