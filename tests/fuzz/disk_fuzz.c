/* Whatever stands on the disk: batches, slots and pieces that are not valid are refused, and those that are lie within the bytes.
 * The first byte says what the rest is, and whether CRCs are put right first: else no mutation would come any further. */
#include "disk/scan.h"

#include "base/crc32c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { SEGMENT, HOST, SNAPSHOT, KINDS, GROUPS = 4 };

static const unsigned char journal[DISK_ID_BYTES] = "journal of fuzz";

static volatile uint64_t sink;

static void use(const void *p, size_t bytes)
{
    sink = sink + crc32c(0, p, bytes);
}

/* As far as header and directory lie within the bytes. */
static void repair_batch(unsigned char *at, size_t bytes)
{
    struct batch_header *h = (void *)at;

    h->magic = BATCH_MAGIC;
    h->version = FORMAT_VERSION;
    memcpy(h->journal, journal, sizeof journal);
    if (h->directory >= sizeof *h && h->directory <= bytes && h->directory % 8 == 0 &&
        h->items <= (bytes - h->directory) / sizeof(struct batch_item))
        scan_seal_batch(at);
}

static void read_batch(const struct scan_batch *b, const unsigned char *end)
{
    CHECK(b->start + b->header->bytes <= end);
    for (uint32_t i = 0; i < b->header->items; i++) {
        struct disk_record r = scan_to_record(b, &b->items[i]);
        if (r.bytes)
            use(r.bytes, b->items[i].bytes);
        scan_record(b, &b->items[i]);
    }
    scan_records(b);
}

static void read_segment(unsigned char *data, size_t bytes, bool repair)
{
    struct scan_batch b;
    uint64_t at = 0, where;

    for (size_t i = 0; repair && i + sizeof(struct batch_header) <= bytes; i += BLOCK_BYTES)
        repair_batch(data + i, bytes - i);
    while (scan_find(data, bytes, at, journal, GROUPS, 1, UINT64_MAX, &b, &where)) {
        CHECK(where >= at && where % BLOCK_BYTES == 0);
        read_batch(&b, data + bytes);
        at = where + b.header->bytes;
    }
}

static void read_host(unsigned char *data, bool repair)
{
    struct slot *s = (void *)data;
    bool later;

    for (uint32_t i = 0; repair && i < SLOTS; i++)
        scan_seal_slot(&s[i]);
    const struct slot *found = scan_host(data, &later);
    CHECK(!found || (!later && found->shape.hosts <= SLOT_HOSTS_MAX));
    if (found)
        use(found->shape.host, strlen(found->shape.host));
}

static void read_piece(unsigned char *data, bool repair)
{
    struct piece_header *h = (void *)data;

    if (repair && h->bytes <= PIECE_DATA_BYTES)
        scan_seal_piece(data);
    if (scan_piece(data, journal, h->group, h->pos, h->number))
        use(data + PIECE_HEADER_BYTES, h->bytes);
}

/* What is given is at an address like that of a buffer, and ends where it ends. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint32_t group, kind = bytes ? data[0] % KINDS : 0;
    bool repair = bytes && data[0] & 128;
    uint64_t pos;
    size_t least = kind == HOST ? SLOTS * SLOT_BYTES : kind == SNAPSHOT ? PIECE_BYTES : 8;
    size_t room = bytes > least ? bytes : least;
    unsigned char *copy = aligned_alloc(8, (room + 7) / 8 * 8);
    char name[64] = "";

    CHECK(copy != NULL);
    memset(copy, 0, room);
    if (bytes > 1)
        memcpy(copy, data + 1, bytes - 1);
    if (kind == SEGMENT)
        read_segment(copy, bytes ? bytes - 1 : 0, repair);
    else if (kind == HOST)
        read_host(copy, repair);
    else
        read_piece(copy, repair);
    memcpy(name, copy, room < sizeof name - 1 ? room : sizeof name - 1);
    scan_snap_name(name, &group, &pos);
    scan_segment_name(name, &group);
    free(copy);
    return 0;
}
