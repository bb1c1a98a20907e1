/* For unit tests of commands: runs one with the words of a line, and keeps what it prints. */
#ifndef TESTS_CLI_FIXTURE_H
#define TESTS_CLI_FIXTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CLI_WORDS_MAX = 32 };

static char output[1 << 16]; /* standard output and standard error of the last one */

static inline int cli_run(int (*body)(int argc, char **argv), const char *line)
{
    static char words[512]; /* what was read may point there */
    char *argv[CLI_WORDS_MAX + 1] = {NULL};
    int argc = 0, old[2];

    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok(words, " "); w != NULL && argc < CLI_WORDS_MAX; w = strtok(NULL, " "))
        argv[argc++] = w;
    fflush(stdout);
    int fd = memfd_create("output", MFD_CLOEXEC);
    fcntl(fd, F_SETFL, O_APPEND);
    for (int i = 0; i < 2; i++) {
        old[i] = dup(i + 1);
        dup2(fd, i + 1);
    }
    int code = body(argc, argv);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        dup2(old[i], i + 1);
        close(old[i]);
    }
    ssize_t n = pread(fd, output, sizeof output - 1, 0);
    output[n > 0 ? n : 0] = '\0';
    close(fd);
    return code;
}

#endif
