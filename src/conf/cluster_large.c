/* What a cluster file says of large messages: how large, how many at once, in which blocks, and who passes them on to whom. */
#include "conf/take.h"
#include "conf/value.h"

enum {
    LARGE_LEAST_RECORD = 24, /* what stands for a large message in the order */
    LARGE_WINDOW_MOST = 16,
    LARGE_BLOCKS_MOST = 4096,
    BLOCK_LEAST = 4 << 10,
    BLOCK_MOST = 64 << 20,
    BLOCK_HEAD = 64,
};

#define LARGE_MOST UINT32_C(0x7fffffff)
#define LARGE_SUM_MOST (UINT64_C(1) << 31)

const char *const cluster_rdmc_names[] = {"auto",     "sequential", "chain", "tree",
                                          "pipeline", "racks",      NULL};

int large_read_blocks(struct reader *r, const struct node *n)
{
    uint32_t *bytes = &r->c->block_bytes;

    *bytes = BLOCK_BYTES_STANDARD;
    int rc = take_bytes(r, n, "block_bytes", BLOCK_LEAST, BLOCK_MOST, bytes);
    if (rc < 0 || value_power_from(*bytes) == *bytes)
        return rc;
    return doc_bad(r->d, n->line, r->e,
                   "block_bytes must be a power of two; %s is none, %s and %s are",
                   doc_what(r->d, n).s, value_size_shown(value_power_from(*bytes) / 2).s,
                   value_size_shown(value_power_from(*bytes)).s);
}

static int check_large(struct reader *r, const struct large_nodes *n,
                       const struct cluster_subgroup *s)
{
    uint64_t blocks = (uint64_t)LARGE_BLOCKS_MOST * (r->c->block_bytes - BLOCK_HEAD);

    if (s->mode != CLUSTER_MODE_MEMORY && s->mode != CLUSTER_MODE_RAW)
        return doc_bad(r->d, n->max->line, r->e,
                       "large messages are not kept on disks; leave large_max out, or write mode:"
                       " memory");
    if (s->history > 0)
        return doc_bad(r->d, n->max->line, r->e,
                       "a cell with history keeps no large messages; leave out large_max or"
                       " history");
    if (s->message_max < LARGE_LEAST_RECORD)
        return doc_bad(r->d, n->max->line, r->e,
                       "message_max (%u) is too small for large messages; set it to %d or more",
                       s->message_max, LARGE_LEAST_RECORD);
    if (s->large_max <= s->message_max)
        return doc_bad(r->d, n->max->line, r->e,
                       "large_max (%s) is no more than message_max (%s); messages of that size need"
                       " none: leave it out, or make it larger",
                       value_size_shown(s->large_max).s, value_size_shown(s->message_max).s);
    if (s->large_max > blocks)
        return doc_bad(r->d, n->max->line, r->e,
                       "large_max (%s) is more than %d blocks; set it to %s or less, or block_bytes"
                       " to more than %s",
                       value_size_shown(s->large_max).s, LARGE_BLOCKS_MOST,
                       value_size_shown(blocks).s, value_size_shown(r->c->block_bytes).s);
    if ((uint64_t)s->large_max * s->large_window > LARGE_SUM_MOST)
        return doc_bad(r->d, n->max->line, r->e,
                       "large_max (%s) times large_window (%u) is more than 2 GiB; set large_max to"
                       " %s or less",
                       value_size_shown(s->large_max).s, s->large_window,
                       value_size_shown(LARGE_SUM_MOST / s->large_window).s);
    return 0;
}

int large_read(struct reader *r, const struct large_nodes *n, struct cluster_subgroup *s)
{
    const struct node *lonely = n->window ? n->window : n->rdmc;
    unsigned rdmc = 0;

    s->large_window = LARGE_WINDOW_STANDARD;
    if (n->max == NULL && lonely != NULL)
        return doc_bad(r->d, lonely->line, r->e,
                       "%s is for large messages, and subgroup '%s' has none; add large_max, or"
                       " leave it out",
                       n->window ? "large_window" : "rdmc", s->name);
    int rc = take_bytes(r, n->max, "large_max", 1, LARGE_MOST, &s->large_max);
    rc = rc < 0 ? rc
                : take_count(r, n->window, "large_window", 1, LARGE_WINDOW_MOST, &s->large_window);
    rc = rc < 0 ? rc : take_word(r, n->rdmc, "rdmc", cluster_rdmc_names, &rdmc);
    s->rdmc = (enum cluster_rdmc)rdmc;
    return rc < 0 || n->max == NULL ? rc : check_large(r, n, s);
}

int large_read_rack(struct reader *r, const struct node *n, struct cluster_host *h)
{
    if (n != NULL && r->c->protocol != CLUSTER_GROUP)
        return doc_bad(r->d, n->line, r->e,
                       "rack is for protocol: group, and this is protocol: %s; leave it out",
                       cluster_protocol_names[r->c->protocol]);
    return take_count(r, n, "rack", 0, CLUSTER_RACKS_MAX - 1, &h->rack);
}
