/* The client's end of a log among liars: a source (agree/source.h) that signs.
 *
 * What it sends goes to every member. It signs what was not taken for a while, or what f+1 members ask to be signed: in between no
 * signature is made. What it signs are stretches (agree/bft_stretch.h), one behind the other; while one is being signed the next one grows, so
 * that a client which sends much signs rarely. A message is taken when f+1 members say so.
 *
 * It belongs to one node and one thread, which polls the signer, too. It never blocks, and takes no memory after bft_client_open. */
#ifndef AGREE_BFT_CLIENT_H
#define AGREE_BFT_CLIENT_H

#include "agree/bft_stretch.h"
#include "agree/source.h"

struct bft_client_options {
    struct source_options source; /* faulty is half of the replicas */
    uint64_t cluster;
    uint32_t batch_bytes;  /* as the members have it */
    struct signer *signer; /* as bft_client_signer of source.number */
};

struct bft_client_stats {
    uint64_t signatures; /* made */
};

struct bft_client;

int bft_client_open(const struct bft_client_options *, struct bft_client **, struct err *);
void bft_client_close(struct bft_client *);

/* As the functions of a source by these names. */
int bft_client_send(struct bft_client *, const void *payload, uint32_t bytes, uint64_t *end);
void bft_client_flush(struct bft_client *);
uint64_t bft_client_taken(struct bft_client *);
uint64_t bft_client_end(const struct bft_client *);

/* Signs, and writes again; after the signer was polled. */
void bft_client_step(struct bft_client *, uint64_t now_ns);

void bft_client_stats(const struct bft_client *, struct bft_client_stats *);

#endif
