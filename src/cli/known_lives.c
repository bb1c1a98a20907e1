#include "cli/known_lives.h"

#include "api/api.h"
#include "api/disk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one host says. */
struct witness {
    bool heard;
    uint32_t lives;
    bool has[CLUSTER_GROUPS_MAX]; /* it has what the group had, as far as it ever had it */
    char why[256];                /* it was not heard */
};

static void add_name(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_name(char *text, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list ap;

    if (used > 0 && used + 2 < KNOWN_TEXT_BYTES)
        used += (size_t)snprintf(text + used, KNOWN_TEXT_BYTES - used, ", ");
    va_start(ap, fmt);
    vsnprintf(text + used, KNOWN_TEXT_BYTES - used, fmt, ap);
    va_end(ap);
}

static int rank_of(const struct cluster *c, uint32_t group, uint32_t host)
{
    for (uint32_t q = 0; q < c->group[group].replicas; q++)
        if (c->group[group].replica[q] == host)
            return (int)q;
    return -1;
}

static bool share_a_group(const struct cluster *c, uint32_t a, uint32_t b)
{
    for (uint32_t g = 0; g < c->groups; g++)
        if (rank_of(c, g, a) >= 0 && rank_of(c, g, b) >= 0)
            return true;
    return c->protocol == CLUSTER_GROUP;
}

/* It runs, and shows it. */
static void ask(const struct running *r, uint32_t other, uint32_t host, struct witness *w)
{
    const struct cluster *c = r->cluster->conf;

    if (c->protocol == CLUSTER_GROUP) { /* its page has the lives of views alone */
        snprintf(w->why, sizeof w->why, "runs, and does not tell");
        return;
    }
    w->heard = true;
    w->lives = r->host[other].lives[host];
    for (uint32_t g = 0; g < c->groups; g++) {
        int q = rank_of(c, g, other);
        const struct tram_replica_stats *s = q < 0 ? NULL : running_replica(r, g, (uint32_t)q);
        w->has[g] = s != NULL && !s->lacks && !s->behind && s->role != TRAM_JOINING;
    }
}

/* It does not run, and its directory may be here. */
static void look(const struct running *r, uint32_t other, uint32_t host, struct witness *w)
{
    struct block *b;
    struct disk *d;
    struct err e = {""};

    if (r->host[other].elsewhere) {
        snprintf(w->why, sizeof w->why, "is on another machine and does not answer");
        return;
    }
    if (api_disk_look_open(r->cluster, other, &b, &d, &e) < 0) {
        snprintf(w->why, sizeof w->why, "%.*s", (int)sizeof w->why - 1, e.text);
        return;
    }
    w->heard = true;
    w->lives = disk_host_life(d, host);
    for (uint32_t g = 0; g < r->cluster->conf->groups; g++)
        w->has[g] = disk_found(d, g)->state <= DISK_BELOW;
    disk_close(d);
    block_close(b);
}

static void take(const struct running *r, uint32_t other, uint32_t host, const struct witness *w,
                 struct known_lives *k, uint32_t *have)
{
    const struct cluster *c = r->cluster->conf;

    k->heard += w->heard;
    if (w->lives > k->lives)
        k->lives = w->lives;
    if (!w->heard && share_a_group(c, other, host))
        add_name(k->unheard, "%s (%s)", c->host[other].name, w->why);
    for (uint32_t g = 0; g < c->groups; g++)
        have[g] += w->heard && w->has[g] && rank_of(c, g, other) >= 0;
}

void known_lives_of(const struct running *r, uint32_t host, struct known_lives *k)
{
    const struct cluster *c = r->cluster->conf;
    uint32_t have[CLUSTER_GROUPS_MAX] = {0};

    *k = (struct known_lives){.lives = 0};
    for (uint32_t other = 0; other < c->hosts; other++) {
        struct witness w = {.heard = false};
        if (other == host)
            continue;
        if (r->host[other].state == RUNNING_UP)
            ask(r, other, host, &w);
        else
            look(r, other, host, &w);
        take(r, other, host, &w, k, have);
    }
    for (uint32_t g = 0; g < c->groups; g++)
        if (rank_of(c, g, host) >= 0 && have[g] < c->group[g].replicas / 2 + 1)
            add_name(k->short_of, "%s (%u of %u)", c->group[g].name, have[g], c->group[g].replicas);
}
