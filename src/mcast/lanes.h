/* Lanes of the multicast layer, beside those of the log (agree/lanes.h). */
#ifndef MCAST_LANES_H
#define MCAST_LANES_H

enum { LANE_REPLY = 8 }; /* owner: a client; writer: a replica; ring of replies */

/* When the stream of another life begins, GUARD goes back to its start, then LIFE is set, then replies follow: who
 * finds its own life reads a GUARD that is meant for it. */
enum {
    REPLY_GUARD, /* replies below this position of the stream are there */
    REPLY_LIFE,  /* of the client that they are for */
    REPLY_WORDS
};

#endif
