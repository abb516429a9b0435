/* fn_lanes.h - exp, sigmoid and silu of fn.h. They use the lanes of the lanes_*.h that the source
 * includes first. The source must also define d_quotient, d_clamp and d_powers_of_two.
 *
 * The steps and the error are those of the cores in fn_exp.c, with two differences. Fused additions
 * of products omit a rounding, which only removes an error. An x halfway between two multiples of
 * ln2/32 may be reduced by the other multiple; |r| is the same for both. The cases that the
 * rounding test leaves open (the exceptions, NaN, results that are -0 or tiny) are left to fn.h. */
#ifndef SB_SIMD_FN_LANES_H
#define SB_SIMD_FN_LANES_H

#include "ref/math/fn_round.h"
#include "ref/fast/dot/lanes.h"

#include "ref/math/exp_table.inc"

/* e^x for |x| <= 110: sb_core_exp. */
LANES_INLINE vd core_exp(vd x)
{
    vd root, power;
    const vd n = d_powers_of_two(d_mul(x, d_set(PER_LN2)), ROOT, &root, &power);
    const vd r = d_mul_add(n, d_set(-LN2_32_LOW), d_mul_add(n, d_set(-LN2_32_HIGH), x));
    vd p = d_set(EXP_TAYLOR[4]);
    p = d_mul_add(p, r, d_set(EXP_TAYLOR[3]));
    p = d_mul_add(p, r, d_set(EXP_TAYLOR[2]));
    p = d_mul_add(p, r, d_set(EXP_TAYLOR[1]));
    p = d_mul_add(p, r, d_set(EXP_TAYLOR[0]));
    p = d_mul_add(d_mul(r, r), p, r);
    return d_mul(d_mul_add(root, p, root), power);
}

/* sb_exp: e^89 and above round to infinity, e^-104 and below to +0. */
LANES_INLINE vd wide_exp(vd x)
{
    return core_exp(d_clamp(x, -104, 89));
}

/* sb_sigmoid: +0 at -104, 1 at 104. */
LANES_INLINE vd wide_sigmoid(vd x)
{
    const vd e = core_exp(d_mul(d_clamp(x, -104, 104), d_set(-1)));
    return d_quotient(d_set(1), d_add(d_set(1), e));
}

/* sb_silu: -0 at -110; from 104 on e^-x is negligible against 1. */
LANES_INLINE vd wide_silu(vd x)
{
    const vd e = core_exp(d_mul(d_clamp(x, -110, 104), d_set(-1)));
    return d_quotient(d_clamp(x, -110, 0x1p128), d_add(d_set(1), e));
}

/* The test of sb_fn_round has the error bound 2^-49 |y|; d_round adds an eighth of this bound. */
#define FUNCTION(name)                                                                             \
    LANES_TARGET static size_t many_##name(const float *x, size_t n, float *out, uint32_t *open)   \
    {                                                                                              \
        size_t count = 0;                                                                          \
        for (size_t i = 0; i < n; i += W) {                                                        \
            float rounded[W];                                                                      \
            const vd y = wide_##name(d_widen(x + i));                                              \
            unsigned left = d_round(y, d_mul(d_abs(y), d_set(0x1p-49)), rounded);                  \
            for (size_t l = 0; left != 0 && l < W; l++) {                                          \
                if (left >> l & 1u) {                                                              \
                    rounded[l] = x[i + l];                                                         \
                    open[count++] = (uint32_t)(i + l);                                             \
                }                                                                                  \
            }                                                                                      \
            for (size_t l = 0; l < W; l++)                                                         \
                out[i + l] = rounded[l];                                                           \
        }                                                                                          \
        return count;                                                                              \
    }
FUNCTION(exp)
FUNCTION(sigmoid)
FUNCTION(silu)

#endif
