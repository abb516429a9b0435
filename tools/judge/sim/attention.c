/* attention.c - rotary positions, attention over the cache, and its gate. */
#include "tools/judge/sim/arith.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"

/* "inv_freq[f] = dot of ( RN( e_f / s ), e_f ) with ( RN( 1 - u_f ), u_f )": x is the first
 * of the pair, y the second. */
static float blend(const sb_sim_arith *s, const sb_rope_args *a, size_t f, float x, float y)
{
    float ramp = 0;
    if (f > a->yarn_low)
        ramp = f >= a->yarn_high ? 1.0f
                                 : sb_sim_divide(s, (float)(f - a->yarn_low),
                                                 (float)(a->yarn_high - a->yarn_low));
    float own = 1.0f - ramp, second = y * own;
    return sb_sim_multiply_add(s, x, 1.0f - own, second);
}

/* K-8: "exact is RN( theta^(-2f/rd) )"; "torch is RN( 1 / RN( RN(theta)^e ) )"; "the angle of every
 * other f is RN( the angle of f - 1 times RN( theta^(-2/rd) ) )" */
static float angle_of(const sb_sim_arith *s, const sb_knobs *knobs, const sb_rope_args *a, size_t f,
                      float position)
{
    const int yarn = a->yarn_factor > 0;
    double exponent = 2.0 * (double)f / (double)a->rd, theta = a->theta;
    if (SB_IS(knobs, rope_freq, torch)) {
        float power = sb_sim_power(s, (double)(float)theta, (double)(float)exponent);
        float inverse = sb_sim_divide(s, 1.0f, power);
        if (yarn)
            inverse = blend(s, a, f, sb_sim_divide(s, 1.0f, a->yarn_factor * power), inverse);
        return inverse * position;
    }
    if (!SB_IS(knobs, rope_freq, chain)) {
        float e = sb_sim_power(s, theta, -exponent);
        if (yarn)
            e = blend(s, a, f, sb_sim_divide(s, e, a->yarn_factor), e);
        return e * position;
    }
    float factor = sb_sim_power(s, theta, -2.0 / (double)a->rd), angle = position;
    for (size_t i = 0; i < f; i++)
        angle = angle * factor;
    return yarn ? blend(s, a, f, angle * sb_sim_divide(s, 1.0f, a->yarn_factor), angle) : angle;
}

/* "cos and sin are multiplied by m" */
static float scaled(const sb_rope_args *a, float x)
{
    return a->yarn_factor > 0 ? x * a->yarn_attention : x;
}

/* "frequency f takes height if f mod 3 is 1 and f < 3 section[1], width if f mod 3 is 2 and
 * f < 3 section[2], else time" */
static float position_of(const sb_rope_args *a, size_t f, size_t t)
{
    size_t stream = f % 3;
    int other = a->section && stream && f < 3u * a->section[stream];
    return (float)a->position[other ? stream : 0][t];
}

/* K-10: "dot is the two-term dot of R-7; products is R( R(x_f cos) + R(-x_{f+rd/2} sin) )" */
static float rotate(const sb_sim_arith *s, const sb_knobs *knobs, float x, float y, float cosine,
                    float sine)
{
    float first = x * cosine, second = y * sine;
    if (SB_IS(knobs, rope_pair, products))
        return sb_act(knobs, sb_act(knobs, first) + sb_act(knobs, second));
    return sb_act(knobs, sb_sim_multiply_add(s, x, cosine, second));
}

sb_status sb_sim_rope(const sb_sim_arith *s, const sb_knobs *knobs, const sb_rope_args *a)
{
    size_t half = a->rd / 2;
    int rounds = SB_IS(knobs, rope_table, act);
    for (size_t f = 0; f < half; f++)
        for (size_t t = 0; t < a->rows; t++) {
            float angle = angle_of(s, knobs, a, f, position_of(a, f, t));
            float cosine = sb_sim_act_if(knobs, rounds, scaled(a, sb_sim_cos(s, angle)));
            float sine = sb_sim_act_if(knobs, rounds, scaled(a, sb_sim_sin(s, angle)));
            for (size_t h = 0; h < a->heads; h++) {
                float *x = a->x + (t * a->heads + h) * a->hd;
                float first = x[f], second = x[f + half];
                x[f] = rotate(s, knobs, first, -second, cosine, sine);
                x[f + half] = rotate(s, knobs, second, first, cosine, sine);
            }
        }
    return SB_OK;
}

/* One row of one head over its cached positions. */
typedef struct head {
    const sb_sim_arith *s;
    const sb_knobs *knobs;
    const sb_attention_args *a;
    size_t kv_head, n;
    float *p, *q; /* (n), (hd) scratch */
} head;

/* K-11: "f16 rounds q and p to binary16 before their products with keys and values" */
static float narrow(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, scores, f16) ? sb_round_to(SB_FORMAT_f16, x) : x;
}

static float scale_or_one(float scale)
{
    return scale == 0 ? 1.0f : scale;
}

/* "s_u = RN( dot(q_t, k_u) RN(hd^-1/2) ) for u <= t"; K-11: "act to round scores, scaled
 * scores and probabilities" */
static void scores(const head *of, const float *q, float scale)
{
    const sb_attention_args *a = of->a;
    int rounds = SB_IS(of->knobs, scores, act);
    for (size_t i = 0; i < a->hd; i++)
        of->q[i] = narrow(of->knobs, q[i]);
    for (size_t u = 0; u < of->n; u++) {
        const float *k = a->keys + (u * a->kv_heads + of->kv_head) * a->hd;
        float dot = sb_sim_product(of->s, of->q, 1, k, 1, a->hd) * scale_or_one(a->key_scale);
        dot = sb_sim_act_if(of->knobs, rounds, dot);
        of->p[u] = sb_sim_act_if(of->knobs, rounds, dot * scale);
    }
}

/* K-11: "flash uses R(e_u) in place of p_u and divides at the end". So do engines of FORM_late. */
static int divides_outputs(const head *of)
{
    return SB_IS(of->knobs, scores, flash) ||
           (of->s->form == FORM_late && SB_IS(of->knobs, scores, f32));
}

/* "e_u = exp( RN(s_u - max s) ); p_u = RN( e_u / sum(e) )". Returns the sum. If the outputs
 * are divided by the sum, p keeps e_u. */
static float softmax(const head *of)
{
    float largest = of->p[0];
    for (size_t u = 1; u < of->n; u++)
        largest = of->p[u] > largest ? of->p[u] : largest;
    for (size_t u = 0; u < of->n; u++)
        of->p[u] = sb_sim_exp(of->s, of->p[u] - largest);
    float total = sb_sim_sum(of->s, of->p, of->n);
    int rounds = SB_IS(of->knobs, scores, act);
    for (size_t u = 0; u < of->n; u++)
        if (SB_IS(of->knobs, scores, flash))
            of->p[u] = sb_act(of->knobs, of->p[u]);
        else if (!divides_outputs(of))
            of->p[u] = narrow(
                of->knobs, sb_sim_act_if(of->knobs, rounds, sb_sim_divide(of->s, of->p[u], total)));
    return total;
}

/* "o_t = R( dot over u of p_u with v_u )" */
static void weigh(const head *of, float total, float *out)
{
    const sb_attention_args *a = of->a;
    const float *values = a->values + of->kv_head * a->hd;
    sb_sim_products(of->s, of->p, 1, values, a->kv_heads * a->hd, of->n, a->hd, out);
    for (size_t i = 0; i < a->hd; i++) {
        float o = out[i] * scale_or_one(a->value_scale);
        out[i] = sb_act(of->knobs, divides_outputs(of) ? sb_sim_divide(of->s, o, total) : o);
    }
}

typedef struct job {
    const sb_sim_arith *s;
    const sb_knobs *knobs;
    const sb_attention_args *a;
    float scale, *scratch;
} job;

static void one_head(void *ctx, size_t h, size_t worker)
{
    const job *j = ctx;
    const sb_attention_args *a = j->a;
    (void)worker;
    for (size_t t = 0; t < a->rows; t++) {
        size_t at = (t * a->heads + h) * a->hd;
        head of = {.s = j->s, .knobs = j->knobs, .a = a, .n = a->first + t + 1};
        of.kv_head = h / (a->heads / a->kv_heads);
        of.p = j->scratch + h * (a->first + a->rows + a->hd);
        of.q = of.p + a->first + a->rows;
        scores(&of, a->q + at, j->scale);
        weigh(&of, softmax(&of), a->out + at);
    }
}

sb_status sb_sim_attention(const sb_sim_arith *s, const sb_knobs *knobs, const sb_attention_args *a)
{
    size_t longest = a->first + a->rows;
    job j = {.s = s, .knobs = knobs, .a = a, .scale = sb_sim_root((double)a->hd, -0.5)};
    j.scratch = sb_alloc(a->heads, (longest + a->hd) * sizeof *j.scratch);
    if (!j.scratch)
        return SB_ERR_MEMORY;
    sb_parallel_for(a->heads, a->rows * a->heads * longest * a->hd > 200000, one_head, &j);
    free(j.scratch);
    return SB_OK;
}

/* "the q projection holds per head hd query rows, then hd gate rows" */
sb_status sb_sim_split_gate(const sb_sim_arith *s, const sb_knobs *knobs,
                            const sb_split_gate_args *a)
{
    (void)s, (void)knobs; /* copies only */
    for (size_t i = 0; i < a->rows * a->heads * a->hd; i++) {
        size_t row = i / a->hd, at = i % a->hd;
        a->query[i] = a->in[2 * row * a->hd + at];
        a->gate[i] = a->in[(2 * row + 1) * a->hd + at];
    }
    return SB_OK;
}

/* "y = R( RN(o sigmoid(gate)) )"; K-12: "act to round sigmoid(gate)" */
sb_status sb_sim_attn_gate(const sb_sim_arith *s, const sb_knobs *knobs, const sb_attn_gate_args *a)
{
    int rounds = SB_IS(knobs, attn_gate, act);
    for (size_t i = 0; i < a->count; i++) {
        float open = sb_sim_act_if(knobs, rounds, sb_sim_sigmoid(s, a->gate[i]));
        a->out[i] = sb_act(knobs, a->in[i] * open);
    }
    return SB_OK;
}
