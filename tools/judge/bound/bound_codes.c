/* bound_codes.c - T-52: sums of products of codes on a matrix unit, and their scales. */
#include "tools/judge/bound/bound_codes.h"

#include "ref/formats/wide.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"
#include "tools/judge/bound/wide_fn.h"

const sb_atom *sb_bound_unit(const sb_arithmetic *ar, sb_act_scheme scheme)
{
    switch (scheme) {
    case SB_SCHEME_nvfp4:
        return ar->fp4;
    case SB_SCHEME_fp8_group:
    case SB_SCHEME_fp8_token:
    case SB_SCHEME_fp8_static:
        return ar->fp8;
    default:
        return NULL;
    }
}

/* T-52: "if its weights are exact and its factors multiply sums" */
void sb_bound_codes_of(const sb_knobs *knobs, const sb_matrix *weight, sb_input *in,
                       sb_bound_codes *codes)
{
    sb_scalar of = sb_matrix_factor(weight), by = in->factor;
    if (sb_param_cast(knobs, weight) || SB_IS(knobs, dequant, factor_last))
        return;
    double factor = (double)of.mul[0] / (double)of.div[0] * (double)by.mul[0] / (double)by.div[0];
    *codes = (sb_bound_codes){.weight = weight,
                              .scheme = sb_input_scheme(knobs, weight),
                              .scales = in->scales,
                              .group = in->group,
                              .groups = in->groups,
                              .factor = sb_wide_abs(factor)};
    in->scales = NULL;
}

/* T-52: "A scale below 2^-6 counts as 2^-6, and a group with a scale of 0 as nothing" */
static double exponent_of(double scale, double other)
{
    scale = sb_wide_abs(scale);
    return scale == 0.0 || other == 0.0 ? 0.0 : sb_larger(scale, 0x1p-6);
}

/* The largest 2^e that no sum reaches. FP4: the largest product of the scales of a group. FP8,
 * whose chains begin anew with each group: "7 times the product of its scales", summed over the
 * groups. */
static double floor_of(const sb_bound_codes *c, size_t n, size_t t)
{
    const float *scales = c->scales + t * c->groups;
    double floor = 0.0;
    for (size_t g = 0; g < c->groups; g++) {
        double x = (double)scales[g];
        double w = (double)sb_matrix_scale(c->weight, (uint32_t)n, (uint32_t)(g * c->group));
        if (c->scheme == SB_SCHEME_nvfp4)
            floor = sb_larger(floor, exponent_of(w, x) * exponent_of(x, w));
        else
            floor += 7.0 * sb_wide_abs(w * x);
    }
    return floor;
}

/* 2^-n */
static double half_to(int n)
{
    double x = 1.0;
    while (n-- > 0)
        x /= 2;
    return x;
}

/* T-52: "rho = q (c + k) + (G + 20) u" */
double sb_bound_codes_error(const sb_bound_codes *codes, const sb_atom *unit, size_t n, size_t t,
                            const sb_reduction *r)
{
    int grouped = codes->scheme == SB_SCHEME_fp8_group;
    size_t chain = grouped ? codes->group : codes->weight->cols;
    double blocks = (double)sb_atom_blocks(unit, chain);
    double terms = (double)(unit->block / unit->group + 1);
    double cut = terms * half_to(unit->fraction) + half_to(unit->kept);
    double rho = blocks * cut + ((grouped ? (double)codes->groups : 0.0) + 20.0) * SB_UNIT;
    double reached = r->magnitude + codes->factor * floor_of(codes, n, t);
    double tiny = codes->factor * blocks * 0x1p-126;
    return rho < 1.0 ? rho * reached / (1.0 - rho) + tiny : SB_BALL_ANYTHING;
}
