#include "cli/args.h"

#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool args_is_help(const char *option)
{
    return strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0;
}

int args_bad(const char *command, const char *option, const char *what)
{
    fprintf(stderr, "tram %s: %s: %s\n", command, option, what);
    return CMD_USAGE;
}

int args_unknown(const char *command, const char *option)
{
    fprintf(stderr, "tram %s: there is no option '%s'; `tram %s --help` lists them\n", command,
            option, command);
    return CMD_USAGE;
}

int args_number(const char *command, const char *option, const char *value, uint64_t min,
                uint64_t max, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long v = value ? strtoull(value, &end, 10) : 0;
    if (value == NULL || *value < '0' || *value > '9' || *end != '\0' || errno != 0 || v < min ||
        v > max) {
        fprintf(stderr, "tram %s: %s needs a whole number from %llu to %llu, not '%s'\n", command,
                option, (unsigned long long)min, (unsigned long long)max, value ? value : "");
        return CMD_USAGE;
    }
    *out = v;
    return CMD_DONE;
}
