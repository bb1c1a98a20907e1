/* Shared memory of one machine as remote memory: real processes, real kills.
 *
 * Processes find each other by the cluster's name and their own node's name. What a node writes
 * lives in memfds that the node creates, maps writable and then seals against any further
 * writable mapping (F_SEAL_FUTURE_WRITE), so the kernel and not courtesy makes it the only writer;
 * everybody else maps them read-only. The promised words and the bell are the two exceptions: they
 * are small memfds that peers may change. Descriptors travel over a unix socket per node, which
 * checks the uid and the cluster. A memory lives as long as anyone maps it, so a process that was
 * killed finds its own again at its peers.
 *
 * One thread uses a `struct mem`; a helper thread inside serves the socket, and only hands over. */
#ifndef MEM_SHM_SHM_H
#define MEM_SHM_SHM_H

#include "base/say.h"
#include "mem/lives.h"
#include "mem/mem.h"

enum {
    SHM_HOSTS_MAX = 128,                  /* host numbers are below this */
    SHM_NODES_MAX = SHM_HOSTS_MAX + 4096, /* all node numbers are */
    SHM_NAME_BYTES = 64,                  /* of a cluster's or node's name, the final 0 included */
};

enum shm_role {
    SHM_HOST,   /* may own regions, is given promised words, is asked for others' memory */
    SHM_CLIENT, /* gets bells and hosts' lanes; nobody promises to it, and it raises nowhere */
};

struct shm_node {
    const char *name; /* socket and lock file carry it */
    uint32_t node;    /* its number, the same in every process */
    enum shm_role role;
    uint32_t uid; /* of its processes; with `hostile` alone */
};

struct shm_options {
    const char *dir;     /* runtime directory; NULL: $XDG_RUNTIME_DIR, else /dev/shm */
    const char *cluster; /* the cluster's name; one directory below dir */
    struct shm_node self;
    const struct shm_node *hosts; /* all hosts of the cluster, self included if it is one */
    uint32_t hosts_count;
    uint64_t answer_timeout_ns; /* how long a restart waits for the memory that a live but silent
                                 * host may have of it; 0: two seconds */
    bool forget;    /* whatever is left of the memory of earlier lives is given up, and born LOST */
    struct say say; /* where log lines go, from the caller's thread and the helper */
    /* host: lives that a disk keeps, until it is closed; NULL: none does. Then clients' places are known by number: place
     * n is node client_node + n, its name is client-n, and it has lives_max lives at most (0: any number). */
    const struct mem_lives *lives;
    uint32_t client_node, clients, lives_max;
    /* client: hosts' disks keep the lives of places, and a host that begins makes the files say what its disk knows. Do these
     * know of all that counts, together? It is asked until it has said so once in this directory, under the directory's lock; else
     * ERR_AGAIN. */
    bool (*enough)(void *ctx, const bool running[SHM_HOSTS_MAX]);
    void *enough_ctx;
    /* Nodes may lie (trust.h): each has a uid and a directory of its own, made by shm_prepare, writes memory that is its own alone, and comes
     * back without memory. Not with lives on disks. Who may be a client is known: these. */
    bool hostile;
    const struct shm_node *clients_known;
    uint32_t clients_known_count;
};

/* For nodes that may lie: makes the directories of a cluster, for all of its hosts and clients, or makes them anew. Nobody of it may run. By root, or by
 * anybody if all have its own uid. What is below dir belongs to root, so nobody can exchange the directory of another. It draws the number of this
 * beginning: lives are counted in the directories, and begin at 0 again. */
int shm_prepare(const struct shm_options *, struct err *);

/* The number of the beginning that this node is part of: what is signed in one is worth nothing in another. */
uint64_t shm_beginning(struct mem *);

/* Where nodes of a cluster whose members may lie have their directories, one with the name of each. */
int shm_home_of(const char *dir, const char *cluster, char *out, size_t bytes, struct err *);

/* Joins the cluster as this node and connects to whoever is there; the others connect later.
 * ERR_EXISTS if a live process has this node's name, ERR_REFUSED for a directory or socket that
 * belongs to somebody else, or if the disk that keeps its lives is an older one. A stale socket of a dead process is replaced. Only a node that has lived
 * before waits, for the memory that live hosts have of it. */
int shm_open_node(const struct shm_options *, struct mem **out, struct err *);

/* Leaves in order: removes the socket. The last host to leave removes the directory, so that the next start is
 * a new cluster. Called by the thread that polled. */
void shm_close_node(struct mem *);

/* At a host with lives on a disk: a log tells of this life of a client's place, which the disk is going to know of. */
void shm_saw_client(struct mem *, uint32_t place, uint32_t life);

/* Why this node can do nothing any more, or NULL: a client's cluster is over, since its last host has left; its place was
 * had before in the same life; or other hosts know of later lives of this host than its disk does. */
const char *shm_failure(struct mem *);

/* The cluster's directory. What others put there under names that end in .page goes with it. */
const char *shm_directory(struct mem *);

/* The same for who has not joined: 0, or ERR_INVALID for a name that cannot be one. */
int shm_directory_of(const char *dir, const char *cluster, char *out, size_t bytes, struct err *);

/* Sleeping, for the thread that polls m:
 *     shm_doze(m);                  announce; from here on a bell is not missed
 *     if (no work after polling everything once more) shm_sleep(m, until_ns);
 *     else shm_rouse(m);
 * shm_sleep returns on a bell, on the death of a connected host, or at until_ns (CLOCK_MONOTONIC). */
void shm_doze(struct mem *);
void shm_rouse(struct mem *);
void shm_sleep(struct mem *, uint64_t until_ns);

/* True while the node is connected, the lanes that it had written by then are here, and it has mapped
 * all of ours: flows to it are usable. */
bool shm_connected(struct mem *, uint32_t node);

#endif
