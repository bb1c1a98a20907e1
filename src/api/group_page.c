#include "api/group_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_TRIES = 100, WORD = sizeof(uint64_t) };

_Static_assert(sizeof(struct group_page_record) % WORD == 0, "it is copied by words");
_Static_assert(sizeof(struct group_page_cell) % WORD == 0, "likewise");
_Static_assert(sizeof(struct group_page_disk) % WORD == 0, "likewise");

/* All that hosts of the first version show. */
static size_t bytes_without_disk(uint32_t cells)
{
    return sizeof(struct group_page_record) + cells * sizeof(struct group_page_cell);
}

size_t group_page_record_bytes(uint32_t cells)
{
    return bytes_without_disk(cells) + sizeof(struct group_page_disk);
}

struct group_page_disk *group_page_disk(struct group_page_record *r, uint32_t cells)
{
    return (struct group_page_disk *)(void *)((unsigned char *)r + bytes_without_disk(cells));
}

size_t group_page_bytes(uint32_t cells)
{
    return sizeof(struct group_page) + group_page_record_bytes(cells);
}

struct group_page *group_page_open(const char *dir, const char *host, uint32_t life, uint32_t cells,
                                   struct err *e)
{
    struct group_page *p = api_page_map(dir, host, group_page_bytes(cells), e);
    if (p == NULL)
        return NULL;
    p->pid = (uint64_t)getpid();
    p->life = life;
    p->bytes = bytes_without_disk(cells);
    p->magic = GROUP_PAGE_MAGIC;
    return p;
}

void group_page_close(struct group_page *p, const char *dir, const char *host)
{
    if (p)
        api_page_unmap(p, dir, host, sizeof(*p) + p->bytes + sizeof(struct group_page_disk));
}

/* Stores, for group_page_read: an odd version; the words; the next even one. Who reads the same even version before and after
 * has a whole record. */
void group_page_show(struct group_page *p, const struct group_page_record *r, uint64_t now_ns)
{
    const unsigned char *from = (const unsigned char *)r;
    uint64_t version = atomic_load_explicit(&p->version, memory_order_relaxed);
    atomic_store_explicit(&p->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < (p->bytes + sizeof(struct group_page_disk)) / WORD; i++) {
        uint64_t word;
        memcpy(&word, from + i * WORD, WORD);
        atomic_store_explicit(&p->word[i], word, memory_order_relaxed);
    }
    atomic_store_explicit(&p->version, version + 2, memory_order_release);
    atomic_store_explicit(&p->updated_ns, now_ns, memory_order_release);
}

bool group_page_read(const struct group_page *p, size_t bytes, uint32_t cells,
                     struct group_page_record *out)
{
    unsigned char *to = (unsigned char *)out;
    size_t record = group_page_record_bytes(cells);
    if (bytes < sizeof(*p) + bytes_without_disk(cells) || p->magic != GROUP_PAGE_MAGIC ||
        p->bytes != bytes_without_disk(cells))
        return false;
    if (bytes < group_page_bytes(cells)) {
        *group_page_disk(out, cells) = (struct group_page_disk){.there = 0};
        record = bytes_without_disk(cells);
    }
    for (int tries = 0; tries < READ_TRIES; tries++) {
        uint64_t before = atomic_load_explicit(&p->version, memory_order_acquire);
        for (size_t i = 0; i < record / WORD; i++) {
            uint64_t word = atomic_load_explicit(&p->word[i], memory_order_relaxed);
            memcpy(to + i * WORD, &word, WORD);
        }
        atomic_thread_fence(memory_order_acquire);
        if (before != 0 && before % 2 == 0 &&
            before == atomic_load_explicit(&p->version, memory_order_relaxed)) {
            out->waits[GROUP_PAGE_TEXT - 1] = out->broken[GROUP_PAGE_TEXT - 1] = '\0';
            return out->cells == cells && out->hosts <= GROUP_HOSTS_MAX;
        }
    }
    return false;
}
