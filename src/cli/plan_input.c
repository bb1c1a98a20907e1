#include "cli/plan_input.h"

#include "conf/value.h"
#include "trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A set in the making, and where it stands, for errors. */
struct draft {
    uint16_t list[OVERLAY_GROUPS_MAX];
    uint32_t count;
    const char *file;
    uint32_t line;
    uint32_t seen[OVERLAY_GROUPS_MAX]; /* the last line that had the group; 0: none */
};

/* N of "gN", 0 if it is none: 1 to 1024, without zeros in front, so that each has one name. */
static uint32_t group_number(const char *name)
{
    uint32_t n = 0;

    if (name[0] != 'g' || name[1] == '0')
        return 0;
    for (name++; *name >= '0' && *name <= '9' && n <= OVERLAY_GROUPS_MAX; name++)
        n = n * 10 + (uint32_t)(*name - '0');
    return *name == '\0' && n <= OVERLAY_GROUPS_MAX ? n : 0;
}

static int draft_add(struct plan_input *in, struct draft *d, const char *name, size_t len,
                     struct err *e)
{
    uint32_t known = in->names.count, number = intern_add(&in->names, name, len);

    if (number == known && known == OVERLAY_GROUPS_MAX)
        return err_set(e, ERR_INVALID, "%s:%u: group '%.*s' is one too many: at most %u", d->file,
                       d->line, (int)(len < 40 ? len : 40), name, OVERLAY_GROUPS_MAX);
    if (d->seen[number] == d->line)
        return err_set(e, ERR_INVALID, "%s:%u: group '%.*s' twice in one set", d->file, d->line,
                       (int)(len < 40 ? len : 40), name);
    d->seen[number] = d->line;
    d->list[d->count++] = (uint16_t)number;
    return 0;
}

static int draft_end(struct plan_input *in, struct draft *d, uint64_t weight, struct err *e)
{
    struct dst_set s;

    if (weight > PLAN_WEIGHT_MAX - in->total)
        return err_set(e, ERR_INVALID, "%s:%u: the weights sum up to more than 2^52; divide them",
                       d->file, d->line);
    int rc = dst_normalise(d->list, d->count, OVERLAY_GROUPS_MAX, &s, e);
    if (rc < 0)
        return rc;
    uint32_t list = intern_add(&in->lists, s.group, s.count * sizeof(uint16_t));
    in->weight = intern_grow(in->weight, &in->weight_max, list, sizeof in->weight[0]);
    in->weight[list] += weight;
    in->total += weight;
    d->count = 0;
    return 0;
}

/* ---- lines ---- */

static int parse_weight(const struct draft *d, const char *word, uint64_t *weight, struct err *e)
{
    char *end = NULL;

    errno = 0;
    unsigned long long v = strtoull(word, &end, 10);
    if (*word < '0' || *word > '9' || *end != '\0' || errno != 0 || v == 0 || v > PLAN_WEIGHT_MAX)
        return err_set(e, ERR_INVALID,
                       "%s:%u: a line begins with its weight, a whole number from 1 to 2^52, not "
                       "'%.40s'",
                       d->file, d->line, word);
    *weight = v;
    return 0;
}

static int parse_group(struct plan_input *in, struct draft *d, const char *word, struct err *e)
{
    char numbered[32];

    if (*word >= '0' && *word <= '9' && word[strspn(word, "0123456789")] == '\0') {
        snprintf(numbered, sizeof numbered, "g%.20s", word);
        if (group_number(numbered) == 0)
            return err_set(e, ERR_INVALID, "%s:%u: group %.40s: the numbers are 1 to %u", d->file,
                           d->line, word, OVERLAY_GROUPS_MAX);
        word = numbered;
    }
    if (!name_ok(word))
        return err_set(e, ERR_INVALID,
                       "%s:%u: '%.40s' is no name of a group: letters, digits and - _ . make one",
                       d->file, d->line, word);
    return draft_add(in, d, word, strlen(word), e);
}

static int parse_line(struct plan_input *in, struct draft *d, char *text, struct err *e)
{
    static const char blanks[] = " \t\r\n";
    uint64_t weight = 0;
    char *left = NULL;
    int rc;

    text[strcspn(text, "#")] = '\0';
    char *word = strtok_r(text, blanks, &left);
    if (word == NULL)
        return 0;
    if ((rc = parse_weight(d, word, &weight, e)) < 0)
        return rc;
    while ((word = strtok_r(NULL, blanks, &left)) != NULL)
        if ((rc = parse_group(in, d, word, e)) < 0)
            return rc;
    if (d->count == 0)
        return err_set(e, ERR_INVALID,
                       "%s:%u: a weight and no group; a line is like `10 g1 g3`, or `10 1 3`",
                       d->file, d->line);
    return draft_end(in, d, weight, e);
}

int plan_input_lines(struct plan_input *in, FILE *from, const char *file, struct err *e)
{
    struct draft d = {.file = file};
    char *text = NULL;
    size_t room = 0;
    ssize_t got;
    int rc = 0;

    while (rc == 0 && (got = getline(&text, &room, from)) >= 0) {
        d.line++;
        rc = strlen(text) == (size_t)got
                 ? parse_line(in, &d, text, e)
                 : err_set(e, ERR_INVALID, "%s:%u: a zero byte; this is no text", file, d.line);
    }
    if (rc == 0 && ferror(from))
        rc = err_sys(e, "%s: read", file);
    free(text);
    return rc;
}

/* ---- traces ---- */

static int read_trace(struct plan_input *in, const char *path, struct err *e)
{
    struct draft d = {.file = path};
    struct trace_reader r;
    struct trace_event ev;
    struct trace_text group;

    int rc = trace_reader_open(&r, path, e);
    if (rc < 0)
        return rc;
    while ((rc = trace_read(&r, &ev, e)) > 0) {
        if (ev.kind != TRACE_CAST)
            continue;
        d.line = r.line;
        while (rc >= 0 && trace_dst_next(&ev.dst, &group))
            rc = draft_add(in, &d, group.at, group.len, e);
        if (rc < 0 || (rc = draft_end(in, &d, 1, e)) < 0)
            break;
    }
    trace_reader_close(&r);
    return rc;
}

static int is_trace(const struct dirent *f)
{
    size_t len = strlen(f->d_name), suffix = strlen(TRACE_SUFFIX);

    return len > suffix && strcmp(f->d_name + len - suffix, TRACE_SUFFIX) == 0;
}

int plan_input_trace(struct plan_input *in, const char *dir, struct err *e)
{
    struct dirent **file = NULL;
    int rc = 0, count = scandir(dir, &file, is_trace, alphasort);

    if (count < 0)
        return err_sys(e, "%s: read the directory", dir);
    if (count == 0)
        rc = err_set(e, ERR_INVALID, "%s: there is no trace in it, no file *" TRACE_SUFFIX, dir);
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        CHECK(asprintf(&path, "%s/%s", dir, file[i]->d_name) >= 0);
        if (rc == 0)
            rc = read_trace(in, path, e);
        free(path);
        free(file[i]);
    }
    free(file);
    return rc;
}

/* ---- the final form ---- */

/* By length first, so that s2 comes before s10. */
static int compare_names(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    size_t xs = strcspn(x, "0123456789"), ys = strcspn(y, "0123456789");

    if (xs == ys && strncmp(x, y, xs) == 0 && strlen(x) != strlen(y))
        return strlen(x) < strlen(y) ? -1 : 1;
    return strcmp(x, y);
}

/* Fills name[], and gives each name of the input its group. */
static void number_groups(struct plan_input *in, uint16_t *group_of)
{
    char **came = calloc(in->names.count, sizeof came[0]);
    uint32_t highest = 0;
    bool numbered = true;

    CHECK(came != NULL);
    for (uint32_t i = 0; i < in->names.count; i++) {
        uint32_t len;
        const char *text = intern_text(&in->names, i, &len);
        CHECK((came[i] = strndup(text, len)) != NULL);
        uint32_t n = group_number(came[i]);
        numbered = numbered && n > 0;
        highest = n > highest ? n : highest;
    }
    in->groups = numbered ? highest : in->names.count;
    CHECK((in->name = calloc(in->groups, sizeof in->name[0])) != NULL);
    for (uint32_t g = 0; g < in->groups; g++)
        if (numbered)
            CHECK(asprintf(&in->name[g], "g%u", g + 1) > 0);
        else
            CHECK((in->name[g] = strdup(came[g])) != NULL);
    if (!numbered)
        qsort(in->name, in->groups, sizeof in->name[0], compare_names);
    for (uint32_t i = 0; i < in->names.count; i++) {
        uint32_t g = numbered ? group_number(came[i]) - 1 : 0;
        while (strcmp(in->name[g], came[i]) != 0)
            g++;
        group_of[i] = (uint16_t)g;
        free(came[i]);
    }
    free(came);
}

int plan_input_finish(struct plan_input *in, struct err *e)
{
    uint16_t group_of[OVERLAY_GROUPS_MAX];
    uint64_t members = 0;

    if (in->lists.count == 0)
        return err_set(e, ERR_INVALID, "the input has no destination set");
    number_groups(in, group_of);
    for (uint32_t i = 0; i < in->lists.count; i++)
        members += in->lists.keys[i].len / sizeof(uint16_t);
    in->set = calloc(in->lists.count, sizeof in->set[0]);
    in->member = calloc(members, sizeof in->member[0]);
    CHECK(in->set != NULL && in->member != NULL);
    uint16_t *list = in->member;
    for (; in->set_count < in->lists.count; in->set_count++) {
        struct plan_set *s = &in->set[in->set_count];
        uint32_t bytes;
        const char *text = intern_text(&in->lists, in->set_count, &bytes);
        uint32_t count = bytes / (uint32_t)sizeof(uint16_t);
        memcpy(list, text, bytes);
        for (uint32_t i = 0; i < count; i++)
            list[i] = group_of[list[i]];
        int rc = dst_normalise(list, count, in->groups, &s->dst, e);
        if (rc < 0)
            return rc;
        s->weight = in->weight[in->set_count];
        list += count;
    }
    return 0;
}

void plan_input_fini(struct plan_input *in)
{
    for (uint32_t g = 0; in->name != NULL && g < in->groups; g++)
        free(in->name[g]);
    free(in->name);
    free(in->set);
    free(in->member);
    free(in->weight);
    intern_fini(&in->names);
    intern_fini(&in->lists);
    *in = (struct plan_input){0};
}
