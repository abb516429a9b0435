/* draws.h - are the tokens drawn as the trace declares (U-12)?
 *
 * Three judgements: every token lies in the support of the declared sampler (T-95); the tokens come
 * as often as it draws them, and sequences with different seeds are independent (T-96); where the
 * generator is known, each token is the one that it gives (T-97). */
#ifndef SB_COMPARE_DRAWS_H
#define SB_COMPARE_DRAWS_H

#include "tools/judge/compare/sampler_row.h"
#include "tools/judge/compare/verdict.h"

typedef struct sb_draws sb_draws;

sb_status sb_draws_new(size_t vocab, sb_draws **out, sb_error *err);
void sb_draws_free(sb_draws *draws);

/* From now on the sequence draws with these settings, and begins its generator anew. */
sb_status sb_draws_declare(sb_draws *draws, const sb_step_sampling *sampling, sb_error *err);

/* True if the sequence has a declared sampler other than temperature 0. */
int sb_draws_has(const sb_draws *draws, uint32_t sequence);

/* A token of the sequence; given: it belongs to a prompt. A later token at a position replaces the
 * earlier one. The tokens before a declaration count, too. */
sb_status sb_draws_feed(sb_draws *draws, uint32_t sequence, uint64_t position, uint32_t token,
                        int given, sb_error *err);

/* The row that gives the next token. The logits are copied; pair as in sampler_row.h. */
typedef struct sb_draw_row {
    uint64_t position;
    const float *logits; /* (V) */
    double pair;
    const float *uniform; /* the recorded uniform, or NULL */
    int unfollowed;       /* the generator also gives other numbers here, for example for drafts */
} sb_draw_row;
sb_status sb_draws_row(sb_draws *draws, uint32_t sequence, const sb_draw_row *row, sb_error *err);

/* The token that was drawn from this row: NEAR_TIE if only rounding lets the declared sampler draw
 * it, FAIL if it cannot, WITHIN otherwise; none without a row. */
sb_status sb_draws_token(sb_draws *draws, uint32_t sequence, uint32_t token, sb_verdict *out,
                         sb_error *err);

/* The next tokens cannot be replayed: the engine drew some that are not judged. */
void sb_draws_lose(sb_draws *draws, uint32_t sequence);

/* All judgements together. */
void sb_draws_finish(sb_draws *draws, sb_sampler_verdict *out);

#endif
