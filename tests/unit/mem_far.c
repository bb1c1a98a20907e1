/* What the libfabric backend has beyond the contract (mem_contract.c): who may connect, lives, places, links
 * that take nothing, and traps of the provider. All nodes are in this thread, over tcp on 127.0.0.1. */
#include "../far_fixture.h"
#include "../stderr_capture.h"
#include "base/rng.h"
#include "base/say.h"
#include "mem/ofi/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

enum { REGION = 7, WORDS = 16, RING = 65536, ALL = 16 };

static struct far_fixture fixture;
static struct mem *open_nodes[ALL];
static unsigned opened;

static int setup(void **state)
{
    (void)state;
    opened = 0;
    far_fixture_begin(&fixture);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    while (opened > 0)
        if (open_nodes[--opened])
            mem_close(open_nodes[opened]);
    far_fixture_end(&fixture);
    return 0;
}

static struct mem *keep(struct mem *m)
{
    unsigned i = 0;

    while (i < opened && open_nodes[i])
        i++;
    assert_true(i < ALL);
    open_nodes[i] = m;
    opened = i < opened ? opened : i + 1;
    return m;
}

static void close_now(struct mem *m)
{
    for (unsigned i = 0; i < opened; i++)
        if (open_nodes[i] == m)
            open_nodes[i] = NULL;
    mem_close(m);
}

static struct mem *open_with(const struct ofi_options *o)
{
    struct err e = {""};
    struct mem *m;

    if (far_fixture_open_node(&fixture, o, &m, &e) < 0)
        fail_msg("open node %u: %s", o->far.self, e.text);
    return keep(m);
}

static struct mem *open_node(uint32_t self)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, self, hosts);

    return open_with(&o);
}

static void poll_all(void)
{
    for (unsigned i = 0; i < opened; i++)
        if (open_nodes[i])
            mem_poll(open_nodes[i]);
}

static void poll_for(uint64_t ms)
{
    for (uint64_t until = clock_now_ns() + ms * 1000000; clock_now_ns() < until;)
        poll_all();
}

/* Polls everybody until it is so, for at most ten seconds. */
#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        uint64_t until_ = clock_now_ns() + 10000000000u;                                           \
        while (!(condition) && clock_now_ns() < until_)                                            \
            poll_all();                                                                            \
        assert_true(condition);                                                                    \
    } while (0)

static void wait_connected(struct mem *a, struct mem *b)
{
    WAIT_FOR(far_connected(a, b->self) && far_connected(b, a->self));
}

static bool has_said(const struct stderr_capture *h, const char *what)
{
    static char said[16384];

    stderr_capture_text(h, said, sizeof said);
    return strstr(said, what) != NULL;
}

static struct mem_lane *lane_of(struct mem *m, uint32_t owner, uint32_t writer)
{
    struct mem_lane_spec s = {.owner = owner,
                              .writer = writer,
                              .region = REGION,
                              .kind = 1,
                              .ctl_words = WORDS,
                              .ring_bytes = RING};
    struct mem_lane *l;
    struct err e = {""};

    if (mem_lanes_open(m, &s, 1, &l, &e) < 0)
        fail_msg("%s", e.text);
    return l;
}

static void region(struct mem *m)
{
    enum mem_birth birth;
    struct err e;

    assert_int_equal(mem_region_open(m, REGION, &birth, &e), 0);
}

static void expect_says(const char *text, const char *says)
{
    if (!strstr(text, says))
        fail_msg("\"%s\" does not say \"%s\"", text, says);
}

/* ---- who may connect ---- */

/* Two hosts that differ in something: they never connect, and both say why. */
static void expect_apart(const struct ofi_options *other, const char *reason)
{
    char said[4096], here[128], there[128];
    struct stderr_capture h = stderr_capture_begin();
    struct mem *a = open_node(0), *b = open_with(other);

    snprintf(here, sizeof here, "h0: a connection from 127.0.0.1 was refused: %s", reason);
    snprintf(there, sizeof there, "it refuses us: %s", reason);
    WAIT_FOR(has_said(&h, here) && has_said(&h, there));
    poll_for(50);
    stderr_capture_end(&h, said, sizeof said);
    assert_false(far_connected(a, 1));
    assert_false(far_connected(b, 0));
}

static void ofi__another_key_is_refused(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    (void)state;
    o.key = (const unsigned char *)"another key for tests, 32 bytes.";
    expect_apart(&o, "wrong cluster key");
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
static void ofi__a_file_that_differs_is_refused_by_name(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    struct far_fact facts[2];
    struct err e = {""};
    struct mem *c;
    char said[4096];

    (void)state;
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
    assert_int_equal(far_fixture_open_node(&fixture, &o, &c, &e), ERR_REFUSED);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(e.text, "log_bytes is 262144 there and 131072 here");
    /* And with the same it is let in. */
    facts_of(&o, facts, "262144");
    if (far_fixture_open_node(&fixture, &o, &c, &e) < 0)
        fail_msg("%s", e.text);
    mem_close(c);
    kill(kid, SIGKILL);
    waitpid(kid, NULL, 0);
}

/* The others connect, and so do clients. */
static void ofi__an_address_that_is_not_known_stops_nobody_else(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    (void)state;
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

static void ofi__another_cluster_is_refused(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);

    (void)state;
    o.far.cluster = "tset";
    expect_apart(&o, "wrong cluster");
}

/* A client hears why nobody takes it. */
static void ofi__a_client_is_told_why_it_is_refused(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, FAR_ANY, hosts);
    struct err e = {""};
    struct mem *m;
    char said[4096];
    int status;

    (void)state;
    open_node(0);
    struct stderr_capture h = stderr_capture_begin();
    pid_t host = fork();
    if (host == 0) { /* someone has to poll while we open */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            poll_all();
    }
    o.far.timeout_ns = 700000000;
    o.key = (const unsigned char *)"another key for tests, 32 bytes.";
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_REFUSED);
    expect_says(e.text, "wrong cluster key");
    kill(host, SIGKILL);
    waitpid(host, &status, 0);
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
static void ofi__who_has_the_key_may_look(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, FAR_ANY, hosts);
    struct err e = {""};
    struct mem *m;
    char said[4096];
    int status;

    (void)state;
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
    o.key = (const unsigned char *)"another key for tests, 32 bytes.";
    memset(shown, 0, sizeof shown);
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), 0);
    far_look(m, 60000000000u, look_at_all, on_shown, NULL);
    assert_false(shown[0] || shown[1]);
    mem_close(m);
    kill(kid, SIGKILL);
    waitpid(kid, &status, 0);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(said, "wrong cluster key");
}

static int raw_connect(const char *address, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, address, &a.sin_addr);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static void ofi__a_host_listens_on_its_address_alone(void **state)
{
    (void)state;
    open_node(0);
    int fd = raw_connect("127.0.0.1", fixture.port[0]);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(raw_connect("127.0.0.2", fixture.port[0]), -1);
    assert_int_equal(errno, ECONNREFUSED);
}

/* An event of a connection must not keep everybody awake for ever after. */
static void ofi__who_has_nothing_to_do_sleeps(void **state)
{
    (void)state;
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
static void ofi__strangers_do_no_harm(void **state)
{
    unsigned char noise[600];
    int fd[40];

    (void)state;
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

/* A connect request of the provider that is well-formed but for our part of it. */
static void ofi__a_hello_that_is_none_is_refused(void **state)
{
    char said[4096];

    (void)state;
    struct far *a = (struct far *)open_node(0), *b = (struct far *)open_node(1);
    struct stderr_capture h = stderr_capture_begin();
    ofi_of(b)->auth.key[0] ^= 1; /* signs wrongly from here on */
    struct link *up = b->peers[0]->link;
    if (up)
        link_close(up, false, "for the test");
    WAIT_FOR(has_said(&h, "wrong cluster key"));
    poll_for(1200);
    stderr_capture_end(&h, said, sizeof said);
    assert_null(a->peers[1]->link);
    /* Once, however often it tries. */
    const char *first = strstr(said, "a connection from 127.0.0.1 was refused");
    assert_non_null(first);
    assert_null(strstr(first + 1, "a connection from 127.0.0.1 was refused"));
}

/* ---- lives ---- */

static void second_state(char *out, size_t room, const char *host, unsigned lives)
{
    char path[128];
    FILE *f;

    snprintf(out, room, "%s-b", fixture.state);
    mkdir(out, 0700);
    snprintf(path, sizeof path, "%s/%s.life", out, host);
    unlink(path);
    if (lives == 0)
        return;
    f = fopen(path, "w");
    fprintf(f, "lives %10u pid %10d\n", lives, 1);
    fclose(f);
}

static void second_state_remove(const char *dir, const char *host)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s.life", dir, host);
    unlink(path);
    rmdir(dir);
}

/* A host whose count of lives was lost comes as one that was there before. It is told so, and its next
 * start is right. */
static void ofi__an_old_life_is_refused_and_learns(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);
    char said[4096], dir[96], path[160], text[64] = "";

    (void)state;
    struct mem *a = open_node(0);
    second_state(dir, sizeof dir, "h1", 5);
    o.far.state = dir;
    struct mem *b = open_with(&o);
    assert_int_equal(b->life, 5);
    wait_connected(a, b);
    close_now(b);
    second_state(dir, sizeof dir, "h1", 0); /* it is lost */
    struct stderr_capture h = stderr_capture_begin();
    b = open_with(&o);
    assert_int_equal(b->life, 0);
    WAIT_FOR(far_failure(b));
    expect_says(far_failure(b), "an old life");
    assert_false(far_connected(a, 1));
    assert_null(far_failure(a));
    close_now(b);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(said, "an old life");
    snprintf(path, sizeof path, "%s/h1.life", dir);
    int fd = open(path, O_RDONLY);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    expect_says(text, "lives          6");
    b = open_with(&o);
    assert_int_equal(b->life, 6);
    wait_connected(a, b);
    close_now(b);
    second_state_remove(dir, "h1");
}

/* Two processes that both say that they are h1, in the same life. */
static void ofi__a_twin_is_refused(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);
    char said[4096], dir[96];

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1);
    wait_connected(a, b);
    second_state(dir, sizeof dir, "h1", 0);
    o.far.state = dir;
    hosts[1].port = far_fixture_port();
    struct stderr_capture h = stderr_capture_begin();
    struct mem *twin = open_with(&o);
    WAIT_FOR(far_failure(twin));
    stderr_capture_end(&h, said, sizeof said);
    expect_says(far_failure(twin), "another process is this node");
    assert_true(far_connected(a, 1));
    assert_null(far_failure(b));
    close_now(twin);
    second_state_remove(dir, "h1");
}

static void ofi__one_process_per_host(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    struct err e = {""};
    struct mem *m;

    (void)state;
    open_node(0);
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_EXISTS); /* the address */
    expect_says(e.text, "in use");
    hosts[0].port = far_fixture_port();
    assert_int_equal(far_fixture_open_node(&fixture, &o, &m, &e), ERR_EXISTS); /* its lives */
    expect_says(e.text, "already running");
}

/* A host that leaves when the other end of `go` is closed; exits with 0 if this is its first life. */
static void leave_with_others(uint32_t self, int ready, int go)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, self, hosts);
    struct err e = {""};
    struct mem *m;
    bool told = false;
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    o.far.linger_ns = 5000000000u;
    if (far_fixture_open_node(&fixture, &o, &m, &e) < 0)
        _exit(2);
    while (read(go, &byte, 1) < 0) {
        bool all = true;
        mem_poll(m);
        for (uint32_t k = 0; k < FAR_FIXTURE_HOSTS; k++)
            all = all && far_connected(m, k);
        if (all && !told)
            told = write(ready, "r", 1) == 1;
    }
    uint32_t lived = m->life;
    mem_close(m);
    _exit(lived == 0 ? 0 : 1);
}

/* If all hosts leave together nothing is left of the cluster, and the next start is its first. */
static void ofi__who_leaves_last_begins_anew(void **state)
{
    int status;
    char byte;

    (void)state;
    for (int life = 0; life < 2; life++) {
        int ready[2], go[2];
        pid_t kid[FAR_FIXTURE_HOSTS];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        assert_int_equal(pipe2(go, O_CLOEXEC | O_NONBLOCK), 0);
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++) {
            kid[i] = fork();
            if (kid[i] == 0) {
                close(go[1]);
                leave_with_others(i, ready[1], go[0]);
            }
        }
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++)
            assert_int_equal(read(ready[0], &byte, 1), 1);
        close(go[1]);
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++) {
            waitpid(kid[i], &status, 0);
            assert_int_equal(status, 0);
        }
        close(ready[0]);
        close(ready[1]);
        close(go[0]);
    }
    /* One of whom nobody has heard has not lived, */
    for (int i = 0; i < 2; i++) {
        struct mem *alone = open_node(1);
        assert_int_equal(alone->life, 0);
        close_now(alone);
    }
    /* and one that leaves alone has. */
    struct mem *a = open_node(0), *b = open_node(1);
    wait_connected(a, b);
    close_now(b);
    WAIT_FOR(mem_dead(a, 1));
    b = open_node(1);
    assert_int_equal(b->life, 1);
    wait_connected(a, b);
    assert_false(mem_dead(a, 1));
}

/* The kernel closes the connections of a process that is killed. */
static void ofi__a_killed_host_is_known_to_be_dead(void **state)
{
    int status;

    (void)state;
    struct mem *a = open_node(0);
    pid_t kid = fork();
    if (kid == 0) {
        struct err e;
        struct mem *m;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open(&fixture, 1, &m, &e) < 0)
            _exit(1);
        for (;;)
            mem_poll(m);
    }
    WAIT_FOR(far_connected(a, 1));
    assert_false(mem_dead(a, 1));
    char said[1024];
    struct stderr_capture h = stderr_capture_begin();
    kill(kid, SIGKILL);
    waitpid(kid, &status, 0);
    WAIT_FOR(mem_dead(a, 1));
    stderr_capture_end(&h, said, sizeof said);

    expect_says(said, "h0: h1 (127.0.0.1:");
    expect_says(said, "the connection has ended");
}

/* A host that comes back is known to all as soon as one of them is connected: nobody waits until it would have tried
 * again by itself. */
static void ofi__who_is_back_is_told_to_others(void **state)
{
    char said[4096];

    (void)state;
    struct mem *a = open_node(0), *b = open_node(1), *c = open_node(2);
    wait_connected(a, b);
    wait_connected(a, c);
    wait_connected(b, c);
    struct peer *missed = ((struct far *)(void *)c)->peers[0];
    struct stderr_capture h = stderr_capture_begin();
    close_now(a);
    WAIT_FOR(mem_dead(b, 0) && !missed->link && !missed->dialing);
    missed->dial_ns = UINT64_MAX;
    a = open_node(0);
    wait_connected(a, b);
    wait_connected(a, c);
    stderr_capture_end(&h, said, sizeof said);
}

/* ---- what lands ---- */

/* A process that is not the host any more, with much under way: from the moment that the host's next life
 * is connected, nothing of it lands. Closing its registration alone would not stop it. */
static void ofi__a_new_life_shuts_the_old_one_out(void **state)
{
    static unsigned char before[RING], junk[RING / 2];
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 1, hosts);
    char said[4096], dir[96];
    int late = 0;

    (void)state;
    for (int round = 1; round <= 20; round++) {
        struct mem *a = open_node(0), *old = open_node(1);
        struct mem_flow f;
        region(a);
        region(old);
        struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(old, 0, 1);
        wait_connected(a, old);
        second_state(dir, sizeof dir, "h1", old->life + 1);
        o.far.state = dir;
        hosts[1].port = far_fixture_port();
        struct stderr_capture h = stderr_capture_begin();
        struct mem *young = open_with(&o);
        assert_int_equal(young->life, old->life + 1);
        region(young);
        lane_of(young, 0, 1);
        /* The old one writes all the time. */
        for (uint64_t k = 1, until = clock_now_ns() + 5000000000u;
             young->self && !(far_connected(a, 1) && far_connected(young, 0)) &&
             clock_now_ns() < until;
             k++) {
            memset(junk, (int)k, sizeof junk);
            mem_flow_open(old, &f, 0, REGION, 0);
            mem_put(old, &f, out, k * sizeof junk, junk, sizeof junk);
            mem_poll(old);
            mem_poll(young);
            mem_poll(a);
        }
        assert_true(far_connected(a, 1) && far_connected(young, 0));
        memcpy(before, own->ring, RING);
        for (int n = 0; n < 200; n++) {
            mem_flow_open(old, &f, 0, REGION, 0);
            memset(junk, 0xee, sizeof junk);
            mem_put(old, &f, out, 0, junk, sizeof junk);
            poll_all();
        }
        late += memcmp(before, own->ring, RING) != 0;
        close_now(young);
        close_now(old);
        close_now(a);
        stderr_capture_end(&h, said, sizeof said);
        second_state_remove(dir, "h1");
        /* A host with two files is more than the next round could make sense of. */
        far_fixture_forget(&fixture);
    }
    assert_int_equal(late, 0);
}

/* Writes to a node that does not poll, until nothing goes any more. */
static void fill_up(struct mem *m, uint32_t to, struct mem_lane *lane, bool even)
{
    static unsigned char junk[RING];
    struct mem_flow f;
    uint32_t n = 0;

    for (int lost = 0; lost < 20;) {
        mem_flow_open(m, &f, to, REGION, 0);
        /* Pieces of one size fill the stage to the last byte, others do not. */
        mem_put(m, &f, lane, 0, junk, even ? RING / 2 : RING / 2 - 8 * (n++ * 7919 % 1000));
        mem_poll(m);
        lost = f.status == MEM_LOST ? lost + 1 : 0;
    }
}

/* The old leader is stopped, and its socket is full: a raise cannot tell it. Its way in is closed before
 * the raise is answered, and what it had under way never counts. With or without room in our own queue
 * for the message to it. */
static bool raise_past_a_stuck_leader(bool even)
{
    struct mem_op op;
    struct mem_flow f;
    char said[4096];

    struct mem *a = open_node(0), *leader = open_node(1), *c = open_node(2);
    struct far *o = (struct far *)a;
    region(a);
    region(leader);
    region(c);
    struct mem_lane *own = lane_of(a, 0, 1), *out = lane_of(leader, 0, 1);
    struct mem_lane *reverse = lane_of(a, 1, 0);
    lane_of(leader, 1, 0);
    lane_of(a, 0, 2);
    struct mem_lane *read_by_c = lane_of(c, 0, 1);
    lane_of(c, 0, 2);
    wait_connected(a, leader);
    wait_connected(a, c);
    if (mem_promised(a, REGION) == MEM_CLOSED)
        mem_region_grant(a, REGION, 1);
    mem_raise(leader, &op, 0, REGION, 4);
    while (op.status == MEM_PENDING)
        poll_all();
    assert_int_equal(op.status, MEM_DONE);
    mem_flow_open(leader, &f, 0, REGION, 4);
    mem_set1(leader, &f, out, 0, 1);
    mem_mark(leader, &f, 1);
    while (f.status == MEM_DONE && f.done < 1)
        poll_all();
    assert_int_equal(f.done, 1);

    fill_up(a, 1, reverse, even); /* the leader does not poll any more */
    const struct ofi_link *stuck = ofi_link(o->peers[1]->link);
    assert_non_null(stuck);
    bool room = stuck->stage_bytes - (stuck->stage_head - stuck->stage_tail) >= 64;
    mem_set1(leader, &f, out, 0, 2); /* on its way already */
    mem_mark(leader, &f, 2);
    struct stderr_capture h = stderr_capture_begin();
    mem_raise(c, &op, 0, REGION, 5);
    uint64_t word = 0;
    for (uint64_t until = clock_now_ns() + 5000000000u;
         op.status == MEM_PENDING && clock_now_ns() < until;) {
        mem_poll(a);
        mem_poll(c);
    }
    assert_int_equal(op.status, MEM_DONE);
    assert_null(o->peers[1]->link);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(said, "it takes nothing, and has to be told of another promise");
    mem_read_ctl(c, &op, read_by_c, 0, 1, &word);
    for (uint64_t until = clock_now_ns() + 5000000000u;
         op.status == MEM_PENDING && clock_now_ns() < until;) {
        mem_poll(a);
        mem_poll(c);
    }
    assert_int_equal(op.status, MEM_DONE);
    /* Now the old leader goes on. */
    h = stderr_capture_begin();
    WAIT_FOR(f.status != MEM_DONE);
    stderr_capture_end(&h, said, sizeof said);
    assert_int_equal(f.done, 1);
    assert_int_not_equal(f.status, MEM_DONE);
    assert_int_equal(word, 1);
    assert_int_equal(mem_word(own, 0), 1);
    close_now(c);
    close_now(leader);
    close_now(a);
    return room;
}

static void ofi__a_raise_shuts_out_whom_it_cannot_tell(void **state)
{
    int with = 0, without = 0;

    (void)state;
    for (int i = 0; i < 20 && !(with && without); i++) {
        bool room = raise_past_a_stuck_leader(i % 2);
        with += room;
        without += !room;
    }
    assert_true(with > 0 && without > 0);
}

static struct mem_lane *lane_of_kind(struct mem *m, uint32_t kind)
{
    struct mem_lane_spec s = {.owner = 0,
                              .writer = 1,
                              .region = REGION,
                              .kind = kind,
                              .ctl_words = WORDS,
                              .ring_bytes = RING};
    struct mem_lane *l;
    struct err e = {""};

    assert_int_equal(mem_lanes_open(m, &s, 1, &l, &e), 0);
    return l;
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
static void ofi__more_lanes_need_no_other_connection(void **state)
{
    (void)state;
    memset(&many, 0, sizeof many);
    rng_init(&many.rng, 7);
    struct mem *a = open_node(0), *b = many.mem = open_node(1);
    struct far *o = (struct far *)b;
    region(a);
    many.own[0] = lane_of_kind(a, 100);
    many.out[0] = lane_of_kind(b, 100);
    wait_connected(a, b);
    const struct ofi_link *l = ofi_link(o->peers[0]->link);
    uint64_t id = l->link.id, before = l->stage_bytes;
    mem_flow_open(b, &many.flow, 0, REGION, 0);
    for (uint32_t n = 1; n <= MANY_LANES; n++) {
        uint64_t some = rng_below(&many.rng, l->stage_bytes / 2);
        for (uint64_t put = 0; put < some;)
            put += many_put(n, RING);
        if (n < MANY_LANES) {
            many.own[n] = lane_of_kind(a, 100 + n);
            many.out[n] = lane_of_kind(b, 100 + n);
            many_put(n, 8); /* grows, if it can */
        }
        /* Now as much as it has room for, some of which may be left at its end. */
        while (l->stage_bytes - (l->stage_head - l->stage_tail) > 2 * 8 * 900)
            many_put(n, RING);
        mem_mark(b, &many.flow, n);
        WAIT_FOR(many.flow.done == n || many.flow.status != MEM_DONE);
        assert_int_equal(many.flow.status, MEM_DONE);
        WAIT_FOR(far_connected(b, 0));
        for (uint32_t i = 0; i < n; i++)
            assert_memory_equal(many.own[i]->ring, many.is[i], RING);
    }
    assert_true(o->peers[0]->link == &l->link && l->link.id == id);
    assert_true(l->stage_bytes >= 4 * before);
}

/* What would be locked is counted, and a limit below it is named; where nothing is locked, as on tcp, there is
 * none. */
static void ofi__too_little_locked_memory_is_named(void **state)
{
    struct rlimit before, little = {.rlim_cur = 65536, .rlim_max = RLIM_INFINITY};
    struct err e = {""};
    int status;

    (void)state;
    pid_t kid = fork();
    if (kid == 0) {
        struct mem *a = open_node(0);
        struct far *o = (struct far *)a;
        region(a);
        uint64_t limit, none = ofi_locked_bytes(o, &limit);
        lane_of(a, 0, 1);
        bool ok = ofi_locked_bytes(o, &limit) >= none + 2 * RING;
        getrlimit(RLIMIT_MEMLOCK, &before);
        little.rlim_max = before.rlim_max;
        ok = ok && setrlimit(RLIMIT_MEMLOCK, &little) == 0;
        /* Without the right of root to lock what it wants. */
        ok = ok && (geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
        ok = ok && far_limits_check(a, &e) == 0;
        ofi_of(o)->net.local = true;
        ok = ok && far_limits_check(a, &e) == ERR_SYSTEM && strstr(e.text, "ulimit -l") &&
             strstr(e.text, "may lock 64;");
        _exit(ok ? 0 : 1);
    }
    waitpid(kid, &status, 0);
    assert_int_equal(status, 0);
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
static void ofi__too_few_huge_pages_are_named(void **state)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 0, hosts);
    struct err e = {""};
    struct mem_flow f;

    (void)state;
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
static void ofi__too_much_at_once_is_lost(void **state)
{
    static unsigned char junk[RING];
    struct mem_flow f;
    int rounds = 0;

    (void)state;
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
    WAIT_FOR(far_connected(b, 0) && ofi_link(((struct far *)b)->peers[0]->link)->slot_tail ==
                                        ofi_link(((struct far *)b)->peers[0]->link)->slot_head);
    mem_flow_open(b, &f, 0, REGION, 0);
    mem_set1(b, &f, out, 0, 77);
    mem_mark(b, &f, 1);
    WAIT_FOR(f.done == 1);
    assert_int_equal(mem_word(own, 0), 77);
}

static void ofi__sizes_that_differ_are_told_on_both_sides(void **state)
{
    struct mem_lane_spec mine = {
        .owner = 0, .writer = 1, .region = REGION, .kind = 70, .ctl_words = 4, .ring_bytes = 65536};
    struct mem_lane_spec theirs = mine;
    struct mem_lane *owner_side, *writer_side;
    struct mem_flow f;
    struct err e;
    char said[4096];

    (void)state;
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

/* ---- clients ---- */

/* Hosts in a process of their own, until the test ends. */
static pid_t hosts_start(unsigned count)
{
    pid_t kid = fork();

    if (kid)
        return kid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t i = 0; i < count; i++)
        open_node(i);
    for (;;)
        poll_all();
}

static void hosts_stop(pid_t kid)
{
    int status;

    kill(kid, SIGKILL);
    waitpid(kid, &status, 0);
}

static void ofi__clients_get_places_of_their_own(void **state)
{
    struct mem *m[FAR_FIXTURE_CLIENTS];
    bool seen[FAR_FIXTURE_CLIENTS] = {false};
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, FAR_ANY, hosts);
    struct err e = {""};
    struct mem *more;

    (void)state;
    pid_t kid = hosts_start(FAR_FIXTURE_HOSTS);
    for (int i = 0; i < FAR_FIXTURE_CLIENTS; i++) {
        m[i] = open_node(FAR_ANY);
        uint32_t place = m[i]->self - FAR_FIXTURE_HOSTS;
        assert_true(place < FAR_FIXTURE_CLIENTS && !seen[place]);
        seen[place] = true;
    }
    assert_int_equal(far_fixture_open_node(&fixture, &o, &more, &e), ERR_EXISTS);
    expect_says(e.text, "no place for a client is free");
    /* A place of one's choice, if nobody has it; each time it is another life. */
    o.far.self = m[3]->self;
    assert_int_equal(far_fixture_open_node(&fixture, &o, &more, &e), ERR_EXISTS);
    uint32_t life = m[3]->life;
    close_now(m[3]);
    for (int i = 0; i < 5; i++) {
        int rc = ERR_EXISTS;
        for (uint64_t until = clock_now_ns() + 5000000000u;
             rc == ERR_EXISTS && clock_now_ns() < until;) /* its host has to hear that it is free */
            rc = far_fixture_open_node(&fixture, &o, &more, &e);
        assert_int_equal(rc, 0);
        assert_int_equal(more->self, o.far.self);
        assert_true(more->life > life);
        life = more->life;
        mem_close(more);
    }
    hosts_stop(kid);
}

static void ofi__clients_have_lanes_but_no_promises(void **state)
{
    struct mem_flow f, back;
    struct mem_op op;
    struct mem *client = NULL;
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, 3, hosts);

    (void)state;
    struct mem *a = open_node(0);
    region(a);
    /* Opening a client waits for the host, which is in this thread: another opens it. */
    struct mem_lane *in = lane_of(a, 0, 3), *ack = lane_of(a, 3, 0);
    assert_null(in->ctl);
    pid_t kid = fork();
    if (kid == 0) {
        struct err e = {""};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open_node(&fixture, &o, &client, &e) < 0)
            _exit(1);
        region(client);
        struct mem_lane *out = lane_of(client, 0, 3), *reply = lane_of(client, 3, 0);
        uint64_t until = clock_now_ns() + 10000000000u;
        while (!far_connected(client, 0) && clock_now_ns() < until)
            mem_poll(client);
        mem_raise(client, &op, 0, REGION, 5);
        if (op.status != MEM_LOST)
            _exit(2);
        mem_flow_open(client, &f, 0, REGION, 5);
        if (f.status != MEM_LOST)
            _exit(3);
        mem_flow_open(client, &f, 0, REGION, 0);
        mem_set1(client, &f, out, 0, 5);
        mem_mark(client, &f, 1);
        while ((f.done != 1 || mem_word(reply, 0) != 6) && clock_now_ns() < until)
            mem_poll(client);
        mem_close(client);
        _exit(f.done == 1 ? 0 : 4);
    }
    back = (struct mem_flow){.status = MEM_LOST};
    for (uint64_t until = clock_now_ns() + 10000000000u;
         !(back.status == MEM_DONE && back.done == 1) && clock_now_ns() < until;) {
        poll_all();
        if (back.status != MEM_DONE && in->ctl && mem_word(in, 0) == 5) {
            mem_flow_open(a, &back, 3, REGION, 0);
            mem_set1(a, &back, ack, 0, 6);
            mem_mark(a, &back, 1);
            mem_raise(a, &op, 3, REGION, 5);
            assert_int_equal(op.status, MEM_LOST);
        }
    }
    assert_int_equal(back.done, 1);
    int status;
    for (pid_t gone = 0; gone == 0; gone = waitpid(kid, &status, WNOHANG))
        poll_all();
    assert_int_equal(status, 0);
    WAIT_FOR(mem_dead(a, 3));
}

/* A client whose place was given to another meanwhile must not speak for it any more. */
static void ofi__a_place_that_was_taken_over_is_not_shared(void **state)
{
    (void)state;
    struct far *a = (struct far *)open_node(0);
    struct stderr_capture h = stderr_capture_begin();
    char said[4096];
    pid_t kid = fork();
    if (kid == 0) { /* gets life 0, and stays; its host then knows of life 1 */
        struct err e = {""};
        struct mem *m;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open(&fixture, 3, &m, &e) < 0 || m->life != 0)
            _exit(1);
        for (uint64_t until = clock_now_ns() + 10000000000u;
             !far_failure(m) && clock_now_ns() < until;)
            mem_poll(m);
        _exit(far_failure(m) && strstr(far_failure(m), "old life") ? 0 : 2);
    }
    WAIT_FOR(a->peers[3] && a->peers[3]->link);
    a->peers[3]->lives = 2; /* as if another had taken it over while this one was out of reach */
    link_close(a->peers[3]->link, false, "for the test");
    int status;
    for (pid_t gone = 0; gone == 0; gone = waitpid(kid, &status, WNOHANG))
        poll_all();
    stderr_capture_end(&h, said, sizeof said);
    assert_int_equal(status, 0);
}

/* A client that meets a host for the first time after the cluster has begun anew: the lives of places began anew, too,
 * so only what its place came with tells that it is from before. */
static void ofi__a_client_from_before_is_refused_by_whom_it_never_met(void **state)
{
    int ready[2];
    char byte, said[4096];

    (void)state;
    assert_int_equal(pipe2(ready, O_CLOEXEC | O_NONBLOCK), 0);
    struct stderr_capture h = stderr_capture_begin();
    pid_t kid = fork(); /* before there is a listening socket that it would keep */
    if (kid == 0) {
        struct err e = {""};
        struct mem *m;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (far_fixture_open(&fixture, 3, &m, &e) < 0)
            _exit(1);
        while (((struct far *)m)->first[1] == ROLL_NEVER) /* until the hosts have met */
            mem_poll(m);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        while (far_connected(m, 0)) /* until the cluster ends */
            mem_poll(m);
        region(m);
        lane_of(m, 1, 3);
        for (uint64_t until = clock_now_ns() + 10000000000u;
             !far_failure(m) && clock_now_ns() < until;)
            mem_poll(m);
        _exit(far_failure(m) && strstr(far_failure(m), "h1 refuses us in life 0: an old life") ? 0
                                                                                               : 2);
    }
    struct mem *a = open_node(0), *b = open_node(1);
    bool placed = false;
    wait_connected(a, b);
    WAIT_FOR(placed || (placed = read(ready[0], &byte, 1) == 1));
    close_now(b);
    close_now(a);
    far_fixture_forget(&fixture);
    b = open_node(1);
    region(b);
    lane_of(b, 1, 3);
    int status;
    for (pid_t gone = 0; gone == 0; gone = waitpid(kid, &status, WNOHANG))
        poll_all();
    stderr_capture_end(&h, said, sizeof said);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(status, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(ofi__another_key_is_refused),
        CASE(ofi__a_file_that_differs_is_refused_by_name),
        CASE(ofi__an_address_that_is_not_known_stops_nobody_else),
        CASE(ofi__another_cluster_is_refused),
        CASE(ofi__a_client_is_told_why_it_is_refused),
        CASE(ofi__who_has_the_key_may_look),
        CASE(ofi__a_host_listens_on_its_address_alone),
        CASE(ofi__who_has_nothing_to_do_sleeps),
        CASE(ofi__strangers_do_no_harm),
        CASE(ofi__a_hello_that_is_none_is_refused),
        CASE(ofi__an_old_life_is_refused_and_learns),
        CASE(ofi__a_twin_is_refused),
        CASE(ofi__one_process_per_host),
        CASE(ofi__who_leaves_last_begins_anew),
        CASE(ofi__a_killed_host_is_known_to_be_dead),
        CASE(ofi__who_is_back_is_told_to_others),
        CASE(ofi__a_new_life_shuts_the_old_one_out),
        CASE(ofi__a_raise_shuts_out_whom_it_cannot_tell),
        CASE(ofi__too_little_locked_memory_is_named),
        CASE(ofi__too_few_huge_pages_are_named),
        CASE(ofi__too_much_at_once_is_lost),
        CASE(ofi__more_lanes_need_no_other_connection),
        CASE(ofi__sizes_that_differ_are_told_on_both_sides),
        CASE(ofi__clients_get_places_of_their_own),
        CASE(ofi__clients_have_lanes_but_no_promises),
        CASE(ofi__a_place_that_was_taken_over_is_not_shared),
        CASE(ofi__a_client_from_before_is_refused_by_whom_it_never_met),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
