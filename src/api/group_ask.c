/* Calls and queries of members (include/tram/group.h). */
#include "api/group_impl.h"

enum { OWN_CODES = -100 }; /* what users return is above, what the layers below say is beneath */

static struct tram_item plain(const struct member_item *m)
{
    return (struct tram_item){.data = m->data,
                              .bytes = m->bytes,
                              .sender = m->sender,
                              .number = m->number,
                              .client = m->client};
}

/* They are not in traces: a place of the order that nobody has is none that differs. */
uint32_t group_on_call(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *m,
                       void *reply, uint32_t room)
{
    struct tram_group *g = ctx;
    const struct tram_item item = plain(m);
    uint32_t bytes = 0;
    g->cell[cell].delivered++;
    g->cell[cell].bytes += m->bytes;
    if (g->machine.call)
        bytes = g->machine.call(g->ctx, cell, vid, &item, reply, room);
    else if (g->machine.deliver)
        g->machine.deliver(g->ctx, cell, vid, &item, 1);
    if (g->topics > 0 || g->cell[cell].history)
        group_topics_deliver(g, cell, vid, &item, 1);
    return bytes;
}

int group_on_query(void *ctx, uint32_t cell, uint32_t from, const void *data, uint32_t bytes,
                   void *reply, uint32_t room)
{
    struct tram_group *g = ctx;
    if (g->machine.query == NULL)
        return ERR_NOTFOUND;
    int rc = g->machine.query(g->ctx, cell, from, data, bytes, reply, room);
    return rc > OWN_CODES ? rc : OWN_CODES + 1;
}

void group_on_answered(void *ctx, uint64_t ticket, const struct member_answer *a)
{
    struct tram_group *g = ctx;
    if (g->machine.answered == NULL)
        return;
    if (a == NULL) {
        g->machine.answered(g->ctx, ticket, NULL);
        return;
    }
    bool own = a->status <= 0 && a->status > OWN_CODES;
    g->machine.answered(g->ctx, ticket,
                        &(struct tram_answer){
                            .host = a->host,
                            .status = own ? a->status : api_error(NULL, a->status, NULL),
                            .data = a->data,
                            .bytes = a->bytes,
                            .version = a->version,
                        });
}

static int too_long(const struct tram_group *g, uint32_t bytes, struct err *e)
{
    return err_set(e, ERR_TOOBIG, "a question or reply of up to %u bytes; at most %u", bytes,
                   member_ask_max(g->member));
}

static int not_asked(const struct tram_group *g, uint32_t cell, int rc, uint32_t bytes,
                     uint32_t reply_max, struct err *e)
{
    if (rc == ERR_INVALID)
        return err_set(e, rc, "cell %s has mode: raw, and no order for calls",
                       cluster_cell_name(g->cluster->conf, cell).s);
    if (rc == ERR_TOOBIG && (reply_max > member_ask_max(g->member)))
        return too_long(g, reply_max, e);
    return group_not_sent(g, cell, rc, bytes, e);
}

int tram_group_call(struct tram_group *g, uint32_t cell, const void *data, uint32_t bytes,
                    uint32_t reply_max, uint64_t *ticket, struct tram_error *error)
{
    struct err e = {""};
    uint64_t unused;
    if (cell >= g->cells)
        return api_error(error, err_set(&e, ERR_NOTFOUND, "there is no cell %u", cell), &e);
    group_touched(g);
    int rc = member_call(g->member, cell, data, bytes, reply_max, ticket ? ticket : &unused);
    return rc == 0 ? TRAM_OK : api_error(error, not_asked(g, cell, rc, bytes, reply_max, &e), &e);
}

static int not_queried(const struct tram_group *g, uint32_t cell, uint32_t host, int rc,
                       uint32_t bytes, struct err *e)
{
    const struct cluster_cell_name name = cluster_cell_name(g->cluster->conf, cell);
    if (rc == ERR_TOOBIG)
        return too_long(g, bytes, e);
    if (rc == ERR_AGAIN)
        return err_set(e, rc, "cell %s: this host is in no view, or too much was asked already",
                       name.s);
    return err_set(e, rc, "cell %s: %s is not a member of it", name.s,
                   host < g->cluster->conf->hosts ? g->host_name[host] : "nobody");
}

int tram_group_query(struct tram_group *g, uint32_t cell, uint32_t host, uint64_t version,
                     const void *data, uint32_t bytes, uint32_t reply_max, uint64_t *ticket,
                     struct tram_error *error)
{
    struct err e = {""};
    uint64_t unused;
    if (cell >= g->cells)
        return api_error(error, err_set(&e, ERR_NOTFOUND, "there is no cell %u", cell), &e);
    group_touched(g);
    int rc = member_query(g->member, cell, host, version, data, bytes, reply_max,
                          ticket ? ticket : &unused);
    if (rc == 0)
        return TRAM_OK;
    uint32_t longer = bytes > reply_max ? bytes : reply_max;
    return api_error(error, not_queried(g, cell, host, rc, longer, &e), &e);
}

uint64_t tram_group_version(const struct tram_group *g, uint32_t cell)
{
    return cell < g->cells ? member_version(g->member, cell) : 0;
}

uint64_t tram_group_time(const struct tram_group *g, uint32_t cell)
{
    return cell < g->cells ? member_time(g->member, cell) : 0;
}

uint32_t tram_group_ask_max(const struct tram_group *g)
{
    return member_ask_max(g->member);
}
