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
        far_peer_say(l->node, l->peer, true, "it is refused: %s (life %u, we know of %u)%s",
                     far_reason_text(reason), l->life, life,
                     l->node->lives && l->peer->host && reason == FAR_REASON_LIFE
                         ? "; its disk is older than what it has had, and must not be used"
                         : "");
    l->node->links_pending += l->state == LINK_UP; /* it was none, and is one that is to go */
    l->state = LINK_REFUSED;
    return link_send(l, FAR_REFUSE, &r.head + 1, 1);
}

/* A host that comes back is tried by each of those who miss it at a time of its own. All that are connected to us
 * hear of it from the first who is connected again. */
static void spread_news(struct link *l)
{
    struct far_news news = {.node = l->peer->node};

    for (struct link *other = l->node->links; other; other = other->next)
        if (other != l && other->state == LINK_UP)
            link_send(other, FAR_NEWS, &news, 1);
}

static bool on_news(struct link *l, const struct far_news *item, uint32_t count)
{
    struct far *o = l->node;

    for (uint32_t i = 0; i < count; i++) {
        if (!l->peer->host)
            return false;
        if (item[i].node >= o->hosts_count) {
            if (!far_places_seen(l, &item[i]))
                return false;
            continue;
        }
        struct peer *p = o->peers[item[i].node];
        p->dial_wait_ns = DIAL_NS_MIN;
        p->dial_ns = o->now_ns;
    }
    return true;
}

/* Has another process been this node, in this life or a later one? */
static enum far_reason outlived(const struct link *l)
{
    const struct peer *p = l->peer;

    if (p->lives > (uint64_t)l->life + 1)
        return FAR_REASON_LIFE;
    /* Of what a disk knows the process may not be known. */
    return p->lives == (uint64_t)l->life + 1 && p->birth != 0 && p->birth != l->birth
               ? FAR_REASON_TWIN
               : FAR_WELCOME;
}

/* Who has come in which life, for the next life of ours. */
static void note_life(const struct link *l)
{
    struct far *o = l->node;

    if (!o->lives || o->leaving)
        return;
    if (!l->peer->host) {
        far_place_noted(o, l->peer->node, l->life);
        return;
    }
    o->lives->note_host(o->lives->ctx, l->peer->node, l->life + 1);
    life_met_note(&o->life, l->peer->node,
                  (struct life_met){.birth = l->birth, .lives = l->life + 1});
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
    if (!p->host && !far_place_had(l)) {
        /* Or we are yet to hear of it: it will try again. */
        link_close(l, false, "the host that gives its place does not know it");
        return true;
    }
    if (!p->host && !far_place_kept(l, &given))
        return link_refuse(l, FAR_REASON_LIFE, given);
    /* What an earlier connection has under way must not land behind what comes over this one. */
    if (p->link)
        link_close(p->link, false, "it has connected again");
    bool back = p->lives > 0;
    p->lives = (uint64_t)l->life + 1;
    p->birth = l->birth;
    note_life(l);
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
        if (!far_places_tell(l))
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
        say_event_once(
            &o->strangers, &o->say, SAY_EVENT_DIFFERS,
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
    /* With a disk that is older than what others know nothing may be promised: better to stop for one that is wrong. */
    bool unknown = o->lives || o->life.made;
    return !o->host || 2 * denied >= o->hosts_count || (unknown && !from->accepted);
}

static const char *what_then(const struct far *o, enum far_reason reason)
{
    if (!o->host)
        return "; open a new client";
    if (reason == FAR_REASON_TWIN)
        return "; stop the other one";
    return "; start this host again, and it is taken back";
}

/* Nothing that is on such a disk can be used. */
static void fail_with_old_disk(struct far *o, const struct peer *by, const struct far_refuse *r)
{
    far_fail(
        o,
        "%s refuses us in life %u: it knows of life %u%s the disk of this host is older than what "
        "the host has had; put the right one back, or give it up with `tram format --rejoin %s`",
        by->name, o->mem.life, r->life,
        r->reason == FAR_REASON_TWIN ? ", of another process. If none runs," : ":", o->name);
}

static void fail_for_good(struct link *l, const struct far_refuse *r)
{
    struct far *o = l->node;

    if (o->failure[0] || r->life < o->mem.life || !is_over(o, l->peer))
        return;
    if (o->lives) {
        fail_with_old_disk(o, l->peer, r);
        return;
    }
    /* A host whose count was lost: the next start is the life after the one that is remembered. */
    if (o->host && r->life < UINT32_MAX) {
        roll_suspect(&o->roll, l->peer->node);
        life_set(&o->life, r->life + 1);
    }
    far_fail(o, "%s refuses us in life %u: %s (it knows of life %u)%s", l->peer->name, o->mem.life,
             far_reason_text((enum far_reason)r->reason), r->life,
             what_then(o, (enum far_reason)r->reason));
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

/* ---- of which cluster a client is ---- */

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
    if (l->state != LINK_PLACING || !l->peer || l->held_back)
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

static bool on_grant(struct link *l, const struct far_raise *item, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct answer a = {.link_id = l->id, .id = item[i].id, .ballot = item[i].ballot};
        if (!l->peer->host || item[i].ballot == MEM_CLOSED)
            return false;
        far_grant_taken(l->node, item[i].region, item[i].status, &a);
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
    case FAR_GRANT:
        return on_grant(l, items, h->count);
    case FAR_RAISED:
        return on_raised(l, items, h->count);
    case FAR_PULSE:
        l->ready = true;
        far_places_heard(l->node);
        return true;
    case FAR_NEWS:
        return on_news(l, items, h->count);
    case FAR_GIVEN:
        return far_places_given(l, items, h->count);
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
        return far_place_give(l, ((const struct far_place *)whole)->node);
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
