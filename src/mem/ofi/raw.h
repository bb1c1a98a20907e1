/* What a provider can do by itself: two processes that write into each other's memory and watch their own.
 * For `tram bench`, which sets the protocols beside it. One thread uses a side, and polls without pause. */
#ifndef MEM_OFI_RAW_H
#define MEM_OFI_RAW_H

#include "mem/ofi/ofi.h"

struct ofi_raw;

struct ofi_raw_options {
    const char *provider;
    const char *address; /* of the side that listens */
    uint16_t port;
    bool listens;
    uint32_t bytes; /* of a write, a multiple of 8 */
};

/* Returns when the other side is there; ERR_TIMEOUT if it does not come within seconds. */
int ofi_raw_open(const struct ofi_raw_options *, struct ofi_raw **, struct err *);
void ofi_raw_close(struct ofi_raw *);

/* Writes into the other side's memory, with `value` at the end. False: the connection has failed. */
bool ofi_raw_write(struct ofi_raw *, uint64_t value);

/* Waits until all that was written has left: then one need not poll for a while. */
bool ofi_raw_settle(struct ofi_raw *);

/* Waits until the other side has written `value` here. False: nothing came for seconds. */
bool ofi_raw_await(struct ofi_raw *, uint64_t value);

#endif
