/* What a part of a test says on standard error, instead of it being printed. */
#ifndef TESTS_STDERR_CAPTURE_H
#define TESTS_STDERR_CAPTURE_H

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct stderr_capture {
    int saved, file;
};

static inline struct stderr_capture stderr_capture_begin(void)
{
    struct stderr_capture h = {.saved = dup(2), .file = memfd_create("stderr", MFD_CLOEXEC)};

    fflush(stderr);
    dup2(h.file, 2);
    return h;
}

/* What was said so far. */
static inline void stderr_capture_text(const struct stderr_capture *h, char *text, size_t room)
{
    fflush(stderr);
    ssize_t got = pread(h->file, text, room - 1, 0);
    text[got > 0 ? got : 0] = 0;
}

/* Puts stderr back; what was said is in `text`. */
static inline void stderr_capture_end(struct stderr_capture *h, char *text, size_t room)
{
    stderr_capture_text(h, text, room);
    dup2(h->saved, 2);
    close(h->saved);
    close(h->file);
}

#endif
