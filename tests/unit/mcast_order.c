/* The order of one group, by hand; and of many groups together, with what they tell each other in
 * random order (order_world.h). */
#include "../order_world.h"

#include "base/rng.h"
#include "mcast/order.h"
#include "unit/snap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { A, B, C, D, E };

struct whole {
    struct message m;
    unsigned char rest[16 + 1024];
};

/* A message to the groups of the mask; its body is its number. */
static struct whole message_to(uint32_t client, uint16_t life, uint64_t seq, uint32_t mask,
                               uint32_t *bytes)
{
    struct whole w = {.m = {.seq = seq, .client = client, .life = life}};
    uint16_t list[8];
    for (uint16_t g = 0; g < 8; g++)
        if (mask >> g & 1)
            list[w.m.count++] = g;
    dst_write(w.m.rest, (struct dst_set){list, w.m.count});
    memcpy(w.m.rest + dst_bytes(w.m.count), &seq, sizeof(seq));
    *bytes = message_bytes(w.m.count, sizeof(seq));
    return w;
}

static struct message_id id_of(uint32_t client, uint16_t life, uint64_t seq)
{
    return (struct message_id){.seq = seq, .client = client, .life = life};
}

static uint64_t stamp_of(uint64_t clock, uint16_t group)
{
    return clock << 10 | group;
}

static struct order *order_of(uint16_t group, uint32_t groups)
{
    struct order *o;
    assert_int_equal(
        order_open(&(struct order_options){.group = group, .groups = groups, .clients = 4}, &o,
                   NULL),
        0);
    return o;
}

static uint64_t send(struct order *o, uint64_t seq, uint32_t mask)
{
    uint32_t bytes;
    struct whole w = message_to(0, 0, seq, mask, &bytes);
    return order_message(o, &w, bytes);
}

static uint64_t send_relayed(struct order *o, uint16_t life, uint64_t seq, uint32_t mask, bool over)
{
    uint32_t bytes;
    struct whole w = message_to(0, life, seq, mask, &bytes);
    return order_relayed(o, &w, bytes, over);
}

/* The sequence number of the next to deliver, which is dropped; -1: there is none. */
static int64_t next(struct order *o)
{
    uint32_t bytes;
    const struct message *m = order_first(o, &bytes);
    if (m == NULL)
        return -1;
    int64_t seq = (int64_t)m->seq;
    order_drop(o);
    return seq;
}

static struct order *copy_of(struct order *o, uint16_t group, uint32_t groups)
{
    struct order *copy = order_of(group, groups);
    uint64_t most = order_save_bytes(o);
    unsigned char *saved = malloc(most);
    uint64_t bytes = order_save(o, saved);
    assert_true(bytes <= most);
    assert_true(order_load(copy, saved, bytes));
    free(saved);
    return copy;
}

/* ---- stamps ---- */

static void order__stamps_rise_above_what_was_given_and_heard(void **state)
{
    (void)state;
    struct order *o = order_of(B, 3);
    assert_int_equal(send(o, 0, 1 << A | 1 << B), stamp_of(1, B));
    assert_int_equal(send(o, 1, 1 << A | 1 << B), stamp_of(2, B));
    assert_int_equal(order_stamp(o, A, id_of(0, 0, 7), stamp_of(50, A)), ORDER_HEARD);
    assert_int_equal(send(o, 2, 1 << A | 1 << B), stamp_of(51, B));
    /* A lower one changes nothing. */
    assert_int_equal(order_stamp(o, A, id_of(0, 0, 8), stamp_of(9, A)), ORDER_HEARD);
    assert_int_equal(send(o, 3, 1 << A | 1 << B), stamp_of(52, B));
    order_close(o);
}

/* A message is not delivered while one that came before waits for stamps, which may turn out
 * lower. */
static void order__a_message_waits_for_those_that_may_come_before_it(void **state)
{
    (void)state;
    struct order *o = order_of(A, 3);
    send(o, 0, 1 << A | 1 << B);
    send(o, 1, 1 << A | 1 << C);
    assert_int_equal(order_stamp(o, C, id_of(0, 0, 1), stamp_of(9, C)), ORDER_COMPLETE);
    assert_int_equal(next(o), -1);
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 0), stamp_of(8, B)), ORDER_COMPLETE);
    assert_int_equal(next(o), 0);
    assert_int_equal(next(o), 1);
    assert_int_equal(next(o), -1);
    assert_int_equal(order_pending(o), 0);
    order_close(o);
}

static void order__the_higher_final_stamp_goes_later(void **state)
{
    (void)state;
    struct order *o = order_of(A, 3);
    send(o, 0, 1 << A | 1 << B);
    send(o, 1, 1 << A | 1 << C);
    assert_int_equal(order_stamp(o, C, id_of(0, 0, 1), stamp_of(2, C)), ORDER_COMPLETE);
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 0), stamp_of(10, B)), ORDER_COMPLETE);
    assert_int_equal(next(o), 1);
    assert_int_equal(next(o), 0);
    order_close(o);
}

/* Equal clocks: the group decides, and at both ends alike. */
static void order__equal_clocks_are_ordered_by_group(void **state)
{
    (void)state;
    struct order *a = order_of(A, 2), *b = order_of(B, 2);
    /* They come in opposite orders. */
    uint64_t a0 = send(a, 0, 3), a1 = send(a, 1, 3);
    uint64_t b1 = send(b, 1, 3), b0 = send(b, 0, 3);
    order_stamp(a, B, id_of(0, 0, 1), b1);
    order_stamp(a, B, id_of(0, 0, 0), b0);
    order_stamp(b, A, id_of(0, 0, 0), a0);
    order_stamp(b, A, id_of(0, 0, 1), a1);
    /* 0 has 1A and 2B, 1 has 2A and 1B. */
    assert_int_equal(next(a), 1);
    assert_int_equal(next(a), 0);
    assert_int_equal(next(b), 1);
    assert_int_equal(next(b), 0);
    order_close(a);
    order_close(b);
}

static void order__stamps_may_come_before_the_message(void **state)
{
    (void)state;
    struct order *o = order_of(A, 3);
    const void *payload;
    uint32_t bytes;
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 0), stamp_of(5, B)), ORDER_HEARD);
    assert_int_equal(order_stamp(o, C, id_of(0, 0, 0), stamp_of(3, C)), ORDER_HEARD);
    assert_int_equal(order_pending(o), 1);
    assert_int_equal(next(o), -1);
    assert_int_equal(order_complete(o, id_of(0, 0, 0), &payload, &bytes), 0);
    assert_int_equal(send(o, 0, 1 << A | 1 << B | 1 << C), stamp_of(6, A));
    assert_int_equal(order_complete(o, id_of(0, 0, 0), &payload, &bytes), stamp_of(6, A));
    assert_int_equal(next(o), 0);
    order_close(o);
}

static void order__what_nobody_says_is_bad(void **state)
{
    (void)state;
    struct order *o = order_of(A, 3);
    send(o, 0, 1 << A | 1 << B | 1 << C);
    assert_int_equal(order_stamp(o, 3, id_of(0, 0, 0), stamp_of(5, 3)), ORDER_BAD);
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 0), stamp_of(5, C)), ORDER_BAD);
    assert_int_equal(order_stamp(o, B, id_of(4, 0, 0), stamp_of(5, B)), ORDER_BAD);
    assert_int_equal(order_final(o, id_of(0, 0, 0), stamp_of(5, B)), ORDER_BAD); /* no home */
    assert_int_equal(order_final(o, id_of(0, 0, 1), stamp_of(5, B)), ORDER_BAD); /* not there */
    assert_int_equal(order_final(o, id_of(4, 0, 0), stamp_of(5, B)), ORDER_BAD);
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 0), stamp_of(5, B)), ORDER_HEARD);
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 0), stamp_of(9, B)), ORDER_BAD); /* twice */
    assert_int_equal(order_stamp(o, C, id_of(0, 0, 0), stamp_of(4, C)), ORDER_COMPLETE);
    assert_int_equal(next(o), 0);
    order_close(o);
}

/* A client that tells one group other destinations than another makes a group hear of a stamp that it
 * does not wait for. That must not part replicas that had a snapshot from those that had none. */
static void order__a_stamp_too_many_changes_no_final_stamp(void **state)
{
    (void)state;
    struct order *o = order_of(A, 4);
    send(o, 0, 1 << A | 1 << B); /* holds up the others */
    send(o, 1, 1 << A | 1 << B);
    send(o, 2, 1 << A | 1 << B);
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 1), stamp_of(4, B)), ORDER_COMPLETE);
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 2), stamp_of(6, B)), ORDER_COMPLETE);
    assert_int_equal(order_stamp(o, C, id_of(0, 0, 1), stamp_of(9, C)), ORDER_HEARD);
    struct order *copy = copy_of(o, A, 4);
    order_stamp(o, B, id_of(0, 0, 0), stamp_of(1, B));
    order_stamp(copy, B, id_of(0, 0, 0), stamp_of(1, B));
    for (int64_t want = 0; want < 3; want++) {
        assert_int_equal(next(o), want);
        assert_int_equal(next(copy), want);
    }
    order_close(copy);
    order_close(o);
}

/* ---- a home ---- */

static void order__many_destinations_have_one_home_among_them(void **state)
{
    (void)state;
    uint32_t bytes, at[8] = {0};
    for (uint32_t mask = 1; mask < 256; mask++)
        for (uint64_t seq = 0; seq < 8; seq++) {
            struct whole w = message_to(1, 0, seq, mask, &bytes);
            uint16_t home = order_home(&w.m);
            assert_int_equal(home == ORDER_NO_HOME, w.m.count < ORDER_HOME_FROM);
            if (home != ORDER_NO_HOME)
                assert_true(home < 8 && mask >> home & 1);
            if (mask == 255)
                at[home]++;
        }
    /* Each in turn. */
    for (uint32_t g = 0; g < 8; g++)
        assert_int_equal(at[g], 1);
}

static void order__away_only_the_final_stamp_counts(void **state)
{
    (void)state;
    /* Sequence 0 of client 0 has its home at the first destination. */
    struct order *o = order_of(B, 5);
    assert_int_equal(send(o, 0, 31), stamp_of(1, B));
    assert_int_equal(order_stamp(o, C, id_of(0, 0, 0), stamp_of(3, C)), ORDER_HEARD);
    assert_int_equal(order_stamp(o, D, id_of(0, 0, 0), stamp_of(4, D)), ORDER_HEARD);
    assert_int_equal(order_stamp(o, E, id_of(0, 0, 0), stamp_of(5, E)), ORDER_HEARD);
    assert_int_equal(order_stamp(o, A, id_of(0, 0, 0), stamp_of(6, A)), ORDER_HEARD);
    assert_int_equal(next(o), -1);
    assert_int_equal(order_final(o, id_of(0, 0, 0), stamp_of(6, A)), ORDER_COMPLETE);
    assert_int_equal(order_final(o, id_of(0, 0, 0), stamp_of(7, A)), ORDER_BAD);
    assert_int_equal(send(o, 1, 3), stamp_of(7, B)); /* above the final stamp */
    assert_int_equal(next(o), 0);
    order_close(o);
}

static void order__the_home_collects_all_stamps(void **state)
{
    (void)state;
    struct order *o = order_of(A, 5);
    const void *payload;
    uint32_t bytes;
    assert_int_equal(send(o, 0, 31), stamp_of(1, A));
    assert_int_equal(order_stamp(o, B, id_of(0, 0, 0), stamp_of(1, B)), ORDER_HEARD);
    assert_int_equal(order_stamp(o, E, id_of(0, 0, 0), stamp_of(7, E)), ORDER_HEARD);
    assert_int_equal(order_stamp(o, D, id_of(0, 0, 0), stamp_of(2, D)), ORDER_HEARD);
    assert_int_equal(order_final(o, id_of(0, 0, 0), stamp_of(9, B)), ORDER_BAD);
    assert_int_equal(order_complete(o, id_of(0, 0, 0), &payload, &bytes), 0);
    assert_int_equal(order_stamp(o, C, id_of(0, 0, 0), stamp_of(3, C)), ORDER_COMPLETE);
    assert_int_equal(order_complete(o, id_of(0, 0, 0), &payload, &bytes), stamp_of(7, E));
    assert_int_equal(next(o), 0);
    order_close(o);
}

/* ---- relays ---- */

/* The own copy of a client that only seemed to be dead. */
static void order__the_clients_copy_after_a_relay_is_known(void **state)
{
    (void)state;
    for (uint32_t delivered = 0; delivered < 2; delivered++)
        for (uint32_t copied = 0; copied < 2; copied++) {
            struct order *o = order_of(B, 2);
            order_stamp(o, A, id_of(0, 0, 5), stamp_of(3, A));
            if (!delivered)
                send(o, 4, 3); /* holds it up */
            uint64_t stamp = send_relayed(o, 0, 5, 3, false);
            assert_int_not_equal(stamp, 0);
            if (delivered)
                assert_int_equal(next(o), 5);
            if (copied) {
                struct order *copy = copy_of(o, B, 2);
                order_close(o);
                o = copy;
            }
            assert_int_equal(send(o, 5, 3), 0);
            assert_int_equal(send_relayed(o, 0, 5, 3, false), 0);
            if (!delivered) {
                order_stamp(o, A, id_of(0, 0, 4), stamp_of(1, A));
                assert_int_equal(next(o), 4);
                assert_int_equal(next(o), 5);
            }
            assert_int_equal(next(o), -1);
            assert_int_equal(order_pending(o), 0);
            order_close(o);
        }
}

static void order__a_relay_that_is_not_needed_changes_nothing(void **state)
{
    (void)state;
    struct order *o = order_of(B, 2);
    /* Never heard of: whoever relays tells its stamp first, so it was delivered here. */
    assert_int_equal(send_relayed(o, 0, 0, 3, false), 0);
    assert_int_equal(order_pending(o), 0);
    /* It is here already. */
    assert_int_equal(send(o, 1, 3), stamp_of(1, B));
    assert_int_equal(send_relayed(o, 0, 1, 3, false), 0);
    order_stamp(o, A, id_of(0, 0, 1), stamp_of(1, A));
    assert_int_equal(next(o), 1);
    assert_int_equal(send_relayed(o, 0, 1, 3, false), 0);
    assert_int_equal(next(o), -1);
    assert_int_equal(order_pending(o), 0);
    /* And leaves no mark: the next message is taken. */
    assert_int_not_equal(send(o, 2, 3), 0);
    order_close(o);
}

/* The next process in the place has sequence numbers of its own. */
static void order__lives_of_a_client_are_told_apart(void **state)
{
    (void)state;
    struct order *o = order_of(B, 2);
    uint64_t empty = order_save_bytes(o);
    uint32_t bytes;
    struct whole old = message_to(0, 0, 0, 3, &bytes), new = message_to(0, 1, 0, 3, &bytes);
    order_stamp(o, A, id_of(0, 0, 0), stamp_of(1, A));
    assert_int_not_equal(order_relayed(o, &old, bytes, false), 0);
    assert_int_equal(next(o), 0);
    order_stamp(o, A, id_of(0, 1, 0), stamp_of(9, A));
    assert_int_not_equal(order_message(o, &new, bytes), 0);
    assert_int_equal(next(o), 0);
    /* Marks of the first life go with it, whatever it is that the second says first. */
    assert_int_equal(order_marks(o), 1);
    order_life(o, 0, 0);
    order_life(o, 1, 1);
    assert_int_equal(order_marks(o), 1);
    order_life(o, 0, 1);
    assert_int_equal(order_marks(o), 0);
    assert_int_equal(order_save_bytes(o), empty);

    /* Relayed when the next life is known already, it leaves none. */
    old.m.seq = new.m.seq = 1;
    order_stamp(o, A, id_of(0, 0, 1), stamp_of(11, A));
    assert_int_not_equal(order_relayed(o, &old, bytes, true), 0);
    assert_int_equal(next(o), 1);
    assert_int_equal(order_save_bytes(o), empty);
    order_stamp(o, A, id_of(0, 1, 1), stamp_of(12, A));
    assert_int_not_equal(order_message(o, &new, bytes), 0);
    assert_int_equal(next(o), 1);
    order_close(o);
}

static void order__what_waits_says_for_whom(void **state)
{
    (void)state;
    struct order *o = order_of(B, 5);
    uint16_t missing[5];
    uint32_t bytes, count;
    const struct message *m;

    send(o, 0, 1 << A | 1 << B | 1 << C);
    m = order_waiting(o, id_of(0, 0, 0), &bytes, missing, &count);
    assert_true(m && m->seq == 0 && count == 2 && missing[0] == A && missing[1] == C);
    assert_int_equal(order_own(o, id_of(0, 0, 0)), stamp_of(1, B));
    order_stamp(o, A, id_of(0, 0, 0), stamp_of(1, A));
    m = order_waiting(o, id_of(0, 0, 0), &bytes, missing, &count);
    assert_true(m && count == 1 && missing[0] == C);
    order_set_relayed(o, id_of(0, 0, 0));
    assert_null(order_waiting(o, id_of(0, 0, 0), &bytes, missing, &count));

    /* Away, for the home alone: 5 % 5 is the first. */
    send(o, 5, 31);
    order_stamp(o, C, id_of(0, 0, 5), stamp_of(1, C));
    m = order_waiting(o, id_of(0, 0, 5), &bytes, missing, &count);
    assert_true(m && count == 1 && missing[0] == A);
    order_final(o, id_of(0, 0, 5), stamp_of(7, A));
    assert_null(order_waiting(o, id_of(0, 0, 5), &bytes, missing, &count));

    /* At home, for all that have not stamped. */
    send(o, 6, 31);
    order_stamp(o, D, id_of(0, 0, 6), stamp_of(1, D));
    m = order_waiting(o, id_of(0, 0, 6), &bytes, missing, &count);
    assert_true(m && count == 3 && missing[0] == A && missing[1] == C && missing[2] == E);

    /* Not here. */
    order_stamp(o, D, id_of(0, 0, 8), stamp_of(1, D));
    assert_null(order_waiting(o, id_of(0, 0, 8), &bytes, missing, &count));
    assert_null(order_waiting(o, id_of(0, 0, 9), &bytes, missing, &count));
    assert_null(order_waiting(o, id_of(4, 0, 0), &bytes, missing, &count));
    order_close(o);
}

struct looks {
    uint32_t count, last;
    bool done;
};

static bool look(void *ctx, struct message_id id, uint32_t seen)
{
    struct looks *l = ctx;
    assert_int_equal(id.seq, 1);
    l->count++;
    l->last = seen;
    return l->done;
}

static void order__watching_counts_how_long_a_message_waits(void **state)
{
    (void)state;
    struct order *o = order_of(A, 2);
    struct looks l = {0};
    send(o, 0, 3);
    order_stamp(o, B, id_of(0, 0, 0), stamp_of(5, B)); /* complete: does not wait */
    send(o, 1, 3);
    order_stamp(o, B, id_of(0, 0, 2), stamp_of(6, B)); /* not here */
    for (uint32_t i = 0; i < 4; i++) {
        l.done = i == 2;
        order_watch(o, look, &l);
        assert_int_equal(l.last, i < 3 ? i : 0);
    }
    assert_int_equal(l.count, 4);
    order_set_relayed(o, id_of(0, 0, 1));
    order_watch(o, look, &l);
    assert_int_equal(l.count, 4);
    order_close(o);
}

/* ---- room ---- */

/* A payload is in one piece again, whatever the pieces that it was kept in; also after others have come
 * and gone in its place. */
static void order__payloads_of_all_sizes_come_back(void **state)
{
    (void)state;
    struct order *o = order_of(A, 2);
    struct whole w;
    uint32_t least = message_bytes(2, 0), bytes;
    const unsigned char *got;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t size = least; size <= least + 1024; size++) {
            w = (struct whole){.m = {.seq = size, .count = 2}};
            dst_write(w.m.rest, (struct dst_set){(const uint16_t[]){A, B}, 2});
            memset(w.m.rest + 8, (int)size, size - least);
            assert_int_not_equal(order_message(o, &w, size), 0);
        }
        for (uint32_t size = least; size <= least + 1024; size++)
            assert_int_equal(
                order_stamp(o, B, id_of(0, 0, size), stamp_of((round + 1) * 10000 + size, B)),
                ORDER_COMPLETE);
        for (uint32_t size = least; size <= least + 1024; size++) {
            got = order_first(o, &bytes);
            assert_non_null(got);
            assert_int_equal(bytes, size);
            for (uint32_t i = least; i < size; i++)
                assert_int_equal(got[i], size & 0xff);
            order_drop(o);
        }
        assert_null(order_first(o, &bytes));
        assert_int_equal(order_pending(o), 0);
    }
    order_close(o);
}

/* The highest numbers that there are, and one of every word of bits between. */
static void order__of_1024_groups_every_stamp_is_heard_once(void **state)
{
    (void)state;
    enum { GROUPS = DST_GROUPS_MAX };
    static struct {
        struct message m;
        uint16_t list[GROUPS];
    } all = {.m = {.seq = 1023, .count = GROUPS}}; /* home is the last */
    for (uint16_t g = 0; g < GROUPS; g++)
        all.list[g] = g;
    struct order *o = order_of(GROUPS - 1, GROUPS);
    assert_int_equal(order_home(&all.m), GROUPS - 1);
    for (uint16_t g = 0; g < GROUPS - 1; g++) {
        struct message_id id = id_of(0, 0, 1023);
        if (g == 500)
            assert_int_equal(order_message(o, &all, sizeof(all)), stamp_of(8, GROUPS - 1));
        if (g % 100 == 50) {
            struct order *copy = copy_of(o, GROUPS - 1, GROUPS);
            order_close(o);
            o = copy;
        }
        assert_int_equal(order_stamp(o, g, id, stamp_of(7, g)),
                         g == GROUPS - 2 ? ORDER_COMPLETE : ORDER_HEARD);
        assert_int_equal(order_stamp(o, g, id, stamp_of(7, g)), ORDER_BAD);
        if (g == 700) {
            uint16_t missing[GROUPS];
            uint32_t bytes, count;
            assert_non_null(order_waiting(o, id, &bytes, missing, &count));
            assert_int_equal(count, GROUPS - 2 - 700);
            assert_int_equal(missing[0], 701);
        }
    }
    assert_int_equal(next(o), 1023);
    order_close(o);
}

/* ---- many groups ---- */

static void holds(const struct world_options *o, struct world_seen *seen)
{
    struct world_seen one;
    const char *violated = world_run(o, &one);
    if (violated)
        fail_msg("seed %d of %u groups: %s", (int)o->seed, o->groups, violated);
    seen->delivered += one.delivered;
    seen->homes += one.homes;
    seen->relays += one.relays;
    seen->relays_taken += one.relays_taken;
    seen->relays_over += one.relays_over;
    seen->relays_late += one.relays_late;
    seen->copies_marked += one.copies_marked;
    seen->lost += one.lost;
    seen->saves += one.saves;
    seen->pending_max = one.pending_max > seen->pending_max ? one.pending_max : seen->pending_max;
}

static void print_seen(const struct world_seen *s)
{
    printf(
        "# %llu delivered, %llu by a home; %llu relays, %llu taken, %llu over, %llu late; %llu own "
        "copies after a relay, %llu lost, %llu saves, at most %u pending\n",
        (unsigned long long)s->delivered, (unsigned long long)s->homes,
        (unsigned long long)s->relays, (unsigned long long)s->relays_taken,
        (unsigned long long)s->relays_over, (unsigned long long)s->relays_late,
        (unsigned long long)s->copies_marked, (unsigned long long)s->lost,
        (unsigned long long)s->saves, s->pending_max);
}

static void order__groups_agree_without_a_home(void **state)
{
    (void)state;
    struct world_seen s = {0};
    for (uint64_t seed = 1; seed <= 100; seed++)
        holds(&(struct world_options){.seed = seed,
                                      .groups = 2 + seed % 6,
                                      .clients = 1 + seed % 4,
                                      .casts = 200,
                                      .dst_max = seed % 6 ? 3 : 2,
                                      .body_max = 40},
              &s);
    print_seen(&s);
    assert_true(s.delivered > 20000 && s.homes == 0 && s.relays == 0);
}

static void order__groups_agree_with_homes(void **state)
{
    (void)state;
    struct world_seen s = {0};
    for (uint64_t seed = 1; seed <= 100; seed++)
        holds(&(struct world_options){.seed = seed,
                                      .groups = 4 + seed % 5,
                                      .clients = 1 + seed % 4,
                                      .casts = 200,
                                      .body_max = 40},
              &s);
    print_seen(&s);
    assert_true(s.delivered > 20000 && s.homes > 1000 && s.relays == 0);
}

/* Clients die half-way and are followed by others, clients that live are taken for dead, and every
 * replica begins with what another has saved now and then. */
static void order__relays_and_snapshots_change_nothing(void **state)
{
    (void)state;
    struct world_seen s = {0};
    for (uint64_t seed = 1; seed <= 200; seed++)
        holds(&(struct world_options){.seed = seed,
                                      .groups = 2 + seed % 7,
                                      .clients = 1 + seed % 4,
                                      .casts = 150,
                                      .body_max = seed % 3 ? 40 : 1000,
                                      .save_every = seed % 2 ? 10 : 100,
                                      .deaths = seed % 4 != 0,
                                      .suspicious = seed % 3 != 0},
              &s);
    print_seen(&s);
    /* All of it has come about. */
    assert_true(s.homes > 1000 && s.relays_taken > 1000 && s.relays_over > 50 &&
                s.relays_late > 100 && s.copies_marked > 100 && s.lost > 100 && s.saves > 1000);
}

/* One group takes nothing for so long that everything grows, several times. */
static void order__grows_with_what_waits(void **state)
{
    (void)state;
    struct world_seen s = {0};
    for (uint64_t seed = 1; seed <= 4; seed++)
        holds(&(struct world_options){.seed = seed,
                                      .groups = 3,
                                      .clients = 2,
                                      .casts = 2000,
                                      .body_max = 600,
                                      .save_every = 2000,
                                      .suspicious = seed > 2,
                                      .late = true},
              &s);
    print_seen(&s);
    assert_true(s.pending_max > 1024);
}

static void order__more_than_64_groups_agree(void **state)
{
    (void)state;
    struct world_seen s = {0};
    const uint32_t groups[] = {64, 65, 70, 128, 130, 200};
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t wide = 0; wide < 2; wide++)
            holds(&(struct world_options){.seed = 10 * i + wide,
                                          .groups = groups[i],
                                          .clients = 2,
                                          .casts = wide ? 30 : 200,
                                          .dst_max = wide ? 0 : 5,
                                          .body_max = 40,
                                          .save_every = 20,
                                          .deaths = i % 2,
                                          .suspicious = wide},
                  &s);
    print_seen(&s);
    assert_true(s.delivered > 5000 && s.relays_taken > 0 && s.saves > 100);
}

/* ---- what was not saved is refused ---- */

/* An order with something of everything. */
static struct order *busy_order(uint32_t groups)
{
    struct order *o = order_of(B, groups);
    uint32_t bytes;
    struct whole w;
    send(o, 0, 1 << A | 1 << B | 1 << C);
    order_stamp(o, C, id_of(0, 0, 0), stamp_of(9, C));
    send(o, 1, 1 << A | 1 << B);
    order_stamp(o, A, id_of(0, 0, 1), stamp_of(3, A)); /* complete */
    send(o, 5, 31);
    order_stamp(o, A, id_of(0, 0, 7), stamp_of(4, A)); /* not here */
    for (uint64_t seq = 20; seq < 22; seq++) {
        order_stamp(o, A, id_of(0, 0, seq), stamp_of(11, A));
        send_relayed(o, 0, seq, 1 << A | 1 << B, false);
    }
    w = message_to(1, 0, 3, 3, &bytes);
    order_message(o, &w, message_bytes(2, 700));
    return o;
}

/* Goes through all that an order can be asked. */
static void use(struct order *o, uint32_t groups)
{
    uint16_t missing[DST_GROUPS_MAX];
    uint32_t bytes, count;
    const void *payload;
    for (uint64_t seq = 0; seq < 24; seq++)
        for (uint32_t client = 0; client < 2; client++) {
            struct message_id id = id_of(client, 0, seq);
            if ((payload = order_waiting(o, id, &bytes, missing, &count))) {
                assert_true(count < groups && bytes >= sizeof(struct message));
                order_own(o, id);
                order_set_relayed(o, id);
            }
            order_complete(o, id, &payload, &bytes);
            order_stamp(o, A, id, stamp_of(30, A));
            order_stamp(o, C, id, stamp_of(30, C));
            order_final(o, id, stamp_of(31, A));
        }
    uint64_t most = order_save_bytes(o);
    unsigned char *saved = malloc(most);
    assert_true(order_save(o, saved) <= most);
    free(saved);
    for (uint32_t i = 0; i < 100 && (payload = order_first(o, &bytes)); i++) {
        struct message_view v;
        assert_true(message_read(payload, bytes, 4, groups, &v));
        order_drop(o);
    }
}

static void order__what_is_cut_short_is_refused(void **state)
{
    (void)state;
    for (uint32_t groups = 5; groups <= 80; groups += 75) {
        struct order *o = busy_order(groups), *other = order_of(B, groups);
        uint64_t bytes = order_save_bytes(o);
        unsigned char *saved = malloc(bytes);
        bytes = order_save(o, saved);
        for (uint64_t n = 0; n < bytes; n++) {
            /* In memory of its own size, so that a read beyond is seen. */
            unsigned char *cut = malloc(n + !n);
            memcpy(cut, saved, n);
            if (order_load(other, cut, n))
                fail_msg("%u of %u bytes are taken", (unsigned)n, (unsigned)bytes);
            free(cut);
        }
        unsigned char *more = calloc(1, bytes + 16);
        memcpy(more, saved, bytes);
        for (uint64_t n = 1; n <= 16; n++)
            assert_false(order_load(other, more, bytes + n));
        free(more);
        assert_true(order_load(other, saved, bytes));
        assert_int_equal(order_pending(other), order_pending(o));
        use(other, groups);
        free(saved);
        order_close(other);
        order_close(o);
    }
}

/* Whatever the bytes are, they are refused, or what comes of them can be used. */
static void order__garbage_does_no_harm(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 1);
    uint32_t taken = 0, refused = 0;
    for (uint32_t groups = 5; groups <= 80; groups += 75) {
        struct order *o = busy_order(groups), *other = order_of(B, groups);
        uint64_t bytes = order_save_bytes(o);
        unsigned char *saved = malloc(bytes), *bad = malloc(bytes);
        bytes = order_save(o, saved);
        for (uint32_t i = 0; i < 20000; i++) {
            memcpy(bad, saved, bytes);
            uint64_t changes = rng_range(&rng, 1, 4);
            for (uint64_t k = 0; k < changes; k++) {
                uint64_t at = rng_below(&rng, bytes);
                switch (rng_below(&rng, 4)) {
                case 0:
                    bad[at] ^= (unsigned char)(1 << rng_below(&rng, 8));
                    break;
                case 1:
                    bad[at] = (unsigned char)rng_u64(&rng);
                    break;
                case 2:
                    snap_put(bad + at / 8 * 8, rng_below(&rng, 3) - 1);
                    break;
                case 3:
                    memcpy(bad + at / 8 * 8, saved + rng_below(&rng, bytes) / 8 * 8, 8);
                    break;
                }
            }
            bool good = order_load(other, bad, bytes);
            taken += good;
            refused += !good;
            if (good)
                use(other, groups);
        }
        for (uint32_t i = 0; i < 2000; i++) {
            uint64_t n = rng_below(&rng, bytes + 1);
            for (uint64_t k = 0; k < n; k++)
                bad[k] = (unsigned char)rng_u64(&rng);
            if (n >= 24 && i % 2)
                snap_put(snap_put(bad + 8, rng_below(&rng, 4)), rng_below(&rng, 4));
            refused += !order_load(other, bad, n);
        }
        /* None of it is left. */
        assert_true(order_load(other, saved, bytes));
        assert_int_equal(order_pending(other), order_pending(o));
        use(other, groups);
        free(bad);
        free(saved);
        order_close(other);
        order_close(o);
    }
    printf("# %u taken, %u refused\n", taken, refused);
    assert_true(taken > 1000 && refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order__stamps_rise_above_what_was_given_and_heard),
        cmocka_unit_test(order__a_message_waits_for_those_that_may_come_before_it),
        cmocka_unit_test(order__the_higher_final_stamp_goes_later),
        cmocka_unit_test(order__equal_clocks_are_ordered_by_group),
        cmocka_unit_test(order__stamps_may_come_before_the_message),
        cmocka_unit_test(order__what_nobody_says_is_bad),
        cmocka_unit_test(order__a_stamp_too_many_changes_no_final_stamp),
        cmocka_unit_test(order__many_destinations_have_one_home_among_them),
        cmocka_unit_test(order__away_only_the_final_stamp_counts),
        cmocka_unit_test(order__the_home_collects_all_stamps),
        cmocka_unit_test(order__the_clients_copy_after_a_relay_is_known),
        cmocka_unit_test(order__a_relay_that_is_not_needed_changes_nothing),
        cmocka_unit_test(order__lives_of_a_client_are_told_apart),
        cmocka_unit_test(order__what_waits_says_for_whom),
        cmocka_unit_test(order__watching_counts_how_long_a_message_waits),
        cmocka_unit_test(order__payloads_of_all_sizes_come_back),
        cmocka_unit_test(order__of_1024_groups_every_stamp_is_heard_once),
        cmocka_unit_test(order__groups_agree_without_a_home),
        cmocka_unit_test(order__groups_agree_with_homes),
        cmocka_unit_test(order__relays_and_snapshots_change_nothing),
        cmocka_unit_test(order__grows_with_what_waits),
        cmocka_unit_test(order__more_than_64_groups_agree),
        cmocka_unit_test(order__what_is_cut_short_is_refused),
        cmocka_unit_test(order__garbage_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
