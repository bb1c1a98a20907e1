#include "check/amcast.h"

#include "base/rng.h"
#include "trace/intern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- small histories, written as words ----
 *
 *     +m1:ab      the client casts m1 to groups a and b
 *     !m1         m1 is done
 *     a1=m1       replica 1 of group a delivers m1, under the next number (from 1)
 *     a1.2@5=m1   in its life of inc 2, as number 5
 *     a1=m1:a     names these destinations, not those of the cast
 *     a1.2^5      replica 1 of group a starts its life of inc 2 with number 5
 *     ~           a gap
 *
 * The place of a word is its number, from 1. */

enum {
    I = 1 << AMCAST_INTEGRITY,
    V = 1 << AMCAST_VALIDITY,
    A = 1 << AMCAST_AGREEMENT,
    N = 1 << AMCAST_NUMBERS,
    P = 1 << AMCAST_PREFIX,
    C = 1 << AMCAST_ACYCLIC,
};

enum { GROUPS = 8, REPLICAS = 10, LIVES = 10 };

static uint32_t dst_of(struct amcast *a, const char *letters, size_t len)
{
    uint32_t list[GROUPS];
    for (size_t i = 0; i < len; i++)
        list[i] = amcast_group(a, &letters[i], 1);
    return amcast_dst(a, list, (uint32_t)len);
}

/* The destinations in the cast of a message, "" if there is none. */
static size_t cast_dst(const char *history, const char *id, size_t len, const char **letters)
{
    char wanted[16];
    snprintf(wanted, sizeof(wanted), "+%.*s:", (int)len, id);
    const char *found = strstr(history, wanted);
    *letters = found ? found + len + 2 : "";
    return strcspn(*letters, " ");
}

static void feed_word(struct amcast *a, const char *history, const char *word, size_t len,
                      struct amcast_place place, uint64_t next[GROUPS][REPLICAS][LIVES])
{
    char w[32];
    const char *letters;
    uint32_t client = amcast_client(a, "c", 1);
    assert_true(len < sizeof(w));
    memcpy(w, word, len);
    w[len] = '\0';
    char *colon = strchr(w, ':');
    size_t id_end = colon ? (size_t)(colon - w) : len;
    if (w[0] == '~') {
        amcast_gap(a);
    } else if (w[0] == '+') {
        amcast_cast(a, client, amcast_message(a, w + 1, id_end - 1),
                    dst_of(a, colon + 1, strlen(colon + 1)), place);
    } else if (w[0] == '!') {
        amcast_done(a, client, amcast_message(a, w + 1, len - 1), place);
    } else {
        char *p = w + 2;
        unsigned group = (unsigned)(w[0] - 'a'), host = (unsigned)(w[1] - '0'), inc = 0;
        uint32_t r = amcast_replica(a, amcast_group(a, w, 1), w + 1, 1);
        if (*p == '.')
            inc = (unsigned)strtoul(p + 1, &p, 10);
        uint64_t *n = &next[group][host][inc];
        if (*n == 0)
            *n = 1;
        if (*p == '^') {
            *n = strtoull(p + 1, NULL, 10);
            amcast_start(a, r, inc, *n, place);
            return;
        }
        if (*p == '@')
            *n = strtoull(p + 1, &p, 10);
        assert_true(*p == '=');
        size_t id_len = id_end - (size_t)(p + 1 - w);
        size_t count = colon ? strlen(colon + 1) : cast_dst(history, p + 1, id_len, &letters);
        struct amcast_delivery d = {.n = (*n)++, .replica = r, .inc = inc};
        d.message = amcast_message(a, p + 1, id_len);
        d.dst = dst_of(a, colon ? colon + 1 : letters, count);
        amcast_deliver(a, &d, place);
    }
}

static struct amcast *feed(const char *history)
{
    static uint64_t next[GROUPS][REPLICAS][LIVES];
    struct amcast *a = amcast_open();
    struct amcast_place place = {amcast_file(a, "history"), 0};
    memset(next, 0, sizeof(next));
    for (const char *w = history; *w != '\0';) {
        size_t len = strcspn(w, " ");
        place.line++;
        feed_word(a, history, w, len, place, next);
        w += len + strspn(w + len, " ");
    }
    return a;
}

static unsigned violations_of(const struct amcast *a)
{
    struct amcast_summary s;
    unsigned mask = 0;
    amcast_summarise(a, &s);
    for (unsigned p = 0; p < AMCAST_PROPERTIES; p++)
        mask |= s.violations[p] ? 1u << p : 0;
    return mask;
}

/* Fails unless exactly the wanted properties are violated. */
static void expect(const char *history, bool quiesced, unsigned wanted)
{
    struct amcast *a = feed(history);
    bool ok = amcast_verify(a, quiesced);
    unsigned got = violations_of(a);
    if (got != wanted || ok != (wanted == 0)) {
        for (uint32_t i = 0; amcast_violation(a, i) != NULL; i++)
            print_message("# %s: %s\n", amcast_property_names[amcast_violation(a, i)->property],
                          amcast_violation(a, i)->text);
        fail_msg("%s: violated %x, wanted %x", history, got, wanted);
    }
    amcast_close(a);
}

/* Fails unless the first violation of the property has these words as evidence, in this order. */
static void expect_evidence(const char *history, enum amcast_property p, uint32_t count, ...)
{
    struct amcast *a = feed(history);
    const struct amcast_violation *v;
    amcast_verify(a, true);
    for (uint32_t i = 0; (v = amcast_violation(a, i)) != NULL && v->property != p; i++)
        ;
    assert_non_null(v);
    va_list lines;
    va_start(lines, count);
    assert_int_equal(v->evidence_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(v->evidence[i].place.line, va_arg(lines, int));
        assert_string_equal(amcast_file_name(a, v->evidence[i].place.file), "history");
    }
    va_end(lines);
    amcast_close(a);
}

static void amcast__accepts_good_histories(void **state)
{
    (void)state;
    expect("", true, 0);
    expect("+m:a a1=m a2=m !m", true, 0);
    expect("a1=m !m +m:a", true, 0); /* files come in any order */
    expect("a1@0=m +m:a a1@1=k +k:a", true, 0);
    expect("+m:ab +k:ab a1=m a1=k b1=m b1=k a2=m a2=k", true, 0);
    expect("+m:ab +k:ba +x:a a1=m a1=x a1=k b1=m b1=k:ab", true, 0);
    expect("+m:a +k:b a1=m b1=k", true, 0);
    expect("+m:ab +k:bc +x:ca a1=m a1=x b1=m b1=k c1=x c1=k", true, 0);
    /* Not at rest: replicas and groups are behind, a message is under way. */
    expect("+m:ab +k:ab a1=m a1=k a2=m b1=m +x:b", false, 0);
    expect("+m:ab +k:ab !m a1=m a1=k a2=m b1=m", false, 0);
}

static void amcast__integrity(void **state)
{
    (void)state;
    expect("+m:a a1=m a1=m", true, I);
    expect("+m:a +k:a a1=m a1=k a1=m a2=m a2=k a2=m", true, I);
    expect("+m:a a1=m a2=m a1.1@2=m", false, I); /* again in a later life, at another number */
    expect("a1=m:a", true, I);
    expect("!m", true, I);
    expect("+m:a a1=m !m !m", true, I);
    expect("+m:a +m:a a1=m", true, I);
    expect("+m:a a1=m b1=m", true, I);
    expect("+m:ab a1=m b1=m:b", true, I);
    expect("+m:a a1=m a2=m:ab", true, I);
    expect("+m:ab a1=m:ba b1=m", true, 0); /* the same set in another order */
    expect_evidence("+k:a +m:a a1=m a1=k a1=m", AMCAST_INTEGRITY, 2, 3, 5);
    expect_evidence("+m:ab a1=m b1=m:b", AMCAST_INTEGRITY, 2, 1, 3);
    expect_evidence("+m:a a1=m b1=m", AMCAST_INTEGRITY, 1, 3);
}

static void amcast__validity(void **state)
{
    (void)state;
    expect("+m:a", true, V);
    expect("+m:a", false, 0);
    expect("+m:a !m", false, V);
    expect("+m:ab a1=m !m", false, V);
    expect("+m:ab a1=m a2=m b1=m +k:b b2=m !m", true, V); /* k */
    expect("+m:ab a1=m b1=m !m", false, 0);
    expect_evidence("+m:a +k:a a1=k", AMCAST_VALIDITY, 2, 1, 1);
}

static void amcast__agreement(void **state)
{
    (void)state;
    expect("+m:ab a1=m", true, A);
    expect("+m:ab a1=m", false, 0);
    expect("+m:a +k:a a1=m a1=k a2=m", true, A);
    expect("+m:a +k:a a1=m a1=k a2=m", false, 0);
    expect("+m:a +k:a a1=m a1=k a2^1", true, A);        /* came up, delivered nothing */
    expect("+m:a +k:a a1=m a1=k a2=m a2.1^3", true, 0); /* came back, nothing left to deliver */
    expect("+m:a +k:a a1=m a1=k a2=m a2.1^2", true, A);
    expect("+m:a +k:a a1=m a1=k a2=m a2.1@2=k", true, 0);
    expect_evidence("+m:a +k:a a1=m a1=k a2=m", AMCAST_AGREEMENT, 2, 5, 4);
}

static void amcast__who_is_down_is_excused(void **state)
{
    static const struct {
        const char *history, *down;
        bool ok;
    } cases[] = {
        {"+m:a +k:a a1=m a1=k a2=m", "2", true},
        {"+m:a +k:a a1=m a1=k a2=m", "1", false},
        {"+m:ab a1=m b2^1", "2", true},
        {"+m:ab a1=m b2^1 b1^1", "2", false},
        {"+m:ab a1=m", "b", true},
        {"+m:ab a1=m b1^1", "b", true},
        {"+m:a", "c", true},
        {"+m:ab a1=m", "c", false},
        {"+m:ab +k:ab a1=m a1=k b2=k", "2", false}, /* order has no excuse */
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct amcast *a = feed(cases[i].history);
        assert_true(amcast_down(a, cases[i].down));
        assert_false(amcast_down(a, "nobody"));
        if (amcast_verify(a, true) != cases[i].ok)
            fail_msg("%s with %s down", cases[i].history, cases[i].down);
        amcast_close(a);
    }
}

static void amcast__numbers(void **state)
{
    (void)state;
    expect("+m:a +k:a +x:a a1=m a1=k a1=x a2=m a2@3=x", true, N);
    expect("+m:a +k:a a1=m a1@1=k", false, N | P);
    expect("+m:a +k:a a1=m a1=k a2@2=k", false, N);    /* a first life begins at the beginning */
    expect("+m:a +k:a a1=m a1=k a2^2 a2=k", false, 0); /* or says that it had a snapshot */
    expect("+m:a +k:a a1=m a1=k a2.1@2=k", false, 0);
    expect("+m:a +k:a a1@2=m", false, N); /* nobody had number 1 */
    expect("+m:a +k:a a1=m a2.1@3=k", false, N);
    expect("+m:a +k:a +x:a a1=m a1=k a1=x a2.1^2 a2.1@3=x", false, N); /* lost after a snapshot */
    expect("+m:a a1=m a2.1^3", false, N);                              /* ahead of everybody */
    expect("+m:a a1=m a2.1^2", false, 0);
    expect("a1^0 a2^1 a2.1^0", true, 0);
    expect("+m:a +k:a a1=m a1=k a1^2 a1=k", false, N | I); /* back within one life */
    expect_evidence("+m:a +k:a +x:a a1=m a1=k a1=x a2=m a2@3=x", AMCAST_NUMBERS, 2, 7, 8);
}

static void amcast__prefix_order_in_a_group(void **state)
{
    (void)state;
    expect("+m:a +k:a a1=m a1=k a2=k a2=m", true, P);
    expect("+m:a +k:a a1=m a2=k", false, P);
    expect("+m:a +k:a +x:a a1=m a1=k a1=x a2=m a2.1@2=x", false, P); /* after a restart */
    expect("+m:a +k:a +x:a a1=m a1=k a1=x a2=m a2.1@3=x", false, 0);
    expect_evidence("+m:a +k:a +x:a a1=m a1=k a1=x a2=m a2.1@2=x", AMCAST_PREFIX, 2, 5, 8);
}

/* After the loss of power a life delivers again what its disk has: the same as every life before it, and all of it in the end. */
static void amcast__lives_that_begin_again_from_a_disk(void **state)
{
    (void)state;
    expect("+m:a +k:a a1=m a1=k a2=m a2=k !m !k a1.1^1 a1.1=m a1.1=k a2.1^2 a2.1=k", true, 0);
    expect("+m:a +k:a +x:a a1=m a1=k a2=m a1.1=m a1.1=k a1.1=x a2.1=m a2.1=k a2.1=x", true, 0);
    expect("+m:a +k:a +x:a a1=m a1=k a2=m a2=k !k a1.1=m a1.1=x a2.1=m a2.1=x", false, P);
    expect("+m:a +k:a a1=m a1=k a2=m a2=k !k a1.1=m a2.1=m", true, A); /* lost, though answered */
    expect("+m:a +k:a a1=m a1=k a2=m a2=k !k a1.1=m a1.1=k a2.1^1", true, A); /* by one of them */
    expect("+m:a +k:a a1=m a1=k a2=m a2=k a1.1=k a1.1=m", false, P);
    expect("+m:a +k:a a1=m a1=k a2=m a1.1=m a1.1=k a1.1=m", false, I);
    expect("+m:ab a1=m b1=m !m a1.1^2 b1.1^1", true, A); /* by one destination */
    expect_evidence("+m:a +k:a +x:a a1=m a1=k a1.1=m a1.1=x", AMCAST_PREFIX, 2, 5, 7);
}

static void amcast__prefix_order_between_groups(void **state)
{
    (void)state;
    expect("+m:ab +k:ab a1=m a1=k b1=k b1=m", true, P | C);
    expect("+m:ab +k:ab a1=m b1=k", false, P); /* no circle yet */
    expect("+m:ab +k:ab a1=m a1=k b1=k", false, P);
    expect("+m:ab +k:ab +x:b a1=m a1=k b1=x b1=m", false, 0);
    expect("+m:abc +k:abc a1=m a1=k b1=m b1=k c1=k c1=m", true, P | C);
    expect_evidence("+m:ab +k:ab +x:b a1=m a1=k b1=x b1=k b1=m", AMCAST_PREFIX, 2, 4, 7);
}

static void amcast__acyclic_order(void **state)
{
    (void)state;
    /* Each two groups share one message only, so that pairs see nothing. */
    expect("+m:ab +k:bc +x:ca a1=m a1=x b1=k b1=m c1=x c1=k", true, C);
    expect("+m:ab +k:bc +x:cd +y:da a1=m a1=y b1=k b1=m c1=x c1=k d1=y d1=x", true, C);
    expect("+m:ab +k:bc +x:cd +y:da a1=m a1=y b1=k b1=m c1=x c1=k d1=x d1=y", true, 0);
    expect_evidence("+m:ab +k:bc +x:ca a1=m a1=x b1=k b1=m c1=x c1=k", AMCAST_ACYCLIC, 6, 4, 5, 8,
                    9, 6, 7);
    /* A circle of three beside one of four behind other messages: the short one is shown. */
    expect_evidence("+p:a +q:f +m:ab +k:bc +x:cd +y:da +r:ef +s:fg +t:ge a1=p a1=m a1=y b1=k b1=m "
                    "c1=x c1=k d1=y d1=x e1=r e1=t f1=q f1=s f1=r g1=t g1=s",
                    AMCAST_ACYCLIC, 6, 22, 23, 19, 20, 24, 25);
}

/* What a full disk may have left out is no violation; what is there is judged. */
static void amcast__a_gap_excuses_what_is_missing(void **state)
{
    (void)state;
    expect("a1=m:a ~", true, 0);
    expect("+m:ab !m a1=m ~", true, 0);
    expect("+m:a +k:a a1=m a2=m a1=k ~", true, 0);
    expect("+m:a +k:a a1=m a1.1@5=k ~", false, 0);
    expect("+m:ab +k:ab a1=m a1=k b1=m b1.1@5=k ~", false, 0);
    expect("+m:a a1.1^7 a1.1=m ~", false, 0);
    expect("+m:a +k:a a1=m a1=m ~", true, I);
    expect("+m:a +k:a a1=m a2=k ~", true, P);
    expect("+m:ab +k:ab a1=m a1=k b1=k b1=m ~", true, C);
    expect("+m:a b1=m:a ~", true, I);
}

static void amcast__more_events_after_a_verdict(void **state)
{
    struct amcast *a = feed("+m:a +k:a a1=m a1=k a2=m");
    struct amcast_place place = {0, 9};
    (void)state;
    assert_true(amcast_verify(a, false));
    assert_false(amcast_verify(a, true));
    assert_int_equal(violations_of(a), A);
    struct amcast_delivery d = {.n = 2,
                                .replica = amcast_replica(a, amcast_group(a, "a", 1), "2", 1),
                                .message = amcast_message(a, "k", 1),
                                .dst = dst_of(a, "a", 1)};
    amcast_deliver(a, &d, place);
    assert_true(amcast_verify(a, true));
    d.n = 9;
    amcast_deliver(a, &d, place);
    assert_false(amcast_verify(a, true));
    unsigned first = violations_of(a);
    assert_false(amcast_verify(a, true));
    assert_int_equal(violations_of(a), first);
    assert_true((first & N) && (first & I));
    amcast_close(a);
}

/* However much is wrong, few are kept and all are counted. */
static void amcast__keeps_the_first_of_many(void **state)
{
    struct amcast *a = amcast_open();
    struct amcast_summary s;
    char id[16];
    uint32_t kept = 0;
    (void)state;
    uint32_t dst = dst_of(a, "a", 1), client = amcast_client(a, "c", 1);
    struct amcast_place place = {amcast_file(a, "f"), 1};
    for (unsigned i = 0; i < 1000; i++) {
        int len = snprintf(id, sizeof(id), "m%u", i);
        amcast_cast(a, client, amcast_message(a, id, (size_t)len), dst, place);
    }
    assert_false(amcast_verify(a, true));
    amcast_summarise(a, &s);
    assert_int_equal(s.violations[AMCAST_VALIDITY], 1000);
    while (amcast_violation(a, kept) != NULL)
        kept++;
    assert_int_equal(kept, AMCAST_KEPT_MAX);
    amcast_close(a);
}

static void intern__gives_equal_strings_equal_numbers(void **state)
{
    struct intern t = {0};
    char text[64];
    uint32_t len;
    (void)state;
    assert_int_equal(intern_find(&t, "x", 1), INTERN_NONE);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 20000; i++) {
            /* Of all lengths, on both sides of what a key holds itself. */
            int n = snprintf(text, sizeof(text), "%u%.*s", i, (int)(i % 30),
                             "------------------------------");
            assert_int_equal(intern_add(&t, text, (size_t)n), i);
            assert_memory_equal(intern_text(&t, i, &len), text, (size_t)n);
            assert_int_equal(len, n);
        }
    assert_int_equal(intern_add(&t, "", 0), 20000);
    assert_int_equal(intern_find(&t, "", 0), 20000);
    assert_int_equal(intern_find(&t, "7-------", 8), 7);
    assert_int_equal(intern_find(&t, "7------", 7), INTERN_NONE);
    intern_fini(&t);
}

/* ---- against brute force: random histories, right and with something changed ---- */

enum { G_MAX = 4, R_MAX = 3, M_MAX = 8, LIFE_MAX = 24, D_MAX = 20, SEQ_MAX = 32 };

struct delivery {
    uint64_t n;
    unsigned m;
    unsigned dst; /* mask of groups */
};

struct life {
    unsigned group, replica, inc;
    bool starts;
    uint64_t start;
    unsigned count;
    struct delivery d[D_MAX];
};

struct history {
    bool quiesced;
    unsigned groups, messages, lives;
    unsigned dst[M_MAX];
    bool cast[M_MAX], done[M_MAX];
    bool crashed; /* the client */
    bool down[R_MAX];
    struct life life[LIFE_MAX];
};

/* -- the definitions, taken literally -- */

static bool group_delivers(const struct history *h, unsigned g, unsigned m)
{
    for (unsigned l = 0; l < h->lives; l++)
        for (unsigned i = 0; h->life[l].group == g && i < h->life[l].count; i++)
            if (h->life[l].d[i].m == m)
                return true;
    return false;
}

static bool delivered_at(const struct history *h, unsigned g, uint64_t n, unsigned *m)
{
    for (unsigned l = 0; l < h->lives; l++)
        for (unsigned i = 0; h->life[l].group == g && i < h->life[l].count; i++)
            if (h->life[l].d[i].n == n) {
                *m = h->life[l].d[i].m;
                return true;
            }
    return false;
}

static uint64_t first_number(const struct history *h, unsigned g)
{
    unsigned m;
    uint64_t n = 0;
    while (n < SEQ_MAX && !delivered_at(h, g, n, &m))
        n++;
    return n;
}

static uint64_t end_number(const struct history *h, unsigned g)
{
    unsigned m;
    uint64_t n = SEQ_MAX;
    while (n > 0 && !delivered_at(h, g, n - 1, &m))
        n--;
    return n;
}

static bool numbers_wrong(const struct history *h)
{
    unsigned m;
    for (unsigned l = 0; l < h->lives; l++) {
        const struct life *p = &h->life[l];
        for (unsigned i = 1; i < p->count; i++)
            if (p->d[i].n != p->d[i - 1].n + 1)
                return true;
        if (p->starts && p->count > 0 && p->d[0].n != p->start)
            return true;
        if (p->starts && p->start > 1 && p->start > end_number(h, p->group))
            return true;
        if (!p->starts && p->inc == 0 && p->count > 0 && p->d[0].n != first_number(h, p->group))
            return true;
    }
    for (unsigned g = 0; g < h->groups; g++) {
        uint64_t end = end_number(h, g);
        for (uint64_t n = 1; n < end; n++)
            if (!delivered_at(h, g, n, &m))
                return true;
    }
    return false;
}

static bool integrity_wrong(const struct history *h)
{
    for (unsigned l = 0; l < h->lives; l++)
        for (unsigned i = 0; i < h->life[l].count; i++) {
            const struct delivery *d = &h->life[l].d[i];
            if (!h->cast[d->m] || d->dst != h->dst[d->m] || !(d->dst >> h->life[l].group & 1))
                return true;
            for (unsigned k = 0; k < h->lives; k++)
                for (unsigned j = 0; j < h->life[k].count; j++) {
                    const struct delivery *e = &h->life[k].d[j];
                    if (h->life[k].group != h->life[l].group || (k == l && i == j))
                        continue;
                    /* twice in a life, or at two numbers of a group; or two at one number */
                    if (e->m == d->m && (k == l || e->n != d->n))
                        return true;
                    if (e->n == d->n && e->m != d->m)
                        return true;
                }
        }
    for (unsigned m = 0; m < h->messages; m++)
        if (h->done[m] && !h->cast[m])
            return true;
    return false;
}

/* What a life has delivered: what was numbered before it, then its own. */
static unsigned sequence(const struct history *h, const struct life *p, unsigned *seq)
{
    unsigned count = 0, m;
    uint64_t begin = p->starts ? p->start : p->count ? p->d[0].n : 0;
    for (uint64_t n = 0; n < begin; n++)
        if (delivered_at(h, p->group, n, &m))
            seq[count++] = m;
    for (unsigned i = 0; i < p->count; i++)
        seq[count++] = p->d[i].m;
    return count;
}

static unsigned position(const unsigned *seq, unsigned count, unsigned m)
{
    for (unsigned i = 0; i < count; i++)
        if (seq[i] == m)
            return i;
    return UINT32_MAX;
}

static bool prefix_wrong(const struct history *h)
{
    unsigned s[SEQ_MAX * 2], t[SEQ_MAX * 2];
    for (unsigned p = 0; p < h->lives; p++)
        for (unsigned q = 0; q < h->lives; q++) {
            unsigned both = 1u << h->life[p].group | 1u << h->life[q].group;
            unsigned sn = sequence(h, &h->life[p], s), tn = sequence(h, &h->life[q], t);
            for (unsigned m = 0; m < h->messages; m++)
                for (unsigned k = 0; k < h->messages; k++) {
                    if (m == k || (h->dst[m] & both) != both || (h->dst[k] & both) != both)
                        continue;
                    /* p delivers m and q delivers k: p had k before, or q had m before. */
                    unsigned pm = position(s, sn, m), pk = position(s, sn, k);
                    unsigned qm = position(t, tn, m), qk = position(t, tn, k);
                    if (pm != UINT32_MAX && qk != UINT32_MAX && pk > pm && qm > qk)
                        return true;
                }
        }
    return false;
}

static bool cyclic(const struct history *h)
{
    bool before[M_MAX][M_MAX] = {{0}};
    unsigned s[SEQ_MAX * 2];
    for (unsigned p = 0; p < h->lives; p++) {
        unsigned count = sequence(h, &h->life[p], s);
        for (unsigned i = 0; i < count; i++)
            for (unsigned k = i + 1; k < count; k++)
                before[s[i]][s[k]] = true;
    }
    for (unsigned via = 0; via < M_MAX; via++)
        for (unsigned m = 0; m < M_MAX; m++)
            for (unsigned k = 0; k < M_MAX; k++)
                before[m][k] |= before[m][via] && before[via][k];
    for (unsigned m = 0; m < M_MAX; m++)
        if (before[m][m])
            return true;
    return false;
}

static const struct life *last_life(const struct history *h, unsigned g, unsigned r)
{
    const struct life *last = NULL;
    for (unsigned l = 0; l < h->lives; l++) {
        const struct life *p = &h->life[l];
        bool seen = p->count > 0 || p->starts;
        if (seen && p->group == g && p->replica == r && (last == NULL || p->inc > last->inc))
            last = p;
    }
    return last;
}

/* Some live replica of a destination has not delivered m, or a destination has nobody to ask. */
static bool missing(const struct history *h, unsigned m)
{
    unsigned s[SEQ_MAX * 2];
    for (unsigned g = 0; g < h->groups; g++) {
        bool known = false;
        for (unsigned r = 0; (h->dst[m] >> g & 1) && r < R_MAX; r++) {
            const struct life *p = last_life(h, g, r);
            known |= p != NULL;
            if (p == NULL || h->down[r])
                continue;
            if (position(s, sequence(h, p, s), m) == UINT32_MAX)
                return true;
        }
        if ((h->dst[m] >> g & 1) && !known)
            return true;
    }
    return false;
}

static bool missing_wrong(const struct history *h)
{
    for (unsigned m = 0; m < h->messages; m++) {
        bool delivered = false;
        for (unsigned g = 0; g < h->groups; g++) {
            delivered |= group_delivers(h, g, m);
            if (h->done[m] && (h->dst[m] >> g & 1) && !group_delivers(h, g, m))
                return true;
        }
        if (h->quiesced && (delivered || (h->cast[m] && !h->crashed)) && missing(h, m))
            return true;
    }
    return false;
}

static bool wrong(const struct history *h)
{
    return numbers_wrong(h) || integrity_wrong(h) || prefix_wrong(h) || cyclic(h) ||
           missing_wrong(h);
}

/* -- the same history for the checker -- */

static uint32_t mask_dst(struct amcast *a, unsigned mask)
{
    uint32_t list[32], count = 0;
    for (unsigned g = 0; g < 32; g++)
        if (mask >> g & 1) {
            char name = (char)('a' + g);
            list[count++] = amcast_group(a, &name, 1);
        }
    return amcast_dst(a, list, count);
}

static uint32_t message_of(struct amcast *a, unsigned m)
{
    char name[2] = {'m', (char)('0' + m)};
    return amcast_message(a, name, 2);
}

static bool checker_says_wrong(const struct history *h)
{
    struct amcast *a = amcast_open();
    struct amcast_place place = {amcast_file(a, "history"), 1};
    uint32_t client = amcast_client(a, "c", 1);
    for (unsigned l = 0; l < h->lives; l++) {
        const struct life *p = &h->life[l];
        char group = (char)('a' + p->group), host = (char)('1' + p->replica);
        if (p->count == 0 && !p->starts)
            continue;
        uint32_t r = amcast_replica(a, amcast_group(a, &group, 1), &host, 1);
        if (p->starts)
            amcast_start(a, r, p->inc, p->start, place);
        for (unsigned i = 0; i < p->count; i++) {
            struct amcast_delivery d = {.n = p->d[i].n, .replica = r, .inc = p->inc};
            d.message = message_of(a, p->d[i].m);
            d.dst = mask_dst(a, p->d[i].dst);
            amcast_deliver(a, &d, place);
        }
    }
    for (unsigned m = 0; m < h->messages; m++) {
        if (h->cast[m])
            amcast_cast(a, client, message_of(a, m), mask_dst(a, h->dst[m]), place);
        if (h->done[m])
            amcast_done(a, client, message_of(a, m), place);
    }
    for (unsigned r = 0; r < R_MAX; r++) {
        char host[2] = {(char)('1' + r), '\0'};
        if (h->down[r])
            amcast_down(a, host);
    }
    if (h->crashed)
        amcast_client_crashed(a, client);
    bool ok = amcast_verify(a, h->quiesced);
    amcast_close(a);
    return !ok;
}

static void print_history(const struct history *h)
{
    print_message("# quiesced %d, crashed %d, down %d%d%d\n", h->quiesced, h->crashed, h->down[0],
                  h->down[1], h->down[2]);
    for (unsigned m = 0; m < h->messages; m++)
        print_message("# m%u: dst %x cast %d done %d\n", m, h->dst[m], h->cast[m], h->done[m]);
    for (unsigned l = 0; l < h->lives; l++) {
        const struct life *p = &h->life[l];
        print_message("# %c%u.%u", 'a' + (int)p->group, p->replica + 1, p->inc);
        if (p->starts)
            print_message(" ^%d", (int)p->start);
        for (unsigned i = 0; i < p->count; i++)
            print_message(" %d:m%u/%x", (int)p->d[i].n, p->d[i].m, p->d[i].dst);
        print_message("\n");
    }
}

/* -- drawing -- */

static unsigned below(struct rng *r, unsigned n)
{
    return (unsigned)rng_below(r, n);
}

/* Adds a life of a replica that delivers [from, to) of its group's sequence. */
static void add_life(struct history *h, const struct life *like, const unsigned *seq, unsigned from,
                     unsigned to, unsigned base)
{
    struct life *p = &h->life[h->lives++];
    *p = *like;
    p->start = from + base;
    for (unsigned i = from; i < to; i++)
        p->d[p->count++] = (struct delivery){i + base, seq[i], h->dst[seq[i]]};
}

static void draw_replica(struct history *h, struct rng *r, struct life like, const unsigned *seq,
                         unsigned count, unsigned base)
{
    /* The first replica is never behind, so that what others skip was delivered by somebody. */
    unsigned end = h->quiesced || like.replica == 0 ? count : below(r, count + 1);
    if (like.replica > 0 && below(r, 3) == 0) {
        unsigned died = below(r, count + 1), came = below(r, end + 1);
        struct life first = like;
        first.starts = below(r, 2) == 0;
        add_life(h, &first, seq, 0, died, base);
        like.inc = 1 + below(r, 2);
        /* A life that says nothing when it has nothing to deliver would seem not to have come. */
        like.starts = came == end || below(r, 2) == 0;
        add_life(h, &like, seq, came, end, base);
    } else {
        like.starts = below(r, 2) == 0;
        add_life(h, &like, seq, 0, end, base);
    }
}

/* A correct run over a tree: messages go in one order through all groups; without rest, each group
 * has a prefix of its messages. A message to several groups enters at their lowest common ancestor
 * and comes to each of them through the tree, so all that matters here is that order. */
static void draw_history(struct history *h, struct rng *r)
{
    unsigned base = below(r, 2);
    *h = (struct history){.quiesced = below(r, 2) == 0};
    h->groups = 1 + below(r, G_MAX);
    h->messages = 1 + below(r, M_MAX);
    for (unsigned m = 0; m < h->messages; m++) {
        h->dst[m] = 1 + below(r, (1u << h->groups) - 1);
        h->cast[m] = true;
    }
    unsigned replicas = 1 + below(r, R_MAX);
    for (unsigned g = 0; g < h->groups; g++) {
        unsigned seq[M_MAX], count = 0;
        unsigned until = h->quiesced ? h->messages : below(r, h->messages + 1);
        for (unsigned m = 0; m < until; m++)
            if (h->dst[m] >> g & 1)
                seq[count++] = m;
        for (unsigned k = 0; k < replicas; k++)
            draw_replica(h, r, (struct life){.group = g, .replica = k}, seq, count, base);
    }
    for (unsigned m = 0; m < h->messages; m++) {
        bool everywhere = true;
        for (unsigned g = 0; g < h->groups; g++)
            everywhere &= !(h->dst[m] >> g & 1) || group_delivers(h, g, m);
        h->done[m] = everywhere && below(r, 2) == 0;
    }
}

static void drop(struct life *p, unsigned i, bool renumber)
{
    for (unsigned k = i; k + 1 < p->count; k++) {
        uint64_t n = p->d[k].n;
        p->d[k] = p->d[k + 1];
        p->d[k].n = renumber ? n : p->d[k].n;
    }
    p->count--;
}

/* Exchanges what stands at two numbers of a group, in all its lives. */
static void swap_in_group(struct history *h, unsigned g, uint64_t n, uint64_t k)
{
    unsigned at_n, at_k;
    if (!delivered_at(h, g, n, &at_n) || !delivered_at(h, g, k, &at_k))
        return;
    for (unsigned l = 0; l < h->lives; l++)
        for (unsigned i = 0; h->life[l].group == g && i < h->life[l].count; i++) {
            struct delivery *d = &h->life[l].d[i];
            if (d->n == n)
                *d = (struct delivery){n, at_k, h->dst[at_k]};
            else if (d->n == k)
                *d = (struct delivery){k, at_n, h->dst[at_n]};
        }
}

static void drop_from_group(struct history *h, unsigned g, unsigned m)
{
    for (unsigned l = 0; l < h->lives; l++)
        for (unsigned i = 0; h->life[l].group == g && i < h->life[l].count; i++)
            if (h->life[l].d[i].m == m)
                drop(&h->life[l], i, true);
}

static void mutate(struct history *h, struct rng *r)
{
    struct life *p = &h->life[below(r, h->lives)];
    unsigned i = p->count ? below(r, p->count) : 0, k = p->count ? below(r, p->count) : 0;
    unsigned m = below(r, h->messages), g = below(r, h->groups), kind = below(r, 18);
    struct delivery d;
    if (p->count == 0 && kind < 8)
        return;
    switch (kind) {
    case 0: /* two deliveries exchanged */
        d = p->d[i];
        p->d[i] = (struct delivery){d.n, p->d[k].m, p->d[k].dst};
        p->d[k] = (struct delivery){p->d[k].n, d.m, d.dst};
        break;
    case 1:
        drop(p, i, false);
        break;
    case 2:
        drop(p, i, true);
        break;
    case 3:
        drop(p, p->count - 1, false);
        break;
    case 4: /* delivered again */
        p->d[p->count] = (struct delivery){p->d[p->count - 1].n + 1, p->d[i].m, p->d[i].dst};
        p->count++;
        break;
    case 5:
        p->d[i].dst = 1 + below(r, (1u << h->groups) - 1);
        break;
    case 6:
        p->d[i].m = m;
        p->d[i].dst = h->dst[m];
        break;
    case 7:
        p->d[i].n = below(r, M_MAX + 2);
        break;
    case 8:
        h->cast[m] = false;
        break;
    case 9:
        h->done[m] = true;
        break;
    case 10:
        h->quiesced = true;
        break;
    case 11:
        h->quiesced = true;
        h->down[below(r, R_MAX)] = true;
        break;
    case 12:
        h->crashed = true;
        drop_from_group(h, g, m);
        break;
    case 13:
        drop_from_group(h, g, m);
        break;
    case 14:
        p->count = 0;
        p->starts = false;
        break;
    case 15:
        p->starts = true;
        p->start = below(r, M_MAX + 2);
        break;
    case 16:
        swap_in_group(h, g, below(r, M_MAX), below(r, M_MAX));
        break;
    default:
        swap_in_group(h, g, i, i + 1);
        break;
    }
}

static void amcast__agrees_with_brute_force(void **state)
{
    enum { ROUNDS = 20000 };
    unsigned found = 0, harmless = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct history h;
        struct rng r;
        rng_init(&r, seed);
        draw_history(&h, &r);
        if (wrong(&h) || checker_says_wrong(&h)) {
            print_history(&h);
            fail_msg("seed %d: a correct history is called wrong by %s", (int)seed,
                     wrong(&h) ? "brute force" : "the checker");
        }
        for (unsigned changes = 1 + below(&r, 3); changes > 0; changes--)
            mutate(&h, &r);
        bool bad = wrong(&h);
        if (checker_says_wrong(&h) != bad) {
            print_history(&h);
            fail_msg("seed %d: the checker says %s", (int)seed, bad ? "right" : "wrong");
        }
        found += bad;
        harmless += !bad;
    }
    /* Both must be common, or nothing was tested. */
    assert_in_range(found, ROUNDS / 4, ROUNDS);
    assert_in_range(harmless, ROUNDS / 10, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amcast__accepts_good_histories),
        cmocka_unit_test(amcast__integrity),
        cmocka_unit_test(amcast__validity),
        cmocka_unit_test(amcast__agreement),
        cmocka_unit_test(amcast__who_is_down_is_excused),
        cmocka_unit_test(amcast__numbers),
        cmocka_unit_test(amcast__prefix_order_in_a_group),
        cmocka_unit_test(amcast__lives_that_begin_again_from_a_disk),
        cmocka_unit_test(amcast__prefix_order_between_groups),
        cmocka_unit_test(amcast__acyclic_order),
        cmocka_unit_test(amcast__a_gap_excuses_what_is_missing),
        cmocka_unit_test(amcast__more_events_after_a_verdict),
        cmocka_unit_test(amcast__keeps_the_first_of_many),
        cmocka_unit_test(intern__gives_equal_strings_equal_numbers),
        cmocka_unit_test(amcast__agrees_with_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
