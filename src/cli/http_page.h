/* The page, as the build makes it from http_page.html. */
#ifndef CLI_HTTP_PAGE_H
#define CLI_HTTP_PAGE_H

#include <stddef.h>

extern const unsigned char http_page[];
extern const size_t http_page_bytes;

#endif
