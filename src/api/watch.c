#include "api/watch.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES_SHOWN = 6, LIST_BYTES = 480 };

#define SLOW_AGAIN_NS UINT64_C(60000000000) /* and about a disk that is slow */
#define AWAY_AGAIN_NS UINT64_C(10000000000) /* between two lines about a thread that was held up */

/* Names for a line: the first few, and how many there are. */
struct list {
    char text[LIST_BYTES];
    uint32_t count;
};

/* What was seen of a replica. */
struct seen {
    uint32_t leader;   /* host; UINT32_MAX: nobody */
    uint32_t detached; /* mask of ranks */
    uint64_t terms, loaded, sent, mutes;
    uint32_t convicted; /* ranks */
    uint64_t snap;      /* position of the snapshot on the disk; UINT64_MAX: not looked at yet */
    bool lacks, stands;
};

struct watch {
    struct watch_options opt;
    struct seen *seen;
    struct list leads, loaded, sent, snaps;                       /* groups; */
    struct list taken[CLUSTER_HOSTS_MAX];                         /* by the host that led them, */
    struct list gone[CLUSTER_HOSTS_MAX], back[CLUSTER_HOSTS_MAX]; /* and by the detached host */
    bool peers_moved;                                             /* there is something in these */
    bool dead[CLUSTER_HOSTS_MAX];
    struct tcp_counts door;  /* what was said of it */
    uint64_t look_ns;        /* when the last look was, */
    uint64_t cpu_ns;         /* and what the thread had used of its core by then */
    enum disk_health health; /* what was said of it */
    bool said_no_room;
    uint64_t slow_ns;    /* when it was last said that the disk is slow */
    uint64_t away_ns[2]; /* when it was last said that it was held up, and that it computed */
};

static void list_add(struct list *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void list_add(struct list *l, const char *fmt, ...)
{
    size_t used = strlen(l->text);
    va_list ap;

    if (l->count++ >= NAMES_SHOWN)
        return;
    used += (size_t)snprintf(l->text + used, sizeof l->text - used, "%s", used ? ", " : "");
    va_start(ap, fmt);
    if (used < sizeof l->text)
        vsnprintf(l->text + used, sizeof l->text - used, fmt, ap);
    va_end(ap);
}

static uint32_t list_more(const struct list *l)
{
    return l->count > NAMES_SHOWN ? l->count - NAMES_SHOWN : 0;
}

struct list_shown {
    char s[LIST_BYTES + 24];
};

/* The names, and how many there are besides. */
static struct list_shown list_show(const struct list *l)
{
    struct list_shown out;
    int used = snprintf(out.s, sizeof out.s, "%s", l->text);

    if (list_more(l) > 0)
        snprintf(out.s + used, sizeof out.s - (size_t)used, " and %u more", list_more(l));
    return out;
}

static struct say_about list_about(const struct list *l, const char *peer)
{
    return (struct say_about){.peer = peer, .groups = l->text, .groups_more = list_more(l)};
}

struct watch *watch_open(const struct watch_options *o)
{
    struct watch *w = calloc(1, sizeof *w);

    if (w == NULL)
        return NULL;
    w->opt = *o;
    w->seen = calloc(o->replicas + 1, sizeof *w->seen);
    if (w->seen == NULL) {
        free(w);
        return NULL;
    }
    for (uint32_t i = 0; i < o->replicas; i++)
        w->seen[i] = (struct seen){.leader = UINT32_MAX, .snap = UINT64_MAX};
    w->cpu_ns = clock_thread_ns();
    w->look_ns = clock_now_ns();
    return w;
}

void watch_close(struct watch *w)
{
    if (w)
        free(w->seen);
    free(w);
}

static const char *host_name(const struct watch *w, uint32_t host)
{
    return w->opt.cluster->conf->host[host].name;
}

/* Not at each write of a disk that stays slow. */
static void say_slow(struct watch *w, const struct disk_status *s)
{
    uint64_t now_ns = clock_now_ns();

    if (w->slow_ns && now_ns - w->slow_ns < SLOW_AGAIN_NS)
        return;
    w->slow_ns = now_ns;
    say_event(
        &w->opt.say, SAY_EVENT_SLOW_FLUSH,
        "%s: its disk is slow: a write took more than 100 ms until it was durable; half of them "
        "take %.1f ms, one in a hundred %.1f ms",
        host_name(w, w->opt.host), (double)s->flush_p50_ns / 1e6, (double)s->flush_p99_ns / 1e6);
}

static void say_disk(struct watch *w)
{
    struct disk_status s;

    if (w->opt.disk == NULL)
        return;
    disk_status(w->opt.disk, &s);
    if (s.health == w->health)
        return;
    const char *me = host_name(w, w->opt.host);
    if (s.health == DISK_SLOW)
        say_slow(w, &s);
    if (s.health == DISK_NO_ROOM && !w->said_no_room)
        say_event(&w->opt.say, SAY_EVENT_NO_ROOM,
                  "%s: its disk has no room for a snapshot or for more of its journal; it goes on "
                  "with what it has, and tries again every second",
                  me);
    if (s.health == DISK_FULL)
        say_event(
            &w->opt.say, SAY_EVENT_JOURNAL_FULL,
            "%s: its journal is full: it keeps nothing more until a snapshot was made, or the "
            "disk has room; the others go on",
            me);
    if (s.health == DISK_OK && w->said_no_room)
        say_event(&w->opt.say, SAY_EVENT_ROOM, "%s: its disk has room again, or needs none", me);
    w->said_no_room = s.health == DISK_NO_ROOM || (w->said_no_room && s.health != DISK_OK);
    w->health = s.health;
}

static void look_at_peers(struct watch *w, struct seen *seen, uint16_t group,
                          const struct unit_status *s)
{
    const struct mcast_group *g = &w->opt.cluster->group[group];
    const char *name = w->opt.cluster->conf->group[group].name;
    uint32_t detached = 0;

    uint32_t ranks = s->role == UNIT_LEADER ? (uint32_t)min_u64(g->replicas, LOG_REPLICAS_MAX) : 0;
    for (uint32_t q = 0; q < ranks; q++)
        detached |= (uint32_t)(s->detached_ns[q] != 0) << q;
    uint32_t moved = detached ^ seen->detached;
    for (uint32_t q = 0; moved && q < g->replicas; q++) {
        if (!(moved >> q & 1))
            continue;
        /* Who leads no more does not know whether it is back. */
        if (detached >> q & 1)
            list_add(&w->gone[g->nodes[q]], "%s", name);
        else if (s->role == UNIT_LEADER)
            list_add(&w->back[g->nodes[q]], "%s", name);
        w->peers_moved = true;
    }
    seen->detached = detached;
}

/* Whom the group does not listen to any more. A client can bring that about once in its life. */
static void look_at_clients(struct watch *w, struct seen *seen, const char *group,
                            const struct unit_muted *m)
{
    if (m->count != seen->mutes)
        say_event_about(
            &w->opt.say, SAY_EVENT_MUTED, &(struct say_about){.groups = group},
            "%s: group %s does not read the client in place %u, life %u, any more: %s. The next "
            "one in its place is read",
            host_name(w, w->opt.host), group, m->source, m->life, m->why);
    seen->mutes = m->count;
}

/* Members that lie: each is said once. */
static void look_at_liars(struct watch *w, struct seen *seen, uint16_t group,
                          const struct unit_status *s)
{
    const struct mcast_group *g = &w->opt.cluster->group[group];
    for (uint32_t q = 0; q < g->replicas; q++)
        if ((s->convicted & ~seen->convicted) >> q & 1)
            say_event(&w->opt.say, SAY_EVENT_CONVICTED,
                      "%s: group %s does not listen to %s any more: %s%s",
                      host_name(w, w->opt.host), w->opt.cluster->conf->group[group].name,
                      host_name(w, g->nodes[q]), s->convicted_why[q],
                      s->shown >> q & 1 ? "; all members can check that" : "");
    seen->convicted = s->convicted;
}

/* What its disk lacks comes from the others; it was said when it was opened. Where a majority lacks it nobody can give it. */
static void look_at_disk(struct watch *w, struct seen *seen, uint16_t group,
                         const struct unit_status *s)
{
    const struct tram_cluster *c = w->opt.cluster;
    const char *me = host_name(w, w->opt.host), *name = c->conf->group[group].name;
    const struct say_about about = {.groups = name};
    struct list others = {.count = 0};

    if (seen->lacks && !s->lacks)
        say_event_about(
            &w->opt.say, SAY_EVENT_REFETCHED, &about,
            "%s: group %s has what its disk lacked, from the others, up to position %llu", me, name,
            (unsigned long long)s->applied);
    seen->lacks = s->lacks;
    uint64_t snap = w->opt.disk ? disk_snap(w->opt.disk, group) : 0;
    if (snap > seen->snap)
        list_add(&w->snaps, "%s", name);
    seen->snap = snap;
    if (s->stands == seen->stands)
        return;
    seen->stands = s->stands;
    for (uint32_t q = 0; q < c->group[group].replicas; q++)
        if (s->joining >> q & 1)
            list_add(&others, "%s", host_name(w, c->group[group].nodes[q]));
    if (!s->stands)
        say_event_about(&w->opt.say, SAY_EVENT_STANDS_NO_MORE, &about,
                        "%s: group %s stands no more", me, name);
    else
        say_event_about(
            &w->opt.say, SAY_EVENT_STANDS, &about,
            "%s: group %s stands: the disks of a majority of its replicas do not have what "
            "it had: %s. This one lacks %s; start a host whose disk has it, or restore a "
            "backup",
            me, name, others.text, disk_gap_text(disk_found(w->opt.disk, group)).s);
}

void watch_look(struct watch *w, uint32_t i, uint16_t group, const struct unit *unit)
{
    struct seen *seen = &w->seen[i];
    const char *name = w->opt.cluster->conf->group[group].name;
    struct unit_status s = unit_status(unit);

    if (s.count.terms != seen->terms) {
        if (seen->leader == UINT32_MAX || seen->leader == w->opt.host)
            list_add(&w->leads, "%s", name);
        else
            list_add(&w->taken[seen->leader], "%s", name);
        w->peers_moved = true;
        seen->terms = s.count.terms;
    }
    if (s.count.snapshots_loaded != seen->loaded)
        list_add(&w->loaded, "%s", name);
    seen->loaded = s.count.snapshots_loaded;
    if (s.count.snapshots_sent != seen->sent)
        list_add(&w->sent, "%s", name);
    seen->sent = s.count.snapshots_sent;
    /* While nobody leads, who did so last is remembered; a candidate promises to itself before it does. */
    if (s.role == UNIT_LEADER ||
        (s.role == UNIT_FOLLOWER && s.leader < w->opt.cluster->conf->hosts))
        seen->leader = s.role == UNIT_LEADER ? w->opt.host : s.leader;
    look_at_peers(w, seen, group, &s);
    look_at_clients(w, seen, name, &s.muted);
    look_at_liars(w, seen, group, &s);
    look_at_disk(w, seen, group, &s);
}

/* Says what befell the groups of the list, whose names are `shown` to the arguments; the list is empty then. */
#define SAY_GROUPS(w, event, names, peer, ...)                                                     \
    do {                                                                                           \
        struct list *l_ = (names);                                                                 \
        const struct list_shown shown = list_show(l_);                                             \
        const struct say_about about_ = list_about(l_, peer);                                      \
        if (l_->count > 0)                                                                         \
            say_event_about(&(w)->opt.say, event, &about_, __VA_ARGS__);                           \
        *l_ = (struct list){.count = 0};                                                           \
    } while (0)

static void say_peers(struct watch *w)
{
    const char *me = host_name(w, w->opt.host);

    for (uint32_t h = 0; h < w->opt.cluster->conf->hosts; h++) {
        const char *peer = host_name(w, h);
        SAY_GROUPS(w, SAY_EVENT_TAKE_OVER, &w->taken[h], peer, "%s: takes over %s from %s", me,
                   shown.s, peer);
        SAY_GROUPS(w, SAY_EVENT_DETACH, &w->gone[h], peer,
                   "%s: %s does not take what is written, and is detached in %s", me, peer,
                   shown.s);
        SAY_GROUPS(w, SAY_EVENT_RETURN, &w->back[h], peer, "%s: %s is attached again in %s", me,
                   peer, shown.s);
    }
    w->peers_moved = false;
}

/* Over a network the memory itself tells of connections. */
static void say_deaths(struct watch *w)
{
    for (uint32_t h = 0; h < w->opt.cluster->conf->hosts && !w->opt.mem->remote; h++) {
        bool dead = h != w->opt.host && mem_dead(w->opt.mem, h);
        if (dead == w->dead[h])
            continue;
        const struct say_about about = {.peer = host_name(w, h)};
        w->dead[h] = dead;
        if (dead)
            say_event_about(&w->opt.say, SAY_EVENT_DEATH, &about, "%s: the process of %s has ended",
                            host_name(w, w->opt.host), about.peer);
        else
            say_event_about(&w->opt.say, SAY_EVENT_BACK, &about, "%s: %s is back",
                            host_name(w, w->opt.host), about.peer);
    }
}

/* While the thread is away no heartbeat leaves, and others take over after suspect_ms. */
static void say_away(struct watch *w)
{
    const uint32_t suspect_ms = w->opt.cluster->conf->suspect_ms;
    const uint64_t suspect_ns = suspect_ms * UINT64_C(1000000);
    struct host *loop = w->opt.loop;
    uint64_t now_ns = clock_now_ns(), cpu_ns = clock_thread_ns();
    /* The round that has just ended may be the long one. */
    uint64_t away_ns =
        now_ns - loop->here_ns > loop->away_ns ? now_ns - loop->here_ns : loop->away_ns;
    uint64_t used_ns = cpu_ns - w->cpu_ns, else_ns = now_ns - w->look_ns - away_ns;

    loop->here_ns = w->look_ns = now_ns;
    loop->away_ns = 0;
    w->cpu_ns = cpu_ns;
    /* Did it compute meanwhile? What it may have used before and after does not count. */
    bool computed = used_ns > else_ns && used_ns - else_ns > suspect_ns / 2;
    if (away_ns <= (computed ? suspect_ns / 2 : suspect_ns) ||
        (w->away_ns[computed] && now_ns - w->away_ns[computed] < AWAY_AGAIN_NS))
        return;
    w->away_ns[computed] = now_ns;
    say_event(
        &w->opt.say, SAY_EVENT_AWAY,
        "%s: its thread did not poll for %llu ms: %s; others take over after %u ms (suspect_ms)",
        host_name(w, w->opt.host), (unsigned long long)(away_ns / 1000000),
        computed ? "a callback of the state machine is slow"
                 : "it was stopped, waited in a callback or got no core",
        suspect_ms);
}

/* A limit that is reached for the first time. How often it is later shows in `tram status`; from where, in the lines
 * about refused connections. */
static void say_limit(struct watch *w, uint64_t count, uint64_t *said, const char *what)
{
    if (count == *said)
        return;
    if (*said == 0)
        say_event(&w->opt.say, SAY_EVENT_LIMIT, "%s: %s; `tram status` counts them from now on",
                  host_name(w, w->opt.host), what);
    *said = count;
}

static void say_door(struct watch *w)
{
    struct tcp_counts now;

    if (!api_mem_counts(w->opt.cluster, w->opt.mem, &now))
        return;
    say_limit(w, now.late, &w->door.late, "connections did not prove in time who they are");
    say_limit(w, now.crowded, &w->door.crowded,
              "more connections were begun at once than are waited for, the oldest are closed");
    say_limit(w, now.no_room, &w->door.no_room,
              "no descriptor is left for a connection (ulimit -n), or no memory");
}

void watch_say(struct watch *w)
{
    const char *me = host_name(w, w->opt.host);

    if (w->peers_moved)
        say_peers(w);
    SAY_GROUPS(w, SAY_EVENT_LEADS, &w->leads, NULL, "%s: leads %s", me, shown.s);
    SAY_GROUPS(w, SAY_EVENT_STATE_LOADED, &w->loaded, NULL,
               "%s: has got the state of %s from another replica", me, shown.s);
    SAY_GROUPS(w, SAY_EVENT_STATE_SENT, &w->sent, NULL,
               "%s: has given its state of %s to another replica", me, shown.s);
    SAY_GROUPS(w, SAY_EVENT_SNAPSHOT, &w->snaps, NULL, "%s: its disk has a new snapshot of %s", me,
               shown.s);
    say_deaths(w);
    say_door(w);
    say_disk(w);
    say_away(w);
}
