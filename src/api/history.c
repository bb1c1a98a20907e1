#include "api/history.h"

#include "base/lines.h"
#include "base/minmax.h"
#include "mem/wrap.h"

#include <stdlib.h>
#include <string.h>

/* A record begins at a multiple of its head's size, so the end of the ring always has room for a head. */
struct kept {
    uint64_t view, number, sequence;
    uint32_t sender; /* KEPT_SKIP: none; the next record is behind so many bytes as it has */
    uint32_t bytes;
};

_Static_assert(sizeof(struct kept) == 32, "records are aligned to their head");

#define KEPT_SKIP UINT32_MAX

/* At the begin of a copy. */
struct copy_head {
    uint64_t bytes; /* of records, without what is skipped */
    uint64_t first, next;
};

struct history {
    unsigned char *ring;
    uint64_t ring_bytes;
    uint64_t tail, head;  /* positions, which never fall within a fill */
    uint64_t first, next; /* sequences */
    uint64_t fill;        /* from 1 */
    bool valid;
    /* A copy that comes: its head, the head of a record, and what of them and of the record has come. */
    struct copy_head copy;
    struct kept coming;
    uint64_t copied;     /* bytes of the copy, its head too */
    uint32_t part;       /* of what comes now, */
    unsigned char *into; /* and where a message of it goes */
};

static uint64_t kept_size(uint32_t bytes)
{
    return sizeof(struct kept) + (((uint64_t)bytes + 31) & ~UINT64_C(31));
}

/* In a copy there are no gaps but these. */
static uint64_t copied_size(uint32_t bytes)
{
    return sizeof(struct kept) + (((uint64_t)bytes + 7) & ~UINT64_C(7));
}

static struct kept *kept_at(const struct history *h, uint64_t pos)
{
    return (struct kept *)(void *)(h->ring + (pos & (h->ring_bytes - 1)));
}

static uint64_t behind(const struct history *h, uint64_t pos)
{
    const struct kept *k = kept_at(h, pos);
    return pos + (k->sender == KEPT_SKIP ? k->bytes : kept_size(k->bytes));
}

/* ---- opening ---- */

struct history *history_open(uint32_t bytes)
{
    struct history *h = calloc(1, sizeof(*h));
    unsigned char *ring = h ? lines_alloc(bytes) : NULL;
    if (ring == NULL) {
        free(h);
        return NULL;
    }
    h->ring = ring;
    h->ring_bytes = bytes;
    return h;
}

void history_close(struct history *h)
{
    if (h)
        free(h->ring);
    free(h);
}

static void clear(struct history *h, bool valid)
{
    h->tail = h->head = 0;
    h->first = h->next = 0;
    h->fill++;
    h->valid = valid;
}

bool history_is_valid(const struct history *h)
{
    return h->valid;
}

void history_born(struct history *h)
{
    clear(h, true);
}

void history_void(struct history *h)
{
    clear(h, false);
}

uint64_t history_first(const struct history *h)
{
    return h->first;
}

uint64_t history_next(const struct history *h)
{
    return h->next;
}

/* ---- adding ---- */

static void make_room(struct history *h, uint64_t bytes)
{
    while (h->head + bytes > h->tail + h->ring_bytes) {
        h->first += kept_at(h, h->tail)->sender != KEPT_SKIP;
        h->tail = behind(h, h->tail);
    }
}

/* Room for a message, with its head. */
static unsigned char *keep(struct history *h, const struct kept *k)
{
    uint64_t size = kept_size(k->bytes), straight = ring_straight(h->ring_bytes, h->head);
    if (size > straight) {
        make_room(h, straight);
        *kept_at(h, h->head) = (struct kept){.sender = KEPT_SKIP, .bytes = (uint32_t)straight};
        h->head += straight;
    }
    make_room(h, size);
    struct kept *at = kept_at(h, h->head);
    *at = *k;
    h->head += size;
    h->next = k->sequence + 1;
    return (unsigned char *)(at + 1);
}

void history_add(struct history *h, uint64_t view, const struct tram_item *item, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct kept k = {.view = view,
                               .number = item[i].number,
                               .sequence = h->next,
                               .sender = item[i].sender,
                               .bytes = item[i].bytes};
        CHECK(kept_size(k.bytes) <= h->ring_bytes / 2);
        memcpy(keep(h, &k), item[i].data, k.bytes);
    }
}

/* ---- reading ---- */

/* Where the message of that sequence is. */
static uint64_t find(const struct history *h, uint64_t sequence)
{
    uint64_t pos = h->tail;
    while (pos < h->head &&
           (kept_at(h, pos)->sender == KEPT_SKIP || kept_at(h, pos)->sequence < sequence))
        pos = behind(h, pos);
    return pos;
}

static uint32_t read_some(const struct history *h, struct history_place *p, uint32_t most,
                          uint64_t bytes_max, uint64_t *view, struct tram_item *item)
{
    uint32_t count = 0;
    uint64_t bytes = 0;
    if (p->sequence < h->first ||
        p->sequence > h->next) /* above: the cell was born again meanwhile */
        p->sequence = h->first;
    if (p->fill != h->fill || p->position < h->tail)
        p->position = find(h, p->sequence);
    p->fill = h->fill;
    while (p->position < h->head && count < most) {
        const struct kept *k = kept_at(h, p->position);
        if (k->sender != KEPT_SKIP) {
            if (count > 0 && (k->view != *view || bytes + k->bytes > bytes_max))
                break;
            *view = k->view;
            bytes += k->bytes;
            item[count++] = (struct tram_item){
                .data = k + 1, .bytes = k->bytes, .sender = k->sender, .number = k->number};
            p->sequence = k->sequence + 1;
        }
        p->position = behind(h, p->position);
    }
    return count;
}

uint32_t history_read(const struct history *h, struct history_place *p, uint64_t bytes_max,
                      uint64_t *view, struct tram_item item[HISTORY_BATCH])
{
    return read_some(h, p, HISTORY_BATCH, bytes_max, view, item);
}

bool history_read_one(const struct history *h, struct history_place *p, uint64_t *view,
                      struct tram_item *item)
{
    return read_some(h, p, 1, 0, view, item) == 1;
}

uint64_t history_from(const struct history *h, uint64_t view, uint64_t number)
{
    for (uint64_t pos = h->tail; pos < h->head; pos = behind(h, pos)) {
        const struct kept *k = kept_at(h, pos);
        if (k->sender != KEPT_SKIP && (k->view > view || (k->view == view && k->number >= number)))
            return k->sequence;
    }
    return h->next;
}

/* ---- as part of a state ---- */

uint64_t history_saved_bytes(const struct history *h)
{
    uint64_t bytes = sizeof(struct copy_head);
    for (uint64_t pos = h->tail; pos < h->head; pos = behind(h, pos))
        if (kept_at(h, pos)->sender != KEPT_SKIP)
            bytes += copied_size(kept_at(h, pos)->bytes);
    return bytes;
}

void history_save(const struct history *h, unsigned char *out)
{
    const struct copy_head head = {
        .bytes = history_saved_bytes(h) - sizeof(head), .first = h->first, .next = h->next};
    memcpy(out, &head, sizeof(head));
    out += sizeof(head);
    for (uint64_t pos = h->tail; pos < h->head; pos = behind(h, pos)) {
        const struct kept *k = kept_at(h, pos);
        if (k->sender == KEPT_SKIP)
            continue;
        memcpy(out, k, sizeof(*k) + k->bytes);
        memset(out + sizeof(*k) + k->bytes, 0, copied_size(k->bytes) - sizeof(*k) - k->bytes);
        out += copied_size(k->bytes);
    }
}

int history_load_open(struct history *h)
{
    clear(h, false);
    h->copied = 0;
    h->part = 0;
    h->into = NULL;
    return 0;
}

/* All of a head has come: is it one? A message of the copy is the next, and no larger than one may be. */
static int take_head(struct history *h)
{
    h->part = 0;
    if (h->copied == sizeof(h->copy)) {
        if (h->copy.first > h->copy.next || h->copy.bytes > h->ring_bytes)
            return ERR_CORRUPT;
        h->first = h->next = h->copy.first;
        return 0;
    }
    if (h->coming.sequence != h->next || h->coming.sender == KEPT_SKIP ||
        kept_size(h->coming.bytes) > h->ring_bytes / 2)
        return ERR_CORRUPT;
    unsigned char *to = keep(h, &h->coming);
    h->into = h->coming.bytes ? to : NULL;
    return 0;
}

/* Where the next byte of the copy goes, and how many go there. */
static unsigned char *next_stretch(struct history *h, uint64_t *bytes)
{
    if (h->copied < sizeof(h->copy)) {
        *bytes = sizeof(h->copy) - h->copied;
        return (unsigned char *)&h->copy + h->copied;
    }
    if (h->into) {
        *bytes = copied_size(h->coming.bytes) - sizeof(h->coming) - h->part;
        return h->into + h->part;
    }
    *bytes = sizeof(h->coming) - h->part;
    return (unsigned char *)&h->coming + h->part;
}

static bool is_copied(const struct history *h)
{
    return h->copied >= sizeof(h->copy) && h->copied == sizeof(h->copy) + h->copy.bytes;
}

int64_t history_load_next(struct history *h, const unsigned char *data, uint32_t bytes)
{
    uint32_t at = 0;
    while (at < bytes && !is_copied(h)) {
        uint64_t room;
        bool message = h->into != NULL, first = h->copied < sizeof(h->copy);
        unsigned char *to = next_stretch(h, &room);
        uint32_t n = (uint32_t)min_u64(room, bytes - at);
        memcpy(to, data + at, n);
        at += n;
        h->copied += n;
        h->part += first ? 0 : n;
        if (n < room)
            continue;
        if (message) {
            h->into = NULL;
            h->part = 0;
        } else if (take_head(h) < 0) {
            return ERR_CORRUPT;
        }
    }
    return at;
}

int history_load_close(struct history *h, bool whole)
{
    h->valid = whole && is_copied(h) && h->into == NULL && h->part == 0 && h->next == h->copy.next;
    if (!h->valid)
        clear(h, false);
    return h->valid || !whole ? 0 : ERR_CORRUPT;
}
