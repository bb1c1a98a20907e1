/* Whatever stands in the files of a log: it is read as far as it is good, refused with a place, or is no log. The first byte says whether
 * heads and CRCs are put right first, and where the bytes are cut into two files: else no mutation would come any further. */
#include "base/crc32c.h"
#include "base/minmax.h"
#include "group/versions_impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FILES = 2, FILE_BYTES_MAX = 16 * BLOCK_BYTES };

struct files {
    struct block block; /* first */
    unsigned char *at[FILES];
    uint64_t bytes[FILES];
};

static volatile uint32_t sink;

static const struct versions_owner owner = {.cluster = "fuzz", .host = 1};

/* ---- files in memory ---- */

static int list(struct block *b, void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx,
                struct err *e)
{
    struct files *f = (struct files *)b;
    char name[BLOCK_NAME_BYTES];
    (void)e;
    for (uint32_t i = 0; i < FILES; i++) {
        versions_name(name, 1, i + 1);
        if (f->bytes[i] > 0)
            fn(ctx, name, f->bytes[i]);
    }
    return 0;
}

static int read_file(struct block *b, const char *name, uint64_t at, void *into, uint64_t bytes,
                     struct err *e)
{
    struct files *f = (struct files *)b;
    uint32_t log, index;
    (void)e;
    CHECK(versions_is_name(name, &log, &index) && log == 1 && index <= FILES);
    CHECK(at <= f->bytes[index - 1] && bytes <= f->bytes[index - 1] - at);
    memcpy(into, f->at[index - 1] + at, bytes);
    return 0;
}

static void take_file(struct files *f, uint32_t i, const uint8_t *data, size_t bytes)
{
    f->bytes[i] = min_u64(versions_blocks(bytes), FILE_BYTES_MAX);
    f->at[i] = calloc(1, f->bytes[i] + 1);
    CHECK(f->at[i] != NULL);
    memcpy(f->at[i], data, min_u64(bytes, f->bytes[i]));
}

/* ---- what is put right ---- */

static void repair_batch(unsigned char *at, uint64_t room, uint64_t number)
{
    struct versions_batch *b = (struct versions_batch *)(void *)at;
    b->magic = VERSIONS_BATCH_MAGIC;
    b->bytes = BLOCK_BYTES * (1 + b->bytes % 3);
    if (b->bytes > room)
        b->bytes = BLOCK_BYTES;
    b->used %= b->bytes - (uint32_t)sizeof(*b) + 1;
    b->number = number;
    versions_batch_seal(b);
}

static void repair(struct files *f)
{
    uint64_t number = 1;
    for (uint32_t i = 0; i < FILES && f->bytes[i] >= 2 * BLOCK_BYTES; i++) {
        struct versions_segment *s = (struct versions_segment *)(void *)f->at[i];
        *s = (struct versions_segment){.magic = VERSIONS_SEGMENT_MAGIC,
                                       .format = VERSIONS_FORMAT,
                                       .host = owner.host,
                                       .log = 1,
                                       .index = i + 1,
                                       .batch = number,
                                       .version = s->version,
                                       .time = s->time};
        memcpy(s->cluster, owner.cluster, sizeof(s->cluster));
        versions_segment_seal(s);
        for (uint64_t at = BLOCK_BYTES; at < f->bytes[i];) {
            repair_batch(f->at[i] + at, f->bytes[i] - at, number++);
            at += ((struct versions_batch *)(void *)(f->at[i] + at))->bytes;
        }
    }
}

/* ---- reading ---- */

static int use(void *ctx, const struct version *v, const void *payload)
{
    (void)ctx;
    sink = sink + crc32c(0, payload, v->bytes);
    return 0;
}

static void read_all(struct files *f)
{
    struct versions_verified verified;
    struct err e = {""};
    versions_read(&f->block, &owner, 1, 0, 0, use, NULL, &e);
    versions_read(&f->block, &owner, 1, UINT64_C(1) << 40, 1000, use, NULL, &e);
    versions_verify(&f->block, &owner, 1, NULL, NULL, &verified, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct block_ops ops = {.list = list, .read = read_file};
    struct files f = {.block = {.ops = &ops}};
    uint32_t log, index;
    char name[BLOCK_NAME_BYTES] = "";
    if (bytes < 2)
        return 0;
    memcpy(name, data + 1, min_u64(bytes - 1, sizeof(name) - 1));
    versions_is_name(name, &log, &index);
    size_t first = (size_t)min_u64((uint64_t)(1 + data[0] % 8) * BLOCK_BYTES, bytes - 1);
    take_file(&f, 0, data + 1, first);
    take_file(&f, 1, data + 1 + first, bytes - 1 - first);
    if (data[0] & 128)
        repair(&f);
    read_all(&f);
    free(f.at[0]);
    free(f.at[1]);
    return 0;
}
