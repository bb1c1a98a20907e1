/* Lanes of the multicast layer, beside those of the log (agree/lanes.h). */
#ifndef MCAST_LANES_H
#define MCAST_LANES_H

enum { LANE_REPLY = 8 }; /* owner: a client; writer: a replica; ring of replies */

enum { REPLY_GUARD, REPLY_WORDS }; /* replies below this position of the stream are there */

#endif
