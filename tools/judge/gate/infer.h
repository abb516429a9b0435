/* infer.h - the rounding points of an arithmetic, and the search for one. */
#ifndef SB_GATE_INFER_H
#define SB_GATE_INFER_H

#include "tools/judge/gate/gate.h"

/* A rounding point, or a form, where an arithmetic differs from profile exact. */
typedef struct sb_gate_point {
    const char *knob, *value, *help;
} sb_gate_point;

/* Fills at most SB_KNOB_COUNT points, returns their number. */
size_t sb_gate_points(const sb_gate_arith *ar, sb_gate_point *out);

/* Removes, from the last to the first, each rounding point without which the output still
 * passes. */
sb_status sb_gate_reduce(const sb_gate_case *c, const sb_gate_got *got, sb_gate_arith *ar,
                         sb_gate_result *result, sb_error *err);

#endif
