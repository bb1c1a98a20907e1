/* Words for what went wrong, for people who read a log. OpenSSL's own stand behind them where they may help. */
#include "mem/tcp/tls_impl.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>

#define NOT_TLS "what came was changed on the way or is not TLS"
#define OTHER_VERSION "it does not speak TLS 1.3"

/* What the other side told us before it went. */
static const char *alert_text(const struct tls *t, int alert)
{
    switch (alert) {
    case SSL_AD_UNKNOWN_CA:
        return t->authority ? "it does not know the authority of our certificate"
                            : "it says that our key is not in its cluster file";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return "it says that our certificate has expired";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_ACCESS_DENIED:
        return "it refuses our certificate";
    case SSL_AD_CERTIFICATE_REQUIRED:
        return "it got no certificate of ours";
    case SSL_AD_PROTOCOL_VERSION:
        return OTHER_VERSION;
    case SSL_AD_NO_APPLICATION_PROTOCOL:
        return t->clear ? "we want clear text and it does not, or its version is another"
                        : "it wants clear text and we do not, or its version is another";
    case SSL_AD_HANDSHAKE_FAILURE:
        return "it takes no cipher or no key of our kind";
    case SSL_AD_BAD_RECORD_MAC:
    case SSL_AD_DECODE_ERROR:
    case SSL_AD_DECRYPT_ERROR:
    case SSL_AD_UNEXPECTED_MESSAGE:
        return "it says that what we sent was changed on the way or is not TLS";
    default:
        return NULL;
    }
}

/* What we found ourselves. */
static const char *reason_text(int reason)
{
    switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_VERSION_TOO_LOW:
        return OTHER_VERSION;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_WRONG_CIPHER_RETURNED:
        return "it takes no cipher or no key of our kind";
    case SSL_R_WRONG_SIGNATURE_TYPE:
        return "its key is of another kind";
    case SSL_R_BAD_SIGNATURE:
        return "it does not have the secret that goes with its key";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "it shows no certificate";
    default:
        return NULL;
    }
}

static void explain_reason(struct tls_end *e, const struct tls *t, unsigned long error)
{
    bool of_ssl = ERR_GET_LIB(error) == ERR_LIB_SSL; /* else the numbers mean other things */
    int reason = ERR_GET_REASON(error), alert = reason - SSL_AD_REASON_OFFSET;
    bool told = of_ssl && alert >= 0 && alert < 256;
    const char *text = told ? alert_text(t, alert) : of_ssl ? reason_text(reason) : NULL;
    const char *theirs = ERR_reason_error_string(error);

    if (told)
        tls_end_told(e);
    if (reason == ERR_R_MALLOC_FAILURE)
        tls_end_because(e, "no memory");
    else if (text)
        tls_end_because(e, "%s", text);
    else if (told)
        tls_end_because(e, "it ended the connection, and told us: %s",
                        SSL_alert_desc_string_long(alert));
    else
        tls_end_because(e, NOT_TLS " (%s)", theirs ? theirs : "no reason is known");
}

void tls_explain(struct tls_end *e, const struct tls *t, int code)
{
    unsigned long error = ERR_peek_error();

    if (code == SSL_ERROR_ZERO_RETURN)
        tls_end_because(e, "it closed the connection");
    else if (error)
        explain_reason(e, t, error);
    else
        tls_end_because(e, "it asks for more than there is room for");
    ERR_clear_error();
}
