#include "disk/block_sim_impl.h"

#include "base/grow.h"

#include <stdio.h>
#include <string.h>

static const char what[] = "a directory of a simulated disk";

static struct sim_entry *names_find(const struct sim_names *n, const char *name)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (strcmp(n->entries[i].name, name) == 0)
            return &n->entries[i];
    return NULL;
}

static void names_set(struct sim_names *n, const char *name, struct sim_file *f)
{
    struct sim_entry *e = names_find(n, name);

    if (!e) {
        n->entries = grow(what, n->entries, sizeof *n->entries, n->count + 1);
        e = &n->entries[n->count++];
        snprintf(e->name, sizeof e->name, "%s", name);
    }
    e->file = f;
}

static void names_drop(struct sim_names *n, const char *name)
{
    *names_find(n, name) = n->entries[n->count - 1];
    n->count--;
}

static void names_copy(struct sim_names *to, const struct sim_names *from)
{
    to->entries = grow(what, to->entries, sizeof *to->entries, from->count + 1);
    if (from->count > 0)
        memcpy(to->entries, from->entries, from->count * sizeof *to->entries);
    to->count = from->count;
}

static bool names_have(const struct sim_names *n, const struct sim_file *f)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (n->entries[i].file == f)
            return true;
    return false;
}

/* The one before it may not have come to the platters: then the file has another name there, or none, and keeps it. */
static void change_apply(struct sim_names *n, const struct sim_change *c)
{
    struct sim_entry *e = names_find(n, c->name);

    if (c->act == BLOCK_CREATE) {
        names_set(n, c->name, c->file);
        return;
    }
    if (!e || e->file != c->file)
        return;
    names_drop(n, c->name);
    if (c->act == BLOCK_RENAME)
        names_set(n, c->to, c->file);
}

static bool is_named(const struct sim_dir *d, const struct sim_file *f)
{
    for (uint32_t i = 0; i < d->change_count; i++)
        if (d->changes[i].file == f)
            return true;
    return names_have(&d->cache, f) || names_have(&d->platter, f);
}

static void drop_nameless(struct sim_dir *d)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < d->file_count; i++)
        if (is_named(d, d->files[i]))
            d->files[kept++] = d->files[i];
        else
            sim_file_free(d->files[i]);
    d->file_count = kept;
}

void sim_dir_flush(struct sim_dir *d)
{
    names_copy(&d->platter, &d->cache);
    d->change_count = 0;
    drop_nameless(d);
}

void sim_dir_lose(struct sim_dir *d, struct rng *r, uint32_t ppm)
{
    for (uint32_t i = 0; i < d->change_count; i++)
        if (rng_chance_ppm(r, ppm))
            change_apply(&d->platter, &d->changes[i]);
    names_copy(&d->cache, &d->platter);
    d->change_count = 0;
    drop_nameless(d);
}

void sim_dir_change(struct sim_dir *d, const struct block_step *s, struct sim_file *f)
{
    struct sim_change c = {.act = s->act, .file = f};

    snprintf(c.name, sizeof c.name, "%s", s->name);
    if (s->act == BLOCK_RENAME)
        snprintf(c.to, sizeof c.to, "%s", s->to);
    change_apply(&d->cache, &c);
    d->changes = grow(what, d->changes, sizeof *d->changes, d->change_count + 1);
    d->changes[d->change_count++] = c;
}

static struct sim_file *file_in(const struct sim_names *n, const char *name)
{
    const struct sim_entry *e = names_find(n, name);

    return e ? e->file : NULL;
}

struct sim_file *sim_dir_find(const struct sim_dir *d, const char *name)
{
    return file_in(&d->cache, name);
}

struct sim_file *sim_dir_find_kept(const struct sim_dir *d, const char *name)
{
    return file_in(&d->platter, name);
}

struct sim_file *sim_dir_make(struct sim_dir *d, uint64_t bytes)
{
    d->files = grow(what, d->files, sizeof(struct sim_file *), d->file_count + 1);
    return d->files[d->file_count++] = sim_file_make(bytes);
}

void sim_dir_wipe(struct sim_dir *d)
{
    d->change_count = 0;
    d->cache.count = d->platter.count = 0;
    drop_nameless(d);
}

void sim_dir_fini(struct sim_dir *d)
{
    sim_dir_wipe(d);
    grow_free(d->files);
    grow_free(d->platter.entries);
    grow_free(d->cache.entries);
    grow_free(d->changes);
}
