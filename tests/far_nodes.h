/* For tests of one thread with several nodes of a cluster (far_fixture.h): who is open, polling all of them, waiting for
 * what comes about, and cases that run on more than one carrier. To be included after cmocka.h. */
#ifndef TESTS_FAR_NODES_H
#define TESTS_FAR_NODES_H

#include "far_fixture.h"
#include "mem/far/impl.h"
#include "stderr_capture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { REGION = 7, WORDS = 16, RING = 65536, NODES_OPEN_MAX = 32 };

#define ANOTHER_KEY ((const unsigned char *)"another key for tests, 32 bytes.")

static struct far_fixture fixture;
static struct mem *open_nodes[NODES_OPEN_MAX];
static unsigned opened;
static void (*poll_also)(void); /* what else goes on when all are polled; NULL: nothing */

static inline int nodes_setup(enum far_fixture_carrier carrier)
{
    opened = 0;
    poll_also = NULL;
    far_fixture_begin(&fixture);
    fixture.carrier = carrier;
    return 0;
}

/* Log lines that a case expects are kept, and shown if it fails. */
static struct {
    struct stderr_capture capture;
    bool on;
} quiet;

static inline void quiet_begin(void)
{
    quiet.capture = stderr_capture_begin();
    quiet.on = true;
}

static inline void quiet_end(void)
{
    static char said[65536];

    quiet.on = false;
    stderr_capture_end(&quiet.capture, said, sizeof said);
}

static inline int nodes_teardown(void **state)
{
    static char said[65536];

    (void)state;
    if (quiet.on) {
        quiet.on = false;
        stderr_capture_end(&quiet.capture, said, sizeof said);
        fputs(said, stderr);
    }
    while (opened > 0)
        if (open_nodes[--opened])
            mem_close(open_nodes[opened]);
    far_fixture_end(&fixture);
    return 0;
}

static inline bool on_tcp(void)
{
    return fixture.carrier != FAR_FIXTURE_OFI;
}

/* libfabric forgets whoever asks to be connected while a passive endpoint is closed, with its memory. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfabric.so";
}

/* ---- who is open ---- */

static inline struct mem *keep(struct mem *m)
{
    unsigned i = 0;

    while (i < opened && open_nodes[i])
        i++;
    assert_true(i < NODES_OPEN_MAX);
    open_nodes[i] = m;
    opened = i < opened ? opened : i + 1;
    return m;
}

static inline void close_now(struct mem *m)
{
    for (unsigned i = 0; i < opened; i++)
        if (open_nodes[i] == m)
            open_nodes[i] = NULL;
    mem_close(m);
}

static inline struct mem *open_with(const struct ofi_options *o)
{
    struct err e = {""};
    struct mem *m;

    if (far_fixture_open_node(&fixture, o, &m, &e) < 0)
        fail_msg("open node %u: %s", o->far.self, e.text);
    return keep(m);
}

static inline struct mem *open_node(uint32_t self)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, self, hosts);

    return open_with(&o);
}

/* ---- polling ---- */

static inline void poll_all(void)
{
    if (poll_also)
        poll_also();
    for (unsigned i = 0; i < opened; i++)
        if (open_nodes[i])
            mem_poll(open_nodes[i]);
}

static inline void poll_for(uint64_t ms)
{
    for (uint64_t until = clock_now_ns() + ms * 1000000; clock_now_ns() < until;)
        poll_all();
}

/* Polls everybody until it is so, for at most a minute. */
#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        uint64_t until_ = clock_now_ns() + 60000000000u;                                           \
        while (!(condition) && clock_now_ns() < until_)                                            \
            poll_all();                                                                            \
        assert_true(condition);                                                                    \
    } while (0)

static inline void wait_connected(struct mem *a, struct mem *b)
{
    WAIT_FOR(far_connected(a, b->self) && far_connected(b, a->self));
}

/* Polls everybody until that process has ended; its status. */
static inline int wait_for_end(pid_t kid)
{
    int status;

    for (pid_t gone = 0; gone == 0; gone = waitpid(kid, &status, WNOHANG))
        poll_all();
    return status;
}

/* ---- clients in this process ---- */

static atomic_bool client_is_open;

static inline void *poll_until_open(void *unused)
{
    (void)unused;
    while (!atomic_load(&client_is_open))
        poll_all();
    return NULL;
}

/* Opening a client waits for a host: another thread polls the hosts of this one meanwhile. */
static inline struct mem *open_client(uint32_t self)
{
    struct err e = {""};
    struct mem *m = NULL;
    pthread_t thread;

    atomic_store(&client_is_open, false);
    assert_int_equal(pthread_create(&thread, NULL, poll_until_open, NULL), 0);
    int rc = far_fixture_open(&fixture, self, &m, &e);
    atomic_store(&client_is_open, true);
    pthread_join(thread, NULL);
    if (rc < 0)
        fail_msg("open client %u: %s", self, e.text);
    return keep(m);
}

/* Closes one while another thread polls the rest, to which it may have something to say, and they to it. */
static inline void close_polled(struct mem *m)
{
    pthread_t thread;

    for (unsigned i = 0; i < opened; i++)
        if (open_nodes[i] == m)
            open_nodes[i] = NULL;
    atomic_store(&client_is_open, false);
    assert_int_equal(pthread_create(&thread, NULL, poll_until_open, NULL), 0);
    mem_close(m);
    atomic_store(&client_is_open, true);
    pthread_join(thread, NULL);
}

/* ---- processes ---- */

/* Hosts in a process of their own, until the test ends. Before this one has any: who forks has no threads. */
static inline pid_t hosts_start(unsigned count)
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

static inline void hosts_stop(pid_t kid)
{
    int status;

    kill(kid, SIGKILL);
    waitpid(kid, &status, 0);
}

/* ---- what is said ---- */

static inline bool has_said(const struct stderr_capture *h, const char *what)
{
    static char said[65536];

    stderr_capture_text(h, said, sizeof said);
    return strstr(said, what) != NULL;
}

static inline void expect_says(const char *text, const char *says)
{
    if (!strstr(text, says))
        fail_msg("\"%s\" does not say \"%s\"", text, says);
}

/* ---- regions and lanes ---- */

static inline struct mem_lane *lane_open(struct mem *m, const struct mem_lane_spec *s)
{
    struct mem_lane *l;
    struct err e = {""};

    if (mem_lanes_open(m, s, 1, &l, &e) < 0)
        fail_msg("%s", e.text);
    return l;
}

static inline struct mem_lane *lane_of(struct mem *m, uint32_t owner, uint32_t writer)
{
    struct mem_lane_spec s = {.owner = owner,
                              .writer = writer,
                              .region = REGION,
                              .kind = 1,
                              .ctl_words = WORDS,
                              .ring_bytes = RING};

    return lane_open(m, &s);
}

static inline void region(struct mem *m)
{
    enum mem_birth birth;
    struct err e;

    assert_int_equal(mem_region_open(m, REGION, &birth, &e), 0);
}

/* ---- a host with two folders, as if it were two processes ---- */

static inline void second_state(char *out, size_t room, const char *host, unsigned lives)
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

static inline void second_state_remove(const char *dir, const char *host)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s.life", dir, host);
    unlink(path);
    rmdir(dir);
}

/* ---- strangers ---- */

static inline int raw_connect(const char *address, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, address, &a.sin_addr);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

/* ---- the same cases on two carriers ----
 *
 *     #define CASES(X) X(who_is_there_is_seen) ...
 *     ON_BOTH(CASES)
 *     int main(void) { const struct CMUnitTest cases[] = {CASES(ROWS_ON_BOTH)}; ... } */
static inline int ofi_setup(void **state)
{
    (void)state;
    return nodes_setup(FAR_FIXTURE_OFI);
}

static inline int tcp_setup(void **state)
{
    (void)state;
    return nodes_setup(FAR_FIXTURE_TCP);
}

#define RUN_ON(carrier, name)                                                                      \
    static void carrier##__##name(void **state)                                                    \
    {                                                                                              \
        (void)state;                                                                               \
        name();                                                                                    \
    }
#define RUN_ON_BOTH(name) RUN_ON(ofi, name) RUN_ON(tcp, name)
#define ON_BOTH(cases) cases(RUN_ON_BOTH)

#define ROW_ON(carrier, name)                                                                      \
    cmocka_unit_test_setup_teardown(carrier##__##name, carrier##_setup, nodes_teardown),
#define ROWS_ON_BOTH(name) ROW_ON(ofi, name) ROW_ON(tcp, name)

#endif
