/* What mem.h promises, between two machines: one process owns memory, and one on the other machine writes,
 * raises and reads there, as two nodes.
 *
 *     pair own DIR OWNER USER     serves until DIR/pair.end is there; begins a new life for each DIR/pair.life
 *     pair use DIR OWNER USER     makes the tests, prints TAP, and writes these files
 *
 * OWNER and USER are the addresses of the two, DIR is a directory that both see. TRAM_TEST_PROVIDER is tcp or verbs. */
#include "../mem_race.h"
#include "mem/ofi/ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    NODES = 3,
    REGION = 7,
    RING = 65536,
    WORDS = 4,
    STREAM = 1,
    RACE = 2,
    ENTRIES = 400,
    LAG = 4,
    PORT = 7300
};
enum { SEEN, WRONG }; /* words that the owner tells its user */
#define PATIENCE_NS UINT64_C(60000000000)

static const char *directory;
static struct far_host hosts[NODES];
static char state[] = "/tmp/tram-pair-XXXXXX";

struct node {
    struct mem *mem;
    enum mem_birth birth;
    struct mem_lane *stream, *race, *told; /* 1 writes to 0 twice, 0 tells 1 */
};

static struct node node[NODES];
static int cases;

static void result(const char *name, const char *wrong)
{
    printf("%sok %d - %s\n", wrong ? "not " : "", ++cases, name);
    if (wrong)
        printf("# %s\n", wrong);
    fflush(stdout);
}

static const char *file(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/pair.%s", directory, name);
    return path;
}

static void touch(const char *name)
{
    FILE *f = fopen(file(name), "w");
    if (f)
        fclose(f);
}

static bool there(const char *name)
{
    struct stat st;
    return stat(file(name), &st) == 0;
}

/* ---- nodes ---- */

static void node_open(uint32_t i)
{
    const char *provider = getenv("TRAM_TEST_PROVIDER");
    struct mem_lane_spec s[] = {
        {.owner = 0, .writer = 1, .kind = STREAM, .ring_bytes = RING},
        {.owner = 0, .writer = 1, .kind = RACE, .ring_bytes = RING},
        {.owner = 1, .writer = 0, .kind = STREAM},
    };
    struct mem_lane *lane[3];
    struct err e = {""};
    const struct ofi_options o = {
        .provider = provider ? provider : "tcp",
        .key = (const unsigned char *)"a key for tests, 32 bytes long..",
        .far = {.cluster = "pair",
                .hosts = hosts,
                .hosts_count = NODES,
                .self = i,
                .state = state,
                .silent_ns = 30000000000u}, /* machines that are simulated, and slow */
    };
    for (int k = 0; k < 3; k++) {
        s[k].region = REGION;
        s[k].ctl_words = WORDS;
    }
    if (ofi_open_node(&o, &node[i].mem, &e) != 0 ||
        mem_region_open(node[i].mem, REGION, &node[i].birth, &e) != 0 ||
        mem_lanes_open(node[i].mem, s, 3, lane, &e) != 0) {
        fprintf(stderr, "pair: node %u: %s\n", i, e.text);
        exit(1);
    }
    node[i].stream = lane[0];
    node[i].race = lane[1];
    node[i].told = lane[2];
}

/* Entry e of the stream has so many words, each of which says where it belongs. */
static uint64_t entry_words(uint64_t e)
{
    return 1 + e * UINT64_C(0x9e3779b97f4a7c15) % (e % 8 ? 20 : RING / 8 / (LAG + 1));
}

static uint64_t entry_word(uint64_t e, uint64_t i)
{
    return e << 16 | i;
}

/* ---- who owns ---- */

/* Reads what the guard has newly covered. False: something of it is not there. */
static bool stream_read(uint64_t *seen, uint64_t *pos)
{
    const struct mem_lane *l = node[0].stream;
    for (; *seen < mem_word(l, 0); ++*seen) {
        uint64_t words = entry_words(*seen + 1);
        for (uint64_t i = 0; i < words; i++) {
            uint64_t word;
            memcpy(&word, l->ring + (*pos + 8 * i) % RING, 8);
            if (word != entry_word(*seen + 1, i))
                return false;
        }
        *pos += 8 * words;
    }
    return true;
}

static void own_life(void)
{
    struct mem_flow f = {.status = MEM_LOST};
    uint64_t seen = 0, told = 0, pos = 0, looks = 0;
    bool right = true;
    node_open(0);
    while (!there("end") && !there("life")) {
        for (int i = 0; i < 20000; i++) { /* files are looked for now and then */
            mem_poll(node[0].mem);
            if (!node[0].stream->ctl)
                continue;
            right = right && stream_read(&seen, &pos);
            if (seen == told && right && ++looks % 1000)
                continue;
            if (f.status != MEM_DONE)
                mem_flow_open(node[0].mem, &f, 1, REGION, 0);
            mem_set(node[0].mem, &f, node[0].told, SEEN, (uint64_t[]){seen, !right}, 2);
            told = seen;
        }
    }
    mem_close(node[0].mem);
    unlink(file("life"));
}

/* ---- who uses ---- */

static void step(void)
{
    mem_poll(node[1].mem);
    mem_poll(node[2].mem);
}

static uint64_t patience(void)
{
    return clock_now_ns() + PATIENCE_NS;
}

static enum mem_status finish(struct mem_op *op)
{
    for (uint64_t until = patience(); op->status == MEM_PENDING && clock_now_ns() < until;)
        step();
    return op->status;
}

static enum mem_status settle(struct mem_flow *f)
{
    for (uint64_t until = patience();
         f->status == MEM_DONE && f->done != f->marked && clock_now_ns() < until;)
        step();
    return f->status;
}

static const char *connect_both(void)
{
    uint64_t until = patience();
    while (!(far_connected(node[1].mem, 0) && far_connected(node[2].mem, 0) && node[1].told->ctl))
        if (clock_now_ns() > until)
            return "not connected after a minute";
        else
            step();
    return NULL;
}

static const char *guard_follows_its_data(void)
{
    static uint64_t data[RING / 8];
    struct mem_flow f;
    uint64_t pos = 0, until = patience();
    mem_flow_open(node[1].mem, &f, 0, REGION, 0);
    for (uint64_t e = 1; mem_word(node[1].told, SEEN) < ENTRIES;) {
        if (e <= ENTRIES && e <= mem_word(node[1].told, SEEN) + LAG) {
            uint64_t words = entry_words(e);
            for (uint64_t i = 0; i < words; i++)
                data[i] = entry_word(e, i);
            mem_put(node[1].mem, &f, node[1].stream, pos, data, (uint32_t)words * 8);
            mem_set1(node[1].mem, &f, node[1].stream, 0, e++);
            pos += 8 * words;
        }
        step();
        if (mem_word(node[1].told, WRONG))
            return "the owner saw a guard without its data";
        if (f.status != MEM_DONE)
            return "the flow failed";
        if (clock_now_ns() > until)
            return "the owner has not seen all after a minute";
    }
    return NULL;
}

/* Something long is written, and another node reads its end as soon as it is done. */
static const char *done_is_there(void)
{
    static uint64_t data[RING / 8];
    for (uint64_t k = 1; k <= 50; k++) {
        uint64_t last = 0;
        struct mem_flow f;
        struct mem_op op;
        for (uint64_t i = 0; i < RING / 8; i++)
            data[i] = k << 16 | i;
        mem_flow_open(node[1].mem, &f, 0, REGION, 0);
        mem_put(node[1].mem, &f, node[1].race, 0, data, sizeof data);
        mem_mark(node[1].mem, &f, k);
        if (settle(&f) != MEM_DONE)
            return "a write failed";
        mem_read_ring(node[2].mem, &op, node[2].race, RING - 8, &last, sizeof last);
        if (finish(&op) != MEM_DONE || last != data[RING / 8 - 1])
            return "what is done was not read by another";
        mem_flow_close(node[1].mem, &f);
    }
    return NULL;
}

/* Of so many races some end with a part done, or they would show nothing. */
static const char *races(void)
{
    static uint64_t ring[RING / 8];
    struct rng rng;
    int some = 0;
    rng_init(&rng, 1);
    for (uint64_t i = 0; i < 60; i++) {
        struct race r = {.writer = node[1].mem,
                         .candidate = node[2].mem,
                         .out = node[1].race,
                         .seen = node[2].race,
                         .ballot = 2 * i + 1,
                         .rng = &rng,
                         .step = step,
                         .ring = ring,
                         .until_ns = patience()};
        struct mem_op op;
        mem_raise(node[1].mem, &op, 0, REGION, r.ballot);
        if (finish(&op) != MEM_DONE)
            return "the writer's raise failed";
        const char *wrong = race_run(&r);
        if (wrong)
            return wrong;
        some += r.done > 0;
    }
    return some > 10 ? NULL : "hardly anything was done before it was taken away";
}

static const char *nothing_spans_two_memories(void)
{
    struct mem_flow f;
    struct mem_op op;
    const char *wrong;
    mem_raise(node[1].mem, &op, 0, REGION, 1000);
    if (finish(&op) != MEM_DONE)
        return "a raise failed";
    mem_flow_open(node[1].mem, &f, 0, REGION, 1000);
    touch("life");
    for (uint64_t until = patience(); f.status == MEM_DONE && clock_now_ns() < until; step())
        if (f.done == f.marked) {
            mem_set1(node[1].mem, &f, node[1].race, 0, f.done + 1);
            mem_mark(node[1].mem, &f, f.done + 1);
        }
    if (f.status != MEM_LOST)
        return "the flow is not lost";
    wrong = connect_both();
    if (wrong)
        return wrong;
    mem_raise(node[1].mem, &op, 0, REGION, 1001);
    if (finish(&op) != MEM_DENIED || op.value != MEM_CLOSED)
        return "the new life promises";
    return NULL;
}

static void use(void)
{
    node_open(1);
    node_open(2);
    const char *wrong = connect_both();
    result("pair__connects", wrong);
    if (!wrong) {
        result("pair__a_guard_follows_its_data", guard_follows_its_data());
        result("pair__what_is_done_is_there", done_is_there());
        result("pair__a_done_write_is_seen_after_a_raise", races());
        result("pair__nothing_spans_two_memories", nothing_spans_two_memories());
    }
    touch("end");
    printf("1..%d\n", cases);
    mem_close(node[1].mem);
    mem_close(node[2].mem);
}

int main(int argc, char **argv)
{
    if (argc != 5 || (strcmp(argv[1], "own") != 0 && strcmp(argv[1], "use") != 0) ||
        !mkdtemp(state)) {
        fputs("usage: pair own|use DIR OWNER USER\n", stderr);
        return 2;
    }
    directory = argv[2];
    for (uint16_t i = 0; i < NODES; i++)
        hosts[i] = (struct far_host){.name = (const char *[]){"h0", "h1", "h2"}[i],
                                     .address = argv[i == 0 ? 3 : 4],
                                     .port = (uint16_t)(PORT + i)};
    if (strcmp(argv[1], "use") == 0)
        use();
    else
        while (!there("end"))
            own_life();
    return 0;
}
