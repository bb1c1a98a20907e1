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

bool say_once(struct say_heard *heard, const struct say *to, enum say_level level, const char *fmt,
              ...)
{
    char line[SAY_LINE_BYTES];
    int saved = errno;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    bool is = is_new(heard, line);
    if (is && wanted(to, level))
        to->line(to->ctx, level, line);
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
