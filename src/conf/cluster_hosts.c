/* The hosts of a cluster file. */
#include "conf/take.h"
#include "conf/value.h"

#include <string.h>

enum host_key { HOST_NAME, HOST_ADDRESS, HOST_KEY, HOST_ROLE, HOST_RACK, HOST_HTTP, HOST_KEYS };

static const char *const host_keys[] = {"name", "address", "key", "role", "rack", "http", NULL};
static const char *const role_names[] = {"host", "memory", NULL};

static int take_address(struct reader *r, const struct node *n, struct cluster_host *h)
{
    const char *text = NULL;

    if (n == NULL) {
        if (r->c->transport == CLUSTER_SHM)
            return 0; /* hosts of one machine find each other by name */
        return doc_bad(r->d, h->line, r->e,
                       "host '%s' has no address, which transport %s needs; add one like"
                       " `address: 127.0.0.1:%d`",
                       h->name, cluster_transport_names[r->c->transport], PORT_DEFAULT);
    }
    int rc = take_text(r, n, "address", "HOST:PORT, or \"[IPV6]:PORT\" in quotes", &text);
    if (rc < 0)
        return rc;
    const char *wrong = value_address(text, h->address, sizeof h->address, &h->port);
    if (wrong != NULL)
        return doc_bad(r->d, n->line, r->e,
                       "address '%s' %s; write it like 127.0.0.1:%d, node1:%d or \"[::1]:%d\"",
                       doc_shown(text).s, wrong, PORT_DEFAULT, PORT_DEFAULT, PORT_DEFAULT);
    for (const struct cluster_host *o = r->c->host; o < h; o++)
        if (o->port == h->port && strcmp(o->address, h->address) == 0)
            return doc_bad(r->d, n->line, r->e,
                           "address '%s' is that of host '%s' (line %u) already; give each host a"
                           " port of its own",
                           doc_shown(text).s, o->name, o->line);
    return 0;
}

/* A port alone is one of the loopback: who wants to be seen from elsewhere says so. */
static int take_http(struct reader *r, const struct node *n, struct cluster_host *h)
{
    const char *text = NULL;
    uint64_t port = 0;

    int rc = take_text(r, n, "http", "HOST:PORT, or a port of 127.0.0.1", &text);
    if (rc < 0 || text == NULL)
        return rc;
    bool alone = value_number(text, &port) && port >= 1 && port <= UINT16_MAX;
    const char *wrong = alone ? NULL : value_address(text, h->http, sizeof h->http, &h->http_port);
    if (wrong != NULL)
        return doc_bad(r->d, n->line, r->e,
                       "http '%s' %s; write it like %d, which is 127.0.0.1:%d, or 0.0.0.0:%d",
                       doc_shown(text).s, wrong, HTTP_DEFAULT, HTTP_DEFAULT, HTTP_DEFAULT);
    if (alone) {
        snprintf(h->http, sizeof h->http, "127.0.0.1");
        h->http_port = (uint16_t)port;
    }
    for (const struct cluster_host *o = r->c->host; o < h; o++)
        if (o->http_port == h->http_port && strcmp(o->http, h->http) == 0)
            return doc_bad(r->d, n->line, r->e,
                           "http '%s' is that of host '%s' (line %u) already; give each host a"
                           " port of its own",
                           doc_shown(text).s, o->name, o->line);
    return 0;
}

static int take_role(struct reader *r, const struct node *n, struct cluster_host *h)
{
    unsigned role = 0;

    int rc = take_word(r, n, "role", role_names, &role);
    h->memory = role == 1;
    if (rc == 0 && h->memory && r->c->protocol == CLUSTER_GROUP)
        return doc_bad(r->d, n->line, r->e,
                       "host '%s' has role: memory, which is for groups that agree on logs; under "
                       "protocol: group every host is a member, leave the role out",
                       h->name);
    return rc;
}

static int take_host(struct reader *r, const struct node *n)
{
    const struct node *value[HOST_KEYS] = {NULL};
    struct cluster *c = r->c;
    struct cluster_host *h = &c->host[c->hosts];

    if (c->hosts == CLUSTER_HOSTS_MAX)
        return doc_bad(r->d, n->line, r->e, "too many hosts; a cluster has at most %d",
                       CLUSTER_HOSTS_MAX);
    if (n->kind != NODE_MAP)
        return doc_bad(r->d, n->line, r->e,
                       "a host must be written like {name: h1, address: 127.0.0.1:%d}, not as %s",
                       PORT_DEFAULT, doc_what(r->d, n).s);
    int rc = take_keys(r, n, "a host", host_keys, value);
    if (rc < 0)
        return rc;
    if (value[HOST_NAME] == NULL)
        return doc_bad(r->d, n->line, r->e, "a host without a name; add one like `name: h1`");
    rc = take_name(r, value[HOST_NAME], "host name", h->name);
    if (rc < 0)
        return rc;
    int old = cluster_host(c, h->name);
    if (old != CLUSTER_NONE)
        return doc_bad(r->d, value[HOST_NAME]->line, r->e,
                       "host '%s' a second time, the first is in line %u; give each host a name of"
                       " its own",
                       h->name, c->host[old].line);
    h->line = n->line;
    rc = take_role(r, value[HOST_ROLE], h);
    if (rc == 0)
        rc = take_address(r, value[HOST_ADDRESS], h);
    if (rc == 0)
        rc = identity_read_host(r, value[HOST_KEY], h);
    if (rc == 0)
        rc = large_read_rack(r, value[HOST_RACK], h);
    if (rc == 0 && value[HOST_HTTP] != NULL)
        rc = take_http(r, value[HOST_HTTP], h);
    if (rc == 0)
        c->hosts++;
    return rc;
}

int hosts_read(struct reader *r, const struct node *list)
{
    uint32_t at = list->first;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
        const struct node *n = doc_node(r->d, at);
        rc = take_host(r, n);
        at = n->next;
    }
    return rc;
}
