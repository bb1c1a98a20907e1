/* What can happen next in a state. */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void say(struct expansion *x, const char *format, ...)
{
    if (x->text == NULL)
        return;
    size_t have = strlen(x->text);
    if (have == 0 && format[0] == ';')
        format += 2;
    va_list args;
    va_start(args, format);
    vsnprintf(x->text + have, x->text_bytes - have, format, args);
    va_end(args);
}

void wrong(struct expansion *x, const char *why)
{
    if (x->wrong == NULL)
        x->wrong = why;
}

/* A leader without the promise of its own memory, or of a quorum, will decide nothing any more: what it
 * has issued may land, and that is all. */
static void forget_deposed(struct state *s)
{
    for (uint8_t p = 0; p < N; p++) {
        const struct replica *r = &s->replica[p];
        unsigned held = 0;
        for (uint8_t q = 0; q < N; q++)
            held += s->promised[q] == r->ballot;
        if (r->role == LEADS && !reader_reads(s, p) &&
            (held < QUORUM || s->promised[p] != r->ballot))
            step_down(s, p);
    }
}

/* A copy of the state for the next step from it. */
static struct state begin(struct expansion *x, const struct state *s)
{
    if (x->text)
        x->text[0] = 0;
    return *s;
}

static void emit(struct expansion *x, struct state *s)
{
    struct state t = *s;
    forget_deposed(&t);
    x->emit(x, &t);
    x->wrong = NULL;
}

/* The words of a step up to some point, to go on from there in another way. */
static size_t text_mark(const struct expansion *x)
{
    return x->text ? strlen(x->text) : 0;
}

static void text_reset(struct expansion *x, size_t mark)
{
    if (x->text)
        x->text[mark] = 0;
}

/* ---- landing ---- */

/* A store that cannot count any more lands when somebody looks: in a step of whoever reads there next.
 * Tries everything that the queues to `owners` may have landed by then, and calls `then` for each. */
struct looking {
    uint8_t p;
    unsigned owners;
    uint8_t suspends; /* what a landing costs */
    void (*then)(struct expansion *, struct state *, uint8_t p);
};

static bool is_stale(const struct state *s, uint8_t q, uint8_t w)
{
    const struct replica *r = &s->replica[w];
    return s->queue[q][w].count > 0 && !(r->role == LEADS && s->promised[q] == r->ballot);
}

static void look(struct expansion *, const struct state *, const struct looking *, uint8_t lane);

/* The queue stops after some of its words. */
static void look_stopped(struct expansion *x, const struct state *s, const struct looking *l,
                         uint8_t lane)
{
    size_t before = text_mark(x);
    for (unsigned which = 0; which < WORDS; which++) {
        struct state t = *s;
        text_reset(x, before);
        if (!land(x, &t, lane / N, lane % N, which))
            break;
        if (t.queue[lane / N][lane % N].count == 0)
            continue;
        look_stopped(x, &t, l, lane);
        say(x, "; %c is stopped", 'A' + lane % N);
        look(x, &t, l, (uint8_t)(lane + 1));
    }
    text_reset(x, before);
}

static void look(struct expansion *x, const struct state *s, const struct looking *l, uint8_t lane)
{
    while (lane < N * N && !(l->owners >> lane / N & 1 && is_stale(s, lane / N, lane % N)))
        lane++;
    struct state t = *s;
    if (lane == N * N) {
        l->then(x, &t, l->p);
        return;
    }
    uint8_t q = lane / N, w = lane % N;
    size_t before = text_mark(x);
    look(x, s, l, (uint8_t)(lane + 1));
    text_reset(x, before);
    if (l->suspends && s->suspensions >= x->m->suspensions)
        return;
    struct looking rest = *l;
    t.suspensions = (uint8_t)(t.suspensions + l->suspends);
    rest.suspends = 0;
    struct state all = t;
    land_all(x, &all, q, w);
    say(x, "; what %c had under way to %c lands", 'A' + w, 'A' + q);
    look(x, &all, &rest, (uint8_t)(lane + 1));
    text_reset(x, before);
    if (t.stops < x->m->stops) {
        t.stops++;
        look_stopped(x, &t, &rest, lane);
    }
}

/* A leader applies in the round in which it tells itself the commit. */
static void apply_own(struct expansion *x, struct state *t, uint8_t p)
{
    if (t->lane[p][p].word[RUN] != t->promised[p] ||
        t->lane[p][p].word[COMMIT] <= t->replica[p].applied)
        return;
    read_decided(t, p);
    while (x->wrong == NULL && reader_load(x, t, p))
        ;
}

/* The writer is promised there: it writes up to its next mark, and learns that this stands. */
static void deliver_steps(struct expansion *x, const struct state *s)
{
    for (uint8_t i = 0; i < N * N; i++) {
        uint8_t q = i / N, w = i % N;
        const struct replica *r = &s->replica[w];
        if (s->queue[q][w].count == 0 || r->role != LEADS || s->promised[q] != r->ballot)
            continue;
        struct state t = begin(x, s);
        for (bool marked = false; !marked && t.queue[q][w].count > 0;) {
            marked = mark_would_count(x, &t, q, w);
            land(x, &t, q, w, 0);
        }
        if (q == w && !reader_reads(&t, w))
            apply_own(x, &t, w);
        emit(x, &t);
    }
}

/* ---- reading ---- */

/* A reader goes on to its end, or stops before a load whose word may change. */
static void run_reader(struct expansion *x, struct state *t, uint8_t p)
{
    for (bool more = true, first = true; more && x->wrong == NULL; first = false) {
        if (!first && t->suspensions < x->m->suspensions && reader_may_differ(x, t, p)) {
            size_t before = text_mark(x);
            say(x, "; %c is interrupted while it reads", 'A' + p);
            t->suspensions++;
            emit(x, t);
            t->suspensions--;
            text_reset(x, before);
        }
        more = reader_load(x, t, p);
    }
    emit(x, t);
}

static unsigned owners_read(const struct replica *r, uint8_t p)
{
    if (r->applying)
        return 1u << p;
    return r->load ? 1u << r->target : r->rec.quorum;
}

static void apply_step(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    if (r->role == BEHIND)
        return;
    const struct lane *l = &s->lane[p][s->owner[s->promised[p]]];
    bool there = l->word[rule(x, rule_apply_to_guard) ? GUARD : COMMIT] > r->applied;
    bool may_come =
        s->suspensions < x->m->suspensions && s->queue[p][s->owner[s->promised[p]]].count > 0;
    if (!there && !may_come)
        return;
    if (l->word[RUN] != s->promised[p])
        return;
    struct state t = begin(x, s);
    read_decided(&t, p);
    run_reader(x, &t, p);
}

/* Whoever tries again has done what it was about to do, but for what was lost on its way to `cut`. */
static void candidate_begin(struct expansion *x, const struct state *s, uint8_t p, unsigned cut)
{
    struct state t = begin(x, s);
    for (uint8_t q = 0; q < N; q++) {
        if (!(cut >> q & 1)) {
            if (q == p || !x->m->late)
                land_all(x, &t, q, p);
            continue;
        }
        if (q == p || t.queue[q][p].count == 0 || t.cuts == x->m->cuts)
            return;
        t.cuts++;
        cut_all(&t, q, p);
        say(x, "; what %c had under way to %c is lost", 'A' + p, 'A' + q);
    }
    step_down(&t, p);
    t.replica[p].role = CANDIDATE;
    t.replica[p].ballot = ++t.ballots;
    t.owner[t.ballots] = p;
    say(x, "; %c %stries for ballot %u", 'A' + p,
        s->replica[p].role == LEADS ? "wakes, does what it was about to do, and " : "", t.ballots);
    emit(x, &t);
}

static void candidate_step(struct expansion *x, const struct state *s, uint8_t p)
{
    if (s->replica[p].role == BEHIND || s->ballots == x->m->ballots || !room_for(s, p))
        return;
    uint8_t next = x->m->order[s->ballots + 1];
    if (next != 0 && next != 'A' + p)
        return;
    for (unsigned cut = 0; cut < 1u << N; cut++)
        candidate_begin(x, s, p, cut);
}

static void read_steps(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    if (r->role != CANDIDATE && (r->role != LEADS || s->promised[p] != r->ballot))
        return;
    bool third = (r->phase[0] != PEER_UNREAD) + (r->phase[1] != PEER_UNREAD) +
                     (r->phase[2] != PEER_UNREAD) ==
                 QUORUM;
    for (uint8_t q = 0; q < N; q++) {
        if (r->phase[q] != PEER_UNREAD || (third && s->thirds == x->m->thirds))
            continue;
        struct state t = begin(x, s);
        t.thirds = (uint8_t)(t.thirds + third);
        read_replica(&t, p, q);
        if (!rule(x, rule_read_before_raise) && !reader_load(x, &t, p)) {
            emit(x, &t); /* denied */
            continue;
        }
        struct looking l = {.p = p, .owners = 1u << q, .then = run_reader};
        look(x, &t, &l, 0);
    }
}

static void run_recovery(struct expansion *x, struct state *t, uint8_t p)
{
    recover(x, t, p);
    run_reader(x, t, p);
}

static void recover_step(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    unsigned ready = 0, mask = 0;
    for (uint8_t q = 0; q < N; q++)
        if (r->phase[q] == PEER_READY) {
            ready++;
            mask |= 1u << q;
        }
    if (r->role != CANDIDATE || ready < max_u8(QUORUM, r->needed) || !(mask >> p & 1) ||
        !room_for(s, p))
        return;
    struct looking l = {.p = p, .owners = mask, .suspends = 1, .then = run_recovery};
    for (x->lag = 0; x->lag <= x->m->row_lag; x->lag++) {
        struct state t = begin(x, s);
        look(x, &t, &l, 0);
    }
    x->lag = 0;
}

static void sync_steps(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    for (uint8_t q = 0; q < N; q++) {
        if (q == p || r->phase[q] != PEER_READY || s->replica[q].role == BEHIND)
            continue;
        uint8_t applied = s->replica[q].applied;
        for (x->lag = 0; x->lag <= min_u8(x->m->row_lag, applied); x->lag++) {
            struct state t = begin(x, s);
            if (lead_sync_peer(x, &t, p, q, row(x, s, q)))
                emit(x, &t);
        }
        x->lag = 0;
    }
}

/* Tells a replica of the commit, without an entry to take it along. */
static void tell_steps(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    for (uint8_t q = 0; q < N; q++) {
        uint8_t told = rule(x, rule_commit_beyond) ? r->commit : min_u8(r->commit, r->done[q]);
        if (s->tells == x->m->tells || q == p || r->phase[q] != PEER_LIVE || told <= r->sent[q] ||
            s->queue[q][p].count > 0 || s->promised[q] != r->ballot)
            continue;
        struct state t = begin(x, s);
        t.tells++;
        t.replica[p].sent[q] = told;
        t.lane[q][p].word[COMMIT] = told;
        say(x, "%c tells %c that %u is the commit", 'A' + p, 'A' + q, told);
        emit(x, &t);
    }
}

static bool in_log(const struct replica *r, uint8_t value)
{
    for (uint8_t pos = r->base; pos < r->tail; pos++)
        if (r->value[pos] == value)
            return true;
    return false;
}

static void propose_steps(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    if (r->commit < r->start_end || r->applied < r->start_end || r->tail == x->m->length ||
        s->proposals == x->m->proposals)
        return;
    for (uint8_t i = 0; i < x->m->messages && i <= s->messages; i++) {
        uint8_t value = (uint8_t)(FIRST_MESSAGE + i);
        if (in_log(r, value))
            continue;
        struct state t = begin(x, s);
        t.proposals++;
        t.messages = max_u8(t.messages, (uint8_t)(i + 1));
        lead_propose(x, &t, p, value);
        emit(x, &t);
    }
}

static void replica_steps(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    if (reader_reads(s, p)) {
        struct looking l = {.p = p, .owners = owners_read(r, p), .then = run_reader};
        struct state t = begin(x, s);
        look(x, &t, &l, 0);
        return;
    }
    apply_step(x, s, p);
    candidate_step(x, s, p);
    read_steps(x, s, p);
    recover_step(x, s, p);
    if (r->role != LEADS || s->promised[p] != r->ballot || !room_for(s, p))
        return;
    sync_steps(x, s, p);
    tell_steps(x, s, p);
    propose_steps(x, s, p);
}

void expand(struct expansion *x, const struct state *s)
{
    x->wrong = NULL;
    for (uint8_t p = 0; p < N; p++)
        replica_steps(x, s, p);
    deliver_steps(x, s);
}
