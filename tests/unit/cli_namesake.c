#include "cli/namesake.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Two folders for runtime directories, a and b; the cluster is "x", and looked for in a. */
static char top[32], a[48], b[48], own[96];
static struct namesake found;

static int enter(void **state)
{
    (void)state;
    snprintf(top, sizeof top, "/tmp/tram-name-XXXXXX");
    if (mkdtemp(top) == NULL)
        return -1;
    snprintf(a, sizeof a, "%s/a", top);
    snprintf(b, sizeof b, "%s/b", top);
    snprintf(own, sizeof own, "%s/tramway-%u-x", a, geteuid());
    return mkdir(a, 0700) | mkdir(b, 0700) | mkdir(own, 0700);
}

static int leave(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command);
}

static void make(const char *folder, uid_t uid, const char *cluster)
{
    char path[128];

    snprintf(path, sizeof path, "%s/tramway-%u-%s", folder, uid, cluster);
    assert_int_equal(mkdir(path, 0700), 0);
}

static bool find(void)
{
    const char *folders[] = {b};

    return namesake_find(own, "x", folders, 1, &found);
}

static void namesake__is_not_the_own_directory_nor_another_name(void **state)
{
    (void)state;
    make(a, geteuid(), "y");
    make(a, geteuid(), "x-x");
    make(b, geteuid(), "xx");
    assert_false(find());
}

static void namesake__of_the_same_user_is_elsewhere(void **state)
{
    char there[128];

    (void)state;
    make(b, geteuid(), "x");
    snprintf(there, sizeof there, "%s/tramway-%u-x", b, geteuid());
    assert_true(find());
    assert_int_equal(found.uid, geteuid());
    assert_string_equal(found.dir, there);
}

/* Anybody may make a directory with another's number in a folder for all. */
static void namesake__belongs_to_the_user_in_its_name(void **state)
{
    char path[128];

    (void)state;
    make(a, geteuid() + 1, "x");
    assert_false(find());
    if (geteuid() != 0)
        return;
    snprintf(path, sizeof path, "%s/tramway-1-x", a);
    assert_int_equal(chown(path, 1, 1), 0);
    assert_true(find());
    assert_int_equal(found.uid, 1);
    assert_string_equal(found.dir, path);
}

static void namesake__is_a_directory(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/tramway-%u-x", b, geteuid());
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_false(find());
}

static void namesake__needs_no_folder(void **state)
{
    const char *folders[] = {"/does/not/exist"};

    (void)state;
    assert_false(namesake_find("/nowhere/tramway-0-x", "x", folders, 1, &found));
    assert_false(namesake_find("tramway-0-x", "x", folders, 1, &found));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(namesake__is_not_the_own_directory_nor_another_name),
        TEST(namesake__of_the_same_user_is_elsewhere),
        TEST(namesake__belongs_to_the_user_in_its_name),
        TEST(namesake__is_a_directory),
        TEST(namesake__needs_no_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
