/* Breadth first over all states, so that a schedule that breaks something is a shortest one. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20, PACKED_MAX = 2 * sizeof(struct state), TEXT_BYTES = 1 << 12 };

/* How a state was reached first: the number of a step of an earlier one. */
struct origin {
    uint32_t parent;
    uint16_t ordinal;
};

/* Packed states that are still to be expanded, first in, first out. */
struct chunk {
    struct chunk *next;
    uint32_t used;
    unsigned char bytes[CHUNK_BYTES];
};

struct search {
    struct verdict v;
    uint64_t *table; /* fingerprints; 0: free */
    uint64_t mask;
    struct origin *origin;
    uint64_t origins_max;
    struct chunk *head, *tail;
    uint32_t read_at;
    uint64_t parent;
    uint16_t ordinal;
    struct origin last; /* the step that went wrong */
};

/* A state is mostly zeros: each run of them becomes a zero and its length. */
static uint32_t pack(const struct state *s, unsigned char *out)
{
    const unsigned char *in = (const unsigned char *)s;
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof(*s);) {
        if (in[i] != 0) {
            out[n++] = in[i++];
            continue;
        }
        unsigned zeros = 0;
        uint64_t word = 0;
        while (zeros < 248 && i + 8 <= sizeof(*s) && (memcpy(&word, in + i, 8), word == 0)) {
            zeros += 8;
            i += 8;
        }
        while (i < sizeof(*s) && in[i] == 0 && zeros < 255) {
            zeros++;
            i++;
        }
        out[n++] = 0;
        out[n++] = (unsigned char)zeros;
    }
    return n;
}

static void unpack(const unsigned char *in, uint32_t n, struct state *s)
{
    unsigned char *out = (unsigned char *)s;
    for (uint32_t i = 0; i < n; i++) {
        if (in[i] != 0) {
            *out++ = in[i];
            continue;
        }
        memset(out, 0, in[++i]);
        out += in[i];
    }
}

static uint64_t fingerprint(const unsigned char *bytes, uint32_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    h *= 0xc4ceb9fe1a85ec53u;
    h ^= h >> 29;
    return h ? h : 1;
}

static void *need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "log_model: out of memory\n");
        exit(2);
    }
    return memory;
}

static void table_grow(struct search *f)
{
    uint64_t *old = f->table, count = f->mask + 1;
    f->mask = 2 * count - 1;
    f->table = need(calloc(2 * count, sizeof(*f->table)));
    for (uint64_t i = 0; i < count; i++)
        if (old[i] != 0) {
            uint64_t at = old[i] & f->mask;
            while (f->table[at] != 0)
                at = (at + 1) & f->mask;
            f->table[at] = old[i];
        }
    free(old);
}

static bool is_new(struct search *f, uint64_t print)
{
    uint64_t at = print & f->mask;
    for (; f->table[at] != 0; at = (at + 1) & f->mask)
        if (f->table[at] == print)
            return false;
    f->table[at] = print;
    return true;
}

static void chunk_add(struct search *f)
{
    struct chunk *c = need(malloc(sizeof(*c)));
    c->next = NULL;
    c->used = 0;
    if (f->tail)
        f->tail->next = c;
    else
        f->head = c;
    f->tail = c;
}

static void queue_push(struct search *f, const unsigned char *bytes, uint32_t n)
{
    if (f->tail == NULL || f->tail->used + n + sizeof(n) > CHUNK_BYTES)
        chunk_add(f);
    struct chunk *c = f->tail;
    memcpy(c->bytes + c->used, &n, sizeof(n));
    memcpy(c->bytes + c->used + sizeof(n), bytes, n);
    c->used += (uint32_t)sizeof(n) + n;
}

static bool queue_pop(struct search *f, struct state *s)
{
    while (f->head && f->read_at == f->head->used) {
        struct chunk *next = f->head->next;
        if (next == NULL)
            return false;
        free(f->head);
        f->head = next;
        f->read_at = 0;
    }
    uint32_t n;
    memcpy(&n, f->head->bytes + f->read_at, sizeof(n));
    unpack(f->head->bytes + f->read_at + sizeof(n), n, s);
    f->read_at += (uint32_t)sizeof(n) + n;
    return true;
}

static void add_state(struct search *f, const struct state *s)
{
    unsigned char bytes[PACKED_MAX];
    uint32_t n = pack(s, bytes);
    if (!is_new(f, fingerprint(bytes, n)))
        return;
    if (f->v.states == f->origins_max) {
        f->origins_max *= 2;
        f->origin = need(realloc(f->origin, f->origins_max * sizeof(*f->origin)));
    }
    f->origin[f->v.states++] = (struct origin){(uint32_t)f->parent, f->ordinal};
    if (f->v.states * 10 > f->mask * 7)
        table_grow(f);
    queue_push(f, bytes, n);
}

static void found(struct expansion *x, const struct state *s)
{
    struct search *f = x->ctx;
    f->v.steps++;
    if (f->v.wrong == NULL && x->wrong != NULL) {
        f->v.wrong = x->wrong;
        f->last = (struct origin){(uint32_t)f->parent, f->ordinal};
    }
    if (f->v.wrong == NULL)
        add_state(f, s);
    f->ordinal++;
}

static void first_state(const struct model *m, struct state *s)
{
    memset(s, 0, sizeof(*s));
    s->ballots = 1;
    struct replica *a = &s->replica[0];
    a->role = LEADS;
    a->ballot = 1;
    for (uint8_t q = 0; q < N; q++) {
        s->promised[q] = 1;
        s->lane[q][0].word[RUN] = 1;
        a->phase[q] = PEER_LIVE;
    }
    struct expansion x = {.m = m};
    lead_propose_first(&x, s, m->first);
    s->messages = m->first;
}

/* ---- telling a schedule ---- */

struct replay {
    uint16_t ordinal, at;
    struct state to;
    char text[TEXT_BYTES];
};

static void replayed(struct expansion *x, const struct state *s)
{
    struct replay *r = x->ctx;
    if (r->at++ != r->ordinal)
        return;
    r->to = *s;
    snprintf(r->text, sizeof(r->text), "%s", x->text);
}

static void tell_schedule(const struct search *f, const struct model *m, void (*tell)(const char *))
{
    uint64_t depth = f->v.depth;
    uint16_t *steps = need(malloc((depth + 1) * sizeof(*steps)));
    steps[depth] = f->last.ordinal;
    for (uint64_t at = f->last.parent, i = depth; i-- > 0; at = f->origin[at].parent)
        steps[i] = f->origin[at].ordinal;
    static char text[TEXT_BYTES];
    static struct replay r;
    struct expansion x = {
        .m = m, .emit = replayed, .ctx = &r, .text = text, .text_bytes = sizeof(text)};
    struct state s;
    first_state(m, &s);
    for (uint64_t i = 0; i <= depth; i++) {
        char line[TEXT_BYTES + 16];
        r.ordinal = steps[i];
        r.at = 0;
        expand(&x, &s);
        s = r.to;
        snprintf(line, sizeof(line), "%3u. %s", (unsigned)(i + 1), r.text);
        tell(line);
    }
    tell(f->v.wrong);
    free(steps);
}

/* How many steps led to the state before the one that went wrong. */
static uint64_t depth_of(const struct search *f, uint64_t at)
{
    uint64_t depth = 0;
    for (; at != 0; at = f->origin[at].parent)
        depth++;
    return depth;
}

static void count_behind(struct search *f, const struct state *s)
{
    for (uint8_t p = 0; p < N; p++)
        if (s->replica[p].role == BEHIND) {
            f->v.behind++;
            return;
        }
}

struct verdict search(const struct model *m, void (*tell)(const char *line))
{
    struct search f = {.mask = (1u << 16) - 1, .origins_max = 1u << 16};
    f.table = need(calloc(f.mask + 1, sizeof(*f.table)));
    f.origin = need(malloc(f.origins_max * sizeof(*f.origin)));
    struct expansion x = {.m = m, .emit = found, .ctx = &f};
    struct state s;
    first_state(m, &s);
    add_state(&f, &s);
    for (uint64_t at = 0; queue_pop(&f, &s) && f.v.wrong == NULL; at++) {
        if (f.v.states > m->states_max)
            break;
        f.parent = at;
        f.ordinal = 0;
        count_behind(&f, &s);
        if (!m->to_the_end && s.ballots == m->ballots &&
            s.replica[s.owner[s.ballots]].role == LEADS)
            continue;
        expand(&x, &s);
        if (m->progress && at % (1u << 20) == 0)
            fprintf(stderr, "log_model: %llu states, %llu to expand, depth %llu\n",
                    (unsigned long long)f.v.states, (unsigned long long)(f.v.states - at),
                    (unsigned long long)depth_of(&f, at));
    }
    f.v.complete = f.v.wrong == NULL && f.v.states <= m->states_max;
    if (f.v.wrong != NULL) {
        f.v.depth = depth_of(&f, f.last.parent);
        tell_schedule(&f, m, tell);
    }
    for (struct chunk *c = f.head, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(f.table);
    free(f.origin);
    return f.v;
}
