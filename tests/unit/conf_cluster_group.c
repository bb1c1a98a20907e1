#include "../conf_fixture.h"
#include "../skip.h"

#include <unistd.h>

#define GROUP "protocol: group\n"
#define SUBS "subgroups: [{name: s1}]\n"

/* ---- what is right ---- */

#define CLUSTER_ID "id: 0123456789abcdef0123456789abcdef\n"

static void group__what_is_kept_needs_an_id_and_a_majority(void **state)
{
    (void)state;
    refused(GROUP HOSTS "subgroups: [{name: a, mode: logged}]", 6, "'a' has mode: logged",
            "add `id:`", NULL);
    refused(GROUP CLUSTER_ID "view_majority: false\n" HOSTS "subgroups: [{name: a, mode: durable}]",
            3, "view_majority: false", "'a' has mode: durable", NULL);
    refused(GROUP CLUSTER_ID HOSTS "subgroups: [{name: a, mode: logged, sign: true}]", 7,
            "transport: tcp", "leave it out", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, sign: true}]", 6, "mode: memory", "mode: logged",
            NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, mode: raw, retain: 1 GiB}]", 6, "mode: raw",
            "mode: logged", NULL);
    refused(GROUP CLUSTER_ID HOSTS "subgroups: [{name: a, mode: logged, retain: 100k}]", 7,
            "16 MiB", "1 GiB", NULL);
    refused(GROUP CLUSTER_ID HOSTS SUBS, 2, "id is for what is kept", NULL);
    refused(GROUP "data_dir: x\n" HOSTS SUBS, 2, "data_dir is for what is kept", NULL);
    struct cluster *c = accepted(
        GROUP CLUSTER_ID "data_dir: x\n" HOSTS "subgroups: [{name: a}, {name: b, mode: durable}]");
    assert_true(cluster_keeps(c) && c->view_majority && !c->durable);
    assert_string_equal(c->data_dir, "x");
    cluster_free(c);
}

static void group__has_defaults(void **state)
{
    (void)state;
    struct cluster *c = accepted(GROUP HOSTS SUBS);
    const struct cluster_subgroup *s = &c->subgroup[0];

    assert_true(c->protocol == CLUSTER_GROUP && c->groups == 0 && c->subgroups == 1);
    assert_string_equal(s->name, "s1");
    assert_true(s->mode == CLUSTER_MODE_MEMORY && s->shards == 1 && !s->overlap);
    assert_true(s->members_min == 1 && s->members_max == 0);
    assert_true(s->hosts == 7 && s->senders == CLUSTER_ALL);
    assert_true(s->ring_bytes == 1 << 20 && s->message_max == 1 << 17);
    assert_true(c->keepers == 3 && c->keeper[0] == 0 && c->keeper[1] == 1 && c->keeper[2] == 2);
    assert_true(!c->view_majority && c->start_ms == 200 && c->warnings == 0);
    writes_back_equal(c);
    cluster_free(c);
}

static void group__takes_every_key(void **state)
{
    (void)state;
    struct cluster *c = accepted(
        GROUP "view_majority: true\nstart_ms: 0\nkeepers: [h3]\n" HOSTS "subgroups:\n"
              "  - {name: a, shards: 3, mode: raw, overlap: true, members_min: 2, members_max: 3}\n"
              "  - {name: b, hosts: [h3, h1], senders: [h1], ring_bytes: 64k, message_max: 100}\n");
    const struct cluster_subgroup *a = &c->subgroup[0], *b = &c->subgroup[1];

    assert_true(c->view_majority && c->start_ms == 0 && c->keepers == 1 && c->keeper[0] == 2);
    assert_true(a->shards == 3 && a->mode == CLUSTER_MODE_RAW && a->overlap);
    assert_true(a->members_min == 2 && a->members_max == 3);
    assert_true(b->hosts == 5 && b->senders == 1 && b->ring_bytes == 65536 &&
                b->message_max == 100);
    writes_back_equal(c);
    cluster_free(c);
}

/* TRAM_SOURCE is the folder of the sources. */
static void group__example_shows_the_defaults(void **state)
{
    (void)state;
    const char *source = getenv("TRAM_SOURCE");
    struct cluster *c = NULL, *plain = accepted(GROUP HOSTS SUBS);
    struct err e = {0};
    char path[4096];

    if (source == NULL)
        SKIP("TRAM_SOURCE does not say where the sources are");
    snprintf(path, sizeof path, "%s/docs/group.example.yaml", source);
    if (cluster_load(path, &c, &e) < 0)
        fail_msg("%s", e.text);
    assert_true(c->hosts == 5 && c->subgroups == 6 && c->warnings == 0);
    assert_true(c->start_ms == plain->start_ms && c->view_majority == plain->view_majority);
    assert_true(c->heartbeat_ms == plain->heartbeat_ms && c->suspect_ms == plain->suspect_ms);
    assert_true(c->detach_ms == plain->detach_ms && c->snap_bytes == plain->snap_bytes);
    assert_true(c->keepers == plain->keepers && c->keeper[2] == plain->keeper[2]);
    assert_true(c->subgroup[1].ring_bytes == plain->subgroup[0].ring_bytes);
    assert_true(c->subgroup[1].message_max == plain->subgroup[0].message_max);
    writes_back_equal(c);
    cluster_free(c);
    cluster_free(plain);
}

/* A topic is a subgroup of one shard by another name. */
static void group__topics_are_subgroups(void **state)
{
    (void)state;
    struct cluster *c = accepted(GROUP HOSTS "topics:\n"
                                             "  - {name: a, qos: unordered, senders: [h1]}\n"
                                             "  - {name: b}\n"
                                             "  - {name: c, qos: volatile, history: 1m}\n"
                                             "subgroups: [{name: s}]\n");

    assert_int_equal(c->subgroups, 4);
    assert_string_equal(c->subgroup[0].name, "s");
    assert_true(c->subgroup[1].mode == CLUSTER_MODE_RAW && c->subgroup[1].senders == 1);
    assert_true(c->subgroup[2].mode == CLUSTER_MODE_MEMORY && c->subgroup[2].shards == 1);
    assert_true(c->subgroup[3].mode == CLUSTER_MODE_MEMORY && c->subgroup[3].history == 1 << 20);
    writes_back_equal(c);
    cluster_free(c);
    cluster_free(accepted(GROUP HOSTS "topics: [{name: a}]\n"));
    refused(GROUP HOSTS "topics: [{name: a, qos: volatile}]", 6, "history: 1 MiB", NULL);
    refused(GROUP HOSTS "topics: [{name: a, history: 1m}]", 6, "qos: volatile", "qos: atomic",
            NULL);
    refused(GROUP HOSTS "topics: [{name: a, qos: best}]", 6, "unordered", "volatile", NULL);
    refused(GROUP HOSTS "topics: [{name: a, shards: 2}]", 6, "shards", NULL);
    refused(GROUP HOSTS "topics: [a]", 6, "a topic must be written like", NULL);
    refused(GROUP HOSTS "topics: [{name: a}, {name: a}]", 6, "a second time", NULL);
}

static void group__cells_are_numbered_through(void **state)
{
    (void)state;
    struct cluster *c = accepted(GROUP HOSTS "subgroups: [{name: a, shards: 2}, {name: b}]\n");
    uint32_t shard = 9;

    assert_true(cluster_cells(c) == 3);
    assert_true(cluster_cell_subgroup(c, 0, &shard) == 0 && shard == 0);
    assert_true(cluster_cell_subgroup(c, 1, &shard) == 0 && shard == 1);
    assert_true(cluster_cell_subgroup(c, 2, &shard) == 1 && shard == 0);
    assert_string_equal(cluster_cell_name(c, 1).s, "a/1");
    assert_string_equal(cluster_cell_name(c, 2).s, "b");
    assert_true(cluster_cell(c, "a/1") == 1 && cluster_cell(c, "b") == 2);
    assert_true(cluster_cell(c, "a") == CLUSTER_NONE && cluster_cell(c, "b/0") == CLUSTER_NONE);
    assert_true(cluster_subgroup(c, "b") == 1 && cluster_subgroup(c, "c") == CLUSTER_NONE);
    cluster_free(c);
}

static void group__networks_want_a_majority(void **state)
{
    (void)state;
    struct cluster *c = accepted(GROUP "transport: tcp\n" TCP_HOSTS SUBS);

    assert_true(c->view_majority && c->warnings == 0);
    writes_back_equal(c);
    cluster_free(c);
    c = accepted(GROUP "transport: tcp\nview_majority: false\n" TCP_HOSTS SUBS);
    assert_true(!c->view_majority);
    writes_back_equal(c);
    cluster_free(c);
}

/* `hosts` of them, from h0 on. */
static char *many(uint32_t hosts, const char *rest)
{
    size_t room = 64 * (size_t)hosts + strlen(rest) + 128, used;
    char *text = malloc(room);

    assert_non_null(text);
    used = (size_t)snprintf(text, room, GROUP "hosts:\n");
    for (uint32_t i = 0; i < hosts; i++)
        used += (size_t)snprintf(text + used, room - used, "  - {name: h%u}\n", i);
    snprintf(text + used, room - used, "%s", rest);
    return text;
}

static void group__keepers_follow_the_number_of_hosts(void **state)
{
    (void)state;
    static const uint32_t hosts[] = {1, 2, 3, 8, 9, 64}, keepers[] = {1, 1, 3, 3, 5, 5};

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char *text = many(hosts[i], SUBS);
        struct cluster *c = accepted(text);

        assert_true(c->keepers == keepers[i]);
        writes_back_equal(c);
        cluster_free(c);
        free(text);
    }
}

static void group__memory_counts_the_rings(void **state)
{
    (void)state;
    struct cluster *c = accepted(
        GROUP HOSTS "subgroups: [{name: a, shards: 2, ring_bytes: 4k}, {name: b, senders: [h1]}]");

    uint64_t rings = 3 * (2 * 4096 + (1 << 20)), log = (9 + 6) * (64 << 10);
    uint64_t asks = 3 * 2 * 2 * (64 << 10); /* from each to each, questions and answers */

    assert_true(cluster_memory(c) == 2 * rings + log + asks + 3 * (64 << 10));
    c->transport = CLUSTER_TCP;
    assert_true(cluster_memory(c) == 3 * rings + log + 2 * asks + 9 * (64 << 10));
    cluster_free(c);
}

/* Changes one thing, and sees whether facts and equality tell. */
static void differs(const char *a, const char *b, bool facts)
{
    struct cluster *x = accepted(a), *y = accepted(b);
    struct cluster_fact fx[CLUSTER_FACTS_MAX], fy[CLUSTER_FACTS_MAX];
    uint32_t nx = cluster_facts(x, fx), ny = cluster_facts(y, fy);

    assert_false(cluster_equal(x, y));
    assert_true(nx <= CLUSTER_FACTS_MAX && ny <= CLUSTER_FACTS_MAX);
    assert_true((nx != ny || memcmp(fx, fy, nx * sizeof fx[0]) != 0) == facts);
    cluster_free(x);
    cluster_free(y);
}

static void group__equal_and_facts_see_every_difference(void **state)
{
    (void)state;
    static const char base[] = GROUP HOSTS SUBS;
    static const char *const others[] = {
        "subgroups: [{name: s2}]",
        "subgroups: [{name: s1, shards: 2}]",
        "subgroups: [{name: s1, mode: raw}]",
        "subgroups: [{name: s1, members_min: 2}]",
        "subgroups: [{name: s1, members_max: 2}]",
        "subgroups: [{name: s1, hosts: [h1, h2]}]",
        "subgroups: [{name: s1, senders: [h1, h2]}]",
        "subgroups: [{name: s1, overlap: true}]",
        "subgroups: [{name: s1, ring_bytes: 2 MiB, message_max: 128 KiB}]",
        "subgroups: [{name: s1, message_max: 1}]",
        "subgroups: [{name: s1}, {name: s2}]",
        "keepers: [h1]\n" SUBS,
        "keepers: [h2, h1, h3]\n" SUBS,
        "view_majority: true\n" SUBS,
        "snap_bytes: 4k\n" SUBS,
    };
    char text[1024];

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        snprintf(text, sizeof text, GROUP HOSTS "%s", others[i]);
        differs(base, text, true);
    }
    differs(base, GROUP "start_ms: 1\n" HOSTS SUBS, false); /* the leader's alone */
}

static void group__make_gives_what_loads_back(void **state)
{
    (void)state;
    struct cluster_plan p = {
        .protocol = CLUSTER_GROUP, .hosts = 5, .subgroups = 3, .shards = 2, .groups = 8};
    struct cluster *c = NULL;
    struct err e = {0};

    assert_int_equal(cluster_make(&p, &c, &e), 0);
    assert_true(c->groups == 0 && c->subgroups == 3 && cluster_cells(c) == 6 && c->keepers == 3);
    writes_back_equal(c);
    cluster_free(c);
    p.shards = 6;
    assert_int_equal(cluster_make(&p, &c, &e), ERR_INVALID);
    p.shards = 5;
    p.subgroups = 52;
    assert_int_equal(cluster_make(&p, &c, &e), ERR_INVALID);
    p.subgroups = 1;
    p.hosts = 65;
    assert_int_equal(cluster_make(&p, &c, &e), ERR_INVALID);
    p.hosts = 5;
    p.id = (const unsigned char *)"0123456789abcdef";
    assert_int_equal(cluster_make(&p, &c, &e), ERR_INVALID);
}

/* ---- what is wrong ---- */

static void group__refuses_what_belongs_to_other_protocols(void **state)
{
    (void)state;
    refused(GROUP HOSTS GROUPS, 7, "groups", "subgroups", NULL);
    refused(GROUP "payload_max: 1k\n" HOSTS SUBS, 2, "payload_max", "message_max", NULL);
    refused(GROUP "reply_max: 32\n" HOSTS SUBS, 2, "reply_max", NULL);
    refused(GROUP "durable: true\nid: 0123456789abcdef0123456789abcdef\n" HOSTS SUBS, 2, "durable",
            NULL);
    refused(SUBS HOSTS GROUPS, 1, "subgroups", "protocol: group", NULL);
    refused("keepers: [h1]\n" HOSTS GROUPS, 1, "keepers", "protocol: group", NULL);
    refused("view_majority: true\n" HOSTS GROUPS, 1, "view_majority", NULL);
    refused("start_ms: 1\n" HOSTS GROUPS, 1, "start_ms", NULL);
    refused("block_bytes: 64k\n" HOSTS GROUPS, 1, "block_bytes", NULL);
    refused("hosts:\n  - {name: h1, rack: 1}\n" GROUPS, 2, "rack", "protocol: group", NULL);
}

static void group__refuses_wrong_subgroups(void **state)
{
    (void)state;
    refused(GROUP HOSTS, 1, "subgroups", "{name: s1", NULL);
    refused(GROUP HOSTS "subgroups: []", 6, "empty", NULL);
    refused(GROUP HOSTS "subgroups: [s1]", 6, "written like", NULL);
    refused(GROUP HOSTS "subgroups: [{shards: 2}]", 6, "without a name", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a b}]", 6, "no name", NULL);
    refused(GROUP HOSTS "subgroups:\n- {name: a}\n- {name: a}\n", 8, "second time", "line 7", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, shard: 2}]", 6, "did you mean shards", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, shards: 0}]", 6, "shards", "1 to 256", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, mode: kept}]", 6, "memory, raw, logged, durable",
            NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, overlap: 1}]", 6, "overlap", "true", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, members_min: 0}]", 6, "members_min", NULL);
}

static void group__refuses_members_that_cannot_be(void **state)
{
    (void)state;
    refused(GROUP HOSTS "subgroups: [{name: a, members_min: 2, members_max: 1}]", 6, "members_max",
            "2 or more", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, members_min: 4}]", 6, "needs 4 hosts", "has 3",
            NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, shards: 2, members_min: 2}]", 6, "needs 4 hosts",
            "overlap", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, shards: 4}]", 6, "needs 4 hosts", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, hosts: []}]", 6, "list of hosts", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, hosts: h1}]", 6, "list of hosts", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, hosts: [h1, h9]}]", 6, "h9", "no host", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, hosts: [h1, h1]}]", 6, "twice", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, senders: some}]", 6, "`all`", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, senders: [h7]}]", 6, "no host", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, hosts: [h1], senders: [h2]}]", 6, "h2", "hosts",
            NULL);
}

static void group__refuses_wrong_rings(void **state)
{
    (void)state;
    refused(GROUP HOSTS "subgroups: [{name: a, ring_bytes: 2k}]", 6, "ring_bytes", "4 KiB", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, ring_bytes: 100k}]", 6, "power of two", "64 KiB",
            "128 KiB", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, message_max: 256k}]", 6, "an eighth", "128 KiB",
            "2 MiB", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, message_max: 0}]", 6, "message_max", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, history: 100k, message_max: 1k}]", 6, "power of two",
            "64 KiB", "128 KiB", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, history: 128k}]", 6, "4 messages", "512 KiB",
            "32 KiB", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, history: 1m, mode: raw}]", 6, "mode: memory", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, history: 128m}]", 6, "history", "64 MiB", NULL);
}

static void group__takes_large_messages(void **state)
{
    (void)state;
    struct cluster *c =
        accepted(GROUP "block_bytes: 64k\n"
                       "hosts:\n  - {name: h1}\n"
                       "  - {name: h2, rack: 7}\n"
                       "subgroups:\n  - {name: a}\n"
                       "  - {name: b, large_max: 64 MiB, large_window: 2, rdmc: racks}\n");
    const struct cluster_subgroup *a = &c->subgroup[0], *b = &c->subgroup[1];

    assert_true(c->block_bytes == 65536 && c->host[0].rack == 0 && c->host[1].rack == 7);
    assert_true(a->large_max == 0 && a->rdmc == CLUSTER_RDMC_AUTO);
    assert_true(b->large_max == 64 << 20 && b->large_window == 2 && b->rdmc == CLUSTER_RDMC_RACKS);
    writes_back_equal(c);
    cluster_free(c);
}

static void group__refuses_wrong_large_messages(void **state)
{
    (void)state;
    refused(GROUP HOSTS "subgroups: [{name: a, large_max: 128k}]", 6, "message_max", "larger",
            NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, large_max: 1024 MiB}]", 6, "2 GiB", "512 MiB", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, large_max: 1m, message_max: 16}]", 6, "24", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, large_window: 2}]", 6, "add large_max", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, rdmc: tree}]", 6, "add large_max", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, large_max: 1m, large_window: 17}]", 6, "16", NULL);
    refused(GROUP HOSTS "subgroups: [{name: a, large_max: 1m, rdmc: star}]", 6, "pipeline", NULL);
    refused(GROUP "block_bytes: 4k\n" HOSTS "subgroups: [{name: a, large_max: 64m}]", 7,
            "4096 blocks", NULL);
    refused(GROUP "block_bytes: 100k\n" HOSTS SUBS, 2, "power of two", "64 KiB", NULL);
    refused(GROUP "hosts: [{name: h1, rack: 256}]\n" SUBS, 2, "rack", "255", NULL);
}

/* Topics that are made on use, as a topic and as a subgroup. */
static void group__takes_slots(void **state)
{
    (void)state;
    struct cluster *c =
        accepted(GROUP HOSTS "subgroups: [{name: a, shards: 3, slots: true}, {name: c}]\n"
                             "topics: [{name: b, slots: 2, qos: unordered}, {name: d}]\n");
    const struct cluster_subgroup *a = &c->subgroup[0], *b = &c->subgroup[2];

    assert_true(a->slots && a->overlap && a->shards == 3 && a->mode == CLUSTER_MODE_MEMORY);
    assert_true(b->slots && b->overlap && b->shards == 2 && b->mode == CLUSTER_MODE_RAW);
    assert_false(c->subgroup[1].slots || c->subgroup[3].slots || c->subgroup[3].overlap);
    writes_back_equal(c);
    struct cluster *without =
        accepted(GROUP HOSTS "subgroups: [{name: a, shards: 3, overlap: true}, {name: c}]\n"
                             "topics: [{name: b, slots: 2, qos: unordered}, {name: d}]\n");
    assert_false(cluster_equal(c, without));
    cluster_free(without);
    cluster_free(c);
    refused(GROUP HOSTS "topics: [{name: b, slots: 0}]", 6, "slots", NULL);
    refused(GROUP HOSTS "subgroups: [{name: b, slots: true, members_max: 1}]", 6, "members_max",
            NULL);
    refused(GROUP HOSTS "subgroups: [{name: b, slots: true, overlap: false}]", 6, "overlap", NULL);
}

static void group__refuses_wrong_keepers(void **state)
{
    (void)state;
    refused(GROUP "keepers: [h1, h2]\n" HOSTS SUBS, 2, "odd", "1 or 3", NULL);
    refused(GROUP "keepers: [h1, h4, h2]\n" HOSTS SUBS, 2, "h4", "no host", NULL);
    refused(GROUP "keepers: [h1, h1, h2]\n" HOSTS SUBS, 2, "twice", NULL);
    refused(GROUP "keepers: []\n" HOSTS SUBS, 2, "list of hosts", NULL);
    refused(GROUP "start_ms: -1\n" HOSTS SUBS, 2, "start_ms", NULL);
    refused(GROUP "view_majority: yes\n" HOSTS SUBS, 2, "view_majority", NULL);
}

static void group__refuses_too_many(void **state)
{
    (void)state;
    char *text = many(65, SUBS);

    refused(text, 67, "too many hosts", "64", NULL);
    free(text);
    text = many(64, "subgroups:\n- {name: a, shards: 64}\n- {name: b, shards: 64}\n"
                    "- {name: c, shards: 64}\n- {name: d, shards: 64}\n- {name: e}\n");
    refused(text, 72, "257", "256", NULL);
    free(text);
    text = many(10, "keepers: [h0, h1, h2, h3, h4, h5, h6, h7, h8, h9]\n" SUBS);
    refused(text, 13, "at most 9", NULL);
    free(text);
}

static void group__warns_of_an_idle_host(void **state)
{
    (void)state;
    struct cluster *c =
        accepted(GROUP "keepers: [h1]\n" HOSTS "subgroups: [{name: a, hosts: [h1, h2]}]");

    assert_true(c->warnings == 1);
    assert_non_null(strstr(c->warning[0], "host 'h3'"));
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group__what_is_kept_needs_an_id_and_a_majority),
        cmocka_unit_test(group__has_defaults),
        cmocka_unit_test(group__takes_every_key),
        cmocka_unit_test(group__example_shows_the_defaults),
        cmocka_unit_test(group__topics_are_subgroups),
        cmocka_unit_test(group__cells_are_numbered_through),
        cmocka_unit_test(group__networks_want_a_majority),
        cmocka_unit_test(group__keepers_follow_the_number_of_hosts),
        cmocka_unit_test(group__memory_counts_the_rings),
        cmocka_unit_test(group__equal_and_facts_see_every_difference),
        cmocka_unit_test(group__make_gives_what_loads_back),
        cmocka_unit_test(group__refuses_what_belongs_to_other_protocols),
        cmocka_unit_test(group__refuses_wrong_subgroups),
        cmocka_unit_test(group__refuses_members_that_cannot_be),
        cmocka_unit_test(group__refuses_wrong_rings),
        cmocka_unit_test(group__takes_large_messages),
        cmocka_unit_test(group__refuses_wrong_large_messages),
        cmocka_unit_test(group__takes_slots),
        cmocka_unit_test(group__refuses_wrong_keepers),
        cmocka_unit_test(group__refuses_too_many),
        cmocka_unit_test(group__warns_of_an_idle_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
