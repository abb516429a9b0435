#include "tools/judge/gate/attend.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/root.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/bound/wide_fn.h"

typedef struct row {
    const sb_arithmetic *ar;
    const sb_knobs *knobs;
    const sb_attention_args *a;
    size_t kv_head, n; /* positions seen */
    sb_ball *s, *p;    /* (n) scores, and their softmax */
} row;

/* "s_u = RN( dot(q_t, k_u) RN(hd^-1/2) ) for u <= t" */
static void scores(const row *r, const float *q)
{
    const sb_attention_args *a = r->a;
    sb_ball root = sb_ball_of((float)(1.0 / sb_sqrt64((double)a->hd)));
    for (size_t u = 0; u < r->n; u++) {
        const float *key = a->keys + (u * a->kv_heads + r->kv_head) * a->hd;
        sb_reduction sum = {0};
        for (size_t i = 0; i < a->hd; i++)
            sb_reduce(&sum, sb_ball_of(q[i]), sb_ball_of(key[i]));
        sb_ball dot = sb_ball_reduced(r->ar, &sum);
        if (SB_IS(r->knobs, scores, act))
            dot = sb_ball_act(r->knobs, dot);
        r->s[u] = sb_ball_mul(r->ar, dot, root);
        if (SB_IS(r->knobs, scores, act))
            r->s[u] = sb_ball_act(r->knobs, r->s[u]);
    }
}

/* T-11: "Softmax: a common shift cancels": the errors of s - M, for any M, and of exp are added to
 * the score's radius. Returns the largest radius before that. */
static double soften(const row *r)
{
    double largest = r->s[0].mid, delta = 0.0;
    for (size_t u = 0; u < r->n; u++) {
        largest = sb_wide_max(largest, r->s[u].mid);
        delta = sb_wide_max(delta, r->s[u].rad);
    }
    for (size_t u = 0; u < r->n; u++) {
        double below = largest - r->s[u].mid + 2.0 * delta;
        r->s[u].rad +=
            SB_UNIT * below + sb_exp_error(r->ar, below) + 0x1p-50 * sb_wide_abs(r->s[u].mid);
    }
    return delta;
}

/* T-21: "at most half a unit of the activation type" - the least binary16 is 2^-24. */
double sb_gate_rounding(const sb_knobs *knobs, double magnitude)
{
    switch (sb_act_format(knobs)) {
    case SB_FORMAT_bf16:
        return SB_BOUND_SLACK * 0x1p-9 * magnitude;
    case SB_FORMAT_f16:
        return SB_BOUND_SLACK * (0x1p-12 * magnitude + 0x1p-25);
    default:
        return 0.0;
    }
}

/* V-53: "p_u is at most 1 / (1 + sum of e^(s_v - d_v - s_u - d_u)) over the other positions v, and
 * at least 1 / (1 + sum of e^(s_v + d_v - s_u + d_u))" */
static sb_ball probability(const row *r, size_t u)
{
    double most = 1.0, least = 1.0,
           common = sb_gamma(r->ar, r->n) + (1.0 + r->ar->functions->divide) * SB_UNIT;
    for (size_t v = 0; v < r->n; v++) {
        double gap = r->s[v].mid - r->s[u].mid, d = r->s[v].rad + r->s[u].rad;
        least += v == u ? 0.0 : sb_wide_exp(gap + d);
        most += v == u ? 0.0 : sb_wide_exp(gap - d);
    }
    double low = (1.0 - common) / least, high = (1.0 + common) / most;
    sb_ball p = {(low + high) / 2, (high - low) / 2 + r->ar->underflow};
    if (SB_IS(r->knobs, scores, flash))
        p.rad += sb_gate_rounding(r->knobs, high);
    return SB_IS(r->knobs, scores, act) ? sb_ball_act(r->knobs, p) : p;
}

/* One head of one row. */
static void attend(const row *r, const float *q, sb_ball *out)
{
    const sb_attention_args *a = r->a;
    scores(r, q);
    if (soften(r) < 0x1p-6)
        return;
    for (size_t u = 0; u < r->n; u++)
        r->p[u] = probability(r, u);
    for (size_t i = 0; i < a->hd; i++) {
        sb_reduction sum = {0};
        for (size_t u = 0; u < r->n; u++)
            sb_reduce(&sum, r->p[u],
                      sb_ball_of(a->values[(u * a->kv_heads + r->kv_head) * a->hd + i]));
        sb_ball o = sb_ball_act(r->knobs, sb_ball_reduced(r->ar, &sum));
        if (!(out[i].rad <= o.rad)) /* also if the radius is NaN */
            out[i] = o;
    }
}

sb_status sb_gate_attend(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_attention_args *a,
                         sb_ball *out)
{
    row r = {.ar = ar, .knobs = knobs, .a = a};
    r.s = sb_alloc(a->first + a->rows, 2 * sizeof *r.s);
    sb_status status = r.s ? sb_bound_attention(ar, knobs, a, out, NULL) : SB_ERR_MEMORY;
    r.p = r.s ? r.s + a->first + a->rows : NULL;
    for (size_t t = 0; t < a->rows && !status; t++)
        for (size_t h = 0; h < a->heads; h++) {
            size_t at = (t * a->heads + h) * a->hd;
            r.kv_head = h / (a->heads / a->kv_heads);
            r.n = a->first + t + 1;
            attend(&r, a->q + at, out + at);
        }
    free(r.s);
    return status;
}
