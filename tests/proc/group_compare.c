/* What all lives of all members delivered, compared.
 *
 *   - Messages: what stands at a place of a view and cell is the same for everybody, and a message stands at one place.
 *   - Order: everybody delivers in the order of places, without leaving one out that anybody else has.
 *   - Views: whoever goes over to the next view has delivered all that anybody delivered in the last one, those included who
 *     died in it; and with the same state. Of a view all know the same members.
 *   - Senders: what was delivered of a sender, while it was a member, begins with its first message and has no gap.
 *   - In a raw cell the last holds for everybody, from when on both are members, and nothing else does. */
#include "group_rig.h"

#include "check/load.h"
#include "group/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A delivery: where it is, what it is, and who did it. */
struct seen {
    uint64_t key[2]; /* cell and view; place */
    uint64_t id;
    uint32_t life, event;
};

/* A state at the begin of a view. */
struct table {
    struct seen *row;
    size_t rows, room;
};

static void add(struct table *t, struct seen s)
{
    if (t->rows == t->room) {
        t->room = t->room ? 2 * t->room : 1 << 16;
        t->row = realloc(t->row, t->room * sizeof(*t->row));
        CHECK(t->row != NULL);
    }
    t->row[t->rows++] = s;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_place(const void *x, const void *y)
{
    const struct seen *a = x, *b = y;
    int c = compare(a->key[0], b->key[0]);
    c = c ? c : compare(a->key[1], b->key[1]);
    return c ? c : compare(a->life, b->life);
}

static int by_id(const void *x, const void *y)
{
    const struct seen *a = x, *b = y;
    int c = compare(a->key[0] >> 40, b->key[0] >> 40);
    return c ? c : compare(a->id, b->id);
}

/* Cell and view: in each there is one order. */
static uint64_t order_of(const struct grig_event *e)
{
    return (uint64_t)e->cell << 40 | e->vid;
}

static bool wrong(const struct grig *t, const struct seen *s, const char *what)
{
    const struct grig_life *l = t->life[s->life];
    printf("# h%u, life %u: cell %u, view %u, place %llu, message %016llx: %s\n", l->host + 1,
           l->life, (unsigned)(s->key[0] >> 40), (unsigned)s->key[0], (unsigned long long)s->key[1],
           (unsigned long long)s->id, what);
    return false;
}

/* ---- who went over, and in which order what was known ---- */

/* The part of a life in one view. */
struct stay {
    uint32_t vid;
    bool began[GRIG_CELLS]; /* it had the state from its begin on */
    bool goes_on;           /* it went over to the next */
};

/* All views of a life. */
struct stays {
    struct stay *stay;
    uint32_t count;
};

static struct stays stays_of(const struct grig_life *l)
{
    struct stays s = {0};
    uint32_t room = 0;
    bool in = false;
    for (uint32_t i = 0; i < l->events; i++)
        room += l->event[i].kind == GRIG_VIEW;
    s.stay = calloc(room + 1, sizeof(*s.stay));
    CHECK(s.stay != NULL);
    for (uint32_t i = 0; i < l->events; i++) {
        const struct grig_event *e = &l->event[i];
        if (e->kind == GRIG_VIEW) {
            if (in)
                s.stay[s.count - 1].goes_on = true;
            s.stay[s.count++].vid = e->vid;
        }
        in = e->kind == GRIG_VIEW || (in && e->kind != GRIG_OUT);
        if (in && (e->kind == GRIG_STATE || e->kind == GRIG_BORN))
            s.stay[s.count - 1].began[e->cell] = true;
    }
    return s;
}

static const struct stay *stay_in(const struct stays *s, uint32_t vid)
{
    static const struct stay none;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->stay[i].vid == vid)
            return &s->stay[i];
    return &none;
}

/* Places of one order, from `from` on, end where another order begins. */
static size_t order_end(const struct table *t, size_t from)
{
    size_t to = from;
    while (to < t->rows && t->row[to].key[0] == t->row[from].key[0])
        to++;
    return to;
}

/* In one order: each life has a stretch without gaps of all places that there are; to the end if it went over, from the begin
 * if it had the state then. */
static bool check_order(const struct grig *t, const struct stays *stays, const struct seen *row,
                        size_t rows)
{
    uint32_t cell = (uint32_t)(row[0].key[0] >> 40), vid = (uint32_t)row[0].key[0];
    uint64_t *last = calloc(t->lives, sizeof(*last)); /* place + 1 in the union, by life */
    bool *began = calloc(t->lives, sizeof(*began));
    uint64_t place = 0;
    bool right = true;
    CHECK(last && began);
    for (size_t i = 0; right && i < rows; i++) {
        bool next = i == 0 || row[i].key[1] != row[i - 1].key[1];
        place += next;
        if (!next && row[i].id != row[i - 1].id)
            right = wrong(t, &row[i], "others have another message there");
        else if (!next && row[i].life == row[i - 1].life)
            right = wrong(t, &row[i], "delivered twice");
        else if (last[row[i].life] != 0 && last[row[i].life] != place - 1)
            right = wrong(t, &row[i], "what others have before it is left out");
        began[row[i].life] |= place == 1;
        last[row[i].life] = place;
    }
    for (uint32_t l = 0; right && l < t->lives; l++) {
        const struct stay *s = stay_in(&stays[l], vid);
        struct seen at = {.key = {row[0].key[0], last[l]}, .life = l};
        if (s->began[cell] && last[l] != 0 && !began[l])
            right = wrong(t, &at, "does not begin where the view does");
        if (s->began[cell] && s->goes_on && last[l] != place)
            right = wrong(t, &at, "went over to the next view without all of this one");
    }
    free(last);
    free(began);
    return right;
}

static bool check_orders(const struct grig *t, struct table *d)
{
    struct stays *stays = calloc(t->lives, sizeof(*stays));
    bool right = true;
    CHECK(stays != NULL);
    for (uint32_t l = 0; l < t->lives; l++)
        stays[l] = stays_of(t->life[l]);
    qsort(d->row, d->rows, sizeof(*d->row), by_place);
    for (size_t i = 0, to; right && i < d->rows; i = to) {
        to = order_end(d, i);
        right = check_order(t, stays, d->row + i, to - i);
    }
    for (uint32_t l = 0; l < t->lives; l++)
        free(stays[l].stay);
    free(stays);
    return right;
}

/* Within a life deliveries come in the order of places. */
static bool check_rising(const struct grig *t, const struct table *d)
{
    uint64_t place[GRIG_CELLS] = {0};
    uint32_t life = UINT32_MAX, vid = 0;
    bool right = true;
    for (size_t i = 0; right && i < d->rows; i++) {
        const struct seen *s = &d->row[i];
        uint32_t order = (uint32_t)(s->key[0] >> 40);
        if (s->life != life || (uint32_t)s->key[0] != vid)
            memset(place, 0, sizeof(place));
        life = s->life;
        vid = (uint32_t)s->key[0];
        CHECK(order < GRIG_CELLS);
        if (place[order] > s->key[1])
            right = wrong(t, s, "delivered after a later one");
        place[order] = s->key[1] + 1;
    }
    return right;
}

/* A message is at one place; and of each sender's epoch they count from 0 without a gap. */
static bool check_ids(const struct grig *t, struct table *d)
{
    const uint64_t seq = (UINT64_C(1) << 36) - 1;
    qsort(d->row, d->rows, sizeof(*d->row), by_id);
    for (size_t i = 0; i < d->rows; i++) {
        const struct seen *s = &d->row[i], *p = i > 0 ? s - 1 : NULL;
        bool same_cell = p && p->key[0] >> 40 == s->key[0] >> 40;
        if (same_cell && p->id == s->id) {
            if (p->key[0] != s->key[0] || p->key[1] != s->key[1])
                return wrong(t, s, "is at another place, too");
            continue;
        }
        if (same_cell && (p->id & ~seq) == (s->id & ~seq) ? s->id != p->id + 1 : s->id & seq)
            return wrong(t, s, "an earlier message of its sender was delivered by nobody");
    }
    return true;
}

/* Of a view all have the same members, and of a cell the same state at its begin. */
static bool check_views(const struct grig *t)
{
    struct table v = {0};
    bool right = true;
    for (uint32_t l = 0; l < t->lives; l++)
        for (uint32_t i = 0; i < t->life[l]->events; i++) {
            const struct grig_event *e = &t->life[l]->event[i];
            if (e->kind == GRIG_VIEW)
                add(&v, (struct seen){.key = {e->vid, 0}, .id = e->id, .life = l});
            if (e->kind == GRIG_STATE) {
                add(&v, (struct seen){
                            .key = {(e->cell + 1ull) << 40 | e->vid, 0}, .id = e->id, .life = l});
                add(&v, (struct seen){.key = {(e->cell + 1ull) << 40 | e->vid, 1},
                                      .id = e->number,
                                      .life = l});
            }
        }
    qsort(v.row, v.rows, sizeof(*v.row), by_place);
    for (size_t i = 1; right && i < v.rows; i++)
        if (v.row[i].key[0] == v.row[i - 1].key[0] && v.row[i].key[1] == v.row[i - 1].key[1] &&
            v.row[i].id != v.row[i - 1].id)
            right = wrong(t, &v.row[i],
                          v.row[i].key[0] >> 40 == 0 ? "others know other members of the view"
                                                     : "others begin the view with another state");
    free(v.row);
    return right;
}

/* ---- raw cells ---- */

enum { SEQ_BITS = 36, EPOCH_MASK = 0xfff };

/* The view in which the sender of such messages came in; 0: it is not known. */
static uint32_t sender_since(const struct grig *t, uint64_t prefix)
{
    uint32_t host = (uint32_t)(prefix >> 24), life = (uint32_t)(prefix >> 12) & EPOCH_MASK;
    uint32_t epoch = 0;
    for (uint32_t l = 0; l < t->lives; l++) {
        const struct grig_life *of = t->life[l];
        for (uint32_t i = 0; of->host == host && of->life == life && i < of->events; i++) {
            epoch += of->event[i].kind == GRIG_OUT;
            if (of->event[i].kind == GRIG_VIEW && epoch == (prefix & EPOCH_MASK))
                return of->event[i].vid;
        }
    }
    return 0;
}

/* Of each sender, with its life and epoch, what the life has delivered last. */
struct heard {
    uint64_t prefix, last;
};

static bool check_raw_life(const struct grig *t, uint32_t l)
{
    const struct grig_life *of = t->life[l];
    struct heard heard[GRIG_HOSTS_MAX] = {{0}};
    uint32_t since = 0;
    for (uint32_t i = 0; i < of->events; i++) {
        const struct grig_event *e = &of->event[i];
        if (e->kind == GRIG_VIEW && since == 0)
            since = e->vid;
        if (e->kind == GRIG_OUT) {
            since = 0;
            for (uint32_t h = 0; h < GRIG_HOSTS_MAX; h++)
                heard[h] = (struct heard){0};
        }
        if (e->kind != GRIG_DELIVER || e->cell != GRIG_RAW)
            continue;
        const struct seen s = {.key = {order_of(e), e->number}, .id = e->id, .life = l};
        struct heard *from = &heard[e->sender];
        uint64_t prefix = e->id >> SEQ_BITS, seq = e->id & ((UINT64_C(1) << SEQ_BITS) - 1);
        bool first = from->prefix != prefix + 1;
        if (prefix >> 24 != e->sender)
            return wrong(t, &s, "is of another sender");
        if (!first && e->id != from->last + 1)
            return wrong(t, &s, "is not the one behind the last of its sender");
        if (first && seq != 0 && sender_since(t, prefix) >= since)
            return wrong(t, &s, "the first of its sender was left out");
        *from = (struct heard){.prefix = prefix + 1, .last = e->id};
    }
    return true;
}

static bool check_raw(const struct grig *t)
{
    for (uint32_t l = 0; l < t->lives; l++)
        if (!check_raw_life(t, l))
            return false;
    return true;
}

bool grig_check(const struct grig *t)
{
    struct table d = {0};
    for (uint32_t l = 0; l < t->lives; l++)
        for (uint32_t i = 0; i < t->life[l]->events; i++) {
            const struct grig_event *e = &t->life[l]->event[i];
            if (e->kind == GRIG_DELIVER && e->cell != GRIG_RAW)
                add(&d, (struct seen){
                            .key = {order_of(e), e->number}, .id = e->id, .life = l, .event = i});
        }
    bool right = d.rows > 0 && check_rising(t, &d) && check_orders(t, &d) && check_ids(t, &d) &&
                 check_views(t) && check_raw(t);
    printf("# %zu deliveries by %u processes compared: %s\n", d.rows, t->lives,
           right ? "they agree" : "THEY DO NOT AGREE");
    free(d.row);
    return right;
}

/* ---- traces ---- */

static void print_violations(const struct amcast *a, const struct vsync *v)
{
    const struct vsync_violation *x;
    for (uint32_t i = 0; (x = vsync_violation(v, i)) != NULL; i++)
        printf("# VIOLATION of %s: %s\n#     %s:%u\n", vsync_property_names[x->property], x->text,
               amcast_file_name(a, x->place.file), x->place.line);
}

/* Deliveries that the members noted themselves. */
static uint64_t noted(const struct grig *t)
{
    uint64_t count = 0;
    for (uint32_t l = 0; l < t->lives; l++)
        for (uint32_t i = 0; i < t->life[l]->events; i++)
            count += t->life[l]->event[i].kind == GRIG_DELIVER;
    return count;
}

bool grig_check_traces(const struct grig *t)
{
    struct amcast *a = amcast_open();
    struct vsync *v = vsync_open();
    struct load_report report = {0};
    struct vsync_summary s;
    struct err e = {""};
    int rc = load_views(a, v, t->traces, NULL, NULL, &report, &e);
    bool right = rc == 0 && vsync_verify(v, t->transport != CLUSTER_SHM);
    vsync_summarise(v, &s);
    if (rc != 0)
        printf("# traces: %s\n", e.text);
    print_violations(a, v);
    printf("# traces: %llu views, %llu casts, %llu deliveries by %u lives: %s\n",
           (unsigned long long)s.views, (unsigned long long)s.casts,
           (unsigned long long)s.deliveries, s.lives, right ? "all is well" : "VIOLATED");
    /* A check of nothing shows nothing. One who is killed may have traced a batch that it had not noted yet. */
    if (s.deliveries < noted(t) || s.cells != GRIG_CELLS || report.gaps > 0) {
        printf("# traces are missing: members noted %llu deliveries\n",
               (unsigned long long)noted(t));
        right = false;
    }
    vsync_close(v);
    amcast_close(a);
    return right;
}
