/* attend.h - where the output of attention lies, also where scores are too large to be known well.
 */
#ifndef SB_GATE_ATTEND_H
#define SB_GATE_ATTEND_H

#include "ref/ops/op.h"
#include "tools/compare/ball.h"

/* out (T, heads, hd): sb_bound_attention, and V-53 where that is nearer. SB_OK or SB_ERR_MEMORY. */
sb_status sb_gate_attend(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_attention_args *a,
                         sb_ball *out);

/* What a rounding to the activation type moves a number of this magnitude by, at most. */
double sb_gate_rounding(const sb_knobs *knobs, double magnitude);

#endif
