/* tram log: the versions of a cell, as they stand on a host's disk. */
#include "api/group_kept.h"
#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/running.h"
#include "cli/when.h"
#include "group/view.h"
#include "tram/group.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NS_DIGITS = 9, TEXT_MOST = 200 };

#define SECOND UINT64_C(1000000000)

struct log_args {
    struct running_args running;
    const char *cell, *host, *from, *at, *key;
    bool verify, whole;
};

static void print_time(uint64_t ns, FILE *f)
{
    char text[32];
    time_t s = (time_t)(ns / SECOND);
    struct tm tm;
    localtime_r(&s, &tm);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    fprintf(f, "%s.%09" PRIu64, text, ns % SECOND);
}

/* ---- messages ---- */

struct printing {
    const struct log_args *a;
    const struct tram_cluster *c;
    uint64_t until_ns; /* of --at */
    bool any;
    struct tram_version last; /* of --at: the one before that time, with a copy of its data */
    unsigned char *data;
    uint32_t room;
};

static void print_payload(const struct printing *p, const unsigned char *data, uint32_t bytes)
{
    uint32_t most = p->a->whole || bytes <= TEXT_MOST ? bytes : TEXT_MOST;
    for (uint32_t i = 0; i < most; i++)
        if (isprint(data[i]) || data[i] >= 0x80)
            putchar(data[i]);
        else
            printf("\\x%02x", data[i]);
    if (most < bytes)
        fputs(" ...", stdout);
}

static void print_version(struct printing *p, const struct tram_version *v)
{
    const struct cluster *f = p->c->conf;
    printf("%" PRIu64 ".%-8" PRIu64 " ", stamp_vid(v->version), stamp_count(v->version));
    print_time(v->time_ns, stdout);
    printf(" %-8s %7u  ", v->sender < f->hosts ? f->host[v->sender].name : "?", v->bytes);
    print_payload(p, v->data, v->bytes);
    putchar('\n');
    p->any = true;
}

static int keep(struct printing *p, const struct tram_version *v)
{
    if (v->bytes > p->room) {
        unsigned char *more = realloc(p->data, v->bytes);
        if (more == NULL)
            return ERR_NOMEM;
        p->data = more;
        p->room = v->bytes;
    }
    p->last = *v;
    if (v->bytes > 0)
        memcpy(p->data, v->data, v->bytes);
    p->last.data = p->data;
    p->any = true;
    return 0;
}

static int on_version(void *ctx, const struct tram_version *v)
{
    struct printing *p = ctx;
    if (p->until_ns && v->time_ns > p->until_ns)
        return 1;
    if (p->until_ns)
        return keep(p, v);
    print_version(p, v);
    return ferror(stdout) ? 1 : 0;
}

static int print_log(const struct log_args *a, const struct tram_cluster *c, const char *host)
{
    struct printing p = {.a = a, .c = c};
    struct tram_error error = {0};
    uint64_t version = 0, time_ns = 0;
    if (a->at && !when_time(a->at, &p.until_ns))
        return args_bad("log", "--at", "a time is like \"2026-11-18 20:57:19.25\", or @SECONDS");
    if (a->from && !when_version(a->from, &version) && !when_time(a->from, &time_ns))
        return args_bad("log", "--from",
                        "it is a version like 3.17, a view like 3, or a time like \"2026-11-18"
                        " 20:57:19.25\"");
    int rc = tram_versions_read(c, host, a->cell, version, time_ns, on_version, &p, &error);
    if (rc >= 0 && p.until_ns && p.any)
        print_version(&p, &p.last);
    if (rc == 0 && p.until_ns && p.any)
        fprintf(stderr, "tram log: nothing later is there, so while members run more may come that "
                        "is of that time or before\n");
    free(p.data);
    if (rc < 0) {
        fprintf(stderr, "tram log: %s\n", error.text);
        return CMD_FAILED;
    }
    if (!p.any)
        fprintf(stderr, "tram log: cell %s has nothing there on host %s\n", a->cell, host);
    return p.any ? CMD_DONE : CMD_FAILED;
}

/* ---- checking ---- */

struct checking {
    const struct tram_cluster *c;
    uint32_t host;
    const unsigned char *more; /* --key, or NULL */
    bool none;                 /* there is no key to check with */
};

static bool is_its(void *ctx, uint32_t log, const struct digest *digest,
                   const unsigned char *signature)
{
    const struct checking *k = ctx;
    const struct cluster_keys *keys = &k->c->conf->host[k->host].keys;
    const struct sign_text text = group_sign_text(k->c, k->host, log, digest);
    bool good = k->none || (k->more && sign_is_good(k->more, &text, signature));
    for (uint32_t i = 0; i < keys->count && !good; i++)
        good = sign_is_good(keys->key[i], &text, signature);
    return good;
}

static void print_where(const char *what, uint64_t version)
{
    printf("%s%" PRIu64 ".%" PRIu64, what, stamp_vid(version), stamp_count(version));
}

static int print_verified(const struct log_args *a, const struct checking *k, const char *host,
                          bool wanted, const struct versions_verified *v)
{
    printf("cell %s on host %s: %" PRIu64 " records in %" PRIu64 " batches, %" PRIu64
           " bytes, all as they were written",
           a->cell, host, v->records, v->batches, v->bytes);
    print_where("; versions ", v->first);
    print_where(" to below ", v->reach);
    if (v->with_signature == 0) {
        printf("; not signed\n");
    } else {
        print_where("; from ", v->signed_from);
        printf(k->none ? " on signed, and no key is known to check that with\n"
                       : " on signed by %s\n",
               host);
    }
    if (v->unsigned_since > 0)
        fprintf(stderr,
                "tram log: %" PRIu64
                " batches behind signed ones are not signed: either `sign` was "
                "taken out of the cluster file, or somebody else has written them\n",
                v->unsigned_since);
    else if (wanted && v->batches > 0 && v->with_signature == 0)
        fprintf(stderr, "tram log: the cluster file says sign: true, and nothing is signed\n");
    else
        return CMD_DONE;
    return CMD_FAILED;
}

static bool wants_signatures(const struct cluster *c, uint32_t cell)
{
    uint32_t shard;
    return c->subgroup[cluster_cell_subgroup(c, cell, &shard)].sign;
}

static int verify(const struct log_args *a, const struct tram_cluster *c, const char *host)
{
    unsigned char key[CLUSTER_PUBLIC_BYTES];
    const char *wrong = a->key ? cluster_public_parse(a->key, key) : NULL;
    struct versions_verified v;
    struct block *block = NULL;
    struct err e = {""};
    int cell = cluster_cell(c->conf, a->cell), number = cluster_host(c->conf, host);
    if (cell == CLUSTER_NONE || number == CLUSTER_NONE) {
        fprintf(stderr, "tram log: there is no %s '%s' in cluster %s\n",
                cell == CLUSTER_NONE ? "cell" : "host", cell == CLUSTER_NONE ? a->cell : host,
                c->conf->name);
        return CMD_USAGE;
    }
    if (wrong)
        return args_bad("log", "--key", "it is like ed25519:AAAA..., as `tram key show` prints it");
    const struct versions_owner owner = group_kept_owner(c, (uint32_t)number);
    struct checking k = {.c = c, .host = (uint32_t)number, .more = a->key ? key : NULL};
    k.none = k.more == NULL && c->conf->host[number].keys.count == 0;
    int rc = group_kept_look(c, (uint32_t)number, &block, &e);
    if (rc == 0)
        rc = versions_verify(block, &owner, versions_of_cell((uint32_t)cell), is_its, &k, &v, &e);
    block_close(block);
    if (rc != 0) {
        fprintf(stderr, "tram log: cell %s on host %s: %s\n", a->cell, host, e.text);
        return CMD_FAILED;
    }
    return print_verified(a, &k, host, wants_signatures(c->conf, (uint32_t)cell), &v);
}

/* ---- the whole ---- */

/* The host that is named, or the first that has an address of this machine and a directory. */
static const char *choose_host(const struct log_args *a, const struct tram_cluster *c)
{
    struct block *block;
    if (a->host)
        return a->host;
    for (uint32_t h = 0; h < c->conf->hosts; h++)
        if (group_kept_look(c, h, &block, NULL) == 0) {
            block_close(block);
            return c->conf->host[h].name;
        }
    return c->conf->host[0].name;
}

int cmd_log(int argc, char **argv)
{
    struct log_args a = {0};
    const struct args_word words[] = {{"CELL", &a.cell, "a cell, as `tram view` names it"}, {0}};
    const struct args_option options[] = {
        RUNNING_OPTIONS(a.running),
        {"--host", "NAME", "of that host (default: the first that has a directory here)",
         .text = &a.host, .needs = "a host"},
        {"--from", "V", "from that version (VIEW.NUMBER), view or time on", .text = &a.from,
         .needs = "a version or a time"},
        {"--at", "TIME", "only the last message at or before that time", .text = &a.at,
         .needs = "a time"},
        {"--verify", NULL, "read all of it, and say whether it is as it was written and signed",
         .flag = &a.verify},
        {"--key", "KEY", "with --verify: an earlier key of the host, which counts too",
         .text = &a.key, .needs = "a public key"},
        {"--whole", NULL, "print all bytes of long messages", .flag = &a.whole},
        {0},
    };
    const struct args_command command = {
        .name = "log",
        .usage = "CELL [OPTIONS]",
        .about = "Prints the messages of a logged or durable cell as they stand on the disk of a "
                 "host of "
                 "this machine, which may run: version, time, sender, bytes. Times are "
                 "\"2026-11-18 20:57:19.25\", in the zone of TZ, or @SECONDS since 1970.",
        .options = options,
        .words = words,
        .more = "Exit code: 0 printed, or all is well; 1 there is nothing, or it is damaged; 2 "
                "wrong usage.",
    };
    struct tram_cluster *c;
    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    if (a.verify && (a.from || a.at))
        return args_bad("log", "--verify", "it reads all, and goes without --from and --at");
    if (a.key && !a.verify)
        return args_bad("log", "--key", "it is for --verify");
    code = running_load(&a.running, "log", &c);
    if (code != CMD_DONE)
        return code;
    const char *host = choose_host(&a, c);
    code = a.verify ? verify(&a, c, host) : print_log(&a, c, host);
    tram_cluster_free(c);
    return code;
}
