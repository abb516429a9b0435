#include "ref/math/law.h"

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"

static const struct {
    const char *name, *expression, *users;
} laws[] = {
#define SB_LAW(id, expression, used_by) {#id, expression, used_by},
#include "ref/math/laws.def"
#undef SB_LAW
};

const char *sb_law_name(sb_law law)
{
    return laws[law].name;
}

const char *sb_law_expression(sb_law law)
{
    return laws[law].expression;
}

const char *sb_law_users(sb_law law)
{
    return laws[law].users;
}

sb_scalar sb_matrix_factor(const sb_matrix *matrix)
{
    sb_scalar factor = SB_SCALAR_ONE;
    if (matrix->quant.factor.kind == SB_DIVISOR)
        factor.div[0] = matrix->quant.factor.value;
    else if (matrix->quant.factor.kind == SB_MULTIPLIER)
        factor.mul[0] = matrix->quant.factor.value;
    return factor;
}

/* RN32(v times the factor), for a divisor or a multiplier. After two binary64 roundings the
 * relative error is within 2^-51. A wide sum is needed only if this leaves the rounding
 * uncertain. */
static float exact_value(double v, const sb_scalar *factor)
{
    const double near = v * (double)factor->mul[0] / (double)factor->div[0];
    const float low = (float)(near - near * 0x1p-50), high = (float)(near + near * 0x1p-50);
    if (low == high && low - high == 0)
        return low;
    sb_exact sum;
    sb_exact_clear(&sum);
    sb_exact_add_wide_product(&sum, v, 1);
    return sb_exact_round_scaled(&sum, factor);
}

/* A zero keeps the sign of its code, as under every other law. */
static void exact_row(const sb_matrix *m, uint32_t row, double *wide, float *values)
{
    sb_scalar factor = sb_matrix_factor(m);
    sb_matrix_wide(m, row, wide);
    for (uint32_t k = 0; k < m->cols; k++)
        values[k] = wide[k] == 0 ? (float)wide[k] : exact_value(wide[k], &factor);
}

/* The factor that a law applies to scales: a divisor, a multiplier, or none. */
static sb_factor factor_under(sb_law law, sb_factor factor)
{
    if (factor.kind == SB_NO_FACTOR || law == SB_LAW_exact || law == SB_LAW_factor_last)
        return (sb_factor){SB_NO_FACTOR, 1};
    if (law == SB_LAW_ct_div)
        return (sb_factor){SB_DIVISOR, sb_factor_divisor(factor)};
    return (sb_factor){SB_MULTIPLIER, law == SB_LAW_ct_rcp ? 1.0f / sb_factor_divisor(factor)
                                                           : sb_factor_multiplier(factor)};
}

/* The block scale with the factor of the tensor, one binary32 operation at a time. */
float sb_law_scale(sb_factor factor, float s, sb_law law)
{
    const sb_factor f = factor_under(law, factor);
    return f.kind == SB_DIVISOR ? s / f.value : f.kind == SB_MULTIPLIER ? s * f.value : s;
}

/* The multiplier of codes with block scale s under a law. */
static float scale_under(sb_law law, sb_factor factor, float s)
{
    return sb_law_scale(factor, law == SB_LAW_bf16_scale ? sb_round_to(SB_FORMAT_bf16, s) : s, law);
}

void sb_law_group_scales(sb_factor factor, sb_law law, size_t groups, double *scales)
{
    const sb_factor f = factor_under(law, factor);
    for (size_t g = 0; law == SB_LAW_bf16_scale && g < groups; g++)
        scales[g] = (double)sb_round_to(SB_FORMAT_bf16, (float)scales[g]);
    if (f.kind == SB_DIVISOR)
        for (size_t g = 0; g < groups; g++)
            scales[g] = (double)((float)scales[g] / f.value);
    if (f.kind == SB_MULTIPLIER)
        for (size_t g = 0; g < groups; g++)
            scales[g] = (double)((float)scales[g] * f.value);
}

/* Converts codes to values group by group; `each` columns share a scale. */
static void scale_groups(const sb_matrix *m, uint32_t row, sb_law law, float *values)
{
    enum { AT_ONCE = 64 };
    const uint32_t each = m->quant.block_cols, groups = sb_matrix_groups(m);
    float scales[AT_ONCE];
    for (uint32_t g = 0; g < groups; g++) {
        const uint32_t left = m->cols - g * each, count = left < each ? left : each;
        if (g % AT_ONCE == 0)
            sb_matrix_scales_part(m, row, g, groups - g < AT_ONCE ? groups - g : AT_ONCE, scales);
        const float e = scale_under(law, m->quant.factor, scales[g % AT_ONCE]);
        float *of = values + (size_t)g * each;
        for (uint32_t i = 0; i < count; i++)
            of[i] *= e;
    }
}

/* "A law is an order of roundings" - the code is multiplied after the roundings of
 * sb_law_scale. */
void sb_law_row(const sb_matrix *matrix, uint32_t row, sb_law law, double *wide, float *values)
{
    if (!sb_matrix_quantized(matrix)) {
        sb_matrix_row(matrix, row, values);
        return;
    }
    if (law == SB_LAW_exact) {
        exact_row(matrix, row, wide, values);
        return;
    }
    sb_matrix_codes(matrix, row, 0, matrix->cols, values);
    if (!matrix->quant.group_index)
        scale_groups(matrix, row, law, values);
    for (uint32_t k = 0; matrix->quant.group_index && k < matrix->cols; k++)
        values[k] *= scale_under(law, matrix->quant.factor, sb_matrix_scale(matrix, row, k));
}
