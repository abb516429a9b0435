/* norms.h - which vectors are weights of norms, and the value around which they are stored. */
#ifndef SB_CHECK_NORMS_H
#define SB_CHECK_NORMS_H

#include "tools/check/read/units.h"

/* Around 0 in a model whose norms multiply by 1 + w, else around 1. */
typedef enum sb_norm {
    SB_NORM_none,
    SB_NORM_layer,   /* before attention and before the MLP: around 0 */
    SB_NORM_head,    /* mtp.pre_fc_norm_*: around 0 */
    SB_NORM_query,   /* q_norm, k_norm: around 0 */
    SB_NORM_final,   /* norm.weight, mtp.norm.weight: around 0 */
    SB_NORM_drafter, /* hidden_norm, input_norm, fc_norm.i of a drafter: around 1, as all its norms
                      */
    SB_NORM_linear   /* linear_attn.norm: around 1 */
} sb_norm;

sb_norm sb_norm_of(const sb_unit *unit);

#endif
