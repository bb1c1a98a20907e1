#include "../conf_fixture.h"
#include "conf/value.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TCP "transport: tcp\n"
#define CLIENTS                                                                                    \
    "client_keys:\n"                                                                               \
    "  - {name: alice, key: " KEY_4 "}\n"                                                          \
    "  - {name: bob, key: [" KEY_5 ", " KEY_6 "]}\n"
#define WHOLE TCP TCP_HOSTS CLIENTS GROUPS
#define ANY(line) TCP line "\n" TCP_HOSTS GROUPS

static struct cluster *accepted_lax(const char *text)
{
    struct cluster *c = NULL;
    struct err e = {0};

    if (cluster_parse_lax(text, strlen(text), "dir/x.yaml", &c, &e) < 0)
        fail_msg("refused: %s", e.text);
    return c;
}

/* ---- what is right ---- */

static void identity__hosts_and_clients_have_keys(void **state)
{
    (void)state;
    struct cluster *c = accepted(WHOLE);
    char text[CLUSTER_PUBLIC_TEXT];

    assert_int_equal(c->warnings, 0);
    assert_int_equal(c->host[1].keys.count, 1);
    cluster_public_text(c->host[1].keys.key[0], text);
    assert_string_equal(text, KEY_2);
    assert_int_equal(c->client_keys, 2);
    assert_int_equal(cluster_client(c, "bob"), 1);
    assert_int_equal(cluster_client(c, "eve"), CLUSTER_NONE);
    assert_non_null(strstr(cluster_clients_near(c, "alise").s, "alice"));
    assert_int_equal(c->client_key[1].keys.count, 2);
    cluster_public_text(c->client_key[1].keys.key[1], text);
    assert_string_equal(text, KEY_6);
    assert_int_equal(cluster_keys_find(&c->client_key[1].keys, c->client_key[1].keys.key[1]), 1);
    assert_int_equal(cluster_keys_find(&c->client_key[1].keys, c->host[0].keys.key[0]),
                     CLUSTER_NONE);
    assert_true(c->encrypt && c->tls_ca[0] == '\0' && c->keys_dir[0] == '\0');
    writes_back_equal(c);
    cluster_free(c);
}

static void identity__other_transports_need_none(void **state)
{
    (void)state;
    struct cluster *c = accepted("transport: verbs\n" HOSTS GROUPS);

    assert_true(c->encrypt && c->host[0].keys.count == 0 && c->client_keys == 0);
    writes_back_equal(c);
    cluster_free(c);
}

static void identity__an_authority_needs_no_keys(void **state)
{
    (void)state;
    struct cluster *c =
        accepted(TCP "tls: {ca: ca.pem, cert: '%h \"x\".pem', key: /k/%h%h.pem}\n" HOSTS GROUPS);
    struct err e;
    char path[128];

    assert_int_equal(c->warnings, 0);
    writes_back_equal(c);
    assert_int_equal(cluster_path(c, "a/b.yaml", CLUSTER_PATH_CA, NULL, path, sizeof path, &e), 0);
    assert_string_equal(path, "a/ca.pem");
    assert_int_equal(cluster_path(c, "a/b.yaml", CLUSTER_PATH_CERT, "h1", path, sizeof path, &e),
                     0);
    assert_string_equal(path, "a/h1 \"x\".pem");
    assert_int_equal(cluster_path(c, "a/b.yaml", CLUSTER_PATH_KEY, "h1", path, sizeof path, &e), 0);
    assert_string_equal(path, "/k/h1h1.pem");
    assert_int_equal(cluster_path(c, "a/b.yaml", CLUSTER_PATH_KEY, "h1", path, 8, &e), ERR_TOOBIG);
    cluster_free(c);
}

static void identity__secret_keys_are_beside_the_file(void **state)
{
    (void)state;
    struct cluster *c = accepted(WHOLE);
    struct err e;
    char path[128];

    assert_int_equal(cluster_secret_path(c, "a/b.yaml", "h1", false, path, sizeof path, &e), 0);
    assert_string_equal(path, "a/b.keys/h1.key");
    assert_int_equal(cluster_secret_path(c, "b", "h1", true, path, sizeof path, &e), 0);
    assert_string_equal(path, "b.keys/h1.key.new");
    assert_int_equal(cluster_secret_path(c, "b", "h1", true, path, 8, &e), ERR_TOOBIG);
    cluster_free(c);
    c = accepted("keys_dir: /etc/x\n" WHOLE);
    assert_int_equal(cluster_secret_path(c, "a/b.yaml", "bob", false, path, sizeof path, &e), 0);
    assert_string_equal(path, "/etc/x/bob.key");
    writes_back_equal(c);
    cluster_free(c);
    c = accepted(ANY("client_keys: any-with-key   k/c.pub"));
    assert_int_equal(cluster_secret_path(c, "a/b.yaml", "any", false, path, sizeof path, &e), 0);
    assert_string_equal(path, "a/k/c.key");
    assert_int_equal(cluster_secret_path(c, "a/b.yaml", "h1", false, path, sizeof path, &e), 0);
    assert_string_equal(path, "a/b.keys/h1.key");
    cluster_free(c);
    c = accepted(ANY("client_keys: any-with-key /c"));
    assert_int_equal(cluster_secret_path(c, "b.yaml", "any", true, path, sizeof path, &e), 0);
    assert_string_equal(path, "/c.key.new");
    cluster_free(c);
}

static void identity__clear_text_stays_on_the_loopback(void **state)
{
    (void)state;
    static const char *const outside[] = {"10.0.0.1:1", "node:1", "'[::2]:1'", "128.0.0.1:1"};
    char text[512];
    struct cluster *c = accepted("encrypt: false\n" WHOLE);

    assert_false(c->encrypt);
    writes_back_equal(c);
    cluster_free(c);
    cluster_free(accepted(TCP "encrypt: false\nhosts:\n"
                              "- {name: h1, address: '[::1]:1', key: " KEY_1 "}\n"
                              "- {name: h2, address: localhost:1, key: " KEY_2 "}\n"
                              "- {name: h3, address: 127.9.9.9:1, key: " KEY_3 "}\n" GROUPS));
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        snprintf(text, sizeof text,
                 TCP "hosts:\n- {name: h1, address: %s, key: " KEY_1 "}\n"
                     "groups: [{name: g1, replicas: [h1]}]\nencrypt: false\n",
                 outside[i]);
        refused(text, 5, "host 'h1' (line 3)", "not on the loopback", "leave the line out", NULL);
    }
}

static void identity__keys_are_no_facts_but_the_way_is(void **state)
{
    (void)state;
    static const char *const texts[] = {WHOLE, TCP TCP_HOSTS GROUPS, "encrypt: false\n" WHOLE,
                                        TCP "tls: {ca: a, cert: b, key: c}\n" HOSTS GROUPS};
    struct cluster_fact first[CLUSTER_FACTS_MAX], other[CLUSTER_FACTS_MAX];
    uint32_t count = 0;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct cluster *c = accepted(texts[i]);
        uint32_t different = 0;

        uint32_t n = cluster_facts(c, other);
        if (i == 0) {
            memcpy(first, other, sizeof first);
            count = n;
        }
        assert_int_equal(n, count);
        for (uint32_t k = 0; k < n; k++) {
            assert_string_equal(first[k].key, other[k].key);
            if (strcmp(first[k].value, other[k].value) != 0) {
                assert_string_equal(first[k].key, i == 2 ? "encrypt" : "tls");
                different++;
            }
        }
        assert_int_equal(different, i < 2 ? 0 : 1);
        cluster_free(c);
    }
}

static void identity__equal_sees_every_difference(void **state)
{
    (void)state;
    static const char *const others[] = {
        TCP TCP_HOSTS GROUPS,
        TCP TCP_HOSTS "client_keys: [{name: alice, key: " KEY_4 "}]\n" GROUPS,
        TCP TCP_HOSTS "client_keys: [{name: alice, key: " KEY_4 "}, {name: bob, key: " KEY_5
                      "}]\n" GROUPS,
        TCP TCP_HOSTS "client_keys: [{name: alice, key: " KEY_4 "}, {name: bob, key: [" KEY_6
                      ", " KEY_5 "]}]\n" GROUPS,
        TCP TCP_HOSTS "client_keys: [{name: alice, key: " KEY_4 "}, {name: bub, key: [" KEY_5
                      ", " KEY_6 "]}]\n" GROUPS,
        TCP TCP_HOSTS "client_keys: any-with-key a\n" GROUPS,
        "encrypt: false\n" WHOLE,
        "keys_dir: a\n" WHOLE,
        TCP "tls: {ca: a, cert: b, key: c}\n" HOSTS GROUPS,
    };
    struct cluster *c = accepted(WHOLE);

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct cluster *o = accepted(others[i]);
        if (cluster_equal(c, o))
            fail_msg("equal: %s", others[i]);
        writes_back_equal(o);
        cluster_free(o);
    }
    cluster_free(c);
}

/* ---- keys that miss ---- */

static void identity__a_host_without_a_key_is_told_what_to_do(void **state)
{
    (void)state;
    static const char lists_none[] =
        TCP "hosts:\n- {name: h1, address: a:1, key: []}\ngroups: [{name: g1, replicas: [h1]}]\n";
    struct cluster *c;

    refused(TCP HOSTS GROUPS, 3,
            "host h1 has no key; under tcp each host has one of its own: run `tram key new x.yaml"
            " h1`",
            NULL);
    refused(TCP "hosts:\n- {name: h1, address: a:1, key: " KEY_1 "}\n- {name: h2, address: a:2}\n"
                "groups: [{name: g1, replicas: [h1]}]\n",
            4, "host h2 has no key", "`tram key new x.yaml h2`", NULL);
    refused(lists_none, 3, "host h1 has no key", NULL);
    refused(TCP "key: cluster.key\n" HOSTS GROUPS, 2, "`key` is of before",
            "`tram key new x.yaml --all`", NULL);
    c = accepted_lax(TCP "key: cluster.key\n" HOSTS GROUPS);
    assert_true(c->host[0].keys.count == 0 && c->warnings == 0);
    cluster_free(c);
    cluster_free(accepted_lax(lists_none));
    cluster_free(accepted_lax(TCP HOSTS "client_keys: any-with-key none.pub\n" GROUPS));
}

static void identity__a_shared_key_is_warned_of(void **state)
{
    (void)state;
    struct cluster *c = accepted("key: cluster.key\n" WHOLE);

    assert_int_equal(c->warnings, 1);
    assert_non_null(strstr(c->warning[0], "x.yaml:1: warning: `key` is for transport: verbs"));
    writes_back_equal(c);
    cluster_free(c);
}

static void identity__no_client_is_warned_of(void **state)
{
    (void)state;
    struct cluster *c = accepted(TCP TCP_HOSTS GROUPS);

    assert_int_equal(c->warnings, 1);
    assert_non_null(strstr(c->warning[0], "no client has a key"));
    assert_non_null(strstr(c->warning[0], "`tram key new dir/x.yaml --client client`"));
    cluster_free(c);
    c = accepted(TCP TCP_HOSTS "client_keys: []\n" GROUPS);
    assert_int_equal(c->warnings, 1);
    cluster_free(c);
}

/* ---- mistakes ---- */

static void key_refused(const char *key, const char *word)
{
    char text[1024];

    snprintf(text, sizeof text,
             TCP "hosts:\n- name: h1\n  address: a:1\n  key: %s\n"
                 "groups: [{name: g1, replicas: [h1]}]\n",
             key);
    refused(text, 5, word, NULL);
    snprintf(text, sizeof text, TCP TCP_HOSTS "client_keys:\n- name: alice\n  key: %s\n" GROUPS,
             key);
    refused(text, 8, word, NULL);
}

static void identity__refuses_what_is_no_key(void **state)
{
    (void)state;
    static const char weak[] = "ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    static const char outside[] = "ed25519:AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    key_refused("cluster.key", "does not begin with `ed25519:`");
    key_refused("ssh-ed25519 AAAA", "does not begin with `ed25519:`");
    key_refused("ed25519:AAAA", "does not have 44 characters");
    key_refused(KEY_1 "=", "does not have 44 characters");
    key_refused("ed25519:?ojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=", "is not base64");
    key_refused("ed25519:iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1x=", "is not base64");
    key_refused("ed25519:iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1ww", "is not base64");
    key_refused("ed25519-secret:iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=", "is a secret one");
    key_refused(weak, "is no Ed25519 key");
    key_refused(outside, "is no Ed25519 key");
    key_refused("", "key must be a key like ed25519:");
    key_refused("{a: b}", "key must be a key like ed25519:");
    key_refused("[[a]]", "key must be a key like ed25519:");
    key_refused("[" KEY_4 ", " KEY_5 ", " KEY_6 "]", "has 3 keys; it may have 2");
    key_refused("[" KEY_4 ", " KEY_4 "]", "the same key twice");
}

static void identity__one_key_is_one_identity(void **state)
{
    (void)state;
    refused(TCP "hosts:\n- {name: h1, address: a:1, key: " KEY_1 "}\n"
                "- {name: h2, address: a:2, key: [" KEY_2 ", " KEY_1 "]}\n" GROUPS,
            4, "the key of 'h2' is that of 'h1' (line 3) already", NULL);
    refused(TCP TCP_HOSTS "client_keys: [{name: a, key: " KEY_3 "}]\n" GROUPS, 6,
            "the key of 'a' is that of 'h3' (line 5) already", NULL);
    refused(TCP TCP_HOSTS "client_keys:\n- {name: a, key: " KEY_4 "}\n- {name: b, key: " KEY_4
                          "}\n" GROUPS,
            8, "the key of 'b' is that of 'a' (line 7) already", NULL);
}

static void identity__refuses_wrong_clients(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;

    refused(ANY("client_keys: alice"), 2, "client_keys must be a list", "not 'alice'", NULL);
    refused(ANY("client_keys:"), 2, "client_keys must be a list", "not nothing", NULL);
    refused(ANY("client_keys: {a: b}"), 2, "client_keys must be a list", "not a map", NULL);
    refused(ANY("client_keys: [alice]"), 2, "a client must be written like", "not as 'alice'",
            NULL);
    refused(ANY("client_keys: [{key: " KEY_4 "}]"), 2, "a client without a name", NULL);
    refused(ANY("client_keys: [{name: a}]"), 2, "client 'a' has no key; add", NULL);
    refused(ANY("client_keys: [{name: a b, key: " KEY_4 "}]"), 2, "client name 'a b'", NULL);
    refused(ANY("client_keys: [{name: a, kei: b}]"), 2, "a client has no key 'kei'",
            "did you mean key?", NULL);
    refused(ANY("client_keys: [{name: h2, key: " KEY_4 "}]"), 2,
            "client 'h2' is called like a host (line 5)", NULL);
    refused(ANY("client_keys: [{name: a, key: " KEY_4 "}, {name: a, key: " KEY_5 "}]"), 2,
            "client 'a' a second time", NULL);
    refused(ANY("client_keys: any-with-key"), 2, "any-with-key needs a file", NULL);
    refused(ANY("clients: any-with-key"), 2, "any-with-key needs a file", NULL);
    refused(ANY("client_keys: any-with-keys a"), 2, "client_keys must be a list", NULL);
    refused(ANY("client_keys: \"any-with-key a\\tb\""), 2, "control character", NULL);
    refused(ANY("clients: any-with-key a\nclient_keys: []"), 2, "clients: any-with-key and",
            "(line 3)", NULL);
    refused(TCP "hosts: [{name: any, address: a:1, key: " KEY_1 "}]\n"
                "groups: [{name: g1, replicas: [any]}]\nclients: any-with-key a\n",
            4, "client 'any' is called like a host (line 2)", NULL);
    FILE *f = open_memstream(&text, &bytes);
    fputs(TCP TCP_HOSTS "client_keys:\n", f);
    for (int i = 0; i < 257; i++)
        fprintf(f, "- {name: c%d, key: []}\n", i);
    fputs(GROUPS, f);
    fclose(f);
    refused(text, 263, "too many clients with keys", "at most 256", NULL);
    free(text);
}

static void identity__clients_says_the_same(void **state)
{
    (void)state;
    struct cluster *a = accepted(ANY("clients: any-with-key c d.pub"));
    struct cluster *b = accepted(ANY("client_keys: any-with-key c d.pub"));

    assert_int_equal(a->clients, 64);
    assert_string_equal(a->any_file, "c d.pub");
    assert_int_equal(a->any_line, 2);
    assert_true(a->client_keys == 1 && cluster_client(a, "any") == 0);
    assert_true(cluster_equal(a, b));
    writes_back_equal(a);
    cluster_free(a);
    cluster_free(b);
    a = accepted(ANY("client_keys: any-with-key c\nclients: 7"));
    assert_int_equal(a->clients, 7);
    cluster_free(a);
}

static void identity__refuses_wrong_tls(void **state)
{
    (void)state;
#define TLS "tls: {ca: a, cert: b, key: c}\n"
    refused(TCP "tls: a\n" HOSTS GROUPS, 2, "tls must be {ca: FILE", "not 'a'", NULL);
    refused(TCP "tls: {ca: a, cert: b}\n" HOSTS GROUPS, 2, "tls has no `key`", NULL);
    refused(TCP "tls: {ca: a, cert: [b], key: c}\n" HOSTS GROUPS, 2, "cert must be the path", NULL);
    refused(TCP "tls: {ca: a, certs: b}\n" HOSTS GROUPS, 2, "did you mean cert?", NULL);
    refused(TCP TLS TCP_HOSTS GROUPS, 4, "host 'h1' has a key, but with tls", NULL);
    refused(TCP TLS HOSTS CLIENTS GROUPS, 8, "client_keys beside tls", NULL);
    refused(TCP TLS "clients: any-with-key a\n" HOSTS GROUPS, 3, "client_keys beside tls", NULL);
    refused(TCP TLS "keys_dir: a\n" HOSTS GROUPS, 3, "keys_dir beside tls", NULL);
    refused(TCP "encrypt: maybe\n" TCP_HOSTS GROUPS, 2, "encrypt is 'maybe'", "false, true", NULL);
    refused(TCP "keys_dir: [a]\n" TCP_HOSTS GROUPS, 2, "keys_dir must be the path of a directory",
            NULL);
}

/* Whoever writes it relies on it. */
static void identity__is_refused_under_other_transports(void **state)
{
    (void)state;
    refused("encrypt: true\n" HOSTS GROUPS, 1, "encrypt is for transport: tcp, not shm", NULL);
    refused("transport: verbs\nencrypt: false\n" HOSTS GROUPS, 2,
            "encrypt is for transport: tcp, not verbs", NULL);
    refused("keys_dir: a\n" HOSTS GROUPS, 1, "keys_dir is for transport: tcp", NULL);
    refused("tls: {ca: a, cert: b, key: c}\n" HOSTS GROUPS, 1, "tls is for transport: tcp", NULL);
    refused("client_keys: []\n" HOSTS GROUPS, 1, "client_keys is for transport: tcp", NULL);
    refused("clients: any-with-key a\n" HOSTS GROUPS, 1,
            "clients: any-with-key is for transport: tcp", NULL);
    refused(TCP_HOSTS GROUPS, 2, "host 'h1' has a key, which is for transport: tcp, not shm", NULL);
}

/* ---- the file of the clients' key ---- */

static char dir[32];

static int enter(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tram-conf-XXXXXX");
    return mkdtemp(dir) == NULL || chdir(dir) != 0;
}

static int leave(void **state)
{
    (void)state;
    unlink("c.yaml");
    unlink("c.pub");
    return chdir("/") != 0 || rmdir(dir) != 0;
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void any_refused(const char *text, const char *word)
{
    struct cluster *c = NULL;
    struct err e = {0};

    write_text("c.pub", text);
    assert_int_equal(cluster_load("c.yaml", &c, &e), ERR_INVALID);
    assert_null(c);
    if (strstr(e.text, word) == NULL || strncmp(e.text, "c.yaml:2: c.pub", 15) != 0)
        fail_msg("no '%s' in: %s", word, e.text);
}

static void any__is_read_with_the_file(void **state)
{
    struct cluster *c = NULL;
    struct err e = {0};

    (void)state;
    write_text("c.yaml", ANY("clients: any-with-key c.pub"));
    assert_int_equal(cluster_load("c.yaml", &c, &e), ERR_INVALID);
    assert_string_equal(e.text, "c.yaml:2: there is no file c.pub; `tram key new c.yaml --client"
                                " any` makes it");
    assert_int_equal(cluster_load_lax("c.yaml", &c, &e), 0);
    assert_int_equal(c->client_key[0].keys.count, 0);
    cluster_free(c);
    write_text("c.pub", "# of ours\n" KEY_4 "\r\n\n" KEY_5);
    chmod("c.pub", 0644); /* it is no secret */
    assert_int_equal(cluster_load("c.yaml", &c, &e), 0);
    assert_int_equal(c->client_key[0].keys.count, 2);
    cluster_free(c);
    any_refused("# none\n", "has no key; `tram key new");
    any_refused("x\n", "has a line that is no key");
    any_refused(KEY_4 "\n" KEY_4 "\n", "the same key twice");
    any_refused(KEY_4 "\n" KEY_5 "\n" KEY_6 "\n", "more than two keys");
    any_refused(KEY_1 "\n", "a key of a host");
    unlink("c.pub");
    assert_int_equal(mkfifo("c.pub", 0600), 0); /* reading it would wait for ever */
    assert_int_equal(cluster_load("c.yaml", &c, &e), ERR_SYSTEM);
    unlink("c.pub");
    assert_int_equal(symlink("/dev/zero", "c.pub"), 0);
    assert_int_equal(cluster_load("c.yaml", &c, &e), ERR_SYSTEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity__hosts_and_clients_have_keys),
        cmocka_unit_test(identity__other_transports_need_none),
        cmocka_unit_test(identity__an_authority_needs_no_keys),
        cmocka_unit_test(identity__secret_keys_are_beside_the_file),
        cmocka_unit_test(identity__clear_text_stays_on_the_loopback),
        cmocka_unit_test(identity__keys_are_no_facts_but_the_way_is),
        cmocka_unit_test(identity__equal_sees_every_difference),
        cmocka_unit_test(identity__a_host_without_a_key_is_told_what_to_do),
        cmocka_unit_test(identity__a_shared_key_is_warned_of),
        cmocka_unit_test(identity__no_client_is_warned_of),
        cmocka_unit_test(identity__refuses_what_is_no_key),
        cmocka_unit_test(identity__one_key_is_one_identity),
        cmocka_unit_test(identity__refuses_wrong_clients),
        cmocka_unit_test(identity__clients_says_the_same),
        cmocka_unit_test(identity__refuses_wrong_tls),
        cmocka_unit_test(identity__is_refused_under_other_transports),
        cmocka_unit_test_setup_teardown(any__is_read_with_the_file, enter, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
