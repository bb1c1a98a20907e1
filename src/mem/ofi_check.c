#include "mem/ofi_impl.h"

int net_self_check(struct net *n, struct err *e)
{
    (void)n;
    (void)e;
    return 0;
}
