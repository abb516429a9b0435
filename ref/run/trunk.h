/* trunk.h - the layers of a model one after the other, its head and its MTP head. Each function
 * does nothing in a call that has failed, and returns the call's first error. */
#ifndef SB_RUN_TRUNK_H
#define SB_RUN_TRUNK_H

#include "ref/run/call.h"

/* tokens (rows) to scratch->x. */
sb_status sb_run_embed(sb_call *call, const uint32_t *tokens);

/* The final norm of the last layer's output: (rows, H). */
sb_status sb_run_norm(sb_call *call, float *out);

/* The whole trunk: from tokens to scratch->hidden. */
sb_status sb_run_trunk(sb_call *call, const uint32_t *tokens);

/* The logits (count, V) of rows of scratch->hidden, for the model's head or its MTP head. */
sb_status sb_run_head(sb_call *call, size_t row, size_t count, const char *tap, float *logits);

/* One call of the MTP head: row t pairs hidden row t (rows, H) with tokens[t]. scratch->hidden (or
 * x, under some values of K-29) is the input of a further draft. */
sb_status sb_run_mtp(sb_call *call, const float *hidden, const uint32_t *tokens);

#endif
