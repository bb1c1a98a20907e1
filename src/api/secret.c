#include "api/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

static const char client_default[] = "client";

/* ---- whose it is ---- */

static const struct cluster_keys *keys_of(const struct cluster *c, const char *name, bool host)
{
    int i = host ? cluster_host(c, name) : cluster_client(c, name);

    if (i == CLUSTER_NONE)
        return NULL;
    return host ? &c->host[i].keys : &c->client_key[i].keys;
}

/* $TRAM_CLIENT, or NULL. */
static const char *wanted_client(void)
{
    const char *name = getenv("TRAM_CLIENT");

    return name != NULL && name[0] != '\0' ? name : NULL;
}

int api_client_name(const struct cluster *c, const char *file, char name[CLUSTER_NAME_BYTES],
                    struct err *e)
{
    const char *wanted = wanted_client();

    if (wanted != NULL && strlen(wanted) >= CLUSTER_NAME_BYTES)
        return err_set(e, ERR_INVALID, "TRAM_CLIENT has %zu characters; a name has at most %d",
                       strlen(wanted), CLUSTER_NAME_BYTES - 2);
    if (c->tls_ca[0] != '\0') {
        snprintf(name, CLUSTER_NAME_BYTES, "%s", wanted != NULL ? wanted : client_default);
        return 0;
    }
    if (c->client_keys == 0)
        return err_set(e, ERR_NOTFOUND,
                       "%s: no client has a key; run `tram key new %s --client NAME`", file, file);
    if (wanted != NULL && cluster_client(c, wanted) == CLUSTER_NONE)
        return err_set(e, ERR_NOTFOUND, "TRAM_CLIENT is %s, which is no client in %s; %s", wanted,
                       file, cluster_clients_near(c, wanted).s);
    int i = cluster_client(c, wanted != NULL ? wanted : client_default);
    if (i == CLUSTER_NONE && c->client_keys > 1)
        return err_set(e, ERR_NOTFOUND,
                       "%s has %u clients; say which one this is, with TRAM_CLIENT=NAME", file,
                       c->client_keys);
    memcpy(name, c->client_key[i == CLUSTER_NONE ? 0 : i].name, CLUSTER_NAME_BYTES);
    return 0;
}

/* ---- reading ---- */

/* 0 if the file has the secret of one of the keys; ERR_NOTFOUND if there is no file. */
static int read_listed(const char *path, const struct cluster_keys *keys, const char *name,
                       const char *file, unsigned char secret[TLS_KEY_BYTES], struct err *e)
{
    unsigned char public_key[TLS_KEY_BYTES];

    int rc = tls_key_read(path, secret, public_key, e);
    if (rc < 0)
        return rc;
    if (cluster_keys_find(keys, public_key) != CLUSTER_NONE)
        return 0;
    tls_key_wipe(secret);
    return err_set(e, ERR_REFUSED,
                   "%s is not the secret of a key that %s lists for %s; `tram key list %s` shows"
                   " which are here",
                   path, file, name, file);
}

static int no_secret(const char *path, const char *name, bool host, struct err *e)
{
    return err_set(
        e, ERR_NOTFOUND,
        "%s: there is no such file; %s %s has its secret key there, on the machines where"
        " it runs and on no other: copy it from where `tram key` or `tram init` has"
        " made it",
        path, host ? "host" : "client", name);
}

int api_secret(const struct cluster *c, const char *file, const char *name, bool host,
               unsigned char secret[TLS_KEY_BYTES], struct err *e)
{
    const struct cluster_keys *keys = keys_of(c, name, host);
    char path[PATH_BYTES], next[PATH_BYTES];
    struct err other = {""};

    if (keys == NULL)
        return err_set(e, ERR_NOTFOUND, "%s has no %s %s; %s", file, host ? "host" : "client", name,
                       host ? cluster_hosts_near(c, name).s : cluster_clients_near(c, name).s);
    if (keys->count == 0)
        return err_set(e, ERR_NOTFOUND, "%s lists no key for %s; run `tram key new %s %s%s`", file,
                       name, file, host ? "" : "--client ", name);
    int rc = cluster_secret_path(c, file, name, false, path, sizeof path, e);
    if (rc == 0)
        rc = cluster_secret_path(c, file, name, true, next, sizeof next, e);
    if (rc < 0)
        return rc;
    rc = read_listed(path, keys, name, file, secret, e);
    if (rc == 0)
        return 0;
    /* One that is not listed any more, or not there, is no harm while its successor is. */
    int second = read_listed(next, keys, name, file, secret, &other);
    if (second == 0)
        return 0;
    if (rc != ERR_NOTFOUND)
        return rc;
    return second == ERR_NOTFOUND ? no_secret(path, name, host, e)
                                  : err_set(e, second, "%s", other.text);
}

/* The client whose key it is, or NULL. */
static const char *client_with(const struct cluster *c,
                               const unsigned char public_key[TLS_KEY_BYTES])
{
    for (uint32_t i = 0; i < c->client_keys; i++)
        if (cluster_keys_find(&c->client_key[i].keys, public_key) != CLUSTER_NONE)
            return c->client_key[i].name;
    return NULL;
}

/* $TRAM_KEY. */
static int secret_from(const char *path, const struct cluster *c, const char *file,
                       char name[CLUSTER_NAME_BYTES], unsigned char secret[TLS_KEY_BYTES],
                       struct err *e)
{
    unsigned char public_key[TLS_KEY_BYTES];
    const char *wanted = wanted_client();

    int rc = tls_key_read(path, secret, public_key, e);
    if (rc < 0)
        return rc;
    const char *owner = client_with(c, public_key);
    if (owner != NULL && (wanted == NULL || strcmp(wanted, owner) == 0)) {
        memcpy(name, owner, CLUSTER_NAME_BYTES);
        return 0;
    }
    tls_key_wipe(secret);
    if (owner == NULL)
        return err_set(e, ERR_REFUSED,
                       "TRAM_KEY is %s, which is no key of a client in %s; `tram key list %s` shows"
                       " them",
                       path, file, file);
    return err_set(e, ERR_REFUSED, "TRAM_KEY is %s, the key of client %s, and TRAM_CLIENT is %s",
                   path, owner, wanted);
}

int api_secret_client(const struct cluster *c, const char *file, char name[CLUSTER_NAME_BYTES],
                      unsigned char secret[TLS_KEY_BYTES], struct err *e)
{
    const char *path = getenv("TRAM_KEY");

    if (path != NULL && path[0] != '\0')
        return secret_from(path, c, file, name, secret, e);
    int rc = api_client_name(c, file, name, e);
    return rc < 0 ? rc : api_secret(c, file, name, false, secret, e);
}

static void identity(const char *name, const struct cluster_keys *keys, struct tls_identity *out)
{
    out->name = name;
    out->keys = keys->count;
    memcpy(out->key, keys->key, sizeof out->key);
}

void api_identities(const struct cluster *c, struct tls_identity hosts[CLUSTER_HOSTS_MAX],
                    struct tls_identity clients[CLUSTER_CLIENT_KEYS_MAX])
{
    for (uint32_t i = 0; i < c->hosts; i++)
        identity(c->host[i].name, &c->host[i].keys, &hosts[i]);
    for (uint32_t i = 0; i < c->client_keys; i++)
        identity(c->client_key[i].name, &c->client_key[i].keys, &clients[i]);
}

/* ---- making ---- */

/* The directory that the path is in: ours, and nobody else writes there. */
static int make_keys_dir(const struct cluster *c, const char *file, struct err *e)
{
    char dir[PATH_BYTES];
    struct stat st;

    int rc = cluster_path(c, file, CLUSTER_PATH_KEYS_DIR, NULL, dir, sizeof dir, e);
    if (rc < 0)
        return rc;
    if (mkdir(dir, 0700) == 0)
        return chmod(dir, 0700) == 0 ? 0 : err_sys(e, "make %s", dir); /* whatever the umask is */
    if (errno != EEXIST)
        return err_sys(e, "make directory %s for secret keys", dir);
    if (stat(dir, &st) < 0)
        return err_sys(e, "look at %s", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is no directory; secret keys are made in one", dir);
    if (st.st_mode & 022)
        return err_set(e, ERR_REFUSED,
                       "%s: others may write there (mode %03o), and change the keys in it: chmod"
                       " 700",
                       dir, st.st_mode & 0777);
    return 0;
}

int api_key_make(const struct cluster *c, const char *file, const char *name, bool next,
                 unsigned char public_key[TLS_KEY_BYTES], struct err *e)
{
    unsigned char secret[TLS_KEY_BYTES];
    char path[PATH_BYTES];
    bool any = c->any_file[0] != '\0' && cluster_client(c, name) != CLUSTER_NONE;

    int rc = any ? 0 : make_keys_dir(c, file, e);
    if (rc == 0)
        rc = cluster_secret_path(c, file, name, next, path, sizeof path, e);
    if (rc == 0)
        rc = tls_key_make(path, public_key, e);
    if (rc != ERR_EXISTS)
        return rc;
    rc = tls_key_read(path, secret, public_key, e);
    tls_key_wipe(secret);
    return rc < 0 ? rc : err_set(e, ERR_EXISTS, "%s exists; a key is not replaced", path);
}

/* 1: made; 0: there was one. */
static int give_key(const struct cluster *c, const char *file, const char *name,
                    struct cluster_keys *keys, struct err *e)
{
    int rc = api_key_make(c, file, name, false, keys->key[0], e);

    if (rc < 0 && rc != ERR_EXISTS)
        return rc;
    keys->count = 1;
    return rc == 0;
}

int api_keys_make(struct cluster *c, const char *file, struct err *e)
{
    struct cluster_client *first = &c->client_key[0];
    int made = 0, rc = 0;

    for (uint32_t i = 0; rc >= 0 && i < c->hosts; i++) {
        rc =
            c->host[i].keys.count > 0 ? 0 : give_key(c, file, c->host[i].name, &c->host[i].keys, e);
        made += rc;
    }
    if (rc < 0 || c->client_keys > 0)
        return rc < 0 ? rc : made;
    memcpy(first->name, client_default, sizeof client_default);
    rc = give_key(c, file, first->name, &first->keys, e);
    if (rc >= 0)
        c->client_keys = 1;
    return rc < 0 ? rc : made + rc;
}
