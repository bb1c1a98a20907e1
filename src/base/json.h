/* Strings in JSON. What is written is JSON whatever the text has in it: names in it may come from files and from others. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stddef.h>
#include <stdio.h>

/* The text as a string, quotes included. Bytes that are no UTF-8 become U+FFFD, one each. */
void json_string(FILE *, const char *text);

/* The same of so many bytes, into memory. What does not fit is left out, whole characters at a time; room: 3 at least. Returns the length. */
size_t json_quote(char *out, size_t room, const char *text, size_t bytes);

#endif
