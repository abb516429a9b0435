#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "ref/formats/round.h"
#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"

/* K-11: "act to round scores, scaled scores and probabilities" */
static float inner(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, scores, act) ? sb_act(knobs, x) : x;
}

/* K-11: "f16 rounds q and p to binary16 before their products with keys and values" */
static float narrow(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, scores, f16) ? sb_round_to(SB_FORMAT_f16, x) : x;
}

/* K-24: "The dot products of R-12 are then multiplied by z before they are rounded" */
static float rounded(const sb_exact *sum, float z)
{
    const sb_scalar factor = {{z == 0 ? 1.0f : z, 1}, {1, 1}};
    return sb_exact_round_scaled(sum, &factor);
}

/* "s_u = RN( dot(q_t, k_u) RN(hd^-1/2) ) for u <= t"; n scores. */
static void scores(const sb_knobs *knobs, const sb_attention_args *a, const float *q,
                   const float *keys, size_t n, float *s)
{
    float scale = sb_root_power((double)a->hd, -1, 2);
    for (size_t u = 0; u < n; u++) {
        sb_exact sum;
        sb_exact_clear(&sum);
        for (size_t i = 0; i < a->hd; i++)
            sb_exact_add_product(&sum, narrow(knobs, q[i]), keys[u * a->kv_heads * a->hd + i]);
        float dot = inner(knobs, rounded(&sum, a->key_scale));
        s[u] = inner(knobs, dot * scale);
    }
}

/* "e_u = exp( RN(s_u - max s) ); p_u = RN( e_u / sum(e) )", in place. Returns the divisor of
 * the output. K-11: "flash uses R(e_u) in place of p_u and divides at the end" */
static float softmax(const sb_knobs *knobs, float *s, size_t n)
{
    float largest = s[0];
    for (size_t u = 1; u < n; u++)
        largest = s[u] > largest ? s[u] : largest;
    for (size_t u = 0; u < n; u++)
        s[u] = sb_exp(s[u] - largest);
    float total = sb_exact_sum(s, 1, n);
    const int flash = SB_IS(knobs, scores, flash);
    for (size_t u = 0; u < n; u++)
        s[u] = flash ? sb_act(knobs, s[u]) : narrow(knobs, inner(knobs, s[u] / total));
    return flash ? total : 1.0f;
}

/* "o_t = R( dot over u of p_u with v_u )"; K-11: "o_t = R( RN( dot over u of R(e_u) with v_u
 * / sum(e) ) )" */
static void weigh(const sb_knobs *knobs, const sb_attention_args *a, const float *p, float total,
                  const float *values, size_t n, float *out)
{
    for (size_t i = 0; i < a->hd; i++) {
        sb_exact sum;
        sb_exact_clear(&sum);
        for (size_t u = 0; u < n; u++)
            sb_exact_add_product(&sum, p[u], values[u * a->kv_heads * a->hd + i]);
        out[i] = sb_act(knobs, rounded(&sum, a->value_scale) / total);
    }
}

/* "query head j uses key/value head floor(j / (nQ / nKV))" */
sb_status sb_attention_ref(const sb_knobs *knobs, const sb_attention_args *a)
{
    float *p = sb_alloc(a->first + a->rows, sizeof *p);
    for (size_t t = 0; p && t < a->rows; t++)
        for (size_t j = 0; j < a->heads; j++) {
            const size_t n = a->first + t + 1, at = (t * a->heads + j) * a->hd;
            const size_t kv = j / (a->heads / a->kv_heads) * a->hd;
            scores(knobs, a, a->q + at, a->keys + kv, n, p);
            float total = softmax(knobs, p, n);
            weigh(knobs, a, p, total, a->values + kv, n, a->out + at);
        }
    free(p);
    return p ? SB_OK : SB_ERR_MEMORY;
}

/* "the q projection holds per head hd query rows, then hd gate rows" */
sb_status sb_split_gate_ref(const sb_knobs *knobs, const sb_split_gate_args *a)
{
    (void)knobs; /* this op only copies */
    for (size_t row = 0; row < a->rows * a->heads; row++)
        for (size_t i = 0; i < a->hd; i++) {
            a->query[row * a->hd + i] = a->in[row * 2 * a->hd + i];
            a->gate[row * a->hd + i] = a->in[row * 2 * a->hd + a->hd + i];
        }
    return SB_OK;
}

/* "y = R( RN(o sigmoid(gate)) ), with sigmoid(gate) rounded to the activation type where K-12
 * says so" */
sb_status sb_attn_gate_ref(const sb_knobs *knobs, const sb_attn_gate_args *a)
{
    for (size_t i = 0; i < a->count; i++) {
        float open = sb_sigmoid(a->gate[i]);
        if (SB_IS(knobs, attn_gate, act))
            open = sb_act(knobs, open);
        a->out[i] = sb_act(knobs, a->in[i] * open);
    }
    return SB_OK;
}
