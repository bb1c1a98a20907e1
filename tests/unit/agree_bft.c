/* A log among members that may lie, on simulated memory: what clients send is applied by all, in one order; a member that lost its memory is
 * taken back; what cannot be opened is refused. */
#include "agree/bft.h"
#include "agree/bft_client.h"
#include "base/hash.h"
#include "mem/sim/sim.h"
#include "sim/counter_machine.h"
#include "sim/sim_signer.h"

#include "../planted_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { MEMBERS = 3, CLIENTS = 2, REGION = 3, SEED = 7, MESSAGES = 100, ROUNDS = 200000 };

struct member {
    struct counter_machine counter; /* first: the machine's ctx */
    struct mem *mem;
    struct signer *signer;
    struct bft *bft;
};

struct client {
    struct mem *mem;
    struct bft_client *source;
    struct signer *signer;
    uint64_t sent;
};

static struct world {
    struct sim *sim;
    struct member member[MEMBERS];
    struct client client[CLIENTS];
    uint64_t now_ns;
    uint64_t signatures; /* of members */
} w;

static bool fast; /* the next world has fast epochs */

static void count_signature(void *ctx, const struct sign_text *t, const unsigned char *signature)
{
    (void)ctx, (void)t, (void)signature;
    w.signatures++;
}

static void apply(void *ctx, const struct entry *e)
{
    struct member *m = ctx;
    m->counter.state.count++;
    m->counter.state.hash = hash_bytes(m->counter.state.hash, e->payload, e->bytes);
}

static void on_load(struct counter_machine *m, bool good)
{
    (void)m;
    assert_true(good);
}

static const struct log_machine machine = {.apply = apply, .state = &counter_machine_ops};

static void open_member(uint32_t p, uint32_t life)
{
    static const uint32_t nodes[MEMBERS] = {0, 1, 2},
                          source_nodes[CLIENTS] = {MEMBERS, MEMBERS + 1};
    struct member *m = &w.member[p];
    struct err e = {""};
    *m = (struct member){.mem = sim_node_start(w.sim, p)};
    m->counter.on_load = on_load;
    m->signer = sim_signer_open(SEED, p, 3);
    const struct bft_options o = {.mem = m->mem,
                                  .region = REGION,
                                  .nodes = nodes,
                                  .members = MEMBERS,
                                  .rank = p,
                                  .life = life,
                                  .cluster = 1,
                                  .signer = m->signer,
                                  .source_nodes = source_nodes,
                                  .sources = CLIENTS,
                                  .window = 16,
                                  .batch_bytes = fast ? 4096 : 1024,
                                  .fast = fast,
                                  .fast_ahead = 8,
                                  .fast_backoff_ns = 1000000,
                                  .payload_max = 64,
                                  .beat_ns = 20000,
                                  .view_ns = 2000000,
                                  .machine = &machine,
                                  .ctx = m};
    sim_signer_watch(m->signer, count_signature, NULL);
    if (bft_open(&o, &m->bft, &e) != 0)
        fail_msg("%s", e.text);
}

static void open_client(uint32_t i)
{
    static const uint32_t nodes[MEMBERS] = {0, 1, 2};
    struct client *c = &w.client[i];
    struct err e = {""};
    enum mem_birth birth;
    c->mem = sim_node_start(w.sim, MEMBERS + i);
    c->signer = sim_signer_open(SEED, bft_client_signer(i), 3);
    assert_int_equal(mem_region_open(c->mem, REGION, &birth, &e), 0);
    const struct bft_client_options o = {.source = {.mem = c->mem,
                                                    .region = REGION,
                                                    .nodes = nodes,
                                                    .replicas = MEMBERS,
                                                    .number = i,
                                                    .payload_max = 64,
                                                    .retry_ns = fast ? 10000000 : 100000,
                                                    .faulty = 1},
                                         .cluster = 1,
                                         .batch_bytes = fast ? 4096 : 1024,
                                         .signer = c->signer};
    assert_int_equal(bft_client_open(&o, &c->source, &e), 0);
}

static void open_world(void)
{
    struct err e = {""};
    const struct sim_options o = {.seed = SEED,
                                  .nodes_max = MEMBERS + CLIENTS,
                                  .delay_ns_min = 100,
                                  .delay_ns_max = 2000,
                                  .lost_after_ns = 50000};
    w = (struct world){.sim = sim_open(&o, &e)};
    assert_non_null(w.sim);
    for (uint32_t p = 0; p < MEMBERS; p++)
        open_member(p, 0);
    for (uint32_t i = 0; i < CLIENTS; i++)
        open_client(i);
}

static void end_member(struct member *m)
{
    if (m->bft == NULL)
        return;
    signer_close(m->signer);
    bft_close(m->bft);
    m->bft = NULL;
}

static void close_world(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bft_client_close(w.client[i].source);
        signer_close(w.client[i].signer);
    }
    for (uint32_t p = 0; p < MEMBERS; p++)
        end_member(&w.member[p]);
    sim_close(w.sim);
}

static void client_step(struct client *c, uint64_t until)
{
    uint64_t end;
    while (c->sent < until && bft_client_send(c->source, &c->sent, sizeof(c->sent), &end) == 0)
        c->sent++;
    bft_client_flush(c->source);
    signer_poll(c->signer);
    bft_client_step(c->source, w.now_ns);
    mem_poll(c->mem);
}

static void member_step(struct member *m)
{
    if (m->bft == NULL)
        return;
    bft_post(m->bft, w.now_ns);
    mem_poll(m->mem);
    signer_poll(m->signer);
    bft_settle(m->bft, w.now_ns);
    assert_null(bft_check(m->bft));
    assert_null(bft_broken(m->bft));
}

static bool all_have(uint64_t count)
{
    for (uint32_t p = 0; p < MEMBERS; p++)
        if (w.member[p].bft && w.member[p].counter.state.count < count)
            return false;
    return true;
}

static void step_all(void)
{
    for (uint32_t p = 0; p < MEMBERS; p++)
        member_step(&w.member[p]);
    for (uint32_t i = 0; i < 20; i++)
        sim_step(w.sim);
    w.now_ns = sim_now(w.sim);
}

static void go_on_until(uint64_t count)
{
    for (uint32_t rounds = 0; !all_have(count); rounds++) {
        client_step(&w.client[0], count);
        step_all();
        if (rounds == ROUNDS)
            fail_msg("%d messages are not applied", (int)count);
    }
}

static struct bft_stats stats_of(uint32_t p)
{
    struct bft_stats s;
    bft_stats(w.member[p].bft, &s);
    return s;
}

static void assert_alike(uint32_t p, uint32_t q)
{
    assert_int_equal(w.member[p].counter.state.count, w.member[q].counter.state.count);
    assert_true(w.member[p].counter.state.hash == w.member[q].counter.state.hash);
}

static void bft__all_apply_the_same(void **state)
{
    (void)state;
    open_world();
    go_on_until(MESSAGES);
    assert_alike(0, 1);
    assert_alike(1, 2);
    printf("# %d messages in %d slots, %d checkpoints, view %d, %d KiB\n", MESSAGES,
           (int)stats_of(0).slots, (int)stats_of(0).checkpoints, (int)stats_of(0).view,
           (int)(stats_of(0).bytes / 1024));
    close_world();
}

static void bft__goes_on_without_its_leader_and_takes_it_back(void **state)
{
    (void)state;
    open_world();
    go_on_until(MESSAGES);
    end_member(&w.member[0]);
    sim_node_crash(w.sim, 0, true);
    go_on_until(2 * MESSAGES);
    assert_true(stats_of(1).view > 0);
    open_member(0, 1);
    go_on_until(3 * MESSAGES);
    assert_alike(0, 1);
    assert_true(stats_of(0).votes);
    assert_int_equal(stats_of(1).life[0], 1);
    close_world();
}

/* ---- a leader that leaves a client out ---- */

static struct mem_ops blind;

/* It finds nothing that the second client has signed, wherever it is from. */
static void take_blind(struct mem *m, const struct mem_lane *l, uint64_t pos, void *to,
                       uint32_t bytes)
{
    const struct bft_frame *f = to;
    ring_read(l->ring, l->spec.ring_bytes, pos, to, bytes);
    (void)m;
    if ((lane_kind(&l->spec) == LANE_SIGNED && lane_index(&l->spec) == 1) ||
        (lane_kind(&l->spec) == LANE_TALK && bytes > sizeof(*f) && f->kind == BFT_FRAME_SIGNED))
        memset(to, 0, bytes);
}

/* NULL, or what is wrong: the other client sends all the time, so something is always decided. */
static const char *leave_out(void)
{
    enum { LONG = 20000, MANY = 1000000 };
    const char *wrong = NULL;
    uint64_t all = 0;
    open_world();
    blind = *w.member[0].mem->ops;
    blind.take = take_blind;
    w.member[0].mem->ops = &blind;
    for (uint32_t rounds = 0; all == 0 || bft_client_taken(w.client[1].source) < all; rounds++) {
        client_step(&w.client[0], MANY);
        client_step(&w.client[1], 1);
        all = bft_client_end(w.client[1].source);
        step_all();
        if (rounds == LONG) {
            wrong = "a client that is left out is never served";
            break;
        }
    }
    close_world();
    return wrong;
}

static void bft__a_leader_that_leaves_a_client_out_is_given_up(void **state)
{
    (void)state;
    assert_null(leave_out());
    FINDS(bft_censored, leave_out(), "a client that is left out is never served");
}

/* ---- fast epochs ---- */

static uint64_t client_signatures(void)
{
    struct bft_client_stats s;
    bft_client_stats(w.client[0].source, &s);
    return s.signatures;
}

static void go_on_until_fast(void)
{
    for (uint32_t rounds = 0; rounds < ROUNDS; rounds++) {
        uint32_t count = 0;
        for (uint32_t p = 0; p < MEMBERS; p++)
            count += stats_of(p).fast;
        if (count == MEMBERS)
            return;
        client_step(&w.client[0], w.client[0].sent);
        step_all();
    }
    fail_msg("no fast epoch begins");
}

static void bft__signs_nothing_in_a_fast_epoch(void **state)
{
    (void)state;
    fast = true;
    open_world();
    go_on_until_fast();
    uint64_t members = w.signatures, client = client_signatures();
    go_on_until(5 * MESSAGES);
    assert_true(stats_of(0).fast && stats_of(0).epoch == 1);
    assert_int_equal(w.signatures, members);
    assert_int_equal(client_signatures(), client);
    assert_alike(0, 1);
    assert_alike(0, 2);
    close_world();
    fast = false;
}

/* The leader of the epoch dies in the middle of it. The others end it, go on slowly, and with it again fast. */
static void bft__goes_on_slowly_without_a_member_and_fast_with_it_again(void **state)
{
    (void)state;
    fast = true;
    open_world();
    go_on_until_fast();
    go_on_until(MESSAGES);
    end_member(&w.member[0]);
    sim_node_crash(w.sim, 0, true);
    go_on_until(2 * MESSAGES);
    assert_false(stats_of(1).fast);
    assert_true(stats_of(1).panics > 0);
    open_member(0, 1);
    go_on_until_fast();
    assert_true(stats_of(1).epoch > 1);
    go_on_until(2 * MESSAGES + MESSAGES / 2); /* what was being signed is */
    uint64_t members = w.signatures;
    go_on_until(3 * MESSAGES);
    assert_int_equal(w.signatures, members);
    assert_alike(0, 1);
    assert_alike(0, 2);
    close_world();
    fast = false;
}

static void bft__what_is_too_small_for_fast_epochs_is_refused(void **state)
{
    (void)state;
    static const uint32_t nodes[MEMBERS] = {0, 1, 2};
    struct bft_options o = {
        .nodes = nodes, .members = MEMBERS, .machine = &machine, .batch_bytes = 1024, .fast = true};
    struct err e = {""};
    struct bft *b;
    assert_int_equal(bft_open(&o, &b, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "at least"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bft__all_apply_the_same),
        cmocka_unit_test(bft__goes_on_without_its_leader_and_takes_it_back),
        cmocka_unit_test(bft__signs_nothing_in_a_fast_epoch),
        cmocka_unit_test(bft__goes_on_slowly_without_a_member_and_fast_with_it_again),
        cmocka_unit_test(bft__what_is_too_small_for_fast_epochs_is_refused),
        cmocka_unit_test(bft__a_leader_that_leaves_a_client_out_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
