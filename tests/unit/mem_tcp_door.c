/* Who gets through the door of the TCP transport: keys and what they allow, keys that change, strangers in number,
 * descriptors that run out, addresses. */
#include "mem/tcp/impl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../far_nodes.h"
#include "../skip.h"
#include "../tcp_peer.h"
#include "../tls_fixture.h"

enum { CLIENT = FAR_FIXTURE_HOSTS };

static struct tcp_peer peer; /* large, so not on a stack */

static struct tcp_link *link_to(struct mem *m, uint32_t node)
{
    const struct peer *p = peer_at(far_of(m), node);

    assert_non_null(p);
    assert_non_null(p->link);
    return tcp_link(p->link);
}

static struct tls *tls_as(uint32_t node)
{
    return far_fixture_tls(&fixture, node, fixture.key);
}

/* ---- hellos: what a key allows ---- */

struct hello_case {
    const char *what;
    uint32_t key; /* of that node */
    uint32_t from, to;
    uint16_t words; /* 0: all */
    uint16_t version;
    uint32_t magic;
    bool other_cluster;
    enum far_reason reason;
};

static const struct hello_case hellos[] = {
    {"a client's key for a host", CLIENT, 1, 0, .reason = FAR_REASON_NODE},
    {"a client's key for the host itself", CLIENT, 0, 0, .reason = FAR_REASON_NODE},
    {"a host's key for another host", 2, 1, 0, .reason = FAR_REASON_NODE},
    {"a host's key for a client", 1, CLIENT, 0, .reason = FAR_REASON_NODE},
    {"a host's key for a client without a place", 1, FAR_ANY, 0, .reason = FAR_REASON_NODE},
    {"the host's own key", 0, 0, 0, .reason = FAR_REASON_NODE},
    {"a place that there is not", CLIENT, CLIENT + FAR_FIXTURE_CLIENTS, 0,
     .reason = FAR_REASON_NODE},
    {"meant for another", 1, 1, 2, .reason = FAR_REASON_NODE},
    {"another cluster", 1, 1, 0, .other_cluster = true, .reason = FAR_REASON_CLUSTER},
    {"another version", 1, 1, 0, .version = TCP_VERSION + 1, .reason = FAR_REASON_VERSION},
    {"another language", 1, 1, 0, .magic = 0x12345678, .reason = FAR_REASON_MALFORMED},
    {"a short one", 1, 1, 0, .words = 3, .reason = FAR_REASON_MALFORMED},
    {"an empty one", 1, 1, 0, .words = 1, .reason = FAR_REASON_MALFORMED},
};

static void say_hello(const struct tcp *node, const struct hello_case *c)
{
    const struct tcp_hello h = {.magic = c->magic ? c->magic : TCP_MAGIC,
                                .version = c->version ? c->version : TCP_VERSION,
                                .from = c->from,
                                .to = c->to,
                                .birth = 77,
                                .cluster = node->cluster + c->other_cluster};
    uint16_t words = c->words ? c->words : sizeof h / 8;

    tcp_peer_send(&peer, (struct tcp_frame){.kind = TCP_HELLO, .words = words}, &h);
}

static void peer_connect(struct tls *tls)
{
    int fd = raw_connect("127.0.0.1", fixture.port[0]);

    assert_true(fd >= 0);
    tcp_peer_begin(&peer, fd, tls, false);
    tls_drop(tls);
    assert_true(tcp_peer_shake(&peer));
}

static bool peer_has_refuse(enum far_reason *reason)
{
    const struct tcp_frame *f = tcp_peer_frame(&peer);
    const struct far_refuse *r = (const void *)(peer.in + sizeof *f);

    if (!f)
        return false;
    assert_int_equal(f->kind, TCP_MESSAGE);
    assert_int_equal(r->head.kind, FAR_REFUSE);
    *reason = r->reason;
    return true;
}

static void tcp__a_key_is_good_for_one_node(void **state)
{
    enum far_reason reason;

    (void)state;
    quiet_begin();
    struct tcp *node = (struct tcp *)open_node(0);
    for (size_t i = 0; i < sizeof hellos / sizeof hellos[0]; i++) {
        peer_connect(tls_as(hellos[i].key));
        say_hello(node, &hellos[i]);
        WAIT_FOR(peer_has_refuse(&reason));
        if (reason != hellos[i].reason)
            fail_msg("%s: %s", hellos[i].what, far_reason_text(reason));
        tcp_peer_close(&peer);
    }
    for (uint32_t i = 1; i < FAR_FIXTURE_HOSTS; i++)
        assert_null(node->far.peers[i]->link);
    quiet_end();
}

/* Whoever it is: a hello comes first, and once. */
static void expect_ended(struct mem *m, struct tcp_frame f, const void *words)
{
    uint64_t before = tcp_counts(m).malformed;

    peer_connect(tls_as(1));
    tcp_peer_send(&peer, f, words);
    WAIT_FOR(tcp_peer_frame(&peer) == NULL && peer.over);
    assert_int_equal(tcp_counts(m).malformed, before + 1);
    tcp_peer_close(&peer);
}

static void tcp__a_hello_comes_first(void **state)
{
    const uint64_t words[16] = {0};
    struct far_refuse r = {.head = {.kind = FAR_REFUSE, .count = 1, .bytes = sizeof r},
                           .reason = FAR_REASON_LIFE,
                           .life = 99};

    (void)state;
    quiet_begin();
    struct mem *m = open_node(0);
    for (uint8_t kind = TCP_OPEN; kind <= TCP_KINDS; kind++)
        expect_ended(m, (struct tcp_frame){.kind = kind, .words = 2}, words);
    /* A refusal is heard by who has dialed, and by nobody else. */
    expect_ended(m, (struct tcp_frame){.kind = TCP_MESSAGE, .words = sizeof r / 8}, &r);
    assert_null(far_failure(m));
    quiet_end();
}

/* Nothing is written, read or answered between the hello and the end of the meeting: a client without a place is nobody,
 * and a host may turn out to be an old life. */
static void expect_ended_after_hello(struct mem *m, const struct hello_case *c, uint8_t kind)
{
    const uint64_t words[2] = {1, 1};
    uint64_t before = tcp_counts(m).malformed;

    peer_connect(tls_as(c->key));
    say_hello((struct tcp *)m, c);
    tcp_peer_send(&peer, (struct tcp_frame){.kind = kind, .words = kind == TCP_PEEK ? 0 : 1},
                  words);
    while (!peer.over) { /* its hello and its roll are before that */
        poll_all();
        if (tcp_peer_frame(&peer))
            tcp_peer_drop(&peer);
    }
    assert_int_equal(tcp_counts(m).malformed, before + 1);
    tcp_peer_close(&peer);
}

static void tcp__nothing_is_written_before_they_have_met(void **state)
{
    static const struct hello_case who[] = {
        {"a host", 1, 1, 0, .reason = FAR_WELCOME},
        {"a client", CLIENT, CLIENT, 0, .reason = FAR_WELCOME},
        {"a client without a place", CLIENT, FAR_ANY, 0, .reason = FAR_WELCOME},
    };

    (void)state;
    quiet_begin();
    struct mem *m = open_node(0);
    region(m);
    lane_of(m, 0, 1);
    for (size_t i = 0; i < sizeof who / sizeof who[0]; i++)
        for (uint8_t kind = TCP_OPEN; kind < TCP_KINDS; kind++)
            expect_ended_after_hello(m, &who[i], kind);
    quiet_end();
}

/* ---- who was dialed ---- */

static int listen_as_host(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    at.sin_port = htons(fixture.port[0]);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 10), 0);
    return fd;
}

/* Somebody who has the key of the host that b dials, and has heard b's hello. */
static void peer_accept(int listener, struct mem *b)
{
    int fd = -1;

    peer_at(far_of(b), 0)->dial_ns = 0;
    WAIT_FOR(fd >= 0 || (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    struct tls *tls = tls_as(0);
    tcp_peer_begin(&peer, fd, tls, true);
    tls_drop(tls);
    assert_true(tcp_peer_shake(&peer));
    WAIT_FOR(tcp_peer_frame(&peer) != NULL);
    assert_int_equal(tcp_peer_frame(&peer)->kind, TCP_HELLO);
    tcp_peer_drop(&peer);
}

/* It says hello first too, and who it is; and may refuse instead. */
static void tcp__who_was_dialed_says_who_it_is(void **state)
{
    const struct hello_case other = {"another host", 0, 2, 1, .reason = FAR_REASON_NODE};
    const struct hello_case right = {"that host", 0, 0, 1, .reason = FAR_WELCOME};
    struct far_refuse r = {.reason = FAR_REASON_LEAVING};
    struct far_fact fact = {"log_bytes", "1"};
    enum far_reason reason;

    (void)state;
    quiet_begin();
    int listener = listen_as_host();
    struct mem *b = open_node(1);
    peer_accept(listener, b);
    say_hello((struct tcp *)b, &other);
    WAIT_FOR(peer_has_refuse(&reason));
    assert_int_equal(reason, FAR_REASON_NODE);
    tcp_peer_close(&peer);

    peer_accept(listener, b);
    tcp_peer_say(&peer, FAR_FACTS, &fact, 1);
    WAIT_FOR(tcp_peer_frame(&peer) == NULL && peer.over);
    assert_int_equal(tcp_counts(b).malformed, 1);
    tcp_peer_close(&peer);

    peer_accept(listener, b);
    tcp_peer_say(&peer, FAR_REFUSE, &r.head + 1, 1);
    WAIT_FOR(has_said(&quiet.capture, "it refuses us: it is about to end"));
    tcp_peer_close(&peer);

    peer_accept(listener, b);
    say_hello((struct tcp *)b, &right);
    WAIT_FOR(tcp_peer_frame(&peer) != NULL); /* its roll: so it has let us in */
    assert_int_equal(tcp_counts(b).malformed, 1);
    tcp_peer_close(&peer);
    close(listener);
    quiet_end();
}

/* ---- keys that change ---- */

struct keys {
    _Atomic(struct tls *) next;
    atomic_int asked;
};

static struct keys keys_of[2];

static struct tls *keys_again(void *ctx, struct err *e)
{
    (void)e;
    struct keys *k = ctx;

    atomic_fetch_add(&k->asked, 1);
    return atomic_exchange(&k->next, NULL);
}

/* From now on; waits until the node has asked again after that. */
static void keys_change(struct keys *k, struct tls *tls)
{
    atomic_store(&k->next, tls);
    WAIT_FOR(atomic_load(&k->next) == NULL);
    int asked = atomic_load(&k->asked);
    WAIT_FOR(atomic_load(&k->asked) > asked);
}

static void keys_close(void *ctx)
{
    (void)ctx;
}

static const struct tcp_keys watched = {.again = keys_again, .close = keys_close};

static struct mem *open_with_keys(uint32_t self, struct tls *tls)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, self, hosts);
    struct tcp_options t = {.far = o.far, .tls = tls, .keys = &watched, .keys_ctx = &keys_of[self]};
    struct err e = {""};
    struct mem *m;

    keys_of[self] = (struct keys){0};
    if (tcp_open_node(&t, &m, &e) < 0)
        fail_msg("%s", e.text);
    tls_drop(tls);
    return keep(m);
}

/* Who knows of host 1 the first of its keys, both, or the second; and is who has the secret of that number. */
enum { FIRST_KEY, BOTH_KEYS, SECOND_KEY };

static struct tls *tls_knowing(int which, uint8_t number)
{
    struct tls_fixture_book book = tls_fixture_book();
    struct tls_identity *one = &book.hosts[1];

    if (which != BOTH_KEYS)
        one->keys = 1;
    if (which == SECOND_KEY)
        memcpy(one->key[0], one->key[1], TLS_KEY_BYTES);
    return tls_fixture_open(&book, number, false);
}

static void write_one(struct mem *b, struct mem_lane *out, const struct mem_lane *own,
                      uint64_t value)
{
    struct mem_flow f;

    mem_flow_open(b, &f, 0, REGION, 0);
    mem_set1(b, &f, out, 0, value);
    mem_mark(b, &f, 1);
    WAIT_FOR(f.done == 1 || f.status != MEM_DONE);
    assert_int_equal(f.status, MEM_DONE);
    assert_int_equal(mem_word(own, 0), value);
    mem_flow_close(b, &f);
}

/* Host 1 gets another key, without a stop: both are good for a while, and when the first is taken back its connection ends
 * and one with the second is made. Who has the first comes no more. */
static void tcp__keys_change_without_a_stop(void **state)
{
    unsigned char secret[TLS_KEY_BYTES], second[TLS_KEY_BYTES];

    (void)state;
    quiet_begin();
    struct mem *a = open_with_keys(0, tls_knowing(FIRST_KEY, 0));
    struct mem *b = open_with_keys(1, tls_knowing(FIRST_KEY, 1));
    region(a);
    struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(b, 0, 1);
    wait_connected(a, b);
    uint64_t id = link_to(a, 1)->link.id;
    write_one(b, out, own, 1);
    keys_change(&keys_of[0], tls_knowing(BOTH_KEYS, 0));
    keys_change(&keys_of[1], tls_knowing(BOTH_KEYS, 11));
    write_one(b, out, own, 2);
    assert_int_equal(link_to(a, 1)->link.id, id);
    assert_int_equal(tcp_counts(a).retired, 0);
    keys_change(&keys_of[0], tls_knowing(SECOND_KEY, 0));
    WAIT_FOR(tcp_counts(a).retired == 1);
    WAIT_FOR(peer_at(far_of(a), 1)->link && link_to(a, 1)->link.id != id);
    wait_connected(a, b);
    write_one(b, out, own, 3);
    tls_fixture_keys(11, secret, second);
    assert_memory_equal(link_to(a, 1)->who.key, second, TLS_KEY_BYTES);
    assert_true(has_said(&quiet.capture, "its key is not in the cluster file any more"));

    struct tls *first = tls_knowing(BOTH_KEYS, 1);
    tcp_peer_begin(&peer, raw_connect("127.0.0.1", fixture.port[0]), first, false);
    tls_drop(first);
    uint64_t strangers = tcp_counts(a).strangers;
    tcp_peer_shake(&peer);
    WAIT_FOR(tcp_counts(a).strangers > strangers);
    poll_for(10);
    tcp_peer_close(&peer);
    quiet_end();
}

/* A handshake that began while the key was good, and ends when it is not any more. */
static void tcp__a_key_that_is_taken_back_meanwhile_is_not_good(void **state)
{
    (void)state;
    quiet_begin();
    struct mem *a = open_with_keys(0, tls_knowing(BOTH_KEYS, 0));
    struct tls *first = tls_knowing(BOTH_KEYS, 1);
    uint64_t met = tcp_counts(a).met;
    tcp_peer_begin(&peer, raw_connect("127.0.0.1", fixture.port[0]), first, false);
    tls_drop(first);
    assert_int_equal(tls_handshake(peer.end), TLS_AGAIN);
    tcp_peer_flush(&peer);
    tcp_peer_hear(&peer, 10000); /* all that the other side says, and no word to it */
    keys_change(&keys_of[0], tls_knowing(SECOND_KEY, 0));
    for (int i = 0; i < 50 && tls_handshake(peer.end) == TLS_AGAIN && !peer.over; i++) {
        tcp_peer_flush(&peer);
        tcp_peer_hear(&peer, 100);
    }
    WAIT_FOR(peer.over || (tcp_peer_frame(&peer) == NULL && peer.over));
    assert_int_equal(tcp_counts(a).met, met);
    tcp_peer_close(&peer);
    quiet_end();
}

/* ---- rogues ---- */

/* Listens where a host that is down should, with whatever key it has. */
static struct door *rogue_open(struct tls *tls, int *wake)
{
    struct far_host h = {.name = "h0", .address = "127.0.0.1", .port = fixture.port[0]};
    struct err e = {""};
    struct door *d;

    *wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct door_options o = {.tls = tls, .listen = &h, .hosts_count = 3, .wake_fd = *wake};
    if (door_open(&o, &d, &e) < 0)
        fail_msg("%s", e.text);
    tls_drop(tls);
    return d;
}

static void expect_nobody(struct tls *tls, const char *why)
{
    char line[256];
    int wake;

    snprintf(line, sizeof line, "h1: h0 (127.0.0.1:%u): %s", fixture.port[0], why);
    struct door *d = rogue_open(tls, &wake);
    struct mem *b = open_node(1);
    WAIT_FOR(has_said(&quiet.capture, line));
    assert_null(peer_at(far_of(b), 0)->link);
    assert_int_equal(tcp_counts(b).met, 0);
    door_close(d);
    close(wake);
    struct mem *a = open_node(0);
    wait_connected(a, b);
    close_now(b);
    close_now(a);
    far_fixture_forget(&fixture);
}

static void tcp__a_rogue_listener_is_nobody(void **state)
{
    (void)state;
    quiet_begin();
    expect_nobody(far_fixture_tls(&fixture, 0, ANOTHER_KEY), "its key is not in the cluster file");
    expect_nobody(tls_as(2), "who listens there has the key of another");
    expect_nobody(tls_as(CLIENT), "who listens there has the key of another");
    quiet_end();
}

/* Somebody listens who knows nothing of TLS, and says something or nothing. */
static void tcp__a_listener_that_is_none_stops_nobody(void **state)
{
    int got = -1;

    (void)state;
    quiet_begin();
    int fd = listen_as_host();
    struct mem *b = open_node(1), *c = open_node(2);
    wait_connected(b, c);
    WAIT_FOR(got >= 0 || (got = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    assert_int_equal(send(got, "220 mail.example\r\n", 18, MSG_NOSIGNAL), 18);
    WAIT_FOR(has_said(&quiet.capture, "what came was changed on the way or is not TLS"));
    close(got);
    assert_true(far_connected(b, 2));
    close(fd);
    struct mem *a = open_node(0);
    wait_connected(a, b);
    wait_connected(a, c);
    quiet_end();
}

/* ---- strangers in number ---- */

static int connect_from(const char *address, uint16_t port)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, address, &from.sin_addr);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static unsigned descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

enum { FROM_ONE = DOOR_PENDING_ADDRESS + 12, FROM_EACH = 100, CROWD = FROM_ONE + 2 * FROM_EACH };

static uint64_t turned_away(struct mem *m)
{
    struct tcp_counts c = tcp_counts(m);

    return c.crowded + c.late;
}

/* Of so many that have come, all of them open here, that many are under way at most. */
static void expect_few(struct mem *m, unsigned came, unsigned most, unsigned before)
{
    WAIT_FOR(tcp_counts(m).accepted == came);
    assert_true(descriptors() - before <= came + most + 2); /* the last may just be about to go */
    WAIT_FOR(turned_away(m) >= came - most);
}

/* More than may be under way, from one address and from all: the oldest go, and who has a key gets in. */
static void tcp__a_crowd_keeps_nobody_out(void **state)
{
    int fd[CROWD];

    (void)state;
    quiet_begin();
    struct mem *a = open_node(0);
    unsigned before = descriptors();
    for (int i = 0; i < CROWD; i++) {
        const char *from = i < FROM_ONE               ? "127.0.0.1"
                           : i < FROM_ONE + FROM_EACH ? "127.0.0.2"
                                                      : "127.0.0.3";
        fd[i] = connect_from(from, fixture.port[0]);
        if (i == FROM_ONE - 1)
            expect_few(a, FROM_ONE, DOOR_PENDING_ADDRESS, before);
    }
    expect_few(a, CROWD, DOOR_PENDING, before);
    WAIT_FOR(is_closed(fd[0]));
    struct mem *b = open_node(1);
    wait_connected(a, b);
    assert_int_equal(tcp_counts(a).strangers, 0);
    WAIT_FOR(has_said(&quiet.capture, "too many connections were begun at once") ||
             tcp_counts(a).late > 0);
    for (int i = 0; i < CROWD; i++)
        close(fd[i]);
    quiet_end();
}

/* One that says nothing is not waited for, though nobody polls. */
static void tcp__who_says_nothing_is_late(void **state)
{
    (void)state;
    quiet_begin();
    struct mem *a = open_node(0);
    int fd = raw_connect("127.0.0.1", fixture.port[0]);
    for (int turns = 0; !is_closed(fd) && turns < 20000; turns++)
        usleep(
            1000); /* not by the clock: a machine may stop for long, and its threads go on one by one */
    assert_true(is_closed(fd));
    assert_int_equal(tcp_counts(a).late, 1);
    WAIT_FOR(has_said(&quiet.capture, "it did not prove who it is in time"));
    close(fd);
    quiet_end();
}

/* ---- descriptors ---- */

static int next_descriptor(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

static void descriptors_at_most(int most)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        _exit(9);
    limit.rlim_cur = (rlim_t)most;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        _exit(9);
}

struct report {
    uint64_t tries, ms;
};

/* A host that runs out of descriptors, and tells how often it tries then. */
static void run_short(int report)
{
    struct report r = {0};
    uint64_t first = 0, since = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct mem *m = open_node(0);
    descriptors_at_most(next_descriptor() + 4);
    if (write(report, &r, sizeof r) != sizeof r)
        _exit(8);
    for (;;) {
        poll_all();
        uint64_t tries = tcp_counts(m).no_room, now = clock_now_ns();
        if (tries > 0 && since == 0) {
            first = tries;
            since = now;
        }
        if (since > 0 && r.ms == 0 && now - since > 500000000u) {
            r = (struct report){.tries = tries - first, .ms = (now - since) / 1000000};
            if (write(report, &r, sizeof r) != sizeof r)
                _exit(8);
        }
    }
}

/* No descriptor is left: it tries again ten times a second, not all the time, and goes on when there are some. */
static void tcp__without_descriptors_it_waits_and_goes_on(void **state)
{
    int fd[12], report[2];
    struct report r;

    (void)state;
    quiet_begin();
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    pid_t kid = fork();
    if (kid == 0)
        run_short(report[1]);
    close(report[1]);
    assert_int_equal(read(report[0], &r, sizeof r), sizeof r); /* it is there */
    for (int i = 0; i < 12; i++)
        fd[i] = raw_connect("127.0.0.1", fixture.port[0]);
    assert_int_equal(read(report[0], &r, sizeof r), sizeof r);
    assert_true(r.tries <= r.ms / 100 + 2);
    for (int i = 0; i < 12; i++)
        close(fd[i]);
    struct mem *b = open_node(1);
    WAIT_FOR(far_connected(b, 0));
    hosts_stop(kid);
    close(report[0]);
    quiet_end();
}

/* A host with some descriptors left, but none for clients. */
static void run_reserved(int report)
{
    int most = next_descriptor() + 60, from = most - DOOR_RESERVED - FAR_FIXTURE_HOSTS;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    descriptors_at_most(most);
    struct mem *m = open_node(0);
    while (next_descriptor() < from)
        if (dup(0) < 0)
            _exit(7);
    struct report ready = {0};
    if (write(report, &ready, sizeof ready) != sizeof ready)
        _exit(8);
    for (bool told = false;; poll_all())
        if (!told && far_connected(m, 1)) {
            struct report r = {.tries = tcp_counts(m).no_room};
            told = write(report, &r, sizeof r) == sizeof r;
        }
}

static void tcp__some_descriptors_are_for_hosts(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, CLIENT, hosts);
    struct report r;
    int report[2];
    struct err e = {""};
    struct mem *m;

    (void)state;
    quiet_begin();
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    pid_t kid = fork();
    if (kid == 0)
        run_reserved(report[1]);
    close(report[1]);
    assert_int_equal(read(report[0], &r, sizeof r), sizeof r); /* it is there */
    o.far.timeout_ns = 1000000000;
    assert_true(far_fixture_open_node(&fixture, &o, &m, &e) < 0);
    struct mem *b = open_node(1);
    WAIT_FOR(far_connected(b, 0));
    assert_int_equal(read(report[0], &r, sizeof r), sizeof r);
    assert_true(r.tries > 0);
    hosts_stop(kid);
    close(report[0]);
    quiet_end();
}

/* ---- addresses ---- */

/* The resolver, with two names more, for a machine may know none, not even its own: one has an address of this machine, the other
 * has one that is not, and one that is. */
int getaddrinfo(const char *restrict name, const char *restrict port,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    typedef int (*resolver)(const char *, const char *, const struct addrinfo *,
                            struct addrinfo **);
    resolver next = (resolver)dlsym(RTLD_NEXT, "getaddrinfo");

    if (name && strcmp(name, "one.example") == 0)
        return next("127.0.0.1", port, hints, out);
    if (!name || strcmp(name, "two.example") != 0)
        return next(name, port, hints, out);
    int rc = next("198.51.100.77", port, hints, out);
    return rc == 0 ? next("127.0.0.1", port, hints, &(*out)->ai_next) : rc;
}

static void expect_meeting_at(const char *address)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);

    for (int i = 0; i < FAR_FIXTURE_HOSTS; i++)
        hosts[i].address = address;
    struct mem *a = open_with(&o);
    o.far.self = 1;
    struct mem *b = open_with(&o);
    wait_connected(a, b);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;

    close(fd);
    return ok;
}

static void tcp__hosts_meet_over_ipv6(void **state)
{
    (void)state;
    if (!has_ipv6())
        SKIP("this machine has no IPv6");
    expect_meeting_at("::1");
}

static void tcp__hosts_meet_by_name(void **state)
{
    (void)state;
    expect_meeting_at("one.example");
}

/* A name with several addresses, as localhost has where IPv6 is off: those that the machine has are listened at. */
static void tcp__a_host_listens_at_the_addresses_it_has(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    struct err e = {""};
    struct mem *m;

    (void)state;
    hosts[0].address = "two.example";
    struct mem *a = open_with(&o);
    struct mem *b = open_node(1);
    wait_connected(a, b);
    close_now(a);
    hosts[0].address = "198.51.100.77";
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_NOTFOUND);
    expect_says(e.text, "this machine does not have the address");
}

/* An address of this machine that is no loopback. */
static bool own_address(char *out, size_t bytes)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (getifaddrs(&all) < 0)
        return false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        const struct sockaddr_in *a = (const void *)i->ifa_addr;
        found = a && a->sin_family == AF_INET && !(i->ifa_flags & IFF_LOOPBACK) &&
                inet_ntop(AF_INET, &a->sin_addr, out, (socklen_t)bytes);
    }
    freeifaddrs(all);
    return found;
}

static void tcp__clear_text_is_for_the_loopback(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    static const char *const beyond[] = {"0.0.0.0", "198.51.100.77", "::"};
    struct err e = {""};
    struct mem *m;

    (void)state;
    fixture.carrier = FAR_FIXTURE_CLEAR;
    for (int i = 0; i < 3; i++) {
        hosts[2].address = beyond[i]; /* whoever of them it is */
        assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_REFUSED);
        expect_says(e.text, "h2");
        expect_says(e.text, "clear text");
    }
    hosts[2].address = "127.0.0.1";
    open_with(&o);
}

/* The same if an address turns out to be another: the connection itself is looked at. */
static void tcp__a_connection_from_beyond_is_not_in_clear_text(void **state)
{
    char address[INET_ADDRSTRLEN];
    struct far_host h = {.name = "h0", .address = "0.0.0.0", .port = fixture.port[0]};
    struct err e = {""};
    struct door *d;

    (void)state;
    if (!own_address(address, sizeof address))
        SKIP("this machine has no address but the loopback's");
    fixture.carrier = FAR_FIXTURE_CLEAR;
    struct tls *one = tls_as(1), *zero = tls_as(0);
    int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct door_options o = {.tls = zero, .listen = &h, .hosts_count = 3, .wake_fd = wake};
    assert_int_equal(door_open(&o, &d, &e), 0);
    const char *from[] = {"127.0.0.1", address};
    for (int i = 0; i < 2; i++) {
        struct arrival *a = NULL;
        tcp_peer_begin(&peer, raw_connect(from[i], fixture.port[0]), one, false);
        tcp_peer_shake(&peer);
        for (uint64_t until = clock_now_ns() + 10000000000u; !a && clock_now_ns() < until;)
            a = door_take(d);
        assert_non_null(a);
        assert_int_equal(a->kind, i == 0 ? DOOR_CAME : DOOR_STRANGER);
        if (i == 1)
            assert_string_equal(a->why, "clear text is for the loopback alone");
        arrival_free(a);
        tcp_peer_close(&peer);
    }
    door_close(d);
    close(wake);
    tls_drop(one);
    tls_drop(zero);
}

/* ---- oneself ---- */

/* A network in which every connection is made from one port. */
static bool one_port(uint16_t port)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    char range[32];
    int n = snprintf(range, sizeof range, "%u %u", port, port);

    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return false;
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
    bool ok = ioctl(s, SIOCSIFFLAGS, &lo) == 0 && write(fd, range, (size_t)n) == n;
    close(s);
    close(fd);
    return ok;
}

enum { MET_NOBODY, NOT_HERE, CONNECTED, TOOK_ITSELF_FOR_A_STRANGER };

static int dial_oneself(void)
{
    if (!one_port(fixture.port[0]))
        return NOT_HERE;
    int fd = raw_connect("127.0.0.1", fixture.port[0]);
    if (fd < 0)
        return NOT_HERE; /* it does not happen */
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* else the port rests */
    close(fd);
    struct mem *b = open_node(1);
    poll_for(300);
    struct tcp_counts c = tcp_counts(b);
    mem_close(b);
    return c.met > 0 ? CONNECTED : c.strangers > 0 ? TOOK_ITSELF_FOR_A_STRANGER : MET_NOBODY;
}

/* Nobody listens at a port of those from which the kernel takes one for who dials: it is connected to itself. That is
 * nobody, and no stranger either. */
static void tcp__who_meets_itself_has_met_nobody(void **state)
{
    int status;

    (void)state;
    pid_t kid = fork();
    if (kid == 0) {
        quiet_begin();
        _exit(dial_oneself());
    }
    waitpid(kid, &status, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_HERE)
        SKIP("no network of its own can be made here");
    assert_int_equal(WEXITSTATUS(status), MET_NOBODY);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, tcp_setup, nodes_teardown)
    const struct CMUnitTest cases[] = {
        CASE(tcp__a_key_is_good_for_one_node),
        CASE(tcp__a_hello_comes_first),
        CASE(tcp__nothing_is_written_before_they_have_met),
        CASE(tcp__who_was_dialed_says_who_it_is),
        CASE(tcp__keys_change_without_a_stop),
        CASE(tcp__a_key_that_is_taken_back_meanwhile_is_not_good),
        CASE(tcp__a_rogue_listener_is_nobody),
        CASE(tcp__a_listener_that_is_none_stops_nobody),
        CASE(tcp__a_crowd_keeps_nobody_out),
        CASE(tcp__who_says_nothing_is_late),
        CASE(tcp__without_descriptors_it_waits_and_goes_on),
        CASE(tcp__some_descriptors_are_for_hosts),
        CASE(tcp__hosts_meet_over_ipv6),
        CASE(tcp__hosts_meet_by_name),
        CASE(tcp__a_host_listens_at_the_addresses_it_has),
        CASE(tcp__clear_text_is_for_the_loopback),
        CASE(tcp__a_connection_from_beyond_is_not_in_clear_text),
        CASE(tcp__who_meets_itself_has_met_nobody),
    };
    return run_with_skips(cases);
}
