/* Leading (log_lead.c): continue or renew, write, count, tell. All of it is private until stores land. */
#include "model.h"

#include <string.h>

uint8_t keep_from(const struct expansion *x, const struct state *s, uint8_t p, uint8_t start)
{
    uint8_t from = s->replica[p].applied;
    for (uint8_t q = 0; q < N; q++) {
        uint8_t applied = row(x, s, q);
        if (q != p && s->replica[q].role != BEHIND && applied >= start && applied < from)
            from = applied;
    }
    return from;
}

static void run_renew(struct expansion *x, struct state *s, uint8_t p, uint8_t q, uint8_t start)
{
    struct replica *r = &s->replica[p];
    say(x, "; renews its run at %c from %u on", 'A' + q, start);
    if (rule(x, rule_renew_run_first))
        issue_word(s, q, p, RUN, r->ballot);
    else if (!rule(x, rule_renew_run_stays))
        issue_word(s, q, p, RUN, 0);
    issue_renewal(s, q, p, start);
    if (!rule(x, rule_renew_run_first))
        issue_word(s, q, p, RUN, r->ballot);
    r->next[q] = r->kept[q] = r->sent[q] = start;
    r->phase[q] = PEER_LIVE;
}

static void run_continue(struct expansion *x, struct state *s, uint8_t p, uint8_t q, uint8_t start,
                         uint8_t same, uint8_t applied)
{
    struct replica *r = &s->replica[p];
    const uint8_t *head = r->head[q][p];
    say(x, "; continues its run at %c from %u, the same up to %u", 'A' + q, start, same);
    if (rule(x, rule_continue_by_zero))
        issue_word(s, q, p, RUN, 0);
    if (rule(x, rule_continue_run_first))
        issue_word(s, q, p, RUN, r->ballot);
    if (!rule(x, rule_continue_keeps_start))
        issue_word(s, q, p, START, start);
    if (!rule(x, rule_continue_keeps_guard))
        issue_word(s, q, p, GUARD, same);
    if (!rule(x, rule_continue_run_first))
        issue_word(s, q, p, RUN, r->ballot);
    r->kept[q] = rule(x, rule_guard_below_kept) ? 0 : same;
    r->sent[q] = head[COMMIT];
    r->next[q] = max_u8(applied, r->sent[q]);
    if (rule(x, rule_kept_not_rewritten))
        r->next[q] = max_u8(r->next[q], same);
    r->phase[q] = PEER_LIVE;
}

static bool run_continues(const struct expansion *x, const uint8_t *head, uint8_t applied)
{
    return head[RUN] != 0 && head[START] <= applied && head[GUARD] >= applied &&
           !rule(x, rule_retract);
}

static bool worth_keeping(const uint8_t *head, uint8_t applied, uint8_t same)
{
    return same != NONE && (same > applied || head[COMMIT] >= applied);
}

static uint8_t read_from(const uint8_t *head, uint8_t applied)
{
    return head[COMMIT] >= applied ? applied : max_u8(head[START], head[COMMIT]);
}

/* Writes its log up to `end` to a replica as one batch, with GUARD and COMMIT. `from` has the ballots
 * of the entries, if they are not to be stamped with its own. */
static void write_batch(struct expansion *x, struct state *s, uint8_t p, uint8_t q, uint8_t end,
                        const struct entry *from)
{
    struct replica *r = &s->replica[p];
    for (uint8_t pos = r->next[q]; pos < end; pos++) {
        struct entry e = {.value = r->value[pos], .ballot = from ? from[pos].ballot : r->ballot};
        issue_entry(s, q, p, pos, e);
    }
    r->next[q] = end;
    uint8_t told = rule(x, rule_commit_beyond) ? r->commit : min_u8(r->commit, r->done[q]);
    r->sent[q] = max_u8(r->sent[q], told);
    issue_bounds(s, q, p, max_u8(end, r->kept[q]), r->sent[q]);
    issue_mark(s, q, p, r->ballot, end);
}

static void write_log(struct expansion *x, struct state *s, uint8_t p, uint8_t q, uint8_t end,
                      const struct entry *from)
{
    const struct replica *r = &s->replica[p];
    while (r->next[q] < end)
        write_batch(x, s, p, q, min_u8(end, (uint8_t)(r->next[q] + x->m->batch)), from);
}

void lead_propose(struct expansion *x, struct state *s, uint8_t p, uint8_t value)
{
    struct replica *r = &s->replica[p];
    uint8_t pos = r->tail++;
    r->value[pos] = value;
    say(x, "; %c proposes %c at %u", 'A' + p, ".Sxyz"[value], pos);
    for (uint8_t q = 0; q < N; q++)
        if (r->phase[q] == PEER_LIVE && r->next[q] == pos)
            write_log(x, s, p, q, r->tail, NULL);
}

/* What A has proposed, as one batch, when the model begins. */
void lead_propose_first(struct expansion *x, struct state *s, uint8_t count)
{
    struct replica *r = &s->replica[0];
    for (; r->tail < count; r->tail++)
        r->value[r->tail] = (uint8_t)(FIRST_MESSAGE + r->tail);
    for (uint8_t q = 0; q < N; q++)
        write_log(x, s, 0, q, count, NULL);
}

static bool ends_with_start(const struct recovery *rec)
{
    return rec->chain_end > rec->commit && rec->chain[rec->chain_end - 1].value == MARKER;
}

/* Up to where the entries of lane l are those of `value`, from pos on. */
static uint8_t equal_until(const struct lane *l, const uint8_t *value, uint8_t pos, uint8_t end)
{
    while (pos < end && l->ring[pos].value == value[pos])
        pos++;
    return pos;
}

static uint8_t own_same(const struct expansion *x, const struct state *s, uint8_t p)
{
    const struct replica *r = &s->replica[p];
    const uint8_t *head = r->head[p][p];
    if (!run_continues(x, head, r->applied))
        return NONE;
    return equal_until(&s->lane[p][p], r->value, r->applied, min_u8(head[GUARD], r->rec.chain_end));
}

static void sync_own(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    const uint8_t *head = r->head[p][p];
    uint8_t same = own_same(x, s, p);
    if (worth_keeping(head, r->applied, same)) {
        uint8_t start = head[COMMIT] >= r->applied ? keep_from(x, s, p, head[START]) : r->applied;
        for (uint8_t pos = start; pos < r->applied; pos++)
            r->value[pos] = s->lane[p][p].ring[pos].value;
        run_continue(x, s, p, p, start, same, r->applied);
        r->base = start;
    } else {
        run_renew(x, s, p, p, r->rec.chain_base);
        r->base = r->rec.chain_base;
    }
}

static void forget_heads(struct replica *r, uint8_t p)
{
    for (uint8_t q = 0; q < N; q++)
        for (uint8_t w = 0; w < N; w++)
            if (w != p || r->phase[q] != PEER_READY) {
                r->run[q][w] = 0;
                memset(r->head[q][w], 0, WORDS);
            }
}

void lead_begin(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    const struct recovery rec = r->rec;
    r->role = LEADS;
    for (uint8_t pos = rec.chain_base; pos < rec.chain_end; pos++)
        r->value[pos] = rec.chain[pos].value;
    r->commit = rec.commit;
    r->tail = rec.chain_end;
    sync_own(x, s, p);
    write_log(x, s, p, p, rec.chain_end, rule(x, rule_no_restamp) ? rec.chain : NULL);
    if (r->applied < r->commit && r->sent[p] < r->commit) {
        r->sent[p] = r->commit;
        issue_word(s, p, p, COMMIT, r->commit);
    }
    if (!ends_with_start(&rec)) {
        if (r->tail == x->m->length) { /* the log is full: a leader that gets no further */
            step_down(s, p);
            return;
        }
        lead_propose(x, s, p, MARKER);
    }
    r->start_end = r->tail;
    r->needed = 0;
    memset(&r->rec, 0, sizeof(r->rec));
    forget_heads(r, p);
}

static void catch_up(struct expansion *x, struct state *s, uint8_t p)
{
    struct replica *r = &s->replica[p];
    for (uint8_t q = 0; q < N; q++)
        if (q != p && r->phase[q] == PEER_LIVE)
            write_log(x, s, p, q, min_u8(r->done[p], r->tail),
                      rule(x, rule_no_restamp) ? s->lane[p][p].ring : NULL);
}

/* False: not now. */
bool lead_sync_peer(struct expansion *x, struct state *s, uint8_t p, uint8_t q, uint8_t applied)
{
    struct replica *r = &s->replica[p];
    const uint8_t *head = r->head[q][p];
    if (applied < r->base)
        return false; /* by snapshot first */
    uint8_t same = NONE;
    if (run_continues(x, head, applied) && head[GUARD] > read_from(head, applied)) {
        if (r->done[p] < r->start_end)
            return false; /* not before the own copy stands */
        same = equal_until(&s->lane[q][p], r->value, applied, min_u8(head[GUARD], r->done[p]));
        if (rule(x, rule_continue_unlike))
            same = head[GUARD];
    }
    say(x, "; %c synchronises %c", 'A' + p, 'A' + q);
    if (worth_keeping(head, applied, same))
        run_continue(x, s, p, q, applied, same, applied);
    else
        run_renew(x, s, p, q, applied);
    forget_heads(r, p);
    catch_up(x, s, p);
    return true;
}

static uint8_t quorum_match(const struct expansion *x, const struct replica *r)
{
    uint8_t a = r->done[0], b = r->done[1], c = r->done[2];
    if (rule(x, rule_quorum_of_one))
        return max_u8(a, max_u8(b, c));
    return max_u8(min_u8(a, b), min_u8(max_u8(a, b), c));
}

static void decide(struct expansion *x, struct state *s, uint8_t p, uint8_t match)
{
    const struct replica *r = &s->replica[p];
    for (uint8_t pos = r->base; pos < match; pos++) {
        struct entry *d = &s->decided[pos];
        if (d->value == NOTHING) {
            d->value = r->value[pos];
            d->ballot = r->ballot;
            say(x, "; %c at %u is decided", ".Sxyz"[d->value], pos);
        } else if (d->value != r->value[pos]) {
            wrong(x, "two values are decided at one position");
        }
    }
}

/* The copy at q is known to stand up to `tag`. */
void lead_stands(struct expansion *x, struct state *s, uint8_t p, uint8_t q, uint8_t tag)
{
    struct replica *r = &s->replica[p];
    r->done[q] = max_u8(r->done[q], tag);
    uint8_t match = quorum_match(x, r);
    decide(x, s, p, match);
    if (match > r->commit && match >= r->start_end) {
        r->commit = match;
        r->sent[p] = match;
        issue_word(s, p, p, COMMIT, match);
    }
    if (q == p)
        catch_up(x, s, p);
}
