/* layer.h - one decoder layer. */
#ifndef SB_RUN_LAYER_H
#define SB_RUN_LAYER_H

#include "ref/run/call.h"

/* R-19 on scratch->x in place, with linear or with full attention. call->layer is the number of the
 * layer. scratch->stream is the input of its first norm; at the end, scratch->stream is the input
 * of the next layer's first norm. */
void sb_run_layer(sb_call *call, const sb_layer *layer, int full);

/* Full attention: projects `in` (rows, columns of q_proj) and writes scratch->out. A drafter may
 * have no norms of queries and keys. */
void sb_run_attention(sb_call *call, const sb_layer *layer, const float *in);

/* The second half of R-19: x = x + out, then x = x + mlp( rmsnorm(x, post_attention_layernorm) ).
 */
void sb_run_second_half(sb_call *call, const sb_layer *layer);

#endif
