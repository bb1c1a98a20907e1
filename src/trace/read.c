/* Reading traces: a parser for exactly the lines of trace.h, with keys in any order and blanks. */
#include "trace/trace.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int trace_reader_open(struct trace_reader *r, const char *path, struct err *e)
{
    *r = (struct trace_reader){.path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "%s: open", path);
    uint64_t end, size;
    int rc = trace_find_end(fd, path, &end, &size, e);
    if (rc == 0 && end > 0) {
        void *p = mmap(NULL, end, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            rc = err_sys(e, "%s: mmap", path);
        } else {
            madvise(p, end, MADV_SEQUENTIAL);
            r->data = p;
            r->bytes = end;
            r->cut = r->data[end - 1] != '\n';
        }
    }
    r->unclosed = rc == 0 && (end < size || r->cut);
    close(fd);
    return rc;
}

void trace_reader_close(struct trace_reader *r)
{
    if (r->data != NULL)
        munmap((void *)(uintptr_t)r->data, r->bytes);
    r->data = NULL;
}

/* ---- a line ---- */

enum key {
    KEY_EV,
    KEY_CLIENT,
    KEY_GROUP,
    KEY_REPLICA,
    KEY_ID,
    KEY_DST,
    KEY_INC,
    KEY_N,
    KEY_CELL,
    KEY_MEMBER,
    KEY_VID,
    KEY_MEMBERS,
    KEY_VERSION,
    KEYS
};

static const char *const key_names[KEYS] = {
    "ev", "client", "group",  "replica", "id",      "dst",     "inc",
    "n",  "cell",   "member", "vid",     "members", "version",
};

#define BIT(key) (1u << (key))

static const struct {
    const char *name;
    unsigned keys; /* exactly these */
} kinds[] = {
    [TRACE_CAST] = {"cast", BIT(KEY_EV) | BIT(KEY_CLIENT) | BIT(KEY_ID) | BIT(KEY_DST)},
    [TRACE_START] = {"start",
                     BIT(KEY_EV) | BIT(KEY_GROUP) | BIT(KEY_REPLICA) | BIT(KEY_INC) | BIT(KEY_N)},
    [TRACE_DELIVER] = {"deliver", BIT(KEY_EV) | BIT(KEY_GROUP) | BIT(KEY_REPLICA) | BIT(KEY_INC) |
                                      BIT(KEY_N) | BIT(KEY_ID) | BIT(KEY_DST)},
    [TRACE_DONE] = {"done", BIT(KEY_EV) | BIT(KEY_CLIENT) | BIT(KEY_ID)},
    [TRACE_GAP] = {"gap", BIT(KEY_EV)},
    [TRACE_VIEW] = {"view",
                    BIT(KEY_EV) | BIT(KEY_MEMBER) | BIT(KEY_INC) | BIT(KEY_VID) | BIT(KEY_MEMBERS)},
    [TRACE_CELL_START] = {"start", BIT(KEY_EV) | BIT(KEY_CELL) | BIT(KEY_MEMBER) | BIT(KEY_INC) |
                                       BIT(KEY_VID) | BIT(KEY_N)},
    [TRACE_CELL_DELIVER] = {"deliver", BIT(KEY_EV) | BIT(KEY_CELL) | BIT(KEY_MEMBER) |
                                           BIT(KEY_INC) | BIT(KEY_VID) | BIT(KEY_N) | BIT(KEY_ID)},
    [TRACE_RAW_DELIVER] = {"deliver", BIT(KEY_EV) | BIT(KEY_CELL) | BIT(KEY_MEMBER) | BIT(KEY_INC) |
                                          BIT(KEY_VID) | BIT(KEY_ID)},
    [TRACE_FORMAT] = {"format", BIT(KEY_EV) | BIT(KEY_VERSION)},
    [TRACE_OUT] = {"out", BIT(KEY_EV) | BIT(KEY_MEMBER) | BIT(KEY_INC) | BIT(KEY_VID)},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* A place in the line, and what went wrong there. */
struct cursor {
    const char *p, *end;
    const struct trace_reader *r;
    struct err *e;
};

static int bad(const struct cursor *c, const char *what)
{
    /* As much of it as is fit for a terminal. */
    int left = 0;
    while (left < 20 && left < c->end - c->p && (unsigned char)c->p[left] >= ' ')
        left++;
    if (c->p == c->end)
        return err_set(c->e, ERR_CORRUPT, "%s:%u: %s, not the end of the line", c->r->path,
                       c->r->line, what);
    return err_set(c->e, ERR_CORRUPT, "%s:%u: %s, not '%.*s'", c->r->path, c->r->line, what, left,
                   c->p);
}

static inline void skip_blanks(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

static inline bool take(struct cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->p == c->end || *c->p != wanted)
        return false;
    c->p++;
    return true;
}

static inline bool same(struct trace_text t, const char *literal)
{
    return t.len == strlen(literal) && memcmp(t.at, literal, t.len) == 0;
}

/* Strings are names and ids: the writer never needs an escape, so none is understood. */
static int take_string(struct cursor *c, struct trace_text *out)
{
    if (!take(c, '"'))
        return bad(c, "expected a string");
    const char *from = c->p;
    while (c->p < c->end && *c->p != '"') {
        if ((unsigned char)*c->p < ' ' || *c->p == '\\')
            return bad(c, "expected a string without escapes and control characters");
        c->p++;
    }
    if (c->p == c->end)
        return bad(c, "expected a closing quote");
    if (c->p == from)
        return bad(c, "expected a string that is not empty");
    *out = (struct trace_text){from, (uint32_t)(c->p - from)};
    c->p++;
    return 0;
}

static int take_number(struct cursor *c, uint64_t max, uint64_t *out)
{
    skip_blanks(c);
    const char *from = c->p;
    uint64_t v = 0;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9') {
        v = v * 10 + (uint64_t)(*c->p++ - '0');
        if (v > max) {
            c->p = from;
            return bad(c, max == TRACE_INC_MAX ? "expected a number up to 2^31 - 1"
                                               : "expected a number up to 2^62");
        }
    }
    if (c->p == from || (*from == '0' && c->p > from + 1)) {
        c->p = from;
        return bad(c, "expected a whole number");
    }
    *out = v;
    return 0;
}

static int take_dst(struct cursor *c, struct trace_text *out)
{
    if (!take(c, '['))
        return bad(c, "expected a list of names");
    const char *from = c->p;
    struct trace_text group;
    do {
        int rc = take_string(c, &group);
        if (rc < 0)
            return rc;
    } while (take(c, ','));
    *out = (struct trace_text){from, (uint32_t)(c->p - from)};
    if (!take(c, ']'))
        return bad(c, "expected , or ] in a list of names");
    return 0;
}

bool trace_dst_next(struct trace_text *dst, struct trace_text *group)
{
    const char *open = memchr(dst->at, '"', dst->len);
    if (open == NULL)
        return false;
    const char *end = dst->at + dst->len;
    const char *close = memchr(open + 1, '"', (size_t)(end - open - 1));
    CHECK(close != NULL);
    *group = (struct trace_text){open + 1, (uint32_t)(close - open - 1)};
    *dst = (struct trace_text){close + 1, (uint32_t)(end - close - 1)};
    return true;
}

static int take_kind(struct cursor *c, struct trace_event *ev)
{
    struct trace_text name;
    int rc = take_string(c, &name);
    if (rc < 0)
        return rc;
    for (unsigned k = 0; k < KINDS; k++)
        if (same(name, kinds[k].name)) {
            ev->kind = (enum trace_kind)k;
            return 0;
        }
    return err_set(c->e, ERR_CORRUPT,
                   "%s:%u: unknown event '%.*s'; there are cast, start, deliver, done,"
                   " view, out, gap and format",
                   c->r->path, c->r->line, (int)(name.len < 40 ? name.len : 40), name.at);
}

static enum key find_key(struct trace_text name)
{
    for (unsigned k = 0; k < KEYS; k++)
        if (name.at[0] == key_names[k][0] && same(name, key_names[k]))
            return (enum key)k;
    return KEYS;
}

/* What is said in later versions, nobody here can judge. */
static int take_version(struct cursor *c)
{
    uint64_t version;
    int rc = take_number(c, TRACE_N_MAX, &version);
    if (rc == 0 && version > TRACE_VERSION)
        return err_set(c->e, ERR_REFUSED,
                       "%s:%u: the trace is of version %llu, and this program knows up to %d",
                       c->r->path, c->r->line, (unsigned long long)version, TRACE_VERSION);
    return rc;
}

static int take_value(struct cursor *c, enum key key, struct trace_event *ev)
{
    uint64_t inc;
    int rc;
    switch (key) {
    case KEY_EV:
        return take_kind(c, ev);
    case KEY_CLIENT:
        return take_string(c, &ev->client);
    case KEY_GROUP:
        return take_string(c, &ev->group);
    case KEY_REPLICA:
        return take_string(c, &ev->replica);
    case KEY_ID:
        return take_string(c, &ev->id);
    case KEY_DST:
        return take_dst(c, &ev->dst);
    case KEY_CELL:
        return take_string(c, &ev->cell);
    case KEY_MEMBER:
        return take_string(c, &ev->member);
    case KEY_MEMBERS:
        return take_dst(c, &ev->members);
    case KEY_VID:
        return take_number(c, TRACE_N_MAX, &ev->vid);
    case KEY_N:
        return take_number(c, TRACE_N_MAX, &ev->n);
    case KEY_INC:
        rc = take_number(c, TRACE_INC_MAX, &inc);
        ev->inc = rc == 0 ? (uint32_t)inc : 0;
        return rc;
    case KEY_VERSION:
        return take_version(c);
    case KEYS:
        break;
    }
    CHECK(!"a key");
    return 0;
}

static int parse_line(struct cursor *c, struct trace_event *ev)
{
    const char *path = c->r->path;
    uint32_t line = c->r->line;
    unsigned seen = 0;
    *ev = (struct trace_event){0};
    if (!take(c, '{'))
        return bad(c, "expected {");
    do {
        struct trace_text name;
        int rc = take_string(c, &name);
        if (rc < 0)
            return rc;
        enum key key = find_key(name);
        if (key == KEYS)
            return err_set(c->e, ERR_CORRUPT, "%s:%u: unknown key '%.*s'", path, line,
                           (int)(name.len < 40 ? name.len : 40), name.at);
        if (seen & BIT(key))
            return err_set(c->e, ERR_CORRUPT, "%s:%u: key '%s' twice", path, line, key_names[key]);
        seen |= BIT(key);
        if (!take(c, ':'))
            return bad(c, "expected : after a key");
        rc = take_value(c, key, ev);
        if (rc < 0)
            return rc;
    } while (take(c, ','));
    if (!take(c, '}'))
        return bad(c, "expected , or }");
    skip_blanks(c);
    if (c->p != c->end)
        return bad(c, "expected the end of the line");
    if (!(seen & BIT(KEY_EV)))
        return err_set(c->e, ERR_CORRUPT, "%s:%u: no \"ev\"", path, line);
    /* Of members of groups with views these two are others. */
    if (seen & BIT(KEY_CELL) && ev->kind == TRACE_START)
        ev->kind = TRACE_CELL_START;
    if (seen & BIT(KEY_CELL) && ev->kind == TRACE_DELIVER)
        ev->kind = seen & BIT(KEY_N) ? TRACE_CELL_DELIVER : TRACE_RAW_DELIVER;
    for (unsigned k = 0; k < KEYS; k++)
        if ((seen ^ kinds[ev->kind].keys) & BIT(k))
            return err_set(c->e, ERR_CORRUPT, "%s:%u: a %s %s \"%s\"", path, line,
                           kinds[ev->kind].name, seen & BIT(k) ? "has no" : "needs", key_names[k]);
    return 0;
}

static int read_line(struct trace_reader *r, struct trace_event *ev, struct err *e)
{
    if (r->at == r->bytes)
        return 0;
    const char *from = r->data + r->at;
    const char *end = memchr(from, '\n', r->bytes - r->at);
    if (end == NULL) { /* cut off */
        r->at = r->bytes;
        return 0;
    }
    if (r->line == UINT32_MAX)
        return err_set(e, ERR_TOOBIG, "%s: more than 2^32 lines", r->path);
    r->line++;
    r->at += (size_t)(end - from) + 1;
    struct cursor c = {from, end, r, e};
    int rc = parse_line(&c, ev);
    return rc < 0 ? rc : 1;
}

int trace_read(struct trace_reader *r, struct trace_event *ev, struct err *e)
{
    int rc;

    do
        rc = read_line(r, ev, e);
    while (rc > 0 && ev->kind == TRACE_FORMAT);
    return rc;
}
