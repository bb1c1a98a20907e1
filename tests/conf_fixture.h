/* For tests of cluster files: texts that are one or a part of one, and what must become of them. */
#ifndef TESTS_CONF_FIXTURE_H
#define TESTS_CONF_FIXTURE_H

#include "conf/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Public keys; the secret one of KEY_n is 32 bytes of the value n. */
#define KEY_1 "ed25519:iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="
#define KEY_2 "ed25519:gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q="
#define KEY_3 "ed25519:7UkoxijRwsbq6QM4kFmVYSlZJzpcY/k2NsFGFKyHN9E="
#define KEY_4 "ed25519:ypOsFwUYcHHWe4PH/w7+gQjo7EUwV113JoeTM9vavnw="
#define KEY_5 "ed25519:bnoc3Smwt4/ROvTFWY/v9O8qlxZuPKby5Pv8zYBQW/E="
#define KEY_6 "ed25519:iodf/x6zhFFXes1a/uQFRWVo3XyJ4JCGOgVXvHr0nxc="

#define HOSTS                                                                                      \
    "hosts:\n"                                                                                     \
    "  - {name: h1, address: 127.0.0.1:7101}\n"                                                    \
    "  - {name: h2, address: 127.0.0.1:7102}\n"                                                    \
    "  - {name: h3, address: 127.0.0.1:7103}\n"
#define TCP_HOSTS                                                                                  \
    "hosts:\n"                                                                                     \
    "  - {name: h1, address: 127.0.0.1:7101, key: " KEY_1 "}\n"                                    \
    "  - {name: h2, address: 127.0.0.1:7102, key: " KEY_2 "}\n"                                    \
    "  - {name: h3, address: 127.0.0.1:7103, key: " KEY_3 "}\n"
#define GROUPS                                                                                     \
    "groups:\n"                                                                                    \
    "  - {name: g1, replicas: [h1, h2, h3]}\n"                                                     \
    "  - {name: g2, parent: g1, replicas: [h2, h3, h1]}\n"

/* The text must be refused at that line of x.yaml, with all these words in what is said. */
static inline void refused(const char *text, unsigned line, const char *word, ...)
{
    struct cluster *c = NULL;
    struct err e = {0};
    char where[32];
    va_list ap;

    int rc = cluster_parse(text, strlen(text), "x.yaml", &c, &e);
    if (rc == 0) {
        cluster_free(c);
        fail_msg("accepted:\n%s", text);
    }
    assert_null(c);
    assert_int_equal(rc, ERR_INVALID);
    snprintf(where, sizeof where, "x.yaml:%u: ", line);
    if (strncmp(e.text, where, strlen(where)) != 0)
        fail_msg("not %s but: %s", where, e.text);
    /* What would be right comes after what is wrong; some say both in one breath with "not". */
    if (strchr(e.text, ';') == NULL && strstr(e.text, ", not ") == NULL)
        fail_msg("no advice: %s", e.text);
    va_start(ap, word);
    for (; word != NULL; word = va_arg(ap, const char *))
        if (strstr(e.text, word) == NULL)
            fail_msg("no '%s' in: %s", word, e.text);
    va_end(ap);
}

static inline struct cluster *accepted(const char *text)
{
    struct cluster *c = NULL;
    struct err e = {0};

    if (cluster_parse(text, strlen(text), "dir/x.yaml", &c, &e) < 0)
        fail_msg("refused: %s", e.text);
    return c;
}

static inline void writes_back_equal(const struct cluster *c)
{
    struct cluster *again = NULL;
    char *text = NULL;
    size_t bytes = 0;
    struct err e = {0};

    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(cluster_write(f, c, &e), 0);
    fclose(f);
    if (cluster_parse(text, bytes, "other.yaml", &again, &e) < 0)
        fail_msg("written, then refused: %s\n%s", e.text, text);
    assert_true(cluster_equal(c, again));
    assert_int_equal(c->warnings, again->warnings);
    cluster_free(again);
    free(text);
}

#endif
