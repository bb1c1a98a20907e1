/* The last messages of a cell, which every member has the same of: part of the cell's state, so that who comes has them too.
 *
 * A ring of records in the member's own memory. A record has the *sequence* of its message: how many the cell had delivered
 * before, since it was born. That is the same at all members and in all views, so who has had the messages below a sequence knows what comes
 * next, whatever happened meanwhile. The oldest go when there is no room. One thread. */
#ifndef API_HISTORY_H
#define API_HISTORY_H

#include "base/err.h"
#include "tram/group.h"

enum { HISTORY_BATCH = 64 }; /* messages of one read */

struct history;

/* bytes: a power of two, at least four times as much as a message. NULL: no memory. */
struct history *history_open(uint32_t bytes);
void history_close(struct history *);

/* Has it what the cell has? Not before the cell is born here or its state has come. */
bool history_is_valid(const struct history *);
/* The cell is new. */
void history_born(struct history *);
/* This host is out of the cell. */
void history_void(struct history *);

/* Adds messages of one view, as they are delivered. */
void history_add(struct history *, uint64_t view, const struct tram_item *, uint32_t count);

/* Sequences that it has: `first` and below `next`. */
uint64_t history_first(const struct history *);
uint64_t history_next(const struct history *);

/* A place in it, to go on from. Zeroed: none. */
struct history_place {
    uint64_t sequence; /* of the next message to be read */
    uint64_t position; /* where it is, if it is still there, */
    uint64_t fill; /* in this fill of the ring: another one begins with each birth and each load */
};

/* The next messages from place->sequence on, in place, all of one view, at most HISTORY_BATCH and no more bytes than that, but one in any case;
 * good until the next history_add. If they are gone from there it goes on with the oldest. Returns how many, and moves the place behind them. */
uint32_t history_read(const struct history *, struct history_place *, uint64_t bytes_max,
                      uint64_t *view, struct tram_item item[HISTORY_BATCH]);

/* The same, one alone. False: there are no more. */
bool history_read_one(const struct history *, struct history_place *, uint64_t *view,
                      struct tram_item *item);
/* The sequence of the first message of this or a later view and number; `next` if there is none. */
uint64_t history_from(const struct history *, uint64_t view, uint64_t number);

/* ---- as part of a state ---- */

/* How many bytes it takes there. */
uint64_t history_saved_bytes(const struct history *);
/* Copies it, as it is now: so many bytes. */
void history_save(const struct history *, unsigned char *out);

/* Takes such a copy, in pieces; what is there is void from the first on. Negative: it is none. */
int history_load_open(struct history *);
/* Returns how many of the bytes it took: fewer, if the rest is not its. */
int64_t history_load_next(struct history *, const unsigned char *data, uint32_t bytes);
int history_load_close(struct history *, bool whole);

#endif
