/* Does a history of views and deliveries keep what virtual synchrony promises?
 *
 * The history is fed event by event, in any order between members, but in its own order for each of them; vsync_verify then judges all of
 * it. A *life* is one member in one life (`inc`), which begins views with rising numbers. One thread. Running out of memory ends the process.
 *
 * What is checked (protocols.md section 10.2):
 *
 * view agreement  Who begins a view names the same members as everybody else who does, itself among them; the numbers of the
 *                 views of a life rise.
 * primary chain   If asked for: more than half of the members of a view are in the next one.
 * integrity       A delivery is in the view that its member is in, in a cell that it has said to have the state of, once, of a message that
 *                 was cast to that cell by a member of the view.
 * same sequence   In a cell and view everybody delivers the same message with the same number, in the order of the numbers,
 *                 and leaves none out that is between two of its own.
 * uniform         What anybody delivered in a view, everybody delivers in it who has the cell's state and goes on to the next view.
 * sender order    Over all views the messages of a sender come in the order of their numbers; and between two of one view none is left
 *                 out that it cast.
 *
 * In a raw cell there is no common order: the last holds for each life by itself, besides integrity. */
#ifndef CHECK_VSYNC_H
#define CHECK_VSYNC_H

#include "check/amcast.h"

enum vsync_property {
    VSYNC_VIEWS,
    VSYNC_CHAIN,
    VSYNC_INTEGRITY,
    VSYNC_SEQUENCE,
    VSYNC_UNIFORM,
    VSYNC_FIFO,
    VSYNC_PROPERTIES
};

extern const char *const vsync_property_names[VSYNC_PROPERTIES];

enum { VSYNC_KEPT_MAX = 8, VSYNC_TEXT_BYTES = 240 };

struct vsync_violation {
    enum vsync_property property;
    char text[VSYNC_TEXT_BYTES];
    struct amcast_place place; /* of the event that shows it */
};

struct vsync;
struct vsync *vsync_open(void);
void vsync_close(struct vsync *);

/* ---- names; the same name gives the same number ---- */

uint32_t vsync_member(struct vsync *, const char *name, size_t len);
uint32_t vsync_cell(struct vsync *, const char *name, size_t len);
/* A message is named SENDER:NUMBER or SENDER.LIFE:NUMBER, where SENDER is a member. A dot and more may follow the number: what is
 * not named alike is not the same. */
uint32_t vsync_message(struct vsync *, const char *id, size_t len);

/* ---- events ---- */

/* A member in a life. */
struct vsync_life {
    uint32_t member, inc;
};

void vsync_view(struct vsync *, struct vsync_life, uint64_t vid, const uint32_t *members,
                uint32_t count, struct amcast_place);
/* The life is in the cell in its view, and delivers from number n on: what is before is in its state. */
void vsync_start(struct vsync *, struct vsync_life, uint32_t cell, uint64_t vid, uint64_t n,
                 struct amcast_place);
void vsync_deliver(struct vsync *, struct vsync_life, uint32_t cell, uint64_t vid, uint64_t n,
                   uint32_t message, struct amcast_place);
/* In a raw cell. */
void vsync_deliver_raw(struct vsync *, struct vsync_life, uint32_t cell, uint64_t vid,
                       uint32_t message, struct amcast_place);
/* The life is in no view any more; if it is in another one later, it does not go on there. */
void vsync_out(struct vsync *, struct vsync_life);
void vsync_cast(struct vsync *, uint32_t message, uint32_t cell);
/* Events are missing: whether a message was cast, and what must have been delivered, is not checked. */
void vsync_gap(struct vsync *);

/* ---- the verdict ---- */

/* True if nothing is violated. Called once. */
bool vsync_verify(struct vsync *, bool majority);

struct vsync_summary {
    uint64_t views, deliveries, casts; /* views: begun by anybody */
    uint32_t members, lives, cells;
    bool checked[VSYNC_PROPERTIES];
    uint64_t violations[VSYNC_PROPERTIES];
};
void vsync_summarise(const struct vsync *, struct vsync_summary *);

/* The violations that were kept, at most VSYNC_KEPT_MAX of each property: i from 0 until NULL. */
const struct vsync_violation *vsync_violation(const struct vsync *, uint32_t i);

#endif
