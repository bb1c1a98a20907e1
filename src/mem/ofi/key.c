/* The cluster's key: 32 random bytes as 64 hexadecimal digits and a line end, in a file of mode 0600. */
#include "mem/ofi/ofi.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 2 * OFI_KEY_BYTES };

int ofi_key_make(const char *path, struct err *e)
{
    unsigned char key[OFI_KEY_BYTES];
    char text[TEXT_BYTES + 2];

    if (sodium_init() < 0)
        return err_set(e, ERR_SYSTEM, "%s: no source of random numbers", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, ERR_EXISTS, "%s exists; a key is not replaced", path);
    if (fd < 0)
        return err_sys(e, "make %s", path);
    randombytes_buf(key, sizeof key);
    sodium_bin2hex(text, TEXT_BYTES + 1, key, sizeof key);
    text[TEXT_BYTES] = '\n';
    /* Whatever the umask is. */
    bool ok = fchmod(fd, 0600) == 0 && write(fd, text, TEXT_BYTES + 1) == TEXT_BYTES + 1 &&
              fsync(fd) == 0;
    int rc = ok ? 0 : err_sys(e, "write %s", path);
    close(fd);
    if (rc < 0)
        unlink(path);
    sodium_memzero(key, sizeof key);
    sodium_memzero(text, sizeof text);
    return rc;
}

static int check_file(int fd, const char *path, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "look at %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%s: a key is a plain file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(e, ERR_REFUSED, "%s: it belongs to uid %u; a key is ours (uid %u) or root's",
                       path, st.st_uid, geteuid());
    if (st.st_mode & 077)
        return err_set(e, ERR_REFUSED,
                       "%s: others may use it (mode %03o); a key is for its owner alone: chmod 600",
                       path, st.st_mode & 0777);
    return 0;
}

int ofi_key_read(const char *path, unsigned char key[OFI_KEY_BYTES], struct err *e)
{
    char text[TEXT_BYTES + 8];
    size_t bytes = 0;

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return err_set(
            e, ERR_NOTFOUND,
            "%s: there is no such file; `tram init` makes a key, and every machine of the "
            "cluster needs the same one",
            path);
    if (fd < 0)
        return err_sys(e, "open %s", path);
    int rc = check_file(fd, path, e);
    if (rc == 0) {
        ssize_t got = read(fd, text, sizeof text);
        const char *end;
        bool ok = got >= TEXT_BYTES &&
                  sodium_hex2bin(key, OFI_KEY_BYTES, text, TEXT_BYTES, NULL, &bytes, &end) == 0 &&
                  bytes == OFI_KEY_BYTES &&
                  (got == TEXT_BYTES || (got == TEXT_BYTES + 1 && text[TEXT_BYTES] == '\n'));
        if (got < 0)
            rc = err_sys(e, "read %s", path);
        else if (!ok)
            rc = err_set(e, ERR_INVALID, "%s: a key is one line of %d hexadecimal digits", path,
                         TEXT_BYTES);
    }
    close(fd);
    sodium_memzero(text, sizeof text);
    return rc;
}
