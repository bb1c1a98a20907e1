/* A comparison as files: the page with plots, and all figures as JSON.
 *
 * The page is one file that needs nothing else, for a light and for a dark screen; it is well-formed XML
 * besides being HTML. */
#include "bench/compare.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

void compare_html(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
}

static const char page_head[] =
    "<!DOCTYPE html>\n"
    "<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<title>%s</title>\n<style>\n"
    ":root{color-scheme:light dark;--back:#fff;--text:#1c1c1c;--faint:#666;--grid:#ddd;"
    "--c0:#0067a8;--c1:#c04f00;--c2:#007a58;--c3:#8a3a9c}\n"
    "@media (prefers-color-scheme:dark){:root{--back:#161719;--text:#e8e8e8;--faint:#a0a0a0;"
    "--grid:#3a3c40;--c0:#63b8f2;--c1:#f2a04e;--c2:#4fd0a5;--c3:#d99be8}}\n"
    "body{margin:1.5rem auto;padding:0 1rem;max-width:100rem;background:var(--back);"
    "color:var(--text);font:15px/1.45 system-ui,sans-serif}\n"
    "h2{margin-top:2.5rem}\n"
    ".panels{display:flex;flex-wrap:wrap;gap:2rem}\n"
    "figure{margin:0;flex:1 1 26rem;max-width:44rem;min-width:0;overflow-x:auto}\n"
    ".wide figure{flex-basis:34rem}\n"
    "figcaption{font-weight:600;margin-bottom:.4rem}\n"
    "svg{width:100%%;max-width:36rem;height:auto;font:12px system-ui,sans-serif;fill:var(--text)}\n"
    ".grid{stroke:var(--grid)}.axis{stroke:var(--faint);fill:none}\n"
    ".one{stroke:var(--faint);stroke-dasharray:2 3}\n"
    ".end{text-anchor:end}.mid{text-anchor:middle}\n"
    ".c0{stroke:var(--c0);fill:var(--c0)}.c1{stroke:var(--c1);fill:var(--c1)}\n"
    ".c2{stroke:var(--c2);fill:var(--c2)}.c3{stroke:var(--c3);fill:var(--c3)}\n"
    ".line{fill:none;stroke-width:2}.dashed{stroke-dasharray:6 4}\n"
    ".h{fill:var(--back);stroke-width:1.6}\n"
    "table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.15rem .4rem;text-align:right;border-bottom:1px solid var(--grid);"
    "vertical-align:bottom}td{white-space:nowrap}\n"
    "figure table,details table{font-size:13px}\n"
    ".facts th,.facts td{text-align:left;white-space:normal;vertical-align:top}\n"
    "details{overflow-x:auto}summary{cursor:pointer}\n"
    "code{font-family:ui-monospace,monospace}.paper{color:var(--faint)}\n"
    "</style>\n</head>\n<body>\n<h1>%s</h1>\n";

void compare_page_begin(FILE *out, const char *title)
{
    fprintf(out, page_head, title, title);
}

static void page_row(FILE *out, const char *name, const char *value, const char *tag)
{
    fputs("<tr><th>", out);
    compare_html(out, name);
    fprintf(out, "</th><td>%s%s%s", tag[0] ? "<" : "", tag, tag[0] ? ">" : "");
    compare_html(out, value);
    fprintf(out, "%s%s%s</td></tr>\n", tag[0] ? "</" : "", tag, tag[0] ? ">" : "");
}

static void page_facts(FILE *out, const struct compare *c)
{
    fputs("<table class=\"facts\">\n", out);
    page_row(out, "points", c->origin, "");
    for (uint32_t i = 0; i < c->facts; i++)
        page_row(out, c->fact[i].name, c->fact[i].value, "");
    page_row(out, "to repeat it", c->command, "code");
    page_row(out, "all figures", "compare.json, beside this page", "");
    fputs("</table>\n", out);
}

static void page_table(FILE *out, const struct compare_table *t)
{
    fputs("<table>\n", out);
    for (uint32_t row = 0; row < t->rows; row++) {
        fputs("<tr>", out);
        for (uint32_t column = 0; column < t->columns; column++) {
            const char *tag = row == 0 || column == 0 ? "th" : "td";
            fprintf(out, "<%s>", tag);
            compare_html(out, t->word[row][column]);
            fprintf(out, "</%s>", tag);
        }
        fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}

static void page_cell(FILE *out, enum compare_metric metric, double value)
{
    char word[COMPARE_WORD_BYTES];
    compare_number(word, value > 0 ? compare_shown(metric, value) : NAN);
    fprintf(out, "<td>%s</td>", word);
}

static void page_raw_row(FILE *out, const struct compare_figure *f, uint32_t s, uint32_t x,
                         const struct compare_cell *cell)
{
    double least = INFINITY, most = 0;
    for (uint32_t i = 0; i < cell->turns; i++) {
        least = fmin(least, cell->turn[i].latency_ns);
        most = fmax(most, cell->turn[i].latency_ns);
    }
    fprintf(out, "<tr><th>%s</th><td>%u</td>", f->series[s].name, f->x[x]);
    page_cell(out, COMPARE_LATENCY, cell->median.latency_ns);
    page_cell(out, COMPARE_LATENCY, isfinite(least) ? least : 0);
    page_cell(out, COMPARE_LATENCY, most);
    page_cell(out, COMPARE_LATENCY, cell->median.latency_p99_ns);
    for (uint32_t l = 0; l < (f->rates ? cell->args.loads : 0); l++) {
        least = INFINITY, most = 0;
        for (uint32_t i = 0; i < cell->turns; i++) {
            least = fmin(least, cell->turn[i].rate[l]);
            most = fmax(most, cell->turn[i].rate[l]);
        }
        page_cell(out, COMPARE_RATE, cell->median.rate[l]);
        page_cell(out, COMPARE_RATE, isfinite(least) ? least : 0);
        page_cell(out, COMPARE_RATE, most);
    }
    fputs("</tr>\n", out);
}

/* Every point with how far its turns lie apart. */
static void page_raw(FILE *out, const struct compare *c, const struct compare_figure *f)
{
    const struct bench_args *a = &c->cell[f->series[0].cell[0]].args;
    fputs("<details><summary>every point, with its lowest and highest turn</summary>\n<table>\n"
          "<tr><th>series</th><th>",
          out);
    fprintf(out, "%s</th><th>latency, \u00b5s</th><th>lowest</th><th>highest</th><th>p99</th>",
            f->x_name);
    for (uint32_t l = 0; l < (f->rates ? a->loads : 0); l++)
        fprintf(out, "<th>thousand/s, clients: %u</th><th>lowest</th><th>highest</th>", a->load[l]);
    fputs("</tr>\n", out);
    for (uint32_t s = 0; s < f->count; s++)
        for (uint32_t x = 0; x < f->xs; x++)
            page_raw_row(out, f, s, x, &c->cell[f->series[s].cell[x]]);
    fputs("</table></details>\n", out);
}

static void page_item(FILE *out, const char *class, const char *who, const char *text)
{
    fprintf(out, "<li class=\"%s\">%s ", class, who);
    compare_html(out, text);
    fputs(".</li>\n", out);
}

static void page_figure(FILE *out, const struct compare *c, const struct compare_figure *f)
{
    struct compare_table table;
    char text[512];
    fprintf(out, "<section>\n<h2>Figure %u: ", f->number);
    compare_html(out, f->title);
    fputs("</h2>\n", out);
    if (f->remark) {
        fputs("<p>", out);
        compare_html(out, f->remark);
        fputs(".</p>\n", out);
    }
    fprintf(out, "<div class=\"panels%s\">\n", f->count > 4 ? " wide" : "");
    for (uint32_t m = 0; m < compare_metrics(f); m++) {
        fputs("<figure><figcaption>", out);
        compare_html(out, compare_metric_name(m));
        fputs("</figcaption>\n", out);
        compare_plot(out, c, f, m);
        compare_table(c, f, m, &table);
        page_table(out, &table);
        fputs("</figure>\n", out);
    }
    fputs("</div>\n<ul>\n", out);
    for (uint32_t i = 0; i < COMPARE_NOTES_MAX && f->paper[i]; i++)
        page_item(out, "paper", "The paper says:", f->paper[i]);
    for (uint32_t m = 0; m < compare_metrics(f); m++) {
        compare_finding(c, f, m, text, sizeof(text));
        if (text[0])
            page_item(out, "here", "Here:", text);
    }
    fputs("</ul>\n", out);
    page_raw(out, c, f);
    fputs("</section>\n", out);
}

static void page_errors(FILE *out, const struct compare *c)
{
    uint32_t said = 0;
    for (uint32_t i = 0; i < c->cells; i++) {
        if (!c->cell[i].error[0])
            continue;
        fputs(said++ ? "<li>" : "<h2>Not measured</h2>\n<ul>\n<li>", out);
        compare_html(out, c->cell[i].name);
        fputs(": ", out);
        compare_html(out, c->cell[i].error);
        fprintf(out, " (after %u of %u turns)</li>\n", c->cell[i].turns, c->turns);
    }
    if (said)
        fputs("</ul>\n", out);
}

static void page(const struct compare *c, FILE *out)
{
    compare_page_begin(out, "Tree and genuine multicast compared");
    fputs("<p>The figures 5 to 8 of the TRAM paper (section 8). The paper measured on eight-core "
          "machines with RDMA cards of 50 Gbit/s and 1.31 \u00b5s a write; compare shapes, "
          "not numbers.</p>\n",
          out);
    page_facts(out, c);
    for (uint32_t i = 0; i < c->figures; i++)
        page_figure(out, c, &c->figure[i]);
    page_errors(out, c);
    fputs("</body>\n</html>\n", out);
}

/* ---- files ---- */

int compare_file(const char *dir, const char *name, void (*body)(const void *ctx, FILE *),
                 const void *ctx, struct err *e)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return err_set(e, ERR_TOOBIG, "the path of %s is too long", name);
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return err_sys(e, "write %s", path);
    body(ctx, out);
    bool bad = ferror(out) != 0;
    if (fclose(out) != 0 || bad)
        return err_sys(e, "write %s", path);
    return 0;
}

int compare_report_dir(const char *dir, struct err *e)
{
    if ((mkdir(dir, 0777) != 0 && errno != EEXIST) || access(dir, W_OK | X_OK) != 0)
        return err_sys(e, "write into %s", dir);
    return 0;
}

static void page_body(const void *ctx, FILE *out)
{
    page(ctx, out);
}

static void json_body(const void *ctx, FILE *out)
{
    compare_json(ctx, out);
}

int compare_report(const struct compare *c, const char *dir, struct err *e)
{
    int rc = compare_report_dir(dir, e);
    if (rc == 0)
        rc = compare_file(dir, "index.html", page_body, c, e);
    return rc == 0 ? compare_file(dir, "compare.json", json_body, c, e) : rc;
}
