/* Reading a command's arguments, with errors that say what would be right.
 *
 * A command describes its options in one table: how they are called, what they take, where that goes
 * and what --help says of them. From it they are read, --help is printed, and the shell completes
 * (`tram COMMAND --complete`, for tools/tram.bash-completion). */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* Values of an option that may be given several times. */
struct args_list {
    const char **item;
    int count, max;
};

/* Exactly one of flag, text, list, number, number32 and choice says where it goes. */
struct args_option {
    const char
        *name; /* "--trace", or "-c, --file"; NULL: the help is a heading for those that follow */
    const char *value; /* what it takes, as --help calls it; NULL: nothing, it is a flag */
    const char *help;  /* NULL: it is for ourselves, and not shown */

    bool *flag;
    const char **text;
    struct args_list *list;
    uint64_t *number; /* a whole number, of these: */
    uint32_t *number32;
    uint64_t min, max;
    unsigned *choice;           /* which of these: */
    const char *const *choices; /* ends with NULL */

    const char *needs; /* if it has no value, or a wrong choice: "a file", "the shapes are" */
    bool *given;       /* may be NULL */
};

/* A word that is no option. */
struct args_word {
    const char *name;
    const char **to;
    const char *missing; /* what to say if it is left out; NULL: it may be */
};

struct args_command {
    const char *name;
    const char *usage; /* what follows the name */
    const char *about; /* what it does. Here and below lines are filled; \n begins a new one */
    const struct args_option *options; /* the last one has neither name nor help */
    const struct args_word *words;     /* the last one has no name; NULL: there are none */
    struct args_list *rest;            /* takes the words behind these; NULL: there are no more */
    const char *too_many;              /* what to say of one word more */
    const char *more;                  /* what else --help says, after the options */
    bool dashes;                       /* after -- all are words */
};

enum { ARGS_GO = -1 };

/* Reads them. ARGS_GO, or the exit code: help was given, or a message printed. */
int args_read(const struct args_command *, int argc, char **argv);

/* Prints what is wrong; returns CMD_USAGE. */
int args_bad(const char *command, const char *option, const char *what);

#endif
