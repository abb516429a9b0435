#include "tools/judge/compare/ids.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/judge/compare/envelope.h"
#include "tools/judge/compare/near.h"

/* Rows of one call if the prompt is not known. A multiple of 64 splits no chunk (S-3). */
enum { ROWS = 256 };

typedef struct comparison {
    const sb_model *model;
    const sb_ids_options *options;
    sb_verdicts *v;
    sb_envelope *envelope;
    double factor;
    float *logits; /* (V) */
    size_t judged, open, near;
} comparison;

/* The reference's logits after the last token that was fed. */
typedef struct opinion {
    sb_near_top top;
    double envelope;
} opinion;

static sb_status ask(comparison *c, opinion *out, sb_error *err)
{
    sb_noise noise = {0};
    size_t rows = sb_session_rows(sb_envelope_session(c->envelope, 0));
    sb_status status = sb_envelope_logits(c->envelope, rows - 1, c->logits, &noise, err);
    out->top = sb_near_top_of(c->logits, c->model->config.vocab_size);
    out->envelope = sb_near_pair(c->factor * noise.loose);
    return status;
}

static double below(const comparison *c, const opinion *o, uint32_t token)
{
    if (token >= c->model->config.vocab_size)
        return INFINITY;
    return (double)c->logits[o->top.token] - (double)c->logits[token];
}

static sb_status add_token(comparison *c, uint32_t sequence, uint64_t position, uint32_t fed,
                           const opinion *o, uint32_t token, sb_verdict verdict, sb_error *err)
{
    sb_token_verdict *t = sb_verdicts_token(c->v);
    if (!t)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for verdicts");
    double gap = below(c, o, token);
    *t = (sb_token_verdict){.sequence = sequence,
                            .position = position,
                            .id = fed,
                            .top = {o->top.token, token},
                            .has_top = {1, 1},
                            .margin = o->top.margin,
                            .envelope = o->envelope,
                            .worst_ratio = gap == 0 ? 0 : gap / o->envelope,
                            .verdict = verdict};
    c->judged++;
    c->open += o->top.margin <= o->envelope;
    c->near += verdict == SB_VERDICT_NEAR_TIE;
    c->v->near_ties += verdict == SB_VERDICT_NEAR_TIE;
    return SB_OK;
}

static void fail_at(comparison *c, uint32_t sequence, uint64_t position, const char *words,
                    double found, const opinion *o)
{
    sb_place place = {.sequence = sequence,
                      .token = position,
                      .layer = SB_NO_LAYER,
                      .op = "token",
                      .name = "token",
                      .found = found,
                      .expected = o->top.token,
                      .bound = o->envelope};
    snprintf(place.words, sizeof place.words, "%s", words);
    sb_verdicts_fail(c->v, &place);
}

/* Judges a token that both sides gave after the prompt. */
static sb_status judge_common(comparison *c, uint32_t sequence, const sb_ids_pair *pair, size_t at,
                              sb_ids_verdict *out, sb_error *err)
{
    opinion o;
    uint32_t token = pair->tokens[0][at];
    sb_status status = ask(c, &o, err);
    if (status)
        return status;
    double gap = below(c, &o, token);
    sb_verdict verdict = gap == 0            ? SB_VERDICT_WITHIN
                         : gap <= o.envelope ? SB_VERDICT_NEAR_TIE
                                             : SB_VERDICT_FAIL;
    if (verdict == SB_VERDICT_FAIL && out->verdict != SB_VERDICT_FAIL) {
        snprintf(out->words, sizeof out->words,
                 "token %zu is %u on both sides, but both are wrong: the logit of %u is %.3g "
                 "larger, rounding explains %.3g",
                 at, (unsigned)token, (unsigned)o.top.token, gap, o.envelope);
        fail_at(c, sequence, at - 1, out->words, token, &o);
    }
    out->verdict = sb_verdict_worse(out->verdict, verdict);
    return add_token(c, sequence, at - 1, pair->tokens[0][at - 1], &o, token, verdict, err);
}

static const char *side(const comparison *c, size_t i)
{
    static const char *const names[] = {"the first", "the second"};
    return c->options->name[i] ? c->options->name[i] : names[i];
}

static void say_parting(const comparison *c, const opinion *o, sb_ids_verdict *out)
{
    char who[100];
    if (out->could[0] && out->could[1])
        snprintf(who, sizeof who, "rounding alone explains the difference");
    else if (!out->could[0] && !out->could[1])
        snprintf(who, sizeof who, "both are wrong, expected %u", (unsigned)o->top.token);
    else
        snprintf(who, sizeof who, "%.60s is right", SB_SHOW(side(c, out->could[0] ? 0 : 1)));
    snprintf(out->words, sizeof out->words,
             "token %zu is %u in %.30s and %u in %.30s: %s (%.3g and %.3g below the largest logit; "
             "rounding explains %.3g)",
             out->common, (unsigned)out->tokens[0], SB_SHOW(side(c, 0)), (unsigned)out->tokens[1],
             SB_SHOW(side(c, 1)), who, out->below[0], out->below[1], o->envelope);
}

/* T-44: judges both tokens where the sides part. */
static sb_status judge_parting(comparison *c, uint32_t sequence, const sb_ids_pair *pair,
                               sb_ids_verdict *out, sb_error *err)
{
    opinion o;
    size_t at = out->common;
    sb_status status = ask(c, &o, err);
    if (status)
        return status;
    out->top = o.top.token;
    out->margin = o.top.margin;
    out->envelope = o.envelope;
    for (size_t i = 0; i < 2; i++) {
        out->tokens[i] = pair->tokens[i][at];
        out->below[i] = below(c, &o, out->tokens[i]);
        out->could[i] = out->below[i] <= o.envelope;
    }
    sb_verdict verdict = out->could[0] && out->could[1] ? SB_VERDICT_NEAR_TIE : SB_VERDICT_FAIL;
    size_t shown = out->could[0] ? 1 : 0;
    if (out->verdict != SB_VERDICT_FAIL)
        say_parting(c, &o, out);
    if (verdict == SB_VERDICT_FAIL)
        fail_at(c, sequence, at - 1, out->words, out->tokens[shown], &o);
    out->verdict = sb_verdict_worse(out->verdict, verdict);
    return add_token(c, sequence, at - 1, pair->tokens[0][at - 1], &o, out->tokens[shown], verdict,
                     err);
}

/* Feeds the common tokens as a run does: the prompt in one call, the other tokens one by one. */
static sb_status feed_common(comparison *c, uint32_t sequence, const sb_ids_pair *pair,
                             sb_ids_verdict *out, sb_error *err)
{
    const uint32_t *tokens = pair->tokens[0];
    size_t prompt = c->options->prompt, at = 0;
    sb_status status = SB_OK;
    while (at < out->common && !status) {
        size_t n = prompt ? at ? 1 : prompt : ROWS;
        if (n > out->common - at)
            n = out->common - at;
        if (prompt && at)
            status = judge_common(c, sequence, pair, at, out, err);
        if (!status)
            status = sb_envelope_feed(c->envelope, tokens + at, n, err);
        at += n;
    }
    return status;
}

static size_t common_of(const sb_ids_pair *pair)
{
    size_t most = pair->count[0] < pair->count[1] ? pair->count[0] : pair->count[1], n = 0;
    while (n < most && pair->tokens[0][n] == pair->tokens[1][n])
        n++;
    return n;
}

static sb_status compare_pair(comparison *c, uint32_t sequence, const sb_ids_pair *pair,
                              sb_ids_verdict *out, sb_error *err)
{
    *out = (sb_ids_verdict){.common = common_of(pair)};
    out->parts = out->common < pair->count[0] && out->common < pair->count[1];
    if (out->common < c->options->prompt || out->common == 0)
        return sb_fail(
            err, SB_ERR_INPUT,
            "sequence %u: the two sides share only %zu tokens; expected at least the prompt of %zu",
            (unsigned)sequence, out->common, c->options->prompt ? c->options->prompt : (size_t)1);
    sb_envelope_reset(c->envelope);
    sb_status status = feed_common(c, sequence, pair, out, err);
    if (!status && out->parts)
        status = judge_parting(c, sequence, pair, out, err);
    if (!status && !out->words[0])
        snprintf(out->words, sizeof out->words, "%zu token%s, the same on both sides%s",
                 out->common, sb_s(out->common),
                 c->options->prompt
                     ? ""
                     : "; none was judged: expected --given N, the length of the prompt");
    return status;
}

/* T-46 */
static void conclude(const comparison *c, const sb_ids_verdict *out, size_t count)
{
    sb_verdicts *v = c->v;
    const char *why = NULL;
    for (size_t i = 0; i < count; i++) {
        if (out[i].verdict > v->verdict)
            snprintf(v->reason, sizeof v->reason, "%s", out[i].words);
        v->verdict = sb_verdict_worse(v->verdict, out[i].verdict);
    }
    if (c->judged == 0)
        why = "no token was judged";
    else if (2 * c->open > c->judged && c->judged > 1)
        why = "rounding alone could change more than half of the tokens";
    if (!why || v->verdict == SB_VERDICT_FAIL)
        return;
    v->verdict = SB_VERDICT_MISTRUSTED;
    snprintf(v->reason, sizeof v->reason, "%s", why);
}

sb_status sb_ids_compare(const sb_model *model, const sb_ids_options *options,
                         const sb_ids_pair *pairs, size_t count, sb_ids_verdict *out,
                         sb_verdicts *verdicts, sb_error *err)
{
    comparison c = {.model = model, .options = options, .v = verdicts};
    sb_knobs knobs;
    if (options->knobs)
        knobs = *options->knobs;
    else
        sb_knobs_exact(&knobs);
    sb_envelope_options envelope = {
        .knobs = &knobs, .perturbed = options->perturbed, .seed = options->seed};
    c.factor = sb_envelope_factor(model, &knobs, NULL, model->config.vocab_size);
    c.logits = sb_alloc(model->config.vocab_size, sizeof *c.logits);
    sb_status status = c.logits ? sb_envelope_new(model, &envelope, &c.envelope, err)
                                : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    for (size_t i = 0; i < count && !status; i++)
        status = compare_pair(&c, (uint32_t)i, &pairs[i], &out[i], err);
    if (!status)
        conclude(&c, out, count);
    sb_envelope_free(c.envelope);
    free(c.logits);
    return status;
}
