/* The state of a cell as it goes to who comes: its history, if it has one, and behind it what the user's machine saves. */
#include "api/group_impl.h"

#include <stdlib.h>
#include <string.h>

/* One that is being sent, of a cell with a history, which goes on while it is. */
struct save {
    unsigned char *copy;
    uint64_t bytes, at;
    void *machine; /* the machine's */
};

static int cannot(struct group_cell *c, const char *why)
{
    if (c->machine.failure == NULL)
        c->machine.failure = why;
    return ERR_CORRUPT;
}

static struct save *copy_history(const struct history *h)
{
    struct save *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->bytes = history_saved_bytes(h);
    s->copy = malloc(s->bytes);
    if (s->copy == NULL) {
        free(s);
        return NULL;
    }
    history_save(h, s->copy);
    return s;
}

static void *save_open(void *ctx, uint64_t *bytes)
{
    struct group_cell *c = ctx;
    if (c->history == NULL)
        return api_save_open(&c->machine, bytes);
    struct save *s = copy_history(c->history);
    if (s == NULL) {
        cannot(c, "no memory for a copy of the history");
        return NULL;
    }
    s->machine = api_save_open(&c->machine, bytes);
    if (s->machine == NULL) {
        free(s->copy);
        free(s);
        return NULL;
    }
    *bytes += *bytes == TRAM_BYTES_UNKNOWN ? 0 : s->bytes;
    return s;
}

static int save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct group_cell *c = ctx;
    struct save *s = save;
    if (c->history == NULL)
        return api_save_next(&c->machine, save, out, room);
    if (s->at == s->bytes)
        return api_save_next(&c->machine, s->machine, out, room);
    uint64_t n = s->bytes - s->at < room ? s->bytes - s->at : room;
    memcpy(out, s->copy + s->at, n);
    s->at += n;
    return (int)n;
}

static void save_close(void *ctx, void *save)
{
    struct group_cell *c = ctx;
    struct save *s = save;
    api_save_close(&c->machine, c->history ? s->machine : save);
    if (c->history == NULL)
        return;
    free(s->copy);
    free(s);
}

static int load_open(void *ctx, uint64_t bytes)
{
    struct group_cell *c = ctx;
    if (c->history)
        history_load_open(c->history);
    return api_load_open(&c->machine, c->history ? TRAM_BYTES_UNKNOWN : bytes);
}

static int load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct group_cell *c = ctx;
    int64_t took = c->history ? history_load_next(c->history, data, bytes) : 0;
    if (took < 0)
        return cannot(c, "the history that it was sent is none");
    if (took == bytes)
        return 0;
    return api_load_next(&c->machine, (const unsigned char *)data + took, bytes - (uint32_t)took);
}

static int load_close(void *ctx, bool whole)
{
    struct group_cell *c = ctx;
    int kept = c->history ? history_load_close(c->history, whole) : 0;
    int rc = api_load_close(&c->machine, whole && kept == 0);
    if (kept < 0)
        return cannot(c, "the history that it was sent is not whole");
    if (rc >= 0 && whole && c->of->trace)
        group_trace_loaded(c->of, c->machine.group);
    return rc;
}

const struct state_ops group_state_calls = {
    .save_open = save_open,
    .save_next = save_next,
    .save_close = save_close,
    .load_open = load_open,
    .load_next = load_next,
    .load_close = load_close,
};

void *group_state_ctx(void *group, uint32_t cell)
{
    struct tram_group *g = group;
    return &g->cell[cell];
}

void group_histories_view(struct tram_group *g, const struct view *now)
{
    for (uint32_t i = 0; g->histories && i < g->cells; i++) {
        uint64_t in = now ? now->cell[i].members | now->cell[i].learners : 0;
        if (g->cell[i].history && !in_set(in, g->index))
            history_void(g->cell[i].history);
    }
}
