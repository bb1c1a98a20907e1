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
    CLUSTER_VERSION = 1, /* of what a cluster file may say; the newest that is understood */
    CLUSTER_HOSTS_MAX = 128,
    CLUSTER_GROUPS_MAX = 1024,
    CLUSTER_REPLICAS_MAX = 9, /* of one group */
    CLUSTER_MEMBERS_MAX = 64, /* hosts under protocol group: a set of them is one word */
    CLUSTER_CELLS_MAX = 256,  /* shards of all subgroups */
    CLUSTER_KEEPERS_MAX = 9,
    CLUSTER_NAME_BYTES = 32, /* of any name: 30 characters and the final 0, to a multiple of 8 */
    CLUSTER_ID_BYTES = 16,   /* two hexadecimal digits in the file for each */
    CLUSTER_ADDRESS_BYTES = 256, /* DNS allows 253 characters */
    CLUSTER_DIR_BYTES = 200,     /* of runtime_dir, key and every other path */
    CLUSTER_FILE_BYTES_MAX = 4 << 20,
    CLUSTER_WARNINGS_MAX = 16,     /* those after them are only counted */
    CLUSTER_MEMORIES_MAX = 9,      /* of a group */
    CLUSTER_NONE = -1,             /* no such group or host; the parent of a root */
    CLUSTER_CLIENT_KEYS_MAX = 256, /* names of clients; several processes may share one */
    CLUSTER_PUBLIC_BYTES = 32,     /* of an Ed25519 public key */
    CLUSTER_PUBLIC_TEXT = 53,      /* of one as text: `ed25519:`, 44 characters of base64, 0 */
    CLUSTER_KEYS_EACH = 2,         /* of one name: one may be replaced while the other is in use */
};

enum cluster_transport { CLUSTER_SHM, CLUSTER_TCP, CLUSTER_VERBS };
enum cluster_protocol { CLUSTER_TREE, CLUSTER_GENUINE, CLUSTER_GROUP };
enum cluster_wait { CLUSTER_WAIT_AUTO, CLUSTER_WAIT_SPIN, CLUSTER_WAIT_SLEEP };

/* The public keys of a name. Under tcp each host has one or two; without keys nobody has the name. */
struct cluster_keys {
    uint32_t count;
    unsigned char key[CLUSTER_KEYS_EACH][CLUSTER_PUBLIC_BYTES];
};

struct cluster_host {
    char name[CLUSTER_NAME_BYTES];
    char address[CLUSTER_ADDRESS_BYTES]; /* IPv6 without brackets; "" if none, which shm allows */
    uint16_t port;                       /* 0 if there is no address */
    uint32_t line;                       /* where the file has it; 0 if made without one */
    struct cluster_keys keys;            /* none but under tcp without tls */
    bool memory;                         /* it is only memory of groups: carries no replica */
    uint32_t rack;                       /* under protocol group */
    char http[CLUSTER_ADDRESS_BYTES];    /* where it shows itself to browsers; "" if nowhere */
    uint16_t http_port;
};

struct cluster_client {
    char name
        [CLUSTER_NAME_BYTES]; /* unlike those of all hosts: the files of their keys would meet */
    uint32_t line;
    struct cluster_keys keys;
};

struct cluster_group {
    char name[CLUSTER_NAME_BYTES];
    int32_t parent;    /* index of a group; CLUSTER_NONE for a root */
    uint32_t replicas; /* 1 to CLUSTER_REPLICAS_MAX */
    /* Indexes of hosts by rank; at the start the first is waited for. */
    uint8_t replica[CLUSTER_REPLICAS_MAX];
    uint32_t memories; /* hosts that are only memory of its log; they vote, */
    uint8_t memory[CLUSTER_MEMORIES_MAX];
    bool all_vote; /* and the replicas as well */
    uint32_t line; /* of the group, and of its parent; 0 as above */
    uint32_t parent_line;
};

enum cluster_mode {
    CLUSTER_MODE_MEMORY,
    CLUSTER_MODE_RAW,
    CLUSTER_MODE_LOGGED,
    CLUSTER_MODE_DURABLE
};

/* Who passes large messages on to whom, over a network. */
enum cluster_rdmc {
    CLUSTER_RDMC_AUTO,
    CLUSTER_RDMC_SEQUENTIAL,
    CLUSTER_RDMC_CHAIN,
    CLUSTER_RDMC_TREE,
    CLUSTER_RDMC_PIPELINE,
    CLUSTER_RDMC_RACKS,
};

enum { CLUSTER_RACKS_MAX = 256 };

/* Hosts that form cells, under protocol group: each shard is one. Sets of hosts are masks. */
struct cluster_subgroup {
    char name[CLUSTER_NAME_BYTES];
    enum cluster_mode mode;
    uint32_t shards;      /* cells, of which no two share a member, but for `overlap` */
    uint32_t members_min; /* of a cell; with fewer nobody sends */
    uint32_t members_max; /* 0: as many as there are hosts for it */
    uint64_t hosts;       /* who may be in it */
    uint64_t senders;     /* which of its members send; CLUSTER_ALL: all of them */
    bool overlap;
    uint32_t ring_bytes;   /* of a sender, in each of its cells */
    uint32_t message_max;  /* bytes; at most an eighth of it */
    uint32_t large_max;    /* bytes of a large message; 0: there are none */
    uint32_t large_window; /* large messages of a sender under way */
    enum cluster_rdmc rdmc;
    bool slots; /* topics that the file does not name have the shard that their name hashes to */
    uint64_t retain;  /* modes logged and durable: bytes of a log that stay at least; 0: all */
    bool sign;        /* likewise: each host signs its logs with its key */
    uint32_t history; /* bytes of the last messages that who comes is given; 0: none. Mode memory */
    uint32_t line;    /* 0 if made without a file */
};

#define CLUSTER_ALL UINT64_MAX

struct cluster {
    char name[CLUSTER_NAME_BYTES];
    enum cluster_transport transport;
    enum cluster_protocol protocol;
    enum cluster_wait wait;
    bool durable; /* what is answered is on the disks of a quorum */
    /* By which a disk knows its cluster; with durable alone. All 0: there is none. */
    unsigned char id[CLUSTER_ID_BYTES];
    /* The backup that it began with, all 0: none. It is in the file so that no host can begin otherwise. */
    unsigned char restored[CLUSTER_ID_BYTES];
    char data_dir
        [CLUSTER_DIR_BYTES]; /* where what is kept is, from where the cluster file is; "": the
                                       * cluster file's name with .data */
    bool huge_pages;         /* for what others write at a host; not on shm */
    char runtime_dir[CLUSTER_DIR_BYTES]; /* "": left to the transport */
    /* File of the cluster's key, from where the cluster file is; "": the cluster file's name with .key. For verbs:
     * shm needs none, and under tcp everybody has a key of their own. */
    char key[CLUSTER_DIR_BYTES];

    /* Under tcp alone. Paths are from where the cluster file is (cluster_path). */
    bool encrypt; /* false: clear text, which never leaves this machine */
    char keys_dir
        [CLUSTER_DIR_BYTES]; /* where secret keys are; "": the cluster file's name with .keys */
    char tls_ca[CLUSTER_DIR_BYTES]; /* with an authority all three, and nobody has keys; else "" */
    char tls_cert[CLUSTER_DIR_BYTES]; /* %h: the name of the host or client */
    char tls_key[CLUSTER_DIR_BYTES];
    char any_file
        [CLUSTER_DIR_BYTES]; /* whoever has the key in this file is the client `any`; else "" */
    uint32_t any_line;       /* where the file says so */
    uint32_t client_keys;    /* clients that have a name; 1 with any_file */
    struct cluster_client client_key[CLUSTER_CLIENT_KEYS_MAX];

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
    uint32_t disk_bytes; /* of a host's journal; with durable alone */

    uint32_t hosts;
    struct cluster_host host[CLUSTER_HOSTS_MAX];
    uint32_t groups; /* under the tree protocol exactly one is a root, and all hang below it */
    struct cluster_group group[CLUSTER_GROUPS_MAX];

    /* Under protocol group, which has no groups and no clients. */
    uint32_t subgroups;
    struct cluster_subgroup subgroup[CLUSTER_CELLS_MAX];
    uint32_t keepers; /* an odd number of them decides on views */
    uint8_t keeper[CLUSTER_KEEPERS_MAX];
    bool view_majority;   /* more than half of a view must go over to the next */
    uint32_t start_ms;    /* the first view waits until nobody new has come for so long */
    uint32_t block_bytes; /* largest block of a large message, over a network */

    uint32_t warnings;                                  /* may exceed CLUSTER_WARNINGS_MAX */
    char warning[CLUSTER_WARNINGS_MAX][ERR_TEXT_BYTES]; /* "FILE:LINE: warning: ..." */
};

/* Reads the file. ERR_NOTFOUND: there is none; ERR_SYSTEM: it cannot be read; ERR_TOOBIG: over
 * CLUSTER_FILE_BYTES_MAX; ERR_INVALID: it has a mistake. */
int cluster_load(const char *path, struct cluster **, struct err *);

/* The same from memory; `file` is the name that errors show and the cluster's name derives from. No other file is
 * read: with any_file the client `any` has no keys until cluster_read_any. */
int cluster_parse(const char *text, size_t bytes, const char *file, struct cluster **,
                  struct err *);

/* Both for who is going to add keys: those that a tcp cluster must have may be missing. */
int cluster_load_lax(const char *path, struct cluster **, struct err *);
int cluster_parse_lax(const char *text, size_t bytes, const char *file, struct cluster **,
                      struct err *);

/* Reads any_file, if there is one; `file` is the cluster file. ERR_NOTFOUND: there is no such file, or no key
 * in it. */
int cluster_read_any(struct cluster *, const char *file, struct err *);

/* Opens the file (a descriptor, or as cluster_load), and reads all of it; the caller frees the text. For who changes it
 * (conf/cluster_edit.h). */
int cluster_file_open(const char *path, struct err *);
int cluster_file_text(int fd, const char *path, char **text, size_t *bytes, struct err *);

void cluster_free(struct cluster *);

/* Index by name; CLUSTER_NONE if there is none. */
int cluster_host(const struct cluster *, const char *name);
int cluster_group(const struct cluster *, const char *name);

int cluster_client(const struct cluster *, const char *name); /* index in client_key */
int cluster_subgroup(const struct cluster *, const char *name);
struct nearest_text cluster_subgroups_near(const struct cluster *, const char *name);

/* Cells are numbered through: shards of the first subgroup, of the second, ... */
uint32_t cluster_cells(const struct cluster *);
/* The subgroup of a cell, and its shard there. */
uint32_t cluster_cell_subgroup(const struct cluster *, uint32_t cell, uint32_t *shard);
/* As people name it: the subgroup's name, with /SHARD behind it if there are several. */
struct cluster_cell_name {
    char s[CLUSTER_NAME_BYTES + 8];
};
struct cluster_cell_name cluster_cell_name(const struct cluster *, uint32_t cell);
/* The cell of that name; CLUSTER_NONE if there is none. */
int cluster_cell(const struct cluster *, const char *name);

/* Under protocol group: are messages kept on disks, of any subgroup; of this one? */
bool cluster_keeps(const struct cluster *);
/* Does each host have a directory for what it keeps: is the cluster durable, or a group of which something is kept? */
bool cluster_has_disks(const struct cluster *);
static inline bool cluster_subgroup_keeps(const struct cluster_subgroup *s)
{
    return s->mode == CLUSTER_MODE_LOGGED || s->mode == CLUSTER_MODE_DURABLE;
}

/* For who named one that does not exist: which there are, and the nearest (base/nearest.h). */
struct nearest_text cluster_hosts_near(const struct cluster *, const char *name);
struct nearest_text cluster_groups_near(const struct cluster *, const char *name);
struct nearest_text cluster_clients_near(const struct cluster *, const char *name);

/* The same cluster: everything equal but lines and warnings. */
bool cluster_equal(const struct cluster *, const struct cluster *);

/* Writes a commented file that loads back equal. ERR_SYSTEM if the stream fails. */
int cluster_write(FILE *, const struct cluster *, struct err *);

/* What has to be the same for all processes of a cluster, as texts to compare and to show: the key, and the value (as
 * much of it as there is room for; the last one sums up all that has none). Not what may differ from machine to
 * machine: addresses, directories, how a host waits, huge pages; nor keys, of which old and new ones are in use while
 * they are replaced. The same number of the same keys for files with as
 * many groups. */
enum { CLUSTER_FACTS_MAX = 60, CLUSTER_KEY_BYTES = 20, CLUSTER_FACT_BYTES = 44 };

struct cluster_fact {
    char key[CLUSTER_KEY_BYTES];
    char value[CLUSTER_FACT_BYTES];
};

uint32_t cluster_facts(const struct cluster *, struct cluster_fact out[CLUSTER_FACTS_MAX]);

/* Of all that the files of a disk depend on: who of another value opens them would misread them. */
uint64_t cluster_shape(const struct cluster *);

/* The id as it stands in the file. */
struct cluster_id_text {
    char s[2 * CLUSTER_ID_BYTES + 1];
};
bool cluster_id_is_none(const unsigned char id[CLUSTER_ID_BYTES]);
struct cluster_id_text cluster_id_text(const unsigned char id[CLUSTER_ID_BYTES]);

/* By value; the last is NULL. */
extern const char *const cluster_transport_names[];
extern const char *const cluster_protocol_names[];
extern const char *const cluster_mode_names[];
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
    uint16_t port;           /* of h1, the others follow; 0: 7101 */
    const unsigned char *id; /* of a durable cluster; NULL: it is none */
    uint32_t memories;       /* hosts m1, m2, ... that are only memory, of all groups; */
    bool all_vote;           /* with them: replicas vote, too */
    /* Under protocol group, instead of groups and replicas: subgroups s1, s2, ... of all hosts. */
    uint32_t subgroups, shards;
    enum cluster_mode mode; /* of all of them; with an id if that is one that is kept */
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

/* The path of what else the cluster file names, from where it is; CLUSTER_PATH_CERT and CLUSTER_PATH_KEY with `name` for
 * each %h. ERR_TOOBIG as above. */
enum cluster_path {
    CLUSTER_PATH_KEYS_DIR,
    CLUSTER_PATH_DATA, /* with `name`: of that host */
    CLUSTER_PATH_ANY,
    CLUSTER_PATH_CA,
    CLUSTER_PATH_CERT,
    CLUSTER_PATH_KEY
};
int cluster_path(const struct cluster *, const char *file, enum cluster_path, const char *name,
                 char *out, size_t bytes, struct err *);

/* The path of a name's secret key: NAME.key in keys_dir; of the client `any` that of any_file, with .key for .pub.
 * `next`: with .new behind it, the one that is going to replace it. */
int cluster_secret_path(const struct cluster *, const char *file, const char *name, bool next,
                        char *out, size_t bytes, struct err *);

/* A public key from its text: NULL, or what is wrong with it ("has ..."). And back. */
const char *cluster_public_parse(const char *text, unsigned char key[CLUSTER_PUBLIC_BYTES]);
void cluster_public_text(const unsigned char key[CLUSTER_PUBLIC_BYTES],
                         char out[CLUSTER_PUBLIC_TEXT]);

/* Which of the name's keys it is; CLUSTER_NONE if it is none. */
int cluster_keys_find(const struct cluster_keys *, const unsigned char key[CLUSTER_PUBLIC_BYTES]);

/* The name that a cluster gets from its file: the last part of the path without .yaml, with '-' for
 * what a name may not have. */
void cluster_name_from_file(const char *file, char out[CLUSTER_NAME_BYTES]);

#endif
