/* walk.h - runs a model one layer at a time. Between two layers the caller has the values and may
 * continue with a layer of another model. The bits are those of a session.
 *
 * A layer processes a whole sequence, in calls of at most SB_WALK_ROWS rows, from an empty state.
 * No state is kept between layers. So many sequences and many mixtures of models can pass one layer
 * before the weights of the next layer are read. */
#ifndef SB_RUN_WALK_H
#define SB_RUN_WALK_H

#include "ref/run/model.h"
#include "ref/run/tap.h"
#include "ref/ops/knobs.h"

enum { SB_WALK_ROWS = 64 };

typedef struct sb_walk sb_walk;

/* knobs are copied; NULL: profile exact. tap may be NULL. The model must outlive the walk. */
sb_status sb_walk_new(const sb_model *model, const sb_knobs *knobs, sb_tap_fn tap, void *tap_ctx,
                      sb_walk **out, sb_error *err);
void sb_walk_free(sb_walk *walk);

/* The number of floats per token between two layers: H, or 2 H if K-48 keeps the unrounded
 * residual. */
size_t sb_walk_width(const sb_walk *walk);

/* the input of the first layer. stream: (n, width). */
sb_status sb_walk_embed(sb_walk *walk, const uint32_t *tokens, size_t n, float *stream,
                        sb_error *err);

/* runs one layer of the trunk for n tokens from position 0 on, in place. */
sb_status sb_walk_layer(sb_walk *walk, uint32_t layer, size_t n, float *stream, sb_error *err);

/* the logits (V) of one token, from its row (width) of the last layer's output. */
sb_status sb_walk_logits(sb_walk *walk, const float *stream, float *logits, sb_error *err);

/* R-21, S-7: the first draft after each token except the first. guess[t], t in 1 .. n-1, is the
 * head's prediction of token t + 1, from token t and the last layer's output for token t - 1.
 * guess[0] stays unchanged. SB_ERR_USAGE without a head. */
sb_status sb_walk_drafts(sb_walk *walk, const float *stream, const uint32_t *tokens, size_t n,
                         uint32_t *guess, sb_error *err);

#endif
