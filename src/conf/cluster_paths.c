/* Where the files are that a cluster file speaks of. */
#include "conf/cluster_impl.h"

#include <string.h>

/* A cluster file's path: where its last part begins, and where that ends without .yaml. */
struct file_parts {
    int dir, stem;
    const char *base;
};

static struct file_parts parts_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash != NULL ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    bool yaml = dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);

    return (struct file_parts){.dir = (int)(base - file),
                               .stem = yaml ? (int)(dot - base) : (int)strlen(base),
                               .base = base};
}

/* `named` from where the file is, or the file's name with the suffix instead of .yaml. */
static bool beside(const char *file, const char *named, const char *suffix, char *out, size_t bytes)
{
    struct file_parts p = parts_of(file);
    int dir = named[0] == '/' ? 0 : p.dir;
    int n = named[0] != '\0'
                ? snprintf(out, bytes, "%.*s%s", dir, file, named)
                : snprintf(out, bytes, "%.*s%.*s%s", dir, file, p.stem, p.base, suffix);

    return n >= 0 && (size_t)n < bytes;
}

static int too_long(const struct cluster *c, const char *what, size_t bytes, struct err *e)
{
    return err_set(e, ERR_TOOBIG, "the path of the %s of cluster %s is longer than %zu bytes", what,
                   c->name, bytes - 1);
}

int cluster_key_path(const struct cluster *c, const char *file, char *out, size_t bytes,
                     struct err *e)
{
    return beside(file, c->key, ".key", out, bytes) ? 0 : too_long(c, "key", bytes, e);
}

/* The text with the name for each %h; false if it does not fit. */
static bool put_name(const char *text, const char *name, char *out, size_t bytes)
{
    size_t used = 0;

    out[0] = '\0';
    while (*text != '\0') {
        bool here = text[0] == '%' && text[1] == 'h';
        int n = here ? snprintf(out + used, bytes - used, "%s", name)
                     : snprintf(out + used, bytes - used, "%c", *text);
        used += (size_t)n;
        if (used >= bytes)
            return false;
        text += here ? 2 : 1;
    }
    return true;
}

static bool data_path(const struct cluster *c, const char *file, const char *host, char *out,
                      size_t bytes)
{
    if (!beside(file, c->data_dir, ".data", out, bytes))
        return false;
    size_t used = strlen(out);
    int n = host ? snprintf(out + used, bytes - used, "/%s", host) : 0;
    return n >= 0 && (size_t)n < bytes - used;
}

int cluster_path(const struct cluster *c, const char *file, enum cluster_path which,
                 const char *name, char *out, size_t bytes, struct err *e)
{
    char named[CLUSTER_DIR_BYTES * CLUSTER_NAME_BYTES / 2]; /* all of it could be %h */

    switch (which) {
    case CLUSTER_PATH_KEYS_DIR:
        return beside(file, c->keys_dir, ".keys", out, bytes) ? 0 : too_long(c, "keys", bytes, e);
    case CLUSTER_PATH_DATA:
        return data_path(c, file, name, out, bytes) ? 0 : too_long(c, "data", bytes, e);
    case CLUSTER_PATH_ANY:
        return beside(file, c->any_file, ".pub", out, bytes)
                   ? 0
                   : too_long(c, "clients' key", bytes, e);
    case CLUSTER_PATH_CA:
        return beside(file, c->tls_ca, "", out, bytes) ? 0 : too_long(c, "authority", bytes, e);
    default:
        break;
    }
    const char *of = which == CLUSTER_PATH_CERT ? c->tls_cert : c->tls_key;
    if (put_name(of, name, named, sizeof named) && beside(file, named, "", out, bytes))
        return 0;
    return too_long(c, which == CLUSTER_PATH_CERT ? "certificates" : "certificates' keys", bytes,
                    e);
}

/* clients.pub has its secret in clients.key. */
static int any_secret_path(const struct cluster *c, const char *file, const char *end, char *out,
                           size_t bytes, struct err *e)
{
    static const char public_end[] = ".pub";
    char path[1024];

    int rc = cluster_path(c, file, CLUSTER_PATH_ANY, NULL, path, sizeof path, e);
    if (rc < 0)
        return rc;
    size_t used = strlen(path), less = sizeof public_end - 1;
    if (used > less && strcmp(path + used - less, public_end) == 0)
        path[used - less] = '\0';
    int n = snprintf(out, bytes, "%s%s", path, end);
    return n >= 0 && (size_t)n < bytes ? 0 : too_long(c, "clients' key", bytes, e);
}

int cluster_secret_path(const struct cluster *c, const char *file, const char *name, bool next,
                        char *out, size_t bytes, struct err *e)
{
    const char *end = next ? ".key.new" : ".key";
    char dir[1024];

    if (c->any_file[0] != '\0' && strcmp(name, CLIENT_ANY) == 0)
        return any_secret_path(c, file, end, out, bytes, e);
    int rc = cluster_path(c, file, CLUSTER_PATH_KEYS_DIR, NULL, dir, sizeof dir, e);
    if (rc < 0)
        return rc;
    int n = snprintf(out, bytes, "%s/%s%s", dir, name, end);
    return n >= 0 && (size_t)n < bytes ? 0 : too_long(c, "keys", bytes, e);
}
