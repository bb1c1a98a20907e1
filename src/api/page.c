/* The page of a host: see api.h. One process writes it, and any number map it and read, so each word is stored at once. */
#include "api/api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

size_t api_page_bytes(uint32_t replicas)
{
    return sizeof(struct api_page) + replicas * sizeof(struct api_page_replica);
}

static void page_path(const char *dir, const char *host, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s/%s.page", dir, host);
}

struct api_page *api_page_open(const char *dir, const char *host, uint32_t life, uint32_t replicas,
                               struct err *e)
{
    char path[512 + CLUSTER_NAME_BYTES + 8];
    page_path(dir, host, path, sizeof(path));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        err_sys(e, "open %s", path);
        return NULL;
    }
    /* Room is taken now: a full directory is an error here, and would be a SIGBUS later. */
    int rc = posix_fallocate(fd, 0, (off_t)api_page_bytes(replicas));
    if (rc != 0) {
        errno = rc;
        err_sys(e, "%s: room for %zu bytes", path, api_page_bytes(replicas));
        close(fd);
        return NULL;
    }
    struct api_page *p =
        mmap(NULL, api_page_bytes(replicas), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        err_sys(e, "map page %s", path);
        return NULL;
    }
    p->pid = (uint64_t)getpid();
    p->life = life;
    p->replicas = replicas;
    p->magic = PAGE_MAGIC;
    return p;
}

void api_page_close(struct api_page *p, const char *dir, const char *host, uint32_t replicas)
{
    char path[512 + CLUSTER_NAME_BYTES + 8];
    if (p == NULL)
        return;
    page_path(dir, host, path, sizeof(path));
    unlink(path);
    munmap(p, api_page_bytes(replicas));
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
#undef SHOW
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
