/* Carries the roll (mem/roll.h) over links, and does what follows from it. */
#include "base/say.h"
#include "mem/far/impl.h"

#include <errno.h>
#include <string.h>

#define ROLL_EVERY_NS (10 * MS) /* between two tellings of what was only heard */
#define PATIENCE_NS (3000 * MS) /* before a host that is waited for is spoken of */

/* All of it, the item of ourselves last. */
bool far_roll_send(struct link *l)
{
    struct roll_item items[ROLL_HOSTS_MAX];
    uint32_t n = l->node->roll.hosts;

    roll_tell(&l->node->roll, items);
    for (uint32_t at = 0; at < n; at += FAR_ROLLS_MAX) {
        uint32_t count = n - at < FAR_ROLLS_MAX ? n - at : (uint32_t)FAR_ROLLS_MAX;
        if (!link_send(l, FAR_ROLL, &items[at], count))
            return false;
    }
    return true;
}

/* What we do next reaches nobody before this. */
static void tell_all(struct far *o)
{
    o->roll.changed = false;
    o->roll_ns = o->now_ns;
    for (struct link *l = o->links; l; l = l->next) {
        bool sent = true;
        if (l->state != LINK_UP && l->state != LINK_MEETING)
            continue;
        if (l->peer->host)
            sent = far_roll_send(l);
        else if (far_gives(o, l->peer->node))
            sent = link_send(l, FAR_FIRST, o->roll.first, o->hosts_count);
        if (!sent)
            link_fault(l, TAKES_NOTHING);
    }
}

/* Our own status has changed. It counts when it is on the disk and on its way. */
static void status_changed(struct far *o)
{
    if (!life_sync(&o->life))
        far_fail(o, "write %s to the disk: %s", o->life.path, strerror(errno));
    tell_all(o);
}

static void begin_anew(struct far *o)
{
    roll_begin_anew(&o->roll);
    far_clients_judge(o);
    places_void(&o->places);
    status_changed(o);
    o->mem.anew = true;
    say_warn(
        &o->say,
        "%s: all hosts had left in order, so nobody holds what the cluster had; it begins anew",
        o->name);
}

static void judge(struct far *o)
{
    uint32_t who;
    enum roll_verdict v = roll_judge(&o->roll, &who);

    if (v != o->verdict || who != o->verdict_who) {
        o->verdict_ns = o->now_ns;
        o->verdict_said = false;
    }
    o->verdict = v;
    o->verdict_who = who;
    if (v == ROLL_ANEW && !o->leaving)
        begin_anew(o);
    o->mem.unsettled = o->verdict == ROLL_WAIT && roll_own(&o->roll) == ROLL_EMPTY;
}

void far_roll_open(struct far *o, bool lived)
{
    uint64_t age = roll_age(life_made_ms(&o->life), o->mem.life);

    if (o->lives)
        roll_open_kept(&o->roll, o->hosts_count, o->mem.self, life_roll(&o->life), o->mem.life);
    else
        roll_open(&o->roll, o->hosts_count, o->mem.self, life_roll(&o->life), age, lived);
    judge(o);
}

/* ---- meeting ---- */

/* Two that hold memory of different beginnings of the cluster. Who is alone with it, and is known to the other from
 * before, has lost its file. */
static bool part(struct link *l, bool mine)
{
    struct far *o = l->node;
    const char *name = l->peer->name;

    if (!mine || roll_company(&o->roll))
        return link_refuse(l, FAR_REASON_OTHER, l->life);
    uint32_t known = roll_known_life(&o->roll, l->peer->node);
    roll_forget_memory(&o->roll);
    life_set(&o->life, (known > o->mem.life ? known : o->mem.life) + 1);
    life_sync(&o->life);
    far_fail(o,
             "%s has counted with an earlier life of this host, of which %s knows nothing; start "
             "this host again, and "
             "it is taken back",
             name, o->life.path);
    return false;
}

bool far_roll_take(struct link *l, const struct roll_item *item, uint32_t count)
{
    struct far *o = l->node;
    bool mine, up = l->state == LINK_UP;

    if (!o->host || (!up && l->state != LINK_MEETING) || !l->peer->host)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!roll_hear(&o->roll, l->peer->node, &item[i]))
            return false;
    if (item[count - 1].host != l->peer->node)
        return true; /* more is to come */
    /* FAR_LEAVE comes right behind, and may be lost with the connection. */
    if (item[count - 1].status == ROLL_LEFT)
        l->peer->left = true;
    if (roll_conflict(&o->roll, l->peer->node, &mine))
        return part(l, mine);
    roll_connect(&o->roll, l->peer->node);
    if (!up && !link_up(l))
        return false;
    if (l->state == LINK_UP)
        judge(o);
    return true;
}

void far_roll_link_ended(struct link *l)
{
    struct far *o = l->node;

    for (struct link *other = o->links; other; other = other->next)
        if (other->peer == l->peer && other != l &&
            (other->state == LINK_UP || other->state == LINK_MEETING))
            return;
    roll_disconnect(&o->roll, l->peer->node);
    if (!o->leaving)
        judge(o);
}

/* ---- now and then ---- */

static void say_waiting(struct far *o)
{
    const char *name = o->peers[o->verdict_who]->name;

    o->verdict_said = true;
    say_warn(&o->say,
             "%s: this host has left in order; whether %s has is not known, so it is not known "
             "whether the cluster "
             "is over: start %s. If it is gone for good: stop all hosts, remove %s and the same "
             "file of every "
             "other host, and start them; the cluster then begins anew, without what it had",
             o->name, name, name, o->life.path);
}

void far_roll_look_after(struct far *o)
{
    if (o->roll.changed && o->now_ns - o->roll_ns >= ROLL_EVERY_NS)
        tell_all(o);
    if (o->mem.unsettled && !o->verdict_said && o->now_ns - o->verdict_ns > PATIENCE_NS)
        say_waiting(o);
}

/* ---- our own status ---- */

void far_roll_taken_back(struct far *o)
{
    if (roll_own(&o->roll) == ROLL_MEMBER)
        return;
    roll_taken_back(&o->roll);
    far_clients_judge(o);
    status_changed(o);
    judge(o);
}

void far_roll_leave(struct far *o)
{
    roll_leave(&o->roll);
    status_changed(o);
}
