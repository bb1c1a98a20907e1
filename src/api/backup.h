/* A backup of one replica: what its machine has at the point in the order at which the backup was delivered, written to the host's disk.
 *
 * The state is frozen at once, and written when the disk's other snapshots let it, in pieces, beside everything else. One at a time:
 * what is delivered while one is under way is let be, so whoever asks too often gets nothing more. Belongs to the host and its
 * thread. */
#ifndef API_BACKUP_H
#define API_BACKUP_H

#include "api/machine.h"
#include "disk/disk.h"

enum backup_phase {
    BACKUP_NONE,
    BACKUP_FROZEN,  /* waits for its turn */
    BACKUP_WRITING, /* pieces are handed to the disk, */
    BACKUP_ENDING,  /* all of them are */
    BACKUP_WHOLE,   /* and it is durable */
    BACKUP_FAILED,  /* the machine had another save open, or could not; or the disk has no room */
};

struct backup {
    struct api_machine machine; /* the user's, with room of its own */
    enum backup_phase phase;
    unsigned char id[DISK_ID_BYTES]; /* of the last one */
    uint64_t delivered;              /* messages before it */
    uint64_t bytes;                  /* of the state, as far as it is written */
    uint64_t said_ns;                /* when it was last said that one was not written; 0: never */
    void *save;                      /* the machine's, while it is open */
    unsigned char *piece;            /* what the disk has yet to take */
    uint32_t piece_bytes, piece_at;
};

void backup_init(struct backup *, const struct api_machine *);
void backup_fini(struct backup *);

/* One was delivered. free: the machine may be asked to freeze its state now. */
void backup_begin(struct backup *, const unsigned char *id, uint64_t delivered, bool free);

/* Something is to be done: in every round. Returns work done. */
bool backup_goes_on(const struct backup *);
int backup_step(struct backup *, struct disk *, uint32_t group);

/* The machine gets another state: what it has frozen is closed first. */
void backup_give_up(struct backup *, struct disk *);

/* The machine has its state frozen for it. */
static inline bool backup_saves(const struct backup *b)
{
    return b->save != NULL;
}

#endif
