#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/form.h"
#include "ref/ops/op.h"

/* "S = RN(exp(g_t) S); m[j] = dot(S[:, j], k_t); d[j] = RN( RN(v_t[j] - m[j]) beta_t ); S[i,
 * j] = RN( S[i, j] + RN(k_t[i] d[j]) ); o_t[j] = R( dot(S[:, j], q_t) ), with the updated S." For
 * row t and head h. K-16: "the output of the rule is multiplied before R: o = R( RN( RN(o')
 * RN(dk^-1/2) ) )" */
static void step(const sb_knobs *knobs, const sb_delta_rule_args *a, size_t t, size_t h, float *S)
{
    const size_t dk = a->dk, dv = a->dv, hk = h / (a->v_heads / a->k_heads);
    const size_t at = t * a->v_heads + h;
    const float *q = a->q + (t * a->k_heads + hk) * dk, *k = a->k + (t * a->k_heads + hk) * dk;
    const float *v = a->v + t * a->v_stride + h * dv;
    float decay = sb_exp(a->g[at]);
    float scale = sb_scales_output(knobs, 1) ? sb_root_power((double)dk, -1, 2) : 1.0f;
    for (size_t i = 0; i < dk * dv; i++)
        S[i] = decay * S[i];
    for (size_t j = 0; j < dv; j++) {
        float m = sb_exact_dot(S + j, dv, k, 1, dk);
        float difference = v[j] - m;
        float d = difference * a->beta[at];
        for (size_t i = 0; i < dk; i++) {
            float change = k[i] * d;
            S[i * dv + j] = S[i * dv + j] + change;
        }
        float o = sb_exact_dot(S + j, dv, q, 1, dk);
        a->out[at * dv + j] = sb_act(knobs, o * scale);
    }
}

/* "per value head h, whose query and key head is floor(h / r), with state S of dk x dv in
 * binary32, row by row"; "At every length of call, this recurrent form is the definition." */
sb_status sb_delta_rule_ref(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    const size_t size = a->dk * a->dv;
    for (size_t h = 0; h < a->v_heads; h++) {
        float *S = a->state + h * size;
        for (size_t t = 0; t < a->rows; t++) {
            step(knobs, a, t, h, S);
            if (a->trail)
                sb_keep_state(knobs, S, size, a->trail + (t * a->v_heads + h) * size);
        }
        sb_keep_state(knobs, S, size, S);
    }
    return SB_OK;
}
