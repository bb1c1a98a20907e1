#include "api/keys.h"

#include "api/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What tells that a file is another one: it is replaced by renaming, or written in place. */
struct version {
    struct timespec changed;
    ino_t inode;
    off_t bytes;
};

struct keys_watch {
    char file[512];
    int host;
    bool encrypt, authority;
    uint32_t hosts;
    char names[CLUSTER_HOSTS_MAX][CLUSTER_NAME_BYTES];
    struct version seen;
};

static struct version version_of(const char *file)
{
    struct stat st;
    if (stat(file, &st) != 0)
        return (struct version){.inode = 0};
    return (struct version){.changed = st.st_ctim, .inode = st.st_ino, .bytes = st.st_size};
}

static bool same(const struct version *a, const struct version *b)
{
    return a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec &&
           a->inode == b->inode && a->bytes == b->bytes;
}

/* ---- who we are, and whom we know ---- */

static int tls_by_authority(const struct cluster *c, const char *file, const char *name,
                            struct tls_options *o, struct tls **out, struct err *e)
{
    char ca[512], cert[512], secret[512];
    int rc = cluster_path(c, file, CLUSTER_PATH_CA, NULL, ca, sizeof(ca), e);
    if (rc == 0)
        rc = cluster_path(c, file, CLUSTER_PATH_CERT, name, cert, sizeof(cert), e);
    if (rc == 0)
        rc = cluster_path(c, file, CLUSTER_PATH_KEY, name, secret, sizeof(secret), e);
    if (rc != 0)
        return rc;
    o->ca = ca;
    o->cert = cert;
    o->secret_path = secret;
    return tls_open(o, out, e);
}

static int tls_by_keys(const struct cluster *c, const char *file, int host, struct tls_options *o,
                       struct tls **out, struct err *e)
{
    unsigned char secret[TLS_KEY_BYTES];
    char name[CLUSTER_NAME_BYTES];
    int rc = host >= 0 ? api_secret(c, file, c->host[host].name, true, secret, e)
                       : api_secret_client(c, file, name, secret, e);
    if (rc != 0)
        return rc;
    o->secret = secret;
    rc = tls_open(o, out, e);
    tls_key_wipe(secret);
    return rc;
}

static int tls_of(const struct cluster *c, const char *file, int host, struct tls **out,
                  struct err *e)
{
    struct tls_identity hosts[CLUSTER_HOSTS_MAX], clients[CLUSTER_CLIENT_KEYS_MAX];
    char name[CLUSTER_NAME_BYTES];
    api_identities(c, hosts, clients);
    struct tls_options o = {.hosts = hosts,
                            .hosts_count = c->hosts,
                            .clients = clients,
                            .clients_count = c->client_keys,
                            .clear = !c->encrypt};
    if (c->tls_ca[0] == 0)
        return tls_by_keys(c, file, host, &o, out, e);
    o.clients_count = 0;
    int rc = host >= 0 ? 0 : api_client_name(c, file, name, e);
    return rc ? rc : tls_by_authority(c, file, host >= 0 ? c->host[host].name : name, &o, out, e);
}

/* ---- again ---- */

/* Keys may change while a process runs, and nothing else. */
static int check_same(const struct keys_watch *w, const struct cluster *c, struct err *e)
{
    bool fits = c->transport == CLUSTER_TCP && c->hosts == w->hosts && c->encrypt == w->encrypt &&
                (c->tls_ca[0] != 0) == w->authority;
    for (uint32_t h = 0; fits && h < c->hosts; h++)
        fits = strcmp(c->host[h].name, w->names[h]) == 0;
    return fits ? 0
                : err_set(
                      e, ERR_INVALID,
                      "%s has other hosts, or another way to encrypt, than when this process was "
                      "started; start it again to follow it",
                      w->file);
}

static struct tls *again(void *ctx, struct err *e)
{
    struct keys_watch *w = ctx;
    struct cluster *c = NULL;
    struct tls *out = NULL;
    struct version now = version_of(w->file);
    /* One that is gone is about to be there again, or is not needed any more. */
    if (now.inode == 0 || same(&now, &w->seen))
        return NULL;
    w->seen = now;
    int rc = cluster_load(w->file, &c, e);
    if (rc == 0)
        rc = check_same(w, c, e);
    if (rc == 0)
        rc = tls_of(c, w->file, w->host, &out, e);
    cluster_free(c);
    return rc == 0 ? out : NULL;
}

static void watch_close(void *ctx)
{
    free(ctx);
}

static const struct tcp_keys keys = {.again = again, .close = watch_close};

int api_keys_open(const struct cluster *c, const char *file, int host, struct tcp_options *o,
                  struct err *e)
{
    struct keys_watch *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return err_set(e, ERR_NOMEM, "cluster %s: no memory", c->name);
    snprintf(w->file, sizeof(w->file), "%s", file);
    w->host = host;
    w->encrypt = c->encrypt;
    w->authority = c->tls_ca[0] != 0;
    w->hosts = c->hosts;
    for (uint32_t h = 0; h < c->hosts; h++)
        memcpy(w->names[h], c->host[h].name, sizeof(w->names[h]));
    w->seen = version_of(file);
    int rc = tls_of(c, file, host, &o->tls, e);
    if (rc != 0) {
        free(w);
        return rc;
    }
    o->keys = &keys;
    o->keys_ctx = w;
    return 0;
}

void api_keys_drop(struct tcp_options *o)
{
    tls_drop(o->tls);
    o->tls = NULL;
}
