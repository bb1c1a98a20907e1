#include "disk/scan.h"

#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { GROUPS = 3, BYTES = 2 * BLOCK_BYTES };

static const unsigned char journal[DISK_ID_BYTES] = "a journal's id";
static _Alignas(BLOCK_BYTES) unsigned char data[4 * BLOCK_BYTES];

/* Two records, a state, and the directory behind them. */
static struct batch_header *make(unsigned char *at, uint64_t number)
{
    struct batch_header *h = (void *)at;
    struct batch_item *i = (void *)(at + 192);

    memset(at, 0, BLOCK_BYTES);
    *h = (struct batch_header){.magic = BATCH_MAGIC,
                               .version = FORMAT_VERSION,
                               .number = number,
                               .bytes = BLOCK_BYTES,
                               .directory = 192,
                               .items = 3};
    memcpy(h->journal, journal, sizeof journal);
    memcpy(at + 64, "forty bytes of an entry, and no more...", 40);
    i[0] = (struct batch_item){.group = 1,
                               .kind = DISK_ENTRIES,
                               .from = 100,
                               .to = 140,
                               .at = 64,
                               .bytes = 40,
                               .crc = crc32c(0, at + 64, 40)};
    i[1] = (struct batch_item){.group = 2, .kind = DISK_PLEDGE, .ballot = 7};
    i[2] = (struct batch_item){.group = 0, .kind = ITEM_STATE, .from = 5};
    scan_seal_batch(at);
    return h;
}

static struct batch_item *items(unsigned char *at)
{
    return (void *)(at + ((struct batch_header *)(void *)at)->directory);
}

static bool is_good(void)
{
    struct scan_batch b;

    return scan_batch(data, sizeof data, journal, GROUPS, &b);
}

static void scan__reads_a_batch(void **state)
{
    (void)state;
    struct scan_batch b;

    make(data, 9);
    assert_true(scan_batch(data, sizeof data, journal, GROUPS, &b));
    assert_int_equal(b.header->number, 9);
    assert_true(scan_records(&b));
    struct disk_record r = scan_to_record(&b, &b.items[0]);
    assert_int_equal(r.kind, DISK_ENTRIES);
    assert_int_equal(r.from, 100);
    assert_int_equal(r.to, 140);
    assert_memory_equal(r.bytes, "forty", 5);
    r = scan_to_record(&b, &b.items[1]);
    assert_null(r.bytes);
    assert_int_equal(r.ballot, 7);
}

/* Header, directory: the batch is bad. Record: that record is. Behind them: nothing is. */
static void scan__sees_every_bit(void **state)
{
    (void)state;
    struct scan_batch b;

    make(data, 9);
    for (uint32_t bit = 0; bit < BLOCK_BYTES * 8; bit++) {
        uint32_t byte = bit / 8;
        bool covered = byte < 64 || (byte >= 192 && byte < 192 + 3 * sizeof(struct batch_item));
        data[byte] ^= (unsigned char)(1u << bit % 8);
        bool good = scan_batch(data, sizeof data, journal, GROUPS, &b);
        assert_int_equal(good, !covered);
        if (good) {
            assert_int_equal(scan_record(&b, &b.items[0]), byte < 64 || byte >= 104);
            assert_true(scan_record(&b, &b.items[1]));
            assert_int_equal(scan_records(&b), scan_record(&b, &b.items[0]));
        }
        data[byte] ^= (unsigned char)(1u << bit % 8);
    }
}

#define REFUSES(change)                                                                            \
    do {                                                                                           \
        struct batch_header *h = make(data, 9);                                                    \
        struct batch_item *i = items(data);                                                        \
        (void)h, (void)i;                                                                          \
        assert_true(is_good());                                                                    \
        change;                                                                                    \
        scan_seal_batch(data);                                                                     \
        assert_false(is_good());                                                                   \
    } while (0)

/* With a CRC that is right: what no journal writes. */
static void scan__refuses_what_leads_out_of_the_batch(void **state)
{
    (void)state;
    REFUSES(h->bytes = 5 * BLOCK_BYTES);
    REFUSES(h->bytes = BLOCK_BYTES + 8);
    REFUSES(h->version++);
    REFUSES(h->magic++);
    REFUSES(h->journal[15]++);
    REFUSES(h->items = 3; i[0].at = 193 * 8);
    REFUSES(i[0].at = 65);
    REFUSES(i[0].at = 56);
    REFUSES(i[0].at = 160);
    REFUSES(i[0].bytes = UINT32_MAX; i[0].to = i[0].from + UINT32_MAX);
    REFUSES(i[0].to--);
    REFUSES(i[0].to = 90);
    REFUSES(i[0].group = GROUPS);
    REFUSES(i[2].group = GROUPS);
    REFUSES(i[1].bytes = 8; i[1].at = 64);
    REFUSES(i[1].kind = 0);
    REFUSES(i[1].kind = 6);
    REFUSES(i[1].kind = 20);
    make(data, 9);
    struct scan_batch b;
    assert_false(scan_batch(data, BLOCK_BYTES - 1, journal, GROUPS, &b));
    assert_false(scan_batch(data, 63, journal, GROUPS, &b));
    assert_true(scan_batch(data, BLOCK_BYTES, journal, GROUPS, &b));
}

/* The directory's length must not be believed before it is known to lie within the batch. */
static void scan__does_not_read_a_directory_beyond_the_end(void **state)
{
    (void)state;
    struct batch_header *h = make(data, 9);

    h->items = UINT32_MAX;
    assert_false(is_good());
    make(data, 9)->directory = BLOCK_BYTES;
    assert_false(is_good());
    make(data, 9)->directory = UINT32_MAX - 7;
    assert_false(is_good());
    make(data, 9)->directory = 8;
    assert_false(is_good());
}

static void scan__finds_the_next_number(void **state)
{
    (void)state;
    struct scan_batch b;
    uint64_t where;

    make(data, 7);
    memset(data + BLOCK_BYTES, 0xff, BLOCK_BYTES);
    make(data + (size_t)2 * BLOCK_BYTES, 3);
    make(data + (size_t)3 * BLOCK_BYTES, 9);
    assert_true(scan_find(data, sizeof data, 0, journal, GROUPS, 7, UINT64_MAX, &b, &where));
    assert_int_equal(where, 0);
    assert_true(
        scan_find(data, sizeof data, BLOCK_BYTES, journal, GROUPS, 8, UINT64_MAX, &b, &where));
    assert_int_equal(where, 3 * BLOCK_BYTES);
    assert_int_equal(b.header->number, 9);
    assert_true(scan_find(data, sizeof data, 0, journal, GROUPS, 1, 6, &b, &where));
    assert_int_equal(b.header->number, 3);
    assert_false(scan_find(data, sizeof data, 0, journal, GROUPS, 10, UINT64_MAX, &b, &where));
    assert_false(
        scan_find(data, sizeof data, sizeof data, journal, GROUPS, 1, UINT64_MAX, &b, &where));
}

static struct slot slots[SLOTS];

static void slot_make(struct slot *s, uint64_t turn)
{
    memset(s, 0, sizeof *s);
    s->magic = SLOT_MAGIC;
    s->version = FORMAT_VERSION;
    s->turn = turn;
    scan_seal_slot(s);
}

static void scan__takes_the_newer_valid_slot(void **state)
{
    (void)state;
    bool later;

    slot_make(&slots[0], 4);
    slot_make(&slots[1], 5);
    assert_ptr_equal(scan_host(slots, &later), &slots[1]);
    slot_make(&slots[0], 6);
    assert_ptr_equal(scan_host(slots, &later), &slots[0]);
    slots[0].places[4000] ^= 1;
    assert_ptr_equal(scan_host(slots, &later), &slots[1]);
    slots[1].spare[sizeof slots[1].spare - 1] ^= 1;
    assert_null(scan_host(slots, &later));
    assert_false(later);
}

static void scan__refuses_slots_of_a_later_version(void **state)
{
    (void)state;
    bool later;

    slot_make(&slots[0], 4);
    slot_make(&slots[1], 5);
    slots[1].version = FORMAT_VERSION + 1;
    scan_seal_slot(&slots[1]);
    assert_null(scan_host(slots, &later));
    assert_true(later);
    slot_make(&slots[1], 5);
    slots[1].shape.groups = DISK_GROUPS_MAX + 1;
    scan_seal_slot(&slots[1]);
    assert_ptr_equal(scan_host(slots, &later), &slots[0]);
    slot_make(&slots[1], 5);
    memset(slots[1].shape.host, 'x', sizeof slots[1].shape.host);
    scan_seal_slot(&slots[1]);
    assert_ptr_equal(scan_host(slots, &later), &slots[0]);
}

static void scan__knows_the_piece_that_it_wants(void **state)
{
    (void)state;
    static _Alignas(8) unsigned char piece[PIECE_BYTES];
    struct piece_header *h = (void *)piece;

    *h = (struct piece_header){.magic = PIECE_MAGIC,
                               .version = FORMAT_VERSION,
                               .pos = 77,
                               .group = 2,
                               .number = 5,
                               .bytes = PIECE_DATA_BYTES};
    memcpy(h->journal, journal, sizeof journal);
    scan_seal_piece(piece);
    assert_true(scan_piece(piece, journal, 2, 77, 5));
    assert_false(scan_piece(piece, journal, 1, 77, 5));
    assert_false(scan_piece(piece, journal, 2, 78, 5));
    assert_false(scan_piece(piece, journal, 2, 77, 6));
    piece[PIECE_BYTES - 1] ^= 1;
    assert_false(scan_piece(piece, journal, 2, 77, 5));
    piece[PIECE_BYTES - 1] ^= 1;
    h->bytes = PIECE_DATA_BYTES + 1;
    assert_false(scan_piece(piece, journal, 2, 77, 5));
}

static void scan__reads_names(void **state)
{
    (void)state;
    uint32_t n;
    uint64_t pos;

    assert_true(scan_snap_name("snap.7.18446744073709551615", &n, &pos));
    assert_int_equal(n, 7);
    assert_true(pos == UINT64_MAX);
    assert_false(scan_snap_name("snap.7.18446744073709551616", &n, &pos));
    assert_false(scan_snap_name("snap.1024.1", &n, &pos));
    assert_false(scan_snap_name("snap.7.1.tmp", &n, &pos));
    assert_false(scan_snap_name("snap.7.", &n, &pos));
    assert_false(scan_snap_name("snap..7", &n, &pos));
    assert_false(scan_snap_name("snap.-1.7", &n, &pos));
    assert_true(scan_segment_name("journal.00003", &n));
    assert_int_equal(n, 3);
    assert_false(scan_segment_name("journal.", &n));
    assert_false(scan_segment_name("journal.4294967296", &n));
    assert_false(scan_segment_name("journal.3x", &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan__reads_a_batch),
        cmocka_unit_test(scan__sees_every_bit),
        cmocka_unit_test(scan__refuses_what_leads_out_of_the_batch),
        cmocka_unit_test(scan__does_not_read_a_directory_beyond_the_end),
        cmocka_unit_test(scan__finds_the_next_number),
        cmocka_unit_test(scan__takes_the_newer_valid_slot),
        cmocka_unit_test(scan__refuses_slots_of_a_later_version),
        cmocka_unit_test(scan__knows_the_piece_that_it_wants),
        cmocka_unit_test(scan__reads_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
