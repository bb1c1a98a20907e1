/* A cluster file whose keys `tram key` changes: read and locked, changed in memory, and put in place of the old one as a
 * whole, or not at all. One thread. */
#ifndef CLI_KEY_FILE_H
#define CLI_KEY_FILE_H

#include "conf/cluster_edit.h"

#include <limits.h>
#include <sys/stat.h>

struct key_file {
    const char *file;    /* as it was named: keys are beside that */
    char path[PATH_MAX]; /* where it is, if that is a link */
    int fd;              /* holds the lock against others who change it */
    struct stat old;     /* of the file, before it was read */
    char *text;
    size_t bytes;
    struct cluster *c; /* what the text says; keys may be missing */
    bool changed;      /* the text */
    bool any_changed;  /* the clients' keys, which are in a file of their own */
};

/* ERR_INVALID also if no keys are wanted there: another transport, or tls. */
int key_file_open(struct key_file *, const char *file, struct err *);
void key_file_close(struct key_file *);

/* Adds or drops a key, also the client `any`'s. Errors are cluster_edit's. */
int key_file_edit(struct key_file *, const struct cluster_edit *, struct err *);

/* Writes what has changed: a new file, with mode and owner of the old one, is renamed to it. */
int key_file_save(struct key_file *, struct err *);

/* Are there keys in such a cluster? */
int key_file_check(const struct cluster *, const char *file, struct err *);

#endif
