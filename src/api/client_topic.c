/* Topics of programs that are no members (include/tram/topic.h). */
#include "api/group_client.h"
#include "api/topic.h"

#include <stdlib.h>

struct tram_client_topic {
    struct tram_group_client *of;
    uint32_t cell;
    struct tram_client_topic_options opt;
};

void client_topic_samples(void *ctx, uint32_t cell, uint64_t vid, const struct member_item *in,
                          uint32_t count, uint64_t lost)
{
    struct tram_group_client *c = ctx;
    struct tram_client_topic *t = c->topic[cell];
    if (t && lost && t->opt.on_lost)
        t->opt.on_lost(t->opt.ctx, lost);
    for (uint32_t i = 0; i < count && c->topic[cell] == t && t; i++) {
        const struct tram_item item = {.data = in[i].data,
                                       .bytes = in[i].bytes,
                                       .sender = in[i].sender,
                                       .number = in[i].number,
                                       .client = in[i].client};
        t->opt.on_samples(t->opt.ctx, vid, &item, 1);
    }
}

int tram_client_topic_open(struct tram_group_client *c, const char *name,
                           const struct tram_client_topic_options *o,
                           struct tram_client_topic **out, struct tram_error *error)
{
    struct err e = {""};
    const struct cluster *f = c->cluster->conf;
    int at = cluster_subgroup(f, name);
    if (at == CLUSTER_NONE)
        return api_error(error,
                         err_set(&e, ERR_NOTFOUND,
                                 "there is no topic '%s' among the subgroups of cluster %s; %s",
                                 name, f->name, cluster_subgroups_near(f, name).s),
                         &e);
    const char *mistake = topic_mistake(o->role, o->qos, o->on_samples != NULL, &f->subgroup[at]);
    int cell = mistake ? 0 : cluster_cell(f, name);
    if (mistake == NULL && c->topic[cell])
        mistake = "it is open already";
    if (mistake)
        return api_error(error, err_set(&e, ERR_INVALID, "topic %s: %s", name, mistake), &e);
    struct tram_client_topic *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return api_error(error, ERR_NOMEM, NULL);
    *t = (struct tram_client_topic){.of = c, .cell = (uint32_t)cell, .opt = *o};
    c->topic[cell] = t;
    if (o->role & TRAM_SUBSCRIBE)
        client_subscribe(c->client, t->cell);
    *out = t;
    return TRAM_OK;
}

void tram_client_topic_close(struct tram_client_topic *t)
{
    if (t == NULL)
        return;
    if (t->opt.role & TRAM_SUBSCRIBE && t->of->client)
        client_unsubscribe(t->of->client, t->cell);
    t->of->topic[t->cell] = NULL;
    free(t);
}

void client_topics_close(struct tram_group_client *c)
{
    for (uint32_t i = 0; c->topic && i < c->cells; i++)
        tram_client_topic_close(c->topic[i]);
}

int tram_client_publish(struct tram_client_topic *t, const void *data, uint32_t bytes,
                        uint64_t *ticket, struct tram_error *error)
{
    struct err e = {""};
    if (t->opt.role & TRAM_PUBLISH)
        return tram_group_client_send(t->of, t->cell, data, bytes, ticket, error);
    return api_error(error,
                     err_set(&e, ERR_REFUSED, "topic %s was not opened to publish",
                             cluster_cell_name(t->of->cluster->conf, t->cell).s),
                     &e);
}

bool tram_client_topic_fed(const struct tram_client_topic *t)
{
    return client_feeder(t->of->client, t->cell) < t->of->cluster->conf->hosts;
}
