/* What the parts of the cluster file share: its keys, and the values of those that have one number. */
#ifndef CONF_CLUSTER_IMPL_H
#define CONF_CLUSTER_IMPL_H

#include "conf/cluster.h"
#include "conf/doc.h"

enum {
    LOG_MESSAGES = 16,   /* largest messages that a log must hold: batches and recovery need room */
    SOURCE_MESSAGES = 4, /* and a source's ring: or each message waits for the one before */
    MESSAGE_ROOM = 4 << 10, /* what the largest message takes beside its bytes, at most */
    REPLIES = 16,
    REPLIES_LARGE = 4,
    PORT_DEFAULT = 7101,
    HTTP_DEFAULT = 9464,
    RING_BYTES_LEAST = 4 << 10, /* of a sender in a cell */
    RING_BYTES_MOST = 256 << 20,
    RING_BYTES_DEFAULT = 1 << 20,
    RING_MESSAGES = 8, /* largest messages that it holds */
    HISTORY_BYTES_LEAST = 4 << 10,
    HISTORY_BYTES_MOST = 64 << 20, /* it is copied while its host waits, when somebody comes */
    HISTORY_MESSAGES =
        4, /* largest messages that it holds, with their heads and what a wrap takes */
    START_MS_DEFAULT = 200,
    START_MS_MAX = 60000,
};

#define CLIENT_ANY "any" /* the name of whoever has the key in a file */
#define ANY_WORD "any-with-key"
#define PUBLIC_PREFIX "ed25519:"

#define REPLY_ROOM(c) ((c)->reply_max + 64u) /* of a ring of replies, for the largest */

enum setting_kind { SETTING_NUMBER, SETTING_SIZE, SETTING_POWER }; /* a power is a size, too */

/* key, kind, least, most, default, what the written file says about it. 0 as the default of a size of at
 * least 4 KiB stands for what fits other settings: see setting_standard. */
#define SETTING_LIST(X)                                                                            \
    X(clients, NUMBER, 1, 4096, 64, "clients that may be open at the same time")                   \
    X(payload_max, SIZE, 0, 1 << 20, 16 << 10, "largest message")                                  \
    X(log_bytes, POWER, 16 << 10, 1 << 30, 256 << 10,                                              \
      "each replica's copy of the log: a power of two, 16 largest messages or more")               \
    X(batch_bytes, SIZE, 4 << 10, 256 << 20, 0,                                                    \
      "what a leader writes at once, at most a quarter of log_bytes")                              \
    X(window_bytes, SIZE, 4 << 10, 512 << 20, 0,                                                   \
      "what may be written and not decided, at most half of log_bytes")                            \
    X(snap_bytes, POWER, 4 << 10, 256 << 20, 64 << 10,                                             \
      "ring for snapshots between replicas: a power of two")                                       \
    X(source_bytes, POWER, 4 << 10, 256 << 20, 0,                                                  \
      "each client's ring at a replica: a power of two, 4 largest messages or more")               \
    X(edge_bytes, POWER, 4 << 10, 256 << 20, 0,                                                    \
      "each group's ring at a replica of another: the same")                                       \
    X(reply_max, SIZE, 0, 1 << 20, 64, "largest reply of the state machine")                       \
    X(reply_bytes, POWER, 4 << 10, 256 << 20, 0,                                                   \
      "ring for replies to a client: a power of two; as many may wait for a group as it holds")    \
    X(heartbeat_ms, NUMBER, 1, 10000, 15, "how often replicas show that they live")                \
    X(suspect_ms, NUMBER, 2, 60000, 60, "silence after which a leader counts as hung")             \
    X(detach_ms, NUMBER, 1, 60000, 50, "how long a stuck replica may hold up its group")           \
    X(disk_bytes, SIZE, 256 << 20, UINT32_C(4032) << 20, 1 << 30,                                  \
      "of a host's journal, if durable; states come on top")

enum setting {
#define SETTING_ENUM_(key, kind, least, most, value, help) SETTING_##key,
    SETTING_LIST(SETTING_ENUM_)
#undef SETTING_ENUM_
        SETTING_COUNT
};

struct setting_info {
    const char *key;
    enum setting_kind kind;
    uint32_t least, most, value;
    const char *help;
    size_t offset; /* in struct cluster, of a uint32_t */
};

extern const struct setting_info setting_info[SETTING_COUNT];

/* The texts of the enums, in order of their values, NULL last. */
extern const char *const wait_names[];

uint32_t setting_get(const struct cluster *, enum setting);
uint32_t *setting_at(struct cluster *, enum setting);

/* True and the place of the word in the list (NULL last), or false. */
bool word_index(const char *const *list, const char *word, unsigned *index);

/* A cluster with all defaults and nothing in it; NULL: no memory. */
struct cluster *cluster_blank(void);

/* All settings as they are where none is given; these differ where it is durable. */
void cluster_standard(struct cluster *);

/* What a setting is if it is not given, which may follow from those that are. */
uint32_t setting_standard(const struct cluster *, enum setting);

/* Adds "FILE:LINE: warning: ..." to the cluster's list. */
void cluster_warn(struct cluster *, const struct doc *, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Fills a blank cluster from the file's tree of nodes. */
int cluster_read(struct cluster *, const struct doc *, const char *file, bool lax, struct err *);

struct reader;

/* The numbers of the file, which stand by enum setting; NULL where it has none. */
int settings_read(struct reader *, const struct node *const *given);

/* Lists of it; groups come after hosts. */
int hosts_read(struct reader *, const struct node *list);
int groups_read(struct reader *, const struct node *list);

/* The values that say who is who; NULL where the file has none. */
struct identity_nodes {
    const struct node *key, *clients, *client_keys, *keys_dir, *tls, *encrypt;
};

/* `clients: any-with-key FILE` is no number: takes the value away, and returns it. */
const struct node *identity_take_any(struct reader *, const struct node **clients);

/* In this order: what holds for all, each host, the clients, and whether anybody lacks a key. */
int identity_read(struct reader *, const struct identity_nodes *);
int identity_read_host(struct reader *, const struct node *key, struct cluster_host *);
int identity_read_clients(struct reader *, const struct identity_nodes *);
int identity_check(struct reader *, const struct identity_nodes *);

/* Who has the key already: its name, or NULL. `*line` is where. */
const char *cluster_key_owner(const struct cluster *, const unsigned char key[CLUSTER_PUBLIC_BYTES],
                              uint32_t *line);

/* The values that protocol group has in place of groups; NULL where the file has none. */
struct group_nodes {
    const struct node *id, *data_dir; /* for subgroups that are kept */
    const struct node *protocol, *durable, *groups, *subgroups, *topics, *keepers, *view_majority,
        *start_ms, *block_bytes;
    const struct node *const *settings; /* by enum setting */
};

/* After the hosts: reads them if the protocol is group, else refuses them. */
int group_read(struct reader *, const struct node *root, const struct group_nodes *);

/* Does the setting mean anything under the cluster's protocol? */
bool setting_applies(const struct cluster *, enum setting);

/* Who keeps views if the file does not say, by the number of hosts. */
uint32_t keepers_standard(uint32_t hosts);

/* ---- cluster_large.c ---- */

enum { BLOCK_BYTES_STANDARD = 1 << 20, LARGE_WINDOW_STANDARD = 4 };

extern const char *const cluster_rdmc_names[];

/* What a subgroup says of large messages; NULL where it says nothing. */
struct large_nodes {
    const struct node *max, *window, *rdmc;
};

/* Behind the rings of the subgroup. */
int large_read(struct reader *, const struct large_nodes *, struct cluster_subgroup *);
/* Before the subgroups. */
int large_read_blocks(struct reader *, const struct node *);
int large_read_rack(struct reader *, const struct node *, struct cluster_host *);

/* ---- cluster_retain.c ---- */

/* What a subgroup says of its logs; NULL where it says nothing. */
struct retain_nodes {
    const struct node *retain, *sign;
};

/* Behind the mode of the subgroup. */
int retain_read(struct reader *, const struct retain_nodes *, struct cluster_subgroup *);

/* The memories of a group and who votes, after its replicas. */
int memories_read(struct reader *, const struct node *list, const struct node *votes,
                  struct cluster_group *);

/* Checks the parents: no cycle, and under the tree protocol one root. */
int cluster_check_tree(const struct cluster *, const struct doc *, struct err *);

#endif
