#include "tools/report/diff/html.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/diff/html_parts.h"
#include "tools/report/diff/statistics.h"

sb_page_number html_value(double value)
{
    sb_page_number out;
    snprintf(out.text, sizeof out.text, "%.9g", value);
    return out;
}

sb_page_tone sb_diff_tone(sb_verdict verdict)
{
    switch (verdict) {
    case SB_VERDICT_IDENTICAL:
    case SB_VERDICT_WITHIN:
        return SB_TONE_good;
    case SB_VERDICT_NEAR_TIE:
        return SB_TONE_tie;
    case SB_VERDICT_FAIL:
        return SB_TONE_bad;
    default:
        return SB_TONE_open;
    }
}

void html_verdict(FILE *out, sb_verdict verdict)
{
    sb_page_chip(out, sb_diff_tone(verdict), sb_verdict_name(verdict));
}

int html_is_op(const char *name)
{
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (strcmp(sb_op_name(i), name) == 0)
            return 1;
    return 0;
}

sb_diff_layer html_layer(const sb_diff_report *r, size_t layer)
{
    sb_diff_layer out = {"no layer"};
    if (layer <= r->layers)
        out = sb_diff_layer_text(r, (uint32_t)layer);
    return out;
}

/* --- the head --------------------------------------------------------------------------------- */

/* Counts `none` as SKIPPED: both have the same word. */
static sb_verdict as_word(sb_verdict verdict)
{
    return verdict == SB_VERDICT_none ? SB_VERDICT_SKIPPED : verdict;
}

/* "14 WITHIN, 1 FAIL" */
static void counts(FILE *out, const size_t counted[SB_VERDICT_FAIL + 1])
{
    const char *before = "";
    for (int i = SB_VERDICT_FAIL; i >= SB_VERDICT_IDENTICAL; i--)
        if (counted[i]) {
            fprintf(out, "%s%zu ", before, counted[i]);
            html_verdict(out, (sb_verdict)i);
            before = ", ";
        }
    if (!*before)
        fputs("none", out);
}

static void print_facts(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    sb_diff_sums sums = sb_diff_add(v);
    double worst = sums.worst; /* the ops also count errors in drafts */
    size_t tokens[SB_VERDICT_FAIL + 1] = {0}, ops[SB_VERDICT_FAIL + 1] = {0};
    for (size_t i = 0; i < v->token_count; i++)
        tokens[as_word(v->tokens[i].verdict)]++;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (sb_diff_met(&v->ops[i])) {
            ops[as_word(v->ops[i].verdict)]++;
            worst = v->ops[i].worst > worst ? v->ops[i].worst : worst;
        }
    sb_page_facts(out);
    sb_page_fact(out, "tokens");
    counts(out, tokens);
    sb_page_fact_end(out);
    sb_page_fact(out, "kinds of ops, each judged alone");
    counts(out, ops);
    sb_page_fact_end(out);
    sb_page_fact(out, "largest error / bound; up to 1 is within the bound");
    fputs(sb_page_ratio(worst).text, out);
    sb_page_fact_end(out);
    sb_page_fact(out, "mean KL divergence");
    if (sums.with_kl)
        fprintf(out, "%s%.2e nats", sums.lower_kl ? "at least " : "",
                sums.kl / (double)sums.with_kl);
    else
        fputs("no logits", out);
    sb_page_fact_end(out);
    sb_page_fact(out, "drafts accepted");
    if (sums.drafted[1])
        fprintf(out, "reference %zu of %zu, engine %zu of %zu", sums.accepted[0], sums.drafted[0],
                sums.accepted[1], sums.drafted[1]);
    else
        fputs("no drafts", out);
    sb_page_fact_end(out);
    sb_page_facts_end(out);
}

static void print_subject(FILE *out, const sb_diff_report *r)
{
    sb_page_list(out);
    sb_page_item(out, "checkpoint", r->checkpoint);
    sb_page_item(out, "engine", r->engine);
    if (r->versus)
        sb_page_item(out, "versus", r->versus);
    sb_page_item(out, "profile", r->profile);
    sb_page_item(out, "arithmetic", r->arithmetic);
    sb_page_item(out, "compared", r->ways);
    fprintf(
        out,
        "<dt>in</dt><dd>%zu sequence%s, %zu call%s, %zu token%s, %zu speculative round%s</dd>\n",
        r->sequences, r->sequences == 1 ? "" : "s", r->steps, r->steps == 1 ? "" : "s",
        r->verdicts->token_count, r->verdicts->token_count == 1 ? "" : "s",
        r->verdicts->round_count, r->verdicts->round_count == 1 ? "" : "s");
    sb_page_list_end(out);
    if (r->notes)
        sb_page_lines(out, "notes", r->notes);
}

/* The hypothesis about the round or the hit in which the first failure lies: "behaves as if ...",
 * or "closest known mistake ...". "" if there is none. */
static const char *hypothesis_of(const sb_verdicts *v)
{
    const sb_hit_verdict *hit = sb_verdicts_hit_of(v, v->first_failure.sequence);
    if (hit && *hit->hypothesis && strncmp(hit->hypothesis, "no known", 8) != 0)
        return hit->hypothesis;
    for (size_t i = 0; i < v->round_count; i++)
        if (v->rounds[i].sequence == v->first_failure.sequence && *v->rounds[i].hypothesis &&
            strncmp(v->rounds[i].hypothesis, "no known", 8) != 0)
            return v->rounds[i].hypothesis;
    return "";
}

/* Prints the place of the failure and the behaviour, one sentence each. */
static void print_short(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    const sb_place *p = &v->first_failure;
    if (!v->has_failure)
        return;
    sb_diff_layer layer = sb_diff_layer_text(r, p->layer);
    fputs("<p class=\"short\">The first failure is at ", out);
    if (r->sequences > 1)
        fprintf(out, "sequence %u, ", (unsigned)p->sequence);
    fprintf(out, "position %" PRIu64 "%s%s, in the %s<b class=\"bad\">", p->token,
            *layer.text ? ", " : "", layer.text, html_is_op(p->op) ? "op " : "");
    sb_page_text(out, p->op);
    fputs("</b>.", out);
    const char *likeness = v->explanation_count ? v->explanations[0].words : hypothesis_of(v);
    if (*likeness) {
        fputs(strncmp(likeness, "behaves", 7) == 0 ? " It <b>" : " The <b>", out);
        sb_page_text(out, likeness);
        fputs("</b>.", out);
    }
    fputs("</p>\n", out);
}

void html_head(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    sb_page_head(out, sb_diff_tone(v->verdict), sb_verdict_name(v->verdict), r->of,
                 " against the reference", sb_diff_meaning(v->verdict));
    print_short(out, r);
    if (*v->reason) {
        fputs("<p class=\"reason\">", out);
        sb_page_code(out, v->reason);
        fputs("</p>\n", out);
    }
    if (*v->note) {
        fputs("<p class=\"note\">", out);
        sb_page_text(out, v->note);
        fputs("</p>\n", out);
    }
    print_facts(out, r);
    print_subject(out, r);
    sb_page_head_end(out);
}

static int statistics_text(FILE *out, const void *ctx)
{
    sb_statistics s;
    int good = sb_statistics_of(ctx, &s, NULL) == SB_OK;
    if (good)
        sb_statistics_text(&s, out);
    sb_statistics_free(&s);
    return good;
}

/* Prints the same lines as the text report. */
static void print_statistics(FILE *out, const sb_diff_report *r)
{
    char *text;
    size_t size;
    if (sb_print_memory(statistics_text, r->verdicts, "statistics", &text, &size, NULL))
        return;
    if (size) {
        sb_page_section(out, "statistics", "In numbers",
                        "Over all tokens. In parentheses: the interval that contains the true rate "
                        "or mean with a confidence of 95 %.");
        sb_page_lines(out, "statistics", text);
        sb_page_section_end(out);
    }
    free(text);
}

/* --- the page --------------------------------------------------------------------------------- */

static void print_words(FILE *out)
{
    sb_page_section(out, "words", "The words", "What the verdicts and numbers of this page mean.");
    sb_page_list(out);
    for (int i = SB_VERDICT_IDENTICAL; i <= SB_VERDICT_FAIL; i++) {
        fputs("<dt>", out);
        html_verdict(out, (sb_verdict)i);
        fputs("</dt><dd>", out);
        sb_page_text(out, sb_diff_meaning((sb_verdict)i));
        fputs("</dd>\n", out);
    }
    fputs("<dt>error / bound</dt><dd>the difference between engine and reference, divided by the "
          "largest difference that a correct implementation in this arithmetic can have. This "
          "bound is derived from the data, never chosen; up to 1 is within the bound</dd>\n"
          "<dt>forced</dt><dd>each op of the reference gets the inputs that the engine recorded, "
          "so each op is judged alone</dd>\n"
          "<dt>free</dt><dd>both sides run on their own from the same tokens</dd>\n"
          "<dt>tightness</dt><dd>the median of error / bound over the elements that differ; if it "
          "is near 0, the bound says little</dd>\n"
          "<dt>KL</dt><dd>divergence of the reference's distribution of the next token from the "
          "engine's, in nats</dd>\n",
          out);
    sb_page_list_end(out);
    sb_page_section_end(out);
}

static void print_engine(FILE *out, const sb_diff_report *r)
{
    html_head(out, r);
    html_map(out, r);
    html_failure(out, r);
    html_kl(out, r);
    html_acceptance(out, r);
    print_statistics(out, r);
    html_state(out, r);
    html_hits(out, r);
    html_ops(out, r);
    html_bias(out, r);
    html_tokens(out, r);
}

int sb_diff_html(FILE *out, const void *reports)
{
    const sb_diff_reports *r = reports;
    sb_page_open(out, sb_verdict_name(r->item[0].verdicts->verdict), r->item[0].of);
    if (r->count > 1)
        fprintf(out, "<p class=\"right\">Two engines were compared. Right: <b>%s</b>.</p>\n",
                r->right);
    for (size_t i = 0; i < r->count; i++)
        print_engine(out, &r->item[i]);
    print_words(out);
    sb_page_again(out, r->arguments, r->argument_count);
    sb_page_item(out, "checkpoint", r->item[0].checkpoint);
    sb_page_item(out, "its digest (samebit hash)", *r->digest ? r->digest : "not computed");
    sb_page_again_end(out);
    sb_page_close(out);
    return 1;
}
