#include "cli/log_lines.h"

#include "api/api.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STRING_BYTES = 6 * SAY_LINE_BYTES, OBJECT_BYTES = STRING_BYTES + 512 };

const char *const log_forms[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json", NULL};

/* Bytes that are no text are shown as Latin-1, so that a line is JSON whatever a name has in it. */
static void quote(char out[STRING_BYTES], const char *text, int bytes)
{
    int at = 0;
    for (int i = 0; i < bytes && at < STRING_BYTES - 8; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c >= 0x7f)
            at += snprintf(out + at, 8, "\\u%04x", c);
        else
            at += snprintf(out + at, 8, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    out[at] = '\0';
}

/* 2026-11-19T20:05:26.123Z */
static void show_time(char *out, size_t room)
{
    uint64_t ms = clock_wall_ms();
    time_t seconds = (time_t)(ms / 1000);
    struct tm t;
    size_t used = strftime(out, room, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &t));
    snprintf(out + used, room - used, ".%03uZ", (unsigned)(ms % 1000));
}

/* One write for a line, so that those of several threads and processes do not mix. */
static void json_line(void *ctx, enum tram_log_level level, const char *line)
{
    static const char *const levels[] = {"info", "warning", "error"};
    char quoted[STRING_BYTES], object[OBJECT_BYTES], when[40], code[SAY_CODE_BYTES] = "";
    int bytes;
    const char *event = say_event_of(line, &bytes, code);

    (void)ctx;
    quote(quoted, line, bytes);
    show_time(when, sizeof when);
    int used = snprintf(object, sizeof object,
                        "{\"time\": \"%s\", \"level\": \"%s\", \"text\": \"%s\"%s%s%s%s%s}\n", when,
                        levels[level], quoted, event ? ", \"code\": \"" : "", code,
                        event ? "\", \"event\": \"" : "", event ? event : "", event ? "\"" : "");
    if (write(STDERR_FILENO, object, (size_t)used) < 0) {
        /* Nowhere to report it. */
    }
}

struct tram_log log_lines(enum log_form form, enum tram_log_level least)
{
    if (form == LOG_TEXT)
        return api_log_stderr(least);
    return (struct tram_log){.line = json_line, .least = least};
}

void log_line_complain(enum log_form form, const char *command, const char *host, const char *text)
{
    char line[SAY_LINE_BYTES];

    snprintf(line, sizeof line, "%s: %s", host, text);
    if (form == LOG_JSON)
        json_line(NULL, TRAM_LOG_ERROR, line);
    else
        fprintf(stderr, "tram %s: %s\n", command, line);
}
