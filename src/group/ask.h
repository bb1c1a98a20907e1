/* What members ask each other: queries of one member, and the replies of all to a call (member.h).
 *
 * Between any two hosts there are two rings each way, of asks and of answers; asks wait for room, answers never do: who asks has no more
 * under way than the rings hold of answers, so answers are always taken and nobody waits for somebody who waits for it.
 *
 *   ASK     (region REGION_MEMBER)   enum ask_word      to one host: a ring of asks, and how far both of its rings were taken here
 *   ANSWER  (region REGION_MEMBER)   enum answer_word   to one host: a ring of answers
 *
 * A ring begins anew whenever one of the two is a new member: in the view in which both first were what they are, which both know. Its words are
 * stamps of that view, and count bytes, modulo what a stamp has room for. So nothing of a life that is over is taken for one that is not. */
#ifndef GROUP_ASK_H
#define GROUP_ASK_H

#include "group/member.h"

enum {
    ASK_SLOTS = 64,               /* calls and queries of one member under way */
    ASK_BYTES_DEFAULT = 64 << 10, /* of a ring */
};

/* What was asked by this member and is not complete. */
struct ask_slot {
    uint64_t ticket; /* 0: free */
    bool call;       /* else a query */
    uint32_t cell, reserved;
    uint64_t vid;      /* a call: of the view in which it was delivered; 0: it was not yet */
    uint64_t waits;    /* hosts whose answer is due */
    uint64_t answered; /* hosts that have */
};

/* One host, and what goes there and comes from there. */
struct ask_peer {
    struct mem_lane *ask_in, *answer_in, *ask_out, *answer_out;
    struct mem_flow flow;
    uint64_t since; /* the first view in which it is in its life, as far as is known here */
    uint64_t epoch; /* vid that the stamps of the rings have; 0: it is not in the view */
    bool torn;      /* it wrote what no member writes: nothing more of it is taken in this epoch */
    uint64_t ask_end, answer_end;   /* own positions: written up to here, */
    uint64_t ask_free, answer_free; /* and taken there up to here */
    uint64_t ask_at, answer_at;     /* what is next of theirs */
    unsigned char *owed; /* answers from answer_end to owed_end, for which there was no room yet */
    uint64_t owed_end;
};

struct asks {
    uint32_t ring_bytes, frame_max;
    struct ask_peer *peer; /* by host */
    struct ask_slot slot[ASK_SLOTS];
    uint64_t tickets;
    uint32_t open;                /* slots that are not free */
    uint32_t reserved;            /* bytes of answers under way, of all slots */
    uint32_t busy;                /* rounds in which it is looked without pause */
    bool closed;                  /* this host is about to be in no view */
    unsigned char *frame, *reply; /* room for one */
};

#endif
