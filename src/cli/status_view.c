#include "cli/status_view.h"

#include "api/api.h"
#include "cli/cmd.h"
#include "conf/cluster.h"
#include "unit/unit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct state_text {
    char s[32];
};

bool status_view_open(struct status_view *v, const struct running *now)
{
    uint32_t groups = tram_cluster_groups(now->cluster);

    v->now = now;
    v->before = calloc(groups, sizeof(*v->before));
    v->position = calloc(groups, sizeof(*v->position));
    v->rate = calloc(groups, sizeof(*v->rate));
    v->late = calloc((size_t)groups * CLUSTER_REPLICAS_MAX, sizeof(*v->late));
    return v->before && v->position && v->rate && v->late;
}

void status_view_close(struct status_view *v)
{
    free(v->before);
    free(v->position);
    free(v->rate);
    free(v->late);
}

/* ---- numbers ---- */

/* Of the replica on a live host that has come furthest: a leader may just be missing. */
static uint64_t delivered(const struct running *r, uint32_t g)
{
    uint64_t most = 0;

    for (uint32_t q = 0; q < running_replicas(r, g); q++) {
        uint64_t n = running_replica(r, g, q)->delivered;
        if (r->host[running_host_of(r, g, q)].state != RUNNING_DOWN && n > most)
            most = n;
    }
    return most;
}

void status_view_update(struct status_view *v)
{
    const struct running *r = v->now;
    double seconds = (double)(r->now_ns - v->before_ns) / 1e9;

    for (uint32_t g = 0; g < tram_cluster_groups(r->cluster); g++) {
        uint64_t count = delivered(r, g);
        bool known = v->before_ns != 0 && count >= v->before[g];
        v->rate[g] = known ? (double)(count - v->before[g]) / seconds : 0;
        v->before[g] = count;
        for (uint32_t q = 0; q < running_replicas(r, g); q++)
            v->late[g * CLUSTER_REPLICAS_MAX + q] =
                v->before_ns != 0 && running_replica(r, g, q)->applied < v->position[g];
        int leader = running_leader(r, g);
        v->position[g] = leader < 0 ? 0 : running_replica(r, g, (uint32_t)leader)->applied;
    }
    v->before_ns = r->now_ns;
}

/* For how long the replica has not taken what the leader writes. */
static uint32_t detached_ms(const struct status_view *v, uint32_t g, uint32_t q)
{
    int leader = running_leader(v->now, g);

    return leader < 0 ? 0 : running_replica(v->now, g, (uint32_t)leader)->detached_ms[q];
}

/* What is wrong with a replica, in one word; NULL if nothing is. */
static const char *trouble(const struct status_view *v, uint32_t g, uint32_t q)
{
    const struct running *r = v->now;
    const struct tram_replica_stats *s = running_replica(r, g, q);
    enum running_state state = r->host[running_host_of(r, g, q)].state;

    if (state != RUNNING_UP)
        return running_state_name(state);
    if (s->lacks)
        return s->restored_percent == TRAM_NOT_RESTORING ? "damaged" : "restoring";
    if (s->behind)
        return "behind";
    if (s->role == TRAM_JOINING)
        return "joining";
    if (detached_ms(v, g, q) > 0)
        return "detached";
    return v->late[g * CLUSTER_REPLICAS_MAX + q] ? "late" : NULL;
}

/* Nobody can be taken back into the group: too many disks lack what it had. */
static bool stands(const struct running *r, uint32_t g)
{
    for (uint32_t q = 0; q < running_replicas(r, g); q++)
        if (r->host[running_host_of(r, g, q)].state == RUNNING_UP &&
            running_replica(r, g, q)->stands)
            return true;
    return false;
}

/* ---- for a person ---- */

static void print_group(const struct status_view *v, FILE *to, uint32_t g)
{
    const struct running *r = v->now;
    int leader = running_leader(r, g);
    char attached[16] = "-", positions[48] = "-", ballot[24] = "-";

    if (leader >= 0) {
        const struct tram_replica_stats *s = running_replica(r, g, (uint32_t)leader);
        snprintf(attached, sizeof attached, "%u/%u", s->attached, running_members(r, g));
        snprintf(positions, sizeof positions, "%" PRIu64 "/%" PRIu64, s->applied, s->commit);
        snprintf(ballot, sizeof ballot, "%" PRIu64, s->ballot);
    }
    fprintf(
        to, "%-12s %-12s %8s %23s %9s %12" PRIu64 " %11.0f", tram_cluster_group_name(r->cluster, g),
        leader < 0 ? "none"
                   : tram_cluster_host_name(r->cluster, running_host_of(r, g, (uint32_t)leader)),
        ballot, positions, attached, delivered(r, g), v->rate[g]);
    const char *between = "  ";
    for (uint32_t q = 0; q < running_replicas(r, g); q++) {
        const char *what = trouble(v, g, q);
        if (what == NULL)
            continue;
        fprintf(to, "%s%s %s", between,
                tram_cluster_host_name(r->cluster, running_host_of(r, g, q)), what);
        const struct tram_replica_stats *s = running_replica(r, g, q);
        if (s->lacks && s->lacks_to > 0)
            fprintf(to, " (positions %" PRIu64 " to %" PRIu64 ")", s->lacks_from, s->lacks_to);
        if (detached_ms(v, g, q) > 0)
            fprintf(to, " (detached %.1f s ago)", (double)detached_ms(v, g, q) / 1e3);
        between = ", ";
    }
    if (stands(r, g))
        fprintf(to, "; it stands: the disks of a majority lack what it had");
    uint32_t muted = leader < 0 ? 0 : running_replica(r, g, (uint32_t)leader)->muted;
    if (muted > 0)
        fprintf(to, "%s%u client%s muted", between, muted, muted == 1 ? "" : "s");
    fputc('\n', to);
}

static void print_hosts(const struct status_view *v, FILE *to)
{
    const struct running *r = v->now;
    uint32_t hosts = tram_cluster_hosts(r->cluster), up = 0;
    const char *between = ": ";

    for (uint32_t h = 0; h < hosts; h++)
        up += r->host[h].state == RUNNING_UP;
    fprintf(to, "%u of %u hosts up", up, hosts);
    for (uint32_t h = 0; h < hosts; h++)
        if (r->host[h].state != RUNNING_UP) {
            fprintf(to, "%s%s %s", between, tram_cluster_host_name(r->cluster, h),
                    running_state_name(r->host[h].state));
            between = ", ";
        }
    fputc('\n', to);
}

/* Who was not let in, or was sent away: nothing is printed of a door that has seen friends alone. */
static void print_doors(const struct status_view *v, FILE *to)
{
    const struct running *r = v->now;

    for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++) {
        const struct tcp_counts *d = &r->host[h].door;
        const struct {
            uint64_t count;
            const char *what;
        } seen[] = {
            {d->strangers, "strangers"}, {d->late, "late"},           {d->crowded, "crowded"},
            {d->no_room, "no room"},     {d->malformed, "malformed"}, {d->retired, "retired keys"},
        };
        const char *between = "";
        for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
            if (seen[i].count == 0)
                continue;
            if (!*between)
                fprintf(to, "%s turned away of %" PRIu64 " connections",
                        tram_cluster_host_name(r->cluster, h), d->accepted);
            fprintf(to, "%s%s %" PRIu64, *between ? ", " : ": ", seen[i].what, seen[i].count);
            between = ", ";
        }
        if (*between)
            fputc('\n', to);
    }
}

/* Of all replicas of the host. */
static uint64_t unkept(const struct running *r, uint32_t host)
{
    uint64_t sum = 0;

    for (uint32_t g = 0; g < tram_cluster_groups(r->cluster); g++)
        for (uint32_t q = 0; q < running_replicas(r, g); q++)
            if (running_host_of(r, g, q) == host)
                sum += running_replica(r, g, q)->unkept;
    return sum;
}

static struct state_text disk_state(const struct tram_disk_stats *d)
{
    struct state_text t;

    snprintf(t.s, sizeof t.s, "%s", tram_disk_state_text(d->state));
    if (d->state == TRAM_DISK_RESTORING)
        snprintf(t.s, sizeof t.s, "restoring %u %%", d->restored_percent);
    return t;
}

static void print_disks(const struct status_view *v, FILE *to)
{
    const struct running *r = v->now;
    const double mib = 1 << 20, ms = 1e6;

    if (!r->cluster->conf->durable)
        return;
    fprintf(to, "%-12s %-14s %19s %20s %14s %14s\n", "DISK OF", "STATE", "JOURNAL MiB",
            "FLUSH p50/p99 ms", "WAITING bytes", "UNKEPT bytes");
    for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++) {
        const struct tram_disk_stats *d = &r->host[h].disk;
        char journal[48] = "-", flush[48] = "-";
        if (!r->host[h].durable || r->host[h].state == RUNNING_DOWN) {
            fprintf(to, "%-12s %s\n", tram_cluster_host_name(r->cluster, h), "-");
            continue;
        }
        snprintf(journal, sizeof journal, "%.1f of %.0f", (double)d->journal_bytes / mib,
                 (double)d->journal_bytes_max / mib);
        snprintf(flush, sizeof flush, "%.2f/%.2f", (double)d->flush_p50_ns / ms,
                 (double)d->flush_p99_ns / ms);
        fprintf(to, "%-12s %-14s %19s %20s %14" PRIu64 " %14" PRIu64 "\n",
                tram_cluster_host_name(r->cluster, h), disk_state(d).s, journal, flush,
                d->waiting_bytes, unkept(r, h));
    }
}

void status_view_print(const struct status_view *v, FILE *to, uint32_t groups_max)
{
    uint32_t groups = tram_cluster_groups(v->now->cluster);
    uint32_t shown = groups_max && groups_max < groups ? groups_max : groups;
    double sum = 0;

    print_hosts(v, to);
    print_doors(v, to);
    print_disks(v, to);
    fprintf(to, "%-12s %-12s %8s %23s %9s %12s %11s  %s\n", "GROUP", "LEADER", "BALLOT",
            "APPLIED/COMMIT", "ATTACHED", "DELIVERED", "PER SECOND", "TROUBLE");
    for (uint32_t g = 0; g < shown; g++)
        print_group(v, to, g);
    if (shown < groups)
        fprintf(to, "and %u more groups\n", groups - shown);
    for (uint32_t g = 0; g < groups; g++)
        sum += v->rate[g];
    fprintf(to, "all groups: %.0f deliveries a second\n", sum);
}

/* ---- for a program ---- */

/* Names have no character that JSON would need escaped. */
static void json_group(const struct status_view *v, FILE *to, uint32_t g)
{
    const struct running *r = v->now;
    int leader = running_leader(r, g);
    static const struct tram_replica_stats none;
    const struct tram_replica_stats *s =
        leader < 0 ? &none : running_replica(r, g, (uint32_t)leader);

    fprintf(to, "%s\n  {\"group\": \"%s\", \"leader\": ", g ? "," : "",
            tram_cluster_group_name(r->cluster, g));
    if (leader < 0)
        fprintf(to, "null");
    else
        fprintf(to, "\"%s\"",
                tram_cluster_host_name(r->cluster, running_host_of(r, g, (uint32_t)leader)));
    fprintf(to,
            ", \"ballot\": %" PRIu64 ", \"applied\": %" PRIu64 ", \"commit\": %" PRIu64
            ", \"tail\": %" PRIu64 ", \"attached\": %u, \"replicas\": %u, \"delivered\": %" PRIu64
            ", \"rate\": %.1f, \"muted\": %u, ",
            s->ballot, s->applied, s->commit, s->tail, s->attached, running_replicas(r, g),
            delivered(r, g), v->rate[g], s->muted);
    if (r->cluster->conf->durable)
        fprintf(to, "\"stands\": %s, ", stands(r, g) ? "true" : "false");
    int32_t parent = r->cluster->conf->group[g].parent;
    if (parent != CLUSTER_NONE)
        fprintf(to, "\"parent\": \"%s\", ", tram_cluster_group_name(r->cluster, (uint32_t)parent));
    fprintf(to, "\"waits\": [");
    for (uint32_t i = 0; i < TRAM_WAITS; i++)
        fprintf(to, "%s%" PRIu64, i ? ", " : "", s->waits[i]);
    fprintf(to, "], ");
    fprintf(to, "\n   \"members\": [");
    for (uint32_t q = 0; q < running_replicas(r, g); q++) {
        const struct tram_replica_stats *m = running_replica(r, g, q);
        const char *what = trouble(v, g, q);
        uint32_t host = running_host_of(r, g, q);
        fprintf(to,
                "%s{\"host\": \"%s\", \"role\": \"%s\", \"applied\": %" PRIu64
                ", \"delivered\": %" PRIu64 ", \"detached_ms\": %u, ",
                q ? ", " : "", tram_cluster_host_name(r->cluster, host),
                r->host[host].state == RUNNING_UP ? unit_role_name((enum unit_role)m->role)
                                                  : "unknown",
                m->applied, m->delivered, detached_ms(v, g, q));
        if (r->cluster->conf->durable)
            fprintf(to, "\"kept\": %" PRIu64 ", \"unkept\": %" PRIu64 ", \"lacks\": %s, ", m->kept,
                    m->unkept, m->lacks ? "true" : "false");
        fprintf(to, "\"trouble\": ");
        fprintf(to, what ? "\"%s\"}" : "null}", what);
    }
    fprintf(to, "]}");
}

static void json_door(const struct tcp_counts *d, FILE *to)
{
    const char *between = "";

    fprintf(to, ", \"door\": {");
#define JSON_(field)                                                                               \
    fprintf(to, "%s\"" #field "\": %" PRIu64, between, d->field);                                  \
    between = ", ";
    TCP_COUNTS_LIST(JSON_)
#undef JSON_
    fputc('}', to);
}

void status_view_json_disk(const struct tram_disk_stats *d, FILE *to)
{
    fprintf(to, ", \"disk\": {\"state\": \"%s\", ", tram_disk_state_text(d->state));
    if (d->state == TRAM_DISK_RESTORING)
        fprintf(to, "\"restored_percent\": %u, ", d->restored_percent);
    fprintf(to,
            "\"journal_bytes\": %" PRIu64 ", \"journal_bytes_max\": %" PRIu64
            ", \"flush_p50_ns\": %" PRIu64 ", \"flush_p99_ns\": %" PRIu64
            ", \"waiting_bytes\": %" PRIu64 ", \"writes\": %" PRIu64 ", \"written_bytes\": %" PRIu64
            "}",
            d->journal_bytes, d->journal_bytes_max, d->flush_p50_ns, d->flush_p99_ns,
            d->waiting_bytes, d->writes, d->written_bytes);
}

void status_view_json(const struct status_view *v, FILE *to)
{
    const struct running *r = v->now;

    fprintf(to, "{" CMD_JSON_VERSION ",\n \"hosts\": [");
    for (uint32_t h = 0; h < tram_cluster_hosts(r->cluster); h++) {
        fprintf(to, "%s\n  {\"host\": \"%s\", \"state\": \"%s\", \"pid\": %d, \"life\": %u",
                h ? "," : "", tram_cluster_host_name(r->cluster, h),
                running_state_name(r->host[h].state), (int)r->host[h].pid, r->host[h].life);
        json_door(&r->host[h].door, to);
        if (r->host[h].durable)
            status_view_json_disk(&r->host[h].disk, to);
        fputc('}', to);
    }
    fprintf(to, "],\n \"groups\": [");
    for (uint32_t g = 0; g < tram_cluster_groups(r->cluster); g++)
        json_group(v, to, g);
    fprintf(to, "]}\n");
}
