/* infer.h - what an arithmetic stands for, in words. */
#ifndef SB_GATE_INFER_H
#define SB_GATE_INFER_H

#include "tools/gate/gate.h"

/* A rounding point, or a form, in which an arithmetic differs from profile exact. */
typedef struct sb_gate_point {
    const char *knob, *value, *help;
} sb_gate_point;

/* Fills at most SB_KNOB_COUNT points, returns their number. */
size_t sb_gate_points(const sb_gate_arith *ar, sb_gate_point *out);

/* Takes away the rounding points without which the output still passes, the last first. */
sb_status sb_gate_reduce(const sb_gate_case *c, const sb_gate_got *got, sb_gate_arith *ar,
                         sb_gate_result *result, sb_error *err);

#endif
