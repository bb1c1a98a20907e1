#include "base/crc32c.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Half a byte at a time: 64 bytes of table, about 300 MB/s. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const unsigned char *p = data;

    crc = ~crc;
    for (; bytes > 0; p++, bytes--) {
        crc ^= *p;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <nmmintrin.h>

#define WITH_INSTRUCTION __attribute__((target("sse4.2")))

WITH_INSTRUCTION static inline uint32_t crc_word(uint32_t crc, const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return (uint32_t)_mm_crc32_u64(crc, word);
}

WITH_INSTRUCTION static inline uint32_t crc_byte(uint32_t crc, unsigned char byte)
{
    return _mm_crc32_u8(crc, byte);
}

/* Asked once. Threads that ask at the same time get the same answer. */
static bool has_instruction(void)
{
    static atomic_int known; /* 0: not yet asked, 1: no, 2: yes */
    int k = atomic_load_explicit(&known, memory_order_relaxed);
    unsigned a, b, c = 0, d;

    if (k == 0) {
        k = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) ? 2 : 1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return k == 2;
}

#elif defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

#define WITH_INSTRUCTION

static inline uint32_t crc_word(uint32_t crc, const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return __crc32cd(crc, word);
}

static inline uint32_t crc_byte(uint32_t crc, unsigned char byte)
{
    return __crc32cb(crc, byte);
}

static bool has_instruction(void)
{
    return true;
}

#else

#define NO_INSTRUCTION

#endif

#ifdef NO_INSTRUCTION

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return crc32c_portable(crc, data, bytes);
}

#else

/* The instruction has an answer every cycle, and each takes some three of them: one stream of bytes waits for itself most of the
 * time. So a block is three parts, whose CRCs are made side by side and then put together. In what follows a CRC is as the
 * instruction has it, without the inversions at both ends: then it is linear, and
 *
 *      crc(A B) = zeros(crc(A)) ^ crc(B)
 *
 * where crc(B) begins with 0, and zeros(c) is what c becomes by as many zeros as B has bytes. */
enum { STREAMS = 3, PART_BYTES = 1024, BLOCK_BYTES = STREAMS * PART_BYTES };

/* zeros() of PART_BYTES, by each byte of the CRC. Threads that make it at the same time make the same. */
static _Atomic uint32_t zeros_of[sizeof(uint32_t)][256];

static inline uint32_t zeros_of_byte(uint32_t byte, uint32_t value)
{
    return atomic_load_explicit(&zeros_of[byte][value], memory_order_relaxed);
}

static inline uint32_t zeros(uint32_t crc)
{
    return zeros_of_byte(0, crc & 255) ^ zeros_of_byte(1, crc >> 8 & 255) ^
           zeros_of_byte(2, crc >> 16 & 255) ^ zeros_of_byte(3, crc >> 24);
}

WITH_INSTRUCTION static uint32_t zeros_of_bit(uint32_t bit)
{
    static const unsigned char part[PART_BYTES];
    uint32_t crc = UINT32_C(1) << bit;

    for (size_t i = 0; i < PART_BYTES; i += sizeof(uint64_t))
        crc = crc_word(crc, part + i);
    return crc;
}

/* What each bit becomes, and sums of these. */
static void make_zeros(void)
{
    for (uint32_t byte = 0; byte < sizeof(uint32_t); byte++)
        for (uint32_t bit = 0; bit < 8; bit++) {
            uint32_t one = zeros_of_bit(8 * byte + bit);
            for (uint32_t value = 0; value < 1u << bit; value++)
                atomic_store_explicit(&zeros_of[byte][value | 1u << bit],
                                      zeros_of_byte(byte, value) ^ one, memory_order_relaxed);
        }
}

static inline void need_zeros(void)
{
    static atomic_bool made;

    if (atomic_load_explicit(&made, memory_order_acquire)) /* pairs with the store below */
        return;
    make_zeros();
    atomic_store_explicit(&made, true, memory_order_release);
}

WITH_INSTRUCTION static uint32_t crc_block(uint32_t crc, const unsigned char *p)
{
    uint32_t c[STREAMS] = {crc};

    for (size_t i = 0; i < PART_BYTES; i += sizeof(uint64_t)) {
        c[0] = crc_word(c[0], p + i);
        c[1] = crc_word(c[1], p + PART_BYTES + i);
        c[2] = crc_word(c[2], p + 2 * PART_BYTES + i);
    }
    return zeros(zeros(c[0]) ^ c[1]) ^ c[2];
}

WITH_INSTRUCTION static uint32_t by_instruction(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    crc = ~crc;
    if (bytes >= BLOCK_BYTES)
        need_zeros();
    for (; bytes >= BLOCK_BYTES; p += BLOCK_BYTES, bytes -= BLOCK_BYTES)
        crc = crc_block(crc, p);
    for (; bytes >= sizeof(uint64_t); p += sizeof(uint64_t), bytes -= sizeof(uint64_t))
        crc = crc_word(crc, p);
    for (; bytes > 0; p++, bytes--)
        crc = crc_byte(crc, *p);
    return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return has_instruction() ? by_instruction(crc, data, bytes) : crc32c_portable(crc, data, bytes);
}

#endif
