/* What topics of members and of clients share (include/tram/topic.h). */
#ifndef API_TOPIC_H
#define API_TOPIC_H

#include "conf/cluster.h"
#include "tram/topic.h"

/* NULL, or why a topic cannot be opened like that. */
const char *topic_mistake(unsigned role, enum tram_qos, bool listens,
                          const struct cluster_subgroup *);

#endif
