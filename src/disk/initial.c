/* The state with which a group begins, in a cluster that is made of a backup: a snapshot of position 0, written before the directory is
 * one of a host. The host file says which groups have it, so that its loss is noticed. It goes when there is a snapshot. */
#include "base/grow.h"
#include "disk/disk_impl.h"

#include <stdio.h>
#include <string.h>

void snapfile_initial_name(char *name, uint32_t group)
{
    snprintf(name, BLOCK_NAME_BYTES, INITIAL_PREFIX "%u", group);
}

/* ---- writing ---- */

struct initial_writer {
    struct block *block;
    char tmp[BLOCK_NAME_BYTES];
    unsigned char *piece;
    struct piece_header header;
    int (*next)(void *ctx, void *out, uint32_t room);
    void *ctx;
};

/* As much as a piece holds; less only at the end. */
static int fill_piece(struct initial_writer *w, struct err *e)
{
    unsigned char *data = w->piece + PIECE_HEADER_BYTES;

    w->header.bytes = 0;
    while (w->header.bytes < PIECE_DATA_BYTES) {
        int got =
            w->next(w->ctx, data + w->header.bytes, PIECE_DATA_BYTES - (uint32_t)w->header.bytes);
        if (got < 0)
            return err_set(e, ERR_CORRUPT, "the state of group %u cannot be read", w->header.group);
        if (got == 0)
            return 0;
        w->header.bytes += (uint32_t)got;
    }
    return 1;
}

static int write_piece(struct initial_writer *w, struct err *e)
{
    uint64_t at = (uint64_t)w->header.number * PIECE_BYTES;
    const struct block_step steps[] = {
        {.act = at == 0 ? BLOCK_CREATE : BLOCK_GROW, .name = w->tmp, .bytes = at + PIECE_BYTES},
        {.act = BLOCK_WRITE, .name = w->tmp, .data = w->piece, .at = at, .bytes = PIECE_BYTES},
    };

    snapfile_seal(w->piece, &w->header);
    w->header.number++;
    return disk_order_wait(w->block, steps, 2, e);
}

static int write_pieces(struct initial_writer *w, struct err *e)
{
    int more = 1, rc = 0;

    while (more > 0 && rc >= 0) {
        more = fill_piece(w, e);
        if (more < 0)
            return more;
        w->header.flags = more ? 0 : PIECE_END;
        rc = write_piece(w, e);
    }
    return rc;
}

int disk_initial_write(struct block *b, const struct disk_shape *shape, uint32_t group,
                       int (*next)(void *ctx, void *out, uint32_t room), void *ctx, struct err *e)
{
    char name[BLOCK_NAME_BYTES];
    void *memory = grow("a state to begin with", NULL, 1, PIECE_BYTES + BLOCK_BYTES);
    struct initial_writer w = {
        .block = b,
        .piece = (unsigned char *)format_blocks((uintptr_t)memory),
        .header = {.magic = PIECE_MAGIC, .version = FORMAT_VERSION, .group = group},
        .next = next,
        .ctx = ctx,
    };

    CHECK(group < shape->groups);
    lives_journal_id(shape, 0, w.header.journal);
    snapfile_initial_name(name, group);
    snprintf(w.tmp, sizeof w.tmp, INITIAL_PREFIX "%u" TMP_SUFFIX, group);
    const struct block_step rename = {.act = BLOCK_RENAME, .name = w.tmp, .to = name};
    int rc = write_pieces(&w, e);
    if (rc >= 0)
        rc = disk_order_wait(b, &rename, 1, e);
    grow_free(memory);
    return rc;
}

void disk_initial_drop(struct block *b, const struct disk_shape *shape)
{
    char name[BLOCK_NAME_BYTES], tmp[BLOCK_NAME_BYTES + 8];
    struct err e;

    for (uint32_t g = 0; g < shape->groups; g++) {
        snapfile_initial_name(name, g);
        snprintf(tmp, sizeof tmp, "%s" TMP_SUFFIX, name);
        const struct block_step steps[] = {{.act = BLOCK_REMOVE, .name = name},
                                           {.act = BLOCK_REMOVE, .name = tmp}};
        if (disk_order_wait(b, steps, 2, &e) < 0)
            return;
    }
}

/* ---- reading ---- */

bool disk_initial(const struct disk *d, uint32_t group)
{
    CHECK(group < d->shape.groups);
    return d->groups[group].initial && d->groups[group].snap == 0;
}

int disk_initial_read(const struct disk *d, uint32_t group,
                      int (*fn)(void *ctx, const void *piece, uint32_t bytes), void *ctx,
                      struct err *e)
{
    CHECK(d->snap.phase == SNAP_NONE);
    if (!disk_initial(d, group))
        return err_set(e, ERR_NOTFOUND, "group %u began with nothing", group);
    return snapfile_read(d, group, 0, fn, ctx, e);
}

void initial_judge(struct disk *d)
{
    struct err e;

    for (uint32_t g = 0; g < d->shape.groups; g++) {
        struct group *group = &d->groups[g];
        if (group->initial && group->snap == 0 && group->found.state <= DISK_WHOLE &&
            snapfile_read(d, g, 0, NULL, NULL, &e) < 0)
            group->found.state = DISK_BELOW;
    }
}
