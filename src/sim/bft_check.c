#include "sim/bft_check.h"

#include <stdlib.h>
#include <string.h>

void bft_check_init(struct bft_check *c, struct run_result *r, const bool *lies)
{
    *c = (struct bft_check){.result = r};
    memcpy(c->lies, lies, sizeof(c->lies));
}

void bft_check_fini(struct bft_check *c)
{
    for (uint32_t q = 0; q < NEB_MEMBERS_MAX; q++)
        for (uint32_t l = 0; l < BFT_CHECK_LIVES_MAX; l++)
            free(c->sender[q][l].said);
    free(c->slot);
    free(c->cert);
}

void bft_check_violated(struct bft_check *c, const char *property, uint64_t slot, const char *fmt,
                        ...)
{
    va_list ap;
    va_start(ap, fmt);
    run_violated(c->result, property, slot, fmt, ap);
    va_end(ap);
}

/* Grows an array, new elements zero, so that index i exists. */
static void *grown(void *array, uint64_t *max, uint64_t i, size_t each)
{
    if (i < *max)
        return array;
    uint64_t more = *max ? *max : 64;
    while (more <= i)
        more *= 2;
    array = realloc(array, more * each);
    CHECK(array != NULL);
    memset((char *)array + *max * each, 0, (more - *max) * each);
    *max = more;
    return array;
}

void bft_check_heard(struct bft_check *c, uint32_t rank, uint32_t sender, uint64_t key,
                     struct digest digest)
{
    uint64_t life = key >> NEB_LIFE_SHIFT, place = neb_place(key);
    if (life >= BFT_CHECK_LIVES_MAX)
        return;
    struct bft_check_sender *of = &c->sender[sender][life];
    of->said = grown(of->said, &of->max, place, sizeof(*of->said));
    struct bft_check_said *s = &of->said[place];
    if (s->ranks != 0 && !digest_equal(s->digest, digest))
        bft_check_violated(c, "one message for a place", place,
                           "member %u hears another broadcast %llu of life %llu of member %u than "
                           "those in %x",
                           rank, (unsigned long long)place, (unsigned long long)life, sender,
                           s->ranks);
    s->ranks |= 1u << rank;
    s->digest = digest;
}

void bft_check_forgets(struct bft_check *c, uint32_t rank)
{
    for (uint32_t q = 0; q < NEB_MEMBERS_MAX; q++)
        for (uint32_t l = 0; l < BFT_CHECK_LIVES_MAX; l++)
            for (uint64_t i = 0; i < c->sender[q][l].max; i++)
                c->sender[q][l].said[i].ranks &= ~(1u << rank);
}

static struct bft_check_slot *slot_of(struct bft_check *c, uint64_t slot)
{
    c->slot = grown(c->slot, &c->slots_max, slot, sizeof(*c->slot));
    c->slots = slot < c->slots ? c->slots : slot + 1;
    return &c->slot[slot];
}

static void add_cert(struct bft_check *c, struct bft_check_slot *s, uint64_t view, uint64_t slot,
                     struct digest value)
{
    uint64_t max = c->certs_max;
    c->cert = grown(c->cert, &max, c->certs, sizeof(*c->cert));
    c->certs_max = (uint32_t)max;
    c->cert[c->certs++] =
        (struct bft_check_cert){.view = view, .slot = slot, .value = value, .next = s->certs};
    s->certs = c->certs;
}

/* A certificate in a later view than the decision was made in, for something else. */
static void check_above(struct bft_check *c, uint32_t rank, uint64_t slot)
{
    const struct bft_check_slot *s = &c->slot[slot];
    for (uint32_t i = s->certs; s->decided && i != 0; i = c->cert[i - 1].next) {
        const struct bft_check_cert *t = &c->cert[i - 1];
        if (s->view != UINT64_MAX && t->view > s->view && !digest_equal(t->value, s->value))
            bft_check_violated(c, "no certificate above a decision", slot,
                               "as member %u sees: slot %llu was decided in view %llu, and another "
                               "value has a certificate of view %llu",
                               rank, (unsigned long long)slot, (unsigned long long)s->view,
                               (unsigned long long)t->view);
    }
}

void bft_check_certified(struct bft_check *c, uint32_t rank, uint64_t view, uint64_t slot,
                         struct digest value)
{
    struct bft_check_slot *s = slot_of(c, slot);
    for (uint32_t i = s->certs; i != 0; i = c->cert[i - 1].next) {
        const struct bft_check_cert *t = &c->cert[i - 1];
        if (t->view != view)
            continue;
        if (!digest_equal(t->value, value))
            bft_check_violated(c, "one certificate for a slot", slot,
                               "member %u sees a second value certified for slot %llu in view %llu",
                               rank, (unsigned long long)slot, (unsigned long long)view);
        return;
    }
    add_cert(c, s, view, slot, value);
    check_above(c, rank, slot);
}

void bft_check_decided(struct bft_check *c, uint32_t rank, uint64_t view, uint64_t slot,
                       struct digest value)
{
    struct bft_check_slot *s = slot_of(c, slot);
    if (s->decided && !digest_equal(s->value, value))
        bft_check_violated(
            c, "agreement", slot,
            "member %u decides another value in slot %llu, view %lld, than was in view %lld", rank,
            (unsigned long long)slot, (long long)view, (long long)s->view);
    c->result->bft.decisions += !s->decided;
    if (!s->decided || view < s->view)
        s->view = view;
    s->decided = true;
    s->value = value;
    check_above(c, rank, slot);
}

void bft_check_stable(struct bft_check *c, uint32_t rank, const struct bft_checkpoint *p)
{
    struct bft_check_slot *s = slot_of(c, p->slot);
    if (s->stable && (!digest_equal(s->chain, p->chain) || !digest_equal(s->state, p->state)))
        bft_check_violated(c, "one checkpoint for a slot", p->slot,
                           "member %u has another stable checkpoint of slot %llu than was seen",
                           rank, (unsigned long long)p->slot);
    s->stable = true;
    s->chain = p->chain;
    s->state = p->state;
}

void bft_check_convicted(struct bft_check *c, uint32_t rank, uint32_t of, const char *line)
{
    c->result->bft.convicted++;
    if (!c->lies[of])
        bft_check_violated(c, "nobody correct is convicted", 0, "member %u convicts member %u: %s",
                           rank, of, line ? line : "two broadcasts in one place");
}
