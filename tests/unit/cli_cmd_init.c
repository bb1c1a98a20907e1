#include "../cli_fixture.h"
#include "cli/cmd.h"
#include "cli/conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

/* Every test has an empty folder of its own, and is in it. */
static int enter(void **state)
{
    static char dir[32];

    snprintf(dir, sizeof dir, "/tmp/tram-init-XXXXXX");
    *state = mkdtemp(dir);
    return *state == NULL || chdir(dir) != 0;
}

static int leave(void **state)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf '%s'", (const char *)*state);
    return chdir("/") != 0 || system(command) != 0;
}

/* `tram` and these words: the code, and a word of what it says. */
static void command(const char *words, int code, const char *says)
{
    int got = cli_run(cmd_init, words);
    if (got != code || strstr(output, says) == NULL)
        fail_msg("tram %s: code %d, wanted %d and '%s', says: %s", words, got, code, says, output);
}

static struct cluster *load(const char *path)
{
    struct cluster *c = NULL;
    struct err e = {0};

    if (cluster_load(path, &c, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

static void cmd_init__writes_eight_groups_by_default(void **state)
{
    (void)state;
    command("init", CMD_DONE, "wrote cluster.yaml: cluster 'cluster', 8 groups of 3 replicas on 3");
    struct cluster *c = load("cluster.yaml");
    assert_true(c->groups == 8 && c->hosts == 3 && c->transport == CLUSTER_SHM);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(c->group[i].parent, i == 0 ? CLUSTER_NONE : 0);
        assert_int_equal(c->group[i].replicas, 3);
        assert_int_equal(c->group[i].replica[0], i % 3);
    }
    cluster_free(c);
}

/* TRAM sec. 8.1, figure 4: parents -,1,2,2,3,3,4,4, and on in the same way. */
static void cmd_init__knows_the_three_trees(void **state)
{
    (void)state;
    static const int base[] = {0, 1, 2, 2, 3, 3, 4, 4, 5, 5};

    command("init a.yaml --tree base --groups 10", CMD_DONE, "tree 'base'");
    struct cluster *c = load("a.yaml");
    for (int i = 0; i < 10; i++)
        assert_int_equal(c->group[i].parent, base[i] - 1);
    cluster_free(c);
    command("init --force a.yaml --tree depth --groups 10", CMD_DONE, "tree 'depth'");
    c = load("a.yaml");
    for (int i = 0; i < 10; i++)
        assert_int_equal(c->group[i].parent, i - 1);
    cluster_free(c);
}

static void cmd_init__takes_all_options(void **state)
{
    (void)state;
    command("init --groups 1 --replicas 5 --hosts 7 --transport tcp --protocol genuine --name z.1"
            " a.yaml",
            CMD_DONE, "cluster 'z.1', 1 group of 5 replicas on 7 hosts");
    struct cluster *c = load("a.yaml");
    assert_true(c->groups == 1 && c->hosts == 7 && c->group[0].replicas == 5);
    assert_true(c->transport == CLUSTER_TCP && c->protocol == CLUSTER_GENUINE);
    cluster_free(c);
}

static void cmd_init__makes_one_key_for_verbs(void **state)
{
    (void)state;
    command("init --transport verbs a.yaml", CMD_DONE, "made the cluster's key, a.key: every");
    struct cluster *c = load("a.yaml");
    assert_string_equal(c->key, "a.key");
    assert_true(c->host[0].keys.count == 0 && c->client_keys == 0);
    cluster_free(c);
    assert_int_equal(access("a.keys", F_OK), -1);
    command("init --transport verbs --force a.yaml", CMD_DONE, "kept the cluster's key, a.key");
}

static void cmd_init__makes_a_key_for_each_over_tcp(void **state)
{
    (void)state;
    struct stat st;

    command("init --transport tcp --hosts 4 a.yaml", CMD_DONE,
            "made the secret keys of 4 hosts and of client 'client' in a.keys: a machine needs"
            " a.yaml and only the keys of what runs there, like a.keys/h1.key for host h1");
    struct cluster *c = load("a.yaml");
    assert_true(c->key[0] == '\0' && c->warnings == 0 && c->client_keys == 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(c->host[i].keys.count, 1);
    assert_int_equal(stat("a.keys", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat("a.keys/h4.key", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    /* Other machines may have them. */
    command("init --transport tcp --hosts 4 --force a.yaml", CMD_DONE, "kept the secret keys");
    struct cluster *again = load("a.yaml");
    assert_true(cluster_equal(c, again));
    cluster_free(c);
    cluster_free(again);
    command("init --transport tcp --hosts 5 a.yaml", CMD_FAILED, "a.yaml exists");
    assert_int_equal(access("a.keys/h5.key", F_OK), -1);
    command("init - --transport tcp", CMD_DONE, "`tram key new FILE --all` makes them");
}

static void cmd_init__takes_as_many_hosts_as_replicas(void **state)
{
    (void)state;
    command("init --replicas 9", CMD_DONE, "9 replicas on 9 hosts");
    command("init --replicas 2 a.yaml", CMD_DONE, "a.yaml:");
    assert_non_null(strstr(output, "warning: group 'g1' has 2 replicas"));
}

/* Rings are there from the start, so a thousand groups of the default sizes take 3 GiB. */
static void cmd_init__writes_smaller_sizes_for_many_groups(void **state)
{
    (void)state;
    command("init --groups 256", CMD_DONE, "MiB of memory, for messages of up to 16 KiB");
    command("init a.yaml --groups 1024", CMD_DONE, "MiB of memory, for messages of up to 4 KiB");
    struct cluster *c = load("a.yaml");
    assert_true(cluster_memory(c) < 1 << 30);
    assert_int_equal(c->payload_max, 4 << 10);
    assert_int_equal(c->log_bytes, 64 << 10);
    assert_int_equal(c->edge_bytes, 16 << 10);
    cluster_free(c);
    command("init a.yaml --groups 1024 --replicas 9 --force", CMD_DONE, "of up to 1 KiB");
}

static void cmd_init__does_not_overwrite(void **state)
{
    (void)state;
    command("init a.yaml --groups 2", CMD_DONE, "wrote");
    command("init a.yaml --groups 3", CMD_FAILED, "a.yaml exists; name another file");
    struct cluster *c = load("a.yaml");
    assert_int_equal(c->groups, 2);
    cluster_free(c);
    command("init a.yaml --groups 3 --force", CMD_DONE, "wrote");
    c = load("a.yaml");
    assert_int_equal(c->groups, 3);
    cluster_free(c);
}

static void cmd_init__writes_to_standard_output(void **state)
{
    (void)state;
    command("init - --groups 2", CMD_DONE, "- {name: g2, parent: g1, replicas: [h2, h3, h1]}\n");
    assert_non_null(strstr(output, "name: cluster "));
    assert_int_equal(access("-", F_OK), -1);
}

static void cmd_init__refuses_what_does_not_exist(void **state)
{
    (void)state;
    command("init --help", CMD_DONE, "usage: tram init [FILE]");
    command("init --grups 3", CMD_USAGE, "no option '--grups'; did you mean --groups? There are");
    command("init --groups 1025", CMD_USAGE, "from 1 to 1024, not '1025'");
    command("init --groups", CMD_USAGE, "--groups needs a whole number");
    command("init --replicas 10", CMD_USAGE, "from 1 to 9");
    command("init --replicas 3 --hosts 2", CMD_USAGE, "3 replicas on 2 hosts");
    command("init --tree oak", CMD_USAGE, "the trees are: base, breadth, depth, not 'oak'");
    command("init --tree", CMD_USAGE, "--tree");
    command("init --transport ip", CMD_USAGE, "shm, tcp, verbs");
    command("init --protocol", CMD_USAGE, "tree, genuine");
    command("init --name a/b", CMD_USAGE, "'a/b' is no name");
    command("init --name", CMD_USAGE, "needs a name");
    command("init a.yaml b.yaml", CMD_USAGE, "a second file");
    command("init no/such/dir.yaml", CMD_FAILED, "No such file");
    assert_int_equal(access("cluster.yaml", F_OK), -1);
}

static int check_only(int argc, char **argv)
{
    assert_int_equal(argc, 1);
    return conf_check_only(argv[0]);
}

static void conf__check_only_tells_what_the_file_has(void **state)
{
    (void)state;
    char right[] = "cluster.yaml", wrong[] = "a.yaml", missing[] = "b.yaml";

    command("init", CMD_DONE, "wrote");
    assert_int_equal(cli_run(check_only, right), CMD_DONE);
    assert_string_equal(output, "cluster.yaml: correct; cluster 'cluster': 8 groups with 24"
                                " replicas on 3 hosts, transport shm, protocol tree; it takes 24.9"
                                " MiB of memory, and each client up to 1.9 MiB\n");
    FILE *f = fopen("a.yaml", "w");
    fputs("transport: shm\nhost: []\n", f);
    fclose(f);
    assert_int_equal(cli_run(check_only, wrong), CMD_FAILED);
    assert_string_equal(output, "a.yaml:2: the file has no key 'host'; did you mean hosts? "
                                "tram-cluster(5) has them all\n");
    assert_int_equal(cli_run(check_only, missing), CMD_USAGE);
}

static void conf__counts_the_warnings_it_does_not_print(void **state)
{
    (void)state;
    command("init --replicas 4 --groups 40", CMD_DONE, "and 24 more warnings");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cmd_init__writes_eight_groups_by_default, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__knows_the_three_trees, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__takes_all_options, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__makes_one_key_for_verbs, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__makes_a_key_for_each_over_tcp, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__takes_as_many_hosts_as_replicas, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__writes_smaller_sizes_for_many_groups, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(cmd_init__does_not_overwrite, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__writes_to_standard_output, enter, leave),
        cmocka_unit_test_setup_teardown(cmd_init__refuses_what_does_not_exist, enter, leave),
        cmocka_unit_test_setup_teardown(conf__check_only_tells_what_the_file_has, enter, leave),
        cmocka_unit_test_setup_teardown(conf__counts_the_warnings_it_does_not_print, enter, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
