/* The file in which a host counts its lives, for transports on which memory goes with the process; beside that it keeps
 * what the host knows of the others (mem/roll.h) and who has the clients' places that it gives (mem/places.h).
 *
 *     STATE/HOST.life     0      text for people: "lives 3 pid 4711"
 *                         2048   struct life_met, one per host
 *                         4096   struct life_page, from here on
 *
 * It must outlive the process and the machine's restart: a host that came back as if it were new would promise what
 * its earlier life has promised to others. Locked by the host's process for life. What is written to the page is there
 * after the process was killed; after a restart of the machine, what life_sync has waited for.
 *
 * A host that keeps its lives on a disk (mem/lives.h) counts them there: then the file knows no better, and only adds who
 * had them. */
#ifndef MEM_LIFE_H
#define MEM_LIFE_H

#include "base/err.h"
#include "mem/roll.h"

#include <stdbool.h>
#include <stdint.h>

/* A client's place that this host gives. */
struct life_place {
    uint64_t birth; /* of the process that has it; 0: nobody */
    uint32_t life;  /* lives that were given so far */
    uint32_t unused;
};

/* Another host's process, as it was last met. */
struct life_met {
    uint64_t birth; /* 0: never */
    uint32_t lives; /* it was in the last of so many */
    uint32_t unused;
};

struct life_page;

struct life_file {
    int fd;
    bool told;     /* its lives are counted elsewhere, */
    uint32_t said; /* and here were so many */
    bool made;     /* there was no file before */
    bool renewed;  /* there was, but nothing is known of places */
    bool rebooted; /* the machine was started since: what was written last may be missing */
    char path[512];
    struct life_page *page;
    struct roll_entry before; /* of this host, when it was opened */
    uint32_t self;
    uint32_t places;
};

struct life_options {
    const char *dir;
    const char *host;
    uint32_t self; /* number of the host */
    uint64_t
        hosts_tag;   /* of the names of all hosts: entries of another list of hosts are dropped */
    uint32_t places; /* of clients */
    bool told; /* lives are counted elsewhere: life_open is given them, and the file follows */
};

/* The directory for a host's state if the cluster file names none: ERR_NOTFOUND if the environment
 * has none either. */
int life_directory(const char *cluster, char *out, size_t bytes, struct err *);

/* Counts a life; *lives are those before, found here or `told`. ERR_EXISTS: a live process has it. */
int life_open(struct life_file *, const struct life_options *, uint32_t *lives, struct err *);

struct roll_entry *life_roll(const struct life_file *);
uint64_t life_made_ms(const struct life_file *);
struct life_place *life_place(const struct life_file *, uint32_t place);

/* As last noted; of one process to the next, and not after a restart of the machine. */
struct life_met life_met(const struct life_file *, uint32_t host);
void life_met_note(struct life_file *, uint32_t host, struct life_met);

/* Gives the place to the next, in the life that is returned. */
uint32_t life_place_next(struct life_file *, uint32_t place, uint64_t birth);

bool life_sync(struct life_file *); /* false: it is not on the disk */
void life_set(struct life_file *, uint32_t lives);
void life_close(struct life_file *, bool forget);

/* Closes, as if this life had not been: nobody has heard of it. A host that finds at its start that it cannot run must
 * not come back as one that has lost its memory. `lives`: those before. */
void life_take_back(struct life_file *, uint32_t lives);

#endif
