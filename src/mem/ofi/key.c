/* The cluster's key: 32 random bytes as 64 hexadecimal digits and a line end, in a file of mode 0600. */
#include "mem/ofi/ofi.h"
#include "mem/secret.h"

#include <sodium.h>

enum { TEXT_BYTES = 2 * OFI_KEY_BYTES };

int ofi_key_make(const char *path, struct err *e)
{
    unsigned char key[OFI_KEY_BYTES];
    char text[TEXT_BYTES + 2];

    if (sodium_init() < 0)
        return err_set(e, ERR_SYSTEM, "%s: no source of random numbers", path);
    randombytes_buf(key, sizeof key);
    sodium_bin2hex(text, TEXT_BYTES + 1, key, sizeof key);
    text[TEXT_BYTES] = '\n';
    int rc = secret_make(path, text, TEXT_BYTES + 1, e);
    sodium_memzero(key, sizeof key);
    sodium_memzero(text, sizeof text);
    return rc;
}

static bool parse(const char *text, long got, unsigned char key[OFI_KEY_BYTES])
{
    const char *end;
    size_t bytes = 0;

    return got >= TEXT_BYTES &&
           sodium_hex2bin(key, OFI_KEY_BYTES, text, TEXT_BYTES, NULL, &bytes, &end) == 0 &&
           bytes == OFI_KEY_BYTES &&
           (got == TEXT_BYTES || (got == TEXT_BYTES + 1 && text[TEXT_BYTES] == '\n'));
}

int ofi_key_read(const char *path, unsigned char key[OFI_KEY_BYTES], struct err *e)
{
    char text[TEXT_BYTES + 8];
    long got = secret_read(
        path, "`tram init` makes a key, and every machine of the cluster needs the same one", text,
        sizeof text, e);
    int rc = got < 0 ? (int)got : 0;

    if (rc == 0 && !parse(text, got, key))
        rc = err_set(e, ERR_INVALID, "%s: a key is one line of %d hexadecimal digits", path,
                     TEXT_BYTES);
    sodium_memzero(text, sizeof text);
    return rc;
}
