#include "../conf_fixture.h"
#include "conf/cluster_edit.h"

#define TCP "transport: tcp\n"
#define ONE "groups: [{name: g1, replicas: [h1]}]\n"

/* ---- what is asked for ---- */

struct wish {
    const char *name;
    bool client, drop;
    const char *key;
};

static int try_edit(const char *text, struct wish w, char **out, struct err *e)
{
    struct cluster_edit edit = {.name = w.name, .client = w.client, .drop = w.drop};
    size_t bytes = 0;

    assert_null(cluster_public_parse(w.key, edit.key));
    return cluster_edit(text, strlen(text), "x.yaml", &edit, out, &bytes, e);
}

/* The text must become exactly that. */
static void becomes(const char *text, struct wish w, const char *wanted)
{
    struct err e = {""};
    char *out = NULL;

    if (try_edit(text, w, &out, &e) < 0)
        fail_msg("refused: %s\n%s", e.text, text);
    assert_string_equal(out, wanted);
    free(out);
}

/* Left for a person, who is told what to write. */
static void left_alone(const char *text, struct wish w, const char *place, const char *write)
{
    struct err e = {""};
    char *out = NULL;

    int rc = try_edit(text, w, &out, &e);
    if (rc == 0)
        fail_msg("became:\n%s", out);
    assert_null(out);
    assert_int_equal(rc, ERR_REFUSED);
    if (strncmp(e.text, place, strlen(place)) != 0 || strstr(e.text, write) == NULL)
        fail_msg("not %s and %s, but: %s", place, write, e.text);
}

static void wrong(const char *text, struct wish w, const char *word)
{
    struct err e = {""};
    char *out = NULL;

    assert_int_equal(try_edit(text, w, &out, &e), ERR_INVALID);
    if (strstr(e.text, word) == NULL)
        fail_msg("no '%s' in: %s", word, e.text);
}

#define ADD(n, k) ((struct wish){.name = (n), .key = (k)})
#define DROP(n, k) ((struct wish){.name = (n), .drop = true, .key = (k)})
#define ADD_CLIENT(n, k) ((struct wish){.name = (n), .client = true, .key = (k)})
#define DROP_CLIENT(n, k) ((struct wish){.name = (n), .client = true, .drop = true, .key = (k)})

/* ---- a first key ---- */

static void edit__a_host_in_braces_gets_a_key(void **state)
{
    (void)state;
    becomes("# ours\n" TCP "hosts:   # three\n"
            "  - {name: h1, address: a:1 }  # first\n"
            "  - { address: \"[::1]:2\" , name: 'h2',  }\n" ONE,
            ADD("h1", KEY_1),
            "# ours\n" TCP "hosts:   # three\n"
            "  - {name: h1, address: a:1, key: " KEY_1 " }  # first\n"
            "  - { address: \"[::1]:2\" , name: 'h2',  }\n" ONE);
    becomes("# ours\n" TCP "hosts:\n  - {name: h1, address: a:1}\n"
            "  - { address: \"[::1]:2\" , name: 'h2',  }\n" ONE,
            ADD("h2", KEY_1),
            "# ours\n" TCP "hosts:\n  - {name: h1, address: a:1}\n"
            "  - { address: \"[::1]:2\" , name: 'h2', key: " KEY_1 ",  }\n" ONE);
    becomes(
        TCP
        "hosts: [{name: h1,   # one\n    address: a:1 # two\n }, {name: h2, address: b:1}]\n" ONE,
        ADD("h1", KEY_1),
        TCP "hosts: [{name: h1,   # one\n    address: a:1, key: " KEY_1
            " # two\n }, {name: h2, address: b:1}]\n" ONE);
}

static void edit__a_host_in_lines_gets_a_key(void **state)
{
    (void)state;
    becomes(TCP "hosts:\n  - name: h1   # the first\n    address: a:1   # here\n\n  # next\n"
                "  - name: h2\n    address: a:2\n" ONE,
            ADD("h1", KEY_1),
            TCP "hosts:\n  - name: h1   # the first\n    address: a:1   # here\n    key: " KEY_1
                "\n\n  # next\n  - name: h2\n    address: a:2\n" ONE);
    /* Indented as deep as the key before it, the list not at all. */
    becomes(TCP "hosts:\n-   name: h1\n    address: a:1\n" ONE, ADD("h1", KEY_1),
            TCP "hosts:\n-   name: h1\n    address: a:1\n    key: " KEY_1 "\n" ONE);
    /* The file ends there, without a line end. */
    becomes(TCP ONE "hosts:\n- name: h1\n  address: a:1", ADD("h1", KEY_1),
            TCP ONE "hosts:\n- name: h1\n  address: a:1\n  key: " KEY_1);
    becomes(TCP ONE "hosts:\n- name: h1\n  address: a:1  # x", ADD("h1", KEY_1),
            TCP ONE "hosts:\n- name: h1\n  address: a:1  # x\n  key: " KEY_1);
}

static void edit__keeps_the_line_ends_of_the_file(void **state)
{
    (void)state;
    becomes("transport: tcp\r\nhosts:\r\n- name: h1\r\n  address: a:1 # c\r\n"
            "groups: [{name: g1, replicas: [h1]}]\r\n",
            ADD("h1", KEY_1),
            "transport: tcp\r\nhosts:\r\n- name: h1\r\n  address: a:1 # c\r\n  key: " KEY_1
            "\r\ngroups: [{name: g1, replicas: [h1]}]\r\n");
    becomes("transport: tcp\r\nhosts:\r\n- {name: h1, address: a:1}\r\n"
            "groups: [{name: g1, replicas: [h1]}]\r\n",
            ADD_CLIENT("c", KEY_1),
            "transport: tcp\r\nhosts:\r\n- {name: h1, address: a:1}\r\nclient_keys:\r\n"
            "  - {name: c, key: " KEY_1 "}\r\ngroups: [{name: g1, replicas: [h1]}]\r\n");
}

static void edit__counts_bytes_and_not_characters(void **state)
{
    (void)state;
    becomes("\xef\xbb\xbf# \xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x8b\n" TCP
            "hosts: # \xc3\xa9\n- {name: h1, address: a:1} # \xc3\xa9\n" ONE,
            ADD("h1", KEY_1),
            "\xef\xbb\xbf# \xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x8b\n" TCP
            "hosts: # \xc3\xa9\n- {name: h1, address: a:1, key: " KEY_1 "} # \xc3\xa9\n" ONE);
    becomes(
        "\xef\xbb\xbfhosts:\n- {name: h1, address: a:1}\n" TCP ONE, ADD_CLIENT("c", KEY_1),
        "\xef\xbb\xbfhosts:\n- {name: h1, address: a:1}\nclient_keys:\n  - {name: c, key: " KEY_1
        "}\n" TCP ONE);
}

/* ---- a second key, and one less ---- */

static void edit__a_key_gets_a_second(void **state)
{
    (void)state;
    becomes(TCP "hosts:\n- {name: h1, key: " KEY_1 ", address: a:1}\n" ONE, ADD("h1", KEY_2),
            TCP "hosts:\n- {name: h1, key: [" KEY_1 ", " KEY_2 "], address: a:1}\n" ONE);
    becomes(TCP "hosts:\n- name: h1\n  key: \"" KEY_1 "\"  # of 2024\n  address: a:1\n" ONE,
            ADD("h1", KEY_2),
            TCP "hosts:\n- name: h1\n  key: [" KEY_1 ", " KEY_2
                "]  # of 2024\n  address: a:1\n" ONE);
    becomes(TCP "hosts:\n- {name: h1, address: a:1, key: [ " KEY_1 " ]}\n" ONE, ADD("h1", KEY_2),
            TCP "hosts:\n- {name: h1, address: a:1, key: [" KEY_1 ", " KEY_2 "]}\n" ONE);
    becomes(TCP "hosts:\n- name: h1\n  address: a:1\n  key:\n  - " KEY_1 "  # old\n" ONE,
            ADD("h1", KEY_2),
            TCP "hosts:\n- name: h1\n  address: a:1\n  key:\n  - " KEY_1 "  # old\n  - " KEY_2
                "\n" ONE);
    becomes(TCP "hosts:\n- name: h1\n  address: a:1\n  key: [\n    " KEY_1 "  # old\n  ]\n" ONE,
            ADD("h1", KEY_2),
            TCP "hosts:\n- name: h1\n  address: a:1\n  key: [\n    " KEY_1 ", " KEY_2
                "  # old\n  ]\n" ONE);
}

static void edit__one_of_two_keys_goes(void **state)
{
    (void)state;
    becomes(TCP "hosts:\n- {name: h1, key: [" KEY_1 ", " KEY_2 "], address: a:1}\n" ONE,
            DROP("h1", KEY_1), TCP "hosts:\n- {name: h1, key: " KEY_2 ", address: a:1}\n" ONE);
    becomes(TCP "hosts:\n- {name: h1, key: [" KEY_1 ", " KEY_2 "], address: a:1}\n" ONE,
            DROP("h1", KEY_2), TCP "hosts:\n- {name: h1, key: " KEY_1 ", address: a:1}\n" ONE);
    becomes(
        TCP "hosts:\n- {name: h1, address: a:1, key: [" KEY_1 ",\n     " KEY_2 "] } # two\n" ONE,
        DROP("h1", KEY_1), TCP "hosts:\n- {name: h1, address: a:1, key: [" KEY_2 "] } # two\n" ONE);
    becomes(TCP "hosts:\n- {name: h1, address: a:1, key: [" KEY_1 ",\n     " KEY_2
                " # new\n]}\n" ONE,
            DROP("h1", KEY_2),
            TCP "hosts:\n- {name: h1, address: a:1, key: [" KEY_1 " # new\n]}\n" ONE);
    becomes(TCP "hosts:\n- name: h1\n  address: a:1\n  key:\n  - " KEY_1 "  # old\n  - " KEY_2
                "  # new\n" ONE,
            DROP("h1", KEY_1),
            TCP "hosts:\n- name: h1\n  address: a:1\n  key:\n  - " KEY_2 "  # new\n" ONE);
    becomes(TCP ONE "hosts:\n- name: h1\n  address: a:1\n  key:\n    - " KEY_1 "\n    - " KEY_2,
            DROP("h1", KEY_2), TCP ONE "hosts:\n- name: h1\n  address: a:1\n  key:\n    - " KEY_1);
}

static void edit__the_last_key_leaves_the_name(void **state)
{
    (void)state;
    becomes(TCP "hosts:\n- {name: h1, key: " KEY_1 ", address: a:1}\n" ONE, DROP("h1", KEY_1),
            TCP "hosts:\n- {name: h1, key: [], address: a:1}\n" ONE);
    becomes(TCP "hosts:\n- name: h1\n  address: a:1\n  key:\n  - " KEY_1 "  # old\n" ONE,
            DROP("h1", KEY_1),
            TCP "hosts:\n- name: h1\n  address: a:1\n  key:\n    []  # old\n" ONE);
    becomes(TCP "hosts:\n- {name: h1, key: [], address: a:1}\n" ONE, ADD("h1", KEY_1),
            TCP "hosts:\n- {name: h1, key: " KEY_1 ", address: a:1}\n" ONE);
    becomes(TCP "hosts:\n- {name: h1, address: a:1}\nclient_keys:\n- {name: c, key: " KEY_1
                "} # gone\n" ONE,
            DROP_CLIENT("c", KEY_1),
            TCP
            "hosts:\n- {name: h1, address: a:1}\nclient_keys:\n- {name: c, key: []} # gone\n" ONE);
}

/* ---- clients ---- */

static void edit__a_client_is_added(void **state)
{
    (void)state;
#define H "hosts:\n- {name: h1, address: a:1}  # one\n"
#define B "{name: b, key: " KEY_5 "}"
    becomes(TCP H "\n# the rest\n" ONE, ADD_CLIENT("b", KEY_5),
            TCP H "client_keys:\n  - " B "\n\n# the rest\n" ONE);
    becomes(TCP H "client_keys:\n    - {name: a, key: " KEY_4 "} # a\n\n# the rest\n" ONE,
            ADD_CLIENT("b", KEY_5),
            TCP H "client_keys:\n    - {name: a, key: " KEY_4 "} # a\n    - " B
                  "\n\n# the rest\n" ONE);
    becomes(TCP H "client_keys:\n- name: a # a\n  key:\n  - " KEY_4 "\n" ONE,
            ADD_CLIENT("b", KEY_5),
            TCP H "client_keys:\n- name: a # a\n  key:\n  - " KEY_4 "\n- " B "\n" ONE);
    becomes(TCP H "client_keys: [{name: a, key: " KEY_4 "} ]\n" ONE, ADD_CLIENT("b", KEY_5),
            TCP H "client_keys: [{name: a, key: " KEY_4 "}, " B " ]\n" ONE);
    becomes(TCP H "client_keys: [ # none\n]\n" ONE, ADD_CLIENT("b", KEY_5),
            TCP H "client_keys: [" B " # none\n]\n" ONE);
    becomes("{transport: tcp, hosts: [{name: h1, address: a:1}],\n"
            " groups: [{name: g1, replicas: [h1]}] }\n",
            ADD_CLIENT("b", KEY_5),
            "{transport: tcp, hosts: [{name: h1, address: a:1}],\n"
            " groups: [{name: g1, replicas: [h1]}], client_keys: [" B "] }\n");
    becomes(TCP H "client_keys: [" B "]\n" ONE, ADD_CLIENT("b", KEY_4),
            TCP H "client_keys: [{name: b, key: [" KEY_5 ", " KEY_4 "]}]\n" ONE);
}

/* A whole file as `tram init` writes it, changed for everybody, is the cluster that was wanted. */
static void edit__works_on_what_we_write(void **state)
{
    struct cluster_plan plan = {.groups = 3, .replicas = 3, .hosts = 3, .transport = CLUSTER_TCP};
    static const struct wish wishes[] = {{"h1", false, false, KEY_1}, {"h2", false, false, KEY_2},
                                         {"h3", false, false, KEY_3}, {"c", true, false, KEY_4},
                                         {"h2", false, false, KEY_5}, {"d", true, false, KEY_6},
                                         {"h2", false, true, KEY_2},  {"c", true, true, KEY_4}};
    struct cluster *c = NULL;
    struct err e = {""};
    char *text = NULL;
    size_t bytes = 0;

    (void)state;
    assert_int_equal(cluster_make(&plan, &c, &e), 0);
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(cluster_write(f, c, &e), 0);
    fclose(f);
    cluster_free(c);
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        char *out = NULL;
        if (try_edit(text, wishes[i], &out, &e) < 0)
            fail_msg("%s\n%s", e.text, text);
        free(text);
        text = out;
    }
    assert_int_equal(cluster_parse(text, strlen(text), "x.yaml", &c, &e), 0);
    assert_true(c->host[1].keys.count == 1 && c->client_keys == 2 &&
                c->client_key[0].keys.count == 0);
    assert_non_null(strstr(text, "# A host is a process;"));
    cluster_free(c);
    free(text);
}

/* ---- what is not done ---- */

static void edit__leaves_alone_what_it_might_spoil(void **state)
{
    (void)state;
    /* A comment would go with the key. */
    left_alone(TCP "hosts:\n- {name: h1, address: a:1, key: [" KEY_1 ", # old\n  " KEY_2 "]}\n" ONE,
               DROP("h1", KEY_1), "x.yaml:3: ", "write this into host h1: key: " KEY_2);
    /* Where a text of several lines ends is not known. */
    left_alone(TCP "hosts:\n- name: h1\n  address: >-\n    a:1\n" ONE, ADD("h1", KEY_1),
               "x.yaml:3: ", "write this into host h1: key: " KEY_1);
    left_alone(TCP "hosts:\n- name: h1\n  address: a:1\n  key: |-\n    " KEY_1 "\n" ONE,
               ADD("h1", KEY_2), "x.yaml:3: ", "key: [" KEY_1 ", " KEY_2 "]");
    /* Lines that end as they did once. */
    left_alone("transport: tcp\rhosts:\r- name: h1\r  address: a:1\r"
               "groups: [{name: g1, replicas: [h1]}]\r",
               ADD("h1", KEY_1), "x.yaml:3: ", "key: " KEY_1);
    left_alone(TCP "hosts:\n- name: h1\n  address: a:1\n" ONE, ADD_CLIENT("b c", KEY_1),
               "x.yaml:1: ", "into client_keys: {name: b c, key: " KEY_1 "}");
}

static void edit__refuses_what_cannot_be(void **state)
{
    (void)state;
#define H1 TCP "hosts:\n- {name: h1, address: a:1, key: [" KEY_1 ", " KEY_2 "]}\n" ONE
    wrong(H1, ADD("h2", KEY_3), "no host 'h2'");
    wrong(H1, ADD("h1", KEY_3), "has 2 keys already; retire one");
    wrong(H1, ADD_CLIENT("c", KEY_2), "'h1' has that key already");
    wrong(H1, DROP("h1", KEY_3), "does not have that key");
    wrong(H1, DROP_CLIENT("c", KEY_3), "no client 'c'");
    wrong("hosts: [{name: h1}]\n" ONE, ADD("h1", KEY_1), "for transport: tcp");
    wrong(TCP "tls: {ca: a, cert: b, key: c}\nhosts: [{name: h1, address: a:1}]\n" ONE,
          ADD("h1", KEY_1), "without tls");
    wrong(TCP "clients: any-with-key f.pub\nhosts: [{name: h1, address: a:1}]\n" ONE,
          ADD_CLIENT("any", KEY_1), "x.yaml:2: the clients' key is in f.pub");
    wrong("hosts: 7\n", ADD("h1", KEY_1), "x.yaml:1: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edit__a_host_in_braces_gets_a_key),
        cmocka_unit_test(edit__a_host_in_lines_gets_a_key),
        cmocka_unit_test(edit__keeps_the_line_ends_of_the_file),
        cmocka_unit_test(edit__counts_bytes_and_not_characters),
        cmocka_unit_test(edit__a_key_gets_a_second),
        cmocka_unit_test(edit__one_of_two_keys_goes),
        cmocka_unit_test(edit__the_last_key_leaves_the_name),
        cmocka_unit_test(edit__a_client_is_added),
        cmocka_unit_test(edit__works_on_what_we_write),
        cmocka_unit_test(edit__leaves_alone_what_it_might_spoil),
        cmocka_unit_test(edit__refuses_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
