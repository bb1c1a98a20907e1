#include "api/machine.h"

#include "base/clock.h"
#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t api_deliver(struct api_machine *m, const struct delivery *d, void *reply,
                     uint32_t reply_max)
{
    struct tram_delivery out = {
        .group = d->group,
        .client = d->client,
        .life = d->life,
        .seq = d->seq,
        .number = d->number,
        .dst = d->dst.group,
        .dst_count = d->dst.count,
        .body = d->body,
        .bytes = d->bytes,
    };
    if (m->calls.deliver == NULL)
        return 0;
    uint32_t bytes = m->calls.deliver(m->ctx, &out, reply, reply_max);
    if (bytes > reply_max && m->failure == NULL) {
        snprintf(m->failure_text, sizeof(m->failure_text),
                 "the state machine's reply to message %llu has %u bytes, and reply_max of the "
                 "cluster file is %u",
                 (unsigned long long)d->number, bytes, reply_max);
        m->failure = m->failure_text;
    }
    return bytes;
}

const char *api_machine_mistake(const struct tram_machine *c)
{
    int streams = (c->save_open != NULL) + (c->save_next != NULL) + (c->save_close != NULL) +
                  (c->load_open != NULL) + (c->load_next != NULL) + (c->load_close != NULL);
    if (streams != 0 && streams != 6)
        return "a machine has all of save_open, save_next, save_close, load_open, load_next and "
               "load_close, or none of them";
    return NULL;
}

/* ---- the pair for small states ---- */

static uint64_t time_now(const struct api_machine *m)
{
    return m->heartbeat_ns ? clock_now_ns() : 0;
}

static void warn_if_slow(struct api_machine *m, const char *call, uint64_t since_ns, size_t bytes)
{
    uint64_t took_ns = time_now(m) - since_ns;
    if (m->warned || m->heartbeat_ns == 0 || took_ns <= m->heartbeat_ns)
        return;
    m->warned = true;
    say_event_about(
        &m->say, SAY_EVENT_SLOW_STATE, &(struct say_about){.groups = m->group_name},
        "group %s: %s of %zu bytes took %llu ms, and its host did nothing else meanwhile "
        "(heartbeat_ms is %llu); use save_open, save_next and load_open, load_next, which "
        "work in pieces",
        m->group_name, call, bytes, (unsigned long long)(took_ns / 1000000),
        (unsigned long long)(m->heartbeat_ns / 1000000));
}

static bool save_pair(struct api_machine *m)
{
    m->saved = NULL;
    m->saved_bytes = m->saved_at = 0;
    uint64_t since_ns = time_now(m);
    if (m->calls.save && m->calls.save(m->ctx, m->group, &m->saved, &m->saved_bytes) != 0)
        return false;
    warn_if_slow(m, "save", since_ns, m->saved_bytes);
    return true;
}

static int load_pair(struct api_machine *m)
{
    uint64_t since_ns = time_now(m);
    int rc = 0;
    if (m->calls.load)
        rc = m->calls.load(m->ctx, m->group, m->loading, m->load_at);
    warn_if_slow(m, "load", since_ns, m->load_at);
    return rc == 0 ? 0 : -1;
}

/* ---- saving ---- */

static int cannot(struct api_machine *m, bool can, const char *failure)
{
    if (!can && m->failure == NULL)
        m->failure = failure;
    return can ? 0 : -1;
}

static int cannot_save(struct api_machine *m, bool can)
{
    return cannot(m, can, "the state machine could not save its state");
}

static int cannot_load(struct api_machine *m, bool can)
{
    return cannot(m, can, "the state machine could not load its state");
}

void *api_save_open(void *machine, uint64_t *bytes)
{
    struct api_machine *m = machine;
    *bytes = TRAM_BYTES_UNKNOWN;
    if (m->calls.save_open) {
        void *save = m->calls.save_open(m->ctx, m->group, bytes);
        cannot_save(m, save != NULL);
        return save;
    }
    if (cannot_save(m, save_pair(m)) < 0)
        return NULL;
    *bytes = m->saved_bytes;
    return m;
}

int api_save_next(void *machine, void *save, void *out, uint32_t room)
{
    struct api_machine *m = machine;
    if (m->calls.save_open) {
        int got = m->calls.save_next(m->ctx, m->group, save, out, room);
        return cannot_save(m, got >= 0 && (uint32_t)got <= room) < 0 ? -1 : got;
    }
    size_t left = m->saved_bytes - m->saved_at, n = left < room ? left : room;
    if (n > 0)
        memcpy(out, (const unsigned char *)m->saved + m->saved_at, n);
    m->saved_at += n;
    return (int)n;
}

void api_save_close(void *machine, void *save)
{
    struct api_machine *m = machine;
    if (m->calls.save_open)
        m->calls.save_close(m->ctx, m->group, save);
    free(m->saved);
    m->saved = NULL;
}

bool api_save_whole(struct api_machine *m, void **data, size_t *bytes)
{
    uint64_t expected;
    size_t room = 0, at = 0;
    unsigned char *all = NULL;
    int got = 1;
    *data = NULL;
    *bytes = 0;
    if (m->calls.save_open == NULL)
        return m->calls.save &&
               cannot_save(m, m->calls.save(m->ctx, m->group, data, bytes) == 0) == 0;
    void *save = api_save_open(m, &expected);
    while (save && got > 0) {
        if (room - at < STATE_PIECE_BYTES) {
            room = room ? 2 * room : 4 * STATE_PIECE_BYTES;
            all = grow("the state of a machine", all, 1, room);
        }
        got = api_save_next(m, save, all + at, STATE_PIECE_BYTES);
        at += got > 0 ? (size_t)got : 0;
    }
    if (save)
        api_save_close(m, save);
    *data = all;
    *bytes = at;
    return save && got == 0;
}

/* ---- loading ---- */

/* Room for more of a state; its size may be unknown or wrong. */
static bool load_room(struct api_machine *m, size_t more)
{
    if (m->loading && m->load_bytes - m->load_at >= more)
        return true;
    size_t room = m->load_at + more > 2 * m->load_bytes ? m->load_at + more : 2 * m->load_bytes;
    unsigned char *larger = realloc(m->loading, room + 1);
    if (larger == NULL)
        return false;
    m->loading = larger;
    m->load_bytes = room;
    return true;
}

int api_load_open(void *machine, uint64_t bytes)
{
    struct api_machine *m = machine;
    if (m->calls.load_open)
        return cannot_load(m, m->calls.load_open(m->ctx, m->group, bytes) >= 0);
    free(m->loading);
    m->loading = NULL;
    m->load_bytes = m->load_at = 0;
    return cannot(m, load_room(m, bytes == TRAM_BYTES_UNKNOWN ? 0 : bytes),
                  "no memory for the state of a group");
}

int api_load_next(void *machine, const void *data, uint32_t bytes)
{
    struct api_machine *m = machine;
    if (m->calls.load_open)
        return cannot_load(m, m->calls.load_next(m->ctx, m->group, data, bytes) >= 0);
    if (cannot(m, load_room(m, bytes), "no memory for the state of a group") < 0)
        return -1;
    memcpy(m->loading + m->load_at, data, bytes);
    m->load_at += bytes;
    return 0;
}

int api_load_close(void *machine, bool whole)
{
    struct api_machine *m = machine;
    if (m->calls.load_open)
        return cannot_load(m, m->calls.load_close(m->ctx, m->group, whole) >= 0);
    int rc = whole ? cannot_load(m, load_pair(m) == 0) : 0;
    free(m->loading);
    m->loading = NULL;
    return rc;
}

void api_machine_fini(struct api_machine *m)
{
    free(m->saved);
    free(m->loading);
    m->saved = NULL;
    m->loading = NULL;
}
