#include "base/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int threshold = SAY_WARN;

void say_set_level(enum say_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

static void say(enum say_level level, const char *prefix, const char *fmt, va_list ap)
{
    char line[SAY_LINE_BYTES];
    int saved = errno;

    if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed))
        return;
    size_t used = (size_t)snprintf(line, sizeof line, "tram: %s", prefix);
    vsnprintf(line + used, sizeof line - used, fmt, ap);
    used = strlen(line);
    line[used++] = '\n'; /* in place of the end of the string, so it always fits */
    if (write(STDERR_FILENO, line, used) < 0) {
        /* Nowhere to report it. */
    }
    errno = saved;
}

#define SAY_BODY_(level, prefix)                                                                   \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    say(level, prefix, fmt, ap);                                                                   \
    va_end(ap)

void say_error(const char *fmt, ...)
{
    SAY_BODY_(SAY_ERROR, "error: ");
}

void say_warn(const char *fmt, ...)
{
    SAY_BODY_(SAY_WARN, "warning: ");
}

void say_info(const char *fmt, ...)
{
    SAY_BODY_(SAY_INFO, "");
}
