/* States: saved at checkpoints, and loaded by whoever lacks what is before one. A member asks one other for the whole of it, part by part; what does not
 * have the digest that f+1 have signed is thrown away, and another is asked. */
#include "agree/bft_impl.h"

#include "base/minmax.h"

#include <stdlib.h>

static uint32_t head_bytes(const struct bft *b)
{
    return (uint32_t)(sizeof(struct bft_saved_head) +
                      b->opt.sources * sizeof(struct bft_saved_source));
}

static uint32_t saved_bytes_max(const struct bft *b)
{
    return head_bytes(b) + b->opt.state_bytes_max;
}

bool bft_load_open(struct bft *b)
{
    bool good = true;
    for (uint32_t i = 0; i < SAVES_MAX; i++)
        good = (b->saved[i].data = bft_memory_open(b, saved_bytes_max(b))) && good;
    return (b->loading.data = bft_memory_open(b, saved_bytes_max(b))) && good;
}

void bft_load_close(struct bft *b)
{
    if (b->saving)
        b->opt.machine->state->save_close(b->opt.ctx, b->save);
    for (uint32_t i = 0; i < SAVES_MAX; i++)
        free(b->saved[i].data);
    free(b->loading.data);
}

/* ---- saving ---- */

/* The oldest that is not the stable one or beyond it. */
static struct bft_saved *free_saved(struct bft *b)
{
    struct bft_saved *oldest = NULL;
    for (uint32_t i = 0; i < SAVES_MAX; i++) {
        struct bft_saved *s = &b->saved[i];
        if (s->slot < b->core.stable.slot || s->slot == 0)
            oldest = oldest == NULL || s->slot < oldest->slot ? s : oldest;
    }
    return oldest;
}

static void put_head(struct bft *b, struct bft_saved *s)
{
    struct bft_saved_head *h = (void *)s->data;
    struct bft_saved_source *at = (void *)(h + 1);
    *h = (struct bft_saved_head){
        .pos = b->pos, .messages = b->messages, .epoch = bft_epoch_number(b)};
    for (uint32_t i = 0; i < b->opt.sources; i++)
        at[i] = (struct bft_saved_source){
            .taken = b->source[i].taken, .life = b->source[i].life, .chain = b->source[i].chain};
    s->bytes = head_bytes(b);
}

bool bft_load_save(void *ctx, uint64_t slot)
{
    struct bft *b = ctx;
    const struct state_ops *ops = b->opt.machine->state;
    struct bft_saved *s = free_saved(b);
    uint64_t bytes = STATE_UNKNOWN;
    if (s == NULL || !state_save_ready(ops, b->opt.ctx))
        return false;
    b->save = ops->save_open(b->opt.ctx, &bytes);
    if (b->save == NULL) {
        b->core.broken = "the machine's state cannot be saved";
        return false;
    }
    s->slot = slot;
    put_head(b, s);
    b->saving = s;
    return true;
}

static void end_save(struct bft *b)
{
    struct bft_saved *s = b->saving;
    b->opt.machine->state->save_close(b->opt.ctx, b->save);
    b->saving = NULL;
    bft_core_saved(&b->core, s->slot, digest_of(s->data, s->bytes));
}

static int save_step(struct bft *b)
{
    struct bft_saved *s = b->saving;
    uint32_t room = (uint32_t)min_u64(saved_bytes_max(b) - s->bytes, STATE_PIECE_BYTES);
    unsigned char more[8];
    int got =
        b->opt.machine->state->save_next(b->opt.ctx, b->save, room ? s->data + s->bytes : more,
                                         room ? room : (uint32_t)sizeof(more));
    if (got < 0 || (got > 0 && room == 0))
        b->core.broken = "the machine's state is larger than state_bytes_max";
    else if (got == 0)
        end_save(b);
    else
        s->bytes += (uint32_t)got;
    return 1;
}

/* ---- giving ---- */

static const struct bft_saved *saved_of(const struct bft *b, uint64_t slot)
{
    for (uint32_t i = 0; i < SAVES_MAX; i++)
        if (b->saved[i].slot == slot && &b->saved[i] != b->saving)
            return &b->saved[i];
    return NULL;
}

void bft_load_give(struct bft *b, uint32_t to, const struct bft_frame *f)
{
    const struct bft_saved *s = f->number > 0 ? saved_of(b, f->number) : NULL;
    if (s == NULL || f->key >= s->bytes)
        return;
    bft_tell(b, to,
             &(struct bft_frame){
                 .kind = BFT_FRAME_STATE, .number = f->number, .key = f->key, .more = s->bytes},
             s->data + f->key, (uint32_t)min_u64(PART_BYTES, s->bytes - f->key));
}

/* ---- loading ---- */

static void ask(struct bft *b)
{
    const struct bft_loading *l = &b->loading;
    bft_tell(b, l->from,
             &(struct bft_frame){.kind = BFT_FRAME_ASK_STATE,
                                 .number = l->at.slot,
                                 .name = l->at.state,
                                 .key = l->bytes},
             NULL, 0);
}

static void ask_another(struct bft *b)
{
    struct bft_loading *l = &b->loading;
    do
        l->from = (l->from + 1) % b->opt.members;
    while (l->from == b->opt.rank);
    l->bytes = 0;
    l->beats = 0;
    ask(b);
}

static bool load_machine(struct bft *b)
{
    const struct state_ops *ops = b->opt.machine->state;
    const struct bft_loading *l = &b->loading;
    uint32_t at = head_bytes(b);
    int rc = ops->load_open(b->opt.ctx, l->bytes - at);
    while (rc >= 0 && at < l->bytes) {
        uint32_t bytes = (uint32_t)min_u64(l->bytes - at, STATE_PIECE_BYTES);
        rc = ops->load_next(b->opt.ctx, l->data + at, bytes);
        at += bytes;
    }
    return ops->load_close(b->opt.ctx, rc >= 0) >= 0 && rc >= 0;
}

static void keep_loaded(struct bft *b)
{
    const struct bft_loading *l = &b->loading;
    struct bft_saved *s = free_saved(b);
    if (s == NULL)
        return;
    s->slot = l->at.slot;
    s->bytes = l->bytes;
    memcpy(s->data, l->data, l->bytes);
}

static void loaded(struct bft *b)
{
    struct bft_loading *l = &b->loading;
    const struct bft_saved_head *h = (const void *)l->data;
    const struct bft_saved_source *at = (const void *)(h + 1);
    l->on = false;
    if (!load_machine(b)) {
        b->core.broken = "the machine does not take a state that f+1 members have signed";
        return;
    }
    b->pos = h->pos;
    b->messages = h->messages;
    b->apply_at = 0;
    bft_epoch_end(b, h->epoch);
    b->was_open = false;
    for (uint32_t i = 0; i < b->opt.sources; i++)
        bft_feed_loaded(b, i, &at[i]);
    keep_loaded(b);
    b->loads++;
    bft_core_loaded(&b->core, &l->at, l->mark);
    WATCH(b, loaded, &l->at);
}

void bft_load_take(struct bft *b, uint32_t from, const struct bft_frame *f, uint32_t bytes)
{
    struct bft_loading *l = &b->loading;
    if (!l->on || from != l->from || f->number != l->at.slot || f->key != l->bytes || bytes == 0 ||
        f->more > saved_bytes_max(b) || f->more < head_bytes(b) || f->key + bytes > f->more)
        return;
    memcpy(l->data + l->bytes, f->data, bytes);
    l->bytes += bytes;
    l->beats = 0;
    if (l->bytes < f->more)
        ask(b);
    else if (b->saving || l->at.slot <= b->core.applied)
        l->on = false;
    else if (digest_equal(digest_of(l->data, l->bytes), l->at.state))
        loaded(b);
    else
        ask_another(b);
}

static void begin(struct bft *b)
{
    struct bft_loading *l = &b->loading;
    l->on = true;
    l->at = b->core.ahead;
    memcpy(l->mark, b->core.ahead_mark, sizeof(l->mark));
    ask_another(b);
}

/* What is missing may still come by itself; a member that is back has nothing to wait for. */
void bft_load_beat(struct bft *b)
{
    struct bft_loading *l = &b->loading;
    if (l->asked_applied != b->core.applied)
        l->waited = 0;
    l->asked_applied = b->core.applied;
    if (b->core.ahead.slot <= b->core.applied || b->saving) {
        l->on = false;
        return;
    }
    if (l->on && ++l->beats > PATIENCE_BEATS)
        l->on = false; /* and from another, perhaps a later one */
    else if (l->on)
        ask(b);
    if (!l->on && (!b->core.votes || ++l->waited > PATIENCE_BEATS))
        begin(b);
}

int bft_load_step(struct bft *b)
{
    return b->saving ? save_step(b) : 0;
}
