/* arrays.h - the functions of knobs.h and param.h for many values or rows. */
#ifndef SB_OPS_ARRAYS_H
#define SB_OPS_ARRAYS_H

#include "ref/formats/plain_row.h"
#include "ref/formats/round.h"
#include "ref/ops/param.h"

/* out[i] = sb_act(knobs, x[i]); out may be x. */
static inline void sb_act_many(const sb_knobs *knobs, const float *x, size_t n, float *out)
{
    sb_round_many(sb_act_format(knobs), x, n, out);
}

/* Decodes `count` rows of a plain matrix from `row` on to `values`, where they are contiguous. */
static inline void sb_param_rows(const sb_knobs *knobs, const sb_matrix *matrix, uint32_t row,
                                 size_t count, float *values)
{
    const size_t bytes = matrix->cols * sb_format_bytes(matrix->format);
    const unsigned char *first = sb_matrix_row_bytes(matrix, row);
    /* 1: the rows are contiguous in memory and not rounded */
    int follow = !sb_param_cast(knobs, matrix);
    for (size_t i = 1; i < count && follow; i++)
        follow = sb_matrix_row_bytes(matrix, row + (uint32_t)i) == first + i * bytes;
    if (follow)
        sb_decode(matrix->format, first, count * matrix->cols, values);
    else
        for (size_t i = 0; i < count; i++)
            sb_param_row(knobs, matrix, row + (uint32_t)i, values + i * matrix->cols);
}

#endif
