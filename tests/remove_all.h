/* Removes a folder with all that is in it. */
#ifndef TESTS_REMOVE_ALL_H
#define TESTS_REMOVE_ALL_H

#include <ftw.h>
#include <stdio.h>

static inline int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s;
    (void)type;
    (void)at;
    return remove(path);
}

static inline void remove_all(const char *path)
{
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
