/* A multicast message as it stands in rings and logs: the payload of a frame or entry.
 *
 *      | sequence 8 | client 2 | kind 2 | life 2 | destinations 2 | list of groups, padded to 8 | body |
 */
#ifndef MCAST_MESSAGE_H
#define MCAST_MESSAGE_H

#include "mcast/dst.h"

struct message {
    uint64_t seq;    /* the client's number for it */
    uint16_t client; /* place of the client */
    uint16_t kind;   /* enum message_kind */
    uint16_t life;   /* which process it was in that place */
    uint16_t count;  /* of destination groups */
    unsigned char rest[];
};
_Static_assert(sizeof(struct message) == 16, "a message's header is 16 bytes");

enum message_kind {
    MESSAGE_PLAIN,
    MESSAGE_BACKUP, /* the machine does not get it: its place in the order is a point at which states are kept. Its body is the
                     * backup's id */
    MESSAGE_KINDS,
};

enum { MESSAGE_BACKUP_BYTES = 16 };

static inline uint32_t message_bytes(uint32_t destinations, uint32_t body)
{
    return (uint32_t)sizeof(struct message) + dst_bytes(destinations) + body;
}

/* Names a message: who cast it, and which of its messages it was. */
struct message_id {
    uint64_t seq;
    uint32_t client;
    uint16_t life;
    uint16_t mark; /* 0, or what somebody says of the message */
};

static inline struct message_id message_id(const struct message *m)
{
    return (struct message_id){.seq = m->seq, .client = m->client, .life = m->life};
}

/* What one group tells another of a message under the genuine protocol: its stamp, or the final one, which
 * has a mark in its id's last field; or, where the stamp is 0, the message itself, which then follows that
 * word. */
enum { STAMP_NOTE_FINAL = 1 };

struct stamp_note {
    uint64_t stamp;
    struct message_id id;
};
_Static_assert(sizeof(struct stamp_note) == 24, "a stamp takes three words");

/* A message taken apart. Header and body stay where they are; the list may be a copy. */
struct message_view {
    const struct message *m;
    uint16_t list[DST_GROUPS_MAX];
    struct dst_set dst;
    const unsigned char *body;
    uint32_t bytes; /* of body */
};

/* Takes apart what message_read has found good before, and what nobody else can write: the list stays
 * where it is too. */
static inline void message_split(const void *payload, uint32_t bytes, struct message_view *v)
{
    const struct message *m = payload;
    v->m = m;
    v->dst = (struct dst_set){(const uint16_t *)(const void *)m->rest, m->count};
    v->body = m->rest + dst_bytes(m->count);
    v->bytes = bytes - message_bytes(m->count, 0);
}

/* False for what no correct client sends: cut short, from a client that there is not, or to
 * destinations that are no set of the groups that there are. */
bool message_read(const void *payload, uint32_t bytes, uint32_t clients, uint32_t groups,
                  struct message_view *);

/* Replies of one group to one client are a stream of frames (agree/entry.h) too, with this payload. */
struct reply {
    uint64_t seq;    /* of the message */
    uint32_t status; /* enum reply_status */
    uint32_t bytes;
    unsigned char body[];
};
_Static_assert(sizeof(struct reply) == 16, "a reply's header is 16 bytes");

static inline uint32_t reply_size(uint32_t bytes)
{
    return (uint32_t)sizeof(struct reply) + bytes;
}

enum reply_status {
    REPLY_DONE,    /* delivered; the body is the machine's */
    REPLY_REFUSED, /* ordered, and delivered nowhere: its destinations are not what they should be */
};

#endif
