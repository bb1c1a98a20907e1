#include "agree/bft_neb_impl.h"

#include "lane/names.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static uint32_t row_bytes(const struct neb_options *o)
{
    uint32_t bytes = MEM_PAGE_BYTES;
    while (bytes < o->members * o->window * sizeof(struct neb_cell))
        bytes *= 2;
    return bytes;
}

static int check_options(const struct neb_options *o, struct err *e)
{
    if (o->members < 1 || o->members > NEB_MEMBERS_MAX || o->rank >= o->members)
        return err_set(e, ERR_INVALID, "broadcast: rank %u of %u members; at most %u are possible",
                       o->rank, o->members, NEB_MEMBERS_MAX);
    if (o->memories && (o->memory_count > NEB_MEMORIES_MAX || o->memory_count % 2 == 0))
        return err_set(e, ERR_INVALID, "broadcast: %u memories; 1, 3 or 5 are possible",
                       o->memory_count);
    if (o->window < 2 || o->window > NEB_WINDOW_MAX)
        return err_set(e, ERR_INVALID, "broadcast: a window of %u; 2 to %u are possible", o->window,
                       NEB_WINDOW_MAX);
    return 0;
}

static int open_rows(struct neb *n, struct err *e)
{
    const struct neb_options *o = &n->opt;
    struct mem_lane_spec specs[NEB_MEMBERS_MAX * NEB_MEMORIES_MAX] = {0};
    struct mem_lane *lanes[NEB_MEMBERS_MAX * NEB_MEMORIES_MAX];
    uint32_t count = 0;
    for (uint32_t p = 0; p < o->members; p++)
        for (uint32_t j = 0; j < n->holders; j++) {
            uint32_t owner = o->memories ? o->memories[j] : n->nodes[p];
            specs[count] = lane_spec(o->region, owner, n->nodes[p], LANE_NEB, 0);
            specs[count].ctl_words = 1;
            specs[count++].ring_bytes = row_bytes(o);
        }
    int rc = mem_lanes_open(o->mem, specs, count, lanes, e);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        n->lane[i / n->holders][i % n->holders] = lanes[i];
    return rc;
}

static void open_flow(struct neb *n, uint32_t j)
{
    const struct neb_options *o = &n->opt;
    uint32_t owner = o->memories ? o->memories[j] : n->nodes[o->rank];
    mem_flow_open(o->mem, &n->holder[j].flow, owner, o->region, 0);
}

static int open_hearings(struct neb *n, struct err *e)
{
    n->mine = calloc(n->opt.members, sizeof(*n->mine));
    bool good = n->mine != NULL;
    for (uint32_t q = 0; good && q < n->opt.members; q++) {
        struct hearing *h = &n->hear[q];
        *h = (struct hearing){.next = neb_key(n->life[q], 1)};
        h->probe = calloc(n->opt.members, sizeof(*h->probe));
        good = h->probe != NULL;
    }
    return good ? 0 : err_set(e, ERR_NOMEM, "broadcast: no memory for %u members", n->opt.members);
}

int neb_open(const struct neb_options *o, struct neb **out, struct err *e)
{
    int rc = check_options(o, e);
    if (rc != 0)
        return rc;
    struct neb *n = calloc(1, sizeof(*n));
    if (!n)
        return err_set(e, ERR_NOMEM, "broadcast: no memory");
    n->opt = *o;
    memcpy(n->nodes, o->nodes, o->members * sizeof(*n->nodes));
    memcpy(n->life, o->life, o->members * sizeof(*n->life));
    n->holders = o->memories ? o->memory_count : 1;
    n->needed = n->holders / 2 + 1;
    rc = open_hearings(n, e);
    rc = rc == 0 ? open_rows(n, e) : rc;
    for (uint32_t j = 0; rc == 0 && j < n->holders; j++)
        open_flow(n, j);
    if (rc == 0)
        *out = n;
    else
        neb_close(n);
    return rc;
}

void neb_close(struct neb *n)
{
    for (uint32_t q = 0; q < n->opt.members; q++)
        free(n->hear[q].probe);
    free(n->mine);
    free(n);
}

/* ---- the own row ---- */

struct sign_text neb_text(const struct neb *n, uint32_t sender, const struct neb_cell *c)
{
    return (struct sign_text){.tag = SIGN_TAG,
                              .cluster = n->opt.cluster,
                              .group = n->opt.region,
                              .role = SIGN_BROADCAST,
                              .signer = sender,
                              .life = (uint32_t)(c->key >> NEB_LIFE_SHIFT),
                              .number = neb_place(c->key),
                              .more = c->bytes,
                              .digest = c->digest};
}

static void put_cell(struct neb *n, uint32_t j, uint32_t sender, uint64_t slot)
{
    mem_put(n->opt.mem, &n->holder[j].flow, n->lane[n->opt.rank][j], neb_offset(n, sender, slot),
            &n->mine[sender][slot], sizeof(struct neb_cell));
}

uint64_t neb_write(struct neb *n, uint32_t sender, const struct neb_cell *c)
{
    uint64_t slot = neb_slot(n, neb_place(c->key));
    n->mine[sender][slot] = *c;
    n->tag++;
    for (uint32_t j = 0; j < n->holders; j++)
        put_cell(n, j, sender, slot);
    return n->tag;
}

bool neb_written(const struct neb *n, uint64_t tag)
{
    uint32_t count = 0;
    for (uint32_t j = 0; j < n->holders; j++)
        count += n->holder[j].flow.status == MEM_DONE && n->holder[j].flow.done >= tag;
    return count >= n->needed;
}

/* A memory that was out of reach gets the whole row again: what went out before may have landed or not. */
static void rewrite(struct neb *n, uint32_t j)
{
    open_flow(n, j);
    n->holder[j].marked = 0;
    for (uint32_t q = 0; q < n->opt.members; q++)
        for (uint64_t slot = 0; slot < n->opt.window; slot++)
            if (n->mine[q][slot].key != 0)
                put_cell(n, j, q, slot);
}

static void mark_writes(struct neb *n)
{
    for (uint32_t j = 0; j < n->holders; j++) {
        struct holder *h = &n->holder[j];
        if (h->flow.status != MEM_DONE)
            rewrite(n, j);
        if (h->marked == n->tag)
            continue;
        mem_mark(n->opt.mem, &h->flow, n->tag);
        h->marked = n->tag;
    }
}

/* ---- saying ---- */

static uint64_t half(const struct neb *n)
{
    return n->opt.window / 2;
}

static struct saying *saying_of(struct neb *n, uint64_t place)
{
    return &n->say[place % half(n)];
}

int neb_broadcast(struct neb *n, uint64_t bytes, struct digest digest)
{
    uint64_t place = n->said + 1;
    if (place > n->vouched + half(n) || place > n->delivered + half(n))
        return ERR_AGAIN;
    struct saying *s = saying_of(n, place);
    const struct neb_cell c = {
        .key = neb_key(n->life[n->opt.rank], place), .bytes = bytes, .digest = digest};
    *s = (struct saying){.job = {.text = neb_text(n, n->opt.rank, &c)}};
    signer_submit(n->opt.signer, &s->job);
    n->said = place;
    return 0;
}

void neb_vouched(struct neb *n, uint64_t key)
{
    if (key >> NEB_LIFE_SHIFT == n->life[n->opt.rank] && neb_place(key) > n->vouched)
        n->vouched = neb_place(key);
}

/* What is signed is written, in order. */
static int write_own(struct neb *n)
{
    int work = 0;
    for (; n->signed_to < n->said; n->signed_to++, work++) {
        struct saying *s = saying_of(n, n->signed_to + 1);
        const struct sign_text *t = &s->job.text;
        if (s->job.state != SIGN_GOOD)
            break;
        struct neb_cell c = {
            .key = neb_key(t->life, t->number), .bytes = t->more, .digest = t->digest};
        c.key_again = c.key;
        memcpy(c.signature, s->job.signature, sizeof(c.signature));
        s->written = neb_write(n, n->opt.rank, &c);
    }
    return work;
}

/* Nobody else can have signed another: what is written is heard. */
static int hear_own(struct neb *n)
{
    int work = 0;
    for (; n->delivered < n->signed_to; work++) {
        struct saying *s = saying_of(n, n->delivered + 1);
        const struct sign_text *t = &s->job.text;
        if (!neb_written(n, s->written))
            break;
        const struct neb_message m = {
            .key = neb_key(t->life, t->number), .bytes = t->more, .digest = t->digest};
        n->delivered++;
        n->hear[n->opt.rank].next = m.key + 1;
        n->opt.calls->deliver(n->opt.ctx, n->opt.rank, &m);
    }
    return work;
}

/* ---- rounds ---- */

int neb_post(struct neb *n)
{
    int work = write_own(n);
    for (uint32_t q = 0; q < n->opt.members; q++)
        if (q != n->opt.rank)
            work += hearing_post(n, q);
    mark_writes(n);
    return work;
}

int neb_settle(struct neb *n)
{
    int work = hear_own(n);
    for (uint32_t q = 0; q < n->opt.members; q++)
        if (q != n->opt.rank)
            work += hearing_settle(n, q);
    return work;
}

uint64_t neb_next(const struct neb *n, uint32_t sender)
{
    return n->hear[sender].next;
}

bool neb_lapped(const struct neb *n, uint32_t sender)
{
    return n->hear[sender].state == HEAR_LAPPED;
}

bool neb_is_convicted(const struct neb *n, uint32_t sender)
{
    return n->hear[sender].state == HEAR_CONVICTED;
}
