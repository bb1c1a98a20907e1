/* Where a host's log lines go: standard error, as text, or one JSON object a line (--log). */
#ifndef CLI_LOG_LINES_H
#define CLI_LOG_LINES_H

#include "tram.h"

enum log_form { LOG_TEXT, LOG_JSON };

/* For --log; ends with NULL. */
extern const char *const log_forms[];

/* Of that host, whose name stays where it is. */
struct tram_log log_lines(enum log_form, enum tram_log_level least, const char *host);

/* Why the command ends. */
void log_line_complain(enum log_form, const char *command, const char *host, const char *text);

#endif
