#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *text, *json;
} known[] = {
    {"", "\"\""},
    {"h1: leads g1", "\"h1: leads g1\""},
    {"a \"b\" \\c", "\"a \\\"b\\\" \\\\c\""},
    {"one\ntwo\x7f", "\"one\\u000atwo\\u007f\""},
    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x8b", "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x8b\""},
    {"\xe9", "\"\\ufffd\""},                                  /* Latin-1 */
    {"\xc3", "\"\\ufffd\""},                                  /* cut */
    {"\xc0\xaf", "\"\\ufffd\\ufffd\""},                       /* longer than it needs to be */
    {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},            /* half of a pair */
    {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* beyond the last one */
    {"\xff\xfe", "\"\\ufffd\\ufffd\""},
};

static void json__strings_are_quoted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char *printed = NULL, quoted[128];
        size_t bytes = 0;
        FILE *f = open_memstream(&printed, &bytes);

        json_string(f, known[i].text);
        fclose(f);
        assert_string_equal(printed, known[i].json);
        free(printed);
        bytes = json_quote(quoted, sizeof quoted, known[i].text, strlen(known[i].text));
        assert_string_equal(quoted, known[i].json);
        assert_int_equal(bytes, strlen(quoted));
    }
}

static void json__what_does_not_fit_is_left_out_whole(void **state)
{
    (void)state;
    char out[8];

    memset(out, 'x', sizeof out);
    assert_int_equal(json_quote(out, 7, "abc\n", 4), 5);
    assert_string_equal(out, "\"abc\"");
    assert_int_equal(out[7], 'x');
    assert_int_equal(json_quote(out, 3, "abc", 3), 2);
    assert_string_equal(out, "\"\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json__strings_are_quoted),
        cmocka_unit_test(json__what_does_not_fit_is_left_out_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
