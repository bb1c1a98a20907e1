#include "sim/state_compare.h"

#include "check/amcast.h"
#include "sim/imprint.h"
#include "trace/intern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message of a group's sequence. */
struct step {
    uint32_t client, life;
    uint64_t seq;
    struct imprint reply;
};

struct sequence {
    struct step *step;
    uint32_t count, step_max;
    struct imprint *state; /* after so many messages */
    uint32_t state_max;
};

struct progress {
    uint32_t wanted, delivered; /* groups */
};

struct state_compare {
    const struct cluster *conf;
    uint32_t state_every;
    struct sequence *group;
    struct amcast *amcast;
    uint32_t *amcast_group;
    struct progress *message; /* by number in amcast */
    uint32_t message_max;
    uint64_t halfway;
    size_t kept;
    struct tram_sim_finding finding; /* the first in its group; property "" if there is none */
    uint64_t finding_at;             /* twice the message's number, plus one for a state */
};

struct state_compare *state_compare_open(const struct cluster *conf, uint32_t state_every)
{
    struct state_compare *w = calloc(1, sizeof(*w));
    CHECK(w != NULL);
    w->conf = conf;
    w->state_every = state_every;
    w->amcast = amcast_open();
    w->group = calloc(conf->groups, sizeof(*w->group));
    w->amcast_group = calloc(conf->groups, sizeof(*w->amcast_group));
    CHECK(w->group != NULL && w->amcast_group != NULL);
    amcast_file(w->amcast, "simulation");
    for (uint32_t g = 0; g < conf->groups; g++)
        w->amcast_group[g] =
            amcast_group(w->amcast, conf->group[g].name, strlen(conf->group[g].name));
    return w;
}

void state_compare_close(struct state_compare *w)
{
    if (w == NULL)
        return;
    for (uint32_t g = 0; g < w->conf->groups; g++) {
        for (uint32_t i = 0; i < w->group[g].count; i++)
            free(w->group[g].step[i].reply.bytes);
        for (uint32_t i = 0; i < w->group[g].state_max; i++)
            free(w->group[g].state[i].bytes);
        free(w->group[g].step);
        free(w->group[g].state);
    }
    free(w->group);
    free(w->amcast_group);
    free(w->message);
    amcast_close(w->amcast);
    free(w);
}

/* ---- names ---- */

enum { ID_BYTES = 64 };

/* As in traces: c0:17 for a client's first life, c0.1:17 for the next one in its place. */
static int client_name(char *out, uint32_t client, uint32_t life)
{
    return life == 0 ? snprintf(out, ID_BYTES, "c%u", client)
                     : snprintf(out, ID_BYTES, "c%u.%u", client, life);
}

static int message_name(char *out, uint32_t client, uint32_t life, uint64_t seq)
{
    int len = client_name(out, client, life);
    return len + snprintf(out + len, (size_t)(ID_BYTES - len), ":%" PRIu64, seq);
}

static uint32_t client_number(struct state_compare *w, uint32_t client, uint32_t life)
{
    char name[ID_BYTES];
    int len = client_name(name, client, life);
    return amcast_client(w->amcast, name, (size_t)len);
}

static uint32_t message_number(struct state_compare *w, uint32_t client, uint32_t life,
                               uint64_t seq)
{
    char name[ID_BYTES];
    int len = message_name(name, client, life, seq);
    uint32_t m = amcast_message(w->amcast, name, (size_t)len);
    w->message = intern_grow(w->message, &w->message_max, m, sizeof(*w->message));
    return m;
}

static uint32_t dst_number(struct state_compare *w, struct dst_set dst)
{
    uint32_t list[DST_GROUPS_MAX];
    for (uint32_t i = 0; i < dst.count; i++)
        list[i] = w->amcast_group[dst.group[i]];
    return amcast_dst(w->amcast, list, dst.count);
}

static uint32_t replica_number(struct state_compare *w, uint32_t group, uint32_t host)
{
    const char *name = w->conf->host[host].name;
    return amcast_replica(w->amcast, w->amcast_group[group], name, strlen(name));
}

static struct amcast_place place(uint64_t now_ns)
{
    return (struct amcast_place){.line = (uint32_t)(now_ns / 1000)};
}

/* ---- comparing ---- */

/* What is compared: whose, where in the sequence, what it is called. */
struct difference {
    struct state_compare_who who;
    uint64_t at; /* as finding_at */
    const char *property;
    bool loaded;
};

static void say_bytes(char *text, size_t room, const struct imprint *known, const void *data,
                      size_t len)
{
    const unsigned char *b = data;
    size_t i = imprint_differs_at(known, data, len), least = len < known->len ? len : known->len;
    if (len != known->len)
        snprintf(text, room, "%zu bytes and %zu", known->len, len);
    else if (i < least)
        snprintf(text, room, "byte %zu of %zu is %02x and %02x", i, len, known->bytes[i], b[i]);
    else
        snprintf(text, room, "%zu bytes that differ", len);
}

static void note(struct state_compare *w, const struct difference *d, const struct imprint *known,
                 const void *data, size_t len, uint64_t now_ns)
{
    struct tram_sim_finding *f = &w->finding;
    if (f->property[0] != '\0' && (f->group != d->who.group || w->finding_at <= d->at))
        return;
    char id[ID_BYTES], bytes[96], where[ID_BYTES + 96] = "before the first message";
    w->finding_at = d->at;
    memset(f, 0xff, sizeof(*f));
    snprintf(f->property, sizeof(f->property), "%s", d->property);
    f->group = d->who.group;
    f->host[0] = known->host;
    f->host[1] = d->who.host;
    f->time_ns = now_ns;
    if (d->at > 0) {
        bool state = d->at % 2 == 0;
        f->number = (d->at - 1) / 2;
        const struct step *m = &w->group[f->group].step[f->number];
        f->client = m->client;
        f->life = m->life;
        f->seq = m->seq;
        message_name(id, m->client, m->life, m->seq);
        snprintf(where, sizeof(where), "%s message %s (number %" PRIu64 ")%s",
                 state ? "after" : "to", id, f->number,
                 state && w->state_every > 1 ? " or some before it" : "");
    }
    say_bytes(bytes, sizeof(bytes), known, data, len);
    const char *other = w->conf->host[f->host[1]].name;
    int whole =
        snprintf(f->text, sizeof(f->text), "group %s: the %s of %s and %s %s differ%s%s%s: %s",
                 w->conf->group[f->group].name, d->property, w->conf->host[f->host[0]].name, other,
                 where, d->loaded ? ", of which " : "", d->loaded ? other : "",
                 d->loaded ? " has loaded its one" : "", bytes);
    if (whole >= (int)sizeof(f->text)) /* three long names */
        memcpy(f->text + sizeof(f->text) - sizeof("..."), "...", sizeof("..."));
}

static void compare(struct state_compare *w, struct imprint *known, const struct difference *d,
                    const void *data, size_t len, uint64_t now_ns)
{
    if (!known->there)
        *known = imprint_of(&w->kept, STATE_COMPARE_KEPT_BYTES, d->who.host, data, len);
    else if (!imprint_is(known, data, len))
        note(w, d, known, data, len, now_ns);
}

void state_compare_state(struct state_compare *w, struct state_compare_who who, uint64_t count,
                         bool loaded, const void *data, size_t bytes, uint64_t now_ns)
{
    struct sequence *s = &w->group[who.group];
    struct difference d = {.who = who, .at = 2 * count, .property = "states", .loaded = loaded};
    if (count > s->count)
        return; /* a replica that is ahead of all delivered something wrong: amcast will say */
    s->state = intern_grow(s->state, &s->state_max, count, sizeof(*s->state));
    compare(w, &s->state[count], &d, data, bytes, now_ns);
}

/* ---- events ---- */

void state_compare_cast(struct state_compare *w, uint32_t client, uint32_t life, uint64_t seq,
                        struct dst_set dst, uint64_t now_ns)
{
    uint32_t m = message_number(w, client, life, seq);
    w->message[m].wanted = dst.count;
    amcast_cast(w->amcast, client_number(w, client, life), m, dst_number(w, dst), place(now_ns));
}

void state_compare_done(struct state_compare *w, uint32_t client, uint32_t life, uint64_t seq,
                        uint64_t now_ns)
{
    uint32_t m = message_number(w, client, life, seq);
    amcast_done(w->amcast, client_number(w, client, life), m, place(now_ns));
}

void state_compare_client_gone(struct state_compare *w, uint32_t client, uint32_t life,
                               bool crashed)
{
    uint32_t c = client_number(w, client, life);
    if (crashed)
        amcast_client_crashed(w->amcast, c);
}

void state_compare_start(struct state_compare *w, struct state_compare_who who, uint64_t n,
                         uint64_t now_ns)
{
    amcast_start(w->amcast, replica_number(w, who.group, who.host), who.life, n, place(now_ns));
}

/* The group has got one message further. */
static void append(struct state_compare *w, struct sequence *s, const struct delivery *d,
                   uint32_t m)
{
    struct progress *p = &w->message[m];
    s->step = intern_grow(s->step, &s->step_max, s->count, sizeof(*s->step));
    s->step[s->count++] = (struct step){.client = d->client, .life = d->life, .seq = d->seq};
    w->halfway -= p->delivered > 0 && p->delivered < p->wanted;
    p->delivered++;
    w->halfway += p->delivered < p->wanted;
}

void state_compare_deliver(struct state_compare *w, struct state_compare_who who,
                           const struct delivery *d, const void *reply, uint32_t reply_bytes,
                           uint64_t now_ns)
{
    struct sequence *s = &w->group[who.group];
    uint32_t m = message_number(w, d->client, d->life, d->seq);
    struct amcast_delivery ad = {
        .n = d->number,
        .replica = replica_number(w, who.group, who.host),
        .inc = who.life,
        .message = m,
        .dst = dst_number(w, d->dst),
    };
    amcast_deliver(w->amcast, &ad, place(now_ns));
    if (d->number == s->count)
        append(w, s, d, m);
    /* Different messages at one place are for amcast to tell; their replies need not be alike. */
    struct step *k = d->number < s->count ? &s->step[d->number] : NULL;
    if (k == NULL || k->client != d->client || k->life != d->life || k->seq != d->seq)
        return;
    struct difference diff = {.who = who, .at = 2 * d->number + 1, .property = "replies"};
    compare(w, &k->reply, &diff, reply, reply_bytes, now_ns);
}

/* ---- looking ---- */

uint64_t state_compare_delivered(const struct state_compare *w, uint32_t group)
{
    return w->group[group].count;
}

uint64_t state_compare_halfway(const struct state_compare *w)
{
    return w->halfway;
}

void state_compare_down(struct state_compare *w, uint32_t group, uint32_t host, bool down)
{
    amcast_replica_down(w->amcast, replica_number(w, group, host), down);
}

bool state_compare_verify(struct state_compare *w, bool quiesced, uint64_t now_ns,
                          struct tram_sim_finding *f)
{
    bool good = amcast_verify(w->amcast, quiesced);
    if (w->finding.property[0] != '\0') {
        *f = w->finding;
        return false;
    }
    if (good)
        return true;
    const struct amcast_violation *v = amcast_violation(w->amcast, 0);
    memset(f, 0xff, sizeof(*f));
    f->time_ns = now_ns;
    snprintf(f->property, sizeof(f->property), "%s", amcast_property_names[v->property]);
    int at = snprintf(f->text, sizeof(f->text), "%s: %s", f->property, v->text);
    for (uint32_t i = 0; i < v->evidence_count && at > 0 && (size_t)at < sizeof(f->text); i++)
        at += snprintf(f->text + at, sizeof(f->text) - (size_t)at, "; at %u us %s",
                       v->evidence[i].place.line, v->evidence[i].text);
    return false;
}
