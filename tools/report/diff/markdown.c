#include "tools/report/diff/markdown.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/base/text.h"
#include "ref/run/backend.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "tools/report/part/page.h"

/* Prints untrusted text in backquotes; backquotes and table bars in it are replaced. */
static void print_code(FILE *out, const char *text)
{
    char *clean = sb_strdup(text);
    if (clean)
        sb_clean_text(clean);
    else
        sb_json_lose();
    fputc('`', out);
    for (const char *c = clean ? clean : ""; *c; c++)
        fputc(*c == '`' ? '\'' : *c == '|' ? '/' : *c, out);
    fputs(text[0] ? "`" : " `", out);
    free(clean);
}

int sb_diff_command(FILE *out, const void *reports)
{
    const sb_diff_reports *r = reports;
    sb_page_command(out, r->arguments, r->argument_count);
    return 1;
}

static void row(FILE *out, const char *name, const char *value)
{
    fprintf(out, "| %s | ", name);
    print_code(out, value);
    fputs(" |\n", out);
}

static void print_failure(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    const sb_place *p = &v->first_failure;
    if (!v->has_failure)
        return;
    sb_diff_layer layer = sb_diff_layer_text(r, p->layer);
    fprintf(out, "\nFirst failure: sequence %u, position %" PRIu64 "%s%s, op ",
            (unsigned)p->sequence, p->token, *layer.text ? ", " : "", layer.text);
    print_code(out, p->op);
    if (*p->name && strcmp(p->name, p->op) != 0) {
        fputs(", ", out);
        print_code(out, p->name);
    }
    fputs(".\n\n", out);
    if (*p->words) {
        print_code(out, p->words);
        fputs("\n", out);
    }
    for (size_t i = 0; i < v->explanation_count; i++) {
        const sb_explanation *e = &v->explanations[i];
        fputs("\n* ", out);
        print_code(out, e->words);
        fprintf(out, ": error/bound %.3g becomes %.3g with ", e->before, e->after);
        print_code(out, e->change);
    }
    fputs(v->explanation_count ? "\n" : "", out);
}

/* Prints only ops that are not in order; readers of an issue need no list of the others. */
static void print_ops(FILE *out, const sb_verdicts *v)
{
    size_t fine = 0, shown = 0;
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const sb_op_verdict *op = &v->ops[i];
        if (!sb_diff_met(op))
            continue;
        if (sb_diff_fine(op->verdict)) {
            fine++;
            continue;
        }
        if (!shown++)
            fputs("\n| op | verdict | elements | worst error/bound |\n|---|---|---|---|\n", out);
        fprintf(out, "| %s | %s | %zu | %.3g |\n", sb_op_name(i), sb_verdict_name(op->verdict),
                op->compared, op->worst);
    }
    if (fine)
        fprintf(out,
                "\n"
                "%zu kind%s of ops %s right, each judged alone.\n",
                fine, sb_s(fine), fine == 1 ? "is" : "are");
}

static void print_engine(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    sb_diff_sums sums = sb_diff_add(v);
    fprintf(out, "### %s: ", sb_verdict_name(v->verdict));
    print_code(out, r->of);
    fprintf(out, " against the samebit reference\n\n%s.\n\n| | |\n|---|---|\n",
            sb_diff_meaning(v->verdict));
    row(out, "checkpoint", r->checkpoint);
    row(out, "profile", r->profile);
    row(out, "arithmetic", r->arithmetic);
    fprintf(out, "| compared | %s: %zu sequence%s, %zu call%s, %zu token%s, %zu round%s |\n",
            r->ways, r->sequences, sb_s(r->sequences), r->steps, sb_s(r->steps), v->token_count,
            sb_s(v->token_count), v->round_count, sb_s(v->round_count));
    fprintf(out, "| tokens that fail | %zu of %zu |\n", sb_diff_tokens(v, SB_VERDICT_FAIL),
            sb_diff_compared(v));
    if (sums.with_kl)
        fprintf(out, "| mean KL | %s%.2e nats |\n", sums.lower_kl ? "at least " : "",
                sums.kl / (double)sums.with_kl);
    if (sums.drafted[1])
        fprintf(out, "| drafts accepted | reference %zu of %zu, engine %zu of %zu |\n",
                sums.accepted[0], sums.drafted[0], sums.accepted[1], sums.drafted[1]);
    if (*v->reason && !v->has_failure) {
        fputs("\n", out);
        print_code(out, v->reason);
        fputs("\n", out);
    }
    print_failure(out, r);
    print_ops(out, v);
}

int sb_diff_markdown(FILE *out, const void *reports)
{
    const sb_diff_reports *r = reports;
    for (size_t i = 0; i < r->count; i++) {
        print_engine(out, &r->item[i]);
        fputc('\n', out);
    }
    if (r->count > 1)
        fprintf(out, "Right: %s.\n\n", r->right);
    fputs("```\n", out);
    sb_diff_command(out, r);
    fprintf(out, "```\n\nspecification %d, checkpoint digest %s; report.html of the pack has more",
            SB_SPEC_VERSION, *r->digest ? r->digest : "not computed");
    fputs(".\n", out);
    return 1;
}
