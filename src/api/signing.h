/* Signatures of a host under its logs of versions (group/versions.h), with the key by which other hosts know it. */
#ifndef API_SIGNING_H
#define API_SIGNING_H

#include "api/api.h"
#include "base/sign.h"

/* What a host signs of a log that has that digest. */
struct sign_text group_sign_text(const struct tram_cluster *, uint32_t host, uint32_t log,
                                 const struct digest *);

struct group_signing {
    const struct tram_cluster *cluster;
    uint32_t host;
    bool open;
    struct sign_secret secret;
};

/* Reads the host's secret key if one of its logs is signed; else it stays closed. */
int group_signing_open(const struct tram_cluster *, uint32_t host, struct group_signing *,
                       struct err *);
void group_signing_close(struct group_signing *);
/* As in struct versions_signer; ctx is a struct group_signing. */
void group_sign(void *ctx, uint32_t log, const struct digest *, unsigned char *signature);

#endif
