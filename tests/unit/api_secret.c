#include "../conf_fixture.h"
#include "api/secret.h"

#include <sys/stat.h>
#include <unistd.h>

/* Every test has an empty folder of its own, is in it, and has a cluster with all keys there. */
struct fixture {
    char dir[32];
    struct cluster *c;
    struct err e;
    unsigned char secret[TLS_KEY_BYTES];
    char name[CLUSTER_NAME_BYTES];
};

static const char file[] = "c.yaml";

static int enter(void **state)
{
    static struct fixture t;
    struct cluster_plan plan = {.groups = 1, .replicas = 3, .hosts = 3, .transport = CLUSTER_TCP};

    t = (struct fixture){.dir = "/tmp/tram-secret-XXXXXX"};
    *state = &t;
    unsetenv("TRAM_CLIENT");
    unsetenv("TRAM_KEY");
    return mkdtemp(t.dir) == NULL || chdir(t.dir) != 0 || cluster_make(&plan, &t.c, &t.e) != 0 ||
           api_keys_make(t.c, file, &t.e) != 4;
}

static int leave(void **state)
{
    struct fixture *t = *state;
    char command[64];

    cluster_free(t->c);
    snprintf(command, sizeof command, "rm -rf %s", t->dir);
    return chdir("/") != 0 || system(command) != 0;
}

/* Is it the secret of that key? */
static bool is_of(const struct fixture *t, const char *path, const unsigned char *key)
{
    unsigned char secret[TLS_KEY_BYTES], public_key[TLS_KEY_BYTES];
    struct err e;

    return tls_key_read(path, secret, public_key, &e) == 0 &&
           memcmp(secret, t->secret, sizeof secret) == 0 &&
           memcmp(public_key, key, sizeof public_key) == 0;
}

static void fails(int rc, int code, const struct err *e, const char *word)
{
    assert_int_equal(rc, code);
    if (strstr(e->text, word) == NULL)
        fail_msg("no '%s' in: %s", word, e->text);
}

static void secret__keys_are_made_for_all(void **state)
{
    struct fixture *t = *state;
    struct stat st;

    assert_int_equal(t->c->client_keys, 1);
    assert_string_equal(t->c->client_key[0].name, "client");
    assert_int_equal(stat("c.keys", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    for (int i = 0; i < 3; i++)
        assert_int_equal(t->c->host[i].keys.count, 1);
    writes_back_equal(t->c);
    /* Once more: those that are there are used. */
    struct cluster *again = calloc(1, sizeof *again);
    *again = *t->c;
    again->client_keys = again->host[1].keys.count = 0;
    assert_int_equal(api_keys_make(again, file, &t->e), 0);
    assert_true(cluster_equal(again, t->c));
    cluster_free(again);
}

static void secret__of_a_host(void **state)
{
    struct fixture *t = *state;

    assert_int_equal(api_secret(t->c, file, "h2", true, t->secret, &t->e), 0);
    assert_true(is_of(t, "c.keys/h2.key", t->c->host[1].keys.key[0]));
    fails(api_secret(t->c, file, "h9", true, t->secret, &t->e), ERR_NOTFOUND, &t->e,
          "c.yaml has no host h9; ");
    fails(api_secret(t->c, file, "client", true, t->secret, &t->e), ERR_NOTFOUND, &t->e,
          "no host client");
    fails(api_secret(t->c, file, "h1", false, t->secret, &t->e), ERR_NOTFOUND, &t->e,
          "no client h1");
    chmod("c.keys/h2.key", 0640);
    fails(api_secret(t->c, file, "h2", true, t->secret, &t->e), ERR_REFUSED, &t->e, "chmod 600");
    unlink("c.keys/h2.key");
    fails(api_secret(t->c, file, "h2", true, t->secret, &t->e), ERR_NOTFOUND, &t->e,
          "c.keys/h2.key: there is no such file; host h2 has its secret key there");
    rename("c.keys/h1.key", "c.keys/h2.key");
    fails(api_secret(t->c, file, "h2", true, t->secret, &t->e), ERR_REFUSED, &t->e,
          "c.keys/h2.key is not the secret of a key that c.yaml lists for h2; `tram key list");
    t->c->host[1].keys.count = 0;
    fails(api_secret(t->c, file, "h2", true, t->secret, &t->e), ERR_NOTFOUND, &t->e,
          "lists no key for h2; run `tram key new c.yaml h2`");
}

/* Whatever stands in the file while a key is replaced, the right one of the two is taken. */
static void secret__is_the_one_that_is_listed(void **state)
{
    struct fixture *t = *state;
    struct cluster_keys *keys = &t->c->host[0].keys;

    assert_int_equal(api_key_make(t->c, file, "h1", true, keys->key[1], &t->e), 0);
    assert_int_equal(api_secret(t->c, file, "h1", true, t->secret, &t->e), 0);
    assert_true(is_of(t, "c.keys/h1.key", keys->key[0]));
    keys->count = 2;
    assert_int_equal(api_secret(t->c, file, "h1", true, t->secret, &t->e), 0);
    assert_true(is_of(t, "c.keys/h1.key", keys->key[0]));
    memcpy(keys->key[0], keys->key[1], TLS_KEY_BYTES);
    keys->count = 1;
    assert_int_equal(api_secret(t->c, file, "h1", true, t->secret, &t->e), 0);
    assert_true(is_of(t, "c.keys/h1.key.new", keys->key[0]));
    unlink("c.keys/h1.key"); /* only the new one was copied */
    assert_int_equal(api_secret(t->c, file, "h1", true, t->secret, &t->e), 0);
    chmod("c.keys/h1.key.new", 0644);
    fails(api_secret(t->c, file, "h1", true, t->secret, &t->e), ERR_REFUSED, &t->e, "h1.key.new");
}

static void secret__is_never_replaced(void **state)
{
    struct fixture *t = *state;
    unsigned char public_key[TLS_KEY_BYTES];

    fails(api_key_make(t->c, file, "h1", false, public_key, &t->e), ERR_EXISTS, &t->e,
          "c.keys/h1.key exists");
    assert_memory_equal(public_key, t->c->host[0].keys.key[0], TLS_KEY_BYTES);
    chmod("c.keys", 0770);
    fails(api_key_make(t->c, file, "h1", true, public_key, &t->e), ERR_REFUSED, &t->e,
          "others may write there");
    chmod("c.keys", 0700);
    snprintf(t->c->keys_dir, sizeof t->c->keys_dir, "no/such");
    fails(api_key_make(t->c, file, "h1", true, public_key, &t->e), ERR_SYSTEM, &t->e, "no/such");
    snprintf(t->c->keys_dir, sizeof t->c->keys_dir, "c.keys/h1.key");
    fails(api_key_make(t->c, file, "h1", true, public_key, &t->e), ERR_INVALID, &t->e,
          "no directory");
}

static void client_is(struct fixture *t, const char *name)
{
    if (api_secret_client(t->c, file, t->name, t->secret, &t->e) != 0)
        fail_msg("%s", t->e.text);
    assert_string_equal(t->name, name);
}

static void add_client(struct fixture *t, const char *name)
{
    struct cluster_client *k = &t->c->client_key[t->c->client_keys++];

    snprintf(k->name, sizeof k->name, "%s", name);
    assert_int_equal(api_key_make(t->c, file, name, false, k->keys.key[0], &t->e), 0);
    k->keys.count = 1;
}

static void secret__of_a_client(void **state)
{
    struct fixture *t = *state;

    client_is(t, "client");
    assert_true(is_of(t, "c.keys/client.key", t->c->client_key[0].keys.key[0]));
    add_client(t, "bob");
    client_is(t, "client");
    setenv("TRAM_CLIENT", "bob", 1);
    client_is(t, "bob");
    assert_true(is_of(t, "c.keys/bob.key", t->c->client_key[1].keys.key[0]));
    setenv("TRAM_CLIENT", "bub", 1);
    fails(api_secret_client(t->c, file, t->name, t->secret, &t->e), ERR_NOTFOUND, &t->e,
          "TRAM_CLIENT is bub, which is no client in c.yaml; did you mean bob?");
    setenv("TRAM_CLIENT", "a-name-that-is-much-longer-than-names-are", 1);
    fails(api_client_name(t->c, file, t->name, &t->e), ERR_INVALID, &t->e, "TRAM_CLIENT has 41");
    unsetenv("TRAM_CLIENT");
    snprintf(t->c->client_key[0].name, CLUSTER_NAME_BYTES, "alice");
    fails(api_client_name(t->c, file, t->name, &t->e), ERR_NOTFOUND, &t->e,
          "c.yaml has 2 clients; say which one this is, with TRAM_CLIENT=NAME");
    t->c->client_keys = 1;
    assert_int_equal(api_client_name(t->c, file, t->name, &t->e), 0);
    assert_string_equal(t->name, "alice"); /* the only one */
    t->c->client_keys = 0;
    fails(api_client_name(t->c, file, t->name, &t->e), ERR_NOTFOUND, &t->e,
          "no client has a key; run `tram key new c.yaml --client NAME`");
}

static void secret__of_a_client_from_elsewhere(void **state)
{
    struct fixture *t = *state;

    add_client(t, "bob");
    rename("c.keys/bob.key", "mine");
    setenv("TRAM_KEY", "mine", 1);
    client_is(t, "bob");
    setenv("TRAM_CLIENT", "bob", 1);
    client_is(t, "bob");
    setenv("TRAM_CLIENT", "client", 1);
    fails(api_secret_client(t->c, file, t->name, t->secret, &t->e), ERR_REFUSED, &t->e,
          "TRAM_KEY is mine, the key of client bob, and TRAM_CLIENT is client");
    setenv("TRAM_KEY", "c.keys/h1.key", 1);
    fails(api_secret_client(t->c, file, t->name, t->secret, &t->e), ERR_REFUSED, &t->e,
          "which is no key of a client");
    setenv("TRAM_KEY", "none", 1);
    fails(api_secret_client(t->c, file, t->name, t->secret, &t->e), ERR_NOTFOUND, &t->e, "none");
}

static void secret__of_anybody(void **state)
{
    struct fixture *t = *state;

    snprintf(t->c->any_file, sizeof t->c->any_file, "all.pub");
    snprintf(t->c->client_key[0].name, CLUSTER_NAME_BYTES, "any");
    assert_int_equal(api_key_make(t->c, file, "any", false, t->c->client_key[0].keys.key[0], &t->e),
                     0);
    client_is(t, "any");
    assert_true(is_of(t, "all.key", t->c->client_key[0].keys.key[0]));
}

static void secret__an_authority_has_names_alone(void **state)
{
    struct fixture *t = *state;

    snprintf(t->c->tls_ca, sizeof t->c->tls_ca, "ca.pem");
    assert_int_equal(api_client_name(t->c, file, t->name, &t->e), 0);
    assert_string_equal(t->name, "client");
    setenv("TRAM_CLIENT", "bob", 1);
    assert_int_equal(api_client_name(t->c, file, t->name, &t->e), 0);
    assert_string_equal(t->name, "bob");
}

static void secret__identities_are_those_of_the_file(void **state)
{
    struct fixture *t = *state;
    static struct tls_identity hosts[CLUSTER_HOSTS_MAX], clients[CLUSTER_CLIENT_KEYS_MAX];

    api_identities(t->c, hosts, clients);
    assert_string_equal(hosts[2].name, "h3");
    assert_int_equal(hosts[2].keys, 1);
    assert_memory_equal(hosts[2].key[0], t->c->host[2].keys.key[0], TLS_KEY_BYTES);
    assert_string_equal(clients[0].name, "client");
    assert_memory_equal(clients[0].key[0], t->c->client_key[0].keys.key[0], TLS_KEY_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(secret__keys_are_made_for_all),
        TEST(secret__of_a_host),
        TEST(secret__is_the_one_that_is_listed),
        TEST(secret__is_never_replaced),
        TEST(secret__of_a_client),
        TEST(secret__of_a_client_from_elsewhere),
        TEST(secret__of_anybody),
        TEST(secret__an_authority_has_names_alone),
        TEST(secret__identities_are_those_of_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
