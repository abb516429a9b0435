/* layer.h - one decoder layer. */
#ifndef SB_RUN_LAYER_H
#define SB_RUN_LAYER_H

#include "ref/run/call.h"

/* scratch->x to scratch->x, with linear attention or with full attention; call->layer says
 * which layer it is. scratch->stream is what its first norm reads, and in the end the next one's.
 */
void sb_run_layer(sb_call *call, const sb_layer *layer, int full);

#endif
