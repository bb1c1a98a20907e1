/* A user's state machine (struct tram_machine) as the replica of one group calls it.
 *
 * The functions have the form of struct mcast_machine and state_ops, with a ctx that begins with a struct
 * api_machine: whoever opens a replica puts them into a table of its own, around which it notes what it
 * wants to. The caller's memory; zeroed but for the first three fields, it is ready. */
#ifndef API_MACHINE_H
#define API_MACHINE_H

#include "base/say.h"
#include "mcast/mcast.h"
#include "tram.h"

struct api_machine {
    struct tram_machine calls;
    void *ctx;
    uint32_t group;
    /* A call of save or load that takes longer than this is warned of, once; 0: none is. */
    uint64_t heartbeat_ns;
    const char *group_name; /* for the warning */
    struct say say;
    bool warned;
    void *saved; /* by the user's machine, while it is being sent */
    size_t saved_bytes, saved_at;
    unsigned char *loading;
    size_t load_bytes, load_at;
    const char *failure;    /* what it could not do; NULL: nothing */
    char failure_text[160]; /* room for one that has figures */
};

/* Says which of the calls are missing; NULL if they can be used. */
const char *api_machine_mistake(const struct tram_machine *);

uint32_t api_deliver(struct api_machine *, const struct delivery *, void *reply,
                     uint32_t reply_max);
void *api_save_open(void *machine, uint64_t *bytes);
int api_save_next(void *machine, void *save, void *out, uint32_t room);
void api_save_close(void *machine, void *save);
int api_load_open(void *machine, uint64_t bytes);
int api_load_next(void *machine, const void *data, uint32_t bytes);
int api_load_close(void *machine, bool whole);

/* The state as it is now in one piece from malloc, whichever way the machine saves; false: it cannot, or it has
 * none. */
bool api_save_whole(struct api_machine *, void **data, size_t *bytes);

/* Frees what a transfer may have left. */
void api_machine_fini(struct api_machine *);

#endif
