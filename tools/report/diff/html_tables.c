/* html_tables.c - the first failure with the elements around it; states, ops and tokens. */
#include <inttypes.h>
#include <string.h>

#include "tools/report/diff/html_parts.h"

/* --- the first failure ------------------------------------------------------------------------ */

/* How far the engine's value is outside, if the bound leaves more than one value. */
static void print_expected(FILE *out, const sb_place *p)
{
    double apart = p->found - p->expected;
    double times = p->bound > 0 ? (apart < 0 ? -apart : apart) / p->bound : 0;
    fprintf(out, "<dt>reference</dt><dd><b>%s</b>, within %.3g", html_value(p->expected).text,
            p->bound);
    if (times > 1 && times <= 0x1.fffffffffffffp1023)
        fprintf(out, ": <b class=\"bad\">%s times too far off</b>", sb_page_ratio(times).text);
    fputs("</dd>\n", out);
}

static void print_place(FILE *out, const sb_diff_report *r, const sb_place *p)
{
    sb_diff_layer layer = sb_diff_layer_text(r, p->layer);
    fputs("<dl class=\"list\">\n<dt>token</dt><dd>", out);
    if (r->sequences > 1)
        fprintf(out, "sequence %u, ", (unsigned)p->sequence);
    fprintf(out, "position %" PRIu64 "</dd>\n<dt>layer</dt><dd>%s</dd>\n<dt>op</dt><dd><code>",
            p->token, *layer.text ? layer.text : "none");
    sb_page_text(out, p->op);
    fputs("</code></dd>\n", out);
    if (*p->name && strcmp(p->name, p->op) != 0) {
        fputs("<dt>value</dt><dd><code>", out);
        sb_page_text(out, p->name);
        fputs("</code></dd>\n", out);
    }
    if (p->rank) {
        fputs("<dt>element</dt><dd>[", out);
        for (size_t i = 0; i < p->rank; i++)
            fprintf(out, "%s%" PRIu64, i ? ", " : "", p->element[i]);
        fputs("]</dd>\n", out);
        fprintf(out, "<dt>engine</dt><dd><b>%s</b></dd>\n", html_value(p->found).text);
        if (p->expected == p->expected) /* NaN: nothing to compare with */
            print_expected(out, p);
    }
    fputs("</dl>\n", out);
}

static double ratio_of(const sb_around *a, size_t i)
{
    double error = (double)a->found[i] - (double)a->expected[i];
    error = error < 0 ? -error : error;
    return error == 0 ? 0 : error > 0 && a->bound[i] > 0 ? error / a->bound[i] : 0x1p1023 * 2.0;
}

static void print_around(FILE *out, const sb_verdicts *v)
{
    const sb_around *a = &v->around;
    fputs("<h3>The elements around it</h3>\n", out);
    sb_page_table(out, "around", "column|engine|reference|error / bound||error|bound");
    for (size_t i = 0; i < a->count; i++) {
        double ratio = ratio_of(a, i);
        int hit = v->first_failure.rank == 1 && v->first_failure.element[0] == a->first + i;
        fprintf(out, "<tr%s><td>%" PRIu64 "</td><td>%s</td><td>%s</td><td>%s</td><td>",
                hit ? " class=\"hit\"" : "", a->first + i, html_value((double)a->found[i]).text,
                html_value((double)a->expected[i]).text, sb_page_ratio(ratio).text);
        sb_page_ratio_bar(out, ratio);
        fprintf(out, "</td><td>%.3g</td><td>%.3g</td></tr>\n",
                (double)a->found[i] - (double)a->expected[i], a->bound[i]);
    }
    sb_page_table_end(out);
}

static void print_explanations(FILE *out, const sb_verdicts *v)
{
    if (!v->explanation_count)
        return;
    fputs("<h3>Possible explanations</h3>\n", out);
    sb_page_table(out, "explanations", "the engine|<change|error / bound|with the change");
    for (size_t i = 0; i < v->explanation_count; i++) {
        const sb_explanation *e = &v->explanations[i];
        fputs("<tr><td class=\"words\">", out);
        sb_page_text(out, e->words);
        fputs("</td><td class=\"left\"><code>", out);
        sb_page_text(out, e->change);
        fprintf(out, "</code></td><td>%s</td><td>%s</td></tr>\n", sb_page_ratio(e->before).text,
                sb_page_ratio(e->after).text);
    }
    sb_page_table_end(out);
}

void html_failure(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    if (!v->has_failure)
        return;
    sb_page_section(out, "failure", "The first failure",
                    "The first wrong value of the earliest wrong token. Later wrong values may be "
                    "a consequence of it.");
    print_place(out, r, &v->first_failure);
    if (*v->first_failure.words && !strstr(v->reason, v->first_failure.words)) {
        fputs("<p><code>", out);
        sb_page_text(out, v->first_failure.words);
        fputs("</code></p>\n", out);
    }
    if (v->around.count)
        print_around(out, v);
    print_explanations(out, v);
    sb_page_section_end(out);
}

/* --- states ----------------------------------------------------------------------------------- */

static void print_part(FILE *out, const sb_diff_report *r, sb_state_part part)
{
    static const char *const what[SB_STATE_PARTS] = {
        "keys and values of attention", "window of the convolution", "memory of the delta rule",
        "keys and values of the MTP head"};
    const sb_verdicts *v = r->verdicts;
    const sb_round_verdict *at;
    sb_verdict worst = sb_diff_state(v, part, &at);
    size_t compared = 0, bad = 0;
    for (size_t i = 0; i < v->round_count; i++) {
        compared += v->rounds[i].state[part].verdict != SB_VERDICT_none;
        bad += !sb_diff_fine(v->rounds[i].state[part].verdict);
    }
    fprintf(out, "<tr><td>%s</td><td>", sb_state_part_name(part));
    html_verdict(out, worst);
    fprintf(out, "</td><td>%zu</td><td>%zu</td><td class=\"left\">%s</td><td class=\"left\">",
            compared, bad, what[part]);
    if (at && at->state[part].has_first) {
        const sb_place *p = &at->state[part].first;
        fprintf(out, "after round %" PRIu64 ": %s", at->round,
                sb_diff_layer_text(r, p->layer).text);
        for (size_t i = 0; i < p->rank; i++)
            fprintf(out, "%s %" PRIu64,
                    i == 0   ? ", head"
                    : i == 1 ? ", row"
                             : ", column",
                    p->element[i]);
        fprintf(out, ": %s, expected %s", html_value(p->found).text, html_value(p->expected).text);
    }
    fputs("</td></tr>\n", out);
}

void html_state(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    sb_verdict worst = SB_VERDICT_none;
    for (size_t part = 0; part < SB_STATE_PARTS; part++) {
        const sb_round_verdict *at;
        worst = sb_verdict_worse(worst, sb_diff_state(v, (sb_state_part)part, &at));
    }
    if (worst == SB_VERDICT_none)
        return;
    sb_page_section(out, "state", "State after the rounds",
                    "The state of the engine after each speculative round. If drafts were "
                    "rejected, the state must be as if they had never been fed.");
    sb_page_table(out, "state",
                  "part|verdict|rounds|wrong or open|<holds|<the first wrong or open one");
    for (size_t part = 0; part < SB_STATE_PARTS; part++)
        print_part(out, r, (sb_state_part)part);
    sb_page_table_end(out);
    sb_page_section_end(out);
}

/* U-11: the sequences that continue another one; O-3 holds for them, too. */
void html_hits(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    size_t shown = 0, left = 0;
    if (!v->hit_count)
        return;
    sb_page_section(out, "hits", "Sequences that continue another one",
                    "The state that each begins with, which has to be that of its parent at this "
                    "position, and its first call.");
    sb_page_table(out, "hits",
                  "sequence|parent|position|verdict|kv|conv|recurrent|mtp|<behaves as");
    for (size_t i = 0; i < v->hit_count; i++) {
        const sb_hit_verdict *hit = &v->hits[i];
        int few = v->hit_count <= SB_DIFF_LINES;
        if ((!few && sb_diff_fine(hit->verdict)) || shown == SB_DIFF_LINES) {
            left += !sb_diff_fine(hit->verdict);
            continue;
        }
        shown++;
        fprintf(out, "<tr><td>%u</td><td>%u</td><td>%" PRIu64 "</td><td>", (unsigned)hit->sequence,
                (unsigned)hit->parent, hit->position);
        html_verdict(out, hit->verdict);
        for (size_t part = 0; part < SB_STATE_PARTS; part++) {
            fputs("</td><td>", out);
            html_verdict(out, hit->state[part].verdict);
        }
        fputs("</td><td class=\"words\">", out);
        sb_page_text(out, hit->hypothesis);
        fputs("</td></tr>\n", out);
    }
    sb_page_table_end(out);
    if (left)
        fprintf(out, "<p>... and %zu more.</p>\n", left);
    sb_page_section_end(out);
}

/* --- ops -------------------------------------------------------------------------------------- */

void html_ops(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    size_t met = 0;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        met += sb_diff_met(&v->ops[i]) != 0;
    if (!met)
        return;
    sb_page_section(out, "ops", "Each op alone",
                    "Every op of the reference got the inputs that the engine recorded. So an "
                    "earlier error does not count against a later op. Inside a segment, "
                    "values between two recorded ones were computed by the reference.");
    sb_page_table(out, "ops",
                  "op|verdict|worst error / bound||tightness|elements|same bits|alone|inside a "
                  "segment|not judged");
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const sb_op_verdict *op = &v->ops[i];
        if (!sb_diff_met(op))
            continue;
        fprintf(out, "<tr%s data-op=\"%s\"><td><code>%s</code></td><td>",
                op->verdict == SB_VERDICT_FAIL ? " class=\"hit\"" : "", sb_op_name(i),
                sb_op_name(i));
        html_verdict(out, op->verdict);
        fprintf(out, "</td><td>%s</td><td>", sb_page_ratio(op->worst).text);
        sb_page_ratio_bar(out, op->worst);
        fprintf(out, "</td><td>%.2g</td><td>%zu</td><td>", op->median, op->compared);
        if (op->compared)
            fprintf(out, "%.1f%%", 100.0 * (double)op->identical / (double)op->compared);
        fprintf(out, "</td><td>%zu</td><td>%zu</td><td>%zu</td></tr>\n", op->values.alone,
                op->values.inside, op->values.not_judged);
    }
    sb_page_table_end(out);
    sb_page_section_end(out);
}

/* --- errors on average ------------------------------------------------------------------------ */

/* T-100, in a sentence. */
static void print_fit(FILE *out, const sb_fit_verdict *f)
{
    if (!f->groups)
        return;
    fprintf(out, "<p>Sums of linear layers, by %zu groups of results: ", f->groups);
    if (f->sums)
        fputs("binary32 sums in some order, rounded to nearest, fit.", out);
    else if (f->tightest)
        fprintf(out,
                "binary32 sums do not fit; <code>%s</code> is the tightest matrix unit that does.",
                f->tightest);
    else
        fputs("neither binary32 sums nor any matrix unit of docs/atoms.md fit.", out);
    fputs("</p>\n", out);
}

void html_bias(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    size_t tested = 0;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        tested += v->ops[i].bias.rows != 0;
    if (!tested)
        return;
    sb_page_section(
        out, "bias", "Errors on average",
        "Errors of round to nearest are up as often as down. Bets on their signs tell a "
        "constant error that lies within the bounds (docs/tolerances.md, T-98). One u is "
        "2<sup>-24</sup> of the result.");
    sb_page_table(out, "bias",
                  "op|results are|on average|of the mean magnitude|groups|best bet|decided "
                  "at|compared with");
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const sb_op_bias *b = &v->ops[i].bias;
        if (!b->rows)
            continue;
        const int found = b->direction != SB_BIAS_none;
        fprintf(out,
                "<tr%s data-bias=\"%s\"><td><code>%s</code></td><td>%s</td><td>%.3g u</td><td>%.3g "
                "u</td><td>%zu</td><td>10<sup>%.1f</sup> to 1</td><td>",
                found ? " class=\"hit\"" : "", sb_op_name(i), sb_op_name(i),
                found ? sb_bias_way(b->direction) : "not biased", b->relative, b->absolute, b->rows,
                b->odds);
        if (found)
            fprintf(out, "<code>%s</code>", b->place.name);
        fprintf(out, "</td><td>%s</td></tr>\n", b->null);
    }
    sb_page_table_end(out);
    print_fit(out, &v->fit);
    sb_page_section_end(out);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static void print_ids(FILE *out, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%u", i ? "," : "", (unsigned)ids[i]);
    fputs(count ? "" : "none", out);
}

static void print_round(FILE *out, const sb_round_verdict *round)
{
    fprintf(out, "round %" PRIu64 " ", round->round);
    html_verdict(out, round->verdict);
    fputs(": drafts ", out);
    print_ids(out, round->drafts[1], round->drafted[1]);
    fprintf(out, ", %zu kept", round->accepted[1]);
    if (round->has_reference) {
        fputs(" (reference ", out);
        print_ids(out, round->drafts[0], round->drafted[0]);
        fprintf(out, ", %zu kept)", round->accepted[0]);
    }
    if (*round->hypothesis) {
        fputs("; ", out);
        sb_page_text(out, round->hypothesis);
    }
}

static void print_token(FILE *out, const sb_diff_report *r, const sb_token_verdict *t,
                        const sb_round_verdict *round)
{
    fprintf(out, "<tr%s>", t->verdict == SB_VERDICT_FAIL ? " class=\"bad\"" : "");
    if (r->sequences > 1)
        fprintf(out, "<td>%u</td>", (unsigned)t->sequence);
    fprintf(out, "<td>%" PRIu64 "</td><td>%u</td><td>", t->position, (unsigned)t->id);
    html_verdict(out, t->verdict);
    fprintf(out, "</td><td>%s</td>", sb_page_ratio(t->worst_ratio).text);
    if (t->has_kl)
        fprintf(out, "<td>%s%.2e</td>", t->kl_is_lower ? "&gt; " : "", t->kl);
    else
        fputs("<td>-</td>", out);
    for (int side = 0; side < 2; side++)
        if (t->has_top[side])
            fprintf(out, "<td>%u</td>", (unsigned)t->top[side]);
        else
            fputs("<td>-</td>", out);
    fputs("<td class=\"left\">", out);
    if (round)
        print_round(out, round);
    fputs("</td></tr>\n", out);
}

static void open_tokens(FILE *out, const sb_diff_report *r)
{
    static const char columns[] = "sequence|position|token|verdict|error / bound|KL|reference says|"
                                  "engine says|<speculative round";
    sb_page_table(out, "tokens", r->sequences > 1 ? columns : strchr(columns, '|') + 1);
}

/* O-3: "the first 20 that are not in order" */
void html_tokens(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    int few = v->token_count <= SB_DIFF_TOKENS;
    size_t shown = 0, left = 0;
    sb_diff_cursor at = {0, 0};
    if (!v->token_count)
        return;
    sb_page_section(out, "tokens", "Tokens",
                    few ? "All tokens, in the order in which they were fed. A position occurs "
                          "twice if a draft was rejected there."
                        : "There are many tokens: only the first wrong or open ones are shown. A "
                          "position occurs twice if a draft was rejected there.");
    for (size_t i = 0; i < v->token_count; i++) {
        const sb_token_verdict *t = &v->tokens[i];
        const sb_round_verdict *round = sb_diff_round_of(v, t, &at);
        int wanted = few || !sb_diff_fine(t->verdict) || (round && !sb_diff_fine(round->verdict));
        if (wanted && (few || shown < SB_DIFF_LINES)) {
            if (!shown++)
                open_tokens(out, r);
            print_token(out, r, t, round);
        } else {
            left += wanted != 0;
        }
    }
    if (shown)
        sb_page_table_end(out);
    else
        fprintf(out, "<p>None of the %zu compared tokens is wrong or open.</p>\n",
                sb_diff_compared(v));
    if (left)
        fprintf(out, "<p>... and %zu more.</p>\n", left);
    sb_page_section_end(out);
}
