/* What unflushed changes have replaced, kept in DIR/shadow so that a power cut can bring it back.
 *
 * The files are as a page cache would have them: everything that was written is read, also by the process that comes after a
 * killed one. Before a step is done its *undo* is noted; a flush forgets it; block_shadow_cut carries out a drawn part of those that
 * are left, the last first. All is in shared files, so nothing is lost with the process. The threads of the lanes may call
 * it at the same time. */
#ifndef DISK_BLOCK_SHADOW_IMPL_H
#define DISK_BLOCK_SHADOW_IMPL_H

#include "disk/block.h"

struct shadow;

int shadow_open(const char *dir, int dir_fd, struct shadow **, struct err *);
void shadow_close(struct shadow *);

/* Before a step. They return -1 with errno. */
int shadow_write(struct shadow *, int fd, uint64_t at, uint64_t bytes);
int shadow_grow(struct shadow *, int fd, uint64_t bytes); /* that it has now */
int shadow_create(struct shadow *, int fd,
                  const char *name); /* the file is made, and not yet named */
int shadow_rename(struct shadow *, const char *name, const char *to);
int shadow_remove(struct shadow *, const char *name);

/* As long as a disk takes for a flush: when a process is killed, that is where most orders are. */
void shadow_wait(void);

void shadow_flush_file(struct shadow *, int fd);
void shadow_flush_names(struct shadow *);
void shadow_flush_all(struct shadow *);

#endif
