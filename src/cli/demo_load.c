#include "cli/demo.h"

#include "base/clock.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    BODY_BYTES = 64,
    WATCH_NS = 1000000000,
    WAIT_NS_MAX = 20000000, /* how soon a client notices that it shall end */
};

/* ---- what came back ---- */

/* Did [from, to] touch the second that is being watched? */
static bool watched(const struct demo_watch *w, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t begin = atomic_load(&w->from_ns);
    return begin != 0 && to_ns > begin && from_ns < begin + WATCH_NS;
}

static void raise_to(uint64_t *max, uint64_t value)
{
    if (value > *max)
        *max = value;
}

static void on_done(void *ctx, uint64_t ticket)
{
    struct demo_client *c = ctx;
    struct demo_flight *f = c->flight;
    uint64_t now = clock_now_ns();

    while (f < c->flight + DEMO_OUTSTANDING && (f->cast_ns == 0 || f->ticket != ticket))
        f++;
    CHECK(f < c->flight + DEMO_OUTSTANDING);
    for (unsigned w = 0; w < DEMO_WATCHES; w++) {
        if (watched(&c->load->watch[w], c->last_done_ns, now))
            raise_to(&c->pause_ns[w], now - c->last_done_ns);
        if (watched(&c->load->watch[w], f->cast_ns, now))
            raise_to(&c->slow_ns[w], now - f->cast_ns);
    }
    hist_add(&c->latency[f->groups], now - f->cast_ns);
    f->cast_ns = 0;
    c->last_done_ns = now;
    atomic_fetch_add_explicit(&c->done, 1, memory_order_relaxed);
}

/* ---- casting ---- */

/* One group most of the time, two or three now and then, all of them one time in twenty. */
static uint32_t draw_groups(struct rng *r, uint16_t groups[DEMO_GROUPS])
{
    uint64_t kind = rng_below(r, 20);
    uint32_t count = kind == 0 ? DEMO_GROUPS : kind <= 5 ? 2 + (uint32_t)rng_below(r, 2) : 1;

    for (uint16_t g = 0; g < DEMO_GROUPS; g++)
        groups[g] = g;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = i + (uint32_t)rng_below(r, DEMO_GROUPS - i);
        uint16_t g = groups[k];
        groups[k] = groups[i];
        groups[i] = g;
    }
    return count;
}

static struct demo_flight *free_flight(struct demo_client *c)
{
    for (unsigned i = 0; i < DEMO_OUTSTANDING; i++)
        if (c->flight[i].cast_ns == 0)
            return &c->flight[i];
    return NULL;
}

/* Casts one message; TRAM_AGAIN if too many are under way. */
static int cast_one(struct demo_client *c, struct rng *r)
{
    uint16_t groups[DEMO_GROUPS];
    char body[BODY_BYTES] = {0};
    struct demo_flight *f = free_flight(c);

    if (f == NULL)
        return TRAM_AGAIN;
    f->groups = draw_groups(r, groups);
    snprintf(body, sizeof(body), "message %llu of client %u", (unsigned long long)c->casts,
             c->index);
    int rc = tram_cast(c->client, groups, f->groups, body, sizeof(body), &f->ticket, &c->error);
    if (rc != TRAM_OK)
        return rc;
    f->cast_ns = clock_now_ns();
    atomic_fetch_add_explicit(&c->casts, 1, memory_order_relaxed);
    return TRAM_OK;
}

static void pause_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Casts at the steady rate. What could not be cast in time, because too many were under way, is left
 * out: a flood after a pause would only measure itself. Returns a failure or 0. */
static int cast_until_enough(struct demo_client *c)
{
    const uint64_t every_ns = 1000000000 / c->load->rate;
    uint64_t due_ns = clock_now_ns();
    struct rng r;

    rng_init(&r, due_ns + c->index);
    c->last_done_ns = due_ns;
    while (!c->load->enough && !c->load->abandon) {
        uint64_t now = clock_now_ns();
        if (now < due_ns) {
            if (tram_client_outstanding(c->client) > 0)
                tram_client_wait(c->client, due_ns - now);
            else
                pause_ns(due_ns - now);
            continue;
        }
        int rc = cast_one(c, &r);
        if (rc == TRAM_AGAIN) {
            tram_client_wait(c->client, WAIT_NS_MAX);
            due_ns = clock_now_ns();
        } else if (rc != TRAM_OK) {
            return rc;
        } else {
            tram_client_flush(c->client);
            due_ns += every_ns;
        }
    }
    return 0;
}

static void *client_main(void *arg)
{
    struct demo_client *c = arg;
    struct tram_client_options o = {.trace_dir = c->load->trace_dir, .done = on_done, .ctx = c};

    int rc = tram_client_open(c->load->cluster, &o, &c->client, &c->error);
    if (rc == TRAM_OK)
        rc = cast_until_enough(c);
    while (rc == TRAM_OK && tram_client_outstanding(c->client) > 0 && !c->load->abandon)
        tram_client_wait(c->client, WAIT_NS_MAX);
    c->failed = rc != TRAM_OK;
    c->ended = true;
    tram_client_close(c->client);
    return NULL;
}

/* ---- all of them ---- */

bool demo_load_start(struct demo_load *l)
{
    for (uint32_t i = 0; i < DEMO_CLIENTS; i++) {
        struct demo_client *c = &l->client[i];
        c->load = l;
        c->index = i;
        for (unsigned k = 0; k <= DEMO_GROUPS; k++)
            hist_init(&c->latency[k]);
        if (pthread_create(&c->thread, NULL, client_main, c) != 0)
            return false;
        l->started++;
    }
    return true;
}

void demo_load_watch(struct demo_load *l, unsigned watch)
{
    atomic_store(&l->watch[watch].from_ns, clock_now_ns());
}

uint64_t demo_load_done(const struct demo_load *l)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < DEMO_CLIENTS; i++)
        sum += l->client[i].done;
    return sum;
}

uint64_t demo_load_casts(const struct demo_load *l)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < DEMO_CLIENTS; i++)
        sum += l->client[i].casts;
    return sum;
}

bool demo_load_ended(const struct demo_load *l)
{
    for (uint32_t i = 0; i < l->started; i++)
        if (!l->client[i].ended)
            return false;
    return true;
}

const char *demo_load_error(const struct demo_load *l)
{
    for (uint32_t i = 0; i < l->started; i++)
        if (l->client[i].failed)
            return l->client[i].error.text;
    return NULL;
}

void demo_load_join(struct demo_load *l)
{
    for (uint32_t i = 0; i < l->started; i++)
        pthread_join(l->client[i].thread, NULL);
    l->started = 0;
}
