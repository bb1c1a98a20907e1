/* The core of a log among liars: slots, views, checkpoints and JOIN, above broadcasts and frames that have been checked.
 *
 * Whoever holds it (agree/bft.h, or a test) gives it what it hears and asks it to step; it answers through a table of calls. It knows no
 * memory, no signatures and no clock but what it is given. What is lost on the way of frames is said again with each beat; broadcasts
 * are not lost, but may come late or, of a liar, never. */
#ifndef AGREE_BFT_CORE_H
#define AGREE_BFT_CORE_H

#include "agree/bft_automaton.h"

enum {
    BFT_VALUES = 4, /* kept of a slot: locked or decided, proposed, certified, wanted */
    BFT_CLAIMS = 8, /* checkpoints that are kept of a member: more than can be unstable */
    BFT_ALL = UINT32_MAX,
};

struct bft_core_calls {
    /* Broadcasts; copied. ERR_AGAIN: not now. */
    int (*say)(void *ctx, const void *body, uint32_t bytes);

    /* Signs the frame, tells it to all, and gives it to bft_core_frame. False: not now. */
    bool (*sign)(void *ctx, const struct bft_frame *, const void *data, uint32_t bytes);

    /* To one or BFT_ALL; may be lost. */
    void (*tell)(void *ctx, uint32_t to, const struct bft_frame *, const void *data,
                 uint32_t bytes);

    /* May it be certified? 1: yes, 0: not yet. */
    int (*valid)(void *ctx, const void *batch, uint32_t bytes);

    /* The next batch, if there is one: returns its bytes. anew: what was filled before may not be decided; last: for one of the last slots of the
     * window, so only what may stand there. */
    uint32_t (*fill)(void *ctx, void *batch, uint32_t room, bool anew, bool last);

    /* Are the last slots of the window kept for something else than this? bytes 0: than what is no batch. */
    bool (*reserves)(void *ctx, const void *batch, uint32_t bytes);

    /* Are there messages that a leader knows of and that are not decided? */
    bool (*pending)(void *ctx);

    /* Since when does the one wait that waits longest in this view? 0: none does. */
    uint64_t (*since)(void *ctx);

    /* In order, once; bytes 0: nothing. False: no room now, again later. */
    bool (*apply)(void *ctx, uint64_t slot, const void *batch, uint32_t bytes);

    /* Is the state saved behind the slot that was applied? usual: as slots are counted. The same at all members. */
    bool (*save_now)(void *ctx, bool usual);

    /* Saves the state as it is, for bft_core_saved. False: no room now, again later. */
    bool (*save)(void *ctx, uint64_t slot);

    /* From here on that life of a member counts. */
    void (*life)(void *ctx, uint32_t rank, uint32_t life);

    /* Goes on behind that broadcast of a member. */
    void (*jump)(void *ctx, uint32_t rank, uint64_t key);

    /* Our broadcasts up to there are vouched for. */
    void (*vouched)(void *ctx, uint64_t key);

    /* It is not listened to any more. */
    void (*departed)(void *ctx, uint32_t rank, const char *why);

    /* What happens, by its name in struct bft_watch. */
    void (*certified)(void *ctx, uint64_t view, uint64_t slot, struct digest);
    void (*locked)(void *ctx, uint64_t view, uint64_t slot, struct digest);
    void (*decided)(void *ctx, uint64_t view, uint64_t slot, struct digest);
    void (*entered)(void *ctx, uint64_t view);
    void (*stable)(void *ctx, const struct bft_checkpoint *);
    void (*votes)(void *ctx, uint64_t slot);
};

struct bft_core_options {
    struct bft_scope scope;
    uint32_t rank, life;
    uint32_t batch_bytes;
    uint32_t half; /* broadcasts that may be under way and not vouched for */
    uint64_t beat_ns, view_ns;
    const struct bft_core_calls *calls;
    void *ctx;
};

struct bft_value {
    struct digest name;
    uint32_t bytes; /* 0: none */
    unsigned char *data;
};

struct bft_certify {
    uint64_t view_1; /* 0: none */
    struct digest name;
    struct bft_mark mark;
};

struct bft_slot {
    uint64_t slot;
    uint64_t proposed_1;  /* the view of the last PROPOSE, and 1; 0: none */
    uint64_t certified_1; /* in which it was certified here */
    uint64_t due_1;       /* of a certificate that is to be locked */
    struct digest proposed, due, want;
    bool asked_for; /* a JOIN that is proposed has the signature of who wants it */
    bool bound;     /* what is proposed follows from the NEW-VIEW */
    bool wanted;    /* want is asked for */
    bool decided;
    struct digest name; /* that is decided */
    struct bft_mark due_mark[BFT_QUORUM_MAX];
    struct bft_certify certify[BFT_MEMBERS_MAX];
    bool claims[BFT_MEMBERS_MAX];
    struct digest claim[BFT_MEMBERS_MAX]; /* who says it is decided, and for what */
    struct bft_value value[BFT_VALUES];
};

/* A STATE and who vouches for it. */
struct bft_standing {
    bool there;
    uint64_t key;
    struct digest digest;
    uint32_t bytes, marked; /* bits by rank */
    struct bft_mark mark[BFT_MEMBERS_MAX];
    struct bft_state *state;
};

struct bft_claim {
    struct bft_checkpoint at;
    struct bft_mark mark;
    bool there;
};

struct bft_peer {
    struct bft_automaton automaton; /* as far as it is heard */
    uint64_t heard;                 /* key */
    struct bft_standing newest, vouched;
    struct bft_claim claim[BFT_CLAIMS]; /* by place */
    uint32_t claims;                    /* made so far */
    uint64_t applied;                   /* as its last beat says */
    struct bft_mark join;               /* its request, of a life beyond the decided one */
    bool joins;
    uint64_t joined_view_1; /* in which we have proposed it, and 1 */
};

struct bft_core_counts {
    uint64_t views, new_views, certified, committed, proposed, vouched, checkpoints, joins, jumps,
        taken_over;
};

struct bft_core {
    struct bft_core_options opt;
    uint32_t quorum; /* f + 1 */
    bool votes;      /* else it only listens, until it is back */
    uint64_t view;
    struct bft_automaton said; /* of ourselves, as far as we have spoken */
    uint64_t said_place, vouched_place,
        state_place; /* of our broadcasts; the last: of the last STATE */
    bool state_due;
    bool filled; /* in this view */
    uint64_t applied;
    struct digest chain;
    uint32_t life[BFT_MEMBERS_MAX];
    struct bft_checkpoint stable;
    struct bft_mark stable_mark[BFT_QUORUM_MAX];
    struct bft_checkpoint own[BFT_CLAIMS]; /* what was saved here, by place */
    uint32_t owns;
    struct bft_checkpoint ahead; /* the last that f+1 have signed, if not applied here */
    struct bft_mark ahead_mark[BFT_QUORUM_MAX];
    bool saving, save_due;
    uint64_t beat_at, deadline, complaint_at, censored_at, timeout; /* times; 0: none */
    uint64_t reached_at; /* since when f+1 members are in this view, or further; 0: they are not */
    uint64_t halved_at;  /* slot */
    const char *broken;
    struct bft_core_counts count;
    struct bft_slot slot[BFT_SLOTS];
    struct bft_peer peer[BFT_MEMBERS_MAX];
    uint32_t body_bytes;
    unsigned char *scratch;
    uint64_t bytes; /* of memory */
};

int bft_core_open(struct bft_core *, const struct bft_core_options *, struct err *);
void bft_core_close(struct bft_core *);

/* The next broadcast of a member; form and signatures are checked. */
void bft_core_hear(struct bft_core *, uint32_t sender, uint64_t key, struct digest digest,
                   const void *body, uint32_t bytes);

/* One whose form or signatures are wrong. */
void bft_core_depart(struct bft_core *, uint32_t sender, const char *why);

/* Is it worth checking? Then its signature is checked and it is given to bft_core_frame. Its data is `bytes`. */
bool bft_core_wants(const struct bft_core *, uint32_t from, const struct bft_frame *,
                    uint32_t bytes);
void bft_core_frame(struct bft_core *, uint32_t from, const struct bft_frame *, uint32_t bytes);

/* A state was saved for the slot, with that digest. */
void bft_core_saved(struct bft_core *, uint64_t slot, struct digest state);

/* The state of a checkpoint that f+1 have signed is loaded. */
void bft_core_loaded(struct bft_core *, const struct bft_checkpoint *, const struct bft_mark *);

/* Who cannot hear on jumps behind the last STATE of that sender that is known here. */
void bft_core_catch_up(struct bft_core *, uint32_t sender);

/* Returns work done. */
int bft_core_step(struct bft_core *, uint64_t now_ns);
uint64_t bft_core_next_ns(const struct bft_core *);

/* ---- between its files ---- */

/* NULL: it is not spoken of. */
struct bft_slot *bft_slot_of(struct bft_core *, uint64_t slot);
/* One that was, as well. */
const struct bft_slot *bft_slot_find(const struct bft_core *, uint64_t slot);
const struct bft_value *bft_value_of(const struct bft_slot *, struct digest name);
bool bft_value_there(const struct bft_slot *, struct digest name);
void bft_value_put(struct bft_core *, struct bft_slot *, struct digest name, const void *,
                   uint32_t bytes);
bool bft_value_wanted(const struct bft_core *, const struct bft_slot *, struct digest name);

void bft_slots_propose(struct bft_core *, const struct bft_propose *, bool bound);
void bft_slots_commit(struct bft_core *, const struct bft_commit *);
void bft_slots_certify(struct bft_core *, const struct bft_frame *);
void bft_slots_claim(struct bft_core *, uint32_t from, const struct bft_frame *);
int bft_slots_step(struct bft_core *);
void bft_slots_beat(struct bft_core *);
/* That a member is back it does not decide on itself; once it is, it may help to say so again. */
/* One of the last slots of the window, which end what keeps it from moving. */
static inline bool bft_is_last(const struct bft_core *c, uint64_t slot)
{
    return slot - c->stable.slot >= BFT_SLOTS - BFT_SLOTS_KEPT;
}
bool bft_is_own_join(struct digest name, uint32_t rank, uint32_t life);
/* Decides and applies what is next; returns work done. */
int bft_decide_step(struct bft_core *);

void bft_view_heard_state(struct bft_core *, uint32_t sender, uint64_t key, struct digest,
                          const struct bft_state *, uint32_t bytes);
void bft_view_vouch(struct bft_core *, const struct bft_frame *);
void bft_view_jump(struct bft_core *, const struct bft_vouched *);
void bft_view_enter(struct bft_core *, uint64_t view);
void bft_view_progress(struct bft_core *);
int bft_view_step(struct bft_core *, uint64_t now_ns);
void bft_view_beat(struct bft_core *);
uint32_t bft_standing_marks(const struct bft_core *, const struct bft_standing *,
                            struct bft_mark *out);
uint32_t bft_vouched_pack(const struct bft_core *, uint32_t rank, void *out);

int bft_lead_step(struct bft_core *);

void bft_checkpoint_claim(struct bft_core *, const struct bft_frame *);
void bft_checkpoint_beat(struct bft_core *);
void bft_core_joined(struct bft_core *, uint32_t rank, uint32_t life);

/* Broadcasts a body that is in scratch. False: not now. `last`: may use the room that is left for STATEs. */
bool bft_say(struct bft_core *, uint32_t bytes, bool last);
static inline bool bft_may_speak(const struct bft_core *c)
{
    return c->votes && !c->state_due && c->said.view == c->view;
}

#endif
