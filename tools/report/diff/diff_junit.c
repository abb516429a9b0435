/* diff_junit.c - the report for build servers. */
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "ref/run/backend.h"
#include "tools/report/diff/diff.h"
#include "tools/report/part/xml.h"

/* A suite, and its counts. */
typedef struct suite {
    FILE *out; /* NULL: only count */
    const sb_diff_report *report;
    size_t tests, failures, skipped;
} suite;

static void put_case(suite *s, const char *name, sb_verdict verdict, const char *words)
{
    int fine = verdict != SB_VERDICT_none && verdict <= SB_VERDICT_NEAR_TIE;
    s->tests++;
    s->failures += verdict == SB_VERDICT_FAIL;
    s->skipped += !fine && verdict != SB_VERDICT_FAIL;
    if (!s->out)
        return;
    sb_xml_open_case(s->out, "samebit.diff", name);
    if (verdict == SB_VERDICT_FAIL) {
        sb_xml_open_failure(s->out, "FAIL", words);
        fputs("</failure>\n", s->out);
    } else if (!fine) {
        char why[SB_WORDS + 32];
        snprintf(why, sizeof why, "%s: %s", sb_verdict_name(verdict), words);
        sb_xml_skipped(s->out, why);
    }
    sb_xml_close_case(s->out);
}

/* Prints the case of an op, with the first failure if that is in this op. */
static void put_op(suite *s, size_t op)
{
    const sb_verdicts *v = s->report->verdicts;
    const sb_place *p = &v->first_failure;
    char words[SB_WORDS + 160];
    snprintf(words, sizeof words,
             "%zu element%s compared, worst error/bound %.3g, %zu value%s not judged",
             v->ops[op].compared, sb_s(v->ops[op].compared), v->ops[op].worst,
             v->ops[op].values.not_judged, sb_s(v->ops[op].values.not_judged));
    if (v->has_failure && strcmp(p->op, sb_op_name(op)) == 0)
        snprintf(words, sizeof words, "token %llu, %s %s: %s", (unsigned long long)p->token,
                 sb_diff_layer_text(s->report, p->layer).text, SB_SHOW(p->name), p->words);
    put_case(s, sb_op_name(op), v->ops[op].verdict, words);
}

static sb_verdict tokens_verdict(const sb_verdicts *v)
{
    sb_verdict worst = SB_VERDICT_none;
    for (size_t i = 0; i < v->token_count; i++)
        worst = sb_verdict_worse(worst, v->tokens[i].verdict);
    return worst;
}

/* U-11: a sequence that continues another one. */
static void put_hit(suite *s, const sb_hit_verdict *hit)
{
    char name[64], words[SB_WORDS + 96];
    snprintf(name, sizeof name, "hit.%u", (unsigned)hit->sequence);
    snprintf(words, sizeof words, "continues sequence %u at position %llu%s%s",
             (unsigned)hit->parent, (unsigned long long)hit->position, *hit->hypothesis ? ": " : "",
             hit->hypothesis);
    put_case(s, name, hit->verdict, words);
}

static void put_cases(suite *s)
{
    const sb_verdicts *v = s->report->verdicts;
    sb_verdict rounds = SB_VERDICT_none;
    for (size_t i = 0; i < v->round_count; i++)
        rounds = sb_verdict_worse(rounds, v->rounds[i].verdict);
    put_case(s, "verdict", v->verdict, *v->reason ? v->reason : sb_diff_meaning(v->verdict));
    put_case(s, "tokens", tokens_verdict(v),
             v->has_failure ? v->first_failure.words : "no token was compared");
    put_case(s, "rounds", rounds,
             v->has_failure ? v->first_failure.words : "no speculative round was compared");
    for (size_t part = 0; part < SB_STATE_PARTS; part++) {
        const sb_round_verdict *at;
        sb_verdict worst = sb_diff_state(v, (sb_state_part)part, &at);
        char name[32], words[SB_WORDS + 64];
        snprintf(name, sizeof name, "state.%s", sb_state_part_name((sb_state_part)part));
        snprintf(words, sizeof words, "no state was compared");
        if (at)
            snprintf(words, sizeof words, "after round %llu: %s", (unsigned long long)at->round,
                     at->state[part].first.words);
        put_case(s, name, worst, words);
    }
    for (size_t i = 0; i < v->hit_count; i++)
        put_hit(s, &v->hits[i]);
    if (v->sampler.sequences)
        put_case(s, "sampler", v->sampler.verdict,
                 v->sampler.has_first ? v->sampler.first.words : "no draw was judged");
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (sb_diff_met(&v->ops[i]))
            put_op(s, i);
}

static void property(FILE *out, const char *name, const char *value)
{
    fprintf(out, "      <property name=\"%s\" value=\"", name);
    sb_xml_escape(out, value);
    fputs("\"/>\n", out);
}

static void print_suite(FILE *out, const sb_diff_report *r)
{
    suite counted = {.report = r}, printed = {.out = out, .report = r};
    put_cases(&counted);
    fprintf(out,
            "  <testsuite name=\"samebit diff\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
            "skipped=\"%zu\">\n    <properties>\n",
            counted.tests, counted.failures, counted.skipped);
    property(out, "checkpoint", r->checkpoint);
    property(out, "engine", r->engine);
    property(out, "profile", r->profile);
    property(out, "verdict", sb_verdict_name(r->verdicts->verdict));
    fputs("    </properties>\n", out);
    put_cases(&printed);
    fputs("  </testsuite>\n", out);
}

static void print_suites(FILE *out, const void *ctx)
{
    const sb_diff_reports *r = ctx;
    for (size_t i = 0; i < r->count; i++)
        print_suite(out, &r->item[i]);
}

sb_status sb_diff_junit(const sb_diff_reports *reports, const char *path, sb_error *err)
{
    return sb_xml_write(path, print_suites, reports, err);
}
