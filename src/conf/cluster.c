#include "conf/cluster.h"

#include "conf/cluster_impl.h"
#include "conf/value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How much larger the log, and clients' rings, are with disks. */
enum { DURABLE_LOG = 8, DURABLE_SOURCE = 4, DURABLE_REPLY = 8 };

enum { NAMES_SHOWN = 4 }; /* of hosts or groups: names are long, and an error has little room */

const struct setting_info setting_info[SETTING_COUNT] = {
#define SETTING_INFO_(key, kind, least, most, value, help)                                         \
    {#key, SETTING_##kind, least, most, value, help, offsetof(struct cluster, key)},
    SETTING_LIST(SETTING_INFO_)
#undef SETTING_INFO_
};

const char *const cluster_transport_names[] = {"shm", "tcp", "verbs", NULL};
const char *const cluster_protocol_names[] = {"tree", "genuine", "group", NULL};
const char *const cluster_mode_names[] = {"memory", "raw", "logged", "durable", NULL};
const char *const wait_names[] = {"auto", "spin", "sleep", NULL};

uint32_t *setting_at(struct cluster *c, enum setting s)
{
    return (uint32_t *)(void *)((char *)c + setting_info[s].offset);
}

uint32_t setting_get(const struct cluster *c, enum setting s)
{
    uint32_t value;

    memcpy(&value, (const char *)c + setting_info[s].offset, sizeof value);
    return value;
}

/* What is under way waits for a flush, a hundred times longer than for memory: there has to be more of it. */
static uint32_t if_durable(const struct cluster *c, uint32_t times, uint32_t bytes)
{
    return c->durable ? bytes * times : bytes;
}

uint32_t setting_standard(const struct cluster *c, enum setting s)
{
    uint32_t least = 0;
    uint64_t fits = 0;

    switch (s) {
    case SETTING_log_bytes:
        return if_durable(c, DURABLE_LOG, setting_info[s].value);
    case SETTING_batch_bytes: /* a sixteenth, but the log is 16 KiB or more: 4 KiB */
        return c->log_bytes / 16 > 4 << 10 ? c->log_bytes / 16 : 4 << 10;
    case SETTING_window_bytes:
        return c->log_bytes / 2;
    case SETTING_source_bytes:
        fits = value_power_from((uint64_t)c->payload_max * SOURCE_MESSAGES);
        least = if_durable(c, DURABLE_SOURCE, 64 << 10);
        return fits > least ? (uint32_t)fits : least;
    case SETTING_edge_bytes:
        return c->source_bytes;
    case SETTING_reply_bytes: /* 16 of the largest, or 4 if they are large */
        fits = (uint64_t)REPLY_ROOM(c) * REPLIES;
        if (fits > 256 << 10)
            fits = (uint64_t)REPLY_ROOM(c) * REPLIES_LARGE;
        fits = value_power_from(fits);
        least = if_durable(c, DURABLE_REPLY, 16 << 10);
        return fits > least ? (uint32_t)fits : least;
    default:
        return setting_info[s].value;
    }
}

void cluster_standard(struct cluster *c)
{
    /* In the order of the list: what follows from others stands after them. */
    for (enum setting s = 0; s < SETTING_COUNT; s++)
        *setting_at(c, s) = setting_standard(c, s);
}

struct cluster *cluster_blank(void)
{
    struct cluster *c = calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    cluster_standard(c);
    c->encrypt = true;
    return c;
}

void cluster_free(struct cluster *c)
{
    free(c);
}

int cluster_host(const struct cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->hosts; i++)
        if (strcmp(c->host[i].name, name) == 0)
            return (int)i;
    return CLUSTER_NONE;
}

int cluster_group(const struct cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->groups; i++)
        if (strcmp(c->group[i].name, name) == 0)
            return (int)i;
    return CLUSTER_NONE;
}

int cluster_client(const struct cluster *c, const char *name)
{
    for (uint32_t i = 0; i < c->client_keys; i++)
        if (strcmp(c->client_key[i].name, name) == 0)
            return (int)i;
    return CLUSTER_NONE;
}

static const char *host_name(const void *of, uint32_t i)
{
    return ((const struct cluster *)of)->host[i].name;
}

static const char *group_name(const void *of, uint32_t i)
{
    return ((const struct cluster *)of)->group[i].name;
}

static const char *client_name(const void *of, uint32_t i)
{
    return ((const struct cluster *)of)->client_key[i].name;
}

struct nearest_text cluster_hosts_near(const struct cluster *c, const char *name)
{
    return nearest_text(name, (struct nearest_names){host_name, c, c->hosts}, NAMES_SHOWN);
}

struct nearest_text cluster_groups_near(const struct cluster *c, const char *name)
{
    return nearest_text(name, (struct nearest_names){group_name, c, c->groups}, NAMES_SHOWN);
}

struct nearest_text cluster_clients_near(const struct cluster *c, const char *name)
{
    return nearest_text(name, (struct nearest_names){client_name, c, c->client_keys}, NAMES_SHOWN);
}

bool word_index(const char *const *list, const char *word, unsigned *index)
{
    for (unsigned i = 0; list[i] != NULL; i++) {
        if (strcmp(list[i], word) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

const char *cluster_transport_name(enum cluster_transport t)
{
    return cluster_transport_names[t];
}

const char *cluster_protocol_name(enum cluster_protocol p)
{
    return cluster_protocol_names[p];
}

void cluster_name_from_file(const char *file, char out[CLUSTER_NAME_BYTES])
{
    const char *slash = strrchr(file, '/');
    const char *base = slash != NULL ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    bool yaml = dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    size_t bytes = yaml ? (size_t)(dot - base) : strlen(base), n = 0;

    for (; n < bytes && n < NAME_CHARS_MAX; n++)
        out[n] = name_char_ok(base[n]) ? base[n] : '-';
    out[n] = '\0';
    if (!name_ok(out))
        snprintf(out, CLUSTER_NAME_BYTES, "cluster");
}

void cluster_warn(struct cluster *c, const struct doc *d, uint32_t line, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES - DOC_FILE_BYTES - 32]; /* so that the whole fits */
    va_list ap;

    if (c->warnings++ >= CLUSTER_WARNINGS_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(c->warning[c->warnings - 1], ERR_TEXT_BYTES, "%s:%u: warning: %s", d->file, line,
             text);
}

/* ---- files ---- */

static int parse(const char *text, size_t bytes, const char *file, bool lax, struct cluster **out,
                 struct err *e)
{
    struct doc d;

    *out = NULL;
    if (bytes > CLUSTER_FILE_BYTES_MAX) {
        doc_show_file(file, d.file);
        return err_set(e, ERR_TOOBIG, "%s: larger than %s; no cluster file is", d.file,
                       value_size_shown(CLUSTER_FILE_BYTES_MAX).s);
    }
    int rc = doc_read(&d, text, bytes, file, e);
    if (rc < 0)
        return rc;
    struct cluster *c = cluster_blank();
    rc = c ? cluster_read(c, &d, file, lax, e)
           : err_set(e, ERR_NOMEM, "%s: no memory to read it", d.file);
    doc_fini(&d);
    if (rc < 0)
        cluster_free(c);
    else
        *out = c;
    return rc;
}

int cluster_parse(const char *text, size_t bytes, const char *file, struct cluster **out,
                  struct err *e)
{
    return parse(text, bytes, file, false, out, e);
}

int cluster_parse_lax(const char *text, size_t bytes, const char *file, struct cluster **out,
                      struct err *e)
{
    return parse(text, bytes, file, true, out, e);
}

/* Reads at most one byte more than is allowed, which tells that there is too much; regular or not. */
static int read_all(int fd, const char *shown, char *text, size_t room, size_t *bytes,
                    struct err *e)
{
    *bytes = 0;
    while (*bytes < room) {
        ssize_t n = read(fd, text + *bytes, room - *bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "%s: cannot be read", shown);
        if (n == 0)
            break;
        *bytes += (size_t)n;
    }
    return 0;
}

int cluster_file_text(int fd, const char *path, char **out, size_t *bytes, struct err *e)
{
    size_t room = CLUSTER_FILE_BYTES_MAX + 1;
    char shown[DOC_FILE_BYTES];
    struct stat st;

    *out = NULL;
    *bytes = 0;
    doc_show_file(path, shown);
    if (fstat(fd, &st) < 0)
        return err_sys(e, "%s: cannot be looked at", shown);
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "%s: is a directory; name the cluster file in it", shown);
    char *text = malloc(room); /* the kernel gives only the pages that are filled */
    if (text == NULL)
        return err_set(e, ERR_NOMEM, "%s: no memory to read it", shown);
    int rc = read_all(fd, shown, text, room, bytes, e);
    if (rc == 0)
        *out = text;
    else
        free(text);
    return rc;
}

int cluster_file_open(const char *path, struct err *e)
{
    char shown[DOC_FILE_BYTES];

    doc_show_file(path, shown);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOTFOUND, "%s: there is no such file; `tram init` writes one", shown);
    return fd < 0 ? err_sys(e, "%s: cannot be opened", shown) : fd;
}

static int load(const char *path, bool lax, struct cluster **out, struct err *e)
{
    size_t bytes = 0;
    char *text = NULL;

    *out = NULL;
    int fd = cluster_file_open(path, e);
    if (fd < 0)
        return fd;
    int rc = cluster_file_text(fd, path, &text, &bytes, e);
    close(fd);
    if (rc == 0)
        rc = parse(text, bytes, path, lax, out, e);
    free(text);
    if (rc == 0)
        rc = cluster_read_any(*out, path, e);
    if (rc == ERR_NOTFOUND && lax)
        rc = 0;
    if (rc < 0) {
        cluster_free(*out);
        *out = NULL;
    }
    /* There is a cluster file, and it is wrong about another one. */
    return rc == ERR_NOTFOUND ? ERR_INVALID : rc;
}

int cluster_load(const char *path, struct cluster **out, struct err *e)
{
    return load(path, false, out, e);
}

int cluster_load_lax(const char *path, struct cluster **out, struct err *e)
{
    return load(path, true, out, e);
}
