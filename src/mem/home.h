/* The directory where the processes of a cluster meet on a machine: made if it is not there, ours alone, and locked for a moment by
 * who comes or leaves. The last one out removes it, so who opens it may find it gone again. */
#ifndef MEM_HOME_H
#define MEM_HOME_H

#include "base/err.h"

/* Opens and locks it: *fd, which the caller closes, also after an error if it is not negative. */
int home_open(const char *dir, int *fd, struct err *);

/* Locks it again. Bounded: who has it may have been stopped just there. ERR_TIMEOUT. */
int home_lock(const char *dir, int fd, struct err *);
void home_unlock(int fd);

#endif
