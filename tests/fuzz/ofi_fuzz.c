/* Whatever bytes come over a connection, before or after the proof: a host reads them, refuses them or ends
 * the link, and goes on. The first byte says what kind of link it is, the rest is a connect request or
 * messages one after the other. */
#include "../far_fixture.h"
#include "base/say.h"
#include "mem/ofi/impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct ofi *node;
static struct mem_lane *lanes[4];

/* One host for all inputs, with some lanes and a region; nobody else is there. */
static struct ofi *node_get(void)
{
    static struct far_fixture fixture;
    struct mem_lane_spec specs[] = {
        {.owner = 0, .writer = 1, .region = 1, .kind = 1, .ctl_words = 4, .ring_bytes = 4096},
        {.owner = 0, .writer = 5, .region = 1, .kind = 2, .ctl_words = 1},
        {.owner = 1, .writer = 0, .region = 1, .kind = 1, .ctl_words = 4, .ring_bytes = 4096},
        {.owner = 5, .writer = 0, .region = 1, .kind = 3, .ctl_words = 2},
    };
    enum mem_birth birth;
    struct err e = {""};
    struct mem *m;

    if (node)
        return node;
    far_fixture_begin(&fixture);
    CHECK(far_fixture_open(&fixture, 0, &m, &e) == 0);
    far_fixture_end(&fixture); /* the file of lives stays open */
    CHECK(mem_region_open(m, 1, &birth, &e) == 0);
    CHECK(mem_lanes_open(m, specs, 4, lanes, &e) == 0);
    node = (struct ofi *)m;
    node->far.say = (struct say){0};
    return node;
}

static struct link *link_make(struct ofi *o, unsigned kind)
{
    struct peer *p = kind & 4 ? NULL : o->far.peers[1];

    if (p && kind & 8) { /* a client that has a place */
        p = o->far.peers[5] ? o->far.peers[5] : far_peer_add(&o->far, 5, "client-2");
        CHECK(p != NULL);
    }
    struct fi_info *info = ofi_library.dupinfo(o->net.info);
    info->dest_addr = info->src_addr; /* never dialed */
    info->dest_addrlen = info->src_addrlen;
    info->src_addr = NULL;
    struct ofi_link *own = ofi_link_new(o, p, info, STAGE_BYTES_MIN);
    CHECK(own != NULL);
    struct link *l = &own->link;
    l->dialed = kind & 16 && p;
    o->far.looks = p && kind & 64;
    l->state = p && !o->far.looks ? LINK_PROVING : LINK_PLACING;
    ofi_hello_make(&o->auth, 1, 0, 0, &own->hello);
    ofi_prove_make(&o->auth, &own->hello, 0, o->far.birth, &own->prove);
    if (p && kind & 32) {
        l->state = LINK_UP;
        l->proven = true;
        l->life = (uint32_t)(p->lives ? p->lives - 1 : 0);
        p->lives = (uint64_t)l->life + 1;
        p->link = l;
        o->far.links_pending--;
        far_lanes_ask(l);
    }
    return l;
}

/* As the completion of a receive does. */
static void feed(struct link *l, const uint8_t *data, size_t bytes)
{
    static _Alignas(8) uint8_t whole[FAR_MESSAGE_MAX];

    while (l->state != LINK_CLOSED && bytes >= sizeof(struct far_head)) {
        struct far_head h;
        memcpy(&h, data, sizeof h);
        size_t n = h.bytes < bytes ? h.bytes : bytes;
        n = n < sizeof h ? sizeof h : n > sizeof whole ? sizeof whole : n;
        memcpy(whole, data, n);
        const struct far_head *m = ofi_message(whole, n);
        if (!m || !far_message_take(l, m)) {
            link_close(l, false, "malformed");
            return;
        }
        data += n;
        bytes -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ofi *o = node_get();
    struct ofi_hello hello;

    if (bytes == 0)
        return 0;
    if (data[0] & 1) {
        enum far_reason r = ofi_hello_check(&o->auth, data + 1, bytes - 1, 0, &hello);
        CHECK((unsigned)r < FAR_REASONS && far_reason_text(r) != NULL);
        return 0;
    }
    struct link *l = link_make(o, data[0]);
    bool stranger = l->state == LINK_PROVING;
    feed(l, data + 1, bytes - 1);
    CHECK(!stranger || !l->proven);
    if (l->state != LINK_CLOSED)
        link_close(l, true, "the end");
    far_links_free(&o->far);
    o->far.dirty = NULL;
    o->far.dirty_last = &o->far.dirty;
    CHECK(o->far.links == NULL && o->far.links_pending == 0);
    return 0;
}
