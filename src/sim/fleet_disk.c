/* The disks of a fleet's hosts: they outlive their processes, and lose what was not flushed with the power. */
#include "sim/fleet.h"

#include "base/hash.h"

enum {
    SEGMENT_BYTES = 128 << 10,
    SEGMENTS = 5, /* and more for each group, */
    SEGMENTS_PER_GROUP = 2,
    BUFFER_BYTES = 512 << 10,
    BATCH_BYTES = 64 << 10,
};

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

int fleet_disk_open(struct fleet_node *n, struct err *e)
{
    n->disk_ns = sim_now(n->fleet->sim);
    int rc = n->platters ? 0 : disk_make(n, e);
    if (rc == 0 && n->disk_blank)
        rc = make_directory(n, e);
    if (rc != 0)
        return rc;
    struct disk_options o = {
        .block = disk_sim_block(n->platters, &n->disk_ns),
        .shape = shape_of(n),
        .segment_bytes = SEGMENT_BYTES,
        .bytes = (SEGMENTS + SEGMENTS_PER_GROUP * n->members) * SEGMENT_BYTES,
        .buffer_bytes = BUFFER_BYTES,
        .batch_bytes = BATCH_BYTES,
    };
    rc = disk_open(&o, &n->disk, e);
    if (rc != 0)
        disk_sim_die(n->platters);
    return rc;
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
    return disk_round(n->disk, now_ns);
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
    n->disk_blank = true;
}

void fleet_power_cut(struct fleet_node *n)
{
    if (n->mem != NULL)
        fleet_crash(n, false);
    disk_sim_power_cut(n->platters);
}
