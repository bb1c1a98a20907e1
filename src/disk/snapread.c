/* Snapshots as they are read: once, checked piece by piece on the way to whom they are for. */
#include "base/grow.h"
#include "disk/disk_impl.h"

/* Many pieces are read at a time, for a disk takes nearly as long for one; and several such parts are under way. */
enum { PART_PIECES = 16, PART_BYTES = PART_PIECES * PIECE_BYTES };

struct snap_reader {
    const struct disk *d;
    char name[BLOCK_NAME_BYTES];
    unsigned char *parts; /* READ_AHEAD of them: part n is in number n % READ_AHEAD */
    uint32_t begun;       /* parts that were announced */
    bool
        one_by_one; /* the part could not be read as a whole: at the end of the file, or where it is damaged */
};

static unsigned char *part_at(const struct snap_reader *r, uint32_t part)
{
    return r->parts + (uint64_t)(part % READ_AHEAD) * PART_BYTES;
}

static int read_part(struct snap_reader *r, uint32_t part, struct err *e)
{
    for (; r->begun < part + READ_AHEAD; r->begun++)
        block_ahead(r->d->block, r->name, (uint64_t)r->begun * PART_BYTES, part_at(r, r->begun),
                    PART_BYTES);
    int rc = block_read(r->d->block, r->name, (uint64_t)part * PART_BYTES, part_at(r, part),
                        PART_BYTES, e);
    r->one_by_one = rc == ERR_CORRUPT;
    return r->one_by_one ? 0 : rc;
}

static int read_piece(struct snap_reader *r, uint32_t n, const unsigned char **piece, struct err *e)
{
    unsigned char *at = part_at(r, n / PART_PIECES) + (uint64_t)(n % PART_PIECES) * PIECE_BYTES;
    int rc = n % PART_PIECES == 0 ? read_part(r, n / PART_PIECES, e) : 0;

    *piece = at;
    if (rc < 0 || !r->one_by_one)
        return rc;
    return block_read(r->d->block, r->name, (uint64_t)n * PIECE_BYTES, at, PIECE_BYTES, e);
}

static int damaged(const char *name, uint32_t number, struct err *e)
{
    return err_set(e, ERR_CORRUPT, "%s: piece %u is damaged or missing", name, number);
}

static int read_pieces(struct snap_reader *r, uint32_t group, uint64_t pos,
                       int (*fn)(void *ctx, const void *piece, uint32_t bytes), void *ctx,
                       struct err *e)
{
    const unsigned char *piece = NULL;
    bool last = false;
    int rc = 0;

    for (uint32_t n = 0; rc >= 0 && !last; n++) {
        rc = read_piece(r, n, &piece, e);
        const struct piece_header *h = (const void *)piece;
        if (rc >= 0 && !scan_piece(piece, r->d->journal, group, pos, n))
            rc = damaged(r->name, n, e);
        if (rc >= 0 && fn && h->bytes > 0)
            rc = fn(ctx, piece + PIECE_HEADER_BYTES, h->bytes);
        last = rc >= 0 && (h->flags & PIECE_END);
    }
    return rc < 0 ? rc : 0;
}

int snapfile_read(const struct disk *d, uint32_t group, uint64_t pos,
                  int (*fn)(void *ctx, const void *piece, uint32_t bytes), void *ctx, struct err *e)
{
    struct snap_reader r = {.d = d};

    r.parts = grow_pages("a snapshot as it is read", (uint64_t)READ_AHEAD * PART_BYTES);
    if (pos == 0)
        snapfile_initial_name(r.name, group);
    else
        snapfile_name(r.name, group, pos, "");
    int rc = read_pieces(&r, group, pos, fn, ctx, e);
    block_ahead_end(d->block);
    grow_free(r.parts);
    return rc;
}

int disk_snap_read(struct disk *d, uint32_t group,
                   int (*fn)(void *ctx, const void *piece, uint32_t bytes), void *ctx,
                   struct err *e)
{
    CHECK(group < d->shape.groups && d->snap.phase == SNAP_NONE);
    if (d->groups[group].snap == 0)
        return err_set(e, ERR_NOTFOUND, "group %u has no snapshot on this disk", group);
    int rc = snapfile_read(d, group, d->groups[group].snap, fn, ctx, e);
    if ((rc == ERR_CORRUPT || rc == ERR_NOTFOUND) && d->groups[group].snap_unread) {
        judge_snap_damaged(d, group);
        rc = ERR_CORRUPT;
    }
    d->groups[group].snap_unread = false;
    return rc;
}

void disk_snaps_check(struct disk *d)
{
    struct err e;

    for (uint32_t g = 0; g < d->shape.groups; g++)
        if (d->groups[g].snap_unread)
            disk_snap_read(d, g, NULL, NULL, &e);
}
