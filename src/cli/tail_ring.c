#include "cli/tail_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 4096,
    FILE_BYTES = HEAD_BYTES + TAIL_RING_BYTES,
    HEAD_WORDS = 5, /* of a record */
    RECORD_WORDS_MAX = HEAD_WORDS + TAIL_DST_MAX / 4 + (TAIL_BODY_MAX + 7) / 8,
    MARK_EVERY = TAIL_RING_WORDS / 4,
};

static const uint64_t magic = UINT64_C(0x7461696c72696e67);

/* Written by the host alone. */
struct tail_head {
    _Atomic uint64_t magic;
    _Atomic uint64_t claim; /* words before this one may be overwritten now */
    _Atomic uint64_t end;   /* words before this one are whole records */
    _Atomic uint64_t mark;  /* a record begins here, at most half a ring before end */
};

_Static_assert(sizeof(struct tail_head) <= HEAD_BYTES, "the head has its own page");

struct tail_ring {
    struct tail_head *head;
    _Atomic uint64_t *word;
    dev_t dev;
    ino_t ino;
    uint64_t next_mark; /* the writer's: becomes mark when end has come far enough */
};

static void ring_path(const char *dir, const char *host, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s/%s.tail.page", dir, host);
}

static int ring_map(int fd, bool writer, struct tail_ring **out)
{
    struct stat st;
    struct tail_ring *r = calloc(1, sizeof(*r));

    if (r == NULL || fstat(fd, &st) < 0)
        goto fail;
    if (st.st_size != FILE_BYTES) {
        errno = EINVAL;
        goto fail;
    }
    void *p =
        mmap(NULL, FILE_BYTES, writer ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        goto fail;
    r->head = p;
    r->word = (_Atomic uint64_t *)((char *)p + HEAD_BYTES);
    r->dev = st.st_dev;
    r->ino = st.st_ino;
    *out = r;
    return 0;
fail:
    free(r);
    return -1;
}

int tail_ring_create(const char *dir, const char *host, struct tail_ring **out, struct err *e)
{
    char path[512];

    ring_path(dir, host, path, sizeof path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(e, "open %s", path);
    /* Memory is taken now: a full /dev/shm is an error here, and would be a SIGBUS later. */
    int rc = posix_fallocate(fd, 0, FILE_BYTES);
    if (rc != 0) {
        errno = rc;
        rc = err_sys(e, "%s: room for %d bytes", path, FILE_BYTES);
    } else if (ring_map(fd, true, out) < 0) {
        rc = err_sys(e, "map %s", path);
    }
    close(fd);
    if (rc != 0)
        return rc;
    struct tail_ring *r = *out;
    r->next_mark = atomic_load_explicit(&r->head->end, memory_order_relaxed);
    atomic_store_explicit(&r->head->magic, magic, memory_order_release);
    return 0;
}

int tail_ring_open(const char *dir, const char *host, struct tail_ring **out, struct err *e)
{
    char path[512];

    ring_path(dir, host, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOTFOUND, "%s: there is none", path)
                               : err_sys(e, "open %s", path);
    int rc = ring_map(fd, false, out);
    if (rc < 0)
        rc = errno == EINVAL ? err_set(e, ERR_NOTFOUND, "%s: not ready", path)
                             : err_sys(e, "map %s", path);
    close(fd);
    if (rc == 0 && atomic_load_explicit(&(*out)->head->magic, memory_order_acquire) != magic) {
        tail_ring_close(*out);
        rc = err_set(e, ERR_NOTFOUND, "%s: not ready", path);
    }
    return rc;
}

void tail_ring_close(struct tail_ring *r)
{
    if (r == NULL)
        return;
    munmap(r->head, FILE_BYTES);
    free(r);
}

void tail_ring_remove(const char *dir, const char *host)
{
    char path[512];

    ring_path(dir, host, path, sizeof path);
    unlink(path);
}

bool tail_ring_is_current(const struct tail_ring *r, const char *dir, const char *host)
{
    char path[512];
    struct stat st;

    ring_path(dir, host, path, sizeof path);
    return stat(path, &st) == 0 && st.st_dev == r->dev && st.st_ino == r->ino;
}

/* ---- writing ---- */

static void put_bytes(struct tail_ring *r, uint64_t at, const void *data, uint32_t bytes)
{
    const unsigned char *p = data;

    for (uint32_t i = 0; i < bytes; i += 8, at++) {
        uint64_t w = 0;
        memcpy(&w, p + i, bytes - i < 8 ? bytes - i : 8);
        atomic_store_explicit(&r->word[at % TAIL_RING_WORDS], w, memory_order_relaxed);
    }
}

void tail_ring_write(struct tail_ring *r, const struct tram_delivery *d)
{
    uint32_t here = d->bytes < TAIL_BODY_MAX ? d->bytes : TAIL_BODY_MAX;
    uint32_t dst_count = d->dst_count < TAIL_DST_MAX ? d->dst_count : TAIL_DST_MAX;
    uint32_t dst_words = (dst_count + 3) / 4;
    uint64_t words = HEAD_WORDS + dst_words + (here + 7) / 8;
    uint64_t at = atomic_load_explicit(&r->head->end, memory_order_relaxed);

    atomic_store_explicit(&r->head->claim, at + words, memory_order_relaxed);
    /* Pairs with the acquire fence of tail_ring_read: who sees a word of this record sees the claim. */
    atomic_thread_fence(memory_order_release);
    uint64_t head[HEAD_WORDS] = {
        words | (uint64_t)d->group << 32,
        (uint64_t)d->client << 32 | d->life,
        d->seq,
        d->number,
        (uint64_t)d->bytes << 32 | here << 16 | dst_count,
    };
    put_bytes(r, at, head, sizeof head);
    put_bytes(r, at + HEAD_WORDS, d->dst, dst_count * (uint32_t)sizeof(*d->dst));
    put_bytes(r, at + HEAD_WORDS + dst_words, d->body, here);
    if (at - r->next_mark >= MARK_EVERY) {
        atomic_store_explicit(&r->head->mark, r->next_mark, memory_order_relaxed);
        r->next_mark = at;
    }
    atomic_store_explicit(&r->head->end, at + words, memory_order_release);
}

/* ---- reading ---- */

uint64_t tail_ring_oldest(const struct tail_ring *r)
{
    return atomic_load_explicit(&r->head->mark, memory_order_acquire);
}

uint64_t tail_ring_newest(const struct tail_ring *r)
{
    return atomic_load_explicit(&r->head->end, memory_order_acquire);
}

static bool is_lapped(const struct tail_ring *r, uint64_t at)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&r->head->claim, memory_order_relaxed) > at + TAIL_RING_WORDS;
}

static enum tail_got lapped(const struct tail_ring *r, uint64_t *at)
{
    *at = tail_ring_oldest(r);
    return TAIL_LAPPED;
}

enum tail_got tail_ring_read(const struct tail_ring *r, uint64_t *at, struct tail_record *out)
{
    uint64_t copy[RECORD_WORDS_MAX];

    /* Acquire: pairs with the release of tail_ring_write. */
    if (*at >= tail_ring_newest(r))
        return TAIL_NOTHING;
    copy[0] = atomic_load_explicit(&r->word[*at % TAIL_RING_WORDS], memory_order_relaxed);
    if (is_lapped(r, *at))
        return lapped(r, at);
    uint64_t words = copy[0] & UINT32_MAX;
    if (words < HEAD_WORDS || words > RECORD_WORDS_MAX)
        return lapped(r, at); /* not a record: a file that somebody else wrote to */
    for (uint64_t i = 1; i < words; i++)
        copy[i] = atomic_load_explicit(&r->word[(*at + i) % TAIL_RING_WORDS], memory_order_relaxed);
    if (is_lapped(r, *at))
        return lapped(r, at);
    *at += words;
    out->group = (uint32_t)(copy[0] >> 32);
    out->client = (uint32_t)(copy[1] >> 32);
    out->life = (uint32_t)copy[1];
    out->seq = copy[2];
    out->number = copy[3];
    out->bytes = (uint32_t)(copy[4] >> 32);
    out->here = copy[4] >> 16 & UINT16_MAX;
    out->dst_count = copy[4] & UINT16_MAX;
    if (out->here > TAIL_BODY_MAX || out->dst_count > TAIL_DST_MAX)
        return lapped(r, at);
    memcpy(out->dst, copy + HEAD_WORDS, out->dst_count * sizeof(out->dst[0]));
    memcpy(out->body, copy + HEAD_WORDS + (out->dst_count + 3) / 4, out->here);
    return TAIL_RECORD;
}
