#include "mcast_schedules.h"

#include "tree_fixture.h"

enum { A, B, C }; /* groups */

#define TO(group) (1u << (group))

static const uint16_t chain[] = {OVERLAY_NONE, 0, 1, 2};

/* Bodies and replies of no bytes, of the most there may be, and between. */
const char *all_sizes(enum mcast_protocol protocol)
{
    struct forest *f =
        forest_open_led(&(struct forest_options){.protocol = protocol, .groups = 3, .seed = 2});
    for (uint32_t bytes = 0; bytes <= FOREST_BODY_MAX; bytes += 5) {
        FOREST_WAIT(f, forest_cast(f, 0, (uint8_t)(1 + bytes / 5 % 7), bytes), FOREST_LONG_NS);
        forest_tick(f);
    }
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    FOREST_MUST(f, f->client[0].empty_replies > 0 && f->client[0].full_replies > 0);
    return forest_close(f);
}

/* What a process left unread in its rings is void once another has taken its place. */
const char *second_life(enum mcast_protocol protocol)
{
    struct forest *f =
        forest_open_led(&(struct forest_options){.protocol = protocol, .groups = 3, .seed = 9});
    for (uint32_t life = 0; life + 1 < TREE_LIVES_MAX; life++) {
        uint32_t old = forest_sender(f, 0);
        for (uint16_t g = 0; g < 3; g++)
            forest_hold(f, g, true);
        FOREST_SETUP(f, forest_cast(f, 0, TO(B) | TO(C), 200));
        FOREST_SETUP(f, forest_cast(f, 0, TO(B) | TO(C), 10));
        forest_pass(f, 5 * US);
        forest_client_crash(f, 0);
        forest_client_start(f, 0);
        FOREST_SETUP(f, forest_cast(f, 0, TO(B) | TO(C), 50));
        forest_pass(f, 5 * US);
        for (uint16_t g = 0; g < 3; g++)
            forest_hold(f, g, false);
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
        FOREST_MUST(f, f->check.cast[old][life > 0].delivered == 0);
        FOREST_MUST(f, forest_cast_of(f, 0, 0)->done);
    }
    /* More than its rings hold: so it is told how far it was taken, in this life too. */
    for (uint32_t i = 0; i < 40; i++) {
        FOREST_SETUP(f, forest_cast(f, 0, TO(B) | TO(C), 200));
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    }
    return forest_close(f);
}

static uint32_t cast_all(struct forest *f, uint8_t mask)
{
    uint32_t count = 0;
    while (forest_cast(f, 0, mask, 0))
        count++;
    return count;
}

/* A client that does not look at its replies for long has as many messages under way to a group as its ring holds replies, and then
 * some to another. All replies to them are there when it looks. */
const char *as_many_as_replies_fit(enum mcast_protocol protocol)
{
    struct forest *f =
        forest_open_led(&(struct forest_options){.protocol = protocol, .groups = 3, .seed = 4});
    for (uint32_t lap = 0; lap < 3; lap++) {
        f->client[0].held = true;
        uint32_t one = cast_all(f, TO(B)), other = cast_all(f, TO(C)),
                 window = mcast_window(&f->sizes);
        forest_run(f, FOREST_LONG_NS);
        f->client[0].held = false;
        FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
        FOREST_MUST(f, one == window && other > 0 && other <= window);
    }
    return forest_close(f);
}

/* The leaders of two groups are cut off from each other, and from nobody else. Both have their quorums and stay;
 * what goes from group to group, and what is said back, goes through their followers. More goes than fits into
 * all rings on the way. */
const char *leaders_cut_off(enum mcast_protocol protocol, bool to, bool from)
{
    struct forest *f = forest_open_led(&(struct forest_options){
        .protocol = protocol, .groups = 2, .seed = 3, .owner_answers = true});
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 100));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    uint32_t a = forest_node(f, A, forest_leader(f, A)), b = forest_node(f, B, forest_leader(f, B));
    uint64_t terms = forest_stats(f, A, forest_leader(f, A)).count.terms;
    sim_cut(f->sim, a, b, to);
    sim_cut(f->sim, b, a, from);
    for (int i = 0; i < 200; i++) {
        FOREST_WAIT(f, forest_cast(f, 0, TO(A) | TO(B), FOREST_BODY_MAX), 2 * FOREST_SUSPECT_NS);
        FOREST_WAIT(f, i % 8 || caster_outstanding(f->client[0].caster) == 0,
                    2 * FOREST_SUSPECT_NS);
    }
    FOREST_MUST(f, forest_stats(f, A, forest_leader(f, A)).count.terms == terms);
    FOREST_MUST(f, forest_node(f, A, forest_leader(f, A)) == a);
    FOREST_MUST(f, forest_node(f, B, forest_leader(f, B)) == b);
    sim_cut(f->sim, a, b, false);
    sim_cut(f->sim, b, a, false);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    return forest_close(f);
}

/* ---- what no correct client sends ---- */

/* A good client goes on before and after; whatever the other one sends is delivered nowhere. */
const char *bad_message(enum mcast_protocol protocol, uint16_t group, const void *message,
                        uint32_t bytes)
{
    struct forest *f = forest_open_led(&(struct forest_options){.protocol = protocol,
                                                                .groups = 4,
                                                                .parent = chain,
                                                                .clients = 2,
                                                                .raw_clients = 2,
                                                                .seed = bytes});
    for (uint8_t mask = 1; mask < 16; mask++)
        FOREST_WAIT(f, forest_cast(f, 0, mask, 20), FOREST_LONG_NS);
    forest_raw_send(f, 1, group, message, bytes);
    for (uint8_t mask = 1; mask < 16; mask++)
        FOREST_WAIT(f, forest_cast(f, 0, mask, 20), FOREST_LONG_NS);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    /* Also for replicas that become leaders, and with the state in a snapshot. */
    forest_crash(f, group, forest_leader(f, group) % 3, false);
    FOREST_SETUP(f, forest_cast(f, 0, 15, 20));
    forest_come_back(f);
    /* The place is good for the next process. */
    f->opt.raw_clients = 0;
    forest_client_crash(f, 1);
    forest_client_start(f, 1);
    FOREST_SETUP(f, forest_cast(f, 1, 15, 20));
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    return forest_close(f);
}

const char *bad_list(enum mcast_protocol protocol, uint16_t group, uint16_t count,
                     const uint16_t *list)
{
    struct forest_raw r = forest_raw(1, 0, list, count);
    return bad_message(protocol, group, &r, sizeof(r));
}

/* A client that claims to be another is not believed: the other one's messages and answers go on, whether the
 * number is one that was cast or is yet to come, and so for its life. */
const char *false_name(enum mcast_protocol protocol, uint64_t seq, uint16_t life)
{
    struct forest_raw r = forest_raw(0, life, (const uint16_t[]){A, B}, 2);
    r.m.seq = seq;
    return bad_message(protocol, A, &r, sizeof(r));
}

/* The same while the other waits for an answer, which must not be a refusal. */
const char *false_name_meanwhile(enum mcast_protocol protocol)
{
    struct forest *f = forest_open_led(&(struct forest_options){
        .protocol = protocol, .groups = 2, .clients = 2, .raw_clients = 2, .seed = 11});
    forest_hold(f, B, true);
    FOREST_SETUP(f, forest_cast(f, 0, TO(A) | TO(B), 20));
    forest_run(f, 20 * US);
    struct forest_raw r = forest_raw(0, 0, (const uint16_t[]){A, B}, 2);
    forest_raw_send(f, 1, A, &r, sizeof(r));
    /* So that the client reads what the group replies. */
    FOREST_SETUP(f, forest_cast(f, 0, TO(A), 20));
    forest_run(f, 20 * US);
    FOREST_MUST(f, caster_outstanding(f->client[0].caster) == 1);
    forest_hold(f, B, false);
    FOREST_WAIT(f, forest_delivered(f), FOREST_LONG_NS);
    return forest_close(f);
}
