#include "trace/trace.h"

#include "check/load.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[96];

static const char *const groups[] = {"g1", "g2", "g3"};
static const char *const hosts[] = {"h1", "h2"};
static const struct trace_options options = {
    .dir = dir, .name = "t", .groups = groups, .group_count = 3, .hosts = hosts, .host_count = 2};
static const uint16_t list[] = {0, 2};
static const struct trace_dst dst = {list, 2};

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "%s", "/tmp/tram-trace-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/t.jsonl", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static struct trace_writer *open_writer(void)
{
    struct trace_writer *w;
    struct err e;
    if (trace_open(&w, &options, &e) < 0)
        fail_msg("%s", e.text);
    return w;
}

static void write_file(const char *bytes, size_t len)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Whole events in the file; the reader's state at the end goes to *r. */
static uint64_t count_events(struct trace_reader *r)
{
    struct trace_event ev;
    struct err e;
    uint64_t n = 0;
    int rc;
    assert_int_equal(trace_reader_open(r, path, &e), 0);
    while ((rc = trace_read(r, &ev, &e)) > 0)
        n++;
    if (rc < 0)
        fail_msg("%s", e.text);
    trace_reader_close(r);
    return n;
}

static void trace__writes_the_lines_of_the_design(void **state)
{
    static const char wanted[] =
        "{\"ev\":\"format\",\"version\":1}\n"
        "{\"ev\":\"cast\",\"client\":\"c1\",\"id\":\"c1:17\",\"dst\":[\"g1\",\"g3\"]}\n"
        "{\"ev\":\"start\",\"group\":\"g1\",\"replica\":\"h2\",\"inc\":0,\"n\":41}\n"
        "{\"ev\":\"deliver\",\"group\":\"g1\",\"replica\":\"h2\",\"inc\":0,\"n\":41,"
        "\"id\":\"c1:17\",\"dst\":[\"g1\",\"g3\"]}\n"
        "{\"ev\":\"done\",\"client\":\"c1\",\"id\":\"c1:17\"}\n"
        "{\"ev\":\"done\",\"client\":\"c1.3\",\"id\":\"c1.3:18446744073709551615\"}\n"
        "{\"ev\":\"deliver\",\"group\":\"g3\",\"replica\":\"h1\",\"inc\":7,\"n\":0,"
        "\"id\":\"c1:17\",\"dst\":[\"g1\",\"g3\"]}\n";
    const struct trace_id id = {.client = 1, .seq = 17};
    char got[sizeof(wanted) + 16] = {0};
    (void)state;
    struct trace_writer *w = open_writer();
    trace_cast(w, id, dst);
    trace_start(w, (struct trace_replica){0, 1, 0}, 41);
    trace_deliver(w, (struct trace_replica){0, 1, 0}, 41, id, dst);
    trace_done(w, id);
    trace_done(w, (struct trace_id){.client = 1, .life = 3, .seq = UINT64_MAX});
    trace_deliver(w, (struct trace_replica){2, 0, 7}, 0, id, dst);
    assert_int_equal(trace_close(w, NULL), 0);
    FILE *f = fopen(path, "r");
    assert_int_equal(fread(got, 1, sizeof(got), f), sizeof(wanted) - 1);
    fclose(f);
    assert_string_equal(got, wanted);
}

static void trace__clients_can_have_names(void **state)
{
    static const char *const names[] = {"anna", "bert"};
    struct trace_options o = options;
    struct trace_writer *w;
    struct trace_reader r;
    struct trace_event ev;
    (void)state;
    o.clients = names;
    o.client_count = 2;
    assert_int_equal(trace_open(&w, &o, NULL), 0);
    trace_done(w, (struct trace_id){.client = 1, .seq = 3});
    trace_done(w, (struct trace_id){.client = 2, .seq = 3});
    assert_int_equal(trace_close(w, NULL), 0);
    assert_int_equal(trace_reader_open(&r, path, NULL), 0);
    assert_int_equal(trace_read(&r, &ev, NULL), 1);
    assert_memory_equal(ev.id.at, "bert:3", ev.id.len);
    assert_int_equal(trace_read(&r, &ev, NULL), 1);
    assert_memory_equal(ev.id.at, "c2:3", ev.id.len);
    trace_reader_close(&r);
}

/* Lines longer than the first mapping, and many mappings. */
static void trace__goes_on_through_many_windows(void **state)
{
    enum { GROUPS = 1024, EVENTS = 3000 };
    static char texts[GROUPS][64];
    static const char *names[GROUPS];
    static uint16_t all[GROUPS];
    struct trace_options o = options;
    struct trace_writer *w;
    struct trace_reader r;
    (void)state;
    for (unsigned g = 0; g < GROUPS; g++) {
        snprintf(texts[g], sizeof(texts[g]), "a-group-with-a-rather-long-name-number-%u", g);
        names[g] = texts[g];
        all[g] = (uint16_t)g;
    }
    o.groups = names;
    o.group_count = GROUPS;
    assert_int_equal(trace_open(&w, &o, NULL), 0);
    for (uint64_t i = 0; i < EVENTS; i++)
        trace_cast(w, (struct trace_id){.seq = i},
                   (struct trace_dst){all, i % 10 == 0 ? GROUPS : 1});
    assert_int_equal(trace_close(w, NULL), 0);
    assert_int_equal(count_events(&r), EVENTS);
    assert_false(r.cut || r.unclosed);
}

/* A writer is killed at any moment: each event whose call returned is in the file, and the next
 * writer goes on behind it. */
static void trace__survives_kill_and_goes_on(void **state)
{
    struct trace_reader r;
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct trace_writer *w;
        if (trace_open(&w, &options, NULL) < 0)
            _exit(1);
        for (uint64_t i = 0; i < 5000; i++)
            trace_deliver(w, (struct trace_replica){0, 0, 0}, i + 1, (struct trace_id){.seq = i},
                          dst);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(count_events(&r), 5000);
    assert_true(r.unclosed);
    assert_false(r.cut);

    struct trace_writer *w = open_writer();
    trace_deliver(w, (struct trace_replica){0, 0, 1}, 5001, (struct trace_id){.seq = 5000}, dst);
    assert_int_equal(trace_close(w, NULL), 0);
    assert_int_equal(count_events(&r), 5001);
    assert_false(r.cut || r.unclosed);
}

static void trace__incomplete_last_line_is_left_out(void **state)
{
    static const char line[] = "{\"ev\":\"done\",\"client\":\"c\",\"id\":\"c:1\"}\n";
    char bytes[256] = {0};
    struct trace_reader r;
    (void)state;
    memcpy(bytes, line, sizeof(line) - 1);
    memcpy(bytes + sizeof(line) - 1, line, sizeof(line) - 1);
    for (size_t zeros = 0; zeros < 2; zeros++)
        for (size_t len = sizeof(line); len < 2 * (sizeof(line) - 1); len++) {
            char cut[sizeof(bytes)] = {0};
            memcpy(cut, bytes, len);
            write_file(cut, zeros ? sizeof(cut) : len);
            assert_int_equal(count_events(&r), 1);
            assert_true(r.cut && r.unclosed);
            /* The next writer removes it. */
            struct trace_writer *w = open_writer();
            trace_done(w, (struct trace_id){.seq = 2});
            assert_int_equal(trace_close(w, NULL), 0);
            assert_int_equal(count_events(&r), 2);
            assert_false(r.cut || r.unclosed);
        }
    write_file(line, sizeof(line) - 2); /* nothing but an incomplete line */
    assert_int_equal(count_events(&r), 0);
    assert_true(r.cut);
    write_file("", 0);
    assert_int_equal(count_events(&r), 0);
    assert_false(r.cut || r.unclosed);
}

static void trace__second_writer_is_refused(void **state)
{
    struct trace_writer *other;
    struct err e;
    (void)state;
    struct trace_writer *w = open_writer();
    assert_int_equal(trace_open(&other, &options, &e), ERR_EXISTS);
    assert_non_null(strstr(e.text, "another process"));
    assert_int_equal(trace_close(w, NULL), 0);
}

static void trace__names_that_need_an_escape_are_refused(void **state)
{
    static const char *const bad[] = {"", "a\"b", "a\\b", "a\nb"};
    struct trace_writer *w;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct trace_options o = options;
        o.groups = &bad[i];
        o.group_count = 1;
        assert_int_equal(trace_open(&w, &o, NULL), ERR_INVALID);
    }
    write_file("", 0);
}

/* The disk is full: whole lines stay, the last one says that more is missing, and who closes is told. */
static void trace__file_that_cannot_grow_says_so(void **state)
{
    struct rlimit old, small;
    struct trace_reader r;
    struct err e;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct trace_writer *w = open_writer();
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 600000;
    setrlimit(RLIMIT_FSIZE, &small);
    for (uint64_t i = 0; i < 50000; i++)
        trace_done(w, (struct trace_id){.seq = i});
    assert_true(trace_close(w, &e) < 0);
    assert_non_null(strstr(e.text, "t.jsonl"));
    setrlimit(RLIMIT_FSIZE, &old);
    struct trace_event ev = {0};
    uint64_t written = 0;
    assert_int_equal(trace_reader_open(&r, path, NULL), 0);
    while (trace_read(&r, &ev, NULL) == 1 && ev.kind == TRACE_DONE)
        assert_int_equal(strtoull((const char *)memrchr(ev.id.at, ':', ev.id.len) + 1, NULL, 10),
                         written++);
    assert_in_range(written, 1000, 49999);
    assert_int_equal(ev.kind, TRACE_GAP);
    assert_int_equal(trace_read(&r, &ev, NULL), 0);
    assert_false(r.unclosed);
    trace_reader_close(&r);

    /* With room again the next life goes on behind it. */
    w = open_writer();
    trace_done(w, (struct trace_id){.seq = 7});
    assert_int_equal(trace_close(w, NULL), 0);
    assert_int_equal(count_events(&r), written + 2);
}

/* Of a later version nothing is told; of an earlier one, or of one that is not said, all is. A file may have several. */
static void trace__later_versions_are_refused(void **state)
{
    static const char before[] = "{\"ev\":\"done\",\"client\":\"c\",\"id\":\"c:1\"}\n"
                                 "{\"ev\":\"format\",\"version\":1}\n"
                                 "{\"ev\":\"done\",\"client\":\"c\",\"id\":\"c:2\"}\n";
    static const char later[] = "{\"ev\":\"format\",\"version\":2}\n"
                                "{\"ev\":\"done\",\"client\":\"c\",\"id\":\"c:3\"}\n";
    char both[sizeof before + sizeof later];
    struct trace_reader r;
    struct trace_event ev;
    struct err e;
    (void)state;
    write_file(before, sizeof before - 1);
    assert_int_equal(count_events(&r), 2);
    snprintf(both, sizeof both, "%s%s", before, later);
    write_file(both, strlen(both));
    assert_int_equal(trace_reader_open(&r, path, &e), 0);
    assert_int_equal(trace_read(&r, &ev, &e), 1);
    assert_int_equal(trace_read(&r, &ev, &e), 1);
    assert_int_equal(ev.kind, TRACE_DONE);
    assert_int_equal(trace_read(&r, &ev, &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "t.jsonl:4: the trace is of version 2"));
    trace_reader_close(&r);
}

static void trace__keys_come_in_any_order_with_blanks(void **state)
{
    static const char line[] =
        " { \"dst\" : [ \"g1\" ,\t\"g]3\" ] , \"id\":\"x y\",\"n\" : 7 ,\"inc\":2,"
        "\"replica\":\"h1\",\"ev\": \"deliver\" ,\"group\":\"g1\" } \r\n";
    struct trace_reader r;
    struct trace_event ev;
    struct trace_text name;
    (void)state;
    write_file(line, sizeof(line) - 1);
    assert_int_equal(trace_reader_open(&r, path, NULL), 0);
    assert_int_equal(trace_read(&r, &ev, NULL), 1);
    assert_int_equal(ev.kind, TRACE_DELIVER);
    assert_true(ev.n == 7 && ev.inc == 2);
    assert_memory_equal(ev.id.at, "x y", 3);
    assert_true(trace_dst_next(&ev.dst, &name));
    assert_true(name.len == 2 && memcmp(name.at, "g1", 2) == 0);
    assert_true(trace_dst_next(&ev.dst, &name));
    assert_true(name.len == 3 && memcmp(name.at, "g]3", 3) == 0);
    assert_false(trace_dst_next(&ev.dst, &name));
    assert_int_equal(trace_read(&r, &ev, NULL), 0);
    trace_reader_close(&r);
}

static void trace__malformed_lines_are_named(void **state)
{
    static const struct {
        const char *line, *wanted;
    } cases[] = {
        {"", "expected {"},
        {"[]", "expected {"},
        {"{}", "expected a string"},
        {"{\"ev\":\"sing\"}", "unknown event 'sing'"},
        {"{\"ev\":\"done\",\"client\":\"c\"}", "a done needs \"id\""},
        {"{\"ev\":\"done\",\"client\":\"c\",\"id\":\"a\",\"n\":1}", "a done has no \"n\""},
        {"{\"client\":\"c\",\"id\":\"a\"}", "no \"ev\""},
        {"{\"ev\":\"done\",\"ev\":\"done\"}", "key 'ev' twice"},
        {"{\"ev\":\"done\",\"colour\":\"red\"}", "unknown key 'colour'"},
        {"{\"ev\":\"done\",\"client\":\"c\",\"id\":\"\"}", "not empty"},
        {"{\"ev\":\"done\",\"client\":\"c\",\"id\":\"a\\\"b\"}", "without escapes"},
        {"{\"ev\":\"done\",\"client\":\"c\",\"id\":\"a}", "closing quote"},
        {"{\"ev\":\"done\",\"client\":\"c\",\"id\":7}", "expected a string"},
        {"{\"ev\":\"done\",\"client\":\"c\",\"id\":\"a\"} x", "end of the line"},
        {"{\"ev\":\"done\" \"client\":\"c\"}", "expected , or }"},
        {"{\"ev\" \"done\"}", "expected : after a key"},
        {"{\"ev\":\"cast\",\"dst\":[]}", "expected a string"},
        {"{\"ev\":\"cast\",\"dst\":[\"a\" \"b\"]}", "expected , or ]"},
        {"{\"ev\":\"cast\",\"dst\":\"a\"}", "a list of names"},
        {"{\"ev\":\"start\",\"n\":-1}", "whole number"},
        {"{\"ev\":\"start\",\"n\":01}", "whole number"},
        {"{\"ev\":\"start\",\"n\":1.5}", "expected , or }"},
        {"{\"ev\":\"start\",\"n\":99999999999999999999999}", "up to 2^62"},
        {"{\"ev\":\"start\",\"inc\":2147483648}", "up to 2^31 - 1"},
        {"{\"ev\":\"start\",\"n\":", "the end of the line"},
        {"{\"ev\":\"format\"}", "a format needs \"version\""},
        {"{\"ev\":\"done\",\"client\":\"c\",\"id\":\"a\",\"version\":1}",
         "a done has no \"version\""},
    };
    static const char good[] = "{\"ev\":\"done\",\"client\":\"c\",\"id\":\"a\"}\n";
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512], where[128];
        struct trace_reader r;
        struct trace_event ev;
        struct err e = {{0}};
        int len = snprintf(text, sizeof(text), "%s%s\n", good, cases[i].line);
        write_file(text, (size_t)len);
        assert_int_equal(trace_reader_open(&r, path, &e), 0);
        assert_int_equal(trace_read(&r, &ev, &e), 1);
        assert_int_equal(trace_read(&r, &ev, &e), ERR_CORRUPT);
        trace_reader_close(&r);
        snprintf(where, sizeof(where), "%s:2: ", path);
        if (strncmp(e.text, where, strlen(where)) != 0 || strstr(e.text, cases[i].wanted) == NULL)
            fail_msg("%s: wanted '%s', got '%s'", cases[i].line, cases[i].wanted, e.text);
    }
}

static void trace__missing_file_is_an_error(void **state)
{
    struct trace_reader r;
    struct err e;
    (void)state;
    assert_true(trace_reader_open(&r, "/nonexistent/x.jsonl", &e) < 0);
    assert_non_null(strstr(e.text, "/nonexistent/x.jsonl"));
    write_file("", 0);
}

/* What a client that was killed had cast need not be delivered; of one that closed its file it must. */
static void trace__killed_clients_are_excused(void **state)
{
    static const char line[] =
        "{\"ev\":\"cast\",\"client\":\"c\",\"id\":\"c:1\",\"dst\":[\"g\"]}\n";
    (void)state;
    for (unsigned zeros = 0; zeros < 2; zeros++) {
        struct load_report report = {0};
        struct err e;
        struct amcast *a = amcast_open();
        write_file(line, sizeof(line) - 1 + zeros);
        assert_int_equal(load_dir(a, dir, NULL, NULL, &report, &e), 0);
        assert_int_equal(report.crashed, zeros);
        assert_int_equal(amcast_verify(a, true), zeros == 1);
        amcast_close(a);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(trace__writes_the_lines_of_the_design),
        CASE(trace__clients_can_have_names),
        CASE(trace__goes_on_through_many_windows),
        CASE(trace__survives_kill_and_goes_on),
        CASE(trace__incomplete_last_line_is_left_out),
        CASE(trace__second_writer_is_refused),
        CASE(trace__names_that_need_an_escape_are_refused),
        CASE(trace__file_that_cannot_grow_says_so),
        CASE(trace__later_versions_are_refused),
        CASE(trace__keys_come_in_any_order_with_blanks),
        CASE(trace__malformed_lines_are_named),
        CASE(trace__missing_file_is_an_error),
        CASE(trace__killed_clients_are_excused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
