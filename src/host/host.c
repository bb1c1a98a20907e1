#include "host/host.h"

#include "base/clock.h"
#include "mem/shm.h"

#include <sched.h>

enum {
    ROUNDS_PER_YIELD = 64, /* idle rounds after which a spinning host lets others have the core */
    ACTIVE_FOR_MS = 20,    /* a group is active this long after its last work */
};

void host_init(struct host *h, const struct host_options *o)
{
    *h = (struct host){.opt = *o};
    h->opt.spin_ns = o->spin_ns ? o->spin_ns : 50000;
    h->opt.active_ns = o->active_ns ? o->active_ns : 1000000;
    h->worked_ns = clock_now_ns();
}

void host_add(struct host *h, struct log *l)
{
    CHECK(h->logs < HOST_LOGS_MAX);
    h->log[h->logs++] = l;
}

int host_round(struct host *h, uint64_t now_ns)
{
    int work = 0;
    for (uint32_t i = 0; i < h->logs; i++)
        work += log_post(h->log[i], now_ns);
    work += mem_poll(h->opt.mem);
    for (uint32_t i = 0; i < h->logs; i++)
        work += log_settle(h->log[i], now_ns);
    return work;
}

static uint64_t sleep_until(const struct host *h, uint64_t now_ns)
{
    uint64_t until = UINT64_MAX;
    for (uint32_t i = 0; i < h->logs; i++) {
        uint64_t next = log_next_ns(h->log[i]);
        until = next < until ? next : until;
    }
    bool active = now_ns - h->worked_ns < ACTIVE_FOR_MS * UINT64_C(1000000);
    uint64_t soon = now_ns + h->opt.active_ns;
    return active && soon < until ? soon : until;
}

void host_step(struct host *h)
{
    uint64_t now = clock_now_ns();
    if (host_round(h, now) > 0) {
        h->worked_ns = now;
        h->idle_rounds = 0;
        return;
    }
    h->idle_rounds++;
    if (h->opt.wait == HOST_SPIN ||
        (h->opt.wait == HOST_AUTO && now - h->worked_ns < h->opt.spin_ns)) {
        if (h->idle_rounds % ROUNDS_PER_YIELD == 0)
            sched_yield();
        return;
    }
    shm_doze(h->opt.mem);
    now = clock_now_ns();
    if (host_round(h, now) > 0) {
        h->worked_ns = now;
        h->idle_rounds = 0;
        shm_rouse(h->opt.mem);
        return;
    }
    h->sleeps++;
    shm_sleep(h->opt.mem, sleep_until(h, now));
}
