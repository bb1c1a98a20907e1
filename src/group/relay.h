/* Clients of a group: programs that are no members of it. A member publishes for them, answers what they ask, and feeds them samples.
 *
 * A client keeps a *session* with each member that works for it, on four lanes:
 *
 *   REQUEST  (of the host)     enum request_word   a stream of requests, and how far the replies were taken
 *   RELAYED  (of the client)   enum relayed_word   a stream of replies, and how far the requests were taken
 *   FED      (of the host)     enum fed_word       how far the samples were taken; only who subscribes has these two
 *   FEED     (of the client)   enum feed_word      a stream of samples
 *
 * HELLO says that the member takes requests, and as what: it is another number whenever something that it had taken will not be delivered any
 * more, or may have been lost. A client begins a session by naming the HELLO that it has seen, so nothing of a session that is over is taken for
 * one that is not. Sessions are numbered by the client; words of a stream are of the session that stands beside them.
 *
 * What a client wants published gets a number, which rises over all of its cells. It stands in the record (struct relay_head), with the place of
 * the client and its life there, and every member keeps the last number of each client that was delivered in the cell: whichever members publish
 * a message, it is delivered once. For that a client sends the messages of a cell in order, on each *visit* to a member all that it does not know to be
 * delivered, and a member that turns one of a cell away takes no later one of that visit. The numbers go with the state of the cell to those who come.
 *
 * What a client writes is believed about itself: its place and life are those that the memory knows, a stream with anything that no client writes
 * is not read any more in that session, and what a client is owed beyond the room that it has is dropped. */
#ifndef GROUP_RELAY_H
#define GROUP_RELAY_H

#include "lane/names.h"
#include "lane/stream.h"

enum request_word {
    REQUEST_GUARD,
    REQUEST_SESSION, /* that GUARD and TAKEN are about: client_session */
    REQUEST_FOR,     /* HELLO of the member that it is with; set behind the two */
    REQUEST_TAKEN,   /* replies of the session that were taken */
    REQUEST_WORDS,
};

enum relayed_word {
    RELAYED_GUARD,
    RELAYED_SESSION,
    RELAYED_HELLO, /* 0: the member takes nothing */
    RELAYED_TAKEN, /* requests of the session that were taken */
    RELAYED_WORDS,
};

enum fed_word {
    FED_TAKEN, /* of the session beside it */
    FED_SESSION,
    FED_WORDS,
};

enum feed_word {
    FEED_GUARD,
    FEED_SESSION,
    FEED_BEAT, /* rises as long as the member is there */
    FEED_WORDS,
};

enum request_kind {
    REQUEST_SEND = 1,
    REQUEST_CALL,  /* likewise, and the member that publishes it replies */
    REQUEST_QUERY, /* of the member; not published */
    REQUEST_SUBSCRIBE, /* samples of the cell, as a struct subscription says. The reply is a struct subscribed */
    REQUEST_UNSUBSCRIBE,
};

struct client_request {
    uint64_t number;
    uint64_t version; /* of a query: that the state has to have */
    uint32_t cell, kind, reply_max;
    uint32_t
        visit; /* rises whenever the client takes the cell to another member, or anew to the same one; from 1 */
};

struct client_reply {
    uint64_t number;
    uint64_t version; /* as in struct member_answer; 0: none */
    uint32_t cell, kind;
    int32_t
        status; /* as in struct member_answer; ERR_REFUSED: this member does not work for the cell */
    uint32_t reply_max; /* of the request: as much room was kept */
    uint32_t visit, pad;
};

/* What was delivered in a cell is counted, from the view in which it was born: all members give a message the same number. In raw cells the
 * history is the life of the sender, and numbers are places in its stream, which rise. */
struct sample_place {
    uint64_t history, number;
};

/* From where on. What is kept of the cell (`past` of member_machine) is fed before what is new; in cells of which nothing is, all are as FROM_NOW. */
enum subscription_from {
    FROM_NOW,
    FROM_VERSION, /* `at`: a version; 0: all that is kept */
    FROM_PLACE,   /* behind what this client has: `at` is a number of this history */
};

struct subscription {
    uint64_t from;
    struct sample_place at; /* FROM_VERSION: `number` */
};

struct subscribed {
    struct sample_place next; /* the first sample that will come */
    uint64_t now;             /* and of the first that is not delivered yet */
};

/* A frame of a FEED lane begins with it. */
struct sample {
    struct sample_place place;
    uint64_t vid, at; /* as in struct member_item: `at` is its number */
    uint32_t cell, sender, client;
    uint32_t lost; /* raw: how many before it, since the last one of the cell, were dropped */
};

/* In a record, before the message. */
struct relay_head {
    uint64_t number;
    uint32_t client, life; /* place, and which process there */
    uint32_t reply_max;
    uint32_t call;
};

/* What a cell keeps of a client. */
struct relay_entry {
    uint64_t number; /* of the last message that was delivered */
    uint64_t life;   /* of the client, plus 1; 0: none was */
};

enum {
    CLIENT_BYTES_DEFAULT = 128 << 10, /* of a ring of requests or replies */
    CLIENT_FRAMES = 4,                /* largest requests that it holds */
};

/* A session as words name it: no other life of the client has the same. */
static inline uint64_t client_session(uint32_t life, uint16_t session)
{
    return ((uint64_t)life + 1) << 16 | session;
}

/* The largest payload of a frame, in rings of that size. */
static inline uint32_t client_frame_max(uint32_t ring_bytes)
{
    return ring_bytes / CLIENT_FRAMES - (uint32_t)sizeof(struct frame);
}

/* Both ends' view of the streams. */
static inline struct stream_shape request_shape(uint32_t ring_bytes)
{
    return (struct stream_shape){.ring_bytes = ring_bytes,
                                 .bytes_max = client_frame_max(ring_bytes),
                                 .guard = REQUEST_GUARD,
                                 .life = STREAM_NO_WORD};
}

static inline struct stream_shape relayed_shape(uint32_t ring_bytes)
{
    return (struct stream_shape){.ring_bytes = ring_bytes,
                                 .bytes_max = client_frame_max(ring_bytes),
                                 .guard = RELAYED_GUARD,
                                 .life = STREAM_NO_WORD};
}

static inline struct mem_lane_spec client_lane(uint32_t host, uint32_t client, enum lane_kind kind,
                                               uint32_t ring_bytes)
{
    bool to_host = kind == LANE_REQUEST || kind == LANE_FED;
    struct mem_lane_spec s = lane_spec(region_number(REGION_MEMBER, 0), to_host ? host : client,
                                       to_host ? client : host, kind, 0);
    s.ctl_words = kind == LANE_REQUEST   ? (uint32_t)REQUEST_WORDS
                  : kind == LANE_RELAYED ? (uint32_t)RELAYED_WORDS
                  : kind == LANE_FED     ? (uint32_t)FED_WORDS
                                         : (uint32_t)FEED_WORDS;
    s.ring_bytes = kind == LANE_FED ? 0 : ring_bytes;
    return s;
}

#endif
