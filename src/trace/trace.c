#include "trace/trace.h"

#include "base/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE = 65536, /* a multiple of every page size there is */
    WINDOW_FIRST = 2 * PAGE,
    /* Whoever writes much gets there by doubling; larger ones would hold up a polling host for longer
     * than a follower waits. */
    WINDOW_MAX = 8 * PAGE,
    NUMBER_BYTES = 20, /* digits of UINT64_MAX */
    /* The fixed words of the longest line, three names in quotes, and its numbers. */
    LINE_REST = 128 + 4 * (TRACE_NAME_BYTES_MAX + 2) + 6 * NUMBER_BYTES,
};

static const char gap_line[] = "{\"ev\":\"gap\"}\n";
enum { GAP_BYTES = sizeof(gap_line) - 1 };

struct name {
    uint32_t at; /* in `texts`; with the quotes, if it is of a group or host */
    uint32_t len;
};

struct trace_writer {
    char *out;    /* where the next byte goes: window <= out */
    char *window; /* a stretch of the file, mapped; NULL after an error */
    char *window_end;
    uint64_t window_at; /* its offset in the file */
    size_t window_bytes;
    size_t line_max;
    struct say say;

    /* A file is nearly always of one life of one replica: its lines begin alike. */
    struct trace_replica of;
    uint32_t head_bytes; /* 0: none yet */
    char head[LINE_REST];

    struct name *groups, *hosts, *clients;
    uint32_t group_count, host_count, client_count;
    char *texts;

    int fd;
    int failed; /* the first error's code; 0: none */
    struct err error;
    char *path;
};

/* ---- names ---- */

static int check_name(const char *name, struct err *e)
{
    size_t len = strlen(name);
    if (len == 0 || len > TRACE_NAME_BYTES_MAX)
        return err_set(e, ERR_INVALID, "trace: the name '%.40s' has %zu bytes, not 1 to %d", name,
                       len, TRACE_NAME_BYTES_MAX);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == '"' || *p == '\\')
            return err_set(
                e, ERR_INVALID,
                "trace: the name '%.40s' has a quote, a backslash or a control character", name);
    return 0;
}

/* Copies one table behind the texts that are there. */
static int add_names(struct trace_writer *w, struct name **out, const char *const *names,
                     uint32_t count, bool quoted, size_t *used, struct err *e)
{
    *out = calloc(count ? count : 1, sizeof(**out));
    if (*out == NULL)
        return err_set(e, ERR_NOMEM, "trace: a table of %u names", count);
    for (uint32_t i = 0; i < count; i++) {
        int rc = check_name(names[i], e);
        if (rc < 0)
            return rc;
        size_t len = strlen(names[i]);
        char *grown = realloc(w->texts, *used + len + 2);
        if (grown == NULL)
            return err_set(e, ERR_NOMEM, "trace: a table of %u names", count);
        w->texts = grown;
        struct name *n = &(*out)[i];
        n->at = (uint32_t)*used;
        if (quoted)
            w->texts[(*used)++] = '"';
        memcpy(w->texts + *used, names[i], len);
        *used += len;
        if (quoted)
            w->texts[(*used)++] = '"';
        n->len = (uint32_t)*used - n->at;
    }
    return 0;
}

static int copy_names(struct trace_writer *w, const struct trace_options *o, struct err *e)
{
    size_t used = 0;
    if (o->group_count > TRACE_GROUPS_MAX)
        return err_set(e, ERR_INVALID, "trace: %u groups, the maximum is %d", o->group_count,
                       TRACE_GROUPS_MAX);
    int rc = add_names(w, &w->groups, o->groups, o->group_count, true, &used, e);
    if (rc == 0)
        rc = add_names(w, &w->hosts, o->hosts, o->host_count, true, &used, e);
    /* All of them in dst or members, with commas; and what says that no line follows. */
    w->line_max = LINE_REST + used + o->group_count + o->host_count + GAP_BYTES;
    if (rc == 0)
        rc = add_names(w, &w->clients, o->clients, o->client_count, false, &used, e);
    w->group_count = o->group_count;
    w->host_count = o->host_count;
    w->client_count = o->client_count;
    return rc;
}

/* ---- the file ---- */

/* Maps the stretch of the file that begins at the page of `end`. The room is allocated first, since a
 * full disk would otherwise show as SIGBUS in the middle of a line. */
static int map_window(struct trace_writer *w, uint64_t end, struct err *e)
{
    uint64_t at = end & ~(uint64_t)(PAGE - 1);
    int rc = posix_fallocate(w->fd, (off_t)at, (off_t)w->window_bytes);
    if (rc != 0) {
        errno = rc;
        return err_sys(e, "trace %s: room for %zu bytes more", w->path, w->window_bytes);
    }
    char *p = mmap(NULL, w->window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, (off_t)at);
    if (p == MAP_FAILED)
        return err_sys(e, "trace %s: mmap", w->path);
    /* One call instead of a fault per page; a kernel that cannot does the faults. */
    madvise(p, w->window_bytes, MADV_POPULATE_WRITE);
    w->window = p;
    w->window_at = at;
    w->window_end = p + w->window_bytes;
    w->out = p + (end - at);
    return 0;
}

static uint64_t written_end(const struct trace_writer *w)
{
    return w->window_at + (uint64_t)(w->out - w->window);
}

/* Goes on in the next stretch of the file. If there is no room for it, the line that says so goes into
 * the present one, which always has room for that, and events are dropped: a trace with a hole that
 * nobody sees would be worse than one that ends early. */
static void next_window(struct trace_writer *w)
{
    char *window = w->window, *out = w->out;
    size_t window_bytes = w->window_bytes;
    uint64_t end = written_end(w);
    if (w->window_bytes < WINDOW_MAX)
        w->window_bytes *= 2;
    int rc = map_window(w, end, &w->error);
    if (rc < 0) {
        memcpy(out, gap_line, GAP_BYTES);
        w->window = w->window_end = w->out = NULL;
        w->failed = rc;
        say_warn(&w->say, "%s; the trace ends here", w->error.text);
    }
    munmap(window, window_bytes);
    if (rc < 0 && ftruncate(w->fd, (off_t)(end + GAP_BYTES)) != 0)
        return; /* zeros at the end are as good */
}

int trace_find_end(int fd, const char *path, uint64_t *end, uint64_t *size, struct err *e)
{
    struct stat st;
    char block[16384];
    if (fstat(fd, &st) != 0)
        return err_sys(e, "%s: fstat", path);
    *size = (uint64_t)st.st_size;
    /* Backwards with pread: who maps the zeros of a file that is being closed dies of SIGBUS. */
    for (uint64_t at = *size; at > 0;) {
        size_t len = at < sizeof(block) ? (size_t)at : sizeof(block);
        ssize_t got = pread(fd, block, len, (off_t)(at - len));
        if (got < 0)
            return err_sys(e, "%s: read", path);
        for (size_t i = (size_t)got; i > 0; i--)
            if (block[i - 1] != '\0') {
                *end = at - len + i;
                return 0;
            }
        at -= len;
    }
    *end = 0;
    return 0;
}

/* Removes what a killed writer left behind its last whole line. */
static int cut_tail(struct trace_writer *w, uint64_t *end, struct err *e)
{
    uint64_t size;
    int rc = trace_find_end(w->fd, w->path, end, &size, e);
    if (rc < 0)
        return rc;
    char c = '\n';
    while (*end > 0) {
        if (pread(w->fd, &c, 1, (off_t)(*end - 1)) != 1)
            return err_sys(e, "%s: read", w->path);
        if (c == '\n')
            break;
        (*end)--;
    }
    if (*end < size && ftruncate(w->fd, (off_t)*end) != 0)
        return err_sys(e, "%s: ftruncate", w->path);
    return 0;
}

static int open_file(struct trace_writer *w, const struct trace_options *o, struct err *e)
{
    uint64_t end = 0;
    if (mkdir(o->dir, 0777) != 0 && errno != EEXIST)
        return err_sys(e, "trace directory %s", o->dir);
    if (asprintf(&w->path, "%s/%s%s", o->dir, o->name, TRACE_SUFFIX) < 0) {
        w->path = NULL;
        return err_set(e, ERR_NOMEM, "trace %s", o->name);
    }
    w->fd = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return err_sys(e, "trace %s", w->path);
    if (flock(w->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return err_set(e, ERR_EXISTS, "trace %s: another process is writing it", w->path);
        return err_sys(e, "trace %s: flock", w->path);
    }
    int rc = cut_tail(w, &end, e);
    if (rc < 0)
        return rc;
    w->window_bytes = WINDOW_FIRST;
    while (w->window_bytes < PAGE + 2 * w->line_max)
        w->window_bytes *= 2;
    return map_window(w, end, e);
}

static void write_format(struct trace_writer *);

int trace_open(struct trace_writer **out, const struct trace_options *o, struct err *e)
{
    struct trace_writer *w = calloc(1, sizeof(*w));
    *out = NULL;
    if (w == NULL)
        return err_set(e, ERR_NOMEM, "trace %s", o->name);
    w->fd = -1;
    w->say = o->say;
    int rc = copy_names(w, o, e);
    if (rc == 0)
        rc = open_file(w, o, e);
    if (rc < 0) {
        trace_close(w, NULL);
        return rc;
    }
    write_format(w);
    *out = w;
    return 0;
}

int trace_close(struct trace_writer *w, struct err *e)
{
    if (w == NULL)
        return 0;
    int rc = w->failed;
    if (rc != 0 && e != NULL)
        *e = w->error;
    if (w->window != NULL) {
        uint64_t end = written_end(w);
        munmap(w->window, w->window_bytes);
        if (ftruncate(w->fd, (off_t)end) != 0)
            rc = err_sys(e, "trace %s: ftruncate", w->path);
    }
    if (w->fd >= 0 && close(w->fd) != 0 && rc == 0)
        rc = err_sys(e, "trace %s: close", w->path);
    free(w->groups);
    free(w->hosts);
    free(w->clients);
    free(w->texts);
    free(w->path);
    free(w);
    return rc;
}

/* ---- events ---- */

static inline char *put(char *p, const char *text, size_t len)
{
    memcpy(p, text, len);
    return p + len;
}

#define PUT(p, literal) put(p, literal, sizeof(literal) - 1)

static inline char *put_number(char *p, uint64_t v)
{
    char digits[NUMBER_BYTES];
    char *d = digits + sizeof(digits);
    do {
        *--d = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    return put(p, d, (size_t)(digits + sizeof(digits) - d));
}

static inline char *put_name(const struct trace_writer *w, char *p, struct name n)
{
    return put(p, w->texts + n.at, n.len);
}

static char *put_client(const struct trace_writer *w, char *p, struct trace_id id)
{
    if (id.client < w->client_count) {
        p = put_name(w, p, w->clients[id.client]);
    } else {
        *p++ = 'c';
        p = put_number(p, id.client);
    }
    if (id.life != 0) {
        *p++ = '.';
        p = put_number(p, id.life);
    }
    return p;
}

static char *put_id(const struct trace_writer *w, char *p, struct trace_id id)
{
    p = PUT(p, "\"id\":\"");
    p = put_client(w, p, id);
    *p++ = ':';
    p = put_number(p, id.seq);
    if (id.sum != 0) {
        *p++ = '.';
        p = put_number(p, id.sum);
    }
    *p++ = '"';
    return p;
}

static char *put_dst(const struct trace_writer *w, char *p, struct trace_dst dst)
{
    CHECK(dst.count > 0 && dst.count <= w->group_count);
    p = PUT(p, ",\"dst\":[");
    for (uint32_t i = 0; i < dst.count; i++) {
        CHECK(dst.group[i] < w->group_count);
        if (i > 0)
            *p++ = ',';
        p = put_name(w, p, w->groups[dst.group[i]]);
    }
    *p++ = ']';
    return p;
}

/* Where to write a line; NULL after an error. */
static inline char *begin(struct trace_writer *w)
{
    if (__builtin_expect((size_t)(w->window_end - w->out) <= w->line_max, 0)) {
        if (w->window == NULL)
            return NULL;
        next_window(w);
    }
    return w->out;
}

/* The newline makes the line whole, so it is stored after all the rest: whoever is killed in
 * between leaves a line that readers see is cut off. */
static inline void end(struct trace_writer *w, char *p)
{
    *p++ = '}';
    atomic_thread_fence(memory_order_release);
    *p++ = '\n';
    w->out = p;
}

static void write_format(struct trace_writer *w)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"format\",\"version\":");
    end(w, put_number(p, TRACE_VERSION));
}

void trace_cast(struct trace_writer *w, struct trace_id id, struct trace_dst dst)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"cast\",\"client\":\"");
    p = put_client(w, p, id);
    p = PUT(p, "\",");
    p = put_id(w, p, id);
    end(w, put_dst(w, p, dst));
}

void trace_done(struct trace_writer *w, struct trace_id id)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"done\",\"client\":\"");
    p = put_client(w, p, id);
    p = PUT(p, "\",");
    end(w, put_id(w, p, id));
}

static char *put_replica(const struct trace_writer *w, char *p, struct trace_replica r)
{
    CHECK(r.group < w->group_count && r.host < w->host_count && r.inc <= TRACE_INC_MAX);
    p = PUT(p, ",\"group\":");
    p = put_name(w, p, w->groups[r.group]);
    p = PUT(p, ",\"replica\":");
    p = put_name(w, p, w->hosts[r.host]);
    p = PUT(p, ",\"inc\":");
    p = put_number(p, r.inc);
    return PUT(p, ",\"n\":");
}

void trace_start(struct trace_writer *w, struct trace_replica r, uint64_t n)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"start\"");
    p = put_replica(w, p, r);
    end(w, put_number(p, n));
}

/* ---- members of groups with views ---- */

static char *put_member(const struct trace_writer *w, char *p, struct trace_member m)
{
    CHECK(m.host < w->host_count && m.inc <= TRACE_INC_MAX);
    p = PUT(p, ",\"member\":");
    p = put_name(w, p, w->hosts[m.host]);
    p = PUT(p, ",\"inc\":");
    p = put_number(p, m.inc);
    p = PUT(p, ",\"vid\":");
    return put_number(p, m.vid);
}

static char *put_cell(const struct trace_writer *w, char *p, uint32_t cell)
{
    CHECK(cell < w->group_count);
    p = PUT(p, ",\"cell\":");
    return put_name(w, p, w->groups[cell]);
}

void trace_view(struct trace_writer *w, struct trace_member m, const uint32_t *hosts,
                uint32_t count)
{
    char *p = begin(w);
    CHECK(count > 0 && count <= w->host_count);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"view\"");
    p = put_member(w, p, m);
    p = PUT(p, ",\"members\":[");
    for (uint32_t i = 0; i < count; i++) {
        CHECK(hosts[i] < w->host_count);
        if (i > 0)
            *p++ = ',';
        p = put_name(w, p, w->hosts[hosts[i]]);
    }
    *p++ = ']';
    end(w, p);
}

void trace_cell_start(struct trace_writer *w, struct trace_member m, uint32_t cell, uint64_t n)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"start\"");
    p = put_member(w, put_cell(w, p, cell), m);
    p = PUT(p, ",\"n\":");
    end(w, put_number(p, n));
}

void trace_cell_deliver(struct trace_writer *w, struct trace_member m, uint32_t cell, uint64_t n,
                        struct trace_id id)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"deliver\"");
    p = put_member(w, put_cell(w, p, cell), m);
    p = PUT(p, ",\"n\":");
    p = put_number(p, n);
    *p++ = ',';
    end(w, put_id(w, p, id));
}

void trace_raw_deliver(struct trace_writer *w, struct trace_member m, uint32_t cell,
                       struct trace_id id)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"deliver\"");
    p = put_member(w, put_cell(w, p, cell), m);
    *p++ = ',';
    end(w, put_id(w, p, id));
}

void trace_out(struct trace_writer *w, struct trace_member m)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    p = PUT(p, "{\"ev\":\"out\"");
    end(w, put_member(w, p, m));
}

void trace_deliver(struct trace_writer *w, struct trace_replica r, uint64_t n, struct trace_id id,
                   struct trace_dst dst)
{
    char *p = begin(w);
    if (p == NULL)
        return;
    if (w->head_bytes == 0 || r.group != w->of.group || r.host != w->of.host ||
        r.inc != w->of.inc) {
        char *head = PUT(w->head, "{\"ev\":\"deliver\"");
        w->head_bytes = (uint32_t)(put_replica(w, head, r) - w->head);
        w->of = r;
    }
    p = put(p, w->head, w->head_bytes);
    p = put_number(p, n);
    *p++ = ',';
    p = put_id(w, p, id);
    end(w, put_dst(w, p, dst));
}
