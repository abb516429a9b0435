/* rope.h - the frequencies of the rotary embedding, shared by the definition and its twin. */
#ifndef SB_OPS_ROPE_H
#define SB_OPS_ROPE_H

#include <stddef.h>

#include "ref/ops/knobs.h"

/* R-7, K-8: inv_freq of pair f of rd / 2; under rope_freq=chain, the ratio of each angle to the
 * angle before. */
float sb_rope_frequency(const sb_knobs *knobs, double theta, size_t f, size_t rd);

#endif
