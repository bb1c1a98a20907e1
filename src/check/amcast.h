/* Does a history of multicasts and deliveries keep what atomic multicast promises?
 *
 * The history is fed event by event, in any order between clients and replicas, but in their own
 * order for each of them; amcast_verify then judges all of it. Everything is named by numbers,
 * which the functions below give out for names. Memory is about 50 bytes a message and 8 a
 * delivery; the checks take time in proportion to the deliveries and the lengths of the destination
 * lists. One thread. Running out of memory ends the process.
 *
 * What is checked (protocols.md section 10.1):
 *
 * integrity    A replica delivers a message once, only if it was cast, only in a group of its
 *              destinations; everybody names the same destinations.
 * validity     What a client was told is done has been delivered in every destination group. If the
 *              history is quiesced: what a client that did not crash cast is delivered by every live
 *              replica of all its destinations.
 * agreement    Only if quiesced: what any replica delivered, dead or alive, is delivered by every
 *              live replica of all its destinations.
 * numbers      The deliveries of one life of a replica are numbered without gap, its first life from
 *              the beginning; a later one may begin anywhere, its state having come by snapshot, or
 *              exactly where its `start` says. Every number up to the highest of a group was
 *              delivered by somebody.
 * prefix order Replicas of a group deliver the same message at the same number; two groups
 *              deliver the messages to both of them in the same order, without leaving one out.
 * acyclic      There is no circle of messages each delivered before the next, over all groups.
 *
 * A later life counts as having delivered all that is numbered before its beginning. */
#ifndef CHECK_AMCAST_H
#define CHECK_AMCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum amcast_property {
    AMCAST_INTEGRITY,
    AMCAST_VALIDITY,
    AMCAST_AGREEMENT,
    AMCAST_NUMBERS,
    AMCAST_PREFIX,
    AMCAST_ACYCLIC,
    AMCAST_PROPERTIES
};

extern const char *const amcast_property_names[AMCAST_PROPERTIES];

enum { AMCAST_KEPT_MAX = 8, AMCAST_EVENT_TEXT_BYTES = 160 };

/* Where an event stands: a file given to amcast_file, and a line of it (or any number that tells a
 * reader where to look). */
struct amcast_place {
    uint32_t file, line;
};

/* An event that a violation is about. */
struct amcast_evidence {
    struct amcast_place place;
    char text[AMCAST_EVENT_TEXT_BYTES];
};

struct amcast_violation {
    enum amcast_property property;
    bool at_end; /* found by amcast_verify, not when the event came */
    char *text;
    struct amcast_evidence *evidence;
    uint32_t evidence_count;
};

struct amcast;
struct amcast *amcast_open(void);
void amcast_close(struct amcast *);

/* ---- names; the same name gives the same number ---- */

uint32_t amcast_file(struct amcast *, const char *name);
uint32_t amcast_group(struct amcast *, const char *name, size_t len);
uint32_t amcast_replica(struct amcast *, uint32_t group, const char *host, size_t len);
uint32_t amcast_client(struct amcast *, const char *name, size_t len);
uint32_t amcast_message(struct amcast *, const char *id, size_t len);

/* A set of groups, in any order, repetitions ignored. */
uint32_t amcast_dst(struct amcast *, const uint32_t *groups, uint32_t count);

/* The number of the file's name, as given. */
const char *amcast_file_name(const struct amcast *, uint32_t file);

/* ---- who need not have delivered, or be delivered, everything at the end ---- */

/* A host, group or client of that name; false if there is none. To be called after the events. */
bool amcast_down(struct amcast *, const char *name);

/* The same for one replica; it may come back. */
void amcast_replica_down(struct amcast *, uint32_t replica, bool down);

/* The client crashed: its messages need not have left it. */
void amcast_client_crashed(struct amcast *, uint32_t client);

/* Events are missing. Then what needs all of them is not checked: that a message was cast, validity,
 * agreement, numbers that nobody delivered, and the order between groups but for circles. */
void amcast_gap(struct amcast *);

/* ---- events ---- */

struct amcast_delivery {
    uint64_t n;
    uint32_t replica, inc;
    uint32_t message, dst;
};

void amcast_cast(struct amcast *, uint32_t client, uint32_t message, uint32_t dst,
                 struct amcast_place);
void amcast_start(struct amcast *, uint32_t replica, uint32_t inc, uint64_t n, struct amcast_place);
void amcast_deliver(struct amcast *, const struct amcast_delivery *, struct amcast_place);
void amcast_done(struct amcast *, uint32_t client, uint32_t message, struct amcast_place);

/* ---- the verdict ---- */

/* Judges all that was fed; true if nothing is violated. May be called again after more events. */
bool amcast_verify(struct amcast *, bool quiesced);

struct amcast_summary {
    uint64_t casts, deliveries, dones, starts;
    uint32_t groups, replicas, lives, clients, messages;
    bool checked[AMCAST_PROPERTIES];
    uint64_t violations[AMCAST_PROPERTIES]; /* how many, kept or not */
};
void amcast_summarise(const struct amcast *, struct amcast_summary *);

/* The violations that were kept, at most AMCAST_KEPT_MAX of each property: i from 0 until NULL. */
const struct amcast_violation *amcast_violation(const struct amcast *, uint32_t i);

#endif
