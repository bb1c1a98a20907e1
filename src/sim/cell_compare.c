#include "sim/cell_compare.h"

#include "base/hash.h"
#include "sim/imprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message of a cell's sequence. */
struct step {
    uint64_t version, hash; /* hash: of its sender, client and bytes */
    uint32_t sender, host;  /* host: who was the first to deliver it */
    struct imprint reply, state;
};

/* Where a host is in the sequence of a cell. */
struct position {
    bool known;
    bool member;   /* of the cell, in the view that it is in, */
    uint64_t vid;  /* which is this one */
    uint64_t next; /* step */
};

/* A message of a raw cell. */
struct raw_step {
    uint64_t version, hash;
    uint32_t host;
};

struct raw_sender {
    struct raw_step *step; /* by version */
    uint32_t count, max;
};

struct sequence {
    bool raw, behind; /* behind: what is written behind may be lost */
    uint64_t born;
    uint64_t ended; /* the last view that somebody has ended in order */
    uint64_t lost; /* the last view in which it went on from disks without all that was delivered */
    struct imprint birth;
    struct step *step;
    uint32_t count, max;
    struct position at[GROUP_HOSTS_MAX];
    struct raw_sender from[GROUP_HOSTS_MAX];
};

struct cell_compare {
    const struct cluster *conf;
    uint32_t cells;
    struct sequence *cell;
    size_t kept;
    struct tram_sim_finding finding; /* property "": none */
};

struct cell_compare *cell_compare_open(const struct cluster *conf)
{
    struct cell_compare *c = calloc(1, sizeof(*c));
    CHECK(c != NULL);
    c->conf = conf;
    c->cells = cluster_cells(conf);
    c->cell = calloc(c->cells, sizeof(*c->cell));
    CHECK(c->cell != NULL);
    for (uint32_t k = 0; k < c->cells; k++) {
        uint32_t shard;
        const struct cluster_subgroup *s = &conf->subgroup[cluster_cell_subgroup(conf, k, &shard)];
        c->cell[k].raw = s->mode == CLUSTER_MODE_RAW;
        c->cell[k].behind = s->mode == CLUSTER_MODE_LOGGED;
    }
    return c;
}

static void cut_steps(struct cell_compare *c, struct sequence *s, uint32_t count)
{
    for (uint32_t i = count; i < s->count; i++) {
        imprint_drop(&c->kept, &s->step[i].reply);
        imprint_drop(&c->kept, &s->step[i].state);
    }
    s->count = count;
}

void cell_compare_close(struct cell_compare *c)
{
    if (c == NULL)
        return;
    for (uint32_t k = 0; k < c->cells; k++) {
        cut_steps(c, &c->cell[k], 0);
        imprint_drop(&c->kept, &c->cell[k].birth);
        free(c->cell[k].step);
        for (uint32_t h = 0; h < GROUP_HOSTS_MAX; h++)
            free(c->cell[k].from[h].step);
    }
    free(c->cell);
    free(c);
}

/* ---- findings ---- */

static const char *host_name(const struct cell_compare *c, uint32_t host)
{
    return c->conf->host[host].name;
}

/* Messages before it. */
static uint64_t number_of(const struct sequence *s, const struct step *m, uint64_t next)
{
    bool inside = m >= s->step && m < s->step + s->count;
    return inside ? (uint64_t)(m - s->step) : next;
}

/* The first one stays. `m`: the message at which it is, NULL: before any. */
static void found(struct cell_compare *c, const char *property, struct cell_compare_who w,
                  uint32_t other, const struct step *m, const char *text)
{
    struct tram_sim_finding *f = &c->finding;
    const struct cluster_cell_name cell = cluster_cell_name(c->conf, w.cell);
    char where[96] = "before the first message";
    if (f->property[0])
        return;
    if (m)
        snprintf(where, sizeof(where), "message %" PRIu64 " of %s in view %" PRIu64,
                 stamp_count(m->version), host_name(c, m->sender), stamp_vid(m->version));
    *f = (struct tram_sim_finding){
        .group = w.cell,
        .host = {w.host, other},
        .client = m ? m->sender : UINT32_MAX,
        .life = UINT32_MAX,
        .seq = m ? m->version : UINT64_MAX,
        .number = number_of(&c->cell[w.cell], m, c->cell[w.cell].at[w.host].next),
        .time_ns = w.now_ns};
    snprintf(f->property, sizeof(f->property), "%s", property);
    snprintf(f->text, sizeof(f->text), "%s: cell %s, %s: %s", property, cell.s, where, text);
}

/* ---- imprints ---- */

/* "h2 has 24 bytes, and byte 8 is 05; h1 has 24, and there 04" */
static void describe(const struct cell_compare *c, const struct imprint *first, uint32_t host,
                     const unsigned char *data, size_t len, char *out, size_t bytes)
{
    size_t at = imprint_differs_at(first, data, len), least = len < first->len ? len : first->len;
    if (at == least)
        snprintf(out, bytes, "%s has %zu bytes, %s %zu%s", host_name(c, host), len,
                 host_name(c, first->host), first->len,
                 first->bytes ? "" : ", and they are not the same");
    else
        snprintf(out, bytes, "%s has %zu bytes, and byte %zu is %02x; %s has %zu, and there %02x",
                 host_name(c, host), len, at, data[at], host_name(c, first->host), first->len,
                 first->bytes[at]);
}

static void compare(struct cell_compare *c, const char *property, struct cell_compare_who w,
                    struct imprint *known, const struct step *m, const void *data, size_t len)
{
    char text[200];
    if (!known->there) {
        *known = imprint_of(&c->kept, CELL_COMPARE_KEPT_BYTES, w.host, data, len);
        return;
    }
    if (imprint_is(known, data, len))
        return;
    describe(c, known, w.host, data, len, text, sizeof(text));
    found(c, property, w, known->host, m, text);
}

/* ---- sequences ---- */

/* The first step that is not below the version. */
static uint32_t step_at(const struct sequence *s, uint64_t version)
{
    uint32_t from = 0, to = s->count;
    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (s->step[middle].version < version)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void *reach(void *array, uint32_t *max, size_t size, uint32_t count)
{
    if (count < *max)
        return array;
    *max = *max ? 2 * *max : 64;
    void *grown = realloc(array, *max * size);
    CHECK(grown != NULL);
    return grown;
}

/* What it delivers was lost with the disks that did not have it: the cell went on without, in a view of which it does not know. */
static bool is_left_behind(const struct sequence *s, const struct position *at)
{
    return at->vid < s->lost;
}

/* ---- views ---- */

/* A cell that is new, or goes on without the end of what was delivered. */
static void cell_begins(struct cell_compare *c, struct sequence *s, const struct view *now,
                        const struct view_cell *v)
{
    if (v->born > s->born) {
        cut_steps(c, s, 0);
        imprint_drop(&c->kept, &s->birth);
        s->born = v->born;
        s->ended = 0;
        for (uint32_t h = 0; h < GROUP_HOSTS_MAX; h++)
            s->at[h].known = false;
    }
    if (!s->behind || v->last != now->vid || s->lost >= now->vid)
        return;
    s->lost = now->vid;
    cut_steps(c, s, step_at(s, v->cut));
}

/* The host has delivered all of its view: as much as all others who did. */
static void cell_ends(struct cell_compare *c, struct cell_compare_who w)
{
    struct sequence *s = &c->cell[w.cell];
    const struct position *at = &s->at[w.host];
    if (!at->known || !at->member || at->vid < s->born || is_left_behind(s, at) || s->raw)
        return;
    if (at->next < s->count && s->step[at->next].version < stamp(at->vid + 1, 0)) {
        char text[160];
        const struct step *m = &s->step[at->next];
        snprintf(text, sizeof(text), "%s has ended the view without it, and %s has delivered it",
                 host_name(c, w.host), host_name(c, m->host));
        found(c, "same sequence", w, m->host, m, text);
    }
    s->ended = at->vid > s->ended ? at->vid : s->ended;
}

void cell_compare_view(struct cell_compare *c, struct cell_compare_who w, const struct view *now,
                       bool goes_on, bool has_state)
{
    CHECK(w.host < GROUP_HOSTS_MAX);
    struct sequence *s = &c->cell[w.cell];
    const struct view_cell *v = &now->cell[w.cell];
    struct position *at = &s->at[w.host];
    if (goes_on && has_state && v->born < now->vid)
        cell_ends(c, w);
    cell_begins(c, s, now, v);
    at->known &= goes_on && in_set(v->members | v->learners, w.host);
    at->member = in_set(v->members, w.host);
    at->vid = now->vid;
}

void cell_compare_out(struct cell_compare *c, uint32_t host)
{
    for (uint32_t k = 0; k < c->cells; k++)
        c->cell[k].at[host] = (struct position){0};
}

/* ---- states ---- */

void cell_compare_born(struct cell_compare *c, struct cell_compare_who w)
{
    struct position *at = &c->cell[w.cell].at[w.host];
    at->known = true;
    at->next = 0;
}

struct cell_compare_place cell_compare_place(const struct cell_compare *c,
                                             struct cell_compare_who w)
{
    const struct sequence *s = &c->cell[w.cell];
    const struct position *at = &s->at[w.host];
    bool counts = at->known && !is_left_behind(s, at);
    return (struct cell_compare_place){counts ? s->born : UINT64_MAX, at->next};
}

void cell_compare_loaded(struct cell_compare *c, struct cell_compare_who w,
                         struct cell_compare_place p)
{
    struct sequence *s = &c->cell[w.cell];
    struct position *at = &s->at[w.host];
    at->known = p.born == s->born && p.count <= s->count;
    at->next = p.count;
}

void cell_compare_state(struct cell_compare *c, struct cell_compare_who w, const void *data,
                        size_t bytes)
{
    struct sequence *s = &c->cell[w.cell];
    const struct position *at = &s->at[w.host];
    if (!at->known || is_left_behind(s, at) || s->raw)
        return;
    struct step *m = at->next > 0 ? &s->step[at->next - 1] : NULL;
    compare(c, "states", w, m ? &m->state : &s->birth, m, data, bytes);
}

/* ---- deliveries ---- */

static uint64_t item_hash(const struct tram_item *m)
{
    return hash_bytes(hash_mix(m->sender, m->client), m->data, m->bytes);
}

static struct raw_step *raw_at(struct raw_sender *f, uint64_t version)
{
    uint32_t from = f->count;
    while (from > 0 && f->step[from - 1].version >= version)
        from--;
    return &f->step[from];
}

/* All have the same message of a sender under its number in a view. */
static void raw_deliver(struct cell_compare *c, struct cell_compare_who w, uint64_t vid,
                        const struct tram_item *item)
{
    struct raw_sender *f = &c->cell[w.cell].from[item->sender];
    const struct raw_step is = {stamp(vid, item->number), item_hash(item), w.host};
    f->step = reach(f->step, &f->max, sizeof(*f->step), f->count);
    struct raw_step *at = raw_at(f, is.version), *end = f->step + f->count;
    if (at == end || at->version != is.version) {
        memmove(at + 1, at, (size_t)(end - at) * sizeof(*at));
        *at = is;
        f->count++;
    } else if (at->hash != is.hash) {
        const struct step m = {.version = is.version, .sender = item->sender};
        found(c, "integrity", w, at->host, &m, "they have other bytes");
    }
}

static struct step *append(struct cell_compare *c, struct cell_compare_who w, const struct step *m)
{
    struct sequence *s = &c->cell[w.cell];
    bool falls = s->count > 0 && s->step[s->count - 1].version >= m->version;
    if (falls || stamp_vid(m->version) <= s->ended)
        found(c, "same sequence", w, falls ? s->step[s->count - 1].host : w.host, m,
              "others, who went on from that view, have not delivered it");
    s->step = reach(s->step, &s->max, sizeof(*s->step), s->count);
    s->step[s->count] = *m;
    return &s->step[s->count++];
}

static void check_same(struct cell_compare *c, struct cell_compare_who w, const struct step *has,
                       const struct step *m)
{
    char text[200];
    if (has->version == m->version && has->hash == m->hash)
        return;
    snprintf(text, sizeof(text),
             "%s delivers it, where %s delivered message %" PRIu64 " of %s in view %" PRIu64 "%s",
             host_name(c, w.host), host_name(c, has->host), stamp_count(has->version),
             host_name(c, has->sender), stamp_vid(has->version),
             has->version == m->version ? " with other bytes" : "");
    found(c, "same sequence", w, has->host, m, text);
}

void cell_compare_deliver(struct cell_compare *c, struct cell_compare_who w, uint64_t vid,
                          const struct tram_item *item, const void *reply, uint32_t reply_bytes)
{
    struct sequence *s = &c->cell[w.cell];
    struct position *at = &s->at[w.host];
    if (s->raw) {
        raw_deliver(c, w, vid, item);
        return;
    }
    if (vid < s->born || is_left_behind(s, at)) {
        at->known = false;
        return;
    }
    const struct step m = {.version = stamp(vid, item->number),
                           .hash = item_hash(item),
                           .sender = item->sender,
                           .host = w.host};
    if (!at->known)
        at->next = step_at(s, m.version);
    at->known = true;
    struct step *has;
    if (at->next < s->count) {
        has = &s->step[at->next];
        check_same(c, w, has, &m);
    } else {
        has = append(c, w, &m);
    }
    at->next++;
    if (reply)
        compare(c, "replies", w, &has->reply, has, reply, reply_bytes);
}

/* ---- looking ---- */

uint64_t cell_compare_count(const struct cell_compare *c, struct cell_compare_who w)
{
    const struct position *at = &c->cell[w.cell].at[w.host];
    return at->known ? at->next : 0;
}

bool cell_compare_has_all(const struct cell_compare *c, struct cell_compare_who w)
{
    const struct sequence *s = &c->cell[w.cell];
    const struct position *at = &s->at[w.host];
    return s->raw || !at->known || is_left_behind(s, at) || at->next == s->count;
}

bool cell_compare_verify(const struct cell_compare *c, struct tram_sim_finding *out)
{
    *out = c->finding;
    return c->finding.property[0] == '\0';
}
