/* What a client signs: a signature is for these messages at these positions, all of them and no other; and whatever stands where a stretch
 * should be, reading it does not lead out of it. */
#include "agree/bft_stretch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MESSAGES = 3, SOURCE = 1, LIFE = 2, ROOM = 1024 };

static const struct bft_scope scope = {.cluster = 9, .group = 4, .members = 3, .faulty = 1};

static struct stretch {
    struct bft_stretch of;
    uint32_t bytes;
    _Alignas(8) unsigned char entries[ROOM];
} w;

static struct entry *entry_at(uint32_t at)
{
    return (struct entry *)(void *)(w.entries + at);
}

/* Messages of 0, 5 and 10 bytes. */
static void make_stretch(void)
{
    memset(&w, 0, sizeof(w));
    w.of = (struct bft_stretch){.from = 64, .end = 64, .source = SOURCE, .life = LIFE};
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct entry *e = entry_at(w.bytes);
        *e = (struct entry){.bytes = 5 * i, .source = SOURCE, .life = LIFE, .srcpos = w.of.end};
        memset(e->payload, (int)i, e->bytes);
        w.of.end += frame_size(e->bytes);
        w.bytes += (uint32_t)entry_size(e->bytes);
    }
}

static struct digest digest_of_all(void)
{
    struct digest d;
    assert_int_equal(bft_stretch_fits(&w.of, w.entries, w.bytes, &d), w.bytes);
    return d;
}

/* Where the log has it, by whom, and what fills it up is not the client's. */
static bool is_the_logs(uint32_t at)
{
    const struct entry *e = entry_at(0);
    uint32_t begin = 0;
    while (at - begin >= entry_size(e->bytes)) {
        begin += (uint32_t)entry_size(e->bytes);
        e = entry_at(begin);
    }
    return at - begin < offsetof(struct entry, bytes) || at - begin >= sizeof(*e) + e->bytes;
}

static void stretch__every_byte_that_is_applied_is_signed(void **state)
{
    (void)state;
    make_stretch();
    const struct digest d = digest_of_all();
    for (uint32_t at = 0; at < w.bytes; at++) {
        struct digest other;
        make_stretch();
        bool logs = is_the_logs(at);
        w.entries[at] ^= 1;
        bool same = bft_stretch_fits(&w.of, w.entries, w.bytes, &other) == w.bytes &&
                    digest_equal(d, other);
        assert_true(same == logs);
    }
}

static void stretch__a_signature_is_for_a_place_a_life_and_an_end(void **state)
{
    (void)state;
    make_stretch();
    const struct digest d = digest_of_all();
    const struct sign_text right = bft_stretch_text(&scope, &w.of, d);
    struct bft_stretch other[3] = {w.of, w.of, w.of};
    other[0].end++;
    other[1].source++;
    other[2].life++;
    for (uint32_t i = 0; i < 3; i++) {
        const struct sign_text t = bft_stretch_text(&scope, &other[i], d);
        assert_memory_not_equal(&t, &right, sizeof(t));
    }
    assert_true(right.signer >= BFT_MEMBERS_MAX);
}

/* The first message was decided without it, and is gone. */
static void stretch__a_signature_is_good_for_what_is_left(void **state)
{
    (void)state;
    make_stretch();
    const struct digest d = digest_of_all();
    struct bft_stretch rest = w.of;
    uint32_t first = (uint32_t)entry_size(entry_at(0)->bytes);
    struct digest of_rest;
    rest.from += frame_size(entry_at(0)->bytes);
    rest.before = bft_stretch_chain(w.of.before, entry_at(0));
    assert_int_equal(bft_stretch_fits(&rest, w.entries + first, w.bytes - first, &of_rest),
                     w.bytes - first);
    assert_true(digest_equal(d, of_rest));
    rest.before = w.of.before;
    bft_stretch_fits(&rest, w.entries + first, w.bytes - first, &of_rest);
    assert_false(digest_equal(d, of_rest));
}

static void stretch__what_is_cut_short_does_not_fit(void **state)
{
    struct digest d;
    (void)state;
    make_stretch();
    for (uint32_t bytes = 0; bytes < w.bytes; bytes += 8)
        assert_int_equal(bft_stretch_fits(&w.of, w.entries, bytes, &d), 0);
    w.of.end = UINT64_MAX;
    assert_int_equal(bft_stretch_fits(&w.of, w.entries, w.bytes, &d), 0);
    w.of.end = w.of.from;
    assert_int_equal(bft_stretch_fits(&w.of, w.entries, w.bytes, &d), 0);
    make_stretch();
    entry_at(0)->bytes = UINT32_MAX - 7;
    assert_int_equal(bft_stretch_fits(&w.of, w.entries, w.bytes, &d), 0);
}

static void stretch__says_where_its_messages_begin(void **state)
{
    (void)state;
    make_stretch();
    uint32_t begin = 0;
    for (uint64_t pos = 0; pos < w.of.end + 64; pos += 8)
        begin += bft_stretch_has(&w.of, w.entries, pos);
    assert_int_equal(begin, MESSAGES);
    assert_true(bft_stretch_has(&w.of, w.entries, w.of.from));
    assert_false(bft_stretch_has(&w.of, w.entries, w.of.end));
}

static void stretch__two_fit_into_a_batch_and_one_message_always_into_a_stretch(void **state)
{
    (void)state;
    for (uint32_t batch = 512; batch <= 65536; batch *= 2) {
        uint32_t most = (uint32_t)(batch - bft_stretch_room(sizeof(struct entry))) & ~7U;
        assert_true(2 * bft_stretch_room(bft_stretch_bytes(batch, 8)) <= batch);
        assert_true(bft_stretch_room(bft_stretch_bytes(batch, most)) <= batch);
        assert_true(bft_stretch_bytes(batch, most) >= entry_size(most));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stretch__every_byte_that_is_applied_is_signed),
        cmocka_unit_test(stretch__a_signature_is_for_a_place_a_life_and_an_end),
        cmocka_unit_test(stretch__a_signature_is_good_for_what_is_left),
        cmocka_unit_test(stretch__what_is_cut_short_does_not_fit),
        cmocka_unit_test(stretch__says_where_its_messages_begin),
        cmocka_unit_test(stretch__two_fit_into_a_batch_and_one_message_always_into_a_stretch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
