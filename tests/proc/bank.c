/* A bank over several groups, for tests of backups: a transfer is a message to two groups, one of which sends and the other one
 * receives. Whatever point of the order is taken, each group has received from another what that has sent to it.
 *
 *     bank new FILE            the directories of all hosts
 *     bank host NAME FILE      a host, until SIGTERM
 *     bank load FILE SECONDS   transfers between groups, until then or SIGTERM; prints how many
 *     bank audit FILE          prints the transfers and the balances; fails if they do not go together */
#include "base/clock.h"
#include "base/rng.h"
#include "tram.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 4, PADDING_BYTES = 300000, UNDER_WAY = 48 };

#define SECOND_NS UINT64_C(1000000000)

struct transfer {
    uint32_t from, to;
    int64_t amount;
};

/* What a group has; and this is also its answer. */
struct ledger {
    int64_t balance;
    uint64_t sent[GROUPS_MAX], received[GROUPS_MAX];
};

/* A state that takes several pieces: the ledger, and something that follows from it. */
struct account {
    struct ledger ledger;
    unsigned char padding[PADDING_BYTES];
};

struct bank {
    struct account group[GROUPS_MAX];
    size_t loaded[GROUPS_MAX];
};

static void fill(struct account *a)
{
    memset(a->padding, (int)(a->ledger.balance & 0xff), sizeof(a->padding));
}

static uint32_t deliver(void *ctx, const struct tram_delivery *d, void *reply, uint32_t reply_max)
{
    struct bank *b = ctx;
    struct account *a = &b->group[d->group];
    struct transfer t;
    if (d->bytes == sizeof(t)) {
        memcpy(&t, d->body, sizeof(t));
        a->ledger.balance +=
            (d->group == t.to ? t.amount : 0) - (d->group == t.from ? t.amount : 0);
        if (d->group == t.from)
            a->ledger.sent[t.to]++;
        else
            a->ledger.received[t.from]++;
    }
    if (reply_max < sizeof(a->ledger))
        return 0;
    memcpy(reply, &a->ledger, sizeof(a->ledger));
    return sizeof(a->ledger);
}

/* ---- states, in pieces ---- */

struct save {
    struct account state;
    size_t at;
};

static void *save_open(void *ctx, uint32_t group, uint64_t *bytes)
{
    struct bank *b = ctx;
    struct save *s = malloc(sizeof(*s));
    fill(&b->group[group]);
    s->state = b->group[group];
    s->at = 0;
    *bytes = sizeof(s->state);
    return s;
}

static int save_next(void *ctx, uint32_t group, void *save, void *out, uint32_t room)
{
    struct save *s = save;
    size_t left = sizeof(s->state) - s->at, n = left < room ? left : room;
    (void)ctx, (void)group;
    memcpy(out, (const unsigned char *)&s->state + s->at, n);
    s->at += n;
    return (int)n;
}

static void save_close(void *ctx, uint32_t group, void *save)
{
    (void)ctx, (void)group;
    free(save);
}

static int load_open(void *ctx, uint32_t group, uint64_t bytes)
{
    struct bank *b = ctx;
    b->loaded[group] = 0;
    return bytes == sizeof(struct account) ? 0 : -1;
}

static int load_next(void *ctx, uint32_t group, const void *data, uint32_t bytes)
{
    struct bank *b = ctx;
    if (b->loaded[group] + bytes > sizeof(struct account))
        return -1;
    memcpy((unsigned char *)&b->group[group] + b->loaded[group], data, bytes);
    b->loaded[group] += bytes;
    return 0;
}

static int load_close(void *ctx, uint32_t group, bool whole)
{
    const struct bank *b = ctx;
    const struct account *a = &b->group[group];
    if (!whole)
        return 0;
    bool good = b->loaded[group] == sizeof(*a);
    for (size_t i = 0; good && i < sizeof(a->padding); i++)
        good = a->padding[i] == (a->ledger.balance & 0xff);
    return good ? 0 : -1;
}

/* ---- hosts ---- */

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static int complain(const struct tram_error *e)
{
    fprintf(stderr, "bank: %s\n", e->text);
    return 1;
}

static void on_line(void *ctx, enum tram_log_level level, const char *line)
{
    (void)ctx, (void)level;
    fprintf(stderr, "%s\n", line);
}

/* Each is made once. */
static int make_new(const struct tram_cluster *c)
{
    struct tram_error e = {""};
    for (uint32_t h = 0; h < tram_cluster_hosts(c); h++)
        if (tram_host_format(c, tram_cluster_host_name(c, h), &e) != TRAM_OK ||
            tram_host_format(c, tram_cluster_host_name(c, h), &e) != TRAM_EXISTS)
            return complain(&e);
    return tram_host_format(c, "nobody", &e) == TRAM_NOTFOUND ? 0 : 1;
}

static int host(const struct tram_cluster *c, const char *name)
{
    struct tram_error e = {""};
    struct tram_host *h;
    struct bank *b = calloc(1, sizeof(*b));
    struct tram_host_options o = {.name = name,
                                  .machine = {.deliver = deliver,
                                              .save_open = save_open,
                                              .save_next = save_next,
                                              .save_close = save_close,
                                              .load_open = load_open,
                                              .load_next = load_next,
                                              .load_close = load_close},
                                  .ctx = b,
                                  .log = {.line = on_line, .least = TRAM_LOG_WARNING}};
    int rc = tram_host_open(c, &o, &h, &e);
    if (rc < 0)
        return complain(&e);
    while (!asked_to_stop && rc >= 0)
        rc = tram_host_step(h, &e);
    struct tram_disk_stats disk;
    if (rc >= 0 && (tram_host_disk(h, &disk) != TRAM_OK || disk.writes == 0 ||
                    disk.journal_bytes > disk.journal_bytes_max || disk.state == TRAM_DISK_FULL)) {
        snprintf(e.text, sizeof(e.text), "what the host says of its disk cannot be");
        rc = TRAM_BROKEN;
    }
    tram_host_close(h);
    free(b);
    return rc < 0 ? complain(&e) : 0;
}

/* ---- clients ---- */

static int load(const struct tram_cluster *c, uint64_t seconds)
{
    struct tram_error e = {""};
    struct tram_client *client;
    uint64_t until = clock_now_ns() + seconds * SECOND_NS, cast = 0;
    uint32_t groups = tram_cluster_groups(c);
    struct rng rng;
    rng_init(&rng, clock_now_ns());
    int rc = tram_client_open(c, NULL, &client, &e);
    if (rc < 0)
        return complain(&e);
    while (!asked_to_stop && clock_now_ns() < until && rc >= 0) {
        uint32_t from = (uint32_t)rng_below(&rng, groups);
        uint32_t to = (from + 1 + (uint32_t)rng_below(&rng, groups - 1)) % groups;
        struct transfer t = {from, to, (int64_t)rng_below(&rng, 1000)};
        uint16_t dst[] = {(uint16_t)from, (uint16_t)to};
        if (tram_client_outstanding(client) < UNDER_WAY) {
            rc = tram_cast(client, dst, 2, &t, sizeof(t), NULL, &e);
            cast += rc == 0;
        }
        if (rc == TRAM_AGAIN)
            rc = 0;
        if (rc == 0)
            rc =
                tram_client_wait(client, tram_client_outstanding(client) < UNDER_WAY ? 0 : 1000000);
    }
    while (rc >= 0 && tram_client_outstanding(client) > 0 &&
           clock_now_ns() < until + 10 * SECOND_NS)
        rc = tram_client_wait(client, SECOND_NS / 10);
    printf("%llu\n", (unsigned long long)cast);
    bool done = tram_client_outstanding(client) == 0;
    tram_client_close(client);
    return rc < 0 ? complain(&e) : !done;
}

static int audit(const struct tram_cluster *c)
{
    struct tram_error e = {""};
    struct tram_client *client;
    struct ledger l[GROUPS_MAX] = {{0}};
    uint16_t dst[GROUPS_MAX];
    uint32_t groups = tram_cluster_groups(c), wrong = 0;
    uint64_t transfers = 0;
    int64_t sum = 0;
    if (tram_client_open(c, NULL, &client, &e) < 0)
        return complain(&e);
    for (uint32_t g = 0; g < groups; g++)
        dst[g] = (uint16_t)g;
    int rc = tram_call(client, dst, groups, "audit", 5, l, sizeof(l[0]), NULL, 10 * SECOND_NS, &e);
    tram_client_close(client);
    if (rc < 0)
        return complain(&e);
    for (uint32_t g = 0; g < groups; g++) {
        sum += l[g].balance;
        for (uint32_t o = 0; o < groups; o++) {
            transfers += l[g].sent[o];
            wrong += l[g].sent[o] != l[o].received[g];
        }
    }
    printf("%llu transfers", (unsigned long long)transfers);
    for (uint32_t g = 0; g < groups; g++)
        printf(" %lld", (long long)l[g].balance);
    printf("\n");
    if (wrong > 0 || sum != 0)
        fprintf(stderr, "bank: %u pairs of groups differ, and the sum is %lld\n", wrong,
                (long long)sum);
    return wrong > 0 || sum != 0;
}

int main(int argc, char **argv)
{
    struct tram_error e = {""};
    struct tram_cluster *c;
    struct sigaction a = {.sa_handler = on_signal};
    bool is_host = argc == 4 && strcmp(argv[1], "host") == 0;
    if (argc < 3)
        return 2;
    sigaction(SIGTERM, &a, NULL);
    if (tram_cluster_load(argv[is_host ? 3 : 2], &c, &e) < 0 || tram_cluster_groups(c) > GROUPS_MAX)
        return complain(&e);
    int rc = strcmp(argv[1], "new") == 0                 ? make_new(c)
             : is_host                                   ? host(c, argv[2])
             : argc == 4 && strcmp(argv[1], "load") == 0 ? load(c, strtoull(argv[3], NULL, 10))
                                                         : audit(c);
    tram_cluster_free(c);
    return rc;
}
