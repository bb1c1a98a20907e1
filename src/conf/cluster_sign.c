/* What a cluster file says of the logs of a subgroup: whether they are signed. */
#include "conf/take.h"

/* A host signs with the key by which the others know it. */
static int check_sign(struct reader *r, const struct node *n, const struct cluster_subgroup *s)
{
    if (!cluster_subgroup_keeps(s))
        return doc_bad(r->d, n->line, r->e,
                       "sign is for what is kept on disks, and subgroup '%s' has mode: %s; leave it"
                       " out, or write mode: logged or mode: durable",
                       s->name, cluster_mode_names[s->mode]);
    if (r->c->transport == CLUSTER_TCP && r->c->tls_ca[0] == '\0')
        return 0;
    return doc_bad(r->d, n->line, r->e,
                   "sign needs the keys that hosts have under transport: tcp%s; leave it out, or"
                   " %s",
                   r->c->transport == CLUSTER_TCP ? " without tls" : "",
                   r->c->transport == CLUSTER_TCP ? "write keys in place of tls"
                                                  : "change the transport");
}

int sign_read(struct reader *r, const struct node *sign, struct cluster_subgroup *s)
{
    int rc = take_bool(r, sign, "sign", &s->sign);
    return rc < 0 || !s->sign ? rc : check_sign(r, sign, s);
}
