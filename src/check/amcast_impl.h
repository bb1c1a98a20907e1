/* The inside of the checker: how a history is kept. See amcast.h for what it means. */
#ifndef CHECK_AMCAST_IMPL_H
#define CHECK_AMCAST_IMPL_H

#include "base/err.h"
#include "check/amcast.h"
#include "trace/intern.h"

#define NONE UINT32_MAX

struct message {
    uint32_t dst;                              /* the set named first; NONE: none yet */
    uint32_t client;                           /* who cast it; NONE: nobody */
    struct amcast_place named;                 /* where dst was named first */
    struct amcast_place cast, done, delivered; /* the first of each that was fed */
    bool was_cast, was_done, was_delivered;
};

/* Deliveries of one life with consecutive numbers. A life is one run, unless its numbers jump. */
struct run {
    uint64_t n_first;
    struct step {
        uint32_t message, line;
    } * steps;
    uint32_t count, max;
    uint32_t life;
    uint32_t file;
    uint32_t next;      /* of the same group; NONE: the last */
    uint32_t life_next; /* of the same life; NONE: the last */
    uint32_t at;        /* index of its first delivery in the group's sequence */
    bool by_start;      /* begun by a `start` */
    uint32_t start_line;
};

struct life {
    uint32_t replica;
    uint32_t inc;
    uint32_t run_first, run_last;
};

struct replica {
    uint32_t group;
    uint32_t host;      /* number in `hosts` */
    uint32_t life_last; /* of the highest inc; NONE: it has none */
    bool down;
};

/* A stretch of numbers that was delivered: its deliveries are at `at` and on in the sequence. */
struct stretch {
    uint64_t n_first, n_end;
    uint32_t at;
};

struct group {
    uint32_t run_first, run_last; /* list through run.next */
    uint64_t deliveries;
    bool excused; /* by amcast_down */
    bool down;    /* excused, or all of its replicas are down; verify finds out */

    /* Built by verify: the union of all runs, by number. */
    uint32_t count;
    uint32_t *seq;     /* message */
    uint32_t *seq_run; /* a run that has it */
    struct stretch *stretches;
    uint32_t stretch_count;
};

struct dst_list {
    uint32_t at, count; /* in dst_groups, ascending */
};

struct amcast {
    struct intern file_names, group_names, host_names, client_names, ids;
    struct intern replica_keys; /* {group, host} */
    struct intern life_keys;    /* {replica, inc} */
    struct intern dst_keys;     /* the list itself */

    struct group *groups;
    struct replica *replicas;
    struct life *lives;
    struct run *runs;
    struct message *messages;
    bool *crashed; /* by client */
    struct dst_list *dsts;
    uint32_t *dst_groups;
    uint32_t group_max, replica_max, life_max, run_max, message_max, crashed_max, dst_max,
        dst_groups_max;
    uint32_t run_count, dst_groups_count;

    uint32_t *stamps; /* by message: scratch of the checks */
    uint64_t casts, dones, deliveries, starts;
    uint32_t life_hint; /* the life of the last delivery */

    bool gap;       /* events are missing */
    bool verifying; /* inside amcast_verify */
    struct amcast_violation *kept;
    uint32_t kept_count, kept_max;
    uint32_t kept_of[AMCAST_PROPERTIES];
    uint64_t found[AMCAST_PROPERTIES];     /* violations, kept or not */
    uint64_t found_fed[AMCAST_PROPERTIES]; /* those that were seen as the event came, and stay */
    bool checked[AMCAST_PROPERTIES];
};

/* Counts a violation. Returns it for evidence to be added, or NULL if enough of its kind are kept. */
struct amcast_violation *amcast_violated(struct amcast *, enum amcast_property, const char *fmt,
                                         ...) __attribute__((format(printf, 3, 4)));

/* Adds an event to a violation; does nothing if v is NULL. */
void amcast_evidence(struct amcast_violation *v, struct amcast_place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void amcast_evidence_step(const struct amcast *, struct amcast_violation *v, const struct run *,
                          uint32_t step);
void amcast_evidence_seq(const struct amcast *, struct amcast_violation *v, uint32_t group,
                         uint32_t i);
void amcast_evidence_cast(const struct amcast *, struct amcast_violation *v, uint32_t message);
void amcast_evidence_done(const struct amcast *, struct amcast_violation *v, uint32_t message);

/* A name for printf's %.*s: NAMED(&a->group_names, g). */
static inline const char *name_text(const struct intern *t, uint32_t number)
{
    uint32_t len;
    return intern_text(t, number, &len);
}
static inline int name_len(const struct intern *t, uint32_t number)
{
    uint32_t len;
    intern_text(t, number, &len);
    return len < 48 ? (int)len : 48;
}
#define NAMED(table, number) name_len(table, number), name_text(table, number)
#define GROUP(a, g) NAMED(&(a)->group_names, g)
#define MESSAGE(a, m) NAMED(&(a)->ids, m)
#define HOST(a, r) NAMED(&(a)->host_names, (a)->replicas[r].host)
#define CLIENT(a, c) NAMED(&(a)->client_names, c)

static inline bool is_destination(const struct amcast *a, uint32_t dst, uint32_t group)
{
    const uint32_t *g = a->dst_groups + a->dsts[dst].at;
    for (uint32_t i = 0; i < a->dsts[dst].count; i++)
        if (g[i] == group)
            return true;
    return false;
}

/* Parts of amcast_verify (amcast_order.c), once the sequences stand and are whole. */
void amcast_verify_pairs(struct amcast *);
void amcast_verify_acyclic(struct amcast *);

/* Forgets what an earlier amcast_verify found and built. */
void amcast_forget(struct amcast *);

/* Zeroes the scratch words of all messages. */
uint32_t *amcast_stamps(struct amcast *);

#endif
