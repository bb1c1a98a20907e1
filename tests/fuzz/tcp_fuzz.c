/* Whatever frames come from somebody who has a key: a host reads them, ends that link if one is wrong, and goes on. Nothing
 * lands but in the lanes of who sent it, and the link of a bystander is as it was. The first byte says who it is and how
 * far they have come, the second in pieces of what size it comes, the rest are frames, as they are inside TLS. */
#include "../far_fixture.h"
#include "base/say.h"
#include "mem/tcp/impl.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { HOST = 1, BYSTANDER = 2, CLIENT = 5, REGION = 1, WORDS = 4, RING = 4096 };

/* Lanes by number; the first three are ours. */
enum { OF_HOST, OF_BYSTANDER, OF_CLIENT, TO_HOST, TO_CLIENT, LANES };

static struct tcp *node;
static struct mem_lane *lanes[LANES];
static struct tls *clear;
static struct tcp_link *bystander;
static int bystander_fd;
static struct mem_flow flow;
static struct mem_op ops[3];
static unsigned char out[RING];

static void node_open(void)
{
    static struct far_fixture fixture;
    const struct mem_lane_spec specs[LANES] = {
        [OF_HOST] = {0, HOST, REGION, 1, WORDS, RING, 0},
        [OF_BYSTANDER] = {0, BYSTANDER, REGION, 1, WORDS, RING, 0},
        [OF_CLIENT] = {0, CLIENT, REGION, 2, WORDS, RING, 0},
        [TO_HOST] = {HOST, 0, REGION, 1, WORDS, RING, 0},
        [TO_CLIENT] = {CLIENT, 0, REGION, 3, WORDS, RING, 0},
    };
    enum mem_birth birth;
    struct err e = {""};
    struct mem *m;

    far_fixture_begin(&fixture);
    fixture.carrier = FAR_FIXTURE_CLEAR;
    CHECK(far_fixture_open(&fixture, 0, &m, &e) == 0);
    clear = far_fixture_tls(&fixture, 0, fixture.key);
    far_fixture_end(&fixture); /* the file of lives stays open */
    CHECK(mem_region_open(m, REGION, &birth, &e) == 0);
    CHECK(mem_lanes_open(m, specs, LANES, lanes, &e) == 0);
    node = (struct tcp *)m;
    node->far.say = (struct say){0};
}

/* ---- links ---- */

/* A connection whose other side has shaken hands; *other is that side. */
static struct tcp_link *link_make(struct peer *p, bool host, int *other)
{
    int fd[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) == 0);
    struct arrival a = {.fd = fd[0], .end = tls_end_new(clear, true)};
    a.who = (struct tls_peer){.host = host, .index = host && p ? p->node : 0};
    struct tcp_link *l = tcp_link_new(node, &a);
    CHECK(l != NULL);
    far_link_begin(&node->far, &l->link, NULL);
    l->link.state = LINK_PROVING;
    *other = fd[1];
    return l;
}

static void lane_grant(struct tcp_link *l, int lane)
{
    ((struct lane *)lanes[lane])->writer_link = l->link.id;
}

static void lane_have(struct tcp_link *l, int lane)
{
    struct lane *own = (struct lane *)lanes[lane];

    own->link_id = l->link.id;
    own->key = 0;
}

static void make_up(struct tcp_link *l, struct peer *p)
{
    l->link.peer = p;
    l->helloed = l->link.proven = l->link.ready = true;
    l->link.life = (uint32_t)(p->lives ? p->lives - 1 : 0);
    p->lives = (uint64_t)l->link.life + 1;
    p->birth = l->link.birth = 7;
    p->link = &l->link;
    l->link.state = LINK_UP;
    l->link.up_ns = node->far.now_ns;
    node->far.links_pending--;
    far_lanes_ask(&l->link);
}

/* Something is under way in both directions. */
static void make_busy(struct tcp_link *l, uint32_t peer)
{
    struct mem *m = &node->far.mem;
    int to = peer == HOST ? TO_HOST : TO_CLIENT;

    lane_grant(l, peer == HOST ? OF_HOST : OF_CLIENT);
    lane_have(l, to);
    node->far.flow_gen = 0; /* so that an input can answer it */
    mem_flow_open(m, &flow, peer, REGION, 0);
    mem_set1(m, &flow, lanes[to], 0, 1);
    mem_mark(m, &flow, 3);
    mem_read_ring(m, &ops[0], lanes[to], 0, out, 64);
    mem_raise(m, &ops[1], peer, REGION, 5);
    mem_peek(m, &ops[2], peer, REGION);
}

static void bystander_make(void)
{
    struct peer *p = node->far.peers[BYSTANDER];
    const uint64_t words[] = {0, 1};
    struct tcp_frame open = {.kind = TCP_OPEN, .words = 2, .lane = REGION};

    bystander = link_make(p, true, &bystander_fd);
    make_up(bystander, p);
    lane_grant(bystander, OF_BYSTANDER);
    CHECK(tcp_frame_take(bystander, &open, words) == NULL);
}

enum { IS_HOST, IS_DIALED_HOST, IS_CLIENT, HAS_NO_PLACE, KINDS };
enum { SAYS_HELLO, IS_KNOWN, IS_UP, STATES };

static struct peer *client_peer(void)
{
    struct peer *p = far_peer_get(&node->far, CLIENT);

    CHECK(p != NULL);
    return p;
}

static struct tcp_link *hostile_make(unsigned kind, unsigned state, int *other)
{
    bool host = kind == IS_HOST || kind == IS_DIALED_HOST;
    struct peer *p = host ? node->far.peers[HOST] : kind == IS_CLIENT ? client_peer() : NULL;
    struct tcp_link *l = link_make(p, host, other);

    l->link.dialed = kind == IS_DIALED_HOST;
    if (l->link.dialed || state != SAYS_HELLO)
        l->link.peer = p;
    if (l->link.dialed)
        l->link.proven = true;
    if (state == SAYS_HELLO)
        return l;
    l->helloed = l->link.proven = true;
    l->link.birth = 7;
    l->link.state = host ? LINK_MEETING : LINK_PLACING;
    if (state == IS_UP && p) {
        make_up(l, p);
        make_busy(l, p->node);
    }
    return l;
}

/* ---- what must not change ---- */

static struct {
    unsigned char ring[LANES][RING];
    uint64_t ctl[LANES][WORDS];
    uint64_t promised;
} before;

static void remember(void)
{
    for (int i = 0; i < LANES; i++) {
        if (lanes[i]->ring)
            memcpy(before.ring[i], lanes[i]->ring, RING);
        for (uint32_t w = 0; lanes[i]->ctl && w < WORDS; w++)
            before.ctl[i][w] = mem_word(lanes[i], w);
    }
    before.promised = mem_promised(&node->far.mem, REGION);
}

static void check_lane(int i)
{
    if (lanes[i]->ring)
        CHECK(memcmp(before.ring[i], lanes[i]->ring, RING) == 0);
    for (uint32_t w = 0; lanes[i]->ctl && w < WORDS; w++)
        CHECK(before.ctl[i][w] == mem_word(lanes[i], w));
}

static void check_unharmed(unsigned kind)
{
    bool host = kind == IS_HOST || kind == IS_DIALED_HOST;

    check_lane(OF_BYSTANDER);
    check_lane(host ? OF_CLIENT : OF_HOST);
    if (!host) {
        CHECK(mem_promised(&node->far.mem, REGION) == before.promised);
        CHECK(node->far.failure[0] == 0);
    }
    if (kind == HAS_NO_PLACE)
        check_lane(OF_CLIENT);
    CHECK(bystander->link.state == LINK_UP && !bystander->link.fault);
    CHECK(node->far.peers[BYSTANDER]->link == &bystander->link);
    CHECK(bystander->in_flows == 1 && bystander->in_flow[0].open &&
          bystander->in_flow[0].status == MEM_DONE);
}

/* ---- feeding ---- */

static void drain(int fd)
{
    unsigned char some[16384];

    while (recv(fd, some, sizeof some, MSG_DONTWAIT) > 0)
        ;
}

static bool is_there(uint64_t id)
{
    for (const struct link *l = node->far.links; l; l = l->next)
        if (l->id == id)
            return true;
    return false;
}

static void feed(uint64_t id, int fd, const uint8_t *data, size_t bytes, size_t piece)
{
    while (is_there(id) && bytes > 0) {
        ssize_t n = send(fd, data, bytes < piece ? bytes : piece, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
        mem_poll(&node->far.mem);
        drain(fd);
        drain(bystander_fd);
    }
}

static void forget(void)
{
    struct mem_lane_spec offered;

    while (mem_offer(&node->far.mem, &offered))
        ;
    node->far.failure[0] = 0;
    node->far.looks = false;
    mem_flow_close(&node->far.mem, &flow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!node) {
        node_open();
        bystander_make();
    }
    if (bytes < 2)
        return 0;
    unsigned kind = data[0] % KINDS, state = data[0] / KINDS % STATES;
    int fd;
    bystander->link.heard_ns = node->far.now_ns; /* it is never silent */
    struct tcp_link *l = hostile_make(kind, state, &fd);
    if (data[0] / (KINDS * STATES) % 2 && kind == IS_DIALED_HOST && state == IS_KNOWN) {
        node->far.looks = true;
        l->link.state = LINK_PLACING;
    }
    uint64_t id = l->link.id;
    remember();
    feed(id, fd, data + 2, bytes - 2, data[1] ? data[1] * 8u + 1 : SIZE_MAX);
    check_unharmed(kind);
    if (is_there(id))
        link_close(&l->link, true, "the end");
    forget();
    close(fd);
    mem_poll(&node->far.mem);
    CHECK(node->far.links == &bystander->link && bystander->link.next == NULL);
    CHECK(node->far.links_pending == 0 && node->far.peers[HOST]->link == NULL);
    for (int i = 0; i < 3; i++)
        CHECK(ops[i].status != MEM_PENDING);
    check_unharmed(kind);
    return 0;
}
