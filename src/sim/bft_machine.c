/* What a simulated member of a group of which some lie applies: a counter (counter_machine.h), and a reply to each message, which is what the
 * counter is after it. The replies are part of the state. */
#include "sim/bft_run_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- applying ---- */

static void reply(const struct part *p, const struct entry *e)
{
    struct reply *r = replies_begin(p->replies, e->source, e->life);
    r->seq = e->srcpos;
    r->status = REPLY_DONE;
    r->bytes = sizeof(p->counter.state.hash);
    memcpy(r->body, &p->counter.state.hash, sizeof(p->counter.state.hash));
    replies_end(p->replies, e->source, r);
}

static void machine_apply(void *ctx, const struct entry *e)
{
    struct part *p = ctx;
    struct member *m = p->of;
    struct run *r = m->run;
    uint64_t known = r->check.history_count;
    if (m->hostile) {
        check_apply(&p->counter.state, e);
    } else {
        check_message(&r->check, m->rank, &p->counter.state, e);
        TRACE(m, "r%u applies message %llu: source %u at %llu, %u bytes", m->rank,
              (unsigned long long)p->counter.state.count, e->source, (unsigned long long)e->srcpos,
              e->bytes);
        if (r->check.history_count > known)
            bft_clients_decided(r, e, p->counter.state.hash);
    }
    reply(p, e);
}

static void machine_loaded(struct counter_machine *counter, bool good)
{
    struct part *p = (struct part *)counter;
    struct member *m = p->of;
    if (m->hostile)
        return;
    if (!good)
        bft_check_violated(&m->run->bft_check, "snapshot bytes", 0,
                           "member %u got other bytes than were saved", m->rank);
    check_loaded(&m->run->check, m->rank, &p->counter.state);
    TRACE(m, "r%u has loaded a state of %llu messages", m->rank,
          (unsigned long long)p->counter.state.count);
}

/* ---- its state: the bytes of the replies, how many they are before them, then the counter's ---- */

static void *save_open(void *ctx, uint64_t *bytes)
{
    struct part *p = ctx;
    uint64_t replies = replies_save_bytes(p->replies);
    CHECK(sizeof(replies) + replies <= sizeof(p->saved));
    memcpy(p->saved, &replies, sizeof(replies));
    replies_save(p->replies, p->saved + sizeof(replies));
    p->saved_bytes = (uint32_t)(sizeof(replies) + replies);
    p->saved_at = 0;
    void *save = counter_machine_ops.save_open(&p->counter, bytes);
    *bytes = STATE_UNKNOWN;
    return save;
}

static int save_next(void *ctx, void *save, void *out, uint32_t room)
{
    struct part *p = ctx;
    uint32_t left = p->saved_bytes - p->saved_at, bytes = left < room ? left : room;
    if (bytes == 0)
        return counter_machine_ops.save_next(&p->counter, save, out, room);
    memcpy(out, p->saved + p->saved_at, bytes);
    p->saved_at += bytes;
    return (int)bytes;
}

static void save_close(void *ctx, void *save)
{
    struct part *p = ctx;
    counter_machine_ops.save_close(&p->counter, save);
}

static int load_open(void *ctx, uint64_t bytes)
{
    struct part *p = ctx;
    (void)bytes;
    p->loaded_at = 0;
    p->counter.unsized = true;
    return counter_machine_ops.load_open(&p->counter, STATE_UNKNOWN);
}

/* So many bytes of it belong to the replies, as far as is known. */
static uint64_t replies_end_at(const struct part *p)
{
    uint64_t replies = 0;
    if (p->loaded_at < sizeof(replies))
        return sizeof(replies);
    memcpy(&replies, p->loaded, sizeof(replies));
    return sizeof(replies) + replies;
}

static int load_next(void *ctx, const void *data, uint32_t bytes)
{
    struct part *p = ctx;
    const unsigned char *from = data;
    while (bytes > 0 && p->loaded_at < replies_end_at(p)) {
        if (p->loaded_at == sizeof(p->loaded))
            return -1;
        p->loaded[p->loaded_at++] = *from++;
        bytes--;
    }
    return bytes > 0 ? counter_machine_ops.load_next(&p->counter, from, bytes) : 0;
}

static int load_close(void *ctx, bool whole)
{
    struct part *p = ctx;
    const uint64_t head = sizeof(uint64_t);
    if (whole && !replies_load(p->replies, p->loaded + head, p->loaded_at - head))
        return -1;
    return counter_machine_ops.load_close(&p->counter, whole);
}

static const struct state_ops state = {.save_open = save_open,
                                       .save_next = save_next,
                                       .save_close = save_close,
                                       .load_open = load_open,
                                       .load_next = load_next,
                                       .load_close = load_close};

const struct log_machine bft_machine = {.apply = machine_apply, .state = &state};

/* ---- opening ---- */

int bft_machine_open(struct part *p, struct member *m, struct err *e)
{
    struct run *r = m->run;
    *p = (struct part){.counter = {.pad = r->pad, .on_load = machine_loaded}, .of = m};
    int rc = replies_open(&(struct replies_options){.mem = m->at->host->mem,
                                                    .region = REGION,
                                                    .clients = r->fleet.clients,
                                                    .client_node = r->fleet.hosts,
                                                    .reply_max = REPLY_MAX,
                                                    .ring_bytes = REPLY_RING},
                          &p->replies, e);
    for (uint32_t s = 0; rc == 0 && s < r->fleet.clients; s++)
        rc = replies_client_open(p->replies, s, e);
    return rc;
}

void bft_machine_close(struct part *p)
{
    replies_close(p->replies);
    p->replies = NULL;
}

/* Every member writes them, and nobody waits for a leader to. */
void bft_machine_post(struct part *p)
{
    replies_step(p->replies);
    if (replies_waiting(p->replies))
        replies_flush(p->replies);
}
