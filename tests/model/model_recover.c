/* Recovery (log_recover.c, from rec_find_commit on), one load at a time. */
#include "model.h"

#include <string.h>

static bool run_is_stable(const struct replica *r, uint8_t q, uint8_t w)
{
    return r->head[q][w][RUN] != 0 && r->head[q][w][RUN] == r->run[q][w];
}

static void find_commit(struct expansion *x, struct replica *r)
{
    struct recovery *rec = &r->rec;
    rec->commit = r->applied;
    rec->commit_run = NONE;
    for (uint8_t q = 0; q < N; q++)
        for (uint8_t w = 0; rec->quorum >> q & 1 && w < N; w++) {
            const uint8_t *head = r->head[q][w];
            uint8_t claim = max_u8(head[COMMIT], head[START]);
            if (claim > rec->commit) {
                rec->commit = claim;
                rec->commit_run = NONE;
            }
            bool vouches = !rule(x, rule_claim_by_commit) || head[COMMIT] == claim;
            if (claim == rec->commit && run_is_stable(r, q, w) && vouches)
                rec->commit_run = min_u8(rec->commit_run, head[RUN]);
        }
}

void recover(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    struct recovery *rec = &r->rec;
    memset(rec, 0, sizeof(*rec));
    for (uint8_t q = 0; q < N; q++)
        if (r->phase[q] == PEER_READY)
            rec->quorum |= (uint8_t)(1u << q);
    find_commit(x, r);
    rec->step = REC_KEEP;
    say(x, "; %c recovers: decided up to %u, by a run of ballot %u%s", 'A' + p, rec->commit,
        rec->commit_run == NONE ? 0 : rec->commit_run, rec->commit_run == NONE ? " (unknown)" : "");
}

static void rec_read(struct recovery *rec, uint8_t q, uint8_t w, uint8_t from, uint8_t end)
{
    rec->q = q;
    rec->w = w;
    rec->from = rec->at = from;
    rec->end = end;
    rec->reading = true;
}

/* Rows lag; by how much is drawn for the whole step (see expand). */
uint8_t row(const struct expansion *x, const struct state *s, uint8_t q)
{
    uint8_t applied = s->replica[q].applied;
    return applied > x->lag ? (uint8_t)(applied - x->lag) : 0;
}

static void keep(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    struct recovery *rec = &r->rec;
    rec->chain_base = rec->chain_end = r->applied;
    rec->step = REC_DECIDED;
    const uint8_t *own = r->head[p][p];
    if (own[RUN] != 0 && own[START] <= r->applied && own[COMMIT] >= r->applied)
        return;
    if (r->follow == 0 || r->follow == p + 1)
        return;
    uint8_t best = r->applied, at = p, w = (uint8_t)(r->follow - 1);
    for (uint8_t i = 0; i < N; i++) {
        uint8_t q = (uint8_t)((p + i) % N);
        const uint8_t *head = r->head[q][w];
        if (!(rec->quorum >> q & 1) || head[RUN] != r->follow_ballot || !run_is_stable(r, q, w) ||
            head[GUARD] < r->applied)
            continue;
        uint8_t from = keep_from(x, s, p, head[START]);
        if (from < best) {
            best = from;
            at = q;
        }
    }
    rec->step = REC_KEEP;
    if (best < r->applied)
        rec_read(rec, at, w, best, r->applied);
    else
        rec->step = REC_DECIDED;
}

static uint8_t decided_lane(struct expansion *x, const struct replica *r, uint8_t pos,
                            uint8_t *q_out, uint8_t *w_out)
{
    const struct recovery *rec = &r->rec;
    uint8_t best = pos;
    for (uint8_t q = 0; q < N; q++)
        for (uint8_t w = 0; rec->quorum >> q & 1 && w < N; w++) {
            const uint8_t *head = r->head[q][w];
            if (!run_is_stable(r, q, w) || head[START] > pos)
                continue;
            bool agrees = head[RUN] >= rec->commit_run || rule(x, rule_old_runs_sure);
            uint8_t sure = agrees ? head[GUARD] : min_u8(head[COMMIT], head[GUARD]);
            sure = min_u8(sure, rec->commit);
            if (sure > best) {
                best = sure;
                *q_out = q;
                *w_out = w;
            }
        }
    return best;
}

static bool covers(const struct replica *r, uint8_t q, uint8_t pos)
{
    for (uint8_t w = 0; w < N; w++) {
        const uint8_t *head = r->head[q][w];
        bool blank = head[RUN] == 0 && head[START] == 0 && head[GUARD] == 0;
        if (!blank && (!run_is_stable(r, q, w) || head[START] > pos))
            return false;
    }
    return true;
}

static bool from_scratch(struct replica *r, uint8_t p, uint8_t pos)
{
    struct recovery *rec = &r->rec;
    uint8_t mask = 0, count = 0;
    for (uint8_t q = 0; q < N; q++)
        if (rec->quorum >> q & 1 && covers(r, q, pos)) {
            mask |= (uint8_t)(1u << q);
            count++;
        }
    if (count < QUORUM || !(mask >> p & 1))
        return false;
    rec->quorum = mask;
    rec->least = rec->commit;
    rec->commit = pos;
    rec->commit_run = NONE;
    return true;
}

/* What is decided is nowhere as entries: wait for another replica, or for a snapshot. */
static bool stuck(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    bool ahead = false;
    uint8_t unread = 0;
    for (uint8_t q = 0; q < N; q++) {
        ahead |= s->replica[q].applied > r->applied;
        unread += r->phase[q] == PEER_UNREAD;
    }
    if (ahead || unread == 0) {
        say(x, "; %c finds no lane that has it and needs a snapshot", 'A' + p);
        step_down(s, p);
        r->role = BEHIND;
    } else {
        say(x, "; %c finds no lane that has it and waits for another replica", 'A' + p);
        memset(&r->rec, 0, sizeof(r->rec));
        r->needed = N;
    }
    return false;
}

static bool decided(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    struct recovery *rec = &r->rec;
    uint8_t q = 0, w = 0, pos = rec->chain_end;
    if (pos >= rec->commit) {
        rec->step = REC_SUFFIX;
        return true;
    }
    uint8_t end = decided_lane(x, r, pos, &q, &w);
    if (end > pos) {
        rec_read(rec, q, w, pos, end);
        return true;
    }
    return from_scratch(r, p, pos) || stuck(x, s, p);
}

static bool suffix(const struct replica *r, struct recovery *rec)
{
    for (; rec->lane < N * N; rec->lane++) {
        uint8_t q = rec->lane / N, w = rec->lane % N;
        const uint8_t *head = r->head[q][w];
        if (!(rec->quorum >> q & 1) || head[RUN] == 0 || head[GUARD] <= rec->commit ||
            head[START] > rec->commit)
            continue;
        uint8_t from = rec->commit;
        if (head[RUN] < rec->commit_run && head[COMMIT] < rec->commit)
            from = max_u8(head[START], head[COMMIT]);
        rec_read(rec, q, w, from, head[GUARD]);
        return true;
    }
    return false;
}

/* What candidates must find: all that was decided before them. */
static void check_recovered(struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    const struct recovery *rec = &r->rec;
    say(x, "; %c has recovered [", 'A' + p);
    for (uint8_t pos = rec->chain_base; pos < rec->chain_end; pos++)
        say(x, "%s%c", pos > rec->chain_base ? " " : "", ".Sxyz"[rec->chain[pos].value]);
    say(x, "] from %u on", rec->chain_base);
    for (uint8_t pos = rec->chain_base; pos < x->m->length; pos++) {
        struct entry d = s->decided[pos];
        if (d.value == NOTHING || d.ballot >= r->ballot)
            continue;
        if (pos >= rec->chain_end)
            wrong(x, "a candidate has recovered less than was decided");
        else if (rec->chain[pos].value != d.value)
            wrong(x, "a candidate has recovered something else than was decided");
    }
}

static bool finish(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    if (r->rec.chain_end < r->rec.least) {
        step_down(s, p);
        return false;
    }
    check_recovered(x, s, p);
    if (x->wrong == 0)
        lead_begin(x, s, p);
    return false;
}

static bool walk(const struct entry *entries, uint8_t from, uint8_t end)
{
    for (; from < end; from++)
        if (entries[from].value == NOTHING)
            return false;
    return true;
}

static void merge(struct expansion *x, struct recovery *rec)
{
    for (uint8_t pos = rec->commit; pos < rec->end; pos++) {
        bool higher = rule(x, rule_lowest_ballot) ? rec->side[pos].ballot < rec->chain[pos].ballot
                                                  : rec->side[pos].ballot > rec->chain[pos].ballot;
        if (pos >= rec->chain_end || higher)
            rec->chain[pos] = rec->side[pos];
        rec->chain_end = max_u8(rec->chain_end, (uint8_t)(pos + 1));
    }
}

/* Takes what was read into the chain; false: it cannot be used. */
static bool take(struct expansion *x, struct recovery *rec, bool good)
{
    good |= rule(x, rule_entries_unchecked);
    bool walks = walk(rec->side, rec->from, rec->end);
    if (rec->step == REC_SUFFIX) {
        rec->lane++;
        if (good && walks)
            merge(x, rec);
        return good;
    }
    bool keeping = rec->step == REC_KEEP;
    rec->step = REC_DECIDED;
    if (!good || !walks)
        return keeping;
    memcpy(&rec->chain[rec->from], &rec->side[rec->from],
           (size_t)(rec->end - rec->from) * sizeof(rec->side[0]));
    if (keeping)
        rec->chain_base = rec->from;
    else
        rec->chain_end = rec->end;
    return true;
}

static bool entries_load(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    struct recovery *rec = &r->rec;
    const struct lane *l = &s->lane[rec->q][rec->w];
    const uint8_t *head = r->head[rec->q][rec->w];
    if (rec->at < rec->end) {
        rec->side[rec->at] = l->ring[rec->at];
        rec->at++;
        return true;
    }
    bool good = l->word[RUN] == head[RUN] && l->word[START] == head[START] &&
                run_is_stable(r, rec->q, rec->w);
    say(x, "; takes %u..%u of %c's lane at %c%s", rec->from, rec->end, 'A' + rec->w, 'A' + rec->q,
        good ? "" : ", which has changed");
    rec->reading = rec->at = 0;
    bool taken = take(x, rec, good);
    memset(rec->side, 0, sizeof(rec->side));
    if (!taken)
        step_down(s, p);
    return taken;
}

/* One load, or what needs none between two loads; false: recovery has come to its end. */
bool recover_load(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    if (r->rec.reading)
        return entries_load(x, s, p);
    switch ((enum step)r->rec.step) {
    case REC_KEEP:
        keep(x, s, p);
        return true;
    case REC_DECIDED:
        return decided(x, s, p);
    case REC_SUFFIX:
        return suffix(r, &r->rec) || finish(x, s, p);
    case REC_IDLE:
        break;
    }
    return false;
}
