/* What a node is beside what all that go over a network are. */
#include "mem/ofi/ofi.h"

#include "base/clock.h"
#include "mem/ofi/impl.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static struct ofi *node_of(struct mem *m)
{
    return ofi_of(far_of(m));
}

/* ---- polling, waking, sleeping ---- */

static int ofi_poll(struct mem *m)
{
    struct ofi *o = node_of(m);
    struct far *f = &o->far;

    /* What is timed here takes milliseconds. */
    if (f->dozing || f->polls++ % POLLS_PER_CLOCK == 0)
        f->now_ns = clock_now_ns();
    int changes = f->news + (f->dirty ? far_post_all(f) : 0);
    f->news = 0;
    /* Writes of others land within fi_cq_read, and nothing tells: who has looked at his memory and is
     * about to sleep must not let any land unseen. So he only looks whether something has come. */
    if (!f->dozing || !o->net.data_wakes)
        changes += ofi_links_poll(o);
    else if (!o->drained || net_wait(&o->net, 0))
        changes += 1 + ofi_links_poll(o);
    if (f->own_marks)
        changes += far_own_marks_judge(f);
    if (f->now_ns >= f->chores_ns)
        far_peers_look_after(f);
    if (f->held_back)
        changes += far_places_look_after(f);
    if (o->raises)
        ofi_raises_look_after(o);
    /* Answers to what has just come in. */
    if (f->dirty)
        changes += far_post_all(f);
    return changes;
}

static void ofi_bell_later(struct mem *m, uint32_t node)
{
    struct ofi *o = node_of(m);
    struct link *l = far_link_to(&o->far, node);

    /* What comes in over tcp wakes by itself, and leaves with the next poll. */
    if (!l || o->net.data_wakes || ofi_link(l)->belled)
        return;
    ofi_link(l)->belled = link_send(l, FAR_BELL, NULL, 1);
}

static void ofi_bell(struct mem *m, uint32_t node)
{
    struct link *l = far_link_to(far_of(m), node);

    ofi_bell_later(m, node);
    if (l && l->dirty && !l->fault)
        ofi_link_push(ofi_link(l));
}

static bool ofi_arm(struct far *f)
{
    return net_arm(&ofi_of(f)->net);
}

static bool ofi_restless(const struct far *f)
{
    return ofi_of(f)->raises > 0;
}

static void ofi_wait(struct far *f, uint64_t until_ns)
{
    net_wait(&ofi_of(f)->net, until_ns);
}

static void ofi_wake(struct mem *m)
{
    net_wake(&node_of(m)->net);
}

static int ofi_loop_open(struct mem *m, int epoll_fd, struct err *e)
{
    return net_loop_open(&node_of(m)->net, epoll_fd, e);
}

/* ---- opening ---- */

static bool read_lane(struct link *l, struct mem_op *op, const struct lane *lane, bool ring,
                      uint64_t pos, void *out, uint32_t bytes, bool more)
{
    uint64_t from = ring ? lane->ring + (pos & (lane->pub.spec.ring_bytes - 1)) : lane->ctl + pos;

    return ofi_link_read(ofi_link(l), op, from, lane->key, out, bytes, more);
}

static void ofi_closed(struct far *f)
{
    struct ofi *o = ofi_of(f);

    if (o->promised_mr)
        fi_close(&o->promised_mr->fid);
    net_close(&o->net);
    free(o->notices);
    sodium_memzero(&o->auth, sizeof o->auth);
}

const struct far_carrier ofi_carrier = {
    .send = ofi_link_send,
    .message = ofi_message_take,
    .dial = ofi_dial,
    .events = ofi_events_take,
    .post = ofi_link_post,
    .stop = ofi_link_stop,
    .stopped = ofi_link_stopped,
    .freed = ofi_link_freed,
    .room = ofi_link_room,
    .sent = ofi_link_sent,
    .chunk_add = ofi_chunk_add,
    .chunk_drop = ofi_chunk_drop,
    .grant = ofi_grant,
    .region_opened = ofi_region_opened,
    .promise = ofi_promise,
    .raise = ofi_raise,
    .flow_open = ofi_flow_open,
    .put = ofi_put,
    .set = ofi_set,
    .mark = ofi_mark,
    .read = read_lane,
    .peek = ofi_peek,
    .poll = ofi_poll,
    .bell = ofi_bell,
    .bell_later = ofi_bell_later,
    .wake = ofi_wake,
    .loop_open = ofi_loop_open,
    .arm = ofi_arm,
    .restless = ofi_restless,
    .wait = ofi_wait,
    .locked = ofi_locked_bytes,
    .close = ofi_closed,
};

static int open_net(struct ofi *o, const struct ofi_options *p, struct err *e)
{
    int rc = net_open(&o->net, p, e);

    if (rc < 0)
        return rc;
    /* On verbs the card acknowledges, and knows nothing of promises. */
    o->read_back = p->read_back || !o->net.data_wakes;
    o->promised_mr =
        net_register(&o->net, o->far.promised, FAR_REGIONS_MAX * sizeof(uint64_t), FI_REMOTE_READ);
    if (!o->promised_mr)
        return err_set(e, ERR_NOMEM, "register the promised words of %s", o->far.name);
    o->notices = calloc(FAR_REGIONS_MAX, sizeof *o->notices);
    if (!o->notices)
        return err_set(e, ERR_NOMEM, "regions of %s: no memory", o->far.name);
    if (!o->far.host)
        return 0;
    /* The address first: who cannot have it must not count a life. */
    rc = net_listen(&o->net, &p->far, e);
    return rc == 0 ? net_self_check(&o->net, e) : rc;
}

int ofi_open_node(const struct ofi_options *p, struct mem **out, struct err *e)
{
    if (strcmp(p->provider, "tcp") != 0 && strcmp(p->provider, "verbs") != 0)
        return err_set(e, ERR_INVALID, "provider %s: tcp and verbs are known", p->provider);
    int rc = far_check(&p->far, e);
    if (rc == 0)
        rc = ofi_library_load(e);
    if (rc < 0)
        return rc;
    struct ofi *o = calloc(1, sizeof *o);
    if (!o)
        return err_set(e, ERR_NOMEM, "cluster %s: no memory", p->far.cluster);
    rc = far_begin(&o->far, &p->far, &ofi_carrier, e);
    ofi_auth_init(&o->auth, p->key, p->far.cluster);
    if (rc == 0)
        rc = open_net(o, p, e);
    if (rc == 0)
        rc = o->far.host    ? far_listening(&o->far, &p->far, e)
             : o->far.looks ? 0
                            : far_join(&o->far, &p->far, e);
    if (rc < 0) {
        far_free(&o->far);
        return rc;
    }
    *out = &o->far.mem;
    return 0;
}
