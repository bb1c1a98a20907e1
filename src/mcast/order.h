/* The order in which one group delivers messages that go to several groups (Skeen's algorithm).
 *
 * Every destination group gives a message a stamp of its own and tells it to the others; where there are
 * many of them, to one, the message's home, which then tells the others the highest. The highest of them
 * is the message's final stamp, and everybody delivers in the order of final stamps: a message
 * whose final stamp is known goes as soon as no other can get a lower one. Stamps are unique and
 * rise: each is above all that the group has given, or heard of, before.
 *
 * What is here is a function of the group's decided log and nothing else: the log says in which order
 * messages and other groups' stamps came. So all replicas agree on it, a snapshot carries it, and a
 * change of leaders does not touch it.
 *
 * A message that not all destinations got from its client (it died half-way) is relayed by those that
 * have it. A group takes a relayed message only while it holds stamps of others for it and none of its
 * own; a client's own copy that comes later is recognised by marks.
 *
 * Belongs to one replica and its thread. It starts small and grows to what clients have under way at most;
 * in the long run it allocates nothing. */
#ifndef MCAST_ORDER_H
#define MCAST_ORDER_H

#include "mcast/message.h"

struct order_options {
    uint16_t group;
    uint32_t groups;  /* that there are */
    uint32_t clients; /* places */

    /* It has seen what cannot be, and why: the replica must not go on. May be NULL, for tests. */
    void (*stop)(void *ctx, const char *why);
    void *ctx;
};

struct order;

int order_open(const struct order_options *, struct order **, struct err *);
void order_close(struct order *);

/* The destination that collects the stamps of the others and tells them the final one; ORDER_NO_HOME if
 * they are so few that everybody tells everybody. The number of notes grows with the square of the
 * destinations otherwise; the destinations that are not home wait for one note more. */
enum { ORDER_NO_HOME = UINT16_MAX, ORDER_HOME_FROM = 4 };
uint16_t order_home(const struct message *);

/* A client's message has come: payload as in mcast/message.h, for this group and at least one other.
 * Returns the stamp to tell the other destinations, or 0 if it came before, by relay. */
uint64_t order_message(struct order *, const void *payload, uint32_t bytes);

/* A client has sent something, if only to this group, in that life: what its earlier lives may still send is nothing. */
void order_life(struct order *, uint32_t client, uint16_t life);

/* Messages that came by relay, and that their client may still send itself. */
uint64_t order_marks(const struct order *);

/* Another group says its stamp, or its message's home the final one. */
enum order_news {
    ORDER_BAD,      /* nobody says that: it was said before, or is of no group or client */
    ORDER_HEARD,    /* more is missing */
    ORDER_COMPLETE, /* the final stamp is known */
};
enum order_news order_final(struct order *, struct message_id, uint64_t stamp);
enum order_news order_stamp(struct order *, uint16_t from, struct message_id, uint64_t stamp);

/* Another group relays a message; `over` if a later life of the client is known here, so that its own
 * copy cannot come any more. Returns the stamp, or 0 if it is not needed. */
uint64_t order_relayed(struct order *, const void *payload, uint32_t bytes, bool over);

/* The final stamp and the payload, if the message is here with all stamps; else 0. */
uint64_t order_complete(struct order *, struct message_id, const void **payload, uint32_t *bytes);

/* The next message to deliver, NULL if there is none; it stays until order_drop. */
const void *order_first(struct order *, uint32_t *bytes);
void order_drop(struct order *);

/* A message of ours that waits for stamps and was not relayed: its payload, and the groups whose stamps
 * are missing, into a list with room for all groups. NULL if it does not wait so. */
const void *order_waiting(struct order *, struct message_id, uint32_t *bytes, uint16_t *missing,
                          uint32_t *count);

/* Our stamp for a message that waits so. */
uint64_t order_own(const struct order *, struct message_id);

/* It has been relayed, decided by the log. */
void order_set_relayed(struct order *, struct message_id);

/* For the leader, now and then: calls `look` for every message that waits, with how often it was found
 * waiting before. True: something was done about it, and counting starts again from 0. */
void order_watch(struct order *, bool (*look)(void *ctx, struct message_id, uint32_t seen),
                 void *ctx);

/* Messages here that are not delivered; their bodies may be still to come. */
uint32_t order_pending(const struct order *);

/* NULL, or which of the rules is broken that hold whenever an entry was applied, and what it made ready delivered. Looks at
 * everything: for the simulator, tests and debug builds. */
const char *order_check(const struct order *);

/* For snapshots. */
uint64_t order_save_bytes(const struct order *);
uint64_t order_save(struct order *, unsigned char *out);
bool order_load(struct order *, const unsigned char *in, uint64_t bytes);

#endif
