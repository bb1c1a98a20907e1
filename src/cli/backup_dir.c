#include "cli/backup_dir.h"

#include "base/crc32c.h"
#include "disk/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 256 };

static int file_path(const struct backup_dir *d, const char *name, const char *end, char *out,
                     struct err *e)
{
    int n = snprintf(out, PATH_BYTES, "%s/%s%s", d->path, name, end);

    return n < PATH_BYTES ? 0 : err_set(e, ERR_TOOBIG, "%s: the path is too long", d->path);
}

static int flush_directory(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : err_sys(e, "flush %s", path);

    if (fd >= 0)
        close(fd);
    return rc;
}

int backup_dir_make(const char *path, struct err *e)
{
    if (mkdir(path, 0700) == 0)
        return 0;
    return errno == EEXIST ? err_set(e, ERR_EXISTS,
                                     "%s is there already; a backup makes its own directory", path)
                           : err_sys(e, "make directory %s", path);
}

/* ---- pieces ---- */

static int reader_start(struct backup_reader *r, const char *path, struct err *e)
{
    snprintf(r->path, sizeof r->path, "%s", path);
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOTFOUND, "%s is not there", path)
                               : err_sys(e, "open %s", path);
    r->piece = malloc(PIECE_BYTES);
    return r->piece ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static const struct piece_header *header_of(const struct backup_reader *r)
{
    return (const void *)r->piece;
}

static int wrong(struct backup_reader *r, const char *what)
{
    return err_set(&r->err, ERR_CORRUPT, "%s: %s", r->path, what);
}

/* The next piece into memory. 1: there is one; 0: the last one was. */
static int next_piece(struct backup_reader *r)
{
    const struct piece_header *h = header_of(r);
    size_t got = 0;
    ssize_t n;

    if (r->ended)
        return 0;
    while (got < PIECE_BYTES &&
           ((n = read(r->fd, r->piece + got, PIECE_BYTES - got)) > 0 || (n < 0 && errno == EINTR)))
        got += n > 0 ? (size_t)n : 0;
    if (got < PIECE_BYTES)
        return wrong(r, "it ends too early");
    if (h->magic != PIECE_MAGIC)
        return wrong(r, "it is no state of a group");
    if (memcmp(h->journal, r->dir->id, sizeof h->journal) != 0)
        return wrong(r, "it is of another backup");
    if (h->group != r->group->number || h->pos != r->group->delivered)
        return wrong(r, "it is of another group");
    if (!scan_piece(r->piece, r->dir->id, r->group->number, r->group->delivered, r->number))
        return wrong(r, "it is damaged");
    r->number++;
    r->bytes += h->bytes;
    r->crc = crc32c(r->crc, r->piece + PIECE_HEADER_BYTES, h->bytes);
    r->ended = h->flags & PIECE_END;
    r->at = 0;
    return 1;
}

static int reader_over(struct backup_reader *r)
{
    const struct backup_group *g = r->group;

    if (g->known && (g->bytes != r->bytes || g->crc != r->crc))
        return wrong(r, "it is not what the manifest says");
    return 0;
}

int backup_reader_open(struct backup_reader *r, const struct backup_dir *d,
                       const struct backup_group *g, struct err *e)
{
    char path[PATH_BYTES];

    *r = (struct backup_reader){.dir = d, .group = g, .fd = -1};
    int rc = file_path(d, g->name, ".state", path, e);
    if (rc == 0)
        rc = reader_start(r, path, e);
    if (rc < 0)
        backup_reader_close(r);
    return rc;
}

int backup_reader_next(struct backup_reader *r, void *out, uint32_t room)
{
    while (r->number == 0 || r->at == header_of(r)->bytes) {
        int rc = next_piece(r);
        if (rc <= 0)
            return rc < 0 ? rc : reader_over(r);
    }
    uint32_t left = header_of(r)->bytes - r->at, n = left < room ? left : room;
    memcpy(out, r->piece + PIECE_HEADER_BYTES + r->at, n);
    r->at += n;
    return (int)n;
}

void backup_reader_close(struct backup_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->piece);
    r->fd = -1;
    r->piece = NULL;
}

int backup_dir_check(const struct backup_dir *d, struct backup_group *g, struct err *e)
{
    struct backup_reader r;
    int rc = backup_reader_open(&r, d, g, e);

    if (rc < 0)
        return rc;
    while ((rc = next_piece(&r)) > 0)
        ;
    if (rc == 0)
        rc = reader_over(&r);
    if (rc < 0) {
        *e = r.err;
    } else {
        g->known = true;
        g->bytes = r.bytes;
        g->crc = r.crc;
    }
    backup_reader_close(&r);
    return rc;
}

/* ---- copying ---- */

static int write_all(int fd, const char *path, const void *data, size_t bytes, struct err *e)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(e, "write %s", path);
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int create(const char *path, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd >= 0 ? fd : err_sys(e, "make %s", path);
}

static int finish(int fd, const char *path, int rc, struct err *e)
{
    if (rc == 0 && fsync(fd) != 0)
        rc = err_sys(e, "flush %s", path);
    if (close(fd) != 0 && rc == 0)
        rc = err_sys(e, "close %s", path);
    return rc;
}

int backup_dir_copy(const struct backup_dir *d, struct backup_group *g, const char *from,
                    struct err *e)
{
    char path[PATH_BYTES];
    struct backup_reader r = {.dir = d, .group = g, .fd = -1};
    int fd = -1, rc = file_path(d, g->name, ".state", path, e);

    if (rc == 0)
        rc = reader_start(&r, from, e);
    if (rc == 0)
        rc = fd = create(path, e);
    if (fd >= 0) {
        while ((rc = next_piece(&r)) > 0 &&
               (rc = write_all(fd, path, r.piece, PIECE_BYTES, e)) == 0)
            ;
        if (rc < 0 && r.err.text[0] != '\0')
            *e = r.err;
        rc = finish(fd, path, rc, e);
    }
    g->known = rc == 0;
    g->bytes = r.bytes;
    g->crc = r.crc;
    backup_reader_close(&r);
    return rc;
}

/* ---- the manifest ---- */

static size_t print_manifest(const struct backup_dir *d, char *text, size_t room)
{
    size_t n = 0;

#define ADD(...) n += (size_t)snprintf(text + n, room - n, __VA_ARGS__)
    ADD("tramway backup 1\n");
    ADD("backup %s\n", cluster_id_text(d->id).s);
    ADD("cluster %s %s\n", d->cluster, cluster_id_text(d->cluster_id).s);
    ADD("protocol %s\n", d->protocol);
    for (uint32_t i = 0; i < d->groups; i++) {
        const struct backup_group *g = &d->group[i];
        ADD("group %s %u %" PRIu64, g->name, g->number, g->delivered);
        if (g->known)
            ADD(" %" PRIu64 " %08x\n", g->bytes, g->crc);
        else
            ADD(" - -\n");
    }
    ADD("crc32c %08x\n", crc32c(0, text, n));
#undef ADD
    return n;
}

int backup_dir_write(const struct backup_dir *d, struct err *e)
{
    char path[PATH_BYTES], parent[PATH_BYTES];
    size_t room = (size_t)(d->groups + 8) * LINE_BYTES;
    char *text = malloc(room);
    int rc = text ? file_path(d, BACKUP_MANIFEST, "", path, e) : err_set(e, ERR_NOMEM, "no memory");
    int fd = rc == 0 ? create(path, e) : rc;

    if (fd >= 0)
        rc = finish(fd, path, write_all(fd, path, text, print_manifest(d, text, room), e), e);
    free(text);
    if (fd < 0 || rc < 0)
        return fd < 0 ? fd : rc;
    rc = flush_directory(d->path, e);
    snprintf(parent, sizeof parent, "%s/..", d->path);
    return rc < 0 ? rc : flush_directory(parent, e);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_id(const char *text, unsigned char id[CLUSTER_ID_BYTES])
{
    for (size_t i = 0; i < CLUSTER_ID_BYTES; i++) {
        int high = hex_value(text[2 * i]), low = high < 0 ? -1 : hex_value(text[2 * i + 1]);
        if (low < 0)
            return false;
        id[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * CLUSTER_ID_BYTES] == '\0';
}

static bool take_group(const char *line, struct backup_dir *d)
{
    struct backup_group *g = &d->group[d->groups];
    char bytes[32], crc[32], *end;

    if (d->groups == CLUSTER_GROUPS_MAX ||
        sscanf(line, "group %31s %u %" SCNu64 " %31s %31s", g->name, &g->number, &g->delivered,
               bytes, crc) != 5)
        return false;
    d->groups++;
    g->known = strcmp(bytes, "-") != 0;
    if (!g->known)
        return true;
    g->bytes = strtoull(bytes, &end, 10);
    if (*end != '\0')
        return false;
    g->crc = (uint32_t)strtoul(crc, &end, 16);
    return *end == '\0';
}

static bool take_line(const char *line, struct backup_dir *d)
{
    char id[2 * CLUSTER_ID_BYTES + 2];

    if (strncmp(line, "group ", 6) == 0)
        return take_group(line, d);
    if (sscanf(line, "backup %33s", id) == 1)
        return take_id(id, d->id);
    if (sscanf(line, "cluster %31s %33s", d->cluster, id) == 2)
        return take_id(id, d->cluster_id);
    return sscanf(line, "protocol %15s", d->protocol) == 1;
}

/* Its text with the last line's check, which is right. */
static int read_text(const struct backup_dir *d, char **out, struct err *e)
{
    char path[PATH_BYTES];
    struct stat st;
    int rc = file_path(d, BACKUP_MANIFEST, "", path, e);
    FILE *f = rc == 0 ? fopen(path, "re") : NULL;

    if (rc < 0)
        return rc;
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        rc = errno == ENOENT ? err_set(e, ERR_NOTFOUND,
                                       "%s is not there: it is no backup, or was "
                                       "not finished",
                                       path)
                             : err_sys(e, "read %s", path);
        if (f)
            fclose(f);
        return rc;
    }
    char *text = calloc(1, (size_t)st.st_size + 1);
    size_t n = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
    fclose(f);
    char *last = text && n > 0 ? memmem(text, n, "\ncrc32c ", 8) : NULL;
    unsigned crc;
    if (last == NULL || sscanf(last, "\ncrc32c %8x", &crc) != 1 ||
        crc32c(0, text, (size_t)(last + 1 - text)) != crc) {
        free(text);
        return err_set(e, ERR_CORRUPT, "%s is damaged", path);
    }
    last[1] = '\0';
    *out = text;
    return 0;
}

int backup_dir_read(const char *path, struct backup_dir *d, struct err *e)
{
    char *text, *save = NULL;

    memset(d, 0, sizeof *d);
    d->path = path;
    int rc = read_text(d, &text, e);
    if (rc < 0)
        return rc;
    char *line = strtok_r(text, "\n", &save);
    if (line == NULL || strncmp(line, "tramway backup ", 15) != 0)
        rc = err_set(e, ERR_CORRUPT, "%s/%s is of no backup", path, BACKUP_MANIFEST);
    else if (strcmp(line, "tramway backup 1") != 0)
        rc = err_set(e, ERR_REFUSED, "%s is of a later version: '%s'", path, line);
    while (rc == 0 && (line = strtok_r(NULL, "\n", &save)) != NULL)
        if (!take_line(line, d))
            rc = err_set(e, ERR_CORRUPT, "%s/%s: what is '%s'?", path, BACKUP_MANIFEST, line);
    free(text);
    return rc;
}
