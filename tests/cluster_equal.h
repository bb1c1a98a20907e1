/* For tests that write a cluster and read it again. */
#ifndef TESTS_CLUSTER_EQUAL_H
#define TESTS_CLUSTER_EQUAL_H

#include "conf/cluster_impl.h"

#include <string.h>

/* The same cluster: everything equal but lines and warnings. Field by field: padding and the bytes behind a name's end are not part of the cluster. */
static bool cluster_equal(const struct cluster *a, const struct cluster *b)
{
    if (strcmp(a->name, b->name) != 0 || a->transport != b->transport ||
        a->protocol != b->protocol || a->wait != b->wait || a->durable != b->durable ||
        a->huge_pages != b->huge_pages || strcmp(a->runtime_dir, b->runtime_dir) != 0 ||
        strcmp(a->key, b->key) != 0 || a->hosts != b->hosts || a->groups != b->groups)
        return false;
    for (enum setting s = 0; s < SETTING_COUNT; s++)
        if (setting_get(a, s) != setting_get(b, s))
            return false;
    for (uint32_t i = 0; i < a->hosts; i++) {
        const struct cluster_host *x = &a->host[i], *y = &b->host[i];
        if (strcmp(x->name, y->name) != 0 || strcmp(x->address, y->address) != 0 ||
            x->port != y->port)
            return false;
    }
    for (uint32_t i = 0; i < a->groups; i++) {
        const struct cluster_group *x = &a->group[i], *y = &b->group[i];
        if (strcmp(x->name, y->name) != 0 || x->parent != y->parent || x->replicas != y->replicas ||
            memcmp(x->replica, y->replica, x->replicas) != 0)
            return false;
    }
    return true;
}

#endif
