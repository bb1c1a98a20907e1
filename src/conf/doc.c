#include "conf/doc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* ---- what errors show ---- */

void doc_show_file(const char *path, char out[DOC_FILE_BYTES])
{
    size_t bytes = strlen(path);

    if (bytes < DOC_FILE_BYTES)
        snprintf(out, DOC_FILE_BYTES, "%s", path);
    else
        snprintf(out, DOC_FILE_BYTES, "...%s", path + bytes - (DOC_FILE_BYTES - 4));
}

struct shown doc_shown(const char *text)
{
    struct shown out;
    size_t n = 0;

    for (; text[n] != '\0' && n < DOC_SHOWN_BYTES - 4; n++) {
        unsigned char c = (unsigned char)text[n], after = (unsigned char)text[n + 1];
        /* 0xc2 leads the control characters from 0x80 on, which terminals obey as they do ESC. */
        bool control = c < ' ' || c == 0x7f || (c == 0xc2 && after < 0xa0);
        out.s[n] = control ? '?' : (char)c;
        if (control && c == 0xc2 && n + 1 < DOC_SHOWN_BYTES - 4)
            out.s[++n] = '?';
    }
    bool cut = text[n] != '\0';
    while (cut && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--; /* not within a character */
    snprintf(out.s + n, sizeof out.s - n, "%s", cut ? "..." : "");
    return out;
}

struct shown doc_what(const struct doc *d, const struct node *n)
{
    static const struct shown list = {"a list"}, map = {"a map"}, nothing = {"nothing"};
    struct shown out;

    if (n->kind != NODE_TEXT)
        return n->kind == NODE_LIST ? list : map;
    if (*doc_text(d, n) == '\0')
        return nothing;
    struct shown text = doc_shown(doc_text(d, n));
    snprintf(out.s, sizeof out.s, "'%.*s'", (int)sizeof out.s - 3, text.s);
    return out;
}

int doc_bad(const struct doc *d, uint32_t line, struct err *e, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_INVALID, "%s:%u: %s", d->file, line, text);
}

const struct node *doc_child(const struct doc *d, const struct node *n, uint32_t number)
{
    uint32_t at = n->first;

    CHECK(n->kind != NODE_TEXT && number < n->count);
    for (uint32_t i = 0; i < number; i++)
        at = doc_node(d, at)->next;
    return doc_node(d, at);
}

const struct node *doc_value(const struct doc *d, const struct node *map, const char *key)
{
    uint32_t at = map->first;

    CHECK(map->kind == NODE_MAP);
    for (uint32_t i = 0; i < map->count; i += 2) {
        const struct node *k = doc_node(d, at);
        if (strcmp(doc_text(d, k), key) == 0)
            return doc_node(d, k->next);
        at = doc_node(d, k->next)->next;
    }
    return NULL;
}

/* ---- building the tree ---- */

struct open_node {
    uint32_t index; /* of the list or map whose children come now */
    uint32_t last;  /* its last child so far, 0 if none */
};

struct builder {
    struct doc *d;
    struct open_node open[DOC_DEPTH_MAX];
    uint32_t depth;
    uint32_t documents;
    struct err *e;
};

/* Room for `more` elements behind `used`, by doubling. */
static int grow(void **array, size_t size, size_t used, size_t more, size_t *room)
{
    if (used + more <= *room)
        return 0;
    size_t wanted = *room ? *room : 256;
    while (wanted < used + more)
        wanted *= 2;
    void *grown = realloc(*array, wanted * size);
    if (grown == NULL)
        return ERR_NOMEM;
    *array = grown;
    *room = wanted;
    return 0;
}

static int add_text(struct doc *d, const char *text, size_t bytes, uint32_t *at)
{
    void *array = d->texts;

    int rc = grow(&array, 1, d->texts_bytes, bytes + 1, &d->texts_room);
    d->texts = array;
    if (rc < 0)
        return rc;
    *at = (uint32_t)d->texts_bytes;
    if (bytes > 0)
        memcpy(d->texts + d->texts_bytes, text, bytes);
    d->texts[d->texts_bytes + bytes] = '\0';
    d->texts_bytes += bytes + 1;
    return 0;
}

/* Finds the key among those that the map has already. */
static int check_key(struct builder *b, const struct node *map, const struct node *key)
{
    struct doc *d = b->d;
    uint32_t at = map->first;

    if (key->kind != NODE_TEXT)
        return doc_bad(d, key->line, b->e, "a key must be a word, not %s; write `key: value`",
                       doc_what(d, key).s);
    const char *text = doc_text(d, key);
    if (map->count / 2 >= DOC_KEYS_MAX)
        return doc_bad(d, key->line, b->e, "more than %d keys in one map; no map has so many",
                       DOC_KEYS_MAX);
    for (uint32_t i = 0; i < map->count; i += 2) {
        const struct node *old = doc_node(d, at);
        if (strcmp(doc_text(d, old), text) == 0)
            return doc_bad(d, key->line, b->e,
                           "key '%s' a second time, the first is in line %u;"
                           " leave one of them out",
                           doc_shown(text).s, old->line);
        at = doc_node(d, old->next)->next;
    }
    return 0;
}

/* Appends a node to the list or map that is open. */
static int add_node(struct builder *b, struct node n, uint32_t *index)
{
    struct doc *d = b->d;
    size_t room = d->room;
    void *array = d->node;

    if (d->nodes == DOC_NODES_MAX)
        return doc_bad(d, n.line, b->e, "more than %d values in the file; no cluster has so many",
                       DOC_NODES_MAX);
    int rc = grow(&array, sizeof n, d->nodes, 1, &room);
    d->node = array;
    d->room = (uint32_t)room;
    if (rc < 0)
        return rc;
    if (b->depth > 0) {
        struct open_node *parent = &b->open[b->depth - 1];
        struct node *p = &d->node[parent->index];
        if (p->kind == NODE_MAP && p->count % 2 == 0) {
            rc = check_key(b, p, &n);
            if (rc < 0)
                return rc;
        }
        if (parent->last != 0)
            d->node[parent->last].next = d->nodes;
        else
            p->first = d->nodes;
        parent->last = d->nodes;
        p->count++;
    }
    d->node[d->nodes] = n;
    *index = d->nodes++;
    return 0;
}

static int open_node(struct builder *b, struct node n)
{
    uint32_t index;

    if (b->depth == DOC_DEPTH_MAX)
        return doc_bad(b->d, n.line, b->e,
                       "lists and maps nested more than %d deep; a cluster file"
                       " needs 4",
                       DOC_DEPTH_MAX);
    int rc = add_node(b, n, &index);
    if (rc == 0)
        b->open[b->depth++] = (struct open_node){.index = index};
    return rc;
}

/* Anchors and tags of a value: what the file says must be what stands in that line. */
static int check_plain(struct builder *b, uint32_t line, const yaml_char_t *anchor,
                       const yaml_char_t *tag)
{
    if (anchor != NULL)
        return doc_bad(b->d, line, b->e,
                       "anchor '&%s': anchors are not supported here; write the"
                       " value out where it is needed, or quote a text that begins with '&'",
                       doc_shown((const char *)anchor).s);
    if (tag != NULL)
        return doc_bad(b->d, line, b->e,
                       "tag '%s': tags are not supported here; leave it out, or"
                       " quote a text that begins with '!'",
                       doc_shown((const char *)tag).s);
    return 0;
}

static int take_scalar(struct builder *b, const yaml_event_t *ev, struct node n)
{
    const char *text = (const char *)ev->data.scalar.value;
    size_t bytes = ev->data.scalar.length;
    uint32_t index;

    int rc = check_plain(b, n.line, ev->data.scalar.anchor, ev->data.scalar.tag);
    if (rc < 0)
        return rc;
    if (memchr(text, '\0', bytes) != NULL)
        return doc_bad(b->d, n.line, b->e, "a text with a zero byte in it; no value has one");
    rc = add_text(b->d, text, bytes, &n.text);
    return rc < 0 ? rc : add_node(b, n, &index);
}

static int take_event(struct builder *b, const yaml_event_t *ev)
{
    struct node n = {.line = (uint32_t)ev->start_mark.line + 1,
                     .from = (uint32_t)ev->start_mark.index,
                     .to = (uint32_t)ev->end_mark.index,
                     .column = (uint32_t)ev->start_mark.column};
    int rc = 0;

    switch (ev->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++ > 0)
            rc = doc_bad(b->d, n.line, b->e,
                         "a second document begins here; a cluster file has"
                         " one, remove the line `---` or what follows it");
        break;
    case YAML_ALIAS_EVENT:
        rc = doc_bad(b->d, n.line, b->e,
                     "alias '*%s': aliases are not supported here; write the"
                     " value out, or quote a text that begins with '*'",
                     doc_shown((const char *)ev->data.alias.anchor).s);
        break;
    case YAML_SCALAR_EVENT:
        n.block_text = ev->data.scalar.style == YAML_LITERAL_SCALAR_STYLE ||
                       ev->data.scalar.style == YAML_FOLDED_SCALAR_STYLE;
        rc = take_scalar(b, ev, n);
        break;
    case YAML_SEQUENCE_START_EVENT:
        n.kind = NODE_LIST;
        n.flow = ev->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
        rc = check_plain(b, n.line, ev->data.sequence_start.anchor, ev->data.sequence_start.tag);
        rc = rc < 0 ? rc : open_node(b, n);
        break;
    case YAML_MAPPING_START_EVENT:
        n.kind = NODE_MAP;
        n.flow = ev->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
        rc = check_plain(b, n.line, ev->data.mapping_start.anchor, ev->data.mapping_start.tag);
        rc = rc < 0 ? rc : open_node(b, n);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        CHECK(b->depth > 0);
        b->depth--;
        b->d->node[b->open[b->depth].index].to = n.to;
        break;
    default:
        break;
    }
    return rc;
}

/* ---- libyaml's complaints ---- */

/* What libyaml says, or begins to say, and what a person should do then. */
static const struct {
    const char *problem, *advice;
} advice_list[] = {
    {"could not find expected ':'", "write `key: value`, with a space behind the colon"},
    {"mapping values are not allowed",
     "check the indentation, and quote a value that has a colon and a space in it"},
    {"did not find expected ',' or ']'", "put commas between the items and close the `[` with `]`"},
    {"did not find expected ',' or '}'", "put commas between the pairs and close the `{` with `}`"},
    {"did not find expected key", "keys of one map begin in the same column"},
    {"did not find expected '-' indicator", "items of one list begin with `- ` in the same column"},
    {"block sequence entries are not allowed", "items of a list begin with `- ` below their key"},
    {"found character that cannot start any token", "quote a value that begins with @ % or `"},
    {"did not find expected node content",
     "a value is missing, or needs quotes as an IPv6 address does: \"[::1]:7101\""},
    {"found unexpected end of stream", "close the quote"},
    {"found unexpected document indicator", "close the quote"},
    {"found unknown escape character", "write `\\\\` for a backslash, or use single quotes"},
    {"control characters are not allowed", "write it as plain text in UTF-8"},
};

static const char *advice_for(const char *problem)
{
    for (size_t i = 0; i < sizeof advice_list / sizeof advice_list[0]; i++)
        if (strncmp(problem, advice_list[i].problem, strlen(advice_list[i].problem)) == 0)
            return advice_list[i].advice;
    if (strstr(problem, "UTF") != NULL)
        return "save the file as UTF-8";
    return "compare with what `tram init` writes";
}

static uint32_t line_of_offset(const char *text, size_t bytes, size_t offset)
{
    uint32_t line = 1;

    for (size_t i = 0; i < offset && i < bytes; i++)
        line += text[i] == '\n';
    return line;
}

static size_t offset_of_line(const char *text, size_t bytes, uint32_t line)
{
    size_t i = 0;

    for (uint32_t at = 1; i < bytes && at < line; i++)
        at += text[i] == '\n';
    return i;
}

/* True if the line is indented with a tab, or with spaces and a tab. */
static bool line_has_tab(const char *text, size_t bytes, uint32_t line)
{
    size_t i = offset_of_line(text, bytes, line);

    while (i < bytes && (text[i] == ' ' || text[i] == '-'))
        i++;
    return i < bytes && text[i] == '\t';
}

/* True if nothing but blanks comes from that line on. */
static bool line_is_the_end(const char *text, size_t bytes, uint32_t line)
{
    size_t i = offset_of_line(text, bytes, line);

    while (i < bytes && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r'))
        i++;
    return i == bytes;
}

static int say_problem(struct doc *d, const yaml_parser_t *p, const char *text, size_t bytes,
                       struct err *e)
{
    const char *problem = p->problem != NULL ? p->problem : "cannot be read";
    uint32_t line = (uint32_t)p->problem_mark.line + 1;
    char begun[64] = "";

    if (p->error == YAML_MEMORY_ERROR)
        return err_set(e, ERR_NOMEM, "%s: no memory to read it", d->file);
    if (p->error == YAML_READER_ERROR)
        return doc_bad(d, line_of_offset(text, bytes, p->problem_offset), e, "not YAML: %s; %s",
                       problem, advice_for(problem));
    if (line_has_tab(text, bytes, line))
        return doc_bad(d, line, e, "a tab in the indentation; YAML wants spaces there");
    if (p->context != NULL) {
        uint32_t context_line = (uint32_t)p->context_mark.line + 1;
        /* What was never closed is noticed at the end of the file, but is wrong where it began. */
        if (line_is_the_end(text, bytes, line))
            line = context_line;
        else if (context_line != line)
            snprintf(begun, sizeof begun, " (for what began in line %u)", context_line);
    }
    return doc_bad(d, line, e, "not YAML: %s%s; %s", problem, begun, advice_for(problem));
}

int doc_read(struct doc *d, const char *text, size_t bytes, const char *file, struct err *e)
{
    struct builder b = {.d = d, .e = e};
    yaml_parser_t parser;
    bool more = true;
    int rc = 0;

    memset(d, 0, sizeof *d);
    doc_show_file(file, d->file);
    if (!yaml_parser_initialize(&parser))
        return err_set(e, ERR_NOMEM, "%s: no memory to read it", d->file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    while (more && rc == 0) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = say_problem(d, &parser, text, bytes, e);
            break;
        }
        more = event.type != YAML_STREAM_END_EVENT;
        rc = take_event(&b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (rc == ERR_NOMEM)
        err_set(e, rc, "%s: no memory to read it", d->file);
    if (rc < 0)
        doc_fini(d);
    return rc;
}

void doc_fini(struct doc *d)
{
    free(d->node);
    free(d->texts);
    d->node = NULL;
    d->texts = NULL;
    d->nodes = d->room = 0;
    d->texts_bytes = d->texts_room = 0;
}
