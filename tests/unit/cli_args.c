/* Options by a table: reading, help and what the shell is told. */
#include "cli/args.h"

#include "../cli_fixture.h"
#include "cli/cmd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { DOWN_MAX = 2, HELP_COLUMNS_MAX = 100 };

static struct {
    const char *name, *more;
    bool loud, wait_given;
    const char *file, *hidden;
    const char *down[DOWN_MAX];
    struct args_list downs;
    uint64_t wait;
    uint32_t count;
    unsigned tree;
} got;

static bool dashes, words_wanted;

static int read_all(int argc, char **argv)
{
    static const char *const trees[] = {"oak", "fir", NULL};
    const struct args_word words[] = {
        {"NAME", &got.name, "which?"},
        {"MORE", &got.more, NULL},
        {0},
    };
    const struct args_option options[] = {
        {"-c, --file", "FILE", "the file", .text = &got.file, .needs = "a file"},
        {"--loud", NULL,
         "a text of so many words that it does not fit into one line of so many columns, and has "
         "to go "
         "on in the next, below where it began",
         .flag = &got.loud},
        {.help = "Others:"},
        {"--down", "NAME", "may be repeated", .list = &got.downs, .needs = "a name"},
        {"--wait", "S", "one line\nanother line", .number = &got.wait, .min = 1, .max = 3600,
         .given = &got.wait_given},
        {"--count-of-many", "N", "more than fits the column", .number32 = &got.count, .max = 9},
        {"--tree", "SHAPE", "of the tree", .choice = &got.tree, .choices = trees,
         .needs = "the trees are"},
        {"--serve", "X", NULL, .text = &got.hidden, .needs = "something"},
        {0},
    };
    const struct args_command command = {
        .name = "try",
        .usage = "NAME [OPTIONS]",
        .about = "Tries.",
        .options = options,
        .words = words_wanted ? words : NULL,
        .too_many = "too many",
        .dashes = dashes,
        .more = "Exit code: none.",
    };
    return args_read(&command, argc, argv);
}

static int setup(void **state)
{
    (void)state;
    memset(&got, 0, sizeof(got));
    got.downs = (struct args_list){.item = got.down, .max = DOWN_MAX};
    dashes = false;
    words_wanted = true;
    return 0;
}

static void refused(const char *line, const char *text)
{
    int code = cli_run(read_all, line);
    if (code != CMD_USAGE || strcmp(output, text) != 0)
        fail_msg("tram %s: code %d, says: %s", line, code, output);
    setup(NULL);
}

static void args__reads_every_kind(void **state)
{
    (void)state;
    assert_int_equal(cli_run(read_all, "try a --loud --file f --down x --down y --wait 3600 "
                                       "--count-of-many 0 --tree fir --serve s -"),
                     ARGS_GO);
    assert_string_equal(output, "");
    assert_string_equal(got.name, "a");
    assert_string_equal(got.more, "-");
    assert_string_equal(got.file, "f");
    assert_string_equal(got.hidden, "s");
    assert_true(got.loud && got.wait_given && got.wait == 3600 && got.count == 0 && got.tree == 1);
    assert_int_equal(got.downs.count, 2);
    assert_string_equal(got.down[1], "y");
}

static void args__short_names_and_the_last_one_counts(void **state)
{
    (void)state;
    assert_int_equal(cli_run(read_all, "try -c one -c two a"), ARGS_GO);
    assert_string_equal(got.file, "two");
    assert_null(got.more);
    assert_false(got.loud || got.wait_given);
}

#define OPTIONS_LISTED                                                                             \
    "--file, --loud, --down, --wait, --count-of-many and --tree. `tram try --help` explains "      \
    "them\n"

static void args__what_is_wrong_is_said(void **state)
{
    (void)state;
    refused("try", "tram try: NAME: which?\n");
    refused("try a b c", "tram try: c: too many\n");
    refused("try a --lou",
            "tram try: there is no option '--lou'; did you mean --loud? There are " OPTIONS_LISTED);
    refused(
        "try a --file,",
        "tram try: there is no option '--file,'; did you mean --file? There are " OPTIONS_LISTED);
    refused("try a --", "tram try: there is no option '--'; there are " OPTIONS_LISTED);
    refused("try a --file", "tram try: --file: it needs a file\n");
    refused("try a -c", "tram try: -c: it needs a file\n");
    refused("try a --down x --down y --down z", "tram try: --down: it needs fewer\n");
    refused("try a --tree elm", "tram try: --tree: the trees are: oak, fir, not 'elm'\n");
    refused("try a --tree oka",
            "tram try: --tree: the trees are: oak, fir, not 'oka'; did you mean oak?\n");
    refused("try a --tree", "tram try: --tree: the trees are: oak, fir\n");
    static const char *const bad[] = {"0", "3601", "-1", "+1", "1x", "x", "99999999999999999999"};
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char line[64], text[128];
        snprintf(line, sizeof(line), "try a --wait %s", bad[i]);
        snprintf(text, sizeof(text),
                 "tram try: --wait needs a whole number from 1 to 3600, not '%s'\n", bad[i]);
        refused(line, text);
    }
    words_wanted = false;
    refused("try a", "tram try: there is no option 'a'; there are " OPTIONS_LISTED);
}

static void args__after_dashes_all_are_words(void **state)
{
    (void)state;
    dashes = true;
    assert_int_equal(cli_run(read_all, "try --loud -- --loud --help"), ARGS_GO);
    assert_string_equal(got.name, "--loud");
    assert_string_equal(got.more, "--help");
}

static void args__help_is_laid_out(void **state)
{
    (void)state;
    static const char wanted[] =
        "usage: tram try NAME [OPTIONS]\n"
        "\n"
        "Tries.\n"
        "\n"
        "  -c, --file FILE   the file\n"
        "  --loud            a text of so many words that it does not fit into one line of so many "
        "columns,\n"
        "                    and has to go on in the next, below where it began\n"
        "\n"
        "Others:\n"
        "  --down NAME       may be repeated\n"
        "  --wait S          one line\n"
        "                    another line\n"
        "  --count-of-many N  more than fits the column\n"
        "  --tree SHAPE      of the tree\n"
        "\n"
        "Exit code: none.\n";
    assert_int_equal(cli_run(read_all, "try --help"), CMD_DONE);
    assert_string_equal(output, wanted);
    assert_int_equal(cli_run(read_all, "try a --loud -h"), CMD_DONE);
    assert_string_equal(output, wanted);
    for (const char *line = output; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= HELP_COLUMNS_MAX);
}

static void args__the_shell_is_told_every_spelling(void **state)
{
    (void)state;
    assert_int_equal(cli_run(read_all, "try --complete"), CMD_DONE);
    assert_string_equal(output, "-c FILE\n"
                                "--file FILE\n"
                                "--loud\n"
                                "--down NAME\n"
                                "--wait S\n"
                                "--count-of-many N\n"
                                "--tree SHAPE oak fir\n"
                                "--help\n");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        CASE(args__reads_every_kind),      CASE(args__short_names_and_the_last_one_counts),
        CASE(args__what_is_wrong_is_said), CASE(args__after_dashes_all_are_words),
        CASE(args__help_is_laid_out),      CASE(args__the_shell_is_told_every_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
