/* What addresses say of who is where. */
#include "mem/tcp/door_impl.h"

#include <string.h>
#include <sys/socket.h>

bool door_on_loopback(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;

    if (a->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127));
}

/* From one machine, as far as can be told: of IPv6 whoever has one address has 2^64. */
bool door_same_place(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
                                   : memcmp(&a6->sin6_addr, &b6->sin6_addr, 8) == 0;
}

bool door_ends_of(int fd, struct sockaddr_storage *here, struct sockaddr_storage *there)
{
    socklen_t bytes = sizeof *here;

    if (getsockname(fd, (struct sockaddr *)here, &bytes) < 0)
        return false;
    bytes = sizeof *there;
    return getpeername(fd, (struct sockaddr *)there, &bytes) == 0;
}

/* A dialer may meet itself, if the port that it was given is the one that it dials. */
bool door_is_itself(const struct sockaddr_storage *here, const struct sockaddr_storage *there)
{
    const struct sockaddr_in *h4 = (const void *)here, *t4 = (const void *)there;
    const struct sockaddr_in6 *h6 = (const void *)here, *t6 = (const void *)there;

    if (here->ss_family != there->ss_family)
        return false;
    return here->ss_family == AF_INET
               ? h4->sin_port == t4->sin_port && h4->sin_addr.s_addr == t4->sin_addr.s_addr
               : h6->sin6_port == t6->sin6_port &&
                     memcmp(&h6->sin6_addr, &t6->sin6_addr, sizeof h6->sin6_addr) == 0;
}
