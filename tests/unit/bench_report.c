#include "../bench_points.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEPTH_MAX = 32, NAME_BYTES = 32 };

/* ---- is it well-formed? ---- */

static const char *entity(const char *p)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(p, known[i], strlen(known[i])) == 0)
            return p + strlen(known[i]);
    fail_msg("a bare &: %.40s", p);
    return p;
}

static const char *name(const char *p, char out[NAME_BYTES])
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '-')
        n++;
    if (n == 0 || n >= NAME_BYTES)
        fail_msg("no name of an element or attribute: %.40s", p);
    memcpy(out, p, n);
    out[n] = '\0';
    return p + n;
}

/* Behind the quoted value that begins here. */
static const char *value(const char *p)
{
    if (*p != '"')
        fail_msg("an attribute without quotes: %.40s", p);
    for (p++; *p != '"';) {
        if (*p == '\0' || *p == '<')
            fail_msg("an attribute does not end: %.40s", p);
        p = *p == '&' ? entity(p) : p + 1;
    }
    return p + 1;
}

/* As XML has it: elements nest, attributes are quoted, < and & are escaped. Returns how many elements. */
static uint32_t check_page(const char *p)
{
    static const char type[] = "<!DOCTYPE html>\n";
    char open[DEPTH_MAX][NAME_BYTES], one[NAME_BYTES];
    uint32_t depth = 0, elements = 0;
    assert_memory_equal(p, type, sizeof(type) - 1);
    for (p += sizeof(type) - 1; *p;) {
        if (*p == '&') {
            p = entity(p);
        } else if (*p != '<') {
            assert_true(depth > 0 || isspace((unsigned char)*p));
            p++;
        } else if (p[1] == '/') {
            p = name(p + 2, one);
            if (depth == 0 || strcmp(one, open[depth - 1]) != 0 || *p != '>')
                fail_msg("</%s> ends %s", one, depth ? open[depth - 1] : "nothing");
            depth--;
            p++;
        } else {
            assert_true(depth < DEPTH_MAX && (depth > 0 || elements == 0));
            p = name(p + 1, open[depth]);
            elements++;
            while (*p == ' ') {
                p = name(p + 1, one);
                assert_int_equal(*p, '=');
                p = value(p + 1);
            }
            bool empty = *p == '/';
            p += empty;
            if (*p != '>')
                fail_msg("<%s does not end: %.40s", open[depth], p);
            p++;
            depth += !empty;
        }
    }
    assert_int_equal(depth, 0);
    return elements;
}

/* ---- a report ---- */

struct report {
    struct compare compare;
    struct points points;
    char dir[32], html_path[64], json_path[64];
    char *html, *json;
};

static char *read_all(const char *path)
{
    struct stat s;
    FILE *in = fopen(path, "r");
    assert_true(in != NULL && fstat(fileno(in), &s) == 0);
    char *text = calloc(1, (size_t)s.st_size + 1);
    assert_int_equal(fread(text, 1, (size_t)s.st_size, in), s.st_size);
    fclose(in);
    return text;
}

static void report_open(struct report *r, struct points points, bool quick)
{
    struct err e = {""};
    r->points = points;
    points_open(&r->compare, 8, 8, quick);
    compare_add_fact(&r->compare, "a \"fact\"", "R&D <b>bold</b>\t%s", "\\");
    compare_run(&r->compare, points_measure, &r->points, NULL, NULL);
    snprintf(r->dir, sizeof(r->dir), "/tmp/tram-report-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->html_path, sizeof(r->html_path), "%s/index.html", r->dir);
    snprintf(r->json_path, sizeof(r->json_path), "%s/compare.json", r->dir);
    if (compare_report(&r->compare, r->dir, &e) != 0)
        fail_msg("%s", e.text);
    r->html = read_all(r->html_path);
    r->json = read_all(r->json_path);
}

static void report_close(struct report *r)
{
    unlink(r->html_path);
    unlink(r->json_path);
    assert_int_equal(rmdir(r->dir), 0);
    free(r->html);
    free(r->json);
    compare_close(&r->compare);
}

static uint32_t count(const char *text, const char *what)
{
    uint32_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

static void has(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void has(const char *text, const char *format, ...)
{
    char wanted[512];
    va_list args;
    va_start(args, format);
    vsnprintf(wanted, sizeof(wanted), format, args);
    va_end(args);
    if (strstr(text, wanted) == NULL)
        fail_msg("not there: %s", wanted);
}

static void bench_report__page_is_well_formed_and_needs_nothing_else(void **state)
{
    (void)state;
    struct report r;
    report_open(&r, (struct points){0}, false);
    assert_true(check_page(r.html) > 500);
    assert_int_equal(count(r.html, "<svg "), 3 + 3 + 3 + 1);
    assert_int_equal(count(r.html, "href"), 0);
    assert_int_equal(count(r.html, "src="), 0);
    assert_int_equal(count(r.html, "url("), 0);
    assert_int_equal(count(r.html, "<script"), 0);
    has(r.html, "prefers-color-scheme:dark");
    report_close(&r);
}

/* Below each plot its table; in the plot a point for each value; axes with their names. */
static void bench_report__page_has_every_number(void **state)
{
    (void)state;
    struct report r;
    report_open(&r, (struct points){0}, false);
    const struct compare *c = &r.compare;
    for (uint32_t i = 0; i < c->figures; i++) {
        const struct compare_figure *f = &c->figure[i];
        for (uint32_t m = 0; m < compare_metrics(f); m++) {
            struct compare_table t;
            compare_table(c, f, m, &t);
            for (uint32_t row = 1; row < t.rows; row++)
                for (uint32_t column = 1; column < t.columns; column++)
                    has(r.html, "<td>%s</td>", t.word[row][column]);
            for (uint32_t s = 0; s < f->count; s++)
                for (uint32_t x = 0; x < f->xs; x++) {
                    char word[COMPARE_WORD_BYTES];
                    if (m == COMPARE_NORMAL && f->series[s].reference == (int)s)
                        continue;
                    compare_number(word, compare_shown(m, compare_value(c, f, s, x, m)));
                    has(r.html, "<title>%s, %s %u: %s</title>", f->series[s].name, f->x_name,
                        f->x[x], word);
                }
        }
        has(r.html, ">%s</text>", f->x_name);
        has(r.html, "The paper says: %s.", f->paper[0]);
    }
    has(r.html, ">latency, \u00b5s</text>");
    has(r.html, ">latency, \u00b5s (log scale)</text>");
    has(r.html, ">throughput / genuine</text>");
    has(r.html, "tram bench --compare --report &lt;a&amp;b&gt;");
    has(r.html, "a &quot;fact&quot;</th><td>R&amp;D &lt;b&gt;bold&lt;/b&gt;");
    report_close(&r);
}

/* All points lie within their plot. */
static void bench_report__points_are_within_the_axes(void **state)
{
    (void)state;
    struct report r;
    report_open(&r, (struct points){0}, false);
    uint32_t points = 0;
    for (const char *p = r.html; (p = strstr(p, "<circle ")) != NULL; p++) {
        double x, y;
        assert_int_equal(sscanf(strstr(p, "cx="), "cx=\"%lf\" cy=\"%lf\"", &x, &y), 2);
        if (strchr(p, '>')[-1] == '/')
            continue; /* of the legend */
        points++;
        assert_true(x > 64 && x < 468 && y >= 12 && y <= 240);
    }
    /* One series of figure 5, two of 6 (one of them when normalised), one of 7, two of 8. */
    assert_int_equal(points, 3 * 8 + (2 + 2 + 1) * 8 + 3 * 6 + 2 * 5);
    report_close(&r);
}

static void bench_report__json_has_every_turn(void **state)
{
    (void)state;
    struct report r;
    report_open(&r, (struct points){0}, false);
    const struct compare *c = &r.compare;
    int braces = 0, brackets = 0;
    bool quoted = false;
    for (const char *p = r.json; *p; p++) {
        if (quoted && *p == '\\')
            p++;
        else if (*p == '"')
            quoted = !quoted;
        else if (!quoted) {
            braces += (*p == '{') - (*p == '}');
            brackets += (*p == '[') - (*p == ']');
        }
    }
    assert_true(braces == 0 && brackets == 0 && !quoted);
    for (uint32_t i = 0; i < c->cells; i++)
        for (uint32_t t = 0; t < c->cell[i].turns; t++) {
            const struct bench_point *p = &c->cell[i].turn[t];
            has(r.json, "{\"latency_p50_ns\":%.10g,\"latency_p99_ns\":%.10g,", p->latency_ns,
                p->latency_p99_ns);
            for (uint32_t l = 0; l < c->cell[i].args.loads; l++)
                has(r.json, "\"%u\":%.10g", c->cell[i].args.load[l], p->rate[l]);
        }
    assert_int_equal(count(r.json, "\"median\":"), c->cells);
    has(r.json, "\"a \\\"fact\\\"\":\"R&D <b>bold</b>\\u0009\\\\\"");
    has(r.json, "\"paper_says\":[\"");
    report_close(&r);
}

/* Where a point has no value a plot has a gap, tables a dash, JSON a null; why is said below. */
static void bench_report__shows_what_is_missing(void **state)
{
    (void)state;
    struct report r;
    report_open(&r, (struct points){.fail_bytes = 16384}, true);
    check_page(r.html);
    has(r.html, "<td>-</td>");
    has(r.html, "<h2>Not measured</h2>");
    has(r.html, "no memory for &lt;16384&gt; &quot;bytes&quot; &amp; more (after 0 of 5 turns)");
    has(r.json, "\"error\":\"no memory for <16384> \\\"bytes\\\" & more\"");
    has(r.json, "null");
    assert_int_equal(count(r.html, "nan"), 0);
    assert_int_equal(count(r.json, "nan"), 0);
    report_close(&r);
}

/* Nothing measured at all is a page too. */
static void bench_report__stands_without_any_point(void **state)
{
    (void)state;
    struct report r;
    report_open(&r, (struct points){.fail_bytes = 64}, true);
    check_page(r.html);
    report_close(&r);
    struct compare c;
    char *text = NULL;
    size_t bytes = 0;
    points_open(&c, 8, 8, true);
    FILE *out = open_memstream(&text, &bytes);
    compare_plot(out, &c, &c.figure[2], COMPARE_RATE);
    fclose(out);
    assert_non_null(strstr(text, "</svg>"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    free(text);
    compare_close(&c);
}

static void bench_report__says_where_it_cannot_write(void **state)
{
    (void)state;
    struct err e = {""};
    assert_true(compare_report_dir("/proc/nowhere", &e) < 0);
    assert_non_null(strstr(e.text, "/proc/nowhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_report__page_is_well_formed_and_needs_nothing_else),
        cmocka_unit_test(bench_report__page_has_every_number),
        cmocka_unit_test(bench_report__points_are_within_the_axes),
        cmocka_unit_test(bench_report__json_has_every_turn),
        cmocka_unit_test(bench_report__shows_what_is_missing),
        cmocka_unit_test(bench_report__stands_without_any_point),
        cmocka_unit_test(bench_report__says_where_it_cannot_write),
    };
    return cmocka_run_group_tests_name("bench_report", tests, NULL, NULL);
}
