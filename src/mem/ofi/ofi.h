/* Remote memory over libfabric endpoints of type FI_EP_MSG: on `verbs` (RDMA), which is what it is for, and on `tcp`,
 * which is how it is tested where there is no RDMA.
 *
 * Every host listens on the address that the cluster file gives it, and on nothing else. Both sides prove that they have
 * the cluster's key, for this cluster, version, node and life, before anything else is said. On verbs what comes in lands
 * without the node's thread, on tcp while it polls. The rest is as mem/far/far.h says. */
#ifndef MEM_OFI_OFI_H
#define MEM_OFI_OFI_H

#include "mem/far/far.h"

enum { OFI_KEY_BYTES = 32 };

struct ofi_options {
    struct far_options far;
    const char *provider;     /* "tcp" or "verbs" */
    const unsigned char *key; /* OFI_KEY_BYTES of it */
    bool read_back;           /* ask for the promise after every mark, as verbs does; tests */
};

/* ERR_REFUSED also: the provider fails its self-check. */
int ofi_open_node(const struct ofi_options *, struct mem **out, struct err *);

/* ---- the cluster's key ---- */

/* Makes a new one in a file of mode 0600 that must not exist; and reads one. ERR_REFUSED: others may
 * read the file. */
int ofi_key_make(const char *path, struct err *);
int ofi_key_read(const char *path, unsigned char key[OFI_KEY_BYTES], struct err *);

#endif
