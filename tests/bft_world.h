/* A world of the core of a log among liars (agree/bft_core.h), broadcasts and frames taken as given: one run for a seed.
 *
 * Each member's broadcasts are one sequence, which each other hears in order; a liar shows each of its own to whom it likes. Frames are lost, late
 * and out of order. Liars know everything that was ever signed, sign what they like themselves, and mostly say what everybody
 * will believe. */
#ifndef TESTS_BFT_WORLD_H
#define TESTS_BFT_WORLD_H

#include "agree/bft_core.h"

/* Whom the liars aim at. */
enum bft_aim {
    BFT_AIM_NONE,   /* anything at all */
    BFT_AIM_JUMP,   /* the leader proposes twice, to one who has jumped */
    BFT_AIM_LATE,   /* a COMMIT below the view that was promised */
    BFT_AIM_BLIND,  /* a COMMIT that the STATE behind it hides */
    BFT_AIM_DOMAIN, /* a request to JOIN, replayed as one of the next life */
    BFT_AIM_CERT,   /* a certificate of the liar alone */
};

struct bft_shape {
    uint32_t members;
    bool restarts; /* one member at a time loses its memory, as long as fewer than f lie */
    enum bft_aim aim;
    uint32_t hurry; /* views are too short by this factor at first */
};

struct bft_figures {
    uint64_t decided, jumps, joins, views, new_views, checkpoints, departed, loads, taken_over,
        lies;
};

/* NULL, or which property was violated. */
const char *bft_world_run(const struct bft_shape *, uint64_t seed, struct bft_figures *);

/* A member promises view 1 and loses its memory; it is taken back and helps to decide in view 0. Then view 1 begins. */
const char *bft_world_forgotten_promise(void);

/* One of three that are left is ahead of the others, and a liar is far ahead of all. */
const char *bft_world_one_ahead(void);

/* ---- between its files ---- */

enum {
    WORLD_CLUSTER = 77,
    WORLD_GROUP = 3,
    WORLD_STEP_NS = 100,
    WORLD_BEAT_STEPS = 300,
    WORLD_MEMBERS = BFT_MEMBERS_MAX,
    WORLD_LIVES = 4,
    WORLD_SAID = 600, /* broadcasts of a member in a life */
    WORLD_QUEUE = 64,
    WORLD_CERTS = 600,
    WORLD_BODY = 12 << 10,
    WORLD_BATCH = 64,
    WORLD_SLOTS = 256,
};

struct said {
    uint32_t bytes;
    struct digest digest;
    unsigned char *body;
    const char *fault; /* of its form or signatures */
    uint32_t vouched;  /* a STATE: by whom, by rank */
    struct bft_mark vouch[WORLD_MEMBERS];
};

struct said_log {
    uint32_t count;
    struct said said[WORLD_SAID];
};

/* All that has ever signed CERTIFY for a name in a view and slot. */
struct cert {
    uint64_t view, slot;
    struct digest name;
    uint32_t bits;
    struct bft_mark mark[WORLD_MEMBERS];
};

struct flying {
    uint32_t from, bytes;
    bool checked; /* signed by who it says */
    union {
        struct bft_frame frame;
        unsigned char data[sizeof(struct bft_frame) + WORLD_BODY / 4];
    };
};

struct world_member {
    uint32_t rank;
    bool lies, down;
    uint32_t life; /* of its process */
    struct bft_core core;
    uint32_t life_of[WORLD_MEMBERS];
    uint64_t heard[WORLD_MEMBERS]; /* broadcasts of that life */
    uint64_t taken, filled;        /* messages */
    uint32_t flying;
    struct flying *queue;
    bool saving, skips_certify, deaf; /* the last: is told nothing */
    uint64_t save_slot;
    /* of a liar: how everybody sees it */
    struct bft_automaton phantom;
    uint32_t stage;
};

struct bft_world {
    struct bft_shape shape;
    struct bft_scope scope;
    uint64_t seed, now_ns, messages;
    struct rng *rng;
    struct said_log *log[WORLD_MEMBERS][WORLD_LIVES];
    struct cert cert[WORLD_CERTS];
    uint32_t certs;
    struct world_member member[WORLD_MEMBERS];
    bool is_decided[WORLD_SLOTS], has_state[WORLD_SLOTS];
    struct digest decided[WORLD_SLOTS];
    uint64_t decided_view[WORLD_SLOTS];  /* the lowest that anybody has decided it in */
    uint64_t state[WORLD_SLOTS];         /* messages taken, by checkpoint */
    uint32_t victims;                    /* by rank */
    struct bft_mark join[WORLD_MEMBERS]; /* the last request of each */
    bool careful;                        /* liars say nothing that somebody would not believe */
    uint32_t
        hidden[WORLD_MEMBERS]; /* by rank: places that it does not see of a liar now, drawn anew */
    struct bft_figures *figures;
    const char *violated;
    char why[160];
};

extern struct bft_world bw;

const char *world_say(uint32_t rank, const void *body, uint32_t bytes);
void world_certify(uint32_t rank, uint64_t view, uint64_t slot, struct digest name);
void world_vouch(uint32_t rank, uint32_t sender, uint32_t life, uint64_t place);
bool world_vouched(const struct said *);
struct cert *world_cert(uint64_t view, uint64_t slot, struct digest name);
uint32_t world_batch(uint64_t message, uint32_t by, void *out);
/* A frame that may be lost, to all. */
void world_send(uint32_t from, const struct bft_frame *, const void *data, uint32_t bytes);
void world_liar_step(struct world_member *);

/* The draws of a run. */
struct rng *world_rng(void);
bool world_works(uint32_t rank); /* it is correct, and up */
void world_violated(const char *what, const char *why);
void world_open_member(uint32_t rank, bool lies);
void world_restart(struct world_member *);
void world_close(void);
void world_hear_one(struct world_member *, uint32_t sender);
void world_one_frame(struct world_member *);
void world_end_save(struct world_member *);
void world_load(struct world_member *);
void world_member_step(struct world_member *);

#endif
