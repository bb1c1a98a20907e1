/* What a memory of a log that is kept has on its disk. Private to agree/.
 *
 * A memory runs nothing, but what stands in it is gone with the power. So one with a disk follows the lane of the leader that it has
 * promised, as replicas do: it appends what stands there, and tells the leader when that is durable; a commit and a candidate
 * count its disk as they count a replica's. It applies nothing and has no state: its chain begins where its lane does, and is
 * written again, shorter, when the journal is half full. After the power was gone the chain is put into a lane of its own,
 * for the next leader to find, and the region is opened with what was pledged. One whose disk does not have what it may have
 * promised says that it is blank, and is taken back by the leader as a memory without a disk is. */
#ifndef AGREE_MEMORY_KEEP_H
#define AGREE_MEMORY_KEEP_H

#include "agree/memory.h"

struct memory_keep;

/* A log lane of a memory; sizes are settled. */
struct mem_lane_spec memory_log_spec(const struct log_options *, uint32_t memory, uint32_t writer);

/* The options are settled, and the region is open. */
int memory_keep_open(struct log_memory *, const struct log_options *, struct memory_keep **,
                     struct err *);
void memory_keep_close(struct memory_keep *);

/* What is durable now is told; what has come is appended. Returns work done. */
int memory_keep_step(struct memory_keep *, uint64_t now_ns);

/* When it has to be stepped again though nothing happens. */
uint64_t memory_keep_next_ns(const struct memory_keep *);

void memory_keep_status(const struct memory_keep *, struct unit_status *);

/* Something of it was lost, and is not there again. */
bool memory_keep_lacks(const struct memory_keep *);

#endif
