/* Snapshots of a replica: what its protocol derives from the log goes before what the user's machine has.
 *
 *      | bytes of the part | bytes of the machine's state | part ... | machine's state ... |
 *
 * The part is assembled in a buffer and read from there; the machine's state is only passed through, and its size may
 * be STATE_UNKNOWN. The buffer is there while a snapshot is. Belongs to one replica and its thread. */
#ifndef UNIT_SNAP_H
#define UNIT_SNAP_H

#include "unit/state.h"

#include <string.h>

struct snap_options {
    const struct state_ops *machine;
    void *machine_ctx;
    /* The protocol's part: bytes is the most that save would write now; save writes it and returns how
     * much it was; load takes it back whole, false if that cannot be one. */
    uint64_t (*bytes)(void *ctx);
    uint64_t (*save)(void *ctx, unsigned char *out);
    bool (*load)(void *ctx, const unsigned char *in, uint64_t bytes);
    void *ctx;
};

struct snap {
    struct snap_options opt;
    unsigned char *head;    /* the two words and the part; NULL: there is no snapshot */
    uint64_t head_bytes;    /* of it; UINT64_MAX while a load has not come that far */
    uint64_t head_at;       /* bytes of it saved or loaded so far */
    uint64_t machine_bytes; /* what follows it; STATE_UNKNOWN */
    void *machine_save;     /* while a save is open */
    bool machine_loads;     /* the machine's load is open */
};

void snap_open(struct snap *, const struct snap_options *);
void snap_close(struct snap *);

/* Their ctx begins with a struct snap. */
extern const struct state_ops snap_ops;

/* Words of a part. */
static inline unsigned char *snap_put(unsigned char *at, uint64_t word)
{
    memcpy(at, &word, 8);
    return at + 8;
}

static inline const unsigned char *snap_get(const unsigned char *at, uint64_t *word)
{
    memcpy(word, at, 8);
    return at + 8;
}

/* What stands at *at behind a word that says its bytes; *at goes behind it. NULL if it is not all there. */
const unsigned char *snap_sized(const unsigned char **at, const unsigned char *end,
                                uint64_t *bytes);

#endif
