/* The last deliveries of a host, for `tram tail`: a file HOST.tail.page in the runtime directory.
 *
 *     0      magic, claim, end, mark; one word each
 *     4096   1 MiB of records, a ring of words
 *
 * One process writes, that of the host; any number read, and never hold it up: a reader that is too
 * slow is lapped and finds out. Positions count words since the file was made and only grow. The
 * writer says in `claim` how far it will overwrite, writes, and publishes by `end`; whoever sees, after
 * copying a record from position p, that claim is not more than the ring's size beyond p, has copied it
 * whole. A killed writer leaves claim ahead of end; the next one goes on at end.
 *
 * A record, in words: its length | group, client | life, seq | number | bytes of the body, of it here,
 * destinations | destinations, four a word | body. */
#ifndef CLI_TAIL_RING_H
#define CLI_TAIL_RING_H

#include "base/err.h"
#include "tram.h"

#include <sys/types.h>

enum {
    TAIL_RING_BYTES = 1 << 20,
    TAIL_RING_WORDS = TAIL_RING_BYTES / 8,
    TAIL_BODY_MAX = 200, /* of a body; the rest is left out */
    TAIL_DST_MAX = 1024,
};

struct tail_ring;

/* For the writer: makes the file, or goes on with that of a killed process. */
int tail_ring_create(const char *dir, const char *host, struct tail_ring **, struct err *);

/* For a reader. ERR_NOTFOUND if there is none. */
int tail_ring_open(const char *dir, const char *host, struct tail_ring **, struct err *);

void tail_ring_close(struct tail_ring *);

/* Removes the file, before the writer closes in order. */
void tail_ring_remove(const char *dir, const char *host);

/* False once the file of that name is another one, or gone. */
bool tail_ring_is_current(const struct tail_ring *, const char *dir, const char *host);

void tail_ring_write(struct tail_ring *, const struct tram_delivery *);

struct tail_record {
    uint32_t group, client, life;
    uint64_t seq, number;
    uint32_t bytes; /* of the body */
    uint32_t here;  /* of it, in body */
    uint32_t dst_count;
    uint16_t dst[TAIL_DST_MAX];
    unsigned char body[TAIL_BODY_MAX];
};

/* Where to begin reading: with the oldest that is surely there, or behind the newest. */
uint64_t tail_ring_oldest(const struct tail_ring *);
uint64_t tail_ring_newest(const struct tail_ring *);

enum tail_got { TAIL_NOTHING, TAIL_RECORD, TAIL_LAPPED };

/* Copies the record at *at and moves on. TAIL_LAPPED: it was overwritten; *at is where to go on. */
enum tail_got tail_ring_read(const struct tail_ring *, uint64_t *at, struct tail_record *);

#endif
