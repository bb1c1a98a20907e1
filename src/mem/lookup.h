/* Looks up one address, in a thread of its own: that may take seconds, and whoever polls has none to lose. */
#ifndef MEM_LOOKUP_H
#define MEM_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct
    lookup; /* one look-up; belongs to the thread and to who waits, and goes with the last of them */

/* Of several addresses the nth, from the first again behind the last. NULL: no memory, or no thread; try again later. */
struct lookup *lookup_start(const char *name, uint16_t port, unsigned nth);

/* False: not yet. True: frees it. *bytes is 0 if there is no such address, and *why says so. */
bool lookup_take(struct lookup *, struct sockaddr_storage *, socklen_t *bytes, const char **why);

/* Nobody waits for it any more. */
void lookup_drop(struct lookup *);

/* The same, waiting for it. Returns NULL, or why there is none. *number: it is one, and will always mean the same. */
const char *lookup_now(const char *name, uint16_t port, struct sockaddr_storage *, socklen_t *bytes,
                       bool *number);

#endif
