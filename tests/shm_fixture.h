/* For tests of the shared-memory backend: a cluster of HOSTS hosts with one region and a lane from
 * everyone to everyone, in a runtime directory of its own; in this process or in *kids*, processes
 * that do what they are told and can be stopped and killed. A kid exits when its parent does. */
#ifndef TESTS_SHM_FIXTURE_H
#define TESTS_SHM_FIXTURE_H

#include "base/clock.h"
#include "mem/shm/shm.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIXTURE_HANG_NS 60000000000u /* nothing but a hang takes so long */

enum { HOSTS = 3, REGION = 7, KIND = 1, WORDS = 16, RING = 65536, CLIENT = 100 };

static const struct shm_node fixture_hosts[HOSTS] = {
    {.name = "h0", .node = 0, .role = SHM_HOST, .uid = 61001},
    {.name = "h1", .node = 1, .role = SHM_HOST, .uid = 61002},
    {.name = "h2", .node = 2, .role = SHM_HOST, .uid = 61003},
};
/* Nodes may lie: kids have these uids; needs root. */
static bool fixture_hostile;
static const struct shm_node fixture_client = {
    .name = "c0", .node = 200, .role = SHM_CLIENT, .uid = 61010};

struct node {
    struct mem *mem;
    enum mem_birth birth;
    struct mem_lane *lane[HOSTS][HOSTS]; /* [owner][writer] */
};

static char fixture_dir[64];
static uid_t fixture_uid; /* who began, whoever we become */

static inline void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fixture: %s\n", what);
    abort();
}

static inline void fixture_begin(void)
{
    fixture_uid = geteuid();
    snprintf(fixture_dir, sizeof fixture_dir, "/dev/shm/tram-test-XXXXXX");
    if (mkdtemp(fixture_dir))
        return;
    snprintf(fixture_dir, sizeof fixture_dir, "/tmp/tram-test-XXXXXX");
    must(mkdtemp(fixture_dir) != NULL, "mkdtemp");
}

static inline void fixture_path(char *out, size_t room, const char *file)
{
    snprintf(out, room, "%s/tramway-%u-test%s%s", fixture_dir, fixture_uid, *file ? "/" : "", file);
}

/* Removes the runtime directory with whatever killed processes have left. */
static inline void fixture_end(void)
{
    char path[512];
    DIR *d;

    fixture_path(path, sizeof path, "");
    if ((d = opendir(path))) {
        for (struct dirent *f; (f = readdir(d));) {
            unlinkat(dirfd(d), f->d_name, 0);
        }
        closedir(d);
        rmdir(path);
    }
    rmdir(fixture_dir);
}

static inline struct shm_options fixture_options(unsigned self)
{
    return (struct shm_options){.say = say_stderr(SAY_WARN),
                                .dir = fixture_dir,
                                .cluster = "test",
                                .self = fixture_hosts[self],
                                .hosts = fixture_hosts,
                                .hosts_count = HOSTS,
                                .answer_timeout_ns = 500000000,
                                .hostile = fixture_hostile,
                                .clients_known = fixture_hostile ? &fixture_client : NULL,
                                .clients_known_count = fixture_hostile};
}

static inline struct mem_lane_spec fixture_spec(unsigned owner, unsigned writer)
{
    return (struct mem_lane_spec){.owner = owner,
                                  .writer = writer,
                                  .region = REGION,
                                  .kind = KIND,
                                  .ctl_words = WORDS,
                                  .ring_bytes = RING};
}

static inline int fixture_open(struct node *n, const struct shm_options *o, struct err *e)
{
    struct mem_lane_spec specs[HOSTS * HOSTS];
    int rc = shm_open_node(o, &n->mem, e);

    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < HOSTS * HOSTS; i++)
        specs[i] = fixture_spec(i / HOSTS, i % HOSTS);
    rc = mem_region_open(n->mem, REGION, &n->birth, e);
    if (rc == 0)
        rc = mem_lanes_open(n->mem, specs, HOSTS * HOSTS, &n->lane[0][0], e);
    return rc;
}

static inline struct node host_open(unsigned self)
{
    struct node n = {0};
    struct shm_options o = fixture_options(self);
    struct err e = {""};

    if (fixture_open(&n, &o, &e) < 0) {
        fprintf(stderr, "open %s: %s\n", fixture_hosts[self].name, e.text);
        abort();
    }
    return n;
}

static inline void nap(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
}

/* Polls all of them until everybody is connected to everybody; false after a minute. */
static inline bool all_connected(struct node *nodes, unsigned count)
{
    uint64_t until = clock_now_ns() + FIXTURE_HANG_NS;

    while (clock_now_ns() < until) {
        bool all = true;
        for (unsigned i = 0; i < count; i++)
            mem_poll(nodes[i].mem);
        for (unsigned i = 0; i < count; i++)
            for (unsigned k = 0; k < count; k++)
                all = all && shm_connected(nodes[i].mem, nodes[k].mem->self) &&
                      nodes[i].lane[nodes[i].mem->self][nodes[k].mem->self]->ctl;
        if (all)
            return true;
        nap(100000);
    }
    return false;
}

static inline bool wait_connected(struct node *n, unsigned peer)
{
    uint64_t until = clock_now_ns() + FIXTURE_HANG_NS;

    while (clock_now_ns() < until) {
        mem_poll(n->mem);
        if (shm_connected(n->mem, peer) && n->lane[n->mem->self][peer]->ctl)
            return true;
        nap(100000);
    }
    return false;
}

/* Polls until the op is finished; PENDING after a minute. */
static inline enum mem_status finish(struct mem *m, struct mem_op *op)
{
    uint64_t until = clock_now_ns() + FIXTURE_HANG_NS;

    while (op->status == MEM_PENDING && clock_now_ns() < until)
        mem_poll(m);
    return op->status;
}

static inline enum mem_status raise_to(struct mem *m, unsigned owner, uint64_t ballot,
                                       uint64_t *value)
{
    struct mem_op op;

    mem_raise(m, &op, owner, REGION, ballot);
    finish(m, &op);
    if (value)
        *value = op.value;
    return op.status;
}

static inline enum mem_status read_word(struct node *n, unsigned owner, unsigned writer,
                                        unsigned word, uint64_t *out)
{
    struct mem_op op;

    mem_read_ctl(n->mem, &op, n->lane[owner][writer], word, 1, out);
    return finish(n->mem, &op);
}

/* Keeps the calling thread on one core, if there are several. */
static inline void pin(unsigned core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Memory that a test's processes share. */
static inline void *shared_page(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED, "mmap");
    return at;
}

/* From here on this process has no more power than its uid. */
static inline void become(uint32_t uid)
{
    must(setgroups(0, NULL) == 0 && setgid(uid) == 0 && setuid(uid) == 0, "setuid");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* A process that runs `fn` and exits with what it returns. */
static inline pid_t spawn(int (*fn)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();

    must(pid >= 0, "fork");
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(fn(arg));
}

enum kid_verb {
    KID_NONE,
    KID_RAISE,
    KID_WRITE,
    KID_READ,
    KID_CONNECT,
    KID_GRANT,
    KID_SLEEP, /* until an own word is `value`; result: for so long */
    KID_CLOSE
};

/* One order at a time, through shared memory. WRITE opens a flow under the ballot if the last one
 * failed or had another, and sets a word of the lane to `owner`. */
struct kid_order {
    _Atomic uint32_t given; /* parent's */
    _Atomic uint32_t done;  /* kid's */
    enum kid_verb verb;
    uint32_t owner, writer, word;
    uint64_t value;
    enum mem_status status;
    uint64_t result;
    /* Set when it has opened. */
    _Atomic uint32_t open;
    enum mem_birth birth;
    uint32_t life;
    uint64_t promised;
    uint64_t open_ns; /* how long that took */
};

struct kid {
    pid_t pid;
    unsigned self;
    struct kid_order *order;
};

static inline void kid_write(struct node *n, struct kid_order *o, struct mem_flow *f,
                             uint64_t ballot)
{
    if (f->status != MEM_DONE || f->owner != o->owner || f->ballot != ballot || !f->marked) {
        uint64_t tag = f->marked;
        mem_flow_open(n->mem, f, o->owner, REGION, ballot);
        f->marked = tag;
    }
    uint64_t tag = f->marked + 1;
    mem_set1(n->mem, f, n->lane[o->owner][n->mem->self], o->word, o->value);
    mem_mark(n->mem, f, tag);
    uint64_t until = clock_now_ns() + FIXTURE_HANG_NS;
    while (f->status == MEM_DONE && f->done != tag && clock_now_ns() < until)
        mem_poll(n->mem);
    o->status = f->status == MEM_DONE && f->done != tag ? MEM_PENDING : f->status;
    mem_bell(n->mem, o->owner);
}

static inline void kid_sleep(struct node *n, struct kid_order *o)
{
    uint64_t begin = clock_now_ns(), until = begin + FIXTURE_HANG_NS;
    const struct mem_lane *l = n->lane[n->mem->self][o->writer];

    o->status = MEM_LOST;
    while (o->status != MEM_DONE && clock_now_ns() < until) {
        mem_doze(n->mem);
        mem_poll(n->mem);
        o->status = l->ctl && mem_word(l, o->word) == o->value ? MEM_DONE : MEM_LOST;
        if (o->status == MEM_DONE)
            mem_rouse(n->mem);
        else
            mem_sleep(n->mem, until);
    }
    o->result = clock_now_ns() - begin;
}

static inline int kid_main(void *arg)
{
    struct kid *k = arg;
    if (fixture_hostile)
        become(fixture_hosts[k->self].uid);
    struct kid_order *o = k->order;
    struct mem_flow flows[HOSTS] = {0};
    uint64_t begin = clock_now_ns();
    struct node n = host_open(k->self);

    o->birth = n.birth;
    o->life = n.mem->life;
    o->promised = mem_promised(n.mem, REGION);
    o->open_ns = clock_now_ns() - begin;
    mem_poll(n.mem);
    atomic_store(&o->open, 1);
    for (unsigned i = 0; i < HOSTS; i++)
        flows[i].status = MEM_LOST;
    for (;;) {
        uint32_t given = atomic_load(&o->given);
        if (given == atomic_load(&o->done)) {
            mem_poll(n.mem);
            nap(20000);
            continue;
        }
        switch (o->verb) {
        case KID_RAISE:
            o->status = raise_to(n.mem, o->owner, o->value, &o->result);
            break;
        case KID_WRITE:
            kid_write(&n, o, &flows[o->owner], o->result);
            break;
        case KID_READ:
            o->status = read_word(&n, o->owner, o->writer, o->word, &o->result);
            break;
        case KID_CONNECT:
            o->status = wait_connected(&n, o->owner) ? MEM_DONE : MEM_LOST;
            break;
        case KID_GRANT:
            mem_region_grant(n.mem, REGION, o->value);
            o->status = MEM_DONE;
            break;
        case KID_SLEEP:
            kid_sleep(&n, o);
            break;
        case KID_CLOSE:
            shm_close_node(n.mem);
            atomic_store(&o->done, given);
            return 0;
        case KID_NONE:
            break;
        }
        atomic_store(&o->done, given);
    }
}

/* Starts a host as a process; returns when it has opened, which may fail by time. */
static inline void kid_start(struct kid *k, unsigned self)
{
    k->self = self;
    k->order = shared_page(sizeof *k->order);
    k->pid = spawn(kid_main, k);
    uint64_t until = clock_now_ns() + FIXTURE_HANG_NS;
    while (!atomic_load(&k->order->open)) {
        must(clock_now_ns() < until, "a kid does not open");
        nap(50000);
    }
}

static inline void kid_give(struct kid *k, struct kid_order order)
{
    struct kid_order *o = k->order;

    o->verb = order.verb;
    o->owner = order.owner;
    o->writer = order.writer;
    o->word = order.word;
    o->value = order.value;
    o->result = order.result;
    atomic_fetch_add(&o->given, 1);
}

static inline enum mem_status kid_wait(struct kid *k)
{
    uint64_t until = clock_now_ns() + 3 * FIXTURE_HANG_NS;

    while (atomic_load(&k->order->done) != atomic_load(&k->order->given)) {
        must(clock_now_ns() < until, "a kid does not answer");
        nap(20000);
    }
    return k->order->status;
}

static inline enum mem_status kid_do(struct kid *k, struct kid_order order)
{
    kid_give(k, order);
    return kid_wait(k);
}

static inline enum mem_status kid_raise(struct kid *k, unsigned owner, uint64_t ballot)
{
    return kid_do(k, (struct kid_order){.verb = KID_RAISE, .owner = owner, .value = ballot});
}

static inline enum mem_status kid_set(struct kid *k, unsigned owner, unsigned word, uint64_t value,
                                      uint64_t ballot)
{
    return kid_do(
        k, (struct kid_order){
               .verb = KID_WRITE, .owner = owner, .word = word, .value = value, .result = ballot});
}

static inline enum mem_status kid_read(struct kid *k, unsigned owner, unsigned writer,
                                       unsigned word, uint64_t *out)
{
    enum mem_status status = kid_do(
        k, (struct kid_order){.verb = KID_READ, .owner = owner, .writer = writer, .word = word});

    *out = k->order->result;
    return status;
}

static inline bool kid_connect(struct kid *k, unsigned peer)
{
    return kid_do(k, (struct kid_order){.verb = KID_CONNECT, .owner = peer}) == MEM_DONE;
}

static inline void kid_kill(struct kid *k)
{
    if (k->pid <= 0)
        return;
    kill(k->pid, SIGKILL);
    waitpid(k->pid, NULL, 0);
    k->pid = 0;
    munmap(k->order, sizeof *k->order);
}

static inline void kid_close(struct kid *k)
{
    kid_do(k, (struct kid_order){.verb = KID_CLOSE});
    waitpid(k->pid, NULL, 0);
    k->pid = 0;
    munmap(k->order, sizeof *k->order);
}

/* Stops it and returns when it has stopped. */
static inline void kid_stop(struct kid *k)
{
    kill(k->pid, SIGSTOP);
    waitpid(k->pid, NULL, WUNTRACED);
}

static inline void kid_continue(struct kid *k)
{
    kill(k->pid, SIGCONT);
}

/* cmocka's setup and teardown; a failed case must not leave its kids to the next. */
static struct kid kids[HOSTS];

static inline int cluster_setup(void **state)
{
    (void)state;
    memset(kids, 0, sizeof kids);
    fixture_begin();
    return 0;
}

static inline int cluster_teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HOSTS; i++)
        kid_kill(&kids[i]);
    fixture_end();
    return 0;
}

static inline unsigned open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

#endif
