/* What the files of a group's member share (include/tram/group.h). */
#ifndef API_GROUP_IMPL_H
#define API_GROUP_IMPL_H

#include "api/disk.h"
#include "api/group_kept.h"
#include "api/group_page.h"
#include "api/group_place.h"
#include "api/history.h"
#include "api/loop.h"
#include "api/machine.h"
#include "group/member.h"
#include "tram/group.h"

/* A view as users see it. */
struct plain_view {
    struct tram_view view;
    struct tram_view_cell *cell;
    uint64_t life[GROUP_HOSTS_MAX];
};

/* A cell at this host. */
struct group_cell {
    struct api_machine machine; /* first: the ctx of the calls that save and load */
    struct tram_group *of;
    struct history *history; /* NULL: none is kept */
    uint64_t delivered, bytes;
    bool learns; /* what is delivered belongs to the state that comes, for the trace */
    uint64_t state_count, state_hash; /* what a program says of its state, for `tram view` */
};

struct group_predicate {
    struct tram_predicate is;
    bool on, was;
};

enum { GROUP_TOPICS_MAX = 256, GROUP_SENDERS_MAX = 64 };

/* Handles of other threads, as one more unit of the host. */
struct group_senders {
    struct tram_group *of; /* NULL: it is none yet */
    struct tram_sender *sender[GROUP_SENDERS_MAX];
    uint32_t count;
    uint64_t now_ns; /* of the last round */
};

struct tram_group {
    const struct tram_cluster *cluster;
    uint32_t index; /* of the host */
    struct tram_group_machine machine;
    void *ctx;
    void (*layout)(void *ctx, const struct tram_view *, struct tram_layout *);
    void *layout_ctx;
    uint32_t leave_ms;
    struct tram_log log;
    struct say say;

    /* In a simulated world the loop has the memory alone. */
    bool simulated;
    void (*wake)(void *ctx);
    void *wake_ctx;

    struct api_loop run;
    struct trace_writer *trace; /* NULL: none */
    struct api_disk disk;       /* what keepers decide, and lives; of a group that keeps anything */
    struct group_kept kept;     /* what is on the disk */
    bool left_said;             /* why it leaves */
    struct member *member;
    bool added; /* it is a unit of the loop */
    uint32_t cells;
    struct cell_options *options; /* by cell */
    uint32_t keeper[GROUP_KEEPERS_MAX];
    struct group_cell *cell;

    const char *host_name[GROUP_HOSTS_MAX];
    struct plain_view seen[2]; /* the present view, and the one before */
    uint32_t at;               /* which is the present, or was the last */
    bool in_view;              /* it is in it */
    bool inside;               /* of a round */
    bool leaving;
    struct plain_view proposed; /* for the layout callback: the view before */
    struct tram_layout_cell *layout_cell;
    uint64_t since_vid[GROUP_HOSTS_MAX], since_ms[GROUP_HOSTS_MAX]; /* of the lives in the view */
    uint64_t since_life[GROUP_HOSTS_MAX];
    uint64_t view_ms;
    uint64_t put_out;  /* what was said of it */
    uint64_t waits_ns; /* since when it waits for something; 0: it does not */
    bool waits_said;
    uint32_t generation_said;    /* of keepers */
    char waits[GROUP_PAGE_TEXT]; /* what it waits for, with names */

    struct group_predicate predicate[TRAM_WHEN_MAX];
    uint32_t predicates; /* none is on from here */

    struct tram_topic *topic[GROUP_TOPICS_MAX]; /* open ones; NULL: a free place */
    uint32_t topics;                            /* none is open from here */
    bool histories;                             /* some cell has one */

    struct group_senders senders;

    struct group_page *page;
    struct group_page_record *record;
    uint64_t page_ns, reset_ns;
    bool page_old;
    int reset_cell; /* that somebody wants reset; CLUSTER_NONE */
};

/* There is something to be sent: who is simulated is not polled all the time. */
static inline void group_touched(const struct tram_group *g)
{
    if (g->simulated)
        g->wake(g->wake_ctx);
}

/* ---- group_trace.c: what is sent and delivered, for `tram check`; only if there is g->trace ---- */

int group_trace_open(struct tram_group *, const char *dir, struct err *);
void group_trace_close(struct tram_group *);
void group_trace_view(struct tram_group *, const struct view *now);
void group_trace_deliver(struct tram_group *, uint32_t cell, const struct member_item *,
                         uint32_t count);
/* Commits a message, which is in the trace before. */
void group_trace_commit(struct tram_group *, uint32_t cell, void *room, uint32_t bytes);
/* The state of the cell was loaded. */
void group_trace_loaded(struct tram_group *, uint32_t cell);

/* Why a message was not sent. */
int group_not_sent(const struct tram_group *, uint32_t cell, int rc, uint32_t bytes, struct err *);

/* ---- group_ask.c: as in struct member_machine, with the group for ctx ---- */

uint32_t group_on_call(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *,
                       void *reply, uint32_t room);
int group_on_query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                   void *reply, uint32_t room);
void group_on_answered(void *ctx, uint64_t ticket, const struct member_answer *);

/* ---- group_state.c: what who comes is given of a cell, by group_state_ctx: its history, and behind it the machine's state ---- */

extern const struct state_ops group_state_calls;
void *group_state_ctx(void *group, uint32_t cell);
/* Who is out of a cell has no history of it any more. */
void group_histories_view(struct tram_group *, const struct view *now);

/* ---- topic.c ---- */

/* The cell is new, and so is its history. */
void group_topics_born(struct tram_group *, uint32_t cell);
/* Those who have not been told all of their topic's history are told some more; returns how many were. */
int group_topics_replay(struct tram_group *);
/* What the cell delivers goes into its history, and to those who have subscribed. */
void group_topics_deliver(struct tram_group *, uint32_t cell, uint64_t vid,
                          const struct tram_item *, uint32_t count);
void group_topics_close(struct tram_group *);
/* As in struct member_machine, from histories. */
bool group_past(void *ctx, uint32_t cell, struct member_past *, uint64_t *vid,
                struct member_item *);
uint64_t group_past_from(void *ctx, uint32_t cell, uint64_t version);

/* ---- sender.c ---- */

void group_senders_close(struct tram_group *);

/* ---- group_view.c ---- */

/* Memory for views; false: there is none. */
bool group_views_open(struct tram_group *);
void group_views_close(struct tram_group *);

void group_plain_view(const struct tram_group *, const struct view *, struct plain_view *out);

/* The view has changed: notes it, says it, and gives the two for the user's callback. */
void group_view_changed(struct tram_group *, const struct view *before, const struct view *now);

/* NULL, or what the keepers wait for, with the names of cells and hosts. Good until the next call. */
const char *group_waits(struct tram_group *);

/* Now and then: says what is waited for. */
void group_watch(struct tram_group *, uint64_t now_ns);

/* Fills the page. */
void group_show(struct tram_group *, uint64_t now_ns);

#endif
