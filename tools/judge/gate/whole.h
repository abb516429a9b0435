/* whole.h - inputs that are whole numbers (positions, limits), and balls that cover several
 * evaluations. */
#ifndef SB_GATE_WHOLE_H
#define SB_GATE_WHOLE_H

#include "tools/judge/gate/gate.h"

/* Adds an input of I32 or I64; the values fit. */
sb_status sb_gate_add_whole(sb_gate_case *c, const char *name, sb_dtype dtype, const char *axes,
                            unsigned rank, const uint64_t *shape, const int64_t *values);

/* Element i of such an input, sign-extended. */
int64_t sb_gate_whole(const sb_gate_array *array, size_t i);

/* sb_gate_single returns element i of an F32 input; sb_gate_add_singles adds an F32 input. */
float sb_gate_single(const sb_gate_array *array, size_t i);
sb_status sb_gate_add_singles(sb_gate_case *c, const char *name, const char *axes, unsigned rank,
                              const uint64_t *shape, const float *values);

/* SB_ERR_INPUT where the input has another type. */
sb_status sb_gate_need_type(const sb_gate_case *c, const char *name, sb_dtype dtype, sb_error *err);

/* SB_ERR_INPUT if an existing input is not BF16, F16 or F32, or one of its first `count` values is
 * not finite. */
sb_status sb_gate_need_finite(const sb_gate_case *c, const char *name, size_t count, sb_error *err);

/* x rounded to the type of the case's inputs. */
float sb_gate_fit(const sb_gate_case *c, float x);

/* sb_gate_draw in another regime. */
void sb_gate_draw_in(const sb_gate_case *c, sb_gate_regime regime, const char *name,
                     sb_gate_role role, size_t rows, size_t cols, float *values);

/* Each ball of `sum` becomes the smallest ball around itself and `more`; if `first` is set, a copy
 * of `more`. */
void sb_gate_cover(sb_ball *sum, const sb_ball *more, size_t count, int first);

/* The knobs without rounding to the activation type. */
sb_knobs sb_gate_unrounded(const sb_knobs *knobs);

#endif
