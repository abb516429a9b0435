/* diff_text.c - the report as text: a line per token, a line per op, and the meaning. */
#include <inttypes.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/run/backend.h"
#include "tools/report/diff/diff.h"
#include "tools/report/diff/statistics.h"

static void print_head(const sb_diff_report *r, FILE *out)
{
    fprintf(out, "%s: engine %s", SB_SHOW(r->checkpoint), SB_SHOW(r->engine));
    if (r->versus)
        fprintf(out, " and engine %s", SB_SHOW(r->versus));
    fprintf(out, " against the reference, profile %s, arithmetic %s\n", SB_SHOW(r->profile),
            SB_SHOW(r->arithmetic));
    fprintf(out, "%s: %zu sequence%s, %zu call%s, %zu token%s, %zu round%s\n", r->ways,
            r->sequences, sb_s(r->sequences), r->steps, sb_s(r->steps), r->verdicts->token_count,
            sb_s(r->verdicts->token_count), r->verdicts->round_count,
            sb_s(r->verdicts->round_count));
    if (r->notes)
        fputs(r->notes, out);
}

/* --- tokens and rounds ------------------------------------------------------------------------ */

static void print_top(const sb_token_verdict *t, int side, FILE *out)
{
    if (t->has_top[side])
        fprintf(out, " %8u", (unsigned)t->top[side]);
    else
        fprintf(out, " %8s", "-");
}

static void print_ids(const char *before, const uint32_t *ids, size_t count, FILE *out)
{
    fprintf(out, "%s%s", before, count ? "" : "none");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%u", i ? "," : "", (unsigned)ids[i]);
}

static void print_parts(const sb_state_verdict state[SB_STATE_PARTS], FILE *out)
{
    for (size_t part = 0; part < SB_STATE_PARTS; part++) {
        if (state[part].verdict == SB_VERDICT_none)
            continue;
        fprintf(out, ", %s %s", sb_state_part_name((sb_state_part)part),
                sb_verdict_name(state[part].verdict));
    }
}

/* Prints drafts and acceptance of both sides, and the state after the round. */
static void print_round(const sb_round_verdict *r, FILE *out)
{
    fprintf(out, "  round %" PRIu64 " %s:", r->round, sb_verdict_name(r->verdict));
    if (r->has_reference) {
        print_ids(" drafts ", r->drafts[0], r->drafted[0], out);
        print_ids(" | ", r->drafts[1], r->drafted[1], out);
        fprintf(out, ", accepted %zu | %zu", r->accepted[0], r->accepted[1]);
    } else {
        print_ids(" drafts - | ", r->drafts[1], r->drafted[1], out);
        fprintf(out, ", accepted %zu", r->accepted[1]);
    }
    print_parts(r->state, out);
}

static void print_hypothesis(const sb_round_verdict *r, FILE *out)
{
    if (*r->hypothesis)
        fprintf(out, "  round %" PRIu64 " at position %" PRIu64 ": %s\n", r->round, r->position,
                SB_SHOW(r->hypothesis));
}

static void print_token(const sb_token_verdict *t, int many, const sb_round_verdict *round,
                        FILE *out)
{
    if (many)
        fprintf(out, "%4u ", (unsigned)t->sequence);
    fprintf(out, "%8" PRIu64 " %8u", t->position, (unsigned)t->id);
    print_top(t, 0, out);
    print_top(t, 1, out);
    if (t->has_kl)
        fprintf(out, t->kl_is_lower ? " >%8.1e" : " %9.2e", t->kl);
    else
        fprintf(out, " %9s", "-");
    fprintf(out, " %9.3g  %s", t->worst_ratio, sb_verdict_name(t->verdict));
    if (t->verdict == SB_VERDICT_NEAR_TIE ||
        (t->has_top[0] && t->has_top[1] && t->top[0] != t->top[1]))
        fprintf(out, ", margin %.3g, envelope %.3g", t->margin, t->envelope);
    if (round)
        print_round(round, out);
    fputc('\n', out);
    if (round)
        print_hypothesis(round, out);
}

static void print_tokens(const sb_diff_report *r, const sb_diff_style *style, FILE *out)
{
    const sb_verdicts *v = r->verdicts;
    int few = style->all || v->token_count <= SB_DIFF_TOKENS;
    sb_diff_cursor at = {0, 0};
    size_t shown = 0, left = 0;
    for (size_t i = 0; i < v->token_count; i++) {
        const sb_token_verdict *t = &v->tokens[i];
        const sb_round_verdict *round = sb_diff_round_of(v, t, &at);
        int wanted = few || !sb_diff_fine(t->verdict) || (round && !sb_diff_fine(round->verdict));
        if (!wanted || (!few && shown == SB_DIFF_LINES)) {
            left += wanted != 0;
            continue;
        }
        if (!shown++)
            fprintf(out, "%sposition    token  top ref   engine        kl     worst  verdict\n",
                    r->sequences > 1 ? "seq " : "");
        print_token(t, r->sequences > 1, round, out);
    }
    for (size_t next = at.next; next < v->round_count; next++)
        if (few || !sb_diff_fine(v->rounds[next].verdict)) {
            fprintf(out, "%8" PRIu64, v->rounds[next].position);
            print_round(&v->rounds[next], out);
            fputc('\n', out);
            print_hypothesis(&v->rounds[next], out);
        }
    if (left)
        fprintf(out, "... and %zu more such line%s; --all shows every token\n", left, sb_s(left));
}

/* A line for each sequence that continues another one; of many, only those that are not in order.
 */
static void print_hits(const sb_verdicts *v, int all, FILE *out)
{
    size_t shown = 0, left = 0;
    for (size_t i = 0; i < v->hit_count; i++) {
        const sb_hit_verdict *hit = &v->hits[i];
        int few = all || v->hit_count <= SB_DIFF_LINES;
        if ((!few && sb_diff_fine(hit->verdict)) || (!few && shown == SB_DIFF_LINES)) {
            left++;
            continue;
        }
        shown++;
        fprintf(out, "sequence %u continues sequence %u at position %" PRIu64 ": %s",
                (unsigned)hit->sequence, (unsigned)hit->parent, hit->position,
                sb_verdict_name(hit->verdict));
        print_parts(hit->state, out);
        fputc('\n', out);
        if (*hit->hypothesis)
            fprintf(out, "  sequence %u %s\n", (unsigned)hit->sequence, SB_SHOW(hit->hypothesis));
    }
    if (left)
        fprintf(out, "... and %zu more sequence%s another one\n", left,
                left == 1 ? " continues" : "s continue");
}

static void print_sums(const sb_verdicts *v, FILE *out)
{
    sb_diff_sums sums = sb_diff_add(v);
    sb_statistics statistics;
    if (v->token_count) {
        fputs("tokens:", out);
        for (int i = SB_VERDICT_IDENTICAL; i <= SB_VERDICT_FAIL; i++)
            if (sb_diff_tokens(v, (sb_verdict)i))
                fprintf(out, " %zu %s,", sb_diff_tokens(v, (sb_verdict)i),
                        sb_verdict_name((sb_verdict)i));
        if (sb_diff_compared(v))
            fprintf(out, " worst error/bound %.3g\n", sums.worst);
        else
            fputs(" nothing to compare\n", out);
    }
    if (sums.drafted[1])
        fprintf(out, "acceptance: reference %zu of %zu draft%s, engine %zu of %zu\n",
                sums.accepted[0], sums.drafted[0], sb_s(sums.drafted[0]), sums.accepted[1],
                sums.drafted[1]);
    const size_t depths = sb_diff_depths(v);
    for (size_t place = 0; depths > 1 && place < depths; place++) {
        const sb_diff_sums at = sb_diff_depth(v, place);
        fprintf(out, "  draft %zu: reference %zu of %zu, engine %zu of %zu\n", place + 1,
                at.accepted[0], at.drafted[0], at.accepted[1], at.drafted[1]);
    }
    if (sb_statistics_of(v, &statistics, NULL) == SB_OK)
        sb_statistics_text(&statistics, out);
    else
        sb_json_lose();
    sb_statistics_free(&statistics);
}

/* --- ops and findings ------------------------------------------------------------------------- */

/* T-91: the shares of the values of ops, and the taps that were never judged. */
static void print_judged(const sb_verdicts *v, FILE *out)
{
    const sb_judged j = sb_verdicts_judged(v);
    const double share = 100.0 / (double)(j.alone + j.inside + j.not_judged);
    size_t never = 0;
    if (j.inside + j.not_judged == 0)
        return;
    fprintf(
        out,
        "values of ops: %.1f%% judged alone, %.1f%% inside segments between recorded values, %.1f%% not judged\n",
        share * (double)j.alone, share * (double)j.inside, share * (double)j.not_judged);
    for (size_t i = 0; i < v->tap_count; i++)
        if (v->taps[i].values.alone + v->taps[i].values.inside == 0)
            fprintf(out, "%s%s (%s)", never++ ? ", " : "never judged: ", v->taps[i].name,
                    v->taps[i].where);
    if (never)
        fputc('\n', out);
}

static void print_ops(const sb_verdicts *v, FILE *out)
{
    int first = 1;
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const sb_op_verdict *op = &v->ops[i];
        if (!sb_diff_met(op))
            continue;
        if (first)
            fputs("op                 compared  identical    worst  tightness  verdict\n", out);
        first = 0;
        fprintf(out, "%-16s %10zu %10zu %8.3g   %8.2g  %s", sb_op_name(i), op->compared,
                op->identical, op->worst, op->median, sb_verdict_name(op->verdict));
        if (op->near_ties)
            fprintf(out, ", %zu near tie%s", op->near_ties, sb_s(op->near_ties));
        if (op->values.inside)
            fprintf(out, ", %zu value%s inside segments", op->values.inside,
                    sb_s(op->values.inside));
        if (op->values.not_judged)
            fprintf(out, ", %zu not judged", op->values.not_judged);
        fputc('\n', out);
    }
    print_judged(v, out);
}

/* T-92: a line for each hidden state. */
static void print_hidden(const sb_verdicts *v, FILE *out)
{
    int first = 1;
    for (size_t i = 0; i < v->hidden_count; i++) {
        const sb_hidden_verdict *h = &v->hidden[i];
        if (!*h->name)
            continue;
        if (first)
            fputs("hidden state           rows    worst  verdict\n", out);
        first = 0;
        fprintf(out, "%-20s %6zu %8.3g  %s", h->name, h->rows, h->worst,
                sb_verdict_name(sb_hidden_judged(h)));
        if (h->wide)
            fprintf(out, ", %zu row%s not judged: rounding could hide any fault", h->wide,
                    sb_s(h->wide));
        fputc('\n', out);
    }
}

/* With --all prints every regime. Otherwise, and if there is no failure, prints those that were not
 * reached. */
static void print_coverage(const sb_verdicts *v, int all, FILE *out)
{
    int missed = 0;
    for (int i = 0; i < SB_REGIMES && sb_diff_compared(v); i++) {
        const char *words = sb_regime_words((sb_regime)i), *unit = sb_regime_unit((sb_regime)i);
        sb_regime_seen seen = sb_coverage_seen(&v->coverage, (sb_regime)i);
        if (all && seen.applies) {
            fprintf(out, "%s %-36s %" PRIu64, i ? "        " : "reached:", words, seen.reached);
            if (seen.of)
                fprintf(out, " of %" PRIu64, seen.of);
            fprintf(out, " (%s)%s%s\n", unit, *seen.detail ? "; " : "", seen.detail);
        } else if (!all && !v->has_failure && sb_regime_missed(&seen)) {
            fprintf(out, "%s%s", missed++ ? ", " : "not reached: ", words);
            if (seen.reached)
                fprintf(out, " (%" PRIu64 " of %" PRIu64 ")", seen.reached, seen.of);
        }
    }
    if (missed)
        fputc('\n', out);
}

/* U-12: the sequences whose sampler is declared. */
static void print_sampler(const sb_sampler_verdict *s, FILE *out)
{
    if (!s->sequences)
        return;
    fprintf(out, "sampler: %zu draw%s of %zu sequence%s: %zu cannot be drawn, %zu at a cut",
            s->draws, sb_s(s->draws), s->sequences, sb_s(s->sequences), s->outside, s->open);
    fprintf(out, "; frequencies of %zu tested; %zu as the generator gives\n", s->tested,
            s->replayed);
    if (*s->lacks)
        fprintf(out, "sampler: not declared, so any value may be meant: %s\n", s->lacks);
    if (*s->weak)
        fprintf(out, "sampler: so few draws do not show whether %s\n", s->weak);
}

static void print_failure(const sb_diff_report *r, FILE *out)
{
    const sb_place *p = &r->verdicts->first_failure;
    if (!r->verdicts->has_failure)
        return;
    fputs("first failure: ", out);
    if (r->sequences > 1)
        fprintf(out, "sequence %u, ", (unsigned)p->sequence);
    sb_diff_layer layer = sb_diff_layer_text(r, p->layer);
    fprintf(out, "token %" PRIu64 ", %s%s%s", p->token, layer.text, *layer.text ? ", " : "", p->op);
    if (*p->after)
        fprintf(out, " (between %s and %s)", SB_SHOW(p->after), SB_SHOW(p->name));
    else if (*p->name && strcmp(p->name, p->op) != 0)
        fprintf(out, " (%s)", SB_SHOW(p->name));
    fputs(p->rank ? ", element [" : "", out);
    for (size_t i = 0; i < p->rank; i++)
        fprintf(out, "%s%" PRIu64, i ? ", " : "", p->element[i]);
    fputs(p->rank ? "]" : "", out);
    if (*p->words && !strstr(r->verdicts->reason, p->words)) /* else the last line has them */
        fprintf(out, ": %s", SB_SHOW(p->words));
    else if (!*p->words)
        fprintf(out, ": found %.9g, expected %.9g, bound %.3g", p->found, p->expected, p->bound);
    fputc('\n', out);
}

static void print_explanations(const sb_verdicts *v, FILE *out)
{
    for (size_t i = 0; i < v->explanation_count; i++) {
        const sb_explanation *e = &v->explanations[i];
        fprintf(out, "%s %s (%s): worst error/bound %.3g becomes %.3g\n",
                i ? "or" : "explanation:", SB_SHOW(e->words), SB_SHOW(e->change), e->before,
                e->after);
    }
}

void sb_diff_text(const sb_diff_report *r, const sb_diff_style *style, FILE *out)
{
    const sb_verdicts *v = r->verdicts;
    if (!style->quiet) {
        print_head(r, out);
        print_tokens(r, style, out);
        print_hits(v, style->all, out);
        print_sampler(&v->sampler, out);
        print_sums(v, out);
        print_hidden(v, out);
        print_ops(v, out);
        print_coverage(v, style->all, out);
        print_failure(r, out);
        print_explanations(v, out);
    }
    fprintf(out, "%s: %s\n", sb_verdict_name(v->verdict),
            *v->reason ? v->reason : sb_diff_meaning(v->verdict));
    if (!style->quiet && *v->reason)
        fprintf(out, "%s\n", sb_diff_meaning(v->verdict));
    if (!style->quiet && *v->note)
        fprintf(out, "note: %s\n", v->note);
}
