/* Who is who under tcp: the keys of hosts and clients, or the certificates of an authority, and what the transport makes
 * of them. */
#include "conf/take.h"
#include "conf/value.h"

#include <string.h>

static const char like_a_key[] = "a key like ed25519:AAAA..., or two of them in [ ]";

/* ---- one key ---- */

const char *cluster_key_owner(const struct cluster *c,
                              const unsigned char key[CLUSTER_PUBLIC_BYTES], uint32_t *line)
{
    for (uint32_t i = 0; i < c->hosts; i++)
        if (cluster_keys_find(&c->host[i].keys, key) != CLUSTER_NONE) {
            *line = c->host[i].line;
            return c->host[i].name;
        }
    for (uint32_t i = 0; i < c->client_keys; i++)
        if (cluster_keys_find(&c->client_key[i].keys, key) != CLUSTER_NONE) {
            *line = c->client_key[i].line;
            return c->client_key[i].name;
        }
    return NULL;
}

/* Adds the key of the text to those of the name. One key is one identity: whoever has it could be either of two. */
static int take_public(struct reader *r, const struct node *n, const char *name,
                       struct cluster_keys *keys)
{
    const char *text = NULL;
    uint32_t line = 0;

    int rc = take_text(r, n, "key", like_a_key, &text);
    if (rc < 0)
        return rc;
    unsigned char *key = keys->key[keys->count];
    const char *wrong = cluster_public_parse(text, key);
    if (wrong != NULL)
        return doc_bad(r->d, n->line, r->e,
                       "the key of '%s' %s; a key is `" PUBLIC_PREFIX
                       "` and 44 characters of base64, as `tram key show` prints it",
                       name, wrong);
    if (cluster_keys_find(keys, key) != CLUSTER_NONE)
        return doc_bad(r->d, n->line, r->e, "'%s' has the same key twice; leave one out", name);
    const char *owner = cluster_key_owner(r->c, key, &line);
    if (owner != NULL)
        return doc_bad(r->d, n->line, r->e,
                       "the key of '%s' is that of '%s' (line %u) already; each has one of its own",
                       name, owner, line);
    keys->count++;
    return 0;
}

/* One key, or a list of at most two. */
static int take_public_keys(struct reader *r, const struct node *n, const char *name,
                            struct cluster_keys *keys)
{
    if (n->kind != NODE_LIST)
        return take_public(r, n, name, keys);
    if (n->count > CLUSTER_KEYS_EACH)
        return doc_bad(r->d, n->line, r->e,
                       "'%s' has %u keys; it may have %d while one is replaced, retire the others",
                       name, n->count, CLUSTER_KEYS_EACH);
    uint32_t at = n->first;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct node *key = doc_node(r->d, at);
        int rc = take_public(r, key, name, keys);
        if (rc < 0)
            return rc;
        at = key->next;
    }
    return 0;
}

/* ---- what holds for all ---- */

static bool says_any(const struct doc *d, const struct node *n)
{
    const size_t bytes = sizeof ANY_WORD - 1;

    if (n == NULL || n->kind != NODE_TEXT || strncmp(doc_text(d, n), ANY_WORD, bytes) != 0)
        return false;
    return doc_text(d, n)[bytes] == '\0' || doc_text(d, n)[bytes] == ' ';
}

const struct node *identity_take_any(struct reader *r, const struct node **clients)
{
    const struct node *n = *clients;

    if (!says_any(r->d, n))
        return NULL;
    *clients = NULL;
    return n;
}

/* Under other transports nobody would look at it, and who wrote it relies on it. */
static int refuse_all(struct reader *r, const struct identity_nodes *who)
{
    const struct {
        const struct node *n;
        const char *what;
    } given[] = {{who->encrypt, "encrypt"},
                 {who->keys_dir, "keys_dir"},
                 {who->tls, "tls"},
                 {who->client_keys, "client_keys"},
                 {who->clients, "clients: " ANY_WORD}};

    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i].n != NULL)
            return doc_bad(r->d, given[i].n->line, r->e,
                           "%s is for transport: tcp, not %s; leave it out", given[i].what,
                           cluster_transport_names[r->c->transport]);
    return 0;
}

static int take_tls(struct reader *r, const struct node *n)
{
    static const char *const keys[] = {"ca", "cert", "key", NULL};
    char *const out[] = {r->c->tls_ca, r->c->tls_cert, r->c->tls_key};
    const struct node *value[sizeof out / sizeof out[0]] = {NULL};

    if (n->kind != NODE_MAP)
        return doc_bad(r->d, n->line, r->e, "tls must be {ca: FILE, cert: FILE, key: FILE}, not %s",
                       doc_what(r->d, n).s);
    int rc = take_keys(r, n, "tls", keys, value);
    for (size_t i = 0; rc == 0 && i < sizeof out / sizeof out[0]; i++) {
        if (value[i] == NULL)
            return doc_bad(r->d, n->line, r->e,
                           "tls has no `%s`; it needs {ca: FILE, cert: FILE, key: FILE}", keys[i]);
        rc = take_path(r, value[i], keys[i], "the path of a file", out[i]);
    }
    return rc;
}

int identity_read(struct reader *r, const struct identity_nodes *who)
{
    struct cluster *c = r->c;
    int rc = 0;

    if (c->transport != CLUSTER_TCP)
        return refuse_all(r, who);
    rc = take_bool(r, who->encrypt, "encrypt", &c->encrypt);
    if (rc == 0 && who->tls != NULL && who->keys_dir != NULL)
        return doc_bad(r->d, who->keys_dir->line, r->e,
                       "keys_dir beside tls, which names the files itself; leave one of them out");
    if (rc == 0 && who->keys_dir != NULL)
        rc = take_path(r, who->keys_dir, "keys_dir", "the path of a directory", c->keys_dir);
    if (rc == 0 && who->tls != NULL)
        rc = take_tls(r, who->tls);
    return rc;
}

int identity_read_host(struct reader *r, const struct node *key, struct cluster_host *h)
{
    if (key == NULL)
        return 0;
    if (r->c->transport != CLUSTER_TCP)
        return doc_bad(r->d, key->line, r->e,
                       "host '%s' has a key, which is for transport: tcp, not %s; leave it out",
                       h->name, cluster_transport_names[r->c->transport]);
    if (r->c->tls_ca[0] != '\0')
        return doc_bad(r->d, key->line, r->e,
                       "host '%s' has a key, but with tls its certificate says who it is; leave"
                       " one of them out",
                       h->name);
    return take_public_keys(r, key, h->name, &h->keys);
}

/* ---- clients ---- */

static int check_client_name(struct reader *r, uint32_t line, const char *name)
{
    int host = cluster_host(r->c, name), old = cluster_client(r->c, name);

    if (host != CLUSTER_NONE)
        return doc_bad(r->d, line, r->e,
                       "client '%s' is called like a host (line %u); give it another name", name,
                       r->c->host[host].line);
    if (old != CLUSTER_NONE)
        return doc_bad(r->d, line, r->e,
                       "client '%s' a second time, the first is in line %u; give each client a name"
                       " of its own",
                       name, r->c->client_key[old].line);
    return 0;
}

static int take_client(struct reader *r, const struct node *n)
{
    static const char *const keys[] = {"name", "key", NULL};
    const struct node *value[2] = {NULL};
    struct cluster *c = r->c;
    struct cluster_client *k = &c->client_key[c->client_keys];

    if (c->client_keys == CLUSTER_CLIENT_KEYS_MAX)
        return doc_bad(r->d, n->line, r->e,
                       "too many clients with keys; there are at most %d, and several may share"
                       " a key",
                       CLUSTER_CLIENT_KEYS_MAX);
    if (n->kind != NODE_MAP)
        return doc_bad(r->d, n->line, r->e,
                       "a client must be written like {name: client, key: ed25519:AAAA...}, not as"
                       " %s",
                       doc_what(r->d, n).s);
    int rc = take_keys(r, n, "a client", keys, value);
    if (rc < 0)
        return rc;
    if (value[0] == NULL)
        return doc_bad(r->d, n->line, r->e, "a client without a name; add one like `name: client`");
    rc = take_name(r, value[0], "client name", k->name);
    if (rc == 0)
        rc = check_client_name(r, value[0]->line, k->name);
    if (rc == 0 && value[1] == NULL)
        return doc_bad(r->d, n->line, r->e, "client '%s' has no key; add %s", k->name, like_a_key);
    if (rc == 0)
        rc = take_public_keys(r, value[1], k->name, &k->keys);
    k->line = n->line;
    if (rc == 0)
        c->client_keys++;
    return rc;
}

/* `any-with-key FILE`. The file is read later (cluster_read_any), by who has files. */
static int take_any(struct reader *r, const struct node *n)
{
    struct cluster *c = r->c;
    const char *path = doc_text(r->d, n) + sizeof ANY_WORD - 1;

    path += strspn(path, " ");
    if (*path == '\0')
        return doc_bad(r->d, n->line, r->e,
                       ANY_WORD " needs a file with a public key; write `" ANY_WORD
                                " clients.pub`");
    int rc = take_path_text(r, n, ANY_WORD, path, c->any_file);
    if (rc == 0)
        rc = check_client_name(r, n->line, CLIENT_ANY);
    if (rc < 0)
        return rc;
    c->any_line = n->line;
    snprintf(c->client_key[0].name, sizeof c->client_key[0].name, CLIENT_ANY);
    c->client_key[0].line = n->line;
    c->client_keys = 1;
    return 0;
}

int identity_read_clients(struct reader *r, const struct identity_nodes *who)
{
    const struct node *n = who->client_keys != NULL ? who->client_keys : who->clients;
    uint32_t at = 0;
    int rc = 0;

    if (n == NULL)
        return 0;
    if (who->client_keys != NULL && who->clients != NULL)
        return doc_bad(r->d, who->clients->line, r->e,
                       "clients: " ANY_WORD " and client_keys (line %u); leave one of them out",
                       who->client_keys->line);
    if (r->c->tls_ca[0] != '\0')
        return doc_bad(r->d, n->line, r->e,
                       "client_keys beside tls, where everybody with a certificate of the authority"
                       " is a client; leave one of them out");
    if (says_any(r->d, n))
        return take_any(r, n);
    if (n->kind != NODE_LIST)
        return doc_bad(r->d, n->line, r->e,
                       "client_keys must be a list of lines like `- {name: client, key: "
                       "ed25519:AAAA...}`, or `" ANY_WORD " FILE`, not %s",
                       doc_what(r->d, n).s);
    at = n->first;
    for (uint32_t i = 0; rc == 0 && i < n->count; i++) {
        const struct node *client = doc_node(r->d, at);
        rc = take_client(r, client);
        at = client->next;
    }
    return rc;
}

/* ---- is it whole? ---- */

/* Everybody proves who they are, but what is said afterwards could be read and changed on its way. */
static int check_clear(struct reader *r, const struct node *encrypt)
{
    const struct cluster *c = r->c;

    for (uint32_t i = 0; i < c->hosts; i++)
        if (!value_loopback(c->host[i].address))
            return doc_bad(r->d, encrypt->line, r->e,
                           "encrypt: false is for one machine alone, and host '%s' (line %u) is at"
                           " %s, not on the loopback; leave the line out",
                           c->host[i].name, c->host[i].line, doc_shown(c->host[i].address).s);
    return 0;
}

static int check_host_keys(struct reader *r, const struct node *key)
{
    const struct cluster *c = r->c;

    for (uint32_t i = 0; i < c->hosts; i++) {
        if (c->host[i].keys.count > 0)
            continue;
        if (key != NULL)
            return doc_bad(r->d, key->line, r->e,
                           "`key` is of before: under tcp every host and client has a key of its"
                           " own now; run `tram key new %s --all`, and leave this line out",
                           r->d->file);
        return doc_bad(r->d, c->host[i].line, r->e,
                       "host %s has no key; under tcp each host has one of its own: run `tram key"
                       " new %s %s`",
                       c->host[i].name, r->d->file, c->host[i].name);
    }
    return 0;
}

int identity_check(struct reader *r, const struct identity_nodes *who)
{
    struct cluster *c = r->c;
    int rc = 0;

    if (c->transport != CLUSTER_TCP)
        return 0;
    if (!c->encrypt)
        rc = check_clear(r, who->encrypt);
    if (rc == 0 && !r->lax && c->tls_ca[0] == '\0')
        rc = check_host_keys(r, who->key);
    if (rc < 0 || r->lax)
        return rc;
    if (who->key != NULL)
        cluster_warn(c, r->d, who->key->line,
                     "`key` is for transport: verbs; under tcp each host and client has its own,"
                     " leave the line out");
    if (c->tls_ca[0] == '\0' && c->client_keys == 0 && c->protocol != CLUSTER_GROUP)
        cluster_warn(c, r->d, c->host[0].line,
                     "no client has a key, so none can connect; run `tram key new %s --client"
                     " client`",
                     r->d->file);
    return 0;
}
