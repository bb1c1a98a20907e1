/* The state of a machine as a stream of bytes, made and taken in pieces.
 *
 * Pieces are small (STATE_PIECE_BYTES at most) so that no call keeps the polling thread from its heartbeats:
 * save_open freezes and is quick, save_next copies a piece of what is frozen while apply goes on, load_next takes
 * one. What cannot be quick belongs into load_close, of which the others are told before it is called. */
#ifndef UNIT_STATE_H
#define UNIT_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_UNKNOWN UINT64_MAX /* for bytes: not known when a save begins */

enum { STATE_PIECE_BYTES = 16 << 10 };

struct state_ops {
    /* Whether a save may begin now: somebody else may have one open. NULL: always. */
    bool (*save_ready)(void *ctx);
    /* Freezes the state as it is now; what it returns names the save. bytes gets the size, if it is known. NULL: it
     * cannot. A log has at most one save open at a time. */
    void *(*save_open)(void *ctx, uint64_t *bytes);
    /* The next bytes of it, at most room; returns how many. 0: that was all. Negative: it cannot. */
    int (*save_next)(void *ctx, void *save, void *out, uint32_t room);
    void (*save_close)(void *ctx, void *save);

    /* Replaces the state: open, the bytes in order, close. load_close with whole false ends a transfer that broke
     * off: the state is void, and another load_open comes before anything else. Negative: it cannot. */
    int (*load_open)(void *ctx, uint64_t bytes);
    int (*load_next)(void *ctx, const void *data, uint32_t bytes);
    int (*load_close)(void *ctx, bool whole);
};

/* Ready-made calls for a state that is one small block of bytes and nothing else. Their ctx begins with this; data and
 * bytes are the owner's to set. A load that does not bring that many bytes fails. */
enum { STATE_BLOCK_BYTES_MAX = 64 };

struct state_block {
    void *data;
    uint32_t bytes;
    uint32_t at; /* bytes saved or loaded */
    unsigned char moved[STATE_BLOCK_BYTES_MAX];
};

static inline bool state_save_ready(const struct state_ops *s, void *ctx)
{
    return s->save_ready == NULL || s->save_ready(ctx);
}

extern const struct state_ops state_block_ops;

#endif
