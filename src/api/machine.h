/* A user's state machine (struct tram_machine) as the replica of one group calls it.
 *
 * The functions have the form of struct mcast_machine, with a ctx that begins with a struct
 * api_machine: whoever opens a replica puts them into a table of its own, around which it notes what it
 * wants to. The caller's memory; zeroed but for the first three fields, it is ready. */
#ifndef API_MACHINE_H
#define API_MACHINE_H

#include "mcast/mcast.h"
#include "tram.h"

struct api_machine {
    struct tram_machine calls;
    void *ctx;
    uint32_t group;
    void *saved; /* by the user's machine, while it is being sent */
    size_t saved_bytes;
    unsigned char *loading;
    size_t load_bytes, load_at;
    const char *failure;    /* what it could not do; NULL: nothing */
    char failure_text[160]; /* room for one that has figures */
};

uint32_t api_deliver(struct api_machine *, const struct delivery *, void *reply,
                     uint32_t reply_max);
uint64_t api_save_open(void *machine);
void api_save_read(void *machine, uint64_t offset, void *out, uint32_t bytes);
void api_save_close(void *machine);
void api_load_open(void *machine, uint64_t bytes);
void api_load_write(void *machine, const void *data, uint32_t bytes);
void api_load_close(void *machine);

/* Frees what a transfer may have left. */
void api_machine_fini(struct api_machine *);

#endif
