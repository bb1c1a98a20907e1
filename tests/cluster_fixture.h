/* For tests that run a cluster they have made: its file, with all keys that it needs beside it. */
#ifndef TESTS_CLUSTER_FIXTURE_H
#define TESTS_CLUSTER_FIXTURE_H

#include "api/secret.h"
#include "mem/ofi/ofi.h"

static inline bool cluster_fixture_write(struct cluster *c, const char *file, struct err *e)
{
    char key[256];

    if (c->transport == CLUSTER_TCP && api_keys_make(c, file, e) < 0)
        return false;
    FILE *f = fopen(file, "w");
    bool good = f && cluster_write(f, c, e) == 0;
    if (f)
        good &= fclose(f) == 0;
    if (c->transport != CLUSTER_VERBS || !good)
        return good;
    return cluster_key_path(c, file, key, sizeof(key), e) == 0 && ofi_key_make(key, e) == 0;
}

#endif
