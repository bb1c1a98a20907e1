#include "conf/cluster_impl.h"
#include "conf/value.h"

#include <string.h>

enum { COMMENT_COLUMN = 26 };

/* "key: value    # comment". A default is written as a comment itself: the file shows what could be set,
 * and follows when a later version knows a better default. */
static void write_line(FILE *f, const char *key, const char *value, bool is_default,
                       const char *comment)
{
    int used = fprintf(f, "%s%s: %s", is_default ? "# " : "", key, value);

    fprintf(f, "%*s# %s\n", used < COMMENT_COLUMN ? COMMENT_COLUMN - used : 1, "", comment);
}

static void write_settings(FILE *f, const struct cluster *c)
{
    for (enum setting s = 0; s < SETTING_COUNT; s++) {
        const struct setting_info *i = &setting_info[s];
        uint32_t value = setting_get(c, s);
        uint32_t standard = setting_standard(c, s);
        struct value_shown shown;

        if (!setting_applies(c, s))
            continue;
        if (i->kind == SETTING_NUMBER)
            snprintf(shown.s, sizeof shown.s, "%u", value);
        else
            shown = value_size_shown(value);
        write_line(f, i->key, shown.s, value == standard, i->help);
    }
    write_line(f, "wait", wait_names[c->wait], c->wait == CLUSTER_WAIT_AUTO,
               "auto: spin, then sleep; spin; sleep");
    if (c->transport != CLUSTER_SHM)
        write_line(f, "huge_pages", c->huge_pages ? "true" : "false", !c->huge_pages,
                   "true: of 2 MiB, for the rings of hosts (vm.nr_hugepages)");
}

/* In double quotes; the path has no control characters. */
static void write_quoted(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text != '\0'; text++)
        fprintf(f, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    fputc('"', f);
}

/* A path that the file names, or else its default as a comment. */
static void write_path(FILE *f, const char *key, const char *path, const char *standard,
                       const char *comment)
{
    if (path[0] == '\0') {
        write_line(f, key, standard, true, comment);
        return;
    }
    fprintf(f, "%s: ", key);
    write_quoted(f, path);
    fputc('\n', f);
}

static void write_home(FILE *f, const struct cluster *c)
{
    fprintf(f, "id: %s  # by which disks know this cluster; it never changes\n",
            cluster_id_text(c->id).s);
    if (!cluster_id_is_none(c->restored))
        fprintf(f, "restored: %s  # the backup that it began with\n",
                cluster_id_text(c->restored).s);
    write_path(f, "data_dir", c->data_dir, "cluster.data",
               "where it is kept, HOST in it; default: this file's name with .data");
}

static void write_durable(FILE *f, const struct cluster *c)
{
    write_line(f, "durable", c->durable ? "true" : "false", !c->durable,
               "true: what is answered is on the disks of a majority");
    if (c->durable)
        write_home(f, c);
}

static void write_key(FILE *f, const struct cluster *c)
{
    if (c->key[0] == '\0') {
        if (c->transport == CLUSTER_VERBS)
            write_line(f, "key", "cluster.key", true,
                       "shared by all machines; default: this file's name with .key");
        return;
    }
    fputs("key: ", f);
    write_quoted(f, c->key);
    fputs("  # a file of mode 0600, the same on every machine\n", f);
}

static void write_tls(FILE *f, const struct cluster *c)
{
    if (c->tls_ca[0] == '\0')
        return;
    fputs("tls: {ca: ", f);
    write_quoted(f, c->tls_ca);
    fputs(", cert: ", f);
    write_quoted(f, c->tls_cert);
    fputs(", key: ", f);
    write_quoted(f, c->tls_key);
    fputs("}  # %h is the name of the host or client\n", f);
}

static void write_identity(FILE *f, const struct cluster *c)
{
    if (c->transport != CLUSTER_TCP)
        return;
    write_line(f, "encrypt", c->encrypt ? "true" : "false", c->encrypt,
               "false: clear text, if all hosts are on the loopback");
    if (c->tls_ca[0] == '\0')
        write_path(f, "keys_dir", c->keys_dir, "cluster.keys",
                   "where secret keys are, NAME.key; default: this file's name with .keys");
    write_tls(f, c);
}

/* A key, or a list of them. */
static void write_keys(FILE *f, const struct cluster_keys *k)
{
    char text[CLUSTER_PUBLIC_TEXT];

    fputs(k->count == 1 ? "" : "[", f);
    for (uint32_t i = 0; i < k->count; i++) {
        cluster_public_text(k->key[i], text);
        fprintf(f, "%s%s", i > 0 ? ", " : "", text);
    }
    fputs(k->count == 1 ? "" : "]", f);
}

static void write_client_keys(FILE *f, const struct cluster *c)
{
    if (c->any_file[0] != '\0') {
        char any[sizeof ANY_WORD + CLUSTER_DIR_BYTES];

        snprintf(any, sizeof any, ANY_WORD " %s", c->any_file);
        fputs("\n# Whoever has the secret key of this file is a client.\nclient_keys: ", f);
        write_quoted(f, any);
        fputc('\n', f);
        return;
    }
    if (c->client_keys == 0)
        return;
    fputs("\n# Programs that are clients; several may share a name and its key.\nclient_keys:\n",
          f);
    for (uint32_t i = 0; i < c->client_keys; i++) {
        fprintf(f, "  - {name: %s, key: ", c->client_key[i].name);
        write_keys(f, &c->client_key[i].keys);
        fputs("}\n", f);
    }
}

static void write_hosts(FILE *f, const struct cluster *c)
{
    fprintf(f, "\n# A host is a process; %s.\nhosts:\n",
            c->protocol == CLUSTER_GROUP ? "while it runs it is a member of the group"
                                         : "its replicas share one thread");
    for (uint32_t i = 0; i < c->hosts; i++) {
        const struct cluster_host *h = &c->host[i];
        /* An IPv6 address has colons, and needs quotes: its brackets would be a list. */
        bool quoted = strchr(h->address, ':') != NULL;

        fprintf(f, h->memory ? "  - {name: %s, role: memory" : "  - {name: %s", h->name);
        if (h->port != 0)
            fprintf(f, quoted ? ", address: \"[%s]:%u\"" : ", address: %s:%u", h->address, h->port);
        if (h->keys.count > 0) {
            fputs(", key: ", f);
            write_keys(f, &h->keys);
        }
        if (h->rack != 0)
            fprintf(f, ", rack: %u", h->rack);
        if (h->http_port != 0)
            fprintf(f, strchr(h->http, ':') ? ", http: \"[%s]:%u\"" : ", http: %s:%u", h->http,
                    h->http_port);
        fputs("}\n", f);
    }
}

static void write_groups(FILE *f, const struct cluster *c)
{
    fputs("\n# At the start the first replica named leads, if it is there in time; of 2f+1 "
          "replicas f may"
          " fail.\n"
          "# A message is ordered first at the lowest group above all its destinations, and handed "
          "down"
          " from there.\n"
          "groups:\n",
          f);
    for (uint32_t i = 0; i < c->groups; i++) {
        const struct cluster_group *g = &c->group[i];
        fprintf(f, "  - {name: %s, ", g->name);
        if (g->parent != CLUSTER_NONE)
            fprintf(f, "parent: %s, ", c->group[g->parent].name);
        fputs("replicas: [", f);
        for (uint32_t r = 0; r < g->replicas; r++)
            fprintf(f, "%s%s", r ? ", " : "", c->host[g->replica[r]].name);
        if (g->memories > 0)
            fputs("], memories: [", f);
        for (uint32_t m = 0; m < g->memories; m++)
            fprintf(f, "%s%s", m ? ", " : "", c->host[g->memory[m]].name);
        fputs(g->all_vote ? "], votes: all}\n" : "]}\n", f);
    }
}

static void write_names(FILE *f, const struct cluster *c, uint64_t set)
{
    const char *between = "";

    fputc('[', f);
    for (uint32_t h = 0; h < c->hosts; h++)
        if (set >> h & 1) {
            fprintf(f, "%s%s", between, c->host[h].name);
            between = ", ";
        }
    fputc(']', f);
}

static void write_views(FILE *f, const struct cluster *c)
{
    char ms[16];

    write_line(f, "view_majority", c->view_majority ? "true" : "false",
               c->view_majority == (c->transport != CLUSTER_SHM),
               "more than half of a view must go over to the next");
    snprintf(ms, sizeof ms, "%u", c->start_ms);
    if (c->block_bytes != BLOCK_BYTES_STANDARD)
        write_line(f, "block_bytes", value_size_shown(c->block_bytes).s, false,
                   "largest block of a large message");
    write_line(f, "start_ms", ms, c->start_ms == START_MS_DEFAULT,
               "the first view waits until nobody new has come for so long");
}

static bool keepers_are_standard(const struct cluster *c)
{
    bool same = c->keepers == keepers_standard(c->hosts);

    for (uint32_t i = 0; same && i < c->keepers; i++)
        same = c->keeper[i] == i;
    return same;
}

static void write_keepers(FILE *f, const struct cluster *c)
{
    fputs("\n# They decide on views; of 2f+1 keepers f may fail.\n", f);
    fprintf(f, "%skeepers: [", keepers_are_standard(c) ? "# " : "");
    for (uint32_t i = 0; i < c->keepers; i++)
        fprintf(f, "%s%s", i > 0 ? ", " : "", c->host[c->keeper[i]].name);
    fputs("]\n", f);
}

static void write_subgroup(FILE *f, const struct cluster *c, const struct cluster_subgroup *s)
{
    uint64_t all = c->hosts == 64 ? UINT64_MAX : (UINT64_C(1) << c->hosts) - 1;

    fprintf(f, "  - {name: %s, shards: %u, mode: %s, members_min: %u", s->name, s->shards,
            cluster_mode_names[s->mode], s->members_min);
    if (s->members_max != 0)
        fprintf(f, ", members_max: %u", s->members_max);
    if (s->hosts != all) {
        fputs(", hosts: ", f);
        write_names(f, c, s->hosts);
    }
    if (s->senders != CLUSTER_ALL) {
        fputs(", senders: ", f);
        write_names(f, c, s->senders);
    }
    if (s->slots)
        fputs(", slots: true", f);
    else if (s->overlap)
        fputs(", overlap: true", f);
    if (s->ring_bytes != RING_BYTES_DEFAULT)
        fprintf(f, ", ring_bytes: %s", value_size_shown(s->ring_bytes).s);
    if (s->message_max != s->ring_bytes / RING_MESSAGES)
        fprintf(f, ", message_max: %s", value_size_shown(s->message_max).s);
    if (s->history != 0)
        fprintf(f, ", history: %s", value_size_shown(s->history).s);
    if (s->retain != 0)
        fprintf(f, ", retain: %s", value_size_shown(s->retain).s);
    if (s->sign)
        fputs(", sign: true", f);
    if (s->large_max != 0) {
        fprintf(f, ", large_max: %s", value_size_shown(s->large_max).s);
        fprintf(f, ", large_window: %u, rdmc: %s", s->large_window, cluster_rdmc_names[s->rdmc]);
    }
    fputs("}\n", f);
}

static void write_subgroups(FILE *f, const struct cluster *c)
{
    fputs(
        "\n# Each shard of a subgroup is a cell: its members deliver the same messages in the same"
        " order.\n"
        "# Further keys: members_max, hosts, senders (all), overlap, ring_bytes (1 MiB),"
        " message_max,\n"
        "# history (of mode memory), retain and sign (of modes logged and durable).\n"
        "# large_max, large_window, rdmc; slots (topics that nobody names here).\n"
        "subgroups:\n",
        f);
    for (uint32_t i = 0; i < c->subgroups; i++)
        write_subgroup(f, c, &c->subgroup[i]);
}

int cluster_write(FILE *f, const struct cluster *c, struct err *e)
{
    fputs(
        "# The cluster file of Tramway. A line that begins with `#` and a key shows a default.\n\n",
        f);
    fprintf(f, "version: %d  # of the file, by which later programs know what it says\n",
            CLUSTER_VERSION);
    write_line(f, "name", c->name, false, "clusters of one user on one machine differ in it");
    write_line(f, "transport", cluster_transport_names[c->transport], false,
               "shm: one machine; tcp: any machines; verbs: RDMA");
    write_line(f, "protocol", cluster_protocol_names[c->protocol], false,
               c->protocol == CLUSTER_GROUP
                   ? "group: members of subgroups, with views"
                   : "tree: along the parents below; genuine: destinations only");
    fputc('\n', f);
    write_settings(f, c);
    if (c->protocol == CLUSTER_GROUP && cluster_keeps(c))
        write_home(f, c);
    if (c->protocol == CLUSTER_GROUP)
        write_views(f, c);
    else
        write_durable(f, c);
    write_path(f, "runtime_dir", c->runtime_dir, "/run/tram",
               "where hosts and clients meet; default $XDG_RUNTIME_DIR, or /dev/shm");
    write_key(f, c);
    write_identity(f, c);
    write_hosts(f, c);
    write_client_keys(f, c);
    if (c->protocol == CLUSTER_GROUP) {
        write_keepers(f, c);
        write_subgroups(f, c);
    } else
        write_groups(f, c);
    if (fflush(f) != 0 || ferror(f))
        return err_sys(e, "write a cluster file");
    return 0;
}
