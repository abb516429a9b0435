/* layer.h - one decoder layer. */
#ifndef SB_RUN_LAYER_H
#define SB_RUN_LAYER_H

#include "ref/run/call.h"

/* R-19 on scratch->x in place, with linear or with full attention. call->layer is the number of the
 * layer. scratch->stream is the input of its first norm; at the end, scratch->stream is the input
 * of the next layer's first norm. */
void sb_run_layer(sb_call *call, const sb_layer *layer, int full);

#endif
