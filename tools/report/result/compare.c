#include "tools/report/result/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/base/text.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "tools/report/part/document.h"

void sb_compared_routes(const sb_pair *p, uint64_t total[2])
{
    total[0] = total[1] = 0;
    for (size_t i = 0; i < p->layer_count; i++) {
        total[0] += p->layers[i].drifted[0];
        total[1] += p->layers[i].drifted[1];
    }
}

static double percent(uint64_t part, uint64_t of)
{
    return of ? 100.0 * (double)part / (double)of : 0;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_layers(const sb_compared *c)
{
    const sb_pair *p = c->pair;
    size_t *ranks = sb_alloc(p->layer_count, sizeof *ranks);
    if (!ranks || !p->mixed) {
        free(ranks);
        return;
    }
    sb_pair_rank(p, ranks);
    printf("layers of B put into A, largest contribution first (%zu token%s):\n", p->mixed,
           sb_s(p->mixed));
    printf("layer          KL, mean      added  flips  experts changed: own  with drift\n");
    for (size_t i = 0; i < p->layer_count && i < c->lines; i++) {
        const sb_pair_layer *l = &p->layers[ranks[i]];
        printf("%-12s %10.3e %10.3e %6" PRIu64, l->name, l->kl, l->added, l->flips);
        if (l->drifted[0])
            printf("                %6.2f %% %9.2f %%", percent(l->routed[1], l->routed[0]),
                   percent(l->drifted[1], l->drifted[0]));
        putchar('\n');
    }
    if (p->layer_count > c->lines)
        printf("... and %zu more; --all shows every layer\n", p->layer_count - c->lines);
    free(ranks);
}

static void print_drafts(const sb_pair *p)
{
    if (!p->has_drafts)
        return;
    printf("acceptance of the first draft: A %.4f (%.4f to %.4f), B %.4f (%.4f to %.4f), change "
           "%+.4f (%+.4f to %+.4f)\n",
           p->drafts_at[0].rate, p->drafts_at[0].low, p->drafts_at[0].high, p->drafts_at[1].rate,
           p->drafts_at[1].low, p->drafts_at[1].high, p->drafts_change.rate, p->drafts_change.low,
           p->drafts_change.high);
}

static void print_flips(const sb_compared *c)
{
    const sb_pair *p = c->pair;
    double least = 0, most = 0;
    for (size_t i = 0; i < p->flip_count; i++) {
        double margin = p->flips[i].margin;
        least = i && least < margin ? least : margin;
        most = margin > most ? margin : most;
    }
    if (p->flip_count)
        printf("flips: %zu, margins of A there %.3g to %.3g\n", p->flip_count, least, most);
}

void sb_compared_print(const sb_compared *c)
{
    const sb_pair *p = c->pair;
    uint64_t routes[2];
    sb_compared_routes(p, routes);
    printf("A %s\nB %s\n%zu text%s, %zu token%s, profile %s\n", SB_SHOW(c->folder[0]),
           SB_SHOW(c->folder[1]), c->texts, sb_s(c->texts), p->tokens, sb_s(p->tokens), c->profile);
    printf("KL of A from B, nats: mean %.3e, median %.3e, 90 %% %.3e, 99 %% %.3e, largest %.3e\n",
           p->kl.mean, p->kl.median, p->kl.p90, p->kl.p99, p->kl.most);
    printf("same top-1 token: %" PRIu64 " of %" PRIu64 ", %.4f (%.4f to %.4f)\n",
           p->agreement.accepted, p->agreement.of, p->agreement_at.rate, p->agreement_at.low,
           p->agreement_at.high);
    print_flips(c);
    if (routes[0])
        printf("experts changed: %" PRIu64 " of %" PRIu64 ", %.2f %%\n", routes[1], routes[0],
               percent(routes[1], routes[0]));
    print_drafts(p);
    print_layers(c);
    printf("%s: %s\n", c->verdict, c->reason);
}

void sb_compared_card(const sb_compared *c)
{
    const sb_pair *p = c->pair;
    uint64_t routes[2];
    sb_compared_routes(p, routes);
    printf("### %s against %s\n\n", SB_SHOW(sb_path_title(c->folder[1])),
           SB_SHOW(sb_path_title(c->folder[0])));
    printf("| | |\n|---|---|\n");
    printf("| tokens | %zu in %zu text%s |\n", p->tokens, c->texts, sb_s(c->texts));
    printf("| KL divergence, mean (nats) | %.3e |\n", p->kl.mean);
    printf("| KL divergence, median / 99 %% / largest | %.3e / %.3e / %.3e |\n", p->kl.median,
           p->kl.p99, p->kl.most);
    printf("| same top-1 token | %.2f %% (95 %%: %.2f to %.2f) |\n", 100 * p->agreement_at.rate,
           100 * p->agreement_at.low, 100 * p->agreement_at.high);
    if (routes[0])
        printf("| experts changed | %.2f %% |\n", percent(routes[1], routes[0]));
    if (p->has_drafts)
        printf("| MTP acceptance, first draft | %.2f %% instead of %.2f %% |\n",
               100 * p->drafts_at[1].rate, 100 * p->drafts_at[0].rate);
    printf("\nExact arithmetic, samebit spec %d, profile %s.\n", SB_SPEC_VERSION, c->profile);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *rate(const sb_rate *r, const sb_interval *at)
{
    json_t *out = json_object();
    SB_PUT(out, "count", r->accepted);
    SB_PUT(out, "of", r->of);
    SB_PUT(out, "rate", at->rate);
    SB_PUT(out, "low", at->low);
    SB_PUT(out, "high", at->high);
    return out;
}

static json_t *routes(const uint64_t counts[2])
{
    return counts[0] ? json_pack("{s:I,s:I}", "kept", (json_int_t)counts[0], "changed",
                                 (json_int_t)counts[1])
                     : json_null();
}

static json_t *flips(const sb_pair *p)
{
    json_t *out = json_array();
    for (size_t i = 0; i < p->flip_count; i++) {
        const sb_flip *f = &p->flips[i];
        SB_ADD(out,
               json_pack("{s:I,s:I,s:{s:I,s:I},s:f}", "sequence", (json_int_t)f->sequence,
                         "position", (json_int_t)f->position, "top", "a", (json_int_t)f->top[0],
                         "b", (json_int_t)f->top[1], "margin", f->margin));
    }
    return out;
}

/* A list per text. */
static json_t *kl_by_token(const sb_pair *p)
{
    json_t *out = json_array();
    for (size_t i = 0, at = 0; i < p->texts; i++) {
        json_t *text = json_array();
        for (; at < p->ends[i]; at++)
            SB_ADD(text, p->kl_at[at]);
        SB_ADD(out, text);
    }
    return out;
}

static json_t *layers(const sb_pair *p)
{
    json_t *out = json_array();
    for (size_t i = 0; i < p->layer_count; i++) {
        const sb_pair_layer *l = &p->layers[i];
        json_t *row = json_object();
        SB_PUT(row, "name", l->name);
        SB_PUT(row, "kl", SB_KNOWN(p->mixed, l->kl));
        SB_PUT(row, "added", SB_KNOWN(p->mixed, l->added));
        SB_PUT(row, "flips", SB_KNOWN(p->mixed, l->flips));
        SB_PUT(row, "routing", routes(l->routed));
        SB_PUT(row, "routing_with_drift", routes(l->drifted));
        SB_ADD(out, row);
    }
    return out;
}

static json_t *ranking(const sb_pair *p)
{
    json_t *out = json_array();
    size_t *ranks = sb_alloc(p->layer_count, sizeof *ranks);
    if (ranks && p->mixed) {
        sb_pair_rank(p, ranks);
        for (size_t i = 0; i < p->layer_count; i++)
            SB_ADD(out, p->layers[ranks[i]].name);
    }
    if (!ranks)
        sb_json_lose();
    free(ranks);
    return out;
}

static json_t *acceptance(const sb_pair *p)
{
    if (!p->has_drafts)
        return json_null();
    return json_pack("{s:o,s:o,s:{s:f,s:f,s:f}}", "a", rate(&p->drafts[0], &p->drafts_at[0]), "b",
                     rate(&p->drafts[1], &p->drafts_at[1]), "change", "rate", p->drafts_change.rate,
                     "low", p->drafts_change.low, "high", p->drafts_change.high);
}

static json_t *folder(const char *path)
{
    json_t *out = json_string(path);
    return out ? out : json_string(SB_SHOW(path)); /* the name is no UTF-8 */
}

sb_status sb_compared_json(const sb_compared *c, sb_error *err)
{
    const sb_pair *p = c->pair;
    uint64_t all[2];
    sb_compared_routes(p, all);
    json_t *document = sb_document("compare");
    json_t *rest = json_pack(
        "{s:o,s:o,s:s,s:I,s:I,s:{s:f,s:f,s:f,s:f,s:f,s:o},s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:s,s:s}",
        "a", folder(c->folder[0]), "b", folder(c->folder[1]), "profile", c->profile, "sequences",
        (json_int_t)c->texts, "tokens", (json_int_t)p->tokens, "kl", "mean", p->kl.mean, "median",
        p->kl.median, "p90", p->kl.p90, "p99", p->kl.p99, "max", p->kl.most, "by_token",
        kl_by_token(p), "top1", rate(&p->agreement, &p->agreement_at), "flips", flips(p), "routing",
        routes(all), "acceptance", acceptance(p), "mixed_tokens", (json_int_t)p->mixed, "layers",
        layers(p), "ranking", ranking(p), "verdict", c->verdict, "reason", c->reason);
    int failed = !document || !rest || json_object_update(document, rest) != 0;
    json_decref(rest);
    if (!failed)
        return sb_print_document(document, err);
    json_decref(document);
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the document");
}
