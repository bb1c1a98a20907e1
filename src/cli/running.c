#include "cli/running.h"

#include "api/api.h"
#include "api/group_page.h"
#include "base/clock.h"
#include "base/say.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/namesake.h"
#include "mem/far/far.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SILENT_NS = 1000000000,
    LOOK_NS = 1000000000,
    LOOK_MS = 20, /* between two samples, while something is waited for */
    PATH_BYTES = RUNNING_DIR_BYTES + CLUSTER_NAME_BYTES + 8,
    PAGE_BYTES_MAX = 64 << 20, /* more than any host writes */
    COPY_TRIES = 16,
};

/* ---- options ---- */

const char *running_file(const struct running_args *a)
{
    return a->file ? a->file : "cluster.yaml";
}

/* Commands that have nothing to do with members of a group, and what is there instead. */
static int not_for_group(const struct tram_cluster *c, const char *command)
{
    static const struct {
        const char *command, *instead;
    } not_for[] = {
        {"send", "only members send (tram_group_send); `tram up --rate N` has them send"},
        {"tail", "members deliver to their program; `tram view --watch` shows how much"},
        {"top", "`tram view --watch` shows it live"},
        {"backup", "it is not durable; a member that comes gets the state from the others"},
        {"restore", "it is not durable; a member that comes gets the state from the others"},
    };

    for (size_t i = 0; c->conf->protocol == CLUSTER_GROUP && i < sizeof not_for / sizeof not_for[0];
         i++)
        if (strcmp(not_for[i].command, command) == 0) {
            fprintf(stderr,
                    "tram %s: cluster '%s' has protocol: group, and this is for tree and"
                    " genuine: %s\n",
                    command, c->conf->name, not_for[i].instead);
            return CMD_USAGE;
        }
    return CMD_DONE;
}

int running_load(const struct running_args *a, const char *command, struct tram_cluster **out)
{
    struct tram_error e = {""};

    int rc = tram_cluster_load(running_file(a), out, &e);
    if (rc < 0) {
        fprintf(stderr, "%s%s\n", e.text, rc == TRAM_NOTFOUND ? ", -c FILE names another" : "");
        return rc == TRAM_NOTFOUND ? CMD_USAGE : CMD_FAILED;
    }
    const struct tram_log log = api_log_stderr(TRAM_LOG_WARNING);
    tram_cluster_log(*out, &log);
    int code = not_for_group(*out, command);
    if (code == CMD_DONE && (a->cluster == NULL || tram_cluster_rename(*out, a->cluster, &e) == 0))
        return CMD_DONE;
    tram_cluster_free(*out);
    *out = NULL;
    return code != CMD_DONE ? code : args_bad(command, "--cluster", e.text);
}

int running_directory(const struct tram_cluster *c, const char *command,
                      char out[RUNNING_DIR_BYTES])
{
    struct err e = {""};

    if (api_directory(c, out, RUNNING_DIR_BYTES, &e) == 0)
        return CMD_DONE;
    fprintf(stderr, "tram %s: %s\n", command, e.text);
    return CMD_FAILED;
}

/* ---- samples ---- */

/* Can a process of this machine have the address? */
static bool is_here(const struct cluster_host *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;

    if (getaddrinfo(host->address, NULL, &hints, &found) != 0)
        return false;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool here = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return here;
}

bool running_is_here(const struct tram_cluster *c, uint32_t host)
{
    return c->conf->transport == CLUSTER_SHM || is_here(&c->conf->host[host]);
}

int running_open(struct running *r, const struct tram_cluster *c, const char *command)
{
    int code = running_directory(c, command, r->dir);
    if (code != CMD_DONE)
        return code;
    r->cluster = c;
    r->record_bytes = group_page_record_bytes(cluster_cells(c->conf));
    r->host = calloc(c->conf->hosts, sizeof(*r->host));
    r->replica = calloc((size_t)c->conf->groups * CLUSTER_REPLICAS_MAX + 1, sizeof(*r->replica));
    r->backup = calloc((size_t)c->conf->groups * CLUSTER_REPLICAS_MAX + 1, sizeof(*r->backup));
    r->record = calloc(c->conf->hosts, r->record_bytes);
    if (r->host == NULL || r->replica == NULL || r->backup == NULL || r->record == NULL) {
        fprintf(stderr, "tram %s: no memory\n", command);
        running_close(r);
        return CMD_FAILED;
    }
    for (uint32_t h = 0; h < c->conf->hosts; h++)
        r->host[h].elsewhere = !running_is_here(c, h);
    running_sample(r);
    return CMD_DONE;
}

void running_close(struct running *r)
{
    if (r->look)
        mem_close(r->look);
    r->look = NULL;
    free(r->host);
    free(r->replica);
    free(r->backup);
    free(r->record);
    r->record = NULL;
    r->backup = NULL;
    r->host = NULL;
    r->replica = NULL;
}

/* A process keeps its node's lock file locked for life, so a number that was given to another
 * process meanwhile does not mislead. */
static bool is_alive(const struct running *r, const char *host)
{
    char path[PATH_BYTES];
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    snprintf(path, sizeof path, "%s/%s.lock", r->dir, host);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool locked = fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
    close(fd);
    return locked;
}

/* Until two copies are the same: a page changes now and then, and a copy may be torn. */
static bool page_copy(int fd, unsigned char *to, unsigned char *again, size_t bytes)
{
    for (int tries = 0; tries < COPY_TRIES; tries++) {
        if (pread(fd, to, bytes, 0) != (ssize_t)bytes ||
            pread(fd, again, bytes, 0) != (ssize_t)bytes)
            return false;
        if (memcmp(to, again, bytes) == 0)
            return true;
    }
    return true; /* its numbers are of different moments, no more */
}

/* It is read, and not mapped: whoever shortens the file would end who has it mapped. */
static void *page_take(const struct running *r, const char *host, size_t *bytes)
{
    char path[PATH_BYTES];
    struct stat st;
    unsigned char *p = NULL;

    snprintf(path, sizeof path, "%s/%s.page", r->dir, host);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= PAGE_BYTES_MAX && (p = malloc(2 * (size_t)st.st_size)) != NULL) {
        *bytes = (size_t)st.st_size;
        if (!page_copy(fd, p, p + *bytes, *bytes)) {
            free(p);
            p = NULL;
        }
    }
    close(fd);
    return p;
}

static void replica_read(struct running *r, uint32_t host, const struct api_page_replica *p)
{
    const struct cluster *f = r->cluster->conf;
    uint64_t group = p->group, rank = p->rank;

    /* A host that runs with another version of the file. */
    if (group >= f->groups || rank >= f->group[group].replicas ||
        f->group[group].replica[rank] != host)
        return;
    r->replica[group * CLUSTER_REPLICAS_MAX + rank] = (struct tram_replica_stats){
        .group = (uint32_t)group,
        .rank = (uint32_t)rank,
        .role = (enum tram_role)p->role,
        .leader = (uint32_t)p->leader,
        .ballot = p->ballot,
        .applied = p->applied,
        .commit = p->commit,
        .tail = p->tail,
        .attached = (uint32_t)p->attached,
        .behind = p->behind,
        .delivered = p->delivered,
        .terms = p->terms,
        .muted = (uint32_t)p->muted,
        .kept = p->kept,
        .unkept = p->unkept,
        .lacks = p->lacks,
        .lacks_from = p->lacks_from,
        .lacks_to = p->lacks_to,
        .stands = p->stands,
        .restored_percent = (uint32_t)p->restored_percent,
    };
    /* Acquire, in this order: pairs with the releases of api_page_show_backup. */
    struct api_page_backup *b = &r->backup[group * CLUSTER_REPLICAS_MAX + rank];
    b->id[0] = atomic_load_explicit(&p->backup[0], memory_order_acquire);
    b->id[1] = atomic_load_explicit(&p->backup[1], memory_order_acquire);
    b->phase = atomic_load_explicit(&p->backup_phase, memory_order_acquire);
    b->bytes = p->backup_bytes;
    b->delivered = p->backup_delivered;
    for (uint32_t i = 0; i < TRAM_WAITS; i++)
        r->replica[group * CLUSTER_REPLICAS_MAX + rank].waits[i] = p->waits[i];
    for (uint32_t q = 0; q < TRAM_REPLICAS_MAX; q++)
        r->replica[group * CLUSTER_REPLICAS_MAX + rank].detached_ms[q] =
            (uint32_t)p->detached_ms[q];
}

static void disk_read(struct running_host *host, const struct api_page_disk *p)
{
    host->durable = p->durable;
    host->disk = (struct tram_disk_stats){.state = (enum tram_disk_state)p->state,
                                          .restored_percent = (uint32_t)p->restored_percent,
                                          .journal_bytes = p->journal_bytes,
                                          .journal_bytes_max = p->journal_bytes_max,
                                          .flush_p50_ns = p->flush_p50_ns,
                                          .flush_p99_ns = p->flush_p99_ns,
                                          .waiting_bytes = p->waiting_bytes,
                                          .writes = p->writes,
                                          .written_bytes = p->written_bytes};
}

static struct group_page_record *record_of(const struct running *r, uint32_t h)
{
    return (struct group_page_record *)(void *)(r->record + h * r->record_bytes);
}

static bool member_read(struct running *r, uint32_t h, const struct group_page *p, size_t bytes,
                        uint64_t *updated_ns)
{
    if (bytes < sizeof(*p))
        return false;
    *updated_ns = atomic_load_explicit(&p->updated_ns, memory_order_acquire);
    uint32_t cells = cluster_cells(r->cluster->conf);
    if (!group_page_read(p, bytes, cells, record_of(r, h)))
        return false;
    const struct group_page_disk *disk = group_page_disk(record_of(r, h), cells);
    r->host[h].pid = (pid_t)p->pid;
    r->host[h].life = (uint32_t)p->life;
    r->host[h].replicas = 1; /* it shows something */
    r->host[h].durable = disk->there;
    r->host[h].disk = disk->stats;
    return true;
}

/* True if it is one, and was filled. */
static bool page_read(struct running *r, uint32_t h, const void *page, size_t bytes,
                      uint64_t *updated_ns)
{
    const struct api_page *p = page;

    if (r->cluster->conf->protocol == CLUSTER_GROUP)
        return member_read(r, h, page, bytes, updated_ns);
    if (bytes < sizeof(*p))
        return false;
    uint64_t room = (bytes - sizeof(*p)) / sizeof(p->replica[0]), hosts = p->hosts;
    /* Acquire: pairs with the release of the host's page_fill. */
    *updated_ns = atomic_load_explicit(&p->updated_ns, memory_order_acquire);
    if (p->magic != PAGE_MAGIC || p->replicas > room || hosts > CLUSTER_HOSTS_MAX ||
        api_page_bytes((uint32_t)p->replicas, (uint32_t)hosts) > bytes)
        return false;
    r->host[h].pid = (pid_t)p->pid;
    r->host[h].life = (uint32_t)p->life;
    r->host[h].replicas = (uint32_t)p->replicas;
#define READ_(field) r->host[h].door.field = p->door.field;
    TCP_COUNTS_LIST(READ_)
#undef READ_
    disk_read(&r->host[h], &p->disk);
    for (uint64_t i = 0; i < hosts; i++)
        r->host[h].lives[i] =
            (uint32_t)api_page_lives((struct api_page *)(uintptr_t)p, p->replicas)[i];
    for (uint64_t i = 0; i < p->replicas; i++)
        replica_read(r, h, &p->replica[i]);
    return *updated_ns != 0;
}

static void host_sample(struct running *r, uint32_t h)
{
    const char *name = r->cluster->conf->host[h].name;
    size_t bytes = 0;
    uint64_t updated = 0;

    r->host[h] = (struct running_host){.elsewhere = r->host[h].elsewhere};
    bool alive = is_alive(r, name);
    void *p = page_take(r, name, &bytes);
    if (alive)
        r->host[h].state = RUNNING_STARTING;
    if (p == NULL)
        return;
    if (page_read(r, h, p, bytes, &updated) && alive)
        r->host[h].state = r->now_ns > updated + SILENT_NS ? RUNNING_SILENT : RUNNING_UP;
    free(p);
}

/* ---- hosts of other machines ---- */

static bool is_elsewhere(void *ctx, uint32_t h)
{
    const struct running *r = ctx;

    return r->host[h].state == RUNNING_ELSEWHERE;
}

static void on_page(void *ctx, uint32_t h, const void *page, size_t bytes)
{
    struct running *r = ctx;
    uint64_t updated;

    r->host[h].asked = true;
    /* That it has answered says that it runs; its clock is another one. */
    r->host[h].state = page_read(r, h, page, bytes, &updated) ? RUNNING_UP : RUNNING_STARTING;
}

/* Those that do not run here, and may elsewhere. */
static void ask_others(struct running *r)
{
    const struct cluster *c = r->cluster->conf;
    const struct say log = say_stderr(SAY_WARN);
    struct err e = {""};
    uint32_t others = 0;

    for (uint32_t h = 0; c->transport != CLUSTER_SHM && h < c->hosts; h++)
        if (r->host[h].state == RUNNING_DOWN && r->host[h].elsewhere) {
            r->host[h].state = RUNNING_ELSEWHERE;
            others++;
        }
    if (others == 0 || r->mute)
        return;
    if (r->look == NULL && api_look_open(r->cluster, &log, &r->look, &e) < 0) {
        say_warn(&log, "hosts of other machines cannot be asked: %s", e.text);
        r->mute = true;
        return;
    }
    far_look(r->look, LOOK_NS, is_elsewhere, on_page, r);
    for (uint32_t h = 0; h < c->hosts; h++)
        if (r->host[h].state == RUNNING_ELSEWHERE)
            r->host[h].state = RUNNING_DOWN;
}

void running_sample(struct running *r)
{
    r->now_ns = clock_now_ns();
    memset(r->backup, 0,
           (size_t)r->cluster->conf->groups * CLUSTER_REPLICAS_MAX * sizeof(*r->backup));
    memset(r->replica, 0,
           (size_t)r->cluster->conf->groups * CLUSTER_REPLICAS_MAX * sizeof(*r->replica));
    memset(r->record, 0, r->cluster->conf->hosts * r->record_bytes);
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++)
        host_sample(r, h);
    ask_others(r);
}

/* ---- questions ---- */

const struct tram_replica_stats *running_replica(const struct running *r, uint32_t group,
                                                 uint32_t rank)
{
    return &r->replica[(size_t)group * CLUSTER_REPLICAS_MAX + rank];
}

const struct api_page_backup *running_backup(const struct running *r, uint32_t group, uint32_t rank)
{
    return &r->backup[(size_t)group * CLUSTER_REPLICAS_MAX + rank];
}

uint32_t running_host_of(const struct running *r, uint32_t group, uint32_t rank)
{
    return r->cluster->conf->group[group].replica[rank];
}

uint32_t running_replicas(const struct running *r, uint32_t group)
{
    return r->cluster->conf->group[group].replicas;
}

uint32_t running_members(const struct running *r, uint32_t group)
{
    return running_replicas(r, group) + r->cluster->conf->group[group].memories;
}

int running_leader(const struct running *r, uint32_t group)
{
    int best = -1;

    for (uint32_t q = 0; q < running_replicas(r, group); q++) {
        const struct tram_replica_stats *s = running_replica(r, group, q);
        if (s->role != TRAM_LEADER || r->host[running_host_of(r, group, q)].state != RUNNING_UP)
            continue;
        /* One that was deposed and has not noticed has the lower ballot. */
        if (best < 0 || s->ballot > running_replica(r, group, (uint32_t)best)->ballot)
            best = (int)q;
    }
    return best;
}

struct running_text running_not(const struct tram_cluster *c)
{
    struct running_text out;
    char dir[RUNNING_DIR_BYTES], other[RUNNING_TEXT_BYTES / 2] = "";
    struct err e;

    if (api_directory(c, dir, sizeof dir, &e) == 0)
        namesake_describe(dir, c->conf->name, other, sizeof other);
    snprintf(out.s, sizeof out.s, "is running%s; %s starts them%s",
             c->conf->transport == CLUSTER_SHM ? "" : " on this machine",
             c->conf->transport == CLUSTER_SHM ? "`tram up`" : "`tram up` or `tram host`", other);
    return out;
}

uint32_t running_hosts_alive(const struct running *r)
{
    uint32_t n = 0;

    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++)
        n += r->host[h].state != RUNNING_DOWN;
    return n;
}

const struct group_page_record *running_member(const struct running *r, uint32_t host)
{
    return r->host[host].replicas > 0 ? record_of(r, host) : NULL;
}

int running_newest(const struct running *r)
{
    int best = -1;

    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++) {
        const struct group_page_record *m = running_member(r, h);
        if (m == NULL || r->host[h].state != RUNNING_UP || !m->in_view)
            continue;
        if (best < 0 || m->vid > record_of(r, (uint32_t)best)->vid)
            best = (int)h;
    }
    return best;
}

bool running_all_in_view(const struct running *r)
{
    int best = running_newest(r);

    if (best < 0 || !record_of(r, (uint32_t)best)->adequate)
        return false;
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++)
        if (r->host[h].state == RUNNING_UP && !in_set(record_of(r, (uint32_t)best)->members, h))
            return false;
    return true;
}

static bool all_in_view(const struct running *r)
{
    for (uint32_t h = 0; h < r->cluster->conf->hosts; h++)
        if (r->host[h].state != RUNNING_UP)
            return false;
    return running_all_in_view(r);
}

bool running_all_led(const struct running *r)
{
    if (r->cluster->conf->protocol == CLUSTER_GROUP)
        return running_all_in_view(r);
    for (uint32_t g = 0; g < r->cluster->conf->groups; g++)
        if (running_leader(r, g) < 0)
            return false;
    return true;
}

bool running_all_attached(const struct running *r)
{
    if (r->cluster->conf->protocol == CLUSTER_GROUP)
        return all_in_view(r);
    for (uint32_t g = 0; g < r->cluster->conf->groups; g++) {
        int q = running_leader(r, g);
        if (q < 0 || running_replica(r, g, (uint32_t)q)->attached < running_members(r, g))
            return false;
        for (uint32_t i = 0; i < running_replicas(r, g); i++)
            if (r->host[running_host_of(r, g, i)].state != RUNNING_UP ||
                running_replica(r, g, i)->behind)
                return false;
    }
    return true;
}

const char *running_state_name(enum running_state s)
{
    static const char *const name[] = {"down", "starting", "silent", "up", "elsewhere"};

    return name[s];
}

/* ---- commands that look ---- */

void running_pause(uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

bool running_until(struct running *r, bool (*holds)(const struct running *), uint64_t ms)
{
    for (uint64_t until = r->now_ns + ms * UINT64_C(1000000); !holds(r) && r->now_ns < until;) {
        running_pause(LOOK_MS);
        running_sample(r);
    }
    return holds(r);
}

int running_look(const struct running_args *a, const char *command,
                 int (*look)(const void *args, struct running *), const void *args)
{
    struct tram_cluster *c;
    struct running r = {0};

    int code = running_load(a, command, &c);
    if (code != CMD_DONE)
        return code;
    code = running_open(&r, c, command);
    if (code == CMD_DONE)
        code = look(args, &r);
    running_close(&r);
    tram_cluster_free(c);
    return code;
}

int running_nobody(const struct running *r, const char *command)
{
    fprintf(stderr, "tram %s: no host of cluster '%s' %s\n", command, r->cluster->conf->name,
            running_not(r->cluster).s);
    return CMD_FAILED;
}
