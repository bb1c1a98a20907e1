/* Whatever the bytes of a cluster file are: it is read, and what is written of it loads back equal, or it
 * is refused with a text that names the file and, if its content is wrong, the line. */
#include "conf/cluster.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cluster *c = NULL, *again = NULL;
    struct err e = {0};
    char *text = NULL;
    size_t text_bytes = 0;

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
