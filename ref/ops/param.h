/* param.h - reading parameters the way knob K-2 asks for. */
#ifndef SB_OPS_PARAM_H
#define SB_OPS_PARAM_H

#include "ref/formats/matrix.h"
#include "ref/ops/knobs.h"

/* K-2: "act first rounds each parameter to the activation type" - true if that changes anything. */
static inline int sb_param_cast(const sb_knobs *knobs, const sb_matrix *matrix)
{
    return SB_IS(knobs, params, act) && sb_act_format(knobs) != matrix->format &&
           sb_act_format(knobs) != SB_FORMAT_f32;
}

/* The values of one row, cast if the knob says so. */
static inline void sb_param_row(const sb_knobs *knobs, const sb_matrix *matrix, uint32_t row,
                                float *values)
{
    sb_matrix_row(matrix, row, values);
    if (sb_param_cast(knobs, matrix))
        for (uint32_t i = 0; i < matrix->cols; i++)
            values[i] = sb_act(knobs, values[i]);
}

#endif
