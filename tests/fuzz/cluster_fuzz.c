/* Whatever the bytes of a cluster file are: it is read, and what is written of it loads back equal, or it
 * is refused with a text that names the file and, if its content is wrong, the line. Where hosts and clients have keys,
 * one is added to each and taken away again, which changes nothing else or is refused. */
#include "conf/cluster_edit.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_refusal(int rc, const struct err *e)
{
    unsigned line = 0;
    int used = 0;

    CHECK(rc == ERR_INVALID || rc == ERR_TOOBIG);
    CHECK(strncmp(e->text, "f.yaml:", 7) == 0);
    if (rc == ERR_INVALID)
        CHECK(sscanf(e->text, "f.yaml:%u: %n", &line, &used) == 1 && line > 0 && used > 0);
    for (const char *c = e->text; *c != '\0'; c++)
        CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
}

/* Adds the key to the name, or drops it: a new text for *text, or false and the old one. */
static bool edit(char **text, size_t *bytes, struct cluster_edit *change, bool drop)
{
    struct err e = {0};
    char *out = NULL;
    size_t out_bytes = 0;

    change->drop = drop;
    int rc = cluster_edit(*text, *bytes, "f.yaml", change, &out, &out_bytes, &e);
    CHECK(rc == 0 || rc == ERR_REFUSED || rc == ERR_INVALID);
    CHECK((rc == 0) == (out != NULL) && (rc == 0 || strncmp(e.text, "f.yaml:", 7) == 0));
    if (rc < 0)
        return false;
    free(*text);
    *text = out;
    *bytes = out_bytes;
    return true;
}

/* cluster_edit itself compares what it makes with what was wanted; there and back must be where we were. */
static void check_edits(const uint8_t *data, size_t bytes)
{
    static const char key[] = "ed25519:E5j2LG0aRXxRumpLXz29L2n8qTIWIY3ImX5Ba9F9k8o=";
    struct cluster *c = NULL, *again = NULL;
    struct cluster_edit change = {.name = ""};
    struct err e = {0};

    if (cluster_parse_lax((const char *)data, bytes, "f.yaml", &c, &e) < 0)
        return;
    CHECK(cluster_public_parse(key, change.key) == NULL);
    for (uint32_t i = 0; c->transport == CLUSTER_TCP && i < 2; i++) {
        char *text = malloc(bytes + 1);
        size_t now = bytes;

        CHECK(text != NULL);
        memcpy(text, data, bytes);
        change.client = i == 1;
        change.name = i == 0           ? c->host[c->hosts - 1].name
                      : c->client_keys ? c->client_key[c->client_keys - 1].name
                                       : "new";
        bool there = i == 0 || c->client_keys > 0; /* a new one stays, without a key */
        if (edit(&text, &now, &change, false) && edit(&text, &now, &change, true)) {
            CHECK(cluster_parse_lax(text, now, "f.yaml", &again, &e) == 0);
            CHECK(cluster_equal(c, again) == there);
            cluster_free(again);
        }
        free(text);
    }
    cluster_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cluster *c = NULL, *again = NULL;
    struct err e = {0};
    char *text = NULL;
    size_t text_bytes = 0;

    check_edits(data, bytes);
    int rc = cluster_parse((const char *)data, bytes, "f.yaml", &c, &e);
    if (rc < 0) {
        CHECK(c == NULL);
        check_refusal(rc, &e);
        return 0;
    }
    FILE *f = open_memstream(&text, &text_bytes);
    CHECK(f != NULL && cluster_write(f, c, &e) == 0 && fclose(f) == 0);
    CHECK(cluster_parse(text, text_bytes, "f.yaml", &again, &e) == 0);
    CHECK(cluster_equal(c, again) && c->warnings == again->warnings);
    cluster_free(c);
    cluster_free(again);
    free(text);
    return 0;
}
