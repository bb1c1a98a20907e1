/* Lies in cells of the broadcast: signed and false, or signed by somebody else or for something else. */
#include "sim/hostile_impl.h"

#include "lane/names.h"
#include "sim/sim_signer.h"

#include <string.h>

static struct sign_text cell_text(const struct hostiles_options *o, uint32_t sender,
                                  const struct neb_cell *c)
{
    return (struct sign_text){.tag = SIGN_TAG,
                              .cluster = o->cluster,
                              .group = o->region,
                              .role = SIGN_BROADCAST,
                              .signer = sender,
                              .life = (uint32_t)(c->key >> NEB_LIFE_SHIFT),
                              .number = neb_place(c->key),
                              .more = c->bytes,
                              .digest = c->digest};
}

struct neb_cell hostile_cell(const struct hostiles_options *o, uint32_t sender, uint64_t key,
                             uint64_t bytes, struct digest digest)
{
    struct neb_cell c = {.key = key, .key_again = key, .bytes = bytes, .digest = digest};
    const struct sign_text t = cell_text(o, sender, &c);
    sim_sign(o->key_seed, &t, c.signature);
    return c;
}

void hostile_elsewhere(struct rng *g, uint32_t liar, struct sign_text *t)
{
    switch (rng_below(g, 5)) {
    case 0:
        t->group++;
        break;
    case 1:
        t->cluster++;
        break;
    case 2:
        t->role++;
        break;
    case 3:
        t->life++;
        break;
    default: /* it is only the liar's own */
        t->signer = liar;
        break;
    }
}

/* Another message for the place, with a signature that is good for something else. */
static struct neb_cell forged(struct hostile *h, uint32_t sender, const struct neb_cell *like)
{
    struct neb_cell c = *like;
    c.digest.word[0] ^= 1 + rng_below(&h->all->rng, 3);
    struct sign_text t = cell_text(&h->all->opt, sender, &c);
    hostile_elsewhere(&h->all->rng, h->rank, &t);
    sim_sign(h->all->opt.key_seed, &t, c.signature);
    return c;
}

static void show(struct hostile *h, struct row *r, uint32_t sender, const struct neb_cell *c)
{
    const uint64_t w = h->all->opt.window;
    uint64_t at = (sender * w + neb_place(c->key) % w) * sizeof(*c);
    bool half = hostile_draw(h, 200);
    h->all->figures.lies++;
    hostile_row_write(h, r, at, c, half ? sizeof(*c) / 2 : sizeof(*c), 0);
}

/* It has gone on by a lap or two, or so it seems, and then it has not. */
static void lap(struct hostile *h, struct row *r, const struct neb_cell *c)
{
    const uint64_t key = c->key + h->all->opt.window * rng_range(&h->all->rng, 1, 2);
    const struct neb_cell later = hostile_cell(&h->all->opt, h->rank, key, c->bytes, c->digest);
    show(h, r, h->rank, &later);
    if (hostile_draw(h, 700))
        show(h, r, h->rank, c);
}

void hostile_cell_lies(struct hostile *h, struct row *r, uint64_t at, const struct neb_cell *c)
{
    const uint32_t sender = (uint32_t)(at / sizeof(*c) / h->all->opt.window);
    if (!hostile_draw(h, h->rate))
        return;
    if (h->strategy == HOSTILE_lap && sender == h->rank)
        lap(h, r, c);
    if (h->strategy == HOSTILE_forge && sender != h->rank) {
        const struct neb_cell f = forged(h, sender, c);
        show(h, r, sender, &f);
    }
    if (h->strategy == HOSTILE_replay && r->writes > 0) {
        const struct row_write *w = &r->write[rng_below(&h->all->rng, r->writes)];
        h->all->figures.lies++;
        hostile_row_write(h, r, w->at, w->data, w->bytes, 0);
    }
}
