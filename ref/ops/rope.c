#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"
#include "ref/ops/rope.h"

/* K-8: "torch is RN( 1 / RN( RN(theta)^e ) ) with the binary32 exponent e = RN(2f/rd), as in torch.
 * e equals 2f/rd only if the odd factors of rd divide f" */
static float torch_power(double theta, size_t f, size_t rd)
{
    size_t odd = rd;
    float base = (float)theta;
    while (odd % 2 == 0)
        odd /= 2;
    if (2 * f % odd == 0)
        return sb_root_power((double)base, (int)(2 * f), (unsigned)rd);
    return sb_power((double)base, (float)(2 * f) / (float)rd);
}

/* "v_f = RN( (f - low) / (high - low) ), at least 0 and at most 1; 0 up to f = low, then 1,
 * where low is high. u_f = RN( 1 - v_f )" */
static float kept_share(const sb_rope_args *a, size_t f)
{
    if (f <= a->yarn_low)
        return 1.0f;
    if (f >= a->yarn_high)
        return 0.0f;
    return 1.0f - (float)(f - a->yarn_low) / (float)(a->yarn_high - a->yarn_low);
}

/* K-8: "torch has RN( RN( x RN( 1 - u_f ) ) + RN( y u_f ) ) for x = RN( 1 / RN( s p ) ) and y = RN(
 * 1 / p )" */
static float mixed(const sb_rope_args *a, size_t f, float x, float y)
{
    float u = kept_share(a, f), first = x * (1.0f - u), second = y * u;
    return first + second;
}

/* "inv_freq[f] = dot of ( RN( e_f / s ), e_f ) with ( RN( 1 - u_f ), u_f )" */
static float exactly_mixed(const sb_rope_args *a, size_t f, float e)
{
    float u = kept_share(a, f);
    sb_exact sum;
    sb_exact_clear(&sum);
    sb_exact_add_product(&sum, e / a->yarn_factor, 1.0f - u);
    sb_exact_add_product(&sum, e, u);
    return sb_exact_round(&sum);
}

/* "inv_freq[f] = RN( theta^(-2f/rd) )"; under chain, returns the ratio of each angle to the
 * angle before. */
float sb_rope_frequency(const sb_knobs *knobs, const sb_rope_args *a, size_t f)
{
    if (SB_IS(knobs, rope_freq, torch)) {
        float power = torch_power(a->theta, f, a->rd), inverse = 1.0f / power;
        return a->yarn_factor > 0 ? mixed(a, f, 1.0f / (a->yarn_factor * power), inverse) : inverse;
    }
    if (SB_IS(knobs, rope_freq, chain))
        return sb_root_power(a->theta, -2, (unsigned)a->rd);
    float e = sb_root_power(a->theta, -(int)(2 * f), (unsigned)a->rd);
    return a->yarn_factor > 0 ? exactly_mixed(a, f, e) : e;
}

/* K-8: "chain has it for its angle y, and x = RN( y RN( 1 / s ) )" */
float sb_rope_chain_angle(const sb_knobs *knobs, const sb_rope_args *a, size_t f, float angle)
{
    if (!SB_IS(knobs, rope_freq, chain) || !(a->yarn_factor > 0))
        return angle;
    return mixed(a, f, angle * (1.0f / a->yarn_factor), angle);
}

/* "angle = RN(inv_freq[f] position)"; K-8: "chain has no frequencies: the angle of f = 0 is
 * the position, and the angle of every other f is RN( the angle of f - 1 times RN( theta^(-2/rd) )
 * )" */
static float angle_of(const sb_knobs *knobs, float frequency, size_t f, float position)
{
    float angle = position;
    if (!SB_IS(knobs, rope_freq, chain))
        return frequency * position;
    for (size_t i = 0; i < f; i++)
        angle = angle * frequency;
    return angle;
}

/* "frequency f takes height if f mod 3 is 1 and f < 3 section[1], width if f mod 3 is 2 and
 * f < 3 section[2], else time" */
static size_t stream_of(const uint32_t *section, size_t f)
{
    if (section && f % 3 == 1 && f < 3u * section[1])
        return 1;
    return section && f % 3 == 2 && f < 3u * section[2] ? 2 : 0;
}

/* "dot of (x_f, -x_{f+rd/2}) with (cos, sin)"; K-10: "products is R( R(x_f cos) +
 * R(-x_{f+rd/2} sin) ) and its companion" */
static float pair(const sb_knobs *knobs, float x, float cosine, float y, float sine)
{
    if (SB_IS(knobs, rope_pair, products)) {
        float first = sb_act(knobs, x * cosine), second = sb_act(knobs, y * sine);
        return sb_act(knobs, first + second);
    }
    sb_exact sum;
    sb_exact_clear(&sum);
    sb_exact_add_product(&sum, x, cosine);
    sb_exact_add_product(&sum, y, sine);
    return sb_act(knobs, sb_exact_round(&sum));
}

/* "cos and sin by A-4; for f < rd/2 the pair (x_f, x_{f+rd/2}) becomes ( dot of (x_f,
 * -x_{f+rd/2}) with (cos, sin), dot of (x_{f+rd/2}, x_f) with (cos, sin) ), R; dimensions from rd
 * on are untouched." K-9: "act to round cos and sin" */
sb_status sb_rope_ref(const sb_knobs *knobs, const sb_rope_args *a)
{
    const int rounds = SB_IS(knobs, rope_table, act);
    const size_t half = a->rd / 2;
    for (size_t f = 0; f < half; f++) {
        float frequency = sb_rope_frequency(knobs, a, f);
        for (size_t t = 0; t < a->rows; t++) {
            float position = (float)a->position[stream_of(a->section, f)][t];
            float angle = angle_of(knobs, frequency, f, position);
            angle = sb_rope_chain_angle(knobs, a, f, angle);
            float cosine = sb_rope_scaled(a, sb_cos(angle));
            float sine = sb_rope_scaled(a, sb_sin(angle));
            cosine = rounds ? sb_act(knobs, cosine) : cosine;
            sine = rounds ? sb_act(knobs, sine) : sine;
            for (size_t h = 0; h < a->heads; h++) {
                float *x = a->x + (t * a->heads + h) * a->hd;
                float first = x[f], second = x[f + half];
                x[f] = pair(knobs, first, cosine, -second, sine);
                x[f + half] = pair(knobs, second, cosine, first, sine);
            }
        }
    }
    return SB_OK;
}
