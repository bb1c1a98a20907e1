/* What a cluster file says of the logs of a subgroup: how much of them is kept, and whether they are signed. */
#include "conf/take.h"
#include "conf/value.h"

#define RETAIN_LEAST (UINT64_C(16) << 20)

static int refuse_unkept(struct reader *r, const struct node *n, const char *what,
                         const struct cluster_subgroup *s)
{
    return doc_bad(r->d, n->line, r->e,
                   "%s is for what is kept on disks, and subgroup '%s' has mode: %s; leave it out,"
                   " or write mode: logged or mode: durable",
                   what, s->name, cluster_mode_names[s->mode]);
}

static int take_retain(struct reader *r, const struct node *n, struct cluster_subgroup *s)
{
    if (n == NULL)
        return 0;
    if (n->kind == NODE_TEXT && value_size(doc_text(r->d, n), &s->retain) &&
        s->retain >= RETAIN_LEAST)
        return 0;
    return doc_bad(r->d, n->line, r->e, "retain must be a size of %s or more, like 1 GiB, not %s",
                   value_size_shown(RETAIN_LEAST).s, doc_what(r->d, n).s);
}

/* A host signs with the key by which the others know it. */
static int check_sign(struct reader *r, const struct node *n)
{
    if (r->c->transport == CLUSTER_TCP && r->c->tls_ca[0] == '\0')
        return 0;
    return doc_bad(r->d, n->line, r->e,
                   "sign needs the keys that hosts have under transport: tcp%s; leave it out, or"
                   " %s",
                   r->c->transport == CLUSTER_TCP ? " without tls" : "",
                   r->c->transport == CLUSTER_TCP ? "write keys in place of tls"
                                                  : "change the transport");
}

int retain_read(struct reader *r, const struct retain_nodes *n, struct cluster_subgroup *s)
{
    const struct node *any = n->retain ? n->retain : n->sign;

    if (any != NULL && !cluster_subgroup_keeps(s))
        return refuse_unkept(r, any, n->retain ? "retain" : "sign", s);
    int rc = take_retain(r, n->retain, s);
    rc = rc < 0 ? rc : take_bool(r, n->sign, "sign", &s->sign);
    return rc < 0 || !s->sign ? rc : check_sign(r, n->sign);
}
