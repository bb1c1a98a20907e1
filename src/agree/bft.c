#include "agree/bft_impl.h"

#include "base/minmax.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH_DEFAULT = 4 << 10,
    WINDOW_MIN = 16,
    TALK_DEFAULT = 256 << 10,
    SOURCE_DEFAULT = 64 << 10,
    STATE_DEFAULT = 64 << 10,
    BEAT_DEFAULT_NS = 1000000,
    VIEW_DEFAULT_NS = 20000000,
};

/* ---- options ---- */

static uint32_t or_u32(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

/* Of a batch, beside an entry's header and the signature of who sent it. */
static uint32_t payload_room(const struct bft_options *o)
{
    uint32_t other = (uint32_t)(bft_stretch_room(0) + sizeof(struct entry));
    return o->batch_bytes > other ? (o->batch_bytes - other) & ~7U : 0;
}

static void set_defaults(struct bft_options *o)
{
    o->batch_bytes = or_u32(o->batch_bytes, BATCH_DEFAULT);
    o->payload_max = or_u32(o->payload_max, payload_room(o));
    o->window = or_u32(o->window, NEB_WINDOW_MAX);
    o->talk_bytes = or_u32(o->talk_bytes, TALK_DEFAULT);
    o->source_bytes = or_u32(o->source_bytes, SOURCE_DEFAULT);
    o->state_bytes_max = or_u32(o->state_bytes_max, STATE_DEFAULT);
    o->beat_ns = o->beat_ns ? o->beat_ns : BEAT_DEFAULT_NS;
    o->view_ns = o->view_ns ? o->view_ns : VIEW_DEFAULT_NS;
}

static int check_sizes(const struct bft_options *o, struct err *e)
{
    if (o->window < WINDOW_MIN || o->window > NEB_WINDOW_MAX)
        return err_set(e, ERR_INVALID, "group: a window of %u broadcasts; %u to %u are possible",
                       o->window, WINDOW_MIN, NEB_WINDOW_MAX);
    if (bft_stretch_room(entry_size(o->payload_max)) > o->batch_bytes)
        return err_set(e, ERR_INVALID,
                       "group: messages of %u bytes do not fit into batches of %u; %u would",
                       o->payload_max, o->batch_bytes, payload_room(o));
    if (o->fast && bft_fast_batch_bytes(o) > o->batch_bytes)
        return err_set(e, ERR_INVALID,
                       "group: fast epochs need batches of at least %u bytes, for what %u members "
                       "say at the end of one; these have %u",
                       bft_fast_batch_bytes(o), o->members, o->batch_bytes);
    if (o->fast_ahead > BFT_FAST_AHEAD)
        return err_set(e, ERR_INVALID, "group: %u batches under way; %u are possible",
                       o->fast_ahead, BFT_FAST_AHEAD);
    if (o->talk_bytes & (o->talk_bytes - 1) || o->talk_bytes < MEM_PAGE_BYTES)
        return err_set(e, ERR_INVALID, "group: frames need a power of two of bytes, not %u",
                       o->talk_bytes);
    return 0;
}

static int check_options(const struct bft_options *o, struct err *e)
{
    if (o->members % 2 == 0 || o->members < 3 || o->members > BFT_MEMBERS_MAX)
        return err_set(e, ERR_INVALID,
                       "group: %u members; of 3, 5, 7 or 9 one, two, three or four may lie",
                       o->members);
    if (o->rank >= o->members)
        return err_set(e, ERR_INVALID, "group: rank %u of %u members", o->rank, o->members);
    if (o->life > UINT16_MAX - 1)
        return err_set(e, ERR_INVALID, "group: life %u; lives end at %u", o->life, UINT16_MAX - 1);
    if (o->machine == NULL || o->machine->state == NULL)
        return err_set(e, ERR_INVALID, "group: a machine whose state can be saved is needed");
    return check_sizes(o, e);
}

/* ---- what the core asks for ---- */

void bft_tell(void *ctx, uint32_t to, const struct bft_frame *f, const void *data, uint32_t bytes)
{
    struct bft *b = ctx;
    for (uint32_t p = 0; p < b->opt.members; p++)
        if (p != b->opt.rank && (to == BFT_ALL || to == p))
            bft_talk_send(b->talk, p, f, data, bytes);
}

void bft_convict(struct bft *b, uint32_t rank, const struct neb_cell *x, const struct neb_cell *y,
                 const char *why)
{
    bool known = b->line[rank][0] != '\0';
    if (x && y && !b->evidence[rank].there) {
        b->evidence[rank].there = true;
        b->evidence[rank].cell[0] = *x;
        b->evidence[rank].cell[1] = *y;
        known = false;
    }
    if (known)
        return;
    b->why[rank] = why;
    snprintf(b->line[rank], LINE_MAX, "group %u: member %u (node %u) is convicted: %s",
             b->opt.region, rank, b->nodes[rank], why);
    WATCH(b, convicted, rank, x, y, b->line[rank]);
    if (b->core.peer[rank].automaton.fault == NULL)
        bft_core_depart(&b->core, rank, why);
}

static void departed(void *ctx, uint32_t rank, const char *why)
{
    bft_convict(ctx, rank, NULL, NULL, why);
}

static void equivocated(void *ctx, uint32_t rank, const struct neb_cell *x,
                        const struct neb_cell *y)
{
    bft_convict(ctx, rank, x, y, "it has signed two broadcasts for one place");
}

static void life(void *ctx, uint32_t rank, uint32_t lf)
{
    struct bft *b = ctx;
    neb_life(b->neb, rank, lf);
    b->arriving[rank].wanted = false;
}

static void jump(void *ctx, uint32_t rank, uint64_t key)
{
    struct bft *b = ctx;
    neb_jump(b->neb, rank, key);
    b->arriving[rank].wanted = false;
    WATCH(b, jumped, rank, key);
}

static void vouched(void *ctx, uint64_t key)
{
    struct bft *b = ctx;
    neb_vouched(b->neb, key);
}

static void certified(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    struct bft *b = ctx;
    WATCH(b, certified, view, slot, name);
}

static void locked(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    struct bft *b = ctx;
    WATCH(b, locked, view, slot, name);
}

static void decided(void *ctx, uint64_t view, uint64_t slot, struct digest name)
{
    struct bft *b = ctx;
    WATCH(b, decided, view, slot, name);
}

static void entered(void *ctx, uint64_t view)
{
    struct bft *b = ctx;
    bft_signed_entered(b);
    WATCH(b, entered, view);
}

static void stable(void *ctx, const struct bft_checkpoint *at)
{
    struct bft *b = ctx;
    WATCH(b, stable, at);
}

static void votes(void *ctx, uint64_t slot)
{
    struct bft *b = ctx;
    WATCH(b, votes, slot);
}

static const struct bft_core_calls core_calls = {.say = bft_store_say,
                                                 .sign = bft_frames_sign,
                                                 .tell = bft_tell,
                                                 .valid = bft_feed_valid,
                                                 .fill = bft_feed_fill,
                                                 .reserves = bft_epoch_reserves,
                                                 .pending = bft_signed_pending,
                                                 .since = bft_signed_since,
                                                 .apply = bft_feed_apply,
                                                 .save_now = bft_feed_save_now,
                                                 .save = bft_load_save,
                                                 .life = life,
                                                 .jump = jump,
                                                 .vouched = vouched,
                                                 .departed = departed,
                                                 .certified = certified,
                                                 .locked = locked,
                                                 .decided = decided,
                                                 .entered = entered,
                                                 .stable = stable,
                                                 .votes = votes};

static const struct neb_calls neb_calls = {
    .deliver = bft_store_deliver, .has_body = bft_store_has, .convicted = equivocated};

/* ---- opening ---- */

void *bft_memory_open(struct bft *b, uint64_t bytes)
{
    b->bytes += bytes;
    return calloc(1, bytes);
}

static int open_core(struct bft *b, struct err *e)
{
    const struct bft_options *o = &b->opt;
    const struct bft_core_options c = {.scope = {.cluster = o->cluster,
                                                 .group = o->region,
                                                 .members = o->members,
                                                 .faulty = o->members / 2},
                                       .rank = o->rank,
                                       .life = o->life,
                                       .batch_bytes = o->batch_bytes,
                                       .half = o->window / 2,
                                       .beat_ns = o->beat_ns,
                                       .view_ns = o->view_ns,
                                       .calls = &core_calls,
                                       .ctx = b};
    int rc = bft_core_open(&b->core, &c, e);
    b->body_max = b->core.body_bytes;
    b->frame_max = (uint32_t)max_u64(b->body_max, PART_BYTES) + (uint32_t)sizeof(struct bft_frame);
    CHECK(b->frame_max >= sizeof(struct bft_frame) + b->opt.batch_bytes);
    while (b->opt.talk_bytes < 4 * b->frame_max)
        b->opt.talk_bytes *= 2;
    return rc;
}

static int open_neb(struct bft *b, struct err *e)
{
    uint32_t lives[BFT_MEMBERS_MAX] = {0};
    lives[b->opt.rank] = b->opt.life;
    const struct neb_options o = {.mem = b->opt.mem,
                                  .region = b->opt.region,
                                  .nodes = b->nodes,
                                  .members = b->opt.members,
                                  .rank = b->opt.rank,
                                  .memories = b->opt.memories,
                                  .memory_count = b->opt.memory_count,
                                  .window = b->opt.window,
                                  .life = lives,
                                  .cluster = b->opt.cluster,
                                  .signer = b->opt.signer,
                                  .calls = &neb_calls,
                                  .ctx = b};
    return neb_open(&o, &b->neb, e);
}

static int open_talk(struct bft *b, struct err *e)
{
    const struct bft_talk_options o = {.mem = b->opt.mem,
                                       .region = b->opt.region,
                                       .nodes = b->nodes,
                                       .members = b->opt.members,
                                       .rank = b->opt.rank,
                                       .life = b->opt.life,
                                       .ring_bytes = b->opt.talk_bytes,
                                       .frame_max = b->frame_max};
    return bft_talk_open(&o, &b->talk, e);
}

static int open_region(struct bft *b, struct err *e)
{
    enum mem_birth birth;
    return mem_region_open(b->opt.mem, b->opt.region, &birth, e);
}

static int open_parts(struct bft *b, struct err *e)
{
    int rc = open_region(b, e);
    rc = rc == 0 ? open_core(b, e) : rc;
    b->scratch = bft_memory_open(b, b->opt.batch_bytes);
    if (rc == 0 && !(b->scratch && bft_store_open(b) && bft_frames_open(b) && bft_load_open(b) &&
                     bft_epoch_open(b)))
        rc = err_set(e, ERR_NOMEM, "group: no memory for a log among liars");
    rc = rc == 0 ? open_neb(b, e) : rc;
    rc = rc == 0 ? open_talk(b, e) : rc;
    return rc == 0 ? bft_feed_open(b, e) : rc;
}

int bft_open(const struct bft_options *o, struct bft **out, struct err *e)
{
    struct bft_options with = *o;
    set_defaults(&with);
    int rc = check_options(&with, e);
    if (rc != 0)
        return rc;
    struct bft *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return err_set(e, ERR_NOMEM, "group: no memory for a log among liars");
    b->opt = with;
    b->bytes = sizeof(*b);
    memcpy(b->nodes, o->nodes, o->members * sizeof(*b->nodes));
    rc = open_parts(b, e);
    if (rc == 0)
        *out = b;
    else
        bft_close(b);
    return rc;
}

void bft_close(struct bft *b)
{
    bft_load_close(b);
    bft_epoch_close(b);
    free(b->scratch);
    bft_feed_close(b);
    bft_frames_close(b);
    bft_store_close(b);
    if (b->talk)
        bft_talk_close(b->talk);
    if (b->neb)
        neb_close(b->neb);
    bft_core_close(&b->core);
    free(b);
}

/* ---- rounds ---- */

static void beat(struct bft *b)
{
    b->beat_at = b->now_ns + b->opt.beat_ns;
    bft_store_beat(b);
    bft_frames_beat(b);
    bft_load_beat(b);
    bft_signed_beat(b);
    bft_epoch_beat(b);
}

int bft_post(struct bft *b, uint64_t now_ns)
{
    b->now_ns = now_ns;
    if (b->core.broken)
        return 0;
    int work = bft_frames_read(b);
    work += bft_core_step(&b->core, now_ns);
    work += bft_epoch_step(b);
    if (now_ns >= b->beat_at)
        beat(b);
    work += neb_post(b->neb);
    work += bft_feed_tell(b);
    return work + bft_talk_post(b->talk);
}

int bft_settle(struct bft *b, uint64_t now_ns)
{
    b->now_ns = now_ns;
    if (b->core.broken)
        return 0;
    int work = neb_settle(b->neb);
    work += bft_frames_settle(b);
    work += bft_load_step(b);
    work += bft_signed_step(b);
    work += bft_epoch_step(b);
    return work + bft_core_step(&b->core, now_ns);
}

uint64_t bft_next_ns(const struct bft *b)
{
    return min_u64(b->beat_at, bft_core_next_ns(&b->core));
}

/* ---- what anyone may look at ---- */

static uint32_t convicted_bits(const struct bft *b)
{
    uint32_t bits = 0;
    for (uint32_t p = 0; p < b->opt.members; p++)
        bits |= (uint32_t)(b->core.peer[p].automaton.fault != NULL) << p;
    return bits;
}

void bft_stats(const struct bft *b, struct bft_stats *s)
{
    const struct bft_core_counts *c = &b->core.count;
    *s = (struct bft_stats){.view = b->core.view,
                            .slots = b->core.applied,
                            .messages = b->messages,
                            .views = c->views,
                            .new_views = c->new_views,
                            .certified = c->certified,
                            .committed = c->committed,
                            .proposed = c->proposed,
                            .vouched = c->vouched,
                            .checkpoints = c->checkpoints,
                            .loads = b->loads,
                            .jumps = c->jumps,
                            .joins = c->joins,
                            .taken_over = c->taken_over,
                            .convicted = convicted_bits(b),
                            .epoch = bft_epoch_number(b),
                            .panics = b->panics,
                            .fast = bft_epoch_is_fast(b),
                            .votes = b->core.votes,
                            .bytes = b->bytes + b->core.bytes + bft_talk_bytes(b->talk),
                            .timeout_ns = b->core.timeout};
    memcpy(s->life, b->core.life, sizeof(s->life));
}

const char *bft_broken(const struct bft *b)
{
    return b->core.broken;
}

const char *bft_convicted(const struct bft *b, uint32_t rank)
{
    return b->line[rank][0] ? b->line[rank] : NULL;
}

uint64_t bft_source_taken(const struct bft *b, uint32_t source, uint16_t *lf)
{
    if (lf)
        *lf = b->source[source].life;
    return b->source[source].taken;
}

const char *bft_check(const struct bft *b)
{
    const struct bft_core *c = &b->core;
    if (c->applied < c->stable.slot || c->applied > c->stable.slot + BFT_SLOTS)
        return "what is applied is within the window";
    if (c->said.view > c->view || c->said.stable > c->stable.slot)
        return "nothing was said ahead of where it is";
    if (c->said_place < c->vouched_place || c->said_place - c->vouched_place > c->opt.half)
        return "what is not vouched for is within half a window";
    if (!c->votes && c->said_place > 0)
        return "a member that is not back says nothing";
    return c->said.fault ? "it departs from the protocol itself" : NULL;
}

/* ---- as a unit ---- */

static int unit_of_post(struct unit *u, uint64_t now_ns)
{
    return bft_post(u->of, now_ns);
}

static bool leads(const struct bft *b)
{
    return b->core.votes && b->core.view % b->opt.members == b->opt.rank &&
           b->core.said.next != BFT_NO_SLOT;
}

static int unit_of_settle(struct unit *u, uint64_t now_ns)
{
    struct bft *b = u->of;
    int work = bft_settle(b, now_ns);
    u->leads = leads(b);
    u->broken = b->core.broken;
    return work;
}

static uint64_t unit_of_next_ns(const struct unit *u)
{
    return bft_next_ns(u->of);
}

static void unit_of_status(const struct unit *u, struct unit_status *s)
{
    const struct bft *b = u->of;
    *s = (struct unit_status){.role = !b->core.votes ? UNIT_JOINING
                                      : leads(b)     ? UNIT_LEADER
                                                     : UNIT_FOLLOWER,
                              .leader = b->nodes[b->core.view % b->opt.members],
                              .epoch = leads(b) ? b->core.view : 0,
                              .promised = b->core.view,
                              .applied = b->pos,
                              .committed = b->pos,
                              .written = b->pos,
                              .delivered = b->messages,
                              .behind = b->loading.on,
                              .broken = b->core.broken,
                              .convicted = convicted_bits(b),
                              .count = {.messages = b->messages,
                                        .terms = b->core.count.new_views,
                                        .candidacies = b->core.count.views,
                                        .snapshots_loaded = b->loads}};
    for (uint32_t p = 0; p < b->opt.members; p++) {
        s->convicted_why[p] = b->why[p];
        s->shown |= (uint32_t)b->evidence[p].there << p;
    }
}

static const char *unit_of_check(const struct unit *u)
{
    return bft_check(u->of);
}

static void unit_of_close(struct unit *u)
{
    bft_close(u->of);
}

struct unit bft_unit(struct bft *b)
{
    static const struct unit_ops ops = {.post = unit_of_post,
                                        .settle = unit_of_settle,
                                        .next_ns = unit_of_next_ns,
                                        .status = unit_of_status,
                                        .check = unit_of_check,
                                        .close = unit_of_close};
    return (struct unit){.ops = &ops, .of = b, .region = b->opt.region};
}
