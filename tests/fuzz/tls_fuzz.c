/* Whatever bytes come over a connection: nobody is let in by them, nothing of them is given out, and no end dies of
 * them. The first byte says who hears them: an end that accepts, one that connects, or one that is ready. The second
 * says in pieces of what size. */
#include "../tls_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { ACCEPTS, CONNECTS, IS_READY, KINDS };

static struct tls *nodes[2];

static void nodes_open(void)
{
    struct tls_fixture_book book = tls_fixture_book();

    for (uint8_t i = 0; i < 2; i++)
        nodes[i] = tls_fixture_open(&book, i, false);
}

/* Something was said to it before, so that keys and counters are not the first ones. */
static struct tls_end *ready_make(void)
{
    struct tls_end *a = tls_end_new(nodes[0], false), *b = tls_end_new(nodes[1], true);
    enum tls_step of_a, of_b;
    char got[8];

    CHECK(a && b);
    tls_fixture_shake(a, b, SIZE_MAX, &of_a, &of_b);
    CHECK(of_a == TLS_READY && of_b == TLS_READY);
    CHECK(tls_write(a, "hello", 5) == 5);
    tls_fixture_carry(a, b, SIZE_MAX);
    CHECK(tls_read(b, got, sizeof got) == 5);
    tls_end_free(a);
    return b;
}

static bool hears(struct tls_end *e, bool ready)
{
    unsigned char out[64];
    size_t said;

    if (!ready) {
        enum tls_step step = tls_handshake(e);
        CHECK(step != TLS_READY);
        CHECK((step == TLS_FAILED) == (tls_why(e)[0] != '\0'));
        tls_out(e, &said);
        tls_out_drop(e, said);
        return step == TLS_AGAIN;
    }
    long n = tls_read(e, out, sizeof out);
    CHECK(n <= 0 && (n < 0) == (tls_why(e)[0] != '\0'));
    return n == 0;
}

static void feed(struct tls_end *e, bool ready, const uint8_t *data, size_t bytes, size_t piece)
{
    bool goes_on = ready || hears(e, ready);

    while (goes_on && bytes > 0) {
        size_t room, n = bytes < piece ? bytes : piece;
        unsigned char *in = tls_in(e, &room);
        CHECK(room > 0); /* it waits for something */
        n = n < room ? n : room;
        memcpy(in, data, n);
        tls_in_add(e, n);
        data += n;
        bytes -= n;
        goes_on = hears(e, ready);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!nodes[0])
        nodes_open();
    if (bytes < 2)
        return 0;
    unsigned kind = data[0] % KINDS;
    struct tls_end *e = kind == IS_READY ? ready_make() : tls_end_new(nodes[0], kind == ACCEPTS);
    CHECK(e != NULL);
    feed(e, kind == IS_READY, data + 2, bytes - 2, data[1] ? data[1] * 16u : SIZE_MAX);
    tls_end_free(e);
    return 0;
}
