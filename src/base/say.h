/* Log lines for a person. The library writes nothing by itself: each line goes to the sink that the user
 * gave for the host or client it is about (struct tram_log in tram.h).
 *
 * How to log from any layer: take a `struct say` in the options of what is opened (zeroed, it drops every
 * line), keep a copy, and
 *     say_warn(&o->say, "%s: no connection to %s", o->name, peer);
 * A line is about one thing, names who and what, and has no prefix and no newline. What a peer can bring
 * about as often as it likes is said once a peer:
 *     say_once(&o->heard, &o->say, SAY_WARN, "%s: %s is refused: %s", o->name, address, why);
 * with a `struct say_heard heard` of the caller's, zeroed at first. The protocols (agree, mcast) do not log:
 * they keep what happened in their stats, and api/watch.c looks there and logs.
 *
 * What an operator may have to act on, or wants to count, is an event, with a code (base/say_events.h):
 *     say_event(&o->say, SAY_EVENT_TORN, "%s: the last write was torn", o->name);
 * and, if it is about groups, another host or a view, says so for programs, too:
 *     say_event_about(&o->say, SAY_EVENT_DETACH, &(struct say_about){.peer = peer}, "%s: %s is detached", o->name, peer);
 *
 * A sink may be called by any thread that the library runs in. Nothing here fails, allocates or waits by
 * itself; errno is left as it was. */
#ifndef BASE_SAY_H
#define BASE_SAY_H

#include "base/say_events.h"

#include <stdbool.h>
#include <stdint.h>

/* As enum tram_log_level. */
enum say_level {
    SAY_INFO,  /* what happens, for who watches */
    SAY_WARN,  /* something is wrong, and work goes on */
    SAY_ERROR, /* something was given up */
};

enum {
    SAY_LINE_BYTES = 1024, /* a longer text is cut */
    SAY_HEARD_MAX = 64,
    SAY_CODE_BYTES = 8, /* "TW-102" */
};

struct say {
    /* Takes a line without a newline; NULL: all are dropped. */
    void (*line)(void *ctx, enum say_level, const char *line);
    void *ctx;
    enum say_level least; /* lines of lower levels are dropped */
};

void say_error(const struct say *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void say_warn(const struct say *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void say_info(const struct say *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The lines that were said, as hashes: the last SAY_HEARD_MAX different ones. With more peers than that
 * at a time, lines come again. One thread. */
struct say_heard {
    uint64_t hash[SAY_HEARD_MAX];
    uint32_t count; /* ever */
};

/* As the above, but a line that is among those heard is dropped. Returns whether it was new. */
bool say_once(struct say_heard *, const struct say *, enum say_level, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Of an event, at its level, and with its code at the end of the line. */
void say_event(const struct say *, enum say_event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What an event is about, for sinks that show it in fields of its own. What is NULL or 0 is not said. */
struct say_about {
    const char *peer;     /* another host */
    const char *groups;   /* names, ", " between them */
    uint32_t groups_more; /* that are not among these */
    const char *cell;
    uint64_t view;
};

void say_event_about(const struct say *, enum say_event, const struct say_about *, const char *fmt,
                     ...) __attribute__((format(printf, 4, 5)));
bool say_event_once(struct say_heard *, const struct say *, enum say_event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* For a sink, while it has a line: what that is about. */
struct say_about say_about(void);

/* The word of an event that a line ends with the code of; NULL: it has none. *text_bytes: how long it is
 * without the code; code: "TW-102". */
const char *say_event_of(const char *line, int *text_bytes, char code[SAY_CODE_BYTES]);

/* For programs, not for the library: writes "tram: warning: h2 is gone\n" to stderr, each line in one
 * write, so that lines of several threads and processes do not mix. */
struct say say_stderr(enum say_level least);

#endif
