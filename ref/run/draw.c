#include "ref/run/draw.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/session.h"

struct sb_drawer {
    const sb_backend *backend;
    sb_sampler *sampler;
    uint32_t vocab;
    float *p, *q; /* (V) probabilities of a row and of a draft */
};

sb_status sb_drawer_new(const sb_backend *backend, const sb_sampling *s, uint32_t vocab,
                        sb_drawer **out, sb_error *err)
{
    sb_drawer *d = sb_alloc(1, sizeof *d);
    if (!d)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for draws");
    *d = (sb_drawer){.backend = backend, .vocab = vocab};
    d->p = sb_alloc(vocab, sizeof *d->p);
    d->q = sb_alloc(vocab, sizeof *d->q);
    sb_status status =
        d->p && d->q
            ? sb_sampler_new(s, vocab, &d->sampler, err)
            : sb_fail(err, SB_ERR_MEMORY, "out of memory for draws of %u tokens", (unsigned)vocab);
    if (status) {
        sb_drawer_free(d);
        return status;
    }
    *out = d;
    return SB_OK;
}

void sb_drawer_free(sb_drawer *d)
{
    if (!d)
        return;
    sb_sampler_free(d->sampler);
    free(d->p);
    free(d->q);
    free(d);
}

/* Fails with the backend's message. */
static sb_status by_backend(const sb_drawer *d, sb_status status, sb_error *err)
{
    if (!status)
        return SB_OK;
    const char *why = d->backend->why ? d->backend->why() : NULL;
    return sb_fail(err, status, "a draw failed%s%s", why && *why ? ": " : "", why ? why : "");
}

static const float *for_kernels(sb_row_logits logits)
{
    return logits.place ? logits.place : logits.host;
}

/* Draws tokens. Also writes the probabilities (rows, V) to p unless p is NULL. */
static sb_status draw(sb_drawer *d, sb_row_logits logits, size_t rows, uint64_t position,
                      sb_purpose purpose, float *p, uint32_t *tokens, sb_error *err)
{
    const sb_sampling *settings = sb_sampler_settings(d->sampler);
    sb_status status = sb_sample_check(logits.host, rows, d->vocab, err);
    if (status)
        return status;
    if (settings->temperature == 0 && !p && d->backend->greedy)
        return by_backend(d, d->backend->greedy(for_kernels(logits), rows, d->vocab, tokens), err);
    const sb_draw_args args = {.settings = *settings,
                               .logits = for_kernels(logits),
                               .rows = rows,
                               .n = d->vocab,
                               .position = position,
                               .purpose = purpose,
                               .p = p,
                               .tokens = tokens};
    return by_backend(d, d->backend->draw(&args), err);
}

sb_status sb_draw_tokens(sb_drawer *d, sb_row_logits logits, size_t rows, uint64_t position,
                         sb_purpose purpose, uint32_t *tokens, sb_error *err)
{
    if (d->backend->draw)
        return draw(d, logits, rows, position, purpose, NULL, tokens, err);
    sb_status status = SB_OK;
    for (size_t row = 0; row < rows && !status; row++)
        status = sb_sample_draw(d->sampler, logits.host + row * d->vocab, position + row, purpose,
                                &tokens[row], err);
    return status;
}

sb_status sb_draw_greedy(sb_drawer *d, sb_row_logits logits, uint32_t *token, sb_error *err)
{
    if (d->backend->greedy)
        return by_backend(d, d->backend->greedy(for_kernels(logits), 1, d->vocab, token), err);
    *token = sb_greedy(logits.host, d->vocab);
    return SB_OK;
}

static sb_status judge_draft(sb_drawer *d, sb_row_logits logits, sb_draft_source source,
                             uint32_t draft, uint64_t position, int *accepted, uint32_t *token,
                             sb_error *err)
{
    uint32_t yes = 0, unused;
    const sb_judge_args args = {.settings = *sb_sampler_settings(d->sampler),
                                .p = d->p,
                                .q = d->q,
                                .rows = 1,
                                .n = d->vocab,
                                .drafts = &draft,
                                .position = position,
                                .accepted = &yes,
                                .tokens = token};
    sb_status status = draw(d, logits, 1, position, SB_DRAW_token, d->p, &unused, err);
    if (!status && source.q)
        memcpy(d->q, source.q, d->vocab * sizeof *d->q);
    else if (!status)
        status = draw(d, (sb_row_logits){source.logits, NULL}, 1, position, SB_DRAW_draft, d->q,
                      &unused, err);
    if (!status)
        status = by_backend(d, d->backend->judge(&args), err);
    *accepted = yes != 0;
    return status;
}

sb_status sb_draw_judge(sb_drawer *d, sb_row_logits logits, sb_draft_source source, uint32_t draft,
                        uint64_t position, int *accepted, uint32_t *token, sb_error *err)
{
    const float *q = source.q ? source.q : d->q;
    if (d->backend->draw && d->backend->judge)
        return judge_draft(d, logits, source, draft, position, accepted, token, err);
    sb_status status = sb_sample_probabilities(d->sampler, logits.host, d->p, err);
    if (!status && !source.q)
        status = sb_sample_probabilities(d->sampler, source.logits, d->q, err);
    if (status)
        return status;
    *accepted = sb_sample_accepts(d->sampler, d->p, q, draft, position);
    *token = *accepted ? draft : sb_sample_residual(d->sampler, d->p, q, position);
    return SB_OK;
}
