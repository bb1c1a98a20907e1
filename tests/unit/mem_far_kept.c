/* Hosts over a network whose lives are kept on a disk (mem/lives.h). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "../far_nodes.h"
#include "../lives_fake.h"

enum { CLIENT = FAR_FIXTURE_HOSTS }; /* place 0, which h0 gives */

static struct lives_fake disk[FAR_FIXTURE_HOSTS];

/* Empty disks. */
static void begin(void)
{
    memset(disk, 0, sizeof disk);
}

static struct mem *open_kept(uint32_t self, uint32_t life)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, self, hosts);

    o.far.lives_max = 1000;
    o.far.lives = lives_fake_begin(&disk[self], life);
    struct mem *m = open_with(&o);
    assert_int_equal(m->life, life);
    return m;
}

static enum mem_birth birth_of(struct mem *m)
{
    enum mem_birth birth;
    struct err e;

    assert_int_equal(mem_region_open(m, REGION, &birth, &e), 0);
    return birth;
}

static struct far *far_node(struct mem *m)
{
    return (struct far *)(void *)m;
}

static void remove_lives(uint32_t host)
{
    char path[128];

    snprintf(path, sizeof path, "%s/h%u.life", fixture.state, host);
    assert_int_equal(unlink(path), 0);
}

static bool has_file(uint32_t host)
{
    char path[128];

    snprintf(path, sizeof path, "%s/h%u.life", fixture.state, host);
    return access(path, F_OK) == 0;
}

/* Nobody has heard of it, and it counts all the same. */
static void a_life_is_not_taken_back(void)
{
    begin();
    close_now(open_kept(0, 0));
    assert_true(has_file(0));
    assert_int_equal(birth_of(open_kept(0, 1)), MEM_BIRTH_LOST);
}

/* All hosts stop, in order and together, and start again, with the files of their lives and without: they have lost their memory,
 * and the cluster is the same. */
static void a_full_stop_is_no_new_beginning(void)
{
    begin();
    for (uint32_t life = 0; life < 3; life++) {
        struct mem *m[FAR_FIXTURE_HOSTS];
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++) {
            m[i] = open_kept(i, life);
            assert_int_equal(birth_of(m[i]), life == 0 ? MEM_BIRTH_NEW : MEM_BIRTH_LOST);
        }
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++)
            wait_connected(m[i], m[(i + 1) % FAR_FIXTURE_HOSTS]);
        poll_for(20);
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++) {
            assert_false(m[i]->anew || m[i]->unsettled);
            assert_int_equal(disk[i].host[(i + 1) % FAR_FIXTURE_HOSTS], life + 1);
            assert_true(mem_promised(m[i], REGION) == (life == 0 ? 0 : MEM_CLOSED));
        }
        mem_region_grant(m[0], REGION, 7);
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++)
            close_now(m[i]);
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS; i++)
            assert_true(has_file(i));
        for (uint32_t i = 0; i < FAR_FIXTURE_HOSTS && life == 1; i++)
            remove_lives(i);
    }
}

/* A disk that is older than what others know is of no use, and whoever has it is told what to do. */
static void an_older_disk_is_refused(void)
{
    char said[8192];

    begin();
    disk[0].host[1] = 5;
    struct mem *a = open_kept(0, 0);
    struct stderr_capture h = stderr_capture_begin();
    struct mem *b = open_kept(1, 3);
    WAIT_FOR(far_failure(b));
    poll_for(20);
    stderr_capture_end(&h, said, sizeof said);
    expect_says(far_failure(b), "tram format --rejoin h1");
    expect_says(said, "must not be used");
    assert_false(far_connected(a, 1));
    assert_null(far_failure(a));
    close_now(b);
    b = open_kept(1, 5);
    wait_connected(a, b);
    assert_int_equal(disk[0].host[1], 6);
}

/* A host is told from another process in the same life, which only an older disk can bring about, also by one that was restarted. */
static void a_life_is_used_once(void)
{
    char said[8192];

    begin();
    struct mem *a = open_kept(0, 0), *b = open_kept(1, 0);
    wait_connected(a, b);
    struct stderr_capture h = stderr_capture_begin();
    close_now(a);
    a = open_kept(0, 1);
    wait_connected(a, b); /* it is the same */
    close_now(a);
    close_now(b);
    a = open_kept(0, 2);
    b = open_kept(1, 0);
    WAIT_FOR(far_failure(b));
    stderr_capture_end(&h, said, sizeof said);
    expect_says(far_failure(b), "tram format --rejoin h1");
}

/* ---- places ---- */

static struct {
    struct mem *giver, *other;
    bool early;  /* somebody has heard of the place before the disk had it */
    bool cut;    /* the other host has to connect again, and is told of all places, */
    bool waited; /* and was, while the client waited */
} watched;

static void watch_the_disk(void)
{
    const struct peer *p = peer_at(far_node(watched.other), CLIENT);
    const struct peer *own = peer_at(far_node(watched.giver), CLIENT);

    bool waits = far_node(watched.giver)->held_back > 0;

    if (!disk[0].stuck)
        return;
    if (waits && !watched.cut)
        mem_drop(watched.other, 0);
    watched.cut |= waits;
    watched.early |= (p && p->given > 0) || (own && own->link);
    watched.waited |= watched.cut && waits && far_connected(watched.other, 0);
    disk[0].stuck = !watched.waited;
}

/* A place is given when the disk knows of it, and no earlier. */
static void a_place_waits_for_the_disk(void)
{
    begin();
    watched.giver = open_kept(0, 0);
    watched.other = open_kept(1, 0);
    wait_connected(watched.giver, watched.other);
    disk[0].stuck = true;
    watched.early = watched.cut = watched.waited = false;
    poll_also = watch_the_disk;
    struct mem *c = open_client(CLIENT);
    assert_true(watched.waited);
    assert_false(watched.early);
    assert_int_equal(disk[0].place[0], 1);
    WAIT_FOR(disk[1].place[0] == 1);
    assert_int_equal(far_node(watched.giver)->held_back, 0);
    WAIT_FOR(far_connected(c, 0));
}

static atomic_bool asked;

static void *ask_in_vain(void *unused)
{
    struct far_host hosts[FAR_FIXTURE_HOSTS];
    struct ofi_options o = far_fixture_options(&fixture, CLIENT, hosts);
    struct err e = {""};
    struct mem *m;

    (void)unused;
    o.far.timeout_ns = 200000000;
    intptr_t rc = far_fixture_open_node(&fixture, &o, &m, &e);
    atomic_store(&asked, true);
    return (void *)rc;
}

/* Whoever does not wait for the disk leaves no place behind that is nobody's. */
static void a_place_that_nobody_waits_for_is_free(void)
{
    pthread_t thread;
    void *rc;

    begin();
    struct mem *a = open_kept(0, 0);
    disk[0].stuck = true;
    for (int i = 0; i < 20 && disk[0].place[0] == 0;
         i++) { /* a busy machine takes long to connect */
        atomic_store(&asked, false);
        assert_int_equal(pthread_create(&thread, NULL, ask_in_vain, NULL), 0);
        WAIT_FOR(atomic_load(&asked));
        pthread_join(thread, &rc);
        assert_int_equal((intptr_t)rc, ERR_TIMEOUT);
    }
    assert_int_equal(disk[0].place[0], 1);
    WAIT_FOR(far_node(a)->held_back == 0);
    assert_false(far_node(a)->places.state[0].connected);
    assert_false(far_node(a)->places.state[0].held_back);
    /* Nobody has had that life: it is for the next, who need not wait any more. */
    disk[0].stuck = false;
    assert_int_equal(open_client(CLIENT)->life, 0);
    assert_int_equal(disk[0].place[0], 1);
}

/* A client keeps its place over a restart of the host that gave it, though nothing but the disk is left; not if the disk knows of
 * a later life. */
static void a_client_is_known_by_its_life(void)
{
    char said[8192];

    begin();
    struct mem *a = open_kept(0, 0);
    struct mem *c = open_client(CLIENT);
    struct stderr_capture h = stderr_capture_begin();
    for (uint32_t life = 1; life < 3; life++) {
        close_now(a);
        remove_lives(0);
        disk[0].place[0] = life;
        a = open_kept(0, life);
        WAIT_FOR(far_connected(a, CLIENT) || far_failure(c));
        assert_true(far_connected(a, CLIENT) == (life == 1));
    }
    stderr_capture_end(&h, said, sizeof said);
    assert_non_null(far_failure(c));
}

/* A host that has lost its disk gives no place before the others have told what they know, and none in a life that they know of
 * or might have missed. */
static void a_rejoined_host_leaves_lives_out(void)
{
    begin();
    disk[1].place[0] = 7;
    disk[2].place[0] = 4;
    disk[0].lives.rejoined = true;
    struct mem *a = open_kept(0, 2), *b = open_kept(1, 0);
    wait_connected(a, b);
    assert_true(far_node(a)->places_unsure);
    assert_true(disk[0].place[0] == 7 && disk[0].place[3] == 0);
    struct mem *c = open_kept(2, 0);
    wait_connected(a, c);
    assert_false(far_node(a)->places_unsure);
    assert_int_equal(disk[0].place[0], 7 + 256);
    assert_int_equal(disk[0].place[3], 256);
    assert_int_equal(open_client(CLIENT)->life, 7 + 256);
    /* One that comes back, and has met more, is believed too. */
    close_now(b);
    disk[1].place[0] = 900;
    b = open_kept(1, 1);
    wait_connected(a, b);
    assert_int_equal(disk[0].place[0], 1000); /* as many as there may be */
}

/* Whether a client that it had is the last one in its place it cannot know, even from the others. */
static void a_rejoined_host_knows_no_clients(void)
{
    char said[8192];

    begin();
    struct mem *a = open_kept(0, 0), *b = open_kept(1, 0);
    wait_connected(a, b);
    struct mem *c = open_client(CLIENT);
    WAIT_FOR(disk[1].place[0] == 1);
    struct stderr_capture h = stderr_capture_begin();
    close_now(a);
    remove_lives(0);
    disk[0] = (struct lives_fake){.lives.rejoined = true};
    a = open_kept(0, 1);
    wait_connected(a, b);
    poll_for(50);
    assert_false(far_connected(a, CLIENT));
    assert_null(far_failure(c));
    open_kept(2, 0);
    WAIT_FOR(far_failure(c));
    stderr_capture_end(&h, said, sizeof said);
}

#define CASES(X)                                                                                   \
    X(a_life_is_not_taken_back)                                                                    \
    X(a_full_stop_is_no_new_beginning)                                                             \
    X(an_older_disk_is_refused)                                                                    \
    X(a_life_is_used_once)                                                                         \
    X(a_place_waits_for_the_disk)                                                                  \
    X(a_place_that_nobody_waits_for_is_free)                                                       \
    X(a_client_is_known_by_its_life)                                                               \
    X(a_rejoined_host_leaves_lives_out)                                                            \
    X(a_rejoined_host_knows_no_clients)
ON_BOTH(CASES)

int main(void)
{
    const struct CMUnitTest cases[] = {CASES(ROWS_ON_BOTH)};
    return cmocka_run_group_tests(cases, NULL, NULL);
}
