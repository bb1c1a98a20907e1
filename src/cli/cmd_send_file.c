/* tram send-file: a member that sends a file to all other members of its cell, or that writes what is sent to a directory.
 *
 * The file goes as a sequence of ordered messages, so that no more of it is under way than large_window of them:
 *
 *     BEGIN name bytes | PART offset bytes ... | ... | END digest | BYE
 *
 * Receivers write each part where it belongs, and hash in order. When END comes, and what they have hashed is its digest (BLAKE2b-256), the
 * file gets its name and their column says so. The sender waits for those who were there from the beginning and still are. */
#include "api/api.h"
#include "base/clock.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/running.h"
#include "conf/value.h"
#include "tram/group.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DIGEST_BYTES = 32,
    NAME_BYTES = 256,
    PATH_MAX_BYTES = 4096,
    PART_MOST = 4 << 20,
    QUEUE_PARTS = 32
};
enum { PART_BEGIN = 0x6d617266, PART_DATA, PART_END, PART_BYE };
enum { COLUMN_HAS, COLUMN_VERDICT }; /* bytes written; 1: it is right, 2: it is not */

#define SECOND_NS UINT64_C(1000000000)

struct part {
    uint64_t kind, offset, bytes;
};

/* A part on its way to the disk. */
struct queued {
    unsigned char *data;
    uint64_t offset, bytes;
};

struct transfer {
    const char *host, *file, *to, *cell_name;
    uint32_t members; /* for how many the sender waits; 0: all who may be in the cell */
    bool quiet;
    struct tram_group *group;
    uint32_t cell;
    uint64_t began_ns, told_ns;

    /* The file, and how far it is. */
    char path[PATH_MAX_BYTES], part_path[PATH_MAX_BYTES + 8], name[NAME_BYTES];
    int fd;
    uint64_t bytes, done;
    crypto_generichash_state hash;
    unsigned char digest[DIGEST_BYTES];

    /* A receiver. */
    uint32_t sender;
    uint64_t sender_life;
    bool comes, ended, right, over; /* over: nothing more is to be done */
    const char *failure;

    /* Under the lock, but `thread`. */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct queued queue[QUEUE_PARTS];
    uint64_t given, taken, written; /* parts; bytes */
    bool no_more;
    const char *write_failure;
};

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static int complain(const struct transfer *t, const char *text)
{
    fprintf(stderr, "tram send-file: %s: %s\n", t->host, text);
    return CMD_FAILED;
}

/* ---- showing ---- */

static void show(struct transfer *t, uint64_t done, bool now)
{
    uint64_t ns = clock_now_ns(), took = ns - t->began_ns;
    if (t->quiet || (!now && ns - t->told_ns < SECOND_NS) || (now && took < SECOND_NS))
        return;
    t->told_ns = ns;
    double rate = (double)done / ((double)took / 1e9);
    fprintf(stderr, "%s: %s of %s of %s, %s/s", t->host, value_size_about(done).s,
            value_size_about(t->bytes).s, t->name, value_size_about((uint64_t)rate).s);
    if (done < t->bytes && rate > 0)
        fprintf(stderr, ", %.0f s left", (double)(t->bytes - done) / rate);
    fputc('\n', stderr);
}

/* ---- receiving ---- */

static void fail(struct transfer *t, const char *why)
{
    if (t->failure == NULL)
        t->failure = why;
    tram_column_set(t->group, t->cell, COLUMN_VERDICT, 2);
}

/* All that came is written. */
static void judge(struct transfer *t)
{
    unsigned char digest[DIGEST_BYTES];
    crypto_generichash_final(&t->hash, digest, sizeof digest);
    if (memcmp(digest, t->digest, DIGEST_BYTES) != 0) {
        fail(t, "what came has another digest than what was sent");
        return;
    }
    if (rename(t->part_path, t->path) != 0) {
        fail(t, strerror(errno));
        return;
    }
    t->right = true;
    show(t, t->done, true);
    tram_column_set(t->group, t->cell, COLUMN_VERDICT, 1);
}

/* A thread of its own hashes and writes, since a disk may take long, and a member that is not stepped is put out. What waits for it is bounded;
 * beyond that this host waits too, as one that is slow. */
static const char *write_part(struct transfer *t, const struct queued *q)
{
    crypto_generichash_update(&t->hash, q->data, q->bytes);
    for (uint64_t at = 0; at < q->bytes;) {
        ssize_t n = pwrite(t->fd, q->data + at, q->bytes - at, (off_t)(q->offset + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return strerror(errno);
        at += (uint64_t)n;
    }
    return NULL;
}

static void *writer(void *ctx)
{
    struct transfer *t = ctx;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->taken == t->given && !t->no_more)
            pthread_cond_wait(&t->moved, &t->lock);
        if (t->taken == t->given)
            break;
        struct queued *q = &t->queue[t->taken % QUEUE_PARTS];
        pthread_mutex_unlock(&t->lock);
        const char *why = write_part(t, q);
        free(q->data);
        pthread_mutex_lock(&t->lock);
        t->written += q->bytes;
        t->write_failure = t->write_failure ? t->write_failure : why;
        t->taken++;
        pthread_cond_signal(&t->moved);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void take_begin(struct transfer *t, const struct part *p, const struct tram_item *m)
{
    uint64_t chars = m->bytes - sizeof(*p);
    if (t->comes || chars == 0 || chars >= NAME_BYTES)
        return;
    memcpy(t->name, p + 1, chars);
    t->name[chars] = '\0';
    if (strchr(t->name, '/') || t->name[0] == '.') {
        fail(t, "the sender's name for the file is none of a file in a directory");
        return;
    }
    snprintf(t->path, sizeof t->path, "%s/%s", t->to, t->name);
    snprintf(t->part_path, sizeof t->part_path, "%s.part", t->path);
    t->fd = open(t->part_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (t->fd < 0) {
        fail(t, strerror(errno));
        return;
    }
    crypto_generichash_init(&t->hash, NULL, 0, DIGEST_BYTES);
    t->comes = pthread_create(&t->thread, NULL, writer, t) == 0;
    if (!t->comes)
        fail(t, "no thread to write the file");
    t->bytes = p->bytes;
    t->sender = m->sender;
    t->began_ns = t->told_ns = clock_now_ns();
    t->sender_life = tram_group_view(t->group)->life[m->sender];
}

static void give_to_writer(struct transfer *t, const struct queued *q)
{
    pthread_mutex_lock(&t->lock);
    while (t->given - t->taken == QUEUE_PARTS)
        pthread_cond_wait(&t->moved, &t->lock);
    t->queue[t->given++ % QUEUE_PARTS] = *q;
    pthread_cond_signal(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

static void look_at_writer(struct transfer *t)
{
    pthread_mutex_lock(&t->lock);
    uint64_t written = t->written;
    const char *why = t->write_failure;
    pthread_mutex_unlock(&t->lock);
    if (why)
        fail(t, why);
    tram_column_set(t->group, t->cell, COLUMN_HAS, written);
    show(t, written, false);
    if (t->ended && !t->right && !t->failure && written == t->done)
        judge(t);
}

static void end_writer(struct transfer *t)
{
    if (!t->comes)
        return;
    pthread_mutex_lock(&t->lock);
    t->no_more = true;
    pthread_cond_signal(&t->moved);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
}

static void take_data(struct transfer *t, const struct part *p, uint64_t bytes)
{
    struct queued q = {.data = malloc(bytes ? bytes : 1), .offset = t->done, .bytes = bytes};
    if (p->offset != t->done || q.data == NULL) {
        fail(t, q.data ? "a part of the file is missing" : "no memory for a part of the file");
        free(q.data);
        return;
    }
    memcpy(q.data, p + 1, bytes);
    t->done += bytes;
    give_to_writer(t, &q);
}

static void take_end(struct transfer *t, const struct part *p, uint64_t bytes)
{
    t->ended = bytes == DIGEST_BYTES && t->done == t->bytes;
    if (t->ended)
        memcpy(t->digest, p + 1, DIGEST_BYTES);
    else
        fail(t, "what came is not as long as what was sent");
}

static void on_deliver(void *ctx, uint32_t cell, uint64_t view, const struct tram_item *m,
                       uint32_t count)
{
    struct transfer *t = ctx;
    (void)view;
    for (uint32_t i = 0; i < count && t->to && cell == t->cell && !t->failure; i++) {
        const struct part *p = m[i].data;
        uint64_t bytes = m[i].bytes - sizeof(*p);
        if (m[i].bytes < sizeof(*p) || (t->comes && m[i].sender != t->sender))
            continue;
        if (p->kind == PART_BEGIN)
            take_begin(t, p, &m[i]);
        else if (!t->comes)
            fail(t, "this host came when the file was on its way already; send it again");
        else if (p->kind == PART_DATA)
            take_data(t, p, bytes);
        else if (p->kind == PART_END)
            take_end(t, p, bytes);
        else if (p->kind == PART_BYE)
            t->over = true;
    }
}

static void on_view(void *ctx, const struct tram_view *before, const struct tram_view *now)
{
    struct transfer *t = ctx;
    (void)before;
    if (now == NULL && !t->over && (t->file ? t->began_ns > 0 : t->comes && !t->right))
        fail(t, "this host was put out by the others; is its machine overloaded?");
    else if (now && !t->file && t->comes && !t->right && now->life[t->sender] != t->sender_life)
        fail(t, "the sender is gone");
    t->over |= now && !t->file && t->comes && now->life[t->sender] != t->sender_life;
}

static int step(struct transfer *t)
{
    struct tram_error e = {""};
    return tram_group_step(t->group, &e) < 0 ? complain(t, e.text) : CMD_DONE;
}

static void say_digest(const struct transfer *t, const char *what, const char *path)
{
    char hex[2 * DIGEST_BYTES + 1];
    sodium_bin2hex(hex, sizeof hex, t->digest, DIGEST_BYTES);
    printf("%s  %s (%s)\n", hex, path, what);
    fflush(stdout);
}

static int receive(struct transfer *t)
{
    int code = CMD_DONE;
    while (code == CMD_DONE && !asked_to_stop && !t->over && !t->failure) {
        code = step(t);
        if (t->comes)
            look_at_writer(t);
    }
    end_writer(t);
    if (t->fd >= 0) {
        if (fsync(t->fd) != 0 && !t->failure)
            t->failure = strerror(errno);
        close(t->fd);
    }
    if (t->comes && !t->right)
        unlink(t->part_path);
    if (code == CMD_DONE && t->failure)
        code = complain(t, t->failure);
    if (t->right)
        say_digest(t, "verified", t->path);
    return t->right ? code : CMD_FAILED;
}

/* ---- sending ---- */

/* Room for a part, as soon as there is some; NULL: it cannot go on. */
static struct part *room_for(struct transfer *t, uint32_t bytes)
{
    while (!asked_to_stop && !t->failure) {
        struct part *p = tram_reserve(t->group, t->cell, (uint32_t)sizeof(*p) + bytes);
        if (p)
            return p;
        if (step(t) != CMD_DONE)
            return NULL;
        show(t, tram_column_min(t->group, t->cell, COLUMN_HAS), false);
    }
    return NULL;
}

static bool send_part(struct transfer *t, uint64_t kind, const void *data, uint32_t bytes)
{
    struct part *p = room_for(t, bytes);
    if (p == NULL)
        return false;
    *p = (struct part){.kind = kind, .bytes = t->bytes};
    memcpy(p + 1, data, bytes);
    tram_commit(t->group, t->cell, p, (uint32_t)sizeof(*p) + bytes);
    return true;
}

/* Reads the next part in place. */
static bool send_data(struct transfer *t, uint32_t most)
{
    uint32_t bytes = (uint32_t)(t->bytes - t->done < most ? t->bytes - t->done : most), at = 0;
    struct part *p = room_for(t, bytes);
    if (p == NULL)
        return false;
    for (; at < bytes;) {
        ssize_t n = pread(t->fd, (char *)(p + 1) + at, bytes - at, (off_t)(t->done + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            tram_release(t->group, t->cell, p);
            t->failure = n == 0 ? "the file has become shorter" : strerror(errno);
            return false;
        }
        at += (uint32_t)n;
    }
    crypto_generichash_update(&t->hash, (const unsigned char *)(p + 1), bytes);
    *p = (struct part){.kind = PART_DATA, .offset = t->done, .bytes = t->bytes};
    tram_commit(t->group, t->cell, p, (uint32_t)sizeof(*p) + bytes);
    t->done += bytes;
    return step(t) == CMD_DONE;
}

static uint32_t set_size(uint64_t set)
{
    return (uint32_t)__builtin_popcountll(set);
}

/* Until those are there who are to get it. */
static bool wait_for_members(struct transfer *t, uint32_t wanted)
{
    uint64_t told_ns = 0;
    while (!asked_to_stop) {
        const struct tram_view *v = tram_group_view(t->group);
        uint32_t there = v && v->adequate ? set_size(v->cell[t->cell].members) : 0;
        if (there >= wanted)
            return true;
        if (!t->quiet && clock_now_ns() - told_ns > 5 * SECOND_NS) {
            told_ns = clock_now_ns();
            fprintf(stderr, "%s: waits for members of cell %s: %u of %u\n", t->host, t->cell_name,
                    there, wanted);
        }
        if (step(t) != CMD_DONE)
            return false;
    }
    return false;
}

/* Has everybody of these who is still there said how it went? */
static bool all_have_said(const struct transfer *t, const struct tram_view *v, const uint64_t *life)
{
    for (uint32_t h = 0; h < v->hosts; h++)
        if (life[h] && h != t->sender && v->life[h] == life[h] &&
            tram_column_get(t->group, t->cell, COLUMN_VERDICT, h) == 0)
            return false;
    return true;
}

static int report(const struct transfer *t, const struct tram_view *v, const uint64_t *life)
{
    int code = CMD_DONE;
    for (uint32_t h = 0; h < v->hosts; h++) {
        if (life[h] == 0 || h == t->sender)
            continue;
        bool there = v->life[h] == life[h];
        uint64_t verdict = there ? tram_column_get(t->group, t->cell, COLUMN_VERDICT, h) : 0;
        const char *what = !there         ? "is gone"
                           : verdict == 1 ? "has it, verified"
                                          : "failed to write it";
        if (!t->quiet || verdict != 1)
            fprintf(stderr, "%s: %s %s\n", t->host, v->host_name[h], what);
        code = verdict == 1 ? code : CMD_FAILED;
    }
    return code;
}

static bool send_all(struct transfer *t)
{
    uint32_t most = tram_group_message_max(t->group, t->cell);
    most = (most < PART_MOST ? most : PART_MOST) - (uint32_t)sizeof(struct part);
    t->began_ns = t->told_ns = clock_now_ns();
    crypto_generichash_init(&t->hash, NULL, 0, DIGEST_BYTES);
    tram_column_set(t->group, t->cell, COLUMN_HAS, t->bytes); /* the least is that of a receiver */
    if (!send_part(t, PART_BEGIN, t->name, (uint32_t)strlen(t->name)))
        return false;
    while (t->done < t->bytes)
        if (!send_data(t, most))
            return false;
    crypto_generichash_final(&t->hash, t->digest, sizeof t->digest);
    return send_part(t, PART_END, t->digest, sizeof t->digest);
}

static int send_file(struct transfer *t, uint32_t wanted)
{
    uint64_t life[TRAM_MEMBERS_MAX] = {0};
    if (!wait_for_members(t, t->members ? t->members : wanted))
        return CMD_FAILED;
    const struct tram_view *v = tram_group_view(t->group);
    for (uint32_t h = 0; h < v->hosts; h++)
        life[h] = v->cell[t->cell].members >> h & 1 ? v->life[h] : 0;
    if (!send_all(t))
        return t->failure ? complain(t, t->failure) : CMD_FAILED;
    for (;;) {
        v = tram_group_view(t->group);
        if (v && all_have_said(t, v, life))
            break;
        if (asked_to_stop || step(t) != CMD_DONE)
            return CMD_FAILED;
        if (t->failure)
            return complain(t, t->failure);
        show(t, tram_column_min(t->group, t->cell, COLUMN_HAS), false);
    }
    show(t, t->done, true);
    int code = report(t, v, life);
    say_digest(t, "sent", t->file);
    bool told = send_part(t, PART_BYE, "", 0);
    t->over = true; /* from here on it may be put out, or leave */
    return told ? code : CMD_FAILED;
}

/* ---- the command ---- */

static int open_file(struct transfer *t)
{
    struct stat s;
    char copy[PATH_MAX_BYTES];
    snprintf(copy, sizeof copy, "%s", t->file);
    snprintf(t->name, sizeof t->name, "%s", basename(copy));
    t->fd = open(t->file, O_RDONLY | O_CLOEXEC);
    if (t->fd < 0 || fstat(t->fd, &s) != 0) {
        fprintf(stderr, "tram send-file: %s: %s\n", t->file, strerror(errno));
        return CMD_USAGE;
    }
    if (!S_ISREG(s.st_mode)) {
        fprintf(stderr, "tram send-file: %s is no regular file\n", t->file);
        return CMD_USAGE;
    }
    t->bytes = (uint64_t)s.st_size;
    return CMD_DONE;
}

static int run(struct transfer *t, const struct tram_cluster *c)
{
    struct tram_error e = {""};
    const struct cluster *f = c->conf;
    int cell = t->cell_name ? cluster_cell(f, t->cell_name) : 0;
    uint32_t shard;
    if (cell < 0) {
        fprintf(stderr, "tram send-file: there is no cell '%s'; %s\n", t->cell_name,
                cluster_subgroups_near(f, t->cell_name).s);
        return CMD_USAGE;
    }
    const struct cluster_cell_name name = cluster_cell_name(f, (uint32_t)cell);
    const struct cluster_subgroup *s =
        &f->subgroup[cluster_cell_subgroup(f, (uint32_t)cell, &shard)];
    t->cell = (uint32_t)cell;
    t->cell_name = name.s;
    struct tram_group_options o = {
        .host = t->host, .machine = {.deliver = on_deliver, .view = on_view}, .ctx = t};
    if (!t->quiet)
        o.log = api_log_stderr(TRAM_LOG_WARNING);
    if (tram_group_open(c, &o, &t->group, &e) < 0)
        return complain(t, e.text);
    t->sender = (uint32_t)cluster_host(f, t->host);
    int code =
        t->file ? send_file(t, s->members_max ? s->members_max : set_size(s->hosts)) : receive(t);
    tram_group_close(t->group);
    return code;
}

static int start(struct transfer *t, const struct running_args *r)
{
    struct tram_cluster *c;
    struct sigaction on = {.sa_handler = on_signal};
    if (t->host == NULL)
        return args_bad("send-file", "--host", "which host of the cluster file is this?");
    if ((t->file == NULL) == (t->to == NULL))
        return args_bad("send-file", "--to",
                        "either a FILE to send, or a directory for what others send");
    t->fd = -1;
    int code = t->file ? open_file(t) : CMD_DONE;
    if (code == CMD_DONE)
        code = running_load(r, "send-file", &c);
    if (code != CMD_DONE)
        return code;
    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
    if (c->conf->protocol != CLUSTER_GROUP) {
        fprintf(stderr,
                "tram send-file: %s has protocol: %s; files are sent under protocol: group\n",
                running_file(r), cluster_protocol_name(c->conf->protocol));
        code = CMD_USAGE;
    } else {
        code = run(t, c);
    }
    tram_cluster_free(c);
    return code;
}

int cmd_send_file(int argc, char **argv)
{
    struct transfer t = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    struct running_args running = {0};
    const struct args_word words[] = {{"FILE", &t.file, NULL}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(running),
        {"--host", "NAME", "which host of the cluster file this process is", .text = &t.host,
         .needs = "a host"},
        {"--to", "DIR", "receive: write what is sent there", .text = &t.to, .needs = "a directory"},
        {"--cell", "CELL", "in which cell (default the first)", .text = &t.cell_name,
         .needs = "a cell"},
        {"--members", "N",
         "begin when so many members are there, the sender with them (default all that may be)",
         .number32 = &t.members, .min = 1, .max = TRAM_MEMBERS_MAX},
        {"--quiet", NULL, "do not show how far it is", .flag = &t.quiet},
        {0},
    };
    const struct args_command command = {
        .name = "send-file",
        .usage = "FILE --host NAME [OPTIONS], or --to DIR --host NAME [OPTIONS]",
        .about = "Sends a file to all members of a cell, under protocol group. Each host of the "
                 "cell runs this command: one with the FILE, the others with a directory to "
                 "which it is written. Members pass on to each other what they have, so eight get "
                 "it nearly as fast as one. At the end each verifies the digest (BLAKE2b-256, as "
                 "`b2sum -l 256` shows it). A receiver that dies does not stop the others.",
        .options = options,
        .words = words,
        .too_many = "a second file; send them one after the other",
        .more = "Exit code: 0 all who were there from the beginning have it, 1 some have not, or "
                "it did not come, 2 wrong usage.",
    };
    int code = args_read(&command, argc, argv);
    return code == ARGS_GO ? start(&t, &running) : code;
}
