/* Opening a node and leaving in order. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/say.h"
#include "mem/far/impl.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PLACE_TIMEOUT_NS (5000 * MS)
#define GIVER_NS (500 * MS) /* for one host, before the next is asked */
#define FULL_NS (1500 * MS) /* for a place to become free */
#define SILENT_NS (3000 * MS)
#define LINGER_NS (300 * MS)
#define CLOSE_NS (20 * MS) /* after all have left: time to read the last of what they say */

int far_check(const struct far_options *p, struct err *e)
{
    if (!p->cluster || !*p->cluster || strlen(p->cluster) >= FAR_NAME_BYTES)
        return err_set(e, ERR_INVALID, "the cluster's name has 1 to %d bytes", FAR_NAME_BYTES - 1);
    if (p->hosts_count == 0 || p->hosts_count > FAR_HOSTS_MAX)
        return err_set(e, ERR_INVALID, "cluster %s has %u hosts; 1 to %u are possible", p->cluster,
                       p->hosts_count, FAR_HOSTS_MAX);
    if (p->clients > FAR_NODES_MAX - p->hosts_count)
        return err_set(e, ERR_INVALID, "cluster %s has %u clients; with its hosts at most %u",
                       p->cluster, p->clients, FAR_NODES_MAX - p->hosts_count);
    for (uint32_t i = 0; i < p->hosts_count; i++)
        if (!p->hosts[i].name || strlen(p->hosts[i].name) >= FAR_NAME_BYTES ||
            !p->hosts[i].address || p->hosts[i].port == 0)
            return err_set(e, ERR_INVALID, "host %u of cluster %s has no name or no address", i,
                           p->cluster);
    if (p->self != FAR_ANY && p->self >= p->hosts_count + p->clients)
        return err_set(e, ERR_INVALID, "node %u of cluster %s: numbers are below %u", p->self,
                       p->cluster, p->hosts_count + p->clients);
    return 0;
}

/* One that is not known does not keep the others from each other: it is looked up again when it is dialed. */
static void resolve(struct far *o, struct peer *p, const struct far_host *h)
{
    bool number;

    snprintf(p->where, sizeof p->where, strchr(h->address, ':') ? "[%.60s]:%u" : "%.60s:%u",
             h->address, h->port);
    const char *why = lookup_now(h->address, h->port, &p->address, &p->address_bytes, &number);
    if (why)
        far_peer_say(o, p, true, "its address is not known: %s", why);
    snprintf(o->address_names[p->node], sizeof o->address_names[0], "%s", h->address);
    p->address_name = number ? NULL : o->address_names[p->node];
    p->port = h->port;
}

static int open_peers(struct far *o, const struct far_options *p, struct err *e)
{
    for (uint32_t i = 0; i < p->hosts_count; i++) {
        struct peer *peer = far_peer_add(o, i, p->hosts[i].name);
        if (!peer)
            return err_set(e, ERR_NOMEM, "cluster %s: no memory", p->cluster);
        resolve(o, peer, &p->hosts[i]);
        peer->wanted = o->host;
    }
    return 0;
}

static int open_words(struct far *o, struct err *e)
{
    size_t bytes = FAR_REGIONS_MAX * sizeof(uint64_t);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return err_sys(e, "promised words of %s", o->name);
    o->promised = at;
    return 0;
}

/* Of the hosts' names, in their order. */
static uint64_t hosts_tag(const struct far_options *p)
{
    uint64_t tag = 0;

    for (uint32_t i = 0; i < p->hosts_count; i++)
        tag = hash_bytes(tag, p->hosts[i].name, strlen(p->hosts[i].name) + 1);
    return tag;
}

/* What a disk knows of lives counts; the file adds who had them. */
static void know_lives(struct far *o)
{
    if (!o->lives)
        return;
    if (o->life.said > o->mem.life)
        say_warn(
            &o->say,
            "%s: %s tells of %u lives of this host, and its disk of %u: unless the file is of an "
            "earlier cluster of this name, the disk is an older one",
            o->name, o->life.path, o->life.said, o->mem.life);
    for (uint32_t i = 0; i < o->hosts_count; i++) {
        struct life_met met = life_met(&o->life, i);
        if (o->peers[i]->lives > 0 && met.lives == o->peers[i]->lives)
            o->peers[i]->birth = met.birth;
    }
}

int far_listening(struct far *o, const struct far_options *p, struct err *e)
{
    uint32_t mine = p->clients / p->hosts_count + (p->self < p->clients % p->hosts_count);
    char state[512];

    int rc = p->state ? 0 : life_directory(p->cluster, state, sizeof state, e);
    struct life_options life = {.dir = p->state ? p->state : state,
                                .host = o->name,
                                .self = p->self,
                                .hosts_tag = hosts_tag(p),
                                .places = mine,
                                .told = o->lives != NULL};
    o->mem.life = o->lives ? o->lives->life : 0;
    if (rc == 0)
        rc = life_open(&o->life, &life, &o->mem.life, e);
    if (rc == 0)
        rc = places_open(&o->places, &o->life, o->lives_max, o->now_ns, e);
    if (rc < 0)
        return rc;
    know_lives(o);
    far_places_open(o);
    far_roll_open(o, o->mem.life > 0);
    return life_sync(&o->life) ? 0 : err_sys(e, "write %s to the disk", o->life.path);
}

/* Whom to ask for a place next: each host gives its own, and who loses what it had of them ends its clients. UINT32_MAX: nobody has
 * one. */
static uint32_t next_giver(struct far *o, const struct far_options *p)
{
    uint32_t n = p->hosts_count, spare = UINT32_MAX;

    for (uint32_t i = 1; i <= n; i++) {
        uint32_t h = (o->giver + i) % n;
        bool gives = p->self == FAR_ANY || (p->self - n) % n == h;
        if (!gives || o->peers[h]->full)
            continue;
        if (!p->hosts[h].spare)
            return h;
        spare = spare == UINT32_MAX ? h : spare;
    }
    return spare;
}

/* Asks the next host, and no longer the one before: it might give us a second place. */
static void ask_next(struct far *o, uint32_t giver)
{
    struct link *before = o->peers[o->giver]->dialing;

    if (before && giver != o->giver)
        link_close(before, false, "no answer");
    o->giver = giver;
}

/* Waits until a host has given us a place. */
int far_join(struct far *o, const struct far_options *p, struct err *e)
{
    uint64_t now = clock_now_ns(), begin = now, turn_ns = 0;
    uint64_t timeout = p->timeout_ns ? p->timeout_ns : PLACE_TIMEOUT_NS;
    bool full = false;

    o->want_place = p->self;
    o->mem.self = FAR_ANY;
    o->giver = randombytes_uniform(p->hosts_count);
    for (; o->mem.self == FAR_ANY && now - begin < timeout; now = clock_now_ns()) {
        const struct peer *asked = o->peers[o->giver];
        bool over = turn_ns > 0 && !asked->dialing && !asked->dials && !asked->link;
        if (over || now > turn_ns) {
            uint32_t next = next_giver(o, p);
            full |= next == UINT32_MAX;
            if (next == UINT32_MAX && now - begin > FULL_NS)
                break;
            /* Places that were given back rest for a while. */
            for (uint32_t i = 0; next == UINT32_MAX && i < p->hosts_count; i++)
                o->peers[i]->full = false;
            if (next != UINT32_MAX)
                ask_next(o, next);
            turn_ns = now + GIVER_NS;
        }
        mem_poll(&o->mem);
        mem_doze(&o->mem);
        mem_sleep(&o->mem, clock_now_ns() + MS);
    }
    if (o->mem.self == FAR_ANY && full)
        return err_set(e, ERR_EXISTS, "no place for a client is free in cluster %s", o->cluster);
    if (o->mem.self == FAR_ANY)
        return err_set(e, o->refused ? ERR_REFUSED : ERR_TIMEOUT,
                       "no host of cluster %s takes us; last: %s", o->cluster,
                       o->trouble[0] ? o->trouble : "nothing was heard");
    /* The one that gave it must know that it is in use; the others as lanes are opened. */
    for (uint32_t i = 0; i < p->hosts_count; i++)
        o->peers[i]->wanted = i == o->giver;
    return 0;
}

static struct mem_ops ops_of(const struct far_carrier *c)
{
    return (struct mem_ops){
        .region_open = far_region_open,
        .region_grant = far_region_grant,
        .promised = far_promised,
        .lanes_open = far_lanes_open,
        .flow_open = far_flow_open,
        .flow_close = far_flow_close,
        .put = far_put,
        .set = far_set,
        .mark = far_mark,
        .raise = far_raise,
        .grant = far_grant,
        .peek = far_peek,
        .read_ctl = far_read_ctl,
        .read_ring = far_read_ring,
        .poll = c->poll,
        .dead = far_dead,
        .offer = far_offer,
        .bell = c->bell,
        .bell_later = c->bell_later,
        .doze = far_doze,
        .rouse = far_rouse,
        .sleep = far_sleep,
        .wake = c->wake,
        .loop_open = c->loop_open,
        .loop_arm = far_loop_arm,
        .loop_disarm = far_loop_disarm,
        .close = far_close,
        .flush = far_flush,
        .lanes_end = far_lanes_end,
        .region_end = far_region_end,
        .put_kept = far_put_kept,
        .drop = far_drop,
        .lane_next = far_lane_next,
    };
}

int far_begin(struct far *o, const struct far_options *p, const struct far_carrier *carrier,
              struct err *e)
{
    o->ops = ops_of(carrier);
    o->mem.ops = &o->ops;
    o->carrier = carrier;
    o->mem.remote = true;
    o->dirty_last = &o->dirty;
    o->mem.self = p->self;
    o->host = p->self < p->hosts_count;
    o->looks = p->looks && !o->host;
    o->lives = o->host ? p->lives : NULL;
    o->say = p->say;
    o->life.fd = -1;
    o->hosts_count = p->hosts_count;
    o->clients = p->clients;
    o->lives_max = p->lives_max ? p->lives_max : UINT32_MAX;
    o->silent_ns = p->silent_ns ? p->silent_ns : SILENT_NS;
    o->linger_ns = p->linger_ns ? p->linger_ns : LINGER_NS;
    o->now_ns = clock_now_ns();
    o->huge = p->huge_pages && o->host;
    snprintf(o->cluster, sizeof o->cluster, "%s", p->cluster);
    snprintf(o->name, sizeof o->name, "%s", o->host ? p->hosts[p->self].name : "client");
    o->facts_count = p->facts_count < FAR_FACTS_MAX ? p->facts_count : (uint32_t)FAR_FACTS_MAX;
    if (o->facts_count > 0)
        memcpy(o->facts, p->facts, o->facts_count * sizeof *o->facts);
    if (sodium_init() < 0)
        return err_set(e, ERR_SYSTEM, "node %s: no source of random numbers", o->name);
    randombytes_buf(&o->birth, sizeof o->birth);
    o->birth |= 1; /* 0 stands for nobody */
    int rc = open_peers(o, p, e);
    return rc == 0 ? open_words(o, e) : rc;
}

/* Others are told, and a host listens for a while who leaves with it: if all do, nobody has memory of
 * this cluster any more, and the next start is a new one. */
void far_leave(struct far *o)
{
    uint64_t until = clock_now_ns() + (o->host ? o->linger_ns : o->linger_ns / 10);
    uint64_t close_ns = UINT64_MAX; /* all have left, and close soon */
    bool all = false;

    /* The memory of flows and ops may be gone. Answers may still come: carriers look for `leaving`. */
    o->flows_room = o->flows = o->own_marks = 0;
    for (struct link *l = o->links; l; l = l->next)
        l->ops = NULL;
    o->leaving = true;
    if (o->host && o->link_ids == 0 && o->hosts_count > 1 && !o->lives) {
        life_take_back(&o->life, o->mem.life);
        return;
    }
    if (o->host)
        far_roll_leave(o);
    for (struct link *l = o->links; l; l = l->next)
        if (l->state == LINK_UP)
            link_send(l, FAR_LEAVE, NULL, 1);
    do {
        bool sent = true;
        mem_poll(&o->mem);
        all = o->host;
        for (uint32_t i = 0; i < o->hosts_count; i++)
            all = all && (i == o->mem.self || o->peers[i]->left);
        for (struct link *l = o->links; l; l = l->next)
            sent = sent && o->carrier->sent(l);
        if (sent && !o->host)
            break;
        /* Who closes with something unread takes back what it has sent, its leave too: so not at once. */
        if (sent && all && close_ns == UINT64_MAX)
            close_ns = clock_now_ns() + CLOSE_NS;
        if (clock_now_ns() >= close_ns || (sent && all && o->links == NULL))
            break;
        mem_doze(&o->mem);
        mem_sleep(&o->mem, clock_now_ns() + MS);
    } while (clock_now_ns() < until);
    if (o->host)
        life_close(&o->life, all && !o->lives);
}

void far_free(struct far *o)
{
    o->flows_room = o->flows = 0;
    o->leaving = true;
    while (o->links)
        link_close(o->links, false, "we end");
    far_links_free(o);
    far_lanes_free(o);
    if (o->carrier)
        o->carrier->close(o);
    if (o->promised)
        munmap((void *)(uintptr_t)o->promised, FAR_REGIONS_MAX * sizeof(uint64_t));
    life_close(&o->life, false);
    for (uint32_t i = 0; i < FAR_NODES_MAX; i++) {
        if (o->peers[i]) {
            free(o->peers[i]->page);
            lookup_drop(o->peers[i]->lookup);
        }
        free(o->peers[i]);
    }
    free(o->region);
    free(o->flow);
    free(o->own_mark);
    places_close(&o->places);
    roll_close(&o->roll);
    free(o);
}
