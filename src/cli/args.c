#include "cli/args.h"

#include "base/nearest.h"
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 100,
    HELP_COLUMN = 20,
    OPTIONS_MAX = 64, /* of a command, in all spellings; those behind them are not suggested */
    OPTION_BYTES = 32,
    OPTIONS_SHOWN = 12, /* to who named one that does not exist */
};

int args_bad(const char *command, const char *option, const char *what)
{
    fprintf(stderr, "tram %s: %s: %s\n", command, option, what);
    return CMD_USAGE;
}

/* ---- help ---- */

/* Prints the text from the given column on, filling lines; those after the first are indented. */
static void print_filled(const char *text, int column, int indent)
{
    const char *gap = "";

    for (const char *p = text; *p != '\0';) {
        int len = (int)strcspn(p, " \n");
        if (column > indent && column + (int)strlen(gap) + len > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            gap = "";
        }
        column += printf("%s%.*s", gap, len, p);
        gap = " ";
        p += len;
        for (; *p == ' '; p++)
            ;
        if (*p == '\n') {
            p++;
            printf("\n%*s", *p == '\n' || *p == '\0' ? 0 : indent, "");
            column = indent;
            gap = "";
        }
    }
    putchar('\n');
}

static void print_option(const struct args_option *o)
{
    if (o->help == NULL)
        return;
    if (o->name == NULL) {
        printf("\n%s\n", o->help);
        return;
    }
    int column = printf("  %s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    column += printf("%*s", column + 2 < HELP_COLUMN ? HELP_COLUMN - column : 2, "");
    print_filled(o->help, column, HELP_COLUMN);
}

static bool is_last(const struct args_option *o)
{
    return o->name == NULL && o->help == NULL;
}

static int help(const struct args_command *c)
{
    printf("usage: tram %s %s\n\n", c->name, c->usage);
    print_filled(c->about, 0, 0);
    putchar('\n');
    for (const struct args_option *o = c->options; !is_last(o); o++)
        print_option(o);
    if (c->dashes)
        printf("  %-*s%s\n", HELP_COLUMN - 2, "--", "what follows is no option");
    if (c->more != NULL) {
        putchar('\n');
        print_filled(c->more, 0, 0);
    }
    return CMD_DONE;
}

/* For the shell, a line for each spelling: the option, what it takes, its choices. */
static int complete(const struct args_command *c)
{
    for (const struct args_option *o = c->options; !is_last(o); o++) {
        if (o->name == NULL || o->help == NULL)
            continue;
        for (const char *name = o->name; *name != '\0';) {
            int len = (int)strcspn(name, ", ");
            printf("%.*s%s%s", len, name, o->value ? " " : "", o->value ? o->value : "");
            for (const char *const *k = o->choices; k != NULL && *k != NULL; k++)
                printf(" %s", *k);
            putchar('\n');
            name += len + (int)strspn(name + len, ", ");
        }
    }
    puts("--help");
    return CMD_DONE;
}

/* ---- reading ---- */

static bool is_called(const struct args_option *o, const char *word)
{
    const char *at = o->name ? strstr(o->name, word) : NULL;
    size_t len = strlen(word);

    return at != NULL && len > 1 && (at == o->name || at[-1] == ' ') &&
           (at[len] == '\0' || at[len] == ',');
}

static const struct args_option *find(const struct args_command *c, const char *word)
{
    for (const struct args_option *o = c->options; !is_last(o); o++)
        if (is_called(o, word))
            return o;
    return NULL;
}

/* The long spellings of a command's options. */
struct spellings {
    char name[OPTIONS_MAX][OPTION_BYTES];
    uint32_t count;
};

static const char *spelling_at(const void *of, uint32_t i)
{
    return ((const struct spellings *)of)->name[i];
}

static void spellings_fill(const struct args_command *c, struct spellings *s)
{
    for (const struct args_option *o = c->options; !is_last(o) && s->count < OPTIONS_MAX; o++) {
        const char *at = o->name && o->help ? strstr(o->name, "--") : NULL;
        if (at != NULL)
            snprintf(s->name[s->count++], OPTION_BYTES, "%.*s", (int)strcspn(at, ", "), at);
    }
}

static int no_such_option(const struct args_command *c, const char *word)
{
    struct spellings s = {.count = 0};

    spellings_fill(c, &s);
    struct nearest_names names = {spelling_at, &s, s.count};
    fprintf(stderr, "tram %s: there is no option '%s'; %s. `tram %s --help` explains them\n",
            c->name, word, nearest_text(word, names, OPTIONS_SHOWN).s, c->name);
    return CMD_USAGE;
}

static int take_number(const struct args_command *c, const struct args_option *o, const char *word,
                       const char *value)
{
    char *end = NULL;

    errno = 0;
    unsigned long long v = value ? strtoull(value, &end, 10) : 0;
    if (value == NULL || *value < '0' || *value > '9' || *end != '\0' || errno != 0 || v < o->min ||
        v > o->max) {
        fprintf(stderr, "tram %s: %s needs a whole number from %llu to %llu, not '%s'\n", c->name,
                word, (unsigned long long)o->min, (unsigned long long)o->max, value ? value : "");
        return CMD_USAGE;
    }
    if (o->number != NULL)
        *o->number = v;
    else
        *o->number32 = (uint32_t)v;
    return ARGS_GO;
}

static int take_choice(const struct args_command *c, const struct args_option *o, const char *word,
                       const char *value)
{
    for (unsigned i = 0; value != NULL && o->choices[i] != NULL; i++)
        if (strcmp(value, o->choices[i]) == 0) {
            *o->choice = i;
            return ARGS_GO;
        }
    fprintf(stderr, "tram %s: %s: %s: ", c->name, word, o->needs);
    for (unsigned i = 0; o->choices[i] != NULL; i++)
        fprintf(stderr, "%s%s", i ? ", " : "", o->choices[i]);
    const char *near = value ? nearest_name(value, nearest_array(o->choices)) : NULL;
    if (value != NULL)
        fprintf(stderr, ", not '%s'", value);
    if (near != NULL)
        fprintf(stderr, "; did you mean %s?", near);
    fputc('\n', stderr);
    return CMD_USAGE;
}

static int take_text(const struct args_command *c, const struct args_option *o, const char *word,
                     const char *value)
{
    bool full = o->list != NULL && o->list->count == o->list->max;

    if (value == NULL || full) {
        fprintf(stderr, "tram %s: %s: it needs %s\n", c->name, word, full ? "fewer" : o->needs);
        return CMD_USAGE;
    }
    if (o->list != NULL)
        o->list->item[o->list->count++] = value;
    else
        *o->text = value;
    return ARGS_GO;
}

static int take_value(const struct args_command *c, const struct args_option *o, const char *word,
                      const char *value)
{
    if (o->number != NULL || o->number32 != NULL)
        return take_number(c, o, word, value);
    return o->choice != NULL ? take_choice(c, o, word, value) : take_text(c, o, word, value);
}

static int take_word(const struct args_command *c, const char *word)
{
    for (const struct args_word *w = c->words; w->name != NULL; w++)
        if (*w->to == NULL) {
            *w->to = word;
            return ARGS_GO;
        }
    if (c->rest != NULL && c->rest->count < c->rest->max) {
        c->rest->item[c->rest->count++] = word;
        return ARGS_GO;
    }
    return args_bad(c->name, word, c->too_many);
}

static int check_words(const struct args_command *c)
{
    for (const struct args_word *w = c->words; w != NULL && w->name != NULL; w++)
        if (*w->to == NULL && w->missing != NULL)
            return args_bad(c->name, w->name, w->missing);
    return ARGS_GO;
}

int args_read(const struct args_command *c, int argc, char **argv)
{
    bool only_words = false;

    if (argc == 2 && strcmp(argv[1], "--complete") == 0)
        return complete(c);
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const struct args_option *o = only_words ? NULL : find(c, word);
        int code = ARGS_GO;
        if (c->words != NULL && (only_words || word[0] != '-' || word[1] == '\0')) {
            code = take_word(c, word);
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            return help(c);
        } else if (c->dashes && strcmp(word, "--") == 0) {
            only_words = true;
        } else if (o == NULL) {
            return no_such_option(c, word);
        } else if (o->flag != NULL) {
            *o->flag = true;
        } else {
            code = take_value(c, o, word, i + 1 < argc ? argv[i + 1] : NULL);
            i++;
        }
        if (code != ARGS_GO)
            return code;
        if (o != NULL && o->given != NULL)
            *o->given = true;
    }
    return check_words(c);
}
