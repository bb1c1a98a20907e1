/* What every memory over a network has beyond the contract (mem_contract.c), on each carrier: who may connect, and lanes.
 * Lives are in mem_far_lives.c, clients in mem_far_clients.c. All nodes are in this thread, on 127.0.0.1. */
#include "base/rng.h"
#include "mem/ofi/impl.h"
#include "mem/tcp/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "../far_nodes.h"

/* ---- who may connect ---- */

/* What is said of a key that is not known: to who has it, and of him. */
#define KEY_REFUSED (on_tcp() ? "its key is not in the cluster file" : "wrong cluster key")
#define KEY_TOLD                                                                                   \
    (on_tcp() ? "it says that our key is not in its cluster file" : "wrong cluster key")

/* Two hosts that differ in something: they never connect, and both say why. */
static void expect_apart(const struct ofi_options *other, const char *reason, const char *told)
{
    char said[4096], here[128], there[128];
    struct stderr_capture h = stderr_capture_begin();
    struct mem *a = open_node(0), *b = open_with(other);

    snprintf(here, sizeof here, "h0: a connection from 127.0.0.1 was refused: %s", reason);
    snprintf(there, sizeof there, "it refuses us: %s", told);
    WAIT_FOR(has_said(&h, here) && has_said(&h, there));
    poll_for(50);
    stderr_capture_end(&h, said, sizeof said);
    assert_false(far_connected(a, 1));
    assert_false(far_connected(b, 0));
}

static void another_key_is_refused(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    o.key = ANOTHER_KEY;
    expect_apart(&o, KEY_REFUSED, KEY_TOLD);
}

/* Opens a client that hosts in another process refuse, as soon as they are there. */
static void expect_refused(struct ofi_options *o, const char *why)
{
    uint64_t timeout = o->far.timeout_ns, until = clock_now_ns() + 20000000000u;
    struct err e = {""};
    struct mem *m;
    int rc;

    o->far.timeout_ns = 300000000;
    do
        rc = far_fixture_open_node(&fixture, o, &m, &e);
    while (rc == ERR_TIMEOUT && clock_now_ns() < until);
    o->far.timeout_ns = timeout;
    assert_int_equal(rc, ERR_REFUSED);
    expect_says(e.text, why);
}

static void facts_of(struct ofi_options *o, struct far_fact *facts, const char *log_bytes)
{
    memset(facts, 0, 2 * sizeof *facts);
    strcpy(facts[0].key, "protocol");
    strcpy(facts[0].value, "tree");
    strcpy(facts[1].key, "log_bytes");
    strcpy(facts[1].value, log_bytes);
    o->far.facts = facts;
    o->far.facts_count = 2;
}

/* Two hosts and a client; one host and the client have another file. Both sides say which key it is, and both values. */
static void a_file_that_differs_is_refused_by_name(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    struct far_fact facts[2];
    struct err e = {""};
    struct mem *c;
    char said[4096];

    struct stderr_capture h = stderr_capture_begin();
    facts_of(&o, facts, "262144");
    struct mem *a = open_with(&o);
    facts_of(&o, facts, "131072");
    o.far.self = 1;
    struct mem *b = open_with(&o);
    WAIT_FOR(has_said(&h, "h0: h1 (127.0.0.1") && has_said(&h, "h1: h0 (127.0.0.1"));
    WAIT_FOR(has_said(&h, "its cluster file differs: log_bytes is 131072 there and 262144 here"));
    WAIT_FOR(has_said(&h, "its cluster file differs: log_bytes is 262144 there and 131072 here"));
    assert_false(far_connected(a, 1) || far_connected(b, 0));
    close_now(b);
    close_now(a);
    stderr_capture_end(&h, said, sizeof said);
    /* A client, to a host in another process. */
    pid_t kid = fork();
    if (kid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        facts_of(&o, facts, "262144");
        o.far.self = 0;
        if (far_fixture_open_node(&fixture, &o, &c, &e) < 0)
            _exit(1);
        for (;;)
            mem_poll(c);
    }
    facts_of(&o, facts, "131072");
    o.far.self = FAR_ANY;
    h = stderr_capture_begin();
    expect_refused(&o, "log_bytes is 262144 there and 131072 here");
    stderr_capture_end(&h, said, sizeof said);
    /* And with the same it is let in. */
    facts_of(&o, facts, "262144");
    if (far_fixture_open_node(&fixture, &o, &c, &e) < 0)
        fail_msg("%s", e.text);
    mem_close(c);
    kill(kid, SIGKILL);
    waitpid(kid, NULL, 0);
}

/* The others connect, and so do clients. */
static void an_address_that_is_not_known_stops_nobody_else(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    char said[4096];
    hosts[0].address = "no-such-host.invalid";
    struct stderr_capture h = stderr_capture_begin();
    struct mem *b = open_with(&o);
    o.far.self = 2;
    struct mem *c = open_with(&o);
    wait_connected(b, c);
    assert_true(has_said(&h, "h0 (no-such-host.invalid"));
    assert_true(has_said(&h, "its address is not known"));
    stderr_capture_end(&h, said, sizeof said);
}

static void another_cluster_is_refused(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    o.far.cluster = "tset";
    expect_apart(&o, "wrong cluster", "wrong cluster");
}

/* A client hears why nobody takes it. */
static void a_client_is_told_why_it_is_refused(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, FAR_ANY, hosts);
    struct err e = {""};
    struct mem *m;
    char said[4096];

    struct stderr_capture h = stderr_capture_begin();
    pid_t host = hosts_start(1);
    o.key = ANOTHER_KEY;
    expect_refused(&o, KEY_TOLD);
    hosts_stop(host);
    o.far.timeout_ns = 700000000;
    o.key = fixture.key;
    o.far.hosts_count = 3;
    hosts[0].port = fixture.port[2]; /* nobody is there */
    e.text[0] = 0;
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_TIMEOUT);
    expect_says(e.text, "refused"); /* by the kernel */
    stderr_capture_end(&h, said, sizeof said);
}

enum { PAGE_WORDS = 40000 };

static uint64_t page[2][PAGE_WORDS];
static bool shown[FAR_FIXTURE_HOSTS];

static bool look_at_all(void *ctx, uint32_t host)
{
    (void)ctx;
    (void)host;
    return true;
}

static void on_shown(void *ctx, uint32_t host, const void *what, size_t bytes)
{
    size_t wanted = host == 0 ? sizeof page[0] : 8;

    (void)ctx;
    shown[host] = host < 2 && bytes == wanted && memcmp(what, page[host], bytes) == 0;
}

/* Who has the key sees what hosts show, short or long, again and again; and does not wait for one that is not
 * there. Who has another sees nothing. */
static void who_has_the_key_may_look(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, FAR_ANY, hosts);
    struct err e = {""};
    struct mem *m;
    char said[4096];
    int status;

    for (int i = 0; i < PAGE_WORDS; i++)
        page[0][i] = page[1][i] = (uint64_t)i * 0x9e3779b97f4a7c15u;
    struct stderr_capture h = stderr_capture_begin();
    pid_t kid = fork();
    if (kid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        far_show(open_node(0), page[0], sizeof page[0]);
        far_show(open_node(1), page[1], 8);
        for (;;)
            poll_all();
    }
    o.far.looks = true;
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), 0);
    for (uint64_t until = clock_now_ns() + 10000000000u;
         !(shown[0] && shown[1]) && clock_now_ns() < until;)
        far_look(m, 5000000000u, look_at_all, on_shown, NULL);
    assert_true(shown[0] && shown[1] && !shown[2]);
    memset(shown, 0, sizeof shown);
    uint64_t began = clock_now_ns();
    far_look(m, 60000000000u, look_at_all, on_shown, NULL);
    assert_true(shown[0] && shown[1] && !shown[2] && clock_now_ns() - began < 30000000000u);
    mem_close(m);
    o.key = ANOTHER_KEY;
    memset(shown, 0, sizeof shown);
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), 0);
    far_look(m, 60000000000u, look_at_all, on_shown, NULL);
    assert_false(shown[0] || shown[1]);
    mem_close(m);
    kill(kid, SIGKILL);
    waitpid(kid, &status, 0);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(said, KEY_TOLD);
}

static void a_host_listens_on_its_address_alone(void)
{
    open_node(0);
    int fd = raw_connect("127.0.0.1", fixture.port[0]);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(raw_connect("127.0.0.2", fixture.port[0]), -1);
    assert_int_equal(errno, ECONNREFUSED);
}

/* An event of a connection must not keep everybody awake for ever after. */
static void who_has_nothing_to_do_sleeps(void)
{
    struct mem *a = open_node(0), *b = open_node(1);
    wait_connected(a, b);
    for (int i = 0; i < 2; i++) {
        struct mem *m = i == 0 ? a : b;
        bool slept = false;
        for (int tries = 0; !slept && tries < 100; tries++) {
            mem_doze(m);
            if (mem_poll(m) > 0) {
                mem_rouse(m);
                continue;
            }
            uint64_t from = clock_now_ns();
            mem_sleep(m, from + 20000000);
            slept = clock_now_ns() - from >= 20000000;
        }
        assert_true(slept);
    }
}

/* Strangers that say nothing, half a word, or nonsense: nobody waits for them. */
static void strangers_do_no_harm(void)
{
    unsigned char noise[600];
    int fd[40];

    struct mem *a = open_node(0);
    region(a);
    lane_of(a, 0, 1);
    for (int i = 0; i < 40; i++) {
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (unsigned char)(rand() >> 7);
        if (i % 4 == 1)
            noise[0] = 1; /* as the provider's own connect request begins, */
        fd[i] = raw_connect("127.0.0.1", fixture.port[0]);
        assert_true(fd[i] >= 0);
        if (i % 4)
            (void)!send(fd[i], noise, i % 4 == 2 ? 1 : sizeof noise, MSG_NOSIGNAL);
        uint64_t begin = clock_now_ns();
        for (int n = 0; n < 20; n++)
            poll_all();
        assert_true(clock_now_ns() - begin < 1000000000u);
    }
    poll_for(20);
    struct mem *b = open_node(1);
    region(b);
    lane_of(b, 0, 1);
    wait_connected(a, b);
    for (int i = 0; i < 40; i++)
        close(fd[i]);
    poll_for(20);
    assert_true(far_connected(a, 1));
}

/* ---- lanes ---- */

static bool nothing_under_way(const struct link *l)
{
    return on_tcp() ? tcp_sent(l) : ofi_link(l)->slot_tail == ofi_link(l)->slot_head;
}

/* Flows and ops are their user's, who may give their memory back before it closes the node, with answers under way. */
static void who_closes_touches_no_flow_and_no_op(void)
{
    static struct {
        struct mem_flow flow;
        struct mem_op read, raise, peek;
        unsigned char out[RING];
    } user, after;
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    struct mem *a = open_node(0);
    region(a);
    struct mem_lane *own = lane_of(a, 0, 1);
    o.far.linger_ns = 100000000; /* time for answers to come */
    struct mem *b = open_with(&o);
    struct mem_lane *out = lane_of(b, 0, 1);
    wait_connected(a, b);
    memset(own->ring, 1, RING);
    mem_flow_open(b, &user.flow, 0, REGION, 0);
    mem_set1(b, &user.flow, out, 0, 7);
    mem_mark(b, &user.flow, 1);
    mem_raise(b, &user.raise, 0, REGION, 3);
    mem_peek(b, &user.peek, 0, REGION);
    mem_read_ring(b, &user.read, out, 0, user.out, RING);
    mem_flush(b);
    memset(&user, 0xa5, sizeof user);
    memset(&after, 0xa5, sizeof after);
    close_polled(b);
    assert_memory_equal(&user, &after, sizeof user);
    assert_int_equal(mem_word(own, 0), 7);
    assert_true(mem_dead(a, 1));
}

static struct mem_lane *lane_of_kind(struct mem *m, uint32_t kind)
{
    struct mem_lane_spec s = {.owner = 0,
                              .writer = 1,
                              .region = REGION,
                              .kind = kind,
                              .ctl_words = WORDS,
                              .ring_bytes = RING};

    return lane_open(m, &s);
}

/* What may be under way over a link, and how much of that is free. */
static uint64_t stage_bytes(const struct link *l)
{
    return on_tcp() ? tcp_link(l)->stage_most : ofi_link(l)->stage_bytes;
}

static uint64_t stage_free(const struct link *l)
{
    const struct tcp_link *t = tcp_link(l);
    const struct ofi_link *o = ofi_link(l);

    return stage_bytes(l) -
           (on_tcp() ? t->stage_head - t->stage_tail : o->stage_head - o->stage_tail);
}

enum { MANY_LANES = 48 };

static struct {
    struct mem *mem;
    struct mem_flow flow;
    struct mem_lane *out[MANY_LANES], *own[MANY_LANES];
    uint64_t pos[MANY_LANES];
    unsigned char is[MANY_LANES][RING]; /* what the rings should be */
    struct rng rng;
} many;

/* Writes to one of the first n lanes, at most so much. */
static uint64_t many_put(uint32_t n, uint64_t most)
{
    static uint64_t data[RING / 8];
    uint32_t i = (uint32_t)rng_below(&many.rng, n), words = 1 + (uint32_t)rng_below(&many.rng, 900);

    words = words * 8 > most ? (uint32_t)(most / 8) : words;
    for (uint32_t w = 0; w < words; w++) {
        data[w] = rng_u64(&many.rng);
        memcpy(many.is[i] + (many.pos[i] + 8 * w) % RING, &data[w], 8);
    }
    mem_put(many.mem, &many.flow, many.out[i], many.pos[i], data, words * 8);
    many.pos[i] += words * 8;
    return words * 8;
}

/* Lanes that are opened one after the other, while the others are in use: the room for what is under way grows
 * with them, wherever in it that stands, and everything arrives, over the connection that was there. */
static void more_lanes_need_no_other_connection(void)
{
    memset(&many, 0, sizeof many);
    rng_init(&many.rng, 7);
    struct mem *a = open_node(0), *b = many.mem = open_node(1);
    struct far *o = (struct far *)b;
    region(a);
    many.own[0] = lane_of_kind(a, 100);
    many.out[0] = lane_of_kind(b, 100);
    wait_connected(a, b);
    const struct link *l = o->peers[0]->link;
    uint64_t id = l->id, before = stage_bytes(l);
    mem_flow_open(b, &many.flow, 0, REGION, 0);
    for (uint32_t n = 1; n <= MANY_LANES; n++) {
        uint64_t some = rng_below(&many.rng, stage_bytes(l) / 2);
        for (uint64_t put = 0; put < some;)
            put += many_put(n, RING);
        if (n < MANY_LANES) {
            many.own[n] = lane_of_kind(a, 100 + n);
            many.out[n] = lane_of_kind(b, 100 + n);
            many_put(n, 8); /* grows, if it can */
        }
        /* Now as much as it has room for, some of which may be left at its end. */
        while (stage_free(l) > 2 * 8 * 900)
            many_put(n, RING);
        mem_mark(b, &many.flow, n);
        WAIT_FOR(many.flow.done == n || many.flow.status != MEM_DONE);
        assert_int_equal(many.flow.status, MEM_DONE);
        WAIT_FOR(far_connected(b, 0));
        for (uint32_t i = 0; i < n; i++)
            assert_memory_equal(many.own[i]->ring, many.is[i], RING);
    }
    assert_true(o->peers[0]->link == l && l->id == id);
    assert_true(stage_bytes(l) >= 4 * before);
}

/* How many more of 2 MiB could be had now. */
static uint64_t huge_pages_free(void)
{
    uint64_t n = 0;
    FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
    if (f && fscanf(f, "%" SCNu64, &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

/* Where there are enough, lanes are in them; where not, the host has others and is told how many are missing. */
static void too_few_huge_pages_are_named(void)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    struct err e = {""};
    struct mem_flow f;

    o.far.huge_pages = true;
    uint64_t before = huge_pages_free();
    struct mem *a = open_with(&o), *b = open_node(1);
    region(a);
    struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(b, 0, 1);
    if (before > 0) {
        assert_int_equal(far_limits_check(a, &e), 0);
        assert_true(huge_pages_free() < before);
    } else {
        assert_int_equal(far_limits_check(a, &e), ERR_SYSTEM);
        expect_says(e.text, "host h0 needs 1 huge pages of 2 MiB, and has got 0");
    }
    wait_connected(a, b);
    mem_flow_open(b, &f, 0, REGION, 0);
    mem_set1(b, &f, out, 0, 42);
    WAIT_FOR(mem_word(own, 0) == 42);
}

/* A writer that is never acknowledged: at some point its flow is LOST, and its connection is not. */
static void too_much_at_once_is_lost(void)
{
    static unsigned char junk[RING];
    struct mem_flow f;
    int rounds = 0;

    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(b, 0, 1);
    wait_connected(a, b);
    mem_flow_open(b, &f, 0, REGION, 0);
    for (; f.status == MEM_DONE && rounds < 100000; rounds++) {
        mem_put(b, &f, out, 0, junk, sizeof junk);
        if (rounds % 2)
            mem_poll(b);
    }
    assert_int_equal(f.status, MEM_LOST);
    assert_true(rounds > 3);
    const struct far *o = (struct far *)b;
    WAIT_FOR(far_connected(b, 0) && nothing_under_way(o->peers[0]->link));
    mem_flow_open(b, &f, 0, REGION, 0);
    mem_set1(b, &f, out, 0, 77);
    mem_mark(b, &f, 1);
    WAIT_FOR(f.done == 1);
    assert_int_equal(mem_word(own, 0), 77);
}

static void sizes_that_differ_are_told_on_both_sides(void)
{
    struct mem_lane_spec mine = {
        .owner = 0, .writer = 1, .region = REGION, .kind = 70, .ctl_words = 4, .ring_bytes = 65536};
    struct mem_lane_spec theirs = mine;
    struct mem_lane *owner_side, *writer_side;
    struct mem_flow f;
    struct err e;
    char said[4096];

    struct mem *a = open_node(0), *b = open_node(1);
    region(a);
    theirs.ring_bytes = 131072;
    wait_connected(a, b);
    struct stderr_capture h = stderr_capture_begin();
    assert_int_equal(mem_lanes_open(a, &mine, 1, &owner_side, &e), 0);
    assert_int_equal(mem_lanes_open(b, &theirs, 1, &writer_side, &e), 0);
    WAIT_FOR(has_said(&h, "ring of 65536 bytes here at h0, 4 words and 131072 bytes at h1"));
    WAIT_FOR(has_said(&h, "ring of 131072 bytes here at h1, 4 words and 65536 bytes at h0"));
    stderr_capture_end(&h, said, sizeof said);
    mem_flow_open(b, &f, 0, REGION, 0);
    mem_set1(b, &f, writer_side, 0, 1);
    assert_int_equal(f.status, MEM_LOST);
    assert_true(far_connected(b, 0));
}

#define CASES(X)                                                                                   \
    X(another_key_is_refused)                                                                      \
    X(a_file_that_differs_is_refused_by_name)                                                      \
    X(an_address_that_is_not_known_stops_nobody_else)                                              \
    X(another_cluster_is_refused)                                                                  \
    X(a_client_is_told_why_it_is_refused)                                                          \
    X(who_has_the_key_may_look)                                                                    \
    X(a_host_listens_on_its_address_alone)                                                         \
    X(who_has_nothing_to_do_sleeps)                                                                \
    X(strangers_do_no_harm)                                                                        \
    X(too_few_huge_pages_are_named)                                                                \
    X(who_closes_touches_no_flow_and_no_op)                                                        \
    X(too_much_at_once_is_lost)                                                                    \
    X(more_lanes_need_no_other_connection)                                                         \
    X(sizes_that_differ_are_told_on_both_sides)
ON_BOTH(CASES)

int main(void)
{
    const struct CMUnitTest cases[] = {CASES(ROWS_ON_BOTH)};
    return cmocka_run_group_tests(cases, NULL, NULL);
}
