/* Backups that clients ask for: one at a time, however often they ask. */
#include "api/backup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ASKED = 1000 };

static const unsigned char first[DISK_ID_BYTES] = "first", second[DISK_ID_BYTES] = "second";

struct user {
    uint32_t saves;
};

static char said[SAY_LINE_BYTES];
static uint32_t lines;

static void on_line(void *ctx, enum say_level level, const char *line)
{
    (void)ctx;
    (void)level;
    lines++;
    strncpy(said, line, sizeof(said) - 1);
}

static int save(void *ctx, uint32_t group, void **data, size_t *bytes)
{
    struct user *u = ctx;
    (void)group;
    u->saves++;
    *bytes = 1;
    *data = calloc(1, *bytes);
    return *data ? 0 : -1;
}

static struct backup backup_of(struct user *u)
{
    struct backup b;
    lines = 0;
    backup_init(&b, &(struct api_machine){.calls = {.save = save},
                                          .ctx = u,
                                          .heartbeat_ns = UINT64_MAX,
                                          .group_name = "stock",
                                          .say = {.line = on_line}});
    return b;
}

static void backup__lets_be_what_comes_while_one_goes_on(void **state)
{
    (void)state;
    struct user u = {0};
    struct backup b = backup_of(&u);

    backup_begin(&b, first, 7, true);
    for (uint32_t i = 0; i < ASKED; i++)
        backup_begin(&b, second, 8 + i, true);
    assert_true(b.phase == BACKUP_FROZEN && b.delivered == 7);
    assert_memory_equal(b.id, first, sizeof(first));
    assert_int_equal(u.saves, 1);
    assert_int_equal(lines, 0);
    backup_fini(&b);
}

static void backup__does_not_fill_the_log_with_what_it_refuses(void **state)
{
    (void)state;
    struct user u = {0};
    struct backup b = backup_of(&u);

    for (uint32_t i = 0; i < ASKED; i++)
        backup_begin(&b, first, i, false);
    assert_true(b.phase == BACKUP_FAILED && u.saves == 0);
    assert_true(lines >= 1 && lines < ASKED / 10);
    assert_string_equal(said,
                        "group stock: a backup was not written: its state is being saved already");
    backup_begin(&b, second, 9, true);
    assert_true(b.phase == BACKUP_FROZEN && u.saves == 1);
    backup_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup__lets_be_what_comes_while_one_goes_on),
        cmocka_unit_test(backup__does_not_fill_the_log_with_what_it_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
