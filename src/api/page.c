/* The page of a host: see api.h. One process writes it, and any number map it and read, so each word is stored at once. */
#include "api/api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

size_t api_page_bytes(uint32_t replicas, uint32_t hosts)
{
    return sizeof(struct api_page) + replicas * sizeof(struct api_page_replica) +
           hosts * sizeof(uint64_t);
}

static size_t shape_bytes(const struct api_page_shape *s)
{
    return api_page_bytes(s->replicas, s->hosts);
}

static void page_path(const char *dir, const char *host, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s/%s.page", dir, host);
}

void *api_page_map(const char *dir, const char *host, size_t bytes, struct err *e)
{
    char path[512 + CLUSTER_NAME_BYTES + 8];
    page_path(dir, host, path, sizeof(path));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        err_sys(e, "open %s", path);
        return NULL;
    }
    /* Room is taken now: a full directory is an error here, and would be a SIGBUS later. */
    int rc = posix_fallocate(fd, 0, (off_t)bytes);
    if (rc != 0) {
        errno = rc;
        err_sys(e, "%s: room for %zu bytes", path, bytes);
        close(fd);
        return NULL;
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        err_sys(e, "map page %s", path);
        return NULL;
    }
    return p;
}

void api_page_unmap(void *p, const char *dir, const char *host, size_t bytes)
{
    char path[512 + CLUSTER_NAME_BYTES + 8];
    page_path(dir, host, path, sizeof(path));
    unlink(path);
    munmap(p, bytes);
}

struct api_page *api_page_open(const struct api_page_shape *s, struct err *e)
{
    struct api_page *p = api_page_map(s->dir, s->host, shape_bytes(s), e);
    if (p == NULL)
        return NULL;
    p->pid = (uint64_t)getpid();
    p->life = s->life;
    p->replicas = s->replicas;
    p->hosts = s->hosts;
    p->magic = PAGE_MAGIC;
    return p;
}

void api_page_close(struct api_page *p, const struct api_page_shape *s)
{
    if (p)
        api_page_unmap(p, s->dir, s->host, shape_bytes(s));
}

void api_page_show(struct api_page *p, uint32_t n, const struct tram_replica_stats *s)
{
    struct api_page_replica *r = &p->replica[n];
#define SHOW(field) atomic_store_explicit(&r->field, s->field, memory_order_relaxed)
    SHOW(group);
    SHOW(rank);
    SHOW(role);
    SHOW(leader);
    SHOW(ballot);
    SHOW(applied);
    SHOW(commit);
    SHOW(tail);
    SHOW(attached);
    SHOW(behind);
    SHOW(delivered);
    SHOW(terms);
    SHOW(muted);
    for (uint32_t q = 0; q < LOG_REPLICAS_MAX; q++)
        SHOW(detached_ms[q]);
    for (uint32_t i = 0; i < TRAM_WAITS; i++)
        SHOW(waits[i]);
    SHOW(kept);
    SHOW(unkept);
    SHOW(lacks);
    SHOW(lacks_from);
    SHOW(lacks_to);
    SHOW(stands);
    SHOW(restored_percent);
#undef SHOW
}

/* Stores, for who reads the id and then the phase (running.c): no phase; the id; its phase. Who sees any word of a new id sees no
 * phase of the one before. */
void api_page_show_backup(struct api_page *p, uint32_t n, const struct api_page_backup *b)
{
    struct api_page_replica *r = &p->replica[n];
    if (r->backup[0] != b->id[0] || r->backup[1] != b->id[1]) {
        atomic_store_explicit(&r->backup_phase, 0, memory_order_relaxed);
        atomic_store_explicit(&r->backup[0], b->id[0], memory_order_release);
        atomic_store_explicit(&r->backup[1], b->id[1], memory_order_release);
    }
    atomic_store_explicit(&r->backup_bytes, b->bytes, memory_order_relaxed);
    atomic_store_explicit(&r->backup_delivered, b->delivered, memory_order_relaxed);
    atomic_store_explicit(&r->backup_phase, b->phase, memory_order_release);
}

void api_page_show_disk(struct api_page *p, const struct tram_disk_stats *s)
{
#define SHOW(field) atomic_store_explicit(&p->disk.field, s->field, memory_order_relaxed)
    SHOW(state);
    SHOW(restored_percent);
    SHOW(journal_bytes);
    SHOW(journal_bytes_max);
    SHOW(flush_p50_ns);
    SHOW(flush_p99_ns);
    SHOW(waiting_bytes);
    SHOW(writes);
    SHOW(written_bytes);
#undef SHOW
    atomic_store_explicit(&p->disk.durable, 1, memory_order_relaxed);
}

void api_page_show_life(struct api_page *p, uint32_t host, uint32_t lives)
{
    atomic_store_explicit(&api_page_lives(p, p->replicas)[host], lives, memory_order_relaxed);
}

void api_page_show_door(struct api_page *p, const struct tcp_counts *c)
{
#define SHOW_(field) atomic_store_explicit(&p->door.field, c->field, memory_order_relaxed);
    TCP_COUNTS_LIST(SHOW_)
#undef SHOW_
}

void api_page_shown(struct api_page *p, uint64_t now_ns)
{
    atomic_store_explicit(&p->updated_ns, now_ns, memory_order_release);
}
