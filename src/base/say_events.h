/* Events: what an operator may want to be told, or to count. A line about one ends with its code, "[TW-102]", which stays the same in later
 * versions whatever becomes of the words; docs/operating.md, "Events", says of each what it means and what to do, and tests/style/events compares
 * the two. A code is never given to another event.
 *
 * X(name, code, level, word): the word is for programs, in the JSON form of `tram host --log json`. */
#ifndef BASE_SAY_EVENTS_H
#define BASE_SAY_EVENTS_H

#define SAY_EVENTS(X)                                                                              \
    X(LEADS, 101, SAY_INFO, "leads")                                                               \
    X(TAKE_OVER, 102, SAY_WARN, "take-over")                                                       \
    X(DETACH, 103, SAY_WARN, "detach")                                                             \
    X(RETURN, 104, SAY_INFO, "return")                                                             \
    X(STATE_LOADED, 105, SAY_INFO, "state-loaded")                                                 \
    X(STATE_SENT, 106, SAY_INFO, "state-sent")                                                     \
    X(DEATH, 107, SAY_WARN, "death")                                                               \
    X(BACK, 108, SAY_INFO, "back")                                                                 \
    X(AWAY, 109, SAY_WARN, "away")                                                                 \
    X(SLOW_STATE, 110, SAY_WARN, "slow-state")                                                     \
    X(VIEW, 201, SAY_INFO, "view")                                                                 \
    X(VIEW_LOSS, 202, SAY_WARN, "view-loss")                                                       \
    X(LEFT, 203, SAY_INFO, "left")                                                                 \
    X(PUT_OUT, 204, SAY_WARN, "put-out")                                                           \
    X(WAITS, 205, SAY_WARN, "waits")                                                               \
    X(GOES_ON, 206, SAY_INFO, "goes-on")                                                           \
    X(RESET, 207, SAY_WARN, "reset")                                                               \
    X(NOT_LEFT, 208, SAY_WARN, "not-left")                                                         \
    X(REFUSED, 301, SAY_WARN, "refused")                                                           \
    X(DIFFERS, 302, SAY_WARN, "differs")                                                           \
    X(LIMIT, 303, SAY_WARN, "limit")                                                               \
    X(MUTED, 304, SAY_WARN, "muted")                                                               \
    X(NOT_SERVED, 305, SAY_WARN, "not-served")                                                     \
    X(CONVICTED, 306, SAY_ERROR, "convicted")                                                      \
    X(SNAPSHOT, 401, SAY_INFO, "snapshot")                                                         \
    X(SLOW_FLUSH, 402, SAY_WARN, "slow-flush")                                                     \
    X(NO_ROOM, 403, SAY_WARN, "no-room")                                                           \
    X(JOURNAL_FULL, 404, SAY_WARN, "journal-full")                                                 \
    X(ROOM, 405, SAY_WARN, "room")                                                                 \
    X(TORN, 406, SAY_WARN, "torn")                                                                 \
    X(DISK_LOST, 407, SAY_WARN, "disk-lost")                                                       \
    X(DAMAGED, 408, SAY_WARN, "damaged")                                                           \
    X(REFETCHED, 409, SAY_WARN, "refetched")                                                       \
    X(STANDS, 410, SAY_ERROR, "stands")                                                            \
    X(STANDS_NO_MORE, 411, SAY_WARN, "stands-no-more")                                             \
    X(DISK_ENDS, 412, SAY_WARN, "disk-ends")

enum say_event {
#define X(name, code, level, word) SAY_EVENT_##name,
    SAY_EVENTS(X)
#undef X
};

#endif
