#include "sim/mcast_check.h"

#include "base/hash.h"
#include "lane/names.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void mcast_check_init(struct mcast_check *c, struct run_result *r, uint64_t seed)
{
    memset(c, 0, sizeof(*c));
    c->result = r;
    c->seed = seed;
}

void mcast_check_fini(struct mcast_check *c)
{
    for (uint32_t g = 0; g < TREE_GROUPS_MAX; g++) {
        free(c->group[g].message);
        free(c->group[g].hash);
    }
}

void mcast_check_violated(struct mcast_check *c, const char *property, uint64_t pos,
                          const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    run_violated(c->result, property, pos, fmt, ap);
    va_end(ap);
}

void mcast_check_fill(uint64_t seed, uint32_t sender, uint64_t seq, unsigned char *out,
                      uint32_t bytes)
{
    uint64_t h = hash_mix(hash_mix(seed, sender), seq);
    for (uint32_t i = 0; i < bytes; i += 8) {
        h = hash_mix(h, i);
        uint64_t word = h & 1 ? h : (h >> 8 & 0xfff) * 8; /* half of them look like positions */
        memcpy(out + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

void mcast_check_reply_fill(uint64_t seq, void *out, uint32_t bytes)
{
    memset(out, (int)(seq & 0xff), bytes);
}

bool mcast_check_reply_is(uint64_t seq, const void *body, uint32_t bytes)
{
    const unsigned char *b = body;
    for (uint32_t i = 0; i < bytes; i++)
        if (b[i] != (seq & 0xff))
            return false;
    return true;
}

bool mcast_check_even(const struct mcast_check *c)
{
    for (uint32_t s = 0; s < MCAST_SENDERS_MAX; s++)
        for (uint32_t i = 0; i < c->casts[s]; i++) {
            const struct cast *k = &c->cast[s][i];
            if (k->delivered != 0 && k->delivered != k->dst_mask)
                return false;
        }
    return true;
}

void mcast_check_cast(struct mcast_check *c, uint32_t sender, uint64_t seq, uint8_t dst_mask,
                      const void *body, uint32_t bytes)
{
    CHECK(seq < TREE_CASTS_MAX);
    c->cast[sender][seq] = (struct cast){
        .dst_mask = dst_mask, .bytes = bytes, .hash = hash_bytes(sender, body, bytes)};
    c->casts[sender] = (uint32_t)seq + 1;
}

/* Integrity: it was cast, to this group, with these destinations and bytes. */
static bool genuine_delivery(struct mcast_check *c, uint32_t host, const struct delivery *d)
{
    uint32_t sender = mcast_sender(d->client, d->life);
    if (d->client >= TREE_CLIENTS_MAX || d->life >= TREE_LIVES_MAX || d->seq >= c->casts[sender]) {
        mcast_check_violated(c, "integrity", d->number, "host %u, group %u: nobody cast this", host,
                             d->group);
        return false;
    }
    const struct cast *k = &c->cast[sender][d->seq];
    uint8_t mask = 0;
    for (uint32_t i = 0; i < d->dst.count; i++)
        mask |= (uint8_t)(1u << d->dst.group[i]);
    if (mask == k->dst_mask && k->dst_mask >> d->group & 1 && d->bytes == k->bytes &&
        hash_bytes(sender, d->body, d->bytes) == k->hash)
        return true;
    mcast_check_violated(c, "integrity", d->number,
                         "host %u, group %u: message %u:%llu is not as it was cast", host, d->group,
                         d->client, (unsigned long long)d->seq);
    return false;
}

static void append(struct mcast_check *c, const struct delivery *d, uint32_t id, uint64_t hash)
{
    uint32_t n = c->group[d->group].count, max = c->group[d->group].max;
    if (n == max) {
        max = max ? 2 * max : 256;
        c->group[d->group].message = realloc(c->group[d->group].message, max * sizeof(uint32_t));
        c->group[d->group].hash = realloc(c->group[d->group].hash, max * sizeof(uint64_t));
        CHECK(c->group[d->group].message && c->group[d->group].hash);
        c->group[d->group].max = max;
    }
    c->group[d->group].message[n] = id;
    c->group[d->group].hash[n] = hash;
    c->group[d->group].count = n + 1;
}

void mcast_check_deliver(struct mcast_check *c, uint32_t host, struct counter_machine_state *s,
                         const struct delivery *d)
{
    if (!genuine_delivery(c, host, d))
        return;
    uint32_t sender = mcast_sender(d->client, d->life);
    uint32_t id = sender << 16 | (uint32_t)d->seq;
    uint64_t k = s->count++;
    s->hash = hash_mix(s->hash, id + 1);
    if (d->number != k)
        mcast_check_violated(c, "delivery number", k, "host %u, group %u: number %llu", host,
                             d->group, (unsigned long long)d->number);
    if (k < c->group[d->group].count) {
        if (c->group[d->group].message[k] != id || c->group[d->group].hash[k] != s->hash)
            mcast_check_violated(c, "agreement", k,
                                 "host %u, group %u: delivers %u:%u where another delivered %u:%u",
                                 host, d->group, id >> 16, id & 0xffff,
                                 c->group[d->group].message[k] >> 16,
                                 c->group[d->group].message[k] & 0xffff);
        return;
    }
    struct cast *m = &c->cast[sender][d->seq];
    if (k > c->group[d->group].count)
        mcast_check_violated(c, "agreement", k, "host %u, group %u: messages were skipped", host,
                             d->group);
    else if (m->delivered >> d->group & 1)
        mcast_check_violated(c, "no duplicate", k, "host %u, group %u: %u:%u a second time", host,
                             d->group, id >> 16, id & 0xffff);
    m->delivered |= (uint8_t)(1u << d->group);
    append(c, d, id, s->hash);
}

void mcast_check_loaded(struct mcast_check *c, uint32_t host, uint16_t group,
                        const struct counter_machine_state *s)
{
    if (s->count > c->group[group].count ||
        (s->count > 0 && c->group[group].hash[s->count - 1] != s->hash))
        mcast_check_violated(c, "state equality", s->count,
                             "host %u, group %u: loaded a state that never was", host, group);
}

void mcast_check_done(struct mcast_check *c, uint32_t sender, uint64_t seq)
{
    struct cast *m = &c->cast[sender][seq];
    if (m->done)
        mcast_check_violated(c, "done once", seq, "sender %u was told twice", sender);
    m->done = true;
    if (m->delivered != m->dst_mask)
        mcast_check_violated(c, "done means delivered", seq,
                             "sender %u: destinations %#x, delivered at %#x", sender, m->dst_mask,
                             m->delivered);
}

void mcast_check_landing(struct mcast_check *c, const struct sim_landing *l)
{
    const struct mem_lane_spec *at = &l->lane->spec;
    if (!l->counted || lane_kind(at) != LANE_LOG)
        return;
    CHECK(at->region < TREE_GROUPS_MAX && at->owner < TREE_NODES_MAX);
    uint64_t *counted = &c->group[at->region].counted[at->owner];
    if (l->ballot < *counted)
        mcast_check_violated(c, "one writer", 0,
                             "node %u, group %u: a write under ballot %llu counted after one under "
                             "%llu",
                             at->owner, at->region, (unsigned long long)l->ballot,
                             (unsigned long long)*counted);
    *counted = l->ballot;
}

/* Kahn's algorithm over the messages; an edge from each delivery to the next of its group. */
void mcast_check_order(struct mcast_check *c)
{
    enum { NODES = MCAST_SENDERS_MAX * TREE_CASTS_MAX };
    static uint32_t before[NODES]; /* edges into it that are still there */
    static uint32_t at[TREE_GROUPS_MAX];
    static uint32_t queue[NODES];
    memset(before, 0, sizeof(before));
    uint32_t left = 0, head = 0, tail = 0;
    static uint8_t known[NODES];
    memset(known, 0, sizeof(known));
#define NODE(id) (((id) >> 16) * TREE_CASTS_MAX + ((id)&0xffff))
    for (uint32_t g = 0; g < TREE_GROUPS_MAX; g++) {
        at[g] = 0;
        for (uint32_t k = 0; k < c->group[g].count; k++) {
            uint32_t node = NODE(c->group[g].message[k]);
            left += !known[node];
            known[node] = 1;
            before[node] += k > 0;
        }
    }
    for (uint32_t n = 0; n < NODES; n++)
        if (known[n] && before[n] == 0)
            queue[tail++] = n;
    while (head < tail) {
        uint32_t node = queue[head++];
        left--;
        for (uint32_t g = 0; g < TREE_GROUPS_MAX; g++)
            /* A group's deliveries leave the queue in its own order, if at all. */
            if (at[g] < c->group[g].count && NODE(c->group[g].message[at[g]]) == node) {
                at[g]++;
                if (at[g] < c->group[g].count) {
                    uint32_t next = NODE(c->group[g].message[at[g]]);
                    if (--before[next] == 0)
                        queue[tail++] = next;
                }
            }
    }
#undef NODE
    if (left > 0)
        mcast_check_violated(c, "acyclic order", left, "%u messages precede themselves", left);
}
