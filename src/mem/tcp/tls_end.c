/* One end of a connection: two buffers, and between them and what is said first OpenSSL, for the handshake, and then the
 * two seals (mem/tcp/seal.h) of which it has given the keys.
 *
 *     tls_in -> in -> OpenSSL, then seal -> tls_read
 *     tls_write -> OpenSSL, then seal -> out -> tls_out
 *
 * OpenSSL takes what it needs of a record and no more, so what stands behind the handshake in `in` is for the seal. It
 * never waits for room in `out`: all there is to say fits. */
#include "mem/tcp/seal.h"
#include "mem/tcp/tls_impl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANGED "what came was changed on the way"

/* data[start..end) is used. */
struct buffer {
    unsigned char *data;
    size_t start, end, bytes_max;
};

enum state {
    SHAKING,    /* hands */
    CONFIRMING, /* the side that connects waits for the other's word */
    READY,
    FAILED,
};

struct tls_end {
    struct tls *tls;
    SSL *ssl; /* NULL: the handshake is over */
    struct buffer in, out;
    struct seal sent, heard; /* not with clear text */
    size_t opened; /* of what is in `in`: opened where it stood, and more than there was room for */
    enum state state;
    bool accepts;
    bool found; /* peer is who the other side is, if the handshake goes well */
    bool told;  /* why is what the other side says */
    struct tls_peer peer;
    char why[TLS_WHY_BYTES]; /* empty: nothing failed */
};

/* ---- buffers ---- */

static size_t buffer_used(const struct buffer *b)
{
    return b->end - b->start;
}

static size_t buffer_room(const struct buffer *b)
{
    return b->bytes_max - buffer_used(b);
}

static void buffer_compact(struct buffer *b)
{
    memmove(b->data, b->data + b->start, buffer_used(b));
    b->end -= b->start;
    b->start = 0;
}

static void buffer_drop(struct buffer *b, size_t bytes)
{
    CHECK(bytes <= buffer_used(b));
    b->start += bytes;
    if (b->start == b->end)
        b->start = b->end = 0;
}

static void buffer_add(struct buffer *b, const void *data, size_t bytes)
{
    CHECK(bytes <= buffer_room(b));
    if (b->bytes_max - b->end < bytes)
        buffer_compact(b);
    memcpy(b->data + b->end, data, bytes);
    b->end += bytes;
}

static size_t buffer_take(struct buffer *b, void *out, size_t room)
{
    size_t n = buffer_used(b) < room ? buffer_used(b) : room;

    memcpy(out, b->data + b->start, n);
    buffer_drop(b, n);
    return n;
}

/* Keeps what is in it. False: no memory, and nothing has changed. */
static bool buffer_grow(struct buffer *b, size_t bytes_max)
{
    unsigned char *data = malloc(bytes_max);
    size_t used = buffer_used(b);

    if (!data)
        return false;
    if (used > 0)
        memcpy(data, b->data + b->start, used);
    free(b->data);
    *b = (struct buffer){.data = data, .end = used, .bytes_max = bytes_max};
    return true;
}

/* ---- what OpenSSL sees of them ---- */

static int bio_read(BIO *bio, char *out, size_t room, size_t *got)
{
    struct tls_end *e = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *got = buffer_take(&e->in, out, room);
    if (*got > 0)
        return 1;
    BIO_set_retry_read(bio);
    return -1;
}

/* Without room it fails for good. */
static int bio_write(BIO *bio, const char *data, size_t bytes, size_t *put)
{
    struct tls_end *e = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *put = 0;
    if (bytes > buffer_room(&e->out))
        return -1;
    buffer_add(&e->out, data, bytes);
    *put = bytes;
    return 1;
}

static long bio_ctrl(BIO *bio, int what, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return what == BIO_CTRL_FLUSH; /* there is nothing that it could do */
}

BIO_METHOD *tls_buffers_new(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "buffers of a connection");

    if (m && BIO_meth_set_read_ex(m, bio_read) == 1 && BIO_meth_set_write_ex(m, bio_write) == 1 &&
        BIO_meth_set_ctrl(m, bio_ctrl) == 1)
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* ---- an end ---- */

static bool ssl_make(struct tls_end *e)
{
    BIO *bio = BIO_new(e->tls->buffers);

    e->ssl = SSL_new(e->accepts ? e->tls->accepts : e->tls->connects);
    if (!bio || !e->ssl || SSL_set_app_data(e->ssl, e) != 1) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, e);
    BIO_set_init(bio, 1);
    SSL_set_bio(e->ssl, bio, bio); /* which is theirs now */
    if (e->accepts)
        SSL_set_accept_state(e->ssl);
    else
        SSL_set_connect_state(e->ssl);
    return true;
}

struct tls_end *tls_end_new(struct tls *t, bool accepts)
{
    struct tls_end *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->tls = tls_share(t);
    e->accepts = accepts;
    if (buffer_grow(&e->in, TLS_HANDSHAKE_BYTES) && buffer_grow(&e->out, TLS_HANDSHAKE_BYTES) &&
        ssl_make(e))
        return e;
    ERR_clear_error();
    tls_end_free(e);
    return NULL;
}

void tls_end_free(struct tls_end *e)
{
    if (!e)
        return;
    SSL_free(e->ssl);
    seal_end(&e->sent);
    seal_end(&e->heard);
    free(e->in.data);
    free(e->out.data);
    tls_drop(e->tls);
    free(e);
}

struct tls_end *tls_end_of_ssl(const SSL *ssl)
{
    return SSL_get_app_data(ssl);
}

void tls_end_found(struct tls_end *e, struct tls_peer p)
{
    e->peer = p;
    e->found = true;
}

void tls_end_because(struct tls_end *e, const char *fmt, ...)
{
    va_list ap;

    if (e->why[0])
        return;
    va_start(ap, fmt);
    vsnprintf(e->why, sizeof e->why, fmt, ap);
    va_end(ap);
}

const char *tls_why(const struct tls_end *e)
{
    return e->why;
}

void tls_end_told(struct tls_end *e)
{
    e->told = true;
}

bool tls_told(const struct tls_end *e)
{
    return e->told;
}

struct tls_peer tls_end_peer(const struct tls_end *e)
{
    CHECK(e->state >= READY && e->found);
    return e->peer;
}

bool tls_end_clear(const struct tls_end *e)
{
    return e->tls->clear;
}

const struct tls *tls_end_of(const struct tls_end *e)
{
    return e->tls;
}

/* ---- what comes and goes ---- */

unsigned char *tls_in(struct tls_end *e, size_t *room)
{
    /* Moves no more than was read since it moved last. */
    if (e->in.start > 0 && e->in.start >= buffer_used(&e->in))
        buffer_compact(&e->in);
    *room = e->in.bytes_max - e->in.end;
    return e->in.data + e->in.end;
}

void tls_in_add(struct tls_end *e, size_t bytes)
{
    CHECK(bytes <= e->in.bytes_max - e->in.end);
    e->in.end += bytes;
}

const unsigned char *tls_out(struct tls_end *e, size_t *bytes)
{
    *bytes = buffer_used(&e->out);
    return e->out.data + e->out.start;
}

void tls_out_drop(struct tls_end *e, size_t bytes)
{
    buffer_drop(&e->out, bytes);
}

/* ---- the handshake ---- */

static enum tls_step fail(struct tls_end *e, const char *why)
{
    tls_end_because(e, "%s", why);
    e->state = FAILED;
    return TLS_FAILED;
}

/* What the thread did before must not be taken for the failure of the next SSL call. Emptying a queue that is
 * empty takes 120 ns, a sixth of a short record. */
static void forget_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* After an SSL call did not do all it should: must it wait, or is it over? */
static bool must_wait(struct tls_end *e, int rc)
{
    int code = SSL_get_error(e->ssl, rc);

    if (code == SSL_ERROR_WANT_READ)
        return true;
    tls_explain(e, e->tls, code);
    e->state = FAILED;
    return false;
}

static enum tls_step shake(struct tls_end *e)
{
    int rc = SSL_do_handshake(e->ssl);

    if (rc != 1)
        return must_wait(e, rc) ? TLS_AGAIN : TLS_FAILED;
    if (!tls_alpn_agreed(e->ssl, e->tls->clear))
        return fail(e, "it does not speak our protocol");
    CHECK(e->found);
    e->state = CONFIRMING;
    return TLS_READY;
}

/* Each way has a secret of its own. */
static bool seals_begin(struct tls_end *e)
{
    static const char label[] = "EXPERIMENTAL tramway records 1";
    unsigned char secret[2][SEAL_SECRET_BYTES]; /* of who connects, of who accepts */
    uint64_t most = e->tls->rekey_records;

    bool ok = SSL_export_keying_material(e->ssl, secret[0], sizeof secret, label, sizeof label - 1,
                                         NULL, 0, 0) == 1 &&
              seal_begin(&e->sent, true, secret[e->accepts], most) &&
              seal_begin(&e->heard, false, secret[!e->accepts], most);
    OPENSSL_cleanse(secret, sizeof secret);
    return ok;
}

/* OpenSSL's side that connects is done before the other has judged it. An alert of the other side would be taken for
 * what follows; so it first says one word under the keys, when it is done. */
static enum tls_step confirm(struct tls_end *e)
{
    unsigned char word = 1;
    size_t done;
    int rc =
        e->accepts ? SSL_write_ex(e->ssl, &word, 1, &done) : SSL_read_ex(e->ssl, &word, 1, &done);

    if (rc != 1)
        return must_wait(e, rc) ? TLS_AGAIN : TLS_FAILED;
    if (word != 1 || SSL_pending(e->ssl) > 0)
        return fail(e, "it does not speak our protocol");
    if (!e->tls->clear && !seals_begin(e))
        return fail(e, "no memory");
    SSL_free(e->ssl);
    e->ssl = NULL;
    return TLS_READY;
}

static enum tls_step get_ready(struct tls_end *e)
{
    if (!buffer_grow(&e->in, TLS_BUFFER_BYTES) || !buffer_grow(&e->out, TLS_BUFFER_BYTES))
        return fail(e, "no memory");
    e->state = READY;
    return TLS_READY;
}

enum tls_step tls_handshake(struct tls_end *e)
{
    enum tls_step step = TLS_READY;

    if (e->state >= READY)
        return e->state == READY ? TLS_READY : TLS_FAILED;
    forget_errors();
    if (e->state == SHAKING)
        step = shake(e);
    if (step == TLS_READY)
        step = confirm(e);
    return step == TLS_READY ? get_ready(e) : step;
}

/* ---- what is said ---- */

/* How much of that the next record takes, 0 if there is no room for one that is worth it. */
static size_t record_bytes(const struct tls_end *e, size_t bytes)
{
    size_t room = buffer_room(&e->out);

    if (room <= SEAL_MORE)
        return 0;
    if (bytes > TLS_RECORD_BYTES)
        bytes = TLS_RECORD_BYTES;
    if (bytes <= room - SEAL_MORE)
        return bytes;
    return room - SEAL_MORE < TLS_SHORT_BYTES ? 0 : room - SEAL_MORE;
}

static bool write_record(struct tls_end *e, const unsigned char *data, size_t bytes)
{
    if (e->out.bytes_max - e->out.end < bytes + SEAL_MORE)
        buffer_compact(&e->out);
    if (!seal_write(&e->sent, data, (uint32_t)bytes, e->out.data + e->out.end)) {
        fail(e, "it cannot be encrypted");
        return false;
    }
    e->out.end += bytes + SEAL_MORE;
    return true;
}

static size_t write_clear(struct tls_end *e, const void *data, size_t bytes)
{
    size_t room = buffer_room(&e->out), n = bytes < room ? bytes : room;

    buffer_add(&e->out, data, n);
    return n;
}

size_t tls_write(struct tls_end *e, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    size_t taken = 0;

    CHECK(e->state >= READY);
    if (e->state == FAILED)
        return 0;
    if (e->tls->clear)
        return write_clear(e, data, bytes);
    while (taken < bytes) {
        size_t n = record_bytes(e, bytes - taken);
        if (n == 0 || !write_record(e, from + taken, n))
            break;
        taken += n;
    }
    return taken;
}

/* Gives out of a record that was opened where it stood. */
static size_t take_opened(struct tls_end *e, void *out, size_t room)
{
    size_t n = e->opened < room ? e->opened : room;

    memcpy(out, e->in.data + e->in.start, n);
    e->opened -= n;
    buffer_drop(&e->in, n + (e->opened == 0 ? SEAL_TAG_BYTES : 0));
    return n;
}

/* Opens the next record, if it is whole: into `out` if it fits. What is 0 was said of an empty one, too. */
static long read_record(struct tls_end *e, unsigned char *out, size_t room)
{
    unsigned char *record = e->in.data + e->in.start;
    size_t came = buffer_used(&e->in);
    uint32_t bytes = came < SEAL_HEAD_BYTES ? 0 : seal_inside(record);

    if (bytes > TLS_RECORD_BYTES || (came >= SEAL_HEAD_BYTES && bytes == 0)) {
        fail(e, CHANGED);
        return -1;
    }
    if (came < SEAL_HEAD_BYTES || came < bytes + SEAL_MORE)
        return 0;
    bool fits = bytes <= room;
    if (!seal_read(&e->heard, record, fits ? out : record + SEAL_HEAD_BYTES)) {
        forget_errors();
        fail(e, CHANGED);
        return -1;
    }
    if (fits) {
        buffer_drop(&e->in, bytes + SEAL_MORE);
        return bytes;
    }
    buffer_drop(&e->in, SEAL_HEAD_BYTES);
    e->opened = bytes;
    return (long)take_opened(e, out, room);
}

/* What came before a record that is not good is given out first. */
long tls_read(struct tls_end *e, void *out, size_t room)
{
    unsigned char *to = out;
    size_t got = 0;

    CHECK(e->state >= READY);
    if (e->state == FAILED)
        return -1;
    if (e->tls->clear)
        return (long)buffer_take(&e->in, out, room);
    if (e->opened > 0)
        got = take_opened(e, out, room);
    while (got < room && e->opened == 0) {
        long n = read_record(e, to + got, room - got);
        if (n < 0)
            return got > 0 ? (long)got : -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (long)got;
}
