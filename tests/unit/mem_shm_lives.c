/* Hosts on shared memory whose lives are kept on a disk (mem/lives.h), and the lives of their clients' places. */
#include "../lives_fake.h"
#include "../shm_raw.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PLACES = 4 };

static struct lives_fake disk[HOSTS];
static struct node nodes[HOSTS];

static struct shm_options kept_options(unsigned self, uint32_t life)
{
    struct shm_options o = fixture_options(self);

    o.lives = lives_fake_begin(&disk[self], life);
    o.client_node = CLIENT;
    o.clients = PLACES;
    o.lives_max = 1000;
    return o;
}

static enum mem_birth open_kept(unsigned self, uint32_t life)
{
    struct shm_options o = kept_options(self, life);
    struct err e = {""};

    if (fixture_open(&nodes[self], &o, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(nodes[self].mem->life, life);
    return nodes[self].birth;
}

static void leave(unsigned self)
{
    shm_close_node(nodes[self].mem);
    nodes[self] = (struct node){0};
}

static bool directory_is_there(void)
{
    char path[256];

    fixture_path(path, sizeof path, "");
    return access(path, F_OK) == 0;
}

/* ---- a client in place 0, with a lane to h0 ---- */

struct client {
    struct mem *mem;
    struct mem_lane *out;
};

static struct client client_open(void)
{
    struct shm_options o = fixture_options(0);
    struct mem_lane_spec spec = fixture_spec(0, CLIENT);
    struct client c;
    struct err e = {""};

    o.self = (struct shm_node){.name = "client-0", .node = CLIENT, .role = SHM_CLIENT};
    if (shm_open_node(&o, &c.mem, &e) < 0 || mem_lanes_open(c.mem, &spec, 1, &c.out, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

static struct mem_lane *clients_lane(void)
{
    struct mem_lane_spec spec = fixture_spec(0, CLIENT);
    struct mem_lane *lane;
    struct err e = {""};

    assert_int_equal(mem_lanes_open(nodes[0].mem, &spec, 1, &lane, &e), 0);
    return lane;
}

static void poll_both(struct client *c)
{
    mem_poll(c->mem);
    for (unsigned i = 0; i < HOSTS; i++)
        if (nodes[i].mem)
            mem_poll(nodes[i].mem);
    nap(100000);
}

#define WAIT_FOR(c, condition)                                                                     \
    do {                                                                                           \
        uint64_t until_ = clock_now_ns() + 10000000000u;                                           \
        while (!(condition) && clock_now_ns() < until_)                                            \
            poll_both(c);                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

/* h0 sees what the client writes. */
static void expect_served(struct client *c)
{
    struct mem_lane *in = clients_lane();
    struct mem_flow f;

    WAIT_FOR(c, in->ctl && shm_connected(c->mem, 0) && shm_connected(nodes[0].mem, CLIENT));
    assert_int_equal(in->life, c->mem->life);
    mem_flow_open(c->mem, &f, 0, REGION, 0);
    mem_set1(c->mem, &f, c->out, 0, 77);
    assert_int_equal(mem_word(in, 0), 77);
    assert_null(shm_failure(c->mem));
}

/* ---- hosts ---- */

/* A host that has lived has its memory or has lost it, whatever became of the directory. */
static void shm__the_disk_says_whether_a_host_has_lived(void **state)
{
    (void)state;
    assert_int_equal(open_kept(0, 0), MEM_BIRTH_NEW);
    assert_int_equal(open_kept(1, 0), MEM_BIRTH_NEW);
    assert_true(all_connected(nodes, 2));
    assert_int_equal(disk[0].host[1], 1);
    leave(0);
    assert_int_equal(open_kept(0, 1), MEM_BIRTH_KEPT);
    assert_true(all_connected(nodes, 2));
    leave(0);
    leave(1);
    assert_false(directory_is_there());
    assert_int_equal(open_kept(0, 2), MEM_BIRTH_LOST);
    assert_true(mem_promised(nodes[0].mem, REGION) == MEM_CLOSED);
    assert_int_equal(open_kept(1, 1), MEM_BIRTH_LOST);
    assert_true(all_connected(nodes, 2));
    leave(0);
    leave(1);
}

static void shm__a_disk_older_than_the_lock_file_is_refused(void **state)
{
    struct shm_options o = kept_options(0, 3);
    struct err e = {""};
    struct mem *m;

    (void)state;
    open_kept(1, 0);
    raw_lives("h0", 4);
    assert_int_equal(shm_open_node(&o, &m, &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "tram format --rejoin h0"));
    open_kept(0, 4);
    assert_true(all_connected(nodes, 2));
    leave(0);
    leave(1);
}

static void shm__a_disk_older_than_what_others_know_is_refused(void **state)
{
    struct client nobody = client_open();
    char said[4096];

    (void)state;
    disk[1].host[0] = 5;
    open_kept(1, 0);
    struct stderr_capture h = stderr_capture_begin();
    open_kept(0, 2);
    WAIT_FOR(&nobody, shm_failure(nodes[0].mem));
    stderr_capture_end(&h, said, sizeof said);
    assert_non_null(strstr(shm_failure(nodes[0].mem), "tram format --rejoin h0"));
    assert_false(shm_connected(nodes[1].mem, 0));
    assert_null(shm_failure(nodes[1].mem));
    shm_close_node(nobody.mem);
    leave(0);
    leave(1);
}

/* A life that could not open is on the disk, and counts. */
static void shm__a_life_is_not_taken_back(void **state)
{
    struct shm_options o = kept_options(0, 0);
    char path[256], text[64] = "";
    struct mem *m;
    struct err e;

    (void)state;
    open_kept(1, 0);
    fixture_path(path, sizeof path, "h0.sock");
    assert_int_equal(mkdir(path, 0700), 0); /* in its way */
    assert_true(shm_open_node(&o, &m, &e) < 0);
    rmdir(path);
    fixture_path(path, sizeof path, "h0.lock");
    int fd = open(path, O_RDONLY);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    close(fd);
    assert_non_null(strstr(text, "lives          1"));
    assert_int_equal(open_kept(0, 1), MEM_BIRTH_LOST);
    leave(0);
    leave(1);
}

/* ---- clients ---- */

/* What a client writes is not seen before the disk knows of its life; others are not held up by that. */
static void shm__a_client_waits_for_the_disk(void **state)
{
    (void)state;
    open_kept(0, 0);
    disk[0].stuck = true;
    struct mem_lane *in = clients_lane();
    struct client c = client_open();
    WAIT_FOR(&c, disk[0].place[0] == 1);
    open_kept(1, 0);
    assert_true(all_connected(nodes, 2));
    for (unsigned i = 0; i < 200; i++)
        poll_both(&c);
    assert_null(in->ctl);
    assert_int_equal(nodes[0].mem->offered, 0);
    assert_false(shm_connected(nodes[0].mem, CLIENT));
    disk[0].stuck = false;
    expect_served(&c);
    /* One that ends while it waits is nothing to wait for. */
    disk[0].stuck = true;
    shm_close_node(c.mem);
    c = client_open();
    WAIT_FOR(&c, disk[0].place[0] == 2);
    shm_close_node(c.mem);
    leave(0);
    leave(1);
}

/* The directory goes, and lives go on. */
static void shm__lives_of_places_survive_the_directory(void **state)
{
    (void)state;
    for (uint32_t life = 0; life < 3; life++) {
        open_kept(0, life);
        struct client c = client_open();
        assert_int_equal(c.mem->life, life);
        expect_served(&c);
        assert_int_equal(disk[0].place[0], life + 1);
        shm_close_node(c.mem);
        leave(0);
        assert_false(directory_is_there());
    }
}

/* Also those of which a host knows from the file alone: it was away while they were had. */
static void shm__a_host_learns_from_the_files(void **state)
{
    (void)state;
    open_kept(1, 0);
    struct client c = client_open();
    WAIT_FOR(&c, disk[1].place[0] == 1);
    open_kept(0, 0);
    assert_int_equal(disk[0].place[0], 1);
    expect_served(&c);
    shm_close_node(c.mem);
    leave(0);
    leave(1);
}

/* A client that came before the host, in a life of which the host's disk knows more, or that very one, from before: it is turned away
 * and hears of that, and the next one is served. */
static void shm__a_used_life_is_turned_away(void **state)
{
    char said[4096];

    (void)state;
    for (uint32_t known = 1; known < 4; known += 2) {
        struct client c = client_open();
        struct stderr_capture h = stderr_capture_begin();
        assert_int_equal(c.mem->life, 0);
        memset(disk, 0, sizeof disk);
        open_kept(1, 0); /* of others that know nothing of it it is a client */
        open_kept(2, 0);
        WAIT_FOR(&c, shm_connected(c.mem, 1) && shm_connected(c.mem, 2));
        disk[0].place[0] = known;
        open_kept(0, 1);
        struct mem_lane *in = clients_lane();
        WAIT_FOR(&c, in->ctl || shm_failure(c.mem));
        assert_null(in->ctl);
        struct client next = client_open();
        assert_int_equal(next.mem->life, known);
        expect_served(&next);
        stderr_capture_end(&h, said, sizeof said);
        assert_int_equal(disk[0].place[0], known + 1);
        shm_close_node(c.mem);
        expect_served(&next);
        shm_close_node(next.mem);
        for (unsigned i = 0; i < HOSTS; i++)
            leave(i);
        assert_false(directory_is_there());
    }
}

/* A host comes back, and knows the client that it had noted. */
static void shm__a_client_outlives_its_host(void **state)
{
    (void)state;
    open_kept(1, 0);
    open_kept(0, 0);
    assert_true(all_connected(nodes, 2));
    struct client c = client_open();
    expect_served(&c);
    for (uint32_t life = 1; life < 3; life++) {
        leave(0);
        open_kept(0, life);
        expect_served(&c);
    }
    shm_close_node(c.mem);
    leave(0);
    leave(1);
}

/* The log tells of a client before the host has met it: it is no other process, nor after a restart of the host. */
static void shm__a_client_is_heard_of_before_it_is_met(void **state)
{
    (void)state;
    for (uint32_t life = 0; life < 2; life++) {
        bool restarted = life > 0;
        open_kept(1, life);
        open_kept(0, 2 * life);
        assert_true(all_connected(nodes, 2));
        struct client c = client_open();
        if (restarted)
            shm_saw_client(nodes[0].mem, 0, c.mem->life);
        disk[0].place[0] = c.mem->life + 1;
        if (restarted) {
            leave(0);
            open_kept(0, 2 * life + 1);
        }
        expect_served(&c);
        shm_close_node(c.mem);
        leave(0);
        leave(1);
    }
}

static int lives_setup(void **state)
{
    memset(disk, 0, sizeof disk);
    memset(nodes, 0, sizeof nodes);
    return cluster_setup(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, lives_setup, cluster_teardown)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(shm__the_disk_says_whether_a_host_has_lived),
        CASE(shm__a_disk_older_than_the_lock_file_is_refused),
        CASE(shm__a_disk_older_than_what_others_know_is_refused),
        CASE(shm__a_life_is_not_taken_back),
        CASE(shm__a_client_waits_for_the_disk),
        CASE(shm__lives_of_places_survive_the_directory),
        CASE(shm__a_host_learns_from_the_files),
        CASE(shm__a_used_life_is_turned_away),
        CASE(shm__a_client_outlives_its_host),
        CASE(shm__a_client_is_heard_of_before_it_is_met),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
