/* Loading the cluster file for a command, with its mistakes told to the person who typed it. */
#ifndef CLI_CONF_H
#define CLI_CONF_H

#include "conf/cluster.h"

/* Loads the file and prints its warnings, or what is wrong, on standard error, as editors expect it:
 * "FILE:LINE: text". CMD_DONE; CMD_USAGE if there is no such file; CMD_FAILED if it has a mistake or
 * cannot be read, and *out is NULL. */
int conf_load_or_complain(const char *path, struct cluster **out);

/* For --check-only: the same, says on standard output what the file describes, and frees it. */
int conf_check_only(const char *path);

#endif
