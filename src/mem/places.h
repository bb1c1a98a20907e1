/* The places for clients that one host gives: who has which, and when one is free again.
 *
 * A place is given to one process after the other, each time in another *life* of the place. Whoever has one keeps it
 * while it lives, also over a connection that breaks and over a restart of the host: the file of the host's lives
 * (mem/life.h) says who has it. A place rests after its client has ended, and longer if the client may just be out of
 * reach. */
#ifndef MEM_PLACES_H
#define MEM_PLACES_H

#include "mem/life.h"

#define PLACES_NONE UINT32_MAX

struct places {
    struct life_file *file;
    struct place_state {
        uint64_t since_ns; /* when its client was last connected, or this host began; 0: never */
        bool connected;
        bool ended;     /* its client said so, or its process has ended */
        bool held_back; /* given, but nobody is told before a disk has its life */
    } * state;
    uint32_t count;
    uint32_t lives_max; /* of each */
    uint64_t rest_ns;   /* before the next gets it, if its client has ended, */
    uint64_t absent_ns; /* and if it was only lost */
};

/* Those that the file says are taken are lost at first: their clients may come back. */
int places_open(struct places *, struct life_file *, uint32_t lives_max, uint64_t now_ns,
                struct err *);
void places_close(struct places *);

/* The free place that was not used for longest; or whether that one is free, which need not rest. PLACES_NONE: none. */
uint32_t places_any(const struct places *, uint64_t now_ns);
uint32_t places_this(const struct places *, uint32_t place, uint64_t now_ns);

/* Gives a free one to a process; returns its life there. */
uint32_t places_give(struct places *, uint32_t place, uint64_t birth);

/* A client connects that has had the place in this life. False: another has it since; *life is the last one given. */
bool places_return(struct places *, uint32_t place, uint32_t life, uint64_t birth, uint32_t *given);

/* Whoever was given it in this life has not heard of that, and will not: the next has the same. */
void places_withdraw(struct places *, uint32_t place, uint32_t life);

/* It has had so many lives, as a disk knows; its client may come back. */
void places_know(struct places *, uint32_t place, uint32_t lives, uint64_t now_ns);

/* Leaves out that many lives of it, which somebody may have had; at the maximum it is not given any more. */
void places_skip(struct places *, uint32_t place, uint32_t lives);

/* Somebody has seen it taken in this life: the file may have been lost. */
void places_seen(struct places *, uint32_t place, uint32_t life);

/* Its connection is over. */
void places_leave(struct places *, uint32_t place, uint64_t birth, bool ended, uint64_t now_ns);

/* The cluster begins anew: nobody who has had a place, and is not connected, can go on there. */
void places_void(struct places *);

#endif
