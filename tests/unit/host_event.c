/* A descriptor for an event loop, on shared memory: no bell, wake-up or time is missed. */
#include "../shm_fixture.h"

#include "host/event.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { TURNS = 4000 };
#else
enum { TURNS = 20000 };
#endif

#define SECOND_NS UINT64_C(1000000000)
#define LONG_MS 60000

static struct node nodes[2];
static struct event events[2];

static int open_both(void)
{
    struct err e = {""};
    for (unsigned i = 0; i < 2; i++) {
        nodes[i] = host_open(i);
        events[i] = (struct event)EVENT_CLOSED;
        assert_int_equal(event_open(&events[i], nodes[i].mem, &e), 0);
    }
    return !all_connected(nodes, 2);
}

static int begin(void **state)
{
    (void)state;
    fixture_begin();
    return open_both();
}

static pid_t third;

static int third_main(void *unused)
{
    struct node n = host_open(2);
    (void)unused;
    for (;; nap(1000000))
        mem_poll(n.mem);
    return 0;
}

/* With a host in another process, which is started before there are threads. */
static int begin_three(void **state)
{
    (void)state;
    fixture_begin();
    third = spawn(third_main, NULL);
    return open_both() || !wait_connected(&nodes[0], 2);
}

static int end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        mem_close(nodes[i].mem);
        event_close(&events[i]);
    }
    fixture_end();
    return 0;
}

static bool readable(const struct event *v, int timeout_ms)
{
    struct pollfd p = {.fd = v->fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

/* Nothing is to be done, and the descriptor tells when there is; false: there was something. */
static bool rest(unsigned i, uint64_t until_ns)
{
    event_begin(&events[i]);
    mem_poll(nodes[i].mem);
    mem_doze(nodes[i].mem);
    if (mem_poll(nodes[i].mem) > 0) {
        mem_rouse(nodes[i].mem);
        return false;
    }
    return event_arm(&events[i], until_ns);
}

/* As above, however often others connect or tell something meanwhile. */
static void come_to_rest(unsigned i, uint64_t until_ns)
{
    do
        while (!rest(i, until_ns))
            ;
    while (readable(&events[i], 50));
}

static void event__is_readable_at_first(void **state)
{
    (void)state;
    assert_true(readable(&events[0], 0));
    come_to_rest(0, clock_now_ns() + 3600 * SECOND_NS);
    assert_false(readable(&events[0], 0));
}

static void event__a_bell_makes_it_readable_until_it_is_polled(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        come_to_rest(0, clock_now_ns() + 3600 * SECOND_NS);
        mem_bell(nodes[1].mem, 0);
        assert_true(readable(&events[0], LONG_MS));
        assert_true(readable(&events[0], 0)); /* level-triggered */
    }
}

static void event__a_time_makes_it_readable(void **state)
{
    (void)state;
    come_to_rest(0, clock_now_ns() + SECOND_NS / 4);
    assert_true(readable(&events[0], LONG_MS));
    uint64_t until = clock_now_ns() + 3600 * SECOND_NS;
    come_to_rest(0, until); /* the time that is over is forgotten */
    assert_int_equal(events[0].until_ns, until);
}

static void event__a_wake_up_makes_it_readable(void **state)
{
    (void)state;
    come_to_rest(0, clock_now_ns() + 3600 * SECOND_NS);
    event_wake(&events[0]);
    assert_true(readable(&events[0], LONG_MS));
    event_begin(&events[0]);
    event_wake(&events[0]); /* while it is awake: it is not lost */
    mem_doze(nodes[0].mem);
    assert_true(event_arm(&events[0], clock_now_ns() + 3600 * SECOND_NS));
    assert_true(readable(&events[0], LONG_MS));
    come_to_rest(0, clock_now_ns() + 3600 * SECOND_NS);
}

static void event__a_death_makes_it_readable(void **state)
{
    int status;
    (void)state;
    come_to_rest(0, clock_now_ns() + 3600 * SECOND_NS);
    assert_false(mem_dead(nodes[0].mem, 2));
    kill(third, SIGKILL);
    assert_true(readable(&events[0], LONG_MS));
    waitpid(third, &status, 0);
    for (uint64_t until = clock_now_ns() + 60 * SECOND_NS; clock_now_ns() < until;) {
        rest(0, until);
        if (mem_dead(nodes[0].mem, 2))
            break;
    }
    assert_true(mem_dead(nodes[0].mem, 2));
}

/* What a thread that plays ping-pong is told, and what it found. */
struct side {
    unsigned self;
    uint64_t lost, waits;
};

static bool arrived(unsigned self, uint64_t value)
{
    mem_poll(nodes[self].mem);
    return mem_word(nodes[self].lane[self][1 - self], 0) >= value;
}

static void await(struct side *s, uint64_t value)
{
    struct event *v = &events[s->self];
    while (!arrived(s->self, value)) {
        mem_doze(nodes[s->self].mem);
        if (arrived(s->self, value)) {
            mem_rouse(nodes[s->self].mem);
            return;
        }
        uint64_t until = clock_now_ns() + 20 * SECOND_NS;
        if (!event_arm(v, until))
            continue;
        s->waits++;
        readable(v, -1);
        bool late = clock_now_ns() >= until;
        event_begin(v);
        s->lost += late && arrived(s->self, value);
    }
}

static void *play(void *arg)
{
    struct side *s = arg;
    struct mem *m = nodes[s->self].mem;
    struct mem_flow f;
    mem_flow_open(m, &f, 1 - s->self, REGION, 0);
    for (uint64_t turn = 1; turn <= TURNS; turn++) {
        if (s->self == 1)
            await(s, turn);
        mem_set1(m, &f, nodes[s->self].lane[1 - s->self][s->self], 0, turn);
        mem_bell(m, 1 - s->self);
        if (s->self == 0)
            await(s, turn);
    }
    mem_flow_close(m, &f);
    return NULL;
}

/* Two threads hand a number to and fro, and go to rest at once each time. A rest that ends by its time although the
 * number had come has missed the bell. */
static void event__no_bell_is_missed(void **state)
{
    struct side side[2] = {{.self = 0}, {.self = 1}};
    pthread_t thread[2];
    (void)state;
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, play, &side[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(side[0].lost + side[1].lost, 0);
    assert_true(side[0].waits + side[1].waits > TURNS / 100);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(event__is_readable_at_first),
        CASE(event__a_bell_makes_it_readable_until_it_is_polled),
        CASE(event__a_time_makes_it_readable),
        CASE(event__a_wake_up_makes_it_readable),
        cmocka_unit_test_setup_teardown(event__a_death_makes_it_readable, begin_three, end),
        CASE(event__no_bell_is_missed),
    };
    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
