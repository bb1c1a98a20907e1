#include "disk/scan.h"

#include "base/crc32c.h"
#include "base/planted.h"

#include <string.h>

/* ---- batches ---- */

/* With 0 where the CRC itself stands. */
static uint32_t crc_without(const void *data, size_t bytes, size_t crc_at)
{
    static const uint32_t zero;
    const unsigned char *p = data;
    size_t behind = crc_at + sizeof zero;
    uint32_t crc = crc32c(0, p, crc_at);

    crc = crc32c(crc, &zero, sizeof zero);
    return crc32c(crc, p + behind, bytes - behind);
}

static uint32_t batch_crc(const unsigned char *batch)
{
    const struct batch_header *h = (const void *)batch;
    uint32_t crc = crc_without(batch, sizeof *h, offsetof(struct batch_header, crc));

    return crc32c(crc, batch + h->directory, (size_t)h->items * sizeof(struct batch_item));
}

/* Everything that says where something is. The products fit: an item has 104 bytes, and 32 bits say how many. */
static bool header_fits(const struct batch_header *h, uint64_t bytes)
{
    return h->bytes >= BLOCK_BYTES && h->bytes % BLOCK_BYTES == 0 && h->bytes <= bytes &&
           h->directory >= sizeof *h && h->directory % 8 == 0 && h->directory <= h->bytes &&
           (uint64_t)h->items * sizeof(struct batch_item) <= h->bytes - h->directory;
}

static bool names_no_group(uint16_t kind)
{
    return kind == ITEM_SEGMENT || kind == ITEM_RELEASE || kind == ITEM_LIVES;
}

static bool has_entries(uint16_t kind)
{
    return kind == DISK_ENTRIES || kind == DISK_COPY;
}

static bool item_fits(const struct batch_header *h, const struct batch_item *i, uint32_t groups)
{
    if (!format_is_record(i->kind) && i->kind != ITEM_STATE && !names_no_group(i->kind))
        return false;
    if (!names_no_group(i->kind) && i->group >= groups)
        return false;
    if (has_entries(i->kind) ? i->to < i->from || i->to - i->from != i->bytes
                             : i->bytes != 0 && i->kind != ITEM_LIVES)
        return false;
    return i->bytes == 0 || (i->at >= sizeof *h && i->at % 8 == 0 && i->at <= h->directory &&
                             i->bytes <= h->directory - i->at);
}

static bool header_known(const struct batch_header *h, const unsigned char *journal)
{
    return h->magic == BATCH_MAGIC && h->version == FORMAT_VERSION &&
           memcmp(h->journal, journal, sizeof h->journal) == 0;
}

bool scan_batch(const void *data, uint64_t bytes, const unsigned char *journal, uint32_t groups,
                struct scan_batch *b)
{
    const struct batch_header *h = data;

    if (bytes < sizeof *h || !header_known(h, journal) || !header_fits(h, bytes))
        return false;
    if (batch_crc(data) != h->crc && !PLANTED(disk_tail_no_crc))
        return false;
    *b = (struct scan_batch){data, h, (const void *)((const unsigned char *)data + h->directory)};
    for (uint32_t i = 0; i < h->items; i++)
        if (!item_fits(h, &b->items[i], groups))
            return false;
    return true;
}

bool scan_record(const struct scan_batch *b, const struct batch_item *i)
{
    return i->bytes == 0 || crc32c(0, b->start + i->at, i->bytes) == i->crc ||
           PLANTED(disk_tail_no_crc);
}

bool scan_records(const struct scan_batch *b)
{
    for (uint32_t i = 0; i < b->header->items; i++)
        if (!scan_record(b, &b->items[i]))
            return false;
    return true;
}

bool scan_find(const void *data, uint64_t bytes, uint64_t at, const unsigned char *journal,
               uint32_t groups, uint64_t least, uint64_t most, struct scan_batch *b,
               uint64_t *where)
{
    const unsigned char *p = data;

    for (; at < bytes; at += BLOCK_BYTES)
        if (scan_batch(p + at, bytes - at, journal, groups, b) && b->header->number >= least &&
            b->header->number <= most) {
            *where = at;
            return true;
        }
    return false;
}

struct disk_record scan_to_record(const struct scan_batch *b, const struct batch_item *i)
{
    return (struct disk_record){
        .kind = i->kind,
        .group = i->group,
        .from = i->from,
        .to = i->to,
        .ballot = i->ballot,
        .says = i->says,
        .bytes = i->bytes ? b->start + i->at : NULL,
    };
}

void scan_seal_batch(void *batch)
{
    struct batch_header *h = batch;

    h->crc = batch_crc(batch);
}

/* ---- the host file ---- */

static bool slot_fits(const struct slot *s)
{
    return s->version == FORMAT_VERSION && s->shape.groups <= DISK_GROUPS_MAX &&
           s->shape.hosts <= SLOT_HOSTS_MAX && s->shape.clients <= SLOT_PLACES_MAX &&
           memchr(s->shape.host, 0, sizeof s->shape.host) != NULL &&
           (!(s->flags & SLOT_BEGUN) ||
            (s->segment_bytes > 0 && s->segment_bytes % BLOCK_BYTES == 0));
}

enum scan_slot scan_slot(const void *data)
{
    const struct slot *s = data;

    if (s->magic != SLOT_MAGIC ||
        crc_without(data, SLOT_BYTES, offsetof(struct slot, crc)) != s->crc)
        return SCAN_SLOT_BAD;
    if (s->version > FORMAT_VERSION)
        return SCAN_SLOT_LATER;
    return slot_fits(s) ? SCAN_SLOT_GOOD : SCAN_SLOT_BAD;
}

const struct slot *scan_host(const void *data, bool *later)
{
    const unsigned char *p = data;
    const struct slot *best = NULL;

    *later = false;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct slot *s = (const void *)(p + (size_t)i * SLOT_BYTES);
        enum scan_slot is = scan_slot(s);
        *later |= is == SCAN_SLOT_LATER;
        if (is == SCAN_SLOT_GOOD && (!best || s->turn > best->turn))
            best = s;
    }
    return *later ? NULL : best;
}

void scan_seal_slot(struct slot *s)
{
    s->crc = crc_without(s, SLOT_BYTES, offsetof(struct slot, crc));
}

/* ---- snapshots ---- */

static uint32_t piece_crc(const struct piece_header *h)
{
    return crc_without(h, sizeof *h + h->bytes, offsetof(struct piece_header, crc));
}

bool scan_piece(const void *data, const unsigned char *journal, uint32_t group, uint64_t pos,
                uint32_t number)
{
    const struct piece_header *h = data;

    return h->magic == PIECE_MAGIC && h->version == FORMAT_VERSION &&
           memcmp(h->journal, journal, sizeof h->journal) == 0 && h->group == group &&
           h->pos == pos && h->number == number && h->bytes <= PIECE_DATA_BYTES &&
           piece_crc(h) == h->crc;
}

void scan_seal_piece(void *piece)
{
    struct piece_header *h = piece;

    h->crc = piece_crc(h);
}

/* ---- names ---- */

/* Returns what is behind the number. NULL: there is none, or it is too large. */
static const char *take_number(const char *s, uint64_t *n)
{
    const char *start = s;

    for (*n = 0; *s >= '0' && *s <= '9'; s++) {
        uint64_t digit = (uint64_t)(*s - '0');
        if (*n > (UINT64_MAX - digit) / 10)
            return NULL;
        *n = *n * 10 + digit;
    }
    return s == start ? NULL : s;
}

static const char *behind(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

bool scan_snap_name(const char *name, uint32_t *group, uint64_t *pos)
{
    const char *s = behind(name, SNAP_PREFIX);
    uint64_t g;

    if (!s || !(s = take_number(s, &g)) || *s != '.' || g >= DISK_GROUPS_MAX)
        return false;
    s = take_number(s + 1, pos);
    *group = (uint32_t)g;
    return s && *s == '\0';
}

bool scan_initial_name(const char *name, uint32_t *group)
{
    const char *s = behind(name, INITIAL_PREFIX);
    uint64_t g;

    if (!s || !(s = take_number(s, &g)) || *s != '\0' || g >= DISK_GROUPS_MAX)
        return false;
    *group = (uint32_t)g;
    return true;
}

bool scan_segment_name(const char *name, uint32_t *number)
{
    const char *s = behind(name, SEGMENT_PREFIX);
    uint64_t n;

    if (!s || !(s = take_number(s, &n)) || *s != '\0' || n > UINT32_MAX)
        return false;
    *number = (uint32_t)n;
    return true;
}
