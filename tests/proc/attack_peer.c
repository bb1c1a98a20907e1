/* Somebody who has a key and misuses it, for tcp_attack: it proves who it is, says hello as one of us does, and then sends
 * what no one of us sends.
 *
 *     attack_peer FILE client SECONDS [KIND...]           with the client's key that the file names
 *     attack_peer FILE HOST SECONDS [KIND...]             with that host's key, while the host is down
 *     attack_peer FILE HOST listen                        in that host's place, with the key of another file
 *
 * Of each kind of misuse a line is printed: how often it was connected, and how often it was sent away. */
#include "agree/source.h"
#include "api/api.h"
#include "api/keys.h"
#include "base/hash.h"
#include "base/rng.h"
#include "lane/names.h"

#include "../tcp_peer.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

enum { LANES_MAX = 256, MUTES = 1200, THEFTS = 24, BURST = 64, UP_MS = 3000 };

struct hostile {
    const struct tram_cluster *cluster;
    struct tls *tls;
    bool host;
    bool steals;     /* says that it has the place `self`, which nobody has given it */
    uint32_t self;   /* as a host; else the place that it was given */
    uint32_t target; /* host */
    uint32_t life;
    uint64_t birth;
    uint64_t age; /* of ours, as the others know it */
    struct rng rng;
    struct tcp_peer peer;
    bool up;
    /* Lanes that the other side has told where they are. */
    struct mem_lane_spec lane[LANES_MAX];
    uint64_t key[LANES_MAX];
    bool known[LANES_MAX];
    uint32_t lanes;
    uint32_t flows;
    uint64_t connected, ended, refused;
};

/* ---- connecting ---- */

static int dial(const struct hostile *h)
{
    const struct cluster *c = h->cluster->conf;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(c->host[h->target].port)};
    struct timeval patience = {.tv_usec = 100000};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, c->host[h->target].address, &to.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static void say_hello(struct hostile *h)
{
    const char *name = h->cluster->conf->name;
    const struct tcp_hello hello = {.magic = TCP_MAGIC,
                                    .version = TCP_VERSION,
                                    .from = h->host || h->steals ? h->self : FAR_ANY,
                                    .to = h->target,
                                    .life = h->life,
                                    .birth = h->birth,
                                    .cluster = hash_bytes(0, name, strlen(name))};

    tcp_peer_send(&h->peer, (struct tcp_frame){.kind = TCP_HELLO, .words = sizeof hello / 8},
                  &hello);
    uint64_t first[FAR_HOSTS_MAX];
    memset(first, 0xff, sizeof first);
    if (h->steals)
        tcp_peer_say(&h->peer, FAR_FIRST, first, h->cluster->conf->hosts);
    else if (!h->host)
        tcp_peer_say(&h->peer, FAR_PLACE_WANT, &(uint32_t[2]){FAR_ANY, 0}, 1);
}

/* As one that has come back without its memory. */
static void say_roll(struct hostile *h)
{
    struct roll_item own = {
        .host = h->self, .status = ROLL_BEREFT, .age = h->age + 1, .first = ROLL_NEVER};

    tcp_peer_say(&h->peer, FAR_ROLL, &own, 1);
}

static void lane_want(struct hostile *h, struct mem_lane_spec spec)
{
    struct far_want want = {.id = h->lanes, .spec = spec};

    if (h->lanes == LANES_MAX)
        return;
    h->known[h->lanes] = false;
    h->lane[h->lanes++] = spec;
    tcp_peer_say(&h->peer, FAR_WANT, &want, 1);
}

/* What the other side writes here we write there, if we are a host: lanes of hosts are alike in both directions. */
static void on_wants(struct hostile *h, const struct far_want *want, uint32_t count)
{
    for (uint32_t i = 0; h->host && i < count; i++) {
        struct mem_lane_spec spec = want[i].spec;
        spec.owner = h->target;
        spec.writer = h->self;
        lane_want(h, spec);
    }
}

static void on_places(struct hostile *h, const struct far_at *at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (at[i].id < h->lanes && at[i].matches) {
            h->known[at[i].id] = true;
            h->key[at[i].id] = at[i].key;
        }
}

/* The lanes that a client has at a host, for all groups. */
static void lanes_of_client(struct hostile *h)
{
    const struct tram_cluster *c = h->cluster;
    uint32_t place = h->self - c->conf->hosts;

    for (uint32_t g = 0; g < c->conf->groups; g++) {
        struct mem_lane_spec spec = lane_spec(g, h->target, h->self, LANE_SOURCE, place);
        spec.ctl_words = SOURCE_WORDS;
        spec.ring_bytes = c->sizes.source_bytes;
        lane_want(h, spec);
    }
}

static void on_message(struct hostile *h, const struct far_head *m)
{
    const struct roll_item *item = far_items(m);

    switch (m->kind) {
    case FAR_REFUSE: /* another process was this host: the next life is ours */
        h->refused++;
        h->life = ((const struct far_refuse *)(const void *)m)->life + 1;
        break;
    case FAR_ROLL:
        for (uint32_t i = 0; i < m->count; i++)
            if (item[i].host == h->self && item[i].age > h->age)
                h->age = item[i].age;
        if (!h->up)
            say_roll(h);
        break;
    case FAR_PLACE:
        h->self = ((const struct far_place *)(const void *)m)->node;
        h->up = true;
        lanes_of_client(h);
        break;
    case FAR_PULSE:
        h->up = true;
        break;
    case FAR_WANT:
        on_wants(h, far_items(m), m->count);
        break;
    case FAR_AT:
        on_places(h, far_items(m), m->count);
        break;
    default:
        break;
    }
}

/* Takes what has come, for that long at most. */
static void hear(struct hostile *h, int ms)
{
    const struct tcp_frame *f;

    tcp_peer_hear(&h->peer, ms);
    while ((f = tcp_peer_frame(&h->peer)) != NULL) {
        if (f->kind == TCP_MESSAGE)
            on_message(h, (const void *)(f + 1));
        tcp_peer_drop(&h->peer);
    }
}

static bool connected(struct hostile *h)
{
    int fd = dial(h);

    h->up = false;
    h->lanes = h->flows = 0;
    if (fd < 0)
        return false;
    tcp_peer_begin(&h->peer, fd, h->tls, false);
    if (tcp_peer_shake(&h->peer)) {
        uint64_t before = h->refused;
        say_hello(h);
        for (int ms = 0; ms < UP_MS && !h->up && !h->peer.over && h->refused == before; ms += 10)
            hear(h, 10);
        hear(h, h->up ? 10 : 0);
    }
    if (h->up) {
        h->connected++;
        return true;
    }
    tcp_peer_close(&h->peer);
    return false;
}

/* ---- misuse ---- */

static uint32_t below(struct hostile *h, uint32_t n)
{
    return (uint32_t)(rng_u64(&h->rng) % n);
}

static void fill(struct hostile *h, void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = rng_u64(&h->rng);
        memcpy((char *)out + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

/* Often small, seldom anything. */
static uint32_t odd(struct hostile *h)
{
    return below(h, 4) ? below(h, 16) : (uint32_t)rng_u64(&h->rng);
}

static void garbage(struct hostile *h)
{
    unsigned char bytes[4096];

    fill(h, bytes, sizeof bytes);
    tls_write(h->peer.end, bytes, sizeof bytes);
    tcp_peer_flush(&h->peer);
}

/* Frames that are whole, of any kind, with anything in them. */
static void frames(struct hostile *h)
{
    uint64_t words[64];
    struct tcp_frame f = {.kind = (uint8_t)below(h, TCP_KINDS + 1),
                          .words = (uint16_t)below(h, 64),
                          .flow = odd(h),
                          .lane = odd(h),
                          .at = odd(h)};

    for (int i = 0; i < 64; i++)
        words[i] = below(h, 2) ? odd(h) : rng_u64(&h->rng);
    tcp_peer_send(&h->peer, f, words);
}

static void lengths(struct hostile *h)
{
    static const uint16_t lies[] = {0, 1, TCP_FRAME_WORDS, TCP_FRAME_WORDS + 1, 65535};
    uint64_t words[8] = {rng_u64(&h->rng)};
    struct tcp_frame f = {.kind = (uint8_t)(1 + below(h, TCP_KINDS)), .words = lies[below(h, 5)]};

    tls_write(h->peer.end, &f, sizeof f);
    tls_write(h->peer.end, words, sizeof words);
    tcp_peer_flush(&h->peer);
}

static void flow_open(struct hostile *h, uint32_t region, uint64_t ballot)
{
    const uint64_t words[] = {ballot, 1};

    tcp_peer_send(
        &h->peer,
        (struct tcp_frame){.kind = TCP_OPEN, .words = 2, .flow = h->flows++, .lane = region},
        words);
}

static void flows(struct hostile *h)
{
    for (int i = 0; i < BURST; i++)
        flow_open(h, below(h, 4), 0);
}

/* A lane that we may write; NULL: there is none. */
static const struct mem_lane_spec *any_lane(struct hostile *h, uint64_t *key)
{
    for (int tries = 0; tries < 8 && h->lanes > 0; tries++) {
        uint32_t i = below(h, h->lanes);
        *key = h->key[i];
        if (h->known[i])
            return &h->lane[i];
    }
    return NULL;
}

/* Nonsense where we may write: into rings, and into the words that say what is in them. */
static void writes(struct hostile *h)
{
    uint64_t words[TCP_FRAME_WORDS], key;
    const struct mem_lane_spec *l = any_lane(h, &key);

    hear(h, 0);
    if (!l)
        return;
    if (h->flows == 65000)
        h->flows = 0;
    uint32_t flow = h->flows;
    flow_open(h, l->region, 0);
    uint32_t count = l->ring_bytes / 8 < 256 ? l->ring_bytes / 8 : 256;
    fill(h, words, sizeof words);
    if (count > 0)
        tcp_peer_send(&h->peer,
                      (struct tcp_frame){.kind = TCP_PUT,
                                         .words = (uint16_t)count,
                                         .flow = flow,
                                         .lane = (uint32_t)key,
                                         .at = 8 * below(h, l->ring_bytes / 8 - count + 1)},
                      words);
    for (uint32_t i = 0; i < l->ctl_words && i < 16; i++)
        words[i] = below(h, 2) ? odd(h) : rng_u64(&h->rng);
    count = l->ctl_words < 16 ? l->ctl_words : 16;
    tcp_peer_send(&h->peer,
                  (struct tcp_frame){.kind = TCP_SET,
                                     .words = (uint16_t)count,
                                     .flow = flow,
                                     .lane = (uint32_t)key,
                                     .at = 0},
                  words);
    tcp_peer_send(&h->peer, (struct tcp_frame){.kind = TCP_MARK, .words = 1, .flow = flow},
                  &(uint64_t){1});
}

/* As much as one can ask for, and nobody takes the answers. */
static void reads(struct hostile *h)
{
    uint64_t key;
    const struct mem_lane_spec *l = any_lane(h, &key);
    uint64_t count = TCP_FRAME_WORDS;

    if (!l) {
        hear(h, 10);
        return;
    }
    if (l->ring_bytes < 8 * count)
        count = 1;
    for (int i = 0; i < BURST; i++)
        tcp_peer_send(&h->peer,
                      (struct tcp_frame){.kind = l->ring_bytes ? TCP_READ_RING : TCP_READ_CTL,
                                         .words = 1,
                                         .lane = (uint32_t)key},
                      &count);
}

static void lanes(struct hostile *h)
{
    struct far_want want[FAR_WANTS_MAX];

    for (uint32_t i = 0; i < FAR_WANTS_MAX; i++)
        want[i] = (struct far_want){.id = odd(h),
                                    .spec = {.owner = h->target,
                                             .writer = h->self,
                                             .region = below(h, 2) ? below(h, 2) : odd(h),
                                             .kind = (uint32_t)rng_u64(&h->rng),
                                             .ctl_words = odd(h),
                                             .ring_bytes = 4096u << below(h, 16)}};
    tcp_peer_say(&h->peer, FAR_WANT, want, FAR_WANTS_MAX);
}

/* Sizes that differ from the owner's, which it says in its log. */
static void sizes(struct hostile *h)
{
    struct far_want want = {.id = 1, .spec = h->lane[below(h, h->lanes ? h->lanes : 1)]};

    if (h->lanes == 0)
        return;
    want.spec.ctl_words += 1 + below(h, 1000);
    for (int i = 0; i < BURST; i++)
        tcp_peer_say(&h->peer, FAR_WANT, &want, 1);
}

/* Messages that are whole, with nonsense in them. A host's raises are of regions that nobody has, and its news and rolls of nodes
 * that are none: one of a real region takes the group from its leader, news of a later life of a place end the client that is
 * there, and who believes a roll of another host's beginning refuses that host. A host's key is the right to say these. */
static void messages(struct hostile *h)
{
    static const enum far_kind kinds[] = {FAR_NEWS,  FAR_RAISE, FAR_RAISED,     FAR_AT,   FAR_END,
                                          FAR_FIRST, FAR_PLACE, FAR_PLACE_WANT, FAR_PAGE, FAR_LOOK,
                                          FAR_PULSE, FAR_BELL,  FAR_FACTS,      FAR_WANT, FAR_ROLL};
    enum far_kind kind = kinds[below(h, sizeof kinds / sizeof *kinds)];
    uint64_t words[FAR_MESSAGE_MAX / 8];
    uint32_t *small = (uint32_t *)words;

    for (uint32_t i = 0; i < 2 * sizeof words / 8; i++)
        small[i] = odd(h);
    if (kind == FAR_RAISE || ((kind == FAR_NEWS || kind == FAR_ROLL) && h->host))
        small[0] = 1000 + below(h, 1000);
    tcp_peer_say(&h->peer, kind, words, 1);
}

/* The same message again and again, which is right by itself. */
static void flood(struct hostile *h)
{
    struct far_news news[FAR_NEWS_MAX];
    struct roll_item own = {
        .host = h->self, .status = ROLL_BEREFT, .age = h->age + 1, .first = ROLL_NEVER};

    for (uint32_t i = 0; i < FAR_NEWS_MAX; i++)
        news[i] = (struct far_news){.node = below(h, h->cluster->conf->hosts)};
    for (int i = 0; i < BURST; i++) {
        tcp_peer_say(&h->peer, FAR_PULSE, news, 1);
        if (h->host)
            tcp_peer_say(&h->peer, FAR_NEWS, news, FAR_NEWS_MAX);
        if (h->host)
            tcp_peer_say(&h->peer, FAR_ROLL, &own, 1);
    }
}

/* Says that the others' lives are over: of one host that is no reason to end. */
static void refuses(struct hostile *h)
{
    struct far_refuse r = {.reason = below(h, 2) ? FAR_REASON_LIFE : FAR_REASON_TWIN,
                           .life = 1000 + below(h, 1000)};

    tcp_peer_say(&h->peer, FAR_REFUSE, &r.head + 1, 1);
}

/* Comes, proves who it is, and goes: each costs the other side a handshake. */
static void comes(struct hostile *h)
{
    tcp_peer_close(&h->peer);
    h->peer.over = true;
}

/* Proves who it is, and does not even say hello: thousands of them. */
static void mute(struct hostile *h)
{
    struct tls_end *end[MUTES];
    int fd[MUTES], count = 0;

    while (count < MUTES) {
        struct tcp_peer *p = &h->peer;
        tcp_peer_close(p);
        fd[count] = dial(h);
        if (fd[count] < 0)
            break;
        tcp_peer_begin(p, fd[count], h->tls, false);
        tcp_peer_shake(p);
        end[count] = p->end;
        count++;
        p->end = NULL;
        p->fd = -1;
    }
    for (int i = 0; i < count; i++) {
        tls_end_free(end[i]);
        close(fd[i]);
    }
    h->connected += (uint64_t)count;
    h->peer.over = true;
}

/* Says to be the client in each place in turn, in a later life than any. */
static void thief(struct hostile *h)
{
    h->steals = true;
    h->life = 60000;
    for (uint32_t place = 0; place < THEFTS; place++) {
        tcp_peer_close(&h->peer);
        h->self = h->cluster->conf->hosts + place;
        connected(h);
    }
    h->steals = false;
    h->life = 0;
    h->peer.over = true;
}

static const struct kind {
    const char *name;
    void (*step)(struct hostile *);
} kinds[] = {
    {"garbage", garbage}, {"frames", frames},     {"lengths", lengths}, {"flows", flows},
    {"writes", writes},   {"reads", reads},       {"lanes", lanes},     {"sizes", sizes},
    {"flood", flood},     {"messages", messages}, {"refuses", refuses}, {"comes", comes},
    {"mute", mute},       {"thief", thief},
};

/* One kind for that long, with all hosts in turn. */
static void misuse(struct hostile *h, const struct kind *k, uint64_t ns)
{
    uint64_t until = clock_now_ns() + ns;
    uint32_t hosts = h->cluster->conf->hosts;

    h->connected = h->ended = h->refused = 0;
    for (uint32_t n = 0; clock_now_ns() < until; n++) {
        h->target = n % hosts;
        if ((h->host && h->target == h->self) || !connected(h)) {
            usleep(1000);
            continue;
        }
        /* Half of the time at most with one of them. */
        uint64_t turn = clock_now_ns() + ns / hosts;
        while (!h->peer.over && clock_now_ns() < turn) {
            k->step(h);
            if (h->peer.fd >= 0 &&
                poll(&(struct pollfd){.fd = h->peer.fd, .events = POLLRDHUP}, 1, 0) > 0)
                break;
        }
        h->ended += clock_now_ns() < turn;
        if (h->peer.fd >= 0)
            tcp_peer_close(&h->peer);
    }
    printf("%s connected %llu ended %llu refused %llu\n", k->name, (unsigned long long)h->connected,
           (unsigned long long)h->ended, (unsigned long long)h->refused);
    fflush(stdout);
}

/* ---- a listener ---- */

static int listen_as(struct hostile *h)
{
    const struct cluster *c = h->cluster->conf;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(c->host[h->self].port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, c->host[h->self].address, &at.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 64) < 0) {
        perror("listen");
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int came = accept(fd, NULL, NULL);
        if (came < 0)
            continue;
        tcp_peer_begin(&h->peer, came, h->tls, true);
        tcp_peer_shake(&h->peer);
        tcp_peer_close(&h->peer);
    }
}

/* ---- all ---- */

static bool is_wanted(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    static struct hostile h;
    struct tram_cluster *cluster;
    struct tcp_options o = {0};
    struct tram_error error = {""};
    struct err e = {""};

    if (argc < 4 || tram_cluster_load(argv[1], &cluster, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    int host = tram_cluster_host(cluster, argv[2]);
    h.cluster = cluster;
    h.host = host >= 0;
    h.self = h.host ? (uint32_t)host : 0;
    uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : clock_now_ns();
    rng_init(&h.rng, seed);
    h.birth = rng_u64(&h.rng) | 1;
    if (api_keys_open(cluster->conf, cluster->file, h.host ? host : CLUSTER_NONE, &o, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    h.tls = o.tls;
    if (strcmp(argv[3], "listen") == 0)
        return listen_as(&h);
    printf("seed %llu\n", (unsigned long long)seed);
    uint32_t count = 0;
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        count += is_wanted(kinds[i].name, argv + 4, argc - 4);
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_wanted(kinds[i].name, argv + 4, argc - 4))
            misuse(&h, &kinds[i], (uint64_t)(strtod(argv[3], NULL) * 1e9 / count));
    if (o.keys)
        o.keys->close(o.keys_ctx);
    api_keys_drop(&o);
    tram_cluster_free(cluster);
    return 0;
}
