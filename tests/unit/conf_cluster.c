#include "../conf_fixture.h"
#include "../skip.h"
#include "base/clock.h"
#include "conf/value.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- what is right ---- */

static void cluster__reads_the_file_of_the_design(void **state)
{
    (void)state;
    struct cluster *c = accepted("transport: shm              # shm, tcp, verbs\n"
                                 "protocol: tree\n" HOSTS GROUPS);

    assert_string_equal(c->name, "x");
    assert_true(c->transport == CLUSTER_SHM && c->protocol == CLUSTER_TREE);
    assert_true(c->hosts == 3 && c->groups == 2 && c->warnings == 0);
    assert_string_equal(c->host[1].name, "h2");
    assert_string_equal(c->host[1].address, "127.0.0.1");
    assert_true(c->host[1].port == 7102 && c->host[1].line == 5);
    assert_true(c->group[0].parent == CLUSTER_NONE && c->group[1].parent == 0);
    assert_true(c->group[1].line == 9 && c->group[1].parent_line == 9);
    assert_true(c->group[1].replicas == 3 && c->group[1].replica[0] == 1 &&
                c->group[1].replica[1] == 2 && c->group[1].replica[2] == 0);
    assert_int_equal(cluster_host(c, "h3"), 2);
    assert_int_equal(cluster_host(c, "h4"), CLUSTER_NONE);
    assert_int_equal(cluster_group(c, "g2"), 1);
    assert_int_equal(cluster_group(c, "h1"), CLUSTER_NONE);
    cluster_free(c);
}

static void has_defaults(const struct cluster *c)
{
    assert_true(c->clients == 64 && c->payload_max == 16384 && c->log_bytes == 262144);
    assert_true(c->source_bytes == 65536 && c->edge_bytes == 65536 && c->snap_bytes == 65536);
    assert_true(c->batch_bytes == 16384 && c->window_bytes == 131072);
    assert_true(c->reply_max == 64 && c->reply_bytes == 16384);
    assert_true(c->heartbeat_ms == 15 && c->suspect_ms == 60 && c->detach_ms == 50);
    assert_true(c->wait == CLUSTER_WAIT_AUTO && !c->durable && c->runtime_dir[0] == '\0');
}

static void cluster__has_defaults(void **state)
{
    (void)state;
    struct cluster *c = accepted(HOSTS GROUPS);

    has_defaults(c);
    assert_true(c->transport == CLUSTER_SHM && c->protocol == CLUSTER_TREE);
    cluster_free(c);
}

/* TRAM_SOURCE is the folder of the sources. */
static void cluster__example_shows_the_defaults(void **state)
{
    (void)state;
    const char *source = getenv("TRAM_SOURCE");
    struct cluster *c = NULL;
    struct err e = {0};
    char path[4096];

    if (source == NULL)
        SKIP("TRAM_SOURCE does not say where the sources are");
    snprintf(path, sizeof path, "%s/docs/cluster.example.yaml", source);
    if (cluster_load(path, &c, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(c->name, "example");
    has_defaults(c);
    assert_true(c->groups == 3 && c->warnings == 0);
    writes_back_equal(c);
    cluster_free(c);
}

static void cluster__sizes_have_suffixes(void **state)
{
    (void)state;
    struct cluster *c = accepted("payload_max: 4k\nlog_bytes: 1 MiB\nsource_bytes: 128KiB\n"
                                 "reply_max: 100\n" HOSTS GROUPS);

    assert_true(c->payload_max == 4096 && c->log_bytes == 1 << 20 && c->source_bytes == 128 << 10 &&
                c->reply_max == 100);
    cluster_free(c);
    c = accepted("payload_max: 1M\nlog_bytes: 16mib\n" HOSTS GROUPS);
    assert_true(c->payload_max == 1 << 20 && c->log_bytes == 16 << 20);
    assert_true(c->source_bytes == 4 << 20); /* not given: as much as payload_max needs, */
    assert_true(c->edge_bytes == 4 << 20 && c->batch_bytes == 1 << 20 && /* and as log_bytes has */
                c->window_bytes == 8 << 20);
    cluster_free(c);
    c = accepted(
        "reply_max: 2k\nedge_bytes: 128k\nbatch_bytes: 5000\nwindow_bytes: 40000\n" HOSTS GROUPS);
    assert_true(c->reply_bytes == 64 << 10 && c->edge_bytes == 128 << 10);
    assert_true(c->batch_bytes == 5000 && c->window_bytes == 40000);
    cluster_free(c);
    c = accepted("reply_max: 1 MiB\n" HOSTS GROUPS);
    assert_true(c->reply_max == 1 << 20 && c->reply_bytes == 8 << 20); /* holds 4 of them */
    cluster_free(c);
    c = accepted("payload_max: 0\n" HOSTS GROUPS);
    assert_true(c->payload_max == 0);
    cluster_free(c);
}

static void cluster__name_comes_from_the_key_or_the_file(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"/a/b/cluster.yaml", "cluster"},
        {"my cluster.yml", "my-cluster"},
        {"a.b.conf", "a.b.conf"},
        {"/a/b/", "cluster"},
        {".yaml", "cluster"},
        {"-x.yaml", "cluster"},
        {"0123456789012345678901234567890123456789", "012345678901234567890123456789"}};
    struct cluster *c = accepted("name: demo\n" HOSTS GROUPS);

    assert_string_equal(c->name, "demo");
    cluster_free(c);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[CLUSTER_NAME_BYTES];

        cluster_name_from_file(names[i][0], name);
        assert_string_equal(name, names[i][1]);
    }
}

static void cluster__shm_needs_no_address(void **state)
{
    (void)state;
    struct cluster *c = accepted("hosts: [{name: h1}]\ngroups: [{name: g1, replicas: [h1]}]\n");

    assert_true(c->host[0].port == 0 && c->host[0].address[0] == '\0');
    writes_back_equal(c);
    cluster_free(c);
}

static void cluster__takes_names_and_ipv6_as_addresses(void **state)
{
    (void)state;
    struct cluster *c = accepted("transport: verbs\nhosts:\n- {name: a, address: node-1.lab:1}\n"
                                 "- {name: b, address: '[fe80::1]:65535'}\n"
                                 "groups: [{name: g, replicas: [a]}, {name: k, parent: g,"
                                 " replicas: [b]}]\n");

    assert_string_equal(c->host[0].address, "node-1.lab");
    assert_string_equal(c->host[1].address, "fe80::1");
    assert_true(c->host[0].port == 1 && c->host[1].port == 65535);
    writes_back_equal(c);
    cluster_free(c);
}

static void cluster__a_key_is_found_from_the_file(void **state)
{
    (void)state;
    struct cluster *c = accepted(HOSTS GROUPS);
    struct err e;
    char path[64];

    assert_int_equal(cluster_key_path(c, "/a/b.c/d.yaml", path, sizeof path, &e), 0);
    assert_string_equal(path, "/a/b.c/d.key");
    assert_int_equal(cluster_key_path(c, "d.yml", path, sizeof path, &e), 0);
    assert_string_equal(path, "d.key");
    assert_int_equal(cluster_key_path(c, "../d", path, sizeof path, &e), 0);
    assert_string_equal(path, "../d.key");
    cluster_free(c);
    c = accepted("key: secret/k\n" HOSTS GROUPS);
    assert_int_equal(cluster_key_path(c, "/a/d.yaml", path, sizeof path, &e), 0);
    assert_string_equal(path, "/a/secret/k");
    assert_int_equal(cluster_key_path(c, "d.yaml", path, sizeof path, &e), 0);
    assert_string_equal(path, "secret/k");
    assert_int_equal(cluster_key_path(c, "/a/d.yaml", path, 8, &e), ERR_TOOBIG);
    cluster_free(c);
    c = accepted("key: /k\n" HOSTS GROUPS);
    assert_int_equal(cluster_key_path(c, "/a/d.yaml", path, sizeof path, &e), 0);
    assert_string_equal(path, "/k");
    cluster_free(c);
    refused("key: [a]\n" HOSTS GROUPS, 1, "key must be the path of a file", "list", NULL);
    refused("key: \"a\\tb\"\n" HOSTS GROUPS, 1, "control character", NULL);
}

static void cluster__parent_may_stand_below_its_child(void **state)
{
    (void)state;
    struct cluster *c = accepted(HOSTS "groups:\n"
                                       "- {name: g2, parent: g1, replicas: [h1]}\n"
                                       "- {name: g1, replicas: [h2, h3, h1]}\n");

    assert_true(c->group[0].parent == 1 && c->group[1].parent == CLUSTER_NONE);
    cluster_free(c);
}

static void cluster__groups_may_stand_above_hosts(void **state)
{
    (void)state;
    cluster_free(accepted(GROUPS HOSTS));
}

/* Whoever changes the protocol should have to change that line only, and a tree is no use here. */
static void cluster__genuine_may_have_a_tree_or_none(void **state)
{
    (void)state;
    cluster_free(accepted("protocol: genuine\n" HOSTS GROUPS));
    cluster_free(accepted("protocol: genuine\n" HOSTS "groups:\n"
                          "- {name: g1, replicas: [h1, h2, h3]}\n"
                          "- {name: g2, replicas: [h1, h2, h3]}\n"));
}

static void cluster__written_file_loads_back_equal(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HOSTS GROUPS,
        "name: n\ntransport: tcp\nprotocol: genuine\nwait: spin\nclients: 4096\npayload_max: 1M\n"
        "log_bytes: 32M\nsource_bytes: 8M\nreply_max: 0\nheartbeat_ms: 1\nsuspect_ms: 2\n"
        "detach_ms: 60000\nruntime_dir: '/a \"b\\c # \xc3\xa9: {'\nkey: 'k \"y\\'\n"
        "huge_pages: true\n" TCP_HOSTS GROUPS,
        "wait: sleep\npayload_max: 100\nlog_bytes: 16k\nsource_bytes: 4k\n" HOSTS GROUPS,
        HOSTS "groups: [{name: g1, replicas: [h1, h2]}]\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct cluster *c = accepted(texts[i]);
        writes_back_equal(c);
        cluster_free(c);
    }
}

static void cluster__equal_sees_every_difference(void **state)
{
    (void)state;
    static const char *const others[] = {
        "name: y\n" HOSTS GROUPS,
        "transport: verbs\n" HOSTS GROUPS,
        "protocol: genuine\n" HOSTS GROUPS,
        "wait: spin\n" HOSTS GROUPS,
        "runtime_dir: /x\n" HOSTS GROUPS,
        "key: x\n" HOSTS GROUPS,
        "clients: 65\n" HOSTS GROUPS,
        "detach_ms: 51\n" HOSTS GROUPS,
        HOSTS "  - {name: h4}\n" GROUPS,
        HOSTS GROUPS "  - {name: g3, parent: g2, replicas: [h1]}\n",
        HOSTS
        "groups: [{name: g1, replicas: [h1, h2, h3]}, {name: g2, parent: g1, replicas: [h2]}]",
        HOSTS "groups: [{name: g1, replicas: [h1, h2, h3]},"
              " {name: g2, parent: g1, replicas: [h2, h1, h3]}]",
    };
    struct cluster *c = accepted(HOSTS GROUPS), *same = accepted("# moved\n" HOSTS GROUPS);

    assert_true(cluster_equal(c, same));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct cluster *o = accepted(others[i]);
        if (cluster_equal(c, o))
            fail_msg("equal: %s", others[i]);
        cluster_free(o);
    }
    /* What a file cannot change alone. */
    same->group[1].parent = CLUSTER_NONE;
    assert_false(cluster_equal(c, same));
    cluster_free(c);
    cluster_free(same);
}

static void cluster__largest_loads_within_a_second(void **state)
{
    (void)state;
    uint16_t parent[CLUSTER_GROUPS_MAX];
    struct cluster_plan plan = {.groups = 1024, .replicas = 9, .hosts = 128, .parent = parent};
    struct cluster *c = NULL, *again = NULL;
    char *text = NULL;
    size_t bytes = 0;
    struct err e = {0};

    for (uint32_t i = 0; i < CLUSTER_GROUPS_MAX; i++) /* a chain: the longest way to a root */
        parent[i] = (uint16_t)(i - 1);
    assert_int_equal(cluster_make(&plan, &c, &e), 0);
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(cluster_write(f, c, &e), 0);
    fclose(f);
    uint64_t start = clock_now_ns();
    if (cluster_parse(text, bytes, "x.yaml", &again, &e) < 0)
        fail_msg("%s", e.text);
    uint64_t took_ms = (clock_now_ns() - start) / 1000000;
    assert_true(again->groups == 1024 && again->group[1023].parent == 1022);
    assert_true(cluster_equal(c, again));
    if (took_ms >= 1000)
        fail_msg("took %lu ms", (unsigned long)took_ms);
    cluster_free(c);
    cluster_free(again);
    free(text);
}

/* ---- warnings ---- */

static void cluster__warns_of_an_even_group(void **state)
{
    (void)state;
    struct cluster *c = accepted(HOSTS "groups:\n"
                                       "- {name: g1, replicas: [h1, h2, h3]}\n"
                                       "- name: g2\n"
                                       "  parent: g1\n"
                                       "  replicas: [h1, h2]\n");

    assert_int_equal(c->warnings, 1);
    assert_non_null(strstr(c->warning[0], "dir/x.yaml:9: warning: group 'g2' has 2 replicas"));
    assert_non_null(strstr(c->warning[0], "; an odd number"));
    cluster_free(c);
}

static void cluster__warns_of_an_idle_host(void **state)
{
    (void)state;
    struct cluster *c = accepted(HOSTS "groups: [{name: g1, replicas: [h1]}]\n");

    assert_int_equal(c->warnings, 2);
    assert_non_null(strstr(c->warning[0], "dir/x.yaml:3: warning: host 'h2' carries no replica"));
    cluster_free(c);
}

static void cluster__counts_warnings_beyond_its_list(void **state)
{
    (void)state;
    struct cluster_plan plan = {.groups = 40, .replicas = 4, .hosts = 4};
    struct cluster *c = NULL, *again = NULL;
    char *text = NULL;
    size_t bytes = 0;
    struct err e = {0};

    assert_int_equal(cluster_make(&plan, &c, &e), 0);
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(cluster_write(f, c, &e), 0);
    fclose(f);
    assert_int_equal(cluster_parse(text, bytes, "x.yaml", &again, &e), 0);
    assert_int_equal(again->warnings, 40);
    cluster_free(c);
    cluster_free(again);
    free(text);
}

/* ---- memory ---- */

/* tests/proc/cluster_cli holds the sum against what running hosts have. */
static void cluster__memory_counts_the_rings(void **state)
{
    enum { KIB = 1024 };
    struct cluster *c = accepted(HOSTS GROUPS);

    (void)state;
    /* Each group: 9 logs, 6 rings for snapshots; and 9 rings from g1 to g2. */
    assert_int_equal(cluster_memory(c), (2 * 9 * 256 + 2 * 6 * 64 + 9 * 64) * KIB);
    assert_int_equal(cluster_memory_client(c), 2 * 3 * (64 + 16) * KIB);
    cluster_free(c);
    c = accepted("protocol: genuine\n" HOSTS
                 "groups:\n- {name: g1, replicas: [h1, h2, h3]}\n- {name: g2, replicas: [h1]}\n");
    /* 9 and 1 logs; 6 rings for snapshots; 3 rings each way. */
    assert_int_equal(cluster_memory(c), (10 * 256 + 6 * 64 + 2 * 3 * 64) * KIB);
    cluster_free(c);
}

static void value__sums_are_shown_to_a_tenth(void **state)
{
    (void)state;
    assert_string_equal(value_size_about(0).s, "0.0 KiB");
    assert_string_equal(value_size_about(1536).s, "1.5 KiB");
    assert_string_equal(value_size_about((1 << 20) - 1).s, "1.0 MiB");
    assert_string_equal(value_size_about(UINT64_C(3264) << 20).s, "3.2 GiB");
    assert_string_equal(value_size_about(UINT64_MAX).s, "16777216.0 TiB");
}

/* ---- files ---- */

static void load_refused(const char *path, int code, const char *word)
{
    struct cluster *c = NULL;
    struct err e = {0};

    assert_int_equal(cluster_load(path, &c, &e), code);
    assert_null(c);
    if (strstr(e.text, word) == NULL)
        fail_msg("no '%s' in: %s", word, e.text);
}

static void cluster__load_says_what_is_wrong_with_the_file(void **state)
{
    (void)state;
    char dir[] = "/tmp/tram-conf-XXXXXX", path[64], long_path[300];

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/c.yaml", dir);
    load_refused(path, ERR_NOTFOUND, "/c.yaml: there is no such file; `tram init` writes one");
    load_refused(dir, ERR_INVALID, ": is a directory; name the cluster file in it");
    snprintf(long_path, sizeof long_path, "%0250d/c.yaml", 0);
    load_refused(long_path, ERR_NOTFOUND, "000/c.yaml: there is no such file");

    FILE *f = fopen(path, "w");
    fputs(HOSTS GROUPS, f);
    fclose(f);
    struct cluster *c = NULL;
    struct err e = {0};
    assert_int_equal(cluster_load(path, &c, &e), 0);
    assert_string_equal(c->name, "c");
    cluster_free(c);
    if (geteuid() != 0) { /* root may read everything */
        chmod(path, 0);
        load_refused(path, ERR_SYSTEM, "cannot be opened: Permission denied");
        chmod(path, 0600);
    }
    assert_int_equal(truncate(path, CLUSTER_FILE_BYTES_MAX + 1), 0);
    load_refused(path, ERR_TOOBIG, "larger than 4 MiB");
    load_refused("/dev/zero", ERR_TOOBIG, "larger than 4 MiB"); /* does not read for ever */
    load_refused("/dev/null", ERR_INVALID, "/dev/null:1: the file is empty");
    unlink(path);
    rmdir(dir);
}

/* ---- making one ---- */

static void cluster__make_spreads_the_leaders(void **state)
{
    (void)state;
    struct cluster_plan plan = {.groups = 5, .replicas = 3, .hosts = 4};
    struct cluster *c = NULL;

    assert_int_equal(cluster_make(&plan, &c, NULL), 0);
    for (uint32_t g = 0; g < 5; g++) {
        assert_int_equal(c->group[g].parent, g == 0 ? CLUSTER_NONE : 0);
        for (uint32_t r = 0; r < 3; r++)
            assert_int_equal(c->group[g].replica[r], (g + r) % 4);
    }
    assert_true(c->host[3].port == 7104);
    has_defaults(c);
    writes_back_equal(c);
    cluster_free(c);
}

static void cluster__make_refuses_what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        struct cluster_plan plan;
        const char *word;
    } cases[] = {
        {{.groups = 0, .replicas = 1, .hosts = 1}, "0 groups; a cluster has 1 to 1024"},
        {{.groups = 1025, .replicas = 1, .hosts = 1}, "1025 groups"},
        {{.groups = 1, .replicas = 10, .hosts = 10}, "10 replicas; a group has 1 to 9"},
        {{.groups = 1, .replicas = 3, .hosts = 129}, "129 hosts; a cluster has 1 to 128"},
        {{.groups = 1, .replicas = 3, .hosts = 2}, "3 replicas on 2 hosts; each"},
        {{.groups = 1, .replicas = 1, .hosts = 2, .name = "a b"}, "'a b' is no name"},
        {{.groups = 1, .replicas = 1, .hosts = 2, .port = 65535}, "port 65535"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cluster *c = NULL;
        struct err e = {0};
        assert_int_equal(cluster_make(&cases[i].plan, &c, &e), ERR_INVALID);
        if (strstr(e.text, cases[i].word) == NULL)
            fail_msg("no '%s' in: %s", cases[i].word, e.text);
    }
}

/* Whatever else such a file has, it is told that no cluster can have it yet. */
static void cluster__refuses_replicas_that_lie(void **state)
{
    (void)state;
    cluster_free(accepted("fault_model: crash\n" HOSTS GROUPS));
    refused("fault_model: byzantine\n" HOSTS GROUPS, 1, "fault_model: byzantine is not there yet",
            "leave the line out", NULL);
    refused("fast_path: off\nfault_model: byzantine\nhosts: [{name: h1, uid: 61001}]\n", 2,
            "is not there yet", NULL);
    refused("fault_model: liars\n" HOSTS GROUPS, 1, "fault_model", "crash", "byzantine", NULL);
}

/* ---- memories ---- */

#define MEMORY_HOSTS HOSTS "  - {name: m1, role: memory}\n  - {name: m2, role: memory}\n"

static void cluster__reads_memories(void **state)
{
    (void)state;
    struct cluster *c = accepted(
        MEMORY_HOSTS "groups:\n"
                     "  - {name: g1, replicas: [h1, h2], memories: [m1], votes: all}\n"
                     "  - {name: g2, parent: g1, replicas: [h2, h3], memories: [m1, m2]}\n");

    assert_true(c->host[3].memory && !c->host[2].memory);
    assert_true(c->group[0].memories == 1 && c->group[0].memory[0] == 3 && c->group[0].all_vote);
    assert_true(c->group[1].memories == 2 && c->group[1].memory[1] == 4 && !c->group[1].all_vote);
    /* On shared memory nothing is gained, and of two who vote neither may fail. */
    assert_int_equal(c->warnings, 3);
    assert_non_null(strstr(c->warning[0], "x.yaml:8: warning: group 'g1' has memories under"));
    assert_non_null(strstr(c->warning[1], "x.yaml:9: warning: in group 'g2' 2 vote"));
    struct cluster *again = NULL;
    struct err e = {0};
    char text[16384] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    assert_int_equal(cluster_write(f, c, &e), 0);
    fclose(f);
    assert_int_equal(cluster_parse(text, strlen(text), "x.yaml", &again, &e), 0);
    assert_true(cluster_equal(c, again));
    cluster_free(again);
    cluster_free(c);
}

#define OF(keys) MEMORY_HOSTS "groups:\n  - {name: g1, " keys "}\n"

static void cluster__refuses_memories_that_cannot_be(void **state)
{
    (void)state;
    refused(OF("replicas: [h1, m1]"), 8, "has a replica on 'm1', which has role: memory (line 5)",
            NULL);
    refused(OF("replicas: [h1, h2], memories: [h2]"), 8, "has a replica on host 'h2' and names it",
            "one or the other", NULL);
    refused(OF("replicas: [h1], memories: [h2]"), 8, "no role: memory (line 3)", NULL);
    refused(OF("replicas: [h1], memories: [m3]"), 8, "memory on 'm3', which is no host", NULL);
    refused(OF("replicas: [h1], memories: [m1, m1]"), 8, "names memory 'm1' twice", NULL);
    refused(OF("replicas: [h1], memories: []"), 8, "not an empty one", NULL);
    refused(OF("replicas: [h1], votes: all"), 8, "votes is for groups with memories", NULL);
    refused(OF("replicas: [h1], memories: [m1], votes: h1"), 8, "votes", "memories, all", NULL);
    refused("hosts:\n  - {name: h1, role: boss}\n" GROUPS, 2, "role", "host, memory", NULL);
    refused("protocol: group\nhosts:\n  - {name: h1, role: memory}\n", 3, "every host is a member",
            NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster__reads_the_file_of_the_design),
        cmocka_unit_test(cluster__has_defaults),
        cmocka_unit_test(cluster__memory_counts_the_rings),
        cmocka_unit_test(value__sums_are_shown_to_a_tenth),
        cmocka_unit_test(cluster__example_shows_the_defaults),
        cmocka_unit_test(cluster__sizes_have_suffixes),
        cmocka_unit_test(cluster__name_comes_from_the_key_or_the_file),
        cmocka_unit_test(cluster__shm_needs_no_address),
        cmocka_unit_test(cluster__takes_names_and_ipv6_as_addresses),
        cmocka_unit_test(cluster__a_key_is_found_from_the_file),
        cmocka_unit_test(cluster__parent_may_stand_below_its_child),
        cmocka_unit_test(cluster__groups_may_stand_above_hosts),
        cmocka_unit_test(cluster__genuine_may_have_a_tree_or_none),
        cmocka_unit_test(cluster__written_file_loads_back_equal),
        cmocka_unit_test(cluster__equal_sees_every_difference),
        cmocka_unit_test(cluster__largest_loads_within_a_second),
        cmocka_unit_test(cluster__warns_of_an_even_group),
        cmocka_unit_test(cluster__warns_of_an_idle_host),
        cmocka_unit_test(cluster__counts_warnings_beyond_its_list),
        cmocka_unit_test(cluster__load_says_what_is_wrong_with_the_file),
        cmocka_unit_test(cluster__refuses_replicas_that_lie),
        cmocka_unit_test(cluster__reads_memories),
        cmocka_unit_test(cluster__refuses_memories_that_cannot_be),
        cmocka_unit_test(cluster__make_spreads_the_leaders),
        cmocka_unit_test(cluster__make_refuses_what_cannot_be),
    };

    return run_with_skips(tests);
}
