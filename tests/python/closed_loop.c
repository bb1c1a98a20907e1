/* A client in C that calls one group after the other for so long: closed_loop FILE SECONDS. Prints calls a second; tests/python/speed
 * compares a client in Python with it. */
#include "tram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int rc, const struct tram_error *e)
{
    if (rc != TRAM_OK) {
        fprintf(stderr, "%s\n", e->text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct tram_error e = {""};
    struct tram_cluster *cluster;
    struct tram_client *client;
    char body[64] = "", reply[64];
    double seconds = argc > 2 ? atof(argv[2]) : 1, begin = 0, calls = 0;
    if (argc < 2)
        return 2;
    must(tram_cluster_load(argv[1], &cluster, &e), &e);
    must(tram_client_open(cluster, NULL, &client, &e), &e);
    for (;; calls++) {
        uint16_t group = (uint16_t)((uint32_t)calls % tram_cluster_groups(cluster));
        uint32_t length;
        must(tram_call(client, &group, 1, body, sizeof(body), reply, sizeof(reply), &length,
                       60000000000, &e),
             &e);
        if (begin == 0 && calls == 100) { /* all connections are there */
            begin = now_s();
            calls = 0;
        }
        if (begin > 0 && now_s() - begin >= seconds)
            break;
    }
    printf("%.0f\n", calls / (now_s() - begin));
    tram_client_close(client);
    tram_cluster_free(cluster);
    return 0;
}
