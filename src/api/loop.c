#include "api/loop.h"

#include "base/clock.h"

#include <sys/resource.h>

enum {
    FDS_OF_CLIENT = 2, /* its connection, and what we write to it */
    FDS_OF_HOST = 16,  /* the same, and what is held of it for the time after it is killed */
    FDS_OWN = 64,
};

void api_loop_init(struct api_loop *l)
{
    l->home = (struct api_home){.dir_fd = -1, .lock_fd = -1};
    l->event = (struct event)EVENT_CLOSED;
}

/* Better refused now than when the thousandth client comes. */
int api_loop_check(const struct api_loop_options *o, struct err *e)
{
    const struct tram_cluster *c = o->cluster;
    const char *name = c->conf->host[o->index].name;
    struct rlimit limit;
    uint64_t rest = FDS_OWN + FDS_OF_HOST * (uint64_t)c->conf->hosts + o->traces;
    uint64_t needed = rest + FDS_OF_CLIENT * (uint64_t)c->sizes.clients;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return 0;
    if (limit.rlim_cur < rest + FDS_OF_CLIENT)
        return err_set(e, ERR_SYSTEM,
                       "host %s needs %llu descriptors and may have %llu; raise the limit (ulimit "
                       "-n)",
                       name, (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
    return err_set(e, ERR_SYSTEM,
                   "host %s needs %llu descriptors for %u clients and may have %llu; raise the "
                   "limit (ulimit -n), or set clients in the cluster file to %llu or less",
                   name, (unsigned long long)needed, c->sizes.clients,
                   (unsigned long long)limit.rlim_cur,
                   (unsigned long long)((limit.rlim_cur - rest) / FDS_OF_CLIENT));
}

int api_loop_open(struct api_loop *l, const struct api_loop_options *o, struct err *e)
{
    static const enum host_wait waits[] = {
        [CLUSTER_WAIT_AUTO] = HOST_AUTO,
        [CLUSTER_WAIT_SPIN] = HOST_SPIN,
        [CLUSTER_WAIT_SLEEP] = HOST_SLEEP,
    };
    int rc = api_join_host(o->cluster, o->index, &l->home, o->lives, o->say, &l->mem, e);
    if (rc != 0)
        return rc;
    host_init(&l->host,
              &(struct host_options){
                  .mem = l->mem, .disk = o->disk, .wait = waits[o->wait], .say = *o->say});
    atomic_store(&l->looping, true);
    return 0;
}

void api_loop_close(struct api_loop *l)
{
    if (l->mem)
        mem_close(l->mem);
    event_close(&l->event);
    api_home_close(&l->home);
}

int api_loop_step(struct api_loop *l)
{
    return host_step(&l->host);
}

int api_loop_poll(struct api_loop *l)
{
    return l->event.fd >= 0 ? host_poll(&l->host, &l->event) : host_round(&l->host, clock_now_ns());
}

int api_loop_fd(struct api_loop *l, struct err *e)
{
    int rc = l->event.fd >= 0 ? 0 : event_open(&l->event, l->mem, e);
    return rc == 0 ? l->event.fd : rc;
}

void api_loop_wake(struct api_loop *l)
{
    if (!atomic_load(&l->looping))
        return;
    if (l->event.fd >= 0)
        event_wake(&l->event);
    else
        host_wake(&l->host);
}
