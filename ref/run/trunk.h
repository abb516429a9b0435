/* trunk.h - runs the layers of a model in order, its head and its MTP head. Each function does
 * nothing in a call that has failed, and returns the call's first error. */
#ifndef SB_RUN_TRUNK_H
#define SB_RUN_TRUNK_H

#include "ref/run/call.h"

/* writes the embeddings of tokens (rows) to scratch->x. */
sb_status sb_run_embed(sb_call *call, const uint32_t *tokens);

/* Writes the final norm of the last layer's output to out (rows, H). */
sb_status sb_run_norm(sb_call *call, float *out);

/* Runs the whole trunk, from tokens to scratch->hidden. */
sb_status sb_run_trunk(sb_call *call, const uint32_t *tokens);

/* Writes the logits (count, V) of `count` rows of scratch->hidden, of the trunk or of the MTP
 * head. */
sb_status sb_run_head(sb_call *call, size_t row, size_t count, const char *tap, float *logits);

/* One call of the MTP head: row t pairs hidden row t (rows, H) with tokens[t]. scratch->hidden (or
 * scratch->x, under some values of K-29) is the input of the next draft step. */
sb_status sb_run_mtp(sb_call *call, const float *hidden, const uint32_t *tokens);

#endif
