/* Memory for what one thread writes with every message, while another may have its neighbour on the heap: it shares no
 * cache line with anything else, nor the pair of lines that processors fetch together. (A client and the thread that
 * polls hosts lost 150 ns of a message to each other where their structures happened to stand side by side.) */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stddef.h>

/* Zeroed; given back by free. NULL: there is none. */
void *lines_alloc(size_t bytes);

#endif
