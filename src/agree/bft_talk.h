/* Frames from each member of a Byzantine group to each other, through plain lanes (LANE_TALK; owner: who reads).
 *
 * A frame arrives whole or not at all, in order. Who does not read stops nobody: what finds no room is not sent, and whoever needs
 * it asks again. What a reader takes it has in a copy of its own before it looks at it. One that has written what is no frame is
 * not read any more in this life.
 *
 * A stream begins anew when either end has lost its memory: its epoch says in which lives of writer and reader it is. */
#ifndef AGREE_BFT_TALK_H
#define AGREE_BFT_TALK_H

#include "agree/bft_wire.h"

/* Control words of a lane. */
enum {
    TALK_GUARD,       /* what is before this position is there */
    TALK_EPOCH,       /* that GUARD is about: life of the writer << 8 | of the reader */
    TALK_TAKEN,       /* position in the stream the other way, */
    TALK_TAKEN_EPOCH, /* and its epoch */
    TALK_LIFE,        /* of the writer */
    TALK_WORDS
};

struct bft_talk_options {
    struct mem *mem;
    uint32_t region;
    const uint32_t *nodes;
    uint32_t members, rank, life;
    uint32_t ring_bytes; /* a power of two */
    uint32_t frame_max;  /* bytes of a frame with its data; a quarter of the ring at most */
};

struct bft_talk;

int bft_talk_open(const struct bft_talk_options *, struct bft_talk **, struct err *);
void bft_talk_close(struct bft_talk *);

/* False: there is no room. */
bool bft_talk_send(struct bft_talk *, uint32_t to, const struct bft_frame *, const void *data,
                   uint32_t bytes);

/* The next frame of a member, with its data; returns the bytes of the data. NULL: there is none. It stays until the next call. */
const struct bft_frame *bft_talk_read(struct bft_talk *, uint32_t from, uint32_t *bytes);

/* Planted, and there in the test build alone. Takes the frame that was read last once more, from where its writer may have changed it. */
void bft_talk_again(struct bft_talk *, uint32_t from);

/* Writes out what was sent and taken; opens what broke. */
int bft_talk_post(struct bft_talk *);

uint64_t bft_talk_bytes(const struct bft_talk *);

#endif
