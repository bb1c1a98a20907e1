/* Frames: those of others are checked before the core sees them, our own are signed. */
#include "agree/bft_impl.h"

#include <stdio.h>
#include <stdlib.h>

static uint32_t check_bytes(const struct bft *b)
{
    return b->frame_max;
}

bool bft_frames_open(struct bft *b)
{
    bool good = true;
    for (uint32_t p = 0; p < b->opt.members; p++)
        for (uint32_t i = 0; i < CHECKS_MAX; i++)
            good = (b->check[p][i].frame = bft_memory_open(b, check_bytes(b))) && good;
    for (uint32_t p = 0; p < b->opt.members; p++)
        good = (b->accused[p].frame =
                    bft_memory_open(b, sizeof(struct bft_frame) + 2 * sizeof(struct neb_cell))) &&
               good;
    return good;
}

void bft_frames_close(struct bft *b)
{
    for (uint32_t p = 0; p < b->opt.members; p++) {
        for (uint32_t i = 0; i < CHECKS_MAX; i++)
            free(b->check[p][i].frame);
        free(b->accused[p].frame);
    }
}

/* ---- checking ---- */

static void begin(struct bft *b, struct check *c, const struct bft_frame *f, uint32_t bytes)
{
    memcpy(c->frame, f, sizeof(*f) + bytes);
    c->bytes = bytes;
    c->busy = true;
    for (uint32_t i = 0; i < c->jobs; i++)
        signer_submit(b->opt.signer, &c->job[i]);
}

static struct check *free_check(struct bft *b, uint32_t from)
{
    for (uint32_t i = 0; i < CHECKS_MAX; i++)
        if (!b->check[from][i].busy)
            return &b->check[from][i];
    return NULL;
}

/* What a frame for the core has to be checked for. */
static uint32_t jobs_of(const struct bft *b, const struct bft_frame *f, struct sign_job *jobs)
{
    const struct bft_scope *s = &b->core.opt.scope;
    if (f->kind == BFT_FRAME_VOUCHED)
        return bft_vouched_signatures(s, (const void *)f->data, jobs);
    jobs[0] = (struct sign_job){.check = true};
    if (!bft_frame_text(s, f, &jobs[0].text))
        return 0;
    memcpy(jobs[0].signature, f->mark.signature, SIGN_BYTES);
    return 1;
}

/* Of a frame: what tells it from another one. */
static size_t compared(const struct bft_frame *f)
{
    return sizeof(*f) + (f->kind == BFT_FRAME_SIGNED ? sizeof(struct bft_stretch) : 0);
}

static bool is_being_checked(const struct bft *b, uint32_t from, const struct bft_frame *f)
{
    for (uint32_t i = 0; i < CHECKS_MAX; i++)
        if (b->check[from][i].busy && memcmp(b->check[from][i].frame, f, compared(f)) == 0)
            return true;
    return false;
}

static void read_core(struct bft *b, struct check *c, uint32_t from, const struct bft_frame *f,
                      uint32_t bytes)
{
    if (!bft_core_wants(&b->core, from, f, bytes) || is_being_checked(b, from, f))
        return;
    c->jobs = jobs_of(b, f, c->job);
    if (c->jobs > 0)
        begin(b, c, f, bytes);
    else
        bft_core_frame(&b->core, from, f, bytes);
}

static void read_signed(struct bft *b, struct check *c, uint32_t from, const struct bft_frame *f,
                        uint32_t bytes)
{
    c->jobs = is_being_checked(b, from, f) ? 0 : bft_signed_job(b, f, bytes, c->job);
    if (c->jobs > 0)
        begin(b, c, f, bytes);
}

static void read_evidence(struct bft *b, uint32_t from, const struct bft_frame *f, uint32_t bytes)
{
    const struct neb_cell *cell = (const void *)f->data;
    struct check *c = &b->accused[from];
    if (bytes != 2 * sizeof(*cell) || f->rank >= b->opt.members || f->rank == b->opt.rank ||
        c->busy || b->evidence[f->rank].there || cell[0].key != cell[1].key ||
        (cell[0].bytes == cell[1].bytes && digest_equal(cell[0].digest, cell[1].digest)))
        return;
    c->jobs = 2;
    for (uint32_t i = 0; i < 2; i++) {
        c->job[i] = (struct sign_job){.check = true, .text = neb_text(b->neb, f->rank, &cell[i])};
        memcpy(c->job[i].signature, cell[i].signature, SIGN_BYTES);
    }
    begin(b, c, f, bytes);
}

static void read_frame(struct bft *b, struct check *c, uint32_t from, const struct bft_frame *f,
                       uint32_t bytes)
{
    switch (f->kind) {
    case BFT_FRAME_BODY:
        bft_store_take(b, from, f, bytes);
        break;
    case BFT_FRAME_ASK_BODY:
        bft_store_give(b, from, f);
        break;
    case BFT_FRAME_ASK_STATE:
        bft_load_give(b, from, f);
        break;
    case BFT_FRAME_STATE:
        bft_load_take(b, from, f, bytes);
        break;
    case BFT_FRAME_EVIDENCE:
        read_evidence(b, from, f, bytes);
        break;
    case BFT_FRAME_BATCH:
    case BFT_FRAME_ECHO:
    case BFT_FRAME_READY:
    case BFT_FRAME_STATEMENT:
    case BFT_FRAME_ASK_BATCH:
        bft_epoch_frame(b, from, f, bytes);
        break;
    case BFT_FRAME_SIGNED:
        read_signed(b, c, from, f, bytes);
        break;
    case BFT_FRAME_BEAT:
        bft_epoch_heard_beat(b, from);
        read_core(b, c, from, f, bytes);
        break;
    default:
        read_core(b, c, from, f, bytes);
    }
}

/* Who sends more than can be checked waits, and nobody else. */
int bft_frames_read(struct bft *b)
{
    int work = 0;
    for (uint32_t p = 0; p < b->opt.members; p++)
        for (uint32_t i = 0; p != b->opt.rank && i < READS_MAX; i++) {
            uint32_t bytes;
            struct check *c = free_check(b, p);
            const struct bft_frame *f = c ? bft_talk_read(b->talk, p, &bytes) : NULL;
            if (f == NULL)
                break;
            read_frame(b, c, p, f, bytes);
            work++;
        }
    return work;
}

/* Of one that has ended: are all its signatures good? */
static bool is_ended(const struct check *c, bool *good)
{
    *good = true;
    for (uint32_t i = 0; i < c->jobs; i++) {
        if (c->job[i].state == SIGN_UNDER_WAY)
            return false;
        *good = *good && c->job[i].state == SIGN_GOOD;
    }
    return true;
}

static int settle_checks(struct bft *b, uint32_t from)
{
    int work = 0;
    bool good;
    for (uint32_t i = 0; i < CHECKS_MAX; i++) {
        struct check *c = &b->check[from][i];
        if (!c->busy || !is_ended(c, &good))
            continue;
        c->busy = false;
        work++;
        if (good && c->frame->kind == BFT_FRAME_SIGNED)
            bft_signed_take(b, c->frame, c->bytes);
        else if (good && bft_core_wants(&b->core, from, c->frame, c->bytes))
            bft_core_frame(&b->core, from, c->frame, c->bytes);
    }
    return work;
}

static int settle_evidence(struct bft *b, uint32_t from)
{
    struct check *c = &b->accused[from];
    const struct neb_cell *cell = (const void *)c->frame->data;
    bool good;
    if (!c->busy || !is_ended(c, &good))
        return 0;
    c->busy = false;
    if (good) {
        neb_convict(b->neb, c->frame->rank);
        bft_convict(b, c->frame->rank, &cell[0], &cell[1],
                    "it has signed two broadcasts for one place");
    }
    return 1;
}

/* ---- our own ---- */

static bool is_being_signed(const struct bft *b, const struct bft_frame *f, const void *data,
                            uint32_t bytes)
{
    for (uint32_t i = 0; i < OWN_MAX; i++) {
        const struct own_frame *o = &b->own[i];
        if (o->busy && o->frame.kind == f->kind && o->frame.rank == f->rank &&
            o->frame.key == f->key && o->frame.number == f->number &&
            digest_equal(o->frame.name, f->name) && memcmp(&o->data, data, bytes) == 0)
            return true;
    }
    return false;
}

bool bft_frames_sign(void *ctx, const struct bft_frame *f, const void *data, uint32_t bytes)
{
    struct bft *b = ctx;
    CHECK(bytes <= sizeof(struct bft_checkpoint));
    if (is_being_signed(b, f, data ? data : "", bytes))
        return false;
    for (uint32_t i = 0; i < OWN_MAX; i++) {
        struct own_frame *o = &b->own[i];
        if (o->busy)
            continue;
        *o = (struct own_frame){.busy = true, .bytes = bytes, .frame = *f};
        o->frame.mark.rank = b->opt.rank;
        o->frame.mark.life = b->opt.life;
        if (bytes)
            memcpy(&o->data, data, bytes);
        CHECK(bft_frame_text(&b->core.opt.scope, &o->frame, &o->job.text));
        signer_submit(b->opt.signer, &o->job);
        return true;
    }
    return false;
}

static int settle_own(struct bft *b)
{
    int work = 0;
    for (uint32_t i = 0; i < OWN_MAX; i++) {
        struct own_frame *o = &b->own[i];
        if (!o->busy || o->job.state == SIGN_UNDER_WAY)
            continue;
        CHECK(o->job.state == SIGN_GOOD);
        memcpy(o->frame.mark.signature, o->job.signature, SIGN_BYTES);
        bft_tell(b, BFT_ALL, &o->frame, &o->data, o->bytes);
        bft_core_frame(&b->core, b->opt.rank, &o->frame, o->bytes);
        o->busy = false;
        work++;
    }
    return work;
}

int bft_frames_settle(struct bft *b)
{
    int work = settle_own(b);
    for (uint32_t p = 0; p < b->opt.members; p++)
        work += settle_checks(b, p) + settle_evidence(b, p);
    return work;
}

void bft_frames_beat(struct bft *b)
{
    for (uint32_t p = 0; p < b->opt.members; p++)
        if (b->evidence[p].there)
            bft_tell(b, BFT_ALL, &(struct bft_frame){.kind = BFT_FRAME_EVIDENCE, .rank = p},
                     b->evidence[p].cell, sizeof(b->evidence[p].cell));
}
