#include "cli/member_view.h"

#include "api/api.h"
#include "api/group_page.h"
#include "base/json.h"
#include "cli/cmd.h"
#include "cli/status_view.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static const char *const state_names[] = {"unborn", "lives", "vacant"};

enum { NAMES_BYTES = 8 * 40 };

struct names {
    char s[NAMES_BYTES];
};

static const char *host_name(const struct running *r, uint32_t h)
{
    return r->cluster->conf->host[h].name;
}

static const char *state_name(uint64_t state)
{
    return state < sizeof state_names / sizeof state_names[0] ? state_names[state] : "?";
}

/* "h1 h2 h5", or "nobody". */
static struct names names_of(const struct running *r, uint64_t set)
{
    struct names out = {"nobody"};
    size_t used = 0;

    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++) {
        if (!in_set(set, h))
            continue;
        if (used + CLUSTER_NAME_BYTES + 8 > sizeof out.s) {
            snprintf(out.s + used, sizeof out.s - used, " ...");
            return out;
        }
        used += (size_t)snprintf(out.s + used, sizeof out.s - used, "%s%s", used ? " " : "",
                                 host_name(r, h));
    }
    return out;
}

/* The earliest time at which anybody saw that life of the host, and the view it came in. */
static uint64_t since(const struct running *r, uint32_t host, uint64_t life, uint64_t *vid)
{
    uint64_t ms = 0;

    *vid = 0;
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m == NULL || m->life[host] != life || m->since_vid[host] == 0)
            continue;
        if (*vid == 0 || m->since_vid[host] < *vid) {
            *vid = m->since_vid[host];
            ms = m->since_ms[host];
        }
    }
    return ms;
}

struct when {
    char s[32];
};

static struct when when(uint64_t ms)
{
    struct when out = {"?"};
    time_t t = (time_t)(ms / 1000);
    struct tm tm;

    if (ms != 0 && localtime_r(&t, &tm) != NULL)
        strftime(out.s, sizeof out.s, "%Y-%m-%d %H:%M:%S", &tm);
    return out;
}

/* Who says that it leads the keepers; -1: nobody. */
static int leader(const struct running *r)
{
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m != NULL && r->host[h].state == RUNNING_UP && m->leads)
            return (int)h;
    }
    return -1;
}

/* What is waited for, of whoever can tell: the one that leads the keepers, else the first. */
static const char *waits(const struct running *r)
{
    int lead = leader(r);

    if (lead >= 0)
        return running_member(r, (uint32_t)lead)->waits;
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m != NULL && r->host[h].state == RUNNING_UP && m->waits[0] != '\0')
            return m->waits;
    }
    return "";
}

/* ---- for people ---- */

static const char *why_missing(const struct running *r, uint32_t h)
{
    const struct group_page_record *m = running_member(r, h);

    switch (r->host[h].state) {
    case RUNNING_DOWN:
        return "down";
    case RUNNING_STARTING:
        return "starting";
    case RUNNING_SILENT:
        return "silent: stopped, or hung";
    case RUNNING_ELSEWHERE:
        return "on another machine, and does not answer";
    case RUNNING_UP:
        break;
    }
    if (m != NULL && m->broken[0] != '\0')
        return m->broken;
    return m != NULL && m->has_left ? "has left" : "joining";
}

static void print_member(const struct running *r, const struct group_page_record *v, uint32_t h,
                         FILE *f)
{
    const struct group_page_record *m = running_member(r, h);
    uint64_t vid;
    uint64_t ms = since(r, h, v->life[h], &vid);

    fprintf(f, "  %-12s %-8" PRIu64 " view %-6" PRIu64 " %-20s", host_name(r, h),
            (v->life[h] >> 16) - 1, vid, when(ms).s);
    if (m != NULL && m->in_view && m->vid == v->vid)
        fprintf(f, " %12" PRIu64 " %12" PRIu64 " %8" PRIu64, m->sent, m->delivered, m->put_out);
    if (m == NULL || r->host[h].state != RUNNING_UP)
        fprintf(f, "  %s", running_state_name(r->host[h].state));
    else if (m->in_view && m->vid == v->vid && m->wedged)
        fputs("  the view ends", f);
    else if (!m->in_view || m->vid != v->vid)
        fputs("  not yet in it", f);
    fputc('\n', f);
}

/* Whether all who are up and have its state have the same; a machine may tell nothing. */
static void print_state(const struct running *r, const struct group_page_record *v, uint32_t cell,
                        FILE *f)
{
    const struct group_page_record *most = NULL;

    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m == NULL || r->host[h].state != RUNNING_UP || !in_set(v->cell[cell].members, h) ||
            !m->cell[cell].has_state)
            continue;
        if (most == NULL || m->cell[cell].state_count > most->cell[cell].state_count)
            most = m;
    }
    if (most != NULL && most->cell[cell].state_count > 0)
        fprintf(f, "  %" PRIu64 " messages, hash %016" PRIx64, most->cell[cell].state_count,
                most->cell[cell].state_hash);
}

static void print_cell(const struct running *r, const struct group_page_record *v, uint32_t cell,
                       FILE *f)
{
    const struct cluster *c = r->cluster->conf;
    const struct group_page_cell *at = &v->cell[cell];
    uint32_t shard;
    const struct cluster_subgroup *s = &c->subgroup[cluster_cell_subgroup(c, cell, &shard)];
    uint64_t behind = at->members & ~at->stateful;

    fprintf(f, "  %-16s %-6s %-7s %s", cluster_cell_name(c, cell).s, cluster_mode_names[s->mode],
            state_name(at->state), names_of(r, at->members).s);
    if (at->senders != at->members)
        fprintf(f, "; senders: %s", names_of(r, at->senders).s);
    if (at->state == CELL_LIVES)
        for (uint32_t h = 0; h < c->hosts; h++) { /* who has got it meanwhile */
            const struct group_page_record *m = running_member(r, h);
            if (m != NULL && m->vid == v->vid && m->cell[cell].has_state)
                behind &= ~set_of(h);
        }
    if (at->state == CELL_LIVES && behind != 0)
        fprintf(f, "; without its state yet: %s", names_of(r, behind).s);
    if (at->state == CELL_VACANT)
        fprintf(
            f,
            "; its last members were %s, and its state is gone: `tram view --reset %s` begins it"
            " anew",
            names_of(r, at->members_last).s, cluster_cell_name(c, cell).s);
    else if (at->lacks > 0)
        fprintf(f, "; lacks %" PRIu64 " member%s", at->lacks, at->lacks == 1 ? "" : "s");
    print_state(r, v, cell, f);
    fputc('\n', f);
}

/* As whoever has heard of the newest view says; before there is one, as the file does. */
static uint64_t keepers(const struct running *r, uint64_t *generation)
{
    const struct cluster *c = r->cluster->conf;
    uint64_t set = 0, newest = 0;

    *generation = 0;
    for (uint32_t i = 0; i < c->keepers; i++)
        set |= set_of(c->keeper[i]);
    for (uint32_t h = 0; h < c->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m == NULL || m->newest <= newest)
            continue;
        newest = m->newest;
        set = m->keepers;
        *generation = m->generation;
    }
    return set;
}

static void print_keepers(const struct running *r, FILE *f)
{
    uint64_t generation;
    int lead = leader(r);

    fputs("keepers:", f);
    for (uint64_t rest = keepers(r, &generation); rest; rest = set_rest(rest)) {
        uint32_t h = set_first(rest);
        fprintf(f, r->host[h].state == RUNNING_UP ? " %s" : " %s (%s)", host_name(r, h),
                running_state_name(r->host[h].state));
    }
    if (generation > 0)
        fprintf(f, " (moved %" PRIu64 " time%s)", generation, generation == 1 ? "" : "s");
    if (lead >= 0)
        fprintf(f, "; %s leads them\n", host_name(r, (uint32_t)lead));
    else
        fputs("; nobody leads them\n", f);
}

static void print_missing(const struct running *r, const struct group_page_record *v, FILE *f)
{
    const struct cluster *c = r->cluster->conf;

    for (uint32_t h = 0; h < c->hosts; h++)
        if (v == NULL || !in_set(v->members, h))
            fprintf(f, "  %-12s not in it: %s\n", host_name(r, h), why_missing(r, h));
}

void member_view_print(const struct running *r, FILE *f)
{
    const struct cluster *c = r->cluster->conf;
    int best = running_newest(r);
    const struct group_page_record *v = best >= 0 ? running_member(r, (uint32_t)best) : NULL;
    const char *waited = waits(r);

    if (v == NULL)
        fprintf(f, "cluster '%s': no view yet\n", c->name);
    else
        fprintf(f, "cluster '%s': view %" PRIu64 " since %s, %u of %u hosts%s%s\n", c->name, v->vid,
                when(v->view_ms).s, set_count(v->members), c->hosts,
                v->adequate ? "" : "; not adequate: a cell lacks members, and nobody sends",
                v->wedged ? "; it is ending" : "");
    if (waited[0] != '\0')
        fprintf(f, "waits: %s\n", waited);
    fprintf(f, "  %-12s %-8s %-11s %-20s %12s %12s %8s\n", "MEMBER", "LIFE", "SINCE", "", "SENT",
            "DELIVERED", "PUT OUT");
    for (uint32_t h = 0; v != NULL && h < c->hosts; h++)
        if (in_set(v->members, h))
            print_member(r, v, h, f);
    print_missing(r, v, f);
    if (v != NULL)
        fprintf(f, "  %-16s %-6s %-7s MEMBERS\n", "CELL", "MODE", "STATE");
    for (uint32_t i = 0; v != NULL && i < cluster_cells(c); i++)
        print_cell(r, v, i, f);
    print_keepers(r, f);
}

/* ---- for programs ---- */

static void json_hosts(const struct running *r, const char *key, uint64_t set, FILE *f)
{
    const char *between = "";

    fprintf(f, "\"%s\":[", key);
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++)
        if (in_set(set, h)) {
            fprintf(f, "%s\"%s\"", between, host_name(r, h));
            between = ",";
        }
    fputc(']', f);
}

static void json_member(const struct running *r, const struct group_page_record *v, uint32_t h,
                        FILE *f)
{
    const struct group_page_record *m = running_member(r, h);
    bool in = v != NULL && in_set(v->members, h);
    uint64_t vid = 0, ms = in ? since(r, h, v->life[h], &vid) : 0;

    fprintf(f, "{\"host\":\"%s\",\"state\":\"%s\",\"in_view\":%s,", host_name(r, h),
            running_state_name(r->host[h].state), in ? "true" : "false");
    fputs("\"why_not\":", f);
    json_string(f, in ? "" : why_missing(r, h));
    fprintf(
        f, ",\"pid\":%d,\"life\":%" PRIu64 ",\"since_view\":%" PRIu64 ",\"since_unix_ms\":%" PRIu64,
        (int)r->host[h].pid, in ? (v->life[h] >> 16) - 1 : 0, vid, ms);
    if (m != NULL)
        fprintf(f,
                ",\"view\":%" PRIu64 ",\"begun\":%s,\"wedged\":%s,\"put_out\":%" PRIu64
                ",\"views\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"delivered\":%" PRIu64
                ",\"delivered_bytes\":%" PRIu64 ",\"nulls\":%" PRIu64 ",\"trimmed\":%" PRIu64
                ",\"returned\":%" PRIu64 ",\"states_sent\":%" PRIu64 ",\"states_loaded\":%" PRIu64,
                m->vid, m->in_view ? "true" : "false", m->wedged ? "true" : "false", m->put_out,
                m->views, m->sent, m->delivered, m->delivered_bytes, m->nulls, m->trimmed,
                m->returned, m->states_sent, m->states_loaded);
    if (r->host[h].durable)
        status_view_json_disk(&r->host[h].disk, f);
    fputc('}', f);
}

static void json_cell(const struct running *r, const struct group_page_record *v, uint32_t cell,
                      FILE *f)
{
    const struct cluster *c = r->cluster->conf;
    const struct group_page_cell *at = &v->cell[cell];
    uint32_t shard;
    const struct cluster_subgroup *s = &c->subgroup[cluster_cell_subgroup(c, cell, &shard)];
    const char *between = "";

    fprintf(f,
            "{\"cell\":\"%s\",\"subgroup\":\"%s\",\"shard\":%u,\"mode\":\"%s\",\"state\":\"%s\","
            "\"born\":%" PRIu64 ",\"lacks\":%" PRIu64 ",",
            cluster_cell_name(c, cell).s, s->name, shard, cluster_mode_names[s->mode],
            state_name(at->state), at->born, at->lacks);
    json_hosts(r, "members", at->members, f);
    fputc(',', f);
    json_hosts(r, "senders", at->senders, f);
    fputc(',', f);
    json_hosts(r, "stateful", at->stateful, f);
    fputc(',', f);
    json_hosts(r, "members_last", at->members_last, f);
    fputs(",\"states\":[", f);
    for (uint32_t h = 0; h < c->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m == NULL || !m->cell[cell].has_state)
            continue;
        fprintf(f,
                "%s{\"host\":\"%s\",\"count\":%" PRIu64 ",\"hash\":\"%016" PRIx64
                "\",\"delivered\":%" PRIu64 "}",
                between, host_name(r, h), m->cell[cell].state_count, m->cell[cell].state_hash,
                m->cell[cell].delivered);
        between = ",";
    }
    fputs("]}", f);
}

void member_view_json(const struct running *r, FILE *f)
{
    const struct cluster *c = r->cluster->conf;
    int best = running_newest(r), lead = leader(r);
    const struct group_page_record *v = best >= 0 ? running_member(r, (uint32_t)best) : NULL;
    uint64_t generation, kept = keepers(r, &generation);

    fprintf(f,
            "{" CMD_JSON_VERSION ",\"cluster\":\"%s\",\"protocol\":\"group\",\"view\":%" PRIu64
            ",\"since_unix_ms\":%" PRIu64 ",\"adequate\":%s,\"ending\":%s,",
            c->name, v ? v->vid : 0, v ? v->view_ms : 0, v && v->adequate ? "true" : "false",
            v && v->wedged ? "true" : "false");
    fputs("\"waits\":", f);
    json_string(f, waits(r));
    fputs(",\"members\":[", f);
    for (uint32_t h = 0; h < c->hosts; h++) {
        fputs(h ? "," : "", f);
        json_member(r, v, h, f);
    }
    fputs("],\"cells\":[", f);
    for (uint32_t i = 0; v != NULL && i < cluster_cells(c); i++) {
        fputs(i ? "," : "", f);
        json_cell(r, v, i, f);
    }
    fputs("],", f);
    json_hosts(r, "keepers", kept, f);
    fprintf(f, ",\"generation\":%" PRIu64 ",\"leader\":\"%s\"}\n", generation,
            lead >= 0 ? host_name(r, (uint32_t)lead) : "");
}

bool member_view_show(struct running *r, bool json)
{
    bool well =
        running_hosts_alive(r) > 0 && running_until(r, running_all_in_view, RUNNING_CHANGE_MS);

    if (json)
        member_view_json(r, stdout);
    else
        member_view_print(r, stdout);
    fflush(stdout);
    return well;
}
