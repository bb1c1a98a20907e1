/* A member whose stream has what no member writes: its readers stay where they are, and go on without it. */
#include "../group_fixture.h"

#include "group/impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LIAR = 2, VIEW_US = 3000 };

static struct cell *cell_of(const struct views *v)
{
    return &v->host[LIAR].member->cell[0];
}

/* The head of the last message that it sent. */
static struct record *last_record(const struct views *v, uint32_t bytes)
{
    const struct own_stream *o = &cell_of(v)->own;
    return (struct record *)(void *)(o->ring[o->at] +
                                     ((o->head - record_size(bytes)) & (VIEWS_RING - 1)));
}

/* The others have put out the member that wrote it, have claimed it for that, and deliver the same; it comes again as a new one. */
static void expect_out(struct views *v)
{
    uint64_t torn = 0;
    views_run(v, 500);
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t q = 0; q < LIAR; q++)
            if (in_set(v->opt.layout[0].hosts ? v->opt.layout[0].senders : UINT64_MAX, q))
                views_send(v, q, 0, 100);
    views_until_settled(v, 0x7, VIEW_US);
    for (uint32_t q = 0; q < LIAR; q++) {
        struct member_counts c;
        member_counts(v->host[q].member, &c);
        torn += c.torn;
    }
    struct member_counts c;
    member_counts(v->host[LIAR].member, &c);
    assert_int_equal(c.put_out, 1);
    assert_int_not_equal(torn, 0);
    assert_null(views_close(v));
}

/* It sends a good message, behind it one with such a head, and then so many good ones. */
static void send_head(bool shared, uint32_t bytes, uint32_t flags, uint32_t more)
{
    struct views *v =
        views_open(&(struct views_options){.hosts = 3, .keepers = 2, .shared = shared});
    assert_true(views_send(v, LIAR, 0, 40));
    assert_true(views_send(v, LIAR, 0, 64));
    struct record *r = last_record(v, 64);
    assert_int_equal(r->bytes, 64);
    r->bytes = bytes;
    r->flags = flags;
    for (uint32_t i = 0; i < more; i++)
        assert_true(views_send(v, LIAR, 0, 100));
    expect_out(v);
}

static void hostile__heads_that_cannot_be_end_a_stream(void **state)
{
    static const struct {
        uint32_t bytes, flags, more;
    } heads[] = {
        {0, RECORD_SKIP, 0},                              /* nowhere */
        {0xfffffff0, RECORD_SKIP, 0},                     /* far beyond all */
        {VIEWS_RING, RECORD_SKIP, 0},                     /* once around */
        {24, RECORD_SKIP, 0},                             /* to where no record begins */
        {96, RECORD_SKIP, 0},                             /* beyond what was published */
        {96, 0, 0},                                       /* the same, as a message */
        {VIEWS_RING / 8 + 1, 0, 8},                       /* more than a message may have */
        {0xffffffff, 0, 0},                               /* nearly all there is */
        {0xffffffff, RECORD_SKIP, 0},                     /* likewise */
        {VIEWS_RING, RECORD_SKIP | UINT32_C(1) << 31, 0}, /* with flags that mean nothing */
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        send_head(false, heads[i].bytes, heads[i].flags, heads[i].more);
        send_head(true, heads[i].bytes, heads[i].flags, heads[i].more);
    }
}

/* Of shared memory, where it says what it likes at any time. */
static void say(uint32_t word, uint64_t value)
{
    struct views *v = views_open(&(struct views_options){.hosts = 3, .keepers = 2, .shared = true});
    assert_true(views_send(v, LIAR, 0, 40));
    views_until_settled(v, 0x7, VIEW_US);
    _Atomic uint64_t *ctl = cell_of(v)->own.ctl;
    atomic_store(&ctl[word], value);
    if (word == SEND_END) /* and a message, so that it is looked at */
        atomic_fetch_add(&ctl[SEND_GUARD], 1);
    expect_out(v);
}

static void hostile__counts_and_positions_that_cannot_be_end_a_stream(void **state)
{
    (void)state;
    say(SEND_GUARD, stamp(1, UINT64_C(1) << 39));
    say(SEND_GUARD, stamp(1, 5000));
    say(SEND_END, UINT64_MAX);
    say(SEND_END, UINT64_C(1) << 32);
    say(SEND_END, 0);
}

/* A single sender is walked in another way. */
static void hostile__one_sender_alone_is_read_with_the_same_care(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= RECORD_SKIP; flags += RECORD_SKIP) {
        struct views *v = views_open(&(struct views_options){
            .hosts = 3,
            .keepers = 2,
            .layout = {{.hosts = 7, .members_min = 1, .senders = set_of(LIAR), .overlap = true}}});
        assert_true(views_send(v, LIAR, 0, 64));
        last_record(v, 64)->flags = flags;
        last_record(v, 64)->bytes = 0x7ffffff0;
        expect_out(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile__heads_that_cannot_be_end_a_stream),
        cmocka_unit_test(hostile__counts_and_positions_that_cannot_be_end_a_stream),
        cmocka_unit_test(hostile__one_sender_alone_is_read_with_the_same_care),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
