/* A member's views as users, log lines and the page have them. */
#include "api/group_impl.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 8, LINE_BYTES = 400 };

#define WAITS_SAY_NS UINT64_C(1000000000) /* it has to last so long to be said */

/* ---- plain views ---- */

static bool plain_open(struct plain_view *p, uint32_t cells)
{
    p->cell = calloc(cells, sizeof(*p->cell));
    return p->cell != NULL;
}

bool group_views_open(struct tram_group *g)
{
    g->layout_cell = calloc(g->cells, sizeof(*g->layout_cell));
    g->record = calloc(1, group_page_record_bytes(g->cells));
    return plain_open(&g->seen[0], g->cells) && plain_open(&g->seen[1], g->cells) &&
           plain_open(&g->proposed, g->cells) && g->layout_cell && g->record;
}

void group_views_close(struct tram_group *g)
{
    free(g->seen[0].cell);
    free(g->seen[1].cell);
    free(g->proposed.cell);
    free(g->layout_cell);
    free(g->record);
}

static enum tram_cell_state cell_state(enum view_cell_state s)
{
    static const enum tram_cell_state states[] = {[CELL_UNBORN] = TRAM_CELL_UNBORN,
                                                  [CELL_LIVES] = TRAM_CELL_LIVES,
                                                  [CELL_VACANT] = TRAM_CELL_VACANT};
    return states[s];
}

void group_plain_view(const struct tram_group *g, const struct view *v, struct plain_view *out)
{
    const struct cluster *f = g->cluster->conf;
    for (uint32_t i = 0; i < g->cells; i++) {
        const struct view_cell *c = &v->cell[i];
        uint32_t shard, least = g->options[i].layout.members_min, are = set_count(c->members);
        const struct cluster_subgroup *s = &f->subgroup[cluster_cell_subgroup(f, i, &shard)];
        out->cell[i] = (struct tram_view_cell){
            .subgroup = s->name,
            .shard = shard,
            .state = cell_state(c->state),
            .members = c->members | c->learners,
            .senders = c->senders,
            .stateful = c->stateful,
            .members_last = c->members_last,
            .born = c->born,
            .lacks = least > are ? least - are : 0,
        };
    }
    memcpy(out->life, v->life, sizeof(out->life));
    out->view = (struct tram_view){
        .number = v->vid,
        .adequate = v->adequate,
        .members = v->members,
        .left = v->leavers,
        .hosts = f->hosts,
        .cells = g->cells,
        .host_name = g->host_name,
        .life = out->life,
        .cell = out->cell,
    };
}

/* ---- log lines ---- */

struct line {
    char text[LINE_BYTES];
    size_t used;
};

static void line_add(struct line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void line_add(struct line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(l->text + l->used, sizeof(l->text) - l->used, fmt, ap);
    va_end(ap);
    l->used = min_u64(sizeof(l->text) - 1, l->used + (n > 0 ? (size_t)n : 0));
}

/* "; h2, h3 came", if there are any. */
static void line_hosts(struct line *l, const struct tram_group *g, uint64_t set, const char *what)
{
    uint32_t n = 0;
    if (set == 0)
        return;
    for (uint64_t rest = set; rest; rest = set_rest(rest), n++)
        if (n < NAMES_SHOWN)
            line_add(l, "%s%s", n == 0 ? "; " : ", ", g->host_name[set_first(rest)]);
    if (n > NAMES_SHOWN)
        line_add(l, " and %u more", n - NAMES_SHOWN);
    line_add(l, " %s", what);
}

static void line_cells(struct line *l, const struct tram_group *g, const struct tram_view *v)
{
    const struct cluster *f = g->cluster->conf;
    for (uint32_t i = 0; i < v->cells; i++) {
        if (v->cell[i].state == TRAM_CELL_VACANT)
            line_add(l, "; cell %s is vacant: nobody who is left has its state",
                     cluster_cell_name(f, i).s);
        else if (v->cell[i].lacks > 0)
            line_add(l, "; cell %s lacks %u member%s, so nobody sends", cluster_cell_name(f, i).s,
                     v->cell[i].lacks, v->cell[i].lacks == 1 ? "" : "s");
    }
}

/* "h1, h2 and h3" */
static void line_keepers(struct line *l, const struct tram_group *g)
{
    const struct keeper *k = member_keeper(g->member);
    const uint64_t all = keeper_set(k, keeper_view(k));
    for (uint64_t rest = all; rest; rest = set_rest(rest))
        line_add(l, "%s%s",
                 rest == all      ? ""
                 : set_rest(rest) ? ", "
                                  : " and ",
                 g->host_name[set_first(rest)]);
}

/* Others keep than in the view before, as far as this process has said. */
static bool keepers_moved(struct tram_group *g)
{
    const struct keeper *k = member_keeper(g->member);
    uint32_t generation = keeper_list(k, keeper_view(k))->generation, said = g->generation_said;
    g->generation_said = generation;
    return generation != said;
}

/* One line: who came, who went, and why as far as is known here. */
static void say_view(struct tram_group *g, const struct tram_view *before,
                     const struct tram_view *now)
{
    struct line l = {.used = 0};
    uint64_t old = before ? before->members : 0, gone = old & ~now->members, again = 0, dead = 0;
    for (uint64_t rest = old & now->members; rest; rest = set_rest(rest))
        if (before->life[set_first(rest)] != now->life[set_first(rest)])
            again |= set_of(set_first(rest));
    for (uint64_t rest = gone & ~now->left; rest; rest = set_rest(rest))
        if (mem_dead(g->run.mem, set_first(rest)))
            dead |= set_of(set_first(rest));
    line_add(&l, "view %llu with %u of %u hosts", (unsigned long long)now->number,
             set_count(now->members), now->hosts);
    line_hosts(&l, g, before ? now->members & ~old : 0, "came");
    line_hosts(&l, g, again, "came again");
    line_hosts(&l, g, gone & now->left, "left");
    line_hosts(&l, g, dead, "died");
    line_hosts(&l, g, gone & ~now->left & ~dead, "went: not heard for suspect_ms, or cut off");
    line_cells(&l, g, now);
    if (keepers_moved(g)) {
        line_add(&l, "; keepers are now ");
        line_keepers(&l, g);
    }
    bool bad = dead != 0 || (gone & ~now->left) != 0 || !now->adequate;
    say_event_about(&g->say, bad ? SAY_EVENT_VIEW_LOSS : SAY_EVENT_VIEW,
                    &(struct say_about){.view = now->number}, "%s: %s", g->host_name[g->index],
                    l.text);
}

static void say_out(const struct tram_group *g, uint64_t vid)
{
    const char *me = g->host_name[g->index];
    const struct say_about about = {.view = vid};
    if (g->leaving)
        say_event_about(&g->say, SAY_EVENT_LEFT, &about, "%s: left after view %llu", me,
                        (unsigned long long)vid);
    else
        say_event_about(
            &g->say, SAY_EVENT_PUT_OUT, &about,
            "%s: was put out after view %llu, since the others did not hear it for suspect_ms; "
            "it joins again",
            me, (unsigned long long)vid);
}

/* Since when each is there, as far as this process knows. */
static void note_since(struct tram_group *g, const struct tram_view *v)
{
    g->view_ms = clock_wall_ms();
    for (uint32_t h = 0; h < v->hosts; h++) {
        if (v->life[h] == g->since_life[h])
            continue;
        g->since_life[h] = v->life[h];
        g->since_vid[h] = v->number;
        g->since_ms[h] = g->view_ms;
    }
}

void group_view_changed(struct tram_group *g, const struct view *before, const struct view *now)
{
    const struct tram_view *last = g->in_view && before ? &g->seen[g->at].view : NULL;
    g->page_old = true;
    g->page_ns = 0; /* others see it at once */
    if (now == NULL) {
        say_out(g, g->seen[g->at].view.number);
        g->in_view = false;
    } else {
        g->at = 1 - g->at;
        group_plain_view(g, now, &g->seen[g->at]);
        note_since(g, &g->seen[g->at].view);
        g->in_view = true;
        say_view(g, last, &g->seen[g->at].view);
    }
    if (g->machine.view)
        g->machine.view(g->ctx, last, now ? &g->seen[g->at].view : NULL);
}

/* Who is no keeper does not know what they wait for. */
static const char *waits_to_be_let_in(struct tram_group *g)
{
    struct line l = {.used = 0};
    if (g->in_view || g->leaving || member_left(g->member) || member_broken(g->member))
        return NULL;
    line_add(&l, "the keepers have to let this host in: ");
    line_keepers(&l, g);
    snprintf(g->waits, sizeof(g->waits), "%.*s", (int)sizeof(g->waits) - 1, l.text);
    return g->waits;
}

/* Keepers know numbers: "cell 3 ..." and "..., host 2 is one". */
const char *group_waits(struct tram_group *g)
{
    const char *text = keeper_waits(member_keeper(g->member));
    const char *at = text ? strstr(text, "cell ") : NULL;
    unsigned number = 0;
    int used = 0;
    if (text == NULL)
        return waits_to_be_let_in(g);
    if (at && sscanf(at, "cell %u%n", &number, &used) == 1 && number < g->cells) {
        snprintf(g->waits, sizeof(g->waits), "%.*scell %s%s", (int)(at - text), text,
                 cluster_cell_name(g->cluster->conf, number).s, at + used);
        return g->waits;
    }
    at = strstr(text, "host ");
    if (at && sscanf(at, "host %u%n", &number, &used) == 1 && number < g->cluster->conf->hosts)
        snprintf(g->waits, sizeof(g->waits), "%.*shost %s%s", (int)(at - text), text,
                 g->host_name[number], at + used);
    else
        snprintf(g->waits, sizeof(g->waits), "%s", text);
    return g->waits;
}

void group_watch(struct tram_group *g, uint64_t now_ns)
{
    const char *waits = group_waits(g);
    if (waits == NULL) {
        if (g->waits_said)
            say_event(&g->say, SAY_EVENT_GOES_ON, "%s: goes on", g->host_name[g->index]);
        g->waits_ns = 0;
        g->waits_said = false;
        return;
    }
    if (g->waits_ns == 0)
        g->waits_ns = now_ns;
    if (g->waits_said || now_ns - g->waits_ns < WAITS_SAY_NS)
        return;
    g->waits_said = true;
    say_event(&g->say, SAY_EVENT_WAITS, "%s: waits: %s", g->host_name[g->index], waits);
}

/* ---- the page ---- */

static void show_keeper(const struct tram_group *g, struct group_page_record *r)
{
    struct keeper *k = member_keeper(g->member);
    const struct log *log = keeper_log(k);
    const struct view *newest = keeper_view(k);
    r->newest = newest ? newest->vid : 0;
    r->keepers = keeper_set(k, newest);
    r->generation = keeper_list(k, newest)->generation;
    r->keeper = log != NULL;
    r->leader = GROUP_PAGE_NOBODY;
    r->leads = 0;
    if (log == NULL)
        return;
    struct unit_status s;
    log_status(log, &s);
    r->leads = s.role == UNIT_LEADER;
    r->leader = s.leader == UINT32_MAX ? GROUP_PAGE_NOBODY : s.leader;
}

static void show_cells(const struct tram_group *g, struct group_page_record *r)
{
    for (uint32_t i = 0; i < g->cells; i++) {
        const struct tram_view_cell *c = &g->seen[g->at].cell[i];
        r->cell[i] = (struct group_page_cell){
            .state = c->state,
            .born = c->born,
            .members = c->members,
            .senders = c->senders,
            .stateful = c->stateful,
            .members_last = c->members_last,
            .lacks = c->lacks,
            .has_state = g->in_view && member_has_state(g->member, i),
            .delivered = g->cell[i].delivered,
            .bytes = g->cell[i].bytes,
            .state_count = g->cell[i].state_count,
            .state_hash = g->cell[i].state_hash,
        };
    }
}

static void show_counts(const struct tram_group *g, struct group_page_record *r)
{
    struct member_counts c;
    member_counts(g->member, &c);
    r->views = c.views;
    r->put_out = c.put_out;
    r->sent = c.sent;
    r->delivered = c.delivered;
    r->delivered_bytes = c.delivered_bytes;
    r->nulls = c.nulls;
    r->trimmed = c.trimmed;
    r->returned = c.returned;
    r->states_sent = c.states_sent;
    r->states_loaded = c.states_loaded;
}

void group_show(struct tram_group *g, uint64_t now_ns)
{
    struct group_page_record *r = g->record;
    const struct tram_view *v = &g->seen[g->at].view;
    const char *waits = group_waits(g);
    const char *broken = member_broken(g->member);
    r->hosts = g->cluster->conf->hosts;
    r->cells = g->cells;
    r->in_view = g->in_view;
    r->vid = v->number;
    r->adequate = v->adequate;
    r->members = v->members;
    r->left = v->left;
    r->wedged = g->in_view && member_wedged(g->member);
    r->view_ms = g->view_ms;
    r->has_left = member_left(g->member);
    memcpy(r->life, g->seen[g->at].life, sizeof(r->life));
    memcpy(r->since_vid, g->since_vid, sizeof(r->since_vid));
    memcpy(r->since_ms, g->since_ms, sizeof(r->since_ms));
    snprintf(r->waits, sizeof(r->waits), "%s", waits ? waits : "");
    snprintf(r->broken, sizeof(r->broken), "%s", broken ? broken : "");
    struct group_page_disk *disk = group_page_disk(r, g->cells);
    disk->there = g->disk.disk != NULL;
    if (disk->there)
        api_disk_stats(g->disk.disk, &disk->stats);
    show_keeper(g, r);
    show_counts(g, r);
    show_cells(g, r);
    group_page_show(g->page, r, now_ns);
}
