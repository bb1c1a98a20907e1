/* CRC32C (Castagnoli), as iSCSI and ext4 have it: finds every error of up to 32 bits in a row.
 *
 * The processor's own instruction where there is one, else a small table; the result is the same. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of the bytes behind what gave `crc`; 0 to begin with. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same without the instruction, for processors that lack it. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t bytes);

#endif
