#include "base/say.h"

#include "base/hash.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool wanted(const struct say *to, enum say_level level)
{
    return to->line != NULL && level >= to->least;
}

static void say(const struct say *to, enum say_level level, const char *fmt, va_list ap)
{
    char line[SAY_LINE_BYTES];
    int saved = errno;

    if (!wanted(to, level))
        return;
    vsnprintf(line, sizeof line, fmt, ap);
    to->line(to->ctx, level, line);
    errno = saved;
}

#define SAY_BODY_(to, level)                                                                       \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    say(to, level, fmt, ap);                                                                       \
    va_end(ap)

void say_error(const struct say *to, const char *fmt, ...)
{
    SAY_BODY_(to, SAY_ERROR);
}

void say_warn(const struct say *to, const char *fmt, ...)
{
    SAY_BODY_(to, SAY_WARN);
}

void say_info(const struct say *to, const char *fmt, ...)
{
    SAY_BODY_(to, SAY_INFO);
}

static const struct event {
    int code;
    enum say_level level;
    const char *word;
} events[] = {
#define X(name, code, level, word) [SAY_EVENT_##name] = {code, level, word},
    SAY_EVENTS(X)
#undef X
};

enum { EVENTS = sizeof events / sizeof *events };

/* The line, as far as there is room for it with the code behind. */
static void event_line(char line[SAY_LINE_BYTES], const struct event *event, const char *fmt,
                       va_list ap)
{
    const int room = SAY_LINE_BYTES - SAY_CODE_BYTES - 3;
    int used = vsnprintf(line, (size_t)room, fmt, ap);
    used = used < 0 ? 0 : used < room ? used : room - 1;
    snprintf(line + used, (size_t)(SAY_LINE_BYTES - used), " [TW-%03d]", event->code);
}

/* Sinks take a line and no more, so what it is about waits here for those that ask. */
static _Thread_local struct say_about about_now;

struct say_about say_about(void)
{
    return about_now;
}

static void tell_event(const struct say *to, enum say_event which, const struct say_about *about,
                       const char *fmt, va_list ap)
{
    const struct event *event = &events[which];
    char line[SAY_LINE_BYTES];
    int saved = errno;

    if (!wanted(to, event->level))
        return;
    event_line(line, event, fmt, ap);
    about_now = *about;
    to->line(to->ctx, event->level, line);
    about_now = (struct say_about){.peer = NULL};
    errno = saved;
}

void say_event(const struct say *to, enum say_event which, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tell_event(to, which, &(struct say_about){.peer = NULL}, fmt, ap);
    va_end(ap);
}

void say_event_about(const struct say *to, enum say_event which, const struct say_about *about,
                     const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tell_event(to, which, about, fmt, ap);
    va_end(ap);
}

const char *say_event_of(const char *line, int *text_bytes, char code[SAY_CODE_BYTES])
{
    const char *at = strrchr(line, '[');
    int number, used = 0;

    *text_bytes = (int)strlen(line);
    if (at == NULL || at == line || sscanf(at, "[TW-%3d]%n", &number, &used) != 1 || at[used] != 0)
        return NULL;
    for (int i = 0; i < EVENTS && used > 0; i++)
        if (events[i].code == number) {
            *text_bytes = (int)(at - line) - 1;
            snprintf(code, SAY_CODE_BYTES, "TW-%03d", number % 1000);
            return events[i].word;
        }
    return NULL;
}

static bool is_new(struct say_heard *heard, const char *line)
{
    uint64_t hash = hash_bytes(0, line, strlen(line));
    uint32_t known = heard->count < SAY_HEARD_MAX ? heard->count : SAY_HEARD_MAX;

    for (uint32_t i = 0; i < known; i++)
        if (heard->hash[i] == hash)
            return false;
    heard->hash[heard->count++ % SAY_HEARD_MAX] = hash;
    return true;
}

static bool say_new(struct say_heard *heard, const struct say *to, enum say_level level,
                    const char *line)
{
    bool is = is_new(heard, line);
    if (is && wanted(to, level))
        to->line(to->ctx, level, line);
    return is;
}

bool say_once(struct say_heard *heard, const struct say *to, enum say_level level, const char *fmt,
              ...)
{
    char line[SAY_LINE_BYTES];
    int saved = errno;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    bool is = say_new(heard, to, level, line);
    errno = saved;
    return is;
}

bool say_event_once(struct say_heard *heard, const struct say *to, enum say_event which,
                    const char *fmt, ...)
{
    char line[SAY_LINE_BYTES];
    int saved = errno;
    va_list ap;

    va_start(ap, fmt);
    event_line(line, &events[which], fmt, ap);
    va_end(ap);
    bool is = say_new(heard, to, events[which].level, line);
    errno = saved;
    return is;
}

static void write_line(void *ctx, enum say_level level, const char *text)
{
    static const char *const prefix[] = {
        [SAY_INFO] = "", [SAY_WARN] = "warning: ", [SAY_ERROR] = "error: "};
    char line[SAY_LINE_BYTES + 32];

    (void)ctx;
    int used = snprintf(line, sizeof line, "tram: %s%s\n", prefix[level], text);
    if (write(STDERR_FILENO, line, (size_t)used) < 0) {
        /* Nowhere to report it. */
    }
}

struct say say_stderr(enum say_level least)
{
    return (struct say){.line = write_line, .least = least};
}
