#include "api/keys.h"

#include "api/secret.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 5, PATH_BYTES = 512 };

struct keys_watch {
    char file[FILES_MAX][PATH_BYTES]; /* the cluster file, and those with keys that it speaks of */
    uint32_t files;
    uint64_t seen; /* what they were, when they were last read */
    int host;
    bool encrypt, authority;
    uint32_t hosts;
    char names[CLUSTER_HOSTS_MAX][CLUSTER_NAME_BYTES];
};

/* What tells that a file is another one: it is replaced by renaming, or written in place. 0: the first is not there. */
static uint64_t version(const struct keys_watch *w)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < w->files; i++) {
        struct stat st = {0};
        if (stat(w->file[i], &st) != 0 && i == 0)
            return 0;
        const uint64_t one[] = {(uint64_t)st.st_ctim.tv_sec, (uint64_t)st.st_ctim.tv_nsec,
                                (uint64_t)st.st_ino, (uint64_t)st.st_size};
        all = hash_bytes(all, one, sizeof(one));
    }
    return all;
}

/* Paths that are too long are not watched. */
static char *next_path(struct keys_watch *w)
{
    return w->file[w->files < FILES_MAX ? w->files : FILES_MAX - 1];
}

static void watch_path(struct keys_watch *w, int rc)
{
    w->files += rc == 0 && w->files < FILES_MAX;
}

/* Those that change with keys: of a host or client its secret ones, and what is shared. */
static void watch_files(struct keys_watch *w, const struct cluster *c, const char *file)
{
    struct err e = {""};
    char client[CLUSTER_NAME_BYTES] = "client";
    const char *given = getenv("TRAM_KEY");
    if (w->host < 0)
        api_client_name(c, file, client, &e);
    const char *name = w->host >= 0 ? c->host[w->host].name : client;
    snprintf(w->file[w->files++], PATH_BYTES, "%s", file);
    if (w->authority) {
        for (int p = CLUSTER_PATH_CA; p <= CLUSTER_PATH_KEY; p++)
            watch_path(
                w, cluster_path(c, file, (enum cluster_path)p, name, next_path(w), PATH_BYTES, &e));
        return;
    }
    if (w->host < 0 && given)
        snprintf(w->file[w->files++], PATH_BYTES, "%s", given);
    for (int next = 0; next < 2; next++)
        watch_path(w, cluster_secret_path(c, file, name, next, next_path(w), PATH_BYTES, &e));
    if (c->any_file[0])
        watch_path(w, cluster_path(c, file, CLUSTER_PATH_ANY, NULL, next_path(w), PATH_BYTES, &e));
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
                      w->file[0]);
}

static struct tls *again(void *ctx, struct err *e)
{
    struct keys_watch *w = ctx;
    struct cluster *c = NULL;
    struct tls *out = NULL;
    uint64_t now = version(w);
    /* A file that is gone is about to be there again, or is not needed any more. */
    if (now == 0 || now == w->seen)
        return NULL;
    w->seen = now;
    int rc = cluster_load(w->file[0], &c, e);
    if (rc == 0)
        rc = check_same(w, c, e);
    if (rc == 0)
        rc = tls_of(c, w->file[0], w->host, &out, e);
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
    w->host = host;
    w->encrypt = c->encrypt;
    w->authority = c->tls_ca[0] != 0;
    w->hosts = c->hosts;
    for (uint32_t h = 0; h < c->hosts; h++)
        memcpy(w->names[h], c->host[h].name, sizeof(w->names[h]));
    watch_files(w, c, file);
    w->seen = version(w);
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
