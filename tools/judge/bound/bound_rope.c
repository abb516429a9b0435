/* bound_rope.c - rotary positions: the frequency, the angle, its sine and cosine, the pair. */
#include "tools/judge/bound/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"

/* T-20: "the frequency f has f times the error of the step, and u for each product but the last,
 * which is the product with the position" */
static sb_ball chained(const sb_arithmetic *ar, double theta, size_t f, size_t rd)
{
    double power = sb_wide_pow(theta, -2.0 * (double)f / (double)rd), n = (double)f;
    double exponent = n * 2.0 / (double)rd * sb_wide_log(theta);
    double units = n * (ar->functions->power + 1.0) - 1.0 + ar->functions->power_slope * exponent;
    if (rd & (rd - 1))
        units += exponent;
    return (sb_ball){power, power * sb_wide_expm1(units * SB_UNIT)};
}

/* T-10: "theta^0 is 1 in every library. For all other frequencies the power errs by F u, the
 * division by u, and an exponent that is not a binary fraction adds (2f/rd) ln(theta) u" */
static sb_ball frequency(const sb_arithmetic *ar, const sb_knobs *knobs, double theta, size_t f,
                         size_t rd)
{
    const sb_ball one = sb_ball_of(1.0f);
    if (f == 0) /* T-81: "errs by D in place of a rounding, also for operands without spread" */
        return SB_IS(knobs, rope_freq, torch) ? sb_ball_div(ar, one, one) : one;
    if (SB_IS(knobs, rope_freq, chain))
        return chained(ar, theta, f, rd);
    double exponent = 2.0 * (double)f / (double)rd, power = sb_wide_pow(theta, -exponent);
    double units =
        ar->functions->power + ar->functions->power_slope * exponent * sb_wide_log(theta);
    if (SB_IS(knobs, rope_freq, torch))
        units += ar->functions->divide;
    if (rd & (rd - 1))
        units += exponent * sb_wide_log(theta);
    return (sb_ball){power, power * units * SB_UNIT};
}

/* R-24 for a frequency or, under chain, an angle. T-10: "v errs by a division, u and 1 - u by a sum
 * each; the share in 1 - u by a division, under chain by a reciprocal and a product; then two
 * products and a sum" */
static sb_ball blended(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_rope_args *a,
                       size_t f, sb_ball whole)
{
    const sb_ball one = sb_ball_of(1.0f), factor = sb_ball_of(a->yarn_factor);
    if (!(a->yarn_factor > 0) || f <= a->yarn_low)
        return whole;
    sb_ball part = SB_IS(knobs, rope_freq, chain)
                       ? sb_ball_mul(ar, whole, sb_ball_div(ar, one, factor))
                       : sb_ball_div(ar, whole, factor);
    if (f >= a->yarn_high)
        return part;
    sb_ball ramp = sb_ball_div(ar, sb_ball_of((float)(f - a->yarn_low)),
                               sb_ball_of((float)(a->yarn_high - a->yarn_low)));
    sb_ball own = sb_ball_sub(ar, one, ramp), rest = sb_ball_sub(ar, one, own);
    return sb_ball_add(ar, sb_ball_mul(ar, part, rest), sb_ball_mul(ar, whole, own));
}

/* "frequency f takes height if f mod 3 is 1 and f < 3 section[1], width if f mod 3 is 2 and
 * f < 3 section[2], else time" */
static size_t stream_of(const uint32_t *section, size_t f)
{
    size_t stream = f % 3;
    return section && stream && f < 3u * section[stream] ? stream : 0;
}

static sb_ball rotate(const sb_arithmetic *ar, const sb_knobs *knobs, sb_ball x, sb_ball y,
                      sb_ball cosine, sb_ball sine)
{
    if (SB_IS(knobs, rope_pair, products)) {
        sb_ball first = sb_ball_act(knobs, sb_ball_mul(ar, x, cosine));
        sb_ball second = sb_ball_act(knobs, sb_ball_mul(ar, y, sine));
        return sb_ball_act(knobs, sb_ball_add(ar, first, second));
    }
    sb_ball pair[2] = {x, y}, turn[2] = {cosine, sine};
    return sb_ball_act(knobs, sb_ball_dot(ar, pair, turn, 2));
}

/* One row: all heads turn by the same angles. */
static void turn_row(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_rope_args *a,
                     size_t t, size_t f, sb_ball inverse, sb_ball *x)
{
    size_t half = a->rd / 2;
    sb_ball position = sb_ball_of((float)a->position[stream_of(a->section, f)][t]);
    const int chain = SB_IS(knobs, rope_freq, chain);
    sb_ball angle = sb_ball_mul(ar, chain ? inverse : blended(ar, knobs, a, f, inverse), position);
    angle = chain ? blended(ar, knobs, a, f, angle) : angle;
    sb_ball cosine = sb_ball_cos(ar, angle), sine = sb_ball_sin(ar, angle);
    if (a->yarn_factor > 0) {
        cosine = sb_ball_mul(ar, cosine, sb_ball_of(a->yarn_attention));
        sine = sb_ball_mul(ar, sine, sb_ball_of(a->yarn_attention));
    }
    if (SB_IS(knobs, rope_table, act)) {
        cosine = sb_ball_act(knobs, cosine);
        sine = sb_ball_act(knobs, sine);
    }
    for (size_t h = 0; h < a->heads; h++) {
        size_t at = (t * a->heads + h) * a->hd;
        sb_ball first = x[at + f], second = x[at + f + half];
        sb_ball minus_second = {-second.mid, second.rad};
        x[at + f] = rotate(ar, knobs, first, minus_second, cosine, sine);
        x[at + f + half] = rotate(ar, knobs, second, first, cosine, sine);
    }
}

/* "dimensions from rd on are untouched" */
void sb_bound_rope_of(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_rope_args *a,
                      sb_ball *x)
{
    ar = sb_arithmetic_vector(ar);
    for (size_t f = 0; f < a->rd / 2; f++) {
        sb_ball inverse = frequency(ar, knobs, a->theta, f, a->rd);
        for (size_t t = 0; t < a->rows; t++)
            turn_row(ar, knobs, a, t, f, inverse, x);
    }
}

sb_status sb_bound_rope_in(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_rope_args *a,
                           const sb_ball *const *in, sb_ball *out, sb_ball *second)
{
    (void)second;
    sb_bound_row(in[0], a->x, 0, a->rows * a->heads * a->hd, out);
    sb_bound_rope_of(ar, knobs, a, out);
    return SB_OK;
}
