/* The page of a member: what `tram view` shows, in a file that others map (HOST.page), or ask for over a network.
 *
 * One process writes it and any number read it, as one record: a version before and after tells whether it was whole. */
#ifndef API_GROUP_PAGE_H
#define API_GROUP_PAGE_H

#include "api/api.h"
#include "group/view.h"

enum { GROUP_PAGE_MAGIC = 0x74726d67, GROUP_PAGE_TEXT = 160 };

#define GROUP_PAGE_NOBODY UINT64_MAX

struct group_page_cell {
    uint64_t state, born, members, senders, stateful, members_last, lacks; /* as in a view */
    uint64_t has_state;                                                    /* this member has */
    uint64_t delivered, bytes;                                             /* by this process */
    uint64_t state_count, state_hash; /* what the machine says of its state; both 0: nothing */
};

/* Words throughout, so that it can be copied word by word. Times are milliseconds of the wall clock. */
struct group_page_record {
    uint64_t hosts, cells;
    uint64_t in_view; /* 0: the rest is of the last view it was in */
    uint64_t vid, adequate, members, left;
    uint64_t wedged;  /* the view is ending */
    uint64_t view_ms; /* when it began here */
    uint64_t newest;  /* the newest view that it has heard of */
    uint64_t has_left;
    uint64_t keeper, leads; /* this host is one; and leads them, */
    uint64_t leader;        /* or knows who does; GROUP_PAGE_NOBODY */
    uint64_t keepers,
        generation; /* who decides on what follows the newest view, and how often others took their place */
    uint64_t views, put_out, sent, delivered, delivered_bytes, nulls, trimmed, returned;
    uint64_t states_sent, states_loaded;
    uint64_t life[GROUP_HOSTS_MAX];
    uint64_t since_vid[GROUP_HOSTS_MAX], since_ms[GROUP_HOSTS_MAX]; /* that life was first seen */
    char waits[GROUP_PAGE_TEXT];  /* for what the next view waits; "": nothing */
    char broken[GROUP_PAGE_TEXT]; /* why it has stopped; "": it has not */
    struct group_page_cell cell[];
    /* Behind the cells: its disk; see group_page_disk. */
};

/* Of the views, in a cluster that keeps anything. Hosts of earlier versions do not show it. */
struct group_page_disk {
    uint64_t there;
    struct tram_disk_stats stats;
};

struct group_page {
    _Atomic uint64_t magic, pid, life, updated_ns,
        bytes;                /* bytes: of the record without its disk */
    _Atomic uint64_t version; /* odd while the record is written */
    _Atomic uint64_t word[];
};

size_t group_page_record_bytes(uint32_t cells);
struct group_page_disk *group_page_disk(struct group_page_record *, uint32_t cells);
size_t group_page_bytes(uint32_t cells);

/* HOST.page in the directory. */
struct group_page *group_page_open(const char *dir, const char *host, uint32_t life, uint32_t cells,
                                   struct err *);
void group_page_close(struct group_page *, const char *dir, const char *host);

void group_page_show(struct group_page *, const struct group_page_record *, uint64_t now_ns);

/* Copies the record of a page of that size, for a cluster with so many cells; false if it is none, or was never whole. */
bool group_page_read(const struct group_page *, size_t bytes, uint32_t cells,
                     struct group_page_record *out);

#endif
