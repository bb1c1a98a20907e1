/* libfabric, loaded when the first node needs it.
 *
 * It is not linked, because whoever links it gets everything that it was built with: with Debian's, a
 * library for another network that takes over SIGINT, SIGTERM, SIGABRT and more in every process, before
 * main. Loading it late keeps that from all who only use shared memory, and lets us put the handlers
 * back. All its other functions are inline calls through tables. */
#ifndef MEM_OFI_LIBRARY_H
#define MEM_OFI_LIBRARY_H

#include "base/err.h"

#include <rdma/fabric.h>

struct ofi_library {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *); /* NULL: a new one */
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *context);
    const char *(*strerror)(int);
};

/* 0 and the functions, or ERR_NOTFOUND. Any thread. */
int ofi_library_load(struct err *);

extern struct ofi_library ofi_library;

#endif
