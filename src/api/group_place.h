/* A member that lives in a simulated world (sim/tram_sim_group.c) instead of in a process of its own: its memory and its disks are
 * given to it, and its unit is stepped by somebody else. All else is as tram_group_open makes it. */
#ifndef API_GROUP_PLACE_H
#define API_GROUP_PLACE_H

#include "api/api.h"
#include "group/member.h"
#include "tram/group.h"

struct api_group_place {
    struct mem *mem;
    struct log_budget *budget;
    uint64_t seed, wall_ns; /* wall_ns: as member_set_wall */
    struct block *block; /* for what cells keep; NULL: none keeps anything. It stays the caller's */
    struct disk *disk;   /* likewise, for what the keepers decide */
    void (*wake)(
        void *ctx); /* there is something to do: somebody has sent, asked, or set a column */
    void *ctx;
};

int api_group_open(const struct tram_cluster *, const struct tram_group_options *,
                   const struct api_group_place *, struct tram_group **, struct err *);
/* Closing the unit closes the member; what else there is api_group_end closes after it. */
struct unit api_group_unit(struct tram_group *);
struct member *api_group_member(const struct tram_group *);
/* Its versions, for who reads them; NULL: none. */
struct versions *api_group_versions(const struct tram_group *);
/* After each round: predicates are tested, topics told. An error if the member cannot go on. */
int api_group_stepped(struct tram_group *, struct err *);
void api_group_end(struct tram_group *);

/* The calls that save and load, as those of a replica's machine: cells for groups. */
struct tram_machine api_group_states(const struct tram_group_machine *);

#endif
