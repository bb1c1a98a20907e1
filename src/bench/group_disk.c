#include "bench/group_disk.h"

#include "base/minmax.h"
#include "bench/durable.h"
#include "disk/block_file.h"

#include <errno.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static bool is_memory(const char *dir)
{
    struct statfs s;
    return statfs(dir, &s) == 0 && (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC);
}

int bench_disk_dir(const char *below, char *out, size_t bytes, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    if (below == NULL)
        below = tmp && tmp[0] && !is_memory(tmp) ? tmp : ".";
    int n = snprintf(out, bytes, "%s/tram-bench-XXXXXX", below);
    if (n < 0 || (size_t)n >= bytes)
        return err_set(e, ERR_TOOBIG, "%s: its path is too long", below);
    if (mkdtemp(out) == NULL) {
        out[0] = '\0';
        return err_sys(e, "make a directory in %s", below);
    }
    return 0;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

void bench_disk_remove(const char *dir)
{
    if (dir[0] != '\0')
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int bench_disk_open(struct bench_disk *d, const char *dir, uint32_t member,
                    const struct cell_options *cell, uint32_t cells, struct err *e)
{
    struct versions_log_options log[VERSIONS_LOGS_MAX] = {{0}};
    char path[300];
    snprintf(path, sizeof(path), "%s/h%u", dir, member);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_sys(e, "make %s", path);
    log[VERSIONS_VIEWS] = member_views_log_options();
    for (uint32_t i = 0; i < cells; i++)
        log[versions_of_cell(i)] = member_log_options(&cell[i]);
    int rc = block_file_open(&(struct block_file_options){.dir = path}, &d->block, e);
    if (rc == 0)
        rc = versions_open(&(struct versions_options){.block = d->block,
                                                      .owner = {.cluster = "bench", .host = member},
                                                      .log = log,
                                                      .logs = cells + 1},
                           &d->versions, e);
    return rc;
}

void bench_disk_close(struct bench_disk *d)
{
    block_close(d->block);
    versions_close(d->versions);
    *d = (struct bench_disk){.block = NULL};
}

int bench_disk_floor(const char *dir, uint32_t members, double batch_bytes, uint64_t ns,
                     double *rate, struct err *e)
{
    struct floor *floor = NULL;
    struct hist h;
    uint64_t bytes = ((uint64_t)batch_bytes + BLOCK_BYTES / 2) / BLOCK_BYTES * BLOCK_BYTES;
    bytes = min_u64(max_u64(bytes, BLOCK_BYTES), FLOOR_STREAM_BYTES);
    hist_init(&h);
    int rc = floor_open(dir, members, &floor, e);
    if (rc == 0)
        rc = floor_measure(floor, (uint32_t)bytes, ns, &h, e);
    floor_close(floor);
    uint64_t each = hist_quantile(&h, 0.5);
    *rate = rc == 0 && each > 0 ? 1e9 / (double)each : 0;
    return rc;
}
