/* What links say to each other once they know who they are: facts, places of clients, lanes, raises. */
#include "base/say.h"
#include "mem/far/impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool link_refuse(struct link *l, enum far_reason reason, uint32_t life)
{
    struct far_refuse r = {.reason = reason, .life = life};

    if (l->peer)
        far_peer_say(l->node, l->peer, true, "it is refused: %s (life %u, we know of %u)",
                     far_reason_text(reason), l->life, life);
    l->node->links_pending += l->state == LINK_UP; /* it was none, and is one that is to go */
    l->state = LINK_REFUSED;
    return link_send(l, FAR_REFUSE, &r.head + 1, 1);
}

static struct places *own_place(struct far *, uint32_t node, uint32_t *index);

/* A host that comes back is tried by each of those who miss it at a time of its own. All that are connected to us
 * hear of it from the first who is connected again. */
static void spread_news(struct link *l)
{
    struct far_news news = {.node = l->peer->node};

    for (struct link *other = l->node->links; other; other = other->next)
        if (other != l && other->state == LINK_UP)
            link_send(other, FAR_NEWS, &news, 1);
}

/* A host that has lost its file does not know which lives of its clients' places it has given. */
static bool places_tell(struct link *l)
{
    struct far *o = l->node;
    struct far_news news[FAR_NEWS_MAX];
    uint32_t count = 0;

    for (uint32_t place = l->peer->node; place < o->clients; place += o->hosts_count) {
        const struct peer *p = peer_at(o, o->hosts_count + place);
        if (!p || p->lives == 0)
            continue;
        news[count++] = (struct far_news){.node = p->node, .life = (uint32_t)(p->lives - 1)};
        if (count == FAR_NEWS_MAX && !link_send(l, FAR_NEWS, news, count))
            return false;
        count %= FAR_NEWS_MAX;
    }
    return count == 0 || link_send(l, FAR_NEWS, news, count);
}

/* ---- who has which place ---- */

static struct far_given given_at(struct far *o, uint32_t index)
{
    const struct life_place *kept = life_place(&o->life, index);

    return (struct far_given){.node = o->hosts_count + index * o->hosts_count + o->mem.self,
                              .life = kept->life - 1,
                              .birth = kept->birth};
}

/* A place of ours has been given: the other hosts hear of it before its client can come to them. So nobody else can say
 * to be that client, and turn it out. */
static void given_spread(struct far *o, uint32_t index)
{
    const struct far_given given = given_at(o, index);

    for (struct link *l = o->links; l; l = l->next)
        if (l->state == LINK_UP && l->peer->host && !link_send(l, FAR_GIVEN, &given, 1))
            link_fault(l, TAKES_NOTHING);
}

/* The same of all, to a host that was not connected. */
static bool givens_tell(struct link *l)
{
    struct far *o = l->node;
    struct far_given given[FAR_GIVENS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < o->places.count; i++) {
        if (life_place(&o->life, i)->life == 0)
            continue;
        given[count++] = given_at(o, i);
        if (count == FAR_GIVENS_MAX && !link_send(l, FAR_GIVEN, given, count))
            return false;
        count %= FAR_GIVENS_MAX;
    }
    return count == 0 || link_send(l, FAR_GIVEN, given, count);
}

static uint32_t giver_of(const struct far *o, uint32_t node)
{
    return (node - o->hosts_count) % o->hosts_count;
}

static bool on_given(struct link *l, const struct far_given *item, uint32_t count)
{
    struct far *o = l->node;

    for (uint32_t i = 0; i < count; i++) {
        if (!o->host || !l->peer->host || item[i].node < o->hosts_count ||
            giver_of(o, item[i].node) != l->peer->node || item[i].life >= o->lives_max)
            return false;
        struct peer *p = far_peer_get(o, item[i].node);
        if (!p)
            return false;
        p->given = (uint64_t)item[i].life + 1;
        p->given_birth = item[i].birth;
    }
    return true;
}

/* Has the client the place that it says, as far as can be known: the host that gives it may be away. */
static bool has_place(const struct link *l)
{
    const struct far *o = l->node;
    const struct peer *p = l->peer;
    const struct link *giver = o->peers[giver_of(o, p->node)]->link;

    if (!o->host || giver_of(o, p->node) == o->mem.self || !giver || !giver->ready)
        return true;
    return p->given == (uint64_t)l->life + 1 && (p->given_birth == 0 || p->given_birth == l->birth);
}

static bool on_news(struct link *l, const struct far_news *item, uint32_t count)
{
    struct far *o = l->node;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t index;
        if (!l->peer->host)
            return false;
        if (item[i].node >= o->hosts_count) {
            if (!o->host || !own_place(o, item[i].node, &index) || item[i].life >= o->lives_max)
                return false;
            places_seen(&o->places, index, item[i].life);
            given_spread(o, index);
            continue;
        }
        struct peer *p = o->peers[item[i].node];
        p->dial_wait_ns = DIAL_NS_MIN;
        p->dial_ns = o->now_ns;
    }
    return true;
}

/* A client comes back to the host that has given it its place. */
static bool place_kept(struct link *l, uint32_t *given)
{
    uint32_t index;
    struct places *places = l->node->host ? own_place(l->node, l->peer->node, &index) : NULL;

    if (!places)
        return true;
    if (!places_return(places, index, l->life, l->birth, given))
        return false;
    given_spread(l->node, index);
    return true;
}

/* Has another process been this node, in this life or a later one? */
static enum far_reason outlived(const struct link *l)
{
    const struct peer *p = l->peer;

    if (p->lives > (uint64_t)l->life + 1)
        return FAR_REASON_LIFE;
    return p->lives == (uint64_t)l->life + 1 && p->birth != l->birth ? FAR_REASON_TWIN
                                                                     : FAR_WELCOME;
}

/* A client meets a host that is younger than the one it knew. If most are, the cluster has been stopped and begun anew. */
static void note_begun_anew(struct far *o, struct peer *p)
{
    uint32_t anew = 0;

    if (o->host || !p->host)
        return;
    p->anew = true;
    for (uint32_t i = 0; i < o->hosts_count; i++)
        anew += o->peers[i]->anew;
    if (2 * anew > o->hosts_count)
        far_fail(o, "all hosts of the cluster have been stopped since this client was opened; open "
                    "a new client");
}

bool link_up(struct link *l)
{
    struct peer *p = l->peer;
    uint32_t given;

    enum far_reason old = outlived(l);
    if (old) {
        note_begun_anew(l->node, p);
        return link_refuse(l, old, (uint32_t)(p->lives - 1));
    }
    if (!p->host && p->given > (uint64_t)l->life + 1)
        return link_refuse(l, FAR_REASON_LIFE, (uint32_t)(p->given - 1));
    if (!p->host && !has_place(l)) {
        /* Or we are yet to hear of it: it will try again. */
        link_close(l, false, "the host that gives its place does not know it");
        return true;
    }
    if (!p->host && !place_kept(l, &given))
        return link_refuse(l, FAR_REASON_LIFE, given);
    /* What an earlier connection has under way must not land behind what comes over this one. */
    if (p->link)
        link_close(p->link, false, "it has connected again");
    bool back = p->lives > 0;
    p->lives = (uint64_t)l->life + 1;
    p->birth = l->birth;
    p->link = l;
    if (p->dialing == l)
        p->dialing = NULL;
    p->gone = p->left = p->anew = p->denies = false;
    p->accepted = true;
    if (!p->host)
        far_lanes_reborn(l->node, p->node, l->life);
    l->state = LINK_UP;
    l->up_ns = l->node->now_ns;
    l->node->links_pending--;
    /* A client that had no place when it came: only now it is known which rings we write there. */
    if (!l->node->carrier->room(l, far_lanes_stage_bytes(l->node, p->node)))
        link_fault(l, "a ring is larger than it has room for");
    say_info(&l->node->say, "%s: %s: connected%s, life %u", l->node->name, p->name,
             back ? " again" : "", l->life);
    if (p->host && l->node->host) {
        spread_news(l);
        if (!places_tell(l) || !givens_tell(l))
            return false;
    }
    /* The pulse says that our first wants were before it. */
    return far_lanes_end_again(l) && far_lanes_ask(l) && link_send(l, FAR_PULSE, NULL, 1);
}

/* ---- cluster files ---- */

static const struct far_fact *fact_of(const struct far *o, const char *key)
{
    for (uint32_t i = 0; i < o->facts_count; i++)
        if (strcmp(o->facts[i].key, key) == 0)
            return &o->facts[i];
    return NULL;
}

static void say_differs(struct link *l, const struct far_fact *theirs, const char *ours)
{
    struct far *o = l->node;

    if (l->peer)
        far_peer_say(o, l->peer, true, "its cluster file differs: %s is %s there and %s here",
                     theirs->key, theirs->value, ours);
    else
        say_once(&o->strangers, &o->say, SAY_WARN,
                 "%s: a client is refused: its cluster file differs: %s is %s there and %s here",
                 o->name, theirs->key, theirs->value, ours);
}

/* Both sides have the key, so this is no stranger, but somebody whose file was not brought along. */
static bool on_facts(struct link *l, const struct far_fact *item, uint32_t count)
{
    struct far *o = l->node;

    if (!l->proven)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!memchr(item[i].key, 0, sizeof item[i].key) ||
            !memchr(item[i].value, 0, sizeof item[i].value))
            return false;
        const struct far_fact *own = fact_of(o, item[i].key);
        if (o->facts_count == 0 || o->looks || (own && strcmp(own->value, item[i].value) == 0))
            continue;
        struct far_refuse r = {.reason = FAR_REASON_FILE};
        say_differs(l, &item[i], own ? own->value : "not");
        o->refused = true;
        if (l->state == LINK_UP) /* a client that had its place before */
            return false;
        l->state = LINK_REFUSED;
        return link_send(l, FAR_REFUSE, &r.head + 1, 1);
    }
    return true;
}

/* The other side is who it says it is. */
bool far_link_proven(struct link *l, uint32_t life, uint64_t birth)
{
    struct far *o = l->node;

    l->proven = true;
    if (o->facts_count > 0 && !o->looks && !link_send(l, FAR_FACTS, o->facts, o->facts_count))
        return false;
    l->life = life;
    l->birth = birth;
    if (!l->peer) {
        l->state = LINK_PLACING; /* it will ask */
        return true;
    }
    if (o->looks) {
        l->state = LINK_PLACING;
        return link_send(l, FAR_LOOK, NULL, 1);
    }
    if (o->mem.self == FAR_ANY) {
        struct far_place want = {.node = o->want_place};
        l->state = LINK_PLACING;
        return link_send(l, FAR_PLACE_WANT, &want.head + 1, 1);
    }
    if (!o->host)
        return link_send(l, FAR_FIRST, o->first, o->hosts_count) && link_up(l);
    if (!l->peer->host) {
        l->state = LINK_PLACING;
        return true;
    }
    if (outlived(l))
        return link_up(l);
    l->state = LINK_MEETING;
    return far_roll_send(l);
}

/* ---- refused ---- */

void far_fail(struct far *o, const char *fmt, ...)
{
    va_list ap;

    if (o->failure[0])
        return;
    va_start(ap, fmt);
    vsnprintf(o->failure, sizeof o->failure, fmt, ap);
    va_end(ap);
    say_error(&o->say, "%s: %s", o->name, o->failure);
}

/* Is our life over because that host says so? Of a host that has lost the file of its lives any other may know better.
 * One that has its past, and one that this host has taken before, is told so by all who knew it: a single host is wrong,
 * or lies, and would else end all others. */
static bool is_over(const struct far *o, struct peer *from)
{
    uint32_t denied = 0;

    from->denies = true;
    for (uint32_t i = 0; i < o->hosts_count; i++)
        denied += o->peers[i]->denies;
    return !o->host || 2 * denied >= o->hosts_count || (o->life.made && !from->accepted);
}

static void fail_for_good(struct link *l, const struct far_refuse *r)
{
    struct far *o = l->node;

    if (o->failure[0] || r->life < o->mem.life || !is_over(o, l->peer))
        return;
    /* A host whose count was lost: the next start is the life after the one that is remembered. */
    if (o->host && r->life < UINT32_MAX) {
        roll_suspect(&o->roll, l->peer->node);
        life_set(&o->life, r->life + 1);
    }
    const char *then = !o->host ? "; open a new client"
                       : r->reason == FAR_REASON_TWIN
                           ? "; stop the other one"
                           : "; start this host again, and it is taken back";
    far_fail(o, "%s refuses us in life %u: %s (it knows of life %u)%s", l->peer->name, o->mem.life,
             far_reason_text((enum far_reason)r->reason), r->life, then);
}

static bool on_refuse(struct link *l, const struct far_refuse *r)
{
    struct far *o = l->node;

    if (!l->proven || !l->peer)
        return false;
    /* Of a host's life hosts know, and no client: one that has outlived the cluster must not end it. */
    bool knows = !o->host || l->peer->host;
    if (knows && (r->reason == FAR_REASON_LIFE || r->reason == FAR_REASON_TWIN))
        fail_for_good(l, r);
    l->peer->full = r->reason == FAR_REASON_FULL;
    o->refused |= !l->peer->full;
    if (r->reason != FAR_REASON_FILE) /* which we have said, with what differs */
        far_peer_say(o, l->peer, !l->peer->full, "it refuses us: %s",
                     far_reason_text((enum far_reason)r->reason));
    l->peer->dial_wait_ns = DIAL_NS_MAX;
    if (l->state != LINK_UP)
        l->state = LINK_REFUSED;
    link_close(l, true, far_reason_text((enum far_reason)r->reason));
    return true;
}

/* ---- places ---- */

/* Each host gives every so-manieth place, and knows of these alone who has them. */
static struct places *own_place(struct far *o, uint32_t node, uint32_t *index)
{
    uint32_t place = node - o->hosts_count;

    if (node < o->hosts_count || place >= o->clients || place % o->hosts_count != o->mem.self)
        return NULL;
    *index = place / o->hosts_count;
    return &o->places;
}

bool far_gives(struct far *o, uint32_t node)
{
    uint32_t index;

    return own_place(o, node, &index);
}

void far_place_freed(struct link *l, bool ended)
{
    uint32_t index;
    struct far *o = l->node;
    /* Whoever leaves ends its links itself, with the file of places closed: its clients live on, and keep theirs. */
    struct places *p = o->host && !o->leaving ? own_place(o, l->peer->node, &index) : NULL;

    if (p)
        places_leave(p, index, l->birth, ended, l->node->now_ns);
}

static bool on_place_want(struct link *l, uint32_t wanted)
{
    struct far *o = l->node;
    uint32_t index = UINT32_MAX;
    char name[32];

    if (!o->host || l->state != LINK_PLACING)
        return false;
    if (wanted == FAR_ANY)
        index = places_any(&o->places, o->now_ns);
    else
        index =
            own_place(o, wanted, &index) ? places_this(&o->places, index, o->now_ns) : PLACES_NONE;
    if (index == PLACES_NONE) {
        struct far_refuse r = {.reason = FAR_REASON_FULL};
        l->state = LINK_REFUSED;
        return link_send(l, FAR_REFUSE, &r.head + 1, 1);
    }
    uint32_t node = o->hosts_count + index * o->hosts_count + o->mem.self;
    snprintf(name, sizeof name, "client-%u", node - o->hosts_count);
    l->peer = peer_at(o, node) ? peer_at(o, node) : far_peer_add(o, node, name);
    if (!l->peer)
        return false;
    struct far_place given = {.node = node, .life = places_give(&o->places, index, l->birth)};
    l->life = given.life;
    given_spread(o, index);
    if (life_place(&o->life, index)->life >= o->lives_max)
        say_warn(&o->say,
                 "%s: the place of %s has now had %u processes; it is not given again until the "
                 "cluster begins anew",
                 o->name, name, o->lives_max);
    l->first = o->roll.first[o->mem.self];
    return link_send(l, FAR_FIRST, o->roll.first, o->hosts_count) &&
           link_send(l, FAR_PLACE, &given.head + 1, 1) && link_up(l);
}

/* To a client, of the host that gives it its place; and of one that has its place, to a host that it may not have met
 * before: that one cannot tell by the life of the place whether it was given before the cluster began anew. */
static bool on_first(struct link *l, const uint64_t *first, uint32_t count)
{
    struct far *o = l->node;

    if (count != o->hosts_count)
        return false;
    if (!o->host) {
        if (!l->proven || l->peer->node != o->giver)
            return false;
        memcpy(o->first, first, count * sizeof *first);
        return true;
    }
    if (l->state != LINK_PLACING || !l->peer)
        return false;
    l->first = first[o->mem.self];
    return roll_outdated(&o->roll, first) ? link_refuse(l, FAR_REASON_LIFE, l->life) : link_up(l);
}

/* We hold memory from now on: clients of an earlier cluster that are connected already come again, and are refused. */
void far_clients_judge(struct far *o)
{
    for (struct link *l = o->links; l; l = l->next) {
        bool client = l->state == LINK_UP && !l->peer->host;
        if (!client || l->first >= o->roll.ended[o->mem.self])
            continue;
        far_place_freed(l, true);
        link_fault(l, "the cluster has begun anew");
    }
}

static bool on_place(struct link *l, const struct far_place *p)
{
    struct far *o = l->node;

    if (o->mem.self != FAR_ANY || !l->dialed || l->state != LINK_PLACING)
        return false;
    if (p->node < o->hosts_count || p->node >= o->hosts_count + o->clients)
        return false;
    o->mem.self = p->node;
    o->mem.life = p->life;
    snprintf(o->name, sizeof o->name, "client-%u", p->node - o->hosts_count);
    return link_up(l);
}

/* ---- raises ---- */

static bool on_raise(struct link *l, const struct far_raise *item, uint32_t count)
{
    struct far *o = l->node;

    for (uint32_t i = 0; i < count; i++) {
        struct region *r = l->peer->host ? far_region_find(o, item[i].region) : NULL;
        struct far_raise lost = {.region = item[i].region, .status = MEM_LOST, .id = item[i].id};
        if (r && item[i].ballot != MEM_CLOSED)
            o->carrier->raise(
                o, far_region_index(o, r), item[i].ballot,
                &(struct answer){.link_id = l->id, .id = item[i].id, .ballot = item[i].ballot});
        else if (!link_send(l, FAR_RAISED, &lost, 1))
            return false;
        if (l->state == LINK_CLOSED)
            break;
    }
    return true;
}

static bool on_raised(struct link *l, const struct far_raise *item, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mem_op *op = far_op_find(l, item[i].id);
        if (l->node->leaving)
            continue; /* it is nobody's any more */
        if (!op || item[i].status == MEM_PENDING || item[i].status > MEM_LOST)
            return false;
        op->value = item[i].ballot;
        far_op_finish(l, op, (enum mem_status)item[i].status);
    }
    return true;
}

/* ---- all ---- */

/* Of a link that is up. */
static bool on_message(struct link *l, const struct far_head *h)
{
    const void *items = far_items(h);

    switch (h->kind) {
    case FAR_WANT:
        return far_lanes_wanted(l, items, h->count);
    case FAR_AT:
        return far_lanes_answered(l, items, h->count);
    case FAR_END:
        return far_lanes_ended(l, items, h->count);
    case FAR_RAISE:
        return on_raise(l, items, h->count);
    case FAR_RAISED:
        return on_raised(l, items, h->count);
    case FAR_PULSE:
        l->ready = true;
        return true;
    case FAR_NEWS:
        return on_news(l, items, h->count);
    case FAR_GIVEN:
        return on_given(l, items, h->count);
    case FAR_BELL:
        return true;
    case FAR_LEAVE:
        l->peer->left = true; /* it closes; we may have to tell it that we leave, too */
        return true;
    default:
        return false;
    }
}

/* False: what no one of us sends, at least not now. */
bool far_message_take(struct link *l, const struct far_head *h)
{
    const void *whole = h;

    if (l->state == LINK_REFUSED)
        return true; /* it has not heard yet */
    if (h->kind >= FAR_KINDS)
        return l->node->carrier->message(l, h);
    switch (h->kind) {
    case FAR_REFUSE:
        return on_refuse(l, whole);
    case FAR_PLACE_WANT:
        return on_place_want(l, ((const struct far_place *)whole)->node);
    case FAR_PLACE:
        return on_place(l, whole);
    case FAR_FACTS:
        return on_facts(l, far_items(h), h->count);
    case FAR_FIRST:
        return on_first(l, far_items(h), h->count);
    case FAR_ROLL:
        return far_roll_take(l, far_items(h), h->count);
    case FAR_LOOK:
        return far_page_send(l);
    case FAR_PAGE:
        return far_page_take(l, far_items(h), h->count);
    default:
        return l->state == LINK_UP && on_message(l, h);
    }
}
