/* compare_html.c - the page of samebit compare. docs/report.md describes it. */
#include <inttypes.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "tools/report/result/compare.h"
#include "tools/report/part/page.h"
#include "tools/report/part/print.h"

enum { FLIPS = 20 }; /* flips on the page; the others are counted */

static double percent(uint64_t part, uint64_t of)
{
    return of ? 100.0 * (double)part / (double)of : 0;
}

static sb_page_tone tone_of(const sb_compared *c)
{
    return c->failed ? SB_TONE_bad : *c->verdict == 'W' ? SB_TONE_good : SB_TONE_open;
}

/* --- the head --------------------------------------------------------------------------------- */

static void print_facts(FILE *out, const sb_compared *c)
{
    const sb_pair *p = c->pair;
    uint64_t routes[2];
    sb_compared_routes(p, routes);
    sb_page_facts(out);
    sb_page_fact(out, "KL of A from B, mean");
    fprintf(out, "%.3e nats", p->kl.mean);
    sb_page_fact_end(out);
    sb_page_fact(out, "the same largest logit");
    fprintf(out, "%.2f %% (%.2f to %.2f)", 100 * p->agreement_at.rate, 100 * p->agreement_at.low,
            100 * p->agreement_at.high);
    sb_page_fact_end(out);
    sb_page_fact(out, "experts changed");
    if (routes[0])
        fprintf(out, "%.2f %%", percent(routes[1], routes[0]));
    else
        fputs("no experts", out);
    sb_page_fact_end(out);
    sb_page_fact(out, "first drafts accepted");
    if (p->has_drafts)
        fprintf(out, "%.2f %%, not %.2f %%", 100 * p->drafts_at[1].rate,
                100 * p->drafts_at[0].rate);
    else
        fputs("no drafts", out);
    sb_page_fact_end(out);
    sb_page_facts_end(out);
}

static void print_head(FILE *out, const sb_compared *c, const char *subject)
{
    sb_page_head(out, tone_of(c), c->verdict, subject, "", c->reason);
    print_facts(out, c);
    sb_page_list(out);
    sb_page_item(out, "A", c->folder[0]);
    sb_page_item(out, "B", c->folder[1]);
    sb_page_item(out, "profile", c->profile);
    fputs("<dt>on</dt><dd>", out);
    sb_page_count(out, c->texts, "text");
    fputs(", ", out);
    sb_page_count(out, c->pair->tokens, "token");
    fputs("</dd>\n", out);
    sb_page_list_end(out);
    sb_page_head_end(out);
}

/* --- by token --------------------------------------------------------------------------------- */

/* The tokens, with a mark for each flip. */
typedef struct flagged {
    const sb_pair *pair;
    unsigned char *flips; /* (tokens) */
} flagged;

static int kl_of(const void *ctx, size_t i, double *value)
{
    *value = ((const flagged *)ctx)->pair->kl_at[i];
    return 1;
}

static int is_flip(const void *ctx, size_t i)
{
    return ((const flagged *)ctx)->flips[i];
}

static void print_kl(FILE *out, const sb_pair *p)
{
    flagged f = {p, sb_alloc(p->tokens, 1)};
    if (!f.flips) {
        sb_json_lose(); /* the page is incomplete */
        return;
    }
    for (size_t i = 0; i < p->flip_count; i++) {
        const sb_flip *flip = &p->flips[i];
        f.flips[(flip->sequence ? p->ends[flip->sequence - 1] : 0) + flip->position] = 1;
    }
    sb_page_section(
        out, "kl", "Divergence by position",
        "KL divergence in nats of A's distribution of the next token from B's, text after text. "
        "The scale is logarithmic and the same in every page, with 0 at the bottom. A red stroke "
        "marks a position where the most likely token differs.");
    const sb_page_curve curve = {.ctx = &f,
                                 .label = "KL divergence by position",
                                 .unit = "token",
                                 .count = p->tokens,
                                 .value = kl_of,
                                 .flag = is_flip,
                                 .last = p->tokens - 1};
    sb_page_curve_print(out, &curve);
    fprintf(out,
            "<p>Mean %.3e, median %.3e, 90 %% below %.3e, 99 %% below %.3e, largest %.3e.</p>\n",
            p->kl.mean, p->kl.median, p->kl.p90, p->kl.p99, p->kl.most);
    sb_page_section_end(out);
    free(f.flips);
}

/* The flips in order of A's margin, the largest first. */
static int by_margin(const void *left, const void *right)
{
    const sb_flip *a = *(const sb_flip *const *)left, *b = *(const sb_flip *const *)right;
    if (a->margin != b->margin)
        return a->margin > b->margin ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void print_flip_rows(FILE *out, const sb_pair *p)
{
    const sb_flip **order = sb_alloc(p->flip_count, sizeof *order);
    if (!order) {
        sb_json_lose();
        return;
    }
    for (size_t i = 0; i < p->flip_count; i++)
        order[i] = &p->flips[i];
    qsort(order, p->flip_count, sizeof *order, by_margin);
    sb_page_table(out, "flips", "text|position|A says|B says|margin of A");
    for (size_t i = 0; i < p->flip_count && i < FLIPS; i++)
        fprintf(out,
                "<tr><td>%u</td><td>%" PRIu64 "</td><td>%u</td><td>%u</td><td>%.3g</td></tr>\n",
                (unsigned)order[i]->sequence, order[i]->position, (unsigned)order[i]->top[0],
                (unsigned)order[i]->top[1], order[i]->margin);
    sb_page_table_end(out);
    free(order);
}

static void print_flips(FILE *out, const sb_pair *p)
{
    sb_page_section(out, "flips", "Flips",
                    "Positions at which another token has the largest logit. The margin is the "
                    "difference between A's largest logit and its second largest: rounding does "
                    "not explain a flip with a large margin.");
    fprintf(out, "<p>%zu of %zu.</p>\n", p->flip_count, p->tokens);
    if (p->flip_count)
        print_flip_rows(out, p);
    if (p->flip_count > FLIPS)
        fprintf(out, "<p>... and %zu more with smaller margins.</p>\n", p->flip_count - FLIPS);
    sb_page_section_end(out);
}

/* --- by layer --------------------------------------------------------------------------------- */

static void print_layer(FILE *out, const sb_pair *p, const sb_pair_layer *l, double most)
{
    fprintf(out, "<tr><td><code>%s</code></td>", l->name);
    if (p->mixed) {
        fprintf(out, "<td>%.3e</td><td>", l->kl);
        sb_page_log_bar(out, l->kl, most * 0x1p-10, most);
        fprintf(out, "</td><td>%.3e</td><td>%" PRIu64 "</td>", l->added, l->flips);
    }
    if (l->drifted[0] && p->mixed)
        fprintf(out, "<td>%.2f %%</td>", percent(l->routed[1], l->routed[0]));
    else if (p->mixed)
        fputs("<td>-</td>", out);
    if (l->drifted[0])
        fprintf(out, "<td>%.2f %%</td></tr>\n", percent(l->drifted[1], l->drifted[0]));
    else
        fputs("<td>-</td></tr>\n", out);
}

static void print_layers(FILE *out, const sb_pair *p)
{
    uint64_t routes[2];
    double most = 0;
    sb_compared_routes(p, routes);
    if (!p->mixed && !routes[0])
        return;
    for (size_t i = 0; i < p->layer_count; i++)
        most = p->layers[i].kl > most ? p->layers[i].kl : most;
    sb_page_section(out, "layers", "Layer by layer",
                    "KL: the mean divergence of A from A with only this layer of B; the bar is "
                    "logarithmic, over 10 powers of two up to the largest. Added: the error of B's "
                    "layer on A's own input. Experts changed: kept by B and not by A, first on A's "
                    "input, then with the input of each model.");
    if (p->mixed)
        fprintf(out, "<p>The first %zu tokens.</p>\n", p->mixed);
    else
        fputs("<p>Without mixtures (<code>--mixed 0</code>) no layer was put into A alone.</p>\n",
              out);
    sb_page_table(out, "layers",
                  p->mixed ? "layer|KL||added|flips|experts changed: own input|with drift"
                           : "layer|experts changed: with drift");
    for (size_t i = 0; i < p->layer_count; i++)
        if (p->mixed || p->layers[i].drifted[0])
            print_layer(out, p, &p->layers[i], most);
    sb_page_table_end(out);
    sb_page_section_end(out);
}

/* --- drafts ----------------------------------------------------------------------------------- */

static void print_drafts(FILE *out, const sb_pair *p)
{
    if (!p->has_drafts)
        return;
    sb_page_section(out, "drafts", "Acceptance of the first draft",
                    "The guess of the MTP head against the largest logit of its own model, with "
                    "the interval of 95 %. The scale is 0 to 1.");
    sb_page_table(out, "drafts", "model|accepted|of|rate|95 %|");
    for (int i = 0; i < 2; i++) {
        const sb_interval *at = &p->drafts_at[i];
        fprintf(out,
                "<tr><td>%s</td><td>%" PRIu64 "</td><td>%" PRIu64
                "</td><td>%.4f</td><td>%.4f to %.4f</td><td>",
                i ? "B" : "A", p->drafts[i].accepted, p->drafts[i].of, at->rate, at->low, at->high);
        sb_page_interval(out, &(sb_page_span){at->low, at->rate, at->high}, NULL);
        fputs("</td></tr>\n", out);
    }
    sb_page_table_end(out);
    fprintf(out, "<p>Change %+.4f (%+.4f to %+.4f).</p>\n", p->drafts_change.rate,
            p->drafts_change.low, p->drafts_change.high);
    sb_page_section_end(out);
}

/* --- the page --------------------------------------------------------------------------------- */

static int print_page(FILE *out, const void *compared)
{
    const sb_compared *c = compared;
    char subject[2 * sizeof(sb_shown) + 16];
    snprintf(subject, sizeof subject, "%s against %s", SB_SHOW(sb_path_title(c->folder[1])),
             SB_SHOW(sb_path_title(c->folder[0])));
    sb_page_open(out, c->verdict, subject);
    print_head(out, c, subject);
    print_kl(out, c->pair);
    print_flips(out, c->pair);
    print_layers(out, c->pair);
    print_drafts(out, c->pair);
    sb_page_again(out, c->arguments, c->argument_count);
    sb_page_item(out, "A", c->folder[0]);
    sb_page_item(out, "B", c->folder[1]);
    sb_page_again_end(out);
    sb_page_close(out);
    return 1;
}

sb_status sb_compared_html(const sb_compared *c, const char *path, sb_error *err)
{
    return sb_print_file(path, print_page, c, "page", err);
}
