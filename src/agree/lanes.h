/* What stands in the lanes of a log. Private to agree/, and to checkers that look inside. */
#ifndef AGREE_LANES_H
#define AGREE_LANES_H

#include "lane/names.h"

/* Control words of LANE_LOG, all written by the leader `writer`.
 *
 * The lane holds one *run*: the log as its writer saw it, from START to GUARD, under ballot RUN.
 * It changes in one of two ways. Continued: START may rise to what the owner has applied, GUARD is taken back to where
 * the content stops being what the new leadership recovered, then RUN is set, then entries follow. Renewed: RUN is set to
 * 0, then START, GUARD and COMMIT together, then RUN. So whoever sees the same RUN before and
 * after reading entries below GUARD has read what was really there. */
enum {
    LOG_RUN,    /* ballot of the run; 0: being renewed, nothing here counts */
    LOG_START,  /* position of its first entry, which the owner had applied */
    LOG_GUARD,  /* entries below it are there */
    LOG_COMMIT, /* entries below it are decided, and those at or beyond START are here */
    /* Of a lane that was put together from a disk: entries below it are what RUN says, those from here on are what their own
     * stamps say; 0: all are of the run. */
    LOG_SOLID,
    LOG_WORDS
};

/* Control words of LANE_ROW. */
enum {
    ROW_LIFE,        /* plus one, so that 0 means: never heard of */
    ROW_BEAT,        /* rises while the replica is polled */
    ROW_FLAGS,       /* enum row_flag */
    ROW_APPLIED,     /* position up to which it has applied; meaningless while ROW_BEHIND */
    ROW_BALLOT,      /* ballot under which it leads or tries to; 0 if it does neither */
    ROW_SNAP_ID,     /* transfer it is taking: SNAP_ID, */
    ROW_SNAP_BALLOT, /* and SNAP_BALLOT of it, */
    ROW_SNAP_TAKEN,  /* and bytes of it taken so far */
    ROW_BACKS,       /* ballot of a leader that serves, if it hears or is one; see oracle.h */
    ROW_BUSY,        /* 1: in a call of the machine that may take long, and gives no sign of life */
    /* What is on its disk. The words land in any order: they count if ROW_DISK_CHECK goes with all of them and with ROW_LIFE, so
     * that what a disk had that is lost does not count for the next one. */
    ROW_KEPT_BALLOT, /* run that it last kept entries of, */
    ROW_KEPT,        /* and up to where: its snapshot and what follows has no gap until there */
    ROW_PLEDGED,     /* promise that is on disk */
    ROW_DISK_CHECK,
    ROW_WORDS
};

enum { ROW_DISK_WORDS = ROW_DISK_CHECK - ROW_KEPT_BALLOT + 1 };

static inline uint64_t row_disk_check(uint64_t life, uint64_t ballot, uint64_t kept,
                                      uint64_t pledged)
{
    return life * UINT64_C(0x9e3779b97f4a7c15) ^ ballot * UINT64_C(0xbf58476d1ce4e5b9) ^
           kept * UINT64_C(0x94d049bb133111eb) ^ pledged * UINT64_C(0xd6e8feb86659fd93);
}

enum row_flag {
    ROW_BEHIND = 1,  /* has no state to apply to: reads no log lane, wants a snapshot */
    ROW_JOINING = 2, /* has lost its memory: promises nothing */
    ROW_FULL = 4,    /* its disk takes nothing: it follows, and applies nothing */
};

/* Control words of LANE_SNAP. An offer is: ID 0, then the other words with GUARD 0, then ID. Bytes follow when the
 * owner's row shows ballot and id. A later transfer of the same leadership has a higher ID. */
enum {
    SNAP_ID,     /* counts the transfers of its writer; 0: none */
    SNAP_BALLOT, /* of the leader who sends it */
    SNAP_LIFE,   /* ROW_LIFE of the owner it is meant for */
    SNAP_POS,    /* of the log: everything below is in the state */
    SNAP_GUARD,  /* bytes that are there */
    SNAP_WORDS
};

/* The bytes of a transfer are records: this head, then so many bytes, padded to 8. */
struct snap_record {
    uint32_t kind; /* enum snap_kind */
    uint32_t bytes;
};

enum snap_kind {
    SNAP_HEAD = 1, /* what the log derives from its entries */
    SNAP_STATE,    /* a piece of the machine's state */
    SNAP_WHOLE,    /* that was all of the state */
    SNAP_ENTRY,    /* an entry that was decided since, the next one */
    SNAP_END,      /* a word: the position from which on the log lane is to be read */
};

#endif
