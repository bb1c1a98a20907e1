#include "cli/key_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_TRIES = 100, PUBLIC_FILE_MODE = 0644 };

int key_file_check(const struct cluster *c, const char *file, struct err *e)
{
    if (c->transport != CLUSTER_TCP)
        return err_set(e, ERR_INVALID,
                       "%s: transport %s has no keys of hosts and clients; tcp does", file,
                       cluster_transport_name(c->transport));
    if (c->tls_ca[0] != '\0')
        return err_set(e, ERR_INVALID,
                       "%s: with tls certificates say who is who, and there are no keys; %s gives"
                       " them",
                       file, c->tls_ca);
    return 0;
}

/* Opens it with the lock on the file that has the name now: who had the lock may have put another one there. */
static int open_locked(struct key_file *f, struct err *e)
{
    struct stat there;

    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        f->fd = cluster_file_open(f->path, e);
        if (f->fd < 0)
            return f->fd;
        if (flock(f->fd, LOCK_EX) < 0 || fstat(f->fd, &f->old) < 0)
            return err_sys(e, "lock %s", f->file);
        if (stat(f->path, &there) == 0 && f->old.st_dev == there.st_dev &&
            f->old.st_ino == there.st_ino)
            return 0;
        close(f->fd);
        f->fd = -1;
    }
    return err_set(e, ERR_AGAIN, "%s is replaced again and again by somebody else", f->file);
}

/* What the text says now. */
static int parse(struct key_file *f, struct err *e)
{
    struct cluster *c = NULL;

    int rc = cluster_parse_lax(f->text, f->bytes, f->file, &c, e);
    if (rc == 0 && f->any_changed)
        c->client_key[0].keys = f->c->client_key[0].keys;
    else if (rc == 0)
        rc = cluster_read_any(c, f->file, e);
    if (rc < 0 && rc != ERR_NOTFOUND) {
        cluster_free(c);
        return rc;
    }
    cluster_free(f->c);
    f->c = c;
    return 0;
}

int key_file_open(struct key_file *f, const char *file, struct err *e)
{
    *f = (struct key_file){.file = file, .fd = -1};
    if (realpath(file, f->path) == NULL)
        snprintf(f->path, sizeof f->path, "%s", file); /* opening it tells what is wrong */
    int rc = open_locked(f, e);
    if (rc == 0)
        rc = cluster_file_text(f->fd, file, &f->text, &f->bytes, e);
    if (rc == 0)
        rc = parse(f, e);
    if (rc == 0)
        rc = key_file_check(f->c, file, e);
    if (rc < 0)
        key_file_close(f);
    return rc;
}

void key_file_close(struct key_file *f)
{
    cluster_free(f->c);
    free(f->text);
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct key_file){.fd = -1};
}

/* ---- changing ---- */

static int edit_any(struct key_file *f, const struct cluster_edit *edit, struct err *e)
{
    struct cluster_keys *keys = &f->c->client_key[0].keys;
    int i = cluster_keys_find(keys, edit->key);

    if (edit->drop ? i == CLUSTER_NONE : keys->count == CLUSTER_KEYS_EACH)
        return err_set(e, ERR_INVALID, "%s: '%s' %s", f->c->any_file, edit->name,
                       edit->drop ? "does not have that key" : "has two keys already");
    f->any_changed = true;
    if (!edit->drop) {
        memcpy(keys->key[keys->count++], edit->key, sizeof edit->key);
        return 0;
    }
    if (i == 0)
        memcpy(keys->key[0], keys->key[1], sizeof keys->key[0]);
    keys->count--;
    return 0;
}

int key_file_edit(struct key_file *f, const struct cluster_edit *edit, struct err *e)
{
    char *text = NULL;
    size_t bytes = 0;

    if (edit->client && f->c->any_file[0] != '\0')
        return edit_any(f, edit, e);
    int rc = cluster_edit(f->text, f->bytes, f->file, edit, &text, &bytes, e);
    if (rc < 0)
        return rc;
    free(f->text);
    f->text = text;
    f->bytes = bytes;
    f->changed = true;
    return parse(f, e);
}

/* ---- writing ---- */

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* A new file in place of the old one: who reads it sees either. */
static int replace(const char *path, const char *text, size_t bytes, const struct stat *old,
                   struct err *e)
{
    char temporary[PATH_MAX + 16];

    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "make a new file beside %s", path);
    bool ok = true;
    if (old != NULL && (old->st_uid != geteuid() || old->st_gid != getegid()))
        ok = fchown(fd, old->st_uid, old->st_gid) == 0;
    ok = ok && fchmod(fd, old != NULL ? old->st_mode & 07777 : PUBLIC_FILE_MODE) == 0 &&
         write_all(fd, text, bytes) && fsync(fd) == 0 && rename(temporary, path) == 0;
    int rc = ok ? 0 : err_sys(e, "write %s", path);
    close(fd);
    if (rc < 0)
        unlink(temporary);
    return rc;
}

static int save_text(struct key_file *f, struct err *e)
{
    const struct stat *old = &f->old;
    struct stat now;

    /* An editor knows nothing of our lock. */
    if (stat(f->path, &now) < 0)
        return err_sys(e, "look at %s", f->file);
    if (old->st_ino != now.st_ino || old->st_dev != now.st_dev || old->st_size != now.st_size ||
        old->st_mtim.tv_sec != now.st_mtim.tv_sec || old->st_mtim.tv_nsec != now.st_mtim.tv_nsec)
        return err_set(e, ERR_AGAIN, "%s was changed by somebody else just now; try again",
                       f->file);
    return replace(f->path, f->text, f->bytes, old, e);
}

static int save_any(struct key_file *f, struct err *e)
{
    const struct cluster_keys *keys = &f->c->client_key[0].keys;
    char path[PATH_MAX], text[CLUSTER_KEYS_EACH * CLUSTER_PUBLIC_TEXT + 1] = "";
    struct stat old;

    int rc = cluster_path(f->c, f->file, CLUSTER_PATH_ANY, NULL, path, sizeof path, e);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < keys->count; i++) {
        cluster_public_text(keys->key[i], text + strlen(text));
        strcat(text, "\n");
    }
    bool is_there = stat(path, &old) == 0;
    return replace(path, text, strlen(text), is_there ? &old : NULL, e);
}

int key_file_save(struct key_file *f, struct err *e)
{
    int rc = f->changed ? save_text(f, e) : 0;

    if (rc == 0)
        f->changed = false;
    if (rc == 0 && f->any_changed)
        rc = save_any(f, e);
    if (rc == 0)
        f->any_changed = false;
    return rc;
}
