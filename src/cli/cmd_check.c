/* tram check: are the traces of a run what atomic multicast promises? */
#include "base/clock.h"
#include "base/json.h"
#include "check/amcast.h"
#include "check/load.h"
#include "check/vsync.h"
#include "cli/args.h"
#include "cli/cmd.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DOWN_MAX = 4096 };

struct check_args {
    const char *dir;
    bool quiesced, json, quiet, majority;
    struct args_list down; /* names */
};

struct run {
    uint64_t start_ns, shown_ns;
    uint64_t events;
    bool show;
    double load_s, verify_s;
    struct load_report report;
};

static double seconds_since(uint64_t ns)
{
    return (double)(clock_now_ns() - ns) / 1e9;
}

static void on_progress(void *arg, const struct load_report *report, uint64_t events)
{
    struct run *r = arg;
    r->events += events;
    if (!r->show || clock_now_ns() - r->shown_ns < 200000000)
        return;
    r->shown_ns = clock_now_ns();
    fprintf(stderr, "\rreading: %u files, %.1f million events, %.1f million/s ", report->files,
            (double)r->events / 1e6, (double)r->events / 1e6 / seconds_since(r->start_ns));
}

/* ---- text ---- */

static void print_violations(const struct amcast *a)
{
    const struct amcast_violation *v;
    for (uint32_t i = 0; (v = amcast_violation(a, i)) != NULL; i++) {
        printf("VIOLATION of %s: %s\n", amcast_property_names[v->property], v->text);
        for (uint32_t k = 0; k < v->evidence_count; k++)
            printf("    %s:%u: %s\n", amcast_file_name(a, v->evidence[k].place.file),
                   v->evidence[k].place.line, v->evidence[k].text);
    }
}

static void print_notes(const struct check_args *c, const struct load_report *l)
{
    if (l->cut > 0)
        printf("note: %u file%s with an incomplete last line, which is left out\n", l->cut,
               l->cut == 1 ? "" : "s");
    if (l->unclosed > 0)
        printf("note: %u file%s not closed: the writer was killed or is still running\n",
               l->unclosed, l->unclosed == 1 ? "" : "s");
    if (c->quiesced && l->crashed > 0)
        printf("note: %u client%s crashed: what was cast, and not delivered anywhere, is excused\n",
               l->crashed, l->crashed == 1 ? "" : "s");
}

static double cpu_s(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static long peak_mib(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_maxrss / 1024 : 0;
}

static void print_summary(const struct check_args *c, const struct run *r,
                          const struct amcast_summary *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"files", r->report.files},      {"groups", s->groups},   {"replicas", s->replicas},
        {"lives of replicas", s->lives}, {"clients", s->clients}, {"casts", s->casts},
        {"deliveries", s->deliveries},   {"dones", s->dones},
    };
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        printf("%-20s %12llu\n", counts[i].name, (unsigned long long)counts[i].value);
    for (unsigned p = 0; p < AMCAST_PROPERTIES; p++) {
        printf("%-20s ", amcast_property_names[p]);
        if (s->violations[p] > 0)
            printf("%12s  %llu times\n", "VIOLATED", (unsigned long long)s->violations[p]);
        else if (!s->checked[p])
            printf("%12s  needs %s\n", "not checked",
                   r->report.gaps > 0 ? "complete traces" : "--quiesced");
        else if (p == AMCAST_VALIDITY && !c->quiesced)
            printf("%12s  of what is done; --quiesced checks all\n", "ok");
        else
            printf("%12s\n", "ok");
    }
    print_notes(c, &r->report);
    printf(
        "read %.1f MB in %.2f s, checked in %.2f s (%.2f s of CPU), %.2f million events/s, %ld MiB"
        " at most\n",
        (double)r->report.bytes / 1e6, r->load_s, r->verify_s, cpu_s(),
        (double)r->events / 1e6 / (r->load_s + r->verify_s), peak_mib());
}

/* ---- JSON ---- */

static const char *const json_keys[AMCAST_PROPERTIES] = {
    [AMCAST_INTEGRITY] = "integrity", [AMCAST_VALIDITY] = "validity",
    [AMCAST_AGREEMENT] = "agreement", [AMCAST_NUMBERS] = "numbers",
    [AMCAST_PREFIX] = "prefix_order", [AMCAST_ACYCLIC] = "acyclic_order",
};

static void print_json(const struct check_args *c, const struct run *r, const struct amcast *a,
                       const struct amcast_summary *s, bool ok)
{
    const struct amcast_violation *v;
    printf("{" CMD_JSON_VERSION
           ",\"ok\":%s,\"quiesced\":%s,\"files\":%u,\"bytes\":%llu,\"cut\":%u,\"unclosed\":%u,"
           "\"gaps\":%u,\"crashed_clients\":%u,\"groups\":%u,\"replicas\":%u,\"lives\":%u,"
           "\"clients\":%u,"
           "\"casts\":%llu,\"deliveries\":%llu,\"dones\":%llu,\"read_s\":%.3f,\"check_s\":%.3f,"
           "\"cpu_s\":%.3f,\"peak_mib\":%ld,\"properties\":{",
           ok ? "true" : "false", c->quiesced ? "true" : "false", r->report.files,
           (unsigned long long)r->report.bytes, r->report.cut, r->report.unclosed, r->report.gaps,
           r->report.crashed, s->groups, s->replicas, s->lives, s->clients,
           (unsigned long long)s->casts, (unsigned long long)s->deliveries,
           (unsigned long long)s->dones, r->load_s, r->verify_s, cpu_s(), peak_mib());
    for (unsigned p = 0; p < AMCAST_PROPERTIES; p++)
        printf("%s\"%s\":{\"result\":\"%s\",\"violations\":%llu}", p ? "," : "", json_keys[p],
               s->violations[p] ? "violated" : (s->checked[p] ? "ok" : "not checked"),
               (unsigned long long)s->violations[p]);
    printf("},\"violations\":[");
    for (uint32_t i = 0; (v = amcast_violation(a, i)) != NULL; i++) {
        printf("%s{\"property\":\"%s\",\"text\":", i ? "," : "", json_keys[v->property]);
        json_string(stdout, v->text);
        printf(",\"events\":[");
        for (uint32_t k = 0; k < v->evidence_count; k++) {
            printf("%s{\"file\":", k ? "," : "");
            json_string(stdout, amcast_file_name(a, v->evidence[k].place.file));
            printf(",\"line\":%u,\"text\":", v->evidence[k].place.line);
            json_string(stdout, v->evidence[k].text);
            putchar('}');
        }
        printf("]}");
    }
    printf("]}\n");
}

/* ---- all of it ---- */

/* ---- groups with views ---- */

static void print_view_violations(const struct amcast *a, const struct vsync *v)
{
    const struct vsync_violation *x;
    for (uint32_t i = 0; (x = vsync_violation(v, i)) != NULL; i++)
        printf("VIOLATION of %s: %s\n    %s:%u\n", vsync_property_names[x->property], x->text,
               amcast_file_name(a, x->place.file), x->place.line);
}

static void print_view_summary(const struct check_args *c, const struct run *r,
                               const struct vsync_summary *s)
{
    printf("%-20s %12u\n%-20s %12u\n%-20s %12u\n%-20s %12u\n", "files", r->report.files, "members",
           s->members, "lives of members", s->lives, "cells", s->cells);
    printf("%-20s %12llu\n%-20s %12llu\n%-20s %12llu\n", "views", (unsigned long long)s->views,
           "casts", (unsigned long long)s->casts, "deliveries", (unsigned long long)s->deliveries);
    for (unsigned p = 0; p < VSYNC_PROPERTIES; p++) {
        printf("%-20s ", vsync_property_names[p]);
        if (s->violations[p] > 0)
            printf("%12s  %llu times\n", "VIOLATED", (unsigned long long)s->violations[p]);
        else
            printf("%12s%s\n", s->checked[p] ? "ok" : "not checked",
                   s->checked[p]      ? ""
                   : p == VSYNC_CHAIN ? "  needs --majority"
                                      : "  needs complete traces");
    }
    print_notes(c, &r->report);
}

static void print_view_json(const struct amcast *a, const struct run *r, const struct vsync *v,
                            const struct vsync_summary *s, bool ok)
{
    const struct vsync_violation *x;
    printf("{" CMD_JSON_VERSION
           ",\"ok\":%s,\"files\":%u,\"gaps\":%u,\"members\":%u,\"lives\":%u,\"cells\":%u,"
           "\"views\":%llu,\"casts\":%llu,\"deliveries\":%llu,\"violations\":[",
           ok ? "true" : "false", r->report.files, r->report.gaps, s->members, s->lives, s->cells,
           (unsigned long long)s->views, (unsigned long long)s->casts,
           (unsigned long long)s->deliveries);
    for (uint32_t i = 0; (x = vsync_violation(v, i)) != NULL; i++) {
        printf("%s{\"property\":\"%s\",\"text\":", i ? "," : "", vsync_property_names[x->property]);
        json_string(stdout, x->text);
        printf(",\"file\":");
        json_string(stdout, amcast_file_name(a, x->place.file));
        printf(",\"line\":%u}", x->place.line);
    }
    printf("]}\n");
}

static bool check_views(const struct check_args *c, struct run *r, const struct amcast *a,
                        struct vsync *v)
{
    struct vsync_summary s;
    bool ok = vsync_verify(v, c->majority);
    vsync_summarise(v, &s);
    if (c->json) {
        print_view_json(a, r, v, &s, ok && r->report.gaps == 0);
        return ok;
    }
    print_view_violations(a, v);
    if (!c->quiet)
        print_view_summary(c, r, &s);
    return ok;
}

static void say_gap(const struct run *r, const struct amcast *a)
{
    fflush(stdout);
    fprintf(stderr,
            "tram check: %s:%u: the writer had no room for what follows; only what does not need "
            "it was checked\n",
            amcast_file_name(a, r->report.gap.file), r->report.gap.line);
}

static int check_dir(const struct check_args *c, struct amcast *a, struct vsync *v)
{
    struct run r = {.start_ns = clock_now_ns(), .show = !c->quiet && isatty(2)};
    struct err e = {{0}};
    int rc = load_views(a, v, c->dir, on_progress, &r, &r.report, &e);
    r.load_s = seconds_since(r.start_ns);
    if (r.show && r.shown_ns != 0)
        fputc('\n', stderr);
    if (rc < 0) {
        fprintf(stderr, "tram check: %s\n", e.text);
        return CMD_USAGE;
    }
    if (r.report.views > 0) {
        bool well = check_views(c, &r, a, v);
        if (r.report.gaps > 0)
            say_gap(&r, a);
        return !well ? CMD_FAILED : r.report.gaps > 0 ? CMD_USAGE : CMD_DONE;
    }
    for (int i = 0; i < c->down.count; i++)
        if (!amcast_down(a, c->down.item[i])) {
            fprintf(stderr,
                    "tram check: --down %s: no host, group or client of that name is in"
                    " the traces\n",
                    c->down.item[i]);
            return CMD_USAGE;
        }
    uint64_t begin = clock_now_ns();
    bool ok = amcast_verify(a, c->quiesced);
    r.verify_s = seconds_since(begin);

    struct amcast_summary s;
    amcast_summarise(a, &s);
    if (c->json) {
        print_json(c, &r, a, &s, ok && r.report.gaps == 0);
    } else {
        print_violations(a);
        if (!c->quiet)
            print_summary(c, &r, &s);
    }
    if (r.report.gaps > 0)
        say_gap(&r, a);
    return !ok ? CMD_FAILED : r.report.gaps > 0 ? CMD_USAGE : CMD_DONE;
}

int cmd_check(int argc, char **argv)
{
    const char *down[DOWN_MAX];
    struct check_args c = {.down = {.item = down, .max = DOWN_MAX}};
    const struct args_word words[] = {
        {"DIR", &c.dir, "say which directory of traces to check"},
        {0},
    };
    const struct args_option options[] = {
        {"--quiesced", NULL,
         "the run had come to rest: what was cast or delivered must have been delivered by all "
         "replicas of its destinations. Without it agreement is not checked",
         .flag = &c.quiesced},
        {"--down", "NAME",
         "with --quiesced: this host (group, client) was down at the end and need not have caught "
         "up; may be repeated",
         .list = &c.down, .needs = "the name of a host"},
        {"--majority", NULL,
         "of a group with views: more than half of the members of each view must be in the next",
         .flag = &c.majority},
        {"--json", NULL, "one JSON object instead of text", .flag = &c.json},
        {"--quiet", NULL, "only violations, no summary and no progress", .flag = &c.quiet},
        {0},
    };
    const struct args_command command = {
        .name = "check",
        .usage = "DIR [OPTIONS]",
        .about = "Reads the traces in DIR (what --trace DIR wrote: one file NAME.jsonl per client "
                 "and replica) and checks integrity, validity, uniform agreement, delivery "
                 "numbers, prefix order and acyclic order of all deliveries in them. Traces of a "
                 "group with views are checked for virtual synchrony instead: view agreement, "
                 "integrity, same sequence, uniform delivery and the order of each sender.",
        .options = options,
        .words = words,
        .too_many = "one directory is checked at a time",
        .more = "Exit code: 0 all is well, 1 a property is violated, 2 wrong usage, or traces that "
                "are unreadable or have gaps.",
    };

    int code = args_read(&command, argc, argv);
    if (code != ARGS_GO)
        return code;
    if (c.down.count > 0 && !c.quiesced)
        return args_bad("check", "--down", "only makes sense with --quiesced");
    struct amcast *a = amcast_open();
    struct vsync *v = vsync_open();
    code = check_dir(&c, a, v);
    vsync_close(v);
    amcast_close(a);
    return code;
}
