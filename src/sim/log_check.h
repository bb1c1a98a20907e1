/* What must hold for a replicated log, one function a property. The first violation is kept.
 *
 * The checker holds the one true history, as the first replica to apply each entry wrote it, and
 * compares everybody else with it. */
#ifndef SIM_LOG_CHECK_H
#define SIM_LOG_CHECK_H

#include "agree/entry.h"
#include "sim/counter_machine.h"
#include "sim/run.h"

enum { CHECK_SOURCES_MAX = 8, CHECK_REPLICAS_MAX = 9, CHECK_PAYLOAD_MAX = 4096 };

struct log_check {
    struct run_result *result;
    uint64_t seed;

    uint64_t *decided; /* by position / 8: hash of the entry there; 0: nobody has applied it */
    uint64_t decided_max;
    uint64_t *history; /* state hash after each message */
    uint64_t history_count, history_max;
    uint64_t source_end[CHECK_SOURCES_MAX];  /* stream position behind the last decided message */
    uint64_t source_sent[CHECK_SOURCES_MAX]; /* behind the last one sent */
    bool lies[CHECK_SOURCES_MAX];            /* it may have sent anything, and nothing in order */
    uint64_t counted[CHECK_REPLICAS_MAX];    /* highest ballot whose write was counted there */
};

void check_init(struct log_check *, struct run_result *, uint64_t seed);
void check_fini(struct log_check *);

/* The payload that a source sends at a position: known to sender and checker alike, and full of
 * words that look like positions. */
void check_fill(uint64_t seed, uint32_t source, uint64_t pos, unsigned char *out, uint32_t bytes);

/* Another payload for it: a row of entries that never were, of a high ballot, each with the position in the log at which
 * it will stand if the entry of this message is at `guess`. Whoever reads from the middle of an entry is deceived. */
void check_forge(uint32_t source, uint64_t guess, unsigned char *out, uint32_t bytes);

/* Agreement: one entry per position. */
void check_entry(struct log_check *, uint32_t rank, const struct entry *);

/* Makes of a state what it is after a message, whoever applies it. */
void check_apply(struct counter_machine_state *, const struct entry *);

/* Integrity, no duplicate, no gap; state equality: replica applies a message to its state. */
void check_message(struct log_check *, uint32_t rank, struct counter_machine_state *,
                   const struct entry *);

/* A state that came by snapshot is one of the history. */
void check_loaded(struct log_check *, uint32_t rank, const struct counter_machine_state *);

/* A source was told that its stream is taken up to pos. */
void check_ack(struct log_check *, uint32_t source, uint64_t pos);

/* Fencing: a write that counts at a replica never has a lower ballot than one that counted before. */
void check_landing(struct log_check *, uint32_t rank, uint64_t ballot);

/* Everything below the commit of the lane that a replica follows equals what is decided. */
void check_lane(struct log_check *, uint32_t rank, const unsigned char *ring, uint64_t ring_bytes,
                uint64_t from, uint64_t commit, uint64_t guard);

/* Reports a violation; the first one stays. */
void check_violated(struct log_check *, const char *property, uint64_t pos, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
