/* Readers: a candidate or leader that raises and reads a replica (log_raise.c, peer_step), and a
 * replica that applies (log.c, apply_decided). */
#include "model.h"

#include <string.h>

/* Loads of reading a replica, by number. */
enum {
    LOAD_RAISE = 1,
    LOAD_RUNS = 2,
    LOAD_HEADS = LOAD_RUNS + N,
    LOAD_RUNS_AGAIN = LOAD_HEADS + N * WORDS,
    LOAD_VERIFY = LOAD_RUNS_AGAIN + N,
};

/* Loads of applying. */
enum { APPLY_PROMISED = 1, APPLY_RUN, APPLY_COMMIT, APPLY_START, APPLY_ENTRY };

bool reader_reads(const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    return r->load != 0 || r->applying != 0 || r->rec.step != REC_IDLE;
}

void step_down(struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    struct replica kept = {.role = FOLLOWS,
                           .applied = r->applied,
                           .follow = r->follow,
                           .follow_ballot = r->follow_ballot};
    *r = kept;
}

void read_replica(struct state *s, uint8_t p, uint8_t q)
{
    s->replica[p].load = LOAD_RAISE;
    s->replica[p].target = q;
}

void read_decided(struct state *s, uint8_t p)
{
    s->replica[p].applying = APPLY_PROMISED;
}

/* Which word of which lane a load of a head is. */
static unsigned head_word(const struct expansion *x, unsigned i)
{
    return x->m->heads_down ? WORDS - 1 - i % WORDS : i % WORDS;
}

static bool raise_or_deny(struct expansion *x, struct state *s, uint8_t p, uint8_t q)
{
    struct replica *r = &s->replica[p];
    if (rule(x, rule_own_not_raised) && q == p)
        return true;
    if (s->promised[q] > r->ballot) {
        say(x, "; %c asks %c for its promise, %c has promised ballot %u: %c gives up", 'A' + p,
            'A' + q, 'A' + q, s->promised[q], 'A' + p);
        step_down(s, p);
        return false;
    }
    s->promised[q] = r->ballot;
    say(x, "; %c has the promise of %c", 'A' + p, 'A' + q);
    return true;
}

static void say_heads(struct expansion *x, const struct replica *r, uint8_t q)
{
    for (uint8_t w = 0; w < N; w++) {
        const uint8_t *h = r->head[q][w];
        if (h[RUN] || h[START] || h[GUARD] || h[COMMIT])
            say(x, ", %c's lane there has run %u%s start %u guard %u commit %u", 'A' + w, h[RUN],
                h[RUN] == r->run[q][w] ? "" : " (not stable)", h[START], h[GUARD], h[COMMIT]);
    }
}

static bool replica_load(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    uint8_t q = r->target, load = r->load++;
    if (rule(x, rule_read_before_raise))
        load = load == LOAD_VERIFY - 1 ? LOAD_RAISE : (uint8_t)(load + 1);
    if (load == LOAD_RAISE) {
        if (!raise_or_deny(x, s, p, q))
            return false;
        if (!rule(x, rule_read_before_raise))
            return true;
        load = LOAD_VERIFY;
    }
    if (load < LOAD_HEADS) {
        r->run[q][load - LOAD_RUNS] = s->lane[q][load - LOAD_RUNS].word[RUN];
    } else if (load < LOAD_RUNS_AGAIN) {
        unsigned i = load - LOAD_HEADS, word = head_word(x, i);
        r->head[q][i / WORDS][word] = s->lane[q][i / WORDS].word[word];
    } else if (load < LOAD_VERIFY) {
        uint8_t w = (uint8_t)(load - LOAD_RUNS_AGAIN);
        if (rule(x, rule_reread_run) && s->lane[q][w].word[RUN] != r->run[q][w])
            r->run[q][w] = NONE;
    } else {
        r->load = r->target = 0;
        r->phase[q] = s->promised[q] == r->ballot || (rule(x, rule_own_not_raised) && q == p)
                          ? PEER_READY
                          : PEER_UNREAD;
        say(x, "; %c has read %c", 'A' + p, 'A' + q);
        say_heads(x, r, q);
        return false;
    }
    return true;
}

static bool apply_end(struct replica *r)
{
    r->applying = r->apply_w = r->apply_ballot = r->apply_end = 0;
    return false;
}

static bool apply_entry(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    uint8_t pos = r->applied;
    if (pos >= r->apply_end)
        return apply_end(r);
    uint8_t value = pos < x->m->length ? s->lane[p][r->apply_w].ring[pos].value : NOTHING;
    say(x, " %c at %u", ".Sxyz"[value], pos);
    if (value == NOTHING)
        wrong(x, "a replica finds no entry where it was told that one is decided");
    else if (s->decided[pos].value == NOTHING)
        wrong(x, "a replica applies what was never decided");
    else if (s->decided[pos].value != value)
        wrong(x, "a replica applies something else than was decided");
    r->applied++;
    r->follow = (uint8_t)(r->apply_w + 1);
    r->follow_ballot = r->apply_ballot;
    return r->applied < r->apply_end || apply_end(r);
}

static bool apply_load(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    const struct lane *l = &s->lane[p][r->apply_w];
    switch (r->applying++) {
    case APPLY_PROMISED:
        r->apply_ballot = s->promised[p];
        r->apply_w = s->owner[s->promised[p]];
        return true;
    case APPLY_RUN:
        return l->word[RUN] == r->apply_ballot || apply_end(r);
    case APPLY_COMMIT:
        r->apply_end = rule(x, rule_apply_to_guard) ? l->word[GUARD] : l->word[COMMIT];
        return r->apply_end > r->applied || apply_end(r);
    case APPLY_START:
        say(x, "; %c applies from %c's lane:", 'A' + p, 'A' + r->apply_w);
        if (l->word[START] <= r->applied)
            return true;
        say(x, " no, it starts at %u", l->word[START]);
        r->role = BEHIND;
        return apply_end(r);
    default:
        r->applying = APPLY_ENTRY;
        return apply_entry(x, s, p);
    }
}

/* May w still write to its lane at q, before or while p reads there? */
static bool may_change(const struct expansion *x, const struct state *s, uint8_t p, uint8_t q,
                       uint8_t w)
{
    const struct replica *r = &s->replica[w];
    if (s->queue[q][w].count > 0)
        return true;
    if (w == p || r->role == BEHIND)
        return false;
    return s->ballots < x->m->ballots || r->role == CANDIDATE ||
           (r->role == LEADS && s->promised[w] == r->ballot);
}

bool reader_may_differ(const struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    if (r->applying != 0)
        return r->applying > APPLY_PROMISED && may_change(x, s, p, p, r->apply_w);
    if (r->load == 0)
        return r->rec.reading && may_change(x, s, p, r->rec.q, r->rec.w);
    if (r->load == LOAD_VERIFY - 1 && rule(x, rule_read_before_raise))
        return true;
    if (r->load < LOAD_RUNS || r->load >= LOAD_VERIFY)
        return false;
    uint8_t w = (uint8_t)(r->load < LOAD_HEADS        ? r->load - LOAD_RUNS
                          : r->load < LOAD_RUNS_AGAIN ? (r->load - LOAD_HEADS) / WORDS
                                                      : r->load - LOAD_RUNS_AGAIN);
    return may_change(x, s, p, r->target, w);
}

bool reader_load(struct expansion *x, struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    if (r->applying != 0)
        return apply_load(x, s, p);
    if (r->load != 0)
        return replica_load(x, s, p);
    return recover_load(x, s, p);
}
