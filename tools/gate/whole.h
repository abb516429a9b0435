/* whole.h - inputs that are whole numbers (positions, limits), and balls around several ways. */
#ifndef SB_GATE_WHOLE_H
#define SB_GATE_WHOLE_H

#include "tools/gate/gate.h"

/* Adds an input of I32 or I64; the values fit. */
sb_status sb_gate_add_whole(sb_gate_case *c, const char *name, sb_dtype dtype, const char *axes,
                            unsigned rank, const uint64_t *shape, const int64_t *values);

/* Element i of one; sign-extended. */
int64_t sb_gate_whole(const sb_gate_array *array, size_t i);

/* Element i of an F32 input, and the input itself from values. */
float sb_gate_single(const sb_gate_array *array, size_t i);
sb_status sb_gate_add_singles(sb_gate_case *c, const char *name, const char *axes, unsigned rank,
                              const uint64_t *shape, const float *values);

/* SB_ERR_INPUT where the input has another type. */
sb_status sb_gate_need_type(const sb_gate_case *c, const char *name, sb_dtype dtype, sb_error *err);

/* SB_ERR_INPUT where an input that is there is not BF16, F16 or F32, or one of its first `count`
 * values is not finite. */
sb_status sb_gate_need_finite(const sb_gate_case *c, const char *name, size_t count, sb_error *err);

/* x rounded to the type of the case's inputs. */
float sb_gate_fit(const sb_gate_case *c, float x);

/* What the inputs would be in another regime. */
void sb_gate_draw_in(const sb_gate_case *c, sb_gate_regime regime, const char *name,
                     sb_gate_role role, size_t rows, size_t cols, float *values);

/* Each ball of `sum` becomes the smallest around itself and `more`; the first time, `more`. */
void sb_gate_cover(sb_ball *sum, const sb_ball *more, size_t count, int first);

/* The knobs, but nothing is rounded to the activation type. */
sb_knobs sb_gate_unrounded(const sb_knobs *knobs);

#endif
