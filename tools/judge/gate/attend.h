/* attend.h - balls of the output of attention, also for scores too large to be known well. */
#ifndef SB_GATE_ATTEND_H
#define SB_GATE_ATTEND_H

#include "ref/ops/op.h"
#include "tools/judge/bound/ball.h"

/* out (T, heads, hd): the tighter of sb_bound_attention and V-53. SB_OK or SB_ERR_MEMORY. */
sb_status sb_gate_attend(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_attention_args *a,
                         sb_ball *out);

/* The largest error of rounding a number of this magnitude to the activation type. */
double sb_gate_rounding(const sb_knobs *knobs, double magnitude);

#endif
