/* A notice: the last thing of its kind that one host tells several others, of any size up to a maximum.
 *
 * It stands in a common lane of two slots and one word:
 *
 *      ctl   | COUNT |                      how many notices there were; the last is in slot COUNT % 2
 *      ring  | bytes 8, notice | bytes 8, notice |
 *
 * The writer fills the slot that COUNT + 1 is going to name, and then sets COUNT. A reader loads COUNT, copies that slot and loads COUNT
 * again: while it is the same the slot was not written. Who is not there gets the last notice when it is.
 *
 * Both ends belong to the thread that polls their node's memory. Nothing is allocated after opening. */
#ifndef GROUP_NOTICE_H
#define GROUP_NOTICE_H

#include "base/err.h"
#include "mem/mem.h"

enum { NOTICE_COUNT, NOTICE_WORDS }; /* control words of its lane */

struct notice_reader {
    struct mem *mem;
    struct mem_lane *lane;
    uint32_t life;  /* of the writer whose notices were read */
    uint64_t count; /* of the last one that was read */
};

/* One of those who are told. */
struct notice_owner {
    struct mem_lane *lane;
    struct mem_flow flow;
    uint64_t told; /* COUNT that it was sent; UINT64_MAX: none, since the flow was lost */
};

struct notice_writer {
    struct mem *mem;
    uint32_t owners;
    uint64_t
        audience; /* nodes below 64: who of the owners is told; at first all. Who comes to be one of them is told the last notice */
    struct notice_owner *owner;
    unsigned char *slot; /* the last notice as it stands in its slot, its size before it */
    uint32_t bytes_max;
    uint64_t count;
    uint64_t
        retry_ns; /* when those are tried again who were out of reach; UINT64_MAX: there are none */
    bool fresh;   /* there is one that nobody was told of yet */
};

/* Size of the ring for notices of that size. */
uint32_t notice_ring_bytes(uint32_t bytes_max);

/* The lanes are open, one for each of the others who are told, and stay so. */
int notice_writer_open(struct notice_writer *, struct mem *, struct mem_lane *const *,
                       uint32_t count, uint32_t bytes_max, struct err *);
void notice_writer_close(struct notice_writer *);

/* Where the next notice goes, of up to bytes_max; then, that it is there, with so many bytes, a multiple of 8. It goes out with the next post. */
unsigned char *notice_begin(struct notice_writer *);
void notice_end(struct notice_writer *, uint32_t bytes);

/* Tells those who were not told yet, now and then again who was out of reach. Returns work done. */
int notice_post(struct notice_writer *, uint64_t now_ns, uint64_t retry_ns);

/* Takes a notice that was not read before: copies it to `to` and returns its bytes; 0: there is none, or it changes right now. */
uint32_t notice_read(struct notice_reader *, unsigned char *to, uint32_t bytes_max);

/* Goes over to what the newest life of the writer tells. */
void notice_next(struct notice_reader *);

#endif
