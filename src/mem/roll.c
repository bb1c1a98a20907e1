#include "mem/roll.h"

#include <stdlib.h>
#include <string.h>

static uint64_t min_age(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_age(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void forget_all(struct roll *r)
{
    for (uint32_t i = 0; i < ROLL_HOSTS_MAX; i++) {
        r->first[i] = ROLL_NEVER;
        r->ended[i] = 0;
    }
}

void roll_open(struct roll *r, uint32_t hosts, uint32_t self, struct roll_entry *entry,
               uint64_t age, bool lived)
{
    struct roll_entry *own = &entry[self];

    memset(r, 0, sizeof *r);
    r->hosts = hosts;
    r->self = self;
    r->entry = entry;
    forget_all(r);
    switch ((enum roll_status)own->status) {
    case ROLL_UNKNOWN:
        own->status = lived ? ROLL_BEREFT : ROLL_MEMBER;
        own->gone = age;
        break;
    case ROLL_MEMBER:
        own->gone = own->age + 1;
        own->status = ROLL_BEREFT;
        break;
    case ROLL_LEFT:
        own->gone = own->age + 1;
        own->status = ROLL_EMPTY;
        break;
    default: /* without memory before, and without memory now */
        break;
    }
    own->age = age;
    r->first[self] = age;
    r->ended[self] = own->gone;
}

void roll_open_kept(struct roll *r, uint32_t hosts, uint32_t self, struct roll_entry *entry,
                    uint32_t life)
{
    /* Of the others nothing needs to be known: nobody waits for them to have left. */
    memset(entry, 0, ROLL_HOSTS_MAX * sizeof *entry);
    roll_open(r, hosts, self, entry, roll_age(0, life), false);
    entry[self].gone = r->ended[self] = 0;
}

void roll_close(struct roll *r)
{
    for (uint32_t i = 0; i < ROLL_HOSTS_MAX; i++) {
        free(r->told[i]);
        r->told[i] = NULL;
    }
}

void roll_tell(const struct roll *r, struct roll_item *out)
{
    for (uint32_t k = 1; k <= r->hosts; k++) {
        uint32_t i = (r->self + k) % r->hosts;
        out[k - 1] = (struct roll_item){.host = i,
                                        .status = r->entry[i].status,
                                        .age = r->entry[i].age,
                                        .gone = r->entry[i].gone,
                                        .first = r->first[i],
                                        .ended = r->ended[i]};
    }
}

/* ---- hearing ---- */

static bool newer(const struct roll_item *it, const struct roll_entry *than)
{
    return it->age > than->age || (it->age == than->age && it->status > than->status);
}

static void entry_take(struct roll *r, uint32_t from, const struct roll_item *it)
{
    struct roll_entry *e = &r->entry[it->host];
    struct roll_entry now = {.age = it->age, .gone = it->gone, .status = it->status};

    if (it->host == r->self || it->status == ROLL_UNKNOWN)
        return;
    /* Of itself a host knows best, and whoever is connected speaks for himself. */
    if (it->host != from && (r->told[it->host] || !newer(it, e)))
        return;
    if (memcmp(e, &now, sizeof now) == 0)
        return;
    *e = now;
    if (now.status == ROLL_BEREFT)
        r->bereft[it->host] = now.age;
    r->changed = true;
}

/* Both hold memory, of the same cluster. */
static void memories_meet(struct roll *r, const struct roll_told *t)
{
    for (uint32_t i = 0; i < r->hosts; i++) {
        r->changed |= t->first[i] < r->first[i];
        r->first[i] = min_age(r->first[i], t->first[i]);
        r->ended[i] = max_age(r->ended[i], t->ended[i]);
    }
}

/* Lives below this age are over, in what we would begin now. */
static uint64_t over_below(const struct roll *r, uint32_t i)
{
    const struct roll_entry *e = &r->entry[i];

    switch ((enum roll_status)e->status) {
    case ROLL_LEFT:
        return e->age + 1;
    case ROLL_EMPTY:
    case ROLL_BEREFT:
        return e->gone;
    default: /* it runs with memory, or was never heard of */
        return 0;
    }
}

/* Has the member that told this counted with lives that are over? */
static bool holds_ours(const struct roll *r, const struct roll_told *t)
{
    for (uint32_t i = 0; i < r->hosts; i++)
        if (t->first[i] < over_below(r, i))
            return true;
    return false;
}

/* It has told everything. */
static void told_whole(struct roll *r, struct roll_told *t)
{
    t->whole = true;
    for (uint32_t i = 0; i < r->hosts && holds_ours(r, t); i++)
        r->ours[i] = max_age(r->ours[i], t->member[i]);
}

bool roll_hear(struct roll *r, uint32_t from, const struct roll_item *it)
{
    if (from >= r->hosts || from == r->self || it->host >= r->hosts || it->status >= ROLL_STATUSES)
        return false;
    if (!r->told[from])
        r->told[from] = calloc(1, sizeof *r->told[from]);
    struct roll_told *t = r->told[from];
    if (!t)
        return false;
    t->first[it->host] = it->first;
    t->ended[it->host] = it->ended;
    if (it->host == r->self)
        t->us = it->age;
    t->member[it->host] = it->status == ROLL_MEMBER ? it->age : 0;
    entry_take(r, from, it);
    if (it->host == from)
        told_whole(r, t);
    return true;
}

bool roll_heard(const struct roll *r, uint32_t from)
{
    return r->told[from] && r->told[from]->whole;
}

bool roll_conflict(const struct roll *r, uint32_t from, bool *mine)
{
    const struct roll_told *t = r->told[from];
    bool found = false;

    *mine = false;
    if (!t || roll_own(r) != ROLL_MEMBER || r->entry[from].status != ROLL_MEMBER)
        return false;
    for (uint32_t i = 0; i < r->hosts; i++)
        found |= t->first[i] < r->ended[i] || r->first[i] < t->ended[i];
    *mine = t->first[r->self] < r->ended[r->self];
    return found;
}

bool roll_outdated(const struct roll *r, const uint64_t first[])
{
    /* Without memory we belong to no cluster, and may yet be taken back by the one that the client is of. */
    if (roll_own(r) != ROLL_MEMBER)
        return false;
    for (uint32_t i = 0; i < r->hosts; i++)
        if (first[i] < r->ended[i])
            return true;
    return false;
}

uint32_t roll_known_life(const struct roll *r, uint32_t from)
{
    uint64_t age = r->told[from] ? r->told[from]->us : 0;

    return (uint32_t)(age & ((UINT64_C(1) << ROLL_LIFE_BITS) - 1));
}

void roll_connect(struct roll *r, uint32_t host)
{
    /* Also of one without memory: it may be taken back at any time. */
    uint64_t first = min_age(r->first[host], r->entry[host].age);

    r->changed |= first != r->first[host];
    r->first[host] = first;
    if (r->told[host] && roll_own(r) == ROLL_MEMBER && r->entry[host].status == ROLL_MEMBER)
        memories_meet(r, r->told[host]);
}

void roll_disconnect(struct roll *r, uint32_t host)
{
    free(r->told[host]);
    r->told[host] = NULL;
}

bool roll_company(const struct roll *r)
{
    for (uint32_t i = 0; i < r->hosts; i++)
        if (roll_heard(r, i) && r->entry[i].status == ROLL_MEMBER && r->first[i] != ROLL_NEVER)
            return true;
    return false;
}

/* ---- judging ---- */

static enum roll_verdict judge_one(const struct roll *r, uint32_t i)
{
    bool here = roll_heard(r, i);

    switch ((enum roll_status)r->entry[i].status) {
    case ROLL_MEMBER:
        if (!here)
            return ROLL_WAIT;
        return holds_ours(r, r->told[i]) || r->ours[i] >= r->entry[i].age ? ROLL_JOIN : ROLL_ANEW;
    case ROLL_BEREFT:
        return here ? ROLL_LOST : ROLL_WAIT;
    case ROLL_EMPTY:
        return r->bereft[i] == r->entry[i].age ? ROLL_LOST : ROLL_ANEW;
    default:
        return ROLL_ANEW;
    }
}

enum roll_verdict roll_judge(const struct roll *r, uint32_t *who)
{
    /* What weighs more comes first: one that lives decides, and while one may live nothing is lost. */
    static const enum roll_verdict order[] = {ROLL_JOIN, ROLL_WAIT, ROLL_LOST};

    *who = r->self;
    if (roll_own(r) == ROLL_MEMBER || roll_own(r) == ROLL_LEFT)
        return ROLL_SETTLED;
    for (uint32_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        for (uint32_t i = 0; i < r->hosts; i++)
            if (i != r->self && judge_one(r, i) == order[k]) {
                *who = i;
                return order[k];
            }
    }
    return roll_own(r) == ROLL_BEREFT ? ROLL_LOST : ROLL_ANEW;
}

/* ---- our own status ---- */

static void become(struct roll *r, enum roll_status s)
{
    r->entry[r->self].status = s;
    r->changed = true;
}

/* Whoever is connected is of the cluster that we are a member of from now on. */
static void meet_connected(struct roll *r)
{
    for (uint32_t i = 0; i < r->hosts; i++) {
        if (!roll_heard(r, i))
            continue;
        r->first[i] = min_age(r->first[i], r->entry[i].age);
        if (r->entry[i].status == ROLL_MEMBER)
            memories_meet(r, r->told[i]);
    }
}

void roll_begin_anew(struct roll *r)
{
    uint64_t over[ROLL_HOSTS_MAX];

    for (uint32_t i = 0; i < r->hosts; i++)
        over[i] = over_below(r, i);
    forget_all(r);
    memcpy(r->ended, over, r->hosts * sizeof *over);
    r->first[r->self] = r->entry[r->self].age;
    become(r, ROLL_MEMBER);
    meet_connected(r);
}

void roll_taken_back(struct roll *r)
{
    if (roll_own(r) == ROLL_MEMBER || roll_own(r) == ROLL_LEFT)
        return;
    forget_all(r);
    r->first[r->self] = r->entry[r->self].age;
    become(r, ROLL_MEMBER);
    meet_connected(r);
}

void roll_leave(struct roll *r)
{
    switch (roll_own(r)) {
    case ROLL_MEMBER:
        become(r, ROLL_LEFT);
        break;
    case ROLL_BEREFT: /* what was lost was said; there is nothing to lose any more */
        become(r, ROLL_EMPTY);
        break;
    default:
        break;
    }
}

void roll_forget_memory(struct roll *r)
{
    r->entry[r->self].gone = r->entry[r->self].age + 1;
    become(r, ROLL_BEREFT);
}

void roll_suspect(struct roll *r, uint32_t host)
{
    roll_forget_memory(r);
    if (r->entry[host].status == ROLL_UNKNOWN)
        r->entry[host] = (struct roll_entry){.age = 1, .status = ROLL_MEMBER};
}
