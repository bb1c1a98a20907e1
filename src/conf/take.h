/* Values of a cluster file, taken from the nodes of its text: each of the right kind, or "FILE:LINE: what is wrong; what
 * would be right". For one thread, while one file is read. */
#ifndef CONF_TAKE_H
#define CONF_TAKE_H

#include "conf/cluster_impl.h"

/* What reading one file shares. */
struct reader {
    const struct doc *d;
    struct cluster *c;
    struct err *e;
    bool lax; /* keys that must be there may be missing */
};

/* Sorts the values of a map by its known keys; NULL where a key is not given. `of` begins the sentence
 * about an unknown one. */
int take_keys(struct reader *, const struct node *map, const char *of, const char *const *keys,
              const struct node **value);

/* The text of the value, if it is one. */
int take_text(struct reader *, const struct node *, const char *what, const char *right,
              const char **out);

/* One that is a name, in CLUSTER_NAME_BYTES. */
int take_name(struct reader *, const struct node *, const char *what, char *out);

/* One word of a list; leaves *out as it is if there is no node. */
int take_word(struct reader *, const struct node *, const char *what, const char *const *list,
              unsigned *out);

/* The same for a bool. */
int take_bool(struct reader *, const struct node *, const char *what, bool *out);

/* A path, in CLUSTER_DIR_BYTES; and one that is part of the node's text. */
int take_path(struct reader *, const struct node *, const char *what, const char *right, char *out);
int take_path_text(struct reader *, const struct node *, const char *what, const char *text,
                   char *out);

/* A whole number, or a size in bytes; left as it is where the file does not have it. */
int take_count(struct reader *, const struct node *, const char *what, uint32_t least,
               uint32_t most, uint32_t *out);
int take_bytes(struct reader *, const struct node *, const char *what, uint32_t least,
               uint32_t most, uint32_t *out);

/* A list that must be there and have something in it; `like` is how its lines look. */
int take_list(struct reader *, const struct node *root, const struct node *, const char *key,
              const char *like);

#endif
