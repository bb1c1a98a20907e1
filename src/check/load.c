#include "check/load.h"

#include "trace/intern.h"
#include "trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_EVENTS = 1 << 18 };

/* The events of a file mostly repeat the names of the last one. */
struct loader {
    struct amcast *a;
    struct vsync *v; /* NULL: there must be no views */
    struct load_report *report;
    struct trace_reader r;
    struct trace_text client_name, group_name, replica_name;
    uint32_t client, group, replica; /* what the names above stand for */
    uint32_t file;
    uint32_t *list; /* room for the groups of one dst */
    uint32_t list_max;

    /* Lists of destinations recur too: known by their very bytes. */
    struct intern dst_texts;
    uint32_t *dsts; /* by number in dst_texts */
    uint32_t dst_max;
};

static bool same_text(struct trace_text x, struct trace_text y)
{
    return x.len == y.len && (x.len == 0 || memcmp(x.at, y.at, x.len) == 0);
}

static uint32_t client_of(struct loader *l, const struct trace_event *ev)
{
    if (!same_text(ev->client, l->client_name)) {
        l->client = amcast_client(l->a, ev->client.at, ev->client.len);
        l->client_name = ev->client;
        if (l->r.unclosed) {
            l->report->crashed++;
            amcast_client_crashed(l->a, l->client);
        }
    }
    return l->client;
}

static int group_of(struct loader *l, struct trace_text name, uint32_t *out, struct err *e)
{
    *out = amcast_group(l->a, name.at, name.len);
    if (*out >= TRACE_GROUPS_MAX)
        return err_set(e, ERR_TOOBIG, "%s:%u: more than %d groups", l->r.path, l->r.line,
                       TRACE_GROUPS_MAX);
    return 0;
}

static int replica_of(struct loader *l, const struct trace_event *ev, uint32_t *out, struct err *e)
{
    if (!same_text(ev->group, l->group_name) || !same_text(ev->replica, l->replica_name)) {
        int rc = group_of(l, ev->group, &l->group, e);
        if (rc < 0)
            return rc;
        l->replica = amcast_replica(l->a, l->group, ev->replica.at, ev->replica.len);
        l->group_name = ev->group;
        l->replica_name = ev->replica;
    }
    *out = l->replica;
    return 0;
}

static int dst_of(struct loader *l, struct trace_text text, uint32_t *out, struct err *e)
{
    uint32_t had = l->dst_texts.count, count = 0;
    uint32_t t = intern_add(&l->dst_texts, text.at, text.len);
    if (t == had) {
        struct trace_text name;
        while (trace_dst_next(&text, &name)) {
            l->list = intern_grow(l->list, &l->list_max, count, sizeof(*l->list));
            int rc = group_of(l, name, &l->list[count++], e);
            if (rc < 0)
                return rc;
        }
        l->dsts = intern_grow(l->dsts, &l->dst_max, t, sizeof(*l->dsts));
        l->dsts[t] = amcast_dst(l->a, l->list, count);
    }
    *out = l->dsts[t];
    return 0;
}

/* ---- groups with views ---- */

static struct vsync_life life_of(struct loader *l, const struct trace_event *ev)
{
    return (struct vsync_life){vsync_member(l->v, ev->member.at, ev->member.len), ev->inc};
}

static void feed_view(struct loader *l, const struct trace_event *ev, struct amcast_place place)
{
    struct trace_text list = ev->members, name;
    uint32_t count = 0;
    while (trace_dst_next(&list, &name)) {
        l->list = intern_grow(l->list, &l->list_max, count, sizeof(*l->list));
        l->list[count++] = vsync_member(l->v, name.at, name.len);
    }
    vsync_view(l->v, life_of(l, ev), ev->vid, l->list, count, place);
}

static void feed_cell(struct loader *l, const struct trace_event *ev, struct amcast_place place)
{
    uint32_t cell = vsync_cell(l->v, ev->cell.at, ev->cell.len);
    if (ev->kind == TRACE_CELL_START)
        vsync_start(l->v, life_of(l, ev), cell, ev->vid, ev->n, place);
    else if (ev->kind == TRACE_CELL_DELIVER)
        vsync_deliver(l->v, life_of(l, ev), cell, ev->vid, ev->n,
                      vsync_message(l->v, ev->id.at, ev->id.len), place);
    else
        vsync_deliver_raw(l->v, life_of(l, ev), cell, ev->vid,
                          vsync_message(l->v, ev->id.at, ev->id.len), place);
}

static int feed_member(struct loader *l, const struct trace_event *ev, struct amcast_place place,
                       struct err *e)
{
    if (l->v == NULL)
        return err_set(e, ERR_INVALID, "%s:%u: a trace of a group with views", l->r.path,
                       l->r.line);
    l->report->views++;
    if (ev->kind == TRACE_VIEW)
        feed_view(l, ev, place);
    else if (ev->kind == TRACE_OUT)
        vsync_out(l->v, life_of(l, ev));
    else
        feed_cell(l, ev, place);
    return 0;
}

/* What a message was cast to is the cell that is named first. */
static void feed_cast(struct loader *l, const struct trace_event *ev)
{
    struct trace_text list = ev->dst, name;
    if (l->v && trace_dst_next(&list, &name))
        vsync_cast(l->v, vsync_message(l->v, ev->id.at, ev->id.len),
                   vsync_cell(l->v, name.at, name.len));
}

static int feed(struct loader *l, const struct trace_event *ev, struct err *e)
{
    struct amcast_place place = {l->file, l->r.line};
    struct amcast_delivery d = {.n = ev->n, .inc = ev->inc};
    int rc = 0;
    switch (ev->kind) {
    case TRACE_CAST:
        feed_cast(l, ev);
        rc = dst_of(l, ev->dst, &d.dst, e);
        if (rc == 0)
            amcast_cast(l->a, client_of(l, ev), amcast_message(l->a, ev->id.at, ev->id.len), d.dst,
                        place);
        break;
    case TRACE_START:
        rc = replica_of(l, ev, &d.replica, e);
        if (rc == 0)
            amcast_start(l->a, d.replica, d.inc, d.n, place);
        break;
    case TRACE_DELIVER:
        rc = replica_of(l, ev, &d.replica, e);
        if (rc == 0)
            rc = dst_of(l, ev->dst, &d.dst, e);
        d.message = amcast_message(l->a, ev->id.at, ev->id.len);
        if (rc == 0)
            amcast_deliver(l->a, &d, place);
        break;
    case TRACE_DONE:
        amcast_done(l->a, client_of(l, ev), amcast_message(l->a, ev->id.at, ev->id.len), place);
        break;
    case TRACE_GAP:
        if (l->report->gaps++ == 0)
            l->report->gap = place;
        amcast_gap(l->a);
        if (l->v)
            vsync_gap(l->v);
        break;
    case TRACE_VIEW:
    case TRACE_CELL_START:
    case TRACE_CELL_DELIVER:
    case TRACE_RAW_DELIVER:
    case TRACE_OUT:
        rc = feed_member(l, ev, place, e);
        break;
    case TRACE_FORMAT:
        break;
    }
    return rc;
}

/* Where it goes. */
struct load_to {
    struct amcast *a;
    struct vsync *v;
    load_progress *progress;
    void *arg;
    struct load_report *report;
};

static int load(const struct load_to *to, const char *path, struct err *e)
{
    load_progress *progress = to->progress;
    void *arg = to->arg;
    struct load_report *report = to->report;
    struct amcast *a = to->a;
    struct loader l = {.a = a, .v = to->v, .report = report};
    struct trace_event ev;
    uint64_t events = 0;
    int rc = trace_reader_open(&l.r, path, e);
    if (rc < 0)
        return rc;
    l.file = amcast_file(a, path);
    while ((rc = trace_read(&l.r, &ev, e)) > 0) {
        rc = feed(&l, &ev, e);
        if (rc < 0)
            break;
        if (++events % PROGRESS_EVENTS == 0 && progress != NULL)
            progress(arg, report, PROGRESS_EVENTS);
    }
    if (rc == 0 && progress != NULL)
        progress(arg, report, events % PROGRESS_EVENTS);
    report->files++;
    report->bytes += l.r.bytes;
    report->cut += l.r.cut;
    report->unclosed += l.r.unclosed;
    trace_reader_close(&l.r);
    intern_fini(&l.dst_texts);
    free(l.dsts);
    free(l.list);
    return rc;
}

static int is_trace(const struct dirent *d)
{
    size_t len = strlen(d->d_name), suffix = sizeof(TRACE_SUFFIX) - 1;
    return len > suffix && strcmp(d->d_name + len - suffix, TRACE_SUFFIX) == 0;
}

static int load_all(const struct load_to *to, const char *dir, struct err *e)
{
    struct dirent **names;
    int rc = 0, count = scandir(dir, &names, is_trace, versionsort);
    if (count < 0)
        return err_sys(e, "%s: cannot be read", dir);
    if (count == 0)
        rc = err_set(e, ERR_NOTFOUND, "%s: no traces (files *%s) are here", dir, TRACE_SUFFIX);
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (rc == 0 && asprintf(&path, "%s/%s", dir, names[i]->d_name) < 0) {
            path = NULL;
            rc = err_set(e, ERR_NOMEM, "%s", dir);
        }
        if (rc == 0)
            rc = load(to, path, e);
        free(path);
        free(names[i]);
    }
    free(names);
    return rc;
}

int load_dir(struct amcast *a, const char *dir, load_progress *progress, void *arg,
             struct load_report *report, struct err *e)
{
    return load_all(&(struct load_to){a, NULL, progress, arg, report}, dir, e);
}

int load_views(struct amcast *a, struct vsync *v, const char *dir, load_progress *progress,
               void *arg, struct load_report *report, struct err *e)
{
    return load_all(&(struct load_to){a, v, progress, arg, report}, dir, e);
}
