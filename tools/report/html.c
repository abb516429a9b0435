#include "tools/report/html.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/spec.h"
#include "tools/report/html_parts.h"
#include "tools/report/markdown.h"
#include "tools/report/statistics.h"
#include "tools/report/xml.h"

void html_text(FILE *out, const char *text)
{
    sb_xml_escape(out, text);
}

html_number html_ratio(double ratio)
{
    html_number out;
    if (ratio > 0x1.fffffffffffffp1023)
        snprintf(out.text, sizeof out.text, "no bound");
    else
        snprintf(out.text, sizeof out.text,
                 ratio >= 1e5   ? "%.1e"
                 : ratio >= 100 ? "%.0f"
                                : "%.3g",
                 ratio);
    return out;
}

html_number html_value(double value)
{
    html_number out;
    snprintf(out.text, sizeof out.text, "%.9g", value);
    return out;
}

/* The name of a verdict as a class. */
static html_number class_of(sb_verdict verdict)
{
    html_number out;
    const char *name = sb_verdict_name(verdict);
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof out.text; i++)
        out.text[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    out.text[i] = '\0';
    return out;
}

void html_verdict(FILE *out, sb_verdict verdict)
{
    fprintf(out, "<span class=\"verdict %s\">%s</span>", class_of(verdict).text,
            sb_verdict_name(verdict));
}

void html_bar(FILE *out, double share)
{
    int over = !(share <= 1.0);
    fprintf(out, "<span class=\"bar%s\"><i style=\"width:%.0f%%\"></i></span>", over ? " over" : "",
            over ? 100.0 : 100.0 * share);
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

void html_open(FILE *out, const char *id, const char *title, const char *hint)
{
    fprintf(out, "<section data-section=\"%s\">\n<h2>%s</h2>\n<p class=\"hint\">%s</p>\n", id,
            title, hint);
}

void html_close(FILE *out)
{
    fputs("</section>\n", out);
}

/* --- the head -----------------------------------------------------------------------------------
 */

static void fact(FILE *out, const char *name)
{
    fprintf(out, "<div><dt>%s</dt><dd>", name);
}

static void end_fact(FILE *out)
{
    fputs("</dd></div>\n", out);
}

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
    double worst = sums.worst; /* for drafts, only the ops have it */
    size_t tokens[SB_VERDICT_FAIL + 1] = {0}, ops[SB_VERDICT_FAIL + 1] = {0};
    for (size_t i = 0; i < v->token_count; i++)
        tokens[as_word(v->tokens[i].verdict)]++;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (sb_diff_met(&v->ops[i])) {
            ops[as_word(v->ops[i].verdict)]++;
            worst = v->ops[i].worst > worst ? v->ops[i].worst : worst;
        }
    fputs("<dl class=\"facts\">\n", out);
    fact(out, "tokens");
    counts(out, tokens);
    end_fact(out);
    fact(out, "kinds of ops, each judged alone");
    counts(out, ops);
    end_fact(out);
    fact(out, "largest error / bound; up to 1 is inside");
    fputs(html_ratio(worst).text, out);
    end_fact(out);
    fact(out, "mean KL divergence");
    if (sums.with_kl)
        fprintf(out, "%s%.2e nats", sums.lower_kl ? "at least " : "",
                sums.kl / (double)sums.with_kl);
    else
        fputs("no logits", out);
    end_fact(out);
    fact(out, "drafts accepted");
    if (sums.drafted[1])
        fprintf(out, "reference %zu of %zu, engine %zu of %zu", sums.accepted[0], sums.drafted[0],
                sums.accepted[1], sums.drafted[1]);
    else
        fputs("no drafts", out);
    end_fact(out);
    fputs("</dl>\n", out);
}

static void definition(FILE *out, const char *name, const char *value)
{
    fprintf(out, "<dt>%s</dt><dd><code>", name);
    html_text(out, value);
    fputs("</code></dd>\n", out);
}

/* Prints line by line, because escaping loses line breaks. */
static void print_lines(FILE *out, const char *class, const char *text)
{
    fprintf(out, "<pre class=\"%s\">", class);
    while (*text) {
        char one[2 * SB_WORDS];
        size_t n = strcspn(text, "\n");
        snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), text);
        html_text(out, one);
        fputc('\n', out);
        text += n + (text[n] == '\n');
    }
    fputs("</pre>\n", out);
}

static void print_subject(FILE *out, const sb_diff_report *r)
{
    fputs("<dl class=\"list\">\n", out);
    definition(out, "checkpoint", r->checkpoint);
    definition(out, "engine", r->engine);
    if (r->versus)
        definition(out, "versus", r->versus);
    definition(out, "profile", r->profile);
    definition(out, "arithmetic", r->arithmetic);
    definition(out, "compared", r->ways);
    fprintf(
        out,
        "<dt>in</dt><dd>%zu sequence%s, %zu call%s, %zu token%s, %zu speculative round%s</dd>\n",
        r->sequences, r->sequences == 1 ? "" : "s", r->steps, r->steps == 1 ? "" : "s",
        r->verdicts->token_count, r->verdicts->token_count == 1 ? "" : "s",
        r->verdicts->round_count, r->verdicts->round_count == 1 ? "" : "s");
    fputs("</dl>\n", out);
    if (r->notes)
        print_lines(out, "notes", r->notes);
}

/* Prints the program's words as a sentence. */
static void print_sentence(FILE *out, const char *words)
{
    fputc(*words >= 'a' && *words <= 'z' ? *words - 'a' + 'A' : *words, out);
    html_text(out, words + (*words != 0));
    fputc('.', out);
}

/* Prints the place of the failure and the behaviour, one sentence each. */
static void print_short(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    const sb_place *p = &v->first_failure;
    if (!v->has_failure)
        return;
    sb_diff_layer layer = sb_diff_layer_text(r, p->layer);
    fputs("<p class=\"short\">It first goes wrong at ", out);
    if (r->sequences > 1)
        fprintf(out, "sequence %u, ", (unsigned)p->sequence);
    fprintf(out, "position %" PRIu64 "%s%s, in the %s<b class=\"fail\">", p->token,
            *layer.text ? ", " : "", layer.text, html_is_op(p->op) ? "op " : "");
    html_text(out, p->op);
    fputs("</b>.", out);
    if (v->explanation_count) {
        fputs(" It <b>", out);
        html_text(out, v->explanations[0].words);
        fputs("</b>.", out);
    }
    fputs("</p>\n", out);
}

void html_head(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    fprintf(out, "<header class=\"%s\" data-verdict=\"%s\">\n", class_of(v->verdict).text,
            sb_verdict_name(v->verdict));
    fprintf(out, "<p class=\"badge %s\">%s</p>\n<h1>", class_of(v->verdict).text,
            sb_verdict_name(v->verdict));
    html_text(out, r->of);
    fputs(" against the reference</h1>\n<p class=\"meaning\">", out);
    print_sentence(out, sb_diff_meaning(v->verdict));
    fputs("</p>\n", out);
    print_short(out, r);
    if (*v->reason) {
        fputs("<p class=\"reason\"><code>", out);
        html_text(out, v->reason);
        fputs("</code></p>\n", out);
    }
    if (*v->note) {
        fputs("<p class=\"note\">", out);
        html_text(out, v->note);
        fputs("</p>\n", out);
    }
    print_facts(out, r);
    print_subject(out, r);
    fputs("</header>\n", out);
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
        html_open(out, "statistics", "In numbers",
                  "Over all tokens; in parentheses, where the true rate or mean lies with a "
                  "confidence of 95 %.");
        print_lines(out, "statistics", text);
        html_close(out);
    }
    free(text);
}

/* --- the page -----------------------------------------------------------------------------------
 */

static void print_words(FILE *out)
{
    html_open(out, "words", "The words", "What the verdicts and numbers of this page mean.");
    fputs("<dl class=\"list\">\n", out);
    for (int i = SB_VERDICT_IDENTICAL; i <= SB_VERDICT_FAIL; i++) {
        fputs("<dt>", out);
        html_verdict(out, (sb_verdict)i);
        fputs("</dt><dd>", out);
        html_text(out, sb_diff_meaning((sb_verdict)i));
        fputs("</dd>\n", out);
    }
    fputs(
        "<dt>error / bound</dt><dd>how far the engine is from the reference, divided by how far a "
        "correct implementation in this arithmetic can be: derived from the data, never chosen; "
        "up to 1 is inside</dd>\n"
        "<dt>forced</dt><dd>each op of the reference is fed what the engine recorded, so that it "
        "is "
        "judged alone</dd>\n"
        "<dt>free</dt><dd>both sides run on their own from the same tokens</dd>\n"
        "<dt>tightness</dt><dd>the middle error / bound of the elements that differ: near 0, the "
        "bound says little</dd>\n"
        "<dt>KL</dt><dd>divergence of the reference's distribution of the next token from the "
        "engine's, in nats</dd>\n</dl>\n",
        out);
    html_close(out);
}

static int print_foot(FILE *out, const sb_diff_reports *r)
{
    char *command;
    size_t size;
    if (sb_print_memory(sb_diff_command, r, "command line", &command, &size, NULL))
        return 0;
    command[size - 1] = '\0'; /* removes the newline */
    html_open(out, "again", "To do it again", "The command, and what it read.");
    fputs("<pre class=\"command\">", out);
    html_text(out, command);
    fputs("</pre>\n<dl class=\"list\">\n", out);
    free(command);
    definition(out, "checkpoint", r->item[0].checkpoint);
    definition(out, "its digest (samebit hash)", *r->digest ? r->digest : "not computed");
    fprintf(out, "<dt>specification</dt><dd>version %d</dd>\n</dl>\n", SB_SPEC_VERSION);
    html_close(out);
    return 1;
}

static void print_engine(FILE *out, const sb_diff_report *r)
{
    html_head(out, r);
    html_failure(out, r);
    html_map(out, r);
    html_kl(out, r);
    html_acceptance(out, r);
    print_statistics(out, r);
    html_state(out, r);
    html_ops(out, r);
    html_tokens(out, r);
}

/* O-1: "loads nothing and runs nothing". The page also tells the browser so. */
int sb_diff_html(FILE *out, const void *reports)
{
    const sb_diff_reports *r = reports;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'\">\n<title>",
          out);
    fprintf(out, "%s: ", sb_verdict_name(r->item[0].verdicts->verdict));
    html_text(out, r->item[0].of);
    fputs("</title>\n<style>\n", out);
    for (size_t i = 0; html_style[i]; i++)
        fputs(html_style[i], out);
    fputs("</style>\n</head>\n<body>\n<main>\n", out);
    if (r->count > 1)
        fprintf(out, "<p class=\"right\">Two engines were compared. Right: <b>%s</b>.</p>\n",
                r->right);
    for (size_t i = 0; i < r->count; i++)
        print_engine(out, &r->item[i]);
    print_words(out);
    int good = print_foot(out, r);
    fputs("</main>\n</body>\n</html>\n", out);
    return good;
}
