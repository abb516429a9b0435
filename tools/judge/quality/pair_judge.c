/* pair_judge.c - the predictions of all streams for the next token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/session.h"
#include "tools/judge/compare/near.h"
#include "tools/judge/quality/pair_parts.h"

/* Rows of logits, and the data per token for the rates. */
typedef struct judge {
    float *logits[3]; /* A, B, a mixture */
    unsigned char *same, *accepted[2];
    size_t *draft_ends;
    size_t drafts; /* drafts of each side so far */
} judge;

static sb_status make(const pair_work *w, judge *j)
{
    size_t V = w->models[0]->config.vocab_size, n = w->out->tokens;
    int room = 1;
    *j = (judge){.same = sb_alloc(n, 1),
                 .draft_ends = sb_alloc(w->text_count, sizeof *j->draft_ends)};
    for (int i = 0; i < 3; i++)
        room &= (j->logits[i] = sb_alloc(V, sizeof(float))) != NULL;
    for (int i = 0; i < 2; i++)
        room &= (j->accepted[i] = sb_alloc(n, 1)) != NULL;
    w->out->flips = sb_alloc(n, sizeof *w->out->flips);
    w->out->kl_at = sb_alloc(n, sizeof *w->out->kl_at);
    w->out->ends = sb_alloc(w->text_count, sizeof *w->out->ends);
    w->out->texts = w->text_count;
    return room && j->same && j->draft_ends && w->out->flips && w->out->kl_at && w->out->ends
               ? SB_OK
               : SB_ERR_MEMORY;
}

static void release(judge *j)
{
    for (int i = 0; i < 3; i++)
        free(j->logits[i]);
    for (int i = 0; i < 2; i++)
        free(j->accepted[i]);
    free(j->same);
    free(j->draft_ends);
}

/* "the mean KL of A from the mixture" - here the sums, which are divided at the end. */
static sb_status judge_mixtures(pair_work *w, judge *j, size_t stream_at, size_t at, sb_error *err)
{
    size_t V = w->models[0]->config.vocab_size, width = w->width;
    uint32_t top = sb_near_top_of(j->logits[0], V).token;
    sb_status status = SB_OK;
    for (size_t i = 0; i < w->layers + 2 && !status; i++) {
        int head = i == w->layers + 1; /* mixture of A's stream and B's norm and head */
        const float *stream =
            head ? w->stream[0] + stream_at * width : pair_mixture(w, i) + at * width;
        status = sb_walk_logits(w->walk[head], stream, j->logits[2], err);
        if (status)
            break;
        w->out->layers[i].kl += sb_near_kl(j->logits[0], j->logits[2], V);
        w->out->layers[i].flips += sb_near_top_of(j->logits[2], V).token != top;
    }
    return status;
}

/* A and B without mixtures. */
static sb_status judge_token(pair_work *w, judge *j, size_t text, size_t t, sb_error *err)
{
    size_t V = w->models[0]->config.vocab_size, at = w->spans[text].from + t;
    sb_pair *out = w->out;
    sb_near_top top[2];
    for (int of = 0; of < 2; of++) {
        sb_status status =
            sb_walk_logits(w->walk[of], w->stream[of] + at * w->width, j->logits[of], err);
        if (status)
            return status;
        top[of] = sb_near_top_of(j->logits[of], V);
        /* "the head's guess is compared with the largest logit of its own model" */
        if (out->has_drafts && t > 0)
            j->accepted[of][j->drafts] = w->guess[of][at] == top[of].token;
    }
    j->drafts += out->has_drafts && t > 0;
    out->other_drafts += out->has_drafts && t > 0 && w->guess[0][at] != w->guess[1][at];
    out->kl_at[at] = sb_near_kl(j->logits[0], j->logits[1], V);
    j->same[at] = top[0].token == top[1].token;
    if (!j->same[at])
        out->flips[out->flip_count++] = (sb_flip){.sequence = (uint32_t)text,
                                                  .position = t,
                                                  .top = {top[0].token, top[1].token},
                                                  .margin = top[0].margin};
    return SB_OK;
}

static sb_rate rate_of(const unsigned char *flags, const size_t *ends, size_t runs)
{
    sb_rate rate = {.effect = 1};
    for (size_t i = 0; i < (runs ? ends[runs - 1] : 0); i++, rate.of++)
        rate.accepted += flags[i];
    rate.effect = sb_design_effect(flags, ends, runs);
    return rate;
}

static sb_status sum(pair_work *w, const judge *j)
{
    sb_pair *out = w->out;
    out->agreement = rate_of(j->same, out->ends, w->text_count);
    out->agreement_at = sb_rate_interval(&out->agreement, SB_Z_SHOWN);
    for (int of = 0; of < 2 && out->has_drafts; of++) {
        out->drafts[of] = rate_of(j->accepted[of], j->draft_ends, w->text_count);
        out->drafts_at[of] = sb_rate_interval(&out->drafts[of], SB_Z_SHOWN);
    }
    if (out->has_drafts)
        out->drafts_change = sb_rate_difference(&out->drafts[1], &out->drafts[0], SB_Z_SHOWN);
    out->has_drafts &= j->drafts > 0;
    for (size_t i = 0; i < out->layer_count && out->mixed; i++)
        out->layers[i].kl /= (double)out->mixed;
    return sb_spread_of(out->kl_at, out->tokens, &out->kl);
}

sb_status pair_judge(pair_work *w, sb_error *err)
{
    judge j;
    sb_status status = make(w, &j);
    if (status)
        sb_fail(err, status, "out of memory for the logits");
    for (size_t i = 0; i < w->text_count && !status; i++) {
        const pair_span *s = &w->spans[i];
        for (size_t t = 0; t < s->count && !status; t++) {
            pair_progress(w, "tokens", s->from + t, w->out->tokens);
            status = judge_token(w, &j, i, t, err);
            if (!status && t < s->mixed)
                status = judge_mixtures(w, &j, s->from + t, s->mixed_from + t, err);
        }
        w->out->ends[i] = s->from + s->count;
        j.draft_ends[i] = j.drafts;
    }
    if (!status) {
        status = sum(w, &j);
        if (status)
            sb_fail(err, status, "out of memory, or a KL divergence is not a number");
    }
    release(&j);
    return status;
}
