/* Runs a fuzz target without a fuzzer, so that `make test` can: all files of the corpus as they are, then
 * a few thousand mutations of them, the same ones every time.
 *
 *     fuzz_NAME NAME ROUNDS SEED FILE...
 *
 * ROUNDS is a number of mutations, or for how long to go on: 20s. FUZZ_FACTOR in the environment makes it so many times as
 * much (`make fuzz`).
 *
 * The input under way is in fuzz_NAME.input; after a crash, give it as the only FILE with 0 rounds. The
 * targets have libFuzzer's entry point: clang -fsanitize=fuzzer,address NAME_fuzz.c and the library. */
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { INPUT_MAX = 1 << 16, FILES_MAX = 64, CHANGES_MAX = 6, SPAN_MAX = 64 };

struct input {
    uint8_t *data;
    size_t bytes;
};

static struct input corpus[FILES_MAX];
static uint32_t files;
static int save_fd;

/* Pieces that mean something to parsers, which random bytes seldom hit. */
/* clang-format off: one line for each would be half a file */
static const char *const pieces[] = {
    "\n",
    " ",
    "  ",
    "\t",
    "\r",
    ": ",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    "'",
    "\"",
    "\\",
    "&a ",
    "*a",
    "!!s ",
    "|\n",
    ">\n",
    "---\n",
    "...\n",
    "%T ",
    "<<: ",
    "~",
    "null",
    "true",
    "0",
    "-1",
    "1",
    "65536",
    "4294967296",
    "1 MiB",
    "k",
    "\xef\xbb\xbf",
    "\xff",
    "\xc2\x85",
    "\xe2\x80\xa8",
};
/* clang-format on */

enum { PIECES = sizeof pieces / sizeof pieces[0] };

static void try_input(const uint8_t *data, size_t bytes)
{
    /* A copy of just that size, so that a read beyond its end is seen. */
    uint8_t *copy = malloc(bytes ? bytes : 1);

    CHECK(copy != NULL);
    memcpy(copy, data, bytes);
    CHECK(ftruncate(save_fd, 0) == 0 && pwrite(save_fd, copy, bytes, 0) == (ssize_t)bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

/* Replaces `drop` bytes at `at` by the given ones, as far as there is room. */
static void replace(uint8_t *data, size_t *bytes, size_t at, size_t drop, const void *put,
                    size_t put_bytes)
{
    if (*bytes - drop + put_bytes > INPUT_MAX)
        return;
    memmove(data + at + put_bytes, data + at + drop, *bytes - at - drop);
    memcpy(data + at, put, put_bytes);
    *bytes = *bytes - drop + put_bytes;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void mutate(struct rng *r, uint8_t *data, size_t *bytes)
{
    size_t at = (size_t)rng_below(r, *bytes + 1), left = *bytes - at;
    size_t span = least((size_t)rng_below(r, SPAN_MAX), left);
    const struct input *other = &corpus[rng_below(r, files)];
    size_t from = (size_t)rng_below(r, other->bytes + 1);
    const char *piece = pieces[rng_below(r, PIECES)];
    uint8_t copy[SPAN_MAX];

    switch (rng_below(r, 6)) {
    case 0: /* a bit */
        if (left > 0)
            data[at] ^= (uint8_t)(1u << rng_below(r, 8));
        break;
    case 1: /* a span less */
        replace(data, bytes, at, span, "", 0);
        break;
    case 2: /* a span twice */
        memcpy(copy, data + at, span);
        replace(data, bytes, (size_t)rng_below(r, *bytes + 1), 0, copy, span);
        break;
    case 3: /* a piece more */
        replace(data, bytes, at, 0, piece, strlen(piece));
        break;
    case 4: /* a piece instead of a few bytes */
        replace(data, bytes, at, least(span, 8), piece, strlen(piece));
        break;
    default: /* a span of another file */
        replace(data, bytes, at, span, other->data + from,
                least((size_t)rng_below(r, SPAN_MAX), other->bytes - from));
    }
}

static void read_file(const char *path, struct input *in)
{
    FILE *f = fopen(path, "rb");

    in->data = malloc(INPUT_MAX);
    CHECK(f != NULL && in->data != NULL);
    in->bytes = fread(in->data, 1, INPUT_MAX, f);
    fclose(f);
}

int main(int argc, char **argv)
{
    static uint8_t data[INPUT_MAX];
    char save[256];
    struct rng r;

    if (argc < 5 || argc - 4 > FILES_MAX) {
        fprintf(stderr, "usage: %s NAME ROUNDS SEED FILE...\n", argv[0]);
        return 2;
    }
    char *unit;
    unsigned long rounds = strtoul(argv[2], &unit, 10), n = 0;
    const char *factor = getenv("FUZZ_FACTOR");
    rounds *= factor ? strtoul(factor, NULL, 10) : 1;
    uint64_t until = *unit == 's' ? clock_now_ns() + rounds * 1000000000u : 0;
    rng_init(&r, strtoull(argv[3], NULL, 10));
    for (int i = 4; i < argc; i++)
        read_file(argv[i], &corpus[files++]);
    snprintf(save, sizeof save, "fuzz_%s.input", argv[1]);
    save_fd = open(save, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(save_fd >= 0);
    printf("# if it dies here, the input is in %s\n", save);
    fflush(stdout);

    for (uint32_t i = 0; i < files; i++)
        try_input(corpus[i].data, corpus[i].bytes);
    for (; until ? clock_now_ns() < until : n < rounds; n++) {
        const struct input *in = &corpus[rng_below(&r, files)];
        size_t bytes = in->bytes;
        memcpy(data, in->data, bytes);
        for (uint64_t c = 1 + rng_below(&r, CHANGES_MAX); c > 0; c--)
            mutate(&r, data, &bytes);
        try_input(data, bytes);
    }
    for (uint32_t i = 0; i < files; i++)
        free(corpus[i].data);
    close(save_fd);
    unlink(save);
    printf("ok 1 - %s__survives_%lu_inputs\n1..1\n", argv[1], n + files);
    return 0;
}
