#include "conf/take.h"

#include "base/nearest.h"
#include "conf/value.h"

#include <string.h>

/* "a, b, c" of a list of words, for the end of a sentence. */
static void join(const char *const *list, char *out, size_t bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; list[i] != NULL && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? ", " : "", list[i]);
}

int take_keys(struct reader *r, const struct node *map, const char *of, const char *const *keys,
              const struct node **value)
{
    uint32_t at = map->first;

    for (uint32_t i = 0; i < map->count; i += 2) {
        const struct node *key = doc_node(r->d, at);
        const char *word = doc_text(r->d, key);
        unsigned index;

        if (!word_index(keys, word, &index)) {
            const char *near = nearest_name(word, nearest_array(keys));
            char known[ERR_TEXT_BYTES];

            join(keys, known, sizeof known);
            return doc_bad(r->d, key->line, r->e, "%s has no key '%s'; %s %s%s", of,
                           doc_shown(word).s, near ? "did you mean" : "the keys are",
                           near ? near : known, near ? "? tram-cluster(5) has them all" : "");
        }
        value[index] = doc_node(r->d, key->next);
        at = value[index]->next;
    }
    return 0;
}

int take_text(struct reader *r, const struct node *n, const char *what, const char *right,
              const char **out)
{
    if (n->kind != NODE_TEXT || *doc_text(r->d, n) == '\0')
        return doc_bad(r->d, n->line, r->e, "%s must be %s, not %s", what, right,
                       doc_what(r->d, n).s);
    *out = doc_text(r->d, n);
    return 0;
}

int take_name(struct reader *r, const struct node *n, const char *what, char *out)
{
    const char *text = NULL;

    int rc = take_text(r, n, what, "a word", &text);
    if (rc < 0)
        return rc;
    if (!name_ok(text))
        return doc_bad(r->d, n->line, r->e,
                       "%s '%s' is no name; use letters, digits, - _ and . in it, at most %d, and"
                       " a letter, digit or _ first",
                       what, doc_shown(text).s, NAME_CHARS_MAX);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

int take_word(struct reader *r, const struct node *n, const char *what, const char *const *list,
              unsigned *out)
{
    char right[64];
    const char *text = NULL;

    if (n == NULL)
        return 0;
    join(list, right, sizeof right);
    int rc = take_text(r, n, what, right, &text);
    if (rc < 0)
        return rc;
    if (!word_index(list, text, out))
        return doc_bad(r->d, n->line, r->e, "%s is '%s'; it must be one of %s", what,
                       doc_shown(text).s, right);
    return 0;
}

int take_bool(struct reader *r, const struct node *n, const char *what, bool *out)
{
    static const char *const bools[] = {"false", "true", NULL};
    unsigned value = *out;

    int rc = take_word(r, n, what, bools, &value);
    *out = value;
    return rc;
}

int take_path_text(struct reader *r, const struct node *n, const char *what, const char *text,
                   char *out)
{
    size_t bytes = strlen(text);

    if (bytes >= CLUSTER_DIR_BYTES)
        return doc_bad(r->d, n->line, r->e, "%s has %zu bytes; it may have %d", what, bytes,
                       CLUSTER_DIR_BYTES - 1);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return doc_bad(r->d, n->line, r->e, "%s '%s' has a control character; leave it out",
                           what, doc_shown(text).s);
    memcpy(out, text, bytes + 1);
    return 0;
}

int take_path(struct reader *r, const struct node *n, const char *what, const char *right,
              char *out)
{
    const char *text = NULL;

    int rc = take_text(r, n, what, right, &text);
    return rc < 0 ? rc : take_path_text(r, n, what, text, out);
}

int take_count(struct reader *r, const struct node *n, const char *what, uint32_t least,
               uint32_t most, uint32_t *out)
{
    uint64_t value = 0;

    if (n == NULL)
        return 0;
    if (n->kind != NODE_TEXT || !value_number(doc_text(r->d, n), &value) || value < least ||
        value > most)
        return doc_bad(r->d, n->line, r->e, "%s must be a whole number from %u to %u, not %s", what,
                       least, most, doc_what(r->d, n).s);
    *out = (uint32_t)value;
    return 0;
}

int take_bytes(struct reader *r, const struct node *n, const char *what, uint32_t least,
               uint32_t most, uint32_t *out)
{
    uint64_t value = 0;

    if (n == NULL)
        return 0;
    if (n->kind != NODE_TEXT || !value_size(doc_text(r->d, n), &value) || value < least ||
        value > most)
        return doc_bad(r->d, n->line, r->e,
                       "%s must be a size from %s to %s, like 65536, 64k, 64 KiB or 1 MiB, not %s",
                       what, value_size_shown(least).s, value_size_shown(most).s,
                       doc_what(r->d, n).s);
    *out = (uint32_t)value;
    return 0;
}

int take_list(struct reader *r, const struct node *root, const struct node *n, const char *key,
              const char *like)
{
    if (n == NULL)
        return doc_bad(r->d, root->line, r->e, "the file has no `%s`; add a list of %s like `- %s`",
                       key, key, like);
    if (n->kind != NODE_LIST)
        return doc_bad(r->d, n->line, r->e, "%s must be a list of lines like `- %s`, not %s", key,
                       like, doc_what(r->d, n).s);
    if (n->count == 0)
        return doc_bad(r->d, n->line, r->e, "the list of %s is empty; add lines like `- %s`", key,
                       like);
    return 0;
}
