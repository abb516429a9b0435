/* bound_attention.c - softmax, and attention over the cache. */
#include "ref/base/root.h"
#include "tools/judge/bound/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"

/* T-11: "a common shift cancels. Each exponent errs by eta_i = delta_i + u (|s_i - max| + 2
 * delta_max), each e_i by exp(eta_i) and F u, the sum by their weighted mean and gamma_n, the
 * quotient by 2 u" */
void sb_bound_softmax(const sb_arithmetic *ar, sb_ball *s, size_t n)
{
    double largest = s[0].mid, delta = 0.0, total = 0.0, mean = 0.0;
    for (size_t i = 0; i < n; i++) {
        largest = sb_wide_max(largest, s[i].mid);
        delta = sb_wide_max(delta, s[i].rad);
    }
    for (size_t i = 0; i < n; i++) {
        double below = largest - s[i].mid + 2.0 * delta;
        s[i].rad +=
            (1.0 + ar->functions->exp_slope) * SB_UNIT * below + 0x1p-50 * sb_wide_abs(s[i].mid);
        s[i].mid = sb_wide_exp(s[i].mid - largest);
        total += s[i].mid;
        mean += s[i].mid * sb_wide_expm1(s[i].rad);
    }
    double common = mean / total + sb_gamma(ar, n) +
                    (2.0 * ar->functions->exp + 1.0 + ar->functions->divide) * SB_UNIT;
    for (size_t i = 0; i < n; i++) {
        double relative = sb_wide_expm1(SB_BOUND_SLACK * (s[i].rad + common));
        s[i].mid /= total;
        s[i].rad = s[i].mid * relative + ar->underflow;
    }
}

typedef struct row {
    const sb_arithmetic *ar;
    const sb_knobs *knobs;
    const sb_attention_args *a;
    size_t kv_head, n;        /* positions seen */
    sb_ball *p;               /* (n) scratch */
    const sb_ball *const *in; /* q, keys, values */
} row;

static sb_ball inner(const sb_knobs *knobs, sb_ball x)
{
    return SB_IS(knobs, scores, act) ? sb_ball_act(knobs, x) : x;
}

/* K-11: "f16 rounds q and p to binary16 before their products with keys and values" */
static sb_ball narrow(const sb_knobs *knobs, sb_ball x)
{
    return SB_IS(knobs, scores, f16) ? sb_ball_round_to(SB_FORMAT_f16, x) : x;
}

/* K-24: "The dot products of R-12 are then multiplied by z before they are rounded"; T-21: "a cache
 * with scales may be decoded first, with one rounding for each element" */
static sb_ball cached(const row *r, sb_ball x, float scale)
{
    if (scale == 0.0f || scale == 1.0f)
        return x;
    double value = x.mid * (double)scale, spread = x.rad * sb_wide_abs((double)scale);
    if (r->ar->any_order)
        spread += (sb_wide_abs(value) + spread) * SB_UNIT + r->ar->underflow;
    return (sb_ball){value, spread};
}

/* "s_u = RN( dot(q_t, k_u) RN(hd^-1/2) ) for u <= t" */
static void scores(const row *r, size_t q)
{
    const sb_attention_args *a = r->a;
    double root = 1.0 / sb_sqrt64((double)a->hd);
    float rounded_root =
        (float)root; /* the binary64 root is close enough for a sure rounding (T-5) */
    for (size_t u = 0; u < r->n; u++) {
        size_t key = (u * a->kv_heads + r->kv_head) * a->hd;
        sb_reduction sum = {0};
        for (size_t i = 0; i < a->hd; i++)
            sb_reduce(&sum, narrow(r->knobs, sb_bound_at(r->in[0], a->q, q + i)),
                      cached(r, sb_bound_at(r->in[1], a->keys, key + i), a->key_scale));
        sb_ball score = inner(r->knobs, sb_ball_reduced(r->ar, &sum));
        r->p[u] = inner(r->knobs, sb_ball_mul(r->ar, score, sb_ball_of(rounded_root)));
    }
}

/* T-21: "An arithmetic that adds in any order may have rounded e_u while a block of positions had a
 * smaller maximum. Relative to any maximum, this rounding is at most half a unit of the activation
 * type" */
static sb_ball rounded_in_blocks(const row *r, sb_ball e)
{
    sb_format format = sb_act_format(r->knobs);
    if (!r->ar->any_order || format == SB_FORMAT_f32)
        return sb_ball_act(r->knobs, e);
    double unit = format == SB_FORMAT_bf16 ? 0x1p-8 : 0x1p-11;
    e.rad += unit * (e.mid + e.rad) + 0x1p-25; /* the least binary16 is 2^-24 */
    return e;
}

/* K-11: "flash uses R(e_u) in place of p_u and divides at the end"; T-21: "e_u is taken relative to
 * the largest of the centres, which does not change the quotient". Writes R(e_u) to p and returns
 * sum(e). */
static sb_ball flash(const row *r)
{
    double largest = r->p[0].mid, delta = 0.0;
    sb_reduction total = {0};
    for (size_t u = 0; u < r->n; u++) {
        largest = sb_wide_max(largest, r->p[u].mid);
        delta = sb_wide_max(delta, r->p[u].rad);
    }
    for (size_t u = 0; u < r->n; u++) {
        sb_ball max = {largest, delta};
        sb_ball e = sb_ball_exp(r->ar, sb_ball_sub(r->ar, r->p[u], max));
        sb_reduce(&total, e, sb_ball_of(1.0f));
        r->p[u] = rounded_in_blocks(r, e);
    }
    return sb_ball_reduced(r->ar, &total);
}

/* Writes the factors of the values to p, and returns the divisor of the sum. */
static sb_ball probabilities(const row *r)
{
    if (SB_IS(r->knobs, scores, flash))
        return flash(r);
    sb_bound_softmax(r->ar, r->p, r->n);
    for (size_t u = 0; u < r->n; u++)
        r->p[u] = narrow(r->knobs, inner(r->knobs, r->p[u]));
    return sb_ball_of(1.0f);
}

/* "o_t = R( dot over u of p_u with v_u )" */
static void weigh(const row *r, sb_ball total, sb_ball *out)
{
    const sb_attention_args *a = r->a;
    int divides = SB_IS(r->knobs, scores, flash);
    for (size_t i = 0; i < a->hd; i++) {
        sb_reduction sum = {0};
        for (size_t u = 0; u < r->n; u++) {
            size_t at = (u * a->kv_heads + r->kv_head) * a->hd + i;
            sb_reduce(&sum, r->p[u],
                      cached(r, sb_bound_at(r->in[2], a->values, at), a->value_scale));
        }
        sb_ball o = sb_ball_reduced(r->ar, &sum);
        out[i] = sb_ball_act(r->knobs, divides ? sb_ball_div(r->ar, o, total) : o);
    }
}

/* T-11: "each probability errs by a factor e^a_u of its own and by one factor that all share".
 * Writes the real probabilities, with radius e^a_u - 1, to p; returns the sum of p_u (e^a_u -
 * 1). */
static double soften(const row *r)
{
    double largest = r->p[0].mid, delta = 0.0, total = 0.0, mean = 0.0;
    for (size_t u = 0; u < r->n; u++) {
        largest = sb_wide_max(largest, r->p[u].mid);
        delta = sb_wide_max(delta, r->p[u].rad);
    }
    for (size_t u = 0; u < r->n; u++) {
        sb_ball *p = &r->p[u];
        double below = largest - p->mid + 2.0 * delta;
        double a =
            p->rad + SB_UNIT * below + sb_exp_error(r->ar, below) + 0x1p-50 * sb_wide_abs(p->mid);
        *p = (sb_ball){sb_wide_exp(p->mid - largest), sb_wide_expm1(SB_BOUND_SLACK * a)};
        total += p->mid;
    }
    for (size_t u = 0; u < r->n; u++) {
        r->p[u].mid /= total;
        mean += r->p[u].mid * r->p[u].rad;
    }
    return mean;
}

/* T-11: "|o~ - o| <= sum( p_u (e^a_u - 1) |v_u - o| ) / (1 - m)" for one column of the values. */
static sb_ball centred(const row *r, double mean, size_t i)
{
    const sb_attention_args *a = r->a;
    double o = 0.0, size = 0.0, apart = 0.0, values = 0.0, least = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t u = 0; u < r->n; u++) {
            size_t at = (u * a->kv_heads + r->kv_head) * a->hd + i;
            sb_ball v = cached(r, sb_bound_at(r->in[2], a->values, at), a->value_scale);
            double p = r->p[u].mid;
            if (pass == 0) {
                o += p * v.mid;
                continue;
            }
            size += p * (1.0 + r->p[u].rad) * (sb_wide_abs(v.mid) + v.rad);
            apart += p * r->p[u].rad * sb_wide_abs(v.mid - o);
            values += p * (1.0 + r->p[u].rad) * v.rad;
            least += sb_wide_abs(v.mid) * 2.0 * r->ar->underflow;
        }
    double error = (apart + values) / (1.0 - mean);
    double quotient = (1.0 + r->ar->functions->divide) * SB_UNIT;
    double common = sb_gamma(r->ar, r->n) + quotient;
    size /= 1.0 - mean;
    error += SB_BOUND_SLACK * (common * (sb_wide_abs(o) + error) + quotient * size) + least;
    const sb_reduction sum = {.sum = o, .magnitude = size + error, .spread = error, .n = r->n};
    return sb_ball_act(r->knobs, sb_ball_reduced(r->ar, &sum));
}

/* One head of one row. The tighter bound of soften() is not used if knobs round p, if the products
 * run on a matrix unit (T-18 asks for more), or if a score may be anything. */
static void attend(const row *r, sb_ball *out)
{
    double widest = 0.0;
    for (size_t u = 0; u < r->n; u++)
        widest = sb_wide_max(widest, r->p[u].rad);
    if (!SB_IS(r->knobs, scores, f32) || r->ar->atom || !(widest < 0x1p-6)) {
        weigh(r, probabilities(r), out);
        return;
    }
    double mean = soften(r);
    for (size_t i = 0; i < r->a->hd; i++)
        out[i] = centred(r, mean, i);
}

sb_status sb_bound_attention_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                                const sb_attention_args *a, const sb_ball *const *in, sb_ball *out,
                                sb_ball *second)
{
    (void)second;
    row r = {.ar = ar, .knobs = knobs, .a = a, .in = in};
    r.p = sb_alloc(a->first + a->rows, sizeof *r.p);
    if (!r.p)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = (t * a->heads + h) * a->hd;
            r.kv_head = h / (a->heads / a->kv_heads);
            r.n = a->first + t + 1;
            scores(&r, at);
            attend(&r, out + at);
        }
    free(r.p);
    return SB_OK;
}
