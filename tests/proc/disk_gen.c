/* Writes the directory of a host, for tests of `tram disk`: disk_gen DIR. Or makes one that is there one of a later version: disk_gen
 * DIR later. Group 0 has records and a snapshot, group 1 records that
 * are not decided, group 2 nothing. Prints where in the journal the records of group 1 stand. */
#include "base/clock.h"
#include "disk/block_file.h"
#include "disk/scan.h"

#include <stdio.h>
#include <string.h>

static struct disk *d;

static void wait_for(uint64_t batch)
{
    while (disk_done(d) < batch && !disk_failure(d))
        disk_round(d, clock_now_ns());
    CHECK(!disk_failure(d));
}

static void append(uint32_t group, uint64_t commit)
{
    unsigned char *at = disk_reserve(d, 1000);
    CHECK(at != NULL);
    memset(at, 'a' + (int)group, 1000);
    struct disk_record r = {.kind = DISK_ENTRIES,
                            .group = group,
                            .to = 1000,
                            .says = {.end = 1000, .commit = commit, .applied = commit},
                            .bytes = at};
    uint64_t batch = disk_batch(d);
    disk_append(d, &r);
    wait_for(batch);
}

static void snapshot(void)
{
    CHECK(disk_snap_open(d, 0, 1000));
    CHECK(disk_snap_put(d, "state", 5) == 5);
    disk_snap_end(d, true);
    while (disk_snap_busy(d) && !disk_failure(d))
        disk_round(d, clock_now_ns());
}

static int make_later(const char *dir)
{
    static struct slot slots[SLOTS];
    char path[512];

    snprintf(path, sizeof path, "%s/" HOST_NAME, dir);
    FILE *f = fopen(path, "r+");
    CHECK(f != NULL && fread(slots, sizeof slots, 1, f) == 1);
    for (uint32_t i = 0; i < SLOTS; i++) {
        slots[i].version = FORMAT_VERSION + 1;
        scan_seal_slot(&slots[i]);
    }
    rewind(f);
    CHECK(fwrite(slots, sizeof slots, 1, f) == 1 && fclose(f) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return make_later(argv[1]);
    struct block_file_options f = {.dir = argv[1]};
    struct disk_options o = {
        .shape = {.host = "h1", .groups = 3, .hosts = 3, .clients = 4},
        .bytes = 4 << 20,
        .segment_bytes = 1 << 20,
        .batch_bytes = 1 << 18,
        .buffer_bytes = 1 << 20,
    };
    struct err e = {""};

    CHECK(argc == 2);
    if (block_file_open(&f, &o.block, &e) < 0 || disk_format(o.block, &o.shape, 0, &e) < 0 ||
        disk_open(&o, &d, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    append(0, 1000);
    snapshot();
    append(1, 0);
    append(0, 1000);
    block_close(o.block);
    disk_close(d);
    return 0;
}
