#include "tools/compare/ball.h"
#include "tools/compare/wide_fn.h"

/* T-5: "each step adds 2^-50 of its result for binary64" */
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

/* T-1: "operands without spread give one result in every arithmetic" */
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

sb_ball sb_ball_div(const sb_arithmetic *ar, sb_ball a, sb_ball b)
{
    if (exact(a, b))
        return sb_ball_of((float)a.mid / (float)b.mid);
    double quotient = a.mid / b.mid;
    return rounded(ar, quotient,
                   (a.rad + sb_wide_abs(quotient) * b.rad) / (sb_wide_abs(b.mid) - b.rad));
}

/* T-4: "rounding is monotone, so the ends of the ball bound the rounded values" */
sb_ball sb_ball_round_to(sb_format format, sb_ball x)
{
    if (format == SB_FORMAT_f32)
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

/* T-2: "the computed sum lies within gamma_n sum|a_i b_i| of the sum, a correctly rounded one
 * within u of its own magnitude" */
sb_ball sb_ball_reduced(const sb_arithmetic *ar, const sb_reduction *r)
{
    double measure = ar->any_order ? r->magnitude : sb_wide_abs(r->sum) + r->spread;
    double error = vector_gamma(ar, r->n) * measure;
    if (ar->atom)
        error = sb_larger(error, sb_atom_error(ar, r));
    return sb_ball_summed(ar, r, error);
}

/* T-5: "reductions (n + 2) 2^-52 of their magnitude" */
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

/* T-3: "the computed value lies within F u |f(x)| + eta of f(x)": y is f(mid), spread how far f
 * goes in the ball.  */
static sb_ball function(const sb_arithmetic *ar, double y, double spread)
{
    return ball(y, spread + ar->function * SB_UNIT * (sb_wide_abs(y) + spread) + ar->underflow);
}

sb_ball sb_ball_exp(const sb_arithmetic *ar, sb_ball x)
{
    double y = sb_wide_exp(x.mid);
    return function(ar, y, y * sb_wide_expm1(x.rad));
}

/* T-3: "log, rsqrt and sqrt are taken at the end of their interval" */
sb_ball sb_ball_log(const sb_arithmetic *ar, sb_ball x)
{
    return function(ar, sb_wide_log(x.mid), -sb_wide_log1p(-x.rad / x.mid));
}

sb_ball sb_ball_sqrt(const sb_arithmetic *ar, sb_ball x)
{
    double y = sb_wide_sqrt(x.mid), low = x.rad < x.mid ? sb_wide_sqrt(x.mid - x.rad) : 0.0;
    return function(ar, y, y - low > 0 ? y - low : 0.0);
}

sb_ball sb_ball_rsqrt(const sb_arithmetic *ar, sb_ball x)
{
    double y = 1.0 / sb_wide_sqrt(x.mid);
    return function(ar, y, 1.0 / sb_wide_sqrt(x.mid - x.rad) - y);
}

/* T-3: "sigmoid' <= 1/4 and sigmoid' <= sigmoid" */
sb_ball sb_ball_sigmoid(const sb_arithmetic *ar, sb_ball x)
{
    double y = 1.0 / (1.0 + sb_wide_exp(-x.mid));
    return function(ar, y, sb_wide_min(x.rad / 4, y * sb_wide_expm1(x.rad)));
}

/* T-3: "|silu'| <= 1.1"; "a sigmoid that underflows is multiplied by x" */
sb_ball sb_ball_silu(const sb_arithmetic *ar, sb_ball x)
{
    sb_ball y = function(ar, x.mid / (1.0 + sb_wide_exp(-x.mid)), 1.1 * x.rad);
    y.rad += (sb_wide_abs(x.mid) + x.rad) * ar->underflow;
    return y;
}

/* T-3: "softplus' <= 1 and softplus' <= softplus"; K-4's other form leaves out log(1 + e^-x) beyond
 * 20, which is less than e^-20. */
sb_ball sb_ball_softplus(const sb_arithmetic *ar, sb_ball x)
{
    double y =
        x.mid > 0 ? x.mid + sb_wide_log1p(sb_wide_exp(-x.mid)) : sb_wide_log1p(sb_wide_exp(x.mid));
    sb_ball z = function(ar, y, sb_wide_min(x.rad, y * sb_wide_expm1(x.rad)));
    if (x.mid + x.rad > 20.0)
        z.rad += sb_wide_exp(-20.0);
    return z;
}

/* T-3: "sine and cosine err by at most F u, absolute" */
sb_ball sb_ball_cos(const sb_arithmetic *ar, sb_ball x)
{
    return (sb_ball){sb_wide_cos(x.mid), x.rad + ar->function * SB_UNIT};
}

sb_ball sb_ball_sin(const sb_arithmetic *ar, sb_ball x)
{
    return (sb_ball){sb_wide_sin(x.mid), x.rad + ar->function * SB_UNIT};
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
    return apart == apart ? apart : 0x1p1023 * 2.0; /* of balls without an end nothing is known */
}
