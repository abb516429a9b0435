/* rope.h - the frequencies of the rotary embedding, shared by the definition and its twin. */
#ifndef SB_OPS_ROPE_H
#define SB_OPS_ROPE_H

#include <stddef.h>

#include "ref/ops/knobs.h"
#include "ref/ops/op.h"

/* K-8: inv_freq of pair f of rd / 2; under rope_freq=chain, the ratio of each angle to
 * the angle before, without R-24. */
float sb_rope_frequency(const sb_knobs *knobs, const sb_rope_args *a, size_t f);

/* R-24 under rope_freq=chain, from the angle without it; every other angle stays as it is. */
float sb_rope_chain_angle(const sb_knobs *knobs, const sb_rope_args *a, size_t f, float angle);

/* "cos and sin are multiplied by m" */
static inline float sb_rope_scaled(const sb_rope_args *a, float x)
{
    return a->yarn_factor > 0 ? x * a->yarn_attention : x;
}

#endif
