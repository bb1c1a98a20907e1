/* What a host shows of itself, to whoever has the key: for `tram status` of a cluster on several machines. */
#include "base/clock.h"
#include "mem/far/impl.h"

#include <stdlib.h>
#include <string.h>

void far_show(struct mem *m, const void *page, size_t bytes)
{
    struct far *o = far_of(m);

    CHECK(bytes % sizeof(uint64_t) == 0 && bytes <= FAR_PAGE_BYTES_MAX);
    o->page = page;
    o->page_words = page ? (uint32_t)(bytes / sizeof(uint64_t)) : 0;
}

bool far_page_send(struct link *l)
{
    struct far *o = l->node;
    uint64_t part[1 + FAR_WORDS_MAX];
    uint32_t at = 0;

    if (!o->host || l->state != LINK_PLACING ||
        !o->carrier->room(l, STAGE_BYTES_MIN + 2 * o->page_words * sizeof(uint64_t)))
        return false;
    do {
        uint32_t n = o->page_words - at < FAR_WORDS_MAX ? o->page_words - at : FAR_WORDS_MAX;
        part[0] = far_part(o->page_words, at);
        if (n > 0)
            memcpy(part + 1, o->page + at, n * sizeof(uint64_t));
        if (!link_send(l, FAR_PAGE, part, 1 + n))
            return false;
        at += n;
    } while (at < o->page_words);
    return true;
}

bool far_page_take(struct link *l, const uint64_t *words, uint32_t count)
{
    struct peer *p = l->peer;
    uint32_t total = (uint32_t)(words[0] >> 32), first = (uint32_t)words[0], n = count - 1;

    if (!l->node->looks || !p || l->state != LINK_PLACING ||
        total > FAR_PAGE_BYTES_MAX / sizeof(uint64_t) || first > total || n > total - first)
        return false;
    if (first == 0) {
        uint64_t *page = realloc(p->page, (total + 1) * sizeof(uint64_t));
        if (!page)
            return false;
        p->page = page;
        p->page_words = total;
        p->page_got = 0;
    }
    if (total != p->page_words || first != p->page_got)
        return false;
    memcpy(p->page + first, words + 1, n * sizeof(uint64_t));
    p->page_got += n;
    if (p->page_got == total) {
        l->state = LINK_REFUSED; /* nothing is to be said of its end */
        link_close(l, false, "seen");
    }
    return true;
}

static bool all_seen(const struct far *o)
{
    for (uint32_t h = 0; h < o->hosts_count; h++)
        if (o->peers[h]->asked || o->peers[h]->dialing || o->peers[h]->dials)
            return false;
    return true;
}

void far_look(struct mem *m, uint64_t timeout_ns, bool (*wanted)(void *ctx, uint32_t host),
              void (*seen)(void *ctx, uint32_t host, const void *page, size_t bytes), void *ctx)
{
    struct far *o = far_of(m);
    uint64_t until = clock_now_ns() + timeout_ns;

    CHECK(o->looks);
    for (uint32_t h = 0; h < o->hosts_count; h++) {
        struct peer *p = o->peers[h];
        p->asked = wanted(ctx, h);
        p->page_words = UINT32_MAX; /* nothing yet */
        p->page_got = 0;
        p->dial_ns = 0;
    }
    o->chores_ns = 0;
    while (!all_seen(o) && clock_now_ns() < until) {
        mem_poll(m);
        mem_doze(m);
        mem_sleep(m, clock_now_ns() + MS);
    }
    for (uint32_t h = 0; h < o->hosts_count; h++) {
        struct peer *p = o->peers[h];
        p->asked = false;
        if (p->dialing)
            link_close(p->dialing, false, "no answer");
        if (p->page_got == p->page_words)
            seen(ctx, h, p->page, p->page_words * sizeof(uint64_t));
    }
}
