#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/math/fn.h"
#include "ref/fast/dot/sweep.h"
#include "ref/ops/form.h"
#include "ref/fast/fast.h"

#include <stdlib.h>

/* The state of one head. */
typedef struct one_head {
    const sb_knobs *knobs;
    float *S; /* (dk, dv) */
    size_t dk, dv;
    float scale;       /* of the output (K-16), or 1 */
    const float *next; /* state of the next head, or NULL */
} one_head;

/* The part of the next head's state that a sweep prefetches at column j of 2 dv: a line of 16
 * values for each row. */
static const float *fetch(const one_head *at, size_t j)
{
    return at->next && j + SB_SWEEP <= 2 * at->dv ? at->next + at->dk * j / 2 : NULL;
}

/* One row of one head. S (dk, dv) is decayed, gives a prediction, is corrected, and is read: R-9:
 * "S = RN(exp(g_t) S); m[j] = dot(S[:, j], k_t); d[j] = RN( RN(v_t[j] - m[j]) beta_t )" Columns are
 * independent, so each group of columns goes through all steps, in two sweeps. */
static void step(const one_head *at, const float *q, const float *k, const float *v, float g,
                 float beta, float *o)
{
    float d[SB_SWEEP], decay = sb_exp(g);
    sb_sweeper key, query;
    sb_sweeper_set(&key, k, at->dk);
    sb_sweeper_set(&query, q, at->dk);
    for (size_t j = 0, count; j < at->dv; j += count) {
        count = at->dv - j < SB_SWEEP ? at->dv - j : SB_SWEEP;
        sb_columns S = {.at = at->S + j, .stride = at->dv, .rows = at->dk, .columns = count};
        S.ahead = fetch(at, 2 * j);
        sb_sweep_scale(&S, decay, &key, d);
        for (size_t l = 0; l < count; l++) {
            float difference = v[j + l] - d[l];
            d[l] = difference * beta;
        }
        S.ahead = fetch(at, 2 * j + SB_SWEEP);
        sb_sweep_add(&S, &key, d, &query, o + j);
    }
    for (size_t j = 0; j < at->dv; j++)
        o[j] = sb_act(at->knobs, o[j] * at->scale);
}

typedef struct job {
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    float scale;
} job;

/* "per value head h, whose query and key head is floor(h / r)" */
static void run_head(void *ctx, size_t h, size_t worker)
{
    const job *j = ctx;
    const sb_delta_rule_args *a = j->a;
    const size_t hk = h / (a->v_heads / a->k_heads), size = a->dk * a->dv;
    one_head of = {j->knobs, a->state + h * size, a->dk, a->dv, j->scale, NULL};
    (void)worker;
    for (size_t t = 0; t < a->rows; t++) {
        int last = t + 1 == a->rows && h + 1 < a->v_heads;
        of.next = last ? of.S + size : NULL;
        const float *q = a->q + (t * a->k_heads + hk) * a->dk;
        const float *k = a->k + (t * a->k_heads + hk) * a->dk;
        const float *v = a->v + t * a->v_stride + h * a->dv;
        size_t at = t * a->v_heads + h;
        step(&of, q, k, v, a->g[at], a->beta[at], a->out + at * a->dv);
        if (a->trail)
            sb_keep_state(j->knobs, of.S, size, a->trail + at * size);
    }
    sb_keep_state(j->knobs, of.S, size, of.S);
}

/* "At every length of call, this recurrent form is the definition." */
sb_status sb_delta_rule_fast(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    job j = {knobs, a, sb_scales_output(knobs, 1) ? sb_root_power((double)a->dk, -1, 2) : 1.0f};
    const double values = (double)(a->rows * a->v_heads * a->dk) * (double)a->dv;
    sb_parallel_for(a->v_heads, sb_worth_threads(values * SB_COST_state), run_head, &j);
    return SB_OK;
}
