/* Every rule of order_check, and those that an order checks by itself, is found broken when one word is. */
#include "mcast/order_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { US = 3, GROUPS = 70, CLIENTS = 2, LONG = 1000 };

static uint64_t stamp_of(uint64_t clock, uint16_t group)
{
    return clock << ORDER_GROUP_BITS | group;
}

static uint64_t send(struct order *o, uint64_t seq, uint32_t body)
{
    struct {
        struct message m;
        unsigned char rest[8 + LONG];
    } w = {.m = {.seq = seq, .count = 2}};
    const uint16_t list[] = {1, US};
    dst_write(w.m.rest, (struct dst_set){list, 2});
    return order_message(o, &w, message_bytes(2, body));
}

static enum order_news hear(struct order *o, uint16_t from, uint64_t seq, uint64_t clock)
{
    return order_stamp(o, from, (struct message_id){.seq = seq}, stamp_of(clock, from));
}

static const char *stopped; /* why it did */

static void stop(void *ctx, const char *why)
{
    (void)ctx;
    stopped = why;
}

/* Message 1 waits for stamps; 2, 3 and 4 are complete behind it, 4 with a long body; of 5 only a stamp is here; 6 came
 * by relay. */
static struct order *some_order(void)
{
    struct order *o;
    const struct order_options options = {
        .group = US, .groups = GROUPS, .clients = CLIENTS, .stop = stop};
    stopped = NULL;
    assert_int_equal(order_open(&options, &o, NULL), 0);
    send(o, 1, 8);
    for (uint64_t seq = 2; seq <= 4; seq++) {
        send(o, seq, seq == 4 ? LONG : 8);
        assert_int_equal(hear(o, 1, seq, 10 * seq), ORDER_COMPLETE);
    }
    hear(o, 69, 5, 7);
    order_marks_add(o, &(struct message_id){.seq = 6, .client = 1});
    assert_null(order_check(o));
    return o;
}

static struct item *item_of(struct order *o, uint64_t seq)
{
    return &o->item[order_find(o, &(struct message_id){.seq = seq})];
}

static void low_clock(struct order *o)
{
    o->clock = 39;
}

static void other_group(struct order *o)
{
    item_of(o, 1)->own++;
}

static void own_above_high(struct order *o)
{
    item_of(o, 1)->high--;
}

static void one_group(struct order *o)
{
    struct message *m = (void *)item_of(o, 1)->payload;
    m->count = 1;
}

static void one_missing(struct order *o)
{
    item_of(o, 1)->missing++;
}

static void one_heard(struct order *o)
{
    item_of(o, 5)->heard++;
}

static void heard_of_a_far_group(struct order *o)
{
    o->more[(size_t)(item_of(o, 5) - o->item) * o->more_words] = 0;
}

static void other_bucket(struct order *o)
{
    item_of(o, 5)->id.seq = 50;
}

static void not_used(struct order *o)
{
    o->used--;
}

static void lost_block(struct order *o)
{
    item_of(o, 4)->block = ORDER_NONE;
}

static void heap_upside_down(struct order *o)
{
    struct turn first = o->heap[0];
    o->heap[0] = o->heap[1];
    o->heap[1] = first;
}

static void heap_stamp(struct order *o)
{
    o->heap[0].stamp--;
}

static void not_in_the_heap(struct order *o)
{
    o->heap_count--;
}

static void delivered_before(struct order *o)
{
    o->delivered = o->heap[0].stamp;
}

static void queue_falls(struct order *o)
{
    order_queue_add(o, (uint32_t)(item_of(o, 1) - o->item));
}

static void not_in_the_queue(struct order *o)
{
    o->queue_from = o->queue_end;
}

static void delivered_beyond(struct order *o)
{
    o->heap_count = 0;
    o->delivered = item_of(o, 1)->own;
    for (uint64_t seq = 2; seq <= 4; seq++)
        order_forget(o, (uint32_t)(item_of(o, seq) - o->item));
}

static void not_delivered(struct order *o)
{
    o->queue_from = o->queue_end;
    order_forget(o, (uint32_t)(item_of(o, 1) - o->item));
}

static void another_clients_mark(struct order *o)
{
    o->marks[1].id[0].client = 0;
}

static void order_check__names_what_is_broken(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(struct order *);
        const char *says;
    } cases[] = {
        {low_clock, "no stamp that was heard is above the clock"},
        {other_group, "an own stamp names this group"},
        {own_above_high, "an own stamp is at most the clock, and at most the highest heard"},
        {one_group, "a message to one group is never ordered among groups"},
        {one_missing, "a message lacks the stamps that were not heard"},
        {one_heard, "as many stamps were heard as groups have sent one"},
        {heard_of_a_far_group, "as many stamps were heard as groups have sent one"},
        {other_bucket, "an item is in the bucket of its name"},
        {not_used, "every item that is used is in a bucket"},
        {lost_block, "every block that is used belongs to an item"},
        {heap_upside_down, "the heap has lower stamps above higher ones"},
        {heap_stamp, "what is in the heap is complete, under its final stamp"},
        {not_in_the_heap, "what is complete is in the heap"},
        {delivered_before, "what is still to be delivered comes after what was"},
        {queue_falls, "own stamps rise along the queue"},
        {not_in_the_queue, "what waits for stamps is in the queue"},
        {delivered_beyond, "nothing is delivered beyond what waits for stamps"},
        {not_delivered, "what is ready is delivered"},
        {another_clients_mark, "a mark is its client's"},
    };
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct order *o = some_order();
        cases[i].spoil(o);
        const char *says = order_check(o);
        assert_non_null(says);
        assert_string_equal(says, cases[i].says);
        order_close(o);
    }
}

static void order__stops_before_it_gives_a_stamp_twice(void **state)
{
    (void)state;
    struct order *o = some_order();
    assert_null(stopped);
    o->clock = 0;
    assert_int_equal(send(o, 7, 8), 0);
    assert_string_equal(stopped, "the stamps that this group gives do not rise");
    order_close(o);
}

/* Another group's stamp as high as there is leaves none that would be higher. */
static void order__stops_when_its_clock_has_run_out(void **state)
{
    (void)state;
    struct order *o = some_order();
    hear(o, 1, 8, UINT64_MAX >> ORDER_GROUP_BITS);
    assert_int_equal(send(o, 7, 8), 0);
    assert_non_null(stopped);
    order_close(o);
}

static void order__stops_before_it_delivers_what_comes_too_late(void **state)
{
    (void)state;
    struct order *o = some_order();
    uint32_t bytes;
    assert_null(order_first(o, &bytes));
    o->delivered = stamp_of(25, 0);
    assert_int_equal(hear(o, 1, 1, 21), ORDER_COMPLETE);
    assert_null(order_first(o, &bytes));
    assert_string_equal(stopped, "the stamps of what is delivered do not rise");
    order_close(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_check__names_what_is_broken),
        cmocka_unit_test(order__stops_before_it_gives_a_stamp_twice),
        cmocka_unit_test(order__stops_when_its_clock_has_run_out),
        cmocka_unit_test(order__stops_before_it_delivers_what_comes_too_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
