#include "check/vsync.h"

#include "trace/intern.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef unsigned long long ull;

const char *const vsync_property_names[VSYNC_PROPERTIES] = {
    [VSYNC_VIEWS] = "view agreement", [VSYNC_CHAIN] = "primary chain",
    [VSYNC_INTEGRITY] = "integrity",  [VSYNC_SEQUENCE] = "same sequence",
    [VSYNC_UNIFORM] = "uniform",      [VSYNC_FIFO] = "sender order",
};

/* A view as the first who began it has it. */
struct view {
    uint64_t vid;
    uint32_t *members; /* ascending */
    uint32_t count;
    struct amcast_place place;
};

struct step {
    uint64_t n;
    uint32_t message, line;
};

/* A life's part of a cell in a view. */
struct part {
    uint64_t vid, n; /* it delivers from n on */
    uint32_t cell, life;
    uint32_t stay; /* how often the life had been out before */
    struct amcast_place place;
    struct step *steps;
    uint32_t count, max;
};

struct life {
    uint32_t member, inc;
    uint64_t vid; /* that it is in; 0: none */
    uint64_t vid_max;
    uint32_t stay;   /* how often it was out */
    uint32_t *parts; /* by cell: of this view, plus 1; 0: none */
    uint32_t parts_max;
};

struct message {
    uint32_t sender;  /* member; NONE: its name says none */
    uint32_t stream;  /* what stands before the number */
    uint64_t number;  /* of it there; UINT64_MAX: none */
    uint32_t cell;    /* it was cast to, plus 1; 0: it was not */
    uint64_t vid;     /* in which it is delivered; 0: nowhere yet */
    uint32_t in_cell; /* likewise */
    uint32_t turn;    /* among all that its stream cast to the cell; given at the end */
};

/* A delivery in a raw cell. */
struct raw {
    uint64_t vid;
    uint32_t life, cell, message;
    struct amcast_place place;
};

struct vsync {
    struct intern member_names, cell_names, ids, stream_names;
    struct intern life_keys; /* struct vsync_life */
    struct intern vids;
    struct intern raw_keys; /* life, cell, stream */
    struct view *views;     /* by number in vids */
    struct raw *raws;
    uint32_t raw_count, raw_max;
    struct life *lives;
    struct message *messages;
    struct part *parts;
    uint32_t view_max, life_max, message_max, part_max, part_count;
    uint32_t *list; /* room for the members of one view */
    uint32_t list_max;
    uint64_t deliveries, casts;
    bool gap, majority, verified;
    struct vsync_violation *kept;
    uint32_t kept_count, kept_max;
    uint32_t kept_of[VSYNC_PROPERTIES];
    uint64_t found[VSYNC_PROPERTIES];
};

static const char *text_of(const struct intern *t, uint32_t number)
{
    static _Thread_local char text[4][64];
    static _Thread_local unsigned turn;
    uint32_t len;
    const char *at = intern_text(t, number, &len);
    char *out = text[turn++ % 4];
    snprintf(out, sizeof(text[0]), "%.*s", (int)(len < 48 ? len : 48), at);
    return out;
}

static const char *member_text(const struct vsync *v, uint32_t member)
{
    return text_of(&v->member_names, member);
}

static __attribute__((format(printf, 4, 5))) void
violated(struct vsync *v, enum vsync_property p, struct amcast_place place, const char *fmt, ...)
{
    v->found[p]++;
    if (v->kept_of[p]++ >= VSYNC_KEPT_MAX)
        return;
    v->kept = intern_grow(v->kept, &v->kept_max, v->kept_count, sizeof(*v->kept));
    struct vsync_violation *k = &v->kept[v->kept_count++];
    *k = (struct vsync_violation){.property = p, .place = place};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(k->text, sizeof(k->text), fmt, ap);
    va_end(ap);
}

struct vsync *vsync_open(void)
{
    struct vsync *v = calloc(1, sizeof(*v));
    if (v == NULL)
        abort();
    return v;
}

void vsync_close(struct vsync *v)
{
    if (v == NULL)
        return;
    for (uint32_t i = 0; i < v->vids.count; i++)
        free(v->views[i].members);
    for (uint32_t i = 0; i < v->life_keys.count; i++)
        free(v->lives[i].parts);
    for (uint32_t i = 0; i < v->part_count; i++)
        free(v->parts[i].steps);
    intern_fini(&v->member_names);
    intern_fini(&v->cell_names);
    intern_fini(&v->ids);
    intern_fini(&v->stream_names);
    intern_fini(&v->life_keys);
    intern_fini(&v->vids);
    intern_fini(&v->raw_keys);
    free(v->views);
    free(v->raws);
    free(v->lives);
    free(v->messages);
    free(v->parts);
    free(v->kept);
    free(v->list);
    free(v);
}

/* ---- names ---- */

uint32_t vsync_member(struct vsync *v, const char *name, size_t len)
{
    return intern_add(&v->member_names, name, len);
}

uint32_t vsync_cell(struct vsync *v, const char *name, size_t len)
{
    return intern_add(&v->cell_names, name, len);
}

/* How much of the name of a stream is that of its sender: without a life. */
static size_t sender_len(const char *stream, size_t len)
{
    size_t at = len;
    while (at > 0 && stream[at - 1] >= '0' && stream[at - 1] <= '9')
        at--;
    return at > 1 && at < len && stream[at - 1] == '.' ? at - 1 : len;
}

uint32_t vsync_message(struct vsync *v, const char *id, size_t len)
{
    uint32_t had = v->ids.count, m = intern_add(&v->ids, id, len);
    if (m != had)
        return m;
    v->messages = intern_grow(v->messages, &v->message_max, m, sizeof(*v->messages));
    const char *colon = memrchr(id, ':', len);
    size_t stream = colon ? (size_t)(colon - id) : len;
    struct message *x = &v->messages[m];
    *x = (struct message){.number = colon ? 0 : UINT64_MAX, .sender = NONE};
    for (size_t i = stream + 1; i < len && id[i] != '.' && x->number != UINT64_MAX; i++)
        x->number = id[i] >= '0' && id[i] <= '9' && x->number < UINT64_MAX / 16
                        ? x->number * 10 + (uint64_t)(id[i] - '0')
                        : UINT64_MAX;
    x->stream = intern_add(&v->stream_names, id, stream);
    x->sender = vsync_member(v, id, sender_len(id, stream));
    return m;
}

static uint32_t life_of(struct vsync *v, struct vsync_life l)
{
    uint32_t had = v->life_keys.count, i = intern_add(&v->life_keys, &l, sizeof(l));
    if (i == had) {
        v->lives = intern_grow(v->lives, &v->life_max, i, sizeof(*v->lives));
        v->lives[i] = (struct life){.member = l.member, .inc = l.inc};
    }
    return i;
}

/* ---- views ---- */

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool has_member(const struct view *w, uint32_t member)
{
    return w->count > 0 &&
           bsearch(&member, w->members, w->count, sizeof(*w->members), ascending) != NULL;
}

static struct view *view_of(const struct vsync *v, uint64_t vid)
{
    uint32_t i = intern_find(&v->vids, &vid, sizeof(vid));
    return i == INTERN_NONE ? NULL : &v->views[i];
}

static void view_add(struct vsync *v, uint32_t i, const struct view *w)
{
    v->views = intern_grow(v->views, &v->view_max, i, sizeof(*v->views));
    v->views[i] = *w;
    v->views[i].members = calloc(w->count ? w->count : 1, sizeof(*w->members));
    if (v->views[i].members == NULL)
        abort();
    memcpy(v->views[i].members, w->members, w->count * sizeof(*w->members));
}

static bool same_members(const struct view *a, const struct view *b)
{
    return a->count == b->count &&
           memcmp(a->members, b->members, a->count * sizeof(*a->members)) == 0;
}

void vsync_view(struct vsync *v, struct vsync_life who, uint64_t vid, const uint32_t *members,
                uint32_t count, struct amcast_place place)
{
    uint32_t *sorted = v->list = intern_grow(v->list, &v->list_max, count, sizeof(*v->list));
    struct view w = {.vid = vid, .members = sorted, .count = count, .place = place};
    uint32_t number = life_of(v, who);
    struct life *l = &v->lives[number];
    if (count > 0)
        memcpy(sorted, members, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), ascending);
    uint32_t had = v->vids.count, i = intern_add(&v->vids, &vid, sizeof(vid));
    if (i == had)
        view_add(v, i, &w);
    else if (!same_members(&v->views[i], &w))
        violated(v, VSYNC_VIEWS, place, "%s begins view %llu with other members than others did",
                 member_text(v, who.member), (ull)vid);
    if (!has_member(&w, who.member))
        violated(v, VSYNC_VIEWS, place, "%s begins view %llu and is not in it",
                 member_text(v, who.member), (ull)vid);
    if (vid <= l->vid_max)
        violated(v, VSYNC_VIEWS, place, "%s begins view %llu after view %llu",
                 member_text(v, who.member), (ull)vid, (ull)l->vid_max);
    l->vid = vid;
    l->vid_max = vid > l->vid_max ? vid : l->vid_max;
    if (l->parts)
        memset(l->parts, 0, l->parts_max * sizeof(*l->parts));
}

/* ---- deliveries ---- */

void vsync_start(struct vsync *v, struct vsync_life who, uint32_t cell, uint64_t vid, uint64_t n,
                 struct amcast_place place)
{
    uint32_t number = life_of(v, who);
    struct life *l = &v->lives[number];
    l->parts = intern_grow(l->parts, &l->parts_max, cell, sizeof(*l->parts));
    if (l->vid != vid || l->parts[cell] != 0) {
        violated(v, VSYNC_INTEGRITY, place, "%s starts in cell %s in view %llu %s",
                 member_text(v, who.member), text_of(&v->cell_names, cell), (ull)vid,
                 l->vid != vid ? "and is in another one" : "twice");
        return;
    }
    v->parts = intern_grow(v->parts, &v->part_max, v->part_count, sizeof(*v->parts));
    v->parts[v->part_count++] = (struct part){
        .vid = vid, .n = n, .cell = cell, .life = number, .stay = l->stay, .place = place};
    l->parts[cell] = v->part_count;
}

/* The first delivery of a message says where it belongs. */
static void check_once(struct vsync *v, const struct life *l, uint32_t cell, uint64_t vid,
                       uint32_t message, struct amcast_place place)
{
    struct message *m = &v->messages[message];
    if (m->vid == 0) {
        m->vid = vid;
        m->in_cell = cell;
    } else if (m->vid != vid || m->in_cell != cell) {
        violated(v, VSYNC_INTEGRITY, place,
                 "%s delivers %s in view %llu of cell %s, it was delivered in view %llu of cell %s",
                 member_text(v, l->member), text_of(&v->ids, message), (ull)vid,
                 text_of(&v->cell_names, cell), (ull)m->vid, text_of(&v->cell_names, m->in_cell));
    }
    const struct view *w = view_of(v, vid);
    if (w && !has_member(w, m->sender))
        violated(v, VSYNC_INTEGRITY, place,
                 "%s delivers %s in view %llu, of which its sender is no member",
                 member_text(v, l->member), text_of(&v->ids, message), (ull)vid);
}

void vsync_deliver(struct vsync *v, struct vsync_life who, uint32_t cell, uint64_t vid, uint64_t n,
                   uint32_t message, struct amcast_place place)
{
    uint32_t number = life_of(v, who);
    struct life *l = &v->lives[number];
    v->deliveries++;
    l->parts = intern_grow(l->parts, &l->parts_max, cell, sizeof(*l->parts));
    if (l->vid != vid || l->parts[cell] == 0) {
        violated(v, VSYNC_INTEGRITY, place, "%s delivers %s in view %llu of cell %s, and %s",
                 member_text(v, who.member), text_of(&v->ids, message), (ull)vid,
                 text_of(&v->cell_names, cell),
                 l->vid != vid ? "is in another view" : "has not started there");
        return;
    }
    struct part *p = &v->parts[l->parts[cell] - 1];
    uint64_t least = p->count ? p->steps[p->count - 1].n + 1 : p->n;
    if (n < least) {
        violated(v, VSYNC_SEQUENCE, place,
                 "%s delivers number %llu of cell %s in view %llu, due is %llu or more",
                 member_text(v, who.member), (ull)n, text_of(&v->cell_names, cell), (ull)vid,
                 (ull)least);
        return;
    }
    check_once(v, l, cell, vid, message, place);
    p->steps = intern_grow(p->steps, &p->max, p->count, sizeof(*p->steps));
    p->steps[p->count++] = (struct step){n, message, place.line};
}

void vsync_deliver_raw(struct vsync *v, struct vsync_life who, uint32_t cell, uint64_t vid,
                       uint32_t message, struct amcast_place place)
{
    uint32_t number = life_of(v, who);
    v->deliveries++;
    if (v->lives[number].vid != vid)
        violated(v, VSYNC_INTEGRITY, place,
                 "%s delivers %s in view %llu of cell %s, and is in another view",
                 member_text(v, who.member), text_of(&v->ids, message), (ull)vid,
                 text_of(&v->cell_names, cell));
    v->raws = intern_grow(v->raws, &v->raw_max, v->raw_count, sizeof(*v->raws));
    v->raws[v->raw_count++] =
        (struct raw){.vid = vid, .life = number, .cell = cell, .message = message, .place = place};
}

void vsync_out(struct vsync *v, struct vsync_life who)
{
    struct life *l = &v->lives[life_of(v, who)];
    l->vid = 0;
    l->stay++;
    if (l->parts)
        memset(l->parts, 0, l->parts_max * sizeof(*l->parts));
}

void vsync_cast(struct vsync *v, uint32_t message, uint32_t cell)
{
    v->casts++;
    v->messages[message].cell = cell + 1;
}

void vsync_gap(struct vsync *v)
{
    v->gap = true;
}

/* ---- the verdict ---- */

static int by_cell_and_vid(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->cell != y->cell)
        return x->cell < y->cell ? -1 : 1;
    if (x->vid != y->vid)
        return x->vid < y->vid ? -1 : 1;
    return (x->life > y->life) - (x->life < y->life);
}

static int by_number(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return (x->message > y->message) - (x->message < y->message);
}

/* All deliveries of a cell in a view, each number once. */
struct joint {
    struct step *steps;
    uint32_t count, max;
};

static void join(struct vsync *v, const struct part *p, uint32_t parts, struct joint *j)
{
    uint32_t all = 0, kept = 0;
    for (uint32_t i = 0; i < parts; i++)
        for (uint32_t k = 0; k < p[i].count; k++) {
            j->steps = intern_grow(j->steps, &j->max, all, sizeof(*j->steps));
            j->steps[all++] = p[i].steps[k];
        }
    if (all > 0)
        qsort(j->steps, all, sizeof(*j->steps), by_number);
    for (uint32_t i = 0; i < all; i++) {
        const struct step *last = kept ? &j->steps[kept - 1] : NULL;
        if (last && last->n == j->steps[i].n) {
            if (last->message != j->steps[i].message)
                violated(v, VSYNC_SEQUENCE, p->place,
                         "number %llu of cell %s in view %llu is %s for one and %s for another",
                         (ull)last->n, text_of(&v->cell_names, p->cell), (ull)p->vid,
                         text_of(&v->ids, last->message), text_of(&v->ids, j->steps[i].message));
            continue;
        }
        j->steps[kept++] = j->steps[i];
    }
    j->count = kept;
}

/* The life's part of the cell in the next view; NULL: none. */
static const struct part *part_after(const struct vsync *v, const struct part *p)
{
    for (const struct part *q = p; q < v->parts + v->part_count && q->cell == p->cell; q++)
        if (q->vid == p->vid + 1 && q->life == p->life && q->stay == p->stay)
            return q;
        else if (q->vid > p->vid + 1)
            break;
    return NULL;
}

/* Everything that it delivers is what all deliver, from where it starts; and all of it, if it goes on. */
static void check_part(struct vsync *v, const struct part *p, const struct joint *j)
{
    const struct life *l = &v->lives[p->life];
    uint32_t at = 0;
    while (at < j->count && j->steps[at].n < p->n)
        at++;
    for (uint32_t k = 0; k < p->count; k++, at++)
        if (at >= j->count || j->steps[at].n != p->steps[k].n) {
            violated(v, VSYNC_SEQUENCE, (struct amcast_place){p->place.file, p->steps[k].line},
                     "%s delivers number %llu of cell %s in view %llu and left out number %llu",
                     member_text(v, l->member), (ull)p->steps[k].n,
                     text_of(&v->cell_names, p->cell), (ull)p->vid,
                     (ull)(at < j->count ? j->steps[at].n : 0));
            return;
        }
    const struct part *next = part_after(v, p);
    /* One whose state came late may have had to begin anew. */
    bool anew = p->n > 0 && (next == NULL || next->n > 0);
    if (l->vid_max > p->vid && next && !anew && !v->gap && at < j->count)
        violated(v, VSYNC_UNIFORM, next->place,
                 "%s goes on to view %llu and has not delivered number %llu (%s) of cell %s in "
                 "view %llu",
                 member_text(v, l->member), (ull)(p->vid + 1), (ull)j->steps[at].n,
                 text_of(&v->ids, j->steps[at].message), text_of(&v->cell_names, p->cell),
                 (ull)p->vid);
}

static bool knows_casts(const struct vsync *v)
{
    return v->casts > 0 && !v->gap;
}

static void check_cast(struct vsync *v, uint32_t cell, const struct step *s,
                       struct amcast_place place)
{
    if (knows_casts(v) && v->messages[s->message].cell != cell + 1)
        violated(v, VSYNC_INTEGRITY, place, "%s is delivered in cell %s, and was not cast to it",
                 text_of(&v->ids, s->message), text_of(&v->cell_names, cell));
}

/* What was heard of a stream before this. */
struct heard {
    uint64_t least; /* its number may not be less */
    uint64_t vid;   /* in which it was */
    uint32_t turn;  /* of the last: its place among all that the stream cast to the cell */
};

static void check_next(struct vsync *v, struct heard *h, uint32_t cell, uint64_t vid,
                       const struct step *s, struct amcast_place place)
{
    const struct message *m = &v->messages[s->message];
    if (m->number == UINT64_MAX)
        return;
    if (m->number < h->least)
        violated(v, VSYNC_FIFO, place,
                 "%s is delivered in view %llu of cell %s, after number %llu of its sender",
                 text_of(&v->ids, s->message), (ull)vid, text_of(&v->cell_names, cell),
                 (ull)h->least - 1);
    else if (h->vid == vid && m->turn > h->turn + 1 && knows_casts(v))
        violated(v, VSYNC_FIFO, place,
                 "%s is delivered in view %llu of cell %s, and what its sender cast after number "
                 "%llu is left out",
                 text_of(&v->ids, s->message), (ull)vid, text_of(&v->cell_names, cell),
                 (ull)h->least - 1);
    *h = (struct heard){.least = m->number + 1, .vid = vid, .turn = m->turn};
}

/* What all deliver is in the order in which each sender sent it, over all views; and was cast. */
static void check_order(struct vsync *v, const struct part *p, const struct joint *j,
                        struct heard *heard)
{
    for (uint32_t i = 0; i < j->count; i++) {
        const struct step *s = &j->steps[i];
        check_cast(v, p->cell, s, p->place);
        check_next(v, &heard[v->messages[s->message].stream], p->cell, p->vid, s, p->place);
    }
}

struct cast {
    uint64_t number;
    uint32_t cell, stream, message;
};

static int by_stream(const void *a, const void *b)
{
    const struct cast *x = a, *y = b;
    if (x->cell != y->cell)
        return x->cell < y->cell ? -1 : 1;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Gives each message that was cast its turn in the stream of its sender to the cell. */
static void give_turns(struct vsync *v)
{
    struct cast *list = calloc((size_t)v->ids.count + 1, sizeof(*list));
    uint32_t count = 0;
    if (list == NULL)
        abort();
    for (uint32_t i = 0; i < v->ids.count; i++) {
        const struct message *m = &v->messages[i];
        if (m->cell != 0)
            list[count++] = (struct cast){m->number, m->cell, m->stream, i};
    }
    qsort(list, count, sizeof(*list), by_stream);
    for (uint32_t i = 1; i < count; i++)
        if (list[i].cell == list[i - 1].cell && list[i].stream == list[i - 1].stream)
            v->messages[list[i].message].turn = v->messages[list[i - 1].message].turn + 1;
    free(list);
}

/* The messages of a life's stream in a raw cell. */
static struct heard *heard_of(struct vsync *v, struct heard **heard, uint32_t *max,
                              const struct raw *r)
{
    const uint32_t key[3] = {r->life, r->cell, v->messages[r->message].stream};
    uint32_t had = v->raw_keys.count, i = intern_add(&v->raw_keys, key, sizeof(key));
    *heard = intern_grow(*heard, max, i, sizeof(**heard));
    if (i == had)
        (*heard)[i] = (struct heard){0};
    return &(*heard)[i];
}

static void check_raw(struct vsync *v)
{
    struct heard *heard = NULL;
    uint32_t max = 0;
    for (uint32_t i = 0; i < v->raw_count; i++) {
        const struct raw *r = &v->raws[i];
        const struct step s = {.message = r->message, .line = r->place.line};
        check_cast(v, r->cell, &s, r->place);
        check_next(v, heard_of(v, &heard, &max, r), r->cell, r->vid, &s, r->place);
    }
    free(heard);
}

static void check_chain(struct vsync *v)
{
    for (uint32_t i = 0; i < v->vids.count; i++) {
        const struct view *w = &v->views[i], *next = view_of(v, w->vid + 1);
        uint32_t stay = 0;
        for (uint32_t k = 0; next && k < w->count; k++)
            stay += has_member(next, w->members[k]);
        if (next && 2 * stay <= w->count)
            violated(v, VSYNC_CHAIN, next->place,
                     "view %llu has %u of the %u members of the one before", (ull)next->vid, stay,
                     w->count);
    }
}

bool vsync_verify(struct vsync *v, bool majority)
{
    struct joint j = {0};
    struct heard *heard = calloc((size_t)v->stream_names.count + 1, sizeof(*heard));
    if (heard == NULL)
        abort();
    give_turns(v);
    v->majority = majority;
    v->verified = true;
    if (v->part_count > 0)
        qsort(v->parts, v->part_count, sizeof(*v->parts), by_cell_and_vid);
    for (uint32_t i = 0, next; i < v->part_count; i = next) {
        const struct part *p = &v->parts[i];
        for (next = i; next < v->part_count && v->parts[next].cell == p->cell &&
                       v->parts[next].vid == p->vid;)
            next++;
        if (i > 0 && v->parts[i - 1].cell != p->cell)
            memset(heard, 0, v->stream_names.count * sizeof(*heard));
        join(v, p, next - i, &j);
        for (uint32_t k = i; k < next; k++)
            check_part(v, &v->parts[k], &j);
        check_order(v, p, &j, heard);
    }
    check_raw(v);
    if (majority)
        check_chain(v);
    free(heard);
    free(j.steps);
    for (uint32_t p = 0; p < VSYNC_PROPERTIES; p++)
        if (v->found[p] > 0)
            return false;
    return true;
}

void vsync_summarise(const struct vsync *v, struct vsync_summary *s)
{
    *s = (struct vsync_summary){.views = v->vids.count,
                                .deliveries = v->deliveries,
                                .casts = v->casts,
                                .members = v->member_names.count,
                                .lives = v->life_keys.count,
                                .cells = v->cell_names.count};
    for (uint32_t p = 0; p < VSYNC_PROPERTIES; p++) {
        s->violations[p] = v->found[p];
        s->checked[p] =
            v->verified && (p != VSYNC_CHAIN || v->majority) && (p != VSYNC_UNIFORM || !v->gap);
    }
}

const struct vsync_violation *vsync_violation(const struct vsync *v, uint32_t i)
{
    return i < v->kept_count ? &v->kept[i] : NULL;
}
