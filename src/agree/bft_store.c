/* The bytes of broadcasts: those of everybody's last ones are kept, and given to whoever asks. A broadcast is heard when its bytes are
 * here and their signatures are checked. */
#include "agree/bft_impl.h"

#include "base/planted.h"

#include <stdlib.h>

bool bft_store_open(struct bft *b)
{
    bool good = true;
    for (uint32_t p = 0; good && p < b->opt.members; p++) {
        b->body[p] = bft_memory_open(b, b->opt.window * sizeof(struct body));
        good = b->body[p] != NULL;
        for (uint32_t i = 0; good && i < b->opt.window; i++)
            good = (b->body[p][i].data = bft_memory_open(b, b->body_max)) != NULL;
    }
    return good;
}

void bft_store_close(struct bft *b)
{
    for (uint32_t p = 0; p < b->opt.members && b->body[p]; p++) {
        for (uint32_t i = 0; i < b->opt.window; i++)
            free(b->body[p][i].data);
        free(b->body[p]);
    }
}

static struct body *body_at(struct bft *b, uint32_t sender, uint64_t key)
{
    uint64_t place = key & ((UINT64_C(1) << NEB_LIFE_SHIFT) - 1);
    return &b->body[sender][place % b->opt.window];
}

static void put(struct body *s, uint64_t key, struct digest digest, const void *data,
                uint32_t bytes)
{
    s->key = key;
    s->digest = digest;
    s->bytes = bytes;
    memcpy(s->data, data, bytes);
}

/* ---- hearing ---- */

static bool is_under_way(const struct arriving *a)
{
    for (uint32_t i = 0; i < a->jobs; i++)
        if (a->job[i].state == SIGN_UNDER_WAY)
            return true;
    return false;
}

static bool is_here(struct bft *b, uint32_t sender, const struct neb_message *m)
{
    struct arriving *a = &b->arriving[sender];
    const struct body *s = body_at(b, sender, m->key);
    bool here = s->key == m->key && s->bytes == m->bytes && digest_equal(s->digest, m->digest);
    if (here || m->bytes > b->body_max) {
        a->wanted = false;
        return true;
    }
    if (!a->wanted || a->wanted_key != m->key)
        a->beats = 0;
    a->wanted = true;
    a->wanted_key = m->key;
    a->wanted_digest = m->digest;
    return false;
}

static void begin_check(struct bft *b, uint32_t sender, const struct neb_message *m)
{
    struct arriving *a = &b->arriving[sender];
    const struct body *s = body_at(b, sender, m->key);
    a->key = m->key;
    a->jobs = 0;
    a->fault = m->bytes > b->body_max ? "a broadcast that is too long"
                                      : bft_body_fault(&b->core.opt.scope, s->data, s->bytes);
    if (a->fault == NULL)
        a->jobs = bft_body_signatures(&b->core.opt.scope, s->data, a->job);
    for (uint32_t i = 0; i < a->jobs; i++)
        signer_submit(b->opt.signer, &a->job[i]);
}

bool bft_store_has(void *ctx, uint32_t sender, const struct neb_message *m)
{
    struct bft *b = ctx;
    struct arriving *a = &b->arriving[sender];
    if (!is_here(b, sender, m) || is_under_way(a))
        return false;
    if (a->key != m->key)
        begin_check(b, sender, m);
    return !is_under_way(a);
}

static const char *fault_of(const struct arriving *a)
{
    for (uint32_t i = 0; i < a->jobs; i++)
        if (a->job[i].state != SIGN_GOOD)
            return "a broadcast with a signature that is not";
    return a->fault;
}

void bft_store_deliver(void *ctx, uint32_t sender, const struct neb_message *m)
{
    struct bft *b = ctx;
    const struct body *s = body_at(b, sender, m->key);
    const char *fault = sender == b->opt.rank ? NULL : fault_of(&b->arriving[sender]);
    b->arriving[sender].key = 0;
    WATCH(b, heard, sender, m->key, m->digest);
    if (b->core.peer[sender].automaton.fault)
        return;
    if (fault)
        bft_core_depart(&b->core, sender, fault);
    else
        bft_core_hear(&b->core, sender, m->key, m->digest, s->data, s->bytes);
}

/* ---- speaking ---- */

static void tell_body(struct bft *b, uint32_t to, uint32_t sender, const struct body *s)
{
    const struct bft_frame f = {.kind = BFT_FRAME_BODY, .rank = sender, .key = s->key};
    bft_tell(b, to, &f, s->data, s->bytes);
}

int bft_store_say(void *ctx, const void *body, uint32_t bytes)
{
    struct bft *b = ctx;
    struct digest digest = digest_of(body, bytes);
    int rc = neb_broadcast(b->neb, bytes, digest);
    if (rc != 0)
        return rc;
    uint64_t key = neb_key(b->opt.life, b->core.said_place + 1);
    struct body *s = body_at(b, b->opt.rank, key);
    put(s, key, digest, body, bytes);
    tell_body(b, BFT_ALL, b->opt.rank, s);
    return 0;
}

/* ---- bytes from others ---- */

/* From its sender, before it is known to be right; or what is wanted, from anybody. */
void bft_store_take(struct bft *b, uint32_t from, const struct bft_frame *f, uint32_t bytes)
{
    if (f->rank >= b->opt.members || f->rank == b->opt.rank || bytes > b->body_max || bytes == 0)
        return;
    const struct arriving *a = &b->arriving[f->rank];
    struct body *s = body_at(b, f->rank, f->key);
    uint64_t next = neb_next(b->neb, f->rank);
    bool wanted = a->wanted && a->wanted_key == f->key;
    bool soon =
        from == f->rank && f->key >= next && f->key < next + b->opt.window && f->key > s->key;
    if (a->key == f->key || (!wanted && !soon))
        return;
    struct digest digest = digest_of(f->data, bytes);
#if TRAM_PLANTED
    if (PLANTED(bft_checked_in_place))
        bft_talk_again(b->talk, from);
#endif
    if (!wanted || digest_equal(digest, a->wanted_digest))
        put(s, f->key, digest, f->data, bytes);
}

void bft_store_give(struct bft *b, uint32_t to, const struct bft_frame *f)
{
    if (f->rank >= b->opt.members)
        return;
    const struct body *s = body_at(b, f->rank, f->key);
    if (s->bytes > 0 && s->key == f->key && digest_equal(s->digest, f->name))
        tell_body(b, to, f->rank, s);
}

/* Who is lapped, or waits long for bytes, goes on from a STATE behind. */
static void ask_vouched(struct bft *b, uint32_t sender)
{
    bft_core_catch_up(&b->core, sender);
    bft_tell(b, BFT_ALL,
             &(struct bft_frame){
                 .kind = BFT_FRAME_ASK_VOUCHED, .rank = sender, .key = neb_next(b->neb, sender)},
             NULL, 0);
}

static void ask_body(struct bft *b, uint32_t sender)
{
    struct arriving *a = &b->arriving[sender];
    a->beats++;
    bft_tell(b, BFT_ALL,
             &(struct bft_frame){.kind = BFT_FRAME_ASK_BODY,
                                 .rank = sender,
                                 .key = a->wanted_key,
                                 .name = a->wanted_digest},
             NULL, 0);
}

void bft_store_beat(struct bft *b)
{
    for (uint32_t p = 0; p < b->opt.members; p++) {
        const struct arriving *a = &b->arriving[p];
        bool waits = a->wanted && a->wanted_key == neb_next(b->neb, p);
        if (p == b->opt.rank || b->core.peer[p].automaton.fault)
            continue;
        if (waits)
            ask_body(b, p);
        if (neb_lapped(b->neb, p) || (waits && a->beats > PATIENCE_BEATS))
            ask_vouched(b, p);
    }
}
