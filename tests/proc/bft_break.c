/* Two correct hosts, and processes of other uids that do what they like to them: a third host of the cluster that lies, its client, and a stranger. Files,
 * sockets, descriptors and memory are attacked by hand, as mem/shm/trust.h has them. Whatever is tried is refused; and the two go on writing
 * to each other, with the descriptors that they had. Takes root, to be several users. */
#include "../shm_raw.h"
#include "../skip.h"

#include "base/rng.h"

#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cmocka.h>

enum {
    LIAR = 2, /* host h2, whose part the attackers play */
    LIAR_UID = 61003,
    STRANGER_UID = 61099,
    VERDICT_BYTES = 4096,
    DESCRIPTORS_MORE = 24, /* that a host may have after an attack */
    CONNECTS = 1000,
    MESSAGES = 30000,
    NOISE = 800,
    DEAF_S = 5,
};

#define GROWN_KIB_MAX (256 << 10)

static const int all_seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static char home[128];
static uint64_t word_now;
static unsigned descriptors[HOSTS];

/* ---- the two that are correct ---- */

static unsigned descriptors_of(pid_t pid)
{
    char path[64];
    unsigned count = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    must(d != NULL, "descriptors of a host");
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static long resident_kib(pid_t pid)
{
    char path[64], line[128];
    long kib = -1;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

/* They live, hear each other, and have not been made to keep much. */
static void expect_well(void)
{
    uint64_t word;

    for (unsigned i = 0; i < LIAR; i++) {
        int status;
        assert_int_equal(waitpid(kids[i].pid, &status, WNOHANG), 0);
        assert_int_equal(kid_set(&kids[i], 1 - i, 2, ++word_now, 0), MEM_DONE);
        assert_int_equal(kid_read(&kids[1 - i], 1 - i, i, 2, &word), MEM_DONE);
        assert_int_equal(word, word_now);
        if (descriptors_of(kids[i].pid) > descriptors[i] + DESCRIPTORS_MORE)
            fail_msg("h%u has %u descriptors, and had %u", i, descriptors_of(kids[i].pid),
                     descriptors[i]);
        assert_true(resident_kib(kids[i].pid) < GROWN_KIB_MAX);
    }
}

static int setup(void **state)
{
    cluster_setup(state);
    fixture_hostile = true;
    snprintf(home, sizeof home, "%s/tramway-all-test", fixture_dir);
    must(chmod(fixture_dir, 0755) == 0, "chmod");
    return 0;
}

static int teardown(void **state)
{
    char command[256];

    (void)state;
    for (unsigned i = 0; i < HOSTS; i++)
        kid_kill(&kids[i]);
    snprintf(command, sizeof command, "rm -rf '%s'", fixture_dir);
    must(system(command) == 0, "rm");
    return 0;
}

static void start(void)
{
    struct shm_options o = fixture_options(0);
    struct err e = {""};

    if (shm_prepare(&o, &e) < 0)
        fail_msg("prepare: %s", e.text);
    for (unsigned i = 0; i < LIAR; i++)
        kid_start(&kids[i], i);
    for (unsigned i = 0; i < LIAR; i++)
        assert_true(kid_connect(&kids[i], 1 - i));
    for (unsigned i = 0; i < LIAR; i++)
        descriptors[i] = descriptors_of(kids[i].pid);
    expect_well();
}

#define NEEDS_ROOT                                                                                 \
    do {                                                                                           \
        if (geteuid() != 0)                                                                        \
            SKIP("needs root, for processes of several uids");                                     \
        start();                                                                                   \
    } while (0)

/* ---- attackers ---- */

struct attack {
    void (*run)(struct attack *);
    uint32_t uid;
    pid_t victim;
    int fd;                   /* what it is given, or -1 */
    char text[VERDICT_BYTES]; /* what was not refused */
};

static void __attribute__((format(printf, 2, 3)))
got_through(struct attack *a, const char *fmt, ...)
{
    size_t used = strlen(a->text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(a->text + used, sizeof a->text - used, fmt, args);
    va_end(args);
    strncat(a->text, "; ", sizeof a->text - strlen(a->text) - 1);
}

static int attack_main(void *arg)
{
    struct attack *a = arg;

    become(a->uid);
    a->run(a);
    return 0;
}

static void attack_with(void (*run)(struct attack *), uint32_t uid, int fd)
{
    struct attack *a = shared_page(sizeof *a);
    int status;

    *a = (struct attack){.run = run, .uid = uid, .victim = kids[0].pid, .fd = fd};
    waitpid(spawn(attack_main, a), &status, 0);
    if (status != 0)
        fail_msg("the attacker ended with %d", status);
    assert_string_equal(a->text, "");
    munmap(a, sizeof *a);
    expect_well();
}

static void attack(void (*run)(struct attack *), uint32_t uid)
{
    attack_with(run, uid, -1);
}

static int call(const char *host)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    must(fd >= 0, "socket");
    snprintf(a.sun_path, sizeof a.sun_path, "%.80s/%s/%s.sock", home, host, host);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Reads until the other side closes. What it says against us, or "". False: it does not close. */
static bool hung_up(int fd, char *text, size_t room)
{
    struct shm_message m;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int got;

    text[0] = 0;
    while (poll(&p, 1, DEAF_S * 1000) == 1) {
        if (!raw_receive(fd, &m, &got))
            return true;
        if (got >= 0)
            close(got);
        if (m.type == SHM_REFUSE)
            snprintf(text, room, "%.*s", (int)sizeof m.text - 1, m.text);
    }
    return false;
}

/* A connection as the host that lies is entitled to, after hellos; -1: it is not let in. */
static int enter(void)
{
    struct shm_message m = raw_hello(LIAR, "h2", SHM_HOST);
    int fd = call("h0"), got;

    if (fd < 0 || !raw_send(fd, &m, sizeof m, NULL, 0))
        return -1;
    do {
        if (!raw_receive(fd, &m, &got))
            return -1;
        if (got >= 0)
            close(got);
    } while (m.type != SHM_READY);
    return fd;
}

/* Sends one descriptor as an item; true: it hangs up. */
static bool refused_item(enum item_kind kind, int given, const char *what, struct attack *a)
{
    struct shm_message m = raw_hello(LIAR, "h2", SHM_HOST);
    char text[256];
    int fd = enter();

    m.type = SHM_ITEM;
    m.kind = kind;
    m.parts = 1;
    if (fd < 0) {
        got_through(a, "%s: not let in", what);
        return false;
    }
    bool closed = !raw_send(fd, &m, sizeof m, &given, given >= 0) || hung_up(fd, text, sizeof text);
    if (!closed)
        got_through(a, "%s was taken", what);
    close(fd);
    return closed;
}

/* ---- files ---- */

static void files(struct attack *a)
{
    static const char *const named[] = {"h0/h0.lock", "h0/h0.sock", "h0", "beginning"};
    struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char path[256], other[256];

    for (unsigned i = 0; i < sizeof named / sizeof *named; i++) {
        snprintf(path, sizeof path, "%s/%s", home, named[i]);
        snprintf(other, sizeof other, "%s/%s.gone", home, named[i]);
        if (truncate(path, 0) == 0)
            got_through(a, "truncate %s", named[i]);
        if (unlink(path) == 0 || rmdir(path) == 0)
            got_through(a, "remove %s", named[i]);
        if (rename(path, other) == 0)
            got_through(a, "rename %s", named[i]);
        if (chmod(path, 0777) == 0 || chown(path, a->uid, (gid_t)-1) == 0)
            got_through(a, "take %s", named[i]);
        int fd = open(path, O_RDWR | O_NONBLOCK);
        if (fd >= 0)
            got_through(a, "open %s for writing", named[i]);
        fd = open(path, O_RDONLY | O_NONBLOCK);
        /* Who could lock the file of a host could keep it from starting again. */
        if (fd >= 0 && strstr(named[i], ".lock") && fcntl(fd, F_OFD_SETLK, &l) == 0)
            got_through(a, "lock %s", named[i]);
        if (fd >= 0)
            close(fd);
    }
    snprintf(path, sizeof path, "%s/h0/new", home);
    if (open(path, O_WRONLY | O_CREAT, 0600) >= 0 || mkdir(path, 0700) == 0)
        got_through(a, "make a file in h0");
    snprintf(path, sizeof path, "%s/h9", home);
    if (mkdir(path, 0700) == 0)
        got_through(a, "make a directory");
}

static void break__files_of_others_are_out_of_reach(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(files, LIAR_UID);
    attack(files, fixture_client.uid);
    attack(files, STRANGER_UID);
    /* The victim can begin again. */
    kid_kill(&kids[0]);
    kid_start(&kids[0], 0);
    assert_int_equal(kids[0].order->life, 1);
}

/* In the liar's own directory there is what must not be followed, waited for or believed. */
static void traps(struct attack *a)
{
    char path[256];

    snprintf(path, sizeof path, "%s/h2/h2.sock", home);
    if (mkfifo(path, 0666) != 0)
        got_through(a, "cannot make a FIFO");
    nap(300000000);
    unlink(path);
    if (symlink("../h1/h1.sock", path) != 0)
        got_through(a, "cannot make a link");
    nap(300000000);
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    nap(300000000);
    close(fd);
    unlink(path);
    /* One that listens, and says nothing. */
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || chmod(path, 0666) != 0 ||
        listen(fd, 1) != 0)
        got_through(a, "cannot listen");
    nap(500000000);
}

static void break__traps_in_its_own_directory_catch_nobody(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(traps, LIAR_UID);
}

/* ---- connections ---- */

static void as_nobody(struct attack *a)
{
    struct shm_message m = raw_hello(LIAR, "h2", SHM_HOST);
    char text[256];
    int got;

    for (int i = 0; i < 50; i++) {
        int fd = call("h0");
        if (fd < 0)
            continue;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        raw_send(fd, &m, sizeof m, NULL, 0);
        if (poll(&p, 1, DEAF_S * 1000) != 1)
            got_through(a, "a stranger is not hung up on");
        else if (raw_receive(fd, &m, &got))
            got_through(a, "a stranger is answered");
        close(fd);
        (void)text;
    }
}

static void as_others(struct attack *a)
{
    struct shm_message hello[] = {
        raw_hello(0, "h0", SHM_HOST),     raw_hello(1, "h1", SHM_HOST),
        raw_hello(200, "c0", SHM_CLIENT), raw_hello(LIAR, "h2", SHM_CLIENT),
        raw_hello(201, "c1", SHM_CLIENT), raw_hello(LIAR, "h1", SHM_HOST)};
    char text[256];

    for (unsigned i = 0; i < sizeof hello / sizeof *hello; i++) {
        int fd = call("h0");
        raw_send(fd, &hello[i], sizeof hello[i], NULL, 0);
        if (fd < 0 || !hung_up(fd, text, sizeof text))
            got_through(a, "it may be %s, node %u", hello[i].name, hello[i].node);
        close(fd);
    }
}

static void noise(struct attack *a)
{
    struct rng r;
    unsigned char bytes[2 * sizeof(struct shm_message)];
    struct shm_message *m = (struct shm_message *)bytes;

    rng_init(&r, a->uid);
    for (int i = 0; i < NOISE; i++) {
        int fd = call("h0");
        if (fd < 0) {
            nap(10000000);
            continue;
        }
        for (int k = 0; k < 4; k++) {
            for (size_t b = 0; b < sizeof bytes; b++)
                bytes[b] = (unsigned char)rng_u64(&r);
            if (k > 0 || rng_below(&r, 2)) {
                *m = raw_hello(LIAR, "h2", SHM_HOST);
                m->type = (uint16_t)rng_below(&r, 12);
                m->kind = (uint32_t)rng_below(&r, 10);
                m->life = (uint32_t)rng_below(&r, 3);
                m->index = (uint32_t)rng_u64(&r) >> rng_below(&r, 32);
                m->parts = (uint32_t)rng_u64(&r) >> rng_below(&r, 32);
                m->node = (uint32_t)rng_below(&r, 5);
            }
            if (!raw_send(fd, bytes, rng_below(&r, 3) ? sizeof *m : rng_below(&r, sizeof bytes),
                          NULL, 0))
                break;
        }
        close(fd);
    }
}

static void floods(struct attack *a)
{
    struct shm_message ready = raw_hello(LIAR, "h2", SHM_HOST);
    int fd[64], n = 0;

    for (int i = 0; i < CONNECTS; i++) {
        int one = call("h0");
        if (one < 0)
            continue;
        if (n < 64)
            fd[n++] = one;
        else
            close(one);
    }
    while (n > 0)
        close(fd[--n]);
    nap(2000000000);
    int in = enter();
    ready.type = SHM_READY;
    for (int i = 0; in >= 0 && i < MESSAGES; i++)
        if (!raw_send(in, &ready, sizeof ready, NULL, 0))
            return;
    if (in >= 0)
        got_through(a, "%d messages were taken", MESSAGES);
}

static void break__strangers_are_hung_up_on(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(as_nobody, STRANGER_UID);
    attack(as_nobody, 65534);
}

static void break__nobody_is_taken_for_another(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(as_others, LIAR_UID);
}

static void break__noise_is_hung_up_on(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(noise, LIAR_UID);
}

static void break__floods_of_connections_and_messages_are_bounded(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(floods, LIAR_UID);
    attack(floods, STRANGER_UID);
}

/* ---- descriptors ---- */

static int memory(size_t bytes, int seals, unsigned more)
{
    int fd = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING | more);

    if (fd < 0)
        return -1;
    must(ftruncate(fd, (off_t)bytes) == 0, "ftruncate");
    must(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0, "seal");
    return fd;
}

/* A segment whose head and first part are as a correct writer would have them, but for what `spoil` does. */
static int segment_with(size_t bytes, int seals, uint64_t head_bytes, uint64_t part_bytes,
                        uint32_t lanes)
{
    int fd = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct segment_head head = {.magic = SHM_SEGMENT_MAGIC, .bytes = head_bytes, .node = LIAR};
    struct part_head part = {.bytes = part_bytes, .lanes = lanes};

    must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "memfd");
    must(pwrite(fd, &head, sizeof head, 0) == sizeof head &&
             pwrite(fd, &part, sizeof part, sizeof head) == sizeof part,
         "pwrite");
    must(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0, "seal");
    return fd;
}

static void memories(struct attack *a)
{
    const int weak = F_SEAL_SHRINK | F_SEAL_GROW;

    refused_item(ITEM_SEGMENT, memory(1 << 16, 0, 0), "memory without seals", a);
    refused_item(ITEM_SEGMENT, segment_with(1 << 16, weak, 1 << 16, 128, 0),
                 "one that may be written", a);
    refused_item(ITEM_SEGMENT, segment_with(1 << 16, all_seals & ~F_SEAL_SHRINK, 1 << 16, 128, 0),
                 "one that may be cut", a);
    refused_item(ITEM_SEGMENT, segment_with(1 << 16, all_seals, 1 << 20, 128, 0),
                 "one that says more", a);
    refused_item(ITEM_SEGMENT, segment_with((size_t)1 << 40, all_seals, UINT64_C(1) << 40, 128, 0),
                 "a terabyte", a);
    refused_item(ITEM_SEGMENT, segment_with(1 << 16, all_seals, 1 << 16, 1 << 20, 0),
                 "a part beyond its end", a);
    refused_item(ITEM_SEGMENT, segment_with(1 << 28, all_seals, 1 << 28, 1 << 28, 1 << 20),
                 "a million lanes", a);
    refused_item(ITEM_BELL, memory(sizeof(struct voice), all_seals, 0), "a voice without its mark",
                 a);
    refused_item(ITEM_BELL, memory(4096, all_seals, 0), "a short voice", a);
    refused_item(ITEM_GRANT, memory(sizeof(struct grant), all_seals, 0), "a grant", a);
    refused_item(ITEM_LIFE, memory(sizeof(struct life), all_seals, 0), "a life", a);
    int huge = memory(2 << 20, all_seals & ~F_SEAL_FUTURE_WRITE, MFD_HUGETLB);
    if (huge >= 0)
        refused_item(ITEM_SEGMENT, huge, "huge pages", a);
}

static void break__memory_that_could_kill_is_not_mapped(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(memories, LIAR_UID);
}

/* What is no memory shuts its sender out, for closing it may hang. */
static void no_memory(struct attack *a)
{
    struct shm_message m = raw_hello(LIAR, "h2", SHM_HOST);
    char text[256], path[256];
    int fds[2];

    snprintf(path, sizeof path, "%s/h2/file", home);
    if (a->fd < 0) {
        must(pipe(fds) == 0, "pipe");
        a->fd = fds[0];
    }
    refused_item(ITEM_SEGMENT, a->fd, "a descriptor of what is no memory", a);
    for (int i = 0; i < 200; i++) {
        int fd = call("h0");
        if (fd < 0)
            continue;
        raw_send(fd, &m, sizeof m, &a->fd, 1);
        if (!hung_up(fd, text, sizeof text))
            got_through(a, "who was shut out is not hung up on");
        close(fd);
    }
    if (enter() >= 0)
        got_through(a, "who was shut out is let in again");
}

static void break__what_is_no_memory_shuts_its_sender_out(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(no_memory, LIAR_UID);
    /* Another one is not. */
    assert_true(kid_connect(&kids[0], 1));
}

static void break__floods_of_descriptors_are_bounded(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack_with(no_memory, LIAR_UID, open("/dev/null", O_RDONLY));
}

/* ---- a file whose every call hangs ---- */

struct fuse_reply {
    struct fuse_out_header out;
    union {
        struct fuse_init_out init;
        struct fuse_entry_out entry;
        struct fuse_open_out open;
        struct fuse_attr_out attr;
    } u;
};

/* Answers what it takes to open the file, and nothing after that. */
static int fuse_serve(void *arg)
{
    const int fd = *(int *)arg;
    static char in[1 << 17];

    for (;;) {
        if (read(fd, in, sizeof in) < 0)
            return 0;
        const struct fuse_in_header *h = (const struct fuse_in_header *)in;
        struct fuse_reply r = {.out = {.unique = h->unique}};
        size_t more = 0;
        const struct fuse_attr file = {.ino = 2, .mode = S_IFREG | 0666, .nlink = 1, .size = 65536};
        switch (h->opcode) {
        case FUSE_INIT:
            r.u.init = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION,
                                              .minor = FUSE_KERNEL_MINOR_VERSION,
                                              .max_write = 4096};
            more = sizeof r.u.init;
            break;
        case FUSE_LOOKUP:
            r.u.entry = (struct fuse_entry_out){
                .nodeid = 2, .attr = file, .entry_valid = 1000, .attr_valid = 1000};
            more = sizeof r.u.entry;
            break;
        case FUSE_GETATTR:
            if (h->nodeid != 1)
                continue;
            r.u.attr = (struct fuse_attr_out){
                .attr_valid = 1000, .attr = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2}};
            more = sizeof r.u.attr;
            break;
        case FUSE_OPEN:
            more = sizeof r.u.open;
            break;
        default:
            continue; /* whoever asked waits */
        }
        r.out.len = (uint32_t)(sizeof r.out + more);
        if (write(fd, &r, r.out.len) < 0 && errno != ENOENT)
            return 0;
    }
}

static void break__a_descriptor_that_hangs_hangs_nobody(void **state)
{
    char where[160], options[128], file[200];
    int fuse = open("/dev/fuse", O_RDWR);

    (void)state;
    if (fuse < 0)
        SKIP("needs root and /dev/fuse");
    snprintf(where, sizeof where, "%s/hangs", fixture_dir);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
             fuse);
    must(mkdir(where, 0755) == 0, "mkdir");
    if (mount("hangs", where, "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        close(fuse);
        SKIP("cannot mount FUSE here");
    }
    pid_t server = spawn(fuse_serve, &fuse);
    close(fuse);
    snprintf(file, sizeof file, "%s/file", where);
    start();
    int hangs = open(file, O_RDONLY); /* after those who are going to be killed have been started */
    if (hangs >= 0) {
        /* Who sends it would hang in closing it as well: it is killed, and with it goes the server. */
        struct attack *a = shared_page(sizeof *a);
        *a = (struct attack){.run = no_memory, .uid = LIAR_UID, .victim = kids[0].pid, .fd = hangs};
        pid_t liar = spawn(attack_main, a);
        for (int i = 0; i < 20; i++) {
            nap(50000000);
            expect_well();
        }
        assert_string_equal(a->text, "");
        /* Its thread for sockets goes on: who comes back is met. */
        kid_kill(&kids[1]);
        kid_start(&kids[1], 1);
        kid_give(&kids[0], (struct kid_order){.verb = KID_CONNECT, .owner = 1});
        assert_int_equal(kid_wait(&kids[0]), MEM_DONE);
        assert_true(kid_connect(&kids[1], 0));
        descriptors[1] = descriptors_of(kids[1].pid);
        kill(liar, SIGKILL);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    umount2(where, MNT_DETACH);
    assert_true(hangs >= 0);
    expect_well();
}

/* ---- memory of others ---- */

static void memory_of_others(struct attack *a)
{
    struct shm_message m = raw_hello(LIAR, "h2", SHM_HOST);
    struct stat st;
    int fd = call("h0"), got, seen = 0;
    char path[64], byte = 1;

    raw_send(fd, &m, sizeof m, NULL, 0);
    do {
        if (!raw_receive(fd, &m, &got)) {
            got_through(a, "not let in");
            return;
        }
        if (got < 0)
            continue;
        seen++;
        if (m.kind != ITEM_SEGMENT && m.kind != ITEM_BELL)
            got_through(a, "an item of kind %u", m.kind);
        const char *how =
            fstat(got, &st) == 0 ? raw_try_to_write(got, (size_t)st.st_size) : "no stat";
        if (how)
            got_through(a, "kind %u: %s", m.kind, how);
        close(got);
    } while (m.type != SHM_READY);
    if (seen < 2)
        got_through(a, "only %d items came", seen);
    /* The process itself. */
    snprintf(path, sizeof path, "/proc/%d/mem", a->victim);
    if (open(path, O_RDONLY) >= 0 || open(path, O_RDWR) >= 0)
        got_through(a, "its memory");
    snprintf(path, sizeof path, "/proc/%d/fd", a->victim);
    if (opendir(path) != NULL)
        got_through(a, "its descriptors");
    struct iovec here = {&byte, 1}, there = {&a->text, 1};
    if (process_vm_writev(a->victim, &here, 1, &there, 1, 0) >= 0 ||
        process_vm_readv(a->victim, &here, 1, &there, 1, 0) >= 0)
        got_through(a, "process_vm");
    if (ptrace(PTRACE_ATTACH, a->victim, NULL, NULL) == 0)
        got_through(a, "ptrace");
    int pidfd = (int)syscall(SYS_pidfd_open, a->victim, 0);
    if (pidfd >= 0 && syscall(SYS_pidfd_getfd, pidfd, 3, 0) >= 0)
        got_through(a, "pidfd_getfd");
    if (kill(a->victim, SIGSTOP) == 0 || kill(a->victim, 0) == 0)
        got_through(a, "signals");
}

static void break__memory_of_others_is_read_only(void **state)
{
    (void)state;
    NEEDS_ROOT;
    attack(memory_of_others, LIAR_UID);
    attack(memory_of_others, LIAR_UID); /* again, with another connection */
}

/* Rewrites its own memory while it is judged, for ever. */
static struct {
    unsigned char *at;
    size_t bytes;
    _Atomic bool stop;
} rewritten;

static void *rewrite_main(void *arg)
{
    struct rng r;

    (void)arg;
    rng_init(&r, 4711);
    while (!atomic_load(&rewritten.stop)) {
        struct part_head part = {.bytes = rng_below(&r, 8) ? 128 << 10 : rng_u64(&r),
                                 .lanes = rng_below(&r, 8) ? (uint32_t)rng_below(&r, 32)
                                                           : (uint32_t)rng_u64(&r)};
        memcpy(rewritten.at + sizeof(struct segment_head), &part, sizeof part);
        for (int i = 0; i < 32; i++) {
            bool wild = rng_below(&r, 64) == 0;
            struct segment_lane l = {.spec = fixture_spec((unsigned)rng_below(&r, 4), LIAR),
                                     .ctl_at = wild ? rng_u64(&r) >> rng_below(&r, 64)
                                                    : 8192 + 128 * rng_below(&r, 64),
                                     .ring_at = wild ? rng_u64(&r) >> rng_below(&r, 64) : 16384,
                                     .segment = (uint32_t)(wild && rng_below(&r, 2)),
                                     .ended = (uint32_t)rng_below(&r, 2)};
            memcpy(rewritten.at + 256 + (unsigned)i * sizeof l, &l, sizeof l);
        }
    }
    return NULL;
}

static void rewrites(struct attack *a)
{
    struct shm_message m = raw_hello(LIAR, "h2", SHM_HOST);
    pthread_t thread;

    for (int i = 0; i < 30; i++) {
        int fd = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        must(fd >= 0 && ftruncate(fd, 1 << 20) == 0, "memfd");
        rewritten.at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        must(rewritten.at != MAP_FAILED, "mmap");
        *(struct segment_head *)rewritten.at = (struct segment_head){
            .magic = SHM_SEGMENT_MAGIC, .bytes = 1 << 20, .node = LIAR, .life = (uint32_t)i};
        must(fcntl(fd, F_ADD_SEALS, all_seals) == 0, "seal");
        atomic_store(&rewritten.stop, false);
        pthread_create(&thread, NULL, rewrite_main, NULL);
        for (int k = 0; k < 8; k++) {
            int in = call("h0"), got;
            m = raw_hello(LIAR, "h2", SHM_HOST);
            m.life = (uint32_t)i;
            if (in < 0 || !raw_send(in, &m, sizeof m, NULL, 0))
                continue;
            m.type = SHM_ITEM;
            m.kind = ITEM_SEGMENT;
            m.parts = 5;
            raw_send(in, &m, sizeof m, &fd, 1);
            m.type = SHM_READY;
            raw_send(in, &m, sizeof m, NULL, 0);
            struct pollfd p = {.fd = in, .events = POLLIN};
            while (poll(&p, 1, 20) == 1 && raw_receive(in, &m, &got))
                if (got >= 0)
                    close(got);
            close(in);
        }
        atomic_store(&rewritten.stop, true);
        pthread_join(thread, NULL);
        munmap(rewritten.at, 1 << 20);
        close(fd);
    }
    (void)a;
}

/* Others read the liar's lanes all the while. */
static void break__memory_that_changes_while_it_is_judged_harms_nobody(void **state)
{
    uint64_t word;

    (void)state;
    NEEDS_ROOT;
    attack(rewrites, LIAR_UID);
    for (int i = 0; i < 100; i++) {
        enum mem_status s = kid_read(&kids[0], LIAR, LIAR, 1, &word);
        assert_true(s == MEM_DONE || s == MEM_LOST);
        s = kid_read(&kids[0], 0, LIAR, 1, &word);
        assert_true(s == MEM_DONE || s == MEM_LOST);
    }
    expect_well();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(break__files_of_others_are_out_of_reach),
        CASE(break__traps_in_its_own_directory_catch_nobody),
        CASE(break__strangers_are_hung_up_on),
        CASE(break__nobody_is_taken_for_another),
        CASE(break__noise_is_hung_up_on),
        CASE(break__floods_of_connections_and_messages_are_bounded),
        CASE(break__memory_that_could_kill_is_not_mapped),
        CASE(break__what_is_no_memory_shuts_its_sender_out),
        CASE(break__floods_of_descriptors_are_bounded),
        CASE(break__a_descriptor_that_hangs_hangs_nobody),
        CASE(break__memory_of_others_is_read_only),
        CASE(break__memory_that_changes_while_it_is_judged_harms_nobody),
    };

    return run_with_skips(tests);
}
