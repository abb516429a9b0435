/* forced_twin.h - bounds of an op with a mistake, for forced*.c only. */
#ifndef SB_COMPARE_FORCED_TWIN_H
#define SB_COMPARE_FORCED_TWIN_H

#include "tools/judge/bound/bound.h"
#include "tools/judge/compare/forced_parts.h"

/* True if the mistake of the reference acts in this call. */
int forced_twin_acts(const sb_forced *f, const sb_op_call *call);

/* Before the op runs: fills the balls of its outputs with the mistake, which the caller has
 * allocated, and carries the bounds of the state. All inputs have to be recorded. Not for the
 * router. */
sb_status forced_twin_balls(sb_forced *f, const sb_op_call *call, sb_ball *balls[4]);

/* forced_bound.c: the balls of any op but a delta rule. in: as for sb_bound_<op>_in. */
sb_status forced_bound_op(const sb_arithmetic *ar, const sb_op_call *call, const sb_ball *const *in,
                          sb_ball *out, sb_ball *second);

/* Bounds a delta rule of the engine in the forms that are allowed. of: with its arithmetic,
 * inputs and outputs. */
sb_status forced_bound_rule(sb_forced *f, const sb_op_call *call, sb_delta_side *of);

#endif
