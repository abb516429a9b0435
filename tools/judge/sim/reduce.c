#include "tools/judge/sim/arith.h"

#include "ref/base/bytes.h"

/* a b + c rounded once. The product of two binary32 values is exact in binary64. If its sum with c
 * is not exact, the sum is rounded to odd, so that the second rounding meets no false tie. */
static float fused(float a, float b, float c)
{
    double product = (double)a * (double)b, wide = (double)c, sum = product + wide;
    double of_wide = sum - product;
    double rest = (product - (sum - of_wide)) + (wide - of_wide);
    uint64_t bits = sb_bits_f64(sum);
    if (rest != 0 && rest == rest && !(bits & 1)) { /* one unit in the direction of the rest */
        int grows = (rest > 0) == (sum > 0);
        sum = sb_f64_from_bits(grows ? bits + 1 : bits - 1);
    }
    return (float)sum;
}

static inline float multiply_add(const sb_sim_arith *s, float a, float b, float c)
{
    if (s->fused)
        return fused(a, b, c);
    float product = a * b;
    return product + c;
}

float sb_sim_multiply_add(const sb_sim_arith *s, float a, float b, float c)
{
    return multiply_add(s, a, b, c);
}

static float pairwise(const sb_sim_arith *s, const float *a, size_t step_a, const float *b,
                      size_t step_b, size_t n)
{
    if (n == 0)
        return 0.0f;
    if (n == 1)
        return a[0] * b[0];
    size_t half = (n + 1) / 2;
    float first = pairwise(s, a, step_a, b, step_b, half);
    return first + pairwise(s, a + half * step_a, step_a, b + half * step_b, step_b, n - half);
}

/* Requires a power of two as the number of lanes. */
static float lanes(const sb_sim_arith *s, const float *a, size_t step_a, const float *b,
                   size_t step_b, size_t n)
{
    float lane[SB_SIM_LANES] = {0.0f};
    size_t last = s->lanes - 1;
    for (size_t i = 0; i < n; i++)
        lane[i & last] = multiply_add(s, a[i * step_a], b[i * step_b], lane[i & last]);
    for (unsigned width = s->lanes / 2; width > 0; width /= 2)
        for (unsigned i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

float sb_sim_dot(const sb_sim_arith *s, const float *a, size_t step_a, const float *b,
                 size_t step_b, size_t n)
{
    if (s->order == SUM_pairwise)
        return pairwise(s, a, step_a, b, step_b, n);
    if (s->order == SUM_lanes)
        return lanes(s, a, step_a, b, step_b, n);
    float sum = 0.0f;
    for (size_t i = n; i-- > 0;)
        sum = multiply_add(s, a[i * step_a], b[i * step_b], sum);
    return sum;
}

float sb_sim_sum(const sb_sim_arith *s, const float *a, size_t n)
{
    static const float one = 1.0f;
    return sb_sim_dot(s, a, 1, &one, 0, n);
}

int sb_sim_all_bf16(const float *a, size_t step, size_t n)
{
    uint32_t lower = 0;
    for (size_t i = 0; i < n; i++)
        lower |= sb_bits_f32(a[i * step]) & 0xffff;
    return lower == 0;
}

float sb_sim_product(const sb_sim_arith *s, const float *a, size_t step_a, const float *b,
                     size_t step_b, size_t n)
{
    if (s->atom == NO_ATOM ||
        (s->form != FORM_any && !(sb_sim_all_bf16(a, step_a, n) && sb_sim_all_bf16(b, step_b, n))))
        return sb_sim_dot(s, a, step_a, b, step_b, n);
    /* a bfloat16 is a binary32 with a zero lower half, so the terms are the same */
    return sb_sim_atom_dot(&sb_atoms[s->atom], a, step_a, b, step_b, n);
}
