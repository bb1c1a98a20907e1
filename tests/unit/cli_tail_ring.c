#include "cli/tail_ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

/* A folder with the ring of host h1, open for its writer and for a reader. */
struct fixture {
    char dir[40];
    struct tail_ring *writer, *reader;
};

static int enter(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    snprintf(f->dir, sizeof f->dir, "/tmp/tram-tail-XXXXXX");
    *state = f;
    return mkdtemp(f->dir) == NULL || tail_ring_create(f->dir, "h1", &f->writer, NULL) != 0 ||
           tail_ring_open(f->dir, "h1", &f->reader, NULL) != 0;
}

static int leave(void **state)
{
    struct fixture *f = *state;

    tail_ring_close(f->writer);
    tail_ring_close(f->reader);
    tail_ring_remove(f->dir, "h1");
    int rc = rmdir(f->dir);
    free(f);
    return rc;
}

/* Body and destinations follow from the number, so that a reader can tell a torn record. */
static void write_one(struct tail_ring *r, uint64_t number)
{
    unsigned char body[300];
    uint16_t dst[9];
    struct tram_delivery d = {.group = (uint32_t)number % 7,
                              .client = 3,
                              .life = 1,
                              .seq = number * 2,
                              .number = number,
                              .dst = dst,
                              .dst_count = (uint32_t)number % 9 + 1,
                              .body = body,
                              .bytes = (uint32_t)(number * 13 % sizeof body)};

    for (uint32_t i = 0; i < d.dst_count; i++)
        dst[i] = (uint16_t)(number + i);
    memset(body, (int)(number & 0xff), sizeof body);
    tail_ring_write(r, &d);
}

static bool is_right(const struct tail_record *r)
{
    uint64_t n = r->number;
    bool right = r->group == n % 7 && r->client == 3 && r->life == 1 && r->seq == n * 2 &&
                 r->dst_count == n % 9 + 1 && r->bytes == n * 13 % 300 &&
                 r->here == (r->bytes < TAIL_BODY_MAX ? r->bytes : TAIL_BODY_MAX);

    for (uint32_t i = 0; right && i < r->dst_count; i++)
        right = r->dst[i] == (uint16_t)(n + i);
    for (uint32_t i = 0; right && i < r->here; i++)
        right = r->body[i] == (n & 0xff);
    return right;
}

static void reads_what_was_written(void **state)
{
    struct fixture *f = *state;
    struct tail_record r;
    uint64_t at = tail_ring_oldest(f->reader);

    assert_int_equal(tail_ring_read(f->reader, &at, &r), TAIL_NOTHING);
    /* Many times around the ring, the reader close behind. */
    for (uint64_t n = 0; n < 50000; n++) {
        write_one(f->writer, n);
        assert_int_equal(tail_ring_read(f->reader, &at, &r), TAIL_RECORD);
        assert_int_equal(r.number, n);
        assert_true(is_right(&r));
        assert_int_equal(tail_ring_read(f->reader, &at, &r), TAIL_NOTHING);
    }
}

static void tells_a_lapped_reader(void **state)
{
    struct fixture *f = *state;
    struct tail_record r;
    uint64_t at = 0, last = 0, seen = 0;

    for (uint64_t n = 0; n < 50000; n++)
        write_one(f->writer, n);
    assert_int_equal(tail_ring_read(f->reader, &at, &r), TAIL_LAPPED);
    while (tail_ring_read(f->reader, &at, &r) == TAIL_RECORD) {
        assert_true(is_right(&r));
        assert_true(seen == 0 || r.number == last + 1);
        last = r.number;
        seen++;
    }
    assert_int_equal(last, 49999);
    assert_true(seen > 500); /* a quarter of the ring at the least */
}

static void goes_on_after_a_killed_writer(void **state)
{
    struct fixture *f = *state;
    struct tail_ring *next;
    struct tail_record r;
    uint64_t at = 0;

    for (uint64_t n = 0; n < 10; n++)
        write_one(f->writer, n);
    assert_int_equal(tail_ring_create(f->dir, "h1", &next, NULL), 0);
    for (uint64_t n = 10; n < 20; n++)
        write_one(next, n);
    tail_ring_close(next);
    for (uint64_t n = 0; n < 20; n++) {
        assert_int_equal(tail_ring_read(f->reader, &at, &r), TAIL_RECORD);
        assert_int_equal(r.number, n);
    }
}

static void knows_when_the_file_is_another(void **state)
{
    struct fixture *f = *state;
    struct tail_ring *other;
    struct err e = {""};

    assert_true(tail_ring_is_current(f->reader, f->dir, "h1"));
    tail_ring_remove(f->dir, "h1");
    assert_false(tail_ring_is_current(f->reader, f->dir, "h1"));
    assert_int_equal(tail_ring_open(f->dir, "h1", &other, &e), ERR_NOTFOUND);
    assert_int_equal(tail_ring_create(f->dir, "h1", &other, NULL), 0);
    assert_false(tail_ring_is_current(f->reader, f->dir, "h1"));
    tail_ring_close(other);
}

static _Atomic bool stop;

static void *write_on(void *writer)
{
    for (uint64_t n = 0; !atomic_load(&stop); n++)
        write_one(writer, n);
    return NULL;
}

/* The writer laps the reader as it likes: records are whole, and their numbers only grow. */
static void never_shows_a_torn_record(void **state)
{
    struct fixture *f = *state;
    struct tail_record r;
    uint64_t at = 0, next = 0, records = 0;
    pthread_t t;

    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&t, NULL, write_on, f->writer), 0);
    for (uint32_t i = 0; records < 20000 && i < 100000000; i++)
        if (tail_ring_read(f->reader, &at, &r) == TAIL_RECORD) {
            assert_true(is_right(&r));
            assert_true(r.number >= next);
            next = r.number + 1;
            records++;
        }
    atomic_store(&stop, true);
    pthread_join(t, NULL);
    assert_int_equal(records, 20000);
}

#define CASE(name)                                                                                 \
    {                                                                                              \
        "tail_ring__" #name, name, enter, leave, NULL                                              \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reads_what_was_written),        CASE(tells_a_lapped_reader),
        CASE(goes_on_after_a_killed_writer), CASE(knows_when_the_file_is_another),
        CASE(never_shows_a_torn_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
