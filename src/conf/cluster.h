/* The cluster file: which hosts there are, which groups they carry, and how large things may get.
 *
 * A `struct cluster` is plain data without pointers into it: it is made in one piece by load, parse
 * or make, nothing changes it later, and any thread may read it. Whoever got it frees it.
 *
 * Every mistake in a file is answered with "FILE:LINE: what is wrong; what would be right", the
 * first one found. docs/cluster.example.yaml shows all keys. */
#ifndef CONF_CLUSTER_H
#define CONF_CLUSTER_H

#include "base/err.h"
#include "base/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CLUSTER_HOSTS_MAX = 128,
    CLUSTER_GROUPS_MAX = 1024,
    CLUSTER_REPLICAS_MAX = 9, /* of one group */
    CLUSTER_NAME_BYTES = 32,  /* of any name: 30 characters and the final 0, to a multiple of 8 */
    CLUSTER_ADDRESS_BYTES = 256, /* DNS allows 253 characters */
    CLUSTER_DIR_BYTES = 200,     /* of runtime_dir and key */
    CLUSTER_FILE_BYTES_MAX = 4 << 20,
    CLUSTER_WARNINGS_MAX = 16, /* those after them are only counted */
    CLUSTER_NONE = -1,         /* no such group or host; the parent of a root */
};

enum cluster_transport { CLUSTER_SHM, CLUSTER_TCP, CLUSTER_VERBS };
enum cluster_protocol { CLUSTER_TREE, CLUSTER_GENUINE };
enum cluster_wait { CLUSTER_WAIT_AUTO, CLUSTER_WAIT_SPIN, CLUSTER_WAIT_SLEEP };

struct cluster_host {
    char name[CLUSTER_NAME_BYTES];
    char address[CLUSTER_ADDRESS_BYTES]; /* IPv6 without brackets; "" if none, which shm allows */
    uint16_t port;                       /* 0 if there is no address */
    uint32_t line;                       /* where the file has it; 0 if made without one */
};

struct cluster_group {
    char name[CLUSTER_NAME_BYTES];
    int32_t parent;    /* index of a group; CLUSTER_NONE for a root */
    uint32_t replicas; /* 1 to CLUSTER_REPLICAS_MAX */
    /* Indexes of hosts by rank; at the start the first is waited for. */
    uint8_t replica[CLUSTER_REPLICAS_MAX];
    uint32_t line; /* of the group, and of its parent; 0 as above */
    uint32_t parent_line;
};

struct cluster {
    char name[CLUSTER_NAME_BYTES];
    enum cluster_transport transport;
    enum cluster_protocol protocol;
    enum cluster_wait wait;
    bool durable;                        /* false until there is a log on disk */
    bool huge_pages;                     /* for what others write at a host; not on shm */
    char runtime_dir[CLUSTER_DIR_BYTES]; /* "": left to the transport */
    char key
        [CLUSTER_DIR_BYTES]; /* file of the cluster's key, from where the cluster file is; "": the
                                  * cluster file's name with .key. shm needs none */

    uint32_t clients;      /* that may be open at the same time */
    uint32_t payload_max;  /* bytes of a message */
    uint32_t log_bytes;    /* a replica's copy of its group's log; holds 16 largest messages */
    uint32_t batch_bytes;  /* most that a leader writes at once */
    uint32_t window_bytes; /* most that it has written and is not decided */
    uint32_t snap_bytes;   /* ring for snapshots between two replicas */
    uint32_t source_bytes; /* a client's ring at a replica; holds 4 largest messages */
    uint32_t edge_bytes;   /* a group's ring at a replica of another; the same */
    uint32_t reply_max;    /* bytes of a reply */
    uint32_t reply_bytes;  /* ring for replies of a replica to a client; holds 1 largest or more */
    uint32_t heartbeat_ms;
    uint32_t suspect_ms;
    uint32_t detach_ms;

    uint32_t hosts;
    struct cluster_host host[CLUSTER_HOSTS_MAX];
    uint32_t groups; /* under the tree protocol exactly one is a root, and all hang below it */
    struct cluster_group group[CLUSTER_GROUPS_MAX];

    uint32_t warnings;                                  /* may exceed CLUSTER_WARNINGS_MAX */
    char warning[CLUSTER_WARNINGS_MAX][ERR_TEXT_BYTES]; /* "FILE:LINE: warning: ..." */
};

/* Reads the file. ERR_NOTFOUND: there is none; ERR_SYSTEM: it cannot be read; ERR_TOOBIG: over
 * CLUSTER_FILE_BYTES_MAX; ERR_INVALID: it has a mistake. */
int cluster_load(const char *path, struct cluster **, struct err *);

/* The same from memory; `file` is the name that errors show and the cluster's name derives from. */
int cluster_parse(const char *text, size_t bytes, const char *file, struct cluster **,
                  struct err *);

void cluster_free(struct cluster *);

/* Index by name; CLUSTER_NONE if there is none. */
int cluster_host(const struct cluster *, const char *name);
int cluster_group(const struct cluster *, const char *name);

/* For who named one that does not exist: which there are, and the nearest (base/nearest.h). */
struct nearest_text cluster_hosts_near(const struct cluster *, const char *name);
struct nearest_text cluster_groups_near(const struct cluster *, const char *name);

/* Writes a commented file that loads back equal. ERR_SYSTEM if the stream fails. */
int cluster_write(FILE *, const struct cluster *, struct err *);

/* What has to be the same for all processes of a cluster, as texts to compare and to show: the key, and the value (as
 * much of it as there is room for; the last one sums up all that has none). Not what may differ from machine to
 * machine: addresses, directories, how a host waits, huge pages. The same number of the same keys for files with as
 * many groups. */
enum { CLUSTER_FACTS_MAX = 60, CLUSTER_KEY_BYTES = 20, CLUSTER_FACT_BYTES = 44 };

struct cluster_fact {
    char key[CLUSTER_KEY_BYTES];
    char value[CLUSTER_FACT_BYTES];
};

uint32_t cluster_facts(const struct cluster *, struct cluster_fact out[CLUSTER_FACTS_MAX]);

/* By value; the last is NULL. */
extern const char *const cluster_transport_names[];
extern const char *const cluster_protocol_names[];
const char *cluster_transport_name(enum cluster_transport);
const char *cluster_protocol_name(enum cluster_protocol);

/* A regular cluster on this machine: groups g1, g2, ... on hosts h1, h2, ..., the replicas of each
 * group one host further than those of the group before, so that leaders spread over the hosts. */
struct cluster_plan {
    const char *name; /* NULL: "cluster" */
    uint32_t groups;
    uint32_t replicas; /* of each group; at most one per host */
    uint32_t hosts;
    const uint16_t *parent; /* of each group, UINT16_MAX for none, as overlay_shape_fill gives it;
                             * NULL: all below the first */
    enum cluster_transport transport;
    enum cluster_protocol protocol;
    uint16_t port; /* of h1, the others follow; 0: 7101 */
};

/* Limits are the defaults. ERR_INVALID says which number is wrong. The parents are not checked. */
int cluster_make(const struct cluster_plan *, struct cluster **, struct err *);

/* Bytes of the rings of all hosts together, which are there from the start; and what a client adds that sends
 * to every group. Control words, a hundredth of it with the default sizes, are not counted. */
uint64_t cluster_memory(const struct cluster *);
uint64_t cluster_memory_client(const struct cluster *);

/* The path of the key of a cluster that was read from `file`. ERR_TOOBIG if it does not fit. */
int cluster_key_path(const struct cluster *, const char *file, char *out, size_t bytes,
                     struct err *);

/* The name that a cluster gets from its file: the last part of the path without .yaml, with '-' for
 * what a name may not have. */
void cluster_name_from_file(const char *file, char out[CLUSTER_NAME_BYTES]);

#endif
