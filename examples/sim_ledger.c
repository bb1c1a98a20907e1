/* sim_ledger: a unit test, in the simulator, of a service whose hosts all lose power.
 *
 * The service books payments. Its hosts are members of a group, and its cell is durable: what is delivered is on the disks of all members.
 * The first version says "booked" as soon as it has sent a payment. Then the power fails, and some of what it has said is nowhere. The second
 * version says so when the payment is delivered to it. */
#include "tram/sim.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 3, PAYMENTS = 40, SEEDS = 10 };

static const char cluster_text[] = "name: ledger\n"
                                   "protocol: group\n"
                                   "id: 5f3c1be08a7d4e6f9b20c4d1e8a3f756\n"
                                   "hosts: [{name: h1}, {name: h2}, {name: h3}]\n"
                                   "subgroups: [{name: book, mode: durable}]\n";

static const char *const name[HOSTS] = {"h1", "h2", "h3"};

/* What the test knows: which payments somebody was told to be booked. */
struct told {
    bool at_once; /* the mistake */
    bool booked[PAYMENTS];
};

struct book { /* the state of a member */
    struct told *told;
    uint64_t sum; /* of all, in their order */
    unsigned char has[PAYMENTS];
};

static void must(bool ok, const char *what, const char *why)
{
    if (!ok)
        errx(1, "%s: %s", what, why);
}

/* ---- the state machine, as tram_group_open takes it ---- */

static void deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *item,
                    uint32_t count)
{
    struct book *b = ctx;
    (void)cell; /* there is one */
    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t payment;
        memcpy(&payment, item[i].data, sizeof(payment));
        b->has[payment] = 1;
        b->sum = b->sum * 31 + payment;
        b->told->booked[payment] = true;
    }
}

static void born(void *ctx, uint32_t cell)
{
    struct book *b = ctx;
    (void)cell;
    *b = (struct book){.told = b->told};
}

static int save(void *ctx, uint32_t cell, void **data, size_t *bytes)
{
    (void)cell;
    *data = malloc(*bytes = sizeof(struct book) - offsetof(struct book, sum));
    return *data && memcpy(*data, &((const struct book *)ctx)->sum, *bytes) ? 0 : -1;
}

static int load(void *ctx, uint32_t cell, const void *data, size_t bytes)
{
    (void)cell;
    return memcpy(&((struct book *)ctx)->sum, data, bytes) ? 0 : -1;
}

/* ---- the test ---- */

static void *start(void *told, const char *host)
{
    struct book *b = calloc(1, sizeof(*b));
    must(b != NULL, host, "no memory");
    b->told = told;
    return b;
}

static void end(void *told, const char *host, void *ctx)
{
    (void)told;
    (void)host;
    free(ctx);
}

static void idle(struct tram_sim *sim)
{
    struct tram_error e = {""};
    must(tram_sim_run_idle(sim, UINT64_C(60000000000), &e) == TRAM_OK, "the group", e.text);
}

/* Payments come while all hosts lose their power, and come back. True: nothing that was booked is lost, and all have the same. */
static bool keeps_its_word(const struct tram_cluster *cluster, bool at_once, uint64_t seed)
{
    struct told told = {.at_once = at_once};
    struct tram_error e = {""};
    struct tram_sim *sim;
    struct tram_sim_options o = {
        .seed = seed,
        .group_machine = {.deliver = deliver, .born = born, .save = save, .load = load},
        .start = start,
        .end = end,
        .user = &told};
    must(tram_sim_open(cluster, &o, &sim, &e) == TRAM_OK, "simulation", e.text);
    idle(sim);
    for (uint32_t i = 0; i < PAYMENTS; i++) {
        int rc = tram_group_send(tram_sim_group(sim, name[i % HOSTS]), 0, &i, sizeof(i), &e);
        must(rc == TRAM_OK, "payment", e.text);
        told.booked[i] |= told.at_once;
        must(tram_sim_run(sim, 10000, &e) == TRAM_OK, "the group", e.text);
    }
    for (int h = 0; h < 2 * HOSTS; h++)
        must((h < HOSTS ? tram_sim_power_cut : tram_sim_start)(sim, name[h % HOSTS], &e) == TRAM_OK,
             name[h % HOSTS], e.text);
    idle(sim);
    must(tram_sim_check(sim, NULL, &e) == TRAM_OK, "members", e.text);
    uint32_t lost = 0;
    const struct book *b = tram_sim_ctx(sim, name[0]);
    for (uint32_t i = 0; i < PAYMENTS; i++)
        lost += told.booked[i] && !b->has[i];
    if (lost > 0)
        printf("  seed %d: %u payments were booked, and are lost\n", (int)seed, lost);
    tram_sim_close(sim);
    return lost == 0;
}

int main(void)
{
    struct tram_error e = {""};
    struct tram_cluster *cluster;
    int kept[2] = {0, 0};
    must(tram_cluster_parse(cluster_text, NULL, &cluster, &e) == TRAM_OK, "cluster", e.text);
    for (int at_once = 1; at_once >= 0; at_once--) {
        printf("booked when it is %s:\n", at_once ? "sent" : "delivered");
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            kept[at_once] += keeps_its_word(cluster, at_once, seed);
        printf("  the ledger keeps its word in %d of %d runs\n", kept[at_once], SEEDS);
    }
    tram_cluster_free(cluster);
    return kept[0] == SEEDS && kept[1] < SEEDS ? 0 : 1;
}
