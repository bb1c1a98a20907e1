/* What those who lie know: everything. Whatever anybody has signed is there at once, under what was signed, and so are the bodies of
 * broadcasts and the values that went by. */
#ifndef SIM_KNOWN_H
#define SIM_KNOWN_H

#include "agree/bft_wire.h"
#include "base/rng.h"

enum { KNOWN_THINGS_MAX = 512, KNOWN_BODIES_MAX = 192 };

/* Something that members have signed, and who has. */
struct known_thing {
    uint32_t role;
    uint64_t number, more;
    struct digest digest;
    uint32_t ranks; /* bits */
    struct bft_mark mark[BFT_MEMBERS_MAX];
};

/* A body of a broadcast. */
struct known_body {
    uint32_t rank;
    uint64_t key;
    struct digest digest;
    uint32_t bytes;
    void *data;
};

struct known {
    struct known_thing thing[KNOWN_THINGS_MAX]; /* a ring, as are the bodies */
    struct known_body body[KNOWN_BODIES_MAX];
    uint64_t things, bodies;
};

void known_free(struct known *);

void known_sign(struct known *, const struct sign_text *, const unsigned char *signature);
void known_take_body(struct known *, uint32_t rank, uint64_t key, const void *body, uint32_t bytes);

/* Has its signer signed it? */
bool known_is_signed(const struct known *, const struct sign_text *);

/* One that fits, beginning anywhere; NULL: there is none. fits may be NULL. */
const struct known_thing *known_thing(const struct known *, struct rng *,
                                      bool (*fits)(const struct known_thing *, const void *),
                                      const void *of);
const struct known_body *known_body(const struct known *, struct rng *,
                                    bool (*fits)(const struct known_body *, const void *),
                                    const void *of);

/* So many of its marks; false: there are fewer. */
bool known_marks(const struct known_thing *, uint32_t count, struct bft_mark *out);

/* Frames that stand behind each other, as members write them to each other. Begins with {0}; false: there are no more. */
struct known_frame {
    uint32_t next; /* offset */
    const struct bft_frame *frame;
    uint32_t bytes; /* of its data */
};
bool known_frame_next(const void *written, uint32_t bytes, struct known_frame *);

#endif
