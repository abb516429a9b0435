#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/ops/op.h"

#include <stdlib.h>

/* K-8: "exact is RN( theta^(-2f/rd) ); torch is RN( 1 / RN( theta^(2f/rd) ) )"; for chain the
 * factor from each angle to the next */
static float inverse_frequency(const sb_knobs *knobs, double theta, size_t f, size_t rd)
{
    if (SB_IS(knobs, rope_freq, torch))
        return 1.0f / sb_root_power(theta, (int)(2 * f), (unsigned)rd);
    size_t power = SB_IS(knobs, rope_freq, chain) ? 1 : f;
    return sb_root_power(theta, -(int)(2 * power), (unsigned)rd);
}

/* K-8: "chain has no frequencies: the angle of f is RN( that of f - 1 times RN( theta^(-2/rd) ) ),
 * that of 0 the position" */
static float angle_of(const sb_knobs *knobs, const float *frequency, size_t f, float position)
{
    if (!SB_IS(knobs, rope_freq, chain))
        return frequency[f] * position;
    float angle = position;
    for (size_t i = 0; i < f; i++)
        angle = angle * frequency[f];
    return angle;
}

/* "frequency f takes height if f mod 3 is 1 and f < 3 section[1], width if f mod 3 is 2 and
 * f < 3 section[2], else time" */
static size_t stream_of(const uint32_t *section, size_t f)
{
    if (section && f % 3 == 1 && f < 3u * section[1])
        return 1;
    if (section && f % 3 == 2 && f < 3u * section[2])
        return 2;
    return 0;
}

/* K-9: "act to round cos and sin" */
static float table_entry(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, rope_table, act) ? sb_act(knobs, x) : x;
}

/* "dot of (x_f, -x_{f+rd/2}) with (cos, sin)": the first of the pair; the second is the same
 * with (x_{f+rd/2}, x_f). K-10: "products is R( R(x_f cos) + R(-x_{f+rd/2} sin) )". */
static float rotate(const sb_knobs *knobs, float x, float y, float cosine, float sine)
{
    if (SB_IS(knobs, rope_pair, products)) {
        float first = sb_act(knobs, x * cosine);
        float second = sb_act(knobs, y * sine);
        return sb_act(knobs, first + second);
    }
    float pair[2] = {x, y}, turn[2] = {cosine, sine};
    return sb_act(knobs, sb_dot(pair, turn, 2));
}

sb_status sb_rope_ref(const sb_knobs *knobs, const sb_rope_args *a)
{
    size_t half = a->rd / 2;
    float *frequency = sb_alloc(half, sizeof *frequency);
    if (!frequency)
        return SB_ERR_MEMORY;
    for (size_t f = 0; f < half; f++)
        frequency[f] = inverse_frequency(knobs, a->theta, f, a->rd);
    for (size_t t = 0; t < a->rows; t++)
        for (size_t f = 0; f < half; f++) {
            float position = (float)a->position[stream_of(a->section, f)][t];
            float angle = angle_of(knobs, frequency, f, position);
            float cosine = table_entry(knobs, sb_cos(angle));
            float sine = table_entry(knobs, sb_sin(angle));
            for (size_t h = 0; h < a->heads; h++) {
                float *x = a->x + (t * a->heads + h) * a->hd;
                float first = x[f], second = x[f + half];
                x[f] = rotate(knobs, first, -second, cosine, sine);
                x[f + half] = rotate(knobs, second, first, cosine, sine);
            }
        }
    free(frequency);
    return SB_OK;
}
