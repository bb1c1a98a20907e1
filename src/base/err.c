#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    if (e) {
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int saved = errno; /* vsnprintf may change it, and the caller may still want it */
    va_list ap;

    if (e) {
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
        size_t used = strlen(e->text);
        const char *why = strerrordesc_np(saved); /* thread-safe, unlike strerror */
        snprintf(e->text + used, sizeof e->text - used, ": %s", why ? why : "unknown errno");
    }
    errno = saved;
    return saved == ENOMEM || saved == ENOSPC ? ERR_NOMEM : ERR_SYSTEM;
}

const char *err_name(int code)
{
    switch (code) {
    case ERR_OK:
        return "ok";
#define ERR_CASE_(c, text)                                                                         \
    case c:                                                                                        \
        return text;
        ERR_LIST(ERR_CASE_)
#undef ERR_CASE_
    default:
        return "unknown error";
    }
}

_Noreturn void check_failed(const char *file, int line, const char *cond)
{
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, cond);
    abort();
}

void memory_failed(const char *what, size_t size, size_t count)
{
    fprintf(stderr, "no memory for %s: %zu times %zu bytes were wanted\n", what, count, size);
    abort();
}
