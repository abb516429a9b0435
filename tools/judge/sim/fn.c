/* fn.c - functions of one argument in binary64, by argument reduction and a polynomial, with an
 * error of about 2^-50. Rounded to binary32 the error is at most one unit in the last place. The
 * functions of other libraries are made from these: computed in binary32, or with the published
 * errors added. */
#include "tools/judge/sim/arith.h"

#include "ref/base/bytes.h"

static double infinity(void)
{
    return sb_f64_from_bits(0x7ff0000000000000u);
}

/* 2^k, -1022 <= k <= 1023 */
static double power_of_two(int k)
{
    return sb_f64_from_bits((uint64_t)(k + 1023) << 52);
}

/* The nearest whole number, for |x| < 2^31. */
static double nearest(double x)
{
    return (double)(int64_t)(x < 0 ? x - 0.5 : x + 0.5);
}

/* e^r by its series, |r| <= ln 2 / 2 */
static double exp_near_zero(double r)
{
    double sum = 1.0;
    for (int i = 14; i > 0; i--)
        sum = 1.0 + sum * r / (double)i;
    return sum;
}

static double exp_wide(double x)
{
    const double ln2_high = 0x1.62e42fefap-1, ln2_low = 0x1.cf79abc9e3b3ap-40;
    if (x != x)
        return x;
    if (x > 700.0)
        return infinity();
    if (x < -700.0)
        return 0.0;
    double k = nearest(x * 0x1.71547652b82fep+0);
    return exp_near_zero((x - k * ln2_high) - k * ln2_low) * power_of_two((int)k);
}

/* 2 atanh(s) by its series, |s| <= 0.172 */
static double log_from_ratio(double s)
{
    double square = s * s, sum = 0.0;
    for (int i = 23; i > 0; i -= 2)
        sum = 1.0 / (double)i + sum * square;
    return 2.0 * s * sum;
}

/* ln x, x > 0 and normal */
static double log_wide(double x)
{
    uint64_t bits = sb_bits_f64(x);
    int exponent = (int)(bits >> 52) - 1023;
    double m = sb_f64_from_bits((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {
        m = m / 2.0;
        exponent++;
    }
    return log_from_ratio((m - 1.0) / (m + 1.0)) + (double)exponent * 0x1.62e42fefa39efp-1;
}

/* Newton's iteration; the first guess halves the exponent. */
static double rsqrt_wide(double x)
{
    double y = sb_f64_from_bits(0x5fe6eb50c7b537a9u - (sb_bits_f64(x) >> 1));
    for (int i = 0; i < 5; i++)
        y = y * (1.5 - 0.5 * x * y * y);
    return y;
}

/* The sine (turn 0) or cosine (turn 1) of x: subtracts a multiple of pi / 2, then uses the series.
 */
static double sine_wide(double x, int turn)
{
    if (!(x > -0x1p30 && x < 0x1p30)) /* larger than any position */
        return sb_f64_from_bits(0x7ff8000000000000u);
    double k = nearest(x * 0x1.45f306dc9c883p-1), r = x - k * 0x1.921fb544p+0;
    r = (r - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
    unsigned quarter = (unsigned)((int64_t)k + turn) & 3u;
    double square = r * r, sum = 0.0;
    int last = quarter & 1u ? 18 : 19; /* the highest power in the series */
    for (int i = last; i > 1; i -= 2)
        sum = (1.0 + sum) * -square / (double)(i * (i - 1));
    double value = (1.0 + sum) * (quarter & 1u ? 1.0 : r);
    return quarter & 2u ? -value : value;
}

/* --- libraries -------------------------------------------------------------------------------- */

#define UNIT 0x1p-24

/* The published errors of the engine's functions, or NULL. */
static const sb_functions *published(const sb_sim_arith *s)
{
    return s->fn >= FN_published ? &sb_functions_table[s->fn - FN_published] : NULL;
}

/* A magnitude between 0.5 and 1; magnitude and sign depend on the bits of x. */
static double share(float x)
{
    uint32_t bits = sb_bits_f32(x) * 0x9e3779b1u;
    double size = 0.5 + (double)(bits >> 8 & 0xffffu) / 0x20000p0;
    return bits >> 31 ? size : -size;
}

/* y with a relative error of at most F u, including one u for its rounding. */
static float off(float x, double y, double F)
{
    return (float)(y * (1.0 + share(x) * (F - 1.0) * UNIT));
}

static float exp2_of(float x)
{
    return (float)exp_wide((double)x * 0x1.62e42fefa39efp-1);
}

float sb_sim_exp(const sb_sim_arith *s, float x)
{
    const sb_functions *f = published(s);
    double wide = (double)x;
    if (s->fn == FN_ex2)
        return exp2_of(x * 0x1.715476p+0f);
    return f ? off(x, exp_wide(wide), f->exp + f->exp_slope * (wide < 0 ? -wide : wide))
             : (float)exp_wide(wide);
}

float sb_sim_log1p(const sb_sim_arith *s, float x)
{
    const sb_functions *f = published(s);
    double wide = (double)x;
    if (!(x > -1.0f) || x > 0x1p126f)
        return x > 0 ? (float)log_wide(0x1p127) : sb_f32_from_bits(0x7fc00000u);
    double y =
        wide > -0.25 && wide < 0.4 ? log_from_ratio(wide / (2.0 + wide)) : log_wide(1.0 + wide);
    return f ? off(x, y, f->log1p) : (float)y;
}

float sb_sim_log(const sb_sim_arith *s, float x)
{
    const sb_functions *f = published(s);
    if (!(x > 0 && x < 0x1p127f))
        return x;
    double y = log_wide((double)x);
    if (s->fn == FN_ex2)
        return (float)(y * 0x1.71547652b82fep+0) * 0x1.62e43p-1f;
    if (f && f->log_near > 0 && x >= 0.5f && x <= 2.0f)
        return (float)(y + share(x) * (f->log_near - 1.0) * UNIT);
    return f ? off(x, y, f->log) : (float)y;
}

float sb_sim_sqrt(const sb_sim_arith *s, float x)
{
    const sb_functions *f = published(s);
    double y = (double)x * rsqrt_wide((double)x);
    return x > 0 ? (f ? off(x, y, f->sqrt) : (float)y) : x;
}

float sb_sim_rsqrt(const sb_sim_arith *s, float x)
{
    const sb_functions *f = published(s);
    double y = rsqrt_wide((double)x);
    return x > 0 ? (f ? off(x, y, f->rsqrt) : (float)y) : sb_f32_from_bits(0x7fc00000u);
}

/* Sine or cosine, with an absolute error of at most f->turn u. */
static float turned(const sb_sim_arith *s, float x, int turn)
{
    const sb_functions *f = published(s);
    double y = sine_wide((double)x, turn);
    return (float)(f ? y + share(x) * (f->turn - 1.0) * UNIT : y);
}

float sb_sim_sin(const sb_sim_arith *s, float x)
{
    return turned(s, x, 0);
}

float sb_sim_cos(const sb_sim_arith *s, float x)
{
    return turned(s, x, 1);
}

float sb_sim_divide(const sb_sim_arith *s, float x, float y)
{
    const sb_functions *f = published(s);
    float inverse = 1.0f / y;
    if (s->fn == FN_ex2)
        return x * inverse;
    return f && f->divide > 1 ? off(y, (double)x / (double)y, f->divide) : x / y;
}

float sb_sim_power(const sb_sim_arith *s, double base, double exponent)
{
    const sb_functions *f = published(s);
    double y = exponent * log_wide(base);
    if (exponent == 0.0)
        return 1.0f;
    return f ? off((float)exponent, exp_wide(y), f->power + f->power_slope * (y < 0 ? -y : y))
             : (float)exp_wide(y);
}

float sb_sim_root(double base, double exponent)
{
    return (float)exp_wide(exponent * log_wide(base));
}

float sb_sim_sigmoid(const sb_sim_arith *s, float x)
{
    float e = sb_sim_exp(s, -x), below = 1.0f + e;
    return sb_sim_divide(s, 1.0f, below);
}

float sb_sim_silu(const sb_sim_arith *s, float x)
{
    float e = sb_sim_exp(s, -x), below = 1.0f + e;
    return sb_sim_divide(s, x, below);
}

float sb_sim_softplus(const sb_sim_arith *s, float x)
{
    return x > 20.0f ? x : sb_sim_log1p(s, sb_sim_exp(s, x));
}
