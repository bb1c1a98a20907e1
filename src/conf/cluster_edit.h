/* Changing a key in the text of a cluster file that a person wrote.
 *
 * Comments, order and layout stay: one piece of the text is replaced. The result is read again and compared with what was
 * wanted; what would come out otherwise is refused, with what to write where. Nothing is kept; any thread may call. */
#ifndef CONF_CLUSTER_EDIT_H
#define CONF_CLUSTER_EDIT_H

#include "conf/cluster.h"

struct cluster_edit {
    const char *name;
    bool client; /* one that is not there is added; else a host */
    bool drop;   /* takes the key away from the name, and else adds it behind the one that it has */
    unsigned char key[CLUSTER_PUBLIC_BYTES];
};

/* *out, which the caller frees, is the new text. ERR_INVALID: the text is no cluster file of transport tcp (keys may be
 * missing), or cannot have that change; ERR_REFUSED: a person has to make it, and the text says what to write. */
int cluster_edit(const char *text, size_t bytes, const char *file, const struct cluster_edit *,
                 char **out, size_t *out_bytes, struct err *);

#endif
