/* Tramway's topics: members of a group publish samples, and members subscribe to them; so do programs that are no members.
 *
 * A topic is a subgroup of one shard of the cluster file, under its name. Its mode says what is promised: `raw` is an unordered
 * topic (each publisher's samples in their order, delivered at once), `memory` an atomic one (all subscribers have the same
 * samples in the same order), and `memory` with `history` a volatile one: the members keep the last samples, as many as go into so many
 * bytes, and give them to who comes; they are lost when all members are gone; `logged` and `durable` are atomic ones that are kept on disk
 * too. Its members are those who may subscribe, its senders those who
 * may publish. A topic that the file does not name is made on use, if the file has `slots` for such topics: its samples have the name with
 * them, in a cell that it shares with others.
 *
 * A subscriber of a volatile topic has its samples without a gap and none twice: those that are kept first, if it asks for them, then those that
 * come, and when its host was put out and is back those that it missed, as far as they are kept. tram_topic_lost tells how many were not.
 *
 *     struct tram_topic_options o = {.role = TRAM_SUBSCRIBE, .qos = TRAM_QOS_ATOMIC, .on_samples = show};
 *     tram_topic_open(group, "telemetry", &o, &topic, &error);
 *
 * Errors, threads and callbacks are as in group.h. */
#ifndef TRAM_TOPIC_H
#define TRAM_TOPIC_H

#include "group.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TRAM_TOPICS_MAX = 256 }; /* that a group has open */

enum tram_topic_role {
    TRAM_PUBLISH = 1,
    TRAM_SUBSCRIBE = 2, /* a topic may be opened for both: TRAM_PUBLISH | TRAM_SUBSCRIBE */
};

enum tram_qos {
    TRAM_QOS_FILE,      /* as the cluster file says */
    TRAM_QOS_UNORDERED, /* mode: raw */
    TRAM_QOS_ATOMIC,    /* mode: memory */
    TRAM_QOS_VOLATILE,  /* the same, with history */
    TRAM_QOS_LOGGED,    /* mode: logged or durable */
};

enum tram_from {
    TRAM_FROM_NOW, /* what is delivered from when the topic is open, and this host has the topic's state */
    TRAM_FROM_START, /* the oldest sample that is kept: of a topic with history, or by a client of a logged one */
    TRAM_FROM_VERSION, /* likewise, but none below the version `at`: a view's number times 2^40, plus a sample's number */
    TRAM_FROM_TIME, /* of a logged topic, by a client: none before `at`, in ns since 1970 */
};

struct tram_topic;

struct tram_topic_options {
    unsigned role; /* of enum tram_topic_role */
    enum tram_qos qos;
    enum tram_from from;
    uint64_t at; /* of from */
    /* Samples in order, in place, good during the call, all of the view of that number; they come besides what
     * `deliver` of the group's machine is given, which is never history. For subscribers, who must have it. */
    void (*on_samples)(void *ctx, uint64_t view, const struct tram_item *, uint32_t count);
    void *ctx;
};

/* History comes with the next steps or polls, a part of it each if it is long. TRAM_NOTFOUND: the cluster file has no such subgroup, and no slots. TRAM_INVALID: it has
 * several shards, or another mode than `qos` is, or no history for `from`, or the role is none. TRAM_REFUSED: this host may never be in it, or never send in it, by the cluster file. TRAM_NOMEM: there are
 * TRAM_TOPICS_MAX. */
TRAM_API int tram_topic_open(struct tram_group *, const char *name,
                             const struct tram_topic_options *, struct tram_topic **,
                             struct tram_error *);

/* No more samples come, also not of what is being delivered. tram_group_close closes all that are open. NULL is allowed. */
TRAM_API void tram_topic_close(struct tram_topic *);

/* How many samples of a topic with history it has missed: they were not kept long enough for the time that its host was out of the group. */
TRAM_API uint64_t tram_topic_lost(const struct tram_topic *);

/* As tram_group_send, with TRAM_REFUSED for who has not opened it to publish. */
TRAM_API int tram_publish(struct tram_topic *, const void *data, uint32_t bytes,
                          struct tram_error *);

/* As tram_reserve, tram_commit and tram_release. */
TRAM_API void *tram_publish_reserve(struct tram_topic *, uint32_t bytes);
TRAM_API void tram_publish_commit(struct tram_topic *, void *room, uint32_t bytes);
TRAM_API void tram_publish_release(struct tram_topic *, void *room);

/* ---- for programs that are no members ---- */

#define TRAM_LOST_SOME UINT64_MAX

/* A topic that a client of the group has open (tram_group_client_open). A client holds up nobody: it is fed by a member, goes on at another one when that is
 * gone, and what it does not take in time is lost to it, the oldest first. */
struct tram_client_topic;

struct tram_client_topic_options {
    unsigned role; /* of enum tram_topic_role */
    enum tram_qos qos;
    enum tram_from from;
    uint64_t at; /* of from */
    /* Samples in order, each once, good during the call; from tram_group_client_poll and _wait. */
    void (*on_samples)(void *ctx, uint64_t view, const struct tram_item *, uint32_t count);
    /* So many samples are missing before the next one. TRAM_LOST_SOME: it is not known how many, if any: the topic is unordered and another
     * member feeds this client now, or the topic began anew. May be NULL. */
    void (*on_lost)(void *ctx, uint64_t count);
    void *ctx;
};

/* As tram_topic_open; one handle for each topic. Samples come from when a member has taken note of it (tram_client_topic_fed), behind those of the past that
 * `from` asks for. Of a volatile topic these are its history; of a logged or durable one what a host of this machine has on its disk (TRAM_NOTFOUND: none
 * is), which is read within _poll and _wait and may take long. Both hold, without a loss, what this client does not take in time. */
TRAM_API int tram_client_topic_open(struct tram_group_client *, const char *name,
                                    const struct tram_client_topic_options *,
                                    struct tram_client_topic **, struct tram_error *);
/* tram_group_client_close closes all that are open. NULL is allowed. */
TRAM_API void tram_client_topic_close(struct tram_client_topic *);

/* As tram_group_client_send; TRAM_REFUSED: it was not opened to publish. */
TRAM_API int tram_client_publish(struct tram_client_topic *, const void *data, uint32_t bytes,
                                 uint64_t *ticket, struct tram_error *);

/* Does a member feed it? */
TRAM_API bool tram_client_topic_fed(const struct tram_client_topic *);

#ifdef __cplusplus
}
#endif
#endif
