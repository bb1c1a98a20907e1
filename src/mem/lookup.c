#include "mem/lookup.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256 };

struct lookup {
    char name[NAME_BYTES];
    uint16_t port;
    unsigned nth;
    atomic_int owners; /* the thread, and who waits */
    atomic_bool done;  /* what follows is there */
    struct sockaddr_storage address;
    socklen_t bytes;
    const char *why;
};

static const char *look(const char *name, uint16_t port, int flags, unsigned nth,
                        struct sockaddr_storage *out, socklen_t *bytes)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found = NULL;
    char service[8];

    *bytes = 0;
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(name, service, &hints, &found);
    if (rc != 0)
        return gai_strerror(rc);
    unsigned count = 0;
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        count++;
    const struct addrinfo *one = found;
    for (nth %= count; nth > 0; nth--)
        one = one->ai_next;
    memcpy(out, one->ai_addr, one->ai_addrlen);
    *bytes = one->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}

const char *lookup_now(const char *name, uint16_t port, struct sockaddr_storage *out,
                       socklen_t *bytes, bool *number)
{
    *number = look(name, port, AI_NUMERICHOST, 0, out, bytes) == NULL;
    return *number ? NULL : look(name, port, 0, 0, out, bytes);
}

void lookup_drop(struct lookup *l)
{
    if (l && atomic_fetch_sub(&l->owners, 1) == 1)
        free(l);
}

static void *run(void *of)
{
    struct lookup *l = of;

    l->why = look(l->name, l->port, 0, l->nth, &l->address, &l->bytes);
    atomic_store_explicit(&l->done, true, memory_order_release); /* pairs with lookup_take */
    lookup_drop(l);
    return NULL;
}

struct lookup *lookup_start(const char *name, uint16_t port, unsigned nth)
{
    struct lookup *l = calloc(1, sizeof *l);
    pthread_t thread;

    if (!l)
        return NULL;
    snprintf(l->name, sizeof l->name, "%s", name);
    l->port = port;
    l->nth = nth;
    atomic_init(&l->owners, 2);
    if (pthread_create(&thread, NULL, run, l) != 0) {
        free(l);
        return NULL;
    }
    pthread_detach(thread);
    return l;
}

bool lookup_take(struct lookup *l, struct sockaddr_storage *out, socklen_t *bytes, const char **why)
{
    if (!atomic_load_explicit(&l->done, memory_order_acquire))
        return false;
    *out = l->address;
    *bytes = l->bytes;
    *why = l->why;
    lookup_drop(l);
    return true;
}
