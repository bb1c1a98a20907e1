/* Memory that is written to disks from where it stands: a write then holds few large pages instead of many small ones, which is less
 * work for the kernel in each of them, and when the process ends. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* At a page's begin, and with large pages where it is large and the machine has them; contents are undefined. Given back by free.
 * NULL: there is none. */
void *pages_alloc(size_t bytes);

#endif
