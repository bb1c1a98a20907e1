#include "cli/namesake.h"

#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USERS_MAX = 64 /* logged in, whose folders are looked into */ };

/* The uid of "tramway-UID-CLUSTER"; false if it is no such name. */
static bool uid_of(const char *name, const char *cluster, uid_t *uid)
{
    static const char prefix[] = "tramway-";
    char *end;

    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    name += sizeof prefix - 1;
    *uid = (uid_t)strtoul(name, &end, 10);
    return end > name && *end == '-' && strcmp(end + 1, cluster) == 0;
}

static bool find_in(const char *folder, const char *own_dir, const char *cluster,
                    struct namesake *found)
{
    DIR *d = opendir(folder);
    bool is = false;

    for (struct dirent *e; d != NULL && !is && (e = readdir(d)) != NULL;) {
        struct stat st;
        uid_t uid;

        if (!uid_of(e->d_name, cluster, &uid) ||
            snprintf(found->dir, sizeof found->dir, "%s/%s", folder, e->d_name) >=
                (int)sizeof found->dir)
            continue;
        is = strcmp(found->dir, own_dir) != 0 && lstat(found->dir, &st) == 0 &&
             S_ISDIR(st.st_mode) && st.st_uid == uid;
        found->uid = uid;
    }
    if (d != NULL)
        closedir(d);
    return is;
}

bool namesake_find(const char *own_dir, const char *cluster, const char *const *folders,
                   unsigned count, struct namesake *found)
{
    char beside[NAMESAKE_DIR_BYTES];
    const char *slash = strrchr(own_dir, '/');

    snprintf(beside, sizeof beside, "%.*s", slash ? (int)(slash - own_dir) : 0, own_dir);
    bool is = find_in(beside, own_dir, cluster, found);
    for (unsigned i = 0; !is && i < count; i++)
        is = find_in(folders[i], own_dir, cluster, found);
    return is;
}

void namesake_describe(const char *own_dir, const char *cluster, char *out, size_t bytes)
{
    static char user[USERS_MAX][32];
    const char *folders[USERS_MAX + 1] = {"/dev/shm"};
    unsigned count = 1;
    struct namesake n;

    DIR *d = opendir("/run/user");
    for (struct dirent *e; d != NULL && count <= USERS_MAX && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(user[count - 1], sizeof user[0], "/run/user/%.20s", e->d_name);
            folders[count] = user[count - 1];
            count++;
        }
    if (d != NULL)
        closedir(d);
    out[0] = '\0';
    if (!namesake_find(own_dir, cluster, folders, count, &n))
        return;
    const struct passwd *who = getpwuid(n.uid);
    if (n.uid == geteuid())
        snprintf(out, bytes,
                 "; a cluster of this name was started with another XDG_RUNTIME_DIR: %.*s",
                 (int)(strrchr(n.dir, '/') - n.dir), n.dir);
    else
        snprintf(out, bytes,
                 "; user %s (uid %u) has a cluster of this name, in %s, and only that user's"
                 " commands reach it",
                 who ? who->pw_name : "without a name", n.uid, n.dir);
}
