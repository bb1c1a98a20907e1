#include "../conf_fixture.h"
#include "cli/key_file.h"

#include <stdio.h>
#include <unistd.h>

#define TEXT                                                                                       \
    "transport: tcp\nhosts:\n- {name: h1, address: a:1}\ngroups: [{name: g1, replicas: [h1]}]\n"

/* Every test has a folder of its own with c.yaml in it, and is there. */
static char dir[32];

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static bool has_text(const char *path, const char *text)
{
    char got[1024];
    FILE *f = fopen(path, "r");
    size_t n = fread(got, 1, sizeof got - 1, f);

    fclose(f);
    got[n] = '\0';
    return strcmp(got, text) == 0;
}

static int enter(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tram-key-file-XXXXXX");
    if (mkdtemp(dir) == NULL || chdir(dir) != 0)
        return 1;
    write_text("c.yaml", TEXT);
    return 0;
}

static int leave(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return chdir("/") != 0 || system(command) != 0;
}

static void opened_and_changed(struct key_file *f)
{
    struct cluster_edit edit = {.name = "h1"};
    struct err e = {""};

    assert_int_equal(key_file_open(f, "c.yaml", &e), 0);
    assert_null(cluster_public_parse(KEY_1, edit.key));
    assert_int_equal(key_file_edit(f, &edit, &e), 0);
    assert_int_equal(f->c->host[0].keys.count, 1);
}

static void key_file__is_written_as_a_whole(void **state)
{
    struct key_file f;
    struct err e = {""};
    struct stat before, after;

    (void)state;
    chmod("c.yaml", 0604);
    stat("c.yaml", &before);
    opened_and_changed(&f);
    assert_true(has_text("c.yaml", TEXT)); /* not yet */
    assert_int_equal(key_file_save(&f, &e), 0);
    key_file_close(&f);
    stat("c.yaml", &after);
    assert_true(after.st_ino != before.st_ino && after.st_mode == before.st_mode);
    assert_false(has_text("c.yaml", TEXT));
    key_file_close(&f); /* once more does no harm */
}

/* What somebody else has written meanwhile, with an editor that knows no locks, is not lost. */
static void key_file__does_not_overwrite_others(void **state)
{
    struct key_file f;
    struct err e = {""};

    (void)state;
    opened_and_changed(&f);
    usleep(20000); /* so that its time is another one */
    write_text("c.yaml", "# mine\n");
    assert_int_equal(key_file_save(&f, &e), ERR_AGAIN);
    assert_non_null(strstr(e.text, "changed by somebody else"));
    key_file_close(&f);
    assert_true(has_text("c.yaml", "# mine\n"));
    write_text("c.yaml", TEXT);
    opened_and_changed(&f);
    write_text("d.yaml", TEXT);
    rename("d.yaml", "c.yaml");
    assert_int_equal(key_file_save(&f, &e), ERR_AGAIN);
    key_file_close(&f);
    assert_int_equal(access("c.yaml", F_OK), 0);
}

static void key_file__refuses_what_has_no_keys(void **state)
{
    struct key_file f;
    struct err e = {""};

    (void)state;
    assert_int_equal(key_file_open(&f, "none.yaml", &e), ERR_NOTFOUND);
    write_text("c.yaml", HOSTS GROUPS);
    assert_int_equal(key_file_open(&f, "c.yaml", &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "transport shm has no keys"));
    write_text("c.yaml", "hosts: 7\n");
    assert_int_equal(key_file_open(&f, "c.yaml", &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "c.yaml:1: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(key_file__is_written_as_a_whole, enter, leave),
        cmocka_unit_test_setup_teardown(key_file__does_not_overwrite_others, enter, leave),
        cmocka_unit_test_setup_teardown(key_file__refuses_what_has_no_keys, enter, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
