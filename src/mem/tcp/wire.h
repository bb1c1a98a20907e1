/* The frames of a connection. Private to this folder and its tests.
 *
 *     both     hello      which node, in which life
 *     both     message    whatever mem/far/wire.h has
 *     writer   open       a flow: its number there, region, ballot
 *              put, set   into a lane, by the number that its owner gave it
 *              mark       answer when all before it has landed
 *     owner    answer     of a flow: done up to a mark, denied, lost
 *     asker    read, peek
 *     owner    data       of the oldest read or peek that is not answered
 *
 * A frame is a head and words of 8 bytes. All numbers are little-endian. */
#ifndef MEM_TCP_WIRE_H
#define MEM_TCP_WIRE_H

#include "mem/far/wire.h"

enum {
    TCP_VERSION = 2,
    TCP_FRAME_WORDS = 2032, /* most of one frame: with its head it is less than a record of TLS */
    TCP_FLOWS_MAX = 65536,  /* of one connection */
};

#define TCP_MAGIC 0x6d617274u /* "tram" */

enum tcp_kind {
    TCP_HELLO = 1,
    TCP_MESSAGE,
    TCP_OPEN,      /* lane: the region; words: ballot, generation */
    TCP_PUT,       /* at: offset in the ring */
    TCP_SET,       /* at: first control word */
    TCP_MARK,      /* words: tag */
    TCP_ANSWER,    /* at: enum mem_status; words: generation, tag */
    TCP_READ_CTL,  /* at: first control word; words: how many */
    TCP_READ_RING, /* at: offset; words: how many words */
    TCP_PEEK,      /* lane: the region */
    TCP_DATA,      /* at: enum mem_status; words: what was read */
    TCP_KINDS
};

struct tcp_frame {
    uint8_t kind;
    uint8_t unused;
    uint16_t words; /* that follow */
    uint32_t flow;
    uint32_t lane;
    uint32_t at;
};
_Static_assert(sizeof(struct tcp_frame) == 16, "as small as it can be");

struct tcp_hello {
    uint32_t magic;
    uint16_t version; /* what comes before it may not change */
    uint16_t unused;
    uint32_t from; /* node; FAR_ANY: a client that has no place yet */
    uint32_t to;
    uint32_t life;
    uint32_t unused_2;
    uint64_t birth;
    uint64_t cluster; /* hash of its name */
};
_Static_assert(sizeof(struct tcp_hello) % 8 == 0, "whole words");

static inline uint32_t tcp_frame_bytes(const struct tcp_frame *f)
{
    return (uint32_t)sizeof *f + 8u * f->words;
}

#endif
