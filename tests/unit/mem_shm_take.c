/* Strangers on a node's socket: wrong clusters, wrong names, wrong users, and noise. They must be
 * refused with a reason, or cut off, and the node must go on as if nothing had been. Then one of us that comes
 * at the worst time. */
#include "../shm_raw.h"
#include "../skip.h"

#include "base/rng.h"

#include <linux/sockios.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cmocka.h>

enum {
    FUZZ_CALLS = 4000,
    FUZZ_MESSAGES = 4, /* per call */
    MADE_UP = 50,      /* clients */
};

static struct node host;
static struct stderr_capture quiet;
static char said[1 << 16];

static int setup(void **state)
{
    cluster_setup(state);
    host = host_open(0);
    quiet = stderr_capture_begin();
    return 0;
}

static int teardown(void **state)
{
    stderr_capture_end(&quiet, said, sizeof said);
    shm_close_node(host.mem);
    return cluster_teardown(state);
}

/* Says this hello and returns what the node says against it; "" if it takes it. */
static const char *answer_to(const struct shm_message *hello)
{
    static char text[256];
    struct shm_message m;
    int fd = raw_connect("h0.sock"), got;

    text[0] = 0;
    must(fd >= 0 && raw_send(fd, hello, sizeof *hello, NULL, 0), "hello");
    while (raw_receive(fd, &m, &got)) {
        if (got >= 0)
            close(got);
        if (m.type == SHM_READY) {
            close(fd);
            return "";
        }
        if (m.type == SHM_REFUSE)
            snprintf(text, sizeof text, "%s", m.text);
    }
    close(fd);
    return text[0] ? text : "closed";
}

static void expect_refused(const struct shm_message *hello, const char *says)
{
    const char *text = answer_to(hello);

    if (!strstr(text, says))
        fail_msg("\"%s\" does not say \"%s\"", text, says);
}

static void take__a_right_hello_is_taken(void **state)
{
    struct shm_message m = raw_hello(1, "h1", SHM_HOST);

    (void)state;
    assert_string_equal(answer_to(&m), "");
    m = raw_hello(CLIENT, "c0", SHM_CLIENT);
    raw_lives("c0", 1);
    assert_string_equal(answer_to(&m), "");
}

/* A client says that it is in a life that nobody has counted: it is refused, and the next one in its place comes
 * in the life that is its own. */
static void take__a_client_does_not_choose_its_life(void **state)
{
    struct shm_message m = raw_hello(CLIENT, "c0", SHM_CLIENT);

    (void)state;
    expect_refused(&m, "its lock file says 0 lives");
    raw_lives("c0", 1);
    m.life = 60000;
    expect_refused(&m, "in life 60000; its lock file says 1 lives");
    m.life = UINT32_MAX;
    expect_refused(&m, "its lock file says 1 lives");
    raw_lives("c0", 2);
    m.life = 1;
    assert_string_equal(answer_to(&m), "");
}

static void take__a_wrong_hello_is_refused_with_the_reason(void **state)
{
    struct shm_message m = raw_hello(1, "h1", SHM_HOST);

    (void)state;
    snprintf(m.cluster, sizeof m.cluster, "other");
    expect_refused(&m, "belongs to cluster other, h0 to cluster test");
    m = raw_hello(1, "h1", SHM_HOST);
    m.version = 9;
    expect_refused(&m, "speaks version 9");
    m = raw_hello(1, "h2", SHM_HOST);
    expect_refused(&m, "knows h1 as node 1");
    m = raw_hello(1, "h1", SHM_CLIENT);
    expect_refused(&m, "knows h1 as node 1");
    m = raw_hello(9, "h9", SHM_HOST);
    expect_refused(&m, "knows nobody as node 9");
    m = raw_hello(0, "h0", SHM_HOST);
    expect_refused(&m, "cannot be");
    m = raw_hello(SHM_NODES_MAX, "x", SHM_CLIENT);
    expect_refused(&m, "cannot be");
    m = raw_hello(1, "h1", SHM_HOST);
    m.magic++;
    expect_refused(&m, "closed");
    m = raw_hello(1, "h1", SHM_HOST);
    memset(m.name, 'x', sizeof m.name);
    expect_refused(&m, "closed");
}

static void take__an_earlier_life_is_refused(void **state)
{
    struct shm_message m = raw_hello(1, "h1", SHM_HOST);

    (void)state;
    m.life = 5;
    assert_string_equal(answer_to(&m), "");
    m.life = 4;
    expect_refused(&m, "life 4 after life 5");
}

static int call_as_nobody(void *arg)
{
    struct shm_message m = raw_hello(1, "h1", SHM_HOST);

    if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
        return 2;
    snprintf(arg, 256, "%s", answer_to(&m));
    return 0;
}

static void take__another_user_is_refused(void **state)
{
    char path[256];
    int status;

    (void)state;
    if (geteuid() != 0)
        SKIP("needs root, to become another user");
    char *text = shared_page(256);
    /* Let it through the file modes, which would stop it already, to see the second check. */
    chmod(fixture_dir, 0711);
    fixture_path(path, sizeof path, "");
    chmod(path, 0711);
    fixture_path(path, sizeof path, "h0.sock");
    chmod(path, 0777);
    waitpid(spawn(call_as_nobody, text), &status, 0);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "has uid 65534"));
    munmap(text, 256);
}

static int sealed_memfd(const void *data, size_t bytes, size_t size, int seals)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    must(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd");
    must(pwrite(fd, data, bytes, 0) == (ssize_t)bytes, "pwrite");
    fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

/* A segment of one lane that is right, but for a few words. */
static int spoilt_segment(struct rng *r, uint32_t node)
{
    struct {
        struct segment_head head;
        struct part_head part;
        struct segment_lane lane;
    } g = {
        .head = {.magic = SHM_SEGMENT_MAGIC, .bytes = 12288, .node = node},
        .part = {.bytes = 12288 - sizeof g.head, .lanes = 1},
        .lane = {.spec = fixture_spec(0, node), .ctl_at = 4096, .ring_at = 8192},
    };
    uint32_t *words = (uint32_t *)&g;

    g.lane.spec.ring_bytes = 4096;
    for (uint64_t i = rng_below(r, 3); i > 0; i--)
        words[rng_below(r, sizeof g / 4)] =
            rng_below(r, 2) ? (uint32_t)rng_u64(r) : (uint32_t)rng_below(r, 70000);
    return sealed_memfd(&g, sizeof g, rng_below(r, 8) ? 12288 : 4096 * rng_below(r, 6) + 4096,
                        F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW |
                            (rng_below(r, 8) ? F_SEAL_SEAL : 0));
}

static int some_memfd(struct rng *r, uint32_t node)
{
    uint64_t words[4] = {rng_u64(r), rng_below(r, 5), 0, 0};
    const uint64_t magics[] = {SHM_BELL_MAGIC, SHM_LIFE_MAGIC, SHM_GRANT_MAGIC};
    const size_t sizes[] = {4096, 12288, (sizeof(struct grant) + 4095) / 4096 * 4096};

    switch (rng_below(r, 4)) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        words[0] = magics[rng_below(r, 3)];
        return sealed_memfd(words, sizeof words, sizes[rng_below(r, 3)],
                            rng_below(r, 4) ? F_SEAL_SHRINK | F_SEAL_GROW : 0);
    default:
        return spoilt_segment(r, node);
    }
}

/* One message: noise, or one that is right in most places. */
static bool send_noise(struct rng *r, int fd, uint32_t node)
{
    struct {
        struct shm_message m;
        char more[512];
    } big;
    size_t bytes = sizeof big.m;
    int fds[2], count = 0;

    for (size_t i = 0; i < sizeof big / 8; i++)
        ((uint64_t *)&big)[i] = rng_u64(r);
    if (rng_below(r, 4)) {
        big.m = raw_hello(node, "c1", SHM_CLIENT);
        big.m.type = (uint16_t)rng_range(r, SHM_HELLO, SHM_ENDED + 1);
        big.m.kind = (uint32_t)rng_below(r, ITEM_KINDS + 1);
        big.m.index = (uint32_t)(rng_below(r, 3) ? rng_below(r, 2) : rng_u64(r));
        big.m.parts = (uint32_t)(rng_below(r, 4) ? 1 + rng_below(r, 4) / 3 : rng_u64(r));
        big.m.life = (uint32_t)(rng_below(r, 3) ? 0 : rng_u64(r));
        if (rng_below(r, 3) == 0)
            big.m.node = (uint32_t)(rng_below(r, 2) ? rng_below(r, 5) : rng_u64(r));
        if (rng_below(r, 3) == 0) { /* the message with the most behind it */
            big.m.type = SHM_ITEM;
            big.m.kind = ITEM_SEGMENT;
        }
        count = big.m.type == SHM_ITEM || rng_below(r, 8) == 0;
    } else {
        bytes = rng_below(r, 3) ? rng_below(r, sizeof big) + 1 : sizeof big.m;
        count = (int)rng_below(r, 3);
    }
    for (int i = 0; i < count; i++)
        fds[i] = some_memfd(r, node);
    bool sent = raw_send(fd, &big, bytes, fds, count);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    return sent;
}

/* Lanes of which the made-up clients claim to be the writers. */
static struct mem_lane *claimed[MADE_UP];

static void open_claimed(void)
{
    struct mem_lane_spec specs[MADE_UP];
    struct err e;

    for (uint32_t i = 0; i < MADE_UP; i++) {
        specs[i] = fixture_spec(0, CLIENT + i);
        specs[i].ring_bytes = 4096;
    }
    must(mem_lanes_open(host.mem, specs, MADE_UP, claimed, &e) == 0, "lanes");
}

/* Reads all that was connected: whatever it says, it must be memory. */
static uint64_t read_claimed(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < MADE_UP; i++) {
        const struct mem_lane *l = claimed[i];
        for (uint32_t w = 0; l->ctl && w < l->spec.ctl_words; w++)
            sum += mem_word(l, w);
        for (uint32_t b = 0; l->ring && b < l->spec.ring_bytes; b += 512)
            sum += l->ring[b];
    }
    return sum;
}

static unsigned connected_claimed(void)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < MADE_UP; i++)
        count += claimed[i]->ctl != NULL;
    return count;
}

/* Until the node has read what it was sent, or is busy elsewhere for too long; then a moment for what follows from it. */
static void let_it_take(int fd)
{
    int left = 1;
    for (int i = 0; i < 1000 && ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0; i++)
        sched_yield();
    usleep(100);
}

static void take__noise_harms_nothing(void **state)
{
    struct rng r;
    unsigned before = open_descriptors(), connected = 0;

    (void)state;
    open_claimed();
    rng_init(&r, 20240607);
    for (int i = 0; i < FUZZ_CALLS; i++) {
        uint32_t node = CLIENT + (uint32_t)rng_below(&r, MADE_UP);
        bool as_host = rng_below(&r, 8) == 0;
        char name[16];
        int fd = raw_connect("h0.sock");

        assert_true(fd >= 0);
        snprintf(name, sizeof name, "c%u", node);
        raw_lives(name, 1);
        struct shm_message m =
            as_host ? raw_hello(2, "h2", SHM_HOST) : raw_hello(node, name, SHM_CLIENT);
        if (rng_below(&r, 5))
            raw_send(fd, &m, sizeof m, NULL, 0);
        for (int k = 0; k < FUZZ_MESSAGES; k++) {
            if (!send_noise(&r, fd, as_host ? 2 : node))
                break;
            /* While it is here: what it has given goes with it. */
            let_it_take(fd);
            mem_poll(host.mem);
            read_claimed();
            connected += connected_claimed();
        }
        /* Its end is seen before the next call, so that connections do not pile up. */
        shutdown(fd, SHUT_WR);
        struct pollfd p = {.fd = fd, .events = 0};
        poll(&p, 1, 1000);
        close(fd);
        mem_poll(host.mem);
        read_claimed();
    }
    /* Some of the noise was good enough to be taken, so the checks behind were reached. */
    assert_true(connected > 0);
    /* Somebody decent comes and is served as ever. */
    struct node nodes[2] = {host, host_open(1)};
    assert_true(all_connected(nodes, 2));
    assert_int_equal(raise_to(nodes[1].mem, 0, 3, NULL), MEM_DONE);
    shm_close_node(nodes[1].mem);
    /* Who has gone has left nothing open. */
    unsigned after = open_descriptors();
    print_message("# %u times a lane was connected, %u descriptors more\n", connected,
                  after - before);
    assert_true(after < before + 20);
}

static void take__a_caller_that_says_nothing_does_not_block_others(void **state)
{
    (void)state;
    int silent[20];
    for (int i = 0; i < 20; i++)
        silent[i] = raw_connect("h0.sock");
    struct node nodes[2] = {host, host_open(1)};
    assert_true(all_connected(nodes, 2));
    shm_close_node(nodes[1].mem);
    for (int i = 0; i < 20; i++)
        close(silent[i]);
}

/* ---- a host that restarts, held up where it carries its lanes over ---- */

static struct {
    _Atomic bool reached, passed;
} * hold; /* NULL: nobody is held up */

/* Takes the place of the C library's: the first segment of a host is the only file of this size. */
int fallocate(int fd, int mode, off_t from, off_t bytes)
{
    struct stat st;

    if (hold && fstat(fd, &st) == 0 && st.st_size >= 64 << 20) {
        atomic_store(&hold->reached, true);
        while (!atomic_load(&hold->passed))
            nap(100000);
    }
    return (int)syscall(SYS_fallocate, fd, mode, from, bytes);
}

/* The first part of a life of h1 that has found nothing of what it had written before. */
static void raw_broken_segment(int fd, uint32_t life)
{
    struct {
        struct segment_head head;
        struct part_head part;
        struct segment_lane lane;
    } g = {
        .head = {.magic = SHM_SEGMENT_MAGIC,
                 .bytes = 12288 + RING,
                 .node = 1,
                 .life = life,
                 .broken = life + 1},
        .part = {.bytes = 12288 + RING - sizeof g.head, .lanes = 1},
        .lane = {.spec = fixture_spec(0, 1), .ctl_at = 4096, .ring_at = 8192},
    };
    struct shm_message m = raw_hello(1, "h1", SHM_HOST);
    int memory = sealed_memfd(&g, sizeof g, g.head.bytes,
                              F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);

    m.type = SHM_ITEM;
    m.kind = ITEM_SEGMENT;
    m.life = life;
    m.parts = 1;
    must(raw_send(fd, &m, sizeof m, &memory, 1), "segment");
    close(memory);
}

/* Asks for memory of h2 and takes what comes up to that: all that was sent before has been judged. How many parts of
 * ours were acknowledged until then. */
static uint32_t raw_acknowledged(int fd)
{
    struct shm_message m = raw_hello(2, "h1", SHM_HOST);
    uint32_t parts = 0;
    int got;

    m.type = SHM_FETCH;
    must(raw_send(fd, &m, sizeof m, NULL, 0), "fetch");
    do {
        must(raw_receive(fd, &m, &got), "an answer");
        if (got >= 0)
            close(got);
        if (m.type == SHM_ACK && m.parts > parts)
            parts = m.parts;
    } while (m.type != SHM_ITEM || m.kind != ITEM_SEGMENT || m.node != 2);
    return parts;
}

/* h0 comes back and finds its memory whole, with all that h1 had written to it. While it carries its own lanes over, h1
 * comes back without what it had written: that must not take the place of what counts. */
static void take__what_is_broken_is_refused_from_the_decision_on(void **state)
{
    struct shm_message hello = raw_hello(1, "h1", SHM_HOST);
    uint64_t word = 0;
    int fd;

    (void)state;
    for (unsigned i = 0; i < HOSTS; i++)
        kid_start(&kids[i], i);
    for (unsigned i = 0; i < HOSTS * HOSTS; i++)
        assert_true(kid_connect(&kids[i / HOSTS], i % HOSTS));
    assert_int_equal(kid_set(&kids[1], 0, 2, 42, 0), MEM_DONE);
    kid_kill(&kids[0]);
    kid_kill(&kids[1]);

    kid_stop(&kids[2]); /* nothing is decided before it has answered */
    hold = shared_page(sizeof *hold);
    kids[0].order = shared_page(sizeof *kids[0].order);
    kids[0].pid = spawn(kid_main, &kids[0]);
    while ((fd = raw_connect("h0.sock")) < 0)
        nap(100000);
    hello.life = 1;
    must(raw_send(fd, &hello, sizeof hello, NULL, 0), "hello");
    kid_continue(&kids[2]);
    while (!atomic_load(&hold->reached))
        nap(100000);
    raw_broken_segment(fd, 1);
    raw_acknowledged(fd);
    atomic_store(&hold->passed, true);
    while (!atomic_load(&kids[0].order->open))
        nap(100000);

    assert_int_equal(kids[0].order->birth, MEM_BIRTH_KEPT);
    assert_int_equal(raw_acknowledged(fd), 0);
    assert_int_equal(kid_read(&kids[0], 0, 1, 2, &word), MEM_DONE);
    assert_int_equal(word, 42);
    close(fd);
    munmap(hold, sizeof *hold);
    hold = NULL;
}

static int kids_setup(void **state)
{
    cluster_setup(state);
    quiet = stderr_capture_begin();
    return 0;
}

static int kids_teardown(void **state)
{
    stderr_capture_end(&quiet, said, sizeof said);
    return cluster_teardown(state);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(take__a_right_hello_is_taken),
        CASE(take__a_client_does_not_choose_its_life),
        CASE(take__a_wrong_hello_is_refused_with_the_reason),
        CASE(take__an_earlier_life_is_refused),
        CASE(take__another_user_is_refused),
        CASE(take__noise_harms_nothing),
        CASE(take__a_caller_that_says_nothing_does_not_block_others),
        cmocka_unit_test_setup_teardown(take__what_is_broken_is_refused_from_the_decision_on,
                                        kids_setup, kids_teardown),
    };
    return run_with_skips(cases);
}
