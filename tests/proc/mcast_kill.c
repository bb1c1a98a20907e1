/* Three host processes that carry eight groups, in a breadth tree or under the genuine protocol, and clients
 * under load, all through the public API: leading hosts are killed with SIGKILL and started again, stopped
 * and continued, and restarted in turn, and clients are killed while they write. What was delivered is traced
 * and checked at the end of each: nothing lost, nothing twice, one order. How long a client saw no
 * progress and how long a host took to be back is printed.
 *
 *      mcast_kill tree|genuine [KILLS [auto|spin|sleep [shm|tcp]]]
 *                                                            the test, with 30 kills by default: prints TAP
 */
#include "base/clock.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Each life is in the same place, and gets its answers. The last one ends in peace. */
static bool kill_clients(struct rig *t, uint32_t kills)
{
    for (uint32_t i = 0; i <= kills; i++) {
        uint64_t started = clock_now_ns();
        rig_start_other(t);
        if (!rig_other_done(t, 1000))
            return false;
        hist_add(&t->back, clock_now_ns() - started);
        /* Over a network a host gives it the place that has rested longest. */
        if (t->opt.transport == CLUSTER_SHM && (atomic_load(&t->board->client.place) != 1 ||
                                                atomic_load(&t->board->client.life) != i + 1)) {
            printf("# the other client is in place %llu, life %llu; wanted 1, %u\n",
                   (unsigned long long)atomic_load(&t->board->client.place),
                   (unsigned long long)atomic_load(&t->board->client.life), i + 1);
            return false;
        }
        rig_run_for(t, rng_below(&t->rng, 5 * MS));
        if (i < kills) {
            rig_fault_begins(t);
            atomic_store(&t->board->client.die, 1);
            rig_wait_for(t, t->other);
            /* Every other time the next one comes while messages of this one are still on their way. */
            if (i % 2 == 0 && !rig_fault_is_over(t, 0))
                return false;
        }
    }
    return rig_other_ends(t);
}

static bool restart_hosts(struct rig *t, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds * RIG_HOSTS; i++) {
        uint32_t host = i % RIG_HOSTS;
        rig_fault_begins(t);
        atomic_store(&t->board->host[host].stop, 1);
        int status = rig_wait_for(t, t->pid[host]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            printf("# host %u ended with status %d\n", host, status);
            return false;
        }
        if (!rig_fault_is_over(t, 0) || !rig_bring_back(t, host))
            return false;
        rig_run_for(t, 5 * MS);
    }
    return true;
}

int main(int argc, char **argv)
{
    int code;
    if (rig_process(argc, argv, &code))
        return code;
    enum cluster_protocol protocol;
    if (argc < 2 || !rig_protocol(argv[1], &protocol)) {
        printf("Bail out! usage: mcast_kill tree|genuine [KILLS [auto|spin|sleep [shm|tcp]]]\n");
        return 1;
    }
    uint32_t kills = argc > 2 ? (uint32_t)atoi(argv[2]) : 30;
    enum cluster_wait wait = CLUSTER_WAIT_AUTO;
    if (argc > 3)
        wait = strcmp(argv[3], "spin") == 0    ? CLUSTER_WAIT_SPIN
               : strcmp(argv[3], "sleep") == 0 ? CLUSTER_WAIT_SLEEP
                                               : CLUSTER_WAIT_AUTO;
    enum cluster_transport transport =
        argc > 4 && strcmp(argv[4], "tcp") == 0 ? CLUSTER_TCP : CLUSTER_SHM;
    const struct rig_campaign all[] = {
        {.name = "leading hosts are killed and come back",
         .run = rig_kill_hosts,
         .times = kills,
         .back = "killed host started, back and up to date"},
        {.name = "leading hosts are stopped and go on",
         .run = rig_stop_hosts,
         .times = 5,
         .back = "continued host up to date"},
        {.name = "clients are killed while they write, and replaced",
         .run = kill_clients,
         .times = 5,
         .back = "client started and 1000 messages done"},
        {.name = "every host is restarted in turn",
         .run = restart_hosts,
         .times = 2,
         .back = "restarted host back and up to date"},
    };
    char test[32];
    snprintf(test, sizeof(test), "%s_kill", argv[1]);
    return rig_campaigns(
        test, all, sizeof(all) / sizeof(all[0]),
        &(struct rig_options){.protocol = protocol, .transport = transport, .wait = wait});
}
