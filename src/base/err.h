/* Errors: one list of codes for the whole project, and a text that says where it happened.
 *
 * A function that can fail because of the world returns 0, a positive count, or one of these
 * negative codes, and describes the case in the caller's `struct err` (which may be NULL):
 * what was attempted, on what, and what would be right. What only a programmer can do wrong is
 * asserted with CHECK, in release builds too. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

#define ERR_LIST(X)                                                                                \
    X(ERR_INVALID, "invalid argument")            /* a caller's value is out of range */           \
    X(ERR_NOMEM, "out of memory")                 /* heap or shared memory is used up */           \
    X(ERR_SYSTEM, "system call failed")           /* the text names the call and errno */          \
    X(ERR_EXISTS, "already in use")               /* another live process has the name */          \
    X(ERR_NOTFOUND, "not found")                  /* no such lane, region, node or file */         \
    X(ERR_TOOBIG, "too large")                    /* an entry or size over its maximum */          \
    X(ERR_AGAIN, "no room now, try again")        /* a ring or window is full */                   \
    X(ERR_REFUSED, "refused")                     /* wrong cluster, key, version or uid */         \
    X(ERR_LOST, "peer lost")                      /* the other side is gone */                     \
    X(ERR_DATA_LOST, "memory of a majority lost") /* the group cannot go on safely */              \
    X(ERR_TIMEOUT, "timed out")                   /* the deadline passed */                        \
    X(ERR_CORRUPT, "malformed data")              /* bytes that no correct peer writes */          \
    X(ERR_VIOLATED, "a property is violated")     /* a checker found what must not be */

enum err_code {
    ERR_OK = 0,
    ERR_FIRST_ = -1000,
#define ERR_ENUM_(code, text) code,
    ERR_LIST(ERR_ENUM_)
#undef ERR_ENUM_
};

enum { ERR_TEXT_BYTES = 512 };

struct err {
    char text[ERR_TEXT_BYTES]; /* empty until something failed */
};

/* Writes the text and returns code, so that `return err_set(...)` is one line. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set with ERR_SYSTEM (ERR_NOMEM for ENOMEM and ENOSPC), and appends the text of errno. */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The short text of a code, e.g. "already in use". */
const char *err_name(int code);

/* Stops the process with file, line and the broken condition. On in every build. */
_Noreturn void check_failed(const char *file, int line, const char *cond);
#define CHECK(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))

/* Stops the process with what there was no memory for: so many things of that size. */
_Noreturn void memory_failed(const char *what, size_t size, size_t count);

#endif
