/* Log lines for a person, to stderr: "tram: warning: h2 is gone".
 *
 * Each call is one line and one write, so that lines of several threads and processes do not
 * mix; a text too long for SAY_LINE_BYTES is cut. Any thread. Never fails: a line that cannot be
 * written is dropped. errno is left as it was. */
#ifndef BASE_SAY_H
#define BASE_SAY_H

enum say_level {
    SAY_ERROR, /* something was given up */
    SAY_WARN,  /* something is wrong, and work goes on */
    SAY_INFO,  /* what happens, for who watches */
};

enum { SAY_LINE_BYTES = 1024 };

/* Lines above this level are dropped; SAY_WARN until it is set. */
void say_set_level(enum say_level);

void say_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
