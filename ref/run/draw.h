/* draw.h - the draws of a session. They use the kernels of its backend if it has any (backend.h),
 * otherwise sample.h. Section P of docs/spec.md defines every bit, so both give the same tokens. */
#ifndef SB_RUN_DRAW_H
#define SB_RUN_DRAW_H

#include "ref/run/backend.h"

/* Settings, a backend, and scratch for V tokens. Runs one call at a time. */
typedef struct sb_drawer sb_drawer;

/* The backend must outlive the drawer. */
sb_status sb_drawer_new(const sb_backend *backend, const sb_sampling *s, uint32_t vocab,
                        sb_drawer **out, sb_error *err);
void sb_drawer_free(sb_drawer *drawer);

/* Logits (rows, V) on the host, and where the kernels of the backend find the same values
 * (sb_session_logits_place); NULL: they get them from the host. */
typedef struct sb_row_logits {
    const float *host, *place;
} sb_row_logits;

/* Draws one token from each row of logits. Token t will have the index `position` + t in
 * the sequence. SB_ERR_NUMERIC if a logit is not finite. */
sb_status sb_draw_tokens(sb_drawer *drawer, sb_row_logits logits, size_t rows, uint64_t position,
                         sb_purpose purpose, uint32_t *tokens, sb_error *err);

/* Sets *token to the token of R-20, whatever the settings are. */
sb_status sb_draw_greedy(sb_drawer *drawer, sb_row_logits logits, uint32_t *token, sb_error *err);

/* What a draft was drawn from: logits (V) under the settings of the drawer, or probabilities (V).
 * One of them is NULL. */
typedef struct sb_draft_source {
    const float *logits, *q;
} sb_draft_source;

/* P-12 and P-13 for a draft (below V) from `source`, while the target has `logits` (V). Sets
 * *accepted, and *token to the draft or to the token that replaces it. */
sb_status sb_draw_judge(sb_drawer *drawer, sb_row_logits logits, sb_draft_source source,
                        uint32_t draft, uint64_t position, int *accepted, uint32_t *token,
                        sb_error *err);

#endif
