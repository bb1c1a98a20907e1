#include "cli/log_lines.h"

#include "api/api.h"
#include "base/clock.h"
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A byte takes six at most; besides the line there are the time, a code, and names, which together are no longer than a line. */
enum { OBJECT_BYTES = 12 * SAY_LINE_BYTES + 1024 };

const char *const log_forms[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json", NULL};

/* 2026-11-19T20:05:26.123Z */
static void show_time(char *out, size_t room)
{
    uint64_t ms = clock_wall_ms();
    time_t seconds = (time_t)(ms / 1000);
    struct tm t;
    size_t used = strftime(out, room, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &t));
    snprintf(out + used, room - used, ".%03uZ", (unsigned)(ms % 1000));
}

struct object {
    char s[OBJECT_BYTES];
    size_t used;
};

static void add(struct object *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct object *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(o->s + o->used, sizeof o->s - o->used, fmt, ap);
    va_end(ap);
    assert(n >= 0 && (size_t)n < sizeof o->s - o->used);
    o->used += (size_t)n;
}

static void add_string(struct object *o, const char *text, size_t bytes)
{
    o->used += json_quote(o->s + o->used, sizeof o->s - o->used, text, bytes);
}

static void add_field(struct object *o, const char *name, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    add(o, ", \"%s\": ", name);
    add_string(o, text, strlen(text));
}

/* "g1, g2" as ["g1", "g2"]. */
static void add_names(struct object *o, const char *name, const char *names)
{
    const char *between = "";

    if (names == NULL)
        return;
    add(o, ", \"%s\": [", name);
    for (const char *end; *names != '\0'; names = *end ? end + 2 : end) {
        end = strstr(names, ", ");
        end = end ? end : names + strlen(names);
        add(o, "%s", between);
        add_string(o, names, (size_t)(end - names));
        between = ", ";
    }
    add(o, "]");
}

static void add_event(struct object *o, const char *word, const char *code)
{
    const struct say_about about = say_about();

    add_field(o, "code", code);
    add_field(o, "event", word);
    add_field(o, "peer", about.peer);
    add_names(o, "groups", about.groups);
    if (about.groups_more > 0)
        add(o, ", \"groups_more\": %u", about.groups_more);
    add_field(o, "cell", about.cell);
    if (about.view > 0)
        add(o, ", \"view\": %" PRIu64, about.view);
}

/* One write for a line, so that those of several threads and processes do not mix. */
static void json_line(void *ctx, enum tram_log_level level, const char *line)
{
    static const char *const levels[] = {"info", "warning", "error"};
    struct object o = {.used = 0};
    char when[40], code[SAY_CODE_BYTES] = "";
    int bytes;
    const char *event = say_event_of(line, &bytes, code);

    show_time(when, sizeof when);
    add(&o, "{\"time\": \"%s\", \"level\": \"%s\"", when, levels[level]);
    add_field(&o, "host", ctx);
    add(&o, ", \"text\": ");
    add_string(&o, line, (size_t)bytes);
    if (event)
        add_event(&o, event, code);
    add(&o, "}\n");
    if (write(STDERR_FILENO, o.s, o.used) < 0) {
        /* Nowhere to report it. */
    }
}

struct tram_log log_lines(enum log_form form, enum tram_log_level least, const char *host)
{
    if (form == LOG_TEXT)
        return api_log_stderr(least);
    return (struct tram_log){.line = json_line, .ctx = (void *)(uintptr_t)host, .least = least};
}

void log_line_complain(enum log_form form, const char *command, const char *host, const char *text)
{
    char line[SAY_LINE_BYTES];

    snprintf(line, sizeof line, "%s: %s", host, text);
    if (form == LOG_JSON)
        json_line((void *)(uintptr_t)host, TRAM_LOG_ERROR, line);
    else
        fprintf(stderr, "tram %s: %s\n", command, line);
}
