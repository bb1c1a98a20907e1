/* Single values of a configuration: names, sizes, addresses, and the word that was probably meant.
 * Pure functions. */
#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAME_CHARS_MAX = 30, VALUE_SHOWN_BYTES = 24 };

/* Letters, digits, - _ and ., at most NAME_CHARS_MAX; a letter, digit or _ first, because names
 * become names of files and arguments of programs. */
bool name_ok(const char *);
bool name_char_ok(char);

/* A whole number: digits only. */
bool value_number(const char *text, uint64_t *);

/* A number of bytes: digits, then nothing, k, KiB, M, MiB, G or GiB, in either case, a space between allowed. */
bool value_size(const char *text, uint64_t *);

/* The same backwards: "256 KiB", "1 MiB" or "100". */
struct value_shown {
    char s[VALUE_SHOWN_BYTES];
};
struct value_shown value_size_shown(uint64_t bytes);

/* The same to a tenth of the unit, for sums: "3.2 GiB". */
struct value_shown value_size_about(uint64_t bytes);

/* The least power of two that is v or more. v is at most 2^63. */
uint64_t value_power_from(uint64_t v);

/* Splits "HOST:PORT" or "[IPV6]:PORT". NULL, or what is wrong with it. */
const char *value_address(const char *text, char *host, size_t host_bytes, uint16_t *port);

/* Is a host of that address, as value_address gives it, on this machine whoever looks? */
bool value_loopback(const char *host);

#endif
