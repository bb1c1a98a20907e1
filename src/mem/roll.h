/* The roll: which hosts of a cluster hold memory of it, as far as this host knows, and what follows for a host that
 * starts again without its memory.
 *
 * Where memory goes with the process, a host that starts again must promise nothing (MEM_BIRTH_LOST), for it may
 * have promised before. It gets its state from a majority of the others. If all hosts have left in order there is no
 * such majority, and nothing that an old promise could protect: the cluster begins anew. The roll tells the two apart.
 *
 * Every host has a *status* in each of its lives:
 *
 *     MEMBER   it holds memory: it was new, or was taken back, or has begun anew
 *     EMPTY    it runs, or ran, without memory; the last life that had some left in order
 *     BEREFT   the same, but that life was killed
 *     LEFT     it was a member and left in order
 *
 * Hosts tell each other all that they know when they connect, when something has changed, and before they leave;
 * what is newer (a later life; in the same life, what stands further down in the enum) replaces what is older. So
 * who knows that a host has left knows everything that this host knew. The entries are kept in the file of the
 * host's lives.
 *
 * A host that is EMPTY **begins anew** when every host that it has ever heard of has left, or is EMPTY too, or is a
 * member of a cluster that has never counted with the lives that are gone. Why nobody is overlooked: a host that came
 * back was taken back by a leader that was connected to it; that leader's last entry (LEFT, or its own word) then
 * brings along that the host was back; and for the first host that came back, the leader's own entry is not
 * outdated. `tests/unit/mem_roll` draws schedules against this.
 *
 * As a second line of defence members that are connected compare of which lives their memories are made: `first` is
 * the earliest life of each host that ours may have counted with, `ended` the life below which all were over when ours
 * began. If one's `first` is below the other's `ended` they are of two different clusters, and must not connect.
 *
 * An *age* is when the file of lives was made (milliseconds) and the number of the life: a host whose file was removed
 * does not look younger than it was. Everything here is a function of what was told: no clock, no input or output. */
#ifndef MEM_ROLL_H
#define MEM_ROLL_H

#include <stdbool.h>
#include <stdint.h>

enum { ROLL_HOSTS_MAX = 128 };

#define ROLL_NEVER UINT64_MAX /* as `first`: no life of it was counted with */

enum roll_status { ROLL_UNKNOWN, ROLL_BEREFT, ROLL_EMPTY, ROLL_MEMBER, ROLL_LEFT, ROLL_STATUSES };

/* What is kept of a host. */
struct roll_entry {
    uint64_t age;    /* of the last life that was heard of */
    uint64_t gone;   /* what lives below this age held is gone */
    uint32_t status; /* enum roll_status, of that last life */
    uint32_t unused;
};

/* What one host tells another of a third. */
struct roll_item {
    uint32_t host;
    uint32_t status;
    uint64_t age;
    uint64_t gone;
    uint64_t first; /* of the memory of who tells */
    uint64_t ended;
};

/* What a connected host has told of its own memory. */
struct roll_told {
    bool whole;
    uint64_t first[ROLL_HOSTS_MAX];
    uint64_t ended[ROLL_HOSTS_MAX];
    uint64_t member[ROLL_HOSTS_MAX]; /* ages of those whom it knows as members; 0: it is none */
    uint64_t us;                     /* age of us */
};

struct roll {
    uint32_t hosts, self;
    struct roll_entry *entry; /* by host; the caller's, who keeps them in a file */
    uint64_t first[ROLL_HOSTS_MAX];
    uint64_t ended[ROLL_HOSTS_MAX];
    struct roll_told *told[ROLL_HOSTS_MAX]; /* NULL: not connected */
    /* Ages of members that one who holds what we have lost counts with: news of that from themselves may be under
     * way. */
    uint64_t ours[ROLL_HOSTS_MAX];
    /* Ages in which hosts were bereft, as this life of ours has heard: that they have gone since, and are EMPTY when they
     * come back, does not make it an orderly end for us, who have not said yet what was lost. */
    uint64_t bereft[ROLL_HOSTS_MAX];
    bool changed; /* the others are to be told */
};

enum roll_verdict {
    ROLL_SETTLED, /* we hold memory */
    ROLL_ANEW,    /* nobody holds what we have lost, and all left in order */
    ROLL_JOIN,    /* somebody holds it: to be taken back */
    ROLL_WAIT,    /* somebody may hold it, and is not connected */
    ROLL_LOST,    /* somebody who held it, or we, did not leave in order */
};

enum {
    ROLL_LIFE_BITS = 20
}; /* one more life than that is a later millisecond, and still a higher age */

static inline uint64_t roll_age(uint64_t made_ms, uint32_t life)
{
    return (made_ms << ROLL_LIFE_BITS) + life;
}

/* Begins a life of `self`. entry[self] is that of the life before; all zero: there was none, or nothing is known of
 * it, as `lived` says. */
void roll_open(struct roll *, uint32_t hosts, uint32_t self, struct roll_entry *entry, uint64_t age,
               bool lived);

/* The same where memory is on disks and no life of it is ever over: `self` is a member, whatever became of the life
 * before, and so are all others. Ages differ by lives alone. */
void roll_open_kept(struct roll *, uint32_t hosts, uint32_t self, struct roll_entry *entry,
                    uint32_t life);
void roll_close(struct roll *);

/* All that is to be told, `hosts` items; that of ourselves is the last. */
void roll_tell(const struct roll *, struct roll_item *out);

/* `from` is connected and has told this. False: nonsense, or no memory. After its item of itself,
 * roll_heard is true. */
bool roll_hear(struct roll *, uint32_t from, const struct roll_item *);
bool roll_heard(const struct roll *, uint32_t from);

/* With what `from` has told: are its memory and ours of two clusters? `mine`: since it counts with a life of ours that
 * we know nothing of. */
bool roll_conflict(const struct roll *, uint32_t from, bool *mine);

/* A client belongs to the cluster that has given it its place, `first` as of the host that did: has that one ended,
 * and ours begun after it? */
bool roll_outdated(const struct roll *, const uint64_t first[]);

/* The number of the last life of ours that it knows of. */
uint32_t roll_known_life(const struct roll *, uint32_t from);

/* It is connected from now on, and counts; is not any more. */
void roll_connect(struct roll *, uint32_t host);
void roll_disconnect(struct roll *, uint32_t host);

/* Is another member connected? */
bool roll_company(const struct roll *);

/* What follows for us; *who is a host that the verdict is due to. */
enum roll_verdict roll_judge(const struct roll *, uint32_t *who);

/* Changes of our own status. They count when the file is on the disk. */
void roll_begin_anew(struct roll *);    /* the verdict was ROLL_ANEW */
void roll_taken_back(struct roll *);    /* a region was opened for promises */
void roll_leave(struct roll *);         /* in order */
void roll_forget_memory(struct roll *); /* what we hold does not count: the next life is BEREFT */

/* The host remembers us from a life that we know nothing of: it, too, is not to be forgotten. */
void roll_suspect(struct roll *, uint32_t host);

static inline enum roll_status roll_own(const struct roll *r)
{
    return (enum roll_status)r->entry[r->self].status;
}

#endif
