#include "ref/base/mem.h"
#include "ref/fast/dot/dots.h"
#include "ref/math/fn.h"
#include "ref/fast/arrays.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"
#include "ref/ops/rope.h"

#include <stdlib.h>
#include <string.h>

/* K-8: "chain has no frequencies: the angle of f = 0 is the position, and the angle of every other
 * f is RN( the angle of f - 1 times RN( theta^(-2/rd) ) )" */
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

/* "dot of (x_f, -x_{f+rd/2}) with (cos, sin)": computes the first value of each pair. The
 * second value is computed in the same way from (x_{f+rd/2}, x_f). K-10: "products is R( R(x_f cos)
 * + R(-x_{f+rd/2} sin) )". */
static void rotate(const sb_knobs *knobs, const float *x, const float *y, const float *cosine,
                   const float *sine, size_t half, float *out)
{
    if (SB_IS(knobs, rope_pair, products)) {
        for (size_t f = 0; f < half; f++) {
            float first = sb_act(knobs, x[f] * cosine[f]);
            float second = sb_act(knobs, y[f] * sine[f]);
            out[f] = first + second;
        }
    } else {
        const sb_dots_term terms[2] = {{x, cosine, 1}, {y, sine, 1}};
        sb_dots(terms, 2, half, out);
    }
    sb_act_many(knobs, out, half, out);
}

/* Rotates one head. `room` is scratch for 3 rd/2 values. */
static void turn(const sb_knobs *knobs, float *x, const float *cosine, const float *sine,
                 size_t half, float *room)
{
    float *negative = room, *first = room + half, *second = room + 2 * half;
    for (size_t f = 0; f < half; f++)
        negative[f] = -x[half + f];
    rotate(knobs, x, negative, cosine, sine, half, first);
    rotate(knobs, x + half, x, cosine, sine, half, second);
    memcpy(x, first, 2 * half * sizeof *x);
}

sb_status sb_rope_fast(const sb_knobs *knobs, const sb_rope_args *a)
{
    size_t half = a->rd / 2;
    float *frequency = sb_alloc(half, 6 * sizeof *frequency);
    if (!frequency)
        return SB_ERR_MEMORY;
    float *cosine = frequency + half, *sine = frequency + 2 * half, *room = frequency + 3 * half;
    for (size_t f = 0; f < half; f++)
        frequency[f] = sb_rope_frequency(knobs, a, f);
    for (size_t t = 0; t < a->rows; t++) {
        for (size_t f = 0; f < half; f++) {
            float position = (float)a->position[stream_of(a->section, f)][t];
            float angle = angle_of(knobs, frequency, f, position);
            angle = sb_rope_chain_angle(knobs, a, f, angle);
            cosine[f] = table_entry(knobs, sb_rope_scaled(a, sb_cos(angle)));
            sine[f] = table_entry(knobs, sb_rope_scaled(a, sb_sin(angle)));
        }
        for (size_t h = 0; h < a->heads; h++)
            turn(knobs, a->x + (t * a->heads + h) * a->hd, cosine, sine, half, room);
    }
    free(frequency);
    return SB_OK;
}
