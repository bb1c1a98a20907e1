/* A map that all members of a group have, each in its own memory.
 *
 *     group CLUSTER_FILE
 *
 * Two members put values, a third one comes and gets the map as it is, the first one leaves, and what the others put goes
 * on. In the end they must have the same map. All members are polled by one thread here, to keep the example in one
 * file; each could be a process, with the same calls and tram_group_step for tram_group_poll. */
#include "tram/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 3, KEYS = 16, PUTS = 100 };

struct map {
    uint64_t value[KEYS];
    uint64_t puts; /* how many messages made it */
};

struct member {
    const char *name;
    struct tram_group *group; /* NULL: it is not there */
    struct map map;
    uint64_t sent;
};

static struct tram_cluster *cluster;
static struct member member[MEMBERS];
static int cell; /* the only one */

static void die(const char *what, const struct tram_error *e)
{
    fprintf(stderr, "%s: %s\n", what, e->text);
    exit(1);
}

/* ---- the state machine: the same deliveries in the same order give the same map ---- */

static void deliver(void *ctx, uint32_t cell_of, uint64_t view, const struct tram_item *item,
                    uint32_t count)
{
    struct map *m = &((struct member *)ctx)->map;
    (void)cell_of, (void)view;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t put[2]; /* key, value */
        memcpy(put, item[i].data, sizeof(put));
        m->value[put[0]] = m->value[put[0]] * 31 + put[1]; /* the order matters */
        m->puts++;
    }
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    (void)before;
    printf("%s: %s", ((const struct member *)ctx)->name, now ? "view" : "is in no view any more");
    for (uint32_t h = 0; now && h < now->hosts; h++)
        if (now->members >> h & 1)
            printf(" %s", now->host_name[h]);
    printf("\n");
}

/* Who comes gets the map of somebody who has it. */
static int save(void *ctx, uint32_t cell_of, void **data, size_t *bytes)
{
    (void)cell_of;
    *bytes = sizeof(struct map);
    *data = malloc(*bytes);
    return *data && memcpy(*data, &((struct member *)ctx)->map, *bytes) ? 0 : -1;
}

static int load(void *ctx, uint32_t cell_of, const void *data, size_t bytes)
{
    struct map *m = &((struct member *)ctx)->map;
    (void)cell_of;
    return bytes == sizeof(*m) && memcpy(m, data, bytes) ? 0 : -1;
}

static void come(uint32_t i)
{
    struct tram_error e = {""};
    struct tram_group_options o = {
        .host = tram_cluster_host_name(cluster, i),
        .machine = {.deliver = deliver, .view = on_view, .save = save, .load = load},
        .ctx = &member[i]};
    member[i].name = o.host;
    if (tram_group_open(cluster, &o, &member[i].group, &e) != TRAM_OK)
        die(o.host, &e);
    if ((cell = tram_group_cell(member[i].group, "map", 0)) < 0)
        die(o.host, &(struct tram_error){"the cluster file has no subgroup 'map'"});
}

/* Polls all who are there, and lets each of them put until it has sent so many; until all have that many puts. */
static void run(uint64_t each, uint64_t all)
{
    struct tram_error e = {""};
    for (uint32_t done = 0, there = 1; done < there;) {
        done = there = 0;
        for (struct member *m = member; m < member + MEMBERS; m++) {
            uint64_t put[2] = {m->sent * 7 % KEYS, m->sent};
            if (m->group == NULL)
                continue;
            if (tram_group_poll(m->group, &e) < 0)
                die(m->name, &e);
            if (m->sent < each &&
                tram_group_send(m->group, (uint32_t)cell, put, sizeof(put), &e) == 0)
                m->sent++; /* TRAM_AGAIN: it is not in a view yet, or its ring is full */
            there++;
            done += m->sent >= each && m->map.puts == all;
        }
    }
}

/* The others go on meanwhile; in a process of its own tram_group_close does all of this. */
static void leave(struct member *m)
{
    tram_group_leave(m->group);
    while (!tram_group_has_left(m->group))
        for (uint32_t i = 0; i < MEMBERS; i++)
            if (member[i].group)
                tram_group_poll(member[i].group, NULL);
    tram_group_close(m->group);
    m->group = NULL;
}

int main(int argc, char **argv)
{
    struct tram_error e = {""};
    char name[24];
    if (tram_cluster_load(argc > 1 ? argv[1] : "group.yaml", &cluster, &e) != TRAM_OK)
        die("cluster", &e);
    snprintf(name, sizeof(name), "group-%d", (int)getpid());
    tram_cluster_rename(cluster, name, &e); /* two runs at once do not meet */
    come(0);
    come(1);
    run(PUTS, UINT64_C(2) * PUTS);
    come(2);
    run(PUTS, UINT64_C(3) * PUTS);
    leave(&member[0]);
    run(UINT64_C(2) * PUTS, UINT64_C(5) * PUTS);
    bool equal = memcmp(&member[1].map, &member[2].map, sizeof(struct map)) == 0;
    printf("%" PRIu64 " puts, %s\n", member[1].map.puts, equal ? "equal everywhere" : "DIFFERENT");
    leave(&member[1]);
    tram_group_close(member[2].group); /* bounded: nobody is left to let it go */
    tram_cluster_free(cluster);
    return equal ? 0 : 1;
}
