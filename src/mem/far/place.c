/* Places of clients: who has those that this host gives (mem/places.h), and what hosts tell each other of them.
 *
 * Where a disk keeps lives (mem/lives.h) a client that is given a place is *held back* until the disk has its life
 * there: it is answered, and others are told, when a crash cannot make us give the same life again. */
#include "base/say.h"
#include "mem/far/impl.h"

#include <stdio.h>

/* Left out by a host that has lost its disk: lives that it may have given, and of which those who told it had not heard. */
enum { LIVES_SKIPPED = 256 };

/* ---- lives that a disk keeps ---- */

/* True: it is on the disk, or there is none. */
static bool note(struct far *o, uint32_t node, uint32_t lives)
{
    if (!o->lives)
        return true;
    return !o->leaving && o->lives->note_place(o->lives->ctx, node - o->hosts_count, lives);
}

void far_place_noted(struct far *o, uint32_t node, uint32_t life)
{
    /* Who gives the place has waited for its own disk. A client may say anything of its life while that host is away. */
    if (o->host && life < o->lives_max)
        note(o, node, life + 1);
}

/* ---- whose ---- */

/* Each host gives every so-manieth place, and knows of these alone who has them. */
static struct places *own_place(struct far *o, uint32_t node, uint32_t *index)
{
    uint32_t place = node - o->hosts_count;

    if (node < o->hosts_count || place >= o->clients || place % o->hosts_count != o->mem.self)
        return NULL;
    *index = place / o->hosts_count;
    return &o->places;
}

static uint32_t node_at(const struct far *o, uint32_t index)
{
    return o->hosts_count + index * o->hosts_count + o->mem.self;
}

static uint32_t giver_of(const struct far *o, uint32_t node)
{
    return (node - o->hosts_count) % o->hosts_count;
}

bool far_gives(struct far *o, uint32_t node)
{
    uint32_t index;

    return own_place(o, node, &index);
}

/* ---- telling ---- */

static struct far_given given_at(struct far *o, uint32_t index)
{
    const struct life_place *kept = life_place(&o->life, index);

    return (struct far_given){
        .node = node_at(o, index), .life = kept->life - 1, .birth = kept->birth};
}

/* May others hear who has it? */
static bool may_tell(const struct far *o, uint32_t index)
{
    return !o->places_unsure && !o->places.state[index].held_back &&
           life_place(&o->life, index)->life > 0;
}

/* A place of ours has been given: the other hosts hear of it before its client can come to them. So nobody else can say
 * to be that client, and turn it out. */
static void given_spread(struct far *o, uint32_t index)
{
    const struct far_given given = given_at(o, index);

    for (struct link *l = may_tell(o, index) ? o->links : NULL; l; l = l->next)
        if (l->state == LINK_UP && l->peer->host && !link_send(l, FAR_GIVEN, &given, 1))
            link_fault(l, TAKES_NOTHING);
}

/* The same of all, to one host. */
static bool givens_tell(struct link *l)
{
    struct far *o = l->node;
    struct far_given given[FAR_GIVENS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < o->places.count; i++) {
        if (!may_tell(o, i))
            continue;
        given[count++] = given_at(o, i);
        if (count == FAR_GIVENS_MAX && !link_send(l, FAR_GIVEN, given, count))
            return false;
        count %= FAR_GIVENS_MAX;
    }
    return count == 0 || link_send(l, FAR_GIVEN, given, count);
}

/* How many lives of a place of another host are known here. */
static uint64_t lives_known(const struct far *o, uint32_t node)
{
    const struct peer *p = peer_at(o, node);
    uint64_t met = p ? p->lives : 0;

    if (!o->lives)
        return met;
    uint64_t kept = o->lives->place(o->lives->ctx, node - o->hosts_count);
    uint64_t told = p ? p->given : 0;
    kept = kept > told ? kept : told;
    return kept > met ? kept : met;
}

/* A host that has lost its file, or its disk, does not know which lives of its clients' places it has given. */
static bool seen_tell(struct link *l)
{
    struct far *o = l->node;
    struct far_news news[FAR_NEWS_MAX];
    uint32_t count = 0;

    for (uint32_t place = l->peer->node; place < o->clients; place += o->hosts_count) {
        uint64_t lives = lives_known(o, o->hosts_count + place);
        if (lives == 0 || lives > o->lives_max)
            continue;
        news[count++] =
            (struct far_news){.node = o->hosts_count + place, .life = (uint32_t)(lives - 1)};
        if (count == FAR_NEWS_MAX && !link_send(l, FAR_NEWS, news, count))
            return false;
        count %= FAR_NEWS_MAX;
    }
    return count == 0 || link_send(l, FAR_NEWS, news, count);
}

bool far_places_tell(struct link *l)
{
    return seen_tell(l) && givens_tell(l);
}

/* ---- hearing ---- */

bool far_places_given(struct link *l, const struct far_given *item, uint32_t count)
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
        far_place_noted(o, item[i].node, item[i].life);
    }
    return true;
}

bool far_places_seen(struct link *l, const struct far_news *item)
{
    struct far *o = l->node;
    uint32_t index;

    if (!o->host || !own_place(o, item->node, &index) || item->life >= o->lives_max)
        return false;
    const struct life_place *kept = life_place(&o->life, index);
    bool news = kept->life <= item->life;
    places_seen(&o->places, index, item->life);
    if (news && o->lives && o->lives->rejoined && !o->places_unsure)
        places_skip(&o->places, index, LIVES_SKIPPED);
    if (news)
        note(o, item->node, kept->life);
    given_spread(o, index);
    return true;
}

/* Have so many hosts told what they know of our places that nobody can have met more of their clients? One of the
 * majority that a client needs is among them, and LIVES_SKIPPED is for what even they have missed. */
static bool enough_heard(const struct far *o)
{
    uint32_t others = o->hosts_count - 1, majority = o->hosts_count / 2 + 1, heard = 0;

    for (uint32_t i = 0; i < o->hosts_count; i++)
        heard += i != o->mem.self && o->peers[i]->link && o->peers[i]->link->ready;
    return heard >= (majority < others ? majority : others);
}

void far_places_heard(struct far *o)
{
    if (!o->places_unsure || !enough_heard(o))
        return;
    o->places_unsure = false;
    for (uint32_t i = 0; i < o->places.count; i++) {
        places_skip(&o->places, i, LIVES_SKIPPED);
        note(o, node_at(o, i), life_place(&o->life, i)->life);
    }
    for (struct link *l = o->links; l; l = l->next)
        if (l->state == LINK_UP && l->peer->host && !givens_tell(l))
            link_fault(l, TAKES_NOTHING);
}

void far_places_open(struct far *o)
{
    if (!o->lives)
        return;
    for (uint32_t i = 0; i < o->places.count; i++)
        places_know(&o->places, i, o->lives->place(o->lives->ctx, node_at(o, i) - o->hosts_count),
                    o->now_ns);
    o->places_unsure = o->lives->rejoined;
    far_places_heard(o); /* if there is nobody else */
}

/* ---- giving ---- */

static void warn_used_up(struct far *o, uint32_t index, const char *name)
{
    if (life_place(&o->life, index)->life >= o->lives_max)
        say_warn(&o->say, "%s: the place of %s has now had %u processes; it is not given again%s",
                 o->name, name, o->lives_max, o->lives ? "" : " until the cluster begins anew");
}

static void let_go(struct link *l)
{
    uint32_t index;

    l->held_back = false;
    l->node->held_back--;
    if (!l->node->leaving && own_place(l->node, l->peer->node, &index))
        l->node->places.state[index].held_back = false;
}

/* The client hears of its place, now or later. */
static bool answer(struct link *l)
{
    struct far *o = l->node;
    uint32_t index = 0;

    CHECK(l->held_back && own_place(o, l->peer->node, &index));
    const struct life_place *kept = life_place(&o->life, index);
    if (kept->life != l->life + 1 || kept->birth != l->birth) {
        link_close(l, false, "another host knows of a later life of its place");
        return true;
    }
    if (!note(o, l->peer->node, kept->life))
        return true;
    let_go(l);
    given_spread(o, index);
    warn_used_up(o, index, l->peer->name);
    struct far_place given = {.node = l->peer->node, .life = l->life};
    l->first = o->roll.first[o->mem.self];
    return link_send(l, FAR_FIRST, o->roll.first, o->hosts_count) &&
           link_send(l, FAR_PLACE, &given.head + 1, 1) && link_up(l);
}

bool far_place_give(struct link *l, uint32_t wanted)
{
    struct far *o = l->node;
    uint32_t index = PLACES_NONE, this_one;

    if (!o->host || l->state != LINK_PLACING || l->held_back)
        return false;
    if (o->places_unsure)
        index = PLACES_NONE;
    else if (wanted == FAR_ANY)
        index = places_any(&o->places, o->now_ns);
    else if (own_place(o, wanted, &this_one))
        index = places_this(&o->places, this_one, o->now_ns);
    if (index == PLACES_NONE) {
        struct far_refuse r = {.reason = FAR_REASON_FULL};
        l->state = LINK_REFUSED;
        return link_send(l, FAR_REFUSE, &r.head + 1, 1);
    }
    l->peer = far_peer_get(o, node_at(o, index));
    if (!l->peer)
        return false;
    l->life = places_give(&o->places, index, l->birth);
    o->places.state[index].held_back = l->held_back = true;
    o->held_back++;
    return answer(l);
}

static struct link *next_held_back(const struct far *o, uint64_t below_id)
{
    struct link *found = NULL;

    for (struct link *l = o->links; l; l = l->next)
        if (l->held_back && l->id < below_id && (!found || l->id > found->id))
            found = l;
    return found;
}

/* By number, since an answer may end other links. */
int far_places_look_after(struct far *o)
{
    uint64_t id = UINT64_MAX;
    int answered = 0;

    for (struct link *l; (l = next_held_back(o, id)) != NULL;) {
        id = l->id;
        if (!answer(l))
            link_fault(l, TAKES_NOTHING);
        answered += !l->held_back;
    }
    return answered;
}

void far_place_freed(struct link *l, bool ended)
{
    struct far *o = l->node;
    uint32_t index;
    bool held_back = l->held_back;

    if (held_back)
        let_go(l);
    /* Whoever leaves ends its links itself, with the file of places closed: its clients live on, and keep theirs. */
    struct places *p = o->host && !o->leaving ? own_place(o, l->peer->node, &index) : NULL;
    if (p && held_back)
        places_withdraw(p, index, l->life); /* the disk may know of it by then */
    else if (p)
        places_leave(p, index, l->birth, ended, o->now_ns);
}

/* ---- coming back ---- */

/* Has the client the place that it says, as far as can be known: the host that gives it may be away. */
bool far_place_had(const struct link *l)
{
    const struct far *o = l->node;
    const struct peer *p = l->peer;

    if (!o->host)
        return true;
    if (giver_of(o, p->node) == o->mem.self)
        return !o->places_unsure;
    const struct link *giver = o->peers[giver_of(o, p->node)]->link;
    if (!giver || !giver->ready)
        return true;
    return p->given == (uint64_t)l->life + 1 && (p->given_birth == 0 || p->given_birth == l->birth);
}

/* A client comes back to the host that has given it its place. */
bool far_place_kept(struct link *l, uint32_t *given)
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
