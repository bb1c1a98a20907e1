/* tram disk: is what a host keeps on its disk whole, and what is it? Reads, and writes nothing. */
#include "cli/args.h"
#include "cli/cmd.h"
#include "disk/block_file.h"
#include "disk/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long ull;

enum { SEGMENTS_MAX = 1024, READ_BYTES = 1 << 20 };

struct disk_args {
    const char *what, *dir;
    bool quiet;
};

/* ---- check ---- */

static const char *const state_names[] = {
    [DISK_NEW] = "new", [DISK_WHOLE] = "whole", [DISK_BELOW] = "lacks", [DISK_BEYOND] = "lost"};

static void count_record(void *ctx, const struct disk_record *r)
{
    (void)r;
    ++*(uint64_t *)ctx;
}

static void print_group(const struct disk *d, uint32_t group)
{
    const struct disk_found *f = disk_found(d, group);
    uint64_t records = 0;

    disk_replay(d, group, count_record, &records);
    printf("group %-5u %-6s %8llu records, snapshot %llu, applied %llu, commit %llu, end %llu, "
           "promised %llu",
           group, state_names[f->state], (ull)records, (ull)f->snap, (ull)f->says.applied,
           (ull)f->says.commit, (ull)f->says.end, (ull)f->says.pledge);
    if (f->state == DISK_BELOW)
        printf("; positions %llu to %llu are missing, all decided: others have them",
               (ull)f->gap_from, (ull)f->gap_to);
    if (f->state == DISK_BEYOND)
        printf("; what is missing may have been promised: it begins anew with a state of others");
    printf("\n");
}

/* Damaged groups always, the others if they ever had something. */
static uint32_t print_groups(const struct disk *d, uint32_t groups, bool quiet)
{
    uint32_t damaged = 0;

    for (uint32_t g = 0; g < groups; g++) {
        enum disk_state state = disk_found(d, g)->state;
        bool bad = state == DISK_BELOW || state == DISK_BEYOND;
        if (bad || (!quiet && state != DISK_NEW))
            print_group(d, g);
        damaged += bad;
    }
    return damaged;
}

static int check(const struct disk_args *a, struct block *b)
{
    struct err e = {""};
    struct disk_shape shape;
    struct disk *d;

    if (!a->quiet && isatty(2))
        fprintf(stderr, "reading all of %s...\n", a->dir);
    if (disk_look_open(b, &shape, &d, &e) < 0) {
        fprintf(stderr, "tram disk: %s: %s\n", a->dir, e.text);
        return CMD_FAILED;
    }
    disk_snaps_check(d);
    if (!a->quiet)
        printf("host %s, next life %u, %u groups, journal %u.%u %% in use\n", shape.host,
               disk_life(d), shape.groups, disk_used(d) / 10, disk_used(d) % 10);
    uint32_t damaged = print_groups(d, shape.groups, a->quiet);
    if (disk_note(d) && !a->quiet)
        printf("note: %s\n", disk_note(d));
    if (!a->quiet)
        printf("%s\n", damaged ? "DAMAGED" : "whole");
    disk_close(d);
    return damaged ? CMD_FAILED : CMD_DONE;
}

/* ---- dump ---- */

static const char *kind_name(uint16_t kind)
{
    switch (kind) {
    case DISK_ENTRIES:
        return "entries";
    case DISK_PLEDGE:
        return "pledge";
    case DISK_RESET:
        return "reset";
    case DISK_SNAP:
        return "snap";
    case DISK_COPY:
        return "copy";
    case ITEM_STATE:
        return "state";
    case ITEM_SEGMENT:
        return "segment";
    case ITEM_RELEASE:
        return "release";
    default:
        return "lives";
    }
}

static void print_item(const struct scan_batch *b, const struct batch_item *i)
{
    printf("    %-8s", kind_name(i->kind));
    if (i->kind == ITEM_SEGMENT)
        printf(" batches %llu to %llu", (ull)i->from, (ull)i->to - 1);
    else if (i->kind == ITEM_RELEASE)
        printf(" from batch %llu on", (ull)i->from);
    else if (i->kind != ITEM_LIVES)
        printf(" group %u [%llu, %llu) ballot %llu, says: promised %llu, end %llu, commit %llu, "
               "applied %llu",
               i->group, (ull)i->from, (ull)i->to, (ull)i->ballot, (ull)i->says.pledge,
               (ull)i->says.end, (ull)i->says.commit, (ull)i->says.applied);
    printf("%s\n", scan_record(b, i) ? "" : " BAD");
}

static void print_batches(const char *name, const unsigned char *image, uint64_t bytes,
                          const struct slot *slot)
{
    struct scan_batch b;
    uint64_t at = 0, where;

    printf("%s\n", name);
    while (
        scan_find(image, bytes, at, slot->journal, slot->shape.groups, 1, UINT64_MAX, &b, &where)) {
        if (where != at)
            printf("  at %llu: %llu bytes that are no batch\n", (ull)at, (ull)(where - at));
        printf("  at %llu: batch %llu, %u bytes%s\n", (ull)where, (ull)b.header->number,
               b.header->bytes, b.header->flags & BATCH_TABLE ? ", a table" : "");
        for (uint32_t i = 0; i < b.header->items; i++)
            print_item(&b, &b.items[i]);
        at = where + b.header->bytes;
    }
}

struct files {
    uint64_t bytes[SEGMENTS_MAX + 1]; /* of each segment, by its number; 0: it is not there */
};

static void take_name(void *ctx, const char *name, uint64_t bytes)
{
    struct files *f = ctx;
    uint32_t n, group;
    uint64_t pos;

    if (scan_segment_name(name, &n) && n <= SEGMENTS_MAX)
        f->bytes[n] = bytes;
    else if (scan_snap_name(name, &group, &pos))
        printf("%s: group %u, position %llu, %llu bytes\n", name, group, (ull)pos, (ull)bytes);
}

static int dump_segment(struct block *b, uint32_t n, uint64_t bytes, const struct slot *slot,
                        struct err *e)
{
    char name[BLOCK_NAME_BYTES];
    unsigned char *image = aligned_alloc(BLOCK_BYTES, bytes);
    int rc = image ? 0 : err_set(e, ERR_NOMEM, "no memory for a segment");

    snprintf(name, sizeof name, SEGMENT_PREFIX "%05u", n);
    for (uint64_t at = 0; rc >= 0 && at < bytes; at += READ_BYTES) {
        uint64_t part = bytes - at < READ_BYTES ? bytes - at : READ_BYTES;
        rc = block_read(b, name, at, image + at, part, e);
    }
    if (rc >= 0)
        print_batches(name, image, bytes, slot);
    free(image);
    return rc;
}

static int dump_files(struct block *b, const void *host, struct err *e)
{
    static struct files files;
    bool later;
    const struct slot *slot = scan_host(host, &later);
    int rc;

    if (!slot)
        return err_set(e, ERR_CORRUPT,
                       later ? "it is of a later version" : "both slots of the host file are bad");
    printf("host %s, next life %u, turn %llu, segments of %llu bytes\n", slot->shape.host,
           slot->next_life, (ull)slot->turn, (ull)slot->segment_bytes);
    rc = block_list(b, take_name, &files, e);
    for (uint32_t n = 1; rc >= 0 && n <= SEGMENTS_MAX; n++)
        if (files.bytes[n] >= BLOCK_BYTES)
            rc = dump_segment(b, n, files.bytes[n] / BLOCK_BYTES * BLOCK_BYTES, slot, e);
    return rc;
}

static int dump(const struct disk_args *a, struct block *b)
{
    struct err e = {""};
    void *host = aligned_alloc(BLOCK_BYTES, SLOTS * SLOT_BYTES);
    int rc = host ? block_read(b, HOST_NAME, 0, host, SLOTS * SLOT_BYTES, &e)
                  : err_set(&e, ERR_NOMEM, "no memory for the host file");

    if (rc >= 0)
        rc = dump_files(b, host, &e);
    free(host);
    if (rc < 0)
        fprintf(stderr, "tram disk: %s: %s\n", a->dir, e.text);
    return rc < 0 ? CMD_FAILED : CMD_DONE;
}

/* ---- all of it ---- */

static int run(const struct disk_args *a, int (*what)(const struct disk_args *, struct block *))
{
    struct block_file_options o = {.dir = a->dir};
    struct err e = {""};
    struct block *b;
    int rc = block_file_open(&o, &b, &e);

    if (rc < 0) {
        fprintf(stderr, "tram disk: %s%s\n", e.text,
                rc == ERR_EXISTS ? "; stop its host first" : "");
        return CMD_USAGE;
    }
    int code = what(a, b);
    block_close(b);
    return code;
}

int cmd_disk(int argc, char **argv)
{
    struct disk_args a = {0};
    const struct args_word words[] = {
        {"check|dump", &a.what, "say what to do: check or dump"},
        {"DIR", &a.dir, "say which directory to read"},
        {0},
    };
    const struct args_option options[] = {
        {"--quiet", NULL, "check: only groups that lack something", .flag = &a.quiet},
        {0},
    };
    const struct args_command command = {
        .name = "disk",
        .usage = "check|dump DIR [OPTIONS]",
        .about = "Reads the directory in which a host keeps its journal and snapshots, and "
                 "writes nothing. check tells of each group whether all is there that the host "
                 "would need to come back, as it would find it itself; dump prints every batch of "
                 "the journal, also those that do not count any more.",
        .options = options,
        .words = words,
        .too_many = "one directory is read at a time",
        .more = "Exit code: 0 all is whole, 1 something is damaged or cannot be read, 2 wrong "
                "usage, or a host has the directory.",
    };
    int code = args_read(&command, argc, argv);

    if (code != ARGS_GO)
        return code;
    if (strcmp(a.what, "check") == 0)
        return run(&a, check);
    if (strcmp(a.what, "dump") == 0)
        return run(&a, dump);
    return args_bad("disk", a.what, "is neither check nor dump");
}
