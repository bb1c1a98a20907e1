/* A cluster of the same name that the commands of this user do not see: another user's, or one of this user
 * that was started with another XDG_RUNTIME_DIR (by cron, by sudo, in a container). */
#ifndef CLI_NAMESAKE_H
#define CLI_NAMESAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { NAMESAKE_DIR_BYTES = 320 };

struct namesake {
    uid_t uid;
    char dir[NAMESAKE_DIR_BYTES]; /* its runtime directory */
};

/* Looks beside own_dir, the runtime directory that was looked into (base/tramway-UID-CLUSTER), and in the
 * `count` other folders where runtime directories are. A directory counts if it belongs to the uid in its
 * name: in a folder for all, anybody may make one of any name. */
bool namesake_find(const char *own_dir, const char *cluster, const char *const *folders,
                   unsigned count, struct namesake *);

/* The same in the folders that tram uses: /dev/shm and those of logged-in users. Writes "; ..." about it, or
 * nothing. */
void namesake_describe(const char *own_dir, const char *cluster, char *out, size_t bytes);

#endif
