/* Times and versions of messages, as people write them. */
#ifndef CLI_WHEN_H
#define CLI_WHEN_H

#include <stdbool.h>
#include <stdint.h>

/* "2026-11-18 20:57:19.25", a T between them, or @SECONDS; ns since 1970. False: it is none. */
bool when_time(const char *text, uint64_t *ns);

/* VIEW.NUMBER, or a view alone. */
bool when_version(const char *text, uint64_t *version);

#endif
