/* For tests of memories whose hosts keep their lives on a disk (mem/lives.h): a disk that does as it is told. Like the real one it
 * knows at once what it was told to note, and says later that it is safe. */
#ifndef TESTS_LIVES_FAKE_H
#define TESTS_LIVES_FAKE_H

#include "mem/lives.h"

#include <string.h>

enum { LIVES_FAKE_HOSTS = 8, LIVES_FAKE_PLACES = 16 };

struct lives_fake {
    struct mem_lives lives;
    uint32_t host[LIVES_FAKE_HOSTS], place[LIVES_FAKE_PLACES];
    uint32_t before[LIVES_FAKE_PLACES]; /* what it knew when this life began */
    bool stuck;                         /* nothing becomes safe */
};

static inline uint32_t lives_fake_host(void *ctx, uint32_t host)
{
    return ((struct lives_fake *)ctx)->host[host];
}

static inline uint32_t lives_fake_place(void *ctx, uint32_t place)
{
    return ((struct lives_fake *)ctx)->place[place];
}

static inline uint32_t lives_fake_before(void *ctx, uint32_t place)
{
    return ((struct lives_fake *)ctx)->before[place];
}

static inline bool lives_fake_note_host(void *ctx, uint32_t host, uint32_t lives)
{
    struct lives_fake *f = ctx;

    f->host[host] = lives > f->host[host] ? lives : f->host[host];
    return !f->stuck;
}

static inline bool lives_fake_note_place(void *ctx, uint32_t place, uint32_t lives)
{
    struct lives_fake *f = ctx;

    f->place[place] = lives > f->place[place] ? lives : f->place[place];
    return !f->stuck;
}

/* The next life begins with what the disk has. */
static inline const struct mem_lives *lives_fake_begin(struct lives_fake *f, uint32_t life)
{
    memcpy(f->before, f->place, sizeof f->before);
    f->lives = (struct mem_lives){.ctx = f,
                                  .life = life,
                                  .rejoined = f->lives.rejoined,
                                  .host = lives_fake_host,
                                  .place = lives_fake_place,
                                  .place_before = lives_fake_before,
                                  .note_host = lives_fake_note_host,
                                  .note_place = lives_fake_note_place};
    return &f->lives;
}

#endif
