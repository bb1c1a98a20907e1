/* Reading a command's options, with errors that say what would be right. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>

bool args_is_help(const char *option);

/* A whole number within [min, max]; CMD_DONE, or CMD_USAGE after a message. value may be NULL. */
int args_number(const char *command, const char *option, const char *value, uint64_t min,
                uint64_t max, uint64_t *out);

/* Print what is wrong; return CMD_USAGE. */
int args_bad(const char *command, const char *option, const char *what);
int args_unknown(const char *command, const char *option);

#endif
