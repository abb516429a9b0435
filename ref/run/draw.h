/* draw.h - the draws of a session: by its backend's kernels where it has them (backend.h), else by
 * sample.h. Section P leaves nothing open, so both give the same tokens. */
#ifndef SB_RUN_DRAW_H
#define SB_RUN_DRAW_H

#include "ref/run/backend.h"

/* Settings, a backend, and room for V tokens: one call at a time. */
typedef struct sb_drawer sb_drawer;

/* The backend must outlive it. */
sb_status sb_drawer_new(const sb_backend *backend, const sb_sampling *s, uint32_t vocab,
                        sb_drawer **out, sb_error *err);
void sb_drawer_free(sb_drawer *drawer);

/* The tokens that rows of logits (rows, V) give; the first will have the index `position` in the
 * sequence, each further one the next. SB_ERR_NUMERIC where a logit is not finite. */
sb_status sb_draw_tokens(sb_drawer *drawer, const float *logits, size_t rows, uint64_t position,
                         sb_purpose purpose, uint32_t *tokens, sb_error *err);

/* R-20, whatever the settings are. */
sb_status sb_draw_greedy(sb_drawer *drawer, const float *logits, uint32_t *token, sb_error *err);

/* P-12 and P-13 for a draft (below V) that was drawn from `head` (V) where the target has `logits`
 * (V): whether it is accepted, and the token, which is the draft or what stands in its place. */
sb_status sb_draw_judge(sb_drawer *drawer, const float *logits, const float *head, uint32_t draft,
                        uint64_t position, int *accepted, uint32_t *token, sb_error *err);

#endif
