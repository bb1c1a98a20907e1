/* Public keys as texts, and those that stand in a file of their own. */
#include "conf/cluster_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BASE64_CHARS = 44,
    ANY_FILE_BYTES_MAX = 1024, /* two keys, and a few words about them */
};

_Static_assert(sizeof PUBLIC_PREFIX - 1 + BASE64_CHARS + 1 == CLUSTER_PUBLIC_TEXT, "it fits");
_Static_assert(sodium_base64_ENCODED_LEN(CLUSTER_PUBLIC_BYTES, sodium_base64_VARIANT_ORIGINAL) ==
                   BASE64_CHARS + 1,
               "and is filled");

const char *cluster_public_parse(const char *text, unsigned char key[CLUSTER_PUBLIC_BYTES])
{
    const size_t prefix = sizeof PUBLIC_PREFIX - 1;
    size_t bytes = 0;

    if (strncmp(text, "ed25519-secret:", 15) == 0)
        return "is a secret one, which belongs into no cluster file: make a new one";
    if (strncmp(text, PUBLIC_PREFIX, prefix) != 0)
        return "does not begin with `" PUBLIC_PREFIX "`";
    if (strlen(text + prefix) != BASE64_CHARS)
        return "does not have 44 characters behind `" PUBLIC_PREFIX "`";
    if (sodium_base642bin(key, CLUSTER_PUBLIC_BYTES, text + prefix, BASE64_CHARS, NULL, &bytes,
                          NULL, sodium_base64_VARIANT_ORIGINAL) != 0 ||
        bytes != CLUSTER_PUBLIC_BYTES)
        return "is not base64";
    /* Everybody could sign for some of those that are none. */
    if (crypto_core_ed25519_is_valid_point(key) != 1)
        return "is no Ed25519 key, so nobody can have the secret one";
    return NULL;
}

void cluster_public_text(const unsigned char key[CLUSTER_PUBLIC_BYTES],
                         char out[CLUSTER_PUBLIC_TEXT])
{
    const size_t prefix = sizeof PUBLIC_PREFIX - 1;

    memcpy(out, PUBLIC_PREFIX, prefix);
    sodium_bin2base64(out + prefix, CLUSTER_PUBLIC_TEXT - prefix, key, CLUSTER_PUBLIC_BYTES,
                      sodium_base64_VARIANT_ORIGINAL);
}

int cluster_keys_find(const struct cluster_keys *k, const unsigned char key[CLUSTER_PUBLIC_BYTES])
{
    for (uint32_t i = 0; i < k->count; i++)
        if (memcmp(k->key[i], key, CLUSTER_PUBLIC_BYTES) == 0)
            return (int)i;
    return CLUSTER_NONE;
}

/* ---- any-with-key FILE ---- */

/* One line of it, cut to what it has. Empty lines and those that begin with # say nothing. */
static const char *take_line(const struct cluster *c, char *line, struct cluster_keys *keys)
{
    uint32_t at;
    size_t bytes = strcspn(line, "\r");

    line[bytes] = '\0';
    while (bytes > 0 && line[bytes - 1] == ' ')
        line[--bytes] = '\0';
    if (line[0] == '\0' || line[0] == '#')
        return NULL;
    if (keys->count == CLUSTER_KEYS_EACH)
        return "has more than two keys; leave one of them out";
    unsigned char *key = keys->key[keys->count];
    if (cluster_public_parse(line, key) != NULL)
        return "has a line that is no key; each is `" PUBLIC_PREFIX
               "` and 44 characters of base64, as `tram key show` prints it";
    if (cluster_keys_find(keys, key) != CLUSTER_NONE)
        return "has the same key twice; leave one out";
    if (cluster_key_owner(c, key, &at) != NULL)
        return "has a key of a host; make another one for clients";
    keys->count++;
    return NULL;
}

static const char *take_lines(const struct cluster *c, char *text, struct cluster_keys *keys)
{
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        const char *wrong = take_line(c, line, keys);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

/* The file's text, with a 0 behind it. It must be small and plain: something else may never end. */
static int read_small(const char *path, char *text, size_t room)
{
    struct stat st;
    size_t used = 0;
    ssize_t n = 1;

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -1;
    errno = EINVAL;
    bool plain = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    while (plain && n > 0 && used < room) {
        n = read(fd, text + used, room - used);
        used += n > 0 ? (size_t)n : 0;
    }
    int failed = errno;
    close(fd);
    errno = plain && used == room ? EFBIG : failed;
    if (!plain || n < 0 || used == room)
        return -1;
    text[used] = '\0';
    return 0;
}

int cluster_read_any(struct cluster *c, const char *file, struct err *e)
{
    char path[1024], text[ANY_FILE_BYTES_MAX], shown[DOC_FILE_BYTES], in[DOC_FILE_BYTES];
    struct cluster_keys keys = {.count = 0};

    if (c->any_file[0] == '\0')
        return 0;
    int rc = cluster_path(c, file, CLUSTER_PATH_ANY, NULL, path, sizeof path, e);
    if (rc < 0)
        return rc;
    c->client_key[0].keys.count = 0;
    doc_show_file(file, in);
    doc_show_file(path, shown);
    if (read_small(path, text, sizeof text) < 0) {
        if (errno == ENOENT)
            return err_set(e, ERR_NOTFOUND,
                           "%s:%u: there is no file %s; `tram key new %s --client " CLIENT_ANY
                           "` makes it",
                           in, c->any_line, shown, in);
        return err_sys(e, "%s:%u: %s cannot be read", in, c->any_line, shown);
    }
    const char *wrong = take_lines(c, text, &keys);
    if (wrong != NULL)
        return err_set(e, ERR_INVALID, "%s:%u: %s %s", in, c->any_line, shown, wrong);
    if (keys.count == 0)
        return err_set(e, ERR_NOTFOUND,
                       "%s:%u: %s has no key; `tram key new %s --client " CLIENT_ANY "` makes one",
                       in, c->any_line, shown, in);
    c->client_key[0].keys = keys;
    return 0;
}
