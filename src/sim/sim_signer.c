#include "sim/sim_signer.h"

#include "base/hash.h"
#include "base/rng.h"

#include <stdlib.h>

struct sim_signer {
    struct signer signer; /* first */
    uint64_t seed;
    struct rng rng;
    uint32_t polls_max, polls; /* until the first job ends */
    bool believes;
    struct sign_job *first, **end;
    void (*watch)(void *, const struct sign_text *, const unsigned char *);
    void *watch_ctx;
};

void sim_sign(uint64_t seed, const struct sign_text *t, unsigned char signature[SIGN_BYTES])
{
    uint64_t h = hash_bytes(hash_mix(seed, t->signer), t, sizeof(*t));
    for (size_t i = 0; i < SIGN_BYTES; i += sizeof(h)) {
        h = hash_mix(h, i);
        memcpy(signature + i, &h, sizeof(h));
    }
}

static bool run(const struct sim_signer *s, struct sign_job *j)
{
    unsigned char right[SIGN_BYTES];
    sim_sign(s->seed, &j->text, right);
    if (j->check)
        return s->believes || memcmp(right, j->signature, SIGN_BYTES) == 0;
    memcpy(j->signature, right, SIGN_BYTES);
    if (s->watch)
        s->watch(s->watch_ctx, &j->text, right);
    return true;
}

static void sim_submit(struct signer *signer, struct sign_job *j)
{
    struct sim_signer *s = (struct sim_signer *)signer;
    j->next = NULL;
    *s->end = j;
    s->end = &j->next;
}

static int sim_poll(struct signer *signer)
{
    struct sim_signer *s = (struct sim_signer *)signer;
    struct sign_job *j = s->first;
    if (j == NULL || s->polls-- > 0)
        return 0;
    s->polls = (uint32_t)rng_below(&s->rng, s->polls_max);
    s->first = j->next;
    s->end = s->first ? s->end : &s->first;
    j->state = run(s, j) ? SIGN_GOOD : SIGN_BAD;
    return 1;
}

static void sim_close_signer(struct signer *signer)
{
    free(signer);
}

static const struct signer_ops sim_signer_ops = {
    .submit = sim_submit, .poll = sim_poll, .close = sim_close_signer};

struct signer *sim_signer_open(uint64_t seed, uint32_t rank, uint32_t polls_max)
{
    struct sim_signer *s = calloc(1, sizeof(*s));
    CHECK(s != NULL && polls_max > 0);
    s->signer.ops = &sim_signer_ops;
    s->seed = seed;
    s->polls_max = polls_max;
    s->end = &s->first;
    rng_init(&s->rng, hash_mix(seed, rank));
    return &s->signer;
}

void sim_signer_believe(struct signer *signer)
{
    struct sim_signer *s = (struct sim_signer *)signer;
    s->believes = true;
}

void sim_signer_watch(struct signer *signer,
                      void (*fn)(void *ctx, const struct sign_text *, const unsigned char *),
                      void *ctx)
{
    struct sim_signer *s = (struct sim_signer *)signer;
    s->watch = fn;
    s->watch_ctx = ctx;
}
