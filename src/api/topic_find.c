#include "api/topic.h"

#include "base/hash.h"

#include <ctype.h>

static const char *qos_mistake(enum tram_qos qos, const struct cluster_subgroup *s)
{
    static const enum cluster_mode modes[] = {[TRAM_QOS_UNORDERED] = CLUSTER_MODE_RAW,
                                              [TRAM_QOS_ATOMIC] = CLUSTER_MODE_MEMORY,
                                              [TRAM_QOS_VOLATILE] = CLUSTER_MODE_MEMORY};
    static const char *const is[] = {
        [CLUSTER_MODE_MEMORY] = "it has mode: memory, and is atomic",
        [CLUSTER_MODE_RAW] = "it has mode: raw, and is unordered",
        [CLUSTER_MODE_LOGGED] = "it has mode: logged, and is kept",
        [CLUSTER_MODE_DURABLE] = "it has mode: durable, and is kept",
    };
    if ((unsigned)qos > TRAM_QOS_LOGGED)
        return "its qos is none of enum tram_qos";
    if (qos != TRAM_QOS_FILE &&
        (qos == TRAM_QOS_LOGGED ? !cluster_subgroup_keeps(s) : modes[qos] != s->mode))
        return is[s->mode];
    return qos == TRAM_QOS_VOLATILE && s->history == 0 ? "it has no history in the cluster file"
                                                       : NULL;
}

static const char *from_mistake(enum tram_from from, const struct cluster_subgroup *s)
{
    if ((unsigned)from > TRAM_FROM_TIME)
        return "its from is none of enum tram_from";
    if (from == TRAM_FROM_NOW || cluster_subgroup_keeps(s))
        return NULL;
    if (s->history == 0)
        return "it has no history in the cluster file to begin with";
    return from == TRAM_FROM_TIME ? "its history has no times; what is logged has" : NULL;
}

static const char *mistake(const struct topic_wish *w, const struct cluster_subgroup *s)
{
    if (w->role == 0 || w->role > (TRAM_PUBLISH | TRAM_SUBSCRIBE))
        return "its role is TRAM_PUBLISH, TRAM_SUBSCRIBE or both";
    if (w->role & TRAM_SUBSCRIBE && !w->listens)
        return "who subscribes has on_samples";
    const char *qos = qos_mistake(w->qos, s);
    return qos ? qos : from_mistake(w->from, s);
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' &&
            (i == 0 || !strchr("-.", name[i])))
            return false;
    return n > 0 && n < CLUSTER_NAME_BYTES - 1;
}

/* The first subgroup with slots that promises what is wanted; if none does, the first. */
static int slots_for(const struct cluster *f, enum tram_qos qos)
{
    int first = CLUSTER_NONE;
    for (uint32_t i = 0; i < f->subgroups; i++) {
        const struct cluster_subgroup *s = &f->subgroup[i];
        if (s->slots && qos_mistake(qos, s) == NULL)
            return (int)i;
        if (s->slots && first == CLUSTER_NONE)
            first = (int)i;
    }
    return first;
}

static uint32_t first_cell(const struct cluster *f, uint32_t subgroup)
{
    uint32_t cell = 0;
    for (uint32_t i = 0; i < subgroup; i++)
        cell += f->subgroup[i].shards;
    return cell;
}

static int find_slot(const struct cluster *f, const struct topic_wish *w, struct topic_where *out,
                     struct err *e)
{
    int at = slots_for(f, w->qos);
    if (at == CLUSTER_NONE)
        return err_set(e, ERR_NOTFOUND,
                       "there is no topic '%s' among the subgroups of cluster %s; %s", w->name,
                       f->name, cluster_subgroups_near(f, w->name).s);
    if (!is_name(w->name))
        return err_set(e, ERR_INVALID,
                       "topic '%s': use letters, digits, - _ and . in its name, at most %d, and a "
                       "letter, digit or _ first",
                       w->name, CLUSTER_NAME_BYTES - 2);
    size_t bytes = strlen(w->name);
    out->subgroup = &f->subgroup[at];
    out->cell = first_cell(f, (uint32_t)at) +
                (uint32_t)(hash_bytes(0, w->name, bytes) % out->subgroup->shards);
    out->ahead = (uint32_t)(1 + bytes + 7) & ~7u;
    out->name[0] = (unsigned char)bytes;
    memcpy(out->name + 1, w->name, bytes);
    return 0;
}

static int find(const struct cluster *f, const struct topic_wish *w, struct topic_where *out,
                struct err *e)
{
    int at = cluster_subgroup(f, w->name);
    *out = (struct topic_where){.ahead = 0};
    if (at == CLUSTER_NONE)
        return find_slot(f, w, out, e);
    out->subgroup = &f->subgroup[at];
    out->cell = first_cell(f, (uint32_t)at);
    if (out->subgroup->slots)
        return err_set(e, ERR_INVALID,
                       "topic %s: that is the place of topics that the cluster file does not name;"
                       " give one a name of its own",
                       w->name);
    if (out->subgroup->shards > 1)
        return err_set(e, ERR_INVALID, "topic %s: it has several shards, and a topic has one",
                       w->name);
    return 0;
}

int topic_find(const struct cluster *f, const struct topic_wish *w, struct topic_where *out,
               struct err *e)
{
    int rc = find(f, w, out, e);
    const char *why = rc == 0 ? mistake(w, out->subgroup) : NULL;
    return why ? err_set(e, ERR_INVALID, "topic %s: %s", w->name, why) : rc;
}
