/* Logs on disk as they are read: names, heads, batches, and records that count. */
#include "base/crc32c.h"
#include "base/grow.h"
#include "base/minmax.h"
#include "group/versions_impl.h"
#include "group/view.h"

#include <stdio.h>
#include <string.h>

typedef unsigned long long ull;

/* ---- names ---- */

void versions_name(char *name, uint32_t log, uint32_t index)
{
    if (log == VERSIONS_VIEWS)
        snprintf(name, BLOCK_NAME_BYTES, "views.%05u", index);
    else
        snprintf(name, BLOCK_NAME_BYTES, "cell.%u.%05u", log - 1, index);
}

static const char *number(const char *s, uint32_t *n)
{
    uint64_t value = 0;
    const char *start = s;
    for (; *s >= '0' && *s <= '9' && value <= UINT32_MAX; s++)
        value = 10 * value + (uint64_t)(*s - '0');
    *n = (uint32_t)value;
    return s == start || value >= UINT32_MAX ? NULL : s;
}

bool versions_is_name(const char *name, uint32_t *log, uint32_t *index)
{
    *log = VERSIONS_VIEWS;
    if (strncmp(name, "views.", 6) == 0) {
        name += 6;
    } else if (strncmp(name, "cell.", 5) == 0) {
        name = number(name + 5, log);
        if (name == NULL || *name != '.' || ++*log >= VERSIONS_LOGS_MAX)
            return false;
        name++;
    } else {
        return false;
    }
    name = number(name, index);
    return name && *name == '\0' && *index > 0;
}

/* ---- heads ---- */

static uint32_t segment_crc(const struct versions_segment *s)
{
    return crc32c(0, s, offsetof(struct versions_segment, crc));
}

void versions_segment_seal(struct versions_segment *s)
{
    s->crc = segment_crc(s);
}

bool versions_segment_good(const struct versions_segment *s, uint32_t log, uint32_t index)
{
    return s->magic == VERSIONS_SEGMENT_MAGIC && s->crc == segment_crc(s) && s->log == log &&
           s->index == index && s->batch > 0;
}

int versions_segment_whose(const struct versions_segment *s, const struct versions_owner *o,
                           const char *name, struct err *e)
{
    if (s->format != VERSIONS_FORMAT)
        return err_set(e, ERR_REFUSED, "%s has format %u, and this program knows %d", name,
                       s->format, VERSIONS_FORMAT);
    if (memcmp(s->cluster, o->cluster, sizeof(s->cluster)) != 0)
        return err_set(e, ERR_REFUSED, "%s is of another cluster", name);
    if (s->host != o->host)
        return err_set(e, ERR_REFUSED, "%s is of host %u, and this is host %u", name, s->host,
                       o->host);
    return 0;
}

/* ---- batches ---- */

static uint32_t batch_crc(const struct versions_batch *b)
{
    struct versions_batch head = *b;
    head.crc = 0;
    return crc32c(crc32c(0, &head, sizeof(head)), b + 1, b->used);
}

void versions_batch_seal(struct versions_batch *b)
{
    b->crc = batch_crc(b);
}

static bool batch_fits(const struct versions_batch *b, uint64_t bytes)
{
    return b->magic == VERSIONS_BATCH_MAGIC && b->bytes >= BLOCK_BYTES &&
           b->bytes % BLOCK_BYTES == 0 && b->bytes <= bytes && b->used <= b->bytes - sizeof(*b) &&
           b->number > 0;
}

bool versions_batch_good(const void *data, uint64_t bytes)
{
    const struct versions_batch *b = data;
    return bytes >= sizeof(*b) && batch_fits(b, bytes) && b->crc == batch_crc(b);
}

const struct version *versions_next_record(const struct versions_batch *b, uint32_t *at)
{
    uint64_t end = sizeof(*b) + (uint64_t)b->used;
    const struct version *r = (const void *)((const unsigned char *)b + *at);
    if (end - *at < sizeof(*r))
        return NULL;
    uint64_t size = sizeof(*r) + versions_padded(r->bytes);
    if (size > end - *at)
        return NULL;
    *at += (uint32_t)size;
    return r;
}

struct digest versions_chain(const struct versions_batch *b)
{
    const size_t head = offsetof(struct versions_batch, flags);
    struct digest out = {{0}};
    if (b->flags & VERSIONS_SIGNED)
        return digest_chain(digest_chain(b->chain, digest_of(b, head)), digest_of(b + 1, b->used));
    out.word[0] = crc32c(crc32c(crc32c(0, &b->chain, sizeof(b->chain)), b, head), b + 1, b->used);
    return out;
}

/* ---- files ---- */

static void take_name(void *ctx, const char *name, uint64_t bytes)
{
    struct versions_files *l = ctx;
    uint32_t log, index;
    if (!versions_is_name(name, &log, &index) || (l->only != UINT32_MAX && log != l->only))
        return;
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->file = grow("names of segments", l->file, sizeof(*l->file), l->room);
    }
    uint32_t at = l->count++;
    for (; at > 0 && (l->file[at - 1].log > log ||
                      (l->file[at - 1].log == log && l->file[at - 1].index > index));
         at--)
        l->file[at] = l->file[at - 1];
    l->file[at] = (struct versions_file){.log = log, .index = index, .bytes = bytes};
}

/* A gap between two files of a log. */
static int check_gaps(const struct versions_files *l, struct err *e)
{
    char name[BLOCK_NAME_BYTES];
    for (uint32_t i = 1; i < l->count; i++) {
        const struct versions_file *f = &l->file[i], *before = f - 1;
        if (f->log != before->log || f->index == before->index + 1)
            continue;
        versions_name(name, f->log, before->index + 1);
        return err_set(e, ERR_CORRUPT, "%s is not there, and later segments are", name);
    }
    return 0;
}

int versions_list(struct block *b, uint32_t only, struct versions_files *l, struct err *e)
{
    *l = (struct versions_files){.only = only};
    int rc = block_list(b, take_name, l, e);
    return rc ? rc : check_gaps(l, e);
}

/* ---- reading batch by batch ---- */

enum { SEARCH_BYTES = 1 << 20 };

static void take_memory(struct versions_cursor *c, uint64_t bytes)
{
    if (c->memory_bytes >= bytes)
        return;
    uint64_t more = max_u64(bytes, 2 * c->memory_bytes);
    unsigned char *memory = grow_pages("a batch of versions", more);
    if (c->memory)
        memcpy(memory, c->memory, c->memory_bytes);
    grow_free(c->memory);
    c->memory = memory;
    c->memory_bytes = more;
}

void versions_cursor_end(struct versions_cursor *c)
{
    grow_free(c->memory);
    c->memory = NULL;
    c->memory_bytes = 0;
}

static int read_at(struct versions_cursor *c, uint32_t file, uint64_t at, uint64_t into,
                   uint64_t bytes, struct err *e)
{
    char name[BLOCK_NAME_BYTES];
    take_memory(c, into + bytes);
    versions_name(name, c->file[file].log, c->file[file].index);
    return block_read(c->block, name, at, c->memory + into, bytes, e);
}

bool versions_cursor_head(struct versions_cursor *c, uint32_t file, struct versions_segment *head,
                          int *rc, struct err *e)
{
    char name[BLOCK_NAME_BYTES];
    *rc = 0;
    if (c->file[file].bytes < 2 * BLOCK_BYTES)
        return false;
    *rc = read_at(c, file, 0, 0, BLOCK_BYTES, e);
    if (*rc)
        return false;
    memcpy(head, c->memory, sizeof(*head));
    if (!versions_segment_good(head, c->file[file].log, c->file[file].index))
        return false;
    versions_name(name, c->file[file].log, c->file[file].index);
    *rc = versions_segment_whose(head, c->owner, name, e);
    return *rc == 0;
}

/* Reads what may be a batch there, all of it. */
static bool batch_at(struct versions_cursor *c, uint64_t at, int *rc, struct err *e)
{
    uint64_t room = c->file[c->at_file].bytes - at;
    *rc = read_at(c, c->at_file, at, 0, BLOCK_BYTES, e);
    if (*rc)
        return false;
    const struct versions_batch *b = (const void *)c->memory;
    if (!batch_fits(b, room) || (c->number && b->number != c->number))
        return false;
    uint64_t bytes = b->bytes;
    if (bytes > BLOCK_BYTES)
        *rc = read_at(c, c->at_file, at + BLOCK_BYTES, BLOCK_BYTES, bytes - BLOCK_BYTES, e);
    return *rc == 0 && versions_batch_good(c->memory, bytes);
}

/* A batch with a higher number than the next one stands behind it: in the rest of this file, */
static bool later_here(struct versions_cursor *c, int *rc, struct err *e)
{
    uint64_t end = c->file[c->at_file].bytes, number = c->number;
    for (uint64_t from = c->at; from < end && *rc == 0; from += SEARCH_BYTES) {
        uint64_t bytes = min_u64(SEARCH_BYTES, end - from);
        *rc = read_at(c, c->at_file, from, 0, bytes, e);
        for (uint64_t i = 0; *rc == 0 && i < bytes; i += BLOCK_BYTES) {
            struct versions_batch b;
            memcpy(&b, c->memory + i, sizeof(b));
            if (!batch_fits(&b, end - from - i) || b.number <= number)
                continue;
            c->number = b.number;
            bool good = batch_at(c, from + i, rc, e);
            c->number = number;
            if (good)
                return true;
            *rc = *rc ? *rc : read_at(c, c->at_file, from, 0, bytes, e);
        }
    }
    return false;
}

/* and in files behind it. */
static bool later_files(struct versions_cursor *c, int *rc, struct err *e)
{
    struct versions_segment head;
    for (uint32_t f = c->at_file + 1; f < c->files && *rc == 0; f++)
        if (versions_cursor_head(c, f, &head, rc, e) && head.batch > c->number)
            return true;
    return false;
}

/* Nothing good stands where the next batch belongs: that is the end, or damage. Of a log that is written meanwhile the batch may have come since. */
static const struct versions_batch *nothing_here(struct versions_cursor *c, int *rc, struct err *e)
{
    char name[BLOCK_NAME_BYTES];
    /* The first batch of a file is written in one order with its head: where that was cut short neither counts. */
    if (c->at == 0 && c->file[c->at_file].bytes > BLOCK_BYTES && batch_at(c, BLOCK_BYTES, rc, e))
        c->number = ((const struct versions_batch *)(void *)c->memory)->number;
    if (*rc)
        return NULL;
    if (!later_here(c, rc, e) && !later_files(c, rc, e))
        return NULL;
    if (*rc == 0 && c->at > 0 && batch_at(c, c->at, rc, e))
        return (const void *)c->memory;
    versions_name(name, c->file[c->at_file].log, c->file[c->at_file].index);
    *rc = *rc ? *rc
              : err_set(e, ERR_CORRUPT, "%s is damaged at offset %llu, and good versions follow",
                        name, (ull)c->at);
    return NULL;
}

/* The next file is that of the next batch. */
static bool goes_on(struct versions_cursor *c, int *rc, struct err *e)
{
    struct versions_segment head;
    if (c->at_file + 1 >= c->files || !versions_cursor_head(c, c->at_file + 1, &head, rc, e) ||
        (c->number && head.batch != c->number))
        return false;
    c->at_file++;
    c->at = BLOCK_BYTES;
    c->number = head.batch;
    c->head = head;
    return true;
}

static bool begin_file(struct versions_cursor *c, int *rc, struct err *e)
{
    if (!versions_cursor_head(c, c->at_file, &c->head, rc, e) ||
        (c->number && c->head.batch != c->number))
        return false;
    c->at = BLOCK_BYTES;
    c->number = c->head.batch;
    return true;
}

const struct versions_batch *versions_cursor_next(struct versions_cursor *c, int *rc, struct err *e)
{
    *rc = 0;
    if (c->files == 0)
        return NULL;
    if (c->at == 0 && !begin_file(c, rc, e))
        return *rc ? NULL : nothing_here(c, rc, e);
    const struct versions_batch *b = NULL;
    for (bool more = true; more && b == NULL && *rc == 0;) {
        bool fits = c->at + BLOCK_BYTES <= c->file[c->at_file].bytes;
        if (fits && batch_at(c, c->at, rc, e))
            b = (const void *)c->memory;
        else
            more = *rc == 0 && goes_on(c, rc, e);
    }
    if (b == NULL && *rc == 0)
        b = nothing_here(c, rc, e);
    if (b == NULL)
        return NULL;
    c->at += b->bytes;
    c->number = b->number + 1;
    c->total = b->total - b->records;
    return b;
}

/* ---- records that count ---- */

struct cut {
    uint64_t version, place; /* of records before it those from there on do not count */
};

/* Cuts by place; their versions rise, since of two the earlier says nothing if the later cuts as much. */
struct reading {
    struct versions_cursor now, ahead; /* `ahead` looks for cuts */
    struct cut *cut;
    uint32_t cuts, room;
    uint32_t next; /* the first one that is not behind */
};

static void add_cut(struct reading *r, const struct cut *c)
{
    while (r->cuts > 0 && r->cut[r->cuts - 1].version >= c->version)
        r->cuts--;
    if (r->cuts == r->room) {
        r->room = r->room ? 2 * r->room : 16;
        r->cut = grow("cuts of a log", r->cut, sizeof(*r->cut), r->room);
    }
    r->cut[r->cuts++] = *c;
}

static void note_cuts(struct reading *r, const struct versions_batch *b)
{
    uint64_t place = b->total - b->records;
    uint32_t at = sizeof(*b);
    const struct version *v;
    for (; (v = versions_next_record(b, &at)) != NULL; place++)
        if (v->type == VERSION_CUT)
            add_cut(r, &(struct cut){.version = v->version, .place = place});
}

/* All that there are: a cell that goes on from disks is cut where it does, views behind that. */
static int look_ahead(struct reading *r, struct err *e)
{
    const struct versions_batch *b;
    int rc = 0;
    while ((b = versions_cursor_next(&r->ahead, &rc, e)) != NULL)
        note_cuts(r, b);
    return rc;
}

static bool is_cut(struct reading *r, uint64_t version, uint64_t place)
{
    while (r->next < r->cuts && r->cut[r->next].place <= place)
        r->next++;
    return r->next < r->cuts && r->cut[r->next].version <= version;
}

static int read_batch(struct reading *r, const struct versions_batch *b, uint64_t version,
                      uint64_t time, versions_fn *fn, void *ctx)
{
    uint64_t place = b->total - b->records;
    uint32_t at = sizeof(*b);
    const struct version *v;
    int rc = 0;
    for (; rc == 0 && (v = versions_next_record(b, &at)) != NULL; place++)
        if (v->type != VERSION_CUT && v->version >= version && v->time >= time &&
            !is_cut(r, v->version, place))
            rc = fn(ctx, v, v + 1);
    return rc;
}

/* The last file that begins before what is wanted. If that is everything it is the first: pieces of a state may go over files that all begin at version 0. */
static int skip_files(struct versions_cursor *c, uint64_t version, uint64_t time, struct err *e)
{
    struct versions_segment head;
    int rc = 0;
    if (version == 0 && time == 0)
        return 0;
    while (c->at_file + 1 < c->files && versions_cursor_head(c, c->at_file + 1, &head, &rc, e) &&
           rc == 0 && (head.version <= version || head.time < time))
        c->at_file++;
    return rc;
}

int versions_read(struct block *block, const struct versions_owner *owner, uint32_t log,
                  uint64_t version, uint64_t time, versions_fn *fn, void *ctx, struct err *e)
{
    struct versions_files files;
    struct reading r = {.cuts = 0};
    int rc = versions_list(block, log, &files, e);
    r.now = (struct versions_cursor){
        .block = block, .owner = owner, .file = files.file, .files = files.count};
    if (rc == 0)
        rc = skip_files(&r.now, version, time, e);
    r.ahead = r.now;
    r.ahead.memory = NULL;
    r.ahead.memory_bytes = 0;
    if (rc == 0)
        rc = look_ahead(&r, e);
    for (const struct versions_batch *b; rc == 0;) {
        b = versions_cursor_next(&r.now, &rc, e);
        if (b == NULL || b->number >= r.ahead.number) /* written since: its cuts are not known */
            break;
        rc = read_batch(&r, b, version, time, fn, ctx);
    }
    versions_cursor_end(&r.now);
    versions_cursor_end(&r.ahead);
    grow_free(r.cut);
    grow_free(files.file);
    return rc;
}

/* ---- checking all of it ---- */

struct checking {
    struct versions_cursor c;
    uint32_t log;
    bool (*check)(void *ctx, uint32_t log, const struct digest *, const unsigned char *signature);
    void *ctx;
    struct digest chain; /* over all that was read */
    struct versions_verified *out;
};

static int damaged(const struct checking *k, const struct versions_batch *b, const char *what,
                   struct err *e)
{
    char name[BLOCK_NAME_BYTES];
    const struct versions_file *f = &k->c.file[k->c.at_file];
    versions_name(name, f->log, f->index);
    return err_set(e, ERR_CORRUPT, "%s: the batch at offset %llu %s", name,
                   (ull)(k->c.at - b->bytes), what);
}

static int check_records(struct checking *k, const struct versions_batch *b, struct err *e)
{
    const struct version *v;
    uint32_t at = sizeof(*b), count = 0;
    for (; (v = versions_next_record(b, &at)) != NULL; count++)
        if (!versions_record_good(v))
            return damaged(k, b, "has a record that is not as it was written", e);
    k->out->records += count;
    return count == b->records ? 0 : damaged(k, b, "has not as many records as it says", e);
}

static void note_signature(struct versions_verified *out, bool is_signed)
{
    if (is_signed && out->with_signature++ == 0)
        out->signed_from = out->reach;
    out->unsigned_since += !is_signed && out->with_signature > 0;
}

static int check_batch(struct checking *k, const struct versions_batch *b, struct err *e)
{
    struct versions_verified *out = k->out;
    bool is_signed = b->flags & VERSIONS_SIGNED;
    if (!digest_equal(k->chain, b->chain))
        return damaged(k, b, "does not follow from what is before it: something was changed", e);
    k->chain = versions_chain(b);
    if (is_signed && k->check && !k->check(k->ctx, k->log, &k->chain, b->signature))
        return damaged(k, b, "has a signature that is not its host's", e);
    note_signature(out, is_signed);
    out->batches++;
    out->bytes += b->bytes;
    out->reach = b->reach;
    out->time = b->time;
    return check_records(k, b, e);
}

int versions_verify(struct block *block, const struct versions_owner *owner, uint32_t log,
                    bool (*check)(void *ctx, uint32_t log, const struct digest *,
                                  const unsigned char *signature),
                    void *ctx, struct versions_verified *out, struct err *e)
{
    struct versions_files files;
    struct checking k = {.log = log, .check = check, .ctx = ctx, .out = out};
    struct versions_segment head;
    *out = (struct versions_verified){.batches = 0};
    int rc = versions_list(block, log, &files, e);
    k.c = (struct versions_cursor){
        .block = block, .owner = owner, .file = files.file, .files = files.count};
    if (rc == 0 && files.count > 0 && versions_cursor_head(&k.c, 0, &head, &rc, e)) {
        k.chain = head.chain;
        out->first = out->reach = head.version;
    }
    for (const struct versions_batch *b; rc == 0;) {
        b = versions_cursor_next(&k.c, &rc, e);
        if (b == NULL)
            break;
        rc = check_batch(&k, b, e);
    }
    versions_cursor_end(&k.c);
    grow_free(files.file);
    return rc;
}
