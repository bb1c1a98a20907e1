/* Hearing one member: find its next message in a row, copy it into the own row, and only then look whether anybody has another. */
#include "agree/bft_neb_impl.h"

#include <string.h>

/* ---- one cell ---- */

static void probe_read(struct neb *n, uint32_t sender, uint32_t row, uint32_t j, struct probe *p,
                       uint64_t place)
{
    mem_read_ring(n->opt.mem, &p->op, n->lane[row][j], neb_offset(n, sender, place), &p->cell,
                  sizeof(p->cell));
}

/* Looks into a cell; one that is busy with what nobody waits for any more is left alone. */
static void probe_begin(struct neb *n, uint32_t sender, uint32_t row, uint32_t j)
{
    const struct hearing *h = &n->hear[sender];
    struct probe *p = &h->probe[row][j];
    if (p->state >= PROBE_READ && p->state <= PROBE_CHECK_BEFORE)
        return;
    p->state = PROBE_READ;
    p->seen = SEEN_NOTHING;
    p->stale = false;
    probe_read(n, sender, row, j, p, neb_place(h->next));
}

static bool looks_whole(const struct neb_cell *c)
{
    return c->key == c->key_again && c->zero == 0;
}

/* A cell of another place than may stand here is not good: else a liar could show a reader the next message in the cell of this one. */
static bool belongs(const struct neb *n, const struct neb_cell *c, uint64_t place)
{
    return neb_slot(n, neb_place(c->key)) == neb_slot(n, place);
}

static void probe_check(struct neb *n, uint32_t sender, uint32_t row, struct probe *p)
{
    p->job = (struct sign_job){.check = true, .text = neb_text(n, sender, &p->cell)};
    if (PLANTED(neb_own_sig) && n->hear[sender].state == HEAR_LOOK)
        p->job.text.signer = row;
    memcpy(p->job.signature, p->cell.signature, SIGN_BYTES);
    signer_submit(n->opt.signer, &p->job);
}

static void probe_end(struct probe *p, enum seen seen)
{
    p->seen = seen;
    p->state = PROBE_ENDED;
}

/* It may be in the middle of giving way to one of the next lap. The cell before it was written before, so it is read after. */
static void probe_not_good(struct neb *n, uint32_t sender, uint32_t row, uint32_t j,
                           struct probe *p)
{
    const struct hearing *h = &n->hear[sender];
    uint64_t place = neb_place(h->next);
    if (h->state == HEAR_FIND || PLANTED(neb_skips_torn)) {
        probe_end(p, SEEN_NOTHING);
        return;
    }
    if (PLANTED(neb_waits_torn)) {
        p->state = PROBE_READ;
        probe_read(n, sender, row, j, p, place);
        return;
    }
    p->state = PROBE_READ_BEFORE;
    probe_read(n, sender, row, j, p, place + n->opt.window - 1);
}

static bool is_ours(const struct neb_cell *a, const struct neb_cell *b)
{
    return a->key == b->key && a->bytes == b->bytes && digest_equal(a->digest, b->digest);
}

/* Most cells are what we have, or older: they cost no check. */
static void probe_judge(struct neb *n, uint32_t sender, uint32_t row, uint32_t j, struct probe *p)
{
    const struct hearing *h = &n->hear[sender];
    const struct neb_cell *c = &p->cell;
    if (h->state == HEAR_LOOK && looks_whole(c) && is_ours(c, &h->cell))
        probe_end(p, SEEN_EQUAL);
    else if (looks_whole(c) && c->key < h->next)
        probe_end(p, SEEN_NOTHING);
    else if (looks_whole(c) && belongs(n, c, neb_place(h->next))) {
        p->state = PROBE_CHECK;
        probe_check(n, sender, row, p);
    } else
        probe_not_good(n, sender, row, j, p);
}

static void probe_checked(struct neb *n, uint32_t sender, uint32_t row, uint32_t j, struct probe *p)
{
    uint64_t next = n->hear[sender].next;
    if (p->job.state == SIGN_BAD)
        probe_not_good(n, sender, row, j, p);
    else if (p->cell.key == next)
        probe_end(p, SEEN_PLACE);
    else
        probe_end(p, PLANTED(neb_no_lap) ? SEEN_NOTHING : SEEN_LATER);
}

static void probe_judge_before(struct neb *n, uint32_t sender, uint32_t row, struct probe *p)
{
    uint64_t next = n->hear[sender].next;
    const struct neb_cell *c = &p->cell;
    if (looks_whole(c) && c->key > next && belongs(n, c, neb_place(next) + n->opt.window - 1)) {
        p->state = PROBE_CHECK_BEFORE;
        probe_check(n, sender, row, p);
    } else
        probe_end(p, SEEN_NOTHING);
}

/* What it waited for has come. */
static void probe_go_on(struct neb *n, uint32_t sender, uint32_t row, uint32_t j, struct probe *p)
{
    switch (p->state) {
    case PROBE_READ:
        probe_judge(n, sender, row, j, p);
        break;
    case PROBE_CHECK:
        probe_checked(n, sender, row, j, p);
        break;
    case PROBE_READ_BEFORE:
        probe_judge_before(n, sender, row, p);
        break;
    case PROBE_CHECK_BEFORE:
        probe_end(p, p->job.state == SIGN_GOOD && !PLANTED(neb_no_lap) ? SEEN_LATER : SEEN_NOTHING);
        break;
    default:
        break;
    }
}

static bool probe_waits(const struct probe *p)
{
    bool reads = p->state == PROBE_READ || p->state == PROBE_READ_BEFORE;
    bool checks = p->state == PROBE_CHECK || p->state == PROBE_CHECK_BEFORE;
    return (reads && p->op.status == MEM_PENDING) || (checks && p->job.state == SIGN_UNDER_WAY);
}

static int probe_step(struct neb *n, uint32_t sender, uint32_t row, uint32_t j)
{
    struct probe *p = &n->hear[sender].probe[row][j];
    bool reads = p->state == PROBE_READ || p->state == PROBE_READ_BEFORE;
    if (p->state == PROBE_FREE || p->state >= PROBE_ENDED || probe_waits(p))
        return 0;
    if (p->stale)
        p->state = PROBE_FREE;
    else if (reads && p->op.status != MEM_DONE)
        p->state = PROBE_LOST;
    else
        probe_go_on(n, sender, row, j, p);
    return 1;
}

/* ---- rows ---- */

/* Of the row enough is known. A member's own memory that cannot be read has nothing that counts: whoever wrote there is not correct, or would find
 * our copy. */
static bool row_ended(const struct neb *n, const struct hearing *h, uint32_t row)
{
    uint32_t ended = 0, lost = 0;
    for (uint32_t j = 0; j < n->holders; j++) {
        const struct probe *p = &h->probe[row][j];
        ended += !p->stale && p->state == PROBE_ENDED;
        lost += !p->stale && p->state == PROBE_LOST;
    }
    return ended >= n->needed || (!n->opt.memories && lost > 0);
}

/* Planted. As printed, a register of which two memories have two values has none; but one may just be giving way to the other. */
static bool row_hidden(const struct neb *n, const struct hearing *h, uint32_t row)
{
    const struct probe *first = NULL;
    bool differ = false;
    for (uint32_t j = 0; PLANTED(neb_hides_two) && j < n->holders; j++) {
        const struct probe *p = &h->probe[row][j];
        if (p->stale || p->state != PROBE_ENDED || !looks_whole(&p->cell))
            continue;
        differ |= first && !is_ours(&first->cell, &p->cell);
        first = first ? first : p;
    }
    return differ;
}

/* A probe of the row that has seen this; NULL: none has. */
static const struct probe *row_saw(const struct neb *n, const struct hearing *h, uint32_t row,
                                   enum seen seen)
{
    for (uint32_t j = 0; j < n->holders; j++) {
        const struct probe *p = &h->probe[row][j];
        if (!p->stale && p->state == PROBE_ENDED && p->seen == seen && !row_hidden(n, h, row))
            return p;
    }
    return NULL;
}

static void go_to(struct neb *n, struct hearing *h, enum hearing_state state)
{
    for (uint32_t row = 0; row < n->opt.members; row++)
        for (uint32_t j = 0; j < n->holders; j++)
            h->probe[row][j].stale = true;
    h->looking = false;
    h->state = state;
}

/* ---- states ---- */

/* The sender's own row in every other turn; in between one of the others, which may have a copy of what that has no more. */
static uint32_t row_now(const struct neb *n, const struct hearing *h, uint32_t sender)
{
    uint32_t other = h->tries / 2 % n->opt.members;
    return h->tries % 2 == 0 || other == n->opt.rank ? sender : other;
}

static int find_settle(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    uint32_t row = row_now(n, h, sender);
    if (!h->looking || !row_ended(n, h, row))
        return 0;
    const struct probe *found = row_saw(n, h, row, SEEN_PLACE);
    bool later = row_saw(n, h, row, SEEN_LATER) != NULL;
    if (found)
        h->cell = found->cell;
    h->tries++;
    if (found)
        go_to(n, h, PLANTED(neb_read_first) ? HEAR_LOOK : HEAR_COPY);
    else
        go_to(n, h, later ? HEAR_LAPPED : HEAR_FIND);
    h->written = 0;
    return found || later;
}

static int copy_settle(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    if (h->written == 0 || !neb_written(n, h->written))
        return 0;
    go_to(n, h, PLANTED(neb_read_first) ? HEAR_BODY : HEAR_LOOK);
    return 1;
}

static bool all_rows_ended(const struct neb *n, const struct hearing *h)
{
    for (uint32_t row = 0; row < n->opt.members; row++)
        if (row != n->opt.rank && !row_ended(n, h, row))
            return false;
    return true;
}

static int look_settle(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    bool later = false;
    if (!h->looking || !all_rows_ended(n, h))
        return 0;
    for (uint32_t row = 0; row < n->opt.members; row++) {
        if (row == n->opt.rank)
            continue;
        const struct probe *other = row_saw(n, h, row, SEEN_PLACE);
        later |= row_saw(n, h, row, SEEN_LATER) != NULL;
        if (other) {
            n->opt.calls->convicted(n->opt.ctx, sender, &h->cell, &other->cell);
            go_to(n, h, HEAR_CONVICTED);
            return 1;
        }
    }
    if (later)
        go_to(n, h, HEAR_LAPPED);
    else
        go_to(n, h, PLANTED(neb_read_first) ? HEAR_COPY : HEAR_BODY);
    return 1;
}

static int body_settle(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    const struct neb_message m = {
        .key = h->cell.key, .bytes = h->cell.bytes, .digest = h->cell.digest};
    if (!n->opt.calls->has_body(n->opt.ctx, sender, &m))
        return 0;
    h->next = m.key + 1;
    h->tries = 0;
    go_to(n, h, HEAR_FIND);
    n->opt.calls->deliver(n->opt.ctx, sender, &m);
    return 1;
}

/* One that was still busy, or whose memory was out of reach, is begun again. */
static bool begins(const struct neb *n, const struct probe *p)
{
    return p->stale || (p->state == PROBE_LOST && n->opt.memories);
}

static void look_post(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    for (uint32_t row = 0; row < n->opt.members; row++)
        for (uint32_t j = 0; row != n->opt.rank && j < n->holders; j++)
            if (begins(n, &h->probe[row][j]))
                probe_begin(n, sender, row, j);
    h->looking = true;
}

static void find_post(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    uint32_t row = row_now(n, h, sender);
    for (uint32_t j = 0; j < n->holders; j++)
        if (begins(n, &h->probe[row][j]) || !h->looking)
            probe_begin(n, sender, row, j);
    h->looking = true;
}

int hearing_post(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    if (h->state == HEAR_FIND)
        find_post(n, sender);
    else if (h->state == HEAR_LOOK)
        look_post(n, sender);
    else if (h->state == HEAR_COPY && h->written == 0)
        h->written = neb_write(n, sender, &h->cell);
    return 0;
}

int hearing_settle(struct neb *n, uint32_t sender)
{
    struct hearing *h = &n->hear[sender];
    int work = 0;
    for (uint32_t row = 0; row < n->opt.members; row++)
        for (uint32_t j = 0; j < n->holders; j++)
            work += probe_step(n, sender, row, j);
    switch (h->state) {
    case HEAR_FIND:
        return work + find_settle(n, sender);
    case HEAR_COPY:
        return work + copy_settle(n, sender);
    case HEAR_LOOK:
        return work + look_settle(n, sender);
    case HEAR_BODY:
        return work + body_settle(n, sender);
    default:
        return work;
    }
}

void neb_jump(struct neb *n, uint32_t sender, uint64_t key)
{
    struct hearing *h = &n->hear[sender];
    if (key < h->next || h->state == HEAR_CONVICTED)
        return;
    h->next = key + 1;
    h->tries = 0;
    h->written = 0;
    go_to(n, h, HEAR_FIND);
}

void neb_life(struct neb *n, uint32_t sender, uint32_t life)
{
    struct hearing *h = &n->hear[sender];
    if (life <= n->life[sender] || h->state == HEAR_CONVICTED)
        return;
    n->life[sender] = life;
    h->next = neb_key(life, 1);
    h->tries = 0;
    h->written = 0;
    go_to(n, h, HEAR_FIND);
}

void neb_convict(struct neb *n, uint32_t sender)
{
    go_to(n, &n->hear[sender], HEAR_CONVICTED);
}
