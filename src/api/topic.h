/* What topics of members and of clients share (include/tram/topic.h): which cell a topic is, and what stands before its samples there.
 *
 * A topic that the cluster file names has a cell of its own. One that is made on use shares a cell, a shard of a subgroup with `slots`, with all others
 * whose names hash there, and each sample has the name of its topic before it: a byte that says how long that is, the name, and zeros up to a
 * multiple of eight. */
#ifndef API_TOPIC_H
#define API_TOPIC_H

#include "conf/cluster.h"
#include "tram/topic.h"

#include <string.h>

struct topic_where {
    uint32_t cell;
    const struct cluster_subgroup *subgroup;
    uint32_t ahead; /* bytes of the name before a sample; 0: the cell is this topic's */
    unsigned char name[1 + CLUSTER_NAME_BYTES + 7];
};

/* What a topic is opened with, by a member or a client. */
struct topic_wish {
    const char *name;
    unsigned role;
    enum tram_qos qos;
    enum tram_from from;
    bool listens; /* it has a callback for samples */
};

/* 0, or why it cannot be opened like that. */
int topic_find(const struct cluster *, const struct topic_wish *, struct topic_where *,
               struct err *);

/* Is the sample this topic's? Then it is taken out from behind the name. */
static inline bool topic_take(const struct topic_where *w, struct tram_item *m)
{
    if (w->ahead == 0)
        return true;
    if (m->bytes < w->ahead || memcmp(m->data, w->name, w->ahead) != 0)
        return false;
    m->data = (const unsigned char *)m->data + w->ahead;
    m->bytes -= w->ahead;
    return true;
}

#endif
