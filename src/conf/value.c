#include "conf/value.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SIZE_DIGITS_MAX = 18 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool name_char_ok(char c)
{
    return is_alnum(c) || c == '-' || c == '_' || c == '.';
}

bool name_ok(const char *name)
{
    size_t n = 0;

    if (!is_alnum(name[0]) && name[0] != '_')
        return false;
    for (; name[n] != '\0'; n++)
        if (n == NAME_CHARS_MAX || !name_char_ok(name[n]))
            return false;
    return true;
}

/* The digits at the front; returns what follows them, NULL if there are none or too many. */
static const char *digits(const char *text, uint64_t *out)
{
    uint64_t v = 0;
    size_t n = 0;

    for (; is_digit(text[n]); n++) {
        if (n == SIZE_DIGITS_MAX)
            return NULL;
        v = v * 10 + (uint64_t)(text[n] - '0');
    }
    *out = v;
    return n > 0 ? text + n : NULL;
}

bool value_number(const char *text, uint64_t *out)
{
    const char *rest = digits(text, out);

    return rest != NULL && *rest == '\0';
}

bool value_size(const char *text, uint64_t *out)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {{"", 0}, {"k", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
    const char *rest = digits(text, out);

    if (rest == NULL)
        return false;
    if (*rest == ' ' && rest[1] != '\0')
        rest++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(rest, units[i].suffix) != 0)
            continue;
        if (*out > UINT64_MAX >> units[i].shift)
            return false;
        *out <<= units[i].shift;
        return true;
    }
    return false;
}

struct value_shown value_size_shown(uint64_t bytes)
{
    struct value_shown out;
    bool mega = bytes > 0 && bytes % (1 << 20) == 0, kilo = bytes > 0 && bytes % (1 << 10) == 0;

    snprintf(out.s, sizeof out.s, "%llu%s",
             (unsigned long long)(mega   ? bytes >> 20
                                  : kilo ? bytes >> 10
                                         : bytes),
             mega   ? " MiB"
             : kilo ? " KiB"
                    : "");
    return out;
}

struct value_shown value_size_about(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    struct value_shown out;
    double n = (double)bytes / 1024;
    unsigned unit = 0;

    for (; n >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        n /= 1024;
    snprintf(out.s, sizeof out.s, "%.1f %s", n, units[unit]);
    return out;
}

uint64_t value_power_from(uint64_t v)
{
    uint64_t power = 1;

    while (power < v)
        power *= 2;
    return power;
}

static const char *check_host(const char *host, bool bracketed)
{
    unsigned char number[sizeof(struct in6_addr)];
    bool numeric = true;

    if (*host == '\0')
        return "has no host before the port";
    if (bracketed)
        return inet_pton(AF_INET6, host, number) == 1 ? NULL
                                                      : "has no IPv6 address in its brackets";
    for (const char *c = host; *c != '\0'; c++) {
        if (*c == ':')
            return "has too many colons; an IPv6 address stands in brackets";
        if (!name_char_ok(*c))
            return "has a character that no host name has";
        numeric = numeric && (is_digit(*c) || *c == '.');
    }
    if (numeric && inet_pton(AF_INET, host, number) != 1)
        return "has no IPv4 address before the port: four numbers from 0 to 255";
    if (*host == '-' || *host == '.')
        return "has a host name that begins with a '-' or '.'";
    return NULL;
}

const char *value_address(const char *text, char *host, size_t host_bytes, uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    uint64_t number = 0;

    if (colon == NULL)
        return "has no port";
    bool bracketed = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
    const char *from = bracketed ? text + 1 : text;
    size_t bytes = (size_t)(colon - from) - (bracketed ? 1 : 0);
    if (bytes >= host_bytes)
        return "has a host name that is too long";
    if (!value_number(colon + 1, &number) || number < 1 || number > UINT16_MAX)
        return "has no port from 1 to 65535 behind the colon";
    memcpy(host, from, bytes);
    host[bytes] = '\0';
    *port = (uint16_t)number;
    return check_host(host, bracketed);
}

bool value_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(host, "localhost") == 0;
}
