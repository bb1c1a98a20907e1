/* A YAML text as a small tree whose nodes know their lines.
 *
 * Libyaml finds the events; this keeps of them what a configuration needs: maps, lists and texts. It is
 * used directly, and not through libcyaml, because that forgets the lines once the text is
 * read, and most mistakes in a cluster file are found later (a cycle, an unknown host). Anchors,
 * tags and further documents are refused: they would make the line of a mistake ambiguous.
 *
 * Owned by the caller, one thread. Whatever the bytes are, reading ends with a tree or with an error. */
#ifndef CONF_DOC_H
#define CONF_DOC_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DOC_NODES_MAX = 1 << 16, /* 1,024 groups of 9 replicas need a quarter of it */
    DOC_DEPTH_MAX = 8,
    DOC_KEYS_MAX = 64, /* of one map */
    DOC_FILE_BYTES = 120,
    DOC_SHOWN_BYTES = 48,
};

enum node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    uint32_t line;  /* from 1 */
    uint32_t count; /* children; of a map keys and values, alternating */
    uint32_t first; /* the first child; 0, the root, is nobody's child and means none */
    uint32_t next;  /* the next child of the same parent, or 0 */
    uint32_t text;  /* where its text begins in doc.texts */
    /* Where it stands, for who changes the text, in characters of it (not bytes) from 0. */
    uint32_t from,
        to; /* `to` is behind it; a list or map in lines of its own ends where its last child does */
    uint32_t column; /* of `from` in its line */
    bool flow;       /* a list or map in brackets */
    bool block_text; /* a text behind | or >, which ends nobody knows where */
};

struct doc {
    char file[DOC_FILE_BYTES]; /* as shown in errors: the end of a long path */
    struct node *node;         /* node[0] is the root */
    uint32_t nodes;            /* 0: the text has no content */
    uint32_t room;
    char *texts; /* each ends with a 0 and has no other */
    size_t texts_bytes, texts_room;
};

/* ERR_INVALID: not such a text, and why; ERR_NOMEM. The doc is empty after an error. */
int doc_read(struct doc *, const char *text, size_t bytes, const char *file, struct err *);
void doc_fini(struct doc *);

static inline const struct node *doc_node(const struct doc *d, uint32_t index)
{
    return &d->node[index];
}

/* Of a NODE_TEXT: the others have none, and there may be no texts at all. */
static inline const char *doc_text(const struct doc *d, const struct node *n)
{
    CHECK(n->kind == NODE_TEXT);
    return d->texts + n->text;
}

/* The value of a key, or NULL if the map does not have it. */
const struct node *doc_value(const struct doc *, const struct node *map, const char *key);

/* The child of that number, which there must be; of a map they alternate. */
const struct node *doc_child(const struct doc *, const struct node *, uint32_t number);

/* Says "FILE:LINE: ..." and returns ERR_INVALID. */
int doc_bad(const struct doc *, uint32_t line, struct err *, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The end of a path that is too long to show whole. */
void doc_show_file(const char *path, char out[DOC_FILE_BYTES]);

/* A text from the file as an error may show it: cut to a readable length, no control characters. */
struct shown {
    char s[DOC_SHOWN_BYTES];
};
struct shown doc_shown(const char *text);

/* What the node is, for "..., not %s": "a list", "a map", "nothing" or the text in quotes. */
struct shown doc_what(const struct doc *, const struct node *);

#endif
