#include "api/signing.h"

#include "api/secret.h"

#include <string.h>

struct sign_text group_sign_text(const struct tram_cluster *c, uint32_t host, uint32_t log,
                                 const struct digest *digest)
{
    struct sign_text text = {
        .group = log, .role = SIGN_VERSIONS, .signer = host, .digest = *digest};
    memcpy(text.tag, SIGN_TAG, sizeof(text.tag));
    memcpy(&text.cluster, c->conf->id, sizeof(text.cluster));
    return text;
}

static bool signs(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->subgroups; i++)
        if (c->subgroup[i].sign)
            return true;
    return false;
}

int group_signing_open(const struct tram_cluster *c, uint32_t host, struct group_signing *s,
                       struct err *e)
{
    unsigned char secret[TLS_KEY_BYTES];
    *s = (struct group_signing){.cluster = c, .host = host};
    if (!signs(c->conf))
        return 0;
    int rc = api_secret(c->conf, c->file, c->conf->host[host].name, true, secret, e);
    if (rc < 0)
        return rc;
    sign_secret_open(&s->secret, secret);
    tls_key_wipe(secret);
    s->open = true;
    return 0;
}

void group_signing_close(struct group_signing *s)
{
    if (s->open)
        sign_secret_close(&s->secret);
    s->open = false;
}

void group_sign(void *ctx, uint32_t log, const struct digest *digest, unsigned char *signature)
{
    const struct group_signing *s = ctx;
    const struct sign_text text = group_sign_text(s->cluster, s->host, log, digest);
    sign_now(&s->secret, &text, signature);
}
