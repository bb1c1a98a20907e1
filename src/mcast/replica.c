#include "mcast/protocol.h"

#include "base/planted.h"

enum { LOOKS_PER_HEARTBEAT = 16 };

/* ---- applying ---- */

/* It counts as no delivery. What is replayed from the disk was answered before, and whoever had asked for it is gone. */
static void deliver_backup(struct replica *r, const struct message_view *v)
{
    struct reply *reply = replies_begin(r->replies, v->m->client, v->m->life);
    *reply = (struct reply){.seq = v->m->seq, .status = REPLY_DONE};
    if (r->opt.machine->backup && v->bytes == MESSAGE_BACKUP_BYTES && !log_replaying(r->log))
        r->opt.machine->backup(r->opt.ctx, v->body, r->delivered);
    replies_end(r->replies, v->m->client, reply);
}

void replica_deliver(struct replica *r, const struct message_view *v)
{
    if (log_broken(r->log))
        return; /* one apply may deliver several */
    if (v->m->kind == MESSAGE_BACKUP) {
        deliver_backup(r, v);
        return;
    }
    struct reply *reply = replies_begin(r->replies, v->m->client, v->m->life);
    struct delivery d = {
        .group = r->opt.group,
        .client = v->m->client,
        .life = v->m->life,
        .seq = v->m->seq,
        .number = r->delivered++,
        .dst = v->dst,
        .body = v->body,
        .bytes = v->bytes,
    };
    *reply = (struct reply){.seq = v->m->seq, .status = REPLY_DONE};
    reply->bytes = r->opt.machine->deliver(r->opt.ctx, &d, reply->body, r->opt.sizes.reply_max);
    if (reply->bytes > r->opt.sizes.reply_max) {
        log_stop(r->log, "the state machine's reply is longer than reply_max");
        return; /* and nobody gets it */
    }
    replies_end(r->replies, v->m->client, reply);
}

void replica_refuse(struct replica *r, const struct message_view *v)
{
    struct reply *reply = replies_begin(r->replies, v->m->client, v->m->life);
    *reply = (struct reply){.seq = v->m->seq, .status = REPLY_REFUSED};
    replies_end(r->replies, v->m->client, reply);
}

/* ---- writing out, as leader ---- */

int replica_send(struct replica *r, uint32_t edge, const void *payload, uint32_t bytes)
{
    uint64_t end;
    int rc = source_send(r->edge[edge].source, payload, bytes, &end);
    r->sent |= rc == 0;
    return rc;
}

/* What a predecessor may have left unwritten. */
static void begin_to_lead(struct replica *r)
{
    for (uint32_t i = 0; i < r->edges; i++) {
        source_rewind(r->edge[i].source);
        r->edge[i].flushed = source_taken(r->edge[i].source);
    }
    r->sent = true;
    replies_rewind(r->replies);
}

static int write_out(struct replica *r, uint64_t now_ns)
{
    int work = 0;
    for (uint32_t i = 0; r->sent && i < r->edges; i++) {
        struct edge *edge = &r->edge[i];
        if (source_end(edge->source) != edge->flushed) {
            source_flush(edge->source);
            edge->flushed = source_end(edge->source);
            work++;
        }
    }
    r->sent = false;
    bool step = now_ns >= r->step_ns;
    if (step)
        r->step_ns = now_ns + r->opt.heartbeat_ns;
    /* Where writes are messages a stream goes to the leader alone at first: a new one must not wait long. */
    bool look = step || (r->opt.mem->remote && now_ns >= r->look_ns);
    if (look)
        r->look_ns = now_ns + r->opt.heartbeat_ns / LOOKS_PER_HEARTBEAT;
    for (uint32_t i = 0; look && i < r->edges; i++)
        source_step(r->edge[i].source, now_ns);
    work += replies_flush(r->replies);
    if (step) {
        replies_step(r->replies);
        if (r->protocol->step)
            r->protocol->step(r);
    }
    return work;
}

/* A follower has the same streams as its leader. Over a network the leader may be cut off from another group's leader while
 * both reach everybody else. Then the streams go on through the follower. */
static void help_out(struct replica *r, uint64_t now_ns)
{
    if (!r->opt.mem->remote || now_ns < r->look_ns)
        return;
    r->look_ns = now_ns + r->opt.heartbeat_ns / LOOKS_PER_HEARTBEAT;
    for (uint32_t i = 0; i < r->edges; i++)
        source_help(r->edge[i].source, now_ns);
}

static int settle(struct unit *u, uint64_t now_ns)
{
    struct replica *r = u->of;
    int work = log_settle(r->log, now_ns);
    bool more = r->protocol->settle && r->protocol->settle(r);
    r->work = work + more;
    bool leading = log_leading(r->log);
    if (leading) {
        if (!r->led)
            begin_to_lead(r);
        /* Where nothing was applied there is nothing to write. */
        if (work > 0 || more || !r->led || now_ns >= r->step_ns || replies_waiting(r->replies) ||
            (r->opt.mem->remote && now_ns >= r->look_ns))
            work += write_out(r, now_ns);
    } else {
        help_out(r, now_ns);
    }
    r->led = u->leads = leading;
    u->broken = log_broken(r->log);
    return work;
}

uint16_t replica_group(const struct replica *r)
{
    return r->opt.group;
}

bool replica_leads(const struct replica *r)
{
    return log_leading(r->log);
}

void replica_status(const struct replica *r, struct unit_status *s)
{
    log_status(r->log, s);
    s->delivered = r->delivered;
}

uint64_t replica_delivered(const struct replica *r)
{
    return r->delivered;
}

/* ---- as a unit ---- */

static int post(struct unit *u, uint64_t now_ns)
{
    const struct replica *r = u->of;
    return log_post(r->log, now_ns);
}

static uint64_t next_ns(const struct unit *u)
{
    const struct replica *r = u->of;
    return log_next_ns(r->log);
}

static void status(const struct unit *u, struct unit_status *s)
{
    replica_status(u->of, s);
}

static int offer(struct unit *u, const struct mem_lane_spec *lane, struct err *e)
{
    return replica_client_open(u->of, lane, e);
}

/* What a protocol has changes with what the log applies: where that was nothing, it was looked at before. A planted bug
 * is for the checkers of promises to find. */
static const char *check(const struct unit *u)
{
    const struct replica *r = u->of;
    const char *broken = log_check(r->log);
    if (broken || r->work == 0 || r->protocol->check == NULL || log_broken(r->log) || PLANTED_ANY)
        return broken;
    return r->protocol->check(r);
}

static void as_unit_close(struct unit *u)
{
    replica_close(u->of);
}

struct unit replica_unit(struct replica *r)
{
    static const struct unit_ops ops = {.post = post,
                                        .settle = settle,
                                        .next_ns = next_ns,
                                        .status = status,
                                        .offer = offer,
                                        .check = check,
                                        .close = as_unit_close};
    return (struct unit){.ops = &ops, .of = r, .region = r->opt.group};
}
