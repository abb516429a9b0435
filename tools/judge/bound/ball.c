#include "tools/judge/bound/ball.h"

#include <float.h>

#include "ref/base/root.h"
#include "ref/formats/format.h"
#include "tools/judge/bound/wide_fn.h"

/* T-5: "Each step adds 2^-50 of its result for the errors of binary64" */
static sb_ball ball(double mid, double rad)
{
    return (sb_ball){mid, rad + sb_wide_abs(mid) * 0x1p-50};
}

sb_ball sb_ball_of(float x)
{
    return (sb_ball){(double)x, 0.0};
}

void sb_balls_of(const float *x, size_t n, sb_ball *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sb_ball_of(x[i]);
}

/* T-1: "fl(x) lies within u |x| + eta of x" */
static sb_ball rounded(const sb_arithmetic *ar, double mid, double rad)
{
    return ball(mid, rad + SB_UNIT * (sb_wide_abs(mid) + rad) + ar->underflow);
}

/* T-1: "Operands without spread give one result in every arithmetic" */
static int exact(sb_ball a, sb_ball b)
{
    return a.rad == 0.0 && b.rad == 0.0;
}

sb_ball sb_ball_add(const sb_arithmetic *ar, sb_ball a, sb_ball b)
{
    if (exact(a, b))
        return sb_ball_of((float)a.mid + (float)b.mid);
    return rounded(ar, a.mid + b.mid, a.rad + b.rad);
}

sb_ball sb_ball_sub(const sb_arithmetic *ar, sb_ball a, sb_ball b)
{
    b.mid = -b.mid;
    return sb_ball_add(ar, a, b);
}

sb_ball sb_ball_mul(const sb_arithmetic *ar, sb_ball a, sb_ball b)
{
    if (exact(a, b))
        return sb_ball_of((float)a.mid * (float)b.mid);
    return rounded(ar, a.mid * b.mid,
                   sb_wide_abs(a.mid) * b.rad + a.rad * (sb_wide_abs(b.mid) + b.rad));
}

/* T-81: "A division with D above 1 errs by D in place of a rounding"; T-88: "A quotient whose
 * divisor may be 0 may have any value" */
sb_ball sb_ball_div(const sb_arithmetic *ar, sb_ball a, sb_ball b)
{
    double more = ar->functions->divide - 1.0, quotient = a.mid / b.mid;
    if (exact(a, b) && more == 0.0)
        return sb_ball_of((float)a.mid / (float)b.mid);
    double least = sb_wide_abs(b.mid) - b.rad;
    if (!(least > 0.0))
        return (sb_ball){b.mid != 0.0 ? quotient : 0.0, SB_BALL_ANYTHING};
    double spread = (a.rad + sb_wide_abs(quotient) * b.rad) / least;
    return rounded(ar, quotient, spread + more * SB_UNIT * (sb_wide_abs(quotient) + spread));
}

/* T-4: "rounding is monotone, so the rounded ends of a ball bound the rounded values" */
sb_ball sb_ball_round_to(sb_format format, sb_ball x)
{
    if (format == SB_FORMAT_f32 || x.rad >= (double)FLT_MAX)
        return x;
    double low = (double)sb_round_to(format, (float)(x.mid - x.rad));
    double high = (double)sb_round_to(format, (float)(x.mid + x.rad));
    return (sb_ball){(low + high) / 2, (high - low) / 2};
}

sb_ball sb_ball_act(const sb_knobs *knobs, sb_ball x)
{
    return sb_ball_round_to(sb_act_format(knobs), x);
}

/* gamma_n, or u */
static double vector_gamma(const sb_arithmetic *ar, size_t n)
{
    double nu = (double)n * SB_UNIT;
    return ar->any_order ? nu / (1.0 - nu) : SB_UNIT;
}

double sb_gamma(const sb_arithmetic *ar, size_t n)
{
    double gamma = vector_gamma(ar, n);
    sb_reduction ones = {.n = n, .peak = 1.0, .magnitude = 1.0, .largest = 1.0};
    return ar->atom ? sb_larger(gamma, sb_atom_error(ar, &ones)) : gamma;
}

/* T-2: "the computed sum lies within gamma_n sum|a_i b_i| of the real sum. A correctly rounded sum
 * lies within u of its own magnitude" */
sb_ball sb_ball_reduced(const sb_arithmetic *ar, const sb_reduction *r)
{
    double measure = ar->any_order ? r->magnitude : sb_wide_abs(r->sum) + r->spread;
    double error = vector_gamma(ar, r->n) * measure;
    if (ar->atom)
        error = sb_larger(error, sb_atom_error(ar, r));
    return sb_ball_summed(ar, r, error);
}

/* T-5: "reductions add (n + 2) 2^-52 of their magnitude" */
sb_ball sb_ball_summed(const sb_arithmetic *ar, const sb_reduction *r, double error)
{
    double n = (double)r->n;
    double rad = r->spread + error + n * ar->underflow;
    return ball(r->sum, rad + (n + 2.0) * 0x1p-52 * r->magnitude);
}

sb_ball sb_ball_dot(const sb_arithmetic *ar, const sb_ball *a, const sb_ball *b, size_t n)
{
    sb_reduction r = {0};
    for (size_t i = 0; i < n; i++)
        sb_reduce(&r, a[i], b[i]);
    return sb_ball_reduced(ar, &r);
}

/* T-3: "the computed value lies within F u |f(x)| + eta of f(x)". y is f(mid), spread the change of
 * f within the ball; F is in units of u. */
static sb_ball function(const sb_arithmetic *ar, double F, double y, double spread)
{
    return ball(y, spread + F * SB_UNIT * (sb_wide_abs(y) + spread) + ar->underflow);
}

/* The largest magnitude in the ball. */
static double reach(sb_ball x)
{
    return sb_wide_abs(x.mid) + x.rad;
}

/* T-81: "exp has E = F + G |x|" */
double sb_exp_error(const sb_arithmetic *ar, double x)
{
    return (ar->functions->exp + ar->functions->exp_slope * sb_wide_abs(x)) * SB_UNIT;
}

sb_ball sb_ball_exp(const sb_arithmetic *ar, sb_ball x)
{
    double y = sb_wide_exp(x.mid), F = sb_exp_error(ar, reach(x)) / SB_UNIT;
    return function(ar, F, y, y * sb_wide_expm1(x.rad));
}

/* T-3: "log, rsqrt and sqrt are evaluated at the end of their interval"; T-81: "For x in 0.5 .. 2,
 * log errs by log_near u, absolute, if that is more" */
sb_ball sb_ball_log(const sb_arithmetic *ar, sb_ball x)
{
    sb_ball y =
        function(ar, ar->functions->log, sb_wide_log(x.mid), -sb_wide_log1p(-x.rad / x.mid));
    if (x.mid - x.rad <= 2.0 && x.mid + x.rad >= 0.5) {
        double near = ar->functions->log_near * SB_UNIT - sb_wide_log1p(-x.rad / x.mid);
        y.rad = sb_wide_max(y.rad, near + ar->underflow);
    }
    return y;
}

sb_ball sb_ball_sqrt(const sb_arithmetic *ar, sb_ball x)
{
    double y = sb_sqrt64(x.mid), low = x.rad < x.mid ? sb_sqrt64(x.mid - x.rad) : 0.0;
    return function(ar, ar->functions->sqrt, y, y - low > 0 ? y - low : 0.0);
}

sb_ball sb_ball_rsqrt(const sb_arithmetic *ar, sb_ball x)
{
    double y = 1.0 / sb_sqrt64(x.mid);
    return function(ar, ar->functions->rsqrt, y, 1.0 / sb_sqrt64(x.mid - x.rad) - y);
}

/* T-80: "Where these are single functions, F is 1" */
static int single(const sb_arithmetic *ar)
{
    return ar->functions == &sb_functions_table[SB_FUNCTIONS_exact];
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + sb_wide_exp(-x));
}

/* T-80: "A sigmoid is 1 / (1 + e^-x) and errs by ((1 - sigmoid) E + 1 + D) u, relative" */
static double sigmoid_error(const sb_arithmetic *ar, sb_ball x)
{
    double closed = sb_wide_min(1.0 - sigmoid(x.mid) + x.rad / 4, 1.0);
    return closed * sb_exp_error(ar, reach(x)) / SB_UNIT + 1.0 + ar->functions->divide;
}

/* T-3: "sigmoid' <= 1/4 and sigmoid' <= sigmoid" */
sb_ball sb_ball_sigmoid(const sb_arithmetic *ar, sb_ball x)
{
    double y = sigmoid(x.mid), F = single(ar) ? 1.0 : sigmoid_error(ar, x);
    return function(ar, F, y, sb_wide_min(x.rad / 4, y * sb_wide_expm1(x.rad)));
}

/* T-3: "|silu'| <= 1.1"; T-80: "silu errs by one u more". x also multiplies
 * the underflow error of the sigmoid. */
sb_ball sb_ball_silu(const sb_arithmetic *ar, sb_ball x)
{
    double F = single(ar) ? 1.0 : sigmoid_error(ar, x) + 1.0;
    sb_ball y = function(ar, F, x.mid * sigmoid(x.mid), 1.1 * x.rad);
    y.rad += reach(x) * ar->underflow;
    return y;
}

/* T-3: "softplus' <= 1 and softplus' <= softplus"; The other form of K-4 leaves out log(1 + e^-x)
 * beyond 20: less than e^-20. T-80: "softplus is log1p(e^x) and errs by sigmoid E u, absolute, plus
 * F u for log1p" */
sb_ball sb_ball_softplus(const sb_arithmetic *ar, sb_ball x)
{
    double F = single(ar) ? 1.0 : ar->functions->log1p, above = x.mid + x.rad;
    double y =
        x.mid > 0 ? x.mid + sb_wide_log1p(sb_wide_exp(-x.mid)) : sb_wide_log1p(sb_wide_exp(x.mid));
    double spread = sb_wide_min(x.rad, y * sb_wide_expm1(x.rad));
    if (!single(ar))
        spread += sigmoid(above) * sb_exp_error(ar, reach(x));
    sb_ball z = function(ar, F, y, spread);
    if (above > 20.0)
        z.rad += sb_wide_exp(-20.0);
    return z;
}

/* T-3: "Sine and cosine err by at most F u, absolute" */
sb_ball sb_ball_cos(const sb_arithmetic *ar, sb_ball x)
{
    return (sb_ball){sb_wide_cos(x.mid), x.rad + ar->functions->turn * SB_UNIT};
}

sb_ball sb_ball_sin(const sb_arithmetic *ar, sb_ball x)
{
    return (sb_ball){sb_wide_sin(x.mid), x.rad + ar->functions->turn * SB_UNIT};
}

sb_ball sb_ball_hull(sb_ball a, sb_ball b)
{
    double low = sb_wide_min(a.mid - a.rad, b.mid - b.rad),
           high = sb_wide_max(a.mid + a.rad, b.mid + b.rad);
    return (sb_ball){(low + high) / 2, (high - low) / 2};
}

double sb_ball_distance(sb_ball a, sb_ball b)
{
    double apart = sb_wide_abs(a.mid - b.mid) + a.rad + b.rad;
    return apart == apart ? apart : 0x1p1023 * 2.0; /* infinite balls have no bound */
}
