/* bound_attention.c - softmax, and attention over the cache. */
#include "tools/compare/bound.h"

#include <math.h>
#include <stdlib.h>

#include "ref/base/mem.h"

/* T-11: "a common shift cancels; each exponent errs by eta_i = delta_i + u (|s_i - max| + 2
 * delta_max), each e_i by exp(eta_i) and F u, the sum by their weighted mean and gamma_n, the
 * quotient by 2 u" */
void sb_bound_softmax(const sb_arithmetic *ar, sb_ball *s, size_t n)
{
    double largest = s[0].mid, delta = 0.0, total = 0.0, mean = 0.0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, s[i].mid);
        delta = fmax(delta, s[i].rad);
    }
    for (size_t i = 0; i < n; i++) {
        s[i].rad += SB_UNIT * (largest - s[i].mid + 2.0 * delta) + 0x1p-50 * fabs(s[i].mid);
        s[i].mid = exp(s[i].mid - largest);
        total += s[i].mid;
        mean += s[i].mid * expm1(s[i].rad);
    }
    double common = mean / total + (2.0 * ar->function + 2.0) * SB_UNIT + sb_gamma(ar, n);
    for (size_t i = 0; i < n; i++) {
        double relative = expm1(SB_BOUND_SLACK * (s[i].rad + common));
        s[i].mid /= total;
        s[i].rad = s[i].mid * relative + ar->underflow;
    }
}

typedef struct row {
    const sb_arithmetic *ar;
    const sb_knobs *knobs;
    const sb_attention_args *a;
    size_t kv_head, n; /* positions seen */
    sb_ball *p;        /* (n) scratch */
} row;

static sb_ball inner(const sb_knobs *knobs, sb_ball x)
{
    return SB_IS(knobs, scores, act) ? sb_ball_act(knobs, x) : x;
}

/* "s_u = RN( dot(q_t, k_u) RN(hd^-1/2) ) for u <= t" */
static void scores(const row *r, const float *q)
{
    const sb_attention_args *a = r->a;
    double root = 1.0 / sqrt((double)a->hd);
    float rounded_root =
        (float)root; /* of binary64: so close to the root that rounding is sure (T-5) */
    for (size_t u = 0; u < r->n; u++) {
        const float *key = a->keys + (u * a->kv_heads + r->kv_head) * a->hd;
        sb_reduction sum = {0};
        for (size_t i = 0; i < a->hd; i++)
            sb_reduce(&sum, sb_ball_of(q[i]), sb_ball_of(key[i]));
        sb_ball score = inner(r->knobs, sb_ball_reduced(r->ar, &sum));
        r->p[u] = inner(r->knobs, sb_ball_mul(r->ar, score, sb_ball_of(rounded_root)));
    }
}

/* "o_t = R( dot over u of p_u with v_u )" */
static void weigh(const row *r, sb_ball *out)
{
    const sb_attention_args *a = r->a;
    for (size_t u = 0; u < r->n; u++)
        r->p[u] = inner(r->knobs, r->p[u]);
    for (size_t i = 0; i < a->hd; i++) {
        sb_reduction sum = {0};
        for (size_t u = 0; u < r->n; u++) {
            float value = a->values[(u * a->kv_heads + r->kv_head) * a->hd + i];
            sb_reduce(&sum, r->p[u], sb_ball_of(value));
        }
        out[i] = sb_ball_act(r->knobs, sb_ball_reduced(r->ar, &sum));
    }
}

sb_status sb_bound_attention(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_attention_args *a, sb_ball *out, sb_ball *second)
{
    (void)second;
    row r = {.ar = ar, .knobs = knobs, .a = a};
    r.p = sb_alloc(a->first + a->rows, sizeof *r.p);
    if (!r.p)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = (t * a->heads + h) * a->hd;
            r.kv_head = h / (a->heads / a->kv_heads);
            r.n = a->first + t + 1;
            scores(&r, a->q + at);
            sb_bound_softmax(ar, r.p, r.n);
            weigh(&r, out + at);
        }
    free(r.p);
    return SB_OK;
}
