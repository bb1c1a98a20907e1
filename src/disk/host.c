/* The host file: whose directory it is, and how it is made one. */
#include "base/grow.h"
#include "disk/disk_impl.h"

#include <string.h>

int host_shape_check(const struct disk_shape *s, struct err *e)
{
    if (s->groups > DISK_GROUPS_MAX || s->hosts > SLOT_HOSTS_MAX || s->clients > SLOT_PLACES_MAX)
        return err_set(e, ERR_INVALID, "a disk has at most %d groups, %d hosts and %d clients",
                       DISK_GROUPS_MAX, SLOT_HOSTS_MAX, SLOT_PLACES_MAX);
    if (!memchr(s->host, 0, sizeof s->host))
        return err_set(e, ERR_INVALID, "the name of a host has at most %d bytes",
                       DISK_NAME_BYTES - 1);
    return 0;
}

int host_shape_compare(const struct disk_shape *has, const struct disk_shape *wants, struct err *e)
{
    if (memcmp(has->cluster, wants->cluster, sizeof has->cluster) != 0)
        return err_set(e, ERR_REFUSED, "the directory is of another cluster");
    if (strcmp(has->host, wants->host) != 0)
        return err_set(e, ERR_REFUSED, "the directory is of host %s, not of %s", has->host,
                       wants->host);
    if (has->sizes != wants->sizes || has->groups != wants->groups || has->hosts != wants->hosts ||
        has->clients != wants->clients)
        return err_set(e, ERR_REFUSED,
                       "the directory was made for other groups, members or sizes: these must "
                       "stay as they were");
    return 0;
}

/* Whether the directory has anything that a host keeps. */
static void is_of_a_host(void *ctx, const char *name, uint64_t bytes)
{
    uint32_t n;
    uint64_t pos;

    (void)bytes;
    *(bool *)ctx |= strcmp(name, HOST_NAME) == 0 || scan_segment_name(name, &n) ||
                    scan_snap_name(name, &n, &pos);
}

static int host_missing(struct block *b, struct err *e)
{
    bool any = false;
    int rc = block_list(b, is_of_a_host, &any, e);

    if (rc < 0)
        return rc;
    return any ? err_set(e, ERR_CORRUPT, "%s is missing: whose journal it is cannot be told",
                         HOST_NAME)
               : err_set(e, ERR_NOTFOUND, "the directory is empty");
}

int host_read(struct block *b, void *into, const struct slot **slot, struct err *e)
{
    bool later;
    int rc = block_read(b, HOST_NAME, 0, into, SLOTS * SLOT_BYTES, e);

    if (rc == ERR_NOTFOUND)
        return host_missing(b, e);
    if (rc == ERR_CORRUPT) /* one of them may be readable */
        for (uint32_t i = 0; i < SLOTS; i++) {
            unsigned char *at = (unsigned char *)into + (size_t)i * SLOT_BYTES;
            if (block_read(b, HOST_NAME, (uint64_t)i * SLOT_BYTES, at, SLOT_BYTES, e) < 0)
                memset(at, 0, SLOT_BYTES);
        }
    else if (rc < 0)
        return rc;
    *slot = scan_host(into, &later);
    if (later)
        return err_set(e, ERR_REFUSED, "the directory is of a later version than %d",
                       FORMAT_VERSION);
    if (!*slot)
        return err_set(e, ERR_CORRUPT, "%s: both slots are damaged", HOST_NAME);
    return 0;
}

int disk_whose(struct block *b, const struct disk_shape *wants, struct err *e)
{
    void *memory = grow("a host file", NULL, 1, SLOTS * SLOT_BYTES + BLOCK_BYTES);
    const struct slot *slot = NULL;
    int rc = host_read(b, (void *)format_blocks((uintptr_t)memory), &slot, e);

    if (rc >= 0)
        rc = host_shape_compare(&slot->shape, wants, e);
    grow_free(memory);
    return rc;
}

/* ---- format ---- */

static void take_initial(void *ctx, const char *name, uint64_t bytes)
{
    unsigned char *bits = ctx;
    uint32_t g;

    (void)bytes;
    if (scan_initial_name(name, &g))
        bits[g / 8] |= (unsigned char)(1 << g % 8);
}

static int slots_make(struct block *b, struct slot *slots, const struct disk_shape *shape,
                      uint32_t life, struct err *e)
{
    unsigned char initial[DISK_GROUPS_MAX / 8] = {0};
    int rc = block_list(b, take_initial, initial, e);

    memset(slots, 0, SLOTS * sizeof *slots);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *s = &slots[i];
        s->magic = SLOT_MAGIC;
        s->version = FORMAT_VERSION;
        s->flags = life > 0 && !PLANTED(disk_blank_is_new) ? SLOT_LATER : 0;
        s->turn = SLOTS + i;
        s->shape = *shape;
        s->next_life = life;
        memcpy(s->initial, initial, sizeof s->initial);
        lives_journal_id(shape, life, s->journal);
        scan_seal_slot(s);
    }
    return rc;
}

/* The name comes last: until then the directory is as empty as before. */
static int slots_write(struct block *b, const struct slot *slots, struct err *e)
{
    const struct block_step write[] = {
        {.act = BLOCK_CREATE, .name = HOST_NAME TMP_SUFFIX, .bytes = SLOTS * SLOT_BYTES},
        {.act = BLOCK_WRITE,
         .name = HOST_NAME TMP_SUFFIX,
         .data = slots,
         .bytes = SLOTS * SLOT_BYTES},
    };
    const struct block_step name = {
        .act = BLOCK_RENAME, .name = HOST_NAME TMP_SUFFIX, .to = HOST_NAME};
    int rc = disk_order_wait(b, write, 2, e);

    return rc < 0 ? rc : disk_order_wait(b, &name, 1, e);
}

int disk_format(struct block *b, const struct disk_shape *shape, uint32_t life, struct err *e)
{
    bool is_one = false;
    int rc = host_shape_check(shape, e);

    if (rc >= 0)
        rc = block_list(b, is_of_a_host, &is_one, e);
    if (rc < 0)
        return rc;
    if (is_one)
        return err_set(e, ERR_EXISTS, "the directory is one of a host already");
    void *memory = grow("a new host file", NULL, 1, SLOTS * SLOT_BYTES + BLOCK_BYTES);
    struct slot *slots = (struct slot *)format_blocks((uintptr_t)memory);
    rc = slots_make(b, slots, shape, life, e);
    if (rc >= 0)
        rc = slots_write(b, slots, e);
    grow_free(memory);
    return rc;
}
