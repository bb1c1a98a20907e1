/* The TCP transport with somebody between two nodes, who reads, changes, cuts, delays and replays what they say: the
 * connection ends, nothing wrong is delivered, and it is made again. */
#include "mem/tcp/impl.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../far_nodes.h"
#include "../tcp_peer.h"
#include "../tcp_proxy.h"

static struct proxy proxy;

/* A host that writes numbers to another, through the proxy. */
static struct {
    struct mem *from, *to;
    struct mem_lane *out, *own;
    struct mem_flow flow;
    uint64_t said, seen;
} talk;

static const char payload[] = "what nobody else may read, on no account ";

/* What goes into the ring with a number. */
static void verse(uint64_t number, uint64_t out[8])
{
    memcpy(out, payload, 40);
    out[5] = number;
    out[6] = number * 0x9e3779b97f4a7c15u;
    out[7] = ~number;
}

static void poll_proxy(void)
{
    proxy_poll(&proxy);
}

static void talk_begin(const struct proxy_fault *fault)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    memset(&talk, 0, sizeof talk);
    proxy_open(&proxy, far_fixture_port(), fixture.port[0], fault);
    poll_also = poll_proxy;
    hosts[0].port = proxy.port;
    talk.to = open_node(0);
    region(talk.to);
    talk.own = lane_of(talk.to, 0, 1);
    talk.from = open_with(&o);
    talk.out = lane_of(talk.from, 0, 1);
    talk.flow.status = MEM_LOST;
}

static void talk_end(void)
{
    close_now(talk.from);
    close_now(talk.to);
    poll_also = NULL;
    proxy_close(&proxy);
    far_fixture_forget(&fixture);
}

/* Whatever is in the lane was said, and is whole. */
static void expect_what_was_said(void)
{
    uint64_t number = mem_word(talk.own, 0), is[8], should[8];

    assert_true(number >= talk.seen && number <= talk.said);
    talk.seen = number;
    memcpy(is, talk.own->ring, sizeof is);
    if (is[5] == 0)
        return; /* as it was born */
    assert_true(is[5] == number || is[5] == number + 1);
    verse(is[5], should);
    assert_memory_equal(is, should, sizeof is);
}

static void talk_on(void)
{
    uint64_t words[8];

    poll_all();
    expect_what_was_said();
    if (talk.flow.status != MEM_DONE) {
        if (!far_connected(talk.from, 0))
            return;
        mem_flow_open(talk.from, &talk.flow, 0, REGION, 0);
    } else if (talk.flow.done == talk.flow.marked) {
        verse(++talk.said, words);
        mem_put(talk.from, &talk.flow, talk.out, 0, words, sizeof words);
        mem_set1(talk.from, &talk.flow, talk.out, 0, talk.said);
        mem_mark(talk.from, &talk.flow, talk.said);
    }
}

#define TALK_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t until_ = clock_now_ns() + 20000000000u;                                           \
        while (!(condition) && clock_now_ns() < until_)                                            \
            talk_on();                                                                             \
        assert_true(condition);                                                                    \
    } while (0)

/* Until something more is delivered than was said by now. */
static void expect_more(void)
{
    uint64_t said = talk.said;

    TALK_UNTIL(mem_word(talk.own, 0) > said + 2);
}

/* ---- what is changed ---- */

static void expect_end_of_a_flip(int way, uint32_t record, int32_t byte)
{
    const struct proxy_fault f = {.flips = true, .way = way, .record = record, .byte = byte};

    talk_begin(&f);
    TALK_UNTIL(proxy.done);
    TALK_UNTIL(proxy.pair[0]->fd[0] < 0); /* one of both has ended it */
    peer_at(far_of(talk.from), 0)->dial_wait_ns = DIAL_NS_MIN;
    peer_at(far_of(talk.from), 0)->dial_ns = 0;
    expect_more();
    assert_true(proxy.accepted > 1);
    talk_end();
}

enum { FLIPPED_RECORDS = 14 };

/* One bit of one record, in each of the first ones, from the first word of the handshake to what is written: its head, its
 * content, its end. */
static void tcp__a_record_that_is_changed_ends_the_connection(void **state)
{
    static const int32_t bytes[] = {0, 5, -1};

    (void)state;
    quiet_begin();
    for (uint32_t record = 0; record < FLIPPED_RECORDS; record++)
        for (int i = 0; i < 6; i++)
            expect_end_of_a_flip(i % 2, record, bytes[i / 2]);
    quiet_end();
}

/* ---- what is cut, delayed, split ---- */

static void tcp__a_connection_that_is_cut_is_made_again(void **state)
{
    static const uint64_t at[] = {1, 5, 200, 700, 1100, 1600, 2100, 2500, 3000, 3701, 5002};

    (void)state;
    quiet_begin();
    for (size_t i = 0; i < 2 * sizeof at / sizeof at[0]; i++) {
        const struct proxy_fault f = {.way = i % 2, .cut_at = at[i / 2]};
        talk_begin(&f);
        TALK_UNTIL(proxy.done);
        expect_more();
        talk_end();
    }
    quiet_end();
}

static void tcp__what_comes_byte_by_byte_is_whole(void **state)
{
    const struct proxy_fault f = {.split_to = 20000};

    (void)state;
    talk_begin(&f);
    TALK_UNTIL(proxy.accepted > 0 &&
               (proxy.pair[0]->way[PROXY_THERE].passed >= 12000 || proxy.pair[0]->fd[0] < 0));
    expect_more();
    assert_int_equal(proxy.accepted, 1);
    talk_end();
}

static void tcp__what_comes_late_is_whole(void **state)
{
    const struct proxy_fault f = {.hold_ns = 20000000};

    (void)state;
    talk_begin(&f);
    for (int i = 0; i < 3; i++)
        expect_more();
    assert_int_equal(proxy.accepted, 1);
    talk_end();
}

/* ---- what is recorded ---- */

static bool recorded(const void *what, size_t bytes)
{
    return memmem(proxy.seen[0], proxy.seen_bytes[0], what, bytes) != NULL ||
           memmem(proxy.seen[1], proxy.seen_bytes[1], what, bytes) != NULL;
}

static void tcp__who_listens_learns_nothing(void **state)
{
    (void)state;
    for (int clear = 0; clear < 2; clear++) {
        fixture.carrier = clear ? FAR_FIXTURE_CLEAR : FAR_FIXTURE_TCP;
        talk_begin(NULL);
        expect_more();
        expect_more();
        assert_true(proxy.seen_bytes[0] > 1000);
        assert_int_equal(recorded(payload, 16), clear); /* so it is seen where it is to be seen */
        talk_end();
    }
}

/* A whole session, recorded and played again to who was dialed: it is a stranger's, and nothing of it lands. */
static void tcp__a_session_played_again_is_a_strangers(void **state)
{
    (void)state;
    quiet_begin();
    talk_begin(NULL);
    expect_more();
    expect_more();
    close_now(talk.from);
    WAIT_FOR(mem_dead(talk.to, 1));
    size_t bytes = proxy.seen_bytes[PROXY_THERE];
    uint64_t met = tcp_counts(talk.to).met;
    atomic_store(&talk.own->ctl[0], 999999);
    memset(talk.own->ring, 0x77, RING);
    for (int i = 0; i < 3; i++) {
        uint64_t strangers = tcp_counts(talk.to).strangers;
        int fd = raw_connect("127.0.0.1", fixture.port[0]);
        assert_int_equal(send(fd, proxy.seen[PROXY_THERE], bytes, MSG_NOSIGNAL), bytes);
        WAIT_FOR(tcp_counts(talk.to).strangers > strangers);
        close(fd);
    }
    poll_for(20);
    assert_int_equal(tcp_counts(talk.to).met, met);
    assert_null(peer_at(far_of(talk.to), 1)->link);
    assert_int_equal(mem_word(talk.own, 0), 999999);
    for (uint32_t i = 0; i < RING; i++)
        assert_int_equal(talk.own->ring[i], 0x77);
    close_now(talk.to);
    poll_also = NULL;
    proxy_close(&proxy);
    quiet_end();
}

/* The same to who dials: whoever plays what the host said once is not that host. */
static void tcp__an_answer_played_again_is_a_strangers(void **state)
{
    struct sockaddr_in at;
    int on = 1, got = -1;

    (void)state;
    quiet_begin();
    talk_begin(NULL);
    expect_more();
    close_now(talk.from);
    close_now(talk.to);
    at = proxy_address(fixture.port[0]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    poll_also = NULL;
    struct mem *b = open_node(1);
    WAIT_FOR(got >= 0 || (got = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    size_t bytes = proxy.seen_bytes[PROXY_BACK];
    assert_int_equal(send(got, proxy.seen[PROXY_BACK], bytes, MSG_NOSIGNAL), bytes);
    WAIT_FOR(tcp_counts(b).strangers > 0);
    assert_int_equal(tcp_counts(b).met, 0);
    close(got);
    close(fd);
    proxy_close(&proxy);
    quiet_end();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, tcp_setup, nodes_teardown)
    const struct CMUnitTest cases[] = {
        CASE(tcp__a_record_that_is_changed_ends_the_connection),
        CASE(tcp__a_connection_that_is_cut_is_made_again),
        CASE(tcp__what_comes_byte_by_byte_is_whole),
        CASE(tcp__what_comes_late_is_whole),
        CASE(tcp__who_listens_learns_nothing),
        CASE(tcp__a_session_played_again_is_a_strangers),
        CASE(tcp__an_answer_played_again_is_a_strangers),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
