/* The replicated log of a group of which a minority may lie: Robust Backup of Paxos, with certificates.
 *
 * (The Impact of RDMA on Agreement, sections 4 and 5.) Of n = 2 f + 1 members f may do anything at all; the others go through views with one
 * leader each, and decide slot by slot which batch of messages is next:
 *
 *   PROPOSE   the leader's batch for a slot, broadcast so that it can say only one (agree/bft_neb.h)
 *   CERTIFY   whoever has heard it, and finds it valid, signs that. f+1 of them are a certificate: no other batch gets one in that view
 *   COMMIT    whoever has a certificate locks it, and broadcasts that. f+1 COMMITs decide
 *
 * A member that gives up on a view broadcasts its STATE in the next one, and commits to nothing below. f+1 members vouch that a STATE hides nothing
 * that its sender has broadcast. Of f+1 such STATEs the next leader's NEW-VIEW follows, and of that what it must propose again.
 *
 * So what a member has *sent* is known to all, since they replay it (agree/bft_automaton.h), and what it has *received* is shown by
 * signatures. A checkpoint that f+1 have signed ends the past: what is before it is forgotten by all, and whoever lacks it loads
 * the state. A member that lost its memory comes back in its next life, by a decision of the others (JOIN), and votes again
 * from the first checkpoint behind that.
 *
 * Messages come from clients (agree/bft_client.h): a client writes them to every member, and signs them. A leader orders what is signed; a member
 * certifies what stands in its own ring in the same bytes, or has the signature. Who is told that a message is decided by f+1 members knows it.
 *
 * A `struct bft` is one member's part. It belongs to the thread that polls the node's memory; it never blocks, reads no clock and takes no memory after
 * bft_open. A host's round: bft_post, mem_poll, signer_poll, bft_settle. */
#ifndef AGREE_BFT_H
#define AGREE_BFT_H

#include "agree/bft_wire.h"
#include "agree/log.h"

/* What happens, for checkers; each may be NULL. Names: of values. */
struct bft_watch {
    void (*heard)(void *ctx, uint32_t sender, uint64_t key, struct digest);
    void (*certified)(void *ctx, uint64_t view, uint64_t slot, struct digest name);
    void (*locked)(void *ctx, uint64_t view, uint64_t slot,
                   struct digest name); /* has a certificate */
    /* view UINT64_MAX: f+1 members say so */
    void (*decided)(void *ctx, uint64_t view, uint64_t slot, struct digest name);
    void (*entered)(void *ctx, uint64_t view);
    void (*jumped)(void *ctx, uint32_t sender, uint64_t key);
    void (*votes)(void *ctx, uint64_t slot); /* again, from that checkpoint on */
    void (*stable)(void *ctx, const struct bft_checkpoint *);
    void (*loaded)(void *ctx, const struct bft_checkpoint *);
    /* A fast epoch: it begins; here it is frozen, and why; it ends behind that batch. */
    void (*opened)(void *ctx, uint64_t epoch);
    void (*frozen)(void *ctx, uint64_t epoch, const char *why);
    void (*cut)(void *ctx, uint64_t epoch, uint64_t batch);
    /* It has signed both cells; or, with neither, has broadcast what no correct member does: it is not listened to here. The line is for people. */
    void (*convicted)(void *ctx, uint32_t rank, const struct neb_cell *, const struct neb_cell *,
                      const char *line);
};

struct bft_options {
    struct mem *mem;
    uint32_t region;       /* number of the group: its region at every member */
    const uint32_t *nodes; /* that carry the members, by rank; distinct */
    uint32_t members;      /* odd: 2 f + 1, up to BFT_MEMBERS_MAX */
    uint32_t rank;
    uint32_t life; /* how many lives this member had before. Beyond the first it has to JOIN */
    uint64_t cluster;
    struct signer *signer; /* as `rank`; polled by the caller */

    const uint32_t
        *memories; /* for broadcasts, as in struct neb_options; NULL: each member's own */
    uint32_t memory_count;

    const uint32_t *source_nodes; /* the node that writes each source */
    uint32_t sources;
    uint32_t source_bytes; /* ring of a source at a member; 0: 64 KiB */

    uint32_t payload_max; /* largest message; 0: what fits into a batch, with a signature */
    uint32_t batch_bytes; /* largest batch; 0: 4 KiB */
    uint32_t window;      /* broadcasts of a member that are kept; 0: NEB_WINDOW_MAX, at least 16 */
    uint32_t talk_bytes;  /* ring of frames to another member; 0: 256 KiB */
    uint32_t state_bytes_max; /* of the machine's state; 0: 64 KiB */

    uint64_t beat_ns; /* what may have been lost is said again; 0: 1 ms */
    uint64_t
        view_ns; /* a view without progress at first; doubled for each, halved by progress; 0: 20 ms */

    bool fast;           /* epochs in which nothing is signed, while all members are well */
    uint32_t fast_ahead; /* batches under way in one; 0: BFT_FAST_AHEAD */
    uint64_t
        fast_backoff_ns; /* to the next one at first, doubled for each that was given up soon; 0: 10 ms */

    const struct log_machine *machine; /* ready may be NULL; state must not be */
    void *ctx;
    const struct bft_watch *watch; /* NULL: nobody does */
    void *watch_ctx;
};

struct bft_stats {
    uint64_t view, slots, messages; /* where it is; slots and messages that are applied */
    uint64_t views, new_views;      /* entered; made as leader */
    uint64_t certified, committed, proposed, vouched;
    uint64_t checkpoints, loads, jumps,
        joins;           /* stable; states taken; in others' broadcasts; of members, decided */
    uint64_t taken_over; /* slots decided because f+1 said so */
    uint32_t convicted;  /* bits by rank: not listened to */
    uint32_t life[BFT_MEMBERS_MAX]; /* of each member, decided */
    uint64_t epoch, panics;         /* the last fast epoch; how often one was frozen here */
    bool fast;                      /* it is open, and not frozen here */
    bool votes;
    uint64_t bytes; /* of memory, taken at open */
    uint64_t timeout_ns;
};

struct bft;

int bft_open(const struct bft_options *, struct bft **, struct err *);
void bft_close(struct bft *);

int bft_post(struct bft *, uint64_t now_ns);
int bft_settle(struct bft *, uint64_t now_ns);
uint64_t bft_next_ns(const struct bft *);

/* Largest batch that fast epochs need. */
uint32_t bft_fast_batch_bytes(const struct bft_options *);

void bft_stats(const struct bft *, struct bft_stats *);

/* NULL, or why it has stopped for good. */
const char *bft_broken(const struct bft *);

/* NULL, or the line that says what a member that is not listened to has done. */
const char *bft_convicted(const struct bft *, uint32_t rank);

/* Position in the source's stream up to which the applied log has taken it, and the life of the source in which that is. */
uint64_t bft_source_taken(const struct bft *, uint32_t source, uint16_t *life);

/* NULL, or which of the rules that hold after every post and settle is broken. */
const char *bft_check(const struct bft *);

/* The same as what a host steps: it closes the member. */
struct unit bft_unit(struct bft *);

#endif
