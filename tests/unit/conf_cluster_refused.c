/* Cluster files that are refused, and what is said of them. */
#include "../conf_fixture.h"
#include "../skip.h"

/* ---- keys and types ---- */

/* Whatever else is in it. */
static void cluster__refuses_a_later_version(void **state)
{
    (void)state;

    cluster_free(accepted("version: 1\n" HOSTS GROUPS));
    refused(HOSTS GROUPS "colour: red\nversion: 2\n", 9, "the file is of version 2",
            "this program knows up to 1", NULL);
    refused("version: 0\n" HOSTS GROUPS, 1, "a whole number", NULL);
    refused("version: [1]\n" HOSTS GROUPS, 1, "a whole number", "not a list", NULL);
}

static void cluster__refuses_an_unknown_key(void **state)
{
    (void)state;
    refused("transport: shm\nprotocl: tree\n" HOSTS GROUPS, 2, "no key 'protocl'",
            "did you mean protocol?", NULL);
    refused(HOSTS GROUPS "colour: red\n", 8, "no key 'colour'",
            "the keys are version, name, transport", "groups, subgroups", "detach_ms", NULL);
    refused("hosts:\n- {name: h1, adress: a:1}\n" GROUPS, 2, "a host has no key 'adress'",
            "did you mean address?", NULL);
    refused(HOSTS "groups:\n- name: g1\n  replica: [h1]\n", 7, "a group has no key 'replica'",
            "did you mean replicas?", NULL);
    refused("Hosts: []\n" HOSTS GROUPS, 1, "'Hosts'", "did you mean hosts?", NULL);
}

static void cluster__refuses_a_key_twice(void **state)
{
    (void)state;
    refused("transport: shm\nwait: auto\ntransport: tcp\n" HOSTS GROUPS, 3, "key 'transport'",
            "second time", "line 1", "leave one", NULL);
    refused("hosts:\n- {name: h1, name: h2}\n" GROUPS, 2, "key 'name'", "second time", NULL);
}

static void cluster__refuses_wrong_types(void **state)
{
    (void)state;
    refused("transport: [shm]\n" HOSTS GROUPS, 1, "transport must be shm, tcp, verbs, not a list",
            NULL);
    refused("name: {a: b}\n" HOSTS GROUPS, 1, "name must be a word, not a map", NULL);
    refused("clients:\n" HOSTS GROUPS, 1, "clients must be a whole number", "not nothing", NULL);
    refused("clients: [1]\n" HOSTS GROUPS, 1, "clients must be a whole number", "not a list", NULL);
    refused("hosts: h1\n" GROUPS, 1, "hosts must be a list", "not 'h1'", NULL);
    refused("hosts:\n" GROUPS, 1, "hosts must be a list", "not nothing", NULL);
    refused("hosts:\n- h1\n" GROUPS, 2, "a host must be written like {name", "not as 'h1'", NULL);
    refused(HOSTS "groups: {g1: [h1]}\n", 5, "groups must be a list", "not a map", NULL);
    refused(HOSTS "groups:\n- [g1]\n", 6, "a group must be written like", "not as a list", NULL);
    refused(HOSTS "groups:\n- {name: g1, replicas: h1}\n", 6, "replicas must be a list of hosts",
            "not 'h1'", NULL);
    refused(HOSTS "groups:\n- {name: g1, replicas: [[h1]]}\n", 6, "a replica must be the name of",
            "not a list", NULL);
    refused(HOSTS "groups:\n- {name: g1, parent: [], replicas: [h1]}\n", 6, "parent must be",
            "not a list", NULL);
    refused("? []\n: []\n", 1, "a key must be a word, not a list", NULL);
    refused("? [a]\n: b\n" HOSTS GROUPS, 1, "a key must be a word, not a list", NULL);
}

static void cluster__refuses_unknown_words(void **state)
{
    (void)state;
    refused("transport: rdma\n" HOSTS GROUPS, 1, "transport is 'rdma'", "shm, tcp, verbs", NULL);
    refused("\nprotocol: raft\n" HOSTS GROUPS, 2, "protocol is 'raft'", "tree, genuine", NULL);
    refused("wait: never\n" HOSTS GROUPS, 1, "wait is 'never'", "auto, spin, sleep", NULL);
    refused("durable: maybe\n" HOSTS GROUPS, 1, "durable is 'maybe'", "false, true", NULL);
}

#define ID "0123456789abcdef0123456789abcdef"

/* A flush takes longer than memory does: more is under way meanwhile. */
static void cluster__durable_has_larger_rings(void **state)
{
    struct cluster *c = accepted(HOSTS GROUPS "durable: true\nid: " ID "\n");
    (void)state;
    assert_true(c->log_bytes == 2 << 20 && c->window_bytes == 1 << 20);
    assert_true(c->source_bytes == 256 << 10 && c->reply_bytes == 128 << 10);
    cluster_free(c);
    c = accepted(HOSTS GROUPS "durable: true\nid: " ID "\nlog_bytes: 256 KiB\n");
    assert_true(c->log_bytes == 256 << 10 && c->window_bytes == 128 << 10);
    cluster_free(c);
}

static void cluster__durable_needs_an_id_and_takes_a_directory(void **state)
{
    (void)state;
    refused(HOSTS GROUPS "durable: true\n", 8, "needs an id", "tram init --durable", NULL);
    refused(HOSTS GROUPS "durable: true\nid: 12\n", 9, "id '12' is none", "32 hexadecimal", NULL);
    refused(HOSTS GROUPS "durable: true\nid: 00000000000000000000000000000000\n", 9, "is none",
            NULL);
    refused(HOSTS GROUPS "durable: true\nid: 0123456789abcdef0123456789abcdeF\n", 9, "is none",
            NULL);
    refused(HOSTS GROUPS "id: " ID "\n", 8, "id is for durable: true", NULL);
    refused(HOSTS GROUPS "restored: " ID "\n", 8, "restored is for durable: true", NULL);
    refused(HOSTS GROUPS "durable: true\nid: " ID "\nrestored: 7\n", 10, "restored '7' is none",
            "tram restore", NULL);
    refused(HOSTS GROUPS "durable: false\ndata_dir: x\n", 9, "data_dir is for durable: true", NULL);
    refused(HOSTS GROUPS "disk_bytes: 1024 MiB\n", 8, "disk_bytes is for durable: true", NULL);
    cluster_free(accepted(HOSTS GROUPS "durable: false\n"));

    struct err e = {""};
    char path[256];
    struct cluster *c = accepted(HOSTS GROUPS "durable: true\nid: " ID "\n");
    assert_true(c->durable && c->id[0] == 0x01 && c->id[15] == 0xef && c->disk_bytes == 1 << 30);
    assert_string_equal(cluster_id_text(c->id).s, ID);
    assert_int_equal(cluster_path(c, "a/x.yaml", CLUSTER_PATH_DATA, "h1", path, sizeof path, &e),
                     0);
    assert_string_equal(path, "a/x.data/h1");
    cluster_free(c);
    c = accepted(HOSTS GROUPS "durable: true\nid: " ID "\ndata_dir: /var/lib/tram\n"
                              "disk_bytes: 512 MiB\n");
    assert_int_equal(cluster_path(c, "a/x.yaml", CLUSTER_PATH_DATA, NULL, path, sizeof path, &e),
                     0);
    assert_string_equal(path, "/var/lib/tram");
    cluster_free(c);
}

/* What a disk's files depend on, and what not. */
static void cluster__shape_is_of_what_files_depend_on(void **state)
{
    (void)state;
    struct cluster *a = accepted(HOSTS GROUPS);
    struct cluster *same = accepted(HOSTS GROUPS "suspect_ms: 200\nheartbeat_ms: 20\n");
    struct cluster *other = accepted(HOSTS GROUPS "clients: 65\n");
    struct cluster *genuine = accepted(HOSTS GROUPS "protocol: genuine\n");
    assert_true(cluster_shape(a) == cluster_shape(same));
    assert_true(cluster_shape(a) != cluster_shape(other));
    assert_true(cluster_shape(a) != cluster_shape(genuine));
    cluster_free(a);
    cluster_free(same);
    cluster_free(other);
    cluster_free(genuine);
}

static void cluster__huge_pages_are_for_networks(void **state)
{
    (void)state;
    refused("huge_pages: true\n" HOSTS GROUPS, 1,
            "huge_pages: true is for transport: tcp and verbs", NULL);
    struct cluster *c = accepted("huge_pages: true\ntransport: tcp\n" TCP_HOSTS GROUPS);
    assert_true(c->huge_pages);
    cluster_free(c);
    c = accepted("huge_pages: false\n" HOSTS GROUPS);
    assert_false(c->huge_pages);
    cluster_free(c);
}

static void cluster__refuses_a_file_without_hosts_or_groups(void **state)
{
    (void)state;
    refused("\n# comment\n" GROUPS, 3, "no `hosts`", "add a list", NULL);
    refused(HOSTS, 1, "no `groups`", "add a list", "{name: g1", NULL);
    refused("hosts: []\n" GROUPS, 1, "list of hosts is empty", "add lines like", NULL);
    refused(HOSTS "groups: []\n", 5, "list of groups is empty", "add lines like", NULL);
}

/* ---- names ---- */

static void cluster__refuses_a_host_twice(void **state)
{
    (void)state;
    refused(HOSTS "  - {name: h2, address: 127.0.0.1:7104}\n" GROUPS, 5, "host 'h2'", "second time",
            "line 3", NULL);
}

static void cluster__refuses_a_group_twice(void **state)
{
    (void)state;
    refused(HOSTS GROUPS "  - {name: g1, parent: g2, replicas: [h1]}\n", 8, "group 'g1'",
            "second time", "line 6", NULL);
}

static void cluster__refuses_bad_names(void **state)
{
    (void)state;
    refused("hosts:\n- {name: h 1}\n" GROUPS, 2, "host name 'h 1'", "letters, digits", "at most 30",
            NULL);
    refused("hosts:\n- {name: ../x}\n" GROUPS, 2, "host name '../x'", NULL);
    refused("hosts:\n- {name: -x}\n" GROUPS, 2, "host name '-x'", "a letter, digit or _ first",
            NULL);
    refused(HOSTS "groups:\n- name: 'a/b'\n  replicas: [h1]\n", 6, "group name 'a/b'", NULL);
    refused(HOSTS "groups:\n- name: g\xc3\xa9\n  replicas: [h1]\n", 6, "group name 'g\xc3\xa9'",
            NULL);
    refused(HOSTS "groups:\n- {name: '', replicas: [h1]}\n", 6, "group name must be a word",
            "not nothing", NULL);
    refused(HOSTS "groups:\n- {name: g123456789012345678901234567890, replicas: [h1]}\n", 6,
            "at most 30", NULL);
    refused("name: a b\n" HOSTS GROUPS, 1, "name 'a b'", "letters, digits", NULL);
    cluster_free(
        accepted(HOSTS "groups:\n- {name: g12345678901234567890123456789, replicas: [h1]}"));
    cluster_free(accepted(HOSTS "groups:\n- {name: _A-z.0, replicas: [h1]}"));
}

static void cluster__refuses_hosts_and_groups_without_a_name(void **state)
{
    (void)state;
    refused("hosts:\n- {address: a:1}\n" GROUPS, 2, "a host without a name", "`name: h1`", NULL);
    refused(HOSTS "groups:\n- {replicas: [h1]}\n", 6, "a group without a name", "`name: g1`", NULL);
}

/* Control characters would reach the terminal of whoever reads the error. */
static void cluster__shows_no_control_characters(void **state)
{
    (void)state;
    struct cluster *c = NULL;
    struct err e = {0};
    static const char text[] = "hosts:\n- {name: \"a\\e[31m\\x9b1m\\n\"}\n";

    assert_int_equal(cluster_parse(text, sizeof text - 1, "x.yaml", &c, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "'a?[31m??1m?'"));
}

/* ---- the tree ---- */

static void cluster__refuses_a_cycle(void **state)
{
    (void)state;
    refused(HOSTS "groups:\n"
                  "- {name: g1, replicas: [h1]}\n"
                  "- {name: g2, parent: g3, replicas: [h1]}\n"
                  "- name: g3\n"
                  "  parent: g4\n"
                  "  replicas: [h1]\n"
                  "- {name: g4, parent: g2, replicas: [h1]}\n",
            7, "cycle", "g2 -> g3 -> g4 -> g2;", "a parent outside", NULL);
    /* The way up from the first group meets the cycle at g3; told is the one that stands first. */
    refused(HOSTS "groups:\n"
                  "- {name: g1, parent: g3, replicas: [h1]}\n"
                  "- {name: g2, parent: g3, replicas: [h1]}\n"
                  "- {name: g3, parent: g2, replicas: [h1]}\n",
            7, "g2 -> g3 -> g2", NULL);
    refused(HOSTS GROUPS "  - {name: g3, parent: g3, replicas: [h1]}\n", 8, "cycle", "g3 -> g3",
            NULL);
    refused("protocol: genuine\n" HOSTS GROUPS "  - {name: g3, parent: g3, replicas: [h1]}\n", 9,
            "cycle", NULL);
}

static void cluster__refuses_a_long_cycle_without_listing_it(void **state)
{
    (void)state;
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "%sgroups:\n", HOSTS);

    for (int i = 1; i <= 20; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "- {name: g%d, parent: g%d, replicas: [h1]}\n", i, i % 20 + 1);
    refused(text, 6, "g1 -> g2 -> g3 -> g4 -> ... -> g1", NULL);
}

static void cluster__refuses_two_roots(void **state)
{
    (void)state;
    refused(HOSTS GROUPS "  - {name: g3, replicas: [h1]}\n", 8, "group 'g3' has no parent",
            "'g1' in line 6", "`parent: g1`", NULL);
}

static void cluster__refuses_a_tree_without_root(void **state)
{
    (void)state;
    refused(HOSTS "groups:\n"
                  "- {name: g1, parent: g2, replicas: [h1]}\n"
                  "- {name: g2, parent: g1, replicas: [h1]}\n",
            6, "g1 -> g2 -> g1", "no group is the root", "leave out the parent", NULL);
}

static void cluster__refuses_an_unknown_parent(void **state)
{
    (void)state;
    refused(HOSTS GROUPS "  - name: g3\n    replicas: [h1]\n    parent: g9\n", 10,
            "parent of group 'g3' is 'g9'", "no group", "there are g1, g2 and g3", NULL);
}

/* ---- replicas ---- */

static void cluster__refuses_a_group_without_replicas(void **state)
{
    (void)state;
    refused(HOSTS "groups:\n- {name: g1}\n", 6, "group 'g1' has no replicas", "`replicas: [h1]`",
            NULL);
    refused(HOSTS "groups:\n- name: g1\n  replicas: []\n", 7, "group 'g1' has no replicas",
            "at least one", NULL);
}

static void cluster__refuses_a_replica_on_an_unknown_host(void **state)
{
    (void)state;
    refused(HOSTS "groups:\n- name: g1\n  replicas:\n  - h1\n  - h7\n", 9, "group 'g1'", "'h7'",
            "no host", "there are h1, h2 and h3", NULL);
    refused(HOSTS "  - {name: h4}\n  - {name: h5}\n  - {name: h6}\ngroups:\n"
                  "- {name: g1, replicas: [h0]}\n",
            9, "h1, h2, h3, h4 and 2 more", NULL);
}

static void cluster__refuses_a_host_twice_in_a_group(void **state)
{
    (void)state;
    refused(HOSTS "groups:\n- {name: g1, replicas: [h1, h2, h1]}\n", 6,
            "group 'g1' has two replicas on host 'h1'", "each host once", NULL);
}

static void cluster__refuses_too_many(void **state)
{
    (void)state;
    struct cluster_plan plan = {.groups = 1024, .replicas = 9, .hosts = 128};
    struct cluster *c = NULL;
    struct err e = {0};
    char *text = NULL;
    size_t bytes = 0;

    refused("hosts: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, {name: g},\n"
            "        {name: h}, {name: i}, {name: j}]\n"
            "groups:\n- {name: g1, replicas: [a, b, c, d, e, f, g, h, i, j]}\n",
            4, "too many replicas", "at most 9", NULL);
    assert_int_equal(cluster_make(&plan, &c, &e), 0);
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(cluster_write(f, c, &e), 0);
    fputs("  - {name: x, parent: g1, replicas: [h1]}\n", f);
    fclose(f);
    unsigned lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    refused(text, lines, "too many groups", "at most 1024", NULL);
    free(text);
    cluster_free(c);

    f = open_memstream(&text, &bytes);
    fputs("hosts:\n", f);
    for (int i = 1; i <= 129; i++)
        fprintf(f, "- {name: h%d}\n", i);
    fputs(GROUPS, f);
    fclose(f);
    refused(text, 130, "too many hosts", "at most 128", NULL);
    free(text);
}

/* ---- addresses ---- */

static void address_refused(const char *address, const char *word)
{
    char text[600];

    snprintf(text, sizeof text, "hosts:\n- name: h1\n  address: %s\n" GROUPS, address);
    refused(text, 3, word, NULL);
}

static void cluster__refuses_bad_addresses(void **state)
{
    (void)state;
    address_refused("localhost", "'localhost' has no port; write it like 127.0.0.1:7101");
    address_refused("localhost:", "quote a value"); /* YAML takes it for a key */
    address_refused("'localhost:'", "no port from 1 to 65535");
    address_refused("localhost:0", "no port from 1 to 65535");
    address_refused("localhost:65536", "no port from 1 to 65535");
    address_refused("localhost:http", "no port from 1 to 65535");
    address_refused("localhost:-1", "no port from 1 to 65535");
    address_refused("':7101'", "no host before the port");
    address_refused("127.0.0.256:7101", "no IPv4 address");
    address_refused("127.0.1:7101", "no IPv4 address");
    address_refused("::1:7101", "in brackets");
    address_refused("'[::g]:7101'", "no IPv6 address in its brackets");
    address_refused("'[]:7101'", "no host before the port");
    address_refused("'[::1:7101'", "no host name has");
    address_refused("'a b:7101'", "no host name has");
    address_refused("-a:7101", "begins with");
    address_refused("[::1]:7101", "needs quotes");
    address_refused("[localhost]", "must be HOST:PORT, or \"[IPV6]:PORT\" in quotes, not a list");
}

static void cluster__refuses_an_address_twice(void **state)
{
    (void)state;
    refused("hosts:\n- {name: h1, address: a:1}\n- {name: h2, address: a:1}\n" GROUPS, 3,
            "that of host 'h1' (line 2)", "a port of its own", NULL);
}

static void cluster__refuses_tcp_without_an_address(void **state)
{
    (void)state;
    refused("hosts:\n- {name: h1}\n" GROUPS "transport: tcp\n", 2, "host 'h1' has no address",
            "tcp needs", "`address: 127.0.0.1:7101`", NULL);
}

/* ---- numbers and paths ---- */

static void cluster__refuses_numbers_out_of_range(void **state)
{
    (void)state;
    refused("clients: 0\n" HOSTS GROUPS, 1, "clients", "from 1 to 4096", "not '0'", NULL);
    refused("clients: 4097\n" HOSTS GROUPS, 1, "from 1 to 4096", NULL);
    refused("clients: 64k\n" HOSTS GROUPS, 1, "whole number", NULL);
    refused("clients: -1\n" HOSTS GROUPS, 1, "from 1 to 4096", NULL);
    refused("clients: 99999999999999999999999\n" HOSTS GROUPS, 1, "from 1 to 4096", NULL);
    refused("payload_max: 1048577\n" HOSTS GROUPS, 1, "payload_max must be a size from 0 to 1 MiB",
            NULL);
    refused("payload_max: 17592186044416M\n" HOSTS GROUPS, 1, "from 0 to 1 MiB", NULL);
    refused("payload_max: 1 GiB\n" HOSTS GROUPS, 1, "64 KiB or 1 MiB, not '1 GiB'", NULL);
    refused("payload_max: 1.5k\n" HOSTS GROUPS, 1, "like 65536", NULL);
    refused("reply_max: 1048577\n" HOSTS GROUPS, 1, "reply_max", "from 0 to 1 MiB", NULL);
    refused("clients: 4097\n" HOSTS GROUPS, 1, "clients", "from 1 to 4096", NULL);
    refused("heartbeat_ms: 0\n" HOSTS GROUPS, 1, "heartbeat_ms", "from 1 to 10000", NULL);
    refused("detach_ms: soon\n" HOSTS GROUPS, 1, "detach_ms", "not 'soon'", NULL);
}

static void cluster__refuses_rings_that_are_no_power_of_two(void **state)
{
    (void)state;
    refused("log_bytes: 300 KiB\n" HOSTS GROUPS, 1, "log_bytes must be a power of two",
            "'300 KiB' is none, 256 KiB and 512 KiB are", NULL);
    refused("\nsource_bytes: 100000\n" HOSTS GROUPS, 2, "source_bytes must be a power of two",
            "64 KiB and 128 KiB", NULL);
    refused("log_bytes: 8k\n" HOSTS GROUPS, 1, "from 16 KiB to 1024 MiB", NULL);
}

static void cluster__refuses_a_payload_too_large_for_the_log(void **state)
{
    (void)state;
    refused("wait: auto\npayload_max: 100k\n" HOSTS GROUPS, 2,
            "log_bytes (256 KiB) must hold 16 messages of payload_max (100 KiB)",
            "set log_bytes to 2 MiB or more, or payload_max to 16 KiB or less", NULL);
    refused("payload_max: 32k\nlog_bytes: 128k\n" HOSTS GROUPS, 2,
            "set log_bytes to 512 KiB or more, or payload_max to 8 KiB or less", NULL);
    refused("source_bytes: 32k\n" HOSTS GROUPS, 1, "source_bytes (32 KiB) must hold 4 messages",
            "set source_bytes to 64 KiB", NULL);
    refused("wait: auto\nedge_bytes: 32k\n" HOSTS GROUPS, 2,
            "edge_bytes (32 KiB) must hold 4 messages", "set edge_bytes to 64 KiB", NULL);
}

static void cluster__refuses_what_does_not_fit_the_log_or_a_reply(void **state)
{
    (void)state;
    refused("log_bytes: 1M\nbatch_bytes: 300k\n" HOSTS GROUPS, 2,
            "batch_bytes (300 KiB) is more than a quarter of log_bytes (1 MiB)",
            "set it to 256 KiB or less", NULL);
    refused("window_bytes: 129k\n" HOSTS GROUPS, 1, "more than half of log_bytes (256 KiB)",
            "set it to 128 KiB or less", NULL);
    refused("window_bytes: 16k\n" HOSTS GROUPS, 1, "must hold a message of payload_max (16 KiB)",
            "set it to 20 KiB or more", NULL);
    refused("reply_max: 5000\nreply_bytes: 4k\n" HOSTS GROUPS, 2,
            "reply_bytes (4 KiB) must hold a reply of reply_max (5000)", "set it to 8 KiB", NULL);
    refused("snap_bytes: 5000\n" HOSTS GROUPS, 1, "snap_bytes must be a power of two", NULL);
}

static void cluster__refuses_a_hasty_suspicion(void **state)
{
    (void)state;
    refused("suspect_ms: 15\n" HOSTS GROUPS, 1, "suspect_ms (15)", "twice heartbeat_ms (15)",
            "30 or more", NULL);
    refused("heartbeat_ms: 100\n" HOSTS GROUPS, 1, "suspect_ms (60)", "200 or more", NULL);
}

static void cluster__refuses_a_bad_runtime_dir(void **state)
{
    (void)state;
    char text[700] = "runtime_dir: /";

    refused("runtime_dir: run\n" HOSTS GROUPS, 1, "'run' is relative", "absolute path", NULL);
    refused("runtime_dir: \"/a\\tb\"\n" HOSTS GROUPS, 1, "control character", NULL);
    refused("runtime_dir: []\n" HOSTS GROUPS, 1, "absolute path, not a list", NULL);
    memset(text + strlen(text), 'x', 300);
    strcat(text, "\n" HOSTS GROUPS);
    refused(text, 1, "has 301 bytes; it may have 199", NULL);
}

/* ---- not a cluster file ---- */

static void cluster__refuses_an_empty_file(void **state)
{
    (void)state;
    refused("", 1, "empty", "`tram init`", NULL);
    refused("\n\n# only this\n", 1, "empty", NULL);
    refused("---\n", 1, "empty", NULL);
}

static void cluster__refuses_what_is_no_yaml(void **state)
{
    (void)state;
    refused("Dear all,\nthis is no cluster.\n", 1, "no cluster file but 'Dear all,",
            "`tram init` writes one", NULL);
    refused("- a\n- b\n", 1, "no cluster file but a list", NULL);
    refused("\n\x7f"
            "ELF\x02\x01\n",
            2, "not YAML", "control characters", "plain text", NULL);
    refused("a: b\nb: \xff\xff\n", 2, "not YAML", "save the file as UTF-8", NULL);
    refused(HOSTS "groups:\n- {name: g1, replicas: [h1, h2}\n", 6, "not YAML", "`]`", NULL);
    refused(HOSTS "groups:\n- {name: \"g1\n\n\n", 6, "not YAML", "close the quote", NULL);
    refused("hosts:\n - {name: h1}\n   - {name: h2}\n", 3, "not YAML", NULL);
    refused("hosts:\n  a: b\n c: d\n", 3, "not YAML", "same column", NULL);
    refused("transport shm\nprotocol: tree\n", 2, "not YAML", "check the indentation", NULL);
    refused("transport: shm: tcp\n", 1, "not YAML", "colon", NULL);
    refused("name: @x\n", 1, "not YAML", "quote", NULL);
    refused("hosts: - {name: h1}\n", 1, "not YAML", "below their key", NULL);
}

static void cluster__refuses_tabs(void **state)
{
    (void)state;
    refused("hosts:\n\t- {name: h1}\n" GROUPS, 2, "a tab in the indentation; YAML wants spaces",
            NULL);
    refused("hosts:\n- name: h1\n  \taddress: a:1\n" GROUPS, 3, "tab", NULL);
}

static void cluster__refuses_the_rest_of_yaml(void **state)
{
    (void)state;
    refused("hosts: &h []\n", 1, "anchor '&h'", "write the value out", NULL);
    refused("hosts: []\ngroups: *h\n", 2, "alias '*h'", "write the value out", NULL);
    refused("a: &a [*a]\n", 1, "anchor", NULL);
    refused("clients: !!int 3\n", 1, "tag", "leave it out", NULL);
    refused(HOSTS GROUPS "---\na: b\n", 8, "second document", "remove", NULL);
    refused("a: [[[[[[[[[[[[\n", 1, "nested more than 8 deep", NULL);
    refused("name: \"a\\0b\"\n", 1, "zero byte", NULL);
}

static void cluster__refuses_too_many_keys_and_values(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;

    FILE *f = open_memstream(&text, &bytes);
    for (int i = 0; i < 65; i++)
        fprintf(f, "k%d: 1\n", i);
    fclose(f);
    refused(text, 65, "more than 64 keys", NULL);
    free(text);
    f = open_memstream(&text, &bytes);
    fputs("hosts: [\n", f);
    for (int i = 0; i < 70000; i++)
        fputs("a,", f);
    fputs("]\n", f);
    fclose(f);
    refused(text, 2, "more than 65536 values", NULL);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster__refuses_a_later_version),
        cmocka_unit_test(cluster__refuses_an_unknown_key),
        cmocka_unit_test(cluster__refuses_a_key_twice),
        cmocka_unit_test(cluster__refuses_wrong_types),
        cmocka_unit_test(cluster__refuses_unknown_words),
        cmocka_unit_test(cluster__durable_has_larger_rings),
        cmocka_unit_test(cluster__durable_needs_an_id_and_takes_a_directory),
        cmocka_unit_test(cluster__shape_is_of_what_files_depend_on),
        cmocka_unit_test(cluster__huge_pages_are_for_networks),
        cmocka_unit_test(cluster__refuses_a_file_without_hosts_or_groups),
        cmocka_unit_test(cluster__refuses_a_host_twice),
        cmocka_unit_test(cluster__refuses_a_group_twice),
        cmocka_unit_test(cluster__refuses_bad_names),
        cmocka_unit_test(cluster__refuses_hosts_and_groups_without_a_name),
        cmocka_unit_test(cluster__shows_no_control_characters),
        cmocka_unit_test(cluster__refuses_a_cycle),
        cmocka_unit_test(cluster__refuses_a_long_cycle_without_listing_it),
        cmocka_unit_test(cluster__refuses_two_roots),
        cmocka_unit_test(cluster__refuses_a_tree_without_root),
        cmocka_unit_test(cluster__refuses_an_unknown_parent),
        cmocka_unit_test(cluster__refuses_a_group_without_replicas),
        cmocka_unit_test(cluster__refuses_a_replica_on_an_unknown_host),
        cmocka_unit_test(cluster__refuses_a_host_twice_in_a_group),
        cmocka_unit_test(cluster__refuses_too_many),
        cmocka_unit_test(cluster__refuses_bad_addresses),
        cmocka_unit_test(cluster__refuses_an_address_twice),
        cmocka_unit_test(cluster__refuses_tcp_without_an_address),
        cmocka_unit_test(cluster__refuses_numbers_out_of_range),
        cmocka_unit_test(cluster__refuses_rings_that_are_no_power_of_two),
        cmocka_unit_test(cluster__refuses_a_payload_too_large_for_the_log),
        cmocka_unit_test(cluster__refuses_what_does_not_fit_the_log_or_a_reply),
        cmocka_unit_test(cluster__refuses_a_hasty_suspicion),
        cmocka_unit_test(cluster__refuses_a_bad_runtime_dir),
        cmocka_unit_test(cluster__refuses_an_empty_file),
        cmocka_unit_test(cluster__refuses_what_is_no_yaml),
        cmocka_unit_test(cluster__refuses_tabs),
        cmocka_unit_test(cluster__refuses_the_rest_of_yaml),
        cmocka_unit_test(cluster__refuses_too_many_keys_and_values),
    };

    return run_with_skips(tests);
}
