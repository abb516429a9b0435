/* param.h - reads parameters with the roundings of knobs K-2 and K-17. */
#ifndef SB_OPS_PARAM_H
#define SB_OPS_PARAM_H

#include "ref/formats/matrix.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/round.h"
#include "ref/math/law.h"
#include "ref/ops/knob.h"

/* K-17: "exact keeps the exact value. Every other law of Q-8 rounds to binary32 in its own
 * order" */
static inline sb_law sb_dequant_law(const sb_knobs *knobs)
{
    return (sb_law)(knobs->value[SB_KNOB_dequant] - SB_dequant_exact);
}

/* K-2: "act first rounds each parameter to the activation type"; "plain_act does so with those that
 * are not quantized" */
static inline int sb_param_rounds(const sb_knobs *knobs, const sb_matrix *matrix)
{
    return SB_IS(knobs, params, act) ||
           (SB_IS(knobs, params, plain_act) && !sb_matrix_quantized(matrix));
}

/* True if this rounding, or a law of dequantization, can change a value of the matrix. */
static inline int sb_param_cast(const sb_knobs *knobs, const sb_matrix *matrix)
{
    int rounds = sb_param_rounds(knobs, matrix);
    if (sb_matrix_quantized(matrix)) /* its exact values may have more bits than binary32 */
        return rounds || sb_dequant_law(knobs) != SB_LAW_exact;
    return rounds && sb_act_format(knobs) != matrix->format &&
           sb_act_format(knobs) != SB_FORMAT_f32;
}

/* Element (row, col) of a plain matrix, as stored. */
static inline float sb_stored_at(const sb_matrix *matrix, uint32_t row, size_t col)
{
    float value;
    sb_decode(matrix->format,
              sb_matrix_row_bytes(matrix, row) + col * sb_format_bytes(matrix->format), 1, &value);
    return value;
}

/* Element (row, col) of a plain matrix, rounded as K-2 says. */
static inline float sb_param_at(const sb_knobs *knobs, const sb_matrix *matrix, uint32_t row,
                                size_t col)
{
    const float value = sb_stored_at(matrix, row, col);
    return sb_param_rounds(knobs, matrix) ? sb_act(knobs, value) : value;
}

/* The values of one row, rounded as the knobs say. `wide` is scratch of cols values; only a
 * quantized matrix uses it. */
static inline void sb_weight_row(const sb_knobs *knobs, const sb_matrix *matrix, uint32_t row,
                                 double *wide, float *values)
{
    sb_law_row(matrix, row, sb_dequant_law(knobs), wide, values);
    if (sb_param_rounds(knobs, matrix) && sb_param_cast(knobs, matrix))
        sb_round_many(sb_act_format(knobs), values, matrix->cols, values);
}

/* The values of one row of a plain matrix, rounded as K-2 says. */
static inline void sb_param_row(const sb_knobs *knobs, const sb_matrix *matrix, uint32_t row,
                                float *values)
{
    sb_weight_row(knobs, matrix, row, NULL, values);
}

/* Reads A_log. K-34: "stored never casts it, whatever K-2 says" */
static inline void sb_a_log_row(const sb_knobs *knobs, const sb_matrix *matrix, float *values)
{
    if (SB_IS(knobs, a_log, stored))
        sb_law_row(matrix, 0, sb_dequant_law(knobs), NULL, values);
    else
        sb_param_row(knobs, matrix, 0, values);
}

#endif
