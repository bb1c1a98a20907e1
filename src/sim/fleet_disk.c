/* The disks of a fleet's hosts: they outlive their processes, and lose what was not flushed with the power. */
#include "sim/fleet.h"

#include "base/grow.h"
#include "base/hash.h"
#include "disk/scan.h"

enum {
    SEGMENT_BYTES = 128 << 10,
    SEGMENTS = 5, /* and more for each group, */
    SEGMENTS_PER_GROUP = 2,
    BUFFER_BYTES = 512 << 10,
    BATCH_BYTES = 64 << 10,
    RETRY_NS = 100000, /* as much to a run as a second is to a real host */
    /* Where disks have little room: */
    CRAMPED_EXTRA_BYTES = 12 << 10, /* what a batch has besides a chain */
    CRAMPED_BATCHES = 2,            /* a segment */
    SEGMENTS_LEAST = 4,
    FLIP_TRIES = 1000, /* most of a journal was never written */
};

static uint32_t batch_bytes(const struct fleet *f)
{
    if (f->cramped) /* as small as may be */
        return (f->log_bytes_max + CRAMPED_EXTRA_BYTES + BLOCK_BYTES - 1) / BLOCK_BYTES *
               BLOCK_BYTES;
    return f->log_bytes_max >= BATCH_BYTES ? 2 * f->log_bytes_max : BATCH_BYTES;
}

static uint32_t segment_bytes(const struct fleet *f)
{
    if (f->cramped)
        return CRAMPED_BATCHES * batch_bytes(f);
    return batch_bytes(f) > SEGMENT_BYTES / 2 ? 2 * batch_bytes(f) : SEGMENT_BYTES;
}

static uint32_t chains_of(const struct fleet_node *n)
{
    return n->members + 2 * n->memories; /* a memory's may be twice as long */
}

static uint32_t segments(const struct fleet_node *n)
{
    const struct fleet *f = n->fleet;
    if (!f->cramped)
        return SEGMENTS + SEGMENTS_PER_GROUP * chains_of(n);
    uint32_t each = segment_bytes(f) - batch_bytes(f);
    uint32_t chains = (chains_of(n) * (f->log_bytes_max + BLOCK_BYTES) + BLOCK_BYTES + each) / each;
    return SEGMENTS_LEAST + chains + f->segments_more;
}

static struct disk_shape shape_of(const struct fleet_node *n)
{
    struct disk_shape s = {.cluster = "simulated",
                           .groups = n->fleet->groups,
                           .hosts = n->fleet->hosts,
                           .clients = n->fleet->clients};
    snprintf(s.host, sizeof(s.host), "h%u", n->node);
    return s;
}

/* A directory: of a host's first life, or of one that had another disk before. */
static int make_directory(struct fleet_node *n, struct err *e)
{
    struct disk_shape shape = shape_of(n);
    struct block *b = disk_sim_block(n->platters, &n->disk_ns);
    int rc = disk_format(b, &shape, n->mem->life, e);
    block_close(b);
    n->disk_blank = rc != 0;
    if (rc != 0)
        disk_sim_wipe(n->platters); /* it may be half made */
    return rc;
}

static int disk_make(struct fleet_node *n, struct err *e)
{
    const struct fleet *f = n->fleet;
    struct disk_sim_options o = f->disk_options;
    o.seed = hash_mix(f->disk_options.seed, n->node);
    n->platters = disk_sim_open(&o);
    n->disk_blank = true;
    return n->platters ? 0 : err_set(e, ERR_NOMEM, "no memory for a disk");
}

static int open_directory(struct fleet_node *n, struct err *e)
{
    struct disk_options o = {
        .block = disk_sim_block(n->platters, &n->disk_ns),
        .shape = shape_of(n),
        .segment_bytes = segment_bytes(n->fleet),
        .bytes = segments(n) * (uint64_t)segment_bytes(n->fleet),
        .buffer_bytes = BUFFER_BYTES,
        .batch_bytes = batch_bytes(n->fleet),
        .retry_ns = RETRY_NS,
    };
    int rc = disk_open(&o, &n->disk, e);
    if (rc != 0)
        disk_sim_die(n->platters);
    return rc;
}

/* What a group had may have been promised or accepted, and its disk does not know: nor may its memory. */
static bool lacks_promises(const struct fleet_node *n)
{
    for (uint32_t i = 0; i < n->members; i++)
        if (disk_found(n->disk, n->member[i].group)->state == DISK_BEYOND)
            return true;
    for (uint32_t i = 0; i < n->memories; i++)
        if (disk_found(n->disk, n->memory[i].group)->state == DISK_BEYOND)
            return true;
    return false;
}

int fleet_disk_open(struct fleet_node *n, struct err *e)
{
    n->disk_ns = sim_now(n->fleet->sim);
    n->journal_full = false;
    int rc = n->platters ? 0 : disk_make(n, e);
    if (rc == 0 && !n->disk_blank) {
        rc = open_directory(n, e);
        if (rc == ERR_CORRUPT) { /* not even whose it is can be told */
            disk_sim_wipe(n->platters);
            n->disk_blank = true;
            rc = 0;
        }
    }
    if (rc == 0 && n->disk_blank) {
        rc = make_directory(n, e);
        rc = rc == 0 ? open_directory(n, e) : rc;
    }
    if (rc == 0 && lacks_promises(n))
        sim_node_forget(n->fleet->sim, n->node);
    return rc;
}

static bool is_there_again(const struct fleet_node *n, uint32_t group)
{
    const struct disk_found *f = disk_found(n->disk, group);
    uint64_t snap = disk_snap(n->disk, group);
    return f->state == DISK_NEW || f->state == DISK_WHOLE || (snap > 0 && snap >= f->gap_to);
}

bool fleet_disk_well(const struct fleet_node *n)
{
    if (n->disk == NULL)
        return !n->disk_hurt;
    for (uint32_t i = 0; i < n->members; i++)
        if (!is_there_again(n, n->member[i].group))
            return false;
    for (uint32_t i = 0; i < n->memories; i++)
        if (n->memory[i].of.keep == NULL || log_memory_lacks(&n->memory[i].of))
            return false;
    return true;
}

void fleet_disk_die(struct fleet_node *n)
{
    if (n->disk == NULL)
        return;
    disk_sim_die(n->platters);
    disk_close(n->disk);
    n->disk = NULL;
}

int fleet_disk_round(struct fleet_node *n, uint64_t now_ns)
{
    n->disk_ns = now_ns;
    int work = disk_round(n->disk, now_ns);
    bool full = disk_is_full(n->disk);
    n->fleet->full_journals += full && !n->journal_full;
    n->journal_full = full;
    return work;
}

uint64_t fleet_disk_next_ns(const struct fleet_node *n)
{
    uint64_t next = disk_next_ns(n->disk), over = disk_sim_next_ns(n->platters);
    return next < over ? next : over;
}

void fleet_disk_lose(struct fleet_node *n)
{
    fleet_power_cut(n);
    disk_sim_wipe(n->platters);
    n->disk_blank = n->disk_hurt = true;
}

/* ---- flipped sectors ---- */

/* The last batch of a journal, where it is, in segments that were read one behind the other. */
struct last_batch {
    uint64_t number, from, to;
};

static void find_last(const struct fleet_node *n, const unsigned char *images, uint32_t count,
                      const unsigned char *journal, struct last_batch *last)
{
    uint64_t bytes = segment_bytes(n->fleet);
    for (uint32_t s = 0; s < count; s++) {
        uint64_t first = s * bytes, where;
        struct scan_batch b;
        for (uint64_t at = 0; scan_find(images + first, bytes, at, journal, n->fleet->groups,
                                        last->number + 1, UINT64_MAX, &b, &where);
             at = where + b.header->bytes)
            *last = (struct last_batch){b.header->number, first + where,
                                        first + where + b.header->bytes};
    }
}

static bool is_last(const struct last_batch *last, uint64_t at)
{
    return last->number == 0 || (at >= last->from && at < last->to);
}

/* Where something was ever written, and not in the last batch. False: not there. */
static bool flip_journal(struct fleet_node *n, const unsigned char *journal)
{
    uint32_t count = 0;
    uint64_t bytes = segment_bytes(n->fleet);
    struct rng *g = &n->fleet->rng;
    struct last_batch last = {0};
    unsigned char *images = grow("a journal", NULL, bytes, segments(n));
    char name[BLOCK_NAME_BYTES];
    for (;; count++) {
        snprintf(name, sizeof(name), SEGMENT_PREFIX "%05u", count + 1);
        if (count == segments(n) ||
            disk_sim_platter(n->platters, name, 0, images + count * bytes, bytes) != 0)
            break;
    }
    find_last(n, images, count, journal, &last);
    bool flipped = false;
    for (int tries = 0; count > 0 && !flipped && tries < FLIP_TRIES; tries++) {
        uint64_t at = rng_below(g, count * bytes);
        snprintf(name, sizeof(name), SEGMENT_PREFIX "%05u", (unsigned)(at / bytes) + 1);
        flipped =
            images[at] != 0 && !is_last(&last, at) && disk_sim_flip(n->platters, name, at % bytes);
    }
    grow_free(images);
    return flipped;
}

static bool flip_somewhere(struct fleet_node *n)
{
    static _Alignas(8) unsigned char host[SLOTS * SLOT_BYTES];
    bool later;
    struct rng *g = &n->fleet->rng;
    uint64_t pick = rng_below(g, 10);
    if (disk_sim_platter(n->platters, HOST_NAME, 0, host, sizeof(host)) != 0)
        return false;
    const struct slot *slot = scan_host(host, &later);
    if (pick == 0 || slot == NULL)
        return disk_sim_flip(n->platters, HOST_NAME, rng_below(g, sizeof(host)));
    if (pick < 4)
        return disk_sim_flip_any(n->platters, SNAP_PREFIX);
    return flip_journal(n, slot->journal);
}

uint32_t fleet_disk_flip(struct fleet_node *n, uint32_t sectors)
{
    uint32_t flipped = 0;
    CHECK(n->mem == NULL);
    for (uint32_t i = 0; i < sectors; i++)
        flipped += flip_somewhere(n);
    n->disk_hurt |= flipped > 0;
    return flipped;
}

void fleet_power_cut(struct fleet_node *n)
{
    if (n->mem != NULL)
        fleet_crash(n, false);
    disk_sim_power_cut(n->platters);
    if (n->fleet->calls->power_cut)
        n->fleet->calls->power_cut(n);
}
