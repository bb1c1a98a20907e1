#include "group/view.h"

#include <stdlib.h>
#include <string.h>

/* Of `struct view` as bytes, in words of 8:
 *
 *      | vid | hosts 31, moved 1, cells 31, adequate 1 | members | leavers | who was ever let in |
 *      | moved: generation 32, keepers 32 | life 48 .. host 16 of each | (else the keepers are those of generation 0)
 *      | life of each member | seen of each who was ever let in | cells ... |
 *
 *      a cell: | state 8, trims 8 | born, members, senders, stateful, learners, cut, last (lives) or
 *              born, members_last, cut, last (vacant) | trims ... | */
enum { HEAD_WORDS = 5, CELL_WORDS = 8, TRIMS_SHIFT = 8, CELLS_SHIFT = 32, LIFE_BITS = 48 };
#define ADEQUATE (UINT64_C(1) << 63)
#define MOVED (UINT64_C(1) << 31)

int view_open(uint32_t hosts, uint32_t cells, struct view **out, struct err *e)
{
    CHECK(hosts > 0 && hosts <= GROUP_HOSTS_MAX && cells <= GROUP_CELLS_MAX);
    struct view *v = calloc(1, sizeof(*v) + cells * sizeof(v->cell[0]));
    if (v == NULL)
        return err_set(e, ERR_NOMEM, "view: no memory for %u cells", cells);
    v->hosts = hosts;
    v->cells = cells;
    *out = v;
    return 0;
}

void view_close(struct view *v)
{
    free(v);
}

void view_copy(struct view *to, const struct view *from)
{
    CHECK(to->hosts == from->hosts && to->cells == from->cells);
    memcpy(to, from, sizeof(*to) + from->cells * sizeof(from->cell[0]));
}

static bool words_equal(const uint64_t *a, const uint64_t *b, uint32_t count)
{
    return memcmp(a, b, count * sizeof(*a)) == 0;
}

static bool cell_equal(const struct view_cell *a, const struct view_cell *b)
{
    return a->state == b->state && a->born == b->born && a->members == b->members &&
           a->senders == b->senders && a->stateful == b->stateful && a->learners == b->learners &&
           a->members_last == b->members_last && a->cut == b->cut && a->last == b->last &&
           a->trims == b->trims && words_equal(a->trim, b->trim, a->trims);
}

static bool keepers_equal(const struct view_keepers *a, const struct view_keepers *b)
{
    return a->generation == b->generation && a->count == b->count &&
           memcmp(a->host, b->host, a->count * sizeof(a->host[0])) == 0 &&
           words_equal(a->life, b->life, a->count);
}

bool view_equal(const struct view *a, const struct view *b)
{
    if (!keepers_equal(&a->keepers, &b->keepers) || a->vid != b->vid || a->hosts != b->hosts ||
        a->cells != b->cells || a->adequate != b->adequate || a->members != b->members ||
        a->leavers != b->leavers || !words_equal(a->life, b->life, a->hosts) ||
        !words_equal(a->seen, b->seen, a->hosts))
        return false;
    for (uint32_t c = 0; c < a->cells; c++)
        if (!cell_equal(&a->cell[c], &b->cell[c]))
            return false;
    return true;
}

const struct view_keepers *keepers_of(const struct view *v, const struct view_keepers *first)
{
    return v->keepers.generation ? &v->keepers : first;
}

uint64_t keepers_set(const struct view_keepers *k)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < k->count; i++)
        set |= set_of(k->host[i]);
    return set;
}

/* ---- as bytes ---- */

uint32_t view_bytes_max(uint32_t hosts, uint32_t cells)
{
    return 8 * (HEAD_WORDS + 1 + GROUP_KEEPERS_MAX + 2 * hosts + cells * (CELL_WORDS + hosts));
}

static unsigned char *word_put(unsigned char *at, uint64_t word)
{
    memcpy(at, &word, 8);
    return at + 8;
}

static unsigned char *cell_put(unsigned char *at, const struct view_cell *c)
{
    at = word_put(at, (uint64_t)c->state | (uint64_t)c->trims << TRIMS_SHIFT);
    if (c->state != CELL_UNBORN)
        at = word_put(at, c->born);
    if (c->state == CELL_VACANT) {
        at = word_put(at, c->members_last);
        at = word_put(at, c->cut);
        at = word_put(at, c->last);
    }
    if (c->state == CELL_LIVES) {
        at = word_put(at, c->members);
        at = word_put(at, c->senders);
        at = word_put(at, c->stateful);
        at = word_put(at, c->learners);
        at = word_put(at, c->cut);
        at = word_put(at, c->last);
    }
    for (uint32_t i = 0; i < c->trims; i++)
        at = word_put(at, c->trim[i]);
    return at;
}

static unsigned char *keepers_put(unsigned char *at, const struct view_keepers *k)
{
    if (k->generation == 0)
        return at;
    at = word_put(at, k->generation | (uint64_t)k->count << 32);
    for (uint32_t i = 0; i < k->count; i++)
        at = word_put(at, k->life[i] | (uint64_t)k->host[i] << LIFE_BITS);
    return at;
}

uint32_t view_encode(const struct view *v, unsigned char *out)
{
    unsigned char *at = out;
    uint64_t moved = v->keepers.generation ? MOVED : 0;
    uint64_t seen = 0;
    for (uint32_t h = 0; h < v->hosts; h++)
        seen |= v->seen[h] ? set_of(h) : 0;
    at = word_put(at, v->vid);
    at = word_put(at, v->hosts | moved | (uint64_t)v->cells << CELLS_SHIFT |
                          (v->adequate ? ADEQUATE : 0));
    at = word_put(at, v->members);
    at = word_put(at, v->leavers);
    at = word_put(at, seen);
    at = keepers_put(at, &v->keepers);
    for (uint64_t rest = v->members; rest; rest = set_rest(rest))
        at = word_put(at, v->life[set_first(rest)]);
    for (uint64_t rest = seen; rest; rest = set_rest(rest))
        at = word_put(at, v->seen[set_first(rest)]);
    for (uint32_t c = 0; c < v->cells; c++)
        at = cell_put(at, &v->cell[c]);
    return (uint32_t)(at - out);
}

/* What is left to be read. Beyond its end there are zeros, and it is `short_`. */
struct words {
    const unsigned char *at;
    uint32_t left;
    bool short_;
};

static uint64_t word_get(struct words *w)
{
    uint64_t word = 0;
    if (w->left == 0) {
        w->short_ = true;
        return 0;
    }
    memcpy(&word, w->at, 8);
    w->at += 8;
    w->left--;
    return word;
}

/* One word for each of the set; false if it names others than hosts, or if a word is 0: there is one encoding of a view. */
static bool lives_get(struct words *w, uint64_t set, uint32_t hosts, uint64_t *out)
{
    if (set & ~set_all(hosts))
        return false;
    for (uint64_t rest = set; rest; rest = set_rest(rest)) {
        uint64_t *life = &out[set_first(rest)];
        *life = word_get(w);
        if (*life == 0)
            return false;
    }
    return true;
}

static bool cell_get(struct words *w, uint32_t hosts, struct view_cell *c)
{
    uint64_t head = word_get(w), trims = head >> TRIMS_SHIFT, state = head & 0xff;
    if (state > CELL_VACANT || trims > hosts)
        return false;
    *c = (struct view_cell){.state = (enum view_cell_state)state, .trims = (uint32_t)trims};
    if (c->state != CELL_UNBORN)
        c->born = word_get(w);
    if (c->state == CELL_VACANT) {
        c->members_last = word_get(w);
        c->cut = word_get(w);
        c->last = word_get(w);
    }
    if (c->state == CELL_LIVES) {
        c->members = word_get(w);
        c->senders = word_get(w);
        c->stateful = word_get(w);
        c->learners = word_get(w);
        c->cut = word_get(w);
        c->last = word_get(w);
    }
    for (uint32_t i = 0; i < c->trims; i++)
        c->trim[i] = word_get(w);
    return true;
}

static bool head_get(struct words *w, struct view *v, bool *moved)
{
    v->vid = word_get(w);
    uint64_t sizes = word_get(w);
    v->adequate = sizes & ADEQUATE;
    *moved = sizes & MOVED;
    return (sizes & ~(ADEQUATE | MOVED)) == (v->hosts | (uint64_t)v->cells << CELLS_SHIFT);
}

static bool keepers_get(struct words *w, struct view_keepers *k)
{
    uint64_t head = word_get(w), count = head >> 32;
    if (count == 0 || count > GROUP_KEEPERS_MAX || (uint32_t)head == 0)
        return false;
    k->generation = (uint32_t)head;
    k->count = (uint32_t)count;
    for (uint32_t i = 0; i < k->count; i++) {
        uint64_t word = word_get(w);
        k->host[i] = (uint32_t)(word >> LIFE_BITS);
        k->life[i] = word & ((UINT64_C(1) << LIFE_BITS) - 1);
    }
    return true;
}

bool view_decode(const unsigned char *in, uint32_t bytes, struct view *out)
{
    struct words w = {.at = in, .left = bytes / 8};
    *out = (struct view){.hosts = out->hosts, .cells = out->cells};
    bool moved;
    if (bytes % 8 != 0 || !head_get(&w, out, &moved))
        return false;
    out->members = word_get(&w);
    out->leavers = word_get(&w);
    uint64_t seen = word_get(&w);
    if (moved && !keepers_get(&w, &out->keepers))
        return false;
    if (!lives_get(&w, out->members, out->hosts, out->life) ||
        !lives_get(&w, seen, out->hosts, out->seen))
        return false;
    for (uint32_t c = 0; c < out->cells; c++)
        if (!cell_get(&w, out->hosts, &out->cell[c]))
            return false;
    return !w.short_ && w.left == 0 && view_check(out) == NULL;
}

/* ---- rules ---- */

static const char *hosts_check(const struct view *v)
{
    if (v->hosts == 0 || v->hosts > GROUP_HOSTS_MAX || v->cells > GROUP_CELLS_MAX)
        return "it has more hosts or cells than there may be";
    if (v->vid > VIEWS_MAX)
        return "its number is too large";
    if ((v->members | v->leavers) & ~set_all(v->hosts))
        return "a member is no host";
    if (v->members & v->leavers)
        return "one who left is a member";
    for (uint32_t h = 0; h < v->hosts; h++) {
        if (in_set(v->members, h) != (v->life[h] != 0))
            return "a member has no life, or somebody else has one";
        if (v->life[h] > v->seen[h])
            return "a member's life was never let in";
        if (in_set(v->leavers, h) && v->seen[h] == 0)
            return "one left who was never let in";
    }
    return NULL;
}

static const char *keepers_check(const struct view *v)
{
    const struct view_keepers *k = &v->keepers;
    uint64_t hosts = 0;
    if (k->generation == 0)
        return k->count ? "the first keepers are named" : NULL;
    if (k->generation > v->vid || k->generation >= GENERATIONS_MAX)
        return "its keepers moved more often than there were views";
    if (k->count == 0 || k->count > GROUP_KEEPERS_MAX)
        return "it has no keepers, or too many";
    for (uint32_t i = 0; i < k->count; i++) {
        if (k->host[i] >= v->hosts || in_set(hosts, k->host[i]))
            return "a keeper is no host, or is named twice";
        hosts |= set_of(k->host[i]);
    }
    return NULL;
}

static const char *living_check(const struct view *v, const struct view_cell *c)
{
    if (c->born == 0 || c->born > v->vid)
        return "a cell lives that has not begun";
    if (c->members & ~v->members)
        return "a cell has a member that the view does not have";
    if (c->senders & ~c->members)
        return "a sender is no member of its cell";
    if (c->stateful & ~c->members)
        return "one has a cell's state who is not in it";
    if (c->learners & c->members)
        return "a learner is a member";
    if (c->learners & ~v->members)
        return "a cell has a learner that the view does not have";
    if (c->stateful == 0)
        return "nobody has the state of a cell that lives";
    if (c->members_last)
        return "a cell that lives has last members";
    if (stamp_vid(c->cut) > v->vid || c->last > v->vid)
        return "a cell goes on from versions that there cannot be";
    if (c->born == v->vid && (c->stateful != c->members || c->learners || c->trims))
        return "a cell that begins has a past";
    return NULL;
}

static const char *cell_check(const struct view *v, const struct view_cell *c)
{
    if (c->trims > v->hosts)
        return "a cell had more senders than there are hosts";
    for (uint32_t i = 0; i < c->trims; i++)
        if (c->trim[i] != stamp_count(c->trim[i]))
            return "a trim is no count";
    if (c->state == CELL_LIVES)
        return living_check(v, c);
    if (c->members | c->senders | c->stateful | c->learners)
        return "a cell that does not live has members";
    if (v->adequate)
        return "the view is adequate, and a cell does not live";
    if (c->state == CELL_UNBORN)
        return c->born || c->members_last || c->trims || c->cut || c->last
                   ? "a cell that never began has a past"
                   : NULL;
    if (c->state != CELL_VACANT)
        return "a cell has no state that there is";
    if (c->born == 0 || c->born >= v->vid)
        return "a cell is vacant that never lived";
    if (c->members_last == 0 || c->members_last & ~set_all(v->hosts))
        return "nobody was last in a vacant cell, or no host was";
    if (c->last >= v->vid || stamp_vid(c->cut) >= v->vid)
        return "a vacant cell has versions that cannot be";
    return NULL;
}

const char *view_check(const struct view *v)
{
    const char *broken = hosts_check(v);
    if (broken == NULL)
        broken = keepers_check(v);
    if (broken)
        return broken;
    if (v->vid == 0 && (v->members | v->leavers))
        return "there is no view, and it has members";
    for (uint32_t c = 0; c < v->cells && !broken; c++)
        broken = cell_check(v, &v->cell[c]);
    return broken;
}
