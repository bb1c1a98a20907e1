#include "base/json.h"

#include <stdbool.h>
#include <string.h>

enum { SHOWN_BYTES = 8 }; /* "\u001f" and a NUL */

/* How many bytes the character at the beginning has; 0: they are no UTF-8. */
static size_t utf8_bytes(const unsigned char *p, size_t bytes)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80   ? 1
               : p[0] < 0xc0 ? 0
               : p[0] < 0xe0 ? 2
               : p[0] < 0xf0 ? 3
               : p[0] < 0xf8 ? 4
                             : 0;
    unsigned value = n < 2 ? p[0] : p[0] & (0x7fu >> n);

    if (n > bytes)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (p[i] & 0x3f);
    }
    bool surrogate = value >= 0xd800 && value <= 0xdfff;
    return n && (value < least[n] || value > 0x10ffff || surrogate) ? 0 : n;
}

/* How the character at the beginning is shown inside a string. Returns its bytes. */
static size_t show(char shown[SHOWN_BYTES], const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = utf8_bytes(p, bytes);

    if (n == 0)
        snprintf(shown, SHOWN_BYTES, "\\ufffd");
    else if (*p < 0x20 || *p == 0x7f)
        snprintf(shown, SHOWN_BYTES, "\\u%04x", *p);
    else
        snprintf(shown, SHOWN_BYTES, "%s%.*s", *p == '"' || *p == '\\' ? "\\" : "", (int)n, text);
    return n ? n : 1;
}

void json_string(FILE *f, const char *text)
{
    const char *end = text + strlen(text);
    char shown[SHOWN_BYTES];

    fputc('"', f);
    while (text < end) {
        text += show(shown, text, (size_t)(end - text));
        fputs(shown, f);
    }
    fputc('"', f);
}

size_t json_quote(char *out, size_t room, const char *text, size_t bytes)
{
    size_t used = 0, last = room - 2; /* for the quote and the NUL */
    const char *end = text + bytes;
    char shown[SHOWN_BYTES];

    out[used++] = '"';
    while (text < end) {
        text += show(shown, text, (size_t)(end - text));
        size_t n = strlen(shown);
        if (used + n > last)
            break;
        memcpy(out + used, shown, n);
        used += n;
    }
    out[used++] = '"';
    out[used] = '\0';
    return used;
}
