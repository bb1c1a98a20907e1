/* Lives that a disk keeps (mem/lives.h), at a host.
 *
 * A client counts its life in its lock file, which goes with the runtime directory: when the machine restarts, or the last
 * host leaves. What hosts have on disk does not, so a host that begins makes the files say what its disk knows, before any
 * client can connect to it. And what a life of a client has written is not seen before our disk knows of that life.
 *
 * A client may come before all hosts have begun, in a life that somebody had before. A host whose disk knows of that life
 * must tell the two apart, also after its own restart: it notes in the file which count it has *from this file*. What it
 * knows without such a note it has from before. That client is shut out: its file is replaced, it sees that, and whoever
 * comes next begins behind what is known. */
#include "base/say.h"
#include "mem/shm/wire.h"

#include <stdio.h>
#include <string.h>

static void place_name(char out[SHM_NAME_BYTES], uint32_t place)
{
    snprintf(out, SHM_NAME_BYTES, "client-%u", place);
}

bool lives_is_place(const struct shm *s, uint32_t node, const char *name)
{
    char place[SHM_NAME_BYTES];

    if (node < s->client_node || node - s->client_node >= s->clients)
        return false;
    place_name(place, node - s->client_node);
    return strcmp(place, name) == 0;
}

/* Disk and file know of the same lives afterwards, or soon. */
static int place_settle(struct shm *s, uint32_t place, struct err *e)
{
    uint32_t known = s->lives->place(s->lives->ctx, place);
    char name[SHM_NAME_BYTES];

    place_name(name, place);
    struct lock_seen file = lock_look(s, name);
    if (file.lives < known)
        return lock_renew(s, name, known, e);
    if (file.lives > known && file.lives <= s->lives_max) {
        lock_note(s, name, file.lives);
        s->lives->note_place(s->lives->ctx, place, file.lives);
    }
    return 0;
}

int lives_open(struct shm *s, struct err *e)
{
    int rc = 0;

    for (uint32_t i = 0; i < s->hosts_count; i++)
        s->hosts[i]->known = s->lives->host(s->lives->ctx, s->hosts[i]->node);
    for (uint32_t i = 0; rc == 0 && i < s->clients; i++)
        rc = place_settle(s, i, e);
    return rc;
}

void lives_host_came(struct shm *s, const struct peer *p, uint32_t life)
{
    if (s->lives)
        s->lives->note_host(s->lives->ctx, p->node, life + 1);
}

/* Another process had the place in this life: this one is told so, and the next has a later one. */
static bool shut_out(struct shm *s, struct peer *p, uint32_t count, uint32_t known)
{
    struct err e = {""};
    char why[160];

    if (!directory_try_lock(s))
        return false;
    if (lock_look(s, p->name).lives == count && lock_renew(s, p->name, known, &e) < 0)
        say_warn(&s->say, "%s: %s", s->self->name, e.text);
    directory_unlock(s);
    snprintf(why, sizeof why,
             "client %.63s is in life %u, which another process had before it; open a new client",
             p->name, count - 1);
    pthread_mutex_lock(&s->lock);
    expel(s->helper, p, count - 1, why);
    pthread_mutex_unlock(&s->lock);
    helper_wake(s);
    return true;
}

static enum lives_verdict judge_new(struct shm *s, struct peer *p, uint32_t count)
{
    uint32_t known = s->lives->place_before(s->lives->ctx, p->node - s->client_node);
    struct lock_seen file = lock_look(s, p->name);

    if (file.lives != count || count > s->lives_max)
        return LIVES_UNSEEN; /* the next one is there already; or this was one too many */
    if (count > known || file.noted == count) {
        lock_note(s, p->name, count);
        return LIVES_SEEN;
    }
    return shut_out(s, p, count, known) ? LIVES_UNSEEN : LIVES_LATER;
}

/* Through the log a host may hear of a client before it has met it, and may be killed in between: then its disk knows of that life,
 * and it is to be known from where. */
void shm_saw_client(struct mem *m, uint32_t place, uint32_t life)
{
    struct shm *s = shm_of(m);
    char name[SHM_NAME_BYTES];

    if (!s->lives || place >= s->clients ||
        life + 1 <= s->lives->place_before(s->lives->ctx, place))
        return;
    place_name(name, place);
    struct lock_seen file = lock_look(s, name);
    if (file.lives == life + 1 && file.noted != life + 1)
        lock_note(s, name, life + 1);
}

enum lives_verdict lives_judge(struct shm *s, struct peer *p, uint32_t life)
{
    uint32_t count = life + 1;

    if (p->admitted == count)
        return LIVES_SEEN;
    if (p->refused == count)
        return LIVES_UNSEEN;
    if (p->noting != count) {
        enum lives_verdict v = judge_new(s, p, count);
        if (v == LIVES_UNSEEN)
            p->refused = count;
        if (v != LIVES_SEEN)
            return v;
        p->noting = count;
    }
    if (!s->lives->note_place(s->lives->ctx, p->node - s->client_node, count))
        return LIVES_LATER;
    p->admitted = count;
    return LIVES_SEEN;
}
