#include "group_rig.h"

#include "../cluster_fixture.h"
#include "../far_fixture.h"
#include "api/group_impl.h"
#include "base/clock.h"
#include "base/hash.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 1 << 22,
    SEND_EVERY_US = 2000, /* a message to each cell */
    PAYLOAD_MAX = 400,
    LOOK_US = 500,
};

void grig_sleep(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
                         .tv_nsec = (long)(ns % UINT64_C(1000000000))};
    nanosleep(&t, NULL);
}

/* ---- a member: in a process of its own ---- */

struct state {
    uint64_t count, hash;
};

struct process {
    struct tram_group *group;
    struct grig_host *me;
    struct grig_life *log;
    uint32_t host, life, epoch; /* epoch: times it was put out */
    uint64_t seq[GRIG_CELLS];
    struct state state[GRIG_CELLS];
    bool first; /* nothing was delivered yet in this view */
    uint64_t next_ns;
    struct rng rng;
};

static void note(struct process *p, struct grig_event e)
{
    uint32_t at = atomic_load_explicit(&p->log->events, memory_order_relaxed);
    CHECK(at < p->log->events_max);
    p->log->event[at] = e;
    atomic_store_explicit(&p->log->events, at + 1, memory_order_release);
}

static void show_state(struct process *p, uint32_t cell)
{
    atomic_store(&p->me->count[cell], p->state[cell].count);
    atomic_store(&p->me->hash[cell], p->state[cell].hash);
}

static void note_time(struct process *p, uint64_t vid)
{
    uint64_t now = clock_now_ns(), last = atomic_exchange(&p->me->last_ns, now);
    if (last && now - last > atomic_load(&p->me->pause_ns))
        atomic_store(&p->me->pause_ns, now - last);
    if (p->first)
        note(p, (struct grig_event){.kind = GRIG_FIRST, .vid = (uint32_t)vid, .number = now});
    p->first = false;
}

static void on_deliver(void *ctx, uint32_t cell, uint64_t vid, const struct tram_item *item,
                       uint32_t count)
{
    struct process *p = ctx;
    struct state *s = &p->state[cell];
    if (cell != GRIG_RAW)
        note_time(p, vid);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id;
        CHECK(item[i].bytes >= sizeof(id));
        memcpy(&id, item[i].data, sizeof(id));
        /* All of it came: the rest follows from the id. */
        for (uint32_t b = sizeof(id); b < item[i].bytes; b++)
            CHECK(((const unsigned char *)item[i].data)[b] == (unsigned char)(id + b));
        note(p, (struct grig_event){.kind = GRIG_DELIVER,
                                    .cell = (uint8_t)cell,
                                    .sender = (uint8_t)item[i].sender,
                                    .vid = (uint32_t)vid,
                                    .number = item[i].number,
                                    .id = id});
        s->hash = hash_mix(s->hash, id);
        s->count++;
    }
    show_state(p, cell);
    atomic_fetch_add(&p->me->delivered, count);
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    struct process *p = ctx;
    (void)before;
    if (now == NULL) {
        note(p, (struct grig_event){.kind = GRIG_OUT});
        p->epoch++;
        memset(p->seq, 0, sizeof(p->seq));
        atomic_fetch_add(&p->me->put_out, 1);
        atomic_store(&p->me->vid, 0);
        return;
    }
    note(p, (struct grig_event){.kind = GRIG_VIEW,
                                .vid = (uint32_t)now->number,
                                .number = clock_now_ns(),
                                .id = now->members});
    for (uint32_t i = 0; i < GRIG_RAW; i++)
        if (in_set(now->cell[i].stateful, p->host) && now->cell[i].born != now->number)
            note(p, (struct grig_event){.kind = GRIG_STATE,
                                        .cell = (uint8_t)i,
                                        .vid = (uint32_t)now->number,
                                        .number = p->state[i].count,
                                        .id = p->state[i].hash});
    p->first = true;
    atomic_store(&p->me->members, now->members);
    atomic_store(&p->me->vid, now->number);
}

static void on_born(void *ctx, uint32_t cell)
{
    struct process *p = ctx;
    note(p, (struct grig_event){.kind = GRIG_BORN, .cell = (uint8_t)cell});
    p->state[cell] = (struct state){0};
    show_state(p, cell);
}

static int on_save(void *ctx, uint32_t cell, void **data, size_t *bytes)
{
    struct process *p = ctx;
    *bytes = sizeof(p->state[cell]);
    *data = malloc(*bytes);
    CHECK(*data != NULL);
    memcpy(*data, &p->state[cell], *bytes);
    return 0;
}

static int on_load(void *ctx, uint32_t cell, const void *data, size_t bytes)
{
    struct process *p = ctx;
    CHECK(bytes == sizeof(p->state[cell]));
    memcpy(&p->state[cell], data, bytes);
    note(p, (struct grig_event){.kind = GRIG_LOADED,
                                .cell = (uint8_t)cell,
                                .number = p->state[cell].count,
                                .id = p->state[cell].hash});
    show_state(p, cell);
    return 0;
}

static void send_to(struct process *p, uint32_t cell)
{
    unsigned char body[PAYLOAD_MAX];
    uint32_t bytes = 8 + (uint32_t)rng_below(&p->rng, PAYLOAD_MAX - 8);
    uint64_t id = (uint64_t)p->host << 60 | (uint64_t)(p->life & 0xfff) << 48 |
                  (uint64_t)(p->epoch & 0xfff) << 36 | p->seq[cell];
    memcpy(body, &id, sizeof(id));
    for (uint32_t b = sizeof(id); b < bytes; b++)
        body[b] = (unsigned char)(id + b);
    /* Every other one in place. */
    if (p->seq[cell] % 2 == 0) {
        if (tram_group_send(p->group, cell, body, bytes, NULL) == 0) {
            p->seq[cell]++;
            atomic_fetch_add(&p->me->sent, 1);
        }
        return;
    }
    void *room = tram_reserve(p->group, cell, PAYLOAD_MAX);
    if (room == NULL)
        return;
    memcpy(room, body, bytes);
    tram_commit(p->group, cell, room, bytes);
    p->seq[cell]++;
    atomic_fetch_add(&p->me->sent, 1);
}

/* Has it the state of all cells, and is it a keeper again, if it is one, whose memory counts? */
static bool is_ready(const struct process *p)
{
    const struct log *log = keeper_log(member_keeper(p->group->member));
    struct unit_status s;
    for (uint32_t i = 0; i < GRIG_CELLS; i++)
        if (!tram_group_has_state(p->group, i))
            return false;
    if (log == NULL)
        return true;
    log_status(log, &s);
    return s.role != UNIT_JOINING && !s.behind;
}

static void after_step(struct process *p)
{
    const struct tram_view *v = tram_group_view(p->group);
    uint64_t now = clock_now_ns();
    atomic_store(&p->me->ready, v && is_ready(p) ? v->number : 0);
    atomic_fetch_add(&p->me->busy, 1);
    if (v == NULL || atomic_load(&p->me->quiet) || now < p->next_ns)
        return;
    p->next_ns = now + SEND_EVERY_US * UINT64_C(1000);
    for (uint32_t i = 0; i < GRIG_CELLS; i++)
        send_to(p, i);
}

static void wake_up(int number)
{
    (void)number;
}

static int be_member(const struct grig *t, struct process *p)
{
    struct tram_cluster *c;
    struct tram_error e = {""};
    const struct tram_log log = api_log_stderr(t->say ? TRAM_LOG_INFO : TRAM_LOG_ERROR);
    if (tram_cluster_load(t->file, &c, &e) != 0) {
        fprintf(stderr, "# cluster: %s\n", e.text);
        return 1;
    }
    struct tram_group_options o = {
        .host = tram_cluster_host_name(c, p->host),
        .machine = {.deliver = on_deliver,
                    .view = on_view,
                    .born = on_born,
                    .save = on_save,
                    .load = on_load},
        .ctx = p,
        .log = log,
        .leave_ms = 10000,
        .trace_dir = t->traces,
    };
    int rc = tram_group_open(c, &o, &p->group, &e);
    /* Its last life may be about to end: the kernel has not got round to it. */
    for (int tries = 0; rc == TRAM_EXISTS && tries < 1000; tries++) {
        grig_sleep(5 * GRIG_MS);
        rc = tram_group_open(c, &o, &p->group, &e);
    }
    while (rc >= 0 && !atomic_load(&p->me->leave)) {
        rc = tram_group_step(p->group, &e);
        after_step(p);
    }
    if (rc < 0) {
        fprintf(stderr, "# %s: %s\n", o.host, e.text);
        return 1;
    }
    /* The last one has nobody left to let it go. */
    const struct tram_view *v = tram_group_view(p->group);
    bool last = v && v->members == set_of(p->host);
    if (!last)
        tram_group_leave(p->group);
    for (uint64_t until = clock_now_ns() + GRIG_PATIENCE;
         rc >= 0 && !last && !tram_group_has_left(p->group) && clock_now_ns() < until;)
        rc = tram_group_step(p->group, &e);
    bool left = last || tram_group_has_left(p->group);
    tram_group_close(p->group);
    tram_cluster_free(c);
    return left ? 0 : 2;
}

/* ---- the test: processes ---- */

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static void make_subgroups(struct cluster *c)
{
    static const char *const names[] = {"all", "two", "raw"};
    for (uint32_t i = 0; i < GRIG_CELLS; i++) {
        c->subgroup[i] = c->subgroup[0];
        snprintf(c->subgroup[i].name, sizeof(c->subgroup[i].name), "%s", names[i]);
        c->subgroup[i].ring_bytes = 64 << 10; /* so that they are round soon, and full at times */
        c->subgroup[i].message_max = 8 << 10;
    }
    c->subgroups = GRIG_CELLS;
    c->subgroup[1].senders = 3;
    c->subgroup[GRIG_RAW].mode = CLUSTER_MODE_RAW;
}

bool grig_open(struct grig *t)
{
    struct cluster_plan plan = {.name = "members",
                                .protocol = CLUSTER_GROUP,
                                .transport = t->transport,
                                .hosts = t->hosts,
                                .subgroups = 1,
                                .shards = 1};
    struct err e = {""};
    struct cluster *c;
    t->board = shared(t->hosts * sizeof(*t->board));
    rng_init(&t->rng, clock_now_ns());
    snprintf(t->dir, sizeof(t->dir), "/dev/shm/tram-test-XXXXXX");
    if (mkdtemp(t->dir) == NULL || cluster_make(&plan, &c, &e) != 0) {
        printf("# %s\n", e.text);
        return false;
    }
    snprintf(t->file, sizeof(t->file), "%s/cluster.yaml", t->dir);
    snprintf(t->traces, sizeof(t->traces), "%s/traces", t->dir);
    snprintf(c->runtime_dir, sizeof(c->runtime_dir), "%s", t->dir);
    c->start_ms = 100;
    make_subgroups(c);
    for (uint32_t h = 0; h < t->hosts; h++)
        if (t->address[h])
            snprintf(c->host[h].address, sizeof(c->host[h].address), "%s", t->address[h]);
        else if (t->transport != CLUSTER_SHM)
            c->host[h].port = far_fixture_port();
    bool good = cluster_fixture_write(c, t->file, &e);
    cluster_free(c);
    if (!good)
        printf("# cluster: %s\n", e.text);
    return good;
}

void grig_close(struct grig *t)
{
    char command[128];
    grig_kill_all(t);
    for (uint32_t i = 0; i < t->lives; i++)
        munmap(t->life[i], sizeof(struct grig_life) + EVENTS_MAX * sizeof(struct grig_event));
    snprintf(command, sizeof(command), "rm -rf %s", t->dir);
    if (system(command) != 0)
        printf("# %s is left\n", t->dir);
}

void grig_start(struct grig *t, uint32_t h)
{
    CHECK(t->lives < GRIG_LIVES_MAX && t->pid[h] == 0);
    struct grig_life *log =
        shared(sizeof(struct grig_life) + EVENTS_MAX * sizeof(struct grig_event));
    log->host = h;
    log->life = t->started[h]++;
    log->events_max = EVENTS_MAX;
    t->at[h] = (int)t->lives;
    t->life[t->lives++] = log;
    atomic_store(&t->board[h].vid, 0);
    atomic_store(&t->board[h].ready, 0);
    atomic_store(&t->board[h].leave, false);
    fflush(stdout);
    pid_t parent = getpid();
    t->pid[h] = fork();
    if (t->pid[h] != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGUSR1, wake_up);
    struct process p = {.me = &t->board[h], .log = log, .host = h, .life = log->life};
    rng_init(&p.rng, clock_now_ns() + h);
    if (getppid() != parent || (t->enter && !t->enter(h)))
        _exit(3);
    _exit(be_member(t, &p));
}

void grig_kill(struct grig *t, uint32_t h)
{
    kill(t->pid[h], SIGKILL);
    waitpid(t->pid[h], NULL, 0);
    t->pid[h] = 0;
}

void grig_kill_all(struct grig *t)
{
    for (uint32_t h = 0; h < t->hosts; h++)
        if (t->pid[h])
            grig_kill(t, h);
}

void grig_stop(struct grig *t, uint32_t h)
{
    kill(t->pid[h], SIGSTOP);
}

void grig_continue(struct grig *t, uint32_t h)
{
    kill(t->pid[h], SIGCONT);
}

bool grig_leave(struct grig *t, uint32_t h)
{
    int status = -1;
    pid_t got = 0;
    atomic_store(&t->board[h].leave, true);
    kill(t->pid[h], SIGUSR1);
    for (uint64_t until = clock_now_ns() + GRIG_PATIENCE; got == 0 && clock_now_ns() < until;) {
        got = waitpid(t->pid[h], &status, WNOHANG);
        if (got == 0)
            grig_sleep(LOOK_US * 1000);
    }
    if (got == 0) {
        grig_kill(t, h);
        printf("# h%u has not left\n", h + 1);
        return false;
    }
    t->pid[h] = 0;
    if (status != 0)
        printf("# h%u has left with status %d\n", h + 1, status);
    return status == 0;
}

uint32_t grig_vid(const struct grig *t, uint32_t h)
{
    return (uint32_t)atomic_load(&t->board[h].vid);
}

/* ---- waiting ---- */

/* Has nobody died whom nobody killed? */
static bool all_live(struct grig *t)
{
    for (uint32_t h = 0; h < t->hosts; h++) {
        int status;
        if (t->pid[h] == 0 || waitpid(t->pid[h], &status, WNOHANG) == 0)
            continue;
        printf("# h%u has ended by itself, with status %d\n", h + 1, status);
        t->pid[h] = 0;
        return false;
    }
    return true;
}

static void print_board(const struct grig *t)
{
    for (uint32_t h = 0; h < t->hosts; h++) {
        const struct grig_host *b = &t->board[h];
        printf("# h%u: %s, view %llu, ready in %llu, sent %llu, delivered %llu, busy %llu\n", h + 1,
               t->pid[h] ? "there" : "not there", (unsigned long long)b->vid,
               (unsigned long long)b->ready, (unsigned long long)b->sent,
               (unsigned long long)b->delivered, (unsigned long long)b->busy);
        for (uint32_t i = 0; t->pid[h] && i < GRIG_CELLS; i++)
            printf("#     cell %u: %llu messages, %016llx\n", i, (unsigned long long)b->count[i],
                   (unsigned long long)b->hash[i]);
    }
}

static bool same_view(const struct grig *t)
{
    uint64_t vid = 0, members = 0;
    for (uint32_t h = 0; h < t->hosts; h++) {
        uint64_t ready = atomic_load(&t->board[h].ready);
        if (t->pid[h] == 0)
            continue;
        members |= set_of(h);
        if (ready == 0 || (vid != 0 && ready != vid))
            return false;
        vid = ready;
    }
    for (uint32_t h = 0; h < t->hosts; h++)
        if (t->pid[h] && atomic_load(&t->board[h].members) != members)
            return false;
    return members != 0;
}

bool grig_well(struct grig *t)
{
    uint64_t until = clock_now_ns() + GRIG_PATIENCE, from[GRIG_HOSTS_MAX];
    while (!same_view(t)) {
        if (!all_live(t))
            return false;
        if (clock_now_ns() > until) {
            printf("# they do not find together\n");
            print_board(t);
            return false;
        }
        grig_sleep(LOOK_US * 1000);
    }
    for (uint32_t h = 0; h < t->hosts; h++)
        from[h] = atomic_load(&t->board[h].delivered);
    for (uint32_t h = 0; h < t->hosts; h++)
        while (t->pid[h] && atomic_load(&t->board[h].delivered) == from[h]) {
            if (!all_live(t))
                return false;
            if (clock_now_ns() > until) {
                printf("# h%u delivers nothing\n", h + 1);
                print_board(t);
                return false;
            }
            grig_sleep(LOOK_US * 1000);
        }
    return true;
}

static bool same_states(const struct grig *t)
{
    const struct grig_host *first = NULL;
    for (uint32_t h = 0; h < t->hosts; h++) {
        const struct grig_host *b = &t->board[h];
        if (t->pid[h] == 0)
            continue;
        first = first ? first : b;
        for (uint32_t i = 0; i < GRIG_RAW; i++) /* which has no state */
            if (b->count[i] != first->count[i] || b->hash[i] != first->hash[i])
                return false;
    }
    return true;
}

bool grig_settled(struct grig *t)
{
    uint64_t until = clock_now_ns() + GRIG_PATIENCE;
    for (uint32_t h = 0; h < t->hosts; h++)
        atomic_store(&t->board[h].quiet, true);
    while (!same_view(t) || !same_states(t)) {
        if (!all_live(t))
            return false;
        if (clock_now_ns() > until) {
            printf("# their states stay different\n");
            print_board(t);
            return false;
        }
        grig_sleep(LOOK_US * 1000);
    }
    for (uint32_t h = 0; h < t->hosts; h++)
        atomic_store(&t->board[h].quiet, false);
    return true;
}

void grig_gaps(const struct grig *t, uint64_t since_ns, uint32_t vid, struct hist *out)
{
    for (uint32_t h = 0; h < t->hosts; h++) {
        const struct grig_life *l = t->pid[h] ? t->life[t->at[h]] : NULL;
        uint32_t events = l ? atomic_load(&l->events) : 0;
        bool was = false;
        for (uint32_t i = 0; i < events; i++) {
            const struct grig_event *e = &l->event[i];
            was = (was && e->kind != GRIG_OUT) || (e->kind == GRIG_VIEW && e->vid == vid);
            if (was && e->kind == GRIG_FIRST && e->vid > vid && e->number > since_ns) {
                hist_add(out, e->number - since_ns);
                break;
            }
        }
    }
}

void grig_pause_begin(struct grig *t)
{
    for (uint32_t h = 0; h < t->hosts; h++)
        atomic_store(&t->board[h].pause_ns, 0);
}

void grig_pauses(const struct grig *t, uint32_t but, struct hist *out)
{
    for (uint32_t h = 0; h < t->hosts; h++)
        if (t->pid[h] && h != but)
            hist_add(out, atomic_load(&t->board[h].pause_ns));
}
