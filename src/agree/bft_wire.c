#include "agree/bft_wire.h"

#include "base/planted.h"
#include "lane/frame.h"

/* ---- values ---- */

struct digest bft_name_of(const void *batch, uint32_t bytes)
{
    return digest_of(batch, bytes);
}

bool bft_batch_fits(const void *batch, uint32_t bytes)
{
    const unsigned char *at = batch, *end = at + bytes;
    while (at < end) {
        const struct entry *e = (const void *)at;
        if ((uint64_t)(end - at) < sizeof(*e) || (uint64_t)(end - at) < entry_size(e->bytes) ||
            e->pos != 0 || e->ballot != 0)
            return false;
        at += entry_size(e->bytes);
    }
    return bytes > 0;
}

/* ---- what is signed ---- */

static struct sign_text text_of(const struct bft_scope *s, enum sign_role role, uint32_t rank,
                                uint32_t life)
{
    struct sign_text t = {.tag = SIGN_TAG,
                          .cluster = s->cluster,
                          .group = s->group,
                          .role = role,
                          .signer = rank,
                          .life = life};
    if (PLANTED(bft_sig_no_domain))
        t.group = t.role = t.life = 0;
    return t;
}

struct sign_text bft_certify_text(const struct bft_scope *s, uint32_t rank, uint32_t life,
                                  uint64_t view, uint64_t slot, struct digest name)
{
    struct sign_text t = text_of(s, SIGN_CERTIFY, rank, life);
    t.number = view;
    t.more = slot;
    t.digest = name;
    return t;
}

struct sign_text bft_vouch_text(const struct bft_scope *s, uint32_t rank, uint32_t life,
                                uint32_t sender, uint64_t key, struct digest digest)
{
    struct sign_text t = text_of(s, SIGN_VOUCH, rank, life);
    t.number = key;
    t.more = sender;
    t.digest = digest;
    return t;
}

struct sign_text bft_checkpoint_text(const struct bft_scope *s, uint32_t rank, uint32_t life,
                                     const struct bft_checkpoint *c)
{
    struct sign_text t = text_of(s, SIGN_CHECKPOINT, rank, life);
    t.number = c->slot;
    t.digest = digest_of(c, sizeof(*c));
    return t;
}

struct sign_text bft_join_text(const struct bft_scope *s, uint32_t rank, uint32_t life)
{
    return text_of(s, SIGN_JOIN, rank, life);
}

bool bft_frame_text(const struct bft_scope *s, const struct bft_frame *f, struct sign_text *t)
{
    uint32_t rank = f->mark.rank, life = f->mark.life;
    switch (f->kind) {
    case BFT_FRAME_CERTIFY:
        *t = bft_certify_text(s, rank, life, f->key, f->number, f->name);
        return true;
    case BFT_FRAME_VOUCH:
        *t = bft_vouch_text(s, rank, life, f->rank, f->key, f->name);
        return true;
    case BFT_FRAME_CHECKPOINT:
        *t = bft_checkpoint_text(s, rank, life, (const void *)f->data);
        return true;
    case BFT_FRAME_JOIN:
        *t = bft_join_text(s, rank, life);
        return true;
    default:
        return false;
    }
}

/* ---- form ---- */

uint32_t bft_certificate_marks(const struct bft_scope *s)
{
    return s->faulty + !PLANTED(bft_cert_f);
}

/* Of members, no two of one. */
static bool marks_fit(const struct bft_scope *s, const struct bft_mark *m, uint32_t count)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (m[i].rank >= s->members || (seen & 1U << m[i].rank))
            return false;
        seen |= 1U << m[i].rank;
    }
    return true;
}

static const char *propose_fault(const struct bft_scope *s, const struct bft_propose *p,
                                 uint64_t bytes)
{
    uint32_t count = p->head.count;
    if (bytes < sizeof(*p) || bytes != sizeof(*p) + padded(count))
        return "a PROPOSE of another length than it says";
    if (bft_name_is_nothing(p->name))
        return count == 0 ? NULL : "a PROPOSE of nothing with bytes";
    if (bft_name_is_join(p->name))
        return (count == 0 || count == SIGN_BYTES) && p->name.word[1] < s->members &&
                       p->name.word[2] <= UINT16_MAX
                   ? NULL
                   : "a PROPOSE of a JOIN of nobody";
    if (count % 8 != 0 || !bft_batch_fits(p->value, count))
        return "a PROPOSE of what is no batch";
    return digest_equal(p->name, bft_name_of(p->value, count)) ? NULL
                                                               : "a PROPOSE under another name";
}

static const char *commit_fault(const struct bft_scope *s, const struct bft_commit *c,
                                uint64_t bytes)
{
    uint32_t count = bft_certificate_marks(s);
    if (bytes < sizeof(*c) || c->head.count != count ||
        bytes != sizeof(*c) + count * sizeof(c->mark[0]))
        return "a COMMIT of another length than it says";
    return marks_fit(s, c->mark, count) ? NULL : "a COMMIT whose certificate is not of f+1";
}

static uint64_t state_bytes(const struct bft_state *st)
{
    return sizeof(*st) + st->locks * sizeof(struct bft_lock) + st->names * sizeof(struct digest) +
           st->marks * sizeof(struct bft_mark);
}

static bool locks_fit(const struct bft_state *st)
{
    for (uint32_t i = 0; i < st->locks; i++) {
        uint64_t slot = st->lock[i].slot;
        if (slot < st->stable.slot || slot - st->stable.slot >= BFT_SLOTS ||
            (i > 0 && slot <= st->lock[i - 1].slot))
            return false;
    }
    return true;
}

static const char *state_fault(const struct bft_scope *s, const struct bft_state *st,
                               uint64_t bytes)
{
    if (bytes < sizeof(*st) || st->locks > BFT_SLOTS || st->names > BFT_SLOTS ||
        st->marks != (st->stable.slot == 0 ? 0 : s->faulty + 1) || bytes != state_bytes(st) ||
        st->head.count != bytes - sizeof(*st))
        return "a STATE of another length than it says";
    if (!locks_fit(st))
        return "a STATE with locks outside of its window";
    if (st->names > 0 && st->next == BFT_NO_SLOT)
        return "a STATE with names and nothing to propose";
    return marks_fit(s, bft_state_marks(st), st->marks)
               ? NULL
               : "a STATE whose checkpoint is not signed by f+1";
}

const char *bft_vouched_fault(const struct bft_scope *s, const struct bft_vouched *v,
                              uint64_t bytes)
{
    if (bytes < sizeof(*v) || v->rank >= s->members || v->marks != s->faulty + 1 ||
        v->bytes < sizeof(struct bft_state) || v->bytes % 8 != 0 || v->bytes > bytes ||
        bytes < bft_vouched_bytes(v))
        return "what is vouched for is not whole";
    if (!marks_fit(s, v->mark, v->marks))
        return "f+1 do not vouch";
    const struct bft_state *st = bft_vouched_state(v);
    return st->head.kind != BFT_STATE ? "what is vouched for is no STATE"
                                      : state_fault(s, st, v->bytes);
}

static const char *new_view_fault(const struct bft_scope *s, const struct bft_new_view *n,
                                  uint64_t bytes)
{
    if (bytes < sizeof(*n) || n->head.count != bytes - sizeof(*n))
        return "a NEW-VIEW of another length than it says";
    const unsigned char *at = n->states, *end = at + n->head.count;
    for (uint32_t i = 0; i <= s->faulty; i++) {
        const struct bft_vouched *v = (const void *)at;
        const char *fault = bft_vouched_fault(s, v, (uint64_t)(end - at));
        if (fault)
            return fault;
        at += bft_vouched_bytes(v);
    }
    return at == end ? NULL : "a NEW-VIEW with more than f+1 STATEs";
}

const char *bft_body_fault(const struct bft_scope *s, const void *body, uint64_t bytes)
{
    const struct bft_head *h = body;
    if (bytes < sizeof(*h) || bytes % 8 != 0)
        return "a broadcast without a head";
    switch (h->kind) {
    case BFT_PROPOSE:
        return propose_fault(s, body, bytes);
    case BFT_COMMIT:
        return commit_fault(s, body, bytes);
    case BFT_STATE:
        return state_fault(s, body, bytes);
    case BFT_NEW_VIEW:
        return new_view_fault(s, body, bytes);
    default:
        return "a broadcast of no known kind";
    }
}

/* ---- parts ---- */

const struct digest *bft_state_names(const struct bft_state *st)
{
    return (const void *)(st->lock + st->locks);
}

const struct bft_mark *bft_state_marks(const struct bft_state *st)
{
    return (const void *)(bft_state_names(st) + st->names);
}

const struct bft_state *bft_vouched_state(const struct bft_vouched *v)
{
    return (const void *)(v->mark + v->marks);
}

uint32_t bft_vouched_bytes(const struct bft_vouched *v)
{
    return (uint32_t)(sizeof(*v) + v->marks * sizeof(v->mark[0])) + v->bytes;
}

/* ---- signatures ---- */

static struct sign_job job_of(struct sign_text text, const unsigned char *signature)
{
    struct sign_job j = {.check = true, .text = text};
    memcpy(j.signature, signature, SIGN_BYTES);
    return j;
}

static uint32_t commit_signatures(const struct bft_scope *s, const struct bft_commit *c,
                                  struct sign_job *jobs)
{
    for (uint32_t i = 0; i < c->head.count; i++)
        jobs[i] = job_of(
            bft_certify_text(s, c->mark[i].rank, c->mark[i].life, c->head.view, c->slot, c->name),
            c->mark[i].signature);
    return c->head.count;
}

static uint32_t state_signatures(const struct bft_scope *s, const struct bft_state *st,
                                 struct sign_job *jobs)
{
    const struct bft_mark *m = bft_state_marks(st);
    for (uint32_t i = 0; i < st->marks; i++)
        jobs[i] = job_of(bft_checkpoint_text(s, m[i].rank, m[i].life, &st->stable), m[i].signature);
    return st->marks;
}

uint32_t bft_vouched_signatures(const struct bft_scope *s, const struct bft_vouched *v,
                                struct sign_job *jobs)
{
    const struct digest d = digest_of(bft_vouched_state(v), v->bytes);
    for (uint32_t i = 0; i < v->marks; i++)
        jobs[i] = job_of(bft_vouch_text(s, v->mark[i].rank, v->mark[i].life, v->rank, v->key, d),
                         v->mark[i].signature);
    return v->marks;
}

static uint32_t new_view_signatures(const struct bft_scope *s, const struct bft_new_view *n,
                                    struct sign_job *jobs)
{
    const struct bft_vouched *v = (const void *)n->states;
    uint32_t count = 0;
    for (uint32_t i = 0; i <= s->faulty; i++, v = bft_vouched_next(v))
        count += bft_vouched_signatures(s, v, jobs + count);
    return count;
}

static uint32_t propose_signatures(const struct bft_scope *s, const struct bft_propose *p,
                                   struct sign_job *jobs)
{
    if (!bft_name_is_join(p->name) || p->head.count == 0)
        return 0;
    jobs[0] =
        job_of(bft_join_text(s, (uint32_t)p->name.word[1], (uint32_t)p->name.word[2]), p->value);
    return 1;
}

uint32_t bft_body_signatures(const struct bft_scope *s, const void *body, struct sign_job *jobs)
{
    const struct bft_head *h = body;
    switch (h->kind) {
    case BFT_PROPOSE:
        return propose_signatures(s, body, jobs);
    case BFT_COMMIT:
        return commit_signatures(s, body, jobs);
    case BFT_STATE:
        return state_signatures(s, body, jobs);
    default:
        return new_view_signatures(s, body, jobs);
    }
}

uint32_t bft_body_bytes_max(const struct bft_scope *s, uint32_t batch_bytes)
{
    uint64_t quorum = s->faulty + 1, marks = quorum * sizeof(struct bft_mark);
    uint64_t state = sizeof(struct bft_state) + marks +
                     BFT_SLOTS * (sizeof(struct bft_lock) + sizeof(struct digest));
    uint64_t new_view =
        sizeof(struct bft_new_view) + quorum * (sizeof(struct bft_vouched) + marks + state);
    uint64_t propose = sizeof(struct bft_propose) + padded(batch_bytes);
    return (uint32_t)(new_view > propose ? new_view : propose);
}
