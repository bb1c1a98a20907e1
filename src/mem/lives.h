/* Lives that survive the loss of power, for who opens the memory of a host and has a disk.
 *
 * Without it a memory counts lives by itself, in files that may go: then a cluster may begin anew. With it nothing ever
 * does: a host whose life is not 0 is born KEPT or LOST, whatever became of the files; leaving removes no life; and no
 * life of a client's place is used before it is on the disk.
 *
 * Lives are told as *counts*: 0 is none, and the life n of a node is the last of n + 1. All calls come from the
 * thread that polls, from opening and polling alone, and not while it is closed; they never wait. */
#ifndef MEM_LIVES_H
#define MEM_LIVES_H

#include <stdbool.h>
#include <stdint.h>

struct mem_lives {
    void *ctx;
    uint32_t life; /* of this host; it is on the disk that it had it */
    /* What it had was lost with its disk: others may know of lives of places that this disk does not. Until what was noted
     * after the first majority has told is on the disk; once more does no harm, but leaves out lives again. */
    bool rejoined;
    /* Of some of what it promised its disk knows nothing any more: memory of earlier lives is given up, and born LOST. */
    bool forgets;
    /* How many lives the disk knows of, what was just noted included. At opening those of places include what the
     * logs on that disk know: on shared memory the host may have been away while a client was there. */
    uint32_t (*host)(void *ctx, uint32_t host);
    uint32_t (*place)(void *ctx, uint32_t place);
    /* Of these, what it knew when the host was open, before it met anybody: later ones are of processes that live now. */
    uint32_t (*place_before)(void *ctx, uint32_t place);
    /* Notes that there were so many, if that is more; not more than the maximum that the memory was opened with. True: it is
     * on the disk. Else it will be: whoever wants to know asks again in each poll, and the disk wakes the poller (mem_wake). */
    bool (*note_host)(void *ctx, uint32_t host, uint32_t lives);
    bool (*note_place)(void *ctx, uint32_t place, uint32_t lives);
};

#endif
