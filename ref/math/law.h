/* law.h - the value of a quantized weight in binary32, with the roundings of each program. */
#ifndef SB_MATH_LAW_H
#define SB_MATH_LAW_H

#include <stddef.h>

#include "ref/formats/matrix.h"
#include "ref/math/exact.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_law {
#define SB_LAW(id, expression, used_by) SB_LAW_##id,
#include "ref/math/laws.def"
#undef SB_LAW
    SB_LAW_COUNT
} sb_law;

const char *sb_law_name(sb_law law);       /* "ct_div" */
const char *sb_law_expression(sb_law law); /* "RN(q RN(s / d))" */
const char *sb_law_users(sb_law law);

/* The factor of the whole tensor that sb_matrix_wide leaves out. */
sb_scalar sb_matrix_factor(const sb_matrix *matrix);

/* The scale s of a group combined with the factor of the tensor, rounded as a law does. Returns s
 * if there is no factor or the law does not combine the two. */
float sb_law_scale(sb_factor factor, float s, sb_law law);

/* Replaces block scales by the multipliers that a law applies to the codes of the groups. All are
 * binary32 values. */
void sb_law_group_scales(sb_factor factor, sb_law law, size_t groups, double *scales);

/* Row i under a law, cols values; all laws agree on a plain matrix. `wide` is scratch of cols
 * binary64 values, used by law exact only. */
void sb_law_row(const sb_matrix *matrix, uint32_t row, sb_law law, double *wide, float *values);

#ifdef __cplusplus
}
#endif

#endif
