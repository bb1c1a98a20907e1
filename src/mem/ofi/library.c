#include "mem/ofi/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct ofi_library ofi_library;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[200];

/* The versions that the headers of 1.17 describe; later libraries have them too. */
static const struct {
    const char *name, *version;
    void **to;
} functions[] = {
    {"fi_getinfo", "FABRIC_1.3", (void **)(void *)&ofi_library.getinfo},
    {"fi_freeinfo", "FABRIC_1.3", (void **)(void *)&ofi_library.freeinfo},
    {"fi_dupinfo", "FABRIC_1.3", (void **)(void *)&ofi_library.dupinfo},
    {"fi_fabric", "FABRIC_1.1", (void **)(void *)&ofi_library.fabric},
    {"fi_strerror", "FABRIC_1.0", (void **)(void *)&ofi_library.strerror},
};

static void load(void)
{
    void *lib = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!lib) {
        snprintf(failure, sizeof failure, "%s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        *functions[i].to = dlvsym(lib, functions[i].name, functions[i].version);
        if (!*functions[i].to)
            snprintf(failure, sizeof failure, "libfabric.so.1 has no %s of version %s",
                     functions[i].name, functions[i].version);
    }
}

/* What it brings along may take signals over while it is loaded: they stay what they were. */
static void load_in_quiet(void)
{
    static const int taken[] = {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM};
    struct sigaction before[sizeof taken / sizeof taken[0]];
    sigset_t all, mask;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaction(taken[i], NULL, &before[i]);
    load();
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaction(taken[i], &before[i], NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

int ofi_library_load(struct err *e)
{
    pthread_once(&once, load_in_quiet);
    if (failure[0])
        return err_set(e, ERR_NOTFOUND,
                       "libfabric cannot be loaded (Debian has it in libfabric1): %s", failure);
    return 0;
}
