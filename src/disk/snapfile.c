/* Snapshots: put together in memory, half a buffer at a time, while the other half is written. */
#include "base/minmax.h"
#include "disk/disk_impl.h"

#include <stdio.h>
#include <string.h>

void snapfile_name(char *name, uint32_t group, uint64_t pos, const char *suffix)
{
    snprintf(name, BLOCK_NAME_BYTES, SNAP_PREFIX "%u.%llu%s", group, (unsigned long long)pos,
             suffix);
}

/* ---- what is put ---- */

static unsigned char *piece_at(const struct snap_writer *w)
{
    return w->half[w->filling] + (size_t)w->pieces * PIECE_BYTES;
}

void snapfile_seal(void *piece, const struct piece_header *h)
{
    unsigned char *data = (unsigned char *)piece + PIECE_HEADER_BYTES;

    *(struct piece_header *)piece = *h;
    memset(data + h->bytes, 0, PIECE_DATA_BYTES - h->bytes);
    scan_seal_piece(piece);
}

static void piece_seal(struct disk *d, bool end)
{
    struct snap_writer *w = &d->snap;
    struct piece_header h = {
        .magic = PIECE_MAGIC,
        .version = FORMAT_VERSION,
        .flags = end ? PIECE_END : 0,
        .pos = w->pos,
        .group = w->group,
        .number = w->piece_number,
        .bytes = w->piece_bytes,
    };

    memcpy(h.journal, w->id, sizeof h.journal);
    snapfile_seal(piece_at(w), &h);
    w->pieces++;
    w->piece_number++;
    w->piece_bytes = 0;
}

/* The half that was filled waits to be written; the other one is free. */
static void turn_over(struct snap_writer *w)
{
    CHECK(!w->ready);
    w->ready = true;
    w->ready_pieces = w->pieces;
    w->filling = (w->filling + 1) % HALVES;
    w->pieces = 0;
}

/* Room in the piece that is filled. A full one is sealed only when more comes: the last one says that it is. */
static uint32_t room(struct disk *d)
{
    struct snap_writer *w = &d->snap;

    if (w->piece_bytes < PIECE_DATA_BYTES)
        return PIECE_DATA_BYTES - w->piece_bytes;
    if (w->pieces == HALF_PIECES - 1 && (w->ready || d->bulk == BULK_PIECES))
        return 0;
    piece_seal(d, false);
    if (w->pieces == HALF_PIECES)
        turn_over(w);
    return PIECE_DATA_BYTES;
}

uint32_t disk_snap_put(struct disk *d, const void *piece, uint32_t bytes)
{
    struct snap_writer *w = &d->snap;
    const unsigned char *from = piece;
    uint32_t taken = 0, n;

    CHECK(w->phase == SNAP_TAKING);
    if (w->given_up)
        return bytes;
    while (taken < bytes && (n = room(d)) > 0) {
        n = (uint32_t)min_u64(n, bytes - taken);
        memcpy(piece_at(w) + PIECE_HEADER_BYTES + w->piece_bytes, from + taken, n);
        w->piece_bytes += n;
        taken += n;
    }
    return taken;
}

void disk_snap_hurry(struct disk *d)
{
    d->snap.hurry = true;
}

static bool writer_open(struct disk *d, uint32_t group, uint64_t pos, const unsigned char *id)
{
    struct snap_writer *w = &d->snap;

    CHECK(group < d->shape.groups);
    if (w->phase != SNAP_NONE || d->snap_no_room_ns != 0 || d->failure[0] != '\0')
        return false;
    *w = (struct snap_writer){
        .phase = SNAP_TAKING, .group = group, .pos = pos, .half = {w->half[0], w->half[1]}};
    memcpy(w->id, id, sizeof w->id);
    return true;
}

bool disk_snap_open(struct disk *d, uint32_t group, uint64_t pos)
{
    CHECK(group < d->shape.groups && pos > 0);
    if (PLANTED(disk_snap_ahead))
        pos = max_u64(pos, d->groups[group].said.applied);
    if (!writer_open(d, group, pos, d->journal))
        return false;
    snapfile_name(d->snap.name, group, pos, "");
    snapfile_name(d->snap.tmp, group, pos, TMP_SUFFIX);
    return true;
}

bool disk_backup_open(struct disk *d, uint32_t group, const unsigned char *id, uint64_t delivered)
{
    struct snap_writer *w = &d->snap;

    if (!writer_open(d, group, delivered, id))
        return false;
    w->is_backup = true;
    snprintf(w->name, sizeof w->name, BACKUP_PREFIX "%u", group);
    snprintf(w->tmp, sizeof w->tmp, BACKUP_PREFIX "%u" TMP_SUFFIX, group);
    return true;
}

bool disk_backup_busy(const struct disk *d, uint32_t group)
{
    return d->snap.phase != SNAP_NONE && d->snap.is_backup && d->snap.group == group;
}

bool disk_backup_is(const struct disk *d, uint32_t group, const unsigned char *id)
{
    CHECK(group < d->shape.groups);
    return memcmp(d->groups[group].backup, id, DISK_ID_BYTES) == 0;
}

void disk_snap_end(struct disk *d, bool whole)
{
    CHECK(d->snap.phase == SNAP_TAKING);
    d->snap.phase = whole && !d->snap.given_up ? SNAP_ENDING : SNAP_DROPPING;
}

uint64_t disk_snap(const struct disk *d, uint32_t group)
{
    CHECK(group < d->shape.groups);
    return d->groups[group].snap;
}

bool disk_snap_busy(const struct disk *d)
{
    return d->snap.phase != SNAP_NONE;
}

/* ---- orders ---- */

/* The file grows by an eighth: not too often, and it is not much longer than it must be. */
static uint64_t longer(const struct snap_writer *w, uint64_t end)
{
    return max_u64(end, w->file_bytes + w->file_bytes / 8 / PIECE_BYTES * PIECE_BYTES);
}

static void begin_pieces(struct disk *d)
{
    struct snap_writer *w = &d->snap;
    uint64_t bytes = (uint64_t)w->ready_pieces * PIECE_BYTES;
    struct block_step steps[2];
    uint32_t count = 0;

    if (w->written + bytes > w->file_bytes) {
        w->file_bytes = longer(w, w->written + bytes);
        steps[count++] = (struct block_step){
            .act = w->made ? BLOCK_GROW : BLOCK_CREATE, .name = w->tmp, .bytes = w->file_bytes};
    }
    steps[count++] = (struct block_step){.act = BLOCK_WRITE,
                                         .name = w->tmp,
                                         .data = w->half[(w->filling + 1) % HALVES],
                                         .at = w->written,
                                         .bytes = bytes};
    w->made = true;
    w->written += bytes;
    w->ready = false;
    d->bulk = BULK_PIECES;
    block_begin(d->block, BLOCK_BULK, steps, count);
}

static void begin_name(struct disk *d)
{
    struct snap_writer *w = &d->snap;
    struct block_step step = {.act = BLOCK_RENAME, .name = w->tmp, .to = w->name};

    w->phase = SNAP_NAMING;
    d->bulk = BULK_NAME;
    block_begin(d->block, BLOCK_BULK, &step, 1);
    if (PLANTED(disk_snap_unnamed) && !w->is_backup)
        append_snap(d, w->group, w->pos);
}

static void begin_drop(struct disk *d)
{
    struct block_step step = {.act = BLOCK_REMOVE, .name = d->snap.tmp};

    d->bulk = BULK_DROP;
    block_begin(d->block, BLOCK_BULK, &step, 1);
}

/* Data is durable before the name is: a name without .tmp is a promise. */
static bool begin_end(struct disk *d)
{
    struct snap_writer *w = &d->snap;

    if (w->pieces > 0 || w->piece_bytes > 0 || w->written == 0) {
        piece_seal(d, true);
        turn_over(w);
        begin_pieces(d);
    } else {
        begin_name(d);
    }
    return true;
}

bool snapfile_waits(const struct disk *d)
{
    const struct snap_writer *w = &d->snap;

    return w->phase == SNAP_DROPPING || w->phase == SNAP_ENDING || (w->ready && !w->given_up);
}

bool snapfile_begin(struct disk *d)
{
    struct snap_writer *w = &d->snap;

    if (w->phase == SNAP_DROPPING) {
        if (w->made)
            begin_drop(d);
        else
            w->phase = SNAP_NONE;
        return true;
    }
    if (w->ready && !w->given_up) {
        begin_pieces(d);
        return true;
    }
    return w->phase == SNAP_ENDING && begin_end(d);
}

/* What is still put goes nowhere; the caller learns of it when disk_snap does not rise. */
static void give_up(struct disk *d)
{
    struct snap_writer *w = &d->snap;

    d->snap_no_room_ns = d->snap_told_ns = d->now_ns ? d->now_ns : 1;
    w->given_up = true;
    if (w->phase == SNAP_ENDING)
        w->phase = SNAP_DROPPING;
}

void snapfile_over(struct disk *d, enum block_status status)
{
    struct snap_writer *w = &d->snap;

    if (status == BLOCK_NO_ROOM) {
        give_up(d);
    } else if (d->bulk == BULK_NAME) {
        d->snap_told_ns = 0;
        if (w->is_backup) {
            memcpy(d->groups[w->group].backup, w->id, sizeof w->id);
            w->phase = SNAP_NONE;
            return;
        }
        w->phase = d->groups[w->group].snap == w->pos ? SNAP_NONE : SNAP_RECORDING;
        if (!PLANTED(disk_snap_unnamed))
            append_snap(d, w->group, w->pos);
    } else if (d->bulk == BULK_DROP) {
        w->phase = SNAP_NONE;
    }
}
