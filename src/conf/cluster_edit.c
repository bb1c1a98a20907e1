#include "conf/cluster_edit.h"

#include "conf/cluster_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    COLUMN_MAX = 64, /* further in nobody writes */
    INSERT_BYTES = 512,
};

/* The one piece that changes: `cut` bytes at `at` become the text. */
struct splice {
    size_t at, cut;
    char text[INSERT_BYTES];
};

struct editor {
    const struct doc *d;
    const char *text;
    size_t bytes;
    const struct cluster_edit *edit;
    struct cluster_keys after; /* what the name is going to have */
    struct splice out;
};

/* ---- places in the text ---- */

/* The byte of a character. */
static size_t byte_of(const struct editor *w, uint32_t character)
{
    static const char mark[] = "\xef\xbb\xbf"; /* a byte order mark is no character of it */
    size_t i = w->bytes >= 3 && memcmp(w->text, mark, 3) == 0 ? 3 : 0;

    for (; character > 0 && i < w->bytes; character--)
        for (i++; i < w->bytes && ((unsigned char)w->text[i] & 0xc0) == 0x80; i++)
            ;
    return i;
}

/* Where the line ends, without what ends it. */
static size_t line_end(const struct editor *w, size_t at)
{
    const char *end = memchr(w->text + at, '\n', w->bytes - at);
    size_t i = end != NULL ? (size_t)(end - w->text) : w->bytes;

    return i > at && w->text[i - 1] == '\r' ? i - 1 : i;
}

static size_t line_start(const struct editor *w, size_t at)
{
    while (at > 0 && w->text[at - 1] != '\n')
        at--;
    return at;
}

static size_t next_line(const struct editor *w, size_t at)
{
    const char *end = memchr(w->text + at, '\n', w->bytes - at);

    return end != NULL ? (size_t)(end - w->text) + 1 : w->bytes;
}

/* What ends the lines of this file. */
static const char *line_break(const struct editor *w)
{
    const char *end = memchr(w->text, '\n', w->bytes);

    return end != NULL && end > w->text && end[-1] == '\r' ? "\r\n" : "\n";
}

/* The byte behind the node; false if that is hard to tell. */
static bool end_of(const struct editor *w, const struct node *n, size_t *at)
{
    while (n->kind != NODE_TEXT && !n->flow) {
        if (n->count == 0)
            return false;
        n = doc_child(w->d, n, n->count - 1);
    }
    if (n->block_text)
        return false;
    *at = byte_of(w, n->to);
    return true;
}

/* Is there only a comment, or nothing, behind this place in its line? */
static bool rest_is_empty(const struct editor *w, size_t at)
{
    size_t end = line_end(w, at), i = at;

    while (i < end && (w->text[i] == ' ' || w->text[i] == '\t'))
        i++;
    return i == end || (w->text[i] == '#' && i > at);
}

static bool has(const struct editor *w, size_t from, size_t to, const char *chars)
{
    for (size_t i = from; i < to; i++)
        if (strchr(chars, w->text[i]) != NULL)
            return true;
    return false;
}

/* ---- what is written ---- */

/* One key, a list of two, or an empty one: nobody has the name. */
static void keys_text(const struct cluster_keys *k, char *out, size_t bytes)
{
    char key[CLUSTER_KEYS_EACH][CLUSTER_PUBLIC_TEXT] = {"", ""};

    for (uint32_t i = 0; i < k->count; i++)
        cluster_public_text(k->key[i], key[i]);
    if (k->count == 1)
        snprintf(out, bytes, "%s", key[0]);
    else
        snprintf(out, bytes, "[%s%s%s]", key[0], k->count > 1 ? ", " : "", key[1]);
}

static bool put(struct editor *w, size_t at, size_t cut, const char *text)
{
    w->out.at = at;
    w->out.cut = cut;
    int n = snprintf(w->out.text, sizeof w->out.text, "%s", text);
    return n >= 0 && n < INSERT_BYTES;
}

/* A line of its own below the one of this place, so far in. */
static bool put_line(struct editor *w, size_t at, uint32_t column, const char *line)
{
    char text[INSERT_BYTES];

    if (column > COLUMN_MAX || !rest_is_empty(w, at))
        return false;
    int n = snprintf(text, sizeof text, "%s%*s%s", line_break(w), (int)column, "", line);
    return n >= 0 && n < INSERT_BYTES && put(w, line_end(w, at), 0, text);
}

/* ---- the keys of a name that has an entry ---- */

static bool replace(struct editor *w, const struct node *n)
{
    size_t from = byte_of(w, n->from);
    char text[INSERT_BYTES];

    keys_text(&w->after, text, sizeof text);
    return put(w, from, byte_of(w, n->to) - from, text);
}

/* The number of the key that goes, in its list. */
static uint32_t dropped(const struct editor *w, const struct node *list)
{
    char key[CLUSTER_PUBLIC_TEXT];

    cluster_public_text(w->edit->key, key);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct node *n = doc_child(w->d, list, i);
        if (n->kind == NODE_TEXT && strcmp(doc_text(w->d, n), key) == 0)
            return i;
    }
    return 0;
}

/* A list in brackets over several lines, or with comments in it: only what has to change. */
static bool change_wide_list(struct editor *w, const struct node *list)
{
    char text[INSERT_BYTES], key[CLUSTER_PUBLIC_TEXT];

    if (!w->edit->drop && list->count == 1) {
        cluster_public_text(w->edit->key, key);
        snprintf(text, sizeof text, ", %s", key);
        return put(w, byte_of(w, doc_child(w->d, list, 0)->to), 0, text);
    }
    if (!w->edit->drop || list->count != 2)
        return false;
    const struct node *a = doc_child(w->d, list, 0), *b = doc_child(w->d, list, 1);
    bool first = dropped(w, list) == 0;
    size_t from = byte_of(w, first ? a->from : a->to), to = byte_of(w, first ? b->from : b->to);
    return !has(w, from, to, "#") && put(w, from, to - from, "");
}

/* Where the dash of an item is, if it begins its line. */
static bool dash_of(const struct editor *w, const struct node *item, size_t *at)
{
    size_t from = byte_of(w, item->from), i = line_start(w, from);

    while (i < from && w->text[i] == ' ')
        i++;
    *at = i;
    if (i == from || w->text[i] != '-')
        return false;
    for (i++; i < from; i++)
        if (w->text[i] != ' ')
            return false;
    return true;
}

/* A list with a line for each. */
static bool change_lines(struct editor *w, const struct node *list)
{
    const struct node *last = doc_child(w->d, list, list->count - 1);
    char text[CLUSTER_PUBLIC_TEXT + 2] = "- ";
    size_t dash, end;

    if (!w->edit->drop) {
        cluster_public_text(w->edit->key, text + 2);
        return end_of(w, last, &end) && put_line(w, end, list->column, text);
    }
    const struct node *n = doc_child(w->d, list, dropped(w, list));
    if (!dash_of(w, n, &dash) || !end_of(w, n, &end) || has(w, dash, end, "\n") ||
        !rest_is_empty(w, end))
        return false;
    if (list->count == 1)
        return put(w, dash, end - dash, "  []"); /* further in than the key in any case */
    size_t from = line_start(w, dash), to = next_line(w, end);
    if (to == w->bytes && from > 0 && w->text[to - 1] != '\n')
        from =
            line_end(w, line_start(w, from - 1)); /* the last line has no end: take that before */
    return put(w, from, to - from, "");
}

static bool change_value(struct editor *w, const struct node *n)
{
    if (n->kind == NODE_TEXT)
        return !n->block_text && replace(w, n);
    if (n->kind != NODE_LIST)
        return false;
    if (!n->flow)
        return n->count > 0 && change_lines(w, n);
    bool narrow = !has(w, byte_of(w, n->from), byte_of(w, n->to), "#\n");
    return narrow ? replace(w, n) : change_wide_list(w, n);
}

/* Behind what the map has. */
static bool add_pair(struct editor *w, const struct node *map, const char *pair)
{
    char text[INSERT_BYTES];
    size_t end;

    if (map->count == 0 || !end_of(w, doc_child(w->d, map, map->count - 1), &end))
        return false;
    if (!map->flow)
        return put_line(w, end, map->column, pair);
    int n = snprintf(text, sizeof text, ", %s", pair);
    return n >= 0 && n < INSERT_BYTES && put(w, end, 0, text);
}

static bool change_entry(struct editor *w, const struct node *map)
{
    const struct node *value = doc_value(w->d, map, "key");
    char keys[INSERT_BYTES / 2], pair[INSERT_BYTES];

    if (value != NULL)
        return change_value(w, value);
    keys_text(&w->after, keys, sizeof keys);
    snprintf(pair, sizeof pair, "key: %s", keys);
    return add_pair(w, map, pair);
}

/* ---- a client that is not there yet ---- */

/* The first one: the list goes behind the hosts. */
static bool add_client_list(struct editor *w, const struct node *root, const char *entry)
{
    const struct node *hosts = doc_value(w->d, root, "hosts");
    char text[INSERT_BYTES];
    size_t end;

    if (root->flow) {
        snprintf(text, sizeof text, "client_keys: [%s]", entry);
        return add_pair(w, root, text);
    }
    if (root->column > COLUMN_MAX || !end_of(w, hosts, &end))
        return false;
    int n = snprintf(text, sizeof text, "client_keys:%s%*s- %s", line_break(w),
                     (int)root->column + 2, "", entry);
    return n >= 0 && n < INSERT_BYTES && put_line(w, end, root->column, text);
}

static bool add_client(struct editor *w, const struct node *root)
{
    const struct node *list = doc_value(w->d, root, "client_keys");
    char keys[INSERT_BYTES / 4], entry[INSERT_BYTES / 2], text[INSERT_BYTES];
    size_t end;

    keys_text(&w->after, keys, sizeof keys);
    snprintf(entry, sizeof entry, "{name: %s, key: %s}", w->edit->name, keys);
    if (list == NULL)
        return add_client_list(w, root, entry);
    if (list->kind != NODE_LIST)
        return false;
    if (list->count == 0)
        return list->flow && put(w, byte_of(w, list->from) + 1, 0, entry);
    if (!end_of(w, doc_child(w->d, list, list->count - 1), &end))
        return false;
    snprintf(text, sizeof text, "%s%s", list->flow ? ", " : "- ", entry);
    return list->flow ? put(w, end, 0, text) : put_line(w, end, list->column, text);
}

/* ---- either ---- */

static struct cluster_keys *keys_of(struct cluster *c, const struct cluster_edit *edit, int *index)
{
    *index = edit->client ? cluster_client(c, edit->name) : cluster_host(c, edit->name);
    if (*index == CLUSTER_NONE)
        return NULL;
    return edit->client ? &c->client_key[*index].keys : &c->host[*index].keys;
}

/* A client's place in the list, with its name. */
static struct cluster_keys *make_client(struct cluster *c, const char *name)
{
    struct cluster_client *k = &c->client_key[c->client_keys];

    if (c->client_keys == CLUSTER_CLIENT_KEYS_MAX || strlen(name) >= sizeof k->name)
        return NULL;
    c->client_keys++;
    snprintf(k->name, sizeof k->name, "%s", name);
    return &k->keys;
}

static int drop_key(struct cluster_keys *keys, const struct cluster_edit *edit, const char *file,
                    struct err *e)
{
    int i = cluster_keys_find(keys, edit->key);

    if (i == CLUSTER_NONE)
        return err_set(e, ERR_INVALID, "%s: '%s' does not have that key", file, edit->name);
    for (uint32_t k = (uint32_t)i + 1; k < keys->count; k++)
        memcpy(keys->key[k - 1], keys->key[k], sizeof keys->key[k]);
    keys->count--;
    return 0;
}

static int add_key(struct cluster *c, struct cluster_keys *keys, const struct cluster_edit *edit,
                   const char *file, struct err *e)
{
    uint32_t line;
    const char *owner = cluster_key_owner(c, edit->key, &line);

    if (owner != NULL)
        return err_set(e, ERR_INVALID, "%s:%u: '%s' has that key already", file, line, owner);
    if (keys->count == CLUSTER_KEYS_EACH)
        return err_set(e, ERR_INVALID,
                       "%s: '%s' has %u keys already; retire one before another is added", file,
                       edit->name, keys->count);
    memcpy(keys->key[keys->count++], edit->key, sizeof edit->key);
    return 0;
}

/* Changes the cluster as the text is to be changed. *entry is the number of the name in its list, CLUSTER_NONE if it is
 * new there. */
static int change_cluster(struct cluster *c, const struct cluster_edit *edit, const char *file,
                          int *entry, struct err *e)
{
    if (c->transport != CLUSTER_TCP || c->tls_ca[0] != '\0')
        return err_set(e, ERR_INVALID, "%s: keys are for transport: tcp without tls", file);
    if (edit->client && c->any_file[0] != '\0')
        return err_set(e, ERR_INVALID, "%s:%u: the clients' key is in %s, not here", file,
                       c->any_line, c->any_file);
    struct cluster_keys *keys = keys_of(c, edit, entry);
    if (keys == NULL && edit->client && !edit->drop)
        keys = make_client(c, edit->name);
    if (keys == NULL)
        return err_set(e, ERR_INVALID, "%s: there is no %s '%s', and no room for one", file,
                       edit->client ? "client" : "host", edit->name);
    return edit->drop ? drop_key(keys, edit, file, e) : add_key(c, keys, edit, file, e);
}

/* For a person to do. */
static int refuse(const struct editor *w, uint32_t line, struct err *e)
{
    char keys[INSERT_BYTES / 2];

    keys_text(&w->after, keys, sizeof keys);
    if (w->edit->client)
        return err_set(e, ERR_REFUSED,
                       "%s:%u: written in a way that is not changed without harm; write this entry"
                       " into client_keys: {name: %s, key: %s}",
                       w->d->file, line, w->edit->name, keys);
    return err_set(e, ERR_REFUSED,
                   "%s:%u: written in a way that is not changed without harm; write this into host"
                   " %s: key: %s",
                   w->d->file, line, w->edit->name, keys);
}

static bool find_splice(struct editor *w, int entry, uint32_t *line)
{
    const struct node *root = doc_node(w->d, 0);
    const struct node *list = doc_value(w->d, root, w->edit->client ? "client_keys" : "hosts");

    *line = list != NULL ? list->line : root->line;
    /* Marks are in characters of UTF-8, and lines end with a line feed. */
    if (w->bytes >= 2 &&
        (memcmp(w->text, "\xff\xfe", 2) == 0 || memcmp(w->text, "\xfe\xff", 2) == 0))
        return false;
    if (entry == CLUSTER_NONE)
        return add_client(w, root);
    const struct node *map = doc_child(w->d, list, (uint32_t)entry);
    *line = map->line;
    return change_entry(w, map);
}

static int apply(const struct editor *w, char **out, size_t *out_bytes, struct err *e)
{
    const struct splice *s = &w->out;
    size_t more = strlen(s->text);
    char *text = malloc(w->bytes - s->cut + more + 1);

    if (text == NULL)
        return err_set(e, ERR_NOMEM, "%s: no memory to change it", w->d->file);
    memcpy(text, w->text, s->at);
    memcpy(text + s->at, s->text, more);
    memcpy(text + s->at + more, w->text + s->at + s->cut, w->bytes - s->at - s->cut);
    *out_bytes = w->bytes - s->cut + more;
    text[*out_bytes] = '\0';
    *out = text;
    return 0;
}

/* Is the new text the cluster that was wanted? */
static bool is_right(const struct cluster *wanted, const char *text, size_t bytes, const char *file)
{
    struct cluster *c = NULL;
    struct err e = {""};
    bool right = cluster_parse_lax(text, bytes, file, &c, &e) == 0 && cluster_equal(c, wanted);

    cluster_free(c);
    return right;
}

int cluster_edit(const char *text, size_t bytes, const char *file, const struct cluster_edit *edit,
                 char **out, size_t *out_bytes, struct err *e)
{
    struct cluster *wanted = NULL;
    struct doc d = {.nodes = 0};
    int entry = CLUSTER_NONE;
    uint32_t line = 0;

    *out = NULL;
    *out_bytes = 0;
    int rc = cluster_parse_lax(text, bytes, file, &wanted, e);
    if (rc == 0)
        rc = doc_read(&d, text, bytes, file, e);
    if (rc == 0)
        rc = change_cluster(wanted, edit, file, &entry, e);
    if (rc < 0)
        goto out;
    struct editor w = {.d = &d, .text = text, .bytes = bytes, .edit = edit};
    int index;
    w.after = *keys_of(wanted, edit, &index);
    bool found = find_splice(&w, entry, &line);
    rc = found ? apply(&w, out, out_bytes, e) : ERR_REFUSED;
    if (rc == 0 && !is_right(wanted, *out, *out_bytes, file))
        rc = ERR_REFUSED;
    if (rc == ERR_REFUSED)
        refuse(&w, line, e);
    if (rc < 0) {
        free(*out);
        *out = NULL;
        *out_bytes = 0;
    }
out:
    doc_fini(&d);
    cluster_free(wanted);
    return rc;
}
