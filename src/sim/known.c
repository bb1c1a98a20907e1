#include "sim/known.h"

#include <stdlib.h>
#include <string.h>

void known_free(struct known *k)
{
    for (uint32_t i = 0; i < KNOWN_BODIES_MAX; i++)
        free(k->body[i].data);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static const struct known_thing *find(const struct known *k, const struct sign_text *t)
{
    for (uint64_t i = 0; i < least(k->things, KNOWN_THINGS_MAX); i++) {
        const struct known_thing *o = &k->thing[i];
        if (o->role == t->role && o->number == t->number && o->more == t->more &&
            digest_equal(o->digest, t->digest))
            return o;
    }
    return NULL;
}

bool known_is_signed(const struct known *k, const struct sign_text *t)
{
    const struct known_thing *o = find(k, t);
    return o && o->ranks >> t->signer & 1;
}

static struct known_thing *thing_of(struct known *k, const struct sign_text *t)
{
    const struct known_thing *there = find(k, t);
    if (there)
        return &k->thing[there - k->thing];
    struct known_thing *o = &k->thing[k->things++ % KNOWN_THINGS_MAX];
    *o = (struct known_thing){
        .role = t->role, .number = t->number, .more = t->more, .digest = t->digest};
    return o;
}

void known_sign(struct known *k, const struct sign_text *t, const unsigned char *signature)
{
    if (t->role == SIGN_BROADCAST || t->signer >= BFT_MEMBERS_MAX)
        return;
    struct known_thing *o = thing_of(k, t);
    struct bft_mark *m = &o->mark[t->signer];
    o->ranks |= 1U << t->signer;
    *m = (struct bft_mark){.rank = t->signer, .life = t->life};
    memcpy(m->signature, signature, SIGN_BYTES);
}

void known_take_body(struct known *k, uint32_t rank, uint64_t key, const void *body, uint32_t bytes)
{
    const struct digest d = digest_of(body, bytes);
    for (uint64_t i = 0; i < least(k->bodies, KNOWN_BODIES_MAX); i++)
        if (k->body[i].rank == rank && k->body[i].key == key && digest_equal(k->body[i].digest, d))
            return;
    struct known_body *b = &k->body[k->bodies++ % KNOWN_BODIES_MAX];
    free(b->data);
    *b = (struct known_body){
        .rank = rank, .key = key, .digest = d, .bytes = bytes, .data = malloc(bytes)};
    CHECK(b->data != NULL);
    memcpy(b->data, body, bytes);
}

const struct known_thing *known_thing(const struct known *k, struct rng *g,
                                      bool (*fits)(const struct known_thing *, const void *),
                                      const void *of)
{
    uint64_t count = least(k->things, KNOWN_THINGS_MAX), first = count ? rng_below(g, count) : 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct known_thing *t = &k->thing[(first + i) % count];
        if (fits == NULL || fits(t, of))
            return t;
    }
    return NULL;
}

const struct known_body *known_body(const struct known *k, struct rng *g,
                                    bool (*fits)(const struct known_body *, const void *),
                                    const void *of)
{
    uint64_t count = least(k->bodies, KNOWN_BODIES_MAX), first = count ? rng_below(g, count) : 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct known_body *b = &k->body[(first + i) % count];
        if (fits == NULL || fits(b, of))
            return b;
    }
    return NULL;
}

bool known_marks(const struct known_thing *t, uint32_t count, struct bft_mark *out)
{
    uint32_t got = 0;
    for (uint32_t p = 0; p < BFT_MEMBERS_MAX && got < count; p++)
        if (t->ranks >> p & 1)
            out[got++] = t->mark[p];
    return got == count;
}

bool known_frame_next(const void *written, uint32_t bytes, struct known_frame *f)
{
    const struct frame *at = (const void *)((const char *)written + f->next);
    const uint32_t head = sizeof(*at) + sizeof(*f->frame);
    if (f->next > bytes || bytes - f->next < head || at->bytes < sizeof(*f->frame) ||
        frame_size(at->bytes) > bytes - f->next)
        return false;
    f->frame = (const void *)at->payload;
    f->bytes = at->bytes - (uint32_t)sizeof(*f->frame);
    f->next += (uint32_t)frame_size(at->bytes);
    return true;
}
