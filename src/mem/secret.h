/* Files with a secret: plain files that belong to their reader or to root, and that nobody else may use. */
#ifndef MEM_SECRET_H
#define MEM_SECRET_H

#include "base/err.h"

#include <stddef.h>

/* Makes one of mode 0600; ERR_EXISTS if there is one. Nothing is left behind by a failure. */
int secret_make(const char *path, const char *text, size_t bytes, struct err *);

/* Reads at most `room` bytes of one: how many, or an error. ERR_REFUSED: others may use the file, or it is not
 * ours. ERR_NOTFOUND: there is none; the text says `missing`, which is what to do about it. */
long secret_read(const char *path, const char *missing, char *text, size_t room, struct err *);

#endif
