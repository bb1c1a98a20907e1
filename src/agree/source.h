/* The sending end of a source: a stream of messages into the rings of all replicas of one group.
 *
 * A source belongs to one node and one thread. It keeps its own copy of what was not yet taken, so it
 * can write it again, byte for byte, to a replica that was lost and came back. The group takes each
 * message exactly once, whoever leads and however often it is written.
 *
 * Several nodes may hold the same stream (the replicas of a parent group derive it from their log):
 * each adds the same messages, and only who leads flushes. */
#ifndef AGREE_SOURCE_H
#define AGREE_SOURCE_H

#include "agree/entry.h"
#include "lane/names.h"

/* Control words of LANE_SOURCE and LANE_ACK. */
enum {
    SOURCE_GUARD, /* frames below this position of the stream are there */
    SOURCE_WORDS
};
/* What the words say of a life that is over stays until the first message of the next one is applied. Then
 * TAKEN is set, and LIFE after it: who finds its own life reads a TAKEN that is meant for it. */
enum {
    ACK_TAKEN,  /* the stream is decided and applied up to here; its ring space is free */
    ACK_BALLOT, /* ballot of the replica while it leads, */
    ACK_ASKS =
        ACK_BALLOT, /* or of a replica of which some may lie: 1, sources have to sign what they send */
    ACK_LIFE,       /* of the source that TAKEN is about */
    ACK_WORDS
};

enum { SOURCE_BYTES_DEFAULT = 64 << 10 }; /* of a ring */

struct source_options {
    struct mem *mem;
    uint32_t region;       /* of the group */
    const uint32_t *nodes; /* of its replicas, by rank */
    uint32_t replicas;
    uint32_t number;       /* ours among the group's sources */
    uint32_t source_bytes; /* as the replicas have it; 0: 64 KiB */
    uint32_t payload_max;  /* 0: a quarter of source_bytes */
    uint64_t retry_ns; /* write again after this long without progress, then ever later; 0: 10 ms */
    uint16_t life;     /* which life of the source this is, as the memory has told the replicas */
    uint32_t ack_region; /* own region for what the group tells us; 0: the same number */
    /* So many of the replicas may lie (agree/bft.h): all are written to, and taken is what so many and one more say. */
    uint32_t faulty;
};

struct source;

int source_open(const struct source_options *, struct source **, struct err *);
void source_close(struct source *);

/* Adds a message to the stream; it leaves with the next flush. On success *end is the position behind
 * it: it is taken when source_taken reaches that. ERR_AGAIN: no room until more is taken.
 * ERR_TOOBIG: never. */
int source_send(struct source *, const void *payload, uint32_t bytes, uint64_t *end);

/* As source_send in two steps: a place for the payload, to be filled before anything else is done with
 * the source. NULL if there is no room (or never will be). */
void *source_reserve(struct source *, uint32_t bytes, uint64_t *end);

/* Is there room for so many bytes of stream? A message takes frame_size of its payload. */
bool source_room(struct source *, uint64_t stream_bytes);

/* Gives up as much of the oldest bytes as it takes to have that room: they were taken, though that is not known here any more. */
void source_make_room(struct source *, uint64_t stream_bytes);

/* Writes out what was added, and wakes the leader. */
void source_flush(struct source *);

/* Position up to which the group has taken, and applied, our stream; at most what was added. */
uint64_t source_taken(struct source *);

/* More replicas than may lie ask for signatures. */
bool source_is_asked(const struct source *);

/* Position behind what was added. */
uint64_t source_end(const struct source *);

/* Repairs: reopens lost ways, writes again what makes no progress. Now and then. */
void source_step(struct source *, uint64_t now_ns);

/* The same for who holds the stream and is not the one to send it: if nothing was taken for long, the one who is
 * may be cut off from those who take, and it sends too. */
void source_help(struct source *, uint64_t now_ns);

/* The next flush writes everything that was not yet taken, to all: for who begins to lead. */
void source_rewind(struct source *);

/* What a snapshot has to carry of the stream: the two positions and the bytes between them, padded
 * to 8; source_load takes them back in the same form. */
uint64_t source_save_bytes(struct source *);
void source_save(struct source *, unsigned char *out);
bool source_load(struct source *, const unsigned char *in, uint64_t bytes);

#endif
