#include "cli/key_list.h"

#include "api/secret.h"
#include "base/json.h"
#include "cli/cmd.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PATH_BYTES = 1024,
    SECRETS = 2, /* NAME.key and NAME.key.new */
    WARNINGS_MAX = 64,
};

static const char prefix[] = "ed25519:";

struct key_fingerprint key_fingerprint(const unsigned char key[CLUSTER_PUBLIC_BYTES])
{
    struct key_fingerprint out;
    char text[CLUSTER_PUBLIC_TEXT];

    cluster_public_text(key, text);
    snprintf(out.s, sizeof out.s, "%.*s", KEY_FINGERPRINT_CHARS, text + sizeof prefix - 1);
    return out;
}

bool key_begins(const unsigned char key[CLUSTER_PUBLIC_BYTES], const char *fingerprint)
{
    char text[CLUSTER_PUBLIC_TEXT];
    const char *from = text;

    cluster_public_text(key, text);
    if (strncmp(fingerprint, prefix, sizeof prefix - 1) != 0)
        from += sizeof prefix - 1;
    return fingerprint[0] != '\0' && strncmp(from, fingerprint, strlen(fingerprint)) == 0;
}

/* ---- secrets ---- */

struct list {
    const struct cluster *c;
    const char *file;
    bool json;
    uint32_t rows;
    uint32_t warnings; /* may exceed WARNINGS_MAX: the rest is counted */
    struct err warning[WARNINGS_MAX];
};

/* One of the files that may have a name's secret. */
struct secret {
    char path[PATH_BYTES];
    bool here; /* and can be used */
    unsigned char public_key[CLUSTER_PUBLIC_BYTES];
};

static struct err *next_warning(struct list *l)
{
    static struct err more;

    return l->warnings++ < WARNINGS_MAX ? &l->warning[l->warnings - 1] : &more;
}

static void look(struct list *l, const char *name, const struct cluster_keys *keys,
                 struct secret out[SECRETS])
{
    unsigned char secret[TLS_KEY_BYTES];
    struct err e = {""};

    for (int i = 0; i < SECRETS; i++) {
        struct secret *s = &out[i];
        s->here = false;
        int rc = cluster_secret_path(l->c, l->file, name, i > 0, s->path, sizeof s->path, &e);
        if (rc == 0)
            rc = tls_key_read(s->path, secret, s->public_key, &e);
        tls_key_wipe(secret);
        s->here = rc == 0;
        if (rc < 0 && rc != ERR_NOTFOUND)
            *next_warning(l) = e;
        if (s->here && cluster_keys_find(keys, s->public_key) == CLUSTER_NONE)
            err_set(next_warning(l), 0, "%s is not the secret of a key that is listed for %s (%s)",
                    s->path, name, key_fingerprint(s->public_key).s);
    }
}

/* The file that has the key's secret, or NULL. */
static const char *secret_of(const struct secret s[SECRETS], const unsigned char *key)
{
    for (int i = 0; i < SECRETS; i++)
        if (s[i].here && memcmp(s[i].public_key, key, CLUSTER_PUBLIC_BYTES) == 0)
            return s[i].path;
    return NULL;
}

static void check_dir(struct list *l)
{
    char dir[PATH_BYTES];
    struct err e = {""};
    struct stat st;

    if (cluster_path(l->c, l->file, CLUSTER_PATH_KEYS_DIR, NULL, dir, sizeof dir, &e) == 0 &&
        stat(dir, &st) == 0 && (st.st_mode & 022))
        err_set(next_warning(l), 0,
                "%s: others may write there (mode %03o), and change the keys in it: chmod 700", dir,
                st.st_mode & 0777);
}

/* ---- showing ---- */

static void print_row(struct list *l, const char *name, bool host, const unsigned char *key,
                      const char *secret)
{
    const char *role = host ? "host" : "client";
    const char *slash = secret != NULL ? strrchr(secret, '/') : NULL;
    char text[CLUSTER_PUBLIC_TEXT] = "";

    if (key != NULL)
        cluster_public_text(key, text);
    if (!l->json) {
        if (l->rows++ == 0)
            printf("%-16s %-7s %-*s %s\n", "NAME", "ROLE", KEY_FINGERPRINT_CHARS, "KEY", "SECRET");
        printf("%-16s %-7s %-*s %s\n", name, role, KEY_FINGERPRINT_CHARS,
               key != NULL ? key_fingerprint(key).s : "none",
               secret == NULL  ? "-"
               : slash != NULL ? slash + 1
                               : secret);
        return;
    }
    printf("%s\n    {\"name\": \"%s\", \"role\": \"%s\", \"key\": ", l->rows++ ? "," : "", name,
           role);
    printf(key != NULL ? "\"%s\", \"fingerprint\": \"%s\"" : "null, \"fingerprint\": null", text,
           key != NULL ? key_fingerprint(key).s : "");
    fputs(", \"secret\": ", stdout);
    if (secret != NULL)
        json_string(stdout, secret);
    else
        fputs("null", stdout);
    putchar('}');
}

static void print_name(struct list *l, const char *name, bool host, const struct cluster_keys *keys)
{
    struct secret secrets[SECRETS];

    look(l, name, keys, secrets);
    if (keys->count == 0) {
        print_row(l, name, host, NULL, NULL);
        if (host)
            err_set(next_warning(l), 0, "host %s has no key; run `tram key new %s %s`", name,
                    l->file, name);
    }
    for (uint32_t i = 0; i < keys->count; i++)
        print_row(l, name, host, keys->key[i], secret_of(secrets, keys->key[i]));
}

static void print_warnings(const struct list *l)
{
    for (uint32_t i = 0; i < l->warnings && i < WARNINGS_MAX; i++) {
        if (!l->json) {
            printf("warning: %s\n", l->warning[i].text);
            continue;
        }
        fputs(i > 0 ? ",\n    " : "\n    ", stdout);
        json_string(stdout, l->warning[i].text);
    }
    if (!l->json && l->warnings > WARNINGS_MAX)
        printf("and %u more warnings\n", l->warnings - WARNINGS_MAX);
}

int key_list(const struct cluster *c, const char *file, bool json)
{
    struct list l = {.c = c, .file = file, .json = json};

    if (json)
        printf("{" CMD_JSON_VERSION ", \"cluster\": \"%s\", \"keys\": [", c->name);
    for (uint32_t i = 0; i < c->hosts; i++)
        print_name(&l, c->host[i].name, true, &c->host[i].keys);
    for (uint32_t i = 0; i < c->client_keys; i++)
        print_name(&l, c->client_key[i].name, false, &c->client_key[i].keys);
    check_dir(&l);
    if (c->client_keys == 0)
        err_set(next_warning(&l), 0,
                "no client has a key, so none can connect; run `tram key new %s --client NAME`",
                file);
    if (json)
        fputs("],\n \"warnings\": [", stdout);
    print_warnings(&l);
    if (json)
        puts("]}");
    return l.warnings > 0 ? CMD_FAILED : CMD_DONE;
}
