#include "api/backup.h"

#include "base/clock.h"
#include "base/grow.h"

#include <string.h>

enum { PIECES_A_ROUND = 8 };

#define SAY_EVERY_NS UINT64_C(1000000000)

void backup_init(struct backup *b, const struct api_machine *m)
{
    *b = (struct backup){.machine = {.calls = m->calls,
                                     .ctx = m->ctx,
                                     .group = m->group,
                                     .heartbeat_ns = m->heartbeat_ns,
                                     .group_name = m->group_name,
                                     .say = m->say}};
}

static void close_save(struct backup *b)
{
    if (b->save)
        api_save_close(&b->machine, b->save);
    b->save = NULL;
    grow_free(b->piece);
    b->piece = NULL;
}

void backup_fini(struct backup *b)
{
    close_save(b);
    api_machine_fini(&b->machine);
}

bool backup_goes_on(const struct backup *b)
{
    return b->phase == BACKUP_FROZEN || b->phase == BACKUP_WRITING || b->phase == BACKUP_ENDING;
}

static void end(struct backup *b, enum backup_phase how, const char *why)
{
    close_save(b);
    b->phase = how;
    if (how != BACKUP_FAILED)
        return;
    uint64_t now_ns = clock_now_ns();
    if (b->said_ns != 0 && now_ns - b->said_ns < SAY_EVERY_NS)
        return; /* how often one is asked for is up to the clients */
    b->said_ns = now_ns;
    say_warn(&b->machine.say, "group %s: a backup was not written: %s", b->machine.group_name, why);
}

void backup_begin(struct backup *b, const unsigned char *id, uint64_t delivered, bool free)
{
    uint64_t bytes;
    if (backup_goes_on(b))
        return;
    memcpy(b->id, id, sizeof(b->id));
    b->delivered = delivered;
    b->bytes = 0;
    b->piece_bytes = b->piece_at = 0;
    if (free)
        b->save = api_save_open(&b->machine, &bytes);
    if (b->save == NULL) {
        end(b, BACKUP_FAILED, free ? b->machine.failure : "its state is being saved already");
        return;
    }
    b->piece = grow("a backup", NULL, 1, STATE_PIECE_BYTES);
    b->phase = BACKUP_FROZEN;
}

/* Hands over what there is. False: the disk takes no more now. */
static bool put(struct backup *b, struct disk *d)
{
    uint32_t n = disk_snap_put(d, b->piece + b->piece_at, b->piece_bytes - b->piece_at);
    b->piece_at += n;
    b->bytes += n;
    return b->piece_at == b->piece_bytes;
}

static int write_pieces(struct backup *b, struct disk *d)
{
    int work = 0;
    while (work < PIECES_A_ROUND && put(b, d)) {
        int got = api_save_next(&b->machine, b->save, b->piece, STATE_PIECE_BYTES);
        work++;
        b->piece_at = 0;
        b->piece_bytes = got > 0 ? (uint32_t)got : 0;
        if (got > 0)
            continue;
        disk_snap_end(d, got == 0);
        if (got == 0) {
            close_save(b);
            b->phase = BACKUP_ENDING;
        } else {
            end(b, BACKUP_FAILED, b->machine.failure);
        }
        break;
    }
    return work;
}

void backup_give_up(struct backup *b, struct disk *d)
{
    if (b->phase == BACKUP_WRITING)
        disk_snap_end(d, false);
    if (backup_saves(b))
        end(b, BACKUP_FAILED, "it gets a state of another replica");
}

int backup_step(struct backup *b, struct disk *d, uint32_t group)
{
    if (b->phase == BACKUP_FROZEN && disk_backup_open(d, group, b->id, b->delivered))
        b->phase = BACKUP_WRITING;
    if (b->phase == BACKUP_WRITING)
        return write_pieces(b, d);
    if (b->phase != BACKUP_ENDING || disk_backup_busy(d, group))
        return 0;
    bool whole = disk_backup_is(d, group, b->id);
    end(b, whole ? BACKUP_WHOLE : BACKUP_FAILED, "the disk has no room for it");
    return 1;
}
