/* Stores under way. An item is a kind, up to nine bits of content, and which of its words have landed. */
#include "model.h"

#include <assert.h>
#include <string.h>

enum kind { ITEM_WORD, ITEM_RENEWAL, ITEM_BOUNDS, ITEM_ENTRY, ITEM_MARK };

static uint16_t item(enum kind kind, unsigned a, unsigned b, unsigned c)
{
    assert(a < 8 && b < 8 && c < 8);
    return (uint16_t)(kind | a << 3 | b << 6 | c << 9);
}

static unsigned field(uint16_t it, unsigned i)
{
    return it >> (3 + 3 * i) & 7;
}

static unsigned landed(uint16_t it)
{
    return it >> 12 & 7;
}

static void issue(struct state *s, uint8_t q, uint8_t w, uint16_t it)
{
    struct queue *queue = &s->queue[q][w];
    assert(queue->count < QUEUE_MAX);
    queue->item[queue->count++] = it;
}

bool room_for(const struct state *s, uint8_t w)
{
    for (uint8_t q = 0; q < N; q++)
        if (s->queue[q][w].count > QUEUE_MAX - 8)
            return false;
    return true;
}

void issue_word(struct state *s, uint8_t q, uint8_t w, enum word word, uint8_t value)
{
    issue(s, q, w, item(ITEM_WORD, word, value, 0));
}

void issue_renewal(struct state *s, uint8_t q, uint8_t w, uint8_t start)
{
    issue(s, q, w, item(ITEM_RENEWAL, start, start, start));
}

void issue_bounds(struct state *s, uint8_t q, uint8_t w, uint8_t guard, uint8_t commit)
{
    issue(s, q, w, item(ITEM_BOUNDS, guard, commit, 0));
}

void issue_entry(struct state *s, uint8_t q, uint8_t w, uint8_t pos, struct entry e)
{
    issue(s, q, w, item(ITEM_ENTRY, pos, e.value, e.ballot));
}

void issue_mark(struct state *s, uint8_t q, uint8_t w, uint8_t ballot, uint8_t tag)
{
    issue(s, q, w, item(ITEM_MARK, ballot, tag, 0));
}

/* The address and new content of each word of a store; how many they are. */
static unsigned words_of(struct state *s, uint8_t q, uint8_t w, uint8_t **at, uint8_t *to)
{
    struct lane *l = &s->lane[q][w];
    uint16_t it = s->queue[q][w].item[0];
    switch ((enum kind)(it & 7)) {
    case ITEM_WORD:
        at[0] = &l->word[field(it, 0)];
        to[0] = (uint8_t)field(it, 1);
        return 1;
    case ITEM_RENEWAL:
        for (unsigned i = 0; i < 3; i++) {
            at[i] = &l->word[START + i];
            to[i] = (uint8_t)field(it, i);
        }
        return 3;
    case ITEM_BOUNDS:
        for (unsigned i = 0; i < 2; i++) {
            at[i] = &l->word[GUARD + i];
            to[i] = (uint8_t)field(it, i);
        }
        return 2;
    case ITEM_ENTRY:
        at[0] = &l->ring[field(it, 0)].value;
        to[0] = (uint8_t)field(it, 1);
        at[1] = &l->ring[field(it, 0)].ballot;
        to[1] = (uint8_t)field(it, 2);
        return 2;
    case ITEM_MARK:
        return 0;
    }
    return 0;
}

static void pop(struct state *s, uint8_t q, uint8_t w)
{
    struct queue *queue = &s->queue[q][w];
    queue->count--;
    memmove(queue->item, queue->item + 1, queue->count * sizeof(queue->item[0]));
    queue->item[queue->count] = 0;
}

bool mark_would_count(const struct expansion *x, const struct state *s, uint8_t q, uint8_t w)
{
    uint16_t it = s->queue[q][w].item[0];
    const struct replica *r = &s->replica[w];
    return s->queue[q][w].count > 0 && (it & 7) == ITEM_MARK && r->role == LEADS &&
           r->ballot == field(it, 0) && r->phase[q] == PEER_LIVE &&
           (s->promised[q] == r->ballot || rule(x, rule_stale_counts));
}

static void land_mark(struct expansion *x, struct state *s, uint8_t q, uint8_t w)
{
    uint8_t tag = (uint8_t)field(s->queue[q][w].item[0], 1);
    bool counts = mark_would_count(x, s, q, w);
    pop(s, q, w);
    if (counts) {
        say(x, "; %c learns that its copy at %c stands up to %u", 'A' + w, 'A' + q, tag);
        lead_stands(x, s, w, q, tag);
    } else {
        say(x, "; %c will not learn that its copy at %c stands up to %u", 'A' + w, 'A' + q, tag);
    }
}

static void say_store(struct expansion *x, const struct state *s, uint8_t q, uint8_t w,
                      const uint8_t *at, uint8_t to)
{
    static const char *names[] = {"RUN", "START", "GUARD", "COMMIT"};
    const struct lane *l = &s->lane[q][w];
    for (unsigned i = 0; i < WORDS; i++)
        if (at == &l->word[i])
            say(x, "; %c's lane at %c: %s = %u", 'A' + w, 'A' + q, names[i], to);
    for (unsigned i = 0; i < LENGTH_MAX; i++) {
        if (at == &l->ring[i].value)
            say(x, "; %c's lane at %c: entry %u = %c", 'A' + w, 'A' + q, i, ".Sxyz"[to]);
        if (at == &l->ring[i].ballot)
            say(x, "; %c's lane at %c: entry %u is of ballot %u", 'A' + w, 'A' + q, i, to);
    }
}

/* The words that are there already land with the others; nobody sees when. */
static unsigned pending(uint8_t **at, const uint8_t *to, unsigned count, unsigned mask,
                        unsigned *which)
{
    unsigned left = 0;
    for (unsigned i = 0; i < count; i++)
        if (!(mask >> i & 1) && *at[i] != to[i])
            which[left++] = i;
    return left;
}

bool land(struct expansion *x, struct state *s, uint8_t q, uint8_t w, unsigned which)
{
    struct queue *queue = &s->queue[q][w];
    if (queue->count == 0)
        return false;
    if ((queue->item[0] & 7) == ITEM_MARK) {
        if (which == 0)
            land_mark(x, s, q, w);
        return which == 0;
    }
    uint8_t *at[3], to[3];
    unsigned left_of[3];
    unsigned count = words_of(s, q, w, at, to);
    unsigned left = pending(at, to, count, landed(queue->item[0]), left_of);
    bool whole = (queue->item[0] & 7) == ITEM_ENTRY && !x->m->torn;
    if (which > 0 && (which >= left || whole))
        return false;
    for (unsigned i = 0; i < left; i++)
        if (i == which || whole) {
            say_store(x, s, q, w, at[left_of[i]], to[left_of[i]]);
            *at[left_of[i]] = to[left_of[i]];
            queue->item[0] = (uint16_t)(queue->item[0] | 1u << (12 + left_of[i]));
        }
    if (left == 0)
        say(x, "; %c's lane at %c: what is there is written again", 'A' + w, 'A' + q);
    if (left <= 1 || whole)
        pop(s, q, w);
    return true;
}

/* Lands everything that w has under way to q; it is too late to be told. */
void land_all(struct expansion *x, struct state *s, uint8_t q, uint8_t w)
{
    char *text = x->text;
    x->text = NULL;
    while (s->queue[q][w].count > 0)
        if (mark_would_count(x, s, q, w))
            pop(s, q, w);
        else
            land(x, s, q, w, 0);
    x->text = text;
}

void cut_all(struct state *s, uint8_t q, uint8_t w)
{
    while (s->queue[q][w].count > 0)
        pop(s, q, w);
}
