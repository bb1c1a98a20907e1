/* Signatures of simulated members: a hash with a secret of each, drawn from the seed. Whoever knows the secrets (the simulator's liars,
 * of their own) signs at once; a signer ends its jobs some polls after they were submitted. */
#ifndef SIM_SIM_SIGNER_H
#define SIM_SIM_SIGNER_H

#include "base/sign.h"

/* As text.signer signs in the world of that seed. */
void sim_sign(uint64_t seed, const struct sign_text *, unsigned char signature[SIGN_BYTES]);

/* Jobs end in order, each 1 to polls_max polls after the one before it or after it was submitted. */
struct signer *sim_signer_open(uint64_t seed, uint32_t rank, uint32_t polls_max);

/* To it every signature is good: of who lies. */
void sim_signer_believe(struct signer *);

/* Called for each signature that it makes. */
void sim_signer_watch(struct signer *,
                      void (*fn)(void *ctx, const struct sign_text *, const unsigned char *),
                      void *ctx);

#endif
