/* Inside of a member of a log among liars, around its core: bft.c opens and steps it, bft_store.c has the bodies of broadcasts, bft_frames.c
 * checks and signs frames, bft_feed.c takes from sources and applies, bft_signed.c has what clients have signed, bft_load.c saves and loads
 * states. */
#ifndef AGREE_BFT_IMPL_H
#define AGREE_BFT_IMPL_H

#include "agree/bft.h"
#include "agree/bft_core.h"
#include "agree/bft_fast.h"
#include "agree/bft_stretch.h"
#include "agree/bft_talk.h"

enum {
    CHECKS_MAX = 8,    /* frames of one member that are being checked */
    OWN_MAX = 64,      /* frames that are being signed */
    READS_MAX = 32,    /* frames of one member in a round */
    SAVES_MAX = 8,     /* states: those that may become stable, and the stable ones of late */
    PART_BYTES = 4096, /* of a state, in a frame */
    LINE_MAX = 160,
    PATIENCE_BEATS = 4, /* before somebody else is asked */
    KEPT_MAX = 4,       /* stretches of a client that are kept here */
    STATED_MAX = 2,     /* statements of a member: its own, and one that somebody has of it */
    PROOFS_MAX = BFT_SLOTS_UNDER_WAY * BFT_STRETCHES_BATCH, /* signatures in batches */
};

/* A broadcast's bytes. */
struct body {
    uint64_t key;
    struct digest digest;
    uint32_t bytes; /* 0: none */
    unsigned char *data;
};

/* Of a sender whose next broadcast is being looked at. */
struct arriving {
    bool wanted; /* its bytes are not here */
    uint64_t wanted_key;
    struct digest wanted_digest;
    uint32_t beats; /* it has been wanted for */
    uint64_t key;   /* that is being checked; 0: none */
    const char *fault;
    uint32_t jobs;
    struct sign_job job[BFT_SIGNATURES_MAX];
};

/* A frame whose signatures are being checked. */
struct check {
    bool busy;
    uint32_t bytes, jobs;
    struct sign_job job[BFT_QUORUM_MAX];
    struct bft_frame *frame;
};

struct own_frame {
    bool busy;
    uint32_t bytes;
    struct sign_job job;
    struct bft_frame frame;
    struct bft_checkpoint data;
};

enum kept_state {
    KEPT_FREE,
    KEPT_CHECKED, /* its signature is being */
    KEPT_BAD,     /* it is, until the next beat: so a client that lies costs little */
    KEPT_GOOD,
};

/* A stretch that its client has signed, with its messages. */
struct bft_kept {
    enum kept_state state;
    struct bft_stretch stretch;
    struct digest digest;
    uint32_t bytes; /* of entries */
    unsigned char *entries;
    struct sign_job job;
    uint64_t since_ns; /* it could have been ordered next, in this view; 0: it could not */
    uint64_t told_ns;  /* the leader was told of it, in this view; 0: it was not */
};

/* A signature in somebody's batch. */
struct bft_proof {
    struct bft_stretch stretch;
    struct digest digest;
    struct sign_job job;
};

struct bft_source {
    struct mem_lane *in, *ack, *proofs; /* the last: LANE_SIGNED */
    struct bft_kept kept[KEPT_MAX];
    uint64_t seen_count, seen_again, seen_guard,
        seen_taken; /* what is in the cells is kept, as of these */
    bool skipped;   /* but some of it found no room */
    struct mem_flow flow;
    uint64_t taken, cursor;
    struct digest chain; /* of what was taken in that life (agree/bft_stretch.h) */
    uint16_t life, cursor_life;
    bool told_life, signed_only; /* the last: it has cost a fast epoch */
    uint64_t told, told_asks;
};

struct bft_saved {
    uint64_t slot; /* 0: none */
    uint32_t bytes;
    unsigned char *data;
};

/* What a saved state begins with; behind it a struct bft_saved_source for each source, then the machine's. */
struct bft_saved_head {
    uint64_t pos, messages, epoch;
};

struct bft_saved_source {
    uint64_t taken, life;
    struct digest chain;
};

struct bft_loading {
    bool on;
    struct bft_checkpoint at;
    struct bft_mark mark[BFT_QUORUM_MAX];
    uint32_t from, bytes, beats;
    unsigned char *data;
    uint64_t asked_applied; /* nothing was applied since this */
    uint32_t waited;        /* beats */
};

struct bft_evidence {
    bool there;
    struct neb_cell cell[2];
};

/* A batch of a fast epoch. */
struct content {
    uint64_t number; /* 0: none */
    struct digest digest;
    uint32_t bytes;
    unsigned char *data;
};

struct stated {
    uint64_t number; /* epoch that it is of; 0: there is none */
    bool there;      /* and its signature is good */
    struct bft_statement *of;
    struct sign_job job;
};

/* A CUT, and the digests of its batches from one on. */
struct cut_plan {
    struct bft_cut cut;
    uint64_t from;
    struct digest digest[BFT_FAST_KEPT];
};

struct epoch {
    bool open;
    uint64_t number; /* of this one, or the last; 0: there was none */
    uint32_t leader;
    struct bft_fast fast;
    struct content content[BFT_FAST_KEPT]; /* by number % BFT_FAST_KEPT */
    uint64_t applied;                      /* batches */
    uint64_t began_ns, moved_ns, reopen_ns, drain_ns,
        backoff_ns; /* drain_ns: 0, or since when one is to begin */
    uint64_t beat_ns[BFT_MEMBERS_MAX];
    uint32_t life[BFT_MEMBERS_MAX]; /* that members were in when it began */
    bool signing;                   /* our statement */
    struct stated stated[BFT_MEMBERS_MAX][STATED_MAX];
    bool wants; /* batches of that CUT */
    struct cut_plan want;
    bool proposed; /* its CUT is, in this view */
    bool has_cut;  /* it is decided, and being applied */
    struct cut_plan plan;
};

struct bft {
    struct bft_options opt;
    uint32_t nodes[BFT_MEMBERS_MAX];
    struct bft_core core;
    struct neb *neb;
    struct bft_talk *talk;
    uint64_t now_ns, beat_at, bytes;
    uint32_t body_max, frame_max;
    struct body *body[BFT_MEMBERS_MAX]; /* by place % window */
    struct arriving arriving[BFT_MEMBERS_MAX];
    struct check check[BFT_MEMBERS_MAX][CHECKS_MAX];
    struct check accused[BFT_MEMBERS_MAX]; /* evidence that is being checked, by who gave it */
    struct own_frame own[OWN_MAX];
    struct bft_evidence evidence[BFT_MEMBERS_MAX];
    char line[BFT_MEMBERS_MAX][LINE_MAX];
    const char *why[BFT_MEMBERS_MAX]; /* the end of the line */
    struct bft_source *source;
    uint32_t first_source; /* of the next batch */
    uint32_t stretch_bytes;
    struct bft_proof *proof;
    uint32_t proofs;             /* begun so far */
    unsigned char *told;         /* a frame with a stretch */
    struct entry *entry, *other; /* being applied; compared with the ring */
    struct epoch *epoch;         /* NULL: there are no fast ones */
    bool was_open;               /* behind the slot before */
    bool anew;                   /* what was filled last may not be decided */
    unsigned char *scratch;
    uint64_t panics;
    uint64_t pos, messages;
    uint32_t apply_at; /* bytes of the batch that are applied */
    struct bft_saved saved[SAVES_MAX];
    struct bft_saved *saving; /* NULL: none */
    void *save;
    struct bft_loading loading;
    uint64_t loads;
    bool voted;
};

void *bft_memory_open(struct bft *, uint64_t bytes);
void bft_tell(void *ctx, uint32_t to, const struct bft_frame *, const void *data, uint32_t bytes);
void bft_convict(struct bft *, uint32_t rank, const struct neb_cell *, const struct neb_cell *,
                 const char *why);

bool bft_store_open(struct bft *);
void bft_store_close(struct bft *);
bool bft_store_has(void *ctx, uint32_t sender, const struct neb_message *);
void bft_store_deliver(void *ctx, uint32_t sender, const struct neb_message *);
int bft_store_say(void *ctx, const void *body, uint32_t bytes);
void bft_store_take(struct bft *, uint32_t from, const struct bft_frame *, uint32_t bytes);
void bft_store_give(struct bft *, uint32_t to, const struct bft_frame *);
void bft_store_beat(struct bft *);

bool bft_frames_open(struct bft *);
void bft_frames_close(struct bft *);
int bft_frames_read(struct bft *);
int bft_frames_settle(struct bft *);
bool bft_frames_sign(void *ctx, const struct bft_frame *, const void *data, uint32_t bytes);
void bft_frames_beat(struct bft *);

int bft_feed_open(struct bft *, struct err *);
void bft_feed_close(struct bft *);
int bft_feed_valid(void *ctx, const void *batch, uint32_t bytes);
uint32_t bft_feed_fill(void *ctx, void *batch, uint32_t room, bool anew, bool last);
bool bft_feed_apply(void *ctx, uint64_t slot, const void *batch, uint32_t bytes);
int bft_feed_tell(struct bft *);
void bft_feed_loaded(struct bft *, uint32_t source, const struct bft_saved_source *);

int bft_signed_open(struct bft *, struct err *);
void bft_signed_close(struct bft *);
/* Takes what clients have signed, as far as there is room. */
int bft_signed_step(struct bft *);
void bft_signed_beat(struct bft *);
/* The next one of a source behind what was taken, or proposed, up to there; NULL: nothing is signed that could follow. */
const struct bft_kept *bft_signed_next(const struct bft_source *, uint64_t pos, uint16_t life);
/* 1: the client has signed these; 0: that is not known yet; -1: it has not. */
int bft_signed_valid(struct bft *, const struct bft_stretch *, struct digest);
bool bft_signed_pending(void *ctx);
uint64_t bft_signed_since(void *ctx);
/* Since when the one waits that its leader has known for longest and not ordered; 0: none does. */
uint64_t bft_signed_waits(const struct bft *);
void bft_signed_entered(struct bft *);
/* One that another member has, in a frame: is it worth checking, what for; and it is good. */
uint32_t bft_signed_job(const struct bft *, const struct bft_frame *, uint32_t bytes,
                        struct sign_job *);
void bft_signed_take(struct bft *, const struct bft_frame *, uint32_t bytes);

/* What stands at a position in a source's ring, copied: its payload to `payload`. False: nothing that a source writes. */
bool bft_feed_frame(const struct bft *, const struct bft_source *, uint64_t pos, uint16_t life,
                    struct frame *, void *payload);
/* Of the life that its content is of, as the memory knows it. */
uint16_t bft_feed_life(const struct bft_source *);

/* What stands in the own rings, signed or not, for a batch of a fast epoch. */
uint32_t bft_feed_fill_fast(struct bft *, void *batch, uint32_t room);
/* Applies the messages of a batch; false: not all now, go on later with the same. */
bool bft_feed_apply_batch(struct bft *, const void *batch, uint32_t bytes);
bool bft_feed_save_now(void *ctx, bool usual);

bool bft_epoch_open(struct bft *);
/* Between its two files, bft_epoch.c and bft_epoch_cut.c. */
uint32_t bft_epoch_ahead(const struct bft *);
void bft_epoch_freeze(struct bft *, const char *why);
struct content *bft_epoch_content(struct bft *, uint64_t number);
bool bft_epoch_has(struct bft *, uint64_t number, struct digest);
struct bft_cut_options bft_epoch_cut_options(const struct bft *);
void bft_epoch_state(struct bft *);
int bft_epoch_end_jobs(struct bft *);
/* Is it known to be signed? Else it is checked, if there is room. */
bool bft_epoch_is_stated(struct bft *, const struct bft_statement *);
bool bft_epoch_all_stated(struct bft *, const struct bft_cut_entry *, uint32_t bytes);
bool bft_epoch_plan(struct bft *, const struct bft_cut_entry *, uint32_t bytes, struct cut_plan *);
/* Are all its batches here, and valid? Those that are not are asked for. */
bool bft_epoch_has_batches(struct bft *, const struct cut_plan *, bool certifies);
uint32_t bft_epoch_fill_cut(struct bft *, void *batch, uint32_t room);
void bft_epoch_close(struct bft *);
bool bft_epoch_is_open(const struct bft *);
bool bft_epoch_is_fast(const struct bft *); /* and not frozen here */
uint64_t bft_epoch_number(const struct bft *);
void bft_epoch_end(struct bft *, uint64_t number);
bool bft_epoch_drains(struct bft *);
bool bft_epoch_reserves(void *ctx, const void *batch, uint32_t bytes);
uint32_t bft_epoch_fill(struct bft *, void *batch, uint32_t room, bool anew);
int bft_epoch_valid(struct bft *, const struct entry *);
int bft_epoch_apply(struct bft *, const struct entry *);
void bft_epoch_frame(struct bft *, uint32_t from, const struct bft_frame *, uint32_t bytes);
void bft_epoch_heard_beat(struct bft *, uint32_t from);
int bft_epoch_step(struct bft *);
void bft_epoch_beat(struct bft *);

bool bft_load_open(struct bft *);
void bft_load_close(struct bft *);
bool bft_load_save(void *ctx, uint64_t slot);
int bft_load_step(struct bft *);
void bft_load_give(struct bft *, uint32_t to, const struct bft_frame *);
void bft_load_take(struct bft *, uint32_t from, const struct bft_frame *, uint32_t bytes);
void bft_load_beat(struct bft *);

/* Tells whoever watches, if anybody does. */
#define WATCH(b, call, ...)                                                                        \
    do {                                                                                           \
        if ((b)->opt.watch && (b)->opt.watch->call)                                                \
            (b)->opt.watch->call((b)->opt.watch_ctx, __VA_ARGS__);                                 \
    } while (0)

#endif
